//! The command line of the MCP Inspector.

use std::collections::HashMap;
use std::process::Output;

use lbx::dialect::DIALECTS;
use serde_json::Value;

use crate::common::{LBX, PATH_FIXED, STATE_ID, Workspace};
use crate::driver::text;
use crate::installed::Clients;
use crate::steps::{FILES, Step, check, request};
use crate::transcripts::transcripts;

/// Session that the calls of several processes share.
const SESSION: &str = "pair";

/// Returns the command of the Inspector with lbx in a workspace. Its options reach lbx through the environment.
fn inspect(clients: &Clients, ws: &Workspace, dialect: &str, options: &[&str]) -> Output {
    let mut command = clients.node();
    command.arg(clients.package("inspector/clients/launcher/build/index.js")).arg("--cli");
    // The server gets no variable of the Inspector's.
    command.args(["env", &format!("LBX_STATE_ID={STATE_ID}"), LBX, "mcp"]);
    command.args(["--dialect", dialect, "--session", SESSION, "--format", "json", "--quiet"]).args(options);
    command.current_dir(&ws.root).env_clear();
    command.env("PATH", PATH_FIXED).env("HOME", ws.outside.join("home"));
    command.output().unwrap()
}

/// Returns the JSON that the Inspector printed.
#[track_caller]
fn printed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn inspector_accepts_every_tool_list() {
    let Some(clients) = Clients::found() else { return };
    let ws = Workspace::with(&[]);
    for dialect in std::iter::once("lbx").chain(DIALECTS.iter().map(|dialect| dialect.name)) {
        let output = inspect(&clients, &ws, dialect, &["--method", "tools/list", "--strict"]);
        assert!(output.status.success(), "{dialect}: {}", String::from_utf8_lossy(&output.stderr));
        let listed = printed(&output);
        assert!(!listed["result"]["tools"].as_array().unwrap().is_empty(), "{dialect}: {listed}");
    }
}

/// Makes a call on lbx's own command line.
fn prepare(ws: &Workspace, family: &str, step: &Step) {
    let asked = request(ws, &step.request).to_string();
    let _ = ws.lbx(&["--dialect", family, "--session", SESSION, step.tool, "--json", &asked]).status();
}

#[test]
fn inspector_calls_every_tool_of_every_dialect() {
    let Some(clients) = Clients::found() else { return };
    for (number, (family, steps)) in transcripts().into_iter().enumerate() {
        let ws = Workspace::with(FILES);
        let last: HashMap<&str, usize> =
            steps.iter().enumerate().map(|(index, step)| (step.tool, index)).collect();
        // Alternates the protocol revisions.
        let era = if number % 2 == 0 { "modern" } else { "legacy" };
        for (index, step) in steps.iter().enumerate() {
            if last[step.tool] != index {
                prepare(&ws, family, step);
                continue;
            }
            let asked = request(&ws, &step.request).to_string();
            let call = ["--method", "tools/call", "--tool-name", step.tool, "--tool-args-json", &asked];
            let output = inspect(&clients, &ws, family, &[&call[..], &["--protocol-era", era]].concat());
            let result = &printed(&output)["result"];
            check(&ws, step, result["isError"] == true, text(result));
        }
    }
}
