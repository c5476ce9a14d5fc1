//! The audit log: one record for every call that changed something, or whose change failed.
//!
//! `.lbx/audit/current.jsonl` holds one JSON object per line. Each has the SHA-256 of the previous record (`prev`) and
//! of itself without that field (`hash`), so that a changed or removed record shows. A full file becomes
//! `NNNNNN.jsonl`, and the chain continues in the next. `head` names the newest record, so that a truncated end shows
//! too.
//!
//! The record of a change is on disk before the response; that of an error may be lost in a power failure, since
//! nothing depends on it.

mod append;
mod read;

pub use append::{
    AuditFile, AuditRecord, Durability, PendingRecord, append, as_value, begin, cut_reason, time_text,
};
pub use read::{
    ChainBreak, LogCursor, RecordSum, SessionSums, has_change, newest, newest_page, read, refused, since,
    sums,
};
