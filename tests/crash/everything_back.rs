//! Random changes, all undone and all redone.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::Workspace;
use crate::common::random::Random;
use crate::inject::is_thorough;
use crate::judge::{Tree, difference, must_be_tidy, must_equal_tip};

/// Number of changes, unless `LBX_CRASH_ALL` asks for more.
const CHANGES: usize = 60;
/// Number of changes with `LBX_CRASH_ALL`.
const CHANGES_ALL: usize = 200;

/// Returns the seed: from the environment, otherwise a constant, so that a run can be repeated.
fn seed() -> u64 {
    std::env::var("LBX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// Returns the paths of one type, relative to the root.
fn of_type(ws: &Workspace, kind: char) -> Vec<String> {
    let tree = ws.tree();
    let found = tree.iter().filter(|(_, standing)| standing.0 == kind);
    found.map(|(path, _)| path.to_str().unwrap().to_owned()).collect()
}

/// Creates a random tree of files, folders and links.
fn random_tree(random: &mut Random) -> Workspace {
    let ws = Workspace::with(&[("a.txt", "a\nb\nc\n"), ("d/b.txt", "1\n2\n3\n"), ("d/e/c.txt", "x\n")]);
    for number in 0..12 {
        let folder = *random.of(&["", "d/", "d/e/", "f/", "f/g/h/"]);
        let path = format!("{folder}file{number}");
        let lines = random.below(6);
        let text: String = (0..lines).map(|line| format!("line {line} of {number}\n")).collect();
        ws.write(&path, text);
        ws.chmod(&path, *random.of(&[0o644, 0o600, 0o755, 0o640]));
    }
    ws.link("a.txt", "link");
    ws.link("../a.txt", "d/link");
    ws.link("nowhere", "f/dangling");
    std::fs::create_dir_all(ws.path("empty/folder")).unwrap();
    for (folder, mode) in [("empty", 0o750), ("empty/folder", 0o700), ("f", 0o711), ("d/e", 0o750)] {
        ws.chmod(folder, mode);
    }
    ws.write("bytes.bin", [0_u8, 159, 146, 150, 0, 255]);
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-q", "-m", "all"]);
    ws
}

/// Returns a new path, in a folder that may be missing.
fn new_path(random: &mut Random, number: usize) -> String {
    let folder = *random.of(&["", "d/", "new/", "new/deep/", "f/g/", "empty/folder/"]);
    format!("{folder}new{number}")
}

/// Returns a patch that changes, creates and deletes one file each.
fn patch(ws: &Workspace, random: &mut Random, number: usize) -> Option<String> {
    let texts: Vec<String> = of_type(ws, 'f')
        .into_iter()
        .filter(|path| {
            let bytes = ws.read_bytes(path);
            bytes.ends_with(b"\n") && String::from_utf8(bytes).is_ok()
        })
        .collect();
    if texts.len() < 2 {
        return None;
    }
    let changed = random.of(&texts).clone();
    let deleted = random.of(&texts).clone();
    if changed == deleted {
        return None;
    }
    let mut patch = String::from("*** Begin Patch\n");
    let text = String::from_utf8(ws.read_bytes(&changed)).unwrap();
    let first = text.lines().next()?;
    if text.lines().filter(|line| *line == first).count() > 1 {
        return None;
    }
    patch += &format!("*** Update File: {changed}\n@@\n-{first}\n+patched {number}\n");
    patch += &format!("*** Add File: {}\n+added {number}\n", new_path(random, number));
    patch += &format!("*** Delete File: {deleted}\n*** End Patch\n");
    for path in [&changed, &deleted] {
        let _ = ws.lbx(&["read", path]).envelope();
    }
    Some(patch)
}

/// Returns a git patch that renames a file, puts a folder in its place, or creates a symlink.
fn git_patch(ws: &Workspace, random: &mut Random, number: usize) -> Option<String> {
    let files = of_type(ws, 'f');
    let file = random.of(&files).clone();
    let _ = ws.lbx(&["read", &file]).envelope();
    let text = String::from_utf8(ws.read_bytes(&file)).ok()?;
    let new = new_path(random, number);
    Some(match random.below(3) {
        0 => format!(
            "diff --git a/{file} b/{new}\nsimilarity index 100%\nrename from {file}\nrename to {new}\n"
        ),
        1 if text.ends_with('\n') => {
            let lines: Vec<&str> = text.lines().collect();
            let old: String = lines.iter().map(|line| format!("-{line}\n")).collect();
            format!(
                "diff --git a/{file} b/{file}\ndeleted file mode 100644\n--- a/{file}\n+++ /dev/null\n@@ -1,{} +0,0 @@\n{old}\
                 diff --git a/{file}/in b/{file}/in\nnew file mode 100755\n--- /dev/null\n+++ b/{file}/in\n@@ -0,0 +1 @@\n+{number}\n",
                lines.len()
            )
        }
        _ => format!(
            "diff --git a/{new} b/{new}\nnew file mode 120000\n--- /dev/null\n+++ b/{new}\n@@ -0,0 +1 @@\n+other{number}\n\\ No newline at end of file\n"
        ),
    })
}

/// Returns a random request, which may be refused.
fn request(ws: &Workspace, random: &mut Random, number: usize) -> Option<(&'static str, Value)> {
    let files = of_type(ws, 'f');
    let folders = of_type(ws, 'd');
    let file = files.get(random.below(files.len().max(1)))?.clone();
    let text = format!("text {number}\n");
    Some(match random.below(15) {
        0 => ("write", json!({"path": new_path(random, number), "content": text})),
        1 => {
            let _ = ws.lbx(&["read", &file]).envelope();
            ("write", json!({"path": file, "content": text, "mode": *random.of(&["0644", "0700"])}))
        }
        2 | 3 => {
            let _ = ws.lbx(&["read", &file]).envelope();
            let bytes = String::from_utf8(ws.read_bytes(&file)).ok()?;
            let line = bytes.lines().next()?.to_owned();
            ("edit", json!({"path": file, "old_string": line, "new_string": text, "replace_all": true}))
        }
        4 => ("append", json!({"path": file, "content": text})),
        5 => ("prepend", json!({"path": file, "content": text})),
        6 => {
            let _ = ws.lbx(&["read", &file]).envelope();
            ("insert", json!({"path": file, "line": 0, "content": text}))
        }
        7 => ("patch", json!({"patch": patch(ws, random, number)?})),
        8 => ("delete", json!({"path": file})),
        9 if random.below(3) == 0 => {
            ("delete", json!({"path": folders.get(random.below(folders.len().max(1)))?, "recursive": true}))
        }
        9 | 10 => {
            let all: Vec<String> = files.into_iter().chain(folders).chain(of_type(ws, 'l')).collect();
            ("move", json!({"from": random.of(&all), "to": new_path(random, number)}))
        }
        11 | 12 => {
            let trash = ws.lbx(&["trash"]).success();
            let entries = trash["data"]["entries"].as_array()?.clone();
            let entry = entries.get(random.below(entries.len().max(1)))?.clone();
            match random.below(3) {
                0 => ("restore", json!({"trash_id": entry["trash_id"]})),
                1 => ("restore", json!({"path": entry["path"]})),
                _ => ("restore", json!({"trash_id": entry["trash_id"], "to": new_path(random, number)})),
            }
        }
        13 => ("patch", json!({"patch": git_patch(ws, random, number)?})),
        _ => {
            let other = random.of(&files).clone();
            for path in [&file, &other] {
                let _ = ws.lbx(&["read", path]).envelope();
            }
            (
                "edit",
                json!({"paths": [file, other], "old_string": "e", "new_string": "E", "replace_all": true}),
            )
        }
    })
}

/// The tree after each change, with the initial tree first, and the changes.
struct Told {
    /// Trees by number of changes.
    trees: Vec<Tree>,
    /// Calls that lead from each tree to the next.
    calls: Vec<String>,
}

impl Told {
    /// Undoes a few changes, and may redo some of them, in the middle of the run.
    fn undo_and_redo_some(&mut self, ws: &Workspace, random: &mut Random, seed: u64) {
        let steps = 1 + random.below(4.min(self.calls.len()));
        let again = random.below(steps + 1);
        self.undo_or_redo_steps(ws, "undo", steps, self.calls.len() - steps, seed);
        if again > 0 {
            self.undo_or_redo_steps(ws, "redo", again, self.calls.len() - steps + again, seed);
        }
        self.trees.truncate(self.trees.len() - steps + again);
        self.calls.truncate(self.calls.len() - steps + again);
    }

    /// Undoes or redoes many steps in one call, to the tree of that number.
    fn undo_or_redo_steps(&self, ws: &Workspace, tool: &str, steps: usize, to: usize, seed: u64) {
        let answer = ws.lbx(&[tool, "--steps", &steps.to_string()]).envelope();
        assert_eq!(answer["ok"], true, "seed {seed}: {tool} of {steps}: {answer}: {:#?}", self.calls);
        let (wanted, now) = (&self.trees[to], ws.tree());
        let told = &self.calls[to.min(self.calls.len().saturating_sub(steps))..];
        assert!(&now == wanted, "seed {seed}: {tool} of {steps}: {}: {told:#?}", difference(wanted, &now));
    }
}

#[test]
fn undo_and_redo_restore_the_trees_of_random_changes() {
    let seed = seed();
    eprintln!("LBX_SEED={seed}");
    let mut random = Random::new(seed);
    let ws = random_tree(&mut random);
    let first = ws.tree();
    let wanted = if is_thorough() { CHANGES_ALL } else { CHANGES };
    let mut told = Told { trees: vec![first.clone()], calls: Vec::new() };
    for number in 0..wanted * 6 {
        if !told.calls.is_empty() && random.below(12) == 0 {
            told.undo_and_redo_some(&ws, &mut random, seed);
        }
        let Some((tool, request)) = request(&ws, &mut random, number) else { continue };
        let answer = ws.json(tool, &request).envelope();
        let now = ws.tree();
        if answer["ok"] != true {
            let before = told.trees.last().unwrap();
            assert_eq!(&now, before, "seed {seed}: refused, and yet changed: {tool} {request} {answer}");
            assert_ne!(answer["error"]["kind"], "internal", "seed {seed}: {tool} {request} {answer}");
            continue;
        }
        if &now == told.trees.last().unwrap() {
            continue;
        }
        told.trees.push(now);
        told.calls.push(format!("{tool} {request}"));
        if told.calls.len() == wanted {
            break;
        }
    }
    let count = told.calls.len();
    assert!(count > wanted / 2, "seed {seed}: only {count} changes");
    go(&ws, "undo", seed, told.trees.iter().rev().skip(1), &told.calls.iter().rev().collect::<Vec<_>>());
    assert_eq!(ws.lbx(&["undo"]).error("not_found")["path"], Value::Null);
    assert_eq!(ws.tree(), first, "seed {seed}");
    must_equal_tip(&ws).unwrap();
    // All of them at once, in both directions.
    told.undo_or_redo_steps(&ws, "redo", count, count, seed);
    must_equal_tip(&ws).unwrap();
    told.undo_or_redo_steps(&ws, "undo", count, 0, seed);
    must_equal_tip(&ws).unwrap();
    go(&ws, "redo", seed, told.trees.iter().skip(1), &told.calls.iter().collect::<Vec<_>>());
    must_equal_tip(&ws).unwrap();
    must_be_tidy(&ws).unwrap();
}

/// Goes one step at a time, comparing the tree after each.
fn go<'a>(ws: &Workspace, tool: &str, seed: u64, trees: impl Iterator<Item = &'a Tree>, told: &[&String]) {
    for (tree, call) in trees.zip(told) {
        let answer = ws.lbx(&[tool]).envelope();
        assert_eq!(answer["ok"], true, "seed {seed}: {tool} of {call}: {answer}");
        let now = ws.tree();
        assert!(&now == tree, "seed {seed}: {tool} of {call}: {}", difference(tree, &now));
    }
}

#[test]
fn undo_of_delete_restores_times_and_inodes() {
    let ws = Workspace::with(&[("d/a.txt", "a\n")]);
    let stand = |path: &Path| {
        let stat = std::fs::symlink_metadata(path).unwrap();
        (stat.ino(), stat.mtime(), stat.mtime_nsec(), stat.mode())
    };
    let paths: Vec<PathBuf> = ["d", "d/a.txt"].iter().map(|path| ws.path(path)).collect();
    let before: Vec<_> = paths.iter().map(|path| stand(path)).collect();
    ws.lbx(&["delete", "d", "--recursive"]).ok();
    ws.lbx(&["undo"]).ok();
    assert_eq!(paths.iter().map(|path| stand(path)).collect::<Vec<_>>(), before);
}
