//! The files that a patch touches, as it makes them step by step.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::apply::{Applied, HunkReport, apply};
use super::conflict::{Conflict, Reason};
use super::model::{Body, FilePatch, Format, Hunk, Operation, Patch, SYMLINK_MODE, is_symlink};
use super::place::PatchOptions;
use super::plan::{
    Action, Before, FileOutcome, Look, PatchStep, PlanError, PlanOptions, Reader, RefusalReason, normal,
    steps,
};
use crate::text::checked::Fault;

/// The byte-order mark of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why a step was not taken.
pub(super) enum Stop<E> {
    /// A file could not be read.
    Read(E),
    /// The change cannot be done.
    Refused(RefusalReason),
}

/// A file as the patch has made it so far.
#[derive(Debug, Clone)]
struct PatchedFile {
    /// Its bytes; `None` where it is gone.
    bytes: Option<Vec<u8>>,
    /// The mode that it shall get, where stated.
    mode: Option<u32>,
    /// True if it is a symlink.
    is_symlink: bool,
    /// True if the patch has put a file here at any time.
    was_made: bool,
    /// Where it came from, and whether that went away.
    from: Option<(Vec<u8>, bool)>,
    /// Its hunks.
    hunks: Vec<HunkReport>,
    /// True if all changes so far showed what they change.
    exact_and_unique: bool,
}

/// The refusal of a result that is too large.
fn too_large(file: &FilePatch<'_>, fault: Fault) -> RefusalReason {
    RefusalReason::Conflict(Conflict::whole(file.patch_line, fault.into()))
}

/// Refuses where a symlink stands and the patch speaks of a file, or the other way round.
fn must_be_of_type(file: &FilePatch<'_>, is_symlink: bool) -> Result<(), RefusalReason> {
    if file.speaks_of_symlink() == is_symlink { Ok(()) } else { Err(RefusalReason::OtherType { is_symlink }) }
}

/// What a step leaves at a path.
struct StepResult {
    /// The bytes; `None` where the file goes away.
    bytes: Option<Vec<u8>>,
    /// The mode that it shall get, where stated.
    mode: Option<u32>,
    /// True if it is a symlink.
    is_symlink: bool,
    /// The hunks applied.
    hunks: Vec<HunkReport>,
    /// True if they showed what they change.
    exact_and_unique: bool,
}

impl StepResult {
    /// A file that appears or goes away without hunks.
    fn plain(bytes: Option<Vec<u8>>, mode: Option<u32>) -> Self {
        let is_symlink = mode.is_some_and(is_symlink);
        Self { bytes, mode, is_symlink, hunks: Vec::new(), exact_and_unique: true }
    }

    /// A file or symlink that hunks were applied to.
    fn applied(applied: Applied, mode: Option<u32>, is_symlink: bool) -> Self {
        let Applied { after, hunks, exact_and_unique, .. } = applied;
        Self { bytes: Some(after), mode, is_symlink, hunks, exact_and_unique }
    }
}

/// The files that the patch touches, before it and as it has made them so far.
pub(super) struct Tree<'r, E> {
    /// True if renames and copies read the files before the commit.
    is_git: bool,
    /// Paths that a commit of git renames away or deletes, so that others may come there.
    leaving: HashSet<Vec<u8>>,
    /// What the commits before this one have made at the paths that it touches, in a git patch.
    earlier: HashMap<Vec<u8>, PatchedFile>,
    /// The paths that this commit has touched so far.
    touched: HashSet<Vec<u8>>,
    /// How hunks are placed; never in reverse, since the steps are turned round themselves.
    options: PatchOptions,
    /// Paths at which nothing is because the caller itself removed or moved what was there.
    removed: &'r BTreeSet<Vec<u8>>,
    /// Paths at which a symlink is looked at itself.
    themselves: BTreeSet<Vec<u8>>,
    /// Gives the files before the patch.
    read: &'r mut Reader<'r, E>,
    /// What `read` gave.
    originals: HashMap<Vec<u8>, Option<Before>>,
    /// What the patch has made so far.
    entries: HashMap<Vec<u8>, PatchedFile>,
    /// The paths in the order in which they were first touched.
    order: Vec<Vec<u8>>,
}

impl<'r, E> Tree<'r, E> {
    /// A tree that nothing has happened to.
    pub(super) fn new(
        is_git: bool,
        steps: &[PatchStep<'_, '_>],
        options: &'r PlanOptions,
        read: &'r mut Reader<'r, E>,
    ) -> Self {
        Self {
            is_git,
            leaving: HashSet::new(),
            earlier: HashMap::new(),
            touched: HashSet::new(),
            themselves: steps.iter().flat_map(PatchStep::looked_at_themselves).cloned().collect(),
            options: PatchOptions { reverse: false, ..options.apply },
            removed: &options.removed,
            read,
            originals: HashMap::new(),
            entries: HashMap::new(),
            order: Vec::new(),
        }
    }

    /// Begins with the steps of a commit.
    pub(super) fn begin(&mut self, steps: &[PatchStep<'_, '_>]) {
        self.touched.clear();
        if !self.is_git {
            return;
        }
        let leaves =
            |step: &&PatchStep<'_, '_>| matches!(step.file.operation, Operation::Rename | Operation::Delete);
        self.leaving = steps.iter().filter(leaves).filter_map(|step| step.old.clone()).collect();
        let paths = steps.iter().flat_map(|step| [&step.old, &step.new]).flatten();
        let made = paths.filter_map(|path| Some((path.clone(), self.entries.get(path)?.clone())));
        self.earlier = made.collect();
    }

    /// Takes one step.
    pub(super) fn take(&mut self, step: &PatchStep<'_, '_>) -> Result<(), Stop<E>> {
        for path in [&step.old, &step.new].into_iter().flatten() {
            self.load(path).map_err(Stop::Read)?;
        }
        let taken = match (step.file.operation, &step.old, &step.new) {
            (Operation::Create, _, Some(path)) => self.create(&step.file, path),
            (Operation::Modify, Some(old), Some(new)) if self.now(new).is_none() => {
                self.modify(&step.file, old)
            }
            (Operation::Modify, _, Some(path)) | (Operation::Modify, Some(path), None) => {
                self.modify(&step.file, path)
            }
            (Operation::Delete, Some(path), _) => self.delete(&step.file, path),
            (Operation::Rename | Operation::Copy, Some(old), Some(new)) => self.carry(&step.file, old, new),
            _ => Err(RefusalReason::NoPath),
        };
        taken.map_err(Stop::Refused)
    }

    /// Makes sure that the file before the patch is known.
    fn load(&mut self, path: &[u8]) -> Result<(), E> {
        if !self.originals.contains_key(path) {
            let look = if self.themselves.contains(path) { Look::Itself } else { Look::Through };
            let before = (self.read)(path, look)?;
            self.originals.insert(path.to_vec(), before);
        }
        Ok(())
    }

    /// The bytes of a file before the patch.
    fn before(&self, path: &[u8]) -> Option<&[u8]> {
        Some(&self.originals.get(path)?.as_ref()?.bytes)
    }

    /// What the patch has made of a path that a rename, copy or deletion starts from.
    fn source_entry(&self, path: &[u8]) -> Option<&PatchedFile> {
        if self.is_git { self.earlier.get(path) } else { self.entries.get(path) }
    }

    /// The bytes that a rename, copy or deletion starts from.
    fn source(&self, path: &[u8]) -> Option<&[u8]> {
        self.source_entry(path).map_or_else(|| self.before(path), |entry| entry.bytes.as_deref())
    }

    /// Returns true if a rename, copy or deletion starts from a symlink.
    fn is_symlink_at_source(&self, path: &[u8]) -> bool {
        let original = || self.originals.get(path)?.as_ref().map(Before::is_symlink);
        self.source_entry(path).map(|entry| entry.is_symlink).or_else(original).unwrap_or(false)
    }

    /// The bytes of a file as the patch has made it so far.
    fn now(&self, path: &[u8]) -> Option<&[u8]> {
        match self.entries.get(path) {
            Some(entry) => entry.bytes.as_deref(),
            None => self.before(path),
        }
    }

    /// Returns true if a symlink stands at a path as the patch has made it so far.
    fn is_symlink(&self, path: &[u8]) -> bool {
        let original = || self.originals.get(path)?.as_ref().map(Before::is_symlink);
        self.entries.get(path).map(|entry| entry.is_symlink).or_else(original).unwrap_or(false)
    }

    /// What a new file at `path` would collide with.
    fn obstacle(&self, path: &[u8]) -> Option<&[u8]> {
        let is_leaving = self.leaving.contains(path) && !self.touched.contains(path);
        self.now(path).filter(|_| !is_leaving)
    }

    /// Puts what a step leaves at `path`.
    fn put(&mut self, path: &[u8], change: StepResult) {
        self.touched.insert(path.to_vec());
        if !self.entries.contains_key(path) {
            self.order.push(path.to_vec());
        }
        let entry = self.entries.entry(path.to_vec()).or_insert(PatchedFile {
            bytes: None,
            mode: None,
            is_symlink: false,
            was_made: false,
            from: None,
            hunks: Vec::new(),
            exact_and_unique: true,
        });
        entry.was_made |= change.bytes.is_some();
        entry.mode = change.mode.or(entry.mode);
        entry.is_symlink = change.is_symlink;
        entry.hunks.extend(change.hunks);
        entry.exact_and_unique &= change.exact_and_unique;
        if change.bytes.is_none() {
            (entry.from, entry.mode) = (None, None);
        }
        entry.bytes = change.bytes;
    }

    /// Creates a file, unless it is there already.
    fn create(&mut self, file: &FilePatch<'_>, path: &[u8]) -> Result<(), RefusalReason> {
        let size = match &file.body {
            Body::Hunks(hunks) => hunks.first().map_or(0, Hunk::new_bytes),
            Body::Binary(binary) => binary.bytes_after(),
            Body::Unseen => 0,
        };
        self.options.must_fit(size).map_err(|fault| too_large(file, fault))?;
        let bytes = match &file.body {
            Body::Hunks(hunks) => hunks.first().map(Hunk::new_text).unwrap_or_default(),
            Body::Binary(binary) => binary.apply(b"").map(|applied| applied.after).map_err(|message| {
                RefusalReason::Conflict(Conflict::whole(file.patch_line, Reason::Binary(message)))
            })?,
            Body::Unseen => Vec::new(),
        };
        let mode = match self.obstacle(path) {
            Some(there) if there != bytes || self.is_symlink(path) != file.speaks_of_symlink() => {
                return Err(RefusalReason::AlreadyExists);
            }
            Some(_) => file.new_mode.filter(|mode| is_symlink(*mode)),
            None => file.new_mode,
        };
        self.put(path, StepResult::plain(Some(bytes), mode));
        Ok(())
    }

    /// Changes a file; a hunk that starts from nothing creates one that is missing.
    fn modify(&mut self, file: &FilePatch<'_>, path: &[u8]) -> Result<(), RefusalReason> {
        let starts_empty =
            matches!(file.hunks(), [only] if only.old_start == Some(0) && only.old().next().is_none());
        let is_symlink = self.is_symlink(path);
        let applied = match self.now(path) {
            Some(bytes) => {
                must_be_of_type(file, is_symlink)?;
                self.apply(file, bytes)?
            }
            None if starts_empty => self.apply(file, b"")?,
            None => return Err(RefusalReason::NotFound),
        };
        self.put(path, StepResult::applied(applied, file.new_mode, is_symlink));
        Ok(())
    }

    /// Deletes a file, unless the caller or the patch itself has removed it already.
    fn delete(&mut self, file: &FilePatch<'_>, path: &[u8]) -> Result<(), RefusalReason> {
        // What a rename or copy of the same commit has put here is not what is deleted.
        let has_come = self.is_git
            && self.touched.contains(path)
            && self.entries.get(path).is_some_and(|entry| entry.from.is_some());
        let (there, is_symlink) = if has_come {
            (self.source(path), self.is_symlink_at_source(path))
        } else {
            (self.now(path), self.is_symlink(path))
        };
        let change = match there {
            Some(bytes) => {
                if file.body != Body::Unseen {
                    must_be_of_type(file, is_symlink)?;
                }
                StepResult { bytes: None, ..StepResult::applied(self.apply(file, bytes)?, None, false) }
            }
            None if self.is_removed(path) => StepResult::plain(None, None),
            None => return Err(RefusalReason::NotFound),
        };
        if !has_come {
            self.put(path, change);
        }
        Ok(())
    }

    /// Renames or copies a file, with its changes.
    fn carry(&mut self, file: &FilePatch<'_>, old: &[u8], new: &[u8]) -> Result<(), RefusalReason> {
        let is_move = file.operation == Operation::Rename;
        let Some(source) = self.source(old) else { return self.carried_before(file, old, new, is_move) };
        let is_symlink = self.is_symlink_at_source(old);
        if !file.keeps_content() {
            must_be_of_type(file, is_symlink)?;
        }
        let applied = self.apply(file, source)?;
        let obstacle = self.obstacle(new);
        if obstacle.is_some_and(|there| is_move || there != applied.after) {
            return Err(RefusalReason::AlreadyExists);
        }
        let is_there = obstacle.is_some();
        let mode = file.new_mode.or_else(|| self.mode_of(old));
        let earlier = self.source_entry(old).cloned();
        if is_move && !(self.is_git && self.touched.contains(old)) {
            self.put(old, StepResult::plain(None, None));
        }
        self.put(new, StepResult::applied(applied, mode, is_symlink));
        if let Some(entry) = self.entries.get_mut(new).filter(|_| !is_there) {
            let from = Some((old.to_vec(), is_move));
            entry.from = earlier.as_ref().and_then(|earlier| earlier.from.clone()).or(from);
            if let Some(earlier) = earlier {
                // What was done to the file under its old name was done to it all the same.
                entry.hunks.splice(0..0, earlier.hunks);
                entry.exact_and_unique &= earlier.exact_and_unique;
            }
        }
        Ok(())
    }

    /// Accepts a rename whose source is gone and whose target holds the result.
    fn carried_before(
        &mut self,
        file: &FilePatch<'_>,
        old: &[u8],
        new: &[u8],
        is_move: bool,
    ) -> Result<(), RefusalReason> {
        let there = self.now(new).filter(|_| is_move).ok_or(RefusalReason::NotFound)?;
        // Any file may be at the new path: without a hunk only the caller knows that it is this one.
        if file.keeps_content() && !self.is_removed(old) {
            return Err(RefusalReason::NotFound);
        }
        let applied = self.apply(file, there)?;
        if !applied.already_applied {
            return Err(RefusalReason::AlreadyExists);
        }
        self.put(new, StepResult::applied(applied, file.new_mode, self.is_symlink(new)));
        Ok(())
    }

    /// Returns true if nothing is at a path because the caller or the patch itself removed it.
    fn is_removed(&self, path: &[u8]) -> bool {
        self.removed.contains(path) || self.entries.get(path).is_some_and(|entry| entry.bytes.is_none())
    }

    /// The mode that a rename or copy starts from.
    fn mode_of(&self, path: &[u8]) -> Option<u32> {
        let original = || self.originals.get(path)?.as_ref()?.mode;
        self.source_entry(path).and_then(|entry| entry.mode).or_else(original)
    }

    /// Applies the hunks, a byte-order mark left aside where they do not speak of it.
    fn apply(&self, file: &FilePatch<'_>, bytes: &[u8]) -> Result<Applied, RefusalReason> {
        let applied = match (apply(file, bytes, &self.options), bytes.strip_prefix(BYTE_ORDER_MARK)) {
            (Err(conflict), Some(body)) if conflict.fault().is_none() => apply(file, body, &self.options)
                .map(|applied| Applied { after: [BYTE_ORDER_MARK, &applied.after].concat(), ..applied }),
            (applied, _) => applied,
        };
        let applied = applied.map_err(RefusalReason::Conflict)?;
        // The mark counts, too.
        self.options.must_fit(applied.after.len()).map_err(|fault| too_large(file, fault))?;
        Ok(applied)
    }

    /// What has become of every path, in the order of the patch.
    pub(super) fn outcomes(mut self) -> Vec<FileOutcome> {
        let moved: HashSet<Vec<u8>> = self
            .entries
            .values()
            .filter(|entry| entry.bytes.is_some())
            .filter_map(|entry| entry.from.clone().filter(|(_, is_move)| *is_move))
            .map(|(from, _)| from)
            .collect();
        let mut outcomes = Vec::with_capacity(self.order.len());
        let mut sources = HashSet::new();
        for path in std::mem::take(&mut self.order) {
            let Some(mut entry) = self.entries.remove(&path) else { continue };
            if let Some((from, is_move)) = &mut entry.from
                && entry.bytes.is_some()
                && *is_move
            {
                // A file that goes to two places goes to the first and is copied to the other.
                *is_move = sources.insert(from.clone());
            }
            let is_passing = entry.was_made && self.before(&path).is_none();
            if entry.bytes.is_some() || !(is_passing || moved.contains(&path)) {
                outcomes.push(self.outcome(path, entry));
            }
        }
        outcomes
    }

    /// What has become of one path.
    fn outcome(&self, path: Vec<u8>, entry: PatchedFile) -> FileOutcome {
        let before = self.originals.get(&path).cloned().flatten();
        // A file that the patch itself made is no source.
        let from = entry.from.and_then(|(from, is_move)| {
            let source = self.originals.get(&from).cloned().flatten()?;
            Some((from, is_move, source))
        });
        // A copy begins without a mode; a renamed file brings its own.
        let model = match &from {
            Some((_, is_move, source)) => Some(source).filter(|_| *is_move),
            None => before.as_ref(),
        };
        let mode = entry.mode.filter(|mode| {
            let had = model.and_then(|model| model.mode).filter(|had| !is_symlink(*had));
            had.is_none_or(|had| (had & 0o111 != 0) != (mode & 0o111 != 0))
        });
        let is_link = entry.is_symlink && entry.bytes.is_some();
        let mode = if is_link { Some(SYMLINK_MODE) } else { mode };
        let was_link = before.as_ref().is_some_and(Before::is_symlink);
        let is_same = before.as_ref().map(|before| &**before.bytes) == entry.bytes.as_deref()
            && (before.is_none() || (is_link == was_link && (is_link || mode.is_none())));
        let action = match (&before, &entry.bytes, &from) {
            (_, Some(_), Some((_, true, _))) => Action::Rename,
            _ if is_same => Action::AlreadyApplied,
            (_, None, _) => Action::Delete,
            (None, Some(_), _) | (_, Some(_), Some(_)) => Action::Create,
            (Some(_), Some(_), None) => Action::Modify,
        };
        let (from, source) = from.map_or((None, None), |(from, _, source)| (Some(from), Some(source)));
        let before = if action == Action::Rename { source } else { before };
        FileOutcome {
            path,
            action,
            from,
            before,
            after: entry.bytes,
            mode,
            hunks: entry.hunks,
            exact_and_unique: entry.exact_and_unique,
        }
    }
}

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
