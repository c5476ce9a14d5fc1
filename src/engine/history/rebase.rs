//! Paths of earlier changes in the present tree: later changes of the session renamed files and folders.
//!
//! ```text
//!   change 1   move d   to e      turn A
//!   change 2   edit e/f           turn B
//!   change 3   undo 1             e is d again
//! ```
//!
//! To take turn B back, the edit of `e/f` is the one of `d/f`. To do turn A again is to take change 3 back: an undo and a
//! redo have records with the names and bytes of their own time, which fit better than those of the first time.

use std::collections::{BTreeMap, BTreeSet};

use super::replay::Direction;
use super::session_diff::renames;
use super::stacks::direction_of;
use crate::engine::journal::{JournalEntry, MoveEntry};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;

/// Renames the paths of a change as a later one did.
pub fn follow(entry: &mut JournalEntry, later: &JournalEntry) {
    renames(&later.moves).for_each(|(from, to)| rename_paths(entry, from, to));
}

/// Renames the paths of a change. A name that the change left free moves only with a folder that holds it: whatever
/// took that name later is another file.
fn rename_paths(entry: &mut JournalEntry, from: &WorkspacePath, to: &WorkspacePath) {
    let held = |path: &mut WorkspacePath| rename_path(path, from, to);
    let free = |path: &mut WorkspacePath| rename_with_folders(path, from, to);
    for file in &mut entry.files {
        if file.after.is_some() { held(&mut file.path) } else { free(&mut file.path) }
    }
    entry.folders.iter_mut().for_each(held);
    entry.modes.iter_mut().for_each(|folder| held(&mut folder.path));
    entry.removed.iter_mut().for_each(|folder| free(&mut folder.path));
    for moved in &mut entry.moves {
        held(&mut moved.to);
        free(&mut moved.from);
    }
}

/// Renames the path of a file or folder.
fn rename_path(path: &mut WorkspacePath, from: &WorkspacePath, to: &WorkspacePath) {
    if path.is_within(from) {
        *path = path.rebased(from, to);
    }
}

/// Renames a path with the folders that hold it.
fn rename_with_folders(path: &mut WorkspacePath, from: &WorkspacePath, to: &WorkspacePath) {
    if path != from {
        rename_path(path, from, to);
    }
}

/// Returns the records to play, in order, so that some changes of a session are undone or redone while later ones stay.
/// Their paths are those of the tree at that point of the replay. `since` are the session's records from the first of
/// the changes on, oldest first.
///
/// # Errors
/// Returns a path that the changes made or moved, and that a later one moved or deleted: that one needs them.
pub fn records(changes: &[JournalEntry], since: &[JournalEntry]) -> Result<Vec<JournalEntry>, WorkspacePath> {
    let mut last: BTreeMap<u64, &JournalEntry> = BTreeMap::new();
    for entry in since.iter().filter(|entry| direction_of(entry).is_some()) {
        last.extend(entry.reverts.iter().map(|seq| (*seq, entry)));
    }
    let wanted: BTreeSet<u64> = changes.iter().map(|change| change.seq).collect();
    let is_whole = |record: &JournalEntry| {
        let is_last = |seq: &u64| last.get(seq).is_some_and(|last| last.seq == record.seq);
        record.reverts.iter().all(|seq| wanted.contains(seq) && is_last(seq))
    };
    let (mut found, mut taken): (Vec<(u64, &JournalEntry)>, BTreeSet<u64>) = (Vec::new(), BTreeSet::new());
    for change in changes {
        match last.get(&change.seq) {
            None => found.push((change.seq, change)),
            Some(record) if taken.contains(&record.seq) => {}
            Some(record) if is_whole(record) => {
                taken.insert(record.seq);
                found.push((record.seq, record));
            }
            // It turned changes of other turns around as well, as an undo of several steps does.
            Some(record) => found.push((record.seq, change)),
        }
    }
    let by_number: BTreeMap<u64, &JournalEntry> = since.iter().map(|entry| (entry.seq, entry)).collect();
    // Stable, so that changes which one record turned around keep the order of the caller.
    found.sort_by_key(|(since, _)| std::cmp::Reverse(*since));
    let later: Vec<(u64, Vec<Rename>)> =
        since.iter().map(|entry| (entry.seq, renames_of(entry, &by_number))).collect();
    let (mut records, mut played): (Vec<JournalEntry>, Vec<Rename>) = (Vec::new(), Vec::new());
    for (after, record) in found {
        let mut path = RebasedRecord::new(record, renames_of(record, &by_number));
        let later = later.iter().filter(|(seq, _)| *seq > after).flat_map(|(_, renames)| renames);
        later.for_each(|(from, to)| path.rename_paths(from, to));
        played.iter().for_each(|(from, to)| path.rename_paths(to, from));
        let (record, renames) = path.checked()?;
        records.push(record);
        played.extend(renames.into_iter().rev());
    }
    Ok(records)
}

/// Old and new path.
type Rename = (WorkspacePath, WorkspacePath);

/// Returns the renames of a record. An undo or redo that also changes the bytes of a file which it renames removes one
/// and writes the other: then the moves of the changes that it turned around tell.
fn renames_of(record: &JournalEntry, by_number: &BTreeMap<u64, &JournalEntry>) -> Vec<Rename> {
    let owned = |(from, to): (&WorkspacePath, &WorkspacePath)| (from.clone(), to.clone());
    let mut all: Vec<Rename> = renames(&record.moves).map(owned).collect();
    let turned = record.reverts.iter().filter_map(|seq| by_number.get(seq)).flat_map(|change| {
        match direction_of(record) {
            Some(Direction::Undo) => inverse(&change.moves),
            _ => renames(&change.moves).collect(),
        }
    });
    let turned: Vec<Rename> = turned.map(owned).collect();
    let carried = |path: &WorkspacePath, renames: &[Rename]| {
        let mut path = path.clone();
        renames.iter().for_each(|(from, to)| rename_path(&mut path, from, to));
        path
    };
    let (written, removed): (Vec<_>, Vec<_>) = record.files.iter().partition(|file| file.after.is_some());
    for file in removed {
        let to = carried(&file.path, &turned);
        if to != file.path && written.iter().any(|file| file.path == to && file.before.is_none()) {
            all.push((carried(&file.path, &all), to));
        }
    }
    all
}

/// Returns the renames that take moves back.
fn inverse(moves: &[MoveEntry]) -> Vec<(&WorkspacePath, &WorkspacePath)> {
    let mut renames: Vec<_> = renames(moves).map(|(from, to)| (to, from)).collect();
    renames.reverse();
    renames
}

/// A record whose paths are renamed.
struct RebasedRecord {
    /// The record.
    record: JournalEntry,
    /// Things that it made or moved: present path, and the path that it would have had without renames of its own.
    made: Vec<(WorkspacePath, WorkspacePath)>,
    /// Files that it changed in place.
    edited: Vec<WorkspacePath>,
    /// Names that it left free.
    free: Vec<WorkspacePath>,
    /// Its renames.
    renames: Vec<Rename>,
}

impl RebasedRecord {
    /// Returns a record under its first names.
    fn new(record: &JournalEntry, renames: Vec<Rename>) -> Self {
        let files = record.files.iter().filter(|file| file.after.is_some());
        let (new, edited): (Vec<_>, Vec<_>) = files.partition(|file| file.before.is_none());
        let removed = record.files.iter().filter(|file| file.after.is_none()).map(|file| &file.path);
        let removed = removed.chain(record.removed.iter().map(|folder| &folder.path));
        let free = removed.chain(record.moves.iter().map(|moved| &moved.from));
        let moved = record.moves.iter().map(|moved| &moved.to);
        let made = new.into_iter().map(|file| &file.path).chain(&record.folders).chain(moved);
        Self {
            made: made.map(|path| (path.clone(), path.clone())).collect(),
            edited: edited.into_iter().map(|file| file.path.clone()).collect(),
            free: free.filter(|path| !is_state(path)).cloned().collect(),
            record: record.clone(),
            renames,
        }
    }

    /// Renames its paths.
    fn rename_paths(&mut self, from: &WorkspacePath, to: &WorkspacePath) {
        rename_paths(&mut self.record, from, to);
        for (now, expected) in &mut self.made {
            rename_path(now, from, to);
            rename_with_folders(expected, from, to);
        }
        self.edited.iter_mut().for_each(|path| rename_path(path, from, to));
        self.free.iter_mut().for_each(|path| rename_with_folders(path, from, to));
        for (old, new) in &mut self.renames {
            rename_with_folders(old, from, to);
            rename_path(new, from, to);
        }
    }

    /// Returns the record and its renames, or the name of a thing that was moved or deleted since.
    fn checked(self) -> Result<(JournalEntry, Vec<Rename>), WorkspacePath> {
        let moved = self.made.into_iter().find(|(now, expected)| now != expected);
        // A file that was deleted in the meantime, or the folder to which something would come back.
        let deleted = || self.edited.into_iter().chain(self.free).find(is_state);
        match moved.map(|(now, expected)| if is_state(&now) { expected } else { now }).or_else(deleted) {
            Some(path) => Err(path),
            None => Ok((self.record, self.renames)),
        }
    }
}
