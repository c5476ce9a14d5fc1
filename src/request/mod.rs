//! From JSON to a request, with messages that name the field.
//!
//! The schema of a request's type says which fields there are, and under which other names models
//! know them (`x-aliases`); nothing is declared a second time here. Before serde sees a request it
//! is brought into that schema's form: names folded, numbers and booleans taken from text, a
//! single item made a list, nulls dropped.

mod field_value;

use std::any::TypeId;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::text::likeness;
use field_value::{FieldError, FieldValue};

/// Size of one request, in bytes.
pub const REQUEST_BYTES_MAX: u64 = 256 << 20;
/// Where the schema of a field keeps its other names.
const ALIASES: &str = "x-aliases";
/// Where it keeps further values that it takes.
const VALUES: &str = "x-values";
/// What marks a field that is taken, for the sake of habit, and not shown.
const HIDDEN: &str = "x-hidden";
/// The names of a schema that are taken, for the sake of habit, and left out: they say nothing here.
const IGNORED: &str = "x-ignored";

/// The schema of a request, in one piece, without what a reader does not need.
#[must_use]
pub fn schema_of<T: JsonSchema>() -> Value {
    request_schema(Described::of::<T>())
}

/// The schema of an answer, in which a field that may be left out is not required.
#[must_use]
pub fn answer_schema_of<T: JsonSchema>() -> Value {
    generate(SchemaSettings::draft2020_12().for_serialize(), Described::of::<T>())
}

/// What generates the schema of a type. As a value, so that all that is done with it is compiled once and
/// not once for each type.
#[derive(Clone, Copy)]
struct Described {
    /// The name of the type.
    name: fn() -> Cow<'static, str>,
    /// Its schema.
    schema: fn(&mut SchemaGenerator) -> Schema,
}

impl Described {
    /// That of `T`.
    fn of<T: JsonSchema>() -> Self {
        Self { name: T::schema_name, schema: T::json_schema }
    }
}

/// [`schema_of`] without the type.
fn request_schema(of: Described) -> Value {
    let mut schema = generate(SchemaSettings::draft2020_12(), of);
    // serde cannot say so of a type that takes in another's fields; here it always holds.
    if let Some(object) = schema.as_object_mut() {
        object.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    schema
}

/// Generates a tidy schema.
fn generate(settings: SchemaSettings, of: Described) -> Value {
    let mut generator = settings.with(|settings| settings.inline_subschemas = true).into_generator();
    let mut schema = (of.schema)(&mut generator);
    let object = schema.ensure_object();
    object.entry("title").or_insert_with(|| (of.name)().into());
    // Only a type that holds itself cannot stand where it is used.
    let definitions = generator.take_definitions(false);
    if !definitions.is_empty() {
        object.insert("$defs".to_owned(), definitions.into());
    }
    let mut value = schema.to_value();
    tidy(&mut value);
    value
}

/// A schema as it is shown: without other names and values, and without fields that are taken for the sake of habit.
#[must_use]
pub fn advertised(mut schema: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove(ALIASES);
                map.remove(VALUES);
                map.remove(IGNORED);
                map.retain(|_, value| value.get(HIDDEN).is_none());
                map.values_mut().for_each(strip);
            }
            Value::Array(list) => list.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut schema);
    schema
}

/// The other names of each field of a schema.
pub fn aliases(schema: &Value) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.into_iter().flatten().filter_map(|(name, field)| {
        let names: Vec<&str> = aliases_of(field).collect();
        (!names.is_empty()).then_some((name.as_str(), names))
    })
}

/// The other names in the schema of one field.
fn aliases_of(field: &Value) -> impl Iterator<Item = &str> {
    field.get(ALIASES).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Drops formats, titles and nulls from a schema, and makes lists of constants enumerations.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(map) => {
            tidy_object(map);
            map.values_mut().for_each(tidy);
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// [`tidy`] for one object of a schema.
fn tidy_object(map: &mut Map<String, Value>) {
    if map.get("type").is_some_and(|kind| kind.is_string() || kind.is_array()) {
        map.remove("format");
        map.remove("title");
    }
    if map.get("default").is_some_and(Value::is_null) {
        map.remove("default");
    }
    if let Some(Value::Array(kinds)) = map.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [only] = choices.as_slice() {
            let only = only.clone();
            map.remove("anyOf");
            merge(map, only);
        }
    }
    if let Some(constants) = constants_of(map) {
        map.remove("oneOf");
        map.insert("type".to_owned(), Value::from("string"));
        map.insert("enum".to_owned(), Value::Array(constants));
    }
}

/// Adds what `map` does not say itself.
fn merge(map: &mut Map<String, Value>, other: Value) {
    if let Value::Object(other) = other {
        for (key, value) in other {
            map.entry(key).or_insert(value);
        }
    }
}

/// The constants of a `oneOf` that has nothing else.
fn constants_of(map: &Map<String, Value>) -> Option<Vec<Value>> {
    let choices = map.get("oneOf")?.as_array()?;
    choices.iter().map(|choice| choice.get("const").cloned()).collect()
}

/// Reads one JSON text in which no object has a key twice.
///
/// # Errors
/// `invalid_request` with line and column.
pub fn read_json(text: &[u8]) -> Result<Value, Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Strict.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| {
        Error::invalid(format!("the request is not valid JSON: {error}"))
            .suggest("Send one JSON object.")
            .on_command_line("Or use flags: `lbx TOOL --help` lists them.")
    })
}

/// Builds a [`Value`] and refuses a key that comes twice.
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

/// A request of type `T` from JSON.
///
/// # Errors
/// `invalid_request` that names the field and what was expected.
pub fn parse<T: DeserializeOwned + JsonSchema + 'static>(value: Value) -> Result<T, Error> {
    let value = in_known_form(value, TypeId::of::<T>(), schema_of::<T>)?;
    T::deserialize(FieldValue(value)).map_err(unfit)
}

/// A request in the form of its type's schema.
fn in_known_form(value: Value, id: TypeId, schema: fn() -> Value) -> Result<Value, Error> {
    in_form(value, &known_schema(id, schema), "")
}

/// The refusal of a field that its type cannot take.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn unfit(error: FieldError) -> Error {
    let field = error.path();
    Error::invalid(format!("field `{field}`: {}", cut(&error.to_string(), 1_000))).detail("field", field)
}

/// The schema of a type, generated once in the life of a process: a server parses thousands of requests,
/// and generating the schema takes longer than a small read.
fn known_schema(id: TypeId, schema: fn() -> Value) -> Arc<Value> {
    static KNOWN: RwLock<BTreeMap<TypeId, Arc<Value>>> = RwLock::new(BTreeMap::new());
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
    known.unwrap_or_else(|| {
        let schema = Arc::new(schema());
        let mut all = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        all.entry(id).or_insert(schema).clone()
    })
}

/// What clap has to say of a request, as a refusal. What it suggests is left out: it knows spellings, and
/// not what is meant.
#[must_use]
pub fn flag_error(error: &clap::Error) -> Error {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    // The first paragraph says what is wrong; usage and tips follow.
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

/// The field that a request by flags lacks, where that is what clap says.
fn missing_field<'m>(error: &clap::Error, message: &'m str) -> Option<&'m str> {
    let is_missing = error.kind() == clap::error::ErrorKind::MissingRequiredArgument;
    message.rsplit_once("was not provided: ").map(|(_, field)| field).filter(|_| is_missing)
}

/// A request, or a part of it, in the form of its schema.
fn in_form(value: Value, schema: &Value, path: &str) -> Result<Value, Error> {
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
        && let Ok(number) = trimmed.parse::<i64>()
    {
        return within_range(number.into(), schema, path);
    }
    if takes("boolean")
        && let Ok(value) = trimmed.parse::<bool>()
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
    let mut known: Map<String, Value> = Map::new();
    for (given, value) in
        object.into_iter().filter(|(given, _)| !ignored.iter().any(|name| name == given.as_str()))
    {
        let Some(name) = field_for(&given, &value, fields) else {
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
        if !value.is_null() {
            let schema = fields.get(name).unwrap_or(&Value::Null);
            known.insert(name.to_owned(), in_form(value, schema, &joined(path, name))?);
        }
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !known.contains_key(name) {
            let field = joined(path, name);
            return Err(Error::invalid(format!("field `{field}` is missing"))
                .detail("field", field)
                .detail("expected", describe(fields.get(name).unwrap_or(&Value::Null))));
        }
    }
    Ok(known)
}

/// The field that a name stands for, by what it is given: a text under a name that is one field's
/// own and another's alias belongs to the one that takes text.
fn field_for<'a>(given: &str, value: &Value, fields: &'a Map<String, Value>) -> Option<&'a str> {
    let name = field_named(given, fields)?;
    let takes_text = |field: &Value| field.get("type").is_some_and(|kind| kind == "string");
    let is_flag = fields.get(name).and_then(|field| field.get("type")).is_some_and(|kind| kind == "boolean");
    let is_prose = value.as_str().is_some_and(|text| text.trim().parse::<bool>().is_err());
    if is_flag && is_prose {
        let other = fields
            .iter()
            .find(|(_, field)| takes_text(field) && aliases_of(field).any(|alias| alias == given));
        return Some(other.map_or(name, |(other, _)| other));
    }
    Some(name)
}

/// The field that a name stands for: itself, its camelCase spelling, or an alias.
fn field_named<'a>(given: &str, fields: &'a Map<String, Value>) -> Option<&'a str> {
    let snake = snake_case(given);
    let by_name = fields.keys().find(|name| *name == given || **name == snake);
    let by_alias = || {
        fields
            .iter()
            .find(|(_, field)| aliases_of(field).any(|alias| alias == given || alias == snake))
            .map(|(name, _)| name)
    };
    by_name.or_else(by_alias).map(String::as_str)
}

/// `camelCase` and `kebab-case` as `snake_case`.
#[must_use]
pub fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            if !snake.is_empty() && !snake.ends_with('_') {
                snake.push('_');
            }
            snake.push(character.to_ascii_lowercase());
        } else {
            snake.push(if character == '-' { '_' } else { character });
        }
    }
    snake
}

/// A field's name with that of the object it is in.
fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
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

/// The field that a name stands for in the requests of this schema, itself or an alias.
#[must_use]
pub fn field_of(given: &str, schema: &Value) -> Option<String> {
    let fields = schema.get("properties")?.as_object()?;
    let own = field_named(&snake_case(given), fields);
    own.or_else(|| field_named(given, fields)).map(str::to_owned)
}

/// What the words of names from other tools mean here.
const SYNONYMS: [(&str, &str); 9] = [
    ("head", "limit"),
    ("top", "limit"),
    ("max", "limit"),
    ("tail", "offset"),
    ("skip", "offset"),
    ("from", "start_line"),
    ("lines", "limit"),
    ("folder", "path"),
    ("dir", "path"),
];

/// The fields that an unknown name may stand for, the likeliest first: they share a word with
/// it, or nearly all letters.
#[must_use]
pub fn plausible(given: &str, schema: &Value) -> Vec<String> {
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.map(|fields| plausible_fields(given, fields)).unwrap_or_default()
}

/// [`plausible`] among the fields of an object.
fn plausible_fields(given: &str, fields: &Map<String, Value>) -> Vec<String> {
    /// Letters that a word needs to tell anything.
    const LETTERS_MIN: usize = 3;
    /// Fields that a refusal offers.
    const OFFERED_MAX: usize = 3;
    let given = snake_case(given);
    let words: Vec<&str> = given.split('_').filter(|word| word.len() >= LETTERS_MIN).collect();
    let shares = |name: &str| name.split('_').any(|word| words.contains(&word));
    let joined = given.replace('_', "");
    let is_like = |name: &str| {
        let name = name.replace('_', "");
        !likeness::nearest(joined.as_str(), &[name.as_str()], 1, 0.88).is_empty()
    };
    let rank = |name: &str, field: &Value| {
        let is_near = !likeness::nearest(given.as_str(), &[name], 1, 0.8).is_empty();
        let is_synonym = SYNONYMS.iter().any(|(word, meant)| *meant == name && words.contains(word));
        let is_like_alias =
            aliases_of(field).any(|alias| alias.len() >= LETTERS_MIN && (shares(alias) || is_like(alias)));
        [is_near, shares(name), is_synonym, is_like_alias].iter().position(|&fits| fits)
    };
    let shown = fields.iter().filter(|(_, field)| field.get(HIDDEN).is_none());
    let mut ranked: Vec<(usize, &String)> =
        shown.filter_map(|(name, field)| Some((rank(name, field)?, name))).collect();
    ranked.sort();
    ranked.into_iter().take(OFFERED_MAX).map(|(_, name)| name.clone()).collect()
}

/// The refusal of a field that there is not.
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

/// The refusal of a value that is none of those allowed.
fn not_among(value: &Value, allowed: &[Value], path: &str) -> Error {
    let names: Vec<String> =
        allowed.iter().filter_map(Value::as_str).map(|name| format!("\"{name}\"")).collect();
    Error::invalid(format!("field `{path}`: expected {}, got {}", names.join(" or "), shortened(value)))
        .detail("field", path)
}

/// The refusal of a value of the wrong type.
fn wrong_type(value: &Value, schema: &Value, path: &str) -> Error {
    let (expected, got) = (describe(schema), shortened(value));
    if path.is_empty() {
        return Error::invalid(format!("the request must be {expected}, got {got}"));
    }
    Error::invalid(format!("field `{path}`: expected {expected}, got {got}"))
        .detail("field", path)
        .detail("expected", expected)
}

/// What a schema wants, in words.
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

/// A value for a message, cut where it is long.
#[must_use]
pub fn shortened(value: &Value) -> String {
    const CHARACTERS_MAX: usize = 60;
    cut(&value.to_string(), CHARACTERS_MAX).into_owned()
}

/// What a caller wrote, as a message repeats it: cut where it is long.
#[must_use]
pub fn quoted(text: &str) -> Cow<'_, str> {
    const CHARACTERS_MAX: usize = 200;
    cut(text, CHARACTERS_MAX)
}

/// The beginning of a text, with a sign where it goes on.
fn cut(text: &str, characters_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters_max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}
