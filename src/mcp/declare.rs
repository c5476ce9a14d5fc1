//! The list of tools in MCP's form.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::app::options::Results;
use crate::dialect::{Dialect, ForeignTool};
use crate::request;
use crate::tools::common_fields::COMMON_FIELDS;
use crate::tools::{self, Effect, Entry, TOOLS};

/// The tools that clients see.
pub fn served() -> impl Iterator<Item = &'static Entry> {
    TOOLS.iter().filter(|tool| tool.served)
}

/// The tool of that name or alias, where clients see it.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    tools::find(name).filter(|tool| tool.served)
}

/// What `tools/list` answers.
#[must_use]
pub fn tools(results: Results) -> Vec<Tool> {
    served().map(|tool| declare(tool, results)).collect()
}

/// What `tools/list` answers where a model family's tools are served.
#[must_use]
pub fn foreign_tools(dialect: &Dialect) -> Vec<Tool> {
    dialect.tools.iter().map(declare_foreign).collect()
}

/// One tool of a model family.
fn declare_foreign(tool: &ForeignTool) -> Tool {
    let mut schema = object(request::advertised((tool.schema)()));
    let description = schema.remove("description");
    let description = description.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    Tool::new(tool.name, description, Arc::new(schema)).with_annotations(annotations(tool.effect))
}

/// One tool.
fn declare(tool: &Entry, results: Results) -> Tool {
    // No title: the description begins with it.
    let declared = Tool::new(tool.name, description(tool), Arc::new(input_schema(tool)))
        .with_annotations(annotations(tool.effect));
    match results {
        Results::Json => declared.with_raw_output_schema(Arc::new(output_schema(tool))),
        // A text alone fits no schema.
        Results::Text => declared,
    }
}

/// What a client may rely on without knowing the tool.
fn annotations(effect: Effect) -> ToolAnnotations {
    let reads = effect == Effect::Reads;
    ToolAnnotations::new()
        .read_only(reads)
        .destructive(effect == Effect::Writes)
        .idempotent(reads)
        .open_world(false)
}

/// What the tool does, without what is said for the command line.
#[must_use]
pub fn description(tool: &Entry) -> String {
    without_command_line(&tool.description())
}

/// A text without its sentences, or their ends, that begin with "on the command line".
fn without_command_line(text: &str) -> String {
    let mut text = text.to_owned();
    for (start, replacement) in [("; on the command line", ""), (" On the command line", "")] {
        while let Some(at) = text.find(start) {
            let rest = text.get(at..).unwrap_or_default();
            let end =
                rest.find(". ").map_or(text.len(), |end| at + end + usize::from(start.starts_with(' ')));
            text.replace_range(at..end, replacement);
        }
    }
    text
}

/// The request's schema, with the fields that every tool takes. The server checks requests itself,
/// and says what is wrong: bounds and patterns that a description states are left out, as is what
/// forbids other names than those listed, since names that models know are accepted too.
fn input_schema(tool: &Entry) -> JsonObject {
    let mut schema = request::advertised((tool.request_schema)());
    strip(&mut schema, |keyword, value| match keyword {
        "default" => *value == false || *value == 0 || value.as_array().is_some_and(Vec::is_empty),
        "minimum" | "maximum" => value.is_number(),
        "pattern" => value.is_string(),
        "additionalProperties" => value.is_boolean() || value.as_object().is_some_and(Map::is_empty),
        _ => false,
    });
    reword(&mut schema);
    describe_once(&mut schema);
    let mut schema = object(schema);
    // It says what the tool's own description says.
    schema.remove("description");
    let common = COMMON_FIELDS.iter().filter(|field| field.is_of_call(tool.effect));
    add_properties(&mut schema, common.map(|field| (field.name, field.schema())));
    schema
}

/// The answer's schema, without what nobody needs before the answer is there: the names and types of
/// its fields are enough, and clients hand the list to a model that pays for it.
///
/// An answer of several forms is one object with the fields of all, of which those are required that
/// every form has.
fn output_schema(tool: &Entry) -> JsonObject {
    let schema = (tool.response_schema)();
    let forms = schema.get("anyOf").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![schema]);
    let mut fields = Map::new();
    for (name, field) in forms.iter().filter_map(|form| form.get("properties")?.as_object()).flatten() {
        let kind = field.get("type").map(|kind| ("type".to_owned(), kind.clone()));
        fields.insert(name.clone(), Value::Object(kind.into_iter().collect()));
    }
    fields.insert("warnings".to_owned(), json!({ "type": "array" }));
    if tool.effect != Effect::Reads {
        fields.insert("dry_run".to_owned(), json!({ "type": "boolean" }));
        fields.insert("snapshot".to_owned(), json!({ "type": "string" }));
    }
    let mut schema =
        Map::from_iter([("type".to_owned(), "object".into()), ("properties".to_owned(), fields.into())]);
    let required = required_by_all(&forms);
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    schema
}

/// The fields that every form requires.
fn required_by_all(forms: &[Value]) -> Vec<Value> {
    let of = |form: &Value| form.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut forms = forms.iter();
    let first = forms.next().map(of).unwrap_or_default();
    let rest: Vec<Vec<Value>> = forms.map(of).collect();
    first.into_iter().filter(|name| rest.iter().all(|form| form.contains(name))).collect()
}

/// Leaves out the descriptions of the fields of a field's items that are fields of the request too.
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

/// Makes each description one line, and takes out of it what is said for the command line.
fn reword(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = without_command_line(&text.replace('\n', " "));
            }
            map.values_mut().for_each(reword);
        }
        Value::Array(list) => list.iter_mut().for_each(reword),
        _ => {}
    }
}

/// Adds properties to the schema of an object.
fn add_properties(schema: &mut JsonObject, added: impl IntoIterator<Item = (&'static str, Value)>) {
    let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if let Some(properties) = properties.as_object_mut() {
        properties.extend(added.into_iter().map(|(name, schema)| (name.to_owned(), schema)));
    }
}

/// Removes keywords from a schema. A property of such a name stays: its value is a schema.
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

/// A schema as the object that it always is.
fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
