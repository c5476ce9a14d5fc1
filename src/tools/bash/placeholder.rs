//! An empty `.git` at the root of a workspace that has none, for as long as commands run.
//!
//! Without it there would be nothing to protect, and a command could make a repository, whose hooks would
//! run later and unconfined. Commands that run at once share it, and the last one removes it: what is
//! removed from outside is not mounted any more in a sandbox either. What a killed call leaves, the next
//! command takes over.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::engine::store::state::State;
use crate::engine::workspace::fs;

/// The folder that a command could make to turn the workspace into a repository of its own.
pub const GIT_FOLDER: &str = ".git";
/// The file, in the state folder, that every command locks that needs the folder.
const LOCK: &str = "placeholder.lock";
/// What the file holds while the folder is lbx's own.
const MADE: &[u8] = b"made\n";

/// The empty folder, as one command needs it; dropped, it goes with the last of them.
#[derive(Debug)]
pub struct Placeholder(Option<Shared>);

/// A share in it.
#[derive(Debug)]
struct Shared {
    /// The workspace root.
    root: OwnedFd,
    /// The locked file.
    lock: File,
}

impl Placeholder {
    /// None: the command cannot make a repository.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Makes it, or takes a share in it, where the workspace has no `.git`.
    #[must_use]
    pub fn make(root: BorrowedFd<'_>, state: &State) -> Self {
        if has_git(root) {
            return Self(None);
        }
        Self(Shared::take(root, state).ok().flatten())
    }

    /// Whether it stands there for this command.
    #[must_use]
    pub const fn stands(&self) -> bool {
        self.0.is_some()
    }

    /// Gives up the share; the last one removes the folder. Nothing but an empty folder ever is.
    pub fn remove(&mut self) {
        let Some(Shared { root, lock }) = self.0.take() else { return };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::unlink_at(&root, GIT_FOLDER, AtFlags::REMOVEDIR);
            let _ = lock.set_len(0);
        }
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Shared {
    /// Takes a share; `None` where the folder is someone else's.
    fn take(root: BorrowedFd<'_>, state: &State) -> std::io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let lock = rustix::fs::openat(state.fd(), LOCK, flags, Mode::from_raw_mode(0o600))?;
        // Held exclusively for the moment of a removal alone.
        rustix::fs::flock(&lock, FlockOperation::LockShared)?;
        let mut lock = File::from(lock);
        match rustix::fs::mkdirat(root, GIT_FOLDER, Mode::from_raw_mode(0o777)) {
            Ok(()) => fs::write_all(&lock, MADE)?,
            Err(Errno::EXIST) => {
                let mut made = Vec::new();
                lock.by_ref().take(MADE.len() as u64).read_to_end(&mut made)?;
                if made != MADE {
                    return Ok(None);
                }
            }
            Err(errno) => return Err(errno.into()),
        }
        Ok(Some(Self { root: root.try_clone_to_owned()?, lock }))
    }
}

/// Whether the workspace has a `.git` that is no empty folder.
fn has_git(root: BorrowedFd<'_>) -> bool {
    let name = OsStr::new(GIT_FOLDER);
    match fs::stat_at(root, name) {
        Err(Errno::NOENT) => false,
        Ok(stat) if fs::is_folder(&stat) => {
            let names = fs::open_at(root, name, fs::FOLDER).and_then(|folder| fs::names_in(&folder));
            names.map_or(true, |names| !names.is_empty())
        }
        _ => true,
    }
}
