//! The file tools that coding agents work with: gated by what the session has read, atomic,
//! undoable, one snapshot commit a change; JSON in, JSON out.

pub mod control;
pub mod engine;
pub mod error;
pub mod search;
pub mod sha256;
pub mod text;
pub mod tools;
