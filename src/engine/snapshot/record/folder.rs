//! Records folders that a change moved as a whole: one file at a time, with none kept in memory.

use std::borrow::Cow;
use std::collections::BTreeSet;

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice as _};
use gix::objs::tree::EntryKind;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::disk::{FolderListing, OpenRoot, ScannedFolder};
use super::prepare::ChangePreparer;
use super::{FileState, FolderChange, SkipReason, SkippedPath};
use crate::engine::snapshot::store::tree::{self, Lookup, TreeEdit, TreeItem};
use crate::engine::snapshot::store::tree::{RULE_FILES, is_name, is_too_deep, may_enter};
use crate::engine::snapshot::store::{ErrorContext as _, SnapshotError};
use crate::engine::workspace::listing::Listing;
use crate::limits::{FOLDER_BYTES_MAX, FOLDER_FILES_MAX, SEARCHED_FOLDERS_MAX};

/// Most files and folders that are listed as left out.
const LEFT_OUT_MAX: usize = 1000;

/// Adds the files of a moved folder to the snapshot of `preparer`.
///
/// # Errors
/// Fails if the folder cannot be read, or if an object cannot be stored.
pub fn take_in(
    preparer: &mut ChangePreparer<'_, '_>,
    change: &FolderChange<'_>,
) -> Result<(), SnapshotError> {
    let root =
        OpenRoot::of(change.folder, preparer.limits.file_bytes_max).context(|| change.cannot_read(b""))?;
    let mut taker = FolderRecorder {
        preparer,
        names: change,
        root,
        waiting: vec![BString::default()],
        folders_left: SEARCHED_FOLDERS_MAX,
        files_left: FOLDER_FILES_MAX,
        bytes_left: FOLDER_BYTES_MAX,
    };
    taker.ends()?;
    while let Some(folder) = taker.waiting.pop() {
        if let Some(reason) = taker.folder(&folder)? {
            taker.leave_out(&folder, reason);
        }
    }
    Ok(())
}

impl FolderChange<'_> {
    /// Returns the present or former path of `below` in the folder.
    fn path(&self, below: &[u8]) -> Vec<u8> {
        joined(self.after.or(self.before).unwrap_or_default(), below)
    }

    /// Returns both paths of `below`, if it has them.
    fn join_both(&self, below: &[u8]) -> [Option<Vec<u8>>; 2] {
        [self.before, self.after].map(|name| name.map(|name| joined(name, below)))
    }

    /// Returns the failed operation, for an error.
    fn cannot_read(&self, below: &[u8]) -> String {
        format!("`{}` cannot be read", self.path(below).to_str_lossy())
    }
}

/// Records one folder.
struct FolderRecorder<'t, 'r, 'a, 'c> {
    /// Turns files into edits.
    preparer: &'t mut ChangePreparer<'r, 'a>,
    /// Paths of the folder.
    names: &'c FolderChange<'c>,
    /// Folder, held open.
    root: OpenRoot,
    /// Folders in it that are not searched yet, each ending in a slash.
    waiting: Vec<BString>,
    /// Number of folders that may still be searched.
    folders_left: usize,
    /// Number of files that may still enter.
    files_left: usize,
    /// Number of bytes that may still enter.
    bytes_left: u64,
}

impl FolderRecorder<'_, '_, '_, '_> {
    /// Records both paths of the folder: the old one becomes empty, and anything that snapshots had at the new one is
    /// gone.
    fn ends(&mut self) -> Result<(), SnapshotError> {
        if let Some(before) = self.names.before {
            let path = Cow::Owned(before.to_vec());
            self.preparer.done.change.push(TreeEdit { path, to: None });
        }
        if let Some(after) = self.names.after {
            let found = self.preparer.look_up(after)?;
            self.preparer.note_external(after.to_vec(), found, None)?;
        }
        Ok(())
    }

    /// Records the files directly in one folder; returns the reason if they stay out.
    fn folder(&mut self, below: &BString) -> Result<Option<SkipReason>, SnapshotError> {
        if is_too_deep(&self.names.path(below)) {
            return Ok(Some(SkipReason::Depth));
        }
        if !self.is_of_note(below)? {
            return Ok(None);
        }
        let Some(left) = self.folders_left.checked_sub(1) else { return Ok(Some(SkipReason::NoRoom)) };
        self.folders_left = left;
        let names = self.names;
        let context = || names.cannot_read(below);
        let (folder, listing) = match self.root.list(below).context(context)? {
            FolderListing::Missing => {
                self.deleted(below, &Listing::default())?;
                return Ok(None);
            }
            FolderListing::Closed => return Ok(Some(SkipReason::Unreadable)),
            FolderListing::Folder { is_repository: true, .. } => {
                let at = self.names.path(below).to_str_lossy().trim_end_matches('/').to_owned();
                return Ok(Some(SkipReason::NestedRepository(at)));
            }
            FolderListing::Folder { folder, listing, .. } => (folder, listing),
        };
        if let Some(reason) = self.learn_rules(below, &folder, &listing)? {
            return Ok(Some(reason));
        }
        let first = self.waiting.len();
        self.deleted(below, &listing)?;
        for entry in listing.iter() {
            let path = BString::from([below, entry.name].concat());
            match entry.kind {
                FileType::RegularFile | FileType::Symlink => {
                    if let Some(reason) = self.file(&path)? {
                        self.leave_out(&path, reason);
                    }
                }
                FileType::Directory => self.waiting.push([&path[..], b"/"].concat().into()),
                _ => {}
            }
        }
        self.waiting.get_mut(first..).unwrap_or_default().reverse(); // the first is taken first
        Ok(None)
    }

    /// Records the deletions that others made in a folder before it was moved: snapshots have these files, and its
    /// `listing` does not.
    fn deleted(&mut self, below: &BString, listing: &Listing) -> Result<(), SnapshotError> {
        let Some(before) = self.names.before else { return Ok(()) };
        let folder = joined(before, below.trim_end_with(|c| c == '/'));
        let found = self.preparer.look_up(&folder)?.entry();
        let Some(tree) = found.filter(|found| found.kind == EntryKind::Tree) else { return Ok(()) };
        let there: BTreeSet<_> = listing.iter().map(|entry| (entry.name, entry.is_folder())).collect();
        for (name, entry) in tree::by_name(self.preparer.repo, tree.id)? {
            let found = TreeItem::of(&entry);
            let is_folder = matches!(found.kind, EntryKind::Tree | EntryKind::Commit);
            let path = joined(&folder, &name);
            // The change itself may have moved it elsewhere.
            if there.contains(&(name.as_slice(), is_folder)) || self.preparer.paths.contains(&*path) {
                continue;
            }
            if found.kind == EntryKind::Tree {
                self.waiting.push([below, &name[..], b"/"].concat().into());
            } else {
                self.preparer.note_external(path, Lookup::Entry(found), None)?;
            }
        }
        Ok(())
    }

    /// Returns true if a folder may have files to add or to remove: git does not ignore it under one of its paths, or
    /// tracks something in it.
    fn is_of_note(&mut self, below: &BString) -> Result<bool, SnapshotError> {
        let mut is_ignored = false;
        for name in self.names.join_both(below.trim_end_with(|c| c == '/')).into_iter().flatten() {
            if !may_enter(&name) {
                continue;
            }
            let is_taken = self.preparer.is_in_head(&name)?
                || !self.preparer.rules.ignores_folder(&name)?
                || self.preparer.is_in_index(&name);
            if is_taken {
                return Ok(true);
            }
            is_ignored = true;
        }
        if is_ignored {
            self.leave_out(below, SkipReason::Ignored);
        }
        Ok(false)
    }

    /// Adds the rule files of a folder, which count under both its paths; returns the reason if they cannot be read, so
    /// that nothing in the folder may enter.
    fn learn_rules(
        &mut self,
        below: &BString,
        folder: &ScannedFolder,
        listing: &Listing,
    ) -> Result<Option<SkipReason>, SnapshotError> {
        for name in RULE_FILES {
            // Git reads none that is a link.
            let is_link = |kind| matches!(kind, FileType::Symlink | FileType::Directory);
            if !listing.iter().any(|entry| entry.name == name && !is_link(entry.kind)) {
                continue;
            }
            let path = [below, name].concat();
            let Some(rules) = folder.rules(name) else {
                return Ok(Some(SkipReason::Rules(self.names.path(&path).to_str_lossy().into_owned())));
            };
            for path in self.names.join_both(&path).into_iter().flatten() {
                self.preparer.rules.learn(&path, &rules)?;
            }
        }
        Ok(None)
    }

    /// Records one file; returns the reason if it stays out.
    fn file(&mut self, below: &BString) -> Result<Option<SkipReason>, SnapshotError> {
        let [before, after] = self.names.join_both(below);
        let before = before.map(|path| self.side(path)).transpose()?.flatten();
        let after = after.map(|path| self.side(path)).transpose()?.flatten();
        if before.is_none() && after.is_none() {
            return Ok(None); // ignored, under both names
        }
        if after.is_none() && self.names.after.is_some() {
            self.leave_out(below, SkipReason::Ignored);
        }
        let Some(left) = self.files_left.checked_sub(1) else { return Ok(Some(SkipReason::NoRoom)) };
        self.files_left = left;
        let file = match self.root.read(below) {
            Ok(Some(looked)) => looked.file,
            Ok(None) => return Ok(None),
            Err(Errno::ACCESS | Errno::PERM) => return Ok(Some(SkipReason::Unreadable)),
            Err(error) => return Err(error).context(|| self.names.cannot_read(below)),
        };
        let state = file.state();
        if let FileState::TooLarge { size_bytes } = state {
            return Ok(Some(self.preparer.too_large(size_bytes)));
        }
        let Some(left) = self.bytes_left.checked_sub(state.size_bytes()) else {
            return Ok(Some(SkipReason::NoRoom));
        };
        self.bytes_left = left;
        let known = if let Some(side) = before {
            self.record_before_move(side, state)?
        } else {
            if self.names.before.is_some() {
                self.preparer.withheld.note([None, Some(state)]);
            }
            None
        };
        let reason = after.map_or(Ok(None), |side| self.is(side, state, known))?;
        self.preparer.flush()?;
        Ok(reason)
    }

    /// Looks a file up under one of its names; `None` if git ignores it there.
    fn side(&mut self, path: Vec<u8>) -> Result<Option<FileSide>, SnapshotError> {
        if !is_name(&path, false) {
            return Ok(None);
        }
        let found = self.preparer.look_up(&path)?;
        let is_ignored = self.preparer.skip_reason(&path)? == Some(SkipReason::Ignored);
        Ok((!is_ignored).then_some(FileSide { path, found }))
    }

    /// Records changes that someone else made to a file before it was moved; returns the id of the blob, which is kept
    /// or stored.
    fn record_before_move(
        &mut self,
        side: FileSide,
        state: FileState<'_>,
    ) -> Result<Option<ObjectId>, SnapshotError> {
        let FileSide { path, found } = side;
        if self.preparer.barrier(&path, found, [None, Some(state)])?.is_some() {
            return Ok(None);
        }
        let entry = self.preparer.entry(&path, state, found, false)?;
        self.preparer.note_external(path, found, Some(entry))?;
        Ok(Some(entry.id))
    }

    /// Records a file at its present path; returns the reason if it stays out.
    fn is(
        &mut self,
        side: FileSide,
        state: FileState<'_>,
        known: Option<ObjectId>,
    ) -> Result<Option<SkipReason>, SnapshotError> {
        let reason = self.preparer.barrier(&side.path, side.found, [None, Some(state)])?;
        if reason.is_some() {
            return Ok(reason);
        }
        let (kind, bytes) = self.preparer.stored_form(&side.path, state, side.found)?;
        let id = self.preparer.hash(&side.path, &bytes)?;
        if known != Some(id) && side.found.entry().is_none_or(|found| found.id != id) {
            self.preparer.keep(&side.path, id, &bytes)?;
        }
        let to = Some(TreeItem { kind, id });
        self.preparer.done.change.push(TreeEdit { path: Cow::Owned(side.path), to });
        Ok(None)
    }

    /// Notes a path that does not enter.
    fn leave_out(&mut self, below: &[u8], reason: SkipReason) {
        if self.preparer.done.recorded.left_out.len() < LEFT_OUT_MAX {
            self.preparer.done.recorded.left_out.push(SkippedPath::new(&self.names.path(below), reason));
        }
    }
}

/// A file under one of its paths.
struct FileSide {
    /// Path from the root.
    path: Vec<u8>,
    /// Entry in the newest snapshot.
    found: Lookup,
}

/// Returns the path of `below` in a folder.
fn joined(folder: &[u8], below: &[u8]) -> Vec<u8> {
    if below.is_empty() { folder.to_vec() } else { [folder, b"/", below].concat() }
}
