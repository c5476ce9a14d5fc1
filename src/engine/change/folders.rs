//! Folders that a change makes and removes, and permissions of folders that their owner cannot write to ("closed").
//!
//! The permission bits of a folder may keep its owner from changing names in it, before or after a change. While the
//! change runs the owner may: the folder is opened up before the first step, and closed again when everything else is
//! done and synced. So a call that finds the open entry of a killed one can examine the files in it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::executor::Executor;
use super::{Change, record};
use crate::engine::history::replay::Direction;
use crate::engine::journal::steps::{Folder, Location, Step};
use crate::engine::journal::{FolderEntry, FolderMode, JournalEntry};
use crate::engine::snapshot::IgnoreQuery;
use crate::engine::workspace::fs::{self, is_closed, opened_up};
use crate::engine::workspace::metadata::Identity;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::engine::workspace::sync::sync_many;
use crate::error::{Error, ErrorKind};

/// Folders that a change makes and removes.
#[derive(Debug, Default)]
pub(in crate::engine) struct Folders {
    /// Folders that must exist in the end.
    wanted: Vec<FolderEntry<WorkspacePath>>,
    /// Folders removed before something else takes their names, innermost first.
    cleared: Vec<WorkspacePath>,
    /// Folders removed in the end if they are empty, innermost first.
    vacated: Vec<WorkspacePath>,
}

impl Folders {
    /// Returns the folders that are removed.
    pub fn leaving(&self) -> BTreeSet<&WorkspacePath> {
        self.cleared.iter().chain(&self.vacated).collect()
    }
}

/// Folders above the files of a change.
#[derive(Debug, Default)]
pub(in crate::engine) struct ParentFolders {
    /// Missing folders, outermost first.
    pub made: Vec<Folder>,
    /// Deepest existing folder, by the parent folder of a file.
    pub nearest: BTreeMap<WorkspacePath, WorkspacePath>,
}

impl Change<'_> {
    /// Sets the folders that must exist in the end, outermost first, with their metadata.
    ///
    /// # Errors
    /// Returns the OS error if it is unclear whether a folder exists.
    pub fn set_folders(&mut self, folders: Vec<FolderEntry<WorkspacePath>>) -> Result<(), Error> {
        let mut wanted = Vec::new();
        for folder in folders {
            let is_cleared = || {
                self.path_before_moves(&folder.path).is_none_or(|real| self.folders.cleared.contains(&real))
            };
            if !self.is_folder(&folder.path)? || is_cleared() {
                wanted.push(folder);
            }
        }
        self.folders.wanted = wanted;
        Ok(())
    }

    /// Plans a folder and its missing parents; returns true if it was missing.
    ///
    /// # Errors
    /// Returns `not_a_directory` or `already_exists` if something else has the name, or the OS error.
    pub fn make_folder(&mut self, place: &ResolvedPath) -> Result<bool, Error> {
        if let Some(stat) = place.stat() {
            if fs::is_folder(stat) {
                return Ok(false);
            }
            let message = format!("{} exists already and is not a folder", place.display());
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(place.display()));
        }
        self.make_way(place.path())?;
        Ok(true)
    }

    /// Plans a folder and its parents, as far as they are missing.
    ///
    /// # Errors
    /// As [`Self::make_folder`].
    pub(super) fn make_way(&mut self, folder: &WorkspacePath) -> Result<(), Error> {
        let (_, missing) = self.folders_to(folder, &BTreeSet::new())?;
        let plain = |path| FolderEntry { path, mode: None, identity: None };
        self.folders.wanted.extend(missing.into_iter().map(plain));
        Ok(())
    }

    /// Returns true if git ignores all these folders, which hold no files.
    pub fn are_ignored<'f>(&self, folders: &[&'f WorkspacePath]) -> bool {
        let query = |folder: &&'f WorkspacePath| IgnoreQuery {
            path: folder.as_bytes(),
            is_folder: true,
            is_empty: true,
            rules: None,
        };
        let queries: Vec<IgnoreQuery<'f>> = folders.iter().map(query).collect();
        record::ignored(self.engine_ref(), self.dry_run, &queries).iter().all(Option::is_some)
    }

    /// Adds folders that are removed before something else takes the name of one of them, innermost first.
    pub fn add_cleared(&mut self, folders: Vec<WorkspacePath>) {
        self.folders.cleared.extend(folders);
    }

    /// Adds folders that are removed in the end if they are empty, innermost first.
    ///
    /// # Errors
    /// Returns the OS error if it is unclear whether one exists.
    pub fn add_vacated(&mut self, folders: Vec<WorkspacePath>) -> Result<(), Error> {
        for folder in folders {
            // A rollback must not create a folder that was already gone.
            if self.is_folder(&folder)? {
                self.folders.vacated.push(folder);
            }
        }
        Ok(())
    }

    /// Plans a new folder for one that is removed once its contents have moved. The moves of its contents follow.
    pub(super) fn replace_folder(&mut self, old: WorkspacePath, new: FolderEntry<WorkspacePath>) {
        self.folders.wanted.push(new);
        // Innermost first.
        self.folders.vacated.insert(0, old);
    }

    /// Returns true if the change makes or removes folders.
    pub(super) fn has_folders(&self) -> bool {
        self.named_folders().next().is_some()
    }

    /// Returns the folders that the change itself makes or removes.
    pub(in crate::engine) fn named_folders(&self) -> impl Iterator<Item = &WorkspacePath> {
        let Folders { wanted, cleared, vacated } = &self.folders;
        wanted.iter().map(|folder| &folder.path).chain(cleared).chain(vacated)
    }

    /// Returns the folders that must exist in the end.
    pub(in crate::engine) fn wanted_folders(&self) -> Vec<WorkspacePath> {
        self.folders.wanted.iter().map(|folder| folder.path.clone()).collect()
    }

    /// Returns true if a folder will be at a path once everything has moved. An unknown answer is an error: otherwise
    /// an undo would leave it there and report success.
    fn is_folder(&self, folder: &WorkspacePath) -> Result<bool, Error> {
        let Some(real) = self.path_before_moves(folder) else { return Ok(false) };
        match fs::open_beneath(self.engine.workspace.root_fd(), &real, fs::HANDLE) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(false),
            Err(errno) => Err(Error::io("open the folder", self.engine.workspace.display(folder), errno)),
        }
    }

    /// Returns the folders that the change removes, in their present state: first those removed before something else
    /// takes their names, then those removed in the end.
    pub(in crate::engine) fn leaving_folders(&self) -> (Vec<Folder>, Vec<Folder>) {
        let dressed = |path: &WorkspacePath, real: Option<WorkspacePath>| {
            // One that cannot be listed has permissions too, which a step in it may have to open up.
            let open = |real: &WorkspacePath, flags| {
                fs::open_beneath(self.engine.workspace.root_fd(), real, flags).ok()
            };
            let opened = real.and_then(|real| open(&real, fs::FOLDER).or_else(|| open(&real, fs::HANDLE)));
            let stat = opened.as_ref().and_then(|folder| rustix::fs::fstat(folder).ok());
            let identity = opened.zip(stat).and_then(|(folder, stat)| Identity::of(&folder, &stat));
            FolderEntry { path: self.location(path), mode: stat.as_ref().map(fs::mode_of), identity }
        };
        let (in_the_way, vacated) = self.split_vacated();
        let cleared = self.folders.cleared.iter().map(|path| dressed(path, Some(path.clone())));
        let in_the_way = in_the_way.into_iter().map(|path| dressed(path, self.path_before_moves(path)));
        let vacated = vacated.into_iter().map(|path| dressed(path, self.path_before_moves(path)));
        (cleared.chain(in_the_way).collect(), vacated.collect())
    }

    /// Splits the vacated folders: first those to remove early, since a file takes the name of one or of a folder above
    /// it, then those to remove in the end.
    fn split_vacated(&self) -> (Vec<&WorkspacePath>, Vec<&WorkspacePath>) {
        let vacated = &self.folders.vacated;
        if vacated.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let written = self.files.iter().filter(|file| file.after.is_some());
        let written = written.map(|file| self.location(file.seen.current.place.path()));
        let moved = self.moves.iter().filter(|moved| !moved.thing.is_folder).map(|moved| moved.to.clone());
        let taken: BTreeSet<Location> = written.chain(moved).collect();
        let is_in_the_way = |path: &WorkspacePath| {
            let around = std::iter::successors(Some(path.clone()), WorkspacePath::parent);
            around.into_iter().any(|path| taken.contains(&self.location(&path)))
        };
        vacated.iter().partition(|path| is_in_the_way(path))
    }

    /// Returns the folders that the change has to make, and those in which its files can be staged.
    ///
    /// # Errors
    /// Returns `not_a_directory` if a file is in the way, or the OS error.
    pub(in crate::engine) fn parent_folders(&self) -> Result<ParentFolders, Error> {
        let removed = self.removed_paths();
        let mut ways = ParentFolders::default();
        // As bytes: comparing components of a path of thousands of folders would take minutes.
        let mut known: BTreeSet<Vec<u8>> = BTreeSet::new();
        for folder in &self.folders.wanted {
            if known.insert(folder.path.as_bytes().to_vec()) {
                let path = self.location(&folder.path);
                ways.made.push(Folder { path, mode: folder.mode, identity: folder.identity.clone() });
            }
        }
        let files = self.files.iter().filter(|file| file.after.is_some());
        let files = files.map(|file| file.seen.current.place.path().clone());
        let moved = self.pieces.iter().map(|piece| piece.at);
        for path in files.chain(moved) {
            let parent = path.parent().unwrap_or_default();
            if ways.nearest.contains_key(&parent) {
                continue;
            }
            let (nearest, missing) = self.folders_to(&parent, &removed)?;
            for folder in missing {
                if known.insert(folder.as_bytes().to_vec()) {
                    ways.made.push(Folder::new(self.location(&folder)));
                }
            }
            ways.nearest.insert(parent, nearest);
        }
        Ok(ways)
    }

    /// Returns the deepest existing folder at or above `folder`, and the missing ones below it, outermost first. A file
    /// that this change removes counts as missing.
    fn folders_to(
        &self,
        folder: &WorkspacePath,
        removed: &BTreeSet<WorkspacePath>,
    ) -> Result<(WorkspacePath, Vec<WorkspacePath>), Error> {
        let mut missing = Vec::new();
        let mut folder = folder.clone();
        loop {
            let real = self.path_before_moves(&folder);
            let stays =
                |real: &WorkspacePath| !removed.contains(real) && !self.folders.cleared.contains(real);
            if let Some(real) = real.filter(stays) {
                // One whose mount is known was just opened; its files are looked at again before the first step.
                let looked = if self.mounts.contains_key(&real) {
                    Ok(())
                } else {
                    fs::open_beneath(self.engine.workspace.root_fd(), &real, fs::HANDLE).map(drop)
                };
                match looked {
                    // Nothing can be staged in a folder that moves away meanwhile.
                    Ok(()) if real != folder => {
                        missing.reverse();
                        return Ok((WorkspacePath::root(), missing));
                    }
                    Ok(()) => break,
                    Err(Errno::NOENT) => {}
                    // The change removes a file or symlink there.
                    Err(Errno::NOTDIR | Errno::LOOP) if is_below_one_of(removed, &real) => {}
                    Err(errno) => {
                        let shown = self.engine.workspace.display(&folder);
                        return Err(Error::io("open the folder", shown, errno));
                    }
                }
            }
            let parent = folder.parent().unwrap_or_default();
            missing.push(std::mem::replace(&mut folder, parent));
        }
        missing.reverse();
        Ok((folder, missing))
    }
}

/// Returns true if a path is one of `others` or lies below one.
fn is_below_one_of(others: &BTreeSet<WorkspacePath>, path: &WorkspacePath) -> bool {
    std::iter::successors(Some(path.clone()), WorkspacePath::parent).any(|path| others.contains(&path))
}

/// Most folders that are open at once while their permissions are restored.
const CLOSED_AT_ONCE: usize = 256;

/// A folder that its owner may not change names in.
#[derive(Debug)]
struct ClosedFolder {
    /// Path.
    at: Location,
    /// Permission bits before the change; `None` if the change makes it.
    before: Option<u32>,
    /// Permission bits after the change; `None` if the change removes it.
    after: Option<u32>,
}

/// Returns the closed folders of a change, by their paths once `done` steps are done; outer ones first, since they give
/// access to the inner ones.
fn closed(entry: &JournalEntry, done: usize) -> Vec<ClosedFolder> {
    let steps = entry.steps.as_slice();
    let renames = StepRenames::of(steps);
    let of_steps = steps.iter().enumerate().filter_map(|(number, step)| match step {
        Step::MakeFolder(folder) => Some((number + 1, folder.path.clone(), None, folder.mode)),
        Step::RemoveFolder(folder) => Some((number, folder.path.clone(), folder.mode, None)),
        // Another parent is another `..` in the folder.
        Step::Rename { from, to, thing, .. } if from.parent() != to.parent() => {
            Some((number, from.clone(), thing.closed, thing.closed))
        }
        _ => None,
    });
    let of_modes = entry.modes.iter().map(|FolderMode { path, before, after }| {
        (steps.len(), Location::File(path.clone()), Some(*before), Some(*after))
    });
    let is_closed = |mode: Option<u32>| mode.is_some_and(is_closed);
    let mut found: Vec<ClosedFolder> = of_modes
        .chain(of_steps)
        .filter(|(.., before, after)| is_closed(*before) || is_closed(*after))
        .map(|(known, at, before, after)| ClosedFolder {
            at: renames.name_at(&at, known, done),
            before,
            after,
        })
        .collect();
    found.sort_by(|one, other| one.at.cmp(&other.at));
    // A folder that also moves gets the bits that it is to have.
    found.dedup_by(|moved, other| moved.at == other.at && moved.before == moved.after);
    found
}

/// Renames among steps, each with its number: usually few, while there may be many closed folders.
struct StepRenames<'s>(Vec<(usize, &'s Location, &'s Location)>);

impl<'s> StepRenames<'s> {
    /// Collects the renames among `steps`.
    fn of(steps: &'s [Step]) -> Self {
        let renames = steps.iter().enumerate().filter_map(|(number, step)| match step {
            Step::Rename { from, to, .. } => Some((number, from, to)),
            _ => None,
        });
        Self(renames.collect())
    }

    /// Returns the path once `done` steps are done of whatever is at `at` once `known` steps are.
    fn name_at(&self, at: &Location, known: usize, done: usize) -> Location {
        let renamed = |at: Location, old: &Location, new: &Location| {
            if at.is_within(old) { at.rebased(old, new) } else { at }
        };
        let between = |from: usize, until: usize| {
            self.0.iter().filter(move |(number, ..)| (from..until).contains(number))
        };
        let later = between(known, done).fold(at.clone(), |at, (_, from, to)| renamed(at, from, to));
        between(done, known).rev().fold(later, |at, (_, from, to)| renamed(at, to, from))
    }
}

/// Returns the warning for a folder of an applied change whose permissions could not be restored.
pub fn not_closed(error: &Error) -> String {
    format!("the change was applied, but the permissions of a folder could not be set: {}", error.message())
}

impl Executor<'_> {
    /// Lets their owner change names in the closed folders of a change; returns them with their former bits. Best
    /// effort: if it fails, the step that needs it fails with a reason.
    pub fn make_writable(&self, entry: &JournalEntry, done: usize) -> Vec<(Location, u32)> {
        let mut opened = Vec::new();
        for ClosedFolder { at, before, after } in closed(entry, done) {
            if let Ok(Some((folder, now))) = self.folder_with_mode(&at, fs::HANDLE)
                && (before == Some(now) || after == Some(now))
                && is_closed(now)
                && fs::set_mode(&folder, opened_up(now)).is_ok()
            {
                opened.push((at, now));
            }
        }
        opened
    }

    /// Restores the former bits of opened-up folders. Best effort.
    pub fn restore_modes(&self, opened: &[(Location, u32)]) {
        for (at, mode) in opened.iter().rev() {
            if let Ok(Some((folder, now))) = self.folder_with_mode(at, fs::HANDLE)
                && now == opened_up(*mode)
            {
                let _ = fs::set_mode(&folder, *mode);
            }
        }
    }

    /// Sets the permission bits of folders on one side of a change, once all its steps are done or taken back; the
    /// owner keeps the access it needs. Leaves folders that others have changed or removed since.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn set_modes(&self, entry: &JournalEntry, side: Direction) -> Result<(), Error> {
        let steps = entry.steps.as_slice();
        let renames = StepRenames::of(steps);
        for FolderMode { path, before, after } in entry.modes.iter().filter(|folder| folder.is_change()) {
            let at = Location::File(path.clone());
            let (at, mode) = match side {
                Direction::Redo => (at, *after),
                Direction::Undo => (renames.name_at(&at, steps.len(), 0), *before),
            };
            if let Some((folder, now)) = self.folder_with_mode(&at, fs::HANDLE)?
                && [*before, *after, opened_up(*before), opened_up(*after)].contains(&now)
            {
                fs::set_mode(&folder, opened_up(mode)).map_err(|errno| self.mode_error(&at, errno))?;
            }
        }
        Ok(())
    }

    /// Sets the permission bits that lock out the owner on one side of a change, and syncs the folders.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn close(&self, entry: &JournalEntry, side: Direction) -> Result<(), Error> {
        let done = if side == Direction::Redo { entry.steps.len() } else { 0 };
        let mut folders = closed(entry, done);
        // A closed folder hides those in it.
        folders.reverse();
        for folders in folders.chunks(CLOSED_AT_ONCE) {
            let mut changed = Vec::new();
            for ClosedFolder { at, before, after } in folders {
                // A folder to remove stays if others have put something into it.
                let mode = if side == Direction::Redo { after.or(*before) } else { *before };
                let Some(mode) = mode.filter(|mode| is_closed(*mode)) else { continue };
                if let Some((folder, now)) = self.folder_with_mode(at, fs::FOLDER)?
                    && now == opened_up(mode)
                {
                    fs::set_mode(&folder, mode).map_err(|errno| self.mode_error(at, errno))?;
                    changed.push(folder);
                }
            }
            sync_many(&changed.iter().collect::<Vec<_>>(), changed.first())
                .map_err(|source| Error::io("sync", self.workspace.root().display().to_string(), source))?;
        }
        Ok(())
    }

    /// Returns a folder with its permission bits; `None` if others have removed it.
    fn folder_with_mode(
        &self,
        at: &Location,
        flags: rustix::fs::OFlags,
    ) -> Result<Option<(OwnedFd, u32)>, Error> {
        let folder = match self.open(at, flags) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            folder => folder.map_err(|errno| self.mode_error(at, errno))?,
        };
        let stat = rustix::fs::fstat(&folder).map_err(|errno| self.mode_error(at, errno))?;
        Ok(Some((folder, fs::mode_of(&stat))))
    }

    /// Returns the error for a folder whose permission bits cannot be set.
    fn mode_error(&self, at: &Location, errno: Errno) -> Error {
        Error::io("set the mode of", self.display(at), errno)
    }
}
