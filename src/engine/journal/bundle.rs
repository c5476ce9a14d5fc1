//! Bundles: old bytes of many files in one file, so that a change of thousands of files does not make thousands of
//! backups. And packed histories: changes that `gc` put into one file, `journal/done/SESSION/packed`.
//!
//! A bundle is a file of parts next to the backups, named after its change. That of `gc` holds the old bytes of all
//! changes so far, compressed. Like a backup it is read as hostile input: a part counts only if its digest is right.
//!
//! A packed change has no file of its own, and its old bytes are in a bundle. If a kill left both, its file counts.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::sync::Arc;

use rustix::fs::AtFlags;

use super::parts::{Key, Parts, PartsWriter};
use super::steps::{BACKUPS_FOLDER, DONE_FOLDER};
use crate::engine::store::session::SEQ_MAX;
use crate::engine::store::state::{STATE_FOLDER, State, names_in};
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::limits::OPEN_BUNDLES_MAX;
use crate::sha256::Sha256;

/// Folder of bundles, below that of the backups.
pub const FOLDER: &str = "bundles";

/// Writes the bundle of the change `id` with the old bytes in `parts`, for the caller to sync; `None` if there are none.
///
/// # Errors
/// Returns the OS error; then nothing is left behind.
pub fn write(state: &State, id: &str, parts: &BTreeMap<Sha256, &[u8]>) -> Result<Option<PendingFile>, Error> {
    if parts.is_empty() {
        return Ok(None);
    }
    let written = PendingFile::create(state.folder(&folder())?, id.into(), 0o600, |file| {
        let mut writer = PartsWriter::new(file, parts.len())?;
        parts.iter().try_for_each(|(sha256, bytes)| writer.plain(*sha256.as_bytes(), bytes))?;
        writer.finish()
    });
    written.map(Some).map_err(|source| Error::io("write a backup in", STATE_FOLDER, source))
}

/// Bundles that one call reads: each is opened once.
#[derive(Debug, Default)]
pub struct Bundles {
    /// Open bundles, by name.
    opened: BTreeMap<String, Parts>,
}

impl Bundles {
    /// Returns the bytes with that SHA-256, if an open bundle has them.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn find_opened(&self, state: &State, sha256: Sha256) -> Result<Option<Vec<u8>>, Error> {
        for bundle in self.opened.values() {
            if let Some(bytes) = find_in(bundle, sha256).map_err(|source| unreadable(state, source))? {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// Returns the bytes with that SHA-256; `None` if no other bundle has them.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn find(&mut self, state: &State, sha256: Sha256) -> Result<Option<Vec<u8>>, Error> {
        for (folder, name) in state.entries(&folder())? {
            // Since it was opened, `gc` may have replaced the packed one.
            if self.opened.get(&name).is_some_and(|opened| opened.is_still(&folder, &name)) {
                continue;
            }
            let io = |source| unreadable(state, source);
            let Some(mut bundle) = Parts::open(&folder, &name).map_err(io)? else { continue };
            if self.opened.len() < OPEN_BUNDLES_MAX {
                bundle.load().map_err(io)?;
            }
            let found = find_in(&bundle, sha256).map_err(io)?;
            if bundle.is_loaded() {
                self.opened.insert(name, bundle);
            }
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// Returns the error for an unreadable bundle.
fn unreadable(state: &State, source: io::Error) -> Error {
    Error::io("read", state.display(BACKUPS_FOLDER), source)
}

/// Returns the bytes with that SHA-256 in a bundle.
pub(super) fn find_in(bundle: &Parts, sha256: Sha256) -> io::Result<Option<Vec<u8>>> {
    Ok(bundle.get(sha256.as_bytes())?.filter(|bytes| Sha256::of(bytes) == sha256))
}

/// Returns the folder of the bundles.
pub(super) fn folder() -> String {
    format!("{BACKUPS_FOLDER}/{FOLDER}")
}

/// Name of the packed file in the folder of a history, and in that of the bundles.
pub const PACKED: &str = "packed";
/// Suffix of the name that marks a number as given, for a change that has no file in the history.
pub(super) const GIVEN: &str = ".given";

/// Returns the number in a name of a session's history.
pub(super) fn number_in(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".lbx").or_else(|| name.strip_suffix(GIVEN))?;
    digits.parse().ok().filter(|seq| *seq < SEQ_MAX)
}

/// A packed history.
#[derive(Debug)]
pub struct PackedHistory {
    /// The changes, by their numbers; `None` if it is damaged or of a newer version.
    pub parts: Option<Parts>,
    /// Numbers of the changes, ascending, as far as they are known.
    pub numbers: Vec<u64>,
}

impl PackedHistory {
    /// Returns that of a session, if it has one, as the call found it first.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn of(state: &State, session: &str, folder: &OwnedFd) -> Result<Option<Arc<Self>>, Error> {
        match state.in_call(|opened: &mut OpenHistories| opened.packed.get(session).cloned()) {
            Some(known) => Ok(Some(known)),
            None => Self::open(state, session, folder),
        }
    }

    /// Opens that of a session.
    fn open(state: &State, session: &str, folder: &OwnedFd) -> Result<Option<Arc<Self>>, Error> {
        let io = |source: io::Error| Error::io("read", state.display(DONE_FOLDER), source);
        let found = Parts::open(folder, PACKED).map_err(io)?;
        if found.is_none() && fs::stat_at(folder.as_fd(), PACKED.as_ref()).is_err() {
            return Ok(None);
        }
        let (mut parts, mut numbers) = (None, Vec::new());
        if let Some(mut found) = found {
            let is_whole = found.load().map_err(io)?;
            numbers.extend(found.all_rows().map_err(io)?.iter().filter_map(|row| seq_of(&row.key)));
            parts = Some(found).filter(|_| is_whole);
        } else {
            // Packing marks the newest number as given.
            numbers.extend(names_in(folder)?.iter().filter_map(|name| number_in(name)));
        }
        let packed = Arc::new(Self { parts, numbers });
        state.in_call(|opened: &mut OpenHistories| {
            opened.packed.insert(session.to_owned(), Arc::clone(&packed))
        });
        Ok(Some(packed))
    }
}

/// Returns the newest packed number in the folder of a history, or 0, without reading the others.
///
/// # Errors
/// Returns the OS error.
pub fn newest_packed(state: &State, folder: &OwnedFd) -> Result<u64, Error> {
    let io = |source: io::Error| Error::io("read", state.display(DONE_FOLDER), source);
    let Some(packed) = Parts::open(folder, PACKED).map_err(io)? else { return Ok(0) };
    for row in (0..packed.rows()).rev() {
        if let Some(newest) = seq_of(&packed.row(row).map_err(io)?.key) {
            return Ok(newest);
        }
    }
    Ok(0)
}

/// Returns the packed change `seq` of a session, as its file was; `None` if it is not there.
///
/// # Errors
/// Returns the OS error.
pub fn packed_change(
    state: &State,
    session: &str,
    folder: &OwnedFd,
    seq: u64,
) -> Result<Option<Vec<u8>>, Error> {
    let io = |source: io::Error| Error::io("read", state.display(DONE_FOLDER), source);
    // With wrong numbers none of its changes is known to be the newest.
    let get =
        |packed: Option<Arc<PackedHistory>>| match packed.as_ref().and_then(|packed| packed.parts.as_ref()) {
            Some(parts) => parts.get(&key_of(seq)).map_err(io),
            None => Ok(None),
        };
    match get(PackedHistory::of(state, session, folder)?)? {
        Some(bytes) => Ok(Some(bytes)),
        // Another call may have packed it since this one began.
        None => get(PackedHistory::open(state, session, folder)?),
    }
}

/// Packed histories that a call has opened, by session.
#[derive(Debug, Default)]
struct OpenHistories {
    /// The histories.
    packed: BTreeMap<String, Arc<PackedHistory>>,
}

/// Returns the key of the change `seq`; keys sort as numbers do.
pub fn key_of(seq: u64) -> Key {
    let mut key = Key::default();
    key.iter_mut().rev().zip(seq.to_le_bytes()).for_each(|(to, from)| *to = from);
    key
}

/// Returns the number in a key; `None` if no change has that number.
fn seq_of(key: &Key) -> Option<u64> {
    key.last_chunk().copied().map(u64::from_be_bytes).filter(|seq| *seq < SEQ_MAX)
}

/// A backup, a bundle or a journal entry that is written and not yet durable. Do not rely on it before it is synced.
#[derive(Debug)]
pub struct PendingFile {
    /// The file, to be synced.
    pub file: File,
    /// Folder of the file, shared with others.
    pub folder: Arc<OwnedFd>,
    /// Its name there.
    pub name: OsString,
    /// True if this call created it.
    pub is_new: bool,
}

impl PendingFile {
    /// Creates the file `name` in `folder`, with that mode; removes it again if `write` fails.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn create(
        folder: Arc<OwnedFd>,
        name: OsString,
        mode: u32,
        write: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<Self> {
        let file = fs::create_at(folder.as_fd(), &name, mode)?;
        let pending = Self { file, folder, name, is_new: true };
        write(&pending.file).inspect_err(|_| pending.discard())?;
        Ok(pending)
    }

    /// Returns the folders of some files, each once.
    pub fn folders(pending: &[Self]) -> Vec<&OwnedFd> {
        let mut folders: Vec<&OwnedFd> = pending.iter().map(|one| &*one.folder).collect();
        folders.sort_unstable_by_key(|folder| folder.as_raw_fd());
        folders.dedup_by_key(|folder| folder.as_raw_fd());
        folders
    }

    /// Removes the file, if this call created it.
    pub fn discard(&self) {
        if self.is_new {
            // Best effort: the next change removes what is staged, and gc knows a backup by its name.
            let _ = fs::unlink_at(&*self.folder, &self.name, AtFlags::empty());
        }
    }
}
