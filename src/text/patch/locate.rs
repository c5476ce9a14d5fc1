//! Finds the place of a hunk's lines in a file.

use std::cell::{Cell, OnceCell};
use std::ops::Range;

use super::index::{Index, Places, Tier};
use super::lines::{Ending, Line};

/// How many comparisons one file may cost before a search counts as ambiguous.
const COMPARISONS_MAX: usize = 10_000_000;

/// How many equal places are named.
const PLACES_MAX: usize = 8;

/// How many searches of a file compare line by line: to number all its lines takes longer than these.
const SCANS_MAX: usize = 8;

/// How many comparisons for each line of the file such a search may take before the index is made all the same.
const SCANNED_PER_LINE: usize = 4;

/// A file's lines with the indices that were needed so far.
pub struct Text<'f> {
    /// The lines.
    pub lines: Vec<Line<'f>>,
    /// An index a tier.
    indices: [OnceCell<Index<'f>>; 4],
    /// Whether its lines end in more than one way, once that was asked for.
    is_mixed: OnceCell<bool>,
    /// Comparisons still allowed.
    budget: Cell<usize>,
    /// Searches without an index still allowed.
    scans: Cell<usize>,
}

/// The lines to find and where they may stand.
#[derive(Clone)]
pub struct LinesSought<'w> {
    /// The lines, without endings.
    pub lines: Vec<&'w [u8]>,
    /// The index where the patch says that they stand.
    pub expected: Option<usize>,
    /// Where to look: the first group that has a place decides.
    pub windows: Vec<Vec<Range<usize>>>,
    /// Whether they are the file's last.
    pub at_end: bool,
}

/// The answer of a search.
#[derive(Debug, PartialEq, Eq)]
pub enum Search {
    /// Nowhere.
    Nowhere,
    /// At one place that decides.
    At(usize),
    /// At several, by their indices.
    Several(Vec<usize>),
}

impl<'f> Text<'f> {
    /// The text of `lines`.
    pub fn new(lines: Vec<Line<'f>>) -> Self {
        let is_mixed = OnceCell::new();
        let (budget, scans) = (Cell::new(COMPARISONS_MAX), Cell::new(SCANS_MAX));
        Self { lines, indices: Default::default(), is_mixed, budget, scans }
    }

    /// Whether its lines end in more than one way.
    pub fn is_mixed(&self) -> bool {
        *self.is_mixed.get_or_init(|| {
            let mut endings =
                self.lines.iter().map(|line| line.ending).filter(|ending| *ending != Ending::None);
            let first = endings.next();
            endings.any(|ending| Some(ending) != first)
        })
    }

    /// The index for `tier`, made when first asked for.
    pub fn index(&self, tier: Tier) -> &Index<'f> {
        let [exact, trailing, space, typography] = &self.indices;
        let cell = match tier {
            Tier::Exact => exact,
            Tier::TrailingSpace => trailing,
            Tier::Space => space,
            Tier::Typography => typography,
        };
        cell.get_or_init(|| Index::new(&self.lines, tier))
    }

    /// Looks for `wanted` under one tier: at the stated line, else where it is alone.
    pub fn find(&self, wanted: &LinesSought<'_>, tier: Tier) -> Search {
        if tier != Tier::Exact && wanted.lines.iter().all(|line| line.trim_ascii().is_empty()) {
            return Search::Nowhere;
        }
        let Some(needle) = self.index(tier).needle(&wanted.lines) else { return Search::Nowhere };
        if wanted.at_end {
            return match self.lines.len().checked_sub(needle.len()) {
                Some(at) if self.index(tier).stands_at(&needle, at) => Search::At(at),
                _ => Search::Nowhere,
            };
        }
        if let Some(at) = wanted.expected.filter(|at| self.index(tier).stands_at(&needle, *at)) {
            return Search::At(at);
        }
        for windows in &wanted.windows {
            let places = self.places(&needle, windows, tier);
            match places.starts.as_slice() {
                [] if !places.is_cut => {}
                [only] if !places.is_cut => return Search::At(*only),
                several => return Search::Several(several.to_vec()),
            }
        }
        Search::Nowhere
    }

    /// Whether `lines` stand at index `at` and, where asked for, end the file.
    pub fn stands_at(&self, lines: &[&[u8]], at: usize, at_end: bool, tier: Tier) -> bool {
        let there = at.checked_add(lines.len()).and_then(|end| self.lines.get(at..end));
        let is_same = |(there, line): (&Line<'_>, &&[u8])| tier.key(there.text) == tier.key(line);
        there.is_some_and(|there| there.iter().zip(lines).all(is_same))
            && (!at_end || at + lines.len() == self.lines.len())
    }

    /// Whether `lines` stand in exactly one place of the whole file.
    pub fn is_unique(&self, lines: &[&[u8]], tier: Tier) -> bool {
        if tier == Tier::Exact
            && let Some(is_unique) = self.is_unique_by_scan(lines)
        {
            return is_unique;
        }
        let Some(needle) = self.index(tier).needle(lines) else { return false };
        let mut budget = self.budget.get();
        let places = self.index(tier).places(&needle, &(0..self.lines.len()), 2, &mut budget);
        self.budget.set(budget);
        places.starts.len() == 1 && !places.is_cut
    }

    /// The same without an index; `None` where that would take longer.
    fn is_unique_by_scan(&self, lines: &[&[u8]]) -> Option<bool> {
        let [exact, ..] = &self.indices;
        if exact.get().is_some() {
            return None;
        }
        self.scans.set(self.scans.get().checked_sub(1)?);
        let mut left = self.lines.len().saturating_mul(SCANNED_PER_LINE);
        let mut places = 0;
        for there in self.lines.windows(lines.len().max(1)) {
            let same = there.iter().zip(lines).take_while(|(there, line)| there.text == **line).count();
            left = left.checked_sub(same + 1)?;
            places += usize::from(same == there.len());
            if places > 1 {
                break;
            }
        }
        Some(places == 1 && !lines.is_empty())
    }

    /// The places in any of `windows`, each once.
    fn places(&self, needle: &[u32], windows: &[Range<usize>], tier: Tier) -> Places {
        let mut all = Places::default();
        let mut budget = self.budget.get();
        for window in windows {
            let found = self.index(tier).places(needle, window, PLACES_MAX, &mut budget);
            all.is_cut |= found.is_cut;
            all.starts.extend(found.starts);
        }
        self.budget.set(budget);
        all.starts.sort_unstable();
        all.starts.dedup();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::lines;
    use super::*;

    #[test]
    fn a_search_line_by_line_finds_what_the_index_finds() {
        let mut seed = 0x9e37_79b9_u64;
        let mut random = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        let mut scanned = 0;
        for _ in 0..2000 {
            let kinds = 1 + random(6);
            let file: String = (0..random(12)).map(|_| format!("{}\n", random(kinds))).collect();
            let sought: Vec<String> = (0..random(4)).map(|_| random(kinds).to_string()).collect();
            let sought: Vec<&[u8]> = sought.iter().map(String::as_bytes).collect();
            let text = Text::new(lines(file.as_bytes()));
            let by_scan = text.is_unique_by_scan(&sought);
            let needle = text.index(Tier::Exact).needle(&sought);
            let by_index = needle.is_some_and(|needle| {
                let all = 0..text.lines.len();
                text.index(Tier::Exact).places(&needle, &all, 2, &mut 1000).starts.len() == 1
            });
            scanned += usize::from(by_scan.is_some());
            assert_eq!(by_scan.unwrap_or(by_index), by_index, "{file:?} {sought:?}");
            for at in 0..=text.lines.len() {
                let there = text.lines.get(at..at + sought.len());
                let stands = there.is_some_and(|there| there.iter().map(|line| line.text).eq(sought.clone()));
                assert_eq!(
                    text.stands_at(&sought, at, false, Tier::Exact),
                    stands,
                    "{file:?} {sought:?} {at}"
                );
            }
        }
        assert!(scanned > 1000, "{scanned}");
    }

    #[test]
    fn a_search_that_takes_long_is_left_to_the_index() {
        let file = "a\n".repeat(100);
        let text = Text::new(lines(file.as_bytes()));
        let sought: Vec<&[u8]> = [&[b"a".as_slice(); 40][..], &[b"b"]].concat();
        assert_eq!(text.is_unique_by_scan(&sought), None);
        assert!(!text.is_unique(&sought, Tier::Exact));
        let unique: Vec<&[u8]> = vec![b"a"; 100];
        let text = Text::new(lines(file.as_bytes()));
        assert!(text.is_unique(&unique, Tier::Exact));
        for _ in 0..=SCANS_MAX {
            assert!(!text.is_unique(&[b"a"], Tier::Exact));
        }
        assert_eq!(text.is_unique_by_scan(&[b"a"]), None);
    }
}
