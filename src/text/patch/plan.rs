//! What a whole patch comes to: what is asked, what happens to each path, and why a change cannot be done.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::apply::HunkReport;
use super::conflict::Conflict;
use super::model::{Strip, is_symlink};
use super::place::PatchOptions;
use crate::buffer::Buffer;

/// A file as it was before the patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    /// Its bytes; of an encoding other than UTF-8 the decoded text, of a symlink its target.
    pub bytes: Arc<Buffer>,
    /// Its mode, of which only the execute bits and those of a symlink are looked at.
    pub mode: Option<u32>,
}

impl Before {
    /// Whether it is a symlink itself.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.mode.is_some_and(is_symlink)
    }
}

/// How a path that is a symlink is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The file that it leads to.
    Through,
    /// The symlink itself, as the patch changes, moves or deletes it.
    Itself,
}

/// How a patch is to be understood.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanOptions {
    /// What to remove from its paths.
    pub strip: Strip,
    /// The one file meant: the others are left out, and a change without a name gets this one.
    pub target: Option<Vec<u8>>,
    /// How hunks are placed.
    pub apply: PatchOptions,
    /// Paths at which nothing is because the caller itself removed or moved what was there.
    pub removed: BTreeSet<Vec<u8>>,
}

/// What happens to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The file appears; [`FileOutcome::from`] names the source of a copy.
    Create,
    /// Its content or mode changes.
    Modify,
    /// It goes away.
    Delete,
    /// It comes from [`FileOutcome::from`], which goes away unless it has an outcome of its own.
    Rename,
    /// All of it stands already.
    AlreadyApplied,
}

/// The outcome for one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOutcome {
    /// The path, without prefix and `.` components.
    pub path: Vec<u8>,
    /// What happens to it.
    pub action: Action,
    /// Where a renamed or copied file comes from.
    pub from: Option<Vec<u8>>,
    /// The file at `path` before the patch; at `from` for a rename.
    pub before: Option<Before>,
    /// The bytes after the patch; `None` where the file goes away.
    pub after: Option<Vec<u8>>,
    /// The mode that the patch gives the file, where it gives another than it has; always that of a
    /// symlink where one stands there after the patch.
    pub mode: Option<u32>,
    /// Its hunks, in the patch's order.
    pub hunks: Vec<HunkReport>,
    /// Whether the patch shows what it changes, as [`Applied::exact_and_unique`](super::Applied::exact_and_unique) says.
    pub exact_and_unique: bool,
}

impl FileOutcome {
    /// Whether a symlink stands there after the patch.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.mode.is_some_and(is_symlink)
    }
}

/// Why a whole patch is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum PlanError<E> {
    /// A file could not be read.
    Read(E),
    /// What the patch asks for cannot be done.
    Refused {
        /// Everything that is wrong with it.
        refusals: Vec<Refusal>,
        /// Outcomes of the changes that can be made.
        outcomes: Vec<FileOutcome>,
    },
}

/// One thing that cannot be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The path concerned; empty where the patch names none.
    pub path: Vec<u8>,
    /// Line of the patch text where the change of this file begins, from 1.
    pub patch_line: usize,
    /// Why.
    pub reason: RefusalReason,
}

/// Why a change cannot be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalReason {
    /// Something else stands where a file would be created.
    AlreadyExists,
    /// There is no file to change.
    NotFound,
    /// The change does not fit the file.
    Conflict(Conflict),
    /// The patch names no file and neither does the caller.
    NoPath,
    /// A path has fewer components than are to be stripped.
    StripTooDeep,
    /// The patch does not touch the file that the caller named.
    OtherFile,
    /// A symlink stands where the patch speaks of a file, or the other way round.
    OtherType {
        /// Whether it is a symlink that stands there.
        is_symlink: bool,
    },
}

/// Gives the file at a path as it is before the patch, `None` where nothing is.
pub type Reader<'r, E> = dyn FnMut(&[u8], Look) -> Result<Option<Before>, E> + 'r;
