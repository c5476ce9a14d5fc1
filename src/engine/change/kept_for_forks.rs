//! Forks do not see what a change does to the workspace: each keeps the versions that it began with.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::{moves, record, without_rename};
use crate::engine::Engine;
use crate::engine::journal::steps::{Location, Step};
use crate::engine::journal::{JournalEntry, Version, backup};
use crate::engine::sandbox::fork::{ForkFolder, FormerEntry};
use crate::engine::snapshot::{EXTERNAL, PathChange, Store};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::engine::workspace::survey::changed_at;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::limits::{FORK_FILES_SET_MAX, FORK_SCANNED_INDEX_BYTES_MAX, MERGED_BYTES_MAX};
use crate::platform;

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
                fork.keep(root, path, &mut FormerEntry::Bytes(version.mode, &bytes))?;
            }
        }
        // Outermost first: everything in a new folder is new.
        let mut new: Vec<&WorkspacePath> = made.to_vec();
        new.extend(files.iter().filter(|(_, before)| before.is_none()).map(|(path, _)| *path));
        new.sort_unstable();
        new.iter().try_for_each(|path| fork.keep(root, path, &mut FormerEntry::Nothing))
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
            return fork.keep(root, path, &mut FormerEntry::Nothing);
        }
        Err(errno) => return Err(Error::io("look at", workspace.display(path), errno)),
    };
    if !fs::is_folder(&stat) || !moves {
        return keep_entry(workspace, fork, path, &stat);
    }
    let mut found = Vec::new();
    moves::walk(workspace, path, &mut |entry| {
        found.push((entry.path.clone(), *entry.stat));
        Ok(())
    })?;
    found.iter().try_for_each(|(path, stat)| keep_entry(workspace, fork, path, stat))
}

/// Keeps a folder without its entries, or a file or symlink, unless that has changed since the fork began: then what the
/// fork began with is lost.
fn keep_entry(
    workspace: &Workspace,
    fork: &ForkFolder,
    path: &WorkspacePath,
    stat: &Stat,
) -> Result<(), Error> {
    if fs::is_folder(stat) {
        return fork.keep(workspace.root_fd(), path, &mut FormerEntry::Folder);
    }
    if changed_at(stat) > fork.record.began || !(fs::is_regular(stat) || fs::is_symlink(stat)) {
        return Ok(());
    }
    let shown = workspace.display(path);
    let from = workspace.open_folder(&path.parent().unwrap_or_default())?;
    let name = path.name().unwrap_or_default();
    let mut copy = |folder: BorrowedFd<'_>, aside: &OsStr| {
        without_rename::copy((from.as_fd(), name), (folder, aside), &shown)
    };
    fork.keep(workspace.root_fd(), path, &mut FormerEntry::Entry(&mut copy))
}

/// A snapshot that a fork begins with.
pub struct ForkStart {
    /// Its id.
    pub snapshot: String,
    /// Store that has it.
    store: Store,
    /// Differences from the files on disk.
    files: Vec<PathChange>,
    /// True if these are changes of others since the fork began.
    is_of_others: bool,
}

impl ForkStart {
    /// Compares a snapshot with the newest one.
    ///
    /// # Errors
    /// Fails with `too_large` if too many files differ, or if the snapshots cannot be read.
    pub fn at(store: Store, snapshot: String) -> Result<Self, Error> {
        let newest = store.newest()?;
        let changes = store.changes(newest.as_deref(), &snapshot, FORK_FILES_SET_MAX)?;
        if changes.truncated {
            let message = format!(
                "the snapshot differs from the files on disk in more than {FORK_FILES_SET_MAX} files"
            );
            return Err(
                Error::new(ErrorKind::TooLarge, message).suggest("Fork the files on disk: leave `from` out.")
            );
        }
        Ok(Self { snapshot, store, files: changes.paths, is_of_others: false })
    }

    /// Gives a fork the files of the snapshot, except those that were kept for it before.
    ///
    /// # Errors
    /// Fails if a version cannot be read or kept.
    pub fn set(&self, engine: &Engine, fork: &ForkFolder) -> Result<(), Error> {
        let root = engine.workspace.root_fd();
        let mut trees = self.store.files_of(&self.snapshot)?;
        // Names without a file come last: a folder may have been where a file is now.
        let (there, gone): (Vec<&PathChange>, Vec<&PathChange>) =
            self.files.iter().partition(|change| change.after.is_some());
        let is_rules = |change: &PathChange| change.path.ends_with(b".gitignore");
        let may_have_been_ignored = self.is_of_others && self.files.iter().any(is_rules);
        for change in there.into_iter().chain(gone) {
            let Some(path) = WorkspacePath::new(OsStr::from_bytes(&change.path).as_ref()) else { continue };
            if change.after.is_none() {
                // A file that is older than the fork was there, though no snapshot had it, if it was ignored then.
                let born = platform::birth_beneath(root, path.as_path());
                if !may_have_been_ignored || born.is_none_or(|seconds| seconds >= fork.record.began.0) {
                    fork.keep(root, &path, &mut FormerEntry::Nothing)?;
                }
                continue;
            }
            let present = engine.workspace.open_regular(&path, "").ok();
            let present = present
                .and_then(|(file, stat)| fs::read_to_end(file, fs::size_of(&stat), MERGED_BYTES_MAX).ok())
                .unwrap_or_default();
            let Some((version, bytes)) = self.store.version_like(&mut trees, &change.path, &present)? else {
                continue;
            };
            fork.keep(root, &path, &mut FormerEntry::Bytes(record::mode_of(&version, None), &bytes))?;
        }
        fork.sync_kept()
    }
}

/// Returns true if the workspace is so small that a call in a fork may look at all of it.
pub fn is_small(engine: &Engine) -> bool {
    let index = WorkspacePath::new(".git/index".as_ref()).unwrap_or_default();
    let stat = fs::stat_beneath(engine.workspace.root_fd(), &index);
    engine.policy().has_snapshots()
        && stat.is_ok_and(|stat| fs::size_of(&stat) <= FORK_SCANNED_INDEX_BYTES_MAX)
}

/// Keeps for a fork what other programs changed in the workspace since it began, if the workspace is small. The newest
/// snapshot then has what they replaced.
///
/// # Errors
/// Fails if the workspace cannot be scanned.
pub fn keep_changes_of_others(engine: &mut Engine, name: &str) -> Result<(), Error> {
    let Some(state) = State::find(&engine.workspace)? else { return Ok(()) };
    let fork = ForkFolder::open(&engine.workspace, &state, name)?;
    let Some(snapshot) = fork.record.tip.clone().filter(|_| fork.record.is_scanned && is_small(engine))
    else {
        return Ok(());
    };
    // A scan would take what a running command has changed for changes of others.
    if record::is_being_changed(engine) {
        return Ok(());
    }
    // A call in the fork does not wait for calls in the workspace.
    if state.try_lock_workspace()?.is_none() {
        return Ok(());
    }
    let locked = engine.lock()?;
    record::scan(engine, None, None, EXTERNAL)?;
    let Some(store) = record::find(engine)? else { return Ok(()) };
    let changes = ForkStart { is_of_others: true, ..ForkStart::at(store, snapshot)? };
    let kept = changes.set(engine, &fork);
    drop(locked);
    kept
}
