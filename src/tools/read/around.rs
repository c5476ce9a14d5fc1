//! The block round a line.

use super::Pass;
use super::shown::{Part, lines_of};
use super::wanted::Span;
use crate::text::block;
use crate::text::slice::{Slice, escapes_of, fits};

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
        Span { start: number(start), end: None, lines_max: line.saturating_sub(start) },
        Span { start: number(line), end: None, lines_max: WINDOW_LINES },
    ]
}

/// The block round `line`, as much of it as the bounds allow, the line itself above all.
#[must_use]
pub fn part(pass: &Pass, line: u64, lines_max: u64, bytes_max: usize) -> Part {
    let style = pass.sliced.line_ending;
    let empty = Slice { bytes: Vec::new(), complete_lines: 0, cut_at: None, stopped: true };
    let (before, from) = match pass.sliced.parts.as_slice() {
        // Where not all before it could be looked at, the block begins with the line.
        [before, from] => (if before.stopped { &empty } else { before }, from),
        _ => (&empty, &empty),
    };
    let above: Vec<&[u8]> = lines_of(&before.bytes, style).collect();
    let at = above.len();
    let lines: Vec<&[u8]> = above.into_iter().chain(lines_of(&from.bytes, style)).collect();
    let first_number = line.saturating_sub(at as u64);
    let is_cut = lines.len() == at + 1 && from.cut_at.is_some();
    if at >= lines.len() || is_cut {
        let mut bytes = from.bytes.clone();
        let cut_at = is_cut.then(|| cut(&mut bytes, bytes_max));
        let complete_lines = 0;
        return Part {
            first: line,
            skipped: 0,
            bytes,
            complete_lines,
            cut_at,
            stopped: is_cut,
            text: String::new(),
        };
    }
    let (first, last) = block::enclosing(&lines, at);
    let (from, to) = grown(&lines, (first.min(at), last.max(at)), at, lines_max, bytes_max);
    // A block that reaches the end of what was looked at goes on in what was not.
    let is_beyond = last + 1 == lines.len() && first_number + (last as u64) < pass.sliced.total_lines;
    let bytes = lines.get(from..=to).unwrap_or_default().concat();
    let mut part = Part {
        first: first_number + from as u64,
        skipped: 0,
        bytes,
        complete_lines: (to + 1 - from) as u64,
        cut_at: None,
        stopped: to < last || is_beyond,
        text: String::new(),
    };
    if from == to && !fits(part.bytes.len(), escapes_of(&part.bytes), bytes_max) {
        part.cut_at = Some(cut(&mut part.bytes, bytes_max));
        part.complete_lines = 0;
        part.stopped = true;
    }
    part
}

/// The lines round `at` within a block that the bounds allow: one below, one above, by turns.
fn grown(
    lines: &[&[u8]],
    (first, last): (usize, usize),
    at: usize,
    lines_max: u64,
    bytes_max: usize,
) -> (usize, usize) {
    let (mut from, mut to) = (at, at);
    let of = |line: usize| lines.get(line).map_or((0, 0), |line| (line.len(), escapes_of(line)));
    let (mut length, mut escapes) = of(at);
    let mut take = |line: usize, count: usize| {
        let (more, more_escapes) = of(line);
        let is_taken = (count as u64) < lines_max && fits(length + more, escapes + more_escapes, bytes_max);
        if is_taken {
            length += more;
            escapes += more_escapes;
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

/// Cuts a line to the bound, between characters; where the cut is.
fn cut(line: &mut Vec<u8>, bytes_max: usize) -> usize {
    let mut length = if bytes_max == 0 { line.len() } else { bytes_max.min(line.len()) };
    while length > 1 && line.get(length).is_some_and(|byte| byte & 0xc0 == 0x80) {
        length -= 1;
    }
    line.truncate(length.max(1));
    line.len()
}
