//! Messages for invalid requests, which name the field.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::schema::{HIDDEN, plausible_fields};
use crate::error::Error;

/// Converts a clap error to an lbx error. Drops the suggestions of clap: they compare spellings and ignore the meaning.
pub fn flag_error(error: &clap::Error) -> Error {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    // The first paragraph states the error; usage and tips follow.
    let message =
        text.split("\n\n").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let message = message.replace("invalid digit found in string", "expected a whole number");
    let message = cut(&message, 1_000).into_owned();
    if let Some(field) = missing_field(error, &message) {
        return Error::invalid(format!("field `{field}` is missing")).detail("field", field);
    }
    Error::invalid(message)
        .suggest("Correct the arguments as the message says.")
        .on_command_line("`lbx TOOL --help` lists them; a request may also be given as --json '{…}'.")
}

/// Returns the field that is missing in a request by flags, if that is the clap error.
fn missing_field<'m>(error: &clap::Error, message: &'m str) -> Option<&'m str> {
    let is_missing = error.kind() == clap::error::ErrorKind::MissingRequiredArgument;
    message.rsplit_once("was not provided: ").map(|(_, field)| field).filter(|_| is_missing)
}

/// Returns the name of a field after the path of its object.
pub(super) fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Returns the error for an unknown field.
pub(super) fn unknown_field(field: &str, fields: &Map<String, Value>) -> Error {
    let names: Vec<&str> = fields
        .iter()
        .filter(|(_, field)| field.get(HIDDEN).is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    let last = field.rsplit('.').next().unwrap_or(field);
    let near = plausible_fields(last, fields);
    let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    let hint = if near.is_empty() { String::new() } else { format!(", did you mean {}?", near.join(" or ")) };
    Error::invalid(format!("unknown field `{field}`{hint} (accepted: {})", names.join(", ")))
        .detail("field", field)
}

/// Returns the error for a value that is not allowed.
pub(super) fn not_among(value: &Value, allowed: &[Value], path: &str) -> Error {
    let names: Vec<String> =
        allowed.iter().filter_map(Value::as_str).map(|name| format!("\"{name}\"")).collect();
    Error::invalid(format!("field `{path}`: expected {}, got {}", names.join(" or "), shortened(value)))
        .detail("field", path)
}

/// Returns the error for a value of the wrong type.
pub(super) fn wrong_type(value: &Value, schema: &Value, path: &str) -> Error {
    let (expected, got) = (describe(schema), shortened(value));
    if path.is_empty() {
        return Error::invalid(format!("the request must be {expected}, got {got}"));
    }
    Error::invalid(format!("field `{path}`: expected {expected}, got {got}"))
        .detail("field", path)
        .detail("expected", expected)
}

/// Returns a description of the values that a field takes, if its schema takes whole numbers.
pub fn number_of(field: &str, schema: &Value) -> Option<String> {
    let schema = schema.get("properties")?.get(field)?;
    schema.get("type").is_some_and(|kind| kind == "integer").then(|| describe(schema))
}

/// Returns a description of the values that a schema takes.
pub(super) fn describe(schema: &Value) -> String {
    let of = |kind: &str| match kind {
        "integer" => {
            let least = schema.get("minimum").and_then(Value::as_i64);
            let most = schema.get("maximum").and_then(Value::as_i64);
            match (least, most) {
                (Some(least), Some(most)) => format!("a whole number from {least} to {most}"),
                (Some(least), None) => format!("a whole number from {least}"),
                _ => "a whole number".to_owned(),
            }
        }
        "number" => "a number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "string" => "a text".to_owned(),
        "array" => "a list".to_owned(),
        "object" => "a JSON object".to_owned(),
        other => other.to_owned(),
    };
    match schema.get("type") {
        Some(Value::String(kind)) => of(kind),
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).map(of).collect::<Vec<_>>().join(" or ")
        }
        _ => "another value".to_owned(),
    }
}

/// Returns a value for a message, cut if it is long.
pub fn shortened(value: &Value) -> String {
    const CHARACTERS_MAX: usize = 60;
    cut(&value.to_string(), CHARACTERS_MAX).into_owned()
}

/// Returns the caller's text for a message, cut if it is long.
pub fn quoted(text: &str) -> Cow<'_, str> {
    const CHARACTERS_MAX: usize = 200;
    cut(text, CHARACTERS_MAX)
}

/// Returns the start of a text, with a mark if it continues.
pub(super) fn cut(text: &str, characters_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters_max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}

/// Reads one JSON text; rejects duplicate keys.
///
/// # Errors
/// Returns `invalid_request` with line and column.
pub fn read_json(text: &[u8]) -> Result<Value, Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Strict.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| {
        let what = raw_control(text, &error).unwrap_or_else(|| error.to_string());
        Error::invalid(format!("the request is not valid JSON: {what}"))
            .suggest("Send one JSON object.")
            .on_command_line("Or use flags: `lbx TOOL --help` lists them.")
    })
}

/// Returns the reason for an error at a control character in a string, such as the line break of a text that was not
/// escaped.
fn raw_control(text: &[u8], error: &serde_json::Error) -> Option<String> {
    let before = error.line().checked_sub(2);
    let start = before.map_or(Some(0), |line| memchr::memchr_iter(b'\n', text).nth(line).map(|at| at + 1))?;
    // Column 0 is after the line break itself.
    let (line, name, escape) = match text.get((start + error.column()).checked_sub(1)?)? {
        b'\n' => (error.line() - 1, "line break", "\\n"),
        b'\r' => (error.line(), "carriage return", "\\r"),
        b'\t' => (error.line(), "tab", "\\t"),
        _ => return None,
    };
    Some(format!("line {line} has a raw {name} in a string, which JSON writes as `{escape}`"))
}

/// Builds a [`Value`] and rejects duplicate keys.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(Self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(Self)?;
            if object.insert(key.clone(), value).is_some() {
                return Err(de::Error::custom(format!("duplicate field `{}`", quoted(&key))));
            }
        }
        Ok(Value::Object(object))
    }
}
