//! Files that stay out of the snapshots though git does not ignore them: names of secrets, large files, files that a
//! filter program would convert, other repositories. lbx still sees what a command does to them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::limits::GIT_FOLDER;
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::policy::settings::Key;
use crate::engine::sandbox::plan::Reach;
use crate::engine::snapshot::{LeftOut, Reason};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_protected;
use crate::engine::workspace::survey::{Survey, Touched};
use crate::engine::workspace::{Workspace, fs};

/// Largest of these files whose bytes are kept while a command runs, in bytes.
const KEPT_FILE_BYTES_MAX: u64 = 1 << 20;
/// Total bytes that are kept.
const KEPT_BYTES_MAX: u64 = 16 << 20;
/// Largest number of files in a folder that is ignored as a whole; more are made by a build and can be made again.
const IGNORED_FOLDER_FILES_MAX: usize = 1_000;

/// Files that a scan left out.
#[derive(Debug, Default)]
pub struct LeftOutFiles {
    /// Files, and folders with unknown content, each with the reason.
    files: BTreeMap<WorkspacePath, LeftOut>,
    /// Repositories within the workspace.
    repositories: Vec<WorkspacePath>,
}

/// Bytes of small files before a command.
#[derive(Debug, Default)]
pub struct SavedUntracked(BTreeMap<WorkspacePath, Vec<u8>>);

impl LeftOutFiles {
    /// Sorts the files that a scan left out.
    pub fn of(left_out: &[LeftOut]) -> Self {
        let mut found = Self::default();
        for left in left_out {
            let Some(path) = WorkspacePath::new(Path::new(&left.path)) else { continue };
            match left.reason {
                Reason::NestedRepository(_) => found.repositories.push(path),
                // A file that may be ignored counts as ignored.
                Reason::Ignored | Reason::Rules(_) => {}
                _ => {
                    found.files.insert(path, left.clone());
                }
            }
        }
        found
    }

    /// Returns true if a file was left out.
    pub fn has(&self, path: &WorkspacePath) -> bool {
        self.of_path(path).is_some()
    }

    /// Returns the reason why a file was left out.
    fn of_path(&self, path: &WorkspacePath) -> Option<&LeftOut> {
        let mut at = Some(path.clone());
        while let Some(path) = at {
            if let Some(left) = self.files.get(&path) {
                return Some(left);
            }
            at = path.parent();
        }
        None
    }

    /// Reads the small files that a command may change and that have no other copy.
    pub fn keep(&self, workspace: &Workspace) -> SavedUntracked {
        let mut left = KEPT_BYTES_MAX;
        let mut kept = BTreeMap::new();
        for path in self.files.keys() {
            let Ok((file, stat)) = workspace.open_regular(path, "") else { continue };
            let size = fs::size_of(&stat);
            let Some(rest) = left.checked_sub(size).filter(|_| size <= KEPT_FILE_BYTES_MAX) else { continue };
            if let Ok(bytes) = fs::read_to_end(file, size, KEPT_FILE_BYTES_MAX) {
                left = rest;
                kept.insert(path.clone(), bytes);
            }
        }
        SavedUntracked(kept)
    }

    /// Warns of touched files that are in no snapshot, and of those that even undo cannot restore; `reach` is the
    /// command's access.
    pub fn tell(&self, reach: &Reach, engine: &mut Engine, touched: &[Touched]) {
        let of_note = |touched: &Touched| {
            touched.after.as_ref().filter(|after| !after.kind().is_dir())?;
            self.of_path(&touched.path).map(|left| LeftOut {
                path: String::from_utf8_lossy(touched.path.as_bytes()).into_owned(),
                reason: left.reason.clone(),
            })
        };
        let left_out: Vec<LeftOut> = touched.iter().filter_map(of_note).collect();
        engine.warn_if(record::listed(&left_out).map(|list| format!("not in the snapshot: {list}")));
        let known = reach.protected.iter().filter_map(|path| WorkspacePath::new(Path::new(path)));
        let known = known.filter(|path| path.name().is_some_and(|name| name == GIT_FOLDER));
        let known = known.filter_map(|path| path.parent()).filter(|folder| !folder.is_root());
        let repositories: BTreeSet<WorkspacePath> = known.chain(self.repositories.iter().cloned()).collect();
        for repository in &repositories {
            let is_in = |touched: &Touched| {
                touched.path.is_within(repository)
                    && touched.path != *repository
                    && !touched.path.components().any(|name| is_protected(name.as_encoded_bytes()))
            };
            if touched.iter().any(is_in) {
                let shown = engine.workspace.shown(repository);
                engine.warn(format!(
                    "the command changed files in {shown}, a repository of its own: they are not recorded, and undo does not take them back"
                ));
            }
        }
    }
}

/// Paths that git ignores in a work tree.
#[derive(Debug, Default)]
pub struct IgnoredFiles {
    /// Single files.
    files: BTreeSet<WorkspacePath>,
    /// Folders that are ignored as a whole; true if one has too many files.
    folders: BTreeMap<WorkspacePath, bool>,
}

impl IgnoredFiles {
    /// Sorts the paths that a scan found.
    pub fn of(ignored: &[Vec<u8>], survey: Option<&Survey>) -> Self {
        let mut found = Self::default();
        for path in ignored {
            let stem = path.strip_suffix(b"/");
            let named = OsStr::from_bytes(stem.unwrap_or(path));
            let Some(path) = WorkspacePath::new(Path::new(named)) else { continue };
            if stem.is_some() {
                let holds = |survey: &Survey| survey.below(&path).nth(IGNORED_FOLDER_FILES_MAX).is_some();
                let is_large = survey.is_none_or(holds);
                found.folders.insert(path, is_large);
            } else {
                found.files.insert(path);
            }
        }
        found
    }

    /// Returns true if git ignores a path.
    pub fn has(&self, path: &WorkspacePath) -> bool {
        self.files.contains(path) || self.folder_of(path).is_some()
    }

    /// Returns the ignored folder that holds a path.
    pub fn outermost(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        let mut around = std::iter::successors(Some(path.clone()), WorkspacePath::parent);
        around.find(|folder| self.folders.contains_key(folder))
    }

    /// Returns true if git ignores a path, and it is in a folder of too many files.
    pub fn is_in_large(&self, path: &WorkspacePath) -> bool {
        self.folder_of(path) == Some(true)
    }

    /// Returns true if a path is in a large ignored folder, false in a small one; `None` if in neither.
    fn folder_of(&self, path: &WorkspacePath) -> Option<bool> {
        let mut around = std::iter::successors(Some(path.clone()), WorkspacePath::parent);
        if self.folders.is_empty() { None } else { around.find_map(|path| self.folders.get(&path).copied()) }
    }

    /// Reads the ignored files that look precious, the smallest first.
    pub fn keep(&self, engine: &Engine, survey: &Survey, kept: &mut SavedUntracked) {
        let file_bytes_max = engine.policy().number(Key::BashIgnoredFileBytes);
        let files = self.files.iter().filter_map(|path| Some((path.clone(), survey.at(path)?)));
        let small = self.folders.iter().filter(|(_, is_large)| !**is_large);
        let inner = small.flat_map(|(folder, _)| survey.below(folder));
        let files = files.chain(inner).filter(|(_, thing)| thing.size() <= file_bytes_max);
        let mut files: Vec<(u64, WorkspacePath)> = files.map(|(path, thing)| (thing.size(), path)).collect();
        files.sort();
        kept.add(engine, files.into_iter().map(|(_, path)| path));
    }
}

impl SavedUntracked {
    /// Reads these files and symlinks, as long as there is room.
    pub fn add(&mut self, engine: &Engine, paths: impl Iterator<Item = WorkspacePath>) {
        let workspace = &engine.workspace;
        let mut left = engine.policy().number(Key::BashIgnoredBytes);
        for path in paths {
            let bytes = match workspace.open_regular(&path, "") {
                Ok((file, stat)) if fs::size_of(&stat) <= left => {
                    fs::read_to_end(file, fs::size_of(&stat), left).ok()
                }
                Ok(_) => None,
                Err(_) => {
                    let link = fs::open_beneath(workspace.root_fd(), &path, fs::LOOK);
                    link.and_then(|link| fs::target_of(&link)).ok()
                }
            };
            if let Some(bytes) = bytes {
                left = left.saturating_sub(bytes.len() as u64);
                self.0.insert(path, bytes);
            }
        }
    }

    /// Returns the old bytes of a file, if they have that size.
    pub fn bytes_of(&self, path: &WorkspacePath, size: u64) -> Option<&[u8]> {
        self.0.get(path).map(Vec::as_slice).filter(|bytes| bytes.len() as u64 == size)
    }
}
