//! Files that stay out of the snapshots: those that git ignores, and others with names of secrets, large files, files
//! that a filter program would convert, other repositories. lbx still sees what a command does to them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::policy::settings::Key;
use crate::engine::sandbox::plan::Access;
use crate::engine::snapshot::{SkipReason, SkippedPath};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::{DOT_GIT, is_protected};
use crate::engine::workspace::survey::{Survey, SurveyDiff};
use crate::engine::workspace::{Workspace, fs};
use crate::limits::UNTRACKED_BYTES_MAX;

/// Largest file whose bytes are kept while a command runs though git does not ignore it, in bytes.
const KEPT_FILE_BYTES_MAX: u64 = 1 << 20;
/// Largest number of files in a folder that is ignored as a whole; more are made by a build and can be made again.
const IGNORED_FOLDER_FILES_MAX: usize = 1_000;

/// Files that a scan left out.
#[derive(Debug, Default)]
pub struct UnscannedFiles {
    /// Files that git does not ignore, and folders with unknown content, each with the reason.
    left_out: BTreeMap<WorkspacePath, SkippedPath>,
    /// Repositories within the workspace.
    repositories: Vec<WorkspacePath>,
    /// Single files that git ignores.
    files: BTreeSet<WorkspacePath>,
    /// Folders that git ignores as a whole; true if one has too many files.
    folders: BTreeMap<WorkspacePath, bool>,
}

/// Bytes of small files before a command.
#[derive(Debug, Default)]
pub struct SavedUntracked(BTreeMap<WorkspacePath, Vec<u8>>);

impl UnscannedFiles {
    /// Sorts the files that a scan left out, and those that git ignores.
    pub fn of(left_out: &[SkippedPath], ignored: &[Vec<u8>], survey: Option<&Survey>) -> Self {
        let mut found = Self::default();
        for left in left_out {
            let Some(path) = WorkspacePath::new(Path::new(&left.path)) else { continue };
            match left.reason {
                SkipReason::NestedRepository(_) => found.repositories.push(path),
                // A file that may be ignored counts as ignored.
                SkipReason::Ignored | SkipReason::Rules(_) => {}
                _ => {
                    found.left_out.insert(path, left.clone());
                }
            }
        }
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

    /// Returns the reason why a file was left out though git does not ignore it.
    pub fn skip_reason(&self, path: &WorkspacePath) -> Option<&SkippedPath> {
        path.and_above().find_map(|path| self.left_out.get(&path))
    }

    /// Returns true if git ignores a path.
    pub fn ignores(&self, path: &WorkspacePath) -> bool {
        self.files.contains(path) || self.ignored_folder(path).is_some()
    }

    /// Returns the ignored folder that holds a path, and true if it has too many files.
    pub fn ignored_folder(&self, path: &WorkspacePath) -> Option<(&WorkspacePath, bool)> {
        if self.folders.is_empty() {
            return None;
        }
        let mut above = path.and_above();
        above.find_map(|path| self.folders.get_key_value(&path)).map(|(folder, is_large)| (folder, *is_large))
    }

    /// Reads the files that a command may change and that have no other copy: the small ones that git does not ignore,
    /// the ignored ones that look precious, the smallest first, and `others`.
    pub fn save(
        &self,
        engine: &Engine,
        survey: Option<&Survey>,
        others: impl Iterator<Item = WorkspacePath>,
    ) -> SavedUntracked {
        let (workspace, mut saved) = (&engine.workspace, SavedUntracked::default());
        let number = |key| engine.policy().number(key);
        saved.add(workspace, self.left_out.keys().cloned(), (KEPT_FILE_BYTES_MAX, UNTRACKED_BYTES_MAX));
        if let Some(survey) = survey {
            let file_bytes_max = number(Key::BashIgnoredFileBytes);
            let files = self.files.iter().filter_map(|path| Some((path.clone(), survey.at(path)?)));
            let small = self.folders.iter().filter(|(_, is_large)| !**is_large);
            let inner = small.flat_map(|(folder, _)| survey.below(folder));
            let files = files.chain(inner).filter(|(_, thing)| thing.size() <= file_bytes_max);
            let mut files: Vec<(u64, WorkspacePath)> =
                files.map(|(path, thing)| (thing.size(), path)).collect();
            files.sort();
            let paths = files.into_iter().map(|(_, path)| path);
            saved.add(workspace, paths, (u64::MAX, number(Key::BashIgnoredBytes)));
        }
        saved.add(workspace, others, (u64::MAX, number(Key::BashIgnoredBytes)));
        saved
    }

    /// Warns of touched files that are in no snapshot, and of those that even undo cannot restore; `reach` is the
    /// command's access.
    pub fn warn_of_lost(&self, reach: &Access, engine: &mut Engine, touched: &[SurveyDiff]) {
        let of_note = |touched: &SurveyDiff| {
            touched.after.as_ref().filter(|after| !after.kind().is_dir())?;
            self.skip_reason(&touched.path).map(|left| SkippedPath {
                path: String::from_utf8_lossy(touched.path.as_bytes()).into_owned(),
                reason: left.reason.clone(),
            })
        };
        let left_out: Vec<SkippedPath> = touched.iter().filter_map(of_note).collect();
        engine.warn_if(record::list_skipped(&left_out).map(|list| format!("not in the snapshot: {list}")));
        let known = reach.protected.iter().filter_map(|path| WorkspacePath::new(Path::new(path)));
        let known = known.filter(|path| path.name().is_some_and(|name| name == DOT_GIT));
        let known = known.filter_map(|path| path.parent()).filter(|folder| !folder.is_root());
        let repositories: BTreeSet<WorkspacePath> = known.chain(self.repositories.iter().cloned()).collect();
        for repository in &repositories {
            let is_in = |touched: &SurveyDiff| {
                touched.path.is_within(repository)
                    && touched.path != *repository
                    && !touched.path.components().any(|name| is_protected(name.as_encoded_bytes()))
            };
            if touched.iter().any(is_in) {
                let shown = engine.workspace.display(repository);
                engine.warn(format!(
                    "the command changed files in {shown}, a repository of its own: they are not recorded, and undo does not take them back"
                ));
            }
        }
    }
}

impl SavedUntracked {
    /// Reads files and symlinks of at most `file_max` bytes, as long as there is room for them in `left` bytes.
    fn add(
        &mut self,
        workspace: &Workspace,
        paths: impl Iterator<Item = WorkspacePath>,
        (file_max, mut left): (u64, u64),
    ) {
        for path in paths {
            let bytes = match workspace.open_regular(&path, "") {
                Ok((file, stat)) if fs::size_of(&stat) <= left.min(file_max) => {
                    fs::read_to_end(file, fs::size_of(&stat), left.min(file_max)).ok()
                }
                Ok(_) => None,
                Err(_) => fs::link_beneath(workspace.root_fd(), &path).ok(),
            };
            if let Some(bytes) = bytes {
                left = left.saturating_sub(bytes.len() as u64);
                self.0.insert(path, bytes);
            }
        }
    }

    /// Returns saved bytes, each with its path.
    pub fn iter(&self) -> impl Iterator<Item = (&WorkspacePath, &[u8])> {
        self.0.iter().map(|(path, bytes)| (path, bytes.as_slice()))
    }

    /// Returns bytes that an earlier call saved.
    pub fn of(saved: impl Iterator<Item = (WorkspacePath, Vec<u8>)>) -> Self {
        Self(saved.collect())
    }

    /// Returns the old bytes of a file, if they have that size.
    pub fn bytes_of(&self, path: &WorkspacePath, size: u64) -> Option<&[u8]> {
        self.0.get(path).map(Vec::as_slice).filter(|bytes| bytes.len() as u64 == size)
    }
}
