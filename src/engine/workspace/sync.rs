//! Making what is written durable.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use super::fs;

/// Up to so many files are synced one by one; beyond, the whole file system is.
pub const SYNC_EACH_MAX: usize = 64;
/// Up to so many are synced by the calling thread: for a few small files a thread costs more than it saves.
const ONE_THREAD_MAX: usize = 16;
/// Bytes with which the disk begins before the sync.
#[cfg(target_os = "linux")]
const BEGIN_BYTES: u64 = 1 << 20;

/// Has the disk begin with small files, so that the syncs that follow wait for all of them together.
///
/// It is a hint: the syncs alone make them durable. On ext4 the file system's log is then written once
/// for all of them, and not once for each.
#[cfg(target_os = "linux")]
pub fn begin<'f>(files: impl IntoIterator<Item = &'f File>) {
    let length = std::num::NonZeroU64::new(BEGIN_BYTES);
    for file in files {
        // The kernel writes what is dirty, and drops only what is on disk already.
        let _ = rustix::fs::fadvise(file, 0, length, rustix::fs::Advice::DontNeed);
    }
}

/// Elsewhere each file is written when it is synced.
#[cfg(not(target_os = "linux"))]
pub fn begin<'f>(_: impl IntoIterator<Item = &'f File>) {}

/// Syncs all, or where they are many the file system that most of them are on, which takes a fraction
/// of the time.
///
/// `file_system` was opened before the first of them was written: a write that fails after that is
/// an error of the `syncfs`, from Linux 5.8 on (syncfs(2)).
///
/// # Errors
/// The first failure.
pub fn sync_many<F: AsFd + Sync>(files: &[&F], file_system: Option<&OwnedFd>) -> std::io::Result<()> {
    let Some(file_system) = file_system.filter(|_| files.len() > SYNC_EACH_MAX && fs::syncfs_tells_errors())
    else {
        return sync_all(files);
    };
    let device = rustix::fs::fstat(file_system)?.st_dev;
    if !sync_file_system(file_system)? {
        return sync_all(files);
    }
    let is_elsewhere = |file: &&&F| rustix::fs::fstat(file).map_or(true, |stat| stat.st_dev != device);
    let elsewhere: Vec<&F> = files.iter().filter(is_elsewhere).copied().collect();
    sync_all(&elsewhere)
}

/// Syncs a whole file system; `false` where that cannot be asked for.
#[cfg(target_os = "linux")]
fn sync_file_system(file_system: &OwnedFd) -> std::io::Result<bool> {
    match rustix::io::retry_on_intr(|| rustix::fs::syncfs(file_system)) {
        Ok(()) => Ok(true),
        Err(Errno::NOSYS | Errno::INVAL | Errno::PERM | Errno::OPNOTSUPP) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Elsewhere each file is synced by itself.
#[cfg(not(target_os = "linux"))]
fn sync_file_system(_: &OwnedFd) -> std::io::Result<bool> {
    Ok(false)
}

/// Syncs a few one after the other, and many from several threads: the disk joins what comes together.
///
/// # Errors
/// The first failure.
pub fn sync_all<F: AsFd + Sync>(files: &[&F]) -> std::io::Result<()> {
    /// Threads at once.
    const THREADS_MAX: usize = 16;
    let sync = |file: &&F| rustix::io::retry_on_intr(|| rustix::fs::fsync(file));
    if files.len() <= ONE_THREAD_MAX {
        return Ok(files.iter().try_for_each(sync)?);
    }
    let per_thread = files.len().div_ceil(THREADS_MAX);
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        let (mine, rest) = files.split_at(per_thread.min(files.len()));
        for chunk in rest.chunks(per_thread) {
            let work = move || {
                chunk.iter().try_for_each(|file| rustix::io::retry_on_intr(|| rustix::fs::fsync(*file)))
            };
            match std::thread::Builder::new().spawn_scoped(scope, work) {
                Ok(thread) => running.push(thread),
                // No thread to be had: do it here.
                Err(_) => chunk.iter().try_for_each(sync)?,
            }
        }
        mine.iter().try_for_each(sync)?;
        for thread in running {
            thread.join().map_err(|_| std::io::Error::other("a syncing thread died"))??;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn files_of_two_file_systems_are_synced() {
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
}
