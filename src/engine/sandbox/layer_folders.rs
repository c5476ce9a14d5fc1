//! The folders of a layer: made, emptied for the next layer, and removed.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use super::overlay::{self, enter};
use crate::engine::store::state::{State, make_folder};
use crate::engine::workspace::fs::{self, rename_new};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::removal;
use crate::engine::workspace::sync::is_on_overlay;
use crate::error::Error;

/// Folder in a layer that takes the changes of a command.
pub(super) const UPPER: &str = "upper";
/// Folder that overlayfs uses for itself.
pub(super) const WORK: &str = "work";
/// File in a layer that describes its command.
pub(super) const RECORD: &str = "layer.lbx";
/// Folder of an empty layer, below the state folder.
pub(super) const SPARE: &str = "spare_layer";
/// Lock of the next layer, in that folder.
pub(super) const SPARE_LOCK: &str = "lock";
/// Mark of the next layer, in that folder.
pub(super) const SPARE_MARK: &str = "mark";
/// Attribute that overlayfs gives the folder for changes once a file is copied into it.
pub(super) const HAS_COPIES: &str = "user.overlay.impure";
/// Attribute that overlayfs gives it in any case.
const OVERLAY_ID: &[u8] = b"user.overlay.uuid\0";
/// Suffix of a layer's lock.
pub(super) const LOCK: &str = ".lock";
/// Mode of a folder that only this account uses.
pub(super) const OWN_MODE: u32 = 0o700;

/// The folders of a layer.
pub(super) struct LayerFolders {
    /// Its own folder.
    pub folder: OwnedFd,
    /// Folder that takes the changes.
    pub upper: OwnedFd,
    /// Folder that holds that one instead, since the file system of the workspace cannot.
    pub outside: Option<PathBuf>,
}

/// Makes the folders of a layer.
pub(super) fn make_folders(layers: &OwnedFd, name: &str, shown: &str) -> Result<LayerFolders, Error> {
    let io = |errno: Errno| Error::io("make", shown.to_owned(), errno);
    let folder = new_folder(layers.as_fd(), name).map_err(io)?;
    let made = is_on_overlay(layers.as_fd()).then(|| create_outside(name)).transpose()?;
    let (made, outside) = made.unzip();
    let holder = made.as_ref().unwrap_or(&folder);
    let upper = new_folder(holder.as_fd(), UPPER).map_err(io)?;
    new_folder(holder.as_fd(), WORK).map_err(io)?;
    Ok(LayerFolders { folder, upper, outside })
}

/// Moves the lock of the spare layer, if there is one, to the place of the lock of a new layer.
pub(super) fn take_spare_lock(state: &State, layers: &OwnedFd, name: &str) {
    if let Ok(spare) = fs::open_at(state.fd(), OsStr::new(SPARE), fs::FOLDER) {
        let _ = rename_new(&spare, OsStr::new(SPARE_LOCK), layers, OsStr::new(&lock_name(name)));
    }
}

/// Makes the spare layer the one of that name. Removes it if anything is in its folders.
pub(super) fn take_spare(state: &State, layers: &OwnedFd, name: &str) -> Option<LayerFolders> {
    if is_on_overlay(layers.as_fd()) {
        return None;
    }
    fs::rename_at(state.fd(), SPARE, layers, name).ok()?;
    let open = || {
        let folder = fs::open_at(layers.as_fd(), OsStr::new(name), fs::FOLDER).ok()?;
        let [upper, work] =
            [UPPER, WORK].map(|name| fs::open_at(folder.as_fd(), OsStr::new(name), fs::FOLDER).ok());
        let (upper, work) = (upper?, work?);
        let is_part =
            |name: &OsString| [UPPER, WORK].iter().any(|part| name == part) || is_kept_file(&folder, name);
        let is_whole = fs::names_in(&folder).is_ok_and(|names| names.iter().all(is_part));
        (is_whole && is_unused(&upper) && is_unused(&work)).then_some(LayerFolders {
            folder,
            upper,
            outside: None,
        })
    };
    let opened = open();
    if opened.is_none() {
        removal::remove(layers.as_fd(), OsStr::new(name));
    }
    opened
}

/// Returns true for a file that a spare layer keeps for the next one.
fn is_kept_file(folder: &OwnedFd, name: &OsStr) -> bool {
    let is_file = |stat: &Stat| fs::is_regular(stat) && stat.st_nlink == 1 && fs::is_own(stat);
    [RECORD, SPARE_LOCK, SPARE_MARK].iter().any(|kept| name == *kept)
        && fs::stat_at(folder.as_fd(), name).is_ok_and(|stat| is_file(&stat))
}

/// Returns true if a folder of this account is empty, and has no attributes that a command may have set.
pub(super) fn is_unused(folder: &OwnedFd) -> bool {
    let mut attributes = [0_u8; 2 * OVERLAY_ID.len()];
    let length = rustix::fs::flistxattr(folder, &mut attributes[..]);
    let attributes = length.ok().and_then(|length| attributes.get(..length));
    attributes.is_some_and(|set| set.is_empty() || set == OVERLAY_ID)
        && rustix::fs::fstat(folder).is_ok_and(|stat| fs::is_own(&stat))
        && fs::names_in(folder).is_ok_and(|names| names.is_empty())
}

/// Opens the folder with the changes of a layer, whose own folder is given; also returns the folder that holds it
/// instead.
pub(super) fn open_upper(
    layers: BorrowedFd<'_>,
    folder: BorrowedFd<'_>,
    name: &str,
) -> Option<(OwnedFd, Option<PathBuf>)> {
    let (holder, outside) = if is_on_overlay(layers) {
        let (holder, path) = overlay::open_outside().ok()?;
        (fs::open_at(holder.as_fd(), OsStr::new(&name_outside(name)), fs::FOLDER).ok()?, Some(path))
    } else {
        (fs::open_at(folder, OsStr::new("."), fs::FOLDER).ok()?, None)
    };
    Some((enter(holder.as_fd(), OsStr::new(UPPER))?, outside))
}

/// Returns the name of a layer's lock.
pub(super) fn lock_name(name: &str) -> String {
    format!("{name}{LOCK}")
}

/// Removes everything except the kept paths and the folders above them.
pub(super) fn prune(folder: &OwnedFd, path: &WorkspacePath, kept: &[&WorkspacePath]) {
    for name in fs::names_in(folder).unwrap_or_default() {
        let inner = path.join(&name);
        if kept.contains(&&inner) {
            continue;
        }
        if kept.iter().any(|kept| kept.is_within(&inner)) {
            if let Some(opened) = enter(folder.as_fd(), &name) {
                prune(&opened, &inner, kept);
            }
        } else {
            removal::remove(folder.as_fd(), &name);
        }
    }
}

/// Removes a layer and its lock.
pub(super) fn remove(layers: BorrowedFd<'_>, name: &str) {
    if is_on_overlay(layers)
        && let Ok((outside, _)) = overlay::open_outside()
        && fs::stat_at(outside.as_fd(), OsStr::new(&name_outside(name))).is_ok_and(|stat| fs::is_own(&stat))
    {
        removal::remove(outside.as_fd(), OsStr::new(&name_outside(name)));
    }
    if !removal::remove(layers, OsStr::new(name)).is_partial {
        let _ = fs::unlink_at(layers, lock_name(name), AtFlags::empty());
    }
}

/// Creates and opens a folder for this account alone.
pub(super) fn new_folder(parent: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    if !make_folder(parent, OsStr::new(name), OWN_MODE)? {
        return Err(Errno::EXIST);
    }
    fs::open_at(parent, OsStr::new(name), fs::FOLDER)
}

/// Creates the folder that holds a layer outside the file system of the workspace; also returns the folder that it is in.
fn create_outside(name: &str) -> Result<(OwnedFd, PathBuf), Error> {
    let (outside, path) = overlay::open_outside().map_err(|reason| not_on_overlay(&reason))?;
    let made = new_folder(outside.as_fd(), &name_outside(name))
        .map_err(|errno| not_on_overlay(&format!("no folder can be made in {} ({errno})", path.display())))?;
    Ok((made, path))
}

/// Returns the name of that folder.
pub(super) fn name_outside(name: &str) -> String {
    format!("lbx-{name}")
}

/// Returns the error of a transaction that cannot get a layer.
pub fn no_layer_error(reason: &str) -> Error {
    Error::invalid(format!("a transaction is not possible here: {reason}"))
        .suggest("Run the command without transaction, on_failure and dry_run: its changes are recorded and can be undone, but for large files that git ignores.")
}

/// Returns the error if the workspace is on an overlay file system, and no memory can hold a layer either.
pub(super) fn not_on_overlay(reason: &str) -> Error {
    no_layer_error(&format!("the workspace is on an overlay file system, which cannot hold a layer, and {reason}"))
        .suggest("Put the workspace on a volume of the container (docker run -v DIR:DIR), or run the command without transaction, on_failure and dry_run: its changes are recorded and can be undone, but for large files that git ignores.")
}
