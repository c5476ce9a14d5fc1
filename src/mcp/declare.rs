//! The list of tools in MCP's form.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::Results;
use crate::cli::options::COMMON_FIELDS;
use crate::request;
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

/// One tool.
fn declare(tool: &Entry, results: Results) -> Tool {
    let declared = Tool::new(tool.name, tool.description(), Arc::new(input_schema(tool)))
        .with_title(tool.title())
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

/// The request's schema, with the fields that every tool takes.
fn input_schema(tool: &Entry) -> JsonObject {
    let mut schema = request::without_aliases((tool.request_schema)());
    // What a flag is without being given goes without saying.
    strip(&mut schema, |keyword, value| keyword == "default" && *value == Value::Bool(false));
    let mut schema = object(schema);
    // It says what the tool's own description says.
    schema.remove("description");
    let common = COMMON_FIELDS.iter().filter(|field| field.is_of_call(tool.effect));
    add_properties(&mut schema, common.map(|field| (field.name, field.schema())));
    schema
}

/// The answer's schema, with what stands beside its fields, and without what nobody needs before
/// the answer is there: names and types are enough, and clients hand the list to a model that pays
/// for it.
fn output_schema(tool: &Entry) -> JsonObject {
    let mut schema = (tool.response_schema)();
    strip(&mut schema, |keyword, value| match keyword {
        "description" | "pattern" => value.is_string(),
        "minimum" | "maximum" => value.is_number(),
        _ => false,
    });
    let mut schema = object(schema);
    let beside = [
        ("warnings", json!({ "type": "array", "items": { "type": "string" } })),
        ("snapshot", json!({ "type": "string" })),
    ];
    add_properties(&mut schema, beside);
    schema
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
