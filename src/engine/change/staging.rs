//! Writes new bytes to a staging folder, with the metadata of the files whose place they take.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use crate::engine::journal::steps::{BESIDE_PREFIX, Location, staging_folder};
use crate::engine::journal::{note_name, read_note};
use crate::engine::store::state::{STAGING_FOLDER, State};
use crate::engine::workspace::metadata::{self, Identity};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs};
use crate::error::Error;

/// The default access control list of a folder, which the kernel gives to files made in it.
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// Whose identity the new file takes.
#[derive(Clone)]
pub struct Original {
    /// Its canonical path.
    pub path: WorkspacePath,
    /// Its type and identity.
    pub stat: Stat,
    /// It itself, open; `None` of a symlink.
    pub opened: Option<Arc<File>>,
}

/// New bytes that wait for their rename.
#[derive(Debug)]
pub struct Staged {
    /// The file, to be synced; of a symlink, the folder it waits in.
    pub file: File,
    /// Location of the staged file.
    pub at: Location,
    /// The folder it waits in.
    folder: Arc<OwnedFd>,
    /// Its name there.
    name: OsString,
    /// Its permission bits, or the type bits of a symlink.
    pub mode: u32,
}

impl Staged {
    /// Removes one that is not needed after all.
    pub fn discard(&self) {
        // Best effort: the next change removes what is left.
        let _ = fs::unlink_at(&self.folder, &self.name, AtFlags::empty());
    }
}

/// Target contents of a file.
pub struct New<'a> {
    /// Its name in messages.
    pub shown: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its permission bits, where they are not those of the original or of the umask; or the type
    /// bits of a symlink, whose target the bytes are.
    pub mode: Option<u32>,
    /// Owner and attributes, where no original has them any more.
    pub identity: Option<&'a Identity>,
}

/// Staging folder of one change: the state folder, or the folder of the target if a rename from
/// there could not work or would lose what the folder gives to its files.
pub struct Stage<'e> {
    /// The workspace.
    pub workspace: &'e Workspace,
    /// Its state.
    pub state: &'e State,
    /// The change's own name.
    pub id: &'e str,
    /// The state folder's part for it, open.
    staging: Arc<OwnedFd>,
    /// The folders whose files wait with the state, each with whether these replace others: a folder is
    /// looked at once, not once for each of its files.
    near: RefCell<BTreeSet<(WorkspacePath, bool)>>,
}

impl<'e> Stage<'e> {
    /// The stage of the change `id`.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn new(workspace: &'e Workspace, state: &'e State, id: &'e str) -> Result<Self, Error> {
        Ok(Self { workspace, state, id, staging: state.folder(STAGING_FOLDER)?, near: RefCell::default() })
    }

    /// An open folder of the file system that the stage is on, from before anything is written there.
    #[must_use]
    pub fn file_system(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.staging)
    }

    /// Writes `new` aside for `target`, whose deepest existing folder is `nearest`.
    ///
    /// Metadata of the original that cannot be kept is added to `warnings`.
    ///
    /// # Errors
    /// Returns the OS error; nothing is left behind then.
    pub fn write(
        &self,
        number: &str,
        nearest: &WorkspacePath,
        original: Option<&Original>,
        new: &New<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Staged, Error> {
        // A file that takes the place of a symlink is new.
        let original = original.filter(|original| !fs::is_symlink(&original.stat));
        let (place, folder) = self.folder_for(nearest, original.is_some())?;
        let prefix = if matches!(place, Location::File(_)) { BESIDE_PREFIX } else { "" };
        let name = OsString::from(format!("{prefix}{}-{number}", self.id));
        let at = place.with(place.path().join(&name));
        let shown = new.shown;
        if new.mode.is_some_and(fs::is_symlink_mode) {
            let made = fs::create_link_at(folder.as_fd(), &name, new.bytes)
                .and_then(|()| rustix::io::fcntl_dupfd_cloexec(&folder, 0));
            let file = made.map_err(|errno| Error::io("write", shown, errno))?.into();
            return Ok(Staged { file, at, folder, name, mode: fs::SYMLINK_MODE });
        }
        let is_apart = prefix.is_empty();
        // A replaced file's bytes may be secret: nobody else reads them before they have its identity. Into
        // the state folder nobody else comes, so that the file may be made as it is to be.
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
        let file =
            fs::create_at(folder.as_fd(), &name, mode).map_err(|errno| Error::io("write", shown, errno))?;
        let written = fs::write_all(&file, new.bytes)
            .and_then(|()| Ok(metadata::give(&file, model, new.identity, new.mode, warnings)?));
        match written {
            Ok(mode) => Ok(Staged { file, at, folder, name, mode }),
            Err(source) => {
                let staged = Staged { file, at, folder, name, mode };
                staged.discard();
                Err(Error::io("write", shown, source))
            }
        }
    }

    /// Writes a file of lbx's own aside.
    ///
    /// # Errors
    /// Returns the OS error; nothing is left behind then.
    pub fn write_own(&self, name: &str, bytes: &[u8]) -> Result<Staged, Error> {
        let folder = Arc::clone(&self.staging);
        let name = OsString::from(format!("{}-{name}", self.id));
        let at = staging_folder().with(WorkspacePath::root().join(STAGING_FOLDER.as_ref()).join(&name));
        let shown = at.to_string();
        let file = fs::create_at(folder.as_fd(), &name, 0o600)
            .map_err(|errno| Error::io("write", shown.clone(), errno))?;
        let written = fs::write_all(&file, bytes);
        let staged = Staged { file, at, folder, name, mode: 0o600 };
        match written {
            Ok(()) => Ok(staged),
            Err(source) => {
                staged.discard();
                Err(Error::io("write", shown, source))
            }
        }
    }

    /// The folder with the state in which files wait.
    #[must_use]
    pub fn own_folder(&self) -> (Location, Arc<OwnedFd>) {
        (staging_folder(), Arc::clone(&self.staging))
    }

    /// The location of something that waits in such a folder.
    #[must_use]
    pub fn name_in(&self, folder: &Location, name: &str) -> Location {
        let prefix = if matches!(folder, Location::File(_)) { BESIDE_PREFIX } else { "" };
        folder.with(folder.path().join(format!("{prefix}{}-{name}", self.id).as_ref()))
    }

    /// The folder in which a file for `nearest` waits: with the state, or the folder itself.
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
            return Ok((staging_folder(), Arc::clone(&self.staging)));
        }
        let target = self.workspace.open_folder(nearest)?;
        let io = |errno: Errno| Error::io("look at", self.workspace.shown(nearest), errno);
        // A file that replaces another has its metadata.
        let gives_identity = !replaces && {
            let stat = rustix::fs::fstat(&target).map_err(io)?;
            fs::mode_of(&stat) & 0o2000 != 0 || has_default_acl(&target)
        };
        let is_near = fs::mount_of(&self.staging).map_err(io)? == fs::mount_of(&target).map_err(io)?;
        if is_near && !gives_identity {
            self.near.borrow_mut().insert(asked);
            return Ok((staging_folder(), Arc::clone(&self.staging)));
        }
        self.note_beside(&self.staging, nearest)?;
        Ok((Location::File(nearest.clone()), Arc::new(target)))
    }

    /// Leaves a note of where files wait outside the state folder, so that a kill leaves no litter.
    fn note_beside(&self, staging: &OwnedFd, folder: &WorkspacePath) -> Result<(), Error> {
        let mut folders = read_note(staging.as_fd(), self.id);
        if !folders.contains(folder) {
            folders.push(folder.clone());
            let bytes = serde_json::to_vec(&folders).map_err(|error| Error::internal(error.to_string()))?;
            let name = note_name(self.id);
            self.state.replace(staging.as_fd(), name.as_ref(), &bytes, &format!("{name}.new"))?;
        }
        Ok(())
    }
}

/// Returns true if a folder gives its files an access control list of their own.
fn has_default_acl(folder: &OwnedFd) -> bool {
    rustix::fs::fgetxattr_query(folder, DEFAULT_ACL).is_ok_and(|bytes| bytes > 0)
}
