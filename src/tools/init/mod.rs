//! `init`: writes the configuration that makes a client use lbx.

mod alive;
mod clients;
mod hooks;
mod piece;
mod toml_table;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::alive::{ServerEntry, StartedServer, entries};
pub use self::clients::CLIENTS;
use self::clients::{Client, Plugin};
use self::hooks::Recipient;
pub use self::hooks::is_guarded;
use self::piece::{EarlierChanges, FilePiece, InitialFile, Piece};
use super::common::{ChangeOptions, reject_if, subject};
use super::{Effect, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::{CallerKnowledge, Change, LockedFile};
use crate::engine::workspace;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::programs;
use crate::error::{Error, ErrorKind};
use crate::limits::SETUP_DIFF_BYTES_MAX;
use crate::text::jsonc::{self, JsonFault};
use crate::text::{diff, escaped};

/// Program that a client starts, if it is on PATH.
const PROGRAM: &str = "lbx";

/// Set up a client to use lbx over MCP in this workspace
///
/// Writes the client's own file in the workspace and, if it has hooks, one that tells lbx when the context is
/// compacted. The rest of the files is unchanged, comments included. A file that cannot be parsed is not changed. The
/// response has the diff; --dry-run shows it without changing anything, a second call changes nothing, and --remove
/// removes what init added. With --plugin it writes a folder instead that Claude Code and Codex install as a plugin.
/// Without --client or --plugin it lists the clients.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Client: claude-code, codex, gemini, opencode, cursor, vscode, zed, goose, copilot-cli, qwen-code, pi,
    /// antigravity, kiro or cline
    #[arg(long, value_name = "NAME")]
    pub client: Option<String>,
    /// Client, as with --client
    #[arg(value_name = "CLIENT", conflicts_with = "client")]
    #[serde(skip)]
    pub named: Option<String>,
    /// Write a plugin for Claude Code and Codex into this folder: server, hooks and a skill
    #[arg(long, value_name = "DIR", conflicts_with_all = ["client", "exclusive"])]
    pub plugin: Option<PathBuf>,
    /// Remove what init added
    #[arg(long)]
    pub remove: bool,
    /// Switch off the client's own file and shell tools too, if it has a setting
    #[arg(long)]
    pub exclusive: bool,
    /// Guard the client's own file and shell tools by its hooks too: gated, recorded and undoable by turn
    #[arg(long)]
    pub guard: bool,
    /// Give agents forks of the workspace: as worktrees of Claude Code, by its hooks; for other clients as tools of the
    /// server
    #[arg(long)]
    pub forks: bool,
    /// With guard, leave the MCP server out
    #[arg(long, requires = "guard", conflicts_with = "exclusive")]
    pub no_server: bool,
    /// Serve only these tools: core, read-only, or names separated by commas
    #[arg(long, value_name = "WHICH")]
    pub tools: Option<String>,
    /// Form of results: text or json
    #[arg(long, value_name = "FORM", default_value = "text")]
    #[serde(default = "text_form")]
    pub results: String,
    /// Ask a person at the client about each change
    #[arg(long)]
    pub confirm: bool,
    /// Tools of a model family instead of lbx's
    #[arg(long, value_name = "NAME")]
    pub dialect: Option<String>,
    /// Dry run and reason.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ChangeOptions,
}

/// Returns the result form that a model reads once.
fn text_form() -> String {
    "text".to_owned()
}

/// Result of a setup.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Files that changed, or would
    pub files: Vec<InitFile>,
    /// Result of starting the server as the client will
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Steps left to the user, such as an entry in a file outside the workspace
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The clients, if none is named
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<&'static str>,
}

/// A file that changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct InitFile {
    /// The file
    pub path: String,
    /// Its diff
    pub diff: String,
}

/// The `init` tool.
pub struct Init;

impl Tool for Init {
    const NAME: &'static str = "init";
    const EFFECT: Effect = Effect::Writes;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let mut request = request;
        let named = request.named.take();
        request.client = request.client.or(named);
        let (setups, folder) = match (&request.client, &request.plugin) {
            (None, None) => {
                let clients = CLIENTS.iter().map(|client| client.name).collect();
                return Ok(Response { files: Vec::new(), text: None, server: None, clients });
            }
            (None, Some(folder)) if !request.exclusive => (plugin_setups(&request)?, folder.clone()),
            (Some(name), None) => {
                let setup = client_setup(name, &request)?;
                if !request.remove {
                    must_be_a_project(engine.workspace.root(), name)?;
                }
                (vec![setup], engine.workspace.root().to_owned())
            }
            _ => {
                return Err(Error::invalid("plugin takes neither client nor exclusive")
                    .detail("field", "plugin")
                    .suggest(
                        "Leave them out: the folder serves Claude Code and Codex, in addition to their own tools.",
                    ));
            }
        };
        let has_server = !request.remove && !request.no_server;
        let server = match setups.first().filter(|_| has_server) {
            Some(setup) => Some(seen_alive(engine, &setup.arguments, &request)?),
            None => None,
        };
        let program = server.as_ref().map_or(PROGRAM, |server| &server.program);
        let (files, left) = change(engine, &setups, program, &folder, &request)?;
        let shown = setups.iter().flat_map(|setup| setup.manual_steps(engine, &request));
        let text: String = shown.chain(left).chain(missing_program_warning(engine, &request)).collect();
        let (text, server) = (Some(text).filter(|text| !text.is_empty()), server.map(|server| server.said));
        Ok(Response { files, text, server, clients: Vec::new() })
    }

    fn text(response: &Response, text: &mut Text) {
        for changed in &response.files {
            text.change(&format!("init: {}", escaped::name(&changed.path)));
            changed.diff.lines().for_each(|line| text.line(line));
        }
        if let Some(shown) = &response.text {
            text.entry(shown.trim_end());
        }
        if let Some(server) = &response.server {
            text.note(server.clone());
        }
        response.clients.iter().for_each(|client| text.entry(client));
        if !response.clients.is_empty() {
            text.note("name one with --client to set it up; --dry-run shows what would change");
        }
        if response.files.is_empty() && response.text.is_none() && response.clients.is_empty() {
            text.line("init: nothing to change");
        }
    }
}

/// Returns the arguments of `lbx` for a client. Its model reads the text of a result; each process of the client has a
/// session, which its hooks find.
fn arguments(client: &Client, request: &Request) -> Result<Vec<String>, Error> {
    let message = format!("results is {:?}: expected text or json", request.results);
    reject_if(!["text", "json"].contains(&request.results.as_str()), "results", message)?;
    let session = format!("{}@parent", client.name);
    let mut arguments = vec!["mcp", "--results", &request.results, "--session", &session];
    arguments.extend(request.dialect.iter().flat_map(|family| ["--dialect", family.as_str()]));
    arguments.extend(request.tools.iter().flat_map(|tools| ["--tools", tools.as_str()]));
    arguments.extend(request.confirm.then_some("--confirm"));
    let serves_forks = request.forks && (client.forks.is_none() || request.plugin.is_some());
    arguments.extend(serves_forks.then_some("--forks"));
    Ok(arguments.into_iter().map(str::to_owned).collect())
}

/// Returns a warning if the client will not find the program of its hooks; starting the server shows that as well.
fn missing_program_warning(engine: &Engine, request: &Request) -> Option<String> {
    let why = programs::find(PROGRAM, &[engine.workspace.root()]).err();
    let why = why.filter(|_| request.no_server && !request.remove)?;
    Some(format!("{why}: put lbx on PATH, or the client cannot run its hooks.\n"))
}

/// Result of starting the server as the client will.
struct ServerCheck {
    /// Program that the client is to start.
    program: String,
    /// Sentence for the user.
    said: String,
}

/// Starts the server as the client will: the client's own tools are switched off only if it answers.
///
/// # Errors
/// Fails with `invalid_request` if the server rejects the arguments.
fn seen_alive(engine: &Engine, arguments: &[String], request: &Request) -> Result<ServerCheck, Error> {
    let command = arguments.join(" ");
    let StartedServer { tools, other } = alive::tools(engine.workspace.root(), arguments).map_err(|why| {
        Error::invalid(format!("the server `lbx {command}` does not start: {}", escaped::lines(&why)))
    })?;
    let started = format!("`lbx {command}` starts and lists {tools} tools");
    Ok(match other {
        None => ServerCheck { program: PROGRAM.to_owned(), said: started },
        // With neither its own tools nor a server, the model could do nothing.
        Some((why, program)) if request.exclusive => {
            let said = format!("{started}; the entry names {program}, since {why}");
            ServerCheck { program, said }
        }
        Some((why, _)) => ServerCheck {
            program: PROGRAM.to_owned(),
            said: format!("{why}: put lbx on PATH, or the client cannot start its server"),
        },
    })
}

/// Parts to set up for a client.
struct Setup {
    /// The client.
    client: &'static Client,
    /// Arguments of `lbx`.
    arguments: Vec<String>,
    /// Parts of its files.
    parts: Vec<&'static FilePiece>,
    /// Text that says how to install its plugin.
    install: Option<&'static str>,
    /// True if its own tools are guarded.
    guard: bool,
}

/// Returns the files with the hooks that guard a client's own tools, each with the client.
pub fn guard_files() -> Vec<(&'static str, &'static str)> {
    let of_client = |client: &'static Client| {
        let is_plugin = |part: &&FilePiece| matches!(part.piece, Piece::Whole { .. });
        let plugin = client.parts.iter().find(is_plugin);
        client.guard.as_ref().or(plugin).map(|part| (client.name, part.file))
    };
    CLIENTS.iter().filter_map(of_client).collect()
}

/// Returns the setup of a client's own files.
///
/// # Errors
/// Fails with `invalid_request` for an unknown client or wrong arguments.
fn client_setup(name: &str, request: &Request) -> Result<Setup, Error> {
    let names = || CLIENTS.iter().map(|client| client.name).collect::<Vec<_>>().join(", ");
    let client = clients::find(name).ok_or_else(|| {
        Error::invalid(format!("unknown client {name:?} (there are: {})", names())).detail("field", "client")
    })?;
    if request.guard && !guard_files().iter().any(|(guarded, _)| *guarded == client.name) {
        return Err(Error::invalid(format!("{name} has no hooks that lbx knows")).detail("field", "guard"));
    }
    // Switches on again what an earlier call switched off, with or without --exclusive.
    let exclusive = client.exclusive.iter().filter(|_| request.exclusive || request.remove);
    let guard = client.guard.iter().filter(|_| request.guard || request.remove);
    let parts = client.parts.iter().filter(|part| !(request.no_server && part.is_for_server()));
    let forks = client.forks.iter().filter(|_| request.forks || request.remove);
    let parts = parts.chain(exclusive).chain(guard).chain(forks).collect();
    let (arguments, guard) = (arguments(client, request)?, request.guard);
    Ok(Setup { client, arguments, parts, install: None, guard })
}

/// Rejects the home folder, in which the files of clients are those of the user, for all projects.
fn must_be_a_project(root: &Path, client: &str) -> Result<(), Error> {
    if !workspace::is_home(root) {
        return Ok(());
    }
    let message = format!(
        "{} is your home folder: there {client} takes its settings for all projects, not for one",
        root.display()
    );
    Err(Error::invalid(message).suggest("Name the project's folder: --workspace DIR, or LBX_WORKSPACE."))
}

/// Returns the setups of the plugin folder, one for each client with a plugin.
///
/// # Errors
/// Fails with `invalid_request` for wrong arguments.
fn plugin_setups(request: &Request) -> Result<Vec<Setup>, Error> {
    let plugins = CLIENTS.iter().filter_map(|client| Some((client, client.plugin.as_ref()?)));
    let setup = |(client, plugin): (&'static Client, &'static Plugin)| {
        let parts = plugin.parts.iter().collect();
        let (arguments, install, guard) = (arguments(client, request)?, Some(plugin.install), request.guard);
        Ok(Setup { client, arguments, parts, install, guard })
    };
    plugins.map(setup).collect()
}

impl Setup {
    /// Returns the client and the arguments for its parts.
    fn piece_target<'a>(&'a self, program: &'a str) -> Recipient<'a> {
        Recipient { client: self.client.name, program, arguments: &self.arguments, guard: self.guard }
    }

    /// Returns the steps that no file covers: an entry in the user's own file, or another action.
    fn manual_steps(&self, engine: &Engine, request: &Request) -> Vec<String> {
        let root = engine.workspace.root();
        if let (Some(install), Some(folder)) = (self.install, &request.plugin) {
            let folder = root.join(folder).display().to_string();
            let install = Some(install.replace("DIR", &escaped::name(&folder))).filter(|_| !request.remove);
            return install.into_iter().collect();
        }
        let entry = self.client.shown.map(|shown| shown(&self.arguments, root));
        let entry =
            entry.map(
                |entry| {
                    if request.remove { format!("Remove this from the file:\n\n{entry}") } else { entry }
                },
            );
        let exclusive = self.client.shown_exclusive.filter(|_| request.exclusive);
        let more = exclusive.into_iter().chain(self.client.by_hand).filter(|_| !request.remove);
        entry.into_iter().chain(more.map(str::to_owned)).collect()
    }
}

/// Returns the folders of files up to `top`, innermost first: they are removed with the files if they are empty.
fn folders_of(files: &[WorkspacePath], top: &WorkspacePath) -> Vec<WorkspacePath> {
    let above = |file: &WorkspacePath| std::iter::successors(file.parent(), WorkspacePath::parent);
    let is_below = |folder: &WorkspacePath| folder.is_within(top) && !folder.is_root();
    let folders: BTreeSet<_> = files.iter().flat_map(above).filter(is_below).collect();
    folders.into_iter().rev().collect()
}

/// Changes the files in a folder, all or none; returns the files, and leftovers in them for the user to remove.
fn change(
    engine: &mut Engine,
    setups: &[Setup],
    program: &str,
    folder: &Path,
    request: &Request,
) -> Result<(Vec<InitFile>, Vec<String>), Error> {
    let mut parts: Vec<(&FilePiece, Recipient<'_>)> = Vec::new();
    for setup in setups {
        parts.extend(setup.parts.iter().map(|part| (*part, setup.piece_target(program))));
    }
    if parts.is_empty() {
        return Ok(Default::default());
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in parts.iter().map(|(part, _)| folder.join(part.file)) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let named: Vec<(&str, &Path)> = paths.iter().map(|path| ("path", path.as_path())).collect();
    let mut change = engine.begin(Init::NAME, &named, request.options.dry_run)?;
    let (mut changed, mut left) = (Vec::new(), Vec::new());
    let (mut touched, mut gone) = (Vec::new(), Vec::new());
    for path in &paths {
        let parts = parts.iter().copied().filter(|(part, _)| folder.join(part.file) == *path).collect();
        let file = ClientFile { parts, current: change.open_current(path)? };
        let after = if request.remove { file.without(&change, &mut left)? } else { file.with()? };
        let Some(after) = after else { continue };
        let at = file.current.place().path().clone();
        gone.extend(matches!(after, InitialFile::Missing).then(|| at.clone()));
        touched.push(at);
        changed.push(file.put(&mut change, after));
    }
    if !gone.is_empty() {
        // Of a client's own folders, that of the plugin itself goes too.
        let top = match &request.plugin {
            Some(_) => change.resolve_entry_to_move(folder)?.path().clone(),
            None => WorkspacePath::root(),
        };
        change.add_vacated(folders_of(&gone, &top))?;
    }
    change.commit(subject(Init::NAME, &touched), request.options.why.clone())?;
    Ok((changed, left))
}

/// A client's file and the parts for it.
struct ClientFile<'p> {
    /// Parts that belong into it.
    parts: Vec<(&'p FilePiece, Recipient<'p>)>,
    /// Current file.
    current: LockedFile,
}

impl ClientFile<'_> {
    /// Returns its name in messages.
    fn display_name(&self) -> &str {
        self.current.place().display()
    }

    /// Returns its parts, in order.
    fn pieces(&self) -> impl DoubleEndedIterator<Item = &FilePiece> {
        self.parts.iter().map(|(part, _)| *part)
    }

    /// Returns its text.
    fn text(&self) -> Result<&str, Error> {
        std::str::from_utf8(self.current.bytes()).map_err(|_| self.refused("the file is not UTF-8"))
    }

    /// Returns the error if it is not changed.
    fn refused(&self, why: &str) -> Error {
        Error::new(ErrorKind::InvalidRequest, format!("{}: {why}", self.display_name()))
            .at(self.display_name().to_owned())
            .suggest("Correct the file by hand, or add the entry yourself; nothing was changed.")
    }

    /// Returns the file with its parts; `None` if nothing changes.
    fn with(&self) -> Result<Option<InitialFile>, Error> {
        let before = self.text()?;
        let put = |text: String, (part, whom): &(&FilePiece, Recipient<'_>)| part.piece.put(&text, *whom);
        let after = self.parts.iter().try_fold(before.to_owned(), put);
        let after = after.map_err(|JsonFault(why)| self.refused(&why))?;
        Ok((after != before).then(|| InitialFile::Bytes(after.into_bytes())))
    }

    /// Returns the file without its parts; `None` if nothing changes. Pieces that may not be lbx's are left, and added
    /// to `left`.
    fn without(&self, change: &Change<'_>, left: &mut Vec<String>) -> Result<Option<InitialFile>, Error> {
        let before = self.text()?;
        let take_out = |text: &str, earlier: &EarlierChanges| {
            // The last one first.
            let take_out = |text: String, (part, whom): &(&FilePiece, Recipient<'_>)| {
                part.piece.remove(&text, *whom, earlier)
            };
            self.parts.iter().rev().try_fold(text.to_owned(), take_out)
        };
        // Pieces without lbx's mark stay if no earlier call is known.
        let unknown = EarlierChanges::default();
        take_out(before, &unknown).map_err(|JsonFault(why)| self.refused(&why))?;
        let is_set_up = |text: &str| {
            let mut marked = self.parts.iter().filter(|(part, _)| part.piece.is_marked()).peekable();
            if marked.peek().is_none() {
                // A file that has no marked piece of lbx.
                return self.pieces().all(|part| part.piece.unmarked_in(text).is_some());
            }
            marked.any(|(part, whom)| {
                part.piece.remove(text, *whom, &unknown).is_ok_and(|without| without != text)
            })
        };
        if !is_set_up(before) {
            return Ok(None);
        }
        let earlier = EarlierChanges::of(change, &self.current, is_set_up)?;
        if let Some(original) = earlier.original {
            return Ok(Some(original));
        }
        let after = take_out(before, &earlier).map_err(|JsonFault(why)| self.refused(&why))?;
        if earlier.puts.is_empty() {
            let stands = self.pieces().filter_map(|part| part.piece.unmarked_in(&after));
            left.extend(stands.map(|what| {
                format!("{}: {what} was left: nobody knows whether lbx put it there.\n", self.display_name())
            }));
        }
        let is_server_left =
            |part: &FilePiece| part.piece.is_server() && part.piece.server_in(&after).is_some();
        if self.pieces().any(is_server_left) {
            left.push(format!(
                "{}: the server `lbx` was there before init, so it was left.\n",
                self.display_name()
            ));
        }
        if after == before {
            return Ok(None);
        }
        if jsonc::is_empty(&after) && !earlier.existed_before() {
            return Ok(Some(InitialFile::Missing));
        }
        Ok(Some(InitialFile::Bytes(after.into_bytes())))
    }

    /// Plans the change.
    fn put(self, change: &mut Change<'_>, after: InitialFile) -> InitFile {
        let path = self.display_name().to_owned();
        let (is_gone, after) = match after {
            InitialFile::Missing => (true, Vec::new()),
            InitialFile::Bytes(bytes) => (false, bytes),
        };
        let diff = diff::unified(&path, &path, self.current.bytes(), &after, SETUP_DIFF_BYTES_MAX);
        let seen = self.current.without_proof();
        if is_gone {
            change.remove(seen);
        } else {
            change.put(seen, after, None, CallerKnowledge::ChangedLines);
        }
        InitFile { path, diff }
    }
}
