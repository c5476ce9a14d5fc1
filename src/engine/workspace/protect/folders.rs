//! The git folders on the way to a path, found on disk and remembered for the length of a change.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::names::{name_error, protected_component};
use super::repository::{COMMON, DOT_GIT, HEAD, is_repository};
use crate::engine::workspace::Workspace;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};

/// Longest `.git` file and the like, in bytes.
const POINTER_BYTES_MAX: u64 = 4096;
/// Components that are looked up at once: a path of thousands is opened in steps, so that the kernel
/// does not walk all of it for each folder on the way.
const STEP: usize = 32;

/// Which paths of a workspace belong to git or lbx. What it finds out is remembered, so that many
/// paths in one folder cost one look; it serves one change.
#[derive(Debug, Default)]
pub struct Protection {
    /// The git folder that each folder lies in or is, by the folder's bytes.
    known: RefCell<BTreeMap<Vec<u8>, Option<WorkspacePath>>>,
    /// The folders that `.git` at the root leads to.
    used: OnceCell<Vec<WorkspacePath>>,
}

impl Protection {
    /// Refuses a path that belongs to git or lbx: by a name in it, or because it lies in a folder that
    /// git uses or would take for a repository. `shown` is the path as answers show it.
    ///
    /// # Errors
    /// `protected_path`.
    pub fn check(&self, workspace: &Workspace, path: &WorkspacePath, shown: &str) -> Result<(), Error> {
        if let Some(name) = protected_component(path.as_path()) {
            return Err(name_error(shown, name));
        }
        match self.git_folder_of(workspace, path) {
            None => Ok(()),
            Some(folder) => Err(folder_error(shown, &workspace.shown(&folder))),
        }
    }

    /// The git folder that `path` lies in; not `path` itself, unless this work tree uses it.
    #[must_use]
    pub fn git_folder_of(&self, workspace: &Workspace, path: &WorkspacePath) -> Option<WorkspacePath> {
        let used = self.used.get_or_init(|| used_by_git(workspace));
        if let Some(folder) = used.iter().find(|folder| path.is_within(folder)) {
            return Some(folder.clone());
        }
        self.enclosing(workspace, &path.parent()?)
    }

    /// The git folder that `folder` is or lies in.
    fn enclosing(&self, workspace: &Workspace, folder: &WorkspacePath) -> Option<WorkspacePath> {
        let mut known = self.known.borrow_mut();
        let mut found = None;
        let mut unknown = Vec::new();
        let mut at = Some(folder.clone());
        while let Some(path) = at {
            if let Some(answer) = known.get(path.as_bytes()) {
                found.clone_from(answer);
                break;
            }
            at = path.parent();
            unknown.push(path);
        }
        let mut steps = Steps::new(workspace);
        for path in unknown.into_iter().rev() {
            let Some((from, rest)) = steps.to(&path) else {
                // Nothing stands there, so nothing stands below it either.
                break;
            };
            if holds_repository(from, &rest) {
                found = Some(path.clone());
            } else if found.is_some() && stands(from, &rest, DOT_GIT) {
                // The work tree of a repository that was made in its own folder.
                found = None;
            }
            known.insert(path.as_bytes().to_vec(), found.clone());
        }
        found
    }
}

/// The refusal of a path in a git folder.
#[must_use]
pub fn folder_error(shown: &str, folder: &str) -> Error {
    let message = format!("{shown} is protected: git uses {folder} as a repository");
    Error::new(ErrorKind::ProtectedPath, message).at(shown)
}

/// Opens the folders on the way to ever deeper paths, one in [`STEP`].
struct Steps<'w> {
    /// The workspace.
    workspace: &'w Workspace,
    /// The deepest folder that is open, and how many components lead to it.
    from: Option<(OwnedFd, usize)>,
}

impl<'w> Steps<'w> {
    /// Steps that begin at the root.
    fn new(workspace: &'w Workspace) -> Self {
        Self { workspace, from: None }
    }

    /// An opened folder on the way to `path`, and the rest of the way; `None` where that has no folder.
    fn to(&mut self, path: &WorkspacePath) -> Option<(BorrowedFd<'_>, PathBuf)> {
        let depth = path.components().count();
        let opened = self.from.as_ref().map_or(0, |(_, depth)| *depth);
        if depth >= opened + STEP {
            let root = self.workspace.root_fd();
            let folder = fs::open_beneath(root, path, fs::LOOK | OFlags::DIRECTORY).ok()?;
            self.from = Some((folder, depth));
        }
        let (from, opened) = match &self.from {
            Some((folder, depth)) => (folder.as_fd(), *depth),
            None => (self.workspace.root_fd(), 0),
        };
        Some((from, path.components().skip(opened).collect()))
    }
}

/// Whether the folder at `rest` below an opened one is a repository: one call where it has no `HEAD`.
fn holds_repository(from: BorrowedFd<'_>, rest: &Path) -> bool {
    if !stands(from, rest, HEAD) {
        return false;
    }
    let Some(rest) = WorkspacePath::new(rest) else {
        return true;
    };
    match fs::open_beneath(from, &rest, fs::LOOK | OFlags::DIRECTORY) {
        Ok(folder) => is_repository(folder.as_fd()),
        Err(_) => true,
    }
}

/// Whether a name stands in the folder at `rest` below an opened one.
fn stands(from: BorrowedFd<'_>, rest: &Path, name: &str) -> bool {
    fs::stat_at(from, rest.join(name).as_os_str()).is_ok()
}

/// The folders below the root that `.git` there leads to, however it does so.
fn used_by_git(workspace: &Workspace) -> Vec<WorkspacePath> {
    let Ok(stat) = fs::stat_at(workspace.root_fd(), OsStr::new(DOT_GIT)) else {
        return Vec::new();
    };
    let dot_git = workspace.root().join(DOT_GIT);
    let folder = if fs::is_regular(&stat) {
        let pointer = fs::read_at(workspace.root_fd(), OsStr::new(DOT_GIT), POINTER_BYTES_MAX);
        let target = pointer.ok().flatten().and_then(|bytes| pointed(&bytes, b"gitdir:"));
        match target {
            Some(target) => workspace.root().join(target),
            None => return Vec::new(),
        }
    } else {
        dot_git
    };
    if fs::is_folder(&stat)
        && let Some(common) = WorkspacePath::new(&Path::new(DOT_GIT).join(COMMON))
        && fs::open_beneath(workspace.root_fd(), &common, fs::LOOK).err() == Some(Errno::NOENT)
    {
        // A real folder that is the whole repository leads nowhere else.
        return WorkspacePath::new(Path::new(DOT_GIT)).into_iter().collect();
    }
    let folder = led_to(&folder);
    let Some(folder) = folder else {
        return Vec::new();
    };
    let common = common_of(&folder);
    let within = |path: PathBuf| WorkspacePath::new(path.strip_prefix(workspace.root()).ok()?);
    // The root itself cannot be one: no path in it could be written, and opening it was refused.
    common.into_iter().chain([folder]).filter_map(within).filter(|path| !path.is_root()).collect()
}

/// Where a path leads.
#[expect(clippy::disallowed_methods, reason = "git follows the name, and what it leads to is only protected")]
fn led_to(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

/// The folder that `commondir` in a git folder names.
#[expect(clippy::disallowed_methods, reason = "git follows the name, and what it leads to is only protected")]
fn common_of(folder: &Path) -> Option<PathBuf> {
    let flags = fs::LOOK | OFlags::DIRECTORY;
    let opened = rustix::fs::open(folder, flags, rustix::fs::Mode::empty()).ok()?;
    let bytes = fs::read_at(opened.as_fd(), OsStr::new(COMMON), POINTER_BYTES_MAX).ok()??;
    std::fs::canonicalize(folder.join(pointed(&bytes, b"")?)).ok()
}

/// The path in a file of one line, after `prefix`.
fn pointed(bytes: &[u8], prefix: &[u8]) -> Option<PathBuf> {
    let line = bytes.strip_prefix(prefix)?.split(|&byte| matches!(byte, b'\n' | b'\r')).next()?;
    let path = line.trim_ascii_start();
    (!path.is_empty() && !path.contains(&0)).then(|| PathBuf::from(OsStr::from_bytes(path)))
}
