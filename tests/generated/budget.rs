//! The size of the code: it grows only together with a line of the changelog that says why. And its bounds: each has a
//! name of its own.

use std::collections::BTreeMap;
use std::path::Path;

use super::files_below;

/// Most files below src/.
const FILES_MAX: usize = 348;
/// Most lines of code in them, unit tests included: neither blank nor a comment.
const LINES_MAX: usize = 94_300;

#[test]
fn source_code_stays_within_its_budget() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    files_below(&package.join("src"), &mut files);
    files.retain(|file| file.extension().is_some_and(|kind| kind == "rs"));
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let of_file = |file| std::fs::read_to_string(file).unwrap().lines().filter(is_code).count();
    let lines: usize = files.iter().map(of_file).sum();
    assert!(files.len() <= FILES_MAX, "{} files below src/: merge some, or raise the budget", files.len());
    assert!(lines <= LINES_MAX, "{lines} lines of code below src/: remove some, or raise the budget");
    let stated = format!("at most {LINES_MAX} lines of code in {FILES_MAX} files");
    assert!(
        include_str!("../../CHANGELOG.md").contains(&stated),
        "CHANGELOG.md does not say `{stated}`: a line there says why the budget changed"
    );
}

#[test]
fn bounds_with_one_name_have_one_value() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    files_below(&package.join("src"), &mut files);
    files.retain(|file| file.extension().is_some_and(|kind| kind == "rs"));
    let mut bounds: BTreeMap<String, String> = BTreeMap::new();
    for file in files {
        let source = std::fs::read_to_string(&file).unwrap();
        // Constants of one function are indented; their names may repeat.
        for line in source.lines().filter(|line| line.starts_with("const ") || line.starts_with("pub")) {
            let Some((name, value)) = line.split_once("const ").and_then(|(_, rest)| rest.split_once(": "))
            else {
                continue;
            };
            if name.ends_with("_MAX") {
                let value = value.split_once(" = ").map_or(value, |(_, value)| value);
                let known = bounds.entry(name.to_owned()).or_insert_with(|| value.to_owned());
                assert_eq!(known, value, "{name} in {}: src/limits.rs has the bounds", file.display());
            }
        }
    }
    assert!(bounds.len() > 100, "{bounds:#?}");
}
