//! `write`.

use serde_json::{Value, json};

use crate::common::{Workspace, sha256};

#[test]
fn new_file_needs_no_read_and_gets_its_folders() {
    let ws = Workspace::with(&[]);
    let envelope = ws.lbx(&["write", "a/b/c.txt", "--content", "x\ny"]).success();
    let wanted = json!({
        "path": "a/b/c.txt", "sha256": sha256(b"x\ny"), "size": 3, "created": true,
        "lines_added": 2, "lines_removed": 0,
    });
    assert_eq!(envelope["data"], wanted);
    assert_eq!(envelope["snapshot"], ws.git(&["rev-parse", "lbx-snapshots"]));
    ws.holds("a/b/c.txt", "x\ny");
    assert_eq!(ws.mode("a/b/c.txt") & 0o111, 0);
    assert_eq!(ws.snapshots(), ["write: a/b/c.txt"]);
}

#[test]
fn unread_file_is_not_overwritten() {
    let ws = Workspace::with(&[("a.txt", "precious\n")]);
    let error = ws.unchanged(|| ws.lbx(&["write", "a.txt", "--content", "x"]).error("not_read"));
    assert_eq!(error["message"], "refusing to overwrite a.txt: Read it first");
    assert_eq!(error["path"], "a.txt");
    assert!(ws.snapshots().is_empty());
    ws.lbx(&["read", "a.txt"]).ok();
    let data = ws.lbx(&["write", "a.txt", "--content", "x"]).ok();
    assert_eq!(
        (&data["created"], &data["lines_added"], &data["lines_removed"]),
        (&json!(false), &json!(1), &json!(1))
    );
    ws.holds("a.txt", "x");
}

#[test]
fn write_over_a_file_changed_by_another_program_is_stale() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.write("a.txt", "two\n");
    let error = ws.unchanged(|| ws.lbx(&["write", "a.txt", "--content", "x"]).error("stale_file"));
    assert_eq!(error["details"]["expected_sha256"], sha256(b"one\n"));
    assert_eq!(error["details"]["actual_sha256"], sha256(b"two\n"));
    let diff = error["details"]["diff"].as_str().unwrap();
    assert!(diff.contains("-one") && diff.contains("+two"), "{diff}");
}

#[test]
fn write_with_expected_sha256_needs_no_read() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let (right, wrong) = (sha256(b"one\n"), sha256(b"two\n"));
    ws.unchanged(|| {
        ws.lbx(&["write", "a.txt", "--content", "x", "--expected-sha256", &wrong]).error("stale_file");
        ws.lbx(&["write", "new.txt", "--content", "x", "--expected-sha256", &right]).error("stale_file");
        ws.lbx(&["write", "a.txt", "--content", "x", "--expected-sha256", "12"]).error("invalid_request");
    });
    ws.lbx(&["write", "a.txt", "--content", "x", "--expected-sha256", &right.to_uppercase()]).ok();
    ws.holds("a.txt", "x");
}

#[test]
fn written_file_counts_as_read() {
    let ws = Workspace::with(&[]);
    ws.lbx(&["write", "a.txt", "--content", "one\n"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "two\n"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "two", "--new-string", "three"]).ok();
    ws.holds("a.txt", "three\n");
}

#[test]
fn write_of_equal_bytes_needs_no_read_and_changes_nothing() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let before = std::fs::metadata(ws.path("a.txt")).unwrap().modified().unwrap();
    let envelope = ws.unchanged(|| ws.lbx(&["write", "a.txt", "--content", "one\n"]).success());
    assert_eq!(envelope["data"]["already_applied"], true);
    assert_eq!(envelope["snapshot"], Value::Null);
    assert_eq!(std::fs::metadata(ws.path("a.txt")).unwrap().modified().unwrap(), before);
    assert!(ws.snapshots().is_empty());
    // A session that knows all of it may change it.
    ws.lbx(&["write", "a.txt", "--content", "two\n"]).ok();
}

#[test]
fn create_only_never_replaces() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.unchanged(|| {
        ws.lbx(&["write", "a.txt", "--content", "x", "--create-only"]).error("already_exists");
    });
    ws.lbx(&["write", "b.txt", "--content", "x", "--create-only"]).ok();
    // A repeated request is recognized.
    let data = ws.lbx(&["write", "b.txt", "--content", "x", "--create-only"]).ok();
    assert_eq!(data["already_applied"], true);
}

#[test]
fn mode_sets_permission_bits() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["write", "run.sh", "--content", "#!/bin/sh\n", "--mode", "0755"]).ok();
    assert_eq!(ws.mode("run.sh"), 0o755);
    assert!(ws.git(&["ls-tree", "lbx-snapshots", "run.sh"]).starts_with("100755"));
    ws.lbx(&["write", "run.sh", "--content", "#!/bin/sh\n", "--mode", "644"]).ok();
    assert_eq!(ws.mode("run.sh"), 0o644);
    ws.lbx(&["write", "run.sh", "--content", "#!/bin/sh\nexit\n"]).ok();
    assert_eq!(ws.mode("run.sh"), 0o644);
    ws.lbx(&["write", "secret", "--content", "s", "--mode", "0600"]).ok();
    assert_eq!(ws.mode("secret"), 0o600);
}

#[test]
fn write_dry_run_returns_a_diff_and_changes_nothing() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.unchanged(|| {
        ws.lbx(&["write", "a.txt", "--content", "x", "--dry-run"]).error("not_read");
        let data = ws.lbx(&["write", "sub/b.txt", "--content", "x\n", "--dry-run"]).ok();
        assert_eq!(data["created"], true);
        assert!(data["diff"].as_str().unwrap().contains("+x"), "{data}");
    });
    assert!(ws.snapshots().is_empty());
    // Neither counts as read.
    ws.lbx(&["write", "a.txt", "--content", "one\n", "--dry-run"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "x"]).error("not_read");
}

#[test]
fn write_returns_a_bounded_diff_on_request() {
    let ws = Workspace::with(&[]);
    assert_eq!(ws.lbx(&["write", "a.txt", "--content", "a\nb\n"]).ok()["diff"], Value::Null);
    let data = ws.lbx(&["write", "a.txt", "--content", "a\nc\n", "--diff"]).ok();
    assert_eq!(data["diff"], "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
    let long = (0..1000).map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
    let dry = ws.json("write", &json!({"path": "a.txt", "content": long, "dry_run": true})).ok();
    assert!(dry["diff"].as_str().unwrap().len() <= 400, "{}", dry["diff"]);
    let asked = json!({"path": "a.txt", "content": long, "dry_run": true, "diff": true, "max_bytes": 1000});
    let asked = ws.json("write", &asked).ok();
    assert!((500..1200).contains(&asked["diff"].as_str().unwrap().len()), "{}", asked["diff"]);
}

#[test]
fn write_stores_exact_content_and_warns_of_form_changes() {
    let ws = Workspace::bare(&[]);
    // old bytes, new content, text of the warning
    let cases: &[(&[u8], &str, Option<&str>)] = &[
        (b"a\r\nb\r\n", "a\nc\n", Some("CRLF")),
        (b"a\r\nb\r\n", "a\r\nc\r\n", None),
        (b"a\nb\n", "a\r\nc\r\n", Some("had LF line endings and now has CRLF")),
        (b"a\r\nb\n", "a\nc\n", None),
        (b"\xff\xfea\0", "b", Some("utf-16le")),
        (b"\xfe\xff\0a", "b", Some("utf-16be")),
        (b"caf\xe9\n", "café\n", Some("was not UTF-8")),
        (b"\xef\xbb\xbfa\n", "b\n", Some("byte-order mark")),
        (b"\xef\xbb\xbfa\n", "\u{feff}b\n", None),
    ];
    for (number, (old, new, warning)) in cases.iter().enumerate() {
        let name = format!("{number}.txt");
        ws.write(&name, old);
        let _ = ws.lbx(&["read", &name]).success();
        let answer = ws.json("write", &json!({"path": name, "content": new}));
        match warning {
            Some(part) => answer.warned(part),
            None => answer.ok(),
        };
        ws.holds(&name, new);
    }
}

#[test]
fn line_ending_keep_preserves_line_endings() {
    let ws = Workspace::bare(&[("crlf.txt", "a\r\nb\r\n"), ("lf.txt", "a\nb\n"), ("mixed.txt", "a\r\nb\n")]);
    let _ = ws.lbx(&["read", "crlf.txt", "lf.txt", "mixed.txt"]).success();
    for (name, content, result) in [
        ("crlf.txt", "x\ny", "x\r\ny"),
        ("lf.txt", "x\r\ny\r\n", "x\ny\n"),
        ("mixed.txt", "x\ny\r\n", "x\ny\r\n"),
        ("new.txt", "x\r\ny\n", "x\r\ny\n"),
    ] {
        ws.json("write", &json!({"path": name, "content": content, "line_ending": "keep"})).ok();
        ws.holds(name, result);
    }
}

#[test]
fn write_over_a_folder_or_below_a_file_fails() {
    let ws = Workspace::with(&[("file", "x"), ("folder/x", "x")]);
    ws.unchanged(|| {
        ws.lbx(&["write", "folder", "--content", "y"]).error("is_a_directory");
        ws.lbx(&["write", "file/below", "--content", "y"]).error("not_a_directory");
        ws.lbx(&["write", "file/", "--content", "y"]).error("not_a_directory");
        ws.lbx(&["write", ".", "--content", "y"]).error("is_a_directory");
    });
}

#[test]
fn write_outside_git_snapshots_to_a_private_repository() {
    let ws = Workspace::bare(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let envelope = ws.lbx(&["write", "a.txt", "--content", "two\n"]).success();
    assert!(envelope["snapshot"].as_str().unwrap().len() >= 40);
    assert!(!ws.path(".git").exists());
}

#[test]
fn write_rejects_content_with_omission_markers() {
    let ws = Workspace::with(&[("a.rs", "fn a() {}\nfn b() {}\n")]);
    ws.lbx(&["read", "a.rs"]).ok();
    let content = "fn a() { 1 }\n// ... existing code ...\n";
    let error = ws.unchanged(|| {
        ws.lbx_stdin(&["write", "new.rs"], content).error("invalid_request");
        ws.lbx_stdin(&["write", "a.rs"], content).error("invalid_request")
    });
    assert_eq!((&error["details"]["field"], &error["details"]["line"]), (&"content".into(), &2.into()));
    ws.lbx_stdin(&["write", "a.rs", "--allow-omission"], content).ok();
    // Content that the file already has may stay.
    ws.lbx_stdin(&["write", "a.rs"], content.replace('1', "2")).ok();
    ws.lbx_stdin(&["write", "stub.py"], "def f():\n    ...\n").ok();
}
