//! A job on disk: a folder in lbx's state.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustix::fs::AtFlags;
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::engine::Engine;
use crate::engine::sandbox::backend::NAMESPACES;
use crate::engine::sandbox::outside::Network;
use crate::engine::store::session::SessionId;
use crate::engine::store::state::{Lock, State, replace_record};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs};
use crate::error::Error;
use crate::limits::JOB_NAMES_MAX;

/// Folder of the jobs, in the state.
const FOLDER: &str = "jobs";
/// Lock that the supervisor holds while it lives.
const LOCK: &str = "lock";
/// Facts about the job; written when its command has started.
pub const ABOUT: &str = "job.lbx";
/// Result of the job.
pub const END: &str = "end.lbx";
/// File that asks the supervisor to end the job.
pub const STOP: &str = "stop";
/// File that shows that the output was read to its end after the job had ended.
pub const READ: &str = "read";
/// Output of the job.
const OUTPUT: &str = "output.txt";
/// Largest record, in bytes.
const RECORD_BYTES_MAX: u64 = 4 << 20;
/// First character of a job's name.
const PREFIX: char = 'j';

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// The job runs.
    Running,
    /// The job has ended, and its changes are recorded.
    Ended,
    /// lbx was killed with the job: its exit status is unknown.
    Lost,
}

impl JobState {
    /// Returns the word for a reader.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Lost => "lost",
        }
    }
}

/// Facts about a job.
#[derive(Debug, Serialize, Deserialize)]
pub struct JobFacts {
    /// Its command.
    pub command: String,
    /// Session that started it.
    pub session: String,
    /// Its start.
    pub started: String,
    /// Backend that confines it.
    pub sandbox: String,
    /// Process of its sandbox.
    #[serde(default)]
    pub process: Option<u32>,
    /// Its network.
    #[serde(default)]
    pub network: Network,
}

/// Result of a job.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct JobEnd {
    /// Fields of a command's response, without the output.
    pub data: Map<String, Value>,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
    /// Commit that holds its changes.
    pub snapshot: Option<String>,
}

/// The folder of a job.
pub struct JobFolder {
    /// The job's name.
    pub name: String,
    /// The folder.
    opened: Arc<OwnedFd>,
    /// The state that it is in.
    state: State,
}

impl JobFolder {
    /// Creates the folder of a new job.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn create(workspace: &Workspace) -> Result<Self, Error> {
        let state = State::open(workspace)?;
        let all = state.folder(FOLDER)?;
        let io = |errno: Errno| Error::io("make", state.display(FOLDER), errno);
        let next = numbers(&all).last().map_or(1, |newest| newest + 1);
        for number in next..next + JOB_NAMES_MAX {
            let name = format!("{PREFIX}{number}");
            match rustix::fs::mkdirat(&all, name.as_str(), rustix::fs::Mode::from_raw_mode(0o700)) {
                Ok(()) => return Self::find(workspace, &name)?.ok_or_else(|| io(Errno::NOENT)),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(io(errno)),
            }
        }
        Err(io(Errno::EXIST))
    }

    /// Opens the folder of a job; returns `None` if it does not exist.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn find(workspace: &Workspace, name: &str) -> Result<Option<Self>, Error> {
        let is_name = name.strip_prefix(PREFIX).is_some_and(|number| number.parse::<u64>().is_ok());
        let state = State::find(workspace)?;
        let Some(state) = state.filter(|_| is_name) else { return Ok(None) };
        let opened = state.find_folder(&format!("{FOLDER}/{name}"))?;
        Ok(opened.map(|opened| Self { name: name.to_owned(), opened, state }))
    }

    /// Opens the folders of all jobs, oldest first.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn all(workspace: &Workspace) -> Result<Vec<Self>, Error> {
        let Some(state) = State::find(workspace)? else { return Ok(Vec::new()) };
        let Some(all) = state.find_folder(FOLDER)? else { return Ok(Vec::new()) };
        let folder = |number: u64| Self::find(workspace, &format!("{PREFIX}{number}")).transpose();
        numbers(&all).into_iter().filter_map(folder).collect()
    }

    /// Opens the folders of the jobs of a session, oldest first; also returns the facts about them.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn of_session(workspace: &Workspace, session: &SessionId) -> Result<Vec<(Self, JobFacts)>, Error> {
        let own = |folder: Self| folder.facts_in_session(session).map(|about| (folder, about));
        Ok(Self::all(workspace)?.into_iter().filter_map(own).collect())
    }

    /// Returns the process of the newest running job of the caller's session with that network.
    pub fn peer(engine: &Engine, network: &Network) -> Option<u32> {
        let process = |job: &Self| {
            let about = job.facts_in_session(engine.session()).filter(|about| about.network == *network)?;
            about.process.filter(|_| about.sandbox == NAMESPACES && job.is_alive())
        };
        let state = (!network.is_shared()).then(|| State::find(&engine.workspace).ok()).flatten()??;
        let all = state.find_folder(FOLDER).ok()??;
        let names = numbers(&all).into_iter().rev().map(|number| format!("{PREFIX}{number}"));
        // Most jobs have ended, which a single stat shows.
        let may_run = |name: &String| fs::stat_at(all.as_fd(), OsStr::new(&format!("{name}/{END}"))).is_err();
        names.filter(may_run).find_map(|name| process(&Self::find(&engine.workspace, &name).ok()??))
    }

    /// Takes the lock that shows that the supervisor lives.
    ///
    /// # Errors
    /// Fails with `lock_timeout`, or returns the OS error.
    pub fn lock(&self) -> Result<Lock, Error> {
        self.state.lock(self.opened.as_fd(), LOCK, "the job")
    }

    /// Returns true if the supervisor lives.
    pub fn is_alive(&self) -> bool {
        matches!(self.state.try_lock(self.opened.as_fd(), LOCK), Ok(None))
    }

    /// Returns the facts about the job; `None` if its command has not started.
    pub fn facts(&self) -> Option<JobFacts> {
        self.read(ABOUT)
    }

    /// Returns the facts about the job if it is one of that session.
    pub fn facts_in_session(&self, session: &SessionId) -> Option<JobFacts> {
        self.facts().filter(|about| about.session == session.as_str())
    }

    /// Returns the state, and the result if there is one.
    pub fn state(&self) -> (JobState, Option<JobEnd>) {
        // Check the lock first: the supervisor writes the result before it releases the lock.
        let is_alive = self.is_alive();
        match self.read(END) {
            Some(end) if !is_alive => (JobState::Ended, Some(end)),
            _ if is_alive => (JobState::Running, None),
            Some(_) | None => (JobState::Lost, None),
        }
    }

    /// Makes a file that tells others something: [`STOP`] or [`READ`].
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn write_signal(&self, file: &str) -> Result<(), Error> {
        match fs::create_at(self.opened.as_fd(), OsStr::new(file), 0o600) {
            Ok(_) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(Error::io(file, &self.name, errno)),
        }
    }

    /// Returns true if a call has made that file: [`STOP`] or [`READ`].
    pub fn has(&self, file: &str) -> bool {
        fs::stat_at(self.opened.as_fd(), OsStr::new(file)).is_ok()
    }

    /// Creates the file for the output.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn create_output(&self) -> Result<File, Error> {
        fs::create_at(self.opened.as_fd(), OsStr::new(OUTPUT), 0o600)
            .map_err(|errno| Error::io("make the output of", &self.name, errno))
    }

    /// Opens the output; returns `None` if it does not exist yet.
    pub fn open_output(&self) -> Option<File> {
        fs::open_at(self.opened.as_fd(), OsStr::new(OUTPUT), fs::READ).ok().map(File::from)
    }

    /// Returns the path of the output, from the root.
    pub fn output_path(&self) -> WorkspacePath {
        self.state.path_of(&format!("{FOLDER}/{}", self.name)).join(OsStr::new(OUTPUT))
    }

    /// Removes the folder with its content.
    pub fn remove(self) {
        for name in fs::names_in(&self.opened).unwrap_or_default() {
            let _ = fs::unlink_at(&self.opened, &name, AtFlags::empty());
        }
        if let Ok(Some(all)) = self.state.find_folder(FOLDER) {
            // Another call may have removed it.
            let _ = fs::unlink_at(&all, &self.name, AtFlags::REMOVEDIR);
        }
    }

    /// Reads a record; returns `None` if it is missing or invalid.
    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let bytes = fs::read_at(self.opened.as_fd(), OsStr::new(name), RECORD_BYTES_MAX).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Writes a record atomically: [`ABOUT`] or [`END`].
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn write<T: Serialize>(&self, name: &str, record: &T) -> Result<(), Error> {
        replace_record(self.opened.as_fd(), name, record).map(drop)
    }
}

/// Returns the numbers of the jobs in their folder, in order.
fn numbers(all: &OwnedFd) -> Vec<u64> {
    let names = fs::names_in(all).unwrap_or_default();
    let mut numbers: Vec<u64> =
        names.iter().filter_map(|name| name.to_str()?.strip_prefix(PREFIX)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}
