//! Where a text that was not found nearly stands, and what differs there.
//!
//! Lines that are the same, blanks at their ends aside, say where the text should stand; rare ones
//! first, and only so many that the work stays in proportion to the file. Where they say too little, the
//! letters of its longest lines decide. The region then is as long as what stands there: from the first
//! line that agrees to the last one, and beyond these as far as lines are alike.

mod place;
mod region;
mod shown;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::DiffOp;

use super::lines::{self, common_start};
use super::{likeness, line_diff};
use place::best_start;
use region::{as_long_as_there, elided};
pub use shown::visible;
use shown::{difference, visible_lines};

/// Time for comparing candidates character by character.
const TIME: Duration = Duration::from_millis(200);
/// Lines of such a place that are compared.
const REGION_LINES_MAX: usize = 30;
/// Lines on either side of where a text should stand in which it may begin and end.
const SLACK_LINES: usize = 10;
/// Characters shown of a line, and compared.
const LINE_CHARACTERS_MAX: usize = 160;
/// What stands in a difference where the file ends without the line ending that was looked for.
const NO_NEWLINE: &str = "\\ No newline at end of file\n";

/// The region that is most like a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearest {
    /// Its first line, from 1.
    pub start_line: u64,
    /// Its last line.
    pub end_line: u64,
    /// How alike it is, 0 to 1.
    pub ratio: f32,
    /// Where it first differs: a line of the file and a column of it, in bytes from 1.
    pub first_difference: (u64, usize),
    /// What differs: wanted lines after `-`, the file's after `+`, with tabs (`→`), carriage
    /// returns (`␍`) and trailing blanks (`·`) made visible.
    pub difference: String,
}

/// The region of `body` most like `wanted`, if any is worth showing.
#[must_use]
pub fn nearest(body: &[u8], wanted: &[u8]) -> Option<Nearest> {
    let (file, wanted_lines) = (Lines::of(body), Lines::of(wanted));
    let region = elided(body, wanted, &file.bare).or_else(|| {
        let start = best_start(&file.bare, &wanted_lines.bare)?;
        Some(as_long_as_there(&file.bare, &wanted_lines.bare, start))
    })?;
    compared(&file, &wanted_lines, region)
}

/// The region of `body` from line `first` to line `last`, compared with `wanted`.
#[must_use]
pub fn at_lines(body: &[u8], wanted: &[u8], first: u64, last: u64) -> Option<Nearest> {
    let index = |line: u64| usize::try_from(line).ok();
    compared(&Lines::of(body), &Lines::of(wanted), index(first)?.checked_sub(1)?..index(last)?)
}

/// The lines of a text.
struct Lines<'a> {
    /// Each without its ending: matching is blind to that.
    bare: Vec<&'a [u8]>,
    /// Whether the last one has an ending.
    is_ended: bool,
}

impl<'a> Lines<'a> {
    /// The lines of a text.
    fn of(text: &'a [u8]) -> Self {
        let terminator = lines::terminator(text);
        let bare = text.split_inclusive(|&byte| byte == terminator).map(|line| {
            let body = line.strip_suffix(&[terminator]).unwrap_or(line);
            if terminator == b'\n' && body.len() < line.len() {
                body.strip_suffix(b"\r").unwrap_or(body)
            } else {
                body
            }
        });
        Self { bare: bare.collect(), is_ended: text.last() == Some(&terminator) }
    }
}

/// A region, compared with what was wanted.
fn compared(file: &Lines<'_>, wanted: &Lines<'_>, lines: Range<usize>) -> Option<Nearest> {
    let start = lines.start;
    let region = file.bare.get(lines.clone())?;
    let ops = line_diff::diff(&wanted.bare, region).ops;
    let mut difference = difference(&wanted.bare, region, ops.clone());
    // The end of the file is a difference that no line shows.
    if wanted.is_ended && !file.is_ended && lines.end == file.bare.len() {
        difference.push_str(NO_NEWLINE);
    }
    let is_short = wanted.bare.len().max(region.len()) <= REGION_LINES_MAX;
    let ratio = if is_short {
        ratio(&visible_lines(&wanted.bare), &visible_lines(region), Instant::now() + TIME)
    } else {
        share_kept(&ops, wanted.bare.len() + region.len())
    };
    Some(Nearest {
        start_line: start as u64 + 1,
        end_line: (start + region.len()) as u64,
        ratio,
        first_difference: first_difference(&wanted.bare, region, start),
        difference,
    })
}

/// How much of both texts is the same, by lines, 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "a share of so many lines need not be exact")]
fn share_kept(ops: &[DiffOp], lines: usize) -> f32 {
    let kept: usize =
        ops.iter().filter(|op| matches!(op, DiffOp::Equal { .. })).map(|op| op.old_range().len()).sum();
    2.0 * kept as f32 / lines.max(1) as f32
}

/// How alike two texts are, character by character, 0 to 1.
fn ratio(one: &str, other: &str, until: Instant) -> f32 {
    likeness::ratio(one, other, Some(until))
}

/// Where a region that begins at line `start`, from 0, first differs from what was wanted.
fn first_difference(wanted: &[&[u8]], region: &[&[u8]], start: usize) -> (u64, usize) {
    let same = wanted.iter().zip(region).take_while(|(one, other)| one == other).count();
    let (index, column) = match (wanted.get(same), region.get(same)) {
        (Some(one), Some(other)) => (same, common_start(one, other) + 1),
        // All of the region is as it was wanted: what is missing would come after it.
        _ => (region.len().saturating_sub(1), region.last().map_or(0, |last| last.len()) + 1),
    };
    ((start + index) as u64 + 1, column)
}
