//! State files of sessions: read without a lock, written under one.
//!
//! A file has one line per state; the last one counts. A state is appended, with the blocks of marks that it names: that
//! neither creates nor frees a file. When there is no room left, the file is replaced by one with only the newest state
//! and its marks. An incomplete line is a leftover of a killed call or a power failure, and the state before it counts.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use super::read_record::ReadRecord;
use super::read_tree::DamagedBlock;
use super::{SessionId, SessionState};
use crate::control::seconds_now;
use crate::engine::store::lock::unique_name;
use crate::engine::store::state::State;
use crate::engine::workspace::fs;
use crate::engine::workspace::stat_cache::Fingerprint;
use crate::error::Error;
use crate::limits::{READ_COPY_BYTES_MAX, SESSION_BYTES_MAX, STATE_LINE_BYTES_MAX};
use crate::sha256::Sha256;

/// Size up to which states are appended, in bytes, if most of the file is of earlier states: reading that much costs
/// less than replacing the file.
const GROWN_BYTES_MAX: u64 = END_BYTES as u64;
/// Size of the end of a file in which its newest state is looked for first, in bytes.
const END_BYTES: usize = 32 << 10;
/// Part of the bytes of a file that are of its newest state.
const USED_PART: u64 = 2;
/// Largest file that is read, in bytes.
const SESSION_READ_BYTES_MAX: u64 = USED_PART * SESSION_BYTES_MAX + GROWN_BYTES_MAX;
/// Bytes of memory for each byte of a session's file.
const BYTES_A_BYTE: usize = 2;
/// Folder of the state files.
pub const FOLDER: &str = "sessions";
/// Prefix of a temporary state file.
const ASIDE_PREFIX: &str = "session.";

/// Loads the session `id`, with a warning if its file was damaged.
///
/// # Errors
/// Returns `io_error` if a newer version wrote it, or the OS error.
pub fn load(state: &State, id: &SessionId) -> Result<(Arc<SessionState>, Option<String>), Error> {
    load_or(state, id, &|folder, name| set_aside(state, folder, name))
}

/// Loads the session `id`; never changes its file.
///
/// # Errors
/// As [`load`].
pub fn load_unchanged(state: &State, id: &SessionId) -> Result<(Arc<SessionState>, Option<String>), Error> {
    let say =
        |_: &OwnedFd, _: &str| "the session's state file is damaged, so nothing counts as read".to_owned();
    load_or(state, id, &say)
}

/// Loads the session `id`; `damaged` handles a damaged file and returns the warning.
fn load_or(
    state: &State,
    id: &SessionId,
    damaged: &dyn Fn(&OwnedFd, &str) -> String,
) -> Result<(Arc<SessionState>, Option<String>), Error> {
    let Some(folder) = state.find_folder(FOLDER)? else {
        return Ok((Arc::default(), None));
    };
    let name = format!("{id}.lbx");
    let path = format!("{FOLDER}/{name}");
    if let Some(known) = state.cached_value(&path, folder.as_fd()) {
        return Ok((known, None));
    }
    match read_newest(folder.as_fd(), OsStr::new(&name), &state.display(&path)) {
        Ok(None) => Ok((Arc::default(), None)),
        Ok(Some(NewestState { session: Some(session), file, stat })) => {
            let session = Arc::new(session);
            keep(state, &name, &session, file, stat);
            Ok((session, None))
        }
        Ok(Some(_)) => Ok((Arc::default(), Some(damaged(&folder, &name)))),
        Err(StateFault::Io(source)) if fs::is_unfit(&source) => {
            Ok((Arc::default(), Some(damaged(&folder, &name))))
        }
        Err(StateFault::Io(source)) => Err(Error::io("read", state.display(&path), source)),
        Err(StateFault::Refused(error)) => Err(error),
    }
}

/// Newest state in a file.
struct NewestState {
    /// The state; `None` if it is damaged.
    session: Option<SessionState>,
    /// The file.
    file: File,
    /// Its stat.
    stat: Stat,
}

/// Reason why a file has no state that counts.
enum StateFault {
    /// Error of the OS.
    Io(std::io::Error),
    /// It was written by a newer version.
    Refused(Error),
}

impl<E: Into<std::io::Error>> From<E> for StateFault {
    fn from(source: E) -> Self {
        Self::Io(source.into())
    }
}

/// Reads the newest state in a file; `None` if the file is missing or empty.
fn read_newest(folder: BorrowedFd<'_>, name: &OsStr, shown: &str) -> Result<Option<NewestState>, StateFault> {
    let file = match fs::open_at(folder, name, fs::READ) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let stat = rustix::fs::fstat(&file)?;
    if !fs::is_regular(&stat) {
        return Err(Errno::INVAL.into());
    }
    let mut session = parse_end(&file, fs::size_of(&stat), shown)?;
    if session.is_none() {
        let bytes = fs::read_to_end(&file, fs::size_of(&stat), SESSION_READ_BYTES_MAX)?;
        // A power failure may leave zeros in an unsynced file: the caller has to read its files again, as the gate
        // will say.
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        session = SessionState::parse_newest(&bytes, shown).map_err(StateFault::Refused)?;
    }
    if let Some(session) = &mut session {
        session.open_tree(&file)?;
    }
    Ok(Some(NewestState { session, file, stat }))
}

/// Returns the newest state in the last lines of a file that is larger than these; `None` if they have none.
fn parse_end(file: &File, size: u64, shown: &str) -> Result<Option<SessionState>, StateFault> {
    let Some(start) = size.checked_sub(GROWN_BYTES_MAX).filter(|_| size <= SESSION_READ_BYTES_MAX) else {
        return Ok(None);
    };
    let mut bytes = vec![0; END_BYTES];
    // Another call may have replaced a partial line.
    if file.read_exact_at(&mut bytes, start).is_err() {
        return Ok(None);
    }
    let whole_lines = memchr::memchr(b'\n', &bytes).and_then(|end| bytes.get(end + 1..)).unwrap_or_default();
    SessionState::parse_newest(whole_lines, shown).map_err(StateFault::Refused)
}

/// Caches the state in a file of that name, so that it need not be read again while it is unchanged.
fn keep(state: &State, name: &str, session: &Arc<SessionState>, file: File, stat: Stat) {
    let bytes = fs::size_of(&stat).saturating_sub(session.stored_bytes());
    let mut looks = Fingerprint::default();
    looks.rely_on_lbx_file(name, file, stat);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_mul(BYTES_A_BYTE);
    state.keep(&format!("{FOLDER}/{name}"), Arc::clone(session), looks, bytes);
}

/// Changes the session `id` under its lock; returns a warning if its file was damaged. If the change forgets what was read,
/// no earlier state stays in the file.
///
/// # Errors
/// Returns `lock_timeout`, or as [`load`].
pub fn update(
    state: &State,
    id: &SessionId,
    change: impl FnOnce(&mut SessionState),
) -> Result<Option<String>, Error> {
    let folder = state.folder(FOLDER)?;
    let _lock = state.lock(folder.as_fd(), &lock_name(id.as_str()), &format!("session {id}"))?;
    let (session, warning) = load(state, id)?;
    let mut session = Arc::unwrap_or_clone(session);
    session.begin_again();
    change(&mut session);
    let name = format!("{id}.lbx");
    let damaged = session.is_damaged().then(|| set_aside(state, &folder, &name));
    if damaged.is_some() {
        session.drop_stored();
    }
    let grown = if std::mem::take(&mut session.forgets) { None } else { add(&folder, &name, &mut session) };
    let (file, damaged) = if let Some(file) = grown {
        (file, damaged)
    } else {
        let (bytes, later) = file_content(state, &folder, &name, &mut session)?;
        let aside = format!("{ASIDE_PREFIX}{id}.{}", unique_name("new"));
        (state.replace(folder.as_fd(), OsStr::new(&name), &bytes, &aside)?, damaged.or(later))
    };
    // A new file cannot be read, so the next call opens its tree.
    if state.has_shared_cache()
        && session.has_open_tree()
        && let Ok(stat) = rustix::fs::fstat(&file)
    {
        keep(state, &name, &Arc::new(session), file, stat);
    }
    Ok(warning.or(damaged))
}

/// Returns the content of a new file for a state, with a warning if some of its marks were damaged.
fn file_content(
    state: &State,
    folder: &OwnedFd,
    name: &str,
    session: &mut SessionState,
) -> Result<(Vec<u8>, Option<String>), Error> {
    let mut warning = None;
    loop {
        let mut next = session.clone();
        match next.file_content(STATE_LINE_BYTES_MAX) {
            Ok(bytes) if bytes.len() as u64 <= SESSION_BYTES_MAX || !session.drop_oldest() => {
                *session = next;
                return Ok((bytes, warning));
            }
            Ok(_) => {}
            Err(DamagedBlock) if warning.is_none() => {
                warning = Some(set_aside(state, folder, name));
                session.drop_stored();
            }
            Err(DamagedBlock) => return Err(Error::internal("the state of the session cannot be formatted")),
        }
    }
}

/// Appends a state to its file; `None` if that has to be replaced. The caller holds the session's lock.
fn add(folder: &OwnedFd, name: &str, session: &mut SessionState) -> Option<File> {
    let file = File::from(fs::open_at(folder.as_fd(), OsStr::new(name), fs::ADD).ok()?);
    let stat = rustix::fs::fstat(&file).ok()?;
    let size = fs::size_of(&stat);
    // A file with another name may be someone else's too.
    let is_alone = fs::is_regular(&stat) && stat.st_nlink == 1;
    if !is_alone || size == 0 {
        return None;
    }
    let mut last = [0];
    file.read_exact_at(&mut last, size - 1).ok()?;
    let mut bytes = if last == *b"\n" { Vec::new() } else { b"\n".to_vec() };
    let mut next = session.clone();
    bytes.extend(next.appended(size + bytes.len() as u64, STATE_LINE_BYTES_MAX).ok()?);
    let grown = size.saturating_add(bytes.len() as u64);
    if grown >= grown_bytes_max(next.stored_bytes()) {
        return None;
    }
    if (&file).write_all(&bytes).is_err() {
        // Truncate a partial line, so that the next one starts at its offset.
        let _ = rustix::fs::ftruncate(&file, size);
        return None;
    }
    next.open_tree(&file).ok()?;
    *session = next;
    Some(file)
}

/// Returns the size up to which states are appended to a file with that many bytes of stored marks.
const fn grown_bytes_max(stored: u64) -> u64 {
    // A small file is replaced often, which costs little.
    if stored < GROWN_BYTES_MAX * 3 / 4 { GROWN_BYTES_MAX } else { USED_PART.saturating_mul(stored) }
}

/// A session with a state file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownSession {
    /// Session id.
    pub id: SessionId,
    /// Time of the last write of its state file, in seconds since 1970.
    pub time: u64,
}

/// Returns all sessions with a state file, the one used last first.
///
/// # Errors
/// Returns the OS error.
pub fn list(state: &State) -> Result<Vec<KnownSession>, Error> {
    let mut known = Vec::new();
    for (folder, name) in state.entries(FOLDER)? {
        let id = name.strip_suffix(".lbx").and_then(|id| id.parse().ok());
        let stat = fs::stat_at(folder.as_fd(), OsStr::new(&name)).ok().filter(fs::is_regular);
        if let (Some(id), Some(stat)) = (id, stat) {
            known.push(KnownSession { id, time: u64::try_from(stat.st_mtime).unwrap_or(0) });
        }
    }
    known
        .sort_by(|one, other| other.time.cmp(&one.time).then_with(|| one.id.as_str().cmp(other.id.as_str())));
    Ok(known)
}

/// Loads the session `id` to show it to another; `None` for a damaged or newer file, which stays unchanged.
pub fn load_for_display(state: &State, id: &SessionId) -> Option<SessionState> {
    let folder = state.find_folder(FOLDER).ok()??;
    let name = format!("{id}.lbx");
    read_newest(folder.as_fd(), OsStr::new(&name), &state.display(&format!("{FOLDER}/{name}"))).ok()??.session
}

/// Returns the name of a session's lock.
fn lock_name(id: &str) -> String {
    format!("{id}.lock")
}

/// Returns true if a file in the staging folder belongs to a session that is being written.
///
/// A call may hold a session's lock without that of the workspace.
pub fn is_in_use(state: &State, name: &str) -> bool {
    let Some((id, _)) = name.strip_prefix(ASIDE_PREFIX).and_then(|rest| rest.rsplit_once('.')) else {
        return false;
    };
    let Ok(Some(folder)) = state.find_folder(FOLDER) else {
        return false;
    };
    !matches!(state.try_lock(folder.as_fd(), &lock_name(id)), Ok(Some(_)))
}

/// Renames a damaged file, and returns a warning.
fn set_aside(state: &State, folder: &OwnedFd, name: &str) -> String {
    let damaged = format!("{name}.damaged-{}", seconds_now());
    let where_to = match fs::rename_at(folder, name, folder, damaged.as_str()) {
        Ok(()) => format!("it was set aside as {}", state.display(&format!("{FOLDER}/{damaged}"))),
        Err(errno) => format!("it could not be set aside ({errno})"),
    };
    format!("the session's state file was damaged, so nothing counts as read: {where_to}")
}

/// Folder of shown copies, below the state folder.
pub const SHOWN_FOLDER: &str = "shown";
/// Folder of the turns, below the state folder: a file for each session.
pub const TURNS_FOLDER: &str = "turns";

/// Keeps a copy of a shown file of the workspace at `root`.
///
/// # Errors
/// Returns the OS error.
pub fn keep_shown(state: &State, root: BorrowedFd<'_>, mark: &ReadRecord) -> Result<(), Error> {
    if mark.size > READ_COPY_BYTES_MAX || mark.lines.ranges().is_empty() {
        return Ok(());
    }
    let folder = state.folder(SHOWN_FOLDER)?;
    let name = mark.sha256.to_hex();
    let kept = fs::stat_at(folder.as_fd(), OsStr::new(&name));
    if kept.as_ref().is_ok_and(|kept| fs::size_of(kept) == mark.size) {
        return Ok(());
    }
    let io = |source| Error::io("write", state.display(&format!("{SHOWN_FOLDER}/{name}")), source);
    let opened = fs::open_beneath(root, &mark.path, fs::READ).map_err(|errno| io(errno.into()))?;
    let bytes = fs::read_to_end(std::fs::File::from(opened), mark.size, READ_COPY_BYTES_MAX).map_err(io)?;
    if Sha256::of(&bytes) != mark.sha256 {
        return Ok(());
    }
    if kept.is_ok() {
        // A killed call, or a full disk, left a part of it.
        let _ = fs::unlink_at(&*folder, &name, AtFlags::empty());
    }
    let Ok(copy) = fs::create_at(folder.as_fd(), OsStr::new(&name), 0o600) else { return Ok(()) };
    fs::write_all(&copy, &bytes).map_err(io)
}

/// Returns the shown bytes with that digest, if there is a copy.
pub fn find_shown(state: &State, sha256: Sha256) -> Option<Vec<u8>> {
    let folder = state.find_folder(SHOWN_FOLDER).ok()??;
    let bytes = fs::read_at(folder.as_fd(), OsStr::new(&sha256.to_hex()), READ_COPY_BYTES_MAX).ok()??;
    (Sha256::of(&bytes) == sha256).then_some(bytes)
}

/// Removes copies that a mark no longer needs. Another session that needs one has to read again.
pub fn forget_shown(state: &State, versions: impl Iterator<Item = Sha256>) {
    let Ok(Some(folder)) = state.find_folder(SHOWN_FOLDER) else { return };
    for sha256 in versions {
        // A copy that was never kept, or is left by a killed call, does no harm.
        let _ = fs::unlink_at(&*folder, sha256.to_hex(), AtFlags::empty());
    }
}
