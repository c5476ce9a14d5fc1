//! Blank lines and blanks at the ends of lines.
//!
//! All lines that are not blank must match in order, each whole, ignoring blanks at its end. The edges of the old text
//! are its blank lines before the first and after the last of these, and a final indentation without a line. They are
//! not lines of the file, and are not added from the new text either.
//!
//! If only blanks at the ends of lines differ, the first line may match the end of a line of the file, and the last one
//! the start of a line, as in an exact match. Blanks at the very end of the text mean the end of a line.

use std::ops::Range;

use super::Work;
use super::place::{
    MatchedLines, PLACES_MAX, Unfit, as_given, at, line_before, line_end, line_from, line_start, lines_like,
    longest, split, trimmed, trimmed_end, with_ending,
};
use crate::text::checked::{items, peek, slice};

/// Returns the places of `old`, ignoring blank lines.
pub fn blank_line_places(text: &[u8], old: &[u8], work: &Work) -> Vec<MatchedLines> {
    let (wanted, has_final_break) = split(old);
    let Some(anchor) = longest(&wanted) else {
        return Vec::new();
    };
    let Some(anchor_line) = wanted.get(anchor) else {
        return Vec::new();
    };
    let search = Search { text, wanted: &wanted, anchor, has_final_break, work };
    let found: Vec<MatchedLines> =
        lines_like(text, anchor_line).filter_map(|line| search.place(&line)).take(PLACES_MAX).collect();
    if found.is_empty() && !work.is_done() { without_edges(text, old) } else { found }
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
    let Edges { head, tail } = Edges::of(&lines);
    let core = peek(&lines, head..lines.len() - tail).join(&b'\n');
    if core.is_empty() || head + tail == 0 {
        return Vec::new();
    }
    let begins_line = |start: usize| head == 0 || start == 0 || text.get(start - 1) == Some(&b'\n');
    let ends_line = |end: usize| tail == 0 || text.get(end).is_none_or(|&next| next == b'\n');
    let found = memchr::memmem::find_iter(text, &core).map(|start| start..start + core.len());
    let whole = found.filter(|place| begins_line(place.start) && ends_line(place.end));
    whole.map(|range| place_of(text, range, head, tail)).take(PLACES_MAX).collect()
}

/// Returns the place of the lines in `range`, with no lines for the edges.
fn place_of(text: &[u8], range: Range<usize>, head: usize, tail: usize) -> MatchedLines {
    let mut start = range.start;
    let lines = at(text, &range).split_inclusive(|&byte| byte == b'\n').map(|line| {
        let found = start..start + line.len();
        start = found.end;
        Some(found)
    });
    let none = || std::iter::repeat_n(None, 1);
    let lines: Vec<Option<Range<usize>>> =
        (0..head).flat_map(|_| none()).chain(lines).chain((0..tail).flat_map(|_| none())).collect();
    let gaps = vec![range.end..range.end; lines.len()];
    MatchedLines { range, lines, gaps }
}

/// Number of blank lines at both ends of a text; a final indentation without a line counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Edges {
    /// Before the first line that is not blank.
    head: usize,
    /// After the last one.
    tail: usize,
}

impl Edges {
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
) -> Result<(Range<usize>, Vec<u8>), Unfit> {
    let ((old_lines, old_breaks), (new_lines, new_breaks)) = (split(old), split(new));
    let (old_edges, new_edges) = (Edges::of(&old_lines), Edges::of(&new_lines));
    let is_spread = place.gaps.iter().any(|gap| !gap.is_empty());
    if is_spread && old_breaks != new_breaks && !new_lines.is_empty() {
        // The last lines are not a pair: the new text may omit the blank lines before them.
        let why = "only one of old_string and new_string ends in a line break, and the file has blank lines that old_string has not";
        return Err(Unfit(why.to_owned()));
    }
    if old_edges == (Edges { head: 0, tail: 0 }) {
        // The blank lines at the end of the new text may include one that is not in the file.
        if new_edges.tail > 0 && place.lines.iter().any(Option::is_none) {
            let why = "it ends in blank lines, and old_string has blank lines that the file does not have";
            return Err(Unfit(why.to_owned()));
        }
        return Ok((place.range.clone(), as_given(text, place, old, new)?));
    }
    let old = Sides { lines: &old_lines, edges: old_edges, breaks: old_breaks };
    let new = Sides { lines: &new_lines, edges: new_edges, breaks: new_breaks };
    fitted_between_edges(text, place, &old, &new)
}

/// An old or a new text with its edges.
struct Sides<'a> {
    /// Its lines.
    lines: &'a [&'a [u8]],
    /// Number of them that are edges.
    edges: Edges,
    /// True if the last one ends in a break.
    breaks: bool,
}

impl Sides<'_> {
    /// Returns the lines between the edges, as one text.
    fn core(&self) -> Result<Vec<u8>, Unfit> {
        let core = items(self.lines, self.edges.head..self.lines.len() - self.edges.tail)?;
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
    old: &Sides<'_>,
    new: &Sides<'_>,
) -> Result<(Range<usize>, Vec<u8>), Unfit> {
    let (old_core, new_core) = (old.core()?, new.core()?);
    let within = old.edges.head..old.lines.len() - old.edges.tail;
    let lines = items(&place.lines, within.clone())?.to_vec();
    let gaps = items(&place.gaps, within)?.to_vec();
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
        for line in items(new.lines, lines)? {
            fitted.extend_from_slice(line);
            fitted.push(b'\n');
        }
        Ok::<(), Unfit>(())
    };
    add(&mut fitted, 0..new.edges.head.saturating_sub(old.edges.head))?;
    let old_core =
        if takes_break { old_core } else { old_core.strip_suffix(b"\n").unwrap_or(&old_core).to_vec() };
    fitted.extend(as_given(text, &place, &old_core, &new_core)?);
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
    old: &Sides<'_>,
    new: &Sides<'_>,
) -> Result<(), Unfit> {
    let before = slice(text, ..first)?.strip_suffix(b"\n").unwrap_or_default();
    let is_blank_before = before.is_empty() && first > 0 || before.ends_with(b"\n");
    let is_blank_after = slice(text, end..)?.first() == Some(&b'\n');
    let has_fewer = new.edges.head < old.edges.head && is_blank_before
        || new.edges.tail < old.edges.tail && is_blank_after;
    if has_fewer && !new.lines.is_empty() {
        return Err(Unfit("it removes blank lines of which the file has others than old_string".to_owned()));
    }
    Ok(())
}

/// Direction of a search from the anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// Towards the start of the file.
    Up,
    /// Towards its end.
    Down,
}

/// One search.
struct Search<'a> {
    /// The file's text.
    text: &'a [u8],
    /// Lines of the old text.
    wanted: &'a [&'a [u8]],
    /// Index of the line that was found.
    anchor: usize,
    /// True if the last of them ends in a break.
    has_final_break: bool,
    /// Remaining budget of the search.
    work: &'a Work,
}

impl Search<'_> {
    /// Returns the place around a line that may be the anchor.
    fn place(&self, anchor: &Range<usize>) -> Option<MatchedLines> {
        self.is_same(self.anchor, anchor).then_some(())?;
        let has_text = |index: &usize| !self.is_blank(*index);
        let first = (0..self.anchor).find(has_text).unwrap_or(self.anchor);
        let last = (0..self.wanted.len()).rev().find(has_text).unwrap_or(self.anchor);
        let mut above = self.beside(anchor.start, (first..self.anchor).rev(), Direction::Up)?;
        let mut lines: Vec<Option<Range<usize>>> = vec![None; self.anchor - above.len()];
        lines.append(&mut above);
        lines.push(Some(anchor.clone()));
        lines.append(&mut self.beside(anchor.end, self.anchor + 1..=last, Direction::Down)?);
        lines.resize(self.wanted.len(), None);
        let mut gaps = Self::gaps(&lines);
        let range = lines.iter().flatten().next()?.start..lines.iter().flatten().last()?.end;
        let range = if self.has_final_break { with_ending(self.text, &range) } else { range };
        for line in lines.iter_mut().flatten() {
            *line = with_ending(self.text, line);
            line.end = line.end.min(range.end);
        }
        gaps.iter_mut().for_each(|gap| gap.end = gap.end.clamp(gap.start, range.end.max(gap.start)));
        Some(MatchedLines { range, lines, gaps })
    }

    /// Returns true if a line of the file matches an old line.
    fn is_same(&self, index: usize, found: &Range<usize>) -> bool {
        self.wanted.get(index).is_some_and(|wanted| {
            self.work.line(wanted).is_some() && trimmed_end(wanted) == trimmed_end(at(self.text, found))
        })
    }

    /// Returns true if an old line is blank.
    fn is_blank(&self, index: usize) -> bool {
        self.wanted.get(index).is_some_and(|wanted| trimmed_end(wanted).is_empty())
    }

    /// Returns the lines found for `indices`, upwards or downwards from the line that begins or ends at `offset`. They
    /// are in the order of the file.
    fn beside(
        &self,
        mut offset: usize,
        indices: impl Iterator<Item = usize>,
        direction: Direction,
    ) -> Option<Vec<Option<Range<usize>>>> {
        let is_up = direction == Direction::Up;
        let mut lines: Vec<Option<Range<usize>>> = Vec::new();
        let mut blanks = 0;
        for index in indices {
            if self.is_blank(index) {
                blanks += 1;
                continue;
            }
            let mut passed = Vec::new();
            let found = loop {
                let next =
                    if is_up { line_before(self.text, offset)? } else { line_from(self.text, offset + 1)? };
                offset = if is_up { next.start } else { next.end };
                self.work.line(b"")?;
                if !trimmed_end(at(self.text, &next)).is_empty() {
                    break next;
                }
                passed.push(next);
            };
            self.is_same(index, &found).then_some(())?;
            // Pair the blank lines of both sides from the line before them.
            if is_up {
                passed.reverse();
            }
            let mut paired: Vec<Option<Range<usize>>> = passed.into_iter().map(Some).collect();
            paired.resize(blanks, None);
            if is_up {
                paired.reverse();
            }
            lines.append(&mut paired);
            lines.push(Some(found));
            blanks = 0;
        }
        if is_up {
            lines.reverse();
        }
        Some(lines)
    }

    /// Returns the text of the file between each line found and the next: blank lines that only the file has.
    fn gaps(lines: &[Option<Range<usize>>]) -> Vec<Range<usize>> {
        let mut next: Option<usize> = None;
        let mut gaps: Vec<Range<usize>> = Vec::with_capacity(lines.len());
        for line in lines.iter().rev() {
            let end = line.as_ref().map(|line| line.end + 1);
            gaps.push(end.zip(next).map_or(0..0, |(end, next)| end..next.max(end)));
            next = line.as_ref().map(|line| line.start).or(next);
        }
        gaps.reverse();
        gaps
    }
}

/// Returns the places of `old`, ignoring blanks at the ends of lines.
pub fn trailing_places(text: &[u8], old: &[u8], work: &Work) -> Vec<MatchedLines> {
    let (wanted, has_final_break) = split(old);
    let Some(anchor) = longest(&wanted) else {
        return Vec::new();
    };
    let Some(needle) = wanted.get(anchor).map(|line| trimmed_end(line)) else {
        return Vec::new();
    };
    let search = Search { text, wanted: &wanted, anchor, has_final_break, work };
    let hits = memchr::memmem::find_iter(text, needle);
    hits.filter_map(|hit| search.trailing_place(hit, needle.len())).take(PLACES_MAX).collect()
}

impl Search<'_> {
    /// Returns the place around a hit of the text of the anchor.
    fn trailing_place(&self, hit: usize, length: usize) -> Option<MatchedLines> {
        let start = line_start(self.text, hit);
        if self.anchor > 0 && hit != start {
            return None;
        }
        let found = hit..self.end_of(self.anchor, hit + length)?;
        let mut lines: Vec<Range<usize>> = std::iter::once(found).collect();
        let mut before = start;
        for index in (0..self.anchor).rev() {
            let line = line_before(self.text, before)?;
            before = line.start;
            let wanted = trimmed_end(self.wanted.get(index)?);
            self.work.line(wanted)?;
            let found = trimmed_end(at(self.text, &line));
            let skipped = found.len().checked_sub(wanted.len())?;
            let is_same = found.ends_with(wanted) && (index == 0 || skipped == 0);
            is_same.then(|| lines.push(line.start + skipped..line.end + 1))?;
        }
        lines.reverse();
        for index in self.anchor + 1..self.wanted.len() {
            let line = line_from(self.text, lines.last()?.end)?;
            let wanted = trimmed_end(self.wanted.get(index)?);
            self.work.line(wanted)?;
            at(self.text, &line).starts_with(wanted).then_some(())?;
            let end = self.end_of(index, line.start + wanted.len())?;
            lines.push(line.start..end);
        }
        MatchedLines::of(lines)
    }

    /// Returns the end of line `index` of the place, whose text ends at `offset`.
    fn end_of(&self, index: usize, offset: usize) -> Option<usize> {
        let is_last = index + 1 == self.wanted.len();
        let end = line_end(self.text, offset);
        let wanted = self.wanted.get(index)?;
        if is_last && !self.has_final_break && trimmed_end(wanted).len() == wanted.len() {
            return Some(offset);
        }
        trimmed_end(at(self.text, &Range { start: offset, end })).is_empty().then_some(())?;
        match (is_last && !self.has_final_break, self.text.get(end)) {
            (true, _) => Some(end),
            (false, Some(_)) => Some(end + 1),
            (false, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::flexible::place::as_given;

    #[test]
    fn blank_lines_and_breaks_at_the_ends_do_not_matter() {
        for (text, old, new, after) in [
            ("a\n\nb\n", "a\nb\n", "a\nB\n", "a\n\nB\n"),
            ("a\n\n\nb\nc\n", "a\n\nb\n", "A\n\nB\n", "A\n\n\nB\nc\n"),
            ("a\nb\n", "a\n\nb\n", "a\n\nB\n", "a\nB\n"),
            ("a\nb", "a\nb\n", "a\nc\n", "a\nc"),
            ("a\nb", "\na\nb\n", "\na\nc\n", "a\nc"),
            ("x\na\ny\n", "\n\na\n\n", "\n\nb\n\n", "x\nb\ny\n"),
            ("a\nb\nc\n", "b\n    ", "B\n\n", "a\nB\n\nc\n"),
            ("a\n\nb\n\nc\n", "a\nb\n\nc", "c", "c\n"),
            ("a\nb\nc\n", "b\n    ", "B\n\n    ", "a\nB\n\nc\n"),
            // Edges add no blank line to the file.
            ("a\nb\nc\n", "b\n    ", "B\n    ", "a\nB\nc\n"),
            ("a\nb\nc\n", "b\n    ", "B\n", "a\nB\nc\n"),
            ("a\nb\nc\n", "b\n    ", "B", "a\nB\nc\n"),
            ("a\nb\nc\n", "b\n\n", "B\nx\n\n", "a\nB\nx\nc\n"),
            ("a\nb\nc\n", "b\n\n", "B\n", "a\nB\nc\n"),
            ("a\nb\nc\n", "b\n\n", "", "a\nc\n"),
            ("a\nb\nc\n", "\n  \nb", "\nB", "a\nB\nc\n"),
            ("a\nb\nc\n", "\nb\n  ", "\n\n\nB\n  ", "a\n\n\nB\nc\n"),
            ("a\nb = f(1)\nc\n", "\n\nb = f", "\n\nb = g", "a\nb = g(1)\nc\n"),
            ("a\n\nb\n", "a\nb\n", "a\n\nB\n", "a\n\nB\n"),
        ] {
            let found = blank_line_places(text.as_bytes(), old.as_bytes(), &Work::new());
            let [place] = found.as_slice() else { panic!("{text:?} {old:?}: {found:?}") };
            let (range, fitted) = fitted(text.as_bytes(), place, old.as_bytes(), new.as_bytes()).unwrap();
            let mut changed = text.as_bytes().to_vec();
            changed.splice(range, fitted);
            assert_eq!(String::from_utf8(changed).unwrap(), after, "{old:?}");
        }
        // It is refused if the new text may omit blank lines before an unpaired last line.
        let place = blank_line_places(b"a\n\nb", b"a\nb", &Work::new()).remove(0);
        assert!(fitted(b"a\n\nb", &place, b"a\nb", b"a\nx\n").is_err());
        // The new line could be meant on either side of a blank line that `old` does not have.
        let place = blank_line_places(b"a\n\nb\n", b"a\nb", &Work::new()).remove(0);
        assert!(fitted(b"a\n\nb\n", &place, b"a\nb", b"a\nx\nb").is_err());
        assert_eq!(blank_line_places(b"ab\n", b"\na\n\n", &Work::new()), []);
        assert_eq!(blank_line_places(b"a\nb\n\na\n\nb\n", b"a\n\n\nb\n", &Work::new()).len(), 2);
    }

    #[test]
    fn blanks_at_the_ends_of_lines_do_not_matter() {
        for (text, old, new, after) in [
            ("a  \nb\n", "a\nb\n", "a\nB\n", "a  \nB\n"),
            ("a\nb\n", "a \nb \n", "x\n", "x\n"),
            ("let a\t\nlet b;\n", "a\nlet b", "a\nlet c", "let a\t\nlet c;\n"),
            ("foo\nbar", "foo\nbar  ", "foo\nbaz", "foo\nbaz"),
        ] {
            let found = trailing_places(text.as_bytes(), old.as_bytes(), &Work::new());
            let [place] = found.as_slice() else { panic!("{text:?} {old:?}: {found:?}") };
            let fitted = as_given(text.as_bytes(), place, old.as_bytes(), new.as_bytes()).unwrap();
            let mut changed = text.as_bytes().to_vec();
            changed.splice(place.range.clone(), fitted);
            assert_eq!(String::from_utf8(changed).unwrap(), after);
        }
        assert_eq!(trailing_places(b"foobar\n", b"foo ", &Work::new()), []);
        assert_eq!(trailing_places(b"xa\nb\n", b"\na \nb\n", &Work::new()), []);
        assert_eq!(trailing_places(b"a \na \n", b"a\n", &Work::new()).len(), 2);
    }
}
