//! Hostile clones: by design lbx acts on nothing that they bring.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail, and its name says what it is about"
)]

#[path = "../common/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each test crate uses a part of it")]
mod common;

mod common_ground;
mod id;
mod removal;
mod repository;
mod shipped;
mod swaps;
mod tampered;
mod workspaces;
