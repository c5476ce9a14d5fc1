//! Whose turn it is: calls that come together take effect in the order in which they came.
//!
//! A client may send a read of a file and an edit of it, or two edits, without waiting for the first answer. Changes
//! are made one after the other anyway, under the workspace's lock; here they are in the order of the requests, and
//! reads, searches and commands wait for the changes before them: a name says little of what a call reaches, which
//! may lie behind a link or in a folder that moves. A change waits for the reads before it. Nothing waits for a
//! search or a command, which may take long.

use std::sync::Arc;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};

/// What a tool does, as far as its turn depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It reads files that the call names.
    Reads,
    /// It changes files.
    Changes,
    /// Anything else: searches, and commands, which may run for long.
    Other,
}

/// What the tool of a name does.
pub type AccessByTool = Arc<dyn Fn(&str) -> Access + Send + Sync>;

/// What a call waits for, and what waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It waits for nothing: it is no call of a tool here.
    Any,
    /// It reads files.
    Read,
    /// It changes files.
    Change,
    /// It searches, or runs a command.
    Search,
}

impl Turn {
    /// That of a message.
    #[must_use]
    pub fn of(message: &ClientJsonRpcMessage, accesses: &AccessByTool) -> Self {
        let JsonRpcMessage::Request(request) = message else { return Self::Any };
        let ClientRequest::CallToolRequest(call) = &request.request else { return Self::Any };
        // What is in a container is changed there, which may take long.
        let named = call.params.arguments.as_ref().and_then(|fields| fields.get("sandbox"));
        if named.is_some_and(|name| name.as_str() != Some("")) {
            return Self::Any;
        }
        match accesses(&call.params.name) {
            Access::Changes => Self::Change,
            Access::Reads => Self::Read,
            Access::Other => Self::Search,
        }
    }

    /// Whether a call that came earlier must have ended.
    #[must_use]
    pub const fn waits_for(self, earlier: Self) -> bool {
        matches!(
            (self, earlier),
            (Self::Change | Self::Read | Self::Search, Self::Change) | (Self::Change, Self::Read)
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The turn of a call; the tool's name says what it does.
    fn turn(tool: &str, arguments: &Value) -> Turn {
        let accesses: AccessByTool = Arc::new(|name| match name {
            "read" => Access::Reads,
            "bash" => Access::Other,
            _ => Access::Changes,
        });
        let message = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": arguments }
        });
        Turn::of(&serde_json::from_value(message).unwrap(), &accesses)
    }

    #[test]
    fn a_call_waits_for_the_changes_before_it_and_a_change_for_the_reads() {
        let read = turn("read", &json!({ "path": "./src/a.rs", "limit": 5 }));
        let edit = turn("edit", &json!({ "path": "src/a.rs", "old_string": "x", "new_string": "y" }));
        let undo = turn("undo", &json!({ "sandbox": "" }));
        let elsewhere = turn("edit", &json!({ "path": "src/a.rs", "sandbox": "box" }));
        let bash = turn("bash", &json!({ "command": "cat src/a.rs" }));
        for (later, earlier, waits) in [
            (edit, read, true),
            (read, edit, true),
            (undo, edit, true),
            (undo, read, true),
            (bash, edit, true),
            (read, read, false),
            (read, bash, false),
            (bash, read, false),
            (bash, bash, false),
            (edit, bash, false),
            (elsewhere, edit, false),
            (edit, elsewhere, false),
        ] {
            assert_eq!(later.waits_for(earlier), waits, "{later:?} after {earlier:?}");
        }
    }
}
