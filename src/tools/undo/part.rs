//! Undoes one change by its number, whole or in part, or the changes of a turn as one, even if later ones followed.

use std::collections::BTreeMap;

use super::files::{LOST, SingleChange, UndoOptions};
use super::plan::plan;
use super::response::{
    UndoneChange, nothing_to_undo, record_is_damaged, response_change, touches, warn_of_damaged,
    warn_of_lost, warn_of_nothing,
};
use super::{Request, Response, Steps};
use crate::engine::Engine;
use crate::engine::change::{Change, record};
use crate::engine::history::account::ChangesAccount;
use crate::engine::history::client_calls::{Turn, Turns};
use crate::engine::history::rebase::{self, follow};
use crate::engine::history::replay::Direction;
use crate::engine::history::stacks::{EarlyTurn, History};
use crate::engine::journal::{self, FileEntry, JournalEntry, RevertedChanges, Version};
use crate::engine::store::session;
use crate::engine::store::state::State;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::diff;
use crate::text::escaped::plural;
use crate::tools::common::{ListEnd, entry_at, must_be_absent, reject_if, subject, warn_of_lossy};
use crate::tools::targets::{self, LOG_SHOWS};

/// Most bytes that are read from the snapshots of a turn.
const TEXTS_BYTES_MAX: usize = 32 << 20;
/// Number of changes after a turn from which on they are not all read.
const EARLY: u64 = 100;

/// Undoes the change `seq` of the caller's session, or the part of it that the request names.
///
/// # Errors
/// Fails with `not_found` if the change does not exist, or nothing of it is left, or with `stale_file` if later changes
/// overlap it.
pub fn run(engine: &mut Engine, request: &Request, seq: u64) -> Result<Response, Error> {
    reject_if(request.steps.steps != 1, "steps", "seq names one change: leave steps out")?;
    let path = entry_at(engine, request.steps.path.as_deref())?;
    let options = &request.steps.options;
    let mut change = engine.begin(Direction::Undo.name(), &[], options.dry_run)?;
    let FoundChange { history, mut entry, texts } = found(&mut change, seq)?;
    let mut taken = RevertedChanges { seq, paths: Vec::new(), hunk: request.hunk };
    if let Some(path) = &path {
        reduce_to_path(&mut change, &mut entry, path)?;
        taken.paths = entry.files.iter().map(|file| file.path.clone()).collect();
    }
    let mut manner =
        UndoOptions { merge: true, single: Some(SingleChange::Change(seq)), texts, ..UndoOptions::default() };
    if let Some(number) = request.hunk {
        reduce_to_hunk(&mut change, &mut entry, number, &mut manner)?;
    }
    let has_files = !(entry.files.is_empty() && entry.moves.is_empty());
    let undone = UndoneChange { hunk: request.hunk, ..response_change(change.engine(), &entry) };
    change.set_takes_back(taken);
    let changed = plan(&mut change, &history, &[entry], Direction::Undo, &manner)?;
    if changed.is_empty() && has_files {
        return Err(Error::new(
            ErrorKind::NotFound,
            format!("nothing of change {seq} is left to undo in {}", undone.path),
        )
        .suggest("`log` lists the changes that are there."));
    }
    change.commit(subject(Direction::Undo.name(), &changed), options.why.clone())?;
    Ok(Response { undone: vec![undone], end: ListEnd::default() })
}

/// A change to undo alone.
struct FoundChange {
    /// History of the session.
    history: History,
    /// The change, with its files under their later names.
    entry: JournalEntry,
    /// Bytes that it left, if it is long past.
    texts: BTreeMap<Sha256, Vec<u8>>,
}

/// Returns the change `seq` of the caller's session.
fn found(change: &mut Change<'_>, seq: u64) -> Result<FoundChange, Error> {
    let session = change.engine().session().as_str().to_owned();
    let Some(state) = change.state() else {
        return Err(no_change(change.engine(), "seq", seq, None));
    };
    let mut history = History::load(state, &session)?;
    let alone = Turn::of_change(seq);
    if let Some(mut early) = early(change.engine_ref(), state, &history, Direction::Undo, &alone)?
        && let Some(mut entry) = early.changes.pop()
    {
        early.records.iter().filter(|later| later.seq > seq).for_each(|later| follow(&mut entry, later));
        let texts = texts_after(change.engine_ref(), std::slice::from_ref(&entry));
        return Ok(FoundChange { history, entry, texts });
    }
    let texts = BTreeMap::new();
    // An undo and its redo cancel out: the change is in the history as before.
    if let Some((mut entry, later)) = history.changes_since(state, seq)? {
        later.iter().for_each(|later| follow(&mut entry, later));
        return Ok(FoundChange { history, entry, texts });
    }
    let Some(mut entry) = journal::history_entry(state, &session, seq)? else {
        if history.numbers.has(seq) {
            return Err(record_is_damaged(seq));
        }
        let newest = history.numbers.newest()?;
        return Err(no_change(change.engine(), "seq", seq, newest));
    };
    history.since(state, seq.saturating_add(1))?.iter().for_each(|later| follow(&mut entry, later));
    Ok(FoundChange { history, entry, texts })
}

/// Returns the error for a change that the session has not made, in a field of the request.
pub fn no_change(engine: &Engine, field: &str, seq: u64, newest: Option<u64>) -> Error {
    let (session, there) = (
        engine.session(),
        match newest {
            Some(newest) => format!("its newest is {newest}"),
            None => "it has made none".to_owned(),
        },
    );
    let advice = match newest {
        Some(_) => format!("`log` shows the numbers: with session {session}, those of this session."),
        None => LOG_SHOWS.to_owned(),
    };
    Error::new(ErrorKind::NotFound, format!("session {session} has no change {seq}: {there}"))
        .suggest(advice)
        .detail("field", field)
}

/// Reduces a change to a path.
fn reduce_to_path(
    change: &mut Change<'_>,
    entry: &mut JournalEntry,
    path: &WorkspacePath,
) -> Result<(), Error> {
    if !touches(entry, path) {
        let paths = response_change(change.engine(), entry);
        let paths = if paths.paths.is_empty() { vec![paths.path] } else { paths.paths };
        let shown = change.workspace().display(path);
        let message = format!("change {} did not touch {shown}", entry.seq);
        return Err(Error::new(ErrorKind::NotFound, message)
            .at(shown)
            .suggest(format!("It touched {}.", paths.join(", ")))
            .detail("paths", paths));
    }
    entry.files.retain(|file| file.path.is_within(path));
    entry.moves.retain(|moved| moved.to.is_within(path) || moved.from.is_within(path));
    entry.modes.retain(|folder| folder.path.is_within(path));
    Ok(())
}

/// Reduces a change of one file to one hunk.
fn reduce_to_hunk(
    change: &mut Change<'_>,
    entry: &mut JournalEntry,
    number: usize,
    manner: &mut UndoOptions,
) -> Result<(), Error> {
    let seq = entry.seq;
    let invalid = |message: String| Error::invalid(message).detail("field", "hunk");
    let [file] = entry.files.as_slice() else {
        let count = entry.files.len();
        return Err(invalid(format!("change {seq} has {count} files here: name one with path")));
    };
    let shown = change.workspace().display(&file.path);
    let (Some(before), Some(after)) = (&file.before, &file.after) else {
        return Err(invalid(format!(
            "change {seq} created or deleted {shown} as a whole: leave hunk out to take that back"
        )));
    };
    if fs::is_symlink_mode(before.mode) || fs::is_symlink_mode(after.mode) {
        return Err(invalid(format!("{shown} is a symlink, which has no hunks")));
    }
    let bytes = |version: &Version| {
        change.bytes_seen(&file.path, version.sha256).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("the bytes of {shown} as change {seq} found or left them are no longer available"),
            )
            .at(shown.clone())
            .suggest(LOST)
        })
    };
    let target = diff::without_hunk(&bytes(before)?, &bytes(after)?, number).map_err(|count| {
        invalid(format!(
            "change {seq} has {} in {shown}, numbered from 1: there is no hunk {number}",
            plural(count, "hunk")
        ))
        .suggest("Name one of these, or leave `hunk` out to take all of the change back.")
    })?;
    let version =
        Version { sha256: Sha256::of(&target), size: target.len() as u64, mode: after.mode, identity: None };
    manner.texts.insert(version.sha256, target);
    let file = FileEntry { before: Some(version), ..file.clone() };
    (entry.files, entry.moves, entry.modes) = (vec![file], Vec::new(), Vec::new());
    Ok(())
}

/// Undoes or redoes the turn that holds the change `number`, or the last turn if that is 0.
///
/// # Errors
/// Fails with `not_found` if there is nothing to undo or redo, or with `stale_file` if later changes overlap the turn.
pub fn run_turn(
    engine: &mut Engine,
    request: &Steps,
    number: u64,
    direction: Direction,
) -> Result<Response, Error> {
    let extra = [("steps", request.steps != 1), ("path", request.path.is_some())];
    must_be_absent(&extra, |field| format!("turn names all changes of a turn: leave {field} out"))?;
    let mut change = engine.begin(direction.name(), &[], request.options.dry_run)?;
    let (turnaround, texts) = changes_to_replay(&mut change, number, direction)?;
    let single = turnaround.changes.iter().map(|entry| entry.seq).min().map(SingleChange::Turn);
    let manner = UndoOptions { merge: true, single, texts, ..UndoOptions::default() };
    turnaround.carry_out(change, request, direction, &manner)
}

/// Changes to undo or redo.
pub struct ChangesToReplay {
    /// History of the session.
    pub history: History,
    /// The changes, in order.
    pub changes: Vec<JournalEntry>,
    /// Records to play for that, if they are not those of the changes.
    pub records: Option<Vec<JournalEntry>>,
}

impl ChangesToReplay {
    /// Undoes or redoes the changes as one change, whole or not at all.
    ///
    /// # Errors
    /// Fails with `stale_file` if later changes overlap them.
    pub fn carry_out(
        self,
        mut change: Change<'_>,
        request: &Steps,
        direction: Direction,
        manner: &UndoOptions,
    ) -> Result<Response, Error> {
        let Self { history, changes, records } = self;
        let mut undone: Vec<UndoneChange> =
            changes.iter().map(|entry| response_change(change.engine(), entry)).collect();
        let paths = changes.iter().flat_map(|entry| &entry.files).map(|file| file.path.as_bytes());
        warn_of_lossy(change.engine(), paths);
        warn_of_damaged(change.engine(), &history.damaged);
        match direction {
            Direction::Undo => warn_of_lost(change.engine(), &changes),
            Direction::Redo => warn_of_nothing(change.engine(), &changes),
        }
        change.set_reverts(changes.iter().map(|entry| entry.seq).collect());
        let records = records.as_deref().unwrap_or(&changes);
        let paths = plan(&mut change, &history, records, direction, manner)?;
        let end = ListEnd::of(change.engine(), request.max_bytes, &mut undone);
        change.commit(subject(direction.name(), &paths), request.options.why.clone())?;
        Ok(Response { undone, end })
    }
}

/// Returns the changes of a turn to undo or redo, and the bytes that they left, if they are long past.
fn changes_to_replay(
    change: &mut Change<'_>,
    number: u64,
    direction: Direction,
) -> Result<(ChangesToReplay, BTreeMap<Sha256, Vec<u8>>), Error> {
    let session = change.engine().session().clone();
    let mut history = History::default();
    let mut changes = Vec::new();
    let mut records = Ok(Vec::new());
    let mut texts = BTreeMap::new();
    if let Some(state) = change.state() {
        history = History::load(state, session.as_str())?;
        let seq = match number {
            0 => history.next(state, direction, 1, |_| true)?.first().map(|entry| entry.seq),
            _ => Some(number),
        };
        let mut since = None;
        if let Some(seq) = seq {
            let turn = Turns::load(state, session.as_str())?.of(seq);
            match early(change.engine_ref(), state, &history, direction, &turn)? {
                Some(early) => (changes, since) = (early.changes, Some(early.records)),
                None => changes = history.changes_of_turn(state, direction, &turn)?,
            }
        }
        if let Some(since) = since {
            texts = texts_after(change.engine_ref(), &changes);
            records = rebase::records(&changes, &since);
        } else {
            records = rebase::records(&changes, &records_since(&history, state, &changes)?);
        }
    }
    if changes.is_empty() {
        return Err(missing(change.engine(), number, direction, &history));
    }
    let first = changes.iter().map(|entry| entry.seq).min().unwrap_or(number);
    let records = records.map_err(|path| moved_since(change, &path, SingleChange::Turn(first)))?;
    Ok((ChangesToReplay { history, changes, records: Some(records) }, texts))
}

/// Returns the records of the session from the first of some changes on, and from the first that one of these reverts.
fn records_since(
    history: &History,
    state: &State,
    changes: &[JournalEntry],
) -> Result<Vec<JournalEntry>, Error> {
    let Some(first) = changes.iter().map(|entry| entry.seq).min() else { return Ok(Vec::new()) };
    let since = history.since(state, first)?;
    let oldest = since.iter().flat_map(|entry| &entry.reverts).min().copied();
    match oldest.filter(|oldest| *oldest < first) {
        Some(oldest) => history.since(state, oldest),
        None => Ok(since),
    }
}

/// Returns the records to play for changes out of their order: while later ones stay.
///
/// # Errors
/// Fails with `stale_file` if a later change moved or deleted what they touched.
pub fn records_among(
    change: &Change<'_>,
    history: &History,
    state: &State,
    changes: &[JournalEntry],
) -> Result<Vec<JournalEntry>, Error> {
    let first = changes.iter().map(|entry| entry.seq).min().unwrap_or_default();
    let since = records_since(history, state, changes)?;
    rebase::records(changes, &since).map_err(|path| moved_since(change, &path, SingleChange::Change(first)))
}

/// Returns the error for a path that a later change moved or deleted.
fn moved_since(change: &Change<'_>, path: &WorkspacePath, single: SingleChange) -> Error {
    let shown = change.shown_original(path);
    single.overlap(change.engine_ref().session().as_str(), &shown, "it was moved or deleted since")
}

/// Returns a turn to undo, if many changes followed it.
fn early(
    engine: &Engine,
    state: &State,
    history: &History,
    direction: Direction,
    turn: &Turn,
) -> Result<Option<EarlyTurn>, Error> {
    let newest = history.numbers.newest()?.unwrap_or(0);
    let Some(last) = turn.last.filter(|last| newest.saturating_sub(*last) > EARLY) else { return Ok(None) };
    if direction == Direction::Redo {
        return Ok(None);
    }
    let session = engine.session();
    let known = session::load_for_display(state, session).and_then(|known| known.after());
    let from = known.map_or(0, |ended| ended.seq) + 1;
    let account = ChangesAccount::of(state, session.as_str(), from, &engine.control)?;
    match account.moves_or_reverts_after(last).filter(|_| turn.first >= from) {
        Some(later) => history.changes_of_early_turn(state, turn, later),
        None => Ok(None),
    }
}

/// Returns the bytes that some changes left, from their snapshots: the entry of a later change has them too, but only a
/// search of the history finds it.
fn texts_after(engine: &Engine, changes: &[JournalEntry]) -> BTreeMap<Sha256, Vec<u8>> {
    let (mut texts, mut left) = (BTreeMap::new(), TEXTS_BYTES_MAX);
    let Some(first) = changes.iter().map(|change| change.seq).min() else { return texts };
    let Ok(Some(store)) = record::find(engine) else { return texts };
    let after = targets::session_named(engine, engine.session()).map_or(0, |chosen| chosen.after);
    let Ok(account) =
        store.account_of(&record::changes_after(engine, engine.session().as_str(), after.min(first - 1)))
    else {
        return texts;
    };
    for change in changes {
        for (file, after) in change.files.iter().filter_map(|file| Some((file, file.after.as_ref()?))) {
            let bytes = store.file_after(&account, change.seq, file.path.as_bytes()).ok().flatten();
            let bytes = bytes.filter(|bytes| bytes.len() <= left && Sha256::of(bytes) == after.sha256);
            if let Some(bytes) = bytes {
                left -= bytes.len();
                texts.insert(after.sha256, bytes);
            }
        }
    }
    texts
}

/// Returns the error for a turn without a change to undo or redo.
fn missing(engine: &Engine, number: u64, direction: Direction, history: &History) -> Error {
    if number == 0 {
        return nothing_to_undo(engine, direction, None, &history.damaged);
    }
    let newest = history.numbers.newest().unwrap_or_default();
    if newest.is_none_or(|newest| newest < number) {
        return no_change(engine, "turn", number, newest);
    }
    let (session, name) = (engine.session(), direction.name());
    let message = format!("the turn of change {number} of session {session} has nothing to {name}");
    Error::new(ErrorKind::NotFound, message)
        .suggest("`log` with `turns` shows the turns, and which are undone.")
        .detail("field", "turn")
}
