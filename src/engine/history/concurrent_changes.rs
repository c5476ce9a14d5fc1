//! Changes that other calls made while a command, or a client's own tool, changed the files themselves.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::engine::journal::numbers::Numbers;
use crate::engine::journal::steps::{Location, Step};
use crate::engine::journal::{self, FolderMode, JournalEntry, Version};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;

/// Tool of a command's changes.
const COMMAND_TOOL: &str = "bash";

/// Newest change of each session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepoHeads(BTreeMap<String, u64>);

impl RepoHeads {
    /// Reads the current heads.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn of(state: &State) -> Result<Self, Error> {
        let mut heads = BTreeMap::new();
        for session in journal::sessions(state)? {
            let newest = Numbers::of(state, &session)?.newest()?.unwrap_or(0);
            heads.insert(session, newest);
        }
        Ok(Self(heads))
    }

    /// Returns the changes made since, the oldest of each session first.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn since(&self, state: &State) -> Result<Vec<JournalEntry>, Error> {
        let mut entries = Vec::new();
        for session in journal::sessions(state)? {
            let known = self.0.get(&session).copied().unwrap_or(0);
            for seq in Numbers::of(state, &session)?.since(known.saturating_add(1))? {
                entries.extend(journal::done_entry(state, &session, seq)?);
            }
        }
        entries.sort_by_key(|entry| entry.time);
        Ok(entries)
    }
}

/// Changes that others made while a command ran.
#[derive(Default)]
pub struct ConcurrentChanges {
    /// Files, each with its version before the first change and after the last.
    pub files: BTreeMap<WorkspacePath, (Option<Version>, Option<Version>)>,
    /// Moved paths, before and after.
    moved: Vec<WorkspacePath>,
    /// Folders that others made or removed.
    pub folders: BTreeSet<WorkspacePath>,
    /// Other paths that they changed: nobody knows the versions.
    unknown: BTreeSet<WorkspacePath>,
    /// Files that are recorded as changes of other commands.
    pub by_commands: BTreeSet<WorkspacePath>,
}

impl ConcurrentChanges {
    /// Returns the net effect of changes.
    pub fn of(entries: Vec<JournalEntry>) -> Self {
        let mut theirs = Self::default();
        for entry in entries {
            let paths = entry.steps.iter().flat_map(Step::locations).filter_map(|at| match at {
                Location::File(path) => Some(path.clone()),
                Location::State(_) => None,
            });
            theirs.unknown.extend(paths.chain(entry.lost));
            theirs.moved.extend(entry.moves.into_iter().flat_map(|moved| [moved.from, moved.to]));
            theirs.folders.extend(entry.folders);
            theirs.folders.extend(entry.removed.into_iter().map(|folder| folder.path));
            let modes = entry.modes.into_iter().filter(FolderMode::is_change);
            theirs.folders.extend(modes.map(|folder| folder.path));
            if entry.tool == COMMAND_TOOL {
                theirs.by_commands.extend(entry.files.iter().map(|file| file.path.clone()));
            }
            for file in entry.files {
                let known = theirs.files.entry(file.path).or_insert_with(|| (file.before, None));
                known.1 = file.after;
            }
        }
        let is_known =
            |path: &WorkspacePath| theirs.files.contains_key(path) || theirs.folders.contains(path);
        theirs.unknown.retain(|path| !is_known(path));
        theirs
    }

    /// Returns true if nobody changed anything.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.folders.is_empty() && self.moved.is_empty() && self.unknown.is_empty()
    }

    /// Returns true if a path is theirs whatever is there now: they moved it or a folder above it, from there or to
    /// there, or changed it without a record of its versions.
    pub fn own(&self, path: &WorkspacePath) -> bool {
        self.unknown.contains(path) || self.moved.iter().any(|moved| path.is_within(moved))
    }
}
