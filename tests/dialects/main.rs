//! Each dialect speaks as its family does, on the command line and over MCP, in the same words.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail, and its name says what it is about"
)]

#[path = "../common/mod.rs"]
#[expect(dead_code, unused_imports, reason = "each test crate uses a part of it")]
mod common;

mod families;
mod names;
mod notebook;
mod over_mcp;
mod steps;
mod transcripts;
mod zero_filled;
