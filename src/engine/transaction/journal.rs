//! The journal: what a change is about to do, on disk before its first rename.
//!
//! An open entry is `.lbx/journal/open/ID.json`. When the change is done it becomes
//! `.lbx/journal/done/SESSION/SEQ.json`, the session's history.

use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use serde::{Deserialize, Serialize};

use super::identity::Identity;
use crate::engine::fs;
use crate::engine::path::WorkspacePath;
use crate::engine::state::{State, shown};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;

/// Version of an entry that this code writes.
const VERSION: u32 = 1;
/// Size of an entry: a patch over some 100,000 files.
const ENTRY_BYTES_MAX: u64 = 64 << 20;
/// Where the entries of unfinished changes are.
pub const OPEN_FOLDER: &str = "journal/open";
/// Where those of finished changes are, in a folder a session.
pub const DONE_FOLDER: &str = "journal/done";
/// Where things wait between two names.
pub const HELD_FOLDER: &str = "journal/held";
/// Where those are that neither could be completed nor rolled back.
pub const STUCK_FOLDER: &str = "journal/stuck";

/// A file on one side of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// SHA-256 of its bytes.
    pub sha256: Sha256,
    /// Their number.
    pub size: u64,
    /// Its permission bits; of a symlink, whose bytes are its target, the type bits.
    pub mode: u32,
    /// Owner and attributes, where the change deletes it and a new file would have others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// What a change does to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// The canonical path.
    pub path: WorkspacePath,
    /// The file before; `None` where there was none.
    pub before: Option<Version>,
    /// The file after; `None` where it is deleted.
    pub after: Option<Version>,
    /// Where the new bytes wait to be renamed to their place.
    pub staged: Option<WorkspacePath>,
}

/// A file or folder that gets another name, whole: to or from the trash, or within the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveEntry {
    /// Its canonical path before.
    pub from: WorkspacePath,
    /// Its canonical path after.
    pub to: WorkspacePath,
    /// Where it waits between the two, where its new name is free only once other things have moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<WorkspacePath>,
    /// Its inode, which tells it from whatever takes its old name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
}

impl MoveEntry {
    /// A move straight to the new name.
    #[must_use]
    pub fn new(from: WorkspacePath, to: WorkspacePath) -> Self {
        Self { from, to, via: None, inode: None }
    }
}

/// The permission bits of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderMode {
    /// The folder.
    pub path: WorkspacePath,
    /// Its permission bits.
    pub mode: u32,
}

/// The description of something in the trash, which comes to its place with the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Where it waits.
    pub staged: WorkspacePath,
    /// Where it belongs.
    pub path: WorkspacePath,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Version of the format.
    version: u32,
    /// Its own name, unique.
    pub id: String,
    /// Whose change it is.
    pub session: String,
    /// The tool that makes it.
    pub tool: String,
    /// Its number in the session, from 1.
    pub seq: u64,
    /// When it began, seconds since 1970.
    pub time: u64,
    /// Its one line in the snapshot log.
    pub subject: String,
    /// The caller's reason.
    #[serde(default)]
    pub why: Option<String>,
    /// What the policy made of the change, `warn` or `off`, where its caller had not seen the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Digest of the request, by which a repeated one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Sha256>,
    /// The changes of the session that an `undo` takes back, the newest first, or that a `redo`
    /// does again, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverts: Vec<u64>,
    /// The files in which an `undo` or a `redo` kept what others had changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<WorkspacePath>,
    /// The files it changes: those that go under their names before any move, the others under
    /// their names after all moves.
    pub files: Vec<FileEntry>,
    /// What it moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<MoveEntry>,
    /// The descriptions of what it moves to the trash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub descriptions: Vec<Description>,
    /// The folders it makes, outermost first.
    #[serde(default)]
    pub folders: Vec<WorkspacePath>,
    /// The folders it removes before something else takes their names, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleared: Vec<WorkspacePath>,
    /// The folders it removes in the end where they are empty, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vacated: Vec<WorkspacePath>,
    /// What those that it removes are besides their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes_before: Vec<FolderMode>,
    /// The same of those it makes, where a new folder would be another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes_after: Vec<FolderMode>,
}

impl Entry {
    /// An entry for a change that is about to begin.
    #[must_use]
    pub fn new(id: String, session: &str, tool: &str, seq: u64, time: u64) -> Self {
        Self {
            version: VERSION,
            id,
            session: session.to_owned(),
            tool: tool.to_owned(),
            seq,
            time,
            subject: String::new(),
            why: None,
            gate: None,
            request: None,
            reverts: Vec::new(),
            merged: Vec::new(),
            files: Vec::new(),
            moves: Vec::new(),
            descriptions: Vec::new(),
            folders: Vec::new(),
            cleared: Vec::new(),
            vacated: Vec::new(),
            modes_before: Vec::new(),
            modes_after: Vec::new(),
        }
    }

    /// The name of its file.
    fn name(&self) -> String {
        format!("{}.json", self.id)
    }

    /// Writes it under a temporary name; the file is the caller's to sync.
    ///
    /// # Errors
    /// What the system says.
    pub fn prepare(&self, state: &State) -> Result<PendingEntry, Error> {
        let folder = state.folder(OPEN_FOLDER)?;
        let temporary = format!(".{}", self.name());
        let bytes = serde_json::to_vec(self).map_err(|error| Error::internal(error.to_string()))?;
        let io = |source: std::io::Error| Error::io("write", shown(OPEN_FOLDER), source);
        let mut file =
            fs::create_at(folder.as_fd(), OsStr::new(&temporary), 0o600).map_err(|errno| io(errno.into()))?;
        if let Err(source) = file.write_all(&bytes) {
            remove(&folder, &temporary);
            return Err(io(source));
        }
        Ok(PendingEntry { file, folder, temporary, name: self.name() })
    }

    /// Puts it into the session's history.
    ///
    /// # Errors
    /// What the system says.
    pub fn close(&self, state: &State) -> Result<(), Error> {
        self.move_to(state, &history_folder(&self.session), &history_name(self.seq))
    }

    /// Puts it aside for a person to look at.
    ///
    /// # Errors
    /// What the system says.
    pub fn put_aside(&self, state: &State) -> Result<(), Error> {
        self.move_to(state, STUCK_FOLDER, &self.name())
    }

    /// Drops it: the change was rolled back.
    ///
    /// # Errors
    /// What the system says.
    pub fn discard(&self, state: &State) -> Result<(), Error> {
        let folder = state.folder(OPEN_FOLDER)?;
        fs::unlink_at(&folder, self.name(), rustix::fs::AtFlags::empty())
            .map_err(|errno| Error::io("remove", shown(OPEN_FOLDER), errno))
    }

    /// Renames the open entry.
    fn move_to(&self, state: &State, folder: &str, name: &str) -> Result<(), Error> {
        let open = state.folder(OPEN_FOLDER)?;
        let to = state.folder(folder)?;
        fs::rename_at(&open, self.name(), &to, name).map_err(|errno| Error::io("write", shown(folder), errno))
    }
}

/// The permission bits that a folder is to have, where they are known.
#[must_use]
pub fn mode_in(modes: &[FolderMode], path: &WorkspacePath) -> Option<u32> {
    modes.iter().find(|known| known.path == *path).map(|known| known.mode)
}

/// An entry that is written but not yet in force.
#[derive(Debug)]
pub struct PendingEntry {
    /// Its bytes, to be synced.
    pub file: std::fs::File,
    /// The folder it is in.
    pub folder: OwnedFd,
    /// Its name so far.
    temporary: String,
    /// Its name to be.
    name: String,
}

impl PendingEntry {
    /// Puts it in force: from here on the change is completed or rolled back, whatever happens.
    ///
    /// # Errors
    /// What the system says.
    pub fn publish(&self) -> Result<(), Error> {
        fs::rename_at(&self.folder, self.temporary.as_str(), &self.folder, self.name.as_str())
            .map_err(|errno| Error::io("write", shown(OPEN_FOLDER), errno))
    }

    /// Removes one that is not needed after all.
    pub fn discard(&self) {
        remove(&self.folder, &self.temporary);
    }
}

/// The folder of a session's history.
fn history_folder(session: &str) -> String {
    format!("{DONE_FOLDER}/{session}")
}

/// The name of the change `seq` in a session's history, so that names sort as numbers do.
fn history_name(seq: u64) -> String {
    format!("{seq:08}.json")
}

/// The change `seq` of a session, if it is still in the history.
///
/// # Errors
/// What the system says.
pub fn done_entry(state: &State, session: &str, seq: u64) -> Result<Option<Entry>, Error> {
    let Some(folder) = state.find_folder(&history_folder(session))? else {
        return Ok(None);
    };
    read_entry(&folder, &history_name(seq))
}

/// The entry in a file of the journal; `None` where there is none, or a damaged one.
///
/// # Errors
/// What the system says.
pub fn read_entry(folder: &OwnedFd, name: &str) -> Result<Option<Entry>, Error> {
    let bytes = fs::read_at(folder.as_fd(), OsStr::new(name), ENTRY_BYTES_MAX)
        .map_err(|source| Error::io("read", shown(DONE_FOLDER), source))?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// The numbers of the changes in a session's history, ascending.
///
/// # Errors
/// What the system says.
pub fn history(state: &State, session: &str) -> Result<Vec<u64>, Error> {
    let Some(folder) = state.find_folder(&history_folder(session))? else {
        return Ok(Vec::new());
    };
    let names = names_in(&folder)?;
    let mut numbers: Vec<u64> =
        names.iter().filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The open entries, oldest first, and the names of files there that are none.
///
/// # Errors
/// `io_error` for an entry of a newer version, or the system's.
pub fn open_entries(state: &State) -> Result<(Vec<Entry>, Vec<String>), Error> {
    let Some(folder) = state.find_folder(OPEN_FOLDER)? else {
        return Ok((Vec::new(), Vec::new()));
    };
    let (mut entries, mut strays) = (Vec::new(), Vec::new());
    for name in names_in(&folder)? {
        if name.starts_with('.') {
            strays.push(name);
            continue;
        }
        let bytes = fs::read_at(folder.as_fd(), OsStr::new(&name), ENTRY_BYTES_MAX)
            .map_err(|source| Error::io("read", shown(OPEN_FOLDER), source))?;
        match serde_json::from_slice::<Entry>(&bytes.unwrap_or_default()) {
            Ok(entry) if entry.version > VERSION => {
                return Err(Error::new(
                    ErrorKind::IoError,
                    format!("{OPEN_FOLDER}/{name} was written by a newer lbx: use that one here"),
                ));
            }
            Ok(entry) if entry.name() == name => entries.push(entry),
            _ => strays.push(name),
        }
    }
    entries.sort_by(|one, other| (one.time, &one.id).cmp(&(other.time, &other.id)));
    Ok((entries, strays))
}

/// The names in a folder of the state, dots aside.
///
/// # Errors
/// What the system says.
pub fn names_in(folder: &OwnedFd) -> Result<Vec<String>, Error> {
    let io = |errno| Error::io("list", shown("journal"), errno);
    let mut names = Vec::new();
    for entry in rustix::io::retry_on_intr(|| rustix::fs::Dir::read_from(folder)).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Removes a file of the state, if it can be.
pub fn remove(folder: &OwnedFd, name: &str) {
    // Best effort: whatever is left is removed by the next change.
    let _ = fs::unlink_at(folder, name, rustix::fs::AtFlags::empty());
}
