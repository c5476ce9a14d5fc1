//! The snapshot branch as the real binary makes and shows it, checked by git itself.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail, and its name says what it is about"
)]

#[path = "../common/mod.rs"]
#[expect(dead_code, unused_imports, reason = "each test crate uses a part of it")]
mod common;

mod apart;
mod baseline;
mod developer;
mod diff;
mod generated_history;
mod hostile;
mod log;
mod mixed;
mod moves;
mod recording;
mod shared;
mod squash_again;
mod terminal;
