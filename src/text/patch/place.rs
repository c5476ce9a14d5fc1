//! Decides where one hunk is applied, or that it is already applied.

use super::conflict::{HunkFailure, HunkFault, NearestPlace, visible};
use super::index;
use super::index::{IndexedText, LineMatch, LineQuery, LineSearch};
use super::model::{Ending, Hunk, HunkLine, LineKind};
use crate::text::checked::{TextFault, must_fit, slice_or_empty};
use crate::text::nearest::most_similar_line;

/// Place of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HunkPlace {
    /// Index in the file of its first compared line.
    pub start: usize,
    /// Comparison under which the lines matched.
    pub tier: LineMatch,
    /// Number of context lines at its start that were ignored.
    pub skipped_before: usize,
    /// Number of context lines at its end that were ignored.
    pub skipped_after: usize,
    /// True if the old lines match there byte for byte and nowhere else.
    pub is_unique: bool,
    /// True if the new side matches there.
    pub is_done: bool,
}

/// Options of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PatchOptions {
    /// Number of context lines at either end of a hunk that may be ignored.
    pub fuzz: usize,
    /// True if counts and stated lines must be right and lines must match byte for byte.
    pub strict: bool,
    /// True to undo the patch instead.
    pub reverse: bool,
    /// Size limit of the new file, in bytes; `None` for no limit.
    pub bytes_max: Option<usize>,
}

impl PatchOptions {
    /// Checks the size of a file before it is built.
    ///
    /// # Errors
    /// Fails with [`TextFault::TooLarge`].
    pub fn must_fit(&self, bytes: usize) -> Result<(), TextFault> {
        self.bytes_max.map_or(Ok(()), |bytes_max| must_fit(bytes, bytes_max))
    }
}

/// A hunk, and the limits of its place.
pub struct HunkSearch<'w, 'f> {
    /// Text of the file.
    pub text: &'w IndexedText<'f>,
    /// Hunk to place.
    pub hunk: &'w Hunk<'w>,
    /// Index that the hunk states, corrected by the offset of the previous hunks.
    pub expected: Option<usize>,
    /// Index after the last line that the previous hunk changes.
    pub after: usize,
    /// True if line 0 means the place before the first line of a file, not a new file.
    pub has_lines: bool,
    /// True if lines with equal text but different endings differ.
    pub endings_are_meant: bool,
    /// True if the patch is known not to be applied, at least not as a whole.
    pub is_new: bool,
    /// Allowed leniency.
    pub options: PatchOptions,
}

impl HunkSearch<'_, '_> {
    /// Returns the place of the hunk.
    ///
    /// # Errors
    /// Returns the reason if it has none.
    pub fn place(&self) -> Result<HunkPlace, HunkFault> {
        if self.options.strict && !self.hunk.counts_match {
            return Err(HunkFault::Counts);
        }
        let old = self.wanted()?;
        if old.lines.is_empty() {
            return self.place_without_old();
        }
        let new = self.new_lines();
        if let Some(place) = self.at_stated_line(&old, &new) {
            return Ok(place);
        }
        let not_found = HunkFault::NotFound { stated: self.expected.map(|at| at.saturating_add(1)) };
        if self.options.strict && self.expected.is_some() {
            return Err(not_found);
        }
        if let Some(place) = self.found(&old, LineMatch::Exact)? {
            return Ok(place);
        }
        if let Some(place) = self.applied_place(&new, LineMatch::Exact) {
            return Ok(place);
        }
        if self.options.strict {
            return Err(not_found);
        }
        for tier in [LineMatch::TrailingSpace, LineMatch::Space, LineMatch::Typography] {
            if let Some(place) = self.found(&old, tier)? {
                return Ok(place);
            }
        }
        for tier in LineMatch::ALL {
            if let Some(place) = self.applied_place(&new, tier)
                && self.added_stands(place.start)
            {
                return Ok(place);
            }
        }
        self.with_fuzz(&old)?.ok_or(not_found)
    }

    /// Returns the failure of a hunk without a place.
    pub fn explain(&self, reason: HunkFault) -> HunkFailure {
        let nearest = match reason {
            HunkFault::NotFound { .. } => {
                let old: Vec<_> = self.hunk.old().map(|line| line.text).collect();
                nearest(self.text, &old, self.expected.unwrap_or(self.after))
            }
            _ => None,
        };
        HunkFailure { reason, nearest }
    }

    /// Returns the old lines and where they may be.
    fn wanted(&self) -> Result<LineQuery<'_>, HunkFault> {
        let windows = index::windows(self.text, &self.hunk.anchors, self.after)
            .map_err(|anchor| HunkFault::AnchorNotFound { anchor: anchor.to_vec() })?;
        Ok(LineQuery {
            lines: self.hunk.old().map(|line| line.text).collect(),
            expected: self.expected,
            windows,
            at_end: self.hunk.at_end,
        })
    }

    /// Returns the lines that the hunk leaves.
    fn new_lines(&self) -> Vec<&[u8]> {
        self.hunk.new_side().map(|line| line.text).collect()
    }

    /// Returns the place at exactly the stated line, of the old side or else of the new one.
    fn at_stated_line(&self, old: &LineQuery<'_>, new: &[&[u8]]) -> Option<HunkPlace> {
        let at = self.expected?;
        let stands = |lines| self.text.stands_at(lines, at, self.hunk.at_end, LineMatch::Exact);
        if stands(&old.lines) {
            return Some(self.place_without_repeat(&old.lines, at, LineMatch::Exact))
                .filter(|_| !self.options.strict || self.has_same_ending(at, old.lines.len()));
        }
        (stands(new) && self.is_known_done(at, LineMatch::Exact))
            .then(|| self.applied_at(at, LineMatch::Exact))
    }

    /// Returns the place that a search under `tier` finds.
    fn found(&self, old: &LineQuery<'_>, tier: LineMatch) -> Result<Option<HunkPlace>, HunkFault> {
        match self.text.find(old, tier) {
            LineSearch::Nowhere => Ok(None),
            LineSearch::At(at) => Ok(Some(self.place_without_repeat(&old.lines, at, tier))),
            LineSearch::Several(starts) => {
                Err(HunkFault::Ambiguous { lines: starts.iter().map(|start| start + 1).collect() })
            }
        }
    }

    /// Returns the place at `at`, or that of the new side if applying the hunk would add the same lines twice.
    fn place_without_repeat(&self, old: &[&[u8]], at: usize, tier: LineMatch) -> HunkPlace {
        if let Some(done) = self.doubled(at, tier) {
            return self.applied_at(done, tier);
        }
        let is_unique = tier == LineMatch::Exact && self.text.is_unique(old, tier);
        HunkPlace { start: at, tier, skipped_before: 0, skipped_after: 0, is_unique, is_done: false }
    }

    /// Returns the place of the result of a pure insertion whose context was found at `at`, if it is already there.
    ///
    /// Lines between context are already there only by chance, so an exact line number is trusted. Lines at the edge of
    /// the hunk would be added next to equal ones.
    fn doubled(&self, at: usize, tier: LineMatch) -> Option<usize> {
        let added = |line: &&HunkLine<'_>| line.kind == LineKind::Added;
        if self.hunk.lines.iter().any(|line| line.kind == LineKind::Removed) {
            return None;
        }
        let before = self.hunk.lines.iter().take_while(added).count();
        let after = self.hunk.lines.iter().rev().take_while(added).count();
        if before + after == 0 && !self.hunk.lines.iter().any(|line| line.kind == LineKind::Added) {
            return None;
        }
        let new = self.new_lines();
        let stands = |at: usize| self.text.stands_at(&new, at, self.hunk.at_end, tier);
        let is_done = |at: usize| stands(at) && self.is_known_done(at, tier);
        if let Some(earlier) = at.checked_sub(before).filter(|earlier| before > 0 && is_done(*earlier)) {
            return Some(earlier);
        }
        let is_believed = after == 0 && self.expected == Some(at);
        (!is_believed && is_done(at)).then_some(at)
    }

    /// Returns true if the final newline of old lines at `at` is as in the patch.
    fn has_same_ending(&self, at: usize, count: usize) -> bool {
        let is_marked = self.hunk.old().next_back().is_some_and(|line| line.ending == Ending::None);
        let is_bare = self.text.lines.last().is_some_and(|line| line.ending == Ending::None);
        at + count != self.text.lines.len() || is_marked == is_bare
    }

    /// Returns the place of lines without any context.
    fn place_without_old(&self) -> Result<HunkPlace, HunkFault> {
        let (new, end) = (self.new_lines(), self.text.lines.len());
        let stands = |at| self.text.stands_at(&new, at, false, LineMatch::Exact) && self.has_added_ending(at);
        let fresh = |start| HunkPlace {
            start,
            tier: LineMatch::Exact,
            skipped_before: 0,
            skipped_after: 0,
            is_unique: end == 0,
            is_done: false,
        };
        if end == 0 {
            return Ok(fresh(0));
        }
        let is_there = self.expected == Some(end) && self.hunk.counts_match;
        let appends = self.hunk.appends && self.hunk.anchors.is_empty() && self.expected.is_none();
        if (self.hunk.at_end && !is_there) || appends {
            let done = end.checked_sub(new.len()).filter(|at| stands(*at));
            let done = done.filter(|at| self.is_known_done(*at, LineMatch::Exact));
            return Ok(done.map_or(fresh(end), |at| self.applied_at(at, LineMatch::Exact)));
        }
        let stated =
            self.expected.filter(|at| (*at > 0 || self.has_lines) && *at <= end && self.hunk.counts_match);
        match stated {
            Some(at) if !self.is_new && stands(at) && self.is_known_done(at, LineMatch::Exact) => {
                Ok(self.applied_at(at, LineMatch::Exact))
            }
            Some(at) => Ok(fresh(at)),
            None => self.applied_place(&new, LineMatch::Exact).ok_or(HunkFault::NoPlace),
        }
    }

    /// Returns true if the lines at `at` end as those that the hunk adds, or if endings do not matter.
    fn has_added_ending(&self, at: usize) -> bool {
        let mut pairs = self.hunk.new_side().zip(self.text.lines.iter().skip(at));
        let is_open = |ending| ending == Ending::None;
        !self.endings_are_meant
            || pairs.all(|(line, there)| {
                line.ending == there.ending || is_open(line.ending) || is_open(there.ending)
            })
    }

    /// Returns the place without some context lines at either end, the fewest first.
    fn with_fuzz(&self, old: &LineQuery<'_>) -> Result<Option<HunkPlace>, HunkFault> {
        let context = |line: &&HunkLine<'_>| line.kind == LineKind::Context;
        let before = self.hunk.lines.iter().take_while(context).count();
        let after = self.hunk.lines.iter().rev().take_while(context).count();
        for fuzz in 1..=self.options.fuzz.min(before.max(after)) {
            let (before, after) = (before.min(fuzz), after.min(fuzz));
            let end = old.lines.len().saturating_sub(after);
            let lines = slice_or_empty(&old.lines, before..end).to_vec();
            if lines.is_empty() {
                return Ok(None);
            }
            let expected = old.expected.map(|at| at.saturating_add(before));
            let rest = LineQuery { lines, expected, ..old.clone() };
            for tier in LineMatch::ALL {
                if let Some(place) = self.found(&rest, tier)?.filter(|place| !place.is_done) {
                    let skipped =
                        HunkPlace { skipped_before: before, skipped_after: after, is_unique: false, ..place };
                    return Ok(Some(skipped));
                }
            }
        }
        Ok(None)
    }

    /// Returns the place of the new side of a hunk that adds lines, anywhere in the file, if it certainly belongs to
    /// the hunk.
    fn applied_place(&self, new: &[&[u8]], tier: LineMatch) -> Option<HunkPlace> {
        if !self.adds_lines() {
            return None;
        }
        let wanted = LineQuery {
            lines: new.to_vec(),
            expected: self.expected,
            windows: vec![vec![0..self.text.lines.len()]],
            at_end: self.hunk.at_end,
        };
        match self.text.find(&wanted, tier) {
            LineSearch::At(at) if self.is_known_done(at, tier) => Some(self.applied_at(at, tier)),
            LineSearch::At(_) | LineSearch::Nowhere | LineSearch::Several(_) => None,
        }
    }

    /// Returns true if the lines that it adds match byte for byte, with its new side at `at`.
    fn added_stands(&self, at: usize) -> bool {
        let there = self.text.lines.iter().skip(at);
        self.hunk
            .new_side()
            .zip(there)
            .all(|(line, there)| line.kind != LineKind::Added || line.text == there.text)
    }

    /// Returns the place of the new side at `at`.
    fn applied_at(&self, at: usize, tier: LineMatch) -> HunkPlace {
        let is_unique = tier == LineMatch::Exact && self.text.is_unique(&self.new_lines(), tier);
        HunkPlace { start: at, tier, skipped_before: 0, skipped_after: 0, is_unique, is_done: true }
    }

    /// Returns true if the new side at `at` proves that the hunk is applied: its changes are between its own context
    /// there, and lines that it adds occur nowhere else.
    ///
    /// A hunk that only removes lines leaves none of its own, so the caller accepts it as applied only at exactly the
    /// stated line.
    fn is_known_done(&self, at: usize, tier: LineMatch) -> bool {
        self.is_between(at) && (!self.adds_lines() || self.text.is_unique(&self.new_lines(), tier))
    }

    /// Returns true if the hunk adds a line.
    fn adds_lines(&self) -> bool {
        self.hunk.lines.iter().any(|line| line.kind == LineKind::Added)
    }

    /// Returns true if the changes of the hunk are between lines of text or the ends of the file, with its new side at
    /// `at`. At the stated line, blank lines count as well.
    fn is_between(&self, at: usize) -> bool {
        let is_context = |line: &&HunkLine<'_>| line.kind == LineKind::Context;
        let is_text = |line: &HunkLine<'_>| self.expected == Some(at) || !line.text.trim_ascii().is_empty();
        let mut before = self.hunk.lines.iter().take_while(is_context);
        let mut after = self.hunk.lines.iter().rev().take_while(is_context);
        let (has_before, has_after) = (before.any(is_text), after.any(is_text));
        let is_last = at + self.hunk.new_side().count() == self.text.lines.len();
        match (has_before, has_after) {
            (true, true) => true,
            (true, false) => is_last,
            (false, true) => at == 0,
            (false, false) => at == 0 && is_last,
        }
    }
}

/// Returns the place nearest to `old`, preferring one near the index `around`.
pub fn nearest(text: &IndexedText<'_>, old: &[&[u8]], around: usize) -> Option<NearestPlace> {
    let file: Vec<&[u8]> = text.lines.iter().map(|line| line.text).collect();
    Some(compare(text, old, most_similar_line(&file, old, around)?))
}

/// Returns the difference of `old` and the lines from `start` on.
fn compare(text: &IndexedText<'_>, old: &[&[u8]], start: usize) -> NearestPlace {
    let there = |offset: usize| text.lines.get(start + offset).map(|line| line.text);
    let differs = |offset: &usize| old.get(*offset).copied() != there(*offset);
    let first = (0..old.len()).find(differs).unwrap_or(0);
    NearestPlace {
        line: start + 1,
        equal: ((0..old.len()).filter(|offset| !differs(offset)).count(), old.len()),
        differs_at: start + first + 1,
        wanted: visible(old.get(first).copied().unwrap_or_default()),
        found: there(first).map(visible),
    }
}
