//! Tree after a patch: checks that it is valid, and finds folders that become empty.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use crate::engine::workspace::Workspace;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};

/// Largest number of symlinks to follow before they count as a loop, which leads nowhere.
const LINKS_MAX: usize = 40;
/// Longest target of a symlink, in bytes (`PATH_MAX` of Linux, less the NUL).
const TARGET_BYTES_MAX: usize = 4095;

/// Content of the canonical paths that a patch touches, after the patch.
#[derive(Debug, Default)]
pub struct ResultingTree {
    /// Files.
    pub files: BTreeSet<WorkspacePath>,
    /// Symlinks with their targets.
    pub links: BTreeMap<WorkspacePath, Vec<u8>>,
    /// Removed paths; something else may have been created there.
    pub gone: BTreeSet<WorkspacePath>,
}

impl ResultingTree {
    /// Checks that no path is both a file and a folder, and that no symlink leads out of the workspace.
    ///
    /// # Errors
    /// Returns `not_a_directory`, `outside_workspace`, or `patch_invalid` for an invalid target.
    pub fn check(&self, workspace: &Workspace) -> Result<(), Error> {
        for path in self.files.iter().chain(self.links.keys()) {
            let above = ancestors(path).find(|above| self.creates(above));
            if let Some(above) = above {
                let (path, above) = (workspace.display(path), workspace.display(&above));
                let message = format!("the patch makes {above} a file and {path} one below it");
                return Err(Error::new(ErrorKind::NotADirectory, message).at(path));
            }
        }
        self.links.iter().try_for_each(|(path, target)| self.check_link(workspace, path, target))
    }

    /// Returns true if the patch creates a file or symlink at `path`.
    fn creates(&self, path: &WorkspacePath) -> bool {
        self.files.contains(path) || self.links.contains_key(path)
    }

    /// Rejects a symlink that leads out of the workspace, in the tree after the patch.
    fn check_link(&self, workspace: &Workspace, path: &WorkspacePath, target: &[u8]) -> Result<(), Error> {
        let shown = workspace.display(path);
        if target.is_empty() || target.contains(&0) || target.len() > TARGET_BYTES_MAX {
            let message = format!(
                "the patch makes {shown} a symlink to nothing: a target has 1 to {TARGET_BYTES_MAX} bytes and no NUL"
            );
            return Err(Error::new(ErrorKind::PatchInvalid, message).at(shown));
        }
        if self.is_inside(workspace, path, target) {
            return Ok(());
        }
        let target = String::from_utf8_lossy(target).into_owned();
        let message =
            format!("the patch makes {shown} a symlink to {target}, which is outside the workspace");
        Err(Error::new(ErrorKind::OutsideWorkspace, message)
            .at(shown)
            .suggest("Leave the symlink out of the patch, or let it lead to a place inside the workspace."))
    }

    /// Follows `target` from the folder of `path`, through symlinks of the patch and existing ones; returns true if it
    /// never leaves the root.
    fn is_inside(&self, workspace: &Workspace, path: &WorkspacePath, target: &[u8]) -> bool {
        let mut here = path.parent().unwrap_or_default();
        let mut rest = VecDeque::new();
        if !follow(workspace, &mut here, &mut rest, target) {
            return false;
        }
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                let Some(parent) = here.parent() else { return false };
                here = parent;
                continue;
            }
            let next = here.join(&name);
            let Some(target) = self.target_at(workspace, &next) else {
                here = next;
                continue;
            };
            links += 1;
            if links > LINKS_MAX {
                // The kernel follows no further either.
                return true;
            }
            if !follow(workspace, &mut here, &mut rest, &target) {
                return false;
            }
        }
        true
    }

    /// Returns the target of the symlink at `path` after the patch.
    fn target_at(&self, workspace: &Workspace, path: &WorkspacePath) -> Option<Vec<u8>> {
        if let Some(target) = self.links.get(path) {
            return Some(target.clone());
        }
        if self.files.contains(path) || self.gone.contains(path) {
            return None;
        }
        fs::link_beneath(workspace.root_fd(), path).ok()
    }

    /// Returns the folders that are empty after the patch, innermost first; never the root.
    ///
    /// # Errors
    /// Returns the OS error if one of them cannot be listed.
    pub fn emptied_folders(&self, workspace: &Workspace) -> Result<Vec<WorkspacePath>, Error> {
        let is_gone = |path: &&WorkspacePath| !self.creates(path);
        let mut candidates: Vec<WorkspacePath> =
            self.gone.iter().filter(is_gone).flat_map(ancestors).collect();
        candidates.sort();
        candidates.dedup();
        // A folder sorts before its entries.
        candidates.reverse();
        let kept: BTreeSet<WorkspacePath> =
            self.files.iter().chain(self.links.keys()).flat_map(ancestors).collect();
        let mut vacated: BTreeSet<WorkspacePath> = BTreeSet::new();
        let mut ordered = Vec::new();
        for folder in candidates {
            if kept.contains(&folder) {
                continue;
            }
            let goes = |name: &OsString| {
                let path = folder.join(name);
                vacated.contains(&path) || (self.gone.contains(&path) && !self.creates(&path))
            };
            if names_in(workspace, &folder)?.iter().all(goes) {
                vacated.insert(folder.clone());
                ordered.push(folder);
            }
        }
        Ok(ordered)
    }
}

/// Returns the parent folders of `path`, innermost first, without the root.
fn ancestors(path: &WorkspacePath) -> impl Iterator<Item = WorkspacePath> {
    std::iter::successors(path.parent(), WorkspacePath::parent).filter(|folder| !folder.is_root())
}

/// Puts the components of `target` before `rest`, and begins at the root if it is absolute; returns `false` if it leads
/// elsewhere.
fn follow(
    workspace: &Workspace,
    here: &mut WorkspacePath,
    rest: &mut VecDeque<OsString>,
    target: &[u8],
) -> bool {
    let target = Path::new(OsStr::from_bytes(target));
    let inner = if target.is_absolute() {
        *here = WorkspacePath::root();
        match target.strip_prefix(workspace.root()) {
            Ok(inner) => inner,
            Err(_) => return false,
        }
    } else {
        target
    };
    for component in inner.components().rev() {
        match component {
            Component::Normal(name) => rest.push_front(name.to_owned()),
            Component::ParentDir => rest.push_front(OsString::from("..")),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    true
}

/// Returns true if `leaving` includes every file in `folder`, which is `written` in the patch; adds its folders and
/// itself to `folders`, innermost first.
///
/// # Errors
/// Returns the OS error.
pub fn emptied(
    workspace: &Workspace,
    folder: &WorkspacePath,
    written: &[u8],
    leaving: &BTreeSet<Vec<u8>>,
    folders: &mut Vec<WorkspacePath>,
) -> Result<bool, Error> {
    let mut waiting = vec![(folder.clone(), written.to_vec())];
    let mut found = Vec::new();
    while let Some((folder, written)) = waiting.pop() {
        for name in names_in(workspace, &folder)? {
            let path = [&written, &b"/"[..], name.as_bytes()].concat();
            let inner = folder.join(&name);
            if workspace.place_of(&inner)?.stat().is_some_and(fs::is_folder) {
                waiting.push((inner, path));
            } else if !leaving.contains(&path) {
                return Ok(false);
            }
        }
        found.push(folder);
    }
    folders.extend(found.into_iter().rev());
    Ok(true)
}

/// Returns the names in a folder; empty if it does not exist.
fn names_in(workspace: &Workspace, folder: &WorkspacePath) -> Result<Vec<OsString>, Error> {
    let Some(opened) = workspace.find_folder(folder)? else {
        return Ok(Vec::new());
    };
    fs::names_in(&opened).map_err(|errno| Error::io("list", workspace.display(folder), errno))
}
