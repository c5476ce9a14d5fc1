//! Log of the newest events of client hooks: `doctor` shows whether a client sends them.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use serde::{Deserialize, Serialize};

use super::lock::unique_name;
use super::state::State;
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::limits::HOOK_LOG_BYTES_MAX;

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
    let io = |source: std::io::Error| Error::io("write", state.shown(NAME), source);
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
    (&file).write_all(&line).map_err(io)?;
    let size = rustix::fs::fstat(&file).map(|stat| fs::size_of(&stat)).unwrap_or_default();
    if size > FULL_BYTES as u64 {
        let bytes = fs::read_at(state.fd().as_fd(), OsStr::new(NAME), HOOK_LOG_BYTES_MAX).ok().flatten();
        let bytes = bytes.unwrap_or_default();
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
    let bytes =
        fs::read_at(state.fd(), OsStr::new(NAME), HOOK_LOG_BYTES_MAX).ok().flatten().unwrap_or_default();
    let lines = bytes.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    lines.take(count).collect()
}
