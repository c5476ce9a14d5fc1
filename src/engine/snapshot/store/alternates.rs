//! Folders of objects that a repository borrows from others, as git would: bounded in number and depth.

use std::path::{Path, PathBuf};

use super::error::{Doing as _, SnapshotError};
use super::held::HeldFolder;
use super::ordinary;

/// Longest list of such folders, in bytes.
const LIST_BYTES_MAX: u64 = 64 * 1024;
/// Most folders in all.
const FOLDERS_MAX: usize = 64;
/// How deep they may name each other; git stops there too.
const DEPTH_MAX: usize = 5;
/// The list, in a folder of objects.
pub(super) const LIST: &str = "info/alternates";

/// The folders whose objects count as those of `objects`, each held open and checked.
///
/// # Errors
/// Where a list is not a regular file, or there are too many folders. One that is missing is skipped,
/// as git does.
pub fn folders(objects: &HeldFolder) -> Result<Vec<HeldFolder>, SnapshotError> {
    ordinary::check_packs(objects)?;
    let mut found: Vec<HeldFolder> = Vec::new();
    let mut waiting = named_by(objects, 0)?;
    while let Some((path, depth)) = waiting.pop() {
        // Where the name leads; that is then opened through no link.
        #[expect(clippy::disallowed_methods, reason = "git follows links there too")]
        let Ok(path) = std::fs::canonicalize(path) else { continue };
        if path == objects.path() || found.iter().any(|known| known.path() == path) {
            continue;
        }
        if depth > DEPTH_MAX || found.len() >= FOLDERS_MAX {
            return Err(SnapshotError::new(
                "the repository borrows objects from too many others (objects/info/alternates)",
            ));
        }
        let Ok(folder) = HeldFolder::open(&path) else { continue };
        ordinary::check_packs(&folder)?;
        waiting.extend(named_by(&folder, depth)?);
        found.push(folder);
    }
    Ok(found)
}

/// The folders that a folder's list names, each one deeper than it.
fn named_by(folder: &HeldFolder, depth: usize) -> Result<Vec<(PathBuf, usize)>, SnapshotError> {
    let shown = || format!("`{}` is not a regular file of its size", folder.path().join(LIST).display());
    let Some(list) = folder.read(LIST, LIST_BYTES_MAX).untold(shown)? else { return Ok(Vec::new()) };
    let parsed = gix::odb::alternate::parse(&list)
        .untold(|| format!("`{}` is not in git's format", folder.path().join(LIST).display()))?;
    if parsed.len() > FOLDERS_MAX {
        return Err(SnapshotError::new(
            "the repository borrows objects from too many others (objects/info/alternates)",
        ));
    }
    Ok(parsed.iter().map(|path: &PathBuf| (folder.path().join(Path::new(path)), depth + 1)).collect())
}
