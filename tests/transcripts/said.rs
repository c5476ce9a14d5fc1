//! Answers are true: dry runs, hints, numbers.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::{Workspace, sha256, state};

#[test]
fn dry_run_is_marked_in_json_and_text() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\n"), ("b.md", "# B\n\nb\n"), ("c.txt", "c\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["append", "c.txt", "--content", "more\n"]).ok();
    let calls: &[&[&str]] = &[
        &["write", "a.txt", "--content", "new\n"],
        &["edit", "a.txt", "--old-string", "one", "--new-string", "1"],
        &["append", "a.txt", "--content", "x\n"],
        &["prepend", "a.txt", "--content", "x\n"],
        &["insert", "a.txt", "1", "--content", "x\n"],
        &["section", "b.md", "# B", "--content", "new\n"],
        &["delete", "a.txt"],
        &["move", "a.txt", "d/e.txt"],
        &["undo"],
    ];
    let before = ws.lbx(&["session", "status"]).ok();
    for call in calls {
        let call = [call, &["--dry-run"][..]].concat();
        let envelope = ws.unchanged(|| ws.lbx(&call).success());
        assert_eq!(envelope["dry_run"], true, "{call:?}");
        assert_eq!(envelope["data"].get("trash_id"), None, "{call:?}");
        let text = ws.lbx(&[&call[..], &["-t"]].concat()).stdout_text();
        assert!(text.starts_with(&format!("would {}: ", call[0])), "{call:?}: {text}");
    }
    assert_eq!(ws.lbx(&["session", "status"]).ok(), before, "marks and changes are as they were");
    // An error of a dry run says so as well; a normal call has no such field.
    let refused = ws.lbx(&["write", "b.md", "--content", "x\n", "--dry-run"]).envelope();
    assert_eq!((&refused["error"]["kind"], &refused["dry_run"]), (&json!("not_read"), &json!(true)));
    assert_eq!(ws.lbx(&["append", "a.txt", "--content", "x\n"]).success().get("dry_run"), None);
    let text = ws.lbx(&["delete", "a.txt", "-t"]).stdout_text();
    assert!(text.starts_with("delete: a.txt (1 file, 10 bytes; trash "), "{text}");
}

#[test]
fn dry_run_leaves_a_damaged_session_file_in_place() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let path = state("sessions/default.lbx");
    ws.write(&path, "{");
    for call in [&["append", "a.txt", "--content", "x", "--dry-run"][..], &["session", "end", "--dry-run"]] {
        let envelope = ws.lbx(call).success();
        assert!(envelope["warnings"][0].as_str().unwrap().contains("damaged"), "{envelope}");
        assert_eq!(ws.read_bytes(&path), b"{");
    }
}

#[test]
fn guessed_path_is_suggested_as_a_question() {
    let ws = Workspace::with(&[("src/enclosure.rs", "x\n"), ("docs/new", "x\n"), ("crates/a", "a\n")]);
    let advice = |call: &[&str], kind: &str| {
        ws.unchanged(|| ws.lbx(call).error(kind))["suggested_action"].as_str().unwrap().to_owned()
    };
    for call in
        [&["delete", "src/enclosur.rs"][..], &["read", "src/enclosur.rs"], &["move", "src/enclosur.rs", "x"]]
    {
        assert_eq!(advice(call, "not_found"), "Did you mean src/enclosure.rs?");
    }
    let said = advice(&["move", "docs/new", "crates"], "already_exists");
    assert!(said.starts_with("Did you mean crates/new?"), "{said}");
    let said = advice(&["move", "docs/new", "crates/a"], "already_exists");
    assert!(!said.contains("delete") && said.contains("another name"), "{said}");
    let said = advice(&["delete", "src"], "is_a_directory");
    assert!(said.starts_with("If you mean the folder"), "{said}");
}

/// Returns the source files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn no_suggested_action_is_destructive() {
    const NEVER: [&str; 7] = [
        "Repeat the call with",
        "delete what",
        "remove what",
        "or remove it",
        "or delete it",
        "rm -",
        "Free some",
    ];
    let mut wrong = Vec::new();
    for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().zip(1..).filter(|(line, _)| !line.trim_start().starts_with("//"));
        for (line, number) in code {
            if let Some(order) = NEVER.iter().find(|order| line.contains(**order)) {
                wrong.push(format!("{}:{number}: {order}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn snapshot_warning_says_where_skipped_bytes_are_kept() {
    let ws = Workspace::with(&[("a.txt", "a\n"), (".gitignore", ".env*\n")]);
    ws.write(".env", "secret\n");
    let said = |call: &[&str]| {
        let warnings = ws.lbx(call).success()["warnings"].clone();
        let all: Vec<Value> = warnings.as_array().cloned().unwrap_or_default();
        let of_it = |warning: &&Value| warning.as_str().unwrap().starts_with("not in the snapshot");
        all.iter().find(of_it).unwrap_or_else(|| panic!("{call:?}: {warnings}")).as_str().unwrap().to_owned()
    };
    assert!(said(&["append", ".env", "--content", "x\n"]).ends_with("the old bytes are in the backup"));
    assert!(!said(&["move", ".env", ".env.local"]).contains("backup"));
    assert!(said(&["delete", ".env.local"]).ends_with("what was deleted is in the trash"));
    assert!(!said(&["write", ".env.new", "--content", "x\n"]).contains("backup"), "there was nothing before");
}

#[test]
fn warning_shortens_a_long_path_in_the_middle() {
    let ws = Workspace::with(&[(".gitignore", "*.log\n")]);
    let path = format!("top/{}last.log", "folder/".repeat(60));
    let answer = ws.lbx(&["write", &path, "--content", "x\n"]).success();
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("not in the snapshot: top/folder/") && warning.len() < 200, "{warning}");
    assert!(warning.contains("…") && warning.contains("/folder/last.log (git ignores it)"), "{warning}");
}

#[test]
fn stale_error_mentions_a_read_only_if_there_was_one() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let guess = sha256(b"a guess");
    let calls: &[&[&str]] = &[
        &["write", "a.txt", "--content", "x\n"],
        &["edit", "a.txt", "--old-string", "one", "--new-string", "1"],
        &["edit", "a.txt", "--old-string", "one", "--new-string", "1", "--rebase"],
        &["append", "a.txt", "--content", "x\n"],
        &["delete", "a.txt"],
        &["move", "a.txt", "b.txt"],
    ];
    let said = |call: &[&str], sha256: &str| {
        let call = [call, &["--expected-sha256", sha256]].concat();
        let error = ws.unchanged(|| ws.lbx(&call).error("stale_file"));
        format!("{} {}", error["message"], error["details"]["rebase_refused"])
    };
    for call in calls {
        let said = said(call, &guess);
        assert!(!said.contains("since it was read") && !said.contains("you saw"), "{call:?}: {said}");
        assert!(said.contains("a.txt does not match `expected_sha256`"), "{call:?}: {said}");
    }
    // With the digest of bytes that were read, the message says so.
    let read = ws.lbx(&["read", "a.txt"]).ok()["sha256"].as_str().unwrap().to_owned();
    ws.write("a.txt", "uno\n");
    for call in calls {
        let said = said(call, &read);
        assert!(said.contains("a.txt has changed since it was read"), "{call:?}: {said}");
    }
}

#[test]
fn not_read_error_lists_every_unread_file() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b c.txt", "one\n"), ("d.txt", "one\n")]);
    ws.lbx(&["read", "d.txt"]).ok();
    let edit = ["edit", "a.txt", "d.txt", "b c.txt", "--old-string", "one", "--new-string", "1"];
    let error = ws.unchanged(|| ws.lbx(&edit).error("not_read"));
    assert_eq!(error["details"]["unread"], json!(["a.txt", "b c.txt"]));
    let advice = error["suggested_action"].as_str().unwrap();
    assert!(advice.contains("(lbx grep -F --mark -- one a.txt 'b c.txt')"), "{advice}");
    let edit_none = ["edit", "a.txt", "b c.txt", "--old-string", "none", "--new-string", "1"];
    let error = ws.unchanged(|| ws.lbx(&edit_none).error("not_read"));
    let advice = error["suggested_action"].as_str().unwrap();
    assert!(advice.contains("(lbx read a.txt 'b c.txt')"), "{advice}");
    let hunk = |path: &str| format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-one\n+1\n");
    let patch = hunk("a.txt") + &hunk("d.txt") + "--- a/b c.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n";
    let error = ws.unchanged(|| ws.lbx_stdin(&["patch"], &patch).error("not_read"));
    assert_eq!(error["details"]["unread"], json!(["a.txt", "b c.txt"]));
    // The suggested reads are enough for both.
    ws.lbx(&["read", "a.txt", "b c.txt"]).ok();
    ws.lbx_stdin(&["patch", "--dry-run"], &patch).ok();
    ws.lbx(&edit).ok();
}

#[test]
fn not_read_error_of_long_files_suggests_grep_mark() {
    let long = format!("{}-x one y\n", "line\n".repeat(500));
    let ws = Workspace::with(&[("a.txt", &long), ("b.txt", &long), ("c.txt", &long)]);
    let edit = ["edit", "a.txt", "b.txt", "c.txt", "--old-string", "-x one", "--new-string", "2"];
    let error = ws.lbx(&edit).error("not_read");
    let advice = error["suggested_action"].as_str().unwrap();
    let command = advice.split_once("(lbx ").unwrap().1.split_once(')').unwrap().0;
    let words: Vec<String> = shlex(command);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert!(ws.lbx(&words).stdout().len() < 2000);
    ws.lbx(&edit).ok();
    assert!(ws.read_bytes("c.txt").ends_with(b"2 y\n"));
}

/// Splits a command line as a shell does.
fn shlex(command: &str) -> Vec<String> {
    let script = format!("printf '%s\\n' {command}");
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn not_read_error_of_a_patch_deletion_says_delete() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let codex = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch\n";
    let git = "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n";
    for patch in [codex, git] {
        let error = ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).error("not_read"));
        assert_eq!(error["message"], "refusing to delete a.txt: Read it first");
    }
}

#[test]
fn unknown_session_error_suggests_known_sessions() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for tool in ["log", "audit"] {
        let error = ws.lbx(&[tool, "--session", "builder"]).error("not_found");
        assert_eq!(error["details"]["near"], json!([]));
    }
    ws.lbx(&["append", "a.txt", "--content", "two\n", "--session", "build-7"]).ok();
    ws.lbx(&["read", "a.txt", "--session", "reader"]).ok();
    for tool in ["log", "audit"] {
        let error = ws.lbx(&[tool, "--session", "biuld-7"]).error("not_found");
        assert_eq!(error["message"], "no such session: biuld-7");
        let advice = error["suggested_action"].as_str().unwrap();
        assert!(advice.starts_with("Did you mean build-7?"), "{advice}");
        let error = ws.lbx(&[tool, "--session", "quite-another"]).error("not_found");
        assert!(error["suggested_action"].as_str().unwrap().contains("build-7"), "{error}");
        // A session that has only read has no changes, and one that has ended is still known.
        ws.lbx(&[tool, "--session", "reader"]).ok();
    }
    ws.lbx(&["session", "end", "--session", "build-7"]).ok();
    assert_eq!(ws.lbx(&["log", "--session", "build-7"]).ok()["snapshots"].as_array().unwrap().len(), 1);
}

#[test]
fn purge_and_delete_count_the_same_files_and_bytes() {
    let ws = Workspace::with(&[("d/a.txt", "one\n")]);
    ws.link("a-target-with-a-long-name", "d/link");
    ws.link("another", "link");
    let deleted = ws.lbx(&["delete", "-r", "d", "link"]).ok()["deleted"].clone();
    assert_eq!((&deleted[0]["bytes"], &deleted[1]["bytes"]), (&json!(4), &json!(0)));
    let listed = ws.lbx(&["trash", "list"]).ok();
    let purged = ws.lbx(&["trash", "purge"]).ok();
    assert_eq!((&purged["files"], &purged["bytes"]), (&listed["files"], &listed["bytes"]));
    assert_eq!((&purged["files"], &purged["bytes"]), (&json!(3), &json!(4)));
}

#[test]
fn redo_lists_redone_changes_and_rename_counts_no_lines() {
    let ws = Workspace::with(&[("a.txt", &"line\n".repeat(253))]);
    ws.lbx(&["move", "a.txt", "b.txt"]).ok();
    let entry = ws.lbx(&["log", "-n", "1"]).ok()["snapshots"][0].clone();
    assert_eq!((&entry["insertions"], &entry["deletions"]), (&json!(0), &json!(0)), "{entry}");
    ws.lbx(&["undo"]).ok();
    let data = ws.lbx(&["redo"]).ok();
    assert_eq!((&data["redone"][0]["tool"], data.get("undone")), (&json!("move"), None));
}

#[test]
fn one_error_lists_every_failing_file_and_edit() {
    let files = ["a.txt", "b.txt", "c.txt", "d.txt"].map(|name| (name, "one\ntwo\n"));
    let ws = Workspace::with(&files);
    ws.write("bin", b"two\0");
    std::fs::create_dir(ws.path("dir")).unwrap();
    ws.lbx(&["read", "a.txt", "b.txt"]).ok();
    let refused = |error: &Value| -> Vec<(String, String)> {
        let text = |entry: &Value, field: &str| entry[field].as_str().unwrap().to_owned();
        let listed = error["details"]["refused"].as_array().unwrap();
        listed.iter().map(|entry| (text(entry, "path"), text(entry, "kind"))).collect()
    };
    let pair = |path: &str, kind: &str| (path.to_owned(), kind.to_owned());

    // An edit of several files: the unread ones first, then the other errors.
    let paths = json!(["a.txt", "c.txt", "d.txt", "none.txt", "dir"]);
    let edit = |old: &str, paths: &Value| json!({"paths": paths, "old_string": old, "new_string": "new"});
    let error = ws.unchanged(|| ws.json("edit", &edit("zzz", &paths)).error("not_read"));
    assert_eq!(error["details"]["unread"], json!(["c.txt", "d.txt"]));
    let found = [pair("a.txt", "no_match"), pair("none.txt", "not_found"), pair("dir", "is_a_directory")];
    assert_eq!(refused(&error), found);
    let error = ws.json("edit", &edit("zzz", &json!(["a.txt", "b.txt"]))).error("no_match");
    assert_eq!(refused(&error), [pair("a.txt", "no_match"), pair("b.txt", "no_match")]);
    assert!(error["message"].as_str().unwrap().ends_with("(and 1 more)"), "{error:#}");

    // Several edits of one file.
    let edits = json!({"path": "a.txt", "edits": [
        {"old_string": "two", "new_string": "deux"},
        {"old_string": "zzz", "new_string": "1"},
        {"old_string": "deu", "new_string": "2"},
        {"old_string": "yyy", "new_string": "3"},
    ]});
    let error = ws.unchanged(|| ws.json("edit", &edits).error("no_match"));
    assert_eq!((&error["details"]["edit"], &error["details"]["also_missing"]), (&json!(2), &json!([4])));

    // A patch: conflicts and missing files together with unread files.
    let change =
        |path: &str, old: &str| format!("--- a/{path}\n+++ b/{path}\n@@ -1,2 +1,2 @@\n one\n-{old}\n+new\n");
    let patch = [("a.txt", "two"), ("b.txt", "zzz"), ("c.txt", "two"), ("none.txt", "two")]
        .map(|(path, old)| change(path, old))
        .concat();
    let error = ws.unchanged(|| ws.lbx(&["patch", "--patch", &patch]).error("not_read"));
    assert_eq!(error["path"], "c.txt");
    assert_eq!(refused(&error), [pair("b.txt", "patch_conflict"), pair("none.txt", "not_found")]);
    ws.lbx(&["read", "c.txt"]).ok();
    let error = ws.unchanged(|| ws.lbx(&["patch", "--patch", &patch]).error("patch_conflict"));
    assert_eq!(refused(&error), [pair("b.txt", "patch_conflict"), pair("none.txt", "not_found")]);
}
