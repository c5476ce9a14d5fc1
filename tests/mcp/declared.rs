//! The server's description of itself and its tools.

use std::collections::BTreeSet;

use lbx::catalog::TOOLS;
use lbx::tools::{Effect, ToolEntry};
use serde_json::{Value, json};

use crate::client::Workspace;
use crate::schema;

/// Returns the tools that clients see.
fn served() -> impl Iterator<Item = &'static ToolEntry> {
    TOOLS.iter().filter(|tool| tool.served)
}

#[test]
fn listed_tools_equal_the_catalog_in_order() {
    let listed = Workspace::with(&[]).serve(&[]).tools();
    let names: Vec<&str> = listed.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, served().map(|tool| tool.name).collect::<Vec<_>>());
    for (listed, tool) in listed.iter().zip(served()) {
        let description = listed["description"].as_str().unwrap();
        assert!(description.starts_with(&tool.title()), "{description}");
        assert!(!listed.to_string().contains("n the command line"), "{listed}");
    }
}

#[test]
fn tool_names_and_aliases_are_unique() {
    let names: Vec<&str> = TOOLS.iter().flat_map(|tool| [&[tool.name], tool.aliases].concat()).collect();
    let different: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names.len(), different.len(), "{names:?}");
}

#[test]
fn annotations_state_only_deviations_from_mcp_defaults() {
    for (listed, tool) in Workspace::with(&[]).serve(&[]).tools().iter().zip(served()) {
        let hints = &listed["annotations"];
        let wanted = match tool.effect {
            Effect::Reads => json!({ "readOnlyHint": true, "openWorldHint": false }),
            Effect::Adds => json!({ "destructiveHint": false, "openWorldHint": false }),
            Effect::Writes => json!({ "openWorldHint": false }),
        };
        assert_eq!(*hints, wanted, "{}", tool.name);
    }
}

#[test]
fn tool_schemas_are_valid_object_schemas() {
    for tool in Workspace::with(&[]).serve(&[]).tools() {
        for side in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[side]["type"], "object", "{} of {}", side, tool["name"]);
            schema::check_schema(&tool[side]).unwrap();
        }
    }
}

#[test]
fn input_schemas_list_exactly_the_listed_fields() {
    for (listed, tool) in Workspace::with(&[]).serve(&[]).tools().iter().zip(served()) {
        let schema = &listed["inputSchema"];
        let fields = schema["properties"].as_object().unwrap();
        let names: BTreeSet<&str> = tool.listed.split(' ').filter(|name| !name.contains('.')).collect();
        assert_eq!(fields.keys().map(String::as_str).collect::<BTreeSet<_>>(), names, "{}", tool.name);
        for name in tool.listed.split(' ').filter_map(|name| name.split_once('.')) {
            assert!(fields[name.0]["items"]["properties"].get(name.1).is_some(), "{name:?} of {}", tool.name);
        }
        let full = (tool.request_schema)();
        for name in full["required"].as_array().into_iter().flatten() {
            assert!(names.contains(name.as_str().unwrap()), "{name} of {}", tool.name);
        }
        assert!(!listed.to_string().contains("x-aliases"));
    }
}

#[test]
fn unlisted_fields_are_accepted() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.serve(&[]);
    client.call("read", &json!({ "path": "a.txt", "session": "other", "max_bytes": 10 }));
    let edit = json!({ "path": "a.txt", "old_string": "a", "new_string": "b", "session": "other", "why": "test",
        "dry_run": true, "diff": true, "expected_replacements": 1, "match": "flexible", "require_snapshot": false });
    let edited = client.ok("edit", &edit);
    assert_eq!(edited["dry_run"], true);
    assert!(edited["diff"].as_str().unwrap().contains("+b"), "{edited}");
    workspace.holds("a.txt", "a\n");
}

#[test]
fn response_schemas_leave_room_for_warnings_and_snapshot() {
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
fn server_info_has_a_name_and_short_instructions() {
    let workspace = Workspace::with(&[]);
    let hello = workspace.start(&[]).greet("2025-11-25");
    assert_eq!(hello["serverInfo"]["name"], "lbx");
    assert_eq!(hello["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
    let instructions = hello["instructions"].as_str().unwrap();
    assert!(instructions.len() < 2_000, "{}", instructions.len());
    assert!(instructions.lines().next().unwrap().contains("instead of built-in ones"), "{instructions}");
    for rule in ["root", "Read", "sha256", "snapshots"] {
        assert!(instructions.contains(rule), "{rule}");
    }
}

/// Returns the size of a list of tools, in bytes.
fn bytes_of_list(options: &[&str]) -> usize {
    Value::from(Workspace::with(&[]).serve(options).tools()).to_string().len()
}

#[test]
fn tool_list_stays_small() {
    assert!(bytes_of_list(&[]) <= 16_000);
    assert!(bytes_of_list(&["--tools", "core"]) <= 8_192);
    assert!(bytes_of_list(&["--tools", "read,write,edit,patch,grep,glob,ls"]) <= 6_500);
    assert!(bytes_of_list(&["--results", "text"]) <= 14_000);
    assert!(bytes_of_list(&["--tools", "core", "--results", "text"]) <= 7_500);
}

#[test]
fn tools_flag_selects_the_served_tools() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let names = |options: &[&str]| -> Vec<String> {
        let tools = workspace.serve(options).tools();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let core = ["read", "write", "edit", "patch", "grep", "glob", "ls", "bash", "undo", "session"];
    assert_eq!(names(&["--tools", "core"]), core);
    assert_eq!(names(&["--tools", "ls, read"]), ["read", "ls"]);
    assert_eq!(names(&["--tools", "all"]), served().map(|tool| tool.name).collect::<Vec<_>>());
    let reading: Vec<&str> =
        served().filter(|tool| tool.effect == Effect::Reads).map(|tool| tool.name).collect();
    assert_eq!(names(&["--tools", "read-only"]), reading);
    // A tool that is not listed cannot be called either.
    let mut client = workspace.serve(&["--tools", "read-only"]);
    let call = json!({ "name": "write", "arguments": { "path": "a.txt", "content": "b\n" } });
    let refused = client.ask("tools/call", &call);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    workspace.holds("a.txt", "a\n");
    let output = workspace.lbx("", &["mcp", "--tools", "read,nosuch"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("nosuch"));
    let none = ["mcp", "--tools", "read-only", "--dialect", "anthropic-editor"];
    let output = workspace.lbx("", &none).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("all tools of this model family write"), "{said}");
    assert!(said.contains("Use all, or names of tools."), "{said}");
}

#[test]
fn habitual_rg_fields_are_accepted_but_not_listed() {
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
fn text_results_declare_no_output_schema() {
    for tool in Workspace::with(&[]).serve(&["--results", "text"]).tools() {
        assert!(tool.get("outputSchema").is_none());
        assert_ne!(tool["inputSchema"], json!(null));
    }
}
