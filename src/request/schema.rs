//! The schemas of requests and answers, and what they keep beside the standard's own words.

use std::borrow::Cow;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// Where the schema of a field keeps its other names.
const ALIASES: &str = "x-aliases";
/// Where it keeps further values that it takes.
pub(super) const VALUES: &str = "x-values";
/// What marks a field that is taken, for the sake of habit, and not shown.
pub(super) const HIDDEN: &str = "x-hidden";
/// The names of a schema that are taken, for the sake of habit, and left out: they say nothing here.
pub(super) const IGNORED: &str = "x-ignored";
/// Mark of a text that is also taken as a list of words, for a shell to split.
pub(super) const WORDS: &str = "x-words";

/// Mark of a number for which 0 means nothing, though negative numbers mean something.
pub(super) const NOT_ZERO: &str = "x-not-zero";

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

/// A schema as it is shown: without other names and values, without fields that are taken for the sake of habit, and
/// with one type a field, since some model APIs take no more. What else a field takes is taken all the same.
#[must_use]
pub fn advertised(mut schema: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove(ALIASES);
                map.remove(VALUES);
                map.remove(IGNORED);
                map.remove(WORDS);
                map.remove(NOT_ZERO);
                if let Some(Value::Array(kinds)) = map.get("type") {
                    let shown =
                        ["array", "string"].into_iter().find(|kind| kinds.iter().any(|known| known == kind));
                    let shown = shown.map(Value::from).or_else(|| kinds.first().cloned());
                    map.extend(shown.map(|kind| ("type".to_owned(), kind)));
                }
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
pub(super) fn aliases_of(field: &Value) -> impl Iterator<Item = &str> {
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
