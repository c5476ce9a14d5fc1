//! Bytes as lines, each knowing how it ends.

use crate::text::lines::at_line_feeds;

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Not at all: the last line of a text without a final newline.
    None,
    /// A line feed.
    Lf,
    /// A carriage return and a line feed.
    CrLf,
    /// A carriage return alone.
    Cr,
}

impl Ending {
    /// The bytes that it stands for.
    #[must_use]
    pub const fn bytes(self) -> &'static [u8] {
        match self {
            Self::None => b"",
            Self::Lf => b"\n",
            Self::CrLf => b"\r\n",
            Self::Cr => b"\r",
        }
    }
}

/// One line of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line without its ending.
    pub text: &'a [u8],
    /// How it ends.
    pub ending: Ending,
}

impl<'a> Line<'a> {
    /// The line that `raw` is, ending included.
    #[must_use]
    pub fn of(raw: &'a [u8]) -> Self {
        match raw.strip_suffix(b"\n") {
            None => Self { text: raw, ending: Ending::None },
            Some(text) => match text.strip_suffix(b"\r") {
                None => Self { text, ending: Ending::Lf },
                Some(text) => Self { text, ending: Ending::CrLf },
            },
        }
    }
}

/// Splits `bytes` at line feeds; a carriage return before one belongs to the ending.
///
/// An empty text has no lines; a last line without an ending counts.
#[must_use]
pub fn lines(bytes: &[u8]) -> Vec<Line<'_>> {
    // To count them takes less than to let the list grow.
    let mut lines = Vec::with_capacity(memchr::memchr_iter(b'\n', bytes).count() + 1);
    lines.extend(at_line_feeds(bytes).map(Line::of));
    lines
}

/// Splits `bytes` at carriage returns, as files of old Macs want it.
#[must_use]
pub fn lines_at_carriage_returns(bytes: &[u8]) -> Vec<Line<'_>> {
    bytes
        .split_inclusive(|byte| *byte == b'\r')
        .map(|raw| match raw.strip_suffix(b"\r") {
            None => Line { text: raw, ending: Ending::None },
            Some(text) => Line { text, ending: Ending::Cr },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_knows_its_ending() {
        let endings: Vec<_> = lines(b"a\nb\r\n\nc\rd").iter().map(|line| (line.text, line.ending)).collect();
        let wanted: Vec<(&[u8], Ending)> =
            vec![(b"a", Ending::Lf), (b"b", Ending::CrLf), (b"", Ending::Lf), (b"c\rd", Ending::None)];
        assert_eq!(endings, wanted);
        assert!(lines(b"").is_empty());
        assert_eq!(lines_at_carriage_returns(b"a\rb").len(), 2);
    }
}
