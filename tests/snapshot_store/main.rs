//! The snapshot branch, judged by git itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(missing_docs, clippy::missing_docs_in_private_items)]

mod concurrency;
mod externals;
mod fidelity;
mod hostile;
mod place;
mod recording;
mod repositories;
mod rules;
