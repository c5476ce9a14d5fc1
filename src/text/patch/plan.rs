//! What a whole patch comes to: what is asked, what happens to each path, and why a change cannot be done.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::apply::HunkReport;
use super::conflict::{Conflict, Reason};
use super::model::{FilePatch, Operation, Patch, Strip, is_symlink};
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
    /// Returns true if it is a symlink itself.
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
    /// True if the patch shows what it changes, as
    /// [`Applied::exact_and_unique`](super::Applied::exact_and_unique) says.
    pub exact_and_unique: bool,
}

impl FileOutcome {
    /// Returns true if a symlink stands there after the patch.
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
        /// True if it is a symlink that stands there.
        is_symlink: bool,
    },
}

/// Gives the file at a path as it is before the patch, `None` where nothing is.
pub type Reader<'r, E> = dyn FnMut(&[u8], Look) -> Result<Option<Before>, E> + 'r;

/// One file's change with its paths settled.
pub(super) struct PatchStep<'p, 'a> {
    /// The change, already turned round where the patch is to be undone.
    pub(super) file: Cow<'p, FilePatch<'a>>,
    /// The path before.
    pub(super) old: Option<Vec<u8>>,
    /// The path after.
    pub(super) new: Option<Vec<u8>>,
}

impl PatchStep<'_, '_> {
    /// The paths at which a symlink is looked at itself.
    pub(super) fn looked_at_themselves(&self) -> impl Iterator<Item = &Vec<u8>> {
        let is_whole = matches!(self.file.operation, Operation::Delete | Operation::Rename | Operation::Copy);
        let is_wanted = is_whole || self.file.speaks_of_symlink();
        [&self.old, &self.new].into_iter().flatten().filter(move |_| is_wanted)
    }

    /// Returns true if `path` is one of its paths.
    pub(super) fn touches(&self, path: &[u8]) -> bool {
        self.old.as_deref() == Some(path) || self.new.as_deref() == Some(path)
    }

    /// The refusal of this step.
    pub(super) fn refusal(&self, reason: RefusalReason) -> Refusal {
        let (old, new) = (self.old.as_ref(), self.new.as_ref());
        // What a rename does not find is its source.
        let path = if reason == RefusalReason::NotFound { old.or(new) } else { new.or(old) };
        let path = path.cloned().unwrap_or_default();
        Refusal { path, patch_line: self.file.patch_line, reason }
    }
}

/// Settles direction and paths of every change.
pub(super) fn steps<'p, 'a>(
    patch: &'p Patch<'a>,
    options: &PlanOptions,
) -> (Vec<PatchStep<'p, 'a>>, Vec<Refusal>) {
    let mut steps = Vec::with_capacity(patch.files.len());
    let mut refusals = Vec::new();
    for file in &patch.files {
        match step(file, options) {
            Ok(step) => steps.push(step),
            Err(refusal) => refusals.push(refusal),
        }
    }
    if options.apply.reverse {
        steps.reverse();
    }
    if let Some(target) = options.target.as_deref().map(normal) {
        keep_target(&mut steps, &target, &mut refusals);
    }
    (steps, refusals)
}

/// Settles direction and paths of one change.
fn step<'p, 'a>(file: &'p FilePatch<'a>, options: &PlanOptions) -> Result<PatchStep<'p, 'a>, Refusal> {
    let refusal = |reason| Refusal {
        path: file.new_path.clone().or_else(|| file.old_path.clone()).unwrap_or_default(),
        patch_line: file.patch_line,
        reason,
    };
    let irreversible = || Conflict::whole(file.patch_line, Reason::Irreversible);
    let mut turned = if options.apply.reverse {
        Cow::Owned(file.reversed().ok_or_else(|| refusal(RefusalReason::Conflict(irreversible())))?)
    } else {
        Cow::Borrowed(file)
    };
    let paths = turned.paths(options.strip).ok_or_else(|| refusal(RefusalReason::StripTooDeep))?;
    let (mut old, mut new) = (paths.old.as_deref().map(normal), paths.new.as_deref().map(normal));
    if old.is_none() && new.is_none() {
        let target = options.target.as_deref().map(normal);
        let target = target.ok_or_else(|| refusal(RefusalReason::NoPath))?;
        old = (turned.operation != Operation::Create).then(|| target.clone());
        new = Some(target);
    }
    if turned.operation == Operation::Rename && old == new {
        turned.to_mut().operation = Operation::Modify;
    }
    Ok(PatchStep { file: turned, old, new })
}

/// Keeps the changes of `target`, or gives its name to the only file of the patch.
fn keep_target(steps: &mut Vec<PatchStep<'_, '_>>, target: &[u8], refusals: &mut Vec<Refusal>) {
    if steps.iter().any(|step| step.touches(target)) {
        steps.retain(|step| step.touches(target));
        return;
    }
    let names: BTreeSet<_> =
        steps.iter().flat_map(|step| [&step.old, &step.new]).flatten().cloned().collect();
    if names.len() > 1 {
        let patch_line = steps.first().map_or(1, |step| step.file.patch_line);
        refusals.push(Refusal { path: target.to_vec(), patch_line, reason: RefusalReason::OtherFile });
        steps.clear();
    }
    for path in steps.iter_mut().flat_map(|step| [&mut step.old, &mut step.new]).flatten() {
        *path = target.to_vec();
    }
}

/// `path` without empty and `.` components; `..` stays for the caller to judge, as does the end
/// of a folder's name (`/` or `/.`), which no file has.
pub(super) fn normal(path: &[u8]) -> Vec<u8> {
    let components = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let joined = components.collect::<Vec<_>>().join(&b'/');
    let first: &[u8] = if path.starts_with(b"/") { b"/" } else { b"" };
    let names_folder = path.ends_with(b"/") || path.ends_with(b"/.");
    let last: &[u8] = if names_folder && !joined.is_empty() { b"/" } else { b"" };
    [first, &joined, last].concat()
}
