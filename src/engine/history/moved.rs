//! Where a session has moved what is asked for under its old name.

use crate::engine::journal::{self, FileEntry, JournalEntry, MoveEntry};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::error::Error;

/// The newest changes that are looked at: reading them takes a few milliseconds.
const CHANGES_LOOKED_AT: usize = 500;

/// What a session has moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedPath {
    /// Its path after all later moves.
    pub to: WorkspacePath,
    /// The number of the change that took it from the path asked for.
    pub seq: u64,
}

/// Where what was at `path` is by the history of `session`; `None` where the last change there was no move.
///
/// # Errors
/// What the system says.
pub fn moved_from(state: &State, session: &str, path: &WorkspacePath) -> Result<Option<MovedPath>, Error> {
    let mut later: Vec<JournalEntry> = Vec::new();
    for seq in journal::history(state, session)?.into_iter().rev().take(CHANGES_LOOKED_AT) {
        let Some(entry) = journal::done_entry(state, session, seq)? else { continue };
        if let Some(to) = taken(path, &entry) {
            let to = later.iter().rev().fold(to, |to, entry| taken(&to, entry).unwrap_or(to));
            return Ok(Some(MovedPath { to, seq }).filter(|moved| !is_state(&moved.to)));
        }
        if touches(&entry, path) {
            return Ok(None);
        }
        later.push(entry);
    }
    Ok(None)
}

/// Where a change takes what is at a path; `None` where it does not.
fn taken(path: &WorkspacePath, entry: &JournalEntry) -> Option<WorkspacePath> {
    carried(path, &entry.moves).or_else(|| renamed(path, &entry.files))
}

/// The one file that a change made with the bytes of the one that it removed at a path: that is how a patch, and a
/// command, renames.
fn renamed(path: &WorkspacePath, files: &[FileEntry]) -> Option<WorkspacePath> {
    let removed = files.iter().find(|file| file.path == *path && file.after.is_none())?;
    let bytes = removed.before.as_ref().filter(|before| before.size > 0)?.sha256;
    let is_it = |file: &&FileEntry| {
        file.before.is_none() && file.after.as_ref().is_some_and(|after| after.sha256 == bytes)
    };
    let mut found = files.iter().filter(is_it);
    found.next().filter(|_| found.next().is_none()).map(|file| file.path.clone())
}

/// Where the moves of one change take a path; `None` where it stays. What waits for its new name goes out of the
/// way first.
fn carried(path: &WorkspacePath, moves: &[MoveEntry]) -> Option<WorkspacePath> {
    let first = moves.iter().map(|moved| (&moved.from, moved.via.as_ref().unwrap_or(&moved.to)));
    let second = moves.iter().filter_map(|moved| Some((moved.via.as_ref()?, &moved.to)));
    let now = first
        .chain(second)
        .fold(path.clone(), |now, (from, to)| if now.is_within(from) { now.rebased(from, to) } else { now });
    (now != *path).then_some(now)
}

/// Whether a change made, changed or removed what is at a path, or put something there.
fn touches(entry: &JournalEntry, path: &WorkspacePath) -> bool {
    entry.files.iter().any(|file| file.path == *path)
        || entry.moves.iter().any(|moved| path.is_within(&moved.to))
        || entry.removed.iter().any(|folder| path.is_within(&folder.path))
}
