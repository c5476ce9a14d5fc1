//! Compared with the program that Codex models know: the same envelope gives the same tree, except where lbx is safer
//! on purpose.
//!
//! `LBX_CODEX=PATH`, `apply_patch_codex` on the PATH, or the program that `.ci/clients` installs is a Codex binary.
//! Called under the name `apply_patch` it takes the patch as its argument.
//! `LBX_HISTORY` names the repositories whose commits become envelopes; the default is this one.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::common::{Workspace, skipped};

/// Number of envelopes made from real commits.
const COMMITS: usize = 50;

/// Expected comparison of the two trees.
#[derive(Clone, Copy)]
enum Trees {
    /// The trees are equal.
    Same,
    /// The trees differ, or only one program fails, for this reason.
    Differ(&'static str),
}

use Trees::{Differ, Same};

/// Name, files before, lines inside the envelope, and the expected comparison.
type Case = (&'static str, &'static [(&'static str, &'static str)], &'static str, Trees);

/// Files by path, with execute bit and bytes.
type Files = BTreeMap<PathBuf, (bool, Vec<u8>)>;

/// Returns the Codex binary under the name with which it applies patches; `None` if there is no binary.
fn codex(folder: &Path) -> Option<PathBuf> {
    let named = env::var_os("LBX_CODEX").map(PathBuf::from);
    let on_path = || {
        let paths = env::var_os("PATH")?;
        env::split_paths(&paths).map(|folder| folder.join("apply_patch_codex")).find(|path| path.is_file())
    };
    let found = named.or_else(on_path).or_else(installed).and_then(|path| path.canonicalize().ok());
    let Some(binary) = found else {
        skipped("no Codex binary; .ci/clients installs one, LBX_CODEX may name another");
        return None;
    };
    let link = folder.join("apply_patch");
    symlink(binary, &link).unwrap();
    Some(link)
}

/// Returns the Codex binary that `.ci/clients` installs.
fn installed() -> Option<PathBuf> {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/clients/node_modules/@openai");
    let vendors = ["codex-linux-x64", "codex-linux-arm64"].map(|name| packages.join(name).join("vendor"));
    let targets = vendors.iter().filter_map(|vendor| vendor.read_dir().ok()).flatten();
    targets.map(|target| target.unwrap().path().join("bin/codex")).find(|path| path.is_file())
}

/// Returns the files below `root`, with their execute bit.
fn files(root: &Path) -> Files {
    fn add(root: &Path, folder: &Path, files: &mut Files) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            if entry.file_type().unwrap().is_dir() {
                if name != Path::new(".git") && name != Path::new(".lbx") {
                    add(root, &path, files);
                }
            } else {
                use std::os::unix::fs::PermissionsExt;
                let may_execute = entry.metadata().unwrap().permissions().mode() & 0o111 != 0;
                files.insert(name, (may_execute, fs::read(&path).unwrap()));
            }
        }
    }
    let mut all = Files::new();
    add(root, root, &mut all);
    all
}

/// Runs Codex on `patch` in a folder with the files of `ws`; returns its success and the tree.
fn run_codex(program: &Path, ws: &Workspace, patch: &str) -> (bool, Files) {
    let output = Command::new(program)
        .arg(patch)
        .current_dir(&ws.root)
        .env_clear()
        .env("HOME", ws.outside.join("home"))
        .output()
        .unwrap();
    (output.status.success(), files(&ws.root))
}

/// Runs lbx on it under the same name, after reading every file.
fn run_lbx(ws: &Workspace, patch: &str) -> (bool, Files, String) {
    for path in files(&ws.root).keys() {
        let path = path.to_str().unwrap();
        // A file that cannot be read is missing, or the case tests that.
        let _ = ws.lbx(&["read", path, "--max-bytes", "0"]).status();
    }
    let answer = ws.call(&[patch]).named("apply_patch").run();
    (answer.status() == 0, files(&ws.root), answer.stderr())
}

/// Shapes of Codex's own scenarios, and shapes that it is known to get wrong.
const CASES: &[Case] = &[
    ("a file is added", &[], "*** Add File: d/n.md\n+one\n+\n+two\n", Same),
    ("an empty file is added", &[], "*** Add File: n\n", Same),
    (
        "several operations",
        &[("m", "a\nb\n"), ("g", "x\n")],
        "*** Add File: sub/n\n+new\n*** Delete File: g\n*** Update File: m\n@@\n-b\n+B\n",
        Same,
    ),
    (
        "several hunks",
        &[("m", "1\n2\n3\n4\n5\n6\n")],
        "*** Update File: m\n@@\n-2\n+two\n@@\n-5\n+five\n",
        Same,
    ),
    (
        "a move to a new folder",
        &[("old/n", "text\n"), ("old/o", "other\n")],
        "*** Update File: old/n\n*** Move to: new/d/n\n@@\n-text\n+changed\n",
        Same,
    ),
    ("nothing in it", &[("f", "x\n")], "", Same),
    ("context that is nowhere", &[("f", "a\nb\n")], "*** Update File: f\n@@\n-no\n+yes\n", Same),
    ("a hunk without lines", &[("f", "a\n")], "*** Update File: f\n@@\n", Same),
    ("no hunk at all", &[("f", "a\n")], "*** Update File: f\n", Same),
    ("an update of no file", &[("f", "a\n")], "*** Update File: none\n@@\n-a\n+b\n", Same),
    ("a folder to delete", &[("d/f", "a\n")], "*** Delete File: d\n", Same),
    ("a header that is none", &[("f", "a\n")], "*** Frobnicate File: f\n", Same),
    ("only additions go to the end", &[("f", "a\nb\n")], "*** Update File: f\n@@\n+c\n+d\n", Same),
    ("blanks round a file's header", &[("f", "a\n")], "  *** Update File: f  \n@@\n-a\n+b\n", Same),
    ("letters beyond ASCII", &[("f", "naïve\n漢字\n")], "*** Update File: f\n@@\n-漢字\n+仮名\n", Same),
    ("a file is deleted", &[("f", "a\n"), ("k", "b\n")], "*** Delete File: f\n", Same),
    ("only deletions", &[("f", "a\nb\nc\n")], "*** Update File: f\n@@\n a\n-b\n c\n", Same),
    ("the end of the file", &[("f", "x\ny\nx\n")], "*** Update File: f\n@@\n-x\n+z\n*** End of File\n", Same),
    (
        "an anchor",
        &[("f", "def a():\n  x\ndef b():\n  x\n")],
        "*** Update File: f\n@@ def b():\n-  x\n+  y\n",
        Same,
    ),
    (
        "anchors one below the other",
        &[("f", "class A:\n  def f():\n    x\nclass B:\n  def f():\n    x\n")],
        "*** Update File: f\n@@ class B:\n@@   def f():\n-    x\n+    y\n",
        Differ("anchors narrow each other, as the instructions for models say; the program takes one"),
    ),
    ("no @@ before the first hunk", &[("f", "a\nb\n")], "*** Update File: f\n a\n-b\n+c\n", Same),
    ("white space at the end of context", &[("f", "a  \nb\n")], "*** Update File: f\n@@\n a\n-b\n+c\n", Same),
    ("another indentation", &[("f", "\ta\nb\n")], "*** Update File: f\n@@\n a\n-b\n+c\n", Same),
    (
        "typographic quotes in a removed line",
        &[("f", "say \u{201c}a\u{201d}\n")],
        "*** Update File: f\n@@\n-say \"a\"\n+b\n",
        Same,
    ),
    ("CRLF", &[("f", "a\r\nb\r\n")], "*** Update File: f\n@@\n-b\n+c\n", Same),
    (
        "a second file that fails",
        &[("f", "a\n")],
        "*** Add File: n\n+x\n*** Update File: f\n@@\n-no\n+yes\n",
        Differ("all files change or none; Codex leaves those before the failure changed"),
    ),
    (
        "two equal places",
        &[("f", "x\nmid\nx\n")],
        "*** Update File: f\n@@\n-x\n+y\n",
        Differ("two equal places are refused; Codex changes the first and says nothing"),
    ),
    (
        "an addition of a file that exists",
        &[("f", "old\n")],
        "*** Add File: f\n+new\n",
        Differ("an existing file is never overwritten by an addition"),
    ),
    (
        "a move onto a file that exists",
        &[("f", "a\n"), ("g", "precious\n")],
        "*** Update File: f\n*** Move to: g\n@@\n-a\n+b\n",
        Differ("nor by a move"),
    ),
    (
        "a path that leads out",
        &[("f", "a\n")],
        "*** Add File: ../escaped\n+x\n",
        Differ("nothing outside the workspace is written; Codex leaves that to its sandbox"),
    ),
    (
        "no newline at the end",
        &[("f", "a\nb")],
        "*** Update File: f\n@@\n-a\n+A\n",
        Differ("the last line keeps its missing newline; Codex adds one"),
    ),
    ("a deletion of nothing", &[("k", "b\n")], "*** Delete File: f\n", Same),
    (
        "a change that stands already",
        &[("f", "one line of text\nchanged to another\nthe last line\n")],
        "*** Update File: f\n@@\n one line of text\n-was a line\n+changed to another\n the last line\n",
        Differ("what stands already is applied already, and no failure"),
    ),
    (
        "a byte-order mark before the first line",
        &[("f", "\u{feff}a\nb\n")],
        "*** Update File: f\n@@\n-a\n+A\n",
        Differ("the first line is found behind the mark, which stays"),
    ),
];

#[test]
fn envelope_gives_the_same_tree_as_codex() {
    let links = tempfile::tempdir().unwrap();
    let Some(program) = codex(links.path()) else { return };
    let mut wrong = Vec::new();
    for (name, before, body, trees) in CASES {
        let patch = format!("*** Begin Patch\n{body}*** End Patch");
        let (theirs, ours) = (Workspace::bare(before), Workspace::with(before));
        let codex = run_codex(&program, &theirs, &patch);
        let lbx = run_lbx(&ours, &patch);
        let is_escaped = theirs.outside.join("escaped").exists();
        let same = codex.0 == lbx.0 && codex.1 == lbx.1 && !is_escaped;
        assert!(!ours.outside.join("escaped").exists(), "{name}: lbx wrote outside");
        match trees {
            Same if !same => wrong.push(format!("{name}:\n codex: {codex:?}\n lbx: {lbx:?}")),
            Differ(reason) if same => wrong.push(format!("{name}: no difference any more ({reason})")),
            Same | Differ(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn envelope_move_keeps_the_execute_bit() {
    let links = tempfile::tempdir().unwrap();
    let Some(program) = codex(links.path()) else { return };
    let patch =
        "*** Begin Patch\n*** Update File: run\n*** Move to: bin/run\n@@\n-echo a\n+echo b\n*** End Patch";
    let before = [("run", "#!/bin/sh\necho a\n")];
    let (theirs, ours) = (Workspace::bare(&before), Workspace::with(&before));
    for ws in [&theirs, &ours] {
        ws.chmod("run", 0o755);
    }
    let (codex, lbx) = (run_codex(&program, &theirs, patch), run_lbx(&ours, patch));
    let moved = Path::new("bin/run");
    assert_eq!((codex.1[moved].0, lbx.1[moved].0), (false, true));
    assert_eq!(codex.1[moved].1, lbx.1[moved].1);
}

#[test]
fn envelope_wrappers_are_accepted_as_by_codex() {
    let links = tempfile::tempdir().unwrap();
    let Some(program) = codex(links.path()) else { return };
    let envelope = "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch";
    let padded = "  *** Begin Patch  \n*** Update File: f\n@@\n-a\n+b\n *** End Patch \n";
    for patch in [format!("<<'EOF'\n{envelope}\nEOF\n"), padded.to_owned(), format!("{envelope}\n\n")] {
        let before = [("f", "a\n")];
        let (theirs, ours) = (Workspace::bare(&before), Workspace::with(&before));
        let (codex, lbx) = (run_codex(&program, &theirs, &patch), run_lbx(&ours, &patch));
        assert_eq!((codex.0, codex.1), (lbx.0, lbx.1), "{patch}: {}", lbx.2);
    }
}

/// Returns the output of git.
fn git(repository: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("git").arg("-C").arg(repository).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A commit as an envelope, with the files before and after.
struct Envelope {
    /// Commit id.
    commit: String,
    /// Text of the envelope.
    text: String,
    /// Affected files before the commit.
    before: Vec<(String, String)>,
    /// Files after the commit.
    after: BTreeMap<PathBuf, Vec<u8>>,
}

/// Makes an envelope of a commit; `None` if an envelope cannot express it.
fn envelope(repository: &Path, commit: &str) -> Option<Envelope> {
    let parent = format!("{commit}^");
    let raw = git(repository, &["diff", "--raw", "--no-abbrev", "-M", "-z", &parent, commit]);
    let raw = String::from_utf8(raw).ok()?;
    let mut words = raw.split('\0').filter(|word| !word.is_empty());
    let mut made = Envelope {
        commit: commit.to_owned(),
        text: String::new(),
        before: Vec::new(),
        after: BTreeMap::new(),
    };
    while let Some(head) = words.next() {
        let head: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let (old_mode, new_mode, kind) = (head[0], head[1], &head[4][..1]);
        let old_path = words.next()?;
        let new_path = if kind == "R" { words.next()? } else { old_path };
        let plain = |mode: &str| mode == "100644" || mode == "000000";
        if !plain(old_mode) || !plain(new_mode) {
            return None;
        }
        let show = |id: &str, path: &str| {
            let text = String::from_utf8(git(repository, &["show", &format!("{id}:{path}")])).ok()?;
            (text.ends_with('\n') && !text.contains(['\r', '\0'])).then_some(text)
        };
        if kind != "A" {
            made.before.push((old_path.to_owned(), show(&parent, old_path)?));
        }
        if kind != "D" {
            made.after.insert(PathBuf::from(new_path), show(commit, new_path)?.into_bytes());
        }
        match kind {
            "A" => {
                let lines = show(commit, new_path)?;
                let added: String = lines.lines().map(|line| format!("+{line}\n")).collect();
                made.text += &format!("*** Add File: {new_path}\n{added}");
            }
            "D" => made.text += &format!("*** Delete File: {old_path}\n"),
            "M" | "R" => {
                let paths = ["--", old_path, new_path];
                let diff = git(repository, &[&["diff", "-M", &parent, commit], &paths[..]].concat());
                let diff = String::from_utf8(diff).ok()?;
                let start = diff.find("\n@@ ")?;
                made.text += &format!("*** Update File: {old_path}\n");
                if kind == "R" {
                    made.text += &format!("*** Move to: {new_path}\n");
                }
                for line in diff[start + 1..].lines() {
                    let header = line.starts_with("@@ ");
                    made.text += if header { "@@" } else { line };
                    made.text += "\n";
                }
            }
            _ => return None,
        }
    }
    made.text = format!("*** Begin Patch\n{}*** End Patch", made.text);
    // An argument may have 128 KiB on Linux.
    (!made.before.is_empty() && made.text.len() < 120_000).then_some(made)
}

#[test]
fn envelopes_of_real_commits_give_the_trees_of_the_commits() {
    let links = tempfile::tempdir().unwrap();
    let Some(program) = codex(links.path()) else { return };
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let repositories: Vec<PathBuf> =
        env::var_os("LBX_HISTORY").map_or(vec![own], |named| env::split_paths(&named).collect());
    let each = COMMITS.div_ceil(repositories.len());
    let (mut done, mut refused, mut astray) = (0, 0, 0);
    for repository in &repositories {
        let listed = git(repository, &["rev-list", "--no-merges", "-n", "2000", "HEAD"]);
        let listed = String::from_utf8(listed).unwrap();
        let has_parent = |commit: &&str| {
            let parent = format!("{commit}^");
            Command::new("git")
                .arg("-C")
                .arg(repository)
                .args(["cat-file", "-e", &parent])
                .status()
                .unwrap()
                .success()
        };
        let commits = listed.lines().filter(has_parent);
        for made in commits.filter_map(|commit| envelope(repository, commit)).take(each) {
            let before: Vec<(&str, &str)> =
                made.before.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
            let (theirs, ours) = (Workspace::bare(&before), Workspace::with(&before));
            let (codex, lbx) = (run_codex(&program, &theirs, &made.text), run_lbx(&ours, &made.text));
            let texts = |files: &Files| -> BTreeMap<PathBuf, Vec<u8>> {
                files.iter().map(|(path, (_, text))| (path.clone(), text.clone())).collect()
            };
            let is_true = |files: &Files| texts(files) == made.after;
            done += 1;
            if lbx.0 {
                assert!(is_true(&lbx.1), "{}: lbx gives another tree\n{}", made.commit, made.text);
            } else {
                // Only if the envelope does not say which of two places it means.
                assert!(lbx.2.contains("several places"), "{}: {}\n{}", made.commit, lbx.2, made.text);
                refused += 1;
            }
            if codex.0 && !is_true(&codex.1) {
                astray += 1;
            } else {
                assert!(codex.0 || !lbx.0, "{}: only Codex refuses", made.commit);
            }
        }
    }
    eprintln!("{done} envelopes: {refused} refused as ambiguous, {astray} put in another place by Codex");
}
