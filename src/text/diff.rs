//! Diffs for answers: bounded in time and in bytes.

use similar::{DiffOp, DiffTag, group_diff_ops};

use super::line_diff::{self, LINES_MAX};
use super::lines;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::checked::peek;
use crate::text::escaped;

/// Unchanged lines shown round a change.
const CONTEXT_LINES: usize = 3;
/// Unchanged lines shown where the diff is meant to be small.
const CONTEXT_LINES_SMALL: usize = 1;
/// Diffs of at most this many bytes are small.
const SMALL_BYTES: usize = 1000;

/// How many lines two texts differ in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Lines only in the new text.
    pub added: u64,
    /// Lines only in the old text.
    pub removed: u64,
}

/// The lines added and removed from `old` to `new`, an ending included in its line.
#[must_use]
pub fn counts(old: &[u8], new: &[u8]) -> Counts {
    let (old, new) = middle(old, new);
    let (old_lines, new_lines) = (lines::count(old), lines::count(new));
    if old_lines + new_lines > LINES_MAX as u64 {
        return Counts { added: new_lines, removed: old_lines };
    }
    let (old, new): (Vec<&[u8]>, Vec<&[u8]>) = (lines::all(old), lines::all(new));
    let mut counts = Counts::default();
    for op in line_diff::diff(&old, &new).ops {
        if !matches!(op, DiffOp::Equal { .. }) {
            counts.removed += op.old_range().len() as u64;
            counts.added += op.new_range().len() as u64;
        }
    }
    counts
}

/// The parts of two texts between the lines that both begin and end with.
fn middle<'a>(old: &'a [u8], new: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let same = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let start = old.get(..same).and_then(|head| memchr::memrchr(b'\n', head)).map_or(0, |at| at + 1);
    let (old, new) = (peek(old, start..), peek(new, start..));
    let same = old.iter().rev().zip(new.iter().rev()).take_while(|(one, other)| one == other).count();
    let tail = peek(old, old.len() - same..);
    // The first line of the common tail may have begun differently.
    let kept = memchr::memchr(b'\n', tail).map_or(0, |at| tail.len() - at - 1);
    (peek(old, ..old.len() - kept), peek(new, ..new.len() - kept))
}

/// A unified diff of at most `bytes_max` bytes, cut at a whole line and saying what was left out.
///
/// `old_name` and `new_name` stand in its header as they are; bytes that are not UTF-8 are shown
/// lossily, so that it is for reading only.
#[must_use]
pub fn unified(old_name: &str, new_name: &str, old: &[u8], new: &[u8], bytes_max: usize) -> String {
    let mut text = format!("--- {}\n+++ {}\n", escaped::name(old_name), escaped::name(new_name));
    if [old, new].iter().map(|side| lines::count(side)).sum::<u64>() > 2 * LINES_MAX as u64 {
        text.push_str("... too many lines for a diff\n");
        return text;
    }
    let split = |side| lines::all(side);
    let (old, new) = (split(old), split(new));
    let context = if bytes_max <= SMALL_BYTES && bytes_max > 0 { CONTEXT_LINES_SMALL } else { CONTEXT_LINES };
    let mut text =
        Bounded { size: TextSize::of(text.as_bytes()), text, room: AnswerRoom::new(bytes_max), left_out: 0 };
    for group in group_diff_ops(line_diff::diff(&old, &new).ops, context) {
        if text.left_out == 0 {
            text.push(&header(&group));
        }
        for op in &group {
            let removed = peek(&old, op.old_range());
            if op.tag() == DiffTag::Equal {
                text.push_lines(' ', removed);
                continue;
            }
            text.push_lines('-', removed);
            let added = peek(&new, op.new_range());
            text.push_lines('+', added);
        }
    }
    let Bounded { mut text, left_out, .. } = text;
    if left_out > 0 {
        text.extend(["... ", &left_out.to_string(), " more lines of diff\n"]);
    }
    text
}

/// The line before a hunk.
fn header(group: &[DiffOp]) -> String {
    let span = |of: fn(&DiffOp) -> std::ops::Range<usize>| {
        let start = group.first().map_or(0, |first| of(first).start);
        let length = group.last().map_or(0, |last| of(last).end) - start;
        match length {
            0 => format!("{start},0"),
            1 => format!("{}", start + 1),
            length => format!("{},{length}", start + 1),
        }
    };
    format!("@@ -{} +{} @@\n", span(DiffOp::old_range), span(DiffOp::new_range))
}

/// A diff for an answer.
struct Bounded {
    /// What has room.
    text: String,
    /// How long that is.
    size: TextSize,
    /// Room for it.
    room: AnswerRoom,
    /// Lines after it.
    left_out: usize,
}

impl Bounded {
    /// Adds lines of a hunk.
    fn push_lines(&mut self, sign: char, lines: &[&[u8]]) {
        for line in lines {
            // A line that cannot fit is not looked at any closer.
            if self.left_out > 0 || !self.room.holds(self.size.and(TextSize::plain(line.len() / 4))) {
                self.left_out += 1;
                continue;
            }
            let body = lines::without_ending(line);
            let mut shown = format!("{sign}{}\n", String::from_utf8_lossy(body));
            if body.len() == line.len() {
                shown.push_str("\\ No newline at end of file\n");
            }
            self.push(&shown);
        }
    }

    /// Adds a line where it still fits and nothing was left out before it; counts it otherwise.
    fn push(&mut self, line: &str) {
        let size = self.size.with(line);
        if self.left_out == 0 && self.room.holds(size) {
            self.text.push_str(line);
            self.size = size;
        } else {
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_a_line_diff() {
        for (old, new, added, removed) in [
            ("", "", 0, 0),
            ("", "a\nb\n", 2, 0),
            ("a\nb\n", "", 0, 2),
            ("a\nb\nc\n", "a\nB\nc\n", 1, 1),
            ("a\nb", "a\nb\n", 1, 1),
            ("x\na\n", "y\nxx\na\n", 2, 1),
            ("a\n", "a\na\n", 1, 0),
            ("aa\nb\n", "ba\nb\n", 1, 1),
        ] {
            assert_eq!(counts(old.as_bytes(), new.as_bytes()), Counts { added, removed }, "{old:?} {new:?}");
        }
    }

    #[test]
    fn a_diff_is_cut_at_a_line_and_says_so() {
        let old: String = (0..100).map(|line| format!("line {line}\n")).collect();
        let new = old.replace("line", "Line");
        let diff = unified("a/f", "b/f", old.as_bytes(), new.as_bytes(), 300);
        assert!(diff.len() < 350, "{}", diff.len());
        assert!(diff.ends_with("more lines of diff\n"), "{diff}");
        assert_eq!(
            unified("a/f", "b/f", b"a\nb\n", b"a\nc", 0),
            "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n"
        );
    }
}
