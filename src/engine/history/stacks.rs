//! Undo and redo stacks of a session.

use std::collections::{BTreeSet, VecDeque};

use super::client_calls::Turn;
use super::replay::Direction;
use super::session_diff::renames;
use crate::engine::journal::ChangeNumbers;
use crate::engine::journal::{self, FileEntry, JournalEntry, MoveEntry, Version};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::error::Error;

/// Changes of a session that are in effect, and changes that were undone.
///
/// The newest journal entries tell which is which, and only as many as needed are read: an undo after ten thousand
/// changes costs as much as after ten.
#[derive(Debug, Default)]
pub struct History {
    /// Session that it belongs to.
    pub session: String,
    /// Numbers of the session's entries.
    pub numbers: ChangeNumbers,
    /// Changes in effect that are not read yet.
    older: OlderChanges,
    /// Changes in effect that are read; the one made or redone last is at the end.
    done: VecDeque<JournalEntry>,
    /// Undone changes; the one undone last is at the end.
    undone: Vec<JournalEntry>,
    /// Folders of undone changes that still exist, since others use them: nobody needs them once they are empty.
    pub vacant: BTreeSet<WorkspacePath>,
    /// Folders that redone changes remove, of which some may still exist for the same reason.
    removed: BTreeSet<WorkspacePath>,
    /// Numbers of unreadable entries that were skipped.
    pub damaged: BTreeSet<u64>,
}

/// Changes older than the oldest entry that is read.
#[derive(Debug)]
struct OlderChanges {
    /// Number below which the next one is.
    below: u64,
    /// Changes that an undo or redo among the read entries has moved: their state is known.
    moved: BTreeSet<u64>,
    /// Older changes that come next, since they were redone.
    next: VecDeque<u64>,
}

/// A turn that many changes followed.
pub struct EarlyTurn {
    /// Its changes, in the order of an undo.
    pub changes: Vec<JournalEntry>,
    /// These, and the later records that move files or turn changes around, oldest first.
    pub records: Vec<JournalEntry>,
}

impl Default for OlderChanges {
    fn default() -> Self {
        Self { below: u64::MAX, moved: BTreeSet::new(), next: VecDeque::new() }
    }
}

impl History {
    /// Returns the history of `session`.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn load(state: &State, session: &str) -> Result<Self, Error> {
        let numbers = ChangeNumbers::of(state, session)?;
        let mut history = Self { session: session.to_owned(), numbers, ..Self::default() };
        // A change clears the redo stack, so every change before it is known from those in effect.
        let mut newest = Vec::new();
        while let Some(seq) = history.older_number()? {
            let Some(entry) = history.read(state, seq)? else {
                history.damaged.insert(seq);
                continue;
            };
            let is_change = direction_of(&entry).is_none();
            newest.push(entry);
            if is_change {
                break;
            }
        }
        for entry in newest.into_iter().rev() {
            history.add_entry(state, entry)?;
        }
        Ok(history)
    }

    /// Adds the next entry.
    fn add_entry(&mut self, state: &State, entry: JournalEntry) -> Result<(), Error> {
        let Some(direction) = direction_of(&entry) else {
            // As in every editor: a new change clears the redo stack.
            self.undone.clear();
            self.vacant.clear();
            self.removed.clear();
            self.done.push_back(entry);
            return Ok(());
        };
        let first_undone = self.undone.len();
        for seq in &entry.reverts {
            match direction {
                Direction::Undo => {
                    let Some(moved) = self.remove_done(state, *seq)? else { continue };
                    self.vacant.extend(moved.folders.iter().cloned());
                    self.removed.retain(|folder| moved.removed.iter().all(|removed| removed.path != *folder));
                    self.undone.push(moved);
                }
                Direction::Redo => {
                    let at = self.undone.iter().rposition(|known| known.seq == *seq);
                    let Some(moved) = at.map(|at| self.undone.remove(at)) else { continue };
                    self.vacant.retain(|folder| !moved.folders.contains(folder));
                    self.removed.extend(moved.removed.iter().map(|folder| folder.path.clone()));
                    self.done.push_back(moved);
                }
            }
        }
        if direction == Direction::Undo {
            forget_unundone(self.undone.get_mut(first_undone..).unwrap_or_default(), &entry);
        }
        // A folder that came back with its parent was there before any of these changes.
        let came_back = |folder: &WorkspacePath| {
            entry.folders.contains(folder) || entry.moves.iter().any(|moved| folder.is_within(&moved.to))
        };
        self.vacant.retain(|folder| !came_back(folder));
        Ok(())
    }

    /// Removes the change `seq` from those in effect and returns it; `None` if it is no longer in the history.
    fn remove_done(&mut self, state: &State, seq: u64) -> Result<Option<JournalEntry>, Error> {
        if !self.numbers.has(seq) {
            return Ok(None);
        }
        loop {
            if let Some(at) = self.done.iter().rposition(|known| known.seq == seq) {
                return Ok(self.done.remove(at));
            }
            if !self.read_older(state)? {
                return Ok(None);
            }
        }
    }

    /// Reads the newest change in effect that is not read yet; returns `false` if all are read.
    fn read_older(&mut self, state: &State) -> Result<bool, Error> {
        loop {
            if let Some(seq) = self.older.next.pop_front() {
                if let Some(entry) = self.read(state, seq)? {
                    self.done.push_front(entry);
                    return Ok(true);
                }
                continue;
            }
            let Some(seq) = self.older_number()? else { return Ok(false) };
            if self.older.moved.contains(&seq) {
                continue;
            }
            let Some(entry) = self.read(state, seq)? else {
                self.damaged.insert(seq);
                continue;
            };
            let Some(direction) = direction_of(&entry) else {
                self.done.push_front(entry);
                return Ok(true);
            };
            // The last one that it moved is on top. Changes that a later entry moved again are known already.
            for seq in entry.reverts.iter().rev() {
                if self.older.moved.insert(*seq) && direction == Direction::Redo {
                    self.older.next.push_back(*seq);
                }
            }
        }
    }

    /// Returns the newest number not looked at yet.
    fn older_number(&mut self) -> Result<Option<u64>, Error> {
        let next = self.numbers.before(self.older.below)?;
        self.older.below = next.unwrap_or(0);
        Ok(next)
    }

    /// Returns an entry.
    fn read(&self, state: &State, seq: u64) -> Result<Option<JournalEntry>, Error> {
        journal::history_entry(state, &self.session, seq)
    }

    /// Returns the next `steps` changes to undo or redo, in order, among those that `wanted` picks. The parts of one command
    /// that follow each other count as one, unless others have changed their files since.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn next(
        &mut self,
        state: &State,
        direction: Direction,
        steps: usize,
        wanted: impl Fn(&JournalEntry) -> bool,
    ) -> Result<Vec<JournalEntry>, Error> {
        let (mut found, mut left): (Vec<JournalEntry>, _) = (Vec::new(), steps);
        for passed in 0.. {
            if left == 0 && found.last().is_none_or(|last| last.command.is_none()) {
                break;
            }
            let next = if direction == Direction::Redo {
                self.undone.iter().rev().nth(passed)
            } else {
                if passed == self.done.len() {
                    self.read_older(state)?;
                }
                self.done.iter().rev().nth(passed)
            };
            let Some(entry) = next else { break };
            let is_part = found.last().is_some_and(|last| last.is_of_command_of(entry))
                && !is_changed_by_others(state, entry)?;
            if !is_part && left == 0 {
                break;
            }
            if wanted(entry) {
                left -= usize::from(!is_part);
                found.push(entry.clone());
            }
        }
        Ok(found)
    }

    /// Returns true if these changes are undone or redone out of their order, since a turn was before: a later change of
    /// the same paths stays in effect, or an earlier one stays undone.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn is_out_of_order(
        &mut self,
        state: &State,
        direction: Direction,
        changes: &[JournalEntry],
    ) -> Result<bool, Error> {
        let is_sorted = match direction {
            Direction::Undo => changes.is_sorted_by(|one, next| one.seq > next.seq),
            Direction::Redo => changes.is_sorted_by(|one, next| one.seq < next.seq),
        };
        if !is_sorted {
            return Ok(true);
        }
        let Some(oldest) = changes.iter().map(|change| change.seq).min() else { return Ok(false) };
        while self.older.below > oldest && self.read_older(state)? {}
        let newest = changes.iter().map(|change| change.seq).max().unwrap_or(oldest);
        let is_other = |known: &&JournalEntry| changes.iter().all(|change| change.seq != known.seq);
        let later = self.done.iter().filter(|known| known.seq > oldest);
        let earlier = self.undone.iter().filter(|known| known.seq < newest);
        let mut others = later.chain(earlier).filter(is_other);
        Ok(others.any(|other| changes.iter().any(|change| share_paths(change, other))))
    }

    /// Returns the changes of a turn that can be undone or redone, in order.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn changes_of_turn(
        &mut self,
        state: &State,
        direction: Direction,
        turn: &Turn,
    ) -> Result<Vec<JournalEntry>, Error> {
        let wanted = |entry: &&JournalEntry| turn.holds(entry.seq);
        if direction == Direction::Redo {
            return Ok(self.undone.iter().rev().filter(wanted).cloned().collect());
        }
        // Older ones are not read, however many there are.
        let is_older = |history: &Self| {
            let next = history.numbers.before(history.older.below)?;
            Ok::<_, Error>(history.older.next.is_empty() && next.is_none_or(|seq| seq < turn.first))
        };
        while !is_older(self)? && self.read_older(state)? {}
        // Another undo has taken these back by their numbers.
        let later = self.done.iter().filter(|entry| entry.tool == Direction::Undo.name() && !wanted(entry));
        let whole = later.filter_map(|entry| entry.takes_back.as_ref().filter(|it| it.is_whole()));
        let taken: BTreeSet<u64> = whole.map(|taken| taken.seq).collect();
        let is_left = |entry: &&JournalEntry| wanted(entry) && !taken.contains(&entry.seq);
        Ok(self.done.iter().rev().filter(is_left).cloned().collect())
    }

    /// Returns a turn that many changes followed; `None` if one of these turned a change of the turn around. `later` are
    /// the numbers of those that move files or turn changes around: the others are not read, however many there are.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn changes_of_early_turn(
        &self,
        state: &State,
        turn: &Turn,
        later: &[u64],
    ) -> Result<Option<EarlyTurn>, Error> {
        let Some(last) = turn.last else { return Ok(None) };
        let mut turning = Vec::new();
        for seq in later {
            turning.extend(self.read(state, *seq)?);
        }
        let mut turned: BTreeSet<u64> =
            turning.iter().flat_map(|entry| entry.reverts.iter().copied()).collect();
        let mut taken = turning.iter().filter_map(|entry| entry.takes_back.as_ref());
        if taken.any(|taken| turn.holds(taken.seq))
            || turned.iter().any(|seq| turn.holds(*seq) || *seq < turn.first)
        {
            return Ok(None);
        }
        // An undo tells the names of the changes that it took back.
        turned.retain(|seq| !later.contains(seq));
        for seq in turned {
            turning.extend(self.read(state, seq)?);
        }
        let mut changes = Vec::new();
        for seq in self.numbers.since(turn.first)?.into_iter().take_while(|seq| *seq <= last) {
            match self.read(state, seq)? {
                Some(entry) if direction_of(&entry).is_none() => changes.push(entry),
                // An undo, or a damaged record.
                _ => return Ok(None),
            }
        }
        turning.extend(changes.iter().cloned());
        turning.sort_by_key(|entry| entry.seq);
        changes.reverse();
        Ok(Some(EarlyTurn { changes, records: turning }))
    }

    /// Returns the session's readable records from a number on, oldest first, with undos and redos among them.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn since(&self, state: &State, first: u64) -> Result<Vec<JournalEntry>, Error> {
        let later = self.numbers.since(first)?.into_iter();
        later.filter_map(|seq| self.read(state, seq).transpose()).collect()
    }

    /// Returns the change `seq`, if it is in effect, and those made or redone after it, oldest first.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn changes_since(
        &mut self,
        state: &State,
        seq: u64,
    ) -> Result<Option<(JournalEntry, Vec<JournalEntry>)>, Error> {
        loop {
            if let Some(at) = self.done.iter().rposition(|known| known.seq == seq) {
                let mut later = self.done.range(at..).cloned();
                return Ok(later.next().map(|entry| (entry, later.collect())));
            }
            if !self.read_older(state)? {
                return Ok(None);
            }
        }
    }

    /// Returns the folders that should not exist by the undos and redos of this session: the last one that empties such
    /// a folder, in whatever session, removes it.
    pub fn unneeded_folders(&self) -> BTreeSet<WorkspacePath> {
        self.vacant.union(&self.removed).cloned().collect()
    }

    /// Returns the version that the session's last change of `path` left there, if that was a merge or `any` counts.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn left(&self, state: &State, path: &WorkspacePath, any: bool) -> Result<Option<Version>, Error> {
        let last = self.last_of(state, path)?.filter(|(_, is_merged)| any || *is_merged);
        Ok(last.and_then(|(file, _)| file.after))
    }

    /// Returns true if the session's last change of `path` removed the file there.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn has_removed(&self, state: &State, path: &WorkspacePath) -> Result<bool, Error> {
        Ok(self.last_of(state, path)?.is_some_and(|(file, _)| file.after.is_none()))
    }

    /// Returns what the session's last change of `path` did to it, and true if that was a merge.
    fn last_of(&self, state: &State, path: &WorkspacePath) -> Result<Option<(FileEntry, bool)>, Error> {
        let mut next = u64::MAX;
        while let Some(seq) = self.numbers.before(next)? {
            next = seq;
            let Some(entry) = self.read(state, seq)? else { continue };
            let is_merged = entry.merged.contains(path);
            if let Some(file) = entry.files.into_iter().rfind(|file| file.path == *path) {
                return Ok(Some((file, is_merged)));
            }
        }
        Ok(None)
    }
}

/// Returns true if changes of other sessions since then, of the same files, are in effect.
fn is_changed_by_others(state: &State, entry: &JournalEntry) -> Result<bool, Error> {
    for session in journal::sessions(state)?.iter().filter(|session| **session != entry.session) {
        let (numbers, mut next) = (ChangeNumbers::of(state, session)?, u64::MAX);
        while let Some(seq) = numbers.before(next)? {
            next = seq;
            let Some(other) = journal::history_entry(state, session, seq)? else { continue };
            if (other.time, &other.id) < (entry.time, &entry.id) {
                break;
            }
            if share_paths(&other, entry)
                && direction_of(&other).is_none()
                && History::load(state, session)?.changes_since(state, seq)?.is_some()
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Removes from undone changes the new files that their undo found missing, and the folders made for these: a redo must
/// not make what someone else removed.
///
/// ```text
///   change 1   write g/h         someone else removes g/h
///   change 2   move g to d
///   undo both  g is back         a redo has only the move to do again
/// ```
fn forget_unundone(undone: &mut [JournalEntry], undo: &JournalEntry) {
    let traces: Vec<TouchedNames> = undone.iter().map(TouchedNames::of).collect();
    let touched: BTreeSet<&WorkspacePath> = undo.files.iter().map(|file| &file.path).collect();
    let removed: BTreeSet<&WorkspacePath> = undo.removed.iter().map(|folder| &folder.path).collect();
    let is_trashed = |name: &WorkspacePath| {
        is_state(name) || undo.moves.iter().any(|moved| is_state(&moved.to) && name.is_within(&moved.from))
    };
    for (index, change) in undone.iter_mut().enumerate() {
        let all = change.files.len();
        change.files.retain(|file| {
            let name = name_at_undo(&traces, index, &file.path).filter(|_| file.before.is_none());
            name.is_none_or(|name| touched.contains(&name) || is_trashed(&name))
        });
        if change.files.len() < all {
            let JournalEntry { files, folders, .. } = change;
            let is_used = |folder: &WorkspacePath| files.iter().any(|file| file.path.is_within(folder));
            folders.retain(|folder| {
                let gone = |name| removed.contains(&name) || is_trashed(&name);
                is_used(folder) || name_at_undo(&traces, index, folder).is_none_or(gone)
            });
        }
    }
}

/// Names that a change touched.
struct TouchedNames {
    /// Moves.
    moves: Vec<MoveEntry>,
    /// Files that it made, changed or removed.
    files: BTreeSet<WorkspacePath>,
}

impl TouchedNames {
    /// Returns the names in a change.
    fn of(change: &JournalEntry) -> Self {
        let files = change.files.iter().map(|file| file.path.clone()).collect();
        Self { moves: change.moves.clone(), files }
    }

    /// Returns true if it moved something away from a path.
    fn moves_away(&self, path: &WorkspacePath) -> bool {
        renames(&self.moves).any(|(from, _)| path.is_within(from))
    }
}

/// Returns the name, at the moment of their undo, of what one of several changes made at a path; `None` if another of
/// them touched it, or what was there before: of these the undo has only the net effect. The newest change is the first.
fn name_at_undo(changes: &[TouchedNames], index: usize, path: &WorkspacePath) -> Option<WorkspacePath> {
    if changes.get(index)?.moves_away(path) {
        return None;
    }
    let mut before = path.clone();
    for older in changes.get(index + 1..).unwrap_or_default() {
        if older.files.contains(&before) || older.moves_away(&before) {
            return None;
        }
        for (from, to) in renames(&older.moves).collect::<Vec<_>>().into_iter().rev() {
            if before.is_within(to) {
                before = before.rebased(to, from);
            }
        }
    }
    let mut now = path.clone();
    for younger in changes.get(..index).unwrap_or_default().iter().rev() {
        if younger.files.contains(&now) {
            return None;
        }
        now = moved_to(&now, &younger.moves).unwrap_or(now);
        if younger.files.contains(&now) {
            return None;
        }
    }
    Some(now)
}

/// Returns the direction of an entry; `None` for a change of its own, including one that takes back an earlier
/// change by number.
pub fn direction_of(entry: &JournalEntry) -> Option<Direction> {
    let ways = [Direction::Undo, Direction::Redo];
    ways.into_iter().find(|way| way.name() == entry.tool && entry.takes_back.is_none())
}

/// Most recent changes that are searched: reading them takes a few milliseconds.
const CHANGES_LOOKED_AT: usize = 500;

/// Path that a session has moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedPath {
    /// Path after all later moves.
    pub to: WorkspacePath,
    /// Number of the change that moved it from the requested path.
    pub seq: u64,
}

/// Returns the new path of a path, by the history of `session`; `None` if the last change there was no move.
///
/// # Errors
/// Returns the OS error.
pub fn moved_from(state: &State, session: &str, path: &WorkspacePath) -> Result<Option<MovedPath>, Error> {
    let (numbers, mut later): (_, Vec<JournalEntry>) = (ChangeNumbers::of(state, session)?, Vec::new());
    let mut next = u64::MAX;
    for _ in 0..CHANGES_LOOKED_AT {
        let Some(seq) = numbers.before(next)? else { break };
        next = seq;
        let Some(entry) = journal::history_entry(state, session, seq)? else { continue };
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

/// Returns the path to which a change moves a path; `None` if it does not.
fn taken(path: &WorkspacePath, entry: &JournalEntry) -> Option<WorkspacePath> {
    moved_to(path, &entry.moves).or_else(|| renamed(path, &entry.files))
}

/// Returns the one file that a change made with the bytes of the file it removed at a path: patches and commands
/// rename files that way.
fn renamed(path: &WorkspacePath, files: &[FileEntry]) -> Option<WorkspacePath> {
    let removed = files.iter().find(|file| file.path == *path && file.after.is_none())?;
    let bytes = removed.before.as_ref().filter(|before| before.size > 0)?.sha256;
    let is_it = |file: &&FileEntry| {
        file.before.is_none() && file.after.as_ref().is_some_and(|after| after.sha256 == bytes)
    };
    let mut found = files.iter().filter(is_it);
    found.next().filter(|_| found.next().is_none()).map(|file| file.path.clone())
}

/// Returns the path to which the moves of one change take a path; `None` if it stays.
pub fn moved_to(path: &WorkspacePath, moves: &[MoveEntry]) -> Option<WorkspacePath> {
    let moved =
        |now: WorkspacePath, (from, to)| if now.is_within(from) { now.rebased(from, to) } else { now };
    let now = renames(moves).fold(path.clone(), moved);
    (now != *path).then_some(now)
}

/// Returns true if one of two changes touched what the other did.
fn share_paths(one: &JournalEntry, other: &JournalEntry) -> bool {
    one.paths().any(|path| touches(other, path)) || other.paths().any(|path| touches(one, path))
}

/// Returns true if a change made, changed or removed what is at a path, or put something there.
fn touches(entry: &JournalEntry, path: &WorkspacePath) -> bool {
    entry.files.iter().any(|file| file.path == *path)
        || entry.moves.iter().any(|moved| path.is_within(&moved.to))
        || entry.removed.iter().any(|folder| path.is_within(&folder.path))
}
