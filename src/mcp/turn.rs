//! Whose turn it is: calls that come together take effect in the order in which they came, as far as that can
//! be seen.
//!
//! A client may send a read of a file and an edit of it, or two edits, without waiting for the first answer.
//! Changes are made one after the other anyway, under the workspace's lock; here they are in the order of
//! the requests. A read and a change of a file of the same name keep their order too. Nothing else waits.

use std::path::Path;
use std::sync::Arc;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use serde_json::Value;

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

/// Bytes of a text that may be a path; of a longer one only the lines count that may head a patch.
const PATH_BYTES_MAX: usize = 4096;
/// How the lines of a patch begin that name its files.
const HEADERS: [&str; 5] = ["*** ", "--- ", "+++ ", "diff ", "rename "];

/// What a call waits for, and what waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// It waits for nothing.
    Any,
    /// A read of files of these names.
    Read(Vec<String>),
    /// A change whose request has these texts.
    Change(Vec<String>),
}

impl Turn {
    /// That of a message.
    #[must_use]
    pub fn of(message: &ClientJsonRpcMessage, accesses: &AccessByTool) -> Self {
        let JsonRpcMessage::Request(request) = message else { return Self::Any };
        let ClientRequest::CallToolRequest(call) = &request.request else { return Self::Any };
        let mut texts = Vec::new();
        for (name, value) in call.params.arguments.iter().flatten() {
            // What is in a container is changed there, which may take long.
            if name == "sandbox" {
                return Self::Any;
            }
            collect(value, &mut texts);
        }
        match accesses(&call.params.name) {
            Access::Changes => Self::Change(texts),
            Access::Reads => Self::Read(texts.iter().filter_map(|text| file_name(text)).collect()),
            Access::Other => Self::Any,
        }
    }

    /// Whether a call that came earlier must have ended.
    #[must_use]
    pub fn waits_for(&self, earlier: &Self) -> bool {
        let is_named =
            |name: &String, texts: &[String]| texts.iter().any(|text| text.contains(name.as_str()));
        match (self, earlier) {
            (Self::Change(_), Self::Change(_)) => true,
            // What names no file, as an undo, may change any.
            (Self::Read(names), Self::Change(texts)) => {
                texts.is_empty() || names.iter().any(|name| is_named(name, texts))
            }
            (Self::Change(texts), Self::Read(names)) => names.iter().any(|name| is_named(name, texts)),
            (Self::Any, _) | (_, Self::Any) | (Self::Read(_), Self::Read(_)) => false,
        }
    }
}

/// Adds the texts of a request that may name files.
fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) if text.len() <= PATH_BYTES_MAX => texts.push(text.clone()),
        Value::String(text) => {
            let is_header = |line: &&str| HEADERS.iter().any(|header| line.starts_with(header));
            let lines = text.lines().filter(is_header).filter(|line| line.len() <= PATH_BYTES_MAX);
            texts.extend(lines.map(str::to_owned));
        }
        Value::Array(list) => list.iter().for_each(|item| collect(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The last name of a path, which is the same from wherever the path counts.
fn file_name(path: &str) -> Option<String> {
    Path::new(path).file_name()?.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn a_read_and_a_change_of_one_file_and_all_changes_keep_their_order() {
        let read = turn("read", &json!({ "path": "./src/a.rs", "limit": 5 }));
        let other = turn("read", &json!({ "paths": ["b.rs", "c.rs"] }));
        let edit = turn("edit", &json!({ "path": "src/a.rs", "old_string": "x", "new_string": "y" }));
        let long = format!("--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1 +1 @@\n-x\n+y\n{}", " b.rs\n".repeat(2000));
        let patch = turn("patch", &json!({ "patch": long }));
        let undo = turn("undo", &json!({ "steps": 2 }));
        let elsewhere = turn("edit", &json!({ "path": "src/a.rs", "sandbox": "box" }));
        let bash = turn("bash", &json!({ "command": "cat src/a.rs" }));
        for (later, earlier, waits) in [
            (&edit, &read, true),
            (&read, &edit, true),
            (&patch, &read, true),
            (&read, &patch, true),
            (&read, &undo, true),
            (&edit, &patch, true),
            (&undo, &edit, true),
            (&edit, &other, false),
            (&other, &edit, false),
            (&other, &patch, false),
            (&read, &read, false),
            (&undo, &read, false),
            (&bash, &edit, false),
            (&elsewhere, &edit, false),
            (&edit, &elsewhere, false),
            (&edit, &bash, false),
        ] {
            assert_eq!(later.waits_for(earlier), waits, "{later:?} after {earlier:?}");
        }
    }
}
