//! The schemas of requests and answers, and what they keep beside the standard's own words.

use std::borrow::Cow;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

use crate::text::likeness;

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

/// Returns the schema of a request, in one piece, without what a reader does not need.
#[must_use]
pub fn schema_of<T: JsonSchema>() -> Value {
    request_schema(Described::of::<T>())
}

/// Returns the schema of an answer, in which a field that may be left out is not required.
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
    /// Returns the entry of `T`.
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

/// Returns a schema as it is shown: without other names and values, without fields that are taken for the sake of
/// habit, and with one type a field, since some model APIs take no more. What else a field takes is taken all the
/// same.
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

/// Returns the other names of each field of a schema.
pub fn aliases(schema: &Value) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.into_iter().flatten().filter_map(|(name, field)| {
        let names: Vec<&str> = aliases_of(field).collect();
        (!names.is_empty()).then_some((name.as_str(), names))
    })
}

/// Returns the other names in the schema of one field.
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

/// Returns the constants of a `oneOf` that has nothing else.
fn constants_of(map: &Map<String, Value>) -> Option<Vec<Value>> {
    let choices = map.get("oneOf")?.as_array()?;
    choices.iter().map(|choice| choice.get("const").cloned()).collect()
}

/// Returns the field that a name stands for, by what it is given: a text under a name that is one field's own and
/// another's alias belongs to the one that takes text.
pub(super) fn field_for<'a>(given: &str, value: &Value, fields: &'a Map<String, Value>) -> Option<&'a str> {
    let name = field_named(given, fields).or_else(|| field_joined(given, fields))?;
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

/// Returns the field that a name stands for: itself, its camelCase spelling, or an alias.
fn field_named<'a>(given: &str, fields: &'a Map<String, Value>) -> Option<&'a str> {
    let snake = snake_case(given);
    find_field(fields, &|name| name == given || name == snake)
}

/// Returns the field whose name this is without its separators.
fn field_joined<'a>(given: &str, fields: &'a Map<String, Value>) -> Option<&'a str> {
    let joined = snake_case(given).replace('_', "");
    find_field(fields, &|name| name.replace('_', "") == joined)
}

/// The field with a name, or else an alias, that is meant.
fn find_field<'a>(fields: &'a Map<String, Value>, is: &dyn Fn(&str) -> bool) -> Option<&'a str> {
    let by_name = fields.keys().find(|name| is(name));
    let by_alias = || fields.iter().find(|(_, field)| aliases_of(field).any(is)).map(|(name, _)| name);
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

/// Returns the field that a name stands for in the requests of this schema, itself or an alias.
#[must_use]
pub fn field_of(given: &str, schema: &Value) -> Option<String> {
    let fields = schema.get("properties")?.as_object()?;
    let own = field_named(&snake_case(given), fields);
    own.or_else(|| field_named(given, fields)).map(str::to_owned)
}

/// What the words of names from other tools mean here.
const SYNONYMS: [(&str, &str); 10] = [
    ("head", "limit"),
    ("top", "limit"),
    ("max", "limit"),
    ("tail", "offset"),
    ("skip", "offset"),
    ("from", "start_line"),
    ("lines", "limit"),
    ("lines", "ranges"),
    ("folder", "path"),
    ("dir", "path"),
];

/// Returns the fields that an unknown name may stand for, the likeliest first: they share a word with it, or nearly
/// all letters.
#[must_use]
pub fn plausible(given: &str, schema: &Value) -> Vec<String> {
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.map(|fields| plausible_fields(given, fields)).unwrap_or_default()
}

/// [`plausible`] among the fields of an object.
pub(super) fn plausible_fields(given: &str, fields: &Map<String, Value>) -> Vec<String> {
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
