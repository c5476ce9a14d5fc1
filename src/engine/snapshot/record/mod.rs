//! From a change to its commit.

pub mod ahead;
pub mod change;
pub mod folder;
pub mod message;
pub mod obstacles;
pub mod prepare;
pub mod rules;
