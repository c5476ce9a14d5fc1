//! The real Claude Code, offline: what `init` writes has the model meet lbx.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::common::{PATH_FIXED, Workspace};
use crate::installed::{Clients, script};

/// An endpoint that plays a script.
struct Endpoint {
    process: Child,
    stdout: BufReader<ChildStdout>,
    port: String,
}

impl Endpoint {
    fn start(clients: &Clients, steps: &Value) -> Self {
        let mut command = clients.node();
        command.arg(script("endpoint.mjs")).arg(steps.to_string()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut port = String::new();
        stdout.read_line(&mut port).unwrap();
        Self { process, stdout, port: port.trim().to_owned() }
    }

    /// What it was asked, until now.
    fn asked(&mut self) -> Vec<Value> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.stdout.by_ref().lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs one turn of Claude Code in a workspace; answers what the model was asked.
fn turn(clients: &Clients, ws: &Workspace, steps: &Value) -> Option<Vec<Value>> {
    let claude = clients.folder().join("node_modules/.bin/claude");
    let runs = Command::new(&claude).arg("--version").output().is_ok_and(|output| output.status.success());
    if !runs {
        eprintln!("skipped: no Claude Code in {}", clients.folder().display());
        return None;
    }
    let mut endpoint = Endpoint::start(clients, steps);
    let path = format!("{}:{PATH_FIXED}", ws.with_program().display());
    let mut command = Command::new("timeout");
    command.arg("120").arg(claude).args(["-p", "go", "--output-format", "json"]);
    command.current_dir(&ws.root).env_clear().stdin(Stdio::null());
    command
        .env("PATH", path)
        .env("HOME", ws.outside.join("home"))
        .env("LBX_STATE_ID", crate::common::STATE_ID)
        .env("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{}", endpoint.port))
        .env("ANTHROPIC_API_KEY", "none")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1")
        .env("ENABLE_TOOL_SEARCH", "true");
    let output = command.output().unwrap();
    let asked = endpoint.asked();
    if asked.is_empty() {
        eprintln!("skipped: Claude Code asks no model here: {output:?}");
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    Some(asked)
}

#[test]
fn the_model_meets_lbx_in_its_first_request_and_edits_through_it() {
    let Some(clients) = Clients::found() else { return };
    let ws = Workspace::with(&[("a.js", "const a = 1;\nconst b = 2;\n")]);
    ws.lbx(&["init", "--client", "claude-code"]).ok();
    let steps = json!([
        { "name": "mcp__lbx__read", "input": { "path": "a.js" } },
        { "name": "mcp__lbx__edit",
          "input": { "path": "a.js", "start_line": 1, "end_line": 1, "new_string": "const a = 42;" } },
    ]);
    let Some(asked) = turn(&clients, &ws, &steps) else { return };
    let tools = asked[0]["tools"].as_array().unwrap();
    for core in ["read", "edit", "write", "patch", "grep", "bash", "undo"] {
        assert!(tools.contains(&json!(format!("mcp__lbx__{core}"))), "{core}: {tools:?}");
    }
    ws.holds("a.js", "const a = 42;\nconst b = 2;\n");
    let said = asked[1]["last"].to_string();
    assert!(said.contains("1\\tconst a = 1;"), "{said}");
    // The hook at the start of the session and the server have one session.
    let sessions = ws.lbx(&["session", "list"]).ok()["sessions"].clone();
    let names: Vec<&str> =
        sessions.as_array().unwrap().iter().map(|it| it["session"].as_str().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("claude-code-")).count(), 1, "{names:?}");
}

#[test]
fn with_exclusive_no_built_in_file_tool_is_left() {
    let Some(clients) = Clients::found() else { return };
    let ws = Workspace::with(&[("a.js", "const a = 1;\n")]);
    let path = format!("{}:{PATH_FIXED}", ws.with_program().display());
    ws.call(&["init", "--client", "claude-code", "--exclusive"]).env("PATH", path).run().ok();
    let Some(asked) = turn(&clients, &ws, &json!([])) else { return };
    let tools = asked[0]["tools"].as_array().unwrap();
    for built_in in ["Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep", "Bash"] {
        assert!(!tools.contains(&json!(built_in)), "{built_in}: {tools:?}");
    }
    assert!(tools.contains(&json!("mcp__lbx__edit")), "{tools:?}");
}
