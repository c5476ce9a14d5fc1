//! Forks: named, writable layers over the workspace, each a workspace of its own.
//!
//! A call in a fork runs in a mount namespace in which an overlayfs covers the workspace, at the same path. So the fork
//! has `.lbx`, snapshots, history and undo of its own, and a build finds its output where it was.
//!
//! ```text
//! .lbx/ID/forks/lock         held while a fork is created, merged or dropped
//! .lbx/ID/forks/NAME/        fork.lbx     its beginning (ForkRecord)
//!                            upper, work  the folders of overlayfs
//!                            merged       the versions of each merge
//!                            base         those in effect, as links: they replace those that the fork began with
//! STATE/lbx/forks/UNIQUE/    lower        versions that the workspace had when the fork began, of what lbx changed since
//!                            new          files on their way there
//!                            layers       layers of commands in the fork
//! ```
//! `lower` lies above the workspace in the mount, so the fork does not see what lbx changes in the workspace later.
//! overlayfs takes no lower folder inside another one, so `lower` is in the user's state folder.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::fork_copy;
use super::layer::wait_for_clock_tick;
use super::layer_folders::{OWN_MODE, UPPER, WORK, new_folder};
use super::overlay::{LAYERS, OPAQUE, note_inode, whiteout};
use crate::control::seconds_now;
use crate::engine::store::lock::{Lock, unique_name};
use crate::engine::store::sandboxes::{FORKS, ForkPlace, MARK_DIGITS, is_label};
use crate::engine::store::state::{
    IGNORE_FILE, IGNORE_NAME, STATE_FOLDER, State, make_folder, replace_record,
};
use crate::engine::store::{id, sandboxes, version_of, written_by_newer};
use crate::engine::workspace::fs::{self, rename_new};
use crate::engine::workspace::metadata::make_alike;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::{DOT_GIT, is_protected};
use crate::engine::workspace::survey::ChangeTime;
use crate::engine::workspace::sync::{is_on_overlay, sync_many};
use crate::engine::workspace::{Workspace, git_files, removal};
use crate::error::{Error, ErrorKind};
use crate::limits::{
    FORK_RECORD_BYTES_MAX, FORKS_MAX, GIT_HEAD_BYTES_MAX, GIT_INDEX_BYTES_MAX, MOUNTS_BYTES_MAX,
    POLICY_FILE_BYTES_MAX,
};
use crate::platform::{self, process};
use crate::sha256::Sha256;

/// Lock of that folder.
const LOCK: &str = "lock";
/// File that describes a fork.
const RECORD: &str = "fork.lbx";
/// Version of its format.
const VERSION: u32 = 1;
/// Folder with the versions that were merged.
const BASE: &str = "base";
/// Folder with the versions that the fork began with.
const LOWER: &str = "lower";
/// Folder of files on their way there.
const NEW: &str = "new";
/// Prefix of a fork that is being created or dropped.
pub(super) const PASSING: &str = ".passing";
/// Mode of a folder that is gone from the workspace.
const GONE_MODE: u32 = 0o755;

/// The beginning of a fork.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkRecord {
    /// Version of the format.
    pub version: u32,
    /// Name.
    pub name: String,
    /// Session that created it.
    pub session: String,
    /// The caller's reason.
    pub why: Option<String>,
    /// Snapshot that it was set to, if it did not begin with the files on disk.
    pub from: Option<String>,
    /// Time of its creation, in seconds since 1970.
    pub created: u64,
    /// That time by the clock of the workspace's file system. Later changes of the workspace are not the fork's.
    pub began: ChangeTime,
    /// Newest snapshot of the workspace at that time, if known.
    pub tip: Option<String>,
    /// True if that snapshot has all files that git does not ignore as they were then.
    #[serde(default)]
    pub is_scanned: bool,
    /// Folder of `lower`, by its name in lbx's folder of the user.
    pub lower: String,
    /// Folder of a fork that is a copy, as an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

impl ForkRecord {
    /// Returns true if a sandbox is this fork, wherever the workspace was when it got its name.
    pub fn is_named_by(&self, sandbox: &sandboxes::NamedWorkspace) -> bool {
        match &sandbox.container {
            Some(container) => container.fork.as_ref().is_some_and(|fork| fork.label == self.lower),
            None => self.at.as_ref() == Some(&sandbox.root),
        }
    }
}

/// An opened fork.
#[derive(Debug)]
pub struct ForkFolder {
    /// Its beginning.
    pub record: ForkRecord,
    /// Folder of the fork.
    pub(super) folder: OwnedFd,
    /// Path of that folder.
    path: PathBuf,
    /// Folder with its changes.
    pub upper: OwnedFd,
    /// Folder with the versions that were merged.
    pub base: OwnedFd,
    /// Folder with the versions that it began with.
    pub lower: OwnedFd,
    /// Folder of files on their way there.
    new: OwnedFd,
    /// True if something was kept that may not be on disk.
    has_kept: Cell<bool>,
}

/// All forks of a workspace, with their lock.
pub struct Forks<'s> {
    /// State that holds them.
    pub(super) state: &'s State,
    /// Their folder.
    pub(super) folder: std::sync::Arc<OwnedFd>,
    /// Prefix of the folders of its forks in lbx's folder of the user.
    pub(super) mark: String,
    /// Processes that may run in a fork as it is dropped.
    callers: Vec<u32>,
    /// Held while a fork is created, merged or dropped.
    _lock: Lock,
}

impl<'s> Forks<'s> {
    /// Takes the lock of the forks.
    ///
    /// # Errors
    /// Returns `lock_timeout`, or the OS error.
    pub fn lock(workspace: &Workspace, state: &'s State) -> Result<Self, Error> {
        let folder = state.folder(FORKS)?;
        let lock = state.lock(folder.as_fd(), LOCK, "the forks")?;
        let place = [workspace.root().as_os_str().as_bytes(), state.path().as_bytes()].concat();
        let mut mark = Sha256::of(&place).to_hex();
        mark.truncate(MARK_DIGITS);
        Ok(Self { state, folder, mark, callers: Vec::new(), _lock: lock })
    }

    /// Lets a fork be dropped in which only the processes run that called this one: a client's hook may run in the
    /// worktree that it removes.
    #[must_use]
    pub fn ignoring_callers(self) -> Self {
        Self { callers: process::callers(), ..self }
    }

    /// Creates a fork of the workspace as it is on disk, and names it as a sandbox. `references` of git stay as they are.
    ///
    /// # Errors
    /// Fails with `already_exists` if the name is in use, and with `invalid_request` if no layer is possible here.
    pub fn create(
        &self,
        workspace: &Workspace,
        (record, references): (ForkRecord, &[String]),
    ) -> Result<ForkFolder, Error> {
        let name = record.name.clone();
        let shown = self.state.display(&format!("{FORKS}/{name}"));
        self.must_be_free(workspace, &name)?;
        must_be_possible(workspace, self.folder.as_fd(), record.at.is_some())?;
        self.sweep();
        let io = |errno: Errno| Error::io("make", shown.clone(), errno);
        let passing = unique_name(PASSING);
        let folder = new_folder(self.folder.as_fd(), &passing).map_err(io)?;
        let upper = new_folder(folder.as_fd(), UPPER).map_err(io)?;
        for name in [WORK, BASE] {
            new_folder(folder.as_fd(), name).map_err(io)?;
        }
        make_alike(&upper, workspace.root_fd()).map_err(io)?;
        if record.at.is_none() {
            let own = copy_policy(workspace, &upper).map_err(io)?;
            // The state of the workspace does not show through.
            rustix::fs::fsetxattr(&own, OPAQUE, b"y", XattrFlags::empty()).map_err(io)?;
        }
        let lower = unique_name(&self.mark);
        let record = ForkRecord { version: VERSION, created: seconds_now(), lower, ..record };
        let opened = open_lower(&record.lower, true)?;
        let lower = fs::open_at(opened.as_fd(), OsStr::new(LOWER), fs::FOLDER).map_err(io)?;
        if record.at.is_none() {
            freeze_git(workspace, (&lower, references)).map_err(io)?;
        }
        let (began, _) = wait_for_clock_tick(&folder).map_err(io)?;
        let record = ForkRecord { began, ..record };
        let written = replace_record(folder.as_fd(), RECORD, &record)?;
        if let Some(at) = &record.at {
            copy_to(workspace, Path::new(at), &record.lower)?;
        }
        rename_new(&*self.folder, OsStr::new(&passing), &*self.folder, OsStr::new(&name)).map_err(io)?;
        let fork = ForkFolder::open(workspace, self.state, &name)?;
        // In one wave: after a power failure, a folder without a record counts as a leftover, and a fork without a name
        // gets one from the call that needs it.
        let files = [written.as_fd(), folder.as_fd(), self.folder.as_fd()];
        let (synced, named) = std::thread::scope(|scope| {
            let sync = || sync_many(&files.each_ref(), None);
            let apart = std::thread::Builder::new().spawn_scoped(scope, sync);
            let named = fork.set_name(workspace);
            // If no thread can start, do it here.
            let synced = apart.map_or_else(
                |_| sync(),
                |apart| apart.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            );
            (synced, named)
        });
        synced.map_err(|source| Error::io("sync", shown.clone(), source))?;
        named?;
        Ok(fork)
    }

    /// Fails if a name is in use, or there are too many forks; frees the name of a fork that is gone.
    fn must_be_free(&self, workspace: &Workspace, name: &str) -> Result<(), Error> {
        let known = sandboxes::list()?.remove(name);
        let is_lost = known.as_ref().is_some_and(sandboxes::NamedWorkspace::is_of_lost_fork);
        if known.is_none()
            && let Ok(fork) = ForkFolder::open(workspace, self.state, name)
        {
            fork.set_name(workspace)?;
        }
        if (known.is_some() && !is_lost) || fs::stat_at(self.folder.as_fd(), OsStr::new(name)).is_ok() {
            let error = Error::new(ErrorKind::AlreadyExists, format!("a sandbox {name} exists already"));
            return Err(
                error.suggest("Choose another name. `lbx fork list` and `lbx sandbox list` show the names.")
            );
        }
        if is_lost {
            sandboxes::remove(name)?;
        }
        if self.names()?.len() >= FORKS_MAX {
            let error = Error::new(ErrorKind::TooLarge, format!("there are {FORKS_MAX} forks already"));
            return Err(error.suggest("Merge or drop some: `lbx fork list` shows them."));
        }
        Ok(())
    }

    /// Deletes a fork with everything in it, and returns its record.
    ///
    /// # Errors
    /// Fails with `sandbox_not_found` if there is no such fork, and with `lock_timeout` if a program still runs in it.
    pub fn drop(&self, name: &str) -> Result<ForkRecord, Error> {
        let record = self.open_record(name)?;
        let io = |errno: Errno| Error::io("drop", self.state.display(&format!("{FORKS}/{name}")), errno);
        // From here no call finds it.
        let passing = unique_name(PASSING);
        fs::rename_at(&*self.folder, OsStr::new(name), &*self.folder, OsStr::new(&passing)).map_err(io)?;
        if let Some(process) = process_in(&record, &self.callers) {
            fs::rename_at(&*self.folder, OsStr::new(&passing), &*self.folder, OsStr::new(name))
                .map_err(io)?;
            let message = format!("process {process} still runs in the fork {name}");
            return Err(Error::new(ErrorKind::LockTimeout, message)
                .suggest("End the program first, then drop the fork."));
        }
        if let Some(at) = &record.at {
            remove_copy(Path::new(at), &record.lower);
        }
        self.sweep();
        // Another workspace may have taken a name that was lost.
        if sandboxes::list()?.get(name).is_some_and(|known| record.is_named_by(known)) {
            sandboxes::remove(name)?;
        }
        Ok(record)
    }

    /// Returns the names of the forks.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        names(self.state, &self.folder)
    }

    /// Returns the record of a fork.
    pub(super) fn open_record(&self, name: &str) -> Result<ForkRecord, Error> {
        let folder = fs::open_at(self.folder.as_fd(), OsStr::new(name), fs::FOLDER);
        read_record(folder.map_err(|_| not_found(name))?.as_fd(), name)
    }

    /// Returns true for the folder of a fork whose record did not reach the disk.
    pub(super) fn has_no_record(&self, name: &str) -> bool {
        let folder = fs::open_at(self.folder.as_fd(), OsStr::new(name), fs::FOLDER);
        let record = |folder: OwnedFd| fs::stat_at(folder.as_fd(), OsStr::new(RECORD));
        folder.is_ok_and(|folder| record(folder).map_or(true, |stat| fs::size_of(&stat) == 0))
    }
}

impl ForkFolder {
    /// Opens the fork of that name.
    ///
    /// # Errors
    /// Fails with `sandbox_not_found` if there is no such fork, or returns the OS error.
    pub fn open(workspace: &Workspace, state: &State, name: &str) -> Result<Self, Error> {
        let io = |errno: Errno| Error::io("open", state.display(&format!("{FORKS}/{name}")), errno);
        let forks = state.find_folder(FORKS)?.filter(|_| is_name(name)).ok_or_else(|| not_found(name))?;
        let folder = fs::open_at(forks.as_fd(), OsStr::new(name), fs::FOLDER).map_err(|_| not_found(name))?;
        let record = read_record(folder.as_fd(), name)?;
        let [upper, base] =
            [UPPER, BASE].map(|part| fs::open_at(folder.as_fd(), OsStr::new(part), fs::FOLDER).map_err(io));
        let own = open_lower(&record.lower, false)?;
        let [lower, new] =
            [LOWER, NEW].map(|part| fs::open_at(own.as_fd(), OsStr::new(part), fs::FOLDER).map_err(io));
        let path = workspace.root().join(state.path_of(&format!("{FORKS}/{name}")).as_path());
        Ok(Self {
            record,
            folder,
            path,
            upper: upper?,
            base: base?,
            lower: lower?,
            new: new?,
            has_kept: Cell::new(false),
        })
    }

    /// Returns the forks of a workspace, by name. Skips those that cannot be opened.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn list(workspace: &Workspace, state: &State) -> Result<Vec<Self>, Error> {
        let Some(forks) = state.find_folder(FORKS)? else { return Ok(Vec::new()) };
        let names = names(state, &forks)?;
        Ok(names.iter().filter_map(|name| Self::open(workspace, state, name).ok()).collect())
    }

    /// Returns the fork as a sandbox.
    ///
    /// # Errors
    /// Returns `invalid_request` if a path is not UTF-8.
    pub fn sandbox(&self, workspace: &Workspace) -> Result<sandboxes::NamedWorkspace, Error> {
        if let Some(root) = &self.record.at {
            return Ok(sandboxes::NamedWorkspace { root: root.clone(), container: None });
        }
        self.place(workspace).map(sandboxes::NamedWorkspace::of_fork)
    }

    /// Names the fork as a sandbox; the call that created it may have died before it did.
    ///
    /// # Errors
    /// Fails with `already_exists` if the name is another sandbox's, or returns the OS error.
    pub fn set_name(&self, workspace: &Workspace) -> Result<(), Error> {
        sandboxes::create(&self.record.name, &self.sandbox(workspace)?)
    }

    /// Returns the folders of the fork, for its mount.
    ///
    /// # Errors
    /// Returns `invalid_request` if a path is not UTF-8.
    pub fn place(&self, workspace: &Workspace) -> Result<ForkPlace, Error> {
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| Error::invalid("the path of a fork's workspace must be UTF-8"))
        };
        let lower = id::user_folder().map(|folder| folder.join(FORKS).join(&self.record.lower).join(LOWER));
        Ok(ForkPlace {
            root: text(workspace.root())?,
            upper: text(&self.path.join(UPPER))?,
            work: text(&self.path.join(WORK))?,
            lower: text(&lower.unwrap_or_default())?,
            label: self.record.lower.clone(),
            is_for_program: false,
        })
    }

    /// Returns the number of files in the fork that differ from those it began with, and of their bytes; stops after
    /// `files_max`. Does not count git's and lbx's own state.
    pub fn size(&self, files_max: usize) -> (usize, u64) {
        let (mut files, mut bytes) = (0, 0);
        let mut waiting: Vec<OwnedFd> =
            fs::open_at(self.upper.as_fd(), OsStr::new("."), fs::FOLDER).into_iter().collect();
        while let Some(folder) = waiting.pop() {
            for name in fs::names_in(&folder).unwrap_or_default() {
                let Ok(stat) = fs::stat_at(folder.as_fd(), &name) else { continue };
                if is_protected(name.as_bytes()) || files >= files_max {
                    continue;
                }
                if fs::is_folder(&stat) {
                    waiting.extend(fs::open_at(folder.as_fd(), &name, fs::FOLDER));
                } else {
                    files += 1;
                    bytes += fs::size_of(&stat);
                }
            }
        }
        (files, bytes)
    }

    /// Returns the id of a process that runs in the fork, if there is one.
    pub fn process(&self) -> Option<u32> {
        process_in(&self.record, &[])
    }

    /// Keeps what was at a path of the workspace for the fork, unless it is kept already.
    ///
    /// # Errors
    /// Returns the OS error, or that of a copy.
    pub fn keep(
        &self,
        root: BorrowedFd<'_>,
        path: &WorkspacePath,
        earlier: &mut FormerEntry<'_>,
    ) -> Result<(), Error> {
        let io = |errno: Errno| Error::io("keep for a fork", path.to_string(), errno);
        let parent = path.parent().unwrap_or_default();
        let is_there = !matches!(earlier, FormerEntry::Nothing);
        let Some(folder) = folder_for(self.lower.as_fd(), root, &parent, is_there).map_err(io)? else {
            return Ok(());
        };
        let name = path.name().unwrap_or_default();
        if fs::stat_at(folder.as_fd(), name).is_ok() {
            return Ok(());
        }
        self.has_kept.set(true);
        let aside = unique_name("kept");
        let at = (self.new.as_fd(), OsStr::new(&aside));
        match earlier {
            FormerEntry::Nothing => return whiteout(folder.as_fd(), name).map_err(io),
            FormerEntry::Folder => {
                return folder_like(folder.as_fd(), name, (root, path), true).map(drop).map_err(io);
            }
            FormerEntry::Entry(copy) => {
                copy(at.0, at.1)?;
                if let Ok(original) = fs::stat_beneath(root, path) {
                    note_inode(at, &original);
                }
            }
            FormerEntry::Bytes(mode, bytes) => write_version(at, *mode, bytes).map_err(io)?,
        }
        rename_new(&self.new, at.1, &folder, name).map_err(io)
    }

    /// Brings `upper` up to date if the fork is a copy.
    ///
    /// # Errors
    /// Fails with `not_found` if the copy is gone, or returns the OS error.
    pub fn refresh(&self, workspace: &Workspace) -> Result<(), Error> {
        let Some(at) = self.record.at.as_deref().map(Path::new) else { return Ok(()) };
        let gone = || Error::new(ErrorKind::NotFound, format!("the copy {} is gone", at.display()));
        let (parent, name) = at.parent().zip(at.file_name()).ok_or_else(gone)?;
        let parent = id::open_path(parent).map_err(|_| gone())?;
        let copy = open_copy(parent.as_fd(), name, &self.record.lower).ok_or_else(gone)?;
        let refreshed = fork_copy::refresh(workspace.root_fd(), &copy, &self.upper);
        refreshed.map_err(|source| Error::io("compare", at.display().to_string(), source))
    }

    /// Makes what was kept since the last call durable.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn sync_kept(&self) -> Result<(), Error> {
        if !self.has_kept.take() {
            return Ok(());
        }
        let synced = platform::sync_file_system(self.lower.as_fd());
        synced.map_err(|errno| Error::io("sync", "what a fork began with", errno))
    }
}

/// Makes the folders of tracked files in `lower`, once: a mount does not notice a folder that appears there after it has
/// looked for it, but it does notice files. So a program that runs for long does not see later changes.
pub fn prepare(place: &ForkPlace) {
    /// File that says that this is done.
    const PREPARED: &str = "prepared";
    let lower = Path::new(&place.lower);
    let opened = id::open_path(Path::new(&place.root)).and_then(|root| {
        let own = id::open_path(lower.parent().unwrap_or(lower))?;
        Ok((root, id::open_path(lower)?, own))
    });
    let Ok((root, lower, own)) = opened else { return };
    if fs::stat_at(own.as_fd(), OsStr::new(PREPARED)).is_ok() {
        return;
    }
    let mut folders = BTreeSet::new();
    if let Some((_, Ok(index))) = git_files::find(Path::new(&place.root)) {
        index.for_each_folder(|folder| {
            folders.insert(folder);
        });
    }
    let is_there = |folder: &WorkspacePath| fs::open_beneath(root.as_fd(), folder, fs::FOLDER).is_ok();
    // One that is gone may have been there when the fork began.
    for folder in folders.into_iter().filter(is_there) {
        // One that fails may show later changes.
        let _ = folder_for(lower.as_fd(), root.as_fd(), &folder, true);
    }
    let _ = fs::create_at(own.as_fd(), OsStr::new(PREPARED), 0o600);
}

/// Opens a folder of `lower`, made like that of the workspace. `None` if something else is kept in its place.
fn folder_for(
    lower: BorrowedFd<'_>,
    root: BorrowedFd<'_>,
    path: &WorkspacePath,
    is_there: bool,
) -> Result<Option<OwnedFd>, Errno> {
    let mut at = WorkspacePath::root();
    let mut folder = fs::open_at(lower, OsStr::new("."), fs::FOLDER)?;
    for name in path.components() {
        at = at.join(name);
        let Some(inner) = folder_like(folder.as_fd(), name, (root, &at), is_there)? else { return Ok(None) };
        folder = inner;
    }
    Ok(Some(folder))
}

/// Copies an entry to a name in an opened folder.
pub type CopyTo<'c> = dyn FnMut(BorrowedFd<'_>, &OsStr) -> Result<(), Error> + 'c;

/// Former entry at a path.
pub enum FormerEntry<'c> {
    /// Nothing.
    Nothing,
    /// A folder, whose entries are kept apart.
    Folder,
    /// A file or symlink, which is still there.
    Entry(&'c mut CopyTo<'c>),
    /// A file with this mode and these bytes; a symlink if the mode says so, with the bytes of its target.
    Bytes(u32, &'c [u8]),
}

/// Returns the folder `name`, made with owner, mode and times of the workspace's folder at a path if it is missing. `None`
/// if something else is there, or in the workspace. If the workspace has nothing there, nothing was there, unless
/// `is_there`.
fn folder_like(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    (root, path): (BorrowedFd<'_>, &WorkspacePath),
    is_there: bool,
) -> Result<Option<OwnedFd>, Errno> {
    match fs::open_at(parent, name, fs::FOLDER) {
        Ok(folder) => return Ok(Some(folder)),
        Err(Errno::NOENT) => {}
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        Err(errno) => return Err(errno),
    }
    let like = fs::open_beneath(root, path, fs::FOLDER).ok();
    if like.is_none() && !is_there {
        let is_other = fs::stat_beneath(root, path).is_ok_and(|stat| !fs::is_folder(&stat));
        return if is_other { Ok(None) } else { whiteout(parent, name).map(|()| None) };
    }
    make_folder(parent, name, GONE_MODE)?;
    let folder = fs::open_at(parent, name, fs::FOLDER)?;
    if let Some(like) = like {
        make_alike(&folder, like.as_fd())?;
    }
    Ok(Some(folder))
}

/// Writes a file or symlink under a new name.
pub(super) fn write_version(
    (folder, name): (BorrowedFd<'_>, &OsStr),
    mode: u32,
    bytes: &[u8],
) -> Result<(), Errno> {
    if fs::is_symlink_mode(mode) {
        return fs::create_link_at(folder, name, bytes);
    }
    let file = fs::create_at(folder, name, 0o600)?;
    fs::write_all(&file, bytes).map_err(|source| Errno::from_io_error(&source).unwrap_or(Errno::IO))?;
    rustix::fs::fchmod(&file, platform::mode(mode))
}

/// Copies the policy of the workspace to the fork, whose own state hides that of the workspace.
fn copy_policy(workspace: &Workspace, top: &OwnedFd) -> Result<OwnedFd, Errno> {
    /// File with the policy of a workspace.
    const POLICY: &str = "config.toml";
    make_folder(top.as_fd(), OsStr::new(STATE_FOLDER), 0o777)?;
    let own = fs::open_at(top.as_fd(), OsStr::new(STATE_FOLDER), fs::FOLDER)?;
    write_version((own.as_fd(), OsStr::new(IGNORE_NAME)), 0o644, IGNORE_FILE)?;
    let Ok(theirs) = fs::open_at(workspace.root_fd(), OsStr::new(STATE_FOLDER), fs::FOLDER) else {
        return Ok(own);
    };
    let bytes = fs::read_at(theirs.as_fd(), OsStr::new(POLICY), POLICY_FILE_BYTES_MAX).ok().flatten();
    if let Some(bytes) = bytes {
        write_version((own.as_fd(), OsStr::new(POLICY)), 0o644, &bytes)?;
    }
    Ok(own)
}

/// Keeps HEAD, the index and some references of the workspace's repository as they are.
fn freeze_git(workspace: &Workspace, (lower, references): (&OwnedFd, &[String])) -> Result<(), Errno> {
    let root = workspace.root_fd();
    let Ok(theirs) = fs::open_at(root, OsStr::new(DOT_GIT), fs::FOLDER) else { return Ok(()) };
    let at = WorkspacePath::root().join(DOT_GIT.as_ref());
    let Some(own) = folder_like(lower.as_fd(), OsStr::new(DOT_GIT), (root, &at), true)? else {
        return Ok(());
    };
    let read = |path: &str, most| git_files::read_regular(theirs.as_fd(), Path::new(path), most);
    let write =
        |folder: &OwnedFd, name: &OsStr, bytes: &[u8]| write_version((folder.as_fd(), name), 0o644, bytes);
    // Git replaces both by a rename, and overlayfs writes to no lower file: another name of the same file stays as it is.
    for name in ["index", "packed-refs"] {
        let linked = rustix::fs::linkat(&theirs, name, &own, name, AtFlags::empty());
        match linked {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(_) => {
                let bytes = read(name, GIT_INDEX_BYTES_MAX)?.unwrap_or_default();
                write(&own, OsStr::new(name), &bytes)?;
            }
        }
    }
    let Some(head) = read("HEAD", GIT_HEAD_BYTES_MAX)? else { return Ok(()) };
    write(&own, OsStr::new("HEAD"), &head)?;
    let packed = read("packed-refs", GIT_INDEX_BYTES_MAX)?.unwrap_or_default();
    let of_head = head.strip_prefix(b"ref:").and_then(|name| std::str::from_utf8(name.trim_ascii()).ok());
    for name in references.iter().map(String::as_str).chain(of_head) {
        let Some(path) = WorkspacePath::new(name.as_ref())
            .filter(|path| path.components().next().is_some_and(|top| top == "refs"))
        else {
            continue;
        };
        let value = read(name, GIT_HEAD_BYTES_MAX)?.or_else(|| packed_value(&packed, name));
        let at = at.join(path.parent().unwrap_or_default().as_path().as_os_str());
        let Some(folder) = folder_for(lower.as_fd(), root, &at, true)? else { return Ok(()) };
        let name = path.name().unwrap_or_default();
        match value {
            Some(value) if fs::stat_at(folder.as_fd(), name).is_err() => write(&folder, name, &value)?,
            Some(_) => {}
            None => whiteout(folder.as_fd(), name)?,
        }
    }
    Ok(())
}

/// Returns the content of a reference's file, by the file of packed references (git-pack-refs(1)).
fn packed_value(packed: &[u8], name: &str) -> Option<Vec<u8>> {
    let line = packed.split(|&byte| byte == b'\n').find_map(|line| {
        let id = line.strip_suffix(name.as_bytes())?.strip_suffix(b" ")?;
        id.iter().all(u8::is_ascii_hexdigit).then_some(id)
    })?;
    Some([line, b"\n"].concat())
}

/// Fails if the workspace cannot have a fork, with the reason.
fn must_be_possible(workspace: &Workspace, state: BorrowedFd<'_>, is_copy: bool) -> Result<(), Error> {
    let refused = |reason: String| Err(Error::invalid(format!("no fork is possible here: {reason}")));
    let copy = "give a folder for a copy, with `at`";
    if !is_copy && !cfg!(target_os = "linux") {
        return refused(format!("layers are Linux's only; {copy}"));
    }
    if !is_copy && is_on_overlay(state) {
        return refused(format!(
            "the workspace is on an overlay file system, which cannot hold a layer; put it on a volume, or {copy}"
        ));
    }
    if !is_copy && let Some(inner) = inner_mount(workspace.root()) {
        return refused(format!("{} is a mount point, which a fork does not cover; {copy}", inner.display()));
    }
    let (root, git) = (workspace.root(), Path::new(DOT_GIT));
    match fs::stat_at(workspace.root_fd(), git.as_os_str()) {
        Ok(stat) if fs::is_folder(&stat) => Ok(()),
        Ok(_) => {
            refused(".git is a file, and git's own folder is elsewhere; fork the main worktree".to_owned())
        }
        Err(_) => match root
            .ancestors()
            .skip(1)
            .find(|folder| fs::stat_at(rustix::fs::CWD, folder.join(git).as_os_str()).is_ok())
        {
            Some(folder) => refused(format!(
                "the workspace is a part of the repository {}; fork that with --workspace",
                folder.display()
            )),
            None => Ok(()),
        },
    }
}

/// Returns a mount point below the workspace, if there is one.
#[cfg(target_os = "linux")]
fn inner_mount(root: &Path) -> Option<PathBuf> {
    let points = super::layer_mount::mount_points().ok()?;
    super::layer_mount::inner_mount(root, &points).map(Path::to_owned)
}

/// Returns no mount point: a fork is a copy here.
#[cfg(not(target_os = "linux"))]
fn inner_mount(_: &Path) -> Option<PathBuf> {
    None
}

/// File in the state of a copy that names the fork.
const COPY_MARK: &str = "fork";

/// File in the state of a copy with the root of its workspace.
const COPY_PARENT: &str = "fork-of";

/// Returns the root of the workspace that a folder is a copy of, by what the copy says.
pub fn parent_of(copy: &Path) -> Option<PathBuf> {
    let own = id::open_path(&copy.join(STATE_FOLDER)).ok()?;
    let root = fs::read_at(own.as_fd(), OsStr::new(COPY_PARENT), FORK_RECORD_BYTES_MAX).ok()??;
    Some(PathBuf::from(OsStr::from_bytes(&root)))
}

/// Copies the workspace to a new folder; a folder is taken only if it is empty, and not in the workspace.
fn copy_to(workspace: &Workspace, at: &Path, label: &str) -> Result<(), Error> {
    let io = |errno: Errno| Error::io("make", at.display().to_string(), errno);
    let (parent, name) = at.parent().zip(at.file_name()).ok_or_else(|| io(Errno::INVAL))?;
    let parent = id::open_path(parent).map_err(io)?;
    make_folder(parent.as_fd(), name, OWN_MODE).map_err(io)?;
    let folder = fs::open_at(parent.as_fd(), name, fs::FOLDER).map_err(io)?;
    if !fs::names_in(&folder).map_err(io)?.is_empty() {
        let error = Error::new(ErrorKind::AlreadyExists, format!("{} is not empty", at.display()));
        return Err(error.detail("field", "at").suggest("Name a folder that does not exist yet."));
    }
    let own = copy_policy(workspace, &folder).map_err(io)?;
    write_version((own.as_fd(), OsStr::new(COPY_MARK)), 0o600, label.as_bytes()).map_err(io)?;
    let parent = workspace.root().as_os_str().as_bytes();
    write_version((own.as_fd(), OsStr::new(COPY_PARENT)), 0o600, parent).map_err(io)?;
    let copied = fork_copy::copy_workspace((workspace.root_fd(), workspace.root()), &folder)
        .and_then(|()| platform::sync_file_system(folder.as_fd()).map_err(io));
    if copied.is_err() {
        remove_copy(at, label);
    }
    copied
}

/// Removes the folder of a copy, if it is still the one of this fork.
pub(super) fn remove_copy(at: &Path, label: &str) {
    let Some((parent, name)) = at.parent().zip(at.file_name()) else { return };
    let Ok(parent) = id::open_path(parent) else { return };
    if open_copy(parent.as_fd(), name, label).is_some() {
        removal::remove(parent.as_fd(), name);
    }
}

/// Opens the folder of a copy, if it is still the one of this fork.
fn open_copy(parent: BorrowedFd<'_>, name: &OsStr, label: &str) -> Option<OwnedFd> {
    let folder = fs::open_at(parent, name, fs::FOLDER).ok()?;
    let own = fs::open_at(folder.as_fd(), OsStr::new(STATE_FOLDER), fs::FOLDER).ok()?;
    let mark = fs::read_at(own.as_fd(), OsStr::new(COPY_MARK), FORK_RECORD_BYTES_MAX).ok()??;
    (mark == label.as_bytes()).then_some(folder)
}

/// Opens the folder with `lower` and `new` of a fork; makes it with both, if `make` is set.
fn open_lower(name: &str, make: bool) -> Result<OwnedFd, Error> {
    let no_place = || {
        Error::new(ErrorKind::IoError, "there is no place for the files that a fork began with")
            .suggest("Set XDG_STATE_HOME to a folder that this account can write.")
    };
    let path = id::user_folder().ok_or_else(no_place)?.join(FORKS);
    let io = |source: std::io::Error| Error::io("open", path.join(name).display().to_string(), source);
    if make {
        id::make_folders(&path).map_err(io)?;
    }
    let opened = (|| -> Result<OwnedFd, Errno> {
        let folder = id::open_path(&path)?;
        if make {
            let own = new_folder(folder.as_fd(), name)?;
            new_folder(own.as_fd(), LOWER)?;
            new_folder(own.as_fd(), NEW)?;
            new_folder(own.as_fd(), LAYERS)?;
        }
        fs::open_at(folder.as_fd(), OsStr::new(name), fs::FOLDER)
    })();
    opened.map_err(|errno| io(errno.into()))
}

/// Returns the names of the forks in their folder.
fn names(state: &State, forks: &OwnedFd) -> Result<Vec<String>, Error> {
    let found = fs::names_in(forks).map_err(|errno| Error::io("list", state.display(FORKS), errno))?;
    let mut names: Vec<String> =
        found.into_iter().filter_map(|name| name.into_string().ok()).filter(|name| is_name(name)).collect();
    names.sort_unstable();
    Ok(names)
}

/// Returns true for a name that a fork can have.
pub(super) fn is_name(name: &str) -> bool {
    name != LOCK && sandboxes::slug(name).is_ok_and(|slug| slug == name)
}

/// Returns the error for a name that no fork has.
pub fn not_found(name: &str) -> Error {
    let error = Error::new(ErrorKind::SandboxNotFound, format!("fork not found: {name}"));
    error.suggest("`fork` with `list` shows the forks of this workspace.")
}

/// Reads the record in the folder of a fork.
///
/// # Errors
/// Fails for a fork of a newer lbx, and with `sandbox_not_found` for a damaged record.
fn read_record(folder: BorrowedFd<'_>, name: &str) -> Result<ForkRecord, Error> {
    let bytes = fs::read_or_empty(folder, OsStr::new(RECORD), FORK_RECORD_BYTES_MAX);
    if version_of(&bytes) > VERSION {
        return Err(written_by_newer(&format!("the fork {name}")));
    }
    let record = serde_json::from_slice(&bytes).ok();
    record.filter(|record: &ForkRecord| is_label(&record.lower)).ok_or_else(|| not_found(name))
}

/// Returns the id of a process whose mounts include that of a fork, except some.
fn process_in(record: &ForkRecord, others: &[u32]) -> Option<u32> {
    let own = fs::process_id();
    let processes = fs::open_at(rustix::fs::CWD, OsStr::new("/proc"), fs::FOLDER).ok()?;
    let ids =
        fs::names_in(&processes).ok()?.into_iter().filter_map(|name| name.to_str()?.parse::<u32>().ok());
    ids.filter(|id| *id != own && !others.contains(id)).find(|id| {
        if let Some(at) = &record.at {
            let folder = fs::read_link_at(processes.as_fd(), format!("{id}/cwd").as_ref());
            return folder.is_ok_and(|folder| Path::new(OsStr::from_bytes(&folder)).starts_with(at));
        }
        let file = format!("{id}/mountinfo");
        let mounts = fs::read_or_empty(processes.as_fd(), file.as_ref(), MOUNTS_BYTES_MAX);
        memchr::memmem::find(&mounts, record.lower.as_bytes()).is_some()
    })
}
