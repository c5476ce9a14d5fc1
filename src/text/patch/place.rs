//! Decides where one hunk goes, or that it has been there already.

use std::collections::HashMap;

use super::conflict::{Failure, Nearest, Reason, visible};
use super::index;
use super::index::{LinesSought, Search, Text, Tier};
use super::model::{Ending, Hunk, HunkLine, Kind};
use crate::text::checked::{Fault, must_fit, peek};
use crate::text::likeness;

/// Where a hunk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HunkPlace {
    /// Index of the file's line that its first compared line meets.
    pub start: usize,
    /// How the lines were compared.
    pub tier: Tier,
    /// How many context lines at its start were ignored.
    pub skipped_before: usize,
    /// How many context lines at its end were ignored.
    pub skipped_after: usize,
    /// True if the old lines stand there byte for byte and nowhere else.
    pub is_unique: bool,
    /// True if it is the new side that stands there.
    pub is_done: bool,
}

/// What the caller allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PatchOptions {
    /// How many context lines at either end of a hunk may be ignored.
    pub fuzz: usize,
    /// True if counts and stated lines must be right and lines the same byte for byte.
    pub strict: bool,
    /// True if to undo the patch instead.
    pub reverse: bool,
    /// The largest file that may come of it, in bytes; `None` for no bound.
    pub bytes_max: Option<usize>,
}

impl PatchOptions {
    /// Checks the size of a file before it is made.
    ///
    /// # Errors
    /// [`Fault::TooLarge`].
    pub fn must_fit(&self, bytes: usize) -> Result<(), Fault> {
        self.bytes_max.map_or(Ok(()), |bytes_max| must_fit(bytes, bytes_max))
    }
}

/// One hunk and where it may go.
pub struct Placing<'w, 'f> {
    /// The file.
    pub text: &'w Text<'f>,
    /// The hunk.
    pub hunk: &'w Hunk<'w>,
    /// The index that the hunk states, corrected by what the hunks before it met.
    pub expected: Option<usize>,
    /// The index after the last line that the hunk before changes.
    pub after: usize,
    /// True if line 0 is the place before a file's first line, and not the sign of a new file.
    pub has_lines: bool,
    /// True if lines of one text with different endings are different lines.
    pub endings_are_meant: bool,
    /// True if the patch is known not to be applied, at least not as a whole.
    pub is_new: bool,
    /// The leniency allowed.
    pub options: PatchOptions,
}

impl Placing<'_, '_> {
    /// The place of the hunk.
    ///
    /// # Errors
    /// Why it has none.
    pub fn place(&self) -> Result<HunkPlace, Reason> {
        if self.options.strict && !self.hunk.counts_match {
            return Err(Reason::Counts);
        }
        let old = self.wanted()?;
        if old.lines.is_empty() {
            return self.place_without_old();
        }
        let new = self.new_lines();
        if let Some(place) = self.at_stated_line(&old, &new) {
            return Ok(place);
        }
        let not_found = Reason::NotFound { stated: self.expected.map(|at| at.saturating_add(1)) };
        if self.options.strict && self.expected.is_some() {
            return Err(not_found);
        }
        if let Some(place) = self.found(&old, Tier::Exact)? {
            return Ok(place);
        }
        if let Some(place) = self.done(&new, Tier::Exact) {
            return Ok(place);
        }
        if self.options.strict {
            return Err(not_found);
        }
        for tier in [Tier::TrailingSpace, Tier::Space, Tier::Typography] {
            if let Some(place) = self.found(&old, tier)? {
                return Ok(place);
            }
        }
        for tier in Tier::ALL {
            if let Some(place) = self.done(&new, tier)
                && self.added_stands(place.start)
            {
                return Ok(place);
            }
        }
        self.with_fuzz(&old)?.ok_or(not_found)
    }

    /// What to tell about a hunk without a place.
    pub fn explain(&self, reason: Reason) -> Failure {
        let nearest = match reason {
            Reason::NotFound { .. } => {
                let old: Vec<_> = self.hunk.old().map(|line| line.text).collect();
                nearest(self.text, &old, self.expected.unwrap_or(self.after))
            }
            _ => None,
        };
        Failure { reason, nearest }
    }

    /// The old lines and where they may stand.
    fn wanted(&self) -> Result<LinesSought<'_>, Reason> {
        let windows = index::windows(self.text, &self.hunk.anchors, self.after)
            .map_err(|anchor| Reason::AnchorNotFound { anchor: anchor.to_vec() })?;
        Ok(LinesSought {
            lines: self.hunk.old().map(|line| line.text).collect(),
            expected: self.expected,
            windows,
            at_end: self.hunk.at_end,
        })
    }

    /// The lines that the hunk leaves.
    fn new_lines(&self) -> Vec<&[u8]> {
        self.hunk.new_side().map(|line| line.text).collect()
    }

    /// The place at exactly the stated line, of the old side or else of the new one.
    fn at_stated_line(&self, old: &LinesSought<'_>, new: &[&[u8]]) -> Option<HunkPlace> {
        let at = self.expected?;
        let stands = |lines| self.text.stands_at(lines, at, self.hunk.at_end, Tier::Exact);
        if stands(&old.lines) {
            return Some(self.unless_doubled(&old.lines, at, Tier::Exact))
                .filter(|_| !self.options.strict || self.ends_alike(at, old.lines.len()));
        }
        (stands(new) && self.is_known_done(at, Tier::Exact)).then(|| self.done_at(at, Tier::Exact))
    }

    /// The place that a search under `tier` finds.
    fn found(&self, old: &LinesSought<'_>, tier: Tier) -> Result<Option<HunkPlace>, Reason> {
        match self.text.find(old, tier) {
            Search::Nowhere => Ok(None),
            Search::At(at) => Ok(Some(self.unless_doubled(&old.lines, at, tier))),
            Search::Several(starts) => {
                Err(Reason::Ambiguous { lines: starts.iter().map(|start| start + 1).collect() })
            }
        }
    }

    /// The place at `at`, or that of the new side where applying would put the same lines there twice.
    fn unless_doubled(&self, old: &[&[u8]], at: usize, tier: Tier) -> HunkPlace {
        if let Some(done) = self.doubled(at, tier) {
            return self.done_at(done, tier);
        }
        let is_unique = tier == Tier::Exact && self.text.is_unique(old, tier);
        HunkPlace { start: at, tier, skipped_before: 0, skipped_after: 0, is_unique, is_done: false }
    }

    /// Where the result of a pure insertion stands whose context was found at `at`.
    ///
    /// Lines between context stand already only by chance, so there an exact line number is
    /// believed; lines at the hunk's edge would be put beside themselves.
    fn doubled(&self, at: usize, tier: Tier) -> Option<usize> {
        let added = |line: &&HunkLine<'_>| line.kind == Kind::Added;
        if self.hunk.lines.iter().any(|line| line.kind == Kind::Removed) {
            return None;
        }
        let before = self.hunk.lines.iter().take_while(added).count();
        let after = self.hunk.lines.iter().rev().take_while(added).count();
        if before + after == 0 && !self.hunk.lines.iter().any(|line| line.kind == Kind::Added) {
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

    /// Returns true if the final newline of old lines at `at` is as the patch has it.
    fn ends_alike(&self, at: usize, count: usize) -> bool {
        let is_marked = self.hunk.old().next_back().is_some_and(|line| line.ending == Ending::None);
        let is_bare = self.text.lines.last().is_some_and(|line| line.ending == Ending::None);
        at + count != self.text.lines.len() || is_marked == is_bare
    }

    /// The place of lines that come without any context.
    fn place_without_old(&self) -> Result<HunkPlace, Reason> {
        let (new, end) = (self.new_lines(), self.text.lines.len());
        let stands = |at| self.text.stands_at(&new, at, false, Tier::Exact) && self.ends_as_added(at);
        let fresh = |start| HunkPlace {
            start,
            tier: Tier::Exact,
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
            let done = done.filter(|at| self.is_known_done(*at, Tier::Exact));
            return Ok(done.map_or(fresh(end), |at| self.done_at(at, Tier::Exact)));
        }
        let stated =
            self.expected.filter(|at| (*at > 0 || self.has_lines) && *at <= end && self.hunk.counts_match);
        match stated {
            Some(at) if !self.is_new && stands(at) && self.is_known_done(at, Tier::Exact) => {
                Ok(self.done_at(at, Tier::Exact))
            }
            Some(at) => Ok(fresh(at)),
            None => self.done(&new, Tier::Exact).ok_or(Reason::NoPlace),
        }
    }

    /// Returns true if the lines at `at` end as those do that the hunk adds, where that matters.
    fn ends_as_added(&self, at: usize) -> bool {
        let mut pairs = self.hunk.new_side().zip(self.text.lines.iter().skip(at));
        let is_open = |ending| ending == Ending::None;
        !self.endings_are_meant
            || pairs.all(|(line, there)| {
                line.ending == there.ending || is_open(line.ending) || is_open(there.ending)
            })
    }

    /// The place without some context lines at either end, the fewest first.
    fn with_fuzz(&self, old: &LinesSought<'_>) -> Result<Option<HunkPlace>, Reason> {
        let context = |line: &&HunkLine<'_>| line.kind == Kind::Context;
        let before = self.hunk.lines.iter().take_while(context).count();
        let after = self.hunk.lines.iter().rev().take_while(context).count();
        for fuzz in 1..=self.options.fuzz.min(before.max(after)) {
            let (before, after) = (before.min(fuzz), after.min(fuzz));
            let end = old.lines.len().saturating_sub(after);
            let lines = peek(&old.lines, before..end).to_vec();
            if lines.is_empty() {
                return Ok(None);
            }
            let expected = old.expected.map(|at| at.saturating_add(before));
            let rest = LinesSought { lines, expected, ..old.clone() };
            for tier in Tier::ALL {
                if let Some(place) = self.found(&rest, tier)?.filter(|place| !place.is_done) {
                    let skipped =
                        HunkPlace { skipped_before: before, skipped_after: after, is_unique: false, ..place };
                    return Ok(Some(skipped));
                }
            }
        }
        Ok(None)
    }

    /// The place of the new side of a hunk that adds lines, wherever that is in the file, where it is
    /// known to be the hunk's own.
    fn done(&self, new: &[&[u8]], tier: Tier) -> Option<HunkPlace> {
        if !self.adds_lines() {
            return None;
        }
        let wanted = LinesSought {
            lines: new.to_vec(),
            expected: self.expected,
            windows: vec![vec![0..self.text.lines.len()]],
            at_end: self.hunk.at_end,
        };
        match self.text.find(&wanted, tier) {
            Search::At(at) if self.is_known_done(at, tier) => Some(self.done_at(at, tier)),
            Search::At(_) | Search::Nowhere | Search::Several(_) => None,
        }
    }

    /// Returns true if the lines that it adds stand byte for byte where its new side is at `at`.
    fn added_stands(&self, at: usize) -> bool {
        let there = self.text.lines.iter().skip(at);
        self.hunk
            .new_side()
            .zip(there)
            .all(|(line, there)| line.kind != Kind::Added || line.text == there.text)
    }

    /// The place of the new side at `at`.
    fn done_at(&self, at: usize, tier: Tier) -> HunkPlace {
        let is_unique = tier == Tier::Exact && self.text.is_unique(&self.new_lines(), tier);
        HunkPlace { start: at, tier, skipped_before: 0, skipped_after: 0, is_unique, is_done: true }
    }

    /// Returns true if the new side at `at` means that the hunk is applied: what it changes is between its
    /// own
    /// context there, and lines that it adds are so nowhere else.
    ///
    /// A hunk that only removes lines leaves nothing of its own, so that the caller takes it for applied
    /// at exactly the stated line alone.
    fn is_known_done(&self, at: usize, tier: Tier) -> bool {
        self.is_between(at) && (!self.adds_lines() || self.text.is_unique(&self.new_lines(), tier))
    }

    /// Returns true if the hunk adds a line.
    fn adds_lines(&self) -> bool {
        self.hunk.lines.iter().any(|line| line.kind == Kind::Added)
    }

    /// Returns true if what the hunk changes stands between lines of text or the ends of the file, with its
    /// new side at `at`.
    fn is_between(&self, at: usize) -> bool {
        let is_context = |line: &&HunkLine<'_>| line.kind == Kind::Context;
        let is_text = |line: &HunkLine<'_>| !line.text.trim_ascii().is_empty();
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

/// A line that stands in more places than this says little about where a hunk belongs.
const VOTES_MAX: usize = 64;

/// How many old lines vote.
const VOTERS_MAX: usize = 200;

/// How many lines round the stated one are compared letter by letter.
const COMPARED_MAX: usize = 400;

/// A line longer than this is not compared letter by letter.
const COMPARED_BYTES_MAX: usize = 300;

/// How alike two lines must be to be named.
const RATIO_MIN: f32 = 0.6;

/// Finds the nearest place to `old`, preferring what lies near the index `around`.
pub fn nearest(text: &Text<'_>, old: &[&[u8]], around: usize) -> Option<Nearest> {
    let start = voted(text, old, around).or_else(|| similar_line(text, old, around))?;
    Some(compare(text, old, start))
}

/// The start that most old lines speak for, by where they stand themselves.
fn voted(text: &Text<'_>, old: &[&[u8]], around: usize) -> Option<usize> {
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (offset, line) in old.iter().enumerate().take(VOTERS_MAX) {
        let places = text.index(Tier::Space).positions(line);
        if line.trim_ascii().is_empty() || places.len() > VOTES_MAX {
            continue;
        }
        for start in places.iter().filter_map(|at| usize::try_from(*at).ok()?.checked_sub(offset)) {
            *votes.entry(start).or_default() += 1;
        }
    }
    let best =
        |(start, votes): &(usize, usize)| (*votes, usize::MAX - start.abs_diff(around), usize::MAX - start);
    votes.into_iter().max_by_key(best).map(|(start, _)| start)
}

/// The start where the first telling old line has its most similar counterpart.
fn similar_line(text: &Text<'_>, old: &[&[u8]], around: usize) -> Option<usize> {
    let is_telling = |line: &&[u8]| !line.trim_ascii().is_empty() && line.len() <= COMPARED_BYTES_MAX;
    let offset = old.iter().position(is_telling)?;
    let wanted = old.get(offset)?.trim_ascii();
    let from = around.saturating_sub(COMPARED_MAX / 2);
    let candidates = text.lines.iter().enumerate().skip(from).take(COMPARED_MAX);
    let wanted = String::from_utf8_lossy(wanted);
    let ratio = |line: &[u8]| likeness::ratio(&wanted, &String::from_utf8_lossy(line.trim_ascii()));
    candidates
        .filter(|(_, line)| is_telling(&line.text))
        .map(|(at, line)| (at, ratio(line.text)))
        .filter(|(_, ratio)| *ratio >= RATIO_MIN)
        .max_by(|one, two| one.1.total_cmp(&two.1).then(two.0.cmp(&one.0)))
        .map(|(at, _)| at.saturating_sub(offset))
}

/// What differs between `old` and the lines from `start` on.
fn compare(text: &Text<'_>, old: &[&[u8]], start: usize) -> Nearest {
    let there = |offset: usize| text.lines.get(start + offset).map(|line| line.text);
    let differs = |offset: &usize| old.get(*offset).copied() != there(*offset);
    let first = (0..old.len()).find(differs).unwrap_or(0);
    Nearest {
        line: start + 1,
        equal: ((0..old.len()).filter(|offset| !differs(offset)).count(), old.len()),
        differs_at: start + first + 1,
        wanted: visible(old.get(first).copied().unwrap_or_default()),
        found: there(first).map(visible),
    }
}
