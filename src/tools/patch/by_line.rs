//! Edits by line of a patch: their places in the files as they are now.

use std::ops::Range;
use std::sync::Arc;

use super::files::{LineProof, PatchFiles};
use crate::buffer::Buffer;
use crate::engine::change::shown_lines::{LineNotFound, ShownLines};
use crate::engine::change::{Change, LockedFile};
use crate::engine::policy::Gate;
use crate::error::{Error, ErrorKind};
use crate::text::charset::Charset;
use crate::text::checked::{must_fit, slice_or_empty};
use crate::text::escaped::plural;
use crate::text::lines::{self, LineSpan};
use crate::text::patch::{
    EditPlace, FileEdits, FileForm, FileOp, FilePatch, LineEdit, NewText, Patch, PatchBody, Splice,
    SymlinkMode, overlap,
};
use crate::tools::common::{self, Refusals};

/// Bytes of each file of a patch; `None` for a missing one.
pub type PatchFileBytes = Vec<Option<Arc<Buffer>>>;

/// Reads the files of a patch.
///
/// # Errors
/// Fails as for any file that is changed.
pub fn texts(patch: &Patch<'_>, files: &mut PatchFiles<'_>) -> Result<PatchFileBytes, Error> {
    let read = |file: &FilePatch<'_>| {
        let is_whole = matches!(file.operation, FileOp::Rename | FileOp::Delete);
        let look = if is_whole { SymlinkMode::Itself } else { SymlinkMode::Through };
        let before = files.before(file.old_path.as_deref().unwrap_or_default(), look, FileForm::Text)?;
        Ok(before.map(|before| before.bytes))
    };
    patch.files.iter().map(read).collect()
}

/// Finds the places of all edits and writes them into the patch.
///
/// # Errors
/// Returns `not_read` for lines that were never shown, `stale_file` for lines that changed, `patch_conflict` for edits of
/// one place, `invalid_request` for a repeated line, and `too_large`.
pub fn place<'t>(
    patch: &mut Patch<'t>,
    files: &mut PatchFiles<'_>,
    texts: &'t PatchFileBytes,
    allow_repeat: bool,
) -> Result<(), Error> {
    let by_line = std::mem::take(&mut patch.by_line);
    let bodies: Vec<Vec<&'t [u8]>> = texts.iter().map(|text| lines_of(text.as_deref())).collect();
    let (mut places, mut refusals) = (Vec::with_capacity(by_line.len()), Refusals::default());
    for ((file, of_file), body) in patch.files.iter().zip(&by_line).zip(&bodies) {
        let path = file.old_path.as_deref().unwrap_or_default();
        let found = file_places(files, path, of_file, body);
        let found = found.and_then(|found| {
            must_be_apart(files, path, of_file, &found)?;
            if !allow_repeat {
                must_not_repeat(files, path, (of_file, &found), body)?;
            }
            Ok(found)
        });
        match found {
            Ok(found) => places.push(found),
            Err(error) => refusals.keep(error)?,
        }
    }
    refusals.refuse()?;
    let mut pasted_bytes = 0;
    for (index, (file, of_file)) in patch.files.iter_mut().zip(&by_line).enumerate() {
        let source = MovedLines { places: &places, bodies: &bodies };
        let splices = source.splices(files, (index, file), of_file, &mut pasted_bytes)?;
        if let PatchBody::Splices(of_body) = &mut file.body {
            *of_body = splices;
        }
    }
    Ok(())
}

/// Returns the lines of a file, without endings and byte-order mark.
fn lines_of(text: Option<&Buffer>) -> Vec<&[u8]> {
    let bytes: &[u8] = text.map(|text| &**text).unwrap_or_default();
    let body = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    lines::lines(body).map(lines::without_ending).collect()
}

/// Lines that a patch may move.
struct MovedLines<'p, 't> {
    /// Place of each edit of each file, as indices of lines.
    places: &'p [Vec<Range<usize>>],
    /// Lines of each file.
    bodies: &'p [Vec<&'t [u8]>],
}

impl<'t> MovedLines<'_, 't> {
    /// Returns the changes of a file, in order; pasted lines must fit into the largest file that the policy allows.
    fn splices(
        &self,
        files: &mut PatchFiles<'_>,
        (index, file): (usize, &FilePatch<'_>),
        of_file: &FileEdits<'t>,
        pasted_bytes: &mut usize,
    ) -> Result<Vec<Splice<'t>>, Error> {
        let path = file.old_path.as_deref().unwrap_or_default();
        let Some((change, current)) = files.file(path) else { return Ok(Vec::new()) };
        let name = current.place().display();
        let bytes_max = change.policy().file_bytes();
        let mut splices = Vec::with_capacity(of_file.edits.len());
        for (edit, place) in
            of_file.edits.iter().zip(slice_or_empty(self.places, index..=index).iter().flatten())
        {
            let added = match &edit.text {
                NewText::Cut => Vec::new(),
                NewText::Rows(rows) => rows.clone(),
                NewText::Pasted { file, edit: cut } => {
                    let lines = self.cut_lines(*file, *cut);
                    for line in lines {
                        *pasted_bytes = pasted_bytes.saturating_add(line.len() + 1);
                        must_fit(*pasted_bytes, bytes_max).map_err(|fault| fault.error(name))?;
                    }
                    if *file != index && lines.iter().any(|line| std::str::from_utf8(line).is_err()) {
                        return Err(not_utf8(edit, name));
                    }
                    lines.to_vec()
                }
            };
            let (patch_line, stated) = (edit.patch_line, first_line(edit.place, place.start));
            splices.push(Splice { patch_line, stated, start: place.start, end: place.end, added });
        }
        // A gap comes before the lines after it; edits of one gap keep their order.
        splices.sort_by_key(|splice| (splice.start, splice.end));
        Ok(splices)
    }

    /// Returns the lines that an edit cuts.
    fn cut_lines(&self, file: usize, edit: usize) -> &[&'t [u8]] {
        let place = self.places.get(file).and_then(|places| places.get(edit)).cloned().unwrap_or_default();
        self.bodies.get(file).map(|body| slice_or_empty(body, place)).unwrap_or_default()
    }
}

/// Returns the first line that an edit states; for the end of the file, the line that follows.
const fn first_line(place: EditPlace, end: usize) -> u64 {
    match place {
        EditPlace::Lines(span) => span.first,
        EditPlace::After(line) => line.saturating_add(1),
        EditPlace::End => end as u64 + 1,
    }
}

/// Returns the error for lines that another file cannot hold.
fn not_utf8(edit: &LineEdit<'_>, name: &str) -> Error {
    let message =
        format!("line {} of the patch: the lines that it puts into {name} are not UTF-8", edit.patch_line);
    Error::new(ErrorKind::UnsupportedEncoding, message).at(name).suggest("Write them as `+` rows, in UTF-8.")
}

/// Returns the place of each edit of a file, as indices of its present lines; empty if the file is missing.
fn file_places(
    files: &mut PatchFiles<'_>,
    path: &[u8],
    of_file: &FileEdits<'_>,
    body: &[&[u8]],
) -> Result<Vec<Range<usize>>, Error> {
    let (has_expectation, charset) = (files.has_expectation(path)?, files.charset);
    let Some((change, current)) = files.file(path).filter(|_| !of_file.edits.is_empty()) else {
        return Ok(Vec::new());
    };
    if let Some(tag) = &of_file.tag
        && !tag.begins(current.sha256())
    {
        let name = current.place().display();
        let message = format!("the SHA-256 of {name} does not begin with the tag {tag}");
        return Err(Error::new(ErrorKind::StaleFile, message)
            .at(name)
            .suggest("Leave the tag out, and lines count as they were shown; or read the file again."));
    }
    let counts_now = of_file.tag.is_some() || has_expectation || change.engine_ref().words.is_some();
    let total = body.len() as u64;
    // Without a record of these lines, an open gate has only their present numbers.
    let counts = |shown: &ShownLines| {
        let is_found = |edit: &LineEdit| find(edit.place, Some(shown), total).is_ok();
        change.gate() == Gate::Strict || of_file.edits.iter().all(is_found)
    };
    let shown = if counts_now { None } else { change.shown_lines(current) };
    let shown = shown.filter(|shown| !shown.is_own() && counts(shown));
    let found = find_all(change, (current, charset), &of_file.edits, (shown.as_ref(), total))?;
    let proof = match (&of_file.tag, shown) {
        (Some(_), _) => LineProof::Tag,
        (None, Some(_)) => {
            warn_of_moved(change, current, of_file, &found);
            let seen = change.mark(current.place().path()).map(|mark| mark.sha256);
            let seen = seen.filter(|seen| *seen != current.sha256());
            let base = seen.map(|seen| change.bytes_shown(current.place().path(), seen).unwrap_or_default());
            LineProof::Shown(base)
        }
        (None, None) => {
            // For a gap, the lines next to it.
            let needed = |place: &Range<usize>| match (place.start as u64, place.end as u64) {
                (start, end) if start == end => (start.max(1), (end + 1).min(total)),
                (start, end) => (start + 1, end),
            };
            LineProof::Gate(found.iter().map(needed).collect())
        }
    };
    files.line_proofs.insert(path.to_vec(), proof);
    Ok(found)
}

/// Returns the present lines of all edits of a file, as indices.
///
/// # Errors
/// As [`common::must_be_as_shown`].
fn find_all(
    change: &mut Change<'_>,
    (current, charset): (&LockedFile, Option<Charset>),
    edits: &[LineEdit<'_>],
    (shown, total): (Option<&ShownLines>, u64),
) -> Result<Vec<Range<usize>>, Error> {
    let index = |line: u64| usize::try_from(line).unwrap_or(usize::MAX);
    let (mut found, mut missed, mut patch_line) = (Vec::with_capacity(edits.len()), Vec::new(), None);
    for edit in edits {
        match find(edit.place, shown, total) {
            Ok(place) => found.push(index(place.start)..index(place.end)),
            Err(why) => {
                patch_line.get_or_insert(edit.patch_line);
                missed.push(why);
            }
        }
    }
    if !missed.is_empty() {
        let text = common::view(current, charset)?;
        common::must_be_as_shown(change, current, &text.body, &missed)
            .map_err(|error| error.detail("patch_line", patch_line))?;
    }
    Ok(found)
}

/// Returns the present lines of an edit as the lines before the first, and before the one after the last.
fn find(
    place: EditPlace,
    shown: Option<&ShownLines>,
    total: u64,
) -> Result<Range<u64>, (LineSpan, LineNotFound)> {
    match (place, shown) {
        (EditPlace::End, _) => Ok(total..total),
        (EditPlace::Lines(span), Some(shown)) => {
            let (first, last) = shown.now(span.first, span.last).map_err(|why| (span, why))?;
            Ok(first.saturating_sub(1)..last)
        }
        (EditPlace::Lines(span), None) if span.last <= total => Ok(span.first.saturating_sub(1)..span.last),
        (EditPlace::Lines(span), None) => Err((span, LineNotFound::NeverShown(span.first.max(total + 1)))),
        (EditPlace::After(line), Some(shown)) => {
            let at = shown.insertion_point(line).map_err(|why| (lines_next_to(line), why))?;
            Ok(at..at)
        }
        (EditPlace::After(line), None) if line <= total => Ok(line..line),
        (EditPlace::After(line), None) => Err((lines_next_to(line), LineNotFound::NeverShown(line))),
    }
}

/// Returns the lines next to a gap.
const fn lines_next_to(line: u64) -> LineSpan {
    LineSpan { first: if line == 0 { 1 } else { line }, last: line.saturating_add(1) }
}

/// Warns once a file if edits are not at the lines that they name.
fn warn_of_moved(
    change: &mut Change<'_>,
    current: &LockedFile,
    of_file: &FileEdits<'_>,
    found: &[Range<usize>],
) {
    let mut moved = of_file.edits.iter().zip(found).filter_map(|(edit, place)| {
        let now = place.start as u64 + 1;
        match edit.place {
            EditPlace::Lines(span) if span.first != now => {
                Some((span, LineSpan { first: now, last: place.end as u64 }))
            }
            EditPlace::After(line) if line + 1 != now => {
                let gap = |line| LineSpan { first: line, last: line };
                Some((gap(line), gap(now - 1)))
            }
            _ => None,
        }
    });
    let Some((shown, now)) = moved.next() else { return };
    let name = current.place().display();
    let more = match moved.count() {
        0 => String::new(),
        more => format!("; {} of it moved too", plural(more as u64, "other edit")),
    };
    change.engine().warn(format!("{shown} of {name} as shown: {now} now{more}"));
}

/// Rejects two edits of one place.
fn must_be_apart(
    files: &mut PatchFiles<'_>,
    path: &[u8],
    of_file: &FileEdits<'_>,
    found: &[Range<usize>],
) -> Result<(), Error> {
    let span = |place: &Range<usize>| (place.start as u64 + 1, place.end as u64);
    let places = found.iter().zip(&of_file.edits).map(|(place, edit)| (span(place), edit.patch_line));
    let (Some((one, other)), Some((_, current))) = (overlap(places.collect()), files.file(path)) else {
        return Ok(());
    };
    let name = current.place().display();
    let message = format!("lines {one} and {other} of the patch edit the same lines of {name} as it is now");
    Err(Error::new(ErrorKind::PatchConflict, message)
        .at(name)
        .suggest("Nothing was changed. Read the file again, and number the lines as they are now."))
}

/// Rejects rows that repeat the line just outside the lines that they replace.
fn must_not_repeat(
    files: &mut PatchFiles<'_>,
    path: &[u8],
    (of_file, found): (&FileEdits<'_>, &[Range<usize>]),
    body: &[&[u8]],
) -> Result<(), Error> {
    let charset = files.charset;
    let mut edited: Vec<&Range<usize>> = found.iter().collect();
    edited.sort_unstable_by_key(|place| (place.start, place.end));
    let is_edited = |line: u64| {
        let after = edited.partition_point(|place| (place.start as u64) < line);
        after.checked_sub(1).and_then(|at| edited.get(at)).is_some_and(|place| line <= place.end as u64)
    };
    for (edit, place) in of_file.edits.iter().zip(found) {
        let (EditPlace::Lines(_), NewText::Rows(rows)) = (edit.place, &edit.text) else { continue };
        let span = LineSpan { first: place.start as u64 + 1, last: place.end as u64 };
        let repeated =
            common::repeated_line(body, span, rows).filter(|repeated| !is_edited(repeated.outside));
        if let (Some(repeated), Some((_, current))) = (repeated, files.file(path)) {
            let message = format!("line {} of the patch: {}", edit.patch_line, repeated.message);
            let error = Error::new(ErrorKind::AmbiguousMatch, message).at(current.place().display());
            let text = common::view(current, charset)?;
            return Err(repeated.explain(error, &text.body).detail("field", "patch"));
        }
    }
    Ok(())
}
