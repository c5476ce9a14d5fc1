//! What a walk finds, and where it begins.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::Stat;
use rustix::io::Errno;

use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::search::listing::Kind;

/// An opened folder of the walk.
#[derive(Debug)]
pub struct WalkFolder {
    /// Its path from the workspace root.
    pub path: WorkspacePath,
    /// The folder itself.
    pub(super) fd: OwnedFd,
}

/// An entry that was found.
#[derive(Debug)]
pub struct WalkEntry {
    /// The folder that holds it.
    pub(super) folder: Arc<WalkFolder>,
    /// Its name there.
    pub(super) name: OsString,
    /// What it is.
    pub kind: Kind,
    /// Whether the caller named this very path.
    pub named: bool,
}

impl AsFd for WalkFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl WalkEntry {
    /// Its path from the workspace root.
    #[must_use]
    pub fn path(&self) -> WorkspacePath {
        self.folder.path.join(&self.name)
    }

    /// The folder that holds it.
    #[must_use]
    pub fn folder(&self) -> &Arc<WalkFolder> {
        &self.folder
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Opens it for reading, through no symlink and without ever blocking.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        fs::open_at(self.folder.fd.as_fd(), &self.name, fs::READ)
    }

    /// What stands there now.
    ///
    /// # Errors
    /// What the system says.
    pub fn stat(&self) -> Result<Stat, Errno> {
        fs::stat_at(self.folder.fd.as_fd(), &self.name)
    }

    /// Where a symlink leads, as it is written.
    #[must_use]
    pub fn target(&self) -> Option<OsString> {
        let target = rustix::fs::readlinkat(&self.folder.fd, &self.name, Vec::new()).ok()?;
        Some(OsStr::from_bytes(target.as_bytes()).to_owned())
    }
}

/// What the walk left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct LeftOut {
    /// Entries that the ignore rules hide; what lies below an ignored folder is not counted.
    pub ignored: u64,
    /// Entries whose name begins with a dot, counted likewise.
    pub hidden: u64,
}

/// A path to walk, and what stands there.
#[derive(Debug, Clone)]
pub struct Root {
    /// Its path.
    pub path: WorkspacePath,
    /// Whether it is a folder.
    pub is_folder: bool,
}
