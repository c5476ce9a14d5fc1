//! `bash`: a shell command, confined to the workspace.

mod answer;
mod changed_files;
mod command_diff;
mod direct;
mod job;
mod layer_changes;
mod layer_plan;
mod layered;
mod limits;
mod output;
mod recording;
mod request;
mod saved_untracked;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

pub use job::run_internal;

use recording::Recording;

use answer::{BackendShown, Backends, Ran, Response, with_output};
use changed_files::CommandDiff;
use job::record::JobFolder;
use limits::Placeholder;
use request::Request;

use super::{Effect, Text, Tool};
use crate::control::Control;
use crate::engine::Engine;
use crate::engine::sandbox::caches::SessionTmp;
use crate::engine::sandbox::capture::{self, Capture};
use crate::engine::sandbox::plan::{Ended, SandboxPlan};
use crate::engine::sandbox::repository_marks::RepositoryWatch;
use crate::engine::sandbox::running::Turn;
use crate::engine::sandbox::{self, BACKENDS, Backend, layer, run};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::text::answer_size::AnswerRoom;

/// Longest command: the OS takes no longer argument.
const COMMAND_BYTES_MAX: usize = 128 * 1024 - 1;
/// Longest time limit.
const TIME_MS_MAX: u64 = 86_400_000;
/// Time between TERM and KILL when the time limit ends a command.
const GRACE_MS: u64 = 1000;
/// Policy value for the first backend that works and has no gaps.
const AUTO: &str = "auto";
/// Policy value for the same backend, or else landlock.
const AUTO_LANDLOCK: &str = "auto-landlock";
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

/// Destination of a command's output.
enum Output<'a> {
    /// The response.
    Answer,
    /// File of a job.
    Job(&'a mut job::JobSink),
}

impl Tool for Bash {
    const NAME: &'static str = "bash";
    const LISTED: &'static str = "command workdir timeout_ms stdin background job stop";
    const CORE: bool = true;
    const EFFECT: Effect = Effect::Writes;
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
            None => Self::run_to(engine, &request, &mut Output::Answer),
        }
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
    fn run_to(engine: &mut Engine, request: &Request, output: &mut Output<'_>) -> Result<Response, Error> {
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
        let _turn = takes_layer.is_err().then(|| output.turn(engine, request)).flatten();
        let recording = Recording::begin(engine, request, takes_layer)?;
        match Self::run_recorded(engine, request, output, (program.clone(), early), recording)? {
            Outcome::Ran(response) => Ok(response),
            Outcome::NoLayer(reason) => {
                let _turn = output.turn(engine, request);
                let recording = Recording::direct(engine, reason)?;
                match Self::run_recorded(engine, request, output, (program, None), recording)? {
                    Outcome::Ran(response) => Ok(response),
                    Outcome::NoLayer(reason) => Err(layer::not_possible(&reason)),
                }
            }
        }
    }

    /// Runs a command to its end, and records its changes.
    ///
    /// # Errors
    /// Fails as [`Self::run`] does.
    fn run_recorded(
        engine: &mut Engine,
        request: &Request,
        output: &mut Output<'_>,
        (program, early): (Vec<OsString>, Option<run::Early>),
        mut recording: Recording,
    ) -> Result<Outcome, Error> {
        let marks = recording::Marks::of_session(engine)?;
        let Planned { plan, mut placeholder, marks: marks_of_git, temporary: _in_use } =
            plan_of(engine, request, (program, early.as_ref()), &mut recording)?;
        let kill = Control::default();
        let watch = output.watch(engine, &recording, marks_of_git, &kill);
        let bounds = run::Bounds {
            time: time_limit(engine, request)?,
            control: engine.control.clone(),
            stop: output.stop(),
            kill,
        };
        let shown_max = request.max_bytes.unwrap_or_else(|| engine.policy().max_bytes());
        let stdin = request.stdin.as_deref();
        let ran = run_confined(engine, &plan, stdin, &bounds, (shown_max, &mut *output, early));
        tell_watch(engine, watch);
        placeholder.remove();
        let ran = match ran {
            Err(NotRun::NoLayer(reason)) if recording.may_go_direct() => return Ok(Outcome::NoLayer(reason)),
            Err(NotRun::NoLayer(reason)) => Err(layer::not_possible(&reason)),
            Err(NotRun::Call(error)) => Err(error),
            Ok(confined) => Ok(confined),
        };
        let has_succeeded = ran.as_ref().ok().map(|(confined, _)| exit_code(&confined.ran) == 0);
        let taken = recording.take(engine, request, &plan.reach, has_succeeded);
        // The OS removes the sandbox meanwhile; dropping `_departing` waits for that, at the latest when the session's
        // folders are free.
        let (confined, _departing) = ran?;
        let stale = marks.stale(engine);
        confined.tell(engine, &plan);
        let answer = Ran { stale, ..confined.answer() };
        let room = output.room_for_changes(shown_max, &answer);
        match taken {
            Ok(taken) => Ok(Outcome::Ran(Response::Ran(Box::new(with_changes(answer, taken, room))))),
            Err(error) => Err(with_output(error, &answer)),
        }
    }
}

/// Warns if a job was stopped because a repository appeared.
fn tell_watch(engine: &mut Engine, watch: Option<RepositoryWatch>) {
    let Some(folder) = watch.and_then(|watch| watch.found()) else { return };
    let shown =
        if folder.is_root() { "the workspace root".to_owned() } else { engine.workspace.shown(&folder) };
    engine.warn(format!(
        "stopped because a repository appeared in {shown}: the sandbox of a job that runs cannot protect it. Start the job again"
    ));
}

/// Adds the changes of the command to a response, as far as they fit.
fn with_changes(answer: Ran, mut difference: CommandDiff, room: AnswerRoom) -> Ran {
    difference.shorten(room);
    let changed_total = difference.total.filter(|total| *total > difference.listed());
    let CommandDiff { list: changed, is_discarded: discarded, conflicts, layer, direct, .. } = difference;
    Ran { changed, conflicts, layer, direct, changed_total, discarded, ..answer }
}

/// A command that is about to run, with the locks and folders that it needs until its end.
struct Planned {
    /// Command and its access.
    plan: SandboxPlan,
    /// Empty folder in place of a missing repository.
    placeholder: Placeholder,
    /// Paths of the known repositories.
    marks: Vec<WorkspacePath>,
    /// The `/tmp` of the session.
    temporary: Option<SessionTmp>,
}

/// Returns the plan of a command. From here on, other calls see that it runs.
fn plan_of(
    engine: &mut Engine,
    request: &Request,
    (program, early): (Vec<OsString>, Option<&run::Early>),
    recording: &mut Recording,
) -> Result<Planned, Error> {
    let found = recording.protected(engine)?;
    let mut marks = found.marks.clone();
    let mut prepared = limits::prepare(engine, request, found, recording.is_read_only())?;
    prepared.reach.layer = recording.layer();
    let find_peer = || JobFolder::peer(engine, &prepared.reach.network);
    prepared.reach.peer = early.map_or_else(find_peer, |early| early.peer);
    recording.pass_a_moment();
    let plan = SandboxPlan {
        program,
        workdir: workdir(engine, request.workdir.as_deref())?,
        environment: prepared.environment,
        reach: prepared.reach,
        limits: prepared.limits,
        grace_ms: GRACE_MS,
    };
    if prepared.placeholder.stands() {
        marks.push(WorkspacePath::root().join(limits::GIT_FOLDER.as_ref()));
    }
    Ok(Planned { plan, placeholder: prepared.placeholder, marks, temporary: prepared.temporary })
}

/// Result of a command, or of the attempt to run it on a layer.
enum Outcome {
    /// The command ran.
    Ran(Response),
    /// The command did not run: no layer can be mounted; the reason.
    NoLayer(String),
}

/// Reason why a command did not run.
enum NotRun {
    /// No backend could mount the layer; the reasons.
    NoLayer(String),
    /// Any other error.
    Call(Error),
}

impl From<Error> for NotRun {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

impl Output<'_> {
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
        Err(format!("the backend {} has no layers", limits::backend(engine)))
    }

    /// Returns the room for the list of changes, in a response of at most `bytes_max` bytes.
    fn room_for_changes(&self, bytes_max: usize, answer: &Ran) -> AnswerRoom {
        /// Share of the list in a response with a job's output: a quarter.
        const PART: usize = 4;
        match self {
            Self::Answer => AnswerRoom::new(bytes_max).beside(answer.size_of_output()),
            Self::Job(_) => AnswerRoom::new(bytes_max / PART),
        }
    }

    /// Waits for the turn of a command that changes the files themselves, unless it is a job.
    fn turn(&self, engine: &Engine, request: &Request) -> Option<Turn> {
        let takes_turns = matches!(self, Self::Answer) && !request.is_transaction();
        // If no state can be made, a command runs without write access.
        let state = takes_turns.then(|| State::open(&engine.workspace).ok()).flatten()?;
        Turn::take(&state)
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
        if watch.as_ref().map_or(true, RepositoryWatch::is_partial) {
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

/// A command that ran, with its output.
struct Confined {
    /// How it ended.
    ran: run::Ran,
    /// Its output.
    output: capture::Output,
    /// End of the output.
    tail: Vec<u8>,
    /// Backend that confined it.
    sandbox: &'static str,
}

impl Confined {
    /// Adds the warnings and hints that follow from its output and its end.
    fn tell(&self, engine: &mut Engine, plan: &SandboxPlan) {
        self.output.warnings.iter().for_each(|warning| engine.warn(warning.clone()));
        if self.ran.ended.had_too_many {
            engine.warn(format!(
                "the command was ended: it had more than {} processes at once (bash.processes)",
                plan.limits.processes
            ));
        }
        if exit_code(&self.ran) != 0
            && self.sandbox != sandbox::NONE
            && let Some(hint) = output::hint(&self.tail, &plan.reach)
        {
            engine.warn(hint);
        }
    }

    /// Returns the response, without the changes.
    fn answer(self) -> Ran {
        let Self { ran, output, sandbox, .. } = self;
        let Ended { cpu_ms, peak_memory_bytes, left_running, .. } = ran.ended;
        Ran {
            stdout: output.stdout,
            stderr: output.stderr,
            exit_code: exit_code(&ran),
            signal: ran.ended.signal.filter(|_| !ran.timed_out),
            timed_out: ran.timed_out,
            stopped: ran.stopped,
            duration_ms: u64::try_from(ran.duration.as_millis()).unwrap_or(u64::MAX),
            cpu_ms,
            peak_memory_bytes,
            truncated: output.truncated,
            output_bytes: output.truncated.then_some(output.bytes),
            output_file: output.file,
            changed_total: None,
            changed: None,
            conflicts: Vec::new(),
            layer: None,
            direct: None,
            discarded: false,
            stale: Vec::new(),
            denied_hosts: ran.denied_hosts,
            left_running: Some(left_running).filter(|count| *count > 0),
            sandbox,
        }
    }
}

/// Runs a plan with the first backend that works and is allowed.
fn run_confined(
    engine: &mut Engine,
    plan: &SandboxPlan,
    stdin: Option<&str>,
    bounds: &run::Bounds,
    (shown_max, output, mut early): (usize, &mut Output<'_>, Option<run::Early>),
) -> Result<(Confined, run::Departing), NotRun> {
    let mut reasons = Vec::new();
    let has_layer = plan.reach.layer.is_some();
    for backend in allowed(engine) {
        if has_layer && !backend.takes_layers() {
            reasons.push((backend.name(), "it puts no layer over the workspace".to_owned()));
            continue;
        }
        if plan.reach.read_only && backend.name() == sandbox::NONE {
            reasons.push((backend.name(), "it cannot keep a command from writing".to_owned()));
            continue;
        }
        let mut log = output::OutputFile::new(engine);
        let mut capture = Capture::new(shown_max, limits::output_bytes_max(engine), &mut log);
        let sink: &mut dyn run::Sink = match output {
            Output::Answer => &mut capture,
            Output::Job(job) => *job,
        };
        let mut sink = output::LineReporter::new(sink, &bounds.control);
        let stdin = stdin.map(str::as_bytes);
        match run::run(backend, plan, stdin, bounds, (early.take(), &mut sink)) {
            Ok((ran, departing)) => {
                let gaps = backend.gaps();
                if !gaps.is_empty() {
                    engine.warn(format!("{} leaves open: {}", backend.name(), gaps.join("; ")));
                }
                let tail = sink.into_tail();
                let sandbox = backend.name();
                return Ok((Confined { ran, output: capture.finish(), tail, sandbox }, departing));
            }
            Err(run::Failure::Backend(reason)) => reasons.push((backend.name(), reason)),
            Err(run::Failure::Call(error)) => return Err(error.into()),
        }
    }
    Err(if has_layer {
        NotRun::NoLayer(listed(&reasons))
    } else if plan.reach.read_only {
        not_read_only(&reasons).into()
    } else {
        not_confined(&reasons).into()
    })
}

/// Starts the sandbox of a command that gets a layer, while its plan is still prepared.
fn start_early(engine: &Engine, request: &Request) -> Option<run::Early> {
    let backend = allowed(engine).into_iter().find(|backend| backend.takes_layers())?;
    let network = limits::network(engine, request.network).ok()?;
    run::Early::start(backend, network.is_shared(), JobFolder::peer(engine, &network))
}

/// Returns the backends that the policy allows.
fn allowed(engine: &Engine) -> Vec<&'static dyn Backend> {
    let name = limits::backend(engine);
    BACKENDS.iter().copied().filter(|backend| is_allowed(name, *backend)).collect()
}

/// Returns true if the policy value allows a backend: one that confines nothing only by its own name, one with gaps
/// only if the value says so.
fn is_allowed(word: &str, backend: &dyn Backend) -> bool {
    let name = backend.name();
    match word {
        AUTO => ![sandbox::NONE, sandbox::LANDLOCK].contains(&name),
        AUTO_LANDLOCK => name != sandbox::NONE,
        word => word == name,
    }
}

/// Returns the error if no backend can confine a command.
fn not_confined(reasons: &[(&'static str, String)]) -> Error {
    let error = Error::new(
        ErrorKind::CommandDenied,
        format!("no backend can confine a command here ({})", listed(reasons)),
    );
    error.suggest(
        "Use the file tools instead. The user can install bubblewrap, or allow commands without confinement in their own policy: bash.backend = \"none\".",
    )
}

/// Returns the error if lbx cannot write its state, and no backend can keep a command from writing.
fn not_read_only(reasons: &[(&'static str, String)]) -> Error {
    let message = format!(
        "lbx cannot write its state here, and no backend can run a command without write access ({})",
        listed(reasons)
    );
    Error::new(ErrorKind::CommandDenied, message)
        .suggest("Use the tools that only read, or ask the user to make the workspace writable.")
}

/// Returns the reason of each backend as text.
fn listed(reasons: &[(&'static str, String)]) -> String {
    let list: Vec<String> = reasons.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
    list.join("; ")
}

/// Probes the backends and lists them.
fn list_backends(engine: &Engine) -> Backends {
    let word = limits::backend(engine).to_owned();
    let reach = limits::reach_of_probe(engine);
    let shown = |backend: &'static dyn Backend| {
        let reason = sandbox::probe(backend, reach.clone());
        BackendShown {
            name: backend.name(),
            works: reason.is_none(),
            allowed: is_allowed(&word, backend),
            reason,
            about: backend.about(),
            gaps: backend.gaps(),
        }
    };
    Backends { backends: BACKENDS.iter().copied().map(shown).collect() }
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
    if command.len() > COMMAND_BYTES_MAX {
        return refused(format!(
            "command has {} bytes, more than {COMMAND_BYTES_MAX}: write it into a file and run that",
            command.len()
        ));
    }
    #[expect(clippy::disallowed_methods, reason = "programs of the system, by fixed names")]
    let shell = SHELLS.iter().find(|shell| Path::new(shell).exists());
    let shell = shell.ok_or_else(|| Error::new(ErrorKind::CommandDenied, "there is no shell here"))?;
    Ok([shell, "-c", "--", command].map(OsString::from).into())
}

/// Returns the working directory of a command.
fn workdir(engine: &Engine, wanted: Option<&Path>) -> Result<OsString, Error> {
    let workspace = &engine.workspace;
    let Some(wanted) = wanted else {
        return Ok(workspace.root().join(workspace.base().as_path()).into_os_string());
    };
    let folder = workspace.folder(wanted).map_err(|error| error.detail("field", "workdir"))?;
    Ok(workspace.root().join(folder.as_path()).into_os_string())
}

/// Returns the time limit of a command.
fn time_limit(engine: &Engine, request: &Request) -> Result<Duration, Error> {
    match request.timeout_ms.unwrap_or_else(|| limits::time_ms(engine)) {
        ms @ 1..=TIME_MS_MAX => Ok(Duration::from_millis(ms)),
        ms => Err(Error::invalid(format!(
            "timeout_ms is {ms}: expected a number of milliseconds from 1 to {TIME_MS_MAX}"
        ))
        .detail("field", "timeout_ms")),
    }
}

/// Returns the exit status of a command that ran.
fn exit_code(ran: &run::Ran) -> i32 {
    let of_signal = |signal| SIGNALLED + signal;
    if ran.timed_out {
        return TIMED_OUT;
    }
    ran.ended.exit_code.or(ran.ended.signal.map(of_signal)).unwrap_or(i32::from(LBX_FAILED))
}
