//! Which folders go when changes are taken back or done again, and when.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};

use super::conflicts::conflict_error;
use crate::engine::change::{Change, moves};
use crate::engine::history::replay::{Kind, Piece, ReplayConflict, ReplayResult, depth};
use crate::engine::workspace::Workspace;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;

/// The folders that are to go in the end where they are empty, by the names they have by then:
/// another folder may have come under a name that one of them had.
pub fn vacated(outcome: &ReplayResult, mut vacant: Vec<WorkspacePath>) -> Vec<WorkspacePath> {
    let stays = |folder: &&WorkspacePath| outcome.pieces.standing(folder).as_ref() == Some(*folder);
    vacant.extend(outcome.ousted.iter().filter(stays).cloned());
    let taken: BTreeSet<&WorkspacePath> = outcome
        .lives
        .iter()
        .map(|live| &live.at)
        .chain(outcome.made.iter().map(|folder| &folder.path))
        .collect();
    vacant.retain(|folder| !taken.contains(folder) && !outcome.pieces.comes_to(folder));
    innermost_first(&mut vacant);
    vacant
}

/// The outcome without the folders that would move only to vanish, which then vanish where they are.
///
/// # Errors
/// The system's.
pub fn without_empty(
    workspace: &Workspace,
    mut outcome: ReplayResult,
    folders: &mut Vec<WorkspacePath>,
) -> Result<ReplayResult, Error> {
    let pieces = outcome.pieces.clone();
    let wanted: BTreeSet<WorkspacePath> = folders.iter().cloned().collect();
    for piece in pieces.iter().filter(|piece| wanted.contains(&piece.at)) {
        let leaving = Leaving::of(&outcome);
        let vanishes =
            |real: &WorkspacePath| outcome.ousted.contains(real) || folders.contains(&pieces.placed(real));
        if let Some(inner) = emptied(workspace, &piece.real, &leaving, &vanishes)? {
            outcome.pieces.remove_at(&piece.at);
            folders.retain(|folder| !folder.is_within(&piece.at));
            outcome.ousted.extend(inner);
        }
    }
    innermost_first(folders);
    Ok(outcome)
}

/// Has the folders cleared away in whose place something else comes to stand.
///
/// # Errors
/// `stale_file` where what stands there must stay.
pub fn clear_the_way(
    change: &mut Change<'_>,
    outcome: &ReplayResult,
    vacant: &[WorkspacePath],
) -> Result<(), Error> {
    let workspace = change.workspace();
    let leaving = Leaving::of(outcome);
    let lives = outcome.lives.iter().filter(|live| !live.stays(&outcome.pieces)).map(|live| live.at.clone());
    let mut cleared = Vec::new();
    for at in lives.chain(outcome.pieces.iter().map(|piece| piece.at)) {
        // Another may come there with a folder that moves.
        let mut others = std::borrow::Cow::Borrowed(&outcome.pieces);
        if others.comes_to(&at) {
            others.to_mut().remove_at(&at);
        }
        let Some(real) = others.standing(&at) else { continue };
        if moves::kind(workspace, &real)?.is_none() || leaving.has(&real) {
            continue;
        }
        let vanishes = |real: &WorkspacePath| {
            outcome.ousted.contains(real) || vacant.contains(real) || vacant.contains(&others.placed(real))
        };
        match emptied(workspace, &real, &leaving, &vanishes)? {
            Some(inner) if vanishes(&real) => cleared.extend(inner),
            _ => return Err(conflict_error(change, &ReplayConflict::Taken(at))),
        }
    }
    // The others may move with what they are in before the end.
    for folder in &outcome.ousted {
        if stands_folder(workspace, folder)? {
            cleared.push(folder.clone());
        }
    }
    innermost_first(&mut cleared);
    change.add_cleared(cleared);
    Ok(())
}

/// Whether a folder stands at a path.
fn stands_folder(workspace: &Workspace, path: &WorkspacePath) -> Result<bool, Error> {
    Ok(moves::kind(workspace, path)? == Some(Kind::Folder))
}

/// Whether a folder stands at a path and holds something besides folders that go.
pub fn is_occupied(workspace: &Workspace, path: &WorkspacePath, going: &[WorkspacePath]) -> bool {
    let names = workspace.open_folder(path).map(|opened| fs::names_in(&opened));
    let stays = |name: &std::ffi::OsString| !going.contains(&path.join(name));
    names.is_ok_and(|names| names.is_ok_and(|names| names.iter().any(stays)))
}

/// Sorts folders so that each comes before the one that holds it.
pub fn innermost_first(folders: &mut Vec<WorkspacePath>) {
    folders.sort_by_cached_key(|folder| std::cmp::Reverse((depth(folder), folder.clone())));
    folders.dedup();
}

/// What stands somewhere and goes, or goes elsewhere.
struct Leaving(BTreeSet<WorkspacePath>);

impl Leaving {
    /// What leaves in an outcome.
    fn of(outcome: &ReplayResult) -> Self {
        let gone = outcome.gone.iter().filter_map(|gone| gone.real.clone());
        let elsewhere = outcome.lives.iter().filter(|live| !live.stays(&outcome.pieces));
        let elsewhere = elsewhere.filter_map(|live| live.real.clone());
        let moved = outcome.pieces.iter().map(|Piece { real, .. }| real);
        Self(gone.chain(elsewhere).chain(moved).collect())
    }

    /// Whether what stands at a path leaves.
    fn has(&self, real: &WorkspacePath) -> bool {
        self.0.contains(real)
    }
}

/// The folder and those in it, where all else in them leaves and all of them may vanish; `None` for
/// anything else.
fn emptied(
    workspace: &Workspace,
    folder: &WorkspacePath,
    leaving: &Leaving,
    may_vanish: &dyn Fn(&WorkspacePath) -> bool,
) -> Result<Option<Vec<WorkspacePath>>, Error> {
    let Ok(opened) = workspace.open_folder(folder) else {
        return Ok(None);
    };
    let mut all = vec![folder.clone()];
    let mut waiting: Vec<(OwnedFd, WorkspacePath)> = vec![(opened, folder.clone())];
    while let Some((opened, folder)) = waiting.pop() {
        let io = |errno| Error::io("list", workspace.shown(&folder), errno);
        for name in fs::names_in(&opened).map_err(io)? {
            let path = folder.join(&name);
            if leaving.has(&path) {
                continue;
            }
            let inner = may_vanish(&path).then(|| fs::open_at(opened.as_fd(), &name, fs::FOLDER));
            let Some(Ok(inner)) = inner else {
                return Ok(None);
            };
            all.push(path.clone());
            waiting.push((inner, path));
        }
    }
    Ok(Some(all))
}
