//! What others did to the files of a transaction while its command ran.

use rustix::io::Errno;

use crate::engine::change::moves;
use crate::engine::sandbox::layer::LayerFolder;
use crate::engine::sandbox::upper::{self, Difference as Differing};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::survey::{Moment, changed_at};
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};

/// The attribute of a file in the layer that stands for one below it.
const ORIGIN: &str = "user.overlay.origin";

/// Refuses what others have changed since the command began.
///
/// # Errors
/// `stale_file`, or the system's.
pub fn must_be_as_it_was(workspace: &Workspace, began: Moment, differing: &Differing) -> Result<(), Error> {
    let Differing { path, lower, upper, .. } = differing;
    let now = match fs::open_beneath(workspace.root_fd(), path, fs::LOOK).and_then(rustix::fs::fstat) {
        Ok(now) => Some(now),
        // What lies on the way may be a link below the layer.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => None,
        Err(errno) => return Err(Error::io("look at", workspace.shown(path), errno)),
    };
    let is_right = match (lower, &now) {
        (None, None) => true,
        (Some(lower), Some(now)) if fs::is_same_file(lower, now) => {
            if !fs::is_folder(now) {
                changed_at(now) <= began
            } else if upper.as_ref().is_some_and(fs::is_folder) {
                true
            } else {
                is_tree_old(workspace, path, began)?
            }
        }
        _ => false,
    };
    if is_right { Ok(()) } else { Err(changed_meanwhile(&workspace.shown(path))) }
}

/// Whether others have removed a file that the command changed: nothing stands below it, though it is not
/// new, and something has changed in its folder.
pub fn was_removed(workspace: &Workspace, layer: &LayerFolder, differing: &Differing) -> bool {
    let Differing { path, lower: None, upper: Some(upper), .. } = differing else { return false };
    let has_origin = || {
        let file = upper::open(layer.upper(), path).ok();
        file.is_some_and(|file| rustix::fs::fgetxattr(&file, ORIGIN, &mut [0_u8; 0][..]).is_ok())
    };
    let has_changed = || {
        let parent = workspace.open_folder(&path.parent().unwrap_or_default()).ok();
        let stat = parent.and_then(|parent| rustix::fs::fstat(&parent).ok());
        stat.is_some_and(|stat| changed_at(&stat) > layer.began())
    };
    fs::is_regular(upper) && has_changed() && has_origin()
}

/// Whether nothing in a folder has changed since that moment.
fn is_tree_old(workspace: &Workspace, folder: &WorkspacePath, began: Moment) -> Result<bool, Error> {
    let mut is_old = true;
    moves::walk(workspace, folder, &mut |found| {
        is_old &= changed_at(found.stat) <= began;
        Ok(())
    })?;
    Ok(is_old)
}

/// The refusal of a transaction whose files others have changed.
pub fn changed_meanwhile(shown: &str) -> Error {
    let message =
        format!("{shown} was changed by others while the command ran; nothing that it did was applied");
    Error::new(ErrorKind::StaleFile, message)
        .at(shown)
        .suggest("Run the command again: it then begins with the current files.")
}
