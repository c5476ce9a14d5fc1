//! Every warning, and everything that `doctor` finds, is brought about by some test.

use std::path::Path;

use super::{files_below, sources};

/// What writes a warning or a finding.
const WRITERS: [&str; 5] = [".warn(", ".warn_if(", "warnings.push(", "Finding::notice(", "Finding::problem("];
/// Words in a row that a test must quote, or all where there are fewer.
const QUOTED_WORDS: usize = 3;
/// Texts that no test brings about, and why.
const EXCEPTIONS: [(&str, &str); 4] = [
    ("there are too many files to look at each", "takes half a million files; tried by hand"),
    (
        "the session could not record its change",
        "the disk must fail between two writes of one call; tests/crash injects such faults and judges the tree",
    ),
    (
        "the commit was made, but",
        "the rename of git's index must fail after its lock was taken in the same call",
    ),
    ("It is settled now.", "another call must end between two looks at its lock"),
];

/// The words of a text that stand between its placeholders, in runs.
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

/// The words of a text, without what stands around them.
fn words(text: &str) -> Vec<String> {
    let is_around = |letter: char| !letter.is_alphanumeric() && letter != '-';
    text.split_whitespace()
        .map(|word| word.trim_matches(is_around).to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

/// The literals in the parentheses at whose opening a source begins.
fn literals(source: &str) -> Vec<String> {
    let (mut found, mut depth) = (Vec::new(), 0_u32);
    let mut letters = source.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 1 => break,
            ')' => depth -= 1,
            '"' => found.push(literal(&mut letters)),
            _ => {}
        }
    }
    found
}

/// The rest of a literal behind its opening quote.
fn literal(letters: &mut std::str::Chars<'_>) -> String {
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                // The text goes on in the next line.
                Some('\n') => text.push(' '),
                Some(escaped) => text.push(escaped),
                None => break,
            },
            letter => text.push(letter),
        }
    }
    text
}

/// Texts in sources, behind what writes them.
fn written(source: &str) -> Vec<String> {
    let behind = |writer: &&str| -> Vec<String> {
        let places = source.match_indices(writer).filter_map(|(at, _)| source.get(at + writer.len() - 1..));
        places.flat_map(literals).collect()
    };
    WRITERS.iter().flat_map(behind).collect()
}

/// Whether a text is quoted, three words of it in a row.
fn is_quoted(text: &str, tests: &str) -> bool {
    let runs = runs(text);
    let longest = runs.iter().map(Vec::len).max().unwrap_or(0).min(QUOTED_WORDS);
    let quotes = |run: &Vec<String>| run.windows(longest.max(1)).any(|part| tests.contains(&part.join(" ")));
    longest == 0 || runs.iter().any(quotes)
}

#[test]
fn every_warning_is_brought_about_by_a_test() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut tests, mut texts) = (String::new(), Vec::new());
    let mut files = Vec::new();
    files_below(&package.join("src"), &mut files);
    for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "rs")) {
        let source = std::fs::read_to_string(file).unwrap();
        let (own, unit_tests) = source.split_at(source.find("#[cfg(test)]").unwrap_or(source.len()));
        tests.push_str(unit_tests);
        texts.extend(written(own).into_iter().map(|text| (file.clone(), text)));
    }
    assert!(texts.len() > 80, "{} texts", texts.len());
    for entry in std::fs::read_dir(package.join("tests")).unwrap() {
        let path = entry.unwrap().path();
        // This file quotes what no test brings about.
        if path.is_dir() && !path.ends_with("generated") {
            sources(&path, &mut tests);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            tests.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
    let tests = words(&tests).join(" ");
    let is_missing = |(_, text): &&(std::path::PathBuf, String)| {
        !is_quoted(text, &tests) && !EXCEPTIONS.iter().any(|(known, _)| text.contains(known))
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
