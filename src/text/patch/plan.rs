//! What a whole patch comes to, path by path, before anything is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::apply::HunkReport;
use super::conflict::Conflict;
use super::model::{Format, Operation, Patch, Strip, is_symlink};
use super::place::PatchOptions;
use super::steps::{normal, steps};
use super::tree::{Stop, Tree};
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
    /// What the patch asks for cannot be done; everything that is wrong with it.
    Refused(Vec<Refusal>),
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

/// Computes what `patch` makes of the files that `read` gives.
///
/// `read` is asked once a path, with the path as the patch has it after stripping; `None` means
/// that nothing is there. As with `git apply`, the sources of renames and copies in a git patch
/// are the files before its commit, so that renames may form a ring; in other formats, and from one
/// commit to the next, each change sees the ones before it.
///
/// # Errors
/// The first failure of `read`, or everything in the patch that cannot be done.
pub fn compose<'r, E>(
    patch: &Patch<'_>,
    options: &PlanOptions,
    read: &'r mut Reader<'r, E>,
) -> Result<Vec<FileOutcome>, PlanError<E>> {
    let (steps, mut refusals) = steps(patch, options);
    let mut tree = Tree::new(patch.format == Format::Git, &steps, options, read);
    for commit in steps.chunk_by(|one, next| one.file.commit == next.file.commit) {
        tree.begin(commit);
        for step in commit {
            match tree.take(step) {
                Ok(()) => {}
                Err(Stop::Read(error)) => return Err(PlanError::Read(error)),
                Err(Stop::Refused(reason)) => refusals.push(step.refusal(reason)),
            }
        }
    }
    if refusals.is_empty() { Ok(tree.outcomes()) } else { Err(PlanError::Refused(refusals)) }
}

/// The paths at which a patch makes or removes a whole file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Whole {
    /// Those that a file comes to: created, renamed or copied.
    pub coming: BTreeSet<Vec<u8>>,
    /// Those that a file goes from: deleted or renamed.
    pub leaving: BTreeSet<Vec<u8>>,
}

impl Whole {
    /// Those of `patch`.
    #[must_use]
    pub fn of(patch: &Patch<'_>, options: &PlanOptions) -> Self {
        let mut whole = Self::default();
        for file in &patch.files {
            let Some(paths) = file.paths(options.strip) else { continue };
            let (old, new) = (paths.old.as_deref().map(normal), paths.new.as_deref().map(normal));
            let (comes, goes) = match file.operation {
                Operation::Create | Operation::Copy => (new, None),
                Operation::Delete => (None, old),
                Operation::Rename if old != new => (new, old),
                Operation::Rename | Operation::Modify => (None, None),
            };
            let (comes, goes) = if options.apply.reverse { (goes, comes) } else { (comes, goes) };
            whole.coming.extend(comes);
            whole.leaving.extend(goes);
        }
        whole
    }
}
