//! Edits that could take a lot of time or memory: the result is correct, or an error of the right kind.

use std::fmt::Write as _;

use lbx::sha256::Sha256;
use serde_json::{Value, json};

use crate::common::{Answer, Workspace};

/// Edits the file `f`, which holds `text`; the request names the SHA-256 of its bytes.
fn edit(ws: &Workspace, text: &str, mut request: Value) -> Answer {
    ws.write("f", text);
    request["path"] = "f".into();
    request["expected_sha256"] = Sha256::of(text.as_bytes()).to_hex().into();
    ws.lbx_stdin(&["edit", "--json", "-"], request.to_string())
}

#[test]
fn change_with_an_oversized_result_is_too_large() {
    let ws = Workspace::bare(&[]);
    let text = "x".repeat(1 << 20);
    let new = "y".repeat(100_000);
    for request in [
        json!({ "old_string": "x", "new_string": new, "replace_all": true }),
        json!({ "old_string": "x", "new_string": new, "expected_replacements": 1 << 20 }),
    ] {
        let error = edit(&ws, &text, request).error("too_large");
        assert_eq!(error["details"]["limit"], 512 << 20);
        ws.holds("f", &text);
    }
    ws.write("f", "# A\nabc\n");
    let sha256 = Sha256::of(b"# A\nabc\n").to_hex();
    let proof = ["--set", "limits.file_bytes=10", "--expected-sha256", &sha256];
    for call in [
        &["append", "f", "--content", "def\n"][..],
        &["prepend", "f", "--content", "def\n"],
        &["insert", "f", "1", "--content", "def\n"],
        &["section", "f", "A", "--content", "a longer text\n"],
        &["write", "f", "--content", "eleven byte"],
        &["edit", "f", "--old-string", "abc", "--new-string", "abcdefgh"],
        &["edit", "f", "--sketch", "# A\nabc\nand more\n"],
    ] {
        ws.lbx(&[call, &proof].concat()).error("too_large");
        ws.holds("f", "# A\nabc\n");
    }
    ws.lbx(&[&["append", "f", "--content", "d\n"][..], &proof].concat()).ok();
}

#[test]
fn matches_of_a_long_repetitive_old_string_are_counted() {
    let ws = Workspace::bare(&[]);
    let request = json!({ "old_string": "x".repeat(100_000), "new_string": "y" });
    let error = edit(&ws, &"x".repeat(300_000), request).error("ambiguous_match");
    assert_eq!(error["details"]["count"], 3);
}

#[test]
fn edit_replaces_400000_matches() {
    let ws = Workspace::bare(&[]);
    let request = json!({ "old_string": "x", "new_string": "yz", "replace_all": true });
    let answer = edit(&ws, &"x\r\n".repeat(400_000), request).ok();
    assert_eq!(answer["count"], 400_000);
    assert_eq!(answer["replacements"].as_array().unwrap().len(), 20);
    ws.holds("f", "yz\r\n".repeat(400_000));
}

#[test]
fn edit_applies_3000_edits_in_one_request() {
    let ws = Workspace::bare(&[]);
    for ending in ["\n", "\r\n"] {
        // Longer than 3000 passes over it may be.
        let (rest, mut text) = ("-".repeat(500), String::new());
        let mut edits = Vec::new();
        for item in 0..3000 {
            write!(text, "item number {item} is in the list{ending}{rest}{ending}{rest}{ending}").unwrap();
            let (old, new) = (format!("number {item} is"), format!("{item} was"));
            edits.push(json!({ "old_string": old, "new_string": new }));
        }
        let answer = edit(&ws, &text, json!({ "edits": edits })).ok();
        assert_eq!(answer["count"], 3000);
        ws.holds("f", text.replace("number ", "").replace(" is in", " was in"));
    }
}

#[test]
fn edits_of_a_long_list_see_the_result_of_the_ones_before() {
    let ws = Workspace::bare(&[]);
    let text: String = (0..400).map(|line| format!("line {line}.\nrest\n")).collect();
    // Edit 51 finds what edit 50 writes, 101 replaces lines by number, 151 replaces several places.
    let mut edits: Vec<Value> = (0..400)
        .map(|line| {
            json!({ "old_string": format!("line {line}.\n"), "new_string": format!("{line}.\n{line}!\n") })
        })
        .collect();
    edits[50] = json!({ "old_string": "49!\n", "new_string": "fifty\n" });
    edits[100] = json!({ "start_line": 201, "end_line": 201, "new_string": "hundred" });
    edits[150] = json!({ "old_string": "fifty\nrest", "new_string": "sixty\nline 7.", "replace_all": true });
    let mut wanted: String = (0..400).map(|line| format!("{line}.\n{line}!\nrest\n")).collect();
    wanted = wanted.replace("\n49!\nrest", "\nsixty\nline 7.").replace("\n100.\n100!", "\nhundred");
    wanted = wanted.replace("\n50.\n50!", "\nline 50.").replace("\n150.\n150!", "\nline 150.");
    let answer = edit(&ws, &text, json!({ "edits": edits })).ok();
    assert_eq!((&answer["count"], &answer["match"]), (&json!(400), &json!("lines")));
    ws.holds("f", wanted);
    edits[300] = json!({ "old_string": "line 299.", "new_string": "gone" });
    let error = edit(&ws, &text, json!({ "edits": edits })).error("no_match");
    assert_eq!(error["details"]["edit"], 301);
    ws.holds("f", text);
}

#[test]
fn edit_of_a_large_reordered_file_is_stale() {
    let ws = Workspace::bare(&[]);
    let lines: Vec<String> = (0..20_000).map(|line| format!("line {line}\n")).collect();
    ws.write("f", lines.concat());
    ws.lbx(&["read", "f", "--limit", "3"]).ok();
    ws.lbx(&["edit", "f", "--old-string", "line 1\n", "--new-string", "one\n"]).ok();
    let reordered: String = (0..20_000).map(|line| lines[line * 7919 % 20_000].as_str()).collect();
    ws.write("f", &reordered);
    let edit = ["edit", "f", "--old-string", "line 2\n", "--new-string", "two\n"];
    ws.lbx(&edit).error("stale_file");
    ws.lbx(&[&edit[..], &["--rebase"]].concat()).error("stale_file");
    ws.lbx(&["undo", "--merge"]).error("stale_file");
    ws.holds("f", &reordered);
}

#[test]
fn sketch_of_equal_lines_is_ambiguous() {
    let ws = Workspace::bare(&[]);
    let sketch = "same\n".repeat(500) + "new\n// ... existing code ...\n";
    edit(&ws, &"same\n".repeat(50_000), json!({ "sketch": sketch })).error("ambiguous_match");
}

#[test]
fn no_match_among_similar_lines_has_a_short_error() {
    let ws = Workspace::bare(&[]);
    let text = "    let value = compute(a, b, c);\n".repeat(50_000);
    let old = "    let value = compute(a, b, c);\n".repeat(2000) + &"é".repeat(100_000);
    let error = edit(&ws, &text, json!({ "old_string": old, "new_string": "x" })).error("no_match");
    assert!(error.to_string().len() < 8000, "{}", error.to_string().len());
    for kind in ["a\n\na\nb\n", "aa\n"] {
        let request =
            json!({ "old_string": kind.repeat(1000) + "x", "new_string": "x", "match": "flexible" });
        edit(&ws, &"  aa\n\n\na\n".repeat(50_000), request).error("no_match");
    }
}

#[test]
fn file_above_the_limit_is_too_large_to_change() {
    let ws = Workspace::with(&[("a.txt", "0123456789\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    for call in [
        &["append", "a.txt", "--content", "x"][..],
        &["write", "a.txt", "--content", "x"],
        &["edit", "a.txt", "--old-string", "0", "--new-string", "x"],
    ] {
        let error =
            ws.unchanged(|| ws.lbx(&[call, &["--set", "limits.file_bytes=9"]].concat()).error("too_large"));
        assert_eq!(
            error["message"],
            "a.txt has 11 bytes; the largest file that can be changed has 9 (limits.file_bytes)"
        );
        assert_eq!(
            error["suggested_action"],
            "`read`, `grep` and `bash` take it; only the policy lets other tools change it."
        );
    }
}

#[test]
fn section_in_a_million_headers_is_too_large() {
    let ws = Workspace::bare(&[]);
    ws.write("f.md", "# x\n".repeat(1_000_000));
    ws.lbx(&["section", "f.md", "Nope", "--content", "x"]).error("too_large");
}

#[test]
fn no_match_of_a_huge_old_string_suggests_range_sha256() {
    let ws = Workspace::bare(&[]);
    let old = "some line that is not there\n".repeat(50_000);
    let error = edit(&ws, "one\ntwo\n", json!({ "old_string": old, "new_string": "x" })).error("no_match");
    assert!(error["suggested_action"].as_str().unwrap().contains("range_sha256"), "{error}");
    assert!(error.to_string().len() < 2000, "{error}");
}
