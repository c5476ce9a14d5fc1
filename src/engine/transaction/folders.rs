//! The folders that a change makes and removes.

use std::collections::BTreeSet;

use super::Change;
use super::journal::FolderMode;
use crate::engine::fs;
use crate::engine::path::WorkspacePath;
use crate::error::Error;

impl Change<'_> {
    /// Says which folders are to be there in the end, outermost first, and with which permission
    /// bits, where a new folder would have others.
    pub fn set_folders(&mut self, folders: Vec<WorkspacePath>, modes: Vec<FolderMode>) {
        let stays = |folder: &WorkspacePath| {
            self.is_folder(folder)
                && self.standing(folder).is_some_and(|real| !self.entry.cleared.contains(&real))
        };
        self.entry.folders = folders.into_iter().filter(|folder| !stays(folder)).collect();
        self.entry.modes_after =
            modes.into_iter().filter(|folder| self.entry.folders.contains(&folder.path)).collect();
    }

    /// Says which folders go before something else takes their names, innermost first.
    pub fn set_cleared(&mut self, folders: Vec<WorkspacePath>) {
        self.entry.cleared = folders;
    }

    /// Says which folders go in the end where they are empty, innermost first.
    pub fn set_vacated(&mut self, folders: Vec<WorkspacePath>) {
        // One that is gone already must not come back when the change is rolled back.
        self.entry.vacated = folders.into_iter().filter(|folder| self.is_folder(folder)).collect();
    }

    /// Whether a folder stands at a path once everything has moved.
    fn is_folder(&self, folder: &WorkspacePath) -> bool {
        let flags = fs::LOOK | rustix::fs::OFlags::DIRECTORY;
        self.standing(folder)
            .is_some_and(|real| fs::open_beneath(self.engine.workspace.root_fd(), &real, flags).is_ok())
    }

    /// Adds folders that go before something else takes the name of one of them, innermost first.
    pub fn add_cleared(&mut self, folders: Vec<WorkspacePath>) {
        self.entry.cleared.extend(folders);
    }

    /// Adds folders that go in the end where they are empty, innermost first.
    pub fn add_vacated(&mut self, folders: Vec<WorkspacePath>) {
        let cleared: BTreeSet<&WorkspacePath> = self.entry.cleared.iter().collect();
        self.entry.vacated.extend(folders.into_iter().filter(|folder| !cleared.contains(folder)));
    }

    /// The deepest folder on the way to `path` that exists, and the missing ones below it,
    /// outermost first. A file that this change removes counts as missing.
    ///
    /// # Errors
    /// `not_a_directory` where a file is in the way, or the system's.
    pub(super) fn folders_to(
        &self,
        path: &WorkspacePath,
        removed: &BTreeSet<WorkspacePath>,
    ) -> Result<(WorkspacePath, Vec<WorkspacePath>), Error> {
        let mut missing = Vec::new();
        let mut folder = path.parent().unwrap_or_default();
        loop {
            let real = self.standing(&folder);
            let stays = |real: &WorkspacePath| !removed.contains(real) && !self.entry.cleared.contains(real);
            if let Some(real) = real.filter(stays) {
                match fs::open_beneath(
                    self.engine.workspace.root_fd(),
                    &real,
                    fs::LOOK | rustix::fs::OFlags::DIRECTORY,
                ) {
                    // Nothing can wait in a folder that moves away meanwhile.
                    Ok(_) if real != folder => return Ok((WorkspacePath::root(), reversed(missing))),
                    Ok(_) => break,
                    Err(rustix::io::Errno::NOENT) => {}
                    // Where a file or symlink stood that this change removes.
                    Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP)
                        if removed.iter().any(|file| real.is_within(file)) => {}
                    Err(errno) => {
                        return Err(Error::io(
                            "open the folder",
                            self.engine.workspace.shown(&folder),
                            errno,
                        ));
                    }
                }
            }
            missing.push(folder.clone());
            folder = folder.parent().unwrap_or_default();
        }
        Ok((folder, reversed(missing)))
    }
}

/// The same, from the other end.
fn reversed(mut paths: Vec<WorkspacePath>) -> Vec<WorkspacePath> {
    paths.reverse();
    paths
}
