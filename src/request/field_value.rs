//! From a JSON value to a type, with the field that did not fit.
//!
//! Serde code is compiled again for each deserializer that a type is read with. Requests are read with this
//! one alone, which offers a type only what JSON in the form of its schema can hold: an object to a struct,
//! a list to a list, a text to an enumeration.

use std::fmt::{self, Write as _};
use std::iter::Enumerate;
use std::{mem, vec};

use serde::de::value::{StrDeserializer, StringDeserializer};
use serde::de::{
    self, DeserializeSeed, Deserializer, Error as _, Expected, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Number, Value, map};

/// The value of a field, or a whole request.
pub struct FieldValue(pub Value);

impl<'de> Deserializer<'de> for FieldValue {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self.0 {
            Value::Array(list) => visitor.visit_seq(Items::of(list)),
            Value::Object(fields) => visitor.visit_map(Fields::of(fields)),
            single => visit_single(single, visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            value => visitor.visit_some(Self(value)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self.0 {
            Value::Array(list) => visitor.visit_seq(Items::of(list)),
            other => Err(not_expected(other, &visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, FieldError> {
        match self.0 {
            // Whoever reads a tuple does not see that there is more.
            Value::Array(list) if list.len() > length => {
                Err(FieldError::invalid_length(list.len(), &visitor))
            }
            value => Self(value).deserialize_seq(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self.0 {
            Value::Object(fields) => visitor.visit_map(Fields::of(fields)),
            other => Err(not_expected(other, &visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        match self.0 {
            Value::String(variant) => visitor.visit_enum(StringDeserializer::new(variant)),
            other => Err(not_expected(other, &"string")),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visit_single(self.0, visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visit_single(self.0, visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visit_single(self.0, visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visit_single(self.0, visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visit_single(self.0, visitor)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u32 u128 f32 f64 char bytes byte_buf unit unit_struct tuple_struct identifier
        ignored_any
    }
}

/// Hands over a value that holds no others.
fn visit_single<'de, V: Visitor<'de>>(value: Value, visitor: V) -> Result<V::Value, FieldError> {
    match value {
        Value::Null => visitor.visit_unit(),
        Value::Bool(value) => visitor.visit_bool(value),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => visitor.visit_u64(number),
            (None, Some(number)) => visitor.visit_i64(number),
            (None, None) => visitor.visit_f64(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => visitor.visit_string(text),
        other @ (Value::Array(_) | Value::Object(_)) => Err(not_expected(other, &visitor)),
    }
}

/// The error of a value of another type.
#[expect(
    clippy::needless_pass_by_value,
    reason = "so that it is dropped here, and not in each caller's copy"
)]
fn not_expected(value: Value, expected: &dyn Expected) -> FieldError {
    let found = match &value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => of_number(number),
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    };
    FieldError::invalid_type(found, expected)
}

/// A number as an error names it.
fn of_number(number: &Number) -> Unexpected<'static> {
    match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => Unexpected::Unsigned(number),
        (None, Some(number)) => Unexpected::Signed(number),
        (None, None) => Unexpected::Float(number.as_f64().unwrap_or_default()),
    }
}

/// The items of a list.
struct Items(Enumerate<vec::IntoIter<Value>>);

impl Items {
    /// Those of a list.
    fn of(list: Vec<Value>) -> Self {
        Self(list.into_iter().enumerate())
    }
}

impl<'de> SeqAccess<'de> for Items {
    type Error = FieldError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, FieldError> {
        let Some((index, value)) = self.0.next() else { return Ok(None) };
        match seed.deserialize(FieldValue(value)) {
            Ok(item) => Ok(Some(item)),
            Err(error) => Err(error.below(Step::Item(index))),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The fields of an object.
struct Fields {
    /// Those that nobody has asked for yet.
    rest: map::IntoIter,
    /// The name of the field that was asked for last.
    name: String,
    /// Its value, until that is asked for too.
    value: Option<Value>,
}

impl Fields {
    /// Those of an object.
    fn of(fields: Map<String, Value>) -> Self {
        Self { rest: fields.into_iter(), name: String::new(), value: None }
    }

    /// The name of the next field, if there is one.
    fn next_name(&mut self) -> Option<&str> {
        let (name, value) = self.rest.next()?;
        (self.name, self.value) = (name, Some(value));
        Some(&self.name)
    }

    /// The value of the field that was asked for last.
    fn next_value(&mut self) -> Result<FieldValue, FieldError> {
        self.value.take().map(FieldValue).ok_or_else(|| FieldError::custom("value is missing"))
    }

    /// An error of the field that was asked for last.
    fn unfit(&mut self, error: FieldError) -> FieldError {
        error.below(Step::Field(mem::take(&mut self.name)))
    }
}

impl<'de> MapAccess<'de> for Fields {
    type Error = FieldError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, FieldError> {
        let Some(name) = self.next_name() else { return Ok(None) };
        match seed.deserialize(StrDeserializer::<FieldError>::new(name)) {
            Ok(key) => Ok(Some(key)),
            Err(error) => Err(self.unfit(error)),
        }
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, FieldError> {
        match seed.deserialize(self.next_value()?) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.unfit(error)),
        }
    }
}

/// A step from a value to one that it holds.
#[derive(Debug)]
enum Step {
    /// To a field of that name.
    Field(String),
    /// To the item of that index.
    Item(usize),
}

/// What a type cannot take, and where it is.
#[derive(Debug)]
pub struct FieldError {
    /// What is wrong.
    message: String,
    /// The way there, from its end.
    steps: Vec<Step>,
}

impl FieldError {
    /// The same error, of a value which that step led to.
    fn below(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The field, as in `edits[2].old_string`; `.` for the request itself.
    #[must_use]
    pub fn path(&self) -> String {
        let mut path = String::new();
        for (at, step) in self.steps.iter().rev().enumerate() {
            // Writing to a text cannot fail.
            let _ = match step {
                Step::Field(name) if at == 0 => write!(path, "{name}"),
                Step::Field(name) => write!(path, ".{name}"),
                Step::Item(index) => write!(path, "[{index}]"),
            };
        }
        if self.steps.is_empty() { ".".to_owned() } else { path }
    }
}

impl From<serde_json::Error> for FieldError {
    fn from(error: serde_json::Error) -> Self {
        Self { message: error.to_string(), steps: Vec::new() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FieldError {}

impl de::Error for FieldError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), steps: Vec::new() }
    }

    // In the words of JSON: serde itself has a unit where JSON has null.
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        serde_json::Error::invalid_type(found, expected).into()
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        serde_json::Error::invalid_value(found, expected).into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// A request with every way to a value.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Request {
        /// A list of pairs.
        pairs: Vec<(u8, bool)>,
        /// Numbers by name.
        #[serde(default)]
        numbers: BTreeMap<String, u8>,
        /// The same again.
        inner: Option<Box<Self>>,
    }

    #[test]
    fn an_error_names_the_field_and_what_was_expected() {
        let cases = [
            (json!([]), ".: invalid type: sequence, expected struct Request"),
            (json!({}), ".: missing field `pairs`"),
            (json!({ "pairs": null }), "pairs: invalid type: null, expected a sequence"),
            (
                json!({ "pairs": [[1, true], 2] }),
                "pairs[1]: invalid type: integer `2`, expected a tuple of size 2",
            ),
            (json!({ "pairs": [[1, true, 3]] }), "pairs[0]: invalid length 3, expected a tuple of size 2"),
            (json!({ "pairs": [[1, "x"]] }), "pairs[0][1]: invalid type: string \"x\", expected a boolean"),
            (
                json!({ "pairs": [], "numbers": { "a": 1, "b": 300 } }),
                "numbers.b: invalid value: integer `300`, expected u8",
            ),
            (
                json!({ "pairs": [], "inner": { "pairs": [], "inner": {} } }),
                "inner.inner: missing field `pairs`",
            ),
            (
                json!({ "pairs": [], "inner": { "pears": 1 } }),
                "inner.pears: unknown field `pears`, expected one of `pairs`, `numbers`, `inner`",
            ),
        ];
        for (value, expected) in cases {
            let error = Request::deserialize(FieldValue(value)).unwrap_err();
            assert_eq!(format!("{}: {error}", error.path()), expected);
        }
    }
}
