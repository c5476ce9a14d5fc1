//! Conversion from JSON to a request; error messages name the field.
//!
//! The schema of a request type defines its fields and their aliases (`x-aliases`); nothing is declared twice. Before
//! serde reads a request, it is converted to the form of that schema: names are normalised, numbers and booleans are
//! read from strings, a single item becomes a list, and nulls are dropped. Errors of flags are worded here too.

mod schema;

use std::any::TypeId;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use schema::{ENCODING, HIDDEN, IGNORED, NOT_ZERO, VALUES, WORDS, field_for, plausible_fields};
use schemars::JsonSchema;
use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::text::charset::Charset;
use crate::text::content::UTF8_BOM;
use crate::text::escaped;
pub use schema::{
    aliases, answer_schema_of, field_of, for_each_object, plausible, schema_for_callers, schema_of,
    snake_case,
};

/// Largest request, in bytes.
pub const REQUEST_BYTES_MAX: u64 = 256 << 20;

/// Converts JSON to a request of type `T`.
///
/// # Errors
/// Returns `invalid_request` that names the field and the expected value.
pub fn parse<T: DeserializeOwned + JsonSchema + 'static>(value: Value) -> Result<T, Error> {
    let value = in_form(value, &known_schema(TypeId::of::<T>(), schema_of::<T>), "")?;
    serde_path_to_error::deserialize(value).map_err(type_error)
}

/// Returns a request with its fields under the names that `T` has for them and without nulls, so that code which looks at
/// one field sees it in every spelling. A request with a field that is given twice is returned as it is: [`parse`], which
/// drops nulls too, refuses it.
pub fn with_field_names<T: JsonSchema + 'static>(request: Value) -> Value {
    let schema = known_schema(TypeId::of::<T>(), schema_of::<T>);
    let fields = schema.get("properties").and_then(Value::as_object);
    let (Some(given), Some(fields)) = (request.as_object(), fields) else { return request };
    let name = |(name, value): (&String, &Value)| {
        (field_for(name, value, fields).map_or_else(|| name.clone(), str::to_owned), value.clone())
    };
    let given = given.iter().filter(|(_, value)| !value.is_null());
    let named: Map<String, Value> = given.clone().map(name).collect();
    if named.len() == given.count() { named.into() } else { request }
}

/// Returns the error for a field that its type rejects.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn type_error(error: serde_path_to_error::Error<serde_json::Error>) -> Error {
    let field = error.path().to_string();
    Error::invalid(format!("field `{field}`: {}", cut(&error.inner().to_string(), 1_000)))
        .detail("field", field)
}

/// Returns the schema of a type, generated once per process: a server parses thousands of requests, and generating the
/// schema takes longer than a small read.
fn known_schema(id: TypeId, schema: fn() -> Value) -> Arc<Value> {
    static KNOWN: RwLock<BTreeMap<TypeId, Arc<Value>>> = RwLock::new(BTreeMap::new());
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
    known.unwrap_or_else(|| {
        let schema = Arc::new(schema());
        let mut all = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        all.entry(id).or_insert(schema).clone()
    })
}

/// Converts a request, or a part of it, to the form of its schema.
///
/// # Errors
/// Returns `invalid_request` that names the field and the expected value.
pub fn in_form(value: Value, schema: &Value, path: &str) -> Result<Value, Error> {
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        let others = schema.get(VALUES).and_then(Value::as_array);
        let is_taken = allowed.contains(&value) || others.is_some_and(|others| others.contains(&value));
        return if is_taken { Ok(value) } else { Err(not_among(&value, allowed, path)) };
    }
    let takes = |kind: &str| has_type(schema, kind);
    match value {
        Value::Object(object) if takes("object") => object_in_form(object, schema, path).map(Value::Object),
        Value::Array(list) if takes("array") => list_in_form(list, schema, path),
        Value::Array(list) if schema.get(WORDS).is_some() => {
            let words: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
            let command = words.map(|words| escaped::command_of(&words).into());
            command.ok_or_else(|| wrong_type(&Value::Array(list), schema, path))
        }
        Value::String(text) => text_in_form(text, schema, path),
        Value::Number(number) if takes("integer") && (number.is_u64() || number.is_i64()) => {
            within_range(number.into(), schema, path)
        }
        // JSON Schema accepts 2.0 as an integer, and clients with only one number type send it so.
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

/// Converts the items of a list.
fn list_in_form(list: Vec<Value>, schema: &Value, path: &str) -> Result<Value, Error> {
    let Some(items) = schema.get("items") else {
        return Ok(Value::Array(list));
    };
    let items = list.into_iter().enumerate().map(|(at, item)| in_form(item, items, &format!("{path}[{at}]")));
    items.collect::<Result<Vec<_>, _>>().map(Value::Array)
}

/// Converts a string if the schema wants another type that can be read from it.
fn text_in_form(text: String, schema: &Value, path: &str) -> Result<Value, Error> {
    let takes = |kind: &str| has_type(schema, kind);
    let trimmed = text.trim();
    if takes("array") {
        // Models sometimes encode a list twice; a plain string is a list of one item.
        if trimmed.starts_with('[')
            && let Ok(Value::Array(list)) = read_json(trimmed.as_bytes())
        {
            return list_in_form(list, schema, path);
        }
        return list_in_form(vec![Value::String(text)], schema, path);
    }
    if takes("string") {
        if schema.get(ENCODING).is_some()
            && let Err(reason) = text.parse::<Charset>()
        {
            return Err(Error::invalid(format!("field `{path}`: {reason}")).detail("field", path));
        }
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

/// Converts the fields of an object, and replaces aliases by field names.
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
            let takes_list = || fields.get(*name).is_some_and(|field| has_type(field, "array"));
            *name == "path" && value.is_array() && fields.contains_key("paths") && !takes_list()
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
        if !value.is_null() && (required.contains(&name) || !is_absent(name, &value, schema)) {
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
    for (name, field) in fields {
        if let Some(default) = field.get("default").filter(|_| !known.contains_key(name)) {
            known.insert(name.clone(), default.clone());
        }
    }
    Ok(known)
}

/// Returns true if a schema has this type among its types.
fn has_type(schema: &Value, kind: &str) -> bool {
    schema.get("type").is_some_and(|types| {
        types == kind || types.as_array().is_some_and(|types| types.iter().any(|known| known == kind))
    })
}

/// Returns true if a value means that an optional field is not given. Strict function calling requires every field, so
/// clients send an empty value.
fn is_absent(name: &str, value: &Value, schema: &Value) -> bool {
    /// Fields whose text may be empty: it deletes text, or creates an empty file.
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
        Value::Array(list) => list.is_empty() && has_type(schema, "array"),
        Value::Number(number) => {
            let is_counted = schema.get("minimum").and_then(Value::as_f64).is_some_and(|least| least > 0.0);
            number.as_f64() == Some(0.0) && (is_counted || schema.get(NOT_ZERO).is_some())
        }
        // An empty map is valid: it lists no files.
        Value::Object(_) | Value::Bool(_) | Value::Null => false,
    }
}

/// Returns the integer for a number such as `2.0` or `1e2`, if a float can represent it exactly.
fn whole_number(number: &serde_json::Number) -> Option<i64> {
    let value = number.as_f64().filter(|value| value.fract() == 0.0)?;
    // `{:.0}` writes all digits of a whole float; values outside the range of i64 do not parse.
    format!("{value:.0}").parse().ok()
}

/// Rejects a number outside the range of its field.
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
fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Returns the error for an unknown field.
fn unknown_field(field: &str, fields: &Map<String, Value>) -> Error {
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
fn not_among(value: &Value, allowed: &[Value], path: &str) -> Error {
    let names: Vec<String> =
        allowed.iter().filter_map(Value::as_str).map(|name| format!("\"{name}\"")).collect();
    Error::invalid(format!("field `{path}`: expected {}, got {}", names.join(" or "), short_value(value)))
        .detail("field", path)
}

/// Returns the error for a value of the wrong type.
fn wrong_type(value: &Value, schema: &Value, path: &str) -> Error {
    let (expected, got) = (describe(schema), short_value(value));
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
fn describe(schema: &Value) -> String {
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
pub fn short_value(value: &Value) -> String {
    const CHARACTERS_MAX: usize = 60;
    cut(&value.to_string(), CHARACTERS_MAX).into_owned()
}

/// Returns the caller's text for a message, cut if it is long.
pub fn quoted(text: &str) -> Cow<'_, str> {
    const CHARACTERS_MAX: usize = 200;
    cut(text, CHARACTERS_MAX)
}

/// Returns the start of a text, with a mark if it continues.
pub fn cut(text: &str, characters_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters_max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}

/// Bytes of an escaped UTF-16 code unit in JSON, such as `\ud83d`.
const ESCAPE_BYTES: usize = 6;

/// Returns JSON with U+FFFD in place of each escaped surrogate that is half of a pair.
pub fn whole_characters(json: &str) -> String {
    let code = |escape: &str| u16::from_str_radix(escape.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let (mut whole, mut rest) = (String::with_capacity(json.len()), json);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        let next = escape.get(ESCAPE_BYTES..).unwrap_or_default();
        let (kept, length) = match (code(escape), code(next)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => {
                (escape.get(..2 * ESCAPE_BYTES), 2 * ESCAPE_BYTES)
            }
            (Some(0xd800..0xe000), _) => (Some("\u{fffd}"), ESCAPE_BYTES),
            // The character after the backslash, which may be one too.
            _ => (None, 1 + escape.get(1..).and_then(|it| it.chars().next()).map_or(0, char::len_utf8)),
        };
        let (own, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
        whole.extend([before, kept.unwrap_or(own)]);
        rest = after;
    }
    whole + rest
}

/// Returns JSON without the byte order mark that some programs begin with, such as PowerShell's pipes.
pub fn without_bom(json: &[u8]) -> &[u8] {
    json.strip_prefix(UTF8_BOM).unwrap_or(json)
}

/// Reads one JSON text; rejects duplicate keys.
///
/// # Errors
/// Returns `invalid_request` with line and column.
pub fn read_json(text: &[u8]) -> Result<Value, Error> {
    let text = without_bom(text);
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value =
        StrictJson.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
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
struct StrictJson;

impl<'de> DeserializeSeed<'de> for StrictJson {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictJson {
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

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// Request with every kind of step to a value. The schema of a list of pairs and of the type itself says nothing
    /// about what is inside, so these errors are serde's.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Request {
        /// List of pairs.
        pairs: Vec<(u8, bool)>,
        /// Numbers by name.
        #[serde(default)]
        numbers: BTreeMap<String, u8>,
        /// Nested request.
        inner: Option<Box<Self>>,
    }

    #[test]
    fn field_error_names_the_field_and_the_expected_value() {
        let cases = [
            (json!([]), "the request must be a JSON object, got []"),
            (json!({}), "field `pairs` is missing"),
            (json!({ "pairs": null }), "field `pairs` is missing"),
            (json!({ "pairs": [[1, true], 2] }), "field `pairs[1]`: expected a list, got 2"),
            (
                json!({ "pairs": [[1, true, 3]] }),
                "field `pairs[0]`: invalid length 3, expected fewer elements in array",
            ),
            (
                json!({ "pairs": [[1, "x"]] }),
                "field `pairs[0][1]`: invalid type: string \"x\", expected a boolean",
            ),
            (
                json!({ "pairs": [], "numbers": { "a": 1, "b": 300 } }),
                "field `numbers.b`: expected a whole number from 0 to 255, got 300",
            ),
            (
                json!({ "pairs": [], "inner": { "pairs": [], "inner": {} } }),
                "field `inner.inner`: missing field `pairs`",
            ),
            (
                json!({ "pairs": [], "inner": { "pears": 1 } }),
                "unknown field `inner.pears`, did you mean `pairs`? (accepted: inner, numbers, pairs)",
            ),
        ];
        for (value, expected) in cases {
            assert_eq!(parse::<Request>(value).unwrap_err().message(), expected);
        }
    }
}
