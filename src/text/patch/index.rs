//! Finds lines in a file: under each kind of comparison, near a stated line, and in the blocks that the `@@ class A`
//! lines of Codex open.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::HashSet;
use std::ops::Range;

use super::model::{Ending, Hunk, LineKind, TextLine, lines};
use crate::limits::{ANCHOR_STARTS_MAX, HUNK_COMPARISONS_MAX, REPORTED_PLACES_MAX};
use crate::text::flexible::plain_typography;
use crate::text::line_index::{LineIndex, SearchPlaces};

/// Kind of comparison of a line of the file and one of the patch; line endings never count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LineMatch {
    /// Byte for byte.
    Exact,
    /// Ignores white space at the end.
    TrailingSpace,
    /// Ignores white space at both ends.
    Space,
    /// Also ignores typographic quotes, dashes and spaces.
    Typography,
}

impl LineMatch {
    /// All kinds, the strictest first.
    pub const ALL: [Self; 4] = [Self::Exact, Self::TrailingSpace, Self::Space, Self::Typography];

    /// Returns the name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::TrailingSpace => "trailing_space",
            Self::Space => "space",
            Self::Typography => "typography",
        }
    }

    /// Returns the compared part of a line.
    pub fn key(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Exact => Cow::Borrowed(text),
            Self::TrailingSpace => Cow::Borrowed(text.trim_ascii_end()),
            Self::Space => Cow::Borrowed(text.trim_ascii()),
            Self::Typography if text.is_ascii() => Cow::Borrowed(text.trim_ascii()),
            Self::Typography => Cow::Owned(plain_typography(text).text.trim_ascii().to_vec()),
        }
    }
}

/// Searches of a file that compare line by line: numbering all its lines takes longer than these.
const SCANS_MAX: usize = 8;

/// Comparisons per line of the file for such a search, after which the index is built anyway.
const SCANNED_PER_LINE: usize = 4;

/// Lines of a file, with the indices that were needed so far.
pub struct IndexedText<'f> {
    /// Lines of the file.
    pub lines: Vec<TextLine<'f>>,
    /// Index for each kind of comparison.
    indices: [OnceCell<LineIndex<'f>>; 4],
    /// True if its lines have different endings; computed when first needed.
    is_mixed: OnceCell<bool>,
    /// Remaining comparisons.
    budget: Cell<usize>,
    /// Remaining searches without an index.
    scans: Cell<usize>,
}

/// Lines to find, and where they may be.
#[derive(Clone)]
pub struct LineQuery<'w> {
    /// Lines without endings.
    pub lines: Vec<&'w [u8]>,
    /// Index that the patch states for them.
    pub expected: Option<usize>,
    /// Ranges to search: the first group with a match decides.
    pub windows: Vec<Vec<Range<usize>>>,
    /// True if they are the last lines of the file.
    pub at_end: bool,
}

/// Result of a search.
#[derive(Debug, PartialEq, Eq)]
pub enum LineSearch {
    /// Nowhere.
    Nowhere,
    /// At one place that decides.
    At(usize),
    /// At several places, by their indices.
    Several(Vec<usize>),
}

impl<'f> IndexedText<'f> {
    /// Creates the text of `lines`.
    pub fn new(lines: Vec<TextLine<'f>>) -> Self {
        let is_mixed = OnceCell::new();
        let (budget, scans) = (Cell::new(HUNK_COMPARISONS_MAX), Cell::new(SCANS_MAX));
        Self { lines, indices: Default::default(), is_mixed, budget, scans }
    }

    /// Returns true if its lines have different endings.
    pub fn is_mixed(&self) -> bool {
        *self.is_mixed.get_or_init(|| {
            let mut endings =
                self.lines.iter().map(|line| line.ending).filter(|ending| *ending != Ending::None);
            let first = endings.next();
            endings.any(|ending| Some(ending) != first)
        })
    }

    /// Returns the index for `tier`, built when first needed.
    pub fn index(&self, tier: LineMatch) -> &LineIndex<'f> {
        let [exact, trailing, space, typography] = &self.indices;
        let cell = match tier {
            LineMatch::Exact => exact,
            LineMatch::TrailingSpace => trailing,
            LineMatch::Space => space,
            LineMatch::Typography => typography,
        };
        cell.get_or_init(|| LineIndex::new(self.lines.iter().map(|line| tier.key(line.text))))
    }

    /// Returns the numbers of some lines in the index for `tier`; `None` if one of them is nowhere in the file.
    fn needle(&self, lines: &[&[u8]], tier: LineMatch) -> Option<Vec<u32>> {
        self.index(tier).needle(lines.iter().map(|line| tier.key(line)))
    }

    /// Finds `wanted` under one kind of comparison: at the stated line, else at its only place.
    pub fn find(&self, wanted: &LineQuery<'_>, tier: LineMatch) -> LineSearch {
        if tier != LineMatch::Exact && wanted.lines.iter().all(|line| line.trim_ascii().is_empty()) {
            return LineSearch::Nowhere;
        }
        let Some(needle) = self.needle(&wanted.lines, tier) else { return LineSearch::Nowhere };
        if wanted.at_end {
            return match self.lines.len().checked_sub(needle.len()) {
                Some(at) if self.index(tier).stands_at(&needle, at) => LineSearch::At(at),
                _ => LineSearch::Nowhere,
            };
        }
        if let Some(at) = wanted.expected.filter(|at| self.index(tier).stands_at(&needle, *at)) {
            return LineSearch::At(at);
        }
        for windows in &wanted.windows {
            let places = self.places(&needle, windows, tier);
            match places.starts.as_slice() {
                [] if !places.is_cut => {}
                [only] if !places.is_cut => return LineSearch::At(*only),
                several => return LineSearch::Several(several.to_vec()),
            }
        }
        LineSearch::Nowhere
    }

    /// Returns true if `lines` match at index `at` and, with `at_end`, end the file.
    pub fn stands_at(&self, lines: &[&[u8]], at: usize, at_end: bool, tier: LineMatch) -> bool {
        let there = at.checked_add(lines.len()).and_then(|end| self.lines.get(at..end));
        let is_same = |(there, line): (&TextLine<'_>, &&[u8])| tier.key(there.text) == tier.key(line);
        there.is_some_and(|there| there.iter().zip(lines).all(is_same))
            && (!at_end || at + lines.len() == self.lines.len())
    }

    /// Returns true if `lines` match in exactly one place of the whole file.
    pub fn is_unique(&self, lines: &[&[u8]], tier: LineMatch) -> bool {
        if tier == LineMatch::Exact
            && let Some(is_unique) = self.is_unique_by_scan(lines)
        {
            return is_unique;
        }
        let Some(needle) = self.needle(lines, tier) else { return false };
        let mut budget = self.budget.get();
        let places = self.index(tier).places(&needle, &(0..self.lines.len()), 2, &mut budget);
        self.budget.set(budget);
        places.starts.len() == 1 && !places.is_cut
    }

    /// Returns the answer of `is_unique` without an index; `None` if that would take longer.
    fn is_unique_by_scan(&self, lines: &[&[u8]]) -> Option<bool> {
        let [exact, ..] = &self.indices;
        if exact.get().is_some() {
            return None;
        }
        self.scans.set(self.scans.get().checked_sub(1)?);
        let mut left = self.lines.len().saturating_mul(SCANNED_PER_LINE);
        let mut places = 0;
        for there in self.lines.windows(lines.len().max(1)) {
            let same = there.iter().zip(lines).take_while(|(there, line)| there.text == **line).count();
            left = left.checked_sub(same + 1)?;
            places += usize::from(same == there.len());
            if places > 1 {
                break;
            }
        }
        Some(places == 1 && !lines.is_empty())
    }

    /// Returns the places in any of `windows`, each once.
    fn places(&self, needle: &[u32], windows: &[Range<usize>], tier: LineMatch) -> SearchPlaces {
        let mut all = SearchPlaces::default();
        let mut budget = self.budget.get();
        for window in windows {
            let found = self.index(tier).places(needle, window, REPORTED_PLACES_MAX, &mut budget);
            all.is_cut |= found.is_cut;
            all.starts.extend(found.starts);
        }
        self.budget.set(budget);
        all.starts.sort_unstable();
        all.starts.dedup();
        all
    }
}

/// Returns true if hunks that each see the result of the one before change the same lines when all are placed in `file`:
/// none touches the old lines of another, and each has an old line that is once in the file and that none adds.
pub fn change_same_lines(hunks: &[Hunk<'_>], file: &[u8]) -> bool {
    let text = IndexedText::new(lines(file));
    let all = hunks.iter().flat_map(|hunk| &hunk.lines);
    let added: HashSet<&[u8]> =
        all.filter(|line| line.kind == LineKind::Added).map(|line| line.text).collect();
    let place = |hunk: &Hunk<'_>| {
        let old: Vec<&[u8]> = hunk.old().map(|line| line.text).collect();
        let start = old.iter().enumerate().find_map(|(index, line)| {
            match text.index(LineMatch::Exact).positions(line) {
                [only] if !added.contains(line) => only.checked_sub(index),
                _ => None,
            }
        })?;
        text.stands_at(&old, start, false, LineMatch::Exact).then_some(start..start + old.len())
    };
    let Some(mut places) = hunks.iter().map(place).collect::<Option<Vec<_>>>() else { return false };
    places.sort_unstable_by_key(|place| place.start);
    !text.is_mixed() && places.is_sorted_by(|one, next| one.end <= next.start)
}

/// Returns where a hunk may be: first in the blocks that its anchors open, else anywhere after.
///
/// # Errors
/// Returns the anchor that is nowhere.
pub fn windows<'a>(
    text: &IndexedText<'_>,
    anchors: &[&'a [u8]],
    after: usize,
) -> Result<Vec<Vec<Range<usize>>>, &'a [u8]> {
    let end = text.lines.len();
    let Some((outermost, inner)) = anchors.split_first() else {
        return Ok(vec![vec![after..end], vec![0..end]]);
    };
    let mut first = matching(text, outermost, after);
    if first.is_empty() {
        first = matching(text, outermost, 0);
    }
    let mut missing = *outermost;
    let mut starts = Vec::new();
    for start in first.into_iter().take(ANCHOR_STARTS_MAX) {
        match innermost(text, inner, start) {
            Ok(start) => starts.push(start),
            Err(anchor) => missing = anchor,
        }
    }
    let Some(first) = starts.first().copied() else { return Err(missing) };
    let scopes = starts.iter().map(|start| *start..scope_end(&text.lines, *start)).collect();
    Ok(vec![scopes, vec![first..end]])
}

/// Follows the inner anchors from the line after `start`, each to its first place.
fn innermost<'a>(text: &IndexedText<'_>, anchors: &[&'a [u8]], start: usize) -> Result<usize, &'a [u8]> {
    anchors
        .iter()
        .try_fold(start, |start, anchor| matching(text, anchor, start + 1).first().copied().ok_or(*anchor))
}

/// Returns the lines from `from` on that an anchor names: equal ones, ignoring space and typography, else those that
/// contain it.
fn matching(text: &IndexedText<'_>, anchor: &[u8], from: usize) -> Vec<usize> {
    for tier in LineMatch::ALL {
        let places = text.index(tier).positions(&tier.key(anchor)).iter().copied();
        let places: Vec<_> = places.filter(|at| *at >= from).take(ANCHOR_STARTS_MAX).collect();
        if !places.is_empty() {
            return places;
        }
    }
    let part = anchor.trim_ascii();
    let contains = |line: &TextLine<'_>| memchr::memmem::find(line.text, part).is_some();
    let lines = text.lines.iter().enumerate().skip(from);
    lines.filter(|(_, line)| contains(line)).map(|(at, _)| at).take(ANCHOR_STARTS_MAX).collect()
}

/// Returns the end of the block that the line at `start` opens, by indentation; closing brackets belong to it.
fn scope_end(lines: &[TextLine<'_>], start: usize) -> usize {
    let depth = lines.get(start).map_or(0, |line| indentation(line.text));
    let is_outside = |line: &TextLine<'_>| {
        let text = line.text.trim_ascii();
        let is_bracket = matches!(text.first(), None | Some(b'{' | b'}' | b'(' | b')' | b'[' | b']'));
        !is_bracket && indentation(line.text) <= depth
    };
    let after = lines.iter().skip(start + 1).position(is_outside);
    after.map_or(lines.len(), |after| start + 1 + after)
}

/// Returns the indentation of a line, in bytes.
fn indentation(text: &[u8]) -> usize {
    text.len() - text.trim_ascii_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn match_tiers_ignore_more_and_more_whitespace() {
        let same =
            |tier: LineMatch, one: &str, two: &str| tier.key(one.as_bytes()) == tier.key(two.as_bytes());
        assert!(!same(LineMatch::Exact, "a ", "a"));
        assert!(same(LineMatch::TrailingSpace, "a \t", "a"));
        assert!(!same(LineMatch::TrailingSpace, " a", "a"));
        assert!(same(LineMatch::Space, "\ta ", "a"));
        assert!(same(LineMatch::Typography, "\u{201c}a\u{201d}\u{a0}\u{2014} b\u{2019}s", " \"a\" - b's"));
        assert_eq!(&*LineMatch::Typography.key(b"\xff\xe2\x80\x94"), b"\xff-");
    }

    #[test]
    fn line_scan_equals_index_lookup() {
        let mut numbers = Random::new(1);
        let mut random = |below| numbers.below(below);
        let mut scanned = 0;
        for _ in 0..2000 {
            let kinds = 1 + random(6);
            let file: String = (0..random(12)).map(|_| format!("{}\n", random(kinds))).collect();
            let sought: Vec<String> = (0..random(4)).map(|_| random(kinds).to_string()).collect();
            let sought: Vec<&[u8]> = sought.iter().map(String::as_bytes).collect();
            let text = IndexedText::new(lines(file.as_bytes()));
            let by_scan = text.is_unique_by_scan(&sought);
            let needle = text.needle(&sought, LineMatch::Exact);
            let by_index = needle.is_some_and(|needle| {
                let all = 0..text.lines.len();
                text.index(LineMatch::Exact).places(&needle, &all, 2, &mut 1000).starts.len() == 1
            });
            scanned += usize::from(by_scan.is_some());
            assert_eq!(by_scan.unwrap_or(by_index), by_index, "{file:?} {sought:?}");
            for at in 0..=text.lines.len() {
                let there = text.lines.get(at..at + sought.len());
                let stands = there.is_some_and(|there| there.iter().map(|line| line.text).eq(sought.clone()));
                assert_eq!(
                    text.stands_at(&sought, at, false, LineMatch::Exact),
                    stands,
                    "{file:?} {sought:?} {at}"
                );
            }
        }
        assert!(scanned > 1000, "{scanned}");
    }

    #[test]
    fn slow_line_scan_falls_back_to_the_index() {
        let file = "a\n".repeat(100);
        let text = IndexedText::new(lines(file.as_bytes()));
        let sought: Vec<&[u8]> = [&[b"a".as_slice(); 40][..], &[b"b"]].concat();
        assert_eq!(text.is_unique_by_scan(&sought), None);
        assert!(!text.is_unique(&sought, LineMatch::Exact));
        let unique: Vec<&[u8]> = vec![b"a"; 100];
        let text = IndexedText::new(lines(file.as_bytes()));
        assert!(text.is_unique(&unique, LineMatch::Exact));
        for _ in 0..=SCANS_MAX {
            assert!(!text.is_unique(&[b"a"], LineMatch::Exact));
        }
        assert_eq!(text.is_unique_by_scan(&[b"a"]), None);
    }

    #[test]
    fn anchor_limits_the_hunk_to_its_block() {
        let text = IndexedText::new(lines(
            b"class A:\n  def f():\n    x\n  def g():\n    x\nclass B:\n  def f():\n    x\n",
        ));
        let starts = |anchors: &[&'static [u8]]| -> Vec<Vec<(usize, usize)>> {
            let pair = |range: &Range<usize>| (range.start, range.end);
            let groups = windows(&text, anchors, 0).unwrap();
            groups.iter().map(|group| group.iter().map(pair).collect()).collect()
        };
        assert_eq!(starts(&[b"def g():"]), [[(3, 5)], [(3, 8)]]);
        assert_eq!(starts(&[b"class B:", b"def f"]), [[(6, 8)], [(6, 8)]]);
        assert_eq!(starts(&[b"def f():"])[0], [(1, 3), (6, 8)]);
        assert_eq!(windows(&text, &[b"class A:", b"nothing"], 0).unwrap_err(), b"nothing");
    }
}
