//! The changes of a fork, against what it began with: one account for `fork diff`, `review`, `doctor` and the hooks.

use super::common::PLACES_LISTED;
use super::diff::{Action, FileStat};
use super::merge::set_base;
use super::merge::trees::ForkTrees;
use crate::engine::Engine;
use crate::engine::sandbox::fork::{ForkFolder, Forks};
use crate::engine::store::state::State;
use crate::error::Error;
use crate::limits::{DIFFED_BYTES_MAX, MERGE_RENAME_PAIRS_MAX};
use crate::sha256::Sha256;
use crate::text::diff::{DiffSide, DiffSize, FileDiff};
use crate::text::renames::{self, COMPARED_BYTES_MAX, List, Rename, RenameCandidate, SimilarFiles};
use crate::text::tree_merge::{FileType, Path, Side as Tree, Version};

/// Path of a file and its version there.
type PathVersion = (Path, Version);

/// Change of one file in a fork.
#[derive(Debug, Clone)]
pub struct ForkDelta {
    /// Version that the fork began with; `None` for a new file.
    pub before: Option<PathVersion>,
    /// Version in the fork; `None` for a removed file.
    pub after: Option<PathVersion>,
    /// Similarity of both in percent, if the file was renamed.
    similarity: Option<usize>,
    /// True if nobody knows the version that the fork began with: it is compared with that of the workspace.
    pub has_unknown_base: bool,
}

impl ForkDelta {
    /// Returns its path in the fork, or the former one of a removed file.
    pub fn path(&self) -> &[u8] {
        self.after.as_ref().or(self.before.as_ref()).map_or(&[], |(path, _)| path)
    }

    /// Returns its paths, before and after.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.before.iter().chain(&self.after).map(|(path, _)| path)
    }
}

/// Changes of a fork that were not merged yet, by path.
pub struct ForkChanges<'f> {
    /// The trees that are compared.
    trees: ForkTrees<'f>,
    /// Changes.
    pub deltas: Vec<ForkDelta>,
}

impl<'f> ForkChanges<'f> {
    /// Reads the changes of a fork. The proof of the lock is needed since a copy and the base are brought up
    /// to date.
    ///
    /// # Errors
    /// Fails with `not_found` if a copy is gone, with `timeout` if the call was cancelled, or returns the OS error.
    pub fn read(
        engine: &Engine,
        (state, _lock): (&State, &Forks<'_>),
        fork: &'f ForkFolder,
    ) -> Result<Self, Error> {
        fork.refresh(&engine.workspace)?;
        set_base(state, fork)?;
        let trees = ForkTrees::read(engine, fork, &[])?;
        let mut deltas = Vec::new();
        for (path, versions) in &trees.paths {
            let (before, after) = (versions.base, versions.theirs);
            let side = |version: Option<Version>| version.map(|version| (path.clone(), version));
            let mut add = |before, after| {
                let has_unknown_base = versions.has_unknown_base;
                deltas.push(ForkDelta { before, after, similarity: None, has_unknown_base });
            };
            match (before, after) {
                (None, None) => {}
                (Some(old), Some(new)) if old.is_same(&new) => {}
                // Git shows another type as a removed and a new file.
                (Some(old), Some(new)) if old.file_type != new.file_type => {
                    add(side(before), None);
                    add(None, side(after));
                }
                _ => add(side(before), side(after)),
            }
        }
        let mut changes = Self { trees, deltas };
        changes.follow_renames()?;
        Ok(changes)
    }

    /// Returns true if nothing was changed that a merge would bring. Ignored files do not count, as for git.
    pub fn is_empty(&self) -> bool {
        self.deltas.is_empty() && self.trees.special.is_empty()
    }

    /// Returns the number of changed files that git ignores.
    pub fn ignored_files(&self) -> usize {
        self.trees.ignored.values().sum()
    }

    /// Returns the paths whose first version nobody knows, the first ones.
    pub fn unknown_bases(&self) -> Vec<String> {
        let unknown = self.deltas.iter().filter(|delta| delta.has_unknown_base);
        unknown.take(PLACES_LISTED).map(|delta| String::from_utf8_lossy(delta.path()).into_owned()).collect()
    }

    /// Joins removed and new files to renamed ones, as git does.
    fn follow_renames(&mut self) -> Result<(), Error> {
        let one_sided = |is_gone: bool| -> Vec<(usize, PathVersion)> {
            let known = |(index, delta): (usize, &ForkDelta)| match (&delta.before, &delta.after) {
                (Some(known), None) if is_gone => Some((index, known.clone())),
                (None, Some(known)) if !is_gone => Some((index, known.clone())),
                _ => None,
            };
            self.deltas.iter().enumerate().filter_map(known).collect()
        };
        let (gone, come) = (one_sided(true), one_sided(false));
        let read = |list: List, index: usize| {
            let (files, tree) = match list {
                List::Gone => (&gone, Tree::Base),
                List::Come => (&come, Tree::Theirs),
            };
            let Some((_, (path, version))) = files.get(index) else { return Ok(None) };
            let is_file = version.file_type == FileType::Regular;
            let most = u64::try_from(COMPARED_BYTES_MAX).unwrap_or(u64::MAX);
            if is_file { self.trees.bytes(tree, path, most) } else { Ok(None) }
        };
        let compared =
            SimilarFiles { is_relevant: &|_| true, pairs_max: MERGE_RENAME_PAIRS_MAX, read: &read };
        let found: Vec<Rename> = renames::find(&candidates(&gone), &candidates(&come), &compared)?;
        let mut joined = Vec::new();
        for rename in found {
            let Some(((from, before), (to, _))) = gone.get(rename.from).zip(come.get(rename.to)) else {
                continue;
            };
            if let Some(delta) = self.deltas.get_mut(*to) {
                delta.before = Some(before.clone());
                delta.similarity = Some(rename.similarity);
                joined.push(*from);
            }
        }
        let mut index = 0;
        self.deltas.retain(|_| {
            index += 1;
            !joined.contains(&(index - 1))
        });
        Ok(())
    }

    /// Adds the diff of one change to `out`, and returns its line counts.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn write(&self, delta: &ForkDelta, out: &mut Vec<u8>) -> Result<FileStat, Error> {
        let amount = self.write_diff(delta, out)?;
        let text = |known: &PathVersion| String::from_utf8_lossy(&known.0).into_owned();
        let action = Action::of(delta.before.is_some(), delta.after.is_some(), delta.similarity.is_some());
        let from = delta.before.as_ref().filter(|_| action == Action::Rename).map(text);
        let path = String::from_utf8_lossy(delta.path()).into_owned();
        Ok(FileStat { path, from, action, insertions: amount.insertions, deletions: amount.deletions })
    }

    /// Adds the diff of one change to `out`.
    fn write_diff(&self, delta: &ForkDelta, out: &mut Vec<u8>) -> Result<DiffSize, Error> {
        let most = u64::try_from(DIFFED_BYTES_MAX).unwrap_or(u64::MAX);
        let read = |tree: Tree, known: &Option<PathVersion>| -> Result<Option<Option<FileContent>>, Error> {
            let Some((path, _)) = known else { return Ok(Some(None)) };
            let bytes = self.trees.bytes(tree, path, most)?;
            Ok(bytes.map(|bytes| Some(FileContent { id: blob_id(&bytes), bytes })))
        };
        let sides = read(Tree::Base, &delta.before)?.zip(read(Tree::Theirs, &delta.after)?);
        let Some((old, new)) = sides else {
            let name = String::from_utf8_lossy(delta.path()).into_owned();
            let line = format!("diff --git a/{name} b/{name}\nLarge files a/{name} and b/{name} differ\n");
            out.extend(line.as_bytes());
            return Ok(DiffSize::default());
        };
        let side = |known, content| Some(side_of(Option::as_ref(known)?, Option::as_ref(content)?));
        let diff = FileDiff {
            old: side(&delta.before, &old),
            new: side(&delta.after, &new),
            similarity: delta.similarity,
            binary: false,
        };
        Ok(diff.write(out))
    }
}

/// Content of a file, with its object id.
struct FileContent {
    /// Object id, in hex.
    id: String,
    /// Bytes.
    bytes: Vec<u8>,
}

/// Returns a version as a side of a diff.
fn side_of<'a>((path, version): &'a PathVersion, content: &'a FileContent) -> DiffSide<'a> {
    let mode = match version.file_type {
        FileType::Symlink => "120000",
        FileType::Regular if version.mode & 0o100 != 0 => "100755",
        FileType::Regular => "100644",
    };
    DiffSide { path, mode, id: &content.id, bytes: &content.bytes }
}

/// Returns files as candidates for renames.
fn candidates(files: &[(usize, PathVersion)]) -> Vec<RenameCandidate<'_, (FileType, Sha256)>> {
    let empty = Sha256::of(b"");
    let id =
        |version: &Version| Some((version.file_type, version.sha256)).filter(|(_, sha256)| *sha256 != empty);
    files.iter().map(|(_, (path, version))| RenameCandidate { path, id: id(version) }).collect()
}

/// Returns the id of a blob, in hex; zeros if it cannot be computed.
fn blob_id(bytes: &[u8]) -> String {
    let kind = gix::hash::Kind::Sha1;
    let id = gix::objs::compute_hash(kind, gix::objs::Kind::Blob, bytes);
    id.unwrap_or_else(|_| gix::ObjectId::null(kind)).to_string()
}
