//! Which lines a text stands for, once it is known about where it should stand.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use similar::DiffOp;

use super::place::may_vote;
use super::shown::text_of;
use super::{SLACK_LINES, TIME, ratio};
use crate::text::checked::peek;
use crate::text::{line_diff, lines, omission};

/// Lines from such a start on that are compared closely where none agrees.
const CLOSE_LINES: usize = 20;
/// Lines of a text with a part left out that it may span.
const ELIDED_LINES_MAX: usize = 2000;
/// Places of the text before the part left out that are looked at.
const ELIDED_PLACES_MAX: usize = 100;
/// Bytes that the text before and after a part left out must have.
const ELIDED_BYTES_MIN: usize = 4;
/// How alike two lines must be to be taken for one another beside lines that agree, 0 to 1.
const BESIDE_RATIO_MIN: f32 = 0.4;

/// The lines that `wanted` stands for, where it should begin at line `start`: from the first that
/// agrees to the last one, and beside these as many as are alike.
pub(super) fn as_long_as_there(file: &[&[u8]], wanted: &[&[u8]], start: usize) -> Range<usize> {
    let own: Vec<&[u8]> = wanted.iter().map(|line| line.trim_ascii()).collect();
    let there = |at: usize| file.get(at).map(|line| line.trim_ascii());
    let is_same =
        |at: &usize| own.get(*at).is_some_and(|line| may_vote(line) && there(start + at) == Some(*line));
    let is_alike =
        |at: &usize| own.get(*at).zip(there(start + at)).is_some_and(|(one, other)| are_alike(one, other));
    let first = (0..own.len()).find(is_same).or_else(|| (0..own.len().min(CLOSE_LINES)).find(is_alike));
    let Some(first) = first else {
        return start..(start + own.len()).min(file.len()).max(start);
    };
    let last = (first..own.len()).rev().find(is_same).unwrap_or(first);
    let slack = SLACK_LINES.max(own.len() / 2);
    let (above, below) = (peek(&own, ..first), peek(&own, last + 1..));
    let (top, bottom) = (start + first, start + last + 1);
    let (from, to) = (top.saturating_sub(first + slack), (bottom + below.len() + slack).min(file.len()));
    let agreeing = |own: &[&[u8]], lines: Range<usize>| -> Vec<(usize, usize)> {
        let there: Vec<&[u8]> = peek(file, lines).iter().map(|line| line.trim_ascii()).collect();
        let ops = line_diff::diff(own, &there).ops;
        let same = ops.iter().filter(|op| matches!(op, DiffOp::Equal { .. }));
        let pairs = same.flat_map(|op| op.old_range().zip(op.new_range()));
        pairs.filter(|(at, _)| own.get(*at).is_some_and(|line| may_vote(line))).collect()
    };
    let (first, top) =
        agreeing(above, from..top).first().map_or((first, top), |pair| (pair.0, from + pair.1));
    let (last, bottom) = agreeing(below, bottom..to)
        .last()
        .map_or((last, bottom), |pair| (last + 1 + pair.0, bottom + pair.1 + 1));
    let alike = |at: Option<usize>, line: Option<usize>| {
        at.and_then(|at| own.get(at))
            .zip(line.and_then(there))
            .is_some_and(|(one, other)| are_alike(one, other))
    };
    let before =
        (1..=first).take_while(|back| alike(first.checked_sub(*back), top.checked_sub(*back))).count();
    let rest = own.len() - last - 1;
    let after = (1..=rest).take_while(|more| alike(Some(last + more), Some(bottom + more - 1))).count();
    with_moved_lines(file, &own, top - before..bottom + after)
}

/// A region with the lines beside it that are wanted as well, only in another order.
fn with_moved_lines(file: &[&[u8]], own: &[&[u8]], region: Range<usize>) -> Range<usize> {
    let mut missing: HashMap<&[u8], usize> = HashMap::new();
    for line in own.iter().filter(|line| may_vote(line)) {
        *missing.entry(line).or_default() += 1;
    }
    let mut take = |at: usize| {
        let line = file.get(at).copied().unwrap_or_default().trim_ascii();
        let left = missing.get_mut(line).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    };
    for at in region.clone() {
        take(at);
    }
    let (mut start, mut end) = (region.start, region.end);
    while start > 0 && take(start - 1) {
        start -= 1;
    }
    while end < file.len() && take(end) {
        end += 1;
    }
    start..end
}

/// Whether one line may stand for the other.
fn are_alike(one: &[u8], other: &[u8]) -> bool {
    let (one, other) = (text_of(one), text_of(other));
    one == other
        || (!one.is_empty()
            && !other.is_empty()
            && ratio(&one, &other, Instant::now() + TIME) >= BESIDE_RATIO_MIN)
}

/// The lines of a text out of whose middle something is left, by what it begins and ends with.
pub(super) fn elided(body: &[u8], wanted: &[u8], file: &[&[u8]]) -> Option<Range<usize>> {
    let (head, tail) = omission::around_ellipsis(wanted)?;
    let first = lines::lines(head).map(<[u8]>::trim_ascii).find(|line| !line.is_empty())?;
    let last = lines::lines(tail).map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()).last()?;
    if first.len().min(last.len()) < ELIDED_BYTES_MIN
        && head.trim_ascii().len().min(tail.trim_ascii().len()) < ELIDED_BYTES_MIN
    {
        return None;
    }
    // The whole of the head says more than its first line, but holds line endings.
    let whole = head.trim_ascii();
    let needle = if memchr::memmem::find(body, whole).is_some() { whole } else { first };
    let mut starts = Vec::with_capacity(file.len());
    let mut at = 0;
    let terminator = lines::terminator(body);
    for line in body.split_inclusive(|&byte| byte == terminator) {
        starts.push(at);
        at += line.len();
    }
    let line_of = |offset: usize| starts.partition_point(|&start| start <= offset).saturating_sub(1);
    let finder = memchr::memmem::Finder::new(last);
    let mut best: Option<Range<usize>> = None;
    for start in memchr::memmem::find_iter(body, needle).take(ELIDED_PLACES_MAX) {
        let from = start + needle.len();
        let Some(end) = body.get(from..).and_then(|rest| finder.find(rest)) else { break };
        let region = line_of(start)..line_of(from + end) + 1;
        let is_shorter = best.as_ref().is_none_or(|best| region.len() < best.len());
        if is_shorter && region.len() <= ELIDED_LINES_MAX {
            best = Some(region);
        }
    }
    best
}
