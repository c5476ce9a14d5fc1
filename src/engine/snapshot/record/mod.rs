//! From a change to its commit.

pub mod change;
pub mod commit;
mod copies;
pub mod disk;
pub mod folder;
pub mod ignored;
pub mod names;
pub mod obstacles;
pub mod prepare;
pub mod racy;
pub mod ready;
pub mod rules;
pub mod withheld;
