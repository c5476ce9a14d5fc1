//! Calls side by side, cancelled, and cut short by the end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, Workspace};

/// A read that takes minutes.
fn endless() -> Value {
    json!({ "path": "endless.bin", "if_sha256": "0".repeat(64) })
}

/// A workspace with a file for it.
fn with_endless() -> Workspace {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    workspace.write_endless("endless.bin");
    workspace
}

/// Time on the processor that a process has used, in ticks of the kernel.
fn ticks(client: &Client) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", client.process.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_read_is_answered_while_a_long_call_runs() {
    let workspace = with_endless();
    let mut client = workspace.serve(&[]);
    client.begin_call("read", &endless());
    for _ in 0..20 {
        assert_eq!(client.call("read", &json!({ "path": "a.txt" }))["structuredContent"]["content"], "a\n");
    }
}

#[test]
fn progress_grows_until_the_answer_and_comes_only_where_it_was_asked_for() {
    let workspace = with_endless();
    let mut client = workspace.serve(&[]);
    let silent = client.begin_call("read", &endless());
    let params = json!({ "name": "read", "arguments": endless(), "_meta": { "progressToken": "p" } });
    let id = client.begin("tools/call", &params);
    let mut before = 0.0;
    for _ in 0..3 {
        let told = client.next();
        assert_eq!(told["method"], "notifications/progress", "{told}");
        assert_eq!(told["params"]["progressToken"], "p");
        assert_eq!(told["params"]["total"], 137_438_953_472.0);
        let now = told["params"]["progress"].as_f64().unwrap();
        assert!(now > before, "{told}");
        before = now;
    }
    for id in [silent, id] {
        client.tell("notifications/cancelled", &json!({ "requestId": id }));
    }
}

#[test]
fn a_hundred_calls_at_once_are_all_answered() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.serve(&[]);
    let ids: Vec<i64> = (0..100).map(|_| client.begin_call("read", &json!({ "path": "a.txt" }))).collect();
    for id in ids {
        assert_eq!(client.answer_to(id)["result"]["structuredContent"]["content"], "a\n");
    }
}

#[test]
fn appends_at_once_are_all_there() {
    let workspace = Workspace::with(&[("log.txt", "")]);
    let mut client = workspace.serve(&[]);
    let lines: Vec<String> = (10..30).map(|number| format!("line {number}\n")).collect();
    let calls: Vec<i64> = lines
        .iter()
        .map(|line| client.begin_call("append", &json!({ "path": "log.txt", "content": line })))
        .collect();
    for id in calls {
        let answer = client.answer_to(id);
        assert_ne!(answer["result"]["isError"], true, "{answer}");
    }
    let log = std::fs::read_to_string(workspace.path("log.txt")).unwrap();
    let mut found: Vec<&str> = log.split_inclusive('\n').collect();
    found.sort_unstable();
    assert_eq!(found, lines);
}

#[test]
fn a_cancelled_call_stops_and_gets_no_answer() {
    let workspace = with_endless();
    let mut client = workspace.serve(&[]);
    let id = client.begin_call("read", &endless());
    client.call("read", &json!({ "path": "a.txt" }));
    client.tell("notifications/cancelled", &json!({ "requestId": id, "reason": "enough" }));
    client.is_silent_for(Duration::from_millis(500));
    let before = ticks(&client);
    client.is_silent_for(Duration::from_millis(500));
    assert!(ticks(&client) - before <= 2, "it is still at work");
    client.call("read", &json!({ "path": "a.txt" }));
}

#[test]
fn at_the_end_of_stdin_a_running_call_is_ended_and_the_process_exits_with_0() {
    let workspace = with_endless();
    let mut client = workspace.serve(&[]);
    let id = client.begin_call("read", &endless());
    client.call("read", &json!({ "path": "a.txt" }));
    client.hang_up();
    let answer = client.answer_to(id);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(client.ends_within(Duration::from_secs(20)).code(), Some(0));
}

#[test]
fn a_server_that_nobody_greets_exits_with_0() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.start(&[]);
    client.hang_up();
    assert_eq!(client.ends_within(Duration::from_secs(20)).code(), Some(0));
}

#[test]
fn requests_piped_in_at_once_are_all_answered_and_the_last_needs_no_newline() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut process =
        workspace.lbx("", &["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "read", "arguments": { "path": "a.txt" } } }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": { "name": "append", "arguments": { "path": "a.txt", "content": "b\n" } } }),
    ];
    let script = lines.map(|line| line.to_string()).join("\n");
    process.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 3);
    workspace.holds("a.txt", "a\nb\n");
}

#[test]
fn a_client_that_stops_reading_ends_the_server_quietly() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut process = workspace
        .lbx("", &["mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stdout.take());
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let mut stdin = process.stdin.take().unwrap();
    writeln!(stdin, "{ping}").unwrap();
    // Stdin stays open: it is the closed stdout that ends the process.
    let output = process.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn sockets_serve_as_well_as_pipes() {
    let workspace = Workspace::with(&[]);
    let (here, there) = UnixStream::pair().unwrap();
    let stdout = OwnedFd::from(there.try_clone().unwrap());
    let mut process = workspace.lbx("", &["mcp"]).stdin(OwnedFd::from(there)).stdout(stdout).spawn().unwrap();
    let mut answers = BufReader::new(here.try_clone().unwrap()).lines();
    for id in 1..4 {
        let ping = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
        writeln!(&here, "{ping}").unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["id"], id);
    }
    here.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(0));
}
