//! Beside `git apply`, where git is installed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use super::super::*;
use crate::random::Random;

/// Runs git in `folder`; `None` where it fails or is not there.
fn git(folder: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new("git")
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(["-c", "core.autocrlf=false", "-c", "user.name=a", "-c", "user.email=a@b"])
        .args(arguments)
        .output()
        .ok()?;
    output.status.success().then_some(output.stdout)
}

/// The files of `folder`, `.git` left out.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.file_name() != ".git");
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

/// Changes some files: edits, deletes, renames, creates; text and binary.
fn change(folder: &Path, random: &mut Random) {
    for (name, bytes) in files(folder) {
        let path = folder.join(&name);
        match random.below(7) {
            0 => fs::remove_file(path).unwrap(),
            1 => fs::rename(&path, folder.join(format!("{name} moved\u{e4}"))).unwrap(),
            2 => {
                fs::write(folder.join(format!("{name}2")), random.edited(&bytes, 3)).unwrap();
                fs::remove_file(path).unwrap();
            }
            3 => fs::write(path, [bytes.as_slice(), b"\0binary"].concat()).unwrap(),
            4 => fs::write(folder.join(format!("{name}.new")), random.text(20, 3)).unwrap(),
            _ => fs::write(path, random.edited(&bytes, 3)).unwrap(),
        }
    }
}

#[test]
fn git_patches_give_the_tree_that_git_has() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    if git(folder, &["init", "-q"]).is_none() {
        eprintln!("skipped: git is not installed");
        return;
    }
    for seed in 0..25 {
        let mut random = Random::new(seed);
        for (name, _) in files(folder) {
            fs::remove_file(folder.join(name)).unwrap();
        }
        for name in ["a", "b c", "d\te", "f", "g", "h"] {
            let ending = random.below(4);
            fs::write(folder.join(name), random.text(60, ending)).unwrap();
        }
        git(folder, &["add", "-A"]).unwrap();
        git(folder, &["commit", "-qm", "before", "--allow-empty"]).unwrap();
        let before = files(folder);
        change(folder, &mut random);
        git(folder, &["add", "-A"]).unwrap();
        let text = git(folder, &["diff", "--cached", "--binary", "--full-index", "-M", "-C"]).unwrap();
        let after = files(folder);
        if text.is_empty() {
            continue;
        }
        compare(&text, &before, &after, false, seed);
        compare(&text, &after, &before, true, seed);
    }
}

/// Applies `text` to `before` and compares with `after`.
fn compare(text: &[u8], before: &[(String, Vec<u8>)], after: &[(String, Vec<u8>)], reverse: bool, seed: u64) {
    let parsed = parse(text).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    if reverse && parsed.files.iter().any(|file| file.operation == Operation::Copy) {
        return;
    }
    let mut tree: std::collections::BTreeMap<Vec<u8>, Vec<u8>> =
        before.iter().map(|(name, bytes)| (name.clone().into_bytes(), bytes.clone())).collect();
    let read = tree.clone();
    let options =
        PlanOptions { apply: PatchOptions { reverse, ..PatchOptions::default() }, ..PlanOptions::default() };
    let outcomes = compose::<()>(&parsed, &options, &mut |path, _| {
        Ok(read.get(path).map(|bytes| Before { bytes: Arc::new(bytes.clone().into()), mode: None }))
    });
    let outcomes = outcomes.unwrap_or_else(|error| panic!("seed {seed}, reverse {reverse}: {error:?}"));
    for outcome in outcomes.iter().filter(|outcome| outcome.action == Action::Rename) {
        tree.remove(outcome.from.as_ref().unwrap());
    }
    for outcome in outcomes {
        match outcome.after {
            Some(bytes) => tree.insert(outcome.path, bytes),
            None => tree.remove(&outcome.path),
        };
    }
    let got: Vec<_> =
        tree.into_iter().map(|(name, bytes)| (String::from_utf8(name).unwrap(), bytes)).collect();
    assert!(got == after, "seed {seed}, reverse {reverse}:\n{}", String::from_utf8_lossy(text));
}

/// The commits to replay and their repository, where `LBX_HISTORY` names one.
fn history() -> Option<(std::path::PathBuf, Vec<String>)> {
    let repository = std::path::PathBuf::from(std::env::var_os("LBX_HISTORY")?);
    let list = git(&repository, &["rev-list", "--no-merges", "--min-parents=1", "-n", "300", "--all"])?;
    Some((repository, String::from_utf8(list).unwrap().lines().map(str::to_owned).collect()))
}

#[test]
fn real_history_is_replayed_both_ways() {
    let Some((repository, commits)) = history() else {
        eprintln!("skipped: LBX_HISTORY names no repository");
        return;
    };
    for commit in commits {
        let parent = format!("{commit}^");
        let arguments = ["diff", "--full-index", "-M", "-C", "--binary", &parent, &commit];
        let text = git(&repository, &arguments).unwrap();
        if text.is_empty() {
            continue;
        }
        for strict in [false, true] {
            replay(
                &repository,
                &text,
                [&parent, &commit],
                PatchOptions { strict, ..PatchOptions::default() },
            );
        }
        if !text.windows(11).any(|part| part == b"\ncopy from ") {
            replay(
                &repository,
                &text,
                [&commit, &parent],
                PatchOptions { reverse: true, ..PatchOptions::default() },
            );
        }
    }
}

/// Applies `text` to one commit's files and compares with the other's.
fn replay(repository: &Path, text: &[u8], [before, after]: [&str; 2], options: PatchOptions) {
    let show = |commit: &str, path: &[u8]| {
        let name = format!("{commit}:{}", String::from_utf8(path.to_vec()).unwrap());
        git(repository, &["cat-file", "blob", &name])
    };
    let parsed = parse(text).unwrap_or_else(|error| panic!("{after}: {error}"));
    let plan = PlanOptions { apply: options, ..PlanOptions::default() };
    let outcomes = compose::<()>(&parsed, &plan, &mut |path, _| {
        Ok(show(before, path).map(|bytes| Before { bytes: Arc::new(bytes.into()), mode: None }))
    });
    for outcome in outcomes.unwrap_or_else(|error| panic!("{after}: {error:?}")) {
        let path = String::from_utf8_lossy(&outcome.path).into_owned();
        assert!(outcome.after == show(after, &outcome.path), "{after}: {path}, {options:?}");
        assert!(outcome.hunks.iter().all(|hunk| hunk.offset == 0), "{after}: {path}");
        if let Some(from) = outcome.from.filter(|_| outcome.action == Action::Rename) {
            assert_eq!(show(after, &from), None, "{after}: {path}");
        }
    }
}
