//! What stands in the way of judging a path by git's rules.

use gix::bstr::ByteSlice as _;

use super::change::Reason;
use super::names::{RULE_FILES, joined};
use crate::engine::snapshot::store::held::HeldFolder;
use crate::engine::snapshot::store::trail::{Trails, next_end};
use crate::engine::workspace::fs::{is_folder, is_regular, is_symlink, size_of};
use crate::engine::workspace::rule_bounds;

/// Looks at the folders on the way to paths, each about once.
#[derive(Debug)]
pub struct Obstacles<'r> {
    /// The work tree.
    root: &'r HeldFolder,
    /// What was found on the way to the last paths.
    seen: Trails<FolderFinding>,
}

/// What was found of one folder, and of those on the way to it.
#[derive(Debug, Clone)]
enum FolderFinding {
    /// The rule files that count in it have so many bytes.
    Rules(u64),
    /// Nothing in it can be judged.
    Barred(Reason),
}

impl<'r> Obstacles<'r> {
    /// Nothing is known of the work tree yet.
    pub fn new(root: &'r HeldFolder) -> Self {
        Self { root, seen: Trails::default() }
    }

    /// Why `path` can have no rules, where something on its way forbids it.
    ///
    /// A nested repository has rules and snapshots of its own. A rule file that is a FIFO would block
    /// whoever reads it, one of many megabytes would fill the memory; git reads none that is a link.
    pub fn of(&mut self, path: &[u8]) -> Option<Reason> {
        let trail = self.seen.to(path);
        loop {
            let above = match trail.steps().last() {
                Some((_, FolderFinding::Barred(reason))) => return Some(reason.clone()),
                Some((_, FolderFinding::Rules(bytes))) => *bytes,
                None => 0,
            };
            let end = next_end(path, trail.last())?;
            let folder = path.get(..end)?;
            trail.push(end, look(self.root, folder, above));
        }
    }
}

/// Looks at one folder below those whose rule files have `above` bytes.
fn look(root: &HeldFolder, folder: &[u8], above: u64) -> FolderFinding {
    let path = gix::path::from_byte_slice(folder).unwrap_or(std::path::Path::new("."));
    let seen = if folder.is_empty() {
        seen_in(root, folder)
    } else {
        // What is not there, or is no folder of its own, has no rules.
        match root.folder(path) {
            Ok(Some(opened)) => seen_in(&opened, folder),
            Ok(None) | Err(_) => FolderFinding::Rules(0),
        }
    };
    match seen {
        FolderFinding::Rules(bytes) if above + bytes > rule_bounds::PATH_BYTES_MAX => {
            FolderFinding::Barred(Reason::Rules(joined(folder, b".gitignore").to_string()))
        }
        FolderFinding::Rules(bytes) => FolderFinding::Rules(above + bytes),
        FolderFinding::Barred(reason) => FolderFinding::Barred(reason),
    }
}

/// What an opened folder, `folder` from the root, has in the way.
fn seen_in(opened: &HeldFolder, folder: &[u8]) -> FolderFinding {
    if !folder.is_empty() && opened.stat(".git").ok().flatten().is_some() {
        return FolderFinding::Barred(Reason::NestedRepository(folder.to_str_lossy().into_owned()));
    }
    let mut bytes = 0;
    for name in RULE_FILES {
        let Some(stat) = opened.stat(name.to_path_lossy()).ok().flatten() else { continue };
        if is_symlink(&stat) || is_folder(&stat) {
            continue;
        }
        if !is_regular(&stat) || !rule_bounds::fits(opened, name, size_of(&stat)) {
            return FolderFinding::Barred(Reason::Rules(joined(folder, name).to_string()));
        }
        bytes += size_of(&stat);
    }
    FolderFinding::Rules(bytes)
}
