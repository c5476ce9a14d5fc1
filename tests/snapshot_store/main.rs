//! The snapshot branch, checked by git itself.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail, and its name says what it is about"
)]

mod concurrency;
mod externals;
mod fidelity;
mod folders;
#[path = "../common/git_env.rs"]
mod git_env;
mod hostile;
mod killed;
mod listing;
mod measure;
mod packing;
mod place;
mod recording;
mod repositories;
mod rules;
mod scanning;
mod walking;
