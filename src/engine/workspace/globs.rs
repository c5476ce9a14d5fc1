//! Globs that name paths from the root, with all below them.

use globset::{Candidate, GlobSet};

use super::path::WorkspacePath;

/// The place in the set of the first glob that matches `path` or a folder that it lies in.
#[must_use]
pub fn first_matching(set: &GlobSet, path: &WorkspacePath) -> Option<usize> {
    let mut at = Some(path.clone());
    while let Some(path) = at.filter(|path| !path.is_root()) {
        if let Some(&index) = set.matches_candidate(&Candidate::new(path.as_path())).first() {
            return Some(index);
        }
        at = path.parent();
    }
    None
}
