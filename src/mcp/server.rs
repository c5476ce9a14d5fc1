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
use super::{answer, declare};
use crate::app::options::{Options, Results};
use crate::dialect::Dialect;
use crate::engine::Outcome;

/// What a model should know before its first call.
const INSTRUCTIONS: &str = "\
Paths count from the workspace root. Read a file before you edit, overwrite or patch it: a change is \
refused (not_read, stale_file) unless this session has seen the current bytes, or expected_sha256 names \
them. Each answer's sha256 covers the whole file and serves the next change. An error is JSON with kind, \
message and suggested_action; nothing was changed unless it says applied. Every change is atomic, backed \
up, and a commit on the branch lbx-snapshots. Parts cut off say truncated and where to go on.";

/// The same where the tools are those of a model family.
const DIALECT_INSTRUCTIONS: &str = "\
Read a file before you edit, overwrite or patch it: a change is refused unless this session has seen the \
current content. Every change is atomic, backed up, undoable (`lbx undo`), and a commit on the branch \
lbx-snapshots.";

/// Answers one client.
pub struct Server {
    /// The workspace's root.
    root: PathBuf,
    /// Session and what else the command line fixed.
    options: Options,
    /// The form of results.
    results: Results,
    /// The model family whose tools are served; `None` for lbx's own.
    dialect: Option<&'static Dialect>,
    /// What `tools/list` answers, made when it is first asked for.
    tools: OnceLock<Vec<Tool>>,
}

impl Server {
    /// A server for one workspace.
    #[must_use]
    pub fn new(root: PathBuf, options: Options, results: Results, dialect: Option<&'static Dialect>) -> Self {
        Self { root, options, results, dialect, tools: OnceLock::new() }
    }
}

impl Server {
    /// The tool of that name, where clients see it.
    fn target(&self, name: &str) -> Option<Target> {
        match self.dialect {
            Some(dialect) => Some(Target::Foreign(dialect, dialect.tool(name)?)),
            None => declare::find(name).map(Target::Native),
        }
    }

    /// The error for a tool that clients do not see.
    fn unknown_tool(&self, name: &str) -> ErrorData {
        let names: Vec<&str> = match self.dialect {
            Some(dialect) => dialect.tools.iter().map(|tool| tool.name).collect(),
            None => declare::served().map(|tool| tool.name).collect(),
        };
        ErrorData::invalid_params(format!("unknown tool {name:?} (there are: {})", names.join(", ")), None)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("lbx", env!("CARGO_PKG_VERSION")))
            .with_instructions(if self.dialect.is_some() { DIALECT_INSTRUCTIONS } else { INSTRUCTIONS })
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.get_or_init(|| match self.dialect {
            Some(dialect) => declare::foreign_tools(dialect),
            None => declare::tools(self.results),
        });
        Ok(ListToolsResult::with_all_items(tools.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let target = self.target(&request.name).ok_or_else(|| self.unknown_tool(&request.name))?;
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
