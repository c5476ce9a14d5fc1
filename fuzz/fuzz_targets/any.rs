//! Entry point of libFuzzer for the target that `LBX_FUZZ_TARGET` names.
#![no_main]

#[path = "../entry/mod.rs"]
mod entry;

use std::sync::LazyLock;

/// Target that this process fuzzes.
static RUN: LazyLock<entry::Target> = LazyLock::new(|| {
    let name = std::env::var("LBX_FUZZ_TARGET").unwrap_or_default();
    let names: Vec<&str> = entry::TARGETS.iter().map(|target| target.0).collect();
    let found = entry::TARGETS.iter().find(|target| target.0 == name);
    found.unwrap_or_else(|| panic!("LBX_FUZZ_TARGET must be one of: {}", names.join(" "))).1
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| RUN(data));
