//! Starts a job: starts lbx again as the job's supervisor, and waits for its first message.
//!
//! The supervisor makes the call, saves the output, and records the result.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record::{ABOUT, END, JobEnd, JobFacts, JobFolder, READ, STOP};
use crate::control::Control;
use crate::engine::Engine;
use crate::engine::policy::Policy;
use crate::engine::policy::settings::Key;
use crate::engine::policy::sources::Sources;
use crate::engine::sandbox::capture::BoundedFile;
use crate::engine::workspace::{Workspace, programs};
use crate::envelope::{self, Refusal};
use crate::error::{Error, ErrorKind};
use crate::limits::SUPERVISOR_MESSAGE_BYTES_MAX;
use crate::platform::process::program_path;
use crate::tools::Tool as _;
use crate::tools::bash::request::Request;
use crate::tools::bash::response::Response;
use crate::tools::bash::{Bash, OutputTarget, confinement};

/// First argument with which lbx starts itself as a supervisor.
pub(super) const INTERNAL: &str = "__job";
/// Largest number of jobs that run at once in a workspace.
const RUNNING_MAX: usize = 16;
/// Number of ended jobs that are kept after their output was read to its end.
const KEPT: usize = 20;
/// Number of ended jobs that are kept while their output is unread.
const KEPT_UNREAD: usize = 80;
/// Time between two checks for a cancelled call, or for a request to end the job.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Task of a supervisor; it inherits the environment.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SupervisorTask {
    /// Workspace root.
    pub root: OsString,
    /// Folder that relative paths start from.
    pub base: OsString,
    /// The session.
    pub session: String,
    /// True if a change without a snapshot counts as failed.
    pub require_snapshot: bool,
    /// Policy settings of the call.
    pub settings: Vec<String>,
    /// Request to handle.
    pub request: Value,
    /// The job's name.
    pub job: String,
}

/// First message of a supervisor: the command runs, or the refusal if it does not.
type StartResult = Result<(), Value>;

/// Starts a command as a job.
///
/// # Errors
/// Fails as the start of a command does, and with `command_denied` if too many jobs run.
pub fn start(engine: &mut Engine, request: &Request) -> Result<(JobFolder, JobFacts), Error> {
    make_room(engine)?;
    let folder = JobFolder::create(&engine.workspace)?;
    match supervise(engine, request, &folder) {
        Ok(()) => {
            let about = folder.facts().ok_or_else(|| Error::internal("the job left no record of itself"))?;
            Ok((folder, about))
        }
        Err(error) => {
            if !folder.is_alive() {
                folder.remove();
            }
            Err(error)
        }
    }
}

/// Removes the oldest ended jobs; fails if too many run.
fn make_room(engine: &mut Engine) -> Result<(), Error> {
    let (running, others): (Vec<JobFolder>, Vec<JobFolder>) =
        JobFolder::all(&engine.workspace)?.into_iter().partition(JobFolder::is_alive);
    if running.len() >= RUNNING_MAX {
        return Err(Error::new(
            ErrorKind::CommandDenied,
            format!("{RUNNING_MAX} jobs run in this workspace already"),
        )
        .suggest("Stop one, or wait for its end. `job` with `stop` stops it.")
        .on_command_line("On the command line: `lbx bash --job ID --stop`."));
    }
    // A folder without a record belongs to another call that is about to start its job.
    let ended = others.into_iter().filter(|folder| folder.facts().is_some());
    let (read, unread): (Vec<JobFolder>, Vec<JobFolder>) = ended.partition(|folder| folder.has(READ));
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
    let task = SupervisorTask {
        root: root.as_os_str().to_owned(),
        base: root.join(engine.workspace.base().as_path()).into_os_string(),
        session: engine.session().to_string(),
        require_snapshot: engine.require_snapshot,
        settings: engine.policy().flags().to_vec(),
        request: serde_json::to_value(request).map_err(|error| Error::invalid(error.to_string()))?,
        job: folder.name.clone(),
    };
    let task = serde_json::to_vec(&task).map_err(|error| Error::internal(error.to_string()))?;
    let mut command = Command::new(program_path());
    command.args([INTERNAL, "detach"]).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = programs::spawn(&mut command).map_err(system)?;
    let (to, from) = (child.stdin.take(), child.stdout.take());
    // This child exits at once. The supervisor is its child, and gets another parent then.
    child.wait().map_err(system)?;
    if let Some(mut to) = to {
        to.write_all(&task).map_err(system)?;
    }
    let Some(from) = from else { return Err(Error::internal("the supervisor has no stdout")) };
    match first_message(engine, folder, from).map_err(system)? {
        Some(Ok(())) => Ok(()),
        Some(Err(refusal)) => Err(envelope::refused(&refusal)),
        None => {
            engine.control.check()?;
            Err(Error::new(ErrorKind::IoError, "the supervisor of the job ended before its command started"))
        }
    }
}

/// Returns the supervisor's first message; `None` if it sent nothing, or the call was cancelled.
fn first_message(
    engine: &Engine,
    folder: &JobFolder,
    mut from: std::process::ChildStdout,
) -> io::Result<Option<StartResult>> {
    let mut heard = Vec::new();
    let mut piece = [0; 4096];
    let interval = Timespec::try_from(LOOK_INTERVAL).ok();
    loop {
        if engine.control.should_stop() {
            let _ = folder.write_signal(STOP);
            return Ok(None);
        }
        let mut fds = [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)];
        if rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, interval.as_ref()))? == 0 {
            continue;
        }
        let bytes = from.read(&mut piece)?;
        heard.extend_from_slice(piece.get(..bytes).unwrap_or_default());
        if bytes == 0 || heard.ends_with(b"\n") || heard.len() > SUPERVISOR_MESSAGE_BYTES_MAX {
            return Ok(serde_json::from_slice(&heard).ok());
        }
    }
}

/// Exit status of a supervisor that failed.
const FAILED: u8 = 125;
/// Response fields of a command that a job fills from its own output.
const OF_OUTPUT: [&str; 6] = ["stdout", "stderr", "truncated", "output_bytes", "output_file", "sandbox"];

/// Runs a part of a job if the arguments say so, and returns the exit status; `None` for arguments of a user.
pub fn run_internal(arguments: &[OsString]) -> Option<u8> {
    let [_, word, part] = arguments else { return None };
    if word != INTERNAL {
        return None;
    }
    Some(match part.to_str() {
        Some("detach") => detach(),
        Some("supervise") => run_supervisor(),
        _ => FAILED,
    })
}

/// Starts the supervisor in a new session, so that it survives when the caller's processes are killed.
fn detach() -> u8 {
    let _ = rustix::process::setsid();
    let started = programs::spawn(Command::new(program_path()).args([INTERNAL, "supervise"]));
    if started.is_ok() { 0 } else { FAILED }
}

/// Makes the call of a job.
fn run_supervisor() -> u8 {
    let mut task = Vec::new();
    let task: Option<SupervisorTask> =
        std::io::stdin().read_to_end(&mut task).ok().and_then(|_| serde_json::from_slice(&task).ok());
    let Some(task) = task else { return FAILED };
    match made(task) {
        Ok(()) => 0,
        Err(error) => {
            send_first_message(&Err(serde_json::to_value(Refusal::from(&error)).unwrap_or_default()));
            FAILED
        }
    }
}

/// Makes the call, and records its result.
fn made(task: SupervisorTask) -> Result<(), Error> {
    let request: Request =
        serde_json::from_value(task.request).map_err(|error| Error::invalid(error.to_string()))?;
    let workspace = Workspace::discover(Some(Path::new(&task.root)), &PathBuf::from(&task.base))?;
    let policy = Policy::load(&workspace, &Sources::of_process(task.settings))?;
    let mut engine = Engine::with_policy(policy, workspace, task.session.parse()?, Control::default());
    engine.require_snapshot |= task.require_snapshot;
    let gone = || Error::internal("the folder of the job is gone");
    let folder = Arc::new(JobFolder::find(&engine.workspace, &task.job)?.ok_or_else(gone)?);
    let _alive = folder.lock()?;
    let mut sink = RunningJob::new(&engine, &request, folder.clone())?;
    let request = Request {
        background: false,
        timeout_ms: request.timeout_ms.or_else(|| Some(engine.policy().number(Key::BashJobMs))),
        ..request
    };
    let answered = crate::error::without_panic(|| {
        Bash::run_to(&mut engine, &request, &mut OutputTarget::Job(&mut sink))
    });
    engine.audit(Bash::NAME, answered.as_ref().err());
    if !sink.has_started {
        return answered.map(|_| ());
    }
    // The job's output counts towards the calls that return it.
    let (outcome, _) = engine.finish(Bash::NAME);
    let mut end = JobEnd { warnings: outcome.warnings, snapshot: outcome.snapshot, ..JobEnd::default() };
    match answered.and_then(data_of) {
        Ok(data) => end.data = data,
        Err(error) => end.warnings.push(format!("{}: {}", error.kind().name(), error.message())),
    }
    folder.write(END, &end)
}

/// Returns the fields of a command's response that a job's response has too.
fn data_of(response: Response) -> Result<serde_json::Map<String, Value>, Error> {
    let value = serde_json::to_value(response).map_err(|error| Error::internal(error.to_string()))?;
    let Value::Object(mut data) = value else { return Ok(serde_json::Map::new()) };
    data.retain(|name, _| !OF_OUTPUT.contains(&name.as_str()));
    Ok(data)
}

/// Sends the first message to the call that waits for it; that call may have ended.
fn send_first_message(said: &StartResult) {
    if let Ok(mut line) = serde_json::to_vec(said) {
        line.push(b'\n');
        let mut stdout = std::io::stdout();
        let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
    }
}

/// A job that runs in this process.
pub struct RunningJob {
    /// The job's folder.
    folder: Arc<JobFolder>,
    /// Facts to write when the command starts.
    about: JobFacts,
    /// Output file.
    file: File,
    /// True if the command has started.
    has_started: bool,
    /// Control that is cancelled when a call asks for the end.
    pub stop: Control,
}

impl RunningJob {
    /// Prepares the job of a folder.
    fn new(engine: &Engine, request: &Request, folder: Arc<JobFolder>) -> Result<Self, Error> {
        let now = jiff::Timestamp::now();
        let about = JobFacts {
            command: request.command.clone().unwrap_or_default(),
            session: engine.session().to_string(),
            started: now.round(jiff::Unit::Second).unwrap_or(now).to_string(),
            sandbox: String::new(),
            process: None,
            network: confinement::network(engine, request.network)?,
        };
        let file = folder.create_output()?;
        let stop = Control::default();
        let (marked, asked) = (folder.clone(), stop.clone());
        std::thread::spawn(move || {
            while !marked.has(STOP) {
                std::thread::sleep(LOOK_INTERVAL);
            }
            asked.cancel();
        });
        Ok(Self { folder, about, file, has_started: false, stop })
    }

    /// Returns the file for the output, of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn output_file(&self, bytes_max: u64) -> Result<BoundedFile, Error> {
        let file = self.file.try_clone().map_err(|source| Error::io("open", &self.folder.name, source))?;
        Ok(BoundedFile::new(file, bytes_max))
    }

    /// Records that the command runs.
    pub fn started(&mut self, backend: &'static str, process: u32) {
        self.has_started = true;
        self.about.process = Some(process);
        backend.clone_into(&mut self.about.sandbox);
        // Without its record nobody finds the job: stop it.
        if self.folder.write(ABOUT, &self.about).is_err() {
            self.stop.cancel();
        }
        send_first_message(&Ok(()));
    }
}
