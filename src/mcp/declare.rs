//! Declares the tools in MCP's form.

use std::sync::Arc;

use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Map, Value};

use super::wanted::{Wanted, served};
use crate::app::options::Results;
use crate::dialect::{Dialect, DialectTool};
use crate::request;
use crate::tools::{Effect, ToolEntry};

/// Returns the response to `tools/list`.
#[must_use]
pub fn tools(wanted: &Wanted, results: Results) -> Vec<Tool> {
    served().filter(|tool| wanted.has(tool)).map(|tool| declare(tool, results)).collect()
}

/// Returns the response to `tools/list` for a model family's tools.
#[must_use]
pub fn foreign_tools(wanted: &Wanted, dialect: &Dialect) -> Vec<Tool> {
    dialect.tools.iter().filter(|tool| wanted.has_foreign(tool)).map(declare_foreign).collect()
}

/// Declares one tool of a model family.
fn declare_foreign(tool: &DialectTool) -> Tool {
    let mut schema = object(request::advertised(tool.schema()));
    schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    schema
        .values_mut()
        .for_each(|value| strip(value, |keyword, value| keyword == "default" && !value.is_object()));
    let description = schema.remove("description");
    let description = description.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    Tool::new(tool.name, description, Arc::new(schema)).with_annotations(annotations(tool.effect))
}

/// Declares one tool.
fn declare(tool: &ToolEntry, results: Results) -> Tool {
    // No title: the description begins with it.
    let declared = Tool::new(tool.name, tool.summary(), Arc::new(input_schema(tool)))
        .with_annotations(annotations(tool.effect));
    match results {
        Results::Json => declared.with_raw_output_schema(Arc::new(output_schema(tool))),
        // Plain text fits no schema. `init` uses this form for clients that choose which tools a model sees.
        Results::Text => declared.with_meta(meta(tool)),
    }
}

/// Returns hints for Claude Code: if the model has the tool from the first request, the words by which it finds the
/// tool, and the maximum length of results.
fn meta(tool: &ToolEntry) -> MetaObject {
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
    MetaObject(meta)
}

/// Returns the hints about a tool that differ from MCP's defaults, by which every tool writes, destroys, and reaches
/// out into the world.
fn annotations(effect: Effect) -> ToolAnnotations {
    let closed = ToolAnnotations::new().open_world(false);
    match effect {
        Effect::Reads => closed.read_only(true),
        Effect::Adds => closed.destructive(false),
        Effect::Writes => closed,
    }
}

/// Returns the schema of the request, with the fields that the tool lists. The server checks requests itself, and its
/// errors are clear: so bounds and patterns that a description has are left out. Defaults are left out too, since
/// strict function calling of `OpenAI` rejects them. Unlisted names are not forbidden, since rarer fields and names
/// that models know are accepted.
fn input_schema(tool: &ToolEntry) -> JsonObject {
    let mut schema = request::advertised((tool.request_schema)());
    strip(&mut schema, |keyword, value| match keyword {
        "default" => !value.is_object(),
        "minimum" | "maximum" => value.is_number(),
        "pattern" => value.is_string(),
        "additionalProperties" => value.is_boolean() || value.as_object().is_some_and(Map::is_empty),
        _ => false,
    });
    keep_listed(&mut schema, &tool.listed.split(' ').collect::<Vec<_>>());
    on_one_line(&mut schema);
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
fn output_schema(tool: &ToolEntry) -> JsonObject {
    let schema = (tool.response_schema)();
    let forms = schema.get("anyOf").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![schema]);
    let mut fields = Map::new();
    for form in &forms {
        let required = required_of(form);
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

/// Returns the fields that a form requires.
fn required_of(form: &Value) -> Vec<Value> {
    form.get("required").and_then(Value::as_array).cloned().unwrap_or_default()
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

/// Turns each description into one line.
fn on_one_line(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            map.values_mut().for_each(on_one_line);
        }
        Value::Array(list) => list.iter_mut().for_each(on_one_line),
        _ => {}
    }
}

/// Removes keywords from a schema. A property with such a name is kept: its value is a schema.
fn strip(schema: &mut Value, is_needless: fn(&str, &Value) -> bool) {
    match schema {
        Value::Object(map) => {
            map.retain(|keyword, value| !is_needless(keyword, value));
            map.values_mut().for_each(|value| strip(value, is_needless));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| strip(value, is_needless)),
        _ => {}
    }
}

/// Returns a schema as an object, which it always is.
fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
