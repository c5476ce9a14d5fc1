//! Turns files on disk into tree entries: decides which may enter, and in which form.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::index::File;
use gix::objs::Kind;
use gix::objs::tree::EntryKind;

use super::disk::DiskFile;
use super::rules::RepoRules;
use super::secrets::{WithheldBytes, content, is_secret};
use super::{FileChange, FileState, RecordResult, SkipReason};
use crate::engine::snapshot::scan::scan_index::{is_sparse, users_index};
use crate::engine::snapshot::store::commit_builder::{CommitBuilder, tree_of};
use crate::engine::snapshot::store::objects::{self, LARGE_BYTES, PackedBlob, PrecomputedBlob};
use crate::engine::snapshot::store::repo::Repo;
use crate::engine::snapshot::store::tree::{Lookup, TreeEdit, TreeItem, Trees, is_name, is_too_deep};
use crate::engine::snapshot::store::{ErrorContext as _, SnapshotError};
use crate::engine::snapshot::store::{Limits, Store};
use crate::limits::PREPARED_BYTES_MAX;
use crate::sha256::Sha256;

/// A change as edits of trees.
#[derive(Default)]
pub struct TreeEdits<'a> {
    /// Edits from the newest tree to the state just before the change.
    pub external: Vec<TreeEdit<'a>>,
    /// Edits from there to the present state.
    pub change: Vec<TreeEdit<'a>>,
    /// Paths that do not enter, warnings, and digests of bytes that stay out.
    pub recorded: RecordResult,
    /// Large blobs, which are not kept uncompressed.
    pub packed: Vec<PackedBlob>,
}

/// Returns true if the file system's executable bits count.
pub fn modes_count(repo: &Repo) -> bool {
    repo.settings().boolean("core.fileMode").unwrap_or(true)
}

/// Result of scanning a file.
pub enum ScanResult {
    /// Entry, or no file.
    Is(Option<TreeItem>),
    /// Unchanged from the known entry.
    IsKnown,
    /// Left out.
    LeftOut(SkipReason),
}

/// Works through the files of one change.
pub struct ChangePreparer<'r, 'a> {
    /// The repository.
    pub repo: &'r Repo,
    /// Tree below the change.
    tip: Trees,
    /// HEAD's commit, with its trees once they are read.
    head: Option<(ObjectId, Option<Trees>)>,
    /// Git's rules for paths.
    pub rules: RepoRules<'r>,
    /// True if the file system's executable bits count.
    modes: bool,
    /// Every path of the change.
    pub(super) paths: BTreeSet<&'a [u8]>,
    /// Blobs that are computed already.
    pub(super) blobs: &'a [PrecomputedBlob],
    /// Limits of the snapshot.
    pub limits: &'r Limits,
    /// Bytes of excluded files, which stay out under every name.
    pub(super) withheld: WithheldBytes,
    /// Result so far.
    pub done: TreeEdits<'a>,
    /// Bytes of new blobs in memory.
    kept_bytes: usize,
    /// User's own index, once it was tried; `None` inside if it cannot be read.
    index: OnceCell<Option<Box<File>>>,
}

impl<'r> ChangePreparer<'r, '_> {
    /// Starts on top of `chain`.
    pub fn new(store: &'r Store, chain: &CommitBuilder<'_>) -> Self {
        Self {
            repo: &store.repo,
            tip: Trees::of(chain.tree),
            head: chain.head_then.map(|commit| (commit, None)),
            rules: RepoRules::new(&store.repo, chain.tree),
            modes: modes_count(&store.repo),
            paths: BTreeSet::new(),
            blobs: &[],
            limits: &store.limits,
            withheld: WithheldBytes::of(&store.limits.withheld),
            done: TreeEdits::default(),
            kept_bytes: 0,
            index: OnceCell::new(),
        }
    }
}

impl<'a> ChangePreparer<'_, 'a> {
    /// Records one file; returns the reason if it does not enter.
    pub fn file(&mut self, file: &FileChange<'a>) -> Result<Option<SkipReason>, SnapshotError> {
        if file.before.is_none() && file.after.is_none() {
            return Ok(None);
        }
        if is_too_deep(file.path) {
            return Ok(Some(SkipReason::Depth));
        }
        let found = self.look_up(file.path)?;
        if let Some(reason) = self.barrier(file.path, found, [file.before, file.after])? {
            if !reason.is_of_path() || found.entry().is_none() {
                return Ok(Some(reason));
            }
            // It entered before it was ignored. Only a deletion is the caller's own.
            let edit = TreeEdit { path: Cow::Borrowed(file.path), to: None };
            if file.after.is_none() {
                self.done.change.push(edit);
                return Ok(None);
            }
            self.done.external.push(edit);
            return Ok(Some(reason));
        }
        // A deletion converts nothing, so that it needs no filter, but the state before it is unknown.
        let is_filtered = file.after.is_none() && self.rules.cannot_convert(file.path)?.is_some();
        let fits = |state: FileState<'_>| state.size_bytes() <= self.limits.file_bytes_max;
        if !is_filtered && file.before.is_none_or(fits) {
            let before = file.before.map(|state| self.entry(file.path, state, found, false)).transpose()?;
            self.note_external(file.path, found, before)?;
        }
        let to = match file.after {
            Some(state) => Some(self.entry(file.path, state, found, true)?),
            None => self.unchecked_out(file.path)?,
        };
        self.done.change.push(TreeEdit { path: Cow::Borrowed(file.path), to });
        Ok(None)
    }

    /// Returns the tree entry of a file that a scan found, unless it is `known`; subtracts its size from `bytes_left`.
    pub fn scanned(
        &mut self,
        path: &[u8],
        on_disk: Option<&DiskFile>,
        known: Option<TreeItem>,
        bytes_left: &mut u64,
    ) -> Result<ScanResult, SnapshotError> {
        let Some(on_disk) = on_disk else { return Ok(ScanResult::Is(None)) };
        let state = on_disk.state();
        if let FileState::TooLarge { size_bytes } = state {
            return Ok(ScanResult::LeftOut(self.too_large(size_bytes)));
        }
        // Skip the lookup of a known entry: it is slow for many files in a wide folder.
        let found = match known {
            Some(known) => Lookup::Entry(known),
            None => self.look_up(path)?,
        };
        if let Some(reason) = self.barrier(path, found, [None, Some(state)])? {
            let is_known = !matches!(reason, SkipReason::Name | SkipReason::Copy)
                && known.is_some_and(|known| self.is_as_it_is(state, known));
            return Ok(if is_known { ScanResult::IsKnown } else { ScanResult::LeftOut(reason) });
        }
        let (kind, bytes) = self.stored_form(path, state, found)?;
        let id = self.hash(path, &bytes)?;
        if known == Some(TreeItem { kind, id }) {
            return Ok(ScanResult::IsKnown);
        }
        let Some(left) = bytes_left.checked_sub(state.size_bytes()) else {
            return Ok(ScanResult::LeftOut(SkipReason::NoRoom));
        };
        *bytes_left = left;
        // After a change that the scan's index has not seen, the branch already has a large blob.
        if bytes.len() < LARGE_BYTES || self.look_up(path)?.entry().is_none_or(|found| found.id != id) {
            self.keep(path, id, &bytes)?;
        }
        Ok(ScanResult::Is(Some(TreeItem { kind, id })))
    }

    /// Returns true if a file equals the known entry without any conversion.
    fn is_as_it_is(&self, state: FileState<'_>, known: TreeItem) -> bool {
        let (kind, bytes) = match state {
            FileState::Symlink { target } => (EntryKind::Link, target),
            FileState::Regular { executable, bytes } => (self.kind(executable, Some(known)), bytes),
            FileState::TooLarge { .. } => return false,
        };
        kind == known.kind && self.hash(b"", bytes).is_ok_and(|id| id == known.id)
    }

    /// Returns true if a scan leaves out a file, whatever its content.
    pub fn is_outside_scan(&mut self, path: &[u8], size_bytes: u64) -> Result<bool, SnapshotError> {
        let is_barred = size_bytes > self.limits.file_bytes_max || self.rules.obstacle(path)?.is_some();
        Ok(is_barred || self.rules.cannot_convert(path)?.is_some())
    }

    /// Returns the result.
    pub fn finish(self) -> TreeEdits<'a> {
        let recorded = RecordResult { withheld: self.withheld.found, ..self.done.recorded };
        TreeEdits { recorded, ..self.done }
    }

    /// Returns the reason why a file may not enter, with these states before and after; `found` is what the newest
    /// snapshot has at its path. Notes the bytes of a file that stays out.
    pub fn barrier(
        &mut self,
        path: &[u8],
        found: Lookup,
        [before, after]: [Option<FileState<'_>>; 2],
    ) -> Result<Option<SkipReason>, SnapshotError> {
        if !is_name(path, after.is_some_and(|state| state.is_link())) {
            return Ok(Some(SkipReason::Name));
        }
        let refusal = self.refusal(path, after, found)?;
        if refusal.as_ref().is_some_and(SkipReason::is_of_path) {
            self.withheld.note([before, after]);
        }
        Ok(match refusal {
            None if self.is_withheld(path, [before, after], found)? => Some(SkipReason::Copy),
            refusal => refusal,
        })
    }

    /// Returns the reason why a file may not enter, by its path, size and rules.
    fn refusal(
        &mut self,
        path: &[u8],
        after: Option<FileState<'_>>,
        found: Lookup,
    ) -> Result<Option<SkipReason>, SnapshotError> {
        if let Lookup::Blocked(end, TreeItem { kind: EntryKind::Commit, .. }) = found {
            let at = path.get(..end).unwrap_or(path).to_str_lossy().into_owned();
            return Ok(Some(SkipReason::NestedRepository(at)));
        }
        if let Some((_, reason)) = self.rules.obstacle(path)? {
            return Ok(Some(reason));
        }
        if let Some(reason) = self.skip_reason(path)? {
            return Ok(Some(reason));
        }
        match after {
            Some(state) if state.size_bytes() > self.limits.file_bytes_max => {
                Ok(Some(self.too_large(state.size_bytes())))
            }
            Some(FileState::Regular { .. }) => self.rules.cannot_convert(path),
            Some(FileState::Symlink { .. } | FileState::TooLarge { .. }) | None => Ok(None),
        }
    }

    /// Returns the reason for a file that is too large.
    pub fn too_large(&self, size_bytes: u64) -> SkipReason {
        SkipReason::TooLarge { size_bytes, bytes_max: self.limits.file_bytes_max }
    }

    /// Returns the reason why a path stays out: it is ignored or excluded now, and neither HEAD nor the index has it.
    /// An entry in a snapshot does not count.
    pub fn skip_reason(&mut self, path: &[u8]) -> Result<Option<SkipReason>, SnapshotError> {
        // Most paths are neither: then HEAD's trees are not read.
        let ignored = self.rules.ignores(path);
        let reason = if matches!(ignored, Ok(true)) {
            SkipReason::Ignored
        } else if is_secret(path) {
            SkipReason::Secret
        } else if self.limits.excluded.names(path) {
            SkipReason::Excluded
        } else if ignored.is_ok() {
            return Ok(None);
        } else {
            SkipReason::Ignored
        };
        if self.is_in_head(path)? {
            return Ok(None);
        }
        ignored?;
        Ok(Some(reason).filter(|_| !self.is_in_index(path)))
    }

    /// Returns true if HEAD has the path.
    pub(super) fn is_in_head(&mut self, path: &[u8]) -> Result<bool, SnapshotError> {
        Ok(self.head_entry(path)?.is_some())
    }

    /// Finds the entry that HEAD has at a path.
    fn head_entry(&mut self, path: &[u8]) -> Result<Option<TreeItem>, SnapshotError> {
        let Some((commit, trees)) = &mut self.head else { return Ok(None) };
        let trees = match trees {
            Some(trees) => trees,
            None => trees.insert(Trees::of(tree_of(self.repo, *commit)?)),
        };
        Ok(trees.look_up(self.repo, path)?.entry())
    }

    /// Returns the user's own index, if it can be read.
    fn users_index(&self) -> Option<&File> {
        self.index.get_or_init(|| users_index(self.repo).map(Box::new)).as_deref()
    }

    /// Returns true if the user's index has the path, or one below it.
    pub(super) fn is_in_index(&self, path: &[u8]) -> bool {
        let Some(index) = self.users_index() else { return false };
        let below = [path, b"/"].concat();
        index.entry_by_path(path.as_bstr()).is_some()
            || index.prefixed_entries_range(below.as_bstr()).is_some_and(|range| !range.is_empty())
    }

    /// Looks a path up in the newest tree.
    pub fn look_up(&mut self, path: &[u8]) -> Result<Lookup, SnapshotError> {
        self.tip.look_up(self.repo, path)
    }

    /// Returns the tree entry for a file. Writes its blob if `wanted`, or if it differs from the one found.
    pub fn entry(
        &mut self,
        path: &[u8],
        state: FileState<'_>,
        found: Lookup,
        wanted: bool,
    ) -> Result<TreeItem, SnapshotError> {
        let (kind, bytes) = self.stored_form(path, state, found)?;
        let id = self.hash(path, &bytes)?;
        if wanted || found.entry().is_none_or(|found| found.id != id) {
            self.keep(path, id, &bytes)?;
        }
        Ok(TreeItem { kind, id })
    }

    /// Returns the bytes and kind that git would store for a file.
    pub fn stored_form<'b>(
        &mut self,
        path: &[u8],
        state: FileState<'b>,
        found: Lookup,
    ) -> Result<(EntryKind, Cow<'b, [u8]>), SnapshotError> {
        let stored = found.entry().filter(|found| found.is_file());
        Ok(match state {
            FileState::Symlink { target } => (EntryKind::Link, Cow::Borrowed(target)),
            FileState::Regular { executable, bytes } => match self.kind(executable, found.entry()) {
                EntryKind::Link => (EntryKind::Link, Cow::Borrowed(bytes)),
                kind => (kind, self.rules.stored_form(path, bytes, stored.map(|found| found.id))?),
            },
            FileState::TooLarge { .. } => {
                return Err(SnapshotError::new(format!("`{}` is too large", path.to_str_lossy())));
            }
        })
    }

    /// Returns the id of a blob of `bytes`.
    pub fn hash(&self, path: &[u8], bytes: &[u8]) -> Result<ObjectId, SnapshotError> {
        if let Some(id) = objects::id(self.blobs, self.repo.object_hash(), bytes) {
            return Ok(id);
        }
        gix::objs::compute_hash(self.repo.object_hash(), Kind::Blob, bytes)
            .context(|| format!("cannot hash `{}`", path.to_str_lossy()))
    }

    /// Keeps the blob `id` until all are stored.
    pub fn keep(&mut self, path: &[u8], id: ObjectId, bytes: &[u8]) -> Result<(), SnapshotError> {
        self.kept_bytes += bytes.len();
        if bytes.len() < LARGE_BYTES {
            self.repo.write_named(Kind::Blob, id, bytes);
            return Ok(());
        }
        let level = self.repo.settings().loose_compression();
        if let Some(packed) = objects::packed(self.blobs, level, bytes) {
            self.done.packed.push(packed);
            return Ok(());
        }
        let packed = PackedBlob::blob(id, bytes, level);
        self.done.packed.push(packed.context(|| format!("cannot compress `{}`", path.to_str_lossy()))?);
        Ok(())
    }

    /// Stores the blobs in memory if there are many: no commit names them yet, and if none ever does, `git gc` removes
    /// them.
    pub fn flush(&mut self) -> Result<(), SnapshotError> {
        if self.kept_bytes < PREPARED_BYTES_MAX {
            return Ok(());
        }
        self.kept_bytes = 0;
        objects::store_all(self.repo, &std::mem::take(&mut self.done.packed)).map(drop)
    }

    /// Returns the kind of a regular file; keeps the stored one if the file system's bits do not count, or if git checks
    /// out links as files.
    fn kind(&self, executable: bool, stored: Option<TreeItem>) -> EntryKind {
        let is_link = stored.is_some_and(|stored| stored.kind == EntryKind::Link);
        if is_link && self.repo.settings().boolean("core.symlinks") == Some(false) {
            return EntryKind::Link;
        }
        match (self.modes, executable, stored.filter(|stored| stored.is_file())) {
            (true, true, _) => EntryKind::BlobExecutable,
            (true, false, _) | (false, _, None) => EntryKind::Blob,
            (false, _, Some(stored)) => stored.kind,
        }
    }

    /// Notes changes by others to `path`, and to folders above it, since the last snapshot.
    pub fn note_external(
        &mut self,
        path: impl Into<Cow<'a, [u8]>>,
        found: Lookup,
        before: Option<TreeItem>,
    ) -> Result<(), SnapshotError> {
        let path = path.into();
        if let Lookup::Blocked(end, _) = found {
            let way = path.get(..end).unwrap_or(&path);
            if !self.paths.contains(way) {
                self.done.external.push(TreeEdit { path: Cow::Owned(way.to_vec()), to: None });
            }
        }
        let before = match before {
            None if found.entry().is_some() => self.unchecked_out(&path)?,
            before => before,
        };
        if found.entry() == before {
            return Ok(());
        }
        let is_tree = found.entry().is_some_and(|found| found.kind == EntryKind::Tree);
        if is_tree && before.is_none() && self.has_files_below(&path) {
            return Ok(()); // the change itself empties the folder
        }
        self.done.external.push(TreeEdit { path, to: before });
        Ok(())
    }

    /// Returns the entry of a file that is missing on disk: HEAD's if a sparse checkout leaves it out, as in git,
    /// otherwise `None`.
    fn unchecked_out(&mut self, path: &[u8]) -> Result<Option<TreeItem>, SnapshotError> {
        let leaves_unchecked_out = self.repo.settings().boolean("core.sparseCheckout").unwrap_or(false);
        let index = if leaves_unchecked_out { self.users_index() } else { None };
        if index.is_some_and(|index| is_sparse(index, path.as_bstr())) {
            return self.head_entry(path);
        }
        Ok(None)
    }

    /// Returns true if the change touches files below `path`.
    fn has_files_below(&self, path: &[u8]) -> bool {
        self.paths.iter().any(|other| other.strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/")))
    }
}

/// Returns the id of the blob found, if there is one.
pub fn blob_id(found: Lookup) -> Option<ObjectId> {
    found.entry().filter(|found| found.is_file() || found.kind == EntryKind::Link).map(|found| found.id)
}

impl ChangePreparer<'_, '_> {
    /// Returns true if a new file has the bytes of a file that stays out. `found` is the entry of the newest snapshot
    /// at its path. Bytes that the repository already has are no secret.
    fn is_withheld(
        &mut self,
        path: &[u8],
        [before, after]: [Option<FileState<'_>>; 2],
        found: Lookup,
    ) -> Result<bool, SnapshotError> {
        if found.entry().is_some() || self.is_in_head(path)? {
            return Ok(false);
        }
        let mut is_withheld = false;
        for bytes in [before, after].into_iter().flatten().filter_map(content) {
            is_withheld |= self.has_withheld(path, bytes)?;
        }
        if is_withheld {
            self.withheld.note([before, after]);
        }
        Ok(is_withheld)
    }

    /// Returns true if these bytes, found at `path`, stay out under every name.
    fn has_withheld(&mut self, path: &[u8], bytes: &[u8]) -> Result<bool, SnapshotError> {
        let others = self.withheld.files_of_size(self.repo.root(), path, bytes.len() as u64);
        if others.is_empty() && self.withheld.is_empty() {
            return Ok(false);
        }
        let digest = Sha256::of(bytes);
        let mut is_withheld = self.withheld.holds(&digest);
        for other in others.iter().filter(|other| other.sha256 == digest) {
            is_withheld |= self.skip_reason(&other.path)?.is_some();
        }
        let id = || gix::objs::compute_hash(self.repo.object_hash(), Kind::Blob, bytes);
        Ok(is_withheld && !self.repo.holds(id().context(|| "cannot hash a file".into())?)?)
    }
}
