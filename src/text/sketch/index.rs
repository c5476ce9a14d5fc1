//! Where the lines of a sketch stand in the file.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;

use super::Refusal;
use super::parts::{Part, key};
use crate::text::checked::peek;

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

impl<'a> Index<'a> {
    /// Looks through the file for the lines of the parts.
    pub fn new(parts: &'a [Part<'a>], file: &'a [&'a [u8]]) -> Self {
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
    pub fn is_exhausted(&self) -> bool {
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
    pub fn core(&self, part: &Part<'_>, within: &Range<usize>) -> Option<Core> {
        let first =
            (0..part.lines.len()).find_map(|own| Some((own, self.unique_after(part, own, within)?)))?;
        let last = (0..part.lines.len())
            .rev()
            .find_map(|own| Some((own, self.unique_before(part, own, within)?)))?;
        Some(Core { own: (first.0, last.0), file: (first.1, last.1) })
    }

    /// Whether all lines of a part stand one after the other in a range of the file's lines.
    pub fn has_whole(&self, part: &Part<'_>, within: &Range<usize>) -> bool {
        let first = part.lines.first().copied().unwrap_or_default();
        self.positions(first, within).iter().any(|start| {
            start + part.lines.len() <= within.end
                && (0..part.lines.len()).all(|own| self.may_compare(1) && self.is_at(part, own, start + own))
        })
    }
}

/// The refusal of a part whose lines stand in more places than can be told apart.
pub fn too_alike(part: &Part<'_>) -> Refusal {
    Refusal::Ambiguous {
        part: part.which(),
        why: "its lines match too many places of the file; add lines that are unique".to_owned(),
        lines: Vec::new(),
    }
}

/// Indices as line numbers, the first of them.
pub fn numbers(indices: &[usize]) -> Vec<usize> {
    indices.iter().take(LINES_NAMED).map(|index| index + 1).collect()
}
