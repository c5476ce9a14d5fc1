//! The parts of a text as an answer shows them.

use super::pass::Pass;
use crate::text::answer_size::{AnswerRoom, TextSize, prefix_within};
use crate::text::lines::LineEnding;
use crate::text::slice::{Clipped, Sliced};
use crate::text::visible;

/// How lines are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Form {
    /// Each with its number and a tab before it, so that what follows the first tab is the line.
    pub line_numbers: bool,
    /// With blanks and look-alikes made visible.
    pub visible: bool,
}

impl Form {
    /// A line as it is shown.
    #[must_use]
    pub fn of(self, line: &[u8], number: u64) -> String {
        let text =
            if self.visible { visible::line(line) } else { String::from_utf8_lossy(line).into_owned() };
        if self.line_numbers { format!("{number}\t{text}") } else { text }
    }
}

/// A part of a text that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its first line, from 1.
    pub first: u64,
    /// Bytes of that line that were left out before.
    pub skipped: usize,
    /// Its lines.
    pub bytes: Vec<u8>,
    /// Lines in it up to their end, clipped ones included.
    pub ended_lines: u64,
    /// Those that are clipped, in order.
    pub clipped: Vec<Clipped>,
    /// Where a cut fell inside its last line: bytes of that line before the cut.
    pub cut_at: Option<usize>,
    /// Whether it ends because of a bound.
    pub stopped: bool,
    /// What is shown.
    pub text: String,
}

impl Part {
    /// Its last line, one that was cut included; one less than its first where it has none.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.first + self.ended_lines + u64::from(self.cut_at.is_some()) - 1
    }

    /// The lines that are shown whole, as ranges.
    #[must_use]
    pub fn seen(&self) -> Vec<(u64, u64)> {
        let mut from = self.first + u64::from(self.skipped > 0);
        let mut seen = Vec::with_capacity(self.clipped.len() + 1);
        for clipped in &self.clipped {
            seen.push((from, clipped.line - 1));
            from = clipped.line + 1;
        }
        seen.push((from, self.first + self.ended_lines - 1));
        seen
    }

    /// Whether all of it is there, from the start of its first line on.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.ended_lines > 0 && self.cut_at.is_none() && self.skipped == 0 && self.clipped.is_empty()
    }

    /// Lines to pass over to go on after it.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.first + self.ended_lines - 1
    }

    /// Whether it begins where the file does.
    #[must_use]
    pub fn is_start(&self) -> bool {
        self.first == 1 && self.skipped == 0
    }

    /// Makes the text that is shown.
    pub fn show(&mut self, form: Form, text: &Sliced) {
        self.text = if form == Form::default() {
            // Whole text is checked faster than the lossy conversion looks for its first fault.
            let lossy = |_| String::from_utf8_lossy(&self.bytes).into_owned();
            std::str::from_utf8(&self.bytes).map_or_else(lossy, str::to_owned)
        } else {
            lines_of(&self.bytes, text.line_ending)
                .zip(self.first..)
                .map(|(line, number)| form.of(line, number))
                .collect()
        };
    }

    /// Cuts it to the bound, in the form in which its lines are shown; what is then used of the
    /// bound.
    fn fit(&mut self, form: Form, style: LineEnding, used: TextSize, room: AnswerRoom) -> TextSize {
        let (mut used, mut kept, mut kept_lines) = (used, Vec::with_capacity(self.bytes.len()), 0);
        let mut clipped = Vec::new();
        let mut known = std::mem::take(&mut self.clipped).into_iter().peekable();
        let mut ended_lines = self.ended_lines;
        for (line, number) in lines_of(&self.bytes, style).zip(self.first..) {
            let known = known.next_if(|known| known.line == number);
            let shown = form.of(line, number);
            if room.holds(used.with(&shown)) {
                clipped.extend(known);
                used = used.with(&shown);
                kept.extend_from_slice(line);
                kept_lines += 1;
                continue;
            }
            self.stopped = true;
            self.cut_at = None;
            ended_lines = kept_lines;
            // A first line is shown in part, whatever it takes, so that the reader gets on.
            if used == TextSize::default() {
                let length = longest_start(line, number, form, room);
                kept.extend_from_slice(line.get(..length).unwrap_or_default());
                used = used.with(&form.of(&kept, number));
                self.cut_at = Some(self.skipped + length);
            }
            break;
        }
        (self.bytes, self.ended_lines, self.clipped) = (kept, ended_lines, clipped);
        used
    }
}
/// Bytes of the longest start of a line, shown as `number`, that is within a bound: whole
/// characters, at least one.
#[must_use]
pub fn longest_start(line: &[u8], number: u64, form: Form, room: AnswerRoom) -> usize {
    let is_within = |length: usize| {
        let start = line.get(..length).unwrap_or_default();
        room.holds(TextSize::of(form.of(start, number).as_bytes()))
    };
    let (mut within, mut beyond) = (0, line.len() + 1);
    while within + 1 < beyond {
        let middle = usize::midpoint(within, beyond);
        if is_within(middle) {
            within = middle;
        } else {
            beyond = middle;
        }
    }
    let is_inside = |at: &usize| line.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    // Not inside a character, where there is one.
    let end = (within.saturating_sub(3)..=within).rev().find(|at| !is_inside(at));
    end.unwrap_or(within).max(prefix_within(line, 1, 1))
}

/// The parts that were found, together within the bound; none after the first that is cut.
#[must_use]
pub fn parts(pass: &Pass, form: Form, room: AnswerRoom) -> Vec<Part> {
    let (mut shown, mut used) = (Vec::new(), TextSize::default());
    // What one pass cut is within the bound, as long as it is shown as it is.
    let is_within = pass.wanted.len() <= 1 && form == Form::default();
    for (slice, wanted) in pass.sliced.parts.iter().zip(&pass.wanted) {
        let mut part = Part {
            first: wanted.offset + 1,
            skipped: wanted.skip_bytes,
            bytes: slice.bytes.clone(),
            ended_lines: slice.ended_lines,
            clipped: slice.clipped.clone(),
            cut_at: slice.cut_at,
            stopped: slice.stopped,
            text: String::new(),
        };
        if !is_within {
            used = part.fit(form, pass.sliced.line_ending, used, room);
        }
        let is_cut = part.stopped;
        shown.push(part);
        if is_cut {
            break;
        }
    }
    shown
}

/// The lines of a part.
pub fn lines_of(bytes: &[u8], style: LineEnding) -> impl Iterator<Item = &[u8]> {
    let terminator = style.terminator();
    bytes.split_inclusive(move |&byte| byte == terminator)
}
