//! Where an absolute path leads, and the links on its way.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

/// Most links in one path, as in Linux.
const LINKS_MAX: usize = 40;

/// Follows paths, and notes the links on their way.
#[derive(Debug, Default)]
pub struct Follower {
    /// The links, each with its target.
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// Paths that are no links.
    real: HashSet<PathBuf>,
}

impl Follower {
    /// Returns the canonical path of an absolute path; `None` if it does not exist.
    pub fn follow(&mut self, path: &Path) -> Option<PathBuf> {
        let (mut at, mut followed) = (PathBuf::from("/"), 0);
        let mut rest: Vec<OsString> = reversed(path);
        while let Some(part) = rest.pop() {
            if part == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            if self.real.contains(&next) {
                at = next;
                continue;
            }
            match rustix::fs::readlink(&next, Vec::new()) {
                Ok(_) if followed == LINKS_MAX => return None,
                Ok(target) => {
                    let target = PathBuf::from(OsStr::from_bytes(target.as_bytes()));
                    if target.is_absolute() {
                        at = PathBuf::from("/");
                    }
                    rest.extend(reversed(&target));
                    self.links.insert(next, target);
                    followed += 1;
                }
                Err(Errno::INVAL) => {
                    self.real.insert(next.clone());
                    at = next;
                }
                Err(_) => return None,
            }
        }
        Some(at)
    }
}

/// Returns the names in a path, the last one first.
fn reversed(path: &Path) -> Vec<OsString> {
    let is_name = |part: &Component<'_>| !matches!(part, Component::RootDir | Component::CurDir);
    let mut parts: Vec<OsString> =
        path.components().filter(is_name).map(|part| part.as_os_str().to_owned()).collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_of_links_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("b", folder.path().join("a")).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("b")).unwrap();
        assert_eq!(Follower::default().follow(&folder.path().join("a/c")), None);
    }
}
