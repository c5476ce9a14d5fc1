//! An edit of a file that has changed since it was read, elsewhere.

use super::answer::Matched;
use super::apply::{self, Body, Edited};
use super::step::Step;
use crate::engine::transaction::{Change, Current};
use crate::error::Error;
use crate::sha256::Sha256;
use crate::text::content::View;

/// What the edits make of the file as it is now, where they do not touch what has changed.
///
/// Where the bytes that the caller saw are still at hand, the edits are applied to these and merged
/// with the change since (three-way, by lines). Where they are not, the old text of every edit must
/// stand in one place alone, just as the caller knows it.
///
/// Answers those bytes too, where they are at hand.
///
/// # Errors
/// `no_match`, `ambiguous_match`, or `stale_file` where the merge has conflicts.
pub fn rebase(
    change: &Change<'_>,
    current: &Current,
    file: &View<'_>,
    steps: &[Step],
    seen: Option<Sha256>,
) -> Result<(Edited<'static>, Option<Vec<u8>>), Error> {
    let shown = current.place().shown();
    let base = seen.and_then(|sha256| change.bytes_seen(current.place().path(), sha256));
    let text = base.as_deref().and_then(|bytes| View::of(bytes).ok());
    let Some(text) = text.filter(|text| text.encoding == file.encoding) else {
        return apply::apply(file, steps, shown).map(|edited| (edited.into_owned(), None));
    };
    let edited = apply::apply(&text, steps, shown)?;
    let Ok(merged) = diffy::merge_bytes(&text.body, &file.body, &edited.body) else {
        return Err(Error::new(
            crate::error::ErrorKind::StaleFile,
            format!("{shown} has changed since it was read, in the edited lines too"),
        )
        .at(shown));
    };
    let ranges = changed_ranges(&file.body, &merged);
    let matched = if merged == *file.body { Matched::AlreadyApplied } else { edited.matched };
    let left_out = edited.left_out;
    drop(edited.body);
    drop(text);
    Ok((Edited { body: Body::Owned(merged.into()), ranges, matched, left_out }, base))
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
