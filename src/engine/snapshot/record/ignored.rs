//! Paths that git ignores, found without a scan.

use std::collections::BTreeMap;

use super::prepare::Preparer;
use crate::engine::snapshot::store::chain::{Chain, Stamp};
use crate::engine::snapshot::store::error::SnapshotError;
use crate::engine::snapshot::store::{Store, refs};

/// A path that may be ignored.
#[derive(Debug, Clone, Copy)]
pub struct IgnoreQuery<'a> {
    /// The path from the root.
    pub path: &'a [u8],
    /// True if it is a folder.
    pub is_folder: bool,
    /// Its new bytes if it is a rule file, such as `.gitignore`.
    pub rules: Option<&'a [u8]>,
}

/// The answer for an ignored path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ignored {
    /// Length of the outermost ignored folder that holds the path, in bytes; the whole path if no folder
    /// is ignored.
    pub folder_bytes: usize,
}

impl Store {
    /// Finds out which paths git ignores: untracked, and matched by a rule. `None` for the others.
    ///
    /// Rules that come with the paths count as well, as they will once the paths are in place.
    ///
    /// # Errors
    /// Fails if the repository or its rules cannot be read.
    pub fn ignored(&self, queries: &[IgnoreQuery<'_>]) -> Result<Vec<Option<Ignored>>, SnapshotError> {
        let tip = self.branch.tip(&self.repo)?;
        let head = refs::head_target(&self.repo)?;
        let stamp = Stamp { session: "", seq: 0, seconds: 0, gate: None, harness: None };
        let chain = Chain::begin(&self.repo, tip, head.as_ref(), stamp)?;
        let paths = queries.iter().map(|query| query.path);
        let mut preparer = Preparer::new(&self.repo, &chain, paths, self.takes())?;
        for query in queries {
            if let Some(bytes) = query.rules {
                preparer.rules.learn(query.path, bytes)?;
            }
        }
        let mut folders = BTreeMap::new();
        queries.iter().map(|query| classify(&mut preparer, query, &mut folders)).collect()
    }
}

/// Classifies one path; `folders` remembers the folders on the way.
fn classify<'a>(
    preparer: &mut Preparer<'_, '_>,
    query: &IgnoreQuery<'a>,
    folders: &mut BTreeMap<&'a [u8], bool>,
) -> Result<Option<Ignored>, SnapshotError> {
    let found = preparer.look_up(query.path)?;
    if preparer.is_in_head(query.path, found)? {
        return Ok(None);
    }
    let ignored = ignored_at(preparer, query, folders)?;
    Ok(ignored.filter(|_| !preparer.is_in_index(query.path)))
}

/// Asks the rules about a path; `folders` as in [`classify`].
fn ignored_at<'a>(
    preparer: &mut Preparer<'_, '_>,
    query: &IgnoreQuery<'a>,
    folders: &mut BTreeMap<&'a [u8], bool>,
) -> Result<Option<Ignored>, SnapshotError> {
    let slashes = query.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    for end in slashes {
        let Some(folder) = query.path.get(..end) else { continue };
        let is_ignored = match folders.get(folder) {
            Some(known) => *known,
            None => preparer.rules.ignores_folder(folder)?,
        };
        folders.insert(folder, is_ignored);
        if is_ignored {
            return Ok(Some(Ignored { folder_bytes: end }));
        }
    }
    let is_ignored = if query.is_folder {
        preparer.rules.ignores_folder(query.path)?
    } else {
        preparer.rules.ignores(query.path)?
    };
    Ok(is_ignored.then_some(Ignored { folder_bytes: query.path.len() }))
}
