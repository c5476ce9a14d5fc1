//! `.lbx/`: everything that lbx remembers, reached from opened folders only.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use super::fs;
use super::path::WorkspacePath;
use super::workspace::Workspace;
use crate::error::{Error, ErrorKind};

/// The folder at the workspace root.
pub const STATE_FOLDER: &str = ".lbx";
/// Size of what a lock's file says of its holder.
const HOLDER_BYTES_MAX: usize = 100;
/// The file that tells git what not to see.
const IGNORE_NAME: &str = ".gitignore";
/// Keeps the state out of git, save for the policy that a team may want to share.
const IGNORE_FILE: &[u8] = b"# lbx keeps its own state here.\n*\n!/config.toml\n";

/// The opened `.lbx/`.
#[derive(Debug)]
pub struct State {
    /// The folder itself.
    folder: OwnedFd,
    /// How long one holder may keep a lock before those who wait give up.
    lock_wait: Duration,
}

impl State {
    /// Opens `.lbx/`; `None` where there is none yet.
    ///
    /// # Errors
    /// `not_a_directory` where something else has its name, or the system's.
    pub fn find(workspace: &Workspace) -> Result<Option<Self>, Error> {
        match fs::open_at(workspace.root_fd(), OsStr::new(STATE_FOLDER), fs::FOLDER) {
            Ok(folder) => Ok(Some(Self { folder, lock_wait: workspace.lock_wait() })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => Err(Error::new(
                ErrorKind::NotADirectory,
                format!("{STATE_FOLDER} is no folder of its own, so lbx cannot keep its state there"),
            )
            .at(STATE_FOLDER)
            .suggest("Remove .lbx (a file or a symlink) from the workspace root and repeat the call.")),
            Err(errno) => Err(Error::io("open", STATE_FOLDER, errno)),
        }
    }

    /// Opens `.lbx/`, and makes it where there is none.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn open(workspace: &Workspace) -> Result<Self, Error> {
        let state = if let Some(state) = Self::find(workspace)? {
            state
        } else {
            make_folder(workspace.root_fd(), OsStr::new(STATE_FOLDER), 0o777)
                .map_err(|errno| Error::io("make", STATE_FOLDER, errno))?;
            Self::find(workspace)?
                .ok_or_else(|| Error::io("open", STATE_FOLDER, std::io::Error::from(Errno::NOENT)))?
        };
        // Looked for each time: the call that made the folder may have been killed before this.
        if matches!(fs::stat_at(state.fd(), OsStr::new(IGNORE_NAME)), Err(Errno::NOENT)) {
            state.replace(state.fd(), OsStr::new(IGNORE_NAME), IGNORE_FILE)?;
        }
        Ok(state)
    }

    /// The folder, for calls relative to it.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// The folder of that path below it, if there is one.
    ///
    /// # Errors
    /// What the system says.
    pub fn find_folder(&self, path: &str) -> Result<Option<OwnedFd>, Error> {
        let Some(path) = WorkspacePath::new(path.as_ref()) else {
            return Err(Error::internal(format!("{path} is no folder of the state")));
        };
        match fs::open_beneath(self.fd(), &path, fs::FOLDER) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::io("open", shown(&path.to_string()), errno)),
        }
    }

    /// The folder of that path below it, made where it is missing; for this user's eyes alone.
    ///
    /// # Errors
    /// What the system says.
    pub fn folder(&self, path: &str) -> Result<OwnedFd, Error> {
        if let Some(folder) = self.find_folder(path)? {
            return Ok(folder);
        }
        let mut made = String::new();
        for name in path.split('/') {
            let parent = if made.is_empty() { None } else { self.find_folder(&made)? };
            let parent = parent.as_ref().map_or(self.fd(), AsFd::as_fd);
            make_folder(parent, OsStr::new(name), 0o700)
                .map_err(|errno| Error::io("make", shown(path), errno))?;
            made = if made.is_empty() { name.to_owned() } else { format!("{made}/{name}") };
        }
        self.find_folder(path)?
            .ok_or_else(|| Error::io("open", shown(path), std::io::Error::from(Errno::NOENT)))
    }

    /// Replaces a small file at once: whoever reads it sees the old bytes or the new.
    ///
    /// # Errors
    /// What the system says; then nothing has changed.
    pub fn replace(&self, folder: BorrowedFd<'_>, name: &OsStr, bytes: &[u8]) -> Result<(), Error> {
        let temporary = unique_name(".tmp");
        let temporary = OsStr::new(&temporary);
        let written = fs::create_at(folder, temporary, 0o600)
            .map_err(std::io::Error::from)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| Ok(fs::rename_at(folder, temporary, folder, name)?));
        written.map_err(|source| {
            // The temporary file is of no use to anyone; that it could not be removed changes nothing.
            let _ = fs::unlink_at(folder, temporary, AtFlags::empty());
            Error::io("write", shown(&name.to_string_lossy()), source)
        })
    }

    /// Takes the exclusive lock `name` in `folder`, waiting until it is free.
    ///
    /// The lock is advisory (`flock`) and dies with its holder. It is handed on in the order of
    /// waiting, so a long queue is no reason to give up; one holder that keeps it for too long is
    /// (10 s, unless the policy says otherwise).
    ///
    /// # Errors
    /// `lock_timeout`, or the system's.
    pub fn lock(&self, folder: BorrowedFd<'_>, name: &str) -> Result<Lock, Error> {
        let file =
            open_lock(folder, OsStr::new(name)).map_err(|errno| Error::io("open", shown(name), errno))?;
        let io = |source| Error::io("lock", shown(name), source);
        match fs2::FileExt::try_lock_exclusive(&file) {
            Ok(()) => {}
            Err(source) if is_contended(&source) => {
                let locked = wait_for(&file, self.lock_wait).map_err(io)?;
                let holder = locked.ok_or_else(|| {
                    Error::new(
                        ErrorKind::LockTimeout,
                        format!("another lbx call held {} for {} s", shown(name), self.lock_wait.as_secs()),
                    )
                })?;
                return Lock::held(holder).map_err(io);
            }
            Err(source) => return Err(io(source)),
        }
        Lock::held(file).map_err(io)
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
    let mut holder = holder_of(file);
    loop {
        if let Ok(locked) = receiver.recv_timeout(patience) {
            return locked.map(Some);
        }
        let now = holder_of(file);
        if now == holder {
            return Ok(None);
        }
        holder = now;
    }
}

/// What the last holder of a lock left in its file.
fn holder_of(file: &File) -> Vec<u8> {
    let mut name = vec![0; HOLDER_BYTES_MAX];
    let length = rustix::io::pread(file, &mut name, 0).unwrap_or(0);
    name.truncate(length);
    name
}

/// A held lock; dropped, it is free.
#[derive(Debug)]
#[must_use = "the lock is free as soon as this is dropped"]
pub struct Lock {
    /// The locked file; closing it unlocks.
    _file: File,
}

impl Lock {
    /// A lock that was just taken; its file says so to those who wait.
    fn held(file: File) -> std::io::Result<Self> {
        rustix::io::retry_on_intr(|| rustix::io::pwrite(&file, unique_name("holder").as_bytes(), 0))?;
        Ok(Self { _file: file })
    }
}

/// Whether a lock is merely held by someone else.
fn is_contended(source: &std::io::Error) -> bool {
    source.raw_os_error() == fs2::lock_contended_error().raw_os_error()
        || source.kind() == std::io::ErrorKind::Interrupted
}

/// Opens a lock file, made where it is missing.
fn open_lock(folder: BorrowedFd<'_>, name: &OsStr) -> Result<File, Errno> {
    use rustix::fs::OFlags;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mode = Mode::from_raw_mode(0o600);
    rustix::io::retry_on_intr(|| rustix::fs::openat(folder, name, flags, mode)).map(File::from)
}

/// Makes a folder, where there is none yet.
///
/// # Errors
/// What the system says.
pub fn make_folder(parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> Result<(), Errno> {
    match rustix::io::retry_on_intr(|| rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode))) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// A name that no other call uses: the process, a counter and the clock.
#[must_use]
pub fn unique_name(prefix: &str) -> String {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() & 0xffff_ffff_ffff);
    let count = NAMES.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{nanos:012x}-{:x}-{count:x}", std::process::id())
}

/// A state file as messages name it.
#[must_use]
pub fn shown(name: &str) -> String {
    format!("{STATE_FOLDER}/{name}")
}
