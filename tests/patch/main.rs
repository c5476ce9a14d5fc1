//! `patch` compared with git and Codex, on tables of cases, and on arbitrary bytes.

#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail, and its name says what it is about"
)]

#[path = "../common/mod.rs"]
#[expect(dead_code, unused_imports, reason = "it is shared with tests that need other parts of it")]
mod common;

mod cases;
mod codex;
mod history;
mod properties;
mod round_trip;
mod symlinks;
mod whole;
