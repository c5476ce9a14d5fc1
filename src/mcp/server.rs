//! Handles the requests of a client: lists the tools, and calls them.

use std::sync::{Arc, OnceLock};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CompletionInfo,
    CustomRequest, CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::call::{Target, ToolCall};
use super::confirm::{Person, Questions};
use super::logging::Logging;
use super::message::Flaw;
use super::root::Root;
use super::turn::{Access, AccessByTool};
use super::wanted::{self, Wanted};
use super::{answer, declare, library};
use crate::app::options::{Options, Results, Settings};
use crate::control::Control;
use crate::dialect::Dialect;
use crate::dialect::client::LbxClient;
use crate::engine::CallNotes;
use crate::engine::sandbox::caches;
use crate::engine::store::session::SessionId;
use crate::engine::store::state::State;
use crate::engine::workspace::Workspace;
use crate::request::quoted;
use crate::tools::bash::Bash;
use crate::tools::read::Read;
use crate::tools::{Effect, Tool as _};

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
Fields not listed: max_bytes and session in every tool; dry_run, diff and why (the reason, recorded) in every change.";

/// Instructions for a model family's tools.
const DIALECT_INSTRUCTIONS: &str = "\
Use these tools for files and commands in this workspace instead of built-in ones.\n\
Read a file before you edit, overwrite or patch it: a change is refused unless this session has seen the \
current content. Every change is atomic, backed up, undoable (`lbx undo`), and a commit on the branch \
lbx-snapshots.";

/// Prefix of a session that only one connection has.
pub const OWN_SESSION: &str = "mcp-";

/// The tools of a server.
pub struct ToolSet {
    /// Model family of the tools; `None` for lbx's own.
    pub dialect: Option<&'static Dialect>,
    /// Filter of the tools.
    pub wanted: Wanted,
}

impl ToolSet {
    /// Returns a tool by name.
    fn find(&self, name: &str) -> Option<Target> {
        match self.dialect {
            Some(dialect) => {
                let tool = dialect.tool(name).filter(|tool| self.wanted.has_foreign(tool))?;
                Some(Target::Foreign(dialect, tool))
            }
            None => wanted::find(name).filter(|tool| self.wanted.has(tool)).map(Target::Native),
        }
    }

    /// Returns the effect of a tool, which decides the order of calls.
    fn access_of(&self, name: &str) -> Access {
        let (effect, runs_commands, reads_files) = match self.find(name) {
            Some(Target::Native(tool)) => (tool.effect, tool.name == Bash::NAME, tool.name == Read::NAME),
            Some(Target::Foreign(_, tool)) => (tool.effect, tool.runs_commands, tool.reads_files),
            None => return Access::Other,
        };
        match effect {
            _ if runs_commands => Access::Other,
            Effect::Reads if reads_files => Access::Reads,
            Effect::Reads => Access::Other,
            Effect::Adds | Effect::Writes => Access::Changes,
        }
    }

    /// Returns the names of all tools.
    fn names(&self) -> Vec<&'static str> {
        match self.dialect {
            Some(dialect) => {
                let tools = dialect.tools.iter().filter(|tool| self.wanted.has_foreign(tool));
                tools.map(|tool| tool.name).collect()
            }
            None => wanted::served().filter(|tool| self.wanted.has(tool)).map(|tool| tool.name).collect(),
        }
    }

    /// Returns the response to `tools/list`.
    fn listed(&self, results: Results) -> Vec<Tool> {
        match self.dialect {
            Some(dialect) => declare::foreign_tools(&self.wanted, dialect),
            None => declare::tools(&self.wanted, results),
        }
    }
}

/// Serves one client.
pub struct Server {
    /// Workspace root.
    root: Root,
    /// Session and other options of the command line.
    options: Options,
    /// Form of results, and confirmation of changes.
    settings: Settings,
    /// Open questions to a person.
    questions: Questions,
    /// Log level that the client wants.
    logging: Logging,
    /// Tools of the server.
    served: Arc<ToolSet>,
    /// Response to `tools/list`, made at the first request.
    tools: OnceLock<Vec<Tool>>,
}

impl Server {
    /// Creates a server for one workspace.
    #[must_use]
    pub fn new(root: Root, options: Options, settings: &Settings, served: ToolSet) -> Self {
        let (settings, questions, logging) = (settings.clone(), Questions::default(), Logging::default());
        let served = Arc::new(served);
        Self { root, options, settings, questions, logging, served, tools: OnceLock::new() }
    }

    /// Returns the effects of the tools, which decide the order of calls. If a person is asked before each change, no
    /// change waits for another: the person may take long.
    #[must_use]
    pub fn accesses(&self) -> AccessByTool {
        let (served, confirms) = (Arc::clone(&self.served), self.settings.confirm);
        Arc::new(move |name| if confirms { Access::Other } else { served.access_of(name) })
    }

    /// Returns the error for a tool that clients do not see.
    fn unknown_tool(&self, name: &str) -> ErrorData {
        let names = self.served.names().join(", ");
        let name = quoted(name);
        ErrorData::invalid_params(format!("unknown tool {name:?} (there are: {names})"), None)
    }
}

impl Server {
    /// Returns the options of a call, with the client's name for itself.
    fn options_of(&self, context: &RequestContext<RoleServer>) -> Options {
        Options { harness: context.client_info().map(|client| client.name), ..self.options.clone() }
    }

    /// Runs a function with native calls, on a thread of its own.
    async fn with_native<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl FnOnce(&mut LbxClient<'_>) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let (root, options) = (self.root.of(context).await, self.options_of(context));
        let control = Control::default();
        let listening = control.clone();
        let mut running = tokio::task::spawn_blocking(move || {
            let open = || Ok(root.open()?.keeping(&options.kept));
            work(&mut LbxClient::new(&open, &options, listening))
        });
        let done = tokio::select! {
            done = &mut running => done,
            () = context.ct.cancelled() => {
                control.cancel();
                running.await
            }
        };
        done.map_err(|lost| ErrorData::internal_error(format!("the request was lost: {lost}"), None))
    }
}

/// Returns the capabilities of the server.
#[expect(deprecated, reason = "the newest revision has no logging; clients of the others have")]
fn capabilities() -> ServerCapabilities {
    ServerCapabilities::builder()
        .enable_logging()
        .enable_completions()
        .enable_prompts()
        .enable_resources()
        .enable_tools()
        .build()
}

impl Drop for Server {
    /// Removes the `/tmp` of the session that only this connection has.
    fn drop(&mut self) {
        let own = self.options.session.as_deref().filter(|name| name.starts_with(OWN_SESSION));
        let Some(session) = own.and_then(|name| name.parse::<SessionId>().ok()) else { return };
        let folder = self.root.last().to_owned();
        if let Ok(workspace) = Workspace::discover(Some(&folder), &folder)
            && let Ok(Some(state)) = State::find(&workspace)
        {
            caches::remove_tmp(&state, &session);
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(capabilities())
            .with_server_info(Implementation::new("lbx", env!("CARGO_PKG_VERSION")))
            .with_instructions(if self.served.dialect.is_some() {
                DIALECT_INSTRUCTIONS
            } else {
                INSTRUCTIONS
            })
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        on_the_only_page(page)?;
        let tools = self.tools.get_or_init(|| self.served.listed(self.settings.results));
        Ok(ListToolsResult::with_all_items(tools.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let target = self.served.find(&request.name).ok_or_else(|| self.unknown_tool(&request.name))?;
        if let Some(Flaw(error)) = context.extensions.get() {
            return Ok(answer::refused(error, &CallNotes::default(), self.settings.results).into());
        }
        let person = self.settings.confirm.then(|| Person::at(&context, &request, &self.questions));
        let root = self.root.of(&context).await;
        let has_warning = root.warning.is_some();
        let call = ToolCall {
            target,
            arguments: request.arguments.unwrap_or_default(),
            root,
            options: self.options_of(&context),
            results: self.settings.results,
            ask: person.as_ref().map(|person| Arc::clone(&person.ask)),
        };
        let result = call.run(&context).await;
        if let Some(question) = person.and_then(|person| person.question()) {
            return Ok(question.into());
        }
        // Nobody reads the response of a cancelled call.
        if has_warning && !context.ct.is_cancelled() {
            self.root.set_told().await;
        }
        self.logging.tell(&context, &request.name, &result).await;
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        on_the_only_page(page)?;
        Ok(ListResourcesResult::with_all_items(library::resources()))
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        on_the_only_page(page)?;
        Ok(ListResourceTemplatesResult::with_all_items(library::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = self.with_native(&context, move |lbx| library::read(lbx, &request.uri)).await??;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        on_the_only_page(page)?;
        Ok(ListPromptsResult::with_all_items(library::prompts()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let prompt = self.with_native(&context, move |lbx| {
            let from = request.arguments.as_ref().and_then(|given| given.get("from")?.as_str());
            library::prompt(lbx, &request.name, from)
        });
        Ok(prompt.await??.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let argument = request.argument;
        // The person is still typing: an unknown argument gets no completions, and no error.
        if !library::takes(&request.r#ref, &argument.name) {
            return Ok(CompleteResult::new(CompletionInfo::default()));
        }
        let found = self
            .with_native(&context, move |lbx| library::completions(lbx, &argument.name, &argument.value))
            .await?;
        Ok(CompleteResult::new(found))
    }

    #[expect(deprecated, reason = "the newest revision has no logging; clients of the others have")]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.logging.set(request.level);
        Ok(())
    }

    async fn on_roots_list_changed(&self, _context: NotificationContext<RoleServer>) {
        self.root.forget().await;
    }

    /// Handles requests with invalid parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method.as_str();
        if let Some((_, wanted)) = PARAMETERS.iter().find(|(known, _)| *known == method) {
            return Err(ErrorData::invalid_params(format!("{method} wants {wanted}"), None));
        }
        let message = format!("no method {}", quoted(method));
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }
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
    ("prompts/get", "`name`, a text, and `arguments`, a JSON object"),
    ("completion/complete", "`ref` with its `type`, and `argument` with `name` and `value`"),
    ("logging/setLevel", "`level`: debug, info, notice, warning, error, critical, alert or emergency"),
];

/// Fails if there is a cursor: every list is one page, and no cursor was given out.
fn on_the_only_page(page: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match page.and_then(|page| page.cursor).filter(|cursor| !cursor.is_empty()) {
        Some(cursor) => {
            let message = format!("no such cursor: {:?}; the list is one page", quoted(&cursor));
            Err(ErrorData::invalid_params(message, None))
        }
        None => Ok(()),
    }
}
