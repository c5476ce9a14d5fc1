//! What the caller knows of the files that it changed.

use std::borrow::Cow;

use super::journal::MoveEntry;
use super::{After, Known, Planned, replay};
use crate::engine::fs::is_symlink_mode;
use crate::engine::path::WorkspacePath;
use crate::engine::protect::protected_component;
use crate::engine::session::{Lines, Mark, SessionState};
use crate::sha256::Sha256;
use crate::text::content::View;
use crate::text::lines;

/// The marks after a change, and the paths whose marks are void.
pub fn after(files: &[Planned], session: &SessionState) -> (Vec<Mark>, Vec<WorkspacePath>) {
    let (mut marks, mut forgotten) = (Vec::new(), Vec::new());
    for file in files {
        let path = file.seen.current.place.path();
        match &file.after {
            None => forgotten.push(path.clone()),
            // What a path shows that leads through a symlink is another file's.
            Some(after) if after.mode.is_some_and(is_symlink_mode) => forgotten.push(path.clone()),
            Some(_) if protected_component(path.as_path()).is_some() => {}
            Some(after) => marks.extend(mark_after(file, after, session)),
        }
    }
    (marks, forgotten)
}

/// Adds what moves do to marks: each goes with its file, and one of a file in the trash is void.
pub fn after_moves(
    moves: &[MoveEntry],
    session: &SessionState,
    marks: &mut Vec<Mark>,
    forgotten: &mut Vec<WorkspacePath>,
) {
    for mark in session.marks() {
        let holders = moves.iter().filter(|moved| mark.path.is_within(&moved.from));
        let Some(moved) = holders.max_by_key(|moved| replay::depth(&moved.from)) else {
            continue;
        };
        forgotten.push(mark.path.clone());
        let path = replay::rebased(&mark.path, &moved.from, &moved.to);
        let is_known = marks.iter().any(|known| known.path == path);
        if !is_known && protected_component(moved.to.as_path()).is_none() {
            marks.push(Mark { path, ..mark.clone() });
        }
    }
}

/// The mark of a changed file; `None` where the caller has never seen the rest of it, or has seen
/// other bytes than those that were changed.
fn mark_after(file: &Planned, after: &After, session: &SessionState) -> Option<Mark> {
    let current = &file.seen.current;
    let path = current.place.path().clone();
    let (old_path, old_sha256, old_bytes) = match &file.origin {
        Some(origin) => (&origin.path, origin.sha256, &origin.bytes),
        None => (&path, current.sha256, &current.bytes),
    };
    let known = session.mark(old_path).filter(|mark| mark.sha256 == old_sha256);
    let body = body_of(&after.bytes);
    let total_lines = lines::count(&body);
    let everything =
        || Mark::of_everything(path.clone(), after.sha256, after.bytes.len() as u64, total_lines);
    if let Known::ChangedSince(seen) = &after.known {
        let known = session.mark(old_path).filter(|mark| mark.sha256 == Sha256::of(seen))?;
        let lines = still_known(&known.lines, &body_of(seen), &body_of(old_bytes), &body);
        return Some(Mark { lines, ..everything() });
    }
    let is_new = !current.exists() && file.origin.is_none();
    if after.known == Known::Everything || is_new {
        return Some(everything());
    }
    let is_proved = file.seen.proved && file.origin.is_none();
    if !is_proved && known.is_none() {
        return None;
    }
    let before = known.map(|mark| mark.lines.clone()).unwrap_or_default();
    Some(Mark { lines: carried_over(&before, &body_of(old_bytes), &body), ..everything() })
}

/// The text of a file; its bytes where they are none.
fn body_of(bytes: &[u8]) -> Cow<'_, [u8]> {
    View::of(bytes).map_or(Cow::Borrowed(bytes), |view| view.body)
}

/// The lines of `after` that were shown: those of `before` that were and did not change, at their
/// new numbers, and all that changed.
fn carried_over(shown: &Lines, before: &[u8], after: &[u8]) -> Lines {
    let (head, tail) = lines::common_lines(before, after);
    let (old, new) = (lines::count(before), lines::count(after));
    let mut lines = Lines::default();
    for &(first, last) in shown.ranges() {
        lines.add(first, last.min(head));
        let tail_start = old - tail + 1;
        if last >= tail_start {
            lines.add(first.max(tail_start) + new - old, last.min(old) + new - old);
        }
    }
    lines.add(head + 1, new - tail);
    lines
}

/// The lines of `after` that were shown where others had changed `seen` to `before`: those of `seen`
/// that were and still stand, at their new numbers, and all that changed since `before`.
fn still_known(shown: &Lines, seen: &[u8], before: &[u8], after: &[u8]) -> Lines {
    let [seen, before, after] = [seen, before, after].map(|text| lines::lines(text).collect::<Vec<_>>());
    let myers = similar::Algorithm::Myers;
    let mut known = Lines::default();
    for op in similar::capture_diff_slices(myers, &seen, &after) {
        if let similar::DiffOp::Equal { old_index, new_index, len } = op {
            let (old, new, len) = (old_index as u64, new_index as u64, len as u64);
            for &(first, last) in shown.ranges() {
                let (first, last) = (first.max(old + 1), last.min(old + len));
                if first <= last {
                    known.add(first - old + new, last - old + new);
                }
            }
        }
    }
    for op in similar::capture_diff_slices(myers, &before, &after) {
        let range = op.new_range();
        if !matches!(op, similar::DiffOp::Equal { .. }) && !range.is_empty() {
            known.add(range.start as u64 + 1, range.end as u64);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_others_changed_are_no_longer_known() {
        let mut shown = Lines::default();
        shown.add(1, 4);
        let known = still_known(&shown, b"a\nb\nc\nd\n", b"A\nb\nnew\nc\nd\n", b"A\nb\nnew\nC\nd\n");
        assert_eq!(known.ranges(), [(2, 2), (4, 5)]);
    }

    #[test]
    fn shown_lines_move_with_the_text() {
        let shown = |ranges: &[(u64, u64)]| {
            let mut lines = Lines::default();
            ranges.iter().for_each(|&(first, last)| lines.add(first, last));
            lines
        };
        for (before, after, seen, seen_after) in [
            ("a\nb\nc\nd\n", "a\nB\nc\nd\n", vec![(2, 2)], vec![(2, 2)]),
            ("a\nb\nc\nd\n", "a\nx\ny\nb\nc\nd\n", vec![(1, 1), (4, 4)], vec![(1, 3), (6, 6)]),
            ("a\nb\nc\nd\n", "a\nd\n", vec![(1, 4)], vec![(1, 2)]),
            ("a\n", "a\nb\n", vec![(1, 1)], vec![(1, 2)]),
            ("a\nb\n", "", vec![(1, 2)], vec![]),
        ] {
            let lines = carried_over(&shown(&seen), before.as_bytes(), after.as_bytes());
            assert_eq!(lines.ranges(), seen_after, "{before:?} -> {after:?}");
        }
    }
}
