//! lbx removes data that it no longer needs, and nothing else.

use std::fs;
use std::process::Command;

use crate::common::{Workspace, change_state_file, sha256, state};

/// Sets the time of a state file back by `days`.
fn age(path: &std::path::Path, days: u32) {
    let set = Command::new("touch").args(["-d", &format!("{days} days ago")]).arg(path).status().unwrap();
    assert!(set.success());
}

/// Sets the times of all history, backups and trash back by `days`.
fn age_all(ws: &Workspace, days: u64) {
    let mut folders = vec![ws.path(".lbx")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.display().to_string();
            if path.is_dir() && !name.ends_with("/content") {
                folders.push(path.clone());
            }
            if name.contains("/journal/done/") && path.is_file() || name.ends_with("/entry.lbx") {
                change_state_file(&path, |entry| {
                    entry["time"] = (entry["time"].as_u64().unwrap() - days * 24 * 60 * 60).into();
                });
            }
            age(&path, u32::try_from(days).unwrap());
        }
    }
}

/// Returns a text that is large enough for a separate backup.
fn long() -> String {
    "one ".repeat(4500)
}

/// Creates a workspace with an old edit, an old deletion, and an edit of today.
fn old_and_new() -> Workspace {
    let ws = Workspace::with(&[("a.txt", &long()), ("b.txt", "b\n"), ("c.txt", "cc\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "two\n"]).ok();
    ws.lbx(&["delete", "b.txt"]).ok();
    ws.write(&state("sessions/x.lbx.damaged-1"), "broken");
    ws.write(&state("backups/00/.tmp-1"), "half");
    age_all(&ws, 40);
    ws.lbx(&["write", "a.txt", "--content", "three\n"]).ok();
    ws.lbx(&["delete", "c.txt"]).ok();
    ws
}

#[test]
fn gc_removes_expired_backups_and_keeps_recent_ones() {
    let ws = old_and_new();
    let before = ws.tree();
    let planned = ws.copy().lbx(&["gc", "--dry-run"]).ok();
    let data = ws.lbx(&["gc"]).ok();
    assert_eq!(planned["removed"], data["removed"]);
    let kinds = &data["by_kind"];
    assert_eq!(kinds["history"]["files"], 2, "{data}");
    assert_eq!(kinds["backups"], serde_json::json!({"files": 1, "bytes": 18000}), "{data}");
    assert_eq!(kinds["trash"], serde_json::json!({"files": 1, "bytes": 2}), "{data}");
    assert_eq!(kinds["damaged_sessions"]["files"], 1, "{data}");
    assert_eq!(kinds["temporary"]["files"], 1, "{data}");
    assert_eq!(data["freed_bytes"], data["removed"]["bytes"]);
    assert_eq!(ws.tree(), before);
    // Recent changes can still be undone; old ones are gone.
    ws.lbx(&["undo"]).ok();
    ws.holds("c.txt", "cc\n");
    ws.lbx(&["undo"]).ok();
    ws.holds("a.txt", "two\n");
    ws.lbx(&["undo"]).error("not_found");
    ws.lbx(&["restore", "--path", "b.txt"]).error("not_found");
    assert_eq!(ws.lbx(&["gc"]).ok()["removed"]["files"], 0);
}

#[test]
fn backup_bundle_of_many_files_is_removed_with_its_change() {
    let names: Vec<String> = (0..70).map(|number| format!("d{}/f{number}", number % 3)).collect();
    let texts: Vec<String> = (0..70).map(|number| format!("old {number}\n")).collect();
    let files: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    let ws = Workspace::with(&files);
    let first = ws.tree();
    ws.lbx(&["read", "--json", &serde_json::json!({"paths": names}).to_string()]).ok();
    let edit = serde_json::json!({"paths": names, "old_string": "old", "new_string": "new"});
    ws.lbx(&["edit", "--json", &edit.to_string()]).ok();
    let folder = ws.path(&state("backups"));
    let bundles = || fs::read_dir(folder.join("bundles")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!((fs::read_dir(&folder).unwrap().count(), bundles().count()), (1, 1));
    let last = ws.tree();
    ws.lbx(&["undo"]).ok();
    assert_eq!(ws.tree(), first);
    ws.lbx(&["redo"]).ok();
    assert_eq!(ws.tree(), last);
    let removed = ws.lbx(&["gc", "--keep-days", "0"]).ok()["by_kind"]["backups"]["files"].clone();
    assert_eq!(removed, 3);
    assert_eq!(bundles().count(), 0);
}

#[test]
fn gc_keeps_old_bytes_that_a_kept_change_needs() {
    let ws = Workspace::with(&[("a.txt", "one\n"), (".gitignore", "*\n")]);
    let _ = ws.lbx(&["append", "a.txt", "--content", "two\n"]).success();
    // Only the journal entry has the old bytes of a small file.
    assert!(!ws.path(&state("backups")).exists());
    age_all(&ws, 40);
    ws.lbx(&["read", "a.txt"]).ok();
    let _ = ws.lbx(&["write", "a.txt", "--content", "one\n"]).success();
    assert_eq!(ws.lbx(&["gc", "--dry-run"]).ok()["by_kind"]["history"]["files"], 1);
    assert!(!ws.path(&state("backups")).exists());
    assert_eq!(ws.lbx(&["gc"]).ok()["by_kind"]["history"]["files"], 1);
    let name = sha256(b"one\n");
    ws.holds(&state(&format!("backups/{}/{}", &name[..2], &name[2..])), "one\n");
    let _ = ws.lbx(&["undo"]).success();
    ws.holds("a.txt", "one\ntwo\n");
    let _ = ws.lbx(&["redo"]).success();
    ws.holds("a.txt", "one\n");
}

#[test]
fn gc_dry_run_removes_nothing() {
    let ws = old_and_new();
    ws.lbx(&["gc", "--dry-run"]).ok();
    ws.lbx(&["restore", "--path", "b.txt"]).ok();
    ws.holds("b.txt", "b\n");
}

#[test]
fn gc_removes_nothing_younger_than_keep_days() {
    let ws = old_and_new();
    let data = ws.lbx(&["gc", "--keep-days", "41"]).ok();
    assert_eq!(data["removed"]["files"], 0, "{data}");
    assert!(data["kept"]["files"].as_u64().unwrap() >= 6, "{data}");
    for _ in 0..4 {
        ws.lbx(&["undo"]).ok();
    }
    ws.holds("a.txt", long());
    ws.holds("b.txt", "b\n");
}

#[test]
fn gc_keeps_a_trash_entry_renewed_by_a_recent_undo() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.lbx(&["delete", "a.txt"]).ok();
    age_all(&ws, 40);
    ws.lbx(&["restore", "--path", "a.txt"]).ok();
    ws.lbx(&["undo"]).ok();
    let data = ws.lbx(&["gc"]).ok();
    assert_eq!(data["by_kind"]["trash"]["files"], 0, "{data}");
    ws.lbx(&["restore", "--path", "a.txt"]).ok();
    ws.holds("a.txt", "a\n");
}

#[test]
fn gc_without_state_frees_nothing() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let data = ws.lbx(&["gc", "--dry-run"]).ok();
    assert_eq!(data["freed_bytes"], 0);
    assert!(!ws.path(".lbx").exists());
}
