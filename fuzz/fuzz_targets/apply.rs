//! libFuzzer's way into `entry::apply`.
#![no_main]

#[path = "../entry.rs"]
mod entry;

use lbx::text::patch;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::apply(data));
