//! What a client may ask: which tools there are, and to call one.

use std::path::PathBuf;
use std::sync::OnceLock;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::call::{Target, ToolCall};
use super::message::Flaw;
use super::wanted::Wanted;
use super::{answer, declare};
use crate::app::options::{Options, Results};
use crate::dialect::Dialect;
use crate::engine::Outcome;

/// What a model should know before its first call: what holds for every tool, and is therefore in no
/// tool's own description.
const INSTRUCTIONS: &str = "\
Paths count from the workspace root. Read a file before you edit, overwrite or patch it: a change is \
refused (not_read, stale_file) unless this session has read the current bytes, or expected_sha256 names \
them. Each answer's sha256 covers the whole file and serves the next change. An error is JSON with kind, \
message and suggested_action; nothing was changed unless it says applied. Every change is atomic, undoable, \
and a commit on the branch lbx-snapshots. grep, glob and ls skip files that git ignores, and hidden ones. If truncated is true, continue at next_offset (as offset). \
Fields not listed: max_bytes and session in every tool; dry_run, diff and why (the reason, recorded) in every change.";

/// The same where the tools are those of a model family.
const DIALECT_INSTRUCTIONS: &str = "\
Read a file before you edit, overwrite or patch it: a change is refused unless this session has seen the \
current content. Every change is atomic, backed up, undoable (`lbx undo`), and a commit on the branch \
lbx-snapshots.";

/// The tools of a server.
pub struct ToolSet {
    /// The model family whose tools they are; `None` for lbx's own.
    pub dialect: Option<&'static Dialect>,
    /// Which of them.
    pub wanted: Wanted,
}

impl ToolSet {
    /// The tool of that name.
    fn find(&self, name: &str) -> Option<Target> {
        match self.dialect {
            Some(dialect) => {
                let tool = dialect.tool(name).filter(|tool| self.wanted.has_foreign(tool))?;
                Some(Target::Foreign(dialect, tool))
            }
            None => declare::find(name).filter(|tool| self.wanted.has(tool)).map(Target::Native),
        }
    }

    /// The names of all.
    fn names(&self) -> Vec<&'static str> {
        match self.dialect {
            Some(dialect) => {
                let tools = dialect.tools.iter().filter(|tool| self.wanted.has_foreign(tool));
                tools.map(|tool| tool.name).collect()
            }
            None => declare::served().filter(|tool| self.wanted.has(tool)).map(|tool| tool.name).collect(),
        }
    }

    /// What `tools/list` answers.
    fn listed(&self, results: Results) -> Vec<Tool> {
        match self.dialect {
            Some(dialect) => declare::foreign_tools(&self.wanted, dialect),
            None => declare::tools(&self.wanted, results),
        }
    }
}

/// Answers one client.
pub struct Server {
    /// The workspace's root.
    root: PathBuf,
    /// Session and what else the command line fixed.
    options: Options,
    /// The form of results.
    results: Results,
    /// The tools that it has.
    served: ToolSet,
    /// What `tools/list` answers, made when it is first asked for.
    tools: OnceLock<Vec<Tool>>,
}

impl Server {
    /// A server for one workspace.
    #[must_use]
    pub fn new(root: PathBuf, options: Options, results: Results, served: ToolSet) -> Self {
        Self { root, options, results, served, tools: OnceLock::new() }
    }

    /// The error for a tool that clients do not see.
    fn unknown_tool(&self, name: &str) -> ErrorData {
        let names = self.served.names().join(", ");
        ErrorData::invalid_params(format!("unknown tool {name:?} (there are: {names})"), None)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("lbx", env!("CARGO_PKG_VERSION")))
            .with_instructions(if self.served.dialect.is_some() {
                DIALECT_INSTRUCTIONS
            } else {
                INSTRUCTIONS
            })
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.get_or_init(|| self.served.listed(self.results));
        Ok(ListToolsResult::with_all_items(tools.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let target = self.served.find(&request.name).ok_or_else(|| self.unknown_tool(&request.name))?;
        if let Some(Flaw(error)) = context.extensions.get() {
            return Ok(answer::refused(error, &Outcome::default()).into());
        }
        let call = ToolCall {
            target,
            arguments: request.arguments.unwrap_or_default(),
            root: self.root.clone(),
            options: self.options.clone(),
            results: self.results,
        };
        Ok(call.run(&context).await.into())
    }

    /// Takes the requests whose parameters have not the form that their method wants.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method == "tools/call" {
            let message = "tools/call wants `name`, a text, and `arguments`, a JSON object";
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("no method {}", request.method), None))
    }
}
