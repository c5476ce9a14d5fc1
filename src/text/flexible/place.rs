//! A place that a tier found, and a new text that is made to fit it line by line.

use std::borrow::Cow;
use std::ops::Range;

use similar::DiffOp;

use super::WorkBudget;
use crate::limits::FLEXIBLE_PLACES_MAX;
use crate::text::checked::{item, slice, slice_or_empty};
use crate::text::line_diff;
use crate::text::line_index::LineIndex;
use crate::text::lines::at_line_feeds;
use crate::text::replace::Occurrences;

/// Place of a text in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedLines {
    /// Range in bytes.
    pub range: Range<usize>,
    /// Line of the file for each line of the old text, with its ending if the range includes it; `None` for a blank
    /// line that is not in the file.
    pub lines: Vec<Option<Range<usize>>>,
    /// Blank lines that only the file has, after each line of the old text.
    pub gaps: Vec<Range<usize>>,
}

impl MatchedLines {
    /// Returns a place whose lines match those of the old text one to one.
    pub fn of(lines: Vec<Range<usize>>) -> Option<Self> {
        let range = lines.first()?.start..lines.last()?.end;
        let gaps = lines.iter().map(|line| line.end..line.end).collect();
        Some(Self { range, lines: lines.into_iter().map(Some).collect(), gaps })
    }

    /// Returns a place whose lines are those of a range.
    pub fn in_range(text: &[u8], range: &Range<usize>) -> Option<Self> {
        let mut end = range.start;
        let lines = at_line_feeds(at(text, range)).map(|line| {
            let start = end;
            end += line.len();
            start..end
        });
        Self::of(lines.collect())
    }

    /// Returns a place that is treated as one line.
    pub fn as_one_line(range: Range<usize>) -> Self {
        let gap = range.end..range.end;
        Self { gaps: Vec::from([gap]), lines: vec![Some(range.clone())], range }
    }
}

/// Reason why a new text does not fit a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch(pub String);

/// A new line, and the line that it replaces if that is a single one.
pub struct NewLine<'a> {
    /// Index in the new text.
    pub index: usize,
    /// Text without the ending.
    pub text: &'a [u8],
    /// The old line, and that of the file.
    pub replaces: Option<(&'a [u8], &'a [u8])>,
}

/// Returns the lines of a text without their endings, and whether the last one has an ending.
pub fn split(text: &[u8]) -> (Vec<&[u8]>, bool) {
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    (lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line)).collect(), text.ends_with(b"\n"))
}

/// Returns the bytes of `range`, to compare and count them.
pub fn at<'a>(text: &'a [u8], range: &Range<usize>) -> &'a [u8] {
    slice_or_empty(text, range.clone())
}

/// Returns the start of the line that contains `offset`.
pub fn line_start(text: &[u8], offset: usize) -> usize {
    memchr::memrchr(b'\n', at(text, &(0..offset))).map_or(0, |newline| newline + 1)
}

/// Returns the end of the line that contains `offset`, before its ending.
pub fn line_end(text: &[u8], offset: usize) -> usize {
    memchr::memchr(b'\n', at(text, &(offset..text.len()))).map_or(text.len(), |length| offset + length)
}

/// Returns the lines of a text without their endings.
pub fn lines_of(text: &[u8]) -> Vec<Range<usize>> {
    let mut end = 0;
    let lines = at_line_feeds(text).map(|line| {
        let start = end;
        end += line.len();
        start..start + line.strip_suffix(b"\n").unwrap_or(line).len()
    });
    lines.collect()
}

/// Returns the range of a line with its ending, if it has one.
pub fn with_ending(text: &[u8], line: &Range<usize>) -> Range<usize> {
    line.start..(line.end + usize::from(text.get(line.end) == Some(&b'\n')))
}

/// Returns a line without the blanks at its end.
pub fn trimmed_end(line: &[u8]) -> &[u8] {
    let blanks = line.iter().rev().take_while(|&&byte| is_blank(byte)).count();
    slice_or_empty(line, ..line.len() - blanks)
}

/// Returns the blanks at the start of a line.
pub fn indent(line: &[u8]) -> &[u8] {
    let blanks = line.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    slice_or_empty(line, ..blanks)
}

/// Returns a line without the blanks at both ends.
pub fn trimmed(line: &[u8]) -> &[u8] {
    trimmed_end(slice_or_empty(line, indent(line).len()..))
}

/// Returns true for a blank within a line. A CR alone is not one: it may be text.
fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Part of a line that is compared.
pub type LineKey = fn(&[u8]) -> &[u8];

/// Returns true if a text contains the longest of some lines without its blanks, and may so contain all of them. Lines
/// that are all blank say nothing about their place.
pub fn may_contain(text: &[u8], lines: &[&[u8]]) -> bool {
    let longest = lines.iter().map(|line| trimmed(line)).max_by_key(|line| line.len()).unwrap_or_default();
    !longest.is_empty() && memchr::memmem::find(text, longest).is_some()
}

/// Returns the starts of the runs of `lines` with the keys of `wanted`, as indices.
pub fn runs(
    text: &[u8],
    lines: &[Range<usize>],
    wanted: &[&[u8]],
    key: LineKey,
    work: &WorkBudget,
) -> Vec<usize> {
    if !may_contain(text, wanted) {
        return Vec::new();
    }
    let index = LineIndex::new(lines.iter().map(|line| Cow::Borrowed(key(at(text, line)))));
    let Some(needle) = index.needle(wanted.iter().map(|line| Cow::Borrowed(key(line)))) else {
        return Vec::new();
    };
    let mut budget = work.remaining() / needle.len().max(1);
    let places = index.places(&needle, &(0..lines.len()), FLEXIBLE_PLACES_MAX, &mut budget);
    work.set_remaining(if places.is_cut { 0 } else { budget.saturating_mul(needle.len()) });
    places.starts
}

/// Returns the places where all lines match one after the other, each whole, by their keys.
pub fn whole_lines(
    text: &[u8],
    wanted: &[&[u8]],
    has_final_break: bool,
    work: &WorkBudget,
    key: LineKey,
) -> Vec<MatchedLines> {
    let lines = lines_of(text);
    let place = |start: usize| {
        let found = lines.get(start..start + wanted.len())?;
        let last = found.len().checked_sub(1)?;
        let is_cut_off = has_final_break && found.last()?.end == text.len();
        let with_endings = found.iter().enumerate().map(|(index, line)| {
            if index < last || has_final_break { with_ending(text, line) } else { line.clone() }
        });
        (!is_cut_off).then(|| MatchedLines::of(with_endings.collect()))?
    };
    runs(text, &lines, wanted, key, work).into_iter().filter_map(place).collect()
}

/// A text in which some bytes are omitted or replaced by others, and the way back to the offsets in it.
#[derive(Default)]
pub struct FoldedText {
    /// The text.
    pub text: Vec<u8>,
    /// Starts of its parts, here and in the original.
    parts: Vec<(usize, usize)>,
}

impl FoldedText {
    /// Adds a part that begins at `original`.
    pub fn push(&mut self, original: usize, part: &[u8]) {
        self.parts.push((self.text.len(), original));
        self.text.extend_from_slice(part);
    }

    /// Returns the places of `needle`, as ranges of the original.
    pub fn places<'t>(&'t self, needle: &'t [u8]) -> impl Iterator<Item = Range<usize>> + 't {
        let places = Occurrences::of(&self.text, needle);
        places.map(|start| self.original(start)..self.original(start + needle.len()))
    }

    /// Returns the original offset of one here.
    fn original(&self, offset: usize) -> usize {
        let part = self.parts.partition_point(|part| part.0 <= offset).checked_sub(1);
        part.and_then(|part| self.parts.get(part)).map_or(0, |(start, original)| original + offset - start)
    }
}

/// Returns `new` as given, except that lines which the edit keeps have the bytes of the file.
///
/// # Errors
/// Fails if the place lies outside the text.
pub fn keep_file_lines(
    text: &[u8],
    place: &MatchedLines,
    old: &[u8],
    new: &[u8],
) -> Result<Vec<u8>, Mismatch> {
    compose(text, place, old, new, |line: &NewLine<'_>| Ok(line.text.to_vec()))
}

/// Returns `new` made to fit a place: lines that are in `old` too are copied from the file, and `rewrite` makes the
/// others.
///
/// # Errors
/// Returns the errors of `rewrite`.
pub fn compose(
    text: &[u8],
    place: &MatchedLines,
    old: &[u8],
    new: &[u8],
    mut rewrite: impl FnMut(&NewLine<'_>) -> Result<Vec<u8>, Mismatch>,
) -> Result<Vec<u8>, Mismatch> {
    let ((old_lines, old_breaks), (new_lines, new_breaks)) = (split(old), split(new));
    let blanks = |lines: &[&[u8]]| lines.iter().filter(|line| trimmed(line).is_empty()).count();
    let brings_blanks = blanks(&new_lines) > blanks(&old_lines);
    let mut composed = ComposedText { text, place, brings_blanks, bytes: Vec::with_capacity(new.len()) };
    let breaks_after = |index: usize| index + 1 < new_lines.len() || new_breaks;
    let ops = line_diff::diff(&old_lines, &new_lines).ops;
    for op in &ops {
        let is_kept = matches!(op, DiffOp::Equal { .. });
        let paired = op.old_range().len() == op.new_range().len();
        if !paired {
            let is_end = op.old_range().end == old_lines.len();
            composed.must_have_no_gap(op, &new_lines, is_end)?;
        }
        for (nth, index) in op.new_range().enumerate() {
            let old_index = op.old_range().start + nth;
            let line = *item(&new_lines, index)?;
            // Do not add blank lines that the new text already has here.
            let own_blanks = || {
                let more =
                    blanks_around(&new_lines, index).saturating_sub(blanks_around(&old_lines, old_index));
                let next = old_index + 1 + blanks_from(&old_lines, old_index + 1);
                let is_removed = |op: &DiffOp| op.new_range().is_empty() && op.old_range().contains(&next);
                if ops.iter().any(is_removed) {
                    AddedBlankLines::Elsewhere(more)
                } else {
                    AddedBlankLines::Here(more)
                }
            };
            if is_kept {
                if let Some(found) = composed.line(old_index)? {
                    composed.push(found, breaks_after(index));
                }
                if breaks_after(index) {
                    composed.gap(old_index, own_blanks())?;
                }
                continue;
            }
            let found = if paired { composed.line(old_index)? } else { None };
            let replaces = match found {
                Some(found) => Some((*item(&old_lines, old_index)?, found)),
                None => None,
            };
            let rewritten = rewrite(&NewLine { index, text: line, replaces })?;
            composed.push(&rewritten, breaks_after(index));
            if paired && breaks_after(index) {
                composed.gap(old_index, own_blanks())?;
            }
        }
    }
    let mut bytes = composed.bytes;
    // The last line of the file may have no ending, although the old text has one.
    if old_breaks && !slice(text, place.range.clone())?.ends_with(b"\n") && bytes.ends_with(b"\n") {
        bytes.pop();
    }
    Ok(bytes)
}

/// Counts the blank lines from the previous line that is not blank, or around an index.
fn blanks_around(lines: &[&[u8]], index: usize) -> usize {
    let is_blank = |at: &usize| lines.get(*at).is_some_and(|line| trimmed(line).is_empty());
    let before = (0..=index).rev().take_while(is_blank).count();
    before + (index + 1..lines.len()).take_while(is_blank).count()
}

/// Counts the blank lines from an index on.
fn blanks_from(lines: &[&[u8]], index: usize) -> usize {
    lines.iter().skip(index).take_while(|line| trimmed(line).is_empty()).count()
}

/// Blank lines that the new text has after a line and that the old text lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddedBlankLines {
    /// Between lines that stay.
    Here(usize),
    /// Before lines that are removed: they may come from two places.
    Elsewhere(usize),
}

/// A text under construction.
struct ComposedText<'a> {
    /// The file's text.
    text: &'a [u8],
    /// Place of the change.
    place: &'a MatchedLines,
    /// True if the new text has more blank lines than the old one.
    brings_blanks: bool,
    /// The new text so far.
    bytes: Vec<u8>,
}

impl<'a> ComposedText<'a> {
    /// Returns the line of the file for an old line, without its ending; `None` for a blank line that is not in the
    /// file.
    fn line(&self, old_index: usize) -> Result<Option<&'a [u8]>, Mismatch> {
        let Some(range) = item(&self.place.lines, old_index)?.as_ref() else { return Ok(None) };
        let line = slice(self.text, range.clone())?;
        Ok(Some(line.strip_suffix(b"\n").unwrap_or(line)))
    }

    /// Refuses to add or remove lines next to blank lines that only the file has: they could be meant on either side,
    /// unless they bring blank lines themselves.
    fn must_have_no_gap(&self, op: &DiffOp, new_lines: &[&[u8]], is_end: bool) -> Result<(), Mismatch> {
        let (old, new) = (op.old_range(), slice(new_lines, op.new_range())?);
        let first_is_blank = new.first().is_some_and(|line| trimmed(line).is_empty());
        let beside = match old.end.checked_sub(1) {
            // A removal takes the blank lines inside it along.
            Some(last) if new.is_empty() && !is_end => last..old.end,
            // The blank lines of the new text are those of the file.
            _ if first_is_blank => old,
            _ => old.start.saturating_sub(1)..old.end,
        };
        let has_gap = self.place.gaps.get(beside).is_some_and(|gaps| gaps.iter().any(|gap| !gap.is_empty()));
        if has_gap {
            return Err(Mismatch(
                "it changes lines next to blank lines that old_string does not have".to_owned(),
            ));
        }
        Ok(())
    }

    /// Adds a line.
    fn push(&mut self, line: &[u8], breaks: bool) {
        self.bytes.extend_from_slice(line);
        if breaks {
            self.bytes.push(b'\n');
        }
    }

    /// Adds the blank lines that only the file has after a line, except those that the new text already has.
    fn gap(&mut self, old_index: usize, own: AddedBlankLines) -> Result<(), Mismatch> {
        let gap = slice(self.text, item(&self.place.gaps, old_index)?.clone())?;
        let but_for = match own {
            AddedBlankLines::Here(lines) => lines,
            AddedBlankLines::Elsewhere(0) => 0,
            AddedBlankLines::Elsewhere(_) if gap.is_empty() => 0,
            AddedBlankLines::Elsewhere(_) => {
                let why = "it joins blank lines, and the file has others there than old_string";
                return Err(Mismatch(why.to_owned()));
            }
        };
        if self.brings_blanks && but_for == 0 && !gap.is_empty() {
            return Err(Mismatch("it adds blank lines, and the file has others than old_string".to_owned()));
        }
        for line in gap.split_inclusive(|&byte| byte == b'\n').skip(but_for) {
            self.bytes.extend_from_slice(line);
        }
        Ok(())
    }
}
