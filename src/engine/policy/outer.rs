//! What the workspaces that this one lies in protect: a root further down does not lift it.
//!
//! Of their files only `protect` counts. One that another account wrote is left alone: in a folder that
//! everyone may write, such as `/tmp`, it would be a stranger's.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use globset::GlobSet;
use rustix::fs::CWD;
use rustix::io::Errno;

use super::file::{NAME, bad_file, no_regular_file, read_opened, unreadable};
use super::parse::{self, Position};
use super::settings::{Key, Value, find};
use crate::engine::store::state::STATE_FOLDER;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::fs;
use crate::engine::workspace::kept::Looks;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;

/// Folders above the root that are looked at.
const LEVELS_MAX: usize = 64;

/// What an outer workspace protects.
#[derive(Debug)]
pub struct Outer {
    /// Its policy file.
    pub file: String,
    /// Where in it `protect` stands.
    pub place: Position,
    /// The globs, which count from its root.
    pub globs: Vec<String>,
    /// The same, compiled when they are first asked for.
    pub compiled: OnceLock<Option<GlobSet>>,
    /// The root of this workspace as seen from there.
    inner: WorkspacePath,
}

impl Outer {
    /// A path of this workspace as seen from the outer root.
    #[must_use]
    pub fn seen_from_there(&self, path: &WorkspacePath) -> WorkspacePath {
        path.components().fold(self.inner.clone(), |path, name| path.join(name))
    }

    /// Returns a path of the outer root as seen from this workspace: the root for a folder that encloses it,
    /// `None` if it lies elsewhere.
    #[must_use]
    pub fn seen_from_here(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        if self.inner.is_within(path) {
            return Some(WorkspacePath::root());
        }
        path.is_within(&self.inner).then(|| path.rebased(&self.inner, &WorkspacePath::root()))
    }

    /// Where it was written, for messages.
    #[must_use]
    pub fn source(&self) -> String {
        format!("{}:{}", self.file, self.place.line)
    }
}

/// What the workspaces around this one protect, the nearest first.
///
/// # Errors
/// `invalid_request` where one of their files is not as it should be: what it was meant to protect is
/// not known.
pub fn load(workspace: &Workspace) -> Result<Vec<Outer>, Error> {
    let mut outer = Vec::new();
    for root in workspace.root().ancestors().skip(1).take(LEVELS_MAX) {
        let Some(folder) = state_folder(workspace, root) else {
            continue;
        };
        let inner = workspace.root().strip_prefix(root).ok().and_then(WorkspacePath::new);
        let file = root.join(STATE_FOLDER).join(NAME);
        if let (Some(bytes), Some(inner)) = (read(&folder, &file)?, inner) {
            outer.push(taken(&bytes, &file, inner)?);
        }
    }
    Ok(outer)
}

/// Looks at every place that [`load`] reads.
pub fn look(workspace: &Workspace, looks: &mut Looks) {
    // Whose file counts depends on who owns the root.
    looks.in_folder(workspace.root_fd(), ".");
    for root in workspace.root().ancestors().skip(1).take(LEVELS_MAX) {
        let folder = root.join(STATE_FOLDER);
        if looks.at_folder(&folder) {
            looks.at_plain_file(&folder.join(NAME));
        }
    }
}

/// The state folder of a workspace at `root`, where there is one that this account can trust.
fn state_folder(workspace: &Workspace, root: &Path) -> Option<OwnedFd> {
    let folder = fs::open_at(CWD, root.join(STATE_FOLDER).as_os_str(), fs::FOLDER).ok()?;
    let owner = rustix::fs::fstat(&folder).ok()?.st_uid;
    let is_root_s_owner = || rustix::fs::fstat(workspace.root_fd()).is_ok_and(|stat| stat.st_uid == owner);
    let is_trusted = owner == 0 || owner == rustix::process::geteuid().as_raw() || is_root_s_owner();
    is_trusted.then_some(folder)
}

/// The bytes of the policy file in an opened state folder, where there is one.
fn read(folder: &OwnedFd, file: &Path) -> Result<Option<Vec<u8>>, Error> {
    let shown = file.display().to_string();
    match fs::open_at(folder.as_fd(), OsStr::new(NAME), fs::READ) {
        Ok(file) => read_opened(File::from(file), &shown).map(Some),
        Err(Errno::NOENT | Errno::ACCESS) => Ok(None),
        Err(Errno::LOOP) => Err(no_regular_file(&shown, "a symlink")),
        Err(errno) => Err(unreadable(&shown, errno)),
    }
}

/// What a policy file protects.
fn taken(bytes: &[u8], file: &Path, inner: WorkspacePath) -> Result<Outer, Error> {
    let file = file.display().to_string();
    let given = parse::parse(bytes).map_err(|fault| bad_file(&file, &fault))?;
    let protect = given.into_iter().find(|given| find(given.name).is_some_and(|it| it.key == Key::Protect));
    let (globs, place) = match protect.map(|given| (given.value, given.place)) {
        Some((Value::List(globs), place)) => (globs, place),
        _ => (Vec::new(), Position { line: 1, column: 1 }),
    };
    Ok(Outer { file, place, globs, compiled: OnceLock::new(), inner })
}
