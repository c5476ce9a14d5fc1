//! Valid requests, and errors for invalid ones.

use serde_json::{Value, json};

use crate::common::Workspace;

#[test]
fn field_spellings_of_models_are_accepted() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.json("read", &json!({"file_path": "a.txt"})).ok();
    for fields in [
        ["path", "old_string", "new_string"],
        ["file_path", "old_str", "new_str"],
        ["filePath", "oldString", "newString"],
        ["path", "oldText", "newText"],
        ["path", "old-string", "new-string"],
        ["target_file", "search", "replacement"],
    ] {
        let request = json!({ fields[0]: "a.txt", fields[1]: "one", fields[2]: "two", "dryRun": true });
        ws.json("edit", &request).ok();
    }
    let request = json!({"path": "a.txt", "startLine": 1, "endLine": 1});
    assert_eq!(ws.json("read", &request).ok()["content"], "one\n");
    ws.json("write", &json!({"path": "b.txt", "file_text": "b", "instruction": "why"})).ok();
    ws.holds("b.txt", "b");
}

#[test]
fn why_becomes_the_body_of_the_snapshot() {
    let ws = Workspace::with(&[]);
    for (number, field) in ["why", "description", "instruction", "summary", "explanation"].iter().enumerate()
    {
        ws.json("write", &json!({"path": "a.txt", "content": number.to_string(), *field: "For the tests"}))
            .ok();
        let message = ws.git(&["log", "-1", "--format=%B", "lbx-snapshots"]);
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines[..3], ["write: a.txt", "", "For the tests"], "{field}: {message}");
    }
}

#[test]
fn numbers_and_booleans_are_accepted_as_text() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\nthree\n")]);
    let request = json!({"path": "a.txt", "offset": "1", "limit": " 1 ", "line_numbers": "false"});
    assert_eq!(ws.json("read", &request).ok()["content"], "two\n");
    let request = json!({"path": "a.txt", "paths": null, "limit": null, "offset": null});
    assert_eq!(ws.json("read", &request).ok()["total_lines"], 3);
    let edits = r#"[{"old_string":"one","new_string":"1"}]"#;
    ws.json("edit", &json!({"path": "a.txt", "edits": edits})).ok();
    ws.holds("a.txt", "1\ntwo\nthree\n");
}

/// JSON Schema counts `2.0` as an integer, and some clients have only one kind of number.
#[test]
fn integer_with_a_zero_fraction_is_accepted() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\nthree\n")]);
    for limit in ["2.0", "2e0", "20E-1"] {
        let request = format!(r#"{{"path":"a.txt","limit":{limit},"offset":-3.0}}"#);
        assert_eq!(ws.lbx(&["read", "--json", &request]).ok()["content"], "one\ntwo\n", "{limit}");
    }
    for limit in ["2.5", "-1.0", "1e300", "18446744073709551616.0"] {
        let request = format!(r#"{{"path":"a.txt","limit":{limit}}}"#);
        let error = ws.lbx(&["read", "--json", &request]).error("invalid_request");
        assert_eq!(error["details"]["field"], "limit", "{limit}");
    }
}

#[test]
fn invalid_field_error_says_what_was_expected() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let deep = |depth: usize| (0..depth).fold(json!("x"), |inner, _| json!([inner]));
    let cases: &[(&str, Value, &[&str])] = &[
        ("read", json!({"path": "a.txt", "lines": 3}), &["unknown field `lines`", "offset"]),
        ("read", json!({"pth": "a.txt"}), &["unknown field `pth`", "did you mean `path`"]),
        ("read", json!({"path": "a.txt", "limit": -1}), &["limit", "whole number"]),
        ("read", json!({"path": "a.txt", "ranges": ["x"]}), &["ranges[0]", "10-20"]),
        ("read", json!({"path": "a.txt", "ranges": [{"first": 1}]}), &["ranges[0]", "first"]),
        ("read", json!({"path": "a.txt", "offset": 1.5}), &["offset", "whole number"]),
        ("read", json!({"path": "a.txt", "offset": "many"}), &["offset", "whole number"]),
        ("read", json!({"path": "a.txt", "line_numbers": 1}), &["line_numbers", "true or false"]),
        ("read", json!({"path": 7}), &["path", "text"]),
        ("read", json!({"path": {"a": 1}}), &["path", "text"]),
        ("read", json!({"path": deep(3)}), &["path", "text"]),
        ("read", json!({"path": "a.txt", "if_sha256": "abc"}), &["if_sha256"]),
        ("read", json!({"path": "a.txt", "binary": "hex"}), &["binary", "base64"]),
        ("write", json!({"path": "b.txt"}), &["content", "missing"]),
        ("write", json!({"content": "b"}), &["path", "missing"]),
        ("write", json!({"path": "b.txt", "content": 5}), &["content", "text"]),
        ("write", json!({"path": "b.txt", "content": "b", "mode": "9"}), &["mode"]),
        ("write", json!({"path": "b.txt", "content": "b", "mode": "4755"}), &["mode"]),
        (
            "write",
            json!({"path": "b.txt", "content": "b", "line_ending": "lf"}),
            &["line_ending", "as_is", "keep"],
        ),
        ("edit", json!({"path": "a.txt", "old_string": "", "new_string": "x"}), &["old_string", "empty"]),
        ("edit", json!({"path": "a.txt", "old_string": "one", "new_string": "one"}), &["equal"]),
        ("edit", json!({"path": "a.txt", "edits": []}), &["edits"]),
        (
            "edit",
            json!({"path": "a.txt", "edits": [{"old_string": "one"}]}),
            &["edits[0].new_string", "missing"],
        ),
        (
            "edit",
            json!({"path": "a.txt", "edits": [{"old_string": "one", "new_string": "1", "x": 1}]}),
            &["edits[0].x", "unknown"],
        ),
        ("insert", json!({"path": "a.txt", "line": -1, "content": "x"}), &["line", "whole number"]),
        ("read", json!({"path": "a.txt", "session": 5}), &["session"]),
        ("read", json!({"path": "a.txt", "session": "../x"}), &["session"]),
    ];
    ws.lbx(&["read", "a.txt"]).ok();
    ws.unchanged(|| {
        for (tool, request, parts) in cases {
            let error = ws.json(tool, request).error("invalid_request");
            let message = error["message"].as_str().unwrap();
            for part in *parts {
                assert!(message.contains(part), "{tool} {request}: no {part:?} in {message:?}");
            }
        }
    });
}

#[test]
fn request_that_is_not_a_json_object_is_rejected() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for text in [
        "[]",
        r#"[{"path":"a.txt"}]"#,
        "null",
        "7",
        r#""a.txt""#,
        "{",
        r#"{"path":"a.txt"} x"#,
        r#"{"path":"a.txt"}{"path":"a.txt"}"#,
        r"{path:1}",
        "{\"path\":\"a\u{1}\"}",
        r#"{"path":"\ud800"}"#,
    ] {
        ws.lbx_stdin(&["read"], text).error("invalid_request");
        ws.lbx(&["read", "--json", text]).error("invalid_request");
    }
    ws.lbx_stdin(&["read"], b"{\"path\":\"\xff\"}").error("invalid_request");
}

#[test]
fn duplicate_field_is_rejected_by_name() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for text in [
        r#"{"path":"a.txt","path":"a.txt"}"#,
        r#"{"path":"a.txt","file_path":"a.txt"}"#,
        r#"{"file_path":"a.txt","filePath":"a.txt"}"#,
        r#"{"path":"a.txt","session":"a","Session":"b"}"#,
    ] {
        let error = ws.lbx(&["read", "--json", text]).error("invalid_request");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("path") || message.contains("session"), "{message}");
        assert!(message.contains("twice") || message.contains("duplicate"), "{message}");
    }
    ws.lbx(&["read", "a.txt", "--limit", "1", "--limit", "2"]).error("invalid_request");
}

#[test]
fn invalid_flag_is_rejected_with_a_suggestion() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let error = ws.lbx(&["read", "a.txt", "--ofset", "1"]).error("invalid_request");
    assert!(error["suggested_action"].as_str().unwrap().contains("--offset"), "{error}");
    for call in [
        &["read", "a.txt", "--offset", "x"][..],
        &["read", "a.txt", "--start-line", "0"],
        &["insert", "a.txt", "x", "--content", "y"],
        &["write", "b.txt", "--content", "b", "extra"],
        &["write", "b.txt", "--content", "b", "--line-ending", "lf"],
        &["nothing"],
        &["--nothing"],
        &[],
        &["read", "a.txt", "--json", "{}"],
        &["read", "--json", "-"],
        &["read", "--json"],
        &["batch", "extra"],
    ] {
        ws.lbx(call).error("invalid_request");
    }
}

#[test]
fn missing_request_file_is_not_found() {
    let ws = Workspace::with(&[]);
    ws.lbx(&["read", "--json", "@none.json"]).error("not_found");
}

#[test]
fn deeply_nested_json_is_rejected_without_overflow() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for depth in [200, 100_000] {
        let text = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let request = format!(r#"{{"path":"a.txt","edits":{text}}}"#);
        ws.lbx_stdin(&["edit"], &request).error("invalid_request");
        let answer = ws.lbx_stdin(&["batch"], format!(r#"{{"tool":"edit","request":{request}}}"#));
        assert_eq!(answer.status(), 2);
        let objects = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        ws.lbx_stdin(&["edit"], objects).error("invalid_request");
    }
}

#[test]
fn path_with_a_nul_byte_is_rejected() {
    let ws = Workspace::with(&[]);
    ws.unchanged(|| {
        ws.json("read", &json!({"path": "a\0b"})).error("invalid_request");
        ws.json("write", &json!({"path": "a\0b", "content": "x"})).error("invalid_request");
        ws.json("edit", &json!({"path": "a\0b", "old_string": "x", "new_string": "y"}))
            .error("invalid_request");
    });
}

#[test]
fn empty_and_overlong_paths_are_rejected() {
    let ws = Workspace::with(&[]);
    let (long, deep) = ("x".repeat(300), format!("{}x", "x/".repeat(3000)));
    for path in ["", &long, &deep] {
        ws.json("write", &json!({"path": path, "content": "x"})).error("invalid_request");
    }
    assert!(ws.tree().is_empty());
    // Deep nesting is allowed up to a limit.
    let deepest = format!("{}x", "x/".repeat(500));
    ws.json("write", &json!({"path": deepest, "content": "x"})).ok();
    ws.holds(&deepest, "x");
}

#[test]
fn write_accepts_16_mib_from_stdin_and_json() {
    let ws = Workspace::with(&[]);
    let text = "0123456789abcde\n".repeat(1 << 20); // 16 MiB
    let data = ws.lbx_stdin(&["write", "big.txt"], &text).success()["data"].take();
    assert_eq!(data["size"], 16 << 20);
    assert_eq!(std::fs::metadata(ws.path("big.txt")).unwrap().len(), 16 << 20);
    let request = json!({"path": "big2.txt", "content": text}).to_string();
    ws.lbx_stdin(&["write"], request).success();
}

#[test]
fn json_content_is_written_exactly() {
    let ws = Workspace::with(&[]);
    let text = "\u{1}\u{7f}\u{2028}\u{feff}\0 \r\n\t\"\\/ \u{1f600} e\u{301}";
    ws.json("write", &json!({"path": "a.txt", "content": text})).warned("a character that nobody types");
    ws.holds("a.txt", text);
}

#[test]
fn error_never_repeats_a_whole_long_request() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let long = "x".repeat(100_000);
    let calls: [(&str, String); 13] = [
        ("read", json!({ "path": "a.txt", &long: 1 }).to_string()),
        ("read", json!({ "path": "a.txt", "limit": long }).to_string()),
        ("read", format!(r#"{{"{long}":1,"{long}":2}}"#)),
        ("read", json!({ "path": "a.txt", "if_sha256": long }).to_string()),
        ("grep", json!({ "pattern": format!("({}", &long[..60_000]) }).to_string()),
        ("grep", json!({ "pattern": "x", "type": long }).to_string()),
        ("ls", json!({ "session": long }).to_string()),
        ("ls", json!({ "session": [long] }).to_string()),
        ("ls", json!({ "sandbox": long }).to_string()),
        ("ls", json!({ "workspace": { &long: 1 } }).to_string()),
        ("append", json!({ "path": "a.txt", "content": "x", "require_snapshot": long }).to_string()),
        ("schema", json!({ "dialect": long }).to_string()),
        ("bash", json!({ "command": "true", "env": { &long: 1 } }).to_string()),
    ];
    for (tool, request) in calls {
        let answer = ws.lbx_stdin(&[tool, "--json", "-"], request);
        assert!(answer.stdout().len() < 24_576, "{tool}: {} bytes", answer.stdout().len());
        answer.error("invalid_request");
    }
    let answer = ws.lbx_stdin(&["batch"], json!({ "tool": long, "id": 1 }).to_string());
    assert!(answer.stdout().len() < 24_576);
    for call in [
        vec!["read".to_owned(), format!("--{long}")],
        vec!["undo".into(), "1".into(), long.clone()],
        vec![long.clone()],
    ] {
        let answer = ws.call(&call).run();
        assert!(answer.stdout().len() < 24_576, "{} bytes", answer.stdout().len());
        answer.error("invalid_request");
    }
}

#[test]
fn raw_line_break_in_a_json_string_is_named_with_its_escape() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let cases = [
        (
            "{\"path\": \"a.txt\",\n \"content\": \"one\ntwo\"}",
            "line 2 has a raw line break in a string, which JSON writes as `\\n`",
        ),
        (
            "{\"path\": \"a.txt\", \"content\": \"one\ttwo\"}",
            "line 1 has a raw tab in a string, which JSON writes as `\\t`",
        ),
    ];
    for (request, reason) in cases {
        let call = ["append", "--json", request];
        let error = ws.unchanged(|| ws.lbx(&call).error("invalid_request"));
        assert_eq!(error["message"], format!("the request is not valid JSON: {reason}"));
        let error = ws.unchanged(|| ws.lbx_stdin(&["append"], request).error("invalid_request"));
        assert_eq!(error["message"], format!("the request is not valid JSON: {reason}"));
    }
    // Another fault keeps its own reason.
    let error = ws.lbx(&["read", "--json", "{\"path\": \n}"]).error("invalid_request");
    assert_eq!(error["message"], "the request is not valid JSON: expected value at line 2 column 1");
}

#[test]
fn empty_value_says_nothing_only_where_it_has_the_type() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let request = serde_json::json!({"path": "b.txt", "content": "b", "dry_run": []});
    let error = ws.unchanged(|| ws.json("write", &request).error("invalid_request"));
    assert!(error["message"].as_str().unwrap().contains("dry_run"), "{error}");
    let request = serde_json::json!({"session": "", "workspace": "", "sandbox": "", "require_snapshot": ""});
    ws.json("ls", &request).ok();
}
