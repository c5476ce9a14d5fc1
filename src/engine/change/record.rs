//! Commits changes to the snapshot branch.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gix::objs::tree::EntryKind;

use crate::control::Control;
use crate::engine::Engine;
use crate::engine::history::account::ChangesAccount;
use crate::engine::history::client_calls::ClientCall;
use crate::engine::history::replay::Direction;
use crate::engine::journal::repack::{self, RepackAmount};
use crate::engine::journal::{
    self, APART, ChangeNumbers, JournalEntry, MissedSnapshot, NO_SNAPSHOT, Version, backup,
};
use crate::engine::policy::settings::Key;
use crate::engine::sandbox::running;
use crate::engine::snapshot::{
    BASELINE, CommitInfo, Damage, EXTERNAL, EarlierFile, FileChange, FileState, FolderChange, IgnoreQuery,
    IgnoreResult, KnownFile, Limits, PrecomputedBlob, PreparedSnapshot, RecordResult, RepairResult,
    RepositoryPaths, Scan, ScanBounds, SecretKnowledge, SessionPart, SkipReason, SkippedPath, SnapshotError,
    Store, TreeItem, Trees, UnchangedUndo, UnrecordedChanges, may_be_secret,
};
use crate::engine::store::audit;
use crate::engine::store::lock::unique_name;
use crate::engine::store::session::{self, ReadRecord, SEQ_MAX, SessionId, SessionState, WITHHELD_MAX};
use crate::engine::store::state::{STATE_FOLDER, State};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::survey::Survey;
use crate::engine::workspace::{fs, protect};
use crate::error::{Error, ErrorKind};
use crate::platform;
use crate::sha256::Sha256;
use crate::text::escaped::short_path;

/// Folder for files that a repair replaced, below the state folder.
pub const DAMAGED_FOLDER: &str = "damaged";
/// Owner's execute permission, which git keeps.
const OWNER_MAY_EXECUTE: u32 = 0o100;
/// Tools that may change thousands of ignored files: commands, and those that take them back.
const COMMAND_TOOLS: [&str; 4] = ["bash", "undo", "redo", "rewind"];
/// Most skipped paths that a warning names.
const LEFT_OUT_NAMED: usize = 3;
/// Longest time for a session's baseline; the change continues without it.
const BASELINE_TIME_MAX: Duration = Duration::from_secs(2);

/// A change that is applied.
pub struct AppliedChange<'a> {
    /// Journal entry.
    pub entry: &'a JournalEntry,
    /// Changed files.
    pub files: Vec<FileChange<'a>>,
    /// Folders that it moved, whose files are not in `files`.
    pub folders: Vec<FolderChange<'a>>,
    /// Blobs of large files that are computed already.
    pub blobs: &'a [PrecomputedBlob],
}

/// Commits a change to the snapshot branch, and notes the commit for the response.
///
/// # Errors
/// Returns `snapshot_failed` (applied) if the caller requires a snapshot; otherwise a failure is a warning.
pub fn record(engine: &mut Engine, record: &AppliedChange<'_>) -> Result<(), Error> {
    if !engine.policy().has_snapshots() {
        return if engine.require_snapshot {
            engine.snapshot_failed(&disabled_reason(engine))
        } else {
            Ok(())
        };
    }
    match in_store(engine, |mut store| store.record(&change_of(record))) {
        Ok(recorded) => add_results(engine, recorded, record.entry),
        Err(error) => {
            if let Ok(Some(state)) = State::find(&engine.workspace) {
                note_missed(engine, &state, record.entry);
            }
            engine.snapshot_failed(&format!("{error}; undo and redo still work"))
        }
    }
}

/// Writes the commit of a change that is about to be made, so that it can be synced together with the change; `None` if
/// it has to wait until the change is applied, or if it fails: [`record`] then reports the reason.
pub fn prepare(engine: &Engine, record: &AppliedChange<'_>) -> Option<PreparedSnapshot> {
    if !engine.policy().has_snapshots() {
        return None;
    }
    in_store(engine, |store| store.prepare(&change_of(record))).ok()
}

/// Mode and bytes of a file, or the target of a symlink.
pub type Content = (u32, Vec<u8>);

/// Returns those of some files on disk that others have changed since the newest snapshot, each with its version there.
/// There are none if there are no snapshots, or if they cannot be read: whoever records the next one says so.
pub fn changed_by_others(
    engine: &Engine,
    files: &BTreeMap<WorkspacePath, Option<Content>>,
) -> Vec<(WorkspacePath, Option<EarlierFile>)> {
    if !engine.policy().has_snapshots() {
        return Vec::new();
    }
    let entry = JournalEntry::default();
    let sides = files.iter().map(|(path, content)| {
        let state = content.as_ref().map(state_of);
        // A file that is neither before nor after is not looked at.
        let after = state.or(Some(FileState::Regular { executable: false, bytes: b"" }));
        FileChange { path: path.as_bytes(), before: state, after }
    });
    let change = AppliedChange { entry: &entry, files: sides.collect(), folders: Vec::new(), blobs: &[] };
    let found = in_store(engine, |store| store.changed_by_others(&change_of(&change))).unwrap_or_default();
    let path_of = |path: Vec<u8>| WorkspacePath::new(Path::new(OsStr::from_bytes(&path)));
    found.into_iter().filter_map(|(path, earlier)| Some((path_of(path)?, earlier))).collect()
}

/// Returns a file for the snapshots.
pub fn state_of((mode, bytes): &Content) -> FileState<'_> {
    file_state(*mode, bytes)
}

/// Returns the newest snapshot; HEAD if there is no snapshot yet, and `None` if there is no commit.
///
/// # Errors
/// Returns `io_error` if it cannot be read.
pub fn newest_or_head(engine: &Engine) -> Result<Option<String>, Error> {
    let store = find(engine)?;
    let tip = store.map(|store| store.newest()).transpose();
    Ok(tip?.flatten())
}

/// Returns the newest snapshot, or [`NO_SNAPSHOT`]; `None` if it cannot be read.
pub fn newest(engine: &Engine) -> Option<String> {
    let tip = find(engine).and_then(|store| Ok(store.map_or(Ok(None), |store| store.tip())?));
    tip.ok().map(|tip| tip.unwrap_or_else(|| NO_SNAPSHOT.to_owned()))
}

/// Leaves a mark for a change whose snapshot failed, so that the next change makes it.
pub fn note_missed(engine: &Engine, state: &State, entry: &JournalEntry) {
    if let Some(tip) = newest(engine) {
        MissedSnapshot::note(state, entry, tip);
    }
}

/// Commits a change of an earlier call, unless that call did so itself; returns the commit, if there is one.
///
/// # Errors
/// Returns `snapshot_failed`, or `timeout`.
pub fn record_late(engine: &Engine, record: &AppliedChange<'_>) -> Result<Option<String>, Error> {
    if !engine.policy().has_snapshots() {
        return Ok(None);
    }
    let entry = record.entry;
    let recorded = in_store(engine, |mut store| {
        if store.tip_is(&entry.session, entry.seq)? {
            return store.tip();
        }
        Ok(store.record(&change_of(record))?.id)
    });
    recorded.map_err(|error| refused(ErrorKind::SnapshotFailed, &error))
}

/// Commits changes from before a session's first change, so that the session's own changes are separate. A failure
/// is a warning: no change waits for the baseline or fails with it.
pub fn baseline(engine: &mut Engine, entry: &JournalEntry) {
    if !engine.policy().has_snapshots() {
        return;
    }
    // Changes that a running command of another session has made so far would look older than it. When that command
    // began, all uncommitted changes were recorded.
    if is_being_changed(engine) {
        return;
    }
    let scan = Scan {
        subject: Some(BASELINE.to_owned()),
        why: None,
        session: &entry.session,
        tool: BASELINE,
        seq: 0,
        time: UNIX_EPOCH + Duration::from_secs(entry.time),
        bounds: ScanBounds::QUICK.smaller_limits(bounds_of(engine)),
        survey: None,
        only: None,
    };
    let control = engine.control.clone().with_time_limit(BASELINE_TIME_MAX.min(scan_time(engine)));
    match in_store(engine, |mut store| store.scan(&scan, &control)) {
        Ok(recorded) => {
            recorded.warnings.into_iter().for_each(|warning| engine.warn(warning));
            // A nested repository is skipped at every baseline: nobody needs to know.
            let of_note = |left: &SkippedPath| !matches!(left.reason, SkipReason::NestedRepository(_));
            let left_out: Vec<SkippedPath> = recorded.left_out.into_iter().filter(of_note).collect();
            engine.warn_if(list_skipped(&left_out).map(|list| format!("not in the baseline of this session: {list}")));
        }
        Err(error) => engine.warn(format!(
            "no baseline: {error}; what was uncommitted before this session may appear among its changes, or as external later"
        )),
    }
}

/// Returns true if a command, or a client's own tool, is changing the workspace now.
pub fn is_being_changed(engine: &Engine) -> bool {
    let state = State::find(&engine.workspace).ok().flatten();
    state.is_some_and(|state| running::is_any(&state) || ClientCall::is_any(&state))
}

/// Scans the whole work tree, and commits all differences from the newest snapshot.
///
/// The caller holds the lock.
///
/// # Errors
/// Returns `timeout`, `snapshot_failed`, or `command_denied` if the policy has disabled snapshots.
pub fn scan(
    engine: &mut Engine,
    subject: Option<String>,
    why: Option<&str>,
    tool: &str,
) -> Result<RecordResult, Error> {
    if State::find(&engine.workspace)?.is_some_and(|state| ClientCall::is_any(&state)) {
        engine.warn(
            "a client's command is running: the snapshot has what it changed so far, as changes of others",
        );
    }
    scan_as(engine, (subject, why), tool, 0, RecentSurvey::default())
}

/// Recent survey of the work tree.
#[derive(Debug, Default)]
pub struct RecentSurvey<'a> {
    /// Everything in it.
    pub survey: Option<Arc<Survey>>,
    /// Only paths that a scan records.
    pub only: Option<&'a BTreeSet<Vec<u8>>>,
}

/// Scans as [`scan`] does, for the change `seq` of the session.
///
/// # Errors
/// As [`scan`].
pub fn scan_as(
    engine: &mut Engine,
    words: (Option<String>, Option<&str>),
    tool: &str,
    seq: u64,
    looked: RecentSurvey<'_>,
) -> Result<RecordResult, Error> {
    let recorded = with_scan(engine, words, (tool, seq), looked, Store::scan)?;
    keep_withheld(engine, &recorded.withheld);
    Ok(recorded)
}

/// Finds changes that a scan would record; records nothing.
///
/// # Errors
/// As [`scan`].
pub fn unrecorded(engine: &mut Engine, survey: Option<Arc<Survey>>) -> Result<UnrecordedChanges, Error> {
    let looked = RecentSurvey { survey, only: None };
    with_scan(engine, (None, None), (EXTERNAL, 0), looked, |store, scan, control| {
        store.unrecorded(scan, control)
    })
}

/// Runs `work` with a scan.
fn with_scan<T>(
    engine: &mut Engine,
    (subject, why): (Option<String>, Option<&str>),
    (tool, seq): (&str, u64),
    looked: RecentSurvey<'_>,
    work: impl Fn(&mut Store, &Scan<'_>, &Control) -> Result<T, SnapshotError>,
) -> Result<T, Error> {
    // A scan begins with the repository that its changes go to: one that can be written.
    engine.early_store.take();
    if !engine.policy().has_snapshots() {
        return Err(Error::new(
            ErrorKind::CommandDenied,
            format!("no snapshot: {}", disabled_reason(engine)),
        )
        .suggest("Continue without it: undo does not need snapshots. Only the user can turn them on."));
    }
    if let Some(state) = State::find(&engine.workspace)? {
        let (known, warning) = session::load(&state, engine.session())?;
        engine.warn_if(warning);
        engine.session_state = known;
    }
    let session = engine.session().to_string();
    let scan = Scan {
        subject,
        why,
        session: &session,
        tool,
        seq,
        time: SystemTime::now(),
        bounds: bounds_of(engine),
        survey: looked.survey,
        only: looked.only,
    };
    let control = engine.control.clone().with_time_limit(scan_time(engine));
    let scanned = in_store(engine, |mut store| work(&mut store, &scan, &control));
    scanned.map_err(|error| refused(ErrorKind::SnapshotFailed, &error))
}

/// Scans the whole work tree, and commits changes by others as theirs; before a session's first change, as its
/// baseline.
///
/// The caller holds the lock.
///
/// # Errors
/// As [`scan`].
pub fn scan_others(
    engine: &mut Engine,
    is_first: bool,
    survey: Option<Arc<Survey>>,
) -> Result<RecordResult, Error> {
    let (subject, tool) = if is_first { (Some(BASELINE), BASELINE) } else { (None, EXTERNAL) };
    scan_as(engine, (subject.map(str::to_owned), None), tool, 0, RecentSurvey { survey, only: None })
}

/// Packs the loose objects of the snapshots, if there are some; returns their number.
///
/// The caller holds the lock. A failure is a warning.
pub fn pack(engine: &mut Engine) -> usize {
    let packed = find(engine).and_then(|store| match store {
        Some(store) => Ok(store.pack()?),
        None => Ok(0),
    });
    packed.unwrap_or_else(|error| {
        engine.warn(format!("the snapshots were not packed: {error}"));
        0
    })
}

/// Opens the snapshots of the workspace for reading; `None` if there are none.
///
/// # Errors
/// Returns `io_error` if they cannot be opened.
pub fn find(engine: &Engine) -> Result<Option<Store>, Error> {
    Ok(uninterrupted(|| with_place(engine, |place| Store::find(place, engine.policy().branch())))?)
}

/// Returns the next free change number of a session; `last` is the newest one that the session itself knows.
///
/// A session without a history may have lost it with `.lbx`: its snapshots then say which numbers it gave.
///
/// # Errors
/// As [`journal::next_number`].
pub(super) fn next_number(
    engine: &Engine,
    state: Option<&State>,
    session: &SessionId,
    last: u64,
) -> Result<u64, Error> {
    let next = state.map_or(Ok(last + 1), |state| journal::next_number(state, session.as_str(), last))?;
    if next > 1 {
        return Ok(next);
    }
    let recorded = find(engine).ok().flatten();
    let newest = recorded.and_then(|store| store.newest_change_of(session.as_str()).ok());
    // A branch that came with a clone may name any number, and must leave room for changes.
    Ok(newest.filter(|newest| *newest < SEQ_MAX / 2).map_or(next, |newest| newest + 1))
}

/// Returns the repository with damage in one of the newest snapshots, and the damage; `None` if they are whole, or if
/// there are none.
///
/// # Errors
/// Returns `io_error` if they cannot be opened.
pub fn damage(engine: &Engine) -> Result<Option<(Store, Damage)>, Error> {
    let named = named_by_audit(engine);
    let look = || -> Result<_, SnapshotError> {
        let Some(store) = find_damaged(engine)? else { return Ok(None) };
        Ok(store.damage(&named)?.map(|damage| (store, damage)))
    };
    Ok(uninterrupted(look)?)
}

/// Returns other damage in the workspace's repository, which git has to repair.
///
/// # Errors
/// As [`damage`].
pub fn damage_of_git(engine: &Engine) -> Result<Vec<String>, Error> {
    let look = || match find_damaged(engine)? {
        Some(store) if !store.is_private() => store.damage_of_git(),
        _ => Ok(Vec::new()),
    };
    Ok(uninterrupted(look)?)
}

/// Repairs the damage that [`damage`] finds, if that is provably right; replaced files go to [`DAMAGED_FOLDER`].
///
/// # Errors
/// Returns `lock_timeout`; `io_error` if it cannot be repaired.
pub fn repair(engine: &mut Engine) -> Result<RepairResult, Error> {
    let locked = engine.lock()?;
    let state = &locked.state;
    let named = named_by_audit(engine);
    let work = || match find_damaged(engine)? {
        Some(store) => {
            let repaired = store.repair(&named, &|name, bytes| keep(state, name, bytes))?;
            Ok((Some(store), repaired))
        }
        None => Ok((None, RepairResult::default())),
    };
    let (store, repaired) = uninterrupted(work)?;
    if let (Some(store), Some(whole)) = (&store, &repaired.moved_to) {
        note_lost(state, store, whole)?;
    }
    Ok(repaired)
}

/// Saves bytes that a repair replaces in [`DAMAGED_FOLDER`].
fn keep(state: &State, name: &str, bytes: &[u8]) -> Result<(), SnapshotError> {
    let keep = || -> Result<(), Error> {
        let folder = state.folder(DAMAGED_FOLDER)?;
        let name = unique_name(name);
        let file = state.replace(folder.as_fd(), name.as_ref(), bytes, &unique_name("damaged"))?;
        let io = |source| Error::io("write", state.display(DAMAGED_FOLDER), source);
        file.sync_all().map_err(io)?;
        platform::sync(&*folder).map_err(|errno| io(errno.into()))
    };
    keep().map_err(|error| SnapshotError::of(&error))
}

/// Moves the branch back to its newest whole snapshot if the one that it names is gone, so that the changes since are
/// recorded again. Keeps the opened repository for the first snapshot. The caller holds both locks.
pub fn go_back_if_gone(engine: &mut Engine, state: &State) {
    if engine.early_store.borrow().is_none() {
        open_early(engine);
    }
    let Some(store) = engine.early_store.take() else { return };
    if !store.is_gone().unwrap_or(false) {
        *engine.early_store.borrow_mut() = Some(store);
        return;
    }
    let named = named_by_audit(engine);
    let Ok(Some(whole)) = store.go_back_if_gone(&named, &|name, bytes| keep(state, name, bytes)) else {
        return;
    };
    engine.warn_if(note_lost(state, &store, &whole).err().map(|error| error.message().to_owned()));
    let branch = store.branch();
    engine.warn(format!("the newest snapshots were gone, as after `git prune`: {branch} went back to {whole}, and the changes since are recorded again"));
}

/// Leaves a mark for each change after the snapshot `whole`, to which the branch went back.
fn note_lost(state: &State, store: &Store, whole: &str) -> Result<(), Error> {
    let since = store.one(whole)?.map_or(0, |whole| whole.seconds);
    let mut lost = Vec::new();
    for session in journal::sessions(state)? {
        let newest = store.newest_change_of(&session)?;
        for seq in ChangeNumbers::of(state, &session)?.since(newest + 1)? {
            let entry = journal::history_entry(state, &session, seq)?;
            lost.extend(entry.filter(|entry| i64::try_from(entry.time).is_ok_and(|time| time >= since)));
        }
    }
    lost.sort_unstable_by(|one, other| (one.time, &one.id).cmp(&(other.time, &other.id)));
    lost.iter().for_each(|entry| MissedSnapshot::note(state, entry, whole.to_owned()));
    Ok(())
}

/// Opens the snapshots for reading, however damaged the workspace's repository is.
fn find_damaged(engine: &Engine) -> Result<Option<Store>, SnapshotError> {
    with_place(engine, |place| Store::find_damaged(place, engine.policy().branch()))
}

/// Returns the snapshots in the newest records of the audit log, newest first.
fn named_by_audit(engine: &Engine) -> Vec<String> {
    let Ok(Some(state)) = State::find(&engine.workspace) else { return Vec::new() };
    let newest = audit::newest(&state, |record| record.snapshot.is_some()).unwrap_or_default();
    newest.into_iter().filter_map(|record| record.snapshot).collect()
}

/// Returns the bytes of a file in a snapshot; `None` if the snapshot, or the file in it, does not exist.
///
/// # Errors
/// Returns `io_error` if the snapshots cannot be read.
pub fn file_at(engine: &Engine, name: &str, path: &Path) -> Result<Option<Vec<u8>>, Error> {
    use std::os::unix::ffi::OsStrExt as _;
    let Some(store) = find(engine)? else { return Ok(None) };
    let Some(commit) = store.resolve(name)? else { return Ok(None) };
    Ok(store.file_at(&commit, path.as_os_str().as_bytes())?)
}

/// Files of the snapshot `tip`, or of the newest one before a time, opened on first use.
pub struct EarlierFiles<'e> {
    /// The engine.
    engine: &'e Engine,
    /// The snapshot, if it is known.
    tip: Option<&'e str>,
    /// The time, in seconds since 1970.
    seconds: i64,
    /// The store, and the trees of the snapshot.
    found: OnceCell<Option<(Store, RefCell<Trees>)>>,
}

impl<'e> EarlierFiles<'e> {
    /// Names the snapshot.
    pub const fn new(engine: &'e Engine, tip: Option<&'e str>, seconds: i64) -> Self {
        Self { engine, tip, seconds, found: OnceCell::new() }
    }

    /// Returns the version of a path, and its bytes with line endings as those of `like`; `None` if that is unknown.
    pub fn version(&self, path: &WorkspacePath, like: &[u8]) -> Option<EarlierFile> {
        let find = || {
            let store = find(self.engine).ok()??;
            let commit = match self.tip {
                Some(tip) => tip.to_owned(),
                None => store.newest_before(self.seconds).ok()??,
            };
            let trees = store.files_of(&commit).ok()?;
            Some((store, RefCell::new(trees)))
        };
        let (store, trees) = self.found.get_or_init(find).as_ref()?;
        store.version_like(&mut trees.borrow_mut(), path.as_bytes(), like).ok()?
    }
}

/// Returns the newest snapshot by its ref file alone, which costs no more than a read. `None` if the ref is
/// packed or elsewhere.
pub fn tip_by_ref_file(engine: &Engine) -> Option<String> {
    /// Largest ref file, in bytes: a SHA-256 and a newline.
    const REF_BYTES_MAX: u64 = 65;
    let branch = engine.policy().branch();
    let folder = if branch.starts_with("refs/") { ".git" } else { ".git/refs/heads" };
    let path = Path::new(folder).join(branch);
    let file = fs::open_beneath(engine.workspace.root_fd(), &WorkspacePath::new(&path)?, fs::READ).ok()?;
    let bytes = fs::read_to_end(std::fs::File::from(file), REF_BYTES_MAX, REF_BYTES_MAX).ok()?;
    let id = String::from_utf8(bytes).ok()?.trim().to_owned();
    id.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(id)
}

/// Finds the paths that git ignores. None are if there are no snapshots, or if the repository cannot be read: then
/// paths count as ordinary files, and the snapshot itself decides about them.
pub fn ignored(engine: &Engine, is_dry_run: bool, queries: &[IgnoreQuery<'_>]) -> Vec<Option<IgnoreResult>> {
    let found = if queries.is_empty() || !engine.policy().has_snapshots() {
        None
    } else if is_dry_run {
        // Nothing may be created.
        find(engine).ok().flatten().and_then(|store| store.ignored(queries).ok())
    } else {
        in_store(engine, |store| store.ignored(queries)).ok()
    };
    found.unwrap_or_else(|| vec![None; queries.len()])
}

impl From<SnapshotError> for Error {
    /// Returns the error for unreadable snapshots.
    fn from(error: SnapshotError) -> Self {
        let refused = refused(ErrorKind::IoError, &error);
        if error.is_full() {
            return refused;
        }
        if let Some(remedy) = error.remedy() {
            return Self::new(ErrorKind::NotFound, format!("no snapshot: {error}")).suggest(format!(
                "This clone was made without it: `{remedy}` fetches it, then repeat the call."
            ));
        }
        refused.suggest(
            "Run `lbx doctor`: it says what is damaged and how to repair it. Changes can still be undone.",
        )
    }
}

/// Returns the error for a failure of the snapshots.
fn refused(kind: ErrorKind, error: &SnapshotError) -> Error {
    if error.is_full() {
        return Error::new(ErrorKind::NoSpace, format!("no snapshot: {error}"));
    }
    if error.is_timeout() {
        return Error::new(ErrorKind::Timeout, error.to_string());
    }
    Error::new(kind, format!("no snapshot: {error}"))
        .suggest("Nothing was changed: repair what the message names and repeat the call.")
}

impl Engine {
    /// Returns the bytes of that version of `path`, for a symlink its target: from disk if they are still there, else as
    /// [`Self::find_version`] does.
    pub fn version_at(&self, state: &State, path: &WorkspacePath, version: &Version) -> Option<Vec<u8>> {
        let on_disk = if fs::is_symlink_mode(version.mode) {
            fs::link_beneath(self.workspace.root_fd(), path).ok()
        } else {
            let opened = self.workspace.open_regular(path, "").ok();
            let same = opened.filter(|(_, stat)| fs::size_of(stat) == version.size);
            same.and_then(|(file, _)| fs::read_to_end(file, version.size, version.size).ok())
        };
        on_disk
            .filter(|bytes| Sha256::of(bytes) == version.sha256)
            .or_else(|| self.find_version(state, path, version.sha256))
    }

    /// Returns the bytes of `path` with that SHA-256, from a backup or the snapshots.
    pub fn find_version(&self, state: &State, path: &WorkspacePath, sha256: Sha256) -> Option<Vec<u8>> {
        // Reading the whole history takes longest, so it comes last.
        let backup = backup::find_near(state, sha256).ok().flatten();
        backup
            .or_else(|| find_version(self, path, |bytes| Sha256::of(bytes) == sha256))
            .or_else(|| backup::find(state, sha256).ok().flatten())
    }
}

/// Returns the bytes of `path` for which `is_it` returns true, from the snapshots or HEAD.
pub fn find_version(
    engine: &Engine,
    path: &WorkspacePath,
    is_it: impl FnMut(&[u8]) -> bool,
) -> Option<Vec<u8>> {
    open(engine, Store::open).ok()?.find_version(path.as_bytes(), is_it).ok().flatten()
}

/// Tries again after a signal: not every call in the libraries does so itself.
fn uninterrupted<T>(work: impl Fn() -> Result<T, SnapshotError>) -> Result<T, SnapshotError> {
    /// Most tries.
    const TRIES: usize = 5;
    let work = || SnapshotError::contain(&work);
    for _ in 1..TRIES {
        match work() {
            Err(error) if error.is_interrupted() => {}
            outcome => return outcome,
        }
    }
    work()
}

/// Runs `work` on the snapshots of the workspace; if it fails because the workspace's repository is damaged, on the
/// private ones.
fn in_store<T>(
    engine: &Engine,
    work: impl Fn(Store) -> Result<T, SnapshotError>,
) -> Result<T, SnapshotError> {
    uninterrupted(|| {
        let store = match engine.early_store.take() {
            Some(store) => within_limits(engine, *store),
            None => open(engine, Store::open)?,
        };
        let is_private = store.is_private();
        let failed = match work(store) {
            Err(error) if !is_private && !error.is_passing() && !error.is_timeout() => error,
            outcome => return outcome,
        };
        let whole = open(engine, Store::open_whole)?;
        if whole.is_private() { work(whole) } else { Err(failed) }
    })
}

/// Opens the snapshots of the workspace.
fn open(
    engine: &Engine,
    how: impl FnOnce(&RepositoryPaths<'_>, &str) -> Result<Store, SnapshotError>,
) -> Result<Store, SnapshotError> {
    let store = with_place(engine, |place| how(place, engine.policy().branch()))?;
    Ok(within_limits(engine, store))
}

/// Sets the limits of the snapshots.
fn within_limits(engine: &Engine, store: Store) -> Store {
    let session = Arc::clone(&engine.session_state);
    store.with_limits(Limits {
        file_bytes_max: engine.policy().number(Key::SnapshotFileBytes),
        excluded: engine.policy().snapshot_excluded(),
        withheld: Arc::new(move || withheld_of_session(&session)),
        harness: engine.harness.clone(),
    })
}

/// Opens the repository of the workspace, if it is usable, while the call waits for the lock: that reads settings, but no
/// reference. If it fails, it is tried again when the first snapshot is made.
pub fn open_early(engine: &Engine) {
    if engine.policy().has_snapshots() {
        let found = uninterrupted(|| find_damaged(engine));
        let usable = found.ok().flatten().filter(|store| !store.is_private());
        *engine.early_store.borrow_mut() = usable.map(Box::new);
    }
}

/// Returns what a session knows about bytes that stay out of snapshots.
fn withheld_of_session(session: &SessionState) -> SecretKnowledge {
    let seen = |mark: &ReadRecord| KnownFile {
        path: mark.path.as_bytes().to_vec(),
        sha256: mark.sha256,
        size: mark.size,
    };
    SecretKnowledge {
        digests: session.withheld().iter().copied().collect(),
        seen: session.marks().iter().map(seen).collect(),
    }
}

/// Notes bytes that stay out of the next snapshot of the session under any name: those that files had which stay out, and
/// that a command moved or removed.
pub fn withhold<'b>(engine: &mut Engine, files: impl Iterator<Item = &'b [u8]>) {
    let withheld: BTreeSet<Sha256> = files.filter(|bytes| may_be_secret(bytes)).map(Sha256::of).collect();
    if !withheld.is_empty() {
        keep_withheld(engine, &withheld);
        Arc::make_mut(&mut engine.session_state).withhold(&withheld);
    }
}

/// Saves digests of bytes that stayed out of a snapshot. Without them a copy would enter the next one; the change
/// itself is applied.
fn keep_withheld(engine: &mut Engine, withheld: &BTreeSet<Sha256>) {
    let known = engine.session_state.withheld();
    // No more than the session keeps, or each scan would write them again.
    let new: BTreeSet<Sha256> = withheld.iter().take(WITHHELD_MAX).copied().collect();
    if new.iter().all(|digest| known.contains(digest)) {
        return;
    }
    let Ok(Some(state)) = State::find(&engine.workspace) else { return };
    let kept = session::update(&state, engine.session(), |session| session.withhold(&new));
    engine.warn_if(kept.unwrap_or_else(|error| Some(error.to_string())));
}

/// Runs `work` with the paths of the snapshots.
fn with_place<T>(
    engine: &Engine,
    work: impl FnOnce(&RepositoryPaths<'_>) -> Result<T, SnapshotError>,
) -> Result<T, SnapshotError> {
    let root = engine.workspace.root();
    let git_dirs = engine.policy().git_dirs();
    let found = engine.state_folder().cloned().or_else(|| {
        let state = State::find(&engine.workspace).ok().flatten();
        state.map(|state| (state.path().clone(), Arc::clone(state.handle())))
    });
    // If there is no state yet, an unused name.
    let state = found.as_ref().map(|(path, _)| root.join(path.as_path()));
    work(&RepositoryPaths {
        root,
        root_fd: Some(engine.workspace.root_handle()),
        state: &state.unwrap_or_else(|| root.join(STATE_FOLDER).join("none")),
        state_fd: found.as_ref().map(|(_, folder)| folder),
        git_dirs: &git_dirs,
        kept: engine.workspace.cache(),
    })
}

/// Returns the reason why snapshots are disabled.
fn disabled_reason(engine: &Engine) -> String {
    format!("the policy has turned snapshots off ({})", engine.policy().source_of(Key::SnapshotEnabled))
}

/// Returns the limits of a scan.
fn bounds_of(engine: &Engine) -> ScanBounds {
    let policy = engine.policy();
    ScanBounds { paths_max: policy.size(Key::ScanFiles), bytes_max: policy.number(Key::ScanBytes) }
}

/// Returns the time limit of a scan: others wait for the lock meanwhile.
fn scan_time(engine: &Engine) -> Duration {
    Duration::from_secs(engine.policy().number(Key::ScanSeconds))
}

/// Returns one side of a changed file for the snapshot, from its mode and bytes; a symlink has its type bits, and its
/// target.
pub fn file_state(mode: u32, bytes: &[u8]) -> FileState<'_> {
    if fs::is_symlink_mode(mode) {
        return FileState::Symlink { target: bytes };
    }
    FileState::Regular { executable: mode & OWNER_MAY_EXECUTE != 0, bytes }
}

/// Returns the mode that a file had in a snapshot, which knows the owner's execute bit alone; the other bits are those of
/// now.
pub fn mode_of(item: &TreeItem, now: Option<u32>) -> u32 {
    let is_executable = item.kind == EntryKind::BlobExecutable;
    match now.filter(|now| !fs::is_symlink_mode(*now)) {
        _ if item.kind == EntryKind::Link => fs::SYMLINK_MODE,
        None if is_executable => 0o755,
        None => 0o644,
        Some(now) if is_executable => now | ((now & 0o444) >> 2),
        Some(now) => now & !0o111,
    }
}

/// Returns the parts of a change that the snapshot takes.
fn change_of<'a>(record: &'a AppliedChange<'_>) -> CommitInfo<'a> {
    let entry = record.entry;
    CommitInfo {
        subject: entry.subject.clone(),
        why: entry.why.as_deref(),
        session: &entry.session,
        tool: &entry.tool,
        seq: entry.seq,
        gate: entry.gate.as_deref(),
        time: UNIX_EPOCH + Duration::from_secs(entry.time),
        files: record.files.clone(),
        folders: record.folders.clone(),
        blobs: record.blobs,
    }
}

/// Returns the changes of a session after one of them (0 for all), for the accounts of the branch.
pub fn changes_after<'e>(engine: &'e Engine, session: &str, after: u64) -> SessionPart<'e> {
    let name = session.to_owned();
    let turned = move |from| {
        let state = State::find(&engine.workspace).ok().flatten();
        // A history that cannot be read is reported by the calls that need it.
        state
            .and_then(|state| unchanged_undos_after(&state, &name, from).ok())
            .unwrap_or_else(|| (Vec::new(), from))
    };
    SessionPart { session: session.to_owned(), after, turned: Box::new(turned) }
}

/// Returns what a session turned back after a change without a snapshot, and the number of its newest change.
fn unchanged_undos_after(
    state: &State,
    session: &str,
    from: u64,
) -> Result<(Vec<UnchangedUndo>, u64), Error> {
    let all = ChangeNumbers::of(state, session)?;
    let numbers = all.since(from.saturating_add(1))?;
    let mut turned = Vec::new();
    for seq in &numbers {
        let Some(entry) = journal::history_entry(state, session, *seq)? else { continue };
        if entry.found_done.is_empty() {
            continue;
        }
        let is_redo = entry.tool == Direction::Redo.name();
        let mut changes = match &entry.takes_back {
            Some(taken) if entry.tool == "rewind" => {
                let later = all.since(taken.seq.saturating_add(1))?.into_iter();
                later.filter(|later| later < seq).collect()
            }
            Some(taken) => vec![taken.seq],
            None => entry.reverts.clone(),
        };
        // The oldest of them has what was there before all.
        changes.sort_unstable_by(|one, next| if is_redo { next.cmp(one) } else { one.cmp(next) });
        let paths = entry.found_done.iter().map(|file| file.path.as_bytes().to_vec()).collect();
        turned.push(UnchangedUndo { seq: *seq, changes, is_redo, paths });
    }
    Ok((turned, numbers.last().copied().unwrap_or(from)))
}

/// Brings the accounts of a session and the sums of the audit log up to date, so that no later call has to read all that
/// was made meanwhile.
pub fn update_accounts(engine: &Engine, state: &State, session: &SessionState) {
    let (name, after) = (engine.session().as_str(), session.after().map_or(0, |ended| ended.seq));
    // A call that needs an account says what is wrong.
    let _ = ChangesAccount::of(state, name, after + 1, &engine.control);
    let _ = audit::sums(state);
    if let Ok(Some(store)) = find(engine) {
        store.update_accounts(&changes_after(engine, name, after));
    }
}

/// Packs some of the old history, unless another call has the lock: a later one will.
pub fn pack_history(state: &State) {
    if let Ok(Some(_lock)) = state.try_lock_workspace() {
        // `gc` says what is wrong.
        let _ = repack::pack(state, RepackAmount::Little);
    }
}

/// Adds the results of a snapshot to the response.
///
/// # Errors
/// As [`record`].
pub fn add_results(
    engine: &mut Engine,
    mut recorded: RecordResult,
    entry: &JournalEntry,
) -> Result<(), Error> {
    if recorded.is_apart
        && let Ok(Some(state)) = State::find(&engine.workspace)
    {
        MissedSnapshot::note(&state, entry, APART.to_owned());
    }
    keep_withheld(engine, &recorded.withheld);
    for warning in recorded.warnings {
        engine.warn(warning);
    }
    let is_missing = engine.require_snapshot && recorded.id.is_none();
    if COMMAND_TOOLS.contains(&entry.tool.as_str()) && !is_missing {
        // The response of a command lists them by folder.
        recorded.left_out.retain(|left| left.reason != SkipReason::Ignored);
    }
    let left_out = list_skipped(&recorded.left_out)
        .map(|list| format!("not in the snapshot: {list}{}", backup_text(entry)));
    match (recorded.id, left_out) {
        (Some(id), left_out) => {
            engine.set_snapshot(id);
            engine.warn_if(left_out);
            Ok(())
        }
        (None, left_out) if is_missing && !(entry.files.is_empty() && entry.moves.is_empty()) => {
            engine.snapshot_failed(&left_out.unwrap_or_else(|| "git has none of what changed".to_owned()))
        }
        (None, left_out) => {
            engine.warn_if(left_out);
            Ok(())
        }
    }
}

/// Describes where old bytes of a change are kept, apart from the snapshot.
fn backup_text(entry: &JournalEntry) -> &'static str {
    let is_trashed = entry.moves.iter().any(|moved| protect::is_state(&moved.to));
    let is_backed_up = entry.files.iter().any(|file| file.before.is_some());
    match (is_trashed, is_backed_up) {
        (true, false) => "; what was deleted is in the trash",
        (true, true) => "; what was deleted is in the trash, the old bytes of the others are in the backup",
        (false, true) => "; the old bytes are in the backup",
        // Moved and new files have no old bytes that could be lost.
        (false, false) => "",
    }
}

/// Lists the first skipped paths with reasons; `None` if there are none.
pub fn list_skipped(left_out: &[SkippedPath]) -> Option<String> {
    if left_out.is_empty() {
        return None;
    }
    let name = |left: &SkippedPath| format!("{} ({})", short_path(&left.path), left.reason);
    let named: Vec<String> = left_out.iter().take(LEFT_OUT_NAMED).map(name).collect();
    let more = left_out.len().saturating_sub(LEFT_OUT_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("{}{more}", named.join(", ")))
}
