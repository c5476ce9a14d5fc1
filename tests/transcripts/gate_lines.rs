//! A change without a digest requires that every removed line was shown.

use serde_json::json;

use crate::common::{Workspace, sha256};

/// Ten lines.
const TEN: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

#[test]
fn write_requires_every_line_to_be_read() {
    let ws = Workspace::with(&[("a.txt", TEN)]);
    ws.lbx(&["read", "a.txt", "--start-line", "2", "--end-line", "3"]).ok();
    let write = ["write", "a.txt", "--content", "new\n"];
    let error = ws.unchanged(|| ws.lbx(&write).error("not_read"));
    assert_eq!(error["details"]["unseen_lines"], json!([[1, 1], [4, 10]]));
    assert_eq!(error["details"]["total_lines"], 10);
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("refusing to overwrite a.txt: Read it first"), "{message}");
    assert!(message.contains("lines 1, 4-10"), "{message}");
    let command = "lbx read a.txt --start-line 1 --end-line 10";
    assert!(error["suggested_action"].as_str().unwrap().contains(command), "{error}");
    ws.lbx(&["read", "a.txt", "--start-line", "4"]).ok();
    let error = ws.unchanged(|| ws.lbx(&write).error("not_read"));
    assert!(error["message"].as_str().unwrap().contains("line 1 was not shown"), "{error}");
    ws.lbx(&["read", "a.txt", "--start-line", "1", "--end-line", "1"]).ok();
    ws.lbx(&write).ok();
    ws.holds("a.txt", "new\n");
}

#[test]
fn expected_sha256_allows_a_write_of_an_unread_file() {
    let ws = Workspace::with(&[("a.txt", TEN)]);
    let request = json!({"path": "a.txt", "content": "new\n", "expected_sha256": sha256(TEN.as_bytes())});
    ws.json("write", &request).ok();
    ws.holds("a.txt", "new\n");
}

#[test]
fn only_shown_lines_count_as_read() {
    let long = format!("{}\n{}\n", "x".repeat(100_000), "y");
    let ws = Workspace::with(&[("a.txt", TEN), ("b.txt", TEN), ("long.txt", &long)]);
    // Cut by a limit.
    ws.lbx(&["read", "a.txt", "--max-bytes", "6"]).success();
    ws.unchanged(|| ws.lbx(&["write", "a.txt", "--content", "new\n"]).error("not_read"));
    // Found by a search.
    ws.lbx(&["grep", "^5$", "b.txt", "--mark"]).ok();
    let error = ws.unchanged(|| ws.lbx(&["write", "b.txt", "--content", "new\n"]).error("not_read"));
    assert_eq!(error["details"]["unseen_lines"], json!([[1, 4], [6, 10]]));
    // Clipped; the suggested read shows all of it.
    ws.lbx(&["read", "long.txt"]).success();
    let write = ["write", "long.txt", "--content", "new\n"];
    let error = ws.unchanged(|| ws.lbx(&write).error("not_read"));
    let advice = error["suggested_action"].as_str().unwrap();
    let command = advice.split(['(', ')']).nth(1).unwrap().strip_prefix("lbx ").unwrap();
    ws.lbx(&command.split(' ').collect::<Vec<_>>()).ok();
    ws.lbx(&write).ok();
    // Separately for each of several files.
    ws.json("read", &json!({"paths": ["a.txt", "b.txt"]})).ok();
    ws.lbx(&["write", "a.txt", "--content", "new\n"]).ok();
    ws.lbx(&["write", "b.txt", "--content", "new\n"]).ok();
}

#[test]
fn append_to_an_unread_file_allows_no_write() {
    let ws = Workspace::with(&[("a.txt", TEN)]);
    ws.lbx(&["append", "a.txt", "--content", "11\n"]).ok();
    ws.unchanged(|| ws.lbx(&["write", "a.txt", "--content", "new\n"]).error("not_read"));
    // After an edit the caller has seen the same lines as before, and its own.
    ws.lbx(&["read", "a.txt", "--start-line", "11"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "11", "--new-string", "eleven"]).ok();
    let error = ws.unchanged(|| ws.lbx(&["write", "a.txt", "--content", "new\n"]).error("not_read"));
    assert_eq!(error["details"]["unseen_lines"], json!([[1, 10]]));
}

#[test]
fn sketch_never_deletes_unshown_lines() {
    let text = "fn a() {\n    one();\n    two();\n    three();\n}\n\nfn b() {}\n";
    let ws = Workspace::with(&[("a.rs", text)]);
    ws.lbx(&["read", "a.rs", "--start-line", "1", "--end-line", "2"]).ok();
    let sketch = json!({"path": "a.rs", "sketch": "fn a() {\n    one();\n}\n\n// ... existing code ...\n"});
    let error = ws.unchanged(|| ws.json("edit", &sketch).error("not_read"));
    assert_eq!(error["details"]["unseen_lines"], json!([[3, 4]]));
    let mut named = sketch.clone();
    named["expected_sha256"] = json!(sha256(text.as_bytes()));
    named["dry_run"] = json!(true);
    let _ = ws.json("edit", &named).success();
    ws.lbx(&["read", "a.rs", "--start-line", "3", "--end-line", "4"]).ok();
    let _ = ws.json("edit", &sketch).success();
    ws.holds("a.rs", "fn a() {\n    one();\n}\n\nfn b() {}\n");
}

#[test]
fn codex_patch_deletion_requires_a_full_read() {
    let ws = Workspace::with(&[("a.txt", TEN)]);
    ws.lbx(&["read", "a.txt", "--limit", "1"]).ok();
    let patch = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch\n";
    ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).error("not_read"));
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx_stdin(&["patch"], patch).ok();
}

#[test]
fn edit_of_both_ends_of_an_unseen_line_does_not_show_the_line() {
    let quotes: &[&str] = &["--old-string", "\"", "--new-string", "'", "--replace-all"];
    let pieces = r#"[{"old_string":"\"s1","new_string":"s 1"},{"old_string":"y\"","new_string":"y"}]"#;
    for edit in [quotes, &["--edits", pieces]] {
        let ws = Workspace::with(&[("a.csv", "h\n\"s1,secret,y\"\n")]);
        ws.lbx(&["read", "a.csv", "--end-line", "1"]).ok();
        ws.lbx(&[&["edit", "a.csv"], edit].concat()).ok();
        let error = ws.unchanged(|| ws.lbx(&["write", "a.csv", "--content", "new\n"]).error("not_read"));
        assert_eq!(error["details"]["unseen_lines"], json!([[2, 2]]), "{edit:?}: {error:#}");
    }
}

#[test]
fn block_that_moves_above_unseen_lines_does_not_show_them() {
    let edits = json!([
        { "old_string": "top\n", "new_string": "top\nf1\nf2\nf3\n" },
        { "old_string": "s2\nf1\nf2\nf3\n", "new_string": "s2\n" },
    ]);
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,4 @@\n top\n+f1\n+f2\n+f3\n@@ -4,4 +7,1 @@\n-f1\n-f2\n-f3\n end\n";
    for (tool, request) in
        [("edit", json!({ "path": "a.txt", "edits": edits })), ("patch", json!({ "patch": patch }))]
    {
        let ws = Workspace::with(&[("a.txt", "top\ns1\ns2\nf1\nf2\nf3\nend\n")]);
        ws.lbx(&["read", "a.txt", "--end-line", "1"]).ok();
        ws.lbx(&["read", "a.txt", "--start-line", "4"]).ok();
        ws.json(tool, &request).ok();
        ws.holds("a.txt", "top\nf1\nf2\nf3\ns1\ns2\nend\n");
        let error = ws.unchanged(|| ws.lbx(&["write", "a.txt", "--content", "new\n"]).error("not_read"));
        assert_eq!(error["details"]["unseen_lines"], json!([[5, 6]]), "{tool}: {error:#}");
    }
}

#[test]
fn what_undo_and_redo_bring_back_counts_as_shown_only_if_it_was() {
    let hide: &[&str] = &["bash", "sed -i 4,8d a.txt"];
    let read: &[&str] = &["read", "a.txt"];
    let undo: &[&str] = &["undo"];
    let unseen = "lines 4-8 were not shown";
    for (way, why) in [
        (&[hide, read, undo][..], unseen),
        (&[hide, read, &["undo", "--seq", "1"]], unseen),
        (&[hide, read, &["rewind", "--turn", "1", "--yes"]], unseen),
        (&[hide, undo, hide, read, undo], unseen),
        (&[&["bash", "sed -i 3ax a.txt"], undo, read, &["redo"]], "line 4 was not shown"),
        (&[hide, read, &["edit", "a.txt", "--old-string", "9", "--new-string", "nine"], undo, undo], unseen),
    ] {
        let ws = Workspace::with(&[("a.txt", TEN)]);
        way.iter().for_each(|call| drop(ws.lbx(call).success()));
        let error = ws.unchanged(|| ws.lbx(&["write", "a.txt", "--content", "new\n"]).error("not_read"));
        assert!(error["message"].as_str().unwrap().contains(why), "{way:?}: {error:#}");
    }
    // The session had declared the digest of bytes that it was not shown.
    let ws = Workspace::with(&[("a.txt", TEN)]);
    let digest = sha256(TEN.as_bytes());
    ws.lbx(&["write", "a.txt", "--content", "new\n", "--expected-sha256", &digest]).ok();
    ws.lbx(undo).ok();
    ws.unchanged(|| drop(ws.lbx(&["write", "a.txt", "--content", "new\n"]).error("not_read")));
    // What it was shown, or wrote, it knows again, after changes on top of it as well.
    let edit = |ws: &Workspace, old: &str, new: &str| {
        ws.lbx(&["edit", "a.txt", "--old-string", old, "--new-string", new]).ok();
    };
    for is_own in [false, true] {
        let ws = Workspace::with(if is_own { &[] } else { &[("a.txt", TEN)] });
        if is_own {
            ws.lbx(&["write", "a.txt", "--content", TEN]).ok();
        } else {
            ws.lbx(read).ok();
        }
        edit(&ws, "4\n5\n6\n", "");
        edit(&ws, "2\n", "two\n");
        ws.lbx(&["undo", "--steps", "2"]).ok();
        ws.holds("a.txt", TEN);
        ws.lbx(&["write", "a.txt", "--content", "new\n"]).ok();
    }
}

#[test]
fn only_lines_that_a_refusal_shows_count_as_read() {
    let long = format!("short\n{}\nlast\n", "x".repeat(60_000));
    let many: String = (1..=100).map(|line| format!("{line}\n")).collect();
    let ws = Workspace::with(&[("f", "head\nsecret\nthree\n"), ("long", &long), ("many", &many)]);
    // As text, the lines are on stderr.
    let edit = ["edit", "f", "-t", "--start-line", "2", "--end-line", "2", "--new-string", "q"];
    let refused = ws.lbx(&edit);
    assert_eq!(refused.status(), 5);
    assert!(refused.stderr().contains("2\tsecret"), "{}", refused.stderr());
    ws.lbx(&["read", "long", "--limit", "1"]).ok();
    for _ in 0..2 {
        let edit = ["edit", "long", "--start-line", "2", "--end-line", "2", "--new-string", "q"];
        let error = ws.unchanged(|| ws.lbx(&edit).error("not_read"));
        assert!(
            error["suggested_action"].as_str().unwrap().starts_with("Read line 2 of long (lbx read long "),
            "{error}"
        );
    }
    // Each refusal shows the next lines.
    let edit = ["edit", "many", "--start-line", "10", "--end-line", "90", "--new-string", "q"];
    for first in ["10\t10\n", "50\t50\n", "90\t90\n"] {
        let error = ws.lbx(&edit).error("not_read");
        assert!(error["details"]["lines"].as_str().unwrap().starts_with(first), "{error}");
    }
    ws.lbx(&edit).ok();
}

#[test]
fn edits_of_many_unseen_lines_name_the_smallest_read_of_those_not_shown() {
    let lines: String = (1..=100).map(|line| format!("line {line}\n")).collect();
    let long = format!("one\ntwo\n{}\nfour\nfive\n", "x".repeat(500));
    let ws = Workspace::with(&[("a.txt", &lines), ("long.txt", &long)]);
    ws.lbx(&["read", "a.txt", "long.txt", "--limit", "1"]).ok();
    let item = |first: u64, last: u64| json!({"start_line": first, "end_line": last, "new_string": "new\n"});
    for (path, edits, shown, read) in [
        ("a.txt", json!([item(5, 5), item(20, 90)]), 40, "lines 59 to 90 of a.txt"),
        ("long.txt", json!([item(2, 4)]), 1, "lines 3 to 4 of long.txt"),
    ] {
        let request = json!({"path": path, "edits": edits});
        let error = ws.unchanged(|| ws.json("edit", &request).error("not_read"));
        let advice = error["suggested_action"].as_str().unwrap();
        assert!(advice.starts_with(&format!("Read {read} (lbx read {path} --start-line ")), "{error:#}");
        assert_eq!(error["details"]["lines"].as_str().unwrap().lines().count(), shown, "{error:#}");
        let (_, command) = advice.split_once("(lbx ").unwrap();
        let (command, _) = command.split_once(')').unwrap();
        ws.lbx(&command.split(' ').collect::<Vec<_>>()).ok();
        ws.json("edit", &request).ok();
    }
    // All places of a call are shown at once.
    ws.write("a.txt", lines);
    let edits = json!([item(30, 30), item(60, 60), item(90, 90)]);
    let request = json!({"path": "a.txt", "edits": edits});
    let error = ws.lbx(&["edit", "--session", "other", "--json", &request.to_string()]).error("not_read");
    assert_eq!(error["details"]["lines"], "30\tline 30\n60\tline 60\n90\tline 90\n");
    ws.lbx(&["edit", "--session", "other", "--json", &request.to_string()]).ok();
}
