//! The request of `bash`: the forms of a command that callers send, and the message of its snapshot.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::text;
use crate::text::escaped;

/// Run a shell command, confined to the workspace
///
/// The command can write in the workspace, except .git and .lbx. Outside it sees programs and toolchains,
/// read-only, and a /tmp that the session's commands share. There is no network unless the policy
/// allows it. Its changes are applied when it ends, as one change that undo takes back. The response
/// lists changed files. Every process ends with the command.
#[derive(Debug, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    /// The command, as for `bash -c`
    #[arg(value_name = "COMMAND")]
    #[schemars(extend("x-aliases" = ["cmd", "script"], "x-words" = true))]
    pub command: Option<String>,
    /// `lbx bash -c COMMAND`, as typed for bash
    #[arg(short = 'c', hide = true)]
    #[serde(skip)]
    pub as_option: bool,
    /// `lbx bash -lc COMMAND`, likewise: no login shell is started
    #[arg(short = 'l', hide = true)]
    #[serde(skip)]
    pub login: bool,
    /// Working directory of the command
    #[arg(long, short = 'C', value_name = "DIR")]
    #[schemars(extend("x-aliases" = ["cwd", "working_directory", "working_dir", "dir_path"]))]
    pub workdir: Option<PathBuf>,
    /// Time limit in milliseconds [default: 120000]
    #[arg(long, value_name = "MS")]
    #[schemars(extend("x-aliases" = ["timeout"], "x-not-zero" = true))]
    pub timeout_ms: Option<u64>,
    /// Environment variables
    #[arg(
        long,
        value_name = "NAME=VALUE",
        help = "Environment variables: NAME=VALUE, separated by commas, or a JSON object"
    )]
    pub env: Option<Environment>,
    /// Text for the command's standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub stdin: Option<String>,
    /// false: without the network that the policy allows; true: fail if it allows none
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub network: Option<bool>,
    /// Apply all changes of the command or none: fail if others changed one of the files while it ran
    #[arg(long)]
    pub transaction: bool,
    /// Change the files themselves instead of a layer: for servers and shared locks
    #[arg(long)]
    pub direct: bool,
    /// Fate of the changes of a failed command; implies transaction [default: keep]
    #[arg(long, value_name = "WHAT")]
    pub on_failure: Option<OnFailure>,
    /// Run the command, list what it changes, and change nothing; implies transaction
    #[arg(long)]
    pub dry_run: bool,
    /// Maximum bytes of output, split between its start and its end; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
    /// Start the command as a job and return at once; look at it with job
    #[arg(long, short = 'b')]
    #[schemars(extend("x-aliases" = ["run_in_background", "is_background"]))]
    pub background: bool,
    /// Show a job's state and its output from offset; with `timeout_ms`, wait up to that long for its end
    #[arg(long, value_name = "ID")]
    #[schemars(extend("x-aliases" = ["job_id", "bash_id", "shell_id"]))]
    pub job: Option<String>,
    /// Byte of the job's output to read on from; negative: from the end
    #[arg(long, value_name = "BYTE", allow_negative_numbers = true)]
    pub offset: Option<i64>,
    /// End the job
    #[arg(long)]
    pub stop: bool,
    /// Show the changes in a kept layer: of a command that was killed, or of conflicts
    #[arg(long, value_name = "NAME")]
    pub layer: Option<String>,
    /// Apply the layer
    #[arg(long)]
    pub apply: bool,
    /// Delete the layer
    #[arg(long)]
    pub drop: bool,
    /// List the jobs of this session and the kept layers. Of ended jobs, the newest 20 with read output and the newest
    /// 80 with unread output are kept
    #[arg(long)]
    pub list: bool,
    /// List the backends that confine commands, and why one does not work here
    #[arg(long)]
    pub backends: bool,
    /// Reason for the change, recorded in the snapshot
    #[arg(long, value_name = "TEXT")]
    #[schemars(extend("x-aliases" = ["description", "instruction", "summary", "explanation"]))]
    pub why: Option<String>,
}

/// Action on the changes of a failed command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Apply them.
    Keep,
    /// Discard them.
    Discard,
}

/// Environment variables by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Environment(pub BTreeMap<String, String>);

impl std::str::FromStr for Environment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(|error| error.to_string());
        }
        let pair = |pair: &str| {
            pair.split_once('=')
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .ok_or_else(|| format!("expected NAME=VALUE, got {pair:?}"))
        };
        text.split(',').map(pair).collect::<Result<_, _>>().map(Self)
    }
}

/// Shortest time limit in milliseconds that gets no warning.
const TIME_MS_PLAUSIBLE: u64 = 100;

impl Request {
    /// Returns true if all changes are applied, or none.
    pub const fn is_transaction(&self) -> bool {
        self.transaction || self.dry_run || self.on_failure.is_some()
    }

    /// Brings the command into the shell's form: joins a list of words, and turns CRLF into LF.
    pub fn with_plain_command(mut self) -> Self {
        self.command = self.command.map(|command| plain(&command));
        self
    }

    /// Warns of a time limit that looks like seconds.
    pub fn warn_of_time_limit(&self, engine: &mut Engine) {
        let is_limit = self.command.is_some() && self.job.is_none();
        if let Some(ms) = self.timeout_ms.filter(|ms| is_limit && (1..TIME_MS_PLAUSIBLE).contains(ms)) {
            engine.warn(text!("`timeout_ms` is {}: the unit is milliseconds", ms));
        }
    }
}

/// Returns the command that a text holds, with LF line ends.
fn plain(command: &str) -> String {
    let words = serde_json::from_str::<Vec<String>>(command).ok().filter(|words| !words.is_empty());
    let command = words.map_or_else(|| command.to_owned(), |words| escaped::command_of(&words));
    let text = command.replace("\r\n", "\n");
    text.strip_suffix('\r').unwrap_or(&text).to_owned()
}

/// Characters of the command in the subject of its snapshot.
const SUBJECT_CHARACTERS_MAX: usize = 100;

/// Returns the first line of the snapshot's message.
pub fn subject(command: &str) -> String {
    let first = command.trim().lines().next().unwrap_or_default();
    let mut shown: String = first.chars().take(SUBJECT_CHARACTERS_MAX).collect();
    if shown.len() < command.trim().len() {
        shown.push_str(" ...");
    }
    format!("bash: {shown}")
}

/// Returns the rest of the message: the reason, and the command if the first line cuts it.
pub fn body(command: &str, why: Option<&str>) -> Option<String> {
    let command = command.trim();
    let is_whole = subject(command).len() == "bash: ".len() + command.len();
    let parts: Vec<&str> = why.into_iter().chain((!is_whole).then_some(command)).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}
