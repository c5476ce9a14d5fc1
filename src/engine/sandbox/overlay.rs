//! A writable layer over the workspace: what a command changes goes into the layer, and the files
//! themselves stay as they are.
//!
//! The layer is an overlayfs that the sandbox mounts in its own user namespace (Linux 5.11 or later).
//! [`super::layer`] makes its folder and removes it, [`super::upper`] reads what it holds.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use serde::{Deserialize, Serialize};

use super::mount_list::mount_points;
use super::setup::{SetupResult, doing};

/// Where a layer is; both folders are on one file system.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Layer {
    /// The folder that takes what the command changes, absolute.
    pub upper: OsString,
    /// A folder that overlayfs uses for itself.
    pub work: OsString,
}

/// Mounts `layer` over the folder `root`, in which nothing else may be mounted; the mount has no place yet.
///
/// # Errors
/// What hinders it.
pub(super) fn mount(root: &Path, layer: &Layer) -> SetupResult<OwnedFd> {
    if let Some(inner) = inner_mount(root)? {
        return Err(format!("{} is a mount point, which a layer does not cover", inner.display()));
    }
    mount_over(root, layer)
}

/// Mounts `layer` over the folder `root`, whatever is mounted in it; the mount has no place yet.
///
/// # Errors
/// What hinders it.
pub(super) fn mount_over(root: &Path, layer: &Layer) -> SetupResult<OwnedFd> {
    let folders = [open(root)?, open(Path::new(&layer.upper))?, open(Path::new(&layer.work))?];
    // What the layer holds is read right after the command and never mounted again, so nothing in it
    // needs to reach the disk. Linux before 5.10 does not know the option.
    create(&folders, &["userxattr", "volatile"]).or_else(|_| create(&folders, &["userxattr"]))
}

/// A mount point below a folder, if there is one.
fn inner_mount(root: &Path) -> SetupResult<Option<PathBuf>> {
    let mut points = mount_points()?.into_iter().map(|(_, point)| point);
    Ok(points.find(|point| point != root && point.starts_with(root)))
}

/// Opens a folder so that its path can be given to the kernel without characters that options reserve.
fn open(folder: &Path) -> SetupResult<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty());
    doing(opened, format_args!("cannot open {}", folder.display()))
}

/// Makes the file system of lower, upper and work folder.
fn create(folders: &[OwnedFd; 3], flags: &[&str]) -> SetupResult<OwnedFd> {
    let what = "overlayfs cannot be mounted in a user namespace here";
    let context = doing(rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC), what)?;
    for (key, folder) in ["lowerdir", "upperdir", "workdir"].into_iter().zip(folders) {
        let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
        doing(rustix::mount::fsconfig_set_string(&context, key, OsStr::from_bytes(path.as_bytes())), what)?;
    }
    for flag in flags {
        doing(rustix::mount::fsconfig_set_flag(&context, *flag), what)?;
    }
    doing(rustix::mount::fsconfig_create(&context), what)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    doing(rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes), what)
}
