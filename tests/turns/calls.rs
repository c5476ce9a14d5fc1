//! The changes that answer one prompt are a turn, which is undone, listed and shown as a whole.

use serde_json::{Value, json};

use crate::common::{LOOSEN, Workspace, state};

/// Ten lines, of which edits can replace some.
const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

/// Sends an event of a client's hooks.
fn event(ws: &Workspace, session: &str, event: &Value) {
    let hook = ["hook", "claude-code", "--session", session];
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
