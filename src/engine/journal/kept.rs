//! Old bytes of small files, which an entry of the journal holds itself: one sync makes both durable.

use std::os::fd::{AsFd, OwnedFd};

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
/// The backups are looked at first: this is for what a power failure took there.
///
/// # Errors
/// What the system says.
pub fn kept_bytes(state: &State, sha256: Sha256) -> Result<Option<Vec<u8>>, Error> {
    let mut folders = vec![OPEN_FOLDER.to_owned(), STUCK_FOLDER.to_owned()];
    if let Some(done) = state.find_folder(DONE_FOLDER)? {
        folders.extend(names_in(&done)?.iter().map(|session| format!("{DONE_FOLDER}/{session}")));
    }
    let hex = sha256.to_hex();
    for folder in folders {
        let Some(folder) = state.find_folder(&folder)? else { continue };
        for name in names_in(&folder)? {
            let found = kept_in(&folder, &name, &hex);
            let bytes = found.iter().find(|kept| kept.sha256 == sha256).and_then(Kept::bytes);
            if bytes.is_some() {
                return Ok(bytes);
            }
        }
    }
    Ok(None)
}

/// What the entry `name` holds, where it names `hex` at all.
fn kept_in(folder: &OwnedFd, name: &str, hex: &str) -> Vec<Kept> {
    /// The one field that matters here.
    #[derive(Deserialize)]
    struct Holder {
        /// What the entry holds.
        #[serde(default)]
        kept: Vec<Kept>,
    }
    // What cannot be read holds nothing.
    let bytes = fs::read_at(folder.as_fd(), name.as_ref(), ENTRY_BYTES_MAX).ok().flatten();
    let bytes = bytes.filter(|bytes| memchr::memmem::find(bytes, hex.as_bytes()).is_some());
    let holder = bytes.and_then(|bytes| serde_json::from_slice::<Holder>(&bytes).ok());
    holder.map_or_else(Vec::new, |holder| holder.kept)
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
