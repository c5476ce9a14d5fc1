//! `grep`, `glob` and `ls` through the real binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A small repository.
fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir(tree.path().join(".git")).unwrap();
    std::fs::create_dir(tree.path().join("sub")).unwrap();
    std::fs::write(tree.path().join("sub/a.rs"), "fn foo() {}\nfn bar() {}\n").unwrap();
    std::fs::write(tree.path().join("b.txt"), "foo\n").unwrap();
    tree
}

/// Runs `lbx` in `current`.
fn lbx(current: &Path, args: &[&str]) -> Output {
    let binary = assert_cmd::cargo::cargo_bin!("lbx");
    Command::new(binary).args(args).current_dir(current).stdin(Stdio::null()).output().unwrap()
}

/// The data of an answer.
fn data(output: &Output) -> Value {
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["ok"], true, "{answer}");
    answer["data"].clone()
}

#[test]
fn flags_and_json_are_one_request() {
    let tree = tree();
    let by_flags = data(&lbx(tree.path(), &["grep", "-iA1", "FOO", "sub", "-t", "rust"]));
    let request = r#"{"pattern":"FOO","path":"sub","-i":true,"-A":"1","type":"rust","-n":true}"#;
    let by_json = data(&lbx(tree.path(), &["grep", "--json", request]));
    assert_eq!(by_flags, by_json);
    assert_eq!(by_json["matches"][0]["after"][0], "fn bar() {}");
    let files =
        data(&lbx(tree.path(), &["grep", "--json", r#"{"regex":"foo","outputMode":"files_with_matches"}"#]));
    assert_eq!(files["files"], serde_json::json!(["b.txt", "sub/a.rs"]));
}

#[test]
fn text_is_the_payload_alone() {
    let tree = tree();
    let text = |args: &[&str]| String::from_utf8(lbx(tree.path(), args).stdout).unwrap();
    assert_eq!(text(&["grep", "--text", "-rn", "foo", "."]), "b.txt\n1:foo\n\nsub/a.rs\n1:fn foo() {}\n");
    assert_eq!(text(&["glob", "--text", "--null", "*"]), "b.txt\0sub/a.rs\0");
    assert_eq!(text(&["ls", "-t"]), "b.txt\nsub\n");
}

#[test]
fn the_exit_status_tells_whether_anything_matched() {
    let tree = tree();
    for (args, status) in [
        (&["grep", "--exit-status", "foo"][..], 0),
        (&["grep", "--exit-status", "nowhere"], 1),
        (&["grep", "nowhere"], 0),
        (&["glob", "--exit-status", "*.py"], 1),
        (&["grep", "fo("], 2),
        (&["grep", "foo", "nowhere"], 3),
        (&["ls", "../.."], 10),
    ] {
        assert_eq!(lbx(tree.path(), args).status.code(), Some(status), "{args:?}");
    }
}

#[test]
fn lines_that_a_marking_search_showed_may_be_edited() {
    let tree = tree();
    let edit = ["edit", "b.txt", "--old-string", "foo", "--new-string", "new"];
    assert_eq!(lbx(tree.path(), &edit).status.code(), Some(5));
    data(&lbx(tree.path(), &["grep", "foo", "b.txt"]));
    assert_eq!(lbx(tree.path(), &edit).status.code(), Some(5));
    data(&lbx(tree.path(), &["grep", "--mark", "foo", "b.txt"]));
    data(&lbx(tree.path(), &edit));
    assert_eq!(std::fs::read(tree.path().join("b.txt")).unwrap(), b"new\n");
}
