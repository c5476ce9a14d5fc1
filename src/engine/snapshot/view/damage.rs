//! What a power failure can leave of the newest snapshot: empty objects, or an empty reference.

use gix::ObjectId;
use gix::bstr::ByteSlice as _;

use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::error::{Doing as _, SnapshotError};
use crate::engine::snapshot::view::compare;

/// Paths of one snapshot whose content is looked at.
const PATHS_MAX: usize = 1000;
/// Bytes of content that are read; of what is larger, the header.
const CONTENT_BYTES_MAX: u64 = 64 << 20;
/// Values of the branch that are tried, the newest first.
const VALUES_MAX: usize = 50;
/// Longest log of the branch that is read, in bytes.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// What is damaged where the next snapshot begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// What cannot be read.
    pub message: String,
    /// The newest snapshot that can be read whole, in hex, as far as the log of the branch names one.
    pub last_whole: Option<String>,
    /// The file of the branch.
    pub reference: String,
    /// Whether that file is what cannot be read.
    pub is_reference: bool,
}

impl Store {
    /// What of the newest snapshot cannot be read: its commit, the one before it, the trees, or the files that it changed.
    ///
    /// # Errors
    /// What the system was short of, which says nothing of the snapshot.
    pub fn damage(&self) -> Result<Option<Damage>, SnapshotError> {
        let tip = match self.branch.tip(&self.repo) {
            Ok(None) => return Ok(None),
            Ok(Some(tip)) => Some(tip),
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => return Ok(Some(self.damaged(&error, None))),
        };
        match tip.map_or(Ok(()), |tip| self.look_through(tip)) {
            Ok(()) => Ok(None),
            Err(error) if error.is_passing() => Err(error),
            Err(error) => Ok(Some(self.damaged(&error, tip))),
        }
    }

    /// The damage that an error tells of, where the branch is at `tip`.
    fn damaged(&self, error: &SnapshotError, tip: Option<ObjectId>) -> Damage {
        let is_whole = |id: &ObjectId| Some(*id) != tip && self.look_through(*id).is_ok();
        Damage {
            message: error.to_string(),
            last_whole: self.earlier_values().into_iter().find(is_whole).map(|id| id.to_string()),
            reference: self.repo.common().path().join(self.branch.loose()).display().to_string(),
            is_reference: tip.is_none(),
        }
    }

    /// Reads what a snapshot consists of, as far as it differs from the one before it.
    fn look_through(&self, id: ObjectId) -> Result<(), SnapshotError> {
        let Some(found) = self.snapshot(id)? else { return Ok(()) };
        // Equal trees are not opened by the comparison.
        if !found.tree.is_empty_tree() {
            self.repo.find_tree(found.tree).doing(|| format!("the tree {} cannot be read", found.tree))?;
        }
        let changes = compare::trees(&self.repo, found.tree_before, found.tree, PATHS_MAX)?;
        let mut left = CONTENT_BYTES_MAX;
        for change in changes.paths {
            let Some(version) = change.after else { continue };
            let size = self.size(version)?;
            if let Some(rest) = left.checked_sub(size) {
                self.content(version).doing(|| format!("`{}`", change.path.to_str_lossy()))?;
                left = rest;
            }
        }
        Ok(())
    }

    /// The values that the branch had, the newest first, as its log names them.
    fn earlier_values(&self) -> Vec<ObjectId> {
        let log = self.repo.common().read(self.branch.log(), LOG_BYTES_MAX).ok().flatten();
        let log = log.unwrap_or_default();
        // `OLD NEW WHO TIME\tSUBJECT`, of which the value before the first is none.
        let values =
            log.lines().rev().filter_map(|line| ObjectId::from_hex(line.split_str(" ").nth(1)?).ok());
        values.take(VALUES_MAX).collect()
    }
}
