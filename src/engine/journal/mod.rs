//! The journal: the steps of a change, on disk before the first one is taken.
//!
//! `gc` puts the changes of a history into one file and old bytes into another ([`bundle`]).
//!
//! An open entry is `journal/open/ID.lbx` in the state. A finished one becomes `journal/done/SESSION/SEQ.lbx`, the
//! session's history, which also shows the numbers already given. An entry that can neither be completed nor rolled
//! back goes to `journal/stuck/`, for a person to look at.
//!
//! An entry is written and synced as `journal/open/.ID.lbx`, and gets its own name, unsynced, before the first step. A
//! whole entry under the name with the dot means that the call did not begin, unless some steps are done: a power
//! failure may undo the rename.
//!
//! An empty file `journal/open/SESSION.SEQ.TIME.TIP.missed` means that the snapshot of a finished change failed, was lost,
//! or is not in the workspace's repository.
//!
//! The file of an entry is one line of JSON and its SHA-256: one that a formatter or a recursive `sed` changed is
//! damaged.

pub mod backup;
pub mod bundle;
mod entry;
pub mod gc;
mod parts;
pub mod progress;
pub mod repack;
pub mod steps;

use std::cell::{Cell, OnceCell};
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bundle::PackedHistory;
use entry::{SEALED_SINCE, VERSION, change_in, history_folder, history_name, is_given, numbers_in};
use steps::ENTRY_BYTES_MAX;

use rustix::io::Errno;

use crate::engine::store::session::{self, SessionId};
use crate::engine::store::state::{State, names_in};
use crate::engine::store::{version_of, written_by_newer};
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::limits::MISSED_SNAPSHOTS_MAX;
use crate::sha256::{seal_of, split_seal};
pub use entry::{
    FolderMode, JournalEntry, RevertedChanges, forget_beside, history, keep_numbers, next_number, note_name,
    read_note, sessions,
};
pub use steps::{
    BACKUPS_FOLDER, DONE_FOLDER, FileEntry, FolderEntry, HELD_FOLDER, MoveEntry, OPEN_FOLDER, STUCK_FOLDER,
    Version, remove,
};

/// Suffix of the files of entries.
const SUFFIX: &str = ".lbx";
/// Suffix of the files among the open entries that mark the layer of a running command.
pub const LAYER_MARK: &str = ".layer";
/// Mark of a call that takes locks of git.
const GIT_LOCKS_MARK: &str = "git-locks";
/// Suffix of the mark of a command that changes the files themselves.
pub const DIRECT_MARK: &str = ".direct";
/// Value for the newest snapshot of a [`MissedSnapshot`] before the first one.
pub const NO_SNAPSHOT: &str = "none";
/// Value for it if lbx's own repository has the snapshot, since the workspace's could not be used.
pub const APART: &str = "apart";
/// Suffix of the files among the open entries that name a finished change without its snapshot.
const MISSED_MARK: &str = ".missed";
/// Folder of what is derived from the histories and kept, below the state folder.
pub const ACCOUNTS_FOLDER: &str = "accounts";

/// Returns the change `seq` of a session, if it is still in the history.
///
/// # Errors
/// Returns the OS error.
pub fn history_entry(state: &State, session: &str, seq: u64) -> Result<Option<JournalEntry>, Error> {
    let (below, name) = (history_folder(session), history_name(seq));
    let Some(folder) = state.find_folder(&below)? else {
        return Ok(None);
    };
    let entry = read_change(state, session, &folder, &name)?.entry(&name)?.filter(|entry| entry.seq == seq);
    if let Some(entry) = &entry {
        backup::note_holder(state, (below, name), &entry.kept);
    }
    Ok(entry)
}

/// A file of the journal.
pub enum JournalFile {
    /// An entry.
    Entry(Box<JournalEntry>),
    /// An entry of a newer version, which cannot be read.
    Newer,
    /// A file that lbx did not write in this form.
    Damaged,
}

impl JournalFile {
    /// Returns the entry in the file `name`; `None` if it is damaged.
    fn entry(self, name: &str) -> Result<Option<JournalEntry>, Error> {
        match self {
            Self::Entry(entry) => Ok(Some(*entry)),
            Self::Newer => Err(written_by_newer(&format!("the journal entry {name}"))),
            Self::Damaged => Ok(None),
        }
    }
}

/// Reads the change of a session in the file `name`, or else from the packed ones.
fn read_change(state: &State, session: &str, folder: &OwnedFd, name: &str) -> Result<JournalFile, Error> {
    let found = read(state, folder, name)?;
    let seq = change_in(name.as_bytes()).filter(|_| matches!(found, JournalFile::Damaged));
    let packed = seq.map_or(Ok(None), |seq| bundle::packed_change(state, session, folder, seq))?;
    Ok(packed.map_or(found, |bytes| parse(state, &bytes)))
}

/// Reads a file of the journal.
fn read(state: &State, folder: &OwnedFd, name: &str) -> Result<JournalFile, Error> {
    let bytes = match fs::read_at(folder.as_fd(), OsStr::new(name), ENTRY_BYTES_MAX) {
        Ok(bytes) => bytes.unwrap_or_default(),
        Err(source) if fs::is_unfit(&source) => Vec::new(),
        Err(source) => return Err(Error::io("read", state.display("journal"), source)),
    };
    Ok(parse(state, &bytes))
}

/// Reads the content of a file of the journal.
fn parse(state: &State, bytes: &[u8]) -> JournalFile {
    let (json, seal) = split_seal(bytes);
    let version = version_of(json);
    if version > VERSION {
        return JournalFile::Newer;
    }
    match serde_json::from_slice::<JournalEntry>(json) {
        Ok(mut entry) if version < SEALED_SINCE || seal == seal_of(json).as_bytes() => {
            let steps = std::mem::take(&mut entry.steps);
            entry.set_steps(steps, state.path());
            JournalFile::Entry(Box::new(entry))
        }
        _ => JournalFile::Damaged,
    }
}

/// Returns the numbers of the unreadable records among the newest `count` of a session's history, ascending.
///
/// # Errors
/// Returns the OS error.
pub fn damaged_history(state: &State, session: &str, count: usize) -> Result<Vec<u64>, Error> {
    let (numbers, mut next) = (ChangeNumbers::of(state, session)?, u64::MAX);
    let Some(folder) = state.find_folder(&history_folder(session))? else {
        return Ok(Vec::new());
    };
    let mut damaged = Vec::new();
    for _ in 0..count {
        let Some(seq) = numbers.before(next)? else { break };
        if matches!(read_change(state, session, &folder, &history_name(seq))?, JournalFile::Damaged) {
            damaged.push(seq);
        }
        next = seq;
    }
    damaged.reverse();
    Ok(damaged)
}

/// Files of unfinished calls.
#[derive(Default)]
pub struct UnfinishedCalls {
    /// Entries, oldest first.
    pub entries: Vec<JournalEntry>,
    /// Whole entries that were not renamed to their final names.
    pub unpublished: Vec<JournalEntry>,
    /// Names of entries of a newer version.
    pub newer: Vec<String>,
    /// Names of damaged entries.
    pub damaged: Vec<String>,
    /// Temporary files that never took effect.
    pub strays: Vec<String>,
    /// Names of the layers of commands that are running or were killed.
    pub layers: Vec<String>,
    /// Names of the direct commands that are running or were killed.
    pub direct: Vec<String>,
    /// True if a call was killed that may have left locks of git.
    pub has_git_locks: bool,
    /// Finished changes without their snapshots, oldest first.
    pub missed: Vec<MissedSnapshot>,
}

/// Finished change whose snapshot could not be made, or was lost. The next change of any session makes it first, since the bytes on
/// disk would count as the developer's otherwise.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissedSnapshot {
    /// Time of the change, in nanoseconds since 1970.
    nanoseconds: u128,
    /// Number of the change in its session.
    pub seq: u64,
    /// Session.
    pub session: String,
    /// Newest snapshot then, in hex; [`NO_SNAPSHOT`] if there was none, [`APART`] if it is in lbx's own repository.
    pub tip: String,
}

impl MissedSnapshot {
    /// Returns the name of its mark.
    pub fn name(&self) -> String {
        let Self { session, seq, nanoseconds, tip } = self;
        format!("{session}.{seq}.{nanoseconds}.{tip}{MISSED_MARK}")
    }

    /// Parses the name of a mark.
    fn of_name(name: &str) -> Option<Self> {
        /// Parts of a name.
        const PARTS: usize = 4;
        let mut parts = name.strip_suffix(MISSED_MARK)?.rsplitn(PARTS, '.');
        let tip = parts.next()?.to_owned();
        let (nanoseconds, seq) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self { nanoseconds, seq, session: parts.next()?.to_owned(), tip })
    }

    /// Leaves a mark for a change. If that fails, or if there are many marks, later snapshots count it as the
    /// developer's.
    pub fn note(state: &State, entry: &JournalEntry, tip: String) {
        let Ok(folder) = state.folder(OPEN_FOLDER) else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (nanoseconds, session) = (now.as_nanos(), entry.session.clone());
        let missed = Self { nanoseconds, seq: entry.seq, session, tip };
        if names_in(&folder).is_ok_and(|names| names.len() < MISSED_SNAPSHOTS_MAX) {
            let _ = fs::create_at(folder.as_fd(), missed.name().as_ref(), 0o600);
        }
    }
}

/// A call that takes locks of git: if it is killed, the next call of anyone removes these.
#[derive(Debug)]
pub struct GitLocksMark(Arc<OwnedFd>);

impl GitLocksMark {
    /// Leaves the mark until drop, or takes that of a killed call. The caller holds the lock of the workspace.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn leave(state: &State) -> Result<Self, Error> {
        let folder = state.folder(OPEN_FOLDER)?;
        match fs::create_at(folder.as_fd(), GIT_LOCKS_MARK.as_ref(), 0o600) {
            Ok(_) | Err(Errno::EXIST) => Ok(Self(folder)),
            Err(errno) => Err(Error::io("write", state.display(OPEN_FOLDER), errno)),
        }
    }
}

impl Drop for GitLocksMark {
    fn drop(&mut self) {
        remove(&self.0, GIT_LOCKS_MARK);
    }
}

/// Returns true if a call is running or did not finish.
pub fn has_open_entries(state: &State) -> bool {
    let entries = state.entries(OPEN_FOLDER).unwrap_or_default();
    entries.iter().any(|(_, name)| !name.ends_with(MISSED_MARK))
}

/// Lists the folder of open entries, without that of the change `own`.
///
/// # Errors
/// Returns the OS error.
pub fn open_entries(state: &State, own: Option<&str>) -> Result<UnfinishedCalls, Error> {
    let mut open = UnfinishedCalls::default();
    for (folder, name) in state.entries(OPEN_FOLDER)? {
        let is_folder =
            || fs::stat_at(folder.as_fd(), OsStr::new(&name)).is_ok_and(|stat| fs::is_folder(&stat));
        // No mark of lbx's is a folder, and what it holds may be someone's.
        if [LAYER_MARK, DIRECT_MARK].iter().any(|mark| name.ends_with(mark)) && is_folder() {
            open.damaged.push(name);
            continue;
        }
        if let Some(layer) = name.strip_suffix(LAYER_MARK) {
            open.layers.push(layer.to_owned());
            continue;
        }
        if name == GIT_LOCKS_MARK {
            open.has_git_locks = true;
            continue;
        }
        if let Some(command) = name.strip_suffix(DIRECT_MARK) {
            open.direct.push(command.to_owned());
            continue;
        }
        if let Some(missed) = MissedSnapshot::of_name(&name) {
            open.missed.push(missed);
            continue;
        }
        let (final_name, is_published) =
            name.strip_prefix('.').map_or((name.as_str(), true), |final_name| (final_name, false));
        if own.is_some() && final_name.strip_suffix(SUFFIX) == own {
            continue;
        }
        match read(state, &folder, &name)? {
            JournalFile::Entry(entry) if entry.is_well_formed(final_name) => {
                if is_published { &mut open.entries } else { &mut open.unpublished }.push(*entry);
            }
            JournalFile::Newer => open.newer.push(name),
            _ if is_published => open.damaged.push(name),
            _ => open.strays.push(name),
        }
    }
    open.missed.sort_unstable();
    open.entries.sort_unstable_by(|one, other| (one.time, &one.id).cmp(&(other.time, &other.id)));
    Ok(open)
}

/// Most names that are looked up before the folder is listed.
const LOOKUPS_MAX: usize = 200;

/// Numbers of the changes in a session's history, some of which are not known yet.
#[derive(Debug, Default)]
pub struct ChangeNumbers {
    /// Folder of the history, if it exists.
    folder: Option<Arc<OwnedFd>>,
    /// The packed part of it.
    packed: Option<Arc<PackedHistory>>,
    /// Newest number that may be in use, if the folder was not listed for it.
    newest: u64,
    /// All numbers, ascending, once the folder is listed.
    listed: OnceCell<Vec<u64>>,
    /// Number of lookups so far.
    lookups: Cell<usize>,
}

impl ChangeNumbers {
    /// Returns the numbers of a session.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn of(state: &State, session: &str) -> Result<Self, Error> {
        let folder = state.find_folder(&history_folder(session))?;
        let known = folder.as_ref().and_then(|_| session.parse::<SessionId>().ok());
        let known = known.and_then(|id| session::load_for_display(state, &id));
        let newest = known.map_or(0, |known| known.last_seq());
        let packed = folder.as_ref().map(|folder| PackedHistory::of(state, session, folder));
        let numbers = Self { folder, packed: packed.transpose()?.flatten(), newest, ..Self::default() };
        // The state of the session may be lost, or older than its history.
        if let Some(folder) = &numbers.folder
            && (newest == 0 || numbers.packed.is_some() || is_given(folder, newest.saturating_add(1)))
        {
            numbers.list(folder)?;
        }
        Ok(numbers)
    }

    /// Returns true if a number was given, even if the history has no change of it.
    pub fn is_number_used(&self, seq: u64) -> bool {
        self.folder.as_ref().is_some_and(|folder| is_given(folder, seq))
    }

    /// Returns the newest number.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn newest(&self) -> Result<Option<u64>, Error> {
        self.before(u64::MAX)
    }

    /// Returns the newest number below `seq`.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn before(&self, seq: u64) -> Result<Option<u64>, Error> {
        let Some(folder) = &self.folder else { return Ok(None) };
        if self.listed.get().is_none() {
            let mut next = seq.min(self.newest.saturating_add(1));
            while self.lookups.get() < LOOKUPS_MAX {
                if next <= 1 {
                    return Ok(None);
                }
                next -= 1;
                self.lookups.set(self.lookups.get() + 1);
                if fs::stat_at(folder.as_fd(), history_name(next).as_ref()).is_ok() {
                    return Ok(Some(next));
                }
            }
        }
        let all = self.list(folder)?;
        let at = all.partition_point(|known| *known < seq);
        Ok(at.checked_sub(1).and_then(|at| all.get(at)).copied())
    }

    /// Returns true if the change `seq` is in the history.
    pub fn has(&self, seq: u64) -> bool {
        match (self.listed.get(), &self.folder) {
            (Some(all), _) => all.binary_search(&seq).is_ok(),
            (None, Some(folder)) => fs::stat_at(folder.as_fd(), history_name(seq).as_ref()).is_ok(),
            (None, None) => false,
        }
    }

    /// Returns the numbers from `first` on, ascending.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn since(&self, first: u64) -> Result<Vec<u64>, Error> {
        let (mut numbers, mut next) = (Vec::new(), u64::MAX);
        while let Some(seq) = self.before(next)?.filter(|seq| *seq >= first) {
            numbers.push(seq);
            next = seq;
        }
        numbers.reverse();
        Ok(numbers)
    }

    /// Lists the folder, once.
    fn list(&self, folder: &OwnedFd) -> Result<&[u64], Error> {
        if self.listed.get().is_none() {
            // Nobody else can have set it: a cell is not shared between threads.
            let _ = self.listed.set(numbers_in(folder, self.packed.as_deref())?);
        }
        Ok(self.listed.get().map(Vec::as_slice).unwrap_or_default())
    }
}
