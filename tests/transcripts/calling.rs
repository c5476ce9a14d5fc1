//! The forms of a call: flags, JSON, stdin, links, environment, output.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::common::{Workspace, kill, sha256};

/// Makes a request in every form that a shell or a program may send.
fn in_every_form(ws: &Workspace, tool: &str, flags: &[&str], request: &Value) -> Vec<(&'static str, Value)> {
    let text = request.to_string();
    std::fs::write(ws.outside.join("request.json"), &text).unwrap();
    let at_file = format!("@{}", ws.outside.join("request.json").display());
    let line = json!({ "tool": tool, "request": request }).to_string();
    let by_flags: Vec<&str> = [tool].into_iter().chain(flags.iter().copied()).collect();
    vec![
        ("flags", ws.lbx(&by_flags).ok()),
        ("--json", ws.lbx(&[tool, "--json", &text]).ok()),
        ("--json=", ws.lbx(&[&format!("--json={text}"), tool]).ok()),
        ("--json -", ws.lbx_stdin(&[tool, "--json", "-"], &text).ok()),
        ("--json @FILE", ws.lbx(&[tool, "--json", &at_file]).ok()),
        ("stdin", ws.lbx_stdin(&[tool], &text).ok()),
        ("stdin, pretty", ws.lbx_stdin(&[tool], format!("\n {request:#} \n")).ok()),
        ("batch", ws.lbx_stdin(&["batch"], line).envelope()["data"].take()),
    ]
}

#[test]
fn request_gets_the_same_response_in_every_form() {
    let ws = Workspace::with(&[("a b.txt", "one\ntwo\nthree\n")]);
    let old = sha256(b"one\ntwo\nthree\n");
    let cases: &[(&str, &[&str], Value)] = &[
        (
            "read",
            &["a b.txt", "--offset", "1", "--limit", "1"],
            json!({"path": "a b.txt", "offset": 1, "limit": 1}),
        ),
        (
            "read",
            &["--start-line=2", "a b.txt", "-n"],
            json!({"path": "a b.txt", "start_line": 2, "line_numbers": true}),
        ),
        (
            "write",
            &["a b.txt", "--content", "-x-\n", "--dry-run", "--expected-sha256", &old],
            json!({"path": "a b.txt", "content": "-x-\n", "dry_run": true, "expected_sha256": old}),
        ),
        (
            "edit",
            &["a b.txt", "--old-string", "two", "--new-string", "-2", "--dry-run"],
            json!({"path": "a b.txt", "old_string": "two", "new_string": "-2", "dry_run": true}),
        ),
        (
            "append",
            &["a b.txt", "--content=four\n", "--dry-run"],
            json!({"path": "a b.txt", "content": "four\n", "dry_run": true}),
        ),
        (
            "prepend",
            &["a b.txt", "--content", "zero\n", "--dry-run"],
            json!({"path": "a b.txt", "content": "zero\n", "dry_run": true}),
        ),
        (
            "insert",
            &["a b.txt", "1", "--content", "1.5", "--dry-run"],
            json!({"path": "a b.txt", "line": 1, "content": "1.5", "dry_run": true}),
        ),
    ];
    ws.lbx(&["read", "a b.txt"]).ok();
    for (tool, flags, request) in cases {
        let answers = ws.unchanged(|| in_every_form(&ws, tool, flags, request));
        let (_, first) = &answers[0];
        for (form, answer) in &answers {
            assert_eq!(answer, first, "{tool} by {form}");
        }
    }
}

#[test]
fn content_is_read_from_stdin() {
    let ws = Workspace::with(&[]);
    let text = "first 'quoted' \"line\" $HOME\n\ttab \\ backslash\n";
    ws.lbx_stdin(&["write", "a.txt"], text).ok();
    ws.holds("a.txt", text);
    ws.lbx_stdin(&["append", "a.txt"], "last\n").ok();
    ws.lbx_stdin(&["prepend", "a.txt"], "top\n").ok();
    ws.lbx_stdin(&["insert", "a.txt", "1"], "below the top\n").ok();
    ws.holds("a.txt", format!("top\nbelow the top\n{text}last\n"));
}

#[test]
fn content_that_looks_like_a_flag_is_content() {
    let ws = Workspace::with(&[]);
    for text in ["--help", "-x", "--", "-", "--content"] {
        ws.lbx_stdin(&["write", "a.txt"], text).ok();
        ws.holds("a.txt", text);
        ws.lbx(&["write", "b.txt", "--content", text]).ok();
        ws.holds("b.txt", text);
    }
    ws.lbx_stdin(&["write", "--why", "a reason", "--", "-dash.txt"], "x").ok();
    ws.holds("-dash.txt", "x");
}

#[test]
fn edit_reads_search_replace_blocks_from_stdin() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\nthree\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let blocks = "<<<<<<< SEARCH\none\n=======\n1\n>>>>>>> REPLACE\n<<<<<<< SEARCH\nthree\n=======\n3\n>>>>>>> REPLACE\n";
    let data = ws.lbx_stdin(&["edit", "a.txt"], blocks).ok();
    assert_eq!(data["count"], 2);
    ws.holds("a.txt", "1\ntwo\n3\n");
    let longer = "<<<<<<<<<< SEARCH\ntwo\n==========\n<<<<<<< SEARCH\n=======\n>>>>>>>>>> REPLACE\n";
    ws.lbx_stdin(&["edit", "a.txt"], longer).ok();
    ws.holds("a.txt", "1\n<<<<<<< SEARCH\n=======\n3\n");
    let error = ws.lbx_stdin(&["edit", "a.txt"], "<<<<<<< SEARCH\n1\n").error("invalid_request");
    assert!(error["message"].as_str().unwrap().contains("line"), "{error}");
}

#[test]
fn empty_pipe_gives_empty_content_and_dev_null_no_content() {
    let ws = Workspace::with(&[("full.txt", "full\n")]);
    ws.lbx(&["read", "full.txt"]).ok();
    ws.unchanged(|| ws.lbx(&["write", "full.txt"]).error("invalid_request"));
    ws.lbx_stdin(&["write", "full.txt"], "").ok();
    ws.holds("full.txt", "");
    let empty = ws.outside.join("empty");
    std::fs::write(&empty, "").unwrap();
    ws.call(&["write", "new.txt"]).stdin_file(&empty).run().ok();
    ws.holds("new.txt", "");
    ws.lbx(&["write", "explicit.txt", "--content", ""]).ok();
    ws.holds("explicit.txt", "");
}

#[test]
fn byte_order_mark_before_a_request_is_ignored() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let request = "\u{feff}{\"path\": \"a.txt\"}";
    ws.write("request.json", request);
    for answer in [
        ws.lbx_stdin(&["read"], request),
        ws.lbx_stdin(&["read", "--json", "-"], request),
        ws.lbx(&["read", "--json", "@request.json"]),
    ] {
        assert_eq!(answer.ok()["content"], "one\n");
    }
    let batch = "\u{feff}{\"tool\": \"read\", \"request\": {\"path\": \"a.txt\"}}\n";
    assert!(ws.lbx_stdin(&["batch"], batch).stdout_text().contains("\"one\\n\""));
    let patch = "\u{feff}{\"patch\": \"[a.txt]\\nPUT 1:\\n+two\\n\"}";
    ws.lbx_stdin(&["patch"], patch).ok();
    ws.holds("a.txt", "two\n");
}

#[test]
fn empty_stdin_is_an_empty_request() {
    let ws = Workspace::with(&[]);
    for tool in ["read", "write", "edit", "append", "prepend", "insert"] {
        for empty in ["", "\n", "  \n\t"] {
            let error = ws.lbx_stdin(&[tool], empty).error("invalid_request");
            assert!(error["message"].as_str().unwrap().contains("missing"), "{tool}: {error}");
        }
        ws.lbx(&[tool]).error("invalid_request");
    }
}

#[test]
fn every_tool_that_needs_input_reads_a_request_from_stdin() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let tools = ws.lbx(&["schema"]).ok()["tools"].clone();
    let required = |tool: &Value| {
        let schema = ws.lbx(&["schema", tool["name"].as_str().unwrap()]).ok()["tools"][0].clone();
        schema["request"]["required"].as_array().is_some_and(|fields| !fields.is_empty())
    };
    let needing = tools.as_array().unwrap().iter().filter(|tool| required(tool));
    let mut needing: Vec<&str> = needing.map(|tool| tool["name"].as_str().unwrap()).collect();
    // These need one of several fields, which no schema says.
    needing.extend(["read", "delete", "rewind", "merge"]);
    assert!(needing.contains(&"squash") && needing.contains(&"grep"), "{needing:?}");
    for tool in needing.into_iter().filter(|tool| !["hook", "apply_patch", "watch"].contains(tool)) {
        let error = ws.lbx_stdin(&[tool], r#"{"bogus": 1}"#).error("invalid_request");
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with("unknown field `bogus`"), "{tool}: {message}");
    }
}

#[test]
fn tool_without_a_required_field_never_waits_for_stdin() {
    let ws = Workspace::with(&[]);
    ws.call(&["schema"]).stdin_never_closes().run().ok();
    ws.call(&["read", "--help"]).stdin_never_closes().run().stdout_text();
    ws.call(&["schema", "--json", r#"{"tool":"read"}"#]).stdin_never_closes().run().ok();
}

#[test]
fn missing_content_error_lists_ways_to_give_it() {
    let ws = Workspace::with(&[("a.md", "# A\n")]);
    let calls: &[(&[&str], &str)] = &[
        (&["patch"], "patch"),
        (&["patch", "--dry-run"], "patch"),
        (&["write", "b.txt"], "content"),
        (&["append", "b.txt"], "content"),
        (&["prepend", "b.txt"], "content"),
        (&["insert", "a.md", "--line", "1"], "content"),
        (&["section", "a.md", "--header", "A"], "content"),
    ];
    ws.unchanged(|| {
        for (call, field) in calls {
            let error = ws.call(call).stdin_file(Path::new("/dev/null")).run().error("invalid_request");
            assert_eq!(error["message"], format!("field `{field}` is missing"), "{call:?}");
            assert_eq!(error["details"]["field"], *field, "{call:?}");
            let action = error["suggested_action"].as_str().unwrap();
            let says = |part: &str| action.contains(part);
            assert!(says(&format!("--{field}")) && says("--json") && says("on stdin"), "{call:?}: {action}");
        }
        let codex = ws.call(&["apply_patch"]).stdin_file(Path::new("/dev/null")).run();
        assert_eq!(codex.status(), 2);
        assert!(codex.stderr().contains("give the patch as the argument or on stdin"), "{}", codex.stderr());
        // Other missing fields have the usual message.
        let error = ws.call(&["write", "--content", "x"]).run().error("invalid_request");
        assert_eq!(error["message"], "field `path` is missing");
    });
}

#[test]
fn call_with_content_never_waits_for_stdin() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let calls: &[&[&str]] = &[
        &["read", "a.txt"],
        &["write", "b.txt", "--content", "x\n"],
        &["append", "b.txt", "--content", "x\n"],
        &["insert", "a.txt", "0", "--content", "zero"],
        &["edit", "a.txt", "--old-string", "one", "--new-string", "1"],
        &["read", "--json", r#"{"path":"a.txt"}"#],
    ];
    for call in calls {
        ws.call(call).stdin_never_closes().run().ok();
    }
}

#[test]
fn batch_responds_to_every_line_in_order() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let lines = [
        r#"{"tool":"edit","request":{"path":"a.txt","old_string":"one","new_string":"two"},"id":1}"#,
        "",
        r#"{"tool":"read","request":{"path":"a.txt"},"id":"b"}"#,
        r#"{"tool":"edit","request":{"path":"a.txt","old_string":"one","new_string":"two"},"id":{"n":3}}"#,
        "no json",
        r#"{"tool":"nothing"}"#,
        r#"{"tool":"write","request":{"path":"new/b.txt","content":"b"}}"#,
        r#"{"request":{}}"#,
        r#"{"tool":"read","request":{"path":"new/b.txt"},"more":1}"#,
    ];
    let answer = ws.lbx_stdin(&["batch"], lines.join("\n"));
    assert_eq!(answer.status(), 5, "the status of the first that failed");
    let answers = answer.lines();
    let kinds: Vec<&str> =
        answers.iter().map(|line| line["error"]["kind"].as_str().unwrap_or("ok")).collect();
    assert_eq!(
        kinds,
        [
            "not_read",
            "ok",
            "ok",
            "invalid_request",
            "invalid_request",
            "ok",
            "invalid_request",
            "invalid_request"
        ]
    );
    let ids: Vec<&Value> = answers.iter().map(|line| &line["id"]).collect();
    assert_eq!(ids[..4], [&json!(1), &json!("b"), &json!({"n": 3}), &Value::Null]);
    ws.holds("a.txt", "two\n");
    ws.holds("new/b.txt", "b");
    assert_eq!(ws.snapshots(), ["write: new/b.txt", "edit: a.txt"]);
}

#[test]
fn successful_batch_exits_0() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let answer = ws.lbx_stdin(&["batch"], "{\"tool\":\"read\",\"request\":{\"path\":\"a.txt\"}}\n");
    assert_eq!((answer.status(), answer.lines().len()), (0, 1));
    assert_eq!(ws.lbx_stdin(&["batch"], "").status(), 0);
}

#[test]
fn link_named_after_a_tool_runs_that_tool() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for name in ["read", "/usr/local/bin/read", "read_file", "view"] {
        let envelope = ws.call(&["a.txt"]).named(name).run().success();
        assert_eq!((&envelope["tool"], &envelope["data"]["content"]), (&json!("read"), &json!("one\n")));
    }
    let json = r#"{"path":"a.txt","old_str":"one","new_str":"two"}"#;
    ws.call(&["--json", json]).named("str_replace").run().ok();
    ws.holds("a.txt", "two\n");
}

#[test]
fn tool_aliases_are_accepted() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read_file", "a.txt"]).ok();
    ws.lbx(&["edit_file", "a.txt", "--old-string", "one", "--new-string", "two"]).ok();
    ws.lbx(&["create_file", "b.txt", "--content", "b"]).ok();
    ws.holds("a.txt", "two\n");
}

#[test]
fn text_mode_prints_the_payload_alone() {
    let ws = Workspace::with(&[("a.txt", "one\r\ntwo"), ("b.txt", "b\n")]);
    let read = ws.lbx(&["read", "a.txt", "--text"]);
    assert_eq!((read.status(), read.stdout(), read.stderr().as_str()), (0, &b"one\r\ntwo"[..], ""));
    let several = ws.lbx(&["-t", "read", "b.txt", "none.txt"]);
    assert!(several.stdout_text().starts_with("==> b.txt <==\nb\n"), "{}", several.stdout_text());
    let refused = ws.lbx(&["edit", "b.txt", "--text", "--old-string", "x", "--new-string", "y"]);
    // b.txt was read, so the error is about the missing text.
    assert_eq!((refused.status(), refused.stdout()), (7, &b""[..]));
    assert!(
        refused.stderr().starts_with("lbx: no_match: `old_string` not found in b.txt"),
        "{}",
        refused.stderr()
    );
    let change = ws.call(&["write", "c.txt", "--content", "c\n"]).env("LBX_OUTPUT", "text").run();
    assert_eq!(change.stdout_text().lines().count(), 1, "{}", change.stdout_text());
}

#[test]
fn pretty_prints_one_object_on_several_lines() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let answer = ws.lbx(&["read", "a.txt", "--pretty"]);
    assert!(answer.stdout_text().lines().count() > 5);
    assert_eq!(answer.ok()["content"], "one\n");
    assert_eq!(ws.lbx(&["read", "a.txt"]).stdout_text().lines().count(), 1);
}

#[test]
fn exit_status_flag_has_no_effect_on_read() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt", "--exit-status"]).ok();
    ws.lbx(&["--exit-status", "read", "none.txt"]).error("not_found");
}

#[test]
fn environment_sets_workspace_and_session() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let edit = ["edit", "a.txt", "--old-string", "one", "--new-string", "two", "--dry-run"];
    ws.call(&["read", "a.txt"]).env("LBX_SESSION", "s1").run().ok();
    ws.lbx(&edit).error("not_read");
    ws.call(&edit).env("LBX_SESSION", "s1").run().ok();
    ws.call(&edit).env("CLAUDE_CODE_SESSION_ID", "s1").run().ok();
    ws.call(&edit).env("CODEX_THREAD_ID", "s1").run().ok();
    ws.call(&edit).env("LBX_SESSION", "s1").env("CODEX_THREAD_ID", "other").run().ok();
    ws.call(&edit).env("LBX_SESSION", "").env("CODEX_THREAD_ID", "s1").run().ok();
    ws.call(&["--session", "s2"]).arguments(&edit).env("LBX_SESSION", "s1").run().error("not_read");
    ws.call(&edit).arguments(&["--session=s1"]).run().ok();
    let away = ws.outside.join("home");
    let data = ws.call(&["read", "a.txt"]).in_folder(&away).env("LBX_WORKSPACE", &ws.root).run().ok();
    assert_eq!(data["content"], "one\n");
    ws.call(&["read", "a.txt"]).in_folder(&away).arguments(&["--workspace", "../ws"]).run().ok();
}

#[test]
fn session_and_workspace_are_fields_of_every_request() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.json("read", &json!({"path": "a.txt", "session": "s1"})).ok();
    let edit = json!({"path": "a.txt", "old_string": "one", "new_string": "two", "dry_run": true});
    ws.json("edit", &edit).error("not_read");
    let mut by_s1 = edit.clone();
    by_s1["session"] = json!("s1");
    ws.json("edit", &by_s1).ok();
    let away = ws.outside.join("home");
    by_s1["workspace"] = json!(ws.root);
    let text = by_s1.to_string();
    ws.call(&["edit", "--json", &text]).in_folder(&away).run().ok();
    let line = json!({"tool": "edit", "request": by_s1}).to_string();
    let answer = ws.call(&["batch"]).in_folder(&away).stdin(line).run();
    assert_eq!(answer.lines()[0]["ok"], true);
}

#[test]
fn unknown_sandbox_is_an_error() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt", "--sandbox", "none"]).error("sandbox_not_found");
    ws.call(&["read", "a.txt"]).env("LBX_SANDBOX", "none").run().error("sandbox_not_found");
    ws.json("read", &json!({"path": "a.txt", "sandbox": "none"})).error("sandbox_not_found");
}

#[test]
fn help_and_version_print_text() {
    let ws = Workspace::with(&[]);
    let help = ws.lbx(&["--help"]);
    assert_eq!(help.status(), 0);
    for word in ["read", "write", "edit", "batch", "mcp", "--session"] {
        assert!(help.stdout_text().contains(word), "{word}");
    }
    assert!(ws.lbx(&["edit", "--help"]).stdout_text().contains("--old-string"));
    assert_eq!(ws.lbx(&["--version"]).stdout_text(), format!("lbx {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn schema_lists_every_tool_and_no_alias() {
    let ws = Workspace::with(&[]);
    let all = ws.lbx(&["schema"]).ok();
    let names: Vec<&str> =
        all["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for name in ["read", "write", "edit", "append", "prepend", "insert"] {
        assert!(names.contains(&name), "{name}");
    }
    for tool in all["tools"].as_array().unwrap() {
        assert_eq!(tool["request"]["type"], "object", "{tool:#}");
        assert_eq!(tool["response"]["type"], "object", "{tool:#}");
    }
    let one = ws.lbx(&["schema", "edit"]).ok();
    let fields = one["tools"][0]["request"]["properties"].as_object().unwrap().clone();
    assert!(fields.contains_key("old_string") && !fields.contains_key("old_str"), "{fields:?}");
    let aliases = ws.lbx(&["schema", "edit", "--aliases"]).ok();
    assert!(aliases["tools"][0]["aliases"]["fields"]["old_string"].to_string().contains("old_str"));
    ws.lbx(&["schema", "none"]).error("invalid_request");
}

#[test]
fn closed_stdout_causes_no_panic() {
    let ws = Workspace::with(&[("big.txt", &"line\n".repeat(100_000))]);
    let mut child = ws.call(&["read", "big.txt", "--max-bytes", "0", "--limit", "0"]).spawn();
    drop(child.stdout.take());
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert_ne!(status.code(), Some(101));
            break;
        }
        if since.elapsed().as_secs() > 60 {
            kill(child.id());
            panic!("it hangs");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn field_aliases_work_as_flags() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\n")]);
    ws.lbx(&["read", "--file-path", "a.txt", "--startLine", "1"]).ok();
    ws.lbx(&["edit", "--absolute_path=a.txt", "--old-str", "one", "--newText", "--path"]).ok();
    ws.holds("a.txt", "--path\ntwo\n");
    ws.lbx(&["edit", "a.txt", "--search", "--path", "--replace", "one"]).ok();
    ws.holds("a.txt", "one\ntwo\n");
    assert_eq!(ws.lbx(&["grep", "o", "--head-limit", "1"]).ok()["next_offset"], 1);
    assert_eq!(ws.lbx(&["grep", "--query", "two", "--dir-path", "."]).ok()["matched"], 1);
    ws.lbx(&["write", "b.txt", "--content", "b", "--description", "--reason"]).ok();
    let help = ws.lbx(&["edit", "--help"]).stdout_text();
    assert!(!help.contains("--old-str ") && !help.contains("--absolute-path"), "{help}");
}

#[test]
fn flag_value_may_look_like_a_flag() {
    let ws = Workspace::with(&[("a.txt", "--path\n--\n-x\n")]);
    ws.lbx(&["--session", "read", "read", "--path", "a.txt"]).ok();
    for (old, new) in [("--path", "--session"), ("--session", "--help"), ("-x", "--json"), ("--\n", "-\n")] {
        ws.lbx(&["--session", "read", "edit", "a.txt", "--old-string", old, "--new-string", new]).ok();
    }
    ws.holds("a.txt", "--help\n-\n--json\n");
    ws.lbx_stdin(&["--session", "write", "write", "b.txt"], "b\n").ok();
    ws.holds("b.txt", "b\n");
    ws.lbx(&["write", "c.txt", "--content", "c", "--why", "--content"]).ok();
    ws.holds("c.txt", "c");
}

#[test]
fn at_sign_reads_a_value_from_a_file() {
    let ws = Workspace::with(&[("from.txt", "one\n\"two\"\n"), ("a.md", "# A\nold\n")]);
    ws.lbx(&["write", "to.txt", "--content", "@from.txt"]).ok();
    ws.holds("to.txt", "one\n\"two\"\n");
    ws.lbx(&["append", "to.txt", "--content=@from.txt"]).ok();
    ws.holds("to.txt", "one\n\"two\"\none\n\"two\"\n");
    for (content, text) in [("@@from.txt", "@from.txt"), ("@", "@"), ("@dec\ndef f()\n", "@dec\ndef f()\n")] {
        ws.lbx(&["write", "b.txt", "--content", content]).ok();
        ws.holds("b.txt", text);
    }
    let error = ws.unchanged(|| ws.lbx(&["write", "c.txt", "--content", "@missing"]).error("not_found"));
    assert!(error["suggested_action"].as_str().unwrap().contains("`@@missing`"), "{error}");
    ws.lbx(&["read", "from.txt"]).ok();
    ws.write("fix.diff", "--- a/from.txt\n+++ b/from.txt\n@@ -1 +1 @@\n-one\n+1\n");
    ws.lbx(&["patch", "fix.diff", "--dry-run"]).ok();
    ws.lbx(&["patch", "fix.diff"]).ok();
    ws.holds("from.txt", "1\n\"two\"\n");
    ws.lbx(&["patch", "--reverse", "--patch", "@fix.diff"]).ok();
    ws.holds("from.txt", "one\n\"two\"\n");
    ws.lbx(&["patch", "nowhere.diff"]).error("not_found");
}

#[test]
fn invalid_flag_value_error_lists_accepted_values() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let cases: &[(&[&str], &str)] = &[
        (&["read", "a.txt", "--max-bytes", "-1"], "`--max-bytes`: expected a whole number from 0, got -1"),
        (&["read", "a.txt", "--max-bytes=-1"], "`--max-bytes`: expected a whole number from 0, got -1"),
        (&["grep", "x", "-C", "-2"], "`--context`: expected a whole number from 0, got -2"),
        (&["grep", "x", "-inC", "-2"], "`--context`: expected a whole number from 0, got -2"),
        (&["insert", "a.txt", "-1", "--content", "x"], "`line`: expected a whole number from 0, got -1"),
        (
            &["insert", "a.txt", "--line", "-1", "--content", "x"],
            "`line`: expected a whole number from 0, got -1",
        ),
        (&["trash", "empty"], "`action`: expected list or purge, got empty"),
        (
            &["grep", "x", "--output-mode", "lines"],
            "`--output-mode`: expected content or files or count or count_matches, got lines",
        ),
        (&["log", "--limit", "ten"], "`--limit`: expected a whole number from 0, got ten"),
    ];
    for (call, wanted) in cases {
        let error = ws.lbx(call).error("invalid_request");
        assert_eq!(error["message"], *wanted, "{call:?}");
    }
    // A line may count from the end, and a text may look like a number.
    assert_eq!(ws.lbx(&["read", "a.txt", "--offset", "-1"]).ok()["content"], "one\n");
    ws.lbx(&["write", "b.txt", "--content", "-1"]).ok();
}

#[test]
fn negative_number_is_parsed_as_a_flag_value() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for tool in ws.lbx(&["schema"]).ok()["tools"].as_array().unwrap() {
        let (name, fields) =
            (tool["name"].as_str().unwrap(), tool["request"]["properties"].as_object().unwrap());
        // The line of `insert` is positional, and is not parsed without the path before it.
        let is_flag = |field: &str| (name, field) != ("insert", "line");
        let numbers =
            fields.iter().filter(|(_, field)| field["type"] == "integer" && field["minimum"].is_u64());
        for (field, _) in numbers.filter(|(field, _)| is_flag(field)) {
            let flag = format!("--{}", field.replace('_', "-"));
            let error = ws.lbx(&[name, &flag, "-1"]).error("invalid_request");
            let message = error["message"].as_str().unwrap();
            assert!(message.starts_with(&format!("`{flag}`: expected a whole number")), "{name}: {message}");
        }
    }
}

#[test]
fn missing_required_field_is_named() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for (tool, field) in [("grep", "pattern"), ("glob", "pattern"), ("read", "path"), ("move", "from")] {
        let error = ws.lbx(&[tool]).error("invalid_request");
        assert_eq!(error["details"]["field"], field, "{tool}: {error}");
        let advice = error["suggested_action"].as_str().unwrap();
        assert!(!advice.contains("TOOL"), "{advice}");
    }
    assert_eq!(ws.lbx(&["grep", ""]).error("invalid_request")["message"], "pattern is empty");
    assert_eq!(ws.lbx(&["grep", "-e", "one", "a.txt"]).ok()["matched"], 1);
}

#[test]
fn schema_list_is_short() {
    let ws = Workspace::with(&[]);
    let answer = ws.lbx(&["schema", "--list"]);
    assert!(answer.stdout_text().len() < 6000, "{}", answer.stdout_text().len());
    let data = answer.ok();
    let of = |name: &str| data["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).cloned();
    assert_eq!(
        of("edit").unwrap(),
        json!({"name": "edit", "description": "Replace text that occurs exactly once in a file"})
    );
    let text = ws.lbx(&["schema", "--list", "--text"]).stdout_text();
    assert!(
        text.lines().any(|line| line == "edit         Replace text that occurs exactly once in a file"),
        "{text}"
    );
    ws.lbx(&["schema", "--list", "--aliases"]).error("invalid_request");
}

#[test]
fn unknown_flag_error_suggests_the_likely_flag() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let cases: &[(&[&str], &[&str], &[&str])] = &[
        (&["read", "a.txt", "--head", "3"], &["--limit"], &["--heading", "as a value"]),
        (&["read", "a.txt", "--tail", "3"], &["--offset"], &[]),
        (&["grep", "x", "--maxresult", "3"], &["`grep` has no flag `--maxresult`"], &["as a value"]),
        (&["edit", "a.txt", "--replaceall"], &["--replace-all"], &[]),
        (&["grep", "x", "--replace", "y"], &["`edit` replaces"], &["Did you mean"]),
        (&["write", "a.txt", "--zzz"], &["Leave it out"], &["Did you mean"]),
        (&["edit", "a.txt", "--edits", "[]"], &["field `edits` is empty"], &[]),
        (&["schema", "--dialectz", "x"], &["Give `dialect` in --json: it has no flag"], &["Did you mean"]),
        (&["grep", "-G", "a", "b"], &["ripgrep's syntax"], &[]),
        (&["undo", "1", "2", "3"], &["unexpected argument"], &[]),
    ];
    for (call, says, not) in cases {
        let error = ws.lbx(call).error("invalid_request");
        let all =
            format!("{} {}", error["message"].as_str().unwrap(), error["suggested_action"].as_str().unwrap());
        assert!(says.iter().all(|part| all.contains(part)), "{call:?}: {all}");
        assert!(!not.iter().any(|part| all.contains(part)), "{call:?}: {all}");
    }
    for (word, says) in
        [("copy", "write TO --content @FROM"), ("cat", "`read`"), ("wirte", "Did you mean `write`?")]
    {
        let error = ws.lbx(&[word, "a", "b"]).error("invalid_request");
        assert!(error["suggested_action"].as_str().unwrap().contains(says), "{word}: {error}");
    }
}

#[test]
fn invalid_batch_line_keeps_its_id_in_the_response() {
    let ws = Workspace::with(&[]);
    let lines = [
        r#"{"id":1,"request":{}}"#,
        r#"{"id":"two","tool":"read","requests":{}}"#,
        r#"{"id":3,"tool":7}"#,
        r#"{"id":4,"tool":"nothing"}"#,
        r#"{"id":5,"tool":"read","request":{"path":"a","path":"b"}}"#,
        r#"{"id":6,"tool":"read","request":{"pth":"a"}}"#,
    ];
    let answers = ws.lbx_stdin(&["batch"], lines.join("\n")).lines();
    let ids: Vec<&serde_json::Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!("two"), &json!(3), &json!(4), &json!(5), &json!(6)]);
    assert!(answers.iter().all(|answer| answer["error"]["kind"] == "invalid_request"));
}

#[test]
fn schema_includes_the_common_fields_of_each_tool() {
    let ws = Workspace::with(&[]);
    for tool in ["log", "audit", "read", "write"] {
        let fields = ws.lbx(&["schema", tool]).ok()["tools"][0]["request"]["properties"].clone();
        assert_eq!(fields["session"]["type"], "string", "{tool}");
        assert_eq!(fields.get("require_snapshot").is_some(), tool == "write", "{tool}");
    }
}

#[test]
fn unknown_output_form_is_an_error() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let call = |form: &str| ws.call(&["read", "a.txt"]).env("LBX_OUTPUT", form).run();
    let error = call("yaml").error("invalid_request");
    assert!(error["message"].as_str().unwrap().contains("LBX_OUTPUT"), "{error}");
    call("json").ok();
    call("").ok();
    assert_eq!(call("text").stdout_text(), "one\n");
}

#[test]
fn common_mistakes_are_accepted_or_explained() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\n"), ("b.txt", "one\n")]);
    let error = ws.lbx(&["read", ""]).error("invalid_request");
    assert_eq!(error["message"], "field `path` is empty");
    let said = ws.lbx(&["grep", "one", "-t"]).stderr();
    assert!(said.contains("`--type` needs a value"), "{said}");
    assert!(said.contains("-t is --type: write --text for the option of every tool"), "{said}");
    let advice = |call: &[&str]| {
        ws.lbx(call).error("invalid_request")["suggested_action"].as_str().unwrap().to_owned()
    };
    let said = advice(&["edit", "a.txt", "--edit", "x"]);
    assert!(said.starts_with("Did you mean --edits or"), "{said}");
    let said = ws.lbx(&["undo", "3"]).error("not_found")["suggested_action"].to_string();
    assert!(said.contains("--steps 3"), "{said}");
    for call in [["bash", "python3", "--version"], ["bash", "ls", "src"]] {
        assert!(advice(&call).starts_with("Quote the whole command"), "{call:?}");
    }
    assert!(advice(&["write", "c.txt", "hello"]).starts_with("Give the text on stdin or in --content"));
    assert!(advice(&["read", "a.txt", "--lines", "2-2"]).starts_with("Did you mean --limit or --ranges?"));
    let said = advice(&["grep", "x", "--headlimit", "3"]);
    assert!(said.starts_with("Did you mean --limit?"), "{said}");
    for flag in ["-c", "-lc"] {
        assert_eq!(ws.lbx(&["bash", flag, "echo hi"]).ok()["stdout"], "hi\n");
    }
}

#[test]
fn dialect_tool_takes_required_parameters_in_order() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let said = |call: &[&str]| ws.lbx(call).stdout_text();
    assert!(said(&["Read", "a.txt"]).contains("one"));
    assert!(said(&["--dialect", "claude", "Edit", "a.txt", "one", "uno"]).contains("updated"));
    ws.holds("a.txt", "uno\n");
    let refused = ws.lbx(&["Read", "--file-path", "a.txt"]).error("invalid_request");
    let advice = refused["suggested_action"].as_str().unwrap();
    assert!(
        advice.contains(r#"--json '{"file_path":…}'"#) && advice.contains("lbx Read FILE_PATH"),
        "{advice}"
    );
    assert_eq!(ws.lbx(&["Read", "a.txt", "b.txt"]).status(), 2);
    let schema = ws.lbx(&["schema", "Edit"]).ok()["tools"][0].clone();
    assert_eq!(schema["request"]["required"], json!(["file_path", "old_string", "new_string"]));
}

#[test]
fn every_field_has_a_flag() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let data = ws.lbx(&["schema"]).ok();
    for tool in data["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let one = ws.lbx(&["schema", name]).ok();
        for field in one["tools"][0]["request"]["properties"].as_object().unwrap().keys() {
            // A value that no field accepts: the test is about the flag.
            let flag = format!("--{}=\u{1}", field.replace('_', "-"));
            let answer = ws.lbx(&[name, &flag, "--json", "{}"]);
            let said = answer.stdout_text() + &answer.stderr();
            assert!(!said.contains("has no flag"), "{name} {field}: {said}");
        }
    }
}

#[test]
fn other_program_name_gets_an_error_without_the_tool_list() {
    let ws = Workspace::with(&[]);
    let message =
        |tool: &str| ws.lbx(&[tool]).error("invalid_request")["message"].as_str().unwrap().to_owned();
    assert_eq!(message("cat"), "unknown tool `cat`");
    assert!(message("frobnicate").starts_with("unknown tool `frobnicate` (there are: read, "));
}

#[test]
fn batch_and_mcp_refuse_flags_of_one_call() {
    let ws = Workspace::with(&[]);
    for command in ["batch", "mcp"] {
        let flags: [&[&str]; 5] =
            [&["--json", "{}"], &["--text"], &["-0"], &["--pretty"], &["--exit-status"]];
        let of_batch: &[&[&str]] = if command == "batch" { &[&["--dialect", "claude"]] } else { &[] };
        for flag in flags.iter().chain(of_batch) {
            let answer = ws.call(&[command]).arguments(flag).run();
            let said = answer.stdout_text() + &answer.stderr();
            assert!(
                said.contains(&format!("is for one call of a tool, and `lbx {command}` makes many")),
                "{said}"
            );
            assert!(
                said.contains(&format!("Leave it out: `lbx {command} --help` lists the flags.")),
                "{said}"
            );
        }
    }
}

#[test]
fn unknown_dialect_names_the_variable() {
    let ws = Workspace::with(&[]);
    for words in [&["ls"][..], &["no_such_tool"]] {
        let error = ws.call(words).env("LBX_DIALECT", "klaud").run().error("invalid_request");
        assert_eq!(error["suggested_action"], "Name one of these with --dialect (or LBX_DIALECT), or none.");
    }
}
