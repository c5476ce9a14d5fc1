//! What a word in the path's place names: a file, now or once, or a snapshot.

use std::path::Path;

use crate::engine::Engine;
use crate::engine::change::record::unreadable;
use crate::engine::snapshot::{Query, Store};
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::{Error, ErrorKind};

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
    pub const fn is_range(&self) -> bool {
        matches!(self, Self::Between(..))
    }

    /// The commit, or the first one.
    pub fn into_first(self) -> String {
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

/// The commit that a request names.
///
/// # Errors
/// `not_found` with near snapshots, or where the repository cannot be read.
pub fn commit(store: &Store, name: &str, field: &str) -> Result<String, Error> {
    if let Some(id) = store.resolve(name).map_err(|error| unreadable(&error))? {
        return Ok(id);
    }
    Err(no_snapshot(name, field, &store.near(name)))
}

/// The refusal of a snapshot that there is not.
#[must_use]
pub fn no_snapshot(name: &str, field: &str, near: &[String]) -> Error {
    let error = Error::new(ErrorKind::NotFound, format!("no such snapshot: {name}")).detail("field", field);
    if near.is_empty() {
        return error.suggest("There is no snapshot yet: the first change makes one.");
    }
    error
        .suggest(format!(
            "Name a snapshot by its id or a unique beginning of it, such as {}; `log` lists them.",
            near.join(", ")
        ))
        .detail("near", near)
}
