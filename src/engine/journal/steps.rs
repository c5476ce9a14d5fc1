//! The steps of a change, in order, each with an inverse. Pure.
//!
//! Applying a change runs its steps; rolling it back runs their inverses from the end.

use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use crate::engine::store::state::{STAGING_FOLDER, STATE_FOLDER};
use crate::engine::store::trash;
use crate::engine::workspace::fs::{self, is_closed};
use crate::engine::workspace::metadata::Identity;
use crate::engine::workspace::path::WorkspacePath;
use crate::sha256::Sha256;

/// Largest entry, in bytes: a patch over some 100,000 files.
pub const ENTRY_BYTES_MAX: u64 = 64 << 20;
/// Folder of the entries of unfinished changes.
pub const OPEN_FOLDER: &str = "journal/open";
/// Folder of the entries of finished changes, with one folder per session.
pub const DONE_FOLDER: &str = "journal/done";
/// Folder of files and folders between two names.
pub const HELD_FOLDER: &str = "journal/held";
/// Folder of entries that could neither be completed nor rolled back.
pub const STUCK_FOLDER: &str = "journal/stuck";
/// Folder of the backups.
pub const BACKUPS_FOLDER: &str = "backups";

/// Removes a file of the state, if it can be.
pub fn remove(folder: &OwnedFd, name: &str) {
    // Best effort: the next change removes the rest.
    let _ = fs::unlink_at(folder, name, rustix::fs::AtFlags::empty());
}

/// A file on one side of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// SHA-256 of its bytes.
    pub sha256: Sha256,
    /// Number of bytes.
    pub size: u64,
    /// Permission bits; for a symlink, whose bytes are its target, the type bits.
    pub mode: u32,
    /// Owner and attributes, if the change deletes it and a new file would have others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

#[cfg(test)]
impl Version {
    /// Returns a version with these bytes.
    pub fn of(text: &str) -> Self {
        let size = text.len() as u64;
        Self { sha256: Sha256::of(text.as_bytes()), size, mode: 0o644, identity: None }
    }
}

/// Change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Canonical path.
    pub path: WorkspacePath,
    /// Version before; `None` if there was no file.
    pub before: Option<Version>,
    /// Version after; `None` if the file is deleted.
    pub after: Option<Version>,
}

/// Rename of a whole file or folder: to or from the trash, or within the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveEntry {
    /// Canonical path before.
    pub from: WorkspacePath,
    /// Canonical path after.
    pub to: WorkspacePath,
    /// Temporary path, if the new name is free only after other moves.
    pub via: Option<WorkspacePath>,
}

impl MoveEntry {
    /// Returns a move straight to the new name.
    pub fn new(from: WorkspacePath, to: WorkspacePath) -> Self {
        Self { from, to, via: None }
    }
}

/// A folder, with its metadata if a new folder would have other metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderEntry<P> {
    /// The folder.
    pub path: P,
    /// Its permission bits.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Its owner and attributes.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// Prefix of a staged file that is in the folder of its target.
pub const BESIDE_PREFIX: &str = ".lbx-tmp-";

/// Location that a step refers to: in the workspace, or in lbx's own state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Location {
    /// A path from the workspace root.
    File(WorkspacePath),
    /// A path from the state folder.
    State(WorkspacePath),
}

impl Location {
    /// Returns the location of a path from the root; `state` is the path of the state folder.
    pub fn of(path: &WorkspacePath, state: &WorkspacePath) -> Self {
        match path.as_path().strip_prefix(state.as_path()).ok().and_then(WorkspacePath::new) {
            Some(inner) => Self::State(inner),
            None => Self::File(path.clone()),
        }
    }

    /// Returns a path of the state.
    pub fn in_state(folder: &str, name: &str) -> Self {
        Self::State(WorkspacePath::new(&Path::new(folder).join(name)).unwrap_or_default())
    }

    /// Returns its path, from the root or from the state folder.
    pub fn path(&self) -> &WorkspacePath {
        match self {
            Self::File(path) | Self::State(path) => path,
        }
    }

    /// Returns its path in the workspace; `None` if it is in the state.
    pub fn in_workspace(&self) -> Option<&WorkspacePath> {
        match self {
            Self::File(path) => Some(path),
            Self::State(_) => None,
        }
    }

    /// Returns its path from the root, given the path of the state folder.
    pub fn from_root(&self, state: &WorkspacePath) -> WorkspacePath {
        match self {
            Self::File(path) => path.clone(),
            Self::State(path) => path.rebased(&WorkspacePath::root(), state),
        }
    }

    /// Returns the location of another path in the same tree.
    #[must_use]
    pub fn with(&self, path: WorkspacePath) -> Self {
        match self {
            Self::File(_) => Self::File(path),
            Self::State(_) => Self::State(path),
        }
    }

    /// Returns the folder that holds it; `None` for the top of its tree.
    pub fn parent(&self) -> Option<Self> {
        Some(self.with(self.path().parent()?))
    }

    /// Returns true if it is `folder` or lies below it.
    pub fn is_within(&self, folder: &Self) -> bool {
        match (self, folder) {
            (Self::File(path), Self::File(folder)) | (Self::State(path), Self::State(folder)) => {
                path.is_within(folder)
            }
            _ => false,
        }
    }

    /// Returns its new location after `old`, which is it or contains it, moves to `new`.
    #[must_use]
    pub fn rebased(&self, old: &Self, new: &Self) -> Self {
        new.with(self.path().rebased(old.path(), new.path()))
    }

    /// Returns true if it is in the folder of things between two names.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::State(path) if path.as_path().starts_with(HELD_FOLDER))
    }

    /// Returns true if it is in the trash.
    pub fn is_trashed(&self) -> bool {
        matches!(self, Self::State(path)
            if path.as_path().starts_with(trash::FOLDER) && path.components().nth(2).is_some_and(|name| name == trash::CONTENT))
    }

    /// Returns true if it is the description of a trash entry.
    pub(super) fn is_description(&self) -> bool {
        matches!(self, Self::State(path)
            if path.as_path().starts_with(trash::FOLDER) && path.components().count() == 3
                && path.name().is_some_and(|name| name == trash::DESCRIPTION))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.fmt(f),
            Self::State(path) => write!(f, "{STATE_FOLDER}/{path}"),
        }
    }
}

/// Identity of a renamed file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thing {
    /// Its inode.
    pub inode: u64,
    /// True for a folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_folder: bool,
    /// Permission bits of a folder that its owner may not change names in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<u32>,
}

impl Thing {
    /// Returns what has this stat data.
    pub fn of(stat: &Stat) -> Self {
        let (is_folder, mode) = (fs::is_folder(stat), fs::mode_of(stat));
        Self { inode: stat.st_ino, is_folder, closed: Some(mode).filter(|_| is_folder && is_closed(mode)) }
    }
}

/// Returns the folder of staged bytes.
pub fn staging_folder() -> Location {
    Location::State(WorkspacePath::root().join(STAGING_FOLDER.as_ref()))
}

/// Returns true if a location holds temporary things, which are not yet or no longer part of the workspace.
pub fn is_waiting(at: &Location) -> bool {
    match at {
        Location::State(_) => at.parent() == Some(staging_folder()),
        Location::File(path) => {
            path.name().is_some_and(|name| name.as_bytes().starts_with(BESIDE_PREFIX.as_bytes()))
        }
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Makes a folder.
    MakeFolder(FolderEntry<Location>),
    /// Removes a folder, if it is empty by then.
    RemoveFolder(FolderEntry<Location>),
    /// Renames a whole file or folder.
    Rename {
        /// Name before.
        from: Location,
        /// Name after.
        to: Location,
        /// Identity.
        thing: Thing,
        /// File that it replaces, atomically.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        over: Option<Version>,
        /// Original of the copy, if that is on another mount.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        copy_of: Option<Location>,
        /// True if an undo leaves it: nobody keeps the old bytes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_final: bool,
    },
    /// Puts staged bytes in place.
    Put {
        /// Target.
        at: Location,
        /// Place of the staged bytes.
        staged: Location,
        /// Version before; `None` for a new file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Version>,
        /// Version after.
        after: Version,
        /// True to write the bytes into the existing file, which keeps its inode; false to replace the file.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        in_place: bool,
    },
    /// Removes a file.
    Unlink {
        /// Location of the file.
        at: Location,
        /// Version before.
        before: Version,
    },
}

impl Step {
    /// Returns the locations whose names it changes, without staged bytes.
    pub fn locations(&self) -> impl Iterator<Item = &Location> {
        let (one, other) = match self {
            Self::MakeFolder(folder) | Self::RemoveFolder(folder) => (&folder.path, None),
            Self::Rename { from, to, .. } => (from, Some(to)),
            Self::Put { at, .. } | Self::Unlink { at, .. } => (at, None),
        };
        std::iter::once(one).chain(other)
    }

    /// Returns the location of its staged bytes.
    pub fn staged(&self) -> Option<&Location> {
        match self {
            Self::Put { staged, .. } => Some(staged),
            _ => None,
        }
    }
}

/// A folder, with its metadata if a new folder would have other metadata.
pub type Folder = FolderEntry<Location>;

/// Owner, attributes and mode, which are set once all steps are done.
impl Folder {
    /// Returns a folder with the metadata of any new one.
    pub fn new(path: Location) -> Self {
        Self { path, mode: None, identity: None }
    }

    /// Returns true if its metadata differs from that of a new folder.
    pub fn is_dressed(&self) -> bool {
        self.mode.is_some() || self.identity.is_some()
    }
}
