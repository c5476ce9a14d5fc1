//! Where the journal and the backups are, below the state folder, and how large an entry may be.

use std::os::fd::OwnedFd;

use crate::engine::workspace::fs;

/// Size of an entry: a patch over some 100,000 files.
pub const ENTRY_BYTES_MAX: u64 = 64 << 20;
/// Where the entries of unfinished changes are.
pub const OPEN_FOLDER: &str = "journal/open";
/// Where those of finished changes are, in a folder a session.
pub const DONE_FOLDER: &str = "journal/done";
/// Where things wait between two names.
pub const HELD_FOLDER: &str = "journal/held";
/// Where those are that neither could be completed nor rolled back.
pub const STUCK_FOLDER: &str = "journal/stuck";
/// Where the backups are.
pub const BACKUPS_FOLDER: &str = "backups";

/// Removes a file of the state, if it can be.
pub fn remove(folder: &OwnedFd, name: &str) {
    // Best effort: whatever is left is removed by the next change.
    let _ = fs::unlink_at(folder, name, rustix::fs::AtFlags::empty());
}
