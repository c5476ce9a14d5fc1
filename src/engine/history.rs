//! A session's changes as a stack: what undo and redo take next.

use std::collections::BTreeMap;

use super::state::State;
use super::transaction::journal::{self, Entry};
use crate::error::Error;

/// The changes of a session that stand, and those that were taken back.
#[derive(Debug, Default)]
pub struct History {
    /// Changes that stand, the oldest first.
    done: Vec<Entry>,
    /// Undos whose changes are taken back, the oldest first.
    undone: Vec<Entry>,
    /// What each undo and redo moves along the stack.
    reverts: BTreeMap<u64, Vec<u64>>,
    /// Every other change.
    originals: BTreeMap<u64, Entry>,
}

/// Tool names of the changes that move along the stack.
const UNDO: &str = "undo";
/// The other one.
const REDO: &str = "redo";

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
    fn take(&mut self, entry: Entry) {
        if entry.reverts.is_empty() {
            self.originals.insert(entry.seq, entry.clone());
        } else {
            self.reverts.insert(entry.seq, entry.reverts.clone());
        }
        match entry.tool.as_str() {
            UNDO => {
                self.done.retain(|done| !entry.reverts.contains(&done.seq));
                self.undone.push(entry);
            }
            REDO => {
                self.undone.retain(|undone| !entry.reverts.contains(&undone.seq));
                self.done.push(entry);
            }
            _ => {
                // As in every editor: a new change ends what could have been redone.
                self.undone.clear();
                self.done.push(entry);
            }
        }
    }

    /// The changes that an entry stands for: itself, or those that an undo or redo is about.
    #[must_use]
    pub fn originals(&self, entry: &Entry) -> Vec<&Entry> {
        let mut found = Vec::new();
        let mut waiting = vec![entry.seq];
        while let Some(seq) = waiting.pop() {
            match self.reverts.get(&seq) {
                // The first of them is the newest: it is to come first here too.
                Some(reverts) => waiting.extend(reverts.iter().rev().filter(|before| **before < seq)),
                None => found.extend(self.originals.get(&seq)),
            }
        }
        found
    }

    /// The changes that undo takes back next, the newest first; of those that `wanted` picks.
    #[must_use]
    pub fn to_undo(&self, steps: usize, wanted: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        self.done.iter().rev().filter(|entry| wanted(entry)).take(steps).cloned().collect()
    }

    /// The undos that redo takes back next, the newest first; of those that `wanted` picks.
    #[must_use]
    pub fn to_redo(&self, steps: usize, wanted: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        self.undone.iter().rev().filter(|entry| wanted(entry)).take(steps).cloned().collect()
    }
}
