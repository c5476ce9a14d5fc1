//! libFuzzer's way into `entry::apply`.
#![no_main]

#[path = "../entry.rs"]
mod entry;
// The module alone, so that not all of lbx is built with a sanitizer.
#[allow(dead_code, unused_imports)]
#[path = "../../src/text/patch/mod.rs"]
mod patch;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::apply(data));
