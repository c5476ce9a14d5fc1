//! Real histories, replayed through the binary: the diff of each commit applied to its parent gives its tree exactly,
//! and in reverse.
//!
//! `LBX_HISTORY=REPOSITORY[:REPOSITORY…]` names the repositories to replay, `LBX_HISTORY_COMMITS` the number of commits
//! of each (300), and `LBX_HISTORY_SNAPSHOTS` how many of them run in a clone whose snapshots are compared too (30).
//! Without the first, the test prints that it is skipped.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use serde_json::json;

use crate::common::{Workspace, sha256};

/// A file of a tree: git mode and object id.
type File = (String, String);
/// A tree, by path.
type Tree = BTreeMap<PathBuf, File>;

/// Returns the output of git for `repository`.
fn git(repository: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("git").arg("-C").arg(repository).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {said}");
    output.stdout
}

/// Returns the output of git with a text on stdin.
fn git_with(repository: &Path, arguments: &[&str], input: Vec<u8>) -> Vec<u8> {
    let mut command = Command::new("git");
    command.arg("-C").arg(repository).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "git {arguments:?}");
    output.stdout
}

/// Returns the files of a commit, without submodules.
fn tree_of(repository: &Path, commit: &str) -> Tree {
    let listed = git(repository, &["ls-tree", "-r", "-z", "--full-tree", commit]);
    let mut tree = Tree::new();
    for line in listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let tab = line.iter().position(|byte| *byte == b'\t').unwrap();
        let head = String::from_utf8_lossy(&line[..tab]).into_owned();
        let words: Vec<&str> = head.split(' ').collect();
        if words[1] == "blob" {
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(&line[tab + 1..]));
            tree.insert(path, (words[0].to_owned(), words[2].to_owned()));
        }
    }
    tree
}

/// Writes the files of a commit as they are in the repository, without any conversion.
fn check_out(repository: &Path, tree: &Tree, root: &Path) {
    let ids: String = tree.values().map(|(_, id)| format!("{id}\n")).collect();
    let all = git_with(repository, &["cat-file", "--batch"], ids.into_bytes());
    let mut rest = all.as_slice();
    for (path, (mode, _)) in tree {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap();
        let size: usize = String::from_utf8_lossy(&rest[..end]).split(' ').nth(2).unwrap().parse().unwrap();
        let bytes = &rest[end + 1..end + 1 + size];
        rest = &rest[end + 2 + size..];
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if mode == "120000" {
            symlink(std::ffi::OsStr::from_bytes(bytes), &path).unwrap();
        } else {
            fs::write(&path, bytes).unwrap();
            let mode = if mode == "100755" { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

/// Returns the files at `paths` in `root`, as git would store them.
fn standing<'p>(repository: &Path, root: &Path, paths: impl Iterator<Item = &'p PathBuf>) -> Tree {
    let mut tree = Tree::new();
    let (mut regular, mut list) = (Vec::new(), Vec::new());
    for path in paths {
        let Ok(stat) = root.join(path).symlink_metadata() else { continue };
        if stat.is_symlink() {
            let target = fs::read_link(root.join(path)).unwrap().into_os_string().into_vec();
            let id = git_with(repository, &["hash-object", "--stdin"], target);
            let id = String::from_utf8(id).unwrap().trim().to_owned();
            tree.insert(path.clone(), ("120000".to_owned(), id));
        } else if stat.is_file() {
            let mode = if stat.permissions().mode() & 0o100 == 0 { "100644" } else { "100755" };
            list.extend_from_slice(root.join(path).as_os_str().as_bytes());
            list.push(b'\n');
            regular.push((path.clone(), mode.to_owned()));
        }
    }
    let ids = git_with(repository, &["hash-object", "--no-filters", "--stdin-paths"], list);
    for ((path, mode), id) in regular.into_iter().zip(String::from_utf8(ids).unwrap().lines()) {
        tree.insert(path, (mode, id.to_owned()));
    }
    tree
}

/// Collects every file below `folder`, except the state of git and lbx, and every empty folder.
fn everything(root: &Path, folder: &Path, files: &mut Vec<PathBuf>, empty: &mut Vec<PathBuf>) {
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        count += 1;
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap().to_owned();
        if name == Path::new(".git") || name == Path::new(".lbx") {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            everything(root, &path, files, empty);
        } else {
            files.push(name);
        }
    }
    if count == 0 {
        empty.push(folder.to_owned());
    }
}

/// Longest argument that is passed to a program, in bytes; Linux takes 128 KiB (execve(2)).
const ARGUMENT_BYTES_MAX: usize = 100_000;

/// A history during its replay.
struct Replay {
    /// Source repository.
    repository: PathBuf,
    /// Workspace of the replay.
    ws: Workspace,
    /// Counts of the steps, by name.
    counts: BTreeMap<&'static str, usize>,
}

impl Replay {
    /// Applies `patch` and checks every path in which the commits `from` and `to` differ.
    fn step(&mut self, name: &'static str, patch: &[u8], reverse: bool, from: &Tree, to: &Tree) {
        let touched = differing(from, to);
        let expected: serde_json::Map<_, _> = touched
            .iter()
            .filter(|path| from.get(**path).is_some_and(|(mode, _)| mode != "120000"))
            .map(|path| {
                let bytes = fs::read(self.ws.root.join(path)).unwrap();
                (path.to_str().unwrap_or_default().to_owned(), json!(sha256(&bytes)))
            })
            .collect();
        let file = self.ws.outside.join("patch");
        fs::write(&file, patch).unwrap();
        let map = serde_json::Value::from(expected.clone());
        let answer = match std::str::from_utf8(patch) {
            // A patch that is too long for an argument goes into the request.
            Ok(patch) if map.to_string().len() > ARGUMENT_BYTES_MAX => {
                let request = json!({"patch": patch, "reverse": reverse, "expected_sha256_by_path": map});
                self.ws.lbx_stdin(&["patch", "--json", "-"], request.to_string())
            }
            _ => {
                // The skipped lines have to match exactly, in one place.
                let mut bytes = 0;
                let fits = |(path, _): &(&String, &serde_json::Value)| {
                    bytes += path.len() + 70;
                    bytes < ARGUMENT_BYTES_MAX
                };
                let map: serde_json::Map<_, _> = expected
                    .iter()
                    .take_while(fits)
                    .map(|(path, sha256)| (path.clone(), sha256.clone()))
                    .collect();
                let map = serde_json::Value::from(map).to_string();
                let mut arguments = vec!["patch", "--expected-sha256-by-path", &map];
                if reverse {
                    arguments.push("--reverse");
                }
                self.ws.call(&arguments).stdin_file(&file).run()
            }
        };
        let envelope = answer.envelope();
        assert_eq!(envelope["ok"], true, "{name}: {envelope:#}\nthe patch is {}", file.display());
        let found = standing(&self.repository, &self.ws.root, touched.iter().copied());
        let wanted: Tree = to
            .iter()
            .filter(|(path, _)| touched.contains(path))
            .map(|(path, file)| (path.clone(), file.clone()))
            .collect();
        assert_eq!(found, wanted, "{name}: reverse {reverse}");
        *self.counts.entry(name).or_default() += 1;
    }

    /// Checks all files.
    fn check_all(&self, tree: &Tree) {
        let (mut files, mut empty) = (Vec::new(), Vec::new());
        everything(&self.ws.root, &self.ws.root, &mut files, &mut empty);
        assert_eq!(&standing(&self.repository, &self.ws.root, files.iter()), tree);
        assert_eq!(empty, Vec::<PathBuf>::new(), "folders that git would not have left");
    }
}

/// Returns the paths in which two trees differ.
fn differing<'t>(from: &'t Tree, to: &'t Tree) -> Vec<&'t PathBuf> {
    let mut paths: Vec<_> =
        from.keys().chain(to.keys()).filter(|path| from.get(*path) != to.get(*path)).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Returns a git diff in the form of `diff -u`; `None` if that cannot express it.
fn plain(diff: &[u8], from: &Tree, to: &Tree) -> Option<Vec<u8>> {
    const EMPTY: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
    let changed = differing(from, to);
    let is_plain = |file: Option<&File>| file.is_none_or(|(mode, id)| mode == "100644" && id != EMPTY);
    if !changed.iter().all(|path| is_plain(from.get(*path)) && is_plain(to.get(*path))) {
        return None;
    }
    let mut text = Vec::new();
    for line in diff.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b"Binary files ") {
            return None;
        }
        let heads: [&[u8]; 4] = [b"diff --git ", b"index ", b"new file mode ", b"deleted file mode "];
        if !heads.iter().any(|head| line.starts_with(head)) {
            text.extend_from_slice(line);
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Replays the newest commits of `repository`, first parents only.
fn replay(repository: &Path, commits: usize) -> BTreeMap<&'static str, usize> {
    let count = format!("-n{}", commits + 1);
    let listed = git(repository, &["rev-list", "--first-parent", "--reverse", &count, "HEAD"]);
    let listed = String::from_utf8(listed).unwrap();
    let ids: Vec<&str> = listed.lines().collect();
    let mut old = tree_of(repository, ids[0]);
    let mut replay =
        Replay { repository: repository.to_owned(), ws: Workspace::bare(&[]), counts: BTreeMap::new() };
    fs::create_dir(replay.ws.path(".lbx")).unwrap();
    check_out(repository, &old, &replay.ws.root);
    for (number, pair) in ids.windows(2).enumerate() {
        let new = tree_of(repository, pair[1]);
        let diff = |options: &[&str]| {
            let head = ["-c", "core.quotePath=true", "diff", "--ignore-submodules=all"];
            git(repository, &[&head, options, pair].concat())
        };
        if differing(&old, &new).is_empty() {
            continue;
        }
        let with_copies = diff(&["--full-index", "-M", "-C", "--binary"]);
        replay.step("full", &with_copies, false, &old, &new);
        let without = diff(&["--full-index", "-M", "--binary"]);
        replay.step("full, back", &without, true, &new, &old);
        let text = diff(&["-M"]);
        if text.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"Binary files ")) {
            let answer = replay.ws.call(&["patch"]).stdin(&text).run();
            answer.error("patch_invalid");
            *replay.counts.entry("binary, refused as text").or_default() += 1;
        } else {
            replay.step("text", &text, false, &old, &new);
            replay.step("text, back", &text, true, &new, &old);
        }
        match plain(&diff(&["--no-renames"]), &old, &new) {
            Some(plain) => replay.step("plain", &plain, false, &old, &new),
            None => replay.step("full, again", &without, false, &old, &new),
        }
        if number % 50 == 49 {
            replay.check_all(&new);
        }
        old = new;
    }
    replay.check_all(&old);
    replay.counts
}

/// Replays in a clone, and compares the snapshots' trees.
fn replay_with_snapshots(repository: &Path, commits: usize) -> (usize, usize) {
    let count = format!("-n{}", commits + 1);
    let listed = git(repository, &["rev-list", "--first-parent", "--reverse", &count, "HEAD"]);
    let listed = String::from_utf8(listed).unwrap();
    let ids: Vec<&str> = listed.lines().collect();
    let ws = Workspace::bare(&[]);
    fs::remove_dir_all(&ws.root).unwrap();
    git(&ws.outside, &["clone", "-q", "--shared", "--no-checkout", repository.to_str().unwrap(), "ws"]);
    ws.git(&["checkout", "-q", "--detach", ids[0]]);
    let mut done = 0;
    for pair in ids.windows(2) {
        let patch = git(repository, &["diff", "--full-index", "-M", "-C", "--binary", pair[0], pair[1]]);
        if patch.is_empty() || !is_without_ignored(&ws) {
            continue;
        }
        let (old, new) = (tree_of(repository, pair[0]), tree_of(repository, pair[1]));
        for path in differing(&old, &new) {
            if old.get(path).is_some_and(|(mode, _)| mode != "120000") {
                ws.call(&[
                    std::ffi::OsStr::new("read"),
                    path.as_os_str(),
                    "--binary".as_ref(),
                    "base64".as_ref(),
                ])
                .run()
                .success();
            }
        }
        let envelope = ws.call(&["patch"]).stdin(&patch).run().envelope();
        assert_eq!(envelope["ok"], true, "{envelope:#}");
        let snapshot = ws.git(&["rev-parse", "lbx-snapshots^{tree}"]);
        // With the line endings that git's own rules give them, which may differ from the commit's.
        ws.git(&["add", "-A"]);
        assert_eq!(snapshot, ws.git(&["write-tree"]), "{}", pair[1]);
        done += 1;
    }
    (done, ids.len() - 1)
}

/// Returns true if the repository's rules ignore no tracked file, so that a snapshot may hold all.
fn is_without_ignored(ws: &Workspace) -> bool {
    ws.git(&["ls-files", "-ci", "--exclude-standard"]).is_empty()
}

#[test]
#[ignore = "LBX_HISTORY must name repositories"]
fn patches_of_real_history_give_the_tree_of_each_commit() {
    let repositories = env::var_os("LBX_HISTORY").unwrap();
    let number = |name: &str, default| {
        env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
    };
    for repository in env::split_paths(&repositories) {
        let (done, all) = replay_with_snapshots(&repository, number("LBX_HISTORY_SNAPSHOTS", 30));
        eprintln!("{}: {done} of {all} commits with snapshots", repository.display());
        let counts = replay(&repository, number("LBX_HISTORY_COMMITS", 300));
        eprintln!("{}: {counts:?}", repository.display());
    }
}
