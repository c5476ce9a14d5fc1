//! One edit of a text: the places to replace, and their new text.

use std::ops::Range;

use super::error::Why;
use super::find::{self, Matched, MatchedPlaces, PLACES_MAX, Searched};
use super::step::{EditStep, TextToReplace, What};
use crate::text::checked::Fault;
use crate::text::lines::LineEnding;
use crate::text::replace::{self, Flat, Replaced};
use crate::text::{lines, sketch};
use crate::tools::common::PLACES_LISTED;

/// Replacement by one edit.
pub enum Replacement {
    /// Nothing to replace: the new text is already at this place.
    None(Range<usize>),
    /// Some places.
    Places {
        /// Kind of match.
        matched: Matched,
        /// Places in the old text; empty if there are too many to keep.
        places: Vec<Range<usize>>,
        /// New text.
        replaced: Replaced,
        /// Lines that a sketch leaves out.
        left_out: Vec<(usize, usize)>,
    },
}

/// Text that is being edited.
#[derive(Clone, Copy)]
pub struct Text<'b> {
    /// Current text.
    pub body: &'b [u8],
    /// Line ending before all edits, if it was uniform: new lines get it if the text has none left. It is a function,
    /// because a large file needs a whole pass for it.
    pub usual: &'b dyn Fn() -> LineEnding,
}

/// Computes the replacement by one edit within a range of the text.
pub fn replacement<'a>(
    text: Text<'_>,
    step: &'a EditStep,
    scope: &Range<usize>,
    touched: &[Range<usize>],
    bytes_max: usize,
) -> Result<Replacement, Why<'a>> {
    let body = text.body;
    match &step.what {
        What::Text(wanted) => of_text(text, wanted, scope, bytes_max),
        What::Lines { new } => {
            if touched.iter().any(|earlier| earlier.start < scope.end && scope.start < earlier.end) {
                return Err(Why::Touched);
            }
            let old = body.get(scope.clone()).unwrap_or_default();
            let style = match LineEnding::of(body) {
                LineEnding::None => (text.usual)(),
                own => own,
            };
            let new = lines::ending_like(new.as_bytes(), old, style);
            let places = vec![scope.clone()];
            Ok(changed(text, Matched::Lines, places, &[new.as_ref()], bytes_max)?)
        }
        What::Sketch { sketch } => of_sketch(text, step, sketch, scope, bytes_max),
    }
}

/// Replaces a text.
fn of_text<'a>(
    text: Text<'_>,
    wanted: &'a TextToReplace,
    scope: &Range<usize>,
    bytes_max: usize,
) -> Result<Replacement, Why<'a>> {
    let body = text.body;
    let found = find::find(body, wanted, scope).map_err(|missed| Why::Text(wanted, missed, scope.clone()))?;
    let new = wanted.new.as_bytes();
    let searched = Searched::of(body, scope);
    let needle = replace::flat_needle(wanted.old.as_bytes(), body);
    let apart = || replace::apart(searched.each(&needle, wanted.word));
    let places: Vec<Range<usize>> = match found {
        MatchedPlaces::Places(places) => places,
        MatchedPlaces::All(count) if count <= PLACES_MAX => apart().collect(),
        MatchedPlaces::All(_) => {
            let changes = || apart().map(|place| (place, new));
            let replaced = replace::replace_each(body, changes, text.usual, PLACES_LISTED, bytes_max)?;
            let (matched, places, left_out) = (Matched::Exact, Vec::new(), Vec::new());
            return Ok(Replacement::Places { matched, places, replaced, left_out });
        }
        MatchedPlaces::Fitted(tier, place, new) => {
            return Ok(changed(text, tier.into(), vec![place], &[&new], bytes_max)?);
        }
    };
    let news = vec![new; places.len()];
    Ok(changed(text, Matched::Exact, places, &news, bytes_max)?)
}

/// Converts lines to the form of a sketch.
fn of_sketch<'a>(
    text: Text<'_>,
    step: &'a EditStep,
    sketch: &str,
    scope: &Range<usize>,
    bytes_max: usize,
) -> Result<Replacement, Why<'a>> {
    let body = text.body;
    let flat = Flat::of(body);
    let sketch = replace::flat_needle(sketch.as_bytes(), body);
    let within = flat.flattened(scope.start)..flat.flattened(scope.end);
    let first_line = step.lines.map_or(1, |lines| usize::try_from(lines.first).unwrap_or(usize::MAX));
    let changes = sketch::changes(&flat.text, &sketch, &within, first_line).map_err(Why::Sketch)?;
    let places: Vec<Range<usize>> = changes
        .iter()
        .map(|change| flat.original(change.range.start)..flat.original(change.range.end))
        .collect();
    if places.is_empty() {
        return Ok(Replacement::None(scope.clone()));
    }
    let news: Vec<&[u8]> = changes.iter().map(|change| change.new.as_slice()).collect();
    let left_out = changes.iter().flat_map(|change| change.left_out.iter().copied()).collect();
    Ok(match changed(text, Matched::Sketch, places, &news, bytes_max)? {
        Replacement::Places { matched, places, replaced, .. } => {
            Replacement::Places { matched, places, replaced, left_out }
        }
        other @ Replacement::None(_) => other,
    })
}

/// Writes each new text at its place.
fn changed(
    text: Text<'_>,
    matched: Matched,
    places: Vec<Range<usize>>,
    news: &[&[u8]],
    bytes_max: usize,
) -> Result<Replacement, Fault> {
    let body = text.body;
    let changes = || places.iter().cloned().zip(news.iter().copied());
    let replaced = replace::replace_each(body, changes, text.usual, usize::MAX, bytes_max)?;
    if let ([old], [new]) = (places.as_slice(), replaced.ranges.as_slice())
        && body.get(old.clone()) == replaced.body.get(new.clone())
    {
        return Ok(Replacement::None(old.clone()));
    }
    Ok(Replacement::Places { matched, places, replaced, left_out: Vec::new() })
}
