//! Index of the lines of a file by a key, such as a line without its blanks: finds runs of lines with equal keys.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::text::checked::slice_or_empty;

/// Lines of a file as numbers, equal for lines with equal keys, and the places of each number.
pub struct LineIndex<'f> {
    /// Number of each line.
    ids: Vec<u32>,
    /// Number of each key.
    id_by_key: HashMap<Cow<'f, [u8]>, u32>,
    /// Start of the places of each number in `positions`, and the end of the last.
    starts: Vec<usize>,
    /// Places of all numbers, in order for each.
    positions: Vec<usize>,
}

/// Result of a search.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SearchPlaces {
    /// Indices of first lines, in order and up to the limit.
    pub starts: Vec<usize>,
    /// True if the search was stopped, so that there may be more.
    pub is_cut: bool,
}

impl<'f> LineIndex<'f> {
    /// Creates the index of lines with these keys.
    pub fn new(keys: impl ExactSizeIterator<Item = Cow<'f, [u8]>>) -> Self {
        let mut id_by_key = HashMap::with_capacity(keys.len());
        let mut ids = Vec::with_capacity(keys.len());
        for key in keys {
            let fresh = u32::try_from(id_by_key.len()).unwrap_or(u32::MAX);
            ids.push(*id_by_key.entry(key).or_insert(fresh));
        }
        let (starts, positions) = places_by_id(&ids, id_by_key.len());
        Self { ids, id_by_key, starts, positions }
    }

    /// Returns the numbers of lines with these keys; `None` if one of them is nowhere in the file.
    pub fn needle<'k>(&self, mut keys: impl Iterator<Item = Cow<'k, [u8]>>) -> Option<Vec<u32>> {
        keys.try_fold(Vec::new(), |mut needle, key| {
            needle.push(*self.id_by_key.get(key.as_ref())?);
            Some(needle)
        })
    }

    /// Returns the places of one key.
    pub fn positions(&self, key: &[u8]) -> &[usize] {
        self.id_by_key.get(key).map_or(&[], |id| self.positions_of(*id))
    }

    /// Returns true if `needle` matches at the line with index `at`.
    pub fn stands_at(&self, needle: &[u32], at: usize) -> bool {
        at.checked_add(needle.len()).and_then(|end| self.ids.get(at..end)) == Some(needle)
    }

    /// Returns at most `limit` places of `needle` that start in `window`, for at most `budget` comparisons.
    pub fn places(
        &self,
        needle: &[u32],
        window: &Range<usize>,
        limit: usize,
        budget: &mut usize,
    ) -> SearchPlaces {
        let rarest = needle.iter().enumerate().min_by_key(|(_, id)| self.positions_of(**id).len());
        let mut places = SearchPlaces::default();
        let Some((offset, id)) = rarest else { return places };
        let positions = self.positions_of(*id);
        let first = positions.partition_point(|at| *at < window.start.saturating_add(offset));
        for at in slice_or_empty(positions, first..) {
            let Some(start) = at.checked_sub(offset).filter(|start| *start < window.end) else {
                break;
            };
            if *budget == 0 {
                places.is_cut = true;
                break;
            }
            *budget -= 1;
            if self.stands_at(needle, start) {
                places.starts.push(start);
                if places.starts.len() == limit {
                    break;
                }
            }
        }
        places
    }

    /// Returns the places of a number.
    fn positions_of(&self, id: u32) -> &[usize] {
        let id = widen(id);
        let range = self.starts.get(id).zip(self.starts.get(id + 1));
        range.map_or(&[], |(start, end)| slice_or_empty(&self.positions, *start..*end))
    }
}

/// Returns an index from the narrow form that saves memory.
fn widen(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// Sorts the places of `count` numbers by number, in one pass over them.
fn places_by_id(ids: &[u32], count: usize) -> (Vec<usize>, Vec<usize>) {
    let mut starts = vec![0_usize; count + 1];
    for id in ids {
        if let Some(next) = starts.get_mut(widen(*id) + 1) {
            *next += 1;
        }
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    let mut free = starts.clone();
    let mut positions = vec![0; ids.len()];
    for (at, id) in ids.iter().enumerate() {
        if let Some(slot) = free.get_mut(widen(*id)) {
            if let Some(position) = positions.get_mut(*slot) {
                *position = at;
            }
            *slot += 1;
        }
    }
    (starts, positions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunk_matches_are_ordered_and_within_the_window() {
        let keys = |texts: &'static [&[u8]]| texts.iter().map(|text| Cow::Borrowed(*text));
        let index = LineIndex::new(keys(&[b"a", b"b", b"a", b"b", b"c", b"a", b"b"]));
        let needle = index.needle(keys(&[b"a", b"b"])).unwrap();
        let find = |window: Range<usize>, limit| index.places(&needle, &window, limit, &mut 100).starts;
        assert_eq!(find(0..7, 9), [0, 2, 5]);
        assert_eq!(find(1..5, 9), [2]);
        assert_eq!(find(0..7, 2), [0, 2]);
        assert!(index.places(&needle, &(0..7), 9, &mut 1).is_cut);
        assert!(index.needle(keys(&[b"z"])).is_none());
    }
}
