//! Lines of a patch text, the lines that identify its format, and parse errors.

use std::fmt;

use super::model::{FileOp, Format, TextLine};
use crate::text::checked::slice_or_empty;
use crate::text::lines::at_line_feeds;

/// Reason why a patch cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Line of the patch text, from 1.
    pub line: usize,
    /// Error message.
    pub message: String,
}

impl ParseError {
    /// Creates an error at the line with `index`.
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
pub(super) struct PatchLines<'a> {
    /// Lines with their endings.
    lines: Vec<&'a [u8]>,
}

impl<'a> PatchLines<'a> {
    /// Splits `text` into lines, without a byte-order mark.
    pub fn new(text: &'a [u8]) -> Self {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        Self { lines: at_line_feeds(text).collect() }
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the line with `index`, with its ending.
    pub fn raw(&self, index: usize) -> Option<&'a [u8]> {
        self.lines.get(index).copied()
    }

    /// Returns the line with `index`, without its ending.
    pub fn text(&self, index: usize) -> Option<&'a [u8]> {
        self.raw(index).map(|raw| TextLine::of(raw).text)
    }

    /// Returns the lines after `from` and before `to`, each with its ending.
    pub fn between(&self, from: usize, to: usize) -> Vec<u8> {
        slice_or_empty(&self.lines, from + 1..to).concat()
    }

    /// Returns true if the line with `index` ends in a carriage return and a line feed.
    pub fn ends_in_crlf(&self, index: usize) -> bool {
        self.raw(index).is_some_and(|raw| raw.ends_with(b"\r\n"))
    }
}

/// First line of an envelope.
const ENVELOPE_BEGIN: &[u8] = b"*** Begin Patch";
/// Shortest run of letters of a marker.
const MARKER_MIN: usize = 7;

/// A `***` line inside an envelope.
pub enum EnvelopeLine<'a> {
    /// `*** Add File:`, `*** Update File:`, `*** Delete File:`.
    File(FileOp, &'a [u8]),
    /// `*** Move to:`.
    MoveTo(&'a [u8]),
    /// `*** End of File`.
    EndOfFile,
    /// `*** End Patch`.
    EndPatch,
}

/// Reads a `***` line.
pub fn envelope_line(text: &[u8]) -> Option<EnvelopeLine<'_>> {
    let words = text.trim_ascii().strip_prefix(b"*** ")?.trim_ascii();
    let named = |start: &[u8]| words.strip_prefix(start).map(<[u8]>::trim_ascii);
    if words == b"End Patch" {
        Some(EnvelopeLine::EndPatch)
    } else if words == b"End of File" {
        Some(EnvelopeLine::EndOfFile)
    } else if let Some(path) = named(b"Move to:") {
        Some(EnvelopeLine::MoveTo(path))
    } else if let Some(path) = named(b"Add File:") {
        Some(EnvelopeLine::File(FileOp::Create, path))
    } else if let Some(path) = named(b"Update File:") {
        Some(EnvelopeLine::File(FileOp::Modify, path))
    } else {
        named(b"Delete File:").map(|path| EnvelopeLine::File(FileOp::Delete, path))
    }
}

/// Returns the length of the marker that begins a block.
pub fn search_marker(text: &[u8]) -> Option<usize> {
    marker(text, b'<', b"SEARCH").or_else(|| marker(text, b'-', b"SEARCH"))
}

/// Returns the length of a marker of `letter` with `word` after it.
pub fn marker(text: &[u8], letter: u8, word: &[u8]) -> Option<usize> {
    let length = text.iter().take_while(|byte| **byte == letter).count();
    let rest = text.get(length..)?.trim_ascii();
    (length >= MARKER_MIN && rest == word).then_some(length)
}

/// Returns true if there is a `---` line at `index` with a `+++` line after it.
pub fn is_file_header(source: &PatchLines<'_>, index: usize) -> bool {
    source.text(index).is_some_and(|text| text.starts_with(b"--- "))
        && source.text(index + 1).is_some_and(|text| text.starts_with(b"+++ "))
}

/// Returns true if `text` is a `@@` line.
pub fn is_hunk_header(text: &[u8]) -> bool {
    text.trim_ascii_end() == b"@@"
        || text.starts_with(b"@@ ")
        || matches!(text, [b'@', b'@', b'-', digit, ..] if digit.is_ascii_digit())
}

/// Returns true for the first line of an envelope.
pub fn is_envelope_begin(text: &[u8]) -> bool {
    text.trim_ascii() == ENVELOPE_BEGIN
}

/// Returns true if a section begins at the line with `index`, alone or in an envelope.
pub fn begins_section(source: &PatchLines<'_>, index: usize) -> bool {
    let is_begin = |index: &usize| source.text(*index).is_some_and(is_envelope_begin);
    let index = (index..source.len()).find(|index| !is_begin(index)).unwrap_or(index);
    source.text(index).and_then(section_header).is_some() && source.text(index + 1).is_some_and(is_operator)
}

/// Returns the path and the tag of a line `[PATH#TAG]`.
pub fn section_header(text: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let inner = text.trim_ascii_end().strip_prefix(b"[")?.strip_suffix(b"]")?;
    let hash = inner.iter().rposition(|byte| *byte == b'#');
    let tagged = hash.and_then(|at| Some((inner.get(..at)?, inner.get(at + 1..)?)));
    let tagged = tagged.filter(|(_, tag)| tag.len() >= TAG_MIN && tag.iter().all(u8::is_ascii_hexdigit));
    let (path, tag) = tagged.map_or((inner, None), |(path, tag)| (path, Some(tag)));
    (!path.trim_ascii().is_empty()).then_some((path, tag))
}

/// Fewest digits after a `#` that are a tag and not a part of the path.
const TAG_MIN: usize = 4;

/// Returns true if a line looks like an operation.
fn is_operator(text: &[u8]) -> bool {
    let begins = |word: &[u8], next: &[u8]| {
        text.strip_prefix(word).and_then(<[u8]>::first).is_some_and(|byte| next.contains(byte))
    };
    begins(b"PUT ", b"<>0123456789")
        || begins(b"CUT ", b"0123456789")
        || text.trim_ascii_end() == b"REM"
        || text.strip_prefix(b"MV ").is_some_and(|path| !path.trim_ascii().is_empty())
}

/// Returns the format of the patch that begins at the line with `index`.
pub fn begins(source: &PatchLines<'_>, index: usize) -> Option<Format> {
    let text = source.text(index)?;
    if begins_section(source, index) {
        Some(Format::ByLine)
    } else if is_envelope_begin(text) {
        Some(Format::Codex)
    } else if search_marker(text).is_some() {
        Some(Format::SearchReplace)
    } else {
        let is_unified = text.starts_with(b"diff --git ") || is_file_header(source, index);
        is_unified.then_some(Format::Unified)
    }
}

/// Returns an error message if a patch of a format other than `format` begins at the line with `index`.
pub fn other_format(source: &PatchLines<'_>, index: usize, format: Format) -> Option<String> {
    let begins = begins(source, index)?;
    (begins != format).then(|| "a patch of another format begins here: send each by itself".into())
}

/// Returns an error message for a line that cannot be in a hunk.
pub fn not_a_hunk_line(text: &[u8]) -> String {
    format!("a hunk line begins with a space, `+` or `-`, but this is {:?}", String::from_utf8_lossy(text))
}

/// Returns an error message for a line of an unsupported format.
pub fn foreign(text: &[u8]) -> Option<String> {
    if text.starts_with(b"diff --cc ") || text.starts_with(b"diff --combined ") || text.starts_with(b"@@@ ") {
        return Some("a combined diff of a merge cannot be applied: make one against a single parent".into());
    }
    if text.starts_with(b"***************") {
        return Some("a context diff cannot be applied: make a unified one (diff -u)".into());
    }
    if matches!(envelope_line(text), Some(EnvelopeLine::File(..))) {
        return Some("there is no `*** Begin Patch` line before this one".into());
    }
    if text.starts_with(b"Binary files ") && text.ends_with(b" differ") {
        let message = String::from_utf8_lossy(text).into_owned();
        return Some(format!("{message}, but the patch does not contain the bytes (git diff --binary does)"));
    }
    None
}
