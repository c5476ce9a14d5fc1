//! Old bytes of small files, which an entry of the journal holds itself: one sync makes both durable, and
//! they have no file of their own, then or later.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::places::{DONE_FOLDER, ENTRY_BYTES_MAX, OPEN_FOLDER, STUCK_FOLDER};
use crate::engine::store::state::State;
use crate::engine::store::state::names_in;
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::sha256::Sha256;

/// Old bytes of one file that an entry holds at most; those of larger ones are in the backups.
pub const FILE_BYTES_MAX: usize = 16 << 10;
/// The same, of all its files.
pub const ALL_BYTES_MAX: usize = 64 << 10;

/// Old bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Their SHA-256.
    pub sha256: Sha256,
    /// They themselves, in base64.
    base64: String,
}

impl Kept {
    /// Those whose SHA-256 is `sha256`.
    #[must_use]
    pub fn new(sha256: Sha256, bytes: &[u8]) -> Self {
        Self { sha256, base64: STANDARD.encode(bytes) }
    }

    /// The bytes, where they have that SHA-256.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        STANDARD.decode(&self.base64).ok().filter(|bytes| Sha256::of(bytes) == self.sha256)
    }
}

/// The bytes with that SHA-256 that an entry of the journal holds; `None` where none does.
///
/// # Errors
/// What the system says.
pub fn kept_bytes(state: &State, sha256: Sha256) -> Result<Option<Vec<u8>>, Error> {
    // That of this very call may have come since the others were looked at.
    for place in entries_in(state, OPEN_FOLDER)? {
        if let Some(bytes) = bytes_in(state, &place, sha256)? {
            return Ok(Some(bytes));
        }
    }
    match state.in_call(|holders: &mut Holders| holders.of(state, sha256))? {
        Some(place) => bytes_in(state, &place, sha256),
        None => Ok(None),
    }
}

/// Where an entry is.
#[derive(Debug, Clone)]
struct Place {
    /// The folder.
    folder: String,
    /// Its name there.
    name: String,
}

/// Which entry holds which bytes, as far as a call has looked: at the newest entries first, at each once.
#[derive(Debug, Default)]
struct Holders {
    /// The entries found so far, by the SHA-256 of what they hold.
    known: BTreeMap<Sha256, Place>,
    /// Those yet to be looked at, the newest last; `None` before the first look.
    waiting: Option<Vec<Place>>,
}

impl Holders {
    /// The newest entry that holds the bytes with that SHA-256.
    fn of(&mut self, state: &State, sha256: Sha256) -> Result<Option<Place>, Error> {
        let waiting = match &mut self.waiting {
            Some(waiting) => waiting,
            None => self.waiting.insert(entries(state)?),
        };
        while !self.known.contains_key(&sha256) {
            let Some(place) = waiting.pop() else { return Ok(None) };
            for kept in kept_in(state, &place)?.into_iter().filter(|kept| kept.bytes().is_some()) {
                self.known.entry(kept.sha256).or_insert_with(|| place.clone());
            }
        }
        Ok(self.known.get(&sha256).cloned())
    }
}

/// The entries of all that is done or stuck, the newest last: their names say which is the newer one.
fn entries(state: &State) -> Result<Vec<Place>, Error> {
    let mut all = entries_in(state, STUCK_FOLDER)?;
    if let Some(done) = state.find_folder(DONE_FOLDER)? {
        for session in names_in(&done)? {
            all.extend(entries_in(state, &format!("{DONE_FOLDER}/{session}"))?);
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// The entries in a folder of the journal.
fn entries_in(state: &State, folder: &str) -> Result<Vec<Place>, Error> {
    let Some(opened) = state.find_folder(folder)? else { return Ok(Vec::new()) };
    let names = names_in(&opened)?;
    Ok(names.into_iter().map(|name| Place { folder: folder.to_owned(), name }).collect())
}

/// The bytes with that SHA-256 in the entry at a place.
fn bytes_in(state: &State, place: &Place, sha256: Sha256) -> Result<Option<Vec<u8>>, Error> {
    let found = kept_in(state, place)?;
    Ok(found.iter().filter(|kept| kept.sha256 == sha256).find_map(Kept::bytes))
}

/// What the entry at a place holds.
fn kept_in(state: &State, place: &Place) -> Result<Vec<Kept>, Error> {
    /// The one field that matters here.
    #[derive(Deserialize)]
    struct Holder {
        /// What the entry holds.
        #[serde(default)]
        kept: Vec<Kept>,
    }
    let Some(folder) = state.find_folder(&place.folder)? else { return Ok(Vec::new()) };
    // What cannot be read holds nothing.
    let bytes = fs::read_at(folder.as_fd(), place.name.as_ref(), ENTRY_BYTES_MAX).ok().flatten();
    let bytes = bytes.filter(|bytes| memchr::memmem::find(bytes, b"\"kept\"").is_some());
    let holder = bytes.and_then(|bytes| serde_json::from_slice::<Holder>(&bytes).ok());
    Ok(holder.map_or_else(Vec::new, |holder| holder.kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_only_under_their_own_hash() {
        let bytes = b"old\n\xff\0";
        assert_eq!(Kept::new(Sha256::of(bytes), bytes).bytes().unwrap(), bytes);
        assert_eq!(Kept::new(Sha256::of(b"other"), bytes).bytes(), None);
        let damaged = Kept { base64: "?".to_owned(), ..Kept::new(Sha256::of(bytes), bytes) };
        assert_eq!(damaged.bytes(), None);
    }
}
