//! Changes that others made to the files of a command while it ran on a layer.

use std::collections::BTreeMap;

use rustix::fs::Stat;
use rustix::io::Errno;

use crate::engine::Engine;
use crate::engine::change::{moves, record};
use crate::engine::sandbox::layer::LayerFolder;
use crate::engine::sandbox::overlay;
use crate::engine::sandbox::overlay::Difference as Differing;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::survey::{Moment, changed_at};
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::merge::{Alike, merge};

/// Paths that are not applied, each with the reason.
pub type Excluded = BTreeMap<WorkspacePath, String>;

/// The attribute of a file in a layer that was copied up from below, or renamed since.
const ORIGIN: &str = "user.overlay.origin";
/// Room for its value, in bytes.
const ORIGIN_BYTES: usize = 256;
/// Bytes in front of the file handle in it (`struct ovl_fb`: version, magic, length, flags, type, UUID).
const ORIGIN_HEADER_BYTES: usize = 21;
/// Largest file that is merged, in bytes.
const MERGED_BYTES_MAX: u64 = 8 << 20;

/// The files that others changed while a command ran, as far as the command changed them as well.
pub struct ConcurrentChanges<'a> {
    /// The workspace.
    workspace: &'a Workspace,
    /// The layer.
    layer: &'a LayerFolder,
    /// Inodes of the files below the layer that the command changed, renamed or removed.
    inodes: Vec<u64>,
}

/// A clean merge of two versions of a file.
#[derive(Debug, Clone)]
pub struct Merge {
    /// SHA-256 of the current bytes that were merged.
    pub current: Sha256,
    /// The result.
    pub bytes: Vec<u8>,
}

impl<'a> ConcurrentChanges<'a> {
    /// Compares a layer with the workspace as it is now.
    pub fn new(workspace: &'a Workspace, layer: &'a LayerFolder, found: &[Differing]) -> Self {
        let inodes = found.iter().filter_map(|differing| Some(differing.lower.as_ref()?.st_ino)).collect();
        Self { workspace, layer, inodes }
    }

    /// Returns true if others changed the file or folder of a difference.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn has(&self, differing: &Differing) -> Result<bool, Error> {
        Ok(self.was_removed(differing) || self.was_changed(differing)?)
    }

    /// Returns true if others changed or created what is there.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn was_changed(&self, differing: &Differing) -> Result<bool, Error> {
        let Differing { path, lower, upper, .. } = differing;
        let workspace = self.workspace;
        let now = match fs::open_beneath(workspace.root_fd(), path, fs::LOOK).and_then(rustix::fs::fstat) {
            Ok(now) => Some(now),
            // A file or symlink on the way is below the layer.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => None,
            Err(errno) => return Err(Error::io("look at", workspace.shown(path), errno)),
        };
        let began = self.layer.began();
        let is_as_before = match (lower, &now) {
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
        Ok(!is_as_before)
    }

    /// Returns true if others removed a file that the command changed.
    ///
    /// overlayfs notes the file below in each copy. A copy under a name with nothing below it was renamed by
    /// the command, if the noted file is below another changed name; else that file is gone.
    fn was_removed(&self, differing: &Differing) -> bool {
        let Differing { path, lower: None, upper: Some(upper), .. } = differing else { return false };
        let has_changed = || {
            let parent = self.workspace.open_folder(&path.parent().unwrap_or_default()).ok();
            let stat = parent.and_then(|parent| rustix::fs::fstat(&parent).ok());
            stat.is_some_and(|stat| changed_at(&stat) > self.layer.began())
        };
        fs::is_regular(upper)
            && has_changed()
            && self.origin(path).is_some_and(|origin| !self.inodes.iter().any(|inode| names(&origin, *inode)))
    }

    /// Returns the file handle that overlayfs noted for a copy.
    fn origin(&self, path: &WorkspacePath) -> Option<Vec<u8>> {
        let file = overlay::open(self.layer.upper(), path).ok()?;
        let mut value = vec![0_u8; ORIGIN_BYTES];
        let length = rustix::fs::fgetxattr(&file, ORIGIN, &mut value[..]).ok()?;
        value.truncate(length);
        Some(value.split_off(ORIGIN_HEADER_BYTES.min(length)))
    }

    /// Merges the command's version of a file with the current one; `None` if the merge is not clean, or the
    /// common version is not known.
    ///
    /// The base is the newest snapshot from before the command. It may be older than the file was then: lines
    /// that had changed by that time are the same on both sides, so they merge.
    pub fn merge(&self, engine: &Engine, differing: &Differing) -> Option<Merge> {
        let Differing { path, lower: Some(lower), upper: Some(upper), .. } = differing else { return None };
        let is_small = |stat: &Stat| fs::is_regular(stat) && fs::size_of(stat) <= MERGED_BYTES_MAX;
        if !is_small(lower) || !is_small(upper) {
            return None;
        }
        let read =
            |file: std::fs::File, stat: &Stat| fs::read_to_end(file, fs::size_of(stat), MERGED_BYTES_MAX);
        let current = read(self.workspace.open_regular(path, "").ok()?.0, lower).ok()?;
        let new = read(overlay::open(self.layer.upper(), path).ok()?.into(), upper).ok()?;
        let tip = self.layer.record().tip.as_deref();
        let base = || record::file_before(engine, (tip, self.layer.began().0), path);
        let bytes = if current == new { new } else { merged(&base()?, &new, &current)? };
        Some(Merge { current: Sha256::of(&current), bytes })
    }
}

/// Returns a clean merge of two texts.
fn merged(base: &[u8], new: &[u8], current: &[u8]) -> Option<Vec<u8>> {
    let is_text = |bytes: &&[u8]| !bytes.contains(&0);
    if ![base, new, current].iter().all(is_text) {
        return None;
    }
    merge(base, new, current, Alike::Once).ok()
}

/// Returns true if a file handle is that of an inode: it begins with the number in 32 bits (ext4) or 64 bits
/// (xfs, btrfs), or has it after a generation (tmpfs).
fn names(handle: &[u8], inode: u64) -> bool {
    let short = u32::try_from(inode).ok().map(u32::to_le_bytes);
    let long = inode.to_le_bytes();
    let after_generation = handle.get(4..).unwrap_or_default();
    short.is_some_and(|short| handle.starts_with(&short) || after_generation.starts_with(&short))
        || handle.starts_with(&long)
        || after_generation.starts_with(&long)
}

/// Returns true if nothing in a folder changed since a moment.
fn is_tree_old(workspace: &Workspace, folder: &WorkspacePath, began: Moment) -> Result<bool, Error> {
    let mut is_old = true;
    moves::walk(workspace, folder, &mut |found| {
        is_old &= changed_at(found.stat) <= began;
        Ok(())
    })?;
    Ok(is_old)
}

/// Returns the error of a transaction whose files others changed.
pub fn changed_meanwhile(shown: &str) -> Error {
    let message =
        format!("{shown} was changed by others while the command ran; nothing that it did was applied");
    Error::new(ErrorKind::StaleFile, message)
        .at(shown)
        .suggest("Run the command again: it then begins with the current files.")
}
