//! From JSON to a request, with messages that name the field.
//!
//! The schema of a request's type says which fields there are, and under which other names models
//! know them (`x-aliases`); nothing is declared a second time here. Before serde sees a request it
//! is brought into that schema's form: names folded, numbers and booleans taken from text, a
//! single item made a list, nulls dropped.

mod field_value;
mod form;
mod json;
mod names;
mod schema;
mod words;

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;
use field_value::{FieldError, FieldValue};
use form::in_form;
pub use json::read_json;
pub use names::{field_of, plausible, snake_case};
pub use schema::{advertised, aliases, answer_schema_of, schema_of};
use words::cut;
pub use words::{flag_error, number_of, quoted, shortened};

/// Size of one request, in bytes.
pub const REQUEST_BYTES_MAX: u64 = 256 << 20;

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
