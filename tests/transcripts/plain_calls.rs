//! The first calls that a user makes, as a shell would make them.

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::{contains, ends_with, is_empty, starts_with};

use crate::common::{PATH_FIXED, Workspace};

/// Returns the binary in a workspace, without the caller's environment.
fn lbx(ws: &Workspace) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lbx"));
    command
        .current_dir(&ws.root)
        .env_clear()
        .env("LBX_STATE_ID", crate::common::STATE_ID)
        .env("PATH", PATH_FIXED)
        .env("HOME", ws.outside.join("home"));
    command.env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

#[test]
fn version_is_one_line_and_help_lists_the_tools() {
    let ws = Workspace::with(&[]);
    lbx(&ws).arg("--version").assert().success().stdout(starts_with("lbx ").and(one_line()));
    let names = ["read", "write", "edit", "patch", "grep", "undo", "delete", "mcp", "batch"];
    let help = lbx(&ws).arg("--help").assert().success().stderr(is_empty());
    names.into_iter().fold(help, |help, name| help.stdout(contains(name)));
}

#[test]
fn text_output_is_payload_on_stdout_and_errors_on_stderr() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\n"), ("b.txt", "two\n")]);
    lbx(&ws).args(["-t", "read", "a.txt"]).assert().success().stdout("one\ntwo\n").stderr("");
    lbx(&ws)
        .args(["-t", "grep", "two"])
        .assert()
        .success()
        .stdout(starts_with("a.txt\n").and(contains("2:two")).and(contains("b.txt\n1:two")));
    lbx(&ws).args(["-t", "glob", "*.txt"]).assert().success().stdout("a.txt\nb.txt\n");
    lbx(&ws)
        .args(["-t", "write", "a.txt", "--content", "x"])
        .assert()
        .success()
        .stdout(starts_with("write: a.txt").and(one_line()));
    lbx(&ws)
        .args(["-t", "edit", "b.txt", "--old-string", "none", "--new-string", "x"])
        .assert()
        .code(5)
        .stdout(is_empty())
        .stderr(starts_with("lbx: not_read: refusing to edit b.txt: Read it first"));
}

#[test]
fn json_output_is_always_one_line() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let cases: &[(&[&str], i32)] = &[
        (&["read", "a.txt"], 0),
        (&["read", "none.txt"], 3),
        (&["read", "--json", "{"], 2),
        (&["edit", "a.txt"], 2),
        (&["nothing"], 2),
        (&["read", "a.txt", "--no-such-flag"], 2),
        (&["undo"], 3),
        (&["ls"], 0),
    ];
    for (call, code) in cases {
        lbx(&ws).args(*call).assert().code(*code).stdout(one_line().and(one_object())).stderr(is_empty());
    }
}

#[test]
fn here_document_needs_no_escaping() {
    let ws = Workspace::with(&[]);
    let text = "a \"quoted\" line\n\t$HOME `and` \\ more\n";
    lbx(&ws)
        .args(["write", "a.txt"])
        .write_stdin(text)
        .assert()
        .success()
        .stdout(contains(r#""created":true"#));
    ws.holds("a.txt", text);
    lbx(&ws).args(["append", "a.txt"]).write_stdin("").assert().stdout(one_object());
    lbx(&ws).args(["write", "b.txt"]).assert().stdout(one_object());
}

/// Returns the condition that a text is one line with an ending.
fn one_line() -> impl Predicate<str> {
    ends_with("\n").and(predicate::function(|text: &str| text.lines().count() == 1))
}

/// Returns the condition that a text is one JSON object.
fn one_object() -> impl Predicate<str> {
    predicate::function(|text: &str| {
        serde_json::from_str::<serde_json::Value>(text).is_ok_and(|value| value.is_object())
    })
}
