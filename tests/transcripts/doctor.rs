//! `doctor` names what is wrong and what to do; `stats` adds the audit log up.

use std::fs::File;

use fs2::FileExt as _;
use serde_json::{Value, json};

use crate::common::{Workspace, state};

/// The finding of that check, of an answer.
fn finding<'a>(data: &'a Value, check: &str) -> &'a Value {
    let findings = data["findings"].as_array().unwrap();
    findings.iter().find(|found| found["check"] == check).unwrap_or_else(|| panic!("no {check}: {data}"))
}

#[test]
fn a_sound_workspace_has_no_problem() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.unchanged(|| assert_eq!(ws.lbx(&["doctor"]).ok()["healthy"], true));
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.lbx(&["read", "a.txt"]).ok();
    let data = ws.lbx(&["doctor"]).ok();
    assert_eq!(data["healthy"], true, "{data}");
    for (check, part) in [
        ("version", env!("CARGO_PKG_VERSION")),
        ("workspace", "it holds .git"),
        ("policy", "the defaults hold"),
        ("state", ".lbx/"),
        ("session", "1 file read"),
        ("audit", "1 record, the chain is whole"),
        ("snapshots", "lbx-snapshots in the workspace's repository"),
        ("disk", "MiB free"),
    ] {
        let found = finding(&data, check);
        assert!(found["message"].as_str().unwrap().contains(part), "{check}: {found}");
    }
    let text = ws.lbx(&["doctor", "--text"]);
    assert!(
        text.stdout_text().lines().any(|line| line.starts_with("ok ") && line.contains("chain is whole"))
    );
    assert!(text.stderr().contains("0 problems"), "{}", text.stderr());
}

#[test]
fn each_fault_is_named_with_its_remedy() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.write(&state("audit/current.jsonl"), "{}\n");
    ws.write(".lbx/config.toml", "[gate]\nmode = \"perhaps\"\n");
    let answer = ws.lbx(&["doctor", "--exit-status"]);
    assert_eq!(answer.status(), 1);
    let data = answer.envelope()["data"].clone();
    assert_eq!(data["healthy"], false);
    for (check, part) in [("audit", "current.jsonl:1"), ("policy", ".lbx/config.toml")] {
        let found = finding(&data, check);
        assert_eq!(found["level"], "problem", "{found}");
        assert!(found["message"].as_str().unwrap().contains(part), "{found}");
        assert!(!found["remedy"].as_str().unwrap().is_empty(), "{found}");
    }
}

#[test]
fn who_holds_the_workspace_is_told() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let lock = File::open(ws.path(".lbx/lock")).unwrap();
    lock.lock_exclusive().unwrap();
    let data = ws.lbx(&["doctor"]).ok();
    let found = finding(&data, "lock");
    assert_eq!(found["level"], "notice");
    // Where the system shows its table of locks, the holder is this process.
    if std::fs::read_to_string("/proc/locks").is_ok_and(|table| table.contains(" FLOCK ")) {
        let process = format!("process {}", std::process::id());
        assert!(found["message"].as_str().unwrap().contains(&process), "{found}");
    }
}

#[test]
fn a_change_that_a_killed_call_left_is_settled() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    // An entry that no version of lbx can read.
    ws.write(&state("journal/open/0000-1-x"), "no entry\n");
    let data = ws.lbx(&["doctor", "--fix"]).warned("journal/stuck");
    let found = finding(&data, "journal");
    assert!(found["message"].as_str().unwrap().contains("could not be settled"), "{found}");
    assert!(found["remedy"].as_str().unwrap().contains("journal/stuck"), "{found}");
}

#[test]
fn the_calls_of_each_tool_and_session_are_counted() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    let none = ws.lbx(&["stats"]).ok();
    assert_eq!(none["total"]["calls"], 0);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.lbx(&["append", "b.txt", "--content", "bb\n", "--session", "bob"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "x\n", "--session", "bob"]).error("not_read");
    ws.lbx(&["read", "a.txt"]).ok();
    let data = ws.lbx(&["stats"]).ok();
    let counts = |sum: &Value| json!([sum["calls"], sum["refused"], sum["paths"]]);
    assert_eq!(counts(&data["total"]), json!([3, 1, 2]));
    assert_eq!(counts(&data["by_tool"]["append"]), json!([2, 0, 2]));
    assert_eq!(counts(&data["by_tool"]["write"]), json!([1, 1, 0]));
    assert_eq!(counts(&data["by_session"]["bob"]), json!([2, 1, 1]));
    assert_eq!(data["refusals"], json!({ "not_read": 1 }));
    let bob = ws.lbx(&["stats", "--session", "bob"]).ok();
    assert_eq!(counts(&bob["total"]), json!([2, 1, 1]));
    let text = ws.lbx(&["stats", "--text"]).stdout_text();
    assert!(text.contains("tool write: 1 call, 1 refused"), "{text}");
    // A path that goes to the trash is one path.
    ws.lbx(&["delete", "b.txt"]).ok();
    assert_eq!(counts(&ws.lbx(&["stats"]).ok()["by_tool"]["delete"]), json!([1, 0, 1]));
}

#[test]
fn what_works_less_well_is_a_notice_with_its_remedy() {
    /// A variable, a setting, and what is said of it: a check, and a part of its message.
    type Case = (Option<(&'static str, &'static str)>, Option<&'static str>, &'static str, &'static str);
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let cases: [Case; 4] = [
        (Some(("LBX_GAET", "off")), None, "policy", "LBX_GAET sets nothing"),
        (None, Some("snapshot.enabled=false"), "snapshots", "switched them off"),
        (None, Some("gc.keep_bytes=1"), "size", "for undo and restore"),
        // No home folder to keep an id in.
        (Some(("LBX_STATE_ID", "")), None, "state", "id "),
    ];
    for (variable, setting, check, part) in cases {
        let arguments =
            ["doctor"].into_iter().chain(setting.into_iter().flat_map(|setting| ["--set", setting]));
        let mut call = ws.call(&arguments.collect::<Vec<_>>());
        if let Some((name, value)) = variable {
            call = call.env(name, value).env("HOME", "/proc/none");
        }
        let data = call.run().ok();
        let of_check = || data["findings"].as_array().unwrap().iter().filter(|found| found["check"] == check);
        let found =
            of_check().find(|found| found["level"] == "notice").unwrap_or_else(|| panic!("{check}: {data}"));
        assert!(found["message"].as_str().unwrap().contains(part), "{found}");
        assert!(!found["remedy"].as_str().unwrap().is_empty(), "{found}");
        assert_eq!(data["healthy"], true, "{data}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_a_problem() {
    // A folder that nobody may write in.
    let bare = Workspace::with(&[("a.txt", "one\n")]);
    bare.chmod("", 0o555);
    if let Some(call) = bare.call_unprivileged(&["doctor"]) {
        let data = call.run().ok();
        let found = finding(&data, "workspace");
        assert_eq!((&found["level"], &data["healthy"]), (&json!("problem"), &json!(false)), "{found}");
        assert!(found["message"].as_str().unwrap().contains("cannot be written"), "{found}");
    }
    bare.chmod("", 0o755);
}

#[test]
fn a_damaged_session_is_set_aside_by_fix() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    std::fs::write(ws.state_file("default.json"), "no session").unwrap();
    let found = |arguments: &[&str]| finding(&ws.lbx(arguments).ok(), "session").clone();
    let damaged = found(&["doctor"]);
    assert_eq!(damaged["level"], "notice", "{damaged}");
    assert!(damaged["remedy"].as_str().unwrap().contains("--fix"), "{damaged}");
    let fixed = found(&["doctor", "--fix"]);
    assert_eq!((&fixed["level"], &fixed["fixed"]), (&json!("notice"), &json!(true)), "{fixed}");
    assert_eq!(found(&["doctor"])["level"], "ok");
    ws.lbx(&["write", "a.txt", "--content", "x"]).error("not_read");
}

#[test]
fn a_call_at_work_is_told_from_one_that_was_killed() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let lock = File::open(ws.path(".lbx/lock")).unwrap();
    lock.lock_exclusive().unwrap();
    ws.write(&state("journal/open/0000-1-x"), "no entry\n");
    let data = ws.lbx(&["doctor"]).ok();
    let found = finding(&data, "journal");
    assert_eq!(found["level"], "notice");
    assert!(found["message"].as_str().unwrap().contains("is at work, or was killed"), "{found}");
    assert!(found["remedy"].as_str().unwrap().contains("doctor --fix"), "{found}");
}
