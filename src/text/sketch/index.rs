//! The parts of a sketch between its markers, and the places of their lines in the file.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use super::{PartName, SketchError};
use crate::limits::SKETCH_COMPARISONS_MAX;
use crate::text::checked::slice_or_empty;
use crate::text::line_index::LineIndex;
use crate::text::omission;

/// Lines named in a refusal.
const LINES_NAMED: usize = 20;

/// The file, and the places of the lines of the sketch in it.
pub struct SketchIndex<'a> {
    /// Lines of the file, with their endings.
    pub file: &'a [&'a [u8]],
    /// Index of these lines, without the blanks at their ends.
    lines: LineIndex<'a>,
    /// Comparisons still allowed.
    budget: Cell<usize>,
}

/// Core of a part: from the first to the last line that has a certain place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartCore {
    /// First and last line of the core in the part.
    pub own: (usize, usize),
    /// First and last line of the core in the file.
    pub file: (usize, usize),
}

impl<'a> SketchIndex<'a> {
    /// Creates the index of the lines of a file.
    pub fn new(file: &'a [&'a [u8]]) -> Self {
        let lines = LineIndex::new(file.iter().map(|line| Cow::Borrowed(key(line))));
        Self { file, lines, budget: Cell::new(SKETCH_COMPARISONS_MAX) }
    }

    /// Returns the indices of a line that is not blank within a range of lines of the file.
    pub fn positions(&self, line: &[u8], within: &Range<usize>) -> &[usize] {
        let key = key(line);
        let all = if key.is_empty() { &[] } else { self.lines.positions(key) };
        let from = all.partition_point(|&at| at < within.start);
        let to = all.partition_point(|&at| at < within.end);
        slice_or_empty(all, from..to)
    }

    /// Returns a line of the file.
    pub fn line(&self, at: usize) -> &'a [u8] {
        self.file.get(at).copied().unwrap_or_default()
    }

    /// Returns true if `count` more comparisons are allowed, and deducts them.
    pub fn may_compare(&self, count: usize) -> bool {
        let left = self.budget.get().checked_sub(count);
        self.budget.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Returns true if no more comparisons are allowed.
    pub fn is_exhausted(&self) -> bool {
        self.budget.get() == 0
    }

    /// Returns true if a line of a part matches a line of the file.
    fn is_at(&self, part: &SketchPart<'_>, own: usize, at: usize) -> bool {
        part.lines.get(own).is_some_and(|line| self.file.get(at).is_some_and(|found| key(found) == key(line)))
    }

    /// Returns the only place of line `own`; if it has several, the lines that `next` leads to decide.
    fn unique(
        &self,
        part: &SketchPart<'_>,
        own: usize,
        within: &Range<usize>,
        next: impl Fn(usize, usize) -> Option<usize>,
    ) -> Option<usize> {
        let mut places = self.positions(part.lines.get(own)?, within).to_vec();
        for more in 1.. {
            match places.as_slice() {
                [] => return None,
                [only] => return Some(*only),
                several if !self.may_compare(several.len()) => return None,
                _ => {
                    let own = next(own, more)?;
                    places.retain(|place| {
                        next(*place, more).is_some_and(|at| within.contains(&at) && self.is_at(part, own, at))
                    });
                }
            }
        }
        None
    }

    /// Returns the core of a part within a range of lines of the file.
    pub fn core(&self, part: &SketchPart<'_>, within: &Range<usize>) -> Option<PartCore> {
        let first = (0..part.lines.len())
            .find_map(|own| Some((own, self.unique(part, own, within, usize::checked_add)?)))?;
        let last = (0..part.lines.len())
            .rev()
            .find_map(|own| Some((own, self.unique(part, own, within, usize::checked_sub)?)))?;
        Some(PartCore { own: (first.0, last.0), file: (first.1, last.1) })
    }

    /// Returns true if all lines of a part match one after the other in a range of lines of the file.
    pub fn has_whole(&self, part: &SketchPart<'_>, within: &Range<usize>) -> bool {
        let first = part.lines.first().copied().unwrap_or_default();
        self.positions(first, within).iter().any(|start| {
            start + part.lines.len() <= within.end
                && (0..part.lines.len()).all(|own| self.may_compare(1) && self.is_at(part, own, start + own))
        })
    }
}

/// Returns the refusal of a part whose lines match too many places.
pub fn too_alike(part: &SketchPart<'_>) -> SketchError {
    SketchError::Ambiguous {
        part: part.part_name(),
        why: "its lines match too many places of the file; add lines that are unique".to_owned(),
        lines: Vec::new(),
    }
}

/// Returns the first indices as line numbers.
pub fn numbers(indices: &[usize]) -> Vec<usize> {
    indices.iter().take(LINES_NAMED).map(|index| index + 1).collect()
}

/// Characters of a line that are compared and shown.
const SHOWN_CHARACTERS: usize = 160;

/// Lines between two markers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SketchPart<'a> {
    /// Lines without their endings, and without blank lines next to a marker.
    pub lines: Vec<&'a [u8]>,
    /// Number of the first line in the sketch, from 1.
    pub first_line: usize,
    /// Number of the part, from 1.
    pub number: usize,
    /// Indentation of the marker before it, if there is one.
    pub before: Option<usize>,
    /// Indentation of the marker after it, if there is one.
    pub after: Option<usize>,
}

impl SketchPart<'_> {
    /// Returns the identification of the part for a refusal.
    pub fn part_name(&self) -> PartName {
        let text = self.lines.first().map(|line| display_line(line)).unwrap_or_default();
        PartName {
            number: self.number,
            lines: (self.first_line, self.first_line + self.lines.len().max(1) - 1),
            text,
        }
    }
}

/// Counts the blanks at the start of a line; a tab counts as one.
pub fn indent(line: &[u8]) -> usize {
    line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Returns the compared part of a line, without blanks at its end and its ending.
pub fn key(line: &[u8]) -> &[u8] {
    line.trim_ascii_end()
}

/// Returns a line as it is compared and shown.
pub fn display_line(line: &[u8]) -> String {
    // No character takes more than 4 bytes.
    let line = line.trim_ascii();
    String::from_utf8_lossy(line.get(..4 * SHOWN_CHARACTERS).unwrap_or(line))
        .chars()
        .take(SHOWN_CHARACTERS)
        .collect()
}

/// Splits a sketch into parts.
///
/// # Errors
/// Fails if a marker is also a line of the file, or if there are only markers.
pub fn parts<'a>(sketch: &'a [u8], file: &[&[u8]]) -> Result<Vec<SketchPart<'a>>, SketchError> {
    let mut parts: Vec<SketchPart<'a>> = Vec::new();
    let mut lines: Vec<&[u8]> = Vec::new();
    let mut before = None;
    let mut first_line = 1;
    let mut finish =
        |lines: Vec<&'a [u8]>, first_line: usize, before: Option<usize>, after: Option<usize>| {
            let skipped = lines.iter().take_while(|line| key(line).is_empty()).count();
            let end = lines.iter().rposition(|line| !key(line).is_empty()).map_or(skipped, |last| last + 1);
            let kept = lines.into_iter().take(end).skip(skipped);
            let lines: Vec<&[u8]> = kept.collect();
            if !lines.is_empty() {
                let number = parts.len() + 1;
                parts.push(SketchPart { lines, first_line: first_line + skipped, number, before, after });
            }
        };
    for (line, number) in sketch.split(|&byte| byte == b'\n').zip(1..) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if omission::marker(line).is_none() {
            lines.push(line);
            continue;
        }
        must_not_stand_in(file, line, number)?;
        finish(std::mem::take(&mut lines), first_line, before, Some(indent(line)));
        before = Some(indent(line));
        first_line = number + 1;
    }
    finish(lines, first_line, before, None);
    if parts.is_empty() {
        let why = "it contains only markers and blank lines".to_owned();
        return Err(SketchError::Unreadable { line: 1, why });
    }
    Ok(parts)
}

/// Refuses a marker that is also a line of the file: it may be meant as that line.
fn must_not_stand_in(file: &[&[u8]], marker: &[u8], number: usize) -> Result<(), SketchError> {
    let wanted = marker.trim_ascii();
    match file.iter().position(|line| line.trim_ascii() == wanted) {
        None => Ok(()),
        Some(index) => Err(SketchError::Unreadable {
            line: number,
            why: format!(
                "`{}` would be a marker, but line {} of the file is the same: use another marker, such as \
                 `... existing code ...` with other words, or edit with old_string",
                display_line(wanted),
                index + 1
            ),
        }),
    }
}
