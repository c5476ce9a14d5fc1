//! The place in a file that is most like a hunk's old lines.

use std::collections::HashMap;

use super::conflict::{Nearest, visible};
use super::index::Tier;
use super::locate::Text;
use crate::text::likeness;

/// A line that stands in more places than this says little about where a hunk belongs.
const VOTES_MAX: usize = 64;

/// How many old lines vote.
const VOTERS_MAX: usize = 200;

/// How many lines round the stated one are compared letter by letter.
const COMPARED_MAX: usize = 400;

/// A line longer than this is not compared letter by letter.
const COMPARED_BYTES_MAX: usize = 300;

/// How alike two lines must be to be named.
const RATIO_MIN: f32 = 0.6;

/// Finds the nearest place to `old`, preferring what lies near the index `around`.
pub fn nearest(text: &Text<'_>, old: &[&[u8]], around: usize) -> Option<Nearest> {
    let start = voted(text, old, around).or_else(|| similar_line(text, old, around))?;
    Some(compare(text, old, start))
}

/// The start that most old lines speak for, by where they stand themselves.
fn voted(text: &Text<'_>, old: &[&[u8]], around: usize) -> Option<usize> {
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (offset, line) in old.iter().enumerate().take(VOTERS_MAX) {
        let places = text.index(Tier::Space).positions(line);
        if line.trim_ascii().is_empty() || places.len() > VOTES_MAX {
            continue;
        }
        for start in places.iter().filter_map(|at| usize::try_from(*at).ok()?.checked_sub(offset)) {
            *votes.entry(start).or_default() += 1;
        }
    }
    let best =
        |(start, votes): &(usize, usize)| (*votes, usize::MAX - start.abs_diff(around), usize::MAX - start);
    votes.into_iter().max_by_key(best).map(|(start, _)| start)
}

/// The start where the first telling old line has its most similar counterpart.
fn similar_line(text: &Text<'_>, old: &[&[u8]], around: usize) -> Option<usize> {
    let is_telling = |line: &&[u8]| !line.trim_ascii().is_empty() && line.len() <= COMPARED_BYTES_MAX;
    let offset = old.iter().position(is_telling)?;
    let wanted = old.get(offset)?.trim_ascii();
    let from = around.saturating_sub(COMPARED_MAX / 2);
    let candidates = text.lines.iter().enumerate().skip(from).take(COMPARED_MAX);
    let wanted = String::from_utf8_lossy(wanted);
    let ratio = |line: &[u8]| likeness::ratio(&wanted, &String::from_utf8_lossy(line.trim_ascii()), None);
    candidates
        .filter(|(_, line)| is_telling(&line.text))
        .map(|(at, line)| (at, ratio(line.text)))
        .filter(|(_, ratio)| *ratio >= RATIO_MIN)
        .max_by(|one, two| one.1.total_cmp(&two.1).then(two.0.cmp(&one.0)))
        .map(|(at, _)| at.saturating_sub(offset))
}

/// What differs between `old` and the lines from `start` on.
fn compare(text: &Text<'_>, old: &[&[u8]], start: usize) -> Nearest {
    let there = |offset: usize| text.lines.get(start + offset).map(|line| line.text);
    let differs = |offset: &usize| old.get(*offset).copied() != there(*offset);
    let first = (0..old.len()).find(differs).unwrap_or(0);
    Nearest {
        line: start + 1,
        equal: ((0..old.len()).filter(|offset| !differs(offset)).count(), old.len()),
        differs_at: start + first + 1,
        wanted: visible(old.get(first).copied().unwrap_or_default()),
        found: there(first).map(visible),
    }
}
