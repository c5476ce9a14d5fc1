//! What each session changed, one after the other.

use super::Request;
use super::answer::{FileStat, Response, SessionDiff};
use super::compared::{Compared, Who};
use super::window::Window;
use crate::engine::Engine;
use crate::engine::change::record::unreadable;
use crate::engine::snapshot::Store;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::Error;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::tools::places::lies_in_any;
use crate::tools::sessions;

/// Whether what each session changed is shown: where that is asked for, and to a person who asks for
/// nothing else and has no session of their own.
pub fn is_by_session(engine: &Engine, request: &Request, store: &Store, who: &Who) -> Result<bool, Error> {
    let names_any = request.of.is_some() || request.from.is_some() || request.to.is_some();
    if request.by_session && names_any {
        return Err(Error::invalid("by_session cannot be combined with from, to and of: leave them out")
            .detail("field", "by_session"));
    }
    if request.by_session || names_any || who.is_named || !engine.is_for_a_person() {
        return Ok(request.by_session);
    }
    let own = store.steps_of(&who.session, who.after).map_err(|error| unreadable(&error))?;
    Ok(own.is_empty())
}

/// What each session changed, the one that did so last first.
pub fn by_session(
    engine: &Engine,
    store: &Store,
    request: &Request,
    places: &[ResolvedPath],
) -> Result<Response, Error> {
    let mut whole = Response { sessions: Some(Vec::new()), ..Response::of(&Compared::default(), 0) };
    let mut room = AnswerRoom::new(engine.bytes_max(request.max_bytes));
    for name in sessions::all(store)? {
        engine.control.check()?;
        let Ok(id) = name.parse() else { continue };
        let chosen = sessions::named(engine, &id)?;
        let changed = store.changed_by(&name, chosen.after).map_err(|error| unreadable(&error))?;
        let Some(mut changed) = changed else { continue };
        changed.paths.retain(|change| lies_in_any(&change.path, places));
        if changed.paths.is_empty() {
            continue;
        }
        if room.is_empty() {
            whole.truncated = true;
            break;
        }
        let deltas = store.deltas(&changed.paths).map_err(|error| unreadable(&error))?;
        let mut response = Response::of(&Compared::default(), deltas.len());
        let filled = if request.stat {
            response.fill_stat(store, &deltas, 0, room)
        } else {
            response.fill_diff(store, &deltas, Window::new(0, room), request.binary)
        };
        filled.map_err(|error| unreadable(&error))?;
        whole.files += response.files;
        whole.truncated |= response.truncated;
        whole.cut_lines += response.cut_lines;
        let said = response
            .stat
            .iter()
            .flatten()
            .map(FileStat::size)
            .fold(TextSize::of(name.as_bytes()), TextSize::and);
        room = room.beside(said.and(TextSize::of(&response.bytes)));
        let Response { files, stat, diff, bytes, .. } = response;
        let session = SessionDiff { session: name, files, stat, diff, bytes };
        whole.sessions.get_or_insert_default().push(session);
    }
    Ok(whole)
}
