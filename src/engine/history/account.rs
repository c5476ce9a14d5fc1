//! Account of a session's changes that is kept: their net effect up to one of them, so that only later ones are read.
//!
//! It is a cache: the history counts. An account names the first and the last change that it was made of, and ends with
//! its own digest. If one of them is gone or is another change, or the account is damaged, it is made again. `gc`, which
//! may remove any change, removes the accounts too.

use std::ffi::OsStr;
use std::os::fd::AsFd as _;

use serde::{Deserialize, Serialize};

use super::session_diff::{NetChange, NetChanges};
use crate::control::Control;
use crate::engine::journal::ChangeNumbers;
use crate::engine::journal::{self, ACCOUNTS_FOLDER, JournalEntry};
use crate::engine::store::lock::unique_name;
use crate::engine::store::state::State;
use crate::engine::store::{sealed, unsealed};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;
use crate::limits::SESSION_ACCOUNT_BYTES_MAX;

/// End of the name of an account.
const SUFFIX: &str = ".changes";
/// Version of an account that this code reads and writes.
const VERSION: u32 = 1;
/// Number of changes after which an account is written again.
const SAVED_EVERY: usize = 64;

/// A change at an end of an account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AccountEnd {
    /// Number in the session.
    seq: u64,
    /// Id.
    id: String,
    /// Time, in seconds since 1970.
    time: u64,
}

impl AccountEnd {
    /// Returns a change as an end.
    fn of(entry: &JournalEntry) -> Self {
        Self { seq: entry.seq, id: entry.id.clone(), time: entry.time }
    }

    /// Returns true if the history still has it.
    fn is_there(&self, state: &State, session: &str) -> Result<bool, Error> {
        let entry = journal::history_entry(state, session, self.seq)?;
        Ok(entry.is_some_and(|entry| Self::of(&entry) == *self))
    }
}

/// Net effect of a session's changes from one of them on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ChangesAccount {
    /// Version of the format.
    version: u32,
    /// Session.
    session: String,
    /// Number of the change from which on it counts.
    from: u64,
    /// First and last change, if there are any.
    ends: Option<(AccountEnd, AccountEnd)>,
    /// Number of changes.
    changes: usize,
    /// Numbers of the changes that move files, or turn earlier changes around.
    turning: Vec<u64>,
    /// Net effect.
    ledger: NetChanges,
}

impl ChangesAccount {
    /// Returns the account of a session's changes from the number `from` on.
    ///
    /// # Errors
    /// Returns the OS error, or `timeout`.
    pub fn of(state: &State, session: &str, from: u64, control: &Control) -> Result<Self, Error> {
        let known = Self::load(state, session, from)?;
        let mut account = known.unwrap_or_else(|| Self {
            version: VERSION,
            session: session.to_owned(),
            from,
            ..Self::default()
        });
        let next = account.ends.as_ref().map_or(from, |(_, last)| last.seq.saturating_add(1));
        let mut added = 0;
        for seq in ChangeNumbers::of(state, session)?.since(next)? {
            control.check()?;
            let Some(entry) = journal::history_entry(state, session, seq)? else { continue };
            let first = account.ends.take().map_or_else(|| AccountEnd::of(&entry), |(first, _)| first);
            account.ends = Some((first, AccountEnd::of(&entry)));
            account.ledger.add_change(&entry);
            account.changes += 1;
            if !entry.moves.is_empty() || !entry.reverts.is_empty() || entry.takes_back.is_some() {
                account.turning.push(seq);
            }
            added += 1;
        }
        if added >= SAVED_EVERY {
            // A full disk, or a workspace that only can be read: the next call reads these changes again.
            let _ = account.save(state);
        }
        Ok(account)
    }

    /// Loads an account that is whole and whose changes are still there.
    fn load(state: &State, session: &str, from: u64) -> Result<Option<Self>, Error> {
        let Some(folder) = state.find_folder(ACCOUNTS_FOLDER)? else { return Ok(None) };
        let name = format!("{session}{SUFFIX}");
        let bytes = fs::read_at(folder.as_fd(), OsStr::new(&name), SESSION_ACCOUNT_BYTES_MAX).ok().flatten();
        let is_it = |it: &Self| it.version == VERSION && it.session == session && it.from == from;
        match bytes.and_then(|bytes| unsealed(&bytes)).filter(is_it) {
            Some(Self { ends: Some((first, last)), .. })
                if !first.is_there(state, session)? || !last.is_there(state, session)? =>
            {
                Ok(None)
            }
            account => Ok(account),
        }
    }

    /// Saves it.
    fn save(&self, state: &State) -> Result<(), Error> {
        let folder = state.folder(ACCOUNTS_FOLDER)?;
        let bytes = sealed(self)?;
        if bytes.len() as u64 <= SESSION_ACCOUNT_BYTES_MAX {
            let name = format!("{}{SUFFIX}", self.session);
            state.replace(folder.as_fd(), OsStr::new(&name), &bytes, &unique_name("account"))?;
        }
        Ok(())
    }

    /// Returns the net effect, ordered by path.
    pub fn net(&self) -> Vec<NetChange> {
        self.ledger.clone().into_changes()
    }

    /// Returns the number of changes.
    pub const fn changes(&self) -> usize {
        self.changes
    }

    /// Returns the times of the first and the last change, in seconds since 1970.
    pub fn times(&self) -> Option<(u64, u64)> {
        self.ends.as_ref().map(|(first, last)| (first.time, last.time))
    }

    /// Returns the numbers of the changes after `seq` that move files, or turn earlier changes around; `None` if it begins
    /// later.
    pub fn moves_or_reverts_after(&self, seq: u64) -> Option<&[u64]> {
        let after = self.turning.partition_point(|turning| *turning <= seq);
        (self.from <= seq).then(|| self.turning.get(after..).unwrap_or_default())
    }

    /// Returns true if a change touched a file of that name, even if a later one changed it back.
    pub fn has_touched(&self, path: &WorkspacePath) -> bool {
        self.ledger.touched.contains_key(path)
    }

    /// Returns the number of the first change of a file, which holds the bytes from before.
    pub fn first_change_of(&self, path: &WorkspacePath) -> Option<u64> {
        self.ledger.touched.get(path).copied()
    }
}
