//! From the paths of a request to the roots of a walk.

use std::path::{Path, PathBuf};

use schemars::{Schema, SchemaGenerator, json_schema};

use super::walk::Root;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::fs;
use crate::error::{Error, ErrorKind};
use crate::text::counted::counted;

/// Paths in one request.
const PATHS_MAX: usize = 10_000;

/// What to do with a glob that was given as a path.
const GLOB_AS_PATH: &str =
    "A path has no wildcards: give the folder as `path` and the glob as `include` or `pattern`.";

/// What a search can begin at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// Folders alone.
    Folders,
    /// Folders and regular files.
    Searchable,
    /// Whatever there is.
    Anything,
}

/// The roots that `paths` lead to; no path at all is the current folder.
///
/// # Errors
/// `not_found` with near names, `outside_workspace`, and what is refused at the beginning asked
/// for.
pub fn roots(workspace: &Workspace, paths: &[PathBuf], beginning: Beginning) -> Result<Vec<Root>, Error> {
    if paths.len() > PATHS_MAX {
        return Err(Error::invalid(format!("{}; the limit is {PATHS_MAX}", counted(paths.len(), "path"))));
    }
    if paths.is_empty() {
        return Ok(vec![root(workspace, Path::new("."), beginning)?]);
    }
    paths.iter().map(|path| root(workspace, path, beginning)).collect()
}

/// The root that one path leads to.
fn root(workspace: &Workspace, path: &Path, beginning: Beginning) -> Result<Root, Error> {
    let place = workspace.resolve(path)?;
    let Some(stat) = place.stat() else {
        let error = workspace.not_found(&place);
        let is_glob = path.to_string_lossy().contains(['*', '?', '{']);
        return Err(if is_glob { error.suggest(GLOB_AS_PATH) } else { error });
    };
    let is_folder = fs::is_folder(stat);
    let refusal = match beginning {
        Beginning::Folders if !is_folder => Some((ErrorKind::NotADirectory, "is not a directory")),
        Beginning::Searchable if !is_folder && !fs::is_regular(stat) => {
            Some((ErrorKind::NotARegularFile, "is neither a regular file nor a directory"))
        }
        _ => None,
    };
    match refusal {
        Some((kind, what)) => Err(Error::new(kind, format!("{} {what}", place.shown())).at(place.shown())),
        None => Ok(Root { path: place.path().clone(), is_folder }),
    }
}

/// The schema of a field that takes one text or several.
#[must_use]
pub fn one_or_many(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "array"], "items": { "type": "string" } })
}
