//! `patch` by line: sections that name a file, with edits that name lines as the session was shown them.

use serde_json::{Value, json};

use crate::common::{Workspace, sha256};

/// Five lines.
const FIVE: &str = "one\ntwo\nthree\nfour\nfive\n";

/// Creates a workspace with `files`, and reads all of them.
fn read_workspace(files: &[(&str, &str)]) -> Workspace {
    let ws = Workspace::with(files);
    for (path, _) in files {
        ws.lbx(&["read", path]).ok();
    }
    ws
}

/// Returns the message of an error.
fn message(error: &Value) -> &str {
    error["message"].as_str().unwrap()
}

#[test]
fn edits_by_line_of_several_files_are_one_change() {
    let ws = read_workspace(&[("a.txt", FIVE), ("b.txt", FIVE), ("c.txt", "x\n"), ("d.txt", "y\n")]);
    let patch = "\
[a.txt]
PUT 2.=3:
+2
+
++3
PUT <1:
+zero
PUT >5:
+six
CUT 4
[b.txt]
PUT >$:
+end
[c.txt]
REM
[d.txt]
PUT 1:
+- y
MV sub/d.txt
";
    let data = ws.lbx_stdin(&["patch"], patch).ok();
    ws.holds("a.txt", "zero\none\n2\n\n+3\nfive\nsix\n");
    ws.holds("b.txt", "one\ntwo\nthree\nfour\nfive\nend\n");
    ws.holds("sub/d.txt", "- y\n");
    assert!(!ws.path("c.txt").exists() && !ws.path("d.txt").exists());
    let places: Vec<_> =
        data["files"][0]["hunks"].as_array().unwrap().iter().map(|hunk| &hunk["line"]).collect();
    assert_eq!(places, [1, 3, 6, 7], "{data:#}");
    let actions: Vec<_> = data["files"].as_array().unwrap().iter().map(|file| &file["action"]).collect();
    assert_eq!(actions, ["modify", "modify", "delete", "rename"], "{data:#}");
    assert_eq!(ws.snapshots(), ["patch: 4 files"]);
    ws.lbx(&["undo"]).ok();
    ws.holds("a.txt", FIVE);
    ws.holds("d.txt", "y\n");
}

#[test]
fn cut_lines_move_within_a_file_and_to_another_without_being_repeated() {
    let ws = read_workspace(&[("a.txt", FIVE), ("b.txt", "x\ny\n")]);
    ws.lbx_stdin(&["patch"], "[a.txt]\nCUT 1.=2\nPUT >4\n[b.txt]\nPUT <1\nPUT 2 @tail\n")
        .error("patch_invalid");
    ws.lbx_stdin(&["patch"], "[a.txt]\nCUT 1.=2\nPUT >4\nCUT 5 @tail\n[b.txt]\nPUT <1\nPUT 2 @tail\n").ok();
    ws.holds("a.txt", "three\nfour\none\ntwo\n");
    ws.holds("b.txt", "one\ntwo\nx\nfive\n");
    // A file may go as a whole, once its lines are taken.
    ws.lbx(&["read", "a.txt", "b.txt"]).ok();
    ws.lbx_stdin(&["patch"], "[a.txt]\nCUT 3.=4 @all\nREM\n[b.txt]\nPUT >4 @all\n").ok();
    ws.holds("b.txt", "one\ntwo\nx\nfive\none\ntwo\n");
    assert!(!ws.path("a.txt").exists());
}

#[test]
fn numbers_count_as_shown_through_own_and_foreign_changes() {
    let ws = read_workspace(&[("a.txt", FIVE)]);
    ws.lbx_stdin(&["patch"], "[a.txt]\nCUT 1\nPUT >3:\n+3a\n+3b\n").ok();
    ws.holds("a.txt", "two\nthree\n3a\n3b\nfour\nfive\n");
    ws.write("a.txt", "new\ntwo\nthree\n3a\n3b\nfour\nfive\n");
    let answer = ws.lbx_stdin(&["patch"], "[a.txt]\nPUT 2:\n+2\nPUT 4.=5:\n+4\nPUT >5:\n+6\n");
    let data =
        answer.warned("lines 4 to 5 of a.txt as shown: lines 6 to 7 now; 1 other edit of it moved too");
    assert_eq!(data["files"][0]["hunks"][1]["offset"], 2, "{data:#}");
    ws.holds("a.txt", "new\n2\nthree\n3a\n3b\n4\n6\n");
}

#[test]
fn changed_or_unseen_lines_change_nothing_and_are_shown() {
    let ws = Workspace::with(&[("a.txt", FIVE), ("b.txt", FIVE), ("c.txt", FIVE)]);
    ws.lbx(&["read", "a.txt", "--limit", "3"]).ok();
    ws.lbx(&["read", "b.txt"]).ok();
    ws.write("b.txt", "one\nTWO\nthree\nfour\nfive\n");
    ws.unchanged(|| {
        let error = ws.lbx_stdin(&["patch", "--dry-run"], "[a.txt]\nPUT 5:\n+x\n").error("not_read");
        assert_eq!(
            (&error["details"]["lines"], &error["details"]["patch_line"]),
            (&json!("5\tfive\n"), &json!(2))
        );
        let error = ws.lbx_stdin(&["patch", "--dry-run"], "[b.txt]\nCUT 2\n").error("stale_file");
        assert!(error["details"]["lines"].as_str().unwrap().contains("2\tTWO\n"), "{error:#}");
        ws.lbx_stdin(&["patch"], "[c.txt]\nPUT 5:\n+x\n").error("not_read");
        ws.lbx_stdin(&["patch", "--dry-run"], "[a.txt]\nPUT >9:\n+x\n").error("stale_file");
    });
    // One call names the faults of all files, and shows their lines; the lines shown may be edited then.
    let patch = "[a.txt]\nPUT 1:\n+1\nPUT 5:\n+5\n[b.txt]\nCUT 2\n";
    let error = ws.lbx_stdin(&["patch"], patch).error("not_read");
    assert!(message(&error).ends_with("(and 1 more)"), "{error:#}");
    let other = &error["details"]["refused"][1];
    assert_eq!((&other["path"], &other["kind"]), (&json!("b.txt"), &json!("stale_file")), "{error:#}");
    assert_eq!(other["lines"], "1\tone\n2\tTWO\n3\tthree\n");
    ws.holds("a.txt", FIVE);
    ws.lbx_stdin(&["patch"], patch).ok();
    ws.holds("a.txt", "1\ntwo\nthree\nfour\n5\n");
    ws.holds("b.txt", "one\nthree\nfour\nfive\n");
}

#[test]
fn all_unseen_places_of_all_files_are_shown_at_once() {
    let lines: String = (1..=100).map(|line| format!("line {line}\n")).collect();
    let ws = Workspace::with(&[("a.txt", &lines), ("b.txt", &lines)]);
    ws.lbx(&["read", "a.txt", "b.txt", "--limit", "2"]).ok();
    let patch = "[a.txt]\nPUT 10:\n+x\nPUT 20:\n+y\n[b.txt]\nPUT 30:\n+x\nCUT 41.=42\n";
    let error = ws.lbx_stdin(&["patch"], patch).error("not_read");
    assert_eq!(
        message(&error),
        "line 10 of a.txt was never shown in this session (and 1 other place) (and 1 more)"
    );
    assert_eq!(
        error["suggested_action"],
        "`details.lines` has the present lines with their numbers: repeat the call with these."
    );
    assert_eq!(error["details"]["lines"], "10\tline 10\n20\tline 20\n");
    assert_eq!(error["details"]["refused"][1]["lines"], "30\tline 30\n41\tline 41\n42\tline 42\n");
    ws.lbx_stdin(&["patch"], patch).ok();
}

#[test]
fn row_that_repeats_the_line_just_outside_is_refused_unless_allowed() {
    let ws = read_workspace(&[("a.rs", "fn a() {\n    x();\n}\n"), ("b.rs", "}\n")]);
    let patch = "[a.rs]\nPUT 2:\n+    y();\n+}\n";
    let error = ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).error("ambiguous_match"));
    assert!(
        message(&error).starts_with("line 2 of the patch: the last new line is that of line 3"),
        "{error:#}"
    );
    assert_eq!(error["details"]["lines"], "2\t    x();\n3\t}\n");
    ws.lbx_stdin(&["patch", "--allow-repeat", "--dry-run"], patch).ok();
    // The line outside goes, too.
    ws.lbx_stdin(&["patch"], "[a.rs]\nPUT 2:\n+    y();\n+}\nCUT 3 @end\n[b.rs]\nPUT >1 @end\n").ok();
    ws.holds("a.rs", "fn a() {\n    y();\n}\n");
    ws.holds("b.rs", "}\n}\n");
}

#[test]
fn tag_or_expected_sha256_replaces_a_read_and_counts_lines_now() {
    let ws = Workspace::with(&[("a.txt", FIVE)]);
    let sha = sha256(FIVE.as_bytes());
    ws.unchanged(|| {
        ws.lbx_stdin(&["patch"], "[a.txt#00000000]\nCUT 1\n").error("stale_file");
        let error = ws.lbx_stdin(&["patch"], "[a.txt#A1B2]\nCUT 1\n").error("patch_invalid");
        assert!(message(&error).contains("a tag is 8 digits or more"), "{error:#}");
        ws.json(
            "patch",
            &json!({ "patch": "[a.txt]\nCUT 1\n", "expected_sha256_by_path": { "a.txt": "0" } }),
        )
        .error("invalid_request");
    });
    ws.lbx_stdin(&["patch"], format!("[a.txt#{}]\nCUT 1\nPUT >5:\n+six\n", &sha[..8])).ok();
    let now = "two\nthree\nfour\nfive\nsix\n";
    ws.holds("a.txt", now);
    let expected = json!({ "a.txt": sha256(now.as_bytes()) });
    ws.json("patch", &json!({ "patch": "[a.txt]\nCUT 1\n", "expected_sha256_by_path": expected })).ok();
    ws.holds("a.txt", "three\nfour\nfive\nsix\n");
    ws.json("patch", &json!({ "patch": "[a.txt]\nCUT 2\n", "expected_sha256_by_path": expected }))
        .error("stale_file");
    // Without a gate, lines that were not shown count as they are now, and must exist.
    ws.user_policy("gate = \"off\"\n");
    ws.lbx_stdin(&["patch"], "[a.txt]\nCUT 4.=5\n").error("stale_file");
    ws.lbx_stdin(&["patch"], "[a.txt]\nCUT 1\n").ok();
    ws.holds("a.txt", "four\nfive\nsix\n");
}

#[test]
fn malformed_edits_by_line_are_patch_invalid_with_their_line() {
    let ws = read_workspace(&[("a.txt", FIVE)]);
    ws.unchanged(|| {
        for (patch, line, part) in [
            ("[a.txt]\nPUT 2.=3:\n\n+x\n", 2, "no `+` row below"),
            ("[a.txt]\nPUT 2:\n", 2, "to delete lines, write CUT"),
            ("[a.txt]\nCUT 2\n+x\n", 3, "below no PUT"),
            ("[a.txt]\nPUT 2:\n+x\ntwo\n", 4, "expected PUT, CUT, REM, MV"),
            ("[a.txt]\nPUT 2\n", 2, "write `:` at the end"),
            ("[a.txt]\nPUT 2*:\n+x\n", 2, "name the lines"),
            ("[a.txt]\nPUT 3.=2:\n+x\n", 2, "line 2 is before line 3"),
            ("[a.txt]\nPUT 0:\n+x\n", 2, "lines count from 1"),
            ("[a.txt]\nPUT <0:\n+x\n", 2, "lines count from 1"),
            ("[a.txt]\nPUT 99999999999999999999:\n+x\n", 2, "expected a place"),
            ("[a.txt]\nCUT 1\nCUT <2\n", 3, "CUT names lines"),
            ("[a.txt]\nPUT >2 @fn\n", 2, "no CUT above fills"),
            ("[a.txt]\nCUT 2 @fn\nPUT >3 @fn:\n+x\n", 3, "takes no rows"),
            ("[a.txt]\nCUT 2 @f n\n", 2, "the name of a register"),
            ("[a.txt]\nPUT 2:\n+x\nREM\n", 2, "nothing to put"),
            ("[a.txt]\nMV b\nREM\n", 3, "removed or moved above"),
            ("[a.txt]\nCUT 2\n[b.txt]\n", 3, "no PUT, CUT, REM or MV follows"),
            ("[a.txt]\nCUT 2.=4\nPUT >3:\n+x\n", 3, "edited at line 2 of the patch too"),
            ("[a.txt]\nCUT 2.=4\n[./a.txt]\nCUT 4\n", 4, "edited at line 2 of the patch too"),
            ("[a.txt]\nCUT 2\n```\n--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n", 4, "another format"),
        ] {
            let error = ws.lbx_stdin(&["patch"], patch).error("patch_invalid");
            assert!(message(&error).contains(part), "{patch:?}: {error:#}");
            assert_eq!(error["details"]["line"], line, "{patch:?}: {error:#}");
        }
        ws.lbx_stdin(&["patch", "--reverse"], "[a.txt]\nCUT 2\n").error("invalid_request");
        ws.lbx_stdin(&["patch", "--path", "a.txt"], "[a.txt]\nCUT 2\n").error("invalid_request");
        ws.lbx_stdin(&["patch"], "[a.text]\nCUT 2\n").error("not_found");
        ws.lbx_stdin(&["patch"], "[../a.txt]\nCUT 2\n").error("outside_workspace");
        ws.lbx_stdin(&["patch"], "[a.txt]\nMV .git/config\n").error("protected_path");
    });
}

#[test]
fn edits_by_line_are_told_from_every_other_format() {
    for (patch, result) in [
        // In an envelope, in a fence and after prose.
        ("*** Begin Patch\n[a.txt]\nPUT 2:\n+2\n*** End Patch\n", "one\n2\nthree\nfour\nfive\n"),
        ("Here it is:\n\n```\n[a.txt]\nPUT 2:\n+2\n```\n\n[a link]\n", "one\n2\nthree\nfour\nfive\n"),
        ("[a.txt]\r\nPUT 2:\r\n+2\r\n", "one\n2\nthree\nfour\nfive\n"),
        ("[a.txt]\nPUT 1..2:\n+[b.txt]\n+REM\n", "[b.txt]\nREM\nthree\nfour\nfive\n"),
        // Such lines inside the other formats are text.
        (
            "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+[x]\n+REM\n*** End Patch\n",
            "one\n[x]\nREM\nthree\nfour\nfive\n",
        ),
        (
            "a.txt\n<<<<<<< SEARCH\ntwo\n=======\n[x]\nREM\n>>>>>>> REPLACE\n",
            "one\n[x]\nREM\nthree\nfour\nfive\n",
        ),
        ("--- a.txt\n+++ a.txt\n@@ -2 +2,2 @@\n-two\n+[x]\n+CUT 1\n", "one\n[x]\nCUT 1\nthree\nfour\nfive\n"),
        // A section needs an operation right below.
        ("[x]\nprose\n--- a.txt\n+++ a.txt\n@@ -2 +2 @@\n-two\n+2\n", "one\n2\nthree\nfour\nfive\n"),
    ] {
        let ws = read_workspace(&[("a.txt", FIVE)]);
        ws.lbx_stdin(&["patch"], patch).ok();
        ws.holds("a.txt", result);
    }
    let ws = read_workspace(&[("a.txt", FIVE)]);
    ws.unchanged(|| {
        let mixed = "[a.txt]\nCUT 2\n\n<<<<<<< SEARCH\none\n=======\n1\n>>>>>>> REPLACE\n";
        ws.lbx_stdin(&["patch"], mixed).error("patch_invalid");
        ws.lbx_stdin(&["patch"], "[a.txt]\n\nCUT 2\n").error("patch_invalid");
    });
}

#[test]
fn edited_lines_keep_endings_encoding_and_mark_of_their_file() {
    let utf16 = |text: &str| -> Vec<u8> {
        [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
    };
    for (before, after) in [
        (b"a\r\nb\r\nc\r\n".to_vec(), b"a\r\nB\r\nx\r\nc\r\n".to_vec()),
        (b"a\rb\rc".to_vec(), b"a\rB\rx\rc".to_vec()),
        (b"\xef\xbb\xbfa\nb\nc".to_vec(), b"\xef\xbb\xbfa\nB\nx\nc".to_vec()),
        (utf16("a\nb\nc\n"), utf16("a\nB\nx\nc\n")),
        (b"a\xff\nb\nc\n".to_vec(), b"a\xff\nB\nx\nc\n".to_vec()),
    ] {
        let ws = Workspace::with(&[("other.txt", "x\n")]);
        ws.write("a.txt", &before);
        assert_eq!(ws.lbx(&["read", "a.txt", "other.txt"]).status(), 0);
        ws.lbx_stdin(&["patch"], "[other.txt]\nCUT 1\n[a.txt]\nPUT 2:\n+B\nPUT >2\n").ok();
        ws.holds("a.txt", after);
    }
    let ws = Workspace::with(&[("b.txt", "b\n")]);
    ws.write("a.txt", b"a\xff\nb\n");
    assert_eq!(ws.lbx(&["read", "a.txt", "b.txt"]).status(), 0);
    ws.unchanged(|| {
        ws.lbx_stdin(&["patch"], "[a.txt]\nCUT 1\n[b.txt]\nPUT >1\n").error("unsupported_encoding")
    });
    // The last line of a file without a final newline, and a mark before a line that goes.
    ws.write("b.txt", "\u{feff}one\ntwo");
    ws.lbx(&["read", "b.txt"]).ok();
    ws.lbx_stdin(&["patch"], "[b.txt]\nCUT 1\nPUT >$:\n+three\n").ok();
    ws.holds("b.txt", "\u{feff}two\nthree");
}

#[test]
fn repeated_patch_by_line_is_already_applied() {
    let ws = read_workspace(&[("a.txt", FIVE)]);
    let patch = "[a.txt]\nPUT >2:\n+x\nMV b.txt\n";
    ws.lbx_stdin(&["patch"], patch).ok();
    let data = ws.lbx_stdin(&["patch"], patch).ok();
    assert_eq!(data["files"][0]["action"], "already_applied", "{data:#}");
    ws.holds("b.txt", "one\ntwo\nx\nthree\nfour\nfive\n");
}

#[test]
fn lines_pasted_over_and_over_are_bounded() {
    let ws = read_workspace(&[("a.txt", FIVE)]);
    ws.write("big.txt", "0123456789abcdef\n".repeat(50_000));
    ws.lbx(&["read", "big.txt", "--limit", "0", "--max-bytes", "0"]).ok();
    let patch = format!("[big.txt]\nCUT 1.=50000\n[a.txt]\n{}", "PUT >2\n".repeat(20_000));
    ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).error("too_large"));
    // Spans of edits beyond the file cost nothing.
    let patch = "[a.txt]\nPUT 3.=99999999999:\n+x\n";
    ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).error("stale_file"));
}

#[test]
fn two_names_of_one_file_are_not_edited_twice() {
    let ws = read_workspace(&[("a.txt", FIVE)]);
    ws.link("a.txt", "link.txt");
    let patch = "[a.txt]\nCUT 1\n[link.txt]\nCUT 5\n";
    ws.unchanged(|| assert!(!ws.lbx_stdin(&["patch"], patch).envelope()["ok"].as_bool().unwrap()));
    ws.lbx_stdin(&["patch"], "[link.txt]\nCUT 5\n").ok();
    ws.holds("a.txt", "one\ntwo\nthree\nfour\n");
}
