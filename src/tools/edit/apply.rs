//! The edits of one request, applied to one text.

use std::ops::Range;

use super::{Item, LineRange};
use crate::error::{Error, ErrorKind};
use crate::text::lines::LineEnding;
use crate::text::nearest::{self, Nearest};
use crate::text::replace::{self, Replaced};

/// Places listed in a refusal.
const PLACES_LISTED: usize = 20;
/// Characters of a line shown in a refusal.
const LINE_CHARACTERS: usize = 80;
/// How much text, blanks aside, must stand where an edit counts as applied already: less may
/// stand there by chance.
const APPLIED_BYTES_MIN: usize = 4;

/// One edit, checked.
#[derive(Debug)]
pub struct Step {
    /// What to do.
    item: Item,
    /// Its number from 1 and the number of all, where there are several.
    number: Option<(usize, usize)>,
}

/// A text after all edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The text.
    pub body: Vec<u8>,
    /// Where the new texts stand in it.
    pub ranges: Vec<Range<usize>>,
    /// Whether all of it stood there already.
    pub already_applied: bool,
}

impl Step {
    /// Checks an edit.
    ///
    /// # Errors
    /// `invalid_request` where there is nothing to find, or nothing to change.
    pub fn new(item: Item, number: Option<(usize, usize)>) -> Result<Self, Error> {
        let step = Self { item, number };
        if step.item.old_string.is_empty() {
            return Err(step
                .invalid("old_string", "old_string is empty")
                .suggest("Name the text to replace; insert or append adds text, write creates a file."));
        }
        if step.item.old_string == step.item.new_string {
            return Err(
                step.invalid("new_string", "old_string and new_string are equal: there is nothing to change")
            );
        }
        if replace::same_but_for_endings(step.item.old_string.as_bytes(), step.item.new_string.as_bytes()) {
            let message =
                "old_string and new_string differ in their line endings alone, which edit keeps as they are";
            return Err(step.invalid("new_string", message).suggest("Change line endings with write."));
        }
        Ok(step)
    }

    /// A refusal of the edit itself.
    fn invalid(&self, field: &str, message: &str) -> Error {
        let field = match self.number {
            Some((number, _)) => format!("edits[{}].{field}", number - 1),
            None => field.to_owned(),
        };
        Error::invalid(format!("{}{message}", self.prefix())).detail("field", field)
    }

    /// Which of several edits this is, for a message.
    fn prefix(&self) -> String {
        self.number.map(|(number, total)| format!("edit {number} of {total}: ")).unwrap_or_default()
    }

    /// Adds to a refusal which of several edits it is, and what became of the others.
    fn of_several(&self, error: Error) -> Error {
        match self.number {
            Some((number, _)) => error.detail("edit", number).detail("applied", 0),
            None => error,
        }
    }
}

/// Applies all edits in order, each to the result of the one before.
///
/// # Errors
/// `no_match` or `ambiguous_match`; then none counts.
pub fn apply(body: &[u8], steps: &[Step], shown: &str) -> Result<Edited, Error> {
    let mut edited = Edited { body: body.to_vec(), ranges: Vec::new(), already_applied: true };
    for step in steps {
        match find(&edited.body, &step.item) {
            Found::Places(places) => {
                let replaced = replace::replace(&edited.body, &places, step.item.new_string.as_bytes());
                edited.ranges = moved(&edited.ranges, &places, &replaced);
                edited.ranges.extend(replaced.ranges);
                edited.body = replaced.body;
                edited.already_applied = false;
            }
            Found::Applied(place) => edited.ranges.push(place),
            Found::Nothing => return Err(step.of_several(no_match(&edited.body, step, shown))),
            Found::TooMany(places) => {
                return Err(step.of_several(ambiguous(&edited.body, &places, step, shown)));
            }
        }
    }
    edited.ranges.sort_by_key(|range| (range.start, range.end));
    Ok(edited)
}

/// What was found of an edit's old text.
enum Found {
    /// The places to replace.
    Places(Vec<Range<usize>>),
    /// The new text, which stands there already.
    Applied(Range<usize>),
    /// Neither.
    Nothing,
    /// Another number of places than may be replaced.
    TooMany(Vec<Range<usize>>),
}

/// Looks for an edit's old text.
fn find(body: &[u8], item: &Item) -> Found {
    let places = replace::places(body, item.old_string.as_bytes(), item.word);
    if let Some(applied) = already_applied(body, &places, item) {
        return Found::Applied(applied);
    }
    if places.is_empty() {
        return Found::Nothing;
    }
    let apart = replace::without_overlaps(&places);
    match item.expected_replacements {
        Some(expected) if expected == apart.len() => Found::Places(apart),
        None if item.replace_all || places.len() == 1 => Found::Places(apart),
        _ => Found::TooMany(places),
    }
}

/// Where the new text stands, if it stands in one place alone and every place of the old text is a
/// part of it.
fn already_applied(body: &[u8], old_places: &[Range<usize>], item: &Item) -> Option<Range<usize>> {
    let new = item.new_string.as_bytes();
    if new.iter().filter(|byte| !byte.is_ascii_whitespace()).count() < APPLIED_BYTES_MIN {
        return None;
    }
    let new_places = replace::places(body, new, item.word);
    let [only] = new_places.as_slice() else {
        return None;
    };
    let is_inside = |old: &Range<usize>| only.start <= old.start && old.end <= only.end;
    old_places.iter().all(is_inside).then(|| only.clone())
}

/// Where earlier new texts stand after further replacements.
fn moved(ranges: &[Range<usize>], places: &[Range<usize>], replaced: &Replaced) -> Vec<Range<usize>> {
    // How far a byte before which `count` places were replaced has moved.
    let shifted = |offset: usize, count: usize| {
        let before = places.iter().zip(&replaced.ranges).take(count);
        let (old, new) =
            before.fold((0, 0), |(old, new), (place, range)| (old + place.len(), new + range.len()));
        (offset + new).saturating_sub(old)
    };
    let move_one = |range: &Range<usize>| {
        let before_start = places.iter().take_while(|place| place.end <= range.start).count();
        let before_end = places.iter().take_while(|place| place.start < range.end).count();
        shifted(range.start, before_start)..shifted(range.end, before_end)
    };
    ranges.iter().map(move_one).collect()
}

/// The lines of the first `listed_max` ranges, which ascend.
#[must_use]
pub fn line_ranges(body: &[u8], ranges: &[Range<usize>], listed_max: usize) -> Vec<LineRange> {
    let terminator = LineEnding::of(body).terminator();
    let count = |from: usize, to: usize| {
        memchr::memchr_iter(terminator, body.get(from..to).unwrap_or_default()).count() as u64
    };
    let (mut at, mut line) = (0, 1);
    let mut listed = Vec::with_capacity(ranges.len().min(listed_max));
    for range in ranges.iter().take(listed_max) {
        line += count(at.min(range.start), range.start);
        at = range.start;
        // A final line ending belongs to the line that it ends.
        let last = range.end.saturating_sub(1).max(range.start);
        listed.push(LineRange { start_line: line, end_line: line + count(range.start, last) });
    }
    listed
}

/// The lines whose reading would do to know what the edits change: those of the first place of each.
pub fn lines_needed(body: &[u8], steps: &[Step]) -> Option<(u64, u64)> {
    let mut places = Vec::new();
    for step in steps {
        places.push(replace::places(body, step.item.old_string.as_bytes(), step.item.word).first()?.clone());
    }
    let ranges: Vec<LineRange> =
        places.iter().flat_map(|place| line_ranges(body, std::slice::from_ref(place), 1)).collect();
    let first = ranges.iter().map(|range| range.start_line).min()?;
    let last = ranges.iter().map(|range| range.end_line).max()?;
    Some((first, last))
}

/// The refusal of an edit whose old text is nowhere.
fn no_match(body: &[u8], step: &Step, shown: &str) -> Error {
    let message = format!(
        "{}old_string not found in {shown}. Make sure it matches exactly (including whitespace).",
        step.prefix()
    );
    let error = Error::new(ErrorKind::NoMatch, message).at(shown);
    let Some(near) = nearest::nearest(body, step.item.old_string.as_bytes()) else {
        return error
            .suggest(format!("Nothing in {shown} is like it: read the file, or find the text with grep."));
    };
    let suggestion = format!(
        "Lines {} to {} of {shown} are nearest: take old_string from there (details.nearest shows what differs).",
        near.start_line, near.end_line
    );
    error.suggest(suggestion).detail("nearest", nearest_json(&near))
}

/// The nearest region, for programs.
fn nearest_json(near: &Nearest) -> serde_json::Value {
    serde_json::json!({
        "start_line": near.start_line,
        "end_line": near.end_line,
        "ratio": (f64::from(near.ratio) * 100.0).round() / 100.0,
        "difference": near.difference,
    })
}

/// The refusal of an edit whose old text stands in another number of places than it may.
fn ambiguous(body: &[u8], places: &[Range<usize>], step: &Step, shown: &str) -> Error {
    let count = match step.item.expected_replacements {
        Some(_) => replace::without_overlaps(places).len(),
        None => places.len(),
    };
    let wanted = match step.item.expected_replacements {
        Some(expected) => format!(", not {expected}"),
        None => String::new(),
    };
    let message = format!(
        "{}old_string appears {count} times in {shown}{wanted}. Include more surrounding context to make it unique.",
        step.prefix()
    );
    let listed: Vec<serde_json::Value> = line_ranges(body, places, PLACES_LISTED)
        .iter()
        .map(|range| {
            let text = line_at(body, range.start_line);
            serde_json::json!({ "line": range.start_line, "text": text })
        })
        .collect();
    let lines: Vec<String> =
        listed.iter().filter_map(|place| place.get("line")).map(ToString::to_string).collect();
    let suggestion = match step.item.expected_replacements {
        Some(_) => format!(
            "Set expected_replacements to {count} to replace all of them (lines {}), or include more of the lines around the one meant.",
            lines.join(", ")
        ),
        None => format!(
            "It stands at lines {}: include more of the lines around the one meant, or set replace_all to change all {count}.",
            lines.join(", ")
        ),
    };
    Error::new(ErrorKind::AmbiguousMatch, message)
        .at(shown)
        .suggest(suggestion)
        .detail("count", count)
        .detail("places", listed)
}

/// A line of a text, shortened, its whitespace visible.
fn line_at(body: &[u8], number: u64) -> String {
    let at = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    let line = crate::text::lines::lines(body).nth(at).unwrap_or_default();
    nearest::visible(line).chars().take(LINE_CHARACTERS).collect()
}
