//! lbx removes data that it no longer needs, and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::common::{Standing, Workspace, change_state_file, sha256, skipped, state};

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

/// Returns the files below a folder.
fn files_below(ws: &Workspace, folder: &str) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![ws.path(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}

/// Returns the size of all files in the state, in bytes.
fn state_bytes(ws: &Workspace) -> u64 {
    let files = files_below(ws, &state(""));
    files.iter().map(|path| fs::metadata(path).unwrap().len()).sum()
}

/// Creates a workspace with 60 changes of a long, a short and an ignored file, and returns its trees from first to last.
fn many_changes() -> (Workspace, Vec<BTreeMap<PathBuf, Standing>>) {
    let lines: String = (0..1500).map(|line| format!("line {line}\n")).collect();
    let ws = Workspace::with(&[
        ("long.txt", &lines),
        ("short.txt", "one\n"),
        (".gitignore", "secret\n"),
        ("secret", "s\n"),
    ]);
    let mut trees = vec![ws.tree()];
    for number in 0..60 {
        let name = ["long.txt", "short.txt", "secret"][number % 3];
        let _ = ws.lbx(&["append", name, "--content", &format!("{number}\n")]).success();
        trees.push(ws.tree());
    }
    (ws, trees)
}

#[test]
fn gc_packs_the_history_and_undo_finds_all_of_it() {
    let (ws, trees) = many_changes();
    let before = state_bytes(&ws);
    let planned = ws.lbx(&["gc", "--dry-run"]).ok();
    assert_eq!(planned["packed_changes"], serde_json::Value::Null, "{planned}");
    let data = ws.lbx(&["gc"]).ok();
    assert_eq!((&data["packed_changes"], &data["removed"]["files"]), (&60.into(), &0.into()), "{data}");
    assert!(data["packed_bytes"].as_u64().unwrap() > before * 3 / 4, "{data}");
    assert!(state_bytes(&ws) < before / 5);
    assert_eq!(files_below(&ws, &state("journal/done/default")).len(), 2);
    assert_eq!(files_below(&ws, &state("backups")).len(), 1);
    // A second one finds nothing to pack.
    let data = ws.lbx(&["gc"]).ok();
    assert_eq!(
        (&data["packed_changes"], &data["kept"]["files"]),
        (&serde_json::Value::Null, &122.into()),
        "{data}"
    );
    for tree in trees.iter().rev().skip(1).take(20) {
        ws.lbx(&["undo"]).ok();
        assert_eq!(ws.tree(), *tree);
    }
    // The undos and what they took back are packed together.
    assert_eq!(ws.lbx(&["gc"]).ok()["packed_changes"], 20);
    ws.lbx(&["redo", "--steps", "20"]).ok();
    assert_eq!(ws.tree(), trees[60]);
    ws.lbx(&["undo", "--steps", "60"]).ok();
    assert_eq!(ws.tree(), trees[0]);
    let seqs = ws.lbx(&["session"]).ok();
    let _ = ws.lbx(&["append", "short.txt", "--content", "more\n"]).success();
    assert_eq!(ws.lbx(&["undo"]).ok()["undone"][0]["seq"], 83, "{seqs}");
    assert!(ws.lbx(&["doctor"]).ok()["healthy"].as_bool().unwrap());
}

/// Each 128th change of a session packs; for `default` that is the 19th.
#[test]
fn old_changes_are_packed_without_gc() {
    let history = state("journal/done/default");
    let lines: String = (0..1500).map(|line| format!("line {line}\n")).collect();
    let ws = Workspace::with(&[("long.txt", &lines), ("short.txt", "one\n")]);
    let mut trees = vec![ws.tree()];
    let append = |ws: &Workspace, number: usize| {
        let name = ["long.txt", "short.txt"][number % 2];
        let _ = ws.lbx(&["append", name, "--content", &format!("{number}\n")]).success();
        ws.tree()
    };
    for number in 1..19 {
        trees.push(append(&ws, number));
    }
    // What is young stays as it is, and so do a few old changes.
    for old in [0, 15] {
        let ws = ws.copy();
        for seq in 1..=old {
            age(&ws.path(&format!("{history}/{seq:08}.lbx")), 2);
        }
        append(&ws, 19);
        assert_eq!(files_below(&ws, &history).len(), 19);
    }
    for seq in 1..=16 {
        age(&ws.path(&format!("{history}/{seq:08}.lbx")), 2);
    }
    let before = state_bytes(&ws);
    trees.push(append(&ws, 19));
    assert!(state_bytes(&ws) < before / 3);
    assert_eq!(files_below(&ws, &history).len(), 4, "16 are in one file");
    // A full bundle of old bytes is set aside.
    let bundle = ws.path(&state("backups/bundles/packed"));
    fs::OpenOptions::new().write(true).open(&bundle).unwrap().set_len(32 << 20).unwrap();
    for number in 20..148 {
        trees.push(append(&ws, number));
        if number == 146 {
            files_below(&ws, &history).iter().for_each(|path| age(path, 2));
        }
    }
    assert_eq!(files_below(&ws, &history).len(), 2);
    assert_eq!(fs::read_dir(bundle.parent().unwrap()).unwrap().count(), 2);
    for steps in [1, 10, 136] {
        ws.lbx(&["undo", "--steps", &steps.to_string()]).ok();
        trees.truncate(trees.len() - steps);
        assert_eq!(ws.tree(), *trees.last().unwrap());
    }
    assert!(ws.lbx(&["doctor"]).ok()["healthy"].as_bool().unwrap());
}

#[test]
fn no_tool_tells_a_packed_history_from_another() {
    let (ws, _) = many_changes();
    let _ = ws.lbx(&["delete", "secret"]).success();
    ws.lbx(&["undo", "--steps", "3"]).ok();
    let calls: [&[&str]; 8] = [
        &["log", "--limit", "100"],
        &["session"],
        &["diff"],
        &["review"],
        &["blame", "short.txt"],
        &["trash"],
        &["undo", "--dry-run", "--steps", "7"],
        &["redo", "--dry-run"],
    ];
    let before = calls.map(|call| ws.lbx(call).ok());
    assert_eq!(ws.lbx(&["gc"]).ok()["packed_changes"], 62);
    for (call, before) in calls.into_iter().zip(before) {
        assert_eq!(ws.lbx(call).ok(), before, "{call:?}");
    }
}

#[test]
fn expired_changes_leave_the_packed_history() {
    let (ws, trees) = many_changes();
    age_all(&ws, 40);
    let _ = ws.lbx(&["append", "short.txt", "--content", "today\n"]).success();
    assert_eq!(ws.lbx(&["gc", "--keep-days", "50"]).ok()["packed_changes"], 61);
    let packed = state_bytes(&ws);
    // Where the packed file cannot be written again, nothing of it goes.
    let aside = ws.path(&state("journal/done/default/.packed"));
    fs::create_dir(&aside).unwrap();
    let data = ws.lbx(&["gc"]).warned("60 files could not be removed");
    assert_eq!(data["removed"]["files"], 0, "{data}");
    fs::remove_dir(&aside).unwrap();
    let planned = ws.copy().lbx(&["gc", "--dry-run"]).ok();
    let data = ws.lbx(&["gc"]).ok();
    assert_eq!(planned["removed"], data["removed"]);
    let kinds = &data["by_kind"];
    assert_eq!((&kinds["history"]["files"], &kinds["backups"]["files"]), (&60.into(), &60.into()), "{data}");
    assert!(state_bytes(&ws) < packed);
    ws.lbx(&["undo"]).ok();
    assert_eq!(ws.tree(), trees[60]);
    ws.lbx(&["undo"]).error("not_found");
    ws.lbx(&["gc"]).ok();
    ws.lbx(&["gc", "--keep-days", "0"]).ok();
    let left =
        [files_below(&ws, &state("backups")), files_below(&ws, &state("journal/done/default"))].concat();
    assert!(left.iter().all(|path| path.extension().is_some_and(|it| it == "given")), "{left:?}");
}

#[test]
fn damaged_packed_history_is_skipped_and_stays_as_it_is() {
    let (ws, trees) = many_changes();
    ws.lbx(&["gc"]).ok();
    let packed = ws.path(&state("journal/done/default/packed"));
    let whole = fs::read(&packed).unwrap();
    // Without its first bytes nobody knows the numbers.
    fs::write(&packed, [b"x", &whole[1..]].concat()).unwrap();
    let error = ws.lbx(&["undo"]).error("not_found");
    assert!(
        error["message"].as_str().unwrap().ends_with("skipped #60, whose record in the journal is damaged")
    );
    ws.lbx(&["gc", "--keep-days", "0"]).ok();
    // A digit of the newest number.
    let mut damaged = whole.clone();
    damaged[16 + 48 * 59 + 31] ^= 1;
    fs::write(&packed, &damaged).unwrap();
    let error = ws.lbx(&["undo"]).error("not_found");
    let skipped = "skipped #1, #2, #3, #4, #5 and 55 more, whose record in the journal is damaged";
    assert!(error["message"].as_str().unwrap().ends_with(skipped), "{error}");
    let _ = ws.lbx(&["append", "short.txt", "--content", "more\n"]).success();
    ws.lbx(&["undo"]).ok();
    assert_eq!(ws.tree(), trees[60]);
    ws.lbx(&["gc", "--keep-days", "0"]).ok();
    assert_eq!(fs::read(&packed).unwrap(), damaged);
    fs::write(&packed, &whole).unwrap();
    ws.lbx(&["undo"]).ok();
    assert_eq!(ws.tree(), trees[59]);
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
fn gc_keeps_a_session_with_the_name_of_a_damaged_one() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let name = "x.lbx.damaged-1";
    ws.lbx(&["read", "a.txt", "--session", name]).ok();
    let damaged = ws.path(&state("sessions/default.lbx.damaged-1"));
    fs::write(&damaged, "{}").unwrap();
    age_all(&ws, 60);
    assert_eq!(ws.lbx(&["gc"]).ok()["by_kind"]["damaged_sessions"]["files"], 1);
    assert!(!damaged.exists());
    ws.lbx(&["write", "a.txt", "--content", "b\n", "--session", name]).ok();
}

#[test]
fn gc_without_state_frees_nothing() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let data = ws.lbx(&["gc", "--dry-run"]).ok();
    assert_eq!(data["freed_bytes"], 0);
    assert!(!ws.path(".lbx").exists());
}

#[test]
fn gc_makes_room_where_no_file_can_be_made() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    for tool in [
        &["append", "a.txt", "--content", "two\n"][..],
        &["delete", "b.txt"],
        &["write", "c", "--content", "c"],
    ] {
        ws.lbx(tool).ok();
    }
    age_all(&ws, 40);
    let full = "mkdir ../disk && mount -t tmpfs -o nr_inodes=400 tmpfs ../disk || exit 99\n\
        cp -a . ../disk && cd ../disk\n\
        i=0; while touch fill$i 2> /dev/null; do i=$((i + 1)); done\n\
        \"$1\" gc | head -c 300 >&2; \"$1\" gc > /dev/null && \"$1\" append a.txt --content three";
    let Some(output) = crate::errors::script(&ws, &["unshare", "-rm"], full, &[]) else {
        return skipped("unshare is missing");
    };
    if matches!(output.status.code(), Some(1 | 99)) {
        return skipped("no mount is allowed here");
    }
    let first = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && first.contains("\"removed\""), "{first}");
    // The newest change could not be replaced by a mark of its number, so that it stays until there is room.
    let next: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(next["ok"], true, "{next}");
}
