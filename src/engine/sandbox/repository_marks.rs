//! Repositories and lbx states of a workspace before and after a command that changes the files themselves.
//!
//! A sandbox keeps a command from writing into a repository that exists when it starts. It cannot keep a command from
//! making one, and the developer's next `git status` would run the configuration of that one. So all marks by which git
//! could take a folder for a repository are recorded before the command and compared afterwards; a new mark gets a name
//! that git does not know.
//!
//! ```text
//! sub/.git   ->  sub/.git.lbx-held   (and HEAD in it -> HEAD.lbx-held: it could be entered)
//! bare/HEAD  ->  bare/HEAD.lbx-held  (the folder may be the developer's own `src`)
//! ```
//!
//! Also a watch for repositories that appear while a job runs.
//!
//! The mounts of a sandbox are made at its start: a job of an hour could write into a repository that the developer
//! clones meanwhile. The kernel has no rule "no `.git` below this folder" for an ordinary user, so this watch narrows
//! the gap instead of closing it: inotify reports the new name, and the job is killed. A job that waits for that moment
//! still has a few milliseconds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use rustix::fs::Stat;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::control::Control;
use crate::engine::store::state::STATE_FOLDER;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::{COMMON, HEAD, HELD, PARTS, head_at, is_repository};
use crate::engine::workspace::survey::names_of;
use crate::engine::workspace::{Workspace, fs, protect};
use crate::limits::{COMPARED_FILE_BYTES_MAX, SUBMODULE_DEPTH_MAX, WATCHED_FOLDERS_MAX};
use crate::platform;
use crate::platform::watch::{Watch, WatchEvent};
use crate::sha256::{Hasher, Sha256};

/// Number of names that are tried for a mark that is moved aside.
const HELD_NAMES_MAX: u32 = 1_000;
/// Files of a repository that make git run a program or lead it elsewhere.
const FILES: [&str; 6] =
    ["config", "config.worktree", COMMON, "gitdir", "info/attributes", "objects/info/alternates"];
/// Folder whose files git runs.
const HOOKS: &str = "hooks";
/// Suffix of a hook that git does not run.
const SAMPLE: &[u8] = b".sample";
/// Folders that hold other repositories of the same work tree.
const INNER: [&str; 2] = ["modules", "worktrees"];

/// Identity and content of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct MarkContent {
    /// Device and inode.
    file: (u64, u64),
    /// Digest of the files that make git run or follow something; `None` for an empty folder, which git ignores.
    digest: Option<Sha256>,
}

/// Marks of a workspace, by path: see [`ProtectedPaths::marks`](super::repositories::ProtectedPaths::marks).
#[derive(Debug, Default)]
pub struct RepositoryMarks(BTreeMap<WorkspacePath, MarkContent>);

/// A mark that was moved aside.
#[derive(Debug)]
pub struct HeldMark {
    /// Folder that would be a repository, or hold a state.
    pub folder: WorkspacePath,
    /// New path of the mark.
    pub path: WorkspacePath,
    /// Its inode.
    pub inode: u64,
    /// True if it is a folder.
    pub is_folder: bool,
    /// True if it is a state of lbx.
    pub is_state: bool,
}

/// Difference between the marks before and after a command.
#[derive(Debug, Default)]
pub struct MarkChanges {
    /// New or replaced marks, moved aside.
    pub held: Vec<HeldMark>,
    /// New or replaced marks that could not be moved.
    pub failed: Vec<(WorkspacePath, Errno)>,
    /// Old marks whose configuration or hooks have changed. The command could not write them.
    pub altered: Vec<WorkspacePath>,
}

impl RepositoryMarks {
    /// Reads the marks that a search has found.
    pub fn of(workspace: &Workspace, marks: &[WorkspacePath]) -> Self {
        let look = |path: &WorkspacePath| Some((path.clone(), MarkContent::at(workspace, path)?));
        Self(marks.iter().filter_map(look).collect())
    }

    /// Reads the marks that [`Self::to_json`] wrote.
    pub fn from_json(json: &[u8]) -> Option<Self> {
        let marks: Vec<(WorkspacePath, MarkContent)> = serde_json::from_slice(json).ok()?;
        Some(Self(marks.into_iter().collect()))
    }

    /// Writes the marks for a later call, in case this one is killed.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(&self.0.iter().collect::<Vec<_>>()).unwrap_or_default()
    }

    /// Compares the marks with later ones, and moves new or replaced ones aside.
    pub fn move_new_aside(&self, workspace: &Workspace, later: &[WorkspacePath]) -> MarkChanges {
        let mut changes = MarkChanges::default();
        let own = WorkspacePath::root().join(OsStr::new(STATE_FOLDER));
        let known = self.0.keys().filter(|path| !later.contains(path));
        for path in later.iter().chain(known).filter(|path| **path != own) {
            let Some(now) = MarkContent::at(workspace, path) else { continue };
            match self.0.get(path) {
                Some(before) if *before == now => {}
                // The folder is the same, and a sandbox keeps a command from writing into it, except for a bare
                // repository at the root.
                Some(before) if before.file == now.file && !path.is_root() => {
                    changes.altered.extend(folder_of(path));
                }
                _ if now.digest.is_none() => {}
                _ => match move_mark_aside(workspace, path) {
                    Ok(Some(held)) => changes.held.push(held),
                    Ok(None) => {}
                    Err(errno) => changes.failed.push((path.clone(), errno)),
                },
            }
        }
        changes
    }
}

impl MarkContent {
    /// Reads a mark; returns `None` if it does not exist, or a folder is not a repository any more.
    fn at(workspace: &Workspace, path: &WorkspacePath) -> Option<Self> {
        let opened = fs::entry_beneath(workspace.root_fd(), path).ok()?;
        let stat = opened.stat().ok()?;
        let file = (platform::device(&stat), stat.st_ino);
        let name = path.name().unwrap_or_default();
        let mut hasher = Hasher::default();
        if fs::is_symlink(&stat) {
            hasher.update(&opened.target().ok()?);
        } else if !fs::is_folder(&stat) {
            let parent = workspace.open_folder(&path.parent()?).ok()?;
            add_file(&mut hasher, parent.as_fd(), name, &stat);
        } else if !is_state(name) {
            let folder = fs::open_beneath(workspace.root_fd(), path, fs::FOLDER);
            // An unreadable folder counts as a non-empty one.
            if let Ok(folder) = folder {
                if fs::names_in(&folder).is_ok_and(|names| names.is_empty()) {
                    return Some(Self { file, digest: None });
                }
                add_repository(&mut hasher, &folder, 0);
            }
        }
        Some(Self { file, digest: Some(hasher.finish()) })
    }
}

/// Returns true for the name of lbx's own folder.
fn is_state(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(STATE_FOLDER)
}

/// Returns true for a mark with a known name; any other mark is a folder that is a repository itself.
fn is_named(path: &WorkspacePath) -> bool {
    path.name().is_some_and(|name| protect::is_protected(name.as_bytes()))
}

/// Returns the folder that a mark makes a repository.
fn folder_of(mark: &WorkspacePath) -> Option<WorkspacePath> {
    if is_named(mark) { mark.parent() } else { Some(mark.clone()) }
}

/// Adds the files that git runs or follows in a repository.
fn add_repository(hasher: &mut Hasher, folder: &OwnedFd, depth: usize) {
    hasher.update(&[u8::from(head_at(folder.as_fd(), OsStr::new(HEAD)).is_valid())]);
    for file in FILES {
        add_path(hasher, folder, Some(file));
    }
    let hooks = fs::open_at(folder.as_fd(), OsStr::new(HOOKS), fs::FOLDER);
    for name in hooks.as_ref().map(sorted).unwrap_or_default() {
        if let Ok(hooks) = &hooks
            && !name.as_bytes().ends_with(SAMPLE)
        {
            add_path(hasher, hooks, name.to_str());
        }
    }
    for inner in INNER {
        if let Ok(inner) = fs::open_at(folder.as_fd(), OsStr::new(inner), fs::FOLDER) {
            add_inner(hasher, &inner, depth + 1);
        }
    }
}

/// Adds the repositories in a folder of a repository: `modules/a/b` belongs to the submodule `a/b`.
fn add_inner(hasher: &mut Hasher, folder: &OwnedFd, depth: usize) {
    for name in sorted(folder).iter().filter(|_| depth < SUBMODULE_DEPTH_MAX) {
        let Ok(inner) = fs::open_at(folder.as_fd(), name, fs::FOLDER) else { continue };
        add_name(hasher, name);
        if fs::stat_at(inner.as_fd(), OsStr::new(HEAD)).is_ok() {
            add_repository(hasher, &inner, depth);
        } else {
            add_inner(hasher, &inner, depth + 1);
        }
    }
}

/// Returns the sorted names in a folder.
fn sorted(folder: &OwnedFd) -> Vec<OsString> {
    let mut names = fs::names_in(folder).unwrap_or_default();
    names.sort();
    names
}

/// Adds a name, so that no two lists of files have the same digest.
fn add_name(hasher: &mut Hasher, name: &OsStr) {
    hasher.update(&(name.len() as u64).to_le_bytes());
    hasher.update(name.as_bytes());
}

/// Adds a file of a repository by its path in it; of a link, only its text.
fn add_path(hasher: &mut Hasher, folder: &OwnedFd, path: Option<&str>) {
    let Some(path) = path else { return };
    let (inner, name) = path.rsplit_once('/').unwrap_or((".", path));
    let Ok(inner) = fs::open_at(folder.as_fd(), OsStr::new(inner), fs::FOLDER) else { return };
    let Ok(stat) = fs::stat_at(inner.as_fd(), OsStr::new(name)) else { return };
    add_name(hasher, OsStr::new(path));
    add_file(hasher, inner.as_fd(), OsStr::new(name), &stat);
}

/// Adds the bytes of a file or the target of a link, and the executable bit.
fn add_file(hasher: &mut Hasher, folder: BorrowedFd<'_>, name: &OsStr, stat: &Stat) {
    hasher.update(&fs::recorded_mode(stat).to_le_bytes());
    let bytes = if fs::is_symlink(stat) {
        fs::read_link_at(folder, name).ok()
    } else {
        fs::read_at(folder, name, COMPARED_FILE_BYTES_MAX).ok().flatten()
    };
    if let Some(bytes) = bytes {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(&bytes);
    } else {
        hasher.update(&fs::size_of(stat).to_le_bytes());
        hasher.update(&stat.st_ino.to_le_bytes());
        hasher.update(&stat.st_ctime.to_le_bytes());
    }
}

/// Gives a mark a name that neither git nor lbx knows; returns `None` if the mark was removed.
fn move_mark_aside(workspace: &Workspace, mark: &WorkspacePath) -> Result<Option<HeldMark>, Errno> {
    let (Some(folder), Some(name)) = (folder_of(mark), mark.name()) else {
        return move_name_aside(workspace, &WorkspacePath::root(), OsStr::new(HEAD));
    };
    if !is_named(mark) {
        return move_name_aside(workspace, mark, OsStr::new(HEAD));
    }
    let Some(held) = move_name_aside(workspace, &folder, name)? else { return Ok(None) };
    if held.is_folder && !held.is_state {
        // Git takes a folder for a bare repository by its content, whatever its name.
        move_name_aside(workspace, &held.path, OsStr::new(HEAD))?;
    }
    Ok(Some(held))
}

/// Moves a name in a folder aside.
fn move_name_aside(
    workspace: &Workspace,
    folder: &WorkspacePath,
    name: &OsStr,
) -> Result<Option<HeldMark>, Errno> {
    let opened = fs::open_beneath(workspace.root_fd(), folder, fs::FOLDER)?;
    for number in 1..=HELD_NAMES_MAX {
        let mut new = name.to_owned();
        new.push(HELD);
        if number > 1 {
            new.push(format!("-{number}"));
        }
        match fs::rename_new(&opened, name, &opened, &new) {
            Err(Errno::EXIST | Errno::NOTEMPTY) => {}
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
            Ok(()) => {
                let stat = fs::stat_at(opened.as_fd(), &new)?;
                return Ok(Some(HeldMark {
                    folder: folder.clone(),
                    path: folder.join(&new),
                    inode: stat.st_ino,
                    is_folder: fs::is_folder(&stat),
                    is_state: is_state(name),
                }));
            }
        }
    }
    Err(Errno::EXIST)
}

/// Time between two checks if the job has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The first folder in which a repository appeared.
type NewRepository = Arc<OnceLock<WorkspacePath>>;

/// A watch over all folders of a workspace; ends on drop.
#[derive(Debug)]
pub struct RepositoryWatch {
    /// Control that ends the thread.
    end: Control,
    /// Folder in which a repository appeared.
    found: NewRepository,
    /// True if there are too many folders to watch all.
    pub is_partial: bool,
}

impl RepositoryWatch {
    /// Watches a workspace whose only marks are `known`; cancels `kill` when another mark appears.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn begin(
        workspace: &Workspace,
        known: impl Iterator<Item = WorkspacePath>,
        kill: Control,
    ) -> std::io::Result<Self> {
        let watch = Watch::new()?;
        let root = workspace.root_fd().try_clone_to_owned()?;
        let (folders, found) = (HashMap::new(), NewRepository::default());
        let mut watcher =
            Watcher { watch, root, known: known.collect(), folders, found: found.clone(), is_partial: false };
        watcher.enter(WorkspacePath::root());
        let (is_partial, end) = (watcher.is_partial, Control::default());
        let ended = end.clone();
        thread::spawn(move || {
            while watcher.found.get().is_none() && !ended.is_cancelled() {
                watcher.watch.wait(LOOK_INTERVAL);
                watcher.read();
            }
            if watcher.found.get().is_some() {
                kill.cancel();
            }
        });
        Ok(Self { end, found, is_partial })
    }

    /// Returns the folder in which a repository appeared.
    pub fn found(&self) -> Option<&WorkspacePath> {
        self.found.get()
    }
}

impl Drop for RepositoryWatch {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// State of the watching thread.
struct Watcher {
    /// Source of new names.
    watch: Watch,
    /// The workspace root.
    root: OwnedFd,
    /// Marks that existed when the job started.
    known: HashSet<WorkspacePath>,
    /// Watched folders.
    folders: HashMap<i32, WorkspacePath>,
    /// Folder in which a repository appeared.
    found: NewRepository,
    /// True if there are too many folders to watch all.
    is_partial: bool,
}

impl Watcher {
    /// Watches a folder and all below it, and searches them for marks.
    fn enter(&mut self, folder: WorkspacePath) {
        let mut folders = vec![folder];
        while let Some(path) = folders.pop() {
            let Ok(opened) = fs::open_beneath(self.root.as_fd(), &path, fs::FOLDER) else { continue };
            // Watch first, then list: a name that appears in between is found twice.
            if self.folders.len() < WATCHED_FOLDERS_MAX {
                match self.watch.add(opened.as_fd()) {
                    Ok(watch) => {
                        self.folders.insert(watch, path.clone());
                    }
                    Err(_) => self.is_partial = true,
                }
            } else {
                self.is_partial = true;
            }
            if is_repository(opened.as_fd()) && !path.is_root() {
                if !self.known.contains(&path) {
                    let _ = self.found.set(path);
                    return;
                }
                continue;
            }
            let Ok(listing) = names_of(opened.as_fd()) else { continue };
            for entry in listing.iter() {
                let inner = path.join(OsStr::from_bytes(entry.name));
                if protect::is_protected(entry.name) {
                    if is_git(entry.name) && !self.known.contains(&inner) {
                        let _ = self.found.set(path);
                        return;
                    }
                } else if entry.is_folder() {
                    folders.push(inner);
                }
            }
        }
    }

    /// Handles the events that have arrived.
    fn read(&mut self) {
        for event in self.watch.events() {
            let (watch, name, is_folder) = match event {
                WatchEvent::Unknown => {
                    self.enter(WorkspacePath::root());
                    continue;
                }
                WatchEvent::Ended(watch) => {
                    self.folders.remove(&watch);
                    continue;
                }
                WatchEvent::Appeared { folder, name, is_folder } => (folder, name, is_folder),
            };
            let Some(folder) = self.folders.get(&watch).cloned() else { continue };
            if is_git(&name) || (is_part(&name) && self.is_new_repository(&folder)) {
                let _ = self.found.set(folder);
            } else if is_folder && !protect::is_protected(&name) {
                self.enter(folder.join(OsStr::from_bytes(&name)));
            }
        }
    }

    /// Returns true if a folder has become a repository since the job started.
    fn is_new_repository(&self, folder: &WorkspacePath) -> bool {
        let opened = fs::open_beneath(self.root.as_fd(), folder, fs::FOLDER);
        !self.known.contains(folder) && opened.is_ok_and(|opened| is_repository(opened.as_fd()))
    }
}

/// Returns true for a name by which git finds a repository.
fn is_git(name: &[u8]) -> bool {
    protect::is_protected(name) && !name.eq_ignore_ascii_case(STATE_FOLDER.as_bytes())
}

/// Returns true for a name that is part of a repository.
fn is_part(name: &[u8]) -> bool {
    PARTS.iter().any(|part| name.eq_ignore_ascii_case(part.as_bytes()))
}
