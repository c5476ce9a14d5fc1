//! What a power failure can leave of the newest snapshots: empty objects, or an empty reference.

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::refs::FullName;

use crate::engine::snapshot::scan::scan_index::users_index;
use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::chain;
use crate::engine::snapshot::store::error::{Doing as _, SnapshotError};
use crate::engine::snapshot::store::held::HeldFolder;
use crate::engine::snapshot::store::message;
use crate::engine::snapshot::store::{reflog, refs};
use crate::engine::snapshot::view::compare;
use crate::engine::snapshot::view::compare::{PathChange, Version};
use crate::engine::workspace::fs::{is_folder, is_regular};

/// Paths of one snapshot whose content is looked at.
const PATHS_MAX: usize = 1000;
/// Bytes of content that are read; of what is larger, the header.
const CONTENT_BYTES_MAX: u64 = 64 << 20;
/// Values of the branch that are tried, the newest first.
const VALUES_MAX: usize = 50;
/// Snapshots before the newest one that are looked through.
pub(super) const OLDER_MAX: usize = 20;
/// Commits between two values of the branch, at most.
const STEPS_MAX: usize = 1000;
/// References that are looked at.
const REFERENCES_MAX: usize = 10_000;
/// Damaged references that are named.
const NAMED_MAX: usize = 5;

/// What is damaged where the next snapshot begins, or shortly before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// What cannot be read.
    pub message: String,
    /// The newest snapshot that can be read whole, in hex, as far as a log names one.
    pub last_whole: Option<String>,
    /// The file of the branch.
    pub reference: String,
    /// Whether that file is what cannot be read.
    pub is_reference: bool,
    /// Whether the newest snapshot is whole, and one before it is damaged.
    pub is_older: bool,
}

impl Store {
    /// What of the newest snapshots cannot be read: a commit, the trees, or the files that it changed. `named` are
    /// snapshots that the audit log names, in hex, the newest first.
    ///
    /// # Errors
    /// What the system was short of, which says nothing of the snapshot.
    pub fn damage(&self, named: &[String]) -> Result<Option<Damage>, SnapshotError> {
        let tip = match self.branch.tip(&self.repo) {
            Ok(None) => {
                let was_there = reflog::values(&self.repo, &self.branch.loose()).into_iter().next();
                return Ok(was_there.map(|_| {
                    let missing = format!(
                        "the branch `{}` is missing, though git's log of it is there",
                        self.branch.short_name()
                    );
                    self.damaged(missing, None, named)
                }));
            }
            Ok(Some(tip)) => tip,
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => return Ok(Some(self.damaged(error.to_string(), None, named))),
        };
        let older = match self.look_through(tip) {
            Ok(before) => before,
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => return Ok(Some(self.damaged(error.to_string(), Some(tip), named))),
        };
        let is_older = |damage| Damage { is_older: true, last_whole: None, ..damage };
        let older = self.damage_before(older)?;
        Ok(older.map(|message| is_older(self.damaged(message, Some(tip), &[]))))
    }

    /// What of the snapshot `next` and those before it cannot be read.
    fn damage_before(&self, mut next: Option<ObjectId>) -> Result<Option<String>, SnapshotError> {
        let mut left = CONTENT_BYTES_MAX;
        for _ in 0..OLDER_MAX {
            let Some(id) = next else { break };
            next = match self.look_at_change(id, &mut left) {
                Ok(before) => before,
                Err(error) if error.is_passing() => return Err(error),
                Err(error) => return Ok(Some(error.to_string())),
            };
        }
        Ok(None)
    }

    /// The damage that `message` tells of, where the branch is at `tip`.
    fn damaged(&self, message: String, tip: Option<ObjectId>, named: &[String]) -> Damage {
        Damage {
            message,
            last_whole: self.last_whole(tip, named).map(|id| id.to_string()),
            reference: self.repo.common().path().join(self.branch.loose()).display().to_string(),
            is_reference: tip.is_none(),
            is_older: false,
        }
    }

    /// The newest value of the branch other than `tip` that can be read whole.
    fn last_whole(&self, tip: Option<ObjectId>, named: &[String]) -> Option<ObjectId> {
        let is_whole = |id: &ObjectId| Some(*id) != tip && self.look_through(*id).is_ok();
        let logged = reflog::values(&self.repo, &self.branch.loose());
        let logged = logged.into_iter().take(VALUES_MAX).find(is_whole);
        // git's log is not synced, the audit log is: what goes on from there is newer.
        let named = named.iter().filter_map(|hex| ObjectId::from_hex(hex.as_bytes()).ok()).take(VALUES_MAX);
        let mut newer = named
            .filter(|id| logged.is_none_or(|logged| self.goes_on_from(*id, logged)))
            .filter(|id| logged.is_some() || self.snapshot(*id).is_ok_and(|found| found.is_some()));
        newer.find(is_whole).or(logged)
    }

    /// Whether the commit `id` is `before`, or one that was made on top of it.
    fn goes_on_from(&self, id: ObjectId, before: ObjectId) -> bool {
        let mut next = Some(id);
        for _ in 0..STEPS_MAX {
            match next {
                Some(id) if id == before => return true,
                Some(id) => next = self.repo.find_commit(id).ok().and_then(|it| it.parent_ids().next()),
                None => return false,
            }
        }
        false
    }

    /// Reads what a snapshot consists of, as far as it differs from the one before it, and from the commit of the
    /// developer that it is based on; answers the one before it.
    fn look_through(&self, id: ObjectId) -> Result<Option<ObjectId>, SnapshotError> {
        let mut left = CONTENT_BYTES_MAX;
        let before = self.look_at_change(id, &mut left)?;
        let tree = chain::tree_of(&self.repo, id)?;
        if let Some(head) = self.head_tree_of(id) {
            let changes = compare::trees(&self.repo, head, tree, PATHS_MAX)?;
            self.read_each(&changes.paths, &mut left)?;
        }
        Ok(before)
    }

    /// Reads what a snapshot consists of, as far as it differs from the one before it, which is the answer.
    fn look_at_change(&self, id: ObjectId, left: &mut u64) -> Result<Option<ObjectId>, SnapshotError> {
        let Some(found) = self.snapshot(id)? else { return Ok(None) };
        // Equal trees are not opened by the comparison.
        if !found.tree.is_empty_tree() {
            self.repo.find_tree(found.tree).doing(|| format!("the tree {} cannot be read", found.tree))?;
        }
        let changes = compare::trees(&self.repo, found.tree_before, found.tree, PATHS_MAX)?;
        self.read_each(&changes.paths, left)?;
        Ok(found.first_parent)
    }

    /// Reads the new side of changes.
    fn read_each(&self, changes: &[PathChange], left: &mut u64) -> Result<(), SnapshotError> {
        for change in changes {
            let Some(version) = change.after else { continue };
            self.read_version(version, left).doing(|| format!("`{}`", change.path.to_str_lossy()))?;
        }
        Ok(())
    }

    /// Reads a version of a file; of what is larger than what is `left`, the header.
    pub(super) fn read_version(&self, version: Version, left: &mut u64) -> Result<(), SnapshotError> {
        let size = self.size(version)?;
        if let Some(rest) = left.checked_sub(size) {
            self.content(version)?;
            *left = rest;
        }
        Ok(())
    }

    /// The tree of the developer's commit that a snapshot is based on, where it can be read: what it holds is
    /// git's to keep.
    fn head_tree_of(&self, id: ObjectId) -> Option<ObjectId> {
        let commit = self.repo.find_commit(id).ok()?;
        let head = message::trailers(commit.message_raw().ok()?)?.head?;
        let head = ObjectId::from_hex(head.as_bytes()).ok()?;
        chain::tree_of(&self.repo, head).ok().filter(|tree| self.repo.find_tree(*tree).is_ok())
    }

    /// What else of the repository cannot be read, and is git's to repair: references and the index.
    ///
    /// # Errors
    /// What the system was short of.
    pub fn damage_of_git(&self) -> Result<Vec<String>, SnapshotError> {
        let mut found = Vec::new();
        match self.repo.packed_refs() {
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => found.push(error.to_string()),
            Ok(_) => self.look_at_references(&mut found),
        }
        let own = self.repo.own();
        let is_there = own.stat("index").is_ok_and(|stat| stat.is_some_and(|stat| is_regular(&stat)));
        // A split index has another file beside it, and is not read.
        let is_split = || {
            let names = own.names().unwrap_or_default();
            names.iter().any(|name| name.to_string_lossy().starts_with("sharedindex."))
        };
        if is_there && users_index(&self.repo).is_none() && !is_split() {
            found.push("the index cannot be read".to_owned());
        }
        Ok(found)
    }

    /// Notes the references that cannot be read, and branches that are missing though they have a log.
    fn look_at_references(&self, found: &mut Vec<String>) {
        let mut names = Vec::new();
        for (top, prefix) in
            [("refs", "refs"), ("logs/refs/heads", "refs/heads"), ("logs/refs/lbx", "refs/lbx")]
        {
            let Ok(Some(folder)) = self.repo.common().folder(top) else { continue };
            let mut waiting = vec![(folder, prefix.to_owned())];
            while let Some((folder, prefix)) = waiting.pop() {
                for name in folder.names().unwrap_or_default() {
                    let path = format!("{prefix}/{}", name.to_string_lossy());
                    match folder.stat(&name) {
                        Ok(Some(stat)) if is_folder(&stat) => {
                            waiting.extend(sub_folder(&folder, &name).map(|folder| (folder, path)));
                        }
                        Ok(Some(_)) if names.len() < REFERENCES_MAX => names.push((path, top != "refs")),
                        _ => {}
                    }
                }
            }
        }
        names.sort();
        names.dedup_by(|later, earlier| later.0 == earlier.0);
        let own = self.branch.loose();
        for (name, has_log_alone) in names.into_iter().filter(|(name, _)| *name != own) {
            let Ok(full) = FullName::try_from(name.as_str()) else { continue };
            let message = match refs::find(&self.repo, full.as_ref()) {
                Ok(None) if has_log_alone => {
                    Some(format!("the reference `{name}` is missing, though its log is there"))
                }
                Ok(_) => None,
                Err(error) => Some(error.to_string()),
            };
            found.extend(message.filter(|_| found.len() < NAMED_MAX));
        }
    }
}

/// A folder in another.
fn sub_folder(folder: &HeldFolder, name: &std::ffi::OsStr) -> Option<HeldFolder> {
    folder.folder(name).ok().flatten()
}
