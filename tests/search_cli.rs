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

#[test]
fn short_flags_are_those_of_rg_and_ls() {
    let tree = tree();
    std::fs::write(tree.path().join(".hidden"), "foo foo\n").unwrap();
    std::fs::write(tree.path().join("c.bin"), "foo\0\n").unwrap();
    let files = |args: &[&str]| data(&lbx(tree.path(), args))["files"].clone();
    assert_eq!(files(&["grep", "-luu", "foo"]), serde_json::json!([".hidden", "b.txt", "sub/a.rs"]));
    assert_eq!(
        files(&["grep", "-luuu", "foo"]),
        serde_json::json!([".hidden", "b.txt", "c.bin", "sub/a.rs"])
    );
    assert_eq!(files(&["grep", "-lx", "foo"]), serde_json::json!(["b.txt"]));
    assert_eq!(files(&["grep", "-l", "-d1", "foo"]), serde_json::json!(["b.txt"]));
    assert_eq!(files(&["grep", "-l", "-Trust", "foo", "-j4", "-N"]), serde_json::json!(["b.txt"]));
    let counts = |args: &[&str]| data(&lbx(tree.path(), args))["counts"][0]["count"].clone();
    assert_eq!(counts(&["grep", "-c", "foo", ".hidden"]), 1);
    assert_eq!(counts(&["grep", "--count-matches", "foo", ".hidden"]), 2);
    assert_eq!(
        counts(&["grep", "--json", r#"{"pattern":"o","path":".hidden","output_mode":"count_matches"}"#]),
        4
    );
    let long = data(&lbx(tree.path(), &["ls", "-lah"]));
    assert_eq!((&long["entries"][0]["path"], &long["entries"][0]["size"]), (&".hidden".into(), &8.into()));
}

#[test]
fn a_listing_by_time_has_the_newest_first() {
    let tree = tree();
    let time = |path: &str, seconds: u64| {
        let file = std::fs::File::options().write(true).open(tree.path().join(path)).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        file.set_times(std::fs::FileTimes::new().set_modified(time)).unwrap();
    };
    std::fs::write(tree.path().join("a.txt"), "").unwrap();
    time("a.txt", 1_000_000);
    time("b.txt", 3_000_000);
    time("sub/a.rs", 2_000_000);
    let text = |args: &[&str]| String::from_utf8(lbx(tree.path(), args).stdout).unwrap();
    assert_eq!(text(&["ls", "-R", "-t", "--sort", "mtime"]), "sub\nb.txt\nsub/a.rs\na.txt\n");
    let listed = data(&lbx(
        tree.path(),
        &["ls", "--json", r#"{"sort":"mtime","recursive":true,"limit":1,"offset":1}"#],
    ));
    assert_eq!((&listed["entries"][0]["path"], &listed["next_offset"]), (&"b.txt".into(), &2.into()));
}
