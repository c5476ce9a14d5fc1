//! Read record of one file in a session: shown lines, the numbers they were shown under, and their present numbers.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::control::seconds_now;
use crate::engine::workspace::path::WorkspacePath;
use crate::sha256::Sha256;
use crate::text::replaced_lines::{self, ReplacedLines};

/// Most earlier versions of a file whose shown lines are kept.
const EARLIER_MAX: usize = 6;
/// Most earlier versions that are compared with the present one.
const COMPARED_MAX: usize = 3;
/// Most places of a change through which numbers are followed back.
const FOLLOWED_PLACES_MAX: usize = 64;

/// Lines of a file that a session has read, with the file's SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRecord {
    /// Canonical path, so that two names of one file share a mark.
    pub path: WorkspacePath,
    /// SHA-256 of the bytes seen.
    pub sha256: Sha256,
    /// Number of bytes seen.
    pub size: u64,
    /// Shown lines.
    #[serde(default)]
    pub lines: LineSet,
    /// Numbers under which lines were shown, if their present numbers differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<LineNumbers>,
    /// Shown lines of earlier versions, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierVersion>,
    /// Time of the read, in seconds since 1970.
    pub time: u64,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Shown lines of an earlier version of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierVersion {
    /// SHA-256 of its bytes.
    pub sha256: Sha256,
    /// Numbers under which its lines were shown.
    pub numbers: LineNumbers,
    /// Lines of it that the session knew.
    #[serde(default, skip_serializing_if = "LineSet::is_empty")]
    pub lines: LineSet,
    /// Lines that the session's change to the next version replaced, which took over the numbers; `None` if others changed
    /// it.
    #[serde(default, deserialize_with = "possible", skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Vec<ReplacedLines>>,
}

/// Reads replaced lines from a state file, which anybody may have written; `None` for numbers that no file has.
fn possible<'de, D: Deserializer<'de>>(stored: D) -> Result<Option<Vec<ReplacedLines>>, D::Error> {
    let is_of_file = |part: &ReplacedLines| {
        (1..=LINE_MAX).contains(&part.first) && part.old_lines <= LINE_MAX && part.new_lines <= LINE_MAX
    };
    let replaced = Option::<Vec<ReplacedLines>>::deserialize(stored)?;
    Ok(replaced.filter(|all| all.len() <= RUNS_MAX && all.iter().all(is_of_file)))
}

impl ReadRecord {
    /// Returns a mark with the present time, for bytes whose lines were all seen.
    pub fn of_everything(path: WorkspacePath, sha256: Sha256, size: u64, total_lines: u64) -> Self {
        let (lines, time) = (LineSet::up_to(total_lines), seconds_now());
        Self { path, sha256, size, lines, numbers: None, earlier: Vec::new(), time, other: Map::new() }
    }

    /// Returns the numbers under which its lines were shown, with their present numbers.
    pub fn numbers(&self) -> LineNumbers {
        self.numbers.clone().unwrap_or_else(|| LineNumbers::of_ranges(self.lines.ranges()))
    }

    /// Returns the earlier versions whose numbers no later one has taken over, newest first.
    pub fn compared(&self) -> impl Iterator<Item = &EarlierVersion> {
        self.earlier.iter().filter(|version| version.replaced.is_none())
    }

    /// Returns the versions whose bytes are needed to compare them with a later one, newest first.
    pub fn versions(&self) -> impl Iterator<Item = Sha256> {
        std::iter::once(self.sha256).chain(self.compared().map(|version| version.sha256))
    }

    /// Returns the lines of an earlier version that the session knew, if it is this one again.
    pub fn lines_of(&self, sha256: Sha256) -> Option<&LineSet> {
        self.earlier.iter().find(|version| version.sha256 == sha256).map(|version| &version.lines)
    }

    /// Returns the numbers in an earlier version, followed back through the session's own changes since. A comparison of
    /// the texts could mistake one of several equal lines for another.
    pub fn numbers_in_earlier(&self, sha256: Sha256) -> Option<LineNumbers> {
        let mut numbers = self.numbers();
        for version in &self.earlier {
            let since = numbers.after(&reversed(version.replaced.as_ref()?)?);
            numbers = version.numbers.clone();
            // Those shown since then override those shown before.
            since.runs.iter().for_each(|run| numbers.put(*run));
            if version.sha256 == sha256 {
                return Some(numbers);
            }
        }
        None
    }

    /// Returns true if the lines `first` to `last` were shown under their present numbers.
    pub fn shows(&self, first: u64, last: u64) -> bool {
        let is_shown = |numbers: &LineNumbers| (first..=last).all(|line| numbers.now(line) == Some(line));
        self.lines.contain(first, last) && self.numbers.as_ref().is_none_or(is_shown)
    }

    /// Adds shown lines of the same bytes.
    pub(super) fn show(&mut self, lines: &LineSet) {
        if let Some(numbers) = &mut self.numbers {
            lines.ranges().iter().for_each(|&(first, last)| numbers.show(first, last));
        }
        lines.ranges().iter().for_each(|&(first, last)| self.lines.add(first, last));
    }

    /// Returns the shown lines of this version and of earlier ones, for the mark of a newer version by others.
    pub fn shown_before_foreign_change(&self) -> Vec<EarlierVersion> {
        let mut all = self.before(None, &self.earlier);
        all.truncate(EARLIER_MAX);
        all
    }

    /// Returns the shown lines of this version and of those before it, for the mark of the session's own next version.
    pub fn shown_before_own_change(&self, replaced: &[ReplacedLines]) -> Vec<EarlierVersion> {
        if replaced.len() > FOLLOWED_PLACES_MAX {
            return Vec::new();
        }
        // The new version takes over all numbers: versions of others need not be compared any more.
        let own = self.earlier.iter().take_while(|version| version.replaced.is_some()).count();
        let mut all = self.before(Some(replaced.to_vec()), self.earlier.get(..own).unwrap_or_default());
        if all.len() > EARLIER_MAX {
            // The newest may come back by a few undos, the oldest are those that were read.
            let gone = all.remove(EARLIER_MAX / 2);
            if let Some(elder) = all.get_mut(EARLIER_MAX / 2) {
                let changes = elder.replaced.as_deref().zip(gone.replaced.as_deref());
                elder.replaced = changes.map(|(first, second)| replaced_lines::combine(first, second));
            }
        }
        all
    }

    /// Returns this version and earlier ones, as far as they are kept.
    fn before(
        &self,
        replaced: Option<Vec<ReplacedLines>>,
        earlier: &[EarlierVersion],
    ) -> Vec<EarlierVersion> {
        let (sha256, numbers, lines) = (self.sha256, self.numbers(), self.lines.clone());
        let this = EarlierVersion { sha256, numbers, lines, replaced };
        let mut compared = 0;
        let is_kept = |version: &EarlierVersion| {
            compared += usize::from(version.replaced.is_none());
            version.replaced.is_some() || compared <= COMPARED_MAX
        };
        std::iter::once(this).chain(earlier.iter().cloned()).filter(is_kept).collect()
    }
}

/// Returns the lines that the reverse of a change replaces; `None` if the change makes no sense.
fn reversed(replaced: &[ReplacedLines]) -> Option<Vec<ReplacedLines>> {
    let (mut lost, mut gained) = (0, 0);
    let of_part = |part: &ReplacedLines| {
        let ReplacedLines { first, old_lines, new_lines } = *part;
        let first = (first + gained).checked_sub(lost)?;
        (lost, gained) = (lost + old_lines, gained + new_lines);
        Some(ReplacedLines { first, old_lines: new_lines, new_lines: old_lines })
    };
    replaced.iter().map(of_part).collect()
}

/// Shown lines of a file, as sorted inclusive ranges of line numbers from 1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineSet(Vec<(u64, u64)>);

impl LineSet {
    /// Returns lines 1 to `last`; none if `last` is 0.
    pub fn up_to(last: u64) -> Self {
        let mut lines = Self::default();
        lines.add(1, last);
        lines
    }

    /// Adds lines `first` to `last`, inclusive; nothing if `first` is after `last`.
    pub fn add(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        let mut ranges = std::mem::take(&mut self.0);
        ranges.push((first, last));
        *self = Self::from_ranges(ranges, usize::MAX);
    }

    /// Returns those of the lines that lie from `first` to `last`.
    #[must_use]
    pub fn within(self, first: u64, last: u64) -> Self {
        let cut = |(from, to): (u64, u64)| (from.max(first), to.min(last));
        Self::from_ranges(self.0.into_iter().map(cut).collect(), usize::MAX)
    }

    /// Returns the lines of unsorted ranges, without empty ones; keeps the first `ranges_max` after joining.
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
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if all lines from 1 to `last` were shown.
    pub fn cover(&self, last: u64) -> bool {
        self.contain(1, last)
    }

    /// Returns true if all lines from `first` to `last` were shown.
    pub fn contain(&self, first: u64, last: u64) -> bool {
        // The ranges ascend and do not touch, so a single one must contain all.
        let after = self.0.partition_point(|&(from, _)| from <= first);
        let holder = after.checked_sub(1).and_then(|at| self.0.get(at));
        first > last || holder.is_some_and(|&(_, to)| to >= last)
    }

    /// Returns the lines from `first` to `last` that were not shown, as sorted ranges.
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

    /// Returns the ranges by value.
    pub(super) fn into_ranges(self) -> Vec<(u64, u64)> {
        self.0
    }

    /// Returns the ranges.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.0
    }
}

/// Largest line number: lbx changes no file with more bytes.
const LINE_MAX: u64 = 1 << 40;
/// Most runs that are kept for a file.
const RUNS_MAX: usize = 1024;

/// Consecutive lines that were shown under consecutive numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct LineRun {
    /// Number under which the first was shown.
    shown: u64,
    /// Present number of the first.
    now: u64,
    /// Number of lines.
    lines: u64,
}

/// Numbers of shown lines, then and now. A number refers to the line that was last shown under it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredNumbers")]
pub struct LineNumbers {
    /// Lines that still exist, by the numbers under which they were shown.
    runs: Vec<LineRun>,
    /// Numbers under which lines were shown that no longer exist.
    #[serde(default, skip_serializing_if = "LineSet::is_empty")]
    gone: LineSet,
}

/// Numbers as read from a state file, which anybody may have written.
#[derive(Deserialize)]
struct StoredNumbers {
    /// As in [`Numbers`].
    runs: Vec<LineRun>,
    /// As in [`Numbers`].
    #[serde(default)]
    gone: LineSet,
}

impl From<StoredNumbers> for LineNumbers {
    /// Keeps only the valid runs: within a file, sorted and disjoint.
    fn from(StoredNumbers { runs, gone }: StoredNumbers) -> Self {
        let mut numbers = Self { runs: Vec::new(), gone };
        let is_of_file = |number: u64| (1..=LINE_MAX).contains(&number);
        for run in runs.into_iter().take(RUNS_MAX) {
            let behind = numbers.runs.last().map_or(1, |last| last.shown + last.lines);
            if run.shown >= behind && [run.shown, run.now, run.lines].into_iter().all(is_of_file) {
                numbers.runs.push(run);
            }
        }
        numbers
    }
}

impl LineNumbers {
    /// Returns lines whose numbers have not changed.
    pub fn of_ranges(ranges: &[(u64, u64)]) -> Self {
        let mut numbers = Self::default();
        ranges.iter().for_each(|&(first, last)| numbers.show(first, last));
        numbers
    }

    /// Notes that the lines `first` to `last` are shown under their present numbers.
    pub fn show(&mut self, first: u64, last: u64) {
        let last = last.min(LINE_MAX);
        if first <= last {
            self.put(LineRun { shown: first, now: first, lines: last - first + 1 });
        }
    }

    /// Returns the present number of the line that was shown under a number.
    pub fn now(&self, shown: u64) -> Option<u64> {
        let after = self.runs.partition_point(|run| run.shown <= shown);
        let run = self.runs.get(after.checked_sub(1)?)?;
        let further = shown - run.shown;
        (further < run.lines).then(|| run.now + further)
    }

    /// Returns true if a line was ever shown under this number.
    pub fn has(&self, shown: u64) -> bool {
        self.now(shown).is_some() || self.gone.contain(shown, shown)
    }

    /// Updates the numbers after a change that replaced these lines, given in order.
    #[must_use]
    pub fn after(&self, replaced: &[ReplacedLines]) -> Self {
        let (mut runs, mut gone) = (Vec::new(), self.gone.ranges().to_vec());
        for run in &self.runs {
            // Each stretch between two replacements keeps its lines.
            let (mut first, end) = (run.now, run.now + run.lines);
            let mut shift = (0_u64, 0_u64);
            for part in replaced {
                let kept_end = part.first.min(end);
                if first < kept_end {
                    runs.extend(moved(run, first, kept_end, shift));
                }
                let (lost, lost_end) = (part.first.max(first), (part.first + part.old_lines).min(end));
                if lost < lost_end {
                    gone.push((run.shown + (lost - run.now), run.shown + (lost_end - run.now) - 1));
                }
                first = first.max(part.first + part.old_lines);
                shift = (shift.0 + part.old_lines, shift.1 + part.new_lines);
            }
            if first < end {
                runs.extend(moved(run, first, end, shift));
            }
        }
        runs.truncate(RUNS_MAX);
        let gone = LineSet::from_ranges(gone, RUNS_MAX);
        Self { runs: joined(runs), gone }
    }

    /// Adds the numbers of another list that this one does not have.
    pub fn add_missing(&mut self, other: &Self) {
        let mut all = other.clone();
        // The line last shown under such a number is gone: the one shown before is not meant.
        self.gone.ranges().iter().for_each(|&(first, last)| all.forget(first, last));
        all.gone = LineSet::from_ranges([self.gone.ranges(), all.gone.ranges()].concat(), RUNS_MAX);
        self.runs.iter().for_each(|run| all.put(*run));
        *self = all;
    }

    /// Returns true if no line was ever shown.
    pub const fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.gone.is_empty()
    }

    /// Adds a run; its numbers lose their earlier meaning.
    fn put(&mut self, new: LineRun) {
        self.forget(new.shown, new.shown + new.lines - 1);
        let mut runs = std::mem::take(&mut self.runs);
        runs.push(new);
        runs.sort_unstable();
        runs.truncate(RUNS_MAX);
        self.runs = joined(runs);
    }

    /// Removes the lines that were shown as `first` to `last`.
    fn forget(&mut self, first: u64, last: u64) {
        let mut runs = Vec::with_capacity(self.runs.len() + 2);
        for run in std::mem::take(&mut self.runs) {
            if run.shown < first {
                runs.push(LineRun { lines: run.lines.min(first - run.shown), ..run });
            }
            let skipped = last.saturating_add(1).saturating_sub(run.shown);
            if skipped < run.lines {
                let (shown, now) = (run.shown + skipped, run.now + skipped);
                runs.push(LineRun { shown, now, lines: run.lines - skipped });
            }
        }
        self.runs = runs;
    }
}

/// Returns the lines of a run from `first` until before `end`, after earlier lines lost and gained that many.
fn moved(run: &LineRun, first: u64, end: u64, (lost, gained): (u64, u64)) -> Option<LineRun> {
    let shown = run.shown + (first - run.now);
    let now = (first + gained).checked_sub(lost)?;
    Some(LineRun { shown, now, lines: end - first })
}

/// Returns the runs in order, with adjoining ones joined.
fn joined(runs: Vec<LineRun>) -> Vec<LineRun> {
    let mut all: Vec<LineRun> = Vec::with_capacity(runs.len());
    for run in runs {
        match all.last_mut() {
            Some(last) if last.shown + last.lines == run.shown && last.now + last.lines == run.now => {
                last.lines += run.lines;
            }
            _ => all.push(run),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_shown_ranges_are_merged() {
        let mut lines = LineSet::default();
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
        assert!(LineSet::default().cover(0));
    }

    fn replaced(first: u64, old_lines: u64, new_lines: u64) -> ReplacedLines {
        ReplacedLines { first, old_lines, new_lines }
    }

    #[test]
    fn huge_line_numbers_in_a_state_file_are_harmless() {
        let stored = r#"{"runs": [
            {"shown": 18446744073709551615, "now": 18446744073709551615, "lines": 18446744073709551615},
            {"shown": 3, "now": 4, "lines": 2}, {"shown": 4, "now": 1, "lines": 1}, {"shown": 0, "now": 0, "lines": 0}
        ]}"#;
        let numbers: LineNumbers = serde_json::from_str(stored).unwrap();
        assert_eq!((numbers.now(3), numbers.now(4), numbers.now(5)), (Some(4), Some(5), None));
        assert_eq!(numbers.after(&[replaced(1, 0, 1)]).now(4), Some(6));
        for (first, is_possible) in [("7", true), ("0", false), ("18446744073709551615", false)] {
            let stored = format!(
                r#"{{"sha256": "{}", "numbers": {{"runs": []}}, "replaced": [{{"first": {first}, "old_lines": 1, "new_lines": 0}}]}}"#,
                "0".repeat(64)
            );
            let version: EarlierVersion = serde_json::from_str(&stored).unwrap();
            assert_eq!(version.replaced.is_some(), is_possible, "{first}");
        }
    }

    #[test]
    fn number_of_a_deleted_line_is_not_that_of_a_line_shown_before() {
        let mut newer = LineNumbers::of_ranges(&[(20, 21)]).after(&[replaced(20, 1, 0)]);
        newer.add_missing(&LineNumbers::of_ranges(&[(19, 22)]).after(&[replaced(1, 0, 4)]));
        let now = [19, 20, 21, 22].map(|line| newer.now(line));
        assert_eq!((now, newer.has(20)), ([Some(23), None, Some(20), Some(26)], true));
    }

    #[test]
    fn line_number_refers_to_the_line_last_shown_with_it() {
        let mut numbers = LineNumbers::of_ranges(&[(1, 10)]);
        // Insert two lines before line 4, delete lines 6 and 7.
        numbers = numbers.after(&[replaced(4, 0, 2), replaced(6, 2, 0)]);
        let now = |numbers: &LineNumbers| (1..=10).map(|line| numbers.now(line)).collect::<Vec<_>>();
        let places = [1, 2, 3, 6, 7, 0, 0, 8, 9, 10].map(|line| Some(line).filter(|line| *line > 0));
        assert_eq!(now(&numbers), places);
        // A line shown again counts by its present number; the others stay.
        numbers.show(5, 6);
        assert_eq!(numbers.now(4), Some(6));
        assert_eq!((numbers.now(5), numbers.now(6), numbers.now(7)), (Some(5), Some(6), None));
        assert_eq!(numbers.now(8), Some(8));
        let mut newer = LineNumbers::of_ranges(&[(8, 8), (20, 21)]).after(&[replaced(1, 0, 5)]);
        newer.add_missing(&numbers);
        assert_eq!((newer.now(8), newer.now(4), newer.now(21)), (Some(13), Some(6), Some(26)));
    }
}
