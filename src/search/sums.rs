//! How much folders hold.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::walk::WalkEntry;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;

/// Folders named as the largest.
const LARGEST_FOLDERS: usize = 10;

/// How much a folder holds.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FolderSum {
    /// The folder
    pub path: String,
    /// The entries in it, at every depth
    pub entries: u64,
    /// Whether counting stopped there
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// The files below a folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FolderTotals {
    /// How many there are, at every depth.
    pub files: u64,
    /// The bytes of all of them.
    pub bytes: u64,
}

impl FolderTotals {
    /// Adds what another holds.
    fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// What each folder holds, all those below it included.
#[derive(Debug, Default)]
pub struct Below(BTreeMap<PathBuf, FolderTotals>);

impl Below {
    /// Sums up `files`, which come folder by folder.
    #[must_use]
    pub fn of(files: impl Iterator<Item = WalkEntry>) -> Self {
        let mut below = Self::default();
        let mut at_hand: Option<(WorkspacePath, FolderTotals)> = None;
        for file in files {
            let folder = &file.folder().path;
            let held = FolderTotals { files: 1, bytes: file.stat().as_ref().map_or(0, fs::size_of) };
            match &mut at_hand {
                Some((path, sum)) if path.as_bytes() == folder.as_bytes() => sum.add(held),
                _ => below.add(at_hand.replace((folder.clone(), held))),
            }
        }
        below.add(at_hand);
        below
    }

    /// What the folder at `path` holds.
    #[must_use]
    pub fn at(&self, path: &Path) -> FolderTotals {
        self.0.get(path).copied().unwrap_or_default()
    }

    /// Adds the files directly in one folder to it and to all those above it.
    fn add(&mut self, folder: Option<(WorkspacePath, FolderTotals)>) {
        let Some((path, held)) = folder else { return };
        for above in Path::new(OsStr::from_bytes(path.as_bytes())).ancestors() {
            match self.0.get_mut(above) {
                Some(sum) => sum.add(held),
                None => {
                    self.0.insert(above.to_owned(), held);
                }
            }
        }
    }
}

/// The folders that hold most, in the order of what they hold.
#[must_use]
pub fn largest_of(mut folders: Vec<FolderSum>) -> Vec<FolderSum> {
    folders.sort_unstable_by(|one, other| {
        other.entries.cmp(&one.entries).then_with(|| one.path.cmp(&other.path))
    });
    folders.truncate(LARGEST_FOLDERS);
    folders
}

/// Counts entries by the folder directly below the one that was listed.
#[derive(Debug, Default)]
pub struct Sums {
    /// The folder at hand and its entries.
    at_hand: Option<(WorkspacePath, u64)>,
    /// The entries of each folder.
    entries: BTreeMap<WorkspacePath, u64>,
}

impl Sums {
    /// Counts one entry.
    pub fn add(&mut self, found: &WalkEntry) {
        let folder = &found.folder().path;
        match &mut self.at_hand {
            // By bytes: a comparison by components costs more than all the rest.
            Some((path, entries)) if path.as_bytes() == folder.as_bytes() => *entries += 1,
            _ => {
                self.put_down();
                self.at_hand = Some((folder.clone(), 1));
            }
        }
    }

    /// Adds the folder at hand to the rest.
    fn put_down(&mut self) {
        if let Some((path, entries)) = self.at_hand.take() {
            *self.entries.entry(path).or_default() += entries;
        }
    }

    /// The folders that hold most, those above the point where the tree forks left out.
    #[must_use]
    pub fn largest(mut self, workspace: &Workspace) -> Vec<FolderSum> {
        self.put_down();
        let levels = self.entries.keys().map(|path| path.components().count()).min().unwrap_or(0) + 1;
        let mut sums: BTreeMap<WorkspacePath, u64> = BTreeMap::new();
        for (path, entries) in self.entries {
            let top: PathBuf = path.components().take(levels).collect();
            *sums.entry(WorkspacePath::new(&top).unwrap_or_default()).or_default() += entries;
        }
        let folders = sums.into_iter().map(|(path, entries)| FolderSum {
            path: workspace.shown(&path),
            entries,
            at_least: false,
        });
        largest_of(folders.collect())
    }
}
