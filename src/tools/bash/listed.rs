//! What a transaction changed, as answers list it.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::Stat;

use super::answer::{Action, Changed};
use super::difference::{Difference, LISTED_MAX};
use crate::engine::change::moves;
use crate::engine::sandbox::upper::{self, Difference as Differing};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs, hashed};
use crate::error::Error;
use crate::sha256::Sha256;

/// What a command changed, as answers list it.
///
/// # Errors
/// What the system says.
pub fn listed(workspace: &Workspace, layer: &OwnedFd, found: &[Differing]) -> Result<Difference, Error> {
    let mut list = Listing { workspace, layer, changed: Vec::new(), total: 0 };
    let holders: BTreeSet<WorkspacePath> = found.iter().filter_map(|it| it.path.parent()).collect();
    for differing in found {
        list.add(differing, &holders)?;
    }
    Ok(Difference { list: Some(list.changed), total: Some(list.total) })
}

/// A list of changed files under way.
struct Listing<'a> {
    /// The workspace.
    workspace: &'a Workspace,
    /// The layer.
    layer: &'a OwnedFd,
    /// As many as are listed.
    changed: Vec<Changed>,
    /// All.
    total: usize,
}

impl Listing<'_> {
    /// Adds a difference; `holders` are the folders in which something differs.
    fn add(&mut self, differing: &Differing, holders: &BTreeSet<WorkspacePath>) -> Result<(), Error> {
        let Differing { path, lower, upper, .. } = differing;
        let Some(upper) = upper else {
            return self.add_gone(path);
        };
        let is_other = lower.as_ref().is_some_and(|lower| fs::is_folder(lower) != fs::is_folder(upper));
        // A new folder is told by what is in it.
        if fs::is_folder(upper) && !is_other && lower.is_none() && holders.contains(path) {
            return Ok(());
        }
        if let Some(lower) = lower
            && self.is_untouched(path, lower, upper)
        {
            return Ok(());
        }
        let action = if lower.is_some() { Action::Modify } else { Action::Create };
        self.push(path, action, fs::is_regular(upper));
        if is_other && lower.as_ref().is_some_and(fs::is_folder) { self.add_below(path) } else { Ok(()) }
    }

    /// Whether a file has its bytes and its mode still, and a folder its mode.
    fn is_untouched(&self, path: &WorkspacePath, lower: &Stat, upper: &Stat) -> bool {
        if fs::recorded_mode(lower) != fs::recorded_mode(upper) || fs::type_of(lower) != fs::type_of(upper) {
            return false;
        }
        if fs::is_folder(upper) {
            return true;
        }
        if fs::is_symlink(upper) {
            let target =
                |root: BorrowedFd<'_>| fs::target_of(&fs::open_beneath(root, path, fs::LOOK).ok()?).ok();
            return target(self.workspace.root_fd()) == target(self.layer.as_fd());
        }
        let old = || {
            let file = self.workspace.open_regular(path, "").ok()?.0;
            hashed::sha256_of(file).ok()
        };
        fs::is_regular(upper)
            && lower.st_size == upper.st_size
            && self.sha256(path).is_some_and(|new| old() == Some(new))
    }

    /// SHA-256 of a file in the layer.
    fn sha256(&self, path: &WorkspacePath) -> Option<Sha256> {
        hashed::sha256_of(upper::open(self.layer, path).ok()?.into()).ok()
    }

    /// Adds what goes from a path: of a folder, the files in it.
    fn add_gone(&mut self, path: &WorkspacePath) -> Result<(), Error> {
        let before = self.total;
        self.add_below(path)?;
        if self.total == before {
            self.push(path, Action::Delete, false);
        }
        Ok(())
    }

    /// Adds the files of a folder that goes.
    fn add_below(&mut self, path: &WorkspacePath) -> Result<(), Error> {
        let mut gone = Vec::new();
        moves::walk(self.workspace, path, &mut |found| {
            if !fs::is_folder(found.stat) {
                gone.push(found.path.clone());
            }
            Ok(())
        })?;
        gone.sort();
        gone.iter().for_each(|path| self.push(path, Action::Delete, false));
        Ok(())
    }

    /// Adds one path.
    fn push(&mut self, path: &WorkspacePath, action: Action, has_bytes: bool) {
        self.total += 1;
        if self.changed.len() < LISTED_MAX {
            let sha256 = if has_bytes { self.sha256(path) } else { None };
            self.changed.push(Changed { path: self.workspace.shown(path), action, sha256 });
        }
    }
}
