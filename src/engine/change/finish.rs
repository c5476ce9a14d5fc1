//! Finishes a change whose steps are done: marks, snapshot, history, and the second wave of syncs.

use std::collections::BTreeSet;

use super::commit::snapshot_files;
use super::executor::{ChangedFolders, Executor};
use super::folders::not_closed;
use super::locks::StepsTurn;
use super::moves::SnapshotMoves;
use super::plan::{CallerKnowledge, FilePlan, TargetState};
use super::prepared::PreparedChange;
use super::record::{self, AppliedChange};
use super::shown_lines::{EarlierBytes, ReadRecords, numbers_in, shown_after_change, still_known};
use super::{Change, without_rename};
use crate::engine::history::replay::{Direction, Pieces};
use crate::engine::journal::steps::Step;
use crate::engine::journal::{self, MoveEntry};
use crate::engine::snapshot::PublishedSnapshot;
use crate::engine::store::audit;
use crate::engine::store::session::{self, LineNumbers, LineSet, ReadRecord, SessionId, SessionState};
use crate::engine::store::state::State;
use crate::engine::workspace::fs::is_symlink_mode;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::engine::workspace::sync::{self, FileSystem};
use crate::error::Error;
use crate::sha256::Sha256;
use crate::text::content::body_of;
use crate::text::lines;
use crate::text::replaced_lines::{self, ReplacedLines};

/// Number of changes after which the accounts of a session are brought up to date.
const ACCOUNTS_EVERY: u64 = 128;

/// Returns true if the accounts of a session are updated after its change of that number. Sessions that began together,
/// perhaps with names that differ by one letter, do so far apart: multiples of the golden ratio spread evenly (Knuth,
/// The Art of Computer Programming, 6.4).
fn updates_accounts(session: &SessionId, number: u64) -> bool {
    let sum: u64 = session.as_str().bytes().map(u64::from).sum();
    let offset = sum.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    number.wrapping_add(offset).is_multiple_of(ACCOUNTS_EVERY)
}

impl Change<'_> {
    /// Returns the read marks after the change.
    pub(super) fn marks_after(&self, state: &State) -> ReadRecords {
        let earlier = self.earlier_bytes(state);
        let mut all = after_changes(&self.files, &self.session, &earlier);
        after_moves(&self.entry.moves, &self.session, &mut all);
        all
    }

    /// Finishes an applied change: marks, snapshot, history. One wave of syncs makes the changed names of the steps and
    /// of the snapshot durable, with the audit record.
    pub(super) fn finish(
        &mut self,
        state: &State,
        marks: ReadRecords,
        published: Option<PublishedSnapshot>,
        prepared: &PreparedChange,
    ) -> Result<(), Error> {
        match &published {
            // The snapshot must not refer to files that a power failure may undo.
            None => self.sync_names(state, prepared, None)?,
            Some(published) => self.unlock_next_change(published),
        }
        self.set_marks(state, marks);
        let (outcome, published) = match published {
            Some(mut published) => {
                let recorded = published.take_recorded();
                (record::add_results(self.engine, recorded, &self.entry), Some(published))
            }
            None => (self.record(state), None),
        };
        // Before the entry is closed: a later call that finds it open checks for the record.
        let audit = self.engine.begin_audit(state, &self.entry.tool, outcome.as_ref().err());
        match published {
            Some(published) => self.sync_names_and_audit(state, prepared, &published, audit)?,
            None => {
                self.engine.end_audit(state, audit);
            }
        }
        let executor = Executor { workspace: &self.engine.workspace, state };
        if let Err(error) = executor.close(&self.entry, Direction::Redo) {
            self.engine.warn(not_closed(&error));
        }
        self.correct_descriptions(state);
        if let Err(error) = self.entry.close(state) {
            self.engine.warn(format!(
                "the change was applied, but its journal entry could not be closed: {}",
                error.message()
            ));
        } else {
            without_rename::clear(Executor { workspace: &self.engine.workspace, state }, &self.moves, true);
            Executor { workspace: &self.engine.workspace, state }.discard_written(&self.entry.steps);
            // Last, since a later call finds by the note what a kill left.
            journal::forget_beside(state, &self.entry.id, &self.entry.steps);
            if updates_accounts(self.engine.session(), self.entry.seq) {
                // They are caches, which readers write without a lock too: no other change waits for them.
                (self.lock, self.turn) = (None, None);
                record::update_accounts(self.engine, state, &self.session);
                record::pack_history(state);
            }
        }
        outcome
    }

    /// Lets the next change begin while this one is recorded, synced and closed, for which the lock of the steps is
    /// enough. What is left to do for a change of other things than bytes, or in a private repository, needs the lock of
    /// the workspace as well.
    fn unlock_next_change(&mut self, published: &PublishedSnapshot) {
        let is_locked = matches!(&self.turn, Some(StepsTurn::Now(steps)) if steps.is_held());
        let is_of_files = self.entry.steps.iter().all(|step| matches!(step, Step::Put { .. }));
        if is_locked
            && is_of_files
            && self.entry.modes.is_empty()
            && !published.is_private()
            && self.engine.policy().is_durable()
        {
            self.lock = None;
        }
    }

    /// Makes the renames of the steps and of the snapshot durable, with the audit record. If the file system allows it,
    /// the sync of that record alone covers the snapshot's names.
    fn sync_names_and_audit(
        &mut self,
        state: &State,
        prepared: &PreparedChange,
        published: &PublishedSnapshot,
        audit: Option<audit::PendingRecord>,
    ) -> Result<(), Error> {
        if !self.engine.policy().is_durable() {
            self.engine.end_audit(state, audit);
            published.tidy();
            return Ok(());
        }
        let file_system = prepared.file_system.as_ref();
        let executor = Executor { workspace: &self.engine.workspace, state };
        let opened = file_system.and_then(|it| {
            let holds_others =
                audit.as_ref().is_some_and(|audit| it.holds(&audit.file)) && published.is_on(it);
            if holds_others { executor.folders_on(&self.entry.steps, it) } else { None }
        });
        let is_left = opened.is_some() && file_system.is_some_and(FileSystem::leaves_names_to_next_sync);
        if !is_left {
            sync::begin(audit.iter().map(|audit| &audit.file));
            self.sync_each_name(state, prepared, published)?;
        } else if file_system.is_some_and(FileSystem::keeps_order) {
            // Syncing the log would cover these too, but the user's files must not rely on that.
            self.sync_names(state, prepared, opened)?;
        }
        let is_synced = self.engine.end_audit(state, audit);
        if is_left && !is_synced {
            self.sync_each_name(state, prepared, published)?;
        }
        published.tidy();
        Ok(())
    }

    /// Syncs the folders that the steps and the snapshot have changed.
    fn sync_each_name(
        &mut self,
        state: &State,
        prepared: &PreparedChange,
        published: &PublishedSnapshot,
    ) -> Result<(), Error> {
        self.sync_names(state, prepared, None)?;
        if let Err(error) = published.sync() {
            self.engine.warn(format!("a power failure may take the snapshot: {error}"));
        }
        Ok(())
    }

    /// Syncs the folders that the steps have changed; some may be `opened`.
    fn sync_names(
        &self,
        state: &State,
        prepared: &PreparedChange,
        opened: Option<ChangedFolders>,
    ) -> Result<(), Error> {
        if !self.engine.policy().is_durable() {
            return Ok(());
        }
        let executor = Executor { workspace: &self.engine.workspace, state };
        let file_system = prepared.staged_files.file_system.as_deref();
        executor.sync(&self.entry.steps, opened, file_system).map_err(Error::applied)
    }

    /// Records an applied change in the snapshots.
    fn record(&mut self, state: &State) -> Result<(), Error> {
        let moved = SnapshotMoves::of(self.engine, state, &self.entry).unwrap_or_else(|error| {
            self.engine.warn(format!("the moved files are not in the snapshot: {}", error.message()));
            SnapshotMoves::default()
        });
        let files = moved.files_with(snapshot_files(&self.files, &self.state_path));
        let blobs = std::mem::take(&mut self.blobs).finish();
        let record = AppliedChange { entry: &self.entry, files, folders: moved.folders(), blobs: &blobs };
        record::record(self.engine, &record)
    }

    /// Updates the session with what the caller now knows about the files.
    fn set_marks(&mut self, state: &State, ReadRecords { set, forgotten }: ReadRecords) {
        let (seq, request) = (self.entry.seq, self.entry.request);
        // Their line numbers refer to the new version from now on.
        let known = set.iter().filter_map(|mark| self.session.mark(&mark.path));
        let versions = |mark: ReadRecord| mark.versions().collect::<Vec<_>>();
        session::forget_shown(state, known.flat_map(versions));
        let updated = session::update(state, self.engine.session(), |session| {
            session.note_change(seq, request);
            session.exchange_marks(&forgotten, set);
        });
        match updated {
            Ok(warning) => self.engine.warn_if(warning),
            Err(error) => self.engine.warn(format!(
                "the change was made, but the session could not record it, so read the file again before the next change: {}",
                error.message()
            )),
        }
    }
}

/// Returns the marks of changed files.
fn after_changes(files: &[FilePlan], session: &SessionState, earlier: &EarlierBytes) -> ReadRecords {
    let ReadRecords { set: mut marks, mut forgotten } = ReadRecords::default();
    for file in files {
        let path = file.seen.current.place.path();
        match &file.after {
            None => forgotten.push(path.clone()),
            // A path that leads through a symlink shows another file.
            Some(after) if after.mode.is_some_and(is_symlink_mode) => forgotten.push(path.clone()),
            // Keep an existing mark, which is of the old bytes.
            Some(after) if after.known == CallerKnowledge::Nothing => {}
            Some(_) if is_state(path) => {}
            Some(after) => marks.extend(mark_after(file, after, session, earlier)),
        }
    }
    ReadRecords { set: marks, forgotten }
}

/// Adds the effect of moves: a mark moves with its file, and one of a file in the trash is removed.
fn after_moves(moves: &[MoveEntry], session: &SessionState, all: &mut ReadRecords) {
    if moves.is_empty() {
        return;
    }
    let mut pieces = Pieces::default();
    moves.iter().for_each(|moved| pieces.insert(&moved.from, &moved.to));
    let known: BTreeSet<WorkspacePath> = all.set.iter().map(|mark| mark.path.clone()).collect();
    for mark in session.marks() {
        let path = pieces.target_of(&mark.path);
        if path == mark.path {
            continue;
        }
        all.forgotten.push(mark.path.clone());
        if !known.contains(&path) && !is_state(&path) {
            all.set.push(ReadRecord { path, ..mark });
        }
    }
}

/// Returns the mark of a changed file; `None` if the caller never saw the rest of it, or saw other bytes than those
/// that were changed.
fn mark_after(
    file: &FilePlan,
    after: &TargetState,
    session: &SessionState,
    earlier: &EarlierBytes,
) -> Option<ReadRecord> {
    let current = &file.seen.current;
    let path = current.place.path().clone();
    let (old_path, old_sha256, old_bytes) = match &file.origin {
        Some(origin) => (&origin.path, origin.sha256, &origin.bytes),
        None => (&path, current.sha256, &current.bytes),
    };
    let shown = session.mark(old_path);
    let (old, body) = (body_of(old_bytes), body_of(&after.bytes));
    let is_new = !current.exists() && file.origin.is_none();
    let is_restored = after.known == CallerKnowledge::UnchangedLines;
    let is_whole = after.known == CallerKnowledge::Everything || (is_new && !is_restored);
    let mark = |lines| {
        let of_bytes = ReadRecord::of_everything(path.clone(), after.sha256, after.bytes.len() as u64, 0);
        // The line numbers under which it was shown, if it was.
        let (mut numbers, mut earlier_versions) = (LineNumbers::default(), Vec::new());
        if let Some(mark) = &shown {
            let replaced = match &file.replaced {
                Some(replaced) => replaced.clone(),
                None if is_whole => vec![ReplacedLines::all_lines(&old, &body)],
                None => replaced_lines::compared(&old, &body),
            };
            if !is_whole {
                let carried = || numbers_in(mark, old_sha256, &old, earlier).after(&replaced);
                numbers = mark.numbers_in_earlier(after.sha256).unwrap_or_else(carried);
            }
            if mark.sha256 == old_sha256 {
                earlier_versions = mark.shown_before_own_change(&replaced);
            }
        }
        ReadRecord { lines, numbers: Some(numbers), earlier: earlier_versions, ..of_bytes }
    };
    let replaced = file.replaced.as_deref();
    if let CallerKnowledge::ChangedSince(seen) = &after.known {
        let known = shown.as_ref().filter(|mark| mark.sha256 == Sha256::of(seen))?;
        return Some(mark(still_known(&known.lines, &body_of(seen), (&old, &body), replaced)));
    }
    if is_restored {
        let mut lines = shown.as_ref()?.lines_of(after.sha256).cloned();
        if let Some(known) = shown.as_ref().filter(|mark| mark.sha256 == old_sha256) {
            let kept = still_known(&known.lines, &old, (&body, &body), None);
            let all = lines.get_or_insert_default();
            kept.ranges().iter().for_each(|&(first, last)| all.add(first, last));
        }
        return lines.map(mark);
    }
    if is_whole {
        return Some(mark(LineSet::up_to(lines::count(&body))));
    }
    let known = shown.as_ref().filter(|mark| mark.sha256 == old_sha256);
    let is_proved = file.seen.proved && file.origin.is_none();
    if !is_proved && known.is_none() {
        return None;
    }
    let before = known.map(|mark| mark.lines.clone()).unwrap_or_default();
    Some(mark(shown_after_change(&before, &old, &body, replaced)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_with_similar_names_update_their_accounts_far_apart() {
        let update = |name: &str| {
            let session = name.parse().unwrap();
            (0..ACCOUNTS_EVERY).find(|number| updates_accounts(&session, *number)).unwrap()
        };
        let mut all: Vec<u64> = (0..8).map(|agent| update(&format!("agent-{agent}"))).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] >= 8), "{all:?}");
    }
}
