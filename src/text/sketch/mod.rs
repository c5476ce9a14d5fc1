//! A sketch: the new text of a file or of a region of it, with marker lines for unchanged parts.
//!
//! Markers cut the sketch into parts. Unchanged lines place a part in the file: each run of them must match in one
//! place only, and all in order. Everything between the first and the last such line becomes the text of the part;
//! everything between parts stays. Lines of a part before its first or after its last unchanged line are new: they are
//! inserted there, or replace the whole block that begins there. A sketch is refused if two readings give different
//! texts.

mod index;
mod place;

use std::ops::Range;

use crate::text::checked::{TextFault, slice};

pub use index::SketchPart;

/// Reason why a sketch is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SketchError {
    /// It cannot be read, for any file.
    Unreadable {
        /// Line of the sketch, from 1.
        line: usize,
        /// Reason.
        why: String,
    },
    /// A part has no place in the file.
    NoPlace {
        /// Part without a place.
        part: PartName,
        /// Reason.
        why: String,
    },
    /// A part has several places or meanings.
    Ambiguous {
        /// Ambiguous part.
        part: PartName,
        /// Doubt, and how to resolve it.
        why: String,
        /// Lines of the file in question, from 1.
        lines: Vec<usize>,
    },
    /// The text cannot be built.
    Fault(TextFault),
}

impl From<TextFault> for SketchError {
    fn from(fault: TextFault) -> Self {
        Self::Fault(fault)
    }
}

/// Identification of a part of a sketch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartName {
    /// Number of the part, from 1.
    pub number: usize,
    /// First and last line in the sketch, from 1.
    pub lines: (usize, usize),
    /// First line.
    pub text: String,
}

/// One change that a sketch makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SketchChange {
    /// Bytes of the text that are replaced: whole lines.
    pub range: Range<usize>,
    /// Replacement.
    pub new: Vec<u8>,
    /// Runs of lines, from 1, that are removed without a replacement.
    pub left_out: Vec<(usize, usize)>,
}

/// Returns the changes that `sketch` makes within a range of lines of `text`; both have LF line endings.
///
/// `within` is the byte range of whole lines, the first of which has the number `first_line`.
///
/// # Errors
/// Returns a [`SketchError`] that names the part.
pub fn changes(
    text: &[u8],
    sketch: &[u8],
    within: &Range<usize>,
    first_line: usize,
) -> Result<Vec<SketchChange>, SketchError> {
    let region = slice(text, within.clone())?;
    let file: Vec<&[u8]> = region.split_inclusive(|&byte| byte == b'\n').collect();
    let parts = index::parts(sketch, &file)?;
    let placed = place::place_parts(&parts, &file).map_err(|refusal| refusal.counted_from(first_line))?;
    let mut changes = Vec::new();
    let (mut line, mut offset) = (0, within.start);
    for (part, span) in parts.iter().zip(&placed) {
        let Some(span) = span else { continue };
        let bytes =
            |lines: Range<usize>| file.get(lines).into_iter().flatten().map(|line| line.len()).sum::<usize>();
        let start = offset + bytes(line..span.start);
        let end = start + bytes(span.clone());
        (line, offset) = (span.end, end);
        let found = slice(&file, span.clone())?;
        let change = place::written(part, found)?;
        let old = slice(text, start..end)?;
        if change.new != old {
            let number = |index: usize| span.start + index + first_line;
            let left_out =
                change.left_out.into_iter().map(|(first, last)| (number(first), number(last))).collect();
            changes.push(SketchChange { range: start..end, new: change.new, left_out });
        }
    }
    Ok(changes)
}

impl SketchError {
    /// Returns the refusal with line numbers of the whole file, for a region that begins at `first_line`.
    fn counted_from(self, first_line: usize) -> Self {
        match self {
            Self::Ambiguous { part, why, lines } => {
                let lines = lines.into_iter().map(|line| line + first_line - 1).collect();
                Self::Ambiguous { part, why, lines }
            }
            other => other,
        }
    }
}
