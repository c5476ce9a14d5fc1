//! Blank lines at the ends of a text.

use std::ops::Range;

use crate::text::checked::{Fault, peek, slice};

/// A part of a section: blank lines, content, blank lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// Where the content begins.
    pub start: usize,
    /// Where it ends: `start` where there is none.
    pub end: usize,
}

/// A text without blank lines at its ends, and without the last line's end.
///
/// # Errors
/// Where its parts lie outside it.
pub fn trimmed(text: &[u8]) -> Result<&[u8], Fault> {
    let parts = parts(text, &(0..text.len()));
    let body = slice(text, parts.start..parts.end)?;
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    Ok(body.strip_suffix(b"\r").unwrap_or(body))
}

/// The content of a part of a text, without the blank lines at its ends.
pub fn parts(text: &[u8], range: &Range<usize>) -> Parts {
    let (mut first, mut last) = (None, range.end);
    let mut at = range.start;
    while at < range.end {
        let end = line_end(text, at).min(range.end);
        if !peek(text, at..end).trim_ascii().is_empty() {
            first = first.or(Some(at));
            last = end;
        }
        at = end;
    }
    Parts { start: first.unwrap_or(range.end), end: last }
}

/// Where the line ends in which `at` is: after LF, CR LF or CR, as CommonMark has it.
pub fn line_end(text: &[u8], at: usize) -> usize {
    let rest = peek(text, at..);
    let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else {
        return text.len();
    };
    let is_pair = rest.get(end) == Some(&b'\r') && rest.get(end + 1) == Some(&b'\n');
    at + end + if is_pair { 2 } else { 1 }
}
