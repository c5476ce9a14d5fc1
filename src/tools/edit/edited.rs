//! A text after its edits: the bytes, where the new texts stand, and how the old ones were found.

use std::ops::{Deref, Range};

use schemars::JsonSchema;
use serde::Serialize;

use crate::buffer::Buffer;
use crate::text::flexible::Tier;

/// Places that are kept while they are replaced; of one edit alone more are gone through twice.
pub const PLACES_MAX: usize = 100_000;

/// The text of a file, or one of its own.
#[derive(Debug)]
pub enum Body<'a> {
    /// As it was.
    Borrowed(&'a [u8]),
    /// Another.
    Owned(Buffer),
}

impl Body<'_> {
    /// The text, to be kept.
    pub fn into_owned(self) -> Buffer {
        match self {
            Self::Borrowed(text) => text.to_vec().into(),
            Self::Owned(text) => text,
        }
    }
}

impl Deref for Body<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }
}

/// A text after all edits.
#[derive(Debug)]
pub struct Edited<'a> {
    /// The text.
    pub body: Body<'a>,
    /// Where the new texts stand in it, or the first of them.
    pub ranges: Vec<Range<usize>>,
    /// How many there are.
    pub count: usize,
    /// How the old ones were found.
    pub matched: Matched,
    /// Lines, as they were numbered before, that a sketch has nothing in the place of.
    pub left_out: Vec<(usize, usize)>,
    /// Lines, as they were numbered before, that a sketch removes or replaces.
    pub removed: Vec<(u64, u64)>,
}

/// How it matched; of several edits the one that took the most liberty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Matched {
    /// The new text stands there already; nothing was touched.
    AlreadyApplied,
    /// Byte for byte, line endings aside.
    Exact,
    /// By line numbers, guarded by the SHA-256 of the lines.
    Lines,
    /// By the unchanged lines of a sketch.
    Sketch,
    /// But for blanks at the ends of lines.
    TrailingWhitespace,
    /// But for the indentation.
    Indentation,
    /// But for typographic quotes, dashes and spaces.
    Typographic,
    /// But for the line numbers of a listing.
    LineNumbers,
    /// But for the escapes of JSON.
    Escapes,
    /// But for blank lines, or the first or last line break.
    BlankLines,
}

impl From<Tier> for Matched {
    fn from(tier: Tier) -> Self {
        match tier {
            Tier::TrailingWhitespace => Self::TrailingWhitespace,
            Tier::Indentation => Self::Indentation,
            Tier::Typographic => Self::Typographic,
            Tier::LineNumbers => Self::LineNumbers,
            Tier::Escapes => Self::Escapes,
            Tier::BlankLines => Self::BlankLines,
        }
    }
}

impl Matched {
    /// What a person should be told of it, where it was not to be expected.
    #[must_use]
    pub const fn remark(self) -> &'static str {
        match self {
            Self::AlreadyApplied | Self::Exact | Self::Lines | Self::Sketch => "",
            Self::TrailingWhitespace => ", but for trailing whitespace",
            Self::Indentation => ", but for indentation",
            Self::Typographic => ", but for typographic characters",
            Self::LineNumbers => ", but for line numbers",
            Self::Escapes => ", but for escapes",
            Self::BlankLines => ", but for blank lines",
        }
    }
}
