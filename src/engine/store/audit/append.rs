//! The records and files of the audit log, and adding to it: a record is in force once it is ended.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::store::lock::unique_name;
use crate::engine::store::state::{Lock, State, names_in};
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::sha256::{Hasher, Sha256};

/// Longest reason in a record, in characters; the snapshot has all of it.
const WHY_CHARS_MAX: usize = 1000;
/// Paths in a record; beyond these only their number.
pub const PATHS_MAX: usize = 1000;

/// A file that a call changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFile {
    /// Its path from the root.
    pub path: String,
    /// SHA-256 of its bytes before; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_sha256: Option<Sha256>,
    /// SHA-256 of its bytes after; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_sha256: Option<Sha256>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// When, RFC 3339 with milliseconds, UTC.
    pub time: String,
    /// Whose call.
    pub session: String,
    /// The tool.
    pub tool: String,
    /// `ok`, or the kind of the refusal.
    pub outcome: String,
    /// The files concerned.
    pub files: Vec<AuditFile>,
    /// The commit that holds the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The change's own name, by which a record is known to be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// Verdict of the policy, `warn` or `off`, if its caller had not seen the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Why the caller made the change, where that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Message of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// Returns a time as a record has it, always as long: RFC 3339 with milliseconds, UTC.
#[must_use]
pub fn time_text(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Returns a reason as a record has it.
#[must_use]
pub fn short_why(why: &str) -> String {
    let why = why.trim();
    if why.chars().count() <= WHY_CHARS_MAX {
        return why.to_owned();
    }
    why.chars().take(WHY_CHARS_MAX - 1).chain(['…']).collect()
}

/// Returns a record's value for the answer.
#[must_use]
pub fn as_value(record: &AuditRecord) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}

/// A record as it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chained {
    /// The call.
    #[serde(flatten)]
    pub(super) record: AuditRecord,
    /// Hash of the record before; empty in the first.
    pub(super) prev: String,
    /// Hash of this record and of `prev`.
    pub(super) hash: String,
}

/// Fields of a record that the chain needs; the rest may be long.
#[derive(Deserialize)]
pub(super) struct Link {
    /// The change's own name.
    #[serde(default)]
    pub(super) change: Option<String>,
    /// Hash of the record.
    pub(super) hash: String,
}

/// Returns a record as JSON.
pub(super) fn json_of(record: &AuditRecord) -> Result<String, Error> {
    serde_json::to_string(record).map_err(|error| Error::internal(error.to_string()))
}

/// Returns the hash of a record, as JSON, after another.
fn hash_of(json: &str, prev: &str) -> String {
    let mut hasher = Hasher::default();
    [prev, "\n", json].into_iter().for_each(|part| hasher.update(part.as_bytes()));
    hasher.finish().to_hex()
}

/// Returns the line of a record, as JSON, after another, and its hash: [`Chained`] as JSON.
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
pub(super) fn parse(line: &[u8]) -> Option<Link> {
    serde_json::from_slice(line).ok()
}

/// Returns a line of the log, and whether it is whole and follows the one before.
pub(super) fn check(line: &[u8], prev: Option<&str>) -> (Option<Chained>, Result<(), String>) {
    let Ok(chained) = serde_json::from_slice::<Chained>(line) else {
        return (None, Err("no whole record".to_owned()));
    };
    // Fields that this version does not know would be lost in the hash: the line must be just ours.
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
/// The file that grows.
pub(super) const CURRENT: &str = "current.jsonl";
/// The newest record, by count and hash.
pub(super) const HEAD: &str = "head";
/// Version of the head that this code writes.
pub(super) const HEAD_VERSION: u32 = 1;
/// Size of the head: it is always written whole, in place.
const HEAD_BYTES: usize = 160;
/// Size of a file that is read back: a full one, and the longest record.
pub(super) const FILE_BYTES_MAX: u64 = 48 << 20;

/// Count and hash of the newest record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// Version of the format.
    pub(super) version: u32,
    /// Records in the log.
    pub(super) records: u64,
    /// Hash of the newest.
    pub(super) hash: String,
}

impl Head {
    /// Reads it; `None` where there is none, or a damaged one: a power failure may take it.
    pub(super) fn read(folder: &OwnedFd) -> Option<Self> {
        Self::of(&fs::read_at(folder.as_fd(), OsStr::new(HEAD), HEAD_BYTES as u64).ok()??)
    }

    /// Reads it from its opened file, as [`Self::read`] does.
    pub(super) fn read_from(file: &File) -> Option<Self> {
        let mut bytes = [0; HEAD_BYTES + 1];
        let count = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut bytes, 0)).ok()?;
        Self::of(bytes.get(..count).filter(|bytes| bytes.len() <= HEAD_BYTES)?)
    }

    /// Returns the head that these bytes are.
    fn of(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(bytes).ok().filter(|head| head.version <= HEAD_VERSION)
    }

    /// Writes it in place of the one before.
    pub(super) fn write(&self, file: &File) -> std::io::Result<()> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.resize(HEAD_BYTES, b' ');
        file.write_all_at(&bytes, 0)
    }
}

/// Opens a file of the log for reading and writing, made if it is missing; returns its size too. Anything but a regular
/// file gets another name first.
fn open(folder: &OwnedFd, name: &str, flags: OFlags) -> std::io::Result<(File, u64)> {
    let flags = flags | OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = || rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600));
    match regular(rustix::io::retry_on_intr(open)) {
        Err(Errno::INVAL | Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::NODEV) => {
            fs::rename_at(folder, name, folder, unique_name(&format!("{name}.aside")))?;
            Ok(regular(rustix::io::retry_on_intr(open))?)
        }
        opened => Ok(opened?),
    }
}

/// Returns the opened file and its size; `EINVAL` for anything but a regular file.
fn regular(opened: Result<OwnedFd, Errno>) -> Result<(File, u64), Errno> {
    let file = File::from(opened?);
    let stat = rustix::fs::fstat(&file)?;
    if fs::is_regular(&stat) { Ok((file, fs::size_of(&stat))) } else { Err(Errno::INVAL) }
}

/// Returns the numbers of the files that were set aside, the oldest first.
pub(super) fn older(folder: &OwnedFd) -> Result<Vec<u32>, Error> {
    let names = names_in(folder)?;
    let numbers = names.iter().filter_map(|name| {
        let number: u32 = name.strip_suffix(".jsonl")?.parse().ok()?;
        (name_of(number) == *name).then_some(number)
    });
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns the name of a file that was set aside.
pub(super) fn name_of(number: u32) -> String {
    format!("{number:06}.jsonl")
}

/// Sets the full file aside under the next number.
pub(super) fn set_aside(state: &State, folder: &OwnedFd) -> Result<(), Error> {
    let io = |errno| Error::io("write", state.shown(FOLDER), errno);
    let last = older(folder)?.pop().unwrap_or(0);
    let number = last.checked_add(1).ok_or_else(|| io(rustix::io::Errno::OVERFLOW))?;
    fs::rename_at(folder, CURRENT, folder, name_of(number)).map_err(io)
}

/// The lock that is held while it grows.
const LOCK: &str = "lock";
/// Size at which the file is set aside, in bytes.
const FILE_BYTES: u64 = 16 << 20;
/// How much of the end of the file is read first, to find the last record.
const NEAR_BYTES: u64 = 4 << 10;
/// How much is read where that is less than a record; where that is not enough either, all of it.
const TAIL_BYTES: [u64; 2] = [64 << 10, 1 << 20];

/// True if a record must be on disk before the call goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    /// Record of a change.
    Yes,
    /// Record of a refusal.
    No,
}

/// Adds a record to the log.
///
/// # Errors
/// `lock_timeout`, or the system's; then the log is as it was.
pub fn append(state: &State, record: &AuditRecord, durable: Durable) -> Result<(), Error> {
    begin(state, record)?.end(state, durable)
}

/// A record that is written and is not in force before its end.
#[derive(Debug)]
pub struct Pending {
    /// Keeps others away meanwhile.
    _lock: Lock,
    /// The log, to be synced.
    pub file: File,
    /// Its folder.
    folder: Arc<OwnedFd>,
    /// How long the log was before.
    length: u64,
    /// Next head.
    head: Head,
    /// The file of the head.
    head_file: File,
}

impl Pending {
    /// Puts the record in force; where it is `durable`, once it is on disk.
    ///
    /// # Errors
    /// Returns the OS error; then the log is as it was.
    pub fn end(self, state: &State, durable: Durable) -> Result<(), Error> {
        let io = |source: std::io::Error| Error::io("write", state.shown(FOLDER), source);
        if durable == Durable::Yes {
            let folder = (self.length == 0).then_some(&*self.folder);
            if let Err(source) = sync(&self.file, folder) {
                // Half a record would look like damage.
                let _ = rustix::fs::ftruncate(&self.file, self.length);
                return Err(io(source));
            }
        }
        // Only now: it says what must be there.
        self.head.write(&self.head_file).map_err(io)
    }
}

/// Writes a record at the end of the log.
///
/// # Errors
/// As [`append`].
pub fn begin(state: &State, record: &AuditRecord) -> Result<Pending, Error> {
    let folder = state.folder(FOLDER)?;
    let lock = state.lock(folder.as_fd(), LOCK, "the audit log")?;
    let io = |source: std::io::Error| Error::io("write", state.shown(FOLDER), source);
    let (head_file, _) = open(&folder, HEAD, OFlags::empty()).map_err(io)?;
    let head = Head::read_from(&head_file);
    let (mut file, size) = open(&folder, CURRENT, OFlags::APPEND).map_err(io)?;
    let mut end = End::of(&file, size, head.as_ref()).map_err(io)?;
    if end.length >= FILE_BYTES {
        set_aside(state, &folder)?;
        (file, _) = open(&folder, CURRENT, OFlags::APPEND).map_err(io)?;
        (end.start, end.length, end.is_cut) = (0, 0, false);
    }
    if end.hash.is_empty() {
        let older = end_of_older(state, &folder, head.as_ref())?;
        (end.hash, end.knows_head) = (older.hash, end.knows_head || older.knows_head);
    }
    if end.is_cut && end.knows_head {
        // Half a record of a call that died, or of a power failure: it was never part of the log.
        rustix::io::retry_on_intr(|| rustix::fs::ftruncate(&file, end.start))
            .map_err(|errno| io(errno.into()))?;
        (end.length, end.is_cut) = (end.start, false);
    }
    // Where the end was cut off, the chain goes on from what is missing, and so the gap shows.
    let prev = match &head {
        Some(head) if !end.knows_head => head.hash.clone(),
        _ => end.hash,
    };
    let records = head.map_or(0, |head| head.records).saturating_add(1);
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
    let head = Head { version: HEAD_VERSION, records, hash };
    Ok(Pending { _lock: lock, file, folder, length, head, head_file })
}

/// Syncs the log, and the folder of a new one. All of the log's inode: names that were changed before it was
/// written become durable with it where the file system keeps their order.
fn sync(file: &File, folder: Option<&OwnedFd>) -> std::io::Result<()> {
    rustix::io::retry_on_intr(|| rustix::fs::fsync(file))?;
    Ok(folder.map_or(Ok(()), |folder| rustix::io::retry_on_intr(|| rustix::fs::fsync(folder)))?)
}

/// The end of a file of the log.
#[derive(Debug, Default)]
struct End {
    /// Hash of the last whole record; empty where there is none.
    hash: String,
    /// Offset of the part after the last line.
    start: u64,
    /// Bytes in the file.
    length: u64,
    /// True if half a record follows.
    is_cut: bool,
    /// True if the record that the head names is there; true without a head.
    knows_head: bool,
}

impl End {
    /// Finds the end of a file of `size` bytes.
    fn of(file: &File, size: u64, head: Option<&Head>) -> std::io::Result<Self> {
        let mut end = Self { length: size, knows_head: head.is_none(), ..Self::default() };
        let [tail, long_tail] = TAIL_BYTES;
        for tail in [NEAR_BYTES, tail, long_tail, FILE_BYTES_MAX] {
            let start = size.saturating_sub(tail);
            let mut bytes = vec![0; usize::try_from(size - start).unwrap_or(0)];
            file.read_exact_at(&mut bytes, start)?;
            let last_line = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            (end.start, end.is_cut) = (start + last_line as u64, last_line < bytes.len());
            let mut newest = None;
            // From the end: the last record is nearly always the one that the head names.
            for record in bytes.rsplit(|byte| *byte == b'\n').filter_map(parse) {
                end.knows_head |= head.is_some_and(|head| head.hash == record.hash);
                newest.get_or_insert(record.hash);
                if end.knows_head {
                    break;
                }
            }
            end.hash = newest.unwrap_or(end.hash);
            if start == 0 || (end.knows_head && !end.hash.is_empty()) {
                break;
            }
        }
        Ok(end)
    }
}

/// Returns the end of the newest file that was set aside.
fn end_of_older(state: &State, folder: &OwnedFd, head: Option<&Head>) -> Result<End, Error> {
    let Some(newest) = older(folder)?.pop() else {
        return Ok(End { knows_head: head.is_none(), ..End::default() });
    };
    let io = |source: std::io::Error| Error::io("read", state.shown(FOLDER), source);
    let file = fs::open_at(folder.as_fd(), OsStr::new(&name_of(newest)), fs::READ);
    match file.map(File::from) {
        Ok(file) => match rustix::fs::fstat(&file) {
            Ok(stat) if fs::is_regular(&stat) => End::of(&file, fs::size_of(&stat), head).map_err(io),
            _ => Ok(End::default()),
        },
        // The gap shows: the chain goes on from the head.
        Err(_) => Ok(End::default()),
    }
}
