//! Three-way merge by lines: combines two changes of one text.

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::DiffOp;

use crate::error::{Error, ErrorKind};
use crate::text::checked::peek;
use crate::text::line_diff::LineDiff;
use crate::text::{line_diff, lines};

/// Reason why two changes cannot be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// Both change the same lines, or adjacent ones.
    SameLines,
    /// The texts are too large to be compared in time.
    TooMuch,
}

/// Policy for a change that both sides made in the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alike {
    /// It is applied once.
    Once,
    /// It is a conflict: each may have been meant in addition to the other.
    Conflict,
}

/// One change of a side: lines of the base, and the lines that replace them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SideChange {
    /// Lines of the base.
    base: Range<usize>,
    /// Lines of this side.
    new: Range<usize>,
}

impl SideChange {
    /// Returns true if two changes touch: they share lines, or have none between them.
    fn touches(&self, other: &Self) -> bool {
        self.base.start <= other.base.end && other.base.start <= self.base.end
    }
}

/// Returns `base` with the changes of both `one` and `other`.
///
/// # Errors
/// Fails with a [`Conflict`] if the changes touch, or if the texts are too large.
pub fn merge(base: &[u8], one: &[u8], other: &[u8], alike: Alike) -> Result<Vec<u8>, Conflict> {
    if [base, one, other].iter().map(|text| lines::count(text)).sum::<u64>() > 2 * line_diff::LINES_MAX as u64
    {
        return Err(Conflict::TooMuch);
    }
    let split = |text| lines::all(text);
    let (base_lines, one_lines, other_lines) = (split(base), split(one), split(other));
    let (ones, others) = (changes(&base_lines, &one_lines)?, changes(&base_lines, &other_lines)?);
    let (mut ones, mut others) = (ones.iter().peekable(), others.iter().peekable());
    let mut merged = Vec::with_capacity(one.len().max(other.len()));
    let mut at = 0;
    loop {
        let (change, of) = match (ones.peek(), others.peek()) {
            (None, None) => break,
            (Some(mine), Some(theirs)) if mine.touches(theirs) => {
                let same = mine.base == theirs.base
                    && one_lines.get(mine.new.clone()) == other_lines.get(theirs.new.clone());
                if !same || alike == Alike::Conflict {
                    return Err(Conflict::SameLines);
                }
                others.next();
                (ones.next(), &one_lines)
            }
            (Some(mine), theirs) if theirs.is_none_or(|theirs| mine.base.start < theirs.base.start) => {
                (ones.next(), &one_lines)
            }
            _ => (others.next(), &other_lines),
        };
        let Some(change) = change else { break };
        push(&mut merged, &base_lines, at..change.base.start)?;
        push(&mut merged, of, change.new.clone())?;
        at = change.base.end;
    }
    push(&mut merged, &base_lines, at..base_lines.len())?;
    Ok(merged)
}

/// A place where two changes of one text overlap: lines of the base, and the lines of each side that replace them.
struct Overlap {
    /// Lines of the base.
    base: Range<usize>,
    /// Lines of the first side.
    one: Range<usize>,
    /// Lines of the second side.
    other: Range<usize>,
}

/// Names of the texts in a conflict.
#[derive(Debug, Clone, Copy)]
pub struct Labels<'a> {
    /// Name of the text that both changed.
    pub base: &'a str,
    /// Name of the first side.
    pub one: &'a str,
    /// Name of the second side.
    pub other: &'a str,
}

/// Returns the overlaps of `one` and `other` in the format of `git merge-file --diff3`, each after the number of its
/// first line in `one`; at most `bytes_max` bytes, cut at a whole line.
///
/// Bytes that are not UTF-8 are shown lossily, so it is for reading only.
#[must_use]
pub fn conflicts(base: &[u8], one: &[u8], other: &[u8], labels: Labels<'_>, bytes_max: usize) -> String {
    let split = |text| lines::all(text);
    let (base, one, other) = (split(base), split(one), split(other));
    let (Ok(ones), Ok(others)) = (changes(&base, &one), changes(&base, &other)) else {
        return String::new();
    };
    let mut text = String::new();
    for overlap in overlaps(&ones, &others, (&one, &other)) {
        let first = overlap.one.start + 1;
        text.extend(["line ", &first.to_string(), ":\n<<<<<<< ", labels.one, "\n"]);
        show(&mut text, &one, overlap.one);
        text.extend(["||||||| ", labels.base, "\n"]);
        show(&mut text, &base, overlap.base);
        text.push_str("=======\n");
        show(&mut text, &other, overlap.other);
        text.extend([">>>>>>> ", labels.other, "\n"]);
    }
    cut(text, bytes_max)
}

/// Adds lines to a text for reading, each with an ending.
fn show(text: &mut String, lines: &[&[u8]], range: Range<usize>) {
    for line in lines.get(range).into_iter().flatten() {
        text.push_str(&String::from_utf8_lossy(lines::without_ending(line)));
        text.push('\n');
    }
}

/// Returns the whole lines at the start of `text` that fit into `bytes_max` bytes, and a note if some were cut.
fn cut(text: String, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text;
    }
    let mut kept = String::new();
    for line in text.split_inclusive('\n') {
        if kept.len() + line.len() > bytes_max {
            break;
        }
        kept.push_str(line);
    }
    kept + "... more was left out\n"
}

/// Returns the overlaps of the changes of two sides.
fn overlaps(ones: &[SideChange], others: &[SideChange], sides: (&[&[u8]], &[&[u8]])) -> Vec<Overlap> {
    let mut found = Vec::new();
    let (mut ones_left, mut others_left) = (ones, others);
    while let (Some(mine), Some(theirs)) = (ones_left.first(), others_left.first()) {
        if !mine.touches(theirs) {
            let (left, _) = if mine.base.start < theirs.base.start {
                (&mut ones_left, mine)
            } else {
                (&mut others_left, theirs)
            };
            *left = peek(left, 1..);
            continue;
        }
        // A change that touches any change of the group joins it.
        let mut group = SideChange { base: theirs.base.clone(), new: 0..0 };
        let (mut mine_count, mut their_count) = (0, 0);
        loop {
            let joins = |change: &&SideChange| change.touches(&group);
            if let Some(next) = ones_left.get(mine_count).filter(joins) {
                mine_count += 1;
                group.base = group.base.start.min(next.base.start)..group.base.end.max(next.base.end);
            } else if let Some(next) = others_left.get(their_count).filter(joins) {
                their_count += 1;
                group.base = group.base.start.min(next.base.start)..group.base.end.max(next.base.end);
            } else {
                break;
            }
        }
        let (mine, rest) = ones_left.split_at_checked(mine_count).unwrap_or((&[], &[]));
        ones_left = rest;
        let (theirs, rest) = others_left.split_at_checked(their_count).unwrap_or((&[], &[]));
        others_left = rest;
        let (one, other) = (lines_of(mine, &group.base), lines_of(theirs, &group.base));
        if sides.0.get(one.clone()) != sides.1.get(other.clone()) {
            found.push(Overlap { base: group.base, one, other });
        }
    }
    found
}

/// Returns the lines of a side that replace lines of the base, given its changes there.
fn lines_of(changes: &[SideChange], base: &Range<usize>) -> Range<usize> {
    let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return 0..0 };
    let before = first.base.start - base.start;
    let after = base.end - last.base.end;
    first.new.start - before..last.new.end + after
}

/// Adds a range of lines.
fn push(text: &mut Vec<u8>, lines: &[&[u8]], range: Range<usize>) -> Result<(), Conflict> {
    // The changes of each side are in order, and do not touch those of the other.
    for line in lines.get(range).ok_or(Conflict::SameLines)? {
        text.extend_from_slice(line);
    }
    Ok(())
}

/// Returns the changes of one side in order.
fn changes(base: &[&[u8]], new: &[&[u8]]) -> Result<Vec<SideChange>, Conflict> {
    let LineDiff { ops, is_coarse } = line_diff::diff(base, new);
    if is_coarse {
        return Err(Conflict::TooMuch);
    }
    let changed = ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
    Ok(changed.map(|op| SideChange { base: op.old_range(), new: op.new_range() }).collect())
}

impl Conflict {
    /// Returns the error for a merge into the file at `shown`.
    #[must_use]
    pub fn error(self, shown: &str) -> Error {
        match self {
            Self::SameLines => {
                Error::new(ErrorKind::StaleFile, format!("both changes of {shown} touch the same lines"))
            }
            Self::TooMuch => Error::new(
                ErrorKind::Timeout,
                format!("the changes of {shown} are too many to be merged in time; nothing was changed"),
            )
            .suggest(format!("Read {shown} again and edit it as it is now.")),
        }
        .at(shown)
    }
}

/// Time limit for one comparison; all that is not compared by then counts as changed.
const TIME_MAX: Duration = Duration::from_millis(500);

/// Undoes a change, from `base` to `mine`, in `theirs`: each hunk is reverted unless others changed its lines since. In
/// that case their lines stay.
#[must_use]
pub fn revert_hunks(base: &[u8], mine: &[u8], theirs: &[u8]) -> Vec<u8> {
    let split = |text| lines::all(text);
    let (base, mine, theirs) = (split(base), split(mine), split(theirs));
    let (taken_back, others) = (pieces(&mine, &base), pieces(&mine, &theirs));
    let mut carried: Vec<&[u8]> = Vec::new();
    let (mut taken_back, mut others) = (taken_back.iter().peekable(), others.iter().peekable());
    let mut at = 0;
    loop {
        // Take the change that ends first; skip a hunk that overlaps a change of others.
        let own = match (taken_back.peek(), others.peek()) {
            (None, None) => break,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(own), Some(other)) if meet(&own.base, &other.base) => {
                taken_back.next();
                continue;
            }
            (Some(own), Some(other)) => (own.base.start, own.base.end) <= (other.base.start, other.base.end),
        };
        let (next, text) = if own { (taken_back.next(), &base) } else { (others.next(), &theirs) };
        let Some(piece) = next else { break };
        if piece.base.start < at {
            // It overlaps one that was already kept.
            continue;
        }
        carried.extend(mine.get(at..piece.base.start).into_iter().flatten());
        carried.extend(text.get(piece.new.clone()).into_iter().flatten());
        at = piece.base.end;
    }
    carried.extend(mine.get(at..).into_iter().flatten());
    carried.concat()
}

/// Returns true if two changes of one text share lines, or insert at the same place.
fn meet(one: &Range<usize>, other: &Range<usize>) -> bool {
    one == other || (one.start < other.end && other.start < one.end)
}

/// Returns the differences of two texts, in order.
fn pieces(old: &[&[u8]], new: &[&[u8]]) -> Vec<SideChange> {
    let until = Instant::now() + TIME_MAX;
    line_diff::of_lines(old, new, Some(until))
        .iter()
        .filter(|op| !matches!(op, DiffOp::Equal { .. }))
        .map(|op| SideChange { base: op.old_range(), new: op.new_range() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn changes_in_different_lines_are_both_made() {
        for (base, one, other, merged) in [
            ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", Ok("A\nb\nC\n")),
            ("a\nb\nc\n", "a\nb\nc\n", "a\nb\nC\n", Ok("a\nb\nC\n")),
            ("a\nb\nc\n", "a\nc\n", "a\nb\nc\nd\n", Ok("a\nc\nd\n")),
            ("a\nb\nc\nd\n", "a\nx\nb\nc\nd\n", "a\nb\nc\n", Ok("a\nx\nb\nc\n")),
            ("a\nb\n", "A\nb\n", "B\nb\n", Err(Conflict::SameLines)),
            ("a\nb\n", "A\nb\n", "a\nB\n", Err(Conflict::SameLines)),
            ("a\nb\n", "a\nx\nb\n", "a\ny\nb\n", Err(Conflict::SameLines)),
            ("a\nb\nc", "A\nb\nc", "a\nb\nc\nd", Ok("A\nb\nc\nd")),
            ("a\r\nb\nc\r\n", "A\r\nb\nc\r\n", "a\r\nb\nC\r\n", Ok("A\r\nb\nC\r\n")),
            ("", "a\n", "", Ok("a\n")),
        ] {
            let found = merge(base.as_bytes(), one.as_bytes(), other.as_bytes(), Alike::Once);
            assert_eq!(
                found,
                merged.map(|text: &str| text.as_bytes().to_vec()),
                "{base:?} {one:?} {other:?}"
            );
            let turned = merge(base.as_bytes(), other.as_bytes(), one.as_bytes(), Alike::Once);
            assert_eq!(turned, found, "{base:?} {one:?} {other:?}");
        }
    }

    #[test]
    fn a_conflict_is_shown_where_it_is() {
        let (base, one, other) = ("a\nb\nc\nd\ne\n", "a\nB\nnew\nc\nd\ne\n", "a\nx\nc\nd\nE\n");
        let labels = Labels { base: "base", one: "now", other: "back" };
        let shown = conflicts(base.as_bytes(), one.as_bytes(), other.as_bytes(), labels, 1000);
        assert_eq!(shown, "line 2:\n<<<<<<< now\nB\nnew\n||||||| base\nb\n=======\nx\n>>>>>>> back\n");
        assert_eq!(
            conflicts(base.as_bytes(), one.as_bytes(), other.as_bytes(), labels, 30),
            "line 2:\n<<<<<<< now\nB\nnew\n... more was left out\n"
        );
        assert_eq!(conflicts(base.as_bytes(), one.as_bytes(), base.as_bytes(), labels, 1000), "");
    }

    #[test]
    fn a_change_made_twice_is_made_once_or_a_conflict() {
        let (base, new) = (b"a\nb\nc\n", b"a\nB\nc\n");
        assert_eq!(merge(base, new, new, Alike::Once), Ok(new.to_vec()));
        assert_eq!(merge(base, new, new, Alike::Conflict), Err(Conflict::SameLines));
    }

    /// Returns the lines with some changed, removed, or followed by new ones; no line twice.
    fn changed(random: &mut Random, base: &[String], side: char) -> String {
        let mut text = String::new();
        for (number, line) in base.iter().enumerate() {
            match random.below(12) {
                0 => {}
                1 => text.extend([format!("{side}{number}\n")]),
                2 => text.extend([format!("{line}{side}{number} new\n")]),
                _ => text += line,
            }
        }
        text
    }

    #[test]
    fn a_merge_is_the_one_that_diffy_makes() {
        let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
        let (mut merged, mut conflicts) = (0, 0);
        for _ in 0..2_000 {
            let base: Vec<String> = (0..14).map(|number| format!("line {number}\n")).collect();
            let (one, other) = (changed(&mut random, &base, 'a'), changed(&mut random, &base, 'b'));
            let base = base.concat();
            let ours = merge(base.as_bytes(), one.as_bytes(), other.as_bytes(), Alike::Once);
            let theirs = diffy::merge_bytes(base.as_bytes(), one.as_bytes(), other.as_bytes());
            match (&ours, &theirs) {
                (Ok(ours), Ok(theirs)) => {
                    assert_eq!(ours, theirs, "{one:?} {other:?}");
                    merged += 1;
                }
                // Our merge may refuse changes close together, but never merges what diffy refuses.
                (Ok(_), Err(_)) => panic!("merged a conflict: {one:?} {other:?}"),
                (Err(_), _) => conflicts += 1,
            }
        }
        assert!(merged > 300 && conflicts > 300, "{merged} merged, {conflicts} conflicts");
    }

    #[test]
    fn others_changes_stay_and_ones_own_are_taken_back() {
        for (base, mine, theirs, wanted) in [
            ("1\n2\n3\n4\n", "1\nB\n3\n4\n", "1\nB\n3\nD\n", "1\n2\n3\nD\n"),
            ("1\n2\n3\n", "1\nB\n3\n", "1\nB\n3\n", "1\n2\n3\n"),
            // Lines that others changed as well stay.
            ("1\n2\n3\n", "1\nB\n3\n", "1\nC\n3\n", "1\nC\n3\n"),
            ("1\n2\n3\n", "1\nB\n3\n", "1\n2\n3\n", "1\n2\n3\n"),
            ("1\n3\n", "1\n2\n3\n", "0\n1\n2\n3\n4\n", "0\n1\n3\n4\n"),
            ("1\n2\n3\n", "1\n3\n", "1\n3\n4\n", "1\n2\n3\n4\n"),
            ("", "1\n2\n", "1\n2\n3\n", "3\n"),
            ("1\n2\n", "", "", "1\n2\n"),
        ] {
            let found = revert_hunks(base.as_bytes(), mine.as_bytes(), theirs.as_bytes());
            assert_eq!(String::from_utf8(found).unwrap(), wanted, "{base:?} {mine:?} {theirs:?}");
        }
    }
}
