//! The last change of another session, which a person at a terminal may mean.

use std::path::Path;

use super::undone::{Undone, listed, touches};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::history::replay::Direction;
use crate::engine::history::stacks::History;
use crate::engine::journal::JournalEntry;
use crate::engine::store::state::State;
use crate::error::Error;
use crate::tools::sessions;

/// A change of another session.
pub struct Other {
    /// The session.
    pub session: String,
    /// The change.
    pub change: Undone,
}

/// The next change of the session that changed something last, where the caller's own has none to undo or redo.
///
/// # Errors
/// Fails if the snapshots or the journal cannot be read.
pub fn newest_of_others(
    engine: &Engine,
    direction: Direction,
    path: Option<&Path>,
) -> Result<Option<Other>, Error> {
    let path = path.map(|path| engine.workspace.resolve_entry(path)).transpose()?;
    let wanted = |entry: &JournalEntry| path.as_ref().is_none_or(|resolved| touches(entry, resolved.path()));
    let Some(state) = State::find(&engine.workspace)? else { return Ok(None) };
    let next = |session: &str| -> Result<Option<JournalEntry>, Error> {
        let mut history = History::load(&state, session)?;
        Ok(history.next(&state, direction, 1, wanted)?.pop())
    };
    if next(engine.session().as_str())?.is_some() {
        return Ok(None);
    }
    let sessions = record::find(engine)?.map(|store| sessions::all(&store)).transpose()?;
    for session in sessions.unwrap_or_default() {
        if let Some(entry) = next(&session)? {
            return Ok(Some(Other { session, change: listed(engine, &entry) }));
        }
    }
    Ok(None)
}
