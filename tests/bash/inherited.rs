//! A command gets three descriptors, whatever its caller left open.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{Workspace, skipped};
use crate::support::all_backends;

/// Calls a program with a locked file, a folder, a socket and a pipe open as descriptors 50 to 53. When it ends, it
/// prints if the lock is free and if the pipe has ended.
const CALLER: &str = r#"
import fcntl, os, socket, subprocess, sys
folder, file, *call = sys.argv[1:]
locked = os.open(file, os.O_RDWR)
fcntl.flock(locked, fcntl.LOCK_EX)
reader, writer = os.pipe()
pair = socket.socketpair()
given = [locked, os.open(folder, os.O_RDONLY), pair[0].fileno(), writer]
for number, descriptor in enumerate(given):
    os.dup2(descriptor, 50 + number, inheritable=True)
    os.close(descriptor)
pair[0].detach()
ran = subprocess.run(call, input=sys.stdin.buffer.read(), stdout=subprocess.PIPE, pass_fds=range(50, 54))
sys.stdout.buffer.write(ran.stdout)
sys.stdout.flush()
for number in range(50, 54):
    os.close(number)
os.set_blocking(reader, False)
try:
    fcntl.flock(os.open(file, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert os.read(reader, 1) == b""
    pair[1].setblocking(False)
    assert pair[1].recv(1) == b""
    print("free")
except BlockingIOError:
    print("held")
"#;

/// Lists the descriptors of a process that the shell starts.
const LIST: &str = "ls /proc/$$/fd > $TMPDIR/fds; tr '\\n' ' ' < $TMPDIR/fds";

/// Calls lbx with open descriptors; returns its output and the last line of the caller.
fn called(ws: &Workspace, arguments: &[&str], stdin: &str) -> Option<(String, String)> {
    let held = ws.outside.join("held");
    std::fs::write(&held, "").unwrap();
    let mut command = Command::new("python3");
    command.args(["-c", CALLER]).arg(&ws.outside).arg(&held).arg(env!("CARGO_BIN_EXE_lbx")).args(arguments);
    command.env("HOME", ws.outside.join("home")).env("LBX_STATE_ID", crate::common::STATE_ID);
    command.current_dir(&ws.root);
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = started else {
        skipped("no python3");
        return None;
    };
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), stdin.as_bytes()).unwrap();
    drop(child.stdin.take());
    let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let (answer, end) = output.trim_end().rsplit_once('\n').unwrap();
    Some((answer.to_owned(), end.to_owned()))
}

/// Returns the data of the last answer in an output.
fn data(output: &str) -> Value {
    let answer: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    assert_eq!(answer["ok"], true, "{answer:#}");
    answer["data"].clone()
}

#[test]
fn commands_inherit_only_stdin_stdout_and_stderr() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for backend in all_backends() {
        let setting = format!("bash.backend={backend}");
        for direct in [true, false] {
            let request = json!({ "command": LIST, "direct": direct }).to_string();
            let Some((output, _)) = called(&ws, &["bash", "--set", &setting, "--json", "-"], &request) else {
                return;
            };
            assert_eq!(data(&output)["stdout"], "0 1 2 ", "{backend}");
        }
    }
}

#[test]
fn sandbox_processes_inherit_no_open_files_of_the_caller() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let command = "readlink /proc/[0-9]*/fd/* | grep -cE 'held$' || true";
    for backend in crate::support::backends() {
        let setting = format!("bash.backend={backend}");
        let Some((output, _)) = called(&ws, &["bash", "--direct", "--set", &setting, command], "") else {
            return;
        };
        assert_eq!(data(&output)["stdout"], "0\n", "{backend}");
    }
}

#[test]
fn job_inherits_no_lock_and_no_pipe() {
    for backend in all_backends() {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        let setting = format!("bash.backend={backend}");
        let command = format!("{LIST}; sleep 60");
        let Some((output, end)) = called(&ws, &["bash", "-b", "--set", &setting, &command], "") else {
            return;
        };
        let job = data(&output)["job"].as_str().unwrap().to_owned();
        assert_eq!(end, "free", "{backend}");
        let stopped = ws.lbx(&["bash", "--job", &job, "--stop"]).success();
        assert_eq!(stopped["data"]["output"], "0 1 2 ", "{backend}: {stopped:#}");
    }
}

#[test]
fn mcp_commands_inherit_only_stdin_stdout_and_stderr() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let client = json!({ "name": "t", "version": "1" });
    let start = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let call = json!({ "name": "bash", "arguments": { "command": LIST } });
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }),
    ];
    let stdin: String = messages.iter().map(|message| format!("{message}\n")).collect();
    let Some((output, end)) = called(&ws, &["mcp"], &stdin) else { return };
    let answers = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let answer = answers.into_iter().find(|answer| answer["id"] == 2).unwrap();
    assert_eq!(answer["result"]["structuredContent"]["stdout"], "0 1 2 ", "{answer:#}");
    assert_eq!(end, "free");
}
