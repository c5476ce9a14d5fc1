//! Metadata of a file or folder: owner, extended attributes (access control lists among them), mode.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{Gid, Stat, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::fs;
use crate::platform;

/// Extended attribute with the access control list of a file or folder.
pub const ACCESS_LIST: &str = "system.posix_acl_access";
/// Largest extended attribute, in bytes (Linux, `XATTR_SIZE_MAX`).
const XATTR_BYTES_MAX: usize = 64 << 10;

/// Owner and attributes of a file or folder that a change deletes, so that an undo can restore them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// User id.
    owner: u32,
    /// Group id.
    group: u32,
    /// Extended attributes: names, and values in base64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<(String, String)>,
}

impl Identity {
    /// Reads the metadata of an open file or folder; `None` if a new one would have the same.
    pub fn of(file: impl AsFd, stat: &Stat) -> Option<Self> {
        let file = file.as_fd();
        let attributes: Vec<(String, String)> = names_of(file)
            .into_iter()
            .filter_map(|name| Some((String::from_utf8(name.clone()).ok()?, value_of(file, &name).ok()?)))
            .map(|(name, value)| (name, STANDARD.encode(value)))
            .collect();
        Self::new((stat.st_uid, stat.st_gid), attributes)
    }

    /// Returns the identity of a file that only had this user and group; `None` if a new one would have the same.
    pub fn of_owner(owner: (u32, u32)) -> Option<Self> {
        Self::new(owner, Vec::new())
    }

    /// Returns an identity; `None` if a new file would have the same.
    fn new((owner, group): (u32, u32), attributes: Vec<(String, String)>) -> Option<Self> {
        let is_mine = owner == rustix::process::geteuid().as_raw()
            && group == rustix::process::getegid().as_raw()
            && attributes.is_empty();
        (!is_mine).then_some(Self { owner, group, attributes })
    }

    /// Applies it to an open file or folder, as far as permitted; returns whether it has the owner.
    fn apply_to(&self, file: BorrowedFd<'_>, warnings: &mut Vec<String>) -> Result<FileOwner, Errno> {
        let owner = keep_owner(file, &rustix::fs::fstat(file)?, (self.owner, self.group), warnings)?;
        let values = self.attributes.iter().map(|(name, value)| {
            (STANDARD.decode(value).map_err(|_| Errno::INVAL), name.clone().into_bytes())
        });
        keep_attributes(file, values, warnings);
        Ok(owner)
    }
}

/// Returns the extended attributes of an open file or folder that a user sets, access control lists included; without
/// those of the kernel and of overlay file systems.
pub fn user_attributes(file: impl AsFd) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let file = file.as_fd();
    let is_own = |name: &Vec<u8>| {
        (name.starts_with(b"user.") && !name.starts_with(b"user.overlay."))
            || name.starts_with(b"system.posix_acl_")
    };
    let names = names_of(file).into_iter().filter(is_own);
    names.filter_map(|name| Some((name.clone(), value_of(file, &name).ok()?))).collect()
}

/// Sets the mode and the identity of a folder, as far as permitted.
///
/// # Errors
/// Returns the OS error.
pub fn set_metadata(folder: &OwnedFd, mode: Option<u32>, identity: Option<&Identity>) -> Result<(), Errno> {
    if let Some(identity) = identity {
        identity.apply_to(folder.as_fd(), &mut Vec::new())?;
    }
    match mode {
        // A file system without modes is not asked to set one that is right already.
        Some(mode) if fs::mode_of(&rustix::fs::fstat(folder)?) != mode => {
            rustix::io::retry_on_intr(|| rustix::fs::fchmod(folder, platform::mode(mode)))
        }
        _ => Ok(()),
    }
}

/// Returns the times of a file, to give them to another.
pub fn times_of(stat: &Stat) -> Timestamps {
    let time = |tv_sec, tv_nsec: Option<i64>| Timespec { tv_sec, tv_nsec: tv_nsec.unwrap_or_default() };
    Timestamps {
        last_access: time(stat.st_atime, fs::nanoseconds(stat.st_atime_nsec)),
        last_modification: time(stat.st_mtime, fs::nanoseconds(stat.st_mtime_nsec)),
    }
}

/// Gives a folder owner, mode and times of another.
///
/// # Errors
/// Returns the OS error.
pub fn make_alike(folder: &OwnedFd, like: BorrowedFd<'_>) -> Result<(), Errno> {
    let (wanted, own) = (rustix::fs::fstat(like)?, rustix::fs::fstat(folder)?);
    if (wanted.st_uid, wanted.st_gid) != (own.st_uid, own.st_gid) {
        let (user, group) = (Uid::from_raw(wanted.st_uid), Gid::from_raw(wanted.st_gid));
        // Another account's folder: this one then only shows another owner.
        let _ = rustix::fs::fchown(folder, Some(user), Some(group));
    }
    rustix::fs::fchmod(folder, platform::mode(fs::mode_of(&wanted)))?;
    rustix::fs::futimens(folder, &times_of(&wanted))
}

/// Applies the original's owner, extended attributes and mode to `file`; returns the mode.
///
/// Without an original, uses `identity`; `mode` takes precedence over the original's. Adds a warning to `warnings` for
/// each part that could not be kept.
///
/// # Errors
/// Returns the OS error.
pub fn apply_original(
    file: &File,
    original: Option<(&Stat, &File)>,
    identity: Option<&Identity>,
    mode: Option<u32>,
    warnings: &mut Vec<String>,
) -> Result<u32, Errno> {
    let fd = file.as_fd();
    let made = rustix::fs::fstat(file)?;
    let (mut owner, mut is_as_made) = (FileOwner::AsMade, true);
    if let Some((stat, model)) = original {
        let model = model.as_fd();
        owner = keep_owner(fd, &made, (stat.st_uid, stat.st_gid), warnings)?;
        let names = names_of(model);
        is_as_made = owner == FileOwner::AsMade && names.is_empty();
        keep_attributes(fd, names.into_iter().map(|name| (value_of(model, &name), name)), warnings);
    } else if let Some(identity) = identity {
        is_as_made = false;
        owner = identity.apply_to(fd, warnings)?;
    }
    let has = fs::mode_of(&made);
    match mode.or_else(|| original.map(|(stat, _)| fs::mode_of(stat))).map(|mode| owner.fitting(mode)) {
        Some(mode) if mode != has || !is_as_made => {
            rustix::io::retry_on_intr(|| rustix::fs::fchmod(file, platform::mode(mode)))?;
        }
        _ if is_as_made => return Ok(has),
        _ => {}
    }
    rustix::fs::fstat(file).map(|stat| fs::mode_of(&stat))
}

/// Owner and group of a new file that should have those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileOwner {
    /// It had them when it was made.
    AsMade,
    /// It was given them.
    Given,
    /// This account may not give them.
    NotKept,
}

impl FileOwner {
    /// Returns the mode for the file: a program that runs as its owner must not become one that runs as another.
    const fn fitting(self, mode: u32) -> u32 {
        if matches!(self, Self::NotKept) { mode & !0o6000 } else { mode }
    }
}

/// Gives a new file, `mine`, owner and group if permitted.
fn keep_owner(
    file: BorrowedFd<'_>,
    mine: &Stat,
    (owner, group): (u32, u32),
    warnings: &mut Vec<String>,
) -> Result<FileOwner, Errno> {
    if (mine.st_uid, mine.st_gid) == (owner, group) {
        return Ok(FileOwner::AsMade);
    }
    let (user, of_group) = (Uid::from_raw(owner), Gid::from_raw(group));
    match rustix::io::retry_on_intr(|| rustix::fs::fchown(file, Some(user), Some(of_group))) {
        Ok(()) => Ok(FileOwner::Given),
        Err(Errno::PERM) => {
            // Another user's file: setting only the group may still work.
            let keeps_group = mine.st_gid == group || rustix::fs::fchown(file, None, Some(of_group)).is_ok();
            let lost = match (mine.st_uid == owner, keeps_group) {
                (true, true) => return Ok(FileOwner::Given),
                (true, false) => format!("group ({group})"),
                (false, true) => format!("owner ({owner})"),
                (false, false) => format!("owner ({owner}) and group ({group})"),
            };
            warnings.push(format!("the file's {lost} could not be kept"));
            Ok(FileOwner::NotKept)
        }
        Err(errno) => Err(errno),
    }
}

/// Sets extended attributes, each a value and a name, if permitted.
fn keep_attributes(
    file: BorrowedFd<'_>,
    attributes: impl Iterator<Item = (Result<Vec<u8>, Errno>, Vec<u8>)>,
    warnings: &mut Vec<String>,
) {
    let mut lost = Vec::new();
    for (value, name) in attributes {
        let kept = value.and_then(|value| rustix::fs::fsetxattr(file, &name, &value, XattrFlags::empty()));
        if let Err(errno) = kept
            && !(errno == Errno::PERM && name.starts_with(b"security."))
        {
            lost.push(String::from_utf8_lossy(&name).into_owned());
        }
    }
    if !lost.is_empty() {
        warnings.push(format!("extended attributes could not be kept: {}", lost.join(", ")));
    }
}

/// Returns the names of a file's extended attributes; empty if the file system has none.
fn names_of(file: BorrowedFd<'_>) -> Vec<Vec<u8>> {
    // Most files have none, and need no buffer.
    if rustix::fs::flistxattr_query(file).is_ok_and(|length| length == 0) {
        return Vec::new();
    }
    let mut names = vec![0_u8; XATTR_BYTES_MAX];
    let length = rustix::fs::flistxattr(file, &mut names[..]).unwrap_or(0);
    names.truncate(length);
    names.split(|&byte| byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Returns the value of an extended attribute.
fn value_of(file: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0_u8; XATTR_BYTES_MAX];
    let length = rustix::fs::fgetxattr(file, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}
