//! Which sessions there are, and which one a call is about.

use crate::engine::Engine;
use crate::engine::change::record::{self, unreadable};
use crate::engine::journal;
use crate::engine::snapshot::Store;
use crate::engine::store::session;
use crate::engine::store::session::SessionId;
use crate::engine::store::state::{STATE_FOLDER, State};
use crate::error::{Error, ErrorKind};
use crate::text::likeness;

/// Sessions that a refusal names.
const NAMED_MAX: usize = 10;
/// Names that come nearest to one that is not known, or the newest ones.
const NEAR_NAMED: usize = 3;

/// Advice if a session has nothing to undo. It names no other session: their changes are others' work.
pub const LOG_SHOWS: &str = "`log` shows the changes of all sessions.";

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its name.
    pub session: String,
    /// The number of its last change before it ended and began anew; 0 where it never did.
    pub after: u64,
}

/// What is to be said where the snapshots have changes of the caller's session that lbx's state knows nothing of.
#[must_use]
pub fn lost_state(engine: &Engine) -> Option<String> {
    let session = engine.session();
    let store = record::find(engine).ok()??;
    let newest = store.newest().ok()??;
    let shown = store.session_at(&newest, Some(session.as_str())).ok()??.seq;
    let state = State::find(&engine.workspace).ok()?;
    let recorded = state.as_ref().and_then(|state| journal::history(state, session.as_str()).ok()?.pop());
    let counted = state.as_ref().and_then(|state| session::peek(state, session)).map(|known| known.seq);
    (recorded.max(counted).unwrap_or(0) < shown).then(|| {
        format!(
            "the snapshots show changes of session {session} up to number {shown}, but their records and the trash are gone: {STATE_FOLDER} was removed since, as `git clean -xdf` does"
        )
    })
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

/// Refuses a session of which nothing is known here: neither state nor snapshot.
///
/// # Errors
/// `not_found`, with the nearest names, else the newest.
pub fn must_be_known(engine: &Engine, session: &SessionId) -> Result<(), Error> {
    let state = State::find(&engine.workspace)?;
    let listed = state.as_ref().map(session::list).transpose()?.unwrap_or_default();
    let mut names: Vec<String> = listed.iter().map(|known| known.id.to_string()).collect();
    let wanted = session.as_str();
    if names.iter().any(|name| name == wanted) {
        return Ok(());
    }
    let of_snapshots = record::find(engine)?.map(|store| all(&store)).transpose()?.unwrap_or_default();
    if of_snapshots.iter().any(|name| name == wanted) {
        return Ok(());
    }
    names.extend(
        of_snapshots.into_iter().filter(|name| !listed.iter().any(|known| known.id.as_str() == name)),
    );
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let alike = likeness::nearest(wanted, &all, NEAR_NAMED, 0.6);
    let (near, advice) = if alike.is_empty() {
        let newest: Vec<&str> = all.iter().copied().take(NEAR_NAMED).collect();
        let advice = match newest.as_slice() {
            [] => "No session has done anything in this workspace.".to_owned(),
            newest => format!("Sessions used last: {}.", newest.join(", ")),
        };
        (newest, advice)
    } else {
        let advice = format!("Did you mean {}?", alike.join(", "));
        (alike, advice)
    };
    Err(Error::new(ErrorKind::NotFound, format!("no such session: {wanted}"))
        .suggest(advice)
        .on_command_line("`lbx session list` lists them.")
        .detail("near", near))
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
