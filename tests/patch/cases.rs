//! The case table in `tests/cases/patch/`: the files before, the request, and the result.
//!
//! A line is a JSON object. `name` is its name, and `request` the request. `before` holds files by path: each is a
//! text, `{text, mode}`, `{hex}` bytes or the target of a `{link}`. The result is `after`, `already` if everything is
//! already applied, or `error` with the text that the message `says`. Every file is read first, unless `unread` is
//! true. An applied patch must change nothing when it is repeated, and an undo must revert it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Workspace, in_parallel};

/// A tree as the cases describe it: a mode if it matters, and bytes; `None` for a symlink.
type Tree = BTreeMap<String, (Option<u32>, Vec<u8>)>;

/// Default mode of a file in a case.
const MODE: u32 = 0o644;

/// One line of the table and its workspace.
struct Case {
    /// Line of the table.
    line: Value,
    /// Workspace of the case.
    ws: Workspace,
}

/// Decodes hexadecimal digits.
fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// Returns the tree that a case describes.
fn described(files: &Value) -> Tree {
    let file = |value: &Value| match value {
        Value::String(text) => (Some(MODE), text.clone().into_bytes()),
        value if value["link"].is_string() => (None, value["link"].as_str().unwrap().into()),
        value if value["hex"].is_string() => (Some(MODE), unhex(value["hex"].as_str().unwrap())),
        value => {
            let mode = u32::from_str_radix(value["mode"].as_str().unwrap(), 8).unwrap();
            (Some(mode), value["text"].as_str().unwrap().into())
        }
    };
    files.as_object().unwrap().iter().map(|(path, value)| (path.clone(), file(value))).collect()
}

/// Returns the tree of a workspace; an empty folder has a slash at its end.
fn standing(ws: &Workspace) -> Tree {
    let all = ws.tree();
    let mut tree = Tree::new();
    for (path, (kind, mode, bytes)) in &all {
        let name = path.to_str().unwrap().to_owned();
        match kind {
            'f' => drop(tree.insert(name, (Some(*mode), bytes.clone()))),
            'l' => drop(tree.insert(name, (None, bytes.clone()))),
            _ if all.keys().any(|other| other.parent() == Some(path)) => {}
            _ => drop(tree.insert(name + "/", (None, Vec::new()))),
        }
    }
    tree
}

impl Case {
    /// Creates the workspace of a case.
    fn new(line: &str) -> Self {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let ws = Workspace::bare(&[]);
        fs::create_dir(ws.path(".lbx")).unwrap();
        for (path, (mode, bytes)) in described(&line["before"]) {
            match mode {
                None => ws.link(Path::new(std::str::from_utf8(&bytes).unwrap()), &path),
                Some(mode) => {
                    ws.write(&path, bytes);
                    ws.chmod(&path, mode);
                }
            }
        }
        Self { line, ws }
    }

    /// Returns its name.
    fn name(&self) -> &str {
        self.line["name"].as_str().unwrap()
    }

    /// Returns a line for `batch` that calls `tool`.
    fn call(&self, tool: &str, request: &Value) -> String {
        let mut request = request.clone();
        request["workspace"] = json!(self.ws.root);
        json!({ "tool": tool, "request": request }).to_string() + "\n"
    }

    /// Returns the reads before the patch, the patch, and the patch again.
    fn calls(&self) -> (usize, String) {
        let before = described(&self.line["before"]);
        let is_read = self.line["unread"] != true;
        let files = before.iter().filter(|(_, (mode, _))| mode.is_some() && is_read);
        let read =
            |path: &String| self.call("read", &json!({ "path": path, "binary": "base64", "max_bytes": 0 }));
        let reads: Vec<String> = files.map(|(path, _)| read(path)).collect();
        let patch = self.call("patch", &self.line["request"]);
        (reads.len(), reads.concat() + &patch + &patch)
    }

    /// Returns an error if the answers or the files are wrong.
    fn judge(&self, answer: &Value, again: &Value) -> Result<(), String> {
        let before = described(&self.line["before"]);
        let wanted = self.line.get("after").map_or(before, described);
        let found = standing(&self.ws);
        if found != wanted {
            return Err(format!("leaves {found:?}, not {wanted:?}"));
        }
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        if let Some(kind) = self.line.get("error") {
            let says = self.line["says"].as_array().unwrap();
            let is_said = says.iter().all(|part| message.contains(part.as_str().unwrap()));
            return if &answer["error"]["kind"] == kind && is_said { Ok(()) } else { Err(String::new()) };
        }
        let is_already = |answer: &Value| {
            let files = answer["data"]["files"].as_array();
            files.is_some_and(|files| files.iter().all(|file| file["action"] == "already_applied"))
        };
        let is_right = answer["ok"] == true && is_already(answer) == (self.line["already"] == true);
        if !is_right {
            return Err(String::new());
        }
        // A repeat that names versions is not that of the first call.
        let names_versions = self.line["request"].get("expected_sha256_by_path").is_some();
        let is_repeat = if names_versions && self.line["already"] != true {
            again["error"]["kind"] == "stale_file"
        } else {
            is_already(again)
        };
        if is_repeat { Ok(()) } else { Err(format!("again: {again}")) }
    }
}

/// Returns the answers of `batch` to `calls`, one value per line. Several processes share them.
fn batch(calls: &[String]) -> Vec<Value> {
    let ws = Workspace::bare(&[]);
    let parts: Vec<&[String]> = calls.chunks(calls.len().div_ceil(8)).collect();
    in_parallel(&parts, |part| ws.call(&["batch"]).stdin(part.concat()).run().lines()).concat()
}

#[test]
fn patch_cases_of_the_table_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/patch");
    let text = fs::read_to_string(folder.join("cases.jsonl")).unwrap();
    let cases: Vec<Case> = text.lines().map(Case::new).collect();
    assert!(cases.len() >= 150, "only {} cases", cases.len());
    let calls: Vec<(usize, String)> = cases.iter().map(Case::calls).collect();
    let answers = batch(&calls.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>());
    let mut answers = answers.iter();
    let mut wrong = Vec::new();
    for (case, (reads, _)) in cases.iter().zip(&calls) {
        let (answer, again) = (answers.nth(*reads).unwrap(), answers.next().unwrap());
        if let Err(what) = case.judge(answer, again) {
            wrong.push(format!("{}: {what}\n  {}", case.name(), answer));
        }
    }
    let changed: Vec<&Case> = cases.iter().filter(|case| case.line.get("after").is_some()).collect();
    let undone = batch(&changed.iter().map(|case| case.call("undo", &json!({}))).collect::<Vec<_>>());
    for (case, answer) in changed.iter().zip(undone) {
        if standing(&case.ws) != described(&case.line["before"]) {
            wrong.push(format!("{}: the undo leaves {:?}\n  {answer}", case.name(), standing(&case.ws)));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
