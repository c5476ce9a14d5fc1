//! Where in a workspace repositories were found when it was last searched, so that a transaction need not
//! search again: its cost must not grow with the number of files.
//!
//! What a transaction does not know of is safe all the same. The command writes into a layer, and the
//! change that the layer becomes is refused as a whole where it touches a repository or a state; then the
//! list is forgotten, and the next transaction searches.

use std::ffi::OsStr;

use rustix::fs::AtFlags;
use serde::{Deserialize, Serialize};

use crate::engine::store::state::{KNOWN_REPOSITORIES, State};
use crate::engine::store::unique::unique_name;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;

/// Version of its format.
const VERSION: u32 = 1;
/// Bytes of it.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Folders that are remembered; where there are more, each transaction searches.
const FOLDERS_MAX: usize = 10_000;

/// The file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownRepositories {
    /// Version of the format.
    version: u32,
    /// Folders in which there was a `.git`, a `.lbx` or the parts of a repository.
    folders: Vec<WorkspacePath>,
}

/// The folders that a search has found, where one is remembered.
#[must_use]
pub fn load(state: &State) -> Option<Vec<WorkspacePath>> {
    read(state).filter(|known| known.version == VERSION).map(|known| known.folders)
}

/// Remembers what a search of the whole workspace has found.
pub fn save(state: &State, folders: &[WorkspacePath]) {
    let known = read(state);
    let is_right = |known: &KnownRepositories| known.version > VERSION || known.folders.as_slice() == folders;
    if known.as_ref().is_some_and(is_right) {
        return;
    }
    if folders.len() > FOLDERS_MAX {
        forget(state);
        return;
    }
    let known = KnownRepositories { version: VERSION, folders: folders.to_vec() };
    // Where it cannot be written, the next transaction searches.
    let written = serde_json::to_vec(&known).ok().map(|bytes| {
        state.replace(state.fd(), OsStr::new(KNOWN_REPOSITORIES), &bytes, &unique_name("repositories"))
    });
    if !matches!(written, Some(Ok(_))) {
        forget(state);
    }
}

/// Has the next transaction search.
pub fn forget(state: &State) {
    let _ = fs::unlink_at(state.fd(), KNOWN_REPOSITORIES, AtFlags::empty());
}

/// The file as it is.
fn read(state: &State) -> Option<KnownRepositories> {
    let bytes = fs::read_at(state.fd(), OsStr::new(KNOWN_REPOSITORIES), FILE_BYTES_MAX).ok()??;
    serde_json::from_slice(&bytes).ok()
}
