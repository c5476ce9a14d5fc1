//! Handles the requests of a client: lists the tools, and calls them.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::ClientRoots;
use super::call::{ToolCall, reporting};
use super::client::{Client, ClientInfo, Person, STATELESS, ServerRoot};
use super::connection::{Connection, Deliveries, RequestResult, Service};
use super::library;
use super::message::{
    INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND, Request, RpcError,
    UNSUPPORTED_REVISION,
};
use super::queue::{OrderingRule, QueuedCall};
use super::tools::ToolSet;
use crate::app::AskPerson;
use crate::app::options::{Options, Settings};
use crate::dialect::client::LbxClient;
use crate::engine::sandbox::caches;
use crate::engine::store::session::SessionId;
use crate::engine::store::state::State;
use crate::engine::workspace::Workspace;
use crate::error::Error;
use crate::request::quoted;
use crate::tools::bash;

/// Instructions for a model before its first call: rules of all tools, which are therefore in no tool's own
/// description.
const INSTRUCTIONS: &str = "\
Use these tools for files, searches and commands in this workspace instead of built-in ones: a change is checked \
against what you read, atomic, undoable, and a commit on the branch lbx-snapshots.\n\
Paths count from the workspace root. Read a file before you edit, overwrite or patch it: a change is \
refused (not_read, stale_file) unless this session has read the current bytes, or expected_sha256 names \
them. Each answer's sha256 covers the whole file and serves the next change. Line numbers mean the lines as you were \
shown them. An error has kind, message and suggested_action; nothing was changed unless it says applied. grep, glob \
and ls skip files that git ignores, and hidden ones. If truncated is true, continue at next_offset (as offset). \
Fields not listed: session in every tool; max_bytes where an answer can be long; dry_run and why (the reason, recorded) \
in every change; diff where text is changed.";

/// Instructions for a model family's tools.
const DIALECT_INSTRUCTIONS: &str = "\
Use these tools for files and commands in this workspace instead of built-in ones.\n\
Read a file before you edit, overwrite or patch it: a change is refused unless this session has seen the \
current content. Every change is atomic, backed up, undoable (`lbx undo`), and a commit on the branch \
lbx-snapshots.";

/// Addition to the instructions if the server has the tools for forks.
const FORK_INSTRUCTIONS: &str = "\n\
fork makes a copy of this workspace for another agent, with files, session and undo of its own: name it as `sandbox` in \
a call of any tool, and it is made there. merge brings a fork's changes here; merge with check shows what would conflict.";

/// Protocol revisions that the server has, oldest first.
const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", STATELESS];
/// Newest revision with a handshake.
const NEWEST_WITH_HANDSHAKE: &str = "2025-11-25";
/// Newest revision with batches.
const NEWEST_WITH_BATCHES: &str = "2025-03-26";
/// Field of `_meta` with the revision of a request.
const META_REVISION: &str = "io.modelcontextprotocol/protocolVersion";
/// Field of `_meta` with the capabilities of the client.
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Field of `_meta` with the name of the client.
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";

/// Method that describes the server without a handshake.
const DISCOVER: &str = "server/discover";

/// Name and version of a client.
#[derive(Deserialize)]
struct Implementation {
    /// The name.
    name: String,
    /// The version, which must be there.
    #[serde(rename = "version")]
    _version: String,
}

/// Returns the name and version of the server.
fn server_info() -> Value {
    json!({ "name": "lbx", "version": env!("CARGO_PKG_VERSION") })
}

/// The client's way of opening the connection.
enum Lifecycle {
    /// None so far.
    Unopened,
    /// A handshake.
    Handshake(ClientInfo),
    /// Requests that describe the client themselves.
    Stateless,
}

/// Severities of a log message, the lowest first: a call that succeeds is logged as `debug`, one that fails as `warning`.
static LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Serves one client.
pub struct Server {
    /// Workspace root.
    root: ServerRoot,
    /// Session and other options of the command line.
    options: Options,
    /// Session that only this connection has, if the command line names none.
    own_session: Option<SessionId>,
    /// Form of results, and confirmation of changes.
    settings: Settings,
    /// Number of open questions to a person.
    questions: AtomicUsize,
    /// Severities of log messages that the client wants; none until it sets the lowest.
    log_levels: Mutex<&'static [&'static str]>,
    /// Tools of the server.
    tools: ToolSet,
    /// The client's way of opening the connection.
    lifecycle: Mutex<Lifecycle>,
}

impl Server {
    /// Creates a server for one workspace.
    pub fn new(
        root: ServerRoot,
        (options, own_session): (Options, Option<SessionId>),
        settings: Settings,
        tools: ToolSet,
    ) -> Self {
        let (questions, log_levels) = (AtomicUsize::new(0), Mutex::default());
        let lifecycle = Mutex::new(Lifecycle::Unopened);
        Self { root, options, own_session, settings, questions, log_levels, tools, lifecycle }
    }

    /// Ends the jobs of the session that only this connection has, and removes its `/tmp`.
    pub fn end_session(&self) {
        let Some(session) = &self.own_session else { return };
        for folder in self.root.used() {
            if let Ok(workspace) = Workspace::discover(Some(&folder), &folder)
                && let Ok(Some(state)) = State::find(&workspace)
            {
                bash::end_jobs(&workspace, session);
                caches::remove_tmp(&state, session);
            }
        }
    }

    /// Locks the lifecycle.
    fn lifecycle(&self) -> MutexGuard<'_, Lifecycle> {
        self.lifecycle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the description of the server, in a handshake or on request.
    fn description(&self) -> Map<String, Value> {
        let instructions = if self.tools.dialect.is_some() { DIALECT_INSTRUCTIONS } else { INSTRUCTIONS };
        let forks = if self.tools.serves_forks { FORK_INSTRUCTIONS } else { "" };
        let capabilities = ["completions", "logging", "prompts", "resources", "tools"];
        let capabilities: Map<_, _> =
            capabilities.map(|name| (name.to_owned(), json!({}))).into_iter().collect();
        Map::from_iter([
            ("capabilities".to_owned(), capabilities.into()),
            ("instructions".to_owned(), [instructions, forks].concat().into()),
        ])
    }

    /// Answers a handshake.
    fn initialize(&self, request: &Request) -> RequestResult {
        /// Parameters of a handshake.
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct InitializeParams {
            protocol_version: String,
            capabilities: Map<String, Value>,
            client_info: Implementation,
        }
        let hello: InitializeParams = parameters(&request.method, request.params.clone())?;
        let is_known = REVISIONS.contains(&hello.protocol_version.as_str());
        let revision = Some(hello.protocol_version).filter(|wanted| is_known && wanted.as_str() < STATELESS);
        let revision = revision.unwrap_or_else(|| NEWEST_WITH_HANDSHAKE.to_owned());
        let mut answer = self.description();
        answer.insert("protocolVersion".to_owned(), revision.clone().into());
        answer.insert("serverInfo".to_owned(), server_info());
        let name = Some(hello.client_info.name);
        *self.lifecycle() =
            Lifecycle::Handshake(ClientInfo { name, capabilities: hello.capabilities, revision });
        Ok(answer.into())
    }

    /// Answers a ping, which only the stateless revision does not have.
    fn ping(&self, request: &Request) -> RequestResult {
        if !matches!(*self.lifecycle(), Lifecycle::Unopened) {
            let caller = self.caller(request)?;
            if caller.is_stateless() || matches!(*self.lifecycle(), Lifecycle::Stateless) {
                return Err(no_method(&request.method));
            }
        }
        Ok(json!({}))
    }

    /// Returns the description of the client that sends a request: by its handshake, or by the request itself, which may
    /// open the connection so.
    ///
    /// # Errors
    /// Fails if the server does not have the revision, or the request must describe the client and does not.
    fn caller(&self, request: &Request) -> Result<ClientInfo, RpcError> {
        let revision = request.meta.get(META_REVISION).and_then(Value::as_str);
        if let Some(revision) = revision.filter(|revision| !REVISIONS.contains(revision)) {
            let data = json!({ "requested": revision, "supported": REVISIONS });
            return Err(RpcError::new(UNSUPPORTED_REVISION, "Unsupported protocol version").with_data(data));
        }
        let capabilities = request.meta.get(META_CAPABILITIES).and_then(Value::as_object);
        let mut lifecycle = self.lifecycle();
        let is_discovery = request.method == DISCOVER;
        let greeted = match &*lifecycle {
            Lifecycle::Handshake(caller) => Some(caller.clone()),
            Lifecycle::Unopened | Lifecycle::Stateless => None,
        };
        if greeted.is_none() || is_discovery || revision.is_some_and(|revision| revision >= STATELESS) {
            let given = [(META_REVISION, revision.is_some()), (META_CAPABILITIES, capabilities.is_some())];
            let missing: Vec<&str> =
                given.iter().filter(|(_, is_given)| !is_given).map(|(name, _)| *name).collect();
            if !missing.is_empty() {
                let missing = missing.join(", ");
                let message = format!("request _meta is missing or has malformed required fields: {missing}");
                return Err(RpcError::new(INVALID_PARAMS, message));
            }
        }
        if matches!(*lifecycle, Lifecycle::Unopened) && !is_discovery {
            *lifecycle = Lifecycle::Stateless;
        }
        drop(lifecycle);
        let info = request.meta.get(META_CLIENT).and_then(|info| Implementation::deserialize(info).ok());
        let greeted = greeted.unwrap_or_default();
        Ok(ClientInfo {
            name: info.map(|info| info.name).or(greeted.name),
            capabilities: capabilities.cloned().unwrap_or(greeted.capabilities),
            revision: revision.map_or(greeted.revision, str::to_owned),
        })
    }

    /// Returns the result of a request.
    fn result(&self, client: &Client<'_>, request: Request) -> RequestResult {
        let Request { method, params, .. } = request;
        let page = match method.as_str() {
            "tools/list" => Some(("tools", self.tools.declared(self.settings.results))),
            "resources/list" => Some(("resources", library::resources())),
            "resources/templates/list" => Some(("resourceTemplates", library::templates())),
            "prompts/list" => Some(("prompts", library::prompts())),
            _ => None,
        };
        if let Some((field, list)) = page {
            check_cursor(&method, params)?;
            return Ok(json!({ field: list }));
        }
        match method.as_str() {
            DISCOVER => {
                let mut answer = self.description();
                answer.insert("supportedVersions".to_owned(), json!(REVISIONS));
                answer.insert(
                    "_meta".to_owned(),
                    json!({ "io.modelcontextprotocol/serverInfo": server_info() }),
                );
                Ok(answer.into())
            }
            "tools/call" => self.call_tool(client, params, request.flaw),
            _ => self.result_of_rare(client, &method, params),
        }
    }

    /// Returns the result of a request for the library, or about logging.
    fn result_of_rare(&self, client: &Client<'_>, method: &str, params: Map<String, Value>) -> RequestResult {
        /// Parameters of a resource.
        #[derive(Deserialize)]
        struct ResourceParams {
            uri: String,
        }
        /// Parameters of a prompt.
        #[derive(Deserialize)]
        struct PromptParams {
            name: String,
            arguments: Option<BTreeMap<String, String>>,
        }
        /// Parameters of a completion.
        #[derive(Deserialize)]
        struct CompletionParams {
            #[serde(rename = "ref")]
            reference: library::CompletionReference,
            argument: CompletionArgument,
        }
        /// Argument that is completed.
        #[derive(Deserialize)]
        struct CompletionArgument {
            name: String,
            value: String,
        }
        /// Parameters of the severity.
        #[derive(Deserialize)]
        struct LevelParams {
            level: String,
        }
        match method {
            "resources/read" => {
                let ResourceParams { uri } = parameters(method, params)?;
                let contents = self.with_native(client, |lbx| library::read(lbx, &uri))?;
                Ok(json!({ "contents": [contents] }))
            }
            "prompts/get" => {
                let PromptParams { name, arguments } = parameters(method, params)?;
                let arguments = arguments.unwrap_or_default();
                self.with_native(client, |lbx| library::prompt(lbx, &name, &arguments))
            }
            "completion/complete" => {
                let CompletionParams { reference, argument: CompletionArgument { name, value } } =
                    parameters(method, params)?;
                // The person is still typing: an unknown argument gets no completions, and no error.
                let completion = if library::takes(&reference, &name) {
                    self.with_native(client, |lbx| Ok(library::completions(lbx, &name, &value)))?
                } else {
                    json!({ "values": [] })
                };
                Ok(json!({ "completion": completion }))
            }
            "logging/setLevel" => {
                let LevelParams { level } = parameters(method, params)?;
                let at = LEVELS.iter().position(|known| *known == level).ok_or_else(|| misfit(method))?;
                *self.log_levels.lock().unwrap_or_else(PoisonError::into_inner) = LEVELS.split_at(at).1;
                Ok(json!({}))
            }
            _ => Err(no_method(method)),
        }
    }

    /// Returns the options of a call, with the client's name for itself.
    fn options_of(&self, client: &Client<'_>) -> Options {
        Options { harness: client.caller.name.clone(), ..self.options.clone() }
    }

    /// Runs a function with native calls, whose result the client gets.
    fn with_native<T>(
        &self,
        client: &Client<'_>,
        work: impl FnOnce(&mut LbxClient<'_>) -> Result<T, RpcError>,
    ) -> Result<T, RpcError> {
        let root = self.root.of(client).map_err(|error| RpcError::new(INTERNAL_ERROR, error.message()))?;
        let options = self.options_of(client);
        let open = || Ok(root.open()?.keeping(&options.kept));
        let mut lbx = LbxClient::new(&open, &options, client.control.clone());
        let result = work(&mut lbx);
        if result.is_ok() {
            // A result of the protocol has no place for a warning; without the marks, the next change is refused.
            let _ = lbx.count_as_read();
            client.deliveries.add(lbx.deliveries);
        }
        result
    }

    /// Calls a tool.
    fn call_tool(
        &self,
        client: &Client<'_>,
        mut params: Map<String, Value>,
        flaw: Option<Error>,
    ) -> RequestResult {
        /// Parameters of a call, except its arguments.
        #[derive(Deserialize)]
        struct CallParams {
            name: String,
        }
        let results = self.settings.results;
        let person = self.settings.confirm.then(|| Person::at(client, &params, &self.questions));
        let arguments = match params.remove("arguments") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Err(misfit("tools/call")),
        };
        let CallParams { name } = parameters("tools/call", params)?;
        let target = self.tools.find(&name).ok_or_else(|| self.unknown_tool(&name))?;
        if let Some(flaw) = flaw {
            return Ok(target.refused(&flaw, results).into_value());
        }
        let root = match self.root.of(client) {
            Ok(root) => root,
            Err(error) => return Ok(target.refused(&error, results).into_value()),
        };
        let has_warning = root.warning.is_some();
        let ask = person.as_ref().map(|person| |text: &str| person.ask(text));
        let (options, control) = (self.options_of(client), client.control.clone());
        let ask = ask.as_ref().map(|ask| ask as &AskPerson<'_>);
        let (result, deliveries) = ToolCall { target, arguments, root, options, results, control, ask }.run();
        if let Some(question) = person.and_then(Person::question) {
            return Ok(question);
        }
        // Nobody reads the response of a cancelled call.
        if has_warning && !client.control.is_cancelled() {
            client.roots.clear_warning();
        }
        client.deliveries.add(deliveries);
        self.log(client.connection, &name, result.is_error);
        Ok(result.into_value())
    }

    /// Returns the error for a tool that clients do not see.
    fn unknown_tool(&self, name: &str) -> RpcError {
        let names = self.tools.names().join(", ");
        let name = quoted(name);
        RpcError::new(INVALID_PARAMS, format!("unknown tool {name:?} (there are: {names})"))
    }

    /// Logs a call that has ended, if the client asked for that.
    fn log(&self, connection: &Connection, tool: &str, is_error: bool) {
        let level = if is_error { "warning" } else { "debug" };
        if self.log_levels.lock().unwrap_or_else(PoisonError::into_inner).contains(&level) {
            let data = json!({ "tool": tool, "ok": !is_error });
            connection.notify("notifications/message", &json!({ "level": level, "data": data }));
        }
    }
}

impl Service for Server {
    fn has_batches(&self) -> bool {
        let lifecycle = self.lifecycle();
        matches!(&*lifecycle, Lifecycle::Handshake(caller) if caller.revision.as_str() <= NEWEST_WITH_BATCHES)
    }

    fn answer_at_once(&self, request: &Request) -> Option<RequestResult> {
        match request.method.as_str() {
            "initialize" => Some(self.initialize(request)),
            "ping" => Some(self.ping(request)),
            _ => None,
        }
    }

    fn ordering_rule(&self, request: &Request) -> OrderingRule {
        // A person who is asked before each change may take long: no other call waits for that.
        OrderingRule::of(request, |name| {
            if self.settings.confirm { OrderingRule::Search } else { self.tools.turn_of(name) }
        })
    }

    fn roots(&self) -> Arc<ClientRoots> {
        self.root.current()
    }

    fn answer(
        &self,
        connection: &Arc<Connection>,
        call: QueuedCall,
        deliveries: &Deliveries,
    ) -> RequestResult {
        let QueuedCall { request, control, roots, .. } = call;
        let caller = self.caller(&request)?;
        let token = request.meta.get("progressToken").filter(|token| token.is_string() || token.is_number());
        let control = match token {
            Some(token) => reporting(control, connection, token.clone()),
            None => control,
        };
        let (method, is_stateless) = (request.method.clone(), caller.is_stateless());
        let client = Client { caller, connection, control: &control, roots: &roots, deliveries };
        let answer = self.result(&client, request);
        if is_stateless { stateless_answer(&method, answer) } else { answer }
    }

    fn notice(&self, method: &str) {
        if method == "notifications/roots/list_changed" {
            self.root.forget();
        }
    }
}

/// Returns an answer as the stateless revision has it: results say that they are whole and for how long they hold, and
/// a missing resource has the code of any other wrong parameter.
fn stateless_answer(method: &str, answer: RequestResult) -> RequestResult {
    let mut result = answer.map_err(|error| match error.code {
        RESOURCE_NOT_FOUND => RpcError { code: INVALID_PARAMS, ..error },
        _ => error,
    })?;
    if let Some(fields) = result.as_object_mut().filter(|_| method != "logging/setLevel") {
        fields.entry("resultType").or_insert_with(|| "complete".into());
        if method.ends_with("/list") || ["resources/read", DISCOVER].contains(&method) {
            fields.insert("ttlMs".to_owned(), 0.into());
            fields.insert("cacheScope".to_owned(), "private".into());
        }
    }
    Ok(result)
}

/// Valid parameters of the methods that list something.
const PAGE: &str = "no parameters, or `cursor`, a text";
/// Valid parameters of other methods.
const PARAMETERS: [(&str, &str); 10] = [
    (
        "initialize",
        "`protocolVersion`, a text, `capabilities`, an object, and `clientInfo` with `name` and `version`",
    ),
    ("tools/call", "`name`, a text, and `arguments`, a JSON object"),
    ("tools/list", PAGE),
    ("resources/list", PAGE),
    ("resources/templates/list", PAGE),
    ("prompts/list", PAGE),
    ("resources/read", "`uri`, a text"),
    ("prompts/get", "`name`, a text, and `arguments`, a JSON object of texts"),
    ("completion/complete", "`ref` with its `type`, and `argument` with `name` and `value`"),
    ("logging/setLevel", "`level`: debug, info, notice, warning, error, critical, alert or emergency"),
];

/// Returns the parameters of a method.
///
/// # Errors
/// Fails if they do not fit; the message says what does.
fn parameters<P: DeserializeOwned>(method: &str, params: Map<String, Value>) -> Result<P, RpcError> {
    serde_json::from_value(Value::Object(params)).map_err(|_| misfit(method))
}

/// Returns the error for parameters that do not fit a method.
fn misfit(method: &str) -> RpcError {
    let wanted = PARAMETERS.iter().find(|(known, _)| *known == method).map_or("others", |(_, wanted)| wanted);
    RpcError::new(INVALID_PARAMS, format!("{method} wants {wanted}"))
}

/// Returns the error for a method that the server does not have.
fn no_method(method: &str) -> RpcError {
    RpcError::new(METHOD_NOT_FOUND, format!("no method {}", quoted(method)))
}

/// Fails if there is a cursor: every list is one page, and no cursor was given out.
fn check_cursor(method: &str, params: Map<String, Value>) -> Result<(), RpcError> {
    /// Parameters of a list.
    #[derive(Deserialize)]
    struct ListParams {
        cursor: Option<String>,
    }
    let ListParams { cursor } = parameters(method, params)?;
    match cursor.filter(|cursor| !cursor.is_empty()) {
        Some(cursor) => {
            let message = format!("no such cursor: {:?}; the list is one page", quoted(&cursor));
            Err(RpcError::new(INVALID_PARAMS, message))
        }
        None => Ok(()),
    }
}
