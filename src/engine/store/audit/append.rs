//! Records and files of the audit log, and appending to it: a record takes effect at [`Pending::end`].

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::store::lock::unique_name;
use crate::engine::store::state::{Lock, State, break_hard_links, names_in};
use crate::engine::store::{version_of, written_by_newer};
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::limits::AUDIT_FILE_BYTES_MAX;
use crate::platform;
use crate::sha256::{Hasher, Sha256};

/// Longest reason in a record, in characters; the snapshot has the full text.
const WHY_CHARS_MAX: usize = 1000;

/// A file that a call changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFile {
    /// Path from the root.
    pub path: String,
    /// SHA-256 of its bytes before; absent if there was no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_sha256: Option<Sha256>,
    /// SHA-256 of its bytes after; absent if there is no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_sha256: Option<Sha256>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Time, RFC 3339 with milliseconds, UTC.
    pub time: String,
    /// Session.
    pub session: String,
    /// Tool.
    pub tool: String,
    /// `ok`, or the kind of the error.
    pub outcome: String,
    /// Files concerned.
    pub files: Vec<AuditFile>,
    /// Commit that holds the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Id of the change, to check that its record exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// Verdict of the policy, `warn` or `off`, if the caller had not seen the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Caller's reason for the change, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Error message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Duration in milliseconds.
    pub duration_ms: u64,
}

/// Formats a time for a record, with a fixed length: RFC 3339 with milliseconds, UTC.
pub fn time_text(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Cuts a reason to the length for a record.
pub fn cut_reason(why: &str) -> String {
    let why = why.trim();
    if why.chars().count() <= WHY_CHARS_MAX {
        return why.to_owned();
    }
    why.chars().take(WHY_CHARS_MAX - 1).chain(['…']).collect()
}

/// Returns a record as JSON for a response.
pub fn as_value(record: &AuditRecord) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}

/// A record with the hashes of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChainedRecord {
    /// Record.
    #[serde(flatten)]
    pub(super) record: AuditRecord,
    /// Hash of the previous record; empty for the first one.
    pub(super) prev: String,
    /// Hash of this record and of `prev`.
    pub(super) hash: String,
}

/// Fields that the chain needs; the others may be long.
#[derive(Deserialize)]
pub(super) struct ChainFields {
    /// Id of the change.
    #[serde(default)]
    pub(super) change: Option<String>,
    /// Hash of the record.
    pub(super) hash: String,
}

/// Returns a record as JSON.
pub(super) fn json_of(record: &AuditRecord) -> Result<String, Error> {
    serde_json::to_string(record).map_err(|error| Error::internal(error.to_string()))
}

/// Returns the hash of a record, as JSON, that follows `prev`.
fn hash_of(json: &str, prev: &str) -> String {
    let mut hasher = Hasher::default();
    [prev, "\n", json].into_iter().for_each(|part| hasher.update(part.as_bytes()));
    hasher.finish().to_hex()
}

/// Returns the line of a record, as JSON, that follows `prev`, and its hash: [`Chained`] as JSON.
pub(super) fn line_of(mut json: String, prev: &str) -> Result<(String, String), Error> {
    #[derive(Serialize)]
    struct Rest<'a> {
        prev: &'a str,
        hash: &'a str,
    }
    let hash = hash_of(&json, prev);
    let rest = serde_json::to_string(&Rest { prev, hash: &hash });
    let rest = rest.map_err(|error| Error::internal(error.to_string()))?;
    // The brace that closes the record and the one that opens the rest become a comma.
    json.pop();
    json.push(',');
    json.push_str(rest.trim_start_matches('{'));
    Ok((json, hash))
}

/// Parses the fields that the chain needs from a line.
pub(super) fn parse(line: &[u8]) -> Option<ChainFields> {
    serde_json::from_slice(line).ok()
}

/// Returns a line of the log, with an error if it is not whole or does not follow the one before.
pub(super) fn check(line: &[u8], prev: Option<&str>) -> (Option<ChainedRecord>, Result<(), String>) {
    let Ok(chained) = serde_json::from_slice::<ChainedRecord>(line) else {
        return (None, Err("no whole record".to_owned()));
    };
    // The hash would miss fields that this version does not know, so the line must be exactly ours.
    let is_whole = serde_json::to_string(&chained).is_ok_and(|text| text.as_bytes() == line);
    let is_ours = |json: String| hash_of(&json, &chained.prev) == chained.hash;
    let outcome = if !is_whole || !json_of(&chained.record).is_ok_and(is_ours) {
        Err("this record was altered".to_owned())
    } else if prev.unwrap_or_default() != chained.prev {
        Err("the record before it was removed or altered".to_owned())
    } else {
        Ok(())
    };
    (Some(chained), outcome)
}

/// Folder of the log, below the state folder.
pub(super) const FOLDER: &str = "audit";
/// File to which calls append.
pub(super) const CURRENT: &str = "current.jsonl";
/// File with the count and hash of the newest record.
pub(super) const HEAD: &str = "head";
/// Version of the head that this code writes.
pub(super) const HEAD_VERSION: u32 = 1;
/// Size of the head in bytes: it is always written whole, in place.
const HEAD_BYTES: usize = 160;

/// Count and hash of the newest record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogHead {
    /// Version of the format.
    pub(super) version: u32,
    /// Records in the log.
    pub(super) records: u64,
    /// Hash of the newest record.
    pub(super) hash: String,
}

impl LogHead {
    /// Reads it; `None` if it is missing or damaged: a power failure may lose it.
    pub(super) fn read(folder: &OwnedFd) -> Option<Self> {
        Self::of(&fs::read_at(folder.as_fd(), OsStr::new(HEAD), HEAD_BYTES as u64).ok()??)
    }

    /// Reads it from its opened file, as [`Self::read`] does.
    pub(super) fn read_from(file: &File) -> Option<Self> {
        let mut bytes = [0; HEAD_BYTES + 1];
        let count = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut bytes, 0)).ok()?;
        Self::of(bytes.get(..count).filter(|bytes| bytes.len() <= HEAD_BYTES)?)
    }

    /// Parses the head.
    fn of(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(bytes).ok().filter(|head| head.version <= HEAD_VERSION)
    }

    /// Returns true if it was written by a newer lbx.
    fn is_newer(folder: &OwnedFd) -> bool {
        let bytes = fs::read_or_empty(folder.as_fd(), OsStr::new(HEAD), AUDIT_FILE_BYTES_MAX);
        version_of(&bytes) > HEAD_VERSION
    }

    /// Writes it over the previous one.
    pub(super) fn write(&self, file: &File) -> std::io::Result<()> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.resize(HEAD_BYTES, b' ');
        file.write_all_at(&bytes, 0)
    }
}

/// Opens a file of the log for reading and writing, created if missing; also returns its size. Renames anything but a
/// regular file first, and copies one that has another name.
fn open(folder: &OwnedFd, name: &str, flags: OFlags) -> std::io::Result<(File, u64)> {
    let flags = flags | OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = || rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600));
    match regular(rustix::io::retry_on_intr(open)) {
        Err(Errno::INVAL | Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::NODEV) => {
            fs::rename_at(folder, name, folder, unique_name(&format!("{name}.aside")))?;
        }
        Ok((_, stat)) if break_hard_links(folder.as_fd(), name.as_ref(), &stat, AUDIT_FILE_BYTES_MAX)? => {}
        opened => return Ok(opened.map(|(file, stat)| (file, fs::size_of(&stat)))?),
    }
    let (file, stat) = regular(rustix::io::retry_on_intr(open))?;
    Ok((file, fs::size_of(&stat)))
}

/// Returns the opened file and its stat; `EINVAL` for anything but a regular file.
fn regular(opened: Result<OwnedFd, Errno>) -> Result<(File, Stat), Errno> {
    let file = File::from(opened?);
    let stat = rustix::fs::fstat(&file)?;
    if fs::is_regular(&stat) { Ok((file, stat)) } else { Err(Errno::INVAL) }
}

/// Returns the numbers of the full files, oldest first.
pub(super) fn full_files(folder: &OwnedFd) -> Result<Vec<u32>, Error> {
    let names = names_in(folder)?;
    let numbers = names.iter().filter_map(|name| {
        let number: u32 = name.strip_suffix(".jsonl")?.parse().ok()?;
        (name_of(number) == *name).then_some(number)
    });
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns the name of a full file.
pub(super) fn name_of(number: u32) -> String {
    format!("{number:06}.jsonl")
}

/// Renames the full file to the next number.
pub(super) fn set_aside(state: &State, folder: &OwnedFd) -> Result<(), Error> {
    let io = |errno| Error::io("write", state.display(FOLDER), errno);
    let last = full_files(folder)?.pop().unwrap_or(0);
    let number = last.checked_add(1).ok_or_else(|| io(rustix::io::Errno::OVERFLOW))?;
    fs::rename_at(folder, CURRENT, folder, name_of(number)).map_err(io)
}

/// Lock held while appending.
const LOCK: &str = "lock";
/// Size at which a file is full, in bytes.
const FILE_BYTES: u64 = 16 << 20;
/// Bytes at the end of the file that are read first to find the last record.
const NEAR_BYTES: u64 = 4 << 10;
/// Bytes that are read next, if a record is longer; then the whole file.
const TAIL_BYTES: [u64; 2] = [64 << 10, 1 << 20];

/// Durability of a record before the call goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Synced, as for a change.
    Yes,
    /// Not synced, as for an error.
    No,
}

/// Appends a record to the log.
///
/// # Errors
/// Returns `lock_timeout`, or the OS error; the log is unchanged then.
pub fn append(state: &State, record: &AuditRecord, durable: Durability) -> Result<(), Error> {
    begin(state, record)?.end(state, durable)
}

/// A written record that is not in effect yet.
#[derive(Debug)]
pub struct PendingRecord {
    /// Lock that keeps others away.
    _lock: Lock,
    /// Log file, to be synced.
    pub file: File,
    /// Folder of the log.
    folder: Arc<OwnedFd>,
    /// Length of the log before.
    length: u64,
    /// Next head.
    head: LogHead,
    /// File of the head.
    head_file: File,
}

impl PendingRecord {
    /// Puts the record into effect; if `durable`, once it is on disk.
    ///
    /// # Errors
    /// Returns the OS error; the log is unchanged then.
    pub fn end(self, state: &State, durable: Durability) -> Result<(), Error> {
        let io = |source: std::io::Error| Error::io("write", state.display(FOLDER), source);
        if durable == Durability::Yes {
            let folder = (self.length == 0).then_some(&*self.folder);
            if let Err(source) = sync(&self.file, folder) {
                // A partial record would look like damage.
                let _ = rustix::fs::ftruncate(&self.file, self.length);
                return Err(io(source));
            }
        }
        // Only now, since the head claims that the record exists.
        self.head.write(&self.head_file).map_err(io)
    }
}

/// Writes a record at the end of the log.
///
/// # Errors
/// As [`append`].
pub fn begin(state: &State, record: &AuditRecord) -> Result<PendingRecord, Error> {
    let folder = state.folder(FOLDER)?;
    let lock = state.lock(folder.as_fd(), LOCK, "the audit log")?;
    let io = |source: std::io::Error| Error::io("write", state.display(FOLDER), source);
    let (head_file, _) = open(&folder, HEAD, OFlags::empty()).map_err(io)?;
    let head = LogHead::read_from(&head_file);
    if head.is_none() && LogHead::is_newer(&folder) {
        return Err(written_by_newer("the audit log"));
    }
    let (mut file, size) = open(&folder, CURRENT, OFlags::APPEND).map_err(io)?;
    let mut end = LogEnd::of(&file, size, head.as_ref()).map_err(io)?;
    if end.length >= FILE_BYTES {
        set_aside(state, &folder)?;
        (file, _) = open(&folder, CURRENT, OFlags::APPEND).map_err(io)?;
        (end.start, end.length, end.is_cut) = (0, 0, false);
    }
    if end.hash.is_empty() || !end.knows_head {
        let older = end_of_older(state, &folder, head.as_ref())?;
        if end.hash.is_empty() {
            end.hash = older.hash;
        }
        (end.knows_head, end.later) = (end.knows_head || older.knows_head, end.later + older.later);
    }
    if end.is_cut && end.knows_head {
        // A partial record of a dead call or a power failure was never part of the log.
        rustix::io::retry_on_intr(|| rustix::fs::ftruncate(&file, end.start))
            .map_err(|errno| io(errno.into()))?;
        (end.length, end.is_cut) = (end.start, false);
    }
    // If the end was cut off, the chain continues from the missing record, so that the gap shows.
    let prev = match &head {
        Some(head) if !end.knows_head => head.hash.clone(),
        _ => end.hash,
    };
    // A call that was killed may have written a record without its head.
    let unnamed = if end.knows_head { end.later } else { 0 };
    let records = head.map_or(0, |head| head.records).saturating_add(unnamed).saturating_add(1);
    let (mut line, hash) = line_of(json_of(record)?, &prev)?;
    line.push('\n');
    if end.is_cut {
        line.insert(0, '\n');
    }
    let length = end.length;
    if let Err(source) = file.write_all(line.as_bytes()) {
        let _ = rustix::fs::ftruncate(&file, length);
        return Err(io(source));
    }
    let head = LogHead { version: HEAD_VERSION, records, hash };
    Ok(PendingRecord { _lock: lock, file, folder, length, head, head_file })
}

/// Syncs the log, and the folder of a new one. Syncs all metadata of the log's inode: if the file system keeps the
/// order of writes, earlier renames become durable with it.
fn sync(file: &File, folder: Option<&OwnedFd>) -> std::io::Result<()> {
    platform::sync(file)?;
    Ok(folder.map_or(Ok(()), platform::sync)?)
}

/// End of a file of the log.
#[derive(Debug, Default)]
struct LogEnd {
    /// Hash of the last whole record; empty if there is no record.
    hash: String,
    /// Offset after the last line.
    start: u64,
    /// Size of the file in bytes.
    length: u64,
    /// True if a partial record follows.
    is_cut: bool,
    /// True if the record that the head names was found, or if there is no head.
    knows_head: bool,
    /// Records after that one.
    later: u64,
}

impl LogEnd {
    /// Finds the end of a file of `size` bytes.
    fn of(file: &File, size: u64, head: Option<&LogHead>) -> std::io::Result<Self> {
        let mut end = Self { length: size, knows_head: head.is_none(), ..Self::default() };
        let [tail, long_tail] = TAIL_BYTES;
        for tail in [NEAR_BYTES, tail, long_tail, AUDIT_FILE_BYTES_MAX] {
            let start = size.saturating_sub(tail);
            let mut bytes = vec![0; usize::try_from(size - start).unwrap_or(0)];
            file.read_exact_at(&mut bytes, start)?;
            let last_line = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            (end.start, end.is_cut) = (start + last_line as u64, last_line < bytes.len());
            (end.later, end.knows_head) = (0, head.is_none());
            let mut newest = None;
            // From the end: the last record is nearly always the one that the head names.
            for record in bytes.rsplit(|byte| *byte == b'\n').filter_map(parse) {
                end.knows_head |= head.is_some_and(|head| head.hash == record.hash);
                newest.get_or_insert(record.hash);
                if end.knows_head {
                    break;
                }
                end.later += 1;
            }
            end.hash = newest.unwrap_or(end.hash);
            if start == 0 || (end.knows_head && !end.hash.is_empty()) {
                break;
            }
        }
        Ok(end)
    }
}

/// Returns the end of the newest full file.
fn end_of_older(state: &State, folder: &OwnedFd, head: Option<&LogHead>) -> Result<LogEnd, Error> {
    let Some(newest) = full_files(folder)?.pop() else {
        return Ok(LogEnd { knows_head: head.is_none(), ..LogEnd::default() });
    };
    let io = |source: std::io::Error| Error::io("read", state.display(FOLDER), source);
    let file = fs::open_at(folder.as_fd(), OsStr::new(&name_of(newest)), fs::READ);
    match file.map(File::from) {
        Ok(file) => match rustix::fs::fstat(&file) {
            Ok(stat) if fs::is_regular(&stat) => LogEnd::of(&file, fs::size_of(&stat), head).map_err(io),
            _ => Ok(LogEnd::default()),
        },
        // The gap shows, since the chain continues from the head.
        Err(_) => Ok(LogEnd::default()),
    }
}
