//! Where the parts of a sketch stand.

use std::ops::Range;

use similar::DiffOp;

use super::index::{Core, Index, numbers, too_alike};
use super::parts::{Part, indent, key, shown};
use super::{Refusal, edges};
use crate::text::checked::{Fault, item, peek};
use crate::text::line_diff;

/// What is known of a part.
enum PartState {
    /// Where its core is.
    Core(Core),
    /// All of it stands in the file, in several places: it changes nothing, wherever it is.
    Unchanged,
    /// Nothing yet.
    Nothing,
}

/// The lines of the file that each part replaces; `None` for a part that changes nothing.
///
/// # Errors
/// A [`Refusal`] that names the part; its lines count from the first of `file`.
pub fn placed<'a>(parts: &'a [Part<'a>], file: &'a [&'a [u8]]) -> Result<Vec<Option<Range<usize>>>, Refusal> {
    let index = Index::new(parts, file);
    let all = 0..file.len();
    let mut known: Vec<PartState> =
        parts.iter().map(|part| index.core(part, &all).map_or(PartState::Nothing, PartState::Core)).collect();
    for at in 0..parts.len() {
        let Some(part) = parts.get(at) else { continue };
        if !matches!(known.get(at), Some(PartState::Nothing)) {
            continue;
        }
        let window = window(&known, at, file.len());
        let found = match index.core(part, &window) {
            Some(core) => PartState::Core(core),
            None if index.has_whole(part, &window) => PartState::Unchanged,
            None if index.is_exhausted() => return Err(too_alike(part)),
            None => return Err(without_place(&index, part, &window)),
        };
        if let Some(slot) = known.get_mut(at) {
            *slot = found;
        }
    }
    if let Some(part) = parts.first().filter(|_| index.is_exhausted()) {
        return Err(too_alike(part));
    }
    let mut spans = Vec::with_capacity(parts.len());
    let mut from = 0;
    for (at, part) in parts.iter().enumerate() {
        let Some(PartState::Core(core)) = known.get(at) else {
            spans.push(None);
            continue;
        };
        if core.file.0 < from || core.file.1 < core.file.0 {
            return Err(out_of_order(part, core));
        }
        let until = known.iter().skip(at + 1).find_map(PartState::first_line).unwrap_or(file.len());
        let span = edges::span(&index, part, *core, &(from..until))?;
        must_stay_in_its_block(&index, part, &span)?;
        from = span.end;
        spans.push(Some(span));
    }
    Ok(spans)
}

impl PartState {
    /// The first line of the file that is known to be the part's.
    fn first_line(&self) -> Option<usize> {
        match self {
            Self::Core(core) => Some(core.file.0),
            Self::Unchanged | Self::Nothing => None,
        }
    }

    /// The last one.
    fn last_line(&self) -> Option<usize> {
        match self {
            Self::Core(core) => Some(core.file.1),
            Self::Unchanged | Self::Nothing => None,
        }
    }
}

/// The lines of the file between the parts before and after one.
fn window(known: &[PartState], at: usize, lines: usize) -> Range<usize> {
    let before = known.iter().take(at).rev().find_map(PartState::last_line).map_or(0, |last| last + 1);
    let after = known.iter().skip(at + 1).find_map(PartState::first_line).unwrap_or(lines);
    before..after.max(before)
}

/// The refusal of a part none of whose lines tells where it stands.
fn without_place(index: &Index<'_>, part: &Part<'_>, window: &Range<usize>) -> Refusal {
    let found = part
        .lines
        .iter()
        .filter(|line| !key(line).is_empty())
        .map(|line| (line, index.positions(line, window)))
        .find(|(_, at)| !at.is_empty());
    match found {
        None => Refusal::NoPlace {
            part: part.which(),
            why: "none of its lines is in the file where it should be: begin and end it with unchanged lines"
                .to_owned(),
        },
        Some((line, at)) => Refusal::Ambiguous {
            part: part.which(),
            why: format!(
                "its line `{}` occurs {} times there, and no other line tells which one is meant: add unchanged lines around it",
                shown(line),
                at.len()
            ),
            lines: numbers(at),
        },
    }
}

/// The refusal of a part that stands before the part before it, or whose own lines do.
fn out_of_order(part: &Part<'_>, core: &Core) -> Refusal {
    Refusal::NoPlace {
        part: part.which(),
        why: format!(
            "its lines are in another order in the file (line {} comes too early there): keep the file's order",
            core.file.0.min(core.file.1) + 1
        ),
    }
}

/// How a part differs from the lines that it replaces.
fn compared(part: &Part<'_>, found: &[&[u8]]) -> Vec<DiffOp> {
    let old: Vec<&[u8]> = found.iter().map(|line| key(line)).collect();
    let new: Vec<&[u8]> = part.lines.iter().map(|line| key(line)).collect();
    line_diff::diff(&old, &new).ops
}

/// Refuses a part that would take away lines of another block than that of the lines kept round
/// them: an unchanged line then was found far from where it was meant.
fn must_stay_in_its_block(index: &Index<'_>, part: &Part<'_>, span: &Range<usize>) -> Result<(), Refusal> {
    let found = peek(index.file, span.clone());
    let ops = compared(part, found);
    for (before, op, after) in neighbours(&ops) {
        let (Some(DiffOp::Equal { .. }), Some(DiffOp::Equal { .. })) = (before, after) else { continue };
        let removed = span.start + op.old_range().start..span.start + op.old_range().end;
        let Some(above) = removed.start.checked_sub(1) else { continue };
        let round = indent(index.line(above)).min(indent(index.line(removed.end)));
        let leaves =
            removed.clone().find(|&at| !key(index.line(at)).is_empty() && indent(index.line(at)) < round);
        if let Some(at) = leaves {
            return Err(Refusal::Ambiguous {
                part: part.which(),
                why: format!(
                    "it would remove lines {} to {}, in which another block begins or ends (line {}): give it more of \
                     the unchanged lines",
                    removed.start + 1,
                    removed.end,
                    at + 1
                ),
                lines: vec![above + 1, removed.end + 1],
            });
        }
    }
    Ok(())
}

/// The changes among the operations, each with what is before and after it.
fn neighbours(ops: &[DiffOp]) -> impl Iterator<Item = (Option<&DiffOp>, &DiffOp, Option<&DiffOp>)> {
    ops.iter()
        .enumerate()
        .filter(|(_, op)| !matches!(op, DiffOp::Equal { .. }))
        .map(|(at, op)| (at.checked_sub(1).and_then(|before| ops.get(before)), op, ops.get(at + 1)))
}

/// A part as it stands in the file then.
pub struct Written {
    /// The text.
    pub new: Vec<u8>,
    /// The runs of lines that are removed and have nothing in their place, as indices of `found`.
    pub left_out: Vec<(usize, usize)>,
}

/// The text of a part in place of `found`; lines that it has in common with that keep their bytes.
///
/// # Errors
/// Where a compared line is in neither.
pub fn written(part: &Part<'_>, found: &[&[u8]]) -> Result<Written, Fault> {
    let mut new = Vec::new();
    let mut left_out = Vec::new();
    for op in compared(part, found) {
        let old = op.old_range();
        if matches!(op, DiffOp::Delete { .. }) {
            left_out.push((old.start, old.end - 1));
        }
        for (nth, own) in op.new_range().enumerate() {
            let kept =
                matches!(op, DiffOp::Equal { .. }).then(|| found.get(op.old_range().start + nth)).flatten();
            let line = *kept.map_or_else(|| item(&part.lines, own), Ok)?;
            new.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
            new.push(b'\n');
        }
    }
    // The file's last line may have no ending.
    if found.last().is_some_and(|last| !last.ends_with(b"\n")) {
        new.pop();
    }
    Ok(Written { new, left_out })
}
