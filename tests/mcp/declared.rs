//! What the server says of itself and its tools.

use std::collections::BTreeSet;

use lbx::tools::{Effect, Entry, TOOLS};
use serde_json::{Value, json};

use crate::client::Workspace;
use crate::schema;

/// The tools that clients see.
fn served() -> impl Iterator<Item = &'static Entry> {
    TOOLS.iter().filter(|tool| tool.served)
}

#[test]
fn the_tools_listed_are_those_of_the_one_list_in_its_order() {
    let listed = Workspace::with(&[]).serve(&[]).tools();
    let names: Vec<&str> = listed.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, served().map(|tool| tool.name).collect::<Vec<_>>());
    for (listed, tool) in listed.iter().zip(served()) {
        let description = listed["description"].as_str().unwrap();
        assert!(description.starts_with(&tool.title()), "{description}");
        assert!(!listed.to_string().contains("n the command line"), "{listed}");
        assert!(description.len() * 2 > tool.description().len(), "{description}");
    }
}

#[test]
fn no_name_or_alias_stands_for_two_tools() {
    let names: Vec<&str> = TOOLS.iter().flat_map(|tool| [&[tool.name], tool.aliases].concat()).collect();
    let different: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names.len(), different.len(), "{names:?}");
}

#[test]
fn annotations_follow_the_effect() {
    for (listed, tool) in Workspace::with(&[]).serve(&[]).tools().iter().zip(served()) {
        let hints = &listed["annotations"];
        assert_eq!(hints["readOnlyHint"], tool.effect == Effect::Reads, "{}", tool.name);
        assert_eq!(hints["destructiveHint"], tool.effect == Effect::Writes, "{}", tool.name);
        assert_eq!(hints["idempotentHint"], tool.effect == Effect::Reads, "{}", tool.name);
        assert_eq!(hints["openWorldHint"], false);
    }
}

#[test]
fn schemas_are_valid_and_of_objects() {
    for tool in Workspace::with(&[]).serve(&[]).tools() {
        for side in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[side]["type"], "object", "{} of {}", side, tool["name"]);
            schema::check_schema(&tool[side]).unwrap();
        }
    }
}

#[test]
fn requests_have_the_fields_of_a_call_and_not_those_of_the_process() {
    for (listed, tool) in Workspace::with(&[]).serve(&[]).tools().iter().zip(served()) {
        let fields = listed["inputSchema"]["properties"].as_object().unwrap();
        assert_eq!(fields["session"]["type"], "string");
        assert_eq!(fields.contains_key("require_snapshot"), tool.effect != Effect::Reads, "{}", tool.name);
        assert!(!fields.contains_key("workspace") && !fields.contains_key("sandbox"));
        assert!(!listed.to_string().contains("x-aliases"));
    }
}

#[test]
fn no_answer_has_a_field_where_warnings_and_snapshot_go() {
    for tool in served() {
        let schema = (tool.response_schema)();
        let choices = schema["anyOf"].as_array().cloned().unwrap_or_default();
        for part in [&[schema], choices.as_slice()].concat() {
            for name in ["warnings", "snapshot"] {
                assert!(part["properties"].get(name).is_none(), "{name} of {}", tool.name);
            }
            assert_ne!(part["additionalProperties"], false, "{}", tool.name);
        }
    }
}

#[test]
fn the_server_says_its_name_and_the_rules_in_few_words() {
    let workspace = Workspace::with(&[]);
    let hello = workspace.start(&[]).greet("2025-11-25");
    assert_eq!(hello["serverInfo"]["name"], "lbx");
    assert_eq!(hello["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
    let instructions = hello["instructions"].as_str().unwrap();
    assert!(instructions.len() < 600, "{}", instructions.len());
    for rule in ["root", "Read", "sha256", "snapshots"] {
        assert!(instructions.contains(rule), "{rule}");
    }
}

#[test]
fn a_tool_costs_a_model_few_bytes() {
    let tools = Workspace::with(&[]).serve(&[]).tools();
    let bytes = Value::from(tools.clone()).to_string().len();
    // cargo test -- --nocapture shows it.
    eprintln!("tools/list: {bytes} bytes for {} tools", tools.len());
    assert!(bytes / tools.len() < 1_950, "{bytes} bytes for {} tools", tools.len());
}

#[test]
fn what_is_taken_for_the_sake_of_habit_is_not_advertised() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.serve(&[]);
    let tools = client.tools();
    let grep = tools.iter().find(|tool| tool["name"] == "grep").unwrap();
    assert!(grep["inputSchema"]["properties"].get("line_number").is_none());
    assert!(!grep.to_string().contains("files_with_matches"), "{grep}");
    let habits = json!({ "pattern": "a", "-n": true, "output_mode": "files_with_matches", "head_limit": 5 });
    let result = client.call("grep", &habits);
    assert_eq!(result["structuredContent"]["files"], json!(["a.txt"]), "{result}");
    let refused = client.refused("grep", &json!({ "pattern": "a", "line_numbering": 1 }), "invalid_request");
    assert!(!refused.to_string().contains("`line_number`"), "{refused}");
}

#[test]
fn where_results_are_text_no_schema_of_them_is_declared() {
    for tool in Workspace::with(&[]).serve(&["--results", "text"]).tools() {
        assert!(tool.get("outputSchema").is_none());
        assert_ne!(tool["inputSchema"], json!(null));
    }
}
