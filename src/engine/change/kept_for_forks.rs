//! Forks do not see what a change does to the workspace: each keeps the versions that it began with.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::Stat;
use rustix::io::Errno;

use super::{moves, without_rename};
use crate::engine::Engine;
use crate::engine::journal::steps::{Location, Step};
use crate::engine::journal::{JournalEntry, Version, backup};
use crate::engine::sandbox::fork::{Earlier, ForkFolder};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::engine::workspace::survey::changed_at;
use crate::engine::workspace::{Workspace, fs};
use crate::error::Error;

/// Keeps what a planned change is about to change, for the forks of the workspace.
pub fn keep_before(engine: &mut Engine, state: &State, entry: &JournalEntry) {
    for_each_fork(engine, state, |workspace, fork| {
        for step in &entry.steps {
            for at in step.locations() {
                if let Location::File(path) = at {
                    keep_present(workspace, fork, path, matches!(step, Step::Rename { .. }))?;
                }
            }
        }
        entry.modes.iter().try_for_each(|folder| keep_present(workspace, fork, &folder.path, false))
    });
}

/// Keeps what a command, or a client's own tool, has changed, for the forks of the workspace.
pub fn keep_after(
    engine: &mut Engine,
    state: &State,
    files: &[(&WorkspacePath, Option<&Version>)],
    made: &[&WorkspacePath],
) {
    for_each_fork(engine, state, |workspace, fork| {
        let root = workspace.root_fd();
        // What was there comes first: a new folder may be in the place of a file.
        for (path, version) in files.iter().filter_map(|(path, before)| Some((path, (*before)?))) {
            // Without the bytes, the fork sees the file as it is now.
            if let Some(bytes) = backup::find(state, version.sha256)? {
                fork.keep(root, path, &mut Earlier::Bytes(version.mode, &bytes))?;
            }
        }
        // Outermost first: everything in a new folder is new.
        let mut new: Vec<&WorkspacePath> = made.to_vec();
        new.extend(files.iter().filter(|(_, before)| before.is_none()).map(|(path, _)| *path));
        new.sort_unstable();
        new.iter().try_for_each(|path| fork.keep(root, path, &mut Earlier::Nothing))
    });
}

/// Runs `keep` for each fork; a failure is a warning.
fn for_each_fork(
    engine: &mut Engine,
    state: &State,
    mut keep: impl FnMut(&Workspace, &ForkFolder) -> Result<(), Error>,
) {
    let forks = ForkFolder::list(&engine.workspace, state).unwrap_or_default();
    for fork in forks {
        let kept = keep(&engine.workspace, &fork);
        let is_durable = engine.policy().is_durable();
        let kept = kept.and_then(|()| if is_durable { fork.sync_kept() } else { Ok(()) });
        if let Err(error) = kept {
            engine.warn(format!(
                "the fork {} may see a part of this change: {}",
                fork.record.name,
                error.message()
            ));
        }
    }
}

/// Keeps what is at a path now; all of a folder if it moves.
fn keep_present(
    workspace: &Workspace,
    fork: &ForkFolder,
    path: &WorkspacePath,
    moves: bool,
) -> Result<(), Error> {
    let root = workspace.root_fd();
    if is_state(path) {
        return Ok(());
    }
    let stat = match fs::stat_beneath(root, path) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {
            return fork.keep(root, path, &mut Earlier::Nothing);
        }
        Err(errno) => return Err(Error::io("look at", workspace.shown(path), errno)),
    };
    if !fs::is_folder(&stat) {
        return keep_entry(workspace, fork, path, &stat);
    }
    fork.keep(root, path, &mut Earlier::Folder)?;
    if !moves {
        return Ok(());
    }
    let mut found = Vec::new();
    moves::walk(workspace, path, &mut |entry| {
        found.push((entry.path.clone(), *entry.stat));
        Ok(())
    })?;
    found.iter().try_for_each(|(path, stat)| {
        if fs::is_folder(stat) {
            fork.keep(root, path, &mut Earlier::Folder)
        } else {
            keep_entry(workspace, fork, path, stat)
        }
    })
}

/// Keeps a file or symlink, unless it has changed since the fork began: then what the fork began with is lost.
fn keep_entry(
    workspace: &Workspace,
    fork: &ForkFolder,
    path: &WorkspacePath,
    stat: &Stat,
) -> Result<(), Error> {
    if changed_at(stat) > fork.record.began || !(fs::is_regular(stat) || fs::is_symlink(stat)) {
        return Ok(());
    }
    let shown = workspace.shown(path);
    let from = workspace.open_folder(&path.parent().unwrap_or_default())?;
    let name = path.name().unwrap_or_default();
    let mut copy = |folder: BorrowedFd<'_>, aside: &OsStr| {
        without_rename::copy((from.as_fd(), name), (folder, aside), &shown)
    };
    fork.keep(workspace.root_fd(), path, &mut Earlier::Entry(&mut copy))
}
