//! Patches: reading them in every format that models and tools write, and applying them.
//!
//! [`parse`] takes a unified diff (plain or git's), a Codex envelope or SEARCH/REPLACE blocks, told
//! apart by themselves, and gives one model, [`Patch`], that borrows from the text. [`apply`] makes
//! the new text of one file from the old, and [`compose`] the outcome of a whole patch, path by
//! path. Nothing here reads or writes a file; everything is bytes, since files and patches may hold
//! any.
//!
//! # Where a hunk goes
//!
//! Lines are compared without their endings. A hunk goes where its old lines stand byte for byte at
//! the stated line, corrected by how far the hunk before was off; else where they stand alone in
//! the file, after the hunk before if that is enough to be alone. Only then, and never under
//! [`PatchOptions::strict`], come the weaker comparisons of [`Tier`], and at last [`PatchOptions::fuzz`]; each
//! again only where the place is the only one or the stated one. Two equal places are a
//! [`Conflict`] that names both.
//!
//! All hunks are sought in the file as it was, so that an earlier one never moves a later one.
//! A hunk whose new side stands where it should, while its old side does not, is applied already.
//!
//! # What comes out
//!
//! Every byte outside the changed lines stays, and context keeps the file's bytes. Added lines end
//! as the patch says where its old lines end as the file's do; else as the lines that they replace,
//! as their neighbours, as the file. The final newline stays as it is unless
//! `\ No newline at end of file` says otherwise.
//!
//! # The parts, in the order of the work
//!
//! [`parse`] tells formats apart, by the lines that `source` knows; `unified` with `hunk` and `binary`, `codex` and
//! `blocks` read one each into `model`. `index` finds lines in a file, `place` decides about one hunk, `apply` about
//! all of a file, `conflict` explains. `plan` decides which change each file gets, and `tree` makes the files.

mod apply;
pub(super) mod binary;
mod blocks;
mod codex;
mod conflict;
mod hunk;
mod index;
mod model;
mod place;
mod plan;
mod source;
#[cfg(test)]
mod tests;
mod tree;
mod unified;

use source::{Source, begins, foreign, is_hunk_header};

pub use apply::{Applied, HunkReport, apply};
pub use binary::{BINARY_BYTES_MAX, Binary, BinaryApplied, BinaryData};
pub use blocks::{Block, TextOf, search_replace_blocks};
pub use conflict::{Conflict, Failure, Fate, HunkFate, Nearest, Reason, visible};
pub use index::Tier;
pub use model::{
    Body, Ending, FilePatch, Format, Hunk, HunkLine, Kind, Line, Operation, Patch, Paths, Prefix, Strip,
    is_symlink, lines,
};
pub use place::PatchOptions;
pub use plan::{Action, Before, FileOutcome, Look, PlanError, PlanOptions, Reader, Refusal, RefusalReason};
pub use source::ParseError;
pub use tree::{Whole, compose};

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
    if patch.files.is_empty() {
        return Err(ParseError::at(0, "the patch changes nothing: there is no hunk in it"));
    }
    Ok(patch)
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

/// Returns true if `text` is a command of a normal diff or an ed script, such as `2c2` or `3,5d`.
fn is_ed_command(text: &[u8]) -> bool {
    let is_range = |part: &[u8]| {
        part.first().is_some_and(u8::is_ascii_digit)
            && part.iter().all(|byte| byte.is_ascii_digit() || *byte == b',')
    };
    let mut parts = text.splitn(2, |byte| matches!(byte, b'a' | b'c' | b'd'));
    let (Some(old), Some(new)) = (parts.next(), parts.next()) else { return false };
    is_range(old) && (new.is_empty() || is_range(new))
}
