//! What all of these tools take and say: the one path, the text of an answer, the words of errors.

use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::dialect::foreign::{Said, refused};
use crate::dialect::native::Native;
use crate::error::{Error, ErrorKind};

/// A file or directory, for the tools that need no more.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathRequest {
    /// Its path
    pub path: String,
}

/// A text as every one of these tools answers it: as a block, and structured.
pub fn said(text: String) -> Said {
    let structured = Some(json!({ "content": text }));
    Said { text, structured, ..Said::default() }
}

/// Words an error of a native call as the reference server does where it meets the same; `call` is the
/// system call that fails there.
pub fn worded(lbx: &Native<'_>, path: &str, call: &str, error: Error) -> Error {
    let Ok(absolute) = lbx.absolute(path) else { return error };
    let absolute = normalized(&absolute);
    let absolute = absolute.display();
    match error.kind() {
        ErrorKind::NotFound => no_entry(lbx, path, call),
        ErrorKind::OutsideWorkspace => {
            let root = lbx.root().map(|root| root.display().to_string()).unwrap_or_default();
            let words = format!("Access denied - path outside allowed directories: {absolute} not in {root}");
            refused(ErrorKind::OutsideWorkspace, path, words)
        }
        ErrorKind::IsADirectory => refused(
            ErrorKind::IsADirectory,
            path,
            "EISDIR: illegal operation on a directory, read".to_owned(),
        ),
        // A parent is no directory: the reference server fails when it resolves the path.
        ErrorKind::NotADirectory => refused(
            ErrorKind::NotADirectory,
            path,
            format!("ENOTDIR: not a directory, realpath '{absolute}'"),
        ),
        _ => error,
    }
}

/// A path without `.` and `..`, by its words alone.
fn normalized(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                parts.pop();
            }
            Component::CurDir => {}
            other => parts.push(other),
        }
    }
    parts
}

/// The error for a path at which nothing stands.
pub fn no_entry(lbx: &Native<'_>, path: &str, call: &str) -> Error {
    let absolute = lbx.absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    let words = format!("ENOENT: no such file or directory, {call} '{}'", absolute.display());
    refused(ErrorKind::NotFound, path, words)
}

/// Refuses a path whose folder does not exist: the reference server makes none on the way.
pub fn must_have_parent(lbx: &Native<'_>, path: &str, call: &str) -> Result<(), Error> {
    let absolute = lbx.absolute(path)?;
    let Some(parent) = absolute.parent() else { return Ok(()) };
    match lbx.is_folder(&parent.display().to_string()) {
        Ok(false) => Err(no_entry(lbx, path, call)),
        // What lies outside is refused by the call itself.
        Ok(true) | Err(_) => Ok(()),
    }
}
