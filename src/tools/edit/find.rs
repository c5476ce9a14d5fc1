//! Where the old text of an edit stands.

use std::ops::Range;

use super::step::{Count, Wanted};
use crate::text::flexible::{self, Tier, Unfit};
use crate::text::replace::{self, Flat};

/// How much text, blanks aside, must stand where an edit counts as applied already: less may
/// stand there by chance.
const APPLIED_BYTES_MIN: usize = 4;

/// What was found of an edit's old text.
pub enum Found {
    /// The places to replace.
    Places(Vec<Range<usize>>),
    /// The only place that a tier leaves, and what comes there.
    Fitted(Tier, Range<usize>, Vec<u8>),
    /// The new text, which stands there already.
    Applied(Range<usize>),
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
    if let Some(applied) = already_applied(&text, &places, wanted) {
        return Found::Applied(applied);
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

    /// Whether a text has another in it.
    fn contains(&self, text: &str, part: &str) -> bool {
        let [text, part] = [text, part].map(|text| replace::flat_needle(text.as_bytes(), self.body));
        memchr::memmem::find(&text, &part).is_some()
    }
}

/// Where the new text stands, if it stands in one place alone and every place of the old text is a
/// part of it.
fn already_applied(
    text: &Searched<'_>,
    old_places: &[Range<usize>],
    wanted: &Wanted,
) -> Option<Range<usize>> {
    // A large file is not looked through for what cannot have the old text in it.
    let may_have_old = old_places.is_empty() || text.contains(&wanted.new, &wanted.old);
    if !may_be_applied(&wanted.new) || !may_have_old {
        return None;
    }
    let new_places = text.places(&wanted.new, wanted.word);
    let [only] = new_places.as_slice() else {
        return None;
    };
    let is_inside = |old: &Range<usize>| only.start <= old.start && old.end <= only.end;
    old_places.iter().all(is_inside).then(|| only.clone())
}

/// Whether a new text is long enough to be known again.
fn may_be_applied(new: &str) -> bool {
    new.bytes().filter(|byte| !byte.is_ascii_whitespace()).count() >= APPLIED_BYTES_MIN
}

/// Looks for an old text that stands nowhere exactly.
///
/// Whatever the request says of several places, a tier must leave one alone: nobody has seen the
/// others, so that nobody can have meant them.
fn flexibly(body: &[u8], wanted: &Wanted, within: &Range<usize>) -> Found {
    let Some(found) = by_tier(body, &wanted.old, &wanted.new, within) else {
        return known_new_text(body, wanted, within).map_or(Found::Nothing, Found::Applied);
    };
    let [only] = found.ranges.as_slice() else {
        return Found::TooMany(Some(found.tier), found.ranges);
    };
    match wanted.count {
        Count::One | Count::All | Count::Exactly(1) | Count::Nth(1) => {}
        Count::Exactly(_) => return Found::TooMany(Some(found.tier), found.ranges),
        Count::Nth(_) => return Found::TooFew(found.ranges),
    }
    // An edit that adds to what it finds would find it in its own result again.
    if let Some(place) = known_new_text(body, wanted, within)
        && place.len() > only.len()
        && place.start <= only.start
        && only.end <= place.end
    {
        return Found::Applied(place);
    }
    match found.new_text {
        Err(why) => Found::Unfit(found.tier, only.clone(), why),
        Ok(new) => {
            let replaced = replace::replace(body, std::slice::from_ref(only), &new);
            if *replaced.body == *body {
                Found::Applied(only.clone())
            } else {
                Found::Fitted(found.tier, only.clone(), new)
            }
        }
    }
}

/// The only place at which the new text stands, exactly or by a tier.
fn known_new_text(body: &[u8], wanted: &Wanted, within: &Range<usize>) -> Option<Range<usize>> {
    if !may_be_applied(&wanted.new) {
        return None;
    }
    let mut places = exact(body, &wanted.new, wanted.word, within);
    if places.is_empty() {
        places = by_tier(body, &wanted.new, &wanted.old, within)?.ranges;
    }
    match places.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
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
