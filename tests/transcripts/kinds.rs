//! A table of the kind of error that each tool returns for each problematic path.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::common::{Workspace, make_fifo};

/// Paths, in the order of the columns.
const PATHS: [&str; 15] = [
    "gone.txt",
    "a.txt",
    "d",
    "a.txt/x",
    "pipe",
    "../out.txt",
    "out",
    "dangling",
    "loop",
    ".git/config",
    ".lbx/config.toml",
    "b.bin",
    "u32.txt",
    "LONG",
    "",
];

/// One row per tool: its result for a missing path, an unread file, a folder, below a file, a FIFO, outside, a link
/// out, a dangling link, a loop of links, git's, lbx's, a binary, in UTF-32, too long, empty. `audit` comes first: it
/// knows the paths of refused calls.
const TABLE: &str = "
audit    gone  ok     ok     nodir ok    out out   gone loop  ok    gone ok     ok     bad ok
read     gone  ok     dir    nodir fifo  out out   gone loop  ok    gone bin    enc    bad bad
write    ok    unread dir    nodir fifo  out out   ok   loop  git   git  unread unread bad bad
edit     gone  unread dir    nodir fifo  out out   gone loop  git   git  unread enc    bad bad
patch    gone  unread dir    nodir fifo  out out   gone loop  git   git  unread enc    bad gone
append   ok    ok     dir    nodir fifo  out out   ok   loop  git   git  ok     enc    bad bad
prepend  ok    ok     dir    nodir fifo  out out   ok   loop  git   git  ok     enc    bad bad
insert   gone  unread dir    nodir fifo  out out   gone loop  git   git  unread enc    bad bad
section  gone  ok     dir    nodir fifo  out out   gone loop  git   git  nomatch enc   bad bad
grep     gone  ok     ok     nodir fifo  out out   gone loop  ok    gone ok     ok     bad ok
glob     gone  nodir  ok     nodir nodir out out   gone loop  nodir gone nodir  nodir  bad ok
ls       gone  ok     ok     nodir ok    out out   gone loop  ok    gone ok     ok     bad ok
bash     gone  nodir  ok     nodir nodir out out   gone loop  nodir gone nodir  nodir  bad ok
mkdir    ok    there  ok     nodir there out out   ok   loop  git   git  there  there  bad bad
delete   gone  ok     dir    nodir ok    out ok    ok   ok    git   git  ok     ok     bad bad
restore  gone  gone   gone   nodir gone  out gone  gone gone  gone  gone gone   gone   bad bad
from     gone  ok     ok     nodir ok    out ok    ok   ok    git   git  ok     ok     bad bad
to       ok    there  there  nodir there out there there there git  git  there  there  bad bad
undo     gone  gone   gone   nodir gone  out gone  gone gone  gone  gone gone   gone   bad gone
redo     gone  gone   gone   nodir gone  out gone  gone gone  gone  gone gone   gone   bad gone
log      gone  ok     ok     nodir ok    out out   gone loop  ok    gone ok     ok     bad ok
diff     gone  ok     ok     nodir ok    out out   gone loop  ok    gone ok     ok     bad ok
blame    gone  ok     dir    nodir fifo  out out   gone loop  ok    gone bin    ok     bad bad
session  ok    ok     ok     nodir ok    out out   ok   loop  ok    ok   ok     ok     bad bad
";

/// Returns the kind of error for a word of the table; `None` for success.
fn kind(word: &str) -> Option<&'static str> {
    Some(match word {
        "ok" => return None,
        "gone" => "not_found",
        "loop" | "bad" => "invalid_request",
        "there" => "already_exists",
        "unread" => "not_read",
        "nomatch" => "no_match",
        "dir" => "is_a_directory",
        "nodir" => "not_a_directory",
        "fifo" => "not_a_regular_file",
        "out" => "outside_workspace",
        "git" => "protected_path",
        "bin" => "binary_file",
        "enc" => "unsupported_encoding",
        other => panic!("{other} stands for nothing"),
    })
}

/// Returns the tool of a row, and its request for a path.
fn request<'r>(row: &'r str, path: &str) -> (&'r str, Value) {
    let patch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+two\n";
    match row {
        "write" | "append" | "prepend" => (row, json!({ "path": path, "content": "x\n" })),
        "edit" => (row, json!({ "path": path, "old_string": "o", "new_string": "x" })),
        "patch" => (row, json!({ "path": path, "patch": patch })),
        "insert" => (row, json!({ "path": path, "line": 0, "content": "x\n" })),
        "section" => (row, json!({ "path": path, "header": "H", "content": "x\n" })),
        "grep" | "glob" => (row, json!({ "path": path, "pattern": "o" })),
        "bash" => (row, json!({ "workdir": path, "command": "true" })),
        "from" => ("move", json!({ "from": path, "to": "new.txt" })),
        "to" => ("move", json!({ "from": "d/c.txt", "to": path })),
        "session" => (row, json!({ "action": "forget", "paths": [path] })),
        _ => (row, json!({ "path": path })),
    }
}

/// Creates a workspace with each of the paths.
fn workspace() -> Workspace {
    let ws = Workspace::with(&[("a.txt", "one\n# H\n"), ("d/c.txt", "c\n")]);
    fs::write(ws.root.join("b.bin"), b"a\0b\n").unwrap();
    fs::write(ws.root.join("u32.txt"), b"\xff\xfe\0\0a\0\0\0").unwrap();
    fs::write(ws.outside.join("out.txt"), "out\n").unwrap();
    make_fifo(&ws.root.join("pipe"));
    for (target, link) in [("../out.txt", "out"), ("missing", "dangling"), ("loop", "loop")] {
        symlink(target, ws.root.join(link)).unwrap();
    }
    ws
}

#[test]
fn every_tool_returns_the_listed_error_kind_for_each_path() {
    let ws = workspace();
    let long = "n".repeat(300);
    let mut wrong = Vec::new();
    for row in TABLE.lines().filter(|row| !row.is_empty()) {
        let (name, words) = row.split_once(' ').unwrap();
        let words: Vec<&str> = words.split_whitespace().collect();
        assert_eq!(words.len(), PATHS.len(), "{row}");
        for (path, word) in PATHS.iter().zip(words) {
            let path = if *path == "LONG" { long.as_str() } else { path };
            let (tool, mut request) = request(name, path);
            let changes = !["read", "grep", "glob", "ls", "bash", "log", "diff", "blame", "audit", "session"]
                .contains(&tool);
            // All calls are made in one workspace. A failed call changes nothing, the others are dry runs, and a row's
            // reads count for its own session only; `log` and `audit` would show no other.
            if !["log", "audit"].contains(&tool) {
                request["session"] = name.into();
            }
            if changes && kind(word).is_none() {
                request["dry_run"] = true.into();
            }
            let answer = ws.json(tool, &request).envelope();
            if answer["error"]["kind"].as_str() != kind(word) {
                wrong.push(format!("{name} {path:.20}: {word} in the table, but {answer}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
