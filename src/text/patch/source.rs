//! The lines of a patch text, and what is wrong at one of them.

use std::fmt;

use super::lines::Line;
use crate::text::checked::peek;
use crate::text::lines::at_line_feeds;

/// Why a patch cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Line of the patch text, from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

impl ParseError {
    /// An error at the line with `index`.
    pub(super) fn at(index: usize, message: impl Into<String>) -> Self {
        Self { line: index + 1, message: message.into() }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ParseError {}

/// The lines of a patch text.
pub(super) struct Source<'a> {
    /// Each with its ending.
    lines: Vec<&'a [u8]>,
}

impl<'a> Source<'a> {
    /// The lines of `text`, after a byte-order mark.
    pub fn new(text: &'a [u8]) -> Self {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        Self { lines: at_line_feeds(text).collect() }
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// The line with `index`, with its ending.
    pub fn raw(&self, index: usize) -> Option<&'a [u8]> {
        self.lines.get(index).copied()
    }

    /// The line with `index`, without its ending.
    pub fn text(&self, index: usize) -> Option<&'a [u8]> {
        self.raw(index).map(|raw| Line::of(raw).text)
    }

    /// The lines after `from` and before `to`, each with its ending.
    pub fn between(&self, from: usize, to: usize) -> Vec<u8> {
        peek(&self.lines, from + 1..to).concat()
    }

    /// Whether the line with `index` ends in a carriage return and a line feed.
    pub fn ends_in_crlf(&self, index: usize) -> bool {
        self.raw(index).is_some_and(|raw| raw.ends_with(b"\r\n"))
    }
}
