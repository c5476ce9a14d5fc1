//! Turns of a session: the changes between a prompt and the end of the answer to it.
//!
//! Changes are numbered within their session, so a turn is a range of numbers. A client's hooks say where it begins and
//! ends. A change that no such range holds is a turn of its own. A turn has no number: that of any of its changes names
//! it.

use std::ffi::OsStr;
use std::os::fd::AsFd as _;

use serde::{Deserialize, Serialize};

use crate::control::seconds_now;
use crate::engine::store::lock::unique_name;
use crate::engine::store::session::TURNS_FOLDER;
use crate::engine::store::state::{State, names_in};
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::limits::TURNS_BYTES_MAX;

/// Most turns that are kept of a session; the changes of older ones become turns of their own.
const TURNS_MAX: usize = 500;
/// Longest title, in characters.
const TITLE_MAX: usize = 200;

/// Age from which an open turn counts as left, in seconds: its client does not run any more.
const OPEN_MAX_SECONDS: u64 = 3600;

/// A turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Name that the client has for it; empty for a change without a turn.
    pub key: String,
    /// Number of its first change.
    pub first: u64,
    /// Number of its last change; `None` while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
    /// Start time, in seconds since 1970.
    pub time: u64,
    /// Beginning of the prompt, if the policy keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl Turn {
    /// Returns the turn of a change that no client named one for.
    pub const fn of_change(seq: u64) -> Self {
        Self { key: String::new(), first: seq, last: Some(seq), time: 0, title: None }
    }

    /// Returns true if a change belongs to it.
    pub fn holds(&self, seq: u64) -> bool {
        seq >= self.first && self.last.is_none_or(|last| seq <= last)
    }

    /// Returns true if a client began it, rather than a single change.
    pub const fn is_of_client(&self) -> bool {
        !self.key.is_empty()
    }
}

/// The turns of a session, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turns(Vec<Turn>);

impl Turns {
    /// Reads the turns of a session; none if there is no such file, or it is damaged.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn load(state: &State, session: &str) -> Result<Self, Error> {
        let Some(folder) = state.find_folder(TURNS_FOLDER)? else { return Ok(Self::default()) };
        let bytes = match fs::read_at(folder.as_fd(), OsStr::new(session), TURNS_BYTES_MAX) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(source) if fs::is_unfit(&source) => Vec::new(),
            Err(source) => return Err(Error::io("read", state.shown(TURNS_FOLDER), source)),
        };
        let Self(mut turns) = serde_json::from_slice(&bytes).unwrap_or_default();
        // Anybody may have written the file.
        turns.retain(|turn| turn.first > 0 && turn.is_of_client());
        turns.sort_by_key(|turn| turn.first);
        Ok(Self(turns))
    }

    /// Begins a turn with the change `next`, unless it is the one that is open.
    pub fn begin(&mut self, key: &str, title: Option<&str>, next: u64) {
        if self.0.last().is_some_and(|turn| turn.last.is_none() && turn.key == key) {
            return;
        }
        self.end(next);
        let title = title.map(|title| title.chars().take(TITLE_MAX).collect());
        self.0.push(Turn { key: key.to_owned(), first: next, last: None, time: seconds_now(), title });
    }

    /// Ends the open turn before the change `next`; a turn without changes is forgotten.
    pub fn end(&mut self, next: u64) {
        if let Some(open) = self.0.pop_if(|turn| turn.last.is_none())
            && open.first < next
        {
            self.0.push(Turn { last: Some(next - 1), ..open });
        }
    }

    /// Returns true if another session has begun a turn lately that is still open.
    pub fn is_other_open(state: &State, session: &str) -> bool {
        let names = state.find_folder(TURNS_FOLDER).ok().flatten().and_then(|folder| names_in(&folder).ok());
        let oldest = seconds_now().saturating_sub(OPEN_MAX_SECONDS);
        let is_open = |name: &String| {
            let turns = Self::load(state, name).unwrap_or_default();
            turns.open().is_some_and(|turn| turn.time >= oldest)
        };
        names.is_some_and(|names| names.iter().any(|name| name != session && is_open(name)))
    }

    /// Saves the turns.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn save(&self, state: &State, session: &str) -> Result<(), Error> {
        let folder = state.folder(TURNS_FOLDER)?;
        let newest = self.0.get(self.0.len().saturating_sub(TURNS_MAX)..).unwrap_or_default();
        let bytes = serde_json::to_vec(newest).map_err(|error| Error::internal(error.to_string()))?;
        state.replace(folder.as_fd(), OsStr::new(session), &bytes, &unique_name("turns"))?;
        Ok(())
    }

    /// Returns the turn that is open.
    pub fn open(&self) -> Option<&Turn> {
        self.0.last().filter(|turn| turn.last.is_none())
    }

    /// Returns the turn that holds a change.
    pub fn of(&self, seq: u64) -> Turn {
        let after = self.0.partition_point(|turn| turn.first <= seq);
        let found = after.checked_sub(1).and_then(|at| self.0.get(at)).filter(|turn| turn.holds(seq));
        found.cloned().unwrap_or_else(|| Turn::of_change(seq))
    }
}
