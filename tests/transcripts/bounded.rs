//! Length of an answer: shells of harnesses cut at 30,000 characters, and the rest is lost.

use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};

use crate::common::{Answer, Workspace};

/// Largest output that a shell shows, in characters.
const SHOWN_MAX: usize = 30_000;

/// Returns a line that takes three times its length in JSON.
fn escaped_line() -> String {
    "\u{1}\"\\".repeat(20) + "\n"
}

/// Returns the data of an answer, after checking that a shell shows all of it.
#[track_caller]
fn shown_whole(answer: &Answer) -> Value {
    let length = answer.stdout_text().chars().count();
    assert!(length < SHOWN_MAX, "{length} characters: {:.300}", answer.stdout_text());
    answer.success()["data"].take()
}

/// Creates a workspace with more of everything than an answer holds.
fn full() -> (Workspace, Vec<String>) {
    let ws = Workspace::with(&[("lines.txt", "y\n".repeat(50_000).as_str())]);
    ws.write("escapes.txt", escaped_line().repeat(2000));
    ws.write("long.txt", "\"".repeat(200_000));
    let names: Vec<String> =
        (0..300).map(|number| format!("many/{}{number:03}\u{1}\"", "n".repeat(150))).collect();
    names.iter().for_each(|name| ws.write(name, "x\n"));
    (ws, names)
}

#[test]
fn responses_of_reading_tools_fit_in_shell_output() {
    let (ws, names) = full();
    for file in ["lines.txt", "escapes.txt", "long.txt"] {
        let data = shown_whole(&ws.lbx(&["read", file, "--limit", "0"]));
        assert_eq!(data["truncated"], true, "{file}");
        shown_whole(&ws.lbx(&["read", file, "--limit", "0", "--line-numbers"]));
    }
    shown_whole(&ws.lbx(&["read", "escapes.txt", "lines.txt", "long.txt", "--limit", "0"]));
    let many: Vec<&str> = ["read"].into_iter().chain(names.iter().map(String::as_str)).collect();
    shown_whole(&ws.lbx(&many));
    for mode in ["content", "files", "count"] {
        shown_whole(&ws.lbx(&["grep", "x|y|\"", "--limit", "0", "--output-mode", mode]));
    }
    shown_whole(&ws.lbx(&["glob", "**", "--limit", "0"]));
    shown_whole(&ws.lbx(&["ls", "--recursive", "--long", "--limit", "0"]));
}

#[test]
fn responses_of_changing_tools_fit_in_shell_output() {
    let (ws, names) = full();
    shown_whole(&ws.lbx(&["write", "new.txt", "--content", &escaped_line().repeat(900), "--diff"]));
    ws.lbx(&["read", "escapes.txt", "--limit", "0", "--max-bytes", "0"]).ok();
    let all = json!({"path": "escapes.txt", "old_string": "\\", "new_string": "/", "replace_all": true, "diff": true});
    shown_whole(&ws.json("edit", &all));
    let mut patch = "*** Begin Patch\n".to_owned();
    for number in 0..300 {
        write!(patch, "*** Add File: added/{}{number}\n+x\n", "p".repeat(150)).unwrap();
    }
    patch.push_str("*** End Patch\n");
    let patched = shown_whole(&ws.lbx_stdin(&["patch"], &patch));
    assert_eq!(patched["total"], 300);
    assert!(patched["files"].as_array().unwrap().len() > 50, "{patched}");
    ws.json("read", &json!({"paths": names[..200], "max_bytes": 0})).ok();
    let edited = json!({"paths": names[..200], "old_string": "x", "new_string": "z"});
    assert_eq!(shown_whole(&ws.json("edit", &edited))["total"], 200);
    let paths: Vec<&str> = ["delete"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let deleted = shown_whole(&ws.lbx(&paths));
    assert_eq!(deleted["total"], 300);
    let undone = shown_whole(&ws.lbx(&["undo"]));
    assert_eq!(
        (&undone["undone"][0]["files"], undone["undone"][0]["paths"].as_array().unwrap().len()),
        (&json!(300), 20)
    );
    assert_eq!(fs::read_dir(ws.path("many")).unwrap().count(), 300);
    shown_whole(&ws.lbx(&["redo"]));
    shown_whole(&ws.lbx(&["undo", "--steps", "4"]));
    shown_whole(&ws.lbx(&["redo", "--steps", "4"]));
    for tool in [&["diff"][..], &["log"], &["review"], &["session"], &["session", "brief"], &["trash"]] {
        shown_whole(&ws.lbx(tool));
    }
    let records = shown_whole(&ws.lbx(&["audit", "--limit", "1"]));
    let record = &records["records"][0];
    assert!(record["files_total"].as_u64().unwrap() > 300, "{record}");
    assert_eq!(record["files"].as_array().unwrap().len(), 20);
}

#[test]
fn line_longer_than_the_diff_limit_is_cut() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.lbx(&["write", "b.txt", "--content", &"\"".repeat(100_000)]).ok();
    let data = ws.lbx(&["diff"]).ok();
    let line = (0..20).find_map(|offset| {
        let answer = ws.lbx(&["diff", "--offset", &offset.to_string()]);
        answer.stdout_text().contains("bytes left out").then_some(answer)
    });
    let line = line.expect("the long line has its page");
    assert_eq!(data["truncated"], true);
    assert!(line.stdout_text().chars().count() < SHOWN_MAX);
    let warning = line.success()["warnings"][0].as_str().unwrap().to_owned();
    assert!(warning.contains("1 line cut at max_bytes: git apply rejects this diff"), "{warning}");
    let whole = ws.lbx(&["diff", "--max-bytes", "0"]).ok();
    assert!(whole["diff"].as_str().unwrap().len() > 100_000);
}

#[test]
fn change_of_many_files_is_listed_as_far_as_it_fits() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let mut patch = "*** Begin Patch\n".to_owned();
    for number in 0..400 {
        write!(patch, "*** Add File: added/{}{number}\n+x\n", "p".repeat(150)).unwrap();
    }
    ws.lbx_stdin(&["patch"], patch + "*** End Patch\n").success();
    let log = shown_whole(&ws.lbx(&["log", "--stat"]));
    let listed = log["snapshots"][0]["stat"].as_array().unwrap().len();
    assert!(log["truncated"] == true && (50..400).contains(&listed), "{listed}");
    assert_eq!((&log["snapshots"][0]["files"], log.get("next_offset")), (&json!(400), None));
    let text = ws.lbx(&["log", "--stat", "--text"]).stdout_text();
    assert!(text.ends_with(&format!("\n  and {} more\n", 400 - listed)), "{text:.300}");
    for args in [&["review"][..], &["review", "--stat"]] {
        let review = shown_whole(&ws.lbx(args));
        let change = &review["changes"][0];
        let listed = change["files"].as_array().unwrap().len();
        assert!(review["truncated"] == true && (30..400).contains(&listed), "{args:?} {listed}");
        assert_eq!((&change["files_total"], review.get("next_offset")), (&json!(400), None));
    }
    let text = ws.lbx(&["review", "--stat", "--text"]).stdout_text();
    assert!(text.len() < SHOWN_MAX && text.contains(" more\n"), "{text:.300}");
    // With no bound, everything is there.
    let whole = ws.lbx(&["review", "--stat", "--max-bytes", "0"]).ok();
    assert_eq!(whole["changes"][0]["files"].as_array().unwrap().len(), 400);
    assert_eq!(ws.lbx(&["log", "--stat", "--max-bytes", "0"]).ok()["truncated"], false);
}

#[test]
fn refused_calls_and_read_files_of_a_review_are_bounded() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.lbx(&["write", "b.txt", "--content", "b\n"]).ok();
    let name = |number: usize| format!("read/{}{number:03}", "n".repeat(150));
    (0..200).for_each(|number| ws.write(&name(number), "x\n"));
    let names: Vec<String> = (0..200).map(name).collect();
    ws.json("read", &json!({"paths": names, "max_bytes": 0})).ok();
    for _ in 0..60 {
        ws.lbx(&["write", "a.txt", "--content", "y"]).error("not_read");
    }
    let review = shown_whole(&ws.lbx(&["review"]));
    assert_eq!((&review["truncated"], &review["totals"]["refused"]), (&json!(true), &json!(60)));
    assert!(review["read"].as_array().unwrap().len() < 200, "{review:.300}");
    let whole = ws.lbx(&["review", "--max-bytes", "0"]).ok();
    let counts = ["read", "refused"].map(|list| whole[list].as_array().unwrap().len());
    assert_eq!((counts, &whole["truncated"]), ([200, 60], &json!(false)));
}
