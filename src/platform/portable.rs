//! Any Unix: containment by opening each component from the one before, without following links.
//!
//! What the system cannot do is said by an error for which the callers have a slower way: no exchange of names
//! (`ENOSYS`), no mount numbers, no sync of a whole file system, no shared blocks.

#![cfg_attr(
    any(target_os = "linux", target_os = "macos"),
    allow(dead_code, reason = "some systems have better calls")
)]

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::values::{HANDLE, device};

/// Source of random bytes.
const RANDOM: &str = "/dev/urandom";

/// Opens the folder that holds the last component of `path`, and returns that component; `.` for the root itself.
pub fn parent_beneath<'p>(root: BorrowedFd<'_>, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), Errno> {
    let mut folder: Option<OwnedFd> = None;
    let mut last = OsStr::new(".");
    for component in path.components() {
        let name = match component {
            Component::CurDir => continue,
            Component::Normal(name) => name,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(Errno::XDEV),
        };
        if last != "." {
            folder = Some(enter(folder.as_ref().map_or(root, AsFd::as_fd), last)?);
        }
        last = name;
    }
    let folder = folder.map_or_else(|| rustix::io::fcntl_dupfd_cloexec(root, 0), Ok)?;
    Ok((folder, last))
}

/// Opens a folder on the way; `ELOOP` for a symlink.
fn enter(folder: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    retry_on_intr(|| rustix::fs::openat(folder, name, HANDLE, Mode::empty())).map_err(|errno| {
        // O_NOFOLLOW with O_DIRECTORY returns ENOTDIR for a symlink.
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let is_link = stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
        if is_link { Errno::LOOP } else { errno }
    })
}

/// Opens `path` below `root`, one component at a time.
///
/// # Errors
/// Returns the OS error; `ELOOP` if a symlink is on the way.
pub fn open_beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let (folder, name) = parent_beneath(root, path)?;
    let flags = if name == "." { flags } else { flags | OFlags::NOFOLLOW };
    retry_on_intr(|| rustix::fs::openat(&folder, name, flags, Mode::empty()))
}

/// Returns `None`: no portable call rejects every link on the way.
pub fn open_without_links(_: &Path, _: OFlags) -> Option<Result<OwnedFd, Errno>> {
    None
}

/// Returns `None`, as [`open_without_links`].
pub fn exists_without_links(_: &Path) -> Option<Result<(), Errno>> {
    None
}

/// Returns the stat of what is at `path` below `root`.
///
/// # Errors
/// Returns the OS error; `ELOOP` if a symlink is on the way.
pub fn stat_beneath(root: BorrowedFd<'_>, path: &Path) -> Result<Stat, Errno> {
    let (folder, name) = parent_beneath(root, path)?;
    retry_on_intr(|| rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW))
}

/// Fails: the portable call replaces.
///
/// # Errors
/// Always.
pub fn rename_new(_: BorrowedFd<'_>, _: &OsStr, _: BorrowedFd<'_>, _: &OsStr) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// Fails: no portable call exchanges names.
///
/// # Errors
/// Always.
pub fn exchange(_: BorrowedFd<'_>, _: &OsStr, _: BorrowedFd<'_>, _: &OsStr) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// Sets permission bits.
///
/// # Errors
/// Returns the OS error.
#[cfg(not(target_os = "linux"))]
pub fn set_mode(opened: BorrowedFd<'_>, mode: Mode) -> Result<(), Errno> {
    retry_on_intr(|| rustix::fs::fchmod(opened, mode))
}

/// Returns the device alone.
///
/// # Errors
/// Returns the OS error.
pub fn mount_of(file: BorrowedFd<'_>) -> Result<(u64, Option<u64>), Errno> {
    Ok((device(&rustix::fs::fstat(file)?), None))
}

/// Returns `None`: POSIX has no such time.
pub fn birth_of(_: BorrowedFd<'_>) -> Option<(i64, i64)> {
    None
}

/// Returns `None`: POSIX has no such time.
pub fn birth_beneath(_: BorrowedFd<'_>, _: &Path) -> Option<i64> {
    None
}

/// Returns false: POSIX shares no blocks.
pub fn share_blocks(_: BorrowedFd<'_>, _: BorrowedFd<'_>) -> bool {
    false
}

/// Fails: no call that is safe and relative to a folder exists everywhere.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn make_special(_: BorrowedFd<'_>, _: &OsStr, _: FileType, _: Mode) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Returns true: a connection by a path could follow a link.
pub fn is_socket_in_use(_: BorrowedFd<'_>, _: &Path) -> bool {
    true
}

/// Lists a folder.
///
/// # Errors
/// Returns the OS error.
pub fn list(
    folder: BorrowedFd<'_>,
    _: &mut [std::mem::MaybeUninit<u8>],
    should_stop: &dyn Fn() -> bool,
    each: &mut dyn FnMut(&[u8], FileType),
) -> Result<(), Errno> {
    /// Names between two questions if the listing should stop.
    const NAMES: usize = 1024;
    let entries = retry_on_intr(|| rustix::fs::Dir::read_from(folder))?;
    for (number, entry) in entries.enumerate() {
        let entry = entry?;
        each(entry.file_name().to_bytes(), entry.file_type());
        if (number + 1).is_multiple_of(NAMES) && should_stop() {
            break;
        }
    }
    Ok(())
}

/// Makes a file durable.
///
/// # Errors
/// Returns the OS error.
pub fn sync(file: impl AsFd) -> Result<(), Errno> {
    retry_on_intr(|| rustix::fs::fsync(&file))
}

/// Fails: no portable call waits for a whole file system.
///
/// # Errors
/// Always.
pub fn sync_file_system(_: BorrowedFd<'_>) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// Returns false.
pub fn syncs_file_systems() -> bool {
    false
}

/// Returns false: nothing is known of its journal.
pub fn has_journal(_: &Stat) -> bool {
    false
}

/// Returns `None`: POSIX does not tell.
pub fn unwritten_bytes() -> Option<u64> {
    None
}

/// Returns `None`: the numbers of other systems mean something else.
#[cfg(not(target_os = "linux"))]
pub fn file_system_kind(_: BorrowedFd<'_>) -> Option<u64> {
    None
}

/// Does nothing: there is no such hint.
pub fn begin_writing(_: BorrowedFd<'_>, _: u64) {}

/// Does nothing: there is no such hint.
#[cfg(not(target_os = "linux"))]
pub fn use_large_pages(_: &memmap2::MmapMut) {}

/// Fails: POSIX has only locks that belong to a process, whichever of its threads took them.
///
/// # Errors
/// Always.
pub const fn lock_byte(_: BorrowedFd<'_>, _: u64) -> Result<bool, Errno> {
    Err(Errno::NOSYS)
}

/// Fails, as [`lock_byte`].
///
/// # Errors
/// Always.
pub const fn wait_for_byte(_: BorrowedFd<'_>, _: u64) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// Fails, as [`lock_byte`].
///
/// # Errors
/// Always.
pub fn locked_bytes(_: BorrowedFd<'_>, _: Range<u64>) -> Result<Option<u64>, Errno> {
    Err(Errno::NOSYS)
}

/// Fills a buffer with random bytes.
///
/// # Errors
/// Returns the OS error.
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let source = retry_on_intr(|| rustix::fs::open(RANDOM, flags, Mode::empty()))?;
    std::fs::File::from(source).read_exact(bytes)
}
