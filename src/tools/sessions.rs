//! Which session a call of the developer's is about.

use crate::engine::Engine;
use crate::engine::change::record::unreadable;
use crate::engine::snapshot::Store;
use crate::engine::store::session;
use crate::engine::store::session::SessionId;
use crate::engine::store::state::State;
use crate::error::{Error, ErrorKind};

/// Sessions that a refusal names.
const NAMED_MAX: usize = 10;

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its name.
    pub session: String,
    /// The number of its last change before it ended and began anew; 0 where it never did.
    pub after: u64,
}

/// The session of that name.
///
/// # Errors
/// What the system says.
pub fn named(engine: &Engine, session: &SessionId) -> Result<Chosen, Error> {
    let known = State::find(&engine.workspace)?.and_then(|state| session::peek(&state, session));
    let after = known.and_then(|known| known.after()).map_or(0, |ended| ended.seq);
    Ok(Chosen { session: session.to_string(), after })
}

/// The session of the call; it must have changed something.
///
/// # Errors
/// `not_found`, with the sessions that have.
pub fn own(engine: &Engine, store: &Store) -> Result<Chosen, Error> {
    let chosen = named(engine, engine.session())?;
    let has_changed =
        !store.steps_of(&chosen.session, chosen.after).map_err(|error| unreadable(&error))?.is_empty();
    if has_changed { Ok(chosen) } else { Err(has_changed_nothing(store, &chosen.session)?) }
}

/// The session of the call, else the one that changed something last: for calls that only look.
///
/// # Errors
/// `not_found` where none has.
pub fn own_or_newest(engine: &Engine, store: &Store) -> Result<Chosen, Error> {
    match own(engine, store) {
        Err(error) if engine.named_session().is_some() => Err(error),
        Err(error) => match all(store)?.first().and_then(|newest| newest.parse::<SessionId>().ok()) {
            Some(newest) => named(engine, &newest),
            None => Err(error),
        },
        Ok(chosen) => Ok(chosen),
    }
}

/// The sessions that changed something, the one that did so last first.
///
/// # Errors
/// Where the snapshots cannot be read.
pub fn all(store: &Store) -> Result<Vec<String>, Error> {
    store.sessions().map_err(|error| unreadable(&error))
}

/// The refusal of a session that changed nothing.
fn has_changed_nothing(store: &Store, session: &str) -> Result<Error, Error> {
    let mut others = all(store)?;
    others.retain(|other| other != session);
    others.truncate(NAMED_MAX);
    let error = Error::new(ErrorKind::NotFound, format!("session {session} has changed nothing"));
    if others.is_empty() {
        return Ok(error.suggest("No session has a snapshot here."));
    }
    let suggestion = format!("Name one of those that have: {}.", others.join(", "));
    Ok(error.suggest(suggestion).detail("sessions", others))
}
