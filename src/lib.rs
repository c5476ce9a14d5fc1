//! The file tools that coding agents work with: gated by what the session has read, atomic,
//! undoable, one snapshot commit a change; JSON in, JSON out.
//!
//! The engine ([`engine`]) knows the workspace and nothing of who calls it; [`tools`] are its
//! verbs, listed once; [`cli`] and [`mcp`] are the two front ends over that list, both built on [`app`];
//! [`dialect`] gives both the tool names that model families know.

// Elsewhere nothing is compiled, so that the one sentence of `main.rs` is all that the compiler says.
#![cfg(target_os = "linux")]
// A path string is looked up anew by each call: what may be shipped is reached beneath opened folders.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
// A function does one thing; one that takes longer is made of steps with names.
#![cfg_attr(not(test), deny(clippy::too_many_lines))]

pub mod apart;
pub mod app;
pub mod buffer;
pub mod catalog;
pub mod cli;
pub mod control;
pub mod dialect;
pub mod engine;
pub mod envelope;
pub mod error;
pub mod mcp;
#[cfg(test)]
mod random;
pub mod request;
pub mod search;
pub mod sha256;
pub mod text;
pub mod tools;
