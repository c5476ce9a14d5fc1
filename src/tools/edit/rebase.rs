//! An edit of a file that has changed since it was read, elsewhere.

use super::apply::{self, Body, Edited};
use super::step::EditStep;
use crate::engine::change::{Change, Current};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::content::View;
use crate::text::line_diff;
use crate::text::merge::{self, Alike, Conflict};

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
    steps: &[EditStep],
    seen: Option<Sha256>,
) -> Result<(Edited<'static>, Vec<u8>), Error> {
    let shown = current.place().shown();
    let stale = |message: String| Error::new(ErrorKind::StaleFile, message).at(shown);
    let Some(base) = seen.and_then(|sha256| change.bytes_seen(current.place().path(), sha256)) else {
        return Err(stale(format!("lbx has no copy of the bytes of {shown} that the edit is based on")));
    };
    let text = View::of(&base).ok().filter(|text| text.encoding == file.encoding && text.bom == file.bom);
    let Some(text) = text else {
        return Err(stale(format!("{shown} has another encoding than it had when you read it")));
    };
    let edited =
        apply::apply(&text, steps, change.policy().file_bytes()).map_err(|miss| miss.error(shown))?;
    let merged = merge::merge(&text.body, &file.body, &edited.body, Alike::Conflict);
    let merged = merged.map_err(|conflict| match conflict {
        Conflict::SameLines => {
            stale(format!("others have changed the edited lines of {shown}, or lines beside them"))
        }
        Conflict::TooMuch => conflict.error(shown),
    })?;
    let ranges = changed_ranges(&file.body, &merged);
    let Edited { matched, left_out, removed, .. } = edited;
    drop(text);
    Ok((
        Edited { body: Body::Owned(merged.into()), count: ranges.len(), ranges, matched, left_out, removed },
        base,
    ))
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
    line_diff::diff(&old_lines, &new_lines)
        .ops
        .iter()
        .filter(|op| !matches!(op, similar::DiffOp::Equal { .. }))
        .map(|op| start(op.new_range().start)..start(op.new_range().end))
        .collect()
}

/// The refusal of a rebase: the file is stale, and this is why the edit cannot go on.
pub fn refused(stale: Error, why: &Error) -> Error {
    stale.detail("rebase", false).detail("rebase_refused", why.message().to_owned())
}
