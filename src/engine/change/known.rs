//! Which lines of a changed file its caller has been shown.

use similar::DiffOp;

use crate::engine::store::session::Lines;
use crate::text::line_diff;
use crate::text::lines::{self, Common};

/// Lines on both sides together that are compared at any place; more only at the same number.
const COMPARED_MAX: u64 = 10_000;
/// Ranges of lines that a mark holds; lines beyond them count as not shown.
const RANGES_MAX: usize = 4096;

/// The lines of `after` that were shown: those of `before` that were and did not change, at their
/// new numbers, and those that the caller has put there. A line of which only a part changed is
/// known as far as the old one was.
pub fn carried_over(shown: &Lines, before: &[u8], after: &[u8]) -> Lines {
    let common = lines::common_lines(before, after);
    let Common { head, tail, one: old, other: new } = common;
    let tail_start = old - tail + 1;
    let mut known = Vec::new();
    for &(first, last) in shown.ranges() {
        known.push((first, last.min(head)));
        if last >= tail_start {
            known.push((first.max(tail_start) + new - old, last.min(old) + new - old));
        }
    }
    if shown.contain(head + 1, old - tail) {
        known.push((head + 1, new - tail));
    } else {
        known.extend(known_between(shown, (before, after), &Between::of(common)));
    }
    gathered(known)
}

/// The lines of `after` that were shown where others had changed `seen` to `before`, and the caller
/// that to `after`.
pub fn still_known(shown: &Lines, seen: &[u8], before: &[u8], after: &[u8]) -> Lines {
    let common = lines::common_lines(seen, before);
    let between = Between::of(common);
    let mut known: Vec<(u64, u64)> = moved(shown, (0, 0, common.head)).collect();
    known.extend(moved(shown, (common.one - common.tail, common.other - common.tail, common.tail)));
    if between.old_lines.saturating_add(between.new_lines) <= line_diff::LINES_MAX as u64 {
        let [old, new] = between.parts(seen, before);
        for op in line_diff::diff(&old.lines, &new.lines).ops {
            if let DiffOp::Equal { old_index, new_index, len } = op {
                known.extend(moved(shown, (old.number(old_index), new.number(new_index), len as u64)));
            }
        }
    }
    carried_over(&gathered(known), before, after)
}

/// What lies between the lines that two texts begin and end with.
#[derive(Debug, Clone, Copy)]
struct Between {
    /// Lines before it in both texts.
    skipped: u64,
    /// Lines of the old text.
    old_lines: u64,
    /// Lines of the new text.
    new_lines: u64,
}

impl Between {
    /// What is not common.
    const fn of(common: Common) -> Self {
        let Common { head, tail, one, other } = common;
        Self { skipped: head, old_lines: one - tail - head, new_lines: other - tail - head }
    }

    /// These lines of both texts.
    fn parts<'t>(&self, old: &'t [u8], new: &'t [u8]) -> [Part<'t>; 2] {
        [Part::of(old, self.skipped, self.old_lines), Part::of(new, self.skipped, self.new_lines)]
    }
}

/// Some lines of a text.
struct Part<'t> {
    /// How many come before them.
    skipped: u64,
    /// The lines, with their endings.
    lines: Vec<&'t [u8]>,
}

impl<'t> Part<'t> {
    /// So many lines after `skipped` others.
    fn of(text: &'t [u8], skipped: u64, count: u64) -> Self {
        let (skip, take) = (to_usize(skipped), to_usize(count));
        Self { skipped, lines: lines::lines(text).skip(skip).take(take).collect() }
    }

    /// How many lines of the whole text come before the one at `index`.
    const fn number(&self, index: usize) -> u64 {
        self.skipped + index as u64
    }

    /// The line `further` after the one at `at`, without its ending.
    fn line(&self, at: usize, further: u64) -> &'t [u8] {
        let line = at.checked_add(to_usize(further)).and_then(|at| self.lines.get(at));
        line.map(|line| lines::without_ending(line)).unwrap_or_default()
    }
}

/// The known lines of the new text among those that differ. Of many, only those that are the same at the
/// same number.
fn known_between(shown: &Lines, (before, after): (&[u8], &[u8]), between: &Between) -> Vec<(u64, u64)> {
    if between.old_lines.saturating_add(between.new_lines) > COMPARED_MAX {
        let is_aligned = between.old_lines == between.new_lines;
        return if is_aligned { unchanged_in_place(shown, before, after, between) } else { Vec::new() };
    }
    let [old, new] = between.parts(before, after);
    let mut known = Vec::new();
    for op in line_diff::diff(&old.lines, &new.lines).ops {
        match op {
            DiffOp::Equal { old_index, new_index, len } => {
                known.extend(moved(shown, (old.number(old_index), new.number(new_index), len as u64)));
            }
            DiffOp::Delete { .. } => {}
            DiffOp::Insert { new_index, new_len, .. } => {
                let first = new.number(new_index) + 1;
                known.push((first, first + new_len as u64 - 1));
            }
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                known.extend(replaced(shown, &old, &new, (old_index, old_len), (new_index, new_len)));
            }
        }
    }
    known
}

/// The lines shown that are the same at the same number, which is the same in both texts; the first
/// [`RANGES_MAX`] runs of them. Of the others nothing can be said: one that nobody has read may have come
/// to stand there.
fn unchanged_in_place(shown: &Lines, before: &[u8], after: &[u8], between: &Between) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    let skip = to_usize(between.skipped);
    let pairs = lines::lines(before).zip(lines::lines(after)).skip(skip).take(to_usize(between.old_lines));
    let mut ranges = shown.ranges().iter().copied().peekable();
    for (number, (old, new)) in (between.skipped + 1..).zip(pairs) {
        while ranges.next_if(|(_, last)| *last < number).is_some() {}
        let Some((first, _)) = ranges.peek() else { break };
        if number < *first || old != new {
            continue;
        }
        let is_full = runs.len() == RANGES_MAX;
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ if is_full => break,
            _ => runs.push((number, number)),
        }
    }
    runs
}

/// The known lines among those that took the place of others: all where the others were known, else
/// those that have no piece of the one whose number they have.
fn replaced(
    shown: &Lines,
    old: &Part<'_>,
    new: &Part<'_>,
    (old_at, old_len): (usize, usize),
    (new_at, new_len): (usize, usize),
) -> Vec<(u64, u64)> {
    let (first, old_first) = (new.number(new_at) + 1, old.number(old_at) + 1);
    if shown.contain(old_first, old_first + old_len as u64 - 1) {
        return vec![(first, first + new_len as u64 - 1)];
    }
    if old_len != new_len {
        return Vec::new();
    }
    let is_known = |at: &u64| {
        let was_shown = shown.contain(old_first + at, old_first + at);
        was_shown || !have_a_piece_in_common(old.line(old_at, *at), new.line(new_at, *at))
    };
    (0..new_len as u64).filter(is_known).map(|at| (first + at, first + at)).collect()
}

/// Whether two lines begin or end alike.
fn have_a_piece_in_common(one: &[u8], other: &[u8]) -> bool {
    let alike = |one: Option<&u8>, other: Option<&u8>| one.is_some() && one == other;
    alike(one.first(), other.first()) || alike(one.last(), other.last())
}

/// The lines shown among `len` that come after `old` others, at the numbers they have after `new`
/// others.
fn moved(shown: &Lines, (old, new, len): (u64, u64, u64)) -> impl Iterator<Item = (u64, u64)> {
    shown.ranges().iter().filter_map(move |&(first, last)| {
        let (first, last) = (first.max(old + 1), last.min(old + len));
        (first <= last).then(|| (first - old + new, last - old + new))
    })
}

/// Ranges in any order as lines.
fn gathered(ranges: Vec<(u64, u64)>) -> Lines {
    Lines::from_ranges(ranges, RANGES_MAX)
}

/// A number of lines, of which no text has more than memory has bytes.
fn to_usize(lines: u64) -> usize {
    usize::try_from(lines).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines shown.
    fn shown(ranges: &[(u64, u64)]) -> Lines {
        gathered(ranges.to_vec())
    }

    #[test]
    fn lines_that_others_changed_are_no_longer_known() {
        let known =
            still_known(&shown(&[(1, 4)]), b"a\nb\nc\nd\n", b"A\nb\nnew\nc\nd\n", b"A\nb\nnew\nC\nd\n");
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
            ("one two\nb\n", "new\nb\n", vec![(2, 2)], vec![(1, 2)]),
            ("one two\nb\n", "new\nnext o\nb\n", vec![(2, 2)], vec![(3, 3)]),
            ("a\nb\nc\nd\ne\n", "A\nb\nc\nd\nE\n", vec![(3, 3)], vec![(1, 1), (3, 3), (5, 5)]),
            ("a\nb\nc\nd\ne\n", "A\nx\nb\nc\nd\nE\n", vec![(3, 4)], vec![(4, 6)]),
        ] {
            let lines = carried_over(&shown(&seen), before.as_bytes(), after.as_bytes());
            assert_eq!(lines.ranges(), seen_after, "{before:?} -> {after:?}");
        }
    }

    #[test]
    fn of_millions_of_lines_that_differ_nothing_is_collected() {
        // Every second line of a hundred thousand stays: more runs than a mark holds.
        let text = |word: &str, lines: usize| -> String {
            (0..lines).map(|line| format!("{}\n", if line % 2 == 0 { "same" } else { word })).collect()
        };
        let (before, after) = (text("old", 100_000), text("new", 100_000));
        let known = carried_over(&shown(&[(3, 100_000)]), before.as_bytes(), after.as_bytes());
        // The last lines are shown as the first ones are: those that both end with are none.
        assert_eq!((known.ranges().len(), known.ranges()[0]), (RANGES_MAX, (3, 3)));
        // Few enough that they are compared in time on any machine.
        let (before, after) = (text("old", 500), text("new", 500));
        let known = still_known(&shown(&[(3, 4)]), before.as_bytes(), after.as_bytes(), after.as_bytes());
        assert_eq!(known.ranges(), [(3, 3)]);
    }

    #[test]
    fn a_line_that_moved_up_in_a_long_file_is_not_taken_for_the_one_that_was_read() {
        let lines: Vec<String> = (1..=20_000_u64)
            .map(|line| format!("{:x}\n", line.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        let before = lines.concat();
        let after = [&lines[1..19_999], &["own\n".to_owned()], &lines[19_999..]].concat().concat();
        assert_eq!(carried_over(&Lines::default(), before.as_bytes(), after.as_bytes()).ranges(), []);
    }

    #[test]
    fn far_apart_in_a_long_file_only_what_was_shown_is_known() {
        let text = |word: &str| -> String {
            (1..=20_000)
                .map(|line| if line % 5000 == 0 { format!("{word} {line}\n") } else { "-\n".to_owned() })
                .collect()
        };
        let known = carried_over(&shown(&[(4999, 5001)]), text("old").as_bytes(), text("new").as_bytes());
        assert_eq!(known.ranges(), [(4999, 4999), (5001, 5001)]);
    }
}
