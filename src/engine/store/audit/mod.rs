//! The audit log: one record for every call that changed something or was refused to.
//!
//! `.lbx/audit/current.jsonl` holds one JSON object a line. Each has the SHA-256 of the record
//! before it (`prev`) and of itself without that field (`hash`), so that a record which was altered
//! or removed shows. A full file becomes `NNNNNN.jsonl`, and the chain goes on in the next. `head`
//! names the newest record, so that it shows where the end was cut off.
//!
//! The record of a change is on disk before the call is answered; that of a refusal may be lost in a
//! power failure, since nothing depends on it.

mod append;
mod read;

pub use append::{
    AuditFile, AuditRecord, Durable, PATHS_MAX, Pending, append, as_value, begin, short_why, time_text,
};
pub use read::{Broken, Cursor, has_change, newest, read, since};
