//! Finds text that differs from the file only in ways that its writer never means.
//!
//! The classes of such differences are tiers, tried in a fixed order. Each is a pure function over a text whose lines
//! end in LF. Two texts are of one class or they are not: no similarity is measured. The first tier with a match
//! decides; the caller edits the file only if that match is the only one.

mod escapes;
mod indentation;
mod pasted;
mod place;
mod whitespace;

use std::cell::Cell;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

pub(in crate::text) use pasted::plain_typography;
pub use place::Mismatch;

/// Work of one search at most, in bytes compared; more takes too long.
const WORK_MAX: usize = 200_000_000;
/// Cost of comparing two lines, in addition to their bytes.
const LINE_WORK: usize = 16;

/// Work that a search may still do, in bytes and not in time, so that the result is deterministic.
struct WorkBudget(Cell<usize>);

impl WorkBudget {
    /// Returns the budget of a new search.
    const fn new() -> Self {
        Self(Cell::new(WORK_MAX))
    }

    /// Deducts the cost of comparing a line; `None` if the budget is used up.
    fn line(&self, line: &[u8]) -> Option<()> {
        let left = self.0.get().checked_sub(line.len() + LINE_WORK);
        self.0.set(left.unwrap_or(0));
        left.map(|_| ())
    }

    /// Returns the rest of the budget.
    const fn remaining(&self) -> usize {
        self.0.get()
    }

    /// Sets the rest of the budget.
    fn set_remaining(&self, left: usize) {
        self.0.set(left);
    }

    /// Returns true if the budget is used up, so that matches may be missing.
    fn is_done(&self) -> bool {
        self.0.get() == 0
    }
}

/// A class of differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlexibleTier {
    /// Blanks at the ends of lines.
    TrailingWhitespace,
    /// All lines shifted alike, or tabs for spaces.
    Indentation,
    /// Typographic quotes, dashes and spaces.
    Typographic,
    /// The prefixes of a numbered listing.
    LineNumbers,
    /// Escapes of a JSON string: `\n`, `\t`, `\"`.
    Escapes,
    /// Blank lines, and the first or last line break.
    BlankLines,
}

impl FlexibleTier {
    /// All tiers, in the order in which they are tried.
    pub const ALL: [Self; 6] = [
        Self::TrailingWhitespace,
        Self::Indentation,
        Self::Typographic,
        Self::LineNumbers,
        Self::Escapes,
        Self::BlankLines,
    ];

    /// Returns the name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TrailingWhitespace => "trailing_whitespace",
            Self::Indentation => "indentation",
            Self::Typographic => "typographic",
            Self::LineNumbers => "line_numbers",
            Self::Escapes => "escapes",
            Self::BlankLines => "blank_lines",
        }
    }

    /// Returns the difference, as part of a sentence.
    pub const fn difference(self) -> &'static str {
        match self {
            Self::TrailingWhitespace => "blanks at the ends of lines",
            Self::Indentation => "the indentation",
            Self::Typographic => "typographic quotes, dashes or spaces",
            Self::LineNumbers => "line numbers copied from a listing",
            Self::Escapes => "escapes such as \\n or \\\"",
            Self::BlankLines => "blank lines, or the first or last line break",
        }
    }
}

/// Matches of a tier: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierMatch {
    /// The tier.
    pub tier: FlexibleTier,
    /// The places, ascending; at most [`FLEXIBLE_PLACES_MAX`](crate::limits::FLEXIBLE_PLACES_MAX).
    pub ranges: Vec<Range<usize>>,
    /// Replacement for the only place; `Err` if the new text does not fit there.
    pub new_text: Result<Vec<u8>, Mismatch>,
}

/// Looks for `old` in `text`, both with LF line endings, within a range of its bytes.
///
/// Returns the result of the first tier with a match, with `new` in the form of the file.
pub fn find(text: &[u8], old: &[u8], new: &[u8], within: &Range<usize>) -> Option<TierMatch> {
    let inside = |place: &Range<usize>| within.start <= place.start && place.end <= within.end;
    let work = WorkBudget::new();
    let dangles = whitespace::only_dangles(text, old);
    let first = dangles.then_some(FlexibleTier::BlankLines);
    for (tier, is_extra) in
        first.map(|tier| (tier, true)).into_iter().chain(FlexibleTier::ALL.map(|tier| (tier, false)))
    {
        let mut places = tier.places(text, old, &work);
        // Matches may be missing, so no match is known to be the only one.
        if work.is_done() {
            return None;
        }
        places.retain(|place| inside(&place.range));
        places.sort_by_key(|place| (place.range.start, place.range.end));
        places.dedup_by(|one, other| one.range == other.range);
        let Some(only) = places.first() else { continue };
        let fitted = tier.fitted(text, only, old, new);
        let mut ranges: Vec<Range<usize>> = places.iter().map(|place| place.range.clone()).collect();
        let new_text = match (fitted, ranges.as_mut_slice()) {
            (Ok((range, new_text)), [only]) => {
                *only = range;
                Ok(new_text)
            }
            (fitted, _) => fitted.map(|(_, new_text)| new_text),
        };
        // If it does not fit without its edge, the edge may be a blank line of the file.
        if is_extra && (new_text.is_err() || ranges.len() > 1) {
            continue;
        }
        return Some(TierMatch { tier, ranges, new_text });
    }
    None
}

impl FlexibleTier {
    /// Returns the places where the tier finds `old`.
    fn places(self, text: &[u8], old: &[u8], work: &WorkBudget) -> Vec<place::MatchedLines> {
        match self {
            Self::TrailingWhitespace => whitespace::trailing_places(text, old),
            Self::Indentation => indentation::places(text, old, work),
            Self::Typographic => pasted::typographic_places(text, old),
            Self::LineNumbers => pasted::numbered_places(text, old, work),
            Self::Escapes => escapes::places(text, old, work),
            Self::BlankLines => whitespace::blank_line_places(text, old, work),
        }
    }

    /// Returns the range to replace at a place, and the form of `new` there.
    fn fitted(
        self,
        text: &[u8],
        place: &place::MatchedLines,
        old: &[u8],
        new: &[u8],
    ) -> Result<(Range<usize>, Vec<u8>), Mismatch> {
        let new_text = match self {
            Self::TrailingWhitespace => place::keep_file_lines(text, place, old, new)?,
            Self::Indentation => indentation::new_text(text, place, old, new)?,
            Self::Typographic => pasted::typographic_text(text, place, old, new)?,
            Self::LineNumbers => pasted::numbered_text(text, place, old, new)?,
            Self::Escapes => escapes::new_text(text, place, old, new)?,
            Self::BlankLines => return whitespace::fitted(text, place, old, new),
        };
        Ok((place.range.clone(), new_text))
    }
}

/// Reason shown for a bug of lbx itself.
const OUT_OF_RANGE: &str = "a computed range lies outside the text";

impl From<super::checked::TextFault> for Mismatch {
    fn from(_: super::checked::TextFault) -> Self {
        Self(OUT_OF_RANGE.to_owned())
    }
}

#[cfg(test)]
mod tests {
    //! Real edits of real files, damaged as models damage them: most must land, and none wrongly.

    use crate::random::Random;
    use std::path::Path;

    use crate::text::{flexible, replace};

    /// Edits that are damaged in each way.
    const EDITS: usize = 250;

    /// An old text and its replacement.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Edit {
        /// The old text.
        old: String,
        /// The new text.
        new: String,
    }

    /// Returns the sources to edit: some in each of several languages, and long ones. They are copies: the sources of
    /// lbx change, and the rates with them.
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

    /// Returns an edit of some lines that occur once in a text: a word changed, a line added or removed.
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

    /// Returns a text after the edit; `None` if it is refused.
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

    /// Returns how many edits were damaged, how many of these landed, and which landed wrongly.
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
            // An exact match is meant literally.
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

    /// Checks that at least `percent` of the edits land, and none wrongly.
    #[track_caller]
    fn must_find_a_match(name: &str, percent: usize, damage: impl Fn(&mut Random, &Edit) -> Option<Edit>) {
        let (tried, landed, wrong) = rate(0x9e37_79b9_7f4a_7c15, damage);
        println!("{name}: {landed} of {tried}, {} wrong", wrong.len());
        assert!(wrong.is_empty(), "{name}: {} wrong, such as\n{}", wrong.len(), wrong.join("======\n"));
        assert!(landed * 100 >= percent * tried, "{name}: {landed} of {tried} landed");
    }

    /// Applies a damage to both texts.
    fn both(edit: &Edit, damage: impl Fn(&str) -> String) -> Edit {
        Edit { old: damage(&edit.old), new: damage(&edit.new) }
    }

    /// Returns a text with its layout as letters; quotes and all else are unchanged.
    fn with_escaped_layout(text: &str) -> String {
        text.replace('\t', "\\t").replace('\n', "\\n")
    }

    #[test]
    fn flexible_match_accepts_escaped_newlines_and_tabs() {
        must_find_a_match("letters", 85, |_, edit| Some(both(edit, with_escaped_layout)));
        let has_quotes = |edit: &Edit| edit.old.contains('"');
        must_find_a_match("letters beside quotes", 85, |_, edit| {
            has_quotes(edit).then(|| both(edit, with_escaped_layout))
        });
        must_find_a_match("tabs as letters", 85, |_, edit| {
            Some(both(edit, |text| text.replace('\t', "\\t")))
        });
    }

    /// Returns a text with all lines but the first one level deeper, or shallower.
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
    fn flexible_match_accepts_shifted_lines_after_the_first() {
        must_find_a_match("the others shifted", 90, |random, edit| {
            let unit = if edit.old.contains('\t') { "\t" } else { "    " };
            let is_deeper = random.below(2) == 0;
            let same_start = edit.old.lines().next() == edit.new.lines().next();
            let shift = |text: &str| shifted(text, unit, is_deeper);
            same_start.then_some(())?;
            Some(Edit { old: shift(&edit.old)?, new: shift(&edit.new)? })
        });
    }

    #[test]
    fn dangling_whitespace_of_an_edit_adds_no_blank_line() {
        must_find_a_match("dangling", 95, |random, edit| {
            let edge = *random.of(&["    ", "\t", "        "]);
            edit.old.ends_with('\n').then(|| both(edit, |text| format!("{text}{edge}")))
        });
        must_find_a_match("dangling in the old text", 95, |random, edit| {
            let edge = *random.of(&["    ", "\t", "        "]);
            edit.old
                .ends_with('\n')
                .then(|| Edit { old: format!("{}{edge}", edit.old), new: edit.new.clone() })
        });
        must_find_a_match("a blank line before", 95, |_, edit| Some(both(edit, |text| format!("\n{text}"))));
        must_find_a_match("a blank line after", 95, |_, edit| {
            edit.old.ends_with('\n').then(|| both(edit, |text| format!("{text}\n")))
        });
    }

    #[test]
    fn flexible_match_accepts_missing_or_extra_blank_lines() {
        must_find_a_match("a blank line lost", 90, |_, edit| {
            let lost = |text: &str| text.replacen("\n\n", "\n", 1);
            // Both texts must lose the same blank line, between the same lines.
            let until = edit.old.find("\n\n")? + 2;
            let end = edit.old[until..].find('\n')? + until;
            (edit.new.get(..end) == edit.old.get(..end)).then(|| both(edit, lost))
        });
        must_find_a_match("a blank line lost in the old text", 85, |_, edit| {
            edit.old
                .contains("\n\n")
                .then(|| Edit { old: edit.old.replacen("\n\n", "\n", 1), new: edit.new.clone() })
        });
        must_find_a_match("a blank line added", 90, |_, edit| {
            let is_same_start = edit.old.lines().take(2).eq(edit.new.lines().take(2));
            is_same_start.then(|| both(edit, |text| text.replacen('\n', "\n\n", 1)))
        });
    }

    #[test]
    fn flexible_match_accepts_trailing_blanks_and_shifted_blocks() {
        must_find_a_match("trailing blanks", 95, |_, edit| {
            Some(Edit { old: edit.old.replace('\n', " \n"), new: edit.new.clone() })
        });
        must_find_a_match("all shifted", 95, |_, edit| {
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
    fn unchanged_lines_keep_their_mixed_line_endings() {
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
    fn dangling_indentation_does_not_shift_the_lines() {
        let text = "        }\n    }\n    x\n    }\n}\n";
        let edit = Edit { old: "    }\n}\n        ".to_owned(), new: "    }\n    }\n}\n        ".to_owned() };
        assert_eq!(applied(text, &edit).unwrap(), "        }\n    }\n    x\n    }\n    }\n}\n");
    }
}
