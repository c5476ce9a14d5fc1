//! Other tools, which change the same line in the same files.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::cells::{Change, File, NEW, OLD};
use super::checked::{self, Fate};
use super::common::Workspace;
use super::lbx::unified;

/// Script that edits with Python's text reading and writing, as the editors of many agents do.
const PYTHON: &str = "
import pathlib, sys
for line in sys.stdin:
    path = pathlib.Path(line.rstrip('\\n'))
    try:
        text = path.read_text()
        if text.count(sys.argv[1]) != 1:
            raise ValueError
        path.write_text(text.replace(sys.argv[1], sys.argv[2]))
        print(0, flush=True)
    except (OSError, ValueError):
        print(1, flush=True)
";
/// Variable with the path of the npm reference server's program.
const SERVER: &str = "LBX_PEER_SERVER";

/// Another tool.
pub struct Peer {
    /// Name in the table.
    pub name: &'static str,
    /// Program that it needs.
    needs: &'static str,
    /// Makes one change in each file; returns true for each file for which the tool reported a failure.
    ask: fn(&Workspace, &[File]) -> Vec<bool>,
}

/// All other tools.
pub const PEERS: &[Peer] = &[
    Peer { name: "sed -i", needs: "sed", ask: |ws, files| files.iter().map(|file| sed(ws, *file)).collect() },
    Peer {
        name: "GNU patch",
        needs: "patch",
        ask: |ws, files| files.iter().map(|file| patch(ws, *file)).collect(),
    },
    Peer {
        name: "git apply",
        needs: "git",
        ask: |ws, files| files.iter().map(|file| git(ws, *file)).collect(),
    },
    Peer { name: "Python: read_text, replace, write_text", needs: "python3", ask: python },
    Peer { name: "npm server-filesystem: edit_file", needs: SERVER, ask: server },
];

impl Peer {
    /// Returns the outcome for each file; `None` if the tool is not installed.
    pub fn fates(&self, files: &[File]) -> Option<Vec<Fate>> {
        let is_there = if self.needs == SERVER {
            std::env::var_os(SERVER).is_some()
        } else {
            Command::new(self.needs).arg("--version").output().is_ok()
        };
        if !is_there {
            return None;
        }
        let ws = Workspace::with(&[]);
        checked::fill(&ws, files);
        let failed = (self.ask)(&ws, files);
        let fate = |(file, failed): (&File, bool)| {
            checked::fate(&ws, *file, &file.content.after(Change::Line), failed)
        };
        Some(files.iter().zip(failed).map(fate).collect())
    }
}

/// Runs a command with a text on stdin; returns true if it failed.
fn fails(ws: &Workspace, command: &mut Command, text: &str) -> bool {
    let mut child = command
        .current_dir(ws.path("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It may have failed before it reads.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    !child.wait().unwrap().success()
}

/// Runs `sed -i`.
fn sed(ws: &Workspace, file: File) -> bool {
    fails(ws, Command::new("sed").args(["-i", &format!("s/{OLD}/{NEW}/"), &file.path()]), "")
}

/// Runs GNU patch.
fn patch(ws: &Workspace, file: File) -> bool {
    let mut command = Command::new("patch");
    command.args(["-p1", "-s", "-f", "--no-backup-if-mismatch", "-r", "-"]);
    fails(ws, &mut command, &unified(&quoted(&file.path())))
}

/// Runs `git apply`.
fn git(ws: &Workspace, file: File) -> bool {
    fails(ws, Command::new("git").args(["apply", "-"]), &unified(&quoted(&file.path())))
}

/// Returns a path for a diff: a path with spaces ends with a tab.
fn quoted(path: &str) -> String {
    if path.contains(' ') { format!("{path}\t") } else { path.to_owned() }
}

/// Runs Python.
fn python(ws: &Workspace, files: &[File]) -> Vec<bool> {
    let paths: String = files.iter().map(|file| format!("{}\n", file.path())).collect();
    let mut child = Command::new("python3")
        .args(["-c", PYTHON, OLD, NEW])
        .env("PYTHONUTF8", "1")
        .current_dir(ws.path("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || stdin.write_all(paths.as_bytes()));
    let said = child.wait_with_output().unwrap();
    feeding.join().unwrap().unwrap();
    String::from_utf8(said.stdout).unwrap().lines().map(|line| line == "1").collect()
}

/// Runs the npm reference server over MCP.
fn server(ws: &Workspace, files: &[File]) -> Vec<bool> {
    let program = PathBuf::from(std::env::var_os(SERVER).unwrap());
    let mut child = Command::new(program)
        .arg(ws.path("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |message: &Value| -> Option<Value> {
        writeln!(stdin, "{message}").unwrap();
        message.get("id")?;
        let line = lines.next().unwrap().unwrap();
        Some(serde_json::from_str(&line).unwrap())
    };
    let client = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "matrix", "version": "1" } });
    ask(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client }));
    ask(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let failed = files.iter().zip(1..).map(|(file, id)| {
        let edits = json!([{ "oldText": OLD, "newText": NEW }]);
        let arguments = json!({ "path": ws.path(&file.path()), "edits": edits });
        let params = json!({ "name": "edit_file", "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        let answer = ask(&call).unwrap();
        answer.get("error").is_some() || answer["result"]["isError"] == true
    });
    let failed = failed.collect();
    drop(stdin);
    child.wait().unwrap();
    failed
}
