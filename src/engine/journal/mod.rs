//! The journal: the steps of a change, on disk before the first of them is taken.
//!
//! An open entry is `journal/open/ID.json` in the state. When the change is done it becomes
//! `journal/done/SESSION/SEQ.json`, the session's history, which also says which numbers were given.
//! What can neither be completed nor rolled back goes to `journal/stuck/`, for a person to look at.
//!
//! An entry is written and synced as `journal/open/.ID.json`, and gets its own name, unsynced, before the
//! first step. Whole under the name with the dot it is that of a call that did not begin, unless steps
//! are seen to be done: a power failure may take the new name.

pub mod backup;
pub mod bundle;
pub mod gc;
pub mod kept;
pub mod pending;
mod places;
pub mod progress;
mod sides;
pub mod steps;
pub mod waiting;

use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::engine::store::audit::AuditFile;
use crate::engine::store::session;
use crate::engine::store::session::{SEQ_MAX, SessionId};
use crate::engine::store::state::{STATE_FOLDER, State, names_in};
use crate::engine::store::trash;
use crate::engine::workspace::fs::{self, rename_new};
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use kept::Kept;
use places::ENTRY_BYTES_MAX;
pub use places::{BACKUPS_FOLDER, DONE_FOLDER, HELD_FOLDER, OPEN_FOLDER, STUCK_FOLDER};
pub use sides::{FileEntry, FolderEntry, MoveEntry, Version};
use steps::{Location, Outline, Step};

/// Version of an entry that this code writes.
const VERSION: u32 = 2;
/// How the name of a number ends that was given, though its change is not in the history.
const GIVEN: &str = ".given";
/// Other permission bits for a folder that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderMode {
    /// The folder, under its name after all moves.
    pub path: WorkspacePath,
    /// Its permission bits before.
    pub before: u32,
    /// Its permission bits after.
    pub after: u32,
}

/// Earlier changes of the session that a change takes back, though others came after them: it stands
/// among the session's changes like any other, and an `undo` takes it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenBack {
    /// The change that is taken back; of a `rewind`, the last that stays.
    pub seq: u64,
    /// Its files, where not all of them are concerned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<WorkspacePath>,
    /// The hunk of its only file, by its number from 1, where nothing else is concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunk: Option<usize>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
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
    /// What it takes back of earlier changes, where others came after them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes_back: Option<TakenBack>,
    /// The files in which an `undo` or a `redo` kept what others had changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<WorkspacePath>,
    /// Old bytes of small files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Kept>,
    /// What it does, in order.
    pub steps: Vec<Step>,
    /// The folders that get other permission bits once all steps are done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<FolderMode>,
    /// Files that a command changed or removed and whose old bytes were not at hand: an undo leaves
    /// them as they are. The first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<WorkspacePath>,
    /// How many there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_total: usize,
    /// The files it changes, as the steps have it.
    #[serde(skip)]
    pub files: Vec<FileEntry>,
    /// What it moves.
    #[serde(skip)]
    pub moves: Vec<MoveEntry>,
    /// The folders it makes, outermost first.
    #[serde(skip)]
    pub folders: Vec<WorkspacePath>,
    /// The folders it removes, innermost first.
    #[serde(skip)]
    pub removed: Vec<FolderEntry<WorkspacePath>>,
}

impl JournalEntry {
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
            takes_back: None,
            merged: Vec::new(),
            kept: Vec::new(),
            steps: Vec::new(),
            modes: Vec::new(),
            lost: Vec::new(),
            lost_total: 0,
            files: Vec::new(),
            moves: Vec::new(),
            folders: Vec::new(),
            removed: Vec::new(),
        }
    }

    /// Says what it does, in order; what that comes to follows.
    ///
    /// The state is at `state`, from the workspace root.
    pub fn set_steps(&mut self, steps: Vec<Step>, state: &WorkspacePath) {
        let Outline { files, moves, folders, removed } = Outline::of(&steps, state);
        *self = Self { steps, files, moves, folders, removed, ..std::mem::take(self) };
    }

    /// Whether everything in it has the form that lbx writes: it might have been forged.
    fn is_well_formed(&self, name: &str) -> bool {
        let is_below = |path: &WorkspacePath, folder: &str| {
            path.as_path().starts_with(folder) && path.as_path() != std::path::Path::new(folder)
        };
        let is_place = |at: &Location| match at {
            Location::File(path) => !path.is_root(),
            Location::State(path) => is_below(path, trash::FOLDER) || is_below(path, HELD_FOLDER),
        };
        let waits = |at: &Location| waiting::is_staged_by(at, &self.id);
        let is_id = |id: &str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        is_id(&self.id)
            && self.name() == name
            && self.session.parse::<SessionId>().is_ok()
            && (1..SEQ_MAX).contains(&self.seq)
            && self.steps.iter().flat_map(Step::locations).all(|at| is_place(at) || waits(at))
            && self.steps.iter().filter_map(Step::staged).all(waits)
    }

    /// The name of its file.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.json", self.id)
    }

    /// Writes it under a temporary name; the file is the caller's to sync.
    ///
    /// # Errors
    /// What the system says.
    pub fn prepare(&self, state: &State) -> Result<PendingEntry, Error> {
        let folder = state.folder(OPEN_FOLDER)?;
        let temporary = self.unpublished_name();
        let bytes = serde_json::to_vec(self).map_err(|error| Error::internal(error.to_string()))?;
        if bytes.len() as u64 > ENTRY_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("the change is too large: its journal entry would take {} bytes", bytes.len()),
            )
            .suggest("Make it in several changes."));
        }
        let io = |source: std::io::Error| Error::io("write", state.shown(OPEN_FOLDER), source);
        let mut file =
            fs::create_at(folder.as_fd(), OsStr::new(&temporary), 0o600).map_err(|errno| io(errno.into()))?;
        if let Err(source) = file.write_all(&bytes) {
            remove(&folder, &temporary);
            return Err(io(source));
        }
        Ok(PendingEntry { file, folder, temporary })
    }

    /// Puts it into the session's history, in nobody's place.
    ///
    /// # Errors
    /// What the system says; `already_exists` where its number was given before.
    pub fn close(&self, state: &State) -> Result<(), Error> {
        let (open, done) = (state.folder(OPEN_FOLDER)?, state.folder(&history_folder(&self.session))?);
        rename_new(&open, self.name().as_ref(), &done, history_name(self.seq).as_ref())
            .map_err(|errno| Error::io("write", state.shown(DONE_FOLDER), errno))
    }

    /// Sees to it that its number is not given again, though it does not come into the history.
    ///
    /// # Errors
    /// What the system says.
    pub fn spend_number(&self, state: &State) -> Result<(), Error> {
        let done = state.folder(&history_folder(&self.session))?;
        spend(&done, self.seq).map_err(|errno| Error::io("write", state.shown(DONE_FOLDER), errno))
    }

    /// Gives it its own name: from here on the change is completed or rolled back, whatever happens.
    ///
    /// # Errors
    /// What the system says.
    pub fn publish(&self, state: &State) -> Result<(), Error> {
        let folder = state.folder(OPEN_FOLDER)?;
        fs::rename_at(&folder, self.unpublished_name(), &folder, self.name())
            .map_err(|errno| Error::io("write the journal in", STATE_FOLDER, errno))
    }

    /// The name of its file before it is in force.
    #[must_use]
    pub fn unpublished_name(&self) -> String {
        format!(".{}", self.name())
    }

    /// Drops it: the change was rolled back.
    ///
    /// # Errors
    /// What the system says.
    pub fn discard(&self, state: &State) -> Result<(), Error> {
        let folder = state.folder(OPEN_FOLDER)?;
        match fs::unlink_at(&folder, self.name(), rustix::fs::AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::io("remove", state.shown(OPEN_FOLDER), errno)),
        }
    }

    /// What the audit log has of a change.
    #[must_use]
    pub fn audit_files(&self) -> Vec<AuditFile> {
        let sha256 = |version: &Option<Version>| version.as_ref().map(|version| version.sha256);
        let files = self.files.iter().map(|file| AuditFile {
            path: file.path.to_string(),
            old_sha256: sha256(&file.before),
            new_sha256: sha256(&file.after),
        });
        let moved = self.moves.iter().flat_map(|moved| [&moved.from, &moved.to]);
        let moved =
            moved.map(|path| AuditFile { path: path.to_string(), old_sha256: None, new_sha256: None });
        files.chain(moved).collect()
    }
}

/// Whether a number is 0.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Default for JournalEntry {
    fn default() -> Self {
        Self::new(String::new(), "", "", 0, 0)
    }
}

/// Notes that a number was given.
fn spend(done: &OwnedFd, seq: u64) -> Result<(), Errno> {
    match fs::create_at(done.as_fd(), format!("{seq:0NUMBER_DIGITS$}{GIVEN}").as_ref(), 0o600) {
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Sees to it that no number of a folder of the history is given again, though its newest entry may
/// go.
///
/// # Errors
/// What the system says.
pub fn keep_numbers(done: &OwnedFd) -> Result<(), Error> {
    let last = names_in(done)?.iter().filter_map(|name| number_in(name)).max();
    let Some(last) = last else {
        return Ok(());
    };
    spend(done, last).map_err(|errno| Error::io("write the history in", STATE_FOLDER, errno))
}

/// The number of the next change of a session, which was never given; `last` is the newest that the
/// session itself knows of.
///
/// # Errors
/// What the system says.
pub fn next_number(state: &State, session: &str, last: u64) -> Result<u64, Error> {
    let Some(folder) = state.find_folder(&history_folder(session))? else {
        return Ok(last + 1);
    };
    let is_given = |seq: u64| {
        [history_name(seq), format!("{seq:0NUMBER_DIGITS$}{GIVEN}")]
            .iter()
            .any(|name| fs::stat_at(folder.as_fd(), name.as_ref()).is_ok())
    };
    // Its file may have been lost, or could not be written.
    if last == 0 || is_given(last + 1) {
        let given = names_in(&folder)?;
        let newest = given.iter().filter_map(|name| number_in(name)).max().unwrap_or(0);
        return Ok(last.max(newest) + 1);
    }
    Ok(last + 1)
}

/// The number that a name in a session's history stands for.
fn number_in(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".json").or_else(|| name.strip_suffix(GIVEN))?;
    digits.parse().ok().filter(|seq| *seq < SEQ_MAX)
}

/// An entry that is written but not yet in force.
#[derive(Debug)]
pub struct PendingEntry {
    /// Its bytes, to be synced.
    pub file: std::fs::File,
    /// The folder it is in.
    pub folder: Arc<OwnedFd>,
    /// Its name so far.
    temporary: String,
}

impl PendingEntry {
    /// Removes one that is not needed after all.
    pub fn discard(&self) {
        remove(&self.folder, &self.temporary);
    }
}

/// The folder of a session's history.
fn history_folder(session: &str) -> String {
    format!("{DONE_FOLDER}/{session}")
}

/// Digits of a number in the name of an entry, at least.
const NUMBER_DIGITS: usize = 8;

/// The name of the change `seq` in a session's history, so that names sort as numbers do.
fn history_name(seq: u64) -> String {
    format!("{seq:0NUMBER_DIGITS$}.json")
}

/// The number of the change that [`history_name`] gives this name; none of any other name.
fn change_in(name: &[u8]) -> Option<u64> {
    let digits = name.strip_suffix(b".json")?;
    // All of a history are looked at: to compare each with the name of its number would take longer.
    let is_padded =
        digits.len() == NUMBER_DIGITS || (digits.len() > NUMBER_DIGITS && !digits.starts_with(b"0"));
    if !is_padded || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|seq| *seq < SEQ_MAX)
}

/// The change `seq` of a session, if it is still in the history.
///
/// # Errors
/// What the system says.
pub fn done_entry(state: &State, session: &str, seq: u64) -> Result<Option<JournalEntry>, Error> {
    let Some(folder) = state.find_folder(&history_folder(session))? else {
        return Ok(None);
    };
    Ok(read_entry(state, &folder, &history_name(seq))?.filter(|entry| entry.seq == seq))
}

/// The entry in a file of the journal; `None` where there is none, or a damaged one.
///
/// # Errors
/// `io_error` for one of a newer version, or the system's.
pub fn read_entry(state: &State, folder: &OwnedFd, name: &str) -> Result<Option<JournalEntry>, Error> {
    match read(state, folder, name)? {
        JournalFile::Entry(entry) => Ok(Some(*entry)),
        JournalFile::Newer => Err(Error::new(
            ErrorKind::IoError,
            format!("the journal entry {name} was written by a newer lbx: use that one here"),
        )),
        JournalFile::Damaged => Ok(None),
    }
}

/// A file of the journal.
pub enum JournalFile {
    /// An entry.
    Entry(Box<JournalEntry>),
    /// One of a newer version, of which nothing can be said.
    Newer,
    /// None that lbx has written so.
    Damaged,
}

/// Reads a file of the journal.
fn read(state: &State, folder: &OwnedFd, name: &str) -> Result<JournalFile, Error> {
    /// The one field that every version has.
    #[derive(Deserialize)]
    struct Versioned {
        /// Version of the format.
        version: u32,
    }
    let bytes = match fs::read_at(folder.as_fd(), OsStr::new(name), ENTRY_BYTES_MAX) {
        Ok(bytes) => bytes.unwrap_or_default(),
        Err(source) if session::is_no_state_file(&source) => Vec::new(),
        Err(source) => return Err(Error::io("read", state.shown("journal"), source)),
    };
    let version = serde_json::from_slice(&bytes).map(|Versioned { version }| version);
    if version.is_ok_and(|version| version > VERSION) {
        return Ok(JournalFile::Newer);
    }
    Ok(match serde_json::from_slice::<JournalEntry>(&bytes) {
        Ok(mut entry) => {
            let steps = std::mem::take(&mut entry.steps);
            entry.set_steps(steps, state.path());
            JournalFile::Entry(Box::new(entry))
        }
        Err(_) => JournalFile::Damaged,
    })
}

/// The sessions that have a history.
///
/// # Errors
/// What the system says.
pub fn sessions(state: &State) -> Result<Vec<String>, Error> {
    state.find_folder(DONE_FOLDER)?.map_or_else(|| Ok(Vec::new()), |folder| names_in(&folder))
}

/// The numbers of the changes in a session's history, ascending.
///
/// # Errors
/// What the system says.
pub fn history(state: &State, session: &str) -> Result<Vec<u64>, Error> {
    let Some(folder) = state.find_folder(&history_folder(session))? else {
        return Ok(Vec::new());
    };
    let names = fs::names_in(&folder).map_err(|errno| Error::io("list a folder in", STATE_FOLDER, errno))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| change_in(name.as_bytes())).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The numbers among the newest `count` of a session's history whose records cannot be read, ascending.
///
/// # Errors
/// What the system says.
pub fn damaged_history(state: &State, session: &str, count: usize) -> Result<Vec<u64>, Error> {
    let numbers = history(state, session)?;
    let newest = numbers.get(numbers.len().saturating_sub(count)..).unwrap_or_default();
    let Some(folder) = state.find_folder(&history_folder(session))? else {
        return Ok(Vec::new());
    };
    let mut damaged = Vec::new();
    for seq in newest {
        if matches!(read(state, &folder, &history_name(*seq))?, JournalFile::Damaged) {
            damaged.push(*seq);
        }
    }
    Ok(damaged)
}

/// What the calls left that did not come to their end.
#[derive(Default)]
pub struct Unfinished {
    /// Their entries, the oldest first.
    pub entries: Vec<JournalEntry>,
    /// Those that are whole and did not get their own names.
    pub unpublished: Vec<JournalEntry>,
    /// The names of entries of a newer version.
    pub newer: Vec<String>,
    /// The names of those that are none.
    pub damaged: Vec<String>,
    /// Files that never came into force.
    pub strays: Vec<String>,
}

/// Whether a call has not come to its end, or is still at work.
#[must_use]
pub fn has_open_entries(state: &State) -> bool {
    let names = state.find_folder(OPEN_FOLDER).ok().flatten().and_then(|folder| names_in(&folder).ok());
    names.is_some_and(|names| !names.is_empty())
}

/// What is in the folder of open entries.
///
/// # Errors
/// The system's.
pub fn open_entries(state: &State) -> Result<Unfinished, Error> {
    let mut open = Unfinished::default();
    let Some(folder) = state.find_folder(OPEN_FOLDER)? else {
        return Ok(open);
    };
    for name in names_in(&folder)? {
        if let Some(own) = name.strip_prefix('.') {
            match read(state, &folder, &name)? {
                JournalFile::Entry(entry) if entry.is_well_formed(own) => open.unpublished.push(*entry),
                JournalFile::Newer => open.newer.push(name),
                JournalFile::Entry(_) | JournalFile::Damaged => open.strays.push(name),
            }
            continue;
        }
        match read(state, &folder, &name)? {
            JournalFile::Entry(entry) if entry.is_well_formed(&name) => open.entries.push(*entry),
            JournalFile::Newer => open.newer.push(name),
            JournalFile::Entry(_) | JournalFile::Damaged => open.damaged.push(name),
        }
    }
    open.entries.sort_by(|one, other| (one.time, &one.id).cmp(&(other.time, &other.id)));
    Ok(open)
}

/// Removes a file of the state, if it can be.
pub fn remove(folder: &OwnedFd, name: &str) {
    // Best effort: whatever is left is removed by the next change.
    let _ = fs::unlink_at(folder, name, rustix::fs::AtFlags::empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_one_name() {
        for number in [0, 1, 12_345_678, 99_999_999, 100_000_000, SEQ_MAX - 1] {
            assert_eq!(change_in(history_name(number).as_bytes()), Some(number));
        }
        let above = history_name(SEQ_MAX);
        let others = ["1.json", "+0000001.json", "000000001.json", "0000000x.json", "00000001", ".json"];
        for other in others.into_iter().chain(["00000001.given", "99999999999999999999999.json", &above]) {
            assert_eq!(change_in(other.as_bytes()), None, "{other}");
        }
    }
}
