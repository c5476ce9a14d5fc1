//! What a power failure leaves where nothing waited for the disk: empty objects, references and records. Changes go
//! on, `doctor` says what is damaged, and its remedy works.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{Workspace, state};

/// A workspace after three changes, in a repository or without one.
fn changed(ws: Workspace) -> Workspace {
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "two"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "two", "--new-string", "three"]).ok();
    ws.lbx(&["write", "new.txt", "--content", "new\n"]).ok();
    ws
}

/// Makes a file empty, which nobody may write.
fn empty(path: &Path) {
    let _ = fs::remove_file(path);
    fs::write(path, "").unwrap();
}

/// The file of an object that a revision names.
fn object(ws: &Workspace, revision: &str) -> PathBuf {
    let id = ws.git(&["rev-parse", revision]).trim().to_owned();
    ws.path(&format!(".git/objects/{}/{}", &id[..2], &id[2..]))
}

/// What `doctor` finds of the snapshots: its level, message and remedy.
fn snapshots(ws: &Workspace) -> (String, String, String) {
    let data = ws.lbx(&["doctor"]).ok();
    let findings = data["findings"].as_array().unwrap();
    let found = findings.iter().find(|found| found["check"] == "snapshots").unwrap();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("level"), text("message"), text("remedy"))
}

/// What `doctor` finds of the journal.
fn journal(ws: &Workspace) -> Option<Value> {
    let data = ws.lbx(&["doctor"]).ok();
    data["findings"].as_array().unwrap().iter().find(|found| found["check"] == "journal").cloned()
}

/// The command that a remedy has in backticks.
fn command(remedy: &str) -> Vec<&str> {
    remedy.split('`').nth(1).unwrap().split(' ').skip(1).collect()
}

#[test]
fn a_damaged_snapshot_stops_no_change_and_doctor_says_how_to_repair_it() {
    for revision in ["lbx-snapshots", "lbx-snapshots^{tree}", "lbx-snapshots:new.txt", "lbx-snapshots~1"] {
        let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
        assert_eq!(snapshots(&ws).0, "ok");
        empty(&object(&ws, revision));
        let (level, message, remedy) = snapshots(&ws);
        assert_eq!(level, "problem", "{revision}");
        assert!(message.starts_with("the newest snapshot of lbx-snapshots is damaged: "), "{message}");
        assert!(
            remedy.starts_with("Changes can be undone all the same. In the workspace, `git "),
            "{remedy}"
        );
        let change = |old: &str, new: &str| {
            let edit = ["edit", "a.txt", "--old-string", old, "--new-string", new];
            assert!(ws.lbx(&edit).success()["snapshot"].is_string(), "{revision}");
            ws.lbx(&["undo"]).success();
            ws.lbx(&["redo"]).success();
            ws.holds("a.txt", format!("{new}\n"));
        };
        change("three", "four");
        ws.git(&command(&remedy));
        assert_eq!(snapshots(&ws).0, "ok", "{revision}");
        change("four", "five");
        assert_eq!(snapshots(&ws).0, "ok", "{revision}");
        assert!(ws.git(&["log", "--format=%s", "lbx-snapshots"]).contains("edit: a.txt"));
        assert_eq!(ws.git(&["show", "lbx-snapshots:a.txt"]), "five");
        ws.git(&["fsck", "--connectivity-only", "lbx-snapshots"]);
    }
}

#[test]
fn an_empty_reference_is_repaired_as_doctor_says() {
    let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
    let tip = ws.git(&["rev-parse", "lbx-snapshots"]);
    let reference = ws.path(".git/refs/heads/lbx-snapshots");
    empty(&reference);
    let (level, message, remedy) = snapshots(&ws);
    assert_eq!(level, "problem");
    assert!(message.contains("the snapshot branch `lbx-snapshots` cannot be read"), "{message}");
    let aside = format!("move {} aside, then", reference.canonicalize().unwrap().display());
    assert!(remedy.contains(&aside), "{remedy}");
    let edit = ["edit", "a.txt", "--old-string", "three", "--new-string", "four"];
    ws.lbx(&edit).warned("the snapshot branch `lbx-snapshots` cannot be read");
    fs::rename(&reference, ws.path("aside")).unwrap();
    ws.git(&command(&remedy));
    assert_eq!((snapshots(&ws).0.as_str(), ws.git(&["rev-parse", "lbx-snapshots"])), ("ok", tip));
}

#[test]
fn a_damaged_private_repository_is_moved_aside_as_doctor_says() {
    let ws = changed(Workspace::bare(&[("a.txt", "one\n")]));
    let reference = ws.path(&state("repo.git/refs/heads/lbx-snapshots"));
    let id = fs::read_to_string(&reference).unwrap();
    let folder = ws.path(&state("repo.git"));
    empty(&folder.join("objects").join(&id[..2]).join(id[2..].trim()));
    let (level, _, remedy) = snapshots(&ws);
    let moved = format!("Move {} aside: the next change begins a new one.", state("repo.git"));
    assert!(level == "problem" && remedy.starts_with(&moved), "{level}: {remedy}");
    ws.lbx(&["edit", "a.txt", "--old-string", "three", "--new-string", "four"]).warned("no snapshot: ");
    fs::rename(&folder, ws.path("aside.git")).unwrap();
    let edit = ["edit", "a.txt", "--old-string", "four", "--new-string", "five"];
    assert!(ws.lbx(&edit).success()["snapshot"].is_string());
    assert_eq!(snapshots(&ws).0, "ok");
    ws.lbx(&["undo", "--steps", "4"]).ok();
    ws.holds("a.txt", "two\n");
}

#[test]
fn a_log_shows_what_can_be_read() {
    let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
    empty(&object(&ws, "lbx-snapshots:new.txt"));
    let listed = ws.lbx(&["log"]).ok()["snapshots"].as_array().unwrap().len();
    assert_eq!(listed, 3);
    ws.lbx(&["write", "b.txt", "--content", "b\n"]).ok();
    empty(&object(&ws, "lbx-snapshots~2"));
    let data = ws.lbx(&["log"]).warned("older snapshots cannot be read (");
    assert_eq!(data["snapshots"].as_array().unwrap().len(), 1);
}

#[test]
fn a_repository_that_does_not_serve_is_named_with_the_reason() {
    let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
    ws.git(&["branch", "-m", "lbx-snapshots", "other"]);
    ws.git(&["symbolic-ref", "refs/heads/lbx-snapshots", "refs/heads/other"]);
    let edit = ["edit", "a.txt", "--old-string", "three", "--new-string", "four"];
    ws.lbx(&edit).warned("is a symbolic reference to another");
    let (_, message, remedy) = snapshots(&ws);
    assert!(message.contains("is a symbolic reference to another"), "{message}");
    assert!(remedy.contains(" aside, then `git update-ref refs/heads/lbx-snapshots "), "{remedy}");
    fs::write(ws.path(".git/HEAD"), "").unwrap();
    fs::remove_file(ws.path(".git/refs/heads/lbx-snapshots")).unwrap();
    let (level, message, remedy) = snapshots(&ws);
    assert!(level == "notice" && message.starts_with("snapshots go to the private repository"), "{message}");
    assert!(remedy.starts_with("Snapshots are made all the same; repair or allow"), "{remedy}");
}

#[test]
fn a_damaged_record_of_a_change_is_skipped_with_a_warning() {
    let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
    assert_eq!(journal(&ws), None);
    let before = ws.git(&["rev-parse", "lbx-snapshots~2"]).trim().to_owned();
    empty(&ws.path(&state("journal/done/default/00000003.json")));
    let found = journal(&ws).unwrap();
    assert_eq!(found["level"], "notice");
    let message = "the records of 1 change of session default are damaged: #3";
    assert_eq!(found["message"], message);
    assert!(found["remedy"].as_str().unwrap().starts_with("Undo skips them. `lbx log`"), "{found}");
    let warning = "skipped #3, whose record in the journal is damaged";
    ws.lbx(&["rewind", &before]).warned(warning);
    assert_eq!(ws.lbx(&["undo"]).warned(warning)["undone"][0]["seq"], 2);
    ws.holds("a.txt", "two\n");
    ws.holds("new.txt", "new\n");
    assert_eq!(ws.lbx(&["write", "b.txt", "--content", "b\n"]).status(), 0);
}

#[test]
fn empty_state_files_lose_no_bytes() {
    let edit = ["edit", "a.txt", "--old-string", "three", "--new-string", "four"];
    for file in ["sessions/default.json", "audit/head", "audit/current.jsonl", "calls/current"] {
        let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
        empty(&ws.path(&state(file)));
        if file.starts_with("sessions") {
            // What was read is not known any more: the gate says so.
            ws.lbx(&edit).error("not_read");
            ws.lbx(&["read", "a.txt"]).ok();
        }
        assert!(ws.lbx(&edit).success()["snapshot"].is_string(), "{file}");
        ws.lbx(&["undo"]).ok();
        ws.holds("a.txt", "three\n");
        if file == "audit/current.jsonl" {
            ws.lbx(&["audit", "--verify"]).error("verification_failed");
        }
    }
}
