//! File tools for coding agents: gated by what the session has read, atomic, undoable, with one snapshot commit per
//! change; JSON in, JSON out.
//!
//! The engine ([`engine`]) knows the workspace and nothing of its callers; [`tools`] are its verbs, listed once;
//! [`cli`] and [`mcp`] are the two front ends over that list, both built on [`app`]; [`dialect`] gives both the tool
//! names that model families know.

// On other systems nothing is compiled, so that the compiler shows only the one sentence of `main.rs`.
#![cfg(unix)]
// Such a function looks up a path string again on each call: shipped code reaches files through open folders.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
// A function does one thing; a longer one is made of named steps.
#![cfg_attr(not(test), deny(clippy::too_many_lines))]

pub mod app;
pub mod buffer;
pub mod catalog;
pub mod cli;
pub mod control;
pub mod dialect;
pub mod engine;
pub mod envelope;
pub mod error;
pub mod limits;
pub mod mcp;
pub mod message;
pub mod platform;
#[cfg(test)]
mod random;
pub mod request;
pub mod search;
pub mod sha256;
#[cfg(test)]
#[path = "../tests/common/skip.rs"]
mod skip;
pub mod text;
pub mod tools;

/// Version, with the commit that it was built from if `.ci/release` or `install.sh` built it.
pub const VERSION: &str = match option_env!("LBX_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};
