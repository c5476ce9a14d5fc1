//! Files of a patch: their state under the lock, and the planned changes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::request::{self, ExpectedByPath};
use super::tree::{ResultingTree, emptied};
use super::{AppliedHunk, PatchedFile, Proof};
use crate::engine::change::gate::Needs;
use crate::engine::change::{CallerKnowledge, Change, CheckedFile, LockedFile};
use crate::engine::policy::Policy;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::charset::Charset;
use crate::text::content::{Content, Encoding};
use crate::text::lines;
use crate::text::patch::{
    FileAction, FileForm, FileOutcome, FilePatch, HunkReport, OriginalFile, Patch, PatchRefusal, PlanError,
    PlanOptions, RefusalReason, SymlinkMode, WholeFiles, is_symlink,
};
use crate::tools::common::{self, DiffWanted, PLACES_LISTED, Refusals};

/// Files of one patch.
pub struct PatchFiles<'e> {
    /// Change that includes the files.
    change: Change<'e>,
    /// Files read so far, by path in the patch.
    known: HashMap<Vec<u8>, LockedFile>,
    /// Kind of look and location of each path in the patch.
    found: HashMap<Vec<u8>, (SymlinkMode, WorkspacePath)>,
    /// True if a path of the patch exists from the root alone: new paths then begin there too.
    is_from_root: bool,
    /// Paths at which the patch creates or removes a whole file.
    whole: WholeFiles,
    /// Tree after the patch.
    result: ResultingTree,
    /// Encoding of the files that the caller named.
    pub charset: Option<Charset>,
    /// Expected SHA-256 by path as given; `None` if the file must not exist.
    stated: Option<BTreeMap<String, Option<Sha256>>>,
    /// Expected SHA-256 by canonical path, once the files are known.
    expected: Option<BTreeMap<WorkspacePath, Option<Sha256>>>,
    /// Proof of edits by line, by path in the patch.
    pub line_proofs: HashMap<Vec<u8>, LineProof>,
}

/// Proof that the caller knows the lines that its edits name.
#[derive(Debug)]
pub enum LineProof {
    /// The session was shown them; with the bytes that it saw, if others have changed the file since.
    Shown(Option<Vec<u8>>),
    /// A tag is the beginning of the file's SHA-256.
    Tag,
    /// None yet: the gate must know these lines of the file as it is now.
    Gate(Vec<(u64, u64)>),
}

impl<'e> PatchFiles<'e> {
    /// Returns the files of a patch, none read yet.
    ///
    /// # Errors
    /// Returns `invalid_request` if an expectation is invalid.
    pub fn new(
        change: Change<'e>,
        (whole, charset): (WholeFiles, Option<Charset>),
        expected: Option<&ExpectedByPath>,
    ) -> Result<Self, Error> {
        let parsed = |(path, sha256): (&String, &String)| {
            Ok::<_, Error>((path.clone(), parse_expected(path, sha256)?))
        };
        let stated = expected.map(|ExpectedByPath(map)| map.iter().map(parsed).collect()).transpose()?;
        Ok(Self {
            change,
            known: HashMap::new(),
            found: HashMap::new(),
            is_from_root: false,
            whole,
            result: ResultingTree::default(),
            charset,
            stated,
            expected: None,
            line_proofs: HashMap::new(),
        })
    }

    /// Finds out where new paths begin: at the root, if one of `paths` exists from there alone.
    pub fn find_start<'p>(&mut self, mut paths: impl Iterator<Item = &'p [u8]>) {
        let workspace = &self.change.engine().workspace;
        let is_from_root = |path: &[u8]| {
            let found = locate(workspace, path, SymlinkMode::Itself, false);
            found.is_ok_and(|(written, _)| written.as_os_str().as_bytes() != path)
        };
        self.is_from_root = !workspace.base().is_root() && paths.any(is_from_root);
    }

    /// Resolves the paths of the expectations.
    fn resolve_expected(&mut self) -> Result<(), Error> {
        let Some(stated) = self.stated.take() else {
            return Ok(());
        };
        let mut by_path = BTreeMap::new();
        for (path, sha256) in stated {
            by_path.insert(self.canonical(path.as_bytes())?, sha256);
        }
        self.expected = Some(by_path);
        Ok(())
    }

    /// Returns true if this session applied an equal patch before, and nothing has changed since.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn is_repeated(&mut self, request: Sha256, names_versions: bool) -> Result<bool, Error> {
        self.change.is_repeated(request, names_versions)
    }

    /// Returns those of `paths` that do not exist because this session removed or moved the file.
    ///
    /// # Errors
    /// Returns the OS error if the history cannot be read.
    pub fn removed_before(&mut self, paths: BTreeSet<Vec<u8>>) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut removed = BTreeSet::new();
        for path in paths {
            if path_exists(&self.change.engine().workspace, &path) {
                continue;
            }
            // A path that cannot be resolved is rejected later.
            if let Ok(canonical) = self.canonical(&path)
                && self.change.has_removed(&canonical)?
            {
                removed.insert(path);
            }
        }
        Ok(removed)
    }

    /// Returns the outcome of a patch that is known to be applied, although its hunks alone do not prove it.
    ///
    /// # Errors
    /// Returns `invalid_request` if its paths cannot be chosen.
    pub fn all_applied(patch: &Patch<'_>, options: &PlanOptions) -> Result<Vec<FileOutcome>, Error> {
        let path_of = |file: &FilePatch<'_>| {
            let paths = file.paths(options.strip)?;
            options.target.clone().or(paths.new).or(paths.old)
        };
        let paths = patch.files.iter().map(path_of).collect::<Option<Vec<_>>>();
        let mut paths = paths.ok_or_else(|| Error::invalid("the patch names no file"))?;
        paths.sort();
        paths.dedup();
        let applied = |path| FileOutcome { path, exact_and_unique: true, ..FileOutcome::default() };
        Ok(paths.into_iter().map(applied).collect())
    }

    /// Returns the canonical path for a path in the patch.
    ///
    /// # Errors
    /// Fails as for any path.
    pub fn canonical(&mut self, path: &[u8]) -> Result<WorkspacePath, Error> {
        if let Some((_, canonical)) = self.found.get(path) {
            return Ok(canonical.clone());
        }
        let (_, place) =
            locate(&self.change.engine().workspace, path, SymlinkMode::Through, self.is_from_root)?;
        Ok(place.path().clone())
    }

    /// Returns the current file at a path in the patch; `None` if it does not exist.
    ///
    /// # Errors
    /// Fails as for any file that is changed.
    pub fn before(
        &mut self,
        path: &[u8],
        look: SymlinkMode,
        form: FileForm,
    ) -> Result<Option<OriginalFile>, Error> {
        if !self.known.contains_key(path) {
            let current = self.open(path, look)?;
            self.found.insert(path.to_vec(), (look, current.place().path().clone()));
            self.known.insert(path.to_vec(), current);
        }
        let Some(current) = self.known.get(path).filter(|current| current.exists()) else {
            return Ok(None);
        };
        if current.is_symlink() || form == FileForm::Bytes {
            return Ok(Some(OriginalFile { bytes: current.shared_bytes(), mode: current.mode() }));
        }
        let text = common::view(current, self.charset)?;
        // The parts of a patch are UTF-8 or bytes; a file in another encoding is patched as decoded text.
        let bytes = match text.encoding {
            Encoding::Utf8 | Encoding::Bytes => current.shared_bytes(),
            Encoding::Utf16Le | Encoding::Utf16Be | Encoding::Named(_) => {
                Arc::new(text.body.into_owned().into())
            }
        };
        Ok(Some(OriginalFile { bytes, mode: current.mode() }))
    }

    /// Returns the existing file at a path that was read, with the change.
    pub fn file(&mut self, path: &[u8]) -> Option<(&mut Change<'e>, &LockedFile)> {
        let current = self.known.get(path).filter(|current| current.exists())?;
        Some((&mut self.change, current))
    }

    /// Returns true if the request states a SHA-256 of the file at a path that was read.
    ///
    /// # Errors
    /// Fails as for any path.
    pub fn has_expectation(&mut self, path: &[u8]) -> Result<bool, Error> {
        self.resolve_expected()?;
        let canonical = self.canonical(path)?;
        Ok(self.expected.as_ref().is_some_and(|expected| expected.contains_key(&canonical)))
    }

    /// Opens a file, or a symlink itself. A file that the patch removes, and that is in the way, counts as missing.
    fn open(&mut self, path: &[u8], look: SymlinkMode) -> Result<LockedFile, Error> {
        if let Some(below) = self.below_file(path)? {
            return self.change.open_canonical(&below);
        }
        let (written, place) = locate(&self.change.engine().workspace, path, look, self.is_from_root)?;
        let canonical = place.path().clone();
        let current = match look {
            SymlinkMode::Through => self.change.look_to_replace(place),
            SymlinkMode::Itself => self.change.open_nofollow(&written),
        };
        match current {
            Err(error) if error.kind() == ErrorKind::IsADirectory && self.has_coming_below(path) => {
                // The patch is already applied, and has replaced the file with a folder.
                self.change.free_path(&canonical)
            }
            Err(error) if error.kind() == ErrorKind::IsADirectory && self.has_leaving_below(path) => {
                let mut folders = Vec::new();
                if !emptied(
                    &self.change.engine().workspace,
                    &canonical,
                    path,
                    &self.whole.leaving,
                    &mut folders,
                )? {
                    return Err(error);
                }
                self.change.add_cleared(folders);
                self.change.free_path(&canonical)
            }
            current => current,
        }
    }

    /// Returns true if the patch creates a file below `path`, and removes `path`.
    fn has_coming_below(&self, path: &[u8]) -> bool {
        self.whole.leaving.contains(path) && has_below(&self.whole.coming, path)
    }

    /// Returns true if the patch removes a file below `path`: the old folder is in the way until then.
    fn has_leaving_below(&self, path: &[u8]) -> bool {
        has_below(&self.whole.leaving, path)
    }

    /// Returns the path if `path` is below a file or symlink of the same patch, which is removed first or created
    /// later; `None` otherwise.
    fn below_file(&mut self, path: &[u8]) -> Result<Option<WorkspacePath>, Error> {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for slash in slashes {
            let (above, rest) = path.split_at_checked(slash).unwrap_or_default();
            if !self.whole.leaving.contains(above) && !self.whole.coming.contains(above) {
                continue;
            }
            let rest = Path::new(OsStr::from_bytes(rest.get(1..).unwrap_or_default()));
            let is_plain = rest.components().all(|part| matches!(part, std::path::Component::Normal(_)));
            let place = self.change.resolve_entry_to_move(Path::new(OsStr::from_bytes(above)))?;
            if is_plain && place.stat().is_some_and(|stat| !fs::is_folder(stat)) {
                return Ok(Some(rest.iter().fold(place.path().clone(), |path, name| path.join(name))));
            }
        }
        Ok(None)
    }

    /// Rejects expectations about files that the patch does not touch.
    ///
    /// # Errors
    /// Returns `invalid_request`.
    pub fn check_expected(&mut self) -> Result<(), Error> {
        self.resolve_expected()?;
        if self.expected.is_none() {
            return Ok(());
        }
        // Every path of the patch was read, including the old path of a file that is already renamed.
        let touched: BTreeSet<_> = self.found.values().map(|(_, path)| path).collect();
        let mut expected = self.expected.iter().flat_map(BTreeMap::keys);
        match expected.find(|path| !touched.contains(*path)) {
            None => Ok(()),
            Some(path) => {
                let shown = self.change.engine().workspace.display(path);
                Err(Error::invalid(format!(
                    "expected_sha256_by_path names {shown}, which the patch does not touch"
                ))
                .at(shown)
                .detail("field", "expected_sha256_by_path"))
            }
        }
    }

    /// Returns the error for a failed patch, with all of its problems. The gate comes first, since a file that has
    /// changed explains a hunk that does not fit.
    pub fn refuse(&mut self, refused: PlanError<Error>, proof: Proof, wanted: DiffWanted) -> Error {
        let (refusals, outcomes) = match refused {
            PlanError::Read(error) => return error,
            PlanError::Refused { refusals, outcomes } => (refusals, outcomes),
        };
        if let Err(error) = self.resolve_expected() {
            return error;
        }
        let refused = self.with_near_names(request::refused(&refusals), &refusals);
        match self.gate_of(&refusals, outcomes, (proof, wanted)) {
            Ok(()) => refused,
            Err(gate) => {
                let listed = refused.details().get("refused").cloned().unwrap_or_default();
                common::also_refused(gate, refused.into_message(), listed)
            }
        }
    }

    /// Checks every file of a failed patch at the gate.
    fn gate_of(
        &mut self,
        refusals: &[PatchRefusal],
        outcomes: Vec<FileOutcome>,
        (proof, wanted): (Proof, DiffWanted),
    ) -> Result<(), Error> {
        let mut found = Refusals::default();
        for refusal in refusals {
            if request::may_be_staleness(refusal)
                && let Some(current) = self.known.remove(&refusal.path)
                && current.exists()
                && let Err(error) = self.prove(current, proof, false, Needs::Any)
            {
                found.keep(error)?;
            }
        }
        let is_refused = |path: &[u8]| refusals.iter().any(|refusal| refusal.path == path);
        for mut outcome in outcomes {
            let from = outcome.from.as_deref().unwrap_or_default();
            if !is_refused(&outcome.path)
                && !is_refused(from)
                && let Err(error) = self.plan(&mut outcome, proof, wanted)
                && error.kind() == ErrorKind::NotRead
            {
                found.keep(error)?;
            }
        }
        found.refuse()
    }

    /// Adds similar paths to `error` if it is about a missing file.
    fn with_near_names(&mut self, error: Error, refusals: &[PatchRefusal]) -> Error {
        let missing = refusals.first().filter(|first| first.reason == RefusalReason::NotFound);
        let current = missing.and_then(|missing| self.known.get(&missing.path));
        // If the file exists, the patch itself has renamed or deleted it.
        let Some(current) = current.filter(|current| !current.exists()) else {
            return error;
        };
        let not_found = self.change.engine().workspace.not_found(current.place());
        match not_found.details().get("near") {
            Some(near) => error.suggest(not_found.suggested_action().to_owned()).detail("near", near.clone()),
            None => error,
        }
    }

    /// Checks one file at the gate.
    fn prove(
        &mut self,
        current: LockedFile,
        proof: Proof,
        exact_and_unique: bool,
        needs: Needs<'_>,
    ) -> Result<CheckedFile, Error> {
        let expected = self.expected.as_ref().map(|expected| expected.get(current.place().path()).copied());
        let shown = current.place().display().to_owned();
        match expected {
            Some(Some(Some(sha256))) => self.change.prove(current, Some(sha256), needs),
            Some(Some(None)) if current.exists() => Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("{shown} exists, and expected_sha256_by_path says that it must not"),
            )
            .at(shown)),
            Some(Some(None)) => Ok(current.without_proof()),
            // No read shows the target of a symlink; the backup keeps it.
            Some(None) | None if current.is_symlink() => Ok(current.without_proof()),
            // Missing in a map that is given, or proved by its context: the old lines are the proof.
            Some(None) if exact_and_unique => Ok(current.without_proof()),
            None if proof == Proof::Context && exact_and_unique => Ok(current.without_proof()),
            Some(None) | None => self.change.prove(current, None, needs),
        }
    }

    /// Checks one file at the gate whose edits may name lines by number; returns the bytes that the caller saw, if
    /// others have changed it since.
    fn prove_edits(
        &mut self,
        current: LockedFile,
        path: &[u8],
        proof: Proof,
        exact_and_unique: bool,
    ) -> Result<(CheckedFile, Option<Vec<u8>>), Error> {
        Ok(match self.line_proofs.remove(path) {
            None => (self.prove(current, proof, exact_and_unique, Needs::Any)?, None),
            Some(LineProof::Shown(base)) => (current.without_proof(), base),
            Some(LineProof::Tag) => {
                let sha256 = current.sha256();
                (self.change.prove(current, Some(sha256), Needs::Any)?, None)
            }
            Some(LineProof::Gate(lines)) => {
                (self.prove(current, Proof::Read, false, Needs::Lines(&lines))?, None)
            }
        })
    }

    /// Takes a file that was read; reads it again if it is needed twice.
    fn take_read_file(&mut self, path: &[u8]) -> Result<LockedFile, Error> {
        if let Some(current) = self.known.remove(path) {
            return Ok(current);
        }
        let look = self.found.get(path).map_or(SymlinkMode::Through, |(look, _)| *look);
        self.open(path, look)
    }

    /// Plans the change of one path; takes the new bytes out of its outcome.
    ///
    /// # Errors
    /// Returns the error of the gate.
    pub fn plan(
        &mut self,
        outcome: &mut FileOutcome,
        proof: Proof,
        wanted: DiffWanted,
    ) -> Result<PatchedFile, Error> {
        let after = outcome.after.take().unwrap_or_default();
        let mode = outcome.mode.map(|mode| if is_symlink(mode) { mode } else { mode & 0o777 });
        match (outcome.action, &outcome.from) {
            (FileAction::AlreadyApplied, _) => self.already_applied(outcome),
            (FileAction::Delete, _) => self.delete(outcome, proof, wanted),
            (FileAction::Rename, Some(from)) => self.rename((outcome, after), from, mode, proof, wanted),
            (FileAction::Create | FileAction::Modify | FileAction::Rename, _) => {
                self.put((outcome, after), mode, proof, wanted)
            }
        }
    }

    /// Returns the response for a file to which everything is already applied.
    fn already_applied(&mut self, outcome: &FileOutcome) -> Result<PatchedFile, Error> {
        let current = self.take_read_file(&outcome.path)?;
        let sha256 = current.exists().then(|| current.sha256());
        Ok(patched(outcome, FileAction::AlreadyApplied, current.place().display(), None, sha256, None))
    }

    /// Plans the deletion of a file.
    fn delete(
        &mut self,
        outcome: &FileOutcome,
        proof: Proof,
        wanted: DiffWanted,
    ) -> Result<PatchedFile, Error> {
        let current = self.take_read_file(&outcome.path)?;
        // A deletion without lines of the file does not show that the caller knows the bytes.
        let is_unseen = outcome.hunks.is_empty() && !outcome.exact_and_unique;
        let needs = if is_unseen { Needs::All } else { Needs::Any };
        let seen = self.prove(current, proof, outcome.exact_and_unique, Needs::Removed(&needs))?;
        let shown = seen.current().place().display().to_owned();
        let diff = wanted.of(&shown, Some(seen.current().bytes()), None);
        self.change.remove(seen);
        Ok(patched(outcome, FileAction::Delete, &shown, None, None, diff))
    }

    /// Plans the new content of a file.
    fn put(
        &mut self,
        (outcome, after): (&FileOutcome, Vec<u8>),
        mode: Option<u32>,
        proof: Proof,
        wanted: DiffWanted,
    ) -> Result<PatchedFile, Error> {
        let current = self.take_read_file(&outcome.path)?;
        let exists = current.exists();
        self.change.must_be_allowed(&current)?;
        let (seen, base) = self.prove_edits(current, &outcome.path, proof, outcome.exact_and_unique)?;
        let shown = seen.current().place().display().to_owned();
        let bytes = encoded((outcome, after), (seen.current(), self.charset), self.change.policy(), &shown)?;
        let before = exists.then(|| seen.current().bytes());
        let diff = wanted.of(&shown, before, Some(&bytes));
        let mode = if exists && !seen.current().is_symlink() {
            mode.map(|mode| with_execute_bits(seen.current().mode(), mode))
        } else {
            mode.filter(|mode| mode & 0o111 != 0 || is_symlink(*mode))
        };
        let known = match base {
            Some(base) => CallerKnowledge::ChangedSince(base),
            None if exists => CallerKnowledge::ChangedLines,
            None => CallerKnowledge::Everything,
        };
        let sha256 = self.change.put(seen, bytes, mode, known);
        self.change.note_replaced(outcome.replaced.clone());
        let done = if exists { FileAction::Modify } else { FileAction::Create };
        let from = match &outcome.from {
            Some(from) => Some(self.display(from)?),
            None => None,
        };
        Ok(patched(outcome, done, &shown, from, Some(sha256), diff))
    }

    /// Plans a rename, with or without new content.
    fn rename(
        &mut self,
        (outcome, after): (&FileOutcome, Vec<u8>),
        from: &[u8],
        mode: Option<u32>,
        proof: Proof,
        wanted: DiffWanted,
    ) -> Result<PatchedFile, Error> {
        let source = self.take_read_file(from)?;
        let to = self.display(&outcome.path)?;
        let bytes = encoded((outcome, after), (&source, self.charset), self.change.policy(), &to)?;
        // A plain rename loses no bytes that the caller would have to see.
        let is_pure = bytes == source.bytes();
        if !is_pure {
            self.change.must_be_allowed(&source)?;
        }
        let has_expectation =
            self.expected.as_ref().is_some_and(|expected| expected.contains_key(source.place().path()));
        let source = if is_pure && !has_expectation {
            source.without_proof()
        } else {
            self.prove_edits(source, from, proof, outcome.exact_and_unique)?.0
        };
        let target = self.take_read_file(&outcome.path)?;
        let target = self.prove(target, proof, outcome.exact_and_unique, Needs::Any)?;
        let (old, new) =
            (source.current().place().display().to_owned(), target.current().place().display().to_owned());
        let diff = wanted.of(&new, Some(source.current().bytes()), Some(&bytes));
        let mode = mode.map(|mode| with_execute_bits(source.current().mode(), mode));
        let sha256 = self.change.rename(source, target, bytes, mode, CallerKnowledge::ChangedLines)?;
        self.change.note_replaced(outcome.replaced.clone());
        Ok(patched(outcome, FileAction::Rename, &new, Some(old), Some(sha256), diff))
    }

    /// Returns a path of the patch for display.
    fn display(&mut self, path: &[u8]) -> Result<String, Error> {
        let canonical = self.canonical(path)?;
        Ok(self.change.engine().workspace.display(&canonical))
    }

    /// Checks the tree after the patch: no path is both a file and a folder, no file has two names in the patch, and no
    /// new symlink leads out of the workspace.
    ///
    /// # Errors
    /// Returns `not_a_directory`, `outside_workspace`, `invalid_request` for a second name, or `patch_invalid` for an
    /// invalid target.
    pub fn check_result(&mut self, outcomes: &[FileOutcome]) -> Result<(), Error> {
        let mut result = ResultingTree::default();
        let mut names = BTreeMap::new();
        for outcome in outcomes {
            let path = self.named_once(&mut names, &outcome.path)?;
            if let Some(from) = &outcome.from
                && outcome.action == FileAction::Rename
            {
                let from = self.named_once(&mut names, from)?;
                result.gone.insert(from);
            }
            match &outcome.after {
                None => drop(result.gone.insert(path)),
                Some(target) if outcome.is_symlink() => drop(result.links.insert(path, target.clone())),
                Some(_) => drop(result.files.insert(path)),
            }
        }
        result.check(&self.change.engine().workspace)?;
        self.result = result;
        Ok(())
    }

    /// Returns the canonical path for a path in the patch, which is its only name there.
    fn named_once<'p>(
        &mut self,
        names: &mut BTreeMap<WorkspacePath, &'p [u8]>,
        path: &'p [u8],
    ) -> Result<WorkspacePath, Error> {
        let canonical = self.canonical(path)?;
        let name = *names.entry(canonical.clone()).or_insert(path);
        if name == path {
            return Ok(canonical);
        }
        let [name, path] = [name, path].map(|path| String::from_utf8_lossy(path).into_owned());
        Err(Error::invalid(format!("{name} and {path} are one file"))
            .at(path)
            .suggest("Use one name for all changes of the file."))
    }

    /// Makes the change. If `vacates`, removes folders that become empty, as git does.
    ///
    /// # Errors
    /// Fails as for any change.
    pub fn commit(mut self, subject: String, why: Option<String>, vacates: bool) -> Result<(), Error> {
        if vacates {
            let folders = self.result.emptied_folders(&self.change.engine().workspace)?;
            self.change.add_vacated(folders)?;
        }
        self.change.commit(subject, why)
    }
}

/// Returns the location of a path in a patch: from the current folder, else from the root if it exists only there, or
/// if it is new and `is_from_root`.
fn locate(
    workspace: &Workspace,
    path: &[u8],
    look: SymlinkMode,
    is_from_root: bool,
) -> Result<(PathBuf, ResolvedPath), Error> {
    let written = PathBuf::from(OsStr::from_bytes(path));
    let resolve = |path: &Path| match look {
        SymlinkMode::Through => workspace.resolve_file(path),
        SymlinkMode::Itself => workspace.resolve_entry(path),
    };
    let place = resolve(&written)?;
    if place.stat().is_none() && !written.is_absolute() && !workspace.base().is_root() {
        let from_root = workspace.root().join(&written);
        let other = resolve(&from_root)?;
        if other.stat().is_some() || is_from_root {
            return Ok((from_root, other));
        }
    }
    Ok((written, place))
}

/// Returns true if a path in a patch exists; an error is reported later.
pub fn path_exists(workspace: &Workspace, path: &[u8]) -> bool {
    locate(workspace, path, SymlinkMode::Itself, false).is_ok_and(|(_, place)| place.stat().is_some())
}

/// Returns the text of the file that a request or a block names, if it can be read.
pub fn text_of(workspace: &Workspace, given: Option<&Path>, named: Option<&[u8]>) -> Option<Vec<u8>> {
    let path = given.map(|path| path.as_os_str().as_bytes()).or(named)?;
    let (_, place) = locate(workspace, path, SymlinkMode::Through, false).ok()?;
    common::bytes_at(workspace, &place)
}

/// Returns the expected state of a file: a SHA-256, or `None` for no file.
fn parse_expected(path: &str, sha256: &str) -> Result<Option<Sha256>, Error> {
    if sha256.is_empty() {
        return Ok(None);
    }
    sha256.parse().map(Some).map_err(|error| {
        Error::invalid(format!("expected_sha256_by_path.{path}: {error}"))
            .detail("field", "expected_sha256_by_path")
    })
}

/// Returns the new bytes of a file, in its own encoding.
///
/// # Errors
/// Returns `too_large` for the file at `shown`, before it is encoded.
fn encoded(
    (outcome, after): (&FileOutcome, Vec<u8>),
    (current, charset): (&LockedFile, Option<Charset>),
    policy: &Policy,
    shown: &str,
) -> Result<Vec<u8>, Error> {
    let is_as_given = !current.exists() && charset.is_none();
    if is_as_given || current.is_symlink() || outcome.is_symlink() || outcome.is_binary {
        return Ok(after);
    }
    let text = common::view(current, charset)?;
    Ok(match text.encoding {
        Encoding::Utf8 => after,
        Encoding::Bytes => {
            let old: HashSet<&[u8]> = lines::lines(&text.body).collect();
            for line in lines::lines(&after).filter(|line| !old.contains(line)) {
                common::must_be_encodable(text.encoding, line, (shown, current.bytes()))?;
            }
            after
        }
        Encoding::Utf16Le | Encoding::Utf16Be | Encoding::Named(_) => {
            must_be_text(&after, text.encoding, shown)?;
            common::must_fit(policy, shown, text.bytes_of(&after))?;
            let content = Content { body: after.into(), ..text };
            content.encode().map_err(|missing| common::unencodable(shown, "the file", missing))?
        }
    })
}

/// Rejects bytes that a file in another encoding cannot represent, because they would be replaced.
fn must_be_text(after: &[u8], encoding: Encoding, shown: &str) -> Result<(), Error> {
    if std::str::from_utf8(after).is_ok() {
        return Ok(());
    }
    let message =
        format!("the patch adds bytes to {shown} that are not UTF-8; the file is {}", encoding.name());
    Err(Error::new(ErrorKind::UnsupportedEncoding, message)
        .at(shown)
        .suggest(format!("Write the added lines of {shown} as UTF-8 text.")))
}

/// Returns true if one of `paths` is below `folder`.
fn has_below(paths: &BTreeSet<Vec<u8>>, folder: &[u8]) -> bool {
    let below = [folder, b"/"].concat();
    paths.range(below.clone()..).next().is_some_and(|first| first.starts_with(&below))
}

/// Returns permission bits with the execute bits of a patch: git has no others.
fn with_execute_bits(old: Option<u32>, asked: u32) -> u32 {
    match old {
        _ if is_symlink(asked) => asked,
        None => asked,
        Some(old) if asked & 0o111 == 0 => old & !0o111,
        // Every user with read permission gets execute permission.
        Some(old) => old | ((old & 0o444) >> 2),
    }
}

/// Returns the response for one file.
fn patched(
    outcome: &FileOutcome,
    action: FileAction,
    shown: &str,
    from: Option<String>,
    sha256: Option<Sha256>,
    diff: Option<String>,
) -> PatchedFile {
    let hunk = |hunk: &HunkReport| AppliedHunk {
        line: hunk.line,
        offset: hunk.offset,
        fuzz: hunk.fuzz,
        tier: (hunk.tier.name() != "exact").then(|| hunk.tier.name()),
        already_applied: hunk.already_applied && action != FileAction::AlreadyApplied,
    };
    PatchedFile {
        path: shown.to_owned(),
        action,
        from,
        sha256,
        count: outcome.hunks.len(),
        hunks: outcome.hunks.iter().take(PLACES_LISTED).map(hunk).collect(),
        diff,
    }
}
