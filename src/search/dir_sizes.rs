//! Sizes of folders, and entries by time of change or by size.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::limits::SORTED_ENTRIES_MAX;
use crate::search::entry::WalkEntry;
use crate::search::walk::Walk;

/// Number of largest folders that are listed.
const LARGEST_FOLDERS: usize = 10;

/// Number of entries in a folder.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FolderSum {
    /// The folder
    pub path: String,
    /// The entries in it, at every depth
    pub entries: u64,
    /// True if counting stopped there
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// Totals of the files below a folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FolderTotals {
    /// Number of files, at every depth.
    pub files: u64,
    /// Bytes in all of them.
    pub bytes: u64,
}

impl FolderTotals {
    /// Adds other totals.
    fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Totals of each folder, including all folders below it.
#[derive(Debug, Default)]
pub struct TreeTotals(BTreeMap<PathBuf, FolderTotals>);

impl TreeTotals {
    /// Sums up `files`, which come folder by folder.
    pub fn of(files: impl Iterator<Item = WalkEntry>) -> Self {
        let mut below = Self::default();
        let mut at_hand: Option<(WorkspacePath, FolderTotals)> = None;
        for file in files {
            let folder = &file.folder.path;
            let held = FolderTotals { files: 1, bytes: file.stat().as_ref().map_or(0, fs::size_of) };
            match &mut at_hand {
                Some((path, sum)) if path.as_bytes() == folder.as_bytes() => sum.add(held),
                _ => below.add(at_hand.replace((folder.clone(), held))),
            }
        }
        below.add(at_hand);
        below
    }

    /// Returns the totals of the folder at `path`.
    pub fn at(&self, path: &Path) -> FolderTotals {
        self.0.get(path).copied().unwrap_or_default()
    }

    /// Adds the files directly in one folder to it and to all folders above it.
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

/// Returns the folders with the most entries, largest first.
pub fn largest_of(mut folders: Vec<FolderSum>) -> Vec<FolderSum> {
    folders.sort_unstable_by(|one, other| {
        other.entries.cmp(&one.entries).then_with(|| one.path.cmp(&other.path))
    });
    folders.truncate(LARGEST_FOLDERS);
    folders
}

/// Counts entries by the folder directly below the listed one.
#[derive(Debug, Default)]
pub struct EntryCounts {
    /// Number of entries in each folder.
    entries: BTreeMap<WorkspacePath, u64>,
}

impl EntryCounts {
    /// Counts one entry.
    pub fn add(&mut self, found: &WalkEntry) {
        let folder = &found.folder.path;
        match self.entries.get_mut(folder) {
            Some(entries) => *entries += 1,
            None => drop(self.entries.insert(folder.clone(), 1)),
        }
    }

    /// Returns the folders with the most entries, without those above the point where the tree forks.
    pub fn largest(self, workspace: &Workspace) -> Vec<FolderSum> {
        let levels = self.entries.keys().map(|path| path.components().count()).min().unwrap_or(0) + 1;
        let mut sums: BTreeMap<WorkspacePath, u64> = BTreeMap::new();
        for (path, entries) in self.entries {
            let top: PathBuf = path.components().take(levels).collect();
            *sums.entry(WorkspacePath::new(&top).unwrap_or_default()).or_default() += entries;
        }
        let folders = sums.into_iter().map(|(path, entries)| FolderSum {
            path: workspace.display(&path),
            entries,
            at_least: false,
        });
        largest_of(folders.collect())
    }
}

/// Sort order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeOrder {
    /// Last changed first.
    Newest,
    /// Largest first.
    Largest,
}

/// Returns the first entries that `walk` finds, in this order, each with its `T`; ties are sorted by path.
///
/// # Errors
/// Returns `too_large` for more than [`SORTED_ENTRIES_MAX`] entries.
pub fn first_in_order<T>(
    walk: &mut Walk<'_>,
    order: SizeOrder,
    keep: impl Fn(&WalkEntry) -> T,
) -> Result<Vec<(WorkspacePath, T)>, Error> {
    let mut entries = Vec::new();
    for found in walk {
        if entries.len() >= SORTED_ENTRIES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("more than {SORTED_ENTRIES_MAX} entries to be sorted"),
            )
            .suggest("Narrow the path or the pattern. Sorted by path (`sort`) there may be any number."));
        }
        let rank = found.stat().map_or((0, 0), |stat| order.rank(&stat));
        entries.push((Reverse(rank), found.path(), keep(&found)));
    }
    entries.sort_unstable_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    Ok(entries.into_iter().map(|(_, path, kept)| (path, kept)).collect())
}

impl SizeOrder {
    /// Returns the sort key of an entry; the greatest comes first.
    fn rank(self, stat: &Stat) -> (i64, i64) {
        match self {
            Self::Newest => (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
            Self::Largest if fs::is_regular(stat) => {
                (i64::try_from(fs::size_of(stat)).unwrap_or(i64::MAX), 0)
            }
            Self::Largest => (0, 0),
        }
    }
}
