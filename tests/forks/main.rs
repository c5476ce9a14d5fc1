//! Forks: layers over the workspace, each with a session, a history and an undo of its own.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail, and its name says what it is about"
)]

mod care;
mod clients;
#[path = "../common/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each test crate uses a part of it")]
mod common;
mod copies;
mod created;
mod frozen;
mod merged;
mod merged_random;
mod programs;
mod reviewed;
