//! The trash: what was deleted, whole, with its modes, links and times.
//!
//! An entry is `.lbx/trash/ID/` with what was deleted as `content` and its description as
//! `entry.json`. Deleting and restoring are renames, so nothing of the files' identity is lost.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use serde::{Deserialize, Serialize};

use super::fs;
use super::path::WorkspacePath;
use super::state::{State, path_in, unique_name};
use super::transaction::journal::names_in;
use crate::error::Error;

/// The folder below the state folder.
pub const FOLDER: &str = "trash";
/// The name of what was deleted, in its entry.
const CONTENT: &str = "content";
/// The name of its description.
pub const DESCRIPTION: &str = "entry.json";
/// Size of a description.
const DESCRIPTION_BYTES_MAX: u64 = 1 << 20;
/// Version of a description that this code writes.
const VERSION: u32 = 1;

/// What was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrashEntry {
    /// Version of the format.
    version: u32,
    /// Its name in the trash.
    pub id: String,
    /// Where it was.
    pub path: WorkspacePath,
    /// Who deleted it.
    pub session: String,
    /// When, seconds since 1970.
    pub time: u64,
    /// Files in it.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Whether it is a folder.
    pub is_folder: bool,
}

impl TrashEntry {
    /// An entry for something that is about to be deleted.
    #[must_use]
    pub fn new(path: WorkspacePath, session: &str, time: u64, is_folder: bool) -> Self {
        let id = unique_name("t").replace("t-", "");
        Self { version: VERSION, id, path, session: session.to_owned(), time, files: 0, bytes: 0, is_folder }
    }

    /// Where what was deleted is kept.
    #[must_use]
    pub fn content(&self, state: Option<&State>) -> WorkspacePath {
        path_in(state, FOLDER).join(self.id.as_ref()).join(CONTENT.as_ref())
    }

    /// Where its description is kept.
    #[must_use]
    pub fn description(&self, state: &State) -> WorkspacePath {
        state.path_of(FOLDER).join(self.id.as_ref()).join(DESCRIPTION.as_ref())
    }
}

/// What is in the trash, the newest first.
///
/// # Errors
/// What the system says.
pub fn list(state: &State) -> Result<Vec<TrashEntry>, Error> {
    let Some(trash) = state.find_folder(FOLDER)? else {
        return Ok(Vec::new());
    };
    let mut entries = Vec::new();
    for id in names_in(&trash)? {
        let Some(folder) = state.find_folder(&format!("{FOLDER}/{id}"))? else {
            continue;
        };
        let has_content = fs::stat_at(folder.as_fd(), OsStr::new(CONTENT)).is_ok();
        let description =
            fs::read_at(folder.as_fd(), DESCRIPTION.as_ref(), DESCRIPTION_BYTES_MAX).ok().flatten();
        let entry = description.and_then(|bytes| serde_json::from_slice::<TrashEntry>(&bytes).ok());
        entries.extend(entry.filter(|entry| has_content && entry.id == id && entry.version <= VERSION));
    }
    entries.sort_by(|one, other| (other.time, &other.id).cmp(&(one.time, &one.id)));
    Ok(entries)
}

/// Whether anything deleted is in the entry `id`.
///
/// # Errors
/// What the system says.
pub fn has_content(state: &State, id: &str) -> Result<bool, Error> {
    let folder = state.find_folder(&format!("{FOLDER}/{id}"))?;
    Ok(folder.is_some_and(|folder| fs::stat_at(folder.as_fd(), OsStr::new(CONTENT)).is_ok()))
}

/// Removes the entry `id` for good; whether all of it could be removed.
#[must_use]
pub fn purge(state: &State, root: &std::path::Path, id: &str) -> bool {
    let folder = root.join(state.path_of(FOLDER).join(id.as_ref()).as_path());
    // `remove_dir_all` opens each folder from the one before and follows no link.
    std::fs::remove_dir_all(folder).is_ok()
}
