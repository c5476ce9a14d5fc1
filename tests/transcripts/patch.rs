//! `patch` and `apply_patch`: several files change together, or none of them changes.

use std::fs;

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Workspace, is_installed, sha256};

/// Patch from `two` to `2` in `a.txt`, which holds [`NUMBERS`].
const UNIFIED: &str = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
/// Form that git writes.
const GIT: &str =
    "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
/// Form that Codex models write.
const CODEX: &str = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n three\n*** End Patch\n";
/// Form that Aider models write.
const BLOCKS: &str = "a.txt\n<<<<<<< SEARCH\ntwo\n=======\n2\n>>>>>>> REPLACE\n";
/// Content before the patches above.
const NUMBERS: &str = "one\ntwo\nthree\n";
/// Content after the patches above.
const CHANGED: &str = "one\n2\nthree\n";

/// Creates a workspace with `files`, and reads all of them.
fn read_workspace(files: &[(&str, &str)]) -> Workspace {
    let ws = Workspace::with(files);
    for (path, _) in files {
        ws.lbx(&["read", path]).ok();
    }
    ws
}

/// Creates a workspace with `a.txt` as the patches above expect it, and reads it.
fn numbers() -> Workspace {
    read_workspace(&[("a.txt", NUMBERS)])
}

/// Returns a patch that creates a file with one line.
fn creates(path: &str, line: &str) -> String {
    format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{line}\n")
}

#[test]
fn patch_applies_every_dialect_from_stdin_flag_and_json() {
    for dialect in [UNIFIED, GIT, CODEX, BLOCKS] {
        for form in 0..6 {
            let ws = numbers();
            let answer = match form {
                0 => ws.lbx_stdin(&["patch"], dialect),
                1 => ws.lbx(&["patch", "--patch", dialect]),
                2 => ws.json("patch", &json!({"patch": dialect})),
                3 => ws.json("patch", &json!({"diff": dialect})),
                4 => ws.json("patch", &json!({"input": dialect})),
                _ => ws.lbx_stdin(&["patch"], json!({"patch": dialect}).to_string()),
            };
            let file = &answer.ok()["files"][0];
            assert_eq!((&file["path"], &file["action"]), (&json!("a.txt"), &json!("modify")), "{dialect}");
            assert_eq!(file["sha256"], sha256(CHANGED.as_bytes()), "{dialect}");
            assert_eq!(file["hunks"].as_array().unwrap().len(), 1, "{dialect}");
            ws.holds("a.txt", CHANGED);
            assert_eq!(ws.snapshots(), ["patch: a.txt"], "{dialect}");
        }
    }
}

#[test]
fn diff_field_is_a_switch_or_the_patch_text() {
    let ws = numbers();
    let data = ws.json("patch", &json!({"patch": UNIFIED, "diff": true})).ok();
    assert!(data["files"][0]["diff"].as_str().unwrap().contains("-two\n+2\n"), "{data:#}");
    let again = ws.json("patch", &json!({"diff": UNIFIED, "reverse": true})).ok();
    assert_eq!(again["files"][0]["diff"], Value::Null);
    ws.holds("a.txt", NUMBERS);
    ws.unchanged(|| {
        ws.json("patch", &json!({"diff": true})).error("invalid_request");
        ws.json("patch", &json!({"patch": 5})).error("invalid_request");
        ws.json("patch", &json!({"patch": UNIFIED, "fuzz": -1})).error("invalid_request");
        ws.json("patch", &json!({"patch": UNIFIED, "unknown": 1})).error("invalid_request");
        ws.lbx(&["patch"]).error("invalid_request");
    });
}

#[test]
fn empty_stdin_is_patch_invalid() {
    let ws = numbers();
    ws.unchanged(|| {
        for text in ["", "\n"] {
            let error = ws.lbx_stdin(&["patch"], text).error("patch_invalid");
            assert!(error["message"].as_str().unwrap().contains("there is no hunk"), "{error:#}");
        }
        ws.lbx_stdin(&["patch"], "{}").error("invalid_request");
    });
}

#[test]
fn patch_path_selects_the_target_file() {
    let without_name = "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
    let blocks_without_name = "<<<<<<< SEARCH\ntwo\n=======\n2\n>>>>>>> REPLACE\n";
    for patch in [without_name, blocks_without_name, UNIFIED] {
        let ws = read_workspace(&[("sub/b.txt", NUMBERS)]);
        let data = ws.lbx_stdin(&["patch", "--path", "sub/b.txt"], patch).ok();
        assert_eq!(data["files"][0]["path"], "sub/b.txt");
        ws.holds("sub/b.txt", CHANGED);
    }
    let ws = numbers();
    ws.unchanged(|| ws.lbx_stdin(&["patch"], without_name).error("patch_invalid"));
}

#[test]
fn strip_removes_leading_folders() {
    let patch = "--- x/y/sub/a.txt\n+++ x/y/sub/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
    for strip in [json!(2), json!("2")] {
        let ws = read_workspace(&[("sub/a.txt", NUMBERS)]);
        ws.json("patch", &json!({"patch": patch, "strip": strip})).ok();
        ws.holds("sub/a.txt", CHANGED);
    }
    let ws = read_workspace(&[("sub/a.txt", NUMBERS)]);
    ws.unchanged(|| {
        ws.lbx_stdin(&["patch", "-p0"], patch).error("not_found");
        ws.lbx_stdin(&["patch", "-p9"], patch).error("patch_invalid");
        ws.lbx_stdin(&["patch", "--strip", "x"], patch).error("invalid_request");
    });
    ws.lbx_stdin(&["patch", "-p2"], patch).ok();
}

#[test]
fn patch_paths_resolve_from_the_current_folder_then_the_root() {
    let ws = read_workspace(&[("sub/a.txt", NUMBERS), ("top.txt", NUMBERS)]);
    let here = ws.path("sub");
    let data = ws.call(&["patch"]).in_folder(&here).stdin(UNIFIED).run().ok();
    assert_eq!(data["files"][0]["path"], "a.txt");
    let top = UNIFIED.replace("a.txt", "top.txt");
    let data = ws.call(&["patch"]).in_folder(&here).stdin(top).run().ok();
    assert_eq!(data["files"][0]["path"], "../top.txt");
    ws.holds("sub/a.txt", CHANGED);
    ws.holds("top.txt", CHANGED);
    assert_eq!(ws.snapshots(), ["patch: top.txt", "patch: sub/a.txt"]);
}

#[test]
fn identical_patch_in_another_folder_is_not_a_repeat() {
    let ws = read_workspace(&[("one/a.txt", NUMBERS), ("two/a.txt", NUMBERS)]);
    for folder in ["one", "two"] {
        let data = ws.call(&["patch"]).in_folder(&ws.path(folder)).stdin(UNIFIED).run().ok();
        assert_eq!(data["files"][0]["action"], "modify", "{folder}");
        let again = ws.call(&["patch"]).in_folder(&ws.path(folder)).stdin(UNIFIED).run().ok();
        assert_eq!(again["files"][0]["action"], "already_applied", "{folder}");
    }
    ws.holds("one/a.txt", CHANGED);
    ws.holds("two/a.txt", CHANGED);
    let edit = ["edit", "a.txt", "--old-string", "one", "--new-string", "one one"];
    for folder in ["one", "two"] {
        let data = ws.call(&edit).in_folder(&ws.path(folder)).run().ok();
        assert_eq!(data["match"], "exact", "{folder}");
    }
    ws.holds("two/a.txt", CHANGED.replace("one", "one one"));
}

#[test]
fn repeated_rename_with_expected_sha256_is_stale() {
    let ws = Workspace::with(&[("a.txt", NUMBERS)]);
    let request = json!({
        "patch": "diff --git a/a.txt b/b.txt\nsimilarity index 100%\nrename from a.txt\nrename to b.txt\n",
        "expected_sha256_by_path": { "a.txt": sha256(NUMBERS.as_bytes()), "b.txt": "" },
    });
    ws.json("patch", &request).ok();
    let error = ws.unchanged(|| ws.json("patch", &request).error("stale_file"));
    assert_eq!(error["message"], "this session has already made this change, as change 1");
    let mut unnamed = request;
    unnamed.as_object_mut().unwrap().remove("expected_sha256_by_path");
    let again = ws.unchanged(|| ws.json("patch", &unnamed).ok());
    assert_eq!(again["files"][0]["action"], "already_applied");
}

#[test]
fn patch_dry_run_returns_the_real_result_and_changes_nothing() {
    let ws = numbers();
    let preview = ws.unchanged(|| ws.lbx_stdin(&["patch", "--dry-run"], UNIFIED).ok());
    assert!(preview["files"][0]["diff"].as_str().unwrap().contains("-two\n+2\n"), "{preview:#}");
    assert!(ws.snapshots().is_empty());
    let done = ws.lbx_stdin(&["patch"], UNIFIED).ok();
    for field in ["path", "action", "sha256", "hunks"] {
        assert_eq!(preview["files"][0][field], done["files"][0][field], "{field}");
    }
    let wrong = UNIFIED.replace("-two\n+2", "-zwei\n+zwo");
    ws.unchanged(|| ws.lbx_stdin(&["patch", "--dry-run"], wrong).error("patch_conflict"));
    let ws = Workspace::with(&[("a.txt", NUMBERS)]);
    ws.lbx_stdin(&["patch", "--dry-run"], UNIFIED).error("not_read");
}

#[test]
fn reverse_undoes_a_patch() {
    let created = creates("new.txt", "new");
    let patch = format!("{UNIFIED}{created}");
    let ws = numbers();
    ws.lbx_stdin(&["patch"], &patch).ok();
    ws.lbx_stdin(&["patch", "--reverse"], &patch).ok();
    ws.holds("a.txt", NUMBERS);
    assert!(!ws.path("new.txt").exists());
    ws.lbx_stdin(&["patch"], &patch).ok();
    ws.lbx_stdin(&["patch", "-R"], &patch).ok();
    ws.holds("a.txt", NUMBERS);
}

#[test]
fn patch_ignores_outer_context_only_with_fuzz() {
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,5 +1,5 @@\n not there\n one\n-two\n+2\n three\n nor this\n";
    let ws = numbers();
    ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).error("patch_conflict"));
    let data = ws.lbx_stdin(&["patch", "--fuzz", "1"], patch).ok();
    assert_eq!(data["files"][0]["hunks"][0]["fuzz"], 1);
    ws.holds("a.txt", CHANGED);
}

#[test]
fn strict_rejects_wrong_counts_and_line_numbers() {
    let wrong_counts = UNIFIED.replace("-1,3 +1,3", "-1,7 +1,9");
    let ws = numbers();
    ws.unchanged(|| ws.lbx_stdin(&["patch", "--strict"], &wrong_counts).status());
    assert!(ws.snapshots().is_empty(), "strict applied a hunk whose counts are wrong");
    ws.lbx_stdin(&["patch"], &wrong_counts).ok();
    ws.holds("a.txt", CHANGED);
    let ws = numbers();
    ws.lbx_stdin(&["patch", "--strict"], UNIFIED).ok();
    ws.holds("a.txt", CHANGED);
    // A wrong line number is an error that names the line where it would fit.
    let wrong_line = UNIFIED.replace("-1,3 +1,3", "-2,3 +2,3");
    let ws = numbers();
    let error = ws.unchanged(|| ws.lbx_stdin(&["patch", "--strict"], &wrong_line).error("patch_conflict"));
    assert!(error["message"].as_str().unwrap().contains("its lines are at line 1,"), "{error:#}");
    // A match elsewhere in the file is still found, and the answer says where.
    let ws = read_workspace(&[("a.txt", &format!("x\ny\n{NUMBERS}"))]);
    let data = ws.lbx_stdin(&["patch"], UNIFIED).ok();
    assert_eq!(data["files"][0]["hunks"][0]["offset"], 2);
    ws.holds("a.txt", format!("x\ny\n{CHANGED}"));
}

#[test]
fn patch_of_several_files_is_all_or_nothing() {
    let second = UNIFIED.replace("a.txt", "b.txt");
    let cases: &[(&str, String, &str)] = &[
        ("a hunk that does not apply", second.replace("-two", "-zwei"), "patch_conflict"),
        ("a file that is not there", UNIFIED.replace("a.txt", "none.txt"), "not_found"),
        ("a new file that exists", creates("b.txt", "other"), "already_exists"),
        ("a path outside", creates("../out.txt", "x"), "outside_workspace"),
        ("a path of git's", creates(".git/x", "x"), "protected_path"),
        ("a file that was not read", UNIFIED.replace("a.txt", "unread.txt"), "not_read"),
    ];
    for (name, other, kind) in cases {
        for patch in [format!("{UNIFIED}{other}"), format!("{other}{UNIFIED}")] {
            let ws = Workspace::with(&[("a.txt", NUMBERS), ("b.txt", NUMBERS), ("unread.txt", NUMBERS)]);
            ws.lbx(&["read", "a.txt"]).ok();
            ws.lbx(&["read", "b.txt"]).ok();
            let error = ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).error(kind));
            assert!(error["message"].is_string(), "{name}");
            assert!(ws.snapshots().is_empty(), "{name}");
            assert!(!ws.outside.join("out.txt").exists() && !ws.path(".git/x").exists(), "{name}");
        }
    }
    let ws = read_workspace(&[("a.txt", NUMBERS), ("b.txt", NUMBERS)]);
    let data = ws.lbx_stdin(&["patch"], format!("{UNIFIED}{second}{}", creates("new/c.txt", "c"))).ok();
    assert_eq!(data["files"].as_array().unwrap().len(), 3);
    ws.holds("a.txt", CHANGED);
    ws.holds("b.txt", CHANGED);
    ws.holds("new/c.txt", "c\n");
    assert_eq!(ws.snapshots(), ["patch: 3 files"]);
}

#[test]
fn file_under_two_names_in_one_patch_is_invalid() {
    let ws = read_workspace(&[("d/a", "1\n2\n3\n"), ("f", "f\n")]);
    ws.link(Path::new("d"), "e");
    let sections =
        ["f\n@@\n-f\n+F", "d/a\n*** Move to: d/z\n@@\n-1\n+x", "e/a\n*** Move to: e/y\n@@\n-3\n+y"];
    let patch: String = sections.map(|section| format!("*** Update File: {section}\n")).concat();
    let patch = format!("*** Begin Patch\n{patch}*** End Patch\n");
    let error = ws.lbx(&["patch", "--patch", &patch]).error("invalid_request");
    assert_eq!(error["message"], "d/a and e/a are one file");
    assert_eq!(error["suggested_action"], "Use one name for all changes of the file.");
    ws.holds("d/a", "1\n2\n3\n");
    ws.holds("f", "f\n");
}

#[test]
fn gate_errors_precede_patch_conflicts() {
    let ws = Workspace::with(&[("a.txt", "other\nlines\n")]);
    ws.unchanged(|| ws.lbx_stdin(&["patch"], UNIFIED).error("not_read"));
    ws.lbx(&["read", "a.txt"]).ok();
    ws.unchanged(|| ws.lbx_stdin(&["patch"], UNIFIED).error("patch_conflict"));
    ws.write("a.txt", "others\nstill\n");
    let error = ws.unchanged(|| ws.lbx_stdin(&["patch"], UNIFIED).error("stale_file"));
    assert_eq!(error["details"]["expected_sha256"], sha256(b"other\nlines\n"));
    assert_eq!(error["details"]["actual_sha256"], sha256(b"others\nstill\n"));
}

#[test]
fn patch_deletion_requires_a_read() {
    let patch = "--- a/a.txt\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n";
    let ws = Workspace::with(&[("a.txt", NUMBERS)]);
    ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).error("not_read"));
    ws.lbx(&["read", "a.txt"]).ok();
    let file = &ws.lbx_stdin(&["patch"], patch).ok()["files"][0];
    assert_eq!((&file["action"], &file["sha256"]), (&json!("delete"), &Value::Null));
    assert!(!ws.path("a.txt").exists());
}

#[test]
fn expected_sha256_by_path_replaces_a_read() {
    let (good, bad) = (sha256(NUMBERS.as_bytes()), sha256(b"x"));
    let new = creates("new.txt", "new");
    let cases: &[(&str, Value, &str)] = &[
        (UNIFIED, json!({"a.txt": good}), ""),
        (UNIFIED, json!({"./a.txt": good}), ""),
        (UNIFIED, json!({"a.txt": bad}), "stale_file"),
        (UNIFIED, json!({"a.txt": ""}), "already_exists"),
        (UNIFIED, json!({"a.txt": "no hash"}), "invalid_request"),
        (UNIFIED, json!({"a.txt": good, "b.txt": good}), "invalid_request"),
        (UNIFIED, json!({"none.txt": ""}), "invalid_request"),
        (UNIFIED, json!(["a.txt"]), "invalid_request"),
        (&new, json!({"new.txt": ""}), ""),
        // Files missing from the given map: exact old lines in one place are enough.
        (UNIFIED, json!({}), ""),
    ];
    for (patch, map, kind) in cases {
        let ws = Workspace::with(&[("a.txt", NUMBERS), ("b.txt", NUMBERS)]);
        let call = || ws.json("patch", &json!({"patch": patch, "expected_sha256_by_path": map}));
        if kind.is_empty() {
            call().ok();
            assert_eq!(ws.snapshots().len(), 1, "{map}");
        } else {
            ws.unchanged(|| call().error(kind));
        }
    }
    let ws = Workspace::with(&[("a.txt", NUMBERS)]);
    let flag = format!("a.txt={good}");
    ws.lbx_stdin(&["patch", "--expected-sha256-by-path", &flag], UNIFIED).ok();
    ws.holds("a.txt", CHANGED);
}

#[test]
fn path_missing_from_the_map_needs_a_unique_exact_match() {
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-x\n+y\n*** End Patch\n";
    let request = json!({"patch": patch, "expected_sha256_by_path": {}});
    let ws = Workspace::with(&[("a.txt", "x\nmid\nx\n")]);
    let kind = ws.unchanged(|| ws.json("patch", &request).envelope())["error"]["kind"].clone();
    assert!(kind == "not_read" || kind == "patch_conflict", "{kind}");
    // Different white space is not an exact match either.
    let ws = Workspace::with(&[("a.txt", "x  \n")]);
    let kind = ws.unchanged(|| ws.json("patch", &request).envelope())["error"]["kind"].clone();
    assert!(kind == "not_read" || kind == "patch_conflict", "{kind}");
}

#[test]
fn added_file_is_already_applied_only_with_equal_bytes() {
    let ws = Workspace::with(&[("a.txt", "same\n")]);
    let same = ws.unchanged(|| ws.lbx_stdin(&["patch"], creates("a.txt", "same")).ok());
    assert_eq!(same["files"][0]["action"], "already_applied");
    assert_eq!(same["files"][0]["sha256"], sha256(b"same\n"));
    ws.unchanged(|| ws.lbx_stdin(&["patch"], creates("a.txt", "other")).error("already_exists"));
    assert!(ws.snapshots().is_empty());
    ws.lbx_stdin(&["patch"], creates("deep/er/b.txt", "b")).ok();
    ws.holds("deep/er/b.txt", "b\n");
}

#[test]
fn repeated_patch_is_already_applied_without_a_snapshot() {
    for dialect in [UNIFIED, GIT, CODEX, BLOCKS] {
        let ws = numbers();
        ws.lbx_stdin(&["patch"], dialect).ok();
        let again = ws.unchanged(|| ws.lbx_stdin(&["patch"], dialect).ok());
        assert_eq!(again["files"][0]["action"], "already_applied", "{dialect}");
        assert_eq!(ws.snapshots(), ["patch: a.txt"], "{dialect}");
    }
    // If the hunk alone is ambiguous: the added line already exists above its place.
    let insertion = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n x\n+x\n x\n";
    let ws = read_workspace(&[("a.txt", "x\nx\n")]);
    ws.lbx_stdin(&["patch"], insertion).ok();
    let again = ws.unchanged(|| ws.lbx_stdin(&["patch"], insertion).ok());
    assert_eq!(again["files"][0]["action"], "already_applied");
    ws.holds("a.txt", "x\nx\nx\n");
}

#[test]
fn patch_rename_moves_the_file_and_its_read_record() {
    let pure =
        "diff --git a/a.txt b/new/b.txt\nsimilarity index 100%\nrename from a.txt\nrename to new/b.txt\n";
    // A rename alone loses nothing, so it needs no proof.
    let ws = Workspace::with(&[("a.txt", NUMBERS)]);
    ws.chmod("a.txt", 0o750);
    let file = &ws.lbx_stdin(&["patch"], pure).ok()["files"][0];
    assert_eq!(
        (&file["action"], &file["path"], &file["from"]),
        (&json!("rename"), &json!("new/b.txt"), &json!("a.txt"))
    );
    ws.holds("new/b.txt", NUMBERS);
    assert!(!ws.path("a.txt").exists());
    assert_eq!(ws.mode("new/b.txt"), 0o750);
    let with_change = "diff --git a/a.txt b/b.txt\nrename from a.txt\nrename to b.txt\n--- a/a.txt\n+++ b/b.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
    let ws = Workspace::with(&[("a.txt", NUMBERS)]);
    ws.unchanged(|| ws.lbx_stdin(&["patch"], with_change).error("not_read"));
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx_stdin(&["patch"], with_change).ok();
    ws.holds("b.txt", CHANGED);
    ws.lbx(&["edit", "b.txt", "--old-string", "2", "--new-string", "two"]).ok();
    // Never onto an existing file.
    let ws = read_workspace(&[("a.txt", NUMBERS), ("b.txt", "there\n")]);
    ws.unchanged(|| ws.lbx_stdin(&["patch"], with_change).error("already_exists"));
}

#[test]
fn patch_mode_change_keeps_the_content() {
    let patch = "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n";
    let ws = read_workspace(&[("run.sh", "echo\n")]);
    ws.chmod("run.sh", 0o640);
    assert_eq!(ws.lbx_stdin(&["patch"], patch).ok()["files"][0]["action"], "modify");
    assert_eq!(ws.mode("run.sh"), 0o750);
    ws.holds("run.sh", "echo\n");
    assert!(ws.git(&["ls-tree", "lbx-snapshots", "run.sh"]).starts_with("100755"));
    let created = "diff --git a/new.sh b/new.sh\nnew file mode 100755\n--- /dev/null\n+++ b/new.sh\n@@ -0,0 +1 @@\n+echo\n";
    ws.lbx_stdin(&["patch"], created).ok();
    assert_eq!(ws.mode("new.sh") & 0o111, 0o111);
}

#[test]
fn lf_patch_keeps_the_line_endings_of_a_crlf_file() {
    for dialect in [UNIFIED, GIT, CODEX, BLOCKS] {
        let ws = read_workspace(&[("a.txt", "one\r\ntwo\r\nthree\r\n")]);
        ws.lbx_stdin(&["patch"], dialect).ok();
        ws.holds("a.txt", "one\r\n2\r\nthree\r\n");
    }
}

#[test]
fn patch_keeps_a_missing_final_newline() {
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n\\ No newline at end of file\n+2\n\\ No newline at end of file\n";
    let ws = read_workspace(&[("a.txt", "one\ntwo")]);
    ws.lbx_stdin(&["patch"], patch).ok();
    ws.holds("a.txt", "one\n2");
}

#[test]
fn patch_rejects_hostile_paths() {
    let ws = read_workspace(&[("a.txt", NUMBERS)]);
    fs::write(ws.outside.join("secret.txt"), NUMBERS).unwrap();
    ws.link("../secret.txt", "link.txt");
    ws.link("..", "up");
    let absolute = ws.outside.join("abs.txt").display().to_string();
    let add_file = |path: &str| format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n");
    let symlink = "diff --git a/evil b/evil\nnew file mode 120000\n--- /dev/null\n+++ b/evil\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n";
    let cases: &[(String, &str)] = &[
        (creates("../x.txt", "x"), "outside_workspace"),
        (creates("sub/../../x.txt", "x"), "outside_workspace"),
        (creates("up/x.txt", "x"), "outside_workspace"),
        (add_file("../x.txt"), "outside_workspace"),
        (add_file(&absolute), "outside_workspace"),
        (add_file(".git/hooks/pre-commit"), "protected_path"),
        (add_file(".GIT/config"), "protected_path"),
        (add_file("sub/.git/config"), "protected_path"),
        (add_file(".lbx/x"), "protected_path"),
        (UNIFIED.replace("a.txt", "link.txt"), "outside_workspace"),
        (symlink.to_owned(), "outside_workspace"),
        (
            "diff --git a/a.txt b/../b.txt\nrename from a.txt\nrename to ../b.txt\n".to_owned(),
            "outside_workspace",
        ),
        ("diff --git a/a.txt b/.git/b\nrename from a.txt\nrename to .git/b\n".to_owned(), "protected_path"),
    ];
    for (patch, kind) in cases {
        ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).error(kind));
        let request = json!({"input": patch}).to_string();
        let codex = || ws.call(&["apply_patch", "--json", &request]).env("LBX_OUTPUT", "json").run();
        ws.unchanged(codex).error(kind);
    }
    assert_eq!(fs::read_to_string(ws.outside.join("secret.txt")).unwrap(), NUMBERS);
    let mut around: Vec<String> = fs::read_dir(&ws.outside)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    around.sort();
    assert_eq!(around, ["home", "secret.txt", "ws"]);
    assert!(ws.snapshots().is_empty());
}

#[test]
fn invalid_patch_error_names_the_line() {
    let cases: &[&str] = &[
        "",
        "hello\n",
        "--- a/a.txt\n+++ b/a.txt\n",
        "--- a/a.txt\n+++ b/a.txt\n@@ nonsense\n",
        "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n",
        "*** Begin Patch\n*** Frobnicate: a.txt\n*** End Patch\n",
        "*** Begin Patch\n*** End Patch\n",
        "a.txt\n<<<<<<< SEARCH\ntwo\n=======\n2\n",
    ];
    for patch in cases {
        let ws = numbers();
        let request = json!({"patch": patch});
        let answer = ws.unchanged(|| ws.json("patch", &request));
        let error = answer.error("patch_invalid");
        assert!(error["details"]["line"].is_u64(), "{patch:?}: {error:#}");
        assert!(error["message"].as_str().unwrap().contains("line "), "{patch:?}: {error:#}");
    }
}

#[test]
fn conflict_names_file_hunk_expected_and_found_text() {
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n@@ -3,3 +3,3 @@\n three\n-vier\n+4\n five\n";
    let ws = read_workspace(&[("a.txt", "one\ntwo\nthree\nfour\nfive\n")]);
    let error = ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).error("patch_conflict"));
    assert_eq!(error["path"], "a.txt");
    assert!(error["suggested_action"].as_str().unwrap().contains("a.txt"), "{error:#}");
    let refused = &error["details"]["refused"][0];
    assert_eq!(refused["path"], "a.txt");
    let hunks = refused["hunks"].as_array().unwrap();
    assert_eq!((&hunks[0]["hunk"], &hunks[0]["fate"]), (&json!(1), &json!("applies")));
    assert_eq!((&hunks[1]["hunk"], &hunks[1]["fate"]), (&json!(2), &json!("fails")));
    let nearest = &hunks[1]["nearest"];
    assert_eq!((&nearest["line"], &nearest["differs_at"]), (&json!(3), &json!(4)), "{error:#}");
    assert!(nearest["expected"].to_string().contains("vier"), "{error:#}");
    assert!(nearest["found"].to_string().contains("four"), "{error:#}");
    // The error has enough information for one retry.
    ws.lbx_stdin(&["patch"], patch.replace("vier", "four")).ok();
    ws.holds("a.txt", "1\ntwo\nthree\n4\nfive\n");
}

#[test]
fn conflict_names_the_failing_hunk_and_counts_the_others() {
    let text: String = (0..300).map(|number| format!("{number}\n")).collect();
    let ws = read_workspace(&[("a.txt", &text)]);
    let hunk = |number: usize| {
        let old = if number == 150 { "x".to_owned() } else { number.to_string() };
        format!("@@ -{0} +{0} @@\n-{old}\n+{number} more\n", number + 1)
    };
    let hunks: String = (0..300).step_by(3).map(hunk).collect();
    let patch = format!("--- a/a.txt\n+++ b/a.txt\n{hunks}");
    let error = ws.unchanged(|| ws.lbx_stdin(&["patch"], &patch).error("patch_conflict"));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("hunk 51 ") && message.contains("the other 95 have their place"), "{message}");
    assert!(message.len() < 600, "{message}");
    let refused = &error["details"]["refused"][0];
    let hunks = refused["hunks"].as_array().unwrap();
    let failing: Vec<_> = hunks.iter().filter(|hunk| hunk["fate"] == "fails").collect();
    assert_eq!((failing.len(), &failing[0]["hunk"]), (1, &json!(51)), "{refused:#}");
    assert_eq!((hunks.len(), &refused["hunks_left_out"]), (20, &json!(80)));
}

#[test]
fn patch_of_a_missing_file_suggests_similar_names() {
    let ws = read_workspace(&[("src/main.rs", NUMBERS)]);
    let patch = UNIFIED.replace("a.txt", "src/mian.rs");
    let error = ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).error("not_found"));
    assert_eq!(error["details"]["near"], json!(["src/main.rs"]));
    assert!(error["suggested_action"].as_str().unwrap().contains("src/main.rs"), "{error:#}");
    // A file that the patch itself removes is not suggested.
    let renamed =
        "diff --git a/src/main.rs b/x.rs\nsimilarity index 100%\nrename from src/main.rs\nrename to x.rs\n";
    let patch = renamed.to_owned() + &UNIFIED.replace("a.txt", "src/main.rs");
    let error = ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).error("not_found"));
    assert!(error["details"]["near"].is_null(), "{error:#}");
}

#[test]
fn patch_of_150_files_is_one_snapshot_and_one_undo() {
    // Enough files that the whole file system is synced, instead of each file.
    let ws = Workspace::with(&[]);
    let written = |number: usize| {
        let path = format!("d{}/f{number}.txt", number % 80);
        ws.write(&path, format!("one {number}\ntwo\n"));
        format!("--- a/{path}\n+++ b/{path}\n@@ -1,2 +1,2 @@\n-one {number}\n+1\n two\n")
    };
    let patch: String = (0..150).map(written).collect();
    let before = ws.tree();
    let request = json!({ "patch": patch, "expected_sha256_by_path": {}, "max_bytes": 0 });
    let data = ws.json("patch", &request).ok();
    assert_eq!(data["files"].as_array().unwrap().len(), 150);
    for number in 0..150 {
        ws.holds(&format!("d{}/f{number}.txt", number % 80), "1\ntwo\n");
    }
    assert_eq!(ws.snapshots(), ["patch: 150 files", "baseline"]);
    ws.lbx(&["undo"]).ok();
    assert_eq!(ws.tree(), before);
}

#[test]
fn apply_patch_prints_the_codex_output() {
    let ws = Workspace::with(&[("a.txt", NUMBERS), ("gone.txt", "bye\n")]);
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** Update File: a.txt\n@@\n-two\n+2\n*** Delete File: gone.txt\n*** End Patch\n";
    // It deletes a file whose lines it does not show, so a read is required first.
    let refused = ws.unchanged(|| ws.lbx_stdin(&["apply_patch"], patch));
    assert_eq!((refused.status(), refused.stdout()), (5, &b""[..]), "{}", refused.stderr());
    assert!(refused.stderr().starts_with("lbx: not_read: "), "{}", refused.stderr());
    ws.lbx(&["read", "gone.txt"]).ok();
    let done = ws.lbx_stdin(&["apply_patch"], patch);
    assert_eq!((done.status(), done.stderr().as_str()), (0, ""));
    assert_eq!(done.stdout_text(), "Success. Updated the following files:\nA new.txt\nM a.txt\nD gone.txt\n");
    assert_eq!(ws.snapshots(), ["apply_patch: 3 files"]);
}

#[test]
fn apply_patch_accepts_every_codex_call_form() {
    for form in 0..6 {
        let ws = Workspace::with(&[("a.txt", NUMBERS)]);
        let none: &[&str] = &[];
        let answer = match form {
            0 => ws.lbx(&["apply_patch", CODEX]),
            1 => ws.lbx_stdin(&["apply_patch"], CODEX),
            2 => ws.call(&[CODEX]).named("apply_patch").run(),
            3 => ws.call(none).named("apply_patch").stdin(CODEX).run(),
            4 => ws.call(&[CODEX]).named("/usr/bin/applypatch").run(),
            _ => ws.call(&[CODEX]).named("apply_patch").stdin_never_closes().run(),
        };
        assert_eq!(answer.status(), 0, "{form}: {}", answer.stderr());
        assert_eq!(answer.stdout_text(), "Success. Updated the following files:\nM a.txt\n", "{form}");
        ws.holds("a.txt", CHANGED);
    }
    let ws = Workspace::with(&[("a.txt", NUMBERS)]);
    let data = ws.call(&[CODEX]).named("apply_patch").env("LBX_OUTPUT", "json").run().ok();
    assert_eq!(data["files"][0]["action"], "modify");
    let answer = ws.call(&["not a patch"]).named("apply_patch").env("LBX_OUTPUT", "json").run();
    answer.error("patch_invalid");
}

#[test]
fn apply_patch_accepts_unique_old_lines_without_a_read() {
    let call = |ws: &Workspace| ws.call(&["apply_patch", CODEX]).env("LBX_OUTPUT", "json").run();
    let ws = Workspace::with(&[("a.txt", NUMBERS)]);
    call(&ws).ok();
    // Repeated lines prove nothing, nor does different white space.
    for text in [format!("{NUMBERS}{NUMBERS}"), NUMBERS.replace("two", "two ")] {
        let ws = Workspace::with(&[("a.txt", &text)]);
        let kind = ws.unchanged(|| call(&ws).envelope())["error"]["kind"].clone();
        assert!(kind == "not_read" || kind == "patch_conflict", "{text:?}: {kind}");
    }
    // Under its own name, patch requires that the file was read.
    let ws = Workspace::with(&[("a.txt", NUMBERS)]);
    ws.unchanged(|| ws.lbx_stdin(&["patch"], CODEX).error("not_read"));
}

#[test]
fn patch_from_git_diff_gives_the_same_tree() {
    let before = (1..=60).map(|number| format!("line {number}\n")).collect::<String>();
    let after = before.replace("line 7\n", "").replace("line 30\n", "thirty\nand more\n") + "end";
    let ws = Workspace::with(&[("a.txt", &before), ("moved.txt", &before), ("gone.txt", "x\n")]);
    ws.write("a.txt", &after);
    fs::rename(ws.path("moved.txt"), ws.path("there.txt")).unwrap();
    fs::remove_file(ws.path("gone.txt")).unwrap();
    ws.write("bin", b"\0\x01\xff\n");
    ws.git(&["add", "-A"]);
    let patch = ws.git(&["diff", "--cached", "--binary", "-M", "HEAD"]) + "\n";
    let wanted = ws.tree();
    ws.git(&["reset", "-q", "--hard", "HEAD"]);
    for path in ["a.txt", "gone.txt", "moved.txt"] {
        ws.lbx(&["read", path]).ok();
    }
    ws.lbx_stdin(&["patch"], &patch).ok();
    assert_eq!(ws.tree(), wanted);
    ws.lbx_stdin(&["patch", "--reverse"], &patch).ok();
    assert_eq!(ws.git(&["status", "--porcelain"]), "");
}

#[test]
fn patch_path_with_a_second_slash_is_absolute() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let root = ws.root.display().to_string();
    let patch = format!("--- a/{root}/a.txt\n+++ b/{root}/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
    let done = ws.lbx_stdin(&["patch"], &patch).ok();
    assert_eq!(done["files"][0]["path"], "a.txt");
    ws.holds("a.txt", "one\n2\n");
    let outside = "--- /dev/null\n+++ b//etc/lbx-was-here\n@@ -0,0 +1 @@\n+x\n";
    ws.lbx_stdin(&["patch"], outside).error("outside_workspace");
}

#[test]
fn patch_with_an_oversized_result_is_too_large() {
    let bound = ["--set", "limits.file_bytes=10"];
    let unified = "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n # A\n abc\n+def\n";
    let reverse = "--- a/f\n+++ b/f\n@@ -1,3 +1,2 @@\n # A\n abc\n-def\n";
    let codex = "*** Begin Patch\n*** Update File: f\n@@\n abc\n+def\n*** End Patch\n";
    let blocks = "f\n<<<<<<< SEARCH\nabc\n=======\nabc\ndef\n>>>>>>> REPLACE\n";
    let rename = format!("diff --git a/f b/g\nrename from f\nrename to g\n{}", unified.replace("b/f", "b/g"));
    let copy = rename.replace("rename", "copy");
    let create = "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+12345\n+67890\n";
    let added = "*** Begin Patch\n*** Add File: new\n+12345\n+67890\n*** End Patch\n";
    let small = "--- /dev/null\n+++ b/small\n@@ -0,0 +1 @@\n+1\n";
    let both = format!("{small}{unified}");
    for (patch, flags, path) in [
        (unified, &[][..], "f"),
        (reverse, &["--reverse"], "f"),
        (codex, &[], "f"),
        (blocks, &[], "f"),
        (&rename, &[], "g"),
        (&copy, &[], "g"),
        (create, &[], "new"),
        (added, &[], "new"),
        (&both, &[], "f"),
    ] {
        let ws = Workspace::with(&[("f", "# A\nabc\n")]);
        ws.lbx(&["read", "f"]).ok();
        let call = [&["patch", "--patch", patch][..], flags].concat();
        let bounded = [&call[..], &bound].concat();
        let error = ws.unchanged(|| ws.lbx(&bounded).error("too_large"));
        assert_eq!((&error["path"], &error["details"]["limit"]), (&json!(path), &json!(10)), "{patch}");
        // Only the limit prevents it from being applied.
        ws.lbx(&call).ok();
    }
}

#[test]
fn size_limit_applies_to_binary_and_utf16_patches() {
    let ws = Workspace::with(&[]);
    ws.write("f", [0_u8; 4]);
    ws.git(&["add", "f"]);
    ws.write("f", [0_u8; 4000]);
    let patch = ws.git(&["diff", "--binary"]);
    ws.write("f", [0_u8; 4]);
    ws.lbx(&["read", "f", "--binary", "base64"]).ok();
    ws.unchanged(|| ws.lbx_stdin(&["patch", "--set", "limits.file_bytes=3999"], &patch).error("too_large"));
    ws.lbx_stdin(&["patch", "--set", "limits.file_bytes=4000"], &patch).ok();
    assert_eq!(ws.read_bytes("f"), [0_u8; 4000]);

    ws.write("w", b"\xff\xfea\0\n\0");
    ws.lbx(&["read", "w"]).ok();
    let patch = "--- a/w\n+++ b/w\n@@ -1 +1,2 @@\n a\n+b\n";
    ws.unchanged(|| ws.lbx_stdin(&["patch", "--set", "limits.file_bytes=9"], patch).error("too_large"));
    ws.lbx_stdin(&["patch", "--set", "limits.file_bytes=10"], patch).ok();
    ws.holds("w", b"\xff\xfea\0\n\0b\0\n\0");
}

#[test]
fn binary_patch_above_the_limit_is_never_inflated() {
    let ws = Workspace::with(&[]);
    ws.write("f", [0_u8; 4]);
    ws.git(&["add", "f"]);
    ws.write("f", [0_u8; 4000]);
    // The stated size differs from that of the content, which only decoding shows.
    let patch = ws.git(&["diff", "--binary"]).replace("literal 4000", "literal 99999999");
    ws.write("f", [0_u8; 4]);
    ws.lbx(&["read", "f", "--binary", "base64"]).ok();
    let error = ws.unchanged(|| ws.lbx_stdin(&["patch"], &patch).error("patch_invalid"));
    assert!(error["message"].as_str().unwrap().contains("shorter than stated"), "{error}");
    let bounded = ["patch", "--set", "limits.file_bytes=5000"];
    ws.unchanged(|| ws.lbx_stdin(&bounded, &patch).error("too_large"));
    // The total stated size of a patch's contents is limited as well.
    let part = "diff --git a/f b/f\nindex 1..2 100644\nGIT binary patch\nliteral 200000000\nHcmV?d00001\n\n";
    let error = ws.unchanged(|| ws.lbx_stdin(&["patch"], part.repeat(2)).error("patch_invalid"));
    assert!(error["message"].as_str().unwrap().contains("stated"), "{error}");
}

/// Returns the names of many files, in order.
fn many(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("d{}/{number:03}.txt", number % 7)).collect()
}

/// Returns a patch that changes all of `paths` as [`UNIFIED`] does, and a workspace in which it applies.
fn patch_of_many(paths: &[String]) -> (Workspace, String) {
    let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), NUMBERS)).collect();
    let patch = paths.iter().map(|path| GIT.replace("a.txt", path)).collect();
    (Workspace::with(&files), patch)
}

#[test]
fn patch_of_many_files_reports_the_first_failing_path() {
    let paths = many(150);
    let (ws, patch) = patch_of_many(&paths);
    let gated = ["patch", "--set", "patch_gate=context"];
    ws.write(".lbx/config.toml", format!("protect = [\"{}\"]\n", paths[90]));
    fs::remove_file(ws.path(&paths[120])).unwrap();
    fs::create_dir(ws.path(&paths[120])).unwrap();
    for _ in 0..3 {
        let error = ws.unchanged(|| ws.lbx_stdin(&gated, &patch).error("protected_path"));
        assert_eq!(error["path"], paths[90]);
    }
    fs::remove_file(ws.path(".lbx/config.toml")).unwrap();
    for _ in 0..3 {
        let error = ws.unchanged(|| ws.lbx_stdin(&gated, &patch).error("is_a_directory"));
        assert_eq!(error["path"], paths[120]);
    }
    fs::remove_dir(ws.path(&paths[120])).unwrap();
    // A symlink is followed, and a file with two names is changed once.
    std::os::unix::fs::symlink("../target.txt", ws.path(&paths[120])).unwrap();
    ws.write("target.txt", NUMBERS);
    ws.lbx_stdin(&gated, &patch).ok();
    ws.holds("target.txt", CHANGED);
    assert!(ws.path(&paths[120]).is_symlink());
    paths.iter().for_each(|path| ws.holds(path, CHANGED));
}

#[test]
fn added_file_never_replaces_an_existing_empty_folder() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("full/b.txt", "b\n")]);
    fs::create_dir(ws.path("empty")).unwrap();
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["read", "full/b.txt"]).ok();
    let patch = |added: &str, deleted: &str| {
        format!("*** Begin Patch\n*** Add File: {added}\n+new\n*** Delete File: {deleted}\n*** End Patch\n")
    };
    let error = ws.unchanged(|| ws.lbx_stdin(&["patch"], patch("empty", "a.txt")).error("is_a_directory"));
    assert_eq!(error["path"], "empty");
    // A folder that the patch itself empties makes way.
    ws.lbx_stdin(&["patch"], patch("full", "full/b.txt")).ok();
    ws.holds("full", "new\n");
}

#[test]
fn patch_of_many_files_raises_the_open_file_limit() {
    let paths = many(200);
    let (ws, patch) = patch_of_many(&paths);
    let call = |words: &[&str], stdin: &str| {
        let home = ws.outside.join("home");
        let limited = ["--nofile=100:4096"];
        crate::common::Call::under("prlimit", &limited, &ws.root, &home).arguments(words).stdin(stdin).run()
    };
    if !is_installed("prlimit") {
        return;
    }
    call(&["patch", "--set", "patch_gate=context"], &patch).ok();
    paths.iter().for_each(|path| ws.holds(path, CHANGED));
    call(&["undo"], "").ok();
    paths.iter().for_each(|path| ws.holds(path, NUMBERS));
    call(&["redo"], "").ok();
    paths.iter().for_each(|path| ws.holds(path, CHANGED));
    call(&["delete", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "--recursive"], "").ok();
    call(&["undo"], "").ok();
    paths.iter().for_each(|path| ws.holds(path, CHANGED));
}

#[test]
fn new_paths_of_a_patch_begin_where_its_files_are() {
    let ws = Workspace::with(&[("pkg/x", "a\nb\nc\nd\n")]);
    // The new file comes first, before any path shows where the patch begins.
    let patch = "diff --git a/pkg/new b/pkg/new\nnew file mode 100644\n--- /dev/null\n+++ b/pkg/new\n@@ -0,0 +1 @@\n+n\n\
                 diff --git a/pkg/x b/pkg/y\nsimilarity index 100%\nrename from pkg/x\nrename to pkg/y\n";
    let answer = ws.call(&["patch"]).in_folder(&ws.path("pkg")).stdin(patch).run();
    answer.ok();
    ws.holds("pkg/y", "a\nb\nc\nd\n");
    ws.holds("pkg/new", "n\n");
    assert!(!ws.path("pkg/pkg").exists() && !ws.path("pkg/x").exists());
}

#[test]
fn patch_adds_nothing_before_a_byte_order_mark() {
    let ws = Workspace::with(&[("a.txt", "\u{feff}a\nb\nc\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -0,0 +1 @@\n+NEW\n@@ -2 +3 @@\n-b\n+B\n";
    ws.lbx_stdin(&["patch"], patch).ok();
    ws.holds("a.txt", "\u{feff}NEW\na\nB\nc\n");
}

#[test]
fn dry_run_of_apply_patch_claims_no_success() {
    let ws = Workspace::with(&[]);
    let patch = "*** Begin Patch\n*** Add File: a\n+a\n*** End Patch";
    let answer = ws.unchanged(|| ws.lbx(&["apply_patch", "--dry-run", patch]));
    assert_eq!(answer.stdout_text(), "would update the following files:\nA a\n");
}

#[test]
fn binary_patch_of_git_applies_to_text_in_any_encoding() {
    let utf16 = |text: &str| -> Vec<u8> {
        [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    let cases: [(Vec<u8>, Vec<u8>); 5] = [
        (utf16("one\ntwo\n"), utf16("one\nTWO\n")),
        (b"\xef\xbb\xbfa\0b\n".to_vec(), b"\xef\xbb\xbfa\0c\n".to_vec()),
        (utf16("one\n"), b"x\0y".to_vec()),
        (b"x\0y".to_vec(), utf16("one\n")),
        (Vec::new(), utf16("one\n")),
    ];
    for (before, after) in cases {
        let ws = Workspace::with(&[]);
        ws.write("a.txt", &before);
        ws.git(&["add", "-A"]);
        ws.git(&["commit", "-qm", "one"]);
        ws.write("a.txt", &after);
        let patch = ws.git_command(&["diff", "--binary"]).output().unwrap().stdout;
        ws.write("a.txt", &before);
        ws.lbx(&["read", "a.txt", "--binary", "base64", "--max-bytes", "0"]).ok();
        ws.call(&["patch"]).stdin(&patch).run().ok();
        ws.holds("a.txt", &after);
        ws.call(&["patch", "--reverse"]).stdin(&patch).run().ok();
        ws.holds("a.txt", &before);
    }
}

#[test]
fn patches_with_many_equal_parts_are_read_in_one_pass() {
    let many = |part: &str| part.repeat(200_000);
    // A pass for each part would take minutes, or all of the stack.
    for (patch, kind) in [
        (format!("{}[x]\nPUT >$:\n+a\n", many("*** Begin Patch\n")), "not_found"),
        (format!("--- a{} x\n+++ b\n@@ -1 +1 @@\n-a\n+b\n", many(" 2020-01-01")), "not_found"),
        (
            format!(
                "*** Begin Patch\n*** Update File: x\n@@\n{}-a\n+b\n*** End Patch\n",
                many(" *** End Patch\n")
            ),
            "not_found",
        ),
        (format!("diff --git {}\n", many("x ")), "patch_invalid"),
        (format!("diff --git a/{}{}\n", many(" "), many("/")), "patch_invalid"),
        (
            format!(
                "x\n<<<<<<< SEARCH\n{}=======\nb\n>>>>>>> REPLACE\n",
                many("<<<<<<< x\n=======\n>>>>>>> y\n")
            ),
            "not_found",
        ),
    ] {
        Workspace::with(&[]).lbx_stdin(&["patch"], patch).error(kind);
    }
}
