//! Blanks at the ends of lines.
//!
//! The first line may be the end of a line of the file, and the last one the start of one, just as
//! in an exact match. Blanks at the very end of the text stand for the end of a line.

use std::ops::Range;

use super::Work;
use super::place::{
    MatchedLines, PLACES_MAX, at, line_before, line_end, line_from, line_start, longest, split, trimmed_end,
};

/// Where `old` stands but for such blanks.
pub fn places(text: &[u8], old: &[u8], work: &Work) -> Vec<MatchedLines> {
    let (wanted, has_final_break) = split(old);
    let Some(anchor) = longest(&wanted) else {
        return Vec::new();
    };
    let Some(needle) = wanted.get(anchor).map(|line| trimmed_end(line)) else {
        return Vec::new();
    };
    let search = Search { text, wanted: &wanted, anchor, has_final_break, work };
    let hits = memchr::memmem::find_iter(text, needle);
    hits.filter_map(|hit| search.place(hit, needle.len())).take(PLACES_MAX).collect()
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
    /// What the search may still cost.
    work: &'a Work,
}

impl Search<'_> {
    /// The place round a hit of the anchor's text.
    fn place(&self, hit: usize, length: usize) -> Option<MatchedLines> {
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

    /// The end of line `index` of the place, whose text ends at `offset`.
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
    use super::super::place::as_given;
    use super::*;

    #[test]
    fn blanks_at_the_ends_of_lines_do_not_matter() {
        for (text, old, new, after) in [
            ("a  \nb\n", "a\nb\n", "a\nB\n", "a  \nB\n"),
            ("a\nb\n", "a \nb \n", "x\n", "x\n"),
            ("let a\t\nlet b;\n", "a\nlet b", "a\nlet c", "let a\t\nlet c;\n"),
            ("foo\nbar", "foo\nbar  ", "foo\nbaz", "foo\nbaz"),
        ] {
            let found = places(text.as_bytes(), old.as_bytes(), &Work::new());
            let [place] = found.as_slice() else { panic!("{text:?} {old:?}: {found:?}") };
            let fitted = as_given(text.as_bytes(), place, old.as_bytes(), new.as_bytes()).unwrap();
            let mut changed = text.as_bytes().to_vec();
            changed.splice(place.range.clone(), fitted);
            assert_eq!(String::from_utf8(changed).unwrap(), after);
        }
        assert_eq!(places(b"foobar\n", b"foo ", &Work::new()), []);
        assert_eq!(places(b"xa\nb\n", b"\na \nb\n", &Work::new()), []);
        assert_eq!(places(b"a \na \n", b"a\n", &Work::new()).len(), 2);
    }
}
