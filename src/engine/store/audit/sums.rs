//! Sums over the audit log, kept up to a record, so that only later ones are parsed.
//!
//! They are a cache: the log counts. With the sums is the [`Place`] in the log that they include. If its file differs
//! before that place, or a full file was changed, or the sums are damaged, they are made again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};

use serde::{Deserialize, Serialize};

use super::append::{AuditRecord, FOLDER};
use super::read::{Broken, Place, Scanned, scan};
use crate::engine::store::lock::unique_name;
use crate::engine::store::state::{STATE_FOLDER, State};
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::sha256::{seal_of, split_seal};

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
struct Sums {
    /// Version of the format.
    version: u32,
    /// The place.
    place: Place,
    /// Sums by session.
    sessions: BTreeMap<String, SessionSums>,
}

/// Returns the sums of all records by session, and the first position where the chain is broken.
///
/// # Errors
/// Returns the OS error.
pub fn sums(state: &State) -> Result<(BTreeMap<String, SessionSums>, Option<Broken>), Error> {
    let Some(folder) = state.find_folder(FOLDER)? else { return Ok(Default::default()) };
    let known = load(&folder).filter(|known| known.version == VERSION);
    let known = known.map(|known| known.completed(state, &folder)).transpose()?.flatten();
    // A log that cannot be read on, or does not continue as it should, is read whole, to name the place.
    let known = known.filter(|(_, scanned)| scanned.broken.is_none());
    let (sums, scanned) = match known {
        Some(known) => known,
        None => Sums { version: VERSION, ..Sums::default() }.completed(state, &folder)?.unwrap_or_default(),
    };
    if scanned.broken.is_none() && scanned.is_whole && scanned.records >= SAVED_EVERY {
        // A full disk, or a workspace that only can be read: the next call reads these records again.
        let _ = sums.save(state, &folder);
    }
    Ok((sums.sessions, scanned.broken))
}

/// Loads the sums, if they are whole.
fn load(folder: &OwnedFd) -> Option<Sums> {
    let bytes = fs::read_at(folder.as_fd(), OsStr::new(NAME), FILE_BYTES_MAX).ok()??;
    let (json, seal) = split_seal(&bytes);
    (seal == seal_of(json).as_bytes()).then(|| serde_json::from_slice(json).ok())?
}

impl Sums {
    /// Adds the records after its place; `None` if the log has other bytes before it.
    fn completed(mut self, state: &State, folder: &OwnedFd) -> Result<Option<(Self, Scanned)>, Error> {
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
        let mut bytes = serde_json::to_vec(self).map_err(|error| Error::internal(error.to_string()))?;
        bytes.extend(seal_of(&bytes).into_bytes());
        if bytes.len() as u64 <= FILE_BYTES_MAX {
            state.replace(folder.as_fd(), OsStr::new(NAME), &bytes, &unique_name("sums"))?;
        }
        Ok(())
    }
}
