//! Plays a client: calls the hooks as it would, and writes as its own tools do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{Answer, Workspace};

/// Flags of a hook that waits longer than a client would: a busy machine is not what is tested.
pub const PATIENCE: [&str; 2] = ["--set", "guard.timeout_ms=60000"];

/// One agent of Claude Code.
pub struct Player<'w> {
    /// Workspace.
    pub ws: &'w Workspace,
    /// Session, as the hooks name it.
    pub session: String,
    /// Name of the turn.
    turn: String,
    /// Number of calls so far.
    calls: usize,
    /// True if its hooks wait as long as the policy says.
    pub is_hasty: bool,
}

impl<'w> Player<'w> {
    /// Returns an agent.
    pub fn new(ws: &'w Workspace, session: &str) -> Self {
        Self { ws, session: session.to_owned(), turn: String::new(), calls: 0, is_hasty: false }
    }

    /// Sends an event; returns the client's JSON, or null.
    pub fn event(&self, name: &str, fields: &Value) -> Value {
        let answer = self.send(name, fields);
        assert_eq!(answer.status(), 0, "{name}: {}", answer.stderr());
        let text = answer.stdout_text();
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }
    }

    /// Sends an event; returns the answer of lbx.
    pub fn send(&self, name: &str, fields: &Value) -> Answer {
        let mut event = json!({
            "hook_event_name": name, "session_id": "conversation", "prompt_id": self.turn, "cwd": self.ws.root,
        });
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let mut words = vec!["hook", "claude-code", "--session", &self.session];
        words.extend(if self.is_hasty { &[][..] } else { &PATIENCE });
        self.ws.lbx_stdin(&words, event.to_string())
    }

    /// Begins a turn.
    pub fn prompt(&mut self, text: &str) {
        self.turn = format!("turn of {text}");
        assert_eq!(self.event("UserPromptSubmit", &json!({ "prompt": text })), Value::Null);
    }

    /// Ends the turn; returns the line for the user.
    pub fn stop(&self) -> Option<String> {
        self.event("Stop", &json!({}))["systemMessage"].as_str().map(str::to_owned)
    }

    /// Begins a call; returns the reason if a hook denies it.
    pub fn before(&mut self, tool: &str, input: &Value) -> Result<Open, String> {
        self.calls += 1;
        let (tool, input, id) = (tool.to_owned(), input.clone(), format!("call-{}", self.calls));
        let open = Open { tool, input, id, output: json!({}) };
        let said = self.event("PreToolUse", &open.fields());
        let output = &said["hookSpecificOutput"];
        if output["permissionDecision"] == "deny" {
            return Err(output["permissionDecisionReason"].as_str().unwrap().to_owned());
        }
        Ok(open)
    }

    /// Ends a call.
    pub fn after(&self, open: &Open) -> Value {
        self.event("PostToolUse", &open.fields())
    }

    /// Makes a call whose tool does `work`.
    pub fn call(&mut self, tool: &str, input: &Value, work: impl FnOnce()) -> Result<(), String> {
        let open = self.before(tool, input)?;
        work();
        self.after(&open);
        Ok(())
    }

    /// Reads a file with the client's own tool.
    pub fn read(&mut self, path: &str) {
        self.call("Read", &json!({ "file_path": self.ws.path(path) }), || {}).unwrap();
    }

    /// Writes a file with the client's own tool.
    pub fn write(&mut self, path: &str, text: &str) -> Result<(), String> {
        let file = self.ws.path(path);
        self.call("Write", &json!({ "file_path": file, "content": text }), || write(&file, text))
    }

    /// Replaces a text with the client's own tool.
    pub fn edit(&mut self, path: &str, old: &str, new: &str) -> Result<(), String> {
        let file = self.ws.path(path);
        let input = json!({ "file_path": file, "old_string": old, "new_string": new });
        self.call("Edit", &input, || {
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replacen(old, new, 1)).unwrap();
        })
    }

    /// Runs a command in the client's own shell.
    pub fn bash(&mut self, command: &str) {
        let root = self.ws.root.clone();
        self.call("Bash", &json!({ "command": command }), || shell(&root, command)).unwrap();
    }
}

/// A call that has begun.
pub struct Open {
    /// Tool.
    tool: String,
    /// Arguments.
    input: Value,
    /// The client's name for it.
    id: String,
    /// Result of the tool.
    output: Value,
}

impl Open {
    /// Returns the fields of its events.
    pub fn fields(&self) -> Value {
        let output = &self.output;
        json!({ "tool_name": self.tool, "tool_input": self.input, "tool_use_id": self.id, "tool_response": output })
    }

    /// Sets the result of the tool.
    pub fn saying(self, output: &Value) -> Self {
        Self { output: output.clone(), ..self }
    }
}

/// Writes a file as another program does, with the folders above it.
pub fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// Runs a command as another program does.
pub fn shell(root: &PathBuf, command: &str) {
    let status = Command::new("sh").args(["-c", command]).current_dir(root).stdin(Stdio::null()).status();
    assert!(status.unwrap().success(), "{command}");
}
