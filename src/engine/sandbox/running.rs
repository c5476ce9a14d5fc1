//! Which commands are changing the workspace at this moment.
//!
//! A baseline of another session that is taken meanwhile would hold half of what such a command does,
//! as if that had been there before.
//!
//! Where in a workspace repositories were found when it was last searched, so that a transaction need not
//! search again: its cost must not grow with the number of files.
//!
//! What a transaction does not know of is safe all the same. The command writes into a layer, and the
//! change that the layer becomes is refused as a whole where it touches a repository or a state; then the
//! list is forgotten, and the next transaction searches.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::AtFlags;
use serde::{Deserialize, Serialize};

use crate::engine::store::lock::unique_name;
use crate::engine::store::lock::{self, Lock};
use crate::engine::store::state::{KNOWN_REPOSITORIES, State};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;

/// Where they are noted, below the state folder: a lock each.
const FOLDER: &str = "running";

/// Where commands note the repositories that were there before, below the state folder.
const NOTES_FOLDER: &str = "running-notes";
/// Bytes of a note.
const NOTE_BYTES_MAX: u64 = 16 << 20;
/// The lock that commands hold that take turns, in the state folder.
const TURN_LOCK: &str = "turn.lock";
/// Longest time that a command waits for one that runs before it: most end sooner.
const TURN_TIME_MAX: Duration = Duration::from_secs(3);
/// Content of the lock of a command that another one overlaps.
const OVERLAPPED: &[u8] = b"overlapped\n";

/// The turn of a command in the foreground; dropped, it is the next one's.
///
/// Two commands that change files at the same time cannot be told apart: no system call says who wrote a file.
/// So short ones run one after the other, and each owns exactly its own files.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "held until it is dropped")] Lock);

impl Turn {
    /// Waits for the command that runs now; `None` if that runs long. Then this one is recorded as a command
    /// that another one overlaps.
    #[must_use]
    pub fn take(state: &State) -> Option<Self> {
        lock::take(state.fd(), TURN_LOCK, 0o600, Some(TURN_TIME_MAX)).ok().flatten().map(Self)
    }
}

/// A command that runs; dropped, it has ended.
#[derive(Debug)]
pub struct Running {
    /// The folder of all.
    folder: Arc<OwnedFd>,
    /// Its name there.
    name: String,
    /// True if others ran when it began.
    is_late: bool,
    /// The folder of its note, once it has one.
    notes: Option<Arc<OwnedFd>>,
    /// Shows that the call lives.
    _lock: Lock,
}

impl Running {
    /// Notes that a command is about to run. The caller holds the lock of the workspace.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn begin(state: &State) -> Result<Self, Error> {
        let others = all(state);
        let (folder, name) = (state.folder(FOLDER)?, unique_name("command"));
        let lock = state.try_lock(folder.as_fd(), &name)?;
        let lock = lock.ok_or_else(|| Error::internal("a new lock is held by another call"))?;
        for other in &others {
            // One that has ended meanwhile needs no note.
            let opened = fs::open_at(folder.as_fd(), OsStr::new(other), fs::ADD);
            let _ = opened.map(|file| fs::write_all(&File::from(file), OVERLAPPED));
        }
        Ok(Self { folder, name, is_late: !others.is_empty(), notes: None, _lock: lock })
    }

    /// Notes what the next call must know if this one is killed.
    ///
    /// # Errors
    /// The system's: the command must not run.
    pub fn note(&mut self, state: &State, note: &[u8]) -> Result<(), Error> {
        let notes = state.folder(NOTES_FOLDER)?;
        state.replace(notes.as_fd(), OsStr::new(&self.name), note, &unique_name("note"))?;
        self.notes = Some(notes);
        Ok(())
    }

    /// True if other commands ran when this one began.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        self.is_late
    }

    /// True if another command ran at any time since this one began: what changed may be its doing.
    #[must_use]
    pub fn is_overlapped(&self) -> bool {
        let noted = fs::stat_at(self.folder.as_fd(), OsStr::new(&self.name));
        self.is_late || noted.is_ok_and(|stat| fs::size_of(&stat) > 0)
    }

    /// Waits until what the command changes has other times than what stands there now.
    pub fn pass_a_moment(&self) {
        // Where the clock cannot be asked, starting the command takes longer than one of its ticks.
        let _ = super::layer::pass_a_moment(&self.folder);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(notes) = &self.notes {
            let _ = fs::unlink_at(notes, &self.name, AtFlags::empty());
        }
        let _ = fs::unlink_at(&self.folder, &self.name, AtFlags::empty());
    }
}

/// Takes the notes of commands whose call was killed. The caller holds the lock of the workspace.
#[must_use]
pub fn left_behind(state: &State) -> Vec<Vec<u8>> {
    let alive = all(state);
    let Ok(Some(notes)) = state.find_folder(NOTES_FOLDER) else { return Vec::new() };
    let names = fs::names_in(&notes).unwrap_or_default();
    let dead = names.iter().filter(|name| !alive.iter().any(|alive| OsStr::new(alive) == *name));
    let take = |name: &OsString| {
        let note = fs::read_at(notes.as_fd(), name, NOTE_BYTES_MAX).ok().flatten();
        let _ = fs::unlink_at(&notes, name, AtFlags::empty());
        note
    };
    dead.filter_map(take).collect()
}

/// Returns true if any command is changing the workspace now.
#[must_use]
pub fn is_any(state: &State) -> bool {
    !all(state).is_empty()
}

/// The names of the commands that are changing the workspace now.
fn all(state: &State) -> Vec<String> {
    let Ok(Some(folder)) = state.find_folder(FOLDER) else { return Vec::new() };
    let names = fs::names_in(&folder).unwrap_or_default();
    let is_alive = |name: &String| match state.try_lock(folder.as_fd(), name) {
        Ok(Some(_dead)) => {
            let _ = fs::unlink_at(&folder, name, AtFlags::empty());
            false
        }
        Ok(None) => true,
        Err(_) => false,
    };
    names.into_iter().filter_map(|name| name.into_string().ok()).filter(is_alive).collect()
}

/// Version of its format.
const VERSION: u32 = 1;
/// Bytes of it.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Folders that are remembered; where there are more, each transaction searches.
const FOLDERS_MAX: usize = 10_000;

/// The file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownRepositories {
    /// Version of the format.
    version: u32,
    /// Folders in which there was a `.git`, a `.lbx` or the parts of a repository.
    folders: Vec<WorkspacePath>,
}

/// The folders that a search has found, where one is remembered.
#[must_use]
pub fn load_repositories(state: &State) -> Option<Vec<WorkspacePath>> {
    read(state).filter(|known| known.version == VERSION).map(|known| known.folders)
}

/// Remembers what a search of the whole workspace has found.
pub fn save_repositories(state: &State, folders: &[WorkspacePath]) {
    let known = read(state);
    let is_right = |known: &KnownRepositories| known.version > VERSION || known.folders.as_slice() == folders;
    if known.as_ref().is_some_and(is_right) {
        return;
    }
    if folders.len() > FOLDERS_MAX {
        forget_repositories(state);
        return;
    }
    let known = KnownRepositories { version: VERSION, folders: folders.to_vec() };
    // Where it cannot be written, the next transaction searches.
    let written = serde_json::to_vec(&known).ok().map(|bytes| {
        state.replace(state.fd(), OsStr::new(KNOWN_REPOSITORIES), &bytes, &unique_name("repositories"))
    });
    if !matches!(written, Some(Ok(_))) {
        forget_repositories(state);
    }
}

/// Has the next transaction search.
pub fn forget_repositories(state: &State) {
    let _ = fs::unlink_at(state.fd(), KNOWN_REPOSITORIES, AtFlags::empty());
}

/// The file as it is.
fn read(state: &State) -> Option<KnownRepositories> {
    let bytes = fs::read_at(state.fd(), OsStr::new(KNOWN_REPOSITORIES), FILE_BYTES_MAX).ok()??;
    serde_json::from_slice(&bytes).ok()
}
