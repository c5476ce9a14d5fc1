//! Line diff in nearly linear time.
//!
//! Lines are compared by numbers. Common lines at both ends are removed first. Then the lines that occur once on each
//! side, in the longest order that both share (patience), cut the rest into blocks, and so on within these. Only blocks
//! without such a line are compared by the algorithm of Myers, large ones within a deadline. The rest of the work is
//! counted, so its bound depends on no clock.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::DiffOp;
use similar::algorithms::{Capture, Compact, Replace, myers};

use crate::text::checked::peek;

/// Time limit for the blocks that no line cuts.
const TIME: Duration = Duration::from_millis(300);
/// Lines of two texts that are compared; beyond this, all between the common ends counts as replaced.
pub const LINES_MAX: usize = 1 << 20;
/// Limit of the average number of visits per line.
const LOOKS_MAX: usize = 64;
/// Pairs of lines compared without a deadline, in blocks of at most [`SMALL_PAIRS`].
const PAIRS_MAX: usize = 1 << 25;
/// Pairs of lines in a small block.
const SMALL_PAIRS: usize = 1 << 16;

/// The differences between two lists of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineDiff {
    /// Lines kept, removed and added, in order, without gaps.
    pub ops: Vec<DiffOp>,
    /// True if common lines may be missing, for lack of time or because there are too many lines.
    pub is_coarse: bool,
}

/// Number of a line, and its index.
type Numbered = (u32, usize);

/// A run of equal lines in both texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    /// First line of the run in the old text.
    old: usize,
    /// First line of the run in the new text.
    new: usize,
    /// Number of lines.
    len: usize,
}

/// Compares two lists of lines as they are given; an ending that is part of a line counts.
#[must_use]
pub fn diff(old: &[&[u8]], new: &[&[u8]]) -> LineDiff {
    let head = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let (old_rest, new_rest) = (peek(old, head..), peek(new, head..));
    let tail =
        old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(one, other)| one == other).count();
    let mut search = Search {
        runs: Vec::new(),
        looks_left: LOOKS_MAX * (old.len() + new.len()),
        pairs_left: PAIRS_MAX,
        until: Instant::now() + TIME,
        is_coarse: false,
    };
    search.runs.push(Run { old: 0, new: 0, len: head });
    let old_middle = peek(old_rest, ..old_rest.len() - tail);
    let new_middle = peek(new_rest, ..new_rest.len() - tail);
    // A single line on each side must differ, or it would be part of an end.
    let is_apart = old_middle.is_empty() || new_middle.is_empty() || old_middle.len() + new_middle.len() == 2;
    if old_middle.len() + new_middle.len() > LINES_MAX {
        search.is_coarse = true;
    } else if !is_apart {
        let (old_ids, new_ids) = numbered(old_middle, new_middle);
        search.compare(&old_ids, &new_ids, head);
    }
    search.runs.push(Run { old: old.len() - tail, new: new.len() - tail, len: tail });
    search.runs.sort_unstable();
    LineDiff { ops: ops(&search.runs, old.len(), new.len()), is_coarse: search.is_coarse }
}

/// State of a comparison.
struct Search {
    /// Runs found so far, in any order.
    runs: Vec<Run>,
    /// Lines that may still be visited.
    looks_left: usize,
    /// Pairs of lines that may still be compared without a deadline.
    pairs_left: usize,
    /// Deadline for the comparison of large blocks.
    until: Instant,
    /// True if common lines may be missing.
    is_coarse: bool,
}

/// Number of occurrences of a line in a block of each text, and the last index.
#[derive(Debug, Clone, Copy, Default)]
struct LineOccurrences {
    /// Count in the old text; 2 means 2 or more.
    old: u8,
    /// Count in the new text.
    new: u8,
    /// Index in the new text.
    at: usize,
}

impl Search {
    /// Compares lines; the first is line `offset` of both texts.
    fn compare(&mut self, old: &[u32], new: &[u32], offset: usize) {
        let mut seen = vec![LineOccurrences::default(); old.len()];
        let mut open = vec![(0..old.len(), 0..new.len())];
        while let Some((mut old_block, mut new_block)) = open.pop() {
            self.take_ends(old, new, &mut old_block, &mut new_block, offset);
            if old_block.is_empty() || new_block.is_empty() {
                continue;
            }
            let Some(left) = self.looks_left.checked_sub(old_block.len() + new_block.len()) else {
                self.is_coarse = true;
                return;
            };
            self.looks_left = left;
            let anchors = anchors(old, new, &old_block, &new_block, &mut seen);
            if anchors.is_empty() {
                self.compare_closely(old, new, &old_block, &new_block, offset);
                continue;
            }
            let (mut old_at, mut new_at) = (old_block.start, new_block.start);
            for (old_anchor, new_anchor) in anchors {
                open.push((old_at..old_anchor, new_at..new_anchor));
                self.runs.push(Run { old: old_anchor + offset, new: new_anchor + offset, len: 1 });
                (old_at, new_at) = (old_anchor + 1, new_anchor + 1);
            }
            open.push((old_at..old_block.end, new_at..new_block.end));
        }
    }

    /// Removes the common lines at both ends of two blocks.
    fn take_ends(
        &mut self,
        old: &[u32],
        new: &[u32],
        old_block: &mut Range<usize>,
        new_block: &mut Range<usize>,
        offset: usize,
    ) {
        let same = |one: usize, other: usize| {
            let line = old.get(one);
            line.is_some() && line == new.get(other)
        };
        let room = old_block.len().min(new_block.len());
        let head = (0..room).take_while(|at| same(old_block.start + at, new_block.start + at)).count();
        self.runs.push(Run { old: old_block.start + offset, new: new_block.start + offset, len: head });
        (old_block.start, new_block.start) = (old_block.start + head, new_block.start + head);
        let room = room - head;
        let tail = (1..=room).take_while(|at| same(old_block.end - at, new_block.end - at)).count();
        (old_block.end, new_block.end) = (old_block.end - tail, new_block.end - tail);
        self.runs.push(Run { old: old_block.end + offset, new: new_block.end + offset, len: tail });
    }

    /// Compares two blocks without a line that occurs once in each.
    fn compare_closely(
        &mut self,
        old: &[u32],
        new: &[u32],
        old_block: &Range<usize>,
        new_block: &Range<usize>,
        offset: usize,
    ) {
        let block = |of: &[u32], block: &Range<usize>| -> Vec<(u32, usize)> {
            peek(of, block.clone()).iter().copied().zip(block.clone()).collect()
        };
        let (old, new) = in_both(block(old, old_block), block(new, new_block));
        let pairs = old.len().saturating_mul(new.len());
        let left = self.pairs_left.checked_sub(pairs).filter(|_| pairs <= SMALL_PAIRS);
        self.pairs_left = left.unwrap_or(self.pairs_left);
        let until = if left.is_some() { None } else { Some(self.until) };
        if until.is_some_and(|until| Instant::now() >= until) {
            self.is_coarse = true;
            return;
        }
        let ids = |lines: &[(u32, usize)]| lines.iter().map(|line| line.0).collect::<Vec<u32>>();
        for op in of_numbers(&ids(&old), &ids(&new), until) {
            if matches!(op, DiffOp::Equal { .. }) {
                let pairs = peek(&old, op.old_range()).iter().zip(peek(&new, op.new_range()));
                let run = |((_, old), (_, new)): (&(u32, usize), &(u32, usize))| Run {
                    old: old + offset,
                    new: new + offset,
                    len: 1,
                };
                self.runs.extend(pairs.map(run));
            }
        }
        self.is_coarse |= until.is_some_and(|until| Instant::now() >= until);
    }
}

/// Returns the lines, with their indices, that two blocks have in common.
fn in_both(mut old: Vec<Numbered>, mut new: Vec<Numbered>) -> (Vec<Numbered>, Vec<Numbered>) {
    let of_old: HashSet<u32> = old.iter().map(|line| line.0).collect();
    new.retain(|line| of_old.contains(&line.0));
    let of_new: HashSet<u32> = new.iter().map(|line| line.0).collect();
    old.retain(|line| of_new.contains(&line.0));
    (old, new)
}

/// Returns the lines that occur once in each of two blocks, in the longest order that both share.
fn anchors(
    old: &[u32],
    new: &[u32],
    old_block: &Range<usize>,
    new_block: &Range<usize>,
    seen: &mut [LineOccurrences],
) -> Vec<(usize, usize)> {
    let lines = |of: &'_ [u32], block: &Range<usize>| -> Vec<(usize, usize)> {
        let lines = peek(of, block.clone()).iter().zip(block.clone());
        lines.filter(|(id, _)| **id != ABSENT).map(|(id, at)| (*id as usize, at)).collect()
    };
    let (old_lines, new_lines) = (lines(old, old_block), lines(new, new_block));
    for (id, _) in &old_lines {
        if let Some(seen) = seen.get_mut(*id) {
            seen.old = (seen.old + 1).min(2);
        }
    }
    for (id, at) in &new_lines {
        if let Some(seen) = seen.get_mut(*id) {
            seen.new = (seen.new + 1).min(2);
            seen.at = *at;
        }
    }
    let pairs: Vec<(usize, usize)> = old_lines
        .iter()
        .filter_map(|(id, at)| {
            let seen = seen.get(*id)?;
            (seen.old == 1 && seen.new == 1).then_some((*at, seen.at))
        })
        .collect();
    for (id, _) in old_lines.iter().chain(&new_lines) {
        if let Some(seen) = seen.get_mut(*id) {
            *seen = LineOccurrences::default();
        }
    }
    longest_ascending(&pairs)
}

/// Returns the longest choice of pairs whose second numbers ascend; the first ones already do.
fn longest_ascending(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let second = |index: usize| pairs.get(index).map_or(usize::MAX, |pair| pair.1);
    // For each length, the pair in which a choice of that length ends earliest; and for each pair, the one before it.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, pair) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end| second(end) < pair.1);
        before.push(length.checked_sub(1).and_then(|shorter| ends.get(shorter).copied()));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut chosen = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(index) = next {
        chosen.extend(pairs.get(index).copied());
        next = before.get(index).copied().flatten();
    }
    chosen.reverse();
    chosen
}

/// Returns the differences between these runs.
fn ops(runs: &[Run], old_len: usize, new_len: usize) -> Vec<DiffOp> {
    let mut ops: Vec<DiffOp> = Vec::new();
    let (mut old_at, mut new_at) = (0, 0);
    let end = Run { old: old_len, new: new_len, len: 0 };
    for run in runs.iter().filter(|run| run.len > 0).chain(std::iter::once(&end)) {
        match (run.old - old_at, run.new - new_at) {
            (0, 0) => {}
            (old_len, 0) => ops.push(DiffOp::Delete { old_index: old_at, old_len, new_index: new_at }),
            (0, new_len) => ops.push(DiffOp::Insert { old_index: old_at, new_index: new_at, new_len }),
            (old_len, new_len) => {
                ops.push(DiffOp::Replace { old_index: old_at, old_len, new_index: new_at, new_len });
            }
        }
        match ops.last_mut() {
            Some(DiffOp::Equal { old_index, len, .. }) if *old_index + *len == run.old => *len += run.len,
            _ if run.len > 0 => {
                ops.push(DiffOp::Equal { old_index: run.old, new_index: run.new, len: run.len });
            }
            _ => {}
        }
        (old_at, new_at) = (run.old + run.len, run.new + run.len);
    }
    ops
}

/// Number of a line that is not in the old text.
pub const ABSENT: u32 = u32::MAX;

/// Returns the differences between two lists of numbers, in order and without gaps. All that is not compared by `until`
/// counts as replaced.
#[must_use]
pub fn of_numbers(old: &[u32], new: &[u32], until: Option<Instant>) -> Vec<DiffOp> {
    let mut found = Compact::new(Replace::new(Capture::new()), old, new);
    let Ok(()) = myers::diff_deadline(&mut found, old, 0..old.len(), new, 0..new.len(), until);
    found.into_inner().into_inner().into_ops()
}

/// Returns the differences between two lists of lines, as [`of_numbers`] does.
#[must_use]
pub fn of_lines(old: &[&[u8]], new: &[&[u8]], until: Option<Instant>) -> Vec<DiffOp> {
    let (old, new) = numbered(old, new);
    of_numbers(&old, &new, until)
}

/// Numbers the lines; equal lines get the same number.
#[must_use]
pub fn numbered(old: &[&[u8]], new: &[&[u8]]) -> (Vec<u32>, Vec<u32>) {
    let mut numbers: HashMap<&[u8], u32> = HashMap::with_capacity(old.len());
    let old_ids = old
        .iter()
        .map(|line| {
            let next = u32::try_from(numbers.len()).unwrap_or(ABSENT);
            *numbers.entry(line).or_insert(next)
        })
        .collect();
    let new_ids = new.iter().map(|line| numbers.get(line).copied().unwrap_or(ABSENT)).collect();
    (old_ids, new_ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Returns a generator of pseudo-random numbers.
    fn random(seed: u64) -> impl FnMut(usize) -> usize {
        let mut numbers = Random::new(seed);
        move |below| numbers.below(below)
    }

    /// Builds the new lines from the old ones and the differences.
    fn applied<'a>(ops: &[DiffOp], old: &[&'a [u8]], new: &[&'a [u8]]) -> Vec<&'a [u8]> {
        let mut made = Vec::new();
        let (mut old_at, mut new_at) = (0, 0);
        for op in ops {
            assert_eq!((op.old_range().start, op.new_range().start), (old_at, new_at));
            (old_at, new_at) = (op.old_range().end, op.new_range().end);
            if let DiffOp::Equal { .. } = op {
                made.extend_from_slice(&old[op.old_range()]);
            } else {
                made.extend_from_slice(&new[op.new_range()]);
            }
        }
        assert_eq!((old_at, new_at), (old.len(), new.len()));
        made
    }

    #[test]
    fn the_differences_lead_from_one_text_to_the_other() {
        let mut random = random(0x9e37_79b9);
        let words: [&[u8]; 9] = [b"a", b"b", b"c", b"", b"}", b"d", b"e", b"f", b"g"];
        for _ in 0..3000 {
            let kinds = 1 + random(9);
            let old: Vec<&[u8]> = (0..random(12)).map(|_| words[random(kinds)]).collect();
            let new: Vec<&[u8]> = (0..random(12)).map(|_| words[random(kinds)]).collect();
            let diff = diff(&old, &new);
            assert_eq!(applied(&diff.ops, &old, &new), new, "{old:?} {new:?}");
        }
    }

    #[test]
    fn sixty_thousand_lines_in_another_order_are_compared_whole() {
        let texts: Vec<String> = (0..60_000).map(|line| format!("line {line}")).collect();
        let old: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let mut new = old.clone();
        let mut random = random(7);
        for at in (1..new.len()).rev() {
            new.swap(at, random(at + 1));
        }
        let diff = diff(&old, &new);
        assert!(!diff.is_coarse);
        assert_eq!(applied(&diff.ops, &old, &new), new);
        // The longest common order of this many lines is about twice their square root.
        let kept: usize = diff
            .ops
            .iter()
            .filter(|op| matches!(op, DiffOp::Equal { .. }))
            .map(|op| op.old_range().len())
            .sum();
        assert!(kept > 400, "{kept}");
    }

    #[test]
    fn what_is_too_much_is_replaced_whole() {
        let old = vec![&b"a"[..]; LINES_MAX];
        let mut new = old.clone();
        new.insert(3, b"b");
        new.push(b"c");
        let diff = diff(&old, &new);
        assert!(diff.is_coarse);
        assert_eq!(applied(&diff.ops, &old, &new), new);
    }
}
