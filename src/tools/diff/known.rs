//! What a word in the path's place names: a file, now or once, or a snapshot.

use std::path::Path;

use super::Request;
use crate::engine::Engine;
use crate::engine::change::record::unreadable;
use crate::engine::snapshot::{Query, Store};
use crate::engine::workspace::resolve::Place;
use crate::error::Error;
use crate::tools::log::{commit, no_snapshot};

/// What a word in the path's place names.
pub enum Named {
    /// A path at which something is, or was once.
    Path(Place),
    /// Snapshots.
    Revisions(Revisions),
}

/// What `path` names: what is there, else a revision, else what once was there.
///
/// # Errors
/// `not_found` for what is none of these.
pub fn named(engine: &Engine, store: &Store, path: &Path) -> Result<Named, Error> {
    let place = engine.workspace.resolve(path);
    if place.as_ref().is_ok_and(|place| place.stat().is_some()) {
        return place.map(Named::Path);
    }
    if let Some(text) = path.to_str()
        && let Some(revisions) = Revisions::of(store, text)?
    {
        return Ok(Named::Revisions(revisions));
    }
    let place = place?;
    is_known(engine, Some(store), &place, path)?;
    Ok(Named::Path(place))
}

/// The request with a revision in the path's place understood, and the path that is left.
///
/// # Errors
/// `not_found` for what is neither path nor revision.
pub fn settled(
    engine: &Engine,
    store: &Store,
    mut request: Request,
) -> Result<(Request, Option<Place>), Error> {
    let Some(path) = &request.path else {
        return Ok((request, None));
    };
    if request.of.is_some() || request.from.is_some() || request.to.is_some() {
        let place = must_be_there(engine, Some(store), path)?;
        return Ok((request, Some(place)));
    }
    match named(engine, store, path)? {
        Named::Path(place) => return Ok((request, Some(place))),
        Named::Revisions(Revisions::Snapshot(id)) => request.of = Some(id),
        Named::Revisions(Revisions::Since(id)) => request.from = Some(id),
        Named::Revisions(Revisions::Between(from, to)) => {
            (request.from, request.to) = (Some(from), Some(to));
        }
    }
    request.path = None;
    Ok((request, None))
}

/// Refuses a path at which nothing is and never was, as far as the snapshots know.
///
/// # Errors
/// `not_found` with near names.
pub fn must_be_there(engine: &Engine, store: Option<&Store>, path: &Path) -> Result<Place, Error> {
    let place = engine.workspace.resolve(path)?;
    is_known(engine, store, &place, path)?;
    Ok(place)
}

/// Refuses a place at which nothing is and never was.
fn is_known(engine: &Engine, store: Option<&Store>, place: &Place, written: &Path) -> Result<(), Error> {
    if place.stat().is_some() {
        return Ok(());
    }
    let query = Query { path: Some(place.path().as_bytes()), limit: 1, ..Query::default() };
    let was_there = match store {
        Some(store) => {
            !store.log(&query).map_err(|error| unreadable(&error))?.snapshots.is_empty()
                || store.has_at_head(place.path().as_bytes()).map_err(|error| unreadable(&error))?
        }
        None => false,
    };
    if was_there {
        return Ok(());
    }
    let written = written.display().to_string();
    let error = engine.workspace.not_found(place);
    let near = store.map(|store| store.near(&written)).unwrap_or_default();
    let looks_like_id = written.len() >= 4 && written.bytes().all(|byte| byte.is_ascii_hexdigit());
    if looks_like_id { Err(no_snapshot(&written, "path", &near)) } else { Err(error) }
}

/// What a revision in the path's place stands for.
pub enum Revisions {
    /// What this snapshot changed.
    Snapshot(String),
    /// What changed since this commit.
    Since(String),
    /// What differs between these two.
    Between(String, String),
}

impl Revisions {
    /// What `text` stands for; `None` where it names no revision.
    fn of(store: &Store, text: &str) -> Result<Option<Self>, Error> {
        if let Some((from, to)) = text.split_once("..")
            && !from.is_empty()
            && !from.contains('/')
        {
            let to = to.strip_prefix('.').unwrap_or(to);
            let to = if to.is_empty() { store.branch() } else { to.to_owned() };
            return Ok(Some(Self::Between(commit(store, from, "from")?, commit(store, &to, "to")?)));
        }
        let broken = |error| unreadable(&error);
        let Some(id) = store.resolve(text).map_err(broken)? else {
            return Ok(None);
        };
        let is_snapshot = store.time_of_foreign(&id).map_err(broken)?.is_none();
        Ok(Some(if is_snapshot { Self::Snapshot(id) } else { Self::Since(id) }))
    }
}
