//! `read`.

use serde_json::{Value, json};

use crate::common::{Workspace, sha256};

/// A text of numbered lines.
fn numbered(lines: usize) -> String {
    (1..=lines).map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat()
}

#[test]
fn a_read_answers_the_text_and_what_it_is_like() {
    let ws = Workspace::with(&[("src/greet.txt", "hello\nworld\n")]);
    ws.chmod("src/greet.txt", 0o640);
    let data = ws.lbx(&["read", "src/greet.txt"]).ok();
    let wanted = json!({
        "path": "src/greet.txt", "content": "hello\nworld\n", "sha256": sha256(b"hello\nworld\n"),
        "size": 12, "total_lines": 2, "start_line": 1, "end_line": 2, "truncated": false,
        "encoding": "utf-8", "line_ending": "lf", "bom": false, "mode": "0640",
    });
    assert_eq!(data, wanted);
}

#[test]
fn slices_are_those_lines_and_the_sha256_is_of_the_whole_file() {
    /// Flags, content, first line, last line, and where to go on.
    type Case = (&'static [&'static str], &'static str, u64, u64, Option<u64>);
    let ws = Workspace::with(&[("a.txt", &numbered(10))]);
    let whole = sha256(numbered(10).as_bytes());
    let cases: &[Case] = &[
        (&["--offset", "0", "--limit", "1"], "line 1\n", 1, 1, Some(1)),
        (&["--offset", "8"], "line 9\nline 10\n", 9, 10, None),
        (&["--offset", "3", "--limit", "2"], "line 4\nline 5\n", 4, 5, Some(5)),
        (&["--offset", "9", "--limit", "5"], "line 10\n", 10, 10, None),
        (&["--offset", "8", "--limit", "2"], "line 9\nline 10\n", 9, 10, None),
        (&["--start-line", "4", "--end-line", "5"], "line 4\nline 5\n", 4, 5, None),
        (&["--start-line", "10"], "line 10\n", 10, 10, None),
        (&["--end-line", "1"], "line 1\n", 1, 1, None),
        (&["--start-line", "9", "--limit", "1"], "line 9\n", 9, 9, Some(9)),
        (&["--offset", "9", "--limit", "0"], "line 10\n", 10, 10, None),
    ];
    for (flags, content, start, end, next) in cases {
        let call: Vec<&str> = ["read", "a.txt"].iter().chain(*flags).copied().collect();
        let data = ws.lbx(&call).ok();
        let found = (&data["content"], &data["start_line"], &data["end_line"], &data["total_lines"]);
        assert_eq!(found, (&json!(content), &json!(start), &json!(end), &json!(10)), "{flags:?}");
        assert_eq!(data["next_offset"], json!(next), "{flags:?}");
        assert_eq!(data["truncated"], next.is_some(), "{flags:?}");
        assert_eq!(data["sha256"], whole, "{flags:?}");
    }
}

#[test]
fn contradictory_bounds_are_refused() {
    let ws = Workspace::with(&[("a.txt", &numbered(10))]);
    for flags in [
        ["--offset", "1", "--start-line", "1"],
        ["--limit", "1", "--end-line", "1"],
        ["--start-line", "5", "--end-line", "4"],
    ] {
        let call: Vec<&str> = ["read", "a.txt"].iter().chain(&flags).copied().collect();
        ws.lbx(&call).error("invalid_request");
    }
}

#[test]
fn a_read_past_the_end_says_so() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let data = ws.lbx(&["read", "a.txt", "--offset", "5"]).warned("past the end");
    assert_eq!((&data["content"], &data["total_lines"]), (&json!(""), &json!(1)));
}

#[test]
fn an_empty_file_has_no_lines() {
    let ws = Workspace::with(&[("a.txt", "")]);
    let data = ws.lbx(&["read", "a.txt"]).ok();
    assert_eq!(data["content"], "");
    assert_eq!((&data["total_lines"], &data["size"], &data["end_line"]), (&json!(0), &json!(0), &json!(0)));
    assert_eq!(data["line_ending"], "none");
    assert_eq!(data["sha256"], sha256(b""));
}

#[test]
fn a_long_file_comes_in_parts_that_join_to_the_whole() {
    let line = "x".repeat(99);
    let text = (0..1000).map(|number| format!("{number} {line}\n")).collect::<Vec<_>>().concat();
    let ws = Workspace::with(&[("a.txt", &text)]);
    for bound in [None, Some(5_000), Some(150)] {
        let (mut joined, mut offset, mut calls) = (String::new(), 0, 0);
        loop {
            let mut request = json!({"path": "a.txt", "offset": offset});
            if let Some(bound) = bound {
                request["max_bytes"] = json!(bound);
            }
            let data = ws.json("read", &request).ok();
            let content = data["content"].as_str().unwrap();
            assert!(content.len() <= bound.unwrap_or(24_576) && content.ends_with('\n'));
            joined.push_str(content);
            calls += 1;
            match data["next_offset"].as_u64() {
                Some(next) if bound != Some(150) || calls < 20 => offset = next,
                _ => break,
            }
        }
        assert!(calls > 1);
        assert!(text.starts_with(&joined), "{bound:?}");
        assert!(bound == Some(150) || joined == text, "{bound:?}");
    }
}

#[test]
fn a_read_without_bounds_gives_everything() {
    let text = numbered(20_000);
    let ws = Workspace::with(&[("a.txt", &text)]);
    let data = ws.lbx(&["read", "a.txt", "--limit", "0", "--max-bytes", "0"]).ok();
    assert_eq!(data["content"], text.as_str());
    let shorter = ws.lbx(&["read", "a.txt", "--max-bytes", "0"]).ok();
    assert_eq!((&shorter["end_line"], &shorter["next_offset"]), (&json!(2000), &json!(2000)));
}

#[test]
fn one_long_line_is_cut_and_joins_again() {
    let text = "äöü€😀".repeat(3000);
    let ws = Workspace::with(&[("a.txt", &text)]);
    let (mut joined, mut column, mut calls) = (String::new(), 1, 0);
    loop {
        let data = ws.json("read", &json!({"path": "a.txt", "column": column, "max_bytes": 10_001})).ok();
        joined.push_str(data["content"].as_str().unwrap());
        calls += 1;
        match data["next_column"].as_u64() {
            Some(next) => {
                assert_eq!((&data["truncated"], &data["next_offset"]), (&json!(true), &json!(0)));
                column = next;
            }
            None => break,
        }
        assert!(calls < 100);
    }
    assert!(joined == text, "the parts do not join to the line");
    assert!(calls > 3);
}

#[test]
fn what_was_cut_away_does_not_count_as_read() {
    let ws = Workspace::with(&[("a.txt", &numbered(10))]);
    ws.lbx(&["read", "a.txt", "--limit", "2"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "new\n"]).warned("not all 10 lines of a.txt were shown");
}

#[test]
fn line_numbers_stand_before_each_line() {
    let ws = Workspace::with(&[("a.txt", "a\n\nb")]);
    let data = ws.lbx(&["read", "a.txt", "-n", "--offset", "1"]).ok();
    assert_eq!(data["content"], "2\t\n3\tb");
}

#[test]
fn an_unchanged_file_is_not_sent_again() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let sha = sha256(b"one\n");
    let data = ws.lbx(&["read", "a.txt", "--if-sha256", &sha]).ok();
    assert_eq!(
        (&data["unchanged"], &data["content"], &data["sha256"]),
        (&json!(true), &Value::Null, &json!(sha))
    );
    ws.write("a.txt", "two\n");
    let data = ws.lbx(&["read", "a.txt", "--if-sha256", &sha]).ok();
    assert_eq!((&data["unchanged"], &data["content"]), (&Value::Null, &json!("two\n")));
}

#[test]
fn several_files_are_answered_one_by_one() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n"), (".git-not/x", "")]);
    let data = ws.json("read", &json!({"paths": ["a.txt", "none.txt", "b.txt", "../out", ".git-not"]})).ok();
    let files = data["files"].as_array().unwrap();
    let seen: Vec<&Value> = files
        .iter()
        .map(|file| if file["error"].is_null() { &file["content"] } else { &file["error"]["kind"] })
        .collect();
    assert_eq!(seen, ["a\n", "not_found", "b\n", "outside_workspace", "is_a_directory"]);
    assert_eq!(files[1]["path"], "none.txt");
    // Each that was read may be changed.
    ws.lbx(&["edit", "b.txt", "--old-string", "b", "--new-string", "c"]).ok();
    let by_flags = ws.lbx(&["read", "a.txt", "b.txt"]).ok();
    assert_eq!(by_flags["files"][1]["content"], "c\n");
}

#[test]
fn several_files_share_one_bound() {
    let text = "a line of some length, as source code has it\n".repeat(1000);
    let ws = Workspace::with(&[("a.txt", &text), ("b.txt", &text)]);
    let answer = ws.json("read", &json!({"paths": ["a.txt", "b.txt"]}));
    assert!(answer.stdout().len() < 30_000, "{} bytes", answer.stdout().len());
    let data = answer.ok();
    assert_eq!(
        (&data["files"][0]["truncated"], &data["files"][1]["truncated"]),
        (&json!(true), &json!(true))
    );
}

#[test]
fn a_default_answer_fits_what_a_harness_shows() {
    let ws = Workspace::with(&[("a.txt", &"\"\\\t x\n".repeat(20_000))]);
    let answer = ws.lbx(&["read", "a.txt"]);
    assert!(answer.stdout().len() < 48_000, "{} bytes", answer.stdout().len());
    assert_eq!(answer.ok()["truncated"], true);
}

#[test]
fn a_binary_is_refused_or_shown_as_base64() {
    let ws = Workspace::with(&[]);
    ws.write("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let error = ws.lbx(&["read", "a.png"]).error("binary_file");
    assert_eq!(error["path"], "a.png");
    let data = ws.lbx(&["read", "a.png", "--binary", "base64"]).ok();
    assert_eq!((&data["mime"], &data["base64"]), (&json!("image/png"), &json!("iVBORw0KGgoAAAANSUhEUg==")));
    assert_eq!(data["content"], Value::Null);
    assert_eq!(data["size"], 16);
}

#[test]
fn a_missing_file_names_its_nearest() {
    let ws =
        Workspace::with(&[("src/main.rs", ""), ("src/lib.rs", ""), ("src/mail.rs", ""), ("docs/a.md", "")]);
    let error = ws.lbx(&["read", "src/mian.rs"]).error("not_found");
    assert_eq!(error["path"], "src/mian.rs");
    let said = error.to_string();
    assert!(said.contains("src/main.rs"), "{said}");
    assert!(!said.contains("docs/a.md"), "{said}");
    let elsewhere = ws.lbx(&["read", "main.rs"]).error("not_found");
    assert!(elsewhere.to_string().contains("src/main.rs"), "{elsewhere}");
}

#[test]
fn a_read_changes_nothing_in_the_work_tree_and_the_repository() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let index = std::fs::read(ws.path(".git/index")).unwrap();
    ws.unchanged(|| ws.lbx(&["read", "a.txt"]).ok());
    assert_eq!(ws.git(&["status", "--porcelain"]), "");
    assert!(ws.snapshots().is_empty());
    assert_eq!(std::fs::read(ws.path(".git/index")).unwrap(), index);
}
