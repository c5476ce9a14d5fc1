//! What the caller knows of the files that it changed.

use std::collections::BTreeSet;

use super::known::{carried_over, still_known};
use super::line_numbers::{EarlierBytes, body_of, numbers_in, replaced_lines};
use super::planned::{After, CallerKnowledge, Planned};
use crate::engine::history::replay::Pieces;
use crate::engine::journal::MoveEntry;
use crate::engine::store::session::{Lines, Mark, Numbers, SessionState};
use crate::engine::workspace::fs::is_symlink_mode;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::sha256::Sha256;
use crate::text::lines;

/// What the caller knows of the files after a change.
#[derive(Default)]
pub struct Marks {
    /// The marks of those that it knows.
    pub set: Vec<Mark>,
    /// Paths whose marks are void.
    pub forgotten: Vec<WorkspacePath>,
}

/// The marks after a change of `files` with those `moves`.
pub fn after(
    files: &[Planned],
    moves: &[MoveEntry],
    session: &SessionState,
    earlier: &EarlierBytes,
) -> Marks {
    let mut all = after_changes(files, session, earlier);
    after_moves(moves, session, &mut all);
    all
}

/// The marks of changed files.
fn after_changes(files: &[Planned], session: &SessionState, earlier: &EarlierBytes) -> Marks {
    let Marks { set: mut marks, mut forgotten } = Marks::default();
    for file in files {
        let path = file.seen.current.place.path();
        match &file.after {
            None => forgotten.push(path.clone()),
            // What a path shows that leads through a symlink is another file's.
            Some(after) if after.mode.is_some_and(is_symlink_mode) => forgotten.push(path.clone()),
            // A mark that there is stays, of bytes that the file has no longer.
            Some(after) if after.known == CallerKnowledge::Nothing => {}
            Some(_) if is_state(path) => {}
            Some(after) => marks.extend(
                mark_after(file, after, session)
                    .map(|mark| Mark { numbers: Some(numbers_after(file, after, session, earlier)), ..mark }),
            ),
        }
    }
    Marks { set: marks, forgotten }
}

/// Adds what moves do to marks: each goes with its file, and one of a file in the trash is void.
fn after_moves(moves: &[MoveEntry], session: &SessionState, all: &mut Marks) {
    if moves.is_empty() {
        return;
    }
    let mut pieces = Pieces::default();
    moves.iter().for_each(|moved| pieces.insert(&moved.from, &moved.to));
    let known: BTreeSet<WorkspacePath> = all.set.iter().map(|mark| mark.path.clone()).collect();
    for mark in session.marks() {
        let path = pieces.placed(&mark.path);
        if path == mark.path {
            continue;
        }
        all.forgotten.push(mark.path.clone());
        if !known.contains(&path) && !is_state(&path) {
            all.set.push(Mark { path, ..mark.clone() });
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
    let mark = |lines| Mark {
        lines,
        ..Mark::of_everything(path.clone(), after.sha256, after.bytes.len() as u64, 0)
    };
    if let CallerKnowledge::ChangedSince(seen) = &after.known {
        let known = session.mark(old_path).filter(|mark| mark.sha256 == Sha256::of(seen))?;
        let lines = still_known(&known.lines, &body_of(seen), &body_of(old_bytes), &body);
        return Some(mark(lines));
    }
    let is_new = !current.exists() && file.origin.is_none();
    if after.known == CallerKnowledge::Everything || is_new {
        return Some(mark(Lines::up_to(lines::count(&body))));
    }
    let is_proved = file.seen.proved && file.origin.is_none();
    if !is_proved && known.is_none() {
        return None;
    }
    let before = known.map(|mark| mark.lines.clone()).unwrap_or_default();
    Some(mark(carried_over(&before, &body_of(old_bytes), &body)))
}

/// Carries the shown line numbers of a file over its change.
fn numbers_after(file: &Planned, after: &After, session: &SessionState, earlier: &EarlierBytes) -> Numbers {
    let current = &file.seen.current;
    let (path, sha256, bytes) = match &file.origin {
        Some(origin) => (&origin.path, origin.sha256, &origin.bytes),
        None => (current.place.path(), current.sha256, &current.bytes),
    };
    let is_new = !current.exists() && file.origin.is_none();
    if after.known == CallerKnowledge::Everything || is_new {
        // Nothing of it was shown.
        return Numbers::default();
    }
    let Some(mark) = session.mark(path) else {
        // No line of it was shown under a number.
        return Numbers::default();
    };
    let old = body_of(bytes);
    let numbers = numbers_in(mark, sha256, &old, earlier);
    let replaced = file.replaced.clone().unwrap_or_else(|| replaced_lines(&old, &body_of(&after.bytes)));
    numbers.after(&replaced)
}
