//! Plan of a whole patch: options, the outcome for each path, and reasons for refusal.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::apply::HunkReport;
use super::conflict::{HunkConflict, HunkFault};
use super::model::{FileOp, FilePatch, PatchBody, Strip, is_symlink};
use super::place::PatchOptions;
use crate::buffer::Buffer;
use crate::text::replaced_lines::ReplacedLines;

/// A file as it was before the patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginalFile {
    /// Bytes of the file; its decoded text if it is read as text and not UTF-8, the target of a symlink.
    pub bytes: Arc<Buffer>,
    /// Mode, of which only the execute bits and the type bits of a symlink matter.
    pub mode: Option<u32>,
}

impl OriginalFile {
    /// Returns true if it is a symlink itself.
    pub fn is_symlink(&self) -> bool {
        self.mode.is_some_and(is_symlink)
    }
}

/// How a symlink is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymlinkMode {
    /// The file that it points to.
    Through,
    /// The symlink itself, as the patch changes, moves or deletes it.
    Itself,
}

/// Form in which a file is read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileForm {
    /// Its text, decoded unless it is UTF-8.
    Text,
    /// Its bytes, as a binary patch has them.
    Bytes,
}

/// Options of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanOptions {
    /// Components to remove from its paths.
    pub strip: Strip,
    /// Only file to change: others are skipped, and a change without a name gets this one.
    pub target: Option<Vec<u8>>,
    /// How hunks are placed.
    pub apply: PatchOptions,
    /// Missing paths whose files the caller itself removed or moved.
    pub removed: BTreeSet<Vec<u8>>,
}

/// Effect on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    /// The file is created; [`FileOutcome::from`] names the source of a copy.
    Create,
    /// Its content or mode changes.
    Modify,
    /// It is deleted.
    Delete,
    /// It is moved from [`FileOutcome::from`], which is deleted unless it has its own outcome.
    Rename,
    /// All of it is already applied.
    #[default]
    AlreadyApplied,
}

/// Outcome for one path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileOutcome {
    /// Path without prefix and `.` components.
    pub path: Vec<u8>,
    /// Effect on the path.
    pub action: FileAction,
    /// Source of a renamed or copied file.
    pub from: Option<Vec<u8>>,
    /// File at `path` before the patch; at `from` for a rename.
    pub before: Option<OriginalFile>,
    /// Bytes after the patch; `None` if the file is deleted.
    pub after: Option<Vec<u8>>,
    /// True if these are the bytes of the file, whatever its encoding.
    pub is_binary: bool,
    /// Mode that the patch gives the file, if it changes; always set if the result is a symlink.
    pub mode: Option<u32>,
    /// Hunks of the file, in the order of the patch.
    pub hunks: Vec<HunkReport>,
    /// True if the patch shows what it changes; see [`PatchResult::exact_and_unique`](super::PatchResult::exact_and_unique).
    pub exact_and_unique: bool,
    /// Lines that it replaces in the file at `path`, or at `from` for a rename, if known.
    pub replaced: Option<Vec<ReplacedLines>>,
}

impl FileOutcome {
    /// Returns true if the path is a symlink after the patch.
    pub fn is_symlink(&self) -> bool {
        self.mode.is_some_and(is_symlink)
    }
}

/// Reason why a whole patch is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum PlanError<E> {
    /// A file could not be read.
    Read(E),
    /// The patch cannot be applied.
    Refused {
        /// All reasons.
        refusals: Vec<PatchRefusal>,
        /// Outcomes of the changes that are possible.
        outcomes: Vec<FileOutcome>,
    },
}

/// A change that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchRefusal {
    /// Path of the change; empty if the patch names none.
    pub path: Vec<u8>,
    /// Line of the patch text where the change of this file begins, from 1.
    pub patch_line: usize,
    /// Reason.
    pub reason: RefusalReason,
}

/// Reason why a change cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalReason {
    /// The destination exists and differs.
    AlreadyExists,
    /// There is no file to change.
    NotFound,
    /// The change does not fit the file.
    Conflict(HunkConflict),
    /// Neither the patch nor the caller names a file.
    NoPath,
    /// A path has fewer components than are to be stripped.
    StripTooDeep,
    /// The patch does not touch the file that the caller named.
    OtherFile,
    /// The patch expects a file and finds a symlink, or vice versa.
    OtherType {
        /// True if a symlink was found.
        is_symlink: bool,
    },
}

/// Function that returns the file at a path before the patch, `None` if it is missing.
pub type ReadOriginal<'r, E> =
    dyn FnMut(&[u8], SymlinkMode, FileForm) -> Result<Option<OriginalFile>, E> + 'r;

/// Change of one file with its final paths.
pub(super) struct PatchStep<'p, 'a> {
    /// Change, already reversed if the patch is undone.
    pub(super) file: Cow<'p, FilePatch<'a>>,
    /// Path before.
    pub(super) old: Option<Vec<u8>>,
    /// Path after.
    pub(super) new: Option<Vec<u8>>,
}

impl PatchStep<'_, '_> {
    /// Returns the paths at which a symlink itself is read.
    pub(super) fn symlink_paths(&self) -> impl Iterator<Item = &Vec<u8>> {
        let is_whole = matches!(self.file.operation, FileOp::Delete | FileOp::Rename | FileOp::Copy);
        let is_wanted = is_whole || self.file.speaks_of_symlink();
        [&self.old, &self.new].into_iter().flatten().filter(move |_| is_wanted)
    }

    /// Returns the paths whose files a binary patch changes.
    pub(super) fn binary_paths(&self) -> impl Iterator<Item = &Vec<u8>> {
        let is_binary = matches!(self.file.body, PatchBody::Binary(_));
        [&self.old, &self.new].into_iter().flatten().filter(move |_| is_binary)
    }

    /// Returns true if `path` is one of its paths.
    pub(super) fn has_path(&self, path: &[u8]) -> bool {
        self.old.as_deref() == Some(path) || self.new.as_deref() == Some(path)
    }

    /// Returns the refusal of this step.
    pub(super) fn refusal(&self, reason: RefusalReason) -> PatchRefusal {
        let (old, new) = (self.old.as_ref(), self.new.as_ref());
        // For a rename, the missing file is its source.
        let path = if reason == RefusalReason::NotFound { old.or(new) } else { new.or(old) };
        let path = path.cloned().unwrap_or_default();
        PatchRefusal { path, patch_line: self.file.patch_line, reason }
    }
}

/// Resolves direction and paths of every change.
pub(super) fn steps<'p, 'a>(
    files: impl Iterator<Item = Cow<'p, FilePatch<'a>>>,
    options: &PlanOptions,
) -> (Vec<PatchStep<'p, 'a>>, Vec<PatchRefusal>)
where
    'a: 'p,
{
    let (mut steps, mut refusals) = (Vec::new(), Vec::new());
    for file in files {
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

/// Resolves direction and paths of one change.
fn step<'p, 'a>(
    file: Cow<'p, FilePatch<'a>>,
    options: &PlanOptions,
) -> Result<PatchStep<'p, 'a>, PatchRefusal> {
    let refusal = |file: &FilePatch<'_>, reason| PatchRefusal {
        path: file.new_path.clone().or_else(|| file.old_path.clone()).unwrap_or_default(),
        patch_line: file.patch_line,
        reason,
    };
    let mut turned = if options.apply.reverse {
        let irreversible =
            || RefusalReason::Conflict(HunkConflict::of_whole_file(file.patch_line, HunkFault::Irreversible));
        Cow::Owned(file.reversed().ok_or_else(|| refusal(&file, irreversible()))?)
    } else {
        file
    };
    let paths = turned.paths(options.strip).ok_or_else(|| refusal(&turned, RefusalReason::StripTooDeep))?;
    let (mut old, mut new) = (paths.old.as_deref().map(normal), paths.new.as_deref().map(normal));
    if old.is_none() && new.is_none() {
        let target = options.target.as_deref().map(normal);
        let target = target.ok_or_else(|| refusal(&turned, RefusalReason::NoPath))?;
        old = (turned.operation != FileOp::Create).then(|| target.clone());
        new = Some(target);
    }
    if turned.operation == FileOp::Rename && old == new {
        turned.to_mut().operation = FileOp::Modify;
    }
    Ok(PatchStep { file: turned, old, new })
}

/// Keeps the changes of `target`, or gives its name to the only file of the patch.
fn keep_target(steps: &mut Vec<PatchStep<'_, '_>>, target: &[u8], refusals: &mut Vec<PatchRefusal>) {
    if steps.iter().any(|step| step.has_path(target)) {
        steps.retain(|step| step.has_path(target));
        return;
    }
    let names: BTreeSet<_> =
        steps.iter().flat_map(|step| [&step.old, &step.new]).flatten().cloned().collect();
    if names.len() > 1 {
        let patch_line = steps.first().map_or(1, |step| step.file.patch_line);
        refusals.push(PatchRefusal { path: target.to_vec(), patch_line, reason: RefusalReason::OtherFile });
        steps.clear();
    }
    for path in steps.iter_mut().flat_map(|step| [&mut step.old, &mut step.new]).flatten() {
        *path = target.to_vec();
    }
}

/// Returns `path` without empty and `.` components. The caller must check `..`, and a `/` or `/.` at the end, which
/// only a folder can have.
pub(super) fn normal(path: &[u8]) -> Vec<u8> {
    let components = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let joined = components.collect::<Vec<_>>().join(&b'/');
    let first: &[u8] = if path.starts_with(b"/") { b"/" } else { b"" };
    let names_folder = path.ends_with(b"/") || path.ends_with(b"/.");
    let last: &[u8] = if names_folder && !joined.is_empty() { b"/" } else { b"" };
    [first, &joined, last].concat()
}
