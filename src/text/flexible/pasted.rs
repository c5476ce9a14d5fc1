//! Traces of copying: the line numbers of a listing, and typographic quotes, dashes and spaces.
//!
//! Known prefixes are those of `line_numbers` in lbx, of `cat -n`, and of the listings of other tools: a number that
//! counts up line by line, after blanks or an `L`, before a tab, `→`, `|`, `│` or `:`. Whole lines of the file must
//! follow the prefixes. A single line proves little, so its number must be right too.

use super::WorkBudget;
use super::place::{FoldedText, MatchedLines, Mismatch, NewLine, compose, split, trimmed_end, whole_lines};
use crate::limits::FLEXIBLE_PLACES_MAX;
use crate::text::checked::slice_or_empty;
use crate::text::line_diff::common_ends;

/// Separators that may follow a number.
const SEPARATORS: [&str; 5] = ["\t", "→", "|", "│", ":"];

/// How the lines of a listing begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListingForm {
    /// Text after each number.
    separator: &'static str,
    /// True if a blank after it belongs to it.
    has_blank: bool,
}

/// Returns the places of the lines of the listing `old`.
pub fn numbered_places(text: &[u8], old: &[u8], work: &WorkBudget) -> Vec<MatchedLines> {
    let (lines, has_final_break) = split(old);
    forms(&lines).into_iter().flat_map(|form| places_of(form, text, &lines, has_final_break, work)).collect()
}

/// Returns the places of the lines, read in one form.
fn places_of(
    form: ListingForm,
    text: &[u8],
    lines: &[&[u8]],
    has_final_break: bool,
    work: &WorkBudget,
) -> Vec<MatchedLines> {
    let Some(first) = lines.first().and_then(|line| form.read(line)) else {
        return Vec::new();
    };
    let wanted: Vec<&[u8]> = lines.iter().filter_map(|line| Some(form.read(line)?.1)).collect();
    let mut places = whole_lines(text, &wanted, has_final_break, work, trimmed_end);
    if wanted.len() == 1 {
        let line = |before: &[u8]| memchr::memchr_iter(b'\n', before).count() as u64 + 1;
        places.retain(|place| text.get(..place.range.start).is_some_and(|before| line(before) == first.0));
    }
    places
}

/// Returns `new` without such prefixes.
///
/// # Errors
/// Fails if only some of its new lines have one.
pub fn numbered_text(text: &[u8], place: &MatchedLines, old: &[u8], new: &[u8]) -> Result<Vec<u8>, Mismatch> {
    let (old_lines, has_final_break) = split(old);
    let used = |form: &ListingForm| {
        places_of(*form, text, &old_lines, has_final_break, &WorkBudget::new()).contains(place)
    };
    let Some(form) = forms(&old_lines).into_iter().find(used) else {
        return Err(Mismatch("its line numbers cannot be told from text".to_owned()));
    };
    let (new_lines, _) = split(new);
    let changed = new_lines.iter().filter(|line| !old_lines.contains(line) && !line.is_empty());
    let prefixed = changed.clone().filter(|line| form.read(line).is_some()).count();
    let strips = prefixed > 0;
    if strips && prefixed < changed.count() {
        return Err(Mismatch("some of its new lines begin with a line number and some do not".to_owned()));
    }
    let rewrite = |line: &NewLine<'_>| {
        let bare = form.read(line.text).filter(|_| strips).map_or(line.text, |(_, bare)| bare);
        Ok(bare.to_vec())
    };
    compose(text, place, old, new, rewrite)
}

/// Returns the forms in which all lines can be read, with numbers that count up by one.
fn forms(lines: &[&[u8]]) -> Vec<ListingForm> {
    let all = SEPARATORS
        .into_iter()
        .flat_map(|separator| [false, true].map(|has_blank| ListingForm { separator, has_blank }));
    let fits = |form: &ListingForm| {
        let numbers: Option<Vec<u64>> = lines.iter().map(|line| Some(form.read(line)?.0)).collect();
        numbers.is_some_and(|numbers| {
            !numbers.is_empty()
                && numbers
                    .windows(2)
                    .all(|pair| matches!(pair, [one, next] if one.checked_add(1) == Some(*next)))
        })
    };
    all.filter(fits).collect()
}

impl ListingForm {
    /// Returns the number before a line, and the line.
    fn read(self, line: &[u8]) -> Option<(u64, &[u8])> {
        let line = line.trim_ascii_start();
        let line = line.strip_prefix(b"L").unwrap_or(line);
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(line.get(..digits)?).ok()?.parse().ok()?;
        let rest = line.get(digits..)?;
        // `12 | text` also has a blank before the separator.
        let rest = if self.has_blank { rest.strip_prefix(b" ").unwrap_or(rest) } else { rest };
        let rest = rest.strip_prefix(self.separator.as_bytes())?;
        match (self.has_blank, rest) {
            (false, _) | (true, b"") => Some((number, rest)),
            (true, _) => Some((number, rest.strip_prefix(b" ")?)),
        }
    }
}

/// Returns the places of `old`, ignoring typography.
pub fn typographic_places(text: &[u8], old: &[u8]) -> Vec<MatchedLines> {
    let needle = plain_typography(old).text;
    if text.is_ascii() && old.is_ascii() || needle.iter().all(|byte| b"'\"- ".contains(byte)) {
        return Vec::new();
    }
    let folded = plain_typography(text);
    let places = folded.places(&needle).filter_map(|place| MatchedLines::in_range(text, &place));
    places.take(FLEXIBLE_PLACES_MAX).collect()
}

/// Returns a text with the keyboard characters for typographic ones.
pub(in crate::text) fn plain_typography(text: &[u8]) -> FoldedText {
    let mut folded = FoldedText::default();
    let (mut start, mut end) = (0, 0);
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            let next = end + character.len_utf8();
            if let Some(plain) = on_keyboard(character) {
                folded.push(start, slice_or_empty(text, start..end));
                folded.push(end, plain.encode_utf8(&mut [0; 4]).as_bytes());
                start = next;
            }
            end = next;
        }
        end += chunk.invalid().len();
    }
    folded.push(start, slice_or_empty(text, start..));
    folded
}

/// Returns `new` with the characters of the file in all that the edit keeps: whole lines, and in a changed line the
/// text before and after the change.
///
/// # Errors
/// Fails if the place lies outside the text.
pub fn typographic_text(
    text: &[u8],
    place: &MatchedLines,
    old: &[u8],
    new: &[u8],
) -> Result<Vec<u8>, Mismatch> {
    compose(text, place, old, new, |line: &NewLine<'_>| Ok(rewritten(line)))
}

/// Returns a changed line with the characters of the file before and after the change.
fn rewritten(line: &NewLine<'_>) -> Vec<u8> {
    let given = || line.text.to_vec();
    let Some((old, found)) = line.replaces else { return given() };
    let (Ok(old), Ok(new)) = (std::str::from_utf8(old), std::str::from_utf8(line.text)) else {
        return given();
    };
    let Ok(found) = std::str::from_utf8(found) else { return given() };
    let (old, new, found): (Vec<char>, Vec<char>, Vec<char>) =
        (old.chars().collect(), new.chars().collect(), found.chars().collect());
    if old.len() != found.len() {
        return given();
    }
    let (head, tail) = common_ends(&old, &new);
    let kept_head = found.iter().take(head);
    let changed = new.iter().take(new.len() - tail).skip(head);
    let kept_tail = found.iter().skip(found.len() - tail);
    kept_head.chain(changed).chain(kept_tail).collect::<String>().into_bytes()
}

/// Returns the keyboard character for a typographic one; `None` for all others.
const fn on_keyboard(character: char) -> Option<char> {
    Some(match character {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        _ => return None,
    })
}
