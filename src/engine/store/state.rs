//! `.lbx/`: all state of lbx, reached only from opened folders.
//!
//! The state of one account is `.lbx/ID/`, whose name nobody who prepares a workspace can know ([`id`]). The only other
//! files in `.lbx/` that lbx uses are the policy and the workspace's lock.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Stat};
use rustix::io::Errno;
use serde::Serialize;

pub use super::lock::Lock;
use super::lock::LockHolder;
use super::lock::{LockWait, unique_name};
use super::{id, lock};
use crate::control::Control;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::stat_cache::{Fingerprint, StatCache};
use crate::error::{Error, ErrorKind};
use crate::limits::OPEN_FOLDERS_MAX;
use crate::platform;

/// Name of the folder at the workspace root.
pub const STATE_FOLDER: &str = ".lbx";
/// Prefixes of the folders that are kept open.
const KEPT_OPEN: [&str; 4] = [STAGING_FOLDER, "journal/", "sessions", "audit"];
/// Folder of staged bytes, below the state folder.
pub const STAGING_FOLDER: &str = "staging";
/// Folder of the calls of clients' own tools that have begun, below the state folder: a file each.
pub const CLIENT_CALLS_FOLDER: &str = "client-calls";
/// Lock that every change in the workspace holds, whichever account makes it.
const WORKSPACE_LOCK: &str = "lock";
/// File that hides the state from git.
pub const IGNORE_NAME: &str = ".gitignore";
/// File with the repositories and states that a search found, below the state folder.
pub const KNOWN_REPOSITORIES: &str = "repositories.lbx";
/// Hides the state from git, except the policy, which a team may want to share.
pub const IGNORE_FILE: &[u8] = b"# lbx keeps its own state here.\n*\n!/config.toml\n";

/// Entry that makes a folder a repository to git.
const GIT: &str = ".git";
/// A HEAD without a commit.
const NO_HEAD: &[u8] = b"ref: refs/heads/none\n";

/// Opened state of this account in a workspace.
#[derive(Debug)]
pub struct State {
    /// `.lbx/`, which other accounts use too.
    shared: OwnedFd,
    /// State folder in it.
    folder: Arc<OwnedFd>,
    /// Path of the state folder, from the workspace root.
    path: WorkspacePath,
    /// Longest time that one holder may keep a lock before waiters give up.
    lock_wait: Duration,
    /// Folders that got a new subfolder in this call, which is not durable yet.
    grown: Mutex<Vec<Arc<OwnedFd>>>,
    /// Open folders below it, by path: a call needs some of them repeatedly.
    opened: Mutex<BTreeMap<String, Arc<OwnedFd>>>,
    /// Cache that lasts from one call to the next.
    kept: Arc<StatCache>,
    /// Cache of the call, for values too large to last longer.
    kept_in_call: StatCache,
    /// Values of upper layers for the duration of the call, by type.
    noted: Mutex<BTreeMap<TypeId, Box<dyn Any + Send>>>,
    /// Canonical path of the workspace root, which identifies the workspace.
    root: PathBuf,
}

impl State {
    /// Opens the state of this account; `None` if it does not exist yet.
    ///
    /// # Errors
    /// Returns `not_a_directory` if something else has its name, or the OS error.
    pub fn find(workspace: &Workspace) -> Result<Option<Self>, Error> {
        let Some(shared) = open_own(workspace.root_fd(), STATE_FOLDER, STATE_FOLDER)? else {
            return Ok(None);
        };
        let Some(known) = identity(workspace)? else {
            return Ok(None);
        };
        Self::opened(workspace, shared, &known)
    }

    /// Opens the state of this account; makes it if missing.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn open(workspace: &Workspace) -> Result<Self, Error> {
        if let Some(state) = Self::find(workspace)? {
            state.keep_from_git()?;
            return Ok(state);
        }
        let make = |errno| Error::io("make", STATE_FOLDER, errno);
        let missing = || make(Errno::NOENT);
        let is_new = make_folder(workspace.root_fd(), OsStr::new(STATE_FOLDER), 0o777).map_err(make)?;
        let shared = open_own(workspace.root_fd(), STATE_FOLDER, STATE_FOLDER)?.ok_or_else(missing)?;
        if is_new {
            fs::share_with_group_of(workspace.root_fd(), &shared).map_err(make)?;
        } else {
            must_be_open(&shared)?;
            // An overlay file system copies the root up at the first change below it, and then shows another birth.
            let first = unique_name(".tmp-new");
            make_folder(shared.as_fd(), OsStr::new(&first), 0o700).map_err(make)?;
            fs::unlink_at(&shared, first.as_str(), AtFlags::REMOVEDIR).map_err(make)?;
        }
        let new = id::make(workspace.root_fd())?;
        clear_for_folder(shared.as_fd(), OsStr::new(new.id.as_str())).map_err(make)?;
        make_folder(shared.as_fd(), OsStr::new(new.id.as_str()), 0o700)
            .map_err(|errno| Error::io("make a folder in", STATE_FOLDER, errno))?;
        let state = Self::opened(workspace, shared, &new)?.ok_or_else(missing)?;
        if is_new {
            state.has_grown(workspace.root_fd());
        }
        state.has_grown(state.shared.as_fd());
        state.keep_from_git()?;
        forget_repositories_around(workspace.root(), new.id.as_str());
        Ok(state)
    }

    /// Opens the state of that name in the opened `.lbx/`, if it exists.
    ///
    /// It must belong to the account: anyone who may write `.lbx/` can see the name and make a state there.
    fn opened(
        workspace: &Workspace,
        shared: OwnedFd,
        known: &id::IdWithOrigin,
    ) -> Result<Option<Self>, Error> {
        let id = &known.id;
        let folder = match fs::open_at(shared.as_fd(), OsStr::new(id.as_str()), fs::FOLDER) {
            Ok(folder) => folder,
            // Anything else at its path is no state; the next call that makes one renames it.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(Error::io("open", display(id.as_str()), errno)),
        };
        let owner = rustix::fs::fstat(&folder)
            .map_err(|errno| Error::io("open", display(id.as_str()), errno))?
            .st_uid;
        if !known.may_belong_to(owner) {
            return Err(foreign(&display(id.as_str()), owner));
        }
        let path = WorkspacePath::root().join(STATE_FOLDER.as_ref()).join(id.as_str().as_ref());
        let lock_wait = workspace.lock_wait();
        Ok(Some(Self {
            shared,
            folder: Arc::new(folder),
            path,
            lock_wait,
            grown: Mutex::default(),
            opened: Mutex::default(),
            kept: Arc::clone(workspace.cache()),
            kept_in_call: StatCache::default(),
            noted: Mutex::default(),
            root: workspace.root().to_owned(),
        }))
    }

    /// Returns the present or future origin of the id of this account's state, and the id itself if known; `None` if
    /// there can be no id.
    ///
    /// # Errors
    /// As [`Self::find`]; returns `permission_denied` if the first change could not make a state.
    pub fn source(workspace: &Workspace) -> Result<Option<(id::IdOrigin, Option<id::StateId>)>, Error> {
        if let Some(shared) = open_own(workspace.root_fd(), STATE_FOLDER, STATE_FOLDER)?
            && Self::find(workspace)?.is_none()
        {
            must_be_open(&shared)?;
        }
        id::source(workspace.root_fd())
    }

    /// Returns the path of the state, from the workspace root.
    pub fn path(&self) -> &WorkspacePath {
        &self.path
    }

    /// Returns the path of a file of the state, from the workspace root.
    pub fn path_of(&self, below: &str) -> WorkspacePath {
        below.split('/').fold(self.path.clone(), |path, name| path.join(name.as_ref()))
    }

    /// Returns the path of a file of the state for messages.
    pub fn display(&self, below: &str) -> String {
        self.path_of(below).to_string()
    }

    /// Writes the file that hides the state from git, if it is missing or has other content: one that came with a clone
    /// could let git commit backups of secrets. `git clean` may have removed it.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn keep_from_git(&self) -> Result<(), Error> {
        let name = OsStr::new(IGNORE_NAME);
        let is_right = || {
            let found = fs::read_at(self.shared.as_fd(), name, IGNORE_FILE.len() as u64);
            found.is_ok_and(|bytes| bytes.is_some_and(|bytes| bytes == IGNORE_FILE))
        };
        if is_right() {
            return Ok(());
        }
        // Otherwise `git clean` removes the state, as doctor and undo would report.
        let _ = self.disguise_as_repository();
        if fs::stat_at(self.shared.as_fd(), name).is_ok_and(|stat| fs::is_folder(&stat)) {
            fs::rename_at(&self.shared, name, &self.shared, unique_name("gitignore.aside"))
                .map_err(|errno| Error::io("set aside", display(IGNORE_NAME), errno))?;
        }
        // Not in the staging folder, which another call may be sweeping: this call holds no lock yet.
        let aside = unique_name(".tmp-gitignore");
        let file = replace_by_way_of(self.fd(), &aside, self.shared.as_fd(), name, IGNORE_FILE, 0o666)?;
        // Whoever may not read it writes it again.
        let _ = fs::share_with_group_of(&self.shared, &file);
        Ok(())
    }

    /// Makes the state look like a repository of its own: `git clean` spares these unless forced twice (git-clean(1)).
    fn disguise_as_repository(&self) -> Result<(), Error> {
        let make = |errno| Error::io("make a folder in", STATE_FOLDER, errno);
        make_folder(self.fd(), OsStr::new(GIT), 0o700).map_err(make)?;
        let git = fs::open_at(self.fd(), OsStr::new(GIT), fs::FOLDER).map_err(make)?;
        for name in ["objects", "refs"] {
            make_folder(git.as_fd(), OsStr::new(name), 0o700).map_err(make)?;
        }
        if fs::stat_at(git.as_fd(), OsStr::new("HEAD")).is_err() {
            let aside = unique_name(".tmp-head");
            replace_by_way_of(self.fd(), &aside, git.as_fd(), OsStr::new("HEAD"), NO_HEAD, 0o600)?;
        }
        Ok(())
    }

    /// Notes that a folder got a new subfolder.
    fn has_grown(&self, folder: BorrowedFd<'_>) {
        if let Ok(folder) = fs::open_at(folder, OsStr::new("."), fs::FOLDER) {
            locked(&self.grown).push(Arc::new(folder));
        }
    }

    /// Returns the folders that got new subfolders in this call: until they are synced, a power failure may lose those
    /// with all their contents.
    pub fn take_grown_folders(&self) -> Vec<Arc<OwnedFd>> {
        std::mem::take(&mut *locked(&self.grown))
    }

    /// Returns the cached value of the file `below`, which is in `folder`.
    pub(super) fn cached_value<T: Any + Send + Sync>(
        &self,
        below: &str,
        folder: BorrowedFd<'_>,
    ) -> Option<Arc<T>> {
        let shown = self.display(below);
        let key = (self.root.as_path(), shown.as_str());
        self.kept.get(key, folder).or_else(|| self.kept_in_call.get(key, folder))
    }

    /// Caches the parsed value of the file `below`, of about `bytes` bytes: for later calls, or if it is too large,
    /// only for this one.
    pub(super) fn keep<T: Any + Send + Sync>(
        &self,
        below: &str,
        value: Arc<T>,
        looks: Fingerprint,
        bytes: usize,
    ) {
        let kept = if self.kept.has_room_for(bytes) { &*self.kept } else { &self.kept_in_call };
        kept.put((&self.root, &self.display(below)), value, looks, bytes);
    }

    /// Runs `work` on a value of type `T` that lasts for the call, and is empty at first.
    ///
    /// `work` may use other values, and even this one, which is then empty for it: no lock is held meanwhile.
    pub fn in_call<T: Any + Send + Default, R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let taken = locked(&self.noted).remove(&TypeId::of::<T>());
        // The map's key is its type.
        let mut value = taken.and_then(|value| value.downcast::<T>().ok()).unwrap_or_default();
        let outcome = work(&mut value);
        locked(&self.noted).insert(TypeId::of::<T>(), value);
        outcome
    }

    /// Returns true if later calls in this process can use cached values.
    pub(super) fn has_shared_cache(&self) -> bool {
        self.kept.is_lasting()
    }

    /// Returns a shared handle to the folder.
    pub const fn handle(&self) -> &Arc<OwnedFd> {
        &self.folder
    }

    /// Returns the folder's descriptor, for calls relative to it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Returns the names in the folder at that path below it, each with the folder; none if it is missing or is not a real
    /// folder.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn entries(&self, folder: &str) -> Result<Vec<(Arc<OwnedFd>, String)>, Error> {
        let Some(folder) = self.find_folder(folder)? else { return Ok(Vec::new()) };
        Ok(names_in(&folder)?.into_iter().map(|name| (Arc::clone(&folder), name)).collect())
    }

    /// Returns the folder at that path below it; `None` if it is missing or is not a real folder.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn find_folder(&self, name: &str) -> Result<Option<Arc<OwnedFd>>, Error> {
        if let Some(known) = locked(&self.opened).get(name) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(path) = WorkspacePath::new(name.as_ref()) else {
            return Err(Error::internal(format!("{name} is not a folder of the state")));
        };
        match fs::open_beneath(self.fd(), &path, fs::FOLDER) {
            Ok(folder) => {
                let folder = Arc::new(folder);
                let mut opened = locked(&self.opened);
                // Folders that come and go are opened again each time.
                let is_kept = name == "backups" || KEPT_OPEN.iter().any(|kept| name.starts_with(kept));
                if is_kept && opened.len() < OPEN_FOLDERS_MAX {
                    opened.insert(name.to_owned(), Arc::clone(&folder));
                }
                Ok(Some(folder))
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(Error::io("open", self.display(&path.to_string()), errno)),
        }
    }

    /// Returns the folder at that path below it; makes it if missing, accessible only to this user. Renames a
    /// non-folder at that path.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn folder(&self, path: &str) -> Result<Arc<OwnedFd>, Error> {
        if let Some(folder) = self.find_folder(path)? {
            return Ok(folder);
        }
        let mut made = String::new();
        for name in path.split('/') {
            let above = if made.is_empty() { None } else { self.find_folder(&made)? };
            let parent = above.as_ref().map_or(self.fd(), AsFd::as_fd);
            made = if made.is_empty() { name.to_owned() } else { format!("{made}/{name}") };
            if made != path && self.find_folder(&made)?.is_some() {
                continue;
            }
            let is_new = clear_for_folder(parent, OsStr::new(name))
                .and_then(|()| make_folder(parent, OsStr::new(name), 0o700));
            if is_new.map_err(|errno| Error::io("make", self.display(path), errno))? {
                match &above {
                    Some(above) => locked(&self.grown).push(Arc::clone(above)),
                    None => self.has_grown(parent),
                }
            }
        }
        self.find_folder(path)?
            .ok_or_else(|| Error::io("open", self.display(path), std::io::Error::from(Errno::NOENT)))
    }

    /// Replaces a small file atomically: readers see the old bytes or the new.
    ///
    /// The new bytes are first in the file `aside` in the staging folder, where the next change removes leftovers of
    /// dead calls. Returns the new file, still open.
    ///
    /// # Errors
    /// Returns the OS error; then nothing has changed.
    pub fn replace(
        &self,
        folder: BorrowedFd<'_>,
        name: &OsStr,
        bytes: &[u8],
        aside: &str,
    ) -> Result<File, Error> {
        let staging = self.folder(STAGING_FOLDER)?;
        replace_by_way_of(staging.as_fd(), aside, folder, name, bytes, 0o600)
    }

    /// Takes the exclusive lock `name` in `folder`, if it is free.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn try_lock(&self, folder: BorrowedFd<'_>, name: &str) -> Result<Option<Lock>, Error> {
        lock::take(folder, name, 0o600, None)
            .map_err(|source| Error::io(&format!("lock {name} in"), STATE_FOLDER, source))
    }

    /// Takes the exclusive lock `name` in `folder`, which protects `what`; waits until it is free.
    ///
    /// The lock is advisory (`flock`) and dies with its holder. It passes from one to the next, so many that wait are no
    /// reason to give up, but one holder that keeps it for too long is (10 s, unless the policy says otherwise).
    ///
    /// # Errors
    /// Returns `lock_timeout`, or the OS error.
    pub fn lock(&self, folder: BorrowedFd<'_>, name: &str, what: &str) -> Result<Lock, Error> {
        self.wait_for((folder, name), 0o600, what, LockWait::without_queue(self.lock_wait))
    }

    /// Takes the lock that every change in the workspace holds, whichever account makes it. Calls of one account that
    /// have to wait get it in the order in which they came. Does `meanwhile` if this one has to wait.
    ///
    /// # Errors
    /// As [`Self::lock`]; returns `timeout` if the call was cancelled, also if it has the lock by then.
    pub fn lock_workspace(&self, control: &Control, meanwhile: &dyn Fn()) -> Result<Lock, Error> {
        let is_over = || control.is_cancelled();
        let wait =
            LockWait { patience: self.lock_wait, queue: Some(self.fd()), meanwhile, is_over: &is_over };
        let lock = self.wait_for((self.shared.as_fd(), WORKSPACE_LOCK), 0o666, "the workspace", wait);
        control.check_cancelled()?;
        lock
    }

    /// Takes that lock if it is free.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn try_lock_workspace(&self) -> Result<Option<Lock>, Error> {
        lock::take(self.shared.as_fd(), WORKSPACE_LOCK, 0o666, None).map_err(|source| {
            let found = fs::stat_at(self.shared.as_fd(), WORKSPACE_LOCK.as_ref());
            closed(Error::io("lock", display(WORKSPACE_LOCK), source), found)
        })
    }

    /// Takes the lock of the change whose steps are being taken, or are not on disk yet; `None` if another call has it.
    ///
    /// It is on `.lbx/` itself, so that it serves all accounts. The caller holds the workspace's lock.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn try_lock_steps(&self) -> Result<Option<StepsLock>, Error> {
        self.steps_lock(None)
    }

    /// Takes that lock; waits until it is free.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn lock_steps(&self) -> Result<StepsLock, Error> {
        let kept =
            || self.lock_timeout_error("the workspace", self.shared.as_fd(), rustix::fs::fstat(&self.shared));
        self.steps_lock(Some(self.lock_wait))?.ok_or_else(kept)
    }

    /// Takes the lock of the steps, perhaps after a wait.
    fn steps_lock(&self, patience: Option<Duration>) -> Result<Option<StepsLock>, Error> {
        match lock::take_folder(self.shared.as_fd(), patience) {
            Ok(lock) => Ok(lock.map(|lock| StepsLock { lock: Some(lock) })),
            Err(source) if NO_FOLDER_LOCKS.iter().any(|errno| is_errno(&source, *errno)) => {
                Ok(Some(StepsLock { lock: None }))
            }
            Err(source) => Err(Error::io("lock", STATE_FOLDER, source)),
        }
    }

    /// Returns the error for a lock of `what`, on the file or folder with this stat, that one holder keeps for too long.
    fn lock_timeout_error(&self, what: &str, folder: BorrowedFd<'_>, locked: Result<Stat, Errno>) -> Error {
        let holders = locked.map(|stat| LockHolder::all_of(folder, &stat)).unwrap_or_default();
        let names: Vec<String> = holders.iter().map(LockHolder::to_string).collect();
        let who = if names.is_empty() { "another lbx call".to_owned() } else { names.join(" and ") };
        Error::new(
            ErrorKind::LockTimeout,
            format!("{who} held the lock of {what} for {} s", self.lock_wait.as_secs()),
        )
    }

    /// Returns true if the opened `.lbx/` is still the one at the workspace root.
    pub fn is_in_place(&self, workspace: &Workspace) -> bool {
        fs::is_named(workspace.root_fd(), OsStr::new(STATE_FOLDER), &self.shared)
    }

    /// Returns the processes that hold the workspace's lock.
    pub fn lock_holders(&self) -> Vec<LockHolder> {
        let stat = fs::stat_at(self.shared.as_fd(), WORKSPACE_LOCK.as_ref());
        stat.map(|stat| LockHolder::all_of(self.shared.as_fd(), &stat)).unwrap_or_default()
    }

    /// Takes the lock of `what`, whose file gets `mode` without the umask.
    fn wait_for(
        &self,
        (folder, name): (BorrowedFd<'_>, &str),
        mode: u32,
        what: &str,
        wait: LockWait<'_>,
    ) -> Result<Lock, Error> {
        match lock::take(folder, name, mode, Some(wait)) {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(self.lock_timeout_error(what, folder, fs::stat_at(folder, OsStr::new(name)))),
            Err(source) if source.kind() == io::ErrorKind::WouldBlock => Err(Error::new(
                ErrorKind::LockTimeout,
                format!("another program keeps removing or replacing the lock of {what} in {STATE_FOLDER}"),
            )),
            Err(source) => {
                let has_none = NO_LOCKS_ERRNOS.iter().any(|errno| is_errno(&source, *errno));
                let error = Error::io(&format!("take the lock of {what} in"), STATE_FOLDER, source);
                let found = fs::stat_at(folder, OsStr::new(name));
                Err(if has_none { error.suggest(NO_LOCKS) } else { closed(error, found) })
            }
        }
    }
}

/// Lock of the change whose steps are being taken, or are not on disk yet; released on drop.
#[derive(Debug)]
#[must_use = "the lock is free as soon as this is dropped"]
pub struct StepsLock {
    /// Lock; `None` if the file system locks no folders.
    lock: Option<Lock>,
}

impl StepsLock {
    /// Returns true if it keeps others from their steps. Otherwise only the workspace's lock does.
    pub const fn is_held(&self) -> bool {
        self.lock.is_some()
    }
}

/// Errors of a file system without locks.
const NO_LOCKS_ERRNOS: [Errno; 4] = [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL];
/// Errors of a file system that locks no folders; NFS wants a lock's file opened for writing.
const NO_FOLDER_LOCKS: [Errno; 7] =
    [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL, Errno::BADF, Errno::ISDIR, Errno::ACCESS];

/// Returns true if an error is that of the OS.
fn is_errno(source: &io::Error, errno: Errno) -> bool {
    source.raw_os_error() == Some(errno.raw_os_error())
}

/// Advice for a file system without locks.
const NO_LOCKS: &str = "This file system has no locks. In the configuration of an NFS mount, `local_lock=flock` (nfs(5)) \
                        keeps them on this machine; else keep the project on another file system.";

/// Replaces a file atomically; the new bytes are first in the file `aside` of the folder `waiting`.
///
/// # Errors
/// Returns the OS error; then nothing has changed.
pub fn replace_by_way_of(
    waiting: BorrowedFd<'_>,
    aside: &str,
    folder: BorrowedFd<'_>,
    name: &OsStr,
    bytes: &[u8],
    mode: u32,
) -> Result<File, Error> {
    let written = fs::create_at(waiting, OsStr::new(aside), mode)
        .map_err(std::io::Error::from)
        .and_then(|mut file| file.write_all(bytes).map(|()| file))
        .and_then(|file| Ok(fs::rename_at(waiting, aside, folder, name).map(|()| file)?));
    written.map_err(|source| {
        // The temporary file is useless; a failure to remove it changes nothing.
        let _ = fs::unlink_at(waiting, aside, AtFlags::empty());
        Error::io(&format!("write {} in", name.to_string_lossy()), STATE_FOLDER, source)
    })
}

/// Replaces a record atomically, not by way of the staging folder: without the lock of the workspace, another change may
/// clear that.
///
/// # Errors
/// Returns the OS error.
pub fn replace_record<T: Serialize>(folder: BorrowedFd<'_>, name: &str, record: &T) -> Result<File, Error> {
    let bytes = serde_json::to_vec(record).map_err(|error| Error::internal(error.to_string()))?;
    replace_by_way_of(folder, &unique_name(name), folder, OsStr::new(name), &bytes, 0o600)
}

/// Puts a copy in the place of a file that is written in place, if it has another name, as after `cp -al`: what is written
/// must not reach that one. Returns true if it did so. `bytes_max` bounds the file.
///
/// # Errors
/// Returns the OS error.
pub fn break_hard_links(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    stat: &Stat,
    bytes_max: u64,
) -> std::io::Result<bool> {
    if stat.st_nlink <= 1 {
        return Ok(false);
    }
    let bytes = fs::read_at(folder, name, bytes_max)?.unwrap_or_default();
    let copy = replace_by_way_of(folder, &unique_name("copy"), folder, name, &bytes, 0o600);
    copy.map_err(|error| std::io::Error::other(error.to_string()))?.sync_all()?;
    Ok(true)
}

/// Returns the error for a state that another account wrote.
fn foreign(shown: &str, owner: u32) -> Error {
    Error::new(
        ErrorKind::PermissionDenied,
        format!("{shown} belongs to the account {owner}, so lbx does not take it for this account's state"),
    )
    .at(shown)
    .suggest(format!(
        "Tell the user. Where accounts share a state on purpose, set LBX_STATE_ID for each of them; else rename {shown}, and a new state begins."
    ))
}

/// Fails if this account may not make its state in the opened `.lbx/`, as after one call by another account.
fn must_be_open(shared: &OwnedFd) -> Result<(), Error> {
    fs::may_add_to(shared)
        .map_err(|errno| closed(Error::io("write in", STATE_FOLDER, errno), rustix::fs::fstat(shared)))
}

/// Adds to the error of a folder or file in `.lbx/` which account it belongs to, and how that one lets this one in.
fn closed(error: Error, found: Result<Stat, Errno>) -> Error {
    let (Some(Errno::ACCESS), Ok(stat)) = (error.errno(), found) else { return error };
    match stat.st_uid {
        owner if owner == fs::user_id() => {
            error.suggest("Let yourself in, in the workspace: chmod u+rwX .lbx .lbx/lock")
        }
        0 => error.add_to_message("; it belongs to root").suggest(format!(
            "Give it to this account, in the workspace: sudo chown {} .lbx .lbx/lock",
            fs::user_id()
        )),
        owner => error
            .add_to_message(format!("; it belongs to the account {owner}"))
            .suggest("That account can let its group in, in the workspace: chmod g+rwX .lbx .lbx/lock"),
    }
}

/// Returns the id of the account's state, if it has one. A call opens the state several times, and reads the id once.
fn identity(workspace: &Workspace) -> Result<Option<id::IdWithOrigin>, Error> {
    let kept = workspace.cache();
    // A new folder may get the inode of the old one, but is younger.
    let born = kept.is_lasting().then(|| platform::birth_of(workspace.root_fd()));
    let name = format!("state id, {born:?}");
    let key = (workspace.root(), name.as_str());
    if let Some(known) = kept.get::<id::IdWithOrigin>(key, workspace.root_fd()) {
        return Ok(Some((*known).clone()));
    }
    let mut looks = Fingerprint::default();
    if kept.is_lasting() {
        looks.at_folder(workspace.root());
        id::user_file().iter().for_each(|file| looks.at_file(file));
    }
    let found = id::find(workspace.root_fd())?;
    if let Some(known) = &found {
        kept.put(key, Arc::new(known.clone()), looks, size_of::<id::IdWithOrigin>());
    }
    Ok(found)
}

/// Opens a folder of lbx's own; `None` if it does not exist yet.
fn open_own(parent: BorrowedFd<'_>, name: &str, shown: &str) -> Result<Option<OwnedFd>, Error> {
    match fs::open_at(parent, OsStr::new(name), fs::FOLDER) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(Error::new(
            ErrorKind::NotADirectory,
            format!("{shown} is not a folder, so lbx cannot keep its state there"),
        )
        .at(shown)
        .suggest(format!("Rename {shown} (a file or a symlink), and repeat the call."))),
        Err(errno) => Err(Error::io("open", shown, errno)),
    }
}

/// Returns the path of a file of the state, from the workspace root; a dry run may have no state, and writes nothing at
/// that path.
pub fn path_in(state: Option<&State>, below: &str) -> WorkspacePath {
    state.map_or_else(
        || WorkspacePath::root().join(STATE_FOLDER.as_ref()).join(below.as_ref()),
        |state| state.path_of(below),
    )
}

/// Makes the workspaces around a new state search again for the paths that commands must not see: the name of this
/// state is as secret there as that of their own.
fn forget_repositories_around(root: &Path, id: &str) {
    for folder in root.ancestors().skip(1) {
        let opened = fs::open_at(CWD, folder.as_os_str(), fs::FOLDER)
            .and_then(|folder| fs::open_at(folder.as_fd(), OsStr::new(STATE_FOLDER), fs::FOLDER))
            .and_then(|shared| fs::open_at(shared.as_fd(), OsStr::new(id), fs::FOLDER));
        if let Ok(state) = opened {
            let _ = fs::unlink_at(&state, KNOWN_REPOSITORIES, AtFlags::empty());
        }
    }
}

/// Renames a non-folder at the path of a state folder.
fn clear_for_folder(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    match fs::stat_at(parent, name) {
        Ok(stat) if !fs::is_folder(&stat) => {
            let aside = unique_name(&format!(".tmp-{}", name.to_string_lossy()));
            match fs::rename_at(parent, name, parent, aside) {
                // Another call was faster.
                Err(Errno::NOENT) => Ok(()),
                outcome => outcome,
            }
        }
        _ => Ok(()),
    }
}

/// Makes a folder, if missing; returns true if it was.
///
/// # Errors
/// Returns the OS error.
pub fn make_folder(parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> Result<bool, Errno> {
    match rustix::io::retry_on_intr(|| rustix::fs::mkdirat(parent, name, platform::mode(mode))) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Returns a name in `.lbx/` for messages.
fn display(name: &str) -> String {
    format!("{STATE_FOLDER}/{name}")
}

/// Returns the names in a folder of the state, without `.` and `..`.
///
/// # Errors
/// Returns the OS error.
pub fn names_in(folder: &OwnedFd) -> Result<Vec<String>, Error> {
    let names = fs::names_in(folder).map_err(|errno| Error::io("list a folder in", STATE_FOLDER, errno))?;
    Ok(names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect())
}

/// Locks a mutex, even if a thread that held it panicked.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_data_can_be_updated_while_it_is_borrowed() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let state = State::open(&workspace).unwrap();
        let inner = state.in_call(|count: &mut u32| {
            *count = 7;
            state.in_call(|text: &mut String| text.push('x'));
            state.in_call(|count: &mut u32| *count)
        });
        assert_eq!((inner, state.in_call(|count: &mut u32| *count)), (0, 7));
        assert_eq!(state.in_call(|text: &mut String| text.clone()), "x");
    }
}
