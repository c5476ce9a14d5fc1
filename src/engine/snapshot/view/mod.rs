//! Reads snapshots: history, revisions, differences.

pub mod account;
pub mod compare;
pub mod history;
pub mod repair;
pub mod revision;
pub mod session;
