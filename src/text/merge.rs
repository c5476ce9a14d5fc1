//! Three-way merge by lines: combines two changes of one text.

use std::ops::Range;

use similar::DiffOp;

use crate::error::{Error, ErrorKind};
use crate::limits::DIFFED_LINES_MAX;
use crate::text::checked::{TextFault, slice};
use crate::text::{line_diff, lines};

/// Reason why two changes cannot be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeConflict {
    /// Both change the same lines, or adjacent ones.
    SameLines,
    /// The texts are too large to be compared in time.
    TooMuch,
}

/// Policy for a change that both sides made in the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EqualChanges {
    /// It is applied once.
    Once,
    /// It is a conflict: each may have been meant in addition to the other.
    Conflict,
}

/// Lines of the base that one or both sides change, and the lines of each side in their place.
struct MergeRegion {
    /// Lines of the base.
    base: Range<usize>,
    /// Lines of each side.
    sides: [Range<usize>; 2],
    /// True for each side that changes them.
    is_changed: [bool; 2],
}

/// The texts of a merge, in lines.
struct MergeTexts<'t> {
    /// Text that both sides changed.
    base: Vec<&'t [u8]>,
    /// Texts of the sides.
    sides: [Vec<&'t [u8]>; 2],
}

impl<'t> MergeTexts<'t> {
    /// Splits the texts into lines.
    fn of(base: &'t [u8], one: &'t [u8], other: &'t [u8]) -> Self {
        Self { base: lines::all(base), sides: [lines::all(one), lines::all(other)] }
    }

    /// Returns the regions that the sides change, in order. The second value is true if the texts have too many lines to
    /// be compared.
    fn regions(&self) -> (Vec<MergeRegion>, bool) {
        let diffs = self.sides.each_ref().map(|side| (line_diff::diff(&self.base, side), side));
        let is_coarse = diffs.iter().any(|(diff, _)| diff.is_coarse);
        let mut rest = diffs.map(|(diff, side)| RemainingChanges {
            changes: diff.lowest_changes(&self.base, side),
            passed: 0,
        });
        let mut regions = Vec::new();
        loop {
            let nexts = rest.each_ref().map(|side| side.next().map(|next| (next.start, next.end)));
            let Some((start, end)) = nexts.into_iter().flatten().min() else { return (regions, is_coarse) };
            let mut base = start..end;
            let starts = rest.each_ref().map(|side| side.line(start));
            let mut is_changed = [false; 2];
            let mut is_open = true;
            while std::mem::take(&mut is_open) {
                for (side, is_changed) in rest.iter_mut().zip(&mut is_changed) {
                    if side.next().is_some_and(|next| touch(&next, &base)) {
                        base.end = base.end.max(side.pass());
                        (*is_changed, is_open) = (true, true);
                    }
                }
            }
            let [one, other] = rest.each_ref().map(|side| side.line(base.end));
            regions.push(MergeRegion { base, sides: [starts[0]..one, starts[1]..other], is_changed });
        }
    }

    /// Returns true if the lines of both sides are equal in a region.
    fn is_alike(&self, region: &MergeRegion) -> bool {
        self.sides[0].get(region.sides[0].clone()) == self.sides[1].get(region.sides[1].clone())
    }

    /// Returns the regions that both sides change, each in its own way; none if there are too many lines to compare.
    fn overlaps(&self) -> Vec<MergeRegion> {
        let (mut regions, is_coarse) = self.regions();
        regions.retain(|region| !is_coarse && region.is_changed == [true; 2] && !self.is_alike(region));
        regions
    }

    /// Returns the base with the lines of the side that `pick` chooses for each region.
    fn merged(
        &self,
        regions: &[MergeRegion],
        pick: impl Fn(&MergeRegion) -> Result<usize, MergeConflict>,
    ) -> Result<Vec<u8>, MergeConflict> {
        let mut merged: Vec<&[u8]> = Vec::with_capacity(self.base.len());
        let mut at = 0;
        for region in regions {
            let side = pick(region)?;
            merged.extend_from_slice(slice(&self.base, at..region.base.start)?);
            let lines = self.sides.get(side).zip(region.sides.get(side)).ok_or(MergeConflict::SameLines)?;
            merged.extend_from_slice(slice(lines.0, lines.1.clone())?);
            at = region.base.end;
        }
        merged.extend_from_slice(slice(&self.base, at..self.base.len())?);
        Ok(merged.concat())
    }
}

/// The changes of a side that are in no region yet.
struct RemainingChanges {
    /// All changes, in order.
    changes: Vec<DiffOp>,
    /// Number of those that are in a region.
    passed: usize,
}

impl RemainingChanges {
    /// Returns the lines of the base that the next change replaces.
    fn next(&self) -> Option<Range<usize>> {
        self.changes.get(self.passed).map(DiffOp::old_range)
    }

    /// Passes the next change, and returns its end in the base.
    fn pass(&mut self) -> usize {
        self.passed += 1;
        self.changes.get(self.passed - 1).map_or(0, |passed| passed.old_range().end)
    }

    /// Returns the line of this side for a line of the base between the last change and the next.
    fn line(&self, base: usize) -> usize {
        let last = self.passed.checked_sub(1).and_then(|last| self.changes.get(last));
        last.map_or(base, |last| last.new_range().end + base - last.old_range().end)
    }
}

/// Returns true if two changes touch: they share lines, or have none between them.
const fn touch(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start <= other.end && other.start <= one.end
}

/// Returns `base` with the changes of both `one` and `other`.
///
/// # Errors
/// Fails with a [`MergeConflict`] if the changes touch, or if the texts are too large.
pub fn merge(base: &[u8], one: &[u8], other: &[u8], alike: EqualChanges) -> Result<Vec<u8>, MergeConflict> {
    if [base, one, other].iter().map(|text| lines::count(text)).sum::<u64>() > 2 * DIFFED_LINES_MAX as u64 {
        return Err(MergeConflict::TooMuch);
    }
    let texts = MergeTexts::of(base, one, other);
    let (regions, is_coarse) = texts.regions();
    if is_coarse {
        return Err(MergeConflict::TooMuch);
    }
    texts.merged(&regions, |region| match region.is_changed {
        [true, true] if alike == EqualChanges::Conflict || !texts.is_alike(region) => {
            Err(MergeConflict::SameLines)
        }
        [true, _] => Ok(0),
        [false, _] => Ok(1),
    })
}

impl From<TextFault> for MergeConflict {
    fn from(_: TextFault) -> Self {
        Self::SameLines
    }
}

/// Names of the texts in a conflict.
#[derive(Debug, Clone, Copy)]
pub struct ConflictLabels<'a> {
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
pub fn conflicts(
    base: &[u8],
    one: &[u8],
    other: &[u8],
    labels: ConflictLabels<'_>,
    bytes_max: usize,
) -> String {
    let texts = MergeTexts::of(base, one, other);
    let mut text = String::new();
    for region in texts.overlaps() {
        let [one, other] = region.sides;
        text.extend(["line ", &(one.start + 1).to_string(), ":\n<<<<<<< ", labels.one, "\n"]);
        show(&mut text, &texts.sides[0], one);
        text.extend(["||||||| ", labels.base, "\n"]);
        show(&mut text, &texts.base, region.base);
        text.push_str("=======\n");
        show(&mut text, &texts.sides[1], other);
        text.extend([">>>>>>> ", labels.other, "\n"]);
    }
    cut(text, bytes_max)
}

/// Returns the overlaps of `one` and `other` as lines of each side, counted from 0; an empty range is a place between two
/// lines.
pub fn overlaps(base: &[u8], one: &[u8], other: &[u8]) -> Vec<[Range<usize>; 2]> {
    MergeTexts::of(base, one, other).overlaps().into_iter().map(|region| region.sides).collect()
}

/// Returns the lines of `side` that differ from `base`, counted from 0; an empty range is a place of removed lines.
pub fn changed_lines(base: &[u8], side: &[u8]) -> Vec<Range<usize>> {
    let diff = line_diff::diff(&lines::all(base), &lines::all(side));
    diff.changes().map(DiffOp::new_range).collect()
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

impl MergeConflict {
    /// Returns the error for a merge into the file at `shown`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn merge_combines_changes_in_different_lines() {
        for (base, one, other, merged) in [
            ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", Ok("A\nb\nC\n")),
            ("a\nb\nc\n", "a\nb\nc\n", "a\nb\nC\n", Ok("a\nb\nC\n")),
            ("a\nb\nc\n", "a\nc\n", "a\nb\nc\nd\n", Ok("a\nc\nd\n")),
            ("a\nb\nc\nd\n", "a\nx\nb\nc\nd\n", "a\nb\nc\n", Ok("a\nx\nb\nc\n")),
            ("a\nb\n", "A\nb\n", "B\nb\n", Err(MergeConflict::SameLines)),
            ("a\nb\n", "A\nb\n", "a\nB\n", Err(MergeConflict::SameLines)),
            ("a\nb\n", "a\nx\nb\n", "a\ny\nb\n", Err(MergeConflict::SameLines)),
            ("a\nb\nc", "A\nb\nc", "a\nb\nc\nd", Ok("A\nb\nc\nd")),
            ("a\r\nb\nc\r\n", "A\r\nb\nc\r\n", "a\r\nb\nC\r\n", Ok("A\r\nb\nC\r\n")),
            ("", "a\n", "", Ok("a\n")),
            // One blank line more, at the end of a run of them.
            ("l\na\n}\n\na\n", "a\n}\n\n\na\n", "l\na\n}\n\n\na\n", Ok("a\n}\n\n\na\n")),
            ("l\na\n\n\n\na\n", "a\n\na\n", "l\na\n\na\n", Ok("a\n\na\n")),
        ] {
            let found = merge(base.as_bytes(), one.as_bytes(), other.as_bytes(), EqualChanges::Once);
            assert_eq!(
                found,
                merged.map(|text: &str| text.as_bytes().to_vec()),
                "{base:?} {one:?} {other:?}"
            );
            let turned = merge(base.as_bytes(), other.as_bytes(), one.as_bytes(), EqualChanges::Once);
            assert_eq!(turned, found, "{base:?} {one:?} {other:?}");
        }
    }

    #[test]
    fn conflict_is_shown_with_its_line_and_markers() {
        let (base, one, other) = ("a\nb\nc\nd\ne\n", "a\nB\nnew\nc\nd\ne\n", "a\nx\nc\nd\nE\n");
        let labels = ConflictLabels { base: "base", one: "now", other: "back" };
        let shown = conflicts(base.as_bytes(), one.as_bytes(), other.as_bytes(), labels, 1000);
        assert_eq!(shown, "line 2:\n<<<<<<< now\nB\nnew\n||||||| base\nb\n=======\nx\n>>>>>>> back\n");
        assert_eq!(
            conflicts(base.as_bytes(), one.as_bytes(), other.as_bytes(), labels, 30),
            "line 2:\n<<<<<<< now\nB\nnew\n... more was left out\n"
        );
        assert_eq!(conflicts(base.as_bytes(), one.as_bytes(), base.as_bytes(), labels, 1000), "");
    }

    #[test]
    fn identical_changes_merge_once_or_conflict() {
        let (base, new) = (b"a\nb\nc\n", b"a\nB\nc\n");
        assert_eq!(merge(base, new, new, EqualChanges::Once), Ok(new.to_vec()));
        assert_eq!(merge(base, new, new, EqualChanges::Conflict), Err(MergeConflict::SameLines));
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
    fn merge_equals_diffy() {
        let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
        let (mut merged, mut conflicts) = (0, 0);
        for _ in 0..2_000 {
            let base: Vec<String> = (0..14).map(|number| format!("line {number}\n")).collect();
            let (one, other) = (changed(&mut random, &base, 'a'), changed(&mut random, &base, 'b'));
            let base = base.concat();
            let ours = merge(base.as_bytes(), one.as_bytes(), other.as_bytes(), EqualChanges::Once);
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
}
