//! Checks of a workspace after a kill.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Standing, Workspace, state};

/// Time limit of a call after a kill.
const NEXT_CALL: Duration = Duration::from_secs(5);
/// File to which the next call appends, which is not part of any change.
const OTHER: &str = "other.txt";

/// Files, folders and links of a workspace by path.
pub type Tree = BTreeMap<PathBuf, Standing>;

/// The workspace before and after a change.
pub struct Sides {
    /// Tree before.
    pub before: Tree,
    /// Tree after.
    pub after: Tree,
    /// Number of snapshots before.
    pub snapshots: usize,
    /// HEAD and index of git, which no change touches.
    pub git: Vec<Vec<u8>>,
}

impl Sides {
    /// Returns both sides of a change, which is made in a copy of `ws`.
    pub fn of(ws: &Workspace, call: &[&str]) -> Self {
        let copy = ws.copy();
        let _ = copy.lbx(call).success();
        let (before, after) = (ws.tree(), copy.tree());
        assert_ne!(before, after, "{call:?}");
        Self { before, after, snapshots: ws.snapshots().len(), git: git_files(ws) }
    }

    /// Checks that each file is either completely old or completely new.
    pub fn must_be_whole(&self, ws: &Workspace) -> Result<(), String> {
        let now = ws.tree();
        for path in now.keys().chain(self.before.keys()).chain(self.after.keys()) {
            let stands = now.get(path);
            let kind = |tree: &Tree| tree.get(path).map(|standing| standing.0);
            if stands.is_none() && kind(&self.before) != kind(&self.after) {
                // A file and a folder cannot be swapped atomically.
                continue;
            }
            if stands != self.before.get(path) && stands != self.after.get(path) {
                return Err(format!("{} is torn: {}", path.display(), shown(stands)));
            }
        }
        Ok(())
    }

    /// Checks that the next calls work and leave the change done or not done, complete, with at most one snapshot, and
    /// no temporary files. Returns true if it is done.
    pub fn must_be_settled(&self, ws: &Workspace) -> Result<bool, String> {
        let begun = Instant::now();
        let read = ws.lbx(&["read", OTHER, "--session", "next"]).envelope();
        expect_ok(&read)?;
        let appended = ws.lbx(&["append", OTHER, "--content", "next\n", "--session", "next"]).envelope();
        expect_ok(&appended)?;
        if begun.elapsed() > NEXT_CALL * 2 {
            return Err(format!("the next calls took {:?}", begun.elapsed()));
        }
        let is_done = self.is_done(ws)?;
        must_be_tidy(ws)?;
        if git_files(ws) != self.git {
            return Err("HEAD or the index has changed".to_owned());
        }
        let wanted = self.snapshots + 1 + usize::from(is_done);
        let found = ws.snapshots();
        if found.len() != wanted {
            return Err(format!("{} snapshots instead of {wanted}: {found:?}", found.len()));
        }
        must_equal_tip(ws)?;
        Ok(is_done)
    }

    /// Returns true if the change is done; fails if it is partly done.
    fn is_done(&self, ws: &Workspace) -> Result<bool, String> {
        let mut now = ws.tree();
        let (mut before, mut after) = (self.before.clone(), self.after.clone());
        for tree in [&mut now, &mut before, &mut after] {
            tree.remove(Path::new(OTHER));
        }
        if now == after {
            Ok(true)
        } else if now == before {
            Ok(false)
        } else {
            Err(format!("neither done nor undone; before -> now: {}", difference(&before, &now)))
        }
    }
}

/// Checks that an answer is a success without a warning.
fn expect_ok(envelope: &Value) -> Result<(), String> {
    if envelope["ok"] == true && envelope.get("warnings").is_none() {
        Ok(())
    } else {
        Err(format!("the next call answers {envelope}"))
    }
}

/// Returns the differences between two trees, for a message.
pub fn difference(one: &Tree, other: &Tree) -> String {
    let mut paths: Vec<&PathBuf> =
        one.keys().chain(other.keys()).filter(|path| one.get(*path) != other.get(*path)).collect();
    paths.sort();
    paths.dedup();
    let lines: Vec<String> = paths
        .into_iter()
        .map(|path| format!("{}: {} -> {}", path.display(), shown(one.get(path)), shown(other.get(path))))
        .collect();
    lines.join("; ")
}

/// Describes the entry at a path, for a message.
fn shown(standing: Option<&Standing>) -> String {
    match standing {
        None => "nothing".to_owned(),
        Some((kind, mode, bytes)) => {
            let text: String = String::from_utf8_lossy(bytes).chars().take(40).collect();
            format!("{kind} {mode:o} {text:?}")
        }
    }
}

/// Returns HEAD and index, byte for byte.
fn git_files(ws: &Workspace) -> Vec<Vec<u8>> {
    ["HEAD", "index"].iter().map(|name| fs::read(ws.path(".git").join(name)).unwrap()).collect()
}

/// Checks that no temporary file, open entry or git lock is left.
pub fn must_be_tidy(ws: &Workspace) -> Result<(), String> {
    let mut left = Vec::new();
    for path in files_below(&ws.root) {
        let name = path.strip_prefix(&ws.root).unwrap().display().to_string();
        let is_left = name.contains(".lbx-tmp-")
            || name.starts_with(&state("staging/"))
            || name.starts_with(&state("journal/open/"))
            || name.starts_with(&state("journal/stuck/"))
            || (name.starts_with(".git/") && has_extension(&path, "lock"));
        if is_left {
            left.push(name);
        }
    }
    if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}")) }
}

/// Returns true if a path has that extension.
fn has_extension(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found == ending)
}

/// Returns every file below a folder.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found
}

/// Checks that the newest snapshot is what git would record of the work tree, in a valid repository.
pub fn must_equal_tip(ws: &Workspace) -> Result<(), String> {
    let index = ws.outside.join("index-of-test");
    for arguments in [&["add", "-A"][..], &["write-tree"]] {
        let output = ws.git_command(arguments).env("GIT_INDEX_FILE", &index).output().unwrap();
        if !output.status.success() {
            return Err(format!("git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)));
        }
        if arguments == ["write-tree"] {
            let tree = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if tree != ws.git(&["rev-parse", "lbx-snapshots^{tree}"]) {
                let what = ws.git(&["diff", "--name-status", "lbx-snapshots", &tree]);
                return Err(format!("the newest snapshot is not what stands: {what}"));
            }
        }
    }
    let _ = fs::remove_file(index);
    let output = ws.git_command(&["fsck", "--strict", "--no-dangling"]).output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() && said.trim().is_empty() { Ok(()) } else { Err(format!("git fsck: {said}")) }
}
