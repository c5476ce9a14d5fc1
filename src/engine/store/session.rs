//! What one session has seen: a mark for each file it read, with the bytes' SHA-256.
//!
//! A session is one state file, `.lbx/sessions/ID.json`. Readers never lock it; a writer holds the
//! session's lock, reads the newest state, and replaces the file at once. Fields that this version
//! does not know survive. A damaged file is set aside and says so; it is never trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::state::State;
use super::unique::unique_name;
use crate::engine::store::state::names_in;
use crate::engine::workspace::fs;
use crate::engine::workspace::kept::Looks;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::visible::short_path;

/// The largest number of a change: whatever names a larger one was not written by lbx.
pub const SEQ_MAX: u64 = 1 << 48;
/// Characters in a session id.
const ID_CHARACTERS_MAX: usize = 100;
/// Version of the state file that this code writes.
const VERSION: u32 = 1;
/// Size of a state file: some 100,000 marks; beyond it the oldest are dropped.
const FILE_BYTES_MAX: u64 = 32 << 20;
/// Paths that are remembered beyond a compaction.
const COMPACTED_MAX: usize = 1000;
/// Changes of which the request is remembered here.
const RECENT_MAX: usize = 24;
/// So many marks are put among the others one by one.
const SET_ONE_BY_ONE: usize = 16;
/// Bytes that a session takes in memory for each byte of its file.
const BYTES_A_BYTE: usize = 2;
/// Where the state files are.
pub const FOLDER: &str = "sessions";
/// How the name of a state file begins that waits to take another's place.
const ASIDE_PREFIX: &str = "session.";

/// The name of a session: 1 to 100 of `A-Za-z0-9._-`, not beginning with a dot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for SessionId {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl FromStr for SessionId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if (1..=ID_CHARACTERS_MAX).contains(&text.len())
            && text.bytes().all(is_allowed)
            && !text.starts_with('.')
        {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::invalid(format!(
            "session id {:?}: expected 1 to {ID_CHARACTERS_MAX} of A-Z a-z 0-9 . _ -, not beginning with a dot",
            short_path(text)
        ))
        .suggest("Give another session, such as agent-1."))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The lines of a file that were shown, as inclusive ranges of line numbers from 1, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines(Vec<(u64, u64)>);

impl Lines {
    /// Lines 1 to `last`; none where `last` is 0.
    #[must_use]
    pub fn up_to(last: u64) -> Self {
        let mut lines = Self::default();
        lines.add(1, last);
        lines
    }

    /// Adds the lines `first` to `last`, both included; nothing where `first` is after `last`.
    pub fn add(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        let mut ranges = std::mem::take(&mut self.0);
        ranges.push((first, last));
        *self = Self::from_ranges(ranges, usize::MAX);
    }

    /// The lines of ranges in any order, of which those that are empty count for nothing; the first
    /// `ranges_max` of what they join to.
    #[must_use]
    pub fn from_ranges(mut ranges: Vec<(u64, u64)>, ranges_max: usize) -> Self {
        ranges.retain(|(first, last)| first <= last);
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (first, last) in ranges {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        joined.truncate(ranges_max);
        Self(joined)
    }

    /// Whether all of the lines 1 to `last` were shown.
    #[must_use]
    pub fn cover(&self, last: u64) -> bool {
        self.contain(1, last)
    }

    /// Whether all of the lines `first` to `last` were shown.
    #[must_use]
    pub fn contain(&self, first: u64, last: u64) -> bool {
        // They ascend and do not touch, so one of them alone can hold all.
        let after = self.0.partition_point(|&(from, _)| from <= first);
        let holder = after.checked_sub(1).and_then(|at| self.0.get(at));
        first > last || holder.is_some_and(|&(_, to)| to >= last)
    }

    /// The lines from `first` to `last` that were not shown, as ranges in order.
    #[must_use]
    pub fn missing(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let (mut missing, mut next) = (Vec::new(), first);
        for &(from, to) in self.0.iter().filter(|(_, to)| *to >= first) {
            if from > last {
                break;
            }
            if next < from {
                missing.push((next, from - 1));
            }
            next = to.saturating_add(1);
        }
        if next <= last {
            missing.push((next, last));
        }
        missing
    }

    /// The ranges.
    #[must_use]
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.0
    }
}

/// What a session knows of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The canonical path, so that two names of one file share a mark.
    pub path: WorkspacePath,
    /// SHA-256 of the bytes seen.
    pub sha256: Sha256,
    /// Their number.
    pub size: u64,
    /// The lines shown.
    #[serde(default)]
    pub lines: Lines,
    /// When they were seen, seconds since 1970.
    pub time: u64,
    /// The id of the blob that they are to git, in hex digits, where it was worked out: that of a
    /// large file need not be worked out again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// What a later version keeps here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Mark {
    /// A mark of now, for bytes of which all lines were seen.
    #[must_use]
    pub fn of_everything(path: WorkspacePath, sha256: Sha256, size: u64, total_lines: u64) -> Self {
        let lines = Lines::up_to(total_lines);
        Self { path, sha256, size, lines, time: seconds_now(), blob: None, other: Map::new() }
    }
}

/// The state file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionState {
    /// Version of the format.
    version: u32,
    /// The number of the session's last change; 0 before the first.
    #[serde(default)]
    pub seq: u64,
    /// What the session has seen, by path.
    #[serde(default)]
    marks: Vec<Mark>,
    /// Its last changes, so that a repeated request is known without reading the journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    recent: Vec<Made>,
    /// What it had seen before its context was compacted, by path.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    compacted: BTreeSet<WorkspacePath>,
    /// Where an earlier session of this name ended, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<Ended>,
    /// Whether nothing has been seen or changed since then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ended: bool,
    /// What a later version keeps here.
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// A change that the session made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Made {
    /// Its number.
    seq: u64,
    /// Digest of its request, where one was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<Sha256>,
}

/// The end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The number of its last change.
    pub seq: u64,
    /// When, seconds since 1970.
    pub time: u64,
}

impl Default for SessionState {
    fn default() -> Self {
        Self {
            version: VERSION,
            seq: 0,
            marks: Vec::new(),
            recent: Vec::new(),
            compacted: BTreeSet::new(),
            after: None,
            ended: false,
            other: Map::new(),
        }
    }
}

impl SessionState {
    /// What the session knows of `path`.
    #[must_use]
    pub fn mark(&self, path: &WorkspacePath) -> Option<&Mark> {
        let at = self.marks.binary_search_by(|mark| mark.path.cmp(path)).ok()?;
        self.marks.get(at)
    }

    /// All marks, by path.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Puts a mark in the place of the one for its path.
    pub fn set_mark(&mut self, mark: Mark) {
        match self.marks.binary_search_by(|known| known.path.cmp(&mark.path)) {
            Ok(at) => {
                if let Some(known) = self.marks.get_mut(at) {
                    *known = mark;
                }
            }
            Err(at) => self.marks.insert(at, mark),
        }
    }

    /// Forgets paths, and then puts marks in the place of those for theirs: of many, all at once.
    pub fn exchange_marks(&mut self, forgotten: &[WorkspacePath], set: Vec<Mark>) {
        if !forgotten.is_empty() {
            let forgotten: BTreeSet<&WorkspacePath> = forgotten.iter().collect();
            self.marks.retain(|mark| !forgotten.contains(&mark.path));
        }
        if set.len() <= SET_ONE_BY_ONE {
            set.into_iter().for_each(|mark| self.set_mark(mark));
            return;
        }
        let mut all: BTreeMap<WorkspacePath, Mark> =
            std::mem::take(&mut self.marks).into_iter().map(|mark| (mark.path.clone(), mark)).collect();
        all.extend(set.into_iter().map(|mark| (mark.path.clone(), mark)));
        self.marks = all.into_values().collect();
    }

    /// Notes that `seen` was shown: its lines join those shown before of the same bytes.
    pub fn add_mark(&mut self, mut seen: Mark) {
        if let Some(known) = self.mark(&seen.path).filter(|known| known.sha256 == seen.sha256) {
            for &(first, last) in known.lines.ranges() {
                seen.lines.add(first, last);
            }
            seen.blob = seen.blob.or_else(|| known.blob.clone());
        }
        self.set_mark(seen);
    }

    /// Notes a change, with the digest of its request.
    pub fn note_change(&mut self, seq: u64, request: Option<Sha256>) {
        self.seq = self.seq.max(seq);
        self.recent.retain(|made| made.seq != seq);
        self.recent.push(Made { seq, request });
        let older = self.recent.len().saturating_sub(RECENT_MAX);
        self.recent.drain(..older);
    }

    /// Whether the change `seq` is known to have come from another request.
    #[must_use]
    pub fn is_of_another_request(&self, seq: u64, request: Sha256) -> bool {
        self.recent.iter().any(|made| made.seq == seq && made.request != Some(request))
    }

    /// Where an earlier session of this name ended, if there was one.
    #[must_use]
    pub fn after(&self) -> Option<Ended> {
        self.after
    }

    /// Whether it has ended and was not used since.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Ends it: what follows under its name begins anew, with a baseline of its own. The number of
    /// its last change is `seq`.
    pub fn end(&mut self, seq: u64) {
        *self = Self {
            after: Some(Ended { seq, time: seconds_now() }),
            ended: true,
            other: std::mem::take(&mut self.other),
            ..Self::default()
        };
    }

    /// What it had seen before its context was compacted, and not again since; by path.
    pub fn compacted(&self) -> impl Iterator<Item = &WorkspacePath> {
        self.compacted.iter().filter(|path| self.mark(path).is_none())
    }

    /// Whether it had seen `path` before its context was compacted, and not again since.
    #[must_use]
    pub fn was_compacted(&self, path: &WorkspacePath) -> bool {
        self.compacted.contains(path) && self.mark(path).is_none()
    }

    /// Drops all marks, since what was read is no longer in the caller's context; that it was read
    /// is remembered, of the newest.
    pub fn compact(&mut self) {
        let mut marks = std::mem::take(&mut self.marks);
        marks.sort_by_key(|mark| std::cmp::Reverse(mark.time));
        let room = COMPACTED_MAX.saturating_sub(marks.len());
        self.compacted = std::mem::take(&mut self.compacted).into_iter().take(room).collect();
        self.compacted.extend(marks.into_iter().take(COMPACTED_MAX).map(|mark| mark.path));
    }

    /// Forgets `path` and whatever lies below it; answers the paths that were known.
    pub fn forget_below(&mut self, path: &WorkspacePath) -> Vec<WorkspacePath> {
        let (gone, kept): (Vec<Mark>, Vec<Mark>) =
            std::mem::take(&mut self.marks).into_iter().partition(|mark| mark.path.is_within(path));
        self.marks = kept;
        let (mut forgotten, kept): (BTreeSet<WorkspacePath>, BTreeSet<WorkspacePath>) =
            std::mem::take(&mut self.compacted).into_iter().partition(|known| known.is_within(path));
        self.compacted = kept;
        forgotten.extend(gone.into_iter().map(|mark| mark.path));
        forgotten.into_iter().collect()
    }

    /// Drops the older half of the marks, which are more than a state file holds; whether there were any.
    fn drop_oldest(&mut self) -> bool {
        let mut times: Vec<u64> = self.marks.iter().map(|mark| mark.time).collect();
        times.sort_unstable();
        let before = self.marks.len();
        let mut room = before / 2;
        let newest = times.get(before.saturating_sub(room)).copied().unwrap_or(u64::MAX);
        self.marks.retain(|mark| {
            let stays = mark.time >= newest && room > 0;
            room -= usize::from(stays);
            stays
        });
        self.marks.len() < before
    }

    /// Drops the mark for `path`; whether there was one.
    pub fn forget(&mut self, path: &WorkspacePath) -> bool {
        let before = self.marks.len();
        self.marks.retain(|mark| mark.path != *path);
        self.marks.len() < before
    }
}

/// The session `id` as its file has it, with a warning where the file was damaged.
///
/// # Errors
/// `io_error` where a newer version wrote it, or the system's.
pub fn load(state: &State, id: &SessionId) -> Result<(Arc<SessionState>, Option<String>), Error> {
    load_or(state, id, &|folder, name| set_aside(state, folder, name))
}

/// The same without touching the file.
///
/// # Errors
/// As [`load`].
pub fn look_at(state: &State, id: &SessionId) -> Result<(Arc<SessionState>, Option<String>), Error> {
    let say =
        |_: &OwnedFd, _: &str| "the session's state file is damaged, so nothing counts as read".to_owned();
    load_or(state, id, &say)
}

/// The session `id` as its file has it; what `damaged` says of a damaged one is the warning.
fn load_or(
    state: &State,
    id: &SessionId,
    damaged: &dyn Fn(&OwnedFd, &str) -> String,
) -> Result<(Arc<SessionState>, Option<String>), Error> {
    let Some(folder) = state.find_folder(FOLDER)? else {
        return Ok((Arc::default(), None));
    };
    let name = format!("{id}.json");
    let path = format!("{FOLDER}/{name}");
    if let Some(known) = state.known(&path, folder.as_fd()) {
        return Ok((known, None));
    }
    let (bytes, file, stat) = match fs::read_opened(folder.as_fd(), OsStr::new(&name), FILE_BYTES_MAX) {
        Ok(None) => return Ok((Arc::default(), None)),
        // What a power failure leaves of a file that was not synced: what was read is to be read
        // again, and the gate says so.
        Ok(Some((bytes, ..))) if bytes.iter().all(|byte| *byte == 0) => {
            return Ok((Arc::default(), None));
        }
        Ok(Some(read)) => read,
        Err(source) if is_no_state_file(&source) => {
            return Ok((Arc::default(), Some(damaged(&folder, &name))));
        }
        Err(source) => return Err(Error::io("read", state.shown(&path), source)),
    };
    if let Some(session) = parse(&bytes, &state.shown(&path))?.map(Arc::new) {
        keep(state, &name, &session, file, stat, bytes.len());
        Ok((session, None))
    } else {
        Ok((Arc::default(), Some(damaged(&folder, &name))))
    }
}

/// Keeps what the state file of that name says, which has so many bytes: while it stands it need not be read
/// again.
fn keep(state: &State, name: &str, session: &Arc<SessionState>, file: File, stat: Stat, bytes: usize) {
    let mut looks = Looks::default();
    looks.at_own(name, file, stat);
    let bytes = bytes.saturating_mul(BYTES_A_BYTE);
    state.keep(&format!("{FOLDER}/{name}"), Arc::clone(session), looks, bytes);
}

/// Changes the session `id` under its lock; the answer is a warning where its file was damaged.
///
/// # Errors
/// `lock_timeout`, or as [`load`].
pub fn update(
    state: &State,
    id: &SessionId,
    change: impl FnOnce(&mut SessionState),
) -> Result<Option<String>, Error> {
    let folder = state.folder(FOLDER)?;
    let _lock = state.lock(folder.as_fd(), &lock_name(id.as_str()), &format!("session {id}"))?;
    let (session, warning) = load(state, id)?;
    let mut session = Arc::unwrap_or_clone(session);
    session.ended = false;
    change(&mut session);
    let internal = |error: serde_json::Error| Error::internal(error.to_string());
    let mut bytes = serde_json::to_vec(&session).map_err(internal)?;
    while bytes.len() as u64 > FILE_BYTES_MAX && session.drop_oldest() {
        bytes = serde_json::to_vec(&session).map_err(internal)?;
    }
    let aside = format!("{ASIDE_PREFIX}{id}.{}", unique_name("new"));
    let name = format!("{id}.json");
    let file = state.replace(folder.as_fd(), OsStr::new(&name), &bytes, &aside)?;
    if state.keeps_for_others()
        && let Ok(stat) = rustix::fs::fstat(&file)
    {
        keep(state, &name, &Arc::new(session), file, stat, bytes.len());
    }
    Ok(warning)
}

/// A session that the workspace knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownSession {
    /// Its name.
    pub id: SessionId,
    /// When its state file was last written, seconds since 1970.
    pub time: u64,
}

/// Every session that has a state file, the one used last first.
///
/// # Errors
/// What the system says.
pub fn list(state: &State) -> Result<Vec<KnownSession>, Error> {
    let Some(folder) = state.find_folder(FOLDER)? else {
        return Ok(Vec::new());
    };
    let mut known = Vec::new();
    for name in names_in(&folder)? {
        let id = name.strip_suffix(".json").and_then(|id| id.parse().ok());
        let stat = fs::stat_at(folder.as_fd(), OsStr::new(&name)).ok().filter(fs::is_regular);
        if let (Some(id), Some(stat)) = (id, stat) {
            known.push(KnownSession { id, time: u64::try_from(stat.st_mtime).unwrap_or(0) });
        }
    }
    known
        .sort_by(|one, other| other.time.cmp(&one.time).then_with(|| one.id.as_str().cmp(other.id.as_str())));
    Ok(known)
}

/// The session `id` as its file has it, for a look at others: a damaged or newer one is `None`, and
/// stays as it is.
#[must_use]
pub fn peek(state: &State, id: &SessionId) -> Option<SessionState> {
    let folder = state.find_folder(FOLDER).ok()??;
    let name = format!("{id}.json");
    let bytes = fs::read_at(folder.as_fd(), OsStr::new(&name), FILE_BYTES_MAX).ok()??;
    parse(&bytes, &state.shown(&format!("{FOLDER}/{name}"))).ok()?
}

/// The name of a session's lock.
fn lock_name(id: &str) -> String {
    format!("{id}.lock")
}

/// Whether a file of that name in the staging folder is a session's, whose owner is still at work.
///
/// Others may hold a session's lock without that of the workspace.
#[must_use]
pub fn is_in_use(state: &State, name: &str) -> bool {
    let Some((id, _)) = name.strip_prefix(ASIDE_PREFIX).and_then(|rest| rest.rsplit_once('.')) else {
        return false;
    };
    let Ok(Some(folder)) = state.find_folder(FOLDER) else {
        return false;
    };
    !matches!(state.try_lock(folder.as_fd(), &lock_name(id)), Ok(Some(_)))
}

/// The state in `bytes`, those of the file `shown`; `None` where they are damaged.
fn parse(bytes: &[u8], shown: &str) -> Result<Option<SessionState>, Error> {
    /// The one field that every version has.
    #[derive(Deserialize)]
    struct Versioned {
        /// Version of the format.
        version: u32,
    }
    let Ok(Versioned { version }) = serde_json::from_slice(bytes) else {
        return Ok(None);
    };
    if version > VERSION {
        return Err(Error::new(
            ErrorKind::IoError,
            format!("{shown} was written by a newer lbx (version {version})"),
        )
        .suggest("Use the newer lbx, or another session."));
    }
    let Ok(mut session) = serde_json::from_slice::<SessionState>(bytes) else {
        return Ok(None);
    };
    if session.seq > SEQ_MAX || session.after.is_some_and(|ended| ended.seq > SEQ_MAX) {
        return Ok(None);
    }
    for mark in &mut session.marks {
        mark.lines = Lines::from_ranges(std::mem::take(&mut mark.lines.0), usize::MAX);
    }
    session.marks.sort_by(|one, other| one.path.cmp(&other.path));
    session.marks.dedup_by(|one, other| one.path == other.path);
    Ok(Some(session))
}

/// Whether what stands in the state file's place is a folder, a link or far too large.
#[must_use]
pub fn is_no_state_file(source: &std::io::Error) -> bool {
    let errno = source.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::INVAL | Errno::FBIG | Errno::ISDIR | Errno::LOOP | Errno::NXIO))
}

/// Puts a damaged file aside, and says so.
fn set_aside(state: &State, folder: &OwnedFd, name: &str) -> String {
    let damaged = format!("{name}.damaged-{}", seconds_now());
    let where_to = match fs::rename_at(folder, name, folder, damaged.as_str()) {
        Ok(()) => format!("it was set aside as {}", state.shown(&format!("{FOLDER}/{damaged}"))),
        Err(errno) => format!("it could not be set aside ({errno})"),
    };
    format!("the session's state file was damaged, so nothing counts as read: {where_to}")
}

/// Seconds since 1970.
#[must_use]
pub fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Size of a file as a mark has it.
#[must_use]
pub fn size_of(stat: &Stat) -> u64 {
    fs::size_of(stat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_lines_join() {
        let mut lines = Lines::default();
        for (first, last) in [(5, 9), (1, 2), (3, 4), (20, 19), (30, 31), (8, 12)] {
            lines.add(first, last);
        }
        assert_eq!(lines.ranges(), [(1, 12), (30, 31)]);
        assert!(lines.cover(12) && !lines.cover(13));
        for (first, last, missing) in [
            (1, 12, vec![]),
            (1, 13, vec![(13, 13)]),
            (10, 40, vec![(13, 29), (32, 40)]),
            (30, 31, vec![]),
            (20, 20, vec![(20, 20)]),
            (5, 4, vec![]),
        ] {
            assert_eq!(lines.missing(first, last), missing, "{first}-{last}");
        }
        assert!(Lines::default().cover(0));
    }

    #[test]
    fn session_ids_are_validated() {
        for good in ["a", "A.b_c-9", &"x".repeat(100)] {
            assert!(good.parse::<SessionId>().is_ok(), "{good}");
        }
        for bad in ["", ".a", "a/b", "..", "a b", "ä", "a\n", &"x".repeat(101)] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn unknown_fields_of_a_state_file_survive() {
        let text = r#"{"version":1,"seq":3,"marks":[],"later":{"x":1}}"#;
        let session = parse(text.as_bytes(), "s").unwrap().unwrap();
        assert_eq!(session.seq, 3);
        assert!(serde_json::to_string(&session).unwrap().contains(r#""later":{"x":1}"#));
        assert!(parse(b"{\"version\":2}", "s").is_err());
        assert!(parse(b"{\"version\":1,\"marks\":7}", "s").unwrap().is_none());
        assert!(parse(b"", "s").unwrap().is_none());
        assert!(parse(br#"{"version":1,"seq":18446744073709551615}"#, "s").unwrap().is_none());
    }

    #[test]
    fn what_no_longer_fits_is_the_oldest() {
        let mut session = SessionState::default();
        for time in 0..10 {
            let path = WorkspacePath::new(format!("{}", 9 - time).as_ref()).unwrap();
            session.set_mark(Mark { time, ..Mark::of_everything(path, Sha256::of(b""), 0, 1) });
        }
        assert!(session.drop_oldest());
        let times: Vec<u64> = session.marks().iter().map(|mark| mark.time).collect();
        assert_eq!(times, [9, 8, 7, 6, 5]);
        while session.drop_oldest() {}
        assert!(session.marks().is_empty());
    }
}
