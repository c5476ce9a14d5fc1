//! Calls in a container: lbx runs inside, on the files inside, and its response is returned.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::options::Options;
use crate::control::Control;
use crate::engine::change::kept_for_forks::keep_changes_of_others;
use crate::engine::policy::Policy;
use crate::engine::policy::settings::{SETTINGS, Setting};
use crate::engine::sandbox::fork::{self, ForkFolder};
use crate::engine::store::calls::Delivery;
use crate::engine::store::container::{self, NOT_THERE};
use crate::engine::store::sandboxes::{self, Container, NamedWorkspace};
use crate::engine::store::state::State;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::programs;
use crate::engine::{CallNotes, Engine};
use crate::envelope::{self, ResponseFrame};
use crate::error::{Error, ErrorKind};
use crate::limits::{ARGUMENT_BYTES_MAX, REMOTE_END_TIME_MAX};
use crate::tools::bash::Bash;
use crate::tools::{CallOutcome, Reply, Text, Tool as _, ToolEntry};

/// Option that is only for this side.
const OF_THIS_SIDE: &str = "--sandbox";
/// Option that changes a policy setting.
const SET: &str = "--set";
/// Time between two checks for cancellation.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Smallest exit status that does not come from lbx: 125 to 127 come from container engines, larger ones from signals.
const ENGINE_STATUS_MIN: i32 = 125;
/// Arguments that make a tool read its request from stdin.
const FROM_STDIN: [&str; 2] = ["--json", "-"];

/// Container in which calls are made.
pub struct Remote {
    /// Name of the sandbox.
    name: String,
    /// Sandbox with this name.
    sandbox: NamedWorkspace,
    /// Connection to the container.
    container: Container,
}

/// Names a fork of this workspace as a sandbox, if the call that created it died before it did.
fn name_fork(options: &Options, name: &str) -> Result<(), Error> {
    let workspace = Options { sandbox: None, ..options.clone() }.open_workspace()?;
    let Some(state) = State::find(&workspace)? else { return Err(fork::not_found(name)) };
    ForkFolder::open(&workspace, &state, &sandboxes::slug(name)?)?.set_name(&workspace)
}

impl Remote {
    /// Returns the container that the options name; `None` if they name a local folder or nothing.
    ///
    /// # Errors
    /// Returns `sandbox_not_found`, or the OS error.
    pub fn of(options: &Options) -> Result<Option<Self>, Error> {
        let Some(name) = &options.sandbox else { return Ok(None) };
        let (name, sandbox) = sandboxes::find(name).or_else(|unknown| {
            if name_fork(options, name).is_ok() { sandboxes::find(name) } else { Err(unknown) }
        })?;
        let Some(container) = sandbox.container.clone() else { return Ok(None) };
        if sandbox.is_of_lost_fork() {
            let message = format!("the fork {name} is gone, with its workspace {}", sandbox.root);
            return Err(Error::new(ErrorKind::SandboxNotFound, message).suggest(
                "If the workspace was renamed, call `lbx fork list` in it: its forks get their names back.",
            ));
        }
        let mut remote = Self { name, sandbox, container };
        if remote.container.fork.is_none() && remote.container.stamp != container::stamp()? {
            remote.install()?;
        }
        Ok(Some(remote))
    }

    /// Copies this program into the container.
    fn install(&mut self) -> Result<(), Error> {
        self.container = container::install(&self.container, &self.sandbox.root)?;
        self.sandbox.container = Some(self.container.clone());
        sandboxes::replace(&self.name, &self.sandbox)
    }

    /// Makes a call of a tool with the stdin, stdout and stderr of this process, and returns the exit status. The first
    /// argument is the program name.
    ///
    /// # Errors
    /// Fails if the engine cannot be run, or lbx is missing inside and cannot be copied.
    pub fn forward(mut self, tool: &str, arguments: &[OsString], options: &Options) -> Result<u8, Error> {
        self.prepare(tool, options);
        let is_tied = takes_no_stdin(tool, &self.arguments(arguments, options));
        if !is_tied && self.container.fork.is_none() {
            // This comes before stdin is used: after that, nothing can be repeated.
            self.check()?;
        }
        let mut relayed = self.relay(arguments, options, is_tied)?;
        if is_tied && !relayed.has_answered && is_not_there(relayed.status) {
            self.install()?;
            relayed = self.relay(arguments, options, is_tied)?;
        }
        let RemoteResult { status, has_answered } = relayed;
        if !has_answered && is_broken(status, tool, options) {
            return Err(self.unreachable(&status.to_string()));
        }
        Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
    }

    /// Makes sure that lbx is in the container; copies it if it is missing.
    fn check(&mut self) -> Result<(), Error> {
        let check = container::command(&self.container, &[self.container.binary.as_str(), "--version"])
            .and_then(|mut check| programs::output(check.stdin(Stdio::null())))
            .map_err(|source| self.unreachable(&source.to_string()))?;
        if is_not_there(check.status) {
            self.install()
        } else if !check.status.success() {
            Err(self.unreachable(&container::words_of(&check)))
        } else {
            Ok(())
        }
    }

    /// Prepares a fork for a call: keeps what others changed in the workspace, and what they may change if the call may
    /// run for long.
    fn prepare(&self, tool: &str, options: &Options) {
        /// Calls that may.
        const LONG: [&str; 4] = [Bash::NAME, "mcp", "batch", "watch"];
        let Some(place) = &self.container.fork else { return };
        if LONG.contains(&tool) {
            fork::prepare(place);
        }
        let kept = Workspace::open(Path::new(&place.root)).and_then(|workspace| {
            let policy = Policy::load(&workspace, &options.policy)?;
            let mut engine =
                Engine::with_policy(policy, workspace, options.session_id()?, Control::default());
            keep_changes_of_others(&mut engine, &self.name)
        });
        // The call then sees what they changed.
        drop(kept);
    }

    /// Makes the call once.
    fn relay(&self, arguments: &[OsString], options: &Options, is_tied: bool) -> Result<RemoteResult, Error> {
        let mut words = self.arguments(arguments, options);
        if is_tied {
            words.insert(1, OsString::from(container::KILL_WITH_PARENT));
        }
        container::command(&self.container, &words)
            .and_then(|command| run(command, is_tied))
            .map_err(|source| self.unreachable(&source.to_string()))
    }

    /// Returns the arguments for lbx inside the container.
    fn arguments(&self, arguments: &[OsString], options: &Options) -> Vec<OsString> {
        let mut words = vec![OsString::from(&self.container.binary)];
        let has = |option: &str| {
            arguments.iter().filter_map(|word| word.to_str()).any(|word| {
                word == option || word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
            })
        };
        if !has("--workspace") {
            words.extend(["--workspace".into(), OsString::from(&self.sandbox.root)]);
        }
        if let Some(session) = self.session(options).filter(|_| !has("--session")) {
            words.extend(["--session".into(), session.into()]);
        }
        words.extend(of_environment(options).map(OsString::from));
        if options.is_text_by_environment() && !has("--text") && !has("-t") {
            words.push("--text".into());
        }
        let mut rest = arguments.iter().skip(1);
        while let Some(word) = rest.next() {
            if word == "--" {
                words.push(word.clone());
                words.extend(rest.by_ref().cloned());
            } else if word == OF_THIS_SIDE {
                rest.next();
            } else if !word.to_string_lossy().starts_with(&format!("{OF_THIS_SIDE}=")) {
                words.push(word.clone());
            }
        }
        words
    }

    /// Makes the call of a JSON request, and returns its response.
    ///
    /// # Errors
    /// Fails if the container does not respond, or the call is cancelled.
    pub fn call(
        mut self,
        tool: &ToolEntry,
        request: &Value,
        options: &Options,
        control: &Control,
    ) -> Result<CallResult, Error> {
        let (mut status, mut stdout, mut said) = self.ask(tool, request, options, control)?;
        if status.is_some_and(|code| NOT_THERE.contains(&code)) && stdout.is_empty() {
            self.install()?;
            (status, stdout, said) = self.ask(tool, request, options, control)?;
        }
        let answer: Option<Value> = serde_json::from_slice(&stdout).ok();
        if let Some(Value::Object(answer)) = answer {
            return Ok(called(answer));
        }
        let status = status.map_or_else(String::new, |code| format!(" (status {code})"));
        Err(self.unreachable(&format!("{}{status}", said.trim())))
    }

    /// Runs lbx inside with a JSON request; returns its exit status, stdout and stderr.
    fn ask(
        &self,
        tool: &ToolEntry,
        request: &Value,
        options: &Options,
        control: &Control,
    ) -> Result<(Option<i32>, Vec<u8>, String), Error> {
        self.prepare(tool.name, options);
        let text = request.to_string();
        let is_tied = tool.name == Bash::NAME && text.len() <= ARGUMENT_BYTES_MAX;
        let words = self.words_of(tool, &text, options, is_tied);
        let unreachable = |source: std::io::Error| self.unreachable(&source.to_string());
        let mut command = container::command(&self.container, &words).map_err(unreachable)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = programs::spawn(&mut command).map_err(unreachable)?;
        let mut stdin = child.stdin.take();
        if let Some(mut stdin) = stdin.take_if(|_| !is_tied) {
            // lbx reads the whole request before it responds; if it is missing, the status says so.
            let _ = stdin.write_all(text.as_bytes());
        }
        let output = ended(child, stdin, control)?;
        let output = output.ok_or_else(|| self.unreachable("the call was lost"))?.map_err(unreachable)?;
        let said = container::words_of(&output);
        Ok((output.status.code(), output.stdout, said))
    }

    /// Returns the session of a call: in a fork, that of its name unless the call names another.
    fn session<'s>(&'s self, options: &'s Options) -> Option<&'s String> {
        options.session.as_ref().or_else(|| self.container.fork.as_ref().map(|_| &self.name))
    }

    /// Returns the command that calls lbx inside with a JSON request: the last argument is the request if the call is
    /// tied to stdin; otherwise the request is on stdin.
    fn words_of(&self, tool: &ToolEntry, text: &str, options: &Options, is_tied: bool) -> Vec<String> {
        let mut words = vec![self.container.binary.clone()];
        if is_tied {
            words.push(container::KILL_WITH_PARENT.to_owned());
        }
        if let Some(session) = self.session(options) {
            words.extend(["--session".to_owned(), session.clone()]);
        }
        words.extend(["--workspace", self.sandbox.root.as_str(), tool.name, "--json"].map(str::to_owned));
        words.push(if is_tied { text } else { "-" }.to_owned());
        words.extend(of_environment(options));
        words.extend(options.policy.flags.iter().flat_map(|setting| [SET.to_owned(), setting.clone()]));
        if options.require_snapshot {
            words.push("--require-snapshot".to_owned());
        }
        words
    }

    /// Returns the error for a container that does not respond.
    fn unreachable(&self, why: &str) -> Error {
        if self.container.fork.is_some() {
            let message = format!("the fork {} cannot be entered: {why}", self.name);
            let advice = format!(
                "`lbx fork exec {} -- true` shows the reason. A copy needs no mount: `lbx fork NAME --at DIR`.",
                self.name
            );
            return Error::new(ErrorKind::IoError, message)
                .suggest(advice)
                .detail("sandbox", self.name.clone());
        }
        Error::new(ErrorKind::IoError, format!("no response from the sandbox {}: {why}", self.name))
            .suggest("Check that the container is running; `lbx sandbox list` shows how it is reached.")
            .detail("sandbox", self.name.clone())
    }
}

/// Waits for the end of a call inside, and ends it if it is cancelled; returns `None` if the call is lost.
///
/// # Errors
/// Returns `cancelled`.
fn ended(
    child: Child,
    mut stdin: Option<ChildStdin>,
    control: &Control,
) -> Result<Option<std::io::Result<Output>>, Error> {
    let id = child.id();
    let (sender, done) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let output = child.wait_with_output();
        let _ = sender.send(());
        output
    });
    while let Err(mpsc::RecvTimeoutError::Timeout) = done.recv_timeout(LOOK_INTERVAL) {
        if control.should_stop() {
            // This ends a tied call; any other call ends with its client.
            if stdin.take().is_some() {
                let _ = done.recv_timeout(REMOTE_END_TIME_MAX);
            }
            let pid = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            control.check()?;
        }
    }
    Ok(waiter.join().ok())
}

/// Returns true if the exit status of an engine means that the program is missing.
fn is_not_there(status: ExitStatus) -> bool {
    status.code().is_some_and(|code| NOT_THERE.contains(&code))
}

/// Returns true if a call without output on stdout cannot have been answered. With text output, errors are only on
/// stderr, and a command can exit with any status.
fn is_broken(status: ExitStatus, tool: &str, options: &Options) -> bool {
    let is_of_lbx = |code: i32| code < ENGINE_STATUS_MIN || options.exit_status || tool == Bash::NAME;
    let is_refusal = options.text && status.code().is_some_and(is_of_lbx);
    !status.success() && !is_refusal
}

/// Returns true if a call does not read stdin, so that closing stdin can signal its end: a command for `bash`.
fn takes_no_stdin(tool: &str, words: &[OsString]) -> bool {
    let may_take = |word: &OsString| {
        let word = word.to_string_lossy();
        FROM_STDIN.contains(&word.as_ref()) || word.starts_with("--json=")
    };
    let has_arguments = words.last().is_some_and(|word| word != Bash::NAME);
    tool == Bash::NAME && has_arguments && !words.iter().any(may_take)
}

/// Returns the settings of the local environment as flags: the container has a different environment.
fn of_environment(options: &Options) -> impl Iterator<Item = String> {
    let of = |setting: &Setting| {
        let (_, value) = options.policy.environment.iter().find(|(name, _)| *name == setting.variable())?;
        Some([SET.to_owned(), format!("{}={value}", setting.name)])
    };
    SETTINGS.iter().filter_map(of).flatten()
}

/// Converts a response of lbx to the result of the call.
fn called(mut answer: Map<String, Value>) -> CallResult {
    let warnings = answer.remove("warnings").and_then(|value| serde_json::from_value(value).ok());
    let snapshot = answer.remove("snapshot").and_then(|value| value.as_str().map(str::to_owned));
    let dry_run = answer.get("dry_run").and_then(Value::as_bool).unwrap_or(false);
    // A change without a snapshot is not visible from here.
    let changed = snapshot.is_some();
    let warnings = warnings.unwrap_or_default();
    let outcome = CallNotes { warnings, snapshot, dry_run, changed, ..CallNotes::default() };
    let answered = match (answer.remove("data"), answer.remove("error")) {
        (Some(data), _) => Ok(Box::new(RemoteResponse(data)) as Box<dyn Reply>),
        (None, Some(error)) => Err(envelope::refused(&error)),
        (None, None) => Err(Error::internal("the container did not respond")),
    };
    CallResult { answered, outcome, delivery: None }
}

/// Data of a response from a container.
struct RemoteResponse(Value);

impl Reply for RemoteResponse {
    fn json(&self, frame: &ResponseFrame<'_>, out: &mut dyn std::io::Write) -> serde_json::Result<()> {
        frame.success(&self.0, out)
    }

    fn value(&self) -> Result<Value, Error> {
        Ok(self.0.clone())
    }

    fn text(&self, text: &mut Text) {
        let json = serde_json::to_string_pretty(&self.0).unwrap_or_default();
        text.out.extend_from_slice(json.as_bytes());
        text.out.push(b'\n');
    }
}

/// Call that has ended.
#[derive(Debug, Clone, Copy)]
struct RemoteResult {
    /// Exit status of the call.
    status: ExitStatus,
    /// True if the call wrote to stdout.
    has_answered: bool,
}

/// Runs a command to its end. Its stdin is that of this process; that of a tied one is an empty pipe, whose end signals
/// that the outer call has ended.
///
/// # Errors
/// Fails if the command cannot be started or waited for.
fn run(mut command: Command, is_tied: bool) -> io::Result<RemoteResult> {
    let mut child = programs::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
    let mut stdin = child.stdin.take();
    if let Some(mut stdin) = stdin.take_if(|_| !is_tied) {
        // The thread ends with this process at the latest.
        std::thread::spawn(move || io::copy(&mut io::stdin().lock(), &mut stdin));
    }
    let has_answered = copy_output(&mut child);
    let status = child.wait()?;
    drop(stdin);
    Ok(RemoteResult { status, has_answered })
}

/// Copies the output until it ends or nobody reads it; returns true if there was any.
fn copy_output(child: &mut Child) -> bool {
    let Some(mut from) = child.stdout.take() else { return false };
    // Without the buffer of stdout, each part is shown at once.
    let Ok(to) = io::stdout().as_fd().try_clone_to_owned() else { return false };
    io::copy(&mut from, &mut File::from(to)).map_or(true, |bytes| bytes > 0)
}

/// Finished call.
pub struct CallResult {
    /// Response or error.
    pub answered: CallOutcome,
    /// Warnings and snapshot.
    pub outcome: CallNotes,
    /// Work that ends with the response.
    pub delivery: Option<Delivery>,
}

impl CallResult {
    /// Returns a call that failed before it began.
    pub fn refused(error: Error) -> Self {
        Self { answered: Err(error), outcome: CallNotes::default(), delivery: None }
    }
}
