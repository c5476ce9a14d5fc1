//! The merge against git's own on the same trees.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path as FilePath, PathBuf};
use std::process::{Command, Stdio};

use super::*;
use crate::random::Random;

/// File of a tree: type, mode and bytes.
type File = (FileType, u32, Vec<u8>);
/// Files by path.
type Tree = BTreeMap<String, File>;

/// Returns a regular file.
fn file(text: &str) -> File {
    (FileType::Regular, 0o644, text.as_bytes().to_vec())
}

/// Returns a tree of regular files.
fn tree(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
}

/// Returns the versions of every path that one side changed.
fn paths_of(sides: [&Tree; 3]) -> BTreeMap<Path, Versions> {
    let names: BTreeSet<&String> = sides.iter().flat_map(|side| side.keys()).collect();
    let version = |file: &File| Version { file_type: file.0, mode: file.1, sha256: Sha256::of(&file.2) };
    let versions = |name: &&String| {
        let [base, ours, theirs] = sides.map(|side| side.get(*name).map(version));
        (base != ours || base != theirs)
            .then(|| (name.as_bytes().to_vec(), Versions { base, ours, theirs, has_unknown_base: false }))
    };
    names.iter().filter_map(versions).collect()
}

/// Merges trees; returns the plan and the tree after it.
fn merged(sides: [&Tree; 3]) -> (Plan, Tree) {
    let paths = paths_of(sides);
    let text = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
    let read = |side: Side, path: &[u8]| -> Result<_, Infallible> {
        Ok(Some(sides[side as usize][&text(path)].2.clone()))
    };
    let keeps_files = |folder: &[u8]| {
        let below = text(folder) + "/";
        sides[1].keys().any(|path| path.starts_with(&below) && !paths.contains_key(path.as_bytes()))
    };
    let trees = Trees { paths: &paths, moved: &[], read: &read, keeps_files: &keeps_files };
    let Ok(plan) = plan(&trees);
    let mut result = sides[1].clone();
    for action in &plan.actions {
        result.remove(&action.paths.ours.as_deref().map(text).unwrap_or_default());
    }
    for action in &plan.actions {
        let Some(file) = &action.result else { continue };
        let bytes = match &file.source {
            MergedSource::Merged(bytes) => bytes.clone(),
            MergedSource::Side(side) => {
                let paths = &action.paths;
                let path = if *side == Side::Ours { &paths.ours } else { &paths.theirs };
                sides[*side as usize][&text(path.as_ref().unwrap())].2.clone()
            }
        };
        assert_eq!(Sha256::of(&bytes), file.version.sha256);
        result.insert(text(&file.path), (file.version.file_type, file.version.mode, bytes));
    }
    (plan, result)
}

/// Returns kind and paths of the conflicts of a merge.
fn conflicts(base: &Tree, ours: &Tree, theirs: &Tree) -> Vec<(ConflictKind, String)> {
    let named = |conflict: &Conflict| {
        let paths: Vec<_> =
            conflict.paths.all().into_iter().map(|path| String::from_utf8_lossy(path)).collect();
        (conflict.kind, paths.join(" "))
    };
    merged([base, ours, theirs]).0.conflicts.iter().map(named).collect()
}

/// Returns ten lines, some of them changed.
fn lines(changed: &[usize]) -> String {
    (0..10)
        .map(|line| if changed.contains(&line) { format!("new {line}\n") } else { format!("{line}\n") })
        .collect()
}

#[test]
fn merge_follows_renames_on_both_sides() {
    let (one, other, both) = (lines(&[1]), lines(&[8]), lines(&[1, 8]));
    let base = tree(&[("a", &lines(&[])), ("k", "kept\n")]);
    for (ours, theirs, wanted) in [
        (vec![("a", &one)], vec![("a", &other)], vec![("a", &both)]),
        (vec![("a", &one)], vec![("b", &other)], vec![("b", &both)]),
        (vec![("b", &one)], vec![("a", &other)], vec![("b", &both)]),
        (vec![("b", &one)], vec![("b", &other)], vec![("b", &both)]),
        (vec![("b", &one)], vec![("b", &one)], vec![("b", &one)]),
    ] {
        let with_kept = |files: &[(&str, &String)]| {
            let mut tree: Tree = files.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect();
            tree.insert("k".to_owned(), file("kept\n"));
            tree
        };
        let (plan, result) = merged([&base, &with_kept(&ours), &with_kept(&theirs)]);
        assert_eq!(plan.conflicts, [], "{ours:?} {theirs:?}");
        assert_eq!(result, with_kept(&wanted), "{ours:?} {theirs:?}");
    }
}

#[test]
fn conflicts_have_kind_paths_and_lines() {
    use ConflictKind::{
        BothAdded, BothChanged, BothRenamed, ChangedAndDeleted, FileAndFolder, FolderMoved,
        RenamedAndDeleted, SamePath,
    };
    let text = lines(&[]);
    let (one, other) = (lines(&[1, 8]), text.replace("1\n", "1!\n"));
    let base = tree(&[("a", &text), ("d/x", "x\n1\n2\n3\n")]);
    let moved = |from: &str, to: &str| {
        let mut tree = base.clone();
        let file = tree.remove(from).unwrap();
        tree.insert(to.to_owned(), file);
        tree
    };
    let with = |tree: &Tree, path: &str, text: &str| {
        let mut tree = tree.clone();
        tree.insert(path.to_owned(), file(text));
        tree
    };
    let without = |path: &str| {
        let mut tree = base.clone();
        tree.remove(path);
        tree
    };
    for (ours, theirs, wanted) in [
        (with(&base, "a", &one), with(&base, "a", &other), vec![(BothChanged, "a")]),
        (with(&base, "n", "1\n"), with(&base, "n", "2\n"), vec![(BothAdded, "n")]),
        (with(&base, "n", "1\n"), with(&base, "n", "1\n"), vec![]),
        (with(&base, "a", &one), without("a"), vec![(ChangedAndDeleted, "a")]),
        (without("a"), with(&base, "a", &one), vec![(ChangedAndDeleted, "a")]),
        (without("a"), without("a"), vec![]),
        (moved("a", "b"), without("a"), vec![(RenamedAndDeleted, "a b")]),
        (moved("a", "b"), moved("a", "c"), vec![(BothRenamed, "a b c")]),
        (moved("a", "n"), moved("d/x", "n"), vec![(SamePath, "a n")]),
        (with(&base, "n", "1\n"), with(&base, "n/y", "2\n"), vec![(FileAndFolder, "n")]),
        (moved("d/x", "e/x"), with(&base, "d/new", "1\n"), vec![(FolderMoved, "d/new")]),
        (with(&base, "d/new", "1\n"), moved("d/x", "e/x"), vec![(FolderMoved, "d/new")]),
    ] {
        let wanted: Vec<_> = wanted.into_iter().map(|(kind, paths)| (kind, paths.to_owned())).collect();
        assert_eq!(conflicts(&base, &ours, &theirs), wanted, "{ours:?} {theirs:?}");
    }
    let (plan, _) = merged([&base, &with(&base, "a", &one), &with(&base, "a", &other)]);
    assert_eq!(plan.conflicts[0].lines, [[1..2, 1..2]]);
    let (plan, _) = merged([&base, &moved("d/x", "e/x"), &with(&base, "d/new", "1\n")]);
    assert_eq!(plan.conflicts[0].target.as_deref(), Some(&b"e/new"[..]));
}

#[test]
fn unknown_base_merges_only_equal_versions() {
    let version = |text: &str| Version {
        file_type: FileType::Regular,
        mode: 0o644,
        sha256: Sha256::of(text.as_bytes()),
    };
    let merge = |ours: &str, theirs: &str| {
        let of = |text: &str| Some(version(text)).filter(|_| !text.is_empty());
        let versions = Versions { base: None, ours: of(ours), theirs: of(theirs), has_unknown_base: true };
        let paths = BTreeMap::from([(b"a".to_vec(), versions)]);
        let read = |_, _: &[u8]| -> Result<_, Infallible> { Ok(None) };
        let Ok(plan) = plan(&Trees { paths: &paths, moved: &[], read: &read, keeps_files: &|_| false });
        plan.conflicts.iter().map(|conflict| conflict.kind).collect::<Vec<_>>()
    };
    assert_eq!(merge("1\n", "1\n"), []);
    assert_eq!(merge("1\n", "2\n"), [ConflictKind::BaseUnknown]);
    assert_eq!(merge("1\n", ""), [ConflictKind::BaseUnknown]);
}

/// A repository of git, removed on drop.
struct Repository(PathBuf);

impl Repository {
    /// Creates an empty one.
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lbx-tree-merge-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let made = Command::new("git").args(["init", "-q", "--bare"]).current_dir(&path).status();
        assert!(made.unwrap().success());
        Self(path)
    }

    /// Runs git; returns its output, and true if it succeeded.
    fn git(&self, args: &[&str], input: &[u8]) -> (String, bool) {
        let mut git = Command::new("git");
        git.args(args)
            .current_dir(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = git.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
    }

    /// Imports a base with two children, as branches `base`, `ours` and `theirs`.
    fn import(&self, sides: [&Tree; 3]) {
        let mut stream = Vec::new();
        for (name, side) in ["base", "ours", "theirs"].into_iter().zip(sides) {
            let mut head = format!("reset refs/heads/{name}\ncommit refs/heads/{name}\n");
            let _ = write!(head, "committer t <t@example.org> 0 +0000\ndata 0\n");
            if name != "base" {
                head.push_str("from refs/heads/base\n");
            }
            head.push_str("deleteall\n");
            stream.extend_from_slice(head.as_bytes());
            for (path, (file_type, mode, bytes)) in side {
                let mode = match file_type {
                    FileType::Symlink => "120000",
                    FileType::Regular if mode & 0o100 != 0 => "100755",
                    FileType::Regular => "100644",
                };
                stream
                    .extend_from_slice(format!("M {mode} inline {path}\ndata {}\n", bytes.len()).as_bytes());
                stream.extend_from_slice(bytes);
                stream.push(b'\n');
            }
            stream.push(b'\n');
        }
        assert!(self.git(&["fast-import", "--quiet", "--force"], &stream).1);
    }

    /// Merges with `ort`; returns the tree, or the messages of a merge with conflicts.
    fn merge(&self) -> Result<Tree, String> {
        let (output, is_clean) = self.git(&["merge-tree", "--write-tree", "ours", "theirs"], b"");
        if !is_clean {
            return Err(output);
        }
        let listed = self.git(&["ls-tree", "-rz", output.trim()], b"").0;
        let entry = |line: &str| {
            let (meta, path) = line.split_once('\t').unwrap();
            let (mode, id) = (meta.split(' ').next().unwrap(), meta.split(' ').nth(2).unwrap());
            let bytes = self.git(&["cat-file", "blob", id], b"").0.into_bytes();
            let file_type = if mode == "120000" { FileType::Symlink } else { FileType::Regular };
            let mode = u32::from_str_radix(mode, 8).unwrap() & 0o777;
            (path.to_owned(), (file_type, mode, bytes))
        };
        Ok(listed.split_terminator('\0').map(entry).collect())
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(FilePath::new(&self.0));
    }
}

/// Returns the text of a new file: lines that no other file has.
fn new_text(random: &mut Random, number: usize) -> String {
    (0..4 + random.below(12))
        .map(|line| format!("file {number} line {line} {}\n", random.below(1000)))
        .collect()
}

/// Returns a base of some twenty files in folders.
fn random_base(random: &mut Random) -> Tree {
    let folders = ["", "src/", "src/deep/", "docs/", "lib/"];
    let mut base = Tree::new();
    for number in 0..20 {
        let path = format!("{}f{}", random.of(&folders), random.below(60));
        base.insert(path, file(&new_text(random, number)));
    }
    base.insert("link".to_owned(), (FileType::Symlink, 0, b"f1".to_vec()));
    base.insert("lib/binary".to_owned(), (FileType::Regular, 0o644, b"\0\x01\x02".to_vec()));
    let is_blocked = |path: &str, all: &Tree| all.keys().any(|other| other.starts_with(&format!("{path}/")));
    let all = base.clone();
    base.retain(|path, _| !is_blocked(path, &all));
    base
}

/// Changes some lines of a file.
fn edit(random: &mut Random, (file_type, _, bytes): &mut File, side: usize) {
    if *file_type == FileType::Symlink || bytes.contains(&0) {
        *bytes = format!("{}{}", if bytes.contains(&0) { "\0" } else { "" }, random.below(3)).into_bytes();
        return;
    }
    let text = String::from_utf8(bytes.clone()).unwrap();
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    for _ in 0..=random.below(3) {
        let at = random.below(lines.len());
        let new = format!("side {side} {}\n", random.below(1000));
        match random.below(4) {
            0 if lines.len() > 2 => drop(lines.remove(at)),
            1 => lines.insert(at, new),
            _ if lines.is_empty() => lines.push(new),
            _ => lines[at] = new,
        }
    }
    *bytes = lines.concat().into_bytes();
}

/// Moves a file, unless its new path is taken or is that of a folder.
fn rename(tree: &mut Tree, from: &str, to: &str) {
    let is_taken = tree.contains_key(to)
        || tree.keys().any(|path| path.starts_with(&format!("{to}/")) || to.starts_with(&format!("{path}/")));
    if !is_taken && let Some(file) = tree.remove(from) {
        tree.insert(to.to_owned(), file);
    }
}

/// Returns a tree after some random changes of one side.
fn changed(random: &mut Random, base: &Tree, side: usize) -> Tree {
    let mut tree = base.clone();
    for _ in 0..=random.below(6) {
        let paths: Vec<String> = tree.keys().cloned().collect();
        let Some(path) = paths.get(random.below(paths.len())).cloned() else { return tree };
        match random.below(12) {
            0 => drop(tree.remove(&path)),
            1 | 2 => rename(&mut tree, &path, &format!("moved{}", random.below(6))),
            3 => rename(&mut tree, &path, &format!("docs/{}", path.replace('/', "-"))),
            4 => {
                let new = format!("src/new{}", random.below(6));
                let number = 100 + random.below(3);
                let text = new_text(random, number);
                tree.entry(new).or_insert_with(|| file(&text));
            }
            5 => {
                if let Some(found) = tree.get_mut(&path).filter(|it| it.0 == FileType::Regular) {
                    found.1 ^= 0o111;
                }
            }
            6 if random.below(3) == 0 => {
                let folder = *random.of(&["src/", "docs/", "src/deep/"]);
                for path in paths.iter().filter(|path| path.starts_with(folder)) {
                    rename(&mut tree, path, &path.replacen(folder, "other/", 1));
                }
            }
            _ => edit(random, tree.get_mut(&path).unwrap(), side),
        }
    }
    tree
}

/// Merges that this merge refuses and git makes, by reason.
const STRICTER: [(ConflictKind, &str); 3] = [
    (ConflictKind::BothChanged, "git merges lines that both sides inserted next to equal ones"),
    (ConflictKind::SamePath, "git merges an empty file that both sides moved to one path"),
    (ConflictKind::TypeChanged, "git takes either type of a file that both sides replaced"),
];

#[test]
fn merge_equals_git_on_random_histories() {
    let count = std::env::var("LBX_HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(60);
    let seed = std::env::var("LBX_RANDOM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let repository = Repository::new("random");
    let (mut clean, mut refused, mut stricter) = (0, 0, BTreeMap::new());
    for seed in seed..seed + count {
        let mut random = Random::new(seed);
        let base = random_base(&mut random);
        let (ours, theirs) = (changed(&mut random, &base, 1), changed(&mut random, &base, 2));
        repository.import([&base, &ours, &theirs]);
        let (plan, result) = merged([&base, &ours, &theirs]);
        let kinds: Vec<(ConflictKind, &Paths)> =
            plan.conflicts.iter().map(|it| (it.kind, &it.paths)).collect();
        match repository.merge() {
            Ok(wanted) if kinds.is_empty() => {
                let mode = |(file_type, mode, bytes): &File| (*file_type, mode & 0o100, bytes.clone());
                let shown =
                    |tree: &Tree| -> Vec<_> { tree.iter().map(|it| (it.0.clone(), mode(it.1))).collect() };
                assert_eq!(shown(&result), shown(&wanted), "LBX_RANDOM_SEED={seed}");
                clean += 1;
            }
            Ok(_) => {
                let is_listed = |(kind, _): &&(ConflictKind, _)| STRICTER.iter().any(|it| it.0 == *kind);
                let other = kinds.iter().find(|kind| !is_listed(kind));
                assert!(other.is_none(), "LBX_RANDOM_SEED={seed}: git merges {other:?}");
                *stricter.entry(kinds[0].0).or_insert(0) += 1;
            }
            Err(messages) => {
                assert!(!kinds.is_empty(), "LBX_RANDOM_SEED={seed}: {messages}");
                refused += 1;
            }
        }
    }
    assert!(clean * 10 > count && refused * 10 > count, "{clean} merged, {refused} refused");
    assert!(stricter.values().sum::<u64>() * 20 < count, "{stricter:?}");
}
