//! Locks, and names that no other call uses.
//!
//! Locks are advisory (`flock`), so that they die with their holder. Nobody reads a lock's file: each holder that had to
//! wait sets its time, by which those who still wait see that the lock changes hands. Anything else in its place is set
//! aside.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use crate::engine::workspace::fs;

/// Tries to get hold of a lock whose file others remove or set aside meanwhile.
const TRIES: usize = 20;
/// The permission bits of a lock that other accounts take too.
const OTHERS: u32 = 0o066;

/// A held lock; dropped, it is free.
#[derive(Debug)]
#[must_use = "the lock is free as soon as this is dropped"]
pub struct Lock {
    /// The locked file; closing it unlocks.
    _file: File,
}

/// Takes the exclusive lock `name` in `folder`: at once, or waiting while it goes from holder to holder
/// and none keeps it longer than `patience`. Its file is made with `mode` where it is missing. `None` if someone else
/// has it.
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
        // A lock belongs to what was opened, whichever of its descriptors stays.
        if !is_free && patience.map_or(Ok(None), |patience| wait_for(&file, patience))?.is_none() {
            return Ok(None);
        }
        // Where the file has lost its name meanwhile, others lock another one.
        if let Ok(named) = fs::stat_at(folder, name)
            && fs::is_same_file(&named, &stat)
        {
            // Whom nobody held up writes nothing that the next sync would have to wait for.
            if !is_free {
                touch(&file, &named);
            }
            return Ok(Some(Lock { _file: file }));
        }
    }
    Err(Errno::AGAIN.into())
}

/// A process that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub process: u32,
    /// The name of its program; empty where the system does not tell.
    pub program: String,
}

impl Holder {
    /// The processes that hold a lock on a file, as far as the system tells: those of another container it does not.
    #[must_use]
    pub fn all_of(stat: &Stat) -> Vec<Self> {
        /// Bytes of the system's table of locks that are read.
        const TABLE_BYTES_MAX: u64 = 1 << 20;
        let table = fs::read_at(rustix::fs::CWD, "/proc/locks".as_ref(), TABLE_BYTES_MAX).ok().flatten();
        let table = table.unwrap_or_default();
        let inode = stat.st_ino.to_string();
        let mut holders: Vec<Self> = Vec::new();
        for line in String::from_utf8_lossy(&table).lines() {
            // `1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF` (proc_locks(5)); a line with `->` is of one who waits.
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

    /// Returns true if it is lbx itself.
    #[must_use]
    pub fn is_lbx(&self) -> bool {
        self.program == "lbx"
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

/// Takes the lock of an opened file if it is free at once; whether it was.
fn is_taken(file: &File) -> std::io::Result<bool> {
    match fs2::FileExt::try_lock_exclusive(file) {
        Ok(()) => Ok(true),
        Err(source) if is_contended(&source) => Ok(false),
        Err(source) => Err(source),
    }
}

/// Shows those who wait that the lock has another holder.
fn touch(file: &File, stat: &Stat) {
    // A file with other names is someone else's too, and its time is nobody's business here.
    if stat.st_nlink != 1 {
        return;
    }
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    // Another account's file keeps its time: those who wait then give up earlier than they had to.
    let _ = rustix::fs::futimens(file, &Timestamps { last_access: now, last_modification: now });
}

/// Opens a lock's file, made where it is missing; read-only where this account may not write it.
fn open(folder: BorrowedFd<'_>, name: &OsStr, mode: u32) -> Result<(File, Stat), Errno> {
    let mut last = Errno::AGAIN;
    for _ in 0..TRIES {
        // Where others may write, anything may stand, and not even opening it may be harmless.
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
                // Something else stands there, or came in between: look again.
                _ => set_aside(folder, name)?,
            },
            // As above.
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::NODEV) => set_aside(folder, name)?,
            // It may have been made or removed between two looks.
            Err(errno @ (Errno::ACCESS | Errno::ROFS | Errno::PERM)) => last = errno,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(last)
}

/// Opens what stands there, or makes it; an account that may not make it is told that.
fn open_or_make(folder: BorrowedFd<'_>, name: &OsStr, mode: u32) -> Result<File, Errno> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let open = |flags| {
        rustix::io::retry_on_intr(|| rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(mode)))
    };
    match open(flags | OFlags::RDWR | OFlags::CREATE) {
        Err(refused @ (Errno::ACCESS | Errno::ROFS | Errno::PERM)) => {
            open(flags | OFlags::RDONLY).map_err(|errno| if errno == Errno::NOENT { refused } else { errno })
        }
        opened => opened,
    }
    .map(File::from)
}

/// Gives whatever stands in a lock's place another name.
///
/// The folder is locked meanwhile: else one call could set aside the lock that another has just made
/// and holds.
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

/// Waits for a lock in a thread of its own, for as long as it goes from holder to holder; `None`
/// where one kept it too long.
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
        // Where nobody waits any more, the file is closed here, and so the lock is free.
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

/// Returns true if a lock is merely held by someone else.
fn is_contended(source: &std::io::Error) -> bool {
    source.raw_os_error() == fs2::lock_contended_error().raw_os_error()
        || source.kind() == std::io::ErrorKind::Interrupted
}

/// Returns a name that no other call uses: the process, a counter and the clock.
#[must_use]
pub fn unique_name(prefix: &str) -> String {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() & 0xffff_ffff_ffff);
    let count = NAMES.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{nanos:012x}-{:x}-{count:x}", crate::engine::workspace::fs::process_id())
}

/// Returns true if a name is one that [`unique_name`] makes, after its prefix.
#[must_use]
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
    fn a_lock_that_was_free_keeps_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let opened = File::open(folder.path()).unwrap();
        let take = || take(opened.as_fd(), "lock", 0o600, None).unwrap().expect("nobody holds it");
        drop(take());
        let (path, time) = (folder.path().join("lock"), SystemTime::UNIX_EPOCH + Duration::from_secs(9));
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        drop(take());
        assert_eq!(path.metadata().unwrap().modified().unwrap(), time);
    }
}
