//! Output for a person at a terminal, and unchanged output for programs.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::{LBX, PATH_FIXED, STATE_ID, Workspace, skipped};

/// Creates a workspace with changes of two sessions and of the developer.
fn workspace() -> Workspace {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\nthree\n"), ("b.txt", "b\n")]);
    for (session, path, old, new) in [("first", "a.txt", "two", "TWO"), ("second", "b.txt", "b", "B")] {
        ws.lbx(&["read", path, "--session", session]).ok();
        let request = json!({"path": path, "old_string": old, "new_string": new, "session": session, "why": format!("because of {new}\u{1b}[2J")});
        ws.json("edit", &request).ok();
    }
    ws.lbx(&["write", "b.txt", "--content", "x", "--session", "first"]).error("not_read");
    ws
}

/// Returns the output of a call on a terminal; `None`, with a message, if `script` is not installed.
fn on_a_terminal(ws: &Workspace, call: &str, variables: &[(&str, &str)]) -> Option<String> {
    typed_on_a_terminal(ws, call, variables, "")
}

/// Returns the output of a call on a terminal where the person types `typed`.
fn typed_on_a_terminal(
    ws: &Workspace,
    call: &str,
    variables: &[(&str, &str)],
    typed: &str,
) -> Option<String> {
    let keys = ws.outside.join("typed");
    std::fs::write(&keys, typed).unwrap();
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{LBX} {call}"), "/dev/null"]).current_dir(&ws.root).env_clear();
    command
        .env("PATH", PATH_FIXED)
        .env("HOME", ws.outside.join("home"))
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("LBX_STATE_ID", STATE_ID).env("TERM", "xterm");
    command.env("LBX_PAGER", "cat").envs(variables.iter().copied());
    command.stdin(std::fs::File::open(keys).unwrap());
    match command.output() {
        Ok(output) => Some(String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")),
        Err(error) => {
            skipped(format!("there is no script here ({error})"));
            None
        }
    }
}

#[test]
fn terminal_diff_is_colored_and_grouped_by_session() {
    let ws = workspace();
    let Some(diff) = on_a_terminal(&ws, "diff", &[]) else { return };
    let sessions: Vec<&str> = diff.lines().filter(|line| line.contains("session ")).collect();
    assert_eq!(sessions, ["\u{1b}[33msession second\u{1b}[m", "\u{1b}[33msession first\u{1b}[m"], "{diff}");
    assert!(diff.contains("\u{1b}[31m-two\u{1b}[m\n\u{1b}[32m+TWO\u{1b}[m\n"), "{diff}");
    let plain = on_a_terminal(&ws, "log", &[("NO_COLOR", "1")]).unwrap();
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    assert!(plain.contains(" second #1 edit: b.txt +1 -1\n    because of B"), "{plain}");
    let audit = on_a_terminal(&ws, "audit", &[("NO_COLOR", "1")]).unwrap();
    assert!(audit.contains(" first write b.txt not_read: refusing to overwrite b.txt"), "{audit}");
    let review = on_a_terminal(&ws, "review --session first", &[("NO_COLOR", "1")]).unwrap();
    assert!(review.starts_with("session first: 1 change, 1 file (+1 -1)"), "{review}");
    // The user chooses the pager.
    let paged = on_a_terminal(&ws, "log", &[("LBX_PAGER", "sed s/^/paged:/")]).unwrap();
    assert!(paged.lines().all(|line| line.starts_with("paged:")), "{paged}");
    let missing = on_a_terminal(&ws, "log", &[("LBX_PAGER", "no-such-pager")]).unwrap();
    assert!(missing.contains("edit: b.txt"), "{missing}");
}

#[test]
fn terminal_undo_asks_before_reverting_the_change_of_a_session() {
    let ws = workspace();
    let question = "undo: the last change is of session second: edit: b.txt (change 1). Go on? [y/N] ";
    for typed in ["n\n", "\n", ""] {
        let Some(said) = typed_on_a_terminal(&ws, "undo", &[], typed) else { return };
        assert!(said.contains(question) && said.contains("you did not agree; nothing was changed"), "{said}");
        ws.holds("b.txt", "B\n");
    }
    let said = typed_on_a_terminal(&ws, "undo a.txt", &[], "y\n").unwrap();
    assert!(
        said.contains("of session first: edit: a.txt (change 1)") && said.contains("undo: edit"),
        "{said}"
    );
    ws.holds("a.txt", "one\ntwo\nthree\n");
    let said = typed_on_a_terminal(&ws, "undo", &[], "y\n").unwrap();
    assert!(said.contains(question), "{said}");
    ws.holds("b.txt", "b\n");
    // Programs never reach another session's work by themselves.
    for call in ["undo", "redo"] {
        let error = ws.lbx(&[call]).error("not_found");
        assert_eq!(error["suggested_action"], "`log` shows the changes of all sessions.", "{error:#}");
    }
    let said = typed_on_a_terminal(&ws, "redo", &[], "y\n").unwrap();
    assert!(said.contains("redo: the last change is of session"), "{said}");
}

#[test]
fn terminal_call_without_a_tool_shows_the_help() {
    let ws = workspace();
    let Some(help) = on_a_terminal(&ws, "", &[]) else { return };
    assert!(help.contains("Usage: lbx") && help.contains("lbx help agents"), "{help}");
    let error = ws.lbx(&[]).error("invalid_request");
    assert_eq!(error["message"], "no tool is named");
}

#[test]
fn terminal_output_is_text_and_piped_output_is_json() {
    let ws = workspace();
    ws.lbx(&["delete", "b.txt", "--session", "second"]).ok();
    let calls = [
        ("undo --session second", "undo: delete: b.txt (change 2)\n"),
        ("redo --session second", "redo: delete: b.txt (change 2)\n"),
        ("rewind HEAD --session second", "would undo: redo: b.txt (change 4)\n"),
        ("stats", "all: 8 calls, 1 refused, 5 paths changed, "),
        ("doctor", "ok       version "),
        ("config", "gate = \"strict\"  # default, may be loosened\n"),
        ("session --session first", "session first: "),
        ("trash", "\tb.txt\t1 file\n"),
        ("gc --dry-run", "would gc: 0 files "),
        ("sandbox list", ""),
        ("snapshot", "snapshot: nothing has changed\n"),
        ("init", "claude-code\n"),
    ];
    for (call, wanted) in calls {
        let Some(shown) = on_a_terminal(&ws, call, &[("NO_COLOR", "1"), ("LBX_PAGER", "sed p")]) else {
            return;
        };
        assert!(shown.contains(wanted), "{call}: {shown}");
        assert!(!shown.contains("{\"ok\""), "{call}: {shown}");
        // The output of a change needs no pager.
        let is_change = wanted.contains("do: ");
        assert!(!is_change || shown.matches(wanted).count() == 1, "{call}: {shown}");
    }
    // Not `stats`: each call is counted in the next.
    for call in ["config", "session", "trash", "rewind HEAD --session second"] {
        let words: Vec<&str> = call.split(' ').collect();
        let piped = ws.lbx(&words).stdout_text();
        let json = on_a_terminal(&ws, call, &[("LBX_OUTPUT", "json")]).unwrap();
        assert_eq!(json, piped, "{call}");
    }
}

#[test]
fn progress_is_shown_only_on_a_terminal() {
    let ws = workspace();
    // Output after one second is shown; the command continues for a while after that.
    let command = "bash 'echo one; sleep 1.3; echo two; sleep 0.2' --set bash.backend=none --text";
    let Some(text) = on_a_terminal(&ws, command, &[]) else { return };
    assert!(text.contains("\r\u{1b}[Klbx: bash: two\r\u{1b}[K"), "{text:?}");
    assert!(text.ends_with("one\ntwo\n"), "{text:?}");
    let agents = on_a_terminal(&ws, command, &[("CLAUDE_CODE_SESSION_ID", "abc")]).unwrap();
    assert!(!agents.contains("lbx: bash"), "{agents:?}");
    let piped = ws.lbx(&["bash", "echo one; sleep 1.3; echo two", "--set", "bash.backend=none"]);
    assert_eq!(piped.stderr(), "");
}

#[test]
fn agents_and_pipes_get_json() {
    let ws = workspace();
    let piped = ws.lbx(&["log"]).stdout_text();
    for variables in [[("CLAUDE_CODE_SESSION_ID", "abc")], [("LBX_OUTPUT", "json")], [("TERM", "dumb")]] {
        let Some(text) = on_a_terminal(&ws, "log", &variables) else { return };
        assert_eq!(text, piped, "{variables:?}");
    }
    let data = ws.lbx(&["diff", "--by-session"]).ok();
    let sessions: Vec<&str> = data["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["session"].as_str().unwrap())
        .collect();
    assert_eq!((sessions, &data["files"]), (vec!["second", "first"], &json!(2)));
    ws.lbx(&["diff", "--by-session", "--from", "HEAD"]).error("invalid_request");
    ws.json("diff", &json!({"by_session": true, "of": "HEAD"})).error("invalid_request");
}

#[test]
fn log_supports_grep_stat_and_graph() {
    let ws = workspace();
    let data = ws.lbx(&["log", "--grep", "because of T", "--stat"]).ok();
    let snapshots = data["snapshots"].as_array().unwrap();
    assert_eq!(snapshots.len(), 1);
    assert_eq!(snapshots[0]["stat"], json!([{"path": "a.txt", "insertions": 1, "deletions": 1}]));
    ws.lbx(&["log", "--grep", "("]).error("invalid_request");
    let text = ws.call(&["log", "-t", "--graph", "--stat"]).run().stdout_text();
    let marks: Vec<&str> = text.lines().map(|line| line.get(..4).unwrap_or(line)).collect();
    assert_eq!(marks.iter().filter(|mark| mark.starts_with("* ")).count(), 1, "{text}");
    assert!(marks.contains(&"| * "), "{text}");
    assert!(ws.lbx(&["log"]).ok()["snapshots"][0].get("stat").is_none());
}

#[test]
fn snapshot_author_is_the_session_and_harness() {
    let ws = Workspace::with(&[]);
    ws.lbx(&["write", "a.txt", "--content", "a\n", "--session", "s1"]).ok();
    assert_eq!(ws.git(&["log", "-1", "--format=%an|%ae|%cn", "lbx-snapshots"]), "lbx s1|lbx@localhost|lbx");
    ws.call(&["write", "b.txt", "--content", "b\n"]).env("CODEX_THREAD_ID", "t9").run().ok();
    assert_eq!(ws.git(&["log", "-1", "--format=%an", "lbx-snapshots"]), "lbx t9 (Codex)");
    ws.write("c.txt", "c\n");
    ws.lbx(&["snapshot"]).ok();
    assert_eq!(ws.git(&["log", "-1", "--format=%an", "lbx-snapshots"]), "lbx");
}

/// Starts a watch.
fn watching(ws: &Workspace, arguments: &[&str]) -> Child {
    let mut command = Command::new(LBX);
    command.arg("watch").args(arguments).current_dir(&ws.root).env_clear();
    command.env("PATH", PATH_FIXED).env("HOME", ws.outside.join("home")).env("LBX_STATE_ID", STATE_ID);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends a signal.
fn signal(child: &Child, signal: Signal) {
    let id = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(id, signal).unwrap();
}

/// Waits until a process has ended by itself; returns its exit status and its stderr.
fn ended(mut child: Child) -> (Option<i32>, String) {
    for _ in 0..600 {
        if let Some(status) = child.try_wait().unwrap() {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            return (status.code(), said);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    panic!("it never ended");
}

#[test]
fn watch_prints_each_call_and_exits_cleanly() {
    let ws = workspace();
    let mut child = watching(&ws, &["--all"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let (first, second, refused) = (next(), next(), next());
    assert_eq!(
        (&first["session"], &first["paths"], &first["insertions"]),
        (&json!("first"), &json!(["a.txt"]), &json!(1))
    );
    assert_eq!(second["tool"], "edit");
    assert_eq!(
        (&refused["outcome"], refused["message"].as_str().unwrap().contains("Read it first")),
        (&json!("not_read"), true)
    );
    ws.lbx(&["write", "c.txt", "--content", "c\n", "--session", "later", "--why", "to see"]).ok();
    let landed = next();
    assert_eq!((&landed["session"], &landed["why"]), (&json!("later"), &json!("to see")));
    signal(&child, Signal::TERM);
    assert_eq!(ended(child), (Some(0), String::new()));
    // A closed reader ends it, and so does an interrupt.
    let mut child = watching(&ws, &[]);
    drop(child.stdout.take());
    assert_eq!(ended(child), (Some(0), String::new()));
    let mut child = watching(&ws, &["--all", "-t"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("first edit a.txt +1 -1 because of TWO"), "{line}");
    assert!(!line.contains('\u{1b}'), "{line:?}");
    signal(&child, Signal::INT);
    assert_eq!(ended(child), (Some(0), String::new()));
    // As a request it answers at once, and says where to continue.
    let data = ws.json("watch", &json!({"all": true, "session": "later"})).ok();
    assert_eq!(data["calls"].as_array().unwrap().len(), 1);
    let later = ws.json("watch", &json!({"after": data["next"]})).ok();
    assert_eq!(later["calls"], json!([]));
    ws.json("watch", &json!({"after": "x"})).error("invalid_request");
}
