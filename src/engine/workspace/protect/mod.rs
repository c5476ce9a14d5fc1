//! What no file tool writes: git's state and lbx's own, by name and by what a folder holds.
//!
//! Names are judged in [`names`], and folders that git would take for a repository in [`repository`];
//! [`folders`] finds those on the way to a path.

pub mod folders;
pub mod names;
pub mod repository;

pub use folders::Protection;
pub use names::{is_protected, is_state, protected_component};
