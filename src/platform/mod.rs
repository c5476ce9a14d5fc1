//! Everything that differs between operating systems, behind one interface.
//!
//! `linux` and `macos` use the calls of their kernels; `portable` makes do with POSIX and serves all other Unix
//! systems. With the feature `portable`, a build for Linux uses it too: so its containment is tested.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
pub mod other_cpu;
mod portable;
pub mod process;
mod values;
pub mod watch;

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

#[cfg(target_os = "linux")]
use linux as native;
#[cfg(target_os = "macos")]
use macos as native;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
use portable as native;

pub use values::{HANDLE, HANGUP, RECEIVE, SEND, device, mode, mode_bits, path_of, type_of_bits};

/// Bytes of directory entries read at once.
pub const ROOM_BYTES: usize = 32 * 1024;

/// Returns true if the portable calls are used on a system that has better ones.
const fn is_portable() -> bool {
    cfg!(feature = "portable")
}

/// Calls the function of this system, or the portable one of the same name.
macro_rules! on_this_system {
    ($name:ident($($argument:expr),*)) => {
        if is_portable() { portable::$name($($argument),*) } else { native::$name($($argument),*) }
    };
}

/// Opens `path` below `root`, through no symlink. The path has neither `..` nor a root.
///
/// # Errors
/// Returns the OS error; `ELOOP` if a symlink is on the way.
pub fn open_beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    on_this_system!(open_beneath(root, path, flags))
}

/// Opens the folder `name` in `folder` for listing, if it is a folder on the same mount.
///
/// # Errors
/// Returns the OS error; `EXDEV` if it is on another mount.
pub fn open_same_mount(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    if !is_portable() {
        match linux::open_same_mount(folder, name, flags) {
            Err(Errno::NOSYS | Errno::PERM) => {}
            outcome => return outcome,
        }
    }
    let opened = retry_on_intr(|| rustix::fs::openat(folder, name, flags, Mode::empty()))?;
    // A file system can be mounted twice, and its device alone would not tell.
    if mount_of(folder)? == mount_of(opened.as_fd())? { Ok(opened) } else { Err(Errno::XDEV) }
}

/// Returns true if something is at an absolute path, and no symlink on the way; `None` if there is one, or if the system
/// cannot tell.
pub fn exists_without_links(path: &Path) -> Option<Result<(), Errno>> {
    on_this_system!(exists_without_links(path))
}

/// Opens an absolute path, if no symlink is on the way; `None` if there is one, or if the system cannot tell.
pub fn open_without_links(path: &Path, flags: OFlags) -> Option<Result<OwnedFd, Errno>> {
    on_this_system!(open_without_links(path, flags))
}

/// Returns the stat of `path` below `root`, reached through no symlink; of a symlink at its end, the link's own.
///
/// # Errors
/// Returns the OS error; `ELOOP` if a symlink is on the way.
pub fn stat_beneath(root: BorrowedFd<'_>, path: &Path) -> Result<Stat, Errno> {
    on_this_system!(stat_beneath(root, path))
}

/// Returns the target of the symlink `name` in `folder`.
///
/// # Errors
/// Returns the OS error; `EINVAL` for anything but a symlink.
pub fn read_link_at(folder: BorrowedFd<'_>, name: &OsStr) -> Result<Vec<u8>, Errno> {
    Ok(retry_on_intr(|| rustix::fs::readlinkat(folder, name, Vec::new()))?.into_bytes())
}

/// Renames to a name that must be free.
///
/// # Errors
/// Returns the OS error; `EEXIST` if the name is taken, `EINVAL` or `ENOSYS` if the system cannot tell.
pub fn rename_new(from: BorrowedFd<'_>, old: &OsStr, to: BorrowedFd<'_>, new: &OsStr) -> Result<(), Errno> {
    on_this_system!(rename_new(from, old, to, new))
}

/// Exchanges two names atomically.
///
/// # Errors
/// Returns the OS error; `EINVAL` or `ENOSYS` if the file system cannot.
pub fn exchange(one: BorrowedFd<'_>, name: &OsStr, other: BorrowedFd<'_>, with: &OsStr) -> Result<(), Errno> {
    on_this_system!(exchange(one, name, other, with))
}

/// Sets the permission bits of a folder or file, even if it was opened only for examination.
///
/// # Errors
/// Returns the OS error.
pub fn set_mode(opened: BorrowedFd<'_>, mode: Mode) -> Result<(), Errno> {
    // A folder that was opened as a handle has no portable call on Linux.
    native::set_mode(opened, mode)
}

/// Returns device and mount of a file; no mount if the system has no number for it.
///
/// # Errors
/// Returns the OS error.
pub fn mount_of(file: BorrowedFd<'_>) -> Result<(u64, Option<u64>), Errno> {
    // No call, but a fact of the system: only Linux mounts one file system twice.
    native::mount_of(file)
}

/// Returns the time at which a file was made, in seconds and nanoseconds; `None` if the file system keeps none.
pub fn birth_of(file: BorrowedFd<'_>) -> Option<(i64, i64)> {
    on_this_system!(birth_of(file))
}

/// Returns the time at which the file at `path` below `root` was made, in seconds.
pub fn birth_beneath(root: BorrowedFd<'_>, path: &Path) -> Option<i64> {
    on_this_system!(birth_beneath(root, path))
}

/// Makes an empty file share the blocks of another one until either is written to; returns false if the file system
/// cannot.
pub fn share_blocks(to: BorrowedFd<'_>, from: BorrowedFd<'_>) -> bool {
    on_this_system!(share_blocks(to, from))
}

/// Creates a FIFO or a socket, with permission bits that the umask may narrow.
///
/// # Errors
/// Returns the OS error; `EOPNOTSUPP` if the system has no such call.
pub fn make_special(folder: BorrowedFd<'_>, name: &OsStr, kind: FileType, mode: Mode) -> Result<(), Errno> {
    native::make_special(folder, name, kind, mode)
}

/// Returns true if a program uses the socket at `path` below `root`, or if the system cannot tell.
pub fn is_socket_in_use(root: BorrowedFd<'_>, path: &Path) -> bool {
    on_this_system!(is_socket_in_use(root, path))
}

/// Calls `each` with the names in a folder and their types, `.` and `..` among them; `each` returns false to stop.
/// `room` is a buffer of [`ROOM_BYTES`]; calls `should_stop` now and then.
///
/// # Errors
/// Returns the OS error.
pub fn list(
    folder: BorrowedFd<'_>,
    room: &mut [std::mem::MaybeUninit<u8>],
    should_stop: &dyn Fn() -> bool,
    each: &mut dyn FnMut(&[u8], FileType),
) -> Result<(), Errno> {
    on_this_system!(list(folder, room, should_stop, each))
}

/// Makes what was written to a file or folder durable, past the cache of the disk.
///
/// # Errors
/// Returns the OS error.
pub fn sync(file: impl AsFd) -> Result<(), Errno> {
    on_this_system!(sync(file.as_fd()))
}

/// Makes a whole file system durable.
///
/// # Errors
/// Returns the OS error; `ENOSYS` if the system cannot.
pub fn sync_file_system(folder: BorrowedFd<'_>) -> Result<(), Errno> {
    on_this_system!(sync_file_system(folder))
}

/// Returns true if [`sync_file_system`] works and reports failed writes.
pub fn syncs_file_systems() -> bool {
    on_this_system!(syncs_file_systems())
}

/// Returns the kernel's number for the kind of a file system (statfs(2)); `None` if the system has no such numbers.
pub fn file_system_kind(folder: BorrowedFd<'_>) -> Option<u64> {
    native::file_system_kind(folder)
}

/// Returns true if the ext4 that holds a file has a journal.
pub fn has_journal(stat: &Stat) -> bool {
    on_this_system!(has_journal(stat))
}

/// Returns the number of bytes that wait to be written to any disk; `None` if the system does not tell.
pub fn unwritten_bytes() -> Option<u64> {
    on_this_system!(unwritten_bytes())
}

/// Has the disk begin to write the first `bytes` of a file. A hint.
pub fn begin_writing(file: BorrowedFd<'_>, bytes: u64) {
    on_this_system!(begin_writing(file, bytes));
}

/// Asks for large pages for these bytes. A hint.
pub fn use_large_pages(pages: &memmap2::MmapMut) {
    native::use_large_pages(pages);
}

/// Locks one byte of a file until the file is closed, which a kill does too; returns false if another one holds it.
///
/// # Errors
/// Returns the OS error; `ENOSYS` if the system has no locks that belong to an open file.
pub fn lock_byte(file: BorrowedFd<'_>, byte: u64) -> Result<bool, Errno> {
    on_this_system!(lock_byte(file, byte))
}

/// Waits until no other one holds [`lock_byte`] of a byte.
///
/// # Errors
/// As [`lock_byte`].
pub fn wait_for_byte(file: BorrowedFd<'_>, byte: u64) -> Result<(), Errno> {
    on_this_system!(wait_for_byte(file, byte))
}

/// Returns the end of one of the bytes in a range that others have locked; `None` if they have locked nothing there.
///
/// # Errors
/// As [`lock_byte`].
pub fn locked_bytes(file: BorrowedFd<'_>, bytes: Range<u64>) -> Result<Option<u64>, Errno> {
    on_this_system!(locked_bytes(file, bytes))
}

/// Fills a buffer with random bytes that nobody can guess.
///
/// # Errors
/// Returns the OS error.
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    on_this_system!(fill_random(bytes))
}

/// A name that was looked up without following a symlink. It needs no permission to read the file.
#[derive(Debug)]
pub struct Entry(Found);

/// Form of an [`Entry`].
#[derive(Debug)]
enum Found {
    /// The file itself, opened only to be examined.
    #[cfg(target_os = "linux")]
    Opened(OwnedFd),
    /// The folder that holds it, and its name there.
    Named(OwnedFd, OsString, Box<Stat>),
}

impl Entry {
    /// Looks up `path` below `root`, through no symlink.
    ///
    /// # Errors
    /// Returns the OS error; `ELOOP` if a symlink is on the way.
    pub fn beneath(root: BorrowedFd<'_>, path: &Path) -> Result<Self, Errno> {
        #[cfg(target_os = "linux")]
        if !is_portable() {
            return native::open_beneath(root, path, values::EXAMINE).map(|file| Self(Found::Opened(file)));
        }
        let (folder, name) = portable::parent_beneath(root, path)?;
        Self::named(folder, name)
    }

    /// Looks up `name` in `folder`.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn at(folder: BorrowedFd<'_>, name: &OsStr) -> Result<Self, Errno> {
        #[cfg(target_os = "linux")]
        if !is_portable() {
            let opened = retry_on_intr(|| rustix::fs::openat(folder, name, values::EXAMINE, Mode::empty()))?;
            return Ok(Self(Found::Opened(opened)));
        }
        Self::named(rustix::io::fcntl_dupfd_cloexec(folder, 0)?, name)
    }

    /// Returns a name in a folder with its stat.
    fn named(folder: OwnedFd, name: &OsStr) -> Result<Self, Errno> {
        let stat = retry_on_intr(|| rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW))?;
        Ok(Self(Found::Named(folder, name.to_owned(), Box::new(stat))))
    }

    /// Returns its stat.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn stat(&self) -> Result<Stat, Errno> {
        match &self.0 {
            #[cfg(target_os = "linux")]
            Found::Opened(file) => rustix::fs::fstat(file),
            Found::Named(.., stat) => Ok(**stat),
        }
    }

    /// Returns its target, if it is a symlink.
    ///
    /// # Errors
    /// Returns the OS error; `EINVAL` for anything but a symlink.
    pub fn target(&self) -> Result<Vec<u8>, Errno> {
        match &self.0 {
            #[cfg(target_os = "linux")]
            Found::Opened(link) => read_link_at(link.as_fd(), OsStr::new("")),
            Found::Named(folder, name, _) => read_link_at(folder.as_fd(), name),
        }
    }

    /// Returns a handle of it, if it is still the folder that was found.
    ///
    /// # Errors
    /// Returns the OS error; `ESTALE` if another folder has taken the name.
    pub fn into_folder(self) -> Result<OwnedFd, Errno> {
        match self.0 {
            #[cfg(target_os = "linux")]
            Found::Opened(folder) => Ok(folder),
            Found::Named(folder, name, stat) => {
                let opened = retry_on_intr(|| rustix::fs::openat(&folder, &name, HANDLE, Mode::empty()))?;
                let now = rustix::fs::fstat(&opened)?;
                let is_same = (now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino);
                if is_same { Ok(opened) } else { Err(Errno::STALE) }
            }
        }
    }
}
