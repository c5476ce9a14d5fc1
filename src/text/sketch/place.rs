//! Where the parts of a sketch stand.

use std::ops::Range;

use similar::DiffOp;

use super::Refusal;
use super::index::{Core, Index, Part, indent, key, numbers, shown, too_alike};
use crate::text::checked::{Fault, item, items, peek};
use crate::text::{likeness, line_diff};

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
        let span = span(&index, part, *core, &(from..until))?;
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

/// Kept lines beside a new one that are looked at for its older self.
const NEIGHBOURS: usize = 3;
/// Comparisons that looking at two lines character by character counts for.
const CLOSE_LOOK: usize = 2_000;
/// From where on a kept line looks like the older self of a new one, 0 to 1. That only refuses.
const ALIKE: f32 = 0.5;

/// The lines of the file that a part replaces, within those that no other part has.
///
/// # Errors
/// `Ambiguous` where it is in doubt which they are.
pub fn span(
    index: &Index<'_>,
    part: &Part<'_>,
    core: Core,
    within: &Range<usize>,
) -> Result<Range<usize>, Refusal> {
    let start = start(index, part, core, within.start)?;
    let end = end(index, part, core, within.end)?;
    Ok(start..end + 1)
}

/// The first line of the file that a part replaces.
fn start(index: &Index<'_>, part: &Part<'_>, core: Core, from: usize) -> Result<usize, Refusal> {
    let (own, first) = (core.own.0, core.file.0);
    let above = items(&part.lines, 0..own)?;
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
    if known == 0 && (is_alone || nothing_between) { Ok(nearest) } else { Err(in_doubt(part, line, at)) }
}

/// The last line of the file that a part replaces.
fn end(index: &Index<'_>, part: &Part<'_>, core: Core, until: usize) -> Result<usize, Refusal> {
    let (own, last) = (core.own.1, core.file.1);
    let below = items(&part.lines, own + 1..part.lines.len())?;
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
                None => Err(in_doubt(part, end, at)),
            };
        }
    }
    if let Some(line) = below.iter().find(|line| !index.positions(line, &room).is_empty()) {
        return Err(in_doubt(part, line, index.positions(line, &room)));
    }
    new_end(index, part, core, &room)
}

/// The last line that a part replaces which ends in lines that are all new: that of the block that
/// its last unchanged line begins, where the part goes on inside it and the marker after it does
/// not; else it only inserts them.
fn new_end(index: &Index<'_>, part: &Part<'_>, core: Core, room: &Range<usize>) -> Result<usize, Refusal> {
    let (own, last) = (core.own.1, core.file.1);
    let below = items(&part.lines, own + 1..part.lines.len())?;
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

/// The first line that is indented no deeper than `depth`, blank ones aside.
fn closing_line(index: &Index<'_>, room: &Range<usize>, depth: usize) -> Option<usize> {
    room.clone().find(|&at| !key(index.line(at)).is_empty() && indent(index.line(at)) <= depth)
}

/// Refuses new lines at an end of the sketch that has no marker, where the file goes on: that may
/// be meant to stay or to go.
fn must_say_what_stays(
    index: &Index<'_>,
    part: &Part<'_>,
    new: &[&[u8]],
    marker: Option<usize>,
    room: &Range<usize>,
    anchor: usize,
) -> Result<(), Refusal> {
    let goes_on = room.clone().any(|at| !key(index.line(at)).is_empty());
    let first_new = new.iter().find(|line| !key(line).is_empty());
    match first_new {
        Some(line) if marker.is_none() && goes_on => Err(Refusal::Ambiguous {
            part: part.which(),
            why: format!(
                "its last line `{}` is new, but the file continues after it: end the sketch with a marker, or with the unchanged line after the last replaced one",
                shown(line)
            ),
            lines: vec![anchor + 1],
        }),
        _ => Ok(()),
    }
}

/// Refuses new lines at the edge of a part where one of the kept lines beside them may be what
/// they were meant to replace.
fn must_be_an_insertion<'a>(
    index: &Index<'_>,
    part: &Part<'_>,
    new: &[&[u8]],
    kept: impl Iterator<Item = &'a [u8]>,
    anchor: usize,
) -> Result<(), Refusal> {
    let kept: Vec<String> = kept.map(shown).collect();
    for line in new.iter().filter(|line| !key(line).is_empty()).map(|line| shown(line)) {
        if !index.may_compare(kept.len() * CLOSE_LOOK) {
            return Err(too_alike(part));
        }
        if let Some(older) = kept.iter().find(|kept| is_alike(&line, kept)) {
            return Err(Refusal::Ambiguous {
                part: part.which(),
                why: format!(
                    "its new line `{line}` is next to a marker that keeps `{older}`: to replace that line, continue the sketch to the unchanged line after it; to keep it, include it"
                ),
                lines: vec![anchor + 1],
            });
        }
    }
    Ok(())
}

/// Returns true if one line may be the older self of another.
fn is_alike(one: &str, other: &str) -> bool {
    let has_word = |text: &str| text.chars().any(char::is_alphanumeric);
    let name = |text: &str| {
        let end = text.find(['=', ':', '(']).filter(|&end| end > 0)?;
        text.get(..end).map(|name| name.trim().to_owned())
    };
    has_word(one)
        && has_word(other)
        && (likeness::ratio(one, other) >= ALIKE || (name(one).is_some() && name(one) == name(other)))
}

/// The refusal of an edge line that may stand in several places.
fn in_doubt(part: &Part<'_>, line: &[u8], at: &[usize]) -> Refusal {
    Refusal::Ambiguous {
        part: part.which(),
        why: format!(
            "its line `{}` could be several lines of the file: begin and end the part with unchanged lines that occur once",
            shown(line)
        ),
        lines: numbers(at),
    }
}
