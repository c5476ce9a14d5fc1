//! Has an SDK call servers, by a script that reads steps and prints what came of each.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{LBX, PATH_FIXED, Workspace};
use crate::installed::{Clients, script};

/// An SDK, and the revision that it is asked to speak.
#[derive(Debug, Clone, Copy)]
pub enum Sdk {
    /// Python; it asks the server which revision it knows.
    Python,
    /// Python with a handshake.
    PythonHandshake,
    /// TypeScript's first generation, which knows the handshake alone.
    Script,
    /// TypeScript's second generation; it asks the server which revision it knows.
    ScriptTwo,
}

/// Every SDK, and the revision that it and lbx settle on.
pub const SDKS: [(Sdk, Option<&str>); 4] = [
    (Sdk::Python, Some("2026-07-28")),
    (Sdk::PythonHandshake, Some("2025-11-25")),
    (Sdk::Script, None),
    (Sdk::ScriptTwo, Some("2026-07-28")),
];

impl Sdk {
    /// Its name in the driver.
    fn mode(self) -> &'static str {
        match self {
            Self::Python | Self::ScriptTwo => "auto",
            Self::PythonHandshake => "legacy",
            Self::Script => "v1",
        }
    }

    /// The script that drives it.
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

/// A server, and what a client does with it.
pub struct Session {
    /// The program of the server and its arguments.
    pub command: Vec<String>,
    /// The folder in which it is started.
    pub root: PathBuf,
    /// Its home folder.
    pub home: PathBuf,
    /// What is done.
    pub steps: Vec<Value>,
}

impl Session {
    /// A session with lbx.
    pub fn of(ws: &Workspace, arguments: &[&str], steps: Vec<Value>) -> Self {
        let command = [LBX, "mcp"].iter().chain(arguments).map(|word| (*word).to_owned()).collect();
        Self::with(command, ws, steps)
    }

    /// A session with any server in a workspace.
    pub fn with(command: Vec<String>, ws: &Workspace, steps: Vec<Value>) -> Self {
        Self { command, root: ws.root.clone(), home: ws.outside.join("home"), steps }
    }

    /// What the driver reads.
    fn as_json(&self, sdk: Sdk) -> Value {
        json!({
            "command": self.command[0], "args": self.command[1..], "cwd": self.root, "mode": sdk.mode(),
            "env": { "PATH": PATH_FIXED, "HOME": self.home }, "steps": self.steps,
        })
    }
}

/// A call of a tool.
pub fn call(tool: &str, arguments: &Value) -> Value {
    json!({ "do": "call", "tool": tool, "arguments": arguments })
}

/// Carries out the sessions; answers what came of each step of each.
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

/// The text of an answer's first block.
pub fn text(answer: &Value) -> &str {
    answer["content"][0]["text"].as_str().unwrap_or_default()
}
