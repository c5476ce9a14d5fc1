//! A request brought into the form of its schema: names folded, numbers and booleans taken from text, a
//! single item made a list, nulls and empty values that mean nothing dropped.

use serde_json::{Map, Value};

use super::json::read_json;
use super::names::field_for;
use super::schema::{IGNORED, NOT_ZERO, VALUES, WORDS};
use super::words::{describe, joined, not_among, quoted, unknown_field, wrong_type};
use crate::error::Error;
use crate::text::shell_words;

/// A request, or a part of it, in the form of its schema.
pub(super) fn in_form(value: Value, schema: &Value, path: &str) -> Result<Value, Error> {
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        let others = schema.get(VALUES).and_then(Value::as_array);
        let is_taken = allowed.contains(&value) || others.is_some_and(|others| others.contains(&value));
        return if is_taken { Ok(value) } else { Err(not_among(&value, allowed, path)) };
    }
    let takes = |kind: &str| match schema.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(kinds)) => kinds.iter().any(|known| known == kind),
        _ => false,
    };
    match value {
        Value::Object(object) if takes("object") => object_in_form(object, schema, path).map(Value::Object),
        Value::Array(list) if takes("array") => list_in_form(list, schema, path),
        Value::Array(list) if schema.get(WORDS).is_some() => {
            let words: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
            let command = words.map(|words| shell_words::command_of(&words).into());
            command.ok_or_else(|| wrong_type(&Value::Array(list), schema, path))
        }
        Value::String(text) => text_in_form(text, schema, path, &takes),
        Value::Number(number) if takes("integer") && (number.is_u64() || number.is_i64()) => {
            within_range(number.into(), schema, path)
        }
        // JSON Schema counts 2.0 as an integer, and clients that know only one kind of number send it so.
        Value::Number(number)
            if takes("integer")
                && let Some(whole) = whole_number(&number) =>
        {
            within_range(whole.into(), schema, path)
        }
        Value::Number(number) if takes("number") => Ok(number.into()),
        Value::Bool(value) if takes("boolean") => Ok(value.into()),
        value @ Value::Object(_) if takes("array") => list_in_form(vec![value], schema, path),
        value if schema.get("type").is_none() => Ok(value),
        other => Err(wrong_type(&other, schema, path)),
    }
}

/// The items of a list in form.
fn list_in_form(list: Vec<Value>, schema: &Value, path: &str) -> Result<Value, Error> {
    let Some(items) = schema.get("items") else {
        return Ok(Value::Array(list));
    };
    let items = list.into_iter().enumerate().map(|(at, item)| in_form(item, items, &format!("{path}[{at}]")));
    items.collect::<Result<Vec<_>, _>>().map(Value::Array)
}

/// A text where the schema may want something else that can be read from it.
fn text_in_form(
    text: String,
    schema: &Value,
    path: &str,
    takes: &impl Fn(&str) -> bool,
) -> Result<Value, Error> {
    let trimmed = text.trim();
    if takes("array") {
        // Models encode a list twice now and then; a text alone is a list of one.
        if trimmed.starts_with('[')
            && let Ok(Value::Array(list)) = read_json(trimmed.as_bytes())
        {
            return list_in_form(list, schema, path);
        }
        return list_in_form(vec![Value::String(text)], schema, path);
    }
    if takes("string") {
        return Ok(Value::String(text));
    }
    if takes("integer")
        && let Some(number) = trimmed.parse::<i64>().ok().or_else(|| whole_number(&trimmed.parse().ok()?))
    {
        return within_range(number.into(), schema, path);
    }
    if takes("boolean")
        && let Ok(value) = trimmed.to_ascii_lowercase().parse::<bool>()
    {
        return Ok(value.into());
    }
    if takes("object")
        && let Ok(Value::Object(object)) = read_json(trimmed.as_bytes())
    {
        return object_in_form(object, schema, path).map(Value::Object);
    }
    Err(wrong_type(&Value::String(text), schema, path))
}

/// The fields of an object in form, under their own names.
fn object_in_form(
    object: Map<String, Value>,
    schema: &Value,
    path: &str,
) -> Result<Map<String, Value>, Error> {
    let empty = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let is_open = schema.get("additionalProperties").is_none_or(Value::is_object);
    let ignored = schema.get(IGNORED).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: Vec<&str> = required.filter_map(Value::as_str).collect();
    let mut known: Map<String, Value> = Map::new();
    for (given, value) in
        object.into_iter().filter(|(given, _)| !ignored.iter().any(|name| name == given.as_str()))
    {
        let named = field_for(&given, &value, fields);
        let has_list = |name: &&str| {
            *name == "path" && value.is_array() && fields.contains_key("paths") && !takes_list(fields, name)
        };
        let Some(name) = named.map(|name| if has_list(&name) { "paths" } else { name }) else {
            if let Some(values) = schema.get("additionalProperties").filter(|_| is_open) {
                known.insert(given.clone(), in_form(value, values, &joined(path, &quoted(&given)))?);
                continue;
            }
            return Err(unknown_field(&joined(path, &quoted(&given)), fields));
        };
        if known.contains_key(name) {
            let field = joined(path, name);
            return Err(Error::invalid(format!("field `{field}` is given twice (once as `{given}`)")));
        }
        let schema = fields.get(name).unwrap_or(&Value::Null);
        if !value.is_null() && (required.contains(&name) || !says_nothing(name, &value, schema)) {
            known.insert(name.to_owned(), in_form(value, schema, &joined(path, name))?);
        }
    }
    for name in required {
        if !known.contains_key(name) {
            let field = joined(path, name);
            return Err(Error::invalid(format!("field `{field}` is missing"))
                .detail("field", field)
                .detail("expected", describe(fields.get(name).unwrap_or(&Value::Null))));
        }
    }
    Ok(known)
}

/// Whether a field of this name takes a list.
fn takes_list(fields: &Map<String, Value>, name: &str) -> bool {
    let kind = fields.get(name).and_then(|field| field.get("type"));
    kind.is_some_and(|kind| {
        kind == "array" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "array"))
    })
}

/// Whether a value is how clients that must fill every field say that an optional one is not given: strict function
/// calling knows no other way.
fn says_nothing(name: &str, value: &Value, schema: &Value) -> bool {
    /// Fields whose text may well be empty: it deletes, or makes an empty file.
    const TEXTS: [&str; 10] = [
        "old_string",
        "new_string",
        "new_str",
        "new_source",
        "new_text",
        "file_text",
        "insert_text",
        "content",
        "text",
        "stdin",
    ];
    match value {
        Value::String(text) => text.is_empty() && !TEXTS.contains(&name),
        Value::Array(list) => list.is_empty(),
        Value::Number(number) => {
            let is_counted = schema.get("minimum").and_then(Value::as_f64).is_some_and(|least| least > 0.0);
            number.as_f64() == Some(0.0) && (is_counted || schema.get(NOT_ZERO).is_some())
        }
        // An empty map may well say that there is nothing to say of any file.
        Value::Object(_) | Value::Bool(_) | Value::Null => false,
    }
}

/// The integer that a number such as `2.0` or `1e2` stands for, where a float holds it exactly.
fn whole_number(number: &serde_json::Number) -> Option<i64> {
    let value = number.as_f64().filter(|value| value.fract() == 0.0)?;
    // `{:.0}` writes a whole float with all its digits; those beyond an i64 do not parse.
    format!("{value:.0}").parse().ok()
}

/// Refuses a number outside its field's range.
fn within_range(number: Value, schema: &Value, path: &str) -> Result<Value, Error> {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let value = number.as_f64().unwrap_or_default();
    if bound("minimum").is_some_and(|least| value < least)
        || bound("maximum").is_some_and(|most| value > most)
    {
        return Err(wrong_type(&number, schema, path));
    }
    Ok(number)
}
