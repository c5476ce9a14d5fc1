//! An entry that is in force, carried out: on names alone, and again by whoever finds it half done.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, RenameFlags};
use rustix::io::Errno;

use super::journal::{Description, Entry, FileEntry, FolderMode, MoveEntry};
use super::sync::sync_many;
use super::{moves, recover, replay};
use crate::engine::fs;
use crate::engine::path::WorkspacePath;
use crate::engine::state::make_folder;
use crate::engine::workspace::Workspace;
use crate::error::Error;

/// Carries out the renames and deletions of an entry that is in force; those done already are
/// passed over. What goes comes first, so that something else can take its name.
///
/// # Errors
/// The system's, at the first that fails.
pub fn apply_entry(workspace: &Workspace, entry: &Entry) -> Result<(), Error> {
    for file in entry.files.iter().filter(|file| file.after.is_none()) {
        let is_replaced =
            entry.moves.iter().any(|moved| moved.to == file.path && moves::replaces(workspace, entry, moved));
        if !is_replaced && !recover::is_taken_over(workspace, entry, &file.path) {
            delete(workspace, file)?;
        }
    }
    let mut parting: Vec<Parting<'_>> = entry.cleared.iter().map(Parting::Cleared).collect();
    parting.extend(entry.moves.iter().map(Parting::Extracted));
    // What lies in others goes before them.
    parting.sort_by_cached_key(|step| std::cmp::Reverse(replay::depth(step.path())));
    for step in parting {
        match step {
            Parting::Cleared(folder) if recover::is_taken_over(workspace, entry, folder) => {}
            Parting::Cleared(folder) => vacate(workspace, folder)?,
            Parting::Extracted(moved) => moves::extract(workspace, moved)?,
        }
    }
    let mut steps: Vec<Step<'_>> = entry.folders.iter().map(Step::Folder).collect();
    steps.extend(entry.descriptions.iter().map(Step::Description));
    steps.extend(entry.moves.iter().map(Step::Move));
    if !entry.moves.is_empty() {
        // What holds others comes before them.
        steps.sort_by_cached_key(|step| replay::depth(step.path()));
    }
    steps.iter().try_for_each(|step| step.carry_out(workspace, entry))?;
    for file in entry.files.iter().filter(|file| file.after.is_some()) {
        rename(workspace, file)?;
    }
    entry.vacated.iter().try_for_each(|folder| vacate(workspace, folder))?;
    set_modes(workspace, &entry.modes_after)
}

/// Something that goes from a path before anything takes it.
#[derive(Clone, Copy)]
pub(super) enum Parting<'e> {
    /// A folder that is removed.
    Cleared(&'e WorkspacePath),
    /// Something that waits for its new name.
    Extracted(&'e MoveEntry),
}

impl Parting<'_> {
    /// Where it stands.
    pub(super) fn path(&self) -> &WorkspacePath {
        match self {
            Self::Cleared(path) => path,
            Self::Extracted(moved) => &moved.from,
        }
    }
}

/// Something that comes to stand at a path, before any file does.
enum Step<'e> {
    /// A folder that is made.
    Folder(&'e WorkspacePath),
    /// A description in the trash.
    Description(&'e Description),
    /// Something that was elsewhere.
    Move(&'e MoveEntry),
}

impl Step<'_> {
    /// Where it comes to stand.
    fn path(&self) -> &WorkspacePath {
        match self {
            Self::Folder(path) => path,
            Self::Description(description) => &description.path,
            Self::Move(moved) => &moved.to,
        }
    }

    /// Does it, unless it is done.
    fn carry_out(&self, workspace: &Workspace, entry: &Entry) -> Result<(), Error> {
        match self {
            Self::Folder(folder) => {
                let io = |errno: Errno| Error::io("make", workspace.shown(folder), errno);
                let parent = workspace.open_folder(&folder.parent().unwrap_or_default())?;
                make_folder(parent.as_fd(), folder.name().unwrap_or_default(), 0o777).map_err(io)?;
                Ok(())
            }
            Self::Description(Description { staged, path }) => rename_staged(workspace, staged, path, true),
            Self::Move(moved) => moves::place(workspace, entry, moved),
        }
    }
}

/// Gives folders their permission bits, once everything is in its place: what they forbid may be
/// what a change does in them.
///
/// # Errors
/// The system's.
pub fn set_modes(workspace: &Workspace, modes: &[FolderMode]) -> Result<(), Error> {
    let mut modes: Vec<&FolderMode> = modes.iter().collect();
    modes.sort_by_cached_key(|folder| std::cmp::Reverse(replay::depth(&folder.path)));
    for FolderMode { path, mode } in modes {
        let Some(folder) = workspace.find_folder(path)? else {
            continue;
        };
        // Where it is right already nothing is asked of a file system that may have no modes.
        if rustix::fs::fstat(&folder).is_ok_and(|stat| fs::mode_of(&stat) == *mode) {
            continue;
        }
        rustix::io::retry_on_intr(|| rustix::fs::fchmod(&folder, Mode::from_raw_mode(*mode)))
            .map_err(|errno| Error::io("set the mode of", workspace.shown(path), errno))?;
    }
    Ok(())
}

/// Removes a folder that is empty.
fn vacate(workspace: &Workspace, folder: &WorkspacePath) -> Result<(), Error> {
    let Some(parent) = workspace.find_folder(&folder.parent().unwrap_or_default())? else {
        return Ok(());
    };
    match fs::unlink_at(&parent, folder.name().unwrap_or_default(), AtFlags::REMOVEDIR) {
        // Someone else has put something there, or it is gone.
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(()),
        Err(errno) => Err(Error::io("remove", workspace.shown(folder), errno)),
    }
}

/// Deletes a file.
fn delete(workspace: &Workspace, file: &FileEntry) -> Result<(), Error> {
    let Some(folder) = workspace.find_folder(&file.path.parent().unwrap_or_default())? else {
        // The call that died has removed the folder too, or a file has taken its place.
        return Ok(());
    };
    match fs::unlink_at(&folder, file.path.name().unwrap_or_default(), AtFlags::empty()) {
        // A folder may have its name by now: that of a file which this change makes.
        Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => Ok(()),
        Err(errno) => Err(Error::io("delete", workspace.shown(&file.path), errno)),
    }
}

/// Renames the new bytes to their place; a new file never onto another.
fn rename(workspace: &Workspace, file: &FileEntry) -> Result<(), Error> {
    match &file.staged {
        Some(staged) => rename_staged(workspace, staged, &file.path, file.before.is_none()),
        None => Ok(()),
    }
}

/// Renames what waits at `staged` to `path`, where nothing may stand if it is `new`.
fn rename_staged(
    workspace: &Workspace,
    staged: &WorkspacePath,
    path: &WorkspacePath,
    new: bool,
) -> Result<(), Error> {
    let from = workspace.open_folder(&staged.parent().unwrap_or_default())?;
    let to = workspace.open_folder(&path.parent().unwrap_or_default())?;
    let (old, name) = (staged.name().unwrap_or_default(), path.name().unwrap_or_default());
    let renamed = if new { rename_new(&from, old, &to, name) } else { fs::rename_at(&from, old, &to, name) };
    match renamed {
        Ok(()) => Ok(()),
        // Done by the call that died.
        Err(Errno::NOENT)
            if fs::stat_at(from.as_fd(), old).is_err() && fs::stat_at(to.as_fd(), name).is_ok() =>
        {
            Ok(())
        }
        Err(errno) => Err(Error::io("write", workspace.shown(path), errno)),
    }
}

/// Renames onto a name that must be free.
///
/// # Errors
/// The system's; `EEXIST` where the name is taken.
pub fn rename_new(
    from: &OwnedFd,
    old: &std::ffi::OsStr,
    to: &OwnedFd,
    new: &std::ffi::OsStr,
) -> Result<(), Errno> {
    let renamed =
        rustix::io::retry_on_intr(|| rustix::fs::renameat_with(from, old, to, new, RenameFlags::NOREPLACE));
    match renamed {
        // Not every file system knows the flag.
        Err(Errno::INVAL | Errno::NOSYS) => match fs::stat_at(to.as_fd(), new) {
            Err(Errno::NOENT) => fs::rename_at(from, old, to, new),
            Ok(_) => Err(Errno::EXIST),
            Err(errno) => Err(errno),
        },
        outcome => outcome,
    }
}

/// Syncs every folder in which an entry changed a name; `file_system` as in [`sync_many`].
///
/// # Errors
/// The system's.
pub fn sync_folders_of(
    workspace: &Workspace,
    entry: &Entry,
    file_system: Option<&OwnedFd>,
) -> Result<(), Error> {
    let moved = entry.moves.iter().flat_map(|moved| [Some(&moved.from), Some(&moved.to), moved.via.as_ref()]);
    let folders = entry.folders.iter().chain(&entry.vacated).chain(&entry.cleared);
    let descriptions = entry.descriptions.iter().map(|description| &description.path);
    let touched = entry.files.iter().map(|file| &file.path).chain(folders).chain(moved.flatten());
    let mut paths: Vec<WorkspacePath> =
        touched.chain(descriptions).filter_map(WorkspacePath::parent).collect();
    if entry.moves.iter().any(|moved| moved.via.is_some()) || !entry.files.is_empty() {
        // A folder that moved may have lost a name before, under the one that it had then.
        paths.extend(entry.moves.iter().map(|moved| moved.to.clone()));
    }
    paths.sort();
    paths.dedup();
    let mut folders = Vec::with_capacity(paths.len());
    for path in &paths {
        // A folder that the change emptied may be gone with it.
        folders.extend(workspace.find_folder(path)?);
    }
    let folders: Vec<&OwnedFd> = folders.iter().collect();
    sync_many(&folders, file_system)
        .map_err(|source| Error::io("sync", workspace.root().display().to_string(), source))
}
