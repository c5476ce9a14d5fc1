//! Commits a change: prepares files next to their final places, then publishes them. Also finds ignored paths.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::Arc;

use gix::ObjectId;
use gix::bstr::ByteSlice as _;

use super::folder;
use super::prepare::{ChangePreparer, TreeEdits};
use super::rules::RepoRules;
use super::secrets::is_secret;
use super::{CommitInfo, FileChange, FileState, RecordResult, SkippedPath};
use crate::engine::snapshot::store::branch::{BranchMove, RefUpdate};
use crate::engine::snapshot::store::commit_builder::{CommitBuilder, CommitMeta, EXTERNAL, seconds};
use crate::engine::snapshot::store::dir::Dir;
use crate::engine::snapshot::store::objects::{self, LooseObjects, PackedBlob};
use crate::engine::snapshot::store::refs::{self, LogLine};
use crate::engine::snapshot::store::tree::{self, EarlierFile, TreeEdit, Trees};
use crate::engine::snapshot::store::{ErrorContext as _, SnapshotError};
use crate::engine::snapshot::store::{Store, pack};
use crate::engine::workspace::sync::FileSystem;
use crate::text::escaped::plural;

impl Store {
    /// Commits a change, preceded by changes that others made to the same paths or by moving HEAD.
    ///
    /// The objects are on disk before the branch names them. A change that leaves the tree alone makes no commit.
    ///
    /// # Errors
    /// Fails if no snapshot can be made; nothing in the repository has moved then.
    pub fn record(&mut self, change: &CommitInfo<'_>) -> Result<RecordResult, SnapshotError> {
        self.repeatedly(|store| {
            let made = store.make(change)?;
            let moved = store.publish(made.tip, made.newest, made.seconds, &made.packed)?;
            Ok((moved == BranchMove::Yes).then_some(made.recorded))
        })
    }

    /// Commits a change that is about to be made, like [`Self::record`]. Writes its objects and the branch's new value
    /// to temporary files, so that they can be synced together with the change itself.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub fn prepare(self, change: &CommitInfo<'_>) -> Result<PreparedSnapshot, SnapshotError> {
        let made = self.make(change)?;
        let written = made.newest.map(|newest| self.write(newest, &made)).transpose()?;
        Ok(PreparedSnapshot { store: self, tip: made.tip, written, recorded: made.recorded })
    }

    /// Returns those files of a change that others have changed since the newest snapshot, each with its version there.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub fn changed_by_others(
        &self,
        change: &CommitInfo<'_>,
    ) -> Result<BTreeMap<Vec<u8>, Option<EarlierFile>>, SnapshotError> {
        let (_, chain) = self.start_move(self.meta_of_change(change))?;
        let external = prepared(self, &chain, change)?.external;
        let paths: BTreeSet<_> = external.into_iter().map(|edit| edit.path).collect();
        let mut files = Trees::of(chain.tree);
        let mut found = BTreeMap::new();
        for file in change.files.iter().filter(|file| paths.contains(file.path)) {
            let like = match file.before {
                Some(FileState::Regular { bytes, .. }) => bytes,
                _ => b"",
            };
            found.insert(file.path.to_vec(), self.version_like(&mut files, file.path, like)?);
        }
        Ok(found)
    }

    /// Returns what the commits of a change say of it.
    fn meta_of_change<'c>(&'c self, change: &CommitInfo<'c>) -> CommitMeta<'c> {
        CommitMeta {
            session: change.session,
            seq: change.seq,
            seconds: seconds(change.time),
            gate: change.gate,
            harness: self.limits.harness.as_deref(),
        }
    }

    /// Writes the objects of commits, and `newest` as the branch's new value, to temporary files.
    fn write(&self, newest: ObjectId, made: &NewCommits) -> Result<WrittenSnapshot, SnapshotError> {
        if made.tip.is_none() {
            self.branch.check_room(&self.repo)?;
        }
        let log = self.log_line(newest, made.seconds)?;
        let objects = objects::write_aside(&self.repo, &made.packed)?;
        let value = self.branch.write_value(&self.repo, newest)?;
        Ok(WrittenSnapshot { objects, value, log })
    }

    /// Makes the commits of a change, in memory.
    fn make(&self, change: &CommitInfo<'_>) -> Result<NewCommits, SnapshotError> {
        pack::wait_for_gc(&self.repo)?;
        let stamp = self.meta_of_change(change);
        let (tip, mut chain) = self.start_move(stamp)?;
        let prepared = prepared(self, &chain, change)?;
        self.commit_external(&mut chain, &prepared.external)?;
        let external = chain.newest;
        let tree = tree::apply(&self.repo, chain.tree, &prepared.change)?;
        let id = chain.commit(tree, &change.subject, change.why, change.tool)?;
        let mut warnings = self.warnings.clone();
        warnings.extend(self.lost_branch(tip));
        warnings.extend(prepared.recorded.warnings);
        let (id, external) = (id.map(|id| id.to_string()), external.map(|id| id.to_string()));
        let recorded =
            RecordResult { id, external, warnings, is_apart: self.is_apart(), ..prepared.recorded };
        let (newest, seconds) = (chain.newest, stamp.seconds);
        Ok(NewCommits { tip, newest, seconds, packed: prepared.packed, recorded })
    }

    /// Returns a warning if the branch is missing but git's log of it exists: deleting a branch with git deletes its
    /// log too.
    fn lost_branch(&self, tip: Option<ObjectId>) -> Option<String> {
        let was_at = tip
            .is_none()
            .then(|| refs::log_values(&self.repo, &self.branch.full_name()))?
            .into_iter()
            .next()?;
        let name = self.branch.short_name();
        Some(format!(
            "the snapshot branch `{name}` was deleted and has been recreated; its reflog shows it at {was_at}: `git branch NAME {was_at}` keeps the earlier snapshots"
        ))
    }

    /// Commits changes by others to the paths of a change.
    fn commit_external(
        &self,
        chain: &mut CommitBuilder<'_>,
        edits: &[TreeEdit<'_>],
    ) -> Result<(), SnapshotError> {
        let subject = match edits {
            [] => return Ok(()),
            [edit] => format!("external: {}", edit.path.to_str_lossy()),
            _ => format!("external: {}", plural(edits.len(), "file")),
        };
        let tree = tree::apply(&self.repo, chain.tree, edits)?;
        chain.commit(tree, &subject, None, EXTERNAL)?;
        Ok(())
    }
}

/// Turns a change into edits on top of `chain`. Blobs go into the repository's memory, large ones into the result.
fn prepared<'a>(
    store: &Store,
    chain: &CommitBuilder<'_>,
    change: &CommitInfo<'a>,
) -> Result<TreeEdits<'a>, SnapshotError> {
    let folders = change.folders.iter().filter_map(|folder| folder.before);
    let paths = change.files.iter().map(|file| file.path).chain(folders);
    let mut preparer = ChangePreparer::new(store, chain);
    preparer.paths = paths.collect();
    preparer.blobs = change.blobs;
    for folder in &change.folders {
        folder::take_in(&mut preparer, folder)?;
    }
    // Files that stay out come first, so that copies of them in the same change are recognized.
    let mut files: Vec<&FileChange<'_>> = change.files.iter().collect();
    files.sort_by_key(|file| (file.before.is_none(), !is_secret(file.path)));
    for file in files {
        preparer.flush()?; // before the next one: what a small change has goes out at its end, all at once
        if let Some(reason) = preparer.file(file)? {
            let path = file.path.to_str_lossy().into_owned();
            preparer.done.recorded.left_out.push(SkippedPath { path, reason });
        }
    }
    Ok(preparer.finish())
}

/// The commits of a change, in memory.
pub(super) struct NewCommits {
    /// Newest snapshot before them.
    pub(super) tip: Option<ObjectId>,
    /// Newest of them, if there are any.
    pub(super) newest: Option<ObjectId>,
    /// Time of the change, in seconds since 1970.
    pub(super) seconds: i64,
    /// Large blobs.
    pub(super) packed: Vec<PackedBlob>,
    /// Result of the change.
    pub(super) recorded: RecordResult,
}

/// A snapshot whose objects and branch value are in temporary files. These are removed on drop.
pub struct PreparedSnapshot {
    /// Store that it goes to.
    pub(super) store: Store,
    /// Newest snapshot before it.
    pub(super) tip: Option<ObjectId>,
    /// Written files; `None` if nothing of the change enters.
    pub(super) written: Option<WrittenSnapshot>,
    /// Result of the change.
    pub(super) recorded: RecordResult,
}

/// Written files of a snapshot.
pub(super) struct WrittenSnapshot {
    /// The objects.
    pub(super) objects: LooseObjects,
    /// The branch's new value.
    pub(super) value: RefUpdate,
    /// Line for the branch's log.
    pub(super) log: LogLine,
}

impl PreparedSnapshot {
    /// Returns its files, so that the disk can start early.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.written.iter().flat_map(|it| it.objects.files().chain([&it.value.file]))
    }

    /// Returns true if all written files are on `file_system`.
    pub fn is_on(&self, file_system: &FileSystem) -> bool {
        self.written.as_ref().is_none_or(|written| written.objects.is_on(file_system))
    }

    /// Makes the written files durable.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn sync(&self) -> Result<(), SnapshotError> {
        let Some(written) = &self.written else {
            return Ok(());
        };
        written.objects.sync().context(|| "the new objects cannot be synced".into())?;
        written.value.file.sync_all().context(|| "the branch's new value cannot be synced".into())
    }

    /// Renames the objects and moves the branch; `None` if someone else has moved it. The written files must be
    /// durable; the names of the objects become so before the branch moves, folder by folder unless `in_order` sees
    /// to it.
    ///
    /// # Errors
    /// Returns the OS error; the branch has not moved then.
    pub fn publish(
        mut self,
        in_order: impl FnOnce(&File) -> bool,
    ) -> Result<Option<PublishedSnapshot>, SnapshotError> {
        let mut branch = None;
        if let Some(written) = &mut self.written {
            written.objects.put().context(|| "the new objects cannot be named".into())?;
            if !in_order(&written.value.file) {
                written.objects.sync_names().context(|| "the new objects cannot be synced".into())?;
            }
            branch = self.store.branch.move_to(&self.store.repo, self.tip, &written.value, &written.log)?;
            if branch.is_none() {
                return Ok(None);
            }
            if self.store.takes_back(&written.objects, (self.tip, written.value.to()), &written.log)? {
                return Ok(None);
            }
        }
        Ok(Some(PublishedSnapshot { ready: self, branch }))
    }
}

/// A snapshot in place, whose names are not synced yet.
pub struct PublishedSnapshot {
    /// The prepared snapshot.
    ready: PreparedSnapshot,
    /// Folder of the branch, if the branch moved.
    branch: Option<Arc<Dir>>,
}

impl PublishedSnapshot {
    /// Result of the change.
    pub fn take_recorded(&mut self) -> RecordResult {
        std::mem::take(&mut self.ready.recorded)
    }

    /// Returns true if all names are on `file_system`.
    pub fn is_on(&self, file_system: &FileSystem) -> bool {
        self.ready.is_on(file_system) && self.branch.as_ref().is_none_or(|branch| file_system.holds(branch))
    }

    /// Returns true if it is in lbx's own repository.
    pub fn is_private(&self) -> bool {
        self.ready.store.is_private()
    }

    /// Packs objects if there are many, once the names are durable.
    pub fn tidy(&self) {
        if self.branch.is_some() {
            self.ready.store.tidy();
        }
    }

    /// Makes the branch's name durable, and on a file system that keeps the order of names those of the objects, which
    /// came before.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn sync(&self) -> Result<(), SnapshotError> {
        let Some(branch) = &self.branch else { return Ok(()) };
        branch.sync().context(|| format!("cannot sync `{}`", branch.path().display()))
    }
}

/// A path that may be ignored.
#[derive(Debug, Clone, Copy)]
pub struct IgnoreQuery<'a> {
    /// Path from the root.
    pub path: &'a [u8],
    /// True if it is a folder.
    pub is_folder: bool,
    /// True for a folder without files: only the rules decide, even if git tracked something there.
    pub is_empty: bool,
    /// Its new bytes if it is a rule file, such as `.gitignore`.
    pub rules: Option<&'a [u8]>,
}

/// Result for an ignored path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoreResult {
    /// Length of the outermost ignored folder that contains the path, in bytes; of the whole path if there is no such
    /// folder.
    pub folder_bytes: usize,
    /// Reason why rules cannot be read, if they cannot: then it may be ignored.
    pub barred: Option<String>,
}

impl Store {
    /// Finds the paths that git ignores: untracked, and matched by a rule. `None` for the others.
    ///
    /// Rules among the given paths count too, as they will once the paths are in place.
    ///
    /// # Errors
    /// Fails if the repository or its rules cannot be read.
    pub fn ignored(&self, queries: &[IgnoreQuery<'_>]) -> Result<Vec<Option<IgnoreResult>>, SnapshotError> {
        let (_, chain) = self.start(CommitMeta::default())?;
        let mut preparer = ChangePreparer::new(self, &chain);
        for query in queries {
            if let Some(bytes) = query.rules {
                preparer.rules.learn(query.path, bytes)?;
            }
        }
        let (mut folders, mut ignored) = (BTreeMap::new(), Vec::with_capacity(queries.len()));
        for query in queries {
            let is_tracked = !query.is_empty && preparer.is_in_head(query.path)?;
            let found = if is_tracked { None } else { ignored_at(&mut preparer.rules, query, &mut folders)? };
            ignored.push(found.filter(|_| query.is_empty || !preparer.is_in_index(query.path)));
        }
        Ok(ignored)
    }
}

/// Applies the rules to a path; `folders` caches the folders above it.
fn ignored_at<'a>(
    rules: &mut RepoRules<'_>,
    query: &IgnoreQuery<'a>,
    folders: &mut BTreeMap<&'a [u8], bool>,
) -> Result<Option<IgnoreResult>, SnapshotError> {
    for folder in tree::folders(query.path).skip(1) {
        let is_ignored = match folders.get(folder) {
            Some(known) => *known,
            None => rules.ignores_folder(folder)?,
        };
        folders.insert(folder, is_ignored);
        if is_ignored {
            return Ok(Some(IgnoreResult { folder_bytes: folder.len(), barred: rules.bar(folder)? }));
        }
    }
    let is_ignored =
        if query.is_folder { rules.ignores_folder(query.path)? } else { rules.ignores(query.path)? };
    let barred = rules.bar(query.path)?;
    Ok(is_ignored.then_some(IgnoreResult { folder_bytes: query.path.len(), barred }))
}
