//! `bash`: a shell command, confined to the workspace.

pub mod client_command;
mod command_diff;
mod confinement;
mod direct;
mod job;
mod layer_changes;
mod layer_plan;
mod layered;
mod output;
mod recording;
mod request;
mod response;
mod saved_untracked;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

pub use job::{end_all as end_jobs, run_internal};
pub(super) use layer_changes::IgnoredPaths;

use recording::Recording;

use confinement::{PlannedCommand, allowed, backend_word, is_allowed};
use job::record::JobFolder;
use request::Request;
use response::{BackendRow, Backends, CommandDiff, CommandResponse, Response, with_output};

use super::{Effect, Stdin, Text, Tool};
use crate::control::Control;
use crate::engine::Engine;
use crate::engine::policy::settings::Key;
use crate::engine::sandbox::capture::{self, Capture};
use crate::engine::sandbox::control_group::ControlGroup;
use crate::engine::sandbox::plan::{CommandEnd, SandboxPlan};
use crate::engine::sandbox::repository_marks::RepositoryWatch;
use crate::engine::sandbox::running::CommandTurn;
use crate::engine::sandbox::{self, BACKENDS, Backend, layer_folders, run};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::limits::{BASH_COMMAND_BYTES_MAX, BASH_TIME_MS_MAX};
use crate::text::answer_size::AnswerRoom;

/// Exit status of a command that ran out of time.
const TIMED_OUT: i32 = 124;
/// Number that is added to a signal to make an exit status.
const SIGNALLED: i32 = 128;
/// Exit status if lbx itself failed.
const LBX_FAILED: u8 = 125;
/// Shells; the first that exists runs the command.
const SHELLS: [&str; 5] =
    ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/run/current-system/sw/bin/bash", "/bin/sh"];

/// The `bash` tool.
pub struct Bash;

/// Sandboxes that are planned for one command: a layer may not work, and others may change what is to be hidden.
const PLANS_MAX: usize = 4;

/// Beginnings of the flags of calls that put no layer over the workspace.
const WITHOUT_LAYER: [&str; 8] =
    ["--background", "--backends", "--direct", "--help", "--job", "--layer", "--sandbox", "--stop"];

/// Destination of a command's output.
enum OutputTarget<'a> {
    /// The response.
    Answer,
    /// File of a job.
    Job(&'a mut job::RunningJob),
}

impl Tool for Bash {
    const NAME: &'static str = "bash";
    const LISTED: &'static str = "command workdir timeout_ms stdin background job stop";
    const CORE: bool = true;
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Request;
    const REFUSED: Option<u8> = Some(LBX_FAILED);
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let request = request.with_plain_command();
        request.warn_of_time_limit(engine);
        if let Some(name) = &request.layer {
            return recording::handle_layer(engine, name, &request)
                .map(|layer| Response::Layer(Box::new(layer)));
        }
        match job::handle(engine, &request)? {
            Some(response) => Ok(response),
            None => Self::run_to(engine, &request, &mut OutputTarget::Answer),
        }
    }

    fn is_lookup(request: &Request) -> bool {
        let Request { command, background, stop, apply, drop, .. } = request;
        command.is_none() && ![background, stop, apply, drop].contains(&&true)
    }

    fn text(response: &Response, text: &mut Text) {
        response.text(text);
    }

    fn text_status(response: &Response) -> u8 {
        Self::status(response)
    }

    fn status(response: &Response) -> u8 {
        match response {
            Response::Ran(ran) => ran.status(),
            Response::Job(_) | Response::Jobs(_) | Response::Layer(_) | Response::Backends(_) => 0,
        }
    }
}

impl Bash {
    /// Runs a command to its end.
    ///
    /// # Errors
    /// Fails as [`Self::run`] does.
    fn run_to(
        engine: &mut Engine,
        request: &Request,
        output: &mut OutputTarget<'_>,
    ) -> Result<Response, Error> {
        if request.backends {
            return Ok(Response::Backends(list_backends(engine)));
        }
        let command = request
            .command
            .as_deref()
            .ok_or_else(|| Error::invalid("field `command` is missing").detail("field", "command"))?;
        let program = shell(command)?;
        let takes_layer = output.takes_layer(engine, request);
        let early = takes_layer.is_ok().then(|| start_early(engine, request)).flatten();
        if takes_layer.is_ok() {
            // A direct command takes the lock, and settles first as every change does.
            engine.finish_dead_calls();
        }
        let mut turn = takes_layer.is_err().then(|| output.wait_for_turn(engine, request)).flatten();
        let mut direct = takes_layer.clone().err();
        let recording = Recording::begin(engine, request, takes_layer)?;
        let mut ran = Self::run_recorded(engine, request, output, (program.clone(), early), recording);
        for _ in 1..PLANS_MAX {
            match &ran {
                Err(RunRefusal::NoLayer(reason)) => direct = Some(reason.clone()),
                Err(RunRefusal::Outdated(_)) => {}
                Ok(_) | Err(RunRefusal::Call(_)) => break,
            }
            turn = turn.or_else(|| output.wait_for_turn(engine, request));
            let recording = Recording::direct(engine, request, direct.clone().unwrap_or_default())?;
            ran = Self::run_recorded(engine, request, output, (program.clone(), None), recording);
        }
        drop(turn);
        ran.map_err(RunRefusal::error)
    }

    /// Runs a command to its end, and records its changes.
    ///
    /// # Errors
    /// Fails as [`Self::run`] does, and with [`NotRun::NoLayer`] if the command may still run without one.
    fn run_recorded(
        engine: &mut Engine,
        request: &Request,
        output: &mut OutputTarget<'_>,
        (program, early): (Vec<OsString>, Option<run::EarlySandbox>),
        mut recording: Recording,
    ) -> Result<Response, RunRefusal> {
        let marks = recording::ReadMarks::of_session(engine)?;
        recording.note_read(&marks);
        let place = recording.for_plan(engine)?;
        let PlannedCommand { plan, placeholder, marks: marks_of_git, temporary: _in_use } =
            confinement::plan(engine, request, (program, early.as_ref()), place)?;
        recording.wait_for_clock_tick();
        let kill = Control::default();
        let watch = output.watch(engine, &recording, marks_of_git, &kill);
        let bounds = run::RunBounds {
            time: time_limit(engine, request)?,
            control: engine.control.clone(),
            stop: output.stop(),
            kill,
        };
        let shown_max = request.max_bytes.unwrap_or_else(|| engine.policy().max_bytes());
        let stdin = request.stdin.as_deref();
        let ran = run_confined(engine, &plan, stdin, &bounds, (shown_max, &mut *output, early));
        warn_of_watch(engine, watch.as_ref());
        drop((watch, placeholder));
        let ran = match ran {
            // Without a layer, a command may change the files themselves, unless it is a transaction.
            Err(RunRefusal::NoLayer(reason)) if !request.is_transaction() => {
                return Err(RunRefusal::NoLayer(reason));
            }
            Err(outdated @ RunRefusal::Outdated(_)) => return Err(outdated),
            ran => ran.map_err(RunRefusal::error),
        };
        let has_succeeded = ran.as_ref().ok().map(|finished| finished.answer.exit_code == 0);
        let (taken, _layer) = recording.record_changes(engine, request, &plan.reach, has_succeeded);
        // The OS removes the sandbox meanwhile; dropping `_departing` waits for that, at the latest when the session's
        // folders are free, and before the next command gets the folders of the layer.
        let FinishedCommand { mut answer, warnings, departing: _departing } = ran?;
        answer.stale = marks.stale(engine);
        warnings.into_iter().for_each(|warning| engine.warn(warning));
        match taken {
            Ok(mut changes) => {
                changes.shorten(output.room_for_changes(shown_max, &answer));
                Ok(Response::Ran(Box::new(CommandResponse { changes, ..answer })))
            }
            Err(error) => Err(with_output(error, &answer).into()),
        }
    }
}

/// Warns if a job was stopped because a repository appeared.
fn warn_of_watch(engine: &mut Engine, watch: Option<&RepositoryWatch>) {
    let Some(folder) = watch.and_then(RepositoryWatch::found) else { return };
    let shown = direct::shown_folder(engine, folder);
    engine.warn(format!(
        "stopped because a repository appeared in {shown}: the sandbox of a job that runs cannot protect it. Start the job again"
    ));
}

/// Reason why a command did not run.
enum RunRefusal {
    /// No backend could mount the layer; the reasons.
    NoLayer(String),
    /// Others changed what the sandbox was to hide, before it could.
    Outdated(Error),
    /// Any other error.
    Call(Error),
}

impl From<Error> for RunRefusal {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

impl RunRefusal {
    /// Returns the error of a command that does not run without a layer.
    fn error(self) -> Error {
        match self {
            Self::NoLayer(reason) => layer_folders::no_layer_error(&reason),
            Self::Outdated(error) | Self::Call(error) => error,
        }
    }
}

impl OutputTarget<'_> {
    /// Checks that a command can run on a layer; returns the reason if not, empty if the request asked for direct mode.
    fn takes_layer(&self, engine: &Engine, request: &Request) -> Result<(), String> {
        if request.is_transaction() {
            return Ok(());
        }
        if request.direct || matches!(self, Self::Job(_)) {
            return Err(String::new());
        }
        if allowed(engine).iter().any(|backend| backend.takes_layers()) {
            return Ok(());
        }
        Err(format!("the backend {} has no layers", backend_word(engine)))
    }

    /// Returns the room for the list of changes, in a response of at most `bytes_max` bytes.
    fn room_for_changes(&self, bytes_max: usize, answer: &CommandResponse) -> AnswerRoom {
        /// Share of the list in a response with a job's output: a quarter.
        const PART: usize = 4;
        match self {
            Self::Answer => AnswerRoom::new(bytes_max).room_after(answer.size_of_output()),
            Self::Job(_) => AnswerRoom::new(bytes_max / PART),
        }
    }

    /// Waits for the turn of a command that changes the files themselves, unless it is a job.
    fn wait_for_turn(&self, engine: &Engine, request: &Request) -> Option<CommandTurn> {
        let takes_turns = matches!(self, Self::Answer) && !request.is_transaction();
        // If no state can be made, a command runs without write access.
        let state = takes_turns.then(|| State::open(&engine.workspace).ok()).flatten()?;
        CommandTurn::wait_for_turn(&state)
    }

    /// Watches for repositories that appear while a job changes the files themselves.
    fn watch(
        &self,
        engine: &mut Engine,
        recording: &Recording,
        known: Vec<WorkspacePath>,
        kill: &Control,
    ) -> Option<RepositoryWatch> {
        if !matches!((self, recording), (Self::Job(_), Recording::Files(..))) {
            return None;
        }
        let watch = RepositoryWatch::begin(&engine.workspace, known.into_iter(), kill.clone());
        if watch.as_ref().map_or(true, |watch| watch.is_partial) {
            engine.warn(
                "not every folder can be watched: make no repository in the workspace while this job runs",
            );
        }
        watch.ok()
    }

    /// Returns the control that can stop the command.
    fn stop(&self) -> Control {
        match self {
            Self::Answer => Control::default(),
            Self::Job(job) => job.stop.clone(),
        }
    }
}

/// A command that ran.
struct FinishedCommand {
    /// Response, without the changes.
    answer: CommandResponse,
    /// Warnings and hints that follow from its output and its end.
    warnings: Vec<String>,
    /// Its sandbox.
    departing: run::EndingProcess,
}

/// Returns the response of a command without its changes, with warnings and hints; `tail` is the end of its output.
fn answer(
    ran: run::CommandRun,
    output: capture::Output,
    tail: &[u8],
    (sandbox, plan): (&'static str, &SandboxPlan),
) -> (CommandResponse, Vec<String>) {
    let CommandEnd { cpu_ms, peak_memory_bytes, left_running, .. } = ran.ended;
    let exit_code = exit_code(&ran);
    let too_many = ran.ended.had_too_many.then(|| {
        let most = plan.limits.processes;
        format!("the command was ended: it had more than {most} processes at once (bash.processes)")
    });
    let is_full = ran.was_memory_full.then(|| {
        let bytes = plan.limits.memory_bytes;
        format!("the system ended a process of the command: together they filled {} MiB of memory (bash.memory_bytes)", bytes >> 20)
    });
    let mut hints = Vec::new();
    if exit_code != 0 {
        let [file, memory] = output::limits_reached(tail, &plan.limits, exit_code);
        hints.extend(file.into_iter().chain(memory.filter(|_| is_full.is_none())));
    }
    if exit_code != 0 && sandbox != sandbox::NONE {
        hints.extend(output::hints(tail, &plan.reach, Path::new(&plan.workdir)));
    }
    let warnings = output.warnings.into_iter().chain(too_many).chain(is_full).chain(hints).collect();
    let answer = CommandResponse {
        stdout: output.stdout,
        stderr: output.stderr,
        exit_code,
        signal: ran.ended.signal.filter(|_| !ran.timed_out),
        timed_out: ran.timed_out,
        stopped: ran.stopped,
        duration_ms: u64::try_from(ran.duration.as_millis()).unwrap_or(u64::MAX),
        cpu_ms,
        peak_memory_bytes,
        truncated: output.truncated,
        output_bytes: output.truncated.then_some(output.bytes),
        output_file: output.file,
        changes: CommandDiff::default(),
        stale: Vec::new(),
        denied_hosts: ran.denied_hosts,
        left_running: Some(left_running).filter(|count| *count > 0),
        sandbox,
    };
    (answer, warnings)
}

/// Runs a plan with the first backend that works and is allowed.
fn run_confined(
    engine: &mut Engine,
    plan: &SandboxPlan,
    stdin: Option<&str>,
    bounds: &run::RunBounds,
    (shown_max, output, mut early): (usize, &mut OutputTarget<'_>, Option<run::EarlySandbox>),
) -> Result<FinishedCommand, RunRefusal> {
    let mut reasons = Vec::new();
    let has_layer = plan.reach.layer.is_some();
    for backend in allowed(engine) {
        if has_layer && !backend.takes_layers() {
            reasons.push((backend.name, "it does not support transactions".to_owned()));
            continue;
        }
        if plan.reach.read_only && backend.name == sandbox::NONE {
            reasons.push((backend.name, "it cannot keep a command from writing".to_owned()));
            continue;
        }
        let mut log = output::file(engine);
        let file_max = engine.policy().number(Key::BashOutputBytes);
        let mut capture = match output {
            OutputTarget::Answer => Capture::new(shown_max, file_max, &mut log, &bounds.control),
            OutputTarget::Job(job) => Capture::of_job(job.output_file(file_max)?, &bounds.control),
        };
        let mut started = |process| {
            if let OutputTarget::Job(job) = output {
                job.started(backend.name, process);
            }
        };
        let stdin = stdin.map(str::as_bytes);
        match run::run(backend, plan, stdin, bounds, (early.take(), &mut capture, &mut started)) {
            Ok((ran, departing)) => {
                if !backend.gaps.is_empty() {
                    engine.warn(format!("{} leaves open: {}", backend.name, backend.gaps.join("; ")));
                }
                let tail = std::mem::take(&mut capture.tail);
                let (answer, warnings) = answer(ran, capture.finish(), &tail, (backend.name, plan));
                return Ok(FinishedCommand { answer, warnings, departing });
            }
            Err(run::RunFailure::Backend(reason)) => reasons.push((backend.name, reason)),
            Err(run::RunFailure::Call(error)) => return Err(error.into()),
        }
    }
    let reasons: Vec<String> = reasons.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
    let reasons = reasons.join("; ");
    if has_layer {
        return Err(RunRefusal::NoLayer(reasons));
    }
    let error = not_confined(plan.reach.read_only, &reasons);
    Err(if plan.reach.is_outdated() { RunRefusal::Outdated(error) } else { error.into() })
}

/// Starts the sandbox of a call on the command line, unless its arguments show that it needs none.
pub fn begin_early(arguments: &[OsString]) {
    let needs_none = |word: &OsString| {
        word.to_str().is_some_and(|word| WITHOUT_LAYER.iter().any(|flag| word.starts_with(flag)))
    };
    if !arguments.iter().any(needs_none) {
        run::EarlySandbox::begin();
    }
}

/// Returns the early sandbox of a command that gets a layer, while its plan is still prepared.
fn start_early(engine: &Engine, request: &Request) -> Option<run::EarlySandbox> {
    allowed(engine).into_iter().find(|backend| backend.takes_layers())?;
    let network = confinement::network(engine, request.network).ok()?;
    run::EarlySandbox::take_sandbox(network.is_shared(), JobFolder::peer(engine, &network))
}

/// Returns the error if no backend can confine a command, or keep it from writing where lbx cannot write its state.
fn not_confined(read_only: bool, reasons: &str) -> Error {
    let (message, action) = if read_only {
        (
            "lbx cannot write its state here, and no backend can run a command without write access",
            "Use the tools that only read, or ask the user to make the workspace writable.",
        )
    } else {
        (
            "no backend can confine a command here",
            "Use the file tools instead. The user can allow a weaker sandbox in their own policy, bash.backend = \"auto-landlock\", or none at all, \"none\"; where namespaces are allowed, bubblewrap may work too.",
        )
    };
    Error::new(ErrorKind::CommandDenied, format!("{message} ({reasons})")).suggest(action)
}

/// Probes the backends and lists them.
fn list_backends(engine: &Engine) -> Backends {
    let word = backend_word(engine);
    let reach = confinement::probe_access(engine);
    let bytes = engine.policy().number(Key::BashMemory);
    let group = Some(bytes).filter(|bytes| *bytes > 0).and_then(|bytes| ControlGroup::make(bytes).err());
    let of_memory = group.map(|reason| {
        format!("memory of all processes together ({reason}): bash.memory_bytes bounds each process alone")
    });
    let shown = |backend: &'static Backend| {
        let reason = sandbox::probe(backend, reach.clone());
        BackendRow {
            name: backend.name,
            works: reason.is_none(),
            allowed: is_allowed(word, backend),
            reason,
            about: backend.about,
            gaps: backend.gaps.iter().map(|gap| (*gap).to_owned()).chain(of_memory.clone()).collect(),
        }
    };
    Backends { backends: BACKENDS.iter().map(shown).collect() }
}

/// Returns the shell and its arguments.
fn shell(command: &str) -> Result<Vec<OsString>, Error> {
    let refused = |what: String| Err(Error::invalid(what).detail("field", "command"));
    if command.trim().is_empty() {
        return refused("command is empty".to_owned());
    }
    if command.contains('\0') {
        return refused("command holds a NUL".to_owned());
    }
    if command.len() > BASH_COMMAND_BYTES_MAX {
        return refused(format!(
            "command has {} bytes, more than {BASH_COMMAND_BYTES_MAX}: write it into a file and run that",
            command.len()
        ));
    }
    #[expect(clippy::disallowed_methods, reason = "programs of the system, by fixed names")]
    let shell = SHELLS.iter().find(|shell| Path::new(shell).exists());
    let shell = shell.ok_or_else(|| Error::new(ErrorKind::CommandDenied, "there is no shell here"))?;
    Ok([shell, "-c", "--", command].map(OsString::from).into())
}

/// Returns the time limit of a command.
fn time_limit(engine: &Engine, request: &Request) -> Result<Duration, Error> {
    match request.timeout_ms.unwrap_or_else(|| engine.policy().number(Key::BashMs)) {
        ms @ 1..=BASH_TIME_MS_MAX => Ok(Duration::from_millis(ms)),
        ms => Err(Error::invalid(format!(
            "timeout_ms is {ms}: expected a number of milliseconds from 1 to {BASH_TIME_MS_MAX}"
        ))
        .detail("field", "timeout_ms")),
    }
}

/// Returns the exit status of a command that ran.
fn exit_code(ran: &run::CommandRun) -> i32 {
    let of_signal = |signal| SIGNALLED + signal;
    if ran.timed_out {
        return TIMED_OUT;
    }
    ran.ended.exit_code.or(ran.ended.signal.map(of_signal)).unwrap_or(i32::from(LBX_FAILED))
}
