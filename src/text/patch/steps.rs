//! The changes of a patch with direction and paths settled.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::conflict::{Conflict, Reason};
use super::model::{FilePatch, Operation, Patch};
use super::plan::{PlanOptions, Refusal, RefusalReason};

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

    /// Whether `path` is one of its paths.
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
