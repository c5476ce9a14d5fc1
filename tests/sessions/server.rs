//! A session over MCP: a live `lbx mcp` that can be killed and restarted.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{LBX, Workspace};

/// Time limit of a call, longer than any call takes on a busy machine.
const HANG: Duration = Duration::from_secs(60);

/// A server and the pipes to it.
pub struct Server {
    /// Server process.
    process: Child,
    /// Requests to it.
    stdin: ChildStdin,
    /// Messages from it, until it ends.
    messages: Receiver<Value>,
    /// Responses received but not yet awaited.
    pending: Vec<Value>,
    /// Id of the last request.
    id: u64,
}

impl Server {
    /// Starts a server for a session, and completes the handshake.
    pub fn start(ws: &Workspace, session: &str) -> Self {
        let mut command = Command::new(LBX);
        ws.surround(&mut command);
        command.args(["mcp", "--session", session]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            // A killed server may leave half a line.
            for message in
                stdout.lines().map_while(Result::ok).map_while(|line| serde_json::from_str(&line).ok())
            {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let stdin = process.stdin.take().unwrap();
        let mut server = Self { process, stdin, messages, pending: Vec::new(), id: 0 };
        let client = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let id = server.begin("initialize", &hello);
        assert!(server.response(id).is_some(), "the server does not start");
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    /// Sends a message; a dead server does not receive it.
    fn send(&mut self, message: &Value) {
        let _ = self.stdin.write_all(format!("{message}\n").as_bytes());
    }

    /// Sends a request without waiting, and returns its id.
    fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}));
        self.id
    }

    /// Begins a call of a tool.
    pub fn begin_call(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.begin("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Waits for a response; `None` if the server ended without one.
    pub fn response(&mut self, id: u64) -> Option<Value> {
        if let Some(at) = self.pending.iter().position(|message| message["id"] == id) {
            return Some(self.pending.remove(at));
        }
        loop {
            match self.messages.recv_timeout(HANG) {
                Ok(message) if message["id"] == id => return Some(message),
                Ok(message) => self.pending.push(message),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("no response within {HANG:?}"),
            }
        }
    }

    /// Waits for the result of a call, in the form that the command line gives it.
    pub fn result(&mut self, id: u64) -> Option<Value> {
        let response = self.response(id)?;
        let result = &response["result"];
        assert!(result.is_object(), "{response}");
        let text = result["content"][0]["text"].as_str().unwrap();
        let payload: Value = serde_json::from_str(text).unwrap();
        Some(if result["isError"] == true {
            json!({"ok": false, "error": payload})
        } else {
            json!({"ok": true, "data": payload})
        })
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
