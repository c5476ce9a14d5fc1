//! The edits of one request, applied to one text.

use std::ops::{Deref, Range};
use std::time::Duration;

use super::answer::Matched;
use super::find::{self, Found, Searched};
use super::step::{Step, Wanted, What};
use super::{many, refuse};
use crate::buffer::Buffer;
use crate::control::Control;
use crate::engine::policy::Policy;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::checked::must_fit;
use crate::text::content::View;
use crate::text::counted::counted;
use crate::text::line_diff;
use crate::text::line_range::{self, LineSpan};
use crate::text::lines::{self, LineEnding};
use crate::text::replace::{self, Flat, Replaced, ReplacedAll};
use crate::text::sketch;
use crate::tools::common::PLACES_LISTED;

/// Time for a list of edits that must be done one by one.
const TIME: Duration = Duration::from_secs(2);
/// Edits that are done whatever time they take.
const UNTIMED_STEPS: usize = 50;
/// Places that are kept while they are replaced; of one edit alone more are gone through twice.
const PLACES_MAX: usize = 100_000;

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

/// What an edit may make of a file, and what the file is called.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'a> {
    /// The file's path, as it is shown.
    pub shown: &'a str,
    /// The largest text that may come of it, in bytes.
    pub bytes_max: usize,
}

impl<'a> Bounds<'a> {
    /// Those of the policy.
    pub fn of(shown: &'a str, policy: &Policy) -> Self {
        Self { shown, bytes_max: policy.file_bytes() }
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

impl Edited<'_> {
    /// The same, with a text of its own.
    pub fn into_owned(self) -> Edited<'static> {
        Edited { body: Body::Owned(self.body.into_owned()), ..self }
    }
}

/// Applies all edits in order, each to the result of the one before.
///
/// # Errors
/// `no_match`, `ambiguous_match`, `stale_file` where lines are not those that were named, or
/// `invalid_request` for lines that there are not; then none counts.
pub fn apply<'a>(file: &'a View<'_>, steps: &[Step], bounds: Bounds<'_>) -> Result<Edited<'a>, Error> {
    let shown = bounds.shown;
    let original = file.body.as_ref();
    let mut scopes = scopes(original, steps, shown)?;
    must_be_apart(steps, &scopes)?;
    for (step, scope) in steps.iter().zip(&scopes) {
        guard(file, step, scope, shown)?;
    }
    if let Some(edited) = many::apply(original, steps, &scopes, bounds)? {
        must_fit(file.bytes_of(&edited.body), bounds.bytes_max).map_err(|fault| fault.error(shown))?;
        return Ok(edited);
    }
    let control = Control::default().within(TIME);
    let mut edited = Edited {
        body: Body::Borrowed(original),
        ranges: Vec::new(),
        count: 0,
        matched: Matched::AlreadyApplied,
        left_out: Vec::new(),
        removed: Vec::new(),
    };
    let mut touched: Vec<Range<usize>> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let scope = scopes.get(index).cloned().unwrap_or(0..edited.body.len());
        if index >= UNTIMED_STEPS && control.should_stop() {
            return Err(step.of_several(out_of_time(index, steps.len(), shown)));
        }
        let outcome = outcome(&edited.body, step, &scope, &touched, bounds)?;
        match outcome {
            Outcome::Stands(range) => edited.ranges.push(range),
            Outcome::All(replaced) if steps.len() == 1 => {
                edited.ranges = replaced.first;
                edited.count = replaced.count;
                edited.body = Body::Owned(replaced.body);
                edited.matched = Matched::Exact;
            }
            Outcome::All(replaced) => {
                return Err(step.of_several(too_many_places(replaced.count, step, shown)));
            }
            Outcome::Changes { matched, places, replaced, left_out } => {
                if matched == Matched::Sketch {
                    edited.removed.extend(removed_lines(&edited.body, &places, &replaced));
                }
                edited.ranges = moved(&edited.ranges, &places, &replaced);
                touched = moved(&touched, &places, &replaced);
                scopes = moved(&scopes, &places, &replaced);
                edited.ranges.extend(replaced.ranges.iter().cloned());
                touched.extend(replaced.ranges);
                edited.body = Body::Owned(replaced.body);
                edited.matched = edited.matched.max(matched);
                edited.left_out.extend(left_out);
            }
        }
    }
    edited.ranges.sort_by_key(|range| (range.start, range.end));
    edited.count = edited.count.max(edited.ranges.len());
    must_fit(file.bytes_of(&edited.body), bounds.bytes_max).map_err(|fault| fault.error(shown))?;
    Ok(edited)
}

/// The refusal of edits that take too long.
fn out_of_time(done: usize, all: usize, shown: &str) -> Error {
    let message = format!("the edits of {shown} ran out of time after {done} of {all}; nothing was changed");
    Error::new(ErrorKind::Timeout, message)
        .at(shown)
        .suggest("Give fewer edits in one call, with old strings exactly as they are in the file.")
}

/// The refusal of an edit among others that replaces more places than can be kept.
fn too_many_places(count: usize, step: &Step, shown: &str) -> Error {
    let message = format!(
        "old_string appears {count} times in {shown}; among several edits at most {PLACES_MAX} can be replaced"
    );
    step.refusal(ErrorKind::TooLarge, &message, shown).suggest("Make this edit in a call of its own.")
}

/// What one edit does.
pub enum Outcome {
    /// Nothing: this is where its new text stands.
    Stands(Range<usize>),
    /// It replaces places.
    Changes {
        /// How they were found.
        matched: Matched,
        /// The places, in the text before.
        places: Vec<Range<usize>>,
        /// The text then.
        replaced: Replaced,
        /// Lines that a sketch leaves out.
        left_out: Vec<(usize, usize)>,
    },
    /// It replaces more places than are kept.
    All(ReplacedAll),
}

/// Carries out one edit within a range of the text.
pub fn outcome(
    body: &[u8],
    step: &Step,
    scope: &Range<usize>,
    touched: &[Range<usize>],
    bounds: Bounds<'_>,
) -> Result<Outcome, Error> {
    match &step.what {
        What::Text(wanted) => text_outcome(body, step, wanted, scope, bounds),
        What::Lines { new } => {
            if touched.iter().any(|earlier| earlier.start < scope.end && scope.start < earlier.end) {
                return Err(step.of_several(step.invalid(
                    "start_line",
                    "an edit before it in the list has changed its lines: make one edit of the two",
                )));
            }
            let old = body.get(scope.clone()).unwrap_or_default();
            let new = line_range::ending_like(new.as_bytes(), old, LineEnding::of(body));
            let places = vec![scope.clone()];
            changed(body, Matched::Lines, places, &[new.as_ref()], bounds)
        }
        What::Sketch { sketch } => sketch_outcome(body, step, sketch, scope, bounds),
    }
}

/// Replaces a text.
fn text_outcome(
    body: &[u8],
    step: &Step,
    wanted: &Wanted,
    scope: &Range<usize>,
    bounds: Bounds<'_>,
) -> Result<Outcome, Error> {
    match find::find(body, wanted, scope) {
        Found::Places(places) => {
            let news = vec![wanted.new.as_bytes(); places.len()];
            changed(body, Matched::Exact, places, &news, bounds)
        }
        Found::All(count) if count <= PLACES_MAX => {
            let text = Searched::of(body, scope);
            let needle = replace::flat_needle(wanted.old.as_bytes(), body);
            let places: Vec<Range<usize>> = replace::apart(text.each(&needle, wanted.word)).collect();
            let news = vec![wanted.new.as_bytes(); places.len()];
            changed(body, Matched::Exact, places, &news, bounds)
        }
        Found::All(_) => {
            let text = Searched::of(body, scope);
            let needle = replace::flat_needle(wanted.old.as_bytes(), body);
            let places = || replace::apart(text.each(&needle, wanted.word));
            let new = wanted.new.as_bytes();
            let replaced = replace::replace_all(body, places, new, PLACES_LISTED, bounds.bytes_max);
            replaced.map(Outcome::All).map_err(|fault| fault.error(bounds.shown))
        }
        Found::Fitted(tier, place, new) => changed(body, tier.into(), vec![place], &[&new], bounds),
        refused => Err(step.of_several(refuse::not_found(body, step, wanted, scope, &refused, bounds.shown))),
    }
}

/// Brings lines into the form of a sketch.
fn sketch_outcome(
    body: &[u8],
    step: &Step,
    sketch: &str,
    scope: &Range<usize>,
    bounds: Bounds<'_>,
) -> Result<Outcome, Error> {
    let flat = Flat::of(body);
    let sketch = replace::flat_needle(sketch.as_bytes(), body);
    let within = flat.flattened(scope.start)..flat.flattened(scope.end);
    let first_line = step.lines.map_or(1, |lines| usize::try_from(lines.first).unwrap_or(usize::MAX));
    let changes = sketch::changes(&flat.text, &sketch, &within, first_line)
        .map_err(|refusal| refuse::sketch(refusal, bounds.shown))?;
    let places: Vec<Range<usize>> = changes
        .iter()
        .map(|change| flat.original(change.range.start)..flat.original(change.range.end))
        .collect();
    if places.is_empty() {
        return Ok(Outcome::Stands(scope.clone()));
    }
    let news: Vec<&[u8]> = changes.iter().map(|change| change.new.as_slice()).collect();
    let left_out = changes.iter().flat_map(|change| change.left_out.iter().copied()).collect();
    Ok(match changed(body, Matched::Sketch, places, &news, bounds)? {
        Outcome::Changes { matched, places, replaced, .. } => {
            Outcome::Changes { matched, places, replaced, left_out }
        }
        other @ (Outcome::Stands(_) | Outcome::All(_)) => other,
    })
}

/// The lines of `body` that are not among those that replace them.
fn removed_lines(body: &[u8], places: &[Range<usize>], replaced: &Replaced) -> Vec<(u64, u64)> {
    let firsts = replace::line_ranges(body, places, places.len());
    let mut removed = Vec::new();
    for ((place, new), (first, _)) in places.iter().zip(&replaced.ranges).zip(firsts) {
        let [old, new] = [body.get(place.clone()), replaced.body.get(new.clone())]
            .map(|text| lines::lines(text.unwrap_or_default()).collect::<Vec<_>>());
        let ops = line_diff::diff(&old, &new).ops;
        let gone = ops
            .iter()
            .filter(|op| !matches!(op, similar::DiffOp::Equal { .. }))
            .map(similar::DiffOp::old_range);
        removed.extend(
            gone.filter(|gone| !gone.is_empty())
                .map(|gone| (first + gone.start as u64, first + gone.end as u64 - 1)),
        );
    }
    removed
}

/// The outcome of putting each new text at its place.
///
/// # Errors
/// `too_large` where the text would be.
fn changed(
    body: &[u8],
    matched: Matched,
    places: Vec<Range<usize>>,
    news: &[&[u8]],
    bounds: Bounds<'_>,
) -> Result<Outcome, Error> {
    let changes = places.iter().cloned().zip(news.iter().copied());
    let replaced =
        replace::replace_each(body, changes, bounds.bytes_max).map_err(|fault| fault.error(bounds.shown))?;
    if let ([old], [new]) = (places.as_slice(), replaced.ranges.as_slice())
        && body.get(old.clone()) == replaced.body.get(new.clone())
    {
        return Ok(Outcome::Stands(old.clone()));
    }
    Ok(Outcome::Changes { matched, places, replaced, left_out: Vec::new() })
}

/// For each edit the bytes to which it is narrowed; all of them where it names no lines.
fn scopes(body: &[u8], steps: &[Step], shown: &str) -> Result<Vec<Range<usize>>, Error> {
    let scope = |step: &Step| match step.lines {
        None => Ok(0..body.len()),
        Some(lines) => {
            let range = line_range::bytes_of(body, lines);
            let total = || crate::text::lines::count(body);
            let is_past = step.range_sha256.is_some() && lines.last > total();
            match range {
                Some(range) if !is_past => Ok(range),
                found => {
                    let (field, line) = match found {
                        None => ("start_line", lines.first),
                        Some(_) => ("end_line", lines.last),
                    };
                    let message =
                        format!("line {line} is past the end: {shown} has {}", counted(total(), "line"));
                    Err(step.invalid(field, &message).at(shown).detail("total_lines", total()))
                }
            }
        }
    };
    steps.iter().map(scope).collect()
}

/// Refuses edits whose line ranges overlap.
fn must_be_apart(steps: &[Step], scopes: &[Range<usize>]) -> Result<(), Error> {
    let mut ranges: Vec<(&Range<usize>, &Step)> =
        scopes.iter().zip(steps).filter(|(_, step)| matches!(step.what, What::Lines { .. })).collect();
    ranges.sort_by_key(|(scope, _)| scope.start);
    for pair in ranges.windows(2) {
        if let [(one, first), (other, second)] = pair
            && other.start < one.end
        {
            let lines = |step: &Step| step.lines.map_or((0, 0), |lines| (lines.first, lines.last));
            let ((a, b), (c, d)) = (lines(first), lines(second));
            let message = format!("lines {a} to {b} and lines {c} to {d} overlap: make one edit of the two");
            return Err(second.of_several(second.invalid("start_line", &message)));
        }
    }
    Ok(())
}

/// Checks the SHA-256 of the lines that an edit names.
fn guard(file: &View<'_>, step: &Step, scope: &Range<usize>, shown: &str) -> Result<(), Error> {
    let (Some(expected), Some(lines)) = (step.range_sha256, step.lines) else {
        return Ok(());
    };
    let actual = Sha256::of(&file.on_disk(scope));
    if actual == expected {
        return Ok(());
    }
    let there = file.body.get(scope.clone()).unwrap_or_default();
    Err(step.of_several(refuse::other_lines(step, lines, expected, actual, there, shown)))
}

/// Where ranges of a text are after replacements in it.
fn moved(ranges: &[Range<usize>], places: &[Range<usize>], replaced: &Replaced) -> Vec<Range<usize>> {
    // Where a byte is then, before which `count` places were replaced: as far behind the last of them.
    let shifted = |offset: usize, count: usize| {
        let last = count.checked_sub(1).and_then(|last| places.get(last).zip(replaced.ranges.get(last)));
        last.map_or(offset, |(place, range)| (offset + range.end).saturating_sub(place.end))
    };
    let move_one = |range: &Range<usize>| {
        let before_start = places.partition_point(|place| place.end <= range.start);
        let before_end = places.partition_point(|place| place.start < range.end);
        shifted(range.start, before_start)..shifted(range.end, before_end)
    };
    ranges.iter().map(move_one).collect()
}

/// The lines whose reading would do to know what the edits change: those of the first place of each.
pub fn lines_needed(body: &[u8], steps: &[Step]) -> Option<(u64, u64)> {
    let mut ranges = Vec::new();
    for step in steps {
        match (&step.what, step.lines) {
            (What::Lines { .. } | What::Sketch { .. }, Some(lines)) => ranges.push((lines.first, lines.last)),
            (What::Text(wanted), _) => {
                let place = first_place(body, wanted, step.lines)?;
                ranges.extend(replace::line_ranges(body, &[place], 1));
            }
            (What::Lines { .. } | What::Sketch { .. }, None) => return None,
        }
    }
    let first = ranges.iter().map(|range| range.0).min()?;
    let last = ranges.iter().map(|range| range.1).max()?;
    Some((first, last))
}

/// Where a text stands first.
fn first_place(body: &[u8], wanted: &Wanted, lines: Option<LineSpan>) -> Option<Range<usize>> {
    let within = match lines {
        None => 0..body.len(),
        Some(lines) => line_range::bytes_of(body, lines)?,
    };
    let exact = find::exact(body, &wanted.old, wanted.word, &within).into_iter().next();
    let by_tier = || find::by_tier(body, &wanted.old, &wanted.new, &within)?.ranges.into_iter().next();
    exact.or_else(|| if wanted.flexible && !wanted.word { by_tier() } else { None })
}
