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
use crate::engine::store::state::{Lock, State};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;

/// Where jobs are, in the state.
const FOLDER: &str = "jobs";
/// Held by the supervisor as long as it lives.
const LOCK: &str = "lock";
/// What the job is; written when its command has started.
const ABOUT: &str = "job.lbx";
/// How it ended.
const END: &str = "end.lbx";
/// Asks the supervisor to end it.
const STOP: &str = "stop";
/// Shows that its output was read to the end after the job had ended.
const READ: &str = "read";
/// Its output.
const OUTPUT: &str = "output.txt";
/// Bytes of a record.
const RECORD_BYTES_MAX: u64 = 4 << 20;
/// How the names of jobs begin.
const PREFIX: char = 'j';
/// Attempts at a name that no other call takes.
const NAMES_MAX: u64 = 1000;

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It runs.
    Running,
    /// It has ended, and what it changed is recorded.
    Ended,
    /// lbx was ended with it: nobody knows its exit status.
    Lost,
}

impl JobState {
    /// The word for a reader.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Lost => "lost",
        }
    }
}

/// What a job is.
#[derive(Debug, Serialize, Deserialize)]
pub struct About {
    /// Its command.
    pub command: String,
    /// The session whose job it is.
    pub session: String,
    /// When it started.
    pub started: String,
    /// What confines it.
    pub sandbox: String,
    /// The process of its sandbox.
    #[serde(default)]
    pub process: Option<u32>,
    /// The network that it has.
    #[serde(default)]
    pub network: Network,
}

/// How a job ended.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct End {
    /// What a command's answer has, its output aside.
    pub data: Map<String, Value>,
    /// What the caller should know.
    pub warnings: Vec<String>,
    /// The commit that holds what it changed.
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

/// Tells whether someone asked for the end of a job.
pub struct StopMark(OwnedFd);

impl StopMark {
    /// Returns true if someone did.
    #[must_use]
    pub fn is_set(&self) -> bool {
        fs::stat_at(self.0.as_fd(), OsStr::new(STOP)).is_ok()
    }
}

impl JobFolder {
    /// A new one.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn create(engine: &Engine) -> Result<Self, Error> {
        let state = State::open(&engine.workspace)?;
        let all = state.folder(FOLDER)?;
        let next = numbers(&all).into_iter().max().map_or(1, |newest| newest + 1);
        for number in next..next + NAMES_MAX {
            let name = format!("{PREFIX}{number}");
            match rustix::fs::mkdirat(&all, name.as_str(), rustix::fs::Mode::from_raw_mode(0o700)) {
                Ok(()) => return Self::find(engine, &name)?.ok_or_else(|| missing(&name)),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(Error::io("make", state.shown(FOLDER), errno)),
            }
        }
        Err(Error::io("make", state.shown(FOLDER), Errno::EXIST))
    }

    /// That of a job; `None` where there is none.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn find(engine: &Engine, name: &str) -> Result<Option<Self>, Error> {
        let is_name = name.strip_prefix(PREFIX).is_some_and(|number| number.parse::<u64>().is_ok());
        let state = State::find(&engine.workspace)?;
        let Some(state) = state.filter(|_| is_name) else { return Ok(None) };
        let opened = state.find_folder(&format!("{FOLDER}/{name}"))?;
        Ok(opened.map(|opened| Self { name: name.to_owned(), opened, state }))
    }

    /// Those of all jobs, the oldest first.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn all(engine: &Engine) -> Result<Vec<Self>, Error> {
        let Some(state) = State::find(&engine.workspace)? else { return Ok(Vec::new()) };
        let Some(all) = state.find_folder(FOLDER)? else { return Ok(Vec::new()) };
        let mut found = numbers(&all);
        found.sort_unstable();
        let folder = |number: u64| Self::find(engine, &format!("{PREFIX}{number}")).transpose();
        found.into_iter().filter_map(folder).collect()
    }

    /// Returns the process of the newest job of the caller's session that runs and has such a network of its own.
    #[must_use]
    pub fn peer(engine: &Engine, network: &Network) -> Option<u32> {
        let session = engine.session().as_str();
        let process = |job: &Self| {
            let about = job.about().filter(|about| about.session == session && about.network == *network)?;
            about.process.filter(|_| about.sandbox == NAMESPACES && job.is_alive())
        };
        let state = (!network.is_shared()).then(|| State::find(&engine.workspace).ok()).flatten()??;
        let all = state.find_folder(FOLDER).ok()??;
        let mut found = numbers(&all);
        found.sort_unstable_by(|one, other| other.cmp(one));
        let names = found.into_iter().map(|number| format!("{PREFIX}{number}"));
        // Most jobs have ended, which one call tells.
        let may_run = |name: &String| fs::stat_at(all.as_fd(), OsStr::new(&format!("{name}/{END}"))).is_err();
        names.filter(may_run).find_map(|name| process(&Self::find(engine, &name).ok()??))
    }

    /// Takes the lock that tells that the supervisor lives.
    ///
    /// # Errors
    /// `lock_timeout`, or the system's.
    pub fn lock(&self) -> Result<Lock, Error> {
        self.state.lock(self.opened.as_fd(), LOCK, "the job")
    }

    /// Returns true if the supervisor lives.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        matches!(self.state.try_lock(self.opened.as_fd(), LOCK), Ok(None))
    }

    /// What the job is; `None` where its command has not started.
    #[must_use]
    pub fn about(&self) -> Option<About> {
        self.read(ABOUT)
    }

    /// How it ended; `None` where it has not, or nobody knows.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        self.read(END)
    }

    /// How it stands.
    #[must_use]
    pub fn standing(&self) -> (JobState, Option<End>) {
        // Before the result is looked for: it is written before the lock goes.
        let is_alive = self.is_alive();
        match self.end() {
            Some(end) if !is_alive => (JobState::Ended, Some(end)),
            _ if is_alive => (JobState::Running, None),
            Some(_) | None => (JobState::Lost, None),
        }
    }

    /// Notes what the job is.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn write_about(&self, about: &About) -> Result<(), Error> {
        self.write(ABOUT, about)
    }

    /// Notes how it ended.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn write_end(&self, end: &End) -> Result<(), Error> {
        self.write(END, end)
    }

    /// Asks for the end of the job.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn ask_to_stop(&self) -> Result<(), Error> {
        match fs::create_at(self.opened.as_fd(), OsStr::new(STOP), 0o600) {
            Ok(_) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(Error::io("stop", &self.name, errno)),
        }
    }

    /// Notes that the output was read to its end. Where that cannot be, the job only stays longer.
    pub fn note_read(&self) {
        let _ = fs::create_at(self.opened.as_fd(), OsStr::new(READ), 0o600);
    }

    /// Returns true if the output was read to its end.
    #[must_use]
    pub fn is_read(&self) -> bool {
        fs::stat_at(self.opened.as_fd(), OsStr::new(READ)).is_ok()
    }

    /// What tells whether someone asked for its end.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn stop_mark(&self) -> Result<StopMark, Error> {
        let folder = self.opened.try_clone();
        folder.map(StopMark).map_err(|source| Error::io("watch", &self.name, source))
    }

    /// Makes the file for the output.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn create_output(&self) -> Result<File, Error> {
        fs::create_at(self.opened.as_fd(), OsStr::new(OUTPUT), 0o600)
            .map_err(|errno| Error::io("make the output of", &self.name, errno))
    }

    /// Opens the output; `None` where there is none yet.
    #[must_use]
    pub fn open_output(&self) -> Option<File> {
        fs::open_at(self.opened.as_fd(), OsStr::new(OUTPUT), fs::READ).ok().map(File::from)
    }

    /// The path of the output, from the root.
    #[must_use]
    pub fn output_path(&self) -> WorkspacePath {
        self.state.path_of(&format!("{FOLDER}/{}", self.name)).join(OsStr::new(OUTPUT))
    }

    /// Removes it with all that it holds.
    pub fn remove(self) {
        for name in fs::names_in(&self.opened).unwrap_or_default() {
            let _ = fs::unlink_at(&self.opened, &name, AtFlags::empty());
        }
        if let Ok(Some(all)) = self.state.find_folder(FOLDER) {
            // Another call may have done so.
            let _ = fs::unlink_at(&all, &self.name, AtFlags::REMOVEDIR);
        }
    }

    /// A record; `None` where it is not there, or is none.
    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let bytes = fs::read_at(self.opened.as_fd(), OsStr::new(name), RECORD_BYTES_MAX).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Writes a record, which appears at once and whole.
    fn write<T: Serialize>(&self, name: &str, record: &T) -> Result<(), Error> {
        let bytes = serde_json::to_vec(record).map_err(|error| Error::internal(error.to_string()))?;
        let aside = format!("{name}.new");
        let _ = fs::unlink_at(&self.opened, &aside, AtFlags::empty());
        let written = fs::create_at(self.opened.as_fd(), OsStr::new(&aside), 0o600)
            .map_err(std::io::Error::from)
            .and_then(|file| fs::write_all(&file, &bytes))
            .and_then(|()| Ok(fs::rename_at(self.opened.as_fd(), &aside, self.opened.as_fd(), name)?));
        written.map_err(|source| Error::io("note what became of", &self.name, source))
    }
}

/// The numbers of the jobs in their folder.
fn numbers(all: &OwnedFd) -> Vec<u64> {
    let names = fs::names_in(all).unwrap_or_default();
    names.iter().filter_map(|name| name.to_str()?.strip_prefix(PREFIX)?.parse().ok()).collect()
}

/// The error for a folder that went as soon as it was made.
fn missing(name: &str) -> Error {
    Error::io("open", name, Errno::NOENT)
}
