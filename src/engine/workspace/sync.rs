//! Makes written files durable, one by one, or a whole file system at once if few other writes are pending.
//!
//! Each `fsync` has the disk empty its cache, and next to another program that syncs, each waits for the disk again.
//! So a small change, which writes half a dozen files, asks for one sync of the file system if that is quick.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};

use rustix::fs::Stat;
use rustix::io::Errno;

use crate::platform;

/// Most files that are synced one by one; for more, the whole file system is synced.
pub const SYNC_EACH_MAX: usize = 64;
/// Items up to which the calling thread does all the work: for a few small files a thread costs more than it saves.
const ONE_THREAD_MAX: usize = 16;
/// Most threads that sync at once.
const SYNC_THREADS_MAX: usize = 16;
/// Bytes with which the disk begins before the sync.
const BEGIN_BYTES: u64 = 1 << 20;

/// Has the disk begin with small files, so that the syncs that follow wait for all of them together.
///
/// It is a hint: the syncs alone make them durable. On ext4 the file system's log is then written once
/// for all of them, and not once for each.
pub fn begin<'f>(files: impl IntoIterator<Item = &'f File>) {
    for file in files {
        platform::begin_writing(file.as_fd(), BEGIN_BYTES);
    }
}

/// Syncs all, or where they are many the file system that most of them are on, which takes a fraction
/// of the time.
///
/// `file_system` was opened before the first of them was written: a write that fails after that is
/// an error of the `syncfs`, from Linux 5.8 on (syncfs(2)).
///
/// # Errors
/// Returns the first error.
pub fn sync_many<F: AsFd + Sync>(files: &[&F], file_system: Option<&OwnedFd>) -> io::Result<()> {
    let Some(file_system) =
        file_system.filter(|_| files.len() > SYNC_EACH_MAX && platform::syncs_file_systems())
    else {
        return sync_all(files);
    };
    let device = rustix::fs::fstat(file_system)?.st_dev;
    match platform::sync_file_system(file_system.as_fd()) {
        Err(Errno::NOSYS | Errno::INVAL | Errno::PERM | Errno::OPNOTSUPP) => return sync_all(files),
        synced => synced?,
    }
    let is_elsewhere = |file: &&&F| rustix::fs::fstat(file).map_or(true, |stat| stat.st_dev != device);
    let elsewhere: Vec<&F> = files.iter().filter(is_elsewhere).copied().collect();
    sync_all(&elsewhere)
}

/// Syncs a few one after the other, and many from several threads: the disk joins what comes together.
///
/// # Errors
/// Returns the first error.
pub fn sync_all<F: AsFd + Sync>(files: &[&F]) -> io::Result<()> {
    in_parallel(files, SYNC_THREADS_MAX, |files| {
        Ok(files.iter().try_for_each(|file| platform::sync(*file))?)
    })
}

/// Runs `work` on all items, on several threads if there are many.
///
/// # Errors
/// Returns the first error.
pub fn in_parallel<T: Sync>(
    items: &[T],
    threads_max: usize,
    work: impl Fn(&[T]) -> io::Result<()> + Sync,
) -> io::Result<()> {
    if items.len() <= ONE_THREAD_MAX {
        return work(items);
    }
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut parts = items.chunks(items.len().div_ceil(threads_max));
        let mine = parts.next().unwrap_or_default();
        for part in parts {
            match thread::Builder::new().spawn_scoped(scope, || work(part)) {
                Ok(thread) => threads.push(thread),
                Err(_) => work(part)?, // no thread to be had: this one does it
            }
        }
        work(mine)?;
        let ended = |thread: ScopedJoinHandle<'_, io::Result<()>>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread ended early")))
        };
        threads.into_iter().try_for_each(ended)
    })
}

/// Bytes that may wait to be written where a whole file system is synced for a small change.
const QUIET_BYTES: u64 = 4 << 20;
/// Bytes that may wait if there is no log, so that each folder would have to be synced in addition to the files.
const QUIET_BYTES_WITHOUT_LOG: u64 = 64 << 20;

/// Magic number of ext2, ext3 and ext4 (statfs(2)).
const EXT: u64 = 0xef53;
/// Magic number of XFS.
const XFS: u64 = 0x5846_5342;
/// Magic number of tmpfs.
const TMPFS: u64 = 0x0102_1994;

/// A file system of a known kind.
#[derive(Debug, Clone)]
pub struct FileSystem {
    /// A folder on it, opened before anything of the change was written: `syncfs` tells of the writes
    /// that have failed since then.
    folder: Arc<OwnedFd>,
    /// Stat of the folder.
    stat: Stat,
    /// True if one log keeps the order of all that is written.
    has_log: bool,
    /// True if few writes are pending.
    is_quiet: bool,
}

impl FileSystem {
    /// The file system of a folder; `None` where nothing is known of its kind.
    pub fn of(folder: &Arc<OwnedFd>) -> Option<Self> {
        let stat = rustix::fs::fstat(folder).ok()?;
        let kind = platform::file_system_kind(folder.as_fd())?;
        let has_log = match kind {
            EXT => platform::has_journal(&stat),
            // A power failure takes all of a tmpfs, so any order will do there.
            XFS | TMPFS => true,
            _ => return None,
        };
        let quiet_bytes = if has_log { QUIET_BYTES } else { QUIET_BYTES_WITHOUT_LOG };
        // On this disk or on any other: the kernel tells no more. A tmpfs waits for none.
        let is_quiet = kind == TMPFS
            || (platform::unwritten_bytes().is_some_and(|bytes| bytes <= quiet_bytes)
                && platform::syncs_file_systems());
        Some(Self { folder: Arc::clone(folder), stat, has_log, is_quiet })
    }

    /// Returns true if a file or folder is on it.
    pub fn holds(&self, file: impl AsFd) -> bool {
        rustix::fs::fstat(file).is_ok_and(|stat| stat.st_dev == self.stat.st_dev)
    }

    /// Returns true if it keeps the order of its names: once a file or folder is synced, so are all names that
    /// were made, changed or removed there before it was last written.
    pub const fn keeps_order(&self) -> bool {
        self.has_log
    }

    /// Returns true if so little waits to be written that all of it can be, at once.
    pub const fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Makes all files that were written on it durable, `last` among them; `false` where they are to be
    /// synced one by one, since that would take long or has failed.
    pub fn sync_all(&self, last: &File) -> bool {
        // Without a log, ext4 has the disk empty its cache before it writes the last of its own blocks.
        self.is_written_out() && (self.has_log || platform::sync(last).is_ok())
    }

    /// Sees to it that the names made until now are durable before later ones; `false` where each folder is to be
    /// synced. `file` is on it.
    pub fn orders_names(&self, file: &File) -> bool {
        self.has_log || self.sync_all(file)
    }

    /// Sees to it that the sync of a file which is written now makes all names on it durable; `false` where
    /// they are to be synced folder by folder.
    pub fn leaves_names_to_next_sync(&self) -> bool {
        self.has_log || self.is_written_out()
    }

    /// Writes all pending data of the file system, if that is little.
    fn is_written_out(&self) -> bool {
        self.is_quiet && platform::sync_file_system(self.folder.as_fd()).is_ok()
    }
}

/// Returns true if a folder is on an overlay file system, as in most containers: there a folder of the image gets no
/// other name (`EXDEV`), and no layer can be held.
pub fn is_on_overlay(folder: BorrowedFd<'_>) -> bool {
    /// The kernel's number for it (`OVERLAYFS_SUPER_MAGIC`).
    const OVERLAY: u64 = 0x794c_7630;
    platform::file_system_kind(folder) == Some(OVERLAY)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn sync_many_accepts_files_of_two_file_systems() {
        let folder = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap());
        let make = |number: usize| {
            let folder = if number.is_multiple_of(2) { &folder } else { &other };
            File::create(folder.path().join(number.to_string())).unwrap()
        };
        let anchor = File::open(folder.path()).unwrap().into();
        let files: Vec<File> = (0..2 * SYNC_EACH_MAX).map(make).collect();
        sync_many(&files.iter().collect::<Vec<_>>(), Some(&anchor)).unwrap();
        sync_many(&files.iter().collect::<Vec<_>>(), None).unwrap();
    }

    #[test]
    fn tmpfs_is_recognized_and_synced_as_a_whole() {
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return crate::skip::skipped("no /dev/shm") };
        let opened = Arc::new(OwnedFd::from(File::open(folder.path()).unwrap()));
        let Some(memory) = FileSystem::of(&opened) else { return crate::skip::skipped("no statfs") };
        let file = File::create(folder.path().join("f")).unwrap();
        assert!(memory.keeps_order() && memory.is_quiet() && memory.holds(&file));
        assert!(!memory.holds(File::open("/proc/self/stat").unwrap()));
        assert!(FileSystem { is_quiet: true, ..memory.clone() }.sync_all(&file));
        assert!(!FileSystem { is_quiet: false, ..memory.clone() }.sync_all(&file));
        let busy = FileSystem { is_quiet: false, has_log: false, ..memory.clone() };
        assert!(!busy.leaves_names_to_next_sync());
        assert!(FileSystem { has_log: false, ..memory }.orders_names(&file) && !busy.orders_names(&file));
    }
}
