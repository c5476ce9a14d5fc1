//! Applies the patch of one file: finds the place of each hunk, then writes the file with the changed lines and every
//! other byte unchanged.

use std::collections::BTreeMap;

use super::binary::BinaryResult;
use super::conflict::{HunkConflict, HunkFailure, HunkFate, HunkFault, HunkResult};
use super::index::{IndexedText, LineMatch};
use super::model::{
    Ending, FileOp, FilePatch, Hunk, HunkLine, LineKind, PatchBody, Splice, TextLine, lines as patch_lines,
    lines_at_carriage_returns,
};
use super::place::{HunkPlace, HunkSearch, PatchOptions};
use crate::text::checked::{TextFault, slice, slice_or_empty};
use crate::text::lines;
use crate::text::replaced_lines::ReplacedLines;

/// The byte-order mark of UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Failing hunks that are explained; the rest are only counted.
const EXPLAINED_MAX: usize = 20;

/// Insertions at one place that are searched for a removal that starts there.
const EDITS_AT_ONE_PLACE_MAX: usize = 16;

/// A file after its patch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PatchResult {
    /// New text.
    pub after: Vec<u8>,
    /// Report of each hunk, in the order of the patch.
    pub hunks: Vec<HunkReport>,
    /// True if every hunk was applied before, so that `after` equals the old text.
    pub already_applied: bool,
    /// True if the patch shows what it changes: every hunk that changes something matched byte for byte and in one
    /// place only, or a binary change has the old bytes.
    pub exact_and_unique: bool,
    /// Lines that it replaces, if they are counted as the file's own.
    pub replaced: Option<Vec<ReplacedLines>>,
}

impl PatchResult {
    /// Returns true if one of `hunks` without old lines was found to be applied.
    fn has_bare_hunk_done(&self, hunks: &[Hunk<'_>]) -> bool {
        let mut pairs = hunks.iter().zip(&self.hunks);
        pairs.any(|(hunk, report)| report.already_applied && hunk.old().next().is_none())
    }
}

/// How a hunk was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HunkReport {
    /// First line in the result, from 1.
    pub line: usize,
    /// Distance of the place below the stated line, in lines; 0 if none was stated.
    pub offset: i64,
    /// Number of context lines that were ignored.
    pub fuzz: usize,
    /// Comparison under which the lines matched.
    pub tier: LineMatch,
    /// True if the old lines matched byte for byte, and in one place only.
    pub exact_and_unique: bool,
    /// True if the result was already there.
    pub already_applied: bool,
}

/// Applies `file` to `before`, the text of the file without a byte-order mark.
///
/// It applies all hunks or none. It ignores operation and paths, except that a deletion must cover every line.
///
/// # Errors
/// Returns the fate of every hunk if one has no place.
pub fn apply(
    file: &FilePatch<'_>,
    before: &[u8],
    options: &PatchOptions,
) -> Result<PatchResult, HunkConflict> {
    let reversed;
    let file = if options.reverse {
        reversed = file
            .reversed()
            .ok_or_else(|| HunkConflict::of_whole_file(file.patch_line, HunkFault::Irreversible))?;
        &reversed
    } else {
        file
    };
    match &file.body {
        PatchBody::Unseen => Ok(PatchResult::default()),
        PatchBody::Binary(binary) => {
            let refused = |reason| HunkConflict::of_whole_file(file.patch_line, reason);
            options.must_fit(binary.bytes_after()).map_err(|fault| refused(fault.into()))?;
            let applied = binary.apply(before).map_err(|message| refused(HunkFault::Binary(message)))?;
            let BinaryResult { after, already_applied } = applied;
            Ok(PatchResult { after, already_applied, exact_and_unique: true, ..PatchResult::default() })
        }
        PatchBody::Splices(splices) => apply_splices(splices, before, *options)
            .map_err(|fault| HunkConflict::of_whole_file(file.patch_line, fault.into())),
        PatchBody::Hunks(hunks) => {
            let has_lines = file.has_lines.0 || hunks.len() > 1;
            let applied = apply_hunks(hunks, before, has_lines, *options)?;
            // The hunks count lines by line feeds.
            let counts_alike = lines::terminator(before) == b'\n';
            let applied = PatchResult { replaced: applied.replaced.filter(|_| counts_alike), ..applied };
            all_lines_deleted(file, before, &applied)?;
            Ok(applied)
        }
    }
}

/// Replaces lines at known places; a byte-order mark stays first.
///
/// # Errors
/// Fails as [`render`] does.
fn apply_splices(
    splices: &[Splice<'_>],
    before: &[u8],
    options: PatchOptions,
) -> Result<PatchResult, TextFault> {
    let body = before.strip_prefix(BYTE_ORDER_MARK).unwrap_or(before);
    let is_old_mac = lines::terminator(body) == b'\r';
    let lines = if is_old_mac { lines_at_carriage_returns(body) } else { patch_lines(body) };
    let edits: Vec<_> = splices.iter().enumerate().map(|(index, splice)| Edit::of(index, splice)).collect();
    let (after, changed) = render(&lines, &edits, splices.len(), options)?;
    let mut grown = 0;
    let reports = splices.iter().zip(&edits).zip(&changed).map(|((splice, edit), changed)| {
        let first = to_offset(splice.start + 1);
        let line = to_index(first + grown);
        grown += edit.growth();
        let offset = first - to_offset(usize::try_from(splice.stated).unwrap_or(usize::MAX));
        let (fuzz, tier) = (0, LineMatch::Exact);
        HunkReport { line, offset, fuzz, tier, exact_and_unique: true, already_applied: !changed }
    });
    let mark = if body.len() < before.len() { BYTE_ORDER_MARK } else { b"" };
    Ok(PatchResult {
        hunks: reports.collect(),
        already_applied: !changed.contains(&true),
        exact_and_unique: true,
        replaced: Some(edits.iter().filter_map(|edit| edit.replaced(&lines)).collect()),
        after: [mark, &after].concat(),
    })
}

/// Applies hunks to lines that end in line feeds or, in a file without any, in carriage returns.
fn apply_hunks(
    hunks: &[Hunk<'_>],
    before: &[u8],
    has_lines: bool,
    options: PatchOptions,
) -> Result<PatchResult, HunkConflict> {
    let apply = |lines, is_new| HunkApplier::new(lines, has_lines, is_new, options).run(hunks);
    let first = apply(patch_lines(before), false);
    // Lines without context may match at their place by chance. If the rest of the patch is not applied yet,
    // neither are these lines.
    let is_doubtful = match &first {
        Ok(applied) => !applied.already_applied && applied.has_bare_hunk_done(hunks),
        Err(_) => hunks.iter().any(|hunk| hunk.old().next().is_none()),
    };
    let first = if is_doubtful { apply(patch_lines(before), true).or(first) } else { first };
    let is_old_mac = !options.strict && before.contains(&b'\r') && !before.contains(&b'\n');
    match first {
        Err(conflict) if is_old_mac => apply(lines_at_carriage_returns(before), false).map_err(|_| conflict),
        first => first,
    }
}

/// Refuses a deletion that leaves lines.
fn all_lines_deleted(file: &FilePatch<'_>, before: &[u8], applied: &PatchResult) -> Result<(), HunkConflict> {
    if file.operation != FileOp::Delete || (applied.after.is_empty() && !applied.already_applied) {
        return Ok(());
    }
    let left = if applied.already_applied { before } else { &applied.after };
    match patch_lines(left).len() {
        0 => Ok(()),
        lines => Err(HunkConflict::of_whole_file(file.patch_line, HunkFault::Remainder { lines })),
    }
}

/// State of applying the hunks of one file.
struct HunkApplier<'f, 'p> {
    /// Text of the file.
    text: IndexedText<'f>,
    /// True if the patch knows that the file has lines.
    has_lines: bool,
    /// True if carriage returns in the patch belong to the file.
    carries_returns: bool,
    /// True if the patch is known not to be applied, at least not as a whole.
    is_new: bool,
    /// Allowed leniency.
    options: PatchOptions,
    /// Distance of the last hunk from its stated line.
    drift: i64,
    /// Index after the last line that the previous hunk changes.
    after: usize,
    /// Edits, sorted by start and then by order of insertion.
    edits: BTreeMap<(usize, usize), Edit<'p>>,
}

impl<'f, 'p> HunkApplier<'f, 'p> {
    /// Creates the state from the lines of a file.
    fn new(lines: Vec<TextLine<'f>>, has_lines: bool, is_new: bool, options: PatchOptions) -> Self {
        Self {
            text: IndexedText::new(lines),
            has_lines,
            carries_returns: false,
            is_new,
            options,
            drift: 0,
            after: 0,
            edits: BTreeMap::new(),
        }
    }

    /// Places every hunk, then writes the result.
    fn run(mut self, hunks: &[Hunk<'p>]) -> Result<PatchResult, HunkConflict> {
        self.carries_returns = carries_returns(hunks);
        let mut places = Vec::with_capacity(hunks.len());
        let mut failures = 0;
        for (index, hunk) in hunks.iter().enumerate() {
            let place = self.place(hunk, index, failures < EXPLAINED_MAX);
            failures += usize::from(place.is_err());
            places.push(place);
        }
        if failures > 0 {
            return Err(conflict(hunks, places));
        }
        let patch_line = hunks.first().map_or(1, |hunk| hunk.patch_line);
        let applied = self.finish(hunks, &places.into_iter().flatten().collect::<Vec<_>>());
        applied.map_err(|fault| HunkConflict::of_whole_file(patch_line, fault.into()))
    }

    /// Places one hunk and records its edits.
    fn place(&mut self, hunk: &Hunk<'p>, index: usize, explain: bool) -> Result<HunkPlace, HunkFailure> {
        let stated = hunk.first_old_index();
        let expected = stated.map(|at| to_index(to_offset(at).saturating_add(self.drift)));
        let endings_are_meant = !hunk.is_crlf && (self.carries_returns || self.text.is_mixed());
        let placing = HunkSearch {
            text: &self.text,
            hunk,
            expected,
            after: self.after,
            has_lines: self.has_lines,
            endings_are_meant,
            is_new: self.is_new,
            options: self.options,
        };
        let found = placing.place().and_then(|place| {
            let edits = if place.is_done {
                Vec::new()
            } else {
                edits(&self.text, hunk, index, &place, endings_are_meant).map_err(HunkFault::from)?
            };
            self.refuse_overlap(&edits)?;
            Ok((place, edits))
        });
        let (place, edits) = found.map_err(|reason| {
            if explain { placing.explain(reason) } else { HunkFailure { reason, nearest: None } }
        })?;
        let (old, new) = (hunk.old().count(), hunk.new_side().count());
        if let Some(stated) = stated {
            let grown = if place.is_done { to_offset(new) - to_offset(old) } else { 0 };
            self.drift = offset(&place, stated).saturating_add(grown);
        }
        let touched = if place.is_done { place.start + new } else { place.start };
        self.after = edits.iter().map(|edit| edit.end).max().unwrap_or(touched).max(self.after);
        for edit in edits {
            self.edits.insert((edit.start, self.edits.len()), edit);
        }
        Ok(place)
    }

    /// Refuses to change a line twice.
    fn refuse_overlap(&self, edits: &[Edit<'_>]) -> Result<(), HunkFault> {
        for edit in edits {
            // Of the edits that start here or before, only the last few can reach this far: all others end where the
            // next begins.
            let mut before = self.edits.range(..(edit.start, usize::MAX)).rev().take(EDITS_AT_ONE_PLACE_MAX);
            let reaches_in = before.any(|(_, other)| other.end > edit.start);
            let inner = (edit.start.saturating_add(1), 0)..(edit.end.max(edit.start + 1), 0);
            if reaches_in || self.edits.range(inner).next().is_some() {
                return Err(HunkFault::Overlaps { line: edit.start + 1 });
            }
        }
        Ok(())
    }

    /// Writes the result and the reports.
    ///
    /// # Errors
    /// Fails if an edit lies outside the file, or if the result would be too large.
    fn finish(self, hunks: &[Hunk<'_>], places: &[HunkPlace]) -> Result<PatchResult, TextFault> {
        let edits: Vec<_> = self.edits.into_values().collect();
        let (after, changed) = render(&self.text.lines, &edits, hunks.len(), self.options)?;
        let growth = LineShift::new(&edits);
        let replaced = Some(edits.iter().filter_map(|edit| edit.replaced(&self.text.lines)).collect());
        let reports = hunks.iter().zip(places).zip(changed).map(|((hunk, place), changed)| HunkReport {
            line: to_index(to_offset(place.start + 1) + growth.before(place.start)),
            offset: hunk.first_old_index().map_or(0, |stated| offset(place, stated)),
            fuzz: place.skipped_before.max(place.skipped_after),
            tier: place.tier,
            exact_and_unique: place.is_unique,
            already_applied: place.is_done || !changed,
        });
        let hunks: Vec<_> = reports.collect();
        let already_applied = hunks.iter().all(|hunk| hunk.already_applied);
        let exact_and_unique = hunks.iter().all(|hunk| hunk.exact_and_unique || hunk.already_applied);
        Ok(PatchResult { after, hunks, already_applied, exact_and_unique, replaced })
    }
}

/// Growth of the text before each line, in lines.
struct LineShift {
    /// Start of each edit, and the total growth up to and including it.
    steps: Vec<(usize, i64)>,
}

impl LineShift {
    /// Sums up the growth by `edits`, which are in order.
    fn new(edits: &[Edit<'_>]) -> Self {
        let mut sum = 0;
        let steps = edits.iter().map(|edit| {
            sum += edit.growth();
            (edit.start, sum)
        });
        Self { steps: steps.collect() }
    }

    /// Returns the growth before the line with index `at`.
    fn before(&self, at: usize) -> i64 {
        let count = self.steps.partition_point(|(start, _)| *start < at);
        count.checked_sub(1).and_then(|last| self.steps.get(last)).map_or(0, |(_, sum)| *sum)
    }
}

/// Returns how many lines below the stated index `place` is.
fn offset(place: &HunkPlace, stated: usize) -> i64 {
    to_offset(place.start) - to_offset(place.skipped_before) - to_offset(stated)
}

/// Returns an index or count as a signed number, capped if it does not fit.
fn to_offset(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}

/// Returns a signed number as an index; 0 if it is negative.
fn to_index(offset: i64) -> usize {
    usize::try_from(offset.max(0)).unwrap_or(usize::MAX)
}

/// Returns the fates of all hunks.
fn conflict(hunks: &[Hunk<'_>], places: Vec<Result<HunkPlace, HunkFailure>>) -> HunkConflict {
    let fates = hunks.iter().zip(places).enumerate().map(|(index, (hunk, place))| HunkFate {
        number: index + 1,
        patch_line: hunk.patch_line,
        fate: match place {
            Ok(place) if place.is_done => HunkResult::AlreadyApplied { line: place.start + 1 },
            Ok(place) => HunkResult::Applies { line: place.start + 1, tier: place.tier },
            Err(failure) => HunkResult::Fails(failure),
        },
    });
    HunkConflict { hunks: fates.collect() }
}

/// Replacement of lines by others.
#[derive(Debug)]
pub struct Edit<'a> {
    /// Index of its hunk in the file.
    pub hunk: usize,
    /// Index of the first removed line.
    pub start: usize,
    /// Index after the last removed line.
    pub end: usize,
    /// Lines added in their place.
    added: Vec<HunkLine<'a>>,
    /// True if the line endings of the patch are those of the file.
    is_verbatim: bool,
    /// Change of the final newline.
    last: LastLine,
}

impl<'a> Edit<'a> {
    /// Returns the edit at a known place; its lines end as those of the file.
    fn of(hunk: usize, splice: &Splice<'a>) -> Self {
        let line = |text: &&'a [u8]| HunkLine { kind: LineKind::Added, text, ending: Ending::Lf };
        let added = splice.added.iter().map(line).collect();
        let (start, end, last) = (splice.start, splice.end, LastLine::AsItWas);
        Self { hunk, start, end, added, is_verbatim: false, last }
    }

    /// Returns by how many lines the text grows.
    pub fn growth(&self) -> i64 {
        let count = |lines: usize| i64::try_from(lines).unwrap_or(i64::MAX);
        count(self.added.len()) - count(self.end - self.start)
    }

    /// Returns the lines that it replaces in a file with these lines; `None` if they stay.
    fn replaced(&self, lines: &[TextLine<'_>]) -> Option<ReplacedLines> {
        let gone: Vec<&[u8]> =
            slice_or_empty(lines, self.start..self.end).iter().map(|line| line.text).collect();
        let added: Vec<&[u8]> = self.added.iter().map(|line| line.text).collect();
        ReplacedLines::differing_lines(self.start as u64, &gone, &added)
    }
}

/// Effect of a hunk on the final newline of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastLine {
    /// None: it stays as in the file.
    AsItWas,
    /// It is added.
    GetsNewline,
    /// It is removed.
    LosesNewline,
}

/// Returns the edits that `hunk`, which has the index `index`, makes at `place`.
///
/// `endings_are_meant` decides if no old line shows whether the endings of the patch are those of the file.
pub fn edits<'a>(
    text: &IndexedText<'_>,
    hunk: &Hunk<'a>,
    index: usize,
    place: &HunkPlace,
    endings_are_meant: bool,
) -> Result<Vec<Edit<'a>>, TextFault> {
    let end = hunk.lines.len().saturating_sub(place.skipped_after);
    let body = slice(&hunk.lines, place.skipped_before..end)?;
    let is_verbatim = is_verbatim(&text.lines, body, place.start).unwrap_or(endings_are_meant);
    let last = last_line(hunk);
    let mut edits: Vec<Edit<'a>> = Vec::new();
    let mut at = place.start;
    let mut is_open = false;
    for line in body {
        if line.kind == LineKind::Context {
            at += 1;
            is_open = false;
            continue;
        }
        if !is_open {
            edits.push(Edit { hunk: index, start: at, end: at, added: Vec::new(), is_verbatim, last });
            is_open = true;
        }
        let Some(edit) = edits.last_mut() else { continue };
        if line.kind == LineKind::Removed {
            at += 1;
            edit.end = at;
        } else {
            edit.added.push(*line);
        }
    }
    Ok(edits)
}

/// Returns the file after `edits`, which are in order and do not overlap, and the hunks that changed a byte.
///
/// # Errors
/// Fails if an edit lies outside the file, or if the result would be larger than `options` allow: its size is computed
/// before any of it is allocated.
pub fn render(
    lines: &[TextLine<'_>],
    edits: &[Edit<'_>],
    hunks: usize,
    options: PatchOptions,
) -> Result<(Vec<u8>, Vec<bool>), TextFault> {
    let mut size = 0_usize;
    write(lines, edits, hunks, &mut |piece| size = size.saturating_add(piece.len()))?;
    options.must_fit(size)?;
    let mut bytes = Vec::with_capacity(size);
    let changed = write(lines, edits, hunks, &mut |piece| bytes.extend_from_slice(piece))?;
    Ok((bytes, changed))
}

/// Writes the file after `edits` to `sink`, and returns which hunks changed a byte.
fn write(
    lines: &[TextLine<'_>],
    edits: &[Edit<'_>],
    hunks: usize,
    sink: &mut dyn FnMut(&[u8]),
) -> Result<Vec<bool>, TextFault> {
    let mut output = PatchOutput { sink, is_open: false, filler: filler(lines) };
    let mut changed = vec![false; hunks];
    let mut at = 0;
    for (index, edit) in edits.iter().enumerate() {
        output.copy(slice(lines, at..edit.start)?);
        let gone = slice(lines, edit.start..edit.end)?;
        let is_last = edit.end == lines.len() && index + 1 == edits.len();
        let mut is_same = gone.len() == edit.added.len();
        for (number, line) in edit.added.iter().enumerate() {
            let mut ending = ending(lines, edit, number);
            if is_last && number + 1 == edit.added.len() {
                ending = final_ending(lines, edit, ending);
            }
            is_same &= gone.get(number).is_some_and(|gone| gone.text == line.text && gone.ending == ending);
            output.push(line.text, ending);
        }
        if let Some(changed) = changed.get_mut(edit.hunk) {
            *changed |= !is_same;
        }
        at = edit.end;
    }
    output.copy(slice(lines, at..lines.len())?);
    Ok(changed)
}

/// State of the written text.
struct PatchOutput<'s> {
    /// Receiver of the text in pieces.
    sink: &'s mut dyn FnMut(&[u8]),
    /// True if the last line has no ending.
    is_open: bool,
    /// Ending for such a line if another follows.
    filler: Ending,
}

impl PatchOutput<'_> {
    /// Writes one line.
    fn push(&mut self, text: &[u8], ending: Ending) {
        if self.is_open {
            (self.sink)(self.filler.bytes());
        }
        (self.sink)(text);
        (self.sink)(ending.bytes());
        self.is_open = ending == Ending::None;
    }

    /// Writes lines unchanged.
    fn copy(&mut self, lines: &[TextLine<'_>]) {
        for line in lines {
            self.push(line.text, line.ending);
        }
    }
}

/// Returns true if carriage returns at the ends of lines in a patch belong to the file, not to the patch.
pub fn carries_returns(hunks: &[Hunk<'_>]) -> bool {
    let has_returns = |hunk: &Hunk<'_>| hunk.lines.iter().any(|line| line.ending == Ending::CrLf);
    hunks.iter().any(|hunk| !hunk.is_crlf && has_returns(hunk))
}

/// Returns true if all old lines end in the file as in the patch; `None` if there are none to compare.
fn is_verbatim(lines: &[TextLine<'_>], body: &[HunkLine<'_>], start: usize) -> Option<bool> {
    let old = body.iter().filter(|line| line.kind != LineKind::Added).map(|line| line.ending);
    let there = lines.iter().skip(start).map(|line| line.ending);
    let mut pairs =
        old.zip(there).filter(|(old, there)| *old != Ending::None && *there != Ending::None).peekable();
    if lines.is_empty() {
        return Some(true);
    }
    pairs.peek().is_some().then(|| pairs.all(|(old, there)| old == there))
}

/// Returns the ending of an added line that is not the last of the file.
fn ending(lines: &[TextLine<'_>], edit: &Edit<'_>, number: usize) -> Ending {
    let own = edit.added.get(number).map_or(Ending::Lf, |line| line.ending);
    if edit.is_verbatim && own != Ending::None {
        return own;
    }
    let replaced = (edit.start + number).min(edit.end.saturating_sub(1));
    let replaced = (edit.end > edit.start).then_some(replaced);
    let near = [replaced, edit.start.checked_sub(1), Some(edit.end)];
    let near = near.into_iter().flatten().filter_map(|at| lines.get(at)).map(|line| line.ending);
    let first = lines.first().map(|line| line.ending);
    let own = if own == Ending::None { Ending::Lf } else { own };
    near.chain(first).find(|ending| *ending != Ending::None).unwrap_or(own)
}

/// Returns the ending of an added line that is the last of the file.
fn final_ending(lines: &[TextLine<'_>], edit: &Edit<'_>, ending: Ending) -> Ending {
    let was_bare = lines.last().is_some_and(|line| line.ending == Ending::None);
    match edit.last {
        LastLine::LosesNewline => Ending::None,
        LastLine::AsItWas if was_bare => Ending::None,
        LastLine::GetsNewline | LastLine::AsItWas => ending,
    }
}

/// Returns the effect of `hunk` on the final newline.
fn last_line(hunk: &Hunk<'_>) -> LastLine {
    let is_bare = |line: Option<&HunkLine<'_>>| line.is_some_and(|line| line.ending == Ending::None);
    match (is_bare(hunk.old().next_back()), is_bare(hunk.new_side().next_back())) {
        (false, true) => LastLine::LosesNewline,
        (true, false) => LastLine::GetsNewline,
        (false, false) | (true, true) => LastLine::AsItWas,
    }
}

/// Returns the ending for a line that is no longer the last.
fn filler(lines: &[TextLine<'_>]) -> Ending {
    lines.iter().rev().map(|line| line.ending).find(|ending| *ending != Ending::None).unwrap_or(Ending::Lf)
}
