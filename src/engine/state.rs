//! `.lbx/`: everything that lbx remembers, reached from opened folders only.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::fs;
use super::path::WorkspacePath;
use super::transaction::stage;
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
    /// Folders that got a new one in this call, which is not durable yet.
    grown: RefCell<Vec<OwnedFd>>,
}

impl State {
    /// Opens `.lbx/`; `None` where there is none yet.
    ///
    /// # Errors
    /// `not_a_directory` where something else has its name, or the system's.
    pub fn find(workspace: &Workspace) -> Result<Option<Self>, Error> {
        match fs::open_at(workspace.root_fd(), OsStr::new(STATE_FOLDER), fs::FOLDER) {
            Ok(folder) => {
                Ok(Some(Self { folder, lock_wait: workspace.lock_wait(), grown: RefCell::default() }))
            }
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
        if let Some(state) = Self::find(workspace)? {
            state.keep_from_git()?;
            return Ok(state);
        }
        make_folder(workspace.root_fd(), OsStr::new(STATE_FOLDER), 0o777)
            .map_err(|errno| Error::io("make", STATE_FOLDER, errno))?;
        let state = Self::find(workspace)?
            .ok_or_else(|| Error::io("open", STATE_FOLDER, std::io::Error::from(Errno::NOENT)))?;
        state.has_grown(workspace.root_fd());
        state.keep_from_git()?;
        Ok(state)
    }

    /// Writes the file that keeps the state out of git, unless it is there. It is looked for each
    /// time, and a length of nothing counts as missing: the call that made the folder may have been
    /// killed in between, or the power may have failed.
    fn keep_from_git(&self) -> Result<(), Error> {
        let name = OsStr::new(IGNORE_NAME);
        match fs::stat_at(self.fd(), name) {
            Err(Errno::NOENT) => {}
            Ok(stat) if fs::is_regular(&stat) && fs::size_of(&stat) == 0 => {}
            _ => return Ok(()),
        }
        // In place, since whoever finds it half written takes it for missing.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let open = || rustix::fs::openat(self.fd(), name, flags, Mode::from_raw_mode(0o666));
        let written = rustix::io::retry_on_intr(open)
            .map_err(std::io::Error::from)
            .and_then(|fd| File::from(fd).write_all(IGNORE_FILE));
        written.map_err(|source| Error::io("write", shown(IGNORE_NAME), source))
    }

    /// Notes that a folder got a new one.
    fn has_grown(&self, folder: BorrowedFd<'_>) {
        if let Ok(folder) = fs::open_at(folder, OsStr::new("."), fs::FOLDER) {
            self.grown.borrow_mut().push(folder);
        }
    }

    /// The folders that got new ones in this call: until they are synced, those may be lost with all
    /// that is in them.
    #[must_use]
    pub fn take_grown(&self) -> Vec<OwnedFd> {
        self.grown.take()
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
            if make_folder(parent, OsStr::new(name), 0o700)
                .map_err(|errno| Error::io("make", shown(path), errno))?
            {
                self.has_grown(parent);
            }
            made = if made.is_empty() { name.to_owned() } else { format!("{made}/{name}") };
        }
        self.find_folder(path)?
            .ok_or_else(|| Error::io("open", shown(path), std::io::Error::from(Errno::NOENT)))
    }

    /// Replaces a small file at once: whoever reads it sees the old bytes or the new.
    ///
    /// The new bytes wait under the name `aside` in the staging folder, where the next change
    /// removes what a dead call left.
    ///
    /// # Errors
    /// What the system says; then nothing has changed.
    pub fn replace(
        &self,
        folder: BorrowedFd<'_>,
        name: &OsStr,
        bytes: &[u8],
        aside: &str,
    ) -> Result<(), Error> {
        let staging = self.folder(stage::FOLDER)?;
        let aside = OsStr::new(aside);
        let written = fs::create_at(staging.as_fd(), aside, 0o600)
            .map_err(std::io::Error::from)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| Ok(fs::rename_at(&staging, aside, folder, name)?));
        written.map_err(|source| {
            // The temporary file is of no use to anyone; that it could not be removed changes nothing.
            let _ = fs::unlink_at(&staging, aside, AtFlags::empty());
            Error::io("write", shown(&name.to_string_lossy()), source)
        })
    }

    /// Takes the exclusive lock `name` in `folder` if it is free at once.
    ///
    /// # Errors
    /// The system's.
    pub fn try_lock(&self, folder: BorrowedFd<'_>, name: &str) -> Result<Option<Lock>, Error> {
        let io = |source: std::io::Error| Error::io("lock", shown(name), source);
        let file = open_lock(folder, OsStr::new(name)).map_err(|errno| io(errno.into()))?;
        match fs2::FileExt::try_lock_exclusive(&file) {
            Ok(()) => Lock::held(file).map(Some).map_err(io),
            Err(source) if is_contended(&source) => Ok(None),
            Err(source) => Err(io(source)),
        }
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
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mode = Mode::from_raw_mode(0o600);
    rustix::io::retry_on_intr(|| rustix::fs::openat(folder, name, flags, mode)).map(File::from)
}

/// Makes a folder, where there is none yet; whether there was none.
///
/// # Errors
/// What the system says.
pub fn make_folder(parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> Result<bool, Errno> {
    match rustix::io::retry_on_intr(|| rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode))) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
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
