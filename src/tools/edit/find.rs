//! Finds the old text of an edit.

use std::ops::{Deref, Range};

use schemars::JsonSchema;
use serde::Serialize;

use super::step::{Count, TextToReplace};
use crate::buffer::Buffer;
use crate::text::flexible::{self, Tier, Unfit};
use crate::text::replace::{self, Flat};

/// What was found of an edit's old text.
pub enum MatchedPlaces {
    /// The places to replace.
    Places(Vec<Range<usize>>),
    /// All places, none overlapping another, of which there are so many.
    All(usize),
    /// The only place that a tier leaves, and what comes there.
    Fitted(Tier, Range<usize>, Vec<u8>),
}

/// Why an edit's old text names no place to replace.
#[derive(Debug)]
pub enum Missed {
    /// It is nowhere in the lines that the edit is narrowed to; outside them it is at these places.
    Nowhere(Vec<Range<usize>>),
    /// It is in another number of places than may be replaced; found by a tier, or exactly.
    TooMany(Option<Tier>, Tally),
    /// It is in fewer places than the number of the one wanted.
    TooFew(Tally),
    /// The new text does not fit the only place that a tier leaves.
    Unfit(Tier, Range<usize>, Unfit),
}

/// Places that are kept of those which are counted.
const PLACES_KEPT: usize = 1000;

/// How often a text is found, and where first.
#[derive(Debug)]
pub struct Tally {
    /// How many places there are; they may overlap.
    pub all: usize,
    /// How many do not overlap one before.
    pub apart: usize,
    /// The first of all.
    pub first: Vec<Range<usize>>,
    /// The first of those that do not overlap.
    pub first_apart: Vec<Range<usize>>,
}

impl Tally {
    /// Counts places, which ascend.
    pub fn of(places: impl Iterator<Item = Range<usize>>) -> Self {
        let (mut first, mut first_apart) = (Vec::new(), Vec::new());
        let (mut all, mut apart, mut end) = (0, 0, 0);
        for place in places {
            all += 1;
            if place.start >= end {
                end = place.end;
                apart += 1;
                if first_apart.len() < PLACES_KEPT {
                    first_apart.push(place.clone());
                }
            }
            if first.len() < PLACES_KEPT {
                first.push(place);
            }
        }
        Self { all, apart, first, first_apart }
    }
}

/// Looks for an edit's old text within a range of the file's text.
pub fn find(body: &[u8], wanted: &TextToReplace, within: &Range<usize>) -> Result<MatchedPlaces, Missed> {
    let text = Searched::of(body, within);
    let needle = replace::flat_needle(wanted.old.as_bytes(), body);
    let tally = Tally::of(text.each(&needle, wanted.word));
    if tally.all == 0 && wanted.flexible && !wanted.word {
        return flexibly(body, wanted, within);
    }
    match wanted.count {
        _ if tally.all == 0 => Err(nowhere(body, wanted, within)),
        Count::Exactly(expected) if expected == tally.apart => Ok(MatchedPlaces::All(tally.apart)),
        Count::All => Ok(MatchedPlaces::All(tally.apart)),
        Count::One if tally.all == 1 => Ok(MatchedPlaces::Places(tally.first)),
        Count::Nth(number) => match replace::apart(text.each(&needle, wanted.word)).nth(number - 1) {
            Some(place) => Ok(MatchedPlaces::Places(Vec::from([place]))),
            None => Err(Missed::TooFew(tally)),
        },
        Count::One | Count::Exactly(_) => Err(Missed::TooMany(None, tally)),
    }
}

/// Returns the miss of a text that is nowhere within a range.
fn nowhere(body: &[u8], wanted: &TextToReplace, within: &Range<usize>) -> Missed {
    let all = 0..body.len();
    Missed::Nowhere(if *within == all { Vec::new() } else { exact(body, &wanted.old, wanted.word, &all) })
}

/// Returns the first places at which a text stands exactly, within a range.
pub fn exact(body: &[u8], text: &str, word: bool, within: &Range<usize>) -> Vec<Range<usize>> {
    let needle = replace::flat_needle(text.as_bytes(), body);
    Searched::of(body, within).each(&needle, word).take(PLACES_KEPT).collect()
}

/// A text in which several others are looked for, within a range.
pub struct Searched<'a> {
    /// The text with its line endings flattened.
    flat: Flat<'a>,
    /// The range.
    within: &'a Range<usize>,
}

impl<'a> Searched<'a> {
    /// Flattens `body`, to be searched within a range.
    pub fn of(body: &'a [u8], within: &'a Range<usize>) -> Self {
        Self { flat: Flat::of(body), within }
    }

    /// Returns every place at which a flattened text stands exactly.
    pub fn each<'t>(&'t self, needle: &'t [u8], word: bool) -> impl Iterator<Item = Range<usize>> + 't {
        let within = self.within;
        replace::each_place(&self.flat, needle, word)
            .filter(move |place| within.start <= place.start && place.end <= within.end)
    }
}

/// Looks for an old text that stands nowhere exactly.
///
/// Whatever the request says of several places, a tier must leave one alone: nobody has seen the
/// others, so that nobody can have meant them.
fn flexibly(body: &[u8], wanted: &TextToReplace, within: &Range<usize>) -> Result<MatchedPlaces, Missed> {
    let Some(found) = by_tier(body, &wanted.old, &wanted.new, within) else {
        return Err(nowhere(body, wanted, within));
    };
    let [only] = found.ranges.as_slice() else {
        return Err(Missed::TooMany(Some(found.tier), Tally::of(found.ranges.into_iter())));
    };
    match wanted.count {
        Count::One | Count::All | Count::Exactly(1) | Count::Nth(1) => {}
        Count::Exactly(_) => {
            return Err(Missed::TooMany(Some(found.tier), Tally::of(found.ranges.into_iter())));
        }
        Count::Nth(_) => return Err(Missed::TooFew(Tally::of(found.ranges.into_iter()))),
    }
    // A tier may find the old text within the new one, where the edit was made before.
    let is_around = |place: &Range<usize>| place.start <= only.start && only.end <= place.end;
    if places_of_new(body, wanted, within, Some(found.tier)).iter().any(is_around) {
        return Err(nowhere(body, wanted, within));
    }
    match found.new_text {
        Err(why) => Err(Missed::Unfit(found.tier, only.clone(), why)),
        Ok(new) => {
            let replaced = replace::replace(body, std::slice::from_ref(only), &new, usize::MAX);
            if replaced.is_ok_and(|replaced| *replaced.body == *body) {
                Err(nowhere(body, wanted, within))
            } else {
                Ok(MatchedPlaces::Fitted(found.tier, only.clone(), new))
            }
        }
    }
}

/// Returns the places at which the new text stands, exactly or as the edit may match.
pub fn new_text(body: &[u8], wanted: &TextToReplace, within: &Range<usize>) -> Vec<Range<usize>> {
    places_of_new(body, wanted, within, None)
}

/// Returns the same, where `old` is the tier by which the old text was found: where the new one differs more from
/// what stands there, it is not the one that stands there.
fn places_of_new(
    body: &[u8],
    wanted: &TextToReplace,
    within: &Range<usize>,
    old: Option<Tier>,
) -> Vec<Range<usize>> {
    let places = exact(body, &wanted.new, wanted.word, within);
    if !places.is_empty() || !wanted.flexible || wanted.word || wanted.new.trim().is_empty() {
        return places;
    }
    let found = by_tier(body, &wanted.new, &wanted.old, within);
    let found = found.filter(|found| old.is_none_or(|old| found.tier <= old));
    found.map_or_else(Vec::new, |found| found.ranges)
}

/// Returns what the first tier that finds the old text finds; its places are those of the file's own bytes.
pub fn by_tier(body: &[u8], old: &str, new: &str, within: &Range<usize>) -> Option<flexible::TierMatch> {
    let flat = Flat::of(body);
    let old = replace::flat_needle(old.as_bytes(), body);
    let new = replace::flat_needle(new.as_bytes(), body);
    let flat_within = flat.flattened(within.start)..flat.flattened(within.end);
    let mut found = flexible::find(&flat.text, &old, &new, &flat_within)?;
    for range in &mut found.ranges {
        *range = flat.original(range.start)..flat.original(range.end);
    }
    Some(found)
}

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
    /// Returns the text, to be kept.
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
    /// Returns what a person should be told of it, where it was not to be expected.
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
