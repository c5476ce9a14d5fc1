//! A repeated request is recognized by the history alone, never by a text that happens to be in the file.

use serde_json::{Value, json};

use crate::common::{Workspace, sha256};

/// Creates a workspace with one file that was read.
fn read(text: &str) -> Workspace {
    let ws = Workspace::with(&[("a.txt", text)]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws
}

/// Returns an edit of the file.
fn edit(old: &str, new: &str) -> Value {
    json!({"path": "a.txt", "old_string": old, "new_string": new})
}

#[test]
fn existing_new_string_does_not_count_as_applied() {
    let ws = read("fn a() {}\nunsafe_call(x);\nlog(\"done\");\n");
    let error = ws.unchanged(|| {
        ws.json("edit", &edit("unsafe_call(y);\nlog(\"done\");", "log(\"done\");")).error("no_match")
    });
    assert_eq!(error["details"]["new_string_at"], json!([{"start_line": 3, "end_line": 3}]));
    let error = ws.unchanged(|| ws.json("edit", &edit("entirely unrelated", "fn a() {}")).error("no_match"));
    assert_eq!(error["details"]["new_string_at"][0]["start_line"], 1);
    assert!(error["suggested_action"].as_str().unwrap().contains("already occurs at line 1"), "{error}");
}

#[test]
fn unique_old_string_is_replaced_even_if_new_string_exists() {
    let ws = read("x = 1\n\ndef f():\n");
    ws.json("edit", &edit("def f():\n", "\ndef f():\n")).ok();
    ws.holds("a.txt", "x = 1\n\n\ndef f():\n");
}

#[test]
fn edits_fail_together_if_one_finds_only_its_new_string() {
    let ws = read("one\ntwo\nthree\n");
    let edits = json!({"path": "a.txt", "edits": [
        {"old_string": "one", "new_string": "1"},
        {"old_string": "zwei", "new_string": "two"},
    ]});
    let error = ws.unchanged(|| ws.json("edit", &edits).error("no_match"));
    assert_eq!(error["details"]["edit"], 2);
    assert_eq!(error["details"]["new_string_at"][0]["start_line"], 2);
}

#[test]
fn wrong_range_sha256_is_stale_even_if_new_lines_exist() {
    let ws = read("one\ntwo\n");
    let lines = json!({"path": "a.txt", "start_line": 1, "end_line": 1,
        "range_sha256": sha256(b"eins\n"), "new_string": "one\n"});
    ws.unchanged(|| ws.json("edit", &lines).error("stale_file"));
}

#[test]
fn only_the_last_change_of_a_session_counts_as_repeated() {
    let ws = read("5\n");
    let old = sha256(b"5\n");
    let request = json!({"path": "a.txt", "old_string": "5", "new_string": "6", "expected_sha256": old});
    ws.json("edit", &request).ok();
    let error = ws.unchanged(|| ws.json("edit", &request).error("stale_file"));
    assert_eq!(error["message"], "this session has already made this change, as change 1");
    assert_eq!(
        error["suggested_action"],
        "Nothing is left to do. To change the file again, read it, and name its SHA-256 of now."
    );
    // The same request from another session is not a repeat.
    let mut other = request.clone();
    other["session"] = json!("other");
    ws.unchanged(|| ws.json("edit", &other).error("stale_file"));
    // After a later change of the file nothing is recognized, even if the bytes are equal again.
    ws.json("edit", &edit("6", "7")).ok();
    ws.json("edit", &edit("7", "6")).ok();
    ws.unchanged(|| ws.json("edit", &request).error("stale_file"));
}

#[test]
fn sixteen_concurrent_counters_lose_no_update() {
    let ws = Workspace::with(&[("a.txt", "0\n")]);
    let ws = &ws;
    let count = |session: String, rounds: usize| {
        let mut done = 0;
        for _ in 0..rounds {
            let text = ws.lbx(&["read", "a.txt", "--session", &session]).ok();
            let number: u64 = text["content"].as_str().unwrap().trim().parse().unwrap();
            let call = json!({"path": "a.txt", "old_string": number.to_string(),
                "new_string": (number + 1).to_string(), "expected_sha256": text["sha256"],
                "session": session});
            let output = ws.call(&["edit", "--json", &call.to_string()]).spawn().wait_with_output().unwrap();
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
            let is_done = answer["ok"] == true;
            assert!(is_done || answer["error"]["kind"] == "stale_file", "{answer}");
            done += u64::from(is_done);
        }
        done
    };
    let total: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..16).map(|number| scope.spawn(move || count(format!("counter-{}", number / 2), 6))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    ws.holds("a.txt", format!("{total}\n"));
}

#[test]
fn rebase_onto_the_same_change_is_stale() {
    let ws = read("counter = 5\nend\n");
    ws.write("a.txt", "counter = 6\nend\n");
    let request = json!({"path": "a.txt", "old_string": "5", "new_string": "6", "rebase": true});
    let error = ws.unchanged(|| ws.json("edit", &request).error("stale_file"));
    assert_eq!(error["details"]["rebase"], false);
}

#[test]
fn rebase_requires_known_old_bytes() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\n")]);
    let mut request = json!({"path": "a.txt", "old_string": "one", "new_string": "1",
        "expected_sha256": sha256(b"a guess"), "rebase": true, "session": "fresh"});
    let error = ws.unchanged(|| ws.json("edit", &request).error("stale_file"));
    assert_eq!(error["details"]["rebase"], false);
    request["rebase"] = json!(false);
    let error = ws.unchanged(|| ws.json("edit", &request).error("stale_file"));
    assert_eq!(error["details"]["rebase"], false);
    let advice = error["suggested_action"].as_str().unwrap();
    assert!(!advice.contains("rebase"), "{advice}");
    // Earlier bytes that are known are accepted.
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "two", "--new-string", "2"]).ok();
    ws.write("a.txt", "one\n2\nthree\n");
    request["rebase"] = json!(true);
    request["expected_sha256"] = json!(sha256(b"one\ntwo\n"));
    request["old_string"] = json!("one\n");
    request["new_string"] = json!("zero\none\n");
    ws.json("edit", &request).warned("changed since the read");
    ws.holds("a.txt", "zero\none\n2\nthree\n");
}

/// As after a kill while the copy was written.
#[test]
fn cut_copy_of_shown_bytes_is_made_again_by_the_next_read() {
    let ws = read("one\n2\n3\n4\ntwo\n");
    let copies = ws.path(&crate::common::state("shown"));
    for copy in std::fs::read_dir(&copies).unwrap() {
        std::fs::write(copy.unwrap().path(), "").unwrap();
    }
    std::fs::remove_file(ws.path(&crate::common::state("sessions/default.lbx"))).unwrap();
    ws.lbx(&["read", "a.txt"]).ok();
    ws.write("a.txt", "ONE\n2\n3\n4\ntwo\n");
    ws.json("edit", &json!({"path": "a.txt", "old_string": "two", "new_string": "5", "rebase": true}))
        .warned("changed since the read");
    ws.holds("a.txt", "ONE\n2\n3\n4\n5\n");
}

#[test]
fn repeated_insert_is_already_applied() {
    let ws = read("one\n");
    let insert = ["insert", "a.txt", "1", "--content", "two\n"];
    ws.lbx(&insert).ok();
    assert_eq!(ws.unchanged(|| ws.lbx(&insert).ok())["match"], "already_applied");
    ws.holds("a.txt", "one\ntwo\n");
}

#[test]
fn repeated_append_is_applied_once_with_expected_sha256() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.md", "# B\n\n- item\n")]);
    let append = ["append", "a.txt", "--content", "x\n"];
    ws.lbx(&append).ok();
    ws.lbx(&append).ok();
    ws.holds("a.txt", "one\nx\nx\n");
    let named = json!({"path": "a.txt", "content": "y\n", "expected_sha256": sha256(b"one\nx\nx\n")});
    ws.json("append", &named).ok();
    ws.unchanged(|| ws.json("append", &named).error("stale_file"));
    // An item that equals the last one of a section is still added.
    let add = json!({"path": "b.md", "header": "# B", "content": "- item\n", "append": true});
    ws.json("section", &add).ok();
    ws.holds("b.md", "# B\n\n- item\n- item\n");
    assert_eq!(ws.unchanged(|| ws.json("section", &add).ok())["match"], "already_applied");
}

#[test]
fn empty_append_or_prepend_checks_expected_sha256() {
    let ws = read("one\n");
    let mut request = json!({"path": "a.txt", "content": "", "expected_sha256": sha256(b"other")});
    ws.unchanged(|| {
        ws.json("append", &request).error("stale_file");
        ws.json("prepend", &request).error("stale_file");
    });
    request["expected_sha256"] = json!(sha256(b"one\n"));
    assert_eq!(ws.json("append", &request).ok()["already_applied"], true);
}

#[test]
fn write_of_equal_bytes_checks_expected_sha256() {
    let ws = read("5\n");
    let request = json!({"path": "a.txt", "content": "6\n", "expected_sha256": sha256(b"5\n")});
    ws.json("write", &request).ok();
    ws.json("write", &request).error("stale_file");
    // The mode is no part of the version.
    let mode = json!({"path": "a.txt", "content": "6\n", "mode": "755", "expected_sha256": sha256(b"6\n")});
    ws.json("write", &mode).ok();
    assert_eq!(ws.json("write", &mode).ok()["already_applied"], true);
    let mut other = request.clone();
    other["session"] = json!("other");
    ws.json("write", &other).error("stale_file");
    other.as_object_mut().unwrap().remove("expected_sha256");
    assert_eq!(ws.json("write", &other).ok()["already_applied"], true);
}

#[test]
fn hunk_is_already_applied_only_within_its_context() {
    let hunk = |text: &str| format!("--- a/a.txt\n+++ b/a.txt\n{text}");
    for (before, patch, after) in [
        // The added line of the hunk exists, but not its context.
        ("x\nlog();\ny\n", "@@ -1,3 +1,3 @@\n a\n-call();\n+log();\n b\n", None),
        // The result exists without context.
        ("log();\n1\n2\n", "@@ -1 +1 @@\n-call();\n+log();\n", None),
        ("a\nlog();\nb\n", "@@ -1,3 +1,3 @@\n a\n-call();\n+log();\n b\n", Some("already_applied")),
        ("0\na\nlog();\nb\n", "@@ -1,3 +1,3 @@\n a\n-call();\n+log();\n b\n", Some("already_applied")),
        ("a\nlog();\nb\na\nlog();\nb\n", "@@ -7,3 +7,3 @@\n a\n-call();\n+log();\n b\n", None),
        // A removal leaves no text of its own: only the stated line tells.
        ("a\nb\nc\n", "@@ -1,3 +1,2 @@\n a\n-x\n b\n", Some("already_applied")),
        ("0\na\nb\nc\n", "@@ -1,3 +1,2 @@\n a\n-x\n b\n", None),
    ] {
        let ws = read(before);
        let call = || ws.lbx_stdin(&["patch"], hunk(patch));
        match after {
            Some(action) => assert_eq!(ws.unchanged(|| call().ok())["files"][0]["action"], action, "{patch}"),
            None => drop(ws.unchanged(|| call().error("patch_conflict"))),
        }
    }
}

#[test]
fn repeated_move_delete_or_restore_is_already_applied() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("d/x.txt", "x\n"), ("d/y.txt", "y\n"), ("e.txt", "e\n")]);
    // Once, and again: the second does nothing, and the answer says so.
    let twice = |call: &[&str]| {
        let first = ws.lbx(call).ok();
        assert_eq!(first.get("already_applied"), None, "{call:?}");
        let again = ws.unchanged(|| ws.lbx(call).success());
        assert_eq!(again["data"]["already_applied"], true, "{call:?}: {again}");
        assert_eq!(again.get("snapshot"), None, "{call:?}");
        let text = ws.unchanged(|| ws.lbx(&[call, &["-t"]].concat()).stdout_text());
        assert!(text.contains("already applied"), "{call:?}: {text}");
        (first, again["data"].clone())
    };
    let (first, again) = twice(&["move", "a.txt", "b/c.txt"]);
    assert_eq!((&again["from"], &again["to"]), (&first["from"], &first["to"]));
    let (first, again) = twice(&["delete", "b/c.txt"]);
    assert_eq!((&again["trash_id"], &again["bytes"]), (&first["trash_id"], &json!(4)));
    let (first, again) = twice(&["restore", "b/c.txt"]);
    assert_eq!((&again["sha256"], &again["trash_id"]), (&first["sha256"], &first["trash_id"]));
    let several = |call: &[&str]| ws.lbx(call).ok()["deleted"].clone();
    let call = ["delete", "-r", "d", "e.txt"];
    let first = several(&call);
    let again = ws.unchanged(|| several(&call));
    assert_eq!((&again[0]["files"], &again[0]["already_applied"]), (&json!(2), &json!(true)));
    assert_eq!(again[1]["trash_id"], first[1]["trash_id"]);
    // Another request, another session, or a later change of the result is not a repeat.
    ws.unchanged(|| {
        ws.lbx(&["delete", "e.txt"]).error("not_found");
        ws.lbx(&["delete", "-r", "d", "e.txt", "--session", "other"]).error("not_found");
    });
    ws.lbx(&["move", "b/c.txt", "f.txt"]).ok();
    ws.write("b/c.txt", "another\n");
    ws.unchanged(|| ws.lbx(&["move", "b/c.txt", "f.txt"]).error("already_exists"));
}

#[test]
fn patch_deletion_of_an_unknown_file_is_not_found() {
    let codex = "*** Begin Patch\n*** Delete File: gone.txt\n*** End Patch\n";
    let git = "diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\n--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
    let rename =
        "diff --git a/gone.txt b/b.txt\nsimilarity index 100%\nrename from gone.txt\nrename to b.txt\n";
    let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "x\n")]);
    for patch in [codex, git, rename] {
        ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).error("not_found"));
    }
    ws.write("gone.txt", "x\n");
    ws.lbx(&["delete", "gone.txt"]).ok();
    for patch in [codex, git] {
        let data = ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).ok());
        assert_eq!(data["files"][0]["action"], "already_applied");
        ws.unchanged(|| ws.lbx_stdin(&["patch", "--session", "other"], patch).error("not_found"));
    }
}
