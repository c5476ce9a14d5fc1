//! Finds the place of a hunk's lines in a file.

use std::cell::{Cell, OnceCell};
use std::ops::Range;

use super::index::{Index, Places, Tier};
use super::lines::{Ending, Line};

/// How many comparisons one file may cost before a search counts as ambiguous.
const COMPARISONS_MAX: usize = 10_000_000;

/// How many equal places are named.
const PLACES_MAX: usize = 8;

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
        Self { lines, indices: Default::default(), is_mixed, budget: Cell::new(COMPARISONS_MAX) }
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
        let needle = self.index(tier).needle(lines);
        needle.is_some_and(|needle| self.index(tier).stands_at(&needle, at))
            && (!at_end || at + lines.len() == self.lines.len())
    }

    /// Whether `lines` stand in exactly one place of the whole file.
    pub fn is_unique(&self, lines: &[&[u8]], tier: Tier) -> bool {
        let Some(needle) = self.index(tier).needle(lines) else { return false };
        let mut budget = self.budget.get();
        let places = self.index(tier).places(&needle, &(0..self.lines.len()), 2, &mut budget);
        self.budget.set(budget);
        places.starts.len() == 1 && !places.is_cut
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
