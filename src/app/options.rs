//! Options that every tool takes besides its own fields, from flags, the environment and JSON.

use std::env::VarError;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgMatches, Args, FromArgMatches};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::engine::policy::Policy;
use crate::engine::policy::settings::Permission;
use crate::engine::policy::sources::Sources;
use crate::engine::store::sandboxes;
use crate::engine::store::session::SessionId;
use crate::engine::workspace::stat_cache::StatCache;
use crate::engine::workspace::{Workspace, nearest_root};
use crate::error::{Error, ErrorKind, Vocabulary};
use crate::limits::CLIENT_DEPTH_MAX;
use crate::platform::process::Process;
use crate::request;
use crate::sha256::Sha256;
use crate::tools::{COMMON_FIELDS, CommonField, Scope, ToolEntry};

/// Environment variables that name the session; the first that is set wins.
const SESSION_VARIABLES: [&str; 3] = ["LBX_SESSION", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"];

/// Format of tool results over MCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Results {
    /// Structured content, and the same JSON as text
    #[default]
    Json,
    /// Text only, as --text prints it
    Text,
}

/// Settings of a server from the command line.
#[derive(Debug, Clone, Default, Args)]
pub struct Settings {
    /// Format of results.
    #[arg(
        long,
        value_name = "FORM",
        value_enum,
        default_value = "json",
        help = "What a result holds: structured content and the same JSON as text, or the text of --text"
    )]
    pub results: Results,
    /// Tools to serve: all, core, read-only, or names separated by commas [default: all]
    #[arg(long, value_name = "WHICH")]
    pub tools: Option<String>,
    /// Show each change to the person at the client, and make it only if they agree (elicitation)
    #[arg(long)]
    pub confirm: bool,
    /// Sandboxes that calls may name where --workspace or --sandbox settles the workspace; without it, none
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub sandboxes: Vec<String>,
    /// Serve fork and merge too, and let calls name the workspace's forks as their sandbox
    #[arg(long)]
    pub forks: bool,
}

/// Options of every tool, from flags and the environment.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of every tool")]
pub struct Options {
    /// Workspace root [env: `LBX_WORKSPACE`] [default: the nearest parent folder with .lbx or .git]
    #[arg(long, global = true, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Session that groups reads and changes; NAME@parent is one per client process [env: `LBX_SESSION`,
    /// `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]
    #[arg(long, global = true, value_name = "ID")]
    pub session: Option<String>,
    /// Named workspace [env: `LBX_SANDBOX`]
    #[arg(long, global = true, value_name = "NAME")]
    pub sandbox: Option<String>,
    /// Fail if a change cannot be recorded as a snapshot
    #[arg(long, global = true)]
    pub require_snapshot: bool,
    /// Tools of a model family instead of lbx's own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, mcp-filesystem, q [env: `LBX_DIALECT`]
    #[arg(long, global = true, value_name = "NAME")]
    pub dialect: Option<String>,
    /// Policy setting for this call, such as gate=warn; can be repeated; see `lbx config`
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Whole request as JSON: the text itself, - for stdin, or @FILE
    #[arg(long, global = true, value_name = "JSON", allow_hyphen_values = true)]
    pub json: Option<OsString>,
    /// Print only the payload; everything else goes to stderr [env: `LBX_OUTPUT=text`]
    #[arg(long, short = 't', global = true)]
    pub text: bool,
    /// End list entries with NUL instead of a newline (with --text)
    #[arg(long, short = '0', global = true)]
    pub null: bool,
    /// Indent the JSON
    #[arg(long, global = true)]
    pub pretty: bool,
    /// Also set the exit status: 1 if grep or glob found nothing, diff a difference or doctor a problem; bash exits as
    /// the command did
    #[arg(long, global = true)]
    pub exit_status: bool,
    /// True if the session comes from the call, not from the environment.
    #[arg(skip)]
    pub is_session_named: bool,
    /// Sandboxes that the field of a call may name; `None` for any.
    #[arg(skip)]
    pub sandboxes: Option<Vec<String>>,
    /// True if the field of a call may name any fork of the served workspace.
    #[arg(skip)]
    pub serves_forks: bool,
    /// Sources of the policy, except the workspace's own file.
    #[arg(skip)]
    pub policy: Sources,
    /// True if the environment asks for JSON, even from a tool that returns text.
    #[arg(skip)]
    pub json_output: bool,
    /// True if a person at a terminal reads the output.
    #[arg(skip)]
    pub person: bool,
    /// Client that makes the call, if it gave its name.
    #[arg(skip)]
    pub harness: Option<String>,
    /// Names of the model family whose tools call lbx's; line numbers then refer to the current file.
    #[arg(skip)]
    pub words: Option<Arc<Vocabulary>>,
    /// Cache of file metadata for later calls of this process.
    #[arg(skip)]
    pub kept: Arc<StatCache>,
}

impl Options {
    /// Returns the options in parsed arguments.
    ///
    /// # Errors
    /// Returns `invalid_request`.
    pub fn from_matches(matches: &ArgMatches) -> Result<Self, Error> {
        // The flags stay among the matches: a tool may use one as a field of its own.
        let flags = Self::from_arg_matches(matches).map_err(|error| request::flag_error(&error))?;
        let form = std::env::var_os("LBX_OUTPUT").filter(|form| !form.is_empty());
        if let Some(form) = form.filter(|form| *form != "text" && *form != "json") {
            let message = format!("LBX_OUTPUT is {:?}: expected text or json", form.to_string_lossy());
            return Err(Error::invalid(message).suggest("Set LBX_OUTPUT to text or json, or unset it."));
        }
        // A sandbox or session that cannot be read is not one that is not set.
        let names = SESSION_VARIABLES.iter().chain(&["LBX_SANDBOX", "LBX_DIALECT"]);
        if let Some(name) =
            names.copied().find(|name| std::env::var(name).is_err_and(|error| error != VarError::NotPresent))
        {
            return Err(Error::invalid(format!("{name} is not valid UTF-8"))
                .suggest(format!("Set {name} again, or unset it.")));
        }
        Ok(flags.with_environment())
    }

    /// Returns the options needed to report an error in arguments that could not be parsed.
    pub fn from_arguments(arguments: &[OsString]) -> Self {
        let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
        let text = has("--text") || has("-t");
        let exit_status = has("--exit-status");
        Self { text, pretty: has("--pretty"), exit_status, ..Self::default() }.with_environment()
    }

    /// Returns the options for a tool, which may have its own output format.
    #[must_use]
    pub fn for_tool(&self, tool: &ToolEntry) -> Self {
        let text = self.text || (tool.text_by_default && !self.json_output && !self.pretty);
        Self { text, ..self.clone() }
    }

    /// Adds what the environment says where there is no flag.
    fn with_environment(mut self) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        self.is_session_named = self.session.is_some();
        // The user may resume the session of an ended client: the variable overrides what `init` wrote.
        let adopted = || variable(SESSION_VARIABLES[0]);
        let session = match self.session.take() {
            Some(session) if is_of_client(&session) => adopted().or(Some(session)),
            Some(session) => Some(session),
            None => SESSION_VARIABLES.iter().find_map(|name| variable(name)),
        };
        self.session = session.map(resolved);
        let named = || std::env::var_os("LBX_WORKSPACE").filter(|it| !it.is_empty()).map(PathBuf::from);
        self.workspace = self.workspace.or_else(named);
        self.sandbox = self.sandbox.or_else(|| variable("LBX_SANDBOX"));
        self.dialect = self.dialect.or_else(|| variable("LBX_DIALECT"));
        self.policy = Sources::of_process(std::mem::take(&mut self.set));
        self.json_output = variable("LBX_OUTPUT").is_some_and(|form| form == "json");
        self.text |= variable("LBX_OUTPUT").is_some_and(|form| form == "text");
        self
    }

    /// Returns the options for a process that makes many calls.
    #[must_use]
    pub fn for_many_calls(self) -> Self {
        Self { kept: StatCache::lasting(), ..self }
    }

    /// Returns the options for the tools of a model family.
    #[must_use]
    pub fn for_family(self, family: Vocabulary) -> Self {
        Self { words: Some(Arc::new(family)), ..self }
    }

    /// Takes the common fields out of a request.
    ///
    /// # Errors
    /// Returns `invalid_request` if a field has the wrong type or is given twice.
    pub fn with_fields_of(&self, request: &mut Value) -> Result<Self, Error> {
        self.with_common_fields_of(request, |_| true)
    }

    /// Takes the common fields out of a request to a server with a fixed workspace. The other fields stay, and are then
    /// unknown.
    ///
    /// # Errors
    /// Fails as [`Self::with_fields_of`] does.
    pub fn with_call_fields_of(&self, request: &mut Value) -> Result<Self, Error> {
        self.with_common_fields_of(request, |field| field.scope != Scope::Process)
    }

    /// Takes the selected common fields out of a request.
    fn with_common_fields_of(
        &self,
        request: &mut Value,
        wanted: fn(&CommonField) -> bool,
    ) -> Result<Self, Error> {
        let mut options = self.clone();
        let Some(object) = request.as_object_mut() else {
            return Ok(options);
        };
        let names: Vec<String> = object.keys().cloned().collect();
        let mut taken: Vec<String> = Vec::new();
        for given in names {
            let name = request::snake_case(&given);
            if !COMMON_FIELDS.iter().any(|field| field.name == name && wanted(field)) {
                continue;
            }
            // An empty value says nothing, as in other fields.
            let value = object.remove(&given).filter(|value| value != "").unwrap_or_default();
            if taken.contains(&name) {
                return Err(Error::invalid(format!("field `{name}` is given twice")).detail("field", name));
            }
            match name.as_str() {
                "workspace" => {
                    options.workspace =
                        field_of::<String>(&name, "string", value)?.map(PathBuf::from).or(options.workspace);
                }
                "session" => {
                    options.is_session_named |= !value.is_null();
                    options.session = field_of::<String>(&name, "string", value)?.or(options.session);
                }
                "sandbox" => {
                    let named = field_of::<String>(&name, "string", value)?.filter(|named| !named.is_empty());
                    options.must_serve(named.as_deref())?;
                    options.sandbox = named.or(options.sandbox);
                }
                _ => options.require_snapshot |= field_of(&name, "boolean", value)?.unwrap_or(false),
            }
            taken.push(name);
        }
        Ok(options)
    }

    /// Rejects a sandbox that a call over MCP may not name.
    fn must_serve(&self, named: Option<&str>) -> Result<(), Error> {
        let is_it =
            |known: &String| sandboxes::slug(known).ok() == named.and_then(|it| sandboxes::slug(it).ok());
        match (&self.sandboxes, named) {
            (Some(served), Some(named)) if !served.iter().any(is_it) => {
                let message = format!("this server serves one workspace, and not the sandbox {named}");
                Err(Error::new(ErrorKind::SandboxNotFound, message)
                    .suggest("Leave `sandbox` out. The user may serve it: `lbx mcp --sandboxes NAMES`.")
                    .detail("field", "sandbox"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the session ID.
    ///
    /// # Errors
    /// Returns `invalid_request` if the name is not valid.
    pub fn session_id(&self) -> Result<SessionId, Error> {
        self.session.as_deref().map_or_else(|| Ok(SessionId::default()), str::parse)
    }

    /// Opens the named workspace, else the workspace of the current folder.
    ///
    /// # Errors
    /// Returns `sandbox_not_found`, `not_found`, or the OS error.
    pub fn open_workspace(&self) -> Result<Workspace, Error> {
        let sandbox = self.sandbox.as_deref().map(sandboxes::find).transpose()?;
        let current = current_folder()?;
        let opened = match sandbox {
            Some((name, known)) if self.workspace.is_none() => {
                known.must_be_a_folder(&name)?;
                Workspace::discover(Some(Path::new(&known.root)), &current)
            }
            _ => Workspace::discover(self.workspace.as_deref(), &current),
        };
        let opened = opened?.keeping(&self.kept);
        if self.workspace.is_some()
            && let Some(here) = nearest_root(&current)
        {
            let here = Workspace::open(here)?;
            if opened.is_another_than(&here) {
                Policy::load(&here, &self.policy)?.must_permit_workspace(&opened)?;
            }
        }
        Ok(opened)
    }

    /// Rejects texts from files outside the workspace, unless the user's own policy file allows it.
    ///
    /// # Errors
    /// Returns `outside_workspace`, or fails as [`Self::open_workspace`] does.
    #[expect(clippy::disallowed_methods, reason = "only asks where files that the caller names lie")]
    pub fn must_permit_content(&self, files: &[PathBuf]) -> Result<(), Error> {
        if files.is_empty() {
            return Ok(());
        }
        // A sandbox may be a container, but the files are on this side.
        let workspace = Self { sandbox: None, ..self.clone() }.open_any_folder(&[])?;
        for file in files {
            let is_inside = std::fs::canonicalize(file).is_ok_and(|file| file.starts_with(workspace.root()));
            if !is_inside && !is_descriptor(file) {
                let message = format!("{} lies outside the workspace", file.display());
                let policy = Policy::load(&workspace, &self.policy)?;
                policy.must_permit(Permission::Content, ErrorKind::OutsideWorkspace, message)?;
            }
        }
        Ok(())
    }

    /// Opens the workspace for a tool that needs no project: without a named workspace, uses the project that one of the
    /// variables names, else the current folder.
    ///
    /// # Errors
    /// Fails as [`Self::open_workspace`] does.
    pub fn open_any_folder(&self, variables: &[&str]) -> Result<Workspace, Error> {
        if self.workspace.is_some() || self.sandbox.is_some() {
            return self.open_workspace();
        }
        let root = project_root(variables).map_or_else(implied_root, Ok)?;
        Ok(Workspace::open(&root)?.keeping(&self.kept))
    }

    /// Returns true if the environment asks for the payload only.
    pub fn is_text_by_environment(&self) -> bool {
        std::env::var_os("LBX_OUTPUT").is_some_and(|form| form == "text")
    }
}

/// Returns true for a file that the caller has already opened: `@/dev/fd/3`, and nothing that such a path leads to.
fn is_descriptor(file: &Path) -> bool {
    let number = file.to_str().and_then(|file| file.strip_prefix("/dev/fd/"));
    file == Path::new("/dev/stdin")
        || number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Returns the working folder of a call that names no workspace.
///
/// # Errors
/// Returns the OS error.
pub fn implied_root() -> Result<PathBuf, Error> {
    let current = current_folder()?;
    Ok(nearest_root(&current).map_or_else(|| current.clone(), Path::to_owned))
}

/// Returns the root of the project that one of the variables names, if the current folder is in it: a client may start lbx
/// in the folder of its last command, which may be a nested repository. A linked worktree is a workspace of its own.
#[expect(clippy::disallowed_methods, reason = "the root is found before it can be opened")]
fn project_root(variables: &[&str]) -> Option<PathBuf> {
    let named = variables.iter().find_map(|name| std::env::var_os(name).filter(|it| !it.is_empty()))?;
    let (project, current) = (std::fs::canonicalize(named).ok()?, current_folder().ok()?);
    let is_linked = |root: &Path| {
        std::fs::read_to_string(root.join(".git")).is_ok_and(|link| link.contains("/worktrees/"))
    };
    let is_its = current.starts_with(&project) && !nearest_root(&current).is_some_and(is_linked);
    is_its.then(|| nearest_root(&project).unwrap_or(&project).to_owned())
}

/// Returns the current folder.
fn current_folder() -> Result<PathBuf, Error> {
    std::env::current_dir().map_err(|source| Error::io("find", "the current folder", source))
}

/// Returns a common field as its JSON type; `None` for null.
fn field_of<T: DeserializeOwned>(name: &str, kind: &str, value: Value) -> Result<Option<T>, Error> {
    if value.is_null() {
        return Ok(None);
    }
    let value = request::in_form(value, &json!({ "type": kind }), name)?;
    serde_json::from_value(value).map(Some).map_err(|error| Error::internal(error.to_string()))
}

/// Suffix of a session name that is replaced by the client's process.
const MARK: &str = "@parent";
/// Programs that only start other programs, so that they are not the client.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox"];
/// Hexadecimal digits that identify a process.
const DIGITS: usize = 8;

/// Returns the session for a text: in `NAME@parent`, digits for the client's process replace the suffix.
pub fn resolved(session: String) -> String {
    match session.strip_suffix(MARK) {
        Some(name) if !name.is_empty() => format!("{name}-{}", digits(&client())),
        _ => session,
    }
}

/// Returns true if a text names the session of a client process.
pub fn is_of_client(session: &str) -> bool {
    session.ends_with(MARK)
}

/// Returns the nearest parent process that is not a shell; the direct parent if all are shells.
fn client() -> (u32, String) {
    let parent = std::os::unix::process::parent_id();
    let above = std::iter::successors(Process::of(parent), |process| Process::of(process.parent));
    let mut programs =
        above.take(CLIENT_DEPTH_MAX).filter(|process| !SHELLS.contains(&process.name.as_str()));
    programs.next().map_or_else(
        || (parent, Process::of(parent).map(|process| process.start).unwrap_or_default()),
        |process| (process.id, process.start),
    )
}

/// Returns digits that identify a process across all boots of this machine.
#[expect(clippy::disallowed_methods, reason = "/proc")]
fn digits((id, start): &(u32, String)) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut digits = Sha256::of(format!("{boot}{id} {start}").as_bytes()).to_hex();
    digits.truncate(DIGITS);
    digits
}
