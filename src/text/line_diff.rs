//! Line diff in nearly linear time.
//!
//! Lines are compared by numbers. Common lines at both ends are removed first. Then the lines that occur once on each
//! side, in the longest order that both share (patience), cut the rest into blocks, and so on within these. Blocks
//! without such a line are compared by the algorithm of Myers, which gives up on an optimal result before it takes too
//! long. All work is counted, so that no result depends on a clock.

use std::collections::HashMap;
use std::ops::Range;

use similar::DiffOp;
use similar::algorithms::{Capture, Compact, DiffHook, Replace, myers};

use crate::limits::DIFFED_LINES_MAX;
use crate::text::checked::slice_or_empty;

/// Lines of a block that are compared though no line cuts it. Beyond this, the block counts as replaced: two texts of
/// 400,000 random lines of two kinds would take two seconds.
const BLOCK_LINES_MAX: usize = 1 << 18;
/// Limit of the average number of visits per line, beyond which a block is not cut any more.
const LOOKS_MAX: usize = 64;

/// The differences between two lists of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineDiff {
    /// Lines kept, removed and added, in order, without gaps.
    pub ops: Vec<DiffOp>,
    /// True if common lines may be missing, since there are too many lines, or too many without one that cuts them.
    pub is_coarse: bool,
}

impl LineDiff {
    /// Returns what is removed, added or replaced.
    pub fn changes(&self) -> impl Iterator<Item = &DiffOp> {
        self.ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }))
    }

    /// Returns the changes, with lines that are only added or only removed as far down as equal lines allow, as git has
    /// them. So one change of two texts has one place, whatever else differs in them.
    pub fn lowest_changes(&self, old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
        let mut changes: Vec<DiffOp> = self.changes().copied().collect();
        let mut end = old.len();
        for change in changes.iter_mut().rev() {
            let (lines, range) = match change {
                DiffOp::Insert { .. } => (new, change.new_range()),
                _ => (old, change.old_range()),
            };
            let entering = lines.iter().skip(range.end).take(end - change.old_range().end);
            let leaving = lines.iter().skip(range.start);
            let count = entering.zip(leaving).take_while(|(one, other)| one == other).count();
            if let DiffOp::Insert { old_index, new_index, .. } | DiffOp::Delete { old_index, new_index, .. } =
                change
            {
                *old_index += count;
                *new_index += count;
            }
            end = change.old_range().start;
        }
        changes
    }
}

/// Returns the number of equal items at the start of two lists, and after these at the end.
pub(super) fn common_ends<T: PartialEq>(old: &[T], new: &[T]) -> (usize, usize) {
    let same = |(one, other): &(&T, &T)| one == other;
    let head = old.iter().zip(new).take_while(same).count();
    let rest = slice_or_empty(old, head..).iter().rev().zip(slice_or_empty(new, head..).iter().rev());
    (head, rest.take_while(same).count())
}

/// Compares two lists of lines as they are given; an ending that is part of a line counts.
pub fn diff(old: &[&[u8]], new: &[&[u8]]) -> LineDiff {
    let (head, tail) = common_ends(old, new);
    let [old_middle, new_middle] = [old, new].map(|lines| slice_or_empty(lines, head..lines.len() - tail));
    let mut found = FoundDifferences { ops: Replace::new(Capture::new()), old: 0, new: 0 };
    found.keep(head);
    let mut is_coarse = old_middle.len() + new_middle.len() > DIFFED_LINES_MAX;
    if is_coarse || old_middle.is_empty() || new_middle.is_empty() {
        found.replace(old_middle.len(), new_middle.len());
    } else {
        let (old_ids, new_ids) = numbered(old_middle, new_middle);
        is_coarse = compare(&mut found, &old_ids, &new_ids);
    }
    found.keep(tail);
    let Ok(()) = found.ops.finish();
    LineDiff { ops: found.ops.into_inner().into_ops(), is_coarse }
}

/// The differences found so far, and the next line of each text.
struct FoundDifferences {
    /// The differences.
    ops: Replace<Capture>,
    /// Next line of the old text.
    old: usize,
    /// Next line of the new text.
    new: usize,
}

impl FoundDifferences {
    /// Keeps the next lines.
    fn keep(&mut self, count: usize) {
        if count > 0 {
            let Ok(()) = self.ops.equal(self.old, self.new, count);
            (self.old, self.new) = (self.old + count, self.new + count);
        }
    }

    /// Replaces the next lines.
    fn replace(&mut self, removed: usize, added: usize) {
        if removed > 0 {
            let Ok(()) = self.ops.delete(self.old, removed, self.new);
            self.old += removed;
        }
        if added > 0 {
            let Ok(()) = self.ops.insert(self.old, self.new, added);
            self.new += added;
        }
    }
}

/// Compares the numbers of lines, in blocks from the first to the last; returns true if a block was too large.
fn compare(found: &mut FoundDifferences, old: &[u32], new: &[u32]) -> bool {
    let mut is_coarse = false;
    let mut looks_left = LOOKS_MAX * (old.len() + new.len());
    let mut seen = vec![LineOccurrences::default(); old.len()];
    let mut open = vec![(0..old.len(), 0..new.len())];
    while let Some((mut old_block, mut new_block)) = open.pop() {
        let (old_lines, new_lines) =
            (slice_or_empty(old, old_block.clone()), slice_or_empty(new, new_block.clone()));
        let (head, tail) = common_ends(old_lines, new_lines);
        found.keep(head);
        if tail > 0 {
            open.push((old_block.end - tail..old_block.end, new_block.end - tail..new_block.end));
        }
        old_block = old_block.start + head..old_block.end - tail;
        new_block = new_block.start + head..new_block.end - tail;
        if old_block.is_empty() || new_block.is_empty() {
            found.replace(old_block.len(), new_block.len());
            continue;
        }
        let left = looks_left.checked_sub(old_block.len() + new_block.len());
        looks_left = left.unwrap_or(0);
        let anchors = match left {
            Some(_) => anchors(old, new, &old_block, &new_block, &mut seen),
            None => Vec::new(),
        };
        if anchors.is_empty() && old_block.len() + new_block.len() > BLOCK_LINES_MAX {
            is_coarse = true;
            found.replace(old_block.len(), new_block.len());
            continue;
        }
        if anchors.is_empty() {
            for op in of_numbers(slice_or_empty(old, old_block), slice_or_empty(new, new_block)) {
                match op {
                    DiffOp::Equal { len, .. } => found.keep(len),
                    other => found.replace(other.old_range().len(), other.new_range().len()),
                }
            }
            continue;
        }
        // Each block but the first begins with an anchor, which is then a common line at its start.
        for (old_anchor, new_anchor) in anchors.into_iter().rev() {
            open.push((old_anchor..old_block.end, new_anchor..new_block.end));
            (old_block.end, new_block.end) = (old_anchor, new_anchor);
        }
        open.push((old_block, new_block));
    }
    is_coarse
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

/// Returns the lines that occur once in each of two blocks, in the longest order that both share.
fn anchors(
    old: &[u32],
    new: &[u32],
    old_block: &Range<usize>,
    new_block: &Range<usize>,
    seen: &mut [LineOccurrences],
) -> Vec<(usize, usize)> {
    let lines = |of: &'_ [u32], block: &Range<usize>| -> Vec<(usize, usize)> {
        let lines = slice_or_empty(of, block.clone()).iter().zip(block.clone());
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

/// Number of a line that is not in the old text.
const ABSENT: u32 = u32::MAX;

/// Returns the differences between two lists of numbers, in order and without gaps.
pub fn of_numbers(old: &[u32], new: &[u32]) -> Vec<DiffOp> {
    let mut found = Compact::new(Replace::new(Capture::new()), old, new);
    let Ok(()) = myers::diff(&mut found, old, 0..old.len(), new, 0..new.len());
    found.into_inner().into_inner().into_ops()
}

/// Numbers the lines; equal lines get the same number.
fn numbered(old: &[&[u8]], new: &[&[u8]]) -> (Vec<u32>, Vec<u32>) {
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
    fn diff_ops_turn_one_text_into_the_other() {
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
    fn diff_of_60000_shuffled_lines_is_not_coarse() {
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
    fn oversized_block_without_unique_lines_is_coarse() {
        let mut random = random(3);
        let mut lines = || -> Vec<&[u8]> {
            (0..BLOCK_LINES_MAX / 2 + 100).map(|_| [&b"a"[..], b"b"][random(2)]).collect()
        };
        let (old, new) = (lines(), lines());
        let found = diff(&old, &new);
        assert!(found.is_coarse);
        assert_eq!(applied(&found.ops, &old, &new), new);
        let unique = [&old[..1000], &[b"unique"], &old[1000..]].concat();
        assert!(!diff(&old, &unique).is_coarse, "the ends are common");
    }

    #[test]
    fn oversized_diff_is_coarse() {
        let old = vec![&b"a"[..]; DIFFED_LINES_MAX];
        let mut new = old.clone();
        new.insert(3, b"b");
        new.push(b"c");
        let diff = diff(&old, &new);
        assert!(diff.is_coarse);
        assert_eq!(applied(&diff.ops, &old, &new), new);
    }
}
