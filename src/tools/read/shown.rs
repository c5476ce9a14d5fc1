//! The parts of a text as an answer shows them.

use super::Pass;
use crate::text::lines::LineEnding;
use crate::text::slice::{Sliced, escapes_of, fits};
use crate::text::visible;

/// How lines are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Form {
    /// Each with its number and a tab before it, so that what follows the first tab is the line.
    pub line_numbers: bool,
    /// With blanks and look-alikes made visible.
    pub visible: bool,
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
    /// Lines in it that are complete.
    pub complete_lines: u64,
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
        self.first + self.complete_lines + u64::from(self.cut_at.is_some()) - 1
    }

    /// The lines that are shown whole.
    #[must_use]
    pub fn seen(&self) -> (u64, u64) {
        (self.first + u64::from(self.skipped > 0), self.first + self.complete_lines - 1)
    }

    /// Lines to pass over to go on after it.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.first + self.complete_lines - 1
    }

    /// Whether it begins where the file does.
    #[must_use]
    pub fn is_start(&self) -> bool {
        self.first == 1 && self.skipped == 0
    }

    /// Makes the text that is shown.
    pub fn show(&mut self, form: Form, text: &Sliced) {
        self.text = if form == Form::default() {
            String::from_utf8_lossy(&self.bytes).into_owned()
        } else {
            lines_of(&self.bytes, text.line_ending)
                .zip(self.first..)
                .map(|(line, number)| in_form(line, number, form))
                .collect()
        };
    }

    /// Cuts it after as many whole lines as the bound allows, in the form in which they are shown;
    /// what is left of the bound.
    fn fit(
        &mut self,
        form: Form,
        style: LineEnding,
        (length, escapes): (usize, usize),
        bound: usize,
    ) -> (usize, usize) {
        let (mut kept, mut kept_lines) = (0, 0);
        let (mut length_now, mut escapes_now) = (length, escapes);
        for (line, number) in lines_of(&self.bytes, style).zip(self.first..) {
            let shown = in_form(line, number, form);
            let (length, escapes) = (length_now + shown.len(), escapes_now + escapes_of(shown.as_bytes()));
            // A first line is shown whatever it takes: it was cut already.
            if !fits(length, escapes, bound) && length_now > 0 {
                break;
            }
            (length_now, escapes_now) = (length, escapes);
            kept += line.len();
            kept_lines += 1;
        }
        if kept < self.bytes.len() {
            self.bytes.truncate(kept);
            self.complete_lines = kept_lines;
            self.cut_at = None;
            self.stopped = true;
        }
        (length_now, escapes_now)
    }
}

/// The parts that were found, together within the bound; none after the first that is cut.
#[must_use]
pub fn parts(pass: &Pass, form: Form, bound: usize) -> Vec<Part> {
    let (mut shown, mut used) = (Vec::new(), (0, 0));
    // What one pass cut is within the bound, as long as it is shown as it is.
    let is_within = pass.wanted.len() <= 1 && form == Form::default();
    for (slice, wanted) in pass.sliced.parts.iter().zip(&pass.wanted) {
        let mut part = Part {
            first: wanted.offset + 1,
            skipped: wanted.skip_bytes,
            bytes: slice.bytes.clone(),
            complete_lines: slice.complete_lines,
            cut_at: slice.cut_at,
            stopped: slice.stopped,
            text: String::new(),
        };
        if !is_within {
            used = part.fit(form, pass.sliced.line_ending, used, bound);
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

/// A line as it is shown.
fn in_form(line: &[u8], number: u64, form: Form) -> String {
    let text = if form.visible { visible::line(line) } else { String::from_utf8_lossy(line).into_owned() };
    if form.line_numbers { format!("{number}\t{text}") } else { text }
}
