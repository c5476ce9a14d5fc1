//! `append`, `prepend` and `insert`.

use serde_json::{Value, json};

use crate::common::{Workspace, sha256};

#[test]
fn append_and_prepend_need_no_read() {
    let ws = Workspace::with(&[("a.txt", "two\n")]);
    let data = ws.lbx(&["append", "a.txt", "--content", "three\n"]).ok();
    assert_eq!((&data["lines_added"], &data["lines_removed"]), (&json!(1), &json!(0)));
    assert_eq!(data["sha256"], sha256(b"two\nthree\n"));
    ws.lbx(&["prepend", "a.txt", "--content", "one\n"]).ok();
    ws.holds("a.txt", "one\ntwo\nthree\n");
    assert_eq!(ws.snapshots(), ["prepend: a.txt", "append: a.txt"]);
}

#[test]
fn unseen_lines_stay_unread_after_append() {
    let ws = Workspace::with(&[("a.txt", "secret\n")]);
    ws.lbx(&["append", "a.txt", "--content", "more\n"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "x"]).error("not_read");
    // A session that had read it continues without another read.
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["append", "a.txt", "--content", "and more\n"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "x"]).ok();
}

#[test]
fn append_and_prepend_create_a_missing_file() {
    let ws = Workspace::with(&[]);
    for (tool, path) in [("append", "a/b.txt"), ("prepend", "c.txt")] {
        let data = ws.lbx(&[tool, path, "--content", "new\n"]).ok();
        assert_eq!(data["created"], true);
        ws.holds(path, "new\n");
    }
}

#[test]
fn append_after_a_missing_final_newline_warns() {
    let ws = Workspace::with(&[("a.txt", "cut")]);
    ws.lbx(&["append", "a.txt", "--content", " off\n"])
        .warned("the last line of a.txt had no newline: the text continues that line");
    ws.holds("a.txt", "cut off\n");
}

#[test]
fn append_and_prepend_check_expected_sha256() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let (right, wrong) = (sha256(b"one\n"), sha256(b"two\n"));
    for tool in ["append", "prepend"] {
        ws.unchanged(|| {
            ws.lbx(&[tool, "a.txt", "--content", "x\n", "--expected-sha256", &wrong]).error("stale_file")
        });
    }
    ws.lbx(&["append", "a.txt", "--content", "x\n", "--expected-sha256", &right]).ok();
}

#[test]
fn added_text_takes_line_endings_and_encoding_of_the_file() {
    let utf16 = |text: &str| -> Vec<u8> {
        [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    let ws = Workspace::bare(&[("crlf.txt", "two\r\n"), ("mixed.txt", "a\r\nb\n"), ("cr.txt", "two\r")]);
    ws.write("bom.txt", b"\xef\xbb\xbftwo\n");
    ws.write("utf16.txt", utf16("two\r\n"));
    ws.write("latin1.txt", b"caf\xe9\n");
    let cases: &[(&str, Vec<u8>)] = &[
        ("crlf.txt", b"one\r\ntwo\r\nthree\r\n".to_vec()),
        ("cr.txt", b"one\rtwo\rthree\r".to_vec()),
        ("mixed.txt", b"one\na\r\nb\nthree\n".to_vec()),
        ("bom.txt", b"\xef\xbb\xbfone\ntwo\nthree\n".to_vec()),
        ("utf16.txt", utf16("one\r\ntwo\r\nthree\r\n")),
        ("latin1.txt", b"one\ncaf\xe9\nthree\n".to_vec()),
    ];
    for (path, wanted) in cases {
        let _ = ws.lbx(&["prepend", path, "--content", "one\n"]).success();
        let _ = ws.lbx(&["append", path, "--content", "three\n"]).success();
        ws.holds(path, wanted);
    }
}

#[test]
fn insert_adds_lines_after_a_line() {
    for (line, result) in
        [("0", "new\none\ntwo\nthree\n"), ("1", "one\nnew\ntwo\nthree\n"), ("3", "one\ntwo\nthree\nnew\n")]
    {
        let ws = Workspace::with(&[("a.txt", "one\ntwo\nthree\n")]);
        ws.lbx(&["read", "a.txt"]).ok();
        let data = ws.lbx(&["insert", "a.txt", line, "--content", "new"]).ok();
        let at = line.parse::<u64>().unwrap() + 1;
        assert_eq!(data["replacements"], json!([{"start_line": at, "end_line": at}]));
        ws.holds("a.txt", result);
        assert_eq!(ws.snapshots(), ["insert: a.txt"]);
    }
}

#[test]
fn insert_never_joins_lines() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo"), ("crlf.txt", "one\r\ntwo\r\n"), ("empty.txt", "")]);
    ws.lbx(&["read", "a.txt", "crlf.txt", "empty.txt"]).ok();
    ws.lbx(&["insert", "a.txt", "2", "--content", "three"]).ok();
    ws.holds("a.txt", "one\ntwo\nthree\n");
    ws.lbx(&["insert", "crlf.txt", "1", "--content", "1.3\n1.6"]).ok();
    ws.holds("crlf.txt", "one\r\n1.3\r\n1.6\r\ntwo\r\n");
    ws.lbx(&["insert", "empty.txt", "0", "--content", "first"]).ok();
    ws.holds("empty.txt", "first\n");
}

#[test]
fn insert_requires_a_read_and_an_existing_line() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.unchanged(|| {
        ws.lbx(&["insert", "a.txt", "0", "--content", "x"]).error("not_read");
        ws.lbx(&["insert", "none.txt", "0", "--content", "x"]).error("not_found");
        ws.lbx(&["read", "a.txt"]).ok();
        let error = ws.lbx(&["insert", "a.txt", "2", "--content", "x"]).error("invalid_request");
        assert_eq!(error["details"]["total_lines"], 1);
        ws.lbx(&["insert", "a.txt", "0", "--content", ""]).error("invalid_request");
    });
    ws.write("a.txt", "other\n");
    ws.lbx(&["insert", "a.txt", "0", "--content", "x"]).error("stale_file");
}

#[test]
fn empty_append_changes_nothing() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let envelope = ws.unchanged(|| ws.lbx(&["append", "a.txt", "--content", ""]).success());
    assert_eq!((&envelope["data"]["already_applied"], &envelope["snapshot"]), (&json!(true), &Value::Null));
}

#[test]
fn prepend_warns_if_it_joins_lines() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let wrong = "0".repeat(64);
    for tool in ["append", "prepend"] {
        ws.lbx(&[tool, "a.txt", "--content", "", "--expected-sha256", &wrong]).error("stale_file");
        assert_eq!(ws.lbx(&[tool, "a.txt", "--content", ""]).ok()["already_applied"], true);
    }
    ws.lbx(&["prepend", "a.txt", "--content", "zero "]).warned("now continues with the first line");
    ws.holds("a.txt", "zero one\n");
    let answer = ws.lbx(&["prepend", "a.txt", "--content", "top\n"]).success();
    assert_eq!(answer["warnings"], Value::Null, "{answer}");
    ws.lbx(&["prepend", "new.txt", "--content", "no newline"]).ok();
}

#[test]
fn insert_past_the_end_suggests_existing_lines() {
    let ws = Workspace::bare(&[("a.txt", "1\n2\n3\n")]);
    let insert = ["insert", "a.txt", "99999", "--content", "x"];
    let error = ws.lbx(&insert).error("not_read");
    let advice = error["suggested_action"].as_str().unwrap();
    assert!(advice.contains("line 3") && !advice.contains("99999"), "{advice}");
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&insert).error("invalid_request");
}

#[test]
fn insert_between_lines_that_changed_since_is_refused() {
    let ws = Workspace::with(&[("f", "u1\nu2\nu3\nu4\n")]);
    ws.lbx(&["read", "f"]).ok();
    ws.lbx(&["edit", "f", "--start-line", "3", "--end-line", "4", "--new-string", "X"]).ok();
    ws.lbx(&["edit", "f", "--start-line", "1", "--end-line", "1", "--new-string", "A\nB\nC"]).ok();
    ws.unchanged(|| ws.lbx(&["insert", "f", "3", "--content", "I"]).error("stale_file"));
    // Where no line moved, the number means what the session wrote.
    let ws = Workspace::with(&[("f", "u1\nu2\n")]);
    ws.lbx(&["read", "f"]).ok();
    ws.lbx(&["edit", "f", "--start-line", "2", "--end-line", "2", "--new-string", "X"]).ok();
    ws.lbx(&["insert", "f", "2", "--content", "I"]).ok();
    ws.holds("f", "u1\nX\nI\n");
}
