//! Caches of a server: the next call sees every change that others make.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, Workspace};

/// Age after which a file counts as old, and cached data about it is used.
pub const OLD_AFTER: Duration = Duration::from_millis(3100);
/// Session of a server and of the calls made next to it.
const SESSION: &str = "shared";

/// Returns an edit that replaces `old` with `new`.
fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({ "path": path, "old_string": old, "new_string": new })
}

/// Returns a path in lbx's state.
fn state(ws: &Workspace, below: &str) -> std::path::PathBuf {
    ws.path(".lbx").join(crate::client::STATE_ID).join(below)
}

/// Makes a call on the command line in the server's session.
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

/// Starts a server whose user has a configuration folder, in a workspace within another folder.
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
fn next_call_sees_a_changed_policy() {
    let (ws, mut client) = with_policies();
    let dry = |path: &str, old: &str| json!({ "path": path, "old_string": old, "new_string": "x", "dry_run": true });
    let mut protects = |path: &str, is_protected: bool| {
        let result = client.call("edit", &dry(path, &path[..1]));
        assert_eq!(result["isError"] == true, is_protected, "{path}: {result}");
    };
    protects("a.txt", true);
    protects("b.txt", false);
    let config = ws.path("w/.lbx/config.toml");
    // In place, with the same size and time.
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
    // The user's own policy, and a new one of a workspace around this one.
    ws.write("home/lbx/config.toml", "protect = [\"b.txt\"]\n");
    protects("b.txt", true);
    fs::remove_file(ws.path("home/lbx/config.toml")).unwrap();
    protects("b.txt", false);
    ws.write(".lbx/config.toml", "protect = [\"w/b.txt\"]\n");
    protects("b.txt", true);
    // A broken policy stops every tool.
    ws.write("w/.lbx/config.toml", "protect = 7\n");
    client.refused("read", &json!({ "path": "a.txt" }), "invalid_request");
}

#[test]
fn next_call_sees_session_changes_of_other_processes() {
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
    // Damaged in place, then deleted.
    fs::write(state(&ws, "sessions/shared.lbx"), "{").unwrap();
    client.refused("edit", &edit("a.txt", "five", "six"), "not_read");
    client.ok("read", &json!({ "path": "a.txt" }));
    fs::remove_file(state(&ws, "sessions/shared.lbx")).unwrap();
    client.refused("edit", &edit("a.txt", "five", "six"), "not_read");
    client.ok("read", &json!({ "path": "a.txt" }));
    client.ok("edit", &edit("a.txt", "five", "six"));
    ws.holds("a.txt", "six\n");
}

#[test]
fn audit_chain_stays_valid_with_several_writers() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = ws.serve(&["--session", SESSION]);
    for _ in 0..3 {
        client.ok("append", &json!({ "path": "a.txt", "content": "x\n" }));
        client.ok("append", &json!({ "path": "a.txt", "content": "y\n" }));
        beside(&ws, &["append", "a.txt", "--content", "z\n"]);
    }
    let verified = client.ok("audit", &json!({ "verify": true }));
    assert_eq!((&verified["verified"], &verified["total"]), (&json!(true), &json!(9)), "{verified}");
    // A truncated end is noticed, though the server knew it.
    let log = state(&ws, "audit/current.jsonl");
    let records = fs::read_to_string(&log).unwrap();
    let cut = records.trim_end().rfind('\n').unwrap() + 1;
    fs::write(&log, &records[..cut]).unwrap();
    client.ok("append", &json!({ "path": "a.txt", "content": "w\n" }));
    client.refused("audit", &json!({ "verify": true }), "verification_failed");
}

#[test]
fn removed_state_is_recreated() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let mut client = ws.serve(&[]);
    client.ok("read", &json!({ "path": "a.txt" }));
    client.ok("edit", &edit("a.txt", "one", "two"));
    fs::remove_dir_all(state(&ws, "")).unwrap();
    client.refused("edit", &edit("a.txt", "two", "three"), "not_read");
    client.ok("read", &json!({ "path": "a.txt" }));
    // It begins once the read is recorded.
    client.ok("ls", &json!({}));
    fs::remove_dir_all(ws.path(".lbx")).unwrap();
    client.refused("edit", &edit("a.txt", "two", "three"), "not_read");
    client.ok("read", &json!({ "path": "a.txt" }));
    client.ok("edit", &edit("a.txt", "two", "three"));
    assert_eq!(client.ok("audit", &json!({ "verify": true }))["verified"], true);
}

#[test]
fn server_follows_a_replaced_root() {
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
fn replaced_or_packed_repository_gets_the_next_snapshot() {
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
    // Without the branch its objects may be deleted as well.
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

/// Creates a repository with a commit in the workspace, and a server that has made two edits with all files old.
fn with_old_repository() -> (Workspace, Client) {
    let ws = Workspace::with(&[("a.txt", "0\n"), ("b.txt", "b\n")]);
    let root = ws.path("");
    git(&root, &["init", "-q", "-b", "main"]);
    git(&root, &["add", "a.txt"]);
    git(&root, &["commit", "-qm", "first"]);
    std::thread::sleep(OLD_AFTER);
    let mut client = ws.serve(&[]);
    client.ok("read", &json!({ "path": "a.txt" }));
    for number in 0..2 {
        increment(&mut client, number);
    }
    (ws, client)
}

/// Increments the number in `a.txt`; returns the snapshot.
fn increment(client: &mut Client, number: u32) -> Value {
    client.ok("edit", &edit("a.txt", &number.to_string(), &(number + 1).to_string()))
}

#[test]
fn next_call_sees_git_changes_of_other_programs() {
    let (ws, mut client) = with_old_repository();
    let root = ws.path("");
    let parent = |commit: &str| git(&root, &["rev-parse", &format!("{commit}^")]);
    let id = |edited: &Value| edited["snapshot"].as_str().unwrap().to_owned();
    // The branch is moved back, by git and in place: the next snapshot is on top of it.
    let back = git(&root, &["rev-parse", "lbx-snapshots^"]);
    git(&root, &["update-ref", "refs/heads/lbx-snapshots", &back]);
    let third = id(&increment(&mut client, 2));
    assert_eq!(parent(&parent(&third)), back, "what was there meanwhile is external");
    fs::write(root.join(".git/refs/heads/lbx-snapshots"), format!("{back}\n")).unwrap();
    let fourth = id(&increment(&mut client, 3));
    assert_eq!(parent(&parent(&fourth)), back);
    // HEAD moves, to a commit and to another branch.
    git(&root, &["commit", "-q", "--allow-empty", "-m", "second"]);
    let fifth = id(&increment(&mut client, 4));
    let head = git(&root, &["rev-parse", "HEAD"]);
    assert!(git(&root, &["cat-file", "-p", &fifth]).contains(&format!("Lbx-Head: {head}")));
    git(&root, &["checkout", "-q", "-b", "other"]);
    git(&root, &["commit", "-q", "--allow-empty", "-m", "third"]);
    let sixth = id(&increment(&mut client, 5));
    let head = git(&root, &["rev-parse", "HEAD"]);
    assert!(git(&root, &["cat-file", "-p", &sixth]).contains(&format!("Lbx-Head: {head}")));
    // The branch is checked out: there is no snapshot, and a warning says why.
    git(&root, &["symbolic-ref", "HEAD", "refs/heads/lbx-snapshots"]);
    let refused = increment(&mut client, 6);
    assert!(refused["snapshot"].is_null() && refused["warnings"].to_string().contains("is checked out"));
    git(&root, &["symbolic-ref", "HEAD", "refs/heads/other"]);
    // The branch is deleted.
    git(&root, &["update-ref", "-d", "refs/heads/lbx-snapshots"]);
    let seventh = id(&increment(&mut client, 7));
    assert_eq!(git(&root, &["rev-parse", "lbx-snapshots"]), seventh);
    git(&root, &["fsck", "--strict"]);
}

#[test]
fn next_call_notices_a_missing_git_object() {
    let (ws, mut client) = with_old_repository();
    let root = ws.path("");
    // Neither the commit nor its tree may be treated as present, though the server has made both.
    for (number, what) in [(2, "lbx-snapshots^{tree}"), (3, "lbx-snapshots")] {
        let id = git(&root, &["rev-parse", what]);
        let file = root.join(".git/objects").join(&id[..2]).join(&id[2..]);
        let aside = root.join(".git/aside");
        fs::rename(&file, &aside).unwrap();
        let edited = increment(&mut client, number);
        let warned = edited["warnings"].to_string();
        assert!(warned.contains("lbx-snapshots went back to"), "{what}: {edited}");
        fs::rename(&aside, &file).unwrap();
    }
    increment(&mut client, 4);
    git(&root, &["fsck", "--strict"]);
    // The bytes that the tree names are deleted: the next object is stored in full.
    git(&root, &["gc", "-q", "--prune=now"]);
    increment(&mut client, 5);
    git(&root, &["fsck", "--strict"]);
}

#[test]
fn next_call_sees_changed_ignore_rules_and_git_config() {
    let (ws, mut client) = with_old_repository();
    let root = ws.path("");
    let mut write = |path: &str, content: &str| {
        client.ok("write", &json!({ "path": path, "content": content }));
        git(&root, &["ls-tree", "-r", "--name-only", "lbx-snapshots"]).lines().any(|name| name == path)
    };
    assert!(write("n1.log", "x\n"));
    // In place, with the same size and time.
    let exclude = root.join(".git/info/exclude");
    let file = fs::OpenOptions::new().write(true).open(&exclude).unwrap();
    let (time, size) = {
        let metadata = file.metadata().unwrap();
        (metadata.modified().unwrap(), usize::try_from(metadata.len()).unwrap())
    };
    fs::write(&exclude, format!("{:<size$}", "*.log\n")).unwrap();
    file.set_modified(time).unwrap();
    assert!(!write("n2.log", "x\n"));
    fs::remove_file(&exclude).unwrap();
    assert!(write("n3.log", "x\n"));
    git(&root, &["config", "core.excludesFile", ".git/more"]);
    fs::write(root.join(".git/more"), "*.log\n").unwrap();
    assert!(!write("n4.log", "x\n"));
    git(&root, &["config", "--unset", "core.excludesFile"]);
    assert!(write("n5.log", "x\n"));
    git(&root, &["config", "core.autocrlf", "input"]);
    assert!(write("crlf.txt", "x\r\n"));
    assert_eq!(git(&root, &["cat-file", "-s", "lbx-snapshots:crlf.txt"]), "2");
    git(&root, &["config", "core.repositoryFormatVersion", "9"]);
    let edited = increment(&mut client, 2);
    assert!(edited["warnings"].to_string().contains("format 9"), "{edited}");
}

#[test]
fn next_call_sees_a_created_or_removed_repository() {
    let ws = Workspace::with(&[("a.txt", "0\n"), (".lbx/x", "")]);
    let root = ws.path("");
    let mut client = ws.serve(&[]);
    client.ok("read", &json!({ "path": "a.txt" }));
    let private = increment(&mut client, 0)["snapshot"].as_str().unwrap().to_owned();
    git(&root, &["init", "-q", "-b", "main"]);
    let ours = |edited: &Value| {
        let id = edited["snapshot"].as_str().unwrap();
        root.join(".git/objects").join(&id[..2]).join(&id[2..]).is_file()
    };
    assert!(ours(&increment(&mut client, 1)));
    fs::rename(root.join(".git"), root.join("gone")).unwrap();
    let edited = increment(&mut client, 2);
    assert!(!ours(&edited) && edited["snapshot"] != private, "{edited}");
    fs::rename(root.join("gone"), root.join(".git")).unwrap();
    assert!(ours(&increment(&mut client, 3)));
    // An empty folder in its place is not a repository.
    fs::remove_dir_all(root.join(".git")).unwrap();
    fs::create_dir(root.join(".git")).unwrap();
    assert!(!ours(&increment(&mut client, 4)));
}
