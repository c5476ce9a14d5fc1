//! What the files of a change are to become.

use std::sync::Arc;

use super::current::CheckedFile;
use super::stage::Original;
use crate::buffer::Buffer;
use crate::engine::store::session::ReplacedLines;
use crate::engine::workspace::fs::{is_symlink_mode, recorded_mode};
use crate::engine::workspace::identity::Identity;
use crate::engine::workspace::path::WorkspacePath;
use crate::sha256::Sha256;

/// The mode of a new file, as far as a snapshot asks for it.
const NEW_FILE_MODE: u32 = 0o644;

/// What the caller knows of the new bytes once the change is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerKnowledge {
    /// All of them: it gave them.
    Everything,
    /// The changed lines, and what it had been shown of the others.
    ChangedLines,
    /// The changed lines, and what it had been shown of those bytes, which others have changed since.
    ChangedSince(Vec<u8>),
    /// Nothing: a command made them.
    Nothing,
}

/// A file with what it is to become.
pub(super) struct Planned {
    /// The file as it stands.
    pub(super) seen: CheckedFile,
    /// Its new bytes; `None` where it is deleted.
    pub(super) after: Option<After>,
    /// The file that it was before it got this name.
    pub(super) origin: Option<Origin>,
    /// Whether the bytes go into the file that is there, which keeps its inode.
    pub(super) in_place: bool,
    /// The lines that it replaces, where its tool knows them.
    pub(super) replaced: Option<Vec<ReplacedLines>>,
}

impl Planned {
    /// The file whose identity the new one takes.
    pub(super) fn model(&self) -> Option<&Original> {
        let origin = self.origin.as_ref().map(|origin| &origin.original);
        origin.or(self.seen.current.original.as_ref())
    }

    /// The mode that the file gets with `after`, as far as a snapshot asks for it.
    pub(super) fn mode_of(&self, after: &After) -> u32 {
        let model =
            || self.model().map(|model| recorded_mode(&model.stat)).filter(|mode| !is_symlink_mode(*mode));
        after.mode.or_else(model).unwrap_or(NEW_FILE_MODE)
    }

    /// Whether it has other names, which keep its old bytes.
    pub(super) fn has_several_names(&self) -> bool {
        self.after.is_some() && self.seen.current.original.as_ref().is_some_and(|it| it.stat.st_nlink > 1)
    }
}

/// The file whose identity and place in the caller's memory a renamed one takes over.
pub(super) struct Origin {
    /// Where it was.
    pub(super) path: WorkspacePath,
    /// Which file it is.
    pub(super) original: Original,
    /// Its bytes.
    pub(super) bytes: Arc<Buffer>,
    /// Their SHA-256.
    pub(super) sha256: Sha256,
}

/// What a file is to become.
pub(super) struct After {
    /// Its bytes.
    pub(super) bytes: Arc<Buffer>,
    /// Their SHA-256.
    pub(super) sha256: Sha256,
    /// Its permission bits, where they change; or the type bits of a symlink.
    pub(super) mode: Option<u32>,
    /// What the caller knows of it.
    pub(super) known: CallerKnowledge,
    /// Owner and attributes, where it comes back and no file has them any more.
    pub(super) identity: Option<Identity>,
}
