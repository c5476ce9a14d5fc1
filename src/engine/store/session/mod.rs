//! What one session has seen: a mark for each file it read, with the bytes' SHA-256.
//!
//! A session is one state file, `.lbx/ID/sessions/NAME.lbx`. Readers never lock it; a writer holds the
//! session's lock, reads the newest state, and replaces the file at once. Fields that this version
//! does not know survive. A damaged file is set aside and a warning says so; it is never trusted.

mod file;
mod read_record;
mod state;

pub use file::{
    FOLDER, KnownSession, SHOWN_FOLDER, find_shown, forget, forget_shown, is_in_use, keep_shown, list, load,
    look_at, peek, update,
};
pub use read_record::{Lines, Mark, Numbers, ReplacedLines};
pub use state::{Ended, SEQ_MAX, SessionId, SessionState, WITHHELD_MAX};
