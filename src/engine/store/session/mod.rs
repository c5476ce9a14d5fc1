//! Session state: a mark for each file that the session has read, with the SHA-256 of the bytes.
//!
//! A session is one state file, `.lbx/ID/sessions/NAME.lbx`. Readers never lock it; a writer holds the session's lock,
//! reads the newest state, and appends the next one or replaces the file atomically. A state has the newest marks
//! itself; older ones are in a tree in the same file, from which a call reads what it needs. Keeps fields that this
//! version does not know. A damaged file is renamed, with a warning, and never trusted.

mod file;
mod read_record;
mod read_tree;
mod state;

pub use file::{
    FOLDER, KnownSession, SHOWN_FOLDER, TURNS_FOLDER, find_shown, forget, forget_shown, is_in_use,
    keep_shown, list, load, look_at, peek, update,
};
pub use read_record::{Lines, Numbers, ReadRecord};
pub use state::{Ended, SEQ_MAX, SessionId, SessionState, WITHHELD_MAX};
