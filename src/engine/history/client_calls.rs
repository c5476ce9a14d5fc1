//! Calls of a client's own tools that have begun: the client's hooks say when one begins and when it has ended.
//!
//! Between the two, the client writes without lbx. The files as they were before are recorded here and their bytes are
//! backed up, so that the change can be recorded afterwards, even if the client is killed in between.

use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::fs::AtFlags;
use serde::{Deserialize, Serialize};

use super::concurrent_changes::RepoHeads;
use crate::control::seconds_now;
use crate::engine::journal::Version;
use crate::engine::store::lock::unique_name;
use crate::engine::store::state::{CLIENT_CALLS_FOLDER, State, names_in};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;
use crate::limits::CLIENT_CALLS_BYTES_MAX;

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
    /// Commands of the client's own shell, which may change any file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<Commands>,
}

/// Commands of a client's own shell that run now, or ran since the workspace was last looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commands {
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
            Err(source) => Err(Error::io("read", state.shown(CLIENT_CALLS_FOLDER), source)),
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
            Err(errno) => Err(Error::io("remove", state.shown(CLIENT_CALLS_FOLDER), errno)),
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

    /// Forgets the call for its session's commands; returns the survey before the first, if it can be read.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn take_survey(&self, state: &State) -> Result<Option<Vec<u8>>, Error> {
        Self::forget(state, &self.session, COMMANDS)?;
        let Some(folder) = state.find_folder(CLIENT_CALLS_FOLDER)? else { return Ok(None) };
        let name = format!("{}{SURVEY}", self.session);
        let bytes = fs::read_at(folder.as_fd(), OsStr::new(&name), SURVEY_BYTES_MAX).ok().flatten();
        // A survey that is left behind is replaced by the next.
        let _ = fs::unlink_at(&*folder, &name, AtFlags::empty());
        Ok(bytes)
    }

    /// Returns the calls of other sessions that still run.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn others(state: &State, session: &str) -> Result<Vec<Self>, Error> {
        let calls = Self::all(state)?.into_iter().map(|(_, call)| call);
        Ok(calls.filter(|call| call.session != session && !call.is_forsaken()).collect())
    }

    /// Returns true if a call of a client runs: what it has written so far will be recorded as its own.
    pub fn is_any(state: &State) -> bool {
        Self::others(state, "").is_ok_and(|calls| !calls.is_empty())
    }

    /// Returns all calls that have begun, each with its name.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn all(state: &State) -> Result<Vec<(String, Self)>, Error> {
        let Some(folder) = state.find_folder(CLIENT_CALLS_FOLDER)? else { return Ok(Vec::new()) };
        let mut calls = Vec::new();
        for name in names_in(&folder)? {
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
        seconds_now().saturating_sub(self.time) > most.as_secs()
    }

    /// Returns true if it may change a path.
    pub fn names(&self, path: &WorkspacePath) -> bool {
        self.files.iter().any(|file| file.path == *path)
    }
}
