//! What a diff is between, and whose changes it shows.

use super::Request;
use crate::engine::Engine;
use crate::engine::change::record::unreadable;
use crate::engine::snapshot::{PathChange, SnapshotError, Store};
use crate::engine::store::session;
use crate::engine::store::state::State;
use crate::error::Error;
use crate::tools::revisions::commit;

/// Most files that a diff looks at.
const FILES_MAX: usize = 100_000;
/// What a diff is between.
#[derive(Debug, Default)]
pub struct Compared {
    /// The earlier commit.
    pub from: Option<String>,
    /// The later commit.
    pub to: Option<String>,
    /// The session, where this is what it changed.
    pub session: Option<String>,
    /// The paths that differ.
    pub changes: Vec<PathChange>,
}

/// Whose changes a diff without a snapshot shows.
pub struct Who {
    /// The caller's session.
    pub session: String,
    /// The number of its last change before it ended and began anew; 0 where it never did.
    pub after: u64,
    /// Whether the call itself names it.
    pub is_named: bool,
}

impl Who {
    /// The caller.
    pub fn of(engine: &Engine) -> Result<Self, Error> {
        let state = State::find(&engine.workspace)?;
        let known = state.and_then(|state| session::peek(&state, engine.session()));
        let after = known.and_then(|known| known.after()).map_or(0, |ended| ended.seq);
        let is_named = engine.named_session().is_some();
        Ok(Self { session: engine.session().to_string(), after, is_named })
    }
}

/// What the request wants to see compared.
pub fn compared(store: &Store, request: &Request, who: &Who) -> Result<Compared, Error> {
    let broken = |error: SnapshotError| unreadable(&error);
    let named =
        |name: &Option<String>, field| name.as_deref().map(|name| commit(store, name, field)).transpose();
    let (of, from, to) =
        (named(&request.of, "of")?, named(&request.from, "from")?, named(&request.to, "to")?);
    if of.is_none() && from.is_none() && to.is_none() {
        let session = Some(who.session.clone());
        if let Some(changed) = store.changed_by(&who.session, who.after).map_err(broken)? {
            let (from, to) = (changed.before, Some(changed.last));
            return Ok(Compared { from, to, session, changes: changed.paths });
        }
        if who.is_named {
            return Ok(Compared { session, ..Compared::default() });
        }
    }
    let is_any = of.is_none() && from.is_none() && to.is_none();
    let to = match of.or(to) {
        Some(to) => Some(to),
        None if is_any => store.newest_change().map_err(broken)?,
        None => store.tip().map_err(broken)?,
    };
    let Some(to) = to else {
        // Without a snapshot nothing differs from anything.
        return Ok(Compared { from, ..Compared::default() });
    };
    let from = match from {
        Some(from) => Some(from),
        None => store.parent(&to).map_err(broken)?,
    };
    let changes = store.changes(from.as_deref(), &to, FILES_MAX).map_err(broken)?.paths;
    Ok(Compared { from, to: Some(to), session: None, changes })
}
