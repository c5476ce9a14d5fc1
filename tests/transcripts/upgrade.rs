//! This version reads, undoes and continues the state that the first release wrote.
//!
//! `tests/cases/state-0.1.0` is a workspace of lbx 0.1.0: `files`, and in `state` the contents of `.lbx/ID`. It is
//! never regenerated: a version that cannot read it needs a reader for the old form. It has no snapshots, whose format
//! is git's. Session `default` read and edited `a.txt`, wrote `new/c.txt`, deleted `gone.txt`, moved `new/c.txt` to
//! `new/e.txt`, appended to `a.txt` and undid that. Session `bob` deleted the folder `d` and edited `b.txt`.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Answer, Workspace, state};

/// Returns the workspace of the first release.
fn first_release_workspace() -> Workspace {
    workspace_of("0.1.0")
}

/// Returns the workspace of a release.
fn workspace_of(version: &str) -> Workspace {
    let ws = Workspace::bare(&[]);
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cases/state-{version}"));
    fs::create_dir(ws.path(".lbx")).unwrap();
    for (from, to) in [("files/.", "."), ("state", &state(""))] {
        let copied = Command::new("cp").arg("-r").arg(fixture.join(from)).arg(ws.path(to)).status().unwrap();
        assert!(copied.success());
    }
    ws
}

/// Makes a call without a snapshot, so that the answer has no id that differs.
fn call(ws: &Workspace, arguments: &[&str]) -> Answer {
    ws.call(arguments).arguments(&["--set", "snapshot.enabled=false"]).run()
}

/// A release without a kept state would be one that later versions need not read.
#[test]
fn state_of_every_release_is_kept_and_healthy() {
    let changelog = include_str!("../../CHANGELOG.md");
    let headings = changelog.lines().filter_map(|line| line.strip_prefix("## [")?.split_once(']'));
    let releases: Vec<&str> =
        headings.map(|(version, _)| version).filter(|version| *version != "Unreleased").collect();
    assert!(releases.contains(&"0.1.0"), "{releases:?}");
    for version in releases {
        let doctor = call(&workspace_of(version), &["doctor"]).ok();
        assert_eq!(doctor["healthy"], true, "{version}: {doctor}");
    }
}

#[test]
fn state_of_the_first_release_is_readable() {
    let ws = first_release_workspace();
    let status = call(&ws, &["session", "status"]).ok();
    let status = status.to_string();
    for path in ["a.txt", "new/e.txt"] {
        assert!(status.contains(path), "{path}: {status}");
    }
    let log = call(&ws, &["audit", "--verify"]).ok();
    assert_eq!((&log["verified"], &log["total"]), (&true.into(), &9.into()), "{log}");
    let doctor = call(&ws, &["doctor"]).ok();
    assert_eq!(doctor["healthy"], true, "{doctor}");
    let stats = call(&ws, &["stats"]).ok();
    // The calls above that read it are counted as well.
    let of_release = |tool: &&str| stats["by_tool"][tool]["first"].is_string();
    let tools = stats["by_tool"].as_object().unwrap();
    let calls: u64 = tools
        .keys()
        .map(String::as_str)
        .filter(of_release)
        .map(|tool| stats["by_tool"][tool]["calls"].as_u64().unwrap())
        .sum();
    assert_eq!(calls, 9, "{stats}");
    assert_eq!(stats["refusals"]["not_read"], 1, "{stats}");
    let trash = call(&ws, &["trash"]).ok();
    assert_eq!(trash["entries"].as_array().map(Vec::len), Some(2), "{trash}");
}

#[test]
fn changes_of_the_first_release_can_be_undone() {
    let ws = first_release_workspace();
    call(&ws, &["redo"]).ok();
    ws.holds("a.txt", "one\n2\nthree\nfour\n");
    call(&ws, &["undo", "--steps", "5"]).ok();
    ws.holds("a.txt", "one\ntwo\nthree\n");
    ws.holds("gone.txt", "bye\n");
    assert!(!ws.path("new/e.txt").exists());
    assert!(!ws.path("new/c.txt").exists());
    call(&ws, &["undo", "--session", "bob", "--steps", "2"]).ok();
    ws.holds("b.txt", "alpha\r\nbeta\r\n");
    ws.holds("d/x.txt", "x\n");
}

#[test]
fn trash_and_reads_of_the_first_release_still_count() {
    let ws = first_release_workspace();
    call(&ws, &["restore", "gone.txt"]).ok();
    ws.holds("gone.txt", "bye\n");
    call(&ws, &["restore", "d"]).ok();
    ws.holds("d/x.txt", "x\n");
    call(&ws, &["edit", "a.txt", "--old-string", "three", "--new-string", "3"]).ok();
    ws.holds("a.txt", "one\n2\n3\n");
    call(&ws, &["undo"]).ok();
    call(&ws, &["undo"]).ok();
    assert!(!ws.path("d").exists(), "the newest change was the restore");
}

#[test]
fn newer_state_is_an_error_and_stays_unchanged() {
    for (path, arguments) in [
        ("sessions/default.lbx", &["append", "a.txt", "--content", "x\n"][..]),
        ("journal/done/default/00000004.lbx", &["undo"]),
    ] {
        let ws = first_release_workspace();
        let file = ws.path(&state(path));
        let mut newer: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        newer["version"] = 99.into();
        fs::write(&file, newer.to_string()).unwrap();
        let error = ws.unchanged(|| call(&ws, arguments).error("io_error"));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("newer lbx"), "{path}: {message}");
        assert_eq!(fs::read_to_string(&file).unwrap(), newer.to_string(), "{path}");
        // Calls that do not need that file work.
        call(&ws, &["append", "a.txt", "--content", "x\n", "--session", "bob"]).ok();
    }
}
