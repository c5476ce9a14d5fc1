//! What stands in a workspace before and after a command: type, mode, size and times of everything, so
//! that what the command touched is known without reading any file.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use rustix::fs::{Dir, FileType, Stat};

use super::layer::{Moment, changed_at};
use super::plan::Reach;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs};

/// Most things that are looked at.
const THINGS_MAX: usize = 500_000;
/// Longest time of a look.
const TIME_MAX: Duration = Duration::from_secs(10);

/// What a command can have left of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thing {
    /// Type and permission bits.
    mode: u32,
    /// Its inode.
    inode: u64,
    /// Its size in bytes.
    size: u64,
    /// When its bytes were last changed.
    modified: Moment,
    /// When anything of it was.
    changed: Moment,
}

impl Thing {
    /// What a stat tells.
    fn of(stat: &Stat) -> Self {
        let modified = (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or_default());
        Self {
            mode: stat.st_mode,
            inode: stat.st_ino,
            size: fs::size_of(stat),
            modified,
            changed: changed_at(stat),
        }
    }

    /// Its type.
    #[must_use]
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// Its permission bits; of a symlink the type bits, as the journal has them.
    #[must_use]
    pub fn recorded_mode(&self) -> u32 {
        if self.kind().is_symlink() { fs::SYMLINK_MODE } else { self.mode & 0o7777 }
    }

    /// Its inode.
    #[must_use]
    pub const fn inode(&self) -> u64 {
        self.inode
    }

    /// Its size.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Whether another look found the very same bytes: nothing but the mode may differ.
    #[must_use]
    pub fn has_bytes_of(&self, other: &Self) -> bool {
        (self.inode, self.size, self.modified, self.kind())
            == (other.inode, other.size, other.modified, other.kind())
    }
}

/// Something that differs between two looks.
#[derive(Debug, Clone)]
pub struct Touched {
    /// Where.
    pub path: WorkspacePath,
    /// What stood there.
    pub before: Option<Thing>,
    /// What stands there now.
    pub after: Option<Thing>,
}

/// Everything in a workspace, ordered by the bytes of its path.
#[derive(Debug)]
pub struct Survey(Vec<(Vec<u8>, Thing)>);

impl Survey {
    /// Looks at everything that a command with this reach may change; `None` where there is too much.
    #[must_use]
    pub fn of(workspace: &Workspace, reach: &Reach) -> Option<Self> {
        let closed: HashSet<&OsStr> =
            reach.protected.iter().chain(&reach.states).map(OsString::as_os_str).collect();
        let deadline = Instant::now() + TIME_MAX;
        let mut things = Vec::new();
        let mut folders = vec![WorkspacePath::root()];
        while let Some(path) = folders.pop() {
            if things.len() > THINGS_MAX || Instant::now() > deadline {
                return None;
            }
            // What may not be read may not be entered by the command either.
            let Ok(folder) = fs::open_beneath(workspace.root_fd(), &path, fs::FOLDER) else { continue };
            let Ok(entries) = Dir::read_from(&folder) else { continue };
            for entry in entries.flatten() {
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." {
                    continue;
                }
                let inner = path.join(name);
                if closed.contains(inner.as_path().as_os_str()) {
                    continue;
                }
                let Ok(stat) = fs::stat_at(folder.as_fd(), name) else { continue };
                things.push((inner.as_bytes().to_vec(), Thing::of(&stat)));
                if fs::is_folder(&stat) {
                    folders.push(inner);
                }
            }
        }
        things.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        Some(Self(things))
    }

    /// What differs in a later look, ordered by path; of a folder, whether it stands and its mode.
    #[must_use]
    pub fn touched(&self, later: &Self) -> Vec<Touched> {
        let (mut before, mut after) = (self.0.iter().peekable(), later.0.iter().peekable());
        let mut touched = Vec::new();
        loop {
            let (old, new) = match (before.peek(), after.peek()) {
                (None, None) => break,
                (Some(_), None) => (before.next(), None),
                (None, Some(_)) => (None, after.next()),
                (Some(old), Some(new)) => match old.0.cmp(&new.0) {
                    std::cmp::Ordering::Less => (before.next(), None),
                    std::cmp::Ordering::Greater => (None, after.next()),
                    std::cmp::Ordering::Equal => (before.next(), after.next()),
                },
            };
            let things = (old.map(|old| old.1), new.map(|new| new.1));
            if !is_same(things)
                && let Some((path, _)) = old.or(new)
                && let Some(path) = WorkspacePath::new(OsStr::from_bytes(path).as_ref())
            {
                touched.push(Touched { path, before: things.0, after: things.1 });
            }
        }
        touched.sort_by(|one, other| one.path.cmp(&other.path));
        touched
    }

    /// What stands at a path.
    #[must_use]
    pub fn at(&self, path: &WorkspacePath) -> Option<&Thing> {
        let place = self.0.binary_search_by(|(known, _)| known.as_slice().cmp(path.as_bytes())).ok()?;
        self.0.get(place).map(|(_, thing)| thing)
    }

    /// Whether a folder held nothing.
    #[must_use]
    pub fn is_empty(&self, folder: &WorkspacePath) -> bool {
        let mut prefix = folder.as_bytes().to_vec();
        prefix.push(b'/');
        let next = self.0.partition_point(|(known, _)| known.as_slice() < prefix.as_slice());
        !self.0.get(next).is_some_and(|(known, _)| known.starts_with(&prefix))
    }
}

/// Whether nothing of note differs.
fn is_same(things: (Option<Thing>, Option<Thing>)) -> bool {
    match things {
        (Some(before), Some(after)) if before.kind().is_dir() && after.kind().is_dir() => {
            before.mode == after.mode
        }
        // Whoever writes into a FIFO changes its times.
        (Some(before), Some(after)) if !has_bytes(before.kind()) => {
            (before.mode, before.inode) == (after.mode, after.inode)
        }
        (before, after) => before == after,
    }
}

/// Whether a file of this type holds bytes of its own.
fn has_bytes(kind: FileType) -> bool {
    kind.is_file() || kind.is_symlink()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_touched_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |path: &str| root.join(path);
        std::fs::create_dir_all(at("kept/.git")).unwrap();
        std::fs::create_dir_all(at("d/e")).unwrap();
        for path in ["a", "a.b", "d/e/f", "g", "kept/.git/x"] {
            std::fs::write(at(path), path).unwrap();
        }
        let workspace = Workspace::open(&root).unwrap();
        let reach = Reach {
            root: root.clone().into_os_string(),
            protected: vec!["kept/.git".into()],
            layer: None,
            states: Vec::new(),
            writable: Vec::new(),
            hidden: Vec::new(),
            settled: Vec::new(),
            pinned: Vec::new(),
            network: false,
        };
        let before = Survey::of(&workspace, &reach).unwrap();
        let d = WorkspacePath::new("d".as_ref()).unwrap();
        assert!(!before.is_empty(&d) && before.is_empty(&d.join("e".as_ref()).join("f".as_ref())));
        std::fs::write(at("a"), "other").unwrap();
        std::fs::remove_dir_all(at("d")).unwrap();
        std::fs::write(at("kept/.git/x"), "other").unwrap();
        std::fs::create_dir(at("h")).unwrap();
        let after = Survey::of(&workspace, &reach).unwrap();
        let touched = before.touched(&after);
        let paths: Vec<String> = touched.iter().map(|it| it.path.to_string()).collect();
        assert_eq!(paths, ["a", "d", "d/e", "d/e/f", "h"]);
        assert!(after.touched(&after).is_empty());
    }
}
