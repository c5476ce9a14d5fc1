//! A change, whole or not at all.
//!
//! ```text
//! lock -> recover what a dead call left open -> resolve -> gate -> (the tool computes)
//!      -> back up, write aside, journal; sync -> rename; sync -> mark, history, snapshot
//! ```
//! Until the journal entry is in force nothing is visible; from then on the change is completed,
//! or rolled back whole, by this call or by the next one.

mod commit;
pub mod identity;
pub mod journal;
mod known;
mod marks;
pub mod moves;
pub mod recover;
pub mod replay;
pub mod stage;
mod sync;

use std::collections::BTreeSet;

use rustix::fs::{Access, AtFlags};

use super::Engine;
use super::fs;
use super::open_files::OpenFiles;
use super::path::WorkspacePath;
use super::policy::Gate;
use super::policy::settings::Key;
use super::resolve::Place;
use super::session::{self, SessionState, seconds_now};
use super::state::{Lock, State, unique_name};
use super::trash::TrashEntry;
use super::workspace::Workspace;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use identity::Identity;
use journal::{Entry, FolderMode, Version};
use replay::Piece;
use stage::Original;

/// The largest file that the policy may let be changed, in bytes: recovery reads no larger ones.
pub const FILE_BYTES_MAX: u64 = 4 << 30;
/// The longest path of a new file, in bytes: beyond it no other program could open the file by its
/// name (`PATH_MAX` of Linux, less the NUL).
const PATH_BYTES_MAX: usize = 4095;
/// The lock that every change holds.
const LOCK: &str = "lock";
/// Changes of the session that are looked at for the same request.
const REPEATS_LOOKED_AT: u64 = 20;
/// Size of the diff in a `stale_file`, in bytes.
const STALE_DIFF_BYTES: usize = 2000;

/// What a tool is about to do to a file, for the gate's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Change a part of it.
    Edit,
    /// Replace all of it.
    Overwrite,
}

impl Intent {
    /// The verb in `refusing to … PATH: Read it first`.
    const fn verb(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Overwrite => "overwrite",
        }
    }
}

/// What the caller knows of the new bytes once the change is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// All of them: it gave them.
    Everything,
    /// The changed lines, and what it had been shown of the others.
    ChangedLines,
    /// The changed lines, and what it had been shown of those bytes, which others have changed since.
    ChangedSince(Vec<u8>),
}

/// A file as it stands under the lock.
pub struct Current {
    /// Where it is.
    place: Place,
    /// Which file it is; `None` where there is none.
    original: Option<Original>,
    /// Its bytes; none where there is no file.
    bytes: Vec<u8>,
    /// Their SHA-256.
    sha256: Sha256,
}

impl Current {
    /// Where it is.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether there is a file.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.original.is_some()
    }

    /// Its bytes; none where there is no file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// SHA-256 of its bytes.
    #[must_use]
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }

    /// Its permission bits, or the type bits of a symlink; `None` where there is no file.
    #[must_use]
    pub fn mode(&self) -> Option<u32> {
        self.original.as_ref().map(|original| fs::recorded_mode(&original.stat))
    }

    /// Whether it is a symlink that was looked at itself; its bytes are its target then.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.mode().is_some_and(fs::is_symlink_mode)
    }

    /// Lets a tool go on that needs no proof, because it overwrites nothing.
    #[must_use]
    pub fn without_proof(self) -> Seen {
        Seen { current: self, proved: false }
    }
}

/// A file that may be changed: it was checked, or needs no check.
pub struct Seen {
    /// The file.
    current: Current,
    /// Whether the caller proved to have seen its bytes.
    proved: bool,
}

impl Seen {
    /// The file.
    #[must_use]
    pub fn current(&self) -> &Current {
        &self.current
    }
}

/// A file with what it is to become.
struct Planned {
    /// The file as it stands.
    seen: Seen,
    /// Its new bytes; `None` where it is deleted.
    after: Option<After>,
    /// The file that it was before it got this name.
    origin: Option<Origin>,
}

/// The file whose identity and place in the caller's memory a renamed one takes over.
struct Origin {
    /// Where it was.
    path: WorkspacePath,
    /// Which file it is.
    original: Original,
    /// Its bytes.
    bytes: Vec<u8>,
    /// Their SHA-256.
    sha256: Sha256,
}

/// What a file is to become.
struct After {
    /// Its bytes.
    bytes: Vec<u8>,
    /// Their SHA-256.
    sha256: Sha256,
    /// Its permission bits, where they change; or the type bits of a symlink.
    mode: Option<u32>,
    /// What the caller knows of it.
    known: Known,
    /// Owner and attributes, where it comes back and no file has them any more.
    identity: Option<Identity>,
}

/// A change in progress; it holds the workspace's lock until it is dropped.
pub struct Change<'e> {
    /// The engine that makes it.
    engine: &'e mut Engine,
    /// The state; `None` in a dry run of a workspace that has none.
    state: Option<State>,
    /// Held unless this is a dry run.
    _lock: Option<Lock>,
    /// Room for the files that the change holds open.
    _open_files: OpenFiles,
    /// Whether nothing is to be changed.
    dry_run: bool,
    /// The session as it was when the lock was taken.
    session: SessionState,
    /// The journal entry to be.
    entry: Entry,
    /// The files changed so far.
    files: Vec<Planned>,
    /// What the moves of the change look like to the snapshot.
    moved: Vec<moves::Moved>,
    /// Other bytes to back up.
    kept: Vec<Vec<u8>>,
    /// What it moves to the trash.
    described: Vec<TrashEntry>,
}

/// The state under the lock that every change holds.
pub struct Locked {
    /// The state.
    pub state: State,
    /// Free as soon as this is dropped.
    lock: Lock,
}

impl Engine {
    /// Takes the lock that every change holds, and first finishes what a dead call left.
    ///
    /// # Errors
    /// `lock_timeout`, or the system's where the state cannot be written.
    pub fn lock(&mut self) -> Result<Locked, Error> {
        let state = State::open(&self.workspace)?;
        let lock = state.lock(state.fd(), LOCK)?;
        recover::recover(self, &state)?;
        Ok(Locked { state, lock })
    }

    /// Begins a change by the tool `tool`: takes the lock, and first finishes what a dead call left.
    ///
    /// A dry run takes no lock and changes nothing.
    ///
    /// # Errors
    /// `lock_timeout`, or the system's where the state cannot be written.
    pub fn begin(&mut self, tool: &str, dry_run: bool) -> Result<Change<'_>, Error> {
        self.set_dry_run(dry_run);
        let (state, lock) = if dry_run {
            (State::find(&self.workspace)?, None)
        } else {
            let Locked { state, lock } = self.lock()?;
            (Some(state), Some(lock))
        };
        let session = match &state {
            Some(state) => {
                let (session, warning) = session::load(state, self.session())?;
                self.warn_if(warning);
                session
            }
            None => SessionState::default(),
        };
        let id = unique_name("change");
        let last = match &state {
            // A session file that was damaged no longer counts, and no change may take another's place.
            Some(state) if session.seq == 0 => journal::history(state, self.session().as_str())?.pop(),
            _ => None,
        };
        let seq = last.unwrap_or(session.seq) + 1;
        let entry = Entry::new(id, self.session().as_str(), tool, seq, seconds_now());
        Ok(Change {
            engine: self,
            state,
            _lock: lock,
            _open_files: OpenFiles::as_many_as_allowed(),
            dry_run,
            session,
            entry,
            files: Vec::new(),
            moved: Vec::new(),
            kept: Vec::new(),
            described: Vec::new(),
        })
    }
}

impl Change<'_> {
    /// The engine that makes the change.
    #[must_use]
    pub fn engine(&mut self) -> &mut Engine {
        self.engine
    }

    /// The workspace that it is made in.
    #[must_use]
    pub fn workspace(&self) -> &Workspace {
        &self.engine.workspace
    }

    /// Looks at the file at `path`, or at the place where there is none yet.
    ///
    /// # Errors
    /// `outside_workspace`, `protected_path`, `is_a_directory`, `not_a_regular_file`,
    /// `permission_denied`, `too_large` above 512 MiB or what the policy says, or the system's.
    pub fn look_at(&self, path: &std::path::Path) -> Result<Current, Error> {
        self.look_at_place(self.engine.workspace.resolve(path)?)
    }

    /// Looks at a file in a place that was just resolved.
    ///
    /// # Errors
    /// As [`Self::look_at`].
    pub fn look_at_place(&self, place: Place) -> Result<Current, Error> {
        self.must_be_writable(&place)?;
        if place.stat().is_none() {
            let length = place.path().as_bytes().len();
            if length > PATH_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "path is {length} bytes long; a new file's may have {PATH_BYTES_MAX}"
                ))
                .detail("field", "path"));
            }
            let sha256 = Sha256::of(b"");
            return Ok(Current { place, original: None, bytes: Vec::new(), sha256 });
        }
        let (file, stat) = self.engine.workspace.open_file(&place)?;
        self.must_be_allowed(&place)?;
        self.read_all(place, file, stat)
    }

    /// Looks at the file or symlink of that canonical path, or at the place where there is none. A
    /// file or symlink on the way counts as nothing there: the change fails whole where it does not
    /// remove it.
    ///
    /// # Errors
    /// `protected_path`, or as [`Self::look_at`].
    pub fn look_beneath(&self, path: &WorkspacePath) -> Result<Current, Error> {
        let absent = self.nothing_at(path)?;
        let place = self.engine.workspace.place_of(path)?;
        match place.stat() {
            None => return Ok(absent),
            Some(stat) if fs::is_symlink(stat) => return self.read_link(place),
            Some(_) => {}
        }
        let (file, stat) = match self.engine.workspace.open_regular(path, absent.place.shown()) {
            Ok(opened) => opened,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(absent);
            }
            Err(error) => return Err(error),
        };
        self.must_be_allowed(&place)?;
        self.read_all(place, file, stat)
    }

    /// A place at which nothing will stand, whatever does now.
    ///
    /// # Errors
    /// `protected_path`.
    pub fn nothing_at(&self, path: &WorkspacePath) -> Result<Current, Error> {
        let place = Place::at(path.clone(), self.engine.workspace.shown(path), None);
        // What was deleted may change in the trash: an undo can go past the deletion.
        if !path.is_within(&super::trash::folder()) {
            self.must_be_writable(&place)?;
        }
        Ok(Current { place, original: None, bytes: Vec::new(), sha256: Sha256::of(b"") })
    }

    /// Reads the whole of an opened file.
    fn read_all(&self, place: Place, file: std::fs::File, stat: rustix::fs::Stat) -> Result<Current, Error> {
        let bytes = fs::read_to_end(file, fs::size_of(&stat), self.file_bytes_max())
            .map_err(|source| Error::io("read", place.shown(), source))?;
        let sha256 = Sha256::of(&bytes);
        let original = Original { path: place.path().clone(), stat };
        Ok(Current { place, original: Some(original), bytes, sha256 })
    }

    /// Looks at the file at `path` without following it: of a symlink, at itself.
    ///
    /// # Errors
    /// As [`Self::look_at`].
    pub fn look_at_itself(&self, path: &std::path::Path) -> Result<Current, Error> {
        let place = self.engine.workspace.resolve_entry(path)?;
        if place.stat().is_some_and(fs::is_symlink) { self.look_at_link(place) } else { self.look_at(path) }
    }

    /// Looks at a symlink itself.
    fn look_at_link(&self, place: Place) -> Result<Current, Error> {
        self.must_be_writable(&place)?;
        self.read_link(place)
    }

    /// Reads a symlink's target.
    fn read_link(&self, place: Place) -> Result<Current, Error> {
        let io = |errno| Error::io("read", place.shown(), errno);
        let link = fs::open_beneath(self.engine.workspace.root_fd(), place.path(), fs::LOOK).map_err(io)?;
        let stat = rustix::fs::fstat(&link).map_err(io)?;
        let bytes = fs::target_of(&link).map_err(io)?;
        let sha256 = Sha256::of(&bytes);
        let original = Original { path: place.path().clone(), stat };
        Ok(Current { place, original: Some(original), bytes, sha256 })
    }

    /// Looks at whatever stands at `path` without following it, to move it whole.
    ///
    /// # Errors
    /// `outside_workspace`, `protected_path`, or the system's.
    pub fn look_at_entry(&self, path: &std::path::Path) -> Result<Place, Error> {
        let place = self.engine.workspace.resolve_entry(path)?;
        self.must_be_writable(&place)?;
        if place.path().is_root() {
            return Err(Error::new(ErrorKind::ProtectedPath, "the workspace root stays where it is")
                .at(place.shown()));
        }
        Ok(place)
    }

    /// Refuses a place that no tool writes, or that the policy protects.
    fn must_be_writable(&self, place: &Place) -> Result<(), Error> {
        place.must_be_writable()?;
        self.must_be_unprotected(place.path(), place.shown())
    }

    /// Refuses a path that the policy protects.
    fn must_be_unprotected(&self, path: &WorkspacePath, shown: &str) -> Result<(), Error> {
        match self.engine.policy().protects(&self.engine.workspace, path) {
            None => Ok(()),
            Some(why) => Err(Error::new(ErrorKind::ProtectedPath, format!("{shown} is protected: {why}"))
                .at(shown)
                .suggest("Leave it as it is, and tell the user what you would change there.")),
        }
    }

    /// The largest file that is changed, in bytes.
    fn file_bytes_max(&self) -> u64 {
        self.engine.policy().number(Key::FileBytes).min(FILE_BYTES_MAX)
    }

    /// SHA-256 of the file at a place; `None` for anything else.
    ///
    /// # Errors
    /// As for reading it.
    pub fn sha256_at(&self, place: &Place) -> Result<Option<Sha256>, Error> {
        if !place.stat().is_some_and(fs::is_regular) {
            return Ok(None);
        }
        let (file, stat) = self.engine.workspace.open_regular(place.path(), place.shown())?;
        let bytes = fs::read_to_end(file, fs::size_of(&stat), self.file_bytes_max())
            .map_err(|source| Error::io("read", place.shown(), source))?;
        Ok(Some(Sha256::of(&bytes)))
    }

    /// Checks a SHA-256 that the caller gave for what it is about to move.
    ///
    /// # Errors
    /// `stale_file`, or `invalid_request` for anything but a file.
    pub fn must_have_sha256(&self, place: &Place, expected: Option<Sha256>) -> Result<(), Error> {
        let Some(expected) = expected else {
            return Ok(());
        };
        match self.sha256_at(place)? {
            Some(actual) if actual == expected => Ok(()),
            Some(actual) => Err(Error::new(
                ErrorKind::StaleFile,
                format!("{} has changed since it was read", place.shown()),
            )
            .at(place.shown())
            .detail("expected_sha256", expected.to_hex())
            .detail("actual_sha256", actual.to_hex())),
            None => Err(Error::invalid(format!(
                "expected_sha256 is that of a file, and {} is none",
                place.shown()
            ))
            .at(place.shown())
            .detail("field", "expected_sha256")),
        }
    }

    /// Refuses a file whose permissions do not let this user write it: a rename would go past them.
    fn must_be_allowed(&self, place: &Place) -> Result<(), Error> {
        let allowed = rustix::fs::accessat(
            self.engine.workspace.root_fd(),
            place.path().as_path(),
            Access::WRITE_OK,
            AtFlags::EACCESS,
        );
        allowed.map_err(|errno| {
            Error::io("write", place.shown(), errno)
                .suggest(format!("Make it writable first (chmod u+w {}), or leave it alone.", place.shown()))
        })
    }

    /// The gate: lets the caller go on only where it has seen the bytes that stand there.
    ///
    /// `needed` tells, from the file's bytes, the lines whose reading would do. The policy may let
    /// the caller go on without proof; a SHA-256 that it gives is checked all the same.
    ///
    /// # Errors
    /// `not_read` or `stale_file`.
    pub fn prove(
        &mut self,
        current: Current,
        expected: Option<Sha256>,
        intent: Intent,
        needed: impl FnOnce(&[u8]) -> Option<(u64, u64)>,
    ) -> Result<Seen, Error> {
        let shown = current.place.shown();
        if let Some(expected) = expected {
            if current.exists() && current.sha256 == expected {
                return Ok(Seen { current, proved: true });
            }
            return Err(self.stale(&current, expected));
        }
        if !current.exists() {
            return Ok(Seen { current, proved: true });
        }
        let mark = self.session.mark(current.place.path()).map(|mark| mark.sha256);
        if mark.is_some_and(|seen| seen == current.sha256) {
            return Ok(Seen { current, proved: true });
        }
        if self.gate() != Gate::Strict {
            self.let_through(shown, mark.is_some(), intent);
            return Ok(current.without_proof());
        }
        if let Some(seen) = mark {
            return Err(self.stale(&current, seen));
        }
        let message = format!("refusing to {} {shown}: Read it first", intent.verb());
        let (what, command) = smallest_read(shown, &current.bytes, needed(&current.bytes));
        let suggestion = format!("Read {what} ({command}), then repeat the call.");
        Err(Error::new(ErrorKind::NotRead, message).at(shown).suggest(suggestion).command(command))
    }

    /// What the policy makes of a change without proof.
    #[must_use]
    pub fn gate(&self) -> Gate {
        self.engine.policy().gate()
    }

    /// Warns, where the policy wants that, of what the gate would have refused.
    fn let_through(&mut self, shown: &str, is_stale: bool, intent: Intent) {
        if self.gate() == Gate::Warn {
            let what =
                if is_stale { "has changed since it was read" } else { "was not read in this session" };
            let source = self.engine.policy().source_of(Key::Gate);
            let verb = intent.verb();
            self.engine.warn(format!(
                "{shown} {what}; the policy lets you {verb} it all the same (gate = \"warn\", {source})"
            ));
        }
    }

    /// The refusal of a file whose bytes are not those that the caller has seen.
    #[must_use]
    pub fn stale(&self, current: &Current, expected: Sha256) -> Error {
        let shown = current.place.shown();
        let message = if current.exists() {
            format!("{shown} has changed since it was read")
        } else {
            format!("{shown} no longer exists, but the bytes seen were named")
        };
        let actual = current.exists().then(|| current.sha256.to_hex());
        let mut error = Error::new(ErrorKind::StaleFile, message)
            .at(shown)
            .command(format!("lbx read {}", quoted(shown)))
            .detail("expected_sha256", expected.to_hex())
            .detail("actual_sha256", actual);
        if let Some(seen) = self.bytes_seen(current.place.path(), expected)
            && current.exists()
        {
            let diff = crate::text::diff::unified(
                &format!("{shown} (as read)"),
                &format!("{shown} (now)"),
                &seen,
                &current.bytes,
                STALE_DIFF_BYTES,
            );
            error = error.detail("diff", diff);
        }
        error
    }

    /// The bytes of `path` with that SHA-256, where they are still at hand.
    #[must_use]
    pub fn bytes_seen(&self, path: &WorkspacePath, sha256: Sha256) -> Option<Vec<u8>> {
        self.engine.find_version(self.state.as_ref()?, path, sha256)
    }

    /// Whether the session has made this very request before, so recently that every file still is
    /// as it left it. The digest is kept with the change, for the next time.
    ///
    /// # Errors
    /// The system's, where the history cannot be read.
    pub fn is_repeated(&mut self, request: Sha256) -> Result<bool, Error> {
        let request = self.digest_here(request);
        self.entry.request = Some(request);
        let Some(state) = &self.state else {
            return Ok(false);
        };
        let last = self.session.seq;
        for seq in (last.saturating_sub(REPEATS_LOOKED_AT) + 1..=last).rev() {
            let Some(entry) = journal::done_entry(state, self.engine.session().as_str(), seq)? else {
                continue;
            };
            if entry.request == Some(request) {
                return Ok(entry
                    .files
                    .iter()
                    .all(|file| recover::has_new_side(&self.engine.workspace, file)));
            }
        }
        Ok(false)
    }

    /// The digest of a request made in this folder: from another one its paths name other files.
    fn digest_here(&self, request: Sha256) -> Sha256 {
        let base = self.engine.workspace.base();
        if base.is_root() {
            return request;
        }
        Sha256::of(&[request.to_string().as_bytes(), b" ", base.as_bytes()].concat())
    }

    /// Notes that the caller knows all of a file, though nothing was changed.
    pub fn note_seen(&mut self, current: &Current) {
        if let Some(original) = &current.original {
            let lines = [(1, crate::text::lines::count(&current.bytes))];
            self.engine.mark_shown(current.place.path(), current.sha256, &original.stat, &lines);
        }
    }

    /// What the session knows of a file.
    #[must_use]
    pub fn mark(&self, path: &WorkspacePath) -> Option<&session::Mark> {
        self.session.mark(path)
    }

    /// Plans new bytes for a file; answers their SHA-256.
    pub fn put(&mut self, seen: Seen, bytes: Vec<u8>, mode: Option<u32>, known: Known) -> Sha256 {
        let sha256 = Sha256::of(&bytes);
        let after = After { bytes, sha256, mode, known, identity: None };
        self.files.push(Planned { seen, after: Some(after), origin: None });
        sha256
    }

    /// Plans that a file becomes what it was in `version`, perhaps with other bytes.
    pub fn put_version(&mut self, seen: Seen, bytes: Vec<u8>, version: &Version) {
        let (sha256, known) = (Sha256::of(&bytes), Known::ChangedLines);
        let (mode, identity) = (Some(version.mode), version.identity.clone());
        let after = After { bytes, sha256, mode, known, identity };
        self.files.push(Planned { seen, after: Some(after), origin: None });
    }

    /// Plans another name for `source`, that of `target`, and perhaps other bytes; answers their
    /// SHA-256. The read mark moves along.
    ///
    /// # Errors
    /// The system's, and `not_found` where there is no source.
    pub fn rename(
        &mut self,
        source: Seen,
        target: Seen,
        bytes: Vec<u8>,
        mode: Option<u32>,
    ) -> Result<Sha256, Error> {
        let current = &source.current;
        let Some(original) = &current.original else {
            return Err(self.engine.workspace.not_found(&current.place));
        };
        let origin = Origin {
            path: current.place.path().clone(),
            original: Original { path: original.path.clone(), stat: original.stat },
            bytes: current.bytes.clone(),
            sha256: current.sha256,
        };
        let sha256 = Sha256::of(&bytes);
        let after = After { bytes, sha256, mode, known: Known::ChangedLines, identity: None };
        self.remove(source);
        self.files.push(Planned { seen: target, after: Some(after), origin: Some(origin) });
        Ok(sha256)
    }

    /// Says which changes of the session this one takes back or does again.
    pub fn set_reverts(&mut self, reverts: Vec<u64>) {
        self.entry.reverts = reverts;
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

    /// Says which folders are to be there in the end, outermost first, and with which permission
    /// bits, where a new folder would have others.
    pub fn set_folders(&mut self, folders: Vec<WorkspacePath>, modes: Vec<FolderMode>) {
        let stays = |folder: &WorkspacePath| {
            self.is_folder(folder)
                && self.standing(folder).is_some_and(|real| !self.entry.cleared.contains(&real))
        };
        self.entry.folders = folders.into_iter().filter(|folder| !stays(folder)).collect();
        self.entry.modes_after =
            modes.into_iter().filter(|folder| self.entry.folders.contains(&folder.path)).collect();
    }

    /// Says which folders go before something else takes their names, innermost first.
    pub fn set_cleared(&mut self, folders: Vec<WorkspacePath>) {
        self.entry.cleared = folders;
    }

    /// Says which folders go in the end where they are empty, innermost first.
    pub fn set_vacated(&mut self, folders: Vec<WorkspacePath>) {
        // One that is gone already must not come back when the change is rolled back.
        self.entry.vacated = folders.into_iter().filter(|folder| self.is_folder(folder)).collect();
    }

    /// Whether a folder stands at a path once everything has moved.
    fn is_folder(&self, folder: &WorkspacePath) -> bool {
        let flags = fs::LOOK | rustix::fs::OFlags::DIRECTORY;
        self.standing(folder)
            .is_some_and(|real| fs::open_beneath(self.engine.workspace.root_fd(), &real, flags).is_ok())
    }

    /// Where that stands which is to stand at `path` once everything has moved.
    fn standing(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        if self.entry.moves.is_empty() {
            return Some(path.clone());
        }
        let piece = |moved: &journal::MoveEntry| Piece { real: moved.from.clone(), at: moved.to.clone() };
        let pieces: Vec<Piece> = self.entry.moves.iter().map(piece).collect();
        replay::standing(&pieces, path)
    }

    /// The files that this change removes.
    fn removed_paths(&self) -> BTreeSet<WorkspacePath> {
        let removed = self.files.iter().filter(|file| file.after.is_none());
        removed.map(|file| file.seen.current.place.path().clone()).collect()
    }

    /// Joins what is removed and what is put at one place: there it is one file that changes.
    fn join_names(&mut self) {
        let removed = self.removed_paths();
        // What is removed from a folder that moves away stands elsewhere than what is put there.
        let is_both = |file: &Planned| {
            let path = file.seen.current.place.path();
            removed.contains(path) && self.standing(path).as_ref() == Some(path)
        };
        let both: Vec<WorkspacePath> = self
            .files
            .iter()
            .filter(|file| file.after.is_some() && is_both(file))
            .map(|file| file.seen.current.place.path().clone())
            .collect();
        for path in both {
            let is_it = |file: &Planned| *file.seen.current.place.path() == path;
            let old = self.files.iter().position(|file| is_it(file) && file.after.is_none());
            let old = old.map(|at| self.files.remove(at));
            if let Some(old) = old
                && let Some(file) = self.files.iter_mut().find(|file| is_it(file))
            {
                file.seen = old.seen;
            }
        }
    }

    /// Adds folders that go before something else takes the name of one of them, innermost first.
    pub fn add_cleared(&mut self, folders: Vec<WorkspacePath>) {
        self.entry.cleared.extend(folders);
    }

    /// Adds folders that go in the end where they are empty, innermost first.
    pub fn add_vacated(&mut self, folders: Vec<WorkspacePath>) {
        let cleared: BTreeSet<&WorkspacePath> = self.entry.cleared.iter().collect();
        self.entry.vacated.extend(folders.into_iter().filter(|folder| !cleared.contains(folder)));
    }

    /// The state, which a dry run of a workspace that has none lacks.
    #[must_use]
    pub fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    /// Plans the end of a file.
    pub fn remove(&mut self, seen: Seen) {
        self.files.push(Planned { seen, after: None, origin: None });
    }

    /// The deepest folder on the way to `path` that exists, and the missing ones below it,
    /// outermost first. A file that this change removes counts as missing.
    ///
    /// # Errors
    /// `not_a_directory` where a file is in the way, or the system's.
    fn folders_to(
        &self,
        path: &WorkspacePath,
        removed: &BTreeSet<WorkspacePath>,
    ) -> Result<(WorkspacePath, Vec<WorkspacePath>), Error> {
        let mut missing = Vec::new();
        let mut folder = path.parent().unwrap_or_default();
        loop {
            let real = self.standing(&folder);
            let stays = |real: &WorkspacePath| !removed.contains(real) && !self.entry.cleared.contains(real);
            if let Some(real) = real.filter(stays) {
                match fs::open_beneath(
                    self.engine.workspace.root_fd(),
                    &real,
                    fs::LOOK | rustix::fs::OFlags::DIRECTORY,
                ) {
                    // Nothing can wait in a folder that moves away meanwhile.
                    Ok(_) if real != folder => return Ok((WorkspacePath::root(), reversed(missing))),
                    Ok(_) => break,
                    Err(rustix::io::Errno::NOENT) => {}
                    // Where a file or symlink stood that this change removes.
                    Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP)
                        if removed.iter().any(|file| real.is_within(file)) => {}
                    Err(errno) => {
                        return Err(Error::io(
                            "open the folder",
                            self.engine.workspace.shown(&folder),
                            errno,
                        ));
                    }
                }
            }
            missing.push(folder.clone());
            folder = folder.parent().unwrap_or_default();
        }
        Ok((folder, reversed(missing)))
    }
}

/// The same, from the other end.
fn reversed(mut paths: Vec<WorkspacePath>) -> Vec<WorkspacePath> {
    paths.reverse();
    paths
}

/// The smallest read that would do, in words and as a command.
fn smallest_read(shown: &str, bytes: &[u8], needed: Option<(u64, u64)>) -> (String, String) {
    let path = quoted(shown);
    if crate::text::content::looks_binary(bytes) {
        return (shown.to_owned(), format!("lbx read {path} --binary base64 --max-bytes 0"));
    }
    match needed {
        Some((line, last)) if line == last => (
            format!("line {line} of {shown}"),
            format!("lbx read {path} --start-line {line} --end-line {line}"),
        ),
        Some((first, last)) => (
            format!("lines {first} to {last} of {shown}"),
            format!("lbx read {path} --start-line {first} --end-line {last}"),
        ),
        None => (shown.to_owned(), format!("lbx read {path}")),
    }
}

/// A path as a shell takes it.
#[must_use]
pub fn quoted(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:@%,".contains(&byte);
    if !path.is_empty() && path.bytes().all(is_plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}
