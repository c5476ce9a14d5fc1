//! Finds damage that a power failure left in the newest snapshots, such as empty objects, and repairs the branch.
//!
//! Nothing is lost: bytes are saved before they are replaced or moved out of git's folder.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::objs::Kind;
use gix::objs::tree::EntryKind;
use gix::refs::FullName;

use super::compare::{self, PathChange};
use crate::engine::snapshot::scan::scan_index::users_index;
use crate::engine::snapshot::store::dir::Dir;
use crate::engine::snapshot::store::refs::{self, LogLine};
use crate::engine::snapshot::store::repo::{self, LooseLookup};
use crate::engine::snapshot::store::tree::{self, TreeItem};
use crate::engine::snapshot::store::{ErrorContext as _, SnapshotError};
use crate::engine::snapshot::store::{Store, commit_builder, objects};
use crate::engine::workspace::fs::is_regular;
use crate::limits::{BRANCH_VALUES_MAX, NAMED_REFS_MAX, REPAIR_COMMITS_MAX, REPAIR_PATHS_MAX};

/// Most bytes of content that are read; only the headers of larger files.
const CONTENT_BYTES_MAX: u64 = 64 << 20;
/// Most snapshots before the newest one that are checked.
pub(super) const OLDER_MAX: usize = 20;
/// Most references that are checked.
const REFERENCES_MAX: usize = 10_000;

/// Damage in the newest snapshot, or shortly before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Description of the unreadable thing.
    pub message: String,
    /// Newest snapshot that is fully readable, in hex, if a log names one.
    pub last_whole: Option<String>,
    /// File of the branch.
    pub reference: String,
    /// True if that file is unreadable.
    pub is_reference: bool,
    /// True if the newest snapshot is whole, and an earlier one is damaged.
    pub is_older: bool,
}

impl Store {
    /// Finds damage in the newest snapshots: in a commit, the trees, or the files that it changed. `named` lists
    /// snapshots in the audit log, in hex, newest first.
    ///
    /// # Errors
    /// Returns an error if the system was short of a resource, which says nothing about the snapshot.
    pub fn damage(&self, named: &[String]) -> Result<Option<Damage>, SnapshotError> {
        let tip = match SnapshotError::found(self.branch.tip(&self.repo))? {
            Ok(Some(tip)) => tip,
            Ok(None) => {
                let name = self.branch.short_name();
                let missing = || format!("the branch `{name}` is missing, though git's log of it is there");
                return Ok(self.logged().first().map(|_| self.damaged(missing(), None, named)));
            }
            Err(message) => return Ok(Some(self.damaged(message, None, named))),
        };
        let mut next = match SnapshotError::found(self.read_parts(tip))? {
            Ok(before) => before,
            Err(message) => return Ok(Some(self.damaged(message, Some(tip), named))),
        };
        let mut left = CONTENT_BYTES_MAX;
        for _ in 0..OLDER_MAX {
            let Some(id) = next else { break };
            next = match SnapshotError::found(self.read_changed_parts(id, &mut left))? {
                Ok(before) => before,
                Err(message) => {
                    let damage = self.damaged(message, Some(tip), &[]);
                    return Ok(Some(Damage { is_older: true, last_whole: None, ..damage }));
                }
            };
        }
        Ok(None)
    }

    /// Returns the values of the branch in git's log, newest first.
    fn logged(&self) -> Vec<ObjectId> {
        refs::log_values(&self.repo, &self.branch.full_name())
    }

    /// Returns the damage with the text `message`, for a branch at `tip`.
    fn damaged(&self, message: String, tip: Option<ObjectId>, named: &[String]) -> Damage {
        Damage {
            message,
            last_whole: self.last_whole(tip, named).map(|id| id.to_string()),
            reference: self.repo.common().path().join(self.branch.full_name()).display().to_string(),
            is_reference: tip.is_none(),
            is_older: false,
        }
    }

    /// Returns the newest fully readable value of the branch other than `tip`.
    fn last_whole(&self, tip: Option<ObjectId>, named: &[String]) -> Option<ObjectId> {
        let is_whole = |id: &ObjectId| Some(*id) != tip && self.read_parts(*id).is_ok();
        let logged = self.logged().into_iter().take(BRANCH_VALUES_MAX).find(is_whole);
        // The audit log is synced, git's log is not, so a descendant in git's log is newer.
        let named =
            named.iter().filter_map(|hex| ObjectId::from_hex(hex.as_bytes()).ok()).take(BRANCH_VALUES_MAX);
        let mut newer = named
            .filter(|id| logged.is_none_or(|logged| self.is_descendant(*id, logged)))
            .filter(|id| logged.is_some() || self.snapshot(*id).is_ok_and(|found| found.is_some()));
        newer.find(is_whole).or(logged)
    }

    /// Returns true if the commit `id` is `before`, or a descendant of it.
    fn is_descendant(&self, id: ObjectId, before: ObjectId) -> bool {
        let mut next = Some(id);
        for _ in 0..REPAIR_COMMITS_MAX {
            match next {
                Some(id) if id == before => return true,
                Some(id) => next = self.repo.find_commit(id).ok().and_then(|it| it.parent_ids().next()),
                None => return false,
            }
        }
        false
    }

    /// Reads the parts of a snapshot that differ from the one before it, and from the developer's commit below it;
    /// returns the one before it.
    fn read_parts(&self, id: ObjectId) -> Result<Option<ObjectId>, SnapshotError> {
        let mut left = CONTENT_BYTES_MAX;
        let before = self.read_changed_parts(id, &mut left)?;
        let tree = commit_builder::tree_of(&self.repo, id)?;
        if let Some(head) = self.head_tree_of(id) {
            let changes = compare::trees(&self.repo, head, tree, REPAIR_PATHS_MAX)?;
            self.read_each(&changes.paths, &mut left)?;
        }
        Ok(before)
    }

    /// Reads the parts of a snapshot that differ from the one before it, which it returns.
    fn read_changed_parts(&self, id: ObjectId, left: &mut u64) -> Result<Option<ObjectId>, SnapshotError> {
        let Some(found) = self.snapshot(id)? else { return Ok(None) };
        // The comparison does not open equal trees.
        if !found.tree.is_empty_tree() {
            self.repo.find_tree(found.tree).context(|| format!("the tree {} cannot be read", found.tree))?;
        }
        let changes = compare::trees(&self.repo, found.tree_before, found.tree, REPAIR_PATHS_MAX)?;
        self.read_each(&changes.paths, left)?;
        Ok(found.first_parent)
    }

    /// Reads the later version of each change.
    fn read_each(&self, changes: &[PathChange], left: &mut u64) -> Result<(), SnapshotError> {
        for change in changes {
            let Some(version) = change.after else { continue };
            self.read_version(version, left).context(|| format!("`{}`", change.path.to_str_lossy()))?;
        }
        Ok(())
    }

    /// Reads a version of a file; only its header if it is larger than `left`.
    pub(super) fn read_version(&self, version: TreeItem, left: &mut u64) -> Result<(), SnapshotError> {
        let size = self.size(version)?;
        if let Some(rest) = left.checked_sub(size) {
            self.content(version)?;
            *left = rest;
        }
        Ok(())
    }

    /// Returns the developer's commit below a snapshot, if the snapshot is readable and names one.
    pub(super) fn head_at(&self, id: ObjectId) -> Option<ObjectId> {
        let commit = self.repo.find_commit(id).ok()?;
        let head = commit_builder::parse_trailers(commit.message_raw().ok()?)?.head?;
        ObjectId::from_hex(head.as_bytes()).ok()
    }

    /// Returns the tree of the developer's commit below a snapshot, if it is readable: its contents are git's to keep.
    fn head_tree_of(&self, id: ObjectId) -> Option<ObjectId> {
        let head = self.head_at(id)?;
        commit_builder::tree_of(&self.repo, head).ok().filter(|tree| self.repo.find_tree(*tree).is_ok())
    }

    /// Finds damage elsewhere in the repository, which git has to repair: HEAD, references and the index.
    ///
    /// # Errors
    /// Returns an error if the system was short of a resource.
    pub fn damage_of_git(&self) -> Result<Vec<String>, SnapshotError> {
        let mut found = Vec::new();
        found.extend(SnapshotError::found(refs::head_target(&self.repo))?.err());
        match SnapshotError::found(self.repo.packed_refs())? {
            Err(message) => found.push(message),
            Ok(_) => self.check_references(&mut found),
        }
        let own = self.repo.head_folder();
        let is_there = own.stat("index").is_ok_and(|stat| stat.is_some_and(|stat| is_regular(&stat)));
        // A split index has a second file, and is not read.
        let is_split = || {
            let names = own.names().unwrap_or_default();
            names.iter().any(|name| name.to_string_lossy().starts_with("sharedindex."))
        };
        if is_there && users_index(&self.repo).is_none() && !is_split() {
            found.push("the index cannot be read".to_owned());
        }
        Ok(found)
    }

    /// Notes unreadable references, and missing branches that have a log.
    fn check_references(&self, found: &mut Vec<String>) {
        let tops = [("refs", "refs"), ("logs/refs/heads", "refs/heads"), ("logs/refs/lbx", "refs/lbx")];
        let mut names: Vec<(String, bool)> = Vec::new();
        for (top, prefix) in tops {
            let files = refs::files_below(self.repo.common(), top).0.into_iter().take(REFERENCES_MAX);
            names.extend(files.map(|file| (format!("{prefix}{}", file.path), top != "refs")));
        }
        names.sort();
        names.dedup_by(|later, earlier| later.0 == earlier.0);
        let own = self.branch.full_name();
        for (name, has_log_alone) in names.into_iter().filter(|(name, _)| *name != own) {
            let Ok(full) = FullName::try_from(name.as_str()) else { continue };
            let message = match refs::find(&self.repo, full.as_ref()) {
                Ok(None) if has_log_alone => {
                    Some(format!("the reference `{name}` is missing, though its log is there"))
                }
                Ok(_) => None,
                Err(error) => Some(error.to_string()),
            };
            found.extend(message.filter(|_| found.len() < NAMED_REFS_MAX));
        }
    }
}

/// Longest search for unreadable objects: a repository may have many objects.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(20);
/// Largest unreadable object that is moved, in bytes.
const MOVED_BYTES_MAX: u64 = 64 << 20;
/// Most lost snapshots that are checked.
const LOST_MAX: usize = 50;
/// Most trees that are checked in each.
const LOST_TREES_MAX: usize = 10_000;
/// Prefix of a symbolic reference's file.
const SYMBOLIC: &[u8] = b"ref:";

/// Saves bytes that are about to be replaced; the text is a prefix of the saved file's name.
pub type SaveBytes<'k> = &'k dyn Fn(&str, &[u8]) -> Result<(), SnapshotError>;

/// Result of a repair.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RepairResult {
    /// Commit that the branch moved to, in hex, if it moved.
    pub moved_to: Option<String>,
    /// Number of objects rewritten from files of the workspace.
    pub rewritten: usize,
    /// Number of unreadable objects moved out of the repository.
    pub moved_out: usize,
    /// Remaining damage.
    pub left: Option<Damage>,
}

impl Store {
    /// Repairs the damage that [`Self::damage`] finds, if that is provably right: rewrites objects whose bytes the
    /// workspace still has; else moves the branch back to the newest whole snapshot.
    ///
    /// The caller holds lbx's lock.
    ///
    /// # Errors
    /// Fails if the branch is checked out or a symbolic reference. Returns the OS error, or that of `keep`.
    pub fn repair(&self, named: &[String], keep: SaveBytes<'_>) -> Result<RepairResult, SnapshotError> {
        let mut repaired = RepairResult::default();
        if self.damage(named)?.is_none() {
            return Ok(repaired);
        }
        // A damaged object with its own name would never be written again.
        repaired.moved_out = self.move_unreadable_objects(keep)?;
        repaired.rewritten = self.write_missing_files(named)?;
        let left = self.damage(named)?;
        if let Some(whole) =
            left.as_ref().filter(|left| !left.is_older).and_then(|left| left.last_whole.as_ref())
        {
            let whole_id = refs::commit_id(whole)?;
            let lost = self.branch.tip(&self.repo).ok().flatten();
            let lost: Vec<ObjectId> = lost.into_iter().chain(self.logged()).collect();
            self.reset_branch(whole_id, keep)?;
            repaired.moved_to = Some(whole.clone());
            repaired.moved_out += self.move_incomplete(&lost, whole_id, keep)?;
        }
        self.repo.forget_read();
        refs::remove_unreadable_lines(&self.repo, &self.branch.full_name(), |log| keep("log", log))?;
        repaired.left = if repaired.moved_to.is_some() { self.damage(named)? } else { left };
        Ok(repaired)
    }

    /// Moves the branch back to its newest whole snapshot if the one that it names is gone, as a `git prune` leaves it that
    /// began before that was made; returns that snapshot, in hex.
    ///
    /// The caller holds lbx's lock.
    ///
    /// # Errors
    /// As [`Self::repair`].
    pub fn go_back_if_gone(
        &self,
        named: &[String],
        keep: SaveBytes<'_>,
    ) -> Result<Option<String>, SnapshotError> {
        let tip = self.branch.tip(&self.repo)?;
        let Some(whole) = self.last_whole(tip, named) else { return Ok(None) };
        self.reset_branch(whole, keep)?;
        refs::remove_unreadable_lines(&self.repo, &self.branch.full_name(), |log| keep("log", log))?;
        Ok(Some(whole.to_string()))
    }

    /// Returns true if the repository lacks the newest snapshot, or its tree. A damaged one is not gone.
    ///
    /// # Errors
    /// Fails if the branch or the repository cannot be read.
    pub fn is_gone(&self) -> Result<bool, SnapshotError> {
        let Some(tip) = self.branch.tip(&self.repo)? else { return Ok(false) };
        let id = match self.repo.find_commit(tip) {
            Ok(commit) => commit.tree_id().context(|| format!("the commit {tip} cannot be read"))?,
            Err(_) => tip,
        };
        Ok(!id.is_empty_tree() && self.repo.find_object(id).is_err() && !self.repo.holds(id)?)
    }

    /// Moves objects with an empty or damaged file out of the repository; returns their number.
    fn move_unreadable_objects(&self, keep: SaveBytes<'_>) -> Result<usize, SnapshotError> {
        let (until, mut moved) = (Instant::now() + SEARCH_TIME_MAX, 0);
        for id in (0..=u8::MAX).flat_map(|first| self.repo.loose_objects(first)) {
            if Instant::now() > until {
                break;
            }
            if is_damaged(self.repo.objects_folder(), id) {
                moved += self.move_out(id, keep)?;
            }
        }
        Ok(moved)
    }

    /// Moves the file of an object out of the repository; returns 1, or 0 if it has none.
    fn move_out(&self, id: ObjectId, keep: SaveBytes<'_>) -> Result<usize, SnapshotError> {
        let doing = || format!("the object {id} cannot be moved");
        let hex = id.to_string();
        let Some(folder) = self.repo.loose_folder(id.first_byte()) else { return Ok(0) };
        let name = hex.get(2..).unwrap_or_default();
        let Ok(Some(bytes)) = folder.read_once(name, MOVED_BYTES_MAX) else { return Ok(0) };
        keep(&format!("object-{hex}"), &bytes)?;
        folder.remove(name).context(doing)?;
        folder.sync().context(doing)?;
        Ok(1)
    }

    /// Rewrites missing objects of the newest snapshots from files in the work tree with the same bytes; returns their
    /// number.
    fn write_missing_files(&self, named: &[String]) -> Result<usize, SnapshotError> {
        let mut written = 0;
        for (path, version) in self.missing_files(named) {
            let Some(bytes) = self.bytes_in_work_tree(&path, version) else { continue };
            if self.repo.write(Kind::Blob, &bytes)? == version.id {
                written += 1;
            }
        }
        objects::store_all(&self.repo, &[])?;
        Ok(written)
    }

    /// Returns the files of the newest snapshots whose objects are unreadable.
    fn missing_files(&self, named: &[String]) -> Vec<(Vec<u8>, TreeItem)> {
        let tip = self.branch.tip(&self.repo).ok().flatten();
        let named = named.iter().filter_map(|hex| ObjectId::from_hex(hex.as_bytes()).ok());
        // The parent of an unreadable commit is known only from a log.
        let mut begins = tip.into_iter().chain(self.logged()).chain(named).take(OLDER_MAX);
        let mut next = begins.find(|id| self.repo.find_commit(*id).is_ok());
        let (mut missing, mut left) = (Vec::new(), CONTENT_BYTES_MAX);
        let empty = ObjectId::empty_tree(self.repo.object_hash());
        for _ in 0..OLDER_MAX {
            let Some(commit) = next.and_then(|id| self.repo.find_commit(id).ok()) else { break };
            next = commit.parent_ids().next();
            let before = next.map_or(Some(empty), |id| commit_builder::tree_of(&self.repo, id).ok());
            let Some((before, after)) = before.zip(commit.tree_id().ok()) else { continue };
            let Ok(changes) = compare::trees(&self.repo, before, after, REPAIR_PATHS_MAX) else { continue };
            for change in changes.paths {
                let versions = [change.before, change.after].into_iter().flatten();
                let unread = versions.filter(|version| self.read_version(*version, &mut left).is_err());
                missing.extend(unread.map(|version| (change.path.clone(), version)));
            }
        }
        missing
    }

    /// Returns the bytes of a version of a file, if the work tree has them: unchanged, or with LF.
    fn bytes_in_work_tree(&self, path: &[u8], version: TreeItem) -> Option<Vec<u8>> {
        if !version.is_file() {
            return None;
        }
        let path = Path::new(OsStr::from_bytes(path));
        let bytes = self.repo.work_tree().read(path, self.limits.file_bytes_max).ok().flatten()?;
        let with_lf = bytes.replace("\r\n", "\n");
        [bytes, with_lf].into_iter().find(|bytes| repo::has_id(version.id, Kind::Blob, bytes))
    }

    /// Moves the branch to a snapshot before its damaged value; saves the file of that value.
    fn reset_branch(&self, to: ObjectId, keep: SaveBytes<'_>) -> Result<(), SnapshotError> {
        self.branch.check_free(&self.repo, refs::head_target(&self.repo)?.as_ref())?;
        if let Some(raw) = self.branch.raw(&self.repo)? {
            if raw.starts_with(SYMBOLIC) {
                return Err(SnapshotError::new(format!(
                    "the branch `{}` is a symbolic reference to another",
                    self.branch.short_name()
                )));
            }
            keep("branch", &raw)?;
        }
        let from = self.branch.tip(&self.repo).ok().flatten();
        let now = commit_builder::seconds(SystemTime::now());
        let subject = "lbx doctor: back to the newest whole snapshot".to_owned();
        self.branch.replace(&self.repo, from, to, &LogLine { subject, seconds: now })
    }

    /// Moves commits that the branch has lost, and their trees, out of the repository if an object that they name is
    /// missing: git reports that as damage even without a reference to it. Lost commits are those newer than `whole`.
    fn move_incomplete(
        &self,
        lost: &[ObjectId],
        whole: ObjectId,
        keep: SaveBytes<'_>,
    ) -> Result<usize, SnapshotError> {
        let mut incomplete = BTreeSet::new();
        let known = commit_builder::tree_of(&self.repo, whole)?;
        for &id in lost.iter().take(LOST_MAX) {
            if id == whole {
                break;
            }
            let Ok(commit) = self.repo.find_commit(id) else { continue };
            let tree = commit.tree_id().ok();
            let misses_parent =
                commit.parent_ids().any(|id| incomplete.contains(&id) || self.repo.find_commit(id).is_err());
            let mut left = LOST_TREES_MAX;
            let misses_file =
                tree.is_none_or(|tree| self.is_incomplete(tree, Some(known), &mut incomplete, &mut left));
            if misses_parent || misses_file {
                incomplete.insert(id);
            }
        }
        incomplete.into_iter().try_fold(0, |moved, id| Ok(moved + self.move_out(id, keep)?))
    }

    /// Returns true if an object below a tree is missing, except those in the tree `known`; notes the trees for which
    /// this is true.
    fn is_incomplete(
        &self,
        tree: ObjectId,
        known: Option<ObjectId>,
        incomplete: &mut BTreeSet<ObjectId>,
        left: &mut usize,
    ) -> bool {
        if Some(tree) == known || tree.is_empty_tree() || *left == 0 {
            return false;
        }
        *left -= 1;
        let Ok(entries) = tree::by_name(&self.repo, tree) else { return true };
        let known = known.and_then(|known| tree::by_name(&self.repo, known).ok()).unwrap_or_default();
        let mut is_incomplete = false;
        for (name, entry) in entries {
            let before = known.get(&name);
            is_incomplete |= match entry.mode.kind() {
                EntryKind::Commit => false,
                EntryKind::Tree => {
                    let before = before.map(|entry| entry.oid);
                    self.is_incomplete(entry.oid, before, incomplete, left)
                }
                _ => {
                    before.is_none_or(|before| before.oid != entry.oid)
                        && self.repo.header(entry.oid).is_err()
                }
            };
        }
        if is_incomplete {
            incomplete.insert(tree);
        }
        is_incomplete
    }
}

/// Returns true if the file of an object can be read and has the wrong content.
fn is_damaged(objects: &Dir, id: ObjectId) -> bool {
    match repo::read_loose(objects, &id) {
        Ok(LooseLookup::Here(kind, data)) => {
            gix::objs::compute_hash(id.kind(), kind, &data).is_ok_and(|found| found != id)
        }
        Ok(LooseLookup::Elsewhere) => false,
        Err(error) => error.kind() == io::ErrorKind::InvalidData,
    }
}
