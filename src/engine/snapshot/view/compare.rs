//! Differences of two trees: changed paths, and deltas for a diff, with renames.

use std::collections::BTreeSet;

use gix::ObjectId;
use gix::bstr::BString;
use gix::objs::tree::Entry;

use crate::engine::snapshot::store::SnapshotError;
use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::repo::Repo;
use crate::engine::snapshot::store::tree::{self, TreeItem};
use crate::limits::{COMPARED_FOLDERS_MAX, RENAME_PAIRS_MAX, TREE_DEPTH_MAX};
use crate::text::renames::{self, COMPARED_BYTES_MAX, List, Rename, RenameCandidate, SimilarFiles};

/// A path that differs between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// Path from the root.
    pub path: Vec<u8>,
    /// Path of the earlier version, if a session is known to have moved it: the deletion there is a change of its own.
    pub from: Option<Vec<u8>>,
    /// Earlier version, if there was one.
    pub before: Option<TreeItem>,
    /// Later version, if there is one.
    pub after: Option<TreeItem>,
}

/// Paths that differ between two snapshots, ordered by component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Paths.
    pub paths: Vec<PathChange>,
    /// True if the list was cut.
    pub truncated: bool,
}

/// Compares two trees, up to `paths_max` changed paths; equal folders are never opened.
pub fn trees(repo: &Repo, old: ObjectId, new: ObjectId, paths_max: usize) -> Result<Changes, SnapshotError> {
    let mut comparison =
        Comparison { repo, paths_max, folders_left: COMPARED_FOLDERS_MAX, found: Changes::default() };
    comparison.folder(&BString::default(), old, new, 0)?;
    Ok(comparison.found)
}

/// A running comparison.
struct Comparison<'r> {
    /// The repository.
    repo: &'r Repo,
    /// Most paths to find.
    paths_max: usize,
    /// Number of folders that may still be opened.
    folders_left: usize,
    /// Changes found so far.
    found: Changes,
}

impl Comparison<'_> {
    /// Compares one folder.
    fn folder(
        &mut self,
        at: &BString,
        old: ObjectId,
        new: ObjectId,
        depth: usize,
    ) -> Result<(), SnapshotError> {
        if old == new {
            return Ok(());
        }
        if depth > TREE_DEPTH_MAX || self.folders_left == 0 {
            self.found.truncated = true;
            return Ok(());
        }
        self.folders_left -= 1;
        for (name, before, after) in tree::differing(self.repo, old, new)? {
            if self.found.truncated {
                break;
            }
            let path = tree::joined(at, &name);
            let (before, after) = (before.as_ref(), after.as_ref());
            let (old, new) = (version(before), version(after));
            if old != new && self.found.paths.len() >= self.paths_max {
                self.found.truncated = true;
                break;
            }
            if old != new {
                let path = path.to_vec();
                self.found.paths.push(PathChange { path, from: None, before: old, after: new });
            }
            let below = |entry: Option<&Entry>| tree::below(self.repo, entry);
            self.folder(&path, below(before), below(after), depth + 1)?;
        }
        Ok(())
    }
}

/// Returns the file of an entry, if it is one.
fn version(entry: Option<&Entry>) -> Option<TreeItem> {
    entry.filter(|entry| !entry.mode.is_tree()).map(TreeItem::of)
}

/// Index of a delta, with the path and version of its file.
type IndexedDelta<'a> = (usize, &'a [u8], TreeItem);

/// A file on both sides of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// Earlier path and version, if there was one.
    pub before: Option<(Vec<u8>, TreeItem)>,
    /// Later path and version, if there is one.
    pub after: Option<(Vec<u8>, TreeItem)>,
    /// Similarity of the two in percent, if the file was renamed.
    pub similarity: Option<usize>,
}

impl Delta {
    /// Returns the later path, or the earlier one of a deleted file.
    pub fn path(&self) -> &[u8] {
        self.after.as_ref().or(self.before.as_ref()).map_or(&[], |(path, _)| path)
    }
}

impl Store {
    /// Returns the changes as deltas, in the same order.
    ///
    /// # Errors
    /// Fails if a version cannot be read.
    pub fn deltas(&self, changes: &[PathChange]) -> Result<Vec<Delta>, SnapshotError> {
        let gone = changes.iter().filter(|change| change.after.is_none()).map(|change| &change.path);
        let gone: BTreeSet<&Vec<u8>> = gone.collect();
        let (mut deltas, mut moved) = (Vec::new(), BTreeSet::new());
        for change in changes {
            match (&change.from, change.before, change.after) {
                (Some(from), Some(old), Some(new))
                    if gone.contains(from) && format_of(old) == format_of(new) =>
                {
                    let (before, after) = (Some((from.clone(), old)), Some((change.path.clone(), new)));
                    deltas.push(Delta { before, after, similarity: Some(self.similarity(old, new)?) });
                    moved.insert(from);
                }
                (Some(_), ..) => deltas.extend(delta(&PathChange { before: None, ..change.clone() })),
                _ => deltas.extend(delta(change)),
            }
        }
        deltas.retain(|delta| delta.after.is_some() || !moved.contains(&delta.path().to_vec()));
        for (gone, come, similarity) in self.renames(&deltas)? {
            let before = deltas.get_mut(gone).and_then(|delta| delta.before.take());
            if let Some(come) = deltas.get_mut(come) {
                come.before = before;
                come.similarity = Some(similarity);
            }
        }
        deltas.retain(|delta| delta.before.is_some() || delta.after.is_some());
        Ok(deltas)
    }

    /// Returns the similarity of two versions, in percent.
    fn similarity(&self, old: TreeItem, new: TreeItem) -> Result<usize, SnapshotError> {
        let is_compared = old.is_file() && self.size(old)?.max(self.size(new)?) <= COMPARED_BYTES_MAX as u64;
        match old.id == new.id {
            true => Ok(100),
            false if is_compared => Ok(renames::similarity(&self.content(old)?, &self.content(new)?)),
            false => Ok(0),
        }
    }

    /// Returns renamed files: index of the old delta, index of the new one, and similarity.
    fn renames(&self, deltas: &[Delta]) -> Result<Vec<(usize, usize, usize)>, SnapshotError> {
        let (mut gone, mut come): (Vec<IndexedDelta<'_>>, Vec<IndexedDelta<'_>>) = (Vec::new(), Vec::new());
        for (index, delta) in deltas.iter().enumerate() {
            match (&delta.before, &delta.after) {
                (Some((path, version)), None) if version.is_file() => gone.push((index, path, *version)),
                (None, Some((path, version))) if version.is_file() => come.push((index, path, *version)),
                _ => {}
            }
        }
        let read = |list: List, index: usize| {
            let file = if list == List::Gone { gone.get(index) } else { come.get(index) };
            let Some((_, _, version)) = file else { return Ok(None) };
            let is_small = self.size(*version)? <= COMPARED_BYTES_MAX as u64;
            is_small.then(|| self.content(*version)).transpose()
        };
        let compared = SimilarFiles { is_relevant: &|_| true, pairs_max: RENAME_PAIRS_MAX, read: &read };
        let found = renames::find(&candidates(&gone), &candidates(&come), &compared)?;
        let indexed =
            |rename: Rename| Some((gone.get(rename.from)?.0, come.get(rename.to)?.0, rename.similarity));
        Ok(found.into_iter().filter_map(indexed).collect())
    }
}

/// Returns files as candidates for renames.
fn candidates<'a>(files: &[IndexedDelta<'a>]) -> Vec<RenameCandidate<'a, ObjectId>> {
    let id = |version: &TreeItem| Some(version.id).filter(|id| *id != ObjectId::empty_blob(id.kind()));
    files.iter().map(|(_, path, version)| RenameCandidate { path, id: id(version) }).collect()
}

/// Returns the deltas of one path; a change of type is a deletion and a creation.
fn delta(change: &PathChange) -> Vec<Delta> {
    let side = |version: Option<TreeItem>| version.map(|version| (change.path.clone(), version));
    let (before, after) = (side(change.before), side(change.after));
    match (change.before, change.after) {
        (Some(old), Some(new)) if format_of(old) != format_of(new) => vec![
            Delta { before, after: None, similarity: None },
            Delta { before: None, after, similarity: None },
        ],
        _ => vec![Delta { before, after, similarity: None }],
    }
}

/// Returns the type of a file, ignoring the executable bit.
fn format_of(version: TreeItem) -> &'static str {
    version.mode().get(..3).unwrap_or_default()
}
