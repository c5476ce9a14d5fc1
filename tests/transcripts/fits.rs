//! Warnings about a new text that does not fit its file, and about a request that may not mean what it says.

use serde_json::json;

use crate::common::Workspace;

/// Returns the warnings of an answer.
fn warnings(answer: &serde_json::Value) -> String {
    answer["warnings"].to_string()
}

#[test]
fn write_warns_about_invisible_characters() {
    let ws = Workspace::with(&[("old.txt", "a\u{200b}b\n")]);
    let written = ws.json("write", &json!({"path": "n.txt", "content": "a\nb\u{0}c\u{feff}\n"})).success();
    let told = warnings(&written);
    assert!(told.contains("n.txt has a character that nobody types in line 2: U+0000"), "{told}");
    assert!(told.contains("U+FEFF"), "{told}");
    // A character that the file already has is not reported.
    ws.lbx(&["append", "old.txt", "--content", "x\u{200b}y\n"]).ok();
}

#[test]
fn write_warns_about_unexpected_line_endings() {
    let ws = Workspace::with(&[
        ("a.txt", "a\nb\n"),
        (".gitattributes", "*.bat text eol=crlf\n"),
        ("sub/.editorconfig", "root = true\n[*.{cmd,ps1}]\nend_of_line = crlf\n"),
    ]);
    ws.lbx(&["read", "a.txt"]).ok();
    let cases = [
        (json!({"path": "a.txt", "content": "a\r\nb\r\n"}), "a.txt had LF line endings and now has CRLF"),
        (json!({"path": "n.sh", "content": "#!/bin/sh\r\n"}), "n.sh begins with a `#!` line that ends in CR"),
        (
            json!({"path": "x/r.bat", "content": "a\n"}),
            "x/r.bat has LF line endings, and .gitattributes wants CRLF",
        ),
        (
            json!({"path": "sub/r.cmd", "content": "a\n"}),
            "sub/r.cmd has LF line endings, and sub/.editorconfig wants CRLF",
        ),
    ];
    for (request, told) in cases {
        ws.json("write", &request).warned(told);
    }
    ws.json("write", &json!({"path": "s.bat", "content": "a\r\n"})).ok();
}

#[test]
fn text_outside_the_file_encoding_is_rejected() {
    let ws = Workspace::with(&[]);
    let gbk = b"// \xd7\xa2\xca\xcd\nint x = 1;\n";
    ws.write("g.c", gbk);
    ws.lbx(&["read", "g.c"]).warned("g.c is not UTF-8");
    let patch = "--- a/g.c\n+++ b/g.c\n@@ -2 +2 @@\n-int x = 1;\n+int x = 1; // 新\n";
    for (tool, request) in [
        ("edit", json!({"path": "g.c", "old_string": "x = 1;", "new_string": "x = 1; // 新"})),
        ("append", json!({"path": "g.c", "content": "é\n"})),
        ("insert", json!({"path": "g.c", "line": 1, "content": "é\n"})),
        ("patch", json!({ "patch": patch })),
    ] {
        let error = ws.unchanged(|| ws.json(tool, &request).error("unsupported_encoding"));
        assert!(error["message"].as_str().unwrap().starts_with("g.c is not UTF-8, and line 1"), "{error:#}");
    }
    ws.lbx(&["edit", "g.c", "--old-string", "x = 1;", "--new-string", "x = 2;"]).ok();
}

/// A file with a merge conflict, and the block that resolves it.
const CONFLICT: (&str, &str) = (
    "head\n<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> topic\ntail\n",
    "<<<<<<< SEARCH\n<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> topic\n=======\nboth\n>>>>>>> REPLACE\n",
);

#[test]
fn file_content_decides_the_divider_of_a_block() {
    let (text, block) = CONFLICT;
    for crlf in [false, true] {
        let ended = |text: &str| if crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
        let ws = Workspace::with(&[("f", &ended(text)), ("g", &ended(text))]);
        ws.lbx(&["read", "f"]).ok();
        ws.lbx(&["read", "g"]).ok();
        ws.lbx_stdin(&["edit", "f"], block).ok();
        ws.lbx_stdin(&["patch"], format!("g\n{block}")).ok();
        ws.holds("f", ended("head\nboth\ntail\n"));
        ws.holds("g", ended("head\nboth\ntail\n"));
    }
    // The file holds none of the possible old texts, or several.
    for (text, why) in [("else\n", "the old text of none"), ("a\n=======\nb\n", "the old text of several")] {
        let ws = Workspace::with(&[("f", text)]);
        ws.lbx(&["read", "f"]).ok();
        let block = "<<<<<<< SEARCH\na\n=======\nb\n=======\nc\n>>>>>>> REPLACE\n";
        let error = ws.unchanged(|| ws.lbx_stdin(&["edit", "f"], block).error("invalid_request"));
        let said = error["message"].as_str().unwrap();
        assert!(said.contains(why) && said.contains("`<<<<<<<<< SEARCH`"), "{said}");
    }
}

#[test]
fn blocks_of_other_tools_apply_at_their_start_line() {
    let ws = Workspace::with(&[("f", "x\ny\nx\n"), ("c", "one\ntwo\n")]);
    ws.lbx(&["read", "f"]).ok();
    ws.lbx(&["read", "c"]).ok();
    let hinted =
        |line: u64| format!("<<<<<<< SEARCH\n:start_line:{line}\n-------\nx\n=======\nX\n>>>>>>> REPLACE\n");
    ws.unchanged(|| ws.lbx_stdin(&["edit", "f"], hinted(2)).error("no_match"));
    ws.unchanged(|| ws.lbx_stdin(&["patch"], format!("f\n{}", hinted(2))).error("patch_invalid"));
    ws.lbx_stdin(&["edit", "f"], hinted(3)).ok();
    ws.holds("f", "x\ny\nX\n");
    ws.lbx_stdin(&["patch"], format!("f\n{}", hinted(1))).ok();
    ws.holds("f", "X\ny\nX\n");
    ws.lbx_stdin(&["edit", "c"], "------- SEARCH\ntwo\n=======\nTWO\n+++++++ REPLACE\n").ok();
    ws.holds("c", "one\nTWO\n");
}

#[test]
fn meaningless_empty_values_count_as_absent() {
    let ws = Workspace::with(&[("a.txt", "x\n"), ("b.txt", "b\n")]);
    let read = ws.json(
        "read",
        &json!({"path": "a.txt", "start_line": 0, "end_line": 0, "offset": 0, "limit": 0,
        "ranges": [], "if_sha256": "", "column": 0, "around_line": 0}),
    );
    assert_eq!(read.ok()["content"], "x\n");
    let edit = json!({"path": "a.txt", "old_string": "x", "new_string": "y", "edits": [], "sketch": "",
        "start_line": 0, "occurrence": 0, "expected_replacements": "", "expected_sha256": "", "replace_all": "False"});
    ws.json("edit", &edit).ok();
    ws.holds("a.txt", "y\n");
    // An empty new text deletes.
    ws.json("edit", &json!({"path": "a.txt", "old_string": "y", "new_string": ""})).ok();
    ws.holds("a.txt", "\n");
    assert_eq!(
        ws.json("grep", &json!({"pattern": "b", "include": "", "path": "", "depth": 0})).ok()["matched"],
        1
    );
    let both = ws.json("read", &json!({"filepath": ["a.txt", "b.txt"], "limit": "2.0"})).ok();
    assert_eq!(both["files"].as_array().unwrap().len(), 2, "{both:#}");
    ws.json("write", &json!({"path": "", "content": "x"})).error("invalid_request");
}

#[test]
fn duplicate_edit_that_matches_its_own_result_is_rejected() {
    let ws = Workspace::with(&[("a.txt", "x\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let edit = json!({"old_string": "x", "new_string": "xy"});
    let error = ws.unchanged(|| {
        ws.json("edit", &json!({"path": "a.txt", "edits": [edit, edit]})).error("invalid_request")
    });
    assert_eq!(
        error["message"],
        "edits 1 and 2 are the same, and the second would change the text of the first once more"
    );
}

#[test]
fn search_without_matches_explains_why() {
    let ws = Workspace::with(&[
        ("src/a.ts", "needle $HOME x\n"),
        ("[id]/page.tsx", "route\n"),
        ("café.txt", "x\n"),
    ]);
    for (arguments, told) in [
        (
            &["needle", "--include", "*.go,*.rs"][..],
            "include *.go,*.rs selects no file here: give each glob by itself",
        ),
        (&["needle", "--include", "*.go"], "include *.go selects no file here"),
        (
            &["$HOME"],
            "`$HOME` was read as a regular expression; as plain text it does occur: set literal to true",
        ),
        (
            &["/needle/i"],
            "the slashes of `/needle/i` are part of the regular expression: did you mean `needle`?",
        ),
    ] {
        ws.lbx(&[&["grep"], arguments].concat()).warned(told);
    }
    let error = ws.lbx(&["grep", "needle", "src/*.ts"]).error("not_found");
    assert!(error["suggested_action"].as_str().unwrap().starts_with("A path has no wildcards"), "{error:#}");
    // A pattern that is also an existing path means that path.
    assert_eq!(ws.lbx(&["glob", "[id]/page.tsx"]).ok()["paths"], json!(["[id]/page.tsx"]));
    assert_eq!(ws.lbx(&["grep", "route", "--include", "[id]/**"]).ok()["matched"], 1);
    assert_eq!(ws.lbx(&["grep", "route", "--exclude", "[id]/page.tsx"]).success()["data"]["matched"], 0);
    // A name that looks like the requested one is distinguished from it.
    let error = ws.lbx(&["delete", "cafe\u{301}.txt"]).error("not_found");
    assert!(
        error["suggested_action"].as_str().unwrap().contains("(in JSON \"caf\\u00e9.txt\")"),
        "{error:#}"
    );
}

#[test]
fn squash_warns_that_it_does_not_sign() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    for (key, value) in [("user.name", "A"), ("user.email", "a@example.org"), ("commit.gpgsign", "true")] {
        ws.git(&["config", key, value]);
    }
    ws.lbx(&["append", "a.txt", "--content", "b\n"]).ok();
    let base = ws.git(&["rev-parse", "HEAD"]);
    ws.lbx(&["squash", "-m", "t"]).warned(&format!(
        "commit.gpgsign is set, but lbx signs nothing: with lbx/default checked out, `git rebase --autostash --rebase-merges --exec 'git commit --amend --no-edit -S' {base}` signs its new commits"
    ));
}

#[test]
fn snapshot_branch_accepts_a_ref_outside_refs_heads() {
    let ws = Workspace::with(&[
        ("a.txt", "a\n"),
        (".lbx/config.toml", "snapshot.branch = \"refs/lbx/snapshots\"\n"),
    ]);
    ws.lbx(&["append", "a.txt", "--content", "b\n"]).ok();
    ws.lbx(&["append", "a.txt", "--content", "c\n"]).ok();
    let references = ws.git(&["for-each-ref", "--format=%(refname)"]);
    assert!(references.contains("refs/lbx/snapshots") && !references.contains("heads/lbx"), "{references}");
    assert_eq!(ws.lbx(&["log"]).ok()["snapshots"].as_array().unwrap().len(), 2);
    assert_eq!(ws.lbx(&["doctor"]).ok()["healthy"], true);
    ws.lbx(&["undo", "--steps", "2"]).ok();
    ws.holds("a.txt", "a\n");
    ws.lbx(&["config", "--set", "snapshot.branch=refs/tags/x"]).error("invalid_request");
}

#[test]
fn removed_state_is_reported_by_undo_and_doctor() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.lbx(&["append", "a.txt", "--content", "b\n"]).ok();
    // Another HOME, as in another container, has another state.
    let error = ws.call(&["undo"]).env("LBX_STATE_ID", "f".repeat(32)).run().error("not_found");
    let said = error["message"].as_str().unwrap();
    assert!(said.contains("A state belongs to one HOME, or to one LBX_STATE_ID"), "{said}");
    std::fs::remove_dir_all(ws.path(".lbx")).unwrap();
    let error = ws.lbx(&["undo"]).error("not_found");
    let said = error["message"].as_str().unwrap();
    assert!(
        said.contains("the snapshots show changes of session default up to number 1, but their records"),
        "{said}"
    );
    let findings = ws.lbx(&["doctor"]).ok()["findings"].to_string();
    assert!(findings.contains("`git clean -xdf -e .lbx`"), "{findings}");
    // Numbers go on after those of the snapshots (T4), so that these still say what came after what.
    ws.lbx(&["append", "a.txt", "--content", "c\n"]).ok();
    ws.lbx(&["append", "a.txt", "--content", "d\n"]).ok();
    let log = ws.lbx(&["log"]).ok();
    let snapshots = log["snapshots"].as_array().unwrap();
    let numbers: Vec<_> = snapshots.iter().map(|snapshot| snapshot["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [3, 2, 1]);
    let first = snapshots[2]["id"].as_str().unwrap();
    ws.lbx(&["rewind", first, "--yes"]).ok();
    ws.holds("a.txt", "a\nb\n");
}
