//! What differs between two trees.

use std::collections::BTreeMap;

use gix::ObjectId;
use gix::bstr::BString;
use gix::objs::tree::{Entry, EntryKind};

use crate::engine::snapshot::store::error::SnapshotError;
use crate::engine::snapshot::store::repo::Repo;
use crate::engine::snapshot::store::tree;
use crate::engine::snapshot::store::tree::TreeItem;

/// Most folders that are opened: a tree may name one folder a thousand times, on each of ten levels.
const FOLDERS_MAX: usize = 500_000;

/// What a file is in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionKind {
    /// A regular file.
    File,
    /// A regular file that may be executed.
    Executable,
    /// A symbolic link; its content is the target.
    Symlink,
    /// A commit of another repository; it has no content here.
    Submodule,
}

/// One version of a file in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// What it is.
    pub kind: VersionKind,
    /// The object that holds its content.
    pub(in crate::engine::snapshot) id: ObjectId,
}

impl Version {
    /// The id of the object that holds its content, in hex.
    #[must_use]
    pub fn id(&self) -> String {
        self.id.to_string()
    }

    /// It as a tree has it.
    pub(in crate::engine::snapshot) const fn item(self) -> TreeItem {
        let kind = match self.kind {
            VersionKind::File => EntryKind::Blob,
            VersionKind::Executable => EntryKind::BlobExecutable,
            VersionKind::Symlink => EntryKind::Link,
            VersionKind::Submodule => EntryKind::Commit,
        };
        TreeItem { kind, id: self.id }
    }

    /// Its mode, as git writes it.
    #[must_use]
    pub const fn mode(&self) -> &'static str {
        match self.kind {
            VersionKind::File => "100644",
            VersionKind::Executable => "100755",
            VersionKind::Symlink => "120000",
            VersionKind::Submodule => "160000",
        }
    }
}

/// A path that differs between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// The path from the root.
    pub path: Vec<u8>,
    /// The earlier version, where there was one.
    pub before: Option<Version>,
    /// The later version, where there is one.
    pub after: Option<Version>,
}

/// The paths that differ between two snapshots, ordered by component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The paths.
    pub paths: Vec<PathChange>,
    /// Whether there are more than were asked for.
    pub truncated: bool,
}

/// Compares two trees up to `paths_max` paths; equal folders are never opened.
pub fn trees(repo: &Repo, old: ObjectId, new: ObjectId, paths_max: usize) -> Result<Changes, SnapshotError> {
    let mut comparison = Comparison { repo, paths_max, folders_left: FOLDERS_MAX, found: Changes::default() };
    comparison.folder(&BString::default(), Some(old), Some(new), 0)?;
    Ok(comparison.found)
}

/// A comparison under way.
struct Comparison<'r> {
    /// The repository.
    repo: &'r Repo,
    /// How many paths are wanted at most.
    paths_max: usize,
    /// How many more folders may be opened.
    folders_left: usize,
    /// What was found so far.
    found: Changes,
}

impl Comparison<'_> {
    /// Compares one folder.
    fn folder(
        &mut self,
        at: &BString,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
        depth: usize,
    ) -> Result<(), SnapshotError> {
        if old == new {
            return Ok(());
        }
        if depth > tree::DEPTH_MAX {
            self.found.truncated = true;
            return Ok(());
        }
        let Some(left) = self.folders_left.checked_sub(1) else {
            self.found.truncated = true;
            return Ok(());
        };
        self.folders_left = left;
        let read = |id: Option<ObjectId>| id.map(|id| tree::by_name(self.repo, id)).transpose();
        let (old, new) = (read(old)?.unwrap_or_default(), read(new)?.unwrap_or_default());
        let mut both: BTreeMap<&BString, (Option<&Entry>, Option<&Entry>)> = BTreeMap::new();
        for (name, entry) in &old {
            both.entry(name).or_default().0 = Some(entry);
        }
        for (name, entry) in &new {
            both.entry(name).or_default().1 = Some(entry);
        }
        for (name, (before, after)) in both.into_iter().filter(|(_, (before, after))| before != after) {
            if self.found.truncated {
                break;
            }
            let mut path = at.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            self.note(&path, version(before), version(after));
            self.folder(&path, subtree(before), subtree(after), depth + 1)?;
        }
        Ok(())
    }

    /// Notes a path whose files differ.
    fn note(&mut self, path: &BString, before: Option<Version>, after: Option<Version>) {
        if before == after {
            return;
        }
        if self.found.paths.len() >= self.paths_max {
            self.found.truncated = true;
            return;
        }
        self.found.paths.push(PathChange { path: path.to_vec(), before, after });
    }
}

/// The tree behind an entry, where it is one.
fn subtree(entry: Option<&Entry>) -> Option<ObjectId> {
    entry.filter(|entry| entry.mode.is_tree()).map(|entry| entry.oid)
}

/// The file behind an entry, where it is one.
fn version(entry: Option<&Entry>) -> Option<Version> {
    let entry = entry?;
    let kind = match entry.mode.kind() {
        EntryKind::Tree => return None,
        EntryKind::Blob => VersionKind::File,
        EntryKind::BlobExecutable => VersionKind::Executable,
        EntryKind::Link => VersionKind::Symlink,
        EntryKind::Commit => VersionKind::Submodule,
    };
    Some(Version { kind, id: entry.oid })
}
