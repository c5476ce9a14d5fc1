//! The `/tmp` of a session: a folder in the state that all its commands share.
//!
//! ```text
//! tmp/SESSION/        its mtime is the last use; commands that use it hold its lock together
//! tmp/SESSION/files   the `/tmp` of the commands
//! tmp/SESSION/caches/N/NAME  what commands wrote over a cache; a command holds the lock of its N alone
//! tmp/.gone-…         a folder that is being removed
//! ```

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use super::caches::{UPPER, WORK};
use crate::clock::seconds_now;
use crate::engine::store::session::SessionId;
use crate::engine::store::state::{State, make_folder};
use crate::engine::store::unique::unique_name;
use crate::engine::workspace::{Workspace, fs, removal};
use crate::error::Error;

/// Where they are, below the state folder.
const FOLDER: &str = "tmp";
/// The part that commands see.
const FILES: &str = "files";
/// The part with views of caches.
const CACHES: &str = "caches";
/// Most commands of a session that have views of caches at once.
const SLOTS_MAX: usize = 64;
/// How the name of one begins that is being removed. No session has such a name.
const GONE: &str = ".gone";
/// Seconds after its last use in which one is kept: a day.
const KEPT_SECONDS: u64 = 86_400;
/// Permissions of the folder that keeps other accounts out.
const OWN_MODE: u32 = 0o700;
/// Permissions of `/tmp`.
const SHARED_MODE: u32 = 0o1777;
/// Tries to get one that another call removes meanwhile.
const TRIES_MAX: usize = 20;

/// The `/tmp` of a session, in use until it is dropped.
#[derive(Debug)]
pub struct SessionTmp {
    /// The absolute path of the part that commands see.
    path: PathBuf,
    /// The folder with the lock that keeps others from removing it.
    _folder: OwnedFd,
    /// The folder for views of caches that this command has alone, with its number.
    slot: Option<(OwnedFd, usize)>,
}

impl SessionTmp {
    /// Opens the `/tmp` of a session, and removes those that nobody has used for a day.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn open(workspace: &Workspace, state: &State, session: &SessionId) -> Result<Self, Error> {
        let shown = state.shown(&format!("{FOLDER}/{}", session.as_str()));
        let io = |errno: Errno| Error::io("make", shown.clone(), errno);
        let all = state.folder(FOLDER)?;
        remove_unused(&all, session);
        let folder = in_use(&all, OsStr::new(session.as_str())).map_err(io)?;
        if make_folder(folder.as_fd(), OsStr::new(FILES), OWN_MODE).map_err(io)? {
            let files = fs::open_at(folder.as_fd(), OsStr::new(FILES), fs::FOLDER).map_err(io)?;
            rustix::fs::fchmod(&files, SHARED_MODE.into()).map_err(io)?;
        }
        let path = state.path_of(&format!("{FOLDER}/{}/{FILES}", session.as_str()));
        let slot = free_slot(&folder);
        Ok(Self { path: workspace.root().join(path.as_path()), _folder: folder, slot })
    }

    /// Makes the folder for the view of a cache, with those of a layer if it has one; returns its absolute path.
    #[must_use]
    pub fn cache(&self, name: &str, is_layered: bool) -> Option<PathBuf> {
        let (slot, number) = self.slot.as_ref()?;
        let is_new = make_folder(slot.as_fd(), OsStr::new(name), OWN_MODE).ok()?;
        if is_layered {
            let own = fs::open_at(slot.as_fd(), OsStr::new(name), fs::FOLDER).ok()?;
            if !is_new {
                // overlayfs takes no folder a second time that an earlier mount did not leave in order.
                let _ = removal::remove(own.as_fd(), OsStr::new(WORK));
            }
            make_folder(own.as_fd(), OsStr::new(UPPER), OWN_MODE).ok()?;
            make_folder(own.as_fd(), OsStr::new(WORK), OWN_MODE).ok()?;
        }
        Some(self.path.parent()?.join(CACHES).join(number.to_string()).join(name))
    }

    /// Returns the absolute path of the folder that commands see as `/tmp`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the `/tmp` of a session, unless a command uses it.
pub fn remove(state: &State, session: &SessionId) {
    if let Ok(Some(all)) = state.find_folder(FOLDER) {
        remove_if_free(&all, OsStr::new(session.as_str()), &|_| true);
    }
}

/// Opens the first folder for views of caches that no other command uses: two must not write over one cache at once.
fn free_slot(folder: &OwnedFd) -> Option<(OwnedFd, usize)> {
    make_folder(folder.as_fd(), OsStr::new(CACHES), OWN_MODE).ok()?;
    let all = fs::open_at(folder.as_fd(), OsStr::new(CACHES), fs::FOLDER).ok()?;
    (0..SLOTS_MAX).find_map(|number| {
        let name = number.to_string();
        make_folder(all.as_fd(), OsStr::new(&name), OWN_MODE).ok()?;
        let slot = fs::open_at(all.as_fd(), OsStr::new(&name), fs::FOLDER).ok()?;
        rustix::fs::flock(&slot, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some((slot, number))
    })
}

/// Opens the folder of a session with a lock that others may hold too, and notes the use.
fn in_use(all: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    for _ in 0..TRIES_MAX {
        make_folder(all.as_fd(), name, OWN_MODE)?;
        let folder = match fs::open_at(all.as_fd(), name, fs::FOLDER) {
            Err(Errno::NOENT) => continue,
            opened => opened?,
        };
        rustix::io::retry_on_intr(|| rustix::fs::flock(&folder, FlockOperation::LockShared))?;
        // Another call may have moved it away before it was locked.
        if is_named(all, name, &folder) {
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            rustix::fs::futimens(&folder, &Timestamps { last_access: now, last_modification: now })?;
            return Ok(folder);
        }
    }
    Err(Errno::AGAIN)
}

/// Removes the folders of other sessions that nobody has used for a day, and what an earlier removal left.
fn remove_unused(all: &OwnedFd, own: &SessionId) {
    let now = seconds_now();
    for name in fs::names_in(all).unwrap_or_default() {
        if name.to_string_lossy().starts_with(GONE) {
            let _ = removal::remove(all.as_fd(), &name);
        } else if name != own.as_str() {
            remove_if_free(all, &name, &|used| now.saturating_sub(used) > KEPT_SECONDS);
        }
    }
}

/// Removes a folder that no command uses, if the time of its last use says so.
fn remove_if_free(all: &OwnedFd, name: &OsStr, is_over: &dyn Fn(u64) -> bool) {
    let used = |stat: &rustix::fs::Stat| u64::try_from(stat.st_mtime).unwrap_or_default();
    if !fs::stat_at(all.as_fd(), name).is_ok_and(|stat| is_over(used(&stat))) {
        return;
    }
    let Ok(folder) = fs::open_at(all.as_fd(), name, fs::FOLDER) else { return };
    let locked = rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive);
    // It may have been used since.
    let is_over = || rustix::fs::fstat(&folder).is_ok_and(|stat| is_over(used(&stat)));
    if locked.is_ok() && is_named(all, name, &folder) && is_over() {
        let gone = unique_name(GONE);
        if fs::rename_at(all, name, all, &gone).is_ok() {
            drop(folder);
            let _ = removal::remove(all.as_fd(), OsStr::new(&gone));
        }
    }
}

/// Returns true if a folder still has its name.
fn is_named(all: &OwnedFd, name: &OsStr, folder: &OwnedFd) -> bool {
    let (named, opened) = (fs::stat_at(all.as_fd(), name), rustix::fs::fstat(folder));
    named.is_ok_and(|named| opened.is_ok_and(|opened| fs::is_same_file(&named, &opened)))
}
