//! The file system of a confined command, in a mount namespace of its own.
//!
//! Its root is empty and read-only. In it are mounted the visible paths outside, `/proc`, `/dev` and `/tmp`, then the
//! workspace and the other writable folders, and over them the hidden and protected paths. All are taken as trees
//! before the root changes: the writable ones first, the others after their mounts have become read-only.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};

use super::backend::{SetupResult, with_context};
use super::caches::{CacheView, PROGRAMS};
use super::layer_folders::{UPPER, WORK};
use super::layer_mount::{self, MountPoints, mount_points};
use super::outside::Network;
use super::plan::{Access, HiddenPath, Layer};
use crate::engine::workspace::fs::{create_at, is_folder, open_at, read_at, write_all};
use crate::platform;

/// Devices of a command.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Links in `/dev`, with their targets.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];
/// Empty, writable folders.
pub const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
/// Folder for the sockets of system services, which is empty.
pub const RUNTIME: &str = "/run";
/// Size of a folder for temporary files in memory, in bytes.
pub const TEMPORARY_BYTES: u64 = 512 << 20;
/// Size of a file system in memory that holds only mount points and small copies, in bytes.
const SMALL_BYTES: u64 = 4 << 20;
/// Folder of processes.
const PROC: &str = "/proc";
/// Folder of this process's descriptors.
const DESCRIPTORS: &str = "/proc/self/fd";
/// Mode of folders that everyone may write.
const SHARED_MODE: u32 = 0o1777;
/// Mode of other folders.
const FOLDER_MODE: u32 = 0o755;
/// Mode of a copy of a file that git may track.
const COPY_MODE: u32 = 0o644;
/// Files of lbx's folder that a command sees: git may track them.
pub const STATE_SHOWN: [&str; 2] = [".gitignore", "config.toml"];
/// Largest such file, in bytes.
const STATE_FILE_BYTES_MAX: u64 = 1 << 20;
/// Flags of the sandbox's own mounts.
const OWN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// `/proc` of the command; `None` if the kernel forbids another one.
pub type ProcMount = Option<OwnedFd>;

/// Sets up this mount namespace, which is new; `take_proc` waits for the command's `/proc`.
///
/// # Errors
/// Returns the step that failed; no command may run then.
pub fn confine(reach: &Access, take_proc: &mut dyn FnMut() -> SetupResult<ProcMount>) -> SetupResult<()> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    with_context(rustix::mount::mount_change("/", private), "cannot part the mounts")?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let descriptors = rustix::fs::open(DESCRIPTORS, flags, Mode::empty());
    let descriptors = with_context(descriptors, "cannot open the folder of its descriptors")?;
    let trees = HostMounts::attach_trees(reach, take_proc)?;
    enter_empty_root(Path::new(&reach.root))?;
    // The command's /proc does not show this process, see `path_of`.
    with_context(rustix::process::fchdir(&descriptors), "cannot enter the folder of its descriptors")?;
    trees.attach(reach)?;
    reach.pinned.iter().try_for_each(|path| mount_in_place(Path::new(path)).map(drop))?;
    for path in &reach.settled {
        make_read_only(&path_of(&mount_in_place(Path::new(path))?))?;
    }
    let is_below = |hidden: &&HiddenPath| !reach.is_above_own(Path::new(&hidden.path));
    reach.hidden.iter().filter(is_below).try_for_each(hide)?;
    let root =
        with_context(rustix::fs::open(&reach.root, flags, Mode::empty()), "cannot open the workspace")?;
    reach.channels()?.into_iter().try_for_each(|path| hide(&HiddenPath { path, is_folder: false }))?;
    for path in reach.folders_above_protected()? {
        bind_onto_itself(&root, path.as_os_str())?;
    }
    for path in &reach.protected {
        if let Some(tree) = bind_onto_itself(&root, path)? {
            make_read_only(&path_of(&tree))?;
        }
    }
    reach.states.iter().try_for_each(|path| veil(&root, path))?;
    make_read_only(Path::new("/"))?;
    with_context(rustix::process::chdir("/"), "cannot enter the new root")
}

/// Trees with their mount points.
type MountedTrees = Vec<(PathBuf, OwnedFd)>;

/// Trees of the host's mounts that a command keeps, in the order in which they are mounted.
struct HostMounts {
    /// `/proc`.
    proc: OwnedFd,
    /// Its devices.
    devices: MountedTrees,
    /// Shared folders for temporary files.
    temporary: MountedTrees,
    /// Paths outside that it sees.
    shown: MountedTrees,
    /// Its views of caches, and the programs in them.
    caches: MountedTrees,
    /// The workspace, and other folders that it writes.
    own: MountedTrees,
}

impl HostMounts {
    /// Takes the trees. Also makes the mounts read-only that the read-only trees come from.
    fn attach_trees(
        reach: &Access,
        take_proc: &mut dyn FnMut() -> SetupResult<ProcMount>,
    ) -> SetupResult<Self> {
        let placed = |path: &Path| Ok((path.to_owned(), tree(path)?));
        let points = mount_points()?;
        let writable = reach.writable_folders().map(|path| match &reach.layer {
            Some(layer) if path.as_os_str() == reach.root => {
                Ok((path.clone(), layer_mount::mount(&path, layer, &points)?))
            }
            _ => placed(&path),
        });
        let mut own = writable.collect::<SetupResult<MountedTrees>>()?;
        let devices = DEVICES.map(|name| Path::new("/dev").join(name));
        let devices = devices.iter().filter_map(|path| placed(path).ok()).collect();
        let shared = reach.temporary.iter().flat_map(|folder| TEMPORARY.map(|path| (path, folder)));
        let shared = shared.map(|(path, folder)| Ok((path.into(), tree(Path::new(folder))?)));
        let temporary = shared.collect::<SetupResult<_>>()?;
        let mut caches: MountedTrees =
            reach.caches.iter().flat_map(|view| cache(view, &reach.network)).collect();
        let kept: Vec<&Path> = reach.outside.shown.iter().map(Path::new).collect();
        let root = reach.read_only.then(|| Path::new(&reach.root));
        let proc = take_proc()?;
        let of_container = proc.is_none().then(|| Path::new(PROC));
        make_all_read_only(
            &points,
            &kept.iter().copied().chain(root).chain(of_container).collect::<Vec<_>>(),
        )?;
        caches.extend(reach.caches.iter().filter_map(programs));
        if let Some(root) = root {
            own.insert(0, placed(root)?);
        }
        // Paths that were removed need not be shown.
        let shown = kept.into_iter().filter_map(|path| placed(path).ok()).collect();
        let proc = proc.map_or_else(|| tree(Path::new(PROC)), Ok)?;
        Ok(Self { proc, devices, temporary, shown, caches, own })
    }

    /// Mounts the trees in an empty root.
    fn attach(self, reach: &Access) -> SetupResult<()> {
        let attach_all = |placed: MountedTrees| placed.iter().try_for_each(|(path, tree)| attach(tree, path));
        make_folder(Path::new(PROC))?;
        attach(&self.proc, Path::new(PROC))?;
        make_folder(Path::new("/dev"))?;
        let devices: Vec<PathBuf> = self.devices.iter().map(|(path, _)| path.clone()).collect();
        attach_all(self.devices)?;
        // A device on a read-only mount can be written; its mode and owner, which are the host's, stay. Only root could
        // change them, so a kernel that refuses the mount is no reason to refuse the command.
        for path in devices {
            let _ = remount_read_only(&path, MountFlags::NOSUID | MountFlags::NOEXEC);
        }
        make_dev()?;
        make_folder(Path::new(RUNTIME))?;
        for path in TEMPORARY.iter().map(Path::new) {
            make_folder(path)?;
            if self.temporary.is_empty() {
                mount_tmpfs(path, SHARED_MODE, TEMPORARY_BYTES)?;
            }
        }
        attach_all(self.temporary)?;
        attach_all(self.shown)?;
        reach.outside.home.iter().try_for_each(|home| make_folder(Path::new(home)))?;
        for (place, view) in &self.caches {
            // A command also runs without its cache.
            let _ = attach(view, place);
        }
        for hidden in reach.hidden.iter().filter(|hidden| reach.is_above_own(Path::new(&hidden.path))) {
            make_folder(Path::new(&hidden.path))?;
            mount_tmpfs(Path::new(&hidden.path), FOLDER_MODE, SMALL_BYTES)?;
        }
        attach_all(self.own)?;
        reach.outside.links.iter().try_for_each(|(link, target)| make_link(Path::new(link), target))
    }
}

/// Takes the view of a cache, with its mount points: a layer over the user's cache, or folders that replace it.
#[expect(clippy::disallowed_methods, reason = "folders of the session, in lbx's own state")]
fn cache(view: &CacheView, network: &Network) -> Vec<(PathBuf, OwnedFd)> {
    let own = Path::new(&view.own);
    let layer = Layer { upper: own.join(UPPER).into(), work: own.join(WORK).into() };
    let layered = view.exists.then(|| layer_mount::mount_over(Path::new(&view.place), &layer).ok()).flatten();
    if let Some(layered) = layered {
        return vec![(PathBuf::from(&view.place), layered)];
    }
    let taken = |(plain, place): (PathBuf, PathBuf)| {
        fs::create_dir_all(&plain).ok()?;
        Some((place, tree(&plain).ok()?))
    };
    view.plain(network).into_iter().filter_map(taken).collect()
}

/// Takes the folder with the programs of a toolchain, which its view does not replace.
fn programs(view: &CacheView) -> Option<(PathBuf, OwnedFd)> {
    let place = view.has_programs.then(|| Path::new(&view.place).join(PROGRAMS))?;
    let taken = tree(&place).ok()?;
    Some((place, taken))
}

/// Makes an empty file system the root, and unmounts everything else. Until then it covers the folder `over`.
fn enter_empty_root(over: &Path) -> SetupResult<()> {
    let what = "cannot make an empty root";
    mount_tmpfs(over, FOLDER_MODE, SMALL_BYTES)?;
    with_context(rustix::process::chdir(over), what)?;
    // The old root is then on top of the new one, see pivot_root(2).
    with_context(rustix::process::pivot_root(".", "."), what)?;
    with_context(rustix::mount::unmount(".", UnmountFlags::DETACH), what)?;
    with_context(rustix::process::chdir("/"), what)
}

/// Mounts a folder onto itself, so that it cannot be moved or removed.
fn mount_in_place(path: &Path) -> SetupResult<OwnedFd> {
    let tree = tree(path)?;
    attach(&tree, path)?;
    Ok(tree)
}

/// Returns the mounts at and below a path as a detached tree, which does not change any more.
fn tree(path: &Path) -> SetupResult<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    with_context(rustix::mount::open_tree(CWD, path, flags), format_args!("cannot take {}", path.display()))
}

/// Mounts a tree at a path, which is created if it is missing. Fails if the path leads through a link: a command may
/// have made the link in a folder that it shares.
fn attach(tree: &OwnedFd, path: &Path) -> SetupResult<()> {
    let what = || format!("cannot put {} in its place", path.display());
    let is_folder = rustix::fs::fstat(tree).is_ok_and(|stat| is_folder(&stat));
    let made = create_in_folder(path, || {
        if is_folder {
            rustix::fs::mkdir(path, FOLDER_MODE.into())
        } else {
            rustix::fs::mknodat(CWD, path, FileType::RegularFile, COPY_MODE.into(), 0)
        }
    })?;
    // On a read-only file system only existing paths can be mount points.
    if !matches!(made, Err(Errno::EXIST | Errno::ROFS)) {
        with_context(made, what())?;
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    let place = place.map_err(|errno| format!("{}: {errno}", what()))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", &place, "", flags).map_err(|errno| format!("{}: {errno}", what()))
}

/// Creates a folder and the folders above it, unless it exists.
#[expect(clippy::disallowed_methods, reason = "a file system of its own, in which no command runs yet")]
fn make_folder(path: &Path) -> SetupResult<()> {
    with_context(fs::create_dir_all(path), format_args!("cannot make {}", path.display()))
}

/// Creates something at a path by `make`, and the folders above it if they are missing.
fn create_in_folder(path: &Path, make: impl Fn() -> Result<(), Errno>) -> SetupResult<Result<(), Errno>> {
    match (make(), path.parent()) {
        (Err(Errno::NOENT), Some(folder)) => {
            make_folder(folder)?;
            Ok(make())
        }
        (made, _) => Ok(made),
    }
}

/// Creates a link, unless its name is taken.
fn make_link(link: &Path, target: &OsStr) -> SetupResult<()> {
    let make = || rustix::fs::symlink(target, link);
    match create_in_folder(link, make)? {
        Err(errno) if errno != Errno::EXIST => Err(format!("cannot make {}: {errno}", link.display())),
        _ => Ok(()),
    }
}

/// Returns a read-only `/proc` of this process's PID namespace.
///
/// Containers mask parts of their `/proc`, and then the kernel forbids another one. In that case the command keeps the
/// container's: it sees the names of its processes, but the PID namespace blocks signals to them, and the user
/// namespace protects their memory, environment and files.
///
/// # Errors
/// Returns the OS error.
pub fn new_proc() -> SetupResult<ProcMount> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC
        | MountAttrFlags::MOUNT_ATTR_RDONLY;
    match proc_with(attributes) {
        Err(Errno::PERM) => Ok(None),
        made => with_context(made, "cannot mount a /proc of its own").map(Some),
    }
}

/// Returns a `/proc` of this process's PID namespace, with attributes of its mount.
fn proc_with(attributes: MountAttrFlags) -> Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&context)?;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Opens the bound of the processes and threads in this process's PID namespace: the kernel does not count those of root
/// by user. `None` before Linux 6.14, where the bound is that of the whole machine.
///
/// Once the root changes, the kernel may forbid another `/proc`, so it is opened before.
pub fn process_bound() -> Option<OwnedFd> {
    if !platform::kernel_is_at_least(6, 14) {
        return None;
    }
    let proc = proc_with(MountAttrFlags::empty()).ok()?;
    open_at(proc.as_fd(), OsStr::new("sys/kernel/pid_max"), OFlags::WRONLY | OFlags::CLOEXEC).ok()
}

/// Sets such a bound; 0 sets no bound. Where it cannot be set, the processes are counted.
pub fn bound_processes(bound: Option<OwnedFd>, most: u64) {
    /// Ids that the kernel does not give again (`RESERVED_PIDS` in `kernel/pid.c`).
    const RESERVED: u64 = 300;
    if let Some(file) = bound.filter(|_| most > 0) {
        let _ = rustix::io::write(file, most.saturating_add(RESERVED).to_string().as_bytes());
    }
}

/// Makes those of the mounts read-only that contain one of `paths`, and those below one.
fn make_all_read_only(points: &MountPoints, paths: &[&Path]) -> SetupResult<()> {
    for (id, point) in points {
        let is_one = paths.iter().any(|path| path.starts_with(point) || point.starts_with(path));
        if is_one && leads_to(point, *id)? {
            make_read_only(point)?;
        }
    }
    Ok(())
}

/// Returns true if a path leads to that mount, not to one on top of it or to nothing.
fn leads_to(path: &Path, id: u64) -> SetupResult<bool> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    match rustix::fs::statx(CWD, path, flags, StatxFlags::MNT_ID) {
        Ok(found) => Ok(found.stx_mnt_id == id),
        // An unreachable path is unreachable for the command as well.
        Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR | Errno::NOTCONN) => Ok(false),
        Err(errno) => Err(format!("cannot look at the mount {}: {errno}", path.display())),
    }
}

/// Makes the mount at a path read-only, and keeps its other restrictions.
pub(super) fn make_read_only(path: &Path) -> SetupResult<()> {
    remount_read_only(path, OWN)
}

/// Makes the mount at a path read-only, with more restrictions.
fn remount_read_only(path: &Path, more: MountFlags) -> SetupResult<()> {
    let what = format!("cannot make {} read-only", path.display());
    let flags = restrictions(path).map_err(|errno| format!("{what}: {errno}"))?;
    let flags = flags | more | MountFlags::RDONLY | MountFlags::BIND;
    with_context(rustix::mount::mount_remount(path, flags, c""), what)
}

/// Returns the restrictions of the mount at a path, which a sandbox may not lift.
fn restrictions(path: &Path) -> Result<MountFlags, Errno> {
    let known = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    let flags = rustix::fs::statvfs(path)?.f_flag;
    let kept = known.iter().filter(|(there, _)| flags.contains(*there)).map(|(_, kept)| *kept);
    Ok(kept.fold(MountFlags::empty(), MountFlags::union))
}

/// Mounts an empty file system of `bytes` bytes at a path.
fn mount_tmpfs(path: &Path, mode: u32, bytes: u64) -> SetupResult<()> {
    let options = CString::new(format!("mode={mode:o},size={bytes}")).unwrap_or_default();
    let options: &CStr = &options;
    let mounted = rustix::mount::mount("tmpfs", path, "tmpfs", OWN, options);
    with_context(mounted, format_args!("cannot mount an empty {}", path.display()))
}

/// Adds to `/dev` what every program expects besides devices.
fn make_dev() -> SetupResult<()> {
    let dev = Path::new("/dev");
    DEVICE_LINKS.iter().try_for_each(|(name, target)| make_link(&dev.join(name), OsStr::new(target)))?;
    ["pts", "shm"].iter().try_for_each(|name| make_folder(&dev.join(name)))?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = c"newinstance,ptmxmode=0666,mode=620";
    let terminals = rustix::mount::mount("devpts", dev.join("pts"), "devpts", flags, options);
    with_context(terminals, "cannot mount /dev/pts")?;
    mount_tmpfs(&dev.join("shm"), SHARED_MODE, TEMPORARY_BYTES)
}

/// Makes a path appear empty.
#[expect(
    clippy::disallowed_methods,
    reason = "a canonical path in a file system of its own, in which no command runs yet"
)]
fn hide(hidden: &HiddenPath) -> SetupResult<()> {
    let path = Path::new(&hidden.path);
    if fs::symlink_metadata(path).is_err() {
        // A folder above it is hidden, or it was removed.
        return Ok(());
    }
    if hidden.is_folder {
        mount_tmpfs(path, FOLDER_MODE, SMALL_BYTES)?;
    } else {
        let what = format_args!("cannot hide {}", path.display());
        with_context(rustix::mount::mount_bind("/dev/null", path), what)?;
    }
    make_read_only(path)
}

/// Opens a path below the root without following links; returns `None` if it does not exist any more.
fn open_below(root: &OwnedFd, path: &OsStr) -> SetupResult<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(root, path, flags, Mode::empty(), within) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(format!("cannot open {}: {errno}", path.display())),
    }
}

/// Returns the path of an opened file in the folder of this process's descriptors, which is its working directory.
fn path_of(opened: &OwnedFd) -> PathBuf {
    PathBuf::from(opened.as_raw_fd().to_string())
}

/// Mounts a path below the root onto itself, even a link, so that nobody can move or remove it; returns `None` if it
/// was removed.
fn bind_onto_itself(root: &OwnedFd, path: &OsStr) -> SetupResult<Option<OwnedFd>> {
    let Some(found) = open_below(root, path)? else { return Ok(None) };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    let what = format!("cannot protect {}", path.display());
    let tree = with_context(rustix::mount::open_tree(&found, "", flags), &what)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    with_context(rustix::mount::move_mount(&tree, "", &found, "", flags), &what)?;
    Ok(Some(tree))
}

/// Mounts an empty folder over one of lbx's own, with copies of the files that git may track.
fn veil(root: &OwnedFd, path: &OsString) -> SetupResult<()> {
    let Some(found) = open_below(root, path)? else { return Ok(()) };
    let read = |name: &str| read_at(found.as_fd(), OsStr::new(name), STATE_FILE_BYTES_MAX).ok().flatten();
    let shown = STATE_SHOWN.map(|name| (name, read(name)));
    mount_tmpfs(&path_of(&found), FOLDER_MODE, SMALL_BYTES)?;
    // Open it again: the first descriptor leads below the mount.
    let Some(veil) = open_below(root, path)? else {
        return Err(format!("{} was moved away", path.display()));
    };
    for (name, bytes) in shown {
        if let Some(bytes) = bytes {
            let copied = create_at(veil.as_fd(), OsStr::new(name), COPY_MODE).map_err(Into::into);
            let copied = copied.and_then(|file| write_all(&file, &bytes));
            with_context(copied, format_args!("cannot copy {name}"))?;
        }
    }
    make_read_only(&path_of(&veil))
}
