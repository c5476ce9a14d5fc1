//! From a change to its commit.

pub mod change;
pub mod commit;
pub mod disk;
pub mod folder;
pub mod prepare;
pub mod rules;
pub mod secrets;
