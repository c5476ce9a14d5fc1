//! Tells the formats apart and hands the text to the right parser.

use std::fmt;

use super::binary::BINARY_BYTES_MAX;
use super::lines::Line;
use super::model::{FilePatch, Format, Patch};
use super::{blocks, codex, hunk, unified};
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

    /// Whether the line with `index` ends in a carriage return and a line feed.
    pub fn ends_in_crlf(&self, index: usize) -> bool {
        self.raw(index).is_some_and(|raw| raw.ends_with(b"\r\n"))
    }
}

/// Reads a patch in any of the formats, alone, inside a Markdown fence or after prose.
///
/// # Errors
/// The first line that cannot be read, or line 1 where there is no change at all.
pub fn parse(text: &[u8]) -> Result<Patch<'_>, ParseError> {
    parse_within(text, BINARY_BYTES_MAX)
}

/// The same; a binary content of more than `binary_bytes_max` is not inflated, and applies to no file.
///
/// # Errors
/// As [`parse`].
pub fn parse_within(text: &[u8], binary_bytes_max: usize) -> Result<Patch<'_>, ParseError> {
    let source = Source::new(text);
    let patch = match format_of(&source)? {
        Format::Codex => Patch { format: Format::Codex, files: codex::parse(&source)? },
        Format::SearchReplace => Patch { format: Format::SearchReplace, files: blocks::parse(&source)? },
        Format::Unified | Format::Git => unified::parse(&source, binary_bytes_max)?,
    };
    refuse_emptiness(patch.files)
        .map(|files| Patch { files, ..patch })
        .ok_or_else(|| ParseError::at(0, "the patch changes nothing: there is no hunk in it"))
}

/// Nothing where there is nothing.
fn refuse_emptiness(files: Vec<FilePatch<'_>>) -> Option<Vec<FilePatch<'_>>> {
    (!files.is_empty()).then_some(files)
}

/// The format of the first line that any format knows.
fn format_of(source: &Source<'_>) -> Result<Format, ParseError> {
    for index in 0..source.len() {
        let text = source.text(index).unwrap_or_default();
        if text.trim_ascii() == codex::BEGIN {
            return Ok(Format::Codex);
        }
        if blocks::search_marker(text).is_some() {
            return Ok(Format::SearchReplace);
        }
        if text.starts_with(b"diff --git ") || unified::is_file_header(source, index) || hunk::is_header(text)
        {
            return Ok(Format::Unified);
        }
        if let Some(message) = foreign(text) {
            return Err(ParseError::at(index, message));
        }
    }
    Err(ParseError::at(0, unreadable(source)))
}

/// What to say of a text in which no format is found.
fn unreadable(source: &Source<'_>) -> String {
    let any = |is: fn(&[u8]) -> bool| (0..source.len()).any(|index| source.text(index).is_some_and(is));
    let wanted = "expected a unified diff, a `*** Begin Patch` envelope or `<<<<<<< SEARCH` blocks";
    if any(|text| text.contains(&0x1b)) {
        return format!("there is no hunk here, but colour codes are: make the diff without them; {wanted}");
    }
    if any(is_ed_command) {
        return format!(
            "a normal diff or ed script cannot be applied: make a unified one (diff -u); {wanted}"
        );
    }
    let what = if any(|text| !text.trim_ascii().is_empty()) {
        "there is no hunk here"
    } else {
        "the patch is empty: there is no hunk"
    };
    format!("{what}; {wanted}")
}

/// Whether `text` is a command of a normal diff or an ed script, such as `2c2` or `3,5d`.
fn is_ed_command(text: &[u8]) -> bool {
    let is_range = |part: &[u8]| {
        part.first().is_some_and(u8::is_ascii_digit)
            && part.iter().all(|byte| byte.is_ascii_digit() || *byte == b',')
    };
    let mut parts = text.splitn(2, |byte| matches!(byte, b'a' | b'c' | b'd'));
    let (Some(old), Some(new)) = (parts.next(), parts.next()) else { return false };
    is_range(old) && (new.is_empty() || is_range(new))
}

/// What is wrong where a patch of another format begins among the files of one in `format`.
pub(super) fn other_format(source: &Source<'_>, index: usize, format: Format) -> Option<String> {
    let text = source.text(index).unwrap_or_default();
    let begins = if text.trim_ascii() == codex::BEGIN {
        Format::Codex
    } else if blocks::search_marker(text).is_some() {
        Format::SearchReplace
    } else if text.starts_with(b"diff --git ") || unified::is_file_header(source, index) {
        Format::Unified
    } else {
        return None;
    };
    (begins != format).then(|| "a patch of another format begins here: send each by itself".into())
}

/// What is wrong with a line that belongs to a format which is not read.
pub(super) fn foreign(text: &[u8]) -> Option<String> {
    if text.starts_with(b"diff --cc ") || text.starts_with(b"diff --combined ") || text.starts_with(b"@@@ ") {
        return Some("a combined diff of a merge cannot be applied: make one against a single parent".into());
    }
    if text.starts_with(b"***************") {
        return Some("a context diff cannot be applied: make a unified one (diff -u)".into());
    }
    if codex::is_file_header(text) {
        return Some("there is no `*** Begin Patch` line before this one".into());
    }
    if text.starts_with(b"Binary files ") && text.ends_with(b" differ") {
        let message = String::from_utf8_lossy(text).into_owned();
        return Some(format!("{message}, but the patch does not hold the bytes (git diff --binary does)"));
    }
    None
}
