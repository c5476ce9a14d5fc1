//! A writable layer over the workspace: what a command changes goes into the layer, and the files
//! themselves stay as they are.
//!
//! The layer is an overlayfs that the sandbox mounts in its own user namespace (Linux 5.11 or later).
//! [`super::layer`] makes its folder and removes it, [`super::overlay`] reads what it holds.
//!
//! What a layer holds, against the files below it: exactly what the command changed, files that git
//! ignores included.
//!
//! overlayfs keeps a changed or new file whole, a removed one as a character device 0/0, and a folder
//! that was removed and made again with the attribute `user.overlay.opaque`. A renamed folder is a
//! removed one and a new one: with `userxattr` there are no redirects and no files without their bytes.
//!
//! Memory for a layer, where the file system of the workspace cannot hold one: overlayfs takes no other
//! overlayfs for its upper folder, and the files of most containers are on one.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use serde::{Deserialize, Serialize};

use super::setup::{SetupResult, doing, mount_points};
use crate::control::Control;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs, metadata};
use crate::error::Error;

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
    let folders =
        [open_place(root)?, open_place(Path::new(&layer.upper))?, open_place(Path::new(&layer.work))?];
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
fn open_place(folder: &Path) -> SetupResult<OwnedFd> {
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

/// The attribute of a folder that hides what lies below it.
const OPAQUE: &str = "user.overlay.opaque";
/// How the attributes begin that overlayfs sets.
const ATTRIBUTES: &[u8] = b"user.overlay.";
/// Room for the names of a file's attributes, in bytes (Linux, `XATTR_LIST_MAX`).
const NAMES_BYTES: usize = 64 << 10;

/// Something that a command changed.
#[derive(Debug, Clone)]
pub struct Difference {
    /// Where.
    pub path: WorkspacePath,
    /// What stands there, before the command.
    pub lower: Option<Stat>,
    /// What the layer has there; `None` where the command removed it.
    pub upper: Option<Stat>,
    /// True if it is a folder on both sides, with another owner or other extended attributes.
    pub has_other_attributes: bool,
}

impl Difference {
    /// Returns true if it is a folder that is new.
    #[must_use]
    pub fn is_new_folder(&self) -> bool {
        self.upper.as_ref().is_some_and(fs::is_folder) && !self.lower.as_ref().is_some_and(fs::is_folder)
    }
}

/// A folder that is still to be read.
struct Waiting {
    /// The folder in the layer; `None` below a folder that the command removed.
    upper: Rc<OwnedFd>,
    /// The folder that stands below it.
    lower: Option<Rc<OwnedFd>>,
    /// Its path.
    path: WorkspacePath,
    /// True if what lies below it and not in it is gone.
    is_opaque: bool,
}

/// What a layer changes, ordered by path.
///
/// What stands below a removed folder is not listed.
///
/// # Errors
/// `timeout` where the call was cancelled, or the system's.
pub fn read(workspace: &Workspace, upper: &OwnedFd, control: &Control) -> Result<Vec<Difference>, Error> {
    read_without(workspace, upper, control, &|_| false)
}

/// Returns the changes of a layer without the paths that `is_skipped` names, and all below them.
///
/// # Errors
/// As [`read`].
pub fn read_without(
    workspace: &Workspace,
    upper: &OwnedFd,
    control: &Control,
    is_skipped: &dyn Fn(&WorkspacePath) -> bool,
) -> Result<Vec<Difference>, Error> {
    let io = |errno: Errno| Error::io("read", "the layer of the command", errno);
    let top = fs::open_at(upper.as_fd(), OsStr::new("."), fs::FOLDER).map_err(io)?;
    let root = fs::open_at(workspace.root_fd(), OsStr::new("."), fs::FOLDER).map_err(io)?;
    let mut waiting = vec![Waiting {
        upper: Rc::new(top),
        lower: Some(Rc::new(root)),
        path: WorkspacePath::root(),
        is_opaque: false,
    }];
    let mut found = Vec::new();
    while let Some(folder) = waiting.pop() {
        control.check()?;
        let names = fs::names_in(&folder.upper).map_err(io)?;
        if folder.is_opaque {
            found.extend(hidden(&folder, &names).map_err(io)?);
        }
        for name in names.iter().filter(|name| !is_skipped(&folder.path.join(name))) {
            let (difference, inner) = look(&folder, name).map_err(|errno| match errno {
                Errno::ACCESS => Error::io("look into", workspace.shown(&folder.path.join(name)), errno),
                errno => io(errno),
            })?;
            found.extend(difference);
            waiting.extend(inner);
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// What lies below an opaque folder and is not in it.
fn hidden(folder: &Waiting, names: &[OsString]) -> Result<Vec<Difference>, Errno> {
    let Some(lower) = &folder.lower else { return Ok(Vec::new()) };
    let kept: BTreeSet<&OsString> = names.iter().collect();
    let mut gone = Vec::new();
    for name in fs::names_in(lower)?.iter().filter(|name| !kept.contains(name)) {
        let stat = fs::stat_at(lower.as_fd(), name)?;
        gone.push(Difference {
            path: folder.path.join(name),
            lower: Some(stat),
            upper: None,
            has_other_attributes: false,
        });
    }
    Ok(gone)
}

/// What one name in a folder of the layer means, and the folder that is still to be read.
fn look(folder: &Waiting, name: &OsStr) -> Result<(Option<Difference>, Option<Waiting>), Errno> {
    let path = folder.path.join(name);
    let upper = fs::stat_at(folder.upper.as_fd(), name)?;
    let lower = match folder.lower.as_ref().map(|lower| fs::stat_at(lower.as_fd(), name)) {
        None | Some(Err(Errno::NOENT)) => None,
        Some(stat) => Some(stat?),
    };
    if is_whiteout(&upper) {
        let gone = lower.map(|lower| Difference {
            path,
            lower: Some(lower),
            upper: None,
            has_other_attributes: false,
        });
        return Ok((gone, None));
    }
    if !fs::is_folder(&upper) {
        return Ok((Some(Difference { path, lower, upper: Some(upper), has_other_attributes: false }), None));
    }
    let opened = enter(folder.upper.as_fd(), name).ok_or(Errno::ACCESS)?;
    let lower_folder = match (&folder.lower, &lower) {
        (Some(parent), Some(stat)) if fs::is_folder(stat) => {
            match fs::open_at(parent.as_fd(), name, fs::FOLDER) {
                // Its mode may be changed, but nothing in it that nobody has seen.
                Err(Errno::ACCESS) if fs::names_in(&opened)?.is_empty() => None,
                folder => Some(Rc::new(folder?)),
            }
        }
        _ => None,
    };
    let has_other_attributes = lower.as_ref().zip(lower_folder.as_ref()).is_some_and(|(stat, folder)| {
        (stat.st_uid, stat.st_gid) != (upper.st_uid, upper.st_gid)
            || metadata::own(&**folder) != metadata::own(&opened)
    });
    let is_changed = lower_folder.is_none()
        || has_other_attributes
        || lower.as_ref().is_some_and(|lower| fs::mode_of(lower) != fs::mode_of(&upper))
        // Nothing in it can be changed but while it is opened up.
        || fs::is_closed(fs::mode_of(&upper));
    let is_opaque = is_opaque(&opened);
    let inner = Waiting { upper: Rc::new(opened), lower: lower_folder, path: path.clone(), is_opaque };
    let difference = Difference { path, lower, upper: Some(upper), has_other_attributes };
    Ok((is_changed.then_some(difference), Some(inner)))
}

/// Returns true if overlayfs keeps a removed name so.
fn is_whiteout(stat: &Stat) -> bool {
    fs::type_of(stat) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// Returns true if a folder hides what lies below it.
fn is_opaque(folder: &OwnedFd) -> bool {
    let mut value = [0_u8; 8];
    rustix::fs::fgetxattr(folder, OPAQUE, &mut value[..])
        .is_ok_and(|length| value.get(..length) == Some(b"y"))
}

/// Opens a regular file of a layer to read it, whatever its permissions are.
///
/// # Errors
/// Returns the OS error.
pub fn open(upper: &OwnedFd, path: &WorkspacePath) -> Result<OwnedFd, Errno> {
    match fs::open_beneath(upper.as_fd(), path, fs::READ) {
        Err(Errno::ACCESS) => {
            let folder = fs::open_beneath(upper.as_fd(), &path.parent().unwrap_or_default(), fs::FOLDER)?;
            let name = path.name().unwrap_or_default();
            let mode = Mode::from_raw_mode(0o600);
            rustix::fs::chmodat(&folder, name, mode, rustix::fs::AtFlags::empty())?;
            fs::open_at(folder.as_fd(), name, fs::READ)
        }
        opened => opened,
    }
}

/// Removes the attributes that overlayfs has set on an opened file or folder.
pub fn strip(file: &OwnedFd) {
    let mut names = vec![0_u8; NAMES_BYTES];
    let length = rustix::fs::flistxattr(file, &mut names[..]).unwrap_or(0);
    names.truncate(length);
    for name in names.split(|&byte| byte == 0).filter(|name| name.starts_with(ATTRIBUTES)) {
        // One that stays has no meaning outside of a layer.
        let _ = rustix::fs::fremovexattr(file, name);
    }
}

/// Opens a folder of a layer, whatever its permissions are; they change where they forbid it.
#[must_use]
pub fn enter(parent: BorrowedFd<'_>, name: &OsStr) -> Option<OwnedFd> {
    let stat = fs::stat_at(parent, name).ok().filter(fs::is_folder)?;
    if fs::is_closed(fs::mode_of(&stat)) {
        // Nothing follows a link here: it was a folder a moment ago, in a place that is lbx's own.
        let mode = Mode::from_raw_mode(fs::opened_up(fs::mode_of(&stat)));
        let _ = rustix::fs::chmodat(parent, name, mode, AtFlags::empty());
    }
    fs::open_at(parent, name, fs::FOLDER).ok()
}

/// The folder in memory that every process may write.
pub const MEMORY: &str = "/dev/shm";
/// The kernel's number for tmpfs.
const TMPFS: u64 = 0x0102_1994;
/// Of a layer's memory the part that counts as used up.
const FULL_PARTS: u64 = 100;

/// Opens the folder in memory.
///
/// # Errors
/// Why there is none.
pub fn open_memory() -> Result<OwnedFd, String> {
    let opened = fs::open_at(CWD, OsStr::new(MEMORY), fs::FOLDER);
    let opened = opened.map_err(|errno| format!("{MEMORY} cannot be opened ({errno})"))?;
    let kind = rustix::fs::fstatfs(&opened).ok().and_then(|found| u64::try_from(found.f_type).ok());
    if kind == Some(TMPFS) { Ok(opened) } else { Err(format!("{MEMORY} is not in memory")) }
}

/// The bytes that the file system of a folder in memory may hold, where they are used up.
#[must_use]
pub fn full_size(folder: &OwnedFd) -> Option<u64> {
    let found = rustix::fs::fstatvfs(folder).ok()?;
    let is_full = found.f_bavail < found.f_blocks / FULL_PARTS + 1;
    is_full.then(|| found.f_blocks.saturating_mul(found.f_frsize))
}
