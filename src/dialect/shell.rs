//! Shell tools of the families, which run `bash` in the same sandbox.

use std::path::{Path, PathBuf};

use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{LbxClient, display, flag, list, number, text};
use super::tool::{DialectTool, ToolOutput, tool};
use crate::error::{Error, ErrorKind};
use crate::text::escaped;
use crate::tools::{bash, patch};

/// Result of a command.
struct CommandResult {
    /// Output on stdout.
    stdout: String,
    /// Output on stderr.
    stderr: String,
    /// Path of the whole output, if a part is left out.
    rest: Option<String>,
    /// Exit status.
    exit_code: i64,
    /// Signal that ended the command.
    signal: Option<u64>,
    /// True if the command hit the time limit.
    timed_out: bool,
    /// Duration in seconds.
    seconds: f64,
}

impl CommandResult {
    /// Returns both outputs, stdout first, and the path of the rest.
    fn output(&self) -> String {
        let mut output = String::new();
        let rest = self.rest.as_deref().unwrap_or_default();
        for part in [&self.stdout, &self.stderr, rest].into_iter().filter(|part| !part.is_empty()) {
            let newline = if output.is_empty() || output.ends_with('\n') { "" } else { "\n" };
            output.extend([newline, part]);
        }
        output
    }

    /// Returns a text about the command; it is an error if the command failed.
    fn command_output(&self, text: String) -> ToolOutput {
        ToolOutput { text, is_error: self.exit_code != 0 || self.timed_out, ..ToolOutput::default() }
    }
}

/// Runs a command.
#[expect(clippy::cast_precision_loss, reason = "a tenth of a second is shown")]
fn run(
    lbx: &mut LbxClient<'_>,
    command: &str,
    folder: Option<&String>,
    timeout_ms: Option<u64>,
    why: Option<&String>,
) -> Result<CommandResult, Error> {
    let asked = json!({ "command": command, "workdir": folder, "timeout_ms": timeout_ms, "why": why });
    let data = lbx.call::<bash::Bash>(asked)?;
    Ok(CommandResult {
        stdout: text(&data, "stdout").to_owned(),
        stderr: text(&data, "stderr").to_owned(),
        rest: data.get("output_file").map(|_| rest_of_output(&data)),
        exit_code: data.get("exit_code").and_then(Value::as_i64).unwrap_or_default(),
        signal: data.get("signal").and_then(Value::as_u64),
        timed_out: flag(&data, "timed_out"),
        seconds: number(&data, "duration_ms") as f64 / 1000.0,
    })
}

/// Returns a note with the path of the whole output, if a part is left out.
fn rest_of_output(data: &Value) -> String {
    let (bytes, file) = (number(data, "output_bytes"), text(data, "output_file"));
    format!("[The output has {bytes} bytes. Read the rest in {file}]")
}

/// Command that continues after its call.
struct BackgroundCommand {
    /// Name of the job.
    job: String,
    /// File with the output.
    output_file: String,
}

/// Starts a command that continues after its call.
fn start(
    lbx: &mut LbxClient<'_>,
    command: &str,
    folder: Option<&String>,
    why: Option<&String>,
) -> Result<BackgroundCommand, Error> {
    let asked = json!({ "command": command, "workdir": folder, "why": why, "background": true });
    let data = lbx.call::<bash::Bash>(asked)?;
    let field = |name| text(&data, name).to_owned();
    Ok(BackgroundCommand { job: field("job"), output_file: field("output_file") })
}

/// Runs a shell command, confined to the workspace.
///
/// The working directory is the workspace at the start of each command. There is no network unless the
/// user allows it.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("x-ignored" = ["dangerouslyDisableSandbox"]))]
pub struct BashRequest {
    /// The command to run
    command: String,
    /// Time limit in milliseconds, at most 600000
    timeout: Option<u64>,
    /// Purpose, in a few words
    description: Option<String>,
    /// Start the command and return at once; `BashOutput` shows its output
    run_in_background: bool,
}

/// `Bash` of the `claude` family.
pub const BASH: DialectTool = tool!(
    "Bash", Writes, bash, runs_commands: true,
    fields: &[("timeout_ms", "timeout"), ("background", "run_in_background"), ("why", "description")]
);

/// Runs `Bash` of the `claude` family.
fn bash(lbx: &mut LbxClient<'_>, request: BashRequest) -> Result<ToolOutput, Error> {
    /// Longest time limit, in milliseconds.
    const TIME_MS_MAX: u64 = 600_000;
    if request.run_in_background {
        let started = start(lbx, &request.command, None, request.description.as_ref())?;
        return Ok(format!("Command running in background with ID: {}", started.job).into());
    }
    let timeout = request.timeout.map(|limit| limit.min(TIME_MS_MAX));
    let ran = run(lbx, &request.command, None, timeout, request.description.as_ref())?;
    let output = ran.output();
    Ok(match ran.exit_code {
        _ if ran.timed_out => {
            let limit = timeout.unwrap_or(120_000);
            ran.command_output(format!("Command timed out after {limit}ms\n{output}"))
        }
        0 => output.into(),
        code => ran.command_output(format!("Exit code {code}\n{output}")),
    })
}

/// Shows the state of a background command and the end of its output.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BashOutputRequest {
    /// The ID from Bash
    bash_id: String,
    /// A regular expression: show only lines that match
    filter: Option<String>,
}

/// `BashOutput` of the `claude` family.
pub const BASH_OUTPUT: DialectTool =
    tool!("BashOutput", Reads, bash_output, runs_commands: true, fields: &[("job", "bash_id")]);

/// Runs `BashOutput` of the `claude` family.
fn bash_output(lbx: &mut LbxClient<'_>, request: BashOutputRequest) -> Result<ToolOutput, Error> {
    /// Bytes of output to show.
    const OUTPUT_BYTES: i64 = 24_576;
    let asked = json!({ "job": request.bash_id, "offset": -OUTPUT_BYTES });
    let data = of_shell(lbx, &request.bash_id, asked)?;
    let exit_code = data.get("exit_code").and_then(Value::as_i64);
    let status = match (text(&data, "state"), exit_code) {
        ("running", _) => "running",
        ("ended", Some(0)) => "completed",
        ("ended", _) if flag(&data, "stopped") => "killed",
        _ => "failed",
    };
    let exit = exit_code.map(|code| format!("\n\n<exit_code>{code}</exit_code>")).unwrap_or_default();
    let output = matching(text(&data, "output"), request.filter.as_deref())?;
    let output = output.trim_end_matches('\n');
    let is_part = number(&data, "offset") > 0 || flag(&data, "truncated");
    let rest = if is_part { format!("\n\n{}", rest_of_output(&data)) } else { String::new() };
    Ok(format!("<status>{status}</status>{exit}\n\n<stdout>\n{output}\n</stdout>{rest}").into())
}

/// Makes a call about a job of the session.
fn of_shell(lbx: &mut LbxClient<'_>, id: &str, request: Value) -> Result<Value, Error> {
    let no_shell = || {
        let words = format!("No shell found with ID: {id}");
        Error::new(ErrorKind::InvalidRequest, words).suggest("Use the ID that Bash gave.")
    };
    // An empty text would count as not given.
    if id.is_empty() {
        return Err(no_shell());
    }
    lbx.call::<bash::Bash>(request).map_err(|error| match error.kind() {
        ErrorKind::NotFound => no_shell(),
        _ => error,
    })
}

/// Returns the lines that a regular expression matches; all of them without one.
fn matching(output: &str, filter: Option<&str>) -> Result<String, Error> {
    let Some(filter) = filter else { return Ok(output.to_owned()) };
    let pattern = Regex::new(filter)
        .map_err(|error| Error::invalid(format!("filter: {error}")).detail("field", "filter"))?;
    Ok(output.split_inclusive('\n').filter(|line| pattern.is_match(line)).collect())
}

/// Ends a background command, with all its processes.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct KillShellRequest {
    /// The ID from Bash
    shell_id: String,
}

/// `KillShell` of the `claude` family.
pub const KILL_SHELL: DialectTool =
    tool!("KillShell", Writes, kill_shell, runs_commands: true, fields: &[("job", "shell_id")]);

/// Runs `KillShell` of the `claude` family.
fn kill_shell(lbx: &mut LbxClient<'_>, request: KillShellRequest) -> Result<ToolOutput, Error> {
    let asked = json!({ "job": request.shell_id, "stop": true });
    let data = of_shell(lbx, &request.shell_id, asked)?;
    Ok(format!("Successfully killed shell: {} ({})", request.shell_id, text(&data, "command")).into())
}

/// Parameters of both shells of the `codex` family: the command is a list of words, or a script.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("x-ignored" = ["login", "with_escalated_permissions", "sandbox_permissions", "prefix_rule"]))]
pub struct ShellRequest<Command> {
    /// The command to run
    command: Command,
    /// The folder to run it in
    workdir: Option<String>,
    /// Time limit in milliseconds
    #[schemars(extend("x-aliases" = ["timeout"]))]
    timeout_ms: Option<u64>,
    /// Purpose
    #[schemars(extend("x-hidden" = true))]
    justification: Option<String>,
}

impl<Command> ShellRequest<Command> {
    /// Runs the command as a script.
    fn run(&self, lbx: &mut LbxClient<'_>, script: &str) -> Result<ToolOutput, Error> {
        if let Some((folder, patch)) = patch_of_script(script, self.workdir.as_ref()) {
            return apply_patch(lbx, patch, folder.as_deref());
        }
        let limit = Some(self.timeout_ms.unwrap_or(CODEX_TIME_MS));
        let ran = run(lbx, script, self.workdir.as_ref(), limit, self.justification.as_ref())?;
        let (output, code) = (ran.output(), if ran.timed_out { 124 } else { ran.exit_code });
        Ok(ran.command_output(format!(
            "Exit code: {code}\nWall time: {:.1} seconds\nOutput:\n{output}",
            ran.seconds
        )))
    }
}

/// Default time limit of the `codex` family.
const CODEX_TIME_MS: u64 = 10_000;

/// `shell` of the `codex` family.
pub const SHELL: DialectTool = tool!(
    "shell", Writes, shell, runs_commands: true,
    about: Some("Runs a command, as a list of words, and returns its output, confined to the workspace.")
);

/// Runs `shell` of the `codex` family.
fn shell(lbx: &mut LbxClient<'_>, request: ShellRequest<Vec<String>>) -> Result<ToolOutput, Error> {
    let script = match request.command.as_slice() {
        // The sandbox runs this shell anyway.
        [shell, flag, script]
            if ["bash", "sh", "/bin/bash", "/bin/sh"].contains(&shell.as_str())
                && ["-c", "-lc"].contains(&flag.as_str()) =>
        {
            script.clone()
        }
        [] => return Err(Error::invalid("command is empty").detail("field", "command")),
        // A single string instead of a list of words is a script.
        [script] if script.contains(char::is_whitespace) => script.clone(),
        words => match patch_of_words(words) {
            Some(patch) => return apply_patch(lbx, patch, request.workdir.as_ref().map(Path::new)),
            None => escaped::join(words),
        },
    };
    request.run(lbx, &script)
}

/// `shell_command` of the `codex` family.
pub const SHELL_COMMAND: DialectTool = tool!(
    "shell_command", Writes, shell_command, runs_commands: true,
    about: Some("Runs a shell script and returns its output, confined to the workspace.")
);

/// Runs `shell_command` of the `codex` family.
fn shell_command(lbx: &mut LbxClient<'_>, request: ShellRequest<String>) -> Result<ToolOutput, Error> {
    request.run(lbx, &request.command)
}

/// Runs a command to its end and returns its output, confined to the workspace.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("x-ignored" = ["shell", "tty", "yield_time_ms", "max_output_tokens", "justification", "login", "with_escalated_permissions", "sandbox_permissions", "prefix_rule"]))]
pub struct ExecCommandRequest {
    /// The command to run
    cmd: String,
    /// The folder to run it in
    workdir: Option<String>,
    /// Time limit in milliseconds
    #[schemars(extend("x-hidden" = true, "x-not-zero" = true))]
    timeout_ms: Option<u64>,
}

/// `exec_command` of the `codex` family.
pub const EXEC_COMMAND: DialectTool =
    tool!("exec_command", Writes, exec_command, runs_commands: true, fields: &[("command", "cmd")]);

/// Runs `exec_command` of the `codex` family.
fn exec_command(lbx: &mut LbxClient<'_>, request: ExecCommandRequest) -> Result<ToolOutput, Error> {
    if let Some((folder, patch)) = patch_of_script(&request.cmd, request.workdir.as_ref()) {
        return apply_patch(lbx, patch, folder.as_deref());
    }
    let ran = run(lbx, &request.cmd, request.workdir.as_ref(), request.timeout_ms, None)?;
    let said = json!({
        "wall_time_seconds": ran.seconds, "exit_code": ran.exit_code, "output": ran.output()
    });
    Ok(ran.command_output(said.to_string()))
}

/// Runs a shell command as `bash -c`, confined to the workspace.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("x-ignored" = ["delay_ms"]))]
pub struct RunShellCommandRequest {
    /// The command to run
    command: String,
    /// Purpose, for the user
    description: Option<String>,
    /// The folder to run it in
    #[schemars(extend("x-aliases" = ["directory"]))]
    dir_path: Option<String>,
    /// Start the command and return at once
    is_background: bool,
}

/// `run_shell_command` of the `gemini` family.
pub const RUN_SHELL_COMMAND: DialectTool = tool!(
    "run_shell_command", Writes, run_shell_command, runs_commands: true,
    fields: &[("workdir", "dir_path"), ("background", "is_background"), ("why", "description")]
);

/// Runs `run_shell_command` of the `gemini` family.
fn run_shell_command(lbx: &mut LbxClient<'_>, request: RunShellCommandRequest) -> Result<ToolOutput, Error> {
    let RunShellCommandRequest { command, description, dir_path, is_background } = request;
    if is_background {
        let BackgroundCommand { job, output_file } =
            start(lbx, &command, dir_path.as_ref(), description.as_ref())?;
        return Ok(format!("Command moved to background (ID: {job}). Output: {output_file}").into());
    }
    let ran = run(lbx, &command, dir_path.as_ref(), None, description.as_ref())?;
    let output = ran.output();
    let mut lines = vec![format!("Output: {}", if output.is_empty() { "(empty)" } else { &output })];
    if ran.timed_out {
        lines.push("Error: the time limit ended the command".to_owned());
    }
    lines.push(format!("Exit Code: {}", ran.exit_code));
    lines.extend(ran.signal.map(|signal| format!("Signal: {signal}")));
    Ok(lines.join("\n").into())
}

/// Runs a shell command, confined to the workspace.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct OpenCodeBashRequest {
    /// The command to run
    command: String,
    /// Time limit in milliseconds
    timeout: Option<u64>,
    /// The folder to run it in
    workdir: Option<String>,
    /// Purpose, in 5 to 10 words
    description: Option<String>,
}

/// `bash` of the `opencode` family.
pub const OPENCODE_BASH: DialectTool = tool!(
    "bash", Writes, bash_of_opencode, runs_commands: true,
    fields: &[("timeout_ms", "timeout"), ("why", "description")]
);

/// Runs `bash` of the `opencode` family.
fn bash_of_opencode(lbx: &mut LbxClient<'_>, request: OpenCodeBashRequest) -> Result<ToolOutput, Error> {
    let OpenCodeBashRequest { command, timeout, workdir, description } = request;
    let ran = run(lbx, &command, workdir.as_ref(), timeout, description.as_ref())?;
    let output = ran.output();
    let output = if output.is_empty() { "(no output)".to_owned() } else { output };
    let note = match ran.exit_code {
        _ if ran.timed_out => {
            format!("bash tool terminated command after exceeding timeout {} ms", timeout.unwrap_or(120_000))
        }
        0 => return Ok(output.into()),
        code => format!("exit code {code}"),
    };
    Ok(format!("{output}\n\n<bash_metadata>\n{note}\n</bash_metadata>").into())
}

/// Runs a bash command, confined to the workspace.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ExecuteBashRequest {
    /// The command to run
    command: String,
    /// Purpose
    summary: Option<String>,
}

/// `execute_bash` of the `q` family.
pub const EXECUTE_BASH: DialectTool = tool!("execute_bash", Writes, execute_bash, runs_commands: true);

/// Runs `execute_bash` of the `q` family.
fn execute_bash(lbx: &mut LbxClient<'_>, request: ExecuteBashRequest) -> Result<ToolOutput, Error> {
    let ran = run(lbx, &request.command, None, None, request.summary.as_ref())?;
    let mut said =
        json!({ "exit_status": ran.exit_code.to_string(), "stdout": ran.stdout, "stderr": ran.stderr });
    if let (Some(said), Some(rest)) = (said.as_object_mut(), ran.rest) {
        said.insert("note".to_owned(), rest.into());
    }
    Ok(said.to_string().into())
}

/// Names that models use for it in a shell.
const NAMES: [&str; 2] = ["apply_patch", "applypatch"];
/// First line of a patch.
const BEGIN: &str = "*** Begin Patch";

/// Applies a patch in this format, and lists the files as Codex does. Paths are relative to `folder`, if given.
///
/// # Errors
/// Returns the error of `apply_patch`.
pub fn apply_patch(lbx: &mut LbxClient<'_>, patch: &str, folder: Option<&Path>) -> Result<ToolOutput, Error> {
    let data = lbx.call_in::<patch::ApplyPatch>(folder, json!({ "input": patch }))?;
    let mut said = "Success. Updated the following files:\n".to_owned();
    for file in list(&data, "files") {
        let letter = match text(file, "action") {
            "create" => 'A',
            "delete" => 'D',
            _ => 'M',
        };
        said.extend([format!("{letter} {}\n", display(file))]);
    }
    Ok(said.into())
}

/// Returns the patch that a shell should apply: models also call `apply_patch` in a shell, where no such program
/// exists.
fn patch_of_words(words: &[String]) -> Option<&str> {
    match words {
        [name, patch] if NAMES.contains(&name.as_str()) => Some(patch),
        _ => None,
    }
}

/// Returns the patch of a script that is one call with the patch as a here-document, perhaps after `cd DIR &&`, and its
/// folder; `None` for other scripts, because the rest would not run.
fn patch_of_script<'s>(script: &'s str, workdir: Option<&String>) -> Option<(Option<PathBuf>, &'s str)> {
    let (call, document) = script.trim().split_once('\n')?;
    let moved = call.strip_prefix("cd ").and_then(|rest| rest.split_once("&&"));
    let (folder, call) =
        moved.map_or((None, call), |(folder, call)| (Some(folder.trim()), call.trim_start()));
    // The shell would read anything else in another way.
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-".contains(letter);
    if folder.is_some_and(|folder| folder.starts_with('-') || !folder.chars().all(is_plain)) {
        return None;
    }
    let folders = workdir.map(String::as_str).into_iter().chain(folder);
    let folder = folders.map(PathBuf::from).reduce(|workdir, folder| workdir.join(folder));
    let words = NAMES.iter().find_map(|name| call.strip_prefix(name))?;
    let delimiter = words.trim().strip_prefix("<<")?.trim_start().trim_matches(['\'', '"']);
    let (patch, end) = document.rsplit_once('\n')?;
    let is_word =
        !delimiter.is_empty() && delimiter.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    let is_whole = end == delimiter && !patch.lines().any(|line| line == delimiter);
    (is_word && is_whole && patch.trim_start().starts_with(BEGIN)).then_some((folder, patch))
}
