//! The changes that answer one prompt are a turn: undone, listed and shown as a whole, whatever happened since.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail, and its name says what it is about"
)]

mod calls;
#[path = "../common/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each test crate uses a part of it")]
mod common;
mod histories;
