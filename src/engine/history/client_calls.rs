//! Calls of a client's own tools, changes of other calls meanwhile, and turns: the client's hooks say when each begins
//! and when it has ended.
//!
//! Between the two, the client writes without lbx. The files as they were before are recorded here and their bytes are
//! backed up, so that the change can be recorded afterwards, even if the client is killed in between.
//!
//! A turn is the changes between a prompt and the end of the answer to it. Changes are numbered within their session, so
//! a turn is a range of numbers. A change that no such range holds is a turn of its own. A turn has no number: that of any
//! of its changes names it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::fs::AtFlags;
use serde::{Deserialize, Serialize};

use crate::control::seconds_now;
use crate::engine::journal::ChangeNumbers;
use crate::engine::journal::steps::{Location, Step};
use crate::engine::journal::{self, FileEntry, FolderMode, JournalEntry, Version};
use crate::engine::store::lock::unique_name;
use crate::engine::store::session::TURNS_FOLDER;
use crate::engine::store::state::{CLIENT_CALLS_FOLDER, State};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;
use crate::limits::{CLIENT_CALLS_BYTES_MAX, TURNS_BYTES_MAX};
use crate::sha256::Sha256;

/// Age at which a call of a file tool counts as ended: these tools take milliseconds.
const FILE_CALL_MAX: Duration = Duration::from_secs(60);
/// Age at which commands count as ended: a client that lives says when they end.
const COMMANDS_MAX: Duration = Duration::from_secs(3600);

/// A file before a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileBefore {
    /// Path.
    pub path: WorkspacePath,
    /// Version; `None` if there is no file.
    pub version: Option<Version>,
    /// Hash of the text that the call makes of it, if its arguments say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Sha256>,
}

/// Event at which calls are recorded whose end was not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosingEvent {
    /// A command begins; the calls may still run.
    Command,
    /// The agent has answered.
    Stop,
    /// A prompt, perhaps after the user rejected a call, ended the answer, and worked by hand.
    Prompt,
    /// The client was started again: it was killed.
    Restart,
}

impl ClosingEvent {
    /// Returns true if a difference of a file counts as that of the call: it is known that the call ran, or nothing
    /// speaks for the user. `now` is the hash of the file's text.
    pub fn is_of_call(self, outcome: Option<Sha256>, now: Option<Sha256>) -> bool {
        match self {
            Self::Command | Self::Stop => outcome.is_none() || outcome == now,
            Self::Prompt => outcome.is_some() && outcome == now,
            Self::Restart => true,
        }
    }
}

/// A call that has begun.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientCall {
    /// Session that makes it.
    pub session: String,
    /// Tool of the client.
    pub tool: String,
    /// Start time, in seconds since 1970.
    pub time: u64,
    /// Newest change of each session at the start.
    pub heads: RepoHeads,
    /// Files that it may change; of a command, those whose bytes no snapshot has.
    pub files: Vec<FileBefore>,
    /// Folders that do not exist, of the files that it may make, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<WorkspacePath>,
    /// True if its end was reported; of commands, that of one of them.
    #[serde(default)]
    pub has_ended: bool,
    /// Commands of the client's own shell, which may change any file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<RunningCommands>,
}

/// Commands of a client's own shell that run now, or ran since the workspace was last looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningCommands {
    /// The first few of them.
    pub texts: Vec<String>,
    /// Number of those that run.
    pub running: usize,
    /// True if their changes are only looked for at the end of the turn.
    pub until_stop: bool,
    /// True if a command of another session ran at the same time.
    pub is_overlapped: bool,
    /// Newest snapshot before them.
    pub tip: Option<String>,
}

/// Name of the only call of a session for its commands.
const COMMANDS: &str = "commands";
/// Suffix of the file with the survey before the commands.
const SURVEY: &str = ".survey";
/// Largest survey, in bytes.
const SURVEY_BYTES_MAX: u64 = 256 << 20;

impl ClientCall {
    /// Returns a call of a session that begins now.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn begin(state: &State, session: &str, tool: &str) -> Result<Self, Error> {
        let (session, tool) = (session.to_owned(), tool.to_owned());
        Ok(Self { session, tool, time: seconds_now(), heads: RepoHeads::of(state)?, ..Self::default() })
    }

    /// Returns the name of the file of a session's call.
    fn name(session: &str, call: &str) -> String {
        format!("{session}.{call}.json")
    }

    /// Saves it as the call of that name.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn save(&self, state: &State, call: &str) -> Result<(), Error> {
        let folder = state.folder(CLIENT_CALLS_FOLDER)?;
        let bytes = serde_json::to_vec(self).map_err(|error| Error::internal(error.to_string()))?;
        let name = Self::name(&self.session, call);
        state.replace(folder.as_fd(), OsStr::new(&name), &bytes, &unique_name("call"))?;
        Ok(())
    }

    /// Returns a session's call; `None` if no call has that name.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn find(state: &State, session: &str, call: &str) -> Result<Option<Self>, Error> {
        Self::read(state, &Self::name(session, call))
    }

    /// Reads a call; `None` if the file is missing or damaged.
    fn read(state: &State, name: &str) -> Result<Option<Self>, Error> {
        let Some(folder) = state.find_folder(CLIENT_CALLS_FOLDER)? else { return Ok(None) };
        match fs::read_at(folder.as_fd(), OsStr::new(name), CLIENT_CALLS_BYTES_MAX) {
            Ok(bytes) => Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok())),
            Err(source) if fs::is_unfit(&source) => Ok(None),
            Err(source) => Err(Error::io("read", state.display(CLIENT_CALLS_FOLDER), source)),
        }
    }

    /// Forgets a session's call.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn forget(state: &State, session: &str, call: &str) -> Result<(), Error> {
        let Some(folder) = state.find_folder(CLIENT_CALLS_FOLDER)? else { return Ok(()) };
        match fs::unlink_at(&*folder, Self::name(session, call), AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::io("remove", state.display(CLIENT_CALLS_FOLDER), errno)),
        }
    }

    /// Returns the call for a session's commands.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn find_commands(state: &State, session: &str) -> Result<Option<Self>, Error> {
        Self::find(state, session, COMMANDS)
    }

    /// Saves the call for a session's commands, with a survey of the workspace before the first.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn save_commands(&self, state: &State, survey: Option<&[u8]>) -> Result<(), Error> {
        if let Some(survey) = survey {
            let (folder, name) = (state.folder(CLIENT_CALLS_FOLDER)?, format!("{}{SURVEY}", self.session));
            state.replace(folder.as_fd(), OsStr::new(&name), survey, &unique_name("survey"))?;
        }
        self.save(state, COMMANDS)
    }

    /// Returns the survey before the first of its session's commands, if it can be read.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn survey(&self, state: &State) -> Result<Option<Vec<u8>>, Error> {
        let Some(folder) = state.find_folder(CLIENT_CALLS_FOLDER)? else { return Ok(None) };
        let name = format!("{}{SURVEY}", self.session);
        Ok(fs::read_at(folder.as_fd(), OsStr::new(&name), SURVEY_BYTES_MAX).ok().flatten())
    }

    /// Forgets the call for a session's commands, once their changes are recorded.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn forget_commands(state: &State, session: &str) -> Result<(), Error> {
        Self::forget(state, session, COMMANDS)?;
        if let Some(folder) = state.find_folder(CLIENT_CALLS_FOLDER)? {
            // A survey that is left behind is replaced by the next.
            let _ = fs::unlink_at(&*folder, format!("{session}{SURVEY}"), AtFlags::empty());
        }
        Ok(())
    }

    /// Returns the calls of other sessions that still run.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn calls_of_others(state: &State, session: &str) -> Result<Vec<Self>, Error> {
        let calls = Self::all(state)?.into_iter().map(|(_, call)| call);
        Ok(calls.filter(|call| call.session != session && !call.is_forsaken()).collect())
    }

    /// Returns true if a call of a client runs: what it has written so far will be recorded as its own.
    pub fn is_any(state: &State) -> bool {
        Self::calls_of_others(state, "").is_ok_and(|calls| !calls.is_empty())
    }

    /// Returns all calls that have begun, each with its name.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn all(state: &State) -> Result<Vec<(String, Self)>, Error> {
        let mut calls = Vec::new();
        for (_, name) in state.entries(CLIENT_CALLS_FOLDER)? {
            let Some(call) = Self::read(state, &name)? else { continue };
            let own = name.strip_prefix(&call.session).and_then(|rest| rest.strip_prefix('.'));
            if let Some(own) = own.and_then(|own| own.strip_suffix(".json")) {
                calls.push((own.to_owned(), call));
            }
        }
        Ok(calls)
    }

    /// Returns true if it is so old that its end was never reported.
    pub fn is_forsaken(&self) -> bool {
        let most = if self.commands.is_some() { COMMANDS_MAX } else { FILE_CALL_MAX };
        // A time in the future was noted while the clock was ahead.
        seconds_now().checked_sub(self.time).is_none_or(|age| age > most.as_secs())
    }

    /// Returns true if it may change a path.
    pub fn names(&self, path: &WorkspacePath) -> bool {
        self.files.iter().any(|file| file.path == *path)
    }
}

/// Tool of a command's changes.
const COMMAND_TOOL: &str = "bash";

/// Newest change of each session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepoHeads(BTreeMap<String, u64>);

impl RepoHeads {
    /// Reads the current heads.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn of(state: &State) -> Result<Self, Error> {
        let mut heads = BTreeMap::new();
        for session in journal::sessions(state)? {
            let newest = ChangeNumbers::of(state, &session)?.newest()?.unwrap_or(0);
            heads.insert(session, newest);
        }
        Ok(Self(heads))
    }

    /// Returns the changes made since, the oldest of each session first.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn since(&self, state: &State) -> Result<Vec<JournalEntry>, Error> {
        let mut entries = Vec::new();
        for session in journal::sessions(state)? {
            let known = self.0.get(&session).copied().unwrap_or(0);
            for seq in ChangeNumbers::of(state, &session)?.since(known.saturating_add(1))? {
                entries.extend(journal::history_entry(state, &session, seq)?);
            }
        }
        // An id begins with the nanosecond of its making.
        entries.sort_by(|one, next| (one.time, &one.id).cmp(&(next.time, &next.id)));
        Ok(entries)
    }
}

/// Changes that others made while a command ran.
#[derive(Default)]
pub struct ConcurrentChanges {
    /// Files, each with its version before the first change and after the last.
    pub files: BTreeMap<WorkspacePath, (Option<Version>, Option<Version>)>,
    /// Paths from which others moved something.
    moved_from: Vec<WorkspacePath>,
    /// Paths to which they moved it.
    moved_to: Vec<WorkspacePath>,
    /// Folders that others made or removed.
    pub folders: BTreeSet<WorkspacePath>,
    /// Moved paths whose versions are known.
    settled: BTreeSet<WorkspacePath>,
    /// Other paths that they changed: nobody knows the versions.
    unknown: BTreeSet<WorkspacePath>,
    /// Files that are recorded as changes of other commands.
    pub by_commands: BTreeSet<WorkspacePath>,
    /// Files of which a part of the command's own changes is recorded already, each with its first and last version.
    pub so_far: BTreeMap<WorkspacePath, (Option<Version>, Option<Version>)>,
}

/// Adds a change of a file to those of before: the first version stays.
fn add_version(all: &mut BTreeMap<WorkspacePath, (Option<Version>, Option<Version>)>, file: &FileEntry) {
    let known = all.entry(file.path.clone()).or_insert_with(|| (file.before.clone(), None));
    known.1.clone_from(&file.after);
}

impl ConcurrentChanges {
    /// Returns the net effect of changes; `command` is the name of the running command, if it has one.
    pub fn of(entries: Vec<JournalEntry>, command: Option<&str>) -> Self {
        let mut theirs = Self::default();
        for entry in entries {
            let paths = entry.steps.iter().flat_map(Step::locations).filter_map(Location::in_workspace);
            theirs.unknown.extend(paths.cloned().chain(entry.lost));
            for moved in entry.moves {
                theirs.moved_from.push(moved.from);
                theirs.moved_to.push(moved.to);
            }
            theirs.folders.extend(entry.folders);
            theirs.folders.extend(entry.removed.into_iter().map(|folder| folder.path));
            let modes = entry.modes.into_iter().filter(FolderMode::is_change);
            theirs.folders.extend(modes.map(|folder| folder.path));
            let is_own = entry.command.is_some() && entry.command.as_deref() == command;
            for file in &entry.files {
                add_version(&mut theirs.files, file);
                if is_own {
                    add_version(&mut theirs.so_far, file);
                } else if entry.tool == COMMAND_TOOL {
                    theirs.by_commands.insert(file.path.clone());
                }
            }
        }
        let is_known =
            |path: &WorkspacePath| theirs.files.contains_key(path) || theirs.folders.contains(path);
        theirs.unknown.retain(|path| !is_known(path));
        theirs
    }

    /// Returns true if nobody changed anything.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
            && self.folders.is_empty()
            && self.moved_from.is_empty()
            && self.unknown.is_empty()
    }

    /// Returns true if a path is theirs whatever is there now: they moved it or a folder above it, from there or to
    /// there, or changed it without a record of its versions.
    pub fn is_theirs(&self, path: &WorkspacePath) -> bool {
        let mut moved = self.moved_from.iter().chain(&self.moved_to);
        !self.settled.contains(path)
            && (self.unknown.contains(path) || moved.any(|moved| path.is_within(moved)))
    }

    /// Returns the paths to which others moved something.
    pub fn moved_to(&self) -> &[WorkspacePath] {
        &self.moved_to
    }

    /// Notes the version that their moves left at a path. It can be `None` only where they moved nothing to.
    pub fn note_moved_version(&mut self, path: WorkspacePath, last: Option<Version>) {
        if last.is_some() || !self.moved_to.iter().any(|moved| path.is_within(moved)) {
            self.files.insert(path.clone(), (None, last));
            self.settled.insert(path);
        }
    }
}

/// Most turns that are kept of a session; the changes of older ones become turns of their own.
const TURNS_MAX: usize = 500;
/// Longest title, in characters.
const TITLE_MAX: usize = 200;

/// Age from which an open turn counts as left, in seconds: its client does not run any more.
const OPEN_MAX_SECONDS: u64 = 3600;

/// A turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Name that the client has for it; empty for a change without a turn.
    pub key: String,
    /// Number of its first change.
    pub first: u64,
    /// Number of its last change; `None` while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
    /// Start time, in seconds since 1970.
    pub time: u64,
    /// Beginning of the prompt, if the policy keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl Turn {
    /// Returns the turn of a change that no client named one for.
    pub const fn of_change(seq: u64) -> Self {
        Self { key: String::new(), first: seq, last: Some(seq), time: 0, title: None }
    }

    /// Returns true if a change belongs to it.
    pub fn holds(&self, seq: u64) -> bool {
        seq >= self.first && self.last.is_none_or(|last| seq <= last)
    }

    /// Returns true if a client began it, rather than a single change.
    pub const fn is_of_client(&self) -> bool {
        !self.key.is_empty()
    }
}

/// The turns of a session, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turns(Vec<Turn>);

impl Turns {
    /// Reads the turns of a session; none if there is no such file, or it is damaged.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn load(state: &State, session: &str) -> Result<Self, Error> {
        let Some(folder) = state.find_folder(TURNS_FOLDER)? else { return Ok(Self::default()) };
        let bytes = match fs::read_at(folder.as_fd(), OsStr::new(session), TURNS_BYTES_MAX) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(source) if fs::is_unfit(&source) => Vec::new(),
            Err(source) => return Err(Error::io("read", state.display(TURNS_FOLDER), source)),
        };
        let Self(mut turns) = serde_json::from_slice(&bytes).unwrap_or_default();
        // Anybody may have written the file.
        turns.retain(|turn| turn.first > 0 && turn.is_of_client());
        turns.sort_by_key(|turn| turn.first);
        Ok(Self(turns))
    }

    /// Begins a turn with the change `next`, unless it is the last one, which goes on: a hook of the client may have let
    /// it continue after its end.
    pub fn begin(&mut self, key: &str, title: Option<&str>, next: u64) {
        let goes_on = |turn: &&mut Turn| {
            turn.key == key && turn.last.is_none_or(|last| last.checked_add(1) == Some(next))
        };
        if let Some(turn) = self.0.last_mut().filter(goes_on) {
            turn.last = None;
            return;
        }
        self.end(next);
        let title = title.map(|title| title.chars().take(TITLE_MAX).collect());
        self.0.push(Turn { key: key.to_owned(), first: next, last: None, time: seconds_now(), title });
    }

    /// Ends the open turn before the change `next`; a turn without changes is forgotten.
    pub fn end(&mut self, next: u64) {
        if let Some(open) = self.0.pop_if(|turn| turn.last.is_none())
            && open.first < next
        {
            self.0.push(Turn { last: Some(next - 1), ..open });
        }
    }

    /// Returns true if another session has begun a turn lately that is still open.
    pub fn is_other_open(state: &State, session: &str) -> bool {
        let entries = state.entries(TURNS_FOLDER).unwrap_or_default();
        let now = seconds_now();
        let is_open = |name: &String| {
            let turns = Self::load(state, name).unwrap_or_default();
            let age = turns.open().and_then(|turn| now.checked_sub(turn.time));
            age.is_some_and(|age| age <= OPEN_MAX_SECONDS)
        };
        entries.iter().any(|(_, name)| name != session && is_open(name))
    }

    /// Saves the turns.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn save(&self, state: &State, session: &str) -> Result<(), Error> {
        let folder = state.folder(TURNS_FOLDER)?;
        let newest = self.0.get(self.0.len().saturating_sub(TURNS_MAX)..).unwrap_or_default();
        let bytes = serde_json::to_vec(newest).map_err(|error| Error::internal(error.to_string()))?;
        state.replace(folder.as_fd(), OsStr::new(session), &bytes, &unique_name("turns"))?;
        Ok(())
    }

    /// Returns the turn that is open.
    pub fn open(&self) -> Option<&Turn> {
        self.0.last().filter(|turn| turn.last.is_none())
    }

    /// Returns the turn that holds a change.
    pub fn of(&self, seq: u64) -> Turn {
        let after = self.0.partition_point(|turn| turn.first <= seq);
        let found = after.checked_sub(1).and_then(|at| self.0.get(at)).filter(|turn| turn.holds(seq));
        found.cloned().unwrap_or_else(|| Turn::of_change(seq))
    }
}
