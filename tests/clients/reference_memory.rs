//! `--dialect anthropic-memory` compared with the memory tool of the Anthropic SDK: a recorded session.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::common::Workspace;
use crate::driver::{Sdk, Session, call, drive};
use crate::installed::{Clients, script};
use crate::reference_filesystem::Recorded;

/// Normalizes an answer. The size of the folder itself is left out: lbx keeps its state there.
fn said(is_error: &Value, text: &str) -> String {
    let mut lines: Vec<&str> = text.split('\n').collect();
    if lines[0].starts_with("Here're the files") {
        lines[1] = lines[1].split('\t').next_back().unwrap();
    }
    format!("{is_error} {}", lines.join("\n"))
}

/// Returns the answers of the SDK's tool.
fn theirs(clients: &Clients, ws: &Workspace, commands: &[Value]) -> Vec<String> {
    let mut command = clients.python();
    command.arg(script("memory.py")).arg(&ws.root).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    process.stdin.take().unwrap().write_all(Value::from(commands).to_string().as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).unwrap();
    let answer = |line: &str| {
        let answer: Value = serde_json::from_str(line).unwrap();
        said(&answer["is_error"], answer["text"].as_str().unwrap())
    };
    lines.lines().map(answer).collect()
}

/// Returns the answers of lbx.
fn ours(clients: &Clients, ws: &Workspace, commands: &[Value]) -> Vec<String> {
    let steps = commands.iter().map(|command| call("memory", command)).collect();
    let session = Session::of(ws, &["--dialect", "anthropic-memory"], steps);
    let answer = |answer: &Value| {
        let blocks = answer["content"].as_array().unwrap();
        let texts: Vec<&str> = blocks.iter().map(|block| block["text"].as_str().unwrap()).collect();
        said(&answer["is_error"], &texts.join("\n"))
    };
    drive(clients, Sdk::PythonHandshake, &[session]).remove(0).iter().map(answer).collect()
}

#[test]
fn memory_dialect_equals_the_anthropic_sdk() {
    let Some(clients) = Clients::found() else { return };
    let recorded = Recorded::of("anthropic-memory");
    let commands: Vec<Value> = recorded.calls.iter().map(|call| call["arguments"].clone()).collect();
    let (here, there) = (Workspace::bare(&[]), Workspace::bare(&[]));
    recorded.compare(&theirs(&clients, &there, &commands), &ours(&clients, &here, &commands));
}
