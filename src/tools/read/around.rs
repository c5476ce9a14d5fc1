//! The block round a line.

use std::borrow::Cow;

use super::pass::Pass;
use super::shown::{Form, Part, lines_of, longest_start};
use super::wanted::Span;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::block;
use crate::text::lines::ending_of;
use crate::text::slice::{Clipped, Slice, clipped_bytes, is_very_long};

/// Lines that are looked at on either side of the line.
const WINDOW_LINES: u64 = 1000;
/// Bytes that are looked at on either side.
pub const WINDOW_BYTES: usize = 512 << 10;

/// The lines to look at: those before the line, and those from it on.
#[must_use]
pub fn window(line: u64) -> [Span; 2] {
    let number = |line: u64| i64::try_from(line).unwrap_or(i64::MAX);
    let start = line.saturating_sub(WINDOW_LINES).max(1);
    [
        Span { start: number(start), end: None, lines_max: line.saturating_sub(start), clips_first: true },
        Span { start: number(line), end: None, lines_max: WINDOW_LINES, clips_first: false },
    ]
}

/// What bounds a block.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Lines.
    pub lines_max: u64,
    /// Room for them as they are shown.
    pub room: AnswerRoom,
    /// How lines are shown.
    pub form: Form,
}

/// The block round `line`, as much of it as the bounds allow, the line itself above all; the others
/// are clipped where they are very long.
#[must_use]
pub fn part(pass: &Pass, line: u64, bounds: Bounds) -> Part {
    let (lines, at) = looked_at(pass, line, bounds.room);
    let Some(own) = lines.get(at) else {
        return line_alone(line, &[], false, bounds);
    };
    let is_cut = pass.sliced.parts.last().is_some_and(|from| from.cut_at.is_some() && from.ended_lines == 0);
    if is_cut || !bounds.room.holds(TextSize::of(bounds.form.of(&own.bytes, line).as_bytes())) {
        return line_alone(line, &own.bytes, is_cut, bounds);
    }
    let texts: Vec<&[u8]> = lines.iter().map(|line| line.bytes.as_ref()).collect();
    let (first, last) = block::enclosing(&texts, at);
    let first_number = line.saturating_sub(at as u64);
    let (from, to) = grown(&lines, (first.min(at), last.max(at)), at, first_number, bounds);
    // A block that reaches the end of what was looked at goes on in what was not.
    let is_beyond = last + 1 == lines.len() && first_number + (last as u64) < pass.sliced.total_lines;
    let kept = lines.get(from..=to).unwrap_or_default();
    Part {
        first: first_number + from as u64,
        skipped: 0,
        bytes: kept.iter().flat_map(|line| line.bytes.iter().copied()).collect(),
        ended_lines: kept.len() as u64,
        clipped: kept.iter().filter_map(|line| line.clipped).collect(),
        cut_at: None,
        stopped: to < last || is_beyond,
        text: String::new(),
    }
}

/// A line of the block.
struct Line<'a> {
    /// What is shown of it, with its ending.
    bytes: Cow<'a, [u8]>,
    /// Where it is clipped.
    clipped: Option<Clipped>,
}

/// The lines that are looked at, as they are shown, and which of them is the one that counts.
fn looked_at(pass: &Pass, line: u64, room: AnswerRoom) -> (Vec<Line<'_>>, usize) {
    let style = pass.sliced.line_ending;
    let (before, from) = match pass.sliced.parts.as_slice() {
        // Where not all before it could be looked at, the block begins with the line.
        [before, from] => (Some(before).filter(|before| !before.stopped), Some(from)),
        _ => (None, None),
    };
    let of = |slice: Option<&'_ Slice>| slice.map_or(0, |slice| lines_of(&slice.bytes, style).count());
    let at = of(before);
    let first_number = line.saturating_sub(at as u64);
    let slices = before.into_iter().chain(from);
    let known: Vec<Clipped> = slices.clone().flat_map(|slice| slice.clipped.iter().copied()).collect();
    let texts = slices.flat_map(|slice| lines_of(&slice.bytes, style));
    let lines = texts.zip(first_number..).map(|(bytes, number)| {
        let known = known.iter().find(|clipped| clipped.line == number).copied();
        if number == line {
            Line { bytes: bytes.into(), clipped: known }
        } else {
            Line::of(bytes, number, known, room)
        }
    });
    (lines.collect(), at)
}

impl<'a> Line<'a> {
    /// A line, clipped where it is a very long one; `known` says where it was clipped before.
    fn of(bytes: &'a [u8], number: u64, known: Option<Clipped>, room: AnswerRoom) -> Self {
        let is_clipped = room.is_bounded() && (known.is_some() || is_very_long(bytes, room));
        if !is_clipped {
            return Self { bytes: bytes.into(), clipped: known };
        }
        let ending = ending_of(bytes);
        let body = bytes.get(..bytes.len() - ending.len()).unwrap_or_default();
        let kept = clipped_bytes(body, room);
        let length = known.map_or(body.len() as u64, |known| known.length);
        let bytes = [body.get(..kept).unwrap_or_default(), ending].concat();
        Self { bytes: bytes.into(), clipped: Some(Clipped { line: number, kept, length }) }
    }
}

/// The line alone, as much of it as the bound allows; `is_cut` where it is longer than `bytes`.
fn line_alone(line: u64, bytes: &[u8], is_cut: bool, bounds: Bounds) -> Part {
    let length = longest_start(bytes, line, bounds.form, bounds.room);
    let cut_at = (is_cut || length < bytes.len()).then_some(length);
    Part {
        first: line,
        skipped: 0,
        bytes: bytes.get(..length).unwrap_or_default().to_vec(),
        ended_lines: 0,
        clipped: Vec::new(),
        cut_at,
        stopped: cut_at.is_some(),
        text: String::new(),
    }
}

/// The lines round `at` within a block that the bounds allow: one below, one above, by turns.
fn grown(
    lines: &[Line<'_>],
    (first, last): (usize, usize),
    at: usize,
    first_number: u64,
    bounds: Bounds,
) -> (usize, usize) {
    let (mut from, mut to) = (at, at);
    let with = |used: TextSize, line: usize| {
        let bytes = lines.get(line).map_or(&[][..], |line| &line.bytes);
        used.with(&bounds.form.of(bytes, first_number + line as u64))
    };
    let mut used = with(TextSize::default(), at);
    let mut take = |line: usize, count: usize| {
        let more = with(used, line);
        let is_taken = (count as u64) < bounds.lines_max && bounds.room.holds(more);
        if is_taken {
            used = more;
        }
        is_taken
    };
    let (mut can_fall, mut can_rise) = (true, true);
    while can_fall || can_rise {
        can_fall = can_fall && to < last && take(to + 1, to + 1 - from);
        to += usize::from(can_fall);
        can_rise = can_rise && from > first && take(from - 1, to + 1 - from);
        from -= usize::from(can_rise);
    }
    (from, to)
}
