//! Random changes of one session in a few folders. Any number of them, undone at once, leads to the tree from before
//! them, and a redo to the tree after all of them.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::common::Workspace;
use crate::common::random::Random;
use crate::judge::Tree;
use crate::number;

/// Number of changes of a history.
const CHANGES: usize = 12;
/// Folders that the changes name; not all of them exist.
const FOLDERS: [&str; 9] = ["empty", "empty/folder", "d", "d/e", "f", "n", "n/m", "d/n", "f/n"];
/// Modes of some folders that the history begins with.
const MODES: [(&str, u32); 4] = [("empty", 0o750), ("empty/folder", 0o700), ("f", 0o711), ("d/e", 0o750)];

/// A random history.
struct History {
    /// Workspace of the history.
    ws: Workspace,
    /// Source of the choices.
    random: Random,
    /// Paths that were deleted, and may be in the trash.
    deleted: BTreeSet<String>,
    /// Tree at the beginning, and after each change.
    trees: Vec<Tree>,
    /// Changes so far, for messages.
    steps: Vec<String>,
}

impl History {
    /// Starts with four folders and three files.
    fn new(seed: usize) -> Self {
        let ws = Workspace::with(&[("d/b.txt", "1\n"), ("f/c.txt", "2\n"), ("d/e/x", "3\n")]);
        ws.user_policy("gate = \"off\"\n");
        fs::create_dir_all(ws.path("empty/folder")).unwrap();
        MODES.iter().for_each(|(folder, mode)| ws.chmod(folder, *mode));
        let (trees, steps) = (vec![ws.tree()], vec![format!("LBX_RANDOM_SEED={seed}")]);
        Self { ws, random: Random::new(seed as u64), deleted: BTreeSet::new(), trees, steps }
    }

    /// Returns an entry of the tree, of one kind or of any.
    fn existing(&mut self, kinds: &str) -> Option<String> {
        let tree = self.trees.last().unwrap();
        let found: Vec<_> = tree.iter().filter(|(_, (kind, ..))| kinds.contains(*kind)).collect();
        (!found.is_empty()).then(|| self.random.of(&found).0.to_str().unwrap().to_owned())
    }

    /// Returns a random request.
    fn request(&mut self) -> Option<(&'static str, Value)> {
        let (folder, n) = (*self.random.of(&FOLDERS), self.random.below(1000));
        let new = format!("{folder}{}", self.random.of(&["", "/a", "/b"]));
        Some(match self.random.below(30) {
            0..6 => {
                let path = format!("{folder}/{}", self.random.of(&["a", "b", "c"]));
                ("write", json!({"path": path, "content": format!("{n}\n")}))
            }
            6..11 => ("move", json!({"from": self.existing("dfl")?, "to": new})),
            11 => {
                let old = self.existing("f")?;
                let patch = format!("diff --git a/{old} b/{new}\nrename from {old}\nrename to {new}\n");
                ("patch", json!({ "patch": patch }))
            }
            12..16 => {
                let path = self.existing("dffl")?;
                self.deleted.insert(path.clone());
                ("delete", json!({"path": path, "recursive": true}))
            }
            16 => ("append", json!({"path": self.existing("f")?, "content": format!("{n}\n")})),
            17 => ("mkdir", json!({ "path": new })),
            18 => {
                let path = self.existing("f")?;
                let old = fs::read_to_string(self.ws.path(&path)).ok()?;
                (
                    "edit",
                    json!({"path": path, "old_string": old.lines().next()?, "new_string": n.to_string()}),
                )
            }
            20..30 => {
                ("bash", json!({"command": self.command(&new)?, "transaction": self.random.below(2) == 0}))
            }
            _ => {
                let deleted: Vec<_> = self.deleted.iter().cloned().collect();
                ("restore", json!({"path": deleted.get(self.random.below(deleted.len()))?}))
            }
        })
    }

    /// Returns a random command line.
    fn command(&mut self, new: &str) -> Option<String> {
        let n = self.random.below(1000);
        let any = self.existing("dffl")?;
        Some(match self.random.below(9) {
            0 => format!("rm -rf {any}"),
            1 => format!("mv {any} {new}"),
            2 => format!("mkdir -p {new} && echo {n} > {new}/a"),
            3 => format!("ln -s {n} {new}"),
            4 => format!("rm -rf {any}; ln -s d {any}"),
            5 => format!("chmod {} {any}", self.random.of(&["700", "755", "711"])),
            6 => format!("mkdir -p {new}"),
            7 => format!("rm -rf {any}; mkdir {any}; echo {n} > {any}/b"),
            _ => format!("rm -rf {any}; echo {n} > {any}"),
        })
    }

    /// Makes a random call, which may be refused, and then changes nothing. Packs the history now and then.
    fn step(&mut self) {
        if self.random.below(6) == 0 {
            self.pack();
        }
        let Some((tool, request)) = self.request() else { return };
        let answer = self.ws.json(tool, &request);
        let (now, before) = (self.ws.tree(), self.trees.last().unwrap());
        if now == *before {
            return;
        }
        self.steps.push(format!("{tool} {request}"));
        assert!(answer.status() == 0, "refused, but changed:\n{}", self.story());
        self.trees.push(now);
    }

    /// Undoes and redoes the last changes, more of them each time.
    fn check(&self) {
        let last = self.trees.len() - 1;
        for first in (0..last).rev() {
            if first % 4 == 0 {
                self.pack();
            }
            for (tool, wanted) in [("undo", first), ("redo", last)] {
                let answer = self.ws.json(tool, &json!({"steps": last - first}));
                let what =
                    || format!("{tool} of {}: {}\n{}", last - first, answer.stdout_text(), self.story());
                assert!(answer.status() == 0, "{}", what());
                assert!(self.ws.tree() == self.trees[wanted], "another tree after {}", what());
            }
        }
    }

    /// Packs the history.
    fn pack(&self) {
        let answer = self.ws.json("gc", &json!({}));
        assert!(answer.status() == 0, "{}", answer.stdout_text());
    }

    /// Returns the changes so far.
    fn story(&self) -> String {
        self.steps.join("\n")
    }
}

#[test]
fn any_number_of_changes_undone_at_once_leads_to_the_tree_before_them() {
    let (histories, seed) = (number("LBX_HISTORIES", 3), number("LBX_RANDOM_SEED", 1));
    for seed in seed..seed + histories {
        let mut history = History::new(seed);
        // Some calls are refused.
        for _ in 0..3 * CHANGES {
            if history.trees.len() <= CHANGES {
                history.step();
            }
        }
        assert!(history.trees.len() > CHANGES / 2, "most calls were refused:\n{}", history.story());
        history.check();
    }
}
