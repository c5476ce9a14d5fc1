//! Work of a call that ends with its response: its size is known then, and what it shows counts as read only if the caller
//! got it. The marks are saved before, since the caller may go on in another process at once, and taken back otherwise.
//! And the call counters for `stats`: bytes returned, and the calls that are not in the audit log.
//!
//! `.lbx/ID/calls/current` has a line for each call: session, tool, calls, bytes and milliseconds, separated by tabs. A
//! call appends its line in one write after its response, without a lock and without a sync: a power failure may lose
//! the newest lines, and only sums depend on them. A full file is renamed to `NNNNNN`. It is added to `sums` when the
//! next one is full: by then every call that had it open has written its line. `sums` names the last file that it
//! includes, so a process may be killed anywhere in between.
//!
//! And a log of the newest events of client hooks: `doctor` shows whether a client sends them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::lock::unique_name;
use super::session::{self, ReadRecord, SessionId, SessionState};
use super::state::{Lock, State, break_hard_links, names_in};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs};
use crate::error::Error;
use crate::limits::{CALLS_FILE_BYTES_MAX, HOOK_LOG_BYTES_MAX};

/// Folder of the counters, below the state folder.
const FOLDER: &str = "calls";
/// File to which calls append.
const CURRENT: &str = "current";
/// Sums of the full files that were removed.
const SUMS: &str = "sums";
/// Temporary name of new sums.
const SUMS_ASIDE: &str = "sums.new";
/// Lock held while files are added up.
const LOCK: &str = "lock";
/// Size of a full file, in bytes: some 4,000 calls.
const FILE_BYTES: u64 = 128 << 10;
/// Number of calls per check of the file's size.
const LOOK_EVERY: u64 = 16;
/// Most sessions listed in `sums`.
const SESSIONS_MAX: usize = 1000;
/// Name for all older sessions together; not a valid session name.
const OLDER: &str = "(older)";

/// A call whose response is not out yet.
#[derive(Debug)]
pub struct Delivery {
    /// Workspace of the call.
    pub(in crate::engine) workspace: Workspace,
    /// Session.
    pub(in crate::engine) session: SessionId,
    /// Tool.
    pub(in crate::engine) tool: String,
    /// State as the call found it, if it did.
    pub(in crate::engine) found: Option<State>,
    /// Path of the state in which the call is counted, if there is one.
    pub(in crate::engine) counted_in: Option<WorkspacePath>,
    /// Part of the counters that is known before the response is out; `None` for a call that is not counted.
    pub(in crate::engine) sum: Option<CallSum>,
    /// Read marks for what the response shows, until they are saved.
    pub seen: Vec<ReadRecord>,
    /// Saved marks, each with the mark that was there before.
    pub(in crate::engine) saved: Vec<(ReadRecord, Option<ReadRecord>)>,
}

/// Session and tool of a call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallKey {
    /// Session.
    pub session: String,
    /// Tool.
    pub tool: String,
}

/// Sum of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallSum {
    /// Number of calls that are not in the audit log.
    pub calls: u64,
    /// Bytes returned, by all calls.
    pub bytes: u64,
    /// Duration of the calls that are not in the audit log, in milliseconds.
    pub duration_ms: u64,
}

impl CallSum {
    /// Adds another sum.
    fn add(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.duration_ms = self.duration_ms.saturating_add(other.duration_ms);
    }
}

impl Delivery {
    /// Saves the marks, for the calls that follow the response; returns a warning for it if the session's state is damaged,
    /// or the marks cannot be saved. A workspace that cannot be written can still be read.
    pub fn save(&mut self) -> Option<String> {
        self.save_marks().unwrap_or_else(|error| {
            Some(format!("cannot record the read for this session: {}", error.message()))
        })
    }

    /// Saves the marks that the state does not have, if there are any, and keeps copies of the shown files.
    fn save_marks(&mut self) -> Result<Option<String>, Error> {
        let mut seen = std::mem::take(&mut self.seen);
        if seen.is_empty() {
            return Ok(None);
        }
        let found = self.found.take();
        let is_found = found.is_some();
        let state = found.map_or_else(|| State::open(&self.workspace), Ok)?;
        self.counted_in = Some(state.path().clone());
        let (session, warning) = session::load(&state, &self.session)?;
        let is_known = |mark: &ReadRecord| {
            session.mark(&mark.path).is_some_and(|known| {
                known.sha256 == mark.sha256
                    && mark.lines.ranges().iter().all(|&(first, last)| known.shows(first, last))
            })
        };
        seen.retain(|mark| !is_known(mark));
        if seen.is_empty() {
            return Ok(warning);
        }
        if is_found {
            state.keep_from_git()?;
        }
        for mark in &seen {
            // Without a copy the caller has to read again once another program has changed the file.
            let _ = session::keep_shown(&state, self.workspace.root_fd(), mark);
        }
        let mut saved = Vec::new();
        let later = session::update(&state, &self.session, |session| {
            saved = seen.into_iter().map(|mark| save_mark(&state, session, mark)).collect();
        })?;
        self.saved = saved;
        Ok(warning.or(later))
    }

    /// Returns true if it has saved marks.
    pub const fn has_marks(&self) -> bool {
        !self.saved.is_empty()
    }

    /// Takes the saved marks back, since the caller did not get the response. A mark that has changed since is removed. If
    /// that fails, what nobody saw counts as read: the disk is full or gone, and no change can be made either.
    pub fn revoke(self) {
        let Self { workspace, session: id, saved, .. } = self;
        let Some(state) = State::find(&workspace).ok().flatten().filter(|_| !saved.is_empty()) else {
            return;
        };
        let _ = session::update(&state, &id, |session| {
            for (mark, before) in saved {
                let is_ours = session.mark(&mark.path).as_ref() == Some(&mark);
                let before = before.filter(|_| is_ours).into_iter().collect();
                session.exchange_marks(&[mark.path], before);
            }
        });
    }

    /// Counts the call with the size of its response. Ignores errors: the response is already out, and matters more.
    pub fn count(&self, bytes: usize) {
        let (Some(state), Some(sum)) = (&self.counted_in, self.sum) else { return };
        let key = CallKey { session: self.session.to_string(), tool: self.tool.clone() };
        let sum = CallSum { bytes: u64::try_from(bytes).unwrap_or(u64::MAX), ..sum };
        let path = state.join(FOLDER.as_ref()).join(CURRENT.as_ref());
        let opened = match fs::open_beneath(self.workspace.root_fd(), &path, fs::ADD) {
            Err(Errno::NOENT) => make(&self.workspace),
            opened => opened.ok().map(File::from),
        };
        let Some(mut file) = opened else { return };
        if rustix::fs::fstat(&file).is_ok_and(|stat| stat.st_nlink > 1) {
            // Another name of it may be someone else's. The next call begins another file.
            let _ = add_up(&self.workspace);
            return;
        }
        let _ = file.write_all(line(&key, sum).as_bytes());
        if looks() && rustix::fs::fstat(&file).is_ok_and(|stat| fs::size_of(&stat) >= FILE_BYTES) {
            add_up(&self.workspace);
        }
    }
}

/// Adds a mark to a session, and drops the copies of earlier versions that no mark needs any more; returns the mark as it
/// is now, and as it was before.
fn save_mark(
    state: &State,
    session: &mut SessionState,
    mark: ReadRecord,
) -> (ReadRecord, Option<ReadRecord>) {
    let before = session.mark(&mark.path);
    let known = before.as_ref().filter(|known| known.sha256 != mark.sha256);
    let kept = known.map(ReadRecord::shown_before_foreign_change).unwrap_or_default();
    let left = known.into_iter().flat_map(ReadRecord::versions);
    session::forget_shown(state, left.filter(|left| !kept.iter().any(|version| version.sha256 == *left)));
    session.add_mark(mark.clone());
    (session.mark(&mark.path).unwrap_or(mark), before)
}

/// Returns the sums of all calls, by session and tool; empty if nothing is known.
pub fn sums(state: &State) -> BTreeMap<CallKey, CallSum> {
    let Ok(Some(folder)) = state.find_folder(FOLDER) else { return BTreeMap::new() };
    // In a read-only workspace no call adds files up, so no lock is needed.
    let _lock = state.lock(folder.as_fd(), LOCK, "the counted calls").ok();
    let mut sums = CallSums::read(&folder);
    for (number, name) in numbered(&folder) {
        sums.add_file(&folder, number, &name);
    }
    sums.add_lines(&folder, CURRENT);
    sums.of
}

/// Returns true if this call checks the size of the file. Most processes make one call, so the clock gives the start of
/// each process's count.
fn looks() -> bool {
    static CALLS: OnceLock<AtomicU64> = OnceLock::new();
    let calls = CALLS.get_or_init(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        AtomicU64::new(now.map_or(0, |since| u64::from(since.subsec_micros())))
    });
    calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK_EVERY)
}

/// Opens the growing file for appending; creates it if missing.
fn make(workspace: &Workspace) -> Option<File> {
    let folder = State::find(workspace).ok()??.folder(FOLDER).ok()?;
    let (flags, mode) = (fs::ADD | OFlags::CREATE, Mode::from_raw_mode(0o600));
    rustix::io::retry_on_intr(|| rustix::fs::openat(&folder, CURRENT, flags, mode)).ok().map(File::from)
}

/// Starts a new file, and adds up the full ones before it, unless another call does so.
fn add_up(workspace: &Workspace) -> Option<()> {
    let state = State::find(workspace).ok()??;
    let folder = state.find_folder(FOLDER).ok()??;
    let lock = state.try_lock(folder.as_fd(), LOCK).ok()??;
    // Another call may have been faster.
    let stat = fs::stat_at(folder.as_fd(), OsStr::new(CURRENT)).ok()?;
    (fs::size_of(&stat) >= FILE_BYTES || stat.st_nlink > 1).then(|| begin_new(&folder, &lock))?
}

/// Starts a new file, and adds up the full ones before it. A later call repeats a failed step.
fn begin_new(folder: &OwnedFd, _lock: &Lock) -> Option<()> {
    let full = numbered(folder);
    let mut sums = CallSums::read(folder);
    let through = sums.through;
    for (number, name) in &full {
        sums.add_file(folder, *number, name);
    }
    if sums.through != through {
        sums.write(folder)?;
    }
    for (_, name) in &full {
        let _ = fs::unlink_at(folder, name, AtFlags::empty());
    }
    fs::rename_at(folder, CURRENT, folder, format!("{:06}", sums.through.saturating_add(1))).ok()
}

/// Returns the full files with their numbers, oldest first.
fn numbered(folder: &OwnedFd) -> Vec<(u64, String)> {
    let names = names_in(folder).unwrap_or_default();
    let mut found: Vec<(u64, String)> =
        names.into_iter().filter_map(|name| Some((name.parse().ok()?, name))).collect();
    found.sort();
    found
}

/// The file `sums`: a line with the number of the last file that it includes, then lines as in the others; the session
/// used last is at the end.
#[derive(Debug, Default)]
struct CallSums {
    /// Number of the last full file that it includes.
    through: u64,
    /// Sums.
    of: BTreeMap<CallKey, CallSum>,
    /// Sessions; the one used last is at the end.
    sessions: Vec<String>,
}

impl CallSums {
    /// Reads it; empty if it is missing or damaged.
    fn read(folder: &OwnedFd) -> Self {
        let mut sums = Self::default();
        let text = read(folder, SUMS);
        let mut lines = text.lines();
        if let Some(through) = lines.next().and_then(|line| line.parse().ok()) {
            sums.through = through;
            sums.add(lines);
        }
        sums
    }

    /// Adds a full file, unless it is included already.
    fn add_file(&mut self, folder: &OwnedFd, number: u64, name: &str) {
        if number > self.through {
            self.add_lines(folder, name);
            self.through = number;
        }
    }

    /// Adds the lines of a file.
    fn add_lines(&mut self, folder: &OwnedFd, name: &str) {
        self.add(read(folder, name).lines());
    }

    /// Adds lines; skips a cut one.
    fn add<'a>(&mut self, lines: impl Iterator<Item = &'a str>) {
        let mut used: BTreeMap<String, usize> = BTreeMap::new();
        for (number, (key, sum)) in lines.filter_map(parse).enumerate() {
            used.insert(key.session.clone(), number);
            self.of.entry(key).or_default().add(sum);
        }
        self.sessions.retain(|session| !used.contains_key(session));
        let mut used: Vec<(usize, String)> =
            used.into_iter().map(|(session, last)| (last, session)).collect();
        used.sort();
        self.sessions.extend(used.into_iter().map(|(_, session)| session));
        self.fold_older();
    }

    /// Joins the oldest sessions to one, except the newest few.
    fn fold_older(&mut self) {
        let excess = self.sessions.len().saturating_sub(SESSIONS_MAX);
        let older: Vec<String> = self.sessions.drain(..excess).collect();
        for session in older {
            let tools: Vec<CallKey> = self.of.keys().filter(|key| key.session == session).cloned().collect();
            for key in tools {
                let sum = self.of.remove(&key).unwrap_or_default();
                self.of.entry(CallKey { session: OLDER.to_owned(), ..key }).or_default().add(sum);
            }
        }
    }

    /// Writes it.
    fn write(&self, folder: &OwnedFd) -> Option<()> {
        let mut text = format!("{}\n", self.through);
        for session in std::iter::once(OLDER).chain(self.sessions.iter().map(String::as_str)) {
            let of_session = self.of.iter().filter(|(key, _)| key.session == session);
            of_session.for_each(|(key, sum)| text.push_str(&line(key, *sum)));
        }
        // Left by a killed call.
        let _ = fs::unlink_at(folder, SUMS_ASIDE, AtFlags::empty());
        let mut file = fs::create_at(folder.as_fd(), OsStr::new(SUMS_ASIDE), 0o600).ok()?;
        file.write_all(text.as_bytes()).ok()?;
        fs::rename_at(folder, SUMS_ASIDE, folder, SUMS).ok()
    }
}

/// Returns the text of a file; empty if it is missing or unreadable.
fn read(folder: &OwnedFd, name: &str) -> String {
    let bytes = fs::read_or_empty(folder.as_fd(), OsStr::new(name), CALLS_FILE_BYTES_MAX);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Formats a line.
fn line(key: &CallKey, sum: CallSum) -> String {
    let mut line = String::new();
    // Writing to a string cannot fail.
    let _ =
        writeln!(line, "{}\t{}\t{}\t{}\t{}", key.session, key.tool, sum.calls, sum.bytes, sum.duration_ms);
    line
}

/// Parses a line; `None` if it was cut.
fn parse(line: &str) -> Option<(CallKey, CallSum)> {
    let mut fields = line.split('\t');
    let (session, tool) = (fields.next()?.to_owned(), fields.next()?.to_owned());
    let mut number = || fields.next()?.parse().ok();
    let sum = CallSum { calls: number()?, bytes: number()?, duration_ms: number()? };
    fields.next().is_none().then_some((CallKey { session, tool }, sum))
}

/// Name of the file, in the state folder.
const NAME: &str = "hooks.jsonl";
/// Beginning of the names of the files that mark a session whose hooks have failed.
const FAILURE: &str = "hooks-failed.";
/// Size in bytes from which the older half is removed.
const FULL_BYTES: usize = 64 << 10;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRecord {
    /// Time, in seconds since 1970.
    pub time: u64,
    /// Client.
    pub client: String,
    /// Event.
    pub event: String,
    /// Tool of the client, if the event is about one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// Result: `ok`, `denied`, or the kind of the error.
    pub outcome: String,
    /// Duration, in milliseconds.
    pub duration_ms: u64,
}

/// Adds an event.
///
/// # Errors
/// Returns the OS error.
pub fn add(state: &State, record: &HookRecord) -> Result<(), Error> {
    let io = |source: std::io::Error| Error::io("write", state.display(NAME), source);
    let mut line = serde_json::to_vec(record).map_err(|error| Error::internal(error.to_string()))?;
    line.push(b'\n');
    let opened = fs::open_at(state.fd(), OsStr::new(NAME), fs::ADD);
    let file = match opened {
        Ok(file) => std::fs::File::from(file),
        Err(rustix::io::Errno::NOENT) => {
            return state.replace(state.fd(), OsStr::new(NAME), &line, &unique_name("hooks")).map(drop);
        }
        Err(errno) => return Err(io(errno.into())),
    };
    let name = OsStr::new(NAME);
    let stat = rustix::fs::fstat(&file).map_err(|errno| io(errno.into()))?;
    if break_hard_links(state.fd().as_fd(), name, &stat, HOOK_LOG_BYTES_MAX).map_err(io)? {
        return add(state, record);
    }
    (&file).write_all(&line).map_err(io)?;
    let size = rustix::fs::fstat(&file).map(|stat| fs::size_of(&stat)).unwrap_or_default();
    if size > FULL_BYTES as u64 {
        let bytes = fs::read_or_empty(state.fd(), OsStr::new(NAME), HOOK_LOG_BYTES_MAX);
        let newer = bytes.get(bytes.len() / 2..).unwrap_or_default();
        let start = newer.iter().position(|byte| *byte == b'\n').map_or(newer.len(), |at| at + 1);
        let newer = newer.get(start..).unwrap_or_default();
        state.replace(state.fd(), OsStr::new(NAME), newer, &unique_name("hooks"))?;
    }
    Ok(())
}

/// Returns true if no failure of a session's hooks was told yet, and notes that this one is.
pub fn is_first_failure(state: &State, session: &str) -> bool {
    let name = format!("{FAILURE}{session}");
    !matches!(fs::create_at(state.fd(), OsStr::new(&name), 0o600), Err(rustix::io::Errno::EXIST))
}

/// Returns true for the name of a file that [`is_first_failure`] made.
pub fn is_failure(name: &str) -> bool {
    name.starts_with(FAILURE)
}

/// Returns the newest events, newest first, at most `count`.
pub fn newest(state: &State, count: usize) -> Vec<HookRecord> {
    let bytes = fs::read_or_empty(state.fd(), OsStr::new(NAME), HOOK_LOG_BYTES_MAX);
    let lines = bytes.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    lines.take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_log_lines_round_trip_and_broken_ones_are_skipped() {
        let key = CallKey { session: "s".to_owned(), tool: "read".to_owned() };
        let sum = CallSum { calls: 1, bytes: 20, duration_ms: 3 };
        assert_eq!(parse(line(&key, sum).trim_end()), Some((key, sum)));
        for broken in
            ["", "s", "s\tread\t1\t2", "s\tread\t1\t2\tx", "s\tread\t1\t2\t3\t4", "s\tread\t-1\t2\t3"]
        {
            assert_eq!(parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn older_sessions_are_summed_into_one_entry() {
        let mut sums = CallSums::default();
        let sessions = (0..SESSIONS_MAX + 2).chain([0]).map(|number| format!("s{number}\tread\t1\t2\t3"));
        let text = sessions.collect::<Vec<_>>().join("\n");
        sums.add(text.lines());
        let of = |session: &str| {
            let key = CallKey { session: session.to_owned(), tool: "read".to_owned() };
            sums.of.get(&key).map(|sum| sum.calls)
        };
        // The first one was used again at the end.
        assert_eq!(
            [of("s0"), of("s1"), of("s2"), of("s3"), of(OLDER)],
            [Some(2), None, None, Some(1), Some(2)]
        );
        assert_eq!((sums.of.len(), sums.sessions.len()), (SESSIONS_MAX + 1, SESSIONS_MAX));
    }
}
