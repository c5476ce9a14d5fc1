//! The audit log: one record for every call that changed something or was refused to.
//!
//! `.lbx/audit/current.jsonl` holds one JSON object a line. Each has the SHA-256 of the record
//! before it (`prev`) and of itself without that field (`hash`), so that a record which was altered
//! or removed shows. A full file becomes `NNNNNN.jsonl`, and the chain goes on in the next.

use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fs;
use super::state::{State, shown};
use super::transaction::journal::names_in;
use crate::error::Error;
use crate::sha256::Sha256;

/// Where the log is, below the state folder.
const FOLDER: &str = "audit";
/// The file that grows.
const CURRENT: &str = "current.jsonl";
/// The lock that is held while it grows.
const LOCK: &str = "lock";
/// Size at which the file is set aside, in bytes.
const FILE_BYTES: u64 = 16 << 20;
/// Size of a file that is read back.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// How much of the end of the file is read to find the last record; a longer one reads all of it.
const TAIL_BYTES: u64 = 64 << 10;
/// How much of the end of the log is looked at for the newest records, in bytes.
const NEWEST_BYTES: u64 = 256 << 10;
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
pub struct Record {
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
    /// What was wrong, of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// A record as it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Chained {
    /// The call.
    #[serde(flatten)]
    record: Record,
    /// Hash of the record before; empty in the first.
    prev: String,
    /// Hash of this record and of `prev`.
    hash: String,
}

impl Chained {
    /// Chains a record to the one before.
    fn new(record: Record, prev: String) -> Result<Self, Error> {
        let hash = hash_of(&record, &prev)?;
        Ok(Self { record, prev, hash })
    }
}

/// The hash of a record after another.
fn hash_of(record: &Record, prev: &str) -> Result<String, Error> {
    let json = serde_json::to_string(record).map_err(|error| Error::internal(error.to_string()))?;
    Ok(Sha256::of(format!("{prev}\n{json}").as_bytes()).to_hex())
}

/// Adds a record to the log.
///
/// # Errors
/// `lock_timeout`, or the system's.
pub fn append(state: &State, record: Record) -> Result<(), Error> {
    let folder = state.folder(FOLDER)?;
    let _lock = state.lock(folder.as_fd(), LOCK)?;
    let io = |source: std::io::Error| Error::io("write", shown(FOLDER), source);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(&folder, CURRENT, flags, Mode::from_raw_mode(0o600));
    let mut file = std::fs::File::from(rustix::io::retry_on_intr(open).map_err(|errno| io(errno.into()))?);
    let (prev, is_cut) = last_hash(&file).map_err(io)?;
    if file.metadata().map_err(io)?.len() >= FILE_BYTES {
        set_aside(&folder)?;
        file = std::fs::File::from(rustix::io::retry_on_intr(open).map_err(|errno| io(errno.into()))?);
    }
    let prev = if prev.is_empty() { last_of_older(&folder)? } else { prev };
    let line = serde_json::to_string(&Chained::new(record, prev)?)
        .map_err(|error| Error::internal(error.to_string()))?;
    // A record that a kill cut short stays, on a line of its own, for verify to name.
    let start = if is_cut { "\n" } else { "" };
    file.write_all(format!("{start}{line}\n").as_bytes()).map_err(io)
}

/// The hash in the last whole record of a file, and whether it ends in half a one.
fn last_hash(file: &std::fs::File) -> std::io::Result<(String, bool)> {
    let size = file.metadata()?.len();
    for tail in [TAIL_BYTES, FILE_BYTES_MAX] {
        let start = size.saturating_sub(tail);
        let mut bytes = vec![0; usize::try_from(size - start).unwrap_or(0)];
        file.read_exact_at(&mut bytes, start)?;
        let is_cut = bytes.last().is_some_and(|last| *last != b'\n');
        let mut lines = bytes.split(|byte| *byte == b'\n').rev().filter(|line| !line.is_empty());
        if let Some(hash) = lines.find_map(|line| serde_json::from_slice::<Chained>(line).ok()) {
            return Ok((hash.hash, is_cut));
        }
        if start == 0 {
            return Ok((String::new(), is_cut));
        }
    }
    Ok((String::new(), false))
}

/// The hash of the last record in the newest file that was set aside.
fn last_of_older(folder: &OwnedFd) -> Result<String, Error> {
    let Some(newest) = older(folder)?.pop() else {
        return Ok(String::new());
    };
    let io = |source: std::io::Error| Error::io("read", shown(FOLDER), source);
    let file =
        fs::open_at(folder.as_fd(), OsStr::new(&newest), fs::READ).map_err(|errno| io(errno.into()))?;
    Ok(last_hash(&std::fs::File::from(file)).map_err(io)?.0)
}

/// The files that were set aside, the oldest first.
fn older(folder: &OwnedFd) -> Result<Vec<String>, Error> {
    let mut names = names_in(folder)?;
    names.retain(|name| name.strip_suffix(".jsonl").is_some_and(|number| number.parse::<u64>().is_ok()));
    names.sort();
    Ok(names)
}

/// Sets the full file aside under the next number.
fn set_aside(folder: &OwnedFd) -> Result<(), Error> {
    let last = older(folder)?.pop();
    let number = last.and_then(|name| name.strip_suffix(".jsonl")?.parse::<u64>().ok()).unwrap_or(0) + 1;
    fs::rename_at(folder, CURRENT, folder, format!("{number:06}.jsonl"))
        .map_err(|errno| Error::io("write", shown(FOLDER), errno))
}

/// A place where the chain is broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Broken {
    /// The file, below .lbx
    pub file: String,
    /// The line of the first record that does not fit, from 1
    pub line: u64,
    /// What is wrong there
    pub message: String,
}

/// All records that `wanted` picks, the oldest first, and the first place where the chain is broken.
///
/// # Errors
/// What the system says.
pub fn read(
    state: &State,
    mut wanted: impl FnMut(&Record) -> bool,
) -> Result<(Vec<Record>, Option<Broken>), Error> {
    let (mut records, mut broken) = (Vec::new(), None);
    let Some(folder) = state.find_folder(FOLDER)? else {
        return Ok((records, broken));
    };
    let mut prev: Option<String> = None;
    let mut names = older(&folder)?;
    names.push(CURRENT.to_owned());
    for name in names {
        let bytes = fs::read_at(folder.as_fd(), OsStr::new(&name), FILE_BYTES_MAX)
            .map_err(|source| Error::io("read", shown(FOLDER), source))?;
        for (line, number) in bytes.unwrap_or_default().split(|byte| *byte == b'\n').zip(1..) {
            if line.is_empty() {
                continue;
            }
            let checked = check(line, prev.as_deref());
            if let Err(message) = &checked.1
                && broken.is_none()
            {
                let file = shown(&format!("{FOLDER}/{name}"));
                broken = Some(Broken { file, line: number, message: message.clone() });
            }
            if let Some(chained) = checked.0 {
                prev = Some(chained.hash);
                records.extend(Some(chained.record).filter(|record| wanted(record)));
            }
        }
    }
    Ok((records, broken))
}

/// The newest records that `wanted` picks, the newest first, as far as the last 256 KiB of the log
/// hold them: cheap however long the log is.
///
/// # Errors
/// What the system says.
pub fn newest(state: &State, wanted: impl Fn(&Record) -> bool) -> Result<Vec<Record>, Error> {
    let io = |source: std::io::Error| Error::io("read", shown(FOLDER), source);
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
    let records = records.filter_map(|line| serde_json::from_slice::<Record>(line).ok());
    Ok(records.filter(wanted).collect())
}

/// A line of the log, and whether it is whole and follows the one before.
fn check(line: &[u8], prev: Option<&str>) -> (Option<Chained>, Result<(), String>) {
    let Ok(chained) = serde_json::from_slice::<Chained>(line) else {
        return (None, Err("no whole record".to_owned()));
    };
    // Fields that this version does not know would be lost in the hash: the line must be just ours.
    let is_whole = serde_json::to_string(&chained).is_ok_and(|text| text.as_bytes() == line);
    let outcome = if !is_whole || hash_of(&chained.record, &chained.prev).ok().as_ref() != Some(&chained.hash)
    {
        Err("this record was altered".to_owned())
    } else if prev.unwrap_or_default() != chained.prev {
        Err("the record before it was removed or altered".to_owned())
    } else {
        Ok(())
    };
    (Some(chained), outcome)
}

/// A record's value for the answer.
#[must_use]
pub fn as_value(record: &Record) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}
