//! The changes that answer one prompt are a turn, which is undone, listed and shown as a whole.

use serde_json::{Value, json};

use crate::common::{LOOSEN, Workspace, state};

/// Ten lines, of which edits can replace some.
const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

/// Sends an event of a client's hooks.
fn event(ws: &Workspace, session: &str, event: &Value) {
    let hook = ["hook", "claude-code", "--session", session, "--set", "guard.timeout_ms=60000"];
    assert_eq!(ws.lbx_stdin(&hook, event.to_string()).status(), 0);
}

/// Begins a turn of a session.
fn prompt(ws: &Workspace, session: &str, text: &str) {
    let name = "UserPromptSubmit";
    event(
        ws,
        session,
        &json!({ "hook_event_name": name, "session_id": "x", "prompt_id": text, "prompt": text }),
    );
}

/// Ends a turn of a session.
fn stop(ws: &Workspace, session: &str) {
    event(ws, session, &json!({ "hook_event_name": "Stop", "session_id": "x" }));
}

/// Replaces a line of a file.
fn edit(ws: &Workspace, session: &str, path: &str, old: &str, new: &str) {
    ws.lbx(&["read", path, "--session", session]).ok();
    let (old, new) = (format!("{old}\n"), format!("{new}\n"));
    ws.lbx(&["edit", path, "--session", session, "--old-string", &old, "--new-string", &new]).ok();
}

/// A workspace in which session `s` has made two turns: changes 1 and 2, then 3 and 4. Prompts become titles.
fn two_turns() -> Workspace {
    let ws = Workspace::with(&[("a.txt", LINES), ("b.txt", LINES)]);
    ws.user_policy(&format!("{LOOSEN}guard.titles = true\n"));
    prompt(&ws, "s", "first prompt");
    edit(&ws, "s", "a.txt", "2", "two");
    ws.lbx(&["write", "new.txt", "--content", "new\n", "--session", "s"]).ok();
    prompt(&ws, "s", "second prompt");
    edit(&ws, "s", "a.txt", "6", "six");
    edit(&ws, "s", "b.txt", "1", "one");
    stop(&ws, "s");
    ws
}

/// Returns the numbers of the changes in a list.
fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|change| change["seq"].as_u64().unwrap()).collect()
}

#[test]
fn undo_of_a_turn_takes_back_all_its_changes_as_one() {
    let ws = two_turns();
    let with = ws.tree();
    let data = ws.lbx(&["undo", "--turn", "--session", "s"]).ok();
    assert_eq!(numbers(&data["undone"]), [4, 3]);
    ws.holds("b.txt", LINES);
    ws.holds("a.txt", LINES.replace('2', "two"));
    let data = ws.json("undo", &json!({ "turn": 0, "session": "s" })).ok();
    assert_eq!(numbers(&data["undone"]), [2, 1]);
    ws.holds("a.txt", LINES);
    assert!(!ws.path("new.txt").exists());
    let error = ws.lbx(&["undo", "--turn", "--session", "s"]).error("not_found");
    assert_eq!(error["message"], "session s has nothing to undo");
    assert_eq!(numbers(&ws.lbx(&["redo", "--turn", "--session", "s"]).ok()["redone"]), [1, 2]);
    assert_eq!(numbers(&ws.lbx(&["redo", "--turn", "--session", "s"]).ok()["redone"]), [3, 4]);
    assert_eq!(ws.tree(), with);
}

#[test]
fn undo_of_an_earlier_turn_keeps_later_turns() {
    let ws = two_turns();
    ws.lbx(&["move", "a.txt", "moved.txt", "--session", "s"]).ok();
    let with = ws.tree();
    let data = ws.lbx(&["undo", "--turn", "1", "--session", "s"]).ok();
    assert_eq!(numbers(&data["undone"]), [2, 1]);
    ws.holds("moved.txt", LINES.replace('6', "six"));
    let error = ws.lbx(&["undo", "--turn", "2", "--session", "s"]).error("not_found");
    assert_eq!(error["message"], "the turn of change 2 of session s has nothing to undo");
    assert_eq!(numbers(&ws.lbx(&["redo", "--turn", "--session", "s"]).ok()["redone"]), [1, 2]);
    assert_eq!(ws.tree(), with);
}

#[test]
fn undo_of_a_turn_is_refused_whole_if_later_changes_overlap() {
    let ws = two_turns();
    edit(&ws, "other", "a.txt", "two", "zwei");
    let error = ws.unchanged(|| ws.lbx(&["undo", "--turn", "1", "--session", "s"]).error("stale_file"));
    assert_eq!(error["path"], "a.txt");
    let shown = error["details"]["conflicts"].as_str().unwrap();
    assert!(shown.contains("zwei") && shown.contains("without the turn of change 1"), "{shown}");
}

#[test]
fn undo_of_a_turn_is_refused_if_a_later_change_moved_or_deleted_its_new_file() {
    let ws = two_turns();
    ws.lbx(&["move", "new.txt", "c.txt", "--session", "s"]).ok();
    let error = ws.unchanged(|| ws.lbx(&["undo", "--turn", "1", "--session", "s"]).error("stale_file"));
    let message = "later changes of c.txt overlap with the turn of change 1: it was moved or deleted since";
    assert_eq!((&error["path"], &error["message"]), (&json!("c.txt"), &json!(message)));
    ws.lbx(&["undo", "--session", "s"]).ok();
    ws.lbx(&["undo", "--turn", "1", "--session", "s"]).ok();
    ws.holds("a.txt", LINES.replace('6', "six"));
}

#[test]
fn refusal_of_an_undone_turn_names_no_other_session() {
    let ws = two_turns();
    prompt(&ws, "other", "a prompt");
    edit(&ws, "other", "b.txt", "one", "eins");
    for turn in ["0", "3", "4"] {
        let error = ws.unchanged(|| ws.lbx(&["undo", "--turn", turn, "--session", "s"]).error("stale_file"));
        assert!(!error.to_string().contains("session other"), "{error}");
        let advice = "Undo this session's later changes of b.txt first: `log` with session s lists them. Or edit the file.";
        assert_eq!(error["suggested_action"], advice);
    }
    let error = ws.lbx(&["undo", "--turn", "--session", "third"]).error("not_found");
    assert!(!error.to_string().contains("session s") && !error.to_string().contains("other"), "{error}");
    let error = ws.lbx(&["undo", "--turn", "4", "--session", "third"]).error("not_found");
    assert!(!error.to_string().contains("session s") && !error.to_string().contains("other"), "{error}");
}

#[test]
fn change_outside_every_turn_is_a_turn_of_its_own() {
    let ws = two_turns();
    edit(&ws, "s", "b.txt", "9", "nine");
    edit(&ws, "s", "b.txt", "5", "five");
    assert_eq!(numbers(&ws.lbx(&["undo", "--turn", "--session", "s"]).ok()["undone"]), [6]);
    assert_eq!(numbers(&ws.lbx(&["undo", "--turn", "--session", "s"]).ok()["undone"]), [5]);
    assert_eq!(numbers(&ws.lbx(&["undo", "--turn", "--session", "s"]).ok()["undone"]), [4, 3]);
}

#[test]
fn turn_goes_with_no_other_choice_of_changes() {
    let ws = two_turns();
    for (request, field) in [
        (json!({ "turn": 1, "steps": 2 }), "steps"),
        (json!({ "turn": 1, "path": "a.txt" }), "path"),
        (json!({ "turn": 1, "seq": 1 }), "turn"),
    ] {
        let error = ws.unchanged(|| ws.json("undo", &request).error("invalid_request"));
        assert_eq!(error["details"]["field"], field, "{request}");
    }
    let error = ws.lbx(&["undo", "--turn", "77", "--session", "s"]).error("not_found");
    assert_eq!(error["details"]["field"], "turn");
    let data = ws.unchanged(|| ws.lbx(&["undo", "--turn", "--dry-run", "--session", "s"]).ok());
    assert_eq!(numbers(&data["undone"]), [4, 3]);
}

#[test]
fn gc_removes_the_turns_of_a_session_without_history() {
    let ws = two_turns();
    prompt(&ws, "idle", "nothing follows");
    let (turns, idle) = (ws.path(&state("turns/s")), ws.path(&state("turns/idle")));
    ws.lbx(&["gc"]).ok();
    assert!(turns.exists() && idle.exists());
    ws.lbx(&["doctor"]).success();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let planned = ws.unchanged(|| ws.lbx(&["gc", "--keep-days", "0", "--dry-run"]).ok());
    assert!(turns.exists());
    let data = ws.lbx(&["gc", "--keep-days", "0"]).ok();
    assert_eq!(planned["removed"], data["removed"]);
    assert!(!turns.exists() && !idle.exists());
}

#[test]
fn prompt_becomes_a_title_only_if_the_user_says_so() {
    let ws = Workspace::with(&[("a.txt", LINES)]);
    ws.write(".lbx/config.toml", "guard.titles = true\n");
    let title = |ws: &Workspace| {
        let turns: Value = serde_json::from_slice(&ws.read_bytes(&state("turns/s"))).unwrap();
        turns.as_array().unwrap().last().unwrap()["title"].clone()
    };
    prompt(&ws, "s", "one");
    assert_eq!(title(&ws), Value::Null);
    ws.write(".lbx/config.toml", "");
    ws.user_policy(&format!("{LOOSEN}guard.titles = true\n"));
    let long = "ä".repeat(201);
    prompt(&ws, "s", &long);
    assert_eq!(title(&ws), long.chars().take(200).collect::<String>());
}

#[test]
fn log_lists_the_turns_of_all_sessions_newest_first() {
    let ws = two_turns();
    edit(&ws, "other", "b.txt", "9", "nine");
    ws.lbx(&["undo", "--turn", "1", "--session", "s"]).ok();
    let data = ws.lbx(&["log", "--turns"]).ok();
    let turns = data["turns"].as_array().unwrap();
    let of = |session: &str| turns.iter().filter(|turn| turn["session"] == session).collect::<Vec<_>>();
    let [second, first] = of("s")[..] else { panic!("{data:#}") };
    let facts =
        |turn: &Value, names: &[&str]| names.iter().map(|name| turn[*name].clone()).collect::<Vec<_>>();
    let counts = ["first", "last", "changes", "files", "insertions", "deletions"];
    assert_eq!(json!(facts(first, &counts)), json!([1, 2, 2, 2, 2, 1]));
    assert_eq!(json!(facts(second, &counts)), json!([3, 4, 2, 2, 2, 2]));
    assert_eq!(json!(facts(first, &["title", "undone"])), json!(["first prompt", true]));
    assert_eq!(json!(facts(second, &["title", "undone"])), json!(["second prompt", false]));
    let [other] = of("other")[..] else { panic!("{data:#}") };
    assert_eq!(json!(facts(other, &["first", "last", "title", "undone"])), json!([1, 1, null, false]));
    assert!(other["time"].as_str().unwrap().ends_with('Z'), "{other}");
    let text = ws.lbx(&["log", "--turns", "--session", "s", "--text"]).stdout_text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with(" s #3-4 2 changes, 2 files (+2 -2) second prompt"), "{text}");
    assert!(lines[1].ends_with(" s #1-2 2 changes, 2 files (+2 -1) [undone] first prompt"), "{text}");
}

#[test]
fn log_of_turns_is_paged_and_bounded() {
    let ws = two_turns();
    edit(&ws, "s", "b.txt", "5", "five");
    let page = |arguments: &[&str]| {
        let all = [&["log", "--turns", "--session", "s"], arguments].concat();
        let data = ws.lbx(&all).ok();
        let firsts = data["turns"].as_array().unwrap().iter().map(|turn| turn["first"].as_u64().unwrap());
        (firsts.collect::<Vec<_>>(), data["next_offset"].as_u64())
    };
    assert_eq!(page(&[]), (vec![5, 3, 1], None));
    assert_eq!(page(&["-n", "1"]), (vec![5], Some(1)));
    assert_eq!(page(&["-n", "1", "--offset", "1"]), (vec![3], Some(2)));
    assert_eq!(page(&["--offset", "2"]), (vec![1], None));
    assert_eq!(page(&["--max-bytes", "1"]), (vec![5], Some(1)));
    let error = ws.json("log", &json!({ "turns": true, "path": "a.txt" })).error("invalid_request");
    assert_eq!(error["details"]["field"], "path");
    let error = ws.lbx(&["log", "--turns", "--session", "nobody"]).error("not_found");
    assert!(error["message"].as_str().unwrap().contains("nobody"), "{error}");
}

#[test]
fn log_counts_the_undone_changes_of_a_turn() {
    let ws = two_turns();
    ws.lbx(&["undo", "--session", "s"]).ok();
    let data = ws.lbx(&["log", "--turns", "--session", "s"]).ok();
    assert_eq!(
        (&data["turns"][0]["undone"], &data["turns"][0]["undone_changes"]),
        (&json!(false), &json!(1))
    );
    ws.lbx(&["rewind", "--turn", "1", "--session", "s", "--yes"]).ok();
    let data = ws.lbx(&["log", "--turns", "--session", "s"]).ok();
    let undone: Vec<&Value> = data["turns"].as_array().unwrap().iter().map(|turn| &turn["undone"]).collect();
    assert_eq!(undone, [false, true, true], "{data:#}");
    // No command undoes them again.
    let data = ws.lbx(&["review", "--session", "s"]).ok();
    let turns = data["turns"].as_array().unwrap();
    assert!(turns.len() == 2 && turns.iter().all(|turn| turn["undo"].is_null()), "{data:#}");
}

#[test]
fn review_groups_changes_by_turn() {
    let ws = two_turns();
    edit(&ws, "s", "b.txt", "5", "five");
    let data = ws.lbx(&["review", "--session", "s"]).ok();
    let turns: Vec<&Value> =
        data["changes"].as_array().unwrap().iter().map(|change| &change["turn"]).collect();
    assert_eq!(turns, [&json!(1), &json!(1), &json!(3), &json!(3), &Value::Null]);
    let undo = "lbx undo --session s --turn 3";
    assert_eq!(data["turns"][1], json!({ "turn": 3, "title": "second prompt", "undo": undo }));
    let text = ws.lbx(&["review", "--session", "s", "--stat", "--text"]).stdout_text();
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("turn ")).collect();
    assert_eq!(headings, ["turn 1: first prompt", "turn 3: second prompt"]);
    ws.lbx(&["review", "--session", "s", "--html", "page.html"]).ok();
    assert!(String::from_utf8(ws.read_bytes("page.html")).unwrap().contains(undo));
}

#[test]
fn rewind_goes_back_to_before_a_turn() {
    let ws = two_turns();
    edit(&ws, "other", "b.txt", "9", "nine");
    let data = ws.unchanged(|| ws.lbx(&["rewind", "--turn", "4", "--session", "s"]).ok());
    assert_eq!(
        (numbers(&data["undone"]), &data["turn"], &data["session"]),
        (vec![4, 3], &json!(3), &json!("s"))
    );
    assert_eq!(data["conflicts"][0]["path"], "b.txt");
    let data = ws.lbx(&["rewind", "--turn", "4", "--session", "s", "--merge", "--yes"]).ok();
    assert_eq!(data.get("id"), None);
    ws.holds("a.txt", LINES.replace('2', "two"));
    ws.holds("b.txt", LINES.replace('9', "nine"));
    let error = ws.lbx(&["rewind", "--turn", "4", "--session", "third"]).error("not_found");
    assert_eq!(error["message"], "session third has no change 4: it has made none");
    let error = ws.json("rewind", &json!({ "session": "s" })).error("invalid_request");
    assert_eq!(error["details"]["field"], "id");
}

#[test]
fn blame_names_the_turn_of_a_line() {
    let ws = two_turns();
    edit(&ws, "s", "a.txt", "9", "nine");
    ws.lbx(&["undo", "--turn", "1", "--session", "s"]).ok();
    ws.lbx(&["redo", "--turn", "--session", "s"]).ok();
    let data = ws.lbx(&["blame", "a.txt"]).ok();
    let ranges = data["ranges"].as_array().unwrap();
    let at = |line: u64| ranges.iter().find(|range| range["start_line"] == line).unwrap();
    let turn = |line| (at(line)["turn"].clone(), at(line)["title"].clone());
    assert_eq!(turn(1), (Value::Null, Value::Null));
    assert_eq!(turn(2), (json!(1), json!("first prompt")));
    assert_eq!(turn(6), (json!(3), json!("second prompt")));
    assert_eq!(turn(9), (json!(5), Value::Null));
    let text = ws.lbx(&["blame", "a.txt", "--text"]).stdout_text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[5].contains(" s edit #3 turn 3 \"second prompt\" "), "{text}");
    assert!(lines[8].contains(" s edit #5 20"), "{text}");
}
