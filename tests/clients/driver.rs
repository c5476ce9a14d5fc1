//! Runs MCP SDKs against servers: a script reads steps and prints the result of each.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{LBX, PATH_FIXED, Workspace};
use crate::installed::{Clients, script};

/// An SDK, and the protocol revision that it is asked to speak.
#[derive(Debug, Clone, Copy)]
pub enum Sdk {
    /// Python SDK that asks the server for its revisions.
    Python,
    /// Python SDK with a handshake.
    PythonHandshake,
    /// TypeScript SDK, first generation, which supports only the handshake.
    Script,
    /// TypeScript SDK, second generation, which asks the server for its revisions.
    ScriptTwo,
}

/// Every SDK, and the revision that it negotiates with lbx.
pub const SDKS: [(Sdk, Option<&str>); 4] = [
    (Sdk::Python, Some("2026-07-28")),
    (Sdk::PythonHandshake, Some("2025-11-25")),
    (Sdk::Script, None),
    (Sdk::ScriptTwo, Some("2026-07-28")),
];

impl Sdk {
    /// Returns its name in the driver.
    fn mode(self) -> &'static str {
        match self {
            Self::Python | Self::ScriptTwo => "auto",
            Self::PythonHandshake => "legacy",
            Self::Script => "v1",
        }
    }

    /// Returns the command that runs its script.
    fn driver(self, clients: &Clients) -> Command {
        match self {
            Self::Python | Self::PythonHandshake => {
                let mut command = clients.python();
                command.arg(script("driver.py"));
                command
            }
            Self::Script | Self::ScriptTwo => {
                let mut command = clients.node();
                command.arg(script("driver.mjs")).arg(clients.folder());
                command
            }
        }
    }
}

/// A server, and the steps of its client.
pub struct Session {
    /// Program of the server and its arguments.
    pub command: Vec<String>,
    /// Folder in which it is started.
    pub root: PathBuf,
    /// Home folder of the server.
    pub home: PathBuf,
    /// Steps of the client.
    pub steps: Vec<Value>,
}

impl Session {
    /// Returns a session with lbx.
    pub fn of(ws: &Workspace, arguments: &[&str], steps: Vec<Value>) -> Self {
        let command = [LBX, "mcp"].iter().chain(arguments).map(|word| (*word).to_owned()).collect();
        Self::with(command, ws, steps)
    }

    /// Returns a session with any server in a workspace.
    pub fn with(command: Vec<String>, ws: &Workspace, steps: Vec<Value>) -> Self {
        Self { command, root: ws.root.clone(), home: ws.outside.join("home"), steps }
    }

    /// Returns the input of the driver.
    fn as_json(&self, sdk: Sdk) -> Value {
        json!({
            "command": self.command[0], "args": self.command[1..], "cwd": self.root, "mode": sdk.mode(),
            "env": { "PATH": PATH_FIXED, "HOME": self.home }, "steps": self.steps,
        })
    }
}

/// Returns the step that calls a tool.
pub fn call(tool: &str, arguments: &Value) -> Value {
    json!({ "do": "call", "tool": tool, "arguments": arguments })
}

/// Runs the sessions; returns the result of each step of each session.
#[track_caller]
pub fn drive(clients: &Clients, sdk: Sdk, sessions: &[Session]) -> Vec<Vec<Value>> {
    let asked: Vec<Value> = sessions.iter().map(|session| session.as_json(sdk)).collect();
    let mut command = sdk.driver(clients);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    process.stdin.take().unwrap().write_all(json!({ "sessions": asked }).to_string().as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sdk:?}: {complaint}");
    let mut answers: Vec<Vec<Value>> = sessions.iter().map(|_| Vec::new()).collect();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        let session = usize::try_from(answer["session"].as_u64().unwrap()).unwrap();
        answers[session].push(answer);
    }
    for (session, answers) in sessions.iter().zip(&answers) {
        assert_eq!(answers.len(), session.steps.len(), "{sdk:?}: {complaint}");
    }
    answers
}

/// Returns the text of an answer's first block.
pub fn text(answer: &Value) -> &str {
    answer["content"][0]["text"].as_str().unwrap_or_default()
}
