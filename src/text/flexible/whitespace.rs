//! Blank lines and blanks at the ends of lines.
//!
//! All lines that are not blank must match in order, each whole, ignoring blanks at its end. The edges of the old text
//! are its blank lines before the first and after the last of these, and a final indentation without a line. They are
//! not lines of the file, and are not added from the new text either.
//!
//! If only blanks at the ends of lines differ, the first line may match the end of a line of the file, and the last one
//! the start of a line, as in an exact match. Blanks at the very end of the text mean the end of a line.

use std::ops::Range;

use super::WorkBudget;
use super::place::{
    FoldedText, MatchedLines, Mismatch, at, keep_file_lines, line_end, lines_of, may_contain, runs, split,
    trimmed, trimmed_end, with_ending,
};
use crate::limits::FLEXIBLE_PLACES_MAX;
use crate::text::checked::{slice, slice_or_empty};

/// Returns the places of `old`, ignoring blank lines.
pub fn blank_line_places(text: &[u8], old: &[u8], work: &WorkBudget) -> Vec<MatchedLines> {
    let (wanted, has_final_break) = split(old);
    let all = lines_of(text);
    let wanted_at: Vec<usize> = (0..wanted.len()).filter(|&at| has_text(wanted.get(at).copied())).collect();
    let found_at: Vec<usize> =
        (0..all.len()).filter(|&line| has_text(all.get(line).map(|line| at(text, line)))).collect();
    let filled: Vec<Range<usize>> = found_at.iter().filter_map(|&line| all.get(line).cloned()).collect();
    let sought: Vec<&[u8]> = wanted_at.iter().filter_map(|&line| wanted.get(line).copied()).collect();
    let place = |start: usize| {
        let found_at = found_at.get(start..start + wanted_at.len())?;
        let mut place = paired(&all, (&wanted_at, wanted.len()), found_at)?;
        if has_final_break {
            place.range = with_ending(text, &place.range);
        }
        for line in place.lines.iter_mut().flatten() {
            *line = with_ending(text, line);
            line.end = line.end.min(place.range.end);
        }
        Some(place)
    };
    let starts = runs(text, &filled, &sought, trimmed_end, work);
    let found: Vec<MatchedLines> = starts.into_iter().filter_map(place).collect();
    if found.is_empty() && !work.is_done() { without_edges(text, old) } else { found }
}

/// Returns true for a line that is not blank.
fn has_text(line: Option<&[u8]>) -> bool {
    line.is_some_and(|line| !trimmed_end(line).is_empty())
}

/// Returns the place at which some of the `count` lines of the old text, `wanted_at`, match lines of the file,
/// `found_at`. The blank lines between two of them are pairs from the first on; the file may have more, or fewer.
fn paired(
    all: &[Range<usize>],
    (wanted_at, count): (&[usize], usize),
    found_at: &[usize],
) -> Option<MatchedLines> {
    let mut lines: Vec<Option<Range<usize>>> = vec![None; count];
    let mut gaps = vec![0..0; count];
    let nexts = wanted_at.iter().zip(found_at).skip(1).map(Some).chain([None]);
    for ((&wanted, &found), next) in wanted_at.iter().zip(found_at).zip(nexts) {
        let (wanted_end, found_end) =
            next.map_or((wanted + 1, found + 1), |(wanted, found)| (*wanted, *found));
        for (wanted, found) in (wanted..wanted_end).zip(found..found_end) {
            *lines.get_mut(wanted)? = Some(all.get(found)?.clone());
        }
        let pairs = (wanted_end - wanted).min(found_end - found);
        if pairs < found_end - found {
            *gaps.get_mut(wanted + pairs - 1)? = all.get(found + pairs)?.start..all.get(found_end)?.start;
        }
    }
    let range = all.get(*found_at.first()?)?.start..all.get(*found_at.last()?)?.end;
    Some(MatchedLines { range, lines, gaps })
}

/// Returns true if `old` ends in an indentation without a line, and matches exactly without it: then it was not shifted
/// as a whole.
pub fn only_dangles(text: &[u8], old: &[u8]) -> bool {
    let (lines, has_final_break) = split(old);
    let is_indentation = |line: &&[u8]| !line.is_empty() && trimmed(line).is_empty();
    !has_final_break && lines.last().is_some_and(is_indentation) && !without_edges(text, old).is_empty()
}

/// Returns the exact places of `old` without its edges: it may begin or end within a line.
fn without_edges(text: &[u8], old: &[u8]) -> Vec<MatchedLines> {
    let (lines, _) = split(old);
    let BlankEdges { head, tail } = BlankEdges::of(&lines);
    let core = slice_or_empty(&lines, head..lines.len() - tail).join(&b'\n');
    if core.is_empty() || head + tail == 0 {
        return Vec::new();
    }
    let begins_line = |start: usize| head == 0 || start == 0 || text.get(start - 1) == Some(&b'\n');
    let ends_line = |end: usize| tail == 0 || text.get(end).is_none_or(|&next| next == b'\n');
    let found = memchr::memmem::find_iter(text, &core).map(|start| start..start + core.len());
    let whole = found.filter(|place| begins_line(place.start) && ends_line(place.end));
    whole.filter_map(|range| place_of(text, &range, head, tail)).take(FLEXIBLE_PLACES_MAX).collect()
}

/// Returns the place of the lines in `range`, with no lines for the edges.
fn place_of(text: &[u8], range: &Range<usize>, head: usize, tail: usize) -> Option<MatchedLines> {
    let mut place = MatchedLines::in_range(text, range)?;
    place.lines.splice(0..0, vec![None; head]);
    place.lines.resize(place.lines.len() + tail, None);
    place.gaps = vec![range.end..range.end; place.lines.len()];
    Some(place)
}

/// Number of blank lines at both ends of a text; a final indentation without a line counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlankEdges {
    /// Before the first line that is not blank.
    head: usize,
    /// After the last one.
    tail: usize,
}

impl BlankEdges {
    /// Counts the edges of some lines; if all are blank, they are all the head.
    fn of(lines: &[&[u8]]) -> Self {
        let is_blank = |line: &&&[u8]| trimmed(line).is_empty();
        let head = lines.iter().take_while(is_blank).count();
        let tail = lines.iter().skip(head).rev().take_while(is_blank).count();
        Self { head, tail }
    }
}

/// Returns the range to replace at a place, and the form of `new` there.
///
/// # Errors
/// Fails if the new text removes blank lines of the edges, and the file has some of them.
pub fn fitted(
    text: &[u8],
    place: &MatchedLines,
    old: &[u8],
    new: &[u8],
) -> Result<(Range<usize>, Vec<u8>), Mismatch> {
    let ((old_lines, old_breaks), (new_lines, new_breaks)) = (split(old), split(new));
    let (old_edges, new_edges) = (BlankEdges::of(&old_lines), BlankEdges::of(&new_lines));
    let is_spread = place.gaps.iter().any(|gap| !gap.is_empty());
    if is_spread && old_breaks != new_breaks && !new_lines.is_empty() {
        // The last lines are not a pair: the new text may omit the blank lines before them.
        let why = "only one of old_string and new_string ends in a line break, and the file has blank lines that old_string has not";
        return Err(Mismatch(why.to_owned()));
    }
    if old_edges == (BlankEdges { head: 0, tail: 0 }) {
        // The blank lines at the end of the new text may include one that is not in the file.
        if new_edges.tail > 0 && place.lines.iter().any(Option::is_none) {
            let why = "it ends in blank lines, and old_string has blank lines that the file does not have";
            return Err(Mismatch(why.to_owned()));
        }
        return Ok((place.range.clone(), keep_file_lines(text, place, old, new)?));
    }
    let old = EdgedText { lines: &old_lines, edges: old_edges, breaks: old_breaks };
    let new = EdgedText { lines: &new_lines, edges: new_edges, breaks: new_breaks };
    fitted_between_edges(text, place, &old, &new)
}

/// An old or a new text with its edges.
struct EdgedText<'a> {
    /// Its lines.
    lines: &'a [&'a [u8]],
    /// Number of them that are edges.
    edges: BlankEdges,
    /// True if the last one ends in a break.
    breaks: bool,
}

impl EdgedText<'_> {
    /// Returns the lines between the edges, as one text.
    fn core(&self) -> Result<Vec<u8>, Mismatch> {
        let core = slice(self.lines, self.edges.head..self.lines.len() - self.edges.tail)?;
        let is_broken = !core.is_empty() && (self.edges.tail > 0 || self.breaks);
        Ok([core.join(&b'\n').as_slice(), if is_broken { b"\n" } else { b"" }].concat())
    }

    /// Counts the blank lines at the end; an indentation without a line is not one.
    fn blanks(&self) -> usize {
        let Self { lines, edges, breaks } = *self;
        edges.tail - usize::from(edges.tail > 0 && !breaks && lines.len() > edges.head)
    }
}

/// Returns the range and the form of `new` if the old text has blank lines at its edges.
fn fitted_between_edges(
    text: &[u8],
    place: &MatchedLines,
    old: &EdgedText<'_>,
    new: &EdgedText<'_>,
) -> Result<(Range<usize>, Vec<u8>), Mismatch> {
    let (old_core, new_core) = (old.core()?, new.core()?);
    let within = old.edges.head..old.lines.len() - old.edges.tail;
    let lines = slice(&place.lines, within.clone())?.to_vec();
    let gaps = slice(&place.gaps, within)?.to_vec();
    let first = lines.iter().flatten().next().map_or(place.range.start, |line| line.start);
    let last = lines.iter().flatten().last().map_or(place.range.end, |line| line.end);
    let bare = at(text, &(first..last)).strip_suffix(b"\n").map_or(last, |body| first + body.len());
    let broken = with_ending(text, &(first..bare));
    must_keep_blanks(text, first, broken.end, old, new)?;
    // Nobody who looks for whole lines and omits a final line break means to join lines.
    let gives_break = new_core.is_empty() || new_core.ends_with(b"\n") || old.edges.tail == 0;
    let takes_break = old_core.ends_with(b"\n") && gives_break;
    let range = if takes_break { broken } else { first..bare };
    let place = MatchedLines { range: range.clone(), lines, gaps };
    let mut fitted = Vec::new();
    let add = |fitted: &mut Vec<u8>, lines: Range<usize>| {
        for line in slice(new.lines, lines)? {
            fitted.extend_from_slice(line);
            fitted.push(b'\n');
        }
        Ok::<(), Mismatch>(())
    };
    add(&mut fitted, 0..new.edges.head.saturating_sub(old.edges.head))?;
    let old_core =
        if takes_break { old_core } else { old_core.strip_suffix(b"\n").unwrap_or(&old_core).to_vec() };
    fitted.extend(keep_file_lines(text, &place, &old_core, &new_core)?);
    if !new_core.is_empty() {
        let tail = new.lines.len() - new.edges.tail;
        add(&mut fitted, tail..tail + new.blanks().saturating_sub(old.blanks()))?;
    }
    Ok((range, fitted))
}

/// Refuses a new text that removes blank lines of the edges, if the file has some of them before `first` or from `end`
/// on.
fn must_keep_blanks(
    text: &[u8],
    first: usize,
    end: usize,
    old: &EdgedText<'_>,
    new: &EdgedText<'_>,
) -> Result<(), Mismatch> {
    let before = slice(text, ..first)?.strip_suffix(b"\n").unwrap_or_default();
    let is_blank_before = before.is_empty() && first > 0 || before.ends_with(b"\n");
    let is_blank_after = slice(text, end..)?.first() == Some(&b'\n');
    let has_fewer = new.edges.head < old.edges.head && is_blank_before
        || new.edges.tail < old.edges.tail && is_blank_after;
    if has_fewer && !new.lines.is_empty() {
        return Err(Mismatch(
            "it removes blank lines of which the file has others than old_string".to_owned(),
        ));
    }
    Ok(())
}

/// Returns the places of `old`, ignoring blanks at the ends of lines.
pub fn trailing_places(text: &[u8], old: &[u8]) -> Vec<MatchedLines> {
    let (wanted, has_final_break) = split(old);
    if !may_contain(text, &wanted) {
        return Vec::new();
    }
    let needle = wanted.iter().map(|line| trimmed_end(line)).collect::<Vec<_>>().join(&b'\n');
    let needle = [needle.as_slice(), if has_final_break { b"\n" } else { b"" }].concat();
    let mut folded = FoldedText::default();
    for line in lines_of(text) {
        folded.push(line.start, trimmed_end(at(text, &line)));
        folded.text.extend_from_slice(at(text, &(line.end..with_ending(text, &line).end)));
    }
    if text.ends_with(b"\n") {
        folded.push(text.len(), b"");
    }
    // Blanks at the very end mean the end of a line.
    let ends_line =
        !has_final_break && wanted.last().is_some_and(|last| trimmed_end(last).len() < last.len());
    let place = |mut found: Range<usize>| {
        if ends_line {
            let end = line_end(text, found.end);
            let is_line = found.end < text.len() || !needle.ends_with(b"\n");
            (is_line && trimmed_end(at(text, &(found.end..end))).is_empty()).then_some(())?;
            found.end = end;
        }
        let mut place = MatchedLines::in_range(text, &found)?;
        if place.lines.len() < wanted.len() {
            place.lines.push(Some(found.end..found.end));
            place.gaps.push(found.end..found.end);
        }
        Some(place)
    };
    folded.places(&needle).filter_map(place).take(FLEXIBLE_PLACES_MAX).collect()
}
