//! Applies many edits to one text in one pass.
//!
//! One search finds all old texts. The area around each change, as wide as the longest old text, is searched again, so
//! that each edit knows every current place of its old text. If an edit needs more than that, the whole list is applied
//! one by one.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::error::Miss;
use super::find::{Body, Edited, Matched};
use super::replacement::{Text, replacement};
use super::step::{Count, EditStep, What};
use crate::text::checked::Fault;
use crate::text::lines::{self, LineEnding};
use crate::text::replace::Pieces;
use crate::text::replace::{self, Flat};

/// Smallest number of edits that are applied this way.
const EDITS_MIN: usize = 16;
/// Largest old text, in bytes.
const NEEDLE_BYTES_MAX: usize = 64 << 10;
/// Largest total of all old texts, in bytes.
const NEEDLES_BYTES_MAX: usize = 4 << 20;
/// Largest number of places that are kept.
const PLACES_MAX: usize = 1 << 20;
/// Largest number of places that one edit replaces.
const REPLACED_MAX: usize = 1000;

/// Applies the edits to a text with uniform line endings; returns `None` if they must be applied one by one.
///
/// # Errors
/// Returns the error of the first edit that fails.
pub fn apply<'a>(
    body: &[u8],
    steps: &'a [EditStep],
    scopes: &[Range<usize>],
    bytes_max: usize,
) -> Result<Option<Edited<'static>>, Box<Miss<'a>>> {
    if steps.len() < EDITS_MIN {
        return Ok(None);
    }
    let Some(texts) = texts(steps) else { return Ok(None) };
    let Some((flat, is_crlf)) = flattened(body, steps) else { return Ok(None) };
    let flat_scopes: Vec<Range<usize>> =
        scopes.iter().map(|scope| flat.flattened(scope.start)..flat.flattened(scope.end)).collect();
    let Some(mut list) = List::of(&flat.text, &texts, flat_scopes) else { return Ok(None) };
    for (index, step) in steps.iter().enumerate() {
        match list.take(index, step, bytes_max)? {
            Some(()) => {}
            None => return Ok(None),
        }
    }
    let List { pieces, mut ranges, .. } = list;
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let text = pieces.whole();
    let endings = if is_crlf { memchr::memchr_iter(b'\n', &text).count() } else { 0 };
    crate::text::checked::must_fit(text.len() + endings, bytes_max)?;
    let body = if is_crlf {
        ranges = with_pairs(&text, &ranges);
        lines::with_ending(&text, b"\r\n")
    } else {
        text
    };
    let matched = steps.iter().map(|step| match step.what {
        What::Lines { .. } => Matched::Lines,
        What::Text(_) | What::Sketch { .. } => Matched::Exact,
    });
    Ok(Some(Edited {
        body: Body::Owned(body.into()),
        count: ranges.len(),
        ranges,
        matched: matched.max().unwrap_or(Matched::Exact),
        left_out: Vec::new(),
        removed: Vec::new(),
    }))
}

/// Returns the text with only LF, and true if its own line endings are CR LF. Requires uniform line endings, and no
/// others in the edits.
fn flattened<'b>(body: &'b [u8], steps: &[EditStep]) -> Option<(Flat<'b>, bool)> {
    let style = LineEnding::of(body);
    let has_lone_return = |text: &str| text.replace("\r\n", "\n").contains('\r');
    let texts = || {
        steps.iter().flat_map(|step| match &step.what {
            What::Text(wanted) => vec![wanted.old.as_str(), wanted.new.as_str()],
            What::Lines { new } => vec![new.as_str()],
            What::Sketch { sketch } => vec![sketch.as_str()],
        })
    };
    let fits = match style {
        LineEnding::Lf | LineEnding::Crlf => !texts().any(has_lone_return),
        LineEnding::None => !texts().any(|text| text.contains('\r')),
        LineEnding::Cr | LineEnding::Mixed => false,
    };
    fits.then(|| (Flat::of(body), style == LineEnding::Crlf))
}

/// Returns the old and new text of each edit, with only LF; `None` if one is not a plain edit.
fn texts(steps: &[EditStep]) -> Option<Vec<(Option<String>, String)>> {
    let flat = |text: &str| text.replace("\r\n", "\n");
    steps
        .iter()
        .map(|step| match &step.what {
            What::Text(wanted) if !wanted.word => Some((Some(flat(&wanted.old)), flat(&wanted.new))),
            What::Lines { new } => Some((None, flat(new))),
            What::Text(_) | What::Sketch { .. } => None,
        })
        .collect()
}

/// Converts ranges of a text with only LF to the text with CR LF.
fn with_pairs(text: &[u8], ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let breaks: Vec<usize> = memchr::memchr_iter(b'\n', text).collect();
    let moved = |offset: usize| offset + breaks.partition_point(|&at| at < offset);
    ranges.iter().map(|range| moved(range.start)..moved(range.end)).collect()
}

/// List of edits in progress.
struct List<'a> {
    /// Current text.
    pieces: Pieces<'a>,
    /// Old and new text of each edit.
    texts: &'a [(Option<String>, String)],
    /// Searcher for all old texts; its patterns belong to the edits in `owners`.
    finder: AhoCorasick,
    /// Edit of each pattern.
    owners: Vec<usize>,
    /// Places of each edit's old text in the original text.
    originals: Vec<Vec<usize>>,
    /// Places of later edits' old texts in changed areas: the edit, and the current start.
    others: Vec<(usize, usize)>,
    /// Length of the longest old text.
    longest: usize,
    /// Byte range of each edit.
    scopes: Vec<Range<usize>>,
    /// Ranges of the new texts.
    ranges: Vec<Range<usize>>,
}

impl<'a> List<'a> {
    /// Returns the list before its first edit; `None` if it would take too much memory.
    fn of(text: &'a [u8], texts: &'a [(Option<String>, String)], scopes: Vec<Range<usize>>) -> Option<Self> {
        let olds = || texts.iter().enumerate().filter_map(|(index, (old, _))| Some((index, old.as_ref()?)));
        let longest = olds().map(|(_, old)| old.len()).max().unwrap_or(1);
        let all: usize = olds().map(|(_, old)| old.len()).sum();
        (longest <= NEEDLE_BYTES_MAX && all <= NEEDLES_BYTES_MAX).then_some(())?;
        let owners: Vec<usize> = olds().map(|(index, _)| index).collect();
        let finder = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(olds().map(|(_, old)| old))
            .ok()?;
        let mut originals = vec![Vec::new(); texts.len()];
        for (count, found) in finder.find_overlapping_iter(text).enumerate() {
            let owner = owners.get(found.pattern().as_usize()).filter(|_| count < PLACES_MAX)?;
            originals.get_mut(*owner)?.push(found.start());
        }
        let pieces = Pieces::of(text);
        let others = Vec::new();
        Some(Self { pieces, texts, finder, owners, originals, others, longest, scopes, ranges: Vec::new() })
    }

    /// Applies the next edit; returns `None` if the list must be applied one by one.
    fn take<'s>(
        &mut self,
        index: usize,
        step: &'s EditStep,
        bytes_max: usize,
    ) -> Result<Option<()>, Box<Miss<'s>>> {
        let scope = self.scopes.get(index).cloned().unwrap_or(0..self.pieces.len());
        let (new, places) = match &step.what {
            What::Text(wanted) => {
                let all = self.places(index, &scope);
                let apart = replace::without_overlaps(&all);
                let places = match wanted.count {
                    Count::One if all.len() == 1 => apart,
                    Count::All if !all.is_empty() => apart,
                    Count::Exactly(count) if count == apart.len() => apart,
                    Count::Nth(number) => {
                        apart.get(number - 1).map(|place| vec![place.clone()]).unwrap_or_default()
                    }
                    Count::One | Count::All | Count::Exactly(_) => Vec::new(),
                };
                (None, places)
            }
            What::Lines { new } => {
                let old = self.pieces.window(&scope);
                let style = if old.contains(&b'\n') { LineEnding::Lf } else { LineEnding::None };
                let new = replace::flat_needle(new.as_bytes(), b"\n").into_owned();
                let new = lines::ending_like(&new, &old, style).into_owned();
                (Some(new), Vec::from([scope.clone()]))
            }
            What::Sketch { .. } => return Ok(None),
        };
        let is_lines = new.is_some();
        if places.is_empty() || (is_lines && (self.is_touched(&scope) || scope.is_empty())) {
            return self.must_apply(step, &scope, bytes_max).map(|()| None);
        }
        // The new text of a line may get its own line ending; then `texts` does not have it.
        let Some((_, kept)) = self.texts.get(index) else { return Ok(None) };
        if places.len() > REPLACED_MAX || new.is_some_and(|new| new != kept.as_bytes()) {
            return Ok(None);
        }
        let mut moved = 0_usize;
        for place in places {
            // Places are in ascending order, so each moves by the growth of the earlier ones.
            let place = place.start.wrapping_add(moved)..place.end.wrapping_add(moved);
            match self.replace(index, &place, kept.as_bytes())? {
                Some(growth) => moved = moved.wrapping_add_signed(growth),
                None => return Ok(None),
            }
        }
        Ok(Some(()))
    }

    /// Rejects an edit that would also fail one by one.
    fn must_apply<'s>(
        &self,
        step: &'s EditStep,
        scope: &Range<usize>,
        bytes_max: usize,
    ) -> Result<(), Box<Miss<'s>>> {
        let text = self.pieces.whole();
        let flat = Text { body: &text, usual: &|| LineEnding::Lf };
        let applied = replacement(flat, step, scope, &self.ranges, bytes_max);
        applied.map(|_| ()).map_err(|why| Miss::of(step, Body::Owned(text.into()), why))
    }

    /// Returns every current place of an edit's old text, within a range.
    fn places(&self, index: usize, scope: &Range<usize>) -> Vec<Range<usize>> {
        let length = self.texts.get(index).and_then(|(old, _)| old.as_ref()).map_or(0, String::len);
        let originals = self.originals.get(index).into_iter().flatten();
        let unchanged = originals.filter_map(|&start| self.pieces.place_of(&(start..start + length)));
        let others = self.others.iter().filter(|(owner, _)| *owner == index).map(|(_, start)| *start);
        let mut starts: Vec<usize> = unchanged.chain(others).collect();
        starts.sort_unstable();
        let places = starts.into_iter().map(|start| start..start + length);
        places.filter(|place| scope.start <= place.start && place.end <= scope.end).collect()
    }

    /// Returns true if an earlier edit has changed a part of a range.
    fn is_touched(&self, scope: &Range<usize>) -> bool {
        self.ranges.iter().any(|earlier| earlier.start < scope.end && scope.start < earlier.end)
    }

    /// Replaces one place, and records the places of later edits' old texts near it. Returns the growth of the text, or
    /// `None` if there are too many places.
    fn replace(&mut self, index: usize, place: &Range<usize>, new: &'a [u8]) -> Result<Option<isize>, Fault> {
        self.pieces.replace(place, new)?;
        let put = place.start..place.start + new.len();
        let shift = |offset: usize| (offset + put.end).saturating_sub(place.end);
        self.others.retain_mut(|(owner, start)| {
            let length = self.texts.get(*owner).and_then(|(old, _)| old.as_ref()).map_or(0, String::len);
            let is_before = *start + length <= place.start;
            if *start >= place.end {
                *start = shift(*start);
                return true;
            }
            is_before
        });
        let move_one = |range: &mut Range<usize>| {
            let (start, end) = (range.start, range.end);
            range.start = if place.end <= start { shift(start) } else { start };
            range.end = if place.start < end { shift(end) } else { end };
        };
        self.ranges.iter_mut().for_each(move_one);
        self.scopes.iter_mut().skip(index + 1).for_each(move_one);
        self.ranges.push(put.clone());
        let from = put.start.saturating_sub(self.longest - 1);
        let window = self.pieces.window(&(from..put.end + self.longest - 1));
        for found in self.finder.find_overlapping_iter(&window) {
            let Some(&owner) = self.owners.get(found.pattern().as_usize()) else { continue };
            let (start, end) = (from + found.start(), from + found.end());
            let is_across = if put.is_empty() {
                start < put.start && end > put.end
            } else {
                start < put.end && end > put.start
            };
            if owner > index && is_across {
                self.others.push((owner, start));
            }
        }
        if self.others.len() > PLACES_MAX / 16 {
            return Ok(None);
        }
        let signed = |length: usize| isize::try_from(length).unwrap_or(isize::MAX);
        Ok(Some(signed(new.len()) - signed(place.len())))
    }
}
