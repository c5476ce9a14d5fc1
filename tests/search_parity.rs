//! `grep`, `glob` and `ls` find what `rg` and `git ls-files` find.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod search_support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lbx::tools::{glob::Glob, grep::Grep, ls::Ls};
use search_support::{call, field, has, lines_of, messy, output, places_of, places_of_rg, texts};

/// Arguments that mean the same to `rg` and to `grep`.
const QUERIES: &[&[&str]] = &[
    &["foo"],
    &["-i", "foo"],
    &["-w", "foo"],
    &["-S", "foo"],
    &["-S", "Foo"],
    &["-F", "foo("],
    &["-F", "."],
    &["^foo"],
    &["foo$"],
    &["^$"],
    &["fo+"],
    &["(foo|bar)"],
    &["[[:upper:]]oo"],
    &["\\bfoo\\b"],
    &["\\w+\\s+foo"],
    &["\\p{Lu}"],
    &["ñ"],
    &["é"],
    &["x{200}"],
    &["zzz_nowhere"],
    &["-v", "foo"],
    &["-v", "line"],
    &["--hidden", "foo"],
    &["--no-ignore", "foo"],
    &["--hidden", "--no-ignore", "foo"],
    &["-U", "foo\\n"],
    &["-U", "\\{\\n\\s+foo"],
    &["-U", "foo\\(\\n[^)]*\\)"],
    &["-U", "bar\\nline"],
    &["-g", "*.rs", "foo"],
    &["-g", "*.{rs,py}", "foo"],
    &["-g", "!*.txt", "foo"],
    &["-g", "*.txt", "-g", "!many.txt", "foo"],
    &["-g", "sub/**", "foo"],
    &["-g", "/sub/*", "foo"],
    &["-g", "*.log", "foo"],
    &["-g", "**/b/*", "foo"],
    &["-t", "rust", "foo"],
    &["-t", "py", "foo"],
    &["-t", "rust", "-t", "py", "foo"],
    &["-t", "md", "foo"],
    &["-e", "foo", "-e", "bar"],
    &["-F", "-e", "foo(", "-e", "= 1"],
    &["-e", "-not-a-flag"],
    &["-m", "2", "foo"],
    &["foo", "sub"],
    &["foo", "nested", "sub"],
    &["foo", "a.txt"],
    &["foo", "a.txt", "deep.txt"],
    &["foo", "b.log"],
    &["foo", "node_modules"],
    &["foo", "build"],
    &["foo", "sub/.hidden"],
    &["foo", "inner"],
    &["foo", "nested"],
    &["line 29\\d\\d bar"],
    &["\\d"],
    &["."],
];

/// The queries on one tree.
fn queries_agree(root: &Path) {
    let mut failures = Vec::new();
    for query in QUERIES {
        let paths_exist = query
            .iter()
            .skip(1)
            .all(|word| !word.contains('/') || word.contains('*') || root.join(word).exists());
        if !paths_exist {
            continue;
        }
        let mut args = vec!["--limit", "0", "--max-bytes", "0"];
        args.extend_from_slice(query);
        let mut expected: Vec<_> = places_of_rg(root, query);
        expected.retain(|(path, ..)| !path.split('/').any(|name| name == ".git") && path != "not UTF-8");
        let found = match call::<Grep>(root, &args) {
            Ok(answer) => places_of(&answer),
            Err(error) if expected.is_empty() => {
                assert!(error.kind().name() == "not_found", "{query:?}: {error}");
                continue;
            }
            Err(error) => panic!("{query:?}: {error}"),
        };
        if found != expected {
            let (found, expected): (BTreeSet<_>, BTreeSet<_>) =
                (found.iter().collect(), expected.iter().collect());
            let extra: Vec<_> = found.difference(&expected).take(5).collect();
            let missing: Vec<_> = expected.difference(&found).take(5).collect();
            failures.push(format!("{query:?}: extra {extra:?}, missing {missing:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn matches_are_those_of_rg() {
    if has("rg") {
        queries_agree(messy().path());
    }
}

#[test]
fn matches_are_those_of_rg_on_this_repository() {
    if has("rg") {
        queries_agree(Path::new(env!("CARGO_MANIFEST_DIR")));
    }
}

#[test]
fn files_and_counts_are_those_of_rg() {
    if !has("rg") {
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
    }
}

#[test]
fn text_is_that_of_rg() {
    if !has("rg") {
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
fn paths_are_those_of_rg_files() {
    if !has("rg") {
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

#[test]
fn hidden_listings_are_those_of_git() {
    if !has("git") {
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
fn what_is_found_does_not_depend_on_where_one_stands() {
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
