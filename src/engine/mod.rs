//! The layers beneath the tools.

pub mod snapshot;
