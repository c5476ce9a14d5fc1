//! Files and folders that get another name, whole.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::io::Errno;

use super::Change;
use super::commit::rename_new;
use super::journal::MoveEntry;
use crate::engine::fs;
use crate::engine::path::WorkspacePath;
use crate::engine::protect::is_protected;
use crate::engine::snapshot_of;
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
        let mut contents = Contents::default();
        contents.collect(&self.engine.workspace, from, &|old| self.must_be_free(from, to, old))?;
        if contents.is_cut {
            self.engine.warn(format!(
                "not all of {} is in the snapshot: it holds more than {SNAPSHOT_FILES_MAX} files or {SNAPSHOT_BYTES_MAX} bytes",
                self.engine.workspace.shown(from)
            ));
        }
        for (path, mode, bytes) in contents.files {
            let bytes = Arc::new(bytes);
            self.add_side(from, path.clone(), (mode, Arc::clone(&bytes)), false);
            let rest = path.as_path().strip_prefix(from.as_path()).unwrap_or(path.as_path());
            let moved = rest.iter().fold(to.clone(), |path, name| path.join(name));
            self.add_side(to, moved, (mode, bytes), true);
        }
        self.entry.moves.push(MoveEntry { from: from.clone(), to: to.clone() });
        Ok(contents.sum)
    }

    /// Refuses to take `old`, at or below `from`, to its place at or below `to`, where the policy
    /// protects either.
    fn must_be_free(
        &self,
        from: &WorkspacePath,
        to: &WorkspacePath,
        old: &WorkspacePath,
    ) -> Result<(), Error> {
        let rest = old.as_path().strip_prefix(from.as_path()).unwrap_or(old.as_path());
        let new = rest.iter().fold(to.clone(), |path, name| path.join(name));
        [old, &new]
            .into_iter()
            .filter(|path| !is_own(path))
            .try_for_each(|path| self.must_be_unprotected(path, &self.engine.workspace.shown(path)))
    }

    /// Whether a move can be carried out as things stand.
    #[must_use]
    pub fn can_move(&self, moved: &MoveEntry) -> bool {
        is_possible(&self.engine.workspace, moved)
    }

    /// Adds one side of a moved file, unless it lies in lbx's own folder.
    fn add_side(
        &mut self,
        top: &WorkspacePath,
        path: WorkspacePath,
        content: (u32, Arc<Vec<u8>>),
        appears: bool,
    ) {
        if !is_own(top) {
            self.moved.push(Moved { path, content, appears });
        }
    }
}

/// Whether a path lies in lbx's own folder.
fn is_own(path: &WorkspacePath) -> bool {
    path.components().next().is_some_and(|name| is_protected(name.as_bytes()))
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
    /// Takes in whatever stands at `path`; each path must pass `check`.
    fn collect(
        &mut self,
        workspace: &Workspace,
        path: &WorkspacePath,
        check: &dyn Fn(&WorkspacePath) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut waiting = vec![path.clone()];
        while let Some(path) = waiting.pop() {
            check(&path)?;
            let shown = workspace.shown(&path);
            let io = |errno: Errno| Error::io("look at", shown.clone(), errno);
            let fd = fs::open_beneath(workspace.root_fd(), &path, fs::LOOK).map_err(io)?;
            let stat = rustix::fs::fstat(&fd).map_err(io)?;
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

    /// The paths in a folder, none of which may be protected.
    fn names_in(workspace: &Workspace, folder: &WorkspacePath) -> Result<Vec<WorkspacePath>, Error> {
        let opened = workspace.open_folder(folder)?;
        let io = |errno| Error::io("list", workspace.shown(folder), errno);
        let mut paths = Vec::new();
        for entry in rustix::fs::Dir::new(opened).map_err(io)? {
            let entry = entry.map_err(io)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let is_own =
                folder.components().next().is_some_and(|name| name == crate::engine::state::STATE_FOLDER);
            if is_protected(name.as_bytes()) && !is_own {
                let shown = workspace.shown(&folder.join(name));
                return Err(Error::new(
                    ErrorKind::ProtectedPath,
                    format!("{shown} is protected, so the folder that holds it stays where it is"),
                )
                .at(shown));
            }
            paths.push(folder.join(name));
        }
        Ok(paths)
    }
}

/// Carries out a move, unless the call that died has done so.
///
/// # Errors
/// The system's; `already_exists` where the new name is taken.
pub fn carry_out(workspace: &Workspace, moved: &MoveEntry) -> Result<(), Error> {
    if is_done(workspace, moved) {
        return Ok(());
    }
    let from = workspace.open_folder(&moved.from.parent().unwrap_or_default())?;
    let to = workspace.open_folder(&moved.to.parent().unwrap_or_default())?;
    let (old, new) = (moved.from.name().unwrap_or_default(), moved.to.name().unwrap_or_default());
    rename_new(&from, old, &to, new).map_err(|errno| Error::io("move", workspace.shown(&moved.from), errno))
}

/// Whether a move was carried out: nothing stands at the old name, something at the new.
#[must_use]
pub fn is_done(workspace: &Workspace, moved: &MoveEntry) -> bool {
    !exists(workspace, &moved.from) && exists(workspace, &moved.to)
}

/// Whether a move can be carried out: something stands at the old name, nothing at the new.
#[must_use]
pub fn is_possible(workspace: &Workspace, moved: &MoveEntry) -> bool {
    exists(workspace, &moved.from) && !exists(workspace, &moved.to)
}

/// Whether anything stands at a path.
fn exists(workspace: &Workspace, path: &WorkspacePath) -> bool {
    let Ok(folder) = workspace.open_folder(&path.parent().unwrap_or_default()) else {
        return false;
    };
    fs::stat_at(folder.as_fd(), path.name().unwrap_or_default()).is_ok()
}

/// What a completed move looks like to the snapshot.
///
/// # Errors
/// As for reading what was moved.
pub fn moved_files(workspace: &Workspace, moves: &[MoveEntry]) -> Result<Vec<Moved>, Error> {
    let mut all = Vec::new();
    for moved in moves {
        let mut contents = Contents::default();
        // It has been carried out, whatever the policy says since.
        contents.collect(workspace, &moved.to, &|_| Ok(()))?;
        for (path, mode, bytes) in contents.files {
            let bytes = Arc::new(bytes);
            let rest = path.as_path().strip_prefix(moved.to.as_path()).unwrap_or(path.as_path());
            let old = rest.iter().fold(moved.from.clone(), |path, name| path.join(name));
            for (top, path, appears) in [(&moved.from, old, false), (&moved.to, path, true)] {
                if !is_own(top) {
                    all.push(Moved { path, content: (mode, Arc::clone(&bytes)), appears });
                }
            }
        }
    }
    Ok(all)
}
