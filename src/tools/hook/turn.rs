//! Turns of the session: where they begin and end, and a line about what one has changed.

use super::event::Event;
use crate::engine::Engine;
use crate::engine::history::session_diff::{Before, NetChange, Side, net};
use crate::engine::history::turns::{Turn, Turns};
use crate::engine::journal::{self, JournalEntry, Version};
use crate::engine::store::state::State;
use crate::error::Error;
use crate::limits::COUNTED_FILES_MAX;
use crate::text::diff::{self, Counts};
use crate::text::plural::plural;

/// Name of the tool that serves the hooks.
const TOOL: &str = "hook";
/// Most changes of a turn that are read for the line about it.
const CHANGES_MAX: u64 = 1000;

/// Begins a turn at a prompt.
///
/// # Errors
/// Fails if the state cannot be written.
pub fn begin(engine: &mut Engine, event: &Event) -> Result<(), Error> {
    let title = event.prompt.as_deref().filter(|_| engine.policy().keeps_titles());
    with_turns(engine, |turns, next| {
        let key = event.turn.clone().unwrap_or_else(|| format!("prompt-{next}"));
        turns.begin(&key, title, next);
    })
}

/// Begins the turn of an event, if no prompt did: a subagent gets no prompt, and some clients do not report it.
///
/// # Errors
/// Fails if the state cannot be written.
pub fn join(engine: &mut Engine, event: &Event) -> Result<(), Error> {
    let is_its = |turn: &Turn| event.turn.as_ref().is_none_or(|key| turn.key == *key);
    let has_begun = match State::find(&engine.workspace)? {
        Some(state) => Turns::load(&state, engine.session().as_str())?.open().is_some_and(is_its),
        None => false,
    };
    if has_begun {
        return Ok(());
    }
    with_turns(engine, |turns, next| {
        let key = event.turn.clone().unwrap_or_else(|| format!("turn-{next}"));
        turns.begin(&key, None, next);
    })
}

/// Ends the turn; returns a line about it, if it has changed anything.
///
/// # Errors
/// Fails if the state cannot be read or written.
pub fn end(engine: &mut Engine) -> Result<Option<String>, Error> {
    let mut ended = None;
    with_turns(engine, |turns, next| {
        ended = turns.open().cloned().map(|turn| Turn { last: Some(next - 1), ..turn });
        turns.end(next);
    })?;
    let Some(turn) = ended.filter(|turn| turn.last >= Some(turn.first)) else { return Ok(None) };
    let Some(state) = State::find(&engine.workspace)? else { return Ok(None) };
    let session = engine.session().to_string();
    let last = turn.last.unwrap_or(turn.first);
    let mut entries: Vec<JournalEntry> = Vec::new();
    for seq in turn.first.max(last.saturating_sub(CHANGES_MAX))..=last {
        entries.extend(journal::done_entry(&state, &session, seq)?);
    }
    let changes = net(&entries);
    if changes.is_empty() {
        return Ok(None);
    }
    let mut sum = Counts::default();
    for change in changes.iter().take(COUNTED_FILES_MAX) {
        let counts = counts_of(engine, &state, change).unwrap_or_default();
        (sum.added, sum.removed) = (sum.added + counts.added, sum.removed + counts.removed);
    }
    let files = plural(changes.len(), "file");
    Ok(Some(format!(
        "{files}, +{} -{}; undo: lbx undo --turn {last} --session {session}",
        sum.added, sum.removed
    )))
}

/// Returns the lines that a change added and removed; `None` if bytes of it are lost.
fn counts_of(engine: &Engine, state: &State, change: &NetChange) -> Option<Counts> {
    let version = |version: &Version| engine.find_version(state, &change.path, version.sha256);
    let bytes = |side: &Side| match side {
        Side::Nothing => Some(Vec::new()),
        Side::Version(known) => version(known),
        Side::Separate(own) => match own.before(|known| Ok::<_, Error>(version(known))) {
            Ok(Before::Known(None)) => Some(Vec::new()),
            Ok(Before::Known(Some(known))) => version(&known),
            Ok(Before::Text(_, text)) => Some(text),
            Err(_) => None,
        },
        Side::At(_) => None,
    };
    Some(diff::counts(&bytes(&change.before)?, &bytes(&change.after)?))
}

/// Changes the turns of the session; the second argument of `work` is the number of its next change.
fn with_turns(engine: &mut Engine, work: impl FnOnce(&mut Turns, u64)) -> Result<(), Error> {
    let session = engine.session().to_string();
    let change = engine.begin(TOOL, &[], false)?;
    let Some(state) = change.state() else { return Ok(()) };
    let found = Turns::load(state, &session)?;
    let mut turns = found.clone();
    work(&mut turns, change.number());
    if turns == found { Ok(()) } else { turns.save(state, &session) }
}
