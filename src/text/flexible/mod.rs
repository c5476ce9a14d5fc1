//! Text found although it differs from the file in a way that never matters to its writer.
//!
//! The classes of such differences are tiers, tried in a fixed order, each a pure function over a
//! text whose lines end in LF. Two texts are of one class or they are not: nothing is measured. The
//! first tier that finds the text anywhere decides; whoever asks changes something only where that
//! is one place alone.

mod blank_lines;
#[cfg(test)]
mod damage_tests;
mod escapes;
mod indentation;
mod indents;
mod letters;
mod line_numbers;
mod place;
mod trailing_whitespace;
mod typographic;

use std::cell::Cell;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

pub use place::{PLACES_MAX, Unfit};
pub(in crate::text) use typographic::on_keyboard;

/// How much of two texts is compared, in bytes; more takes too long.
const WORK_MAX: usize = 200_000_000;
/// What comparing two lines counts for beside their bytes.
const LINE_WORK: usize = 16;

/// What a search may still cost. It is counted in bytes, so that what is found depends on no clock.
struct Work(Cell<usize>);

impl Work {
    /// That of a search which begins.
    const fn new() -> Self {
        Self(Cell::new(WORK_MAX))
    }

    /// Takes away what comparing a line costs; `None` where nothing is left.
    fn line(&self, line: &[u8]) -> Option<()> {
        let left = self.0.get().checked_sub(line.len() + LINE_WORK);
        self.0.set(left.unwrap_or(0));
        left.map(|_| ())
    }

    /// Whether nothing is left, so that places may have been missed.
    fn is_done(&self) -> bool {
        self.0.get() == 0
    }
}

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
pub struct TierMatch {
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
pub fn find(text: &[u8], old: &[u8], new: &[u8], within: &Range<usize>) -> Option<TierMatch> {
    let inside = |place: &Range<usize>| within.start <= place.start && place.end <= within.end;
    let work = Work::new();
    let dangles = blank_lines::only_dangles(text, old);
    let first = dangles.then_some(Tier::BlankLines);
    for (tier, is_extra) in
        first.map(|tier| (tier, true)).into_iter().chain(Tier::ALL.map(|tier| (tier, false)))
    {
        let mut places = tier.places(text, old, &work);
        // Where places may have been missed, nothing is known to be the only one.
        if work.is_done() {
            return None;
        }
        places.retain(|place| inside(&place.range));
        places.sort_by_key(|place| (place.range.start, place.range.end));
        places.dedup_by(|one, other| one.range == other.range);
        let Some(only) = places.first() else { continue };
        let fitted = tier.fitted(text, only, old, new);
        let mut ranges: Vec<Range<usize>> = places.iter().map(|place| place.range.clone()).collect();
        let new_text = match (fitted, ranges.as_mut_slice()) {
            (Ok((range, new_text)), [only]) => {
                *only = range;
                Ok(new_text)
            }
            (fitted, _) => fitted.map(|(_, new_text)| new_text),
        };
        // Where it does not fit without its edge, the edge may be a blank line of the file.
        if is_extra && (new_text.is_err() || ranges.len() > 1) {
            continue;
        }
        return Some(TierMatch { tier, ranges, new_text });
    }
    None
}

impl Tier {
    /// Where the tier finds `old`.
    fn places(self, text: &[u8], old: &[u8], work: &Work) -> Vec<place::MatchedLines> {
        match self {
            Self::TrailingWhitespace => trailing_whitespace::places(text, old, work),
            Self::Indentation => indentation::places(text, old, work),
            Self::Typographic => typographic::places(text, old, work),
            Self::LineNumbers => line_numbers::places(text, old, work),
            Self::Escapes => escapes::places(text, old, work),
            Self::BlankLines => blank_lines::places(text, old, work),
        }
    }

    /// What is replaced at a place, and what `new` becomes there.
    fn fitted(
        self,
        text: &[u8],
        place: &place::MatchedLines,
        old: &[u8],
        new: &[u8],
    ) -> Result<(Range<usize>, Vec<u8>), Unfit> {
        let new_text = match self {
            Self::TrailingWhitespace => place::as_given(text, place, old, new)?,
            Self::Indentation => indentation::new_text(text, place, old, new)?,
            Self::Typographic => typographic::new_text(text, place, old, new)?,
            Self::LineNumbers => line_numbers::new_text(text, place, old, new)?,
            Self::Escapes => escapes::new_text(text, place, old, new)?,
            Self::BlankLines => return blank_lines::fitted(text, place, old, new),
        };
        Ok((place.range.clone(), new_text))
    }
}

/// Why a new text is not made where lbx itself has erred.
const OUT_OF_RANGE: &str = "a computed range lies outside the text";

impl From<super::checked::Fault> for Unfit {
    fn from(_: super::checked::Fault) -> Self {
        Self(OUT_OF_RANGE.to_owned())
    }
}
