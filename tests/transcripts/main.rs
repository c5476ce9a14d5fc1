//! Behaviour for a caller: transcripts of calls of the real binary, one file per theme.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail, and its name says what it is about"
)]

#[path = "../common/mod.rs"]
mod common;

mod accounts;
mod append_insert;
mod audit;
mod bounded;
mod calling;
mod content;
mod damage;
mod doctor;
mod edit;
mod edit_bounds;
mod edit_cases;
mod edit_property;
mod errors;
mod fits;
mod gate_lines;
mod gc;
mod in_place;
mod init;
mod kinds;
mod misses;
mod mkdir;
mod names;
mod patch;
mod patch_by_line;
mod plain_calls;
mod policy;
mod protection;
mod read;
mod repeated;
mod requests;
mod said;
mod sandboxes;
mod section;
mod session;
mod session_on_a_real_repository;
mod session_tool;
mod snapshots;
mod stats;
mod stdio;
mod transaction;
mod trash;
mod undo;
mod upgrade;
mod warnings;
mod workspace;
mod write;
