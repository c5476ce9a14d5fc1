//! List of all tools, which the front ends walk, and `schema`, the tool that shows them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::dialect::{self, Dialect, DialectTool};
use crate::engine::Engine;
use crate::error::Error;
use crate::request;
use crate::text::similarity;
use crate::tools::{
    COMMON_FIELDS, Effect, Text, Tool, ToolEntry, append, audit, bash, blame, config, delete, diff, doctor,
    edit, entry, fork, gc, glob, grep, hook, init, insert, log, ls, merge, mkdir, r#move, patch, read,
    review, rewind, sandbox, section, session, snapshot, trash, undo, watch, write,
};

/// All tools, in the order of help and documentation.
pub const TOOLS: &[ToolEntry] = &[
    entry::<read::Read>(),
    entry::<write::Write>(),
    entry::<edit::Edit>(),
    entry::<patch::Patch>(),
    entry::<append::Append>(),
    entry::<append::Prepend>(),
    entry::<insert::Insert>(),
    entry::<section::Section>(),
    entry::<grep::Grep>(),
    entry::<glob::Glob>(),
    entry::<ls::Ls>(),
    entry::<bash::Bash>(),
    entry::<mkdir::Mkdir>(),
    entry::<delete::Delete>(),
    entry::<trash::Restore>(),
    entry::<r#move::Move>(),
    entry::<undo::Undo>(),
    entry::<undo::Redo>(),
    entry::<rewind::Rewind>(),
    entry::<log::Log>(),
    entry::<diff::Diff>(),
    entry::<review::Review>(),
    entry::<blame::Blame>(),
    entry::<snapshot::Squash>(),
    entry::<watch::Watch>(),
    entry::<snapshot::Snapshot>(),
    entry::<audit::Audit>(),
    entry::<session::Session>(),
    entry::<trash::Trash>(),
    entry::<gc::Gc>(),
    entry::<audit::Stats>(),
    entry::<doctor::Doctor>(),
    entry::<sandbox::Sandbox>(),
    entry::<fork::Fork>(),
    entry::<merge::Merge>(),
    entry::<config::Config>(),
    entry::<init::Init>(),
    entry::<hook::Hook>(),
    entry::<patch::ApplyPatch>(),
    entry::<Schema>(),
];

/// Returns the tool of that name or alias.
pub fn find(name: &str) -> Option<&'static ToolEntry> {
    TOOLS
        .iter()
        .find(|tool| tool.name == name)
        .or_else(|| TOOLS.iter().find(|tool| tool.aliases.contains(&name)))
}

/// Show the JSON Schemas of a tool's request and response, or of all tools
///
/// Those of all tools are some 160 kB, for programs; --list names the tools in 4 kB.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Tool to show, also one that a single model family has; all without it
    pub tool: Option<String>,
    /// Model family whose tools to show, instead of lbx's own
    #[arg(from_global)]
    pub dialect: Option<String>,
    /// List the other field names that are accepted, instead of the schemas
    #[arg(long)]
    pub aliases: bool,
    /// List the tools and what each does, without the schemas
    #[arg(long)]
    pub list: bool,
}

/// Parts of each tool to show.
#[derive(Debug, Clone, Copy)]
enum Detail {
    /// Name and description.
    Summary,
    /// Schemas too.
    Schemas,
    /// Other names, without schemas.
    Aliases,
}

impl Request {
    /// Returns the parts of each tool to show.
    fn detail(&self) -> Result<Detail, Error> {
        match (self.aliases, self.list) {
            (true, true) => {
                Err(Error::invalid("`aliases` and `list` exclude each other").suggest("Ask for one of them."))
            }
            (true, false) => Ok(Detail::Aliases),
            (false, true) => Ok(Detail::Summary),
            (false, false) => Ok(Detail::Schemas),
        }
    }
}

/// The schemas.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// One entry a tool
    pub tools: Vec<ToolSchema>,
}

/// Description and schemas of a tool
#[derive(Debug, Serialize, JsonSchema)]
pub struct ToolSchema {
    /// Its name
    pub name: &'static str,
    /// Description
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
    const SERVED: bool = false;
    const NEEDS_POLICY: bool = false;
    type Request = Request;
    type Response = Response;

    fn run(_engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let detail = request.detail()?;
        if let Some(family) = dialect::chosen(request.dialect.as_deref())? {
            return of_family(family, request.tool.as_deref(), detail);
        }
        let describe = |tool: &ToolEntry| of_tool(tool, detail);
        let Some(name) = &request.tool else {
            return Ok(Response { tools: TOOLS.iter().map(describe).collect() });
        };
        let own = || Some(describe(find(name)?));
        let foreign = || Some(foreign_schema(dialect::owner_of(name)?.1, detail));
        let tool = own().or_else(foreign).ok_or_else(|| unknown_tool(name))?;
        Ok(Response { tools: vec![tool] })
    }

    fn text(response: &Response, text: &mut Text) {
        let is_list = response.tools.iter().all(|tool| tool.request.is_none() && tool.aliases.is_none());
        if is_list {
            for ToolSchema { name, description, .. } in &response.tools {
                text.entry(&format!("{name:<12} {}", description.as_deref().unwrap_or_default()));
            }
            return;
        }
        // The JSON of a schema is its only text form.
        let json = serde_json::to_string_pretty(response).unwrap_or_default();
        text.entry(&json);
    }
}

/// Returns the tools of a model family, or one of them.
fn of_family(family: &'static Dialect, name: Option<&str>, detail: Detail) -> Result<Response, Error> {
    let tools: Vec<ToolSchema> = family
        .tools
        .iter()
        .filter(|tool| name.is_none_or(|name| name == tool.name))
        .map(|tool| foreign_schema(tool, detail))
        .collect();
    match name.filter(|_| tools.is_empty()) {
        Some(name) => {
            let names: Vec<&str> = family.tools.iter().map(|tool| tool.name).collect();
            Err(unknown_in_family(&names, name))
        }
        None => Ok(Response { tools }),
    }
}

/// Returns the requested parts of one tool.
fn of_tool(tool: &ToolEntry, detail: Detail) -> ToolSchema {
    let summary = ToolSchema {
        name: tool.name,
        description: Some(tool.description()),
        request: None,
        response: None,
        aliases: None,
    };
    match detail {
        Detail::Summary => {
            ToolSchema { description: summary.description.map(|text| first_line(&text)), ..summary }
        }
        Detail::Aliases => ToolSchema { description: None, aliases: Some(aliases_of(tool)), ..summary },
        Detail::Schemas => ToolSchema {
            request: Some(with_common_fields(tool, request::schema_for_callers((tool.request_schema)()))),
            response: Some((tool.response_schema)()),
            ..summary
        },
    }
}

/// Returns the first line of a description.
fn first_line(description: &str) -> String {
    description.lines().next().unwrap_or_default().to_owned()
}

/// Returns the schema of a model family's tool. It answers with text.
fn foreign_schema(tool: &DialectTool, detail: Detail) -> ToolSchema {
    let mut request = request::schema_for_callers(tool.schema());
    let description = request.as_object_mut().and_then(|schema| schema.remove("description"));
    let description = description.and_then(|text| text.as_str().map(str::to_owned));
    let is_list = matches!(detail, Detail::Summary);
    ToolSchema {
        name: tool.name,
        description: if is_list { description.as_deref().map(first_line) } else { description },
        request: (!is_list).then_some(request),
        response: None,
        aliases: None,
    }
}

/// Adds the fields that every tool takes to the schema of a request.
fn with_common_fields(tool: &ToolEntry, mut schema: Value) -> Value {
    if let Some(object) = schema.as_object_mut() {
        let fields = object.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        for field in COMMON_FIELDS.iter().filter(|field| field.is_of(tool.effect)) {
            if let Some(fields) = fields.as_object_mut() {
                fields.entry(field.name).or_insert_with(|| field.schema());
            }
        }
    }
    schema
}

/// Returns the other names of one tool and its fields.
fn aliases_of(tool: &ToolEntry) -> Value {
    let schema = (tool.request_schema)();
    let fields: Map<String, Value> =
        request::aliases(&schema).map(|(field, names)| (field.to_owned(), names.into())).collect();
    serde_json::json!({ "tool": tool.aliases, "fields": fields })
}

/// Commands of other programs, with the tools that do their work here.
const ELSEWHERE: [(&[&str], &str); 17] = [
    (&["copy", "cp"], "lbx has no tool that copies; `lbx write TO --content @FROM` copies a text file."),
    (&["cat", "head", "tail", "less", "nl"], "`read` shows a file, or some lines of it."),
    (&["rm", "rmdir", "unlink", "remove"], "`delete` moves files and folders to the trash."),
    (&["mv", "rename"], "`move` moves and renames."),
    (&["find", "fd"], "`glob` finds files by name, `grep` by content."),
    (&["rg", "ripgrep", "ag", "ack", "search"], "`grep` searches the contents of files."),
    (&["sed", "replace", "substitute"], "`edit` replaces text in files."),
    (&["touch"], "`write` makes the file and the folders that it needs."),
    (
        &["status", "st"],
        "`session` shows what this session has read and changed, `doctor` whether all is well.",
    ),
    (&["show"], "`diff SNAPSHOT` shows what one snapshot changed, `log` lists them."),
    (&["history"], "`log` lists the changes, `review` shows them with their diffs."),
    (
        &["commit"],
        "Each change is committed to the snapshot branch; `squash` makes one commit of a session's changes.",
    ),
    (
        &["revert", "reset", "rollback"],
        "`undo` takes changes back, `rewind` a session to one of its snapshots.",
    ),
    (&["view", "open", "show_file", "create"], "`read` shows a file, `write` creates one."),
    (&["sh", "exec", "run", "shell", "cmd"], "`bash` runs a command."),
    (&["version"], "`lbx --version` prints it; `doctor` adds facts about the machine."),
    (&["tree"], "`ls` with `recursive` lists folders at every depth."),
];

/// Returns the error for a tool that does not exist.
pub fn unknown_tool(name: &str) -> Error {
    unknown_in_family(&[], name)
}

/// Returns that error for a model family, whose tools are listed before lbx's own.
pub fn unknown_in_family(family: &[&str], name: &str) -> Error {
    let mut names = family.to_vec();
    names.extend(TOOLS.iter().map(|tool| tool.name).filter(|own| !family.contains(own)));
    let near = similarity::nearest(name, &names, 1, 0.7);
    let instead = ELSEWHERE.iter().find(|(others, _)| others.contains(&name)).map(|(_, instead)| *instead);
    let question = near.first().map(|near| format!("Did you mean `{near}`?"));
    let advice = instead.map(str::to_owned).or(question);
    let name = request::quoted(name);
    // If the right tool is known, its name alone is enough, and saves an agent tokens.
    let listed =
        if instead.is_some() { String::new() } else { format!(" (there are: {})", names.join(", ")) };
    Error::invalid(format!("unknown tool `{name}`{listed}"))
        .suggest(advice.unwrap_or_else(|| "Use one of the tools named.".to_owned()))
        .on_command_line("`lbx --help` lists the tools.")
        .detail("tool", name)
}
