//! Which folders go when changes are taken back or done again, and when.

use super::misfit_error;
use crate::engine::fs;
use crate::engine::path::WorkspacePath;
use crate::engine::transaction::replay::{Kind, Live, Misfit, Outcome, Piece, depth, placed, standing};
use crate::engine::transaction::{Change, moves};
use crate::engine::workspace::Workspace;
use crate::error::Error;

/// The folders that are to go in the end where they are empty, by the names they have by then:
/// another folder may have come under a name that one of them had.
pub fn vacated(outcome: &Outcome, mut vacant: Vec<WorkspacePath>) -> Vec<WorkspacePath> {
    let stays = |folder: &&WorkspacePath| standing(&outcome.pieces, folder).as_ref() == Some(*folder);
    vacant.extend(outcome.ousted.iter().filter(stays).cloned());
    let is_taken = |folder: &WorkspacePath| {
        outcome.lives.iter().any(|live| live.at == *folder)
            || outcome.pieces.iter().any(|piece| piece.at == *folder)
            || outcome.made.contains(folder)
    };
    vacant.retain(|folder| !is_taken(folder));
    innermost_first(&mut vacant);
    vacant
}

/// The outcome without the folders that would move only to vanish, which then vanish where they are.
///
/// # Errors
/// The system's.
pub fn without_empty(
    workspace: &Workspace,
    mut outcome: Outcome,
    folders: &mut Vec<WorkspacePath>,
) -> Result<Outcome, Error> {
    let pieces = outcome.pieces.clone();
    for piece in pieces.iter().filter(|piece| folders.contains(&piece.at)).cloned().collect::<Vec<_>>() {
        let vanishes =
            |real: &WorkspacePath| outcome.ousted.contains(real) || folders.contains(&placed(&pieces, real));
        let held = emptied(workspace, &piece.real, &|real| leaves(&outcome, real), &vanishes)?;
        if let Some(inner) = held {
            outcome.pieces.retain(|other| *other != piece);
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
    outcome: &Outcome,
    vacant: &[WorkspacePath],
) -> Result<(), Error> {
    let workspace = change.workspace();
    let lives = outcome.lives.iter().filter(|live| !live.stays(&outcome.pieces)).map(|live| &live.at);
    let mut cleared = Vec::new();
    for at in lives.chain(outcome.pieces.iter().map(|piece| &piece.at)) {
        let others: Vec<Piece> = outcome.pieces.iter().filter(|piece| piece.at != *at).cloned().collect();
        // It may come there with a folder that moves.
        let in_the_way = standing(&others, at).filter(|real| moves::inode(workspace, real).is_some());
        let Some(real) = in_the_way.filter(|real| !leaves(outcome, real)) else {
            continue;
        };
        let vanishes = |real: &WorkspacePath| {
            outcome.ousted.contains(real) || vacant.contains(real) || vacant.contains(&placed(&others, real))
        };
        match emptied(workspace, &real, &|real| leaves(outcome, real), &vanishes)? {
            Some(inner) if vanishes(&real) => cleared.extend(inner),
            _ => return Err(misfit_error(workspace, &Misfit::Taken(at.clone()))),
        }
    }
    // The others may move with what they are in before the end.
    cleared.extend(outcome.ousted.iter().filter(|folder| stands_folder(workspace, folder)).cloned());
    innermost_first(&mut cleared);
    change.set_cleared(cleared);
    Ok(())
}

/// Whether a folder stands at a path.
fn stands_folder(workspace: &Workspace, path: &WorkspacePath) -> bool {
    moves::kind(workspace, path) == Some(Kind::Folder)
}

/// Sorts folders so that each comes before the one that holds it.
pub fn innermost_first(folders: &mut Vec<WorkspacePath>) {
    folders.sort_by_cached_key(|folder| std::cmp::Reverse((depth(folder), folder.clone())));
    folders.dedup();
}

/// Whether what stands at a path goes, or goes elsewhere.
fn leaves(outcome: &Outcome, real: &WorkspacePath) -> bool {
    let gone = outcome.gone.iter().any(|gone| gone.real.as_ref() == Some(real));
    let put_elsewhere = |live: &Live| live.real.as_ref() == Some(real) && !live.stays(&outcome.pieces);
    gone || outcome.lives.iter().any(put_elsewhere) || outcome.pieces.iter().any(|piece| piece.real == *real)
}

/// The folder and those in it, where all else in them leaves and all of them may vanish; `None` for
/// anything else.
fn emptied(
    workspace: &Workspace,
    folder: &WorkspacePath,
    leaves: &dyn Fn(&WorkspacePath) -> bool,
    may_vanish: &dyn Fn(&WorkspacePath) -> bool,
) -> Result<Option<Vec<WorkspacePath>>, Error> {
    let mut all = vec![folder.clone()];
    let mut waiting = all.clone();
    while let Some(folder) = waiting.pop() {
        let Ok(opened) = workspace.open_folder(&folder) else {
            return Ok(None);
        };
        let io = |errno| Error::io("list", workspace.shown(&folder), errno);
        for name in fs::names_in(&opened).map_err(io)? {
            let path = folder.join(&name);
            if leaves(&path) {
                continue;
            }
            if !may_vanish(&path) || workspace.open_folder(&path).is_err() {
                return Ok(None);
            }
            all.push(path.clone());
            waiting.push(path);
        }
    }
    Ok(Some(all))
}
