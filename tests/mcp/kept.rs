//! What a server keeps between its calls holds only while it is so: whatever others change is seen by the very
//! next call.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, Workspace};

/// After so long a file is no longer young, and what was made of it is kept.
const OLD_AFTER: Duration = Duration::from_millis(3100);
/// The session of a server and of the calls beside it.
const SESSION: &str = "shared";

/// An edit that takes the text of a file from `old` to `new`.
fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({ "path": path, "old_string": old, "new_string": new })
}

/// The path of lbx's own state.
fn state(ws: &Workspace, below: &str) -> std::path::PathBuf {
    ws.path(".lbx").join(crate::client::STATE_ID).join(below)
}

/// A call on the command line by the server's session.
fn beside(ws: &Workspace, arguments: &[&str]) {
    let output = ws.lbx("", &[&["--session", SESSION], arguments].concat()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Runs git in a folder.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "gc.auto=0"]).args(arguments);
    let output = command.current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A server whose user has a configuration folder, in a workspace within another folder.
fn with_policies() -> (Workspace, Client) {
    let ws = Workspace::with(&[("w/a.txt", "a\n"), ("w/b.txt", "b\n"), ("home/none", "")]);
    ws.write("w/.lbx/config.toml", "protect = [\"a.txt\"]\n");
    ws.write("home/lbx/config.toml", "protect = [\"c.txt\"]\n");
    fs::remove_dir(ws.path(".lbx")).unwrap();
    std::thread::sleep(OLD_AFTER);
    let mut command = ws.lbx("w", &["mcp"]);
    command.env("XDG_CONFIG_HOME", ws.path("home"));
    let mut client = Client::of(command).greeted();
    for path in ["a.txt", "b.txt"] {
        client.ok("read", &json!({ "path": path }));
    }
    (ws, client)
}

#[test]
fn a_changed_policy_is_seen_by_the_next_call() {
    let (ws, mut client) = with_policies();
    let dry = |path: &str, old: &str| json!({ "path": path, "old_string": old, "new_string": "x", "dry_run": true });
    let mut protects = |path: &str, is_protected: bool| {
        let result = client.call("edit", &dry(path, &path[..1]));
        assert_eq!(result["isError"] == true, is_protected, "{path}: {result}");
    };
    protects("a.txt", true);
    protects("b.txt", false);
    let config = ws.path("w/.lbx/config.toml");
    // In place, as large as before, and with the time of before.
    let file = fs::OpenOptions::new().write(true).open(&config).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    fs::write(&config, "protect = [\"b.txt\"]\n").unwrap();
    file.set_modified(time).unwrap();
    protects("a.txt", false);
    protects("b.txt", true);
    // Another file in its place, then none.
    ws.write("w/new", "protect = [\"a.txt\"]\n");
    fs::rename(ws.path("w/new"), &config).unwrap();
    protects("a.txt", true);
    protects("b.txt", false);
    fs::remove_file(&config).unwrap();
    protects("a.txt", false);
    // The user's own, and that of a workspace around this one, which was none.
    ws.write("home/lbx/config.toml", "protect = [\"b.txt\"]\n");
    protects("b.txt", true);
    fs::remove_file(ws.path("home/lbx/config.toml")).unwrap();
    protects("b.txt", false);
    ws.write(".lbx/config.toml", "protect = [\"w/b.txt\"]\n");
    protects("b.txt", true);
    // A broken one stops every tool.
    ws.write("w/.lbx/config.toml", "protect = 7\n");
    client.refused("read", &json!({ "path": "a.txt" }), "invalid_request");
}

#[test]
fn what_others_do_with_the_session_is_seen_by_the_next_call() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    let mut client = ws.serve(&["--session", SESSION]);
    client.ok("read", &json!({ "path": "b.txt" }));
    client.refused("edit", &edit("a.txt", "one", "two"), "not_read");
    beside(&ws, &["read", "a.txt"]);
    client.ok("edit", &edit("a.txt", "one", "two"));
    beside(&ws, &["edit", "a.txt", "--old-string", "two", "--new-string", "three"]);
    client.ok("edit", &edit("a.txt", "three", "four"));
    beside(&ws, &["session", "forget", "a.txt"]);
    client.refused("edit", &edit("a.txt", "four", "five"), "not_read");
    client.ok("read", &json!({ "path": "a.txt" }));
    client.ok("edit", &edit("a.txt", "four", "five"));
    // Damaged in place, then gone.
    fs::write(state(&ws, "sessions/shared.json"), "{").unwrap();
    client.refused("edit", &edit("a.txt", "five", "six"), "not_read");
    client.ok("read", &json!({ "path": "a.txt" }));
    fs::remove_file(state(&ws, "sessions/shared.json")).unwrap();
    client.refused("edit", &edit("a.txt", "five", "six"), "not_read");
    client.ok("read", &json!({ "path": "a.txt" }));
    client.ok("edit", &edit("a.txt", "five", "six"));
    ws.holds("a.txt", "six\n");
}

#[test]
fn the_chain_of_the_audit_log_is_whole_whoever_adds_to_it() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = ws.serve(&["--session", SESSION]);
    for _ in 0..3 {
        client.ok("append", &json!({ "path": "a.txt", "content": "x\n" }));
        client.ok("append", &json!({ "path": "a.txt", "content": "y\n" }));
        beside(&ws, &["append", "a.txt", "--content", "z\n"]);
    }
    let verified = client.ok("audit", &json!({ "verify": true }));
    assert_eq!((&verified["verified"], &verified["total"]), (&json!(true), &json!(9)), "{verified}");
    // What is missing at the end shows, though the server knew it.
    let log = state(&ws, "audit/current.jsonl");
    let records = fs::read_to_string(&log).unwrap();
    let cut = records.trim_end().rfind('\n').unwrap() + 1;
    fs::write(&log, &records[..cut]).unwrap();
    client.ok("append", &json!({ "path": "a.txt", "content": "w\n" }));
    client.refused("audit", &json!({ "verify": true }), "verification_failed");
}

#[test]
fn a_state_that_was_removed_begins_anew() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let mut client = ws.serve(&[]);
    client.ok("read", &json!({ "path": "a.txt" }));
    client.ok("edit", &edit("a.txt", "one", "two"));
    fs::remove_dir_all(state(&ws, "")).unwrap();
    client.refused("edit", &edit("a.txt", "two", "three"), "not_read");
    client.ok("read", &json!({ "path": "a.txt" }));
    fs::remove_dir_all(ws.path(".lbx")).unwrap();
    client.refused("edit", &edit("a.txt", "two", "three"), "not_read");
    client.ok("read", &json!({ "path": "a.txt" }));
    client.ok("edit", &edit("a.txt", "two", "three"));
    assert_eq!(client.ok("audit", &json!({ "verify": true }))["verified"], true);
}

#[test]
fn a_root_that_was_replaced_is_the_new_one() {
    let ws =
        Workspace::with(&[("w/a.txt", "one\n"), ("w/.lbx/x", ""), ("v/a.txt", "other\n"), ("v/.lbx/x", "")]);
    let mut client = Client::of(ws.lbx("w", &["mcp"])).greeted();
    client.ok("read", &json!({ "path": "a.txt" }));
    client.ok("edit", &edit("a.txt", "one", "two"));
    fs::rename(ws.path("w"), ws.path("old")).unwrap();
    client.refused("read", &json!({ "path": "a.txt" }), "not_found");
    fs::rename(ws.path("v"), ws.path("w")).unwrap();
    client.refused("edit", &edit("a.txt", "other", "two"), "not_read");
    assert_eq!(client.ok("read", &json!({ "path": "a.txt" }))["content"], "other\n");
    client.ok("edit", &edit("a.txt", "other", "new"));
    ws.holds("w/a.txt", "new\n");
    ws.holds("old/a.txt", "two\n");
}

#[test]
fn a_repository_that_was_replaced_or_packed_takes_the_next_snapshot() {
    let ws = Workspace::with(&[("a.txt", "0\n")]);
    let root = ws.path("");
    let begin = |folder: &Path| {
        git(folder, &["init", "-q"]);
        git(folder, &["add", "a.txt"]);
        git(folder, &["commit", "-qm", "first"]);
    };
    begin(&root);
    let mut client = ws.serve(&[]);
    client.ok("read", &json!({ "path": "a.txt" }));
    let mut step = |number: u32| {
        let edited = client.ok("edit", &edit("a.txt", &number.to_string(), &(number + 1).to_string()));
        let id = edited["snapshot"].as_str().unwrap().to_owned();
        assert_eq!(git(&root, &["rev-parse", "lbx-snapshots"]), id);
        assert_eq!(git(&root, &["show", "lbx-snapshots:a.txt"]), (number + 1).to_string());
        git(&root, &["fsck", "--strict"]);
    };
    step(0);
    step(1);
    git(&root, &["gc", "-q", "--prune=now"]);
    step(2);
    // Without the branch its objects may go as well.
    git(&root, &["branch", "-qD", "lbx-snapshots"]);
    git(&root, &["reflog", "expire", "--expire=now", "--all"]);
    git(&root, &["gc", "-q", "--prune=now"]);
    step(3);
    git(&root, &["commit", "-qam", "second"]);
    step(4);
    fs::remove_dir_all(root.join(".git")).unwrap();
    begin(&root);
    step(5);
}
