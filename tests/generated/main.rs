//! `man/` and `completions/` match the command line, because they are generated from it.
//!
//! `BLESS=1 cargo test --test generated` rewrites them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail, and its name says what it is about"
)]

mod blocks;
mod budget;
#[path = "../common/mod.rs"]
#[expect(dead_code, unused_imports, reason = "each test crate uses a part of it")]
mod common;
mod completions;
mod examples;
mod kept;
mod layers;
mod literals;
mod pages;
mod prose;
mod warnings;
mod wording;

use crate::common::is_installed;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use lbx::cli::commands::tree;
use lbx::error::ErrorKind;

/// Expected files, by path from the package's folder.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Lint messages about the output of `clap_mangen` that do not affect the page, and about the missing date: a generated
/// page has none.
const WORDS_OF_THE_GENERATOR: [&str; 2] = ["skipping paragraph macro", "missing date"];

/// Returns everything that is generated.
fn generated() -> Files {
    let mut files = Files::new();
    for (name, page) in pages::all() {
        files.insert(Path::new("man").join(name), without_trailing_blanks(&page));
    }
    for (name, script) in completions::all() {
        files.insert(Path::new("completions").join(name), without_trailing_blanks(script.as_bytes()));
    }
    files
}

/// Returns the lines without trailing blanks, so that git and its hooks do not complain.
fn without_trailing_blanks(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(text.to_vec()).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    format!("{}\n", lines.join("\n").trim_end()).into_bytes()
}

/// Returns the existing files.
fn present(package: &Path) -> Files {
    let mut files = Files::new();
    for folder in ["man", "completions"] {
        for entry in std::fs::read_dir(package.join(folder)).into_iter().flatten() {
            let path = entry.unwrap().path();
            files.insert(path.strip_prefix(package).unwrap().to_owned(), std::fs::read(&path).unwrap());
        }
    }
    files
}

#[test]
fn manual_pages_and_completions_are_up_to_date() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (wanted, found) = (generated(), present(package));
    let stale: Vec<&PathBuf> =
        wanted.keys().chain(found.keys()).filter(|path| wanted.get(*path) != found.get(*path)).collect();
    if stale.is_empty() {
        return;
    }
    assert!(
        std::env::var_os("BLESS").is_some(),
        "stale: {stale:?}; `BLESS=1 cargo test --test generated` writes them anew"
    );
    for path in found.keys().filter(|path| !wanted.contains_key(*path)) {
        std::fs::remove_file(package.join(path)).unwrap();
    }
    for (path, text) in &wanted {
        let path = package.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn manual_pages_have_all_sections_and_error_kinds() {
    for (name, page) in pages::all() {
        let page = String::from_utf8(page).unwrap();
        let mut wanted = vec!["NAME", "SEE ALSO"];
        if name.ends_with(".1") {
            wanted.extend(["SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "EXAMPLES"]);
        }
        if ["lbx.1", "lbx-json.7"].contains(&name.as_str()) {
            for kind in ErrorKind::ALL {
                assert!(page.contains(kind.name()), "{name}: {kind}");
            }
        }
        for section in wanted {
            let headings = [format!(".SH {section}\n"), format!(".SH \"{section}\"\n")];
            assert!(headings.iter().any(|heading| page.contains(heading)), "{name}: {section}");
        }
    }
}

#[test]
fn long_descriptions_begin_with_the_short_one() {
    let tree = lbx::cli::commands::tree();
    for command in std::iter::once(&tree).chain(tree.get_subcommands()) {
        let Some(long) = command.get_long_about().map(ToString::to_string) else { continue };
        let short = command.get_about().unwrap().to_string();
        let rest = long.strip_prefix(&short).unwrap_or_else(|| panic!("{}: {long}", command.get_name()));
        assert!(rest.is_empty() || rest.starts_with("\n\n"), "{}: {long}", command.get_name());
    }
}

/// Writes the generated files into a temporary folder, which is returned with them.
fn written() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (path, text) in generated() {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        paths.push(path);
    }
    (folder, paths)
}

#[test]
fn manual_pages_pass_mandoc_lint() {
    if !is_installed("mandoc") {
        return;
    }
    let (folder, paths) = written();
    for path in paths.iter().filter(|path| path.starts_with(folder.path().join("man"))) {
        let output = Process::new("mandoc").args(["-T", "lint", "-W", "warning"]).arg(path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaints: Vec<&str> = said
            .lines()
            .filter(|line| !WORDS_OF_THE_GENERATOR.iter().any(|words| line.contains(words)))
            .collect();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }
}

#[test]
fn scripts_pass_shellcheck() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = ["install.sh", "fuzz/run.sh", "fuzz/instrument"].map(|name| package.join(name)).to_vec();
    for folder in [".ci", "benches", "tests/examples"] {
        files_below(&package.join(folder), &mut files);
    }
    let is_script = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        first.starts_with(b"#!") && first.ends_with(b"sh")
    };
    files.retain(is_script);
    assert!(files.len() > 5, "{files:?}");
    // Continuous integration installs shellcheck; elsewhere it may be missing.
    let checked = Process::new("shellcheck").args(["-x", "-P", "SCRIPTDIR"]).args(&files).output();
    if let Ok(output) = checked {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn completions_parse_in_their_shells() {
    let (folder, _paths) = written();
    for (shell, script) in [("bash", "lbx.bash"), ("zsh", "_lbx"), ("fish", "lbx.fish")] {
        let script = folder.path().join("completions").join(script);
        // Only an installed shell can check it.
        if let Ok(checked) = Process::new(shell).arg("-n").arg(&script).output() {
            assert!(checked.status.success(), "{shell}: {}", String::from_utf8_lossy(&checked.stderr));
        }
    }
}

/// Appends all Rust sources below a folder to one text.
fn sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// Returns the names of tests in a part of a page: words in backticks that only tests have.
fn tests_in(part: &str) -> Vec<&str> {
    let is_name = |name: &&str| {
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        name.matches('_').count() > 1 && name.bytes().all(is_word)
    };
    part.split('`').skip(1).step_by(2).filter(is_name).collect()
}

#[test]
fn every_rule_names_a_test_that_exists() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    sources(&package.join("src"), &mut text);
    sources(&package.join("tests"), &mut text);
    for (page, rules_min) in [("tests/INVARIANTS.md", 80), ("SECURITY.md", 12)] {
        let page_text = std::fs::read_to_string(package.join(page)).unwrap();
        let rows = page_text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
        let rules: Vec<&str> = rows.filter(|row| !row.contains("| tests |")).collect();
        assert!(rules.len() >= rules_min, "{page}: {} rules", rules.len());
        for rule in rules {
            let tests = tests_in(rule);
            assert!(!tests.is_empty(), "{page}: {rule}");
            for test in tests {
                assert!(text.contains(&format!("fn {test}()")), "{page}: there is no test {test}");
            }
        }
    }
}

/// Collects every file below a folder.
fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn architecture_page_is_short_and_names_existing_paths() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(package.join("ARCHITECTURE.md")).unwrap();
    assert!(page.lines().count() <= 150, "{} lines", page.lines().count());
    let named: Vec<&str> =
        page.split('`').skip(1).step_by(2).filter(|word| word.starts_with("src/")).collect();
    for part in ["src/text", "src/engine/change", "src/tools", "src/mcp"] {
        assert!(named.contains(&part), "{part}");
    }
    for path in named {
        assert!(package.join(path).exists(), "ARCHITECTURE.md names {path}, which does not exist");
    }
}

#[test]
fn greps_of_the_contributing_page_find_their_targets() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(package.join("CONTRIBUTING.md")).unwrap();
    let commands = page.split("`grep -n \"").skip(1).map(|rest| rest.split_once('`').unwrap().0);
    let greps: Vec<(&str, &str)> = commands.map(|command| command.split_once("\" ").unwrap()).collect();
    assert_eq!(greps.len(), 7, "{greps:?}");
    for (pattern, file) in greps {
        let text = std::fs::read_to_string(package.join(file)).unwrap();
        assert!(text.contains(pattern), "{file} has no `{pattern}`");
    }
    for file in ["src/engine/store/lock.rs", "src/engine/snapshot/store/refs.rs"] {
        assert!(package.join(file).exists(), "{file}");
    }
}

#[test]
fn readme_lists_every_tool() {
    let readme = include_str!("../../README.md");
    let tools = tree();
    for tool in tools.get_subcommands() {
        assert!(readme.contains(&format!("`{}`", tool.get_name())), "{}", tool.get_name());
    }
}

/// Largest number of lines of the README.
const README_LINES_MAX: usize = 180;

#[test]
fn readme_links_each_guarantee_to_its_test() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = include_str!("../../README.md");
    assert!(readme.lines().count() <= README_LINES_MAX, "{} lines", readme.lines().count());
    // Links are [words](path). A link to a test has its name as the words, in backticks.
    let links = readme.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(path, _)| path);
    for path in links {
        let path = path.split('#').next().unwrap();
        assert!(package.join(path).exists(), "README.md leads to {path}, which is not there");
    }
    let table = readme.split("| guarantee | test |").nth(1).and_then(|rest| rest.split("\n\n").next());
    let rows: Vec<&str> = table.unwrap().lines().skip(2).collect();
    assert!(rows.len() > 9, "{} guarantees", rows.len());
    for row in rows {
        let tests: Vec<&str> = row.split("[`").skip(1).collect();
        assert!(!tests.is_empty(), "{row}");
        for test in tests {
            let (name, path) = test.split_once("`](").unwrap();
            let path = path.split(')').next().unwrap();
            let text = std::fs::read_to_string(package.join(path)).unwrap();
            assert!(text.contains(&format!("fn {name}()")), "{path} has no test {name}");
        }
    }
}
