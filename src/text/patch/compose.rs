//! What a whole patch comes to, path by path, before anything is written.

use std::collections::BTreeSet;

use super::model::{Format, Operation, Patch};
use super::plan::{FileOutcome, PlanError, PlanOptions, Reader};
use super::steps::{normal, steps};
use super::tree::{Stop, Tree};

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
    let outcomes = tree.outcomes();
    if refusals.is_empty() { Ok(outcomes) } else { Err(PlanError::Refused { refusals, outcomes }) }
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
