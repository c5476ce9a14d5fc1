//! Reads the audit log: all of it with checks, its newest records, or the records since a position.
//!
//! And sums over it, kept up to a record, so that only later ones are parsed. They are a cache: the log counts. With
//! them is the [`Place`] in the log that they include. If its file differs before that place, or a full file was
//! changed, or the sums are damaged, they are made again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, Stat};
use serde::{Deserialize, Serialize};

use super::append::{
    AuditRecord, CURRENT, ChainedRecord, FOLDER, LogHead, check, full_files, name_of, parse,
};
use crate::engine::store::lock::unique_name;
use crate::engine::store::state::{STATE_FOLDER, State};
use crate::engine::store::{sealed, unsealed};
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::limits::AUDIT_FILE_BYTES_MAX;

/// Bytes of known records that are read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Bytes at the end of the log that are searched for the newest records.
const NEWEST_BYTES: u64 = 256 << 10;

/// Returns true if the log has the record of a change, which must be one of the previous call.
///
/// # Errors
/// Returns the OS error.
pub fn has_change(state: &State, change: &str) -> Result<bool, Error> {
    let Some(folder) = state.find_folder(FOLDER)? else {
        return Ok(false);
    };
    let newest = full_files(&folder)?.pop().map(name_of);
    for name in newest.into_iter().chain([CURRENT.to_owned()]) {
        // An unreadable file has no known record.
        let bytes = fs::read_or_empty(folder.as_fd(), OsStr::new(&name), AUDIT_FILE_BYTES_MAX);
        let records = bytes.split(|byte| *byte == b'\n').filter_map(parse);
        if records.into_iter().any(|record| record.change.as_deref() == Some(change)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Position where the chain is broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ChainBreak {
    /// The file, below .lbx
    pub file: String,
    /// The line of the first record that does not fit, from 1
    pub line: u64,
    /// Fault found there
    pub message: String,
}

/// Place in the log after a record, with marks by which a later call sees that nothing before it has changed.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogPlace {
    /// Full files before it.
    full: Vec<FullFile>,
    /// Offset in the next file.
    offset: usize,
    /// CRC-32 of the bytes before it in that file.
    crc: u32,
    /// Lines before it in that file.
    lines: u64,
    /// Records before it.
    records: u64,
    /// Hash of the record before it.
    hash: Option<String>,
}

/// A full file, which nobody writes any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FullFile {
    /// Its number.
    number: u32,
    /// Inode, size, and times of the last changes, in hexadecimal.
    marks: String,
}

impl FullFile {
    /// Returns the marks of a file.
    fn of(number: u32, stat: &Stat) -> Self {
        let (size, modified, changed) = (stat.st_size, stat.st_mtime, stat.st_ctime);
        let parts = (stat.st_mtime_nsec, stat.st_ctime_nsec);
        Self {
            number,
            marks: format!("{:x} {size:x} {modified:x}.{:x} {changed:x}.{:x}", stat.st_ino, parts.0, parts.1),
        }
    }

    /// Returns true if the folder has it as it was.
    fn is_there(&self, folder: &OwnedFd) -> bool {
        let stat = fs::stat_at(folder.as_fd(), OsStr::new(&name_of(self.number)));
        stat.is_ok_and(|stat| Self::of(self.number, &stat) == *self)
    }
}

impl LogPlace {
    /// Returns true if these full files begin with those before it, which nobody has changed.
    fn begins(&self, folder: &OwnedFd, numbers: &[u32]) -> bool {
        let is_same = |(known, number): (&FullFile, &u32)| known.number == *number && known.is_there(folder);
        self.full.len() <= numbers.len() && self.full.iter().zip(numbers).all(is_same)
    }

    /// Returns the bytes of its file after it, and the stat, if there is one; `None` if it has other bytes before.
    ///
    /// # Errors
    /// Returns the OS error.
    fn bytes_after(&self, folder: &OwnedFd, name: &str) -> io::Result<Option<(Vec<u8>, Option<Stat>)>> {
        if self.offset == 0 {
            let read = fs::read_opened(folder.as_fd(), OsStr::new(name), AUDIT_FILE_BYTES_MAX)?;
            return Ok(Some(read.map_or_else(Default::default, |(bytes, _, stat)| (bytes, Some(stat)))));
        }
        let file = File::from(fs::open_at(folder.as_fd(), OsStr::new(name), fs::READ)?);
        let stat = rustix::fs::fstat(&file)?;
        let size = usize::try_from(fs::size_of(&stat)).unwrap_or(usize::MAX);
        let is_within = self.offset as u64 <= AUDIT_FILE_BYTES_MAX && self.offset <= size;
        if !fs::is_regular(&stat) || !is_within {
            return Ok(None);
        }
        // In pieces, so that a long log needs neither memory nor the time to clear it.
        let (mut hasher, mut room) = (crc32fast::Hasher::new(), vec![0; CHUNK_BYTES]);
        for at in (0..self.offset).step_by(CHUNK_BYTES) {
            let part = room.get_mut(..CHUNK_BYTES.min(self.offset - at)).unwrap_or_default();
            file.read_exact_at(part, at as u64)?;
            hasher.update(part);
        }
        rustix::fs::seek(&file, SeekFrom::Start(self.offset as u64))?;
        let fresh = fs::read_to_end(&file, (size - self.offset) as u64, AUDIT_FILE_BYTES_MAX)?;
        Ok((hasher.finalize() == self.crc).then_some((fresh, Some(stat))))
    }

    /// Adds the next bytes of the file.
    fn add(&mut self, bytes: &[u8], lines: u64) {
        let mut hasher = crc32fast::Hasher::new_with_initial_len(self.crc, self.offset as u64);
        hasher.update(bytes);
        (self.crc, self.offset, self.lines) =
            (hasher.finalize(), self.offset + bytes.len(), self.lines.saturating_add(lines));
    }

    /// Goes on to the next file.
    fn end_file(&mut self, full: FullFile) {
        self.full.push(full);
        (self.offset, self.crc, self.lines) = (0, 0, 0);
    }
}

/// Result of reading the log from a place on.
#[derive(Debug, Default)]
pub(super) struct LogScan {
    /// Place after the last record.
    pub(super) place: LogPlace,
    /// Number of records that were read.
    pub(super) records: u64,
    /// True if the place is at the end of a line.
    pub(super) is_whole: bool,
    /// First position where the chain is broken.
    pub(super) broken: Option<ChainBreak>,
}

/// Reads the records after a place, oldest first, and checks their chain; `None` if the log has other bytes before it.
///
/// # Errors
/// Returns the OS error.
pub(super) fn scan(
    state: &State,
    folder: &OwnedFd,
    place: LogPlace,
    take: &mut dyn FnMut(AuditRecord),
) -> Result<Option<LogScan>, Error> {
    // Read first, so that a record added meanwhile is not taken for a gap.
    let head = LogHead::read(folder);
    let numbers = full_files(folder)?;
    let mut knows_head = head.as_ref().is_none_or(|head| place.hash.as_ref() == Some(&head.hash));
    if !place.begins(folder, &numbers) {
        return Ok(None);
    }
    let later = numbers.into_iter().skip(place.full.len()).map(Some).chain([None]);
    let mut scanned = LogScan { place, is_whole: true, ..LogScan::default() };
    for number in later {
        let name = number.map_or_else(|| CURRENT.to_owned(), name_of);
        let shown = || state.display(&format!("{FOLDER}/{name}"));
        let read = match scanned.place.bytes_after(folder, &name) {
            Ok(read) => read,
            Err(source) => {
                let message = format!("cannot be read: {source}");
                scanned.broken.get_or_insert_with(|| ChainBreak { file: shown(), line: 1, message });
                continue;
            }
        };
        let Some((fresh, stat)) = read else { return Ok(None) };
        let lines_before = scanned.place.lines;
        let mut lines = 0;
        for line in fresh.split(|byte| *byte == b'\n') {
            lines += 1;
            if line.is_empty() {
                continue;
            }
            let is_unfinished = number.is_none() && knows_head && fresh.ends_with(line);
            let checked = check(line, scanned.place.hash.as_deref());
            if let Err(message) = checked.1
                && !(is_unfinished && checked.0.is_none())
            {
                let line = lines_before.saturating_add(lines);
                scanned.broken.get_or_insert_with(|| ChainBreak { file: shown(), line, message });
            }
            if let Some(chained) = checked.0 {
                knows_head |= head.as_ref().is_some_and(|head| head.hash == chained.hash);
                scanned.records += 1;
                scanned.place.records = scanned.place.records.saturating_add(1);
                scanned.place.hash = Some(chained.hash);
                take(chained.record);
            }
        }
        scanned.is_whole &= fresh.is_empty() || fresh.ends_with(b"\n");
        scanned.place.add(&fresh, lines - 1);
        if let Some((number, stat)) = number.zip(stat) {
            scanned.place.end_file(FullFile::of(number, &stat));
        }
    }
    if let Some(head) = head.filter(|_| !knows_head) {
        let (file, count) = (state.display(&format!("{FOLDER}/{CURRENT}")), scanned.place.records);
        let message =
            format!("the newest records are missing: there were {}, and {count} are left", head.records);
        scanned.broken.get_or_insert(ChainBreak {
            file,
            line: scanned.place.lines.saturating_add(1),
            message,
        });
    }
    Ok(Some(scanned))
}

/// Returns all records that `wanted` picks, oldest first, and the first position where the chain is broken.
///
/// # Errors
/// Returns the OS error.
pub fn read(
    state: &State,
    wanted: &mut dyn FnMut(&AuditRecord) -> bool,
) -> Result<(Vec<AuditRecord>, Option<ChainBreak>), Error> {
    let mut records = Vec::new();
    let Some(folder) = state.find_folder(FOLDER)? else { return Ok((records, None)) };
    let scanned = scan(state, &folder, LogPlace::default(), &mut |record| {
        records.extend(Some(record).filter(|record| wanted(record)));
    })?;
    Ok((records, scanned.and_then(|scanned| scanned.broken)))
}

/// Returns the newest records that `wanted` picks, newest first, from the last 256 KiB of the log: cheap however long
/// the log is.
///
/// # Errors
/// Returns the OS error.
pub fn newest(state: &State, wanted: impl Fn(&AuditRecord) -> bool) -> Result<Vec<AuditRecord>, Error> {
    let io = |source: std::io::Error| Error::io("read", state.display(FOLDER), source);
    let Some(folder) = state.find_folder(FOLDER)? else {
        return Ok(Vec::new());
    };
    let file = match fs::open_at(folder.as_fd(), OsStr::new(CURRENT), fs::READ) {
        Ok(fd) => std::fs::File::from(fd),
        Err(rustix::io::Errno::NOENT) => return Ok(Vec::new()),
        Err(errno) => return Err(io(errno.into())),
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| io(errno.into()))?;
    let size = if fs::is_regular(&stat) { fs::size_of(&stat) } else { 0 };
    let start = size.saturating_sub(NEWEST_BYTES);
    let mut bytes = vec![0; usize::try_from(size - start).unwrap_or(0)];
    file.read_exact_at(&mut bytes, start).map_err(io)?;
    let records = bytes.split(|byte| *byte == b'\n').rev();
    let records = records.filter_map(|line| serde_json::from_slice::<AuditRecord>(line).ok());
    Ok(records.filter(wanted).collect())
}

/// Returns the records of the refused calls of a session, oldest first; only these are parsed.
///
/// # Errors
/// Returns the OS error.
pub fn refused(state: &State, session: &str) -> Result<Vec<AuditRecord>, Error> {
    /// Field of the record of a call that was not refused. Within a text, its quotes would be escaped.
    const OK: &[u8] = b"\"outcome\":\"ok\"";
    let Some(folder) = state.find_folder(FOLDER)? else { return Ok(Vec::new()) };
    let mut records = Vec::new();
    for name in full_files(&folder)?.into_iter().map(name_of).chain([CURRENT.to_owned()]) {
        let bytes = fs::read_or_empty(folder.as_fd(), OsStr::new(&name), AUDIT_FILE_BYTES_MAX);
        let lines = bytes.split(|byte| *byte == b'\n');
        let refused = lines.filter(|line| !line.is_empty() && memchr::memmem::find(line, OK).is_none());
        let parsed = refused.filter_map(|line| serde_json::from_slice::<AuditRecord>(line).ok());
        records.extend(parsed.filter(|record| record.session == session && record.outcome != "ok"));
    }
    Ok(records)
}

/// Returns the newest `count` records, newest first, and the number of all records; `None` if that takes the whole log:
/// these records are in more than one file, or they do not fit together.
///
/// # Errors
/// Returns the OS error.
pub fn newest_page(state: &State, count: usize) -> Result<Option<(Vec<AuditRecord>, usize)>, Error> {
    let io = |source: std::io::Error| Error::io("read", state.display(FOLDER), source);
    let Some(folder) = state.find_folder(FOLDER)? else { return Ok(None) };
    let Some(head) = LogHead::read(&folder) else { return Ok(None) };
    let Ok(file) = fs::open_at(folder.as_fd(), OsStr::new(CURRENT), fs::READ) else { return Ok(None) };
    let (file, stat) = (std::fs::File::from(file), fs::stat_at(folder.as_fd(), OsStr::new(CURRENT)));
    let size =
        stat.ok().filter(fs::is_regular).map_or(0, |stat| fs::size_of(&stat)).min(AUDIT_FILE_BYTES_MAX);
    let mut part = NEWEST_BYTES;
    loop {
        let start = size.saturating_sub(part);
        let mut bytes = vec![0; usize::try_from(size - start).unwrap_or(0)];
        file.read_exact_at(&mut bytes, start).map_err(io)?;
        let lines = bytes.strip_suffix(b"\n").unwrap_or_default();
        // The first line may be cut.
        let lines = lines.splitn(if start == 0 { 1 } else { 2 }, |byte| *byte == b'\n').last();
        let found: Option<Vec<ChainedRecord>> = lines.and_then(|lines| {
            let newest = lines.rsplit(|byte| *byte == b'\n').take(count);
            newest.map(|line| check(line, None).0).collect()
        });
        let found = found.unwrap_or_default();
        let is_chain =
            found.windows(2).all(|pair| matches!(pair, [later, earlier] if later.prev == earlier.hash));
        if found.first().is_none_or(|newest| newest.hash != head.hash) || !is_chain {
            return Ok(None);
        }
        let total = usize::try_from(head.records).unwrap_or(usize::MAX);
        if found.len() == count.min(total) {
            return Ok(Some((found.into_iter().map(|chained| chained.record).collect(), total)));
        }
        if start == 0 {
            return Ok(None);
        }
        part = part.saturating_mul(4);
    }
}

/// Position in the log, between two records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogCursor {
    /// Inode of the file; 0 for the oldest file.
    inode: u64,
    /// Offset in the file.
    offset: u64,
}

impl LogCursor {
    /// Returns the position before all records.
    pub fn beginning() -> Self {
        Self::default()
    }
}

impl std::fmt::Display for LogCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.inode, self.offset)
    }
}

impl std::str::FromStr for LogCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (inode, offset) = text.split_once(':').ok_or(())?;
        Ok(Self { inode: inode.parse().map_err(|_| ())?, offset: offset.parse().map_err(|_| ())? })
    }
}

/// Returns the records after a position, oldest first, and the position after them; without one, no record and the
/// position after all. Ignores a record that is still being written.
///
/// # Errors
/// Returns the OS error.
pub fn since(state: &State, cursor: Option<LogCursor>) -> Result<(Vec<AuditRecord>, LogCursor), Error> {
    let Some(folder) = state.find_folder(FOLDER)? else {
        return Ok((Vec::new(), cursor.unwrap_or_default()));
    };
    let names: Vec<String> =
        full_files(&folder)?.into_iter().map(name_of).chain([CURRENT.to_owned()]).collect();
    let stat = |name: &String| fs::stat_at(folder.as_fd(), OsStr::new(name)).ok();
    let files: Vec<(String, u64, u64)> = names
        .iter()
        .filter_map(|name| stat(name).map(|stat| (name.clone(), stat.st_ino, fs::size_of(&stat))))
        .collect();
    let Some(cursor) = cursor else {
        let end = files.last().map(|(_, inode, offset)| LogCursor { inode: *inode, offset: *offset });
        return Ok((Vec::new(), end.unwrap_or_default()));
    };
    // A missing file was purged, and all others are newer.
    let first = files.iter().position(|(_, inode, _)| *inode == cursor.inode);
    let (mut records, mut next) = (Vec::new(), cursor);
    for (name, inode, size) in files.iter().skip(first.unwrap_or(0)) {
        let known = if *inode == cursor.inode { cursor.offset } else { 0 };
        next = LogCursor { inode: *inode, offset: known };
        if *size <= known {
            continue;
        }
        let bytes = fs::read_at(folder.as_fd(), OsStr::new(name), AUDIT_FILE_BYTES_MAX)
            .map_err(|source| Error::io("read", state.display(FOLDER), source))?
            .unwrap_or_default();
        let fresh = bytes.get(usize::try_from(known).unwrap_or(usize::MAX)..).unwrap_or_default();
        let whole = fresh.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = fresh.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n');
        records.extend(lines.filter_map(|line| serde_json::from_slice::<AuditRecord>(line).ok()));
        next.offset += whole as u64;
    }
    Ok((records, next))
}

/// File of the sums, in the folder of the log.
const NAME: &str = "sums";
/// Version of the sums that this code reads and writes.
const VERSION: u32 = 1;
/// Largest file of sums, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Number of records after which the sums are written again.
const SAVED_EVERY: u64 = 64;
/// Outcome of a successful call.
const OK: &str = "ok";

/// Sum of the records of one tool in one session.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordSum {
    /// Calls.
    pub calls: u64,
    /// Calls that were refused a change.
    pub refused: u64,
    /// Paths that the other calls changed; a path counts each time.
    pub paths: u64,
    /// Total duration in milliseconds.
    pub duration_ms: u64,
    /// Earliest time, RFC 3339.
    pub first: String,
    /// Latest time, RFC 3339.
    pub last: String,
}

impl RecordSum {
    /// Adds one call.
    fn add(&mut self, record: &AuditRecord) {
        self.calls = self.calls.saturating_add(1);
        if record.outcome == OK {
            // A path that moves to or from the trash counts once.
            let paths = record.files.iter().filter(|file| !is_state(&file.path)).count();
            self.paths = self.paths.saturating_add(u64::try_from(paths).unwrap_or(u64::MAX));
        } else {
            self.refused = self.refused.saturating_add(1);
        }
        self.duration_ms = self.duration_ms.saturating_add(record.duration_ms);
        if self.first.is_empty() || record.time < self.first {
            self.first.clone_from(&record.time);
        }
        if record.time > self.last {
            self.last.clone_from(&record.time);
        }
    }
}

/// Returns true for a path in lbx's state.
fn is_state(path: &str) -> bool {
    path.strip_prefix(STATE_FOLDER).is_some_and(|rest| rest.starts_with('/'))
}

/// Sums of one session.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSums {
    /// Sums by tool.
    pub by_tool: BTreeMap<String, RecordSum>,
    /// Refusals by kind.
    pub refusals: BTreeMap<String, u64>,
}

impl SessionSums {
    /// Adds one call.
    fn add(&mut self, record: &AuditRecord) {
        self.by_tool.entry(record.tool.clone()).or_default().add(record);
        if record.outcome != OK {
            let count = self.refusals.entry(record.outcome.clone()).or_default();
            *count = count.saturating_add(1);
        }
    }
}

/// Sums of all sessions, up to a place in the log.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AuditSums {
    /// Version of the format.
    version: u32,
    /// The place.
    place: LogPlace,
    /// Sums by session.
    sessions: BTreeMap<String, SessionSums>,
}

/// Returns the sums of all records by session, and the first position where the chain is broken.
///
/// # Errors
/// Returns the OS error.
pub fn sums(state: &State) -> Result<(BTreeMap<String, SessionSums>, Option<ChainBreak>), Error> {
    let Some(folder) = state.find_folder(FOLDER)? else { return Ok(Default::default()) };
    let known = load(&folder).filter(|known| known.version == VERSION);
    let known = known.map(|known| known.completed(state, &folder)).transpose()?.flatten();
    // A log that cannot be read on, or does not continue as it should, is read whole, to name the place.
    let known = known.filter(|(_, scanned)| scanned.broken.is_none());
    let (sums, scanned) = match known {
        Some(known) => known,
        None => AuditSums { version: VERSION, ..AuditSums::default() }
            .completed(state, &folder)?
            .unwrap_or_default(),
    };
    if scanned.broken.is_none() && scanned.is_whole && scanned.records >= SAVED_EVERY {
        // A full disk, or a workspace that only can be read: the next call reads these records again.
        let _ = sums.save(state, &folder);
    }
    Ok((sums.sessions, scanned.broken))
}

/// Loads the sums, if they are whole.
fn load(folder: &OwnedFd) -> Option<AuditSums> {
    unsealed(&fs::read_at(folder.as_fd(), OsStr::new(NAME), FILE_BYTES_MAX).ok()??)
}

impl AuditSums {
    /// Adds the records after its place; `None` if the log has other bytes before it.
    fn completed(mut self, state: &State, folder: &OwnedFd) -> Result<Option<(Self, LogScan)>, Error> {
        let place = std::mem::take(&mut self.place);
        let sessions = &mut self.sessions;
        let scanned = scan(state, folder, place, &mut |record| {
            sessions.entry(record.session.clone()).or_default().add(&record);
        })?;
        Ok(scanned.map(|scanned| {
            self.place = scanned.place.clone();
            (self, scanned)
        }))
    }

    /// Saves them.
    fn save(&self, state: &State, folder: &OwnedFd) -> Result<(), Error> {
        let bytes = sealed(self)?;
        if bytes.len() as u64 <= FILE_BYTES_MAX {
            state.replace(folder.as_fd(), OsStr::new(NAME), &bytes, &unique_name("sums"))?;
        }
        Ok(())
    }
}
