//! The folders that a change makes and removes.

use std::collections::{BTreeMap, BTreeSet};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::Change;
use crate::engine::journal::FolderEntry;
use crate::engine::journal::steps::{Folder, Location};
use crate::engine::workspace::fs;
use crate::engine::workspace::identity::Identity;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::{Error, ErrorKind};

/// Flags for finding out whether there is a folder.
const IS_FOLDER: OFlags = fs::LOOK.union(OFlags::DIRECTORY);

/// The folders that a change makes and removes.
#[derive(Debug, Default)]
pub(in crate::engine) struct Folders {
    /// Those that are to be there in the end, whatever is put into them.
    wanted: Vec<FolderEntry<WorkspacePath>>,
    /// Those that go before something else takes their names, innermost first.
    cleared: Vec<WorkspacePath>,
    /// Those that go in the end where they are empty, innermost first.
    vacated: Vec<WorkspacePath>,
}

impl Folders {
    /// Those that go.
    pub fn leaving(&self) -> BTreeSet<&WorkspacePath> {
        self.cleared.iter().chain(&self.vacated).collect()
    }
}

/// The folders on the way to the files of a change.
#[derive(Debug, Default)]
pub(in crate::engine) struct Ways {
    /// Those that are missing, outermost first.
    pub made: Vec<Folder>,
    /// The deepest one that exists, by the folder that a file is in.
    pub nearest: BTreeMap<WorkspacePath, WorkspacePath>,
}

impl Change<'_> {
    /// Says which folders are to be there in the end, outermost first, with what they are besides
    /// their names.
    ///
    /// # Errors
    /// The system's, where it does not tell whether one stands there already.
    pub fn set_folders(&mut self, folders: Vec<FolderEntry<WorkspacePath>>) -> Result<(), Error> {
        let mut wanted = Vec::new();
        for folder in folders {
            let is_cleared =
                || self.standing(&folder.path).is_none_or(|real| self.folders.cleared.contains(&real));
            if !self.is_folder(&folder.path)? || is_cleared() {
                wanted.push(folder);
            }
        }
        self.folders.wanted = wanted;
        Ok(())
    }

    /// Plans a folder, with those on the way to it that are missing; answers whether there was none.
    ///
    /// # Errors
    /// `not_a_directory` or `already_exists` where something else is in the way, or the system's.
    pub fn make_folder(&mut self, place: &ResolvedPath) -> Result<bool, Error> {
        if let Some(stat) = place.stat() {
            if fs::is_folder(stat) {
                return Ok(false);
            }
            let message = format!("{} exists already and is not a folder", place.shown());
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(place.shown()));
        }
        self.make_way(place.path())?;
        Ok(true)
    }

    /// Plans a folder and those on the way to it, as far as they are missing.
    ///
    /// # Errors
    /// As [`Self::make_folder`].
    pub(super) fn make_way(&mut self, folder: &WorkspacePath) -> Result<(), Error> {
        let (_, missing) = self.folders_to(folder, &BTreeSet::new())?;
        let plain = |path| FolderEntry { path, mode: None, identity: None };
        self.folders.wanted.extend(missing.into_iter().map(plain));
        Ok(())
    }

    /// Adds folders that go before something else takes the name of one of them, innermost first.
    pub fn add_cleared(&mut self, folders: Vec<WorkspacePath>) {
        self.folders.cleared.extend(folders);
    }

    /// Adds folders that go in the end where they are empty, innermost first.
    ///
    /// # Errors
    /// The system's, where it does not tell whether one is there.
    pub fn add_vacated(&mut self, folders: Vec<WorkspacePath>) -> Result<(), Error> {
        for folder in folders {
            // One that is gone already must not come back when the change is rolled back.
            if self.is_folder(&folder)? {
                self.folders.vacated.push(folder);
            }
        }
        Ok(())
    }

    /// Plans a new folder for one that goes once all in it has moved. What is in it comes later.
    pub(super) fn replace_folder(&mut self, old: WorkspacePath, new: FolderEntry<WorkspacePath>) {
        self.folders.wanted.push(new);
        // Innermost first.
        self.folders.vacated.insert(0, old);
    }

    /// Whether the change makes or removes any.
    pub(super) fn has_folders(&self) -> bool {
        self.named_folders().next().is_some()
    }

    /// The folders that the change itself names: those that it makes or removes.
    pub(in crate::engine) fn named_folders(&self) -> impl Iterator<Item = &WorkspacePath> {
        let Folders { wanted, cleared, vacated } = &self.folders;
        wanted.iter().map(|folder| &folder.path).chain(cleared).chain(vacated)
    }

    /// Those that are to be there in the end.
    pub(in crate::engine) fn wanted_folders(&self) -> Vec<WorkspacePath> {
        self.folders.wanted.iter().map(|folder| folder.path.clone()).collect()
    }

    /// Whether a folder stands at a path once everything has moved. That it cannot be told is no answer:
    /// an undo would leave it there and call itself done.
    fn is_folder(&self, folder: &WorkspacePath) -> Result<bool, Error> {
        let Some(real) = self.standing(folder) else { return Ok(false) };
        match fs::open_beneath(self.engine.workspace.root_fd(), &real, IS_FOLDER) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(false),
            Err(errno) => Err(Error::io("open the folder", self.engine.workspace.shown(folder), errno)),
        }
    }

    /// The folders that the change removes, as they are now: those that go before something else takes
    /// their names, and those that go in the end.
    pub(in crate::engine) fn leaving_folders(&self) -> (Vec<Folder>, Vec<Folder>) {
        let dressed = |path: &WorkspacePath, real: Option<WorkspacePath>| {
            let opened = real.and_then(|real| self.engine.workspace.open_folder(&real).ok());
            let stat = opened.as_ref().and_then(|folder| rustix::fs::fstat(folder).ok());
            let identity = opened.zip(stat).and_then(|(folder, stat)| Identity::of(&folder, &stat));
            FolderEntry { path: self.location(path), mode: stat.as_ref().map(fs::mode_of), identity }
        };
        let (in_the_way, vacated) = self.vacated_by_time();
        let cleared = self.folders.cleared.iter().map(|path| dressed(path, Some(path.clone())));
        let in_the_way = in_the_way.into_iter().map(|path| dressed(path, self.standing(path)));
        let vacated = vacated.into_iter().map(|path| dressed(path, self.standing(path)));
        (cleared.chain(in_the_way).collect(), vacated.collect())
    }

    /// The vacated folders that have to go earlier, since a file takes the name of one or of a folder around
    /// it, and those that go in the end.
    fn vacated_by_time(&self) -> (Vec<&WorkspacePath>, Vec<&WorkspacePath>) {
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

    /// The folders that the change has to make, and where its files can wait.
    ///
    /// # Errors
    /// `not_a_directory` where a file is in the way, or the system's.
    pub(in crate::engine) fn ways(&self) -> Result<Ways, Error> {
        let removed = self.removed_paths();
        let mut ways = Ways::default();
        // As bytes: by components, a path of thousands of folders would take minutes.
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

    /// The deepest folder at or above `folder` that exists, and the missing ones from there to it,
    /// outermost first. A file that this change removes counts as missing.
    fn folders_to(
        &self,
        folder: &WorkspacePath,
        removed: &BTreeSet<WorkspacePath>,
    ) -> Result<(WorkspacePath, Vec<WorkspacePath>), Error> {
        let mut missing = Vec::new();
        let mut folder = folder.clone();
        loop {
            let real = self.standing(&folder);
            let stays =
                |real: &WorkspacePath| !removed.contains(real) && !self.folders.cleared.contains(real);
            if let Some(real) = real.filter(stays) {
                match fs::open_beneath(self.engine.workspace.root_fd(), &real, IS_FOLDER) {
                    // Nothing can wait in a folder that moves away meanwhile.
                    Ok(_) if real != folder => {
                        missing.reverse();
                        return Ok((WorkspacePath::root(), missing));
                    }
                    Ok(_) => break,
                    Err(Errno::NOENT) => {}
                    // Where a file or symlink stood that this change removes.
                    Err(Errno::NOTDIR | Errno::LOOP) if is_below_one_of(removed, &real) => {}
                    Err(errno) => {
                        let shown = self.engine.workspace.shown(&folder);
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

/// Whether a path is one of `others` or lies below one.
fn is_below_one_of(others: &BTreeSet<WorkspacePath>, path: &WorkspacePath) -> bool {
    std::iter::successors(Some(path.clone()), WorkspacePath::parent).any(|path| others.contains(&path))
}
