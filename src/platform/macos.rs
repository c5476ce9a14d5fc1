//! macOS: `renameatx_np`, `F_FULLFSYNC`, `fclonefileat`; the rest is portable.
//!
//! Checked by the compiler on Linux for both of Apple's processors (`.ci/darwin`); not yet run on a Mac.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::RenameFlags;
use rustix::io::{Errno, retry_on_intr};

pub use super::portable::{
    begin_writing, exists_without_links, file_system_kind, fill_random, has_journal, is_socket_in_use, list,
    lock_byte, locked_bytes, make_special, mount_of, open_beneath, open_without_links, set_mode,
    stat_beneath, sync_file_system, syncs_file_systems, unwritten_bytes, use_large_pages, wait_for_byte,
};

/// Renames to a free name.
///
/// # Errors
/// Returns the OS error; `EEXIST` if the name is taken, `EINVAL` or `ENOSYS` if the system cannot tell.
pub fn rename_new(from: BorrowedFd<'_>, old: &OsStr, to: BorrowedFd<'_>, new: &OsStr) -> Result<(), Errno> {
    renameat(from, old, to, new, RenameFlags::NOREPLACE)
}

/// Exchanges two names.
///
/// # Errors
/// Returns the OS error; `EINVAL` or `ENOSYS` if the file system cannot.
pub fn exchange(one: BorrowedFd<'_>, name: &OsStr, other: BorrowedFd<'_>, with: &OsStr) -> Result<(), Errno> {
    renameat(one, name, other, with, RenameFlags::EXCHANGE)
}

/// Calls `renameatx_np`; `ENOSYS` where a file system does not know the flag.
fn renameat(
    from: BorrowedFd<'_>,
    old: &OsStr,
    to: BorrowedFd<'_>,
    new: &OsStr,
    flags: RenameFlags,
) -> Result<(), Errno> {
    retry_on_intr(|| rustix::fs::renameat_with(from, old, to, new, flags))
        .map_err(|errno| if errno == Errno::NOTSUP { Errno::NOSYS } else { errno })
}

/// Returns the time of birth.
pub fn birth_of(file: BorrowedFd<'_>) -> Option<(i64, i64)> {
    let stat = rustix::fs::fstat(file).ok()?;
    Some((stat.st_birthtime, stat.st_birthtime_nsec))
}

/// Returns the time of birth of what is at `path` below `root`.
pub fn birth_beneath(root: BorrowedFd<'_>, path: &Path) -> Option<i64> {
    stat_beneath(root, path).ok().map(|stat| stat.st_birthtime)
}

/// Returns false: a clone needs a free name, and an open file has one.
pub fn share_blocks(_: BorrowedFd<'_>, _: BorrowedFd<'_>) -> bool {
    false
}

/// Makes a file durable: `fsync` alone leaves the bytes in the cache of the disk.
///
/// # Errors
/// Returns the OS error.
pub fn sync(file: impl AsFd) -> Result<(), Errno> {
    match retry_on_intr(|| rustix::fs::fcntl_fullfsync(&file)) {
        // Network file systems and some folders do not know it.
        Err(Errno::NOTSUP | Errno::INVAL | Errno::NOTTY) => retry_on_intr(|| rustix::fs::fsync(&file)),
        outcome => outcome,
    }
}
