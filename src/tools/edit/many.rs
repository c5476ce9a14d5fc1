//! Many edits of one text, in one pass over it.
//!
//! All old texts are looked for at once. What an edit then changes is looked at once more, as far round it
//! as the longest old text reaches, so that each edit knows every place where its old text is now. An edit
//! that needs more than that has the whole list done one by one.

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

/// From so many edits on they are done this way.
const EDITS_MIN: usize = 16;
/// The longest old text.
const NEEDLE_BYTES_MAX: usize = 64 << 10;
/// All of them together.
const NEEDLES_BYTES_MAX: usize = 4 << 20;
/// Places that are kept.
const PLACES_MAX: usize = 1 << 20;
/// Places that one edit replaces.
const REPLACED_MAX: usize = 1000;

/// What the edits make of a text whose lines all end alike; `None` where they must be done one by one.
///
/// # Errors
/// The refusal of the first edit that is refused.
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

/// The text with LF alone, where all its lines end alike and the edits bring no other ending, and
/// whether its own are CR LF.
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

/// The old and the new text of each edit, with LF alone; `None` where one is not a plain edit.
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

/// Ranges of a text with LF alone, as they are once each of them is CR LF.
fn with_pairs(text: &[u8], ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let breaks: Vec<usize> = memchr::memchr_iter(b'\n', text).collect();
    let moved = |offset: usize| offset + breaks.partition_point(|&at| at < offset);
    ranges.iter().map(|range| moved(range.start)..moved(range.end)).collect()
}

/// A list of edits under way.
struct List<'a> {
    /// The text as it is now.
    pieces: Pieces<'a>,
    /// The old and the new text of each edit.
    texts: &'a [(Option<String>, String)],
    /// Finds all old texts; its patterns are those of the edits in `owners`.
    finder: AhoCorasick,
    /// Which edit each pattern is of.
    owners: Vec<usize>,
    /// Where each edit's old text stands in the text as it was.
    originals: Vec<Vec<usize>>,
    /// Where old texts of later edits stand among what was changed: the edit, and the start now.
    others: Vec<(usize, usize)>,
    /// The length of the longest old text.
    longest: usize,
    /// For each edit the bytes to which it is narrowed.
    scopes: Vec<Range<usize>>,
    /// Where the new texts are.
    ranges: Vec<Range<usize>>,
}

impl<'a> List<'a> {
    /// The list before its first edit; `None` where it would take too much memory.
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

    /// Takes the next edit; `None` where the list must be done one by one.
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
        // A line's new text may get an ending of its own: then it is no text that is kept.
        let Some((_, kept)) = self.texts.get(index) else { return Ok(None) };
        if places.len() > REPLACED_MAX || new.is_some_and(|new| new != kept.as_bytes()) {
            return Ok(None);
        }
        let mut moved = 0_usize;
        for place in places {
            // Places ascend, so that each moves by what those before it have grown.
            let place = place.start.wrapping_add(moved)..place.end.wrapping_add(moved);
            match self.replace(index, &place, kept.as_bytes())? {
                Some(growth) => moved = moved.wrapping_add_signed(growth),
                None => return Ok(None),
            }
        }
        Ok(Some(()))
    }

    /// Refuses an edit that cannot be done one by one either.
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

    /// Every place where an edit's old text is now, within a range.
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

    /// Whether an edit before has changed some of a range.
    fn is_touched(&self, scope: &Range<usize>) -> bool {
        self.ranges.iter().any(|earlier| earlier.start < scope.end && scope.start < earlier.end)
    }

    /// Replaces one place, and notes where the old texts of later edits are then; answers by how much
    /// the text has grown, or nothing where there are too many places.
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
