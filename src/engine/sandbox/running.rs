//! Records which commands are changing the workspace now.
//!
//! If another session took a baseline meanwhile, it would hold half of the changes of such a command, as if they had
//! been there before.
//!
//! Also records where the last search found repositories, so that a transaction need not search again: its cost must
//! not grow with the number of files.
//!
//! A transaction is safe even if a repository is missing from that list. The command writes into a layer, and the
//! change that applies the layer fails as a whole if it touches a repository or a state; then the list is deleted, and
//! the next transaction searches.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::AtFlags;
use serde::{Deserialize, Serialize};

use crate::engine::journal::{DIRECT_MARK, OPEN_FOLDER};
use crate::engine::store::lock::{self, Lock, LockWait, is_unique_with, unique_name};
use crate::engine::store::session::SessionId;
use crate::engine::store::state::{KNOWN_REPOSITORIES, State};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::survey::ChangeTime;
use crate::error::Error;
use crate::limits::{KNOWN_REPOSITORIES_BYTES_MAX, KNOWN_REPOSITORIES_MAX};

/// Folder of the running commands, below the state folder: a lock each.
const FOLDER: &str = "running";
/// Start of their names.
const PREFIX: &str = "command";

/// Folder in which commands record the repositories that existed before, below the state folder.
const NOTES_FOLDER: &str = "running-notes";
/// Largest record, in bytes.
const NOTE_BYTES_MAX: u64 = 16 << 20;
/// Lock of the command whose turn it is, in the state folder.
const TURN_LOCK: &str = "turn.lock";
/// Longest time that a command waits for its turn: most commands end sooner.
const TURN_TIME_MAX: Duration = Duration::from_secs(3);
/// Content of the lock of a command that another one overlaps.
const OVERLAPPED: &[u8] = b"overlapped\n";

/// The turn of a command in the foreground; dropping it starts the next one's.
///
/// The changes of two commands that run at the same time cannot be told apart: no system call says who wrote a file. So
/// short commands run one after the other, and each owns exactly its own changes.
#[derive(Debug)]
pub struct CommandTurn(#[expect(dead_code, reason = "held until it is dropped")] Lock);

impl CommandTurn {
    /// Waits for the command that runs now; returns `None` if that takes long. This command is then recorded as one
    /// that another overlaps.
    pub fn wait_for_turn(state: &State) -> Option<Self> {
        lock::take(state.fd(), TURN_LOCK, 0o600, Some(LockWait::without_queue(TURN_TIME_MAX)))
            .ok()
            .flatten()
            .map(Self)
    }
}

/// A running command; dropping it marks its end.
#[derive(Debug)]
pub struct RunningCommand {
    /// Folder of all running commands.
    folder: Arc<OwnedFd>,
    /// Its name.
    name: String,
    /// True if other commands ran when it began.
    pub is_late: bool,
    /// Its note and its mark, each with its folder.
    left: Vec<(Arc<OwnedFd>, String)>,
    /// Lock that shows that the call lives.
    _lock: Lock,
}

impl RunningCommand {
    /// Records that a command is about to run. The caller holds the lock of the workspace.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn begin(state: &State) -> Result<Self, Error> {
        let others = all(state);
        let (folder, name) = (state.folder(FOLDER)?, unique_name(PREFIX));
        // Another call may take the new file for the lock of a dead command, and remove it.
        let lock = state.lock(folder.as_fd(), &name, "this command")?;
        for other in &others {
            // A command that has ended meanwhile needs no note.
            let opened = fs::open_at(folder.as_fd(), OsStr::new(other), fs::ADD);
            let _ = opened.map(|file| fs::write_all(&File::from(file), OVERLAPPED));
        }
        Ok(Self { folder, name, is_late: !others.is_empty(), left: Vec::new(), _lock: lock })
    }

    /// Records facts for the next call, in case this one is killed.
    ///
    /// # Errors
    /// Returns the OS error: the command must not run.
    pub fn note(&mut self, state: &State, note: &[u8]) -> Result<(), Error> {
        let notes = state.folder(NOTES_FOLDER)?;
        state.replace(notes.as_fd(), OsStr::new(&self.name), note, &unique_name("note"))?;
        self.left.push((notes, self.name.clone()));
        Ok(())
    }

    /// Leaves a mark for the calls of anyone: those that meet what the command has changed so far, and the next one if this
    /// call is killed. Nobody could tell its changes from those of the developer then.
    pub fn mark(&mut self, state: &State, command: &DirectCommand) {
        let Ok(marks) = state.folder(OPEN_FOLDER) else { return };
        let name = format!("{}{DIRECT_MARK}", self.name);
        let file = fs::create_at(marks.as_fd(), OsStr::new(&name), 0o600);
        if let Ok(mut file) = file {
            // Without its content, the mark still tells that a command was killed.
            let _ = serde_json::to_writer(&mut file, command);
            self.left.push((marks, name));
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if another command ran at any time since this one began: changes may be that one's.
    pub fn is_overlapped(&self) -> bool {
        let noted = fs::stat_at(self.folder.as_fd(), OsStr::new(&self.name));
        self.is_late || noted.is_ok_and(|stat| fs::size_of(&stat) > 0)
    }

    /// Waits until a write gets a later time than all current files; returns the time that a write may still have if the
    /// clock of the file system is too coarse for that.
    pub fn wait_for_clock_tick(&self) -> Option<ChangeTime> {
        // If the clock cannot be read, starting the command takes longer than one tick.
        let (began, has_passed) = super::layer::wait_for_clock_tick(&self.folder).ok()?;
        Some(began).filter(|_| !has_passed)
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        for (folder, name) in &self.left {
            let _ = fs::unlink_at(folder, name, AtFlags::empty());
        }
        let _ = fs::unlink_at(&self.folder, &self.name, AtFlags::empty());
    }
}

/// Facts about a direct command.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct DirectCommand {
    /// Session.
    pub session: String,
    /// Start of the id of the snapshot before it, in hex.
    pub tip: Option<String>,
    /// First line of the message of its snapshot.
    #[serde(default)]
    pub subject: String,
    /// Rest of the message.
    #[serde(default)]
    pub body: Option<String>,
}

impl DirectCommand {
    /// Reads the mark of a command; has no facts if nothing can be read.
    fn read(marks: &OwnedFd, name: &str) -> Self {
        let mark = format!("{name}{DIRECT_MARK}");
        let bytes = fs::read_or_empty(marks.as_fd(), OsStr::new(&mark), NOTE_BYTES_MAX);
        serde_json::from_slice(&bytes).unwrap_or_default()
    }
}

/// Removes a mark, and returns the dead command that it names; `None` if the command runs.
///
/// # Errors
/// Returns the OS error.
pub fn take_dead(state: &State, name: &str) -> Result<Option<DirectCommand>, Error> {
    let (folder, marks) = (state.folder(FOLDER)?, state.folder(OPEN_FOLDER)?);
    if is_unique_with(PREFIX, name) {
        if state.try_lock(folder.as_fd(), name)?.is_none() {
            return Ok(None);
        }
        let _ = fs::unlink_at(&folder, name, AtFlags::empty());
    }
    let mut killed = DirectCommand::read(&marks, name);
    let _ = fs::unlink_at(&marks, format!("{name}{DIRECT_MARK}"), AtFlags::empty());
    killed.tip = killed.tip.filter(|tip| tip.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if killed.session.parse::<SessionId>().is_err() {
        "?".clone_into(&mut killed.session);
    }
    Ok(Some(killed))
}

/// Returns the command with the mark of that name, if it runs.
pub fn find_running(state: &State, name: &str) -> Option<DirectCommand> {
    let folder = state.find_folder(FOLDER).ok()??;
    let runs = is_unique_with(PREFIX, name) && state.try_lock(folder.as_fd(), name).ok()?.is_none();
    let marks = state.find_folder(OPEN_FOLDER).ok()??;
    runs.then(|| DirectCommand::read(&marks, name))
}

/// Takes the notes of commands whose calls were killed. The caller holds the lock of the workspace.
pub fn take_dead_notes(state: &State) -> Vec<Vec<u8>> {
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
pub fn is_any(state: &State) -> bool {
    !all(state).is_empty()
}

/// Returns the names of the commands that are changing the workspace now.
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

/// Version of the file's format.
const VERSION: u32 = 1;

/// Content of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownRepositories {
    /// Version of the format.
    version: u32,
    /// Folders that held a `.git`, a `.lbx` or the parts of a repository.
    folders: Vec<WorkspacePath>,
}

/// Returns the folders that the last search found, if they are recorded.
pub fn load_repositories(state: &State) -> Option<Vec<WorkspacePath>> {
    read(state).filter(|known| known.version == VERSION).map(|known| known.folders)
}

/// Records the result of a search of the whole workspace.
pub fn save_repositories(state: &State, folders: &[WorkspacePath]) {
    let known = read(state);
    let is_right = |known: &KnownRepositories| known.version > VERSION || known.folders.as_slice() == folders;
    if known.as_ref().is_some_and(is_right) {
        return;
    }
    if folders.len() > KNOWN_REPOSITORIES_MAX {
        forget_repositories(state);
        return;
    }
    let known = KnownRepositories { version: VERSION, folders: folders.to_vec() };
    // If the file cannot be written, the next transaction searches.
    let written = serde_json::to_vec(&known).ok().map(|bytes| {
        state.replace(state.fd(), OsStr::new(KNOWN_REPOSITORIES), &bytes, &unique_name("repositories"))
    });
    if !matches!(written, Some(Ok(_))) {
        forget_repositories(state);
    }
}

/// Deletes the list, so that the next transaction searches.
pub fn forget_repositories(state: &State) {
    let _ = fs::unlink_at(state.fd(), KNOWN_REPOSITORIES, AtFlags::empty());
}

/// Reads the file.
fn read(state: &State) -> Option<KnownRepositories> {
    let bytes =
        fs::read_at(state.fd(), OsStr::new(KNOWN_REPOSITORIES), KNOWN_REPOSITORIES_BYTES_MAX).ok()??;
    serde_json::from_slice(&bytes).ok()
}
