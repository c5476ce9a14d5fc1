//! Schemas of requests and responses, and the extra keywords that they use.

use std::borrow::Cow;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

use crate::text::similarity;

/// Keyword for the aliases of a field.
const ALIASES: &str = "x-aliases";
/// Keyword for values that a field also accepts.
pub(super) const VALUES: &str = "x-values";
/// Keyword for a field that is accepted out of habit but not shown.
pub(super) const HIDDEN: &str = "x-hidden";
/// Keyword for names that are accepted out of habit and ignored.
pub(super) const IGNORED: &str = "x-ignored";
/// Keyword for a string that may also be given as a list of words, for a shell to split.
pub(super) const WORDS: &str = "x-words";
/// Keyword for the label of an encoding.
pub(super) const ENCODING: &str = "x-encoding";
/// Keyword for a number for which 0 means not given, though negative numbers have a meaning.
pub(super) const NOT_ZERO: &str = "x-not-zero";

/// Returns the schema of a request, without references and without parts that a reader does not need.
pub fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = generate(SchemaSettings::draft2020_12(), T::schema_name, T::json_schema);
    for_each_object(&mut schema, &complete);
    schema
}

/// Returns the schema of a response, in which a field that may be omitted is not required.
pub fn answer_schema_of<T: JsonSchema>() -> Value {
    generate(SchemaSettings::draft2020_12().for_serialize(), T::schema_name, T::json_schema)
}

/// Changes each object in a value, the outer ones first.
pub fn for_each_object(value: &mut Value, change: &impl Fn(&mut Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            change(object);
            object.values_mut().for_each(|value| for_each_object(value, change));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| for_each_object(value, change)),
        _ => {}
    }
}

/// Closes an object of the schema of a request to other fields, and makes its booleans optional: they are false by
/// default. So no type says either.
fn complete(object: &mut Map<String, Value>) {
    let mut required = object.remove("required");
    let names = required.as_mut().and_then(Value::as_array_mut);
    if let Some(Value::Object(fields)) = object.get_mut("properties") {
        let mut is_optional = |name: &Value| {
            let field = name.as_str().and_then(|name| fields.get_mut(name)).and_then(Value::as_object_mut);
            let switch = field.filter(|field| field.get("type").is_some_and(|kind| kind == "boolean"));
            switch.map(|field| field.insert("default".to_owned(), false.into())).is_some()
        };
        names.into_iter().for_each(|names| names.retain(|name| !is_optional(name)));
        object.insert("additionalProperties".to_owned(), false.into());
    }
    let required = required.filter(|names| names.as_array().is_none_or(|names| !names.is_empty()));
    object.extend(required.map(|names| ("required".to_owned(), names)));
}

/// Generates a tidy schema of a type. It has no type parameter, so that it is compiled once and not once for each type.
fn generate(
    settings: SchemaSettings,
    name: fn() -> Cow<'static, str>,
    make: fn(&mut SchemaGenerator) -> Schema,
) -> Value {
    let mut generator = settings.with(|settings| settings.inline_subschemas = true).into_generator();
    let mut schema = make(&mut generator);
    let object = schema.ensure_object();
    object.entry("title").or_insert_with(|| name().into());
    // Only a recursive type cannot be inlined.
    let definitions = generator.take_definitions(false);
    if !definitions.is_empty() {
        object.insert("$defs".to_owned(), definitions.into());
    }
    let mut value = schema.to_value();
    for_each_object(&mut value, &tidy);
    value
}

/// Returns a schema as callers see it: without aliases and hidden fields and values, and with one type per field, since
/// some model APIs accept no more. The hidden forms are still accepted.
pub fn schema_for_callers(mut schema: Value) -> Value {
    for_each_object(&mut schema, &|map| {
        for keyword in [ALIASES, VALUES, IGNORED, WORDS, ENCODING, NOT_ZERO] {
            map.remove(keyword);
        }
        if let Some(Value::Array(kinds)) = map.get("type") {
            let shown = ["array", "string"].into_iter().find(|kind| kinds.iter().any(|known| known == kind));
            let shown = shown.map(Value::from).or_else(|| kinds.first().cloned());
            map.extend(shown.map(|kind| ("type".to_owned(), kind)));
        }
        map.retain(|_, value| value.get(HIDDEN).is_none());
    });
    schema
}

/// Returns the aliases of each field of a schema.
pub fn aliases(schema: &Value) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.into_iter().flatten().filter_map(|(name, field)| {
        let names: Vec<&str> = aliases_of(field).collect();
        (!names.is_empty()).then_some((name.as_str(), names))
    })
}

/// Returns the aliases in the schema of one field.
pub(super) fn aliases_of(field: &Value) -> impl Iterator<Item = &str> {
    field.get(ALIASES).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Drops formats, titles and nulls from an object of a schema, and turns lists of constants into enums.
fn tidy(map: &mut Map<String, Value>) {
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

/// Adds the keys that `map` does not have.
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

/// Returns the field for a name, based on the value: if a name is a field and also the alias of another field, a string
/// goes to the field that takes text.
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

/// Returns the field for a name: the field itself, its camelCase spelling, or an alias.
fn field_named<'a>(given: &str, fields: &'a Map<String, Value>) -> Option<&'a str> {
    let snake = snake_case(given);
    find_field(fields, &|name| name == given || name == snake)
}

/// Returns the field whose name without separators equals this name.
fn field_joined<'a>(given: &str, fields: &'a Map<String, Value>) -> Option<&'a str> {
    let joined = snake_case(given).replace('_', "");
    find_field(fields, &|name| name.replace('_', "") == joined)
}

/// Returns the field whose name matches, or else whose alias matches.
fn find_field<'a>(fields: &'a Map<String, Value>, is: &dyn Fn(&str) -> bool) -> Option<&'a str> {
    let by_name = fields.keys().find(|name| is(name));
    let by_alias = || fields.iter().find(|(_, field)| aliases_of(field).any(is)).map(|(name, _)| name);
    by_name.or_else(by_alias).map(String::as_str)
}

/// Converts `camelCase` and `kebab-case` to `snake_case`.
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

/// Returns the field for a name or an alias in the requests of this schema.
pub fn field_of(given: &str, schema: &Value) -> Option<String> {
    let fields = schema.get("properties")?.as_object()?;
    let own = field_named(&snake_case(given), fields);
    own.or_else(|| field_named(given, fields)).map(str::to_owned)
}

/// Meaning of words in names from other tools.
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

/// Returns the fields that an unknown name may mean, the most likely first: they share a word with it, or nearly all
/// letters.
pub fn plausible(given: &str, schema: &Value) -> Vec<String> {
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.map(|fields| plausible_fields(given, fields)).unwrap_or_default()
}

/// Applies [`plausible`] to the fields of an object.
pub(super) fn plausible_fields(given: &str, fields: &Map<String, Value>) -> Vec<String> {
    /// Smallest number of letters in a word that is compared.
    const LETTERS_MIN: usize = 3;
    /// Largest number of fields that an error suggests.
    const OFFERED_MAX: usize = 3;
    let given = snake_case(given);
    let words: Vec<&str> = given.split('_').filter(|word| word.len() >= LETTERS_MIN).collect();
    let shares = |name: &str| name.split('_').any(|word| words.contains(&word));
    let joined = given.replace('_', "");
    let is_like = |name: &str| {
        let name = name.replace('_', "");
        !similarity::nearest(joined.as_str(), &[name.as_str()], 1, 0.88).is_empty()
    };
    let rank = |name: &str, field: &Value| {
        let is_near = !similarity::nearest(given.as_str(), &[name], 1, 0.8).is_empty();
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
