//! The words of comments and messages: two lists that never occur, since they stop a reader.

use std::path::{Path, PathBuf};

use super::files_below;

/// Words with which no doc comment begins.
const BEGINNINGS: [&str; 8] =
    ["What", "Whether", "Where", "Whoever", "Those", "That of", "The same", "So many"];

/// Words that no comment and no message has.
const WORDS: [&str; 9] =
    ["stands", "comes to", "is told", "anew", "beside", "round", "at hand", "all the same", "is none"];

/// True if `text` has `words` as whole words.
fn has_words(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        // Not the name of a variable or a file: `{beside}`, `.beside`.
        let is_letter = |letter: Option<char>| {
            letter.is_some_and(|letter| letter.is_alphanumeric() || "_{}.".contains(letter))
        };
        !is_letter(text[..at].chars().next_back())
            && !is_letter(text[at + words.len()..].chars().next().filter(|letter| *letter != '.'))
    })
}

/// Returns the text of a comment, and whether it documents an item.
fn comment(line: &str) -> Option<(&str, bool)> {
    let text = line.trim_start().strip_prefix("//")?;
    let inner = text.strip_prefix(['/', '!']);
    Some((inner.unwrap_or(text).trim_start(), inner.is_some()))
}

/// Returns the string literals of a line.
fn literals(line: &str) -> Vec<&str> {
    let plain = line.split("//").next().unwrap_or_default();
    plain.split('"').skip(1).step_by(2).collect()
}

/// Returns what is wrong with the words of a source.
fn faults(text: &str, has_messages: bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_continued = false;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let Some((words, is_doc)) = comment(line) else {
            is_continued = false;
            let message = |word: &&&str| literals(line).iter().any(|literal| has_words(literal, word));
            let word = WORDS.iter().filter(|_| has_messages).find(message);
            found.extend(word.map(|word| (number, format!("`{word}` in a message"))));
            continue;
        };
        let begins =
            |start: &&&str| words.strip_prefix(**start).is_some_and(|rest| rest.starts_with([' ', ',']));
        if is_doc && !is_continued {
            found
                .extend(BEGINNINGS.iter().find(begins).map(|start| (number, format!("begins with {start}"))));
        }
        found.extend(
            WORDS.iter().find(|word| has_words(words, word)).map(|word| (number, format!("`{word}`"))),
        );
        is_continued = true;
    }
    found
}

#[test]
fn documents_and_pages_avoid_banned_words() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<PathBuf> = Vec::new();
    ["man", "benches", ".ci"].iter().for_each(|folder| files_below(&package.join(folder), &mut files));
    let top = std::fs::read_dir(package).unwrap().map(|entry| entry.unwrap().path());
    files.extend(top.filter(|path| path.is_file() && !path.ends_with("Cargo.lock")));
    files.extend(["tests/INVARIANTS.md", "src/cli/agents.md"].map(|name| package.join(name)));
    let mut found = Vec::new();
    for file in files {
        // Images are no text.
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let lines = text.lines().enumerate();
        let banned =
            lines.filter_map(|(at, line)| Some((at + 1, WORDS.iter().find(|it| has_words(line, it))?)));
        let name = file.strip_prefix(package).unwrap().display();
        found.extend(banned.map(|(line, word)| format!("{name}:{line}: `{word}`")));
    }
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n"));
}

#[test]
fn comments_and_messages_avoid_banned_words() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["src", "tests", "benches", "fuzz"] {
        let mut files: Vec<PathBuf> = Vec::new();
        files_below(&package.join(folder), &mut files);
        for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "rs")) {
            if file.ends_with("generated/wording.rs") {
                continue;
            }
            let text = std::fs::read_to_string(file).unwrap();
            // Names of tests and sample texts are not for readers.
            let is_source = folder == "src" && !file.iter().any(|part| part == "tests");
            let name = file.strip_prefix(package).unwrap().display().to_string();
            let own = text.split("#[cfg(test)]\nmod tests").next().unwrap().lines().count();
            let faults = faults(&text, is_source).into_iter();
            let faults = faults.filter(|(line, fault)| *line <= own || !fault.ends_with("message"));
            found.extend(faults.map(|(line, fault)| format!("{name}:{line}: {fault}")));
        }
    }
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n"));
}
