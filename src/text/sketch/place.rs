//! Places of the parts of a sketch in the file.

use std::ops::Range;

use similar::DiffOp;

use super::SketchError;
use super::index::{PartCore, SketchIndex, SketchPart, display_line, indent, key, numbers, too_alike};
use crate::text::checked::{TextFault, item, slice, slice_or_empty};
use crate::text::lines::LineSpan;
use crate::text::{line_diff, similarity};

/// State of the search for a part.
enum PartState {
    /// The core was found.
    Core(PartCore),
    /// All of it matches in several places, so it changes nothing in any of them.
    Unchanged,
    /// No place is known yet.
    Nothing,
}

/// Returns the lines of the file that each part replaces; `None` for a part that changes nothing.
///
/// # Errors
/// Returns a [`Refusal`] that names the part; its lines count from the first of `file`.
pub fn place_parts<'a>(
    parts: &'a [SketchPart<'a>],
    file: &'a [&'a [u8]],
) -> Result<Vec<Option<Range<usize>>>, SketchError> {
    let index = SketchIndex::new(file);
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
            None => return Err(no_place_refusal(&index, part, &window)),
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
        let span = span(&index, part, *core, &(from..until))?;
        must_stay_in_its_block(&index, part, &span)?;
        from = span.end;
        spans.push(Some(span));
    }
    Ok(spans)
}

impl PartState {
    /// Returns the first line of the file that is known to belong to the part.
    fn first_line(&self) -> Option<usize> {
        match self {
            Self::Core(core) => Some(core.file.0),
            Self::Unchanged | Self::Nothing => None,
        }
    }

    /// Returns the last line of the file that is known to belong to the part.
    fn last_line(&self) -> Option<usize> {
        match self {
            Self::Core(core) => Some(core.file.1),
            Self::Unchanged | Self::Nothing => None,
        }
    }
}

/// Returns the lines of the file between the known parts before and after a part.
fn window(known: &[PartState], at: usize, lines: usize) -> Range<usize> {
    let before = known.iter().take(at).rev().find_map(PartState::last_line).map_or(0, |last| last + 1);
    let after = known.iter().skip(at + 1).find_map(PartState::first_line).unwrap_or(lines);
    before..after.max(before)
}

/// Returns the refusal of a part whose lines do not determine its place.
fn no_place_refusal(index: &SketchIndex<'_>, part: &SketchPart<'_>, window: &Range<usize>) -> SketchError {
    let found = part
        .lines
        .iter()
        .filter(|line| !key(line).is_empty())
        .map(|line| (line, index.positions(line, window)))
        .find(|(_, at)| !at.is_empty());
    match found {
        None => SketchError::NoPlace {
            part: part.part_name(),
            why: "none of its lines is in the file where it should be: begin and end it with unchanged lines"
                .to_owned(),
        },
        Some((line, at)) => SketchError::Ambiguous {
            part: part.part_name(),
            why: format!(
                "its line `{}` occurs {} times there, and no other line tells which one is meant: add unchanged lines around it",
                display_line(line),
                at.len()
            ),
            lines: numbers(at),
        },
    }
}

/// Returns the refusal of a part that matches before the previous part, or whose own lines are out of order.
fn out_of_order(part: &SketchPart<'_>, core: &PartCore) -> SketchError {
    SketchError::NoPlace {
        part: part.part_name(),
        why: format!(
            "its lines are in another order in the file (line {} comes too early there): keep the file's order",
            core.file.0.min(core.file.1) + 1
        ),
    }
}

/// Compares a part with the lines that it replaces.
fn compared(part: &SketchPart<'_>, found: &[&[u8]]) -> Vec<DiffOp> {
    let old: Vec<&[u8]> = found.iter().map(|line| key(line)).collect();
    let new: Vec<&[u8]> = part.lines.iter().map(|line| key(line)).collect();
    line_diff::diff(&old, &new).ops
}

/// Refuses a part that would remove lines of another block than that of the kept lines around them: then an unchanged
/// line was matched far from its intended place.
fn must_stay_in_its_block(
    index: &SketchIndex<'_>,
    part: &SketchPart<'_>,
    span: &Range<usize>,
) -> Result<(), SketchError> {
    let found = slice_or_empty(index.file, span.clone());
    let ops = compared(part, found);
    for (before, op, after) in neighbours(&ops) {
        let (Some(DiffOp::Equal { .. }), Some(DiffOp::Equal { .. })) = (before, after) else { continue };
        let removed = span.start + op.old_range().start..span.start + op.old_range().end;
        let Some(above) = removed.start.checked_sub(1) else { continue };
        let round = indent(index.line(above)).min(indent(index.line(removed.end)));
        let leaves =
            removed.clone().find(|&at| !key(index.line(at)).is_empty() && indent(index.line(at)) < round);
        if let Some(at) = leaves {
            return Err(SketchError::Ambiguous {
                part: part.part_name(),
                why: format!(
                    "it would remove {}, in which another block begins or ends (line {}): give it more of \
                     the unchanged lines",
                    LineSpan { first: removed.start as u64 + 1, last: removed.end as u64 },
                    at + 1
                ),
                lines: vec![above + 1, removed.end + 1],
            });
        }
    }
    Ok(())
}

/// Returns the changes among the operations, each with its neighbours.
fn neighbours(ops: &[DiffOp]) -> impl Iterator<Item = (Option<&DiffOp>, &DiffOp, Option<&DiffOp>)> {
    ops.iter()
        .enumerate()
        .filter(|(_, op)| !matches!(op, DiffOp::Equal { .. }))
        .map(|(at, op)| (at.checked_sub(1).and_then(|before| ops.get(before)), op, ops.get(at + 1)))
}

/// A part as it will be in the file.
pub struct WrittenPart {
    /// New text.
    pub new: Vec<u8>,
    /// Runs of lines that are removed without a replacement, as indices of `found`.
    pub left_out: Vec<(usize, usize)>,
}

/// Returns the text of a part that replaces `found`; lines that both share keep their bytes.
///
/// # Errors
/// Fails if a compared line is in neither.
pub fn written(part: &SketchPart<'_>, found: &[&[u8]]) -> Result<WrittenPart, TextFault> {
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
    // The last line of the file may have no ending.
    if found.last().is_some_and(|last| !last.ends_with(b"\n")) {
        new.pop();
    }
    Ok(WrittenPart { new, left_out })
}

/// Kept lines next to a new one that are checked for its older version.
const NEIGHBOURS: usize = 3;
/// Cost of comparing two lines by characters, in comparisons.
const CLOSE_LOOK: usize = 2_000;
/// Similarity from which a kept line looks like the older version of a new one, 0 to 1. It only causes refusals.
const ALIKE: f32 = 0.5;

/// Returns the lines of the file that a part replaces, within those that no other part has.
///
/// # Errors
/// Fails with `Ambiguous` if they are not certain.
pub fn span(
    index: &SketchIndex<'_>,
    part: &SketchPart<'_>,
    core: PartCore,
    within: &Range<usize>,
) -> Result<Range<usize>, SketchError> {
    let start = start(index, part, core, within.start)?;
    let end = end(index, part, core, within.end)?;
    Ok(start..end + 1)
}

/// Returns the first line of the file that a part replaces.
fn start(
    index: &SketchIndex<'_>,
    part: &SketchPart<'_>,
    core: PartCore,
    from: usize,
) -> Result<usize, SketchError> {
    let (own, first) = (core.own.0, core.file.0);
    let above = slice(&part.lines, 0..own)?;
    let room = from..first;
    let known = above.iter().position(|line| !index.positions(line, &room).is_empty());
    let Some(known) = known else {
        // All of them are new.
        must_say_what_stays(index, part, above, part.before, &room, first)?;
        let kept = room.rev().map(|at| index.line(at)).filter(|line| !key(line).is_empty());
        must_be_an_insertion(index, part, above, kept.take(NEIGHBOURS.max(above.len())), first)?;
        return Ok(first);
    };
    let line = above.get(known).copied().unwrap_or_default();
    let at = index.positions(line, &room);
    let nearest = at.last().copied().unwrap_or(first);
    let is_alone = at.len() == 1 && known == 0;
    let nothing_between = (nearest + 1..first).all(|at| key(index.line(at)).is_empty());
    if known == 0 && (is_alone || nothing_between) {
        Ok(nearest)
    } else {
        Err(ambiguous_refusal(part, line, at))
    }
}

/// Returns the last line of the file that a part replaces.
fn end(
    index: &SketchIndex<'_>,
    part: &SketchPart<'_>,
    core: PartCore,
    until: usize,
) -> Result<usize, SketchError> {
    let (own, last) = (core.own.1, core.file.1);
    let below = slice(&part.lines, own + 1..part.lines.len())?;
    let Some(&end) = below.last() else {
        return Ok(last);
    };
    let room = last + 1..until;
    let at = index.positions(end, &room);
    match at {
        [] => {}
        [only] => return Ok(*only),
        [nearest, ..] => {
            let closing = closing_line(index, &room, indent(end));
            let is_closing = closing.is_some_and(|closing| at.contains(&closing));
            let nothing_between =
                room.start == *nearest || (room.start..*nearest).all(|at| key(index.line(at)).is_empty());
            return match closing.filter(|_| is_closing) {
                Some(closing) => Ok(closing),
                None if nothing_between => Ok(*nearest),
                None => Err(ambiguous_refusal(part, end, at)),
            };
        }
    }
    if let Some(line) = below.iter().find(|line| !index.positions(line, &room).is_empty()) {
        return Err(ambiguous_refusal(part, line, index.positions(line, &room)));
    }
    new_end(index, part, core, &room)
}

/// Returns the last line that a part replaces if it ends in new lines only. That is the last line of the block that its
/// last unchanged line begins, if the part continues inside the block and the marker after it does not. Otherwise the
/// part only inserts the new lines.
fn new_end(
    index: &SketchIndex<'_>,
    part: &SketchPart<'_>,
    core: PartCore,
    room: &Range<usize>,
) -> Result<usize, SketchError> {
    let (own, last) = (core.own.1, core.file.1);
    let below = slice(&part.lines, own + 1..part.lines.len())?;
    let depth = below.iter().filter(|line| !key(line).is_empty()).map(|line| indent(line)).min().unwrap_or(0);
    let opens = part.lines.get(own).is_some_and(|line| indent(line) < depth);
    let marker_is_outside = part.after.is_none_or(|marker| marker < depth);
    if opens && marker_is_outside {
        let end = closing_line(index, room, depth.saturating_sub(1)).unwrap_or(room.end);
        let block = room.start..end;
        return Ok(block.rev().find(|&at| !key(index.line(at)).is_empty()).unwrap_or(last));
    }
    must_say_what_stays(index, part, below, part.after, room, last)?;
    let kept = room.clone().map(|at| index.line(at)).filter(|line| !key(line).is_empty());
    must_be_an_insertion(index, part, below, kept.take(NEIGHBOURS.max(below.len())), last)?;
    Ok(last)
}

/// Returns the first line that is indented no deeper than `depth`, ignoring blank ones.
fn closing_line(index: &SketchIndex<'_>, room: &Range<usize>, depth: usize) -> Option<usize> {
    room.clone().find(|&at| !key(index.line(at)).is_empty() && indent(index.line(at)) <= depth)
}

/// Refuses new lines at an end of the sketch without a marker if the file continues there: the rest of the file may be
/// meant to stay or to be removed.
fn must_say_what_stays(
    index: &SketchIndex<'_>,
    part: &SketchPart<'_>,
    new: &[&[u8]],
    marker: Option<usize>,
    room: &Range<usize>,
    anchor: usize,
) -> Result<(), SketchError> {
    let goes_on = room.clone().any(|at| !key(index.line(at)).is_empty());
    let first_new = new.iter().find(|line| !key(line).is_empty());
    match first_new {
        Some(line) if marker.is_none() && goes_on => Err(SketchError::Ambiguous {
            part: part.part_name(),
            why: format!(
                "its last line `{}` is new, but the file continues after it: end the sketch with a marker, or with the unchanged line after the last replaced one",
                display_line(line)
            ),
            lines: vec![anchor + 1],
        }),
        _ => Ok(()),
    }
}

/// Refuses new lines at the edge of a part if they may be meant to replace one of the kept lines next to them.
fn must_be_an_insertion<'a>(
    index: &SketchIndex<'_>,
    part: &SketchPart<'_>,
    new: &[&[u8]],
    kept: impl Iterator<Item = &'a [u8]>,
    anchor: usize,
) -> Result<(), SketchError> {
    let kept: Vec<String> = kept.map(display_line).collect();
    for line in new.iter().filter(|line| !key(line).is_empty()).map(|line| display_line(line)) {
        if !index.may_compare(kept.len() * CLOSE_LOOK) {
            return Err(too_alike(part));
        }
        if let Some(older) = kept.iter().find(|kept| is_alike(&line, kept)) {
            return Err(SketchError::Ambiguous {
                part: part.part_name(),
                why: format!(
                    "its new line `{line}` is next to a marker that keeps `{older}`: to replace that line, continue the sketch to the unchanged line after it; to keep it, include it"
                ),
                lines: vec![anchor + 1],
            });
        }
    }
    Ok(())
}

/// Returns true if one line may be the older version of the other.
fn is_alike(one: &str, other: &str) -> bool {
    let has_word = |text: &str| text.chars().any(char::is_alphanumeric);
    let name = |text: &str| {
        let end = text.find(['=', ':', '(']).filter(|&end| end > 0)?;
        text.get(..end).map(|name| name.trim().to_owned())
    };
    has_word(one)
        && has_word(other)
        && (similarity::ratio(one, other) >= ALIKE || (name(one).is_some() && name(one) == name(other)))
}

/// Returns the refusal of an edge line that has several possible places.
fn ambiguous_refusal(part: &SketchPart<'_>, line: &[u8], at: &[usize]) -> SketchError {
    SketchError::Ambiguous {
        part: part.part_name(),
        why: format!(
            "its line `{}` could be several lines of the file: begin and end the part with unchanged lines that occur once",
            display_line(line)
        ),
        lines: numbers(at),
    }
}
