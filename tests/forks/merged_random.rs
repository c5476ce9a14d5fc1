//! Eight forks of random changes, merged in a random order, against git's merges of the same trees.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::common::Workspace;
use crate::common::random::Random;
use crate::created::{forked, shell, within};

/// Number of forks.
const FORKS: usize = 8;
/// Number of changes in each.
const CHANGES: usize = 50;
/// Files that belong to each fork.
const OWN_FILES: usize = 14;
/// Files that all forks change, each in lines of its own.
const SHARED_FILES: usize = 6;

/// Returns the script of a fork's changes.
fn script(random: &mut Random, fork: usize) -> String {
    let mut script = String::from("set -e\n");
    let mut files: Vec<String> = (0..OWN_FILES).map(|file| format!("area{fork}/f{file}")).collect();
    for number in 0..CHANGES {
        let at = random.below(files.len());
        let file = files[at].clone();
        let line = 1 + random.below(24);
        let _ = match random.below(20) {
            0 => writeln!(script, "rm {}", files.remove(at)),
            1..=3 => {
                let new =
                    format!("area{fork}/{}moved{number}", if random.below(2) == 0 { "" } else { "deep/" });
                files[at].clone_from(&new);
                writeln!(script, "mkdir -p area{fork}/deep; mv {file} {new}")
            }
            4 => {
                files.push(format!("area{fork}/new{number}"));
                writeln!(
                    script,
                    "for i in 1 2 3 4 5 6; do echo fork {fork} new {number} $i; done > area{fork}/new{number}"
                )
            }
            5 => writeln!(script, "chmod +x {file}"),
            6..=8 => {
                let (shared, line) = (random.below(SHARED_FILES), 1 + fork * 6 + random.below(3));
                writeln!(script, "sed -i '{line}s/.*/fork {fork} change {number}/' shared{shared}")
            }
            // Work of another fork: it may conflict.
            9 if random.below(6) == 0 => {
                let other = format!("area{}/f{}", random.below(FORKS), random.below(OWN_FILES));
                writeln!(
                    script,
                    "test ! -e {other} || sed -i '{line}s/.*/fork {fork} elsewhere {number}/' {other}"
                )
            }
            10 => writeln!(script, "sed -i '{line}d' {file}"),
            _ => writeln!(script, "sed -i '{line}s/.*/fork {fork} change {number}/' {file}"),
        };
    }
    script
}

/// Runs git on the repository of a workspace with another work tree; returns its output, and true if it succeeded.
fn git(ws: &Workspace, tree: &Path, arguments: &[&str]) -> (String, bool) {
    let mut git = Command::new("git");
    git.env("GIT_DIR", ws.path(".git"))
        .env("GIT_WORK_TREE", tree)
        .env("GIT_INDEX_FILE", tree.with_extension("index"));
    git.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(arguments).current_dir(tree);
    let output = git.output().unwrap();
    (String::from_utf8(output.stdout).unwrap().trim().to_owned(), output.status.success())
}

/// Commits what a fork has, as a child of HEAD.
fn commit_of(ws: &Workspace, name: &str) -> String {
    let tree = ws.outside.join(name);
    std::fs::create_dir_all(&tree).unwrap();
    let copied = shell(
        ws,
        name,
        &format!("tar c --exclude=./.git --exclude=./.lbx . | tar x -C {} && echo ok", tree.display()),
    );
    assert_eq!(copied, "ok\n");
    assert!(git(ws, &tree, &["add", "-A"]).1);
    let id = git(ws, &tree, &["write-tree"]).0;
    git(ws, &tree, &["commit-tree", "-m", name, "-p", "HEAD", &id]).0
}

#[test]
fn random_forks_merge_as_git_merges_them() {
    let Some(probe) = forked(&["probe"]) else { return };
    drop(probe);
    let seed = std::env::var("LBX_RANDOM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let count: u64 = std::env::var("LBX_HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(2);
    let (mut merged, mut refused) = (0, 0);
    for seed in seed..seed + count {
        let mut random = Random::new(seed);
        let text = |name: &str, lines: usize| -> String {
            (0..lines).map(|line| format!("{name} {line}\n")).collect()
        };
        let own =
            (0..FORKS).flat_map(|fork| (0..OWN_FILES).map(move |file| (format!("area{fork}/f{file}"), 24)));
        let files: Vec<(String, String)> = own
            .chain((0..SHARED_FILES).map(|file| (format!("shared{file}"), FORKS * 6)))
            .map(|(path, lines)| (path.clone(), text(&path, lines)))
            .collect();
        let ws = Workspace::with(
            &files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>(),
        );
        let mut names: Vec<String> = (0..FORKS).map(|fork| format!("fork{fork}")).collect();
        for (fork, name) in names.iter().enumerate() {
            ws.lbx(&["fork", name]).ok();
            within(&ws, name, &["bash", &script(&mut random, fork)]).envelope();
        }
        let commits: Vec<String> = names.iter().map(|name| commit_of(&ws, name)).collect();
        let mut left: Vec<(String, String)> = names.drain(..).zip(commits).collect();
        let mut ours = ws.git(&["rev-parse", "HEAD"]);
        while !left.is_empty() {
            let (name, theirs) = left.remove(random.below(left.len()));
            let (output, is_clean) = git(&ws, &ws.root, &["merge-tree", "--write-tree", &ours, &theirs]);
            let before = ws.tree();
            let answer = ws.lbx(&["merge", &name]);
            let is_merged = answer.status() == 0;
            if is_merged {
                assert!(is_clean, "LBX_RANDOM_SEED={seed}: git refuses {name}: {output}");
                assert_eq!(ws.tree_id(), output, "LBX_RANDOM_SEED={seed}: {name} merges differently");
                ours =
                    git(&ws, &ws.root, &["commit-tree", "-m", &name, "-p", &ours, "-p", &theirs, &output]).0;
                merged += 1;
            } else {
                let error = answer.error("stale_file");
                assert!(!is_clean, "LBX_RANDOM_SEED={seed}: git merges {name}: {error}");
                assert_eq!(ws.tree(), before);
                refused += 1;
            }
        }
    }
    assert!(merged > refused && refused > 0, "{merged} merged, {refused} refused");
}
