//! The part of JSON Schema that the tools' schemas use.

use serde_json::Value;

/// Supported keywords: any other would go unchecked.
const KEYWORDS: [&str; 14] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "anyOf",
    "minimum",
    "maximum",
    "pattern",
    "default",
    "description",
    "const",
    "oneOf",
];

/// Checks a value against a schema; returns the mismatch.
pub fn check(value: &Value, schema: &Value) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{what}: {value} against {schema}"));
    let Some(keywords) = schema.as_object() else {
        return if *schema == Value::Bool(false) { wrong("never") } else { Ok(()) };
    };
    for (keyword, wanted) in keywords {
        let fits = match keyword.as_str() {
            "type" => types_of(wanted).any(|kind| is_of(value, kind)),
            "enum" => wanted.as_array().unwrap().contains(value),
            "const" => wanted == value,
            "anyOf" => matches_of(value, wanted) > 0,
            "oneOf" => matches_of(value, wanted) == 1,
            "minimum" => value.as_f64().is_none_or(|number| number >= wanted.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= wanted.as_f64().unwrap()),
            "required" => wanted
                .as_array()
                .unwrap()
                .iter()
                .all(|name| value.as_object().is_none_or(|map| map.contains_key(name.as_str().unwrap()))),
            // The only pattern in use.
            "pattern" => {
                assert_eq!(wanted, "^[0-9a-f]{64}$");
                value
                    .as_str()
                    .is_none_or(|text| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()))
            }
            _ => true,
        };
        if !fits {
            return wrong(keyword);
        }
    }
    for item in value.as_array().into_iter().flatten() {
        check(item, schema.get("items").unwrap_or(&Value::Null))?;
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let of_name = schema.get("properties").and_then(|properties| properties.get(name));
        let of_others = schema.get("additionalProperties");
        check(field, of_name.or(of_others).unwrap_or(&Value::Null))
            .map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Checks that a schema is valid, and has only keywords that [`check`] supports.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else {
        return if schema.is_boolean() { Ok(()) } else { Err(format!("no schema: {schema}")) };
    };
    for (keyword, value) in keywords {
        let parts: Vec<&Value> = match keyword.as_str() {
            "properties" => value.as_object().ok_or("properties")?.values().collect(),
            "items" | "additionalProperties" => vec![value],
            "anyOf" | "oneOf" => value.as_array().ok_or("choices")?.iter().collect(),
            "type" => {
                assert!(types_of(value).count() > 0, "{schema}");
                Vec::new()
            }
            known if KEYWORDS.contains(&known) => Vec::new(),
            unknown => return Err(format!("unknown keyword {unknown} in {schema}")),
        };
        parts.into_iter().try_for_each(check_schema)?;
    }
    Ok(())
}

/// Returns the number of schemas that match.
fn matches_of(value: &Value, schemas: &Value) -> usize {
    schemas.as_array().unwrap().iter().filter(|schema| check(value, schema).is_ok()).count()
}

/// Returns the types that a schema names.
fn types_of(wanted: &Value) -> impl Iterator<Item = &str> {
    let several = wanted.as_array().into_iter().flatten().filter_map(Value::as_str);
    wanted.as_str().into_iter().chain(several)
}

/// Returns true if a value has a type.
fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("no type {other}"),
    }
}

#[test]
fn schema_checker_rejects_invalid_values() {
    use serde_json::json;
    let schema = json!({
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": { "a": { "type": "integer", "minimum": 1 }, "b": { "type": "array", "items": { "enum": ["x"] } } },
    });
    check_schema(&schema).unwrap();
    check(&json!({ "a": 1, "b": ["x"] }), &schema).unwrap();
    for wrong in [
        json!([]),
        json!({}),
        json!({ "a": 0 }),
        json!({ "a": "1" }),
        json!({ "a": 1, "b": ["y"] }),
        json!({ "a": 1, "c": 1 }),
    ] {
        assert!(check(&wrong, &schema).is_err(), "{wrong}");
    }
    assert!(check_schema(&json!({ "typo": 1 })).is_err());
}
