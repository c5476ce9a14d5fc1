//! A sketch: the new text of a file or of a region of it, with marker lines for what stays.
//!
//! Markers cut the sketch into parts. A part is placed by lines that stand in the file unchanged,
//! each run of them in one place alone and all in order; everything between its first and its last
//! such line becomes the part's text, everything between parts stays. What a part says beyond its
//! first or last unchanged line is new: it is inserted there, or is the whole of the block that
//! begins there. Where two readings would give two texts there is none, but a refusal.

mod edges;
mod index;
mod parts;
mod place;

use std::ops::Range;

use crate::text::checked::{Fault, items, slice};

pub use parts::Part;

/// Why a sketch has no one meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be read, whatever the file is.
    Unreadable {
        /// The line of the sketch, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A part stands nowhere.
    NoPlace {
        /// Which.
        part: Which,
        /// Why not.
        why: String,
    },
    /// A part may stand in several places, or mean several things.
    Ambiguous {
        /// Which.
        part: Which,
        /// What is in doubt, and what would settle it.
        why: String,
        /// The lines of the file in question, from 1.
        lines: Vec<usize>,
    },
    /// The text cannot be made.
    Fault(Fault),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Which part of a sketch is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Which {
    /// Its number, from 1.
    pub number: usize,
    /// Its lines in the sketch, from 1.
    pub lines: (usize, usize),
    /// Its first line.
    pub text: String,
}

/// One change that a sketch makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SketchChange {
    /// The bytes of the text that are replaced: whole lines.
    pub range: Range<usize>,
    /// What stands there then.
    pub new: Vec<u8>,
    /// Lines of the text, from 1, that are removed and have nothing in their place.
    pub left_out: Vec<(usize, usize)>,
}

/// The changes that `sketch` makes within a range of lines of `text`; in both LF alone ends a line.
///
/// `within` are bytes of whole lines, the first of which has the number `first_line`.
///
/// # Errors
/// A [`Refusal`] that names the part.
pub fn changes(
    text: &[u8],
    sketch: &[u8],
    within: &Range<usize>,
    first_line: usize,
) -> Result<Vec<SketchChange>, Refusal> {
    let region = slice(text, within.clone())?;
    let file: Vec<&[u8]> = region.split_inclusive(|&byte| byte == b'\n').collect();
    let parts = parts::parts(sketch, &file)?;
    let placed = place::placed(&parts, &file).map_err(|refusal| refusal.counted_from(first_line))?;
    let mut changes = Vec::new();
    let (mut line, mut offset) = (0, within.start);
    for (part, span) in parts.iter().zip(&placed) {
        let Some(span) = span else { continue };
        let bytes =
            |lines: Range<usize>| file.get(lines).into_iter().flatten().map(|line| line.len()).sum::<usize>();
        let start = offset + bytes(line..span.start);
        let end = start + bytes(span.clone());
        (line, offset) = (span.end, end);
        let found = items(&file, span.clone())?;
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

impl Refusal {
    /// The same with line numbers of the whole file, where the region begins at `first_line`.
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

#[cfg(test)]
mod tests;
