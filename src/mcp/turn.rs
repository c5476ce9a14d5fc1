//! Order of calls: calls that arrive together take effect in the order in which they arrived.
//!
//! A client may send a read of a file and an edit of it, or two edits, without waiting for the first response. The
//! workspace's lock runs changes one by one; this module also keeps them in the order of the requests. Reads, searches
//! and commands wait for earlier changes, whatever their paths: a path shows little of what a call reaches, which may
//! be behind a link or in a folder that moves. A change waits for earlier reads. Nothing waits for a search or a
//! command, which may take long.

use std::sync::Arc;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};

/// Effect of a tool that matters for the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads files that the call names.
    Reads,
    /// Changes files.
    Changes,
    /// Any other effect: searches, and commands, which may run for long.
    Other,
}

/// Function from a tool's name to its effect.
pub type AccessByTool = Arc<dyn Fn(&str) -> Access + Send + Sync>;

/// Ordering rule: the calls that a call waits for, and that wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Waits for nothing: not a tool call in this workspace.
    Any,
    /// Reads files.
    Read,
    /// Changes files.
    Change,
    /// Searches, or runs a command.
    Search,
}

impl Turn {
    /// Returns the ordering rule for a message.
    #[must_use]
    pub fn of(message: &ClientJsonRpcMessage, accesses: &AccessByTool) -> Self {
        let JsonRpcMessage::Request(request) = message else { return Self::Any };
        let ClientRequest::CallToolRequest(call) = &request.request else { return Self::Any };
        // Files in a container are changed there, which may take long.
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

    /// Returns true if this call must wait for the end of an earlier one.
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

    /// Returns the ordering rule of a call; the tool's name is its effect.
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
