//! The history: what each session's changes come to, and what undo and redo make of them.

pub mod account;
pub mod moved;
pub mod own;
pub mod replay;
pub mod stacks;
