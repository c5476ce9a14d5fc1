//! Diffs as lbx and git write them, parsed and applied: they give the tree after, and in reverse the tree before.
//! Trees, names and changes are random; a failure prints the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lbx::text::diff::{DiffSide, FileDiff};
use lbx::text::patch::{
    FileAction, FileForm, FileOutcome, OriginalFile, PatchOptions, PlanOptions, SymlinkMode, compose,
    is_symlink, parse,
};

use crate::common::Workspace;
use crate::common::random::Random;

/// A tree: the mode and bytes of each path.
type Tree = BTreeMap<Vec<u8>, (u32, Vec<u8>)>;

/// A file of a tree.
type Entry<'t> = (&'t Vec<u8>, &'t (u32, Vec<u8>));

/// Number of trees compared in memory.
const SEEDS: u64 = 1500;
/// Number of trees for which git is called.
const SEEDS_FOR_GIT: u64 = 60;

/// Lines of a diff about a symlink and an executable that are deleted.
const MODES_LOST_BY_GIT: [&[u8]; 2] = [b"deleted file mode 120000", b"deleted file mode 100755"];

/// Names that are hard to write and to read; none is a parent folder of another.
const NAMES: &[&[u8]] = &[
    b"a",
    b"b c",
    b"d/e",
    b"d/f g/h",
    "\u{e4}\u{1f600}".as_bytes(),
    b"tab\tin it",
    b"quote\"in it",
    b"back\\slash",
    b"line\nfeed",
    b"\xff\xfe",
    b"-dash",
    b" blank first",
    b"blank last ",
    b"x b/x",
    b"b/x",
    b"i/w/c",
    b"dev/null",
    b"return\rin it",
    b"2024-01-01",
    b"of 2024-01-01",
];

impl Random {
    /// Returns true once in `end` times on average.
    fn one_in(&mut self, end: usize) -> bool {
        self.below(end) == 0
    }

    /// Returns a line, out of a few so that they repeat, with its ending.
    fn line(&mut self, ending: usize) -> Vec<u8> {
        let mut line = match self.below(12) {
            0 => Vec::new(),
            1 => b"\xff\xfe".to_vec(),
            2 => b"-- x".to_vec(),
            3 => b"++ y ".to_vec(),
            4 => b"@@ -1 +1 @@".to_vec(),
            5 => b"\\ No newline at end of file".to_vec(),
            6 => b"diff --git a/a b/a".to_vec(),
            7 => b"return\rin it".to_vec(),
            _ => format!("line {}", self.below(9)).into_bytes(),
        };
        let is_crlf = if ending == 2 { self.one_in(2) } else { ending == 1 };
        line.extend_from_slice(if is_crlf { b"\r\n" } else { b"\n" });
        line
    }

    /// Returns the content of a file.
    fn content(&mut self) -> Vec<u8> {
        let ending = self.below(3);
        let mut content: Vec<u8> = (0..self.below(25)).flat_map(|_| self.line(ending)).collect();
        match self.below(8) {
            0 => content.clear(),
            1 => content.extend_from_slice(b"no\0text"),
            2 | 3 => content.truncate(content.trim_ascii_end().len()),
            _ => {}
        }
        content
    }

    /// Returns `content` with lines changed, added and removed. Their endings are those of the content: without context
    /// a line feed becomes the ending of all lines of the file.
    fn edited(&mut self, content: &[u8]) -> Vec<u8> {
        let lines = || content.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        let is_crlf = |line: &[u8]| line.ends_with(b"\r\n");
        let ending = match (lines().any(is_crlf), lines().all(is_crlf)) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        };
        let mut after = Vec::new();
        for line in content.split_inclusive(|byte| *byte == b'\n') {
            match self.below(9) {
                0 => {}
                1 => after.extend(self.line(ending)),
                2 => after.extend([line, &self.line(ending)].concat()),
                _ => after.extend_from_slice(line),
            }
        }
        if self.one_in(6) && after.last() == Some(&b'\n') {
            after.pop();
        }
        after
    }

    /// Returns a file or, sometimes, a symlink.
    fn file(&mut self) -> (u32, Vec<u8>) {
        match self.below(7) {
            0 => (0o120_000, format!("target {}", self.below(9)).into_bytes()),
            1 => (0o100_755, self.content()),
            _ => (0o100_644, self.content()),
        }
    }

    /// Returns `file` after an edit, a mode change or both.
    fn changed(&mut self, file: &(u32, Vec<u8>)) -> (u32, Vec<u8>) {
        let (mode, bytes) = file;
        if is_symlink(*mode) {
            return (*mode, format!("target {}", self.below(9)).into_bytes());
        }
        let mode = if self.one_in(3) { mode ^ 0o111 } else { *mode };
        let bytes = if self.one_in(4) { bytes.clone() } else { self.edited(bytes) };
        (mode, bytes)
    }
}

/// Two trees, and the renames between them.
struct Change {
    /// Tree before.
    before: Tree,
    /// Tree after.
    after: Tree,
    /// Old paths by new path.
    renamed: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Change {
    /// Returns the change for `seed`.
    fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut before = Tree::new();
        for name in NAMES {
            if random.one_in(3) {
                before.insert(name.to_vec(), random.file());
            }
        }
        let mut change = Self { before: before.clone(), after: before, renamed: BTreeMap::new() };
        change.swap_two(&mut random);
        for (path, file) in change.before.clone() {
            if change.renamed.values().any(|from| *from == path) {
                continue;
            }
            match random.below(6) {
                0 => drop(change.after.remove(&path)),
                1 => drop(change.after.insert(path, random.changed(&file))),
                2 => drop(change.after.insert(path, random.file())),
                3 => change.rename(&path, &mut random),
                _ => {}
            }
        }
        for name in NAMES {
            if !change.before.contains_key(*name) && !change.after.contains_key(*name) && random.one_in(8) {
                change.after.insert(name.to_vec(), random.file());
            }
        }
        change
    }

    /// Sometimes swaps two files.
    fn swap_two(&mut self, random: &mut Random) {
        let paths: Vec<Vec<u8>> = self.before.keys().cloned().collect();
        if paths.len() < 2 || !random.one_in(4) {
            return;
        }
        let at = random.below(paths.len() - 1);
        let (one, two) = (&paths[at], &paths[at + 1]);
        for (from, to) in [(one, two), (two, one)] {
            self.after.insert(to.clone(), random.changed(&self.before[from]));
            self.renamed.insert(to.clone(), from.clone());
        }
    }

    /// Renames a file to a name that is free in both trees.
    fn rename(&mut self, path: &[u8], random: &mut Random) {
        let is_free = |name: &&&[u8]| !self.before.contains_key(**name) && !self.after.contains_key(**name);
        let Some(name) = NAMES.iter().find(is_free) else { return };
        let file = self.after.remove(path).unwrap();
        self.after.insert(name.to_vec(), random.changed(&file));
        self.renamed.insert(name.to_vec(), path.to_vec());
    }

    /// Returns the diff as lbx writes it.
    fn diff(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let paths: BTreeSet<&Vec<u8>> = self.before.keys().chain(self.after.keys()).collect();
        for path in paths {
            let old = self.before.get_key_value(path);
            let new = self.after.get_key_value(path);
            let moved_away = self.renamed.values().any(|from| from == path);
            if let Some(from) = self.renamed.get(path) {
                write(&mut out, self.before.get_key_value(from), new, Some(50));
            } else if old == new || (moved_away && new.is_none()) {
            } else if old.zip(new).is_some_and(|(old, new)| is_symlink(old.1.0) != is_symlink(new.1.0)) {
                write(&mut out, old, None, None);
                write(&mut out, None, new, None);
            } else {
                write(&mut out, old, new, None);
            }
        }
        out
    }
}

/// Adds the diff of one file.
fn write(out: &mut Vec<u8>, old: Option<Entry>, new: Option<Entry>, similarity: Option<usize>) {
    let (old, new) = (old.map(Described::of), new.map(Described::of));
    let [old, new] = [&old, &new].map(|side| side.as_ref().map(Described::side));
    FileDiff { old, new, similarity, binary: true }.write(out);
}

/// A file of a tree with its mode and id as in a diff.
struct Described<'t> {
    /// Path and bytes.
    file: (&'t [u8], &'t [u8]),
    /// Mode in octal digits.
    mode: String,
    /// Id of the content.
    id: String,
}

impl<'t> Described<'t> {
    /// Describes `entry`.
    fn of((path, (mode, bytes)): Entry<'t>) -> Self {
        let (algorithm, kind) = (gix::hash::Kind::Sha1, gix::objs::Kind::Blob);
        let id = gix::objs::compute_hash(algorithm, kind, bytes).unwrap().to_string();
        Self { file: (path, bytes), mode: format!("{mode:o}"), id }
    }

    /// Returns it as a side of a diff.
    fn side(&self) -> DiffSide<'_> {
        DiffSide { path: self.file.0, mode: &self.mode, id: &self.id, bytes: self.file.1 }
    }
}

/// Applies `diff` to `tree`; returns an error as text.
fn applied(diff: &[u8], tree: &Tree, apply: PatchOptions) -> Result<Tree, String> {
    let patch = parse(diff).map_err(|error| error.to_string())?;
    let options = PlanOptions { apply, ..PlanOptions::default() };
    let mut read = |path: &[u8], _: SymlinkMode, _: FileForm| -> Result<Option<OriginalFile>, ()> {
        Ok(tree
            .get(path)
            .map(|(mode, bytes)| OriginalFile { bytes: Arc::new(bytes.clone().into()), mode: Some(*mode) }))
    };
    let outcomes = compose(patch, &options, &mut read).map_err(|error| format!("{error:?}"))?;
    Ok(outcome_of(tree, &outcomes))
}

/// Returns `tree` after `outcomes`.
fn outcome_of(tree: &Tree, outcomes: &[FileOutcome]) -> Tree {
    let mut after = tree.clone();
    for outcome in outcomes.iter().filter(|outcome| outcome.action == FileAction::Rename) {
        after.remove(outcome.from.as_ref().unwrap());
    }
    for outcome in outcomes {
        let had = outcome.before.as_ref().and_then(|before| before.mode).filter(|mode| !is_symlink(*mode));
        let mode = outcome.mode.or(had).unwrap_or(0o100_644);
        match &outcome.after {
            Some(bytes) => drop(after.insert(outcome.path.clone(), (mode, bytes.clone()))),
            None => drop(after.remove(&outcome.path)),
        }
    }
    after
}

/// Describes the differences between two trees.
fn differences(got: &Tree, wanted: &Tree) -> String {
    let paths: BTreeSet<_> = got.keys().chain(wanted.keys()).collect();
    let shown = |file: Option<&(u32, Vec<u8>)>| {
        file.map_or_else(String::new, |(mode, bytes)| format!("{mode:o} {}", bytes.escape_ascii()))
    };
    let differing = paths.into_iter().filter(|path| got.get(*path) != wanted.get(*path));
    let lines = differing.map(|path| {
        format!("\n{}:\n  {}\n  not {}", path.escape_ascii(), shown(got.get(path)), shown(wanted.get(path)))
    });
    lines.collect()
}

/// Checks that `diff` leads from one tree to the other and back, strictly and leniently.
fn must_apply_both_ways(seed: u64, diff: &[u8], before: &Tree, after: &Tree) {
    let is_reversible = !diff.windows(11).any(|window| window == b"\ncopy from ");
    for strict in [false, true] {
        for (reverse, from, to) in [(false, before, after), (true, after, before)] {
            if reverse && !is_reversible {
                continue;
            }
            let got = applied(diff, from, PatchOptions { strict, reverse, ..PatchOptions::default() });
            let wrong = got.as_ref().map_or_else(Clone::clone, |got| differences(got, to));
            assert!(
                wrong.is_empty(),
                "seed {seed}, strict {strict}, reverse {reverse}: {wrong}\n{}",
                diff.escape_ascii()
            );
        }
    }
}

#[test]
fn random_tree_diffs_apply_forwards_and_in_reverse() {
    let mut renames = 0;
    for seed in 0..SEEDS {
        let change = Change::of(seed);
        let diff = change.diff();
        if diff.is_empty() {
            assert_eq!(change.before, change.after);
            continue;
        }
        renames += change.renamed.len();
        must_apply_both_ways(seed, &diff, &change.before, &change.after);
    }
    assert!(renames > 100, "only {renames} renames");
}

/// Returns the place of a path in a folder.
fn place(root: &Path, path: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(path))
}

/// Replaces the contents of a folder with a tree.
fn put(root: &Path, tree: &Tree) {
    for entry in fs::read_dir(root).unwrap().flatten().filter(|entry| entry.file_name() != ".git") {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }
    for (path, (mode, bytes)) in tree {
        let path = place(root, path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if is_symlink(*mode) {
            symlink(OsStr::from_bytes(bytes), path).unwrap();
        } else {
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o777)).unwrap();
        }
    }
}

/// Returns the tree in a folder.
fn standing(ws: &Workspace) -> Tree {
    let files = ws.tree().into_iter().filter(|(path, (kind, ..))| *kind != 'd' && !path.starts_with(".git"));
    let file = |(path, (kind, mode, bytes)): (PathBuf, (char, u32, Vec<u8>))| {
        let mode = if kind == 'l' { 0o120_000 } else { 0o100_000 | mode };
        (path.as_os_str().as_bytes().to_vec(), (mode, bytes))
    };
    files.map(file).collect()
}

#[test]
fn git_and_lbx_apply_each_others_diffs() {
    let ws = Workspace::with(&[]);
    let patch = ws.root.parent().unwrap().join("the.patch");
    for seed in 0..SEEDS_FOR_GIT {
        let change = Change::of(seed);
        let diff = change.diff();
        if diff.is_empty() {
            continue;
        }
        fs::write(&patch, &diff).unwrap();
        let patch = patch.to_str().unwrap();
        put(&ws.root, &change.before);
        ws.git(&["apply", "--whitespace=nowarn", patch]);
        let wrong = differences(&standing(&ws), &change.after);
        assert!(wrong.is_empty(), "seed {seed}: git apply: {wrong}\n{}", diff.escape_ascii());
        // git apply -R restores every deleted file as a regular one (git 2.47).
        let is_lost = |mode: &&[u8]| diff.windows(mode.len()).any(|window| window == *mode);
        if !MODES_LOST_BY_GIT.iter().any(is_lost) {
            ws.git(&["apply", "--whitespace=nowarn", "--reverse", patch]);
            let wrong = differences(&standing(&ws), &change.before);
            assert!(wrong.is_empty(), "seed {seed}: git apply -R: {wrong}\n{}", diff.escape_ascii());
        }
        put(&ws.root, &change.before);

        ws.git(&["add", "-A"]);
        let before = ws.git(&["write-tree"]);
        put(&ws.root, &change.after);
        ws.git(&["add", "-A"]);
        let after = ws.git(&["write-tree"]);
        let how = ["-p", "-M", "-C", "--find-copies-harder", "--binary", "--full-index"];
        for how in [&how[..], &["-p", "--binary", "--no-renames"], &["-p", "-M30", "--binary", "-U0"]] {
            let arguments = [&["diff-tree"], how, &[&before, &after]].concat();
            let output = ws.git_command(&arguments).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            must_apply_both_ways(seed, &output.stdout, &change.before, &change.after);
        }
    }
}
