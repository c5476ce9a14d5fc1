//! Starting a job: lbx once more, as the job's supervisor, and a moment's wait for what it says.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::answer::Job;
use super::look;
use super::record::JobFolder;
use crate::engine::Engine;
use crate::engine::workspace::children;
use crate::error::{Error, ErrorKind};
use crate::tools::bash::request::Request;

/// The first word of the arguments with which lbx starts itself as a supervisor.
pub(super) const INTERNAL: &str = "__job";
/// The program that a call starts again.
pub(super) const SELF: &str = "/proc/self/exe";
/// Jobs that run at once in a workspace.
const RUNNING_MAX: usize = 16;
/// Jobs that are kept after their end, once their output was read to its end.
const KEPT: usize = 20;
/// Those that are kept whose output nobody has read.
const KEPT_UNREAD: usize = 80;
/// Time between two looks at whether the call was cancelled.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Bytes of what a supervisor says first.
const SAID_BYTES_MAX: usize = 64 * 1024;

/// What a supervisor has to know; the environment is handed down.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    /// The workspace's root.
    pub root: OsString,
    /// Where relative paths count from.
    pub base: OsString,
    /// The session.
    pub session: String,
    /// Whether a change without a snapshot counts as failed.
    pub require_snapshot: bool,
    /// Settings of the policy for the call.
    pub settings: Vec<String>,
    /// What is to be done.
    pub request: Value,
    /// The job's name.
    pub job: String,
}

/// What a supervisor says first.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// The command runs.
    Started,
    /// It does not.
    Refused {
        /// The kind of error by its name.
        kind: String,
        /// Its message.
        message: String,
        /// What to do.
        action: String,
        /// The path that it is about.
        path: Option<String>,
        /// Its details.
        details: Map<String, Value>,
    },
}

/// Starts a command as a job.
///
/// # Errors
/// What the start of a command refuses, and `command_denied` where too many jobs run.
pub fn start(engine: &mut Engine, request: &Request) -> Result<Job, Error> {
    make_room(engine)?;
    let folder = JobFolder::create(engine)?;
    match supervise(engine, request, &folder) {
        Ok(()) => {
            let about = folder.about().ok_or_else(|| Error::internal("the job left no record of itself"))?;
            look::shown(engine, &folder, about, 0, request.max_bytes)
        }
        Err(error) => {
            if !folder.is_alive() {
                folder.remove();
            }
            Err(error)
        }
    }
}

/// Removes the oldest jobs that have ended; refuses where too many run.
fn make_room(engine: &mut Engine) -> Result<(), Error> {
    let (running, others): (Vec<JobFolder>, Vec<JobFolder>) =
        JobFolder::all(engine)?.into_iter().partition(JobFolder::is_alive);
    if running.len() >= RUNNING_MAX {
        return Err(Error::new(
            ErrorKind::CommandDenied,
            format!("{RUNNING_MAX} jobs run in this workspace already"),
        )
        .suggest("Stop one, or wait for its end. `job` with `stop` stops it.")
        .on_command_line("On the command line: `lbx bash --job ID --stop`."));
    }
    // One without a record is another call's that is about to start.
    let ended = others.into_iter().filter(|folder| folder.about().is_some());
    let (read, unread): (Vec<JobFolder>, Vec<JobFolder>) = ended.partition(JobFolder::is_read);
    let old = read.len().saturating_sub(KEPT - 1);
    read.into_iter().take(old).for_each(JobFolder::remove);
    let old = unread.len().saturating_sub(KEPT_UNREAD - 1);
    for folder in unread.into_iter().take(old) {
        engine.warn(format!(
            "job {} was removed with its output, which nobody had read: {KEPT_UNREAD} such jobs are kept",
            folder.name
        ));
        folder.remove();
    }
    Ok(())
}

/// Starts the supervisor of a job, and waits until its command runs.
fn supervise(engine: &Engine, request: &Request, folder: &JobFolder) -> Result<(), Error> {
    let system = |source: io::Error| Error::io("start", "the job", source);
    let root = engine.workspace.root();
    let task = Task {
        root: root.as_os_str().to_owned(),
        base: root.join(engine.workspace.base().as_path()).into_os_string(),
        session: engine.session().to_string(),
        require_snapshot: engine.require_snapshot,
        settings: engine.policy().flags().to_vec(),
        request: serde_json::to_value(request).map_err(|error| Error::invalid(error.to_string()))?,
        job: folder.name.clone(),
    };
    let task = serde_json::to_vec(&task).map_err(|error| Error::internal(error.to_string()))?;
    let mut command = Command::new(SELF);
    command.args([INTERNAL, "detach"]).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = children::spawn(&mut command).map_err(system)?;
    let (to, from) = (child.stdin.take(), child.stdout.take());
    // It ends at once: the supervisor is its child, and nobody's once it is gone.
    child.wait().map_err(system)?;
    if let Some(mut to) = to {
        to.write_all(&task).map_err(system)?;
    }
    let Some(from) = from else { return Err(Error::internal("the supervisor has no stdout")) };
    match said(engine, folder, from).map_err(system)? {
        Some(Said::Started) => Ok(()),
        Some(Said::Refused { kind, message, action, path, details }) => {
            let kind = ErrorKind::ALL.into_iter().find(|known| known.name() == kind);
            let error = Error::new(kind.unwrap_or(ErrorKind::Internal), message).suggest(action);
            let error = details.into_iter().fold(error, |error, (name, value)| error.detail(&name, value));
            Err(match path {
                Some(path) => error.at(path),
                None => error,
            })
        }
        None => {
            engine.control.check()?;
            Err(Error::new(ErrorKind::IoError, "the supervisor of the job ended before its command started"))
        }
    }
}

/// What the supervisor says; `None` where it says nothing, or nobody wants to hear it any more.
fn said(
    engine: &Engine,
    folder: &JobFolder,
    mut from: std::process::ChildStdout,
) -> io::Result<Option<Said>> {
    let mut heard = Vec::new();
    let mut piece = [0; 4096];
    let interval = Timespec::try_from(LOOK_INTERVAL).ok();
    loop {
        if engine.control.should_stop() {
            let _ = folder.ask_to_stop();
            return Ok(None);
        }
        let mut fds = [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)];
        if rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, interval.as_ref()))? == 0 {
            continue;
        }
        let bytes = from.read(&mut piece)?;
        heard.extend_from_slice(piece.get(..bytes).unwrap_or_default());
        if bytes == 0 || heard.ends_with(b"\n") || heard.len() > SAID_BYTES_MAX {
            return Ok(serde_json::from_slice(&heard).ok());
        }
    }
}
