//! A session's changes as two stacks: what undo takes back next, and what redo does again.

use std::collections::{BTreeMap, BTreeSet};

use super::replay::Direction;
use crate::engine::journal;
use crate::engine::journal::{JournalEntry, Version};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;

/// The changes of a session that stand, and those that were taken back.
#[derive(Debug, Default)]
pub struct History {
    /// Changes that stand, the one made or done again last at the end.
    done: Vec<JournalEntry>,
    /// Changes that are taken back, the one taken back last at the end.
    undone: Vec<JournalEntry>,
    /// What each undo and redo was about.
    reverts: BTreeMap<u64, Vec<u64>>,
    /// Folders that were made for changes that are taken back, and still stand since others use them.
    vacant: BTreeSet<WorkspacePath>,
    /// The files that the last undo or redo of them merged, with what it left there.
    merged: BTreeMap<WorkspacePath, Option<Version>>,
}

impl History {
    /// Reads the history of `session`.
    ///
    /// # Errors
    /// What the system says.
    pub fn load(state: &State, session: &str) -> Result<Self, Error> {
        let mut history = Self::default();
        for seq in journal::history(state, session)? {
            if let Some(entry) = journal::done_entry(state, session, seq)? {
                history.take(entry);
            }
        }
        Ok(history)
    }

    /// Takes in the next change.
    fn take(&mut self, entry: JournalEntry) {
        for file in &entry.files {
            self.merged.remove(&file.path);
            if entry.merged.contains(&file.path) {
                self.merged.insert(file.path.clone(), file.after.clone());
            }
        }
        // What takes back an earlier change is a change of its own.
        let direction = [Direction::Undo, Direction::Redo]
            .into_iter()
            .find(|way| way.name() == entry.tool && entry.takes_back.is_none());
        let Some(direction) = direction else {
            // As in every editor: a new change ends what could have been redone.
            self.undone.clear();
            self.vacant.clear();
            self.done.push(entry);
            return;
        };
        let about = self.originals(&entry.reverts);
        let (from, to) = match direction {
            Direction::Undo => (&mut self.done, &mut self.undone),
            Direction::Redo => (&mut self.undone, &mut self.done),
        };
        for seq in &about {
            if let Some(at) = from.iter().rposition(|known| known.seq == *seq) {
                let moved = from.remove(at);
                match direction {
                    Direction::Undo => self.vacant.extend(moved.folders.iter().cloned()),
                    Direction::Redo => self.vacant.retain(|folder| !moved.folders.contains(folder)),
                }
                to.push(moved);
            }
        }
        // What came back with the rest of it was there before any of these changes.
        let came_back = |folder: &WorkspacePath| {
            entry.folders.contains(folder) || entry.moves.iter().any(|moved| folder.is_within(&moved.to))
        };
        self.vacant.retain(|folder| !came_back(folder));
        self.reverts.insert(entry.seq, about);
    }

    /// The changes that numbers stand for: those of an undo or a redo stand for what it was about.
    fn originals(&self, seqs: &[u64]) -> Vec<u64> {
        seqs.iter().flat_map(|seq| self.reverts.get(seq).cloned().unwrap_or_else(|| vec![*seq])).collect()
    }

    /// The next `steps` changes to go that way, in that order; of those that `wanted` picks.
    #[must_use]
    pub fn next(
        &self,
        direction: Direction,
        steps: usize,
        wanted: impl Fn(&JournalEntry) -> bool,
    ) -> Vec<JournalEntry> {
        let stack = match direction {
            Direction::Undo => &self.done,
            Direction::Redo => &self.undone,
        };
        stack.iter().rev().filter(|entry| wanted(entry)).take(steps).cloned().collect()
    }

    /// The folders that were made for changes that are taken back: nobody needs them once they are
    /// empty.
    #[must_use]
    pub fn vacant(&self) -> BTreeSet<WorkspacePath> {
        self.vacant.clone()
    }

    /// What the session left at `path` when it last merged there, if it has not changed it since.
    #[must_use]
    pub fn merged(&self, path: &WorkspacePath) -> Option<&Version> {
        self.merged.get(path).and_then(Option::as_ref)
    }
}
