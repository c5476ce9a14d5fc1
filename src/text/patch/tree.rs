//! Files that a patch touches, as it changes them step by step.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::apply::{BYTE_ORDER_MARK, HunkReport, PatchResult, apply};
use super::conflict::{HunkConflict, HunkFault};
use super::index::change_same_lines;
use super::model::{FileOp, FilePatch, Format, Hunk, Patch, PatchBody, SYMLINK_MODE, is_symlink};
use super::place::PatchOptions;
use super::plan::{
    FileAction, FileForm, FileOutcome, OriginalFile, PatchRefusal, PatchStep, PlanError, PlanOptions,
    ReadOriginal, RefusalReason, SymlinkMode, steps,
};
use crate::text::checked::TextFault;
use crate::text::independent::by_halves;
use crate::text::replaced_lines::{self, ReplacedLines};

/// Fewest blocks that are applied together: to find out whether they meet takes as long as to apply a few one by one.
const TOGETHER_MIN: usize = 5;

/// State of a file after the steps so far, or the result of one step.
#[derive(Debug, Clone)]
struct PatchedFile {
    /// Bytes of the file; `None` if it was deleted.
    bytes: Option<Vec<u8>>,
    /// New mode, if stated.
    mode: Option<u32>,
    /// True if it is a symlink.
    is_symlink: bool,
    /// True if the patch has put a file here at any time.
    was_made: bool,
    /// Source, and true if the file was moved from there.
    from: Option<(Vec<u8>, bool)>,
    /// Hunks of the file.
    hunks: Vec<HunkReport>,
    /// True if all changes so far showed what they change.
    exact_and_unique: bool,
    /// Lines that the changes so far replace, if known.
    replaced: Option<Vec<ReplacedLines>>,
}

/// Returns the refusal of a result that is too large.
fn too_large(file: &FilePatch<'_>, fault: TextFault) -> RefusalReason {
    RefusalReason::Conflict(HunkConflict::of_whole_file(file.patch_line, fault.into()))
}

/// Refuses a symlink if the patch expects a file, and vice versa.
fn must_be_of_type(file: &FilePatch<'_>, is_symlink: bool) -> Result<(), RefusalReason> {
    if file.speaks_of_symlink() == is_symlink { Ok(()) } else { Err(RefusalReason::OtherType { is_symlink }) }
}

impl PatchedFile {
    /// Creates the result for a file that is created or deleted without hunks.
    fn plain(bytes: Option<Vec<u8>>, mode: Option<u32>) -> Self {
        let (is_symlink, was_made) = (mode.is_some_and(is_symlink), bytes.is_some());
        let (hunks, exact_and_unique) = (Vec::new(), true);
        Self { bytes, mode, is_symlink, was_made, from: None, hunks, exact_and_unique, replaced: None }
    }

    /// Creates the result for a file or symlink after its hunks.
    fn applied(applied: PatchResult, mode: Option<u32>, is_symlink: bool) -> Self {
        let PatchResult { after, hunks, exact_and_unique, replaced, .. } = applied;
        Self { is_symlink, hunks, exact_and_unique, replaced, ..Self::plain(Some(after), mode) }
    }

    /// Returns the state after a step, given the one before it.
    fn after(self, before: Self) -> Self {
        let is_there = self.bytes.is_some();
        Self {
            mode: self.mode.or(before.mode).filter(|_| is_there),
            was_made: self.was_made || before.was_made,
            from: before.from.filter(|_| is_there),
            hunks: [before.hunks, self.hunks].concat(),
            exact_and_unique: self.exact_and_unique && before.exact_and_unique,
            replaced: combine(before.replaced, self.replaced),
            ..self
        }
    }
}

/// Returns the lines that two changes replace, one after the other.
fn combine(
    first: Option<Vec<ReplacedLines>>,
    second: Option<Vec<ReplacedLines>>,
) -> Option<Vec<ReplacedLines>> {
    first.zip(second).map(|(first, second)| replaced_lines::combine(&first, &second))
}

/// A file as a step finds it.
#[derive(Clone, Copy, Default)]
struct FileState<'t> {
    /// Bytes of the file; `None` if it is missing.
    bytes: Option<&'t [u8]>,
    /// Mode, if known.
    mode: Option<u32>,
    /// True if it is a symlink.
    is_symlink: bool,
}

/// Files that the patch touches, before it and in their current state.
pub(super) struct PatchTree<'r, E> {
    /// True if renames and copies read the files before the commit.
    is_git: bool,
    /// Paths that a commit of git renames or deletes, so that others may take their place.
    leaving: HashSet<Vec<u8>>,
    /// Results of the previous commits at the paths that this one touches, in a git patch.
    earlier: HashMap<Vec<u8>, PatchedFile>,
    /// Paths that this commit has touched so far.
    touched: HashSet<Vec<u8>>,
    /// How hunks are placed; never in reverse, since the steps are reversed themselves.
    options: PatchOptions,
    /// Missing paths whose files the caller itself removed or moved.
    removed: &'r BTreeSet<Vec<u8>>,
    /// Paths at which a symlink itself is read.
    themselves: BTreeSet<Vec<u8>>,
    /// Paths whose files a binary patch changes.
    binary: BTreeSet<Vec<u8>>,
    /// Reader of the files before the patch.
    read: &'r mut ReadOriginal<'r, E>,
    /// Results of `read`.
    originals: HashMap<Vec<u8>, Option<OriginalFile>>,
    /// Current state of each touched path.
    entries: HashMap<Vec<u8>, PatchedFile>,
    /// Paths in the order in which they were first touched.
    order: Vec<Vec<u8>>,
}

impl<'r, E> PatchTree<'r, E> {
    /// Creates a tree without changes.
    pub(super) fn new(
        is_git: bool,
        steps: &[PatchStep<'_, '_>],
        options: &'r PlanOptions,
        read: &'r mut ReadOriginal<'r, E>,
    ) -> Self {
        Self {
            is_git,
            leaving: HashSet::new(),
            earlier: HashMap::new(),
            touched: HashSet::new(),
            themselves: steps.iter().flat_map(PatchStep::symlink_paths).cloned().collect(),
            binary: steps.iter().flat_map(PatchStep::binary_paths).cloned().collect(),
            options: PatchOptions { reverse: false, ..options.apply },
            removed: &options.removed,
            read,
            originals: HashMap::new(),
            entries: HashMap::new(),
            order: Vec::new(),
        }
    }

    /// Begins the steps of a commit.
    pub(super) fn begin(&mut self, steps: &[PatchStep<'_, '_>]) {
        self.touched.clear();
        if !self.is_git {
            return;
        }
        let leaves =
            |step: &&PatchStep<'_, '_>| matches!(step.file.operation, FileOp::Rename | FileOp::Delete);
        self.leaving = steps.iter().filter(leaves).filter_map(|step| step.old.clone()).collect();
        let paths = steps.iter().flat_map(|step| [&step.old, &step.new]).flatten();
        let made = paths.filter_map(|path| Some((path.clone(), self.entries.get(path)?.clone())));
        self.earlier = made.collect();
    }

    /// Applies the blocks of one file, or one step of another format. Blocks that cannot meet are applied together.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    fn take_run(&mut self, run: &mut [PatchStep<'_, '_>], refusals: &mut Vec<PatchRefusal>) -> Result<(), E> {
        by_halves(0..run.len(), TOGETHER_MIN, &mut |part| match run.get_mut(part).unwrap_or_default() {
            [step] => {
                let taken = self.apply_step(step)?;
                refusals.extend(taken.err().map(|reason| step.refusal(reason)));
                // The lines of a patch of thousands of files take more memory than its text.
                step.file.to_mut().body = PatchBody::Unseen;
                Ok(true)
            }
            steps => self.apply_together(steps),
        })
    }

    /// Applies blocks of one file together if they cannot meet; returns true if it has.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    fn apply_together(&mut self, run: &[PatchStep<'_, '_>]) -> Result<bool, E> {
        let Some((first, path)) = run.first().and_then(|step| Some((step, step.new.clone()?))) else {
            return Ok(false);
        };
        self.load(&path)?;
        let is_change = run.iter().all(|step| step.file.operation == FileOp::Modify);
        let hunks: Vec<_> = run.iter().flat_map(|step| step.file.hunks().iter().cloned()).collect();
        let text = self.now(&path).bytes.filter(|_| is_change);
        if !text.is_some_and(|text| change_same_lines(&hunks, text)) {
            return Ok(false);
        }
        let together = FilePatch { body: PatchBody::Hunks(hunks), ..FilePatch::clone(&first.file) };
        Ok(self.modify(&together, &path).is_ok())
    }

    /// Applies one step.
    ///
    /// # Errors
    /// Fails if a file cannot be read. The inner result is the refusal of the step.
    pub(super) fn apply_step(&mut self, step: &PatchStep<'_, '_>) -> Result<Result<(), RefusalReason>, E> {
        for path in [&step.old, &step.new].into_iter().flatten() {
            self.load(path)?;
        }
        Ok(match (step.file.operation, &step.old, &step.new) {
            (FileOp::Create, _, Some(path)) => self.create(&step.file, path),
            (FileOp::Modify, Some(old), Some(new)) if self.now(new).bytes.is_none() => {
                self.modify(&step.file, old)
            }
            (FileOp::Modify, _, Some(path)) | (FileOp::Modify, Some(path), None) => {
                self.modify(&step.file, path)
            }
            (FileOp::Delete, Some(path), _) => self.delete(&step.file, path),
            (FileOp::Rename | FileOp::Copy, Some(old), Some(new)) => {
                self.rename_or_copy(&step.file, old, new)
            }
            _ => Err(RefusalReason::NoPath),
        })
    }

    /// Reads the file before the patch, once.
    fn load(&mut self, path: &[u8]) -> Result<(), E> {
        if !self.originals.contains_key(path) {
            let look =
                if self.themselves.contains(path) { SymlinkMode::Itself } else { SymlinkMode::Through };
            let form = if self.binary.contains(path) { FileForm::Bytes } else { FileForm::Text };
            let before = (self.read)(path, look, form)?;
            self.originals.insert(path.to_vec(), before);
        }
        Ok(())
    }

    /// Returns the bytes of a file before the patch.
    fn before(&self, path: &[u8]) -> Option<&OriginalFile> {
        self.originals.get(path)?.as_ref()
    }

    /// Returns the state of a path that a rename, copy or deletion starts from, if the patch changed it.
    fn source_entry(&self, path: &[u8]) -> Option<&PatchedFile> {
        if self.is_git { self.earlier.get(path) } else { self.entries.get(path) }
    }

    /// Returns the file that a rename, copy or deletion starts from.
    fn source(&self, path: &[u8]) -> FileState<'_> {
        self.state(path, self.source_entry(path))
    }

    /// Returns the current file at a path.
    fn now(&self, path: &[u8]) -> FileState<'_> {
        self.state(path, self.entries.get(path))
    }

    /// Returns the file at a path that is in the state `entry`, or else as before the patch.
    fn state<'t>(&'t self, path: &[u8], entry: Option<&'t PatchedFile>) -> FileState<'t> {
        let before = self.before(path);
        let mode = before.and_then(|before| before.mode);
        match (entry, before) {
            (Some(PatchedFile { bytes, mode: own, is_symlink, .. }), _) => {
                FileState { bytes: bytes.as_deref(), mode: own.or(mode), is_symlink: *is_symlink }
            }
            (None, Some(before)) => {
                FileState { bytes: Some(&before.bytes), mode, is_symlink: before.is_symlink() }
            }
            (None, None) => FileState::default(),
        }
    }

    /// Returns the bytes of a file that blocks a new one at `path`.
    fn obstacle(&self, path: &[u8]) -> Option<&[u8]> {
        let is_leaving = self.leaving.contains(path) && !self.touched.contains(path);
        self.now(path).bytes.filter(|_| !is_leaving)
    }

    /// Stores the result of a step at `path`.
    fn put(&mut self, path: &[u8], result: PatchedFile) {
        self.touched.insert(path.to_vec());
        let before = self.entries.remove(path);
        if before.is_none() {
            self.order.push(path.to_vec());
        }
        let after = match before {
            Some(before) => result.after(before),
            None => result,
        };
        self.entries.insert(path.to_vec(), after);
    }

    /// Creates a file, unless it already exists with this content.
    fn create(&mut self, file: &FilePatch<'_>, path: &[u8]) -> Result<(), RefusalReason> {
        let size = match &file.body {
            PatchBody::Hunks(hunks) => hunks.first().map_or(0, Hunk::new_bytes),
            PatchBody::Binary(binary) => binary.bytes_after(),
            PatchBody::Splices(_) | PatchBody::Unseen => 0,
        };
        self.options.must_fit(size).map_err(|fault| too_large(file, fault))?;
        let bytes = match &file.body {
            PatchBody::Hunks(hunks) => hunks.first().map(Hunk::new_text).unwrap_or_default(),
            PatchBody::Binary(binary) => {
                binary.apply(b"").map(|applied| applied.after).map_err(|message| {
                    RefusalReason::Conflict(HunkConflict::of_whole_file(
                        file.patch_line,
                        HunkFault::Binary(message),
                    ))
                })?
            }
            PatchBody::Splices(_) | PatchBody::Unseen => Vec::new(),
        };
        let mode = match self.obstacle(path) {
            Some(there) if there != bytes || self.now(path).is_symlink != file.speaks_of_symlink() => {
                return Err(RefusalReason::AlreadyExists);
            }
            Some(_) => file.new_mode.filter(|mode| is_symlink(*mode)),
            None => file.new_mode,
        };
        self.put(path, PatchedFile::plain(Some(bytes), mode));
        Ok(())
    }

    /// Changes a file; a hunk that starts from nothing creates a missing one.
    fn modify(&mut self, file: &FilePatch<'_>, path: &[u8]) -> Result<(), RefusalReason> {
        let starts_empty =
            matches!(file.hunks(), [only] if only.old_start == Some(0) && only.old().next().is_none());
        let FileState { bytes, is_symlink, .. } = self.now(path);
        let applied = match bytes {
            Some(bytes) => {
                must_be_of_type(file, is_symlink)?;
                self.apply(file, bytes)?
            }
            None if starts_empty => self.apply(file, b"")?,
            None => return Err(RefusalReason::NotFound),
        };
        self.put(path, PatchedFile::applied(applied, file.new_mode, is_symlink));
        Ok(())
    }

    /// Deletes a file, unless the caller or the patch has already removed it.
    fn delete(&mut self, file: &FilePatch<'_>, path: &[u8]) -> Result<(), RefusalReason> {
        // Do not delete a file that a rename or copy of the same commit has put here.
        let has_come = self.is_git
            && self.touched.contains(path)
            && self.entries.get(path).is_some_and(|entry| entry.from.is_some());
        let there = if has_come { self.source(path) } else { self.now(path) };
        let change = match there.bytes {
            Some(bytes) => {
                if file.body != PatchBody::Unseen {
                    must_be_of_type(file, there.is_symlink)?;
                }
                let PatchResult { hunks, exact_and_unique, .. } = self.apply(file, bytes)?;
                PatchedFile { hunks, exact_and_unique, ..PatchedFile::plain(None, None) }
            }
            None if self.is_removed(path) => PatchedFile::plain(None, None),
            None => return Err(RefusalReason::NotFound),
        };
        if !has_come {
            self.put(path, change);
        }
        Ok(())
    }

    /// Renames or copies a file, with its changes.
    fn rename_or_copy(&mut self, file: &FilePatch<'_>, old: &[u8], new: &[u8]) -> Result<(), RefusalReason> {
        let is_move = file.operation == FileOp::Rename;
        let FileState { bytes, mode, is_symlink } = self.source(old);
        let Some(source) = bytes else { return self.is_rename_applied(file, old, new, is_move) };
        if !file.keeps_content() {
            must_be_of_type(file, is_symlink)?;
        }
        let applied = self.apply(file, source)?;
        let obstacle = self.obstacle(new);
        if obstacle.is_some_and(|there| is_move || there != applied.after) {
            return Err(RefusalReason::AlreadyExists);
        }
        let is_there = obstacle.is_some();
        let mode = file.new_mode.or(mode);
        let earlier = self.source_entry(old).cloned();
        if is_move && !(self.is_git && self.touched.contains(old)) {
            self.put(old, PatchedFile::plain(None, None));
        }
        self.put(new, PatchedFile::applied(applied, mode, is_symlink));
        if let Some(entry) = self.entries.get_mut(new).filter(|_| !is_there) {
            let from = Some((old.to_vec(), is_move));
            entry.from = earlier.as_ref().and_then(|earlier| earlier.from.clone()).or(from);
            if let Some(earlier) = earlier {
                // Changes under the old name count for the file, too.
                entry.hunks.splice(0..0, earlier.hunks);
                entry.exact_and_unique &= earlier.exact_and_unique;
                entry.replaced = combine(earlier.replaced, entry.replaced.take());
            }
        }
        Ok(())
    }

    /// Accepts a rename whose source is missing and whose target has the result.
    fn is_rename_applied(
        &mut self,
        file: &FilePatch<'_>,
        old: &[u8],
        new: &[u8],
        is_move: bool,
    ) -> Result<(), RefusalReason> {
        let FileState { bytes, is_symlink, .. } = self.now(new);
        let there = bytes.filter(|_| is_move).ok_or(RefusalReason::NotFound)?;
        // Any file may be at the new path: without a hunk, only the caller knows that it is this one.
        if file.keeps_content() && !self.is_removed(old) {
            return Err(RefusalReason::NotFound);
        }
        let applied = self.apply(file, there)?;
        if !applied.already_applied {
            return Err(RefusalReason::AlreadyExists);
        }
        self.put(new, PatchedFile::applied(applied, file.new_mode, is_symlink));
        Ok(())
    }

    /// Returns true if a path is missing because the caller or the patch removed it.
    fn is_removed(&self, path: &[u8]) -> bool {
        self.removed.contains(path) || self.entries.get(path).is_some_and(|entry| entry.bytes.is_none())
    }

    /// Applies the hunks, without the byte-order mark if they do not contain it.
    fn apply(&self, file: &FilePatch<'_>, bytes: &[u8]) -> Result<PatchResult, RefusalReason> {
        let mut texts = file.hunks().iter().flat_map(Hunk::old).map(|line| line.text);
        let mark = Some(BYTE_ORDER_MARK).filter(|_| !matches!(file.body, PatchBody::Binary(_)));
        let applied = match mark.and_then(|mark| bytes.strip_prefix(mark)) {
            // Nothing comes before the mark, even if a hunk adds lines at the start.
            Some(body) if !texts.any(|text| text.starts_with(BYTE_ORDER_MARK)) => {
                apply(file, body, &self.options).map(|applied| PatchResult {
                    after: [BYTE_ORDER_MARK, &applied.after].concat(),
                    ..applied
                })
            }
            _ => apply(file, bytes, &self.options),
        };
        let applied = applied.map_err(RefusalReason::Conflict)?;
        // The mark counts, too.
        self.options.must_fit(applied.after.len()).map_err(|fault| too_large(file, fault))?;
        Ok(applied)
    }

    /// Returns the outcome for every path, in the order of the patch.
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
                // A file that is renamed to two paths is moved to the first and copied to the other.
                *is_move = sources.insert(from.clone());
            }
            let is_passing = entry.was_made && self.before(&path).is_none();
            if entry.bytes.is_some() || !(is_passing || moved.contains(&path)) {
                let is_vacated = moved.contains(&path);
                outcomes.push(self.outcome(path, entry, is_vacated));
            }
        }
        outcomes
    }

    /// Returns the outcome for one path. A file that takes the place of a renamed one is new, whatever its bytes.
    fn outcome(&self, path: Vec<u8>, entry: PatchedFile, is_vacated: bool) -> FileOutcome {
        let before = self.originals.get(&path).cloned().flatten();
        // A file that the patch itself created is not a source.
        let from = entry.from.and_then(|(from, is_move)| {
            let source = self.originals.get(&from).cloned().flatten()?;
            Some((from, is_move, source))
        });
        // A copy starts without a mode; a renamed file keeps its own.
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
        let was_link = before.as_ref().is_some_and(OriginalFile::is_symlink);
        let is_same = !is_vacated
            && before.as_ref().map(|before| &**before.bytes) == entry.bytes.as_deref()
            && (before.is_none() || (is_link == was_link && (is_link || mode.is_none())));
        let action = match (&before, &entry.bytes, &from) {
            (_, Some(_), Some((_, true, _))) => FileAction::Rename,
            _ if is_same => FileAction::AlreadyApplied,
            (_, None, _) => FileAction::Delete,
            (None, Some(_), _) | (_, Some(_), Some(_)) => FileAction::Create,
            (Some(_), Some(_), None) => FileAction::Modify,
        };
        let (from, source) = from.map_or((None, None), |(from, _, source)| (Some(from), Some(source)));
        let before = if action == FileAction::Rename { source } else { before };
        FileOutcome {
            is_binary: self.binary.contains(&path),
            path,
            action,
            from,
            before,
            after: entry.bytes,
            mode,
            hunks: entry.hunks,
            exact_and_unique: entry.exact_and_unique,
            replaced: entry.replaced,
        }
    }
}

/// Computes the effect of `patch` on the files that `read` returns.
///
/// `read` is called once per path, with the path of the patch after stripping; `None` means that it does not exist. As
/// with `git apply`, the sources of renames and copies in a git patch are the files before its commit, so renames may
/// form a ring. In other formats, and from one commit to the next, each change sees the previous ones.
///
/// # Errors
/// Fails at the first error of `read`, or with all changes that cannot be applied.
pub fn compose<'r, E>(
    patch: Patch<'_>,
    options: &PlanOptions,
    read: &'r mut ReadOriginal<'r, E>,
) -> Result<Vec<FileOutcome>, PlanError<E>> {
    let (is_git, is_blocks) = (patch.format == Format::Git, patch.format == Format::SearchReplace);
    let (mut steps, mut refusals) = steps(patch.files.into_iter().map(Cow::Owned), options);
    let mut tree = PatchTree::new(is_git, &steps, options, read);
    for commit in steps.chunk_by_mut(|one, next| one.file.commit == next.file.commit) {
        tree.begin(commit);
        for run in commit.chunk_by_mut(|one, next| is_blocks && one.new.is_some() && one.new == next.new) {
            tree.take_run(run, &mut refusals).map_err(PlanError::Read)?;
        }
    }
    let outcomes = tree.outcomes();
    if refusals.is_empty() { Ok(outcomes) } else { Err(PlanError::Refused { refusals, outcomes }) }
}

/// Paths at which a patch creates or removes a whole file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WholeFiles {
    /// Paths of files that are created, or that a rename or copy makes.
    pub coming: BTreeSet<Vec<u8>>,
    /// Paths of files that are deleted or renamed.
    pub leaving: BTreeSet<Vec<u8>>,
}

impl WholeFiles {
    /// Collects the paths of `patch`.
    pub fn of(patch: &Patch<'_>, options: &PlanOptions) -> Self {
        let mut whole = Self::default();
        for step in steps(patch.files.iter().map(Cow::Borrowed), options).0 {
            match step.file.operation {
                FileOp::Create | FileOp::Copy => whole.coming.extend(step.new),
                FileOp::Delete => whole.leaving.extend(step.old),
                FileOp::Rename => {
                    whole.coming.extend(step.new);
                    whole.leaving.extend(step.old);
                }
                FileOp::Modify => {}
            }
        }
        whole
    }
}
