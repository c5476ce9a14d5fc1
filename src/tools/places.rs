//! The places that a request names: what lies in them, and where they went.

use std::path::Path;

use crate::engine::Engine;
use crate::engine::history::moved::{self, MovedPath};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::{Error, ErrorKind};

/// The detail of an error that names where something went.
pub const MOVED_TO: &str = "moved_to";

/// `not_found` with the new name of what this session itself has moved; any other error as it is.
#[must_use]
pub fn or_moved(engine: &Engine, error: Error) -> Error {
    let is_open = error.kind() == ErrorKind::NotFound && !error.details().contains_key(MOVED_TO);
    let Some(shown) = error.path().filter(|_| is_open).map(str::to_owned) else { return error };
    let Some(moved) = moved_from(engine, &shown) else { return error };
    let to = engine.workspace.shown(&moved.to);
    error
        .add_to_message(&format!("; this session moved {shown} to {to} in change #{}", moved.seq))
        .suggest(format!("Did you mean {to}?"))
        .detail(MOVED_TO, to)
}

/// Where the session of the call has moved what was at a path, as answers show it, if that still stands there.
fn moved_from(engine: &Engine, shown: &str) -> Option<MovedPath> {
    let place = engine.workspace.resolve_entry(Path::new(shown)).ok()?;
    let state = State::find(&engine.workspace).ok()?.filter(|_| place.stat().is_none())?;
    let moved = moved::moved_from(&state, engine.session().as_str(), place.path()).ok()??;
    engine.workspace.place_of(&moved.to).ok()?.stat()?;
    Some(moved)
}

/// Whether a path is one of those places or lies below one; where none is named, every path does.
#[must_use]
pub fn lies_in_any(path: &[u8], places: &[ResolvedPath]) -> bool {
    places.is_empty() || places.iter().any(|place| lies_in(path, place.path()))
}

/// Whether a path is `folder` or lies below it.
#[must_use]
pub fn lies_in(path: &[u8], folder: &WorkspacePath) -> bool {
    let rest = path.strip_prefix(folder.as_bytes());
    folder.is_root() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}
