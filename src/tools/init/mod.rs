//! `init`: the configuration that makes a client use lbx.

mod clients;
mod piece;
mod toml_table;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::clients::CLIENTS;
use self::clients::Client;
use self::piece::{For, Part};
use super::common::{ChangeOptions, subject};
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::{CallerKnowledge, Change};
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::text::jsonc::{self, Fault};
use crate::text::{diff, escaped};

/// Bytes of a diff in the answer, a file.
const DIFF_BYTES_MAX: usize = 20_000;

/// Set up a client to use lbx over MCP in this workspace
///
/// Writes the client's own file in the workspace and, where it has hooks, one that tells lbx when the
/// context is compacted. Everything else in the files stays as it is, comments included. A file that
/// cannot be understood is not changed. The answer has the diff; --dry-run shows it without changing
/// anything, a second call changes nothing, and --remove takes out again what was put in. Without
/// --client it lists the clients.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Client: claude-code, codex, gemini, opencode, cursor, vscode, zed or goose
    #[arg(long, value_name = "NAME")]
    pub client: Option<String>,
    /// Remove what init added
    #[arg(long)]
    #[serde(default)]
    pub remove: bool,
    /// Switch off the client's own file and shell tools too, where it has a setting for that
    #[arg(long)]
    #[serde(default)]
    pub exclusive: bool,
    /// Serve only these tools: core, read-only, or names separated by commas
    #[arg(long, value_name = "WHICH")]
    pub tools: Option<String>,
    /// Whether to do it, and why.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ChangeOptions,
}

/// What was set up.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// The files that changed, or would
    pub files: Vec<Changed>,
    /// What is left to the user, such as an entry in a file that is not in the workspace
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The clients, where none is named
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<&'static str>,
}

/// A file that changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Changed {
    /// The file
    pub path: String,
    /// What changed in it
    pub diff: String,
}

/// The tool.
pub struct Init;

impl Tool for Init {
    const NAME: &'static str = "init";
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Ignored;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let Some(name) = &request.client else {
            let clients = CLIENTS.iter().map(|client| client.name).collect();
            return Ok(Response { files: Vec::new(), text: None, clients });
        };
        let names = || CLIENTS.iter().map(|client| client.name).collect::<Vec<_>>().join(", ");
        let client = clients::find(name).ok_or_else(|| {
            Error::invalid(format!("unknown client {name:?} (there are: {})", names()))
                .detail("field", "client")
        })?;
        let arguments = arguments(client, request.tools.as_deref());
        let files = change(engine, client, &arguments, &request)?;
        Ok(Response { files, text: left_to_the_user(client, &arguments, &request), clients: Vec::new() })
    }

    fn text(response: &Response, text: &mut Text) {
        for changed in &response.files {
            text.change(&format!("init: {}", escaped::name(&changed.path)));
            changed.diff.lines().for_each(|line| text.line(line));
        }
        if let Some(shown) = &response.text {
            text.entry(shown.trim_end());
        }
        response.clients.iter().for_each(|client| text.entry(client));
        if response.files.is_empty() && response.text.is_none() && response.clients.is_empty() {
            text.line("init: nothing to change");
        }
    }
}

/// The arguments of `lbx` for a client. Its model reads the text of a result; the session is the one that
/// its hook names.
fn arguments(client: &Client, tools: Option<&str>) -> Vec<String> {
    let mut arguments: Vec<&str> = vec!["mcp", "--results", "text"];
    if client.has_hooks() {
        arguments.extend(["--session", client.name]);
    }
    arguments.extend(tools.into_iter().flat_map(|tools| ["--tools", tools]));
    arguments.into_iter().map(str::to_owned).collect()
}

/// What no file in the workspace can say: an entry of the user's own file, or what to do instead.
fn left_to_the_user(client: &Client, arguments: &[String], request: &Request) -> Option<String> {
    let entry = client.shown.map(|shown| shown(arguments));
    if request.remove {
        return entry.map(|entry| format!("Remove this from the file:\n\n{entry}"));
    }
    let more = client.shown_exclusive.filter(|_| request.exclusive).map(str::to_owned);
    let text: String = entry.into_iter().chain(more).collect();
    Some(text).filter(|text| !text.is_empty())
}

/// Changes the client's files, all or none.
fn change(
    engine: &mut Engine,
    client: &Client,
    arguments: &[String],
    request: &Request,
) -> Result<Vec<Changed>, Error> {
    let root = engine.workspace.root().to_owned();
    // What has no mark of lbx's is removed where all of it stands, whether this call names it or not.
    let exclusive = client.exclusive.iter().filter(|_| request.exclusive || request.remove);
    let parts: Vec<&Part> = client.parts.iter().chain(exclusive).collect();
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in parts.iter().map(|part| root.join(part.file)) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let named: Vec<(&str, &Path)> = paths.iter().map(|path| ("path", path.as_path())).collect();
    let mut change = engine.begin(Init::NAME, &named, request.options.dry_run)?;
    let whom = For { client: client.name, arguments };
    let mut changed = Vec::new();
    let mut touched: Vec<WorkspacePath> = Vec::new();
    for path in &paths {
        let wanted: Vec<&Part> = parts.iter().copied().filter(|part| root.join(part.file) == *path).collect();
        let edit = |text: &str| edited(text, &wanted, whom, request.remove);
        changed.extend(change_file(&mut change, path, edit, &mut touched)?);
    }
    change.commit(subject(Init::NAME, &touched), request.options.why.clone())?;
    Ok(changed)
}

/// The text of a file with its parts put in or taken out, the last one first.
fn edited(text: &str, parts: &[&Part], whom: For<'_>, remove: bool) -> Result<String, Fault> {
    let text = text.to_owned();
    if remove {
        parts.iter().rev().try_fold(text, |text, part| part.piece.take_out(&text))
    } else {
        parts.iter().try_fold(text, |text, part| part.piece.put(&text, whom))
    }
}

/// Plans the change of one file; `None` where nothing is to be changed.
fn change_file(
    change: &mut Change<'_>,
    path: &Path,
    edit: impl Fn(&str) -> Result<String, Fault>,
    touched: &mut Vec<WorkspacePath>,
) -> Result<Option<Changed>, Error> {
    let current = change.look_at(path)?;
    let shown = current.place().shown().to_owned();
    let refused = |why: &str| {
        Error::new(ErrorKind::InvalidRequest, format!("{shown}: {why}"))
            .at(shown.clone())
            .suggest("Correct the file by hand, or add the entry yourself; nothing was changed.")
    };
    let before =
        std::str::from_utf8(current.bytes()).map_err(|_| refused("the file is not UTF-8"))?.to_owned();
    let after = edit(&before).map_err(|Fault(why)| refused(&why))?;
    if after == before {
        return Ok(None);
    }
    let diff = diff::unified(&shown, &shown, before.as_bytes(), after.as_bytes(), DIFF_BYTES_MAX);
    touched.push(current.place().path().clone());
    let is_gone = jsonc::is_empty(&after) && !jsonc::is_empty(&before);
    let seen = current.without_proof();
    if is_gone {
        change.remove(seen);
    } else {
        change.put(seen, after.into_bytes(), None, CallerKnowledge::ChangedLines);
    }
    Ok(Some(Changed { path: shown, diff }))
}
