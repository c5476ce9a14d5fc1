//! Every kind of error: how it is provoked, and that following its advice helps.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{EXIT_STATUS, Workspace, exit_status, kill, make_fifo, sha256};

#[test]
fn every_kind_has_the_name_and_the_exit_status_of_the_contract() {
    use lbx::error::ErrorKind;
    assert_eq!(ErrorKind::ALL.len(), EXIT_STATUS.len());
    for kind in ErrorKind::ALL {
        assert_eq!(i32::from(kind.exit_code()), exit_status(kind.name()), "{kind}");
        assert!(kind.suggested_action().ends_with('.'), "{kind}");
    }
}

/// The command in a suggestion, such as `lbx read a.txt --start-line 2`, as its words.
fn command_in(suggestion: &str) -> Vec<String> {
    let command = suggestion.split("(lbx ").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
    command.split(' ').map(str::to_owned).collect()
}

#[test]
fn not_read_is_cured_by_the_read_it_names() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\nthree\n")]);
    for call in [
        &["edit", "a.txt", "--old-string", "two", "--new-string", "2"][..],
        &["insert", "a.txt", "1", "--content", "x"],
        &["write", "a.txt", "--content", "all\n"],
    ] {
        let session = format!("--session={}", call[0]);
        let error = ws.call(call).arguments(&[&session]).run().error("not_read");
        let read = command_in(error["suggested_action"].as_str().unwrap());
        ws.call(&read).arguments(&[&session]).run().ok();
        ws.call(call).arguments(&[&session]).run().success();
    }
}

#[test]
fn stale_file_is_cured_by_reading_again() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.write("a.txt", "uno\n");
    let error = ws.lbx(&["write", "a.txt", "--content", "x\n"]).error("stale_file");
    assert_eq!(
        error["suggested_action"],
        "Re-read the file to obtain the current sha256 and re-apply your edit."
    );
    let sha = ws.lbx(&["read", "a.txt"]).ok()["sha256"].as_str().unwrap().to_owned();
    ws.lbx(&["write", "a.txt", "--content", "x\n", "--expected-sha256", &sha]).ok();
}

#[test]
fn no_match_is_cured_by_the_lines_it_names() {
    let ws = Workspace::with(&[("a.txt", "fn a() {\n\treturn 1;\n}\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let edit = |old: &str| json!({"path": "a.txt", "old_string": old, "new_string": "\treturn 2;"});
    let error = ws.json("edit", &edit("    return 1;")).error("no_match");
    let near = &error["details"]["nearest"];
    let (first, last) = (near["start_line"].to_string(), near["end_line"].to_string());
    let data = ws.lbx(&["read", "a.txt", "--start-line", &first, "--end-line", &last]).ok();
    ws.json("edit", &edit(data["content"].as_str().unwrap().trim_end())).ok();
    ws.holds("a.txt", "fn a() {\n\treturn 2;\n}\n");
}

#[test]
fn ambiguous_match_is_cured_by_either_advice() {
    let text = "a\nx\nb\nx\n";
    for cure in [json!({"replace_all": true}), json!({"old_string": "b\nx", "new_string": "b\ny"})] {
        let ws = Workspace::with(&[("a.txt", text)]);
        ws.lbx(&["read", "a.txt"]).ok();
        let mut request = json!({"path": "a.txt", "old_string": "x", "new_string": "y"});
        let error = ws.json("edit", &request).error("ambiguous_match");
        assert!(error["suggested_action"].as_str().unwrap().contains("replace_all"), "{error}");
        for (field, value) in cure.as_object().unwrap() {
            request[field] = value.clone();
        }
        ws.json("edit", &request).ok();
    }
}

#[test]
fn not_found_is_cured_by_the_near_path() {
    let ws = Workspace::with(&[("src/parser.rs", "x\n")]);
    let error = ws.lbx(&["read", "src/praser.rs"]).error("not_found");
    let near = error["details"]["near"][0].as_str().unwrap();
    ws.lbx(&["read", near]).ok();
}

#[test]
fn binary_file_is_cured_by_base64() {
    let ws = Workspace::with(&[]);
    ws.write("a.bin", b"\0\x01\x02");
    let error = ws.lbx(&["read", "a.bin"]).error("binary_file");
    assert!(error["suggested_action"].as_str().unwrap().contains("base64"));
    assert_eq!(ws.lbx(&["read", "a.bin", "--binary", "base64"]).ok()["base64"], "AAEC");
}

#[test]
fn kinds_that_name_what_stands_there_are_provoked() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("sub/x", "")]);
    make_fifo(&ws.path("fifo"));
    let cases: &[(&[&str], &str)] = &[
        (&["read", "sub"], "is_a_directory"),
        (&["read", "a.txt/x"], "not_a_directory"),
        (&["read", "fifo"], "not_a_regular_file"),
        (&["read", "../x"], "outside_workspace"),
        (&["write", ".git/x", "--content", ""], "protected_path"),
        (&["write", "a.txt", "--content", "", "--create-only"], "already_exists"),
        (&["read", "a.txt", "--sandbox", "x"], "sandbox_not_found"),
        (&["read", "a.txt", "--limit", "x"], "invalid_request"),
    ];
    ws.unchanged(|| {
        for (call, kind) in cases {
            ws.lbx(call).error(kind);
        }
    });
}

#[test]
fn a_lock_that_is_never_given_up_times_out() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let lock = ws.path(".lbx/lock");
    assert!(lock.exists());
    let mut holder =
        Command::new("flock").arg(&lock).args(["sleep", "100"]).stdin(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let error = ws.unchanged(|| ws.lbx(&["append", "a.txt", "--content", "x\n"]).error("lock_timeout"));
    assert!(error["suggested_action"].as_str().unwrap().contains("again"), "{error}");
    // Reading needs no lock of the workspace.
    ws.lbx(&["read", "a.txt"]).ok();
    kill(holder.id());
    holder.wait().unwrap();
}

#[test]
fn an_answer_has_no_field_that_says_nothing() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let ok = ws.lbx(&["read", "a.txt"]).envelope();
    assert_eq!(ok.as_object().unwrap().keys().collect::<Vec<_>>(), ["data", "ok", "tool"]);
    let refused = ws.lbx(&["read", "a.txt", "--session", "/"]).envelope();
    assert_eq!(refused.as_object().unwrap().keys().collect::<Vec<_>>(), ["error", "ok", "tool"]);
    assert_eq!(refused["error"]["applied"], Value::Null);
}

#[test]
fn answers_do_not_depend_on_the_form_of_the_path() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for path in ["a.txt", "./a.txt", "sub/../a.txt"] {
        assert_eq!(ws.lbx(&["read", path]).ok()["sha256"], sha256(b"one\n"));
    }
}
