//! The real Claude Code, offline: with the files that `init` writes, the model uses lbx.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::common::{PATH_FIXED, Workspace, skipped};
use crate::endpoint::Endpoint;
use crate::installed::Clients;

/// Returns Claude Code in a workspace, with lbx on PATH; `None` where it is not installed.
fn claude(clients: &Clients, ws: &Workspace) -> Option<Command> {
    let claude = clients.folder().join("node_modules/.bin/claude");
    let runs = Command::new(&claude).arg("--version").output().is_ok_and(|output| output.status.success());
    if !runs {
        skipped(format!("no Claude Code in {}", clients.folder().display()));
        return None;
    }
    let path = format!("{}:{PATH_FIXED}", ws.with_program().display());
    let mut command = Command::new("timeout");
    command.arg("120").arg(claude).current_dir(&ws.root).env_clear().stdin(Stdio::null());
    command
        .env("PATH", path)
        .env("HOME", ws.outside.join("home"))
        .env("LBX_STATE_ID", crate::common::STATE_ID)
        .env("LBX_GUARD_TIMEOUT_MS", "60000")
        .env("ANTHROPIC_API_KEY", "none")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1")
        .env("ENABLE_TOOL_SEARCH", "true");
    Some(command)
}

/// Runs one turn of Claude Code in a workspace; answers what the model was asked.
fn turn(clients: &Clients, ws: &Workspace, arguments: &[&str], steps: &Value) -> Option<Vec<Value>> {
    let mut command = claude(clients, ws)?;
    let mut endpoint = Endpoint::start(clients, steps);
    command.args(arguments).args(["-p", "go", "--output-format", "json"]);
    command.env("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{}", endpoint.port));
    let output = command.output().unwrap();
    let asked = endpoint.asked();
    if asked.is_empty() {
        skipped(format!("Claude Code asks no model here: {output:?}"));
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    Some(asked)
}

#[test]
fn claude_code_offers_lbx_tools_and_edits_with_them() {
    let Some(clients) = Clients::found() else { return };
    let ws = Workspace::with(&[("a.js", "const a = 1;\nconst b = 2;\n")]);
    ws.lbx(&["init", "--client", "claude-code"]).ok();
    let steps = json!([
        { "name": "mcp__lbx__read", "input": { "path": "a.js" } },
        { "name": "mcp__lbx__edit",
          "input": { "path": "a.js", "start_line": 1, "end_line": 1, "new_string": "const a = 42;" } },
    ]);
    let Some(asked) = turn(&clients, &ws, &[], &steps) else { return };
    let tools = asked[0]["tools"].as_array().unwrap();
    for core in ["read", "edit", "write", "patch", "grep", "bash", "undo"] {
        assert!(tools.contains(&json!(format!("mcp__lbx__{core}"))), "{core}: {tools:?}");
    }
    ws.holds("a.js", "const a = 42;\nconst b = 2;\n");
    let said = asked[1]["last"].to_string();
    assert!(said.contains("1\\tconst a = 1;"), "{said}");
    // The session start hook and the server share one session.
    let sessions = ws.lbx(&["session", "list"]).ok()["sessions"].clone();
    let names: Vec<&str> =
        sessions.as_array().unwrap().iter().map(|it| it["session"].as_str().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("claude-code-")).count(), 1, "{names:?}");
}

#[test]
fn init_exclusive_disables_the_built_in_file_tools() {
    let Some(clients) = Clients::found() else { return };
    let ws = Workspace::with(&[("a.js", "const a = 1;\n")]);
    let path = format!("{}:{PATH_FIXED}", ws.with_program().display());
    ws.call(&["init", "--client", "claude-code", "--exclusive"]).env("PATH", path).run().ok();
    let Some(asked) = turn(&clients, &ws, &[], &json!([])) else { return };
    let tools = asked[0]["tools"].as_array().unwrap();
    for built_in in ["Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep", "Bash"] {
        assert!(!tools.contains(&json!(built_in)), "{built_in}: {tools:?}");
    }
    assert!(tools.contains(&json!("mcp__lbx__edit")), "{tools:?}");
}

#[test]
fn claude_code_plugin_is_valid_and_offers_its_tools() {
    let Some(clients) = Clients::found() else { return };
    let ws = Workspace::with(&[("a.js", "const a = 1;\n")]);
    ws.lbx(&["init", "--plugin", "plugin"]).ok();
    let folder = ws.path("plugin").display().to_string();
    let says = |arguments: &[&str]| -> Option<Output> {
        Some(claude(&clients, &ws)?.args(arguments).output().unwrap())
    };
    let manifest = format!("{folder}/.claude-plugin/plugin.json");
    for arguments in [
        &["plugin", "validate", "--strict", &folder][..],
        &["plugin", "validate", "--strict", &manifest],
        &["plugin", "marketplace", "add", &folder],
        &["plugin", "install", "lbx@lbx"],
    ] {
        let Some(output) = says(arguments) else { return };
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    let steps = json!([
        { "name": "mcp__plugin_lbx_lbx__read", "input": { "path": "a.js" } },
        { "name": "mcp__plugin_lbx_lbx__edit",
          "input": { "path": "a.js", "old_string": "1", "new_string": "2" } },
    ]);
    let allowed = ["--allowedTools", "mcp__plugin_lbx_lbx"];
    let Some(asked) = turn(&clients, &ws, &allowed, &steps) else { return };
    let tools = asked[0]["tools"].as_array().unwrap();
    assert!(tools.contains(&json!("mcp__plugin_lbx_lbx__edit")), "{tools:?}");
    // The skill is listed with its description.
    let skill = asked[0]["skill"].as_str().unwrap();
    assert!(skill.contains("when a call of lbx is refused"), "{skill}");
    ws.holds("a.js", "const a = 2;\n");
    // The hook at the start of the session and the server have one session.
    let sessions = ws.lbx(&["session", "list"]).ok()["sessions"].clone();
    let names: Vec<&str> =
        sessions.as_array().unwrap().iter().map(|it| it["session"].as_str().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("claude-code-")).count(), 1, "{names:?}");
}

#[test]
fn guarded_turn_of_claude_code_is_gated_recorded_and_undone() {
    let Some(clients) = Clients::found() else { return };
    let before = [
        ("a.txt", "one\ntwo\n"),
        ("b.txt", "old\n"),
        ("other.txt", "old\n"),
        (".env", "SECRET=1\n"),
        (".gitignore", ".env\n"),
    ];
    let ws = Workspace::with(&before);
    ws.lbx(&["init", "claude-code", "--guard", "--no-server"]).ok();
    let path = |name: &str| ws.path(name).display().to_string();
    let steps = json!([
        { "name": "Read", "input": { "file_path": path("a.txt") } },
        { "name": "Edit", "input": { "file_path": path("a.txt"), "old_string": "two", "new_string": "TWO" } },
        { "name": "Write", "input": { "file_path": path("new/c.txt"), "content": "new\n" } },
        { "name": "Bash", "input": { "command": "rm .env; echo more >> b.txt", "description": "x" } },
    ]);
    let allowed = ["--allowedTools", "Read,Edit,Write,Bash"];
    let Some(_) = turn(&clients, &ws, &allowed, &steps) else { return };
    for (file, text) in [("a.txt", "one\nTWO\n"), ("b.txt", "old\nmore\n"), ("new/c.txt", "new\n")] {
        ws.holds(file, text);
    }
    let sessions = ws.lbx(&["session", "list"]).ok()["sessions"].clone();
    let names: Vec<&str> =
        sessions.as_array().unwrap().iter().map(|it| it["session"].as_str().unwrap()).collect();
    let [session] = names.iter().filter(|name| name.starts_with("claude-code-")).collect::<Vec<_>>()[..]
    else {
        panic!("{names:?}")
    };
    let log = ws.lbx(&["log", "--session", session]).ok();
    let tools: Vec<&str> =
        log["snapshots"].as_array().unwrap().iter().map(|it| it["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["bash", "Write", "Edit"], "{log:#}");
    // Another window changes another file, and undoes nothing of this one.
    let steps = json!([
        { "name": "Read", "input": { "file_path": path("other.txt") } },
        { "name": "Edit", "input": { "file_path": path("other.txt"), "old_string": "old", "new_string": "OLD" } },
    ]);
    let Some(_) = turn(&clients, &ws, &allowed, &steps) else { return };
    ws.lbx(&["undo", "--turn", "--session", session]).ok();
    for (file, text) in
        [("a.txt", "one\ntwo\n"), ("b.txt", "old\n"), ("other.txt", "OLD\n"), (".env", "SECRET=1\n")]
    {
        ws.holds(file, text);
    }
    assert!(!ws.path("new").exists());
}

#[test]
fn wrapped_command_of_claude_code_runs_by_lbx_and_is_asked_about_as_before() {
    let Some(clients) = Clients::found() else { return };
    for (allowed, is_made) in [("Bash", true), ("Read", false)] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        ws.write(".lbx/config.toml", "[guard]\nbash = \"wrap\"\n");
        ws.lbx(&["init", "claude-code", "--guard", "--no-server"]).ok();
        let input = json!({ "command": "pwd > /tmp/lbx-wrapped; echo made > made.txt", "description": "x" });
        let steps = json!([{ "name": "Bash", "input": input }]);
        let Some(_) = turn(&clients, &ws, &["--allowedTools", allowed], &steps) else { return };
        assert_eq!(ws.path("made.txt").exists(), is_made, "{allowed}");
        // Its /tmp is that of the session.
        assert!(!std::path::Path::new("/tmp/lbx-wrapped").exists());
    }
}

#[test]
fn worktrees_of_claude_code_are_forks_that_keep_work() {
    let Some(clients) = Clients::found() else { return };
    let ws = Workspace::with(&[("a.txt", "one\n"), (".gitignore", ".env\n")]);
    ws.write(".env", "TOKEN=1\n");
    ws.lbx(&["init", "claude-code", "--forks"]).ok();
    let allowed = ["--allowedTools", "Bash,EnterWorktree,ExitWorktree"];
    let bash = |command: &str| json!({ "name": "Bash", "input": { "command": command, "description": "x" } });
    let enter = |name: &str| json!({ "name": "EnterWorktree", "input": { "name": name } });
    let exit = json!({ "name": "ExitWorktree", "input": { "action": "remove", "discard_changes": true } });
    // The whole session in a worktree.
    let whole = [&["--worktree", "whole"], &allowed[..]].concat();
    let Some(_) = turn(&clients, &ws, &whole, &json!([bash("cp .env made.txt")])) else { return };
    // A worktree that is left again, without and with work in it.
    turn(&clients, &ws, &allowed, &json!([enter("clean"), bash("cat a.txt"), exit])).unwrap();
    turn(&clients, &ws, &allowed, &json!([enter("dirty"), bash("echo work > work.txt"), exit])).unwrap();
    let forks = ws.lbx(&["fork", "list"]).ok()["forks"].clone();
    let facts: Vec<Value> =
        forks.as_array().unwrap().iter().map(|fork| json!([fork["name"], fork["files"]])).collect();
    assert_eq!(json!(facts), json!([["dirty", 1], ["whole", 1]]), "{forks}");
    let folder = |name: &str| std::path::PathBuf::from(format!("{}.{name}", ws.root.display()));
    assert_eq!(std::fs::read_to_string(folder("whole").join("made.txt")).unwrap(), "TOKEN=1\n");
    assert!(!folder("clean").exists());
    ws.lbx(&["merge", "dirty"]).ok();
    ws.holds("work.txt", "work\n");
    assert!(!ws.path("made.txt").exists());
}
