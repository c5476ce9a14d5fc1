//! A client of `lbx mcp` that sends one request after another.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout};

use serde_json::{Value, json};

use crate::common::Call;

/// A server and its client.
pub struct Server {
    /// Server process.
    child: Child,
    /// Stdin of the server, until it is closed.
    to: Option<ChildStdin>,
    /// Stdout of the server.
    from: Lines<BufReader<ChildStdout>>,
    /// Number of requests so far.
    asked: u64,
}

impl Server {
    /// Starts a server and initializes the connection.
    pub fn start(call: Call) -> Self {
        let mut child = call.stdin_never_closes().spawn();
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut server = Self { child, to, from, asked: 0 };
        let client = json!({ "name": "t", "version": "1" });
        let initialize = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        server.ask("initialize", &initialize);
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    /// Returns the result of a tool.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    /// Returns the result of a tool call that must succeed.
    #[track_caller]
    pub fn ok(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{tool} {arguments}: {result:#}");
        result["structuredContent"].clone()
    }

    /// Closes the connection and waits for the server to exit.
    pub fn close(mut self) {
        self.to = None;
        self.child.wait().unwrap();
    }

    /// Sends a message.
    fn send(&mut self, message: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Returns the result of a request.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let line = self.from.next().unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }
}
