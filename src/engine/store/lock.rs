//! Locks, unique names, and folders for temporary files.
//!
//! Locks are advisory (`flock`), so that they die with their holder. Nobody reads a lock's file, but its times count: a
//! call that begins to wait sets the time of access, and that of modification once it holds the lock, which shows other
//! waiters that the lock changes hands. Anything else at its path is renamed.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;

use super::queue::{self, QueuePlace};
use crate::engine::workspace::fs;
use crate::platform;

/// Most tries to take a lock whose file others remove or rename meanwhile.
const TRIES: usize = 20;
/// Time after which a lock is contended no longer, if no call has begun to wait for it, and none that waited took it.
const CONTENDED_FOR: Duration = Duration::from_secs(1);
/// Time after which a call that waits takes a lock that is free although others are before it in the queue.
const QUEUE_STOPPED_AFTER: Duration = Duration::from_secs(1);
/// Longest time until a call that is cancelled stops to wait.
const CANCELLED_AFTER: Duration = Duration::from_millis(50);
/// Permission bits of a lock that other accounts take too.
const OTHERS: u32 = 0o066;

/// A held lock; released on drop.
#[derive(Debug)]
#[must_use = "the lock is free as soon as this is dropped"]
pub struct Lock {
    /// Locked file; closing it unlocks.
    _file: File,
}

/// Way to wait for a lock that others hold.
#[derive(Clone, Copy)]
pub struct LockWait<'a> {
    /// Longest time that one holder may keep it.
    pub patience: Duration,
    /// Folder of the queue of those that wait; `None` if any of them is next.
    pub queue: Option<BorrowedFd<'a>>,
    /// Work to do meanwhile.
    pub meanwhile: &'a dyn Fn(),
    /// Returns true once the call no longer wants the lock.
    pub is_over: &'a dyn Fn() -> bool,
}

impl LockWait<'_> {
    /// Returns the way to wait for a lock that has no queue.
    pub const fn without_queue(patience: Duration) -> Self {
        Self { patience, queue: None, meanwhile: &|| {}, is_over: &|| false }
    }
}

/// Takes the exclusive lock `name` in `folder`: at once, or after a wait while it passes from holder to holder. Creates
/// its file with `mode` if missing. `None` if someone else keeps it.
///
/// # Errors
/// Returns the OS error.
pub fn take(
    folder: BorrowedFd<'_>,
    name: &str,
    mode: u32,
    wait: Option<LockWait<'_>>,
) -> std::io::Result<Option<Lock>> {
    let name = OsStr::new(name);
    for _ in 0..TRIES {
        let patience = wait.map(|wait| wait.patience);
        let (mut file, stat) = open(folder, name, mode, patience)?;
        let is_free = is_taken(&file)? && !is_overtaking(&file, &stat, wait)?;
        if !is_free {
            let Some(wait) = wait else { return Ok(None) };
            if wait.queue.is_some() {
                touch(&file, &stat, UTIME_OMIT);
            }
            file = match wait_for(&file, wait, &|| open(folder, name, mode, patience))? {
                WaitResult::Locked(locked) => locked,
                WaitResult::NewQueue => continue,
                WaitResult::TooLong => return Ok(None),
            };
        }
        // If the file was unlinked or replaced meanwhile, others lock another one.
        if let Ok(named) = fs::stat_at(folder, name)
            && fs::is_same_file(&named, &stat)
        {
            // Without a wait, skip a write that the next sync would have to flush.
            if !is_free {
                touch(&file, &named, UTIME_NOW);
            }
            return Ok(Some(Lock { _file: file }));
        }
    }
    Err(Errno::AGAIN.into())
}

/// Returns true, and releases the lock, if it was free only because those that wait for it are not awake yet.
fn is_overtaking(file: &File, stat: &Stat, wait: Option<LockWait<'_>>) -> std::io::Result<bool> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let contended = u64::try_from(stat.st_atime.max(stat.st_mtime)).unwrap_or_default();
    // The times spare a call that is alone the look at the queue.
    let has_waiters = contended.saturating_add(CONTENDED_FOR.as_secs()) >= now
        && wait.and_then(open_queue).is_some_and(|file| queue::is_used(&file));
    if has_waiters {
        fs2::FileExt::unlock(file)?;
    }
    Ok(has_waiters)
}

/// Takes an exclusive lock on a folder, which needs no file, as [`take_open_file`] does.
///
/// # Errors
/// Returns the OS error; not every file system locks folders.
pub fn take_folder(folder: BorrowedFd<'_>, patience: Option<Duration>) -> std::io::Result<Option<Lock>> {
    // A descriptor of its own, so that the lock lasts as long as the value.
    take_open_file(File::from(fs::open_at(folder, OsStr::new("."), fs::FOLDER)?), patience)
}

/// Takes the exclusive lock of an open file or folder, and leaves its times alone: at once, or after waiting for one
/// holder no longer than `patience`. `None` if someone else keeps it.
///
/// # Errors
/// Returns the OS error.
pub fn take_open_file(file: File, patience: Option<Duration>) -> std::io::Result<Option<Lock>> {
    if is_taken(&file)? {
        return Ok(Some(Lock { _file: file }));
    }
    let Some(patience) = patience else { return Ok(None) };
    match wait_for(&file, LockWait::without_queue(patience), &|| Err(Errno::NOSYS))? {
        // A `flock` belongs to the open file, whichever of its descriptors stays open.
        WaitResult::Locked(file) => Ok(Some(Lock { _file: file })),
        WaitResult::NewQueue | WaitResult::TooLong => Ok(None),
    }
}

/// A process that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHolder {
    /// Process id.
    pub process: u32,
    /// Name of its program; empty if unknown.
    pub program: String,
}

impl LockHolder {
    /// Returns the processes that hold a lock on a file or folder with this inode, in or at `folder`, if the OS shows them: it
    /// hides those of another container.
    pub fn all_of(folder: BorrowedFd<'_>, stat: &Stat) -> Vec<Self> {
        /// Most bytes of the OS's table of locks that are read.
        const TABLE_BYTES_MAX: u64 = 1 << 20;
        let table = fs::read_or_empty(rustix::fs::CWD, "/proc/locks".as_ref(), TABLE_BYTES_MAX);
        let Some(device) = device_in_locks(folder) else { return Vec::new() };
        let wanted = format!("{device}:{}", stat.st_ino);
        let mut holders: Vec<Self> = Vec::new();
        for line in String::from_utf8_lossy(&table).lines() {
            // `1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF` (proc_locks(5)); a line with `->` is a waiter.
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, "FLOCK", _, _, process, file, ..] = fields.as_slice() else { continue };
            let process = process.parse().ok().filter(|process| *process > 0);
            if let Some(process) = process.filter(|_| *file == wanted) {
                let file = format!("/proc/{process}/comm");
                let name = fs::read_or_empty(rustix::fs::CWD, file.as_ref(), 64);
                let program = String::from_utf8_lossy(&name).trim().to_owned();
                holders.push(Self { process, program });
            }
        }
        holders
    }
}

impl std::fmt::Display for LockHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.program.as_str() {
            "" => write!(f, "process {}", self.process),
            program => write!(f, "process {} ({program})", self.process),
        }
    }
}

/// Returns the device of a folder's mount as `/proc/locks` has it; on btrfs, stat(2) shows another one.
fn device_in_locks(folder: BorrowedFd<'_>) -> Option<String> {
    /// Most bytes of the OS's table of mounts that are read.
    const TABLE_BYTES_MAX: u64 = 16 << 20;
    let mount = fs::mount_of(folder).ok()?.1?.to_string();
    let table = fs::read_or_empty(rustix::fs::CWD, "/proc/self/mountinfo".as_ref(), TABLE_BYTES_MAX);
    let table = String::from_utf8_lossy(&table);
    // `36 35 98:0 /mnt1 /mnt2 …` (proc_pid_mountinfo(5))
    let mut lines = table.lines().map(str::split_whitespace);
    let mut fields = lines.find_map(|mut fields| (fields.next()? == mount).then_some(fields))?;
    let (major, minor) = fields.nth(1)?.split_once(':')?;
    Some(format!("{:02x}:{:02x}", major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
}

/// Takes the lock of an opened file if it is free; returns true if it was.
fn is_taken(file: &File) -> std::io::Result<bool> {
    match fs2::FileExt::try_lock_exclusive(file) {
        Ok(()) => Ok(true),
        Err(source) if is_contended(&source) => Ok(false),
        Err(source) => Err(source),
    }
}

/// Sets the time of access, and unless `modification` is `UTIME_OMIT`, that of modification.
fn touch(file: &File, stat: &Stat, modification: i64) {
    // A file with other names is also someone else's, and its time must not change.
    if stat.st_nlink != 1 {
        return;
    }
    let time = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let times = Timestamps { last_access: time(UTIME_NOW), last_modification: time(modification) };
    // Another account's file keeps its time: waiters then give up earlier than necessary.
    let _ = rustix::fs::futimens(file, &times);
}

/// Opens the file of the queue, if there is one.
fn open_queue(wait: LockWait<'_>) -> Option<File> {
    open(wait.queue?, queue::NAME.as_ref(), 0o600, Some(wait.patience)).ok().map(|(file, _)| file)
}

/// Opens a lock's file; creates it if missing. Read-only if this account may not write it.
/// Waits no longer than `patience` to rename anything else at its path.
fn open(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    mode: u32,
    patience: Option<Duration>,
) -> Result<(File, Stat), Errno> {
    let mut last = Errno::AGAIN;
    for _ in 0..TRIES {
        let mut is_shared_and_new = false;
        // Others may write here, so the path may hold anything, and merely opening it may do harm.
        if mode & OTHERS != 0 {
            match fs::stat_at(folder, name) {
                Ok(stat) if !fs::is_regular(&stat) => {
                    set_aside(folder, name, patience)?;
                    continue;
                }
                Ok(_) => {}
                Err(Errno::NOENT) => is_shared_and_new = true,
                Err(errno) => return Err(errno),
            }
        }
        match open_or_make(folder, name, mode) {
            Ok(file) => match rustix::fs::fstat(&file) {
                Ok(stat) if fs::is_regular(&stat) => {
                    if is_shared_and_new {
                        // A file that another account made meanwhile keeps its mode.
                        let _ = fs::share_with_group_of(folder, &file);
                    }
                    return Ok((file, stat));
                }
                // Something else has the name, or took it in between: try again.
                _ => set_aside(folder, name, patience)?,
            },
            // As above.
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::NODEV) => {
                set_aside(folder, name, patience)?;
            }
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
/// Locks the folder meanwhile: otherwise one call could rename a lock that another has just made and holds. A change that
/// takes its steps may keep that lock: the wait ends with `EAGAIN`.
fn set_aside(folder: BorrowedFd<'_>, name: &OsStr, patience: Option<Duration>) -> Result<(), Errno> {
    let locked = take_folder(folder, patience)
        .map_err(|source| source.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?;
    let _locked = locked.ok_or(Errno::AGAIN)?;
    match fs::stat_at(folder, name) {
        Ok(stat) if !fs::is_regular(&stat) => {
            let aside = unique_name(&format!("{}.aside", name.to_string_lossy()));
            fs::rename_at(folder, name, folder, aside)
        }
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Result of a wait.
enum WaitResult {
    /// The call holds the lock.
    Locked(File),
    /// Another queue has begun, or has to begin.
    NewQueue,
    /// One holder keeps the lock too long, or the call no longer wants it.
    TooLong,
}

/// Waits for a lock while it passes from holder to holder. `open` opens its file again.
fn wait_for(
    file: &File,
    wait: LockWait<'_>,
    open: &dyn Fn() -> Result<(File, Stat), Errno>,
) -> std::io::Result<WaitResult> {
    // Without a place, the call takes the lock when it can.
    let place = open_queue(wait).and_then(|file| QueuePlace::take(file).ok().flatten());
    let receiver = lock_in_thread(file.try_clone()?, place.as_ref())?;
    (wait.meanwhile)();
    let (mut seen, mut since) = (rustix::fs::fstat(file)?, Instant::now());
    let queued = wait.queue.zip(place.as_ref());
    let look_after = queued.map_or(wait.patience, |_| wait.patience.min(QUEUE_STOPPED_AFTER));
    loop {
        let looked = Instant::now();
        loop {
            if let Ok(locked) = receiver.recv_timeout(CANCELLED_AFTER.min(look_after)) {
                return locked.map(WaitResult::Locked);
            }
            if (wait.is_over)() {
                return Ok(WaitResult::TooLong);
            }
            if looked.elapsed() >= look_after {
                break;
            }
        }
        if queued.is_some_and(|(queue, place)| !place.is_in_queue(queue)) {
            return Ok(WaitResult::NewQueue);
        }
        let now = rustix::fs::fstat(file)?;
        if (now.st_mtime, now.st_mtime_nsec) != (seen.st_mtime, seen.st_mtime_nsec) {
            (seen, since) = (now, Instant::now());
            continue;
        }
        // A process before this one may be stopped, so that it neither takes a free lock nor gives up its place.
        if let Some((queue, _)) = queued
            && let Ok((again, _)) = open()
            && is_taken(&again)?
        {
            queue::renew(queue);
            return Ok(WaitResult::NewQueue);
        }
        if since.elapsed() >= wait.patience {
            return Ok(WaitResult::TooLong);
        }
    }
}

/// Takes a lock in a thread, which waits for its place in the queue first.
fn lock_in_thread(
    file: File,
    place: Option<&QueuePlace>,
) -> std::io::Result<Receiver<std::io::Result<File>>> {
    let place = place.map(QueuePlace::try_clone).transpose()?;
    let (sender, receiver) = channel();
    std::thread::Builder::new().spawn(move || {
        // If this fails, the lock still excludes others.
        let _ = place.as_ref().map(QueuePlace::wait);
        let locked = loop {
            match fs2::FileExt::lock_exclusive(&file) {
                Err(source) if source.kind() == std::io::ErrorKind::Interrupted => {}
                outcome => break outcome,
            }
        };
        drop(place);
        // If nobody waits any more, the file is closed here, which releases the lock.
        let _ = sender.send(locked.map(|()| file));
    })?;
    Ok(receiver)
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

/// Returns true if [`unique_name`] could have made the name with that prefix.
pub fn is_unique_with(prefix: &str, name: &str) -> bool {
    name.strip_prefix(prefix).and_then(|name| name.strip_prefix('-')).is_some_and(is_unique)
}

/// A new folder for temporary files of this user alone; removed on drop.
pub struct TemporaryFolder(pub PathBuf);

impl TemporaryFolder {
    /// Makes it.
    ///
    /// # Errors
    /// Returns the OS error.
    #[expect(clippy::disallowed_methods, reason = "a new folder with a name that nobody knows")]
    pub fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(unique_name("lbx"));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFolder {
    #[expect(clippy::disallowed_methods, reason = "the folder that it made; links in it are not followed")]
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

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

    /// Waits as a call does for the workspace's lock.
    fn in_queue(folder: &File, patience: Duration) -> Option<Lock> {
        let wait = LockWait { patience, queue: Some(folder.as_fd()), ..LockWait::without_queue(patience) };
        take(folder.as_fd(), "lock", 0o600, Some(wait)).unwrap()
    }

    #[cfg(all(target_os = "linux", not(feature = "portable")))]
    #[test]
    fn free_lock_is_not_taken_before_those_that_wait_unless_they_are_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let opened = File::open(folder.path()).unwrap();
        drop(in_queue(&opened, Duration::ZERO).expect("nobody holds it"));
        let queue = || open(opened.as_fd(), queue::NAME.as_ref(), 0o600, None).unwrap();
        let (file, before) = queue();
        let place = QueuePlace::take(file).unwrap().unwrap();
        let long = Duration::from_secs(60);
        std::thread::scope(|scope| {
            let newcomer = scope.spawn(|| in_queue(&opened, long));
            std::thread::sleep(Duration::from_millis(200));
            assert!(!newcomer.is_finished(), "it took a free lock though another call waits");
            drop(place);
            assert!(newcomer.join().unwrap().is_some());
        });
        assert_eq!(queue().1.st_ino, before.st_ino);
        // One that neither takes the lock nor dies holds up nobody for long, and new calls not at all.
        let stopped = QueuePlace::take(queue().0).unwrap().unwrap();
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..6).map(|_| scope.spawn(|| in_queue(&opened, long).is_some())).collect();
            assert!(calls.into_iter().all(|call| call.join().unwrap()));
        });
        assert!(begun.elapsed() >= QUEUE_STOPPED_AFTER);
        assert_ne!(queue().1.st_ino, before.st_ino);
        drop(in_queue(&opened, long).expect("nobody holds it"));
        drop(stopped);
    }

    #[test]
    fn lock_that_is_kept_too_long_is_given_up_by_all_that_wait() {
        let folder = tempfile::tempdir().unwrap();
        let opened = File::open(folder.path()).unwrap();
        let held = take(opened.as_fd(), "lock", 0o600, None).unwrap().expect("nobody holds it");
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let wait = || in_queue(&opened, QUEUE_STOPPED_AFTER * 2);
            let waiting = [scope.spawn(wait), scope.spawn(wait)];
            assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap().is_none()));
        });
        assert!(begun.elapsed() >= QUEUE_STOPPED_AFTER * 2);
        drop(held);
        assert!(in_queue(&opened, Duration::from_secs(60)).is_some());
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
