//! An edit of a file that has changed since it was read, elsewhere.

use super::apply::{self, Body, Edited};
use super::step::Step;
use crate::engine::transaction::{Change, Current};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::content::View;

/// What the edits make of the file as it is now, where they do not touch what has changed; also the
/// bytes that the caller saw.
///
/// The edits are applied to the bytes that the caller saw and merged with the change since (three-way,
/// by lines). Bytes that are not at hand prove nothing: whoever names them may have guessed.
///
/// # Errors
/// `no_match`, `ambiguous_match`, or `stale_file` where those bytes are not at hand or both changed
/// the same lines.
pub fn rebase(
    change: &Change<'_>,
    current: &Current,
    file: &View<'_>,
    steps: &[Step],
    seen: Option<Sha256>,
) -> Result<(Edited<'static>, Vec<u8>), Error> {
    let shown = current.place().shown();
    let stale = |message: String| Error::new(ErrorKind::StaleFile, message).at(shown);
    let Some(base) = seen.and_then(|sha256| change.bytes_seen(current.place().path(), sha256)) else {
        return Err(stale(format!("the bytes of {shown} as you last saw them are no longer at hand")));
    };
    let text = View::of(&base).ok().filter(|text| text.encoding == file.encoding && text.bom == file.bom);
    let Some(text) = text else {
        return Err(stale(format!("{shown} has another encoding than it had when you read it")));
    };
    let edited = apply::apply(&text, steps, shown)?;
    let merged = merged(&text.body, &file.body, &edited.body);
    let merged = merged.ok_or_else(|| stale(format!("others have changed the edited lines of {shown}")))?;
    let ranges = changed_ranges(&file.body, &merged);
    let Edited { matched, left_out, removed, .. } = edited;
    drop(text);
    Ok((Edited { body: Body::Owned(merged.into()), ranges, matched, left_out, removed }, base))
}

/// Refuses where a sketch removes lines of the bytes seen that were never shown, unless the caller
/// named these bytes.
///
/// # Errors
/// `stale_file`.
pub fn must_have_shown(
    change: &Change<'_>,
    current: &Current,
    removed: &[(u64, u64)],
    expected: Option<Sha256>,
) -> Result<(), Error> {
    let place = current.place();
    let is_shown = |&(first, last): &(u64, u64)| {
        change.mark(place.path()).is_some_and(|mark| mark.lines.contain(first, last))
    };
    if expected.is_some() || removed.iter().all(is_shown) {
        return Ok(());
    }
    let message = format!("the sketch removes lines of {} that you have not been shown", place.shown());
    Err(Error::new(ErrorKind::StaleFile, message).at(place.shown()))
}

/// Both changes of `base` together; `None` where they touch the same lines. Two that are alike do so
/// too: each may have been meant in addition to the other.
fn merged(base: &[u8], theirs: &[u8], mine: &[u8]) -> Option<Vec<u8>> {
    let lines = |text| crate::text::lines::lines(text).collect::<Vec<&[u8]>>();
    let (base_lines, their_lines, my_lines) = (lines(base), lines(theirs), lines(mine));
    let changed = |new: &[&[u8]]| -> Vec<std::ops::Range<usize>> {
        similar::capture_diff_slices(similar::Algorithm::Myers, &base_lines, new)
            .iter()
            .filter(|op| !matches!(op, similar::DiffOp::Equal { .. }))
            .map(similar::DiffOp::old_range)
            .collect()
    };
    let (by_them, by_me) = (changed(&their_lines), changed(&my_lines));
    // Both sorted; an insertion is an empty range, which meets another at the same place.
    let meet = |one: &std::ops::Range<usize>, other: &std::ops::Range<usize>| {
        *one == *other || (one.start < other.end && other.start < one.end)
    };
    if by_me.iter().any(|mine| by_them.iter().any(|theirs| meet(mine, theirs))) {
        return None;
    }
    let merged = diffy::merge_bytes(base, theirs, mine).ok()?;
    // A change that is lost in theirs was theirs as well.
    (merged != theirs || mine == base).then_some(merged)
}

/// Where `new` differs from `old`, line by line.
fn changed_ranges(old: &[u8], new: &[u8]) -> Vec<std::ops::Range<usize>> {
    let old_lines: Vec<&[u8]> = crate::text::lines::lines(old).collect();
    let new_lines: Vec<&[u8]> = crate::text::lines::lines(new).collect();
    let mut starts = vec![0];
    starts.extend(new_lines.iter().scan(0, |end, line| {
        *end += line.len();
        Some(*end)
    }));
    let start = |line: usize| starts.get(line).copied().unwrap_or(new.len());
    similar::capture_diff_slices(similar::Algorithm::Myers, &old_lines, &new_lines)
        .iter()
        .filter(|op| !matches!(op, similar::DiffOp::Equal { .. }))
        .map(|op| start(op.new_range().start)..start(op.new_range().end))
        .collect()
}

/// The refusal of a rebase: the file is stale, and this is why the edit cannot go on.
pub fn refused(stale: Error, why: &Error) -> Error {
    stale.detail("rebase", false).detail("rebase_refused", why.message().to_owned())
}
