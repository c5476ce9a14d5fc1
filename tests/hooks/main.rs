//! A client's own tools, guarded by its hooks.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail, and its name says what it is about"
)]

mod agents;
mod clients;
#[path = "../common/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each test crate uses a part of it")]
mod common;
mod guard;
mod histories;
mod player;
mod plugins;
