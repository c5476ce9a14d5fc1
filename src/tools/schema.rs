//! `schema`: what every tool takes and answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Effect, Entry, Stdin, TOOLS, Text, Tool, find};
use crate::engine::Engine;
use crate::error::Error;
use crate::request;

/// Show the JSON Schema of a tool's request and answer, or of every tool's
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Tool to show; all of them without it
    pub tool: Option<String>,
    /// List the other field names that are accepted, instead of the schemas
    #[arg(long)]
    #[serde(default)]
    pub aliases: bool,
}

/// The schemas.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// One entry a tool
    pub tools: Vec<ToolSchema>,
}

/// What a tool takes and answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ToolSchema {
    /// Its name
    pub name: &'static str,
    /// What it does
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of its request
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Value>,
    /// JSON Schema of the `data` in its answer
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
    /// Other names of the tool and, by field, other names of its fields
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aliases: Option<Value>,
}

/// The tool.
pub struct Schema;

impl Tool for Schema {
    const NAME: &'static str = "schema";
    const EFFECT: Effect = Effect::Reads;
    const STDIN: Stdin = Stdin::Ignored;
    const SERVED: bool = false;
    const NEEDS_POLICY: bool = false;
    type Request = Request;
    type Response = Response;

    fn run(_engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let shown: Vec<&Entry> = match &request.tool {
            None => TOOLS.iter().collect(),
            Some(name) => vec![find(name).ok_or_else(|| unknown_tool(name))?],
        };
        let describe = |tool: &Entry| if request.aliases { aliases_of(tool) } else { schemas_of(tool) };
        Ok(Response { tools: shown.into_iter().map(describe).collect() })
    }

    fn text(response: &Response, text: &mut Text) {
        // A schema has no other text than its JSON.
        let json = serde_json::to_string_pretty(response).unwrap_or_default();
        text.entry(&json);
    }
}

/// The schemas of one tool.
fn schemas_of(tool: &Entry) -> ToolSchema {
    ToolSchema {
        name: tool.name,
        description: Some(tool.description()),
        request: Some(request::advertised((tool.request_schema)())),
        response: Some((tool.response_schema)()),
        aliases: None,
    }
}

/// The other names of one tool and its fields.
fn aliases_of(tool: &Entry) -> ToolSchema {
    let schema = (tool.request_schema)();
    let fields: Map<String, Value> =
        request::aliases(&schema).map(|(field, names)| (field.to_owned(), names.into())).collect();
    let aliases = serde_json::json!({ "tool": tool.aliases, "fields": fields });
    ToolSchema { name: tool.name, description: None, request: None, response: None, aliases: Some(aliases) }
}

/// The refusal of a tool that there is not.
#[must_use]
pub fn unknown_tool(name: &str) -> Error {
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    let near = similar::get_close_matches(name, &names, 1, 0.5);
    let hint = near.first().map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
    Error::invalid(format!("unknown tool `{name}`{hint} (there are: {})", names.join(", ")))
        .suggest("`lbx --help` lists the tools.")
        .detail("tools", names)
}
