//! The history: net effect of each session's changes, undo and redo of them, and turns.

pub mod account;
pub mod client_calls;
pub mod rebase;
pub mod replay;
pub mod session_diff;
pub mod stacks;
