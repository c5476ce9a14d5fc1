//! Numbers of the changes in a session's history.
//!
//! A folder with ten thousand entries takes milliseconds to list, and most calls need the newest few. Their numbers
//! follow each other, so they are looked up by name; the folder is listed only after many gaps or many lookups.

use std::cell::{Cell, OnceCell};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use super::entry::{history_folder, history_name, is_given, numbers_in};
use crate::engine::store::session::{self, SessionId};
use crate::engine::store::state::State;
use crate::engine::workspace::fs;
use crate::error::Error;

/// Most names that are looked up before the folder is listed.
const LOOKUPS_MAX: usize = 200;

/// Numbers of the changes in a session's history, some of which are not known yet.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Folder of the history, if it exists.
    folder: Option<Arc<OwnedFd>>,
    /// Newest number that may be in use, if the folder was not listed for it.
    newest: u64,
    /// All numbers, ascending, once the folder is listed.
    listed: OnceCell<Vec<u64>>,
    /// Number of lookups so far.
    lookups: Cell<usize>,
}

impl Numbers {
    /// Returns the numbers of a session.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn of(state: &State, session: &str) -> Result<Self, Error> {
        let folder = state.find_folder(&history_folder(session))?;
        let known = folder.as_ref().and_then(|_| session.parse::<SessionId>().ok());
        let known = known.and_then(|id| session::peek(state, &id));
        let newest = known.map_or(0, |known| known.last_seq());
        let numbers = Self { folder, newest, ..Self::default() };
        // The state of the session may be lost, or older than its history.
        if let Some(folder) = &numbers.folder
            && (newest == 0 || is_given(folder, newest.saturating_add(1)))
        {
            numbers.list(folder)?;
        }
        Ok(numbers)
    }

    /// Returns the newest number.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn newest(&self) -> Result<Option<u64>, Error> {
        self.before(u64::MAX)
    }

    /// Returns the newest number below `seq`.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn before(&self, seq: u64) -> Result<Option<u64>, Error> {
        let Some(folder) = &self.folder else { return Ok(None) };
        if self.listed.get().is_none() {
            let mut next = seq.min(self.newest.saturating_add(1));
            while self.lookups.get() < LOOKUPS_MAX {
                if next <= 1 {
                    return Ok(None);
                }
                next -= 1;
                self.lookups.set(self.lookups.get() + 1);
                if fs::stat_at(folder.as_fd(), history_name(next).as_ref()).is_ok() {
                    return Ok(Some(next));
                }
            }
        }
        let all = self.list(folder)?;
        let at = all.partition_point(|known| *known < seq);
        Ok(at.checked_sub(1).and_then(|at| all.get(at)).copied())
    }

    /// Returns true if the change `seq` is in the history.
    pub fn has(&self, seq: u64) -> bool {
        match (self.listed.get(), &self.folder) {
            (Some(all), _) => all.binary_search(&seq).is_ok(),
            (None, Some(folder)) => fs::stat_at(folder.as_fd(), history_name(seq).as_ref()).is_ok(),
            (None, None) => false,
        }
    }

    /// Returns the numbers from `first` on, ascending.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn since(&self, first: u64) -> Result<Vec<u64>, Error> {
        let (mut numbers, mut next) = (Vec::new(), u64::MAX);
        while let Some(seq) = self.before(next)?.filter(|seq| *seq >= first) {
            numbers.push(seq);
            next = seq;
        }
        numbers.reverse();
        Ok(numbers)
    }

    /// Lists the folder, once.
    fn list(&self, folder: &OwnedFd) -> Result<&[u64], Error> {
        if self.listed.get().is_none() {
            // Nobody else can have set it: a cell is not shared between threads.
            let _ = self.listed.set(numbers_in(folder)?);
        }
        Ok(self.listed.get().map(Vec::as_slice).unwrap_or_default())
    }
}
