//! Where the old text of an edit stands.

use std::ops::Range;

use super::step::{Count, Wanted};
use crate::text::flexible::{self, Tier, Unfit};
use crate::text::replace::{self, Flat};

/// What was found of an edit's old text.
pub enum Found {
    /// The places to replace.
    Places(Vec<Range<usize>>),
    /// The only place that a tier leaves, and what comes there.
    Fitted(Tier, Range<usize>, Vec<u8>),
    /// Nothing.
    Nothing,
    /// Another number of places than may be replaced; found by a tier, or exactly.
    TooMany(Option<Tier>, Vec<Range<usize>>),
    /// Fewer places than the number of the one wanted.
    TooFew(Vec<Range<usize>>),
    /// The only place that a tier leaves, where the new text does not fit.
    Unfit(Tier, Range<usize>, Unfit),
}

/// Looks for an edit's old text within a range of the file's text.
pub fn find(body: &[u8], wanted: &Wanted, within: &Range<usize>) -> Found {
    let text = Searched::of(body, within);
    let places = text.places(&wanted.old, wanted.word);
    if places.is_empty() && wanted.flexible && !wanted.word {
        return flexibly(body, wanted, within);
    }
    if places.is_empty() {
        return Found::Nothing;
    }
    let apart = replace::without_overlaps(&places);
    match wanted.count {
        Count::Exactly(expected) if expected == apart.len() => Found::Places(apart),
        Count::All => Found::Places(apart),
        Count::One if places.len() == 1 => Found::Places(apart),
        Count::Nth(number) => match apart.get(number - 1) {
            Some(place) => Found::Places(vec![place.clone()]),
            None => Found::TooFew(apart),
        },
        Count::One | Count::Exactly(_) => Found::TooMany(None, places),
    }
}

/// The places at which a text stands exactly, within a range.
pub fn exact(body: &[u8], text: &str, word: bool, within: &Range<usize>) -> Vec<Range<usize>> {
    Searched::of(body, within).places(text, word)
}

/// A text in which several others are looked for, within a range.
struct Searched<'a> {
    /// The text.
    body: &'a [u8],
    /// The same with its line endings flattened.
    flat: Flat<'a>,
    /// The range.
    within: &'a Range<usize>,
}

impl<'a> Searched<'a> {
    /// That of `body`.
    fn of(body: &'a [u8], within: &'a Range<usize>) -> Self {
        Self { body, flat: Flat::of(body), within }
    }

    /// The places at which a text stands exactly.
    fn places(&self, text: &str, word: bool) -> Vec<Range<usize>> {
        let needle = replace::flat_needle(text.as_bytes(), self.body);
        let mut places = replace::places_in(&self.flat, &needle, word);
        places.retain(|place| self.within.start <= place.start && place.end <= self.within.end);
        places
    }
}

/// Looks for an old text that stands nowhere exactly.
///
/// Whatever the request says of several places, a tier must leave one alone: nobody has seen the
/// others, so that nobody can have meant them.
fn flexibly(body: &[u8], wanted: &Wanted, within: &Range<usize>) -> Found {
    let Some(found) = by_tier(body, &wanted.old, &wanted.new, within) else {
        return Found::Nothing;
    };
    let [only] = found.ranges.as_slice() else {
        return Found::TooMany(Some(found.tier), found.ranges);
    };
    match wanted.count {
        Count::One | Count::All | Count::Exactly(1) | Count::Nth(1) => {}
        Count::Exactly(_) => return Found::TooMany(Some(found.tier), found.ranges),
        Count::Nth(_) => return Found::TooFew(found.ranges),
    }
    // A tier may find the old text within the new one, where the edit was made before.
    let is_around = |place: &Range<usize>| place.start <= only.start && only.end <= place.end;
    if new_text(body, wanted, within).iter().any(is_around) {
        return Found::Nothing;
    }
    match found.new_text {
        Err(why) => Found::Unfit(found.tier, only.clone(), why),
        Ok(new) => {
            let replaced = replace::replace(body, std::slice::from_ref(only), &new, usize::MAX);
            if replaced.is_ok_and(|replaced| *replaced.body == *body) {
                Found::Nothing
            } else {
                Found::Fitted(found.tier, only.clone(), new)
            }
        }
    }
}

/// The places at which the new text stands, exactly or as the edit may match.
pub fn new_text(body: &[u8], wanted: &Wanted, within: &Range<usize>) -> Vec<Range<usize>> {
    let places = exact(body, &wanted.new, wanted.word, within);
    if !places.is_empty() || !wanted.flexible || wanted.word || wanted.new.trim().is_empty() {
        return places;
    }
    by_tier(body, &wanted.new, &wanted.old, within).map_or_else(Vec::new, |found| found.ranges)
}

/// What the first tier that finds the old text finds; its places are those of the file's own bytes.
pub fn by_tier(body: &[u8], old: &str, new: &str, within: &Range<usize>) -> Option<flexible::Found> {
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
