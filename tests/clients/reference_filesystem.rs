//! `--dialect mcp-filesystem` compared with the npm reference server: a recorded session, call by call.

use lbx::dialect;
use serde_json::{Map, Value, json};

use crate::common::Workspace;
use crate::driver::{Sdk, Session, call, drive, text};
use crate::installed::{Clients, script};

/// A recorded session: files, and calls with the documented difference that each shows.
pub struct Recorded {
    /// Files before the session.
    pub files: Map<String, Value>,
    /// Calls of the session.
    pub calls: Vec<Value>,
}

impl Recorded {
    /// Loads the session with a family's tools; each difference that it names is one that the dialect documents.
    pub fn of(dialect: &str) -> Self {
        let path = script("sessions").join(format!("{dialect}.json"));
        let mut recorded: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let Value::Array(calls) = recorded["calls"].take() else { panic!("no calls") };
        let Value::Object(files) = recorded["files"].take() else { panic!("no files") };
        assert!(calls.len() >= 40, "{}", calls.len());
        let listed = dialect::find(dialect).unwrap().differences;
        for differs in calls.iter().filter_map(|call| call["differs"].as_str()) {
            assert!(listed.iter().any(|difference| difference.starts_with(differs)), "{differs}");
        }
        Self { files, calls }
    }

    /// Checks that the answers are equal except where a difference is named, and differ there.
    #[track_caller]
    pub fn compare(&self, theirs: &[String], ours: &[String]) {
        for (number, call) in self.calls.iter().enumerate() {
            let (theirs, ours) = (&theirs[number], &ours[number]);
            let is_same = theirs == ours;
            assert_eq!(is_same, call["differs"].is_null(), "{call}\nreference: {theirs}\nlbx: {ours}");
        }
    }
}

/// Returns the text of an answer without the parts that differ between runs.
fn said(ws: &Workspace, tool: &str, answer: &Value) -> String {
    let said = text(answer);
    let said = match tool {
        // The reference server lists in the order of the disk.
        "list_directory" | "search_files" => sorted(said),
        "directory_tree" => {
            serde_json::from_str(said).map_or(said.to_owned(), |tree| in_order(tree).to_string())
        }
        "get_file_info" => said.lines().filter(|line| !is_time(line)).collect::<Vec<_>>().join("\n"),
        _ => said.to_owned(),
    };
    // A path outside is printed in resolved form.
    let outside = ws.outside.display().to_string();
    let root = ws.root.display().to_string();
    let media = if said.is_empty() { answer["content"].to_string() } else { String::new() };
    let same_text = answer["structured"]["content"] == *text(answer);
    format!("{} {same_text} {said}{media}", answer["is_error"])
        .replace(&root, "$ROOT")
        .replace(&outside, "$OUT")
}

/// Sorts lines.
fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Sorts the entries of a tree.
fn in_order(tree: Value) -> Value {
    match tree {
        Value::Array(list) => {
            let mut list: Vec<Value> = list.into_iter().map(in_order).collect();
            list.sort_by_key(ToString::to_string);
            Value::Array(list)
        }
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, in_order(value))).collect(),
        other => other,
    }
}

/// Returns true if a line holds a time.
fn is_time(line: &str) -> bool {
    ["created: ", "modified: ", "accessed: "].iter().any(|name| line.starts_with(name))
}

/// Returns the answers of a server in the session.
fn answers(
    clients: &Clients,
    recorded: &Recorded,
    command: impl Fn(&Workspace) -> Vec<String>,
) -> Vec<String> {
    let ws = Workspace::bare(&[]);
    for (path, content) in &recorded.files {
        ws.write(path, content.as_str().unwrap());
    }
    let placed = |arguments: &Value| -> Value {
        serde_json::from_str(&arguments.to_string().replace("$ROOT", ws.root.to_str().unwrap())).unwrap()
    };
    let tool = |call: &Value| call["tool"].as_str().unwrap().to_owned();
    let steps = recorded.calls.iter().map(|one| call(&tool(one), &placed(&one["arguments"]))).collect();
    let session = Session::with(command(&ws), &ws, steps);
    let answers = drive(clients, Sdk::PythonHandshake, &[session]).remove(0);
    recorded.calls.iter().zip(&answers).map(|(call, answer)| said(&ws, &tool(call), answer)).collect()
}

#[test]
fn filesystem_dialect_equals_the_reference_server() {
    let Some(clients) = Clients::found() else { return };
    let recorded = Recorded::of("mcp-filesystem");
    let theirs = answers(&clients, &recorded, |ws| {
        let node = clients.node().get_program().to_str().unwrap().to_owned();
        let server = clients.package("server-filesystem/dist/index.js").to_str().unwrap().to_owned();
        vec![node, server, ws.root.to_str().unwrap().to_owned()]
    });
    let ours = answers(&clients, &recorded, |_| {
        [crate::common::LBX, "mcp", "--dialect", "mcp-filesystem"].map(str::to_owned).into()
    });
    recorded.compare(&theirs, &ours);
    assert_eq!(json!(theirs.len()), json!(recorded.calls.len()));
}
