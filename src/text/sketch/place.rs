//! Where the parts of a sketch stand.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;

use similar::DiffOp;

use super::edges::shown;
use super::parts::{Part, indent, key};
use super::{Refusal, edges};
use crate::text::checked::{Fault, item, peek};
use crate::text::line_diff;

/// How many lines may be compared to find where the parts stand; of more, a sketch counts as one that
/// can be read in several ways.
const COMPARISONS_MAX: usize = 20_000_000;
/// Lines named in a refusal.
const LINES_NAMED: usize = 20;

/// The file, and where the sketch's lines stand in it.
pub struct Index<'a> {
    /// The lines, with their endings.
    pub file: &'a [&'a [u8]],
    /// For each line of the sketch that is not blank, the indices at which it stands, ascending.
    positions: HashMap<&'a [u8], Vec<usize>>,
    /// Comparisons still allowed.
    budget: Cell<usize>,
}

/// The core of a part: from its first to its last line that is placed beyond doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Core {
    /// The part's lines in it: the first and the last.
    pub own: (usize, usize),
    /// The file's lines in it: the first and the last.
    pub file: (usize, usize),
}

/// What is known of a part.
enum PartState {
    /// Where its core is.
    Core(Core),
    /// All of it stands in the file, in several places: it changes nothing, wherever it is.
    Unchanged,
    /// Nothing yet.
    Nothing,
}

impl<'a> Index<'a> {
    /// Looks through the file for the lines of the parts.
    fn new(parts: &'a [Part<'a>], file: &'a [&'a [u8]]) -> Self {
        let mut positions: HashMap<&[u8], Vec<usize>> = parts
            .iter()
            .flat_map(|part| &part.lines)
            .map(|line| key(line))
            .filter(|key| !key.is_empty())
            .map(|key| (key, Vec::new()))
            .collect();
        for (number, line) in file.iter().enumerate() {
            if let Some(found) = positions.get_mut(key(line)) {
                found.push(number);
            }
        }
        Self { file, positions, budget: Cell::new(COMPARISONS_MAX) }
    }

    /// Where a line stands within a range of the file's lines.
    pub fn positions(&self, line: &[u8], within: &Range<usize>) -> &[usize] {
        let all = self.positions.get(key(line)).map_or(&[][..], Vec::as_slice);
        let from = all.partition_point(|&at| at < within.start);
        let to = all.partition_point(|&at| at < within.end);
        peek(all, from..to)
    }

    /// A line of the file.
    pub fn line(&self, at: usize) -> &'a [u8] {
        self.file.get(at).copied().unwrap_or_default()
    }

    /// Whether so many more comparisons are allowed.
    pub fn may_compare(&self, count: usize) -> bool {
        let left = self.budget.get().checked_sub(count);
        self.budget.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Whether all comparisons that are allowed have been made.
    fn is_exhausted(&self) -> bool {
        self.budget.get() == 0
    }

    /// Whether a line of a part stands at a line of the file.
    fn is_at(&self, part: &Part<'_>, own: usize, at: usize) -> bool {
        part.lines.get(own).is_some_and(|line| self.file.get(at).is_some_and(|found| key(found) == key(line)))
    }

    /// Where the line `own` and, as far as it takes to be in one place alone, those after it stand.
    fn unique_after(&self, part: &Part<'_>, own: usize, within: &Range<usize>) -> Option<usize> {
        let mut starts = self.positions(part.lines.get(own)?, within).to_vec();
        for more in 1.. {
            match starts.as_slice() {
                [] => return None,
                [only] => return Some(*only),
                several if !self.may_compare(several.len()) => return None,
                _ => starts
                    .retain(|start| start + more < within.end && self.is_at(part, own + more, start + more)),
            }
            if own + more >= part.lines.len() {
                return None;
            }
        }
        None
    }

    /// The same with the lines before it.
    fn unique_before(&self, part: &Part<'_>, own: usize, within: &Range<usize>) -> Option<usize> {
        let mut ends = self.positions(part.lines.get(own)?, within).to_vec();
        for more in 1.. {
            match ends.as_slice() {
                [] => return None,
                [only] => return Some(*only),
                _ if more > own => return None,
                several if !self.may_compare(several.len()) => return None,
                _ => {
                    ends.retain(|end| {
                        *end >= within.start + more && self.is_at(part, own - more, end - more)
                    });
                }
            }
        }
        None
    }

    /// The core of a part within a range of the file's lines.
    fn core(&self, part: &Part<'_>, within: &Range<usize>) -> Option<Core> {
        let first =
            (0..part.lines.len()).find_map(|own| Some((own, self.unique_after(part, own, within)?)))?;
        let last = (0..part.lines.len())
            .rev()
            .find_map(|own| Some((own, self.unique_before(part, own, within)?)))?;
        Some(Core { own: (first.0, last.0), file: (first.1, last.1) })
    }

    /// Whether all lines of a part stand one after the other in a range of the file's lines.
    fn has_whole(&self, part: &Part<'_>, within: &Range<usize>) -> bool {
        let first = part.lines.first().copied().unwrap_or_default();
        self.positions(first, within).iter().any(|start| {
            start + part.lines.len() <= within.end
                && (0..part.lines.len()).all(|own| self.may_compare(1) && self.is_at(part, own, start + own))
        })
    }
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

/// The refusal of a part whose lines stand in more places than can be told apart.
pub fn too_alike(part: &Part<'_>) -> Refusal {
    Refusal::Ambiguous {
        part: part.which(),
        why: "its lines match too many places of the file; add lines that are unique".to_owned(),
        lines: Vec::new(),
    }
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
            why:
                "none of its lines stands in the file where it should: begin and end it with unchanged lines"
                    .to_owned(),
        },
        Some((line, at)) => Refusal::Ambiguous {
            part: part.which(),
            why: format!(
                "its line `{}` stands {} times there, and no other line tells which: add unchanged lines round it",
                shown(line),
                at.len()
            ),
            lines: numbers(at),
        },
    }
}

/// Indices as line numbers, the first of them.
pub fn numbers(indices: &[usize]) -> Vec<usize> {
    indices.iter().take(LINES_NAMED).map(|index| index + 1).collect()
}

/// The refusal of a part that stands before the part before it, or whose own lines do.
fn out_of_order(part: &Part<'_>, core: &Core) -> Refusal {
    Refusal::NoPlace {
        part: part.which(),
        why: format!(
            "its lines stand in the file in another order than in the sketch (line {} comes too early there): keep \
             the file's order",
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
