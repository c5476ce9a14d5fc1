//! Writes new bytes to a staging folder, with the metadata of the files that they replace.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustix::fs::Stat;
use rustix::io::Errno;

use crate::engine::journal::bundle::PendingFile;
use crate::engine::journal::steps::{BESIDE_PREFIX, Location, staging_folder};
use crate::engine::journal::{note_name, read_note};
use crate::engine::store::lock::unique_name;
use crate::engine::store::state::{STAGING_FOLDER, State};
use crate::engine::workspace::fs::Mount;
use crate::engine::workspace::metadata::{self, Identity};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs};
use crate::error::Error;

/// Default access control list of a folder, which the kernel gives to new files in it.
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// File whose identity the new file takes over.
#[derive(Clone)]
pub struct Original {
    /// Canonical path.
    pub path: WorkspacePath,
    /// Type and identity.
    pub stat: Stat,
    /// Descriptor; `None` for a symlink.
    pub opened: Option<Arc<File>>,
}

/// New bytes in a staged file.
#[derive(Debug)]
pub struct StagedFile {
    /// File, to be synced; for a symlink, its staging folder.
    pub pending: PendingFile,
    /// Location of the staged file.
    pub at: Location,
    /// Permission bits, or the type bits of a symlink.
    pub mode: u32,
}

/// Target contents of a file.
pub struct NewContent<'a> {
    /// Path for messages.
    pub shown: &'a str,
    /// Bytes.
    pub bytes: &'a [u8],
    /// Permission bits, if they differ from those of the original or of the umask; or the type bits of a symlink, whose
    /// target the bytes are.
    pub mode: Option<u32>,
    /// Owner and attributes, if no original has them any more.
    pub identity: Option<&'a Identity>,
}

/// Staging folder of one change: in the state, or the folder of the target if a rename from the state could not work,
/// or would lose metadata that the folder gives to its files.
pub struct StagingFolder<'e> {
    /// Workspace.
    pub workspace: &'e Workspace,
    /// State of the workspace.
    pub state: &'e State,
    /// Id of the change.
    pub id: &'e str,
    /// Staging folder in the state, open.
    staging: Arc<OwnedFd>,
    /// Folders whose files are staged in the state, each with true if these replace others: each folder is examined
    /// once, not once per file.
    near: RefCell<BTreeSet<(WorkspacePath, bool)>>,
    /// True to stage all files next to their targets.
    is_beside: bool,
}

impl<'e> StagingFolder<'e> {
    /// Opens the staging folder of the change `id`.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn new(workspace: &'e Workspace, state: &'e State, id: &'e str) -> Result<Self, Error> {
        let staging = state.folder(STAGING_FOLDER)?;
        Ok(Self { workspace, state, id, staging, near: RefCell::default(), is_beside: false })
    }

    /// Stages all files next to their targets.
    #[must_use]
    pub fn stage_next_to_targets(self) -> Self {
        Self { is_beside: true, ..self }
    }

    /// Takes over the mounts of folders in which files are replaced, so that these are not opened again.
    #[must_use]
    pub fn knowing(self, mounts: &BTreeMap<WorkspacePath, Mount>) -> Self {
        if !mounts.is_empty()
            && let Ok(own) = fs::mount_of(&self.staging)
        {
            let near = mounts.iter().filter(|(_, mount)| **mount == own);
            self.near.borrow_mut().extend(near.map(|(folder, _)| (folder.clone(), true)));
        }
        self
    }

    /// Stages `new` for `target`, whose deepest existing folder is `nearest`.
    ///
    /// Adds metadata of the original that cannot be kept to `warnings`.
    ///
    /// # Errors
    /// Returns the OS error; nothing is left behind then.
    pub fn write(
        &self,
        number: &str,
        nearest: &WorkspacePath,
        original: Option<&Original>,
        new: &NewContent<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<StagedFile, Error> {
        // A file that replaces a symlink is new.
        let original = original.filter(|original| !fs::is_symlink(&original.stat));
        let (place, folder) = self.folder_for(nearest, original.is_some())?;
        let is_apart = matches!(place, Location::State(_));
        let at = self.name_in(&place, number);
        let name = at.path().name().unwrap_or_default().to_owned();
        let shown = new.shown;
        if new.mode.is_some_and(fs::is_symlink_mode) {
            let made = fs::create_link_at(folder.as_fd(), &name, new.bytes)
                .and_then(|()| rustix::io::fcntl_dupfd_cloexec(&folder, 0));
            let file = made.map_err(|errno| Error::io("write", shown, errno))?.into();
            let pending = PendingFile { file, folder, name, is_new: true };
            return Ok(StagedFile { pending, at, mode: fs::SYMLINK_MODE });
        }
        // A replaced file's bytes may be secret: nobody else may read them before the new file has its identity.
        // Nobody else can enter the state folder, so a new file gets its final mode there.
        let mode = match original {
            Some(original) if is_apart => 0o600 | new.mode.unwrap_or(fs::mode_of(&original.stat)) & 0o777,
            Some(_) => 0o600,
            None if new.identity.is_some() => 0o600,
            None => 0o666,
        };
        let model = match original {
            Some(Original { opened: Some(opened), .. }) => Some(Arc::clone(opened)),
            Some(original) => Some(Arc::new(self.workspace.open_regular(&original.path, shown)?.0)),
            None => None,
        };
        let model = original.map(|original| &original.stat).zip(model.as_deref());
        let mut given = 0;
        let pending = PendingFile::create(folder, name, mode, |file| {
            if !is_apart && original.is_some() {
                // What the folder gives to new files would let others in. Most folders give nothing.
                let _ = rustix::fs::fremovexattr(file, metadata::ACCESS_LIST);
            }
            fs::write_all(file, new.bytes)?;
            given = metadata::apply_original(file, model, new.identity, new.mode, warnings)?;
            Ok(())
        });
        let pending = pending.map_err(|source| Error::io("write", shown, source))?;
        Ok(StagedFile { pending, at, mode: given })
    }

    /// Stages a file of lbx's own.
    ///
    /// # Errors
    /// Returns the OS error; nothing is left behind then.
    pub fn write_own(&self, name: &str, bytes: &[u8]) -> Result<StagedFile, Error> {
        let at = self.name_in(&staging_folder(), name);
        let name = at.path().name().unwrap_or_default().to_owned();
        let pending =
            PendingFile::create(Arc::clone(&self.staging), name, 0o600, |file| fs::write_all(file, bytes));
        let pending = pending.map_err(|source| Error::io("write", at.to_string(), source))?;
        Ok(StagedFile { pending, at, mode: 0o600 })
    }

    /// Returns the staging folder in the state.
    pub fn state_staging_folder(&self) -> (Location, Arc<OwnedFd>) {
        (staging_folder(), Arc::clone(&self.staging))
    }

    /// Returns the location of a name in such a folder.
    pub fn name_in(&self, folder: &Location, name: &str) -> Location {
        let prefix = if matches!(folder, Location::File(_)) { BESIDE_PREFIX } else { "" };
        folder.with(folder.path().join(format!("{prefix}{}-{name}", self.id).as_ref()))
    }

    /// Returns the staging folder of a file for `nearest`: the one in the state, or the folder itself.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn folder_for(
        &self,
        nearest: &WorkspacePath,
        replaces: bool,
    ) -> Result<(Location, Arc<OwnedFd>), Error> {
        let asked = (nearest.clone(), replaces);
        if self.near.borrow().contains(&asked) {
            return Ok(self.state_staging_folder());
        }
        let target = self.workspace.open_folder(nearest)?;
        let io = |errno: Errno| Error::io("look at", self.workspace.display(nearest), errno);
        // A file that replaces another gets its metadata.
        let gives_identity = !replaces && {
            let stat = rustix::fs::fstat(&target).map_err(io)?;
            fs::mode_of(&stat) & 0o2000 != 0 || has_default_acl(&target)
        };
        let is_near = fs::mount_of(&self.staging).map_err(io)? == fs::mount_of(&target).map_err(io)?;
        if is_near && !gives_identity && !self.is_beside {
            self.near.borrow_mut().insert(asked);
            return Ok(self.state_staging_folder());
        }
        self.note_beside(&self.staging, nearest)?;
        Ok((Location::File(nearest.clone()), Arc::new(target)))
    }

    /// Writes a note of files staged outside the state folder, so that a kill leaves no litter.
    fn note_beside(&self, staging: &OwnedFd, folder: &WorkspacePath) -> Result<(), Error> {
        let mut folders = read_note(staging.as_fd(), self.id);
        if !folders.contains(folder) {
            folders.push(folder.clone());
            let bytes = serde_json::to_vec(&folders).map_err(|error| Error::internal(error.to_string()))?;
            let name = note_name(self.id);
            self.state.replace(staging.as_fd(), name.as_ref(), &bytes, &unique_name(&name))?;
        }
        Ok(())
    }
}

/// Returns true if a folder gives new files an access control list.
fn has_default_acl(folder: &OwnedFd) -> bool {
    rustix::fs::fgetxattr_query(folder, DEFAULT_ACL).is_ok_and(|bytes| bytes > 0)
}
