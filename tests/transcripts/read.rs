//! `read`.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::common::{Workspace, sha256};

/// Returns a text of numbered lines.
fn numbered(lines: usize) -> String {
    (1..=lines).map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat()
}

#[test]
fn read_returns_content_and_metadata() {
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
fn read_slice_returns_the_sha256_of_the_whole_file() {
    /// Flags, content, first line, last line, and next line to read.
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
        (&["--offset", "-2"], "line 9\nline 10\n", 9, 10, None),
        (&["--offset", "-3", "--limit", "1"], "line 8\n", 8, 8, Some(8)),
        (&["--start-line", "-1"], "line 10\n", 10, 10, None),
        (&["--start-line=-3", "--end-line=-2"], "line 8\nline 9\n", 8, 9, None),
        (&["--start-line", "9", "--end-line", "-1"], "line 9\nline 10\n", 9, 10, None),
        (&["--offset", "-99", "--limit", "1"], "line 1\n", 1, 1, Some(1)),
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
fn contradictory_read_bounds_are_rejected() {
    let ws = Workspace::with(&[("a.txt", &numbered(10))]);
    for flags in [
        &["--offset", "1", "--start-line", "1"][..],
        &["--limit", "1", "--end-line", "1"][..],
        &["--start-line", "5", "--end-line", "4"][..],
        &["--start-line=-2", "--end-line=-3"][..],
        &["--start-line=8", "--end-line=-5"][..],
        &["--ranges=1-2", "--limit=1"][..],
        &["--ranges=3-2", "-n"][..],
        &["--ranges=0-2", "-n"][..],
        &["--ranges=a", "-n"][..],
        &["--around-line=1", "--offset=1"][..],
        &["--around-line=0", "-n"][..],
        &["--cell=1", "--offset=1"][..],
        &["--start-line=0", "-n"][..],
    ] {
        let call: Vec<&str> = ["read", "a.txt"].iter().chain(flags).copied().collect();
        ws.lbx(&call).error("invalid_request");
    }
}

#[test]
fn read_past_the_end_warns() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let data = ws.lbx(&["read", "a.txt", "--offset", "5"]).warned("past the end");
    assert_eq!((&data["content"], &data["total_lines"]), (&json!(""), &json!(1)));
}

#[test]
fn empty_file_has_no_lines() {
    let ws = Workspace::with(&[("a.txt", "")]);
    let data = ws.lbx(&["read", "a.txt"]).ok();
    assert_eq!(data["content"], "");
    assert_eq!((&data["total_lines"], &data["size"], &data["end_line"]), (&json!(0), &json!(0), &json!(0)));
    assert_eq!(data["line_ending"], "none");
    assert_eq!(data["sha256"], sha256(b""));
}

#[test]
fn pages_of_a_long_file_join_to_the_whole() {
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
fn read_without_limits_returns_the_whole_file() {
    let text = numbered(20_000);
    let ws = Workspace::with(&[("a.txt", &text)]);
    let data = ws.lbx(&["read", "a.txt", "--limit", "0", "--max-bytes", "0"]).ok();
    assert_eq!(data["content"], text.as_str());
    let shorter = ws.lbx(&["read", "a.txt", "--max-bytes", "0"]).ok();
    assert_eq!((&shorter["end_line"], &shorter["next_offset"]), (&json!(2000), &json!(2000)));
}

#[test]
fn parts_of_a_long_line_join_to_the_line() {
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
fn truncated_lines_do_not_count_as_read() {
    let ws = Workspace::with(&[("a.txt", &numbered(10))]);
    ws.lbx(&["read", "a.txt", "--limit", "2"]).ok();
    let error = ws.lbx(&["write", "a.txt", "--content", "new\n"]).error("not_read");
    assert_eq!(error["details"]["unseen_lines"], json!([[3, 10]]));
}

#[test]
fn line_numbers_precede_each_line() {
    let ws = Workspace::with(&[("a.txt", "a\n\nb")]);
    let data = ws.lbx(&["read", "a.txt", "-n", "--offset", "1"]).ok();
    assert_eq!(data["content"], "2\t\n3\tb");
}

#[test]
fn if_sha256_skips_the_content_of_an_unchanged_file() {
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
fn read_of_several_files_returns_each_result() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n"), (".git-not/x", "")]);
    let data = ws.json("read", &json!({"paths": ["a.txt", "none.txt", "b.txt", "../out", ".git-not"]})).ok();
    let files = data["files"].as_array().unwrap();
    let seen: Vec<&Value> = files
        .iter()
        .map(|file| if file["error"].is_null() { &file["content"] } else { &file["error"]["kind"] })
        .collect();
    assert_eq!(seen, ["a\n", "not_found", "b\n", "outside_workspace", "is_a_directory"]);
    assert_eq!(files[1]["path"], "none.txt");
    // Each file that was read may be changed.
    ws.lbx(&["edit", "b.txt", "--old-string", "b", "--new-string", "c"]).ok();
    let by_flags = ws.lbx(&["read", "a.txt", "b.txt"]).ok();
    assert_eq!(by_flags["files"][1]["content"], "c\n");
}

#[test]
fn several_files_share_one_byte_limit() {
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
fn read_of_many_files_fits_in_harness_output() {
    let names: Vec<String> = (0..200).map(|number| format!("src/file_{number:03}.txt")).collect();
    let text = "some text\n".repeat(80);
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), text.as_str())).collect();
    let ws = Workspace::with(&files);
    for count in [2, 20, 40, 70] {
        let answer = ws.json("read", &json!({"paths": names.get(..count).unwrap()}));
        assert!(answer.stdout().len() < 30_000, "{count}: {} bytes", answer.stdout().len());
        let read = answer.ok()["files"].as_array().unwrap().clone();
        assert!(read.iter().all(|file| file["error"].is_null() && file["total_lines"] == 80), "{count}");
        assert_eq!(read.len(), count);
    }
    let data = ws.json("read", &json!({"paths": names})).ok();
    let shown = data["files"].as_array().unwrap().len();
    assert!((60..90).contains(&shown) && data["not_read"] == 200 - shown, "{shown}: {}", data["not_read"]);
    ws.lbx(&["edit", &names[199], "--old-string", "x", "--new-string", "y"]).error("not_read");
    let all = ws.json("read", &json!({"paths": names, "max_bytes": 0})).ok();
    assert!(all["files"].as_array().unwrap().iter().all(|file| file["content"] == text.as_str()));
}

#[test]
fn default_read_response_fits_in_harness_output() {
    let ws = Workspace::with(&[("a.txt", &"\"\\\t x\n".repeat(20_000))]);
    let answer = ws.lbx(&["read", "a.txt"]);
    assert!(answer.stdout().len() < 48_000, "{} bytes", answer.stdout().len());
    assert_eq!(answer.ok()["truncated"], true);
}

#[test]
fn binary_file_is_an_error_or_base64() {
    let ws = Workspace::with(&[]);
    ws.write("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let error = ws.lbx(&["read", "a.png"]).error("binary_file");
    assert_eq!(error["path"], "a.png");
    assert_eq!((&error["details"]["mime"], &error["details"]["size"]), (&json!("image/png"), &json!(16)));
    assert_eq!(error["details"]["magic"], "89504e470d0a1a0a0000000d49484452");
    let data = ws.lbx(&["read", "a.png", "--binary", "base64"]).ok();
    assert_eq!((&data["mime"], &data["base64"]), (&json!("image/png"), &json!("iVBORw0KGgoAAAANSUhEUg==")));
    assert_eq!(data["content"], Value::Null);
    assert_eq!(data["size"], 16);
}

#[test]
fn dangling_symlink_is_named_with_its_missing_target() {
    let ws = Workspace::with(&[("config.toml", "a\n")]);
    for (target, link) in [("nowhere/x.txt", "first"), ("first", "second"), ("config.tomll", "near")] {
        ws.link(target, link);
    }
    for (link, target, advice) in [
        ("first", "nowhere/x.txt", "Create the missing file nowhere/x.txt, or give the path of another one."),
        (
            "second",
            "nowhere/x.txt",
            "Create the missing file nowhere/x.txt, or give the path of another one.",
        ),
        ("near", "config.tomll", "Did you mean config.toml?"),
    ] {
        let error = ws.lbx(&["read", link]).error("not_found");
        assert_eq!(error["message"], format!("no such file: {link}, which is a symlink to {target}"));
        assert_eq!(error["suggested_action"], advice);
    }
    ws.lbx(&["write", "nowhere/x.txt", "--content", "x\n"]).ok();
    assert_eq!(ws.lbx(&["read", "second"]).ok()["content"], "x\n");
}

#[test]
fn dangling_symlink_is_not_suggested_for_itself() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    std::os::unix::fs::symlink("page-1.txt", ws.path("page-2.txt")).unwrap();
    for call in [&["read", "page-2.txt"][..], &["grep", "x", "page-2.txt"]] {
        let error = ws.lbx(call).error("not_found");
        assert!(error["details"]["near"].is_null(), "{error}");
    }
}

#[test]
fn missing_file_error_suggests_similar_paths() {
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
fn read_changes_neither_work_tree_nor_repository() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let index = std::fs::read(ws.path(".git/index")).unwrap();
    ws.unchanged(|| ws.lbx(&["read", "a.txt"]).ok());
    assert_eq!(ws.git(&["status", "--porcelain"]), "");
    assert!(ws.snapshots().is_empty());
    assert_eq!(std::fs::read(ws.path(".git/index")).unwrap(), index);
}

#[test]
fn read_returns_several_ranges() {
    let ws = Workspace::with(&[("a.txt", &numbered(100)), ("b.txt", "one\n")]);
    let data = ws.lbx(&["read", "a.txt", "--ranges", "10-11", "--range", "50,-2"]).ok();
    let wanted = json!([
        {"start_line": 10, "end_line": 11, "content": "line 10\nline 11\n", "range_sha256": sha256(b"line 10\nline 11\n")},
        {"start_line": 50, "end_line": 50, "content": "line 50\n", "range_sha256": sha256(b"line 50\n")},
        {"start_line": 99, "end_line": 100, "content": "line 99\nline 100\n", "range_sha256": sha256(b"line 99\nline 100\n")},
    ]);
    assert_eq!(data["ranges"], wanted);
    assert_eq!((&data["content"], &data["truncated"]), (&Value::Null, &json!(false)));
    assert_eq!(
        (&data["start_line"], &data["end_line"], &data["total_lines"]),
        (&json!(10), &json!(100), &json!(100))
    );
    let ranges = json!(["10-11", 50, {"start_line": -2, "end_line": -1}]);
    assert_eq!(ws.json("read", &json!({"path": "a.txt", "ranges": ranges})).ok()["ranges"], wanted);
    assert_eq!(
        ws.json("read", &json!({"path": "a.txt", "ranges": "7:7"})).ok()["ranges"][0]["content"],
        "line 7\n"
    );
    let several =
        ws.json("read", &json!({"paths": ["a.txt", "b.txt"], "ranges": ["1", "99-"]})).warned("past the end");
    assert_eq!(several["files"][0]["ranges"][1]["content"], "line 99\nline 100\n");
    assert_eq!(several["files"][1]["ranges"][1]["content"], "");
    let text = ws.lbx(&["read", "a.txt", "--ranges", "3,98-", "-t"]).stdout_text();
    assert_eq!(text, "==> a.txt:3-3 <==\nline 3\n==> a.txt:98-100 <==\nline 98\nline 99\nline 100\n");
}

#[test]
fn only_the_ranges_count_as_read() {
    let ws = Workspace::with(&[("a.txt", &numbered(10))]);
    ws.lbx(&["read", "a.txt", "--ranges", "1-3,5-"]).ok();
    let error = ws.lbx(&["write", "a.txt", "--content", "x\n", "--dry-run"]).error("not_read");
    assert_eq!(error["details"]["unseen_lines"], json!([[4, 4]]));
    ws.lbx(&["read", "a.txt", "--start-line", "4", "--end-line", "4"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "x\n", "--dry-run"]).ok();
}

#[test]
fn ranges_share_max_bytes_and_return_next_offset() {
    let ws = Workspace::with(&[("a.txt", &numbered(5000))]);
    let data = ws.lbx(&["read", "a.txt", "--ranges", "1-2,100-4000,4500-", "--max-bytes", "1000"]).ok();
    let ranges = data["ranges"].as_array().unwrap();
    assert_eq!(ranges.len(), 2);
    let bytes: usize = ranges.iter().map(|range| range["content"].as_str().unwrap().len()).sum();
    assert!(bytes <= 1000 && bytes > 900, "{bytes}");
    assert_eq!((&data["truncated"], &data["next_offset"]), (&json!(true), &ranges[1]["end_line"]));
}

#[test]
fn hundred_ranges_fit_in_harness_output() {
    let ws = Workspace::with(&[("a.txt", &numbered(20_000))]);
    let ranges: Vec<String> =
        (0..100).map(|number| format!("{}-{}", number * 150 + 1, number * 150 + 90)).collect();
    let answer = ws.json("read", &json!({"path": "a.txt", "ranges": ranges}));
    assert!(answer.stdout().len() < 30_000, "{} bytes", answer.stdout().len());
    assert_eq!(answer.ok()["truncated"], true);
}

#[test]
fn negative_start_line_works_in_every_encoding() {
    let ws = Workspace::bare(&[
        ("crlf.txt", "a\r\nb\r\nc"),
        ("cr.txt", "a\rb\rc\r"),
        ("one.txt", "a"),
        ("none.txt", ""),
    ]);
    let utf16 = "\u{feff}a\nb\nc\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    ws.write("utf16.txt", utf16);
    for (path, content, start) in [
        ("crlf.txt", "b\r\nc", 2),
        ("cr.txt", "b\rc\r", 2),
        ("utf16.txt", "b\nc\n", 2),
        ("one.txt", "a", 1),
        ("none.txt", "", 1),
    ] {
        let data = ws.json("read", &json!({"path": path, "start_line": -2})).ok();
        assert_eq!((&data["content"], &data["start_line"]), (&json!(content), &json!(start)), "{path}");
    }
}

#[test]
fn last_lines_of_a_growing_log_are_read() {
    let ws = Workspace::bare(&[("app.log", &"old\n".repeat(4 << 20))]);
    let mut log = std::fs::File::options().append(true).open(ws.path("app.log")).unwrap();
    let is_read = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_read.load(Ordering::Relaxed) {
                log.write_all(b"new\n").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let data = ws.lbx(&["read", "app.log", "--start-line", "-2"]);
        is_read.store(true, Ordering::Relaxed);
        assert_eq!(data.ok()["content"].as_str().map(|lines| lines.lines().count()), Some(2));
    });
}

#[test]
fn numbered_lines_keep_the_exact_text() {
    let text = "a\tb\n\n\t1\t2\r\n  c";
    let ws = Workspace::with(&[("a.txt", text)]);
    let data = ws.lbx(&["read", "a.txt", "-n"]).ok();
    let content = data["content"].as_str().unwrap();
    let lines: Vec<&str> =
        content.split_inclusive('\n').map(|line| line.split_once('\t').unwrap().1).collect();
    assert_eq!(lines.concat(), text);
    let long = Workspace::with(&[("a.txt", &numbered(20_000))]);
    let data = long.lbx(&["read", "a.txt", "-n", "--limit", "0"]).ok();
    assert!(data["content"].as_str().unwrap().len() <= 24_576);
    let next = data["next_offset"].as_u64().unwrap();
    let after = long.json("read", &json!({"path": "a.txt", "offset": next, "limit": 1})).ok();
    assert_eq!(after["content"], format!("line {}\n", data["end_line"].as_u64().unwrap() + 1));
}

#[test]
fn show_whitespace_makes_whitespace_visible() {
    let ws = Workspace::with(&[("a.txt", "\ta \r\nb\u{a0}c\u{201d}\n")]);
    let data = ws.lbx(&["read", "a.txt", "--show-whitespace"]).ok();
    assert_eq!((&data["content"], &data["literal"]), (&json!("→a·␍\nb‹U+00A0›c‹U+201D›\n"), &json!(false)));
    let data = ws.lbx(&["read", "a.txt"]).ok();
    assert_eq!(data.get("literal"), None);
    let shown = ws.lbx(&["read", "a.txt", "--show-whitespace", "-n", "-t"]).stdout_text();
    assert_eq!(shown, "1\t→a·␍\n2\tb‹U+00A0›c‹U+201D›\n");
    ws.lbx(&["write", "a.txt", "--content", "x\r\n", "--dry-run"]).success();
}

#[test]
fn around_line_reads_the_enclosing_block() {
    let code = "use x;\n\n// One.\nfn one() {\n    a();\n    if b {\n        c();\n    }\n}\n\nfn two() {}\n";
    let ws = Workspace::with(&[("a.rs", code)]);
    let data = ws.lbx(&["read", "a.rs", "--around-line", "5"]).ok();
    let block = "// One.\nfn one() {\n    a();\n    if b {\n        c();\n    }\n}\n";
    assert_eq!(
        (&data["content"], &data["start_line"], &data["end_line"]),
        (&json!(block), &json!(3), &json!(9))
    );
    assert_eq!(data["truncated"], false);
    let data = ws.lbx(&["read", "a.rs", "--around-line", "7", "-n"]).ok();
    assert_eq!(data["content"], "6\t    if b {\n7\t        c();\n8\t    }\n");
    let data = ws.lbx(&["read", "a.rs", "--around-line", "5", "--limit", "3"]).ok();
    assert_eq!((&data["start_line"], &data["end_line"]), (&json!(4), &json!(6)));
    assert_eq!((&data["truncated"], &data["next_offset"]), (&json!(true), &json!(6)));
    ws.lbx(&["read", "a.rs", "--around-line", "50"]).warned("past the end");
    // A block of many lines is bounded, and the line is in it.
    let body = "    line();\n".repeat(30_000);
    ws.write("big.rs", format!("fn big() {{\n{body}}}\n"));
    let data = ws.lbx(&["read", "big.rs", "--around-line", "15000"]).ok();
    assert!(data["content"].as_str().unwrap().len() <= 24_576);
    let (start, end) = (data["start_line"].as_u64().unwrap(), data["end_line"].as_u64().unwrap());
    assert!(start <= 15_000 && 15_000 <= end && data["truncated"] == true, "{start}-{end}");
    ws.write("long.rs", "x".repeat(2_000_000));
    let data = ws.lbx(&["read", "long.rs", "--around-line", "1"]).ok();
    assert_eq!((&data["next_offset"], &data["next_column"]), (&json!(0), &json!(24_577)));
}

/// A notebook of three cells.
const NOTEBOOK: &str = r##"{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[
{"cell_type":"markdown","metadata":{},"source":["# Title\n","text"]},
{"cell_type":"code","execution_count":3,"metadata":{},"source":"print('x')\n1","outputs":[
 {"output_type":"stream","name":"stdout","text":["x\n"]},
 {"output_type":"execute_result","execution_count":3,"metadata":{},"data":{"text/plain":"1","image/png":"iVBORw0="}},
 {"output_type":"error","ename":"ValueError","evalue":"no","traceback":[]}]},
{"cell_type":"raw","metadata":{},"source":[]}]}
"##;

#[test]
fn read_returns_notebook_cells() {
    let ws = Workspace::with(&[("a.ipynb", NOTEBOOK), ("b.txt", "no notebook\n")]);
    let data = ws.lbx(&["read", "a.ipynb", "--cell", "0"]).ok();
    let cells = json!([
        {"cell": 1, "type": "markdown", "source": "# Title\ntext"},
        {"cell": 2, "type": "code", "source": "print('x')\n1", "execution_count": 3,
         "outputs": ["stdout: x\n", "1; image/png (8 characters)", "error: ValueError: no"]},
        {"cell": 3, "type": "raw", "source": ""},
    ]);
    assert_eq!((&data["cells"], &data["total_cells"]), (&cells, &json!(3)));
    assert_eq!(data["sha256"], sha256(NOTEBOOK.as_bytes()));
    let one = ws.lbx(&["read", "a.ipynb", "--cell", "2"]).ok();
    assert_eq!(one["cells"], json!([cells[1]]));
    let text = ws.lbx(&["read", "a.ipynb", "--cell", "1", "-t"]).stdout_text();
    assert_eq!(text, "==> cell 1: markdown <==\n# Title\ntext\n");
    let short = ws.lbx(&["read", "a.ipynb", "--cell", "0", "--max-bytes", "60"]).ok();
    assert_eq!((short["cells"].as_array().unwrap().len(), &short["next_cell"]), (1, &json!(2)));
    // The bytes are known and may be edited, but not all of its lines were shown.
    ws.lbx(&["edit", "a.ipynb", "--old-string", "# Title", "--new-string", "# T", "--dry-run"]).ok();
    ws.lbx(&["write", "a.ipynb", "--content", "{}", "--dry-run"]).error("not_read");
    ws.lbx(&["read", "a.ipynb", "--cell", "4"]).error("invalid_request");
    ws.lbx(&["read", "b.txt", "--cell", "1"]).error("invalid_request");
    let sha = sha256(NOTEBOOK.as_bytes());
    assert_eq!(ws.lbx(&["read", "a.ipynb", "--cell", "1", "--if-sha256", &sha]).ok()["unchanged"], true);
}

#[test]
fn read_reports_the_size_of_an_image() {
    let ws = Workspace::with(&[]);
    let gif = b"GIF89a\x02\x00\x03\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x02\x00\x03\x00\x00\x02\x02D\x01\x00;";
    ws.write("a.gif", gif);
    let error = ws.lbx(&["read", "a.gif"]).error("binary_file");
    assert_eq!((&error["details"]["width"], &error["details"]["height"]), (&json!(2), &json!(3)));
    assert!(error["message"].as_str().unwrap().contains("image/gif, 35 bytes, 2x3 pixels"), "{error}");
    let data = ws.lbx(&["read", "a.gif", "--binary", "base64"]).ok();
    assert_eq!((&data["mime"], &data["width"], &data["height"]), (&json!("image/gif"), &json!(2), &json!(3)));
    ws.write("cut.gif", &gif[..7]);
    let error = ws.lbx(&["read", "cut.gif"]).error("binary_file");
    assert_eq!(error["details"].get("width"), None);
}

#[test]
fn partly_shown_line_does_not_count_as_read() {
    let ws = Workspace::with(&[("a.txt", &"x".repeat(1000))]);
    ws.lbx(&["read", "a.txt", "--column", "900"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "x\n", "--dry-run"]).error("not_read");
}

/// Returns a text with one very long line.
fn with_long_line() -> String {
    format!("{}{}\n{}", numbered(4), "x".repeat(100_000), numbered(3))
}

#[test]
fn long_line_is_clipped_and_later_lines_are_read() {
    let ws = Workspace::with(&[("a.txt", &with_long_line()), ("b.txt", "b\n")]);
    let clipped = json!([{"line": 5, "next_column": 2001, "bytes": 100_000}]);
    let start = format!("{}\n", "x".repeat(2000));
    let data = ws.lbx(&["read", "a.txt"]).ok();
    assert_eq!(data["content"], format!("{}{start}{}", numbered(4), numbered(3)));
    assert_eq!(
        (&data["clipped"], &data["end_line"], &data["truncated"]),
        (&clipped, &json!(8), &json!(true))
    );
    // The next read continues at the missing part.
    assert_eq!((&data["next_offset"], &data["next_column"]), (&json!(4), &json!(2001)));
    let rest =
        ws.json("read", &json!({"path": "a.txt", "start_line": 5, "end_line": 5, "column": 2001})).ok();
    assert_eq!((&rest["content"], &rest["next_column"]), (&json!("x".repeat(24_576)), &json!(26_577)));
    // If more lines follow, those come first.
    let some = ws.lbx(&["read", "a.txt", "--limit", "6"]).ok();
    assert_eq!((&some["clipped"], &some["next_offset"]), (&clipped, &json!(6)));
    assert_eq!((&some["next_column"], &some["range_sha256"]), (&Value::Null, &Value::Null));
    // A range with an end is wanted whole or not at all: the first is clipped as the others.
    for request in [
        json!({"path": "a.txt", "start_line": 5, "end_line": 6}),
        json!({"path": "a.txt", "offset": -4, "limit": 2}),
    ] {
        let data = ws.json("read", &request).ok();
        assert_eq!((&data["content"], &data["clipped"]), (&json!(format!("{start}line 1\n")), &clipped));
    }
    let ranges = ws.json("read", &json!({"path": "a.txt", "ranges": ["5", "7-8"]})).ok();
    assert_eq!((&ranges["ranges"][0]["content"], &ranges["clipped"]), (&json!(start), &clipped));
    assert_eq!(ranges["ranges"][0].get("range_sha256"), None);
    assert_eq!(ranges["ranges"][1]["content"], "line 2\nline 3\n");
    let several = ws.json("read", &json!({"paths": ["a.txt", "b.txt"]})).ok();
    assert_eq!((&several["files"][0]["clipped"], &several["files"][1]["content"]), (&clipped, &json!("b\n")));
    let numbers = ws.lbx(&["read", "a.txt", "-n"]).ok();
    assert!(numbers["content"].as_str().unwrap().ends_with("xx\n6\tline 1\n7\tline 2\n8\tline 3\n"));
    assert_eq!(numbers["clipped"], clipped);
    let block = ws.lbx(&["read", "a.txt", "--around-line", "7"]).ok();
    assert_eq!((&block["content"], &block["clipped"]), (&data["content"], &clipped));
}

#[test]
fn text_output_says_how_to_continue_a_clipped_line() {
    let ws = Workspace::with(&[("a.txt", &with_long_line())]);
    let answer = ws.lbx(&["read", "a.txt", "-t"]);
    let said = answer.stderr();
    assert!(
        said.contains(
            "line 5 is clipped to 2000 of 100000 bytes; continue with --start-line 5 --column 2001"
        ),
        "{said}"
    );
    assert!(answer.stdout_text().ends_with("xx\nline 1\nline 2\nline 3\n"));
    let rest = ws.lbx(&["read", "a.txt", "--start-line", "5", "--column", "90001", "--limit", "1", "-t"]);
    assert_eq!(rest.stdout_text(), format!("{}\n", "x".repeat(10_000)));
}

#[test]
fn clipped_line_does_not_count_as_read() {
    let ws = Workspace::with(&[("a.txt", &with_long_line())]);
    ws.lbx(&["read", "a.txt"]).ok();
    let brief = ws.lbx(&["session", "brief", "-t"]).stdout_text();
    assert!(brief.contains("1-4") && brief.contains("6-8"), "{brief}");
    let error = ws.lbx(&["write", "a.txt", "--content", "x\n", "--dry-run"]).error("not_read");
    assert_eq!(error["details"]["unseen_lines"], json!([[5, 5]]));
    // The shown part can be edited: the old text names it exactly.
    ws.lbx(&["edit", "a.txt", "--old-string", "xx\nline 1", "--new-string", "xx\nline one"]).ok();
    ws.lbx(&["read", "a.txt", "--max-bytes", "0"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "x\n", "--dry-run"]).ok();
}

#[test]
fn clipped_line_keeps_characters_and_ending_in_every_encoding() {
    let long = "é\u{1f600}".repeat(20_000);
    let text = format!("a\r\n{long}\r\nb\r\n");
    let ws = Workspace::with(&[("utf8.txt", &format!("\u{feff}{text}"))]);
    let utf16 = |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        format!("\u{feff}{text}").encode_utf16().flat_map(bytes).collect()
    };
    ws.write("le.txt", utf16(u16::to_le_bytes));
    ws.write("be.txt", utf16(u16::to_be_bytes));
    ws.write("latin1.txt", [b"a\r\n".to_vec(), vec![0xe9; 100_000], b"\r\nb\r\n".to_vec()].concat());
    ws.write("cr.txt", text.replace("\r\n", "\r"));
    for (path, bytes) in [
        ("utf8.txt", 120_000),
        ("le.txt", 120_000),
        ("be.txt", 120_000),
        ("cr.txt", 120_000),
        ("latin1.txt", 100_000),
    ] {
        let answer = ws.lbx(&["read", path]);
        assert!(answer.stdout().len() < 10_000, "{path}: {} bytes", answer.stdout().len());
        let data = answer.envelope()["data"].clone();
        let (content, clipped) = (data["content"].as_str().unwrap(), &data["clipped"][0]);
        assert_eq!((&clipped["line"], &clipped["bytes"]), (&json!(2), &json!(bytes)), "{path}");
        let ending = if path == "cr.txt" { "\r" } else { "\r\n" };
        let line = content.split(ending).nth(1).unwrap();
        assert!(path == "latin1.txt" || long.starts_with(line), "{path}");
        assert!(content.ends_with(&format!("{ending}b{ending}")), "{path}");
        let next = clipped["next_column"].as_u64().unwrap();
        assert!(path == "latin1.txt" || next == line.len() as u64 + 1, "{path}");
        // The parts of the line join.
        let rest = ws
            .json(
                "read",
                &json!({"path": path, "start_line": 2, "end_line": 2, "column": next, "max_bytes": 0}),
            )
            .envelope();
        let rest = rest["data"]["content"].as_str().unwrap();
        assert!(path == "latin1.txt" || format!("{line}{rest}") == format!("{long}{ending}"), "{path}");
    }
}

#[test]
fn read_of_undecodable_bytes_stays_within_the_limit() {
    let ws = Workspace::with(&[]);
    ws.write("koi8.txt", [[0xd0; 60].as_slice(), b"\n"].concat().repeat(2000));
    for flags in
        [&["read", "koi8.txt"][..], &["read", "koi8.txt", "-n"], &["read", "koi8.txt", "--show-whitespace"]]
    {
        let answer = ws.lbx(flags);
        assert!(answer.stdout().len() < 31_000, "{flags:?}: {} bytes", answer.stdout().len());
    }
    // Marks for whitespace do not exceed the limit either.
    ws.write("tabs.txt", format!("{}\n", "\t".repeat(20_000)).repeat(3));
    let answer = ws.lbx(&["read", "tabs.txt", "--show-whitespace"]);
    assert!(answer.stdout().len() < 31_000, "{} bytes", answer.stdout().len());
    let data = answer.ok();
    assert_eq!((&data["next_offset"], &data["next_column"]), (&json!(0), &json!(8193)));
    let block = ws.lbx(&["read", "tabs.txt", "--show-whitespace", "--around-line", "2"]).ok();
    assert_eq!((&block["next_offset"], &block["next_column"]), (&json!(1), &json!(8193)));
}

#[test]
fn long_notebook_cell_is_read_in_parts() {
    let source = "é = 1\n".repeat(2000);
    let notebook = json!({"cells": [
        {"cell_type": "code", "source": source, "outputs": [{"output_type": "stream", "text": "x"}]},
        {"cell_type": "markdown", "source": "b"},
    ]});
    let ws = Workspace::with(&[("a.ipynb", &notebook.to_string())]);
    let (mut joined, mut cell, mut column) = (String::new(), 1, 1);
    loop {
        let request = json!({"path": "a.ipynb", "cell": cell, "column": column, "max_bytes": 5000});
        let data = ws.json("read", &request).ok();
        joined.push_str(data["cells"][0]["source"].as_str().unwrap());
        match data["next_column"].as_u64() {
            Some(next) => (cell, column) = (data["next_cell"].as_u64().unwrap(), next),
            None => break,
        }
    }
    assert!(joined == source, "the parts do not join to the cell");
    let said = ws.lbx(&["read", "a.ipynb", "--cell", "0", "--max-bytes", "5000", "-t"]).stderr();
    assert!(said.contains("continue with --cell 1 --column "), "{said}");
    ws.lbx(&["read", "a.ipynb", "--cell", "0", "--column", "2"]).error("invalid_request");
}

#[test]
fn column_or_range_past_the_end_is_a_warning() {
    let ws = Workspace::with(&[("a.txt", &numbered(3))]);
    let data = ws
        .lbx(&["read", "a.txt", "--column", "99", "--limit", "1"])
        .warned("column 99 is past the end of line 1");
    assert_eq!(data["content"], "");
    ws.lbx(&["read", "a.txt", "--column", "7", "--limit", "1"]).ok();
    for column in ["8", "99"] {
        let data = ws
            .lbx(&["read", "a.txt", "-n", "--column", column])
            .warned(&format!("column {column} is past the end of line 1"));
        assert_eq!((&data["content"], &data["start_line"]), (&json!("2\tline 2\n3\tline 3\n"), &json!(2)));
    }
    // Too long for the bound, the line after it is cut at its own column.
    let cut = ws.lbx(&["read", "a.txt", "--column", "8", "--max-bytes", "4"]).warned("column 8 is");
    assert_eq!(
        (&cut["content"], &cut["next_offset"], &cut["next_column"]),
        (&json!("line"), &json!(1), &json!(5))
    );
    let data = ws.lbx(&["read", "a.txt", "--ranges", "3-9,8-9"]).warned("line 8 is past the end");
    assert_eq!((&data["start_line"], &data["end_line"]), (&json!(3), &json!(3)));
}

#[test]
fn line_of_one_character_is_not_cut() {
    let ws = Workspace::with(&[("blank", "\nb\n"), ("face", "\u{1f600}"), ("faces", "\u{1f600}\n\u{1f600}")]);
    for (args, content, next) in [
        (&["blank", "-n", "--max-bytes", "1"][..], "1\t\n", json!(1)),
        (&["blank", "-n", "--around-line", "1", "--max-bytes", "1"], "1\t\n", json!(null)),
        (&["face", "--max-bytes", "2"], "\u{1f600}", json!(null)),
        (&["face", "-n", "--max-bytes", "2"], "1\t\u{1f600}", json!(null)),
        (&["faces", "--offset", "1", "--max-bytes", "2"], "\u{1f600}", json!(null)),
    ] {
        let data = ws.lbx(&[&["read"], args].concat()).ok();
        assert_eq!((&data["content"], &data["next_offset"]), (&json!(content), &next), "{args:?}");
        assert_eq!(
            (&data["end_line"], &data["next_column"]),
            (&data["start_line"], &json!(null)),
            "{args:?}"
        );
    }
}

#[test]
fn view_range_selects_lines() {
    let ws = Workspace::with(&[("a.txt", &numbered(5))]);
    for (range, content) in [(json!([2, 3]), "line 2\nline 3\n"), (json!([4, -1]), "line 4\nline 5\n")] {
        assert_eq!(ws.json("read", &json!({"path": "a.txt", "view_range": range})).ok()["content"], content);
    }
    for wrong in [
        json!({"view_range": [1]}),
        json!({"view_range": [1, 2], "start_line": 1}),
        json!({"view_range": [0, 2]}),
    ] {
        let mut request = wrong;
        request["path"] = json!("a.txt");
        ws.json("read", &request).error("invalid_request");
    }
    assert!(!ws.lbx(&["schema", "read"]).stdout_text().contains("view_range"));
}

#[test]
fn small_files_are_shown_whole_next_to_large_ones() {
    let large = "a line of some length, as source code has it\n".repeat(2000);
    let files = [("a.txt", large.as_str()), ("b.txt", "small\n"), ("c.txt", &large), ("d.txt", "last\n")];
    let ws = Workspace::with(&files);
    let data = ws.lbx(&["read", "a.txt", "b.txt", "c.txt", "d.txt"]).ok();
    let length = |index: usize| data["files"][index]["content"].as_str().unwrap().len();
    assert_eq!((length(1), length(3)), (6, 5));
    assert!(length(0) > 10_000 && length(2) > 10_000, "{} {}", length(0), length(2));
    // Unused space of one file goes to the others.
    let data = ws.json("read", &json!({"paths": ["a.txt", "c.txt"], "limit": 2})).ok();
    assert_eq!((&data["files"][0]["end_line"], &data["files"][1]["end_line"]), (&json!(2), &json!(2)));
}

#[test]
fn read_of_only_missing_files_is_an_error() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("dir/b.txt", "")]);
    let error = ws.lbx(&["read", "x.txt", "y.txt"]).error("not_found");
    assert_eq!(error["details"]["files"].as_array().unwrap().len(), 2);
    assert!(error["message"].as_str().unwrap().contains("none of 2 files"), "{error}");
    ws.json("read", &json!({"paths": ["x.txt"]})).error("not_found");
    ws.lbx(&["read", "dir", "x.txt"]).error("is_a_directory");
    let data = ws.json("read", &json!({"path": "x.txt", "paths": ["a.txt"]})).ok();
    assert_eq!((&data["files"][0]["path"], &data["files"][1]["path"]), (&json!("x.txt"), &json!("a.txt")));
    let many: Vec<String> = (0..5_000).map(|number| format!("missing/{number}")).collect();
    let answer = ws.json("read", &json!({"paths": many}));
    assert!(answer.stdout().len() < 30_000, "{} bytes", answer.stdout().len());
    answer.error("not_found");
    let many: Vec<String> = (0..100_000).map(|number| format!("missing/{number}")).collect();
    let answer = ws.lbx_stdin(&["read"], json!({"paths": many}).to_string());
    assert!(answer.stdout().len() < 1_000, "{} bytes", answer.stdout().len());
    answer.error("invalid_request");
}

#[test]
fn line_suffix_of_a_path_selects_lines() {
    let text: String = (1..=30).map(|number| format!("line {number}\n")).collect();
    let ws = Workspace::with(&[("a.txt", &text), ("b:7", "a name\n")]);
    for (name, first, last) in
        [("a.txt:10-14", 10, 14), ("a.txt:3", 3, 3), ("a.txt:3:9", 3, 3), ("a.txt:29-", 29, 30)]
    {
        let data = ws.lbx(&["read", name]).ok();
        assert_eq!((&data["start_line"], &data["end_line"]), (&json!(first), &json!(last)), "{name}");
        assert_eq!(data["path"], "a.txt");
    }
    assert_eq!(ws.lbx(&["read", "b:7"]).ok()["content"], "a name\n");
    let several = ws.lbx(&["read", "a.txt:1", "a.txt:2-3"]).ok();
    assert_eq!(several["files"][1]["content"], "line 2\nline 3\n");
    for name in ["a.txt:x", "none.txt:3", "a.txt:", "a.txt:99999999999999999999"] {
        ws.lbx(&["read", name]).error("not_found");
    }
    ws.lbx(&["read", "a.txt:3", "--limit", "2"]).error("not_found");
}
