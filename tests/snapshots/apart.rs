//! Changes of a session are kept apart from changes of others in the same file.

use serde_json::{Value, json};

use crate::common::Workspace;

/// Returns lines 1 to 30.
fn lines() -> String {
    (1..=30).map(|line| format!("line {line}\n")).collect()
}

/// Replaces a line for a session.
fn edit(ws: &Workspace, session: &str, old: &str, new: &str) {
    ws.lbx(&["read", "a.txt", "--session", session]).ok();
    ws.json("edit", &json!({"path": "a.txt", "old_string": old, "new_string": new, "session": session})).ok();
}

/// Returns the removed and added lines of a diff.
fn changed(diff: &Value) -> Vec<String> {
    let text = diff["diff"].as_str().unwrap();
    let is_change = |line: &&str| {
        (line.starts_with('-') || line.starts_with('+'))
            && !line.starts_with("---")
            && !line.starts_with("+++")
    };
    text.lines().filter(is_change).map(str::to_owned).collect()
}

/// Creates a file that two sessions and the developer change in turns.
fn shared() -> Workspace {
    let ws = Workspace::with(&[("a.txt", &lines())]);
    edit(&ws, "a", "line 2\n", "by a\n");
    edit(&ws, "b", "line 20\n", "by b\n");
    let text = String::from_utf8(ws.read_bytes("a.txt")).unwrap();
    ws.write("a.txt", text.replace("line 25\n", "by the developer\n"));
    edit(&ws, "a", "line 10\n", "by a as well\n");
    ws
}

#[test]
fn session_diff_shows_only_its_own_changes() {
    let ws = shared();
    let mine = ws.lbx(&["diff", "--session", "a"]).ok();
    assert_eq!(mine["session"], "a");
    assert_eq!(changed(&mine), ["-line 2", "+by a", "-line 10", "+by a as well"]);
    let stat = ws.lbx(&["diff", "--session", "a", "--stat"]).ok();
    assert_eq!((&stat["stat"][0]["insertions"], &stat["stat"][0]["deletions"]), (&json!(2), &json!(2)));
    assert_eq!(changed(&ws.lbx(&["diff", "--session", "b"]).ok()), ["-line 20", "+by b"]);
    // The status has the same counts.
    for (session, counts) in [("a", "+2 -2"), ("b", "+1 -1")] {
        let status = ws.lbx(&["session", "status", "--session", session]).ok().to_string();
        assert!(status.contains(counts), "{status}");
    }
    // A change that a session reverts does not count as its own.
    edit(&ws, "a", "by a\n", "line 2\n");
    edit(&ws, "a", "by a as well\n", "line 10\n");
    assert_eq!(ws.lbx(&["diff", "--session", "a"]).ok()["files"], 0);
    let status = ws.lbx(&["session", "status", "--session", "a"]).ok().to_string();
    assert!(!status.contains("+0"), "{status}");
}

#[test]
fn lines_changed_later_by_others_belong_to_them() {
    let ws = shared();
    edit(&ws, "b", "by a\n", "by b instead\n");
    edit(&ws, "a", "line 12\n", "by a again\n");
    let mine = ws.lbx(&["diff", "--session", "a"]).ok();
    assert_eq!(changed(&mine), ["-line 10", "+by a as well", "-line 12", "+by a again"]);
}

#[test]
fn changes_by_others_are_on_both_sides_or_on_none() {
    /// Text of the file after each change, by turns of the session and of others; empty for no file.
    type Texts = &'static [&'static str];
    let cases: &[(&str, Texts, &[&str])] = &[
        ("a\n", &["b\n"], &["-a", "+b"]),
        ("a\n", &["b\n", "b\n", "c\n"], &["-a", "+c"]),
        (
            "1\n2\n3\n4\n",
            &["1\nB\n3\n4\n", "1\nB\n3\nD\n", "A\nB\n3\nD\n", "A\nB\nC\nD\n", "A\nBB\nC\nD\n"],
            &["-1", "-2", "+A", "+BB"],
        ),
        (
            "",
            &["1\n2\n3\n", "1\n2\n3\nX\n", "1\nB\n3\nX\n", "1\nB\n3\nX\nY\n", "0\n1\nB\n3\nX\nY\n"],
            &["+0", "+1", "+B", "+3"],
        ),
        ("", &["a\n", "b\n", "c\n"], &["+c"]),
        ("", &["a\n", "b\n", ""], &[]),
        ("a\n", &["b\n", "", "c\n"], &["+c"]),
        ("a\n", &["", "b\n", "c\n"], &["-b", "+c"]),
    ];
    for (first, texts, wanted) in cases {
        let ws = Workspace::with(&[("k", "k\n")]);
        if !first.is_empty() {
            ws.write("f", first);
            ws.git(&["add", "f"]);
            ws.git(&["commit", "-qm", "f"]);
        }
        for (at, text) in texts.iter().enumerate() {
            match (at % 2, text.is_empty()) {
                (0, true) => drop(ws.lbx(&["delete", "f", "--session", "a"]).ok()),
                (0, false) => {
                    drop(ws.lbx(&["read", "f", "--session", "a"]));
                    ws.lbx(&["write", "f", "--content", text, "--session", "a"]).ok();
                }
                (_, true) => std::fs::remove_file(ws.path("f")).unwrap(),
                (_, false) => ws.write("f", text),
            }
        }
        assert_eq!(changed(&ws.lbx(&["diff", "--session", "a"]).ok()), *wanted, "{texts:?}");
    }
}

#[test]
fn ended_session_has_no_changes_and_keeps_its_numbering() {
    let ws = shared();
    let _ = ws.lbx(&["session", "end", "--session", "a"]).success();
    assert_eq!(ws.lbx(&["diff", "--session", "a"]).ok()["files"], 0);
    // Without a session, the newest one with a change is shown.
    let newest = ws.call(&["diff"]).env("LBX_SESSION", "a").run().ok();
    assert_eq!(changed(&newest), ["-line 10", "+by a as well"]);
    let _ = ws.lbx(&["gc", "--keep-days", "0"]).success();
    edit(&ws, "a", "line 30\n", "the end\n");
    assert_eq!(changed(&ws.lbx(&["diff", "--session", "a"]).ok()), ["-line 30", "+the end"]);
    let status = ws.lbx(&["session", "status", "--session", "a"]).ok().to_string();
    assert!(status.contains("+1 -1"), "{status}");
    let numbers =
        ws.git(&["log", "--format=%(trailers:key=Lbx-Seq,valueonly,separator=)", "lbx-snapshots", "-1"]);
    assert_eq!(numbers, "3", "a number is given once");
}

#[test]
fn snapshot_records_other_changes_as_external() {
    let ws = shared();
    ws.write("b.txt", "the developer's\n");
    ws.lbx(&["snapshot", "--session", "a", "all of it"]).ok();
    let body = ws.git(&["log", "-1", "--format=%B", "lbx-snapshots"]);
    assert!(body.starts_with("external: all of it"), "{body}");
    assert!(!body.contains("Lbx-Session") && !body.contains("Lbx-Seq"), "{body}");
    let mine = ws.lbx(&["diff", "--session", "a"]).ok();
    assert_eq!((&mine["files"], changed(&mine).len()), (&json!(1), 4));
    let tools: Vec<Value> = ws.lbx(&["log", "--session", "a"]).ok()["snapshots"].as_array().unwrap().clone();
    assert!(tools.iter().all(|entry| entry["session"] == "a" && entry["tool"] != "external"), "{tools:?}");
}

#[test]
fn session_diff_shows_recreated_files_as_created() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.lbx(&["write", "n.txt", "--content", "1\n2\n", "--session", "a"]).ok();
    ws.lbx(&["append", "n.txt", "--content", "3\n", "--session", "b"]).ok();
    ws.lbx(&["append", "n.txt", "--content", "4\n", "--session", "a"]).ok();
    let mine = ws.lbx(&["diff", "--session", "a", "--stat"]).ok();
    assert_eq!(mine["stat"][0]["action"], "create");
    ws.lbx(&["append", "a.txt", "--content", "b\n", "--session", "a"]).ok();
    std::fs::remove_file(ws.path("a.txt")).unwrap();
    ws.lbx(&["write", "a.txt", "--content", "new\n", "--session", "a"]).ok();
    assert_eq!(ws.lbx(&["diff", "--session", "a", "--stat", "a.txt"]).ok()["stat"][0]["action"], "create");
}

#[test]
fn unknown_path_or_revision_is_not_found() {
    let ws = shared();
    for tool in ["diff", "log", "audit"] {
        for name in ["nosuch", "c9e6381a", "no/such.txt"] {
            ws.lbx(&[tool, name]).error("not_found");
        }
    }
    let newest = ws.git(&["rev-parse", "lbx-snapshots"]);
    assert_eq!(changed(&ws.lbx(&["diff", &newest[..10]]).ok()), ["-line 10", "+by a as well"]);
    let all = ws.lbx(&["diff", "HEAD..lbx-snapshots"]).ok();
    assert_eq!(changed(&all).len(), 8, "{all}");
    assert_eq!(changed(&ws.lbx(&["diff", "HEAD"]).ok()).len(), 8);
    ws.lbx(&["diff", "HEAD..nosuch"]).error("not_found");
    let third = ws.git(&["rev-parse", "lbx-snapshots~3"]);
    for name in ["lbx-snapshots~3", "lbx-snapshots^^~1", "lbx-snapshots^1~2"] {
        assert_eq!(ws.lbx(&["diff", "--from", name]).ok()["from"], third.trim(), "{name}");
    }
    for name in ["", "~1", "lbx-snapshots^2", "lbx-snapshots~x"] {
        ws.lbx(&["diff", "--from", name]).error("not_found");
    }
    // A deleted file can still be named.
    ws.lbx(&["delete", "a.txt", "--session", "a"]).ok();
    ws.lbx(&["log", "a.txt"]).ok();
    assert_eq!(ws.lbx(&["diff", "a.txt", "--session", "a"]).ok()["files"], 1);
    ws.lbx(&["audit", "a.txt"]).ok();
    // Without any snapshot too.
    let bare = Workspace::bare(&[("a.txt", "a\n")]);
    bare.lbx(&["diff", "nosuch"]).error("not_found");
    bare.lbx(&["log", "nosuch"]).error("not_found");
    bare.lbx(&["log", "a.txt"]).ok();
}
