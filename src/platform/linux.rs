//! Linux: `openat2`, descriptors that only examine, `renameat2`, `statx`, `syncfs`, and `/proc`.

#![cfg_attr(feature = "portable", allow(dead_code, unused_imports, reason = "the portable calls are in use"))]

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, StatxFlags};
use rustix::io::{Errno, retry_on_intr};

use super::portable;
pub use super::portable::sync;
use super::values::{EXAMINE, path_of};

/// Most bytes that are read of a file of the kernel; it gives them at once.
const KERNEL_FILE_BYTES_MAX: usize = 8 << 10;

/// Opens `path` below `root`, through no symlink. The path has neither `..` nor a root.
///
/// If `openat2` is impossible (before Linux 5.6, under a system call filter, or for a path that is too long), opens each
/// component from the one before.
///
/// # Errors
/// Returns the OS error; `ELOOP` if a symlink is on the way.
pub fn open_beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    loop {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG) => {
                return portable::open_beneath(root, path, flags);
            }
            outcome => return outcome,
        }
    }
}

/// Opens a folder below another one, on the same mount; `ENOSYS` or `EPERM` before Linux 5.6, or under a system call
/// filter.
pub fn open_same_mount(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_XDEV
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS;
    loop {
        match rustix::fs::openat2(folder, name, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

/// Opens an absolute path, if no symlink is on the way; `None` if there is one, or if the system cannot tell.
pub fn open_without_links(path: &Path, flags: OFlags) -> Option<Result<OwnedFd, Errno>> {
    // With this flag, a symlink at the end would be opened itself.
    let flags = flags.difference(OFlags::NOFOLLOW);
    loop {
        match rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::LOOP | Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG | Errno::INVAL) => return None,
            outcome => return Some(outcome),
        }
    }
}

/// Returns true if something is at an absolute path, and no symlink on the way; `None` if there is one, or if the system
/// cannot tell.
pub fn exists_without_links(path: &Path) -> Option<Result<(), Errno>> {
    open_without_links(path, EXAMINE).map(|opened| opened.map(drop))
}

/// Returns the stat of `path` below `root`, reached through no symlink; of a symlink at its end, the link's own.
///
/// # Errors
/// Returns the OS error; `ELOOP` if a symlink is on the way.
pub fn stat_beneath(root: BorrowedFd<'_>, path: &Path) -> Result<Stat, Errno> {
    open_beneath(root, path, EXAMINE).and_then(rustix::fs::fstat)
}

/// Renames to a name that must be free.
///
/// # Errors
/// Returns the OS error; `EEXIST` if the name is taken, `EINVAL` or `ENOSYS` if the system cannot tell.
pub fn rename_new(from: BorrowedFd<'_>, old: &OsStr, to: BorrowedFd<'_>, new: &OsStr) -> Result<(), Errno> {
    retry_on_intr(|| rustix::fs::renameat_with(from, old, to, new, RenameFlags::NOREPLACE))
}

/// Exchanges two names atomically.
///
/// # Errors
/// Returns the OS error; `EINVAL` or `ENOSYS` if the file system cannot.
pub fn exchange(one: BorrowedFd<'_>, name: &OsStr, other: BorrowedFd<'_>, with: &OsStr) -> Result<(), Errno> {
    retry_on_intr(|| rustix::fs::renameat_with(one, name, other, with, RenameFlags::EXCHANGE))
}

/// Sets the permission bits of a folder or file, even if it was opened only for examination.
///
/// # Errors
/// Returns the OS error.
pub fn set_mode(opened: BorrowedFd<'_>, mode: Mode) -> Result<(), Errno> {
    // An unreadable folder cannot be opened in any other way, and `fchmod` needs more.
    let path = path_of(opened);
    retry_on_intr(|| rustix::fs::chmod(&path, mode))
}

/// Returns device and mount of a file; no mount if the system has no number for it.
///
/// # Errors
/// Returns the OS error.
pub fn mount_of(file: BorrowedFd<'_>) -> Result<(u64, Option<u64>), Errno> {
    use rustix::fs::{makedev, statx};
    match retry_on_intr(|| statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)) {
        // Available since Linux 5.8.
        Ok(found) if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 => {
            Ok((makedev(found.stx_dev_major, found.stx_dev_minor), Some(found.stx_mnt_id)))
        }
        _ => portable::mount_of(file),
    }
}

/// Returns the time at which a file was made, in seconds and nanoseconds; `None` if the file system keeps none.
pub fn birth_of(file: BorrowedFd<'_>) -> Option<(i64, i64)> {
    let look = || rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
    let found = retry_on_intr(look).ok()?;
    let has_time = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    has_time.then(|| (found.stx_btime.tv_sec, i64::from(found.stx_btime.tv_nsec)))
}

/// Returns the time at which the file at `path` below `root` was made, in seconds.
pub fn birth_beneath(root: BorrowedFd<'_>, path: &Path) -> Option<i64> {
    birth_of(open_beneath(root, path, EXAMINE).ok()?.as_fd()).map(|(seconds, _)| seconds)
}

/// Makes an empty file share the blocks of another one until either is written to; returns false if the file system
/// cannot, as only btrfs and xfs can.
pub fn share_blocks(to: BorrowedFd<'_>, from: BorrowedFd<'_>) -> bool {
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

/// Creates a FIFO or a socket, with permission bits that the umask may narrow.
///
/// # Errors
/// Returns the OS error; `EOPNOTSUPP` if the system has no such call.
pub fn make_special(folder: BorrowedFd<'_>, name: &OsStr, kind: FileType, mode: Mode) -> Result<(), Errno> {
    rustix::fs::mknodat(folder, name, kind, mode, 0)
}

/// Returns true if a program uses the socket at `path` below `root`, or if the system cannot tell. A
/// datagram connection tests it unnoticed.
pub fn is_socket_in_use(root: BorrowedFd<'_>, path: &Path) -> bool {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let Ok(opened) = open_beneath(root, path, EXAMINE) else { return false };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
    let address = SocketAddrUnix::new(path_of(opened.as_fd()));
    match socket.and_then(|socket| connect(&socket, &address?)) {
        Err(Errno::CONNREFUSED | Errno::NOENT) => false,
        Ok(()) | Err(_) => true,
    }
}

/// Calls `each` with the names in a folder and their types, `.` and `..` among them; `each` returns false to stop.
/// `room` is a buffer of [`ROOM_BYTES`](super::ROOM_BYTES); calls `should_stop` now and then.
///
/// # Errors
/// Returns the OS error.
pub fn list(
    folder: BorrowedFd<'_>,
    room: &mut [std::mem::MaybeUninit<u8>],
    should_stop: &dyn Fn() -> bool,
    each: &mut dyn FnMut(&[u8], FileType),
) -> Result<(), Errno> {
    let mut entries = rustix::fs::RawDir::new(folder, room);
    while let Some(entry) = entries.next() {
        match entry {
            Ok(entry) => each(entry.file_name().to_bytes(), entry.file_type()),
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        }
        if entries.is_buffer_empty() && should_stop() {
            break;
        }
    }
    Ok(())
}

/// Makes a whole file system durable.
///
/// # Errors
/// Returns the OS error; `ENOSYS` if the system cannot.
pub fn sync_file_system(folder: BorrowedFd<'_>) -> Result<(), Errno> {
    retry_on_intr(|| rustix::fs::syncfs(folder))
}

/// Returns true if [`sync_file_system`] works and reports failed writes, as it does since Linux 5.8.
pub fn syncs_file_systems() -> bool {
    kernel_is_at_least(5, 8)
}

/// Returns true if the kernel has this version, or a later one.
pub fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let uname = rustix::system::uname();
    let mut numbers = uname.release().to_bytes().split(|byte| !byte.is_ascii_digit()).map(|digits| {
        std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok()).unwrap_or_default()
    });
    (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
}

/// Returns the kernel's number for the kind of a file system (statfs(2)); `None` if the system has no such numbers.
pub fn file_system_kind(folder: BorrowedFd<'_>) -> Option<u64> {
    let kind = retry_on_intr(|| rustix::fs::fstatfs(folder)).ok()?.f_type;
    u64::try_from(kind).ok()
}

/// Returns true if the ext4 that holds a file has a journal: without one nothing keeps the order of what it writes.
pub fn has_journal(stat: &Stat) -> bool {
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let link = format!("/sys/dev/block/{major}:{minor}");
    let Ok(target) = rustix::fs::readlinkat(CWD, link.as_str(), Vec::new()) else { return false };
    let name = target.to_str().ok().and_then(|target| target.rsplit('/').next()).unwrap_or_default();
    // The number of the thread that writes the journal, if there is one.
    let thread = kernel_file(&format!("/sys/fs/ext4/{name}/journal_task"));
    thread.is_some_and(|number| number.trim().parse::<u32>().is_ok())
}

/// Returns the number of bytes that wait to be written to any disk; `None` if the system does not tell.
pub fn unwritten_bytes() -> Option<u64> {
    let text = kernel_file("/proc/meminfo")?;
    let kilobytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    Some((kilobytes("Dirty")? + kilobytes("Writeback")?) << 10)
}

/// Reads a file of /proc or /sys in one call.
fn kernel_file(path: &str) -> Option<String> {
    let opened = rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = vec![0; KERNEL_FILE_BYTES_MAX];
    let count = retry_on_intr(|| rustix::io::read(&opened, &mut bytes)).ok()?;
    bytes.truncate(count);
    String::from_utf8(bytes).ok()
}

/// Has the disk begin to write the first `bytes` of a file. A hint.
pub fn begin_writing(file: BorrowedFd<'_>, bytes: u64) {
    // The kernel writes what is dirty, and drops only what is on disk already.
    let length = std::num::NonZeroU64::new(bytes);
    let _ = rustix::fs::fadvise(file, 0, length, rustix::fs::Advice::DontNeed);
}

/// Asks for large pages for these bytes. A hint.
pub fn use_large_pages(pages: &memmap2::MmapMut) {
    let _ = pages.advise(memmap2::Advice::HugePage);
}

/// Locks one byte of a file until the file is closed, which a kill does too; returns false if another one holds it.
///
/// # Errors
/// Returns the OS error; `ENOSYS` if the system has no locks that belong to an open file.
pub fn lock_byte(file: BorrowedFd<'_>, byte: u64) -> Result<bool, Errno> {
    let lock = byte_lock(libc::F_WRLCK, &(byte..byte.saturating_add(1)))?;
    match fcntl(file, FcntlArg::F_OFD_SETLK(&lock)) {
        Ok(_) => Ok(true),
        Err(nix::Error::EAGAIN | nix::Error::EACCES | nix::Error::EINTR) => Ok(false),
        Err(error) => Err(Errno::from_raw_os_error(error as i32)),
    }
}

/// Waits until no other one holds [`lock_byte`] of a byte. Shares it with others that wait, which [`locked_bytes`] does
/// not show.
///
/// # Errors
/// As [`lock_byte`].
pub fn wait_for_byte(file: BorrowedFd<'_>, byte: u64) -> Result<(), Errno> {
    let lock = byte_lock(libc::F_RDLCK, &(byte..byte.saturating_add(1)))?;
    loop {
        match fcntl(file, FcntlArg::F_OFD_SETLKW(&lock)) {
            Ok(_) => return Ok(()),
            Err(nix::Error::EINTR) => {}
            Err(error) => return Err(Errno::from_raw_os_error(error as i32)),
        }
    }
}

/// Returns the end of one of the bytes in a range that others have locked; `None` if they have locked nothing there.
///
/// # Errors
/// As [`lock_byte`].
pub fn locked_bytes(file: BorrowedFd<'_>, bytes: Range<u64>) -> Result<Option<u64>, Errno> {
    let mut lock = byte_lock(libc::F_RDLCK, &bytes)?;
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock)).map_err(|error| Errno::from_raw_os_error(error as i32))?;
    if i32::from(lock.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    // A length of 0 means all bytes.
    let end = if lock.l_len == 0 { i64::MAX } else { lock.l_start.saturating_add(lock.l_len) };
    Ok(u64::try_from(end).ok())
}

/// Returns a lock of some bytes for fcntl(2).
fn byte_lock(kind: i32, bytes: &Range<u64>) -> Result<libc::flock, Errno> {
    let number = |number: u64| i64::try_from(number).map_err(|_| Errno::OVERFLOW);
    let short = |number: i32| i16::try_from(number).map_err(|_| Errno::INVAL);
    Ok(libc::flock {
        l_type: short(kind)?,
        l_whence: short(libc::SEEK_SET)?,
        l_start: number(bytes.start)?,
        l_len: number(bytes.end.saturating_sub(bytes.start))?,
        l_pid: 0,
    })
}

/// Fills a buffer with random bytes that nobody can guess.
///
/// # Errors
/// Returns the OS error.
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += retry_on_intr(|| rustix::rand::getrandom(&mut *rest, flags))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_reports_the_bytes_to_be_written() {
        assert!(unwritten_bytes().is_some());
        let mut stat = rustix::fs::stat("/").unwrap();
        stat.st_dev = 0;
        assert!(!has_journal(&stat), "no block device has the number 0");
    }
}
