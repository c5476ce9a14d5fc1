//! Forks that somebody has to know of before they are deleted: what they hold, and what dead calls left of them.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use super::fork::{ForkFolder, ForkRecord, Forks, PASSING, is_name, remove_copy};
use crate::engine::store::id;
use crate::engine::store::sandboxes::{self, FORKS, is_label};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::DOT_GIT;
use crate::engine::workspace::{Workspace, fs, git_files, removal};
use crate::error::Error;
use crate::limits::{GIT_HEAD_BYTES_MAX, GIT_REFERENCES_MAX};

/// File or folder that a dead call left.
#[derive(Debug)]
pub struct Leftover {
    /// Folder that holds it.
    parent: Arc<OwnedFd>,
    /// Its name there.
    name: OsString,
    /// Name of the fork, if it is known.
    pub fork: Option<String>,
}

impl Forks<'_> {
    /// Returns true if a workspace has forks, or had some.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn has_forks(state: &State) -> Result<bool, Error> {
        Ok(state.find_folder(FORKS)?.is_some())
    }

    /// Returns what dead calls left: half a fork, and folders of the user that no fork needs.
    pub fn leftovers(&self) -> Vec<Leftover> {
        let (mut found, mut needed, mut has_unknown) = (Vec::new(), Vec::new(), false);
        for name in fs::names_in(&self.folder).unwrap_or_default() {
            let Some(text) = name.to_str() else { continue };
            let is_passing = text.starts_with(PASSING);
            let record = self.open_record(text).ok();
            if is_passing || (record.is_none() && self.has_no_record(text)) {
                let known = Some(text.to_owned()).filter(|_| !is_passing);
                let fork = record.map(|record| record.name).or(known);
                found.push(Leftover { parent: Arc::clone(&self.folder), name, fork });
            } else {
                has_unknown |= record.is_none() && is_name(text);
                needed.extend(record.map(|record| record.lower));
            }
        }
        // A fork of a newer lbx needs folders too, but which is unknown.
        if has_unknown {
            return found;
        }
        let Some(folder) = id::user_folder().and_then(|it| id::open_path(&it.join(FORKS)).ok()) else {
            return found;
        };
        let folder = Arc::new(folder);
        for name in fs::names_in(&folder).unwrap_or_default() {
            let is_own = name.to_str().is_some_and(|name| name.starts_with(&self.mark) && is_label(name));
            if is_own && needed.iter().all(|needed| name != needed.as_str()) {
                found.push(Leftover { parent: Arc::clone(&folder), name, fork: None });
            }
        }
        found
    }

    /// Removes what dead calls left, and returns its number.
    pub fn sweep(&self) -> usize {
        let left = self.leftovers();
        for Leftover { parent, name, .. } in &left {
            if let Some(record) = name.to_str().and_then(|name| self.open_record(name).ok()) {
                forget_copy(&record);
            }
            // One that stays is found again.
            drop(removal::remove(parent.as_fd(), name));
        }
        left.len()
    }

    /// Returns the forks that cannot be opened, each with the error.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn unusable(&self, workspace: &Workspace) -> Result<Vec<(String, Error)>, Error> {
        let state = self.state;
        let fault = |name: String| {
            let error = ForkFolder::open(workspace, state, &name).err()?;
            Some((name, error))
        };
        Ok(self.names()?.into_iter().filter_map(fault).collect())
    }
}

impl ForkFolder {
    /// Returns true if nothing was changed in the fork, ignored files included, and nothing committed. `snapshots` is the
    /// reference of lbx's snapshots.
    pub fn is_unchanged(&self, workspace: &Workspace, snapshots: &str) -> bool {
        self.size(1).0 == 0 && self.commits(workspace, snapshots).is_empty() && self.inner_forks().is_empty()
    }

    /// Returns the names of the forks of the fork, if it is a copy: they need its state.
    pub fn inner_forks(&self) -> Vec<String> {
        let inner = || {
            let copy = Workspace::open(Path::new(self.record.at.as_ref()?)).ok()?;
            let state = State::find(&copy).ok()??;
            ForkFolder::list(&copy, &state).ok()
        };
        inner().unwrap_or_default().into_iter().map(|fork| fork.record.name).collect()
    }

    /// Returns git's references in the fork that name commits made there, except that of lbx's snapshots.
    pub fn commits(&self, workspace: &Workspace, snapshots: &str) -> Vec<String> {
        let copy = self.record.at.as_ref().map(|at| id::open_path(Path::new(at)));
        let top = match &copy {
            Some(Ok(copy)) => copy.as_fd(),
            Some(Err(_)) => return Vec::new(),
            None => self.upper.as_fd(),
        };
        let Ok(git) = fs::open_at(top, OsStr::new(DOT_GIT), fs::FOLDER) else { return Vec::new() };
        let theirs = fs::open_at(workspace.root_fd(), OsStr::new(DOT_GIT), fs::FOLDER).ok();
        let is_new = |name: &WorkspacePath| {
            let read = |git: &OwnedFd| {
                let bytes =
                    git_files::read_regular(git.as_fd(), name.as_path(), GIT_HEAD_BYTES_MAX).ok()??;
                let id = String::from_utf8(bytes.trim_ascii().to_vec()).ok()?;
                id.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(id)
            };
            let Some(id) = read(&git) else { return false };
            has_object(&git, &id) || (has_packs(&git) && theirs.as_ref().and_then(read) != Some(id))
        };
        references(&git)
            .into_iter()
            .filter(|name| name.as_bytes() != snapshots.as_bytes() && is_new(name))
            .map(|name| name.to_string())
            .collect()
    }
}

/// Removes the copy of a fork that was being created or dropped, and its name.
fn forget_copy(record: &ForkRecord) {
    let Some(at) = &record.at else { return };
    remove_copy(Path::new(at), &record.lower);
    let known = sandboxes::list().ok().and_then(|mut all| all.remove(&record.name));
    if known.is_some_and(|sandbox| sandbox.root == *at) {
        // A name that stays is shown by `sandbox list`.
        let _ = sandboxes::remove(&record.name);
    }
}

/// Returns `HEAD` and the references that have a file.
fn references(git: &OwnedFd) -> Vec<WorkspacePath> {
    let mut found = vec![WorkspacePath::root().join(OsStr::new("HEAD"))];
    let mut waiting = vec![WorkspacePath::root().join(OsStr::new("refs"))];
    while let Some(path) = waiting.pop() {
        let Ok(folder) = fs::open_beneath(git.as_fd(), &path, fs::FOLDER) else { continue };
        for name in fs::names_in(&folder).unwrap_or_default() {
            let Ok(stat) = fs::stat_at(folder.as_fd(), &name) else { continue };
            let list = if fs::is_folder(&stat) { &mut waiting } else { &mut found };
            if list.len() < GIT_REFERENCES_MAX {
                list.push(path.join(&name));
            }
        }
    }
    found
}

/// Returns true if a repository's own folder has an object as a file.
fn has_object(git: &OwnedFd, id: &str) -> bool {
    let Some((folder, name)) = id.split_at_checked(2) else { return false };
    let path = WorkspacePath::new(Path::new("objects").join(folder).join(name).as_path());
    path.is_some_and(|path| fs::stat_beneath(git.as_fd(), &path).is_ok())
}

/// Returns true if a repository's own folder has packs.
fn has_packs(git: &OwnedFd) -> bool {
    let path = WorkspacePath::new(Path::new("objects/pack"));
    let folder = path.and_then(|path| fs::open_beneath(git.as_fd(), &path, fs::FOLDER).ok());
    let names = folder.and_then(|folder| fs::names_in(&folder).ok()).unwrap_or_default();
    names.iter().any(|name| Path::new(name).extension().is_some_and(|end| end == "pack"))
}
