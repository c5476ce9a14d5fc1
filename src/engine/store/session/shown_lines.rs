//! Which lines of a file a session was shown.

use serde::{Deserialize, Serialize};

/// The lines of a file that were shown, as inclusive ranges of line numbers from 1, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines(Vec<(u64, u64)>);

impl Lines {
    /// Lines 1 to `last`; none where `last` is 0.
    #[must_use]
    pub fn up_to(last: u64) -> Self {
        let mut lines = Self::default();
        lines.add(1, last);
        lines
    }

    /// Adds the lines `first` to `last`, both included; nothing where `first` is after `last`.
    pub fn add(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        let mut ranges = std::mem::take(&mut self.0);
        ranges.push((first, last));
        *self = Self::from_ranges(ranges, usize::MAX);
    }

    /// The lines of ranges in any order, of which those that are empty count for nothing; the first
    /// `ranges_max` of what they join to.
    #[must_use]
    pub fn from_ranges(mut ranges: Vec<(u64, u64)>, ranges_max: usize) -> Self {
        ranges.retain(|(first, last)| first <= last);
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (first, last) in ranges {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        joined.truncate(ranges_max);
        Self(joined)
    }

    /// Returns true if there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of the lines 1 to `last` were shown.
    #[must_use]
    pub fn cover(&self, last: u64) -> bool {
        self.contain(1, last)
    }

    /// Whether all of the lines `first` to `last` were shown.
    #[must_use]
    pub fn contain(&self, first: u64, last: u64) -> bool {
        // They ascend and do not touch, so one of them alone can hold all.
        let after = self.0.partition_point(|&(from, _)| from <= first);
        let holder = after.checked_sub(1).and_then(|at| self.0.get(at));
        first > last || holder.is_some_and(|&(_, to)| to >= last)
    }

    /// The lines from `first` to `last` that were not shown, as ranges in order.
    #[must_use]
    pub fn missing(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let (mut missing, mut next) = (Vec::new(), first);
        for &(from, to) in self.0.iter().filter(|(_, to)| *to >= first) {
            if from > last {
                break;
            }
            if next < from {
                missing.push((next, from - 1));
            }
            next = to.saturating_add(1);
        }
        if next <= last {
            missing.push((next, last));
        }
        missing
    }

    /// The ranges, taken out.
    pub(super) fn into_ranges(self) -> Vec<(u64, u64)> {
        self.0
    }

    /// The ranges.
    #[must_use]
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_lines_join() {
        let mut lines = Lines::default();
        for (first, last) in [(5, 9), (1, 2), (3, 4), (20, 19), (30, 31), (8, 12)] {
            lines.add(first, last);
        }
        assert_eq!(lines.ranges(), [(1, 12), (30, 31)]);
        assert!(lines.cover(12) && !lines.cover(13));
        for (first, last, missing) in [
            (1, 12, vec![]),
            (1, 13, vec![(13, 13)]),
            (10, 40, vec![(13, 29), (32, 40)]),
            (30, 31, vec![]),
            (20, 20, vec![(20, 20)]),
            (5, 4, vec![]),
        ] {
            assert_eq!(lines.missing(first, last), missing, "{first}-{last}");
        }
        assert!(Lines::default().cover(0));
    }
}
