//! `init`: the configuration that makes a client use lbx.

mod clients;
mod toml_table;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::clients::CLIENTS;
use self::clients::{Client, Format, HOOK_SIGN};
use super::common::{ChangeOptions, subject};
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::{CallerKnowledge, Change};
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::text::{diff, escaped, jsonc};

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
    /// What the user must put into a file that is not in the workspace
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
        if let Format::Shown { text } = client.format {
            return Ok(Response { files: Vec::new(), text: Some(text(&arguments)), clients: Vec::new() });
        }
        let files = edits(client, &arguments, request.remove);
        change(engine, &files, &request).map(|files| Response { files, text: None, clients: Vec::new() })
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
    if !client.hooks.is_empty() {
        arguments.extend(["--session", client.name]);
    }
    arguments.extend(tools.into_iter().flat_map(|tools| ["--tools", tools]));
    arguments.into_iter().map(str::to_owned).collect()
}

/// Changes a text, or says why not.
type Edit<'e> = Box<dyn Fn(&str) -> Result<String, String> + 'e>;

/// What is to be done to which file.
fn edits<'e>(
    client: &'static Client,
    arguments: &'e [String],
    remove: bool,
) -> Vec<(&'static str, Edit<'e>)> {
    let mut edits: Vec<(&'static str, Edit<'e>)> = Vec::new();
    let fault = |jsonc::Fault(fault): jsonc::Fault| fault;
    match (&client.format, client.file) {
        (Format::Json { path, entry }, Some(file)) => edits.push((
            file,
            Box::new(move |text| {
                let path: &[&str] = path;
                let done = if remove {
                    jsonc::remove(text, path)
                } else {
                    jsonc::set(text, path, &entry(arguments))
                };
                done.map_err(fault)
            }),
        )),
        (Format::Toml { table }, Some(file)) => edits.push((
            file,
            Box::new(move |text| {
                let body = format!("command = \"lbx\"\nargs = {}\n", Value::from(arguments.to_vec()));
                let done = if remove {
                    toml_table::remove(text, table)
                } else {
                    toml_table::set(text, table, &body)
                };
                done.map_err(|toml_table::Fault(fault)| fault)
            }),
        )),
        _ => {}
    }
    for hook in client.hooks {
        edits.push((
            hook.file,
            Box::new(move |text| {
                let done = if remove {
                    jsonc::remove_items(text, hook.path, HOOK_SIGN)
                } else {
                    jsonc::add_item(text, hook.path, HOOK_SIGN, &hook.item(client.name))
                };
                done.map_err(fault)
            }),
        ));
    }
    edits
}

/// Changes the files, all or none.
fn change(
    engine: &mut Engine,
    edits: &[(&'static str, Edit<'_>)],
    request: &Request,
) -> Result<Vec<Changed>, Error> {
    let root = engine.workspace.root().to_owned();
    let mut paths: Vec<std::path::PathBuf> = edits.iter().map(|(file, _)| root.join(file)).collect();
    paths.dedup();
    let named: Vec<(&str, &Path)> = paths.iter().map(|path| ("path", path.as_path())).collect();
    let mut change = engine.begin(Init::NAME, &named, request.options.dry_run)?;
    let mut changed = Vec::new();
    let mut touched: Vec<WorkspacePath> = Vec::new();
    for path in &paths {
        let wanted = edits.iter().filter(|(file, _)| root.join(file) == *path).map(|(_, edit)| edit);
        changed.extend(change_file(&mut change, path, wanted, &mut touched)?);
    }
    change.commit(subject(Init::NAME, &touched), request.options.why.clone())?;
    Ok(changed)
}

/// Plans the change of one file; `None` where nothing is to be changed.
fn change_file<'e>(
    change: &mut Change<'_>,
    path: &Path,
    edits: impl Iterator<Item = &'e Edit<'e>>,
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
    let after =
        edits.into_iter().try_fold(before.clone(), |text, edit| edit(&text).map_err(|why| refused(&why)))?;
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
