//! New bytes, written aside with the identity of the file whose place they will take.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Gid, Mode, Stat, Uid, XattrFlags};
use rustix::io::Errno;

use crate::engine::fs;
use crate::engine::path::WorkspacePath;
use crate::engine::state::{STATE_FOLDER, State};
use crate::engine::workspace::Workspace;
use crate::error::Error;

/// Where new bytes wait, below the state folder.
pub const FOLDER: &str = "staging";
/// How a file that has to wait beside its target is named.
pub const BESIDE_PREFIX: &str = ".lbx-tmp-";
/// The default access control list of a folder, which the kernel gives to files made in it.
const DEFAULT_ACL: &str = "system.posix_acl_default";
/// Size of one extended attribute (Linux, `XATTR_SIZE_MAX`).
const XATTR_BYTES_MAX: usize = 64 << 10;

/// Whose identity the new file takes.
pub struct Original {
    /// The file, open.
    pub file: File,
    /// What it is.
    pub stat: Stat,
}

/// New bytes that wait for their rename.
#[derive(Debug)]
pub struct Staged {
    /// The file, to be synced; of a symlink, the folder it waits in.
    pub file: File,
    /// Where it waits.
    pub path: WorkspacePath,
    /// The folder it waits in.
    folder: OwnedFd,
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

/// What a file is to hold.
pub struct New<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its permission bits, where they are not those of the original or of the umask; or the type
    /// bits of a symlink, whose target the bytes are.
    pub mode: Option<u32>,
}

/// Where the files of one change wait: the state folder, or beside the target where a rename from
/// there could not work or would lose what the folder gives to its files.
pub struct Stage<'e> {
    /// The workspace.
    pub workspace: &'e Workspace,
    /// Its state.
    pub state: &'e State,
    /// The change's own name.
    pub id: &'e str,
}

impl Stage<'_> {
    /// Writes `new` aside for `target`, whose deepest existing folder is `nearest`.
    ///
    /// What of the original's identity could not be kept is added to `warnings`.
    ///
    /// # Errors
    /// What the system says; then nothing is left behind.
    pub fn write(
        &self,
        number: usize,
        nearest: &WorkspacePath,
        original: Option<&Original>,
        new: &New<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Staged, Error> {
        // What takes the place of a symlink is a new file.
        let original = original.filter(|original| !fs::is_symlink(&original.stat));
        let (folder_path, folder, prefix) = self.folder_for(nearest, original.is_some())?;
        let name = OsString::from(format!("{prefix}{}-{number}", self.id));
        let path = folder_path.join(&name);
        let shown = path.to_string();
        if new.mode.is_some_and(fs::is_symlink_mode) {
            let made = fs::create_link_at(folder.as_fd(), &name, new.bytes)
                .and_then(|()| rustix::io::fcntl_dupfd_cloexec(&folder, 0));
            let file = made.map_err(|errno| Error::io("write", shown, errno))?.into();
            return Ok(Staged { file, path, folder, name, mode: fs::SYMLINK_MODE });
        }
        // A replaced file's bytes may be secret: nobody else reads them before they have its mode.
        let mode = if original.is_some() { 0o600 } else { 0o666 };
        let mut file = fs::create_at(folder.as_fd(), &name, mode)
            .map_err(|errno| Error::io("write", shown.clone(), errno))?;
        let written =
            file.write_all(new.bytes).and_then(|()| Ok(take_identity(&file, original, new.mode, warnings)?));
        match written {
            Ok(mode) => Ok(Staged { file, path, folder, name, mode }),
            Err(source) => {
                let staged = Staged { file, path, folder, name, mode };
                staged.discard();
                Err(Error::io("write", shown, source))
            }
        }
    }

    /// Writes a file of lbx's own aside.
    ///
    /// # Errors
    /// What the system says; then nothing is left behind.
    pub fn write_own(&self, name: &str, bytes: &[u8]) -> Result<Staged, Error> {
        let folder = self.state.folder(FOLDER)?;
        let name = OsString::from(format!("{}-{name}", self.id));
        let path = staging_folder().join(&name);
        let shown = path.to_string();
        let mut file = fs::create_at(folder.as_fd(), &name, 0o600)
            .map_err(|errno| Error::io("write", shown.clone(), errno))?;
        let written = file.write_all(bytes);
        let staged = Staged { file, path, folder, name, mode: 0o600 };
        match written {
            Ok(()) => Ok(staged),
            Err(source) => {
                staged.discard();
                Err(Error::io("write", shown, source))
            }
        }
    }

    /// The folder in which a file for `nearest` waits, and how its name begins.
    fn folder_for(
        &self,
        nearest: &WorkspacePath,
        replaces: bool,
    ) -> Result<(WorkspacePath, OwnedFd, &'static str), Error> {
        let staging = self.state.folder(FOLDER)?;
        let target = self.workspace.open_folder(nearest)?;
        let io = |errno: Errno| Error::io("look at", self.workspace.shown(nearest), errno);
        let (ours, theirs) =
            (rustix::fs::fstat(&staging).map_err(io)?, rustix::fs::fstat(&target).map_err(io)?);
        let gives_identity = !replaces && (fs::mode_of(&theirs) & 0o2000 != 0 || has_default_acl(&target));
        if ours.st_dev == theirs.st_dev && !gives_identity {
            return Ok((staging_folder(), staging, ""));
        }
        self.note_beside(&staging, nearest)?;
        Ok((nearest.clone(), target, BESIDE_PREFIX))
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

/// Where new bytes wait, from the workspace root.
fn staging_folder() -> WorkspacePath {
    WorkspacePath::root().join(STATE_FOLDER.as_ref()).join(FOLDER.as_ref())
}

/// The name of the note for the change `id`.
#[must_use]
pub fn note_name(id: &str) -> String {
    format!("{id}.beside")
}

/// The folders in which files of the change `id` may wait beside their targets.
#[must_use]
pub fn read_note(staging: BorrowedFd<'_>, id: &str) -> Vec<WorkspacePath> {
    let note = fs::read_at(staging, note_name(id).as_ref(), 1 << 20);
    note.ok().flatten().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Whether a folder gives its files an access control list of their own.
fn has_default_acl(folder: &OwnedFd) -> bool {
    let mut nothing: [u8; 0] = [];
    rustix::fs::fgetxattr(folder, DEFAULT_ACL, &mut nothing[..]).is_ok_and(|bytes| bytes > 0)
}

/// Gives `file` the original's owner, extended attributes and mode; answers the mode.
fn take_identity(
    file: &File,
    original: Option<&Original>,
    mode: Option<u32>,
    warnings: &mut Vec<String>,
) -> Result<u32, Errno> {
    if let Some(original) = original {
        keep_owner(file, &original.stat, warnings)?;
        keep_attributes(file, &original.file, warnings);
    }
    let wanted = mode.or_else(|| original.map(|original| fs::mode_of(&original.stat)));
    if let Some(mode) = wanted {
        rustix::io::retry_on_intr(|| rustix::fs::fchmod(file, Mode::from_raw_mode(mode)))?;
    }
    rustix::fs::fstat(file).map(|stat| fs::mode_of(&stat))
}

/// Keeps owner and group where that is allowed.
fn keep_owner(file: &File, original: &Stat, warnings: &mut Vec<String>) -> Result<(), Errno> {
    let mine = rustix::fs::fstat(file)?;
    if mine.st_uid == original.st_uid && mine.st_gid == original.st_gid {
        return Ok(());
    }
    let (owner, group) = (Uid::from_raw(original.st_uid), Gid::from_raw(original.st_gid));
    match rustix::io::retry_on_intr(|| rustix::fs::fchown(file, Some(owner), Some(group))) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => {
            // Another's file: the group alone may still be given.
            let kept = rustix::fs::fchown(file, None, Some(group)).is_ok() && mine.st_uid == original.st_uid;
            if !kept {
                warnings.push(format!("the file's owner ({}) could not be kept", original.st_uid));
            }
            Ok(())
        }
        Err(errno) => Err(errno),
    }
}

/// Keeps extended attributes, access control lists among them, where that is allowed.
fn keep_attributes(file: &File, original: &File, warnings: &mut Vec<String>) {
    let mut names = vec![0_u8; XATTR_BYTES_MAX];
    let Ok(length) = rustix::fs::flistxattr(original, &mut names[..]) else {
        return;
    };
    names.truncate(length);
    let mut lost = Vec::new();
    for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        if let Err(errno) = keep_attribute(file, original, name)
            && !(errno == Errno::PERM && name.starts_with(b"security."))
        {
            lost.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    if !lost.is_empty() {
        warnings.push(format!("extended attributes could not be kept: {}", lost.join(", ")));
    }
}

/// Copies one extended attribute.
fn keep_attribute(file: &File, original: &File, name: &[u8]) -> Result<(), Errno> {
    let mut value = vec![0_u8; XATTR_BYTES_MAX];
    let length = rustix::fs::fgetxattr(original, name, &mut value[..])?;
    value.truncate(length);
    rustix::fs::fsetxattr(file, name, &value, XattrFlags::empty())
}
