//! A guard denies, records and takes back.

use serde_json::{Value, json};

use crate::common::Workspace;
use crate::player::{PATIENCE, Player, shell, write};

/// Files of a small project, one of which git ignores.
const FILES: [(&str, &str); 4] =
    [("a.txt", "one\ntwo\n"), ("d/b.txt", "x\n"), (".gitignore", ".env\n"), (".env", "SECRET=1\n")];

/// Returns tool and session of the newest snapshots, newest first.
fn log(ws: &Workspace) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let log = ws.lbx(&["log"]).ok();
    log["snapshots"].as_array().unwrap().iter().map(|it| (text(&it["tool"]), text(&it["session"]))).collect()
}

#[test]
fn edit_of_an_unread_or_changed_file_is_denied_with_the_cure() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    let why = agent.edit("a.txt", "two", "TWO").unwrap_err();
    assert!(why.contains("refusing to edit a.txt") && why.contains("Read a.txt with Read"), "{why}");
    ws.holds("a.txt", "one\ntwo\n");
    agent.read("a.txt");
    write(&ws.path("a.txt"), "one\nnew\ntwo\n");
    let why = agent.edit("a.txt", "two", "TWO").unwrap_err();
    assert!(why.contains("a.txt has changed since it was read") && why.contains("+new"), "{why}");
    agent.read("a.txt");
    agent.edit("a.txt", "two", "TWO").unwrap();
    // The own edit counts as seen; a whole new file needs no read.
    agent.edit("a.txt", "one", "ONE").unwrap();
    agent.write("n/m/c.txt", "new\n").unwrap();
    ws.holds("a.txt", "ONE\nnew\nTWO\n");
    let of_agent = |tool: &str| (tool.to_owned(), "s".to_owned());
    assert_eq!(log(&ws)[..3], [of_agent("Write"), of_agent("Edit"), of_agent("Edit")]);
}

#[test]
fn write_over_a_partly_read_file_is_denied() {
    let ws = Workspace::with(&[("a.txt", "1\n2\n3\n4\n")]);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    let input = json!({ "file_path": ws.path("a.txt"), "offset": 1, "limit": 2 });
    agent.call("Read", &input, || {}).unwrap();
    let why = agent.write("a.txt", "all new\n").unwrap_err();
    assert!(why.contains("lines 3-4 were not shown") || why.contains("not shown in this session"), "{why}");
    // The lines of the answer count, whatever the client says of their number.
    for file in [json!({ "content": "1\n" }), json!({ "content": "3", "startLine": 3, "numLines": 2000 })] {
        let open = agent.before("Read", &json!({ "file_path": ws.path("a.txt") })).unwrap();
        agent.after(&open.saying(&json!({ "file": file })));
        agent.write("a.txt", "all new\n").unwrap_err();
    }
    agent.read("a.txt");
    agent.write("a.txt", "all new\n").unwrap();
}

#[test]
fn read_that_showed_other_bytes_counts_for_nothing() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    let open = agent.before("Read", &json!({ "file_path": ws.path("a.txt") })).unwrap();
    let file = json!({ "content": "one\n2\n", "startLine": 1, "numLines": 2 });
    agent.after(&open.saying(&json!({ "file": file })));
    agent.edit("a.txt", "two", "TWO").unwrap_err();
    // A failed read showed nothing.
    let open = agent.before("Read", &json!({ "file_path": ws.path("a.txt") })).unwrap();
    agent.event("PostToolUseFailure", &open.fields());
    agent.edit("a.txt", "two", "TWO").unwrap_err();
}

#[test]
fn broken_policy_file_denies_calls_until_it_is_mended() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.read("a.txt");
    ws.write(".lbx/config.toml", "protect = [\"a.txt\"]\nnope = 1\n");
    let command = agent.before("Bash", &json!({ "command": "touch x" }));
    for why in [agent.edit("a.txt", "two", "2").unwrap_err(), command.err().unwrap()] {
        assert!(why.contains(".lbx/config.toml:2:1") && why.contains("the policy cannot be read"), "{why}");
    }
    ws.write(".lbx/config.toml", "protect = [\"b.txt\"]\n");
    agent.edit("a.txt", "two", "2").unwrap();
}

#[test]
fn protected_path_is_denied_and_outside_path_is_left_alone() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    let why = agent.write(".git/hooks/post-checkout", "#!/bin/sh\n").unwrap_err();
    assert!(why.contains("git"), "{why}");
    assert!(!ws.path(".git/hooks/post-checkout").exists());
    let outside = ws.outside.join("notes.txt");
    agent.call("Write", &json!({ "file_path": outside, "content": "x" }), || write(&outside, "x")).unwrap();
    assert_eq!(log(&ws), []);
}

#[test]
fn policy_decides_what_the_gate_does() {
    let ws = Workspace::with(&FILES);
    ws.write(".lbx/config.toml", "[guard]\ngate = \"warn\"\n");
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    let open =
        json!({ "tool_name": "Edit", "tool_input": { "file_path": ws.path("a.txt") }, "tool_use_id": "c" });
    let said = agent.event("PreToolUse", &open);
    let context = said["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(context.contains("refusing to edit a.txt"), "{said}");
    ws.write(".lbx/config.toml", "[guard]\ngate = \"off\"\n");
    assert_eq!(agent.event("PreToolUse", &open), Value::Null);
    agent.edit("a.txt", "two", "TWO").unwrap();
    assert_eq!(log(&ws)[0].0, "Edit");
}

#[test]
fn command_is_recorded_with_ignored_files_and_folders() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.bash("rm .env && sed -i s/x/y/ d/b.txt && mkdir empty && mv a.txt c.txt && chmod +x c.txt");
    let line = agent.stop().unwrap();
    assert!(line.contains("files, +") && line.contains("undo: lbx undo --turn"), "{line}");
    assert_eq!(log(&ws)[0], ("bash".to_owned(), "s".to_owned()));
    // The secret is in no snapshot.
    assert!(!ws.git(&["log", "-p", "lbx-snapshots"]).contains("SECRET"));
    let before = ws.copy();
    ws.lbx(&["undo", "--session", "s"]).ok();
    ws.holds(".env", "SECRET=1\n");
    ws.holds("d/b.txt", "x\n");
    ws.holds("a.txt", "one\ntwo\n");
    assert!(!ws.path("empty").exists() && !ws.path("c.txt").exists());
    ws.lbx(&["redo", "--session", "s"]).ok();
    assert_eq!(ws.mode("c.txt") & 0o111, before.mode("c.txt") & 0o111);
    assert!(!ws.path(".env").exists());
}

#[test]
fn own_edits_between_turns_stay_the_users() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("one");
    agent.bash("echo agent > made.txt");
    agent.stop();
    write(&ws.path("a.txt"), "by hand\n");
    agent.prompt("two");
    agent.bash("echo agent >> made.txt");
    agent.stop();
    ws.lbx(&["undo", "--session", "s", "--steps", "2"]).ok();
    ws.holds("a.txt", "by hand\n");
    assert!(!ws.path("made.txt").exists());
    assert!(log(&ws).iter().any(|(tool, _)| tool == "external"), "{:?}", log(&ws));
}

#[test]
fn commands_at_once_are_recorded_when_the_last_has_ended() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    let one = agent.before("Bash", &json!({ "command": "one" })).unwrap();
    let two = agent.before("Bash", &json!({ "command": "two" })).unwrap();
    write(&ws.path("one.txt"), "1\n");
    agent.after(&one);
    write(&ws.path("two.txt"), "2\n");
    agent.after(&two);
    assert_eq!(log(&ws).len(), 1);
    ws.lbx(&["undo", "--session", "s"]).ok();
    assert!(!ws.path("one.txt").exists() && !ws.path("two.txt").exists());
}

#[test]
fn background_command_is_recorded_at_the_end_of_the_turn() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    let open = agent.before("Bash", &json!({ "command": "serve &", "run_in_background": true })).unwrap();
    agent.after(&open);
    write(&ws.path("late.txt"), "late\n");
    agent.bash("echo later > later.txt");
    assert_eq!(log(&ws), []);
    assert!(agent.stop().unwrap().starts_with("2 files"), "{:?}", log(&ws));
    ws.lbx(&["undo", "--session", "s"]).ok();
    assert!(!ws.path("late.txt").exists() && !ws.path("later.txt").exists());
}

#[test]
fn change_of_a_killed_client_is_recorded_with_its_next_event() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.read("a.txt");
    drop(agent.before("Edit", &json!({ "file_path": ws.path("a.txt") })).unwrap());
    write(&ws.path("a.txt"), "half\n");
    drop(agent.before("Bash", &json!({ "command": "x" })).unwrap());
    shell(&ws.root, "rm .env");
    agent.event("SessionStart", &json!({ "source": "resume" }));
    agent.prompt("next");
    assert_eq!(log(&ws)[0], ("Edit".to_owned(), "s".to_owned()));
    ws.lbx(&["undo", "--session", "s", "--steps", "2"]).ok();
    ws.holds("a.txt", "one\ntwo\n");
    ws.holds(".env", "SECRET=1\n");
}

#[test]
fn event_without_the_one_before_it_is_recorded_from_the_snapshots() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.write("n.txt", "1\n").unwrap();
    write(&ws.path("n.txt"), "2\n");
    let fields =
        json!({ "tool_name": "Write", "tool_input": { "file_path": ws.path("n.txt") }, "tool_use_id": "?" });
    agent.event("PostToolUse", &fields);
    assert_eq!(log(&ws).len(), 2);
    ws.lbx(&["undo", "--session", "s"]).ok();
    ws.holds("n.txt", "1\n");
    // Nobody knows if a file was there that no snapshot has: an undo leaves it alone.
    write(&ws.path(".env"), "SECRET=2\n");
    let fields =
        json!({ "tool_name": "Write", "tool_input": { "file_path": ws.path(".env") }, "tool_use_id": "!" });
    agent.event("PostToolUse", &fields);
    ws.lbx(&["undo", "--session", "s"]).warned("not restored, because no copy exists: .env");
    ws.holds(".env", "SECRET=2\n");
}

#[test]
fn event_without_the_one_before_it_keeps_the_line_endings() {
    let ws = Workspace::with(&[(".gitattributes", "* text=auto\n"), ("dos.txt", "1\r\n2\r\n3\r\n")]);
    ws.lbx(&["snapshot"]).ok();
    let agent = Player::new(&ws, "s");
    write(&ws.path("dos.txt"), "one\r\n2\r\n3\r\n");
    let fields =
        json!({ "tool_name": "Edit", "tool_input": { "file_path": ws.path("dos.txt") }, "tool_use_id": "?" });
    agent.event("PostToolUse", &fields);
    ws.lbx(&["undo", "--session", "s"]).ok();
    ws.holds("dos.txt", "1\r\n2\r\n3\r\n");
}

#[test]
fn edits_of_an_ignored_file_at_once_are_undone_with_their_turn() {
    let ws = Workspace::with(&[(".gitignore", "*.log\n")]);
    ws.write("o.log", "1\n2\n3\n");
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.read("o.log");
    let input = json!({ "file_path": ws.path("o.log") });
    let [one, two] = [1, 2].map(|_| agent.before("Edit", &input).unwrap());
    write(&ws.path("o.log"), "one\n2\n3\n");
    agent.after(&one);
    write(&ws.path("o.log"), "one\n2\nthree\n");
    agent.after(&two);
    ws.lbx(&["undo", "--turn", "2", "--session", "s"]).ok();
    ws.holds("o.log", "1\n2\n3\n");
}

#[test]
fn edit_whose_end_is_not_reported_is_not_there_before_the_next_command() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.read("a.txt");
    let late = agent.before("Edit", &json!({ "file_path": ws.path("a.txt") })).unwrap();
    write(&ws.path("a.txt"), "one\n2\n");
    agent.bash("echo three >> a.txt");
    assert_eq!(log(&ws), [("bash".to_owned(), "s".to_owned()), ("Edit".to_owned(), "s".to_owned())]);
    agent.after(&late);
    assert_eq!(log(&ws).len(), 2);
    ws.lbx(&["undo", "--turn", "2", "--session", "s"]).ok();
    ws.holds("a.txt", "one\ntwo\n");
}

#[test]
fn turn_that_goes_on_after_its_end_is_one() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.write("one.txt", "1\n").unwrap();
    agent.stop();
    // Another hook of the client let it continue.
    agent.write("two.txt", "2\n").unwrap();
    agent.stop();
    ws.lbx(&["undo", "--turn", "2", "--session", "s"]).ok();
    assert!(!ws.path("one.txt").exists() && !ws.path("two.txt").exists());
}

#[test]
fn empty_file_counts_as_read_after_a_read() {
    let ws = Workspace::with(&[("empty.txt", "")]);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.write("empty.txt", "new\n").unwrap_err();
    agent.read("empty.txt");
    agent.write("empty.txt", "new\n").unwrap();
    ws.lbx(&["undo", "--session", "s"]).ok();
    ws.holds("empty.txt", "");
}

#[test]
fn file_that_another_agent_is_changing_is_denied() {
    let ws = Workspace::with(&[("a.txt", "one\n-\n-\n-\ntwo\n")]);
    let (mut one, mut two) = (Player::new(&ws, "one"), Player::new(&ws, "two"));
    for agent in [&mut one, &mut two] {
        agent.prompt("go");
        agent.read("a.txt");
    }
    let open = one.before("Edit", &json!({ "file_path": ws.path("a.txt") })).unwrap();
    let why = two.edit("a.txt", "two", "TWO").unwrap_err();
    assert!(why.contains("session one is changing a.txt now"), "{why}");
    write(&ws.path("a.txt"), "1\n-\n-\n-\ntwo\n");
    one.after(&open);
    assert!(two.edit("a.txt", "two", "TWO").unwrap_err().contains("has changed since it was read"));
    two.read("a.txt");
    two.edit("a.txt", "two", "TWO").unwrap();
    // Each takes back its own.
    ws.lbx(&["undo", "--session", "one", "--merge"]).ok();
    ws.holds("a.txt", "one\n-\n-\n-\nTWO\n");
}

#[test]
fn changes_of_overlapping_commands_are_recorded_as_external() {
    let ws = Workspace::with(&FILES);
    let (mut one, mut two) = (Player::new(&ws, "one"), Player::new(&ws, "two"));
    one.prompt("go");
    two.prompt("go");
    let first = one.before("Bash", &json!({ "command": "x" })).unwrap();
    let second = two.before("Bash", &json!({ "command": "y" })).unwrap();
    write(&ws.path("who.txt"), "?\n");
    // A file tool says what it wrote, meanwhile.
    one.write("own.txt", "mine\n").unwrap();
    let said = one.after(&first);
    let context = said["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(context.contains("1 file changed while another session's command ran"), "{said}");
    two.after(&second);
    let log = log(&ws);
    assert_eq!(log.iter().filter(|(tool, _)| tool == "external").count(), 1, "{log:?}");
    assert!(log.contains(&("Write".to_owned(), "one".to_owned())), "{log:?}");
    assert!(!log.iter().any(|(tool, _)| tool == "bash"), "{log:?}");
}

#[test]
fn subagent_has_a_session_of_its_own() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.read("a.txt");
    let edit = json!({
        "tool_name": "Edit", "tool_input": { "file_path": ws.path("a.txt") }, "tool_use_id": "c", "agent_id": "sub",
    });
    let said = agent.event("PreToolUse", &edit);
    assert_eq!(said["hookSpecificOutput"]["permissionDecision"], "deny", "{said}");
    let new = json!({ "file_path": ws.path("new.txt"), "content": "x\n" });
    let fields = json!({ "tool_name": "Write", "tool_input": new, "tool_use_id": "d", "agent_id": "sub" });
    agent.event("PreToolUse", &fields);
    write(&ws.path("new.txt"), "x\n");
    agent.event("PostToolUse", &fields);
    let line = agent.event("SubagentStop", &json!({ "agent_id": "sub" }));
    assert!(line["systemMessage"].as_str().unwrap().starts_with("1 file, +1 -0"), "{line}");
    let (_, session) = log(&ws)[0].clone();
    assert!(session.starts_with("s.") && session.len() > 2, "{session}");
    // The longest name of a session has no room for a part of its own.
    let agent = Player::new(&ws, &"x".repeat(100));
    let said = agent.event("PreToolUse", &edit);
    assert_eq!(said["hookSpecificOutput"]["permissionDecision"], "deny", "{said}");
}

#[test]
fn wrapped_command_runs_by_lbx() {
    let ws = Workspace::with(&FILES);
    ws.write(".lbx/config.toml", "[guard]\nbash = \"wrap\"\n");
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    let input = json!({ "command": "echo 'it''s' > made.txt; exit 3", "timeout": 5000, "description": "d" });
    let fields = json!({ "tool_name": "Bash", "tool_input": input, "tool_use_id": "c" });
    let said = agent.event("PreToolUse", &fields);
    let changed = &said["hookSpecificOutput"]["updatedInput"];
    assert_eq!((&changed["timeout"], &changed["description"]), (&json!(5000), &json!("d")), "{said}");
    let command = changed["command"].as_str().unwrap();
    let mut shell = std::process::Command::new("sh");
    ws.surround(&mut shell);
    let status = shell.args(["-c", command]).status().unwrap();
    assert_eq!(status.code(), Some(3));
    agent.event("PostToolUse", &json!({ "tool_name": "Bash", "tool_input": changed, "tool_use_id": "c" }));
    ws.holds("made.txt", "its\n");
    assert_eq!(log(&ws)[0], ("bash".to_owned(), "s".to_owned()));
    // Without a guard of commands, nothing is looked at.
    ws.write(".lbx/config.toml", "[guard]\nbash = \"off\"\n");
    let before = log(&ws);
    agent.bash("echo unseen > unseen.txt");
    assert_eq!(log(&ws), before);
}

#[test]
fn failing_hook_never_blocks_unless_the_policy_says_so() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.read("a.txt");
    let answer = ws.lbx_stdin(&["hook", "claude-code"], "no JSON");
    assert_eq!((answer.status(), answer.stdout_text()), (0, String::new()));
    agent.is_hasty = true;
    // The lock is held for longer than a hook waits.
    let lock = std::fs::File::open(ws.path(".lbx/lock")).unwrap();
    fs2::FileExt::lock_exclusive(&lock).unwrap();
    let open =
        json!({ "tool_name": "Edit", "tool_input": { "file_path": ws.path("a.txt") }, "tool_use_id": "c" });
    ws.write(".lbx/config.toml", "[guard]\ntimeout_ms = 50\n");
    let said = agent.event("PreToolUse", &open);
    let line = said["systemMessage"].as_str().unwrap();
    assert!(line.contains("could not check or record") && line.contains("said once"), "{said}");
    assert_eq!(agent.event("PreToolUse", &open), Value::Null);
    ws.write(".lbx/config.toml", "[guard]\ntimeout_ms = 50\non_failure = \"closed\"\n");
    let said = agent.event("PreToolUse", &open);
    assert_eq!(said["hookSpecificOutput"]["permissionDecision"], "deny", "{said}");
    drop(lock);
    let said: Value =
        serde_json::from_str(&ws.lbx_stdin(&["hook", "claude-code"], "no JSON").stdout_text()).unwrap();
    assert_eq!(said["hookSpecificOutput"]["permissionDecision"], "deny", "{said}");
}

#[test]
fn half_of_a_character_does_not_let_a_call_through() {
    let ws = Workspace::with(&FILES);
    for content in [r"\ud83d", r"\udc00 x", r"\ud83d\ud83d\ude00", r"\\ud83d \ud83d\n"] {
        let event = json!({ "hook_event_name": "PreToolUse", "tool_name": "Write", "tool_use_id": "c",
            "tool_input": { "file_path": ws.path("a.txt"), "content": "CONTENT" }, "session_id": "x" });
        let event = event.to_string().replace("CONTENT", content);
        let said = ws.lbx_stdin(&["hook", "claude-code"], &event).stdout_text();
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["hookSpecificOutput"]["permissionDecision"], "deny", "{content}: {said}");
    }
}

#[test]
fn hook_in_a_home_folder_makes_no_state() {
    let ws = Workspace::bare(&[]);
    let event = json!({ "hook_event_name": "PreToolUse", "tool_name": "Write", "tool_use_id": "c",
        "tool_input": { "file_path": ws.path("a.txt") }, "session_id": "x" });
    let call = ws.call(&["hook", "claude-code"]).env("HOME", &ws.root).stdin(event.to_string());
    assert_eq!(call.run().status(), 0);
    assert!(!ws.path(".lbx").exists());
}

#[test]
fn doctor_says_if_a_client_sends_its_events() {
    let ws = Workspace::with(&FILES);
    ws.lbx(&["init", "claude-code", "--guard", "--no-server"]).ok();
    let hooks = |path: &str| -> Vec<(String, String)> {
        let data = ws.call(&["doctor"]).env("PATH", path).run().ok();
        let found = data["findings"].as_array().unwrap().iter().filter(|found| found["check"] == "hooks");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        found.map(|found| (text(&found["level"]), text(&found["message"]))).collect()
    };
    let path = crate::common::PATH_FIXED;
    let [(level, message)] = &hooks(path)[..] else { panic!("one finding") };
    assert_eq!(level, "notice");
    assert_eq!(message, "claude-code: .claude/settings.json has the hooks, but no event came yet");
    let remedies = ws.lbx(&["doctor"]).ok().to_string();
    assert!(remedies.contains("Start the client here, and trust the folder and its hooks"), "{remedies}");
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.edit("a.txt", "two", "TWO").unwrap_err();
    let [(level, sent), (_, newest)] = &hooks(path)[..] else { panic!("two findings") };
    assert!(level == "ok" && sent.contains("and sent an event at "), "{sent}");
    assert!(newest.contains(" claude-code PreToolUse Edit denied ("), "{newest}");
    // An old client is found by its package, without being started.
    let program = ws.outside.join("claude/bin/claude");
    write(&program, "#!/bin/sh\ntouch started\n");
    write(&ws.outside.join("claude/package.json"), "{\"version\": \"2.1.100\"}");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let found = hooks(&path);
    let old = found.iter().find(|(level, _)| level == "problem").unwrap_or_else(|| panic!("{found:?}"));
    assert_eq!(old.1, "claude-code is version 2.1.100, which does not send all events");
    let remedies = ws.call(&["doctor"]).env("PATH", &path).run().ok().to_string();
    assert!(remedies.contains("Update it to 2.1.196 or later."), "{remedies}");
    assert!(!ws.path("started").exists());
}

#[test]
fn guard_is_set_up_beside_own_hooks_and_removed_without_a_trace() {
    let own = "{\n  // mine\n  \"hooks\": {\n    \"PreToolUse\": [{ \"matcher\": \"Bash\", \"hooks\": [{ \"type\": \"command\", \"command\": \"mine\" }] }]\n  }\n}\n";
    for client in [
        "claude-code",
        "codex",
        "gemini",
        "cursor",
        "vscode",
        "copilot-cli",
        "qwen-code",
        "antigravity",
        "opencode",
        "pi",
    ] {
        let ws = Workspace::with(&[(".claude/settings.json", own)]);
        let before = ws.tree();
        ws.lbx(&["init", client]).ok();
        let first = ws.lbx(&["init", client, "--guard"]).ok();
        assert!(!first["files"].as_array().unwrap().is_empty(), "{client}");
        let again = ws.lbx(&["init", client, "--guard"]).ok();
        assert_eq!(again["files"], json!([]), "{client}");
        // Without the flag, the guard stays, and the hook for compactions does not come twice.
        assert_eq!(ws.lbx(&["init", client]).ok()["files"], json!([]), "{client}");
        let files: Vec<String> = ws.tree().keys().map(|path| path.display().to_string()).collect();
        for file in files.iter().filter(|file| ws.path(file).is_file()) {
            let text = String::from_utf8(ws.read_bytes(file)).unwrap();
            assert!(
                !(text.contains("lbx hook ") && text.contains("lbx session compact")),
                "{client}: {text}"
            );
        }
        ws.lbx(&["init", client, "--remove"]).ok();
        let kept = |tree: std::collections::BTreeMap<std::path::PathBuf, crate::common::Standing>| {
            tree.into_iter().filter(|(_, (kind, ..))| *kind == 'f').collect::<Vec<_>>()
        };
        assert_eq!(kept(ws.tree()), kept(before), "{client}");
    }
    let ws = Workspace::with(&[]);
    let call = ws.call(&["init", "codex", "--guard", "--no-server"]).env("PATH", ws.without_program());
    let text = call.run().ok()["text"].as_str().unwrap().to_owned();
    assert!(text.contains("put lbx on PATH, or the client cannot run its hooks"), "{text}");
    let error = ws.lbx(&["init", "zed", "--guard"]).error("invalid_request");
    assert_eq!(error["message"], "zed has no hooks that lbx knows");
}

#[test]
fn git_clean_and_a_formatter_are_taken_back_with_their_turn() {
    let ws = Workspace::with(&FILES);
    write(&ws.path("notes.txt"), "untracked\n");
    let mut agent = Player::new(&ws, "s");
    agent.prompt("one");
    agent.write("made.txt", "  made  \n").unwrap();
    agent.stop();
    agent.prompt("two");
    // As `prettier --write .` would.
    agent.bash("git clean -xdfq && find . -name '*.txt' -not -path './.*' | xargs sed -i 's/ *$//'");
    let line = agent.stop().unwrap();
    assert!(!ws.path(".env").exists() && !ws.path("notes.txt").exists(), "{line}");
    ws.lbx(&["undo", "--turn", "--session", "s"]).ok();
    ws.holds(".env", "SECRET=1\n");
    ws.holds("notes.txt", "untracked\n");
    ws.holds("made.txt", "  made  \n");
    // The state is there as well: the first turn can be undone, too.
    ws.lbx(&["undo", "--turn", "--session", "s"]).ok();
    assert!(!ws.path("made.txt").exists());
    ws.lbx(&["redo", "--turn", "--session", "s"]).ok();
    ws.holds("made.txt", "  made  \n");
}

#[test]
fn large_workspace_is_looked_at_once_a_turn_unless_two_agents_work() {
    let ws = Workspace::with(&FILES);
    ws.write(".lbx/config.toml", "[guard]\nfiles = 3\n");
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-qm", "policy"]);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.bash("echo 1 > one.txt");
    agent.write("own.txt", "own\n").unwrap();
    agent.bash("echo 2 > two.txt");
    assert_eq!(log(&ws).len(), 1, "{:?}", log(&ws));
    assert!(agent.stop().unwrap().starts_with("3 files, +3 -0"), "{:?}", log(&ws));
    assert_eq!(log(&ws)[0], ("bash".to_owned(), "s".to_owned()));
    ws.lbx(&["undo", "--turn", "--session", "s"]).ok();
    assert!(!ws.path("one.txt").exists() && !ws.path("two.txt").exists() && !ws.path("own.txt").exists());
    // Of two agents each command is looked at, so that each keeps its own.
    let mut other = Player::new(&ws, "other");
    other.prompt("go");
    agent.prompt("go on");
    for (number, player) in [&mut agent, &mut other].into_iter().enumerate() {
        player.bash(&format!("echo {number} > by-{number}.txt"));
    }
    let of = |session: &str| ("bash".to_owned(), session.to_owned());
    assert_eq!(log(&ws)[..2], [of("other"), of("s")]);
    ws.lbx(&["undo", "--turn", "--session", "other"]).ok();
    assert!(ws.path("by-0.txt").exists() && !ws.path("by-1.txt").exists());
}

#[test]
fn gc_removes_calls_of_clients_that_never_came_back() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.read("a.txt");
    drop(agent.before("Edit", &json!({ "file_path": ws.path("a.txt") })).unwrap());
    drop(agent.before("Bash", &json!({ "command": "x" })).unwrap());
    let folder = ws.path(&crate::common::state("client-calls"));
    let count = || std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(count(), 3);
    ws.lbx(&["gc"]).ok();
    assert_eq!(count(), 3);
    shell(&ws.root, &format!("touch -d '40 days ago' {}/*", folder.display()));
    ws.lbx(&["gc"]).ok();
    assert_eq!(count(), 0);
}

#[test]
fn relative_path_counts_from_the_folder_of_the_client() {
    let ws = Workspace::with(&FILES);
    let folder = ws.path("d");
    let event = |name: &str| {
        let input = json!({ "file_path": "new.txt" });
        json!({ "hook_event_name": name, "session_id": "c", "prompt_id": "p", "cwd": folder, "tool_name": "Write",
            "tool_use_id": "1", "tool_input": input })
    };
    let send = |name: &str| {
        let call = ws.call(&["hook", "claude-code", "--session", "s"]).in_folder(&folder);
        assert_eq!(call.stdin(event(name).to_string()).run().status(), 0);
    };
    send("PreToolUse");
    write(&folder.join("new.txt"), "new\n");
    send("PostToolUse");
    assert_eq!(log(&ws), [("Write".to_owned(), "s".to_owned())]);
    ws.lbx(&["undo", "--session", "s"]).ok();
    assert!(!folder.join("new.txt").exists());
}

#[test]
fn reply_about_an_odd_name_is_json() {
    let ws = Workspace::with(&FILES);
    let event = json!({
        "hook_event_name": "PreToolUse", "tool_name": "Write", "tool_use_id": "1",
        "tool_input": {"file_path": ".git/\u{202e}x\u{85}", "content": "x"},
    });
    let said = ws.lbx_stdin(&["hook", "claude-code", "--session", "h"], event.to_string()).stdout_text();
    let reply: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(reply["hookSpecificOutput"]["permissionDecision"], "deny", "{said}");
}

#[test]
fn snapshot_during_a_clients_command_says_so() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    let open = agent.before("Bash", &json!({ "command": "make" })).unwrap();
    ws.lbx(&["snapshot"]).warned("a client's command is running: the snapshot has what it changed so far");
    agent.after(&open);
    ws.lbx(&["snapshot"]).ok();
}

#[test]
fn work_of_the_user_after_a_rejected_call_stays_the_users() {
    let cell = json!({ "new_source": "agent" });
    let edit = json!({ "old_string": "two", "new_string": "agent" });
    let whole = json!({ "content": "agent\n" });
    for (tool, file, input) in [
        ("Bash", None, json!({ "command": "make" })),
        ("NotebookEdit", Some("a.txt"), cell),
        ("Edit", Some("a.txt"), edit),
        ("Write", Some("new.txt"), whole),
    ] {
        let ws = Workspace::with(&FILES);
        let mut agent = Player::new(&ws, "s");
        agent.prompt("one");
        agent.read("a.txt");
        let mut input = input;
        if let Some(file) = file {
            input["file_path"] = json!(ws.path(file));
        }
        drop(agent.before(tool, &input).unwrap());
        write(&ws.path("a.txt"), "one\nmine\n");
        write(&ws.path("new.txt"), "mine\n");
        agent.prompt("two");
        agent.bash("echo agent > made.txt");
        agent.stop();
        let mut changes = log(&ws);
        changes.retain(|(tool, _)| tool != "baseline" && tool != "external");
        assert_eq!(changes, [("bash".to_owned(), "s".to_owned())], "{tool}");
        ws.lbx(&["undo", "--session", "s", "--steps", "9"]).ok();
        ws.holds("a.txt", "one\nmine\n");
        ws.holds("new.txt", "mine\n");
    }
}

#[test]
fn call_that_made_what_it_said_is_of_the_session_without_its_end() {
    let edits = json!([{ "old_string": "one", "new_string": "1" }, { "old_string": "2", "new_string": "3" }]);
    for (tool, file, input, text) in [
        ("Edit", "a.txt", json!({ "old_string": "two", "new_string": "2" }), "one\r\n2\r\n2\r\n"),
        (
            "Edit",
            "a.txt",
            json!({ "old_string": "2", "new_string": "x", "replace_all": true }),
            "one\r\ntwo\r\nx\r\n",
        ),
        ("MultiEdit", "a.txt", json!({ "edits": edits }), "1\r\ntwo\r\n3\r\n"),
        ("Write", "d/new.txt", json!({ "content": "new\n" }), "new\n"),
    ] {
        let ws = Workspace::with(&[("a.txt", "one\r\ntwo\r\n2\r\n")]);
        let mut agent = Player::new(&ws, "s");
        agent.prompt("one");
        agent.read("a.txt");
        let mut input = input;
        input["file_path"] = json!(ws.path(file));
        drop(agent.before(tool, &input).unwrap());
        write(&ws.path(file), text);
        agent.prompt("two");
        assert_eq!(log(&ws)[0], (tool.to_owned(), "s".to_owned()), "{tool}");
        ws.lbx(&["undo", "--session", "s"]).ok();
        ws.holds("a.txt", "one\r\ntwo\r\n2\r\n");
        assert!(!ws.path("d").exists());
    }
}

#[test]
fn command_that_ended_is_of_the_session_after_a_rejected_one() {
    let ws = Workspace::with(&FILES);
    ws.write(".lbx/config.toml", "[guard]\nfiles = 3\n");
    let mut agent = Player::new(&ws, "s");
    agent.prompt("one");
    agent.bash("echo agent > made.txt");
    drop(agent.before("Bash", &json!({ "command": "make" })).unwrap());
    agent.prompt("two");
    assert_eq!(log(&ws)[0], ("bash".to_owned(), "s".to_owned()));
    ws.lbx(&["undo", "--session", "s"]).ok();
    assert!(!ws.path("made.txt").exists());
}

#[test]
fn resumed_context_keeps_its_reads() {
    let ws = Workspace::with(&FILES);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.read("a.txt");
    agent.event("SessionStart", &json!({ "source": "resume" }));
    agent.edit("a.txt", "two", "TWO").unwrap();
    for source in ["compact", "clear", "startup"] {
        agent.read("a.txt");
        agent.event("SessionStart", &json!({ "source": source }));
        agent.edit("a.txt", "one", "ONE").unwrap_err();
    }
}

#[test]
fn hook_in_a_nested_repository_serves_its_project() {
    let ws = Workspace::with(&FILES);
    ws.git(&["init", "-q", "sub"]);
    ws.git(&["worktree", "add", "-q", "linked"]);
    let event = json!({ "hook_event_name": "PreToolUse", "session_id": "c", "tool_name": "Edit",
        "tool_use_id": "1", "tool_input": { "file_path": ws.path("a.txt") } });
    let said = |folder: &str, variable: &str, more: &[&str]| {
        let words = [&["hook", "claude-code"], more, &PATIENCE].concat();
        let call = ws.call(&words).in_folder(&ws.path(folder)).env(variable, &ws.root);
        call.stdin(event.to_string()).run().stdout_text()
    };
    for variable in ["CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "QWEN_PROJECT_DIR", "CURSOR_PROJECT_DIR"] {
        assert!(said("sub", variable, &[]).contains("a.txt: Read it first"), "{variable}");
    }
    assert_eq!(said("sub", "OTHER", &[]), "");
    let sub = ws.path("sub").display().to_string();
    assert_eq!(said("sub", "CLAUDE_PROJECT_DIR", &["--workspace", &sub]), "");
    assert_eq!(said("linked", "CLAUDE_PROJECT_DIR", &[]), "");
}

#[test]
fn call_that_was_noted_while_the_clock_was_ahead_has_ended() {
    let ws = Workspace::with(&FILES);
    let (mut one, mut two) = (Player::new(&ws, "one"), Player::new(&ws, "two"));
    for agent in [&mut one, &mut two] {
        agent.prompt("go");
        agent.read("a.txt");
    }
    drop(one.before("Edit", &json!({ "file_path": ws.path("a.txt") })).unwrap());
    two.edit("a.txt", "two", "TWO").unwrap_err();
    let folder = ws.path(&crate::common::state("client-calls"));
    for entry in std::fs::read_dir(folder).unwrap() {
        crate::common::change_state_file(&entry.unwrap().path(), |call| {
            call["time"] = json!(call["time"].as_u64().unwrap() + 90_000);
        });
    }
    two.edit("a.txt", "two", "TWO").unwrap();
}

#[test]
fn edit_that_would_fill_the_memory_is_only_noted() {
    let ws = Workspace::with(&[("a.txt", &format!("{}\n", "a".repeat(40)).repeat(1000))]);
    let mut agent = Player::new(&ws, "s");
    agent.prompt("go");
    agent.read("a.txt");
    let (old, new) = ("a", "b".repeat(8 << 20));
    let input =
        json!({ "file_path": ws.path("a.txt"), "old_string": old, "new_string": new, "replace_all": true });
    drop(agent.before("Edit", &input).unwrap());
    write(&ws.path("a.txt"), "small\n");
    agent.stop();
    assert_eq!(log(&ws)[0], ("Edit".to_owned(), "s".to_owned()));
}

#[test]
fn event_with_many_files_is_read_in_one_pass() {
    let ws = Workspace::with(&FILES);
    // A comparison of each path with all others would take minutes.
    let files: String = (0..200_000).map(|at| format!("*** Update File: f{at}\n@@\n-a\n+b\n")).collect();
    let event = json!({
        "hook_event_name": "PreToolUse", "tool_name": "apply_patch", "tool_use_id": "1",
        "tool_input": {"command": format!("*** Begin Patch\n{files}*** End Patch\n")},
    });
    let words = ["hook", "codex", "--session", "h", "--set", "guard.timeout_ms=600000"];
    assert_eq!(ws.lbx_stdin(&words, event.to_string()).status(), 0);
}
