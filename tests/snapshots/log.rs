//! `log` by path, session and time.

use serde_json::{Value, json};

use crate::common::Workspace;

/// Creates four snapshots of two sessions.
fn busy() -> Workspace {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.call(&["--session", "one", "write", "d/x.txt", "--content", "x\ny\n"]).run().ok();
    ws.call(&["--session", "two", "write", "d/y.txt", "--content", "y\n"]).run().ok();
    ws.call(&["--session", "one", "append", "a.txt", "--content", "two\n", "--why", "for a reason"])
        .run()
        .ok();
    ws.write("a.txt", "external\n");
    ws.lbx(&["snapshot", "by hand\nmore of it"]).ok();
    ws
}

fn tools(log: &Value) -> Vec<String> {
    let snapshots = log["snapshots"].as_array().unwrap();
    snapshots.iter().map(|it| it["tool"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn log_entry_has_session_tool_time_and_line_counts() {
    let ws = busy();
    let log = ws.lbx(&["log"]).ok();
    assert_eq!(tools(&log), ["external", "append", "write", "write"]);
    let mut first = log["snapshots"][1].clone();
    let id = ws.git(&["rev-parse", "lbx-snapshots^"]).trim().to_owned();
    let time = first["time"].take();
    assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    let wanted = json!({
        "id": id, "tool": "append", "paths": ["a.txt"], "session": "one", "time": null,
        "seq": 2, "files": 1, "insertions": 1, "deletions": 0, "why": "for a reason",
    });
    assert_eq!(first, wanted);
    let by_hand = &log["snapshots"][0];
    assert_eq!((&by_hand["subject"], &by_hand["why"]), (&json!("external: by hand"), &json!("more of it")));
    assert_eq!(by_hand.get("session"), None, "what others changed is no session's");
}

#[test]
fn log_filters_by_path_session_and_time() {
    let ws = busy();
    let listed = |arguments: &[&str]| tools(&ws.lbx(&[&["log"], arguments].concat()).ok());
    assert_eq!(listed(&["a.txt"]), ["external", "append"]);
    assert_eq!(listed(&["d"]), ["write", "write"]);
    let error = ws.lbx(&["log", "none/at/all"]).error("not_found");
    assert_eq!(error["path"], "none/at/all");
    assert_eq!(listed(&["lbx-snapshots~2"]), ["write", "write"]);
    ws.lbx(&["log", "0123abcd"]).error("not_found");
    assert_eq!(listed(&["--session", "two"]), ["write"]);
    assert_eq!(listed(&["--since", "lbx-snapshots~2"]), ["external", "append"]);
    assert_eq!(listed(&["--since", "1h"]).len(), 4);
    assert_eq!(listed(&["--since", "2999-01-01T00:00:00Z"]), Vec::<String>::new());
    assert_eq!(listed(&["--since", "2999-01-01"]), Vec::<String>::new());
    assert_eq!(listed(&["--since", "HEAD"]).len(), 4);
    assert_eq!(tools(&ws.json("log", &json!({ "session": "one" })).ok()), ["append", "write"]);
    let own = ws.call(&["log"]).env("LBX_SESSION", "one").run().ok();
    assert_eq!(tools(&own).len(), 4, "the session of the environment is no filter");
}

#[test]
fn cut_log_continues_at_the_next_offset() {
    let ws = busy();
    let first = ws.lbx(&["log", "--limit", "3"]).ok();
    assert_eq!((&first["truncated"], &first["next_offset"]), (&json!(true), &json!(3)));
    let rest = ws.lbx(&["log", "--offset", "3"]).ok();
    assert_eq!((tools(&rest).len(), &rest["truncated"]), (1, &json!(false)));
    let small = ws.lbx(&["log", "--max-bytes", "10"]).ok();
    assert_eq!((tools(&small).len(), &small["next_offset"]), (1, &json!(1)));
    assert_eq!(tools(&ws.lbx(&["log", "--limit", "0"]).ok()).len(), 4);
}

#[test]
fn invalid_since_is_an_error() {
    let ws = busy();
    ws.lbx(&["log", "--since", "yesterday"]).error("invalid_request");
    let error = ws.lbx(&["log", "--since", "abcdef0123"]).error("not_found");
    assert_eq!(error["details"]["near"].as_array().unwrap().len(), 3);
}

#[test]
fn text_log_has_one_line_per_snapshot() {
    let ws = busy();
    let text = ws.lbx(&["log", "-t", "-n", "1"]).stdout_text();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words.len(), 9, "{text}");
    assert!(ws.git(&["rev-parse", "lbx-snapshots"]).starts_with(words[0]));
    assert_eq!(&words[2..], ["-", "-", "external:", "by", "hand", "(+1", "-2)"]);
    // A change has the number that `undo --seq` takes.
    let all = ws.lbx(&["log", "-t", "-n", "0"]).stdout_text();
    assert!(all.lines().any(|line| line.contains(" #1 ")), "{all}");
}
