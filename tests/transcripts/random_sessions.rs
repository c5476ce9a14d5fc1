//! Random calls of three sessions, with others' edits in between: no undo, redo or rewind takes what others wrote,
//! and the trash holds what it says.
//!
//! `LBX_RANDOM_CALLS=5000` makes so many calls; `LBX_RANDOM_SEED` repeats a run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::random::Random;
use crate::common::{STATE_ID, Workspace};

/// Calls of an ordinary run.
const CALLS: usize = 240;
/// Calls in one workspace.
const IN_ONE_WORKSPACE: usize = 60;
/// How a line begins that another program wrote.
const OUTSIDE: &str = "outside-";
/// Names that the calls use.
const NAMES: [&str; 9] = ["a", "b", "d", "d/a", "d/e", "d/e/f", "g", "g/h", "ignored"];

/// A number that the environment may set.
fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The lines of other programs in the files of a workspace, each with how often it is there.
fn lines_of_others(ws: &Workspace) -> Vec<String> {
    let files = ws.tree().into_values().filter(|(kind, ..)| *kind == 'f');
    let lines = files.flat_map(|(_, _, bytes)| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.lines().filter(|line| line.starts_with(OUTSIDE)).map(str::to_owned).collect::<Vec<_>>()
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

/// What the files below a path of the state come to: their number and bytes.
fn sum_of(path: &Path) -> (u64, u64) {
    let Ok(stat) = fs::symlink_metadata(path) else { return (0, 0) };
    if !stat.is_dir() {
        return (1, if stat.is_file() { stat.len() } else { 0 });
    }
    let inner = fs::read_dir(path).unwrap().map(|entry| sum_of(&entry.unwrap().path()));
    inner.fold((0, 0), |sum, (files, bytes)| (sum.0 + files, sum.1 + bytes))
}

/// A random run in one workspace.
struct Run {
    /// The workspace.
    ws: Workspace,
    /// What chooses.
    random: Random,
    /// The calls so far, for messages.
    calls: Vec<String>,
    /// How many edits of others there were.
    edits: usize,
    /// Their lines that a session has overwritten or deleted knowingly: what does that again is no loss.
    spent: BTreeSet<String>,
}

impl Run {
    /// One of the names.
    fn name(&mut self) -> &'static str {
        NAMES[self.random.below(NAMES.len())]
    }

    /// Another program writes a line of its own.
    fn meddle(&mut self) {
        let name = self.name();
        let path = self.ws.path(name);
        self.edits += 1;
        let line = format!("{OUTSIDE}{}\n", self.edits);
        let is_folder = path.is_dir();
        let file: PathBuf = if is_folder { path.join(format!("o{}", self.edits % 3)) } else { path };
        if file.parent().is_some_and(Path::is_dir) && !file.is_dir() {
            let old = fs::read_to_string(&file).unwrap_or_default();
            fs::write(&file, old + &line).unwrap();
            self.calls.push(format!("{} gets {line:?}", file.display()));
        }
    }

    /// A random request, and whether it takes back or does again what was done.
    fn request(&mut self) -> (&'static str, Value, bool) {
        let (p, q, n) = (self.name(), self.name(), self.random.below(1000));
        match self.random.below(20) {
            0 | 1 => ("write", json!({"path": p, "content": format!("{n}\n")}), false),
            2 | 3 => ("append", json!({"path": p, "content": format!("more {n}\n")}), false),
            4 => ("edit", json!({"path": p, "old_string": "more", "new_string": "less"}), false),
            5 | 6 => ("delete", json!({"path": p, "recursive": true}), false),
            7 | 8 => ("restore", json!({ "path": p }), false),
            9 | 10 => ("move", json!({"from": p, "to": q}), false),
            11 => ("mkdir", json!({ "path": p }), false),
            12 => ("bash", json!({"command": format!("echo {n} >> {p}; rm -rf {q}")}), false),
            13 => ("undo", json!({"steps": 1 + self.random.below(4)}), true),
            14 => ("redo", json!({"steps": 1 + self.random.below(3)}), true),
            15 => ("undo", json!({"seq": 1 + self.random.below(9)}), true),
            16 => ("undo", json!({"path": p}), true),
            17 => ("undo", json!({"merge": true}), true),
            18 => ("rewind", json!({"id": format!("HEAD~{}", self.random.below(4)), "yes": true}), true),
            _ => ("undo", json!({}), true),
        }
    }

    /// Makes a call and judges its answer.
    fn call(&mut self) {
        let session = ["one", "two", "three"][self.random.below(3)];
        let (tool, mut request, is_replay) = self.request();
        request["session"] = session.into();
        if matches!(tool, "write" | "edit") {
            let _ = self.ws.json("read", &json!({"path": request["path"], "session": session})).envelope();
        }
        let before = lines_of_others(&self.ws);
        let answer = self.ws.json(tool, &request).envelope();
        self.calls.push(format!("{tool} {request}: {answer}"));
        let said = answer["data"].to_string();
        assert!(!said.contains(STATE_ID), "names the state: {}", self.story());
        let after: BTreeSet<String> = lines_of_others(&self.ws).into_iter().collect();
        let gone: Vec<String> = before.into_iter().filter(|line| !after.contains(line)).collect();
        if is_replay {
            let lost: Vec<&String> = gone.iter().filter(|line| !self.spent.contains(*line)).collect();
            assert!(lost.is_empty(), "takes {lost:?} of others: {}", self.story());
        } else {
            self.spent.extend(gone);
        }
        self.judge_trash();
    }

    /// Every entry of the trash holds what it says.
    fn judge_trash(&self) {
        let listed = self.ws.json("trash", &json!({"limit": 0})).success()["data"]["entries"].take();
        for entry in listed.as_array().unwrap() {
            let id = entry["trash_id"].as_str().unwrap();
            let content = self.ws.path(&crate::common::state(&format!("trash/{id}/content")));
            let said = (entry["files"].as_u64().unwrap(), entry["bytes"].as_u64().unwrap());
            let holds = sum_of(&content);
            assert!(
                holds.0 == 0 || holds == said,
                "{id} says {said:?} and holds {holds:?}: {}",
                self.story()
            );
        }
    }

    /// The calls so far, a line each.
    fn story(&self) -> String {
        self.calls.join("\n")
    }
}

#[test]
fn no_undo_takes_what_others_wrote_and_the_trash_holds_what_it_says() {
    let (calls, seed) = (number("LBX_RANDOM_CALLS", CALLS), number("LBX_RANDOM_SEED", 1));
    for round in 0..calls.div_ceil(IN_ONE_WORKSPACE) {
        let ws =
            Workspace::with(&[("a", "a\n"), ("d/a", "da\n"), ("d/e/f", "f\n"), (".gitignore", "ignored\n")]);
        ws.user_policy("");
        let random = Random::new((seed + round) as u64);
        let mut run = Run {
            ws,
            random,
            calls: vec![format!("seed {}", seed + round)],
            edits: 0,
            spent: BTreeSet::new(),
        };
        for _ in 0..IN_ONE_WORKSPACE {
            if run.random.below(4) == 0 {
                run.meddle();
            }
            run.call();
        }
        let doctor = run.ws.lbx(&["doctor"]).success()["data"].take();
        assert_eq!(doctor["healthy"], true, "{doctor}: {}", run.story());
    }
}
