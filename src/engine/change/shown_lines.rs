//! Lines of a file that a session was shown, with their numbers, mapped from one version of the file to the next.

use std::collections::BTreeMap;

use similar::DiffOp;

use super::Change;
use super::open::LockedFile;
use super::plan::{CallerKnowledge, FilePlan, TargetState};
use crate::engine::store::session::{self, LineNumbers, LineSet, ReadRecord};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::limits::{DIFFED_LINES_MAX, FORMER_FILES_MAX, MARK_RANGES_MAX};
use crate::sha256::Sha256;
use crate::text::content::body_of;
use crate::text::line_diff;
use crate::text::lines::{self, CommonLines};
use crate::text::replaced_lines::{self, ReplacedLines};

/// Read marks of the files after a change.
#[derive(Default)]
pub struct ReadRecords {
    /// Read records to set.
    pub set: Vec<ReadRecord>,
    /// Paths whose marks are removed.
    pub forgotten: Vec<WorkspacePath>,
}

/// Returns the shown lines of `after`: shown lines of `before`, at their new numbers, and lines that the caller has
/// written. `replaced` are the lines that it replaced, if they are known for certain: a comparison takes a block that
/// moves for one that stays, and the unread lines that it passes for new ones.
///
/// New lines count as written if they replace none, or only shown ones. The others may have parts of the old ones.
pub(super) fn shown_after_change(
    shown: &LineSet,
    before: &[u8],
    after: &[u8],
    replaced: Option<&[ReplacedLines]>,
) -> LineSet {
    let common = lines::common_lines(before, after);
    let CommonLines { head, tail, one, other } = common;
    let whole =
        [ReplacedLines { first: head + 1, old_lines: one - head - tail, new_lines: other - head - tail }];
    let (mut known, mut old, mut new) = (Vec::new(), 0, 0);
    for part in replaced.unwrap_or(&whole) {
        let kept = part.first.saturating_sub(old + 1);
        known.extend(moved(shown, (old, new, kept)));
        (old, new) = (old + kept, new + kept);
        if shown.contain(old + 1, old + part.old_lines) {
            known.push((new + 1, new + part.new_lines));
        } else if replaced.is_none() {
            known.extend(equal_between(shown, common, before, after));
        }
        (old, new) = (old + part.old_lines, new + part.new_lines);
    }
    known.extend(moved(shown, (old, new, one.saturating_sub(old))));
    gathered(known)
}

/// Returns the shown lines of `after`, if others had changed `seen` to `before`, and the caller changed that to
/// `after`.
pub(super) fn still_known(
    shown: &LineSet,
    seen: &[u8],
    (before, after): (&[u8], &[u8]),
    replaced: Option<&[ReplacedLines]>,
) -> LineSet {
    let common = lines::common_lines(seen, before);
    let mut known: Vec<(u64, u64)> = moved(shown, (0, 0, common.head)).collect();
    known.extend(moved(shown, (common.one - common.tail, common.other - common.tail, common.tail)));
    known.extend(equal_between(shown, common, seen, before));
    shown_after_change(&gathered(known), before, after, replaced)
}

/// Returns the shown lines that are equal in the middle of two texts; none of too long ones.
fn equal_between(shown: &LineSet, common: CommonLines, before: &[u8], after: &[u8]) -> Vec<(u64, u64)> {
    let Some(middle) = Middle::of(common, before, after) else { return Vec::new() };
    let equal = line_diff::diff(&middle.old, &middle.new).ops.into_iter().filter_map(|op| match op {
        DiffOp::Equal { old_index, new_index, len } => {
            Some((middle.number(old_index), middle.number(new_index), len as u64))
        }
        _ => None,
    });
    equal.flat_map(|same| moved(shown, same)).collect()
}

/// Lines between the common start and end of two texts.
struct Middle<'t> {
    /// Number of lines before them in both texts.
    skipped: u64,
    /// Lines of the old text, with their endings.
    old: Vec<&'t [u8]>,
    /// Lines of the new text.
    new: Vec<&'t [u8]>,
}

impl<'t> Middle<'t> {
    /// Returns the lines that are not common; `None` if there are too many to compare them.
    fn of(common: CommonLines, before: &'t [u8], after: &'t [u8]) -> Option<Self> {
        let CommonLines { head, tail, one, other } = common;
        let count = |lines: u64| lines - tail - head;
        let lines = |text, all| {
            lines::lines(text).skip(to_usize(head)).take(to_usize(count(all))).collect::<Vec<_>>()
        };
        let is_small = count(one).saturating_add(count(other)) <= DIFFED_LINES_MAX as u64;
        is_small.then(|| Self { skipped: head, old: lines(before, one), new: lines(after, other) })
    }

    /// Returns how many lines of a whole text precede the one at `index`.
    const fn number(&self, index: usize) -> u64 {
        self.skipped + index as u64
    }
}

/// Returns the shown lines among `len` lines that follow `old` others, renumbered to follow `new` others.
fn moved(shown: &LineSet, (old, new, len): (u64, u64, u64)) -> impl Iterator<Item = (u64, u64)> {
    shown.ranges().iter().filter_map(move |&(first, last)| {
        let (first, last) = (first.max(old + 1), last.min(old + len));
        (first <= last).then(|| (first - old + new, last - old + new))
    })
}

/// Returns unsorted ranges as lines.
fn gathered(ranges: Vec<(u64, u64)>) -> LineSet {
    LineSet::from_ranges(ranges, MARK_RANGES_MAX)
}

/// Converts a number of lines, which is never more than memory has bytes.
fn to_usize(lines: u64) -> usize {
    usize::try_from(lines).unwrap_or(usize::MAX)
}

/// Earlier versions of files, by SHA-256.
pub type EarlierBytes = BTreeMap<Sha256, Vec<u8>>;

/// Maps the shown line numbers of a mark to the version `sha256` with the text `body`.
pub fn numbers_in(mark: &ReadRecord, sha256: Sha256, body: &[u8], earlier: &EarlierBytes) -> LineNumbers {
    let mut all = LineNumbers::default();
    let (followed, newest) = match mark.numbers_in_earlier(sha256).filter(|_| mark.sha256 != sha256) {
        Some(numbers) => (sha256, numbers),
        None => (mark.sha256, mark.numbers()),
    };
    let older = mark.compared().map(|version| (version.sha256, version.numbers.clone()));
    for (version, numbers) in std::iter::once((followed, newest)).chain(older) {
        if version == sha256 {
            all.add_missing(&numbers);
        } else if let Some(bytes) = earlier.get(&version) {
            all.add_missing(&numbers.after(&replaced_lines::compared(&body_of(bytes), body)));
        }
    }
    all
}

/// Reason why lines are not found by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineNotFound {
    /// The session was never shown this line.
    NeverShown(u64),
    /// Some of them changed since; first and last of the present lines around them.
    Changed(u64, u64),
}

/// Lines of a file that a session was shown, with their present numbers.
pub struct ShownLines {
    /// Present numbers of the lines that still exist.
    numbers: LineNumbers,
    /// Numbers of each version that was shown.
    ever: Vec<LineNumbers>,
    /// Lines of the present file that the caller knows, if the file is unchanged.
    known: Option<LineSet>,
    /// True if no line was shown and the caller wrote all that it knows.
    is_own: bool,
    /// Number of lines in the file.
    total: u64,
}

impl ShownLines {
    /// Returns the present numbers of the lines that were shown as `first` to `last`.
    ///
    /// # Errors
    /// Fails if one of them was never shown, no longer exists, or is separate from the others.
    pub fn now(&self, first: u64, last: u64) -> Result<(u64, u64), LineNotFound> {
        if self.is_own && self.knows(first, last) {
            // The caller wrote all of it and was shown nothing, so it means present numbers.
            return Ok((first, last));
        }
        let mut found: Option<(u64, u64)> = None;
        for line in first..=last {
            let now = self.numbers.now(line);
            if now.is_none() && !self.ever.iter().any(|numbers| numbers.has(line)) {
                return Err(LineNotFound::NeverShown(line));
            }
            found = match (found, now) {
                (None, Some(now)) => Some((now, now)),
                (Some((from, to)), Some(now)) if now == to + 1 => Some((from, now)),
                _ => return Err(lines_around(&self.numbers, first, last, self.total)),
            };
        }
        found.ok_or(LineNotFound::NeverShown(first))
    }

    /// Returns the present line after which to insert something that was meant to follow the line shown as `line`; 0 is
    /// the start.
    ///
    /// One of the two adjacent lines must still exist. Both must have been shown, if there are two.
    ///
    /// # Errors
    /// Fails if both lines changed, or if one was never shown.
    pub fn insertion_point(&self, line: u64) -> Result<u64, LineNotFound> {
        let next = line.saturating_add(1);
        let after = self.now(next, next).map(|(after, _)| after);
        let before = if line == 0 { Ok(0) } else { self.now(line, line).map(|(at, _)| at) };
        let is_stale = self.known.is_none();
        match (before, after) {
            // At the start, the next line is the only evidence, and others have changed it.
            (Ok(0), Err(why @ LineNotFound::Changed(..))) if is_stale => Err(why),
            (Ok(at), Err(LineNotFound::NeverShown(_))) if at > 0 && at < self.total && is_stale => {
                Err(LineNotFound::Changed(at, at + 1))
            }
            // The caller knows the lines that it wrote.
            (Ok(at), Err(why @ LineNotFound::NeverShown(_)))
                if at > 0 && at < self.total && !self.knows(at + 1, at + 1) =>
            {
                Err(why)
            }
            (Ok(at), _) => Ok(at),
            (Err(LineNotFound::Changed(..)), Ok(after)) => Ok(after.saturating_sub(1)),
            // The caller itself changed both lines, so it means its own result, if the lines before did not move.
            (Err(LineNotFound::Changed(..)), Err(_))
                if !is_stale && line <= self.total && !self.moved_before(line) =>
            {
                Ok(line)
            }
            (Err(why), _) => Err(why),
        }
    }

    /// Returns true if the nearest unchanged line before `line` has another number now.
    fn moved_before(&self, line: u64) -> bool {
        /// Most lines that are looked at: nobody replaces more and then counts in the result.
        const LINES_MAX: usize = 200;
        let now = |earlier: u64| self.now(earlier, earlier).ok().map(|(at, _)| at != earlier);
        (1..line).rev().take(LINES_MAX).find_map(now).unwrap_or(false)
    }

    /// Returns true if no line was shown and the caller wrote all that it knows.
    pub const fn is_own(&self) -> bool {
        self.is_own
    }

    /// Returns true if the caller knows these lines of the present file.
    fn knows(&self, first: u64, last: u64) -> bool {
        self.known.as_ref().is_some_and(|known| known.contain(first, last))
    }
}

impl Change<'_> {
    /// Returns the lines of a file that the session was shown, or `None` if it knows nothing of the file.
    pub fn shown_lines(&self, current: &LockedFile) -> Option<ShownLines> {
        let mark = self.mark(current.place().path())?;
        let mut earlier = EarlierBytes::new();
        if let Some(state) = &self.state {
            self.read_earlier_versions(state, &mark, current, &mut earlier);
        }
        let body = body_of(current.bytes());
        let newest = mark.numbers();
        let is_own = newest.is_empty();
        let older = mark.earlier.iter().map(|version| version.numbers.clone());
        Some(ShownLines {
            numbers: numbers_in(&mark, current.sha256(), &body, &earlier),
            ever: std::iter::once(newest).chain(older).collect(),
            known: (mark.sha256 == current.sha256()).then(|| mark.lines.clone()),
            is_own,
            total: lines::count(&body),
        })
    }

    /// Reads earlier versions that a mark lists and that differ from the present one.
    fn read_earlier_versions(
        &self,
        state: &State,
        mark: &ReadRecord,
        current: &LockedFile,
        earlier: &mut EarlierBytes,
    ) {
        for sha256 in mark.versions().filter(|sha256| *sha256 != current.sha256()) {
            if !earlier.contains_key(&sha256)
                && let Some(bytes) = self.version_shown(state, current.place().path(), sha256)
            {
                earlier.insert(sha256, bytes);
            }
        }
    }

    /// Returns the bytes of a file as the session was shown them, from a backup, the snapshots or a copy.
    pub(super) fn version_shown(
        &self,
        state: &State,
        path: &WorkspacePath,
        sha256: Sha256,
    ) -> Option<Vec<u8>> {
        self.engine.find_version(state, path, sha256).or_else(|| session::find_shown(state, sha256))
    }

    /// Returns the earlier versions of the changed files that are needed to map line numbers.
    pub(super) fn earlier_bytes(&self, state: &State) -> EarlierBytes {
        let mut earlier = EarlierBytes::new();
        let keeps_lines = |after: &TargetState| match after.known {
            CallerKnowledge::ChangedLines
            | CallerKnowledge::ChangedSince(_)
            | CallerKnowledge::UnchangedLines => true,
            CallerKnowledge::Everything | CallerKnowledge::Nothing => false,
        };
        let files = self.files.iter().filter(|file| file.after.as_ref().is_some_and(keeps_lines));
        for FilePlan { seen, .. } in files.take(FORMER_FILES_MAX) {
            if let Some(mark) = self.mark(seen.current.place.path()) {
                self.read_earlier_versions(state, &mark, &seen.current, &mut earlier);
            }
        }
        earlier
    }
}

/// Returns the present lines around changed lines: from the nearest one before that still exists to the nearest one
/// after.
fn lines_around(numbers: &LineNumbers, first: u64, last: u64, total: u64) -> LineNotFound {
    /// Most lines that are searched in each direction.
    const FAR: u64 = 200;
    let before = (first.saturating_sub(FAR).max(1)..first).rev().find_map(|line| numbers.now(line));
    let after = (last..=last.saturating_add(FAR)).skip(1).find_map(|line| numbers.now(line));
    let from = before.unwrap_or(1).clamp(1, total.max(1));
    LineNotFound::Changed(
        from,
        after
            .unwrap_or_else(|| from.saturating_add(last - first).saturating_add(1))
            .clamp(from, total.max(1)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns shown lines.
    fn shown(ranges: &[(u64, u64)]) -> LineSet {
        gathered(ranges.to_vec())
    }

    #[test]
    fn lines_changed_by_another_program_are_no_longer_shown() {
        let known = still_known(
            &shown(&[(1, 4)]),
            b"a\nb\nc\nd\n",
            (b"A\nb\nnew\nc\nd\n", b"A\nb\nnew\nC\nd\n"),
            None,
        );
        assert_eq!(known.ranges(), [(2, 2), (4, 5)]);
    }

    #[test]
    fn shown_lines_move_with_the_text() {
        for (before, after, seen, seen_after) in [
            ("a\nb\nc\nd\n", "a\nB\nc\nd\n", vec![(2, 2)], vec![(2, 2)]),
            ("a\nb\nc\nd\n", "a\nx\ny\nb\nc\nd\n", vec![(1, 1), (4, 4)], vec![(1, 3), (6, 6)]),
            ("a\nb\nc\nd\n", "a\nd\n", vec![(1, 4)], vec![(1, 2)]),
            ("a\n", "a\nb\n", vec![(1, 1)], vec![(1, 2)]),
            ("a\nb\n", "", vec![(1, 2)], vec![]),
            ("one two\nb\n", "one 2\nb\n", vec![(2, 2)], vec![(2, 2)]),
            ("one two\nb\n", "1 two\nb\n", vec![(2, 2)], vec![(2, 2)]),
            ("one two\nb\n", "new\nb\n", vec![(2, 2)], vec![(2, 2)]),
            ("one two\nb\n", "new\nnext o\nb\n", vec![(2, 2)], vec![(3, 3)]),
            ("a\nb\nc\nd\ne\n", "A\nb\nc\nd\nE\n", vec![(3, 3)], vec![(3, 3)]),
            ("a\nb\nc\nd\ne\n", "A\nx\nb\nc\nd\nE\n", vec![(3, 4)], vec![(4, 5)]),
        ] {
            let lines = shown_after_change(&shown(&seen), before.as_bytes(), after.as_bytes(), None);
            assert_eq!(lines.ranges(), seen_after, "{before:?} -> {after:?}");
        }
    }

    #[test]
    fn block_that_moves_above_unread_lines_does_not_show_them() {
        let (before, after) = (b"top\ns1\ns2\nf1\nf2\nf3\nend\n", b"top\nf1\nf2\nf3\ns1\ns2\nend\n");
        let replaced = [
            ReplacedLines { first: 2, old_lines: 0, new_lines: 3 },
            ReplacedLines { first: 4, old_lines: 3, new_lines: 0 },
        ];
        let known = shown_after_change(&shown(&[(1, 1), (4, 7)]), before, after, Some(&replaced));
        assert_eq!(known.ranges(), [(1, 4), (7, 7)]);
        // By a comparison alone, no new line counts next to old ones that were not shown.
        let known = shown_after_change(&shown(&[(1, 1), (4, 7)]), before, after, None);
        assert!(!known.contain(5, 5) && !known.contain(6, 6), "{known:?}");
    }
}
