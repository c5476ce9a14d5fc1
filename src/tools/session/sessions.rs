//! Which sessions are known in a workspace.

use std::collections::BTreeSet;

use crate::engine::Engine;
use crate::engine::change::record::{self, unreadable};
use crate::engine::snapshot::Query;
use crate::engine::store::session::{self, SessionId};
use crate::engine::store::state::State;
use crate::error::{Error, ErrorKind};

/// Sessions that a refusal names.
const NEAR_NAMED: usize = 3;
/// Newest snapshots whose sessions are known.
const SNAPSHOTS_LOOKED_AT: usize = 1000;

/// Refuses a session of which nothing is known here: neither state nor snapshot.
///
/// # Errors
/// `not_found`, with the nearest names, else the newest.
pub fn must_be_known(engine: &Engine, session: &SessionId) -> Result<(), Error> {
    let state = State::find(&engine.workspace)?;
    let listed = state.as_ref().map(session::list).transpose()?.unwrap_or_default();
    let mut names: Vec<String> = listed.iter().map(|known| known.id.to_string()).collect();
    let of_snapshots = snapshot_sessions(engine)?;
    names.extend(
        of_snapshots.into_iter().filter(|name| !listed.iter().any(|known| known.id.as_str() == name)),
    );
    let wanted = session.as_str();
    if names.iter().any(|name| name == wanted) {
        return Ok(());
    }
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let alike = similar::get_close_matches(wanted, &all, NEAR_NAMED, 0.6);
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

/// The sessions of the newest snapshots.
fn snapshot_sessions(engine: &Engine) -> Result<BTreeSet<String>, Error> {
    let Some(store) = record::find(engine)? else {
        return Ok(BTreeSet::new());
    };
    let query = Query { limit: SNAPSHOTS_LOOKED_AT, ..Query::default() };
    let log = store.log(&query).map_err(|error| unreadable(&error))?;
    let names = log.snapshots.into_iter().map(|snapshot| snapshot.session);
    Ok(names.filter(|name| !name.is_empty()).collect())
}
