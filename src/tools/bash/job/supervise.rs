//! The supervisor of a job: makes the call, keeps the output, and notes the result.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use super::record::{About, End, JobFolder};
use super::start::{INTERNAL, SELF, Said, Task};
use crate::control::Control;
use crate::engine::Engine;
use crate::engine::policy::Policy;
use crate::engine::policy::settings::Key;
use crate::engine::policy::sources::Sources;
use crate::engine::sandbox::run::{Sink, Stream};
use crate::engine::workspace::Workspace;
use crate::engine::workspace::children;
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::tools::Tool as _;
use crate::tools::bash::answer::Response;
use crate::tools::bash::request::Request;
use crate::tools::bash::{Bash, Output, limits};

/// The exit status of a supervisor that failed.
const FAILED: u8 = 125;
/// Time between two looks at whether someone asked for the end.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Fields of a command's answer that a job answers from its own output.
const OF_OUTPUT: [&str; 6] = ["stdout", "stderr", "truncated", "output_bytes", "output_file", "sandbox"];

/// Runs as a part of a job where the arguments say so; answers the exit status. `None` for the
/// arguments of a user.
#[must_use]
pub fn run_internal(arguments: &[OsString]) -> Option<u8> {
    let [_, word, part] = arguments else { return None };
    if word != INTERNAL {
        return None;
    }
    Some(match part.to_str() {
        Some("detach") => detach(),
        Some("supervise") => supervise(),
        _ => FAILED,
    })
}

/// Starts the supervisor in a session of its own, so that what ends the caller's processes does not
/// end it.
fn detach() -> u8 {
    let _ = rustix::process::setsid();
    let started = children::spawn(Command::new(SELF).args([INTERNAL, "supervise"]));
    if started.is_ok() { 0 } else { FAILED }
}

/// Makes the call of a job.
fn supervise() -> u8 {
    let mut task = Vec::new();
    let task: Option<Task> =
        std::io::stdin().read_to_end(&mut task).ok().and_then(|_| serde_json::from_slice(&task).ok());
    let Some(task) = task else { return FAILED };
    match made(task) {
        Ok(()) => 0,
        Err(error) => {
            say(&refused(&error));
            FAILED
        }
    }
}

/// Makes the call, and notes its result.
fn made(task: Task) -> Result<(), Error> {
    let request: Request =
        serde_json::from_value(task.request).map_err(|error| Error::invalid(error.to_string()))?;
    let workspace = Workspace::discover(Some(Path::new(&task.root)), &PathBuf::from(&task.base))?;
    let policy = Policy::load(&workspace, &Sources::of_process(task.settings))?;
    let mut engine = Engine::under(policy, workspace, task.session.parse()?, Control::default());
    engine.require_snapshot |= task.require_snapshot;
    let gone = || Error::internal("the folder of the job is gone");
    let folder = Rc::new(JobFolder::find(&engine, &task.job)?.ok_or_else(gone)?);
    let _alive = folder.lock()?;
    let mut sink = JobSink::new(&engine, &request, folder.clone())?;
    let request = Request {
        background: false,
        timeout_ms: request.timeout_ms.or_else(|| Some(engine.policy().number(Key::BashJobMs))),
        ..request
    };
    let answered =
        crate::panics::without_panic(|| Bash::run_to(&mut engine, &request, &mut Output::Job(&mut sink)));
    engine.audit(Bash::NAME, answered.as_ref().err());
    if !sink.has_started {
        return answered.map(|_| ());
    }
    let left_out = sink.left_out;
    // What the job printed counts with the calls that return it.
    let (outcome, _) = engine.finish(Bash::NAME);
    let mut end = End { warnings: outcome.warnings, snapshot: outcome.snapshot, ..End::default() };
    if left_out > 0 {
        end.warnings.push(format!("{left_out} bytes of output are left out (bash.output_bytes)"));
    }
    match answered.and_then(data_of) {
        Ok(data) => end.data = data,
        Err(error) => end.warnings.push(format!("{}: {}", error.kind().name(), error.message())),
    }
    folder.write_end(&end)
}

/// What a job's answer takes from a command's.
fn data_of(response: Response) -> Result<serde_json::Map<String, Value>, Error> {
    let value = serde_json::to_value(response).map_err(|error| Error::internal(error.to_string()))?;
    let Value::Object(mut data) = value else { return Ok(serde_json::Map::new()) };
    data.retain(|name, _| !OF_OUTPUT.contains(&name.as_str()));
    Ok(data)
}

/// Tells the call that waits for the start; it may be gone.
fn say(said: &Said) {
    if let Ok(mut line) = serde_json::to_vec(said) {
        line.push(b'\n');
        let mut stdout = std::io::stdout();
        let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
    }
}

/// A refusal, as it is told.
fn refused(error: &Error) -> Said {
    Said::Refused {
        kind: error.kind().name().to_owned(),
        message: error.message().to_owned(),
        action: error.suggested_action().to_owned(),
        path: error.path().map(str::to_owned),
        details: error.details().clone(),
    }
}

/// Takes in the output of a job.
pub struct JobSink {
    /// The job's folder.
    folder: Rc<JobFolder>,
    /// What is noted when the command starts.
    about: About,
    /// The file.
    file: File,
    /// Bytes that it may still get.
    room: u64,
    /// Bytes that came after those.
    left_out: u64,
    /// Whether the command has started.
    has_started: bool,
    /// Cancelled when someone asks for the end.
    pub stop: Control,
}

impl JobSink {
    /// One for the job of that folder.
    fn new(engine: &Engine, request: &Request, folder: Rc<JobFolder>) -> Result<Self, Error> {
        let now = jiff::Timestamp::now();
        let about = About {
            command: request.command.clone().unwrap_or_default(),
            session: engine.session().to_string(),
            started: now.round(jiff::Unit::Second).unwrap_or(now).to_string(),
            sandbox: String::new(),
            process: None,
            network: limits::network(engine, request.network)?,
        };
        let file = folder.create_output()?;
        let stop = Control::default();
        let (mark, asked) = (folder.stop_mark()?, stop.clone());
        std::thread::spawn(move || {
            while !mark.is_set() {
                std::thread::sleep(LOOK_INTERVAL);
            }
            asked.cancel();
        });
        let room = limits::output_bytes_max(engine);
        Ok(Self { folder, about, file, room, left_out: 0, has_started: false, stop })
    }
}

impl Sink for JobSink {
    fn take(&mut self, _stream: Stream, bytes: &[u8]) {
        let room = usize::try_from(self.room).unwrap_or(usize::MAX);
        let (kept, rest) = bytes.split_at(room.min(bytes.len()));
        let written = fs::write_all(&self.file, kept).is_ok();
        self.room = if written { self.room - kept.len() as u64 } else { 0 };
        self.left_out += if written { rest.len() } else { bytes.len() } as u64;
    }

    fn started(&mut self, backend: &'static str, process: u32) {
        self.has_started = true;
        self.about.process = Some(process);
        backend.clone_into(&mut self.about.sandbox);
        // Without it nobody finds the job: better that it does not run.
        if self.folder.write_about(&self.about).is_err() {
            self.stop.cancel();
        }
        say(&Said::Started);
    }
}
