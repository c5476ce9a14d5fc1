//! Files and folders that get another name, whole.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::Change;
use super::apply::rename_new;
use super::journal::{Entry, HELD_FOLDER, MoveEntry};
use super::replay::{Kind, Piece, rebased};
use crate::engine::fs;
use crate::engine::path::WorkspacePath;
use crate::engine::protect::is_protected;
use crate::engine::protect::repository::is_repository;
use crate::engine::snapshot_of;
use crate::engine::state::State;
use crate::engine::workspace::Workspace;
use crate::error::{Error, ErrorKind};

/// Files of a moved folder that its snapshot holds; what is beyond enters with the next full scan.
const SNAPSHOT_FILES_MAX: usize = 50_000;
/// Bytes of them.
const SNAPSHOT_BYTES_MAX: u64 = 512 << 20;
/// The type bits that stand for a symlink in a mode.
const SYMLINK: u32 = 0o120_000;

/// A file that a move takes from one path to another, as the snapshot has it.
pub struct Moved {
    /// Its path.
    path: WorkspacePath,
    /// Mode, with the type bits of a symlink, and bytes.
    content: (u32, Arc<Vec<u8>>),
    /// Whether it appears there; else it goes away.
    appears: bool,
}

impl Moved {
    /// Both sides for the snapshot.
    pub(super) fn for_snapshot(&self) -> snapshot_of::File<'_> {
        let side = Some((self.content.0, self.content.1.as_slice()));
        let (before, after) = if self.appears { (None, side) } else { (side, None) };
        snapshot_of::File { path: &self.path, before, after }
    }
}

/// What a folder or file holds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    /// Files and symlinks.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
}

impl Change<'_> {
    /// Plans another name for whatever stands at `from`; answers what it holds.
    ///
    /// # Errors
    /// `protected_path` where it holds a repository or lbx's state, or the system's.
    pub fn move_whole(&mut self, from: &WorkspacePath, to: &WorkspacePath) -> Result<Sum, Error> {
        self.move_rest(from, to, &|_| false)
    }

    /// Plans other names for several things at once, of which some may lie in others.
    ///
    /// # Errors
    /// As [`Self::move_whole`].
    pub fn move_all(&mut self, pieces: &[Piece]) -> Result<(), Error> {
        let gone = self.removed_paths();
        for piece in pieces {
            let inner = |path: &WorkspacePath| {
                pieces.iter().any(|other| {
                    other != piece && other.real.is_within(&piece.real) && path.is_within(&other.real)
                })
            };
            self.move_rest(&piece.real, &piece.at, &|path| gone.contains(path) || inner(path))?;
        }
        Ok(())
    }

    /// Plans another name for what stands at `from`, save what goes a way of its own.
    fn move_rest(
        &mut self,
        from: &WorkspacePath,
        to: &WorkspacePath,
        is_apart: &dyn Fn(&WorkspacePath) -> bool,
    ) -> Result<Sum, Error> {
        let mut contents = Contents::default();
        contents.collect(&self.engine.workspace, from, &|met| self.must_be_free(from, to, met))?;
        if contents.is_cut {
            self.engine.warn(format!(
                "not all of {} is in the snapshot: it holds more than {SNAPSHOT_FILES_MAX} files or {SNAPSHOT_BYTES_MAX} bytes",
                self.engine.workspace.shown(from)
            ));
        }
        for (path, mode, bytes) in contents.files.into_iter().filter(|(path, ..)| !is_apart(path)) {
            let moved = rebased(&path, from, to);
            self.moved.extend(sides((from, path), (to, moved), (mode, Arc::new(bytes))));
        }
        self.entry.moves.push(MoveEntry::new(from.clone(), to.clone()));
        Ok(contents.sum)
    }

    /// Refuses to take what was met at or below `from` to its place at or below `to`, where it belongs to
    /// git or lbx, or the policy protects either place.
    fn must_be_free(&self, from: &WorkspacePath, to: &WorkspacePath, met: &Met<'_>) -> Result<(), Error> {
        let workspace = &self.engine.workspace;
        if is_state(met, from) {
            let shown = workspace.shown(met.path);
            let message = format!("{shown} is protected, so the folder that holds it stays where it is");
            return Err(Error::new(ErrorKind::ProtectedPath, message).at(shown));
        }
        let new = rebased(met.path, from, to);
        [met.path, &new]
            .into_iter()
            .filter(|path| !is_own(path))
            .try_for_each(|path| self.must_be_unprotected(path, &workspace.shown(path)))?;
        if fs::is_symlink(met.stat) && !is_own(&new) { self.must_be_free_below(&new) } else { Ok(()) }
    }

    /// Notes what tells the moved things from others, and lets them wait between their names where
    /// one is in another's way.
    pub(super) fn settle_moves(&mut self, state: &State) {
        let workspace = &self.engine.workspace;
        let puts = self.files.iter().filter(|file| file.after.is_some());
        let claimed: Vec<&WorkspacePath> = puts.map(|file| file.seen.current.place.path()).collect();
        let moves = &self.entry.moves;
        let is_in_the_way = moves.iter().enumerate().any(|(number, moved)| {
            let others =
                moves.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, other)| other);
            let taken =
                claimed.iter().copied().chain(&self.entry.folders).any(|path| path.is_within(&moved.from))
                    || claimed.iter().any(|path| moved.from.is_within(path));
            taken
                || others.into_iter().any(|other| {
                    let touch = |one: &WorkspacePath| {
                        one.is_within(&moved.from) || moved.from.is_within(one) || one.is_within(&moved.to)
                    };
                    touch(&other.from) || touch(&other.to)
                })
        });
        let held = state.path_of(HELD_FOLDER);
        for (number, moved) in self.entry.moves.iter_mut().enumerate() {
            moved.inode = inode(workspace, &moved.from);
            moved.via = is_in_the_way.then(|| held.join(format!("{}-{number}", self.entry.id).as_ref()));
        }
    }
}

/// Something that is met while a folder is looked through.
struct Met<'m> {
    /// Its path.
    path: &'m WorkspacePath,
    /// The thing itself, opened to be looked at.
    opened: BorrowedFd<'m>,
    /// What it is.
    stat: &'m Stat,
}

/// Whether what was met on the way from `top` is the state of git or lbx, by its name or by what it holds.
fn is_state(met: &Met<'_>, top: &WorkspacePath) -> bool {
    let has_name = met.path != top && met.path.name().is_some_and(|name| is_protected(name.as_bytes()));
    has_name || (fs::is_folder(met.stat) && is_repository(met.opened))
}

/// Whether a path lies in lbx's own folder.
fn is_own(path: &WorkspacePath) -> bool {
    path.components().next().is_some_and(|name| is_protected(name.as_bytes()))
}

/// Both sides of a moved file, each unless it lies in lbx's own folder.
fn sides(
    (old_top, old): (&WorkspacePath, WorkspacePath),
    (new_top, new): (&WorkspacePath, WorkspacePath),
    content: (u32, Arc<Vec<u8>>),
) -> impl Iterator<Item = Moved> {
    let (mode, bytes) = content;
    let side = |is_own: bool, path: WorkspacePath, appears: bool| {
        (!is_own).then(|| Moved { path, content: (mode, Arc::clone(&bytes)), appears })
    };
    [side(is_own(old_top), old, false), side(is_own(new_top), new, true)].into_iter().flatten()
}

/// What stands at a path, for the snapshot.
#[derive(Default)]
struct Contents {
    /// Files and symlinks: path, mode, bytes.
    files: Vec<(WorkspacePath, u32, Vec<u8>)>,
    /// All of it.
    sum: Sum,
    /// Whether the bytes of some files were left out.
    is_cut: bool,
}

impl Contents {
    /// Takes in whatever stands at `path`; all that is met must pass `check`.
    fn collect(
        &mut self,
        workspace: &Workspace,
        path: &WorkspacePath,
        check: &dyn Fn(&Met<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut waiting = vec![path.clone()];
        while let Some(path) = waiting.pop() {
            let shown = workspace.shown(&path);
            let io = |errno: Errno| Error::io("look at", shown.clone(), errno);
            let fd = fs::open_beneath(workspace.root_fd(), &path, fs::LOOK).map_err(io)?;
            let stat = rustix::fs::fstat(&fd).map_err(io)?;
            check(&Met { path: &path, opened: fd.as_fd(), stat: &stat })?;
            if fs::is_folder(&stat) {
                waiting.extend(Self::names_in(workspace, &path)?);
                continue;
            }
            self.sum.files += 1;
            self.sum.bytes += if fs::is_regular(&stat) { fs::size_of(&stat) } else { 0 };
            if self.sum.bytes > SNAPSHOT_BYTES_MAX || self.files.len() >= SNAPSHOT_FILES_MAX {
                self.is_cut = true;
            } else if fs::is_symlink(&stat) {
                let target = rustix::fs::readlinkat(&fd, "", Vec::new()).map_err(io)?;
                self.files.push((path, SYMLINK, target.into_bytes()));
            } else if fs::is_regular(&stat) {
                let (file, stat) = workspace.open_regular(&path, &shown)?;
                let bytes = fs::read_to_end(file, fs::size_of(&stat), SNAPSHOT_BYTES_MAX)
                    .map_err(|source| Error::io("read", shown, source))?;
                self.files.push((path, fs::mode_of(&stat), bytes));
            }
        }
        Ok(())
    }

    /// The paths in a folder.
    fn names_in(workspace: &Workspace, folder: &WorkspacePath) -> Result<Vec<WorkspacePath>, Error> {
        let opened = workspace.open_folder(folder)?;
        let names =
            fs::names_in(&opened).map_err(|errno| Error::io("list", workspace.shown(folder), errno))?;
        Ok(names.iter().map(|name| folder.join(name)).collect())
    }
}

/// How far a move has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// It stands under its old name.
    From,
    /// It waits between its names.
    Via,
    /// It stands under its new name.
    To,
    /// It is nowhere.
    Lost,
}

/// Where a moved thing is.
#[must_use]
pub fn whereabouts(workspace: &Workspace, moved: &MoveEntry) -> At {
    if moved.via.as_ref().is_some_and(|via| inode(workspace, via).is_some()) {
        return At::Via;
    }
    match (inode(workspace, &moved.from), inode(workspace, &moved.to)) {
        (Some(_), None) => At::From,
        (None, Some(_)) => At::To,
        (None, None) => At::Lost,
        // Something has taken one of its names.
        (from, _) if moved.inode.is_none() || from == moved.inode => At::From,
        (_, to) if to == moved.inode => At::To,
        _ => At::Lost,
    }
}

/// Whether a move can be carried out, or was.
#[must_use]
pub fn can_be_done(workspace: &Workspace, entry: &Entry, moved: &MoveEntry) -> bool {
    match whereabouts(workspace, moved) {
        At::To | At::Via => true,
        At::From => {
            moved.via.is_some() || inode(workspace, &moved.to).is_none() || replaces(workspace, entry, moved)
        }
        At::Lost => false,
    }
}

/// Whether what moves takes the place of a file that the change removes, in one step, so that there
/// always is one: a folder cannot.
#[must_use]
pub fn replaces(workspace: &Workspace, entry: &Entry, moved: &MoveEntry) -> bool {
    let stands = match whereabouts(workspace, moved) {
        At::From => &moved.from,
        At::Via => moved.via.as_ref().unwrap_or(&moved.from),
        At::To => &moved.to,
        At::Lost => return false,
    };
    entry.files.iter().any(|file| file.after.is_none() && file.path == moved.to)
        && kind(workspace, stands) == Some(Kind::Other)
}

/// Takes a thing from its old name, where it has to wait for its new one.
///
/// # Errors
/// The system's.
pub fn extract(workspace: &Workspace, moved: &MoveEntry) -> Result<(), Error> {
    match &moved.via {
        Some(via) if whereabouts(workspace, moved) == At::From => rename(workspace, &moved.from, via, false),
        _ => Ok(()),
    }
}

/// Gives a thing its new name, unless the call that died has done so.
///
/// # Errors
/// The system's; `already_exists` where the new name is taken by what the change does not remove.
pub fn place(workspace: &Workspace, entry: &Entry, moved: &MoveEntry) -> Result<(), Error> {
    let over = replaces(workspace, entry, moved);
    match (whereabouts(workspace, moved), &moved.via) {
        (At::To, _) => Ok(()),
        (At::Via, Some(via)) => rename(workspace, via, &moved.to, over),
        _ => rename(workspace, &moved.from, &moved.to, over),
    }
}

/// Takes back [`place`]: as far as where it waits, where there is such a place.
///
/// # Errors
/// The system's.
pub fn displace(workspace: &Workspace, moved: &MoveEntry) -> Result<(), Error> {
    match (whereabouts(workspace, moved), &moved.via) {
        (At::To, via) => rename(workspace, &moved.to, via.as_ref().unwrap_or(&moved.from), false),
        _ => Ok(()),
    }
}

/// Takes back [`extract`].
///
/// # Errors
/// The system's.
pub fn put_back(workspace: &Workspace, moved: &MoveEntry) -> Result<(), Error> {
    match (whereabouts(workspace, moved), &moved.via) {
        (At::Via, Some(via)) => rename(workspace, via, &moved.from, false),
        _ => Ok(()),
    }
}

/// Gives a thing another name, which must be free unless it is to come over what has it.
fn rename(workspace: &Workspace, from: &WorkspacePath, to: &WorkspacePath, over: bool) -> Result<(), Error> {
    let old_folder = workspace.open_folder(&from.parent().unwrap_or_default())?;
    let new_folder = workspace.open_folder(&to.parent().unwrap_or_default())?;
    let (old, new) = (from.name().unwrap_or_default(), to.name().unwrap_or_default());
    let renamed = if over {
        fs::rename_at(&old_folder, old, &new_folder, new)
    } else {
        rename_new(&old_folder, old, &new_folder, new)
    };
    renamed.map_err(|errno| Error::io("move", workspace.shown(from), errno))
}

/// The inode of whatever stands at a path, itself and not what it may point to.
#[must_use]
pub fn inode(workspace: &Workspace, path: &WorkspacePath) -> Option<u64> {
    let folder = workspace.open_folder(&path.parent().unwrap_or_default()).ok()?;
    fs::stat_at(folder.as_fd(), path.name().unwrap_or_default()).ok().map(|stat| stat.st_ino)
}

/// What stands at a path, if anything does.
#[must_use]
pub fn kind(workspace: &Workspace, path: &WorkspacePath) -> Option<Kind> {
    let folder = workspace.open_folder(&path.parent().unwrap_or_default()).ok()?;
    let stat = fs::stat_at(folder.as_fd(), path.name().unwrap_or_default()).ok()?;
    Some(if fs::is_folder(&stat) { Kind::Folder } else { Kind::Other })
}

/// One file a path: what one part of a change takes from a name, another may put there.
#[must_use]
pub fn joined(files: Vec<snapshot_of::File<'_>>) -> Vec<snapshot_of::File<'_>> {
    let mut by_path: BTreeMap<&WorkspacePath, snapshot_of::File<'_>> = BTreeMap::new();
    for file in files {
        match by_path.get_mut(file.path) {
            Some(known) => {
                known.before = known.before.or(file.before);
                known.after = known.after.or(file.after);
            }
            None => {
                by_path.insert(file.path, file);
            }
        }
    }
    by_path.into_values().collect()
}

/// What a completed change's moves look like to the snapshot.
///
/// # Errors
/// As for reading what was moved.
pub fn moved_files(workspace: &Workspace, entry: &Entry) -> Result<Vec<Moved>, Error> {
    let mut all = Vec::new();
    for moved in &entry.moves {
        let mut contents = Contents::default();
        // It has been carried out, whatever the policy says since.
        contents.collect(workspace, &moved.to, &|_| Ok(()))?;
        let is_apart = |path: &WorkspacePath| {
            let inner = |other: &&MoveEntry| other.to != moved.to && other.to.is_within(&moved.to);
            entry.files.iter().any(|file| file.after.is_some() && file.path == *path)
                || entry.moves.iter().filter(inner).any(|other| path.is_within(&other.to))
        };
        for (path, mode, bytes) in contents.files.into_iter().filter(|(path, ..)| !is_apart(path)) {
            let old = rebased(&path, &moved.to, &moved.from);
            all.extend(sides((&moved.from, old), (&moved.to, path), (mode, Arc::new(bytes))));
        }
    }
    Ok(all)
}
