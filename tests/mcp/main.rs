//! `lbx mcp`, driven over its pipes as a client would.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail, and its name says what it is about"
)]

mod batches;
mod calls;
mod client;
mod confirm;
mod cost;
mod declared;
mod kept;
mod library;
mod life;
mod line_edits;
mod lines;
mod native_calls;
mod offered;
mod providers;
mod revisions;
mod roots;
mod schema;
#[path = "../common/skip.rs"]
mod skip;
#[path = "../dialects/zero_filled.rs"]
mod zero_filled;
