//! A hand-written client: JSON-RPC, one message per line.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::schema;

/// Time limit of an answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Id of lbx's state.
pub const STATE_ID: &str = "5ca1ab1e0ddba11c0ffee15badc0de42";
/// Variables that name a session or a workspace.
const VARIABLES: [&str; 6] = [
    "LBX_SESSION",
    "CLAUDE_CODE_SESSION_ID",
    "CODEX_THREAD_ID",
    "LBX_WORKSPACE",
    "LBX_SANDBOX",
    "LBX_OUTPUT",
];

/// A folder to work in.
pub struct Workspace(TempDir);

impl Workspace {
    /// Creates a workspace with these files.
    pub fn with(files: &[(&str, &str)]) -> Self {
        Self::within(&std::env::temp_dir(), files)
    }

    /// Creates a workspace with these files below `parent`.
    pub fn within(parent: &Path, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir_in(parent).unwrap();
        std::fs::create_dir(folder.path().join(".lbx")).unwrap();
        let workspace = Self(folder);
        for (path, content) in files {
            workspace.write(path, content);
        }
        workspace
    }

    /// Returns the path of a file in it.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Writes a file as another program would.
    pub fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Checks the content of a file.
    #[track_caller]
    pub fn holds(&self, path: &str, content: &str) {
        assert_eq!(std::fs::read_to_string(self.path(path)).unwrap(), content);
    }

    /// Creates a sparse file that takes minutes to hash.
    pub fn write_endless(&self, path: &str) {
        std::fs::File::create(self.path(path)).unwrap().set_len(1 << 37).unwrap();
    }

    /// Returns `lbx` with arguments, in a folder of the workspace.
    pub fn lbx(&self, folder: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lbx"));
        command.args(arguments).current_dir(self.path(folder));
        for name in VARIABLES {
            command.env_remove(name);
        }
        command.env("LBX_STATE_ID", STATE_ID);
        command
    }

    /// Takes the lock that every change of the workspace needs.
    pub fn lock(&self) -> std::fs::File {
        let lock = std::fs::File::create(self.path(".lbx/lock")).unwrap();
        fs2::FileExt::lock_exclusive(&lock).unwrap();
        lock
    }

    /// Starts a server without the handshake.
    pub fn start(&self, options: &[&str]) -> Client {
        Client::of(self.lbx("", &[&["mcp"], options].concat()))
    }

    /// Starts a server and completes the handshake.
    pub fn serve(&self, options: &[&str]) -> Client {
        self.start(options).greeted()
    }
}

/// A server and the pipes to it.
pub struct Client {
    /// Server process.
    pub process: Child,
    /// Stdin of the server.
    stdin: Option<ChildStdin>,
    /// Messages from the server.
    messages: Receiver<Value>,
    /// Messages received but not yet awaited.
    pub pending: Vec<Value>,
    /// Id of the last request.
    id: i64,
    /// Tools that [`Client::ok`] called.
    pub succeeded: BTreeSet<String>,
}

impl Client {
    /// Starts a server.
    pub fn of(mut command: Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines() {
                // Stdout carries MCP only.
                let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
                let mut each =
                    message.as_array().map_or(std::slice::from_ref(&message), Vec::as_slice).iter();
                assert!(each.all(|message| message["jsonrpc"] == "2.0"), "{message}");
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Self {
            stdin: process.stdin.take(),
            process,
            messages,
            pending: Vec::new(),
            id: 0,
            succeeded: BTreeSet::new(),
        }
    }

    /// Completes the handshake.
    pub fn greeted(mut self) -> Self {
        self.greet("2025-11-25");
        self
    }

    /// Completes the handshake; returns the server's description of itself.
    pub fn greet(&mut self, version: &str) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
        let answer = self.ask("initialize", &hello)["result"].clone();
        self.tell("notifications/initialized", &json!({}));
        answer
    }

    /// Sends bytes as they are, and a newline.
    pub fn send(&mut self, line: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_ref()).and_then(|()| stdin.write_all(b"\n")).unwrap();
    }

    /// Sends a notification.
    pub fn tell(&mut self, method: &str, params: &Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    /// Sends a request without waiting; returns its id.
    pub fn begin(&mut self, method: &str, params: &Value) -> i64 {
        self.id += 1;
        let id = self.id;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id
    }

    /// Begins a call of a tool.
    pub fn begin_call(&mut self, tool: &str, arguments: &Value) -> i64 {
        self.begin("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    /// Sends a request and waits for its answer.
    #[track_caller]
    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        self.answer_to(id)
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub fn answer_to(&mut self, id: i64) -> Value {
        self.wait_for(|message| message["id"] == id)
    }

    /// Waits for a message, and keeps the others.
    #[track_caller]
    pub fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.pending.iter().position(&wanted) {
            return self.pending.remove(at);
        }
        loop {
            let message = self.messages.recv_timeout(PATIENCE).unwrap();
            if wanted(&message) {
                return message;
            }
            self.pending.push(message);
        }
    }

    /// Returns the next message, whatever it is.
    #[track_caller]
    pub fn next(&mut self) -> Value {
        self.wait_for(|_| true)
    }

    /// Checks that no message arrives for a while.
    #[track_caller]
    pub fn is_silent_for(&mut self, time: Duration) {
        assert_eq!(self.pending, Vec::<Value>::new());
        assert_eq!(self.messages.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    }

    /// Calls a tool; returns its result.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Calls a tool that must succeed; returns the structured content, which matches the tool's schema and is in the
    /// text as well.
    #[track_caller]
    pub fn ok(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{result}");
        let content = result["structuredContent"].clone();
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, content);
        let declared = self.tools().into_iter().find(|declared| declared["name"] == tool).unwrap();
        schema::check(&content, &declared["outputSchema"]).unwrap();
        // Every form of the answer is checked against the full schema, which the list shortens.
        let entry = lbx::catalog::find(tool).unwrap();
        schema::check(&content, &(entry.response_schema)()).unwrap();
        schema::check(arguments, &declared["inputSchema"]).unwrap();
        self.succeeded.insert(tool.to_owned());
        content
    }

    /// Calls a tool that must fail; returns the error.
    #[track_caller]
    pub fn refused(&mut self, tool: &str, arguments: &Value, kind: &str) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        assert!(result.get("structuredContent").is_none(), "{result}");
        let error: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(error["kind"], kind, "{error}");
        assert!(!error["message"].as_str().unwrap().is_empty());
        assert!(!error["suggested_action"].as_str().unwrap().is_empty());
        error
    }

    /// Returns the answer of `tools/list`.
    #[track_caller]
    pub fn tools(&mut self) -> Vec<Value> {
        self.ask("tools/list", &json!({}))["result"]["tools"].as_array().unwrap().clone()
    }

    /// Closes the server's stdin.
    pub fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Waits for the end of the process.
    #[track_caller]
    pub fn ends_within(&mut self, time: Duration) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < time, "it is still running");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
