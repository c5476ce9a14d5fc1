//! FIFOs and sockets are made anew: one that a command removed in the trash, from where an undo moves it to its
//! place, and one that goes to another mount there.
//!
//! Such a file is its name, its type and its mode; it holds no bytes. A socket that comes back has nobody
//! who listens on it, as after a restart of its program.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use crate::engine::journal::steps::Thing;
use crate::engine::store::state::State;
use crate::engine::store::trash::{self, TrashEntry};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;

/// Permissions of the description of a trash entry.
const DESCRIPTION_MODE: u32 = 0o600;
/// Most that are made again after one command.
pub(super) const REMADE_MAX: usize = 1000;

/// A FIFO or a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialFile {
    /// Where it was.
    pub path: WorkspacePath,
    /// What it was.
    pub kind: FileType,
    /// Its permission bits.
    pub mode: u32,
}

impl SpecialFile {
    /// Whether a file of this type can be made again: anyone can make a FIFO or a socket, nobody in a
    /// sandbox a device.
    #[must_use]
    pub fn can_be_made(kind: FileType) -> bool {
        matches!(kind, FileType::Fifo | FileType::Socket)
    }
}

/// Makes an equal file as the content of the trash entry `entry`; the folder of the trash is the caller's to
/// sync.
///
/// # Errors
/// The system's; what stands in the trash then is swept with its age.
pub(super) fn remake(state: &State, special: &SpecialFile, entry: &TrashEntry) -> std::io::Result<Thing> {
    let system = |error: crate::error::Error| std::io::Error::other(error.message().to_owned());
    let folder = state.folder(&format!("{}/{}", trash::FOLDER, entry.id)).map_err(system)?;
    describe(&folder, entry)?;
    make(folder.as_fd(), OsStr::new(trash::CONTENT), special.kind, special.mode)?;
    let made = fs::stat_at(folder.as_fd(), OsStr::new(trash::CONTENT))?;
    rustix::fs::fsync(&*folder)?;
    Ok(Thing { inode: made.st_ino, is_folder: false })
}

/// Makes a file of this type and with these permission bits.
///
/// # Errors
/// The system's.
pub(super) fn make(folder: BorrowedFd<'_>, name: &OsStr, kind: FileType, mode: u32) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(mode);
    rustix::fs::mknodat(folder, name, kind, mode, 0)?;
    // The mask of new files does not count for what is like another.
    rustix::fs::chmodat(folder, name, mode, AtFlags::empty())
}

/// Writes the description of a trash entry, with which `gc` knows its age.
fn describe(folder: &OwnedFd, entry: &TrashEntry) -> std::io::Result<()> {
    let mut described = entry.clone();
    described.files = 1;
    let bytes = serde_json::to_vec(&described)?;
    let name = OsStr::new(trash::DESCRIPTION);
    let mut file = fs::create_at(folder.as_fd(), name, DESCRIPTION_MODE)?;
    file.write_all(&bytes)?;
    file.sync_all()
}
