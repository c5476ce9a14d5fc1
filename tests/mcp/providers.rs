//! Schemas that the interfaces of `OpenAI`, Anthropic and Gemini take, by the rules that they publish.
//!
//! Clients hand the schemas of `tools/list` on. For strict calling `OpenAI` wants every field required and no other
//! allowed; clients make both so, and an optional field then comes as null or empty. All else must fit as it is.

use lbx::dialect::DIALECTS;
use serde_json::{Map, Value, json};

use crate::client::Workspace;
use crate::native_calls::native_calls;
use crate::zero_filled::zero_filled;

/// Who takes the schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Provider {
    /// Strict function calling: "Structured Outputs, supported schemas".
    OpenAi,
    /// "Define tools" and "Structured Outputs, JSON Schema limitations".
    Anthropic,
    /// Function declarations: the fields of `Schema`.
    Gemini,
}

/// Levels of objects in each other.
const LEVELS_MAX: usize = 10;
/// Properties of one request's tools.
const PROPERTIES_MAX: usize = 5000;
/// Values of enumerations of one schema.
const ENUM_VALUES_MAX: usize = 1000;
/// Characters of names and enumerated values of one schema.
const NAME_CHARACTERS_MAX: usize = 120_000;
/// Characters of the name of a tool or a property.
const NAME_MAX: usize = 64;
/// Names in the tools of Claude Code, which Claude knows.
const CLAUDES: [&str; 6] = ["-A", "-B", "-C", "-i", "-n", "-o"];

impl Provider {
    /// Every one.
    const ALL: [Self; 3] = [Self::OpenAi, Self::Anthropic, Self::Gemini];

    /// Keywords that it takes. Those that a client drops for it, since they only narrow a number, are among them.
    fn keywords(self) -> &'static str {
        match self {
            Self::OpenAi => {
                "type description properties required additionalProperties items enum const anyOf $ref $defs pattern \
                 format multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minItems maxItems"
            }
            Self::Anthropic => {
                "type description properties required additionalProperties items enum const anyOf allOf $ref $defs \
                 format default minimum maximum"
            }
            Self::Gemini => {
                "type title description properties required additionalProperties items prefixItems enum format \
                 minimum maximum minItems maxItems propertyOrdering"
            }
        }
    }
}

/// Counts of the elements of a schema.
#[derive(Default)]
struct Counts {
    properties: usize,
    enum_values: usize,
    name_characters: usize,
}

/// Returns why a provider refuses a tool's request schema.
fn refusals(provider: Provider, schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut counts = Counts::default();
    if schema["type"] != "object"
        || ["anyOf", "oneOf", "allOf", "enum", "not"].iter().any(|it| schema.get(it).is_some())
    {
        found.push("the root is no plain object".to_owned());
    }
    let place = Place { provider, root: schema, path: "", level: 0 };
    place.look(schema, &mut counts, &mut found);
    let bounds = [
        ("properties", counts.properties, PROPERTIES_MAX),
        ("enumerated values", counts.enum_values, ENUM_VALUES_MAX),
        ("characters of names", counts.name_characters, NAME_CHARACTERS_MAX),
    ];
    found.extend(
        bounds.iter().filter(|(_, count, most)| count > most).map(|bound| format!("too many {bound:?}")),
    );
    found
}

/// A place in a schema.
#[derive(Clone, Copy)]
struct Place<'s> {
    provider: Provider,
    root: &'s Value,
    path: &'s str,
    /// Number of objects that enclose it.
    level: usize,
}

impl Place<'_> {
    /// Looks at the schema at this place and all in it.
    fn look(self, schema: &Value, counts: &mut Counts, found: &mut Vec<String>) {
        let Some(keywords) = schema.as_object() else {
            return found.push(format!("{}: no schema: {schema}", self.path));
        };
        let takes = |keyword: &str| self.provider.keywords().split_whitespace().any(|known| known == keyword);
        let unknown = keywords.keys().filter(|keyword| !takes(keyword));
        found.extend(unknown.map(|keyword| format!("{}: keyword {keyword}", self.path)));
        if self.level > LEVELS_MAX {
            return found.push(format!("{}: too deep", self.path));
        }
        if let Some(target) = keywords.get("$ref") {
            let inner = target.as_str().and_then(|target| self.root.pointer(target.strip_prefix('#')?));
            // A target that leads back to itself becomes too deep.
            match inner {
                Some(inner) => Place { level: self.level + 1, ..self }.look(inner, counts, found),
                None => found.push(format!("{}: {target} leads nowhere", self.path)),
            }
            return;
        }
        for choice in keywords.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
            self.look(choice, counts, found);
        }
        match kind(keywords) {
            Some("object") => self.look_at_object(keywords, counts, found),
            Some("array") => match keywords.get("items") {
                Some(items) => self.look(items, counts, found),
                None => found.push(format!("{}: a list of anything", self.path)),
            },
            Some("string" | "integer" | "number" | "boolean") => {}
            _ if keywords.contains_key("anyOf") => {}
            _ => found.push(format!("{}: not one type: {:?}", self.path, keywords.get("type"))),
        }
        if let Some(values) = keywords.get("enum") {
            let values = values.as_array().unwrap();
            counts.enum_values += values.len();
            counts.name_characters += values.iter().filter_map(Value::as_str).map(str::len).sum::<usize>();
            if values.is_empty() || !values.iter().all(Value::is_string) {
                found.push(format!("{}: enum {values:?}", self.path));
            }
        }
    }

    /// Looks at an object and its properties.
    fn look_at_object(self, keywords: &Map<String, Value>, counts: &mut Counts, found: &mut Vec<String>) {
        let none = Map::new();
        let properties = keywords.get("properties").and_then(Value::as_object).unwrap_or(&none);
        // A tool without fields is declared without a schema.
        if properties.is_empty() && self.level > 0 {
            found.push(format!("{}: an object without properties", self.path));
        }
        if keywords.get("additionalProperties").is_some_and(|others| *others != false) {
            found.push(format!("{}: properties of any name", self.path));
        }
        let required: Vec<&str> = keywords
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|it| it.as_str().unwrap())
            .collect();
        let mut different = required.clone();
        different.sort_unstable();
        different.dedup();
        if different.len() < required.len() || !required.iter().all(|name| properties.contains_key(*name)) {
            found.push(format!("{}: required {required:?}", self.path));
        }
        for (name, field) in properties {
            counts.properties += 1;
            counts.name_characters += name.len();
            let path = format!("{}.{name}", self.path);
            // Only Gemini has this rule, and a family's own names are for its own models.
            if self.provider == Provider::Gemini && !is_name(name) && !CLAUDES.contains(&name.as_str()) {
                found.push(format!("{path}: its name"));
            }
            Place { path: &path, level: self.level + 1, ..self }.look(field, counts, found);
        }
    }
}

/// Returns the one type of a schema; a further type null makes a field optional.
fn kind(keywords: &Map<String, Value>) -> Option<&str> {
    match keywords.get("type")? {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => {
            let mut others = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            others.next().filter(|_| others.next().is_none())
        }
        _ => None,
    }
}

/// Returns true for the name of a tool that all of them take, and for the name of a field that Gemini takes.
fn is_name(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    name.len() <= NAME_MAX
        && name.chars().all(is_plain)
        && name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
}

#[test]
fn every_provider_accepts_every_listed_schema() {
    let families = DIALECTS.iter().map(|dialect| vec!["--dialect", dialect.name]);
    for options in std::iter::once(Vec::new()).chain(families) {
        let tools = Workspace::with(&[]).serve(&options).tools();
        // Gemini takes 128 functions in one request, as OpenAI does.
        assert!(!tools.is_empty() && tools.len() <= 128, "{options:?}: {}", tools.len());
        for tool in tools {
            let name = tool["name"].as_str().unwrap();
            assert!(is_name(name) && !tool["description"].as_str().unwrap().is_empty(), "{options:?} {name}");
            for provider in Provider::ALL {
                let found = refusals(provider, &tool["inputSchema"]);
                assert!(found.is_empty(), "{options:?} {name} {provider:?}: {found:?}");
            }
        }
    }
}

#[test]
fn provider_check_detects_unsupported_schemas() {
    let with = |field: Value| json!({ "type": "object", "properties": { "a": field } });
    assert_eq!(refusals(Provider::OpenAi, &with(json!({ "type": ["string", "null"] }))), [""; 0]);
    let mut deep = json!({ "type": "string" });
    for _ in 0..=LEVELS_MAX {
        deep = with(deep);
    }
    for field in [
        json!({}),
        json!({ "type": ["string", "integer"] }),
        json!({ "type": "object" }),
        json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        json!({ "type": "array" }),
        json!({ "type": "integer", "enum": [1] }),
        json!({ "type": "string", "enum": [] }),
        json!({ "$ref": "#/$defs/none" }),
        json!({ "$ref": "#" }),
        json!({ "type": "string", "x-aliases": [] }),
        deep,
    ] {
        for provider in Provider::ALL {
            assert!(!refusals(provider, &with(field.clone())).is_empty(), "{provider:?}: {field}");
        }
    }
    let missing = json!({ "type": "object", "properties": {}, "required": ["a"] });
    let choice = json!({ "anyOf": [{ "type": "object", "properties": {} }] });
    for schema in [missing, choice] {
        assert!(!refusals(Provider::Anthropic, &schema).is_empty(), "{schema}");
    }
    assert!(!refusals(Provider::OpenAi, &with(json!({ "type": "string", "default": "x" }))).is_empty());
}

#[test]
fn native_tools_treat_empty_optional_fields_as_missing() {
    let files = [("a.txt", "one\ntwo\nthree\n"), ("src/main.rs", "fn main() {\n    two();\n}\n")];
    let (filled, plain) = (Workspace::with(&files), Workspace::with(&files));
    let (mut client, mut without) = (filled.serve(&[]), plain.serve(&[]));
    let tools = client.tools();
    let mut wrong = Vec::new();
    for (name, request) in native_calls() {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        let request_filled = zero_filled(&request, &tool["inputSchema"]);
        let (one, other) = (client.call(name, &request_filled), without.call(name, &request));
        if one["isError"] == true || other["isError"] == true {
            wrong.push(format!("{name} {request_filled}: {} and {}", one["content"], other["content"]));
        }
        for file in ["a.txt", "n.txt", "m.txt", "d.md"] {
            let text = |ws: &Workspace| std::fs::read_to_string(ws.path(file)).ok();
            assert_eq!(text(&filled), text(&plain), "{file} after {name} {request_filled}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
