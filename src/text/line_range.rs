//! Lines by their numbers.

use std::fmt;
use std::ops::Range;

use super::lines::{self, LineEnding};
use crate::text::checked::peek;

/// Lines of a text, from 1, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineSpan {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

impl fmt::Display for LineSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "line {}", self.first)
        } else {
            write!(f, "lines {} to {}", self.first, self.last)
        }
    }
}

/// The bytes of some lines, with their endings; lines past the end of the text have none.
///
/// `None` where not even the first line is there. In an empty text there is no line.
#[must_use]
pub fn bytes_of(body: &[u8], span: LineSpan) -> Option<Range<usize>> {
    let terminator = lines::terminator(body);
    let start = match usize::try_from(span.first).ok()?.checked_sub(2) {
        None => 0,
        Some(before) => memchr::memchr_iter(terminator, body).nth(before)? + 1,
    };
    if start >= body.len() || span.last < span.first {
        return None;
    }
    let more = usize::try_from(span.last - span.first).unwrap_or(usize::MAX);
    let rest = peek(body, start..);
    let end = memchr::memchr_iter(terminator, rest).nth(more).map_or(body.len(), |at| start + at + 1);
    Some(start..end)
}

/// A text for whole lines: it ends as the last of the lines `old` does. An empty one stays empty,
/// which takes the lines away.
#[must_use]
pub fn ending_like<'a>(new: &'a [u8], old: &[u8], style: LineEnding) -> std::borrow::Cow<'a, [u8]> {
    let (old_ends, new_ends) = (ends(old, style), ends(new, style) || new.ends_with(b"\n"));
    match (new.is_empty(), old_ends, new_ends) {
        (false, true, false) => {
            let ending = lines::ending_of(old);
            [new, if ending.is_empty() { b"\n" } else { ending }].concat().into()
        }
        (false, false, true) => lines::without_ending(new).into(),
        _ => new.into(),
    }
}

/// Whether a text ends in a line ending of that style.
fn ends(text: &[u8], style: LineEnding) -> bool {
    text.last() == Some(&style.terminator())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_numbers() {
        for (text, first, last, found) in [
            ("a\nb\nc", 1, 1, Some("a\n")),
            ("a\nb\nc", 2, 3, Some("b\nc")),
            ("a\nb\nc", 3, 9, Some("c")),
            ("a\nb\nc", 4, 4, None),
            ("a\n", 2, 2, None),
            ("", 1, 1, None),
            ("a\r\nb\r\n", 2, 2, Some("b\r\n")),
            ("a\rb\rc", 2, 2, Some("b\r")),
            ("a\rb\nc", 1, 1, Some("a\rb\n")),
            ("a\nb", 2, 1, None),
        ] {
            let range = bytes_of(text.as_bytes(), LineSpan { first, last });
            assert_eq!(range.map(|range| &text[range]), found, "{text:?} {first}-{last}");
        }
    }

    #[test]
    fn the_last_line_ends_as_it_did() {
        for (new, old, wanted) in [
            ("x", "a\n", "x\n"),
            ("x\n", "a", "x"),
            ("x\n", "a\n", "x\n"),
            ("", "a\n", ""),
            ("x", "a\r\n", "x\r\n"),
        ] {
            let style = LineEnding::of(old.as_bytes());
            assert_eq!(ending_like(new.as_bytes(), old.as_bytes(), style).as_ref(), wanted.as_bytes());
        }
    }
}
