//! The audit log: it has every change and every error, and tampering shows.

use std::fs;

use serde_json::{Value, json};

use crate::common::{Workspace, sha256, state};

/// Creates a workspace in which two sessions made changes and one call failed.
fn audited() -> Workspace {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.lbx(&["append", "b.txt", "--content", "bb\n", "--session", "bob"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "x\n", "--session", "bob"]).error("not_read");
    ws.lbx(&["delete", "b.txt"]).ok();
    ws
}

/// Returns the records of an answer.
fn records(data: &Value) -> Vec<Value> {
    data["records"].as_array().unwrap().clone()
}

#[test]
fn audit_records_changes_and_errors_but_no_reads() {
    let ws = audited();
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["append", "a.txt", "--content", "x", "--dry-run"]).success();
    let data = ws.lbx(&["audit"]).ok();
    // The trash is no place of the workspace.
    assert!(!data.to_string().contains(".lbx"), "{data}");
    let shown: Vec<(String, String, String)> = records(&data)
        .iter()
        .map(|record| ["tool", "outcome", "session"].map(|field| record[field].as_str().unwrap().to_owned()))
        .map(|[tool, outcome, session]| (tool, outcome, session))
        .collect();
    let wanted = [
        ("delete", "ok", "default"),
        ("write", "not_read", "bob"),
        ("append", "ok", "bob"),
        ("append", "ok", "default"),
    ];
    assert_eq!(shown, wanted.map(|(tool, outcome, session)| (tool.into(), outcome.into(), session.into())));
    let first = &records(&data)[3];
    let file = &first["files"][0];
    assert_eq!(
        (&file["path"], &file["old_sha256"], &file["new_sha256"]),
        (&json!("a.txt"), &json!(sha256(b"one\n")), &json!(sha256(b"one\ntwo\n")))
    );
    assert_eq!(first["snapshot"], ws.git(&["rev-parse", "lbx-snapshots~2"]));
    for record in records(&data) {
        let time = record["time"].as_str().unwrap();
        assert!(time.len() == "2026-01-31T12:00:00.000Z".len() && time.ends_with('Z'), "{time}");
    }
    let refusal = &records(&data)[1];
    assert_eq!(refusal["files"][0]["path"], "a.txt");
    assert!(refusal["message"].as_str().unwrap().contains("Read it first"), "{refusal}");
    assert_eq!((&data["total"], &data["truncated"]), (&json!(4), &json!(false)));
}

#[test]
fn audit_log_is_filtered_and_paged() {
    let ws = audited();
    let cases: &[(&[&str], usize)] = &[
        (&["audit", "--session", "bob"], 2),
        (&["audit", "--session", "default"], 2),
        (&["audit", "a.txt"], 2),
        (&["audit", "b.txt", "--session", "bob"], 1),
        (&["audit", "."], 4),
    ];
    for (call, count) in cases {
        let data = ws.lbx(call).ok();
        assert_eq!((records(&data).len(), data["total"].as_u64()), (*count, Some(*count as u64)), "{call:?}");
    }
    let page = ws.lbx(&["audit", "--limit", "3"]).ok();
    assert_eq!((&page["truncated"], &page["next_offset"]), (&json!(true), &json!(3)));
    assert_eq!(records(&ws.lbx(&["audit", "--offset", "3"]).ok()).len(), 1);
    let text = ws.lbx(&["audit", "--text"]).stdout_text();
    assert_eq!(text.lines().count(), 4, "{text}");
}

#[test]
fn audit_verify_accepts_an_intact_chain() {
    let ws = audited();
    let data = ws.lbx(&["audit", "--verify"]).ok();
    assert_eq!((&data["verified"], &data["broken"]), (&json!(true), &Value::Null));
    assert_eq!(ws.lbx(&["audit"]).ok()["verified"], Value::Null);
    let text = fs::read_to_string(ws.path(&state("audit/current.jsonl"))).unwrap();
    let chain: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(chain[0]["prev"], "");
    for pair in chain.windows(2) {
        assert_eq!(pair[0]["hash"], pair[1]["prev"]);
    }
    // Without a log nothing is broken.
    let none = Workspace::with(&[]);
    assert_eq!(none.lbx(&["audit", "--verify"]).ok()["verified"], true);
    assert!(!none.path(".lbx").exists());
}

#[test]
fn audit_verify_names_an_altered_or_removed_record() {
    type Damage = fn(Vec<String>) -> Vec<String>;
    let cases: &[(&str, Damage, u64)] = &[
        ("another session", |lines| lines.iter().map(|line| line.replace("bob", "eve")).collect(), 2),
        ("another outcome", |lines| lines.iter().map(|line| line.replace("not_read", "ok")).collect(), 3),
        ("the first removed", |lines| lines[1..].to_vec(), 1),
        ("one in the middle removed", |lines| [&lines[..1], &lines[2..]].concat(), 2),
        ("two exchanged", |lines| [0, 2, 1, 3].map(|at| lines[at].clone()).to_vec(), 2),
        ("one twice", |lines| [0, 1, 1, 2, 3].map(|at| lines[at].clone()).to_vec(), 3),
        ("a field added", |lines| lines.iter().map(|line| line.replacen('{', "{\"x\":1,", 1)).collect(), 1),
        ("half a record", |lines| vec![lines[0].clone(), lines[1][..30].to_owned(), lines[2].clone()], 2),
    ];
    for (name, damage, line) in cases {
        let ws = audited();
        let path = ws.path(&state("audit/current.jsonl"));
        let lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 4);
        fs::write(&path, damage(lines).join("\n") + "\n").unwrap();
        let broken =
            || ws.lbx(&["audit", "--verify"]).error("verification_failed")["details"]["broken"].clone();
        let first = broken();
        assert_eq!(first["line"], *line, "{name}: {first:#}");
        assert!(first["file"].as_str().unwrap().ends_with("current.jsonl"), "{name}");
        // The log continues, and the broken place is still named.
        ws.lbx(&["append", "a.txt", "--content", "more\n"]).ok();
        assert_eq!(broken()["line"], *line, "{name}");
    }
}

#[test]
fn audit_verify_detects_a_truncated_log() {
    for cut in [1, 2, 4] {
        let ws = audited();
        let path = ws.path(&state("audit/current.jsonl"));
        let lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        let left: String = lines[..4 - cut].iter().map(|line| format!("{line}\n")).collect();
        fs::write(&path, left).unwrap();
        let broken =
            || ws.lbx(&["audit", "--verify"]).error("verification_failed")["details"]["broken"].clone();
        let first = broken();
        assert_eq!(first["line"], 5 - cut, "{cut}");
        assert!(first["message"].as_str().unwrap().contains("there were 4"), "{first:#}");
        // The log continues, and the gap still shows.
        ws.lbx(&["append", "a.txt", "--content", "more\n"]).ok();
        assert_eq!(broken()["line"], 5 - cut, "{cut}");
    }
}

#[test]
fn audit_verify_accepts_half_a_record_of_a_killed_call() {
    let ws = audited();
    let path = ws.path(&state("audit/current.jsonl"));
    let mut text = fs::read_to_string(&path).unwrap();
    text += "{\"time\":\"2026";
    fs::write(&path, text).unwrap();
    assert_eq!(ws.lbx(&["audit", "--verify"]).ok()["verified"], true);
    ws.lbx(&["append", "a.txt", "--content", "more\n"]).ok();
    let data = ws.lbx(&["audit", "--verify"]).ok();
    assert_eq!((&data["verified"], &data["total"]), (&json!(true), &json!(5)));
}

#[test]
fn audit_record_has_why_and_gate() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n", "--why", "  Count on.\nAs asked.\n"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "x\n", "--set", "gate=off", "--why", &"long ".repeat(1000)])
        .success();
    ws.lbx(&["append", "a.txt", "--content", "y\n"]).ok();
    let data = ws.lbx(&["audit"]).ok();
    let records = records(&data);
    assert_eq!((&records[2]["why"], &records[2]["gate"]), (&json!("Count on.\nAs asked."), &Value::Null));
    assert_eq!(records[1]["gate"], "off");
    let why = records[1]["why"].as_str().unwrap();
    assert!(why.chars().count() == 1000 && why.ends_with('…'), "{why}");
    assert_eq!(records[0].get("why"), None);
    ws.lbx(&["audit", "--verify"]).ok();
}

#[test]
fn audit_verify_text_is_only_the_verdict() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for text in ["two\n", "three\n"] {
        ws.lbx(&["append", "a.txt", "--content", text]).ok();
    }
    let verdict = ws.lbx(&["audit", "--verify", "-t"]);
    assert_eq!(verdict.stdout_text(), "the chain is whole\n");
}

#[test]
fn audit_log_of_a_newer_version_is_left_alone() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.lbx(&["append", "a.txt", "--content", "b\n"]).ok();
    let head = state("audit/head");
    let newer = String::from_utf8(ws.read_bytes(&head)).unwrap().replace("\"version\":1", "\"version\":99");
    ws.write(&head, &newer);
    let log = ws.read_bytes(&state("audit/current.jsonl"));
    ws.lbx(&["append", "a.txt", "--content", "c\n"]).warned("the audit log was written by a newer lbx");
    ws.holds(&head, &newer);
    ws.holds(&state("audit/current.jsonl"), log);
    ws.holds("a.txt", "a\nb\nc\n");
}

#[test]
fn audit_takes_a_revision_in_place_of_a_path() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let append = |text: &str| {
        let data = ws.lbx(&["append", "a.txt", "--content", text]).success();
        data["snapshot"].as_str().unwrap().to_owned()
    };
    let (first, second) = (append("b\n"), append("c\n"));
    append("d\n");
    let shown = |revision: &str| {
        let records = ws.lbx(&["audit", revision]).ok()["records"].clone();
        let records = records.as_array().unwrap().iter();
        records.map(|record| record["snapshot"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&second), [second.clone(), first.clone()]);
    assert_eq!(shown(&first[..10]), std::slice::from_ref(&first));
    assert_eq!(shown("lbx-snapshots").len(), 3);
    // A commit of the developer has no record: its time counts.
    ws.git(&["commit", "-q", "--allow-empty", "--date=2100-01-01", "-m", "later"]);
    assert_eq!(shown("HEAD").len(), 3);
    let error = ws.lbx(&["audit", &format!("{first}..{second}")]).error("invalid_request");
    assert!(error["message"].as_str().unwrap().ends_with("is for diff: audit takes one snapshot"), "{error}");
    ws.lbx(&["audit", "0123456789"]).error("not_found");
}

#[test]
fn audit_counts_a_record_whose_call_was_killed_before_the_head() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let append = |text: &str| drop(ws.lbx(&["append", "a.txt", "--content", text]).ok());
    let head = state("audit/head");
    append("b\n");
    let before = ws.read_bytes(&head);
    append("c\n");
    ws.write(&head, &before);
    append("d\n");
    let named =
        |head: &str| serde_json::from_slice::<Value>(&ws.read_bytes(head)).unwrap()["records"].clone();
    assert_eq!(named(&head), 3);
    ws.lbx(&["audit", "--verify"]).ok();
    // The record is the first one of a new file.
    let before = ws.read_bytes(&head);
    fs::rename(ws.path(&state("audit/current.jsonl")), ws.path(&state("audit/000001.jsonl"))).unwrap();
    append("e\n");
    ws.write(&head, &before);
    append("f\n");
    assert_eq!(named(&head), 5);
    ws.lbx(&["audit", "--verify"]).ok();
}
