//! Applies the edits of one request to one text. If it changed since the read, rebases them by a merge, or by the
//! numbers of shown lines.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::ops::{Deref, Range};

use super::error::{EditError, EditFault, LineHashes};
use super::find::{self, EditResult, FileBody, MatchKind, MatchedPlaces, SearchRange};
use super::step::{EditKind, EditNumber, EditStep, MatchCount, TextToReplace};
use crate::engine::change::shown_lines::LineNotFound;
use crate::engine::change::{Change, LockedFile};
use crate::engine::policy::Gate;
use crate::error::{Error, ErrorKind};
use crate::limits::EDIT_PLACES_MAX;
use crate::sha256::Sha256;
use crate::text::checked::{TextFault, must_fit, slice, slice_or_empty};
use crate::text::content::Content;
use crate::text::independent::{self, OldText, by_halves};
use crate::text::lines::{self, LineEnding, LineSpan};
use crate::text::merge::{self, EqualChanges, MergeConflict};
use crate::text::replace::{self, LfText, ReplaceResult};
use crate::text::{line_diff, replaced_lines, sketch};
use crate::tools::common::{self, PLACES_LISTED};

/// Bytes that a list of edits may search; each edit searches the whole text.
const SEARCHED_BYTES_MAX: usize = 4 << 30;
/// Replaced places of a list of edits that are followed line by line; beyond that, the texts are compared.
const REPLACED_MAX: usize = 4096;
/// Edits of a list that are taken together if they can: fewer are faster one by one.
const TOGETHER_MIN: usize = 32;
/// Passes over the text that edits take as long as if they are taken together.
const TOGETHER_PASSES: usize = 10;
/// Passes over the text of an edit that may match flexibly.
const FLEXIBLE_PASSES: usize = 20;

/// Applies all edits in order, each to the result of the previous one.
///
/// # Errors
/// Returns the error of the first edit that fails, or of a text larger than `bytes_max`; then no edit counts.
pub fn apply<'a>(
    file: &'a Content<'_>,
    steps: &'a [EditStep],
    bytes_max: usize,
) -> Result<EditResult<'a>, Box<EditError<'a>>> {
    let original = file.body.as_ref();
    let scopes = checked_scopes(file, steps)
        .map_err(|(step, why)| EditError::of(step, FileBody::Borrowed(original), why))?;
    let edited = in_order(original, steps, scopes, bytes_max)?;
    must_fit(file.bytes_of(&edited.body), bytes_max)?;
    Ok(edited)
}

/// Returns the byte range of each edit, if all edits are allowed.
fn checked_scopes<'a>(
    file: &Content<'_>,
    steps: &'a [EditStep],
) -> Result<Vec<Range<usize>>, (&'a EditStep, EditFault<'a>)> {
    let starts = LazyCell::new(|| lines::starts(&file.body));
    let mut scopes = Vec::with_capacity(steps.len());
    for step in steps {
        scopes.push(scope(&file.body, &starts, step).map_err(|why| (step, why))?);
    }
    must_be_apart(steps, &scopes)?;
    for (step, scope) in steps.iter().zip(&scopes) {
        guard(file, step, scope).map_err(|why| (step, why))?;
    }
    Ok(scopes)
}

/// Applies the edits, each to the result of the previous ones; those of a long list together where that is the same.
fn in_order<'a>(
    original: &'a [u8],
    steps: &'a [EditStep],
    scopes: Vec<Range<usize>>,
    bytes_max: usize,
) -> Result<EditResult<'a>, Box<EditError<'a>>> {
    let mut searched_bytes = 0_usize;
    let mut text = IntermediateText::new(original, scopes);
    let usual = || match LineEnding::of(original) {
        LineEnding::Mixed => LineEnding::None,
        uniform => uniform,
    };
    by_halves(0..steps.len(), TOGETHER_MIN, &mut |run| {
        let body = EditedText { body: &text.edited.body, usual: &usual };
        let size = body.body.len();
        if run.len() > 1 {
            let together = (searched_bytes <= SEARCHED_BYTES_MAX).then(|| {
                text.combined_replacement(body, slice_or_empty(steps, run.clone()), run.start, bytes_max)
            });
            let Some(replacement) = together.flatten() else { return Ok(false) };
            searched_bytes = searched_bytes.saturating_add(size.saturating_mul(TOGETHER_PASSES));
            return Ok(text.apply_edit(replacement, false).is_ok());
        }
        let Some((index, step)) = steps.iter().enumerate().nth(run.start) else { return Ok(true) };
        let passes = if step.is_flexible() { FLEXIBLE_PASSES } else { 1 };
        searched_bytes = searched_bytes.saturating_add(size.saturating_mul(passes));
        let done = if index > 0 && searched_bytes > SEARCHED_BYTES_MAX {
            Err(EditFault::OutOfTime(index, steps.len()))
        } else {
            let scope = text.scopes.get(index).cloned().unwrap_or(0..size);
            replacement(body, step, &scope, &text.touched, bytes_max)
                .and_then(|replacement| text.apply_edit(replacement, steps.len() == 1))
        };
        done.map(|()| true).map_err(|why| {
            let body = std::mem::replace(&mut text.edited.body, FileBody::Borrowed(original));
            EditError::of(step, body, why)
        })
    })?;
    Ok(text.finish())
}

/// Text between two edits of a list.
struct IntermediateText<'a> {
    /// Result of the edits so far.
    edited: EditResult<'a>,
    /// Ranges that the edits so far have written.
    touched: Vec<Range<usize>>,
    /// Current byte range of each edit in the list.
    scopes: Vec<Range<usize>>,
}

impl<'a> IntermediateText<'a> {
    /// Returns the text before the first edit.
    fn new(original: &'a [u8], scopes: Vec<Range<usize>>) -> Self {
        let edited = EditResult {
            body: FileBody::Borrowed(original),
            ranges: Vec::new(),
            count: 0,
            matched: MatchKind::AlreadyApplied,
            left_out: Vec::new(),
            removed: Vec::new(),
            replaced: Some(Vec::new()),
        };
        Self { edited, touched: Vec::new(), scopes }
    }

    /// Returns the replacement by `steps`, the first of which is number `first` of the list, if it is the same one by
    /// one and together.
    fn combined_replacement(
        &self,
        text: EditedText<'_>,
        steps: &[EditStep],
        first: usize,
        bytes_max: usize,
    ) -> Option<Replacement> {
        let flat = LfText::of(text.body);
        let is_of_one = |count| {
            matches!(count, MatchCount::One | MatchCount::All | MatchCount::Exactly(1) | MatchCount::Nth(1))
        };
        let scopes = slice_or_empty(&self.scopes, first..);
        let mut changes = Vec::with_capacity(steps.len());
        let mut matched = MatchKind::Exact;
        for (step, scope) in steps.iter().zip(scopes) {
            changes.push(match &step.what {
                EditKind::Text(wanted) if !wanted.word && is_of_one(wanted.count) => {
                    (OldText::Text(wanted.old.as_bytes()), Cow::Borrowed(wanted.new.as_bytes()))
                }
                EditKind::Lines { new } if !is_touched(scope, &self.touched) => {
                    matched = MatchKind::Lines;
                    let place = flat.flattened(scope.start)..flat.flattened(scope.end);
                    let old = slice(&flat.text, place.clone()).ok()?;
                    let new = lines::ending_like(new.as_bytes(), old, LineEnding::Lf);
                    (OldText::Lines(place), Some(new).filter(|new| **new != *old)?)
                }
                EditKind::Text(_) | EditKind::Lines { .. } | EditKind::Sketch { .. } => return None,
            });
        }
        let has_cr = |text: &[u8]| memchr::memchr(b'\r', text).is_some();
        let is_plain = |(old, new): &(OldText<'_>, Cow<'_, [u8]>)| {
            !has_cr(new) && !matches!(old, OldText::Text(old) if has_cr(old))
        };
        if LineEnding::of(text.body) == LineEnding::Mixed || !changes.iter().all(is_plain) {
            return None;
        }
        let places = independent::places(&flat.text, &changes)?;
        let places = places.into_iter().map(|place| flat.original(place.start)..flat.original(place.end));
        let mut all: Vec<_> = places.zip(&changes).map(|(place, (_, new))| (place, new.as_ref())).collect();
        let is_within = |((place, _), scope): (&(Range<usize>, &[u8]), &Range<usize>)| {
            scope.start <= place.start && place.end <= scope.end
        };
        if !all.iter().zip(scopes).all(is_within) {
            return None;
        }
        all.sort_unstable_by_key(|(place, _)| place.start);
        let (places, news): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        changed(text, matched, places, &news, bytes_max).ok()
    }

    /// Applies the replacement of an edit. Only a single edit may replace more places than are kept.
    fn apply_edit<'s>(&mut self, replacement: Replacement, is_alone: bool) -> Result<(), EditFault<'s>> {
        let edited = &mut self.edited;
        match replacement {
            Replacement::None(range) => edited.ranges.push(range),
            Replacement::Places { replaced, .. } if replaced.count > replaced.ranges.len() && !is_alone => {
                return Err(EditFault::TooManyPlaces(replaced.count));
            }
            Replacement::Places { matched, places, replaced, left_out } => {
                if matched == MatchKind::Sketch {
                    edited.removed.extend(removed_lines(&edited.body, &places, &replaced));
                }
                let lines =
                    replaced_lines::at_places((&edited.body, &places), (&replaced.body, &replaced.ranges));
                let lines = edited.replaced.take().zip(lines);
                edited.replaced = lines
                    .map(|(before, now)| replaced_lines::combine(&before, &now))
                    .filter(|lines| lines.len() <= REPLACED_MAX);
                edited.ranges = moved(&edited.ranges, &places, &replaced);
                self.touched = moved(&self.touched, &places, &replaced);
                self.scopes = moved(&self.scopes, &places, &replaced);
                edited.count += replaced.count;
                edited.ranges.extend(replaced.ranges.iter().cloned());
                self.touched.extend(replaced.ranges);
                edited.body = FileBody::Owned(replaced.body);
                edited.matched = edited.matched.max(matched);
                edited.left_out.extend(left_out);
            }
        }
        Ok(())
    }

    /// Returns the text after the last edit.
    fn finish(self) -> EditResult<'a> {
        let mut edited = self.edited;
        edited.ranges.sort_unstable_by_key(|range| (range.start, range.end));
        edited.count = edited.count.max(edited.ranges.len());
        edited
    }
}

/// Returns the lines of `body` that the replacement does not keep.
fn removed_lines(body: &[u8], places: &[Range<usize>], replaced: &ReplaceResult) -> Vec<(u64, u64)> {
    let firsts = replace::line_ranges(body, places, places.len());
    let mut removed = Vec::new();
    for ((place, new), (first, _)) in places.iter().zip(&replaced.ranges).zip(firsts) {
        let [old, new] = [body.get(place.clone()), replaced.body.get(new.clone())]
            .map(|text| lines::lines(text.unwrap_or_default()).collect::<Vec<_>>());
        let diff = line_diff::diff(&old, &new);
        let gone = diff.changes().map(similar::DiffOp::old_range);
        removed.extend(
            gone.filter(|gone| !gone.is_empty())
                .map(|gone| (first + gone.start as u64, first + gone.end as u64 - 1)),
        );
    }
    removed
}

/// Returns the byte range of an edit; the whole text if it names no lines.
fn scope<'a>(
    body: &[u8],
    starts: &impl Deref<Target = Vec<usize>>,
    step: &'a EditStep,
) -> Result<Range<usize>, EditFault<'a>> {
    let Some(span) = step.lines else { return Ok(0..body.len()) };
    match lines::bytes_of(starts, span) {
        None => Err(EditFault::PastEnd("start_line", span.first)),
        Some(_) if step.range_sha256.is_some() && span.last >= starts.len() as u64 => {
            Err(EditFault::PastEnd("end_line", span.last))
        }
        Some(range) => Ok(range),
    }
}

/// Rejects edits whose line ranges overlap.
fn must_be_apart<'a>(
    steps: &'a [EditStep],
    scopes: &[Range<usize>],
) -> Result<(), (&'a EditStep, EditFault<'a>)> {
    let mut ranges: Vec<(&Range<usize>, &EditStep)> =
        scopes.iter().zip(steps).filter(|(_, step)| matches!(step.what, EditKind::Lines { .. })).collect();
    ranges.sort_by_key(|(scope, _)| scope.start);
    for pair in ranges.windows(2) {
        if let [(one, first), (other, second)] = pair
            && other.start < one.end
            && let (Some(lines), Some(others)) = (first.lines, second.lines)
        {
            return Err((second, EditFault::Overlap(lines, others)));
        }
    }
    Ok(())
}

/// Checks the SHA-256 of the lines of an edit.
fn guard<'a>(file: &Content<'_>, step: &'a EditStep, scope: &Range<usize>) -> Result<(), EditFault<'a>> {
    let Some(expected) = &step.range_sha256 else { return Ok(()) };
    let actual = Sha256::of(&file.on_disk(scope));
    if expected.begins(actual) {
        return Ok(());
    }
    Err(EditFault::OtherLines(scope.clone(), LineHashes { expected: expected.clone(), actual }))
}

/// Returns the new positions of text ranges after replacements.
fn moved(ranges: &[Range<usize>], places: &[Range<usize>], replaced: &ReplaceResult) -> Vec<Range<usize>> {
    // New position of a byte after the first `count` places: it keeps its distance from the end of the last one.
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

/// Returns the lines that a caller must read for these edits: they cover the first place of each.
pub fn lines_needed(body: &[u8], steps: &[EditStep]) -> Option<(u64, u64)> {
    let (mut ranges, first_place) = (Vec::new(), first_places(body));
    for step in steps {
        match (&step.what, step.lines) {
            (EditKind::Lines { .. } | EditKind::Sketch { .. }, Some(lines)) => {
                ranges.push((lines.first, lines.last));
            }
            (EditKind::Text(wanted), _) => {
                let place = first_place(wanted, step.lines)?;
                ranges.extend(replace::line_ranges(body, &[place], 1));
            }
            (EditKind::Lines { .. } | EditKind::Sketch { .. }, None) => return None,
        }
    }
    let first = ranges.iter().map(|range| range.0).min()?;
    let last = ranges.iter().map(|range| range.1).max()?;
    Some((first, last))
}

/// Returns the numbers of the edits after `missed` whose text is neither in the file nor written by an earlier edit.
pub fn also_missing(body: &[u8], steps: &[EditStep], missed: usize) -> Vec<usize> {
    let is_made = |old: &[u8]| {
        let mut new_texts = steps.iter().filter_map(EditStep::new_text);
        new_texts.any(|new| memchr::memmem::find(new.as_bytes(), old).is_some())
    };
    let first_place = first_places(body);
    let is_missing = |step: &&EditStep| match &step.what {
        EditKind::Text(wanted) => {
            first_place(wanted, step.lines).is_none() && !is_made(wanted.old.as_bytes())
        }
        EditKind::Lines { .. } | EditKind::Sketch { .. } => false,
    };
    let later = steps.iter().filter(|step| step.named.number() > Some(missed));
    later.filter(is_missing).filter_map(|step| step.named.number()).take(PLACES_LISTED).collect()
}

/// Returns a function that returns the first place of an old text.
fn first_places(body: &[u8]) -> impl Fn(&TextToReplace, Option<LineSpan>) -> Option<Range<usize>> {
    let flat = LfText::of(body);
    let starts = LazyCell::new(move || lines::starts(body));
    move |wanted, lines| {
        let within = match lines {
            None => 0..body.len(),
            Some(lines) => lines::bytes_of(&starts, lines)?,
        };
        let needle = replace::flat_needle(wanted.old.as_bytes(), body);
        let mut exact = replace::each_place(&flat, &needle, wanted.word);
        let exact = exact.find(|place| within.start <= place.start && place.end <= within.end);
        let by_tier = || find::by_tier(body, &wanted.old, &wanted.new, &within)?.ranges.into_iter().next();
        exact.or_else(|| if wanted.flexible && !wanted.word { by_tier() } else { None })
    }
}

/// Replacement by one edit.
pub enum Replacement {
    /// Nothing to replace: the new text is already at this place.
    None(Range<usize>),
    /// Some places.
    Places {
        /// Kind of match.
        matched: MatchKind,
        /// Places in the old text; empty if there are too many to keep.
        places: Vec<Range<usize>>,
        /// New text.
        replaced: ReplaceResult,
        /// Lines that a sketch leaves out.
        left_out: Vec<(usize, usize)>,
    },
}

/// Text that is being edited.
#[derive(Clone, Copy)]
pub struct EditedText<'b> {
    /// Current text.
    pub body: &'b [u8],
    /// Line ending before all edits, if it was uniform: new lines get it if the text has none left. It is a function,
    /// because a large file needs a whole pass for it.
    pub usual: &'b dyn Fn() -> LineEnding,
}

/// Computes the replacement by one edit within a range of the text.
pub fn replacement<'a>(
    text: EditedText<'_>,
    step: &'a EditStep,
    scope: &Range<usize>,
    touched: &[Range<usize>],
    bytes_max: usize,
) -> Result<Replacement, EditFault<'a>> {
    let body = text.body;
    match &step.what {
        EditKind::Text(wanted) => of_text(text, wanted, scope, bytes_max),
        EditKind::Lines { new } => {
            if is_touched(scope, touched) {
                return Err(EditFault::Touched);
            }
            let old = body.get(scope.clone()).unwrap_or_default();
            let style = match LineEnding::of(body) {
                LineEnding::None => (text.usual)(),
                own => own,
            };
            let new = lines::ending_like(new.as_bytes(), old, style);
            let places = vec![scope.clone()];
            Ok(changed(text, MatchKind::Lines, places, &[new.as_ref()], bytes_max)?)
        }
        EditKind::Sketch { sketch } => of_sketch(text, step, sketch, scope, bytes_max),
    }
}

/// Returns true if an earlier edit has written into a range.
fn is_touched(scope: &Range<usize>, touched: &[Range<usize>]) -> bool {
    touched.iter().any(|earlier| earlier.start < scope.end && scope.start < earlier.end)
}

/// Replaces a text.
fn of_text<'a>(
    text: EditedText<'_>,
    wanted: &'a TextToReplace,
    scope: &Range<usize>,
    bytes_max: usize,
) -> Result<Replacement, EditFault<'a>> {
    let body = text.body;
    let found =
        find::find(body, wanted, scope).map_err(|missed| EditFault::Text(wanted, missed, scope.clone()))?;
    let new = wanted.new.as_bytes();
    let searched = SearchRange::of(body, scope);
    let needle = replace::flat_needle(wanted.old.as_bytes(), body);
    let apart = || replace::separate_places(searched.exact_matches(&needle, wanted.word));
    let places: Vec<Range<usize>> = match found {
        MatchedPlaces::Places(places) => places,
        MatchedPlaces::All(count) if count <= EDIT_PLACES_MAX => apart().collect(),
        MatchedPlaces::All(_) => {
            let changes = || apart().map(|place| (place, new));
            let replaced = replace::replace_each(body, changes, text.usual, PLACES_LISTED, bytes_max)?;
            let (matched, places, left_out) = (MatchKind::Exact, Vec::new(), Vec::new());
            return Ok(Replacement::Places { matched, places, replaced, left_out });
        }
        MatchedPlaces::Fitted(tier, place, new) => {
            return Ok(changed(text, MatchKind::Flexible(tier), vec![place], &[&new], bytes_max)?);
        }
    };
    let news = vec![new; places.len()];
    Ok(changed(text, MatchKind::Exact, places, &news, bytes_max)?)
}

/// Converts lines to the form of a sketch.
fn of_sketch<'a>(
    text: EditedText<'_>,
    step: &'a EditStep,
    sketch: &str,
    scope: &Range<usize>,
    bytes_max: usize,
) -> Result<Replacement, EditFault<'a>> {
    let body = text.body;
    let flat = LfText::of(body);
    let sketch = replace::flat_needle(sketch.as_bytes(), body);
    let within = flat.flattened(scope.start)..flat.flattened(scope.end);
    let first_line = step.lines.map_or(1, |lines| usize::try_from(lines.first).unwrap_or(usize::MAX));
    let changes = sketch::changes(&flat.text, &sketch, &within, first_line).map_err(EditFault::Sketch)?;
    let places: Vec<Range<usize>> = changes
        .iter()
        .map(|change| flat.original(change.range.start)..flat.original(change.range.end))
        .collect();
    if places.is_empty() {
        return Ok(Replacement::None(scope.clone()));
    }
    let news: Vec<&[u8]> = changes.iter().map(|change| change.new.as_slice()).collect();
    let left_out = changes.iter().flat_map(|change| change.left_out.iter().copied()).collect();
    Ok(match changed(text, MatchKind::Sketch, places, &news, bytes_max)? {
        Replacement::Places { matched, places, replaced, .. } => {
            Replacement::Places { matched, places, replaced, left_out }
        }
        other @ Replacement::None(_) => other,
    })
}

/// Writes each new text at its place.
fn changed(
    text: EditedText<'_>,
    matched: MatchKind,
    places: Vec<Range<usize>>,
    news: &[&[u8]],
    bytes_max: usize,
) -> Result<Replacement, TextFault> {
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

/// Returns the result of the edits on the current file if they do not touch the lines that changed; otherwise the
/// reason as text.
///
/// The edits are applied to `base`, the bytes that the caller saw, and merged with the later change (three-way, by
/// lines). Without these bytes there is no proof: the caller may have guessed their SHA-256.
pub fn rebase(
    change: &Change<'_>,
    current: &LockedFile,
    file: &Content<'_>,
    steps: &[EditStep],
    base: Option<&[u8]>,
    expected: Option<Sha256>,
) -> Result<EditResult<'static>, String> {
    let shown = current.place().display();
    let base =
        base.ok_or_else(|| format!("lbx has no copy of the bytes of {shown} that the edit is based on"))?;
    let text = Content::of(base, file.encoding.charset())
        .ok()
        .filter(|text| text.encoding == file.encoding && text.bom == file.bom);
    let text = text.ok_or_else(|| format!("{shown} has another encoding than it had when you read it"))?;
    let edited = apply(&text, steps, change.policy().file_bytes())
        .map_err(|miss| miss.error(shown).message().to_owned())?;
    let merged = merge::merge(&text.body, &file.body, &edited.body, EqualChanges::Conflict);
    let merged = merged.map_err(|conflict| match conflict {
        MergeConflict::SameLines => {
            format!("others have changed the edited lines of {shown}, or lines next to them")
        }
        MergeConflict::TooMuch => conflict.error(shown).message().to_owned(),
    })?;
    let is_shown = |&(first, last): &(u64, u64)| {
        change.mark(current.place().path()).is_some_and(|mark| mark.lines.contain(first, last))
    };
    if expected.is_none() && !edited.removed.iter().all(is_shown) {
        return Err(format!("the sketch removes lines of {shown} that you have not been shown"));
    }
    let ranges = changed_ranges(&file.body, &merged);
    let EditResult { matched, left_out, removed, .. } = edited;
    let (body, count) = (FileBody::Owned(merged.into()), ranges.len());
    Ok(EditResult { body, ranges, count, matched, left_out, removed, replaced: None })
}

/// Returns the lines in which `new` differs from `old`.
fn changed_ranges(old: &[u8], new: &[u8]) -> Vec<Range<usize>> {
    let starts = lines::starts(new);
    let start = |line: usize| starts.get(line).copied().unwrap_or(new.len());
    let changed = merge::changed_lines(old, new).into_iter();
    changed.map(|lines| start(lines.start)..start(lines.end)).collect()
}

/// Edits with their line numbers resolved.
pub struct PlacedEdits {
    /// Edits with the current numbers of their lines.
    pub steps: Vec<EditStep>,
    /// Lines that have moved: old and new numbers.
    pub moved: Vec<(LineSpan, LineSpan)>,
    /// True if all edits are of lines that were shown and are unchanged.
    pub are_all_found: bool,
}

impl PlacedEdits {
    /// Returns the edits with their numbers as they are: they count in the present file.
    pub fn as_numbered(steps: &[EditStep]) -> Self {
        Self { steps: steps.to_vec(), moved: Vec::new(), are_all_found: false }
    }
}

/// Finds the lines that edits name by number.
///
/// # Errors
/// Returns `not_read` for lines that were never shown, `stale_file` for lines that changed. Both show the current
/// lines of all edits, which then count as shown.
pub fn resolve_lines(
    change: &mut Change<'_>,
    current: &LockedFile,
    file: &Content<'_>,
    steps: &[EditStep],
) -> Result<PlacedEdits, Error> {
    let (mut placed, mut moved) = (steps.to_vec(), Vec::new());
    let mut are_all_found = steps.iter().all(EditStep::is_by_number);
    let of_file = change.shown_lines(current);
    let (mut missed, mut named) = (Vec::new(), EditNumber(None));
    for step in placed.iter_mut().filter(|step| step.is_by_number()) {
        let Some(shown) = step.lines else { continue };
        let now = of_file.as_ref().map_or(Err(LineNotFound::NeverShown(shown.first)), |of_file| {
            of_file.now(shown.first, shown.last)
        });
        match now {
            Ok((first, last)) => {
                let now = LineSpan { first, last };
                if first != shown.first {
                    moved.push((shown, now));
                }
                step.lines = Some(now);
            }
            // For lines that were not shown, the digest is the proof; for shown lines it proves the text, but not the
            // place.
            Err(LineNotFound::NeverShown(_)) if step.range_sha256.is_some() => are_all_found = false,
            // Without a record of these lines, an open gate has only their present numbers.
            Err(_) if change.gate() != Gate::Strict => return Ok(PlacedEdits::as_numbered(steps)),
            Err(why) => {
                if missed.is_empty() {
                    named = step.named;
                }
                missed.push((shown, why));
            }
        }
    }
    common::must_be_as_shown(change, current, &file.body, &missed)
        .map_err(|error| named.of_several(error))?;
    Ok(PlacedEdits { steps: placed, moved, are_all_found })
}

/// Rejects new lines that repeat the line just outside their range, such as a brace that is closed twice.
///
/// # Errors
/// Returns `ambiguous_match`, with both lines.
pub fn must_not_repeat(file: &Content<'_>, steps: &[EditStep], name: &str) -> Result<(), Error> {
    if !steps.iter().any(EditStep::is_by_number) {
        return Ok(());
    }
    let all = lines::all(&file.body);
    for step in steps {
        let (EditKind::Lines { new }, Some(span)) = (&step.what, step.lines) else { continue };
        let new: Vec<&[u8]> = lines::all(new.as_bytes());
        if let Some(repeated) = common::repeated_line(&all, span, &new) {
            let error = step.named.refusal(ErrorKind::AmbiguousMatch, repeated.message.clone(), name);
            return Err(repeated.explain(error, &file.body).detail("field", "new_string"));
        }
    }
    Ok(())
}
