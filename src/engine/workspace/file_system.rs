//! The file system that a change is made on: what it promises of the order of names, and how all that
//! was written there becomes durable at once.
//!
//! Each `fsync` has the disk empty its cache, and beside another program that syncs, each waits for the
//! disk anew. So a small change, which writes half a dozen files, asks for one sync of the file system
//! where little else waits to be written.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, Stat};

use super::fs;

/// Bytes that may wait to be written where a whole file system is synced for a small change.
const QUIET_BYTES: u64 = 4 << 20;
/// The same where there is no log, so that each folder would have to be synced beside the files.
const QUIET_BYTES_WITHOUT_LOG: u64 = 64 << 20;
/// Most bytes that are read of what the kernel tells of itself; it gives them at once.
const KERNEL_FILE_BYTES_MAX: usize = 8 << 10;

/// A file system whose kind is known to lbx.
#[derive(Debug, Clone)]
pub struct FileSystem {
    /// A folder on it, opened before anything of the change was written: `syncfs` tells of the writes
    /// that have failed since then.
    folder: Arc<OwnedFd>,
    /// What the folder is.
    stat: Stat,
    /// Whether one log keeps the order of all that is written.
    has_log: bool,
    /// Whether hardly anything waits to be written.
    is_quiet: bool,
}

impl FileSystem {
    /// The file system of a folder; `None` where nothing is known of its kind.
    #[must_use]
    pub fn of(folder: &Arc<OwnedFd>) -> Option<Self> {
        let stat = rustix::fs::fstat(folder).ok()?;
        let has_log = has_log(folder, &stat)?;
        // Here or on any other: the kernel tells no more.
        let quiet_bytes = if has_log { QUIET_BYTES } else { QUIET_BYTES_WITHOUT_LOG };
        let is_quiet = bytes_that_wait().is_some_and(|bytes| bytes <= quiet_bytes);
        let is_quiet = is_quiet && fs::syncfs_tells_errors();
        Some(Self { folder: Arc::clone(folder), stat, has_log, is_quiet })
    }

    /// Whether a file or folder is on it.
    #[must_use]
    pub fn holds(&self, file: impl AsFd) -> bool {
        rustix::fs::fstat(file).is_ok_and(|stat| stat.st_dev == self.stat.st_dev)
    }

    /// Whether it keeps the order of its names: once a file or folder is synced, so are all names that
    /// were made, changed or removed there before it was last written.
    #[must_use]
    pub const fn keeps_order(&self) -> bool {
        self.has_log
    }

    /// Whether so little waits to be written that all of it can be, at once.
    #[must_use]
    pub const fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Makes all files that were written on it durable, `last` among them; `false` where they are to be
    /// synced one by one, since that would take long or has failed.
    #[must_use]
    pub fn sync_all(&self, last: &File) -> bool {
        // Without a log, ext4 has the disk empty its cache before it writes the last of its own blocks.
        self.is_quiet
            && self.write_out().is_ok()
            && (self.has_log || rustix::io::retry_on_intr(|| rustix::fs::fsync(last)).is_ok())
    }

    /// Sees to it that the sync of a file which is written now makes all names on it durable; `false` where
    /// they are to be synced folder by folder.
    #[must_use]
    pub fn leaves_names_to_next_sync(&self) -> bool {
        self.has_log || (self.is_quiet && self.write_out().is_ok())
    }

    /// Writes everything on it.
    #[cfg(target_os = "linux")]
    fn write_out(&self) -> io::Result<()> {
        Ok(rustix::io::retry_on_intr(|| rustix::fs::syncfs(&*self.folder))?)
    }

    /// Elsewhere there is no such call.
    #[cfg(not(target_os = "linux"))]
    fn write_out(&self) -> io::Result<()> {
        let _ = &self.folder;
        Err(rustix::io::Errno::NOSYS.into())
    }
}

/// Whether a folder is on an overlay file system, as in most containers: there a folder of the image gets no
/// other name (`EXDEV`), and no layer can be held.
#[must_use]
pub fn is_on_overlay(folder: BorrowedFd<'_>) -> bool {
    /// The kernel's number for it (`OVERLAYFS_SUPER_MAGIC`).
    const OVERLAY: u64 = 0x794c_7630;
    rustix::io::retry_on_intr(|| rustix::fs::fstatfs(folder))
        .is_ok_and(|found| u64::try_from(found.f_type) == Ok(OVERLAY))
}

/// Whether the file system of a folder has a log; `None` where its kind is not known.
#[cfg(target_os = "linux")]
fn has_log(folder: &OwnedFd, stat: &Stat) -> Option<bool> {
    /// What statfs(2) calls ext2, ext3 and ext4.
    const EXT: u64 = 0xef53;
    /// What it calls XFS.
    const XFS: u64 = 0x5846_5342;
    /// What it calls tmpfs.
    const TMPFS: u64 = 0x0102_1994;
    let kind = rustix::io::retry_on_intr(|| rustix::fs::fstatfs(folder)).ok()?.f_type;
    match u64::try_from(kind).ok()? {
        EXT => Some(has_journal(stat.st_dev)),
        // A power failure takes all of a tmpfs, so any order will do there.
        XFS | TMPFS => Some(true),
        _ => None,
    }
}

/// Elsewhere nothing is known of it.
#[cfg(not(target_os = "linux"))]
fn has_log(_: &OwnedFd, _: &Stat) -> Option<bool> {
    None
}

/// Whether an ext4 has a journal: without one nothing keeps the order of what it writes.
#[cfg(target_os = "linux")]
fn has_journal(device: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = format!("/sys/dev/block/{major}:{minor}");
    let Ok(target) = rustix::fs::readlinkat(CWD, link.as_str(), Vec::new()) else { return false };
    let name = target.to_str().ok().and_then(|target| target.rsplit('/').next()).unwrap_or_default();
    // The number of the thread that writes the journal, if there is one.
    let thread = kernel_file(&format!("/sys/fs/ext4/{name}/journal_task"));
    thread.is_some_and(|number| number.trim().parse::<u32>().is_ok())
}

/// How many bytes the kernel has yet to write to any disk; `None` where it does not tell.
fn bytes_that_wait() -> Option<u64> {
    let text = kernel_file("/proc/meminfo")?;
    let kilobytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    Some((kilobytes("Dirty")? + kilobytes("Writeback")?) << 10)
}

/// What stands in a file that the kernel makes up, in one read.
fn kernel_file(path: &str) -> Option<String> {
    let opened = rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = vec![0; KERNEL_FILE_BYTES_MAX];
    let count = rustix::io::retry_on_intr(|| rustix::io::read(&opened, &mut bytes)).ok()?;
    bytes.truncate(count);
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_in_memory_is_known_and_all_of_it_is_synced() {
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
        let opened = Arc::new(OwnedFd::from(File::open(folder.path()).unwrap()));
        let Some(memory) = FileSystem::of(&opened) else { return };
        let file = File::create(folder.path().join("f")).unwrap();
        assert!(memory.keeps_order() && memory.holds(&file));
        assert!(!memory.holds(File::open("/proc/self/stat").unwrap()));
        assert!(FileSystem { is_quiet: true, ..memory.clone() }.sync_all(&file));
        assert!(!FileSystem { is_quiet: false, ..memory.clone() }.sync_all(&file));
        assert!(!FileSystem { is_quiet: false, has_log: false, ..memory }.leaves_names_to_next_sync());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_kernel_tells_how_much_waits_to_be_written() {
        assert!(bytes_that_wait().is_some());
        assert!(!has_journal(0), "no block device has the number 0");
    }
}
