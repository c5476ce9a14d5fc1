//! Requests as clients write them that must fill every field.

use serde_json::{Value, json};

/// Fills every optional field of a request that is not given with the value of its type that says nothing.
pub fn zero_filled(request: &Value, schema: &Value) -> Value {
    let Some(given) = request.as_object() else { return request.clone() };
    let mut filled = given.clone();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = filled.get_mut(name) {
            if let Some(items) = value.as_array_mut() {
                items.iter_mut().for_each(|item| *item = zero_filled(item, &field["items"]));
            }
        } else if !required.contains(&json!(name)) {
            let zero = match field["type"].as_str().unwrap() {
                "string" => json!(""),
                "integer" | "number" => json!(0),
                "boolean" => json!(false),
                "array" => json!([]),
                _ => json!({}),
            };
            filled.insert(name.clone(), zero);
        }
    }
    filled.into()
}
