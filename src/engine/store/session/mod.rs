//! What one session has seen: a mark for each file it read, with the bytes' SHA-256.
//!
//! A session is one state file, `.lbx/ID/sessions/NAME.lbx`. Readers never lock it; a writer holds the
//! session's lock, reads the newest state, and replaces the file at once. Fields that this version
//! does not know survive. A damaged file is set aside and a warning says so; it is never trusted.

mod file;
mod id;
mod mark;
mod numbers;
mod shown_lines;
mod state;

pub use file::{FOLDER, KnownSession, forget, is_in_use, list, load, look_at, peek, update};
pub use id::SessionId;
pub use mark::Mark;
pub use numbers::{Numbers, ReplacedLines};
pub use shown_lines::Lines;
pub use state::{Ended, SEQ_MAX, SessionState, WITHHELD_MAX};
