//! The tools of a server: which ones clients see, and how MCP declares them.

use serde_json::{Map, Value, json};

use super::call::CallTarget;
use super::queue::OrderingRule;
use crate::app::options::Results;
use crate::catalog::{self, TOOLS};
use crate::dialect::{Dialect, DialectTool};
use crate::error::Error;
use crate::request;
use crate::tools::bash::Bash;
use crate::tools::fork::Fork;
use crate::tools::merge::Merge;
use crate::tools::read::Read;
use crate::tools::{Effect, Tool as _, ToolEntry};

/// Tools that a server has with `--forks`, whatever `--tools` says.
const FORK_TOOLS: [&str; 2] = [Fork::NAME, Merge::NAME];

/// The tools of a server.
pub struct ToolSet {
    /// Model family of the tools; `None` for lbx's own.
    pub dialect: Option<&'static Dialect>,
    /// The tools, in the order of their list.
    tools: Vec<CallTarget>,
    /// True if it has the tools for forks.
    pub serves_forks: bool,
}

impl ToolSet {
    /// Returns the tools that `--tools` asks for: `all`, `core` (the few tools that most work needs, or all of a model
    /// family), `read-only` (those that change nothing), or names separated by commas.
    ///
    /// # Errors
    /// Fails with `invalid_request` if there is no tool of that name.
    pub fn new(
        dialect: Option<&'static Dialect>,
        filter: Option<&str>,
        serves_forks: bool,
    ) -> Result<Self, Error> {
        let is_for_forks = |tool: &ToolEntry| serves_forks && FORK_TOOLS.contains(&tool.name);
        let foreign =
            dialect.into_iter().flat_map(|it| it.tools.iter().map(move |tool| CallTarget::Foreign(it, tool)));
        let native = TOOLS.iter().filter(|tool| is_for_forks(tool) || (dialect.is_none() && tool.served));
        let mut tools: Vec<CallTarget> = foreign.chain(native.map(CallTarget::Native)).collect();
        let filter = filter.unwrap_or("all");
        let named = if ["all", "core", "read-only"].contains(&filter) {
            Vec::new()
        } else {
            names_in(filter, &tools)?
        };
        tools.retain(|target| {
            let is_core = match target {
                CallTarget::Native(tool) if is_for_forks(tool) => return true,
                CallTarget::Native(tool) => tool.core,
                CallTarget::Foreign(..) => true,
            };
            match filter {
                "all" => true,
                "core" => is_core,
                "read-only" => target.effect() == Effect::Reads,
                _ => named.contains(&target.name()),
            }
        });
        if tools.is_empty() {
            return Err(Error::invalid(format!(
                "--tools {filter} names no tool: all tools of this model family write"
            ))
            .suggest("Use all, or names of tools.")
            .detail("field", "tools"));
        }
        Ok(Self { dialect, tools, serves_forks })
    }

    /// Returns a tool by name, or one of lbx's own by an alias.
    pub fn find(&self, name: &str) -> Option<CallTarget> {
        let own = catalog::find(name).map(|tool| tool.name);
        let named = |target: &&CallTarget| match target {
            CallTarget::Native(tool) => Some(tool.name) == own,
            CallTarget::Foreign(_, tool) => tool.name == name,
        };
        self.tools.iter().find(named).copied()
    }

    /// Returns the ordering rule for calls of a tool.
    pub fn turn_of(&self, name: &str) -> OrderingRule {
        let Some(target) = self.find(name) else { return OrderingRule::Search };
        let (runs_commands, reads_files) = match target {
            CallTarget::Native(tool) => (tool.name == Bash::NAME, tool.name == Read::NAME),
            CallTarget::Foreign(_, tool) => (tool.runs_commands, tool.reads_files),
        };
        match target.effect() {
            _ if runs_commands => OrderingRule::Search,
            Effect::Reads if reads_files => OrderingRule::Read,
            Effect::Reads => OrderingRule::Search,
            Effect::Adds | Effect::Writes => OrderingRule::Change,
        }
    }

    /// Returns the names of all tools.
    pub fn names(&self) -> Vec<&'static str> {
        self.tools.iter().copied().map(CallTarget::name).collect()
    }

    /// Returns the response to `tools/list`.
    pub fn declared(&self, results: Results) -> Value {
        let declare = |tool: &CallTarget| match tool {
            CallTarget::Native(tool) => declare(tool, results),
            CallTarget::Foreign(_, tool) => declare_foreign(tool),
        };
        self.tools.iter().map(declare).collect()
    }
}

/// Returns the names in the value of `--tools`.
///
/// # Errors
/// Fails with `invalid_request` if this server cannot have a tool of that name.
fn names_in<'t>(text: &'t str, tools: &[CallTarget]) -> Result<Vec<&'t str>, Error> {
    let known: Vec<&str> = tools.iter().copied().map(CallTarget::name).collect();
    let names: Vec<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        return Err(Error::invalid(format!("--tools: unknown tool {unknown:?}"))
            .suggest(format!("Use all, core, read-only, or names of these: {}.", known.join(", ")))
            .detail("field", "tools"));
    }
    if names.is_empty() {
        return Err(Error::invalid("--tools names no tool").detail("field", "tools"));
    }
    Ok(names)
}

/// Declares one tool of a model family.
fn declare_foreign(tool: &DialectTool) -> Value {
    let mut schema = object(request::schema_for_callers(tool.schema()));
    schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    let drop_defaults = |object: &mut Map<String, Value>| {
        object.retain(|keyword, value| keyword != "default" || value.is_object());
    };
    schema.values_mut().for_each(|value| request::for_each_object(value, &drop_defaults));
    let description = schema.remove("description");
    let description = description.as_ref().and_then(Value::as_str).unwrap_or_default();
    json!({
        "name": tool.name, "description": description, "inputSchema": schema, "annotations": annotations(tool.effect)
    })
}

/// Declares one tool.
fn declare(tool: &ToolEntry, results: Results) -> Value {
    // No title: the description begins with it.
    let mut declared = json!({
        "name": tool.name, "description": tool.summary(), "inputSchema": input_schema(tool),
        "annotations": annotations(tool.effect)
    });
    let (name, value) = match results {
        Results::Json => ("outputSchema", output_schema(tool)),
        // Plain text fits no schema. `init` uses this form for clients that choose which tools a model sees.
        Results::Text => ("_meta", claude_hints(tool)),
    };
    if let Some(declared) = declared.as_object_mut() {
        declared.insert(name.to_owned(), value.into());
    }
    declared
}

/// Returns hints for Claude Code: if the model has the tool from the first request, the words by which it finds the
/// tool, and the maximum length of results.
fn claude_hints(tool: &ToolEntry) -> Map<String, Value> {
    /// Characters of a result that the client shows whole.
    const RESULT_CHARACTERS_MAX: u32 = 100_000;
    /// Tools with long results.
    const LONG: [&str; 4] = ["read", "grep", "bash", "diff"];
    let mut meta = Map::new();
    if tool.core {
        meta.insert("anthropic/alwaysLoad".to_owned(), true.into());
    } else {
        meta.insert("anthropic/searchHint".to_owned(), tool.title().into());
    }
    if LONG.contains(&tool.name) {
        meta.insert("anthropic/maxResultSizeChars".to_owned(), RESULT_CHARACTERS_MAX.into());
    }
    meta
}

/// Returns the hints about a tool that differ from MCP's defaults, by which every tool writes, destroys, and reaches
/// out into the world.
fn annotations(effect: Effect) -> Value {
    match effect {
        Effect::Reads => json!({ "openWorldHint": false, "readOnlyHint": true }),
        Effect::Adds => json!({ "openWorldHint": false, "destructiveHint": false }),
        Effect::Writes => json!({ "openWorldHint": false }),
    }
}

/// Returns the schema of the request, with the fields that the tool lists. The server checks requests itself, and its
/// errors are clear: so bounds and patterns that a description has are left out. Defaults are left out too, since
/// strict function calling of `OpenAI` rejects them. Unlisted names are not forbidden, since rarer fields and names
/// that models know are accepted.
fn input_schema(tool: &ToolEntry) -> Map<String, Value> {
    let mut schema = request::schema_for_callers((tool.request_schema)());
    // A property with the name of a keyword is kept: its value is a schema.
    let is_needless = |keyword: &str, value: &Value| match keyword {
        "default" => !value.is_object(),
        "minimum" | "maximum" => value.is_number(),
        "pattern" => value.is_string(),
        "additionalProperties" => value.is_boolean() || value.as_object().is_some_and(Map::is_empty),
        _ => false,
    };
    request::for_each_object(&mut schema, &|object| {
        object.retain(|keyword, value| !is_needless(keyword, value));
        if let Some(Value::String(text)) = object.get_mut("description") {
            *text = text.replace('\n', " ");
        }
    });
    keep_listed(&mut schema, &tool.listed.split(' ').collect::<Vec<_>>());
    name_plainly(&mut schema);
    describe_once(&mut schema);
    let mut schema = object(schema);
    // It repeats the tool's description.
    schema.remove("description");
    schema
}

/// Keeps the listed fields; of the items of a list, those that are listed with the list's name in front:
/// `edits.new_string`.
fn keep_listed(schema: &mut Value, listed: &[&'static str]) {
    let Some(Value::Object(fields)) = schema.get_mut("properties") else {
        return;
    };
    fields.retain(|name, _| listed.contains(&name.as_str()));
    for (name, field) in fields {
        let Some(items) = field.get_mut("items") else { continue };
        let within = |listed: &&'static str| listed.strip_prefix(name.as_str())?.strip_prefix('.');
        keep_listed(items, &listed.iter().filter_map(within).collect::<Vec<_>>());
    }
}

/// Fields whose name tells a model everything.
const PLAIN: &str = "path paths content from to recursive ignore_case before after context word multiline limit \
                     command workdir patch old_string new_string replace_all hidden no_ignore reverse literal \
                     line_numbers create_only action stdin background job stop";

/// Removes the descriptions that repeat the field's name.
fn name_plainly(schema: &mut Value) {
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    for (_, field) in fields.filter(|(name, _)| PLAIN.split(' ').any(|plain| plain == *name)) {
        if let Some(field) = field.as_object_mut() {
            field.remove("description");
        }
    }
}

/// Returns the schema of the response: the names of the required fields, in one of its forms. Clients pass the list to
/// a model that pays for it, and nobody needs more before the response arrives; the tool `schema` has the rest.
fn output_schema(tool: &ToolEntry) -> Map<String, Value> {
    let schema = (tool.response_schema)();
    let forms = schema.get("anyOf").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![schema]);
    let mut fields = Map::new();
    for form in &forms {
        let required = form.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let all = form.get("properties").and_then(Value::as_object).into_iter().flatten();
        for (name, _) in all.filter(|(name, _)| required.iter().any(|known| known == *name)) {
            fields.insert(name.clone(), Value::Object(Map::new()));
        }
    }
    let mut schema = Map::from_iter([("type".to_owned(), "object".into())]);
    if !fields.is_empty() {
        schema.insert("properties".to_owned(), fields.into());
    }
    schema
}

/// Removes the descriptions of a field's item fields that are fields of the request as well.
fn describe_once(schema: &mut Value) {
    let Some(Value::Object(fields)) = schema.get_mut("properties") else {
        return;
    };
    let own: Vec<String> = fields.keys().cloned().collect();
    for items in fields.values_mut().filter_map(|field| field.get_mut("items")?.as_object_mut()) {
        items.remove("description");
        for (name, field) in items.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
        {
            if let Some(field) = field.as_object_mut().filter(|_| own.contains(name)) {
                field.remove("description");
            }
        }
    }
}

/// Returns a schema as an object, which it always is.
fn object(schema: Value) -> Map<String, Value> {
    match schema {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
