//! Memory for a layer, where the file system of the workspace cannot hold one: overlayfs takes no other
//! overlayfs for its upper folder, and the files of most containers are on one.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use rustix::fs::CWD;

use crate::engine::workspace::fs;

/// The folder in memory that every process may write.
pub const PLACE: &str = "/dev/shm";
/// The kernel's number for tmpfs.
const TMPFS: u64 = 0x0102_1994;
/// Of a layer's memory the part that counts as used up.
const FULL_PARTS: u64 = 100;

/// Opens the folder in memory.
///
/// # Errors
/// Why there is none.
pub fn open() -> Result<OwnedFd, String> {
    let opened = fs::open_at(CWD, OsStr::new(PLACE), fs::FOLDER);
    let opened = opened.map_err(|errno| format!("{PLACE} cannot be opened ({errno})"))?;
    let kind = rustix::fs::fstatfs(&opened).ok().and_then(|found| u64::try_from(found.f_type).ok());
    if kind == Some(TMPFS) { Ok(opened) } else { Err(format!("{PLACE} is not in memory")) }
}

/// The bytes that the file system of a folder in memory may hold, where they are used up.
#[must_use]
pub fn full_size(folder: &OwnedFd) -> Option<u64> {
    let found = rustix::fs::fstatvfs(folder).ok()?;
    let is_full = found.f_bavail < found.f_blocks / FULL_PARTS + 1;
    is_full.then(|| found.f_blocks.saturating_mul(found.f_frsize))
}
