//! Reading snapshots back: history, revisions, differences.

pub mod blame;
pub mod compare;
pub mod damage;
pub mod delta;
pub mod history;
pub mod read;
pub mod repair;
pub mod revision;
pub mod session_at;
pub mod since;
