//! Versions of a fork that were merged: later merges begin with them instead of those that the fork began with. An undo of a
//! merge takes its versions out again.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{AtFlags, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::fork::{ForkFolder, write_version};
use super::layer_folders::OWN_MODE;
use super::overlay::{OPAQUE, whiteout};
use crate::engine::store::lock::unique_name;
use crate::engine::store::state::{make_folder, replace_by_way_of};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{fs, removal};
use crate::error::Error;
use crate::limits::FORK_MERGES_BYTES_MAX;
use crate::platform;

/// Prefix of a version on its way into the folder.
const COMING: &str = "merged";
/// File that lists the merges of a fork.
const MERGES: &str = "merges.lbx";
/// Version of its format.
const VERSION: u32 = 1;

/// A merge of a fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkMerge {
    /// Session that made the change.
    pub session: String,
    /// Its number in that session.
    pub seq: u64,
    /// Its journal id.
    pub id: String,
    /// Paths whose versions were noted.
    pub paths: BTreeSet<WorkspacePath>,
}

/// The merges of a fork, oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Merges {
    /// Version of the format.
    version: u32,
    /// Merges.
    merges: Vec<ForkMerge>,
}

/// A version that was merged: mode and bytes; `None` if the fork has nothing at the path.
pub type MergedVersion = Option<(u32, Vec<u8>)>;

impl ForkFolder {
    /// Notes versions that were merged. They are on disk before they count, unless `is_durable` is false.
    ///
    /// If this fails or the call dies, some count and others do not: a later merge then finds what was merged on both
    /// sides.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn note_merged(
        &self,
        versions: impl Iterator<Item = (WorkspacePath, MergedVersion)>,
        is_durable: bool,
    ) -> Result<(), Error> {
        let mut coming = Vec::new();
        let written = versions.into_iter().try_for_each(|(path, version)| {
            let name = unique_name(COMING);
            let at = (self.folder.as_fd(), OsStr::new(&name));
            let written = match &version {
                Some((mode, bytes)) => write_version(at, *mode, bytes),
                None => whiteout(at.0, at.1),
            };
            coming.push((path, name));
            written
        });
        let sync = || if is_durable { platform::sync_file_system(self.folder.as_fd()) } else { Ok(()) };
        let placed = written.and_then(|()| sync()).and_then(|()| {
            coming.iter().try_for_each(|(path, name)| self.place_merged(path, OsStr::new(name)))
        });
        placed.map_err(|errno| {
            for (_, name) in &coming {
                let _ = fs::unlink_at(&self.folder, name, AtFlags::empty());
            }
            Error::io("note in the fork", "what was merged", errno)
        })
    }

    /// Returns the merges, oldest first.
    pub fn merges(&self) -> Vec<ForkMerge> {
        let bytes =
            fs::read_at(self.folder.as_fd(), OsStr::new(MERGES), FORK_MERGES_BYTES_MAX).ok().flatten();
        let merges = bytes.and_then(|bytes| serde_json::from_slice::<Merges>(&bytes).ok());
        merges.filter(|merges| merges.version <= VERSION).unwrap_or_default().merges
    }

    /// Sets the merges; leaves out the oldest ones that have no room.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn set_merges(&self, mut merges: Vec<ForkMerge>) -> Result<(), Error> {
        let folder = self.folder.as_fd();
        loop {
            let written = serde_json::to_vec(&Merges { version: VERSION, merges: merges.clone() });
            let bytes = written.map_err(|error| Error::internal(error.to_string()))?;
            if bytes.len() as u64 <= FORK_MERGES_BYTES_MAX {
                replace_by_way_of(folder, &unique_name(MERGES), folder, OsStr::new(MERGES), &bytes, 0o600)?;
                return Ok(());
            }
            merges.remove(0);
        }
    }

    /// Forgets the merged versions of paths.
    pub fn forget_merged<'p>(&self, paths: impl Iterator<Item = &'p WorkspacePath>) {
        for path in paths {
            let mut flags = AtFlags::empty();
            for path in path.and_above().filter(|path| !path.is_root()) {
                let parent = path.parent().unwrap_or_default();
                let Ok(folder) = fs::open_beneath(self.base.as_fd(), &parent, fs::FOLDER) else { break };
                // A folder that holds other versions stays.
                if fs::unlink_at(&folder, path.name().unwrap_or_default(), flags).is_err() {
                    break;
                }
                flags = AtFlags::REMOVEDIR;
            }
        }
    }

    /// Moves a version to its place.
    fn place_merged(&self, path: &WorkspacePath, coming: &OsStr) -> Result<(), Errno> {
        let mut folder = fs::open_at(self.base.as_fd(), OsStr::new("."), fs::FOLDER)?;
        for name in path.parent().unwrap_or_default().components() {
            folder = folder_in(&folder, name)?;
        }
        let name = path.name().unwrap_or_default();
        if fs::stat_at(folder.as_fd(), name).is_ok_and(|stat| fs::is_folder(&stat)) {
            removal::remove(folder.as_fd(), name);
        }
        fs::rename_at(&self.folder, coming, &folder, name)
    }
}

/// Opens a folder of merged versions; makes it if it is missing. One that takes the place of a file or of nothing hides what
/// is below it.
fn folder_in(parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let is_in_the_way = fs::stat_at(parent.as_fd(), name).is_ok_and(|stat| !fs::is_folder(&stat));
    if is_in_the_way {
        fs::unlink_at(parent, name, AtFlags::empty())?;
    }
    make_folder(parent.as_fd(), name, OWN_MODE)?;
    let folder = fs::open_at(parent.as_fd(), name, fs::FOLDER)?;
    if is_in_the_way {
        rustix::fs::fsetxattr(&folder, OPAQUE, b"y", XattrFlags::empty())?;
    }
    Ok(folder)
}
