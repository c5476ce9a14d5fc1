//! Blank lines that one side has and the other has not, and the first or last line break.
//!
//! All lines that are not blank must stand in the same order, each whole, blanks at its end aside.

use std::ops::Range;

use super::PLACES_MAX;
use super::place::{Place, at, line_before, line_from, lines_like, longest, split, trimmed_end, with_ending};

/// Where `old` stands but for blank lines.
pub fn places(text: &[u8], old: &[u8]) -> Vec<Place> {
    let (wanted, has_final_break) = split(old);
    let Some(anchor) = longest(&wanted) else {
        return Vec::new();
    };
    let anchor_line = wanted.get(anchor).copied().unwrap_or_default();
    let search = Search { text, wanted: &wanted, anchor, has_final_break };
    lines_like(text, anchor_line).filter_map(|line| search.place(&line)).take(PLACES_MAX).collect()
}

/// One search.
struct Search<'a> {
    /// The file's text.
    text: &'a [u8],
    /// The lines looked for.
    wanted: &'a [&'a [u8]],
    /// Which of them was found.
    anchor: usize,
    /// Whether the last of them ends in a break.
    has_final_break: bool,
}

impl Search<'_> {
    /// The place round a line that may be the anchor.
    fn place(&self, anchor: &Range<usize>) -> Option<Place> {
        self.is_same(self.anchor, anchor).then_some(())?;
        let mut lines: Vec<Option<Range<usize>>> = vec![None; self.wanted.len()];
        *lines.get_mut(self.anchor)? = Some(anchor.clone());
        self.backward(anchor.start, &mut lines)?;
        self.forward(anchor.end, &mut lines)?;
        let mut gaps = Self::gaps(&lines);
        let range = lines.iter().flatten().next()?.start..lines.iter().flatten().last()?.end;
        let range = if self.has_final_break { with_ending(self.text, &range) } else { range };
        for line in lines.iter_mut().flatten() {
            *line = with_ending(self.text, line);
            line.end = line.end.min(range.end);
        }
        gaps.iter_mut().for_each(|gap| gap.end = gap.end.clamp(gap.start, range.end.max(gap.start)));
        Some(Place { range, lines, gaps })
    }

    /// Whether a line of the file is the one looked for.
    fn is_same(&self, index: usize, found: &Range<usize>) -> bool {
        self.wanted.get(index).is_some_and(|wanted| trimmed_end(wanted) == trimmed_end(at(self.text, found)))
    }

    /// Whether a line looked for is blank.
    fn is_blank(&self, index: usize) -> bool {
        self.wanted.get(index).is_some_and(|wanted| trimmed_end(wanted).is_empty())
    }

    /// Finds the lines before the anchor.
    fn backward(&self, start: usize, lines: &mut [Option<Range<usize>>]) -> Option<()> {
        let mut start = start;
        let mut blanks: Vec<usize> = Vec::new();
        let first = (0..self.anchor).find(|&index| !self.is_blank(index)).unwrap_or(self.anchor);
        for index in (first..self.anchor).rev() {
            if self.is_blank(index) {
                blanks.push(index);
                continue;
            }
            let mut found_blanks = Vec::new();
            let found = loop {
                let before = line_before(self.text, start)?;
                start = before.start;
                if !trimmed_end(at(self.text, &before)).is_empty() {
                    break before;
                }
                found_blanks.push(before);
            };
            self.is_same(index, &found).then_some(())?;
            *lines.get_mut(index)? = Some(found);
            // The blank lines of both sides are paired from the line that stands before them.
            for (blank, found) in blanks.drain(..).rev().zip(found_blanks.into_iter().rev()) {
                *lines.get_mut(blank)? = Some(found);
            }
        }
        Some(())
    }

    /// Finds the lines after the anchor.
    fn forward(&self, end: usize, lines: &mut [Option<Range<usize>>]) -> Option<()> {
        let mut end = end;
        let mut blanks: Vec<usize> = Vec::new();
        let last = (0..self.wanted.len()).rev().find(|&index| !self.is_blank(index)).unwrap_or(self.anchor);
        for index in self.anchor + 1..=last {
            if self.is_blank(index) {
                blanks.push(index);
                continue;
            }
            let mut found_blanks = Vec::new();
            let found = loop {
                let after = line_from(self.text, end + 1)?;
                end = after.end;
                if !trimmed_end(at(self.text, &after)).is_empty() {
                    break after;
                }
                found_blanks.push(after);
            };
            self.is_same(index, &found).then_some(())?;
            *lines.get_mut(index)? = Some(found);
            for (blank, found) in blanks.drain(..).zip(found_blanks) {
                *lines.get_mut(blank)? = Some(found);
            }
        }
        Some(())
    }

    /// What stands in the file between each line found and the next one: blank lines that were not
    /// looked for.
    fn gaps(lines: &[Option<Range<usize>>]) -> Vec<Range<usize>> {
        let gap = |index: usize| {
            let end = lines.get(index)?.as_ref()?.end + 1;
            let next = lines.get(index + 1..)?.iter().flatten().next()?;
            Some(end..next.start.max(end))
        };
        (0..lines.len()).map(|index| gap(index).unwrap_or(0..0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::as_given;
    use super::*;

    #[test]
    fn blank_lines_and_breaks_at_the_ends_do_not_matter() {
        for (text, old, new, after) in [
            ("a\n\nb\n", "a\nb\n", "a\nB\n", "a\n\nB\n"),
            ("a\n\n\nb\nc\n", "a\n\nb\n", "A\n\nB\n", "A\n\n\nB\nc\n"),
            ("a\nb\n", "a\n\nb\n", "a\n\nB\n", "a\nB\n"),
            ("a\nb", "a\nb\n", "a\nc\n", "a\nc"),
            ("a\nb", "\na\nb\n", "\na\nc\n", "a\nc"),
            ("x\na\ny\n", "\n\na\n\n", "\n\nb\n\n", "x\nb\ny\n"),
            ("a\n\nb\n\nc\n", "a\nb\nc", "c", "c\n"),
            ("a\n\nb\n", "a\nb", "a\nx\nb", "a\n\nx\nb\n"),
        ] {
            let found = places(text.as_bytes(), old.as_bytes());
            let [place] = found.as_slice() else { panic!("{text:?} {old:?}: {found:?}") };
            let fitted = as_given(text.as_bytes(), place, old.as_bytes(), new.as_bytes());
            let mut changed = text.as_bytes().to_vec();
            changed.splice(place.range.clone(), fitted);
            assert_eq!(String::from_utf8(changed).unwrap(), after, "{old:?}");
        }
        assert_eq!(places(b"ab\n", b"\na"), []);
        assert_eq!(places(b"a\nb\n\na\n\nb\n", b"a\n\n\nb\n").len(), 2);
    }
}
