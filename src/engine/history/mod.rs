//! The history: net effect of each session's changes, and undo and redo of them.

pub mod replay;
pub mod session_diff;
pub mod stacks;
