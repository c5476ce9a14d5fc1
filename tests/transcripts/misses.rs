//! Old texts as models misremember them, which match nowhere: how often the lines that an error names are the right
//! ones.

use std::fs;
use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::Workspace;
use crate::common::random::Random;

/// Number of texts damaged in each way.
const TEXTS: usize = 30;
/// Smallest number of tries, since some texts still match.
const TRIES: usize = 45;

/// Returns the files in which texts are searched, each with its name in the workspace.
fn sources() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/edit");
    let mut files = Vec::new();
    for part in ["languages", "corpus"] {
        for entry in fs::read_dir(folder.join(part)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            files.push((name, fs::read_to_string(entry.path()).unwrap()));
        }
    }
    files.sort();
    files
}

/// Returns true if a line has enough text that a model would quote and change it.
fn is_telling(line: &str) -> bool {
    line.chars().filter(|letter| letter.is_alphanumeric()).count() >= 4
}

/// Returns a line with a typing error in one of its words; `None` if no word is long enough.
fn with_typo(random: &mut Random, line: &str) -> Option<String> {
    let letters: Vec<char> = line.chars().collect();
    let places: Vec<usize> = (1..letters.len())
        .filter(|&at| letters[at].is_alphanumeric() && letters[at - 1].is_alphanumeric())
        .collect();
    if places.len() < 3 {
        return None;
    }
    let at = *random.of(&places);
    let mut letters = letters;
    match random.below(4) {
        0 => drop(letters.remove(at)),
        1 => letters.insert(at, letters[at - 1]),
        2 if letters[at] != letters[at - 1] => letters.swap(at, at - 1),
        _ => letters[at] = if letters[at] == 'q' { 'z' } else { 'q' },
    }
    Some(letters.into_iter().collect())
}

/// Returns a line as a model invents it: the words of another file's line.
fn invented(random: &mut Random, others: &[String]) -> String {
    loop {
        let text = random.of(others);
        let lines: Vec<&str> = text.split_inclusive('\n').filter(|line| is_telling(line)).collect();
        let line = *random.of(&lines);
        if line.ends_with('\n') {
            return line.to_owned();
        }
    }
}

/// Damages a text; returns `None` if this text cannot be damaged that way.
type Damage = fn(&mut Random, Vec<String>, &[String]) -> Option<Vec<String>>;

/// Ways in which texts are misremembered.
const DAMAGES: [(&str, Damage); 14] = [
    ("a typing error", |random, mut lines, _| {
        let at = random.below(lines.len());
        lines[at] = with_typo(random, &lines[at])?;
        Some(lines)
    }),
    ("typing errors in every line", |random, lines, _| {
        Some(lines.iter().map(|line| with_typo(random, line).unwrap_or_else(|| line.clone())).collect())
    }),
    ("a line is missing", |random, mut lines, _| {
        let at = 1 + random.below(lines.len().checked_sub(2).filter(|&inner| inner > 0)?);
        is_telling(&lines[at]).then(|| drop(lines.remove(at)))?;
        Some(lines)
    }),
    ("the first line is another", |random, mut lines, others| {
        lines[0] = invented(random, others);
        (lines.len() > 2).then_some(lines)
    }),
    ("the last line is another", |random, mut lines, others| {
        *lines.last_mut()? = invented(random, others);
        (lines.len() > 2).then_some(lines)
    }),
    ("lines are invented in the middle", |random, mut lines, others| {
        let at = 1 + random.below(lines.len().checked_sub(1).filter(|&inner| inner > 0)?);
        for _ in 0..=random.below(3) {
            lines.insert(at, invented(random, others));
        }
        Some(lines)
    }),
    ("it goes on otherwise", |random, mut lines, others| {
        for _ in 0..=random.below(5) {
            lines.push(invented(random, others));
        }
        Some(lines)
    }),
    ("an identifier is another", |random, lines, _| {
        let text = lines.concat();
        let words: Vec<&str> = text
            .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .filter(|word| word.len() > 3)
            .collect();
        let word = (*words.get(random.below(words.len().max(1)))?).to_owned();
        let other = format!(
            "{}_{}",
            random.of(&["my", "new", "current", "inner"]),
            &word[..word.len().min(3)].to_lowercase()
        );
        Some(lines.iter().map(|line| line.replace(&word, &other)).collect())
    }),
    ("all identifiers are in another style", |_, lines, _| {
        let camel = |line: &String| {
            let mut made = String::new();
            let mut is_upper = false;
            for letter in line.chars() {
                if letter == '_' && made.ends_with(char::is_alphanumeric) {
                    is_upper = true;
                } else if is_upper {
                    made.extend(letter.to_uppercase());
                    is_upper = false;
                } else {
                    made.push(letter);
                }
            }
            made
        };
        Some(lines.iter().map(camel).collect())
    }),
    ("the middle is left out", |random, mut lines, _| {
        let inner = lines.len().checked_sub(2).filter(|&inner| inner > 0)?;
        let from = 1 + random.below(inner);
        let indent: String =
            lines[from].chars().take_while(|letter| letter.is_whitespace() && *letter != '\n').collect();
        let mark = *random.of(&["...", "…", "// ...", "# ...", "..."]);
        lines.splice(from..=inner, [format!("{indent}{mark}\n")]);
        Some(lines)
    }),
    ("an older version", |random, mut lines, others| {
        for _ in 0..=lines.len() / 3 {
            let at = random.below(lines.len());
            match random.below(3) {
                0 if lines.len() > 2 => drop(lines.remove(at)),
                1 => lines.insert(at, invented(random, others)),
                _ => lines[at] = with_typo(random, &lines[at]).unwrap_or_else(|| lines[at].clone()),
            }
        }
        Some(lines)
    }),
    ("another indentation and a typing error", |random, lines, _| {
        let mut lines: Vec<String> =
            lines.iter().map(|line| format!("\t{}", line.trim_start_matches(' '))).collect();
        let at = random.below(lines.len());
        lines[at] = with_typo(random, &lines[at])?;
        Some(lines)
    }),
    ("two lines in the other order", |random, mut lines, _| {
        let at = random.below(lines.len().checked_sub(1).filter(|&inner| inner > 0)?);
        (lines[at] != lines[at + 1]).then(|| lines.swap(at, at + 1))?;
        Some(lines)
    }),
    ("half of each line is other words", |random, lines, _| {
        let mut half = |line: &String| {
            let code = line.trim();
            let words: Vec<&str> = code.split_inclusive(' ').collect();
            if words.len() < 2 {
                return line.clone();
            }
            let other =
                random.of(&["result of the call", "value.into_iter();", "(None, default)", "and some more"]);
            line.replacen(code, &(words[..words.len().div_ceil(2)].concat() + other), 1)
        };
        Some(lines.iter().map(&mut half).collect())
    }),
];

/// An edit that must fail.
struct Miss {
    /// Name of the file.
    path: String,
    /// Intended lines, from 1.
    lines: Range<u64>,
    /// Old text of the edit.
    old: String,
}

/// Returns an old text damaged in that way; `None` if these lines cannot be.
fn miss(random: &mut Random, sources: &[(String, String)], damage: Damage) -> Option<Miss> {
    let (path, text) = random.of(sources);
    let file: Vec<&str> = text.split_inclusive('\n').collect();
    let (first, count) = (random.below(file.len()), 1 + random.below(10));
    let lines = file.get(first..first + count)?;
    let is_unique = text.matches(&lines.concat()).count() == 1;
    if !is_telling(lines[0]) || !is_telling(lines[count - 1]) || !is_unique {
        return None;
    }
    let others: Vec<String> =
        sources.iter().filter(|(other, _)| other != path).map(|(_, text)| text.clone()).collect();
    let old = damage(random, lines.iter().map(|line| (*line).to_owned()).collect(), &others)?.concat();
    let old = if random.below(2) == 0 { old.trim_end_matches('\n').to_owned() } else { old };
    let is_missing = !text.contains(&old) && !old.trim().is_empty();
    let lines = first as u64 + 1..(first + count) as u64 + 1;
    is_missing.then(|| Miss { path: path.clone(), lines, old })
}

/// Returns true if the named region holds at least half of the intended lines, and not much else.
fn is_named(near: &Value, meant: &Range<u64>) -> bool {
    let (Some(first), Some(last)) = (near["start_line"].as_u64(), near["end_line"].as_u64()) else {
        return false;
    };
    let meant_lines = meant.end - meant.start;
    let common = (last + 1).min(meant.end).saturating_sub(first.max(meant.start));
    common * 2 >= meant_lines && last + 1 - first <= 2 * meant_lines + 4
}

#[test]
fn no_match_names_the_intended_lines_in_95_percent() {
    let sources = sources();
    let files: Vec<(&str, &str)> =
        sources.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let ws = Workspace::with(&files);
    let mut read = vec!["read", "--max-bytes", "0", "--limit", "0"];
    read.extend(files.iter().map(|(name, _)| *name));
    ws.lbx(&read).ok();
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let (mut all, mut all_named) = (0, 0);
    for (name, damage) in DAMAGES {
        let mut misses = Vec::new();
        while misses.len() < TRIES {
            misses.extend(miss(&mut random, &sources, damage));
        }
        let line = |miss: &Miss| {
            json!({"tool": "edit", "request": {"path": miss.path, "old_string": miss.old,
                "new_string": "something else", "dry_run": true}})
            .to_string()
        };
        let lines: Vec<String> = misses.iter().map(line).collect();
        let answers = ws.lbx_stdin(&["batch"], lines.join("\n")).lines();
        assert_eq!(answers.len(), misses.len());
        let refused = misses.iter().zip(&answers).filter(|(_, answer)| {
            // A text that flexible matching finds does not count as this kind of miss.
            answer["error"]["kind"] == "no_match" && answer["error"]["details"].get("flexible").is_none()
        });
        let (mut tried, mut named) = (0, 0);
        for (miss, answer) in refused.take(TEXTS) {
            tried += 1;
            let near = &answer["error"]["details"]["nearest"];
            if is_named(near, &miss.lines) {
                named += 1;
            } else {
                println!("{name}: {} {:?}, named {near}\n{}", miss.path, miss.lines, miss.old);
            }
        }
        println!("{name}: {named} of {tried}");
        assert!(tried >= TEXTS / 2, "{name}: only {tried} were refused");
        assert!(named * 100 >= 80 * tried, "{name}: {named} of {tried}");
        (all, all_named) = (all + tried, all_named + named);
    }
    println!("all: {all_named} of {all}");
    assert!(all_named * 100 >= 95 * all, "{all_named} of {all}");
}
