//! `edit` with exact matching.

use serde_json::{Value, json};

use crate::common::{Workspace, sha256};

/// Inserts a line at the start of a file, as another program.
fn prepend(ws: &Workspace, path: &str) {
    let text = [b"others\n".to_vec(), ws.read_bytes(path)].concat();
    ws.write(path, text);
}

/// Creates a workspace with one file that was read.
fn read(text: &str) -> Workspace {
    let ws = Workspace::with(&[("a.txt", text)]);
    let _ = ws.lbx(&["read", "a.txt"]).success();
    ws
}

#[test]
fn edit_changes_one_place_and_returns_its_lines() {
    let ws = read("one\ntwo\nthree\n");
    let envelope = ws.lbx(&["edit", "a.txt", "--old-string", "two\n", "--new-string", "2\n2.5\n"]).success();
    let wanted = json!({
        "path": "a.txt", "sha256": sha256(b"one\n2\n2.5\nthree\n"), "count": 1,
        "replacements": [{"start_line": 2, "end_line": 3}], "match": "exact",
    });
    assert_eq!(envelope["data"], wanted);
    assert_eq!(envelope["snapshot"], ws.git(&["rev-parse", "lbx-snapshots"]));
    ws.holds("a.txt", "one\n2\n2.5\nthree\n");
    assert_eq!(ws.snapshots(), ["edit: a.txt"]);
}

#[test]
fn edit_of_an_unread_file_suggests_the_smallest_read() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\nthree\n")]);
    let edit = ["edit", "a.txt", "--old-string", "two", "--new-string", "2"];
    let error = ws.unchanged(|| ws.lbx(&edit).error("not_read"));
    assert_eq!(error["message"], "refusing to edit a.txt: Read it first");
    let suggestion = error["suggested_action"].as_str().unwrap();
    assert!(suggestion.contains("lbx read a.txt --start-line 2 --end-line 2"), "{suggestion}");
    ws.lbx(&["read", "a.txt", "--start-line", "2", "--end-line", "2"]).ok();
    ws.lbx(&edit).ok();
}

#[test]
fn edit_of_a_file_changed_by_another_program_is_stale() {
    let ws = Workspace::with(&[("greet.txt", "hello\n")]);
    ws.lbx(&["read", "greet.txt"]).ok();
    ws.write("greet.txt", "hallo\n"); // another program steps in
    let error =
        ws.lbx(&["edit", "greet.txt", "--old-string", "hello", "--new-string", "hi"]).error("stale_file");
    assert_eq!(error["path"], "greet.txt");
    assert_eq!(error["details"]["rebase"], false);
    ws.holds("greet.txt", "hallo\n");
}

#[test]
fn missing_old_string_is_no_match_with_the_nearest_lines() {
    let ws = read("fn main() {\n    println!(\"hello\");\n}\n");
    let error = ws.unchanged(|| {
        ws.json("edit", &json!({"path": "a.txt", "old_string": "\tprintln!(\"hello\");", "new_string": "x"}))
            .error("no_match")
    });
    assert_eq!(
        error["message"],
        "`old_string` not found in a.txt. Make sure it matches exactly (including whitespace)."
    );
    assert_eq!(error["details"]["nearest"]["start_line"], 2);
    ws.lbx(&["edit", "a.txt", "--old-string", "zzzzzzz", "--new-string", "x"]).error("no_match");
}

#[test]
fn repeated_old_string_is_ambiguous_with_its_lines() {
    let ws = read("x = 1\ny = 2\nx = 1\n");
    let error = ws.unchanged(|| {
        ws.lbx(&["edit", "a.txt", "--old-string", "x = 1", "--new-string", "x = 3"]).error("ambiguous_match")
    });
    assert_eq!(
        error["message"],
        "`old_string` appears 2 times in a.txt. Include more surrounding context to make it unique."
    );
    let lines: Vec<&Value> =
        error["details"]["places"].as_array().unwrap().iter().map(|place| &place["line"]).collect();
    assert_eq!(lines, [1, 3]);
}

#[test]
fn replace_all_replaces_every_match() {
    let ws = read("x\ny x\nxx\n");
    let data =
        ws.lbx(&["edit", "a.txt", "--old-string", "x", "--new-string", "longer", "--replace-all"]).ok();
    assert_eq!(data["count"], 4);
    ws.holds("a.txt", "longer\ny longer\nlongerlonger\n");
    let lines: Vec<&Value> =
        data["replacements"].as_array().unwrap().iter().map(|place| &place["start_line"]).collect();
    assert_eq!(lines, [1, 2, 3, 3]);
}

#[test]
fn expected_replacements_must_equal_the_match_count() {
    let ws = read("x\nx\nx\n");
    let edit = |count: u64| json!({"path": "a.txt", "old_string": "x", "new_string": "yyyy", "expected_replacements": count});
    ws.unchanged(|| {
        ws.json("edit", &edit(2)).error("ambiguous_match");
        ws.json("edit", &edit(4)).error("ambiguous_match");
        let none =
            json!({"path": "a.txt", "old_string": "zz", "new_string": "y", "expected_replacements": 1});
        ws.json("edit", &none).error("no_match");
    });
    assert_eq!(ws.json("edit", &edit(3)).ok()["count"], 3);
    ws.holds("a.txt", "yyyy\nyyyy\nyyyy\n");
}

#[test]
fn edit_word_skips_longer_words() {
    let ws = read("id idx _id id.x\n");
    ws.lbx(&["edit", "a.txt", "--old-string", "id", "--new-string", "key", "--word", "--replace-all"]).ok();
    ws.holds("a.txt", "key idx _id key.x\n");
}

#[test]
fn edits_apply_in_order_and_all_or_nothing() {
    let ws = read("one\ntwo\n");
    let edits = json!({"path": "a.txt", "edits": [
        {"old_string": "one", "new_string": "1"},
        {"old_string": "1\ntwo", "new_string": "1\n2\n3"},
    ]});
    let data = ws.json("edit", &edits).ok();
    assert_eq!(data["count"], 2);
    ws.holds("a.txt", "1\n2\n3\n");
    let half = json!({"path": "a.txt", "edits": [
        {"old_string": "1", "new_string": "one"},
        {"old_string": "1", "new_string": "again"},
    ]});
    let error = ws.unchanged(|| ws.json("edit", &half).error("no_match"));
    assert!(error["message"].as_str().unwrap().starts_with("edit 2 of 2: "), "{error}");
    assert_eq!(ws.snapshots(), ["edit: a.txt"]);
}

#[test]
fn edits_flag_takes_json_or_a_file() {
    let ws = read("one\ntwo\n");
    let edits = r#"[{"old_str": "one", "new_str": "1"}, {"old_string": "1", "new_string": "-1"}]"#;
    assert_eq!(ws.lbx(&["edit", "a.txt", "--edits", edits]).ok()["count"], 2);
    std::fs::write(ws.outside.join("edits.json"), r#"{"old_string": "-1", "new_string": "one"}"#).unwrap();
    let file = format!("@{}", ws.outside.join("edits.json").display());
    ws.lbx(&["edit", "a.txt", "--edits", &file]).ok();
    ws.holds("a.txt", "one\ntwo\n");
    let wrong = |edits: &str| ws.lbx(&["edit", "a.txt", "--edits", edits]).error("invalid_request");
    let error = wrong(r#"[{"old_string": "one", "new_text": "1", "occurence": 1}]"#);
    assert!(error["message"].as_str().unwrap().contains("unknown field `edits[0].occurence`"), "{error}");
    for edits in ["", "-", "[", "[]", "1", r#"[{"old_string":"one","old_string":"one","new_string":"1"}]"#] {
        ws.unchanged(|| wrong(edits));
    }
}

#[test]
fn edit_of_several_files_is_one_snapshot_or_nothing() {
    let ws = Workspace::with(&[("a.txt", "name\n"), ("b.txt", "name\n"), ("c.txt", "other\n")]);
    ws.lbx(&["read", "a.txt", "b.txt", "c.txt"]).ok();
    let edit = |paths: &[&str]| json!({"paths": paths, "old_string": "name", "new_string": "title"});
    ws.unchanged(|| {
        ws.json("edit", &edit(&["a.txt", "b.txt", "c.txt"])).error("no_match");
        ws.json("edit", &edit(&["a.txt", "a.txt"])).error("invalid_request");
        ws.json("edit", &edit(&["a.txt", "none.txt"])).error("not_found");
    });
    let data = ws.json("edit", &edit(&["a.txt", "b.txt"])).ok();
    assert_eq!(data["files"].as_array().unwrap().len(), 2);
    ws.holds("b.txt", "title\n");
    assert_eq!(ws.snapshots(), ["edit: 2 files"]);
}

#[test]
fn repeated_edit_is_already_applied() {
    let ws = read("the old name\n");
    let edit = ["edit", "a.txt", "--old-string", "the old name", "--new-string", "the new name"];
    ws.lbx(&edit).ok();
    let envelope = ws.unchanged(|| ws.lbx(&edit).success());
    assert_eq!(envelope["data"]["match"], "already_applied");
    assert_eq!(envelope["snapshot"], Value::Null);
    assert_eq!(ws.snapshots().len(), 1);
}

#[test]
fn repeated_edit_that_extends_old_string_is_applied_once() {
    let ws = read("use std::fmt;\n\nfn main() {}\n");
    let edit =
        ["edit", "a.txt", "--old-string", "use std::fmt;\n", "--new-string", "use std::fmt;\nuse std::io;\n"];
    ws.lbx(&edit).ok();
    assert_eq!(ws.lbx(&edit).ok()["match"], "already_applied");
    ws.holds("a.txt", "use std::fmt;\nuse std::io;\n\nfn main() {}\n");
}

#[test]
fn rebase_keeps_changes_to_other_lines() {
    let ws = read("one\nzwei\nthree\nfour\nfive\nsix\n");
    ws.lbx(&["edit", "a.txt", "--old-string", "zwei", "--new-string", "two"]).ok();
    ws.write("a.txt", "one\ntwo\nthree\nfour\nfive\nSIX\n");
    let edit = json!({"path": "a.txt", "old_string": "one", "new_string": "1"});
    let error = ws.json("edit", &edit).error("stale_file");
    assert_eq!(error["details"]["rebase"], true);
    assert!(error["suggested_action"].as_str().unwrap().contains("rebase"), "{error}");
    let mut rebase = edit;
    rebase["rebase"] = json!(true);
    assert_eq!(ws.json("edit", &rebase).warned("changed since the read")["rebased"], true);
    ws.holds("a.txt", "1\ntwo\nthree\nfour\nfive\nSIX\n");
    // The change of the other program is a separate commit.
    let subjects = ws.snapshots();
    assert_eq!(subjects[0], "edit: a.txt");
    assert!(subjects[1].starts_with("external: "), "{subjects:?}");
    assert_eq!(subjects[2..], ["edit: a.txt"]);
}

#[test]
fn rebase_over_the_same_lines_is_stale() {
    let ws = read("one\ntwo\nthree\n");
    ws.write("a.txt", "ONE\ntwo\nthree\n");
    let edit = json!({"path": "a.txt", "old_string": "one", "new_string": "1", "rebase": true});
    ws.unchanged(|| ws.json("edit", &edit).error("stale_file"));
}

#[test]
fn edit_never_creates_a_missing_file() {
    let ws = Workspace::with(&[]);
    ws.unchanged(|| {
        ws.lbx(&["edit", "a.txt", "--old-string", "x", "--new-string", "y"]).error("not_found");
        ws.lbx(&["edit", "a.txt", "--old-string", "", "--new-string", "y"]).error("invalid_request");
    });
}

#[test]
fn edit_dry_run_shows_the_diff_and_changes_nothing() {
    let ws = read("one\n");
    ws.unchanged(|| {
        let data = ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "1", "--dry-run"]).ok();
        assert!(data["diff"].as_str().unwrap().contains("-one\n+1\n"), "{data}");
        assert_eq!(data["sha256"], sha256(b"1\n"));
    });
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "1"]).ok();
}

#[test]
fn edit_after_an_edit_needs_no_read() {
    let ws = read("1\n2\n3\n");
    for (old, new) in [("1", "one"), ("2", "two"), ("3", "three")] {
        ws.lbx(&["edit", "a.txt", "--old-string", old, "--new-string", new]).ok();
    }
    ws.holds("a.txt", "one\ntwo\nthree\n");
    assert_eq!(ws.snapshots().len(), 3);
}

#[test]
fn overlapping_matches_are_ambiguous() {
    let ws = read("aaa\n");
    ws.lbx(&["edit", "a.txt", "--old-string", "aa", "--new-string", "b"]).error("ambiguous_match");
}

#[test]
fn empty_new_string_deletes_the_text() {
    let ws = read("one\ntwo\n");
    ws.lbx(&["edit", "a.txt", "--old-string", "one\ntwo\n", "--new-string", ""]).ok();
    ws.holds("a.txt", "");
}

#[test]
fn edit_counts_all_matches_and_lists_the_first_20() {
    let ws = read(&"x\n".repeat(500));
    let data = ws.lbx(&["edit", "a.txt", "--old-string", "x", "--new-string", "y", "--replace-all"]).ok();
    assert_eq!((&data["count"], data["replacements"].as_array().unwrap().len()), (&json!(500), 20));
}

#[test]
fn flexible_match_is_set_by_flag_or_policy() {
    let ws = read("if a {\n\tb();\n}\n");
    let edit = ["edit", "a.txt", "--old-string", "    b();", "--new-string", "    c();"];
    let error = ws.unchanged(|| ws.lbx(&edit).error("no_match"));
    assert_eq!(error["details"]["flexible"]["match"], "indentation");
    assert!(error["suggested_action"].as_str().unwrap().contains("set `match` to \"flexible\""), "{error}");
    let exact = [&["--set", "match=flexible"][..], &edit, &["--match", "exact"]].concat();
    ws.unchanged(|| ws.lbx(&exact).error("no_match"));
    let by_policy = [&["--set", "match=flexible"][..], &edit].concat();
    assert_eq!(ws.lbx(&by_policy).ok()["match"], "indentation");
    ws.holds("a.txt", "if a {\n\tc();\n}\n");
    let text = [&edit[..], &["--match", "flexible", "--text"]].concat();
    ws.lbx_stdin(&["write", "a.txt"], "if a {\n\tb();\n}\n").ok();
    let said = ws.lbx(&text).stdout_text();
    assert_eq!(said, "edit: a.txt (1 replaced at line 2, but for the indentation)\n");
}

#[test]
fn edit_flags_apply_to_blocks_on_stdin() {
    let ws = read("\tone\n\ttwo\n");
    let blocks = "<<<<<<< SEARCH\n  one\n=======\n  1\n>>>>>>> REPLACE\n";
    ws.unchanged(|| ws.lbx_stdin(&["edit", "a.txt"], blocks).error("no_match"));
    assert_eq!(ws.lbx_stdin(&["edit", "a.txt", "--match", "flexible"], blocks).ok()["match"], "indentation");
    ws.holds("a.txt", "\t1\n\ttwo\n");
    ws.write("b.txt", "x\ny\nx\n");
    ws.lbx(&["read", "b.txt"]).ok();
    let blocks = "<<<<<<< SEARCH\nx\n=======\nz\n>>>>>>> REPLACE\n";
    ws.lbx_stdin(&["edit", "b.txt", "--occurrence", "2"], blocks).ok();
    ws.holds("b.txt", "x\ny\nz\n");
}

#[test]
fn sketch_is_accepted_on_stdin_or_as_a_flag() {
    let ws = read("fn a() {\n    one();\n}\n\nfn b() {\n    two();\n}\n");
    let sketch = "// ... existing code ...\nfn b() {\n    three();\n}\n";
    let data = ws.lbx_stdin(&["edit", "a.txt", "--sketch", "-"], sketch).ok();
    assert_eq!((&data["match"], &data["replacements"][0]["start_line"]), (&json!("sketch"), &json!(5)));
    ws.holds("a.txt", "fn a() {\n    one();\n}\n\nfn b() {\n    three();\n}\n");
    // With the sketch as a flag nothing waits for stdin.
    let again =
        ws.call(&["edit", "a.txt", "--sketch", "fn a() {\n    zero();\n}\n// ...\n"]).stdin_never_closes();
    assert_eq!(again.run().ok()["match"], "sketch");
    ws.holds("a.txt", "fn a() {\n    zero();\n}\n\nfn b() {\n    three();\n}\n");
    ws.unchanged(|| ws.lbx(&["edit", "a.txt", "--sketch", "-"]).error("no_match"));
}

#[test]
fn edit_of_lines_checks_range_sha256_from_read() {
    let ws = read("one\r\ntwo\r\nthree\r\n");
    let shown = ws.lbx(&["read", "a.txt", "--start-line", "2", "--end-line", "2"]).ok();
    let sha256 = shown["range_sha256"].as_str().unwrap().to_owned();
    assert_eq!(sha256, self::sha256(b"two\r\n"));
    let edit = ["edit", "a.txt", "--start-line", "2", "--end-line", "2", "--range-sha256", &sha256];
    assert_eq!(ws.lbx_stdin(&edit, "2\n2.5\n").ok()["match"], "lines");
    ws.holds("a.txt", "one\r\n2\r\n2.5\r\nthree\r\n");
    let error = ws.unchanged(|| ws.lbx_stdin(&edit, "3\n").error("stale_file"));
    assert_eq!(error["details"]["lines"], "1\tone\n2\t2\n3\t2.5\n4\tthree\n");
    // The gate still requires that the file was read.
    ws.write("b.txt", "x\ny\n");
    let line = sha256_of_line(&ws);
    let unread = ["edit", "b.txt", "--start-line", "1", "--end-line", "1", "--range-sha256", &line];
    let error = ws.unchanged(|| ws.lbx_stdin(&unread, "z\n").error("not_read"));
    assert!(error["suggested_action"].as_str().unwrap().contains("--start-line 1 --end-line 1"), "{error}");
}

/// Returns the SHA-256 of the first line of `b.txt`, which nobody has read through lbx.
fn sha256_of_line(ws: &Workspace) -> String {
    sha256(&ws.read_bytes("b.txt")[..2])
}

#[test]
fn rebase_follows_a_line_range_moved_by_other_changes() {
    let ws = read("one\ntwo\nthree\nfour\nfive\n");
    // A file that lbx changed, so that its earlier bytes are available.
    ws.lbx(&["edit", "a.txt", "--old-string", "five", "--new-string", "5"]).ok();
    let seen = ws.lbx(&["read", "a.txt", "--start-line", "4", "--end-line", "4"]).ok();
    ws.write("a.txt", "zero\none\ntwo\nthree\nfour\n5\n");
    let edit = json!({"path": "a.txt", "start_line": 4, "end_line": 4, "new_string": "4\n",
        "range_sha256": seen["range_sha256"], "rebase": true});
    ws.json("edit", &edit).warned("changed since the read");
    ws.holds("a.txt", "zero\none\ntwo\nthree\n4\n5\n");
}

#[test]
fn no_match_names_a_similar_file_with_the_text() {
    let ws = Workspace::with(&[
        ("a/mod.rs", "fn a() {}\n"),
        ("b/mod.rs", "fn b() {}\n"),
        ("b/c.rs", "fn b() {}\n"),
    ]);
    ws.lbx(&["read", "a/mod.rs"]).ok();
    let error =
        ws.lbx(&["edit", "a/mod.rs", "--old-string", "fn b() {}", "--new-string", "x"]).error("no_match");
    assert_eq!(error["details"]["elsewhere"], json!(["b/mod.rs"]));
}

/// The walk for files of the same name is short; the index of git knows the rest of a large tree.
#[test]
fn no_match_names_a_tracked_file_behind_thousands_of_others() {
    let ws = Workspace::with(&[("z/mod.rs", "fn b() {}\n"), ("z/.hidden/mod.rs", "fn b() {}\n")]);
    (0..2_100).for_each(|number| ws.write(&format!("b/{number}"), ""));
    ws.write("z/MOD.rs", "fn b() {}\n");
    ws.git(&["add", "-A"]);
    ws.write("a/mod.rs", "fn a() {}\n");
    ws.lbx(&["read", "a/mod.rs"]).ok();
    let error =
        ws.lbx(&["edit", "a/mod.rs", "--old-string", "fn b() {}", "--new-string", "x"]).error("no_match");
    assert_eq!(error["details"]["elsewhere"], json!(["z/mod.rs"]));
}

#[test]
fn no_match_says_that_the_file_changed_since_the_read() {
    let ws = read("fn old_name() {}\n");
    ws.lbx(&["edit", "a.txt", "--old-string", "{}", "--new-string", "{ }"]).ok();
    let now = b"fn new_name() { }\n";
    ws.write("a.txt", now);
    let edit = json!({"path": "a.txt", "old_string": "fn old_name", "new_string": "x", "expected_sha256": sha256(now)});
    let error = ws.json("edit", &edit).error("no_match");
    assert_eq!(error["details"]["changed_since_read"], true);
    assert!(error["suggested_action"].as_str().unwrap().contains("then had this text"), "{error}");
}

#[test]
fn sketch_warns_about_the_lines_it_deletes() {
    let ws = read("a\nb\nc\nd\n");
    let sketch = json!({"path": "a.txt", "sketch": "a\nd\n"});
    ws.json("edit", &sketch).warned("the sketch omits lines 2 to 3 of a.txt; they were deleted");
    ws.holds("a.txt", "a\nd\n");
}

#[test]
fn several_edits_replace_120000_matches() {
    let ws = Workspace::with(&[("a.txt", &"let value = compute(a);\n".repeat(60_000))]);
    ws.lbx(&["read", "a.txt"]).ok();
    let edits = json!([
        {"old_string": "let value", "new_string": "const VALUE", "replace_all": true},
        {"old_string": "compute(", "new_string": "sum(", "replace_all": true},
    ]);
    let data = ws.json("edit", &json!({"path": "a.txt", "edits": edits})).ok();
    assert_eq!((&data["count"], data["replacements"].as_array().unwrap().len()), (&json!(120_000), 20));
    ws.holds("a.txt", "const VALUE = sum(a);\n".repeat(60_000));
    // A tier stops after a number of matches, and says that there may be more.
    let flexible = [
        "edit",
        "a.txt",
        "--match",
        "flexible",
        "--old-string",
        "\tconst VALUE = sum(a);",
        "--new-string",
        "x",
    ];
    let error = ws.lbx(&flexible).error("ambiguous_match");
    assert!(error["message"].as_str().unwrap().contains("appears at least 1000 times"), "{error}");
}

#[test]
fn new_lines_get_the_line_ending_of_the_old_file() {
    for (before, edits, after) in [
        (
            "a\r\nb",
            r#"[{"old_string":"a\n","new_string":""},{"old_string":"b","new_string":"b\nc"}]"#,
            "b\r\nc",
        ),
        (
            "a\r\nb",
            r#"[{"old_string":"a\nb","new_string":"ab"},{"old_string":"ab","new_string":"x\ny\n"}]"#,
            "x\r\ny\r\n",
        ),
        ("a\nb", r#"[{"old_string":"a\n","new_string":""},{"old_string":"b","new_string":"b\nc"}]"#, "b\nc"),
        ("a\rb", r#"[{"old_string":"a\n","new_string":""},{"old_string":"b","new_string":"b\nc"}]"#, "b\rc"),
    ] {
        let ws = Workspace::with(&[("f.txt", before)]);
        ws.lbx(&["read", "f.txt"]).ok();
        ws.lbx(&["edit", "f.txt", "--edits", edits]).ok();
        ws.holds("f.txt", after);
    }
}

#[test]
fn flexible_match_ignores_whitespace_of_blank_lines() {
    for (before, old) in [
        ("a = 1\n\nb = 2\n", "a = 1\n   \nb = 2"),
        ("a = 1\n \t\nb = 2\n", "a = 1\n\nb = 2"),
        ("a = 1\n\nb = 2\n", "a = 1 \n\nb = 2"),
    ] {
        let ws = Workspace::with(&[("f.txt", before)]);
        ws.lbx(&["read", "f.txt"]).ok();
        let edit =
            ["edit", "f.txt", "--match", "flexible", "--old-string", old, "--new-string", "a = 1\nb = 2"];
        ws.lbx(&edit).ok();
        ws.holds("f.txt", "a = 1\nb = 2\n");
        // A repeated request makes no second change.
        ws.lbx(&["append", "f.txt", "--content", "c = 3\n"]).ok();
        ws.lbx(&edit).error("no_match");
    }
}

#[test]
fn edit_maps_shown_line_numbers_to_current_lines() {
    let ten: String = (1..=10).map(|line| format!("line {line}\n")).collect();
    let ws = Workspace::with(&[("a.txt", &ten)]);
    let edit = |first: &str, last: &str, new: &str| {
        ws.call(&["edit", "a.txt", "--start-line", first, "--end-line", last, "--new-string", new]).run()
    };
    let error = edit("2", "2", "x").error("not_read");
    assert_eq!(error["message"], "line 2 of a.txt was never shown in this session", "{error:#}");
    ws.lbx(&["read", "a.txt", "--start-line", "2", "--end-line", "8"]).ok();
    // An error shows the lines, and they count as shown.
    let error = edit("9", "10", "x").error("not_read");
    assert_eq!(error["details"]["lines"], "9\tline 9\n10\tline 10\n", "{error:#}");
    edit("2", "3", "two\nand\na half\n").ok();
    let data = edit("9", "9", "nine").warned("line 9 of a.txt as shown: line 10 now");
    assert_eq!(data["replacements"], json!([{"start_line": 10, "end_line": 10}]));
    prepend(&ws, "a.txt");
    let moved = edit("7", "7", "seven").success();
    assert!(moved["warnings"].to_string().contains("changed since the read"), "{moved:#}");
    let data =
        ws.lbx(&["insert", "a.txt", "8", "--content", "8.5"]).warned("line 8 of a.txt as shown: line 10");
    assert_eq!(data["replacements"], json!([{"start_line": 11, "end_line": 11}]));
    ws.holds(
        "a.txt",
        "others\nline 1\ntwo\nand\na half\nline 4\nline 5\nline 6\nseven\nline 8\n8.5\nnine\nline 10\n",
    );
    // A change since then is reported with the current lines.
    let error = edit("2", "3", "x").error("stale_file");
    assert_eq!(error["details"]["lines"], "1\tothers\n2\tline 1\n3\ttwo\n4\tand\n5\ta half\n6\tline 4\n");
    edit("3", "4", "2\n").ok();
    // Several edits at once use the same line numbers.
    let edits = json!([
        {"start_line": 5, "end_line": 5, "new_string": "five\nfive\n"},
        {"start_line": 10, "end_line": 10, "new_string": "ten\n"},
    ]);
    ws.json("edit", &json!({"path": "a.txt", "edits": edits})).success();
    ws.holds(
        "a.txt",
        "others\nline 1\n2\nfive\nfive\nline 4\nline 5\nline 6\nseven\nline 8\n8.5\nnine\nten\n",
    );
}

#[test]
fn shown_line_numbers_come_back_with_the_version_that_was_shown() {
    let block = "def test():\n    setup()\n    check(1)\n\n";
    let text = block.repeat(6);
    let insert: &[&str] = &["insert", "t.py", "8", "--content", block];
    let cut: &[&str] = &["edit", "t.py", "--start-line", "5", "--end-line", "8", "--new-string", ""];
    let undo: &[&str] = &["undo"];
    let outside: &[&str] = &[];
    let top: &[&str] = &["insert", "t.py", "0", "--content", "import x"];
    for calls in [
        &[insert, undo][..],
        &[cut, undo],
        &[insert, insert, &["undo", "--steps", "2"]],
        &[insert, undo, &["redo"], undo],
        &[insert, outside],
        &[insert, top, top, top, top, top, top, top, top, &["undo", "--steps", "9"]],
        &[insert, top, top, top, top, top, top, top, top, outside],
    ] {
        let ws = Workspace::with(&[("t.py", &text)]);
        ws.lbx(&["read", "t.py"]).ok();
        for call in calls {
            if call.is_empty() { ws.write("t.py", &text) } else { drop(ws.lbx(call).success()) }
        }
        ws.holds("t.py", &text);
        let edit =
            ["edit", "t.py", "--start-line", "19", "--end-line", "19", "--new-string", "    check(5)\n"];
        ws.lbx(&edit).success();
        ws.holds("t.py", format!("{}{}{block}", block.repeat(4), block.replace("check(1)", "check(5)")));
    }
    // Lines that were shown since, under other numbers, are followed back by these.
    let ws = Workspace::with(&[("t.py", &text)]);
    ws.lbx(&["read", "t.py"]).ok();
    ws.lbx(insert).ok();
    ws.lbx(&["read", "t.py", "--start-line", "23", "--end-line", "23"]).ok();
    ws.lbx(undo).ok();
    let edit = ["edit", "t.py", "--start-line", "23", "--end-line", "23", "--new-string", "    check(5)\n"];
    ws.lbx(&edit).warned("line 23 of t.py as shown: line 19 now");
}

#[test]
fn open_gate_follows_shown_line_numbers_too() {
    let five: String = (1..=5).map(|line| format!("line {line}\n")).collect();
    let edit: &[&str] = &["edit", "a.txt", "--start-line", "3", "--end-line", "3", "--new-string", "three\n"];
    let insert: &[&str] = &["insert", "a.txt", "3", "--content", "three"];
    let patch: &[&str] = &["patch", "--patch", "[a.txt]\nPUT 3:\n+three\n"];
    let replaced = "new\nline 1\nline 2\nthree\nline 4\nline 5\n";
    let inserted = "new\nline 1\nline 2\nline 3\nthree\nline 4\nline 5\n";
    for gate in ["warn", "off"] {
        for (call, after) in [(edit, replaced), (insert, inserted), (patch, replaced)] {
            let ws = Workspace::with(&[("a.txt", &five)]);
            ws.user_policy(&format!("gate = \"{gate}\"\n"));
            ws.lbx(&["read", "a.txt"]).ok();
            ws.lbx(&["insert", "a.txt", "0", "--content", "new"]).ok();
            ws.lbx(call).warned("line 3 of a.txt as shown: line 4 now");
            ws.holds("a.txt", after);
            // Without a record of a line, its present number counts.
            ws.write("b.txt", &five);
            let answer = ws
                .call(&call.iter().map(|it| it.replace("a.txt", "b.txt")).collect::<Vec<_>>())
                .run()
                .success();
            assert_eq!(answer.get("warnings").is_some(), gate == "warn", "{answer:#}");
            ws.holds("b.txt", after.strip_prefix("new\n").unwrap());
        }
    }
}

#[test]
fn new_lines_that_repeat_an_adjacent_line_are_rejected() {
    let ws = Workspace::with(&[("a.rs", "fn a() {\n    1\n}\nfn b() {\n}\n")]);
    ws.lbx(&["read", "a.rs"]).ok();
    let edit = ["edit", "a.rs", "--start-line", "2", "--end-line", "2", "--new-string", "    2\n}\n"];
    let error = ws.unchanged(|| ws.lbx(&edit).error("ambiguous_match"));
    assert!(error["message"].as_str().unwrap().contains("the last new line is that of line 3"), "{error:#}");
    assert_eq!(error["details"]["lines"], "2\t    1\n3\t}\n", "{error:#}");
    ws.lbx(&[&edit[..], &["--allow-repeat"]].concat()).ok();
    ws.holds("a.rs", "fn a() {\n    2\n}\n}\nfn b() {\n}\n");
}

#[test]
fn line_numbers_select_one_of_two_equal_blocks() {
    let block = "fn x() {\n    old();\n}\n";
    let ws = Workspace::with(&[("a.rs", &format!("{block}mid\n{block}"))]);
    ws.lbx(&["read", "a.rs"]).ok();
    let sha = &sha256(block.as_bytes())[..8];
    // An edit of the session and one of another program move the second one down.
    ws.lbx(&["insert", "a.rs", "0", "--content", "// top\n// top\n// top\n// top"]).ok();
    prepend(&ws, "a.rs");
    let range = ["edit", "a.rs", "--start-line", "5", "--end-line", "7", "--new-string", "new\n"];
    ws.lbx(&[&range[..], &["--range-sha256", sha]].concat()).success();
    ws.holds("a.rs", format!("others\n{}{block}mid\nnew\n", "// top\n".repeat(4)));
}

#[test]
fn line_numbers_past_the_end_are_rejected() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\n")]);
    let largest = u64::MAX.to_string();
    ws.lbx(&["read", "a.txt"]).ok();
    for _ in 0..2 {
        ws.lbx(&["insert", "a.txt", &largest, "--content", "x"]).error("invalid_request");
        for (first, last) in [("1", largest.as_str()), (&largest, &largest), ("2", "3")] {
            let edit = ["edit", "a.txt", "--start-line", first, "--end-line", last, "--new-string", "x"];
            let error = ws.unchanged(|| ws.lbx(&edit).error("stale_file"));
            assert!(error["details"]["lines"].as_str().unwrap().contains("two"), "{error:#}");
        }
        // Again, after a shown line was deleted.
        ws.lbx(&["edit", "a.txt", "--old-string", "one\n", "--new-string", "1\n1\n"]).success();
        ws.write("a.txt", "one\ntwo\n");
        ws.lbx(&["read", "a.txt"]).ok();
    }
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "1"]).ok();
    let edit = ["edit", "a.txt", "--start-line", "1", "--end-line", &largest, "--new-string", "x"];
    ws.unchanged(|| ws.lbx(&edit).error("stale_file"));
}

#[test]
fn repeat_check_uses_the_version_of_the_line_numbers() {
    let before = "a\nb\nc\nd\ne\nf\n";
    let ws = Workspace::with(&[("a.txt", before)]);
    ws.lbx(&["read", "a.txt"]).ok();
    prepend(&ws, "a.txt");
    // Line 3 is `c` in the given version, and `b` in the file.
    let request = json!({"path": "a.txt", "start_line": 4, "end_line": 4, "new_string": "b\n",
        "range_sha256": sha256(b"d\n"), "expected_sha256": sha256(before.as_bytes()), "rebase": true});
    ws.json("edit", &request).success();
    ws.holds("a.txt", "others\na\nb\nc\nb\ne\nf\n");
}

#[test]
fn line_edit_of_an_empty_or_binary_file_explains_why() {
    let ws = Workspace::with(&[("empty.txt", ""), ("a.bin", "\0\u{1}\n")]);
    for (path, part) in [("empty.txt", "The file is empty"), ("a.bin", "The file is no text")] {
        let edit = ["edit", path, "--start-line", "1", "--end-line", "1", "--new-string", "x"];
        let error = ws.unchanged(|| ws.lbx(&edit).envelope()["error"].take());
        assert!(error["suggested_action"].as_str().unwrap().starts_with(part), "{error:#}");
        assert!(error["details"].get("lines").is_none(), "{error:#}");
    }
}

#[test]
fn ambiguous_match_lists_each_line_once_with_a_count() {
    let ws = Workspace::with(&[("a.txt", "x x x\ny\nx\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let edit = ["edit", "a.txt", "--old-string", "x", "--new-string", "z"];
    let error = ws.unchanged(|| ws.lbx(&edit).error("ambiguous_match"));
    let places = json!([{"line": 1, "text": "x x x", "count": 3}, {"line": 3, "text": "x", "before": "y"}]);
    assert_eq!((&error["details"]["count"], &error["details"]["places"]), (&json!(4), &places));
    let action = error["suggested_action"].as_str().unwrap();
    assert!(action.starts_with("It occurs at lines 1 (3 times), 3: include more"), "{action}");
}
