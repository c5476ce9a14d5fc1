//! The fields that names stand for, and those that may be meant by names that are not known.

use serde_json::{Map, Value};

use super::schema::{HIDDEN, aliases_of};
use crate::text::likeness;

/// The field that a name stands for, by what it is given: a text under a name that is one field's
/// own and another's alias belongs to the one that takes text.
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

/// The field that a name stands for: itself, its camelCase spelling, or an alias.
fn field_named<'a>(given: &str, fields: &'a Map<String, Value>) -> Option<&'a str> {
    let snake = snake_case(given);
    find_field(fields, &|name| name == given || name == snake)
}

/// The field whose name this is without its separators.
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

/// The field that a name stands for in the requests of this schema, itself or an alias.
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

/// The fields that an unknown name may stand for, the likeliest first: they share a word with
/// it, or nearly all letters.
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
