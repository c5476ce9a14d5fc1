//! The repository that holds the snapshots: opened, read and written as hostile.

pub mod alternates;
pub mod branch;
pub mod chain;
pub mod error;
pub mod gitdir;
pub mod held;
pub mod loose;
pub mod object;
pub mod objects;
pub mod ordinary;
pub mod pack;
pub mod private;
pub mod refs;
pub mod repo;
pub mod repository;
pub mod settings;
pub mod trail;
pub mod tree;
pub mod trees;
