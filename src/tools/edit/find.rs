//! Finds the old text of an edit.

use std::ops::{Deref, Range};

use schemars::JsonSchema;
use serde::Serialize;

use super::step::{MatchCount, TextToReplace};
use crate::buffer::Buffer;
use crate::text::flexible::{self, FlexibleTier, Mismatch};
use crate::text::replace::{self, LfText};
use crate::text::replaced_lines::ReplacedLines;

/// Places of the old text of an edit.
pub enum MatchedPlaces {
    /// Places to replace.
    Places(Vec<Range<usize>>),
    /// All non-overlapping places; this is their number.
    All(usize),
    /// Only place that a tier finds, and its new text.
    Fitted(FlexibleTier, Range<usize>, Vec<u8>),
}

/// Reason why the old text does not identify a place to replace.
#[derive(Debug)]
pub enum FindError {
    /// No match in the lines of the edit; these are the matches outside them.
    Nowhere(Vec<Range<usize>>),
    /// Wrong number of matches; found by a tier, or exactly.
    TooMany(Option<FlexibleTier>, MatchTally),
    /// Fewer matches than the requested number.
    TooFew(MatchTally),
    /// Only place that a tier finds, which the new text does not fit.
    Unfit(FlexibleTier, Range<usize>, Mismatch),
}

/// Largest number of places that are kept; more are only counted.
const PLACES_KEPT: usize = 1000;

/// Number of matches of a text, and the first places.
#[derive(Debug)]
pub struct MatchTally {
    /// Number of matches; they may overlap.
    pub all: usize,
    /// Number of matches that do not overlap an earlier one.
    pub apart: usize,
    /// First matches of all.
    pub first: Vec<Range<usize>>,
    /// First matches that do not overlap.
    pub first_apart: Vec<Range<usize>>,
}

impl MatchTally {
    /// Counts places, given in ascending order.
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

/// Searches for the old text of an edit in a range of the file.
pub fn find(body: &[u8], wanted: &TextToReplace, within: &Range<usize>) -> Result<MatchedPlaces, FindError> {
    let text = SearchRange::of(body, within);
    let needle = replace::flat_needle(wanted.old.as_bytes(), body);
    let tally = MatchTally::of(text.exact_matches(&needle, wanted.word));
    if tally.all == 0 && wanted.flexible && !wanted.word {
        return flexibly(body, wanted, within);
    }
    match wanted.count {
        _ if tally.all == 0 => Err(no_match_error(body, wanted, within)),
        MatchCount::Exactly(expected) if expected == tally.apart => Ok(MatchedPlaces::All(tally.apart)),
        MatchCount::All => Ok(MatchedPlaces::All(tally.apart)),
        MatchCount::One if tally.all == 1 => Ok(MatchedPlaces::Places(tally.first)),
        MatchCount::Nth(number) => {
            match replace::separate_places(text.exact_matches(&needle, wanted.word)).nth(number - 1) {
                Some(place) => Ok(MatchedPlaces::Places(Vec::from([place]))),
                None => Err(FindError::TooFew(tally)),
            }
        }
        MatchCount::One | MatchCount::Exactly(_) => Err(FindError::TooMany(None, tally)),
    }
}

/// Returns the error for a text without a match in a range.
fn no_match_error(body: &[u8], wanted: &TextToReplace, within: &Range<usize>) -> FindError {
    let all = 0..body.len();
    FindError::Nowhere(if *within == all { Vec::new() } else { exact(body, &wanted.old, wanted.word, &all) })
}

/// Returns the first exact matches of a text in a range.
pub fn exact(body: &[u8], text: &str, word: bool, within: &Range<usize>) -> Vec<Range<usize>> {
    let needle = replace::flat_needle(text.as_bytes(), body);
    SearchRange::of(body, within).exact_matches(&needle, word).take(PLACES_KEPT).collect()
}

/// Range of a text in which several other texts are searched.
pub struct SearchRange<'a> {
    /// Text with its line endings flattened.
    flat: LfText<'a>,
    /// Range to search.
    within: &'a Range<usize>,
}

impl<'a> SearchRange<'a> {
    /// Flattens `body` for a search in a range.
    pub fn of(body: &'a [u8], within: &'a Range<usize>) -> Self {
        Self { flat: LfText::of(body), within }
    }

    /// Returns every exact match of a flattened text.
    pub fn exact_matches<'t>(
        &'t self,
        needle: &'t [u8],
        word: bool,
    ) -> impl Iterator<Item = Range<usize>> + 't {
        let within = self.within;
        replace::each_place(&self.flat, needle, word)
            .filter(move |place| within.start <= place.start && place.end <= within.end)
    }
}

/// Searches for an old text that has no exact match.
///
/// A tier must find exactly one match, even if the request allows several: nobody has seen the others, so nobody can
/// have meant them.
fn flexibly(body: &[u8], wanted: &TextToReplace, within: &Range<usize>) -> Result<MatchedPlaces, FindError> {
    let Some(found) = by_tier(body, &wanted.old, &wanted.new, within) else {
        return Err(no_match_error(body, wanted, within));
    };
    let [only] = found.ranges.as_slice() else {
        return Err(FindError::TooMany(Some(found.tier), MatchTally::of(found.ranges.into_iter())));
    };
    match wanted.count {
        MatchCount::One | MatchCount::All | MatchCount::Exactly(1) | MatchCount::Nth(1) => {}
        MatchCount::Exactly(_) => {
            return Err(FindError::TooMany(Some(found.tier), MatchTally::of(found.ranges.into_iter())));
        }
        MatchCount::Nth(_) => return Err(FindError::TooFew(MatchTally::of(found.ranges.into_iter()))),
    }
    // A tier may find the old text inside the new one, if the edit was already applied.
    let is_around = |place: &Range<usize>| place.start <= only.start && only.end <= place.end;
    if places_of_new(body, wanted, within, Some(found.tier)).iter().any(is_around) {
        return Err(no_match_error(body, wanted, within));
    }
    match found.new_text {
        Err(why) => Err(FindError::Unfit(found.tier, only.clone(), why)),
        Ok(new) => {
            let replaced = replace::replace(body, std::slice::from_ref(only), &new, usize::MAX);
            if replaced.is_ok_and(|replaced| *replaced.body == *body) {
                Err(no_match_error(body, wanted, within))
            } else {
                Ok(MatchedPlaces::Fitted(found.tier, only.clone(), new))
            }
        }
    }
}

/// Returns the places of the new text, exact or as the edit may match.
pub fn new_text(body: &[u8], wanted: &TextToReplace, within: &Range<usize>) -> Vec<Range<usize>> {
    places_of_new(body, wanted, within, None)
}

/// Returns the places of the new text; `old` is the tier that found the old text. The new text must match by that tier
/// or a more exact one.
fn places_of_new(
    body: &[u8],
    wanted: &TextToReplace,
    within: &Range<usize>,
    old: Option<FlexibleTier>,
) -> Vec<Range<usize>> {
    let places = exact(body, &wanted.new, wanted.word, within);
    if !places.is_empty() || !wanted.flexible || wanted.word || wanted.new.trim().is_empty() {
        return places;
    }
    let found = by_tier(body, &wanted.new, &wanted.old, within);
    let found = found.filter(|found| old.is_none_or(|old| found.tier <= old));
    found.map_or_else(Vec::new, |found| found.ranges)
}

/// Returns the match of the first tier that finds the old text, with places in the file's own bytes.
pub fn by_tier(body: &[u8], old: &str, new: &str, within: &Range<usize>) -> Option<flexible::TierMatch> {
    let flat = LfText::of(body);
    let old = replace::flat_needle(old.as_bytes(), body);
    let new = replace::flat_needle(new.as_bytes(), body);
    let flat_within = flat.flattened(within.start)..flat.flattened(within.end);
    let mut found = flexible::find(&flat.text, &old, &new, &flat_within)?;
    for range in &mut found.ranges {
        *range = flat.original(range.start)..flat.original(range.end);
    }
    Some(found)
}

/// Text of a file, borrowed or owned.
#[derive(Debug)]
pub enum FileBody<'a> {
    /// Original text.
    Borrowed(&'a [u8]),
    /// New text.
    Owned(Buffer),
}

impl FileBody<'_> {
    /// Returns the text as owned bytes.
    pub fn into_owned(self) -> Buffer {
        match self {
            Self::Borrowed(text) => text.to_vec().into(),
            Self::Owned(text) => text,
        }
    }
}

impl Deref for FileBody<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }
}

/// Text after all edits.
#[derive(Debug)]
pub struct EditResult<'a> {
    /// New text.
    pub body: FileBody<'a>,
    /// Ranges of the new texts in it, or the first of them.
    pub ranges: Vec<Range<usize>>,
    /// Number of ranges.
    pub count: usize,
    /// Kind of match.
    pub matched: MatchKind,
    /// Lines that a sketch leaves out, with their old numbers.
    pub left_out: Vec<(usize, usize)>,
    /// Lines that a sketch removes or replaces, with their old numbers.
    pub removed: Vec<(u64, u64)>,
    /// Lines that the edits replace, if their places tell.
    pub replaced: Option<Vec<ReplacedLines>>,
}

/// Kind of match; of several edits the least exact one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatchKind {
    /// New text is there already; nothing was changed.
    AlreadyApplied,
    /// Byte for byte, except line endings.
    Exact,
    /// By line numbers, checked by the SHA-256 of the lines.
    Lines,
    /// By the unchanged lines of a sketch.
    Sketch,
    /// But for a class of differences.
    #[serde(untagged)]
    Flexible(FlexibleTier),
}

impl MatchKind {
    /// Returns a note for a person if the match is not exact.
    pub fn remark(self) -> String {
        match self {
            Self::Flexible(tier) => format!(", but for {}", tier.difference()),
            Self::AlreadyApplied | Self::Exact | Self::Lines | Self::Sketch => String::new(),
        }
    }
}
