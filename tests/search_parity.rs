//! `grep`, `glob` and `ls` find what `rg` and `git ls-files` find.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod search_support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lbx::tools::{glob::Glob, grep::Grep, ls::Ls};
use search_support::queries::{EVERYWHERE, SMALL};
use search_support::{
    Tree, call, field, is_installed, lines_of, messy, output, places_of, places_of_rg, rg_version, skipped,
    texts,
};

/// Folders of additional repositories to compare on, separated by colons.
const TREES: &str = "LBX_PARITY_TREES";

/// Returns a clone of this repository, which nobody edits meanwhile, and the repositories in [`TREES`].
fn repositories() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let clone = folder.path().join("clone");
    output(folder.path(), "git", &["clone", "-q", "--shared", env!("CARGO_MANIFEST_DIR"), "clone"]);
    let mut trees = vec![clone];
    trees.extend(std::env::var_os(TREES).iter().flat_map(std::env::split_paths));
    (folder, trees)
}

/// Returns true if all paths in a query exist.
fn has_paths(root: &Path, query: &[&str]) -> bool {
    let takes_value = |flag: &str| matches!(flag, "-g" | "-t" | "-m" | "-e" | "-A" | "-B" | "-C");
    let (mut words, mut plain, mut has_pattern) = (query.iter(), Vec::new(), false);
    while let Some(word) = words.next() {
        if takes_value(word) {
            has_pattern |= *word == "-e";
            words.next();
        } else if !word.starts_with('-') {
            plain.push(word);
        }
    }
    plain.iter().skip(usize::from(!has_pattern)).all(|path| root.join(path).exists())
}

/// Returns the first few of some places.
fn some<'a>(places: impl Iterator<Item = &'a (String, u64, u64)>) -> Vec<&'a (String, u64, u64)> {
    places.take(5).collect()
}

/// Returns the difference in the results of one query.
fn fault(root: &Path, query: &[&str]) -> Option<String> {
    let args = [&["--limit", "0", "--max-bytes", "0"], query].concat();
    let mut expected = places_of_rg(root, query);
    expected.retain(|(path, ..)| !path.split('/').any(|name| name == ".git") && path != "not UTF-8");
    let answer = match call::<Grep>(root, &args) {
        Ok(answer) => answer,
        Err(error) => return Some(format!("{query:?}: {error}")),
    };
    let found = places_of(&answer);
    if found == expected {
        return None;
    }
    let (found, expected): (BTreeSet<_>, BTreeSet<_>) =
        (found.into_iter().collect(), expected.into_iter().collect());
    let (extra, missing) = (some(found.difference(&expected)), some(expected.difference(&found)));
    Some(format!("{query:?}: extra {extra:?}, missing {missing:?}"))
}

/// Compares with `rg` on one tree.
fn must_equal_rg(root: &Path, queries: &[&[&str]]) {
    let there = queries.iter().filter(|query| has_paths(root, query));
    let faults: Vec<String> = there.filter_map(|query| fault(root, query)).collect();
    assert!(faults.is_empty(), "{}: {} differ\n{}", root.display(), faults.len(), faults.join("\n"));
}

#[test]
fn grep_matches_equal_rg() {
    assert!(EVERYWHERE.len() >= 150);
    if is_installed("rg") {
        let tree = messy();
        must_equal_rg(tree.path(), EVERYWHERE);
        must_equal_rg(tree.path(), SMALL);
    }
}

#[test]
fn grep_matches_equal_rg_on_repositories() {
    if !is_installed("rg") {
        return;
    }
    // Version 14 changed the definition of a word next to invalid bytes, and treats a lone CR as the end of a line
    // under --crlf, as grep does.
    let changed = |query: &&[&str]| {
        query.iter().any(|word| *word == "-w" || word.contains("\\b") || word.ends_with('$'))
    };
    let is_old = rg_version() < 14;
    let (_folder, roots) = repositories();
    for (index, root) in roots.iter().enumerate() {
        let skips = is_old && index > 0;
        if skips {
            skipped(format!("on {}: queries that rg reads otherwise before version 14", root.display()));
        }
        let queries: Vec<&[&str]> =
            EVERYWHERE.iter().copied().filter(|query| !skips || !changed(query)).collect();
        must_equal_rg(root, &queries);
    }
}

#[test]
fn glob_paths_equal_rg_and_git_on_repositories() {
    if !is_installed("rg") || !is_installed("git") {
        return;
    }
    let (_folder, roots) = repositories();
    for root in roots {
        for flags in [&[][..], &["--hidden"]] {
            let args = [&["--files", "--sort", "path", "-g", "!/.git"], flags].concat();
            let expected = lines_of(&output(&root, "rg", &args), b'\n');
            let args = [&["**", "--type", "file", "--limit", "0", "--max-bytes", "0"], flags].concat();
            let found = call::<Glob>(&root, &args).unwrap();
            let found: BTreeSet<PathBuf> = texts(&found.data["paths"]).iter().map(PathBuf::from).collect();
            // `rg` does not check which files git tracks.
            let found: BTreeSet<PathBuf> =
                found.difference(&tracked_though_ignored(&root)).cloned().collect();
            assert_eq!(found, expected, "{} {flags:?}", root.display());
        }
        let expected = listed_by_git(&root);
        let found = call::<Glob>(&root, &["**", "--hidden", "--limit", "0", "--max-bytes", "0"]).unwrap();
        let found: BTreeSet<PathBuf> = texts(&found.data["paths"]).iter().map(PathBuf::from).collect();
        assert_eq!(found, expected, "{}", root.display());
    }
}

/// Returns tracked files that git's rules would hide.
fn tracked_though_ignored(root: &Path) -> BTreeSet<PathBuf> {
    lines_of(&output(root, "git", &["ls-files", "-ci", "--exclude-standard", "-z"]), 0)
}

/// Returns existing files that git lists; of a nested repository, it lists only the folder.
fn listed_by_git(root: &Path) -> BTreeSet<PathBuf> {
    let mut listed = lines_of(&output(root, "git", &["ls-files", "-co", "--exclude-standard", "-z"]), 0);
    listed.retain(|path| root.join(path).symlink_metadata().is_ok_and(|found| !found.is_dir()));
    listed
}

#[test]
fn grep_files_and_counts_equal_rg() {
    if !is_installed("rg") {
        return;
    }
    let tree = messy();
    for pattern in ["foo", "bar", "Foo|FOO", "^$", "zzz"] {
        let expected = lines_of(&output(tree.path(), "rg", &["-l", pattern]), b'\n');
        let found: BTreeSet<PathBuf> = texts(&tree.grep(&["-l", "--limit", "0", pattern]).data["files"])
            .iter()
            .map(PathBuf::from)
            .collect();
        assert_eq!(found, expected, "{pattern}");
        for only in [&[][..], &["-o"][..]] {
            let args: Vec<&str> = ["-c", "--sort", "path", pattern].iter().chain(only).copied().collect();
            let expected = String::from_utf8(output(tree.path(), "rg", &args)).unwrap();
            let args: Vec<&str> = ["-c", "--limit", "0", pattern].iter().chain(only).copied().collect();
            assert_eq!(tree.grep(&args).text, expected, "{pattern}");
        }
        for across in [pattern, "o\\n", "\\n\\n"] {
            let args = ["-U", "-c", "--sort", "path", across];
            let expected = String::from_utf8(output(tree.path(), "rg", &args)).unwrap();
            assert_eq!(tree.grep(&["-U", "-c", "--limit", "0", across]).text, expected, "{across}");
        }
        let args = ["--count-matches", "--sort", "path", pattern];
        let expected = String::from_utf8(output(tree.path(), "rg", &args)).unwrap();
        assert_eq!(tree.grep(&["--count-matches", "--limit", "0", pattern]).text, expected, "{pattern}");
    }
}

#[test]
fn grep_text_output_equals_rg() {
    if !is_installed("rg") {
        return;
    }
    let tree = messy();
    for args in
        [&["foo"][..], &["-C2", "foo"], &["-A1", "two"], &["-B3", "end"], &["-o", "fo+"], &["-v", "foo"]]
    {
        let rg: Vec<&str> =
            ["--heading", "-n", "--sort", "path", "-g", "!*.bin", "-g", "!latin1.txt", "-g", "!crlf.txt"]
                .iter()
                .chain(args)
                .copied()
                .collect();
        let own: Vec<&str> = ["--limit", "0", "--max-bytes", "0", "--max-columns", "0", "--exclude", "*.bin"]
            .iter()
            .chain(&["--exclude", "latin1.txt", "--exclude", "crlf.txt"])
            .chain(args)
            .copied()
            .collect();
        let expected = String::from_utf8(output(tree.path(), "rg", &rg)).unwrap();
        assert_eq!(tree.grep(&own).text, expected, "{args:?}");
    }
}

#[test]
fn glob_paths_equal_rg_files() {
    if !is_installed("rg") {
        return;
    }
    let tree = messy();
    for flags in [&[][..], &["--hidden"], &["--no-ignore"], &["--hidden", "--no-ignore"]] {
        for pattern in ["**", "*.rs", "*.{txt,md}", "sub/**", "sub/*", "**/b/*", "[a-c]*", "[!a-c]*", "?.txt"]
        {
            let args: Vec<&str> = ["--files", "--sort", "path"].iter().chain(flags).copied().collect();
            let glob = globset::GlobBuilder::new(&if pattern.contains('/') || pattern == "**" {
                pattern.to_owned()
            } else {
                format!("**/{pattern}")
            })
            .literal_separator(true)
            .build()
            .unwrap()
            .compile_matcher();
            let listed = String::from_utf8(output(tree.path(), "rg", &args)).unwrap();
            let expected: Vec<&str> = listed
                .lines()
                .filter(|path| !path.split('/').any(|name| name == ".git") && glob.is_match(path))
                .collect();
            let args: Vec<&str> = ["--limit", "0", "--max-bytes", "0", "--type", "file", pattern]
                .iter()
                .chain(flags)
                .copied()
                .collect();
            assert_eq!(texts(&tree.glob(&args).data["paths"]), expected, "{pattern} {flags:?}");
        }
    }
}

/// A path, or a glob without a folder, that begins with a dot finds what `rg` finds by it.
#[test]
fn named_hidden_files_equal_rg() {
    if !is_installed("rg") {
        return;
    }
    let tree = messy();
    for path in
        [".env", ".env.local", ".github/w/a.yml", ".github/b", "sub/.env", "sub/.hid/f", "sub/env", "x.env"]
    {
        std::fs::create_dir_all(tree.path().join(path).parent().unwrap()).unwrap();
        std::fs::write(tree.path().join(path), "foo\n").unwrap();
    }
    let listed = |args: &[&str]| -> Vec<String> {
        let all =
            String::from_utf8(output(tree.path(), "rg", &[&["--sort", "path"], args].concat())).unwrap();
        all.lines().filter(|path| !path.split('/').any(|name| name == ".git")).map(str::to_owned).collect()
    };
    let named = [".env*", ".env", "**/.env", "sub/.*", "sub/.env", "[.]env", "?env", ".hid/f"];
    for glob in named {
        let expected = listed(&["--files", "-g", glob]);
        let found = tree.glob(&[glob, "--type", "file"]);
        assert_eq!(texts(&found.data["paths"]), expected, "glob {glob}");
        let found = tree.grep(&["foo", "-l", "-g", glob]);
        assert_eq!(texts(&found.data["files"]), listed(&["foo", "-l", "-g", glob]), "grep -g {glob}");
    }
    for path in [".env", ".github", ".github/w", "sub/.hid", "sub/.hid/f"] {
        assert_eq!(
            texts(&tree.grep(&["foo", "-l", path]).data["files"]),
            listed(&["foo", "-l", path]),
            "grep {path}"
        );
        let listed = listed(&["--files", path]);
        let entries = tree.ls(&["-R", path]);
        let entries =
            entries.data["entries"].as_array().unwrap().iter().filter(|entry| entry["type"] == "file");
        let found: Vec<&str> = entries.map(|entry| entry["path"].as_str().unwrap()).collect();
        assert_eq!(found, listed, "ls {path}");
        if tree.path().join(path).is_dir() {
            assert_eq!(texts(&tree.glob(&["*", path]).data["paths"]), listed, "glob * {path}");
        }
    }
}

/// A split or sparse index has the tracked files in two files, or names a folder for them.
#[test]
fn tracked_files_of_a_split_or_sparse_index_are_found() {
    if !is_installed("git") {
        return;
    }
    let tree =
        Tree::with(&[(".gitignore", "*.log\n"), ("in/a.log", "a\n"), ("out/b.log", "b\n"), ("u.log", "u\n")]);
    let git = |args: &[&str]| {
        let user = ["-c", "user.name=a", "-c", "user.email=a@b"];
        output(tree.path(), "git", &[&user[..], args].concat());
    };
    let found =
        || texts(&tree.glob(&["**/*.log"]).data["paths"]).iter().map(ToString::to_string).collect::<Vec<_>>();
    git(&["init", "-q"]);
    git(&["add", "-f", "in", "out", ".gitignore"]);
    git(&["commit", "-qm", "1"]);
    git(&["update-index", "--split-index"]);
    assert_eq!(found(), ["in/a.log", "out/b.log"]);
    std::fs::write(tree.path().join("in/n.log"), "n\n").unwrap();
    git(&["add", "-f", "in/n.log"]);
    git(&["rm", "-q", "--cached", "out/b.log"]);
    assert_eq!(found(), ["in/a.log", "in/n.log"]);
    let shared = std::fs::read_dir(tree.path().join(".git")).unwrap().map(|entry| entry.unwrap().path());
    let shared = shared.filter(|path| path.to_string_lossy().contains("sharedindex")).collect::<Vec<_>>();
    let moved = |path: &Path| tree.path().join(path.extension().unwrap());
    for path in &shared {
        std::fs::rename(path, moved(path)).unwrap();
        std::fs::create_dir(path).unwrap();
    }
    let damaged = tree.glob(&["**/*.log"]);
    assert!(
        format!("{:?}", damaged.warnings).contains("git's index: sharedindex."),
        "{:?}",
        damaged.warnings
    );
    for path in &shared {
        std::fs::remove_dir(path).unwrap();
        std::fs::rename(moved(path), path).unwrap();
    }
    git(&["update-index", "--no-split-index"]);
    git(&["add", "-f", "out/b.log"]);
    git(&["commit", "-qm", "2"]);
    git(&["sparse-checkout", "set", "--cone", "--sparse-index", "in"]);
    assert_eq!(found(), ["in/a.log", "in/n.log"]);
    std::fs::create_dir_all(tree.path().join("out")).unwrap();
    std::fs::write(tree.path().join("out/b.log"), "b\n").unwrap();
    let sparse = tree.glob(&["out/*.log"]);
    let told = "ignored were left out where git's index is sparse";
    assert!(format!("{:?}", sparse.warnings).contains(told), "{:?}", sparse.warnings);
}

/// Of a file that only the other side of a merge changed, the index has no version of this side.
#[test]
fn ignored_files_that_are_unmerged_are_found() {
    if !is_installed("git") {
        return;
    }
    let tree = Tree::with(&[(".gitignore", "gen*\n"), ("gen1", "base\n"), ("gen2", "base\n")]);
    let git = |args: &[&str]| {
        let user = ["git", "-c", "user.name=a", "-c", "user.email=a@b"];
        let args = [&user[..], args].concat();
        std::process::Command::new(args[0]).args(&args[1..]).current_dir(tree.path()).output().unwrap();
    };
    for call in [
        &["init", "-q"][..],
        &["add", "-f", "."],
        &["commit", "-qm", "1"],
        &["checkout", "-qb", "other"],
        &["rm", "-q", "gen2"],
    ] {
        git(call);
    }
    tree.write("gen1", b"other\n");
    git(&["commit", "-qam", "2"]);
    git(&["checkout", "-q", "-"]);
    git(&["rm", "-q", "gen1"]);
    tree.write("gen2", b"mine\n");
    git(&["commit", "-qam", "3"]);
    // Ends in two conflicts.
    git(&["merge", "other"]);
    let found = texts(&tree.glob(&["gen*"]).data["paths"]).iter().map(PathBuf::from).collect::<BTreeSet<_>>();
    assert_eq!(found, ["gen1", "gen2"].map(PathBuf::from).into());
    assert!(listed_by_git(tree.path()).is_superset(&found));
}

#[test]
fn hidden_listings_equal_git_ls_files() {
    if !is_installed("git") {
        return;
    }
    let tree = messy();
    // Rules and repositories that git does not know.
    for path in [".ignore", ".rgignore"] {
        std::fs::remove_file(tree.path().join(path)).unwrap();
    }
    std::fs::remove_dir_all(tree.path().join("inner/.git")).unwrap();
    let listed = output(tree.path(), "git", &["ls-files", "-co", "--exclude-standard", "-z"]);
    let expected = lines_of(&listed, 0);
    let paths = tree.glob(&["**", "--hidden", "--limit", "0", "--max-bytes", "0"]);
    let found: BTreeSet<PathBuf> = texts(&paths.data["paths"]).iter().map(PathBuf::from).collect();
    assert_eq!(found, expected);
    let entries = tree.ls(&["-Ra", "--limit", "0", "--max-bytes", "0"]);
    let leaves: BTreeSet<PathBuf> = entries.data["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["type"] == "file" || entry["type"] == "symlink")
        .map(|entry| PathBuf::from(entry["path"].as_str().unwrap()))
        .collect();
    assert_eq!(leaves, expected);
}

#[test]
fn search_results_are_the_same_from_a_subdirectory() {
    let tree = messy();
    let from_root = call::<Grep>(tree.path(), &["foo", "sub"]).unwrap();
    let from_sub = call::<Grep>(&tree.path().join("sub"), &["foo"]).unwrap();
    let from_root: Vec<String> = field(&from_root.data["matches"], "path");
    let from_sub: Vec<String> = field(&from_sub.data["matches"], "path");
    assert_eq!(from_root, from_sub.iter().map(|path| format!("sub/{path}")).collect::<Vec<_>>());
    let sibling = call::<Glob>(&tree.path().join("deep"), &["*.rs", "../deep-er"]).unwrap();
    assert_eq!(texts(&sibling.data["paths"]), ["../deep-er/x.rs"]);
    let listed = call::<Ls>(&tree.path().join("deep/a"), &["b"]).unwrap();
    assert_eq!(field(&listed.data["entries"], "path"), ["b/open.py"]);
}
