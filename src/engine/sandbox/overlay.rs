//! A writable layer over the workspace: the changes of a command go into the layer, and the files themselves stay
//! unchanged.
//!
//! The layer is an overlayfs that the sandbox mounts in its own user namespace (Linux 5.11 or later). [`super::layer`]
//! creates its folder and removes it, [`super::overlay`] reads its content.
//!
//! Compared with the files below, a layer holds exactly the changes of the command, also to files that git ignores.
//!
//! overlayfs stores a changed or new file whole, a removed one as a character device 0/0, and a folder that was removed
//! and made again with the attribute `user.overlay.opaque`. A renamed folder is a removed one and a new one: with
//! `userxattr` there are no redirects and no files without their bytes.
//!
//! If the file system of the workspace cannot hold a layer, the layer is in memory: overlayfs rejects another overlayfs
//! as its upper folder, and the files of most containers are on one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, RawMode, Stat, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

use crate::control::Control;
use crate::engine::store::sandboxes::FORKS;
use crate::engine::store::{id, sandboxes};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs, metadata};
use crate::error::Error;
use crate::limits::MOUNTS_BYTES_MAX;
use crate::platform;

/// Attribute of a folder that hides the entries below it.
pub const OPAQUE: &str = "user.overlay.opaque";
/// Prefix of the attributes that overlayfs sets.
const ATTRIBUTES: &[u8] = b"user.overlay.";
/// Attribute of a file in a layer that was copied up from below, or renamed later.
const ORIGIN: &str = "user.overlay.origin";
/// Largest value of that attribute, in bytes.
const ORIGIN_BYTES: usize = 256;
/// Bytes before the file handle in it (`struct ovl_fb`: version, magic, length, flags, type, UUID).
const ORIGIN_HEADER_BYTES: usize = 21;
/// Attribute of a copy in a lower layer: the inode of the original, of which a file in the layer may be a copy. Programs on
/// the layer do not see it.
const INODE: &str = "user.overlay.lbx.inode";
/// Attribute of a folder in a layer that lbx opened up to read it: the permission bits that the command gave it.
pub(super) const MODE: &str = "user.overlay.lbx.mode";
/// Longest number in an attribute, in digits.
const DIGITS_MAX: usize = 20;
/// Bytes before the entries of an access list.
const ACL_HEADER_BYTES: usize = 4;
/// Bytes of an entry of an access list: its kind, the rights, and an id.
const ACL_ENTRY_BYTES: usize = 8;
/// Kind of the entry for the group of the file.
const ACL_GROUP: u8 = 4;
/// Kind of the entry that limits all but the owner and others.
const ACL_MASK: u8 = 16;
/// Permission bits of the group.
const GROUP_BITS: RawMode = 0o070;
/// Largest list of a file's attribute names, in bytes (Linux, `XATTR_LIST_MAX`).
const NAMES_BYTES: usize = 64 << 10;

/// A path that a command changed.
#[derive(Debug, Clone)]
pub struct LayerDifference {
    /// Path.
    pub path: WorkspacePath,
    /// Metadata before the command; `None` if nothing was there.
    pub lower: Option<Stat>,
    /// Metadata in the layer; `None` if the command removed it.
    pub upper: Option<Stat>,
    /// True if it is a folder before and after, with another owner or other extended attributes.
    pub has_other_attributes: bool,
}

impl LayerDifference {
    /// Returns true if it is a new folder.
    pub fn is_new_folder(&self) -> bool {
        self.upper.as_ref().is_some_and(fs::is_folder) && !self.lower.as_ref().is_some_and(fs::is_folder)
    }
}

/// Changes of a layer.
pub struct Differences {
    /// The changes, ordered by path.
    pub paths: Vec<LayerDifference>,
    /// Folders with other times than before, or that are new.
    pub times: Vec<(WorkspacePath, Stat)>,
}

/// A folder that is still to be read.
struct UnreadFolder {
    /// Folder in the layer.
    upper: Rc<OwnedFd>,
    /// Folder below the layer, if it exists.
    lower: Option<Stack>,
    /// Its path.
    path: WorkspacePath,
    /// True if entries below the layer that are not in it were removed.
    is_opaque: bool,
    /// Its metadata, if its times have changed.
    times: Option<Stat>,
}

/// Returns the changes of a layer over the workspace, as [`read_over`] does.
///
/// # Errors
/// As [`read_over`].
pub fn read(
    workspace: &Workspace,
    upper: &OwnedFd,
    control: &Control,
    is_skipped: &dyn Fn(&WorkspacePath) -> bool,
) -> Result<Differences, Error> {
    let root = Stack::of(&[workspace.root_fd()]);
    let root = root.map_err(|errno| Error::io("read", "the workspace", errno))?;
    read_over(workspace, (upper, root), control, is_skipped)
}

/// Returns the changes of a layer over others, without the paths for which `is_skipped` is true, and all
/// below them.
///
/// Paths below a removed folder are not listed.
///
/// # Errors
/// Fails with `timeout` if the call was cancelled, or returns the OS error.
pub fn read_over(
    workspace: &Workspace,
    (upper, lower): (&OwnedFd, Stack),
    control: &Control,
    is_skipped: &dyn Fn(&WorkspacePath) -> bool,
) -> Result<Differences, Error> {
    let io = |errno: Errno| Error::io("read", "the layer of the command", errno);
    let top = fs::open_at(upper.as_fd(), OsStr::new("."), fs::FOLDER).map_err(io)?;
    let mut waiting = vec![UnreadFolder {
        upper: Rc::new(top),
        lower: Some(lower),
        path: WorkspacePath::root(),
        is_opaque: false,
        times: None,
    }];
    let (mut found, mut times) = (Vec::new(), Vec::new());
    while let Some(folder) = waiting.pop() {
        control.check()?;
        times.extend(folder.times.map(|stat| (folder.path.clone(), stat)));
        let names = fs::names_in(&folder.upper).map_err(io)?;
        if folder.is_opaque {
            found.extend(hidden(&folder, &names).map_err(io)?);
        }
        for name in names.iter().filter(|name| !is_skipped(&folder.path.join(name))) {
            let (difference, inner) = read_name(&folder, name).map_err(|errno| match errno {
                Errno::ACCESS => Error::io("look into", workspace.display(&folder.path.join(name)), errno),
                errno => io(errno),
            })?;
            found.extend(difference);
            waiting.extend(inner);
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(Differences { paths: found, times })
}

/// Returns the entries that an opaque folder hides and that are not in it.
fn hidden(folder: &UnreadFolder, names: &[OsString]) -> Result<Vec<LayerDifference>, Errno> {
    let Some(lower) = &folder.lower else { return Ok(Vec::new()) };
    let kept: BTreeSet<&OsString> = names.iter().collect();
    let mut gone = Vec::new();
    for name in lower.names()?.iter().filter(|name| !kept.contains(name)) {
        let path = folder.path.join(name);
        let lower = lower.entry(name)?.map(|found| found.stat);
        gone.push(LayerDifference { path, lower, upper: None, has_other_attributes: false });
    }
    Ok(gone)
}

/// Returns the change of one name in a folder of the layer, and the folder that is still to be read.
fn read_name(
    folder: &UnreadFolder,
    name: &OsStr,
) -> Result<(Option<LayerDifference>, Option<UnreadFolder>), Errno> {
    let path = folder.path.join(name);
    let upper = fs::stat_at(folder.upper.as_fd(), name)?;
    let lower = folder.lower.as_ref().map(|lower| lower.entry(name)).transpose()?.flatten();
    let lower = lower.map(|found| found.stat);
    let mut upper = Some(upper).filter(|stat| !is_whiteout(stat));
    let Some(mut stat) = upper.filter(fs::is_folder) else {
        if let (Some(lower), Some(upper)) = (&lower, &mut upper)
            && fs::is_regular(lower)
            && fs::is_regular(upper)
            && lower.st_mode != upper.st_mode
        {
            let old = folder.lower.as_ref().and_then(Stack::top);
            let old = old.and_then(|folder| fs::open_at(folder.as_fd(), name, fs::READ).ok());
            // The command may have closed its file after it gave it a list.
            let new = open(&*folder.upper, &WorkspacePath::root().join(name)).ok();
            set_group(
                lower,
                upper,
                &[old, new].map(|file| file.map(metadata::user_attributes).unwrap_or_default()),
            );
        }
        let is_change = lower.is_some() || upper.is_some();
        let difference = LayerDifference { path, lower, upper, has_other_attributes: false };
        return Ok((is_change.then_some(difference), None));
    };
    let opened = enter(folder.upper.as_fd(), name).ok_or(Errno::ACCESS)?;
    set_closed_mode(&mut stat, &opened);
    let lower_folder = match (&folder.lower, &lower) {
        (Some(parent), Some(lower)) if fs::is_folder(lower) => {
            match parent.enter(name) {
                // Its mode may have changed, but not its entries: nobody could read them.
                Err(Errno::ACCESS) if fs::names_in(&opened)?.is_empty() => None,
                folder => folder?,
            }
        }
        _ => None,
    };
    let has_other_attributes = lower.as_ref().zip(lower_folder.as_ref()).is_some_and(|(lower, folder)| {
        let attributes = [
            folder.top().map(metadata::user_attributes).unwrap_or_default(),
            metadata::user_attributes(&opened),
        ];
        let is_other = attributes.first() != attributes.last();
        set_group(lower, &mut stat, &attributes);
        is_other || (lower.st_uid, lower.st_gid) != (stat.st_uid, stat.st_gid)
    });
    let is_changed = lower_folder.is_none()
        || has_other_attributes
        || lower.as_ref().is_some_and(|lower| fs::mode_of(lower) != fs::mode_of(&stat))
        // Its entries can only be changed while its mode allows it.
        || fs::is_closed(fs::mode_of(&stat));
    // A folder that was removed and made again is marked, but not the folders in it: what is below them is hidden too.
    let is_opaque = folder.is_opaque || is_opaque(&opened);
    let written = |stat: &Stat| (stat.st_mtime, stat.st_mtime_nsec);
    let has_times = lower_folder.is_none() || lower.as_ref().map(written) != Some(written(&stat));
    let times = has_times.then_some(stat);
    let inner =
        UnreadFolder { upper: Rc::new(opened), lower: lower_folder, path: path.clone(), is_opaque, times };
    let difference = LayerDifference { path, lower, upper: Some(stat), has_other_attributes };
    Ok((is_changed.then_some(difference), Some(inner)))
}

/// Sets the bits of the group in the mode of a file or folder whose access list a command made or changed: they are the
/// mask of that list, which is not applied. The first list says what the group itself may do; with an earlier one they
/// stay. `attributes` are those before and after.
pub fn set_group(lower: &Stat, upper: &mut Stat, attributes: &[BTreeMap<Vec<u8>, Vec<u8>>; 2]) {
    let list = |it: &BTreeMap<Vec<u8>, Vec<u8>>| it.get(metadata::ACCESS_LIST.as_bytes()).cloned();
    let [old, Some(new)] = attributes.each_ref().map(list) else { return };
    let of_group = |entry: &[u8]| match entry {
        [ACL_GROUP, 0, rights, ..] => Some((RawMode::from(*rights) << 3) & upper.st_mode),
        _ => None,
    };
    let group = match old {
        Some(old) if entries_of(&old).eq(entries_of(&new)) => return,
        Some(_) => None,
        None => entries_of(&new).find_map(of_group),
    };
    upper.st_mode = (upper.st_mode & !GROUP_BITS) | (group.unwrap_or(lower.st_mode) & GROUP_BITS);
}

/// Returns the entries of an access list without its mask, which `chmod` changes.
fn entries_of(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let entries = list.get(ACL_HEADER_BYTES..).unwrap_or_default().chunks_exact(ACL_ENTRY_BYTES);
    entries.filter(|entry| !entry.starts_with(&[ACL_MASK, 0]))
}

/// Entry of a [`Stack`].
#[derive(Debug, Clone, Copy)]
pub struct StackEntry {
    /// Number of the layer that has it, the uppermost first.
    pub layer: usize,
    /// Its metadata.
    pub stat: Stat,
}

/// A folder in several layers over each other, as overlayfs shows it.
#[derive(Debug, Clone)]
pub struct Stack(Vec<(usize, Rc<OwnedFd>)>);

impl Stack {
    /// Returns the root of layers, the uppermost first.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn of(layers: &[BorrowedFd<'_>]) -> Result<Self, Errno> {
        let open = |layer: &BorrowedFd<'_>| fs::open_at(*layer, OsStr::new("."), fs::FOLDER).map(Rc::new);
        let opened: Result<Vec<_>, _> = layers.iter().map(open).collect();
        Ok(Self(opened?.into_iter().enumerate().collect()))
    }

    /// Returns the uppermost folder.
    fn top(&self) -> Option<&OwnedFd> {
        self.0.first().map(|(_, folder)| &**folder)
    }

    /// Returns the entry of that name.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn entry(&self, name: &OsStr) -> Result<Option<StackEntry>, Errno> {
        for (layer, folder) in &self.0 {
            match fs::stat_at(folder.as_fd(), name) {
                Err(Errno::NOENT) => {}
                stat => {
                    return Ok(Some(stat?)
                        .filter(|it| !is_whiteout(it))
                        .map(|stat| StackEntry { layer: *layer, stat }));
                }
            }
        }
        Ok(None)
    }

    /// Returns the folder of that name; `None` if it is no folder.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn enter(&self, name: &OsStr) -> Result<Option<Self>, Errno> {
        let mut inner = Vec::new();
        for (layer, folder) in &self.0 {
            match fs::open_at(folder.as_fd(), name, fs::FOLDER) {
                Err(Errno::NOENT) => {}
                Err(Errno::NOTDIR | Errno::LOOP) => break,
                opened => {
                    let opened = opened?;
                    let hides_rest = is_opaque(&opened);
                    inner.push((*layer, Rc::new(opened)));
                    if hides_rest {
                        break;
                    }
                }
            }
        }
        Ok((!inner.is_empty()).then_some(Self(inner)))
    }

    /// Returns the names in the folder, in order.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn names(&self) -> Result<BTreeSet<OsString>, Errno> {
        let mut names = BTreeSet::new();
        for (_, folder) in &self.0 {
            names.extend(fs::names_in(folder)?);
        }
        if self.0.len() > 1 {
            let mut visible = BTreeSet::new();
            for name in names {
                if self.entry(&name)?.is_some() {
                    visible.insert(name);
                }
            }
            return Ok(visible);
        }
        Ok(names)
    }

    /// Returns the entry at a path, with the opened folder that has it in its layer.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn place(&self, path: &WorkspacePath) -> Result<Option<(Rc<OwnedFd>, StackEntry)>, Errno> {
        let Some(parent) = self.folder(&path.parent().unwrap_or_default())? else { return Ok(None) };
        let Some(entry) = parent.entry(path.name().unwrap_or_default())? else { return Ok(None) };
        let folder = parent.0.into_iter().find(|(layer, _)| *layer == entry.layer);
        Ok(folder.map(|(_, folder)| (folder, entry)))
    }

    /// Returns the folder at a path, if it exists.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn folder(&self, path: &WorkspacePath) -> Result<Option<Self>, Errno> {
        let mut folder = self.clone();
        for name in path.components() {
            match folder.enter(name)? {
                Some(inner) => folder = inner,
                None => return Ok(None),
            }
        }
        Ok(Some(folder))
    }

    /// Calls `visit` with each path below the folder at `path` that is no folder, until it returns false; skips the paths
    /// for which `is_skipped` is true.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn for_each_file(
        &self,
        path: &WorkspacePath,
        is_skipped: &dyn Fn(&WorkspacePath) -> bool,
        visit: &mut dyn FnMut(WorkspacePath) -> bool,
    ) -> Result<(), Errno> {
        let mut waiting: Vec<(WorkspacePath, Self)> =
            self.folder(path)?.into_iter().map(|folder| (path.clone(), folder)).collect();
        while let Some((path, folder)) = waiting.pop() {
            for name in folder.names()? {
                let inner = path.join(&name);
                let Some(entry) = folder.entry(&name)?.filter(|_| !is_skipped(&inner)) else { continue };
                if !fs::is_folder(&entry.stat) {
                    if !visit(inner) {
                        return Ok(());
                    }
                } else if let Some(opened) = folder.enter(&name)? {
                    waiting.push((inner, opened));
                }
            }
        }
        Ok(())
    }
}

/// Returns true if overlayfs marks a removed name like this.
pub fn is_whiteout(stat: &Stat) -> bool {
    if cfg!(target_os = "linux") {
        return fs::type_of(stat) == FileType::CharacterDevice && stat.st_rdev == 0;
    }
    fs::is_regular(stat) && (fs::mode_of(stat), stat.st_size, stat.st_mtime) == (0, 0, 0)
}

/// Marks a name as removed, as overlayfs does. Where there are no layers, an empty file without permissions, of the year
/// 1970, is the mark.
///
/// # Errors
/// Returns the OS error.
pub fn whiteout(folder: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    let made = if cfg!(target_os = "linux") {
        platform::make_special(folder, name, FileType::CharacterDevice, Mode::empty())
    } else {
        let first = Timespec { tv_sec: 0, tv_nsec: 0 };
        let times = Timestamps { last_access: first, last_modification: first };
        fs::create_at(folder, name, 0).and_then(|file| rustix::fs::futimens(&file, &times))
    };
    if made == Err(Errno::EXIST) { Ok(()) } else { made }
}

/// Returns true if a folder hides the entries below it.
fn is_opaque(folder: &OwnedFd) -> bool {
    let mut value = [0_u8; 8];
    rustix::fs::fgetxattr(folder, OPAQUE, &mut value[..])
        .is_ok_and(|length| value.get(..length) == Some(b"y"))
}

/// Opens a regular file or a folder of a layer for reading, whatever its permissions.
///
/// # Errors
/// Returns the OS error.
pub fn open(upper: impl AsFd, path: &WorkspacePath) -> Result<OwnedFd, Errno> {
    match fs::open_beneath(upper.as_fd(), path, fs::READ) {
        Err(Errno::ACCESS) => {
            let folder = fs::open_beneath(upper.as_fd(), &path.parent().unwrap_or_default(), fs::FOLDER)?;
            let name = path.name().unwrap_or_default();
            let stat = fs::stat_at(folder.as_fd(), name)?;
            let mode = platform::mode(fs::opened_up(fs::mode_of(&stat)));
            rustix::fs::chmodat(&folder, name, mode, AtFlags::empty())?;
            let opened = fs::open_at(folder.as_fd(), name, fs::READ)?;
            rustix::fs::fchmod(&opened, platform::mode(fs::mode_of(&stat)))?;
            Ok(opened)
        }
        opened => opened,
    }
}

/// File below a layer of which a file in the layer is a copy, under this name or an earlier one.
#[derive(Debug, Clone)]
pub struct FileOrigin(Vec<u8>);

impl FileOrigin {
    /// Returns the origin that overlayfs noted for a file of a layer, which in a user namespace is that of no file; `None` if
    /// the file is no copy.
    pub fn of(upper: &OwnedFd, path: &WorkspacePath) -> Option<Self> {
        let file = open(upper, path).ok()?;
        let mut value = vec![0_u8; ORIGIN_BYTES];
        let length = rustix::fs::fgetxattr(&file, ORIGIN, &mut value[..]).ok()?;
        value.truncate(length);
        Some(Self(value.split_off(ORIGIN_HEADER_BYTES.min(length))))
    }

    /// Returns true if it is the file of an inode: the number comes first in the handle, in 32 bits (ext4) or 64 bits (xfs,
    /// btrfs), or after a generation (tmpfs).
    pub fn is(&self, inode: u64) -> bool {
        let handle = &self.0;
        let short = u32::try_from(inode).ok().map(u32::to_le_bytes);
        let long = inode.to_le_bytes();
        let after_generation = handle.get(4..).unwrap_or_default();
        short.is_some_and(|short| handle.starts_with(&short) || after_generation.starts_with(&short))
            || handle.starts_with(&long)
            || after_generation.starts_with(&long)
    }
}

/// Notes of which file a regular file for a lower layer is a copy, best effort: without it, a merge may take a renamed file
/// for a new one.
pub fn note_inode((folder, name): (BorrowedFd<'_>, &OsStr), original: &Stat) {
    if fs::is_regular(original)
        && let Ok(file) = fs::open_at(folder, name, fs::READ)
    {
        let inode = original.st_ino.to_string();
        let _ = rustix::fs::fsetxattr(&file, INODE, inode.as_bytes(), XattrFlags::empty());
    }
}

/// Returns the inode of the original of a copy in a lower layer.
pub fn noted_inode(lower: &OwnedFd, path: &WorkspacePath) -> Option<u64> {
    number_in(&fs::open_beneath(lower.as_fd(), path, fs::READ).ok()?, INODE)
}

/// Lets this account into the opened root of a layer, and notes the permission bits that the command gave it. Returns its
/// metadata, with these bits.
///
/// # Errors
/// Returns the OS error.
pub fn enter_root(root: &OwnedFd) -> Result<Stat, Errno> {
    let mut stat = rustix::fs::fstat(root)?;
    let mode = fs::mode_of(&stat);
    if fs::is_closed(mode) {
        fs::set_mode(root, fs::opened_up(mode))?;
        rustix::fs::fsetxattr(root, MODE, mode.to_string().as_bytes(), XattrFlags::empty())?;
    }
    set_closed_mode(&mut stat, root);
    Ok(stat)
}

/// Sets the permission bits of a folder in a layer to those that the command gave it.
fn set_closed_mode(stat: &mut Stat, folder: &OwnedFd) {
    if let Some(mode) = closed_mode(folder) {
        stat.st_mode = FileType::Directory.as_raw_mode() | platform::mode(mode).as_raw_mode();
    }
}

/// Returns the permission bits of a folder in a layer that lbx has opened up since.
pub fn closed_mode(folder: &OwnedFd) -> Option<u32> {
    let now = fs::mode_of(&rustix::fs::fstat(folder).ok()?);
    number_in(folder, MODE).filter(|mode| fs::opened_up(*mode) == now)
}

/// Returns the number in an attribute of a file or folder.
fn number_in<T: std::str::FromStr>(file: &OwnedFd, attribute: &str) -> Option<T> {
    let mut value = [0_u8; DIGITS_MAX];
    let length = rustix::fs::fgetxattr(file, attribute, &mut value[..]).ok()?;
    std::str::from_utf8(value.get(..length)?).ok()?.parse().ok()
}

/// Removes the attributes of overlayfs from an opened file or folder, even if its mode lets nobody write it.
pub fn strip(file: &OwnedFd) {
    let mut names = vec![0_u8; NAMES_BYTES];
    let length = rustix::fs::flistxattr(file, &mut names[..]).unwrap_or(0);
    names.truncate(length);
    for name in names.split(|&byte| byte == 0).filter(|name| name.starts_with(ATTRIBUTES)) {
        let remove = || rustix::fs::fremovexattr(file, name);
        // Outside of a layer a leftover attribute has no meaning.
        if remove() == Err(Errno::ACCESS)
            && let Ok(stat) = rustix::fs::fstat(file)
        {
            let _ = rustix::fs::fchmod(file, platform::mode(fs::opened_up(fs::mode_of(&stat))));
            let _ = remove();
            let _ = rustix::fs::fchmod(file, platform::mode(fs::mode_of(&stat)));
        }
    }
}

/// Opens a folder of a layer; changes its permissions if they forbid that, and notes them.
pub fn enter(parent: BorrowedFd<'_>, name: &OsStr) -> Option<OwnedFd> {
    let mode = fs::mode_of(&fs::stat_at(parent, name).ok().filter(fs::is_folder)?);
    if !fs::is_closed(mode) {
        return fs::open_at(parent, name, fs::FOLDER).ok();
    }
    // This follows no link: it was a folder a moment ago, and only lbx writes here.
    let _ = rustix::fs::chmodat(parent, name, platform::mode(fs::opened_up(mode)), AtFlags::empty());
    let opened = fs::open_at(parent, name, fs::FOLDER).ok()?;
    let _ = rustix::fs::fsetxattr(&opened, MODE, mode.to_string().as_bytes(), XattrFlags::empty());
    Some(opened)
}

/// Folder of layers in the folder of a fork.
pub const LAYERS: &str = "layers";
/// Folder in memory that every process may write.
pub const MEMORY: &str = "/dev/shm";
/// Kernel's number of tmpfs.
const TMPFS: u64 = 0x0102_1994;
/// A layer in memory counts as full when less than one part in this many is free.
const FULL_PARTS: u64 = 100;

/// Opens a folder that can hold layers of a workspace on an overlay file system, which takes none of them: in a fork its
/// own folder, else one in memory.
///
/// # Errors
/// Returns the reason if there is no such folder.
pub fn open_outside() -> Result<(OwnedFd, PathBuf), String> {
    if let Some(path) = fork_folder()
        && let Ok(opened) = fs::open_at(CWD, path.as_os_str(), fs::FOLDER)
    {
        return Ok((opened, path));
    }
    let opened = fs::open_at(CWD, OsStr::new(MEMORY), fs::FOLDER);
    let opened = opened.map_err(|errno| format!("{MEMORY} cannot be opened ({errno})"))?;
    let kind = rustix::fs::fstatfs(&opened).ok().and_then(|found| u64::try_from(found.f_type).ok());
    if kind == Some(TMPFS) { Ok((opened, MEMORY.into())) } else { Err(format!("{MEMORY} is not in memory")) }
}

/// Returns the folder of layers of the fork in which this process runs.
fn fork_folder() -> Option<PathBuf> {
    let mounts = fs::read_at(CWD, OsStr::new("/proc/self/mountinfo"), MOUNTS_BYTES_MAX).ok()??;
    let label = mounts.split(|&byte| byte == b'\n').find_map(|line| {
        let after = memchr::memmem::find(line, b" - overlay ")?;
        let source = line.get(after..)?.split(|&byte| byte == b' ').nth(3)?;
        std::str::from_utf8(source).ok().filter(|source| sandboxes::is_label(source))
    })?;
    Some(id::user_folder()?.join(FORKS).join(label).join(LAYERS))
}

/// Returns the size of the file system of a folder in memory, if it is full.
pub fn full_size(folder: &OwnedFd) -> Option<u64> {
    let found = rustix::fs::fstatvfs(folder).ok()?;
    let is_full = found.f_bavail < found.f_blocks / FULL_PARTS + 1;
    is_full.then(|| found.f_blocks.saturating_mul(found.f_frsize))
}
