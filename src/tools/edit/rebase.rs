//! An edit of a file that has changed since it was read, elsewhere.

use super::apply;
use super::edited::{Body, Edited};
use super::miss::Miss;
use super::step::EditStep;
use crate::engine::change::{Change, Current};
use crate::sha256::Sha256;
use crate::text::content::View;
use crate::text::line_diff;
use crate::text::merge::{self, Alike, Conflict};

/// Why the edits of a stale file cannot be carried over to the file as it is now.
#[derive(Debug)]
pub enum RebaseMiss<'b> {
    /// The bytes that the edits are based on are not at hand.
    NoBase,
    /// The file has another encoding than those bytes.
    OtherEncoding,
    /// The edits do not apply to those bytes.
    Edit(Box<Miss<'b>>),
    /// The edits and the change since cannot be merged.
    Merge(Conflict),
    /// A sketch removes lines of those bytes that the caller has not been shown.
    NotShown,
}

impl RebaseMiss<'_> {
    /// The same in words, of the file at the path that is shown.
    fn words(&self, shown: &str) -> String {
        match self {
            Self::NoBase => format!("lbx has no copy of the bytes of {shown} that the edit is based on"),
            Self::OtherEncoding => format!("{shown} has another encoding than it had when you read it"),
            Self::Edit(miss) => miss.error(shown).message().to_owned(),
            Self::Merge(Conflict::SameLines) => {
                format!("others have changed the edited lines of {shown}, or lines next to them")
            }
            Self::Merge(conflict @ Conflict::TooMuch) => conflict.error(shown).message().to_owned(),
            Self::NotShown => {
                format!("the sketch removes lines of {shown} that you have not been shown")
            }
        }
    }
}

/// What the edits make of the file as it is now, where they do not touch what has changed; else why
/// they cannot be carried over, in words.
///
/// The edits are applied to `base`, the bytes that the caller saw, and merged with the change since
/// (three-way, by lines). Bytes that are not at hand prove nothing: whoever names them may have guessed.
pub fn rebase(
    change: &Change<'_>,
    current: &Current,
    file: &View<'_>,
    steps: &[EditStep],
    base: Option<&[u8]>,
    expected: Option<Sha256>,
) -> Result<Edited<'static>, String> {
    let text = base.ok_or(RebaseMiss::NoBase).and_then(|base| text_of(base, file));
    let rebased = text.as_ref().map_err(|miss| miss.words(current.place().shown()));
    rebased.and_then(|text| {
        carried_over(change, current, file, steps, text, expected)
            .map_err(|miss| miss.words(current.place().shown()))
    })
}

/// The text of the bytes that the caller saw, where it can be compared with that of the file.
fn text_of<'b>(base: &'b [u8], file: &View<'_>) -> Result<View<'b>, RebaseMiss<'b>> {
    let text = View::of(base).ok().filter(|text| text.encoding == file.encoding && text.bom == file.bom);
    text.ok_or(RebaseMiss::OtherEncoding)
}

/// The edits of `text`, merged with the change since that made `file` of it.
fn carried_over<'b>(
    change: &Change<'_>,
    current: &Current,
    file: &View<'_>,
    steps: &'b [EditStep],
    text: &'b View<'_>,
    expected: Option<Sha256>,
) -> Result<Edited<'static>, RebaseMiss<'b>> {
    let edited = apply::apply(text, steps, change.policy().file_bytes()).map_err(RebaseMiss::Edit)?;
    let merged =
        merge::merge(&text.body, &file.body, &edited.body, Alike::Conflict).map_err(RebaseMiss::Merge)?;
    let is_shown = |&(first, last): &(u64, u64)| {
        change.mark(current.place().path()).is_some_and(|mark| mark.lines.contain(first, last))
    };
    if expected.is_none() && !edited.removed.iter().all(is_shown) {
        return Err(RebaseMiss::NotShown);
    }
    let ranges = changed_ranges(&file.body, &merged);
    let Edited { matched, left_out, removed, .. } = edited;
    Ok(Edited { body: Body::Owned(merged.into()), count: ranges.len(), ranges, matched, left_out, removed })
}

/// Where `new` differs from `old`, line by line.
fn changed_ranges(old: &[u8], new: &[u8]) -> Vec<std::ops::Range<usize>> {
    let old_lines: Vec<&[u8]> = crate::text::lines::all(old);
    let new_lines: Vec<&[u8]> = crate::text::lines::all(new);
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
