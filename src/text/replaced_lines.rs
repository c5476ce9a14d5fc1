//! Lines that a change replaces: by the places where it was made, by comparison, and of two changes together.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::checked::slice_or_empty;
use super::line_diff;
use super::lines::{self, CommonLines};
use crate::limits::DIFFED_LINES_MAX;

/// Lines that a change replaced: `old_lines` lines from `first` on, counted from 1, became `new_lines` lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedLines {
    /// First replaced line, or the line after an insertion.
    pub first: u64,
    /// Number of lines before.
    pub old_lines: u64,
    /// Number of lines after.
    pub new_lines: u64,
}

impl ReplacedLines {
    /// Returns all lines of a text that another one has replaced.
    pub fn all_lines(old: &[u8], new: &[u8]) -> Self {
        Self { first: 1, old_lines: lines::count(old), new_lines: lines::count(new) }
    }

    /// Returns the lines that differ if `old`, which follow `skipped` other lines, became `new`; `None` if they are
    /// equal but for their endings. Equal lines at both ends are not replaced.
    pub fn differing_lines(skipped: u64, old: &[&[u8]], new: &[&[u8]]) -> Option<Self> {
        let is_same =
            |(old, new): &(&&[u8], &&[u8])| lines::without_ending(old) == lines::without_ending(new);
        let head = old.iter().zip(new).take_while(is_same).count();
        let [old, new] = [old, new].map(|all| slice_or_empty(all, head..all.len()));
        let tail = old.iter().rev().zip(new.iter().rev()).take_while(is_same).count();
        let (old, new) = (old.len() - tail, new.len() - tail);
        let replaced =
            Self { first: skipped + head as u64 + 1, old_lines: old as u64, new_lines: new as u64 };
        (old + new > 0).then_some(replaced)
    }
}

/// Returns the lines that a change replaced at `places` of `old`, now at `ranges` of `new`; both ascend. Every byte
/// outside them is unchanged.
///
/// Returns `None` if the places do not tell, because the lines of the two texts end in other bytes.
pub fn at_places(
    (old, places): (&[u8], &[Range<usize>]),
    (new, ranges): (&[u8], &[Range<usize>]),
) -> Option<Vec<ReplacedLines>> {
    let terminator = lines::terminator(old);
    if places.len() != ranges.len() || (lines::terminator(new) != terminator && !new.is_empty()) {
        return None;
    }
    let begins = |text: &[u8], at: usize| at == 0 || text.get(at - 1) == Some(&terminator);
    let line_end = |at: usize| {
        old.get(at..).and_then(|rest| memchr::memchr(terminator, rest)).map_or(old.len(), |end| at + end + 1)
    };
    let (mut replaced, mut skipped, mut counted) = (Vec::new(), 0, 0);
    let mut pairs = places.iter().zip(ranges).peekable();
    while let Some((place, range)) = pairs.next() {
        let before = old.get(..place.start)?;
        let start = memchr::memrchr(terminator, before).map_or(0, |at| at + 1);
        let new_start = range.start.checked_sub(place.start - start)?;
        let (mut end, mut new_end) = (place.end, range.end);
        loop {
            let whole_end = if begins(old, end) && begins(new, new_end) { end } else { line_end(end) };
            // Places that share a line are one.
            if let Some((next, range)) = pairs.next_if(|(next, _)| next.start < whole_end) {
                (end, new_end) = (next.end, range.end);
                continue;
            }
            (end, new_end) = (whole_end, new_end + (whole_end - end));
            break;
        }
        skipped += memchr::memchr_iter(terminator, old.get(counted..start)?).count() as u64;
        counted = start;
        let cut = |text| lines::cut_after(text, terminator).collect::<Vec<_>>();
        let (old, new) = (cut(old.get(start..end)?), cut(new.get(new_start..new_end)?));
        replaced.extend(ReplacedLines::differing_lines(skipped, &old, &new));
    }
    Some(replaced)
}

/// Compares two texts and lists the replaced lines.
pub fn compared(old: &[u8], new: &[u8]) -> Vec<ReplacedLines> {
    let CommonLines { head, tail, one, other } = lines::common_lines(old, new);
    let (old_lines, new_lines) = (one - tail - head, other - tail - head);
    let all = ReplacedLines { first: head + 1, old_lines, new_lines };
    if old_lines == 0 && new_lines == 0 {
        return Vec::new();
    }
    let is_much = old_lines.saturating_add(new_lines) > DIFFED_LINES_MAX as u64;
    if old_lines == 0 || new_lines == 0 || is_much {
        return vec![all];
    }
    let part = |text, count: u64| -> Vec<&[u8]> {
        let bound = |lines: u64| usize::try_from(lines).unwrap_or(usize::MAX);
        lines::lines(text).skip(bound(head)).take(bound(count)).collect()
    };
    let diff = line_diff::diff(&part(old, old_lines), &part(new, new_lines));
    diff.changes()
        .map(|op| ReplacedLines {
            first: head + 1 + op.old_range().start as u64,
            old_lines: op.old_range().len() as u64,
            new_lines: op.new_range().len() as u64,
        })
        .collect()
}

/// Adjacent replacements of two changes, in the text between the changes.
struct Cluster {
    /// First line, from 1, and the line after the last.
    lines: (u64, u64),
    /// Lines of the first change: before and after it.
    first: (u64, u64),
    /// Lines of the second change: before and after it.
    second: (u64, u64),
}

/// Returns the lines that two changes replace together; the second was made to the result of the first.
///
/// Example: line 5 of 9 became two lines, then line 7 was deleted.
///
///   old        1 2 3 4 5     6 7 8 9
///   between    1 2 3 4 [5 6] 7 8 9 10
///   new        1 2 3 4 5 6  [] 7 8 9
///
/// Line 7 was line 6, next to the other: lines 5 and 6 became two lines.
pub fn combine(first: &[ReplacedLines], second: &[ReplacedLines]) -> Vec<ReplacedLines> {
    // Lines of one change that follow each other stay apart.
    if first.is_empty() || second.is_empty() {
        return [first, second].concat();
    }
    let mut parts = Vec::with_capacity(first.len() + second.len());
    let (mut lost, mut gained) = (0, 0);
    for part in first {
        let start = (part.first + gained).saturating_sub(lost);
        let sides = (part.old_lines, part.new_lines);
        parts.push(Cluster { lines: (start, start + part.new_lines), first: sides, second: (0, 0) });
        (lost, gained) = (lost + part.old_lines, gained + part.new_lines);
    }
    parts.extend(second.iter().map(|part| Cluster {
        lines: (part.first, part.first + part.old_lines),
        first: (0, 0),
        second: (part.old_lines, part.new_lines),
    }));
    parts.sort_by_key(|part| part.lines);
    let mut clusters: Vec<Cluster> = Vec::with_capacity(parts.len());
    for part in parts {
        match clusters.last_mut() {
            Some(last) if part.lines.0 <= last.lines.1 => {
                last.lines.1 = last.lines.1.max(part.lines.1);
                last.first = (last.first.0 + part.first.0, last.first.1 + part.first.1);
                last.second = (last.second.0 + part.second.0, last.second.1 + part.second.1);
            }
            _ => clusters.push(part),
        }
    }
    (lost, gained) = (0, 0);
    let whole = |Cluster { lines: (start, end), first, second }: Cluster| {
        let between = end - start;
        let replaced = ReplacedLines {
            first: (start + lost).saturating_sub(gained),
            old_lines: (between + first.0).saturating_sub(first.1),
            new_lines: (between + second.1).saturating_sub(second.0),
        };
        (lost, gained) = (lost + first.0, gained + first.1);
        replaced
    };
    clusters.into_iter().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn replaced(parts: &[(u64, u64, u64)]) -> Vec<ReplacedLines> {
        parts
            .iter()
            .map(|&(first, old_lines, new_lines)| ReplacedLines { first, old_lines, new_lines })
            .collect()
    }

    #[test]
    fn places_tell_the_replaced_lines_whatever_lines_are_alike() {
        for (old, places, new, ranges, lines) in [
            ("a\n}\n}\nb\n", &[(2, 4)][..], "a\n}\nb\n", &[(2, 2)][..], &[(2, 1, 0)][..]),
            ("a\n}\n}\nb\n", &[(4, 6)], "a\n}\nb\n", &[(4, 4)], &[(3, 1, 0)]),
            ("}\n}\n", &[(0, 0)], "}\n}\n}\n", &[(0, 2)], &[(1, 0, 1)]),
            ("}\n}\n", &[(4, 4)], "}\n}\n}\n", &[(4, 6)], &[(3, 0, 1)]),
            // Two places in a line are one, two in adjacent lines are not.
            ("a b a\nc\n", &[(0, 1), (4, 5)], "x b x\nc\n", &[(0, 1), (4, 5)], &[(1, 1, 1)]),
            ("a\nb\nc\n", &[(0, 1), (2, 3)], "x\ny\nc\n", &[(0, 1), (2, 3)], &[(1, 1, 1), (2, 1, 1)]),
            // A line end that is removed joins the next line.
            ("a\nb\nc\n", &[(1, 2)], "ab\nc\n", &[(1, 1)], &[(1, 2, 1)]),
            ("a\nb", &[(3, 3)], "a\nb\nc", &[(3, 5)], &[(3, 0, 1)]),
            ("a\rb\rc", &[(2, 3)], "a\rx\rc", &[(2, 3)], &[(2, 1, 1)]),
            ("a\n", &[(0, 2)], "", &[(0, 0)], &[(1, 1, 0)]),
        ] {
            let [places, ranges] = [places, ranges].map(of_bounds);
            let found = at_places((old.as_bytes(), &places), (new.as_bytes(), &ranges));
            assert_eq!(found, Some(replaced(lines)), "{old:?} -> {new:?}");
        }
        let place = of_bounds(&[(1, 2)]);
        assert_eq!(at_places((b"a\rb", &place), (b"a\nb", &place)), None);
    }

    /// Returns ranges with these bounds.
    fn of_bounds(bounds: &[(usize, usize)]) -> Vec<Range<usize>> {
        bounds.iter().map(|&(start, end)| start..end).collect()
    }

    #[test]
    fn two_changes_together_move_each_line_as_one_after_the_other() {
        let mut random = Random::new(29);
        let mut next = 100;
        let mut change = |lines: &mut Vec<u64>| {
            let (mut parts, mut at, mut before) = (Vec::new(), 0, 0);
            let old = lines.len();
            while parts.len() < 4 && before < old {
                let skipped = random.below(4).min(old - before);
                let (gone, new) = (random.below(3).min(old - before - skipped), random.below(3));
                at += skipped;
                next += 10;
                lines.splice(at..at + gone, next..next + new as u64);
                parts.push(((before + skipped + 1) as u64, gone as u64, new as u64));
                (at, before) = (at + new, before + skipped + gone.max(1));
                at += usize::from(gone == 0 && before <= old);
            }
            replaced(&parts)
        };
        for _ in 0..2000 {
            let mut lines: Vec<u64> = (1..=12).collect();
            let (first, second) = (change(&mut lines), change(&mut lines));
            let (mut old, mut new) = (1, 0);
            for part in combine(&first, &second) {
                let kept: Vec<u64> = (old..part.first).collect();
                let end = new + kept.len();
                assert_eq!(lines[new..end], kept, "{first:?} {second:?}");
                assert!(
                    !lines[end..].iter().any(|line| (part.first..part.first + part.old_lines).contains(line))
                );
                (old, new) = (part.first + part.old_lines, end + usize::try_from(part.new_lines).unwrap());
            }
            assert_eq!(lines[new..], (old..=12).collect::<Vec<_>>(), "{first:?} {second:?}");
        }
    }
}
