//! Changes made before a session's first change are kept apart from those of the session.

use std::fs;

use crate::common::Workspace;

#[test]
fn clean_work_tree_needs_no_baseline() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx_stdin(&["write", "b.txt"], "b\n").ok();
    assert_eq!(ws.snapshots(), ["write: b.txt"]);
    assert_eq!(ws.git(&["rev-parse", "lbx-snapshots^"]), ws.git(&["rev-parse", "HEAD"]));
}

#[test]
fn baseline_contains_uncommitted_changes() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("gone.txt", "gone\n")]);
    ws.write("a.txt", "developer");
    ws.write("new.txt", "untracked\n");
    fs::remove_file(ws.path("gone.txt")).unwrap();
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "developer", "--new-string", "agent"]).ok();
    assert_eq!(ws.snapshots(), ["edit: a.txt", "baseline"]);
    assert_eq!(ws.git(&["show", "lbx-snapshots^:a.txt"]), "developer");
    assert_eq!(ws.git(&["show", "lbx-snapshots:a.txt"]), "agent");
    let baseline = ws.git(&["diff", "--name-status", "HEAD", "lbx-snapshots^"]);
    assert_eq!(baseline, "M\ta.txt\nD\tgone.txt\nA\tnew.txt");
    let trailers = ws.git(&["log", "-1", "--format=%(trailers:key=Lbx-Tool,valueonly)", "lbx-snapshots^"]);
    assert_eq!(trailers.trim(), "baseline");
}

#[test]
fn only_the_first_change_of_a_session_has_a_baseline() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx_stdin(&["write", "b.txt"], "b\n").ok();
    ws.write("a.txt", "later\n");
    ws.lbx_stdin(&["write", "c.txt"], "c\n").ok();
    assert_eq!(ws.snapshots(), ["write: c.txt", "write: b.txt"]);
}

#[test]
fn oversized_baseline_is_a_warning() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for number in 0..2_100 {
        ws.write(&format!("made/{number}.txt"), "x\n");
    }
    ws.lbx_stdin(&["write", "b.txt"], "b\n").warned("no baseline: 2100 files differ");
    ws.holds("b.txt", "b\n");
    assert_eq!(ws.snapshots(), ["write: b.txt"]);
}

#[test]
fn home_directory_is_not_scanned() {
    let ws = Workspace::bare(&[("a.txt", "one\n")]);
    let root = ws.root.clone();
    let home = |arguments: &[&str]| ws.call(arguments).env("HOME", &root);
    home(&["append", "a.txt", "--content", "two\n"]).run().error("invalid_request");
    let named = ["--workspace", root.to_str().unwrap()];
    home(&["append", "a.txt", "--content", "two\n"]).arguments(&named).run().warned("no baseline: ");
    home(&["snapshot"]).arguments(&named).run().error("snapshot_failed");
    ws.holds("a.txt", "one\ntwo\n");
}

#[test]
fn failed_change_has_no_baseline() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.write("a.txt", "dirty\n");
    ws.lbx(&["edit", "a.txt", "--old-string", "dirty", "--new-string", "x"]).error("not_read");
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "dirty", "--new-string", "x"]).ok();
    assert_eq!(ws.snapshots(), ["edit: a.txt", "baseline"]);
}

#[test]
fn large_commit_does_not_prevent_a_baseline() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx_stdin(&["write", "b.txt"], "b\n").ok();
    for number in 0..2_100 {
        ws.write(&format!("made/{number}.txt"), "x\n");
    }
    ws.git(&["add", "-A", "made"]);
    ws.git(&["commit", "-q", "-m", "much"]);
    ws.write("a.txt", "dirty\n");
    ws.call(&["--session", "next", "append", "b.txt", "--content", "c\n"]).run().ok();
    let subjects = ws.snapshots();
    assert_eq!(subjects[..2], ["append: b.txt", "baseline"]);
    assert!(subjects[2].starts_with("external: HEAD moved to "), "{subjects:?}");
    assert_eq!(ws.git(&["diff", "--name-only", "lbx-snapshots~2", "lbx-snapshots~1"]), "a.txt");
}
