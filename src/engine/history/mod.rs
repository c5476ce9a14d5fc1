//! The history: what each session's changes come to, and what undo and redo make of them.

pub mod replay;
pub mod session_diff;
pub mod stacks;
