//! Deleted files can be restored, and nothing is ever moved onto an existing file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::common::{Workspace, sha256, state};

/// Returns the trash id in an answer.
fn trash_id(data: &serde_json::Value) -> String {
    data["trash_id"].as_str().unwrap().to_owned()
}

#[test]
fn restore_by_trash_id_brings_back_a_deleted_file() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    let before = ws.tree();
    let data = ws.lbx(&["delete", "a.txt"]).ok();
    assert_eq!((&data["path"], &data["files"], &data["bytes"]), (&json!("a.txt"), &json!(1), &json!(4)));
    assert!(!ws.path("a.txt").exists());
    let back = ws.lbx(&["restore", "--trash-id", &trash_id(&data)]).ok();
    assert_eq!((&back["path"], &back["sha256"]), (&json!("a.txt"), &json!(sha256(b"one\n"))));
    assert_eq!(ws.tree(), before);
    assert_eq!(ws.snapshots(), ["restore: a.txt", "delete: a.txt"]);
    // It is no longer in the trash.
    ws.lbx(&["restore", "--trash-id", &trash_id(&data), "--session", "other"]).error("not_found");
}

#[test]
fn undo_of_a_purged_ignored_folder_does_not_point_to_snapshots() {
    let ws = Workspace::with(&[(".gitignore", "ignored\n"), ("ignored/a.txt", "one\n")]);
    ws.lbx(&["delete", "-r", "ignored"]).success();
    ws.lbx(&["trash", "purge"]).ok();
    assert_eq!(
        ws.lbx(&["undo"]).error("stale_file")["suggested_action"],
        "`log` shows who restored it. `undo` takes an older change back by its `seq`."
    );
}

#[test]
fn undo_of_a_purged_deletion_names_the_file_and_passes_older_changes() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    ws.lbx(&["append", "b.txt", "--content", "more\n"]).ok();
    ws.lbx(&["delete", "a.txt"]).ok();
    ws.lbx(&["trash", "purge"]).ok();
    let error = ws.unchanged(|| ws.lbx(&["undo"]).error("stale_file"));
    assert_eq!(error["path"], "a.txt");
    assert_eq!(
        error["suggested_action"],
        "`log` shows who restored it. If nobody did, git may have its bytes: `git log -p lbx-snapshots -- a.txt`. `undo` takes an older change back by its `seq`."
    );
    assert!(ws.git(&["log", "-p", "lbx-snapshots", "--", "a.txt"]).contains("-one"));
    ws.lbx(&["undo", "--seq", "1"]).ok();
    ws.holds("b.txt", "b\n");
    // A name that a shell would run is quoted.
    ws.write("c; touch d", "c\n");
    ws.lbx(&["delete", "c; touch d"]).ok();
    ws.lbx(&["trash", "purge"]).ok();
    let action = ws.lbx(&["undo"]).error("stale_file")["suggested_action"].to_string();
    assert!(action.contains("git log -p lbx-snapshots -- 'c; touch d'`"), "{action}");
}

#[test]
fn undo_of_a_delete_replaces_an_equal_file_made_since() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("d/b.txt", "b\n")]);
    let before = ws.tree();
    ws.lbx(&["delete", "a.txt", "d/b.txt"]).ok();
    let deleted = ws.tree();
    ws.write("a.txt", "one\n");
    assert_eq!(ws.lbx(&["undo", "--dry-run"]).ok()["undone"][0]["seq"], 1);
    ws.lbx(&["undo"]).ok();
    assert_eq!(ws.tree(), before);
    assert_eq!(ws.lbx(&["trash"]).ok()["total"], 0);
    ws.lbx(&["redo"]).ok();
    assert_eq!(ws.tree(), deleted);
    // Of another mode, or with other bytes, it is another file.
    ws.write("a.txt", "one\n");
    ws.chmod("a.txt", 0o600);
    ws.unchanged(|| ws.lbx(&["undo"]).error("stale_file"));
    ws.chmod("a.txt", 0o644);
    ws.write("a.txt", "two\n");
    ws.unchanged(|| ws.lbx(&["undo"]).error("stale_file"));
    ws.write("a.txt", "one\n");
    ws.lbx(&["undo", "--seq", "1"]).ok();
    assert_eq!(ws.tree(), before);
    assert_eq!(ws.lbx(&["diff", "--session", "default"]).ok()["diff"], "");
}

#[test]
fn obstacle_of_an_undo_that_the_session_moves_stays_moved() {
    let ws = Workspace::with(&[("src/a.txt", "a\n"), ("b.txt", "b\n")]);
    ws.lbx(&["delete", "src", "--recursive"]).ok();
    ws.write("src/a.txt", "of another\n");
    let error = ws.lbx(&["undo"]).error("stale_file");
    assert_eq!(error["suggested_action"], "Move what is there out of the way, then `undo` with `seq` 1.");
    ws.lbx(&["move", "src", "old"]).ok();
    ws.lbx(&["undo", "--seq", "1"]).ok();
    ws.holds("src/a.txt", "a\n");
    ws.holds("old/a.txt", "of another\n");
    // A file moved by this session, then removed by someone else.
    ws.lbx(&["move", "b.txt", "c.txt"]).ok();
    ws.lbx(&["append", "src/a.txt", "--content", "more\n"]).ok();
    fs::remove_file(ws.path("c.txt")).unwrap();
    let error = ws.lbx(&["undo", "--steps", "2"]).error("stale_file");
    assert_eq!(
        error["suggested_action"],
        "Bring it back to where this session left it, then `undo` each of the changes with its `seq`."
    );
    ws.write("c.txt", "b\n");
    ws.lbx(&["undo", "--steps", "2"]).ok();
    ws.holds("b.txt", "b\n");
    // A redo ends with the next change of the session.
    ws.write("c.txt", "of another\n");
    let error = ws.lbx(&["redo"]).error("stale_file");
    assert_eq!(
        error["suggested_action"],
        "Move what is there out of the way, but not by this session, whose changes end redo; then repeat the call."
    );
    ws.lbx(&["move", "c.txt", "d.txt", "--session", "other"]).ok();
    ws.lbx(&["redo"]).ok();
    ws.holds("c.txt", "b\n");
}

#[test]
fn restore_by_path_takes_the_newest_trash_entry() {
    let ws = Workspace::with(&[]);
    for text in ["first", "second"] {
        ws.write("a.txt", text);
        ws.lbx(&["delete", "a.txt"]).ok();
    }
    ws.lbx(&["restore", "a.txt"]).ok();
    ws.holds("a.txt", "second");
    let error = ws.unchanged(|| ws.lbx(&["restore", "a.txt", "--session", "other"]).error("already_exists"));
    assert!(error["suggested_action"].as_str().unwrap().contains("to"), "{error:#}");
    let there = ws.lbx(&["restore", "a.txt", "--to", "deep/er/b.txt"]).ok();
    assert_eq!(there["path"], "deep/er/b.txt");
    ws.holds("deep/er/b.txt", "first");
    ws.holds("a.txt", "second");
}

#[test]
fn delete_of_a_folder_requires_recursive() {
    let ws = Workspace::with(&[("sub/a.txt", "a\n"), ("sub/deep/b.txt", "bb\n")]);
    let before = ws.tree();
    let error = ws.unchanged(|| ws.lbx(&["delete", "sub"]).error("is_a_directory"));
    assert!(error["suggested_action"].as_str().unwrap().contains("recursive"), "{error:#}");
    let data = ws.json("delete", &json!({"path": "sub", "recursive": true})).ok();
    assert_eq!((&data["files"], &data["bytes"]), (&json!(2), &json!(5)));
    assert!(!ws.path("sub").exists());
    let listed = ws.lbx(&["trash", "list"]).ok();
    assert_eq!(
        (&listed["entries"][0]["path"], &listed["entries"][0]["type"]),
        (&json!("sub"), &json!("dir"))
    );
    ws.lbx(&["restore", "sub"]).ok();
    assert_eq!(ws.tree(), before);
}

#[test]
fn delete_of_a_symlink_keeps_its_target() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("sub/b.txt", "b\n")]);
    fs::write(ws.outside.join("secret"), "s").unwrap();
    ws.link("a.txt", "file");
    ws.link("sub", "folder");
    ws.link("../secret", "out");
    ws.link("nowhere", "dangling");
    let before = ws.tree();
    for link in ["file", "folder", "out", "dangling"] {
        ws.lbx(&["delete", link]).ok();
        assert!(fs::symlink_metadata(ws.path(link)).is_err(), "{link}");
    }
    ws.holds("a.txt", "one\n");
    ws.holds("sub/b.txt", "b\n");
    assert_eq!(fs::read_to_string(ws.outside.join("secret")).unwrap(), "s");
    for link in ["file", "folder", "out", "dangling"] {
        ws.lbx(&["restore", link]).ok();
    }
    assert_eq!(ws.tree(), before);
}

#[test]
fn delete_of_several_paths_is_all_or_nothing() {
    let ws = Workspace::with(&[("a", "a"), ("b", "b"), ("sub/c", "c")]);
    ws.unchanged(|| {
        ws.lbx(&["delete", "a", "none"]).error("not_found");
        ws.lbx(&["delete", "a", "sub"]).error("is_a_directory");
        ws.lbx(&["delete", "a", "a"]).error("invalid_request");
        ws.lbx(&["delete", "-r", "sub/c", "sub"]).error("invalid_request");
        ws.lbx(&["delete", "a", "../x"]).error("outside_workspace");
        ws.lbx(&["delete", "-r", "a", ".git"]).error("protected_path");
        ws.json("delete", &json!({"path": []})).error("invalid_request");
    });
    assert_eq!(ws.lbx(&["trash"]).ok()["total"], 0, "what was refused left something in the trash");
    let data = ws.lbx(&["delete", "-r", "a", "sub"]).ok();
    assert_eq!(data["deleted"].as_array().unwrap().len(), 2);
    assert!(!ws.path("a").exists() && !ws.path("sub").exists() && ws.path("b").exists());
    assert_eq!(ws.snapshots().len(), 1);
    // They are one change, which one undo reverts.
    ws.lbx(&["undo"]).ok();
    ws.holds("a", "a");
    ws.holds("sub/c", "c");
}

#[test]
fn delete_and_move_check_expected_sha256() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let (good, bad) = (sha256(b"one\n"), sha256(b"x"));
    ws.unchanged(|| ws.lbx(&["delete", "a.txt", "--expected-sha256", &bad]).error("stale_file"));
    ws.unchanged(|| ws.lbx(&["move", "a.txt", "b.txt", "--expected-sha256", &bad]).error("stale_file"));
    ws.lbx(&["move", "a.txt", "b.txt", "--expected-sha256", &good]).ok();
    ws.lbx(&["delete", "b.txt", "--expected-sha256", &good]).ok();
}

#[test]
fn git_and_lbx_state_is_not_deleted_or_moved() {
    let ws = Workspace::with(&[("sub/a.txt", "a\n"), ("plain.txt", "p\n")]);
    fs::create_dir_all(ws.path("sub/deep/.git/objects")).unwrap();
    let calls: &[(&[&str], &str)] = &[
        (&["delete", "-r", "sub"], "protected_path"),
        (&["delete", "-r", "sub/deep/.git"], "protected_path"),
        (&["delete", "-r", ".git"], "protected_path"),
        (&["delete", ".git/HEAD"], "protected_path"),
        (&["delete", "-r", ".lbx"], "protected_path"),
        (&["move", "sub", "other"], "protected_path"),
        (&["move", ".git/HEAD", "head"], "protected_path"),
        (&["move", "plain.txt", ".git/plain"], "protected_path"),
        (&["move", "plain.txt", ".lbx/plain"], "protected_path"),
        (&["move", "plain.txt", "../plain"], "outside_workspace"),
        (&["delete", "../home"], "outside_workspace"),
    ];
    ws.lbx(&["append", "plain.txt", "--content", "more\n"]).ok();
    ws.unchanged(|| {
        for (call, kind) in calls {
            ws.lbx(call).error(kind);
        }
    });
    assert!(ws.path(".git/HEAD").exists() && ws.path("sub/deep/.git/objects").exists());
    for root in [".", "sub/.."] {
        let answer = ws.unchanged(|| ws.lbx(&["delete", "-r", root]));
        assert_ne!(answer.status(), 0, "{root}");
        let _ = answer.envelope();
        assert_ne!(ws.unchanged(|| ws.lbx(&["move", root, "x"])).status(), 0, "{root}");
    }
}

#[test]
fn modes_times_and_links_survive_the_trash() {
    let ws = Workspace::with(&[("sub/run.sh", "#!/bin/sh\n"), ("sub/private/key", "k\n")]);
    ws.chmod("sub/run.sh", 0o751);
    ws.chmod("sub/private", 0o700);
    ws.link("run.sh", "sub/link");
    fs::hard_link(ws.path("sub/run.sh"), ws.path("sub/twin")).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(ws.path("sub/run.sh")).unwrap().set_modified(long_ago).unwrap();
    let (before, stat) = (ws.tree(), fs::metadata(ws.path("sub/run.sh")).unwrap());
    ws.lbx(&["delete", "-r", "sub"]).ok();
    ws.lbx(&["restore", "sub"]).ok();
    assert_eq!(ws.tree(), before);
    let now = fs::metadata(ws.path("sub/run.sh")).unwrap();
    assert_eq!(
        (now.mtime(), now.ino(), now.nlink(), now.mode()),
        (stat.mtime(), stat.ino(), stat.nlink(), stat.mode())
    );
}

#[test]
fn restore_rejects_bad_targets_and_suggests_the_trash_id() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.lbx(&["restore", "a.txt"]).error("not_found");
    ws.lbx(&["restore"]).error("invalid_request");
    let id = trash_id(&ws.lbx(&["delete", "a.txt"]).ok());
    let error = ws.lbx(&["restore", "b.txt"]).error("not_found");
    assert!(error["suggested_action"].as_str().unwrap().contains(&id), "{error:#}");
    ws.lbx(&["restore", "a.txt", "--trash-id", &id]).error("invalid_request");
    for id in ["../sessions", ".", "x/../../x"] {
        ws.json("restore", &json!({"trash_id": id})).error("not_found");
    }
    for (to, kind) in
        [("../x", "outside_workspace"), (".git/x", "protected_path"), (".lbx/x", "protected_path")]
    {
        ws.lbx(&["restore", "a.txt", "--to", to]).error(kind);
    }
    let error = ws.lbx(&["restore", "a.txt", "--to", "."]).error("already_exists");
    assert_eq!(error["message"], ". exists already, and restore never overwrites");
    ws.unchanged(|| ws.lbx(&["restore", "a.txt", "--dry-run"]).ok());
    ws.lbx(&["restore", "a.txt"]).ok();
}

#[test]
fn trash_lists_newest_first_and_purges_by_id_or_all() {
    let ws = Workspace::with(&[("a", "a"), ("b", "bb"), ("c", "ccc")]);
    let ids: Vec<String> =
        ["a", "b", "c"].iter().map(|path| trash_id(&ws.lbx(&["delete", path]).ok())).collect();
    let listed = ws.lbx(&["trash"]).ok();
    let paths: Vec<&str> =
        listed["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["c", "b", "a"]);
    assert_eq!((&listed["total"], &listed["bytes"]), (&json!(3), &json!(6)));
    assert_eq!(ws.lbx(&["trash", "list", "--limit", "1"]).ok()["truncated"], true);
    ws.lbx(&["trash", "purge", "--trash-id", "none"]).error("not_found");
    ws.lbx(&["trash", "purge", "--dry-run"]).ok();
    assert_eq!(ws.lbx(&["trash", "purge", "--trash-id", &ids[1]]).ok()["total"], 1);
    ws.lbx(&["restore", "b"]).error("not_found");
    ws.lbx(&["restore", "c"]).ok();
    assert_eq!(ws.lbx(&["trash", "purge"]).ok()["total"], 1);
    assert_eq!(ws.lbx(&["trash"]).ok()["total"], 0);
    ws.holds("c", "ccc");
}

#[test]
fn dry_run_of_delete_or_move_changes_nothing() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.unchanged(|| ws.lbx(&["delete", "a.txt", "--dry-run"]).ok());
    ws.unchanged(|| ws.lbx(&["move", "a.txt", "b/c.txt", "--dry-run"]).ok());
    assert_eq!(ws.lbx(&["trash"]).ok()["total"], 0);
    assert!(ws.snapshots().is_empty());
}

#[test]
fn move_creates_folders_and_never_overwrites() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n"), ("sub/c.txt", "c\n")]);
    ws.unchanged(|| {
        ws.lbx(&["move", "a.txt", "b.txt"]).error("already_exists");
        let error = ws.lbx(&["move", "a.txt", "sub"]).error("already_exists");
        assert_eq!(error["suggested_action"], "Did you mean sub/a.txt? `to` is the new path itself.");
        let error = ws.lbx(&["move", "sub/c.txt", "."]).error("already_exists");
        assert_eq!(error["message"], ". exists already, and move never overwrites");
        assert_eq!(error["suggested_action"], "Did you mean c.txt? `to` is the new path itself.");
        // The suggested command would not work either.
        for (from, to) in [("sub", "sub"), ("sub/c.txt", "sub")] {
            let error = ws.lbx(&["move", from, to]).error("already_exists");
            assert_eq!(error["suggested_action"], "Choose another name in `to`.", "{from} {to}");
        }
        ws.lbx(&["move", "none", "x"]).error("not_found");
        ws.lbx(&["move", "sub", "sub/deep/sub"]).error("invalid_request");
        ws.lbx(&["move", "a.txt", "b.txt/x"]).error("not_a_directory");
    });
    let data = ws.lbx(&["move", "a.txt", "new/deep/a.txt"]).ok();
    assert_eq!((&data["from"], &data["to"]), (&json!("a.txt"), &json!("new/deep/a.txt")));
    ws.holds("new/deep/a.txt", "a\n");
    assert!(!ws.path("a.txt").exists());
    ws.json("move_file", &json!({"source": "sub", "destination": "other"})).ok();
    ws.holds("other/c.txt", "c\n");
    assert_eq!(ws.snapshots(), ["move: sub -> other", "move: a.txt -> new/deep/a.txt"]);
}

#[test]
fn moved_file_still_counts_as_read() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("sub/b.txt", "one\n"), ("sub/unread.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["read", "sub/b.txt"]).ok();
    ws.lbx(&["move", "a.txt", "c.txt"]).ok();
    ws.lbx(&["move", "sub", "other"]).ok();
    let edit = |path: &str| ws.lbx(&["edit", path, "--old-string", "one", "--new-string", "two"]);
    edit("c.txt").ok();
    edit("other/b.txt").ok();
    edit("other/unread.txt").error("not_read");
    // A later file with the old name is another file.
    ws.write("a.txt", "one\n");
    edit("a.txt").error("not_read");
}

#[test]
fn move_of_a_symlink_keeps_its_target() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.link("a.txt", "link");
    ws.lbx(&["move", "link", "other"]).ok();
    assert_eq!(fs::read_link(ws.path("other")).unwrap().to_str(), Some("a.txt"));
    ws.holds("a.txt", "a\n");
}

#[test]
fn trash_list_and_diff_stat_are_paged_by_next_offset() {
    let names: Vec<String> = (0..150).map(|number| format!("{}{number}", "n".repeat(200))).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x\n")).collect();
    let ws = Workspace::with(&files);
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    ws.lbx(&[&["delete"][..], &all].concat()).ok();
    for (tool, list, call) in
        [("trash", "entries", &["trash", "--limit", "0"][..]), ("diff", "stat", &["diff", "--stat"])]
    {
        let (mut found, mut next) = (Vec::new(), Some(0));
        while let Some(offset) = next {
            let data = ws.lbx(&[call, &["--offset", &offset.to_string()]].concat()).ok();
            assert!(data[list].to_string().len() <= 24_576, "{tool}");
            found.extend(data[list].as_array().unwrap().iter().map(|entry| entry["path"].clone()));
            next = data["next_offset"].as_u64();
            assert_eq!(data["truncated"], next.is_some(), "{tool}");
        }
        found.sort_by_key(ToString::to_string);
        found.dedup();
        assert_eq!(found.len(), names.len(), "{tool}");
        let whole = ws.lbx(&[call, &["--max-bytes", "0"]].concat()).ok();
        assert_eq!(
            (whole[list].as_array().unwrap().len(), &whole["truncated"]),
            (150, &json!(false)),
            "{tool}"
        );
    }
    let purged = ws.lbx(&["trash", "purge", "--max-bytes", "1000"]).ok();
    assert_eq!((&purged["total"], &purged["truncated"]), (&json!(150), &json!(true)));
}

/// Makes a session's call.
fn call(ws: &Workspace, session: &str, args: &[&str]) -> crate::common::Answer {
    ws.lbx(&[args, &["--session", session]].concat())
}

#[test]
fn undo_and_redo_keep_files_changed_by_other_programs() {
    /// Existing files, the calls of the session, the action of another program, and the call that fails.
    type Case = (
        &'static str,
        &'static [&'static [&'static str]],
        (&'static str, &'static str),
        &'static [&'static str],
    );
    let cases: &[Case] = &[
        ("a", &[&["delete", "a"], &["restore", "a"]], ("a", "others\n"), &["undo"]),
        ("a", &[&["delete", "a"], &["undo"]], ("a", "others\n"), &["redo"]),
        ("d/a", &[&["delete", "-r", "d"], &["restore", "d"]], ("d/b", "others\n"), &["undo"]),
        ("d/a", &[&["delete", "-r", "d"], &["undo"]], ("d/a", "others\n"), &["redo"]),
        ("d/a", &[&["delete", "-r", "d"], &["restore", "d", "--to", "e"]], ("e/b", "others\n"), &["undo"]),
        ("a", &[&["delete", "a"], &["restore", "a"]], ("a", "others\n"), &["undo", "--seq", "2"]),
        ("a", &[&["delete", "a"], &["restore", "a"]], ("a", "others\n"), &["undo", "--merge"]),
        (
            "d/a",
            &[&["move", "d/a", "kept"], &["delete", "-r", "d"]],
            ("kept", "others\n"),
            &["undo", "--seq", "1"],
        ),
    ];
    for (number, (path, calls, (changed, text), refused)) in cases.iter().enumerate() {
        let ws = Workspace::with(&[(path, "a\n"), ("d/keeps", "k\n")]);
        calls.iter().for_each(|args| drop(call(&ws, "one", args).ok()));
        ws.write(changed, text);
        let error = ws.unchanged(|| call(&ws, "one", refused).error("stale_file"));
        assert!(!error.to_string().contains(".lbx"), "{number}: {error:#}");
        ws.holds(changed, text);
    }
}

#[test]
fn undo_reverts_a_rewind_past_a_deletion() {
    let ws = Workspace::with(&[("a", "a\n")]);
    let first =
        ws.lbx(&["append", "a", "--content", "b\n"]).success()["snapshot"].as_str().unwrap().to_owned();
    ws.lbx(&["delete", "a"]).ok();
    ws.lbx(&["restore", "a"]).ok();
    ws.lbx(&["append", "a", "--content", "c\n"]).ok();
    ws.lbx(&["rewind", &first, "--yes"]).ok();
    assert_eq!(ws.lbx(&["undo"]).ok()["undone"][0]["tool"], "rewind");
    ws.holds("a", "a\nb\nc\n");
}

#[test]
fn undo_by_seq_reverts_a_redone_change() {
    let ws = Workspace::with(&[("a", "a\n"), ("d/b", "b\n")]);
    let before = ws.tree();
    ws.lbx(&["move", "a", "e"]).ok();
    ws.lbx(&["undo"]).ok();
    ws.lbx(&["redo"]).ok();
    ws.lbx(&["undo", "--seq", "1"]).ok();
    assert_eq!(ws.tree(), before);
    let ws = Workspace::with(&[("a", "a\n"), ("d/b", "b\n")]);
    ws.lbx(&["delete", "-r", "d"]).ok();
    ws.lbx(&["undo"]).ok();
    ws.lbx(&["redo"]).ok();
    ws.lbx(&["undo", "--seq", "1"]).ok();
    assert_eq!(ws.tree(), before);
}

#[test]
fn tampered_trash_content_is_never_restored() {
    let ws = Workspace::with(&[("kept.js", "var x\n"), ("d/a", "var y\n"), (".gitignore", "ignored\n")]);
    ws.write("ignored", "var z\n");
    let spoil = |path: &str, inner: &str, flags: &[&str]| {
        let id = trash_id(&ws.lbx(&[&["delete", path], flags].concat()).success()["data"]);
        let content = ws.path(&state(&format!("trash/{id}/content")));
        let stored = if inner.is_empty() { content } else { content.join(inner) };
        fs::write(&stored, "let s\n").unwrap();
        id
    };
    // A snapshot holds the file.
    spoil("kept.js", "", &[]);
    ws.lbx(&["undo"]).ok();
    ws.holds("kept.js", "var x\n");
    let id = spoil("kept.js", "", &[]);
    ws.lbx(&["restore", "--trash-id", &id]).ok();
    ws.holds("kept.js", "var x\n");
    // Ignored files are in no snapshot, and no folder is restored in part.
    for (path, inner, flags) in [("ignored", "", &[][..]), ("d", "a", &["-r"][..])] {
        let id = spoil(path, inner, flags);
        for args in [&["undo"][..], &["restore", "--trash-id", &id]] {
            let error = ws.unchanged(|| ws.lbx(args).error("stale_file"));
            let said = format!(
                "the trash no longer holds {path} as it was deleted: another program changed trash {id}"
            );
            assert_eq!(error["message"], said.as_str());
        }
    }
}

/// Damages to the description of a trash entry.
const DESCRIPTION_DAMAGES: [fn(&str) -> String; 5] = [
    |text| text.replace("a.txt", "b.txt"),
    |text| text.replace("\"version\":2", "\"version\":1").replace("a.txt", "b.txt"),
    |text| text.lines().next().unwrap_or_default().to_owned(),
    |text| text.replace(',', ",\n  "),
    |_| String::new(),
];

#[test]
fn damaged_description_of_a_trash_entry_is_skipped_and_named() {
    for damage in DESCRIPTION_DAMAGES {
        let ws = Workspace::with(&[("a.txt", "older\n")]);
        let older = trash_id(&ws.lbx(&["delete", "a.txt"]).ok());
        ws.write("a.txt", "newer\n");
        let id = trash_id(&ws.lbx(&["delete", "a.txt"]).ok());
        let description = ws.path(&state(&format!("trash/{id}/entry.lbx")));
        let damaged = damage(&fs::read_to_string(&description).unwrap());
        fs::write(&description, damaged).unwrap();

        let warning = "skipped 1 trash entry with a damaged description, kept in .lbx/";
        let listed = ws.lbx(&["trash", "list"]).warned(warning);
        assert_eq!((&listed["total"], &listed["entries"][0]["trash_id"]), (&json!(1), &json!(older)));
        ws.unchanged(|| {
            let error = ws.lbx(&["restore", "--trash-id", &id]).error("stale_file");
            assert_eq!(error["message"], format!("the description of trash {id} is damaged"));
            let error = ws.lbx(&["undo"]).error("stale_file");
            assert_eq!(error["details"]["trash_id"], json!(id), "{error:#}");
        });
        let findings = ws.lbx(&["doctor"]).ok()["findings"].clone();
        let found = findings.as_array().unwrap().iter().find(|found| found["check"] == "trash").unwrap();
        assert_eq!(found["message"], format!("1 trash entry with a damaged description: {id}"));
        assert!(
            found["remedy"].as_str().unwrap().starts_with("Nothing restores or removes them."),
            "{found}"
        );

        ws.lbx(&["restore", "a.txt"]).warned(&format!(": {id}"));
        ws.holds("a.txt", "older\n");
        ws.lbx(&["trash", "purge"]).ok();
        ws.lbx(&["gc", "--keep-days", "0"]).envelope();
        ws.holds(&state(&format!("trash/{id}/content")), "newer\n");
    }
}

#[test]
fn trash_entry_of_an_older_release_has_no_digest_and_is_restored() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let id = trash_id(&ws.lbx(&["delete", "a.txt"]).ok());
    let description = ws.path(&state(&format!("trash/{id}/entry.lbx")));
    let text = fs::read_to_string(&description).unwrap();
    let line = text.lines().next().unwrap().replace("\"version\":2", "\"version\":1");
    fs::write(&description, line).unwrap();
    assert_eq!(ws.lbx(&["trash"]).ok()["entries"][0]["trash_id"], json!(id));
    ws.lbx(&["restore", "a.txt"]).ok();
    ws.holds("a.txt", "one\n");
}
