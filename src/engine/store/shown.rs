//! Copies of small files as a session was shown them: where another program changes one, they tell which lines are
//! still there. Nothing rests on them: one that is missing or damaged makes a caller read again.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::AtFlags;

use super::session::Mark;
use super::state::State;
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::sha256::Sha256;

/// The folder, below that of the state.
pub const FOLDER: &str = "shown";
/// Bytes of a file of which a copy is kept.
const BYTES_MAX: u64 = 64 << 10;

/// Keeps a copy of a file that was shown, in the workspace at `root`.
///
/// # Errors
/// The system's.
pub fn keep(state: &State, root: BorrowedFd<'_>, mark: &Mark) -> Result<(), Error> {
    if mark.size > BYTES_MAX || mark.lines.ranges().is_empty() {
        return Ok(());
    }
    let folder = state.folder(FOLDER)?;
    let name = mark.sha256.to_hex();
    let Ok(copy) = fs::create_at(folder.as_fd(), OsStr::new(&name), 0o600) else { return Ok(()) };
    let io = |source| Error::io("write", state.shown(&format!("{FOLDER}/{name}")), source);
    let opened = fs::open_beneath(root, &mark.path, fs::READ).map_err(|errno| io(errno.into()))?;
    let bytes = fs::read_to_end(std::fs::File::from(opened), mark.size, BYTES_MAX).map_err(io)?;
    fs::write_all(&copy, &bytes).map_err(io)
}

/// The bytes with that digest, where they were shown.
#[must_use]
pub fn find(state: &State, sha256: Sha256) -> Option<Vec<u8>> {
    let folder = state.find_folder(FOLDER).ok()??;
    let bytes = fs::read_at(folder.as_fd(), OsStr::new(&sha256.to_hex()), BYTES_MAX).ok()??;
    (Sha256::of(&bytes) == sha256).then_some(bytes)
}

/// Removes the copies of versions that a mark needs no longer. Another session that needs one reads again.
pub fn forget(state: &State, versions: impl Iterator<Item = Sha256>) {
    let Ok(Some(folder)) = state.find_folder(FOLDER) else { return };
    for sha256 in versions {
        // One that was never kept, or that a killed call left, is no harm.
        let _ = fs::unlink_at(&*folder, sha256.to_hex(), AtFlags::empty());
    }
}
