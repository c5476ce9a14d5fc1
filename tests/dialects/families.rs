//! Each family on the command line.

use lbx::dialect::DIALECTS;
use serde_json::json;

use crate::common::Workspace;
use crate::steps::{FILES, check, request};
use crate::transcripts::transcripts;

#[test]
fn each_family_is_answered_in_its_own_words() {
    for (name, steps) in transcripts() {
        let ws = Workspace::with(FILES);
        for step in steps {
            let request = request(&ws, &step.request).to_string();
            let answer = ws.lbx(&["--dialect", name, step.tool, "--json", &request]);
            let is_error = answer.status() != 0;
            let said = if is_error { answer.stderr() } else { answer.stdout_text() };
            check(&ws, &step, is_error, &said);
        }
    }
}

#[test]
fn a_name_that_one_family_alone_has_picks_it() {
    let ws = Workspace::with(FILES);
    let read = ws.call(&["--json", r#"{"file_path":"a.txt"}"#]).named("Read").run();
    assert_eq!(read.stdout_text(), "1\tone\n2\ttwo\n3\tthree\n");
    let edit = ws.lbx_stdin(&["Edit"], r#"{"file_path":"a.txt","old_string":"two","new_string":"2"}"#);
    assert_eq!(edit.stdout_text(), "The file a.txt has been updated successfully.\n");
    ws.holds("a.txt", "one\n2\nthree\n");
    // lbx's own name comes first where both have it.
    ws.lbx(&["grep", "three"]).ok();
    ws.lbx(&["--dialect", "nobody", "read", "a.txt"]).error("invalid_request");
    let json = ws.call(&["LS", "--json", r#"{"path":"src"}"#]).env("LBX_OUTPUT", "json").run().ok();
    assert!(json["text"].as_str().unwrap().ends_with("- main.rs"), "{json}");
    let refused = ws.call(&["Read", "--json", r#"{"path":"src"}"#]).env("LBX_OUTPUT", "json").run();
    refused.error("invalid_request");
}

#[test]
fn a_change_in_a_dialect_is_a_change_like_any_other() {
    let ws = Workspace::with(FILES);
    ws.lbx(&["Read", "--json", r#"{"file_path":"a.txt"}"#]).stdout();
    ws.lbx(&["Edit", "--json", r#"{"file_path":"a.txt","old_string":"two","new_string":"2"}"#]).stdout();
    assert_eq!(ws.snapshots(), ["edit: a.txt"]);
    ws.lbx(&["undo"]).ok();
    ws.holds("a.txt", "one\ntwo\nthree\n");
    // Another program steps in.
    ws.lbx(&["Read", "--json", r#"{"file_path":"a.txt"}"#]).stdout();
    ws.write("a.txt", "one\ntwo\nfour\n");
    let stale = ws.lbx(&["Edit", "--json", r#"{"file_path":"a.txt","old_string":"two","new_string":"2"}"#]);
    assert_eq!(stale.status(), 6);
    assert!(stale.stderr().contains("File has been modified since read"), "{}", stale.stderr());
    ws.holds("a.txt", "one\ntwo\nfour\n");
}

#[test]
fn every_tool_of_every_family_stands_in_its_transcript() {
    let all = transcripts();
    assert_eq!(all.len(), DIALECTS.len());
    for dialect in DIALECTS {
        let (_, steps) = all.iter().find(|(name, _)| *name == dialect.name).unwrap();
        for tool in dialect.tools {
            assert!(steps.iter().any(|step| step.tool == tool.name), "{} {}", dialect.name, tool.name);
        }
    }
}

#[test]
fn a_command_that_fails_is_answered_with_its_status() {
    let ws = Workspace::with(FILES);
    let request = json!({ "command": "echo out; echo err >&2; exit 3" }).to_string();
    let answer = ws.lbx(&["--dialect", "claude", "Bash", "--json", &request]);
    assert_eq!((answer.status(), answer.stdout_text().as_str()), (1, "Exit code 3\nout\nerr\n"));
}

#[test]
fn a_tool_of_one_family_alone_is_found_by_its_name() {
    let ws = Workspace::with(FILES);
    for (tool, request, said) in [
        ("Read", json!({ "file_path": "a.txt" }), "1\tone"),
        ("search_file_content", json!({ "pattern": "two" }), "Found"),
        ("list_directory", json!({ "dir_path": "." }), "Directory listing for"),
        ("list_allowed_directories", json!({}), "Allowed directories:"),
    ] {
        let answer = ws.lbx(&[tool, "--json", &request.to_string()]);
        assert!(answer.stdout_text().contains(said), "{tool}");
    }
}
