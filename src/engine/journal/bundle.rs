//! Bundles: old bytes of many files in one file, so that a change of thousands of files does not make thousands of
//! backups.
//!
//! A bundle is a file of parts next to the backups, named after its change. That of `gc` holds the old bytes of all
//! changes so far, compressed. Like a backup it is read as hostile input: a part counts only if its digest is right.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::AtFlags;

use super::parts::{Parts, PartsWriter};
use super::steps::BACKUPS_FOLDER;
use crate::engine::store::state::{STATE_FOLDER, State, names_in};
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::limits::OPEN_BUNDLES_MAX;
use crate::sha256::Sha256;

/// Folder of bundles, below that of the backups.
pub const FOLDER: &str = "bundles";

/// Old bytes that become one bundle file.
#[derive(Default)]
pub struct Bundle<'b> {
    /// Old bytes, by their digest.
    parts: BTreeMap<Sha256, &'b [u8]>,
}

impl<'b> Bundle<'b> {
    /// Adds the bytes of a file.
    pub fn add(&mut self, sha256: Sha256, bytes: &'b [u8]) {
        self.parts.insert(sha256, bytes);
    }

    /// Writes the bundle of the change `id`, for the caller to sync; `None` if it is empty.
    ///
    /// # Errors
    /// Returns the OS error; then nothing is left behind.
    pub fn write(&self, state: &State, id: &str) -> Result<Option<PendingFile>, Error> {
        if self.parts.is_empty() {
            return Ok(None);
        }
        let io = |source: io::Error| Error::io("write a backup in", STATE_FOLDER, source);
        let folder = state.folder(&folder())?;
        let file = fs::create_at(folder.as_fd(), OsStr::new(id), 0o600).map_err(|errno| io(errno.into()))?;
        let written = self.write_to(&file);
        let pending = PendingFile { file, folder, name: id.into(), is_new: true };
        match written {
            Ok(()) => Ok(Some(pending)),
            Err(source) => {
                pending.discard();
                Err(io(source))
            }
        }
    }

    /// Writes the parts.
    fn write_to(&self, file: &File) -> io::Result<()> {
        let mut writer = PartsWriter::new(file, self.parts.len())?;
        self.parts.iter().try_for_each(|(sha256, bytes)| writer.plain(*sha256.as_bytes(), bytes))?;
        writer.finish()
    }
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
        let Some(folder) = state.find_folder(&folder())? else {
            return Ok(None);
        };
        for name in names_in(&folder)? {
            if self.opened.contains_key(&name) {
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
    Error::io("read", state.shown(BACKUPS_FOLDER), source)
}

/// Returns the bytes with that SHA-256 in a bundle.
pub(super) fn find_in(bundle: &Parts, sha256: Sha256) -> io::Result<Option<Vec<u8>>> {
    Ok(bundle.get(sha256.as_bytes())?.filter(|bytes| Sha256::of(bytes) == sha256))
}

/// Returns the folder of the bundles.
pub(super) fn folder() -> String {
    format!("{BACKUPS_FOLDER}/{FOLDER}")
}

/// A backup, a bundle or a journal entry that is written and not yet durable. Do not rely on it before it is synced.
#[derive(Debug)]
pub struct PendingFile {
    /// The file, to be synced.
    pub file: File,
    /// Folder of the file, shared with others.
    pub folder: Arc<OwnedFd>,
    /// Its name there.
    pub(super) name: OsString,
    /// True if this call created it.
    pub(super) is_new: bool,
}

impl PendingFile {
    /// Removes the file, if this call created it.
    pub fn discard(&self) {
        if self.is_new {
            // Best effort: gc knows such a file by its name.
            let _ = fs::unlink_at(&*self.folder, &self.name, AtFlags::empty());
        }
    }
}
