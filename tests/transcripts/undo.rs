//! What a session changed, it can take back, and do again.

use std::fs;

use serde_json::{Value, json};

use crate::common::Workspace;

/// A patch that changes, makes and removes a file.
const PATCH: &str = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1\n*** Add File: deep/new.txt\n+new\n*** Delete File: sub/b.txt\n*** End Patch\n";

/// A workspace whose `a.txt` was read.
fn read_workspace() -> Workspace {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\n"), ("sub/b.txt", "b\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["read", "sub/b.txt"]).ok();
    ws
}

#[test]
fn every_changing_tool_is_undone_and_redone() {
    let calls: &[(&str, Value)] = &[
        ("write", json!({"path": "a.txt", "content": "all new\n"})),
        ("write", json!({"path": "new/deep/er.txt", "content": "new\n"})),
        ("write", json!({"path": "a.txt", "content": "all new\n", "mode": "0755"})),
        ("edit", json!({"path": "a.txt", "old_string": "one", "new_string": "1"})),
        (
            "edit",
            json!({"paths": ["a.txt", "sub/b.txt"], "old_string": "\n", "new_string": "!\n", "replace_all": true}),
        ),
        ("append", json!({"path": "a.txt", "content": "three\n"})),
        ("append", json!({"path": "new.txt", "content": "three\n"})),
        ("prepend", json!({"path": "a.txt", "content": "zero\n"})),
        ("insert", json!({"path": "a.txt", "line": 1, "content": "between\n"})),
        ("patch", json!({"patch": PATCH})),
        ("apply_patch", json!({"input": PATCH})),
        ("delete", json!({"path": "a.txt"})),
        ("delete", json!({"path": "sub", "recursive": true})),
        ("delete", json!({"path": ["a.txt", "sub/b.txt"]})),
        ("move", json!({"from": "a.txt", "to": "new/a.txt"})),
        ("move", json!({"from": "sub", "to": "new/deep/sub"})),
    ];
    for (tool, request) in calls {
        let ws = read_workspace();
        ws.chmod("a.txt", 0o640);
        let before = ws.tree();
        let json = request.to_string();
        ws.call(&[tool, "--json", &json]).env("LBX_OUTPUT", "json").run().success();
        let after = ws.tree();
        assert_ne!(before, after, "{tool} {request}");
        let data = ws.lbx(&["undo"]).ok();
        assert_eq!(data["undone"].as_array().unwrap().len(), 1, "{tool} {request}");
        assert_eq!((&data["undone"][0]["tool"], &data["undone"][0]["seq"]), (&json!(tool), &json!(1)));
        assert_eq!(ws.tree(), before, "undo of {tool} {request}");
        ws.lbx(&["redo"]).ok();
        assert_eq!(ws.tree(), after, "redo of {tool} {request}");
        ws.lbx(&["undo"]).ok();
        assert_eq!(ws.tree(), before, "undo of {tool} {request}, again");
        assert_eq!(ws.snapshots().len(), 4, "{tool} {request}: {:?}", ws.snapshots());
    }
}

#[test]
fn a_restore_is_undone_and_redone() {
    let ws = read_workspace();
    ws.lbx(&["delete", "-r", "sub"]).ok();
    let without = ws.tree();
    ws.lbx(&["restore", "sub"]).ok();
    let with = ws.tree();
    ws.lbx(&["undo"]).ok();
    assert_eq!(ws.tree(), without);
    ws.lbx(&["redo"]).ok();
    assert_eq!(ws.tree(), with);
    // Taken back, it is in the trash as before.
    ws.lbx(&["undo"]).ok();
    ws.lbx(&["restore", "sub"]).ok();
    assert_eq!(ws.tree(), with);
}

#[test]
fn a_whole_session_is_taken_back_step_by_step() {
    let ws = read_workspace();
    let mut trees = vec![ws.tree()];
    let calls: &[&[&str]] = &[
        &["write", "c.txt", "--content", "c\n"],
        &["edit", "a.txt", "--old-string", "one", "--new-string", "1"],
        &["append", "a.txt", "--content", "three\n"],
        &["move", "a.txt", "d.txt"],
        &["edit", "d.txt", "--old-string", "two", "--new-string", "2"],
        &["delete", "sub/b.txt"],
        &["append", "c.txt", "--content", "d\n"],
    ];
    for call in calls {
        ws.lbx(call).ok();
        trees.push(ws.tree());
    }
    for wanted in trees.iter().rev().skip(1) {
        ws.lbx(&["undo"]).ok();
        assert_eq!(ws.tree(), *wanted);
    }
    ws.unchanged(|| ws.lbx(&["undo"]).error("not_found"));
    for wanted in &trees[1..] {
        ws.lbx(&["redo"]).ok();
        assert_eq!(ws.tree(), *wanted);
    }
    ws.unchanged(|| ws.lbx(&["redo"]).error("not_found"));
}

#[test]
fn steps_takes_several_changes_back_as_one() {
    let ws = read_workspace();
    let before = ws.tree();
    for text in ["1\n", "2\n", "3\n"] {
        ws.lbx(&["append", "a.txt", "--content", text]).ok();
    }
    ws.lbx(&["write", "c.txt", "--content", "c"]).ok();
    let after = ws.tree();
    let preview = ws.unchanged(|| ws.lbx(&["undo", "--steps", "4", "--dry-run"]).ok());
    let data = ws.lbx(&["undo", "--steps", "4"]).ok();
    assert_eq!(preview, data);
    let seqs: Vec<u64> =
        data["undone"].as_array().unwrap().iter().map(|one| one["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [4, 3, 2, 1]);
    assert_eq!(ws.tree(), before);
    assert_eq!(ws.snapshots().len(), 5);
    // The undo was one change, and redo takes it back whole.
    ws.lbx(&["redo"]).ok();
    assert_eq!(ws.tree(), after);
    ws.json("undo", &json!({"steps": 0})).error("invalid_request");
    ws.json("undo", &json!({"steps": -1})).error("invalid_request");
}

#[test]
fn undo_by_path_takes_back_that_file_alone() {
    let ws = read_workspace();
    ws.lbx(&["append", "a.txt", "--content", "three\n"]).ok();
    ws.lbx(&["append", "sub/b.txt", "--content", "bb\n"]).ok();
    ws.lbx(&["write", "c.txt", "--content", "c"]).ok();
    let data = ws.lbx(&["undo", "a.txt"]).ok();
    assert_eq!(data["undone"][0]["path"], "a.txt");
    ws.holds("a.txt", "one\ntwo\n");
    ws.holds("sub/b.txt", "b\nbb\n");
    ws.lbx(&["undo", "--json", r#"{"path":"sub"}"#]).ok();
    ws.holds("sub/b.txt", "b\n");
    ws.holds("c.txt", "c");
    ws.lbx(&["undo", "untouched.txt"]).error("not_found");
}

#[test]
fn only_the_sessions_own_changes_are_taken_back() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n")]);
    ws.lbx(&["append", "a.txt", "--content", "alice\n", "--session", "alice"]).ok();
    ws.lbx(&["append", "b.txt", "--content", "bob\n", "--session", "bob"]).ok();
    let error = ws.unchanged(|| ws.lbx(&["undo"]).error("not_found"));
    assert!(error["message"].as_str().unwrap().contains("default"), "{error:#}");
    ws.lbx(&["undo", "--session", "alice"]).ok();
    ws.holds("a.txt", "a\n");
    ws.holds("b.txt", "b\nbob\n");
    ws.unchanged(|| ws.lbx(&["undo", "--session", "alice"]).error("not_found"));
    ws.unchanged(|| ws.lbx(&["redo", "--session", "bob"]).error("not_found"));
    ws.lbx(&["redo", "--session", "alice"]).ok();
    // What another session changed since is not lost.
    ws.lbx(&["append", "b.txt", "--content", "alice\n", "--session", "alice"]).ok();
    ws.unchanged(|| ws.lbx(&["undo", "--session", "bob"]).error("stale_file"));
}

#[test]
fn a_file_that_has_changed_since_is_left_alone() {
    let ws = read_workspace();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "1"]).ok();
    ws.write("a.txt", "1\ntwo\nmine\n");
    let error = ws.unchanged(|| ws.lbx(&["undo"]).error("stale_file"));
    assert_eq!(error["path"], "a.txt");
    assert!(error["suggested_action"].as_str().unwrap().contains("merge"), "{error:#}");
    fs::remove_file(ws.path("a.txt")).unwrap();
    ws.unchanged(|| ws.lbx(&["undo"]).error("stale_file"));
    ws.unchanged(|| ws.lbx(&["undo", "--merge"]).error("stale_file"));
    // Of several files of one change, none is touched.
    let ws = read_workspace();
    ws.json("patch", &json!({"patch": PATCH})).ok();
    ws.write("deep/new.txt", "mine\n");
    ws.unchanged(|| ws.lbx(&["undo"]).error("stale_file"));
}

#[test]
fn a_merge_keeps_both_where_they_do_not_touch() {
    let lines: String = (1..=20).map(|number| format!("line {number}\n")).collect();
    let ws = Workspace::with(&[("a.txt", &lines)]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "line 2\n", "--new-string", "TWO\n"]).ok();
    let mine = lines.replace("line 18\n", "MINE\n");
    ws.write("a.txt", mine.replace("line 2\n", "TWO\n"));
    ws.unchanged(|| ws.lbx(&["undo"]).error("stale_file"));
    ws.lbx(&["undo", "--merge"]).ok();
    ws.holds("a.txt", &mine);
    let ws = Workspace::with(&[("a.txt", &lines)]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "line 2\n", "--new-string", "TWO\n"]).ok();
    ws.write("a.txt", lines.replace("line 2\n", "TWO and mine\n"));
    ws.unchanged(|| ws.lbx(&["undo", "--merge"]).error("stale_file"));
}

#[test]
fn nothing_to_take_back_is_not_found() {
    let ws = read_workspace();
    ws.unchanged(|| {
        ws.lbx(&["undo"]).error("not_found");
        ws.lbx(&["redo"]).error("not_found");
    });
    // Without any state, none is made.
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["undo", "--dry-run"]).error("not_found");
    assert!(!ws.path(".lbx").exists());
}

#[test]
fn a_new_change_ends_what_could_be_redone() {
    let ws = read_workspace();
    ws.lbx(&["append", "a.txt", "--content", "three\n"]).ok();
    ws.lbx(&["undo"]).ok();
    ws.lbx(&["append", "a.txt", "--content", "drei\n"]).ok();
    ws.unchanged(|| ws.lbx(&["redo"]).error("not_found"));
    ws.holds("a.txt", "one\ntwo\ndrei\n");
}

#[test]
fn folders_made_are_removed_again_and_others_stay() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    fs::create_dir(ws.path("empty")).unwrap();
    ws.lbx(&["write", "x/y/z.txt", "--content", "z"]).ok();
    ws.lbx(&["write", "empty/z.txt", "--content", "z"]).ok();
    ws.lbx(&["undo"]).ok();
    assert!(ws.path("empty").is_dir());
    ws.lbx(&["undo"]).ok();
    assert!(!ws.path("x").exists());
    // A folder that holds something of someone else's stays.
    ws.lbx(&["write", "x/y/z.txt", "--content", "z"]).ok();
    ws.write("x/mine.txt", "mine\n");
    ws.lbx(&["undo"]).ok();
    assert!(!ws.path("x/y").exists());
    ws.holds("x/mine.txt", "mine\n");
}

#[test]
fn what_was_taken_back_may_be_edited_on() {
    let ws = read_workspace();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "1"]).ok();
    ws.lbx(&["undo"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "uno"]).ok();
    ws.holds("a.txt", "uno\ntwo\n");
}

#[test]
fn a_file_that_git_ignores_is_undone_all_the_same() {
    let ws = Workspace::with(&[(".gitignore", "*.env\n"), ("x.env", "KEY=1\n")]);
    ws.lbx(&["read", "x.env"]).ok();
    ws.lbx(&["write", "x.env", "--content", "KEY=2\n"]).success();
    ws.lbx(&["undo"]).success();
    ws.holds("x.env", "KEY=1\n");
}

#[test]
fn bytes_of_every_kind_come_back() {
    let ws = Workspace::with(&[]);
    let all: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for bytes in [&b""[..], b"no newline", b"\xff\xfea\0\r\0\n\0", b"\xef\xbb\xbfbom\r\nmixed\n", &all] {
        ws.write("a.bin", bytes);
        ws.lbx(&["append", "a.bin", "--content", "more"]).success();
        ws.lbx(&["undo"]).success();
        ws.holds("a.bin", bytes);
    }
}

#[test]
fn several_changes_are_taken_back_though_one_of_them_moved_files() {
    let ws = read_workspace();
    let first = ws.tree();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "1"]).ok();
    ws.lbx(&["delete", "sub", "--recursive"]).ok();
    ws.lbx(&["move", "a.txt", "new/a.txt"]).ok();
    ws.lbx(&["append", "new/a.txt", "--content", "three\n"]).ok();
    let last = ws.tree();
    let undone = ws.lbx(&["undo", "--steps", "4"]).ok();
    let tools: Vec<&str> =
        undone["undone"].as_array().unwrap().iter().map(|it| it["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["append", "move", "delete", "edit"]);
    assert_eq!(ws.tree(), first);
    ws.lbx(&["redo", "--steps", "4"]).ok();
    assert_eq!(ws.tree(), last);
}

#[test]
fn a_refusal_half_way_says_what_was_done() {
    let ws = read_workspace();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "1"]).ok();
    ws.lbx(&["move", "sub/b.txt", "c.txt"]).ok();
    ws.write("a.txt", "someone else's\n");
    let error = ws.lbx(&["undo", "--steps", "2"]).error("stale_file");
    assert_eq!(error["applied"], true);
    assert_eq!(error["details"]["undone"], json!([2]));
    ws.holds("sub/b.txt", "b\n");
    ws.holds("a.txt", "someone else's\n");
}
