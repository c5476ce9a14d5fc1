//! The files of a merge: which paths of the three trees are one file, and which folders moved.
//!
//! A folder that one side moved while the other created files in it is a conflict, as by git's default
//! (`merge.directoryRenames = conflict`).

use std::collections::{BTreeMap, BTreeSet};

use super::{Conflict, ConflictKind, FileType, Path, Paths, Side, Trees, Versions};
use crate::limits::MERGE_RENAME_PAIRS_MAX;
use crate::sha256::Sha256;
use crate::text::renames::{self, List, RenameCandidate, SimilarFiles};

/// Files of a merge.
pub struct MergeFiles {
    /// Paths of each file.
    pub files: Vec<Paths>,
    /// Files that one side created in a folder that the other moved.
    pub moved_folders: Vec<Conflict>,
}

impl MergeFiles {
    /// Finds the files, with the renames of both sides.
    pub fn of<E>(trees: &Trees<'_, E>) -> Result<Self, E> {
        let [ours, theirs] = [renames_of(trees, Side::Ours)?, renames_of(trees, Side::Theirs)?];
        let targets = [&ours, &theirs].map(|renames| renames.values().collect::<BTreeSet<&Path>>());
        let mut files = Vec::new();
        for (path, versions) in trees.paths {
            let own = |side| versions.on(side).map(|_| path.clone());
            let paths = if versions.base.is_some() && !versions.has_unknown_base {
                Paths {
                    base: Some(path.clone()),
                    ours: own(Side::Ours).or_else(|| ours.get(path).cloned()),
                    theirs: own(Side::Theirs).or_else(|| theirs.get(path).cloned()),
                }
            } else {
                let is_new = targets.each_ref().map(|targets| !targets.contains(path));
                Paths {
                    base: None,
                    ours: own(Side::Ours).filter(|_| is_new[0]),
                    theirs: own(Side::Theirs).filter(|_| is_new[1]),
                }
            };
            if !paths.all().is_empty() {
                files.push(paths);
            }
        }
        let moved_folders = MovedFolders::conflicts(trees, [&ours, &theirs]);
        Ok(Self { files, moved_folders })
    }
}

/// Returns the renames of one side.
///
/// As in git, contents are compared only where a rename matters: if the other side changed the file, or created one in a
/// folder that this side removed.
fn renames_of<E>(trees: &Trees<'_, E>, side: Side) -> Result<SideRenames, E> {
    let is_gone = |versions: &Versions| {
        !versions.has_unknown_base && versions.base.is_some() && versions.on(side).is_none()
    };
    let is_certain = |(from, to): &&(Path, Path)| {
        side == Side::Theirs
            && trees.paths.get(from).is_some_and(is_gone)
            && trees.paths.get(to).is_some_and(|versions| is_added(versions, side))
    };
    let mut renames: SideRenames = trees.moved.iter().filter(is_certain).cloned().collect();
    let taken: BTreeSet<Path> = renames.values().cloned().collect();
    let gone: Vec<(&Path, &Versions)> =
        trees.paths.iter().filter(|(path, it)| is_gone(it) && !renames.contains_key(*path)).collect();
    let come: Vec<(&Path, &Versions)> =
        trees.paths.iter().filter(|(path, it)| is_added(it, side) && !taken.contains(*path)).collect();
    if gone.is_empty() || come.is_empty() {
        return Ok(renames);
    }
    let new = folders_with_new(trees, other_side(side));
    let is_relevant = |index: usize| {
        let Some((path, versions)) = gone.get(index) else { return false };
        let is_kept = versions.on(other_side(side)).zip(versions.base.as_ref());
        is_kept.is_none_or(|(there, base)| !there.is_same(base))
            || folders_above(path).any(|folder| new.contains(folder) && is_removed(trees, side, folder))
    };
    let read = |list, index: usize| {
        let file = if list == List::Gone { gone.get(index) } else { come.get(index) };
        let at = if list == List::Gone { Side::Base } else { side };
        let is_regular =
            |versions: &Versions| versions.on(at).is_some_and(|it| it.file_type == FileType::Regular);
        match file.filter(|(_, versions)| is_regular(versions)) {
            Some((path, _)) => (trees.read)(at, path),
            None => Ok(None),
        }
    };
    let compared = SimilarFiles { is_relevant: &is_relevant, pairs_max: MERGE_RENAME_PAIRS_MAX, read: &read };
    let found = renames::find(&candidates(&gone, Side::Base), &candidates(&come, side), &compared)?;
    let named =
        |rename: renames::Rename| Some((gone.get(rename.from)?.0.clone(), come.get(rename.to)?.0.clone()));
    renames.extend(found.into_iter().filter_map(named));
    Ok(renames)
}

/// Returns files as candidates for renames.
fn candidates<'a>(
    files: &[(&'a Path, &Versions)],
    side: Side,
) -> Vec<RenameCandidate<'a, (FileType, Sha256)>> {
    let empty = Sha256::of(b"");
    let id = |versions: &Versions| {
        let version = versions.on(side)?;
        (version.sha256 != empty).then_some((version.file_type, version.sha256))
    };
    files.iter().map(|(path, versions)| RenameCandidate { path: path.as_slice(), id: id(versions) }).collect()
}

/// Renames of one side, from old to new paths.
pub type SideRenames = BTreeMap<Path, Path>;

/// Folders that one side moved, with their new paths; `None` if it moved as many files to one folder as to another.
pub struct MovedFolders(BTreeMap<Path, Option<Path>>);

/// A file whose folder moved.
struct FileOfMovedFolder {
    /// Its path with the folder; `None` if the folder was split.
    target: Option<Path>,
}

impl MovedFolders {
    /// Returns the conflicts about moved folders; `renames` are those of ours and theirs.
    pub fn conflicts<E>(trees: &Trees<'_, E>, renames: [&SideRenames; 2]) -> Vec<Conflict> {
        let moved = [Self::of(trees, Side::Ours, renames[0]), Self::of(trees, Side::Theirs, renames[1])];
        let mut found = Vec::new();
        for (side, [here, there]) in
            [(Side::Ours, [&moved[1], &moved[0]]), (Side::Theirs, [&moved[0], &moved[1]])]
        {
            for (path, _) in trees.paths.iter().filter(|(_, versions)| is_added(versions, side)) {
                let Some(FileOfMovedFolder { target }) = here.target(path, there) else { continue };
                let own = |of| (of == side).then(|| path.clone());
                let paths = Paths { base: None, ours: own(Side::Ours), theirs: own(Side::Theirs) };
                found.push(Conflict { kind: ConflictKind::FolderMoved, paths, lines: Vec::new(), target });
            }
        }
        found
    }

    /// Finds the folders that a side moved and in which the other created a file.
    fn of<E>(trees: &Trees<'_, E>, side: Side, renames: &SideRenames) -> Self {
        let new = folders_with_new(trees, other_side(side));
        let mut counts: BTreeMap<Path, BTreeMap<Path, usize>> = BTreeMap::new();
        for (from, to) in renames {
            let (mut old, mut moved) = (folder_of(from), folder_of(to));
            loop {
                if new.contains(old) && is_removed(trees, side, old) {
                    *counts.entry(old.to_vec()).or_default().entry(moved.to_vec()).or_default() += 1;
                }
                // `a/b/e/f` to `a/c/e/f` also moves `a/b` to `a/c`, but not `a`.
                let name = |folder: &[u8]| folder.rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
                if old.is_empty() || moved.is_empty() || name(old) != name(moved) {
                    break;
                }
                (old, moved) = (folder_of(old), folder_of(moved));
            }
        }
        let best = |targets: BTreeMap<Path, usize>| {
            let most = targets.values().copied().max().unwrap_or(0);
            let mut best = targets.into_iter().filter(|(_, count)| *count == most).map(|(path, _)| path);
            best.next().filter(|_| best.next().is_none())
        };
        let moved = counts.into_iter().filter(|(old, _)| !old.is_empty());
        Self(moved.map(|(old, targets)| (old, best(targets))).collect())
    }

    /// Returns the path that a new file gets with its folder; `None` if no folder above it moved.
    fn target(&self, path: &[u8], there: &Self) -> Option<FileOfMovedFolder> {
        let (old, target) = folders_above(path).find_map(|folder| Some((folder, self.0.get(folder)?)))?;
        let Some(target) = target else { return Some(FileOfMovedFolder { target: None }) };
        // The other side moved that folder away.
        if there.0.contains_key(target) {
            return None;
        }
        let rest = path.strip_prefix(old)?;
        let moved = [target.as_slice(), rest].concat();
        let target = moved.strip_prefix(b"/").map(<[u8]>::to_vec).unwrap_or(moved);
        Some(FileOfMovedFolder { target: Some(target) })
    }
}

/// Returns the other of the two sides that changed the base.
pub const fn other_side(side: Side) -> Side {
    match side {
        Side::Ours => Side::Theirs,
        Side::Base | Side::Theirs => Side::Ours,
    }
}

/// Returns the folder that holds a path; the root is empty.
pub fn folder_of(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    slash.and_then(|slash| path.split_at_checked(slash)).map_or(b"", |(folder, _)| folder)
}

/// Returns the folders above a path, innermost first, without the root.
pub fn folders_above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(folder_of(path)), |folder| Some(folder_of(folder)))
        .take_while(|folder| !folder.is_empty())
}

/// Returns true if a side created the file at a path.
pub fn is_added(versions: &Versions, side: Side) -> bool {
    !versions.has_unknown_base && versions.base.is_none() && versions.on(side).is_some()
}

/// Returns true if a side has no files left in a folder of the base.
pub fn is_removed<E>(trees: &Trees<'_, E>, side: Side, folder: &[u8]) -> bool {
    let below = [folder, b"/"].concat();
    let mut inner =
        trees.paths.range(below.clone()..).take_while(|(path, _)| path.starts_with(&below)).peekable();
    inner.peek().is_some()
        && inner.all(|(_, versions)| versions.on(side).is_none())
        && !(trees.keeps_files)(folder)
}

/// Returns the folders in which only `side` created a file directly.
pub fn folders_with_new<'t, E>(trees: &Trees<'t, E>, side: Side) -> BTreeSet<&'t [u8]> {
    let is_only = |versions: &Versions| is_added(versions, side) && versions.on(other_side(side)).is_none();
    trees.paths.iter().filter(|(_, it)| is_only(it)).map(|(path, _)| folder_of(path)).collect()
}
