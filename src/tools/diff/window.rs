//! The lines of a diff that are shown.

use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::checked::peek;

/// The part of a diff that is shown.
pub struct Window {
    /// Lines that are passed over.
    pub offset: usize,
    /// Room for what is shown.
    room: AnswerRoom,
    /// How long what is shown is.
    size: TextSize,
    /// Lines seen so far.
    seen: usize,
    /// Lines shown so far.
    pub shown: usize,
    /// What is shown.
    pub out: Vec<u8>,
    /// Whether a line did not fit any more.
    pub is_full: bool,
    /// Lines of which only the beginning is shown.
    pub cut_lines: usize,
}

impl Window {
    /// A window from the line `offset` on.
    pub fn new(offset: usize, room: AnswerRoom) -> Self {
        let (size, out) = (TextSize::default(), Vec::new());
        Self { offset, room, size, seen: 0, shown: 0, out, is_full: false, cut_lines: 0 }
    }

    /// Shows a line, where it is neither before the window nor behind it; of a line that alone has no room
    /// the beginning is shown.
    pub fn push(&mut self, line: &[u8]) {
        self.seen += 1;
        if self.seen <= self.offset || self.is_full {
            return;
        }
        let size = self.size.and(TextSize::of(line));
        if self.room.holds(size) {
            self.out.extend_from_slice(line);
            self.size = size;
        } else if self.out.is_empty() {
            self.push_start(line);
        } else {
            self.is_full = true;
            return;
        }
        self.shown += 1;
    }

    /// Shows the beginning of a line.
    fn push_start(&mut self, line: &[u8]) {
        let start = peek(line, ..self.room.prefix_of(line));
        self.out.extend_from_slice(start);
        self.out
            .extend_from_slice(format!("[... {} bytes left out ...]\n", line.len() - start.len()).as_bytes());
        self.size = TextSize::of(&self.out);
        self.cut_lines += 1;
    }
}
