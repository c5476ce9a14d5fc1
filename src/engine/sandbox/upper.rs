//! What a layer holds, against the files below it: exactly what the command changed, files that git
//! ignores included.
//!
//! overlayfs keeps a changed or new file whole, a removed one as a character device 0/0, and a folder
//! that was removed and made again with the attribute `user.overlay.opaque`. A renamed folder is a
//! removed one and a new one: with `userxattr` there are no redirects and no files without their bytes.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;

use rustix::fs::{FileType, Mode, Stat};
use rustix::io::Errno;

use super::layer;
use crate::control::Control;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs, identity};
use crate::error::Error;

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
    /// Whether it is a folder on both sides, with another owner or other extended attributes.
    pub has_other_attributes: bool,
}

impl Difference {
    /// Whether it is a folder that is new.
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
    /// Whether what lies below it and not in it is gone.
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
    let opened = layer::enter(folder.upper.as_fd(), name).ok_or(Errno::ACCESS)?;
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
            || identity::own(&**folder) != identity::own(&opened)
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

/// Whether overlayfs keeps a removed name so.
fn is_whiteout(stat: &Stat) -> bool {
    fs::type_of(stat) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// Whether a folder hides what lies below it.
fn is_opaque(folder: &OwnedFd) -> bool {
    let mut value = [0_u8; 8];
    rustix::fs::fgetxattr(folder, OPAQUE, &mut value[..])
        .is_ok_and(|length| value.get(..length) == Some(b"y"))
}

/// Opens a regular file of a layer to read it, whatever its permissions are.
///
/// # Errors
/// The system's.
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
