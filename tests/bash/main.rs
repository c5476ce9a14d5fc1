//! `bash`: what a confined command can and cannot do, how it ends, and what the answer reports.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail, and its name says what it is about"
)]

#[path = "../common/mod.rs"]
#[expect(dead_code, unused_imports, reason = "each test crate uses a part of it")]
mod common;

mod asked;
mod bounded;
mod caches;
mod confined;
mod direct;
mod ended;
mod hints;
mod inherited;
mod jobs;
mod landlock;
mod layers;
mod looks;
mod loopback;
mod network;
mod outside;
mod podman;
mod ran;
mod random;
mod read_only;
mod recorded;
mod server;
mod session_tmp;
mod support;
mod transactions;
