//! Where a text should stand: by the lines that agree, else by the letters of its longest lines.

use std::collections::HashMap;
use std::time::Instant;

use super::shown::{text_of, visible_lines};
use super::{LINE_CHARACTERS_MAX, REGION_LINES_MAX, SLACK_LINES, TIME, ratio};
use crate::text::checked::peek;

/// Lines of the file that are compared character by character.
const CLOSE_LOOKS_MAX: usize = 200;
/// Lines of the text looked for that vote for a place.
const VOTING_LINES_MAX: usize = 2000;
/// Votes that are counted.
const VOTES_MAX: usize = 500_000;
/// What the vote of a line weighs that stands once in both texts.
const WEIGHT: usize = 1 << 20;
/// The longest lines of the text looked for, for each of which the most similar one is looked for.
const LONGEST_LINES: usize = 3;
/// Places with as many votes that are compared character by character.
const STARTS_MAX: usize = 50;
/// How alike a line must be to be worth showing, 0 to 1.
const RATIO_MIN: f32 = 0.5;

/// The first line of the region most like `wanted`.
///
/// Lines that agree vote for where the others should stand. Where few do, or for several places, the
/// characters decide.
pub(super) fn best_start(file: &[&[u8]], wanted: &[&[u8]]) -> Option<usize> {
    let (votes, mut starts) = by_votes(file, wanted);
    let voters = wanted.iter().filter(|line| may_vote(line)).count();
    if votes * 2 <= voters {
        starts.extend(by_likeness(file, wanted));
    }
    if let [only] = starts.as_slice() {
        return Some(*only);
    }
    let until = Instant::now() + TIME;
    let wanted_text = visible_lines(peek(wanted, ..wanted.len().min(REGION_LINES_MAX)));
    let alike = |start: usize| {
        let end = (start + wanted.len().min(REGION_LINES_MAX)).min(file.len());
        ratio(&wanted_text, &visible_lines(peek(file, start..end)), until)
    };
    starts
        .into_iter()
        .enumerate()
        .take_while(|(number, _)| *number == 0 || Instant::now() < until)
        .map(|(_, start)| (alike(start), start))
        .max_by(|one, other| one.0.total_cmp(&other.0).then_with(|| other.1.cmp(&one.1)))
        .map(|(_, start)| start)
}

/// Whether a line tells anything of where it stands.
pub(super) fn may_vote(line: &[u8]) -> bool {
    line.iter().any(u8::is_ascii_alphanumeric) || !line.is_ascii()
}

/// The starts for which the most lines of `wanted` stand where they should, blanks at both ends
/// aside, and how many these are.
///
/// Each line votes for as many starts as it stands in places of both texts; those that vote for the
/// fewest come first, until there are [`VOTES_MAX`] votes.
fn by_votes(file: &[&[u8]], wanted: &[&[u8]]) -> (usize, Vec<usize>) {
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
    let mut votes: HashMap<usize, Votes> = HashMap::new();
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
    let mut votes: Vec<(usize, Votes)> = votes.into_iter().collect();
    votes.sort_unstable_by_key(|(start, _)| *start);
    (most, heaviest(&votes, SLACK_LINES.min(wanted.len())))
}

/// The votes for one start.
#[derive(Debug, Clone, Copy, Default)]
struct Votes {
    /// How many lines.
    count: usize,
    /// How much they say: a line that is rare in both texts says more.
    weight: usize,
}

/// Of starts in order, those that have about the most votes, with those of the starts near them: lines that
/// are missing or too many move the votes of the lines behind them.
fn heaviest(votes: &[(usize, Votes)], slack: usize) -> Vec<usize> {
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
    pooled.sort_unstable_by_key(|&(sum, own, start)| (std::cmp::Reverse((sum, own)), start));
    pooled.truncate(STARTS_MAX);
    pooled.into_iter().map(|(.., start)| start).collect()
}

/// The starts at which the longest lines of `wanted` have their most similar lines.
fn by_likeness(file: &[&[u8]], wanted: &[&[u8]]) -> Vec<usize> {
    let mut longest: Vec<(usize, &[u8])> =
        wanted.iter().take(VOTING_LINES_MAX).map(|line| line.trim_ascii()).enumerate().collect();
    longest.sort_by_key(|(_, line)| std::cmp::Reverse(line.len()));
    let until = Instant::now() + TIME;
    let found = longest.into_iter().take(LONGEST_LINES).filter(|(_, line)| !line.is_empty());
    let mut starts: Vec<usize> = found
        .filter_map(|(offset, line)| Some(most_similar(file, line, until)?.saturating_sub(offset)))
        .collect();
    starts.dedup();
    starts
}

/// The line of the file most like a line, if any is worth showing.
fn most_similar(file: &[&[u8]], line: &[u8], until: Instant) -> Option<usize> {
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
    let likeness = |number: usize| {
        ratio(&text, &text_of(file.get(number).copied().unwrap_or_default().trim_ascii()), until)
    };
    candidates
        .into_iter()
        .take(CLOSE_LOOKS_MAX)
        .enumerate()
        .take_while(|(looked, _)| *looked == 0 || Instant::now() < until)
        .map(|(_, (_, number))| (likeness(number), number))
        .filter(|(ratio, _)| *ratio >= RATIO_MIN)
        .max_by(|one, other| one.0.total_cmp(&other.0).then_with(|| other.1.cmp(&one.1)))
        .map(|(_, number)| number)
}

/// How often each byte, folded to 64 classes, occurs in the first characters of a line.
fn letter_counts(line: &[u8]) -> [u8; 64] {
    let mut counts = [0_u8; 64];
    for byte in line.iter().take(LINE_CHARACTERS_MAX) {
        if let Some(count) = counts.get_mut(usize::from(byte & 63)) {
            *count = count.saturating_add(1);
        }
    }
    counts
}

/// How many letters two lines do not share.
fn distance(one: &[u8; 64], other: &[u8; 64]) -> u32 {
    one.iter().zip(other).map(|(mine, theirs)| u32::from(mine.abs_diff(*theirs))).sum()
}
