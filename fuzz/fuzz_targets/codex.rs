//! libFuzzer's way into `entry::codex`.
#![no_main]

#[path = "../../src/buffer.rs"]
#[allow(dead_code)]
mod buffer;
#[path = "../entry.rs"]
mod entry;
#[path = "../text.rs"]
mod text;

use text::patch;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::codex(data));
