//! `section`.

use serde_json::{Value, json};

use crate::common::{Workspace, sha256};

/// Cases as data: a file before, a request, and the file after or the error.
const CASES: &str = include_str!("../cases/section.json");

/// Returns UTF-16 with its byte-order mark.
fn utf16(text: &str) -> Vec<u8> {
    [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

/// Checks the outcome of a case: the answers to its request and to a repetition, and the file after each.
fn judge(case: &Value, answers: [&Value; 2], files: [&str; 2]) -> Result<(), String> {
    let [answer, again] = answers;
    let [found, found_again] = files;
    if let Some(kind) = case["error"].as_str() {
        let error = &answer["error"];
        let says = case["says"].as_str().unwrap_or_default();
        let is_right = error["kind"] == kind && error.to_string().contains(says) && found == case["before"];
        return if is_right { Ok(()) } else { Err(format!("{answer}, and the file is {found:?}")) };
    }
    let wanted = case["after"].as_str().unwrap();
    let is_warned = match case["warns"].as_str() {
        Some(part) => answer["warnings"].to_string().contains(part),
        None => answer.get("warnings").is_none(),
    };
    let is_done = answer["ok"] == true && answer["data"]["count"] == 1;
    if !is_done || found != wanted || !is_warned || answer["data"]["sha256"] != sha256(wanted.as_bytes()) {
        return Err(format!("{found:?} instead of {wanted:?}: {answer}"));
    }
    if again["data"]["match"] != "already_applied" || again.get("snapshot").is_some() || found_again != wanted
    {
        return Err(format!("repeated: {found_again:?}: {again}"));
    }
    Ok(())
}

#[test]
fn section_cases_give_the_expected_files_and_errors() {
    let ws = Workspace::bare(&[]);
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    let mut calls = String::new();
    for (number, case) in cases.iter().enumerate() {
        ws.write(&format!("{number}.md"), case["before"].as_str().unwrap());
        let mut request = case["request"].clone();
        request["path"] = json!(format!("{number}.md"));
        calls.push_str(&json!({ "tool": "section", "request": request }).to_string());
        calls.push('\n');
    }
    let pass = || {
        let answers = ws.lbx_stdin(&["batch"], &calls).lines();
        let file = |number: usize| String::from_utf8(ws.read_bytes(&format!("{number}.md"))).unwrap();
        answers.into_iter().zip((0..cases.len()).map(file)).collect::<Vec<_>>()
    };
    let (first, second) = (pass(), pass());
    let wrong: Vec<String> = (0..cases.len())
        .filter_map(|at| {
            let ((answer, file), (again, file_again)) = (&first[at], &second[at]);
            let what = judge(&cases[at], [answer, again], [file, file_again]).err()?;
            Some(format!("{}: {what}", cases[at]["name"]))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(cases.len() > 120);
}

#[test]
fn section_accepts_flags_stdin_and_json() {
    let ws = Workspace::with(&[("a.md", "# A\n\none\n\n# B\n\ntwo\n")]);
    let data = ws.lbx(&["section", "a.md", "A", "--content", "1"]).ok();
    assert_eq!(
        data,
        json!({
            "path": "a.md", "sha256": sha256(b"# A\n\n1\n\n# B\n\ntwo\n"), "header": "# A", "count": 1,
            "replacements": [{"start_line": 3, "end_line": 3}], "match": "exact",
            "lines_added": 1, "lines_removed": 1,
        })
    );
    assert_eq!(ws.snapshots(), ["section: a.md"]);
    ws.lbx_stdin(&["section", "a.md", "# B"], "2\n\n2.5\n").ok();
    ws.holds("a.md", "# A\n\n1\n\n# B\n\n2\n\n2.5\n");
    ws.lbx_stdin(&["section"], r##"{"file_path":"a.md","section_header":"# B","new_content":"2"}"##).ok();
    ws.holds("a.md", "# A\n\n1\n\n# B\n\n2\n");
    let answer = ws.lbx(&["section", "a.md", "B", "--append", "--content", "- x", "--text"]);
    assert_eq!(answer.stdout_text(), "section: a.md: # B (+2 -0 lines)\n");
    let answer = ws.lbx(&["section", "a.md", "B", "--include-subsections", "false", "--content", "3", "-t"]);
    assert_eq!(answer.stdout_text(), "section: a.md: # B (+1 -3 lines)\n");
    ws.lbx(&["undo"]).ok();
    ws.holds("a.md", "# A\n\n1\n\n# B\n\n2\n\n- x\n");
}

#[test]
fn section_dry_run_shows_the_diff_and_changes_nothing() {
    let ws = Workspace::with(&[("a.md", "# A\n\none\n")]);
    ws.unchanged(|| {
        let data = ws.lbx(&["section", "a.md", "A", "--content", "1", "--dry-run"]).ok();
        assert!(data["diff"].as_str().unwrap().contains("-one\n+1\n"), "{data}");
        ws.lbx(&["section", "a.md", "Z", "--content", "1", "--dry-run"]).error("no_match");
    });
}

#[test]
fn section_needs_no_read_but_checks_expected_sha256() {
    let ws = Workspace::with(&[("a.md", "# A\n\none\n\n# B\n\ntwo\n")]);
    ws.unchanged(|| {
        let wrong = sha256(b"other");
        ws.lbx(&["section", "a.md", "A", "--content", "1", "--expected-sha256", &wrong]).error("stale_file");
        ws.lbx(&["section", "a.md", "A", "--content", "one", "--expected-sha256", &wrong])
            .error("stale_file");
        ws.lbx(&["section", "none.md", "A", "--content", "1"]).error("not_found");
    });
    ws.lbx(&["section", "a.md", "A", "--content", "1"]).ok();
    // Parts that it never showed stay unread.
    ws.lbx(&["write", "a.md", "--content", "x"]).error("not_read");
    // A session that had read it, or has the digest, can continue.
    let sha = sha256(b"# A\n\n1\n\n# B\n\ntwo\n");
    ws.lbx(&["section", "a.md", "A", "--content", "one", "--expected-sha256", &sha]).ok();
    ws.lbx(&["edit", "a.md", "--old-string", "two", "--new-string", "2"]).ok();
    ws.lbx(&["section", "a.md", "B", "--content", "two"]).ok();
    ws.lbx(&["edit", "a.md", "--old-string", "two", "--new-string", "2"]).ok();
    let data = ws.lbx(&["section", "new/b.md", "## B", "--create", "--content", "x"]).ok();
    assert_eq!(data["match"], "created");
    ws.holds("new/b.md", "## B\n\nx\n");
}

#[test]
fn section_no_match_lists_the_nearest_headers_first() {
    let many: String = (1..=60).map(|number| format!("## Part {number}\n\n")).collect();
    let ws = Workspace::with(&[("a.md", &format!("# Handbook\n\n{many}## Installation\n"))]);
    let error = ws.lbx(&["section", "a.md", "installation", "--content", "x"]).error("no_match");
    assert_eq!(
        error["details"]["headers"][0],
        json!({"line": 123, "header": "## Installation", "path": "Handbook > Installation"})
    );
    assert_eq!(error["details"]["headers"].as_array().unwrap().len(), 20);
    assert_eq!(error["details"]["headers_total"], 62);
    let header = error["details"]["headers"][0]["header"].as_str().unwrap();
    ws.lbx(&["section", "a.md", header, "--content", "x"]).ok();
    let twice = Workspace::with(&[("b.md", "# A\n\n## X\n\n# B\n\n## X\n")]);
    let error = twice.lbx(&["section", "b.md", "X", "--content", "x"]).error("ambiguous_match");
    let path = error["details"]["places"][1]["path"].as_str().unwrap();
    twice.lbx(&["section", "b.md", path, "--content", "x"]).ok();
    twice.holds("b.md", "# A\n\n## X\n\n# B\n\n## X\n\nx\n");
}

#[test]
fn section_keeps_the_file_encoding() {
    let ws = Workspace::bare(&[]);
    let cases: &[(&str, Vec<u8>, Vec<u8>)] = &[
        (
            "bom.md",
            b"\xef\xbb\xbf# A\n\none\n\n# B\n".to_vec(),
            "\u{feff}# A\n\n\u{e9}\n\n# B\n".as_bytes().to_vec(),
        ),
        ("utf16.md", utf16("# A\r\n\r\none\r\n# B\r\n"), utf16("# A\r\n\r\n\u{e9}\r\n# B\r\n")),
        ("u2028.md", "# A\n\none\u{2028}# C\n\n# B\n".into(), "# A\n\n\u{e9}\n\n# B\n".into()),
    ];
    for (path, before, after) in cases {
        ws.write(path, before);
        ws.lbx(&["section", path, "# A", "--content", "\u{e9}\n"]).ok();
        ws.holds(path, after);
    }
    // The bytes of a character in an unknown single-byte encoding cannot be determined.
    for bytes in [&b"\xe9\n# A\n\none\n"[..], b"\xef\xbb\xbf# A\n\none\n\n\xff\n"] {
        ws.write("latin1.md", bytes);
        let section = ["section", "latin1.md", "# A", "--content"];
        ws.unchanged(|| ws.lbx(&[&section[..], &["\u{e9}\n"]].concat()).error("unsupported_encoding"));
        ws.lbx(&[&section[..], &["e\n"]].concat()).ok();
    }
}
