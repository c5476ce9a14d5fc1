//! Versions of a fork that were merged: later merges begin with them instead of those that the fork began with.
//!
//! Each merge keeps its versions. The base follows from the merges that are in effect, so an undo takes out the versions of
//! its merge, and uncovers those of the merge before; a redo brings them back.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{AtFlags, Stat, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::fork::{ForkFolder, write_version};
use super::layer_folders::OWN_MODE;
use super::overlay::{OPAQUE, is_whiteout, whiteout};
use crate::engine::store::lock::unique_name;
use crate::engine::store::state::{make_folder, replace_by_way_of};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{fs, removal};
use crate::error::Error;
use crate::limits::FORK_MERGES_BYTES_MAX;
use crate::platform;
use crate::sha256::Sha256;

/// Prefix of a version on its way into the folder.
const COMING: &str = "merged";
/// Folder with the versions of all merges.
const VERSIONS: &str = "merged";
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
    /// True until a later merge has found its change in the journal: the call may have died before.
    #[serde(default)]
    pub is_open: bool,
}

impl ForkMerge {
    /// Returns the name of the file with the version that it brought at a path.
    pub fn version_name(&self, path: &WorkspacePath) -> String {
        Sha256::of(&[self.id.as_bytes(), b"\0", path.as_bytes()].concat()).to_hex()
    }
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
    /// Notes a merge before it changes anything, and the versions that it brings. They are on disk then, unless
    /// `is_durable` is false.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn note_merge(
        &self,
        (mut merges, mut merge): (Vec<ForkMerge>, ForkMerge),
        versions: impl Iterator<Item = (WorkspacePath, MergedVersion)>,
        is_durable: bool,
    ) -> Result<(), Error> {
        let io = |errno| Error::io("note in the fork", "what is merged", errno);
        let name = OsStr::new(VERSIONS);
        make_folder(self.folder.as_fd(), name, OWN_MODE).map_err(io)?;
        let folder = fs::open_at(self.folder.as_fd(), name, fs::FOLDER).map_err(io)?;
        for (path, version) in versions {
            let name = merge.version_name(&path);
            let at = (folder.as_fd(), OsStr::new(&name));
            let written = match &version {
                Some((mode, bytes)) => write_version(at, *mode, bytes),
                None => whiteout(at.0, at.1),
            };
            match written {
                // Not every system lets this account mark a removal: then both sides have it.
                Err(Errno::PERM | Errno::OPNOTSUPP) if version.is_none() => {}
                written => {
                    written.map_err(io)?;
                    merge.paths.insert(path);
                }
            }
        }
        merges.push(merge);
        self.set_merges(merges)?;
        if is_durable { platform::sync_file_system(self.folder.as_fd()).map_err(io) } else { Ok(()) }
    }

    /// Returns the merges, oldest first.
    pub fn merges(&self) -> Vec<ForkMerge> {
        let bytes =
            fs::read_at(self.folder.as_fd(), OsStr::new(MERGES), FORK_MERGES_BYTES_MAX).ok().flatten();
        let merges = bytes.and_then(|bytes| serde_json::from_slice::<Merges>(&bytes).ok());
        merges.filter(|merges| merges.version <= VERSION).unwrap_or_default().merges
    }

    /// Sets the merges; leaves out the oldest ones that have no room.
    fn set_merges(&self, mut merges: Vec<ForkMerge>) -> Result<(), Error> {
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

    /// Brings the base up to date: at each path a link to the version of that name, or nothing. A version without a file
    /// was noted by an older lbx: it is in its place.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn set_base(&self, versions: &BTreeMap<WorkspacePath, Option<String>>) -> Result<(), Error> {
        let set = || -> Result<(), Errno> {
            for (path, _) in versions.iter().filter(|(_, name)| name.is_none()) {
                self.forget(path);
            }
            let folder = match fs::open_at(self.folder.as_fd(), OsStr::new(VERSIONS), fs::FOLDER) {
                Err(Errno::NOENT) => return Ok(()),
                opened => opened?,
            };
            // Removals come first: a file may take the place of a folder.
            for is_removal in [true, false] {
                for (path, name) in versions.iter().filter_map(|(path, name)| Some((path, name.as_ref()?))) {
                    let version = match fs::stat_at(folder.as_fd(), OsStr::new(name)) {
                        Err(Errno::NOENT) => continue,
                        version => version?,
                    };
                    if is_whiteout(&version) == is_removal && !self.has(path, &version) {
                        self.place_merged(path, (&folder, name), &version)?;
                    }
                }
            }
            Ok(())
        };
        set().map_err(|errno| Error::io("note in the fork", "what was merged", errno))
    }

    /// Returns true if the base has a version at a path. A file that is gone may have become a folder.
    fn has(&self, path: &WorkspacePath, version: &Stat) -> bool {
        match fs::stat_beneath(self.base.as_fd(), path) {
            Ok(found) if is_whiteout(version) => is_whiteout(&found) || fs::is_folder(&found),
            Ok(found) => found.st_ino == version.st_ino,
            Err(errno) => is_whiteout(version) && matches!(errno, Errno::NOTDIR | Errno::LOOP),
        }
    }

    /// Removes the version at a path from the base.
    fn forget(&self, path: &WorkspacePath) {
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

    /// Places a link to a version in the base; a copy, if the file system has no links.
    fn place_merged(
        &self,
        path: &WorkspacePath,
        (versions, version): (&OwnedFd, &str),
        stat: &Stat,
    ) -> Result<(), Errno> {
        let coming = unique_name(COMING);
        let (from, to) = (versions.as_fd(), (self.folder.as_fd(), OsStr::new(&coming)));
        if is_whiteout(stat) {
            whiteout(to.0, to.1)?;
        } else if let Err(errno) = rustix::fs::linkat(from, version, to.0, to.1, AtFlags::empty()) {
            let name = OsStr::new(version);
            let (mode, bytes) = if fs::is_symlink(stat) {
                (fs::SYMLINK_MODE, fs::read_link_at(from, name).ok())
            } else {
                (fs::mode_of(stat), fs::read_at(from, name, fs::size_of(stat)).ok().flatten())
            };
            write_version(to, mode, &bytes.ok_or(errno)?)?;
        }
        let mut folder = fs::open_at(self.base.as_fd(), OsStr::new("."), fs::FOLDER)?;
        for name in path.parent().unwrap_or_default().components() {
            folder = folder_in(&folder, name)?;
        }
        let name = path.name().unwrap_or_default();
        if fs::stat_at(folder.as_fd(), name).is_ok_and(|stat| fs::is_folder(&stat)) {
            removal::remove(folder.as_fd(), name);
        }
        fs::rename_at(&self.folder, &coming, &folder, name)
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
