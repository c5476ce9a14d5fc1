//! Every old version of a file, under the SHA-256 of its bytes.
//!
//! A backup is a copy of the very bytes that were hashed; a hard link would change under a late
//! writer. It does not depend on git, so that ignored files are as safe as any.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::AtFlags;

use super::fs;
use super::state::{State, shown, unique_name};
use super::transaction::stage;
use crate::error::Error;
use crate::sha256::Sha256;

/// Where the backups are, below the state folder.
pub const FOLDER: &str = "backups";
/// The largest backup read back.
const BYTES_MAX: u64 = u64::MAX - 1;

/// A backup that is written but does not have its name yet.
#[derive(Debug)]
pub struct Pending {
    /// Its bytes, to be synced.
    pub file: File,
    /// The folder it belongs in, which others share.
    pub folder: Arc<OwnedFd>,
    /// The folder it is in so far.
    staging: Arc<OwnedFd>,
    /// Its name so far.
    temporary: OsString,
    /// Its name to be.
    name: OsString,
}

/// The folders that the backups of one change need, each opened once.
#[derive(Debug)]
pub struct Folders<'s> {
    /// The state.
    state: &'s State,
    /// Where backups wait: the next call clears away what a dead one left there.
    staging: Arc<OwnedFd>,
    /// Where they belong, by name.
    opened: BTreeMap<String, Arc<OwnedFd>>,
}

impl<'s> Folders<'s> {
    /// Those of `state`.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(state: &'s State) -> Result<Self, Error> {
        Ok(Self { state, staging: Arc::new(state.folder(stage::FOLDER)?), opened: BTreeMap::new() })
    }

    /// Writes a backup of `bytes`; `None` where there is one already.
    ///
    /// # Errors
    /// What the system says; then nothing is left behind.
    pub fn prepare(&mut self, sha256: Sha256, bytes: &[u8]) -> Result<Option<Pending>, Error> {
        let (folder, name) = place_of(sha256);
        let folder = self.open(folder)?;
        let name = OsString::from(name);
        if fs::stat_at(folder.as_fd(), &name).is_ok_and(|stat| fs::size_of(&stat) == bytes.len() as u64) {
            return Ok(None);
        }
        let staging = Arc::clone(&self.staging);
        let temporary = OsString::from(unique_name("backup"));
        let io = |source: std::io::Error| Error::io("back up", shown(FOLDER), source);
        let file = fs::create_at(staging.as_fd(), &temporary, 0o600).map_err(|errno| io(errno.into()))?;
        let written = fs::write_all(&file, bytes);
        let pending = Pending { file, folder, staging, temporary, name };
        match written {
            Ok(()) => Ok(Some(pending)),
            Err(source) => {
                pending.discard();
                Err(io(source))
            }
        }
    }

    /// A folder of backups.
    fn open(&mut self, name: String) -> Result<Arc<OwnedFd>, Error> {
        if let Some(opened) = self.opened.get(&name) {
            return Ok(Arc::clone(opened));
        }
        let opened = Arc::new(self.state.folder(&name)?);
        self.opened.insert(name, Arc::clone(&opened));
        Ok(opened)
    }
}

impl Pending {
    /// Gives a synced backup its name.
    ///
    /// # Errors
    /// What the system says.
    pub fn publish(&self) -> Result<(), Error> {
        fs::rename_at(&*self.staging, &self.temporary, &*self.folder, &self.name)
            .map_err(|errno| Error::io("back up", shown(FOLDER), errno))
    }

    /// Removes one that is not needed after all.
    pub fn discard(&self) {
        // Best effort: the next change removes what is left.
        let _ = fs::unlink_at(&*self.staging, &self.temporary, AtFlags::empty());
    }
}

/// The bytes with that SHA-256; `None` where there is no backup of them, or a damaged one.
///
/// # Errors
/// What the system says.
pub fn find(state: &State, sha256: Sha256) -> Result<Option<Vec<u8>>, Error> {
    let (folder, name) = place_of(sha256);
    let Some(folder) = state.find_folder(&folder)? else {
        return Ok(None);
    };
    let bytes = fs::read_at(folder.as_fd(), OsStr::new(&name), BYTES_MAX)
        .map_err(|source| Error::io("read", shown(FOLDER), source))?;
    Ok(bytes.filter(|bytes| Sha256::of(bytes) == sha256))
}

/// The folder and name of a backup: its first two digits, and the rest.
fn place_of(sha256: Sha256) -> (String, String) {
    let hex = sha256.to_hex();
    let (first, rest) = hex.split_at(2);
    (format!("{FOLDER}/{first}"), rest.to_owned())
}
