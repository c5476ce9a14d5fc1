//! What `bash` takes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// Run a shell command, confined to the workspace
///
/// The command can write in the workspace, except .git and .lbx. The rest of the disk is read-only,
/// secrets such as ~/.ssh are hidden, /tmp is empty, and there is no network unless the policy
/// allows it. The answer lists changed files. Every process ends with the command.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The command, as for `bash -c`
    #[arg(value_name = "COMMAND")]
    #[schemars(extend("x-aliases" = ["cmd", "script"]))]
    pub command: Option<String>,
    /// Folder to run in
    #[arg(long, short = 'C', value_name = "DIR")]
    #[schemars(extend("x-aliases" = ["cwd", "working_directory", "working_dir", "dir_path"]))]
    pub workdir: Option<PathBuf>,
    /// Time limit in milliseconds [default: 120000]
    #[arg(long, value_name = "MS")]
    #[schemars(extend("x-aliases" = ["timeout"]))]
    pub timeout_ms: Option<u64>,
    /// Environment variables
    #[arg(
        long,
        value_name = "NAME=VALUE",
        help = "Environment variables: NAME=VALUE, separated by commas, or a JSON object"
    )]
    pub env: Option<Environment>,
    /// Text for its standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub stdin: Option<String>,
    /// Use the network, if the policy allows it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub network: Option<bool>,
    /// Bytes of output to show: beginning and end; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
    /// List the ways to confine a command, and why one does not work here
    #[arg(long)]
    #[serde(default)]
    pub backends: bool,
    /// Reason, recorded in the snapshot
    #[arg(long, value_name = "TEXT")]
    #[schemars(extend("x-aliases" = ["description", "instruction", "summary", "explanation"]))]
    pub why: Option<String>,
}

/// Environment variables by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
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
