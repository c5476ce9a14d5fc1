//! Patches: reads them in every format that models and tools write, and applies them.
//!
//! [`parse`] reads a unified diff (plain or from git), a Codex envelope, SEARCH/REPLACE blocks or edits by line. It detects
//! the format and returns one model, [`Patch`], which borrows from the text. [`apply`] makes the new text of one file from the
//! old, and [`compose`] the outcome of a whole patch, path by path. No file is read or written here. All texts are
//! bytes, since files and patches may have any.
//!
//! # Place of a hunk
//!
//! Lines are compared without their endings. A hunk is applied where its old lines match byte for byte at the stated
//! line, corrected by the error of the previous hunk. Otherwise it is applied at their only match in the file, or at
//! the only match after the previous hunk. Only then, and never with [`PatchOptions::strict`], the weaker comparisons
//! of [`LineMatch`] are tried, and at last [`PatchOptions::fuzz`]; for each, the match must again be the only one or at the
//! stated line. Two equal matches are a [`HunkConflict`] that names both.
//!
//! All hunks are searched in the original file, so an earlier one never moves a later one. A hunk is already applied if
//! its new side matches at its place while its old side does not.
//!
//! # Result
//!
//! Every byte outside the changed lines stays, and context keeps the bytes of the file. Added lines end as in the patch
//! if its old lines end as in the file; otherwise as the lines that they replace, as their neighbours, or as the file.
//! The final newline stays as it is unless `\ No newline at end of file` says otherwise.
//!
//! # Modules, in the order of the work
//!
//! [`parse`] detects the format by the lines that `source` knows; `unified` with `hunk` and `binary`, `codex`, `blocks`
//! and `by_line` each read one format into `model`. `index` finds lines in a file, `place` decides on one hunk, `apply` on
//! all of a file, `conflict` explains. `plan` decides which change each file gets, and `tree` makes the files.

mod apply;
pub(super) mod binary;
mod blocks;
mod by_line;
mod codex;
mod conflict;
mod hunk;
mod index;
mod model;
mod place;
mod plan;
mod source;
mod tree;
mod unified;

use source::{PatchLines, begins, foreign, is_hunk_header};

pub use apply::{HunkReport, PatchResult, apply};
pub use binary::{BINARY_BYTES_MAX, BinaryChange, BinaryData, BinaryResult, deflate, inflate};
pub use blocks::{ReadText, SearchBlock, search_replace_blocks};
pub use by_line::overlap;
pub use conflict::{HunkConflict, HunkFailure, HunkFate, HunkFault, HunkResult, NearestPlace, visible};
pub use index::LineMatch;
pub use model::{
    EditPlace, Ending, FileEdits, FileOp, FilePatch, Format, Hunk, HunkLine, LineEdit, LineKind, NewText,
    Patch, PatchBody, PatchPaths, PathPrefix, Splice, Strip, TextLine, is_symlink, lines,
};
pub use place::PatchOptions;
pub use plan::{
    FileAction, FileForm, FileOutcome, OriginalFile, PatchRefusal, PlanError, PlanOptions, ReadOriginal,
    RefusalReason, SymlinkMode,
};
pub use source::ParseError;
pub use tree::{WholeFiles, compose};

/// Reads a patch in any of the formats, alone, inside a Markdown fence or after prose.
///
/// # Errors
/// Fails at the first line that cannot be read, or at line 1 if there is no change at all.
pub fn parse(text: &[u8]) -> Result<Patch<'_>, ParseError> {
    parse_within(text, BINARY_BYTES_MAX, &|_| None)
}

/// Reads a patch, but does not inflate a binary content of more than `binary_bytes_max`, which then applies to no file.
/// `text_of` returns the files that decide where a block is divided.
///
/// # Errors
/// Fails as [`parse`] does.
pub fn parse_within<'a>(
    text: &'a [u8],
    binary_bytes_max: usize,
    text_of: ReadText<'_>,
) -> Result<Patch<'a>, ParseError> {
    let source = PatchLines::new(text);
    let patch = match format_of(&source)? {
        Format::Codex => Patch { files: codex::parse(&source)?, ..Patch::of(Format::Codex) },
        Format::SearchReplace => {
            Patch { files: blocks::parse(&source, text_of)?, ..Patch::of(Format::SearchReplace) }
        }
        Format::ByLine => by_line::parse(&source)?,
        Format::Unified | Format::Git => unified::parse(&source, binary_bytes_max)?,
    };
    if patch.files.is_empty() {
        return Err(ParseError::at(0, "the patch changes nothing: there is no hunk in it"));
    }
    Ok(patch)
}

/// Returns the format of the first line that any format knows.
fn format_of(source: &PatchLines<'_>) -> Result<Format, ParseError> {
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

/// Returns the error message for a text without a known format.
fn unreadable(source: &PatchLines<'_>) -> String {
    let any = |is: fn(&[u8]) -> bool| (0..source.len()).any(|index| source.text(index).is_some_and(is));
    let wanted =
        "expected a unified diff, a `*** Begin Patch` envelope, `<<<<<<< SEARCH` blocks or `[PATH]` sections";
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
