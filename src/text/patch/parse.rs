//! Tells the formats apart and hands the text to the right parser.

use super::binary::BINARY_BYTES_MAX;
use super::blocks::TextOf;
use super::model::{FilePatch, Format, Patch};
use super::signs::{begins, foreign, is_hunk_header};
use super::source::{ParseError, Source};
use super::{blocks, codex, unified};

/// Reads a patch in any of the formats, alone, inside a Markdown fence or after prose.
///
/// # Errors
/// The first line that cannot be read, or line 1 where there is no change at all.
pub fn parse(text: &[u8]) -> Result<Patch<'_>, ParseError> {
    parse_within(text, BINARY_BYTES_MAX, &|_| None)
}

/// The same; a binary content of more than `binary_bytes_max` is not inflated, and applies to no file.
/// `text_of` has the files that decide where a block is divided.
///
/// # Errors
/// As [`parse`].
pub fn parse_within<'a>(
    text: &'a [u8],
    binary_bytes_max: usize,
    text_of: TextOf<'_>,
) -> Result<Patch<'a>, ParseError> {
    let source = Source::new(text);
    let patch = match format_of(&source)? {
        Format::Codex => Patch { format: Format::Codex, files: codex::parse(&source)? },
        Format::SearchReplace => {
            Patch { format: Format::SearchReplace, files: blocks::parse(&source, text_of)? }
        }
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
        if let Some(format) = begins(source, index) {
            return Ok(format);
        }
        if is_hunk_header(text) {
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
