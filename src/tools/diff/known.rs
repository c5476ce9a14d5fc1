//! What a word in the path's place names: a file, now or once, or a snapshot.

use std::path::Path;

use super::Request;
use crate::engine::Engine;
use crate::engine::change::record::unreadable;
use crate::engine::snapshot::{Query, Store};
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::Error;
use crate::tools::log::{commit, no_snapshot};

/// What a word in the path's place names.
pub enum Named {
    /// A path at which something is, or was once.
    Path(Box<ResolvedPath>),
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
        return place.map(|place| Named::Path(Box::new(place)));
    }
    if let Some(text) = path.to_str()
        && let Some(revisions) = Revisions::of(store, text)?
    {
        return Ok(Named::Revisions(revisions));
    }
    let place = place?;
    is_known(engine, Some(store), &place, path)?;
    Ok(Named::Path(Box::new(place)))
}

/// The request with revisions in the paths' place understood, and the paths that are left.
///
/// Revisions come first, as under git: `A`, `A B`, `A..B`, each perhaps with paths behind.
///
/// # Errors
/// `not_found` for what is neither path nor revision, `invalid_request` for revisions too many.
pub fn settled(
    engine: &Engine,
    store: &Store,
    mut request: Request,
) -> Result<(Request, Vec<ResolvedPath>), Error> {
    let words = request.path.take().into_iter().chain(std::mem::take(&mut request.paths));
    let is_settled = request.of.is_some() || request.from.is_some() || request.to.is_some();
    let (mut places, mut revisions) = (Vec::new(), Vec::new());
    for word in words {
        if is_settled || !places.is_empty() {
            places.push(must_be_there(engine, Some(store), &word)?);
            continue;
        }
        match named(engine, store, &word)? {
            Named::Path(place) => places.push(*place),
            Named::Revisions(named) => revisions.push(named),
        }
    }
    let mut revisions = revisions.into_iter();
    match (revisions.next(), revisions.next(), revisions.next()) {
        (None, ..) => {}
        (Some(Revisions::Snapshot(id)), None, _) => request.of = Some(id),
        (Some(Revisions::Since(id)), None, _) => request.from = Some(id),
        (Some(Revisions::Between(from, to)), None, _) => {
            (request.from, request.to) = (Some(from), Some(to));
        }
        (Some(from), Some(to), None) if !from.is_range() && !to.is_range() => {
            (request.from, request.to) = (Some(from.into_first()), Some(to.into_first()));
        }
        _ => {
            return Err(Error::invalid("a diff compares two snapshots: A..B, or A and B")
                .detail("field", "path")
                .suggest("Name two snapshots at most, then paths."));
        }
    }
    Ok((request, places))
}

/// Refuses a path at which nothing is and never was, as far as the snapshots know.
///
/// # Errors
/// `not_found` with near names.
pub fn must_be_there(engine: &Engine, store: Option<&Store>, path: &Path) -> Result<ResolvedPath, Error> {
    let place = engine.workspace.resolve(path)?;
    is_known(engine, store, &place, path)?;
    Ok(place)
}

/// Refuses a place at which nothing is and never was.
fn is_known(
    engine: &Engine,
    store: Option<&Store>,
    place: &ResolvedPath,
    written: &Path,
) -> Result<(), Error> {
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
    let mut error = engine.workspace.not_found(place);
    if store.is_some() {
        error = error.add_to_message(", nor a snapshot of that name");
    }
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
    /// Whether it names two commits.
    const fn is_range(&self) -> bool {
        matches!(self, Self::Between(..))
    }

    /// The commit, or the first one.
    fn into_first(self) -> String {
        match self {
            Self::Snapshot(id) | Self::Since(id) | Self::Between(id, _) => id,
        }
    }

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
