//! Calls of lbx's own tools, in the files of the dialects' transcripts.

use serde_json::{Value, json};

/// Returns calls of each tool, in an order in which all of them succeed.
pub fn native_calls() -> Vec<(&'static str, Value)> {
    let patch = "--- a/n.txt\n+++ b/n.txt\n@@ -1 +1 @@\n-n\n+m\n";
    vec![
        ("read", json!({ "path": "a.txt" })),
        ("read", json!({ "paths": ["a.txt", "none.txt"] })),
        ("edit", json!({ "path": "a.txt", "old_string": "two", "new_string": "2", "why": "digits" })),
        ("write", json!({ "path": "n.txt", "content": "n\n" })),
        ("patch", json!({ "patch": patch })),
        ("append", json!({ "path": "n.txt", "content": "last\n" })),
        ("prepend", json!({ "path": "n.txt", "content": "first\n" })),
        ("insert", json!({ "path": "n.txt", "line": 1, "content": "second\n" })),
        ("section", json!({ "path": "d.md", "header": "# D", "create": true, "content": "d\n" })),
        ("grep", json!({ "pattern": "main", "output_mode": "files" })),
        ("grep", json!({ "pattern": "two", "context": 1 })),
        ("glob", json!({ "pattern": "**/*.rs" })),
        ("ls", json!({ "long": true })),
        ("bash", json!({ "command": "echo out; exit 3" })),
        ("move", json!({ "from": "n.txt", "to": "m.txt" })),
        ("delete", json!({ "path": "m.txt" })),
        ("restore", json!({ "path": "m.txt" })),
        ("undo", json!({})),
        ("redo", json!({})),
        ("log", json!({ "limit": 2 })),
        ("diff", json!({})),
        ("audit", json!({ "limit": 2 })),
        ("session", json!({})),
    ]
}
