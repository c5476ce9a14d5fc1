//! What a part of a sketch says before its first and after its last line of certain place.

use std::ops::Range;

use super::Refusal;
use super::index::{Core, Index, numbers, too_alike};
use super::parts::{Part, indent, key, shown};
use crate::text::checked::items;
use crate::text::likeness;

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

/// Whether one line may be the older self of another.
fn is_alike(one: &str, other: &str) -> bool {
    let has_word = |text: &str| text.chars().any(char::is_alphanumeric);
    let name = |text: &str| {
        let end = text.find(['=', ':', '(']).filter(|&end| end > 0)?;
        text.get(..end).map(|name| name.trim().to_owned())
    };
    has_word(one)
        && has_word(other)
        && (likeness::ratio(one, other, None) >= ALIKE || (name(one).is_some() && name(one) == name(other)))
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
