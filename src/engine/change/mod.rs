//! A change, whole or not at all.
//!
//! ```text
//! lock -> recover what a dead call left open -> resolve -> gate -> (the tool computes)
//!      -> back up, write aside, plan the steps, journal; sync -> take the steps; sync -> mark, history, snapshot
//! ```
//! Until the journal entry is in force nothing is visible; from then on the change is completed,
//! or rolled back whole, by this call or by the next one.

mod check;
pub(in crate::engine) mod commit;
pub mod executor;
pub mod external_changes;
mod finish;
mod folders;
pub mod gate;
pub mod moves;
mod open;
pub mod plan;
mod prepared;
pub mod record;
mod recover;
pub mod shown_lines;
pub mod staging;
mod trash;
pub mod without_rename;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plan::{After, Move, Origin, Planned};

use super::Engine;
use super::history::replay::Pieces;
use super::journal::steps::Location;
use super::journal::{FolderMode, JournalEntry, Version};
use super::policy::protected::ProtectedLinks;
use super::store::session::{self, ReplacedLines, SessionState};
use super::store::state::{Lock, STATE_FOLDER, State};
use super::store::trash::TrashEntry;
use super::workspace::Workspace;
use super::workspace::fs::{OpenFiles, is_closed};
use super::workspace::metadata::Identity;
use super::workspace::path::WorkspacePath;
use super::workspace::protect::Protection;
use super::workspace::resolve::must_be_a_path;
use crate::buffer::Buffer;
use crate::control::seconds_now;
use crate::engine::journal;
use crate::engine::store::lock::unique_name;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;

pub use open::{CheckedFile, Current};
pub use plan::CallerKnowledge;

/// A change in progress; it holds the workspace's lock until it is dropped.
pub struct Change<'e> {
    /// The engine that makes it.
    engine: &'e mut Engine,
    /// The state; `None` in a dry run of a workspace that has none.
    state: Option<State>,
    /// Held unless this is a dry run.
    _lock: Option<Lock>,
    /// Room for the files that the change holds open.
    open_files: RefCell<Option<OpenFiles>>,
    /// How many files it has read.
    files_read: Cell<usize>,
    /// True if nothing is to be changed.
    dry_run: bool,
    /// Path of the state folder, or where it would be, from the workspace root.
    state_path: WorkspacePath,
    /// The session as it was when the lock was taken.
    session: Arc<SessionState>,
    /// The journal entry to be.
    entry: JournalEntry,
    /// The files changed so far.
    files: Vec<Planned>,
    /// Its moves.
    moves: Vec<Move>,
    /// Its moves as names, to map a path to its place on disk.
    pieces: Pieces,
    /// The folders that it makes and removes.
    folders: folders::Folders,
    /// Other bytes to back up.
    kept: Vec<Vec<u8>>,
    /// Entries that it moves to the trash.
    described: Vec<TrashEntry>,
    /// Which paths belong to git or lbx.
    protection: Protection,
    /// Files and folders to which protected names lead, found when the first path is checked.
    protected_links: OnceCell<ProtectedLinks>,
}

/// The state under the lock that every change holds.
pub struct Locked {
    /// The state.
    pub state: State,
    /// Free as soon as this is dropped.
    lock: Lock,
}

/// Files without old bytes that the journal names.
const LOST_NAMED_MAX: usize = 100;
/// Tries to lock a state whose folder others remove or replace meanwhile, before inodes are doubted.
const LOCK_TRIES: usize = 20;
/// The nap between two tries after these.
const LOCK_NAP: Duration = Duration::from_millis(50);
/// How long the root must have been as it is for nobody to have replaced a folder in it.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// Opens the state and takes its lock, again where others remove or replace the state's folder meanwhile: a
/// lock in a folder that has lost its name excludes nobody.
///
/// The folder is known by its inode. Some file systems give the same folder another number at each look; there the
/// times of the root decide: whoever replaces a folder in it changes them. Where they are young, somebody may be
/// at it, and no lock is taken.
fn lock_in_place(workspace: &Workspace) -> Result<Locked, Error> {
    let asked = Instant::now();
    for tries in 0_usize.. {
        let state = State::open(workspace)?;
        let lock = state.lock_workspace();
        let is_doubted = tries >= LOCK_TRIES;
        if state.is_in_place(workspace) || (is_doubted && is_settled(workspace, SystemTime::now())) {
            return Ok(Locked { state, lock: lock? });
        }
        if is_doubted {
            if asked.elapsed() > workspace.lock_wait() {
                break;
            }
            drop(lock);
            std::thread::sleep(LOCK_NAP);
        }
    }
    Err(Error::new(ErrorKind::LockTimeout, format!("another program keeps replacing {STATE_FOLDER}")))
}

/// Returns true if nothing was added to the root, removed from it or replaced in it for a while before `now`.
fn is_settled(workspace: &Workspace, now: SystemTime) -> bool {
    let Ok(stat) = rustix::fs::fstat(workspace.root_fd()) else { return false };
    let changed = stat.st_mtime.max(stat.st_ctime);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let settled = now.saturating_sub(SETTLED_AFTER);
    u64::try_from(changed).unwrap_or(0) < settled.as_secs()
}

impl Engine {
    /// Takes the lock that every change holds, and first finishes what a dead call left.
    ///
    /// # Errors
    /// `lock_timeout`, or the system's where the state cannot be written.
    pub fn lock(&mut self) -> Result<Locked, Error> {
        let Locked { state, lock } = lock_in_place(&self.workspace)?;
        self.state_path = Some(state.path().clone());
        self.count_in(&state);
        recover::recover(self, &state)?;
        Ok(Locked { state, lock })
    }

    /// Settles what a dead call left, so that a call which only reads finds every change whole. It reads on
    /// where another call is at work, or the workspace cannot be written.
    pub fn settle(&mut self) {
        let Ok(Some(state)) = State::find(&self.workspace) else {
            return;
        };
        if journal::has_open_entries(&state)
            && let Ok(Some(_lock)) = state.try_lock_workspace()
            && let Err(error) = recover::recover(self, &state)
        {
            self.warn(format!(
                "an earlier call was killed or failed half-way and is not settled: {}",
                error.message()
            ));
        }
        self.count_in(&state);
        self.found = Some(state);
    }

    /// Begins a change by the tool `tool`: takes the lock, and first finishes what a dead call left.
    ///
    /// `named` holds all paths that the request names, each behind its field. They are checked before the
    /// lock is taken, so that no caller waits only to hear that its path is too long. A dry run takes no lock and
    /// changes nothing.
    ///
    /// # Errors
    /// `invalid_request` for a path that cannot be one, `lock_timeout`, or the system's where the
    /// state cannot be written.
    pub fn begin(&mut self, tool: &str, named: &[(&str, &Path)], dry_run: bool) -> Result<Change<'_>, Error> {
        named.iter().try_for_each(|(field, path)| must_be_a_path(path, field))?;
        self.set_dry_run(dry_run);
        let (state, lock) = if dry_run {
            self.settle();
            let found = self.found.take();
            (found.map_or_else(|| State::find(&self.workspace), |state| Ok(Some(state)))?, None)
        } else {
            let Locked { state, lock } = self.lock()?;
            (Some(state), Some(lock))
        };
        let session = match &state {
            Some(state) => {
                let load = if dry_run { session::look_at } else { session::load };
                let (session, warning) = load(state, self.session())?;
                self.warn_if(warning);
                session
            }
            None => Arc::default(),
        };
        self.session_state = Arc::clone(&session);
        let id = unique_name("change");
        let known = session.seq.max(session.after().map_or(0, |ended| ended.seq));
        let seq = match &state {
            Some(state) => journal::next_number(state, self.session().as_str(), known)?,
            None => known + 1,
        };
        let entry = JournalEntry::new(id, self.session().as_str(), tool, seq, seconds_now());
        let state_path = match &state {
            Some(state) => state.path().clone(),
            None => WorkspacePath::root().join(STATE_FOLDER.as_ref()),
        };
        Ok(Change {
            engine: self,
            state,
            state_path,
            _lock: lock,
            open_files: RefCell::default(),
            files_read: Cell::default(),
            dry_run,
            session,
            entry,
            files: Vec::new(),
            moves: Vec::new(),
            pieces: Pieces::default(),
            folders: folders::Folders::default(),
            kept: Vec::new(),
            described: Vec::new(),
            protection: Protection::default(),
            protected_links: OnceCell::new(),
        })
    }
}

impl Change<'_> {
    /// The engine that makes the change.
    #[must_use]
    pub fn engine(&mut self) -> &mut Engine {
        self.engine
    }

    /// Returns the engine for reading.
    #[must_use]
    pub const fn engine_ref(&self) -> &Engine {
        self.engine
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> &crate::engine::policy::Policy {
        self.engine.policy()
    }

    /// The workspace that it is made in.
    #[must_use]
    pub fn workspace(&self) -> &Workspace {
        &self.engine.workspace
    }

    /// The bytes of `path` with that SHA-256, where they are still available.
    #[must_use]
    pub fn bytes_seen(&self, path: &WorkspacePath, sha256: Sha256) -> Option<Vec<u8>> {
        self.engine.find_version(self.state.as_ref()?, path, sha256)
    }

    /// The bytes of a file as the session was shown them, where a copy of these has them too.
    #[must_use]
    pub fn bytes_shown(&self, path: &WorkspacePath, sha256: Sha256) -> Option<Vec<u8>> {
        self.version_shown(self.state.as_ref()?, path, sha256)
    }

    /// Notes that the caller knows all of a file, though nothing was changed.
    pub fn note_seen(&mut self, current: &Current) {
        if let Some(original) = &current.original {
            let lines = [(1, crate::text::lines::count(&shown_lines::body_of(&current.bytes)))];
            self.engine.mark_shown(current.place.path(), current.sha256, &original.stat, &lines);
        }
    }

    /// Notes that the caller was shown some lines of a file, in a refusal.
    pub fn note_shown(&mut self, current: &Current, lines: (u64, u64)) {
        if let Some(original) = &current.original {
            self.engine.mark_shown(current.place.path(), current.sha256, &original.stat, &[lines]);
        }
    }

    /// Returns the session's read mark of a file.
    #[must_use]
    pub fn mark(&self, path: &WorkspacePath) -> Option<&session::Mark> {
        self.session.mark(path)
    }

    /// Plans new bytes for a file; answers their SHA-256.
    pub fn put(
        &mut self,
        seen: CheckedFile,
        bytes: impl Into<Buffer>,
        mode: Option<u32>,
        known: CallerKnowledge,
    ) -> Sha256 {
        let bytes: Buffer = bytes.into();
        self.warn_of_misfit(&seen.current, &bytes);
        self.plan(seen, None, bytes, |bytes, sha256| After { bytes, sha256, mode, known, identity: None })
    }

    /// Says which lines the change that was planned last replaces, where that is known for certain.
    pub fn note_replaced(&mut self, replaced: Option<Vec<ReplacedLines>>) {
        if let Some(file) = self.files.last_mut() {
            file.replaced = replaced;
        }
    }

    /// Plans that a file becomes what it was in `version`, perhaps with other bytes.
    pub fn put_version(&mut self, seen: CheckedFile, bytes: Vec<u8>, version: &Version) {
        let (mode, identity) = (Some(version.mode), version.identity.clone());
        let known = CallerKnowledge::ChangedLines;
        self.plan(seen, None, bytes, |bytes, sha256| After { bytes, sha256, mode, known, identity });
    }

    /// Plans what a command made of a file, whose new bytes the caller has not seen.
    pub fn put_unseen(
        &mut self,
        seen: CheckedFile,
        bytes: impl Into<Buffer>,
        mode: u32,
        identity: Option<Identity>,
    ) -> Sha256 {
        let (mode, known) = (Some(mode), CallerKnowledge::Nothing);
        self.plan(seen, None, bytes, |bytes, sha256| After { bytes, sha256, mode, known, identity })
    }

    /// Plans another name for `source`, that of `target`, and perhaps other bytes; answers their
    /// SHA-256. The read mark moves along.
    ///
    /// # Errors
    /// The system's, and `not_found` where there is no source.
    pub fn rename(
        &mut self,
        source: CheckedFile,
        target: CheckedFile,
        bytes: Vec<u8>,
        mode: Option<u32>,
    ) -> Result<Sha256, Error> {
        let current = &source.current;
        let Some(original) = &current.original else {
            return Err(self.engine.workspace.not_found(&current.place));
        };
        let origin = Origin {
            path: current.place.path().clone(),
            original: original.clone(),
            bytes: Arc::clone(&current.bytes),
            sha256: current.sha256,
        };
        let known = CallerKnowledge::ChangedLines;
        self.remove(source);
        let after = |bytes, sha256| After { bytes, sha256, mode, known, identity: None };
        Ok(self.plan(target, Some(origin), bytes, after))
    }

    /// Plans what a file is to become, and answers the SHA-256 of its new bytes.
    fn plan(
        &mut self,
        seen: CheckedFile,
        origin: Option<Origin>,
        bytes: impl Into<Buffer>,
        after: impl FnOnce(Arc<Buffer>, Sha256) -> After,
    ) -> Sha256 {
        let bytes = Arc::new(bytes.into());
        let sha256 = Sha256::of(&bytes);
        self.files.push(Planned {
            seen,
            after: Some(after(bytes, sha256)),
            origin,
            in_place: false,
            replaced: None,
        });
        sha256
    }

    /// Says which changes of the session this one takes back or does again.
    pub fn set_reverts(&mut self, reverts: Vec<u64>) {
        self.entry.reverts = reverts;
    }

    /// Plans other permission bits for a folder that stays, under its name after all moves. One that forbids its
    /// owner to change names in it is noted with the same bits too, so that it permits that meanwhile.
    pub fn set_folder_mode(&mut self, path: WorkspacePath, before: u32, after: u32) {
        if before != after || is_closed(before) {
            self.entry.modes.push(FolderMode { path, before, after });
        }
    }

    /// Says what this change takes back of earlier ones, though others came after them.
    pub fn set_takes_back(&mut self, taken: journal::TakenBack) {
        self.entry.takes_back = Some(taken);
    }

    /// Notes that a file keeps what others changed in it.
    pub fn set_merged(&mut self, path: WorkspacePath) {
        self.entry.merged.push(path);
    }

    /// Has bytes backed up that are those of no file now, but may be wanted again.
    pub fn keep(&mut self, bytes: Vec<u8>) {
        self.kept.push(bytes);
    }

    /// Has something described in the trash, to which it moves.
    pub fn describe(&mut self, entry: TrashEntry) {
        self.described.push(entry);
    }

    /// Notes a file that an undo cannot restore.
    pub fn note_lost(&mut self, path: &WorkspacePath) {
        self.entry.lost_total += 1;
        if self.entry.lost.len() < LOST_NAMED_MAX {
            self.entry.lost.push(path.clone());
        }
    }

    /// Returns the id of its journal entry.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.entry.id
    }

    /// The location of a path from the root, which may lie in the state.
    fn location(&self, path: &WorkspacePath) -> Location {
        Location::of(path, &self.state_path)
    }

    /// Returns the present path of the entry that will be at `path` once everything has moved.
    fn standing(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        self.pieces.standing(path)
    }

    /// The files that this change removes.
    fn removed_paths(&self) -> BTreeSet<WorkspacePath> {
        let removed = self.files.iter().filter(|file| file.after.is_none());
        removed.map(|file| file.seen.current.place.path().clone()).collect()
    }

    /// Joins what is removed and what is put at one place: there it is one file that changes.
    fn join_names(&mut self) {
        // A file removed from a folder that moves away is at another path than a file put there.
        let stays = |path: &WorkspacePath| self.pieces.standing(path).as_ref() == Some(path);
        let put: BTreeSet<WorkspacePath> = self
            .files
            .iter()
            .filter(|file| file.after.is_some())
            .map(|file| file.seen.current.place.path().clone())
            .filter(stays)
            .collect();
        let (old, mut files): (Vec<Planned>, Vec<Planned>) = std::mem::take(&mut self.files)
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

    /// The state, which a dry run of a workspace that has none lacks.
    #[must_use]
    pub fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    /// Plans the end of a file.
    pub fn remove(&mut self, seen: CheckedFile) {
        self.files.push(Planned { seen, after: None, origin: None, in_place: false, replaced: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_was_changed_a_moment_ago_is_not_settled() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let changed = std::fs::metadata(folder.path()).unwrap().modified().unwrap();
        assert!(!is_settled(&workspace, changed));
        assert!(!is_settled(&workspace, changed + Duration::from_millis(500)));
        assert!(is_settled(&workspace, changed + Duration::from_secs(5)));
    }
}
