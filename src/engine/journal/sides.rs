//! What stands at a path before and after a change, as an entry of the journal has it.

use serde::{Deserialize, Serialize};

use crate::engine::workspace::identity::Identity;
use crate::engine::workspace::path::WorkspacePath;
use crate::sha256::Sha256;

/// A file on one side of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// SHA-256 of its bytes.
    pub sha256: Sha256,
    /// Their number.
    pub size: u64,
    /// Its permission bits; of a symlink, whose bytes are its target, the type bits.
    pub mode: u32,
    /// Owner and attributes, where the change deletes it and a new file would have others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// What a change does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// The canonical path.
    pub path: WorkspacePath,
    /// The file before; `None` where there was none.
    pub before: Option<Version>,
    /// The file after; `None` where it is deleted.
    pub after: Option<Version>,
}

/// A file or folder that gets another name, whole: to or from the trash, or within the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveEntry {
    /// Its canonical path before.
    pub from: WorkspacePath,
    /// Its canonical path after.
    pub to: WorkspacePath,
    /// Where it waits between the two, where its new name is free only once other things have moved.
    pub via: Option<WorkspacePath>,
}

impl MoveEntry {
    /// A move straight to the new name.
    #[must_use]
    pub fn new(from: WorkspacePath, to: WorkspacePath) -> Self {
        Self { from, to, via: None }
    }
}

/// A folder, with what it is besides its name where a new folder would be another.
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
