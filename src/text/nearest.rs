//! The region most similar to a text that was not found, and how it differs.
//!
//! Equal lines, ignoring blanks at their ends, vote for the place of the text: rare ones first, and only so many that
//! the work stays proportional to the file. If they are not enough, the characters of its longest lines decide. The
//! region extends from the first line that agrees to the last one, and beyond these as far as lines are similar.

use std::collections::HashMap;
use std::ops::Range;

use similar::{DiffOp, group_diff_ops};

use crate::limits::{BYTE_PAIRS_MAX, NEAREST_STARTS_MAX};
use crate::text::checked::{slice_or_empty, str_or_empty};
use crate::text::lines::common_start;
use crate::text::{escaped, line_diff, lines, omission, similarity};

/// Lines of a region that are compared by characters.
const REGION_LINES_MAX: usize = 30;
/// Lines by which a region may begin or end before or after the expected place.
const SLACK_LINES: usize = 10;
/// Characters of a line that are shown and compared.
const LINE_CHARACTERS_MAX: usize = 160;
/// Line in a difference that marks a missing final line ending.
const NO_NEWLINE: &str = "\\ No newline at end of file\n";

/// Region most similar to a text.
#[derive(Debug, Clone, PartialEq)]
pub struct NearestRegion {
    /// First line, from 1.
    pub start_line: u64,
    /// Last line.
    pub end_line: u64,
    /// Similarity, 0 to 1.
    pub ratio: f32,
    /// First difference: a line of the file and a column in it, in bytes from 1.
    pub first_difference: (u64, usize),
    /// Differing lines: wanted ones after `-`, those of the file after `+`, with tabs (`→`), carriage returns (`␍`) and
    /// trailing blanks (`·`) made visible.
    pub difference: String,
}

/// Returns the region of `body` most similar to `wanted`, if one is similar enough to show.
pub fn nearest(body: &[u8], wanted: &[u8]) -> Option<NearestRegion> {
    let (file, wanted_lines) = (bare_lines(body), bare_lines(wanted));
    let region = elided(body, wanted, &file).or_else(|| {
        let start = most_similar_line(&file, &wanted_lines, 0)?;
        Some(matched_lines(&file, &wanted_lines, start))
    })?;
    compared(body, wanted, region)
}

/// Returns the region of `body` from line `first` to line `last`, compared with `wanted`.
pub fn at_lines(body: &[u8], wanted: &[u8], first: u64, last: u64) -> Option<NearestRegion> {
    let index = |line: u64| usize::try_from(line).ok();
    compared(body, wanted, index(first)?.checked_sub(1)?..index(last)?)
}

/// Returns the lines of a text without their endings, which matching ignores.
fn bare_lines(text: &[u8]) -> Vec<&[u8]> {
    let terminator = [lines::terminator(text)];
    let bare = lines::lines(text)
        .map(|line| if line.ends_with(&terminator) { lines::without_ending(line) } else { line });
    bare.collect()
}

/// Returns true if the last line of a text has an ending.
fn is_ended(text: &[u8]) -> bool {
    text.last() == Some(&lines::terminator(text))
}

/// Compares a region with the wanted text.
fn compared(body: &[u8], text: &[u8], lines: Range<usize>) -> Option<NearestRegion> {
    let (file, wanted) = (bare_lines(body), bare_lines(text));
    let start = lines.start;
    let region = file.get(lines.clone())?;
    let ops = line_diff::diff(&wanted, region).ops;
    let mut difference = difference(&wanted, region, ops.clone());
    // No line shows that the final line ending is missing.
    if is_ended(text) && !is_ended(body) && lines.end == file.len() {
        difference.push_str(NO_NEWLINE);
    }
    let is_short = wanted.len().max(region.len()) <= REGION_LINES_MAX;
    let ratio = if is_short {
        similarity::ratio(&visible_lines(&wanted), &visible_lines(region))
    } else {
        similar::diff_ratio(&ops, wanted.len(), region.len())
    };
    Some(NearestRegion {
        start_line: start as u64 + 1,
        end_line: (start + region.len()) as u64,
        ratio,
        first_difference: first_difference(&wanted, region, start),
        difference,
    })
}

/// Returns the first difference of a region that begins at line `start`, from 0, from the wanted text.
fn first_difference(wanted: &[&[u8]], region: &[&[u8]], start: usize) -> (u64, usize) {
    let same = wanted.iter().zip(region).take_while(|(one, other)| one == other).count();
    let (index, column) = match (wanted.get(same), region.get(same)) {
        (Some(one), Some(other)) => (same, common_start(one, other) + 1),
        // All of the region agrees: the missing lines would follow it.
        _ => (region.len().saturating_sub(1), region.last().map_or(0, |last| last.len()) + 1),
    };
    ((start + index) as u64 + 1, column)
}

/// Lines of the file that are compared by characters.
const CLOSE_LOOKS_MAX: usize = 200;
/// Lines of the old text that vote for a place.
const VOTING_LINES_MAX: usize = 2000;
/// Votes that are counted at most.
const VOTES_MAX: usize = 500_000;
/// Weight of the vote of a line that occurs once in both texts.
const WEIGHT: usize = 1 << 20;
/// Number of the longest lines of the old text whose most similar lines are searched.
const LONGEST_LINES: usize = 3;
/// Minimum similarity of a region that is shown, 0 to 1.
const RATIO_MIN: f32 = 0.5;

/// Returns the first line of the region most similar to `wanted`.
///
/// Equal lines vote for the place. If few lines vote, or they vote for several places, the characters decide, and then
/// the distance from the line with index `around`.
pub(super) fn most_similar_line(file: &[&[u8]], wanted: &[&[u8]], around: usize) -> Option<usize> {
    let (votes, mut starts) = by_votes(file, wanted, around);
    let voters = wanted.iter().filter(|line| may_vote(line)).count();
    if votes * 2 <= voters {
        starts.extend(by_likeness(file, wanted));
    }
    if let [only] = starts.as_slice() {
        return Some(*only);
    }
    let wanted_text = visible_lines(slice_or_empty(wanted, ..wanted.len().min(REGION_LINES_MAX)));
    let mut left = BYTE_PAIRS_MAX;
    let alike = |(number, start): (usize, usize)| {
        let end = (start + wanted.len().min(REGION_LINES_MAX)).min(file.len());
        let there = visible_lines(slice_or_empty(file, start..end));
        left = left.checked_sub(wanted_text.len() * there.len()).or((number == 0).then_some(0))?;
        Some((similarity::ratio(&wanted_text, &there), start))
    };
    starts
        .into_iter()
        .enumerate()
        .map_while(alike)
        .max_by(|one, other| {
            let distance = |start: usize| (start.abs_diff(around), start);
            one.0.total_cmp(&other.0).then_with(|| distance(other.1).cmp(&distance(one.1)))
        })
        .map(|(_, start)| start)
}

/// Returns true if a line has a letter, a digit or a byte that is not ASCII, so that it says something about its place.
pub(super) fn may_vote(line: &[u8]) -> bool {
    line.iter().any(u8::is_ascii_alphanumeric) || !line.is_ascii()
}

/// Returns the starts at which most lines of `wanted` match, ignoring blanks at both ends, and the number of these
/// lines.
///
/// Each line votes for one start per pair of its occurrences in both texts. The lines with the fewest votes go first,
/// until there are [`VOTES_MAX`] votes.
fn by_votes(file: &[&[u8]], wanted: &[&[u8]], around: usize) -> (usize, Vec<usize>) {
    let mut voters: HashMap<&[u8], (Vec<usize>, usize)> = HashMap::new();
    for (offset, line) in wanted.iter().enumerate().take(VOTING_LINES_MAX) {
        let line = line.trim_ascii();
        if may_vote(line) {
            voters.entry(line).or_default().0.push(offset);
        }
    }
    for line in file {
        if let Some((_, count)) = voters.get_mut(line.trim_ascii()) {
            *count += 1;
        }
    }
    let mut costs: Vec<(usize, &[u8])> =
        voters.iter().filter(|(_, of)| of.1 > 0).map(|(line, of)| (of.0.len() * of.1, *line)).collect();
    costs.sort_unstable();
    let mut left = VOTES_MAX;
    for (cost, line) in costs {
        match left.checked_sub(cost) {
            Some(rest) => left = rest,
            None => drop(voters.remove(line)),
        }
    }
    let mut votes: HashMap<usize, StartVotes> = HashMap::new();
    for (number, line) in file.iter().enumerate() {
        let Some((offsets, count)) = voters.get(line.trim_ascii()) else { continue };
        let weight = WEIGHT / (offsets.len() * count).max(1);
        for start in offsets.iter().filter_map(|offset| number.checked_sub(*offset)) {
            let votes = votes.entry(start).or_default();
            votes.count += 1;
            votes.weight += weight;
        }
    }
    let most = votes.values().map(|votes| votes.count).max().unwrap_or(0);
    let mut votes: Vec<(usize, StartVotes)> = votes.into_iter().collect();
    votes.sort_unstable_by_key(|(start, _)| *start);
    (most, heaviest(&votes, SLACK_LINES.min(wanted.len()), around))
}

/// Votes for one start.
#[derive(Debug, Clone, Copy, Default)]
struct StartVotes {
    /// Number of lines.
    count: usize,
    /// Total weight: a line that is rare in both texts weighs more.
    weight: usize,
}

/// Returns the starts with about the most votes, in order. Votes for nearby starts are added: missing or extra lines
/// shift the votes of the lines after them. Of equal ones, those nearest to `around` come first.
fn heaviest(votes: &[(usize, StartVotes)], slack: usize, around: usize) -> Vec<usize> {
    let (mut sum, mut from, mut to) = (0, 0, 0);
    let weight_at = |at: usize| votes.get(at).map(|(start, votes)| (*start, votes.weight));
    let mut pooled: Vec<(usize, usize, usize)> = Vec::with_capacity(votes.len());
    for (start, own) in votes {
        while let Some((_, weight)) = weight_at(to).filter(|(other, _)| *other <= start + slack) {
            sum += weight;
            to += 1;
        }
        while let Some((_, weight)) = weight_at(from).filter(|(other, _)| other + slack < *start) {
            sum -= weight;
            from += 1;
        }
        pooled.push((sum + own.weight, own.weight, *start));
    }
    let best = pooled.iter().map(|(sum, ..)| *sum).max().unwrap_or(0);
    pooled.retain(|(sum, ..)| sum * 4 >= best * 3);
    pooled.sort_unstable_by_key(|&(sum, own, start)| {
        (std::cmp::Reverse((sum, own)), start.abs_diff(around), start)
    });
    pooled.truncate(NEAREST_STARTS_MAX);
    pooled.into_iter().map(|(.., start)| start).collect()
}

/// Returns the starts at which the longest lines of `wanted` meet their most similar lines.
fn by_likeness(file: &[&[u8]], wanted: &[&[u8]]) -> Vec<usize> {
    let mut longest: Vec<(usize, &[u8])> =
        wanted.iter().take(VOTING_LINES_MAX).map(|line| line.trim_ascii()).enumerate().collect();
    longest.sort_by_key(|(_, line)| std::cmp::Reverse(line.len()));
    let found = longest.into_iter().take(LONGEST_LINES).filter(|(_, line)| !line.is_empty());
    let mut starts: Vec<usize> =
        found.filter_map(|(offset, line)| Some(most_similar(file, line)?.saturating_sub(offset))).collect();
    starts.dedup();
    starts
}

/// Returns the line of the file most similar to a line, if it is similar enough to show.
fn most_similar(file: &[&[u8]], line: &[u8]) -> Option<usize> {
    let counts = letter_counts(line);
    let mut candidates: Vec<(u32, usize)> = Vec::with_capacity(2 * CLOSE_LOOKS_MAX);
    for (number, other) in file.iter().enumerate() {
        candidates.push((distance(&counts, &letter_counts(other.trim_ascii())), number));
        if candidates.len() == 2 * CLOSE_LOOKS_MAX {
            candidates.sort_unstable();
            candidates.truncate(CLOSE_LOOKS_MAX);
        }
    }
    candidates.sort_unstable();
    let text = text_of(line);
    let alike = |number: usize| {
        similarity::ratio(&text, &text_of(file.get(number).copied().unwrap_or_default().trim_ascii()))
    };
    candidates
        .into_iter()
        .take(CLOSE_LOOKS_MAX)
        .map(|(_, number)| (alike(number), number))
        .filter(|(ratio, _)| *ratio >= RATIO_MIN)
        .max_by(|one, other| one.0.total_cmp(&other.0).then_with(|| other.1.cmp(&one.1)))
        .map(|(_, number)| number)
}

/// Counts each byte, folded to 64 classes, in the first characters of a line.
fn letter_counts(line: &[u8]) -> [u8; 64] {
    let mut counts = [0_u8; 64];
    for byte in line.iter().take(LINE_CHARACTERS_MAX) {
        if let Some(count) = counts.get_mut(usize::from(byte & 63)) {
            *count = count.saturating_add(1);
        }
    }
    counts
}

/// Returns how many letters two lines do not share.
fn distance(one: &[u8; 64], other: &[u8; 64]) -> u32 {
    one.iter().zip(other).map(|(mine, theirs)| u32::from(mine.abs_diff(*theirs))).sum()
}

/// Lines after such a start that are compared by characters if no line agrees.
const CLOSE_LINES: usize = 20;
/// Longest region, in lines, for a text with an omitted part.
const ELIDED_LINES_MAX: usize = 2000;
/// Places of the text before an omitted part that are checked.
const ELIDED_PLACES_MAX: usize = 100;
/// Minimum bytes of the text before and after an omitted part.
const ELIDED_BYTES_MIN: usize = 4;
/// Minimum similarity of two lines next to equal ones, 0 to 1.
const BESIDE_RATIO_MIN: f32 = 0.4;

/// Returns the lines that `wanted` matches if it begins at line `start`: from the first equal line to the last one, and
/// adjacent ones as long as they are similar.
pub(super) fn matched_lines(file: &[&[u8]], wanted: &[&[u8]], start: usize) -> Range<usize> {
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
    let (above, below) = (slice_or_empty(&own, ..first), slice_or_empty(&own, last + 1..));
    let (top, bottom) = (start + first, start + last + 1);
    let (from, to) = (top.saturating_sub(first + slack), (bottom + below.len() + slack).min(file.len()));
    let agreeing = |own: &[&[u8]], lines: Range<usize>| -> Vec<(usize, usize)> {
        let there: Vec<&[u8]> = slice_or_empty(file, lines).iter().map(|line| line.trim_ascii()).collect();
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

/// Extends a region by adjacent lines that are also wanted, only in another order.
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

/// Returns true if two lines are similar enough to match.
fn are_alike(one: &[u8], other: &[u8]) -> bool {
    let (one, other) = (text_of(one), text_of(other));
    one == other
        || (!one.is_empty() && !other.is_empty() && similarity::ratio(&one, &other) >= BESIDE_RATIO_MIN)
}

/// Returns the lines that match a text with an omitted middle, by its start and its end.
pub(super) fn elided(body: &[u8], wanted: &[u8], file: &[&[u8]]) -> Option<Range<usize>> {
    let (head, tail) = omission::around_ellipsis(wanted)?;
    let first = lines::lines(head).map(<[u8]>::trim_ascii).find(|line| !line.is_empty())?;
    let last = lines::lines(tail).map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()).last()?;
    if first.len().min(last.len()) < ELIDED_BYTES_MIN
        && head.trim_ascii().len().min(tail.trim_ascii().len()) < ELIDED_BYTES_MIN
    {
        return None;
    }
    // The whole head is more specific than its first line, but it contains line endings.
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

/// Lines of a difference that are shown.
const LINES_SHOWN_MAX: usize = 12;
/// Bytes of a line that are read to show its first characters.
const NEAREST_LINE_BYTES_MAX: usize = 8 * LINE_CHARACTERS_MAX;

/// Returns the first characters of a line, to compare them.
pub(super) fn text_of(line: &[u8]) -> String {
    String::from_utf8_lossy(display_line(line)).chars().take(LINE_CHARACTERS_MAX).collect()
}

/// Returns as much of a line as is shown at most.
pub(super) fn display_line(line: &[u8]) -> &[u8] {
    line.get(..NEAREST_LINE_BYTES_MAX).unwrap_or(line)
}

/// Returns lines as a reader sees them, one after the other.
pub(super) fn visible_lines(lines: &[&[u8]]) -> String {
    lines.iter().map(|line| visible(line) + "\n").collect()
}

/// Returns a line with tabs, carriage returns, trailing and odd blanks, invisible characters and invalid bytes made
/// visible. The CR of CR LF is not shown, since matching ignores it.
pub fn visible(line: &[u8]) -> String {
    let body = line.strip_suffix(b"\n").map_or(line, |body| body.strip_suffix(b"\r").unwrap_or(body));
    let mut shown = escaped::visible_blanks(display_line(body));
    if shown.ends_with('\n') {
        shown.pop();
    }
    match shown.char_indices().nth(LINE_CHARACTERS_MAX) {
        Some((cut, _)) => format!("{}…", str_or_empty(&shown, ..cut)),
        None => shown,
    }
}

/// Returns the lines that differ, with one unchanged line around each.
pub(super) fn difference(wanted: &[&[u8]], region: &[&[u8]], ops: Vec<DiffOp>) -> String {
    let groups = group_diff_ops(ops, 1);
    let changes = groups.iter().flatten().flat_map(|op| {
        let of = |lines: &'_ [&[u8]], range: Range<usize>| -> Vec<String> {
            let shown = range.take(LINES_SHOWN_MAX + 1);
            shown.filter_map(|at| lines.get(at)).map(|line| visible(line)).collect()
        };
        let is_kept = matches!(op, DiffOp::Equal { .. });
        let (old, new) = if is_kept {
            (of(wanted, op.old_range()), Vec::new())
        } else {
            (of(wanted, op.old_range()), of(region, op.new_range()))
        };
        let sign = if is_kept { ' ' } else { '-' };
        let old = old.into_iter().map(move |line| (sign, line));
        old.chain(new.into_iter().map(|line| ('+', line))).collect::<Vec<_>>()
    });
    let mut shown = String::new();
    for (number, (sign, line)) in changes.enumerate() {
        if number == LINES_SHOWN_MAX {
            shown.push_str("...\n");
            break;
        }
        shown.push(sign);
        shown.push_str(&line);
        shown.push('\n');
    }
    shown
}
