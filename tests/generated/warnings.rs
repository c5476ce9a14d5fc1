//! Some test triggers every warning and every finding of `doctor`.

use std::path::Path;

use super::files_below;
use super::literals::Source;

/// Calls that write a warning or a finding.
const WRITERS: [&str; 5] = [".warn(", ".warn_if(", "warnings.push(", "Finding::notice(", "Finding::problem("];
/// Number of consecutive words that one literal of a test must quote, or all words of a shorter text.
const QUOTED_WORDS: usize = 4;
/// Texts that no test triggers, and why.
const EXCEPTIONS: [(&str, &str); 7] = [
    ("there are too many files to look at each", "takes half a million files; tried by hand"),
    (
        "the session could not record its change",
        "the disk must fail between two writes of one call; tests/crash injects such faults and judges the tree",
    ),
    (
        "the commit was made, but",
        "the rename of git's index must fail after its lock was taken in the same call",
    ),
    (
        "a power failure may take the snapshot",
        "a sync must fail, the next ones of the same call work, and one more fail",
    ),
    (
        "Look for new repositories in the workspace",
        "the disk must fail after a command and before the next look at the workspace",
    ),
    (
        "there was no time to look at all snapshots",
        "takes more snapshots than are looked at in twenty seconds",
    ),
    ("It is settled now.", "another call must end between two looks at its lock"),
];

/// Returns the words between the placeholders of a text, in runs.
fn runs(text: &str) -> Vec<Vec<String>> {
    let mut depth = 0_u32;
    let marked: String = text
        .chars()
        .filter_map(|letter| match letter {
            '{' => {
                depth += 1;
                Some('\n')
            }
            '}' => {
                depth = depth.saturating_sub(1);
                None
            }
            letter => (depth == 0).then_some(letter),
        })
        .collect();
    marked.lines().map(words).filter(|words| !words.is_empty()).collect()
}

/// Returns the words of a text, without the punctuation around them.
fn words(text: &str) -> Vec<String> {
    let is_around = |letter: char| !letter.is_alphanumeric() && letter != '-';
    text.split_whitespace()
        .map(|word| word.trim_matches(is_around).to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

/// Returns the texts of a source that the writers take.
fn written(source: &Source) -> Vec<String> {
    let behind = |writer: &&str| -> Vec<String> {
        let places = source.code.match_indices(writer);
        places.flat_map(|(at, _)| source.literals_at(at + writer.len() - 1)).collect()
    };
    WRITERS.iter().flat_map(behind).collect()
}

/// Returns true if a literal of the tests quotes a text.
fn is_quoted(text: &str, quotes: &[String]) -> bool {
    let runs = runs(text);
    let longest = runs.iter().map(Vec::len).max().unwrap_or(0).min(QUOTED_WORDS);
    let has = |run: &Vec<String>| {
        run.windows(longest.max(1)).any(|part| {
            let part = format!(" {} ", part.join(" "));
            quotes.iter().any(|quote| quote.contains(&part))
        })
    };
    longest == 0 || runs.iter().any(has)
}

/// Returns the texts of the literals of a test source, word by word.
fn quotes(source: &Source) -> impl Iterator<Item = String> {
    source.literals.iter().map(|text| format!(" {} ", words(text).join(" ")))
}

#[test]
fn every_warning_is_quoted_by_a_test() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut quoted, mut texts, mut files) = (Vec::new(), Vec::new(), Vec::new());
    files_below(&package.join("src"), &mut files);
    files_below(&package.join("tests"), &mut files);
    for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "rs")) {
        let source = std::fs::read_to_string(file).unwrap();
        if file.starts_with(package.join("src")) {
            let (own, unit_tests) = source.split_at(source.find("#[cfg(test)]").unwrap_or(source.len()));
            quoted.extend(quotes(&Source::new(unit_tests)));
            texts.extend(written(&Source::new(own)).into_iter().map(|text| (file.clone(), text)));
        // This folder quotes texts that no test triggers.
        } else if !file.starts_with(package.join("tests/generated")) {
            quoted.extend(quotes(&Source::new(&source)));
        }
    }
    assert!(texts.len() > 80, "{} texts", texts.len());
    let is_missing = |(_, text): &&(std::path::PathBuf, String)| {
        !is_quoted(text, &quoted) && !EXCEPTIONS.iter().any(|(known, _)| text.contains(known))
    };
    let missing: Vec<_> = texts.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no test quotes:\n{missing:#?}");
    for (known, why) in EXCEPTIONS {
        assert!(
            texts.iter().any(|(_, text)| text.contains(known)),
            "is no warning any more: {known} ({why})"
        );
    }
}
