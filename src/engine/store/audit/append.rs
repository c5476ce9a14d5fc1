//! Adding to the audit log: a record is written, and in force once it is ended.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::OFlags;

use super::files::{
    CURRENT, FILE_BYTES_MAX, FOLDER, HEAD, HEAD_VERSION, Head, name_of, older, open, open_with_size,
    set_aside,
};
use super::record::{AuditRecord, json_of, line_of, parse};
use crate::engine::store::state::{Lock, State};
use crate::engine::workspace::fs;
use crate::error::Error;

/// The lock that is held while it grows.
const LOCK: &str = "lock";
/// Size at which the file is set aside, in bytes.
const FILE_BYTES: u64 = 16 << 20;
/// How much of the end of the file is read first, to find the last record.
const NEAR_BYTES: u64 = 4 << 10;
/// How much is read where that is less than a record; where that is not enough either, all of it.
const TAIL_BYTES: [u64; 2] = [64 << 10, 1 << 20];

/// Whether a record must be on disk before the call goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    /// That of a change.
    Yes,
    /// That of a refusal.
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
    /// What its head will say.
    head: Head,
    /// The file of the head.
    head_file: File,
}

impl Pending {
    /// Puts the record in force; where it is `durable`, once it is on disk.
    ///
    /// # Errors
    /// What the system says; then the log is as it was.
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
    let head_file = open(&folder, HEAD, OFlags::empty()).map_err(io)?;
    let head = Head::read_from(&head_file);
    let (mut file, size) = open_with_size(&folder, CURRENT, OFlags::APPEND).map_err(io)?;
    let mut end = End::of(&file, size, head.as_ref()).map_err(io)?;
    if end.length >= FILE_BYTES {
        set_aside(state, &folder)?;
        file = open(&folder, CURRENT, OFlags::APPEND).map_err(io)?;
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
    /// Where what follows the last line begins.
    start: u64,
    /// Bytes in the file.
    length: u64,
    /// Whether half a record follows.
    is_cut: bool,
    /// Whether the record that the head names is there; true without a head.
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

/// The end of the newest file that was set aside.
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
