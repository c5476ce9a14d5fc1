//! Conversion from a JSON value to a type; errors name the field.
//!
//! A type gets only values that JSON of its schema can have: an object for a struct, a string for an enum.

use std::fmt::{self, Write as _};
use std::iter::Enumerate;
use std::{mem, vec};

use serde::de::value::{StrDeserializer, StringDeserializer};
use serde::de::{
    self, Deserialize as _, DeserializeSeed, Deserializer, Error as _, Expected, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Value, map};

/// Value of a field, or a whole request.
pub struct FieldValue(pub Value);

impl<'de> Deserializer<'de> for FieldValue {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => visitor.visit_string(text),
            Value::Array(list) => visitor.visit_seq(Items(list.into_iter().enumerate())),
            Value::Object(fields) => {
                visitor.visit_map(Fields { rest: fields.into_iter(), name: String::new(), value: None })
            }
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

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, FieldError> {
        match self.0 {
            // The visitor of a tuple does not notice extra items.
            Value::Array(list) if list.len() > length => {
                Err(FieldError::invalid_length(list.len(), &visitor))
            }
            value => Self(value).deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        match self.0 {
            // Derived visitors would read the items as the fields in order.
            Value::Array(_) => Err(FieldError::invalid_type(Unexpected::Seq, &visitor)),
            value => Self(value).deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        String::deserialize(self).and_then(|variant| visitor.visit_enum(StringDeserializer::new(variant)))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple_struct map identifier ignored_any
    }
}

/// Items of a list.
struct Items(Enumerate<vec::IntoIter<Value>>);

impl<'de> SeqAccess<'de> for Items {
    type Error = FieldError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, FieldError> {
        let Some((index, value)) = self.0.next() else { return Ok(None) };
        seed.deserialize(FieldValue(value)).map(Some).map_err(|error| error.below(Step::Item(index)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// Fields of an object.
struct Fields {
    /// Fields not read yet.
    rest: map::IntoIter,
    /// Name of the last field read.
    name: String,
    /// Value of that field, until it is read too.
    value: Option<Value>,
}

impl<'de> MapAccess<'de> for Fields {
    type Error = FieldError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, FieldError> {
        let Some((name, value)) = self.rest.next() else { return Ok(None) };
        (self.name, self.value) = (name, Some(value));
        let key = seed.deserialize(StrDeserializer::<FieldError>::new(&self.name));
        key.map(Some).map_err(|error| error.below(Step::Field(mem::take(&mut self.name))))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, FieldError> {
        let value = self.value.take().ok_or_else(|| FieldError::custom("value is missing"))?;
        let value = seed.deserialize(FieldValue(value));
        value.map_err(|error| error.below(Step::Field(mem::take(&mut self.name))))
    }
}

/// Step from a value to a value inside it.
#[derive(Debug)]
enum Step {
    /// Field with this name.
    Field(String),
    /// Item with this index.
    Item(usize),
}

/// Error of a conversion, and its place.
#[derive(Debug)]
pub struct FieldError {
    /// Description of the error.
    message: String,
    /// Path to the value, last step first.
    steps: Vec<Step>,
}

impl FieldError {
    /// Adds a step at the front of the path of the error.
    fn below(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Returns the field, as in `edits[2].old_string`; `.` for the request itself.
    #[must_use]
    pub fn path(&self) -> String {
        let mut path = String::new();
        for (at, step) in self.steps.iter().rev().enumerate() {
            // Writing to a string cannot fail.
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

    // Uses JSON terms: serde says unit for null.
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

    /// Request with every kind of step to a value.
    #[derive(Debug, Deserialize)]
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
