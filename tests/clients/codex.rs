//! The real Codex, offline: what `init` writes has the model meet lbx.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{PATH_FIXED, Workspace, skipped};
use crate::endpoint::Endpoint;
use crate::installed::Clients;

/// Returns the program, which its package for this machine holds; `None` where it is not installed.
fn program(clients: &Clients) -> Option<PathBuf> {
    let packages = ["codex-linux-x64", "codex-linux-arm64"];
    let vendors =
        packages.map(|name| clients.folder().join("node_modules/@openai").join(name).join("vendor"));
    let targets = vendors.iter().filter_map(|vendor| vendor.read_dir().ok()).flatten();
    let mut programs = targets.map(|target| target.unwrap().path().join("bin/codex"));
    let program = programs.find(|program| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    if program.is_none() {
        skipped(format!("no Codex in {}", clients.folder().display()));
    }
    program
}

/// Returns Codex in a workspace that the person trusts, with lbx on PATH and a model at this port.
fn codex(program: &Path, ws: &Workspace, port: &str) -> Command {
    let home = ws.outside.join("home/codex");
    std::fs::create_dir_all(&home).unwrap();
    let config = home.join("config.toml");
    if !config.exists() {
        let root = ws.root.display();
        let text = format!(
            "model = \"gpt-5\"\nmodel_provider = \"fake\"\n\n[model_providers.fake]\nname = \"fake\"\n\
             base_url = \"http://127.0.0.1:{port}/v1\"\nwire_api = \"responses\"\nenv_key = \"FAKE_KEY\"\n\n\
             [projects.\"{root}\"]\ntrust_level = \"trusted\"\n"
        );
        std::fs::write(&config, text).unwrap();
    }
    let path = format!("{}:{PATH_FIXED}", ws.with_program().display());
    let mut command = Command::new("timeout");
    command.arg("120").arg(program).current_dir(&ws.root).env_clear().stdin(Stdio::null());
    command
        .env("PATH", path)
        .env("HOME", ws.outside.join("home"))
        .env("CODEX_HOME", home)
        .env("LBX_STATE_ID", crate::common::STATE_ID)
        .env("LBX_GUARD_TIMEOUT_MS", "60000")
        .env("FAKE_KEY", "none");
    command
}

/// Returns the steps of a model that reads and edits a file by lbx.
fn steps_by_lbx() -> Value {
    json!([
        { "name": "mcp__lbx__read", "input": { "path": "a.js" } },
        { "name": "mcp__lbx__edit",
          "input": { "path": "a.js", "start_line": 1, "end_line": 1, "new_string": "const a = 42;" } },
    ])
}

/// Runs one turn; answers what the model was asked.
fn turn(clients: &Clients, program: &Path, ws: &Workspace, before: &[&[&str]], steps: &Value) -> Vec<Value> {
    let mut endpoint = Endpoint::start(clients, steps);
    for arguments in before {
        let output = codex(program, ws, &endpoint.port).args(*arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    let mut command = codex(program, ws, &endpoint.port);
    // A person trusts a hook once; the sandbox of a test may allow no sandbox in it.
    command.args([
        "exec",
        "--dangerously-bypass-hook-trust",
        "--dangerously-bypass-approvals-and-sandbox",
        "go",
    ]);
    let output = command.output().unwrap();
    let asked = endpoint.asked();
    assert!(
        output.status.success() && asked.len() > steps.as_array().unwrap().len(),
        "{asked:?}\n{output:?}"
    );
    asked
}

/// Checks that the model met lbx and edited by it, in one session with the hook.
fn check(ws: &Workspace, asked: &[Value]) {
    let tools = asked[0]["tools"].as_array().unwrap();
    for core in ["read", "edit", "write", "patch", "grep", "bash", "undo"] {
        assert!(tools.contains(&json!(format!("mcp__lbx__{core}"))), "{core}: {tools:?}");
    }
    let said = asked[1]["last"].to_string();
    assert!(said.contains("1\\tconst a = 1;"), "{said}");
    ws.holds("a.js", "const a = 42;\nconst b = 2;\n");
    let sessions = ws.lbx(&["session", "list"]).ok()["sessions"].clone();
    let edits: Vec<&Value> =
        sessions.as_array().unwrap().iter().filter(|it| it["session"] != "default").collect();
    assert_eq!(edits.len(), 1, "{sessions}");
}

#[test]
fn codex_offers_lbx_tools_and_edits_with_them() {
    let Some(clients) = Clients::found() else { return };
    let Some(program) = program(&clients) else { return };
    let ws = Workspace::with(&[("a.js", "const a = 1;\nconst b = 2;\n")]);
    ws.lbx(&["init", "--client", "codex"]).ok();
    check(&ws, &turn(&clients, &program, &ws, &[], &steps_by_lbx()));
}

#[test]
fn codex_plugin_offers_its_tools_and_skill() {
    let Some(clients) = Clients::found() else { return };
    let Some(program) = program(&clients) else { return };
    let ws = Workspace::with(&[("a.js", "const a = 1;\nconst b = 2;\n")]);
    ws.lbx(&["init", "--plugin", "plugin"]).ok();
    let folder = ws.path("plugin").display().to_string();
    let installed = [&["plugin", "marketplace", "add", &folder][..], &["plugin", "add", "lbx@lbx"]];
    let asked = turn(&clients, &program, &ws, &installed, &steps_by_lbx());
    check(&ws, &asked);
    let skill = asked[0]["skill"].as_str().unwrap();
    assert!(skill.contains("when a call of lbx is refused"), "{skill}");
}

#[test]
fn guarded_turn_of_codex_is_recorded_and_undone() {
    let Some(clients) = Clients::found() else { return };
    let Some(program) = program(&clients) else { return };
    let ws = Workspace::with(&[("a.js", "const a = 1;\n"), ("b.txt", "old\n")]);
    ws.lbx(&["init", "codex", "--guard", "--no-server"]).ok();
    let patch = "*** Begin Patch\n*** Update File: a.js\n@@\n-const a = 1;\n+const a = 2;\n*** Add File: new/c.txt\n+new\n*** End Patch";
    // It is offered to known models only; others run it in their shell.
    let steps = json!([
        { "name": "exec_command", "input": { "cmd": "cat a.js" } },
        { "name": "apply_patch", "input": patch },
        { "name": "exec_command", "input": { "cmd": "echo more >> b.txt" } },
    ]);
    turn(&clients, &program, &ws, &[], &steps);
    ws.holds("b.txt", "old\nmore\n");
    let log = ws.lbx(&["log"]).ok();
    let snapshots = log["snapshots"].as_array().unwrap();
    let session = snapshots[0]["session"].as_str().unwrap();
    assert!(session.starts_with("codex-"), "{log:#}");
    assert_eq!(snapshots[0]["tool"], "bash", "{log:#}");
    ws.lbx(&["undo", "--turn", "--session", session]).ok();
    ws.holds("a.js", "const a = 1;\n");
    ws.holds("b.txt", "old\n");
    assert!(!ws.path("new").exists());
}
