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
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

#[cfg(all(target_os = "linux", not(feature = "portable")))]
use linux as native;
#[cfg(all(target_os = "macos", not(feature = "portable")))]
use macos as native;
#[cfg(any(feature = "portable", not(any(target_os = "linux", target_os = "macos"))))]
use portable as native;

// No portable call of Linux sets the mode of a folder that was opened as a handle; the others are facts of the system.
#[cfg(target_os = "linux")]
pub use linux::{file_system_kind, kernel_is_at_least, make_special, mount_of, set_mode, use_large_pages};
pub use native::{
    begin_writing, birth_beneath, birth_of, exchange, exists_without_links, fill_random, has_journal,
    is_socket_in_use, list, lock_byte, locked_bytes, open_beneath, open_without_links, rename_new,
    share_blocks, stat_beneath, sync, sync_file_system, syncs_file_systems, unwritten_bytes, wait_for_byte,
};
#[cfg(not(target_os = "linux"))]
pub use native::{file_system_kind, make_special, mount_of, set_mode, use_large_pages};
pub use values::{
    HANDLE, HANGUP, INHERITED_GROUP, RECEIVE, SEND, device, mode, mode_bits, path_of, type_of_bits,
};

/// Bytes of directory entries read at once.
pub const ROOM_BYTES: usize = 32 * 1024;

/// Returns true if the portable calls are used on a system that has better ones.
#[cfg(target_os = "linux")]
const fn is_portable() -> bool {
    cfg!(feature = "portable")
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

/// Returns the target of the symlink `name` in `folder`.
///
/// # Errors
/// Returns the OS error; `EINVAL` for anything but a symlink.
pub fn read_link_at(folder: BorrowedFd<'_>, name: &OsStr) -> Result<Vec<u8>, Errno> {
    Ok(retry_on_intr(|| rustix::fs::readlinkat(folder, name, Vec::new()))?.into_bytes())
}

/// A name that was looked up without following a symlink. It needs no permission to read the file.
#[derive(Debug)]
pub struct NamedEntry(EntryForm);

/// Form of an [`Entry`].
#[derive(Debug)]
enum EntryForm {
    /// The file itself, opened only to be examined.
    #[cfg(target_os = "linux")]
    Opened(OwnedFd),
    /// The folder that holds it, and its name there.
    Named(OwnedFd, OsString, Box<Stat>),
}

impl NamedEntry {
    /// Looks up `path` below `root`, through no symlink.
    ///
    /// # Errors
    /// Returns the OS error; `ELOOP` if a symlink is on the way.
    pub fn look_up_beneath(root: BorrowedFd<'_>, path: &Path) -> Result<Self, Errno> {
        #[cfg(target_os = "linux")]
        if !is_portable() {
            return linux::open_beneath(root, path, values::EXAMINE)
                .map(|file| Self(EntryForm::Opened(file)));
        }
        let (folder, name) = portable::parent_beneath(root, path)?;
        Self::look_up_name(folder, name)
    }

    /// Looks up `name` in `folder`.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn at(folder: BorrowedFd<'_>, name: &OsStr) -> Result<Self, Errno> {
        #[cfg(target_os = "linux")]
        if !is_portable() {
            let opened = retry_on_intr(|| rustix::fs::openat(folder, name, values::EXAMINE, Mode::empty()))?;
            return Ok(Self(EntryForm::Opened(opened)));
        }
        Self::look_up_name(rustix::io::fcntl_dupfd_cloexec(folder, 0)?, name)
    }

    /// Returns a name in a folder with its stat.
    fn look_up_name(folder: OwnedFd, name: &OsStr) -> Result<Self, Errno> {
        let stat = retry_on_intr(|| rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW))?;
        Ok(Self(EntryForm::Named(folder, name.to_owned(), Box::new(stat))))
    }

    /// Returns its stat.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn stat(&self) -> Result<Stat, Errno> {
        match &self.0 {
            #[cfg(target_os = "linux")]
            EntryForm::Opened(file) => rustix::fs::fstat(file),
            EntryForm::Named(.., stat) => Ok(**stat),
        }
    }

    /// Returns its target, if it is a symlink.
    ///
    /// # Errors
    /// Returns the OS error; `EINVAL` for anything but a symlink.
    pub fn target(&self) -> Result<Vec<u8>, Errno> {
        match &self.0 {
            #[cfg(target_os = "linux")]
            EntryForm::Opened(link) => read_link_at(link.as_fd(), OsStr::new("")),
            EntryForm::Named(folder, name, _) => read_link_at(folder.as_fd(), name),
        }
    }

    /// Returns a handle of it, if it is still the folder that was found.
    ///
    /// # Errors
    /// Returns the OS error; `ESTALE` if another folder has taken the name.
    pub fn into_folder(self) -> Result<OwnedFd, Errno> {
        match self.0 {
            #[cfg(target_os = "linux")]
            EntryForm::Opened(folder) => Ok(folder),
            EntryForm::Named(folder, name, stat) => {
                let opened = retry_on_intr(|| rustix::fs::openat(&folder, &name, HANDLE, Mode::empty()))?;
                let now = rustix::fs::fstat(&opened)?;
                let is_same = (now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino);
                if is_same { Ok(opened) } else { Err(Errno::STALE) }
            }
        }
    }
}
