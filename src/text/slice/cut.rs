//! Some lines of a text kept as its pieces come, and very long ones clipped.

use super::{Clipped, Slice, SliceBounds};
use crate::text::answer_size::{AnswerRoom, growth_of, prefix_within};
use crate::text::checked::peek;

/// Bytes in a line that is clipped, at least: a shorter one ends the slice instead, and begins the
/// next one.
const LONG_LINE_BYTES: usize = 2000;
/// What is kept of a clipped line: this part of the bound,
const CLIPPED_PART: usize = 8;
/// and this many bytes at most.
const CLIPPED_BYTES_MAX: usize = 2000;

/// Cuts text into lines and keeps those wanted.
pub struct Cutter {
    /// Which lines to keep.
    pub wanted: SliceBounds,
    /// The byte that ends a line.
    terminator: u8,
    /// Lines ended so far, up to those wanted.
    pub ended: u64,
    /// The lines kept so far.
    kept: Vec<u8>,
    /// Where in `kept` the line begins that has not ended.
    line_start: usize,
    /// Lines kept up to their end.
    ended_lines: u64,
    /// Bytes still to be left out of the first line.
    to_skip: usize,
    /// Lines of which the start alone is kept.
    clipped: Vec<Clipped>,
    /// Whether the line that has not ended is one of these, and then whether what came of it so far
    /// ends in CR.
    clipping: Option<bool>,
    /// Where a cut fell inside a line.
    cut_at: Option<usize>,
    /// Whether the bound on bytes was reached.
    stopped: bool,
    /// Whether more was to be left out of the first line than there is.
    skipped_all: bool,
    /// What the answer adds to the lines kept up to their end.
    growth: usize,
    /// What it adds to the line that has not ended, up to `counted`: a line may come in very many
    /// pieces.
    pending_growth: usize,
    /// Where in `kept` that count stands.
    counted: usize,
}

impl Cutter {
    /// A cutter at the start of the text.
    pub fn new(wanted: SliceBounds, terminator: u8) -> Self {
        Self {
            wanted,
            terminator,
            ended: 0,
            kept: Vec::new(),
            line_start: 0,
            ended_lines: 0,
            to_skip: wanted.skip_bytes,
            clipped: Vec::new(),
            clipping: None,
            cut_at: None,
            stopped: false,
            skipped_all: false,
            growth: 0,
            pending_growth: 0,
            counted: 0,
        }
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            if self.is_past() {
                return;
            }
            let end = memchr::memchr(self.terminator, piece).map(|at| at + 1);
            let (line, rest) = piece.split_at(end.unwrap_or(piece.len()));
            if self.ended >= self.wanted.offset {
                self.keep(line, end.is_some());
            }
            self.ended += u64::from(end.is_some());
            piece = rest;
        }
    }

    /// Whether no further line is wanted.
    fn is_past(&self) -> bool {
        self.stopped || self.ended >= self.wanted.offset.saturating_add(self.wanted.lines_max)
    }

    /// Keeps a line, or as much of it as has come.
    fn keep(&mut self, line: &[u8], is_whole: bool) {
        if let Some(after_cr) = self.clipping {
            self.pass_over(line, is_whole, after_cr);
            return;
        }
        let skipped = self.to_skip.min(line.len());
        self.to_skip -= skipped;
        self.kept.extend_from_slice(peek(line, skipped..));
        if is_whole {
            self.skipped_all |= self.to_skip > 0;
            self.to_skip = 0;
        }
        if self.is_over(is_whole) {
            self.bound_line(is_whole);
        } else if is_whole {
            self.end_line();
        }
    }

    /// As much of the line that has not ended as has come.
    fn pending(&self) -> &[u8] {
        peek(&self.kept, self.line_start..)
    }

    /// Whether what is kept is more than was asked for.
    fn is_over(&mut self, is_whole: bool) -> bool {
        if !self.wanted.room.is_bounded() {
            return false;
        }
        self.count_growth(is_whole);
        !self.wanted.room.takes(self.kept.len(), self.growth + self.pending_growth)
    }

    /// Counts what the answer adds to what has come since the last count.
    fn count_growth(&mut self, is_whole: bool) {
        let new = peek(&self.kept, self.counted..);
        let new = if is_whole { new } else { whole_characters(new) };
        let length = new.len();
        self.pending_growth += growth_of(new);
        self.counted += length;
    }

    /// Notes the end of a kept line.
    fn end_line(&mut self) {
        if self.wanted.room.is_bounded() {
            self.count_growth(true);
            self.growth += self.pending_growth;
        }
        self.line_start = self.kept.len();
        (self.counted, self.pending_growth) = (self.line_start, 0);
        self.ended_lines += 1;
    }

    /// Keeps what the bound allows of the line that is too much: its start where it is a very long
    /// one, else nothing.
    fn bound_line(&mut self, is_whole: bool) {
        if self.line_start == 0 && !self.wanted.clips_first {
            self.stop();
        } else if is_long(self.pending().len(), self.pending_growth, self.wanted.room) {
            self.clip(is_whole);
        } else if is_whole {
            self.stop();
        }
        // Else what is still to come of the line will tell.
    }

    /// Keeps the start of a very long line, and goes on after it.
    fn clip(&mut self, is_whole: bool) {
        /// Bytes of the longest line ending.
        const ENDING_BYTES: usize = 2;
        let kept = clipped_bytes(self.pending(), self.wanted.room);
        let start = peek(self.pending(), ..kept);
        let growth = self.growth + growth_of(start) + ENDING_BYTES;
        if !self.wanted.room.takes(self.line_start + kept + ENDING_BYTES, growth) {
            self.stop();
            return;
        }
        self.clipped.push(Clipped { line: self.ended + 1, kept, length: kept as u64 });
        let rest = self.kept.split_off(self.line_start + kept);
        (self.counted, self.pending_growth) = (self.line_start, 0);
        self.pass_over(&rest, is_whole, false);
    }

    /// Passes over what is not kept of a clipped line, up to its ending.
    fn pass_over(&mut self, rest: &[u8], is_whole: bool, after_cr: bool) {
        let mut ending: &[u8] = &[];
        if is_whole {
            let before = rest.len().checked_sub(2).map_or(after_cr, |at| rest.get(at) == Some(&b'\r'));
            ending = if self.terminator == b'\r' {
                b"\r"
            } else if before {
                b"\r\n"
            } else {
                b"\n"
            };
        }
        if let Some(clipped) = self.clipped.last_mut() {
            // What came before may have ended in the CR of a CR LF.
            clipped.length = (clipped.length + rest.len() as u64).saturating_sub(ending.len() as u64);
        }
        self.kept.extend_from_slice(ending);
        if is_whole {
            self.clipping = None;
            self.end_line();
        } else {
            self.clipping = Some(rest.last().map_or(after_cr, |&last| last == b'\r'));
        }
    }

    /// Ends the slice before the line that is too much, or inside it where it is the first.
    fn stop(&mut self) {
        self.stopped = true;
        if self.line_start > 0 {
            self.kept.truncate(self.line_start);
            return;
        }
        let length = self.wanted.room.prefix_of(&self.kept);
        self.kept.truncate(length);
        self.cut_at = Some(self.wanted.skip_bytes + self.kept.len());
    }

    /// The slice, and what was wanted.
    pub fn finish(mut self) -> (Slice, SliceBounds) {
        if !self.stopped && self.line_start < self.kept.len() {
            // The last line may have been waited for.
            if self.clipping.is_none() && self.is_over(true) { self.stop() } else { self.end_line() }
        }
        let slice = Slice {
            bytes: self.kept,
            ended_lines: self.ended_lines,
            clipped: self.clipped,
            cut_at: self.cut_at,
            stopped: self.stopped,
            skipped_all: self.skipped_all || self.to_skip > 0,
        };
        (slice, self.wanted)
    }
}

/// Whether a line, its ending included, is too long for an answer of its own, and by far too long
/// for one beside others.
#[must_use]
pub fn is_very_long(line: &[u8], room: AnswerRoom) -> bool {
    is_long(line.len(), growth_of(line), room)
}

/// The same of a line of `length` bytes, to which the answer adds `growth`.
const fn is_long(length: usize, growth: usize, room: AnswerRoom) -> bool {
    length > LONG_LINE_BYTES && !room.takes(length, growth)
}

/// Bytes kept at the start of a very long line that is clipped: whole characters, at least one.
#[must_use]
pub fn clipped_bytes(line: &[u8], room: AnswerRoom) -> usize {
    let most = (room.bytes() / CLIPPED_PART).min(CLIPPED_BYTES_MAX);
    prefix_within(line, most, most)
}

/// A text without a character at its end of which only a part is there.
fn whole_characters(text: &[u8]) -> &[u8] {
    /// Bytes of a character after its first.
    const TRAIL_MAX: usize = 3;
    for back in 1..=TRAIL_MAX.min(text.len()) {
        let start = text.len() - back;
        let bytes = match text.get(start) {
            Some(0x80..0xc0) => continue,
            Some(0xc0..0xe0) => 2,
            Some(0xe0..0xf0) => 3,
            Some(0xf0..) => 4,
            _ => 1,
        };
        return if bytes > back { peek(text, ..start) } else { text };
    }
    text
}
