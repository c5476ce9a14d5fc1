//! Text found although it differs from the file in a way that never matters to its writer.
//!
//! The classes of such differences are tiers, tried in a fixed order, each a pure function over a
//! text whose lines end in LF. Two texts are of one class or they are not: nothing is measured. The
//! first tier that finds the text anywhere decides; whoever asks changes something only where that
//! is one place alone.

mod blank_lines;
mod escapes;
mod indentation;
mod indents;
mod line_numbers;
mod place;
mod trailing_whitespace;
mod typographic;

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

pub use place::Unfit;

/// Places that are looked for; more are as ambiguous as these.
pub const PLACES_MAX: usize = 1000;

/// A class of differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Blanks at the ends of lines.
    TrailingWhitespace,
    /// The same shift of all lines, or tabs against spaces.
    Indentation,
    /// Typographic quotes, dashes and spaces.
    Typographic,
    /// The prefixes of a numbered listing.
    LineNumbers,
    /// Escapes that a JSON text would have: `\n`, `\t`, `\"`.
    Escapes,
    /// Blank lines, and the first or last line break.
    BlankLines,
}

impl Tier {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 6] = [
        Self::TrailingWhitespace,
        Self::Indentation,
        Self::Typographic,
        Self::LineNumbers,
        Self::Escapes,
        Self::BlankLines,
    ];

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TrailingWhitespace => "trailing_whitespace",
            Self::Indentation => "indentation",
            Self::Typographic => "typographic",
            Self::LineNumbers => "line_numbers",
            Self::Escapes => "escapes",
            Self::BlankLines => "blank_lines",
        }
    }

    /// What differs, for a sentence.
    #[must_use]
    pub const fn difference(self) -> &'static str {
        match self {
            Self::TrailingWhitespace => "blanks at the ends of lines",
            Self::Indentation => "the indentation",
            Self::Typographic => "typographic quotes, dashes or spaces",
            Self::LineNumbers => "line numbers copied from a listing",
            Self::Escapes => "escapes such as \\n or \\\"",
            Self::BlankLines => "blank lines, or the first or last line break",
        }
    }
}

/// What a tier found: at least one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The tier.
    pub tier: Tier,
    /// The places, ascending; at most [`PLACES_MAX`].
    pub ranges: Vec<Range<usize>>,
    /// What stands in the only place afterwards; `Err` where the new text does not fit there.
    pub new_text: Result<Vec<u8>, Unfit>,
}

/// Looks for `old` in `text`, both with LF alone as line ending, within a range of its bytes.
///
/// The first tier that finds it anywhere answers, with what `new` becomes in the file's own form.
#[must_use]
pub fn find(text: &[u8], old: &[u8], new: &[u8], within: &Range<usize>) -> Option<Found> {
    let inside = |place: &Range<usize>| within.start <= place.start && place.end <= within.end;
    Tier::ALL.into_iter().find_map(|tier| {
        let mut places = tier.places(text, old);
        places.retain(|place| inside(&place.range));
        places.sort_by_key(|place| (place.range.start, place.range.end));
        places.dedup_by(|one, other| one.range == other.range);
        let only = places.first()?;
        let new_text = tier.new_text(text, only, old, new);
        let ranges = places.iter().map(|place| place.range.clone()).collect();
        Some(Found { tier, ranges, new_text })
    })
}

impl Tier {
    /// Where the tier finds `old`.
    fn places(self, text: &[u8], old: &[u8]) -> Vec<place::Place> {
        match self {
            Self::TrailingWhitespace => trailing_whitespace::places(text, old),
            Self::Indentation => indentation::places(text, old),
            Self::Typographic => typographic::places(text, old),
            Self::LineNumbers => line_numbers::places(text, old),
            Self::Escapes => escapes::places(text, old),
            Self::BlankLines => blank_lines::places(text, old),
        }
    }

    /// What `new` becomes at a place.
    fn new_text(self, text: &[u8], place: &place::Place, old: &[u8], new: &[u8]) -> Result<Vec<u8>, Unfit> {
        match self {
            Self::TrailingWhitespace | Self::BlankLines => Ok(place::as_given(text, place, old, new)),
            Self::Indentation => indentation::new_text(text, place, old, new),
            Self::Typographic => Ok(typographic::new_text(text, place, old, new)),
            Self::LineNumbers => line_numbers::new_text(text, place, old, new),
            Self::Escapes => escapes::new_text(text, old, new),
        }
    }
}
