//! A change, whole or not at all.
//!
//! ```text
//! lock -> recover what a dead call left open -> resolve -> gate -> (the tool computes)
//!      -> back up, write aside, plan the steps, journal, snapshot; sync -> take the steps -> mark; unlock; sync -> history
//! ```
//! Nothing is visible until the journal entry is published; from then on the change is completed, or rolled back as a
//! whole, by this call or by the next one.

mod check;
pub(in crate::engine) mod commit;
pub mod executor;
pub mod external_changes;
mod finish;
mod folders;
pub mod gate;
pub mod kept_for_forks;
mod locks;
pub mod moves;
mod open;
pub mod plan;
mod prepared;
pub mod record;
mod recover;
pub mod shown_lines;
pub mod so_far;
pub mod staging;
pub mod trash;
pub mod without_rename;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use locks::StepsTurn;
use moves::SizeSum;
use plan::{FilePlan, Move, RenameSource, TargetState};

use super::Engine;
use super::history::replay::Pieces;
use super::journal::steps::Location;
use super::journal::{FileEntry, FolderMode, JournalEntry, Version};
use super::policy::protected::ProtectedLinks;
use super::snapshot::BlobPrefetch;
use super::store::session::{self, SessionState};
use super::store::state::{Lock, STATE_FOLDER, State};
use super::store::trash::TrashEntry;
use super::workspace::Workspace;
use super::workspace::fs::{Mount, OpenFiles, is_closed};
use super::workspace::metadata::Identity;
use super::workspace::path::WorkspacePath;
use super::workspace::protect::Protection;
use super::workspace::resolve::must_be_a_path;
use crate::buffer::Buffer;
use crate::control::seconds_now;
use crate::engine::journal;
use crate::engine::store::lock::unique_name;
use crate::error::Error;
use crate::sha256::Sha256;
use crate::text::content::body_of;
use crate::text::replaced_lines::ReplacedLines;

pub use locks::LockedState;
pub use open::{CheckedFile, LockedFile};
pub use plan::CallerKnowledge;

/// A change in progress; holds the workspace's lock until its steps are taken or it is dropped.
pub struct Change<'e> {
    /// Engine that makes it.
    engine: &'e mut Engine,
    /// State; `None` in a dry run of a workspace without state.
    state: Option<State>,
    /// Workspace lock, except in a dry run.
    lock: Option<Lock>,
    /// Turn among the changes, except in a dry run.
    turn: Option<StepsTurn>,
    /// Raised limit of open files.
    open_files: RefCell<Option<OpenFiles>>,
    /// Number of files read.
    files_read: Cell<usize>,
    /// Blobs of large files, for the snapshot.
    blobs: BlobPrefetch,
    /// True for a dry run.
    dry_run: bool,
    /// Path of the present or future state folder, from the workspace root.
    state_path: WorkspacePath,
    /// Session when the lock was taken.
    session: Arc<SessionState>,
    /// Journal entry of the change.
    entry: JournalEntry,
    /// Files changed so far.
    files: Vec<FilePlan>,
    /// Moves.
    moves: Vec<Move>,
    /// Moves as paths, to map a path to its present location.
    pieces: Pieces,
    /// Folders that it makes and removes.
    folders: folders::Folders,
    /// True if nothing is renamed from one folder to another, since a mount has refused that.
    stays_in_folders: bool,
    /// Mounts of folders whose files are replaced, from when it was decided how.
    mounts: BTreeMap<WorkspacePath, Mount>,
    /// Other bytes to back up.
    kept: Vec<Vec<u8>>,
    /// Descriptions of the new trash entries.
    described: Vec<(TrashEntry, Option<Sha256>)>,
    /// Finds paths that belong to git or lbx.
    protection: Protection,
    /// Files and folders to which protected names lead, found on first use.
    protected_links: OnceCell<ProtectedLinks>,
}

/// Tools that change the bytes of files and look at the history of no other session: they begin while the change before
/// is synced.
const OF_FILES: [&str; 8] =
    ["append", "apply_patch", "edit", "insert", "patch", "prepend", "section", "write"];
/// Most files without old bytes that the journal names.
const LOST_NAMED_MAX: usize = 100;
impl Engine {
    /// Begins a change by the tool `tool`: takes the lock, and finishes changes of dead calls first.
    ///
    /// `named` lists all paths in the request, each with its field. They are checked before the lock is taken, so that
    /// no caller waits only to get an error about a path. A dry run takes no lock and changes nothing.
    ///
    /// # Errors
    /// Returns `invalid_request` for an invalid path, `lock_timeout`, or the OS error if the state cannot be written.
    pub fn begin(&mut self, tool: &str, named: &[(&str, &Path)], dry_run: bool) -> Result<Change<'_>, Error> {
        named.iter().try_for_each(|(field, path)| must_be_a_path(path, field))?;
        self.set_dry_run(dry_run);
        let (state, lock, turn) = if dry_run {
            self.finish_dead_calls();
            let found = self.found.take();
            (found.map_or_else(|| State::find(&self.workspace), |state| Ok(Some(state)))?, None, None)
        } else {
            let LockedState { state, lock, turn } = self.lock_for(OF_FILES.contains(&tool))?;
            (Some(state), Some(lock), Some(turn))
        };
        let session = match &state {
            Some(state) => {
                let load = if dry_run { session::load_unchanged } else { session::load };
                let (session, warning) = load(state, self.session())?;
                self.warn_if(warning);
                session
            }
            None => Arc::default(),
        };
        self.session_state = Arc::clone(&session);
        let id = unique_name("change");
        let seq = record::next_number(self, state.as_ref(), self.session(), session.last_seq())?;
        let entry = JournalEntry::new(id, self.session().as_str(), tool, seq, seconds_now());
        let state_path = match &state {
            Some(state) => state.path().clone(),
            None => WorkspacePath::root().join(STATE_FOLDER.as_ref()),
        };
        Ok(Change {
            engine: self,
            state,
            state_path,
            lock,
            turn,
            open_files: RefCell::default(),
            files_read: Cell::default(),
            blobs: BlobPrefetch::default(),
            dry_run,
            session,
            entry,
            files: Vec::new(),
            moves: Vec::new(),
            pieces: Pieces::default(),
            folders: folders::Folders::default(),
            stays_in_folders: false,
            mounts: BTreeMap::new(),
            kept: Vec::new(),
            described: Vec::new(),
            protection: Protection::default(),
            protected_links: OnceCell::new(),
        })
    }
}

impl Change<'_> {
    /// Returns the engine that makes the change.
    pub fn engine(&mut self) -> &mut Engine {
        self.engine
    }

    /// Returns the engine for reading.
    pub const fn engine_ref(&self) -> &Engine {
        self.engine
    }

    /// Returns the policy in force.
    pub fn policy(&self) -> &crate::engine::policy::Policy {
        self.engine.policy()
    }

    /// Returns the workspace of the change.
    pub fn workspace(&self) -> &Workspace {
        &self.engine.workspace
    }

    /// Returns the bytes of `path` with that SHA-256, if they are still available.
    pub fn bytes_seen(&self, path: &WorkspacePath, sha256: Sha256) -> Option<Vec<u8>> {
        self.engine.find_version(self.state.as_ref()?, path, sha256)
    }

    /// Returns the bytes of a file as the session was shown them, including from a shown copy.
    pub fn bytes_shown(&self, path: &WorkspacePath, sha256: Sha256) -> Option<Vec<u8>> {
        self.version_shown(self.state.as_ref()?, path, sha256)
    }

    /// Notes that the caller knows all of a file, though nothing was changed.
    pub fn note_seen(&mut self, current: &LockedFile) {
        self.note_shown(current, &[(1, crate::text::lines::count(&body_of(&current.bytes)))]);
    }

    /// Notes that an error showed the caller some lines of a file.
    pub fn note_shown(&mut self, current: &LockedFile, lines: &[(u64, u64)]) {
        if let Some(original) = &current.original {
            self.engine.mark_shown(current.place.path(), current.sha256, &original.stat, lines);
        }
    }

    /// Returns the session's read mark of a file.
    pub fn mark(&self, path: &WorkspacePath) -> Option<session::ReadRecord> {
        self.session.mark(path)
    }

    /// Plans new bytes for a file; returns their SHA-256.
    pub fn put(
        &mut self,
        seen: CheckedFile,
        bytes: impl Into<Buffer>,
        mode: Option<u32>,
        known: CallerKnowledge,
    ) -> Sha256 {
        let bytes: Buffer = bytes.into();
        self.warn_of_misfit(&seen.current, &bytes);
        self.plan(seen, None, bytes, |bytes, sha256| TargetState {
            bytes,
            sha256,
            mode,
            known,
            identity: None,
        })
    }

    /// Sets the lines that the last planned change replaces, if they are known for certain.
    pub fn note_replaced(&mut self, replaced: Option<Vec<ReplacedLines>>) {
        if let Some(file) = self.files.last_mut() {
            file.replaced = replaced;
        }
    }

    /// Plans to restore `version` of a file, perhaps with other bytes.
    pub fn put_version(&mut self, seen: CheckedFile, bytes: Vec<u8>, version: &Version) {
        let (mode, identity) = (Some(version.mode), version.identity.clone());
        let known = CallerKnowledge::UnchangedLines;
        self.plan(seen, None, bytes, |bytes, sha256| TargetState { bytes, sha256, mode, known, identity });
    }

    /// Plans the result of a command for a file, whose new bytes the caller has not seen.
    pub fn put_unread(
        &mut self,
        seen: CheckedFile,
        bytes: impl Into<Buffer>,
        mode: u32,
        identity: Option<Identity>,
    ) -> Sha256 {
        let (mode, known) = (Some(mode), CallerKnowledge::Nothing);
        self.plan(seen, None, bytes, |bytes, sha256| TargetState { bytes, sha256, mode, known, identity })
    }

    /// Plans to rename `source` to `target`, perhaps with other bytes; returns their SHA-256. The read mark moves too, as
    /// far as `known` says.
    ///
    /// # Errors
    /// Returns the OS error, or `not_found` if there is no source.
    pub fn rename(
        &mut self,
        source: CheckedFile,
        target: CheckedFile,
        bytes: Vec<u8>,
        mode: Option<u32>,
        known: CallerKnowledge,
    ) -> Result<Sha256, Error> {
        let current = &source.current;
        let Some(original) = &current.original else {
            return Err(self.engine.workspace.not_found(&current.place));
        };
        let origin = RenameSource {
            path: current.place.path().clone(),
            original: original.clone(),
            bytes: Arc::clone(&current.bytes),
            sha256: current.sha256,
        };
        self.remove(source);
        let after = |bytes, sha256| TargetState { bytes, sha256, mode, known, identity: None };
        Ok(self.plan(target, Some(origin), bytes, after))
    }

    /// Plans the target state of a file; returns the SHA-256 of its new bytes.
    fn plan(
        &mut self,
        seen: CheckedFile,
        origin: Option<RenameSource>,
        bytes: impl Into<Buffer>,
        after: impl FnOnce(Arc<Buffer>, Sha256) -> TargetState,
    ) -> Sha256 {
        let bytes = Arc::new(bytes.into());
        let policy = self.engine.policy();
        if !self.dry_run && policy.has_snapshots() && bytes.len() as u64 <= policy.snapshot_file_bytes() {
            self.blobs.begin(&bytes, true);
            self.blobs.begin(&seen.current.shared_bytes(), false);
        }
        let sha256 = Sha256::of(&bytes);
        self.files.push(FilePlan {
            seen,
            after: Some(after(bytes, sha256)),
            origin,
            in_place: false,
            replaced: None,
        });
        sha256
    }

    /// Sets the changes of the session that this one undoes or redoes.
    pub fn set_reverts(&mut self, reverts: Vec<u64>) {
        self.entry.reverts = reverts;
    }

    /// Plans other permission bits for a folder that stays, under its path after all moves. A folder that locks out its
    /// owner is also listed if its bits do not change, so that it is opened up meanwhile.
    pub fn set_folder_mode(&mut self, path: WorkspacePath, before: u32, after: u32) {
        if before != after || is_closed(before) {
            self.entry.modes.push(FolderMode { path, before, after });
        }
    }

    /// Sets the earlier changes that this one takes back, though later ones followed.
    pub fn set_takes_back(&mut self, taken: journal::RevertedChanges) {
        self.entry.takes_back = Some(taken);
    }

    /// Notes that a file keeps changes that others made.
    pub fn set_merged(&mut self, path: WorkspacePath) {
        self.entry.merged.push(path);
    }

    /// Notes a file that others have left as this undo or redo would.
    pub fn note_unchanged_replay(
        &mut self,
        path: WorkspacePath,
        before: Option<Version>,
        after: Option<Version>,
    ) {
        self.entry.found_done.push(FileEntry { path, before, after });
    }

    /// Backs up bytes that are in no file now, but may be needed again.
    pub fn keep(&mut self, bytes: Vec<u8>) {
        self.kept.push(bytes);
    }

    /// Adds the description of a new trash entry, with the totals of its content.
    pub fn describe(&mut self, mut entry: TrashEntry, sum: SizeSum) {
        (entry.files, entry.bytes, entry.digest) = (sum.files, sum.bytes, sum.digest);
        self.described.push((entry, sum.looks));
    }

    /// Notes a file that an undo cannot restore.
    pub fn note_lost(&mut self, path: &WorkspacePath) {
        self.entry.lost_total += 1;
        if self.entry.lost.len() < LOST_NAMED_MAX {
            self.entry.lost.push(path.clone());
        }
    }

    /// Returns the id of its journal entry.
    pub fn id(&self) -> &str {
        &self.entry.id
    }

    /// Returns the location of a path from the root, which may lie in the state.
    fn location(&self, path: &WorkspacePath) -> Location {
        Location::of(path, &self.state_path)
    }

    /// Returns the present path of the entry that will be at `path` once everything has moved.
    fn path_before_moves(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        self.pieces.source_of(path)
    }

    /// Returns the files that this change removes.
    fn removed_paths(&self) -> BTreeSet<WorkspacePath> {
        let removed = self.files.iter().filter(|file| file.after.is_none());
        removed.map(|file| file.seen.current.place.path().clone()).collect()
    }

    /// Combines a removal and a new file at one path into a change of that file.
    fn join_names(&mut self) {
        // A file removed from a folder that moves away is at another path than a new file there.
        let stays = |path: &WorkspacePath| self.pieces.source_of(path).as_ref() == Some(path);
        let put: BTreeSet<WorkspacePath> = self
            .files
            .iter()
            .filter(|file| file.after.is_some())
            .map(|file| file.seen.current.place.path().clone())
            .filter(stays)
            .collect();
        let (old, mut files): (Vec<FilePlan>, Vec<FilePlan>) = std::mem::take(&mut self.files)
            .into_iter()
            .partition(|file| file.after.is_none() && put.contains(file.seen.current.place.path()));
        let mut old: BTreeMap<WorkspacePath, CheckedFile> =
            old.into_iter().map(|file| (file.seen.current.place.path().clone(), file.seen)).collect();
        if !old.is_empty() {
            for file in files.iter_mut().filter(|file| file.after.is_some()) {
                if let Some(seen) = old.remove(file.seen.current.place.path()) {
                    file.seen = seen;
                }
            }
        }
        self.files = files;
    }

    /// Returns the state; `None` in a dry run of a workspace without state.
    pub fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    /// Plans to remove a file.
    pub fn remove(&mut self, seen: CheckedFile) {
        self.files.push(FilePlan { seen, after: None, origin: None, in_place: false, replaced: None });
    }
}
