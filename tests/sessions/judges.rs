//! Checks of a run: each fails with the steps that led to it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::calls::is_ok;
use crate::common::state;
use crate::judge::{Tree, difference, must_be_tidy, must_equal_tip};
use crate::model::Request;
use crate::{IGNORED, OUTSIDE, Outcome, Run};

/// Returns the lines of other programs in the files of a tree, sorted.
fn lines_of_others(tree: &Tree) -> BTreeSet<String> {
    let files = tree.values().filter(|(kind, ..)| *kind == 'f');
    let lines = files.flat_map(|(_, _, bytes)| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.lines().filter(|line| line.starts_with(OUTSIDE)).map(str::to_owned).collect::<Vec<_>>()
    });
    lines.collect()
}

/// Returns the number and total size of the files below a path of the state.
fn sum_of(path: &Path) -> (u64, u64) {
    let Ok(stat) = fs::symlink_metadata(path) else { return (0, 0) };
    if !stat.is_dir() {
        return (1, if stat.is_file() { stat.len() } else { 0 });
    }
    let inner = fs::read_dir(path).unwrap().map(|entry| sum_of(&entry.unwrap().path()));
    inner.fold((0, 0), |sum, (files, bytes)| (sum.0 + files, sum.1 + bytes))
}

impl Run {
    /// Checks that the call that reverses the last one of its session leads to the tree before.
    pub fn check_reversal(&self, before: &Tree, request: &Request, response: &Value) {
        let is_step_back = request.tool == "undo" && request.arguments.get("steps").is_some();
        let (tool, arguments) = if is_step_back {
            ("redo", json!({"steps": response["data"]["undone"].as_array().unwrap().len()}))
        } else if request.is_replay {
            return;
        } else {
            ("undo", json!({}))
        };
        let back = Request { tool, arguments, is_replay: true, ..request.clone() };
        let (copy, responses) = self.rehearse(&[&back]);
        let (left, now) = (self.ws.tree(), copy.tree());
        // A redo applies again a change whose undo had no effect, because others had undone it already. It also leaves
        // a folder that the undo had to create.
        let is_excused = |path: &PathBuf| {
            let (old, undone) = (before.get(path), left.get(path));
            tool == "redo" && (old == undone || (old.is_none() && undone.is_some_and(|entry| entry.0 == 'd')))
        };
        let is_back = |path: &PathBuf| before.get(path) == now.get(path) || is_excused(path);
        assert!(
            before.keys().chain(now.keys()).all(is_back),
            "{tool} answers {} and leads to another tree: {}\n{}",
            responses[0],
            difference(before, &now),
            self.story()
        );
    }

    /// Checks that the tree and the responses are those of one of the outcomes.
    pub fn must_be_one_of(
        &self,
        before: &Tree,
        outcomes: &[Outcome],
        found: &[Option<bool>],
        requests: &[&Request],
    ) {
        let now = self.ws.tree();
        // A call without a response may have taken effect or not; a call with a response has.
        let fits = |outcome: &Outcome| {
            outcome.is_ok.iter().zip(found).all(|(expected, found)| found.is_none() || expected == found)
        };
        if outcomes.iter().any(|outcome| outcome.tree == now && fits(outcome)) {
            return;
        }
        if requests.iter().any(|request| request.tool == "bash") {
            // A command runs on a layer, without the lock: its changes are merged file by file (DESIGN B4).
            let is_known = |path: &PathBuf| {
                let trees = outcomes.iter().map(|outcome| &outcome.tree).chain([before]);
                trees.map(|tree| tree.get(path)).any(|entry| entry == now.get(path))
            };
            let strange: Vec<&PathBuf> = now.keys().filter(|path| !is_known(path)).collect();
            assert!(strange.is_empty(), "{strange:?}: {}", self.story());
            return;
        }
        let told: Vec<String> = outcomes
            .iter()
            .map(|outcome| format!("{:?}: {}", outcome.is_ok, difference(&outcome.tree, &now)))
            .collect();
        panic!(
            "{found:?} is no outcome of an order:\n{}\nbefore: {}\n{}",
            told.join("\n"),
            difference(before, &now),
            self.story()
        );
    }

    /// Checks that the tree is one of these.
    pub fn must_equal(&self, wanted: &[(&str, &Tree)], now: &Tree) {
        if wanted.iter().any(|(_, tree)| *tree == now) {
            return;
        }
        let told: Vec<String> =
            wanted.iter().map(|(name, tree)| format!("{name} -> now: {}", difference(tree, now))).collect();
        panic!("another tree:\n{}\n{}", told.join("\n"), self.story());
    }

    /// Notes the lines that two calls at once may remove and bring back: a later redo removes them again.
    pub fn note_passing(&mut self, before: &Tree, outcomes: &[Outcome], requests: &[&Request]) {
        if requests.iter().all(|request| request.is_replay) {
            return;
        }
        let lines = lines_of_others(before);
        for outcome in outcomes {
            self.spent.extend(lines.difference(&lines_of_others(&outcome.tree)).cloned());
        }
    }

    /// Checks that no line of another program is lost, unless a call removed it knowingly.
    pub fn judge_lines(&mut self, before: &Tree, replay_only: bool) {
        let after = lines_of_others(&self.ws.tree());
        let gone: Vec<String> = lines_of_others(before).difference(&after).cloned().collect();
        if replay_only {
            let lost: Vec<&String> = gone.iter().filter(|line| !self.spent.contains(*line)).collect();
            assert!(lost.is_empty(), "takes {lost:?} of others: {}", self.story());
        } else {
            self.spent.extend(gone);
        }
    }

    /// Checks that every trash entry holds the files that it lists.
    pub fn judge_trash(&self) {
        let listed = self.ws.json("trash", &json!({"limit": 0})).success()["data"]["entries"].take();
        for entry in listed.as_array().unwrap() {
            let id = entry["trash_id"].as_str().unwrap();
            let content = self.ws.path(&state(&format!("trash/{id}/content")));
            let said = (entry["files"].as_u64().unwrap(), entry["bytes"].as_u64().unwrap());
            let holds = sum_of(&content);
            assert!(
                holds.0 == 0 || holds == said,
                "{id} says {said:?} and holds {holds:?}: {}",
                self.story()
            );
        }
    }

    /// Checks that no temporary file is left at the end, and that the records and the repository are valid.
    pub fn judge_end(&self) {
        let doctor = self.ws.lbx(&["doctor"]).success()["data"].take();
        let audit = self.ws.lbx(&["audit", "--verify"]).envelope();
        assert!(is_ok(&audit), "{audit}: {}", self.story());
        // It takes the lock, and so removes what a call left that was killed before it had an entry.
        let _ = self.ws.lbx(&["snapshot"]).success();
        if self.names.contains(&IGNORED) {
            self.ws.git(&["fsck", "--strict", "--no-dangling"]);
        } else {
            must_equal_tip(&self.ws).unwrap_or_else(|what| panic!("{what}: {}", self.story()));
        }
        if !self.is_disturbed {
            assert_eq!(doctor["healthy"], true, "{doctor}: {}", self.story());
            must_be_tidy(&self.ws).unwrap_or_else(|left| panic!("{left}: {}", self.story()));
        }
    }
}
