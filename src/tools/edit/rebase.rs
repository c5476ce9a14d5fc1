//! Edits of a file that changed since the read: rebased by a merge, or by the numbers of shown lines.

use super::apply;
use super::find::{Body, Edited};
use super::step::{EditStep, What};
use crate::engine::change::shown_lines::NotFound;
use crate::engine::change::{Change, Current};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::content::Content;
use crate::text::lines::LineSpan;
use crate::text::merge::{self, Alike, Conflict};
use crate::text::{line_diff, lines};
use crate::tools::common;

/// Returns the result of the edits on the current file if they do not touch the lines that changed; otherwise the
/// reason as text.
///
/// The edits are applied to `base`, the bytes that the caller saw, and merged with the later change (three-way, by
/// lines). Without these bytes there is no proof: the caller may have guessed their SHA-256.
pub fn rebase(
    change: &Change<'_>,
    current: &Current,
    file: &Content<'_>,
    steps: &[EditStep],
    base: Option<&[u8]>,
    expected: Option<Sha256>,
) -> Result<Edited<'static>, String> {
    let shown = current.place().shown();
    let base =
        base.ok_or_else(|| format!("lbx has no copy of the bytes of {shown} that the edit is based on"))?;
    let text = Content::of(base, file.encoding.charset())
        .ok()
        .filter(|text| text.encoding == file.encoding && text.bom == file.bom);
    let text = text.ok_or_else(|| format!("{shown} has another encoding than it had when you read it"))?;
    let edited = apply::apply(&text, steps, change.policy().file_bytes())
        .map_err(|miss| miss.error(shown).message().to_owned())?;
    let merged = merge::merge(&text.body, &file.body, &edited.body, Alike::Conflict);
    let merged = merged.map_err(|conflict| match conflict {
        Conflict::SameLines => {
            format!("others have changed the edited lines of {shown}, or lines next to them")
        }
        Conflict::TooMuch => conflict.error(shown).message().to_owned(),
    })?;
    let is_shown = |&(first, last): &(u64, u64)| {
        change.mark(current.place().path()).is_some_and(|mark| mark.lines.contain(first, last))
    };
    if expected.is_none() && !edited.removed.iter().all(is_shown) {
        return Err(format!("the sketch removes lines of {shown} that you have not been shown"));
    }
    let ranges = changed_ranges(&file.body, &merged);
    let Edited { matched, left_out, removed, .. } = edited;
    let (body, count) = (Body::Owned(merged.into()), ranges.len());
    Ok(Edited { body, ranges, count, matched, left_out, removed, replaced: None })
}

/// Returns the lines in which `new` differs from `old`.
fn changed_ranges(old: &[u8], new: &[u8]) -> Vec<std::ops::Range<usize>> {
    let old_lines: Vec<&[u8]> = lines::all(old);
    let new_lines: Vec<&[u8]> = lines::all(new);
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

/// Edits with their line numbers resolved.
pub struct Placed {
    /// Edits with the current numbers of their lines.
    pub steps: Vec<EditStep>,
    /// Lines that have moved: old and new numbers.
    pub moved: Vec<(LineSpan, LineSpan)>,
    /// True if all edits are of lines that were shown and are unchanged.
    pub are_all_found: bool,
}

/// Finds the lines that edits name by number.
///
/// # Errors
/// Returns `not_read` for lines that were never shown, `stale_file` for lines that changed. Both show the current
/// lines, which then count as shown.
pub fn placed(
    change: &mut Change<'_>,
    current: &Current,
    file: &Content<'_>,
    steps: &[EditStep],
) -> Result<Placed, Error> {
    let (mut placed, mut moved) = (steps.to_vec(), Vec::new());
    let mut are_all_found = steps.iter().all(EditStep::is_by_number);
    let of_file = change.shown_lines(current);
    for step in placed.iter_mut().filter(|step| step.is_by_number()) {
        let Some(shown) = step.lines else { continue };
        let now = of_file
            .as_ref()
            .map_or(Err(NotFound::NeverShown(shown.first)), |of_file| of_file.now(shown.first, shown.last));
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
            Err(NotFound::NeverShown(_)) if step.range_sha256.is_some() => are_all_found = false,
            Err(why) => {
                let error = common::lines_not_as_shown(change, current, &file.body, (shown, why));
                return Err(step.named.of_several(error));
            }
        }
    }
    Ok(Placed { steps: placed, moved, are_all_found })
}

/// Rejects new lines that repeat the line just outside their range, such as a brace that is closed twice.
///
/// # Errors
/// Returns `invalid_request`, with both lines.
pub fn must_not_repeat(file: &Content<'_>, steps: &[EditStep], name: &str) -> Result<(), Error> {
    if !steps.iter().any(EditStep::is_by_number) {
        return Ok(());
    }
    let all = lines::all(&file.body);
    for step in steps {
        let (What::Lines { new }, Some(span)) = (&step.what, step.lines) else { continue };
        let new: Vec<&[u8]> = lines::all(new.as_bytes());
        if let Some(repeated) = common::repeated_line(&all, span, &new) {
            let error = step.named.refusal(ErrorKind::InvalidRequest, repeated.message.clone(), name);
            return Err(repeated.explain(error, &file.body).detail("field", "new_string"));
        }
    }
    Ok(())
}
