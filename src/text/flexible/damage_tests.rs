//! Real edits of real files, damaged as models damage them: how many land, and that none lands wrongly.

use crate::random::Random;
use std::path::Path;

use crate::text::{flexible, replace};

/// Edits that are damaged in each way.
const EDITS: usize = 250;

/// An edit: text looked for and what comes there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edit {
    /// The text looked for.
    old: String,
    /// The new text.
    new: String,
}

/// The sources that are edited: some in each of several languages, and long ones. They are kept apart
/// from lbx's own, with which the rates would change.
fn sources() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/edit");
    let files = |name: &str| {
        let mut paths: Vec<_> =
            std::fs::read_dir(folder.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.into_iter().map(|path| std::fs::read_to_string(path).unwrap())
    };
    files("languages").chain(files("corpus")).collect()
}

/// An edit of some lines of a text, in which they stand once: a word changed, a line added or removed.
fn edit(random: &mut Random, text: &str) -> Option<Edit> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let first = random.below(lines.len());
    let count = 2 + random.below(8);
    let span = lines.get(first..first + count)?;
    let is_blank = |line: &str| line.trim().is_empty();
    if is_blank(span[0]) || is_blank(span[count - 1]) {
        return None;
    }
    let mut new: Vec<String> = span.iter().map(|line| (*line).to_owned()).collect();
    for _ in 0..=random.below(2) {
        let at = random.below(new.len());
        let line = new[at].clone();
        match random.below(4) {
            0 if new.len() > 2 && !is_blank(&line) => drop(new.remove(at)),
            1 => {
                let other = random.of(span).trim();
                let indent = &line[..line.len() - line.trim_start().len()];
                if !other.is_empty() && !is_blank(&line) {
                    new.insert(at + 1, format!("{indent}{}\n", other.replace('a', "ab")));
                }
            }
            _ => {
                let word =
                    line.split(|letter: char| !letter.is_alphanumeric()).max_by_key(|word| word.len())?;
                if !word.is_empty() {
                    new[at] = line.replacen(word, &format!("{word}_2"), 1);
                }
            }
        }
    }
    let (mut old, mut new) = (span.concat(), new.concat());
    if random.below(2) == 0 {
        (old, new) = (old.strip_suffix('\n')?.to_owned(), new.strip_suffix('\n')?.to_owned());
    }
    (old != new && !new.is_empty() && text.matches(&old).count() == 1).then_some(Edit { old, new })
}

/// What the edit makes of a text; `None` where it is refused.
fn applied(text: &str, edit: &Edit) -> Option<String> {
    let (body, old, new) = (text.as_bytes(), edit.old.as_bytes(), edit.new.as_bytes());
    let places = replace::places(body, old, false);
    let (place, new) = match places.as_slice() {
        [] => {
            let found = flexible::find(body, old, new, &(0..body.len()))?;
            let [only] = found.ranges.as_slice() else { return None };
            (only.clone(), found.new_text.ok()?)
        }
        [only] => (only.clone(), new.to_vec()),
        _ => return None,
    };
    let replaced = replace::replace(body, &[place], &new, usize::MAX).unwrap();
    Some(String::from_utf8(replaced.body.into_vec()).unwrap())
}

/// How many of the edits that a damage touches land, and those that land wrongly.
fn rate(seed: u64, damage: impl Fn(&mut Random, &Edit) -> Option<Edit>) -> (usize, usize, Vec<String>) {
    let sources = sources();
    let mut random = Random::new(seed);
    let (mut tried, mut landed, mut wrong) = (0, 0, Vec::new());
    while tried < EDITS {
        let text = random.of(&sources).clone();
        let Some(edit) = edit(&mut random, &text) else { continue };
        let Some(damaged) = damage(&mut random, &edit).filter(|damaged| damaged.old != edit.old) else {
            continue;
        };
        // What stands there exactly is meant exactly.
        if text.contains(&damaged.old) {
            continue;
        }
        tried += 1;
        let wanted = text.replacen(&edit.old, &edit.new, 1);
        match applied(&text, &damaged) {
            Some(made) if made == wanted => landed += 1,
            Some(made) => wrong.push(format!(
                "{damaged:#?}\n{edit:#?}\n{}",
                similar::TextDiff::from_lines(&wanted, &made).unified_diff().context_radius(2)
            )),
            None => {}
        }
    }
    (tried, landed, wrong)
}

/// Checks that at least so many in a hundred land, and none wrongly.
#[track_caller]
fn must_land(name: &str, percent: usize, damage: impl Fn(&mut Random, &Edit) -> Option<Edit>) {
    let (tried, landed, wrong) = rate(0x9e37_79b9_7f4a_7c15, damage);
    println!("{name}: {landed} of {tried}, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{name}: {} wrong, such as\n{}", wrong.len(), wrong.join("======\n"));
    assert!(landed * 100 >= percent * tried, "{name}: {landed} of {tried} landed");
}

/// The same damage of both texts.
fn both(edit: &Edit, damage: impl Fn(&str) -> String) -> Edit {
    Edit { old: damage(&edit.old), new: damage(&edit.new) }
}

/// Layout as letters, quotes and all else as they are.
fn as_letters(text: &str) -> String {
    text.replace('\t', "\\t").replace('\n', "\\n")
}

#[test]
fn layout_sent_as_letters_lands() {
    must_land("letters", 85, |_, edit| Some(both(edit, as_letters)));
    let has_quotes = |edit: &Edit| edit.old.contains('"');
    must_land("letters beside quotes", 85, |_, edit| has_quotes(edit).then(|| both(edit, as_letters)));
    must_land("tabs as letters", 85, |_, edit| Some(both(edit, |text| text.replace('\t', "\\t"))));
}

/// A text whose lines from the second on are a level deeper, or shallower.
fn shifted(text: &str, unit: &str, is_deeper: bool) -> Option<String> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next()?.to_owned();
    lines.try_fold(first, |text, line| {
        let line = match (line.trim().is_empty(), is_deeper) {
            (true, _) => line.to_owned(),
            (false, true) => format!("{unit}{line}"),
            (false, false) => line.strip_prefix(unit)?.to_owned(),
        };
        Some(text + &line)
    })
}

#[test]
fn lines_shifted_below_a_first_one_that_is_right_land() {
    must_land("the others shifted", 90, |random, edit| {
        let unit = if edit.old.contains('\t') { "\t" } else { "    " };
        let is_deeper = random.below(2) == 0;
        let same_start = edit.old.lines().next() == edit.new.lines().next();
        let shift = |text: &str| shifted(text, unit, is_deeper);
        same_start.then_some(())?;
        Some(Edit { old: shift(&edit.old)?, new: shift(&edit.new)? })
    });
}

#[test]
fn edges_that_dangle_leave_no_blank_line() {
    must_land("dangling", 95, |random, edit| {
        let edge = *random.of(&["    ", "\t", "        "]);
        edit.old.ends_with('\n').then(|| both(edit, |text| format!("{text}{edge}")))
    });
    must_land("dangling in the old text", 95, |random, edit| {
        let edge = *random.of(&["    ", "\t", "        "]);
        edit.old.ends_with('\n').then(|| Edit { old: format!("{}{edge}", edit.old), new: edit.new.clone() })
    });
    must_land("a blank line before", 95, |_, edit| Some(both(edit, |text| format!("\n{text}"))));
    must_land("a blank line after", 95, |_, edit| {
        edit.old.ends_with('\n').then(|| both(edit, |text| format!("{text}\n")))
    });
}

#[test]
fn blank_lines_lost_or_added_inside_land() {
    must_land("a blank line lost", 90, |_, edit| {
        let lost = |text: &str| text.replacen("\n\n", "\n", 1);
        // The same one is lost in both texts, and stands between the same lines.
        let until = edit.old.find("\n\n")? + 2;
        let end = edit.old[until..].find('\n')? + until;
        (edit.new.get(..end) == edit.old.get(..end)).then(|| both(edit, lost))
    });
    must_land("a blank line lost in the old text", 85, |_, edit| {
        edit.old
            .contains("\n\n")
            .then(|| Edit { old: edit.old.replacen("\n\n", "\n", 1), new: edit.new.clone() })
    });
    must_land("a blank line added", 90, |_, edit| {
        let is_same_start = edit.old.lines().take(2).eq(edit.new.lines().take(2));
        is_same_start.then(|| both(edit, |text| text.replacen('\n', "\n\n", 1)))
    });
}

#[test]
fn other_damages_land_as_before() {
    must_land("trailing blanks", 95, |_, edit| {
        Some(Edit { old: edit.old.replace('\n', " \n"), new: edit.new.clone() })
    });
    must_land("all shifted", 95, |_, edit| {
        let deeper = |text: &str| -> String {
            let lines = text.split_inclusive('\n');
            lines
                .map(|line| if line.trim().is_empty() { line.to_owned() } else { format!("    {line}") })
                .collect()
        };
        (!edit.old.contains('\t')).then(|| both(edit, deeper))
    });
}

#[test]
fn a_mixed_file_keeps_the_ending_of_each_line_that_stays() {
    let sources = sources();
    let mut random = Random::new(0x1234_5678_9abc_def1);
    let (mut tried, mut kept) = (0, 0);
    while tried < EDITS {
        let text = random.of(&sources).clone();
        let Some(edit) = edit(&mut random, &text) else { continue };
        tried += 1;
        let mixed: String = text
            .split_inclusive('\n')
            .map(|line| {
                let ending: &&str = random.of(&["\n", "\r\n", "\n"]);
                line.replace('\n', ending)
            })
            .collect();
        let made = applied(&mixed, &edit).unwrap();
        assert_eq!(made.replace("\r\n", "\n"), text.replacen(&edit.old, &edit.new, 1));
        let (old, new): (Vec<&str>, Vec<&str>) =
            (mixed.split_inclusive('\n').collect(), made.split_inclusive('\n').collect());
        let bare = |lines: &[&'_ str]| -> Vec<String> {
            lines.iter().map(|line| line.trim_end_matches(['\r', '\n']).to_owned()).collect()
        };
        let ops = similar::capture_diff_slices(similar::Algorithm::Myers, &bare(&old), &bare(&new));
        let mut same = ops
            .iter()
            .filter(|op| matches!(op, similar::DiffOp::Equal { .. }))
            .flat_map(|op| op.old_range().zip(op.new_range()));
        let is_kept = same.all(|(one, other)| old[one] == new[other]);
        if !is_kept {
            println!(
                "{edit:#?}\n{}",
                similar::TextDiff::from_lines(&mixed, &made).unified_diff().context_radius(2)
            );
        }
        kept += usize::from(is_kept);
    }
    println!("mixed endings: {kept} of {tried}");
    assert!(kept * 100 >= 99 * tried, "{kept} of {tried}");
}

#[test]
fn a_text_that_only_dangles_is_not_one_that_was_shifted() {
    let text = "        }\n    }\n    x\n    }\n}\n";
    let edit = Edit { old: "    }\n}\n        ".to_owned(), new: "    }\n    }\n}\n        ".to_owned() };
    assert_eq!(applied(text, &edit).unwrap(), "        }\n    }\n    x\n    }\n    }\n}\n");
}
