//! Whether a path lies where a request names places.

use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::resolve::ResolvedPath;

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
