//! Files and folders that get other names, all at once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::engine::workspace::path::WorkspacePath;

/// A whole file or folder that gets another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Present path.
    pub real: WorkspacePath,
    /// Target path.
    pub at: WorkspacePath,
}

/// Files and folders that get other names, all at once.
#[derive(Debug, Clone, Default)]
pub struct Pieces {
    /// Target paths, by present path.
    by_real: BTreeMap<PathBuf, WorkspacePath>,
    /// Present paths, by target path.
    by_at: BTreeMap<PathBuf, WorkspacePath>,
}

impl Pieces {
    /// Returns all pieces.
    pub fn iter(&self) -> impl Iterator<Item = Piece> + '_ {
        self.by_at
            .iter()
            .filter_map(|(at, real)| Some(Piece { real: real.clone(), at: WorkspacePath::new(at)? }))
    }

    /// Adds a piece.
    pub fn insert(&mut self, real: &WorkspacePath, at: &WorkspacePath) {
        self.by_at.insert(at.as_path().to_owned(), real.clone());
        self.by_real.insert(real.as_path().to_owned(), at.clone());
    }

    /// Removes the piece with that target path; returns its present path.
    pub fn remove_at(&mut self, at: &WorkspacePath) -> Option<WorkspacePath> {
        let real = self.by_at.remove(at.as_path())?;
        self.by_real.remove(real.as_path());
        Some(real)
    }

    /// Removes the piece at a present path.
    pub(super) fn remove_real(&mut self, real: &WorkspacePath) {
        if let Some(at) = self.by_real.remove(real.as_path()) {
            self.by_at.remove(at.as_path());
        }
    }

    /// Returns true if a piece has that target path.
    pub fn has_target(&self, at: &WorkspacePath) -> bool {
        self.by_at.contains_key(at.as_path())
    }

    /// Returns the target paths at or below `folder`.
    pub(super) fn targets_within(&self, folder: &WorkspacePath) -> Vec<WorkspacePath> {
        let all = self.by_at.range(folder.as_path().to_owned()..).map(|(at, _)| at);
        all.take_while(|at| at.starts_with(folder.as_path()))
            .filter_map(|at| WorkspacePath::new(at))
            .collect()
    }

    /// Returns the paths below a path that have targets of their own.
    pub fn below<'p>(&'p self, real: &'p WorkspacePath) -> impl Iterator<Item = &'p PathBuf> {
        let inner = self.by_real.range(real.as_path().to_owned()..).map(|(path, _)| path);
        inner.skip_while(|path| *path == real.as_path()).take_while(|path| path.starts_with(real.as_path()))
    }

    /// Returns the target path of whatever is at `real`.
    pub fn target_of(&self, real: &WorkspacePath) -> WorkspacePath {
        if self.by_real.is_empty() { real.clone() } else { renamed_by(&self.by_real, real) }
    }

    /// Returns the present path of whatever has the target `path`.
    pub fn source_of(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        if self.by_real.is_empty() {
            return Some(path.clone());
        }
        let real = renamed_by(&self.by_at, path);
        (self.target_of(&real) == *path).then_some(real)
    }
}

/// Returns the new path of `path` once all of `others` are renamed.
fn renamed_by(others: &BTreeMap<PathBuf, WorkspacePath>, path: &WorkspacePath) -> WorkspacePath {
    let holder = path.as_path().ancestors().find_map(|folder| Some((folder, others.get(folder)?)));
    let rebased = holder.and_then(|(old, new)| Some(path.rebased(&WorkspacePath::new(old)?, new)));
    rebased.unwrap_or_else(|| path.clone())
}
