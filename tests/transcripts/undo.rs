//! A session can undo and redo its changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::common::{Standing, Workspace};

/// A patch that changes, creates and deletes a file.
const PATCH: &str = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1\n*** Add File: deep/new.txt\n+new\n*** Delete File: sub/b.txt\n*** End Patch\n";

/// Creates a workspace and reads `a.txt`.
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
fn restore_is_undone_and_redone() {
    let ws = read_workspace();
    ws.lbx(&["delete", "-r", "sub"]).ok();
    let without = ws.tree();
    ws.lbx(&["restore", "sub"]).ok();
    let with = ws.tree();
    ws.lbx(&["undo"]).ok();
    assert_eq!(ws.tree(), without);
    ws.lbx(&["redo"]).ok();
    assert_eq!(ws.tree(), with);
    // After the undo, it is in the trash as before.
    ws.lbx(&["undo"]).ok();
    ws.lbx(&["restore", "sub"]).ok();
    assert_eq!(ws.tree(), with);
}

#[test]
fn undo_and_redo_walk_a_session_step_by_step() {
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
fn undo_steps_reverts_several_changes_as_one() {
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
    // Redo uses the same steps, the oldest change first.
    let data = ws.lbx(&["redo"]).ok();
    assert_eq!(data["redone"], json!([{"seq": 1, "tool": "append", "path": "a.txt"}]));
    ws.holds("a.txt", "one\ntwo\n1\n");
    ws.lbx(&["redo", "--steps", "3"]).ok();
    assert_eq!(ws.tree(), after);
    ws.json("undo", &json!({"steps": -1})).error("invalid_request");
}

#[test]
fn undo_by_path_reverts_only_that_file() {
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
fn undo_reverts_only_changes_of_its_session() {
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
    // A later change of another session is not lost.
    ws.lbx(&["append", "b.txt", "--content", "alice\n", "--session", "alice"]).ok();
    ws.unchanged(|| ws.lbx(&["undo", "--session", "bob"]).error("stale_file"));
}

#[test]
fn undo_of_a_file_changed_since_is_stale() {
    let ws = read_workspace();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "1"]).ok();
    ws.write("a.txt", "1\ntwo\nmine\n");
    let error = ws.unchanged(|| ws.lbx(&["undo"]).error("stale_file"));
    assert_eq!(error["path"], "a.txt");
    assert!(error["suggested_action"].as_str().unwrap().contains("merge"), "{error:#}");
    fs::remove_file(ws.path("a.txt")).unwrap();
    ws.unchanged(|| ws.lbx(&["undo"]).error("stale_file"));
    ws.unchanged(|| ws.lbx(&["undo", "--merge"]).error("stale_file"));
    // Of several files of one change, none is changed.
    let ws = read_workspace();
    ws.json("patch", &json!({"patch": PATCH})).ok();
    ws.write("deep/new.txt", "mine\n");
    ws.unchanged(|| ws.lbx(&["undo"]).error("stale_file"));
}

#[test]
fn undo_merge_keeps_changes_to_other_lines() {
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
fn undo_without_changes_is_not_found() {
    let ws = read_workspace();
    ws.unchanged(|| {
        ws.lbx(&["undo"]).error("not_found");
        ws.lbx(&["redo"]).error("not_found");
    });
    // Without any state, none is created.
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["undo", "--dry-run"]).error("not_found");
    assert!(!ws.path(".lbx").exists());
}

#[test]
fn new_change_clears_the_redo_history() {
    let ws = read_workspace();
    ws.lbx(&["append", "a.txt", "--content", "three\n"]).ok();
    ws.lbx(&["undo"]).ok();
    ws.lbx(&["append", "a.txt", "--content", "drei\n"]).ok();
    ws.unchanged(|| ws.lbx(&["redo"]).error("not_found"));
    ws.holds("a.txt", "one\ntwo\ndrei\n");
}

#[test]
fn undo_removes_only_folders_that_the_change_created() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    fs::create_dir(ws.path("empty")).unwrap();
    ws.lbx(&["write", "x/y/z.txt", "--content", "z"]).ok();
    ws.lbx(&["write", "empty/z.txt", "--content", "z"]).ok();
    ws.lbx(&["undo"]).ok();
    assert!(ws.path("empty").is_dir());
    ws.lbx(&["undo"]).ok();
    assert!(!ws.path("x").exists());
    // A folder that holds a file of another program stays.
    ws.lbx(&["write", "x/y/z.txt", "--content", "z"]).ok();
    ws.write("x/mine.txt", "mine\n");
    ws.lbx(&["undo"]).ok();
    assert!(!ws.path("x/y").exists());
    ws.holds("x/mine.txt", "mine\n");
}

#[test]
fn undone_file_can_be_edited_without_a_read() {
    let ws = read_workspace();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "1"]).ok();
    ws.lbx(&["undo"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "uno"]).ok();
    ws.holds("a.txt", "uno\ntwo\n");
}

#[test]
fn undo_restores_a_file_that_git_ignores() {
    let ws = Workspace::with(&[(".gitignore", "*.env\n"), ("x.env", "KEY=1\n")]);
    ws.lbx(&["read", "x.env"]).ok();
    ws.lbx(&["write", "x.env", "--content", "KEY=2\n"]).success();
    ws.lbx(&["undo"]).success();
    ws.holds("x.env", "KEY=1\n");
}

#[test]
fn undo_restores_arbitrary_bytes() {
    let ws = Workspace::with(&[]);
    let all: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for bytes in [&b""[..], b"no newline", b"\xff\xfea\0\r\0\n\0", b"\xef\xbb\xbfbom\r\nmixed\n", &all] {
        ws.write("a.bin", bytes);
        ws.lbx(&["append", "a.bin", "--content", "more"]).success();
        ws.lbx(&["undo"]).success();
        ws.holds("a.bin", bytes);
    }
}

/// Makes calls in order; returns all trees from the first to the last.
fn play(ws: &Workspace, calls: &[Value]) -> Vec<BTreeMap<PathBuf, Standing>> {
    let mut trees = vec![ws.tree()];
    for call in calls {
        let (tool, request) = call.as_object().unwrap().iter().next().unwrap();
        if let Some(path) = request["path"].as_str().filter(|path| ws.path(path).is_file()) {
            ws.lbx(&["read", path]).ok();
        }
        ws.json(tool, request).success();
        trees.push(ws.tree());
    }
    trees
}

#[test]
fn undo_steps_reverts_mixed_changes_as_one() {
    let cases: &[(&str, Value)] = &[
        (
            "edit, delete, move, append",
            json!([
                {"edit": {"path": "a.txt", "old_string": "one", "new_string": "1"}},
                {"delete": {"path": "sub", "recursive": true}},
                {"move": {"from": "a.txt", "to": "new/a.txt"}},
                {"append": {"path": "new/a.txt", "content": "three\n"}},
            ]),
        ),
        (
            "another file in the old place",
            json!([
                {"move": {"from": "a.txt", "to": "old.txt"}},
                {"write": {"path": "a.txt", "content": "another\n"}},
                {"append": {"path": "old.txt", "content": "three\n"}},
            ]),
        ),
        (
            "two names exchanged",
            json!([
                {"move": {"from": "a.txt", "to": "t"}},
                {"move": {"from": "sub/b.txt", "to": "a.txt"}},
                {"move": {"from": "t", "to": "sub/b.txt"}},
            ]),
        ),
        (
            "two folders exchanged, and changed",
            json!([
                {"write": {"path": "other/c.txt", "content": "c\n"}},
                {"move": {"from": "sub", "to": "t"}},
                {"move": {"from": "other", "to": "sub"}},
                {"append": {"path": "sub/c.txt", "content": "c\n"}},
                {"move": {"from": "t", "to": "other"}},
                {"append": {"path": "other/b.txt", "content": "b\n"}},
                {"write": {"path": "other/c.txt", "content": "not c\n"}},
            ]),
        ),
        (
            "a file becomes a folder",
            json!([
                {"delete": {"path": "a.txt"}},
                {"write": {"path": "a.txt/deep/c.txt", "content": "c\n"}},
                {"write": {"path": "a.txt/d.txt", "content": "d\n"}},
            ]),
        ),
        (
            "a folder becomes a file",
            json!([
                {"delete": {"path": "sub", "recursive": true}},
                {"write": {"path": "sub", "content": "no folder\n"}},
                {"append": {"path": "sub", "content": "at all\n"}},
            ]),
        ),
        (
            "a file becomes a folder that moves, and a file again",
            json!([
                {"move": {"from": "a.txt", "to": "t"}},
                {"move": {"from": "sub", "to": "a.txt"}},
                {"append": {"path": "a.txt/b.txt", "content": "b\n"}},
                {"move": {"from": "a.txt", "to": "x/y"}},
                {"move": {"from": "t", "to": "a.txt"}},
                {"prepend": {"path": "a.txt", "content": "zero\n"}},
            ]),
        ),
        (
            "made, moved and deleted",
            json!([
                {"write": {"path": "x/y/c.txt", "content": "c\n"}},
                {"move": {"from": "x", "to": "z"}},
                {"append": {"path": "z/y/c.txt", "content": "c\n"}},
                {"move": {"from": "z/y/c.txt", "to": "c.txt"}},
                {"delete": {"path": "z", "recursive": true}},
            ]),
        ),
        (
            "out of a folder, which then moves",
            json!([
                {"write": {"path": "sub/c.txt", "content": "c\n"}},
                {"move": {"from": "sub/b.txt", "to": "b.txt"}},
                {"move": {"from": "sub", "to": "bus"}},
                {"move": {"from": "b.txt", "to": "bus/in/b.txt"}},
                {"insert": {"path": "bus/in/b.txt", "line": 0, "content": "a\n"}},
            ]),
        ),
        (
            "deleted, written anew, deleted again",
            json!([
                {"delete": {"path": "a.txt"}},
                {"write": {"path": "a.txt", "content": "anew\n"}},
                {"delete": {"path": "a.txt"}},
                {"restore": {"path": "a.txt"}},
                {"restore": {"path": "a.txt", "to": "b/a.txt"}},
            ]),
        ),
    ];
    for (name, calls) in cases {
        let ws = read_workspace();
        ws.chmod("a.txt", 0o640);
        ws.chmod("sub", 0o750);
        let calls = calls.as_array().unwrap();
        let trees = play(&ws, calls);
        let (first, last) = (&trees[0], &trees[calls.len()]);
        let before = ws.snapshots().len();
        let steps = calls.len().to_string();
        let preview = ws.unchanged(|| ws.lbx(&["undo", "--steps", &steps, "--dry-run"]).ok());
        let undone = ws.lbx(&["undo", "--steps", &steps]).ok();
        assert_eq!(preview, undone, "{name}");
        assert!(ws.tree() == *first, "{name}: undone: {:?}", ws.tree());
        assert_eq!(ws.snapshots().len(), before + 1, "{name}: {:?}", ws.snapshots());
        assert_eq!(ws.git(&["rev-parse", "lbx-snapshots^{tree}"]), ws.tree_id(), "{name}");
        ws.lbx(&["redo", "--steps", &steps]).ok();
        assert!(ws.tree() == *last, "{name}: redone: {:?}", ws.tree());
        assert_eq!(ws.git(&["rev-parse", "lbx-snapshots^{tree}"]), ws.tree_id(), "{name}");
        // Undo all at once, then redo one by one, and undo by two.
        ws.lbx(&["undo", "--steps", &steps]).ok();
        for tree in &trees[1..] {
            ws.lbx(&["redo"]).ok();
            assert!(ws.tree() == *tree, "{name}: redone by one: {:?}", ws.tree());
        }
        ws.unchanged(|| ws.lbx(&["redo"]).error("not_found"));
        for at in (0..calls.len() - 1).rev().step_by(2) {
            ws.lbx(&["undo", "--steps", "2"]).ok();
            assert!(ws.tree() == trees[at], "{name}: undone by two: {:?}", ws.tree());
        }
    }
}

#[test]
fn undo_of_several_changes_is_all_or_nothing() {
    let ws = read_workspace();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "1"]).ok();
    ws.lbx(&["move", "sub/b.txt", "c.txt"]).ok();
    ws.write("a.txt", "someone else's\n");
    let error = ws.unchanged(|| ws.lbx(&["undo", "--steps", "2"]).error("stale_file"));
    assert_eq!((&error["path"], &error["applied"]), (&json!("a.txt"), &Value::Null));
    ws.lbx(&["undo"]).ok();
    ws.holds("sub/b.txt", "b\n");
    // The file in the way is named, and not changed.
    ws.lbx(&["redo"]).ok();
    ws.write("sub/b.txt", "mine\n");
    let error = ws.unchanged(|| ws.lbx(&["undo"]).error("stale_file"));
    assert_eq!(error["path"], "sub/b.txt");
}

#[test]
fn redo_follows_the_steps_of_undo() {
    let ws = read_workspace();
    let append = |text: &str| ws.lbx(&["append", "a.txt", "--content", text]).ok();
    for text in ["1\n", "2\n", "3\n", "4\n"] {
        append(text);
    }
    let holds = |lines: &str| ws.holds("a.txt", format!("one\ntwo\n{lines}"));
    ws.lbx(&["undo", "--steps", "3"]).ok();
    holds("1\n");
    ws.lbx(&["redo", "--steps", "2"]).ok();
    holds("1\n2\n3\n");
    ws.lbx(&["undo"]).ok();
    ws.lbx(&["undo"]).ok();
    holds("1\n");
    ws.lbx(&["redo"]).ok();
    holds("1\n2\n");
    // More steps than exist: all of them.
    let redone = ws.lbx(&["redo", "--steps", "9"]).ok();
    assert_eq!(redone["redone"].as_array().unwrap().len(), 2);
    holds("1\n2\n3\n4\n");
    // A new change ends the redo chain; undo continues below it.
    ws.lbx(&["undo", "--steps", "2"]).ok();
    append("five\n");
    ws.unchanged(|| ws.lbx(&["redo"]).error("not_found"));
    ws.lbx(&["undo", "--steps", "2"]).ok();
    holds("1\n");
    ws.lbx(&["redo", "--steps", "2"]).ok();
    holds("1\n2\nfive\n");
}

#[test]
fn steps_at_once_lead_where_single_steps_lead() {
    let moved = |from, to| ["move", from, to].as_slice().to_vec();
    for (case, calls) in [
        // The first change removes both folders, the second one makes them with the mode of a new folder.
        (
            "made again",
            vec![
                vec!["patch", "--patch", "diff --git a/e/in/f b/g\nrename from e/in/f\nrename to g\n"],
                vec!["write", "e/in/f", "--content", "f\n"],
            ],
        ),
        // Undo and redo move the folder into itself.
        ("into itself", vec![moved("e", "h/e"), moved("h/e", "e/in")]),
        // What was restored holds a file whose name belonged to a folder of an undone change.
        (
            "a file for a folder",
            vec![
                vec!["delete", "e", "--recursive"],
                vec!["restore", "e"],
                vec!["read", "e/in/f"],
                vec!["delete", "e/in/f"],
                vec!["write", "e/in/f/f", "--content", "f\n"],
            ],
        ),
        // The file goes back into a folder that another one with a file of that name gives way to.
        (
            "two folders",
            vec![
                vec!["write", "g/n/f", "--content", "1\n"],
                vec!["delete", "g/n/f"],
                moved("g/n", "h/n/f"),
                vec!["write", "g/n/f", "--content", "2\n"],
            ],
        ),
        // The empty folder gives way with the one that holds it, and does not go to the trash with the file.
        (
            "a file in the place of its folder",
            vec![
                vec!["delete", "e/in/f"],
                vec!["write", "e/g", "--content", "g\n"],
                vec!["patch", "--patch", "diff --git a/e/g b/e\nrename from e/g\nrename to e\n"],
                vec!["delete", "e"],
                vec!["mkdir", "e/h"],
            ],
        ),
        (
            "made folders, moved apart",
            vec![vec!["mkdir", "g/m/b"], moved("g", "h/a"), moved("h/a/m", "e/n/b")],
        ),
        // A folder that gives way has left the name that the next change takes.
        (
            "a folder gives way twice",
            vec![
                moved("e/in", "e/n"),
                moved("e/n", "g/m/a"),
                vec![
                    "patch",
                    "--patch",
                    "diff --git a/g/m/a/f b/e/in/a\nrename from g/m/a/f\nrename to e/in/a\n",
                ],
                vec!["mkdir", "e/n/a"],
            ],
        ),
        (
            "a folder gives way to one that moved",
            vec![
                moved("h", "g/m/a"),
                vec![
                    "patch",
                    "--patch",
                    "diff --git a/g/m/a/f b/e/n/a\nrename from g/m/a/f\nrename to e/n/a\n",
                ],
                moved("e", "h/n/b"),
                moved("h/n", "g/m/a"),
            ],
        ),
        // The redo removes the first folder and makes another one of its name, with a file of the same name.
        (
            "a folder of the same name",
            vec![
                moved("e/in", "g/b"),
                vec!["write", "e/in/f", "--content", "2\n"],
                moved("g/b", "n/m/a"),
                vec!["patch", "--patch", "diff --git a/n/m/a/f b/h/a\nrename from n/m/a/f\nrename to h/a\n"],
            ],
        ),
        // The redo makes the folder that goes to the trash, which must not hold what is empty by then.
        (
            "an empty folder in a new one",
            vec![
                moved("h", "g/b"),
                vec!["write", "h/c", "--content", "2\n"],
                vec!["patch", "--patch", "diff --git a/g/b/f b/n/m/a\nrename from g/b/f\nrename to n/m/a\n"],
                moved("h", "n/m/b"),
                vec!["patch", "--patch", "diff --git a/n/m/b/c b/k\nrename from n/m/b/c\nrename to k\n"],
                vec!["delete", "n", "--recursive"],
            ],
        ),
        (
            "a new folder in the place of one that gave way",
            vec![
                vec!["write", "e/g", "--content", "2\n"],
                moved("e", "n/b"),
                moved("n/b/in/f", "k"),
                moved("k", "e/n"),
                vec!["patch", "--patch", "diff --git a/n/b/g b/n/b\nrename from n/b/g\nrename to n/b\n"],
                vec!["write", "e/in/b", "--content", "2\n"],
                vec!["delete", "e", "--recursive"],
            ],
        ),
        // What goes to the trash holds a folder that a later change made, and others moved or deleted.
        (
            "made in what was restored",
            vec![
                moved("e/in", "g/in"),
                vec!["delete", "h", "--recursive"],
                vec!["restore", "h"],
                moved("g", "h/in/g"),
            ],
        ),
        (
            "moved in what was restored",
            vec![
                vec!["delete", "h", "--recursive"],
                moved("e", "g/e"),
                vec!["restore", "h"],
                moved("g", "h/in/g"),
                moved("h/in", "h/out"),
            ],
        ),
        (
            "made again in what was restored",
            vec![
                vec!["delete", "e/in/f"],
                vec!["delete", "e", "--recursive"],
                vec!["restore", "e"],
                moved("e/in", "g/in"),
                vec!["write", "e/in/g", "--content", "g\n"],
            ],
        ),
        (
            "deleted in what was restored",
            vec![
                vec!["delete", "h", "--recursive"],
                vec!["restore", "h"],
                vec!["write", "h/in/f", "--content", "f\n"],
                moved("h", "e/h"),
                vec!["delete", "e/h/in", "--recursive"],
            ],
        ),
    ] {
        let ws = Workspace::with(&[("e/in/f", "f\n"), ("h/f", "h\n")]);
        ws.chmod("e", 0o750);
        ws.chmod("e/in", 0o700);
        let mut trees = vec![ws.tree()];
        for call in &calls {
            ws.lbx(call).ok();
            trees.extend((call[0] != "read").then(|| ws.tree()));
        }
        let (last, before) = trees.split_last().unwrap();
        for tree in before.iter().rev() {
            ws.lbx(&["undo"]).ok();
            assert!(ws.tree() == *tree, "{case}");
        }
        ws.lbx(&["redo", "--steps", &before.len().to_string()]).ok();
        assert!(&ws.tree() == last, "{case}: redo");
        for (number, tree) in before.iter().enumerate() {
            let steps = (before.len() - number).to_string();
            for (tool, tree) in [("undo", tree), ("redo", last)] {
                ws.lbx(&[tool, "--steps", &steps]).ok();
                assert!(&ws.tree() == tree, "{case}: {tool} of {steps}");
            }
        }
    }
}

#[test]
fn undo_of_several_changes_names_the_folder_that_stays() {
    let ws = Workspace::with(&[]);
    ws.lbx(&["write", "k/g", "--content", "g\n"]).ok();
    ws.lbx(&["patch", "--patch", "diff --git a/k/g b/k\nrename from k/g\nrename to k\n"]).ok();
    ws.lbx(&["delete", "k"]).ok();
    ws.lbx(&["mkdir", "k/h"]).ok();
    ws.write("k/h/x", "of others\n");
    ws.lbx(&["undo", "--steps", "4"]).warned("the folder k/h stays: it is not empty");
    ws.holds("k/h/x", "of others\n");
}

#[test]
fn undo_and_redo_by_path_keep_other_files() {
    let ws = read_workspace();
    ws.lbx(&["append", "a.txt", "--content", "1\n"]).ok();
    ws.lbx(&["append", "sub/b.txt", "--content", "1\n"]).ok();
    ws.lbx(&["append", "a.txt", "--content", "2\n"]).ok();
    ws.lbx(&["write", "new/c.txt", "--content", "c\n"]).ok();
    ws.lbx(&["write", "new/d.txt", "--content", "d\n"]).ok();
    ws.lbx(&["undo", "a.txt", "--steps", "2"]).ok();
    ws.holds("a.txt", "one\ntwo\n");
    ws.holds("sub/b.txt", "b\n1\n");
    ws.lbx(&["undo", "new/c.txt"]).ok();
    ws.lbx(&["undo", "new"]).ok();
    assert!(!ws.path("new").exists(), "made for files that are gone");
    ws.lbx(&["redo", "a.txt"]).ok();
    ws.holds("a.txt", "one\ntwo\n1\n");
    ws.lbx(&["redo", "sub"]).error("not_found");
    ws.lbx(&["redo", "new", "--steps", "2"]).ok();
    ws.holds("new/c.txt", "c\n");
    ws.holds("new/d.txt", "d\n");
    ws.lbx(&["redo"]).ok();
    ws.holds("a.txt", "one\ntwo\n1\n2\n");
}

#[test]
fn redo_of_a_merged_undo_needs_no_merge_flag() {
    let lines: String = (1..=20).map(|number| format!("line {number}\n")).collect();
    let ws = Workspace::with(&[("a.txt", &lines)]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "line 2\n", "--new-string", "TWO\n"]).ok();
    let both = lines.replace("line 2\n", "TWO\n").replace("line 18\n", "MINE\n");
    ws.write("a.txt", &both);
    ws.lbx(&["undo", "--merge"]).ok();
    ws.lbx(&["redo"]).ok();
    ws.holds("a.txt", &both);
    ws.lbx(&["undo"]).ok();
    ws.holds("a.txt", lines.replace("line 18\n", "MINE\n"));
    // Later changes by others belong to them again.
    ws.write("a.txt", lines.replace("line 18\n", "MINE AGAIN\n"));
    ws.unchanged(|| ws.lbx(&["redo"]).error("stale_file"));
    ws.lbx(&["redo", "--merge"]).ok();
    ws.holds("a.txt", both.replace("MINE", "MINE AGAIN"));
}

#[test]
fn undo_of_an_already_reverted_change_counts_as_one_step() {
    let ws = read_workspace();
    ws.lbx(&["append", "a.txt", "--content", "three\n"]).ok();
    ws.lbx(&["write", "c.txt", "--content", "c\n"]).ok();
    fs::remove_file(ws.path("c.txt")).unwrap();
    ws.lbx(&["undo"]).ok();
    ws.lbx(&["undo"]).ok();
    ws.holds("a.txt", "one\ntwo\n");
    ws.lbx(&["undo"]).error("not_found");
}

/// The first file is in the trash and is restored elsewhere; the second takes its name.
#[test]
fn undo_steps_removes_two_created_folders_of_one_name() {
    for kept in ["new/kept.txt", "kept.txt"] {
        let ws = Workspace::with(&[(kept, "kept\n"), ("sub/b.txt", "b\n"), ("f/g/c.txt", "c\n")]);
        let before = ws.tree();
        ws.json("write", &json!({"path": "new/deep/one.txt", "content": "1\n"})).ok();
        ws.lbx(&["move", "f", "new/moved"]).ok();
        ws.json("write", &json!({"path": "f/d.txt", "content": "d\n"})).ok();
        ws.lbx(&["delete", "new", "--recursive"]).ok();
        ws.json("write", &json!({"path": "new/deep/two.txt", "content": "2\n"})).ok();
        let entries = ws.lbx(&["trash"]).ok()["entries"].clone();
        ws.lbx(&["restore", "--trash-id", entries[0]["trash_id"].as_str().unwrap(), "--to", "old"]).ok();
        ws.lbx(&["move", "new/deep", "new/deeper"]).ok();
        ws.json("write", &json!({"path": "new/deep/three.txt", "content": "3\n"})).ok();
        ws.lbx(&["move", "sub", "old/deep/sub"]).ok();
        let after = ws.tree();
        for steps in 1..=9 {
            ws.lbx(&["undo", "--steps", &steps.to_string()]).ok();
            if steps == 9 {
                assert_eq!(ws.tree(), before, "with {kept}");
            }
            ws.lbx(&["redo", "--steps", &steps.to_string()]).ok();
            assert_eq!(ws.tree(), after, "{steps} with {kept}");
        }
    }
}

/// The file ends at its old path, but the parent folder is another one by then.
#[test]
fn undo_keeps_a_file_while_its_old_folder_returns() {
    let to_the_trash: &[&[&str]] =
        &[&["delete", "f/g/a.txt"], &["move", "f", "new/moved"], &["restore", "f/g/a.txt"]];
    let by_names: &[&[&str]] =
        &[&["move", "f/g/a.txt", "a"], &["move", "f", "kept"], &["move", "a", "f/g/a.txt"]];
    let a_folder: &[&[&str]] = &[&["move", "f/g", "a"], &["move", "f", "kept"], &["move", "a", "f/g"]];
    for calls in [to_the_trash, by_names, a_folder] {
        let ws = Workspace::with(&[("f/g/a.txt", "a\n"), ("f/b.txt", "b\n"), ("c.txt", "c\n")]);
        let mut trees = vec![ws.tree()];
        for call in calls {
            ws.lbx(call).ok();
            trees.push(ws.tree());
        }
        for steps in 1..=3 {
            ws.lbx(&["undo", "--steps", &steps.to_string()]).ok();
            assert_eq!(ws.tree(), trees[3 - steps], "{steps} of {calls:?}");
            ws.lbx(&["redo", "--steps", &steps.to_string()]).ok();
            assert_eq!(ws.tree(), trees[3], "{steps} of {calls:?}");
        }
    }
}

#[test]
fn undo_restores_the_mode_of_a_folder_recreated_twice() {
    let ws = Workspace::with(&[("f/a.txt", "a\n")]);
    ws.chmod("f", 0o711);
    let before = ws.tree();
    ws.lbx(&["move", "f", "moved"]).ok();
    ws.lbx(&["write", "f/g", "--content", "g\n"]).ok();
    let patch = "diff --git a/f/g b/g\nsimilarity index 100%\nrename from f/g\nrename to g\n";
    ws.json("patch", &json!({"patch": patch})).ok();
    assert!(!ws.path("f").exists());
    ws.lbx(&["write", "f/h", "--content", "h\n"]).ok();
    let after = ws.tree();
    ws.lbx(&["undo", "--steps", "4"]).ok();
    assert_eq!(ws.tree(), before);
    ws.lbx(&["redo", "--steps", "4"]).ok();
    assert_eq!(ws.tree(), after);
}

#[test]
fn undo_restores_the_mode_of_a_folder_emptied_by_patch() {
    let ws = Workspace::with(&[("top/in/a.txt", "a\n"), ("b.txt", "b\n")]);
    ws.chmod("top", 0o711);
    ws.chmod("top/in", 0o2750);
    let before = ws.tree();
    let patch = "diff --git a/top/in/a.txt b/moved/a.txt\nsimilarity index 100%\nrename from top/in/a.txt\nrename to moved/a.txt\n";
    ws.lbx(&["read", "top/in/a.txt"]).ok();
    ws.json("patch", &json!({"patch": patch})).ok();
    assert!(!ws.path("top").exists());
    let after = ws.tree();
    for _ in 0..2 {
        ws.lbx(&["undo"]).ok();
        assert_eq!(ws.tree(), before);
        ws.lbx(&["redo"]).ok();
        assert_eq!(ws.tree(), after);
    }
    ws.lbx(&["move", "b.txt", "moved/b.txt"]).ok();
    ws.lbx(&["move", "moved", "elsewhere"]).ok();
    ws.lbx(&["undo", "--steps", "3"]).ok();
    assert_eq!(ws.tree(), before);
}

/// Returns forty numbered lines.
fn forty() -> String {
    (1..=40).map(|number| format!("line {number}\n")).collect()
}

/// Creates a workspace in which a file had three changes and a rename.
fn changed_workspace() -> Workspace {
    let ws = Workspace::with(&[("a.txt", &forty()), ("b.txt", "b\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -2 +2 @@\n-line 2\n+two\n@@ -20 +20 @@\n-line 20\n+twenty\n@@ -40 +40 @@\n-line 40\n+forty\n";
    ws.lbx_stdin(&["patch"], patch).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "line 10\n", "--new-string", "ten\n"]).ok();
    ws.lbx(&["move", "a.txt", "sub/c.txt"]).ok();
    ws.lbx(&["edit", "sub/c.txt", "--old-string", "twenty", "--new-string", "TWENTY"]).ok();
    ws
}

#[test]
fn undo_by_seq_keeps_later_changes() {
    let ws = changed_workspace();
    let text = |ws: &Workspace| String::from_utf8(ws.read_bytes("sub/c.txt")).unwrap();
    let before = text(&ws);
    let shown = ws.unchanged(|| ws.lbx(&["undo", "--seq", "2", "--dry-run"]).ok());
    let data = ws.lbx(&["undo", "--seq", "2"]).ok();
    assert_eq!(data["undone"], shown["undone"]);
    assert_eq!(data["undone"], json!([{"seq": 2, "tool": "edit", "path": "sub/c.txt"}]));
    assert_eq!(text(&ws), before.replace("ten\n", "line 10\n"));
    assert_eq!(ws.snapshots()[0], "undo: sub/c.txt");
    // It is a change like any other: undo reverts it, and redo applies it again.
    ws.lbx(&["undo"]).ok();
    assert_eq!(text(&ws), before);
    ws.lbx(&["redo"]).ok();
    assert_eq!(text(&ws), before.replace("ten\n", "line 10\n"));
    let error = ws.unchanged(|| ws.lbx(&["undo", "--seq", "2"]).error("not_found"));
    assert!(error["message"].as_str().unwrap().starts_with("nothing of change 2 is left"), "{error}");
    // Its own number works as well.
    ws.lbx(&["undo", "--seq", "5"]).ok();
    assert_eq!(text(&ws), before);
    // Another program's changes elsewhere in the file stay.
    ws.write("sub/c.txt", before.replace("line 30", "developer"));
    ws.lbx(&["undo", "--seq", "2"]).ok();
    assert_eq!(text(&ws), before.replace("ten\n", "line 10\n").replace("line 30", "developer"));
}

#[test]
fn undo_in_a_folder_that_a_later_command_moved_begins_with_that() {
    let first =
        "Undo this session's later changes of d first: `log` lists them. Changes of others stay as they are.";
    let ws = Workspace::with(&[("d/a.txt", "one\n")]);
    ws.lbx(&["append", "d/a.txt", "--content", "two\n"]).ok();
    ws.lbx(&["bash", "mv d e"]).ok();
    let error = ws.lbx(&["undo", "--seq", "1"]).error("stale_file");
    assert_eq!(error["suggested_action"], first);
    ws.lbx(&["undo", "--seq", "2"]).ok();
    // Nor does an undo take back what came after it.
    ws.lbx(&["append", "d/a.txt", "--content", "three\n"]).ok();
    let error = ws.lbx(&["undo", "--seq", "3"]).error("stale_file");
    let message = error["message"].as_str().unwrap();
    assert!(message.ends_with("brought it back: this would delete later changes"), "{message}");
    assert_eq!(error["suggested_action"], first);
    ws.lbx(&["undo", "--seq", "4"]).ok();
    ws.lbx(&["undo", "--seq", "1"]).ok();
    ws.holds("d/a.txt", "one\n");
    assert!(!ws.path("e").exists());
}

#[test]
fn undo_by_seq_shows_conflicts_with_later_changes() {
    let ws = changed_workspace();
    let error = ws.unchanged(|| ws.lbx(&["undo", "--seq", "1"]).error("stale_file"));
    assert_eq!(error["path"], "sub/c.txt");
    assert_eq!(
        error["details"]["conflicts"],
        "line 20:\n<<<<<<< now\nTWENTY\n||||||| after change 1\ntwenty\n=======\nline 20\n>>>>>>> without change 1\n"
    );
    // Hunks that are unchanged since are undone one by one.
    ws.lbx(&["undo", "--seq", "1", "--hunk", "1"]).ok();
    let data = ws.lbx(&["undo", "--seq", "1", "--path", "sub/c.txt", "--hunk", "3"]).ok();
    assert_eq!(data["undone"][0]["hunk"], 3);
    let wanted = forty().replace("line 10\n", "ten\n").replace("line 20\n", "TWENTY\n");
    ws.holds("sub/c.txt", wanted);
    ws.unchanged(|| ws.lbx(&["undo", "--seq", "1", "--hunk", "2"]).error("stale_file"));
    let error = ws.lbx(&["undo", "--seq", "1", "--hunk", "4"]).error("invalid_request");
    assert!(error["message"].as_str().unwrap().contains("has 3 hunks"), "{error}");
    ws.lbx(&["undo", "--seq", "9"]).error("not_found");
    ws.lbx(&["undo", "--hunk", "1"]).error("invalid_request");
    ws.json("undo", &json!({"hunk": 1})).error("invalid_request");
    ws.json("undo", &json!({"seq": 1, "steps": 2})).error("invalid_request");
}

#[test]
fn undo_by_seq_and_path_reverts_one_file() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n"), ("sub/c.txt", "c\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["read", "b.txt"]).ok();
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+A\n*** Update File: b.txt\n@@\n-b\n+B\n*** Add File: d.txt\n+d\n*** End Patch\n";
    ws.lbx_stdin(&["patch"], patch).ok();
    ws.lbx(&["delete", "sub", "--recursive"]).ok();
    ws.lbx(&["append", "a.txt", "--content", "more\n"]).ok();
    let error = ws.lbx(&["undo", "--seq", "1", "--path", "sub"]).error("not_found");
    assert_eq!(error["details"]["paths"], json!(["a.txt", "b.txt", "d.txt"]));
    ws.lbx(&["undo", "--seq", "1", "--path", "b.txt"]).ok();
    ws.holds("b.txt", "b\n");
    ws.holds("d.txt", "d\n");
    ws.lbx(&["undo", "--seq", "2"]).ok();
    ws.holds("sub/c.txt", "c\n");
    ws.lbx(&["undo", "--seq", "1", "--path", "d.txt"]).ok();
    assert!(!ws.path("d.txt").exists());
    ws.holds("a.txt", "A\nmore\n");
}

#[test]
fn rewind_without_yes_only_lists_what_it_would_undo() {
    let ws = changed_workspace();
    let before = ws.tree();
    let id = |subject: &str| {
        ws.git(&["log", "--format=%H", "--fixed-strings", "--grep", subject, "lbx-snapshots"])
    };
    let first = id("patch: a.txt");
    let shown = ws.unchanged(|| ws.lbx(&["rewind", &first]).success());
    assert_eq!(shown["data"]["undone"].as_array().unwrap().len(), 3, "{shown}");
    assert_eq!(shown["dry_run"], true, "{shown}");
    let data = ws.lbx(&["rewind", &first[..10], "--yes"]).ok();
    assert_eq!((&data["session"], &data["id"]), (&json!("default"), &json!(first)));
    let wanted =
        forty().replace("line 20\n", "twenty\n").replace("line 2\n", "two\n").replace("line 40\n", "forty\n");
    ws.holds("a.txt", wanted);
    assert!(!ws.path("sub/c.txt").exists());
    // All of it is one change, and rewinding forwards works as well.
    ws.lbx(&["undo"]).ok();
    assert_eq!(ws.tree(), before);
    ws.lbx(&["undo", "--steps", "2"]).ok();
    ws.lbx(&["rewind", &id("edit: sub/c.txt"), "--yes"]).ok();
    assert_eq!(ws.tree(), before);
    ws.lbx(&["rewind", &id("edit: sub/c.txt"), "--session", "other"]).error("not_found");
    ws.lbx(&["rewind", "HEAD"]).error("invalid_request");
    ws.lbx(&["rewind", "feedfeed"]).error("not_found");
    // A file that others changed since is not touched.
    ws.write("sub/c.txt", "developer\n");
    ws.unchanged(|| ws.lbx(&["rewind", &first, "--yes"]).error("stale_file"));
}

#[test]
fn dry_run_fails_where_a_file_is_in_the_way_of_a_folder() {
    let ws = Workspace::with(&[("d/f.txt", "f\n")]);
    ws.lbx(&["read", "d/f.txt"]).ok();
    ws.lbx(&["delete", "d/f.txt"]).ok();
    std::fs::remove_dir(ws.path("d")).unwrap();
    ws.write("d", "a file of the developer\n");
    for dry in [&["--dry-run"][..], &[]] {
        let error = ws.unchanged(|| ws.lbx(&[&["undo"], dry].concat()).error("not_a_directory"));
        assert!(error["message"].as_str().unwrap().contains("cannot open the folder d"), "{error}");
    }
    std::fs::remove_file(ws.path("d")).unwrap();
    ws.unchanged(|| ws.lbx(&["undo", "--dry-run"]).ok());
    ws.lbx(&["undo"]).ok();
    ws.holds("d/f.txt", "f\n");
}

#[test]
fn rewind_that_has_nothing_to_change_is_no_change() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.lbx(&["append", "a.txt", "--content", "one\n"]).ok();
    let first = ws.git(&["rev-parse", "lbx-snapshots"]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.lbx(&["undo", "--seq", "2"]).ok();
    let data = ws.unchanged(|| ws.lbx(&["rewind", &first, "--yes"]).ok());
    assert_eq!(data["undone"].as_array().unwrap().len(), 2, "{data}");
    // The next undo takes the newest change that did something.
    assert_eq!(ws.lbx(&["undo"]).ok()["undone"][0]["seq"], 3);
    ws.holds("a.txt", "a\none\ntwo\n");
}

#[test]
fn rewind_lists_every_conflicting_file() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n"), ("c.txt", "c\n"), ("d.txt", "d\n")]);
    for name in ["a.txt", "b.txt", "c.txt", "d.txt"] {
        ws.lbx(&["append", name, "--content", "one\n"]).ok();
    }
    ws.lbx(&["append", "b.txt", "--content", "other\n", "--session", "other"]).ok();
    ws.lbx(&["append", "b.txt", "--content", "two\n"]).ok();
    ws.write("a.txt", "developer\n");
    std::fs::remove_file(ws.path("d.txt")).unwrap();
    let preview = |more: &[&str]| {
        let shown =
            ws.unchanged(|| ws.lbx(&[&["rewind", "HEAD", "--session", "default"], more].concat()).success());
        assert_eq!(shown["dry_run"], true, "{shown}");
        shown["data"].clone()
    };
    let data = preview(&[]);
    assert_eq!(data["undone"].as_array().unwrap().len(), 5, "{data}");
    let paths = |data: &Value| -> Vec<String> {
        let conflicts = data["conflicts"].as_array().unwrap();
        conflicts.iter().map(|conflict| conflict["path"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(paths(&data), ["b.txt", "a.txt", "d.txt"]);
    for conflict in data["conflicts"].as_array().unwrap() {
        assert!(
            conflict["message"].as_str().unwrap().starts_with(conflict["path"].as_str().unwrap()),
            "{data}"
        );
        assert!(!conflict["suggested_action"].as_str().unwrap().is_empty(), "{data}");
    }
    // The rest if others' changes are kept, with the lines that both changed.
    let data = preview(&["--merge"]);
    assert_eq!(paths(&data), ["b.txt", "a.txt", "d.txt"]);
    let shown = data["conflicts"][1]["conflicts"].as_str().unwrap();
    assert!(shown.contains("developer\n"), "{shown}");
    let text = ws.lbx(&["rewind", "HEAD", "--session", "default", "--text"]);
    let (out, notes) = (text.stdout_text(), text.stderr());
    assert!(out.starts_with("would undo: append: b.txt (change 5)\n"), "{out}");
    assert!(
        out.contains("\nconflict: d.txt has changed since this session changed it: it is gone\n"),
        "{out}"
    );
    assert!(notes.contains("nothing was changed: 3 files would conflict"), "{notes}");
    // The error names all of them as well, and so does the undo of several changes.
    let all = json!(["a.txt", "b.txt", "d.txt"]);
    let refused =
        ws.unchanged(|| ws.lbx(&["rewind", "HEAD", "--session", "default", "--yes"]).error("stale_file"));
    assert_eq!(refused["details"]["paths"], all, "{refused}");
    let refused = ws.unchanged(|| ws.lbx(&["undo", "--steps", "5"]).error("stale_file"));
    assert_eq!(refused["details"]["paths"], all, "{refused}");
    assert!(refused["message"].as_str().unwrap().ends_with(" (also conflicting: a.txt, d.txt)"), "{refused}");
}

#[test]
fn rewind_merge_keeps_changes_of_others() {
    let ws = Workspace::with(&[("a.txt", &forty()), ("b.txt", "b\n")]);
    let edit = |session: &str, old: &str, new: &str| {
        ws.lbx(&["read", "a.txt", "--session", session]).ok();
        ws.lbx(&["edit", "a.txt", "--session", session, "--old-string", old, "--new-string", new]).ok();
    };
    edit("one", "line 2\n", "two\n");
    edit("other", "line 20\n", "twenty\n");
    edit("one", "two\n", "zwei\n");
    let by_hand = String::from_utf8(ws.read_bytes("a.txt")).unwrap().replace("line 30\n", "thirty\n");
    ws.write("a.txt", &by_hand);
    edit("one", "line 5\n", "five\n");
    ws.lbx(&["write", "new.txt", "--content", "n\n", "--session", "one"]).ok();
    edit("other", "line 40\n", "forty\n");
    let before = ws.tree();
    let base = ws.git(&["rev-parse", "HEAD"]);
    let rewind = |more: &[&str]| ws.lbx(&[&["rewind", base.as_str(), "--session", "one"], more].concat());
    // Refused as a whole, with the option that keeps the changes of others.
    let error = ws.unchanged(|| rewind(&["--yes"]).error("stale_file"));
    assert!(error["suggested_action"].as_str().unwrap().contains("merge"), "{error}");
    let shown = ws.unchanged(|| rewind(&["--merge"]).success());
    assert_eq!(shown["data"]["undone"].as_array().unwrap().len(), 4, "{shown}");
    rewind(&["--merge", "--yes"]).ok();
    let wanted = [("line 20\n", "twenty\n"), ("line 30\n", "thirty\n"), ("line 40\n", "forty\n")];
    ws.holds("a.txt", wanted.iter().fold(forty(), |text, (old, new)| text.replace(old, new)));
    assert!(!ws.path("new.txt").exists());
    ws.lbx(&["undo", "--session", "one"]).ok();
    assert_eq!(ws.tree(), before);
    // If they touch the same lines, nothing is undone.
    edit("other", "zwei\n", "deux\n");
    edit("one", "deux\n", "dos\n");
    ws.unchanged(|| rewind(&["--merge", "--yes"]).error("stale_file"));
    ws.lbx(&["rewind", "HEAD~0", "--session", "nobody"]).error("not_found");
}

#[test]
fn undo_not_found_never_suggests_undoing_another_session() {
    let ws = Workspace::with(&[("a.txt", "a\nb\n")]);
    ws.lbx(&["undo"]).error("not_found");
    ws.lbx(&["append", "a.txt", "--content", "c\n", "--session", "agent"]).ok();
    for call in [&["undo"][..], &["redo"], &["undo", "none.txt"], &["undo", "--seq", "1"]] {
        let error = ws.lbx(call).error("not_found");
        assert_eq!(error["suggested_action"], "`log` shows the changes of all sessions.", "{call:?}");
    }
    // `log` has the number that undo takes.
    assert_eq!(ws.lbx(&["log"]).ok()["snapshots"][0]["seq"], 1);
    let error = ws.lbx(&["undo", "--seq", "1", "--hunk", "2", "--session", "agent"]).error("invalid_request");
    assert!(error["message"].as_str().unwrap().contains("has 1 hunk in a.txt"), "{error}");
    assert_eq!(
        error["suggested_action"],
        "Name one of these, or leave `hunk` out to take all of the change back."
    );
    ws.lbx(&["undo", "--seq", "1", "--session", "agent"]).ok();
    ws.holds("a.txt", "a\nb\n");
}

#[test]
fn redo_makes_no_file_again_that_its_undo_found_removed() {
    let ws = Workspace::with(&[]);
    ws.lbx(&["write", "f", "--content", "one\n", "--session", "s1"]).ok();
    ws.lbx(&["delete", "f", "--session", "s2"]).ok();
    ws.lbx(&["undo", "--session", "s1"]).ok();
    ws.lbx(&["redo", "--session", "s1"]).warned("#1 makes nothing again: its undo found the files removed");
    assert!(!ws.path("f").exists());
    // Of several files, those that the undo removed come back.
    let patch = "--- /dev/null\n+++ b/d/a\n@@ -0,0 +1 @@\n+a\n--- /dev/null\n+++ b/e/b\n@@ -0,0 +1 @@\n+b\n";
    ws.lbx(&["patch", "--patch", patch, "--session", "s3"]).ok();
    ws.lbx(&["delete", "e", "--recursive", "--session", "s2"]).ok();
    ws.lbx(&["undo", "--session", "s3"]).ok();
    assert!(!ws.path("d").exists() && !ws.path("e").exists());
    ws.lbx(&["redo", "--session", "s3"]).ok();
    ws.holds("d/a", "a\n");
    assert!(!ws.path("e").exists());
    ws.lbx(&["undo", "--session", "s3"]).ok();
    assert!(!ws.path("d").exists());
    // Made and removed by the same session, it is made again.
    ws.lbx(&["write", "g", "--content", "g\n", "--session", "s4"]).ok();
    ws.lbx(&["patch", "--patch", "--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n", "--session", "s4"]).ok();
    ws.lbx(&["undo", "--steps", "2", "--session", "s4"]).ok();
    ws.lbx(&["redo", "--session", "s4"]).ok();
    ws.holds("g", "g\n");
    // A later move of the folder does not hide what is missing.
    for gone in [&["h/in", "h/more"][..], &["h/in"]] {
        let ws = Workspace::with(&[]);
        for path in gone {
            ws.lbx(&["write", path, "--content", "in\n", "--session", "s5"]).ok();
        }
        ws.lbx(&["delete", "h", "--recursive", "--session", "s2"]).ok();
        ws.lbx(&["write", "h/theirs", "--content", "theirs\n", "--session", "s2"]).ok();
        ws.lbx(&["write", "h/own", "--content", "own\n", "--session", "s5"]).ok();
        ws.lbx(&["move", "h", "i", "--session", "s5"]).ok();
        let (moved, steps) = (ws.tree(), (gone.len() + 2).to_string());
        ws.lbx(&["undo", "--steps", &steps, "--session", "s5"]).ok();
        ws.holds("h/theirs", "theirs\n");
        assert!(!ws.path("h/own").exists());
        let redo = ["redo", "--steps", &steps, "--session", "s5"];
        ws.lbx(&redo).warned("#1 makes nothing again: its undo found the files removed");
        assert_eq!(ws.tree(), moved);
    }
}

#[test]
fn folder_that_two_sessions_empty_goes_with_its_last_file() {
    let deletion = |file: &str| format!("--- a/d/{file}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{file}\n");
    for orders in
        [["s1", "s2"], ["s2", "s1"]].iter().flat_map(|undo| [(undo, ["s1", "s2"]), (undo, ["s2", "s1"])])
    {
        let (undos, redos) = orders;
        let ws = Workspace::with(&[("d/a", "a\n"), ("d/b", "b\n")]);
        let before = ws.tree();
        for (session, file) in [("s1", "a"), ("s2", "b")] {
            ws.lbx(&["read", &format!("d/{file}"), "--session", session]).ok();
            ws.lbx(&["patch", "--patch", &deletion(file), "--session", session]).ok();
        }
        assert!(!ws.path("d").exists());
        for session in undos {
            ws.lbx(&["undo", "--session", session]).ok();
        }
        assert_eq!(ws.tree(), before, "{orders:?}");
        for session in redos {
            ws.lbx(&["redo", "--session", session]).ok();
        }
        assert!(!ws.path("d").exists(), "{orders:?}");
    }
    // A folder that one session made goes with the file of the other.
    let ws = Workspace::with(&[]);
    ws.lbx(&["write", "d/a", "--content", "a", "--session", "s1"]).ok();
    ws.lbx(&["write", "d/b", "--content", "b", "--session", "s2"]).ok();
    ws.lbx(&["undo", "--session", "s1"]).ok();
    ws.holds("d/b", "b");
    ws.lbx(&["undo", "--session", "s2"]).ok();
    assert!(!ws.path("d").exists());
    // A folder that another change made after that is not the one that the first undo left.
    for (maker, remover) in [("s2", "s2"), ("s3", "s2")] {
        let ws = Workspace::with(&[]);
        ws.lbx(&["write", "d/a", "--content", "a", "--session", "s1"]).ok();
        ws.lbx(&["undo", "--session", "s1"]).ok();
        ws.lbx(&["mkdir", "d", "--session", maker]).ok();
        ws.lbx(&["write", "d/b", "--content", "b", "--session", remover]).ok();
        ws.lbx(&["undo", "--session", remover]).ok();
        assert_eq!(fs::read_dir(ws.path("d")).unwrap().count(), 0, "{maker}");
        ws.lbx(&["undo", "--session", maker]).ok();
        assert!(!ws.path("d").exists(), "{maker}");
    }
    // Nobody removes a folder that was there before.
    let ws = Workspace::with(&[]);
    fs::create_dir(ws.path("d")).unwrap();
    ws.lbx(&["write", "d/a", "--content", "a", "--session", "s1"]).ok();
    ws.lbx(&["undo", "--session", "s1"]).ok();
    assert!(ws.path("d").exists());
}

#[test]
fn undo_by_number_keeps_a_mode_that_came_later() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\nthree\nfour\nfive\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "1"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "five", "--new-string", "5"]).ok();
    ws.chmod("a.txt", 0o600);
    for (call, text) in [
        (&["undo", "--seq", "1"][..], "one\ntwo\nthree\nfour\n5\n"),
        (&["undo", "--seq", "2", "--merge"], "one\ntwo\nthree\nfour\nfive\n"),
    ] {
        ws.lbx(call).success();
        ws.holds("a.txt", text);
        assert_eq!(ws.mode("a.txt"), 0o600, "{call:?}");
    }
}

#[test]
fn undo_and_redo_go_on_after_a_turn_that_was_undone_alone() {
    let ws = Workspace::with(&[("f.txt", &forty())]);
    let text = |ws: &Workspace| String::from_utf8(ws.read_bytes("f.txt")).unwrap();
    let edit = |old: &str, new: &str| {
        ws.lbx(&["edit", "f.txt", "--old-string", old, "--new-string", new]).ok();
    };
    ws.lbx(&["read", "f.txt"]).ok();
    edit("line 1\n", "one\n");
    edit("line 25\n", "five\n");
    edit("line 39\n", "nine\n");
    // Each line is changed or not, as the calls in turn leave them.
    for (call, changed) in [
        (&["undo", "--turn", "2"][..], [true, false, true]),
        (&["redo", "--turn"], [true, true, true]),
        (&["undo"], [true, false, true]),
        (&["undo"], [true, false, false]),
        (&["undo"], [false, false, false]),
        (&["redo"], [true, false, false]),
        (&["redo"], [true, false, true]),
        (&["redo"], [true, true, true]),
        (&["undo", "--turn", "1"], [false, true, true]),
        (&["undo", "--steps", "2"], [false, false, false]),
        (&["redo", "--steps", "3"], [true, true, true]),
        (&["undo", "--turn", "1"], [false, true, true]),
        (&["redo"], [true, true, true]),
        (&["undo", "--steps", "2"], [false, false, true]),
        (&["redo", "--steps", "2"], [true, true, true]),
    ] {
        ws.lbx(call).ok();
        let now = ["one\n", "five\n", "nine\n"].map(|word| text(&ws).contains(word));
        assert_eq!(now, changed, "{call:?}");
    }
    ws.lbx(&["undo", "--turn", "1"]).ok();
    ws.write("f.txt", text(&ws).replace("line 3", "by hand"));
    ws.lbx(&["redo"]).error("stale_file");
    ws.lbx(&["redo", "--merge"]).ok();
    assert!(text(&ws).contains("one\nline 2\nby hand\n"), "{}", text(&ws));
}

#[test]
fn undo_of_several_changes_merges_what_others_changed_between_them() {
    let ws = Workspace::with(&[("f.txt", &forty())]);
    let text = |ws: &Workspace| String::from_utf8(ws.read_bytes("f.txt")).unwrap();
    ws.lbx(&["read", "f.txt"]).ok();
    ws.lbx(&["edit", "f.txt", "--old-string", "line 1\n", "--new-string", "one\n"]).ok();
    ws.write("f.txt", text(&ws).replace("line 25", "by hand"));
    ws.lbx(&["read", "f.txt"]).ok();
    ws.lbx(&["edit", "f.txt", "--old-string", "line 39\n", "--new-string", "nine\n"]).ok();
    let error = ws.lbx(&["undo", "--steps", "2"]).error("stale_file");
    assert!(error["suggested_action"].as_str().unwrap().contains("--merge"), "{error}");
    ws.lbx(&["undo", "--steps", "2", "--merge"]).ok();
    ws.holds("f.txt", forty().replace("line 25", "by hand"));
    ws.lbx(&["redo", "--steps", "2", "--merge"]).ok();
    assert!(text(&ws).starts_with("one\n") && text(&ws).contains("nine\n"));
}

#[test]
fn undo_of_a_turn_leaves_out_what_an_undo_by_number_took_back() {
    let ws = Workspace::with(&[("f.txt", "one\n")]);
    ws.lbx(&["append", "f.txt", "--content", "two\n"]).ok();
    ws.lbx(&["undo", "--seq", "1"]).ok();
    ws.lbx(&["undo", "--turn", "1"]).error("not_found");
    ws.holds("f.txt", "one\n");
    ws.lbx(&["undo"]).ok();
    ws.holds("f.txt", "one\ntwo\n");
    ws.lbx(&["undo"]).ok();
    ws.holds("f.txt", "one\n");
}

#[test]
fn undo_of_an_early_turn_leaves_out_what_an_undo_by_number_took_back() {
    let ws = Workspace::with(&[("f.txt", "one\n")]);
    ws.lbx(&["append", "f.txt", "--content", "two\n"]).ok();
    ws.lbx(&["undo", "--seq", "1"]).ok();
    for number in 0..110 {
        ws.lbx(&["write", &format!("other{number}.txt"), "--content", "x\n"]).ok();
    }
    ws.lbx(&["append", "f.txt", "--content", "two\n"]).ok();
    ws.lbx(&["undo", "--turn", "1"]).error("not_found");
    ws.holds("f.txt", "one\ntwo\n");
}

#[test]
fn undo_of_a_new_file_that_another_session_moved_names_its_path() {
    let ws = Workspace::with(&[("f.txt", "one\n")]);
    ws.lbx(&["write", "new.txt", "--content", "two\n"]).ok();
    ws.lbx(&["move", "new.txt", "there.txt", "--session", "other"]).ok();
    let error = ws.lbx(&["undo"]).error("stale_file");
    assert!(error["message"].as_str().unwrap().contains("session other moved it to there.txt"), "{error}");
    assert_eq!(error["details"]["moved_to"], "there.txt");
    assert_eq!(
        error["suggested_action"],
        "`undo` takes an older change back by its `seq`: `log` with session default shows them."
    );
    ws.holds("there.txt", "two\n");
    fs::remove_file(ws.path("there.txt")).unwrap();
    let answer = ws.lbx(&["undo"]).ok();
    assert_eq!(answer["undone"][0]["path"], "new.txt");
    ws.lbx(&["append", "f.txt", "--content", "two\n"]).ok();
    ws.lbx(&["move", "f.txt", "there.txt", "--session", "other"]).ok();
    let error = ws.lbx(&["undo"]).error("stale_file");
    assert!(error["message"].as_str().unwrap().contains("session other moved it to there.txt"), "{error}");
}

#[test]
fn undo_says_how_to_enter_a_folder_that_the_change_closed() {
    // A folder of 1,100 files is one entry of the history.
    for (files, path) in [(1, "d/1"), (1100, "d")] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        let before = ws.tree();
        let command = format!("mkdir d; for i in $(seq {files}); do echo x > d/$i; done; chmod 000 d");
        let Some(call) = ws.call_unprivileged(&["bash", &command]) else { return };
        call.run().ok();
        let undo = || ws.call_unprivileged(&["undo"]).unwrap().run();
        let error = undo().error("permission_denied");
        assert_eq!(error["path"], path);
        assert_eq!(
            error["suggested_action"],
            "If the folder there or above it is your own, let yourself in (chmod u+rwx), then repeat the call."
        );
        ws.chmod("d", 0o700);
        undo().ok();
        assert_eq!(ws.tree(), before);
    }
}

#[test]
fn undo_in_a_folder_that_cannot_be_listed_is_whole_or_nothing() {
    for mode in [0o100, 0o300] {
        let ws = Workspace::with(&[("a.txt", "one\n"), ("k/old", "old\n")]);
        let before = ws.tree();
        let command = format!("mkdir d; echo x > d/f; chmod {mode:o} d");
        let Some(call) = ws.call_unprivileged(&["bash", &command]) else { return };
        call.run().ok();
        let call = |words: &[&str]| ws.call_unprivileged(words).unwrap().run();
        call(&["undo"]).ok();
        assert_eq!(ws.tree(), before);
        call(&["redo"]).ok();
        assert_eq!(ws.mode("d"), mode);
        call(&["undo"]).ok();
        // The user closes one in which the session made a file.
        call(&["write", "k/new", "--content", "new\n"]).ok();
        ws.chmod("k", mode);
        if mode == 0o100 {
            let error = call(&["undo"]).error("permission_denied");
            assert_eq!(error.get("applied"), None, "{error}");
            let action = error["suggested_action"].as_str().unwrap();
            assert!(action.contains("let yourself in (chmod u+rwx)"), "{error}");
            ws.chmod("k", 0o700);
        }
        let envelope = call(&["undo"]).success();
        assert_eq!(envelope.get("warnings"), None, "{envelope}");
        assert!(!ws.path("k/new").exists());
    }
}

#[test]
fn advice_of_undo_leads_somewhere() {
    // A file that its change closed to its own owner: the advice is followed to the letter.
    for command in ["echo new > new; chmod 0 new", "chmod 600 old; echo new >> old; chmod 0 old"] {
        let ws = Workspace::with(&[("a.txt", "one\n"), (".gitignore", "old\n")]);
        ws.write("old", "old\n");
        ws.chmod("old", 0);
        let Some(call) = ws.call_unprivileged(&["bash", command]) else { return };
        call.run().success();
        let undo = || ws.call_unprivileged(&["undo"]).unwrap().run();
        let error = undo().error("permission_denied");
        let path = error["path"].as_str().unwrap();
        let action = format!("Let yourself in first (chmod u+rw {path}), or leave it alone.");
        assert_eq!(error["suggested_action"], action);
        ws.chmod(path, 0o600);
        undo().success();
        assert!(!ws.path("new").exists(), "{command}");
        ws.chmod("old", 0o600);
        ws.holds("old", "old\n");
    }
    // A file that is gone: only snapshots list its versions.
    let gone = "What this session wrote there is gone with the file. With `seq`, `undo` takes back another change by its number.";
    for (path, is_listed) in [("a.txt", true), ("old", false)] {
        let ws = Workspace::with(&[("a.txt", "one\n"), (".gitignore", "old\n")]);
        ws.write("old", "old\n");
        ws.lbx(&["append", path, "--content", "two\n"]).success();
        fs::remove_file(ws.path(path)).unwrap();
        let versions = if is_listed { " `log` with this path lists the versions of the file." } else { "" };
        for words in [&["undo"][..], &["undo", "--merge"], &["undo", "--seq", "1"]] {
            let error = ws.lbx(words).error("stale_file");
            assert_eq!(error["suggested_action"], format!("{gone}{versions}"), "{path}");
        }
        if is_listed {
            ws.lbx(&["log", path]).ok();
        }
    }
    // One that the session itself moved or removed later.
    for command in ["mv a.txt b.txt", "rm a.txt"] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
        ws.lbx(&["bash", command]).ok();
        let error = ws.lbx(&["undo", "--seq", "1"]).error("stale_file");
        let action = error["suggested_action"].as_str().unwrap();
        assert!(action.starts_with("Undo this session's later changes of a.txt first"), "{error}");
        ws.lbx(&["undo", "--seq", "2"]).ok();
        ws.lbx(&["undo", "--seq", "1"]).ok();
        ws.holds("a.txt", "one\n");
    }
}

#[test]
fn undo_takes_back_no_mode_that_others_set_since() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.chmod("a.txt", 0o400);
    ws.lbx(&["bash", "chmod 444 a.txt"]).ok();
    ws.chmod("a.txt", 0o644);
    let error = ws.lbx(&["undo"]).error("stale_file");
    assert!(error["message"].as_str().unwrap().contains("its mode is 0644 and was 0444"), "{error}");
    assert_eq!(ws.mode("a.txt"), 0o644);
}

/// Makes a call, or acts for another program after `!`.
fn act(ws: &Workspace, step: &str) {
    let (what, rest) = step.split_once(' ').unwrap();
    match what {
        "!" => fs::create_dir(ws.path(rest)).unwrap(),
        "append" => drop(ws.lbx(&["append", rest, "--content", "more\n"]).ok()),
        "write" => drop(ws.lbx(&["write", rest, "--content", "new\n"]).ok()),
        "bash" => drop(ws.lbx(&["bash", rest]).ok()),
        // Not to the trash.
        "remove" => {
            ws.lbx(&["read", rest]).ok();
            let patch = format!("*** Begin Patch\n*** Delete File: {rest}\n*** End Patch\n");
            ws.lbx(&["patch", "--patch", &patch]).ok();
        }
        _ => drop(ws.lbx(&step.split(' ').collect::<Vec<_>>()).ok()),
    }
}

#[test]
fn undo_and_redo_of_many_changes_have_one_net_effect() {
    let cases: [&[&str]; 16] = [
        &["append a", "append a"],
        &["write n", "append n"],
        &["move a n", "append n"],
        &["append a", "move a n"],
        &["write n", "move n m"],
        &["move a n", "move n a"],
        &["move a n", "move n m"],
        // In a folder before and after it moved, and out of one that moved then.
        &["append d/y", "move d e", "append e/x"],
        &["move d/x z", "move d e"],
        // Two names exchanged, and another file in the old place.
        &["move a t", "move b a", "move t b"],
        &["move a n", "write a"],
        &["move a n", "write a", "append n"],
        // A file that became a folder, or was made again.
        &["remove a", "write a/x"],
        &["remove a", "write a"],
        &["write n/x", "move n m", "append m/x"],
        // In the place of a folder that no change made.
        &["remove a", "! a", "bash rmdir a; echo 2 > a"],
    ];
    for case in cases {
        let ws = Workspace::with(&[("a", "a\n"), ("b", "b\n"), ("d/x", "x\n"), ("d/y", "y\n")]);
        let before = ws.tree();
        case.iter().for_each(|step| act(&ws, step));
        let after = ws.tree();
        let steps = case.iter().filter(|step| !step.starts_with('!')).count().to_string();
        ws.lbx(&["undo", "--steps", &steps]).ok();
        assert_eq!(ws.tree(), before, "{case:?}");
        ws.lbx(&["redo", "--steps", &steps]).ok();
        assert_eq!(ws.tree(), after, "{case:?}");
    }
}

#[test]
fn undo_names_every_file_that_others_changed_between_the_changes() {
    let ws = Workspace::with(&[("a", "a\n"), ("b", "b\n")]);
    ["append a", "append b"].into_iter().for_each(|step| act(&ws, step));
    ws.write("a", "other\n");
    ws.write("b", "other\n");
    ["append a", "append b"].into_iter().for_each(|step| act(&ws, step));
    let error = ws.unchanged(|| ws.lbx(&["undo", "--steps", "4"]).error("stale_file"));
    assert_eq!(error["message"], "a was changed by someone else between these changes (also conflicting: b)");
    assert_eq!(error["details"]["paths"], json!(["a", "b"]));
}

#[test]
fn undo_of_a_move_finds_the_file_in_its_place_that_comes_back() {
    let ws = Workspace::with(&[("a", "a\n")]);
    act(&ws, "move a n");
    ws.write("a", "other\n");
    act(&ws, "remove a");
    let error = ws.unchanged(|| ws.lbx(&["undo", "--steps", "2"]).error("stale_file"));
    assert_eq!(
        (&error["path"], &error["message"]),
        (&json!("a"), &json!("a cannot come back: something is in its place"))
    );
}
