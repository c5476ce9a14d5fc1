//! Locks, and unique names.
//!
//! Locks are advisory (`flock`), so that they die with their holder. Nobody reads a lock's file: each holder that had
//! to wait sets its time, which shows other waiters that the lock changes hands. Anything else at its path is renamed.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, Stat, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use crate::engine::workspace::fs;
use crate::platform;

/// Most tries to take a lock whose file others remove or rename meanwhile.
const TRIES: usize = 20;
/// Permission bits of a lock that other accounts take too.
const OTHERS: u32 = 0o066;

/// A held lock; released on drop.
#[derive(Debug)]
#[must_use = "the lock is free as soon as this is dropped"]
pub struct Lock {
    /// Locked file; closing it unlocks.
    _file: File,
}

/// Takes the exclusive lock `name` in `folder`: at once, or after waiting while it passes from holder to holder and
/// none keeps it longer than `patience`. Creates its file with `mode` if missing. `None` if someone else keeps it.
///
/// # Errors
/// Returns the OS error.
pub fn take(
    folder: BorrowedFd<'_>,
    name: &str,
    mode: u32,
    patience: Option<Duration>,
) -> std::io::Result<Option<Lock>> {
    let name = OsStr::new(name);
    for _ in 0..TRIES {
        let (file, stat) = open(folder, name, mode)?;
        let is_free = is_taken(&file)?;
        // A `flock` belongs to the open file, whichever of its descriptors stays open.
        if !is_free && patience.map_or(Ok(None), |patience| wait_for(&file, patience))?.is_none() {
            return Ok(None);
        }
        // If the file was unlinked or replaced meanwhile, others lock another one.
        if let Ok(named) = fs::stat_at(folder, name)
            && fs::is_same_file(&named, &stat)
        {
            // Without a wait, skip a write that the next sync would have to flush.
            if !is_free {
                touch(&file, &named);
            }
            return Ok(Some(Lock { _file: file }));
        }
    }
    Err(Errno::AGAIN.into())
}

/// Takes an exclusive lock on a folder, which needs no file, as [`take_opened`] does.
///
/// # Errors
/// Returns the OS error; not every file system locks folders.
pub fn take_folder(folder: BorrowedFd<'_>, patience: Option<Duration>) -> std::io::Result<Option<Lock>> {
    // A descriptor of its own, so that the lock lasts as long as the value.
    take_opened(File::from(fs::open_at(folder, OsStr::new("."), fs::FOLDER)?), patience)
}

/// Takes the exclusive lock of an open file or folder, and leaves its times alone: at once, or after waiting for one
/// holder no longer than `patience`. `None` if someone else keeps it.
///
/// # Errors
/// Returns the OS error.
pub fn take_opened(file: File, patience: Option<Duration>) -> std::io::Result<Option<Lock>> {
    let is_free = is_taken(&file)?;
    if !is_free && patience.map_or(Ok(None), |patience| wait_for(&file, patience))?.is_none() {
        return Ok(None);
    }
    Ok(Some(Lock { _file: file }))
}

/// A process that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Process id.
    pub process: u32,
    /// Name of its program; empty if unknown.
    pub program: String,
}

impl Holder {
    /// Returns the processes that hold a lock on a file, if the OS shows them: it hides those of another container.
    pub fn all_of(stat: &Stat) -> Vec<Self> {
        /// Most bytes of the OS's table of locks that are read.
        const TABLE_BYTES_MAX: u64 = 1 << 20;
        let table = fs::read_at(rustix::fs::CWD, "/proc/locks".as_ref(), TABLE_BYTES_MAX).ok().flatten();
        let table = table.unwrap_or_default();
        let inode = stat.st_ino.to_string();
        let mut holders: Vec<Self> = Vec::new();
        for line in String::from_utf8_lossy(&table).lines() {
            // `1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF` (proc_locks(5)); a line with `->` is a waiter.
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, "FLOCK", _, _, process, file, ..] = fields.as_slice() else { continue };
            let process = process.parse().ok().filter(|process| *process > 0);
            if let Some(process) = process.filter(|_| file.rsplit(':').next() == Some(inode.as_str())) {
                let name = fs::read_at(rustix::fs::CWD, format!("/proc/{process}/comm").as_ref(), 64);
                let program =
                    String::from_utf8_lossy(&name.ok().flatten().unwrap_or_default()).trim().to_owned();
                holders.push(Self { process, program });
            }
        }
        holders
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.program.as_str() {
            "" => write!(f, "process {}", self.process),
            program => write!(f, "process {} ({program})", self.process),
        }
    }
}

/// Takes the lock of an opened file if it is free; returns true if it was.
fn is_taken(file: &File) -> std::io::Result<bool> {
    match fs2::FileExt::try_lock_exclusive(file) {
        Ok(()) => Ok(true),
        Err(source) if is_contended(&source) => Ok(false),
        Err(source) => Err(source),
    }
}

/// Shows waiters that the lock has another holder.
fn touch(file: &File, stat: &Stat) {
    // A file with other names is also someone else's, and its time must not change.
    if stat.st_nlink != 1 {
        return;
    }
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    // Another account's file keeps its time: waiters then give up earlier than necessary.
    let _ = rustix::fs::futimens(file, &Timestamps { last_access: now, last_modification: now });
}

/// Opens a lock's file; creates it if missing. Read-only if this account may not write it.
fn open(folder: BorrowedFd<'_>, name: &OsStr, mode: u32) -> Result<(File, Stat), Errno> {
    let mut last = Errno::AGAIN;
    for _ in 0..TRIES {
        // Others may write here, so the path may hold anything, and merely opening it may do harm.
        if mode & OTHERS != 0 {
            match fs::stat_at(folder, name) {
                Ok(stat) if !fs::is_regular(&stat) => {
                    set_aside(folder, name)?;
                    continue;
                }
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        match open_or_make(folder, name, mode) {
            Ok(file) => match rustix::fs::fstat(&file) {
                Ok(stat) if fs::is_regular(&stat) => return Ok((file, stat)),
                // Something else has the name, or took it in between: try again.
                _ => set_aside(folder, name)?,
            },
            // As above.
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::NODEV) => set_aside(folder, name)?,
            // It may have been created or removed between two tries.
            Err(errno @ (Errno::ACCESS | Errno::ROFS | Errno::PERM)) => last = errno,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(last)
}

/// Opens the existing file, or creates it; an error if this account may not create it.
fn open_or_make(folder: BorrowedFd<'_>, name: &OsStr, mode: u32) -> Result<File, Errno> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let open =
        |flags| rustix::io::retry_on_intr(|| rustix::fs::openat(folder, name, flags, platform::mode(mode)));
    match open(flags | OFlags::RDWR | OFlags::CREATE) {
        Err(refused @ (Errno::ACCESS | Errno::ROFS | Errno::PERM)) => {
            open(flags | OFlags::RDONLY).map_err(|errno| if errno == Errno::NOENT { refused } else { errno })
        }
        opened => opened,
    }
    .map(File::from)
}

/// Renames whatever is at a lock's path.
///
/// Locks the folder meanwhile: otherwise one call could rename a lock that another has just made and holds.
fn set_aside(folder: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    let locked = fs::open_at(folder, OsStr::new("."), fs::FOLDER)?;
    rustix::io::retry_on_intr(|| rustix::fs::flock(&locked, FlockOperation::LockExclusive))?;
    match fs::stat_at(locked.as_fd(), name) {
        Ok(stat) if !fs::is_regular(&stat) => {
            let aside = unique_name(&format!("{}.aside", name.to_string_lossy()));
            fs::rename_at(&locked, name, &locked, aside)
        }
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Waits for a lock in a thread, while it passes from holder to holder; `None` if one keeps it too long.
fn wait_for(file: &File, patience: Duration) -> std::io::Result<Option<File>> {
    let waiting = file.try_clone()?;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let locked = loop {
            match fs2::FileExt::lock_exclusive(&waiting) {
                Err(source) if source.kind() == std::io::ErrorKind::Interrupted => {}
                outcome => break outcome,
            }
        };
        // If nobody waits any more, the file is closed here, which releases the lock.
        let _ = sender.send(locked.map(|()| waiting));
    })?;
    let mut seen = rustix::fs::fstat(file)?;
    loop {
        if let Ok(locked) = receiver.recv_timeout(patience) {
            return locked.map(Some);
        }
        let now = rustix::fs::fstat(file)?;
        if (now.st_mtime, now.st_mtime_nsec) == (seen.st_mtime, seen.st_mtime_nsec) {
            return Ok(None);
        }
        seen = now;
    }
}

/// Returns true if the error only means that someone else holds the lock.
fn is_contended(source: &std::io::Error) -> bool {
    source.raw_os_error() == fs2::lock_contended_error().raw_os_error()
        || source.kind() == std::io::ErrorKind::Interrupted
}

/// Returns a unique name, from the process id, a counter and the clock.
pub fn unique_name(prefix: &str) -> String {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() & 0xffff_ffff_ffff);
    let count = NAMES.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{nanos:012x}-{:x}-{count:x}", crate::engine::workspace::fs::process_id())
}

/// Returns true if [`unique_name`] could have made the name, after its prefix.
pub fn is_unique(name: &str) -> bool {
    let is_hex = |part: &str| {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (1..=16).contains(&part.len()) && part.bytes().all(is_digit)
    };
    let parts: Vec<&str> = name.split('-').collect();
    parts.len() == 3
        && parts.iter().all(|part| is_hex(part))
        && parts.first().is_some_and(|nanos| nanos.len() == 12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn taking_a_free_lock_keeps_its_mtime() {
        let folder = tempfile::tempdir().unwrap();
        let opened = File::open(folder.path()).unwrap();
        let take = || take(opened.as_fd(), "lock", 0o600, None).unwrap().expect("nobody holds it");
        drop(take());
        let (path, time) = (folder.path().join("lock"), SystemTime::UNIX_EPOCH + Duration::from_secs(9));
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        drop(take());
        assert_eq!(path.metadata().unwrap().modified().unwrap(), time);
    }

    #[test]
    fn folder_lock_excludes_others_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let opened = File::open(folder.path()).unwrap();
        let take = |patience| take_folder(opened.as_fd(), patience).unwrap();
        let held = take(None).expect("nobody holds it");
        assert!(take(None).is_none() && take(Some(Duration::from_millis(10))).is_none());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| take(Some(Duration::from_secs(60))));
            drop(held);
            assert!(waiting.join().unwrap().is_some());
        });
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    }
}
