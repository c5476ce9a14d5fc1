//! The trash: deleted files and folders, whole, with their modes, links and times.
//!
//! An entry is `trash/ID/` in the state, with the deleted file or folder as `content` and its description as
//! `entry.lbx`, a line of JSON and its SHA-256. Deleting and restoring are renames, so all metadata is kept.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use serde::{Deserialize, Serialize};

use super::lock::{is_unique, unique_name};
use super::session::SessionId;
use super::state::{State, path_in};
use crate::engine::store::{sealed, version_of};
use crate::engine::workspace::digest::Digest;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::removal;
use crate::engine::workspace::removal::RemovalResult;
use crate::error::Error;
use crate::sha256::{seal_of, split_seal};

/// Folder below the state folder.
pub const FOLDER: &str = "trash";
/// Name of the deleted file or folder in its entry.
pub const CONTENT: &str = "content";
/// Name of the description.
pub const DESCRIPTION: &str = "entry.lbx";
/// Prefix of entries that are being removed for good.
const PURGED_PREFIX: &str = ".purged-";
/// Largest description, in bytes.
pub const DESCRIPTION_BYTES_MAX: u64 = 1 << 20;
/// Version of a description that this code writes.
const VERSION: u32 = 2;
/// First version that ends with its digest.
const SEALED_SINCE: u32 = 2;

/// A deleted file or folder, with its description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrashEntry {
    /// Version of the format.
    version: u32,
    /// Name in the trash.
    pub id: String,
    /// Original path.
    pub path: WorkspacePath,
    /// Session that deleted it.
    pub session: String,
    /// Time of the deletion, in seconds since 1970.
    pub time: u64,
    /// Number of files in it.
    pub files: u64,
    /// Number of bytes in them.
    pub bytes: u64,
    /// True if it is a folder.
    pub is_folder: bool,
    /// Digest of the content, by which undo and restore check that it is unchanged; absent if it has no bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

impl TrashEntry {
    /// Returns an entry for a file or folder that is about to be deleted.
    pub fn new(path: WorkspacePath, session: &str, time: u64, is_folder: bool) -> Self {
        let id = unique_name("t").replace("t-", "");
        Self {
            version: VERSION,
            id,
            path,
            session: session.to_owned(),
            time,
            files: 0,
            bytes: 0,
            is_folder,
            digest: None,
        }
    }

    /// Returns the bytes of its description.
    ///
    /// # Errors
    /// Returns `internal` if it cannot be written as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        sealed(self)
    }

    /// Returns the path of the deleted content.
    pub fn content(&self, state: Option<&State>) -> WorkspacePath {
        path_in(state, FOLDER).join(self.id.as_ref()).join(CONTENT.as_ref())
    }

    /// Returns the path of its description.
    pub fn description(&self, state: &State) -> WorkspacePath {
        state.path_of(FOLDER).join(self.id.as_ref()).join(DESCRIPTION.as_ref())
    }
}

/// Entries of the trash with content.
#[derive(Default)]
pub struct TrashListing {
    /// Entries with a description, newest first.
    pub entries: Vec<TrashEntry>,
    /// Ids of those whose descriptions are damaged, in order.
    pub damaged: Vec<String>,
}

/// Lists the trash of a state, if there is one.
///
/// # Errors
/// Returns the OS error.
pub fn list(state: Option<&State>) -> Result<TrashListing, Error> {
    let mut listed = TrashListing::default();
    let Some(state) = state else { return Ok(listed) };
    for (trash, id) in state.entries(FOLDER)? {
        match entry(&trash, &id).map_err(|source| unreadable(state, &id, source))? {
            TrashDescription::Entry(entry) if is_unique(&id) => listed.entries.push(entry),
            TrashDescription::Damaged if is_unique(&id) => listed.damaged.push(id),
            _ => {}
        }
    }
    listed.entries.sort_unstable_by(|one, other| (other.time, &other.id).cmp(&(one.time, &one.id)));
    listed.damaged.sort_unstable();
    Ok(listed)
}

/// Returns the id of the entry whose content is or contains the path, or did so.
pub fn id_of(state: &State, path: &WorkspacePath) -> Option<String> {
    let trash = state.path_of(FOLDER);
    let id = path.rebased(&trash, &WorkspacePath::root()).components().next()?.to_str()?.to_owned();
    path.is_within(&trash).then_some(id)
}

/// Returns the content of the entry that a path is or lies in.
pub fn content_of(state: &State, path: &WorkspacePath) -> Option<WorkspacePath> {
    let id = id_of(state, path)?;
    let content = state.path_of(FOLDER).join(id.as_ref()).join(CONTENT.as_ref());
    path.is_within(&content).then_some(content)
}

/// Writes the description of an entry again.
///
/// # Errors
/// Returns the OS error.
pub fn describe(state: &State, entry: &TrashEntry) -> Result<File, Error> {
    let folder = state.folder(&format!("{FOLDER}/{}", entry.id))?;
    state.replace(folder.as_fd(), DESCRIPTION.as_ref(), &entry.to_bytes()?, &format!(".{DESCRIPTION}.new"))
}

/// Returns the description of the entry `id`, even if its content is gone.
///
/// # Errors
/// Returns the OS error.
pub fn described(state: &State, id: &str) -> Result<TrashDescription, Error> {
    let folder = state.find_folder(FOLDER)?.filter(|_| is_unique(id));
    let Some(trash) = folder else { return Ok(TrashDescription::Missing) };
    let described = fs::found(fs::open_at(trash.as_fd(), OsStr::new(id), fs::FOLDER))
        .and_then(|opened| opened.map_or(Ok(TrashDescription::Missing), |folder| description(&folder, id)));
    described.map_err(|source| unreadable(state, id, source))
}

/// Returns the error for an entry that cannot be read now.
fn unreadable(state: &State, id: &str, source: io::Error) -> Error {
    Error::io("read", state.display(&format!("{FOLDER}/{id}")), source)
}

/// Returns the original path of a path in the trash.
pub fn original(state: &State, path: &WorkspacePath) -> Option<WorkspacePath> {
    let entry = described(state, &id_of(state, path)?).ok()?.entry()?;
    Some(path.rebased(&entry.content(Some(state)), &entry.path))
}

/// Description of a trash entry, as found on disk.
pub enum TrashDescription {
    /// A valid description.
    Entry(TrashEntry),
    /// A description of a newer version, which cannot be read.
    Newer,
    /// A file that lbx did not write in this form.
    Damaged,
    /// No description, or no entry.
    Missing,
}

impl TrashDescription {
    /// Returns the entry, if the description is valid.
    pub fn entry(self) -> Option<TrashEntry> {
        match self {
            Self::Entry(entry) => Some(entry),
            Self::Newer | Self::Damaged | Self::Missing => None,
        }
    }
}

/// Returns the description of the entry `id`; `Missing` if its content is.
fn entry(trash: &OwnedFd, id: &str) -> io::Result<TrashDescription> {
    let Some(folder) = fs::found(fs::open_at(trash.as_fd(), OsStr::new(id), fs::FOLDER))? else {
        return Ok(TrashDescription::Missing);
    };
    if fs::found(fs::stat_at(folder.as_fd(), OsStr::new(CONTENT)))?.is_none() {
        return Ok(TrashDescription::Missing);
    }
    description(&folder, id)
}

/// Reads the description of the entry `id`.
fn description(folder: &OwnedFd, id: &str) -> io::Result<TrashDescription> {
    let read = fs::found(fs::read_at(folder.as_fd(), DESCRIPTION.as_ref(), DESCRIPTION_BYTES_MAX))?;
    Ok(match read {
        Some(Some(bytes)) => described_by(&bytes, id),
        Some(None) => TrashDescription::Missing,
        None => TrashDescription::Damaged,
    })
}

/// Parses the description of the entry `id`.
pub fn described_by(bytes: &[u8], id: &str) -> TrashDescription {
    let (json, seal) = split_seal(bytes);
    let version = version_of(json);
    if version > VERSION {
        return TrashDescription::Newer;
    }
    let is_sealed = seal == seal_of(json).as_bytes() || (version < SEALED_SINCE && seal.is_empty());
    match serde_json::from_slice::<TrashEntry>(json) {
        Ok(entry) if is_sealed && entry.id == id && entry.session.parse::<SessionId>().is_ok() => {
            TrashDescription::Entry(entry)
        }
        _ => TrashDescription::Damaged,
    }
}

/// Returns true if the entry `id` contains anything: a newer version may understand it.
///
/// # Errors
/// Returns the OS error.
pub fn has_content(state: &State, id: &str) -> Result<bool, Error> {
    let Some(trash) = state.find_folder(FOLDER)?.filter(|_| !id.starts_with(PURGED_PREFIX)) else {
        return Ok(false);
    };
    let folder = fs::open_at(trash.as_fd(), OsStr::new(id), fs::FOLDER);
    Ok(folder.is_ok_and(|folder| fs::stat_at(folder.as_fd(), OsStr::new(CONTENT)).is_ok()))
}

/// Returns the names of entries that a purge removed only in part.
///
/// # Errors
/// Returns the OS error.
pub fn partly_purged(state: &State) -> Result<Vec<String>, Error> {
    let names = state.entries(FOLDER)?.into_iter().map(|(_, name)| name);
    Ok(names.filter(|name| name.strip_prefix(PURGED_PREFIX).is_some_and(is_unique)).collect())
}

/// Removes the entry `id` for good.
///
/// Returns counts of the removed content. Renames the entry first: if the call is killed, or something is mounted in
/// the entry, the rest is incomplete and must not be restored.
///
/// # Errors
/// Returns the OS error.
pub fn purge(state: &State, id: &str) -> Result<RemovalResult, Error> {
    let Some(trash) = state.find_folder(FOLDER)? else {
        return Ok(RemovalResult::default());
    };
    let purged = format!("{PURGED_PREFIX}{id}");
    let is_renamed = is_unique(id) && fs::rename_at(&trash, id, &trash, &purged).is_ok();
    let name = if is_renamed { purged.as_str() } else { id };
    let mut removed = match fs::open_at(trash.as_fd(), OsStr::new(name), fs::FOLDER) {
        Ok(folder) => removal::remove(folder.as_fd(), OsStr::new(CONTENT)),
        Err(_) => RemovalResult::default(),
    };
    // Do not count lbx's own file.
    if !removed.is_partial {
        let rest = removal::remove(trash.as_fd(), OsStr::new(name));
        (removed.is_partial, removed.left) = (rest.is_partial, rest.left);
    }
    Ok(removed)
}
