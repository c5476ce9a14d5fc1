//! The developer's index after a commit on the checked-out branch.
//!
//! As with `git commit PATH`, entries of committed files are updated, and all others stay as they are, staged or not.
//! The new index is written under git's own lock, as git does it.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice};
use gix::index::entry::{Flags, Stat};
use gix::index::{File, State, write};

use crate::engine::snapshot::scan::scan_index::{mode_of, users_index};
use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::commit_builder;
use crate::engine::snapshot::store::dir::Dir;
use crate::engine::snapshot::store::error::{Context as _, SnapshotError};
use crate::engine::snapshot::store::refs::RefLock;
use crate::engine::snapshot::store::tree::TreeItem;
use crate::engine::snapshot::view::compare;
use crate::engine::snapshot::view::compare::PathChange;

/// Index, in the git folder of the work tree.
const INDEX: &str = "index";
/// Lock of the index, which replaces it by a rename.
const LOCK: &str = "index.lock";
/// Most files with staged changes that an error names.
const STAGED_NAMED: usize = 5;

/// A new index in its lock file; dropping it keeps the old one.
pub(super) struct NewIndex<'r> {
    /// Folder of the index.
    folder: &'r Dir,
    /// Second name of the lock, if the file system has links.
    _own: Option<RefLock>,
    /// True until it is put in place.
    waits: bool,
}

impl NewIndex<'_> {
    /// Puts it in place.
    pub(super) fn put(mut self) -> Result<(), SnapshotError> {
        self.folder.rename(LOCK, self.folder, INDEX).context(|| "git's index cannot be replaced".into())?;
        self.waits = false;
        Ok(())
    }
}

impl Drop for NewIndex<'_> {
    fn drop(&mut self) {
        if self.waits {
            let _ = self.folder.remove(LOCK);
        }
    }
}

impl Store {
    /// Returns the index for `commit`, which changes `base_tree`.
    ///
    /// # Errors
    /// Fails if another git process holds the lock, the index has conflicts, or a committed file has staged changes.
    pub(super) fn index_after(
        &self,
        base_tree: ObjectId,
        commit: ObjectId,
    ) -> Result<NewIndex<'_>, SnapshotError> {
        let folder = self.repo.own();
        let doing = || {
            format!(
                "git's index is locked by `{}`: another git is at work, or was killed",
                folder.path().join(LOCK).display()
            )
        };
        let own = RefLock::new(&self.repo, Some(commit)).context(|| "git's index cannot be locked".into())?;
        let (lock, own) = if own.place(&self.repo, folder, LOCK).context(doing)? {
            (own.file.try_clone().context(doing)?, Some(own))
        } else {
            (folder.create(LOCK, 0o666).context(doing)?, None)
        };
        // From here on, dropping this value removes the lock.
        let new = NewIndex { folder, _own: own, waits: true };
        let mut index = self.index()?;
        let tree = commit_builder::tree_of(&self.repo, commit)?;
        let changes = compare::trees(&self.repo, base_tree, tree, usize::MAX)?;
        follow(&mut index, &changes.paths)?;
        let doing = || "git's index cannot be written".into();
        let mut out = BufWriter::new(&lock);
        index.write_to(&mut out, write::Options::default()).context(doing)?;
        out.flush().context(doing)?;
        lock.sync_all().context(doing)?;
        Ok(new)
    }

    /// Returns the present index; an empty one if it does not exist.
    fn index(&self) -> Result<File, SnapshotError> {
        let folder = self.repo.own();
        if folder.stat(INDEX).context(|| "git's index cannot be read".into())?.is_none() {
            return Ok(File::from_state(State::new(self.repo.object_hash()), INDEX));
        }
        let index = users_index(&self.repo)
            .ok_or_else(|| SnapshotError::new("git's index cannot be read, or is a split one"))?;
        if index.is_sparse() {
            return Err(SnapshotError::new("git's index is a sparse one"));
        }
        if index.entries().iter().any(|entry| entry.stage_raw() != 0) {
            return Err(SnapshotError::new("git's index has conflicts"));
        }
        Ok(index)
    }
}

/// Updates the entries of the changed paths to those of the commit.
fn follow(index: &mut File, changes: &[PathChange]) -> Result<(), SnapshotError> {
    let (mut staged, mut follows) = (Vec::new(), BTreeMap::new());
    for change in changes {
        let (before, after) = (change.before, change.after);
        let now = entry_at(index, change.path.as_bstr());
        if now == before && now != after {
            follows.insert(change.path.as_bstr(), after);
        } else if now != after {
            staged.push(change.path.as_bstr());
        }
    }
    staged.extend(
        follows
            .iter()
            .filter(|(path, after)| after.is_some() && is_blocked(index, path, &follows))
            .map(|(path, _)| *path),
    );
    if !staged.is_empty() {
        return Err(has_staged(&staged));
    }
    smudge(index);
    index.remove_entries(|_, path, _| follows.contains_key(path));
    for (path, after) in &follows {
        if let Some(found) = after {
            // Without stat data, so that git examines the file itself.
            let (stat, mode) = (Stat::default(), mode_of(found.kind));
            index.dangerously_push_entry(stat, found.id, Flags::empty(), mode, path);
        }
    }
    index.sort_entries();
    index.remove_tree();
    Ok(())
}

/// Returns true if a file that stays conflicts with a new one at `path`: above it, or below.
fn is_blocked(index: &State, path: &BStr, follows: &BTreeMap<&BStr, Option<TreeItem>>) -> bool {
    let stays = |path: &BStr| !matches!(follows.get(path), Some(None));
    let folders = path.find_iter("/").filter_map(|at| path.get(..at)).map(ByteSlice::as_bstr);
    let is_below = folders.into_iter().any(|folder| index.entry_by_path(folder).is_some() && stays(folder));
    let inside = [path.as_bytes(), b"/"].concat();
    let inside = index.prefixed_entries(inside.as_bstr()).unwrap_or_default();
    is_below || inside.iter().any(|entry| stays(entry.path(index)))
}

/// Returns the entry at a path; one added with `--intent-to-add` counts as none.
fn entry_at(index: &State, path: &BStr) -> Option<TreeItem> {
    let entry = index.entry_by_path(path)?;
    let kind = entry.mode.to_tree_entry_mode()?.kind();
    (!entry.flags.contains(Flags::INTENT_TO_ADD)).then_some(TreeItem { kind, id: entry.id })
}

/// Clears the stat data of files modified as late as the old index: in a newer index they would seem to prove that
/// nothing has changed since.
fn smudge(index: &mut File) {
    let written = index.timestamp().unix_seconds();
    for entry in index.entries_mut() {
        if i64::from(entry.stat.mtime.secs.max(entry.stat.ctime.secs)) >= written {
            entry.stat = Stat::default();
        }
    }
}

/// Returns the error for files whose staged changes would be lost.
fn has_staged(paths: &[&BStr]) -> SnapshotError {
    let named: Vec<String> =
        paths.iter().take(STAGED_NAMED).map(|path| path.to_str_lossy().into_owned()).collect();
    let more = paths.len().saturating_sub(STAGED_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    SnapshotError::new(format!("git's index has staged changes in {}{more}", named.join(", ")))
}
