//! Removes a file or folder with all its contents, only through opened folders.
//!
//! Uses no paths, follows no symlink, and removes nothing on another mount: a folder that was swapped for a link
//! meanwhile stays, and so do mounts. One folder is open at a time, however deep the tree is.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, OFlags, Stat};
use rustix::io::Errno;

use super::fs;
use crate::limits::REMOVAL_PASSES_MAX;
use crate::platform;

/// Most remaining names that a response lists.
const LEFT_NAMED_MAX: usize = 3;

/// Result of a removal.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RemovalResult {
    /// Number of removed files, including symlinks and the like.
    pub files: u64,
    /// Number of bytes in the regular ones.
    pub bytes: u64,
    /// First few remaining names, with reasons.
    pub left: Vec<String>,
    /// True if anything stays.
    pub is_partial: bool,
}

impl RemovalResult {
    /// Adds the result of another removal.
    pub fn join(&mut self, other: Self) {
        self.files = self.files.saturating_add(other.files);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.is_partial |= other.is_partial;
        let room = LEFT_NAMED_MAX.saturating_sub(self.left.len());
        self.left.extend(other.left.into_iter().take(room));
    }

    /// Notes that something stays.
    fn note_remaining(&mut self, name: &OsStr, why: impl std::fmt::Display) {
        self.is_partial = true;
        if self.left.len() < LEFT_NAMED_MAX {
            self.left.push(format!("{} ({why})", name.to_string_lossy()));
        }
    }

    /// Notes that a name could not be removed; one that is gone already is no failure.
    fn failed(&mut self, name: &OsStr, errno: Errno) {
        match errno {
            Errno::NOENT => {}
            Errno::BUSY | Errno::XDEV => self.note_remaining(name, "something is mounted there"),
            // Names that stay in it are listed already.
            Errno::NOTEMPTY | Errno::EXIST if self.is_partial => {}
            Errno::NOTEMPTY | Errno::EXIST => self.note_remaining(name, "it is not empty"),
            errno => self.note_remaining(name, std::io::Error::from(errno)),
        }
    }
}

/// A folder on the way down.
struct FolderLevel {
    /// Its name in the folder above.
    name: OsString,
    /// Which folder it is.
    stat: Stat,
    /// Folders in it that are still to be removed.
    below: Vec<OsString>,
    /// Times that it was looked through.
    passes: usize,
}

/// Removes `name` in `folder` with all that it holds.
pub fn remove(folder: BorrowedFd<'_>, name: &OsStr) -> RemovalResult {
    let mut removed = RemovalResult::default();
    match remove_file(folder, name, &mut removed) {
        Ok(true) => {}
        Ok(false) => remove_folder(folder, name, &mut removed),
        Err(errno) => removed.failed(name, errno),
    }
    removed
}

/// Removes whatever is not a folder; `false` where it is one.
fn remove_file(folder: BorrowedFd<'_>, name: &OsStr, removed: &mut RemovalResult) -> Result<bool, Errno> {
    let stat = fs::stat_at(folder, name)?;
    if fs::is_folder(&stat) {
        return Ok(false);
    }
    fs::unlink_at(folder, name, AtFlags::empty())?;
    removed.files += 1;
    // The length of a link's target is no content: delete counts the same.
    let bytes = if fs::is_regular(&stat) { fs::size_of(&stat) } else { 0 };
    removed.bytes = removed.bytes.saturating_add(bytes);
    Ok(true)
}

/// Removes a folder: down to where no folder is left, and up again.
fn remove_folder(top: BorrowedFd<'_>, name: &OsStr, removed: &mut RemovalResult) {
    let (mut at, first) = match enter(top, name) {
        Ok(entered) => entered,
        Err(errno) => return removed.failed(name, errno),
    };
    let mut levels = vec![first];
    while let Some(level) = levels.last_mut() {
        if level.passes == 0 {
            empty(&at, level, removed);
        }
        if let Some(name) = level.below.pop() {
            match enter(at.as_fd(), &name) {
                Ok((folder, level)) => {
                    at = folder;
                    levels.push(level);
                }
                Err(errno) => removed.failed(&name, errno),
            }
            continue;
        }
        let (name, passes) = (std::mem::take(&mut level.name), level.passes);
        let above = levels.len().checked_sub(2).and_then(|above| levels.get(above));
        let parent = match above {
            Some(above) => match note_remaining(&at, &above.stat) {
                Ok(parent) => Some(parent),
                // Someone has moved it meanwhile, so its parent is not ours now.
                Err(errno) => return removed.failed(&name, errno),
            },
            None => None,
        };
        let holder = parent.as_ref().map_or(top, AsFd::as_fd);
        match fs::unlink_at(holder, &name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) if passes < REMOVAL_PASSES_MAX && !removed.is_partial => {
                if let Some(level) = levels.last_mut() {
                    level.name = name;
                    empty(&at, level, removed);
                }
                continue;
            }
            Err(errno) => removed.failed(&name, errno),
            Ok(()) => {}
        }
        levels.pop();
        if let Some(parent) = parent {
            at = parent;
        }
    }
}

/// Removes what is not a folder from an opened one, and notes the folders.
fn empty(folder: &OwnedFd, level: &mut FolderLevel, removed: &mut RemovalResult) {
    level.passes += 1;
    let mut entries = match rustix::io::retry_on_intr(|| rustix::fs::Dir::read_from(folder)) {
        Ok(entries) => entries,
        Err(errno) => return removed.failed(&level.name, errno),
    };
    // Names are removed while they are listed: a folder of millions need not be held.
    while let Some(entry) = entries.read() {
        let Ok(entry) = entry else { break };
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        match remove_file(folder.as_fd(), name, removed) {
            Ok(true) => {}
            Ok(false) => level.below.push(name.to_owned()),
            Err(errno) => removed.failed(name, errno),
        }
    }
}

/// Opens a folder below another one, on the same mount. A closed one is opened up: overlayfs closes one of its own, and a
/// command may close any.
fn enter(folder: BorrowedFd<'_>, name: &OsStr) -> Result<(OwnedFd, FolderLevel), Errno> {
    let opened = match platform::open_same_mount(folder, name, fs::FOLDER) {
        Err(Errno::ACCESS) => {
            let closed = platform::NamedEntry::at(folder, name)?;
            let mode = fs::opened_up(fs::mode_of(&closed.stat()?));
            fs::set_mode(&closed.into_folder()?, mode)?;
            platform::open_same_mount(folder, name, fs::FOLDER)?
        }
        opened => opened?,
    };
    let stat = rustix::fs::fstat(&opened)?;
    if fs::is_closed(fs::mode_of(&stat)) {
        // Names that cannot be removed say so themselves.
        let _ = fs::set_mode(&opened, fs::opened_up(fs::mode_of(&stat)));
    }
    Ok((opened, FolderLevel { name: name.to_owned(), stat, below: Vec::new(), passes: 0 }))
}

/// Opens the folder above, if it is still the one that led here.
fn note_remaining(folder: &OwnedFd, above: &Stat) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = fs::open_at(folder.as_fd(), OsStr::new(".."), flags)?;
    if fs::is_same_file(&rustix::fs::fstat(&parent)?, above) { Ok(parent) } else { Err(Errno::STALE) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;
    use std::fs as disk;

    /// The opened folder at a path.
    fn opened(path: &std::path::Path) -> OwnedFd {
        disk::File::open(path).unwrap().into()
    }

    #[test]
    fn removal_does_not_follow_symlinks() {
        let outer = tempfile::tempdir().unwrap();
        let at = |path: &str| outer.path().join(path);
        disk::create_dir_all(at("outside")).unwrap();
        disk::write(at("outside/precious"), "1").unwrap();
        disk::create_dir_all(at("tree/a/b")).unwrap();
        disk::write(at("tree/a/b/c"), "22").unwrap();
        disk::write(at("tree/d"), "333").unwrap();
        std::os::unix::fs::symlink(at("outside"), at("tree/a/link")).unwrap();
        std::os::unix::fs::symlink(at("outside"), at("link")).unwrap();
        let folder = opened(outer.path());
        let removed = remove(folder.as_fd(), OsStr::new("tree"));
        assert!(!removed.is_partial && removed.files == 3, "{removed:?}");
        assert!(!at("tree").exists());
        // A link goes itself.
        assert_eq!(remove(folder.as_fd(), OsStr::new("link")).files, 1);
        assert!(at("outside/precious").exists());
        // A missing name counts as removed.
        assert_eq!(remove(folder.as_fd(), OsStr::new("tree")), RemovalResult::default());
    }

    #[test]
    fn removal_handles_5000_nested_directories() {
        let outer = tempfile::tempdir().unwrap();
        let folder = opened(outer.path());
        let mode = Mode::from_raw_mode(0o755);
        rustix::fs::mkdirat(&folder, "tree", mode).unwrap();
        let mut at = fs::open_at(folder.as_fd(), OsStr::new("tree"), fs::FOLDER).unwrap();
        for _ in 0..5000 {
            rustix::fs::mkdirat(&at, "d", mode).unwrap();
            fs::create_at(at.as_fd(), OsStr::new("f"), 0o644).unwrap();
            at = fs::open_at(at.as_fd(), OsStr::new("d"), fs::FOLDER).unwrap();
        }
        let removed = remove(folder.as_fd(), OsStr::new("tree"));
        assert!(!removed.is_partial && removed.files == 5000, "{removed:?}");
        assert!(!outer.path().join("tree").exists());
    }
}
