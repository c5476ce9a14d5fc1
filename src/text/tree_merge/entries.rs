//! The files of a merge: which paths of the three trees are one file.

use std::collections::BTreeSet;

use super::folders::{MovedFolders, Renames, folders_above, folders_with_new, is_added, is_removed, other};
use super::{Conflict, FileType, Path, Paths, Side, Trees, Versions};
use crate::limits::MERGE_RENAME_PAIRS_MAX;
use crate::sha256::Sha256;
use crate::text::renames::{self, Candidate, Compared, List};

/// Files of a merge.
pub struct Entries {
    /// Paths of each file.
    pub files: Vec<Paths>,
    /// Files that one side created in a folder that the other moved.
    pub moved_folders: Vec<Conflict>,
}

impl Entries {
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
fn renames_of<E>(trees: &Trees<'_, E>, side: Side) -> Result<Renames, E> {
    let is_gone = |versions: &Versions| {
        !versions.has_unknown_base && versions.base.is_some() && versions.on(side).is_none()
    };
    let is_certain = |(from, to): &&(Path, Path)| {
        side == Side::Theirs
            && trees.paths.get(from).is_some_and(is_gone)
            && trees.paths.get(to).is_some_and(|versions| is_added(versions, side))
    };
    let mut renames: Renames = trees.moved.iter().filter(is_certain).cloned().collect();
    let taken: BTreeSet<Path> = renames.values().cloned().collect();
    let gone: Vec<(&Path, &Versions)> =
        trees.paths.iter().filter(|(path, it)| is_gone(it) && !renames.contains_key(*path)).collect();
    let come: Vec<(&Path, &Versions)> =
        trees.paths.iter().filter(|(path, it)| is_added(it, side) && !taken.contains(*path)).collect();
    if gone.is_empty() || come.is_empty() {
        return Ok(renames);
    }
    let new = folders_with_new(trees, other(side));
    let is_relevant = |index: usize| {
        let Some((path, versions)) = gone.get(index) else { return false };
        let is_kept = versions.on(other(side)).zip(versions.base.as_ref());
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
    let compared = Compared { is_relevant: &is_relevant, pairs_max: MERGE_RENAME_PAIRS_MAX, read: &read };
    let found = renames::find(&candidates(&gone, Side::Base), &candidates(&come, side), &compared)?;
    let named =
        |rename: renames::Rename| Some((gone.get(rename.from)?.0.clone(), come.get(rename.to)?.0.clone()));
    renames.extend(found.into_iter().filter_map(named));
    Ok(renames)
}

/// Returns files as candidates for renames.
fn candidates<'a>(files: &[(&'a Path, &Versions)], side: Side) -> Vec<Candidate<'a, (FileType, Sha256)>> {
    let empty = Sha256::of(b"");
    let id = |versions: &Versions| {
        let version = versions.on(side)?;
        (version.sha256 != empty).then_some((version.file_type, version.sha256))
    };
    files.iter().map(|(path, versions)| Candidate { path: path.as_slice(), id: id(versions) }).collect()
}
