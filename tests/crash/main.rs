//! Changes that are killed or fail at any point: complete or not applied, and the next call works.
//!
//! Every k-th system call is tried; `LBX_CRASH_ALL=1` tries each.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::format_push_string,
    reason = "a test may fail, and its name says what it is about"
)]

#[expect(dead_code, unused_imports, reason = "it is shared with tests that need other parts of it")]
#[path = "../common/mod.rs"]
mod common;

mod closed;
mod errors;
mod everything_back;
mod forks;
mod git_locks;
mod hammer;
mod inject;
mod judge;
mod killed;
mod late;
mod limits;
mod many;
mod mix;
mod mounts;
mod outsiders;
mod packed;
mod power;
mod pruned;
mod scenarios;
mod shared;
mod told;
mod writers;
