//! Every changing tool in many concurrent processes, many of which are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::random::Random;
use crate::common::{Workspace, kill};
use crate::inject::is_thorough;
use crate::judge::{must_be_tidy, must_equal_tip};

/// Number of concurrent processes, and of calls by each.
const CALLS: (u64, usize) = (16, 100);
/// Processes and calls in a quick run.
const CALLS_QUICK: (u64, usize) = (6, 14);
/// Longest time from the start of a call to its kill, in microseconds.
const KILLED_WITHIN: usize = 90_000;

/// Files of a folder, by name.
type Files = BTreeMap<String, String>;

/// A process that calls one tool after another. It changes its own folder, of which it knows each result, and files
/// that all processes share.
struct Caller<'w> {
    /// Shared workspace.
    ws: &'w Workspace,
    /// Number of the process.
    number: u64,
    /// Source of its choices.
    random: Random,
    /// Its folder after each change that was not undone.
    folders: Vec<Files>,
    /// Bytes of its deleted files, by name.
    deleted: Files,
    /// Applied changes, including undone ones and the undos themselves.
    changes: usize,
    /// Lines written to the shared files; true if the call was acknowledged.
    lines: Vec<(String, bool)>,
    /// Snapshots named in its answers.
    snapshots: Vec<String>,
}

impl Caller<'_> {
    /// Returns the name of a session: its own folder has one, so that undo reverts only changes there.
    fn session(&self, what: &str) -> String {
        format!("{what}{}", self.number)
    }

    /// Returns the path of a file in its folder.
    fn own(&self, name: &str) -> String {
        format!("own{}/{name}", self.number)
    }

    /// Returns the files in its folder.
    fn stands(&self) -> Files {
        let Ok(listing) = fs::read_dir(self.ws.path(&format!("own{}", self.number))) else {
            return Files::new();
        };
        let paths = listing.map(|entry| entry.unwrap().path());
        paths
            .map(|path| {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, fs::read_to_string(path).unwrap())
            })
            .collect()
    }

    /// Calls a tool, which may be killed; returns its answer, or `None` if it was killed before it answered.
    fn call(&mut self, tool: &str, session: &str, request: &Value) -> Option<Value> {
        let json = request.to_string();
        let child = self.ws.call(&[tool, "--session", session, "--json", &json]).spawn();
        let is_killed = self.random.below(2) == 0;
        if is_killed {
            let id = child.id();
            std::thread::sleep(Duration::from_micros(self.random.below(KILLED_WITHIN) as u64));
            kill(id);
        }
        let output = child.wait_with_output().unwrap();
        let answer: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        if let Some(answer) = &answer {
            assert_eq!(answer["ok"], true, "{tool} {request}: {answer}");
            self.snapshots.extend(answer["snapshot"].as_str().map(str::to_owned));
        }
        assert!(is_killed || answer.is_some(), "{tool} {request}: no answer");
        answer
    }

    /// Makes a change in its own folder that leads to `after`.
    fn change(&mut self, tool: &str, request: &Value, after: Files) {
        let before = self.folders.last().unwrap().clone();
        assert_ne!(before, after, "{tool} {request}");
        let is_acknowledged = self.call(tool, &self.session("s"), request).is_some();
        if !is_acknowledged {
            // The next call, which has a session of its own, finishes or rolls back what the killed call left.
            self.append();
        }
        let now = self.stands();
        if now == before && !is_acknowledged {
            return;
        }
        assert_eq!(now, after, "{tool} {request}");
        self.changes += 1;
        if tool == "undo" {
            self.folders.pop();
        } else {
            self.folders.push(after);
        }
    }

    /// Appends one line to the shared log, in a call that is not killed.
    fn append(&mut self) {
        let line = format!("process {} line {}", self.number, self.lines.len());
        let session = self.session("shared");
        let content = format!("{line}\n");
        let call = ["append", "log.txt", "--content", &content, "--session", &session];
        let answer = self.ws.lbx(&call).success();
        self.snapshots.extend(answer["snapshot"].as_str().map(str::to_owned));
        self.lines.push((line, true));
    }

    /// Changes a file that all processes share.
    fn share(&mut self) {
        let number = self.lines.len();
        let line = format!("process {} line {number}", self.number);
        let session = self.session("shared");
        let content = format!("{line}\n");
        let answer = match self.random.below(3) {
            0 => self.call("append", &session, &json!({"path": "log.txt", "content": content})),
            1 => self.call("prepend", &session, &json!({"path": "log.txt", "content": content})),
            _ => {
                let _ = self.ws.lbx(&["read", "lines.txt", "--session", &session]).success();
                let old = format!("line {}.{number}.", self.number);
                let new = format!("{old} {line}");
                let request =
                    json!({"path": "lines.txt", "old_string": old, "new_string": new, "rebase": true});
                self.call("edit", &session, &request)
            }
        };
        self.lines.push((line, answer.is_some()));
    }

    /// Reads one of its files.
    fn read_one(&mut self) -> Option<(String, String)> {
        let files: Vec<(String, String)> = self.folders.last()?.clone().into_iter().collect();
        if files.is_empty() {
            return None;
        }
        let (name, text) = self.random.of(&files).clone();
        let path = self.own(&name);
        let _ = self.ws.lbx(&["read", &path, "--session", &self.session("s")]).success();
        Some((name, text))
    }

    /// Calls any tool on any of the files.
    fn step(&mut self, round: usize) -> Option<()> {
        let mut after = self.folders.last()?.clone();
        let (new, text) = (format!("new{round}"), format!("text {round}\n"));
        match self.random.below(12) {
            0 | 1 => {
                after.insert(new.clone(), text.clone());
                self.change("write", &json!({"path": self.own(&new), "content": text}), after);
            }
            2 => {
                let (name, _) = self.read_one()?;
                after.insert(name.clone(), text.clone());
                self.change("write", &json!({"path": self.own(&name), "content": text}), after);
            }
            3 => {
                let (name, old) = self.read_one()?;
                after.insert(name.clone(), format!("{text}{old}"));
                let request = json!({"path": self.own(&name), "line": 0, "content": text});
                self.change("insert", &request, after);
            }
            4 => {
                let (name, old) = self.read_one()?;
                let first = old.lines().next()?.to_owned();
                let edited = old.replacen(&first, &format!("edited {round}"), 1);
                after.insert(name.clone(), edited);
                let request = json!({"path": self.own(&name), "old_string": format!("{first}\n"),
                    "new_string": format!("edited {round}\n"), "start_line": 1, "end_line": 1});
                self.change("edit", &request, after);
            }
            5 => {
                let (gone, _) = self.read_one()?;
                let (other, old) = self.read_one()?;
                if gone == other || old.lines().count() > 1 {
                    return None;
                }
                after.remove(&gone);
                after.insert(other.clone(), text.clone());
                after.insert(new.clone(), text.clone());
                let patch = format!(
                    "*** Begin Patch\n*** Update File: {}\n@@\n-{old}+{text}*** Delete File: {}\n*** Add File: {}\n+{text}*** End Patch\n",
                    self.own(&other),
                    self.own(&gone),
                    self.own(&new)
                );
                self.change("patch", &json!({"patch": patch}), after);
            }
            6 => {
                let (name, bytes) = self.read_one()?;
                after.remove(&name);
                self.deleted.insert(name.clone(), bytes);
                self.change("delete", &json!({"path": self.own(&name)}), after);
            }
            7 => {
                let trash = self.ws.lbx(&["trash"]).success();
                let entries = trash["data"]["entries"].as_array()?.clone();
                let folder = self.own("");
                let entry = entries.iter().find(|entry| {
                    let name = entry["path"].as_str().unwrap().strip_prefix(&folder);
                    name.is_some_and(|name| !after.contains_key(name))
                })?;
                let name = entry["path"].as_str()?.strip_prefix(&folder)?.to_owned();
                after.insert(name.clone(), self.deleted.get(&name)?.clone());
                self.change("restore", &json!({"path": self.own(&name)}), after);
            }
            8 => {
                let (name, bytes) = self.read_one()?;
                after.remove(&name);
                after.insert(new.clone(), bytes);
                self.change("move", &json!({"from": self.own(&name), "to": self.own(&new)}), after);
            }
            9 => {
                let before = self.folders.len().checked_sub(2)?;
                let before = self.folders[before].clone();
                self.change("undo", &json!({}), before);
            }
            _ => self.share(),
        }
        Some(())
    }
}

#[test]
fn concurrent_killed_calls_lose_and_tear_nothing() {
    let (processes, calls) = if is_thorough() { CALLS } else { CALLS_QUICK };
    let shared: Vec<String> = (0..processes)
        .flat_map(|process| (0..calls * 3).map(move |number| format!("line {process}.{number}.")))
        .collect();
    let ws = Workspace::with(&[("log.txt", "start\n"), ("lines.txt", &(shared.join("\n") + "\n"))]);
    let callers: Vec<Caller<'_>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..processes)
            .map(|number| {
                let ws = &ws;
                scope.spawn(move || {
                    let mut caller = Caller {
                        ws,
                        number,
                        random: Random::new(number * 7919 + 1),
                        folders: vec![Files::new()],
                        deleted: Files::new(),
                        changes: 0,
                        lines: Vec::new(),
                        snapshots: Vec::new(),
                    };
                    for round in 0..calls {
                        // A step that finds nothing to work on is skipped.
                        let _ = caller.step(round);
                    }
                    caller
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let _ = ws.lbx(&["append", "log.txt", "--content", "end\n", "--session", "last"]).success();
    let log = String::from_utf8(ws.read_bytes("log.txt")).unwrap();
    let edited = String::from_utf8(ws.read_bytes("lines.txt")).unwrap();
    let mut told = BTreeSet::new();
    let mut changes = 1;
    for caller in &callers {
        assert_eq!(&caller.stands(), caller.folders.last().unwrap(), "own{}", caller.number);
        changes += caller.changes;
        for (line, is_acknowledged) in &caller.lines {
            let in_log = log.lines().filter(|other| other == line).count();
            let in_lines = edited.lines().filter(|other| other.ends_with(&format!(". {line}"))).count();
            assert!(in_log + in_lines <= 1, "{line} stands twice");
            assert!(in_log + in_lines == 1 || !is_acknowledged, "{line} is lost");
            changes += in_log + in_lines;
        }
        for id in &caller.snapshots {
            assert!(told.insert(id.clone()), "{id} was told twice");
            ws.git(&["merge-base", "--is-ancestor", id, "lbx-snapshots"]);
        }
    }
    assert_eq!(edited.lines().count(), shared.len());
    let snapshots = ws.snapshots();
    assert_eq!(snapshots.len(), changes, "one snapshot a change: {snapshots:#?}");
    assert!(told.len() > callers.len(), "hardly a call lived");
    must_equal_tip(&ws).unwrap();
    must_be_tidy(&ws).unwrap();
}
