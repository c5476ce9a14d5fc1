//! A diff's words in the paths' place, understood.

use super::Request;
use crate::engine::Engine;
use crate::engine::snapshot::Store;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::Error;
use crate::tools::revisions::{Named, Revisions, must_be_there, named};

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
