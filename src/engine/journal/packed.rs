//! Packed histories: changes that `gc` put into one file, `journal/done/SESSION/packed`.
//!
//! A packed change has no file of its own, and its old bytes are in a bundle. If a kill left both, its file counts.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::parts::{Key, Parts};
use super::steps::DONE_FOLDER;
use crate::engine::store::state::State;
use crate::error::Error;

/// Name of the file in the folder of a history.
pub const PACKED: &str = "packed";

/// A packed history.
#[derive(Debug)]
pub struct Packed {
    /// The changes, by their numbers.
    pub parts: Parts,
    /// Numbers of the changes, ascending.
    pub numbers: Vec<u64>,
    /// True if the numbers may be wrong.
    pub is_damaged: bool,
}

impl Packed {
    /// Returns that of a session, as the call found it first; `None` if there is none.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn of(state: &State, session: &str, folder: &OwnedFd) -> Result<Option<Arc<Self>>, Error> {
        match state.in_call(|opened: &mut Opened| opened.packed.get(session).cloned()) {
            Some(known) => Ok(Some(known)),
            None => Self::open(state, session, folder),
        }
    }

    /// Opens that of a session.
    fn open(state: &State, session: &str, folder: &OwnedFd) -> Result<Option<Arc<Self>>, Error> {
        let io = |source: io::Error| Error::io("read", state.shown(DONE_FOLDER), source);
        let Some(mut parts) = Parts::open(folder, PACKED).map_err(io)? else { return Ok(None) };
        let is_damaged = !parts.load().map_err(io)?;
        let rows = (0..parts.rows()).map(|row| parts.row(row).map(|row| seq_of(&row.key)));
        let numbers = rows.collect::<io::Result<Vec<u64>>>().map_err(io)?;
        let packed = Arc::new(Self { parts, numbers, is_damaged });
        state.in_call(|opened: &mut Opened| opened.packed.insert(session.to_owned(), Arc::clone(&packed)));
        Ok(Some(packed))
    }

    /// Returns true if it has the change `seq`.
    pub fn has(&self, seq: u64) -> bool {
        self.numbers.binary_search(&seq).is_ok()
    }
}

/// Returns the packed change `seq` of a session, as its file was; `None` if there is none.
///
/// # Errors
/// Returns the OS error.
pub fn find(state: &State, session: &str, folder: &OwnedFd, seq: u64) -> Result<Option<Vec<u8>>, Error> {
    let io = |source: io::Error| Error::io("read", state.shown(DONE_FOLDER), source);
    let get = |packed: Option<Arc<Packed>>| match packed {
        // With wrong numbers none of its changes is known to be the newest.
        Some(packed) if !packed.is_damaged => packed.parts.get(&key_of(seq)).map_err(io),
        _ => Ok(None),
    };
    match get(Packed::of(state, session, folder)?)? {
        Some(bytes) => Ok(Some(bytes)),
        // Another call may have packed it since this one began.
        None => get(Packed::open(state, session, folder)?),
    }
}

/// Packed histories that a call has opened, by session.
#[derive(Debug, Default)]
struct Opened {
    /// The histories.
    packed: BTreeMap<String, Arc<Packed>>,
}

/// Returns the key of the change `seq`; keys sort as numbers do.
pub fn key_of(seq: u64) -> Key {
    let mut key = Key::default();
    key.iter_mut().rev().zip(seq.to_le_bytes()).for_each(|(to, from)| *to = from);
    key
}

/// Returns the number in a key.
fn seq_of(key: &Key) -> u64 {
    key.last_chunk().copied().map_or(0, u64::from_be_bytes)
}
