//! lbx with third-party clients and servers: the official MCP SDKs, the Inspector and the conformance suite, and the
//! reference servers of two dialects. `.ci/clients` installs them into `target/clients`, or `LBX_CLIENTS` names their
//! folder. Without them every test is skipped with a message.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail, and its name says what it is about"
)]

#[path = "../common/mod.rs"]
#[expect(dead_code, unused_imports, reason = "each test crate uses a part of it")]
mod common;
#[path = "../mcp/native_calls.rs"]
mod native_calls;
#[path = "../dialects/steps.rs"]
mod steps;
#[path = "../dialects/transcripts.rs"]
mod transcripts;

mod behaviour;
mod claude_code;
mod codex;
mod conformance;
mod driver;
mod endpoint;
mod inspector;
mod installed;
mod reference_filesystem;
mod reference_memory;
mod tools;
