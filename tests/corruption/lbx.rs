//! The calls of lbx: each tool on every file, in one process.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::cells::{ADDED, Change, Encoding, File, NEW, OLD};
use super::checked::{self, Fate};
use super::common::Workspace;

/// A row of the table: a change and the calls that make it.
pub struct Deed {
    /// Name in the table.
    pub name: &'static str,
    /// Expected change.
    pub change: Change,
    /// Calls to make; the answer of the last one counts.
    calls: fn(&str) -> Vec<(&'static str, Value)>,
    /// Encodings that are refused because they cannot hold the text.
    pub refuses: &'static [Encoding],
}

/// Encodings whose files are shown and searched as bytes, and not edited.
const BINARY: &[Encoding] = &[Encoding::Nul];

/// All rows.
pub const DEEDS: &[Deed] = &[
    Deed {
        name: "read",
        change: Change::Nothing,
        calls: |path| vec![("read", json!({ "path": path }))],
        refuses: BINARY,
    },
    Deed {
        name: "write",
        change: Change::Whole,
        calls: |path| vec![("write", json!({ "path": path, "content": format!("{NEW}\n") }))],
        refuses: BINARY,
    },
    Deed {
        name: "edit, one line",
        change: Change::Line,
        calls: |path| vec![("edit", json!({ "path": path, "old_string": OLD, "new_string": NEW }))],
        refuses: BINARY,
    },
    Deed {
        name: "edit, two lines",
        change: Change::Lines,
        calls: |path| {
            let (old, new) = (format!("{OLD}\n## After\n"), format!("{NEW}\n## Later\n"));
            vec![("edit", json!({ "path": path, "old_string": old, "new_string": new }))]
        },
        refuses: BINARY,
    },
    Deed {
        name: "edit, flexible",
        change: Change::Line,
        calls: |path| {
            let (old, new) = (format!("## Before  \n{OLD}\t\n"), format!("## Before\n{NEW}\n"));
            vec![("edit", json!({ "path": path, "old_string": old, "new_string": new, "match": "flexible" }))]
        },
        refuses: BINARY,
    },
    Deed {
        name: "patch, unified",
        change: Change::Line,
        calls: |path| vec![("patch", json!({ "patch": unified(path) }))],
        refuses: BINARY,
    },
    Deed {
        name: "patch, Codex",
        change: Change::Line,
        calls: |path| {
            let head = format!("*** Begin Patch\n*** Update File: {path}\n@@\n");
            let patch = format!("{head} ## Before\n-{OLD}\n+{NEW}\n ## After\n*** End Patch\n");
            vec![("patch", json!({ "patch": patch }))]
        },
        refuses: BINARY,
    },
    Deed {
        name: "append",
        change: Change::Append,
        calls: |path| vec![("append", json!({ "path": path, "content": format!("{ADDED}\n") }))],
        refuses: &[],
    },
    Deed {
        name: "prepend",
        change: Change::Prepend,
        calls: |path| vec![("prepend", json!({ "path": path, "content": format!("{ADDED}\n") }))],
        refuses: &[],
    },
    Deed {
        name: "insert",
        change: Change::Insert,
        calls: |path| vec![("insert", json!({ "path": path, "line": 2, "content": format!("{ADDED}\n") }))],
        refuses: BINARY,
    },
    Deed {
        name: "section",
        change: Change::Body,
        calls: |path| {
            vec![("section", json!({ "path": path, "header": "Before", "content": format!("{NEW}\n") }))]
        },
        refuses: &[],
    },
    Deed {
        name: "move, and back",
        change: Change::Nothing,
        calls: |path| {
            vec![
                ("move", json!({ "from": path, "to": "elsewhere/moved" })),
                ("move", json!({ "from": "elsewhere/moved", "to": path })),
            ]
        },
        refuses: &[],
    },
    Deed {
        name: "delete, restore",
        change: Change::Nothing,
        calls: |path| vec![("delete", json!({ "path": path })), ("restore", json!({ "path": path }))],
        refuses: &[],
    },
    Deed {
        name: "append, undo",
        change: Change::Nothing,
        calls: |path| vec![("append", json!({ "path": path, "content": "x\n" })), ("undo", json!({}))],
        refuses: &[],
    },
    Deed {
        name: "undo, redo",
        change: Change::Append,
        calls: |path| {
            let append = ("append", json!({ "path": path, "content": format!("{ADDED}\n") }));
            vec![append, ("undo", json!({})), ("redo", json!({}))]
        },
        refuses: &[],
    },
];

/// Returns a unified diff of the addressed line.
pub fn unified(path: &str) -> String {
    format!("--- a/{path}\n+++ b/{path}\n@@ -2,3 +2,3 @@\n ## Before\n-{OLD}\n+{NEW}\n ## After\n")
}

/// Returns the outcome of one row for each file, with the kinds of the errors.
pub fn fates(deed: &Deed, files: &[File]) -> Vec<(File, Fate, String)> {
    let ws = Workspace::bare(&[]);
    checked::fill(&ws, files);
    let mut requests = String::new();
    for (file, number) in files.iter().zip(0..) {
        let path = file.path();
        // A session per file, so that its state is small.
        let session = format!("file-{number}");
        let read = json!({ "path": path, "session": session });
        let _ = writeln!(requests, "{}", json!({ "tool": "read", "request": read }));
        for (tool, mut request) in (deed.calls)(&path) {
            request["session"] = json!(session);
            let _ = writeln!(requests, "{}", json!({ "tool": tool, "id": number, "request": request }));
        }
    }
    // Snapshots are not part of the matrix, and would take most of the time.
    let output = ws.call(&["batch", "--set", "snapshot.enabled=false"]).stdin(requests).spawn();
    let output = output.wait_with_output().unwrap();
    let mut kinds: BTreeMap<usize, String> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        let Some(number) = answer["id"].as_u64() else { continue };
        let kind = answer["error"]["kind"].as_str().unwrap_or_default().to_owned();
        kinds.insert(usize::try_from(number).unwrap(), kind);
    }
    let found = files.iter().enumerate().map(|(number, file)| {
        let kind = kinds.get(&number).cloned().unwrap_or_default();
        let fate = checked::fate(&ws, *file, &file.content.after(deed.change), !kind.is_empty());
        (*file, fate, kind)
    });
    let found = found.collect();
    assert_eq!(checked::strays(&ws, files), Vec::<std::path::PathBuf>::new(), "{}", deed.name);
    found
}
