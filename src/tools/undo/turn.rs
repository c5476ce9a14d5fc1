//! Undoes or redoes the changes of a turn as one change, even if later turns followed.

use super::files::{Interleaved, Manner, Single};
use super::part::no_change;
use super::plan::plan;
use super::response::{Undone, listed, nothing, warn_of_damaged, warn_of_lost, warn_of_nothing};
use super::{Response, Steps};
use crate::engine::Engine;
use crate::engine::change::Change;
use crate::engine::history::rebase;
use crate::engine::history::replay::Direction;
use crate::engine::history::stacks::History;
use crate::engine::history::turns::Turns;
use crate::engine::journal::JournalEntry;
use crate::error::{Error, ErrorKind};
use crate::tools::common::{ListEnd, subject};

/// Undoes or redoes the turn that holds the change `number`, or the last turn if that is 0.
///
/// # Errors
/// Fails with `not_found` if there is nothing to undo or redo, or with `stale_file` if later changes overlap the turn.
pub fn run(
    engine: &mut Engine,
    request: &Steps,
    number: u64,
    direction: Direction,
) -> Result<Response, Error> {
    let extra = [("steps", request.steps != 1), ("path", request.path.is_some())];
    if let Some((field, _)) = extra.into_iter().find(|(_, is_set)| *is_set) {
        return Err(Error::invalid(format!("turn names all changes of a turn: leave {field} out"))
            .detail("field", field));
    }
    let mut change = engine.begin(direction.name(), &[], request.options.dry_run)?;
    let Turnaround { history, changes, records } = found(&mut change, number, direction)?;
    let mut undone: Vec<Undone> = changes.iter().map(|entry| listed(change.engine(), entry)).collect();
    warn_of_damaged(change.engine(), history.damaged());
    match direction {
        Direction::Undo => warn_of_lost(change.engine(), &changes),
        Direction::Redo => warn_of_nothing(change.engine(), &changes),
    }
    change.set_reverts(changes.iter().map(|entry| entry.seq).collect());
    let single = changes.iter().map(|entry| entry.seq).min().map(Single::Turn);
    let manner = Manner { merge: true, between: Interleaved::Kept, single, ..Manner::default() };
    let paths = plan(&mut change, &history, &records, direction, &manner)?;
    change.commit(subject(direction.name(), &paths), request.options.why.clone())?;
    let end = ListEnd::of(engine, request.max_bytes, &mut undone);
    Ok(Response { undone, end })
}

/// Changes of a turn to undo or redo.
struct Turnaround {
    /// History of the session.
    history: History,
    /// The changes, in order.
    changes: Vec<JournalEntry>,
    /// Records to play for that.
    records: Vec<JournalEntry>,
}

/// Returns the changes of a turn to undo or redo.
fn found(change: &mut Change<'_>, number: u64, direction: Direction) -> Result<Turnaround, Error> {
    let session = change.engine().session().clone();
    let mut history = History::default();
    let mut changes = Vec::new();
    let mut records = Ok(Vec::new());
    if let Some(state) = change.state() {
        history = History::load(state, session.as_str())?;
        let seq = match number {
            0 => history.next(state, direction, 1, |_| true)?.first().map(|entry| entry.seq),
            _ => Some(number),
        };
        if let Some(seq) = seq {
            let turn = Turns::load(state, session.as_str())?.of(seq);
            changes = history.in_turn(state, direction, &turn)?;
        }
        if let Some(first) = changes.iter().map(|entry| entry.seq).min() {
            let mut since = history.since(state, first)?;
            let oldest = since.iter().flat_map(|entry| &entry.reverts).min().copied();
            if let Some(oldest) = oldest.filter(|oldest| *oldest < first) {
                since = history.since(state, oldest)?;
            }
            records = rebase::records(&changes, &since);
        }
    }
    if changes.is_empty() {
        return Err(missing(change.engine(), number, direction, &history));
    }
    let first = changes.iter().map(|entry| entry.seq).min().unwrap_or(number);
    let records = records.map_err(|path| {
        let shown = change.shown_original(&path);
        Single::Turn(first).overlap(session.as_str(), &shown, "it was moved or deleted since")
    })?;
    Ok(Turnaround { history, changes, records })
}

/// Returns the error for a turn without a change to undo or redo.
fn missing(engine: &Engine, number: u64, direction: Direction, history: &History) -> Error {
    if number == 0 {
        return nothing(engine, direction, None, history.damaged());
    }
    let newest = history.newest();
    if newest.is_none_or(|newest| newest < number) {
        return no_change(engine, "turn", number, newest);
    }
    let (session, name) = (engine.session(), direction.name());
    let message = format!("the turn of change {number} of session {session} has nothing to {name}");
    Error::new(ErrorKind::NotFound, message)
        .suggest("`log` with `turns` shows the turns, and which are undone.")
        .detail("field", "turn")
}
