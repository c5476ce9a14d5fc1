//! Three-way merge of two trees of files, by the rules of git's `ort`: renames are followed on both sides, texts are
//! merged by lines, and all else that both sides changed in different ways is a conflict.
//!
//! ```text
//! base      ours        theirs       result
//! a         b (moved)   a (edited)   b, with the edit
//! a         a (edited)  b (moved)    b, with the edit
//! a         b           c            conflict: both renamed it
//! ```
//!
//! Differences from git: a file larger than [`crate::text::renames::COMPARED_BYTES_MAX`] is a rename only with equal
//! bytes, and renames that the caller knows are followed however much the file changed since.

mod entries;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use crate::sha256::Sha256;
use crate::text::merge::{EqualChanges, merge, overlaps};

use entries::MergeFiles;

/// Path from the root, as bytes.
pub type Path = Vec<u8>;

/// Type of a file that is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileType {
    /// Regular file.
    Regular,
    /// Symlink, whose bytes are its target.
    Symlink,
}

/// Version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Type.
    pub file_type: FileType,
    /// Permission bits; 0 for a symlink.
    pub mode: u32,
    /// SHA-256 of the bytes.
    pub sha256: Sha256,
}

impl Version {
    /// Returns true if its owner may execute it: git keeps no other bit.
    const fn is_executable(&self) -> bool {
        self.mode & 0o100 != 0
    }

    /// Returns true if both have the same type and bytes.
    fn has_bytes_of(&self, other: &Self) -> bool {
        self.file_type == other.file_type && self.sha256 == other.sha256
    }

    /// Returns true if git sees no difference.
    pub fn is_same(&self, other: &Self) -> bool {
        self.has_bytes_of(other) && self.is_executable() == other.is_executable()
    }
}

/// Tree of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Tree from which both sides began.
    Base,
    /// Tree into which the other is merged.
    Ours,
    /// Tree that is merged.
    Theirs,
}

/// Versions of one path.
#[derive(Debug, Clone, Copy, Default)]
pub struct Versions {
    /// Version from which both sides began.
    pub base: Option<Version>,
    /// Version in our tree.
    pub ours: Option<Version>,
    /// Version in their tree.
    pub theirs: Option<Version>,
    /// True if nobody knows the base: then only equal versions merge.
    pub has_unknown_base: bool,
}

impl Versions {
    /// Returns the version on one side.
    pub const fn on(&self, side: Side) -> Option<&Version> {
        match side {
            Side::Base => self.base.as_ref(),
            Side::Ours => self.ours.as_ref(),
            Side::Theirs => self.theirs.as_ref(),
        }
    }
}

/// Reads the version of a path on a side.
pub type ReadVersion<'a, E> = dyn Fn(Side, &[u8]) -> Result<Option<Vec<u8>>, E> + 'a;

/// Trees of a merge: every path that one side changed, at least.
pub struct Trees<'a, E> {
    /// Versions by path.
    pub paths: &'a BTreeMap<Path, Versions>,
    /// Renames of theirs that are certain, as old and new paths.
    pub moved: &'a [(Path, Path)],
    /// Returns the bytes of a version, or `None` if it is too large to be merged.
    pub read: &'a ReadVersion<'a, E>,
    /// Returns true if a folder of ours holds files that are not in `paths`.
    pub keeps_files: &'a dyn Fn(&[u8]) -> bool,
}

/// Paths of one file in the three trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    /// Path in the base; `None` for a new file.
    pub base: Option<Path>,
    /// Path in our tree.
    pub ours: Option<Path>,
    /// Path in their tree.
    pub theirs: Option<Path>,
}

impl Paths {
    /// Returns its paths, each once.
    pub fn all(&self) -> BTreeSet<&Path> {
        [&self.base, &self.ours, &self.theirs].into_iter().flatten().collect()
    }
}

/// Bytes of a merged file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergedSource {
    /// Bytes of one side, at its path there.
    Side(Side),
    /// New ones.
    Merged(Vec<u8>),
}

/// A file after the merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedFile {
    /// Path.
    pub path: Path,
    /// Version.
    pub version: Version,
    /// Bytes.
    pub source: MergedSource,
}

/// Effect of their change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Paths before.
    pub paths: Paths,
    /// File afterwards; `None` if it is removed.
    pub result: Option<MergedFile>,
}

/// Kind of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConflictKind {
    /// Both changed the same lines, or a file that is no text.
    BothChanged,
    /// Both created the file with different bytes.
    BothAdded,
    /// One changed the file, the other removed it.
    ChangedAndDeleted,
    /// One renamed the file, the other removed it.
    RenamedAndDeleted,
    /// Both renamed the file, to different paths.
    BothRenamed,
    /// Two files would get one path.
    SamePath,
    /// One made it a symlink or a regular file, and the other changed or moved it.
    TypeChanged,
    /// It is a file on one side and a folder on the other.
    FileAndFolder,
    /// One side moved the folder in which the other created the file.
    FolderMoved,
    /// The versions differ, and nobody knows the one from which both began.
    BaseUnknown,
}

impl fmt::Display for ConflictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Lines of ours and of theirs that conflict, counted from 0.
pub type ConflictLines = [Range<usize>; 2];

/// A conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Kind.
    pub kind: ConflictKind,
    /// Paths of the file.
    pub paths: Paths,
    /// Lines, if both changed a text.
    pub lines: Vec<ConflictLines>,
    /// Path that the file would get with its folder; `None` if the folder was split.
    pub target: Option<Path>,
}

/// Result of a merge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Changes of theirs that merge.
    pub actions: Vec<Action>,
    /// Conflicts, ordered by path.
    pub conflicts: Vec<Conflict>,
}

/// A file that may merge.
type MergeCandidate = Result<Option<MergedFile>, Box<Conflict>>;

/// Merges their tree into ours.
///
/// # Errors
/// Returns the errors of reading a version.
pub fn plan<E>(trees: &Trees<'_, E>) -> Result<Plan, E> {
    let entries = MergeFiles::of(trees)?;
    let mut settled: Vec<(Paths, MergeCandidate)> = Vec::new();
    for paths in &entries.files {
        settled.push((paths.clone(), settle(trees, paths)?));
    }
    must_have_one_file(&mut settled);
    must_not_be_below_files(trees, &mut settled);
    let mut plan = Plan::default();
    for (paths, result) in settled {
        match result {
            Err(conflict) => plan.conflicts.push(*conflict),
            Ok(result) if is_changed(trees, &paths) => plan.actions.push(Action { paths, result }),
            Ok(_) => {}
        }
    }
    plan.conflicts.extend(entries.moved_folders);
    plan.conflicts.sort_by(|one, other| one.paths.all().cmp(&other.paths.all()));
    Ok(plan)
}

/// Returns true if they changed a file.
fn is_changed<E>(trees: &Trees<'_, E>, paths: &Paths) -> bool {
    paths.base != paths.theirs
        || version(trees, Side::Base, paths.base.as_ref())
            != version(trees, Side::Theirs, paths.theirs.as_ref())
}

/// Returns the version at a path.
fn version<'a, E>(trees: &Trees<'a, E>, side: Side, path: Option<&Path>) -> Option<&'a Version> {
    trees.paths.get(path?)?.on(side)
}

/// Returns a conflict without lines.
fn conflict(kind: ConflictKind, paths: &Paths) -> Conflict {
    Conflict { kind, paths: paths.clone(), lines: Vec::new(), target: None }
}

/// Returns such a conflict as an error.
fn refused<T>(kind: ConflictKind, paths: &Paths) -> Result<T, Box<Conflict>> {
    Err(Box::new(conflict(kind, paths)))
}

/// Merges one file.
fn settle<E>(trees: &Trees<'_, E>, paths: &Paths) -> Result<MergeCandidate, E> {
    let base = version(trees, Side::Base, paths.base.as_ref());
    let ours = version(trees, Side::Ours, paths.ours.as_ref());
    let theirs = version(trees, Side::Theirs, paths.theirs.as_ref());
    let is_unknown =
        paths.all().into_iter().any(|path| trees.paths.get(path).is_some_and(|it| it.has_unknown_base));
    let take = |side, path: &Option<Path>, version: &Version| {
        let file = |path: &Path| MergedFile {
            path: path.clone(),
            version: *version,
            source: MergedSource::Side(side),
        };
        Ok(path.as_ref().map(file))
    };
    let is_renamed = |path: &Option<Path>| path.is_some() && paths.base.is_some() && *path != paths.base;
    let settled = match (base, ours, theirs) {
        (_, None, None) => Ok(None),
        (_, ours, theirs) if is_unknown => match ours.zip(theirs) {
            Some((ours, theirs)) if ours.is_same(theirs) => take(Side::Ours, &paths.ours, ours),
            _ => refused(ConflictKind::BaseUnknown, paths),
        },
        (None, Some(ours), None) => take(Side::Ours, &paths.ours, ours),
        (None, None, Some(theirs)) => take(Side::Theirs, &paths.theirs, theirs),
        (Some(base), Some(left), None) | (Some(base), None, Some(left)) => {
            if is_renamed(&paths.ours) || is_renamed(&paths.theirs) {
                refused(ConflictKind::RenamedAndDeleted, paths)
            } else if base.is_same(left) {
                Ok(None)
            } else {
                refused(ConflictKind::ChangedAndDeleted, paths)
            }
        }
        (base, Some(ours), Some(theirs)) => {
            let path = match (is_renamed(&paths.ours), is_renamed(&paths.theirs)) {
                (true, true) if paths.ours != paths.theirs => {
                    return Ok(refused(ConflictKind::BothRenamed, paths));
                }
                (false, true) => &paths.theirs,
                _ => &paths.ours,
            };
            let is_moved = is_renamed(path);
            let merged = merge_versions(trees, paths, (base, ours, theirs), is_moved)?;
            let file = |(version, source)| {
                path.as_ref().map(|path| MergedFile { path: path.clone(), version, source })
            };
            merged.map(file)
        }
    };
    Ok(settled)
}

/// Merges type, mode and bytes of a file that both sides have.
fn merge_versions<E>(
    trees: &Trees<'_, E>,
    paths: &Paths,
    (base, ours, theirs): (Option<&Version>, &Version, &Version),
    is_moved: bool,
) -> Result<Result<(Version, MergedSource), Box<Conflict>>, E> {
    let kind = if base.is_some() { ConflictKind::BothChanged } else { ConflictKind::BothAdded };
    if base.is_none() && ours.is_executable() != theirs.is_executable() {
        return Ok(refused(kind, paths));
    }
    if is_moved && ours.file_type != theirs.file_type {
        return Ok(refused(ConflictKind::TypeChanged, paths));
    }
    let is_base = |version: &Version| base.is_some_and(|base| base.has_bytes_of(version));
    let mode = merged_mode(base, ours, theirs);
    if ours.has_bytes_of(theirs) || is_base(theirs) {
        return Ok(Ok((Version { mode, ..*ours }, MergedSource::Side(Side::Ours))));
    }
    if is_base(ours) {
        let mode = if ours.file_type == theirs.file_type { mode } else { theirs.mode };
        return Ok(Ok((Version { mode, ..*theirs }, MergedSource::Side(Side::Theirs))));
    }
    if ours.file_type != theirs.file_type {
        return Ok(refused(ConflictKind::TypeChanged, paths));
    }
    if ours.file_type == FileType::Symlink {
        return Ok(refused(kind, paths));
    }
    let read = |side, path: &Option<Path>| match path {
        Some(path) => (trees.read)(side, path),
        None => Ok(Some(Vec::new())),
    };
    // A symlink that both made a file is no text to begin with.
    let base = if base.is_some_and(|base| base.file_type == FileType::Symlink) { &None } else { &paths.base };
    let texts = [read(Side::Base, base)?, read(Side::Ours, &paths.ours)?, read(Side::Theirs, &paths.theirs)?];
    let [Some(base), Some(one), Some(other)] = texts else { return Ok(refused(kind, paths)) };
    if [&base, &one, &other].iter().any(|text| text.contains(&0)) {
        return Ok(refused(kind, paths));
    }
    Ok(match merge(&base, &one, &other, EqualChanges::Once) {
        Ok(bytes) => {
            let version = Version { mode, sha256: Sha256::of(&bytes), ..*ours };
            Ok((version, MergedSource::Merged(bytes)))
        }
        Err(_) => Err(Box::new(Conflict { lines: overlaps(&base, &one, &other), ..conflict(kind, paths) })),
    })
}

/// Returns the permission bits that each side left or changed; ours if nobody knows.
fn merged_mode(base: Option<&Version>, ours: &Version, theirs: &Version) -> u32 {
    match base.filter(|base| base.file_type == ours.file_type) {
        // A bit that they changed is theirs: if both changed it, both have the same.
        Some(base) => ours.mode ^ ((base.mode ^ theirs.mode) & !(base.mode ^ ours.mode)),
        None => ours.mode,
    }
}

/// Finds files that would get one path: a conflict, unless they are equal.
fn must_have_one_file(settled: &mut [(Paths, MergeCandidate)]) {
    let mut by_path: BTreeMap<Path, Vec<usize>> = BTreeMap::new();
    for (index, (_, result)) in settled.iter().enumerate() {
        if let Ok(Some(file)) = result {
            by_path.entry(file.path.clone()).or_default().push(index);
        }
    }
    for (path, indexes) in by_path.into_iter().filter(|(_, indexes)| indexes.len() > 1) {
        let files: Vec<&(Paths, MergeCandidate)> =
            indexes.iter().filter_map(|index| settled.get(*index)).collect();
        let versions: Vec<Version> =
            files.iter().filter_map(|(_, result)| Some(result.as_ref().ok()?.as_ref()?.version)).collect();
        let are_same =
            versions.windows(2).all(|pair| pair.first().zip(pair.last()).is_some_and(|(a, b)| a.is_same(b)));
        let base = files.iter().find_map(|(paths, _)| paths.base.clone());
        let paths = Paths { base, ours: Some(path.clone()), theirs: Some(path.clone()) };
        let mut found = Some(conflict(ConflictKind::SamePath, &paths));
        for index in indexes {
            let Some((paths, result)) = settled.get_mut(index) else { continue };
            if !are_same {
                // One conflict is about all of them.
                let is_first = found.is_some();
                *result = found.take().map_or(Ok(None), |found| Err(Box::new(found)));
                if !is_first {
                    *paths = Paths::default();
                }
            } else if paths.ours.as_ref() != Some(&path) {
                // The other file is there already.
                *result = Ok(None);
            }
        }
    }
}

/// Finds files at paths where folders with other files will be.
fn must_not_be_below_files<E>(trees: &Trees<'_, E>, settled: &mut [(Paths, MergeCandidate)]) {
    let file_of =
        |(_, result): &(Paths, MergeCandidate)| result.as_ref().ok()?.as_ref().map(|file| file.path.clone());
    let files: BTreeSet<Path> = settled.iter().filter_map(file_of).collect();
    for (paths, result) in settled.iter_mut() {
        let Ok(Some(file)) = result else { continue };
        let below = [file.path.as_slice(), b"/"].concat();
        let holds_file = files.range(below.clone()..).next().is_some_and(|next| next.starts_with(&below));
        let is_new = paths.ours.as_ref() != Some(&file.path);
        if holds_file || (is_new && (trees.keeps_files)(&file.path)) {
            *result = refused(ConflictKind::FileAndFolder, paths);
        }
    }
}
