//! What stands in the way of judging a path by git's rules.

use std::collections::HashMap;

use gix::bstr::ByteSlice as _;

use super::change::Reason;
use super::rules::{RULE_FILES, folders, joined};
use crate::engine::snapshot::store::error::{Doing as _, SnapshotError};
use crate::engine::snapshot::store::held::Held;
use crate::engine::workspace::fs::{is_folder, is_regular, is_symlink, size_of};
use crate::engine::workspace::rule_bounds;

/// Looks at the folders on the way to paths, each once.
#[derive(Debug)]
pub struct Obstacles {
    /// The work tree.
    root: Held,
    /// What was found of each folder.
    seen: HashMap<Vec<u8>, Seen>,
}

/// What was found of one folder.
#[derive(Debug, Clone)]
enum Seen {
    /// Its rule files have so many bytes.
    Rules(u64),
    /// Nothing in it can be judged.
    Barred(Reason),
}

impl Obstacles {
    /// Nothing is known of the work tree yet.
    pub fn new(work_tree: &std::path::Path) -> Result<Self, SnapshotError> {
        let root = Held::open(work_tree).doing(|| format!("`{}` cannot be read", work_tree.display()))?;
        Ok(Self { root, seen: HashMap::new() })
    }

    /// Why `path` can have no rules, where something on its way forbids it.
    ///
    /// A nested repository has rules and snapshots of its own. A rule file that is a FIFO would block
    /// whoever reads it, one of many megabytes would fill the memory; git reads none that is a link.
    pub fn of(&mut self, path: &[u8]) -> Option<Reason> {
        let mut bytes = 0;
        for folder in folders(path) {
            let seen = match self.seen.get(folder) {
                Some(seen) => seen.clone(),
                None => self.look(folder),
            };
            match seen {
                Seen::Barred(reason) => return Some(reason),
                Seen::Rules(more) => bytes += more,
            }
            if bytes > rule_bounds::PATH_BYTES_MAX {
                return Some(Reason::Rules(joined(folder, b".gitignore").to_string()));
            }
        }
        None
    }

    /// Looks at one folder, and keeps what was found.
    fn look(&mut self, folder: &[u8]) -> Seen {
        let path = gix::path::from_byte_slice(folder).unwrap_or(std::path::Path::new("."));
        // What is not there, or is no folder of its own, has no rules.
        let seen = match self.root.folder(path) {
            Ok(Some(opened)) => seen_in(&opened, folder),
            Ok(None) | Err(_) => Seen::Rules(0),
        };
        self.seen.insert(folder.to_vec(), seen.clone());
        seen
    }
}

/// What an opened folder, `folder` from the root, has in the way.
fn seen_in(opened: &Held, folder: &[u8]) -> Seen {
    if !folder.is_empty() && opened.stat(".git").ok().flatten().is_some() {
        return Seen::Barred(Reason::NestedRepository(folder.to_str_lossy().into_owned()));
    }
    let mut bytes = 0;
    for name in RULE_FILES {
        let Some(stat) = opened.stat(name.to_path_lossy()).ok().flatten() else { continue };
        if is_symlink(&stat) || is_folder(&stat) {
            continue;
        }
        if !is_regular(&stat) || !rule_bounds::fits(opened, name, size_of(&stat)) {
            return Seen::Barred(Reason::Rules(joined(folder, name).to_string()));
        }
        bytes += size_of(&stat);
    }
    Seen::Rules(bytes)
}
