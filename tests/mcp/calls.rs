//! Calls: answers, errors, sessions, text.

use std::path::Path;

use lbx::catalog::TOOLS;
use serde_json::{Value, json};

use crate::client::{Client, STATE_ID, Workspace};

#[test]
fn every_tool_works_over_mcp() {
    let workspace = Workspace::with(&[("greet.txt", "hello\n")]);
    let mut client = workspace.serve(&[]);
    let read = client.ok("read", &json!({ "path": "greet.txt" }));
    assert_eq!(read["content"], "hello\n");
    let edited = client.ok(
        "edit",
        &json!({ "path": "greet.txt", "old_string": "hello", "new_string": "hi", "why": "shorter" }),
    );
    assert_eq!(edited["count"], 1);
    assert_eq!(edited["snapshot"].as_str().unwrap().len(), 40);
    client.ok("append", &json!({ "path": "greet.txt", "content": "last\n" }));
    client.ok("prepend", &json!({ "path": "greet.txt", "content": "first\n" }));
    client.ok("insert", &json!({ "path": "greet.txt", "line": 1, "content": "second\n" }));
    workspace.holds("greet.txt", "first\nsecond\nhi\nlast\n");
    let written = client.ok("write", &json!({ "path": "new/file.txt", "content": "new\n" }));
    assert_eq!(written["created"], true);
    workspace.holds("new/file.txt", "new\n");
    let patch = "--- a/new/file.txt\n+++ b/new/file.txt\n@@ -1 +1 @@\n-new\n+newer\n";
    let patched = client.ok("patch", &json!({ "patch": patch }));
    assert_eq!(patched["files"][0]["action"], "modify");
    workspace.holds("new/file.txt", "newer\n");
    let both = client.ok("read", &json!({ "paths": ["new/file.txt", "none.txt"] }));
    assert_eq!(both["files"][0]["content"], "newer\n");
    assert_eq!(both["files"][1]["error"]["kind"], "not_found");
    let found = client.ok("grep", &json!({ "pattern": "new+er" }));
    assert_eq!(found["matches"][0]["path"], "new/file.txt");
    assert_eq!(
        client.ok("glob", &json!({ "pattern": "*.txt", "path": ["new"] }))["paths"],
        json!(["new/file.txt"])
    );
    assert_eq!(client.ok("ls", &json!({ "path": ["new"] }))["entries"][0]["path"], "new/file.txt");
    client.ok("move", &json!({ "from": "new/file.txt", "to": "new/moved.txt" }));
    client.ok("delete", &json!({ "path": ["new/moved.txt"] }));
    assert!(!workspace.path("new/moved.txt").exists());
    client.ok("restore", &json!({ "path": "new/moved.txt" }));
    workspace.holds("new/moved.txt", "newer\n");
    client.ok("append", &json!({ "path": "new/moved.txt", "content": "end\n" }));
    client.ok("undo", &json!({}));
    workspace.holds("new/moved.txt", "newer\n");
    client.ok("redo", &json!({}));
    workspace.holds("new/moved.txt", "newer\nend\n");
    let audit = client.ok("audit", &json!({ "path": "new/moved.txt" }));
    assert!(audit["total"].as_u64().unwrap() > 0, "{audit}");
    let log = client.ok("log", &json!({ "limit": 1 }));
    assert_eq!(log["snapshots"][0]["tool"], "redo", "{log}");
    let diff = client.ok("diff", &json!({}));
    assert!(diff["diff"].as_str().unwrap().contains("+++ b/new/moved.txt"), "{diff}");
    let session = client.ok("session", &json!({}));
    assert_eq!(session["fresh"], json!(["greet.txt +4 -1"]), "{session}");
    let section = json!({ "path": "notes.md", "header": "# Notes", "create": true, "content": "one\n" });
    assert_eq!(client.ok("section", &section)["match"], "created");
    let ran = client.ok("bash", &json!({ "command": "cat notes.md >&2; exit 3" }));
    assert_eq!((&ran["exit_code"], &ran["changed"]), (&json!(3), &json!([])), "{ran}");
    // A new tool of the list needs its line here.
    let served = TOOLS.iter().filter(|tool| tool.served).map(|tool| tool.name);
    assert_eq!(client.succeeded, served.map(str::to_owned).collect());
}

#[test]
fn grep_with_mark_allows_editing_the_matches() {
    let workspace = Workspace::with(&[("src/a.rs", "fn one() {}\nfn two() {}\n"), ("b.md", "fn\n")]);
    let mut client = workspace.serve(&[]);
    let edit = json!({ "path": "src/a.rs", "old_string": "two", "new_string": "deux" });
    let query = |mark: bool| json!({ "pattern": "fn two", "type": "rust", "mark": mark });
    assert_eq!(client.ok("grep", &query(false))["matched"], 1);
    client.refused("edit", &edit, "not_read");
    let found = client.ok("grep", &query(true));
    assert_eq!(found["matches"][0]["line"], 2);
    assert_eq!(found["matches"][0]["sha256"], found["marked"][0]["sha256"]);
    assert_eq!(client.ok("edit", &edit)["count"], 1);
    let groups = client.ok("grep", &json!({ "pattern": "fn", "group": true, "limit": 2 }));
    assert_eq!(groups["groups"][0]["path"], "b.md");
    assert_eq!((&groups["truncated"], &groups["next_offset"]), (&json!(true), &json!(2)));
    client.refused("grep", &json!({ "pattern": "(" }), "invalid_request");
    workspace.holds("src/a.rs", "fn one() {}\nfn deux() {}\n");
}

#[test]
fn mcp_response_has_a_warnings_field() {
    let workspace = Workspace::with(&[("open.txt", "no newline")]);
    let answer = workspace.serve(&[]).ok("append", &json!({ "path": "open.txt", "content": "!\n" }));
    assert!(answer["warnings"][0].is_string(), "{answer}");
}

#[test]
fn errors_are_results_with_a_suggested_action() {
    let workspace = Workspace::with(&[("greet.txt", "hello\n")]);
    let mut client = workspace.serve(&[]);
    let edit = json!({ "path": "greet.txt", "old_string": "hello", "new_string": "hi" });
    let error = client.refused("edit", &edit, "not_read");
    assert_eq!(error["path"], "greet.txt");
    client.ok("read", &json!({ "path": "greet.txt" }));
    workspace.write("greet.txt", "hallo\n");
    let error = client.refused("edit", &edit, "stale_file");
    assert_eq!(error["details"]["actual_sha256"].as_str().unwrap().len(), 64);
    client.refused("read", &json!({ "path": "../out.txt" }), "outside_workspace");
    workspace.holds("greet.txt", "hallo\n");
}

#[test]
fn invalid_arguments_are_error_results() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.serve(&[]);
    let error = client.refused("read", &json!({ "path": "a.txt", "lines": 3 }), "invalid_request");
    assert_eq!(error["details"]["field"], "lines");
    client.refused("read", &json!({}), "invalid_request");
    client.refused("read", &json!({ "path": { "a": 1 } }), "invalid_request");
    client.refused("read", &json!({ "path": "a.txt", "session": "../x" }), "invalid_request");
    client.refused("read", &json!({ "path": "a.txt", "session": 7 }), "invalid_request");
    client.refused("read", &json!({ "path": "a.txt", "workspace": "/" }), "invalid_request");
    client.refused("read", &json!({ "path": "a.txt", "sandbox": "x" }), "sandbox_not_found");
}

#[test]
fn duplicate_argument_is_an_error() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.serve(&[]);
    let arguments = r#"{"path":"b.txt","content":"1","content":"2"}"#;
    // Models sometimes encode the arguments twice.
    for arguments in [arguments.to_owned(), json!(arguments).to_string()] {
        client.send(format!(
            r#"{{"jsonrpc":"2.0","id":"d","method":"tools/call","params":{{"name":"write","arguments":{arguments}}}}}"#
        ));
        let answer = client.wait_for(|message| message["id"] == "d");
        assert_eq!(answer["result"]["isError"], true);
        let error: Value =
            serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(error["kind"], "invalid_request");
        assert!(error["message"].as_str().unwrap().contains("`content`"), "{error}");
        assert!(!workspace.path("b.txt").exists());
    }
}

#[test]
fn duplicate_argument_is_an_error_in_the_words_of_a_family() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&["--dialect", "claude"]);
    let arguments = r#"{"file_path":"b.txt","content":"1","content":"2"}"#;
    client.send(format!(
        r#"{{"jsonrpc":"2.0","id":"d","method":"tools/call","params":{{"name":"Write","arguments":{arguments}}}}}"#
    ));
    let answer = client.wait_for(|message| message["id"] == "d");
    assert_eq!(answer["result"]["isError"], true);
    let said = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.starts_with("<tool_use_error>") && said.contains("`content`"), "{said}");
    assert!(!workspace.path("b.txt").exists());
}

#[test]
fn duplicate_request_id_is_an_error_for_the_second_request() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.serve(&[]);
    let call = |tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": "two", "method": "tools/call", "params": params }).to_string()
    };
    client.send(call("bash", json!({ "command": "sleep 1; echo done" })));
    client.send(call("read", json!({ "path": "a.txt" })));
    let refused = client.wait_for(|message| message["id"] == "two");
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    let answer = client.wait_for(|message| message["id"] == "two");
    assert_eq!(answer["result"]["structuredContent"]["stdout"], "done\n", "{answer}");
    // Then the id can be used again.
    client.send(call("read", json!({ "path": "a.txt" })));
    let answer = client.wait_for(|message| message["id"] == "two");
    assert_eq!(answer["result"]["structuredContent"]["content"], "a\n", "{answer}");
}

#[test]
fn mcp_accepts_known_aliases_of_tools_and_fields() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.serve(&[]);
    let arguments = json!({ "file_path": "a.txt", "startLine": "1", "offset": null });
    let result = client.call("read_file", &arguments);
    assert_eq!(result["structuredContent"]["content"], "a\n");
}

#[test]
fn unknown_tool_is_a_protocol_error() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    for name in ["reed", "batch", "schema", "mcp", ""] {
        let answer = client.ask("tools/call", &json!({ "name": name, "arguments": {} }));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
}

#[test]
fn malformed_call_is_a_protocol_error() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    for params in [
        json!({}),
        json!({ "name": 7 }),
        json!({ "name": "read", "arguments": ["a.txt"] }),
        json!({ "name": "read", "arguments": "a" }),
    ] {
        let answer = client.ask("tools/call", &params);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    let answer = client.ask("tools/walk", &json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

/// A known method with invalid parameters still exists: the error is about the parameters.
#[test]
fn invalid_parameters_of_a_known_method_are_reported_as_such() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    for (method, params) in [
        ("resources/read", json!({})),
        ("resources/read", json!({ "uri": 7 })),
        ("prompts/get", json!({})),
        ("completion/complete", json!({ "ref": {} })),
        ("logging/setLevel", json!({ "level": "loud" })),
        ("initialize", json!({})),
        ("tools/list", json!({ "cursor": "1" })),
        ("tools/list", json!({ "cursor": 1 })),
        ("prompts/list", json!({ "cursor": {} })),
        ("resources/list", json!({ "cursor": "1" })),
        ("resources/templates/list", json!({ "cursor": "1" })),
        ("prompts/list", json!({ "cursor": "1" })),
    ] {
        let answer = client.ask(method, &params);
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }
    let long = "x".repeat(100_000);
    for (method, params) in [
        ("tools/list", json!({ "cursor": long })),
        ("prompts/get", json!({ "name": long })),
        ("tools/call", json!({ "name": long })),
        ("resources/read", json!({ "uri": format!("lbx://{long}") })),
        (&long, json!({})),
    ] {
        let answer = client.ask(method, &params);
        assert!(
            answer["error"]["code"].is_number() && answer.to_string().len() < 5_000,
            "{:.200}",
            answer.to_string()
        );
    }
}

/// Returns parameters that ask for the values of an argument.
fn completion(reference: &Value, argument: &str) -> Value {
    json!({ "ref": reference, "argument": { "name": argument, "value": "" } })
}

#[test]
fn completion_returns_values_only_for_existing_arguments() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.serve(&[]);
    client.call("write", &json!({ "path": "b.txt", "content": "b\n" }));
    let resource = |uri: &str| json!({ "type": "ref/resource", "uri": uri });
    let prompt = |name: &str| json!({ "type": "ref/prompt", "name": name });
    for (reference, argument, is_there) in [
        (resource("lbx://file/{path}"), "path", true),
        (resource("lbx://snapshot/{id}/{path}"), "id", true),
        (prompt("review"), "from", true),
        (resource("lbx://file/{path}"), "id", false),
        (resource("lbx://nothing/{path}"), "path", false),
        (resource("lbx://session"), "path", false),
        (prompt("review"), "path", false),
        (prompt("nothing"), "from", false),
    ] {
        let answer = client.ask("completion/complete", &completion(&reference, argument));
        let values = answer["result"]["completion"]["values"].as_array();
        assert_eq!(
            values.map(|values| !values.is_empty()),
            Some(is_there),
            "{reference} {argument}: {answer}"
        );
    }
}

/// A client need not wait for the answer of a read before it sends the edit.
#[test]
fn pipelined_calls_take_effect_in_request_order() {
    /// Number of edits of one file.
    const EDITS: usize = 100;
    let workspace = Workspace::with(&[("n.txt", "0\n"), ("other.txt", "x\n")]);
    for (options, read, edit, path) in
        [(&[][..], "read", "edit", "path"), (&["--dialect", "claude"], "Read", "Edit", "file_path")]
    {
        workspace.write("n.txt", "0\n");
        let mut client = workspace.serve(options);
        let at = |name: &str| json!({ path: workspace.path(name).to_str().unwrap() });
        let mut ids = Vec::new();
        for number in 0..EDITS {
            ids.push(client.begin_call(read, &at("n.txt")));
            let mut arguments = at("n.txt");
            arguments["old_string"] = json!(format!("{number}\n"));
            arguments["new_string"] = json!(format!("{}\n", number + 1));
            ids.push(client.begin_call(edit, &arguments));
            ids.push(client.begin_call(read, &at("other.txt")));
        }
        for (at, id) in ids.into_iter().enumerate() {
            let result = client.answer_to(id)["result"].clone();
            assert_ne!(result["isError"], true, "call {at}: {result}");
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            assert!(at % 3 != 0 || text.contains(&(at / 3).to_string()), "call {at}: {text}");
        }
        workspace.holds("n.txt", &format!("{EDITS}\n"));
    }
}

#[test]
fn calls_after_a_change_see_it_through_symlinks_and_moves() {
    /// Number of rounds.
    const ROUNDS: usize = 20;
    let workspace = Workspace::with(&[("t.txt", "0\n"), ("d/a.txt", "a\n")]);
    std::os::unix::fs::symlink("t.txt", workspace.path("l.txt")).unwrap();
    let mut client = workspace.serve(&[]);
    for round in 0..ROUNDS {
        let (from, to) = if round % 2 == 0 { ("d", "e") } else { ("e", "d") };
        let mark = format!("mark-{round}");
        client.begin_call("append", &json!({ "path": "t.txt", "content": format!("{mark}\n") }));
        let through = client.begin_call("read", &json!({ "path": "l.txt" }));
        let found = client.begin_call("grep", &json!({ "pattern": mark, "path": ["t.txt"] }));
        let command = client.begin_call("bash", &json!({ "command": "tail -1 t.txt" }));
        client.begin_call("move", &json!({ "from": from, "to": to }));
        let moved = client.begin_call("read", &json!({ "path": format!("{to}/a.txt") }));
        for id in [through, found, command, moved] {
            let result = client.answer_to(id)["result"].clone();
            assert_ne!(result["isError"], true, "{round}: {result}");
            assert!(id == moved || result.to_string().contains(&mark), "{round}: {result}");
        }
    }
}

#[test]
fn mcp_paths_are_relative_to_the_root() {
    let workspace = Workspace::with(&[("a.txt", "root\n"), ("sub/a.txt", "sub\n")]);
    let mut client = crate::client::Client::of(workspace.lbx("sub", &["mcp"])).greeted();
    let read = client.ok("read", &json!({ "path": "a.txt" }));
    assert_eq!((read["path"].as_str(), read["content"].as_str()), (Some("a.txt"), Some("root\n")));
    assert_eq!(client.ok("read", &json!({ "path": "sub/a.txt" }))["path"], "sub/a.txt");
}

#[test]
fn workspace_is_fixed_at_server_start() {
    let workspace = Workspace::with(&[("sub/a.txt", "sub\n")]);
    let root = workspace.path("sub");
    let mut client = workspace.serve(&["--workspace", root.to_str().unwrap()]);
    assert_eq!(client.ok("read", &json!({ "path": "a.txt" }))["content"], "sub\n");
    // A workspace that would now be nearer changes nothing.
    std::fs::create_dir(workspace.path("sub/.git")).unwrap();
    assert_eq!(client.ok("read", &json!({ "path": "a.txt" }))["content"], "sub\n");
}

#[test]
fn server_survives_removal_of_its_start_directory() {
    let workspace = Workspace::with(&[("a.txt", "a\n"), ("sub/b.txt", "b\n")]);
    let mut client = crate::client::Client::of(workspace.lbx("sub", &["mcp"])).greeted();
    std::fs::remove_dir_all(workspace.path("sub")).unwrap();
    assert_eq!(client.ok("read", &json!({ "path": "a.txt" }))["content"], "a\n");
}

#[test]
fn missing_workspace_is_an_error_on_stderr_only() {
    let workspace = Workspace::with(&[]);
    let output = workspace.lbx("", &["mcp", "--workspace", "none"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, b"");
    assert!(String::from_utf8(output.stderr).unwrap().contains("not_found"));
}

#[test]
fn each_server_process_has_its_own_session() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let (mut one, mut other) = (workspace.serve(&[]), workspace.serve(&[]));
    one.ok("read", &json!({ "path": "a.txt" }));
    let write = json!({ "path": "a.txt", "content": "b\n" });
    other.refused("write", &write, "not_read");
    one.ok("write", &write);
}

#[test]
fn session_is_set_by_flag_or_by_call() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut named = workspace.serve(&["--session", "pair"]);
    let mut other = workspace.serve(&[]);
    named.ok("read", &json!({ "path": "a.txt" }));
    other.refused("write", &json!({ "path": "a.txt", "content": "b\n" }), "not_read");
    other.ok("write", &json!({ "path": "a.txt", "content": "b\n", "session": "pair" }));
    assert!(workspace.path(&format!(".lbx/{STATE_ID}/sessions/pair.lbx")).exists());
}

#[test]
fn audit_covers_all_sessions_unless_one_is_named() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&["--session", "one"]);
    client.ok("write", &json!({ "path": "a.txt", "content": "a\n" }));
    client.ok("write", &json!({ "path": "b.txt", "content": "b\n", "session": "other" }));
    assert_eq!(client.ok("audit", &json!({}))["total"], 2);
    let of_one = client.ok("audit", &json!({ "session": "one" }));
    assert_eq!((&of_one["total"], &of_one["records"][0]["session"]), (&json!(1), &json!("one")));
}

#[test]
fn text_results_contain_only_the_payload() {
    let workspace = Workspace::with(&[("a.txt", "one\ntwo\nthree\n")]);
    let mut client = workspace.serve(&["--results", "text"]);
    let whole = client.call("read", &json!({ "path": "a.txt" }));
    assert_eq!(whole["content"], json!([{ "type": "text", "text": "1\tone\n2\ttwo\n3\tthree\n" }]));
    assert!(whole.get("structuredContent").is_none());
    let part = client.call("read", &json!({ "path": "a.txt", "limit": 1 }));
    assert_eq!(part["content"][0]["text"], "1\tone\n");
    assert!(part["content"][1]["text"].as_str().unwrap().contains("continue with offset 1"), "{part}");
    let refused = client.call("read", &json!({ "path": "none.txt" }));
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("not_found: no such file: none.txt\n"), "{text}");
    // In JSON too, a model first reads the error and the suggested action.
    let text =
        workspace.serve(&[]).call("read", &json!({ "path": "none.txt" }))["content"][0]["text"].to_string();
    let places = ["kind", "message", "suggested_action"].map(|name| text.find(name).unwrap());
    assert!(places.is_sorted() && text.find("details").is_none_or(|at| at > places[2]), "{text}");
}

/// Starts a server for a user with that home folder, who has given the workspace this name.
fn with_sandbox(workspace: &Workspace, home: &Path, name: &str, options: &[&str]) -> Client {
    let lbx = |arguments: &[&str]| {
        let mut command = workspace.lbx("", arguments);
        command.env("HOME", home).env_remove("XDG_STATE_HOME");
        command
    };
    lbx(&["sandbox", "create", name, "--root", "."]).output().unwrap();
    Client::of(lbx(&[&["mcp"], options].concat())).greeted()
}

#[test]
fn resources_sandboxes_and_marks_keep_the_order_of_the_requests() {
    let workspace = Workspace::with(&[]);
    for number in 0..100 {
        workspace.write(&format!("many/{number}.txt"), "needle\n");
    }
    let home = tempfile::tempdir().unwrap();
    let mut client = with_sandbox(&workspace, home.path(), "box", &[]);
    for round in 0..8 {
        let path = format!("f{round}.txt");
        client.begin_call("write", &json!({ "path": path, "content": "x\n" }));
        let read = client.begin("resources/read", &json!({ "uri": format!("lbx://file/{path}") }));
        let answer = client.answer_to(read);
        assert_eq!(answer["result"]["contents"][0]["text"], "x\n", "{answer}");
        client.begin_call("write", &json!({ "path": path, "content": "y\n", "sandbox": "box" }));
        let read = client.begin_call("read", &json!({ "path": path, "sandbox": "box" }));
        let answer = client.answer_to(read);
        assert_eq!(answer["result"]["structuredContent"]["content"], "y\n", "{answer}");
        // What a search shows counts for a change that was sent after it.
        client.begin_call("grep", &json!({ "pattern": "needle", "mark": true, "limit": 0, "session": "s" }));
        let many = format!("many/{round}.txt");
        let edit = json!({ "path": many, "old_string": "needle", "new_string": "thread", "session": "s" });
        let edit = client.begin_call("edit", &edit);
        let answer = client.answer_to(edit);
        assert_ne!(answer["result"]["isError"], true, "{answer}");
    }
}

#[test]
fn sandboxes_are_served_under_any_spelling_of_their_names() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let home = tempfile::tempdir().unwrap();
    for (served, named) in [("box-one", "Box One"), ("Box One", "box-one")] {
        let mut client =
            with_sandbox(&workspace, home.path(), "box-one", &["--workspace", ".", "--sandboxes", served]);
        client.ok("read", &json!({ "path": "a.txt", "sandbox": named }));
        client.refused("read", &json!({ "path": "a.txt", "sandbox": "box-two" }), "sandbox_not_found");
    }
}

#[test]
fn command_that_is_ended_with_the_server_says_that_it_changed_something() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    let arguments = json!({ "command": "echo hi > early; while true; do echo ready; sleep 0.3; done" });
    let params = json!({ "name": "bash", "arguments": arguments, "_meta": { "progressToken": 7 } });
    let id = client.begin("tools/call", &params);
    client
        .wait_for(|message| message["params"]["message"].as_str().is_some_and(|line| line.contains("ready")));
    client.hang_up();
    let result = client.answer_to(id)["result"].clone();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("cancelled") && text.contains(r#""applied":true"#), "{text}");
    assert!(workspace.path("early").exists());
}

#[test]
fn text_results_have_the_stderr_of_a_command() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&["--results", "text"]);
    let mut run = |command: &str| {
        let result = client.call("bash", &json!({ "command": command }));
        let blocks = result["content"].as_array().unwrap().iter();
        blocks.map(|block| block["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        run("echo out; echo err >&2; exit 3"),
        ["out\n", "stderr:\nerr\n", "the command exited with status 3"]
    );
    assert_eq!(run("echo err >&2"), ["stderr:\nerr\n"]);
    assert_eq!(run("true"), [""]);
}

#[test]
fn text_results_of_read_have_line_numbers_unless_the_call_says_otherwise() {
    let workspace = Workspace::with(&[("a.txt", "one\ntwo\n")]);
    let mut client = workspace.serve(&["--results", "text"]);
    let mut read = |more: Value| {
        let mut request = json!({ "path": "a.txt" });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.call("read", &request)["content"][0]["text"].clone()
    };
    for nothing in [json!({}), json!({ "line_numbers": null, "binary": "", "cell": null })] {
        assert_eq!(read(nothing), "1\tone\n2\ttwo\n");
    }
    assert_eq!(read(json!({ "line_numbers": false })), "one\ntwo\n");
}

#[test]
fn unbounded_read_stays_below_four_megabytes() {
    let source = "    let line = of(some, code);\n".repeat(200_000);
    let workspace = Workspace::with(&[("big.txt", &source)]);
    for (options, least) in [(&[][..], 1_600_000), (&["--results", "text"], 3_300_000)] {
        let mut client = workspace.serve(options);
        for unbounded in [json!(0), json!(0.0), json!(1e8), json!("100000000")] {
            let result =
                client.call("read", &json!({ "path": "big.txt", "max_bytes": unbounded, "limit": 0 }));
            let bytes = result.to_string().len();
            assert!(bytes < 4_000_000, "{unbounded}: {bytes}");
            let shown = result["content"][0]["text"].as_str().unwrap();
            assert!(shown.len() > least && result["isError"] != true, "{unbounded}: {}", shown.len());
            if let Some(content) = result.get("structuredContent") {
                assert_eq!(content["truncated"], true);
                assert!(content["next_offset"].as_u64().unwrap() > 10_000);
            }
        }
    }
}

#[test]
fn unbounded_response_of_any_text_fits_into_a_message() {
    let texts: [(&str, Vec<u8>); 6] = [
        ("quotes.txt", "\"\"\"\"\"\"\"\n".repeat(300_000).into()),
        ("one_line.txt", "\"".repeat(3_000_000).into()),
        ("empty_lines.txt", "\n".repeat(2_000_000).into()),
        ("controls.txt", "\u{1}\u{2}\n".repeat(700_000).into()),
        ("plain.txt", ("x".repeat(80) + "\n").repeat(50_000).into()),
        ("latin.txt", b"caf\xe9 \xe9\xe9\n".repeat(300_000)),
    ];
    let workspace = Workspace::with(&[]);
    for (name, text) in &texts {
        std::fs::write(workspace.path(name), text).unwrap();
    }
    for options in [&[][..], &["--results", "text"]] {
        let mut client = workspace.serve(options);
        for (name, _) in &texts {
            let everything = json!({ "path": name, "max_bytes": 0, "limit": 0 });
            let mut grep = everything.clone();
            grep["pattern"] = json!("^");
            for (tool, request) in [("read", &everything), ("grep", &grep)] {
                let result = client.call(tool, request);
                let bytes = result.to_string().len();
                assert!(
                    bytes < 4_000_000 && result["isError"] != true,
                    "{tool} {name} {bytes}: {result:.300}"
                );
            }
        }
    }
}

/// An image of 2 by 3 pixels.
const GIF: &[u8] = b"GIF89a\x02\x00\x03\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x02\x00\x03\x00\x00\x02\x02D\x01\x00;";
/// The image as base64.
const GIF_BASE64: &str = "R0lGODlhAgADAIAAAAAAAP///ywAAAAAAgADAAACAkQBADs=";

#[test]
fn unbounded_diff_of_a_change_fits_into_a_message() {
    // Each quote takes six bytes of the answer: two in the JSON, and four in the text.
    let long = |end: char| format!("{}{end}\n", "\"".repeat(400_000));
    let workspace = Workspace::with(&[("a.txt", &long('a'))]);
    let user = tempfile::tempdir().unwrap();
    std::fs::create_dir(user.path().join("lbx")).unwrap();
    std::fs::write(user.path().join("lbx/config.toml"), "snapshot.enabled = false\n").unwrap();
    let mut server = workspace.lbx("", &["mcp"]);
    server.env("XDG_CONFIG_HOME", user.path());
    let mut client = Client::of(server).greeted();
    let sha256 = client.ok("read", &json!({ "path": "a.txt" }))["sha256"].clone();
    let write = json!({
        "path": "a.txt", "content": long('b'), "expected_sha256": sha256, "diff": true, "max_bytes": 0
    });
    let result = client.call("write", &write).to_string();
    assert!(result.len() < 4_000_000 && result.contains("lines_added"), "{} {result:.300}", result.len());
    workspace.holds("a.txt", &long('b'));
}

#[test]
fn image_is_sent_once_as_its_own_block() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    std::fs::write(workspace.path("a.gif"), GIF).unwrap();
    std::fs::write(workspace.path("a.bin"), b"\0\x01").unwrap();
    let image = json!({ "type": "image", "data": GIF_BASE64, "mimeType": "image/gif" });
    let one = json!({ "path": "a.gif", "binary": "base64" });
    let mut client = workspace.serve(&[]);
    let data = client.ok("read", &one);
    assert_eq!((&data["mime"], &data["width"], &data["height"]), (&json!("image/gif"), &json!(2), &json!(3)));
    assert_eq!((data.get("base64"), &data["size"]), (None, &json!(GIF.len())));
    let result = client.call("read", &one);
    assert_eq!(result["content"].as_array().unwrap().len(), 2);
    assert_eq!(result["content"][1], image);
    assert_eq!(result.to_string().matches(GIF_BASE64).count(), 1);
    // Of several files, each image has its block; files that clients cannot show stay in the text.
    let several = json!({ "paths": ["a.gif", "a.txt", "a.bin", "a.gif"], "binary": "base64" });
    let files = client.ok("read", &several)["files"].clone();
    assert_eq!((&files[1]["content"], &files[2]["base64"]), (&json!("a\n"), &json!("AAE=")));
    let content = client.call("read", &several)["content"].clone();
    assert_eq!((content.as_array().unwrap().len(), &content[1], &content[2]), (3, &image, &image));
    // An image that was not asked for is refused, and an unchanged image is not sent.
    client.refused("read", &json!({ "path": "a.gif" }), "binary_file");
    let again = json!({ "path": "a.gif", "binary": "base64", "if_sha256": data["sha256"] });
    assert_eq!(client.call("read", &again)["content"].as_array().unwrap().len(), 1);
    // As text only.
    let mut client = workspace.serve(&["--results", "text"]);
    let content = client.call("read", &one)["content"].clone();
    let said = json!({ "type": "text", "text": "a.gif: image/gif, 35 bytes, 2x3 pixels" });
    assert_eq!(content, json!([said, image]));
    let bytes = client.call("read", &json!({ "path": "a.bin", "binary": "base64" }));
    assert_eq!(bytes["content"][0]["text"], "AAE=");
}

#[test]
fn large_image_is_shown_if_it_fits_into_a_message() {
    let workspace = Workspace::with(&[]);
    for (path, bytes) in [("large.gif", 2_400_000), ("huge.gif", 3_000_000)] {
        let rest = u8::try_from(bytes % 251).unwrap();
        std::fs::write(workspace.path(path), [GIF, &vec![rest; bytes]].concat()).unwrap();
    }
    let mut client = workspace.serve(&[]);
    let of = |path: &str| json!({ "path": path, "binary": "base64", "max_bytes": 0 });
    let result = client.call("read", &of("large.gif"));
    assert!(result["content"][1]["data"].as_str().unwrap().len() > 3_200_000, "{}", result["isError"]);
    let error = client.refused("read", &of("huge.gif"), "too_large");
    assert!(error["suggested_action"].as_str().unwrap().contains("command line"), "{error}");
    let error = client.refused("read", &json!({ "path": "large.gif", "binary": "base64" }), "too_large");
    assert!(error["suggested_action"].as_str().unwrap().contains("max_bytes"), "{error}");
    // A message holds the base64 of other files twice; a response that does not fit counts as no read.
    std::fs::write(workspace.path("large.bin"), vec![0; 2_000_000]).unwrap();
    client.refused("read", &of("large.bin"), "too_large");
    client.refused("write", &json!({ "path": "large.bin", "content": "" }), "not_read");
}

#[test]
fn queued_calls_use_bounded_memory() {
    /// Number of calls of a megabyte each.
    const CALLS: usize = 240;
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    let content = "0123456789abcde\n".repeat(1 << 16);
    for number in 0..CALLS {
        let arguments = json!({ "path": format!("{number}.txt"), "content": content, "dry_run": true });
        let call = json!({ "jsonrpc": "2.0", "id": format!("call {number}"), "method": "tools/call",
            "params": { "name": "write", "arguments": arguments } });
        client.send(call.to_string());
    }
    client.send(r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#);
    let answers: Vec<Value> = (0..=CALLS).map(|_| client.next()).collect();
    assert!(answers.iter().all(|answer| answer["error"].is_null()));
    let status = std::fs::read_to_string(format!("/proc/{}/status", client.process.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 230_000, "{kilobytes} kB");
}

#[test]
fn mcp_suggested_actions_name_fields_instead_of_flags() {
    let workspace = Workspace::with(&[("a.txt", "one\n"), ("b.bin", "\0"), ("c.txt", "x\n")]);
    let mut client = workspace.serve(&[]);
    client.ok("read", &json!({ "path": "c.txt" }));
    workspace.write("c.txt", "y\n");
    for (tool, arguments) in [
        ("edit", json!({ "path": "a.txt", "old_string": "one", "new_string": "two" })),
        ("edit", json!({ "path": "c.txt", "old_string": "x", "new_string": "z" })),
        ("write", json!({ "path": "a.txt", "content": "x" })),
        ("write", json!({ "path": "a.txt" })),
        ("read", json!({ "path": "none.txt" })),
        ("read", json!({ "path": "b.bin" })),
        ("read", json!({ "path": "../x" })),
        ("read", json!({ "pth": "x" })),
        ("read", json!({ "path": "a.txt", "limit": "x" })),
        ("read", json!({ "path": "a.txt", "session": "../x" })),
        ("grep", json!({ "pattern": "(" })),
        ("grep", json!({ "pattern": "a\\nb" })),
        ("grep", json!({ "pattern": "x", "type": "nosuch" })),
        ("undo", json!({ "session": "other" })),
        ("diff", json!({ "from": "nosuch" })),
        ("log", json!({ "path": "nosuch" })),
        ("restore", json!({ "trash_id": "nosuch" })),
        ("delete", json!({ "path": "nosuch" })),
        ("move", json!({ "from": "a.txt", "to": "c.txt" })),
        ("patch", json!({ "patch": "nothing" })),
    ] {
        let result = client.call(tool, &arguments);
        let text = result["content"][0]["text"].as_str().unwrap();
        let is_flag = |word: &str| {
            word.trim_start_matches(['(', '`', '"'])
                .strip_prefix("--")
                .is_some_and(|flag| flag.starts_with(|first: char| first.is_ascii_lowercase()))
        };
        assert!(!text.split_whitespace().any(is_flag), "{tool} {arguments}: {text}");
        assert!(!text.contains("`lbx ") && !text.contains("command line"), "{tool} {arguments}: {text}");
    }
}
