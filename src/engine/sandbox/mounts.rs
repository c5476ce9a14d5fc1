//! The file system as a confined command sees it, put together in a mount namespace of its own.
//!
//! Everything is read-only first. Then come an empty `/tmp`, `/run` and `/dev`, the workspace and
//! the other writable folders on top, and on top of those what is hidden or protected. Folders that
//! stay writable are taken as trees of their own before everything becomes read-only.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatVfsMountFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags};

use super::mount_list::mount_points;
use super::overlay;
use super::plan::{Hidden, Reach};
use super::setup::{SetupResult, doing};
use crate::engine::workspace::fs::{create_at, is_folder, read_at, write_all};

/// Devices that a command has.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Links in `/dev`, with what they lead to.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];
/// Folders that are empty and writable.
pub const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
/// Folders that are empty, since the sockets of the system's services are there.
const RUNTIME: [&str; 2] = ["/run", "/var/run"];
/// What a command needs of them all the same.
pub const RUNTIME_KEPT: [&str; 4] =
    ["/run/current-system", "/run/opengl-driver", "/run/booted-system", "/run/systemd/resolve"];
/// What of `/proc` changes or tells of the whole machine.
const PROC_READ_ONLY: [&str; 6] = ["sys", "sysrq-trigger", "irq", "bus", "fs", "acpi"];
/// Permissions of folders that everyone may write.
const SHARED_MODE: u32 = 0o1777;
/// Permissions of other folders.
const FOLDER_MODE: u32 = 0o755;
/// The permissions of a copy of what git may track.
const COPY_MODE: u32 = 0o644;
/// What of lbx's own folder is seen: git may track it.
pub const STATE_SHOWN: [&str; 2] = [".gitignore", "config.toml"];
/// Bytes of such a file.
const STATE_FILE_BYTES_MAX: u64 = 1 << 20;
/// Flags of what a sandbox mounts itself.
const OWN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Gives this mount namespace its form. The caller is in a new one, and in a new PID namespace.
///
/// # Errors
/// The step that failed; nothing may run then.
pub fn confine(reach: &Reach) -> SetupResult<()> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    doing(rustix::mount::mount_change("/", private), "cannot part the mounts")?;
    let writable: Vec<(PathBuf, OwnedFd)> = reach
        .writable_folders()
        .map(|path| match &reach.layer {
            Some(layer) if path.as_os_str() == reach.root => {
                Ok((path.clone(), overlay::mount(&path, layer)?))
            }
            _ => Ok((path.clone(), tree(&path)?)),
        })
        .collect::<SetupResult<_>>()?;
    let devices: Vec<(&str, OwnedFd)> =
        DEVICES.iter().filter_map(|name| Some((*name, tree(&Path::new("/dev").join(name)).ok()?))).collect();
    let temporary: Vec<(&str, OwnedFd)> = match &reach.temporary {
        Some(folder) => {
            let taken = TEMPORARY.iter().map(|path| Ok((*path, tree(Path::new(folder))?)));
            taken.collect::<SetupResult<_>>()?
        }
        None => Vec::new(),
    };
    make_all_read_only(mount_proc()?)?;
    // Taken now, it is read-only with all that is mounted in it.
    let root = reach.read_only.then(|| tree(Path::new(&reach.root))).transpose()?;
    let kept: Vec<(&str, OwnedFd)> =
        RUNTIME_KEPT.iter().filter_map(|path| Some((*path, tree(Path::new(path)).ok()?))).collect();
    mount_temporary(&temporary)?;
    for (path, kept) in kept {
        attach(&kept, Path::new(path))?;
    }
    make_devices(devices)?;
    let (above, others): (Vec<&Hidden>, Vec<&Hidden>) =
        reach.hidden.iter().partition(|hidden| reach.is_above_own(Path::new(&hidden.path)));
    for hidden in above {
        mount_tmpfs(Path::new(&hidden.path), FOLDER_MODE)?;
    }
    if let Some(tree) = &root {
        attach(tree, Path::new(&reach.root))?;
    }
    for (path, tree) in &writable {
        attach(tree, path)?;
    }
    reach.pinned.iter().try_for_each(|path| mount_in_place(Path::new(path)).map(drop))?;
    for path in &reach.settled {
        make_read_only(&path_of(&mount_in_place(Path::new(path))?))?;
    }
    others.into_iter().try_for_each(hide)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = doing(rustix::fs::open(&reach.root, flags, Mode::empty()), "cannot open the workspace")?;
    for path in reach.folders_above_protected()? {
        bind_onto_itself(&root, path.as_os_str())?;
    }
    for path in &reach.protected {
        if let Some(tree) = bind_onto_itself(&root, path)? {
            make_read_only(&path_of(&tree))?;
        }
    }
    reach.states.iter().try_for_each(|path| veil(&root, path))
}

/// Mounts a folder onto itself: it cannot be moved or removed then.
fn mount_in_place(path: &Path) -> SetupResult<OwnedFd> {
    let tree = tree(path)?;
    attach(&tree, path)?;
    Ok(tree)
}

/// The mounts at and below a path as a tree of their own, which stays as it is now.
fn tree(path: &Path) -> SetupResult<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    doing(rustix::mount::open_tree(CWD, path, flags), format_args!("cannot take {}", path.display()))
}

/// Puts a tree at a path, which is made where it is missing.
#[expect(clippy::disallowed_methods, reason = "a file system of its own, in which no command runs yet")]
fn attach(tree: &OwnedFd, path: &Path) -> SetupResult<()> {
    let what = format!("cannot put {} in its place", path.display());
    if rustix::fs::stat(path).is_err() {
        if rustix::fs::fstat(tree).is_ok_and(|stat| is_folder(&stat)) {
            doing(fs::create_dir_all(path), &what)?;
        } else {
            doing(path.parent().map_or(Ok(()), fs::create_dir_all), &what)?;
            doing(fs::File::create(path), &what)?;
        }
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    doing(rustix::mount::move_mount(tree, "", CWD, path, flags), what)
}

/// A `/proc` of the new PID namespace, in which nothing of the machine can be changed.
///
/// Containers mask parts of theirs, and the kernel then lets nobody mount another one. There the command
/// keeps the container's: it sees the names of the processes there, but the PID namespace keeps its signals
/// from them, and the user namespace their memory, environment and files.
#[expect(clippy::disallowed_methods, reason = "/proc")]
fn mount_proc() -> SetupResult<Proc> {
    let flags = OWN | MountFlags::NOEXEC;
    match rustix::mount::mount("proc", "/proc", "proc", flags, None) {
        Err(Errno::PERM) => return Ok(Proc::OfContainer),
        mounted => doing(mounted, "cannot mount a /proc of its own")?,
    }
    for name in PROC_READ_ONLY {
        let path = Path::new("/proc").join(name);
        if path.exists() {
            let what = format!("cannot protect {}", path.display());
            doing(rustix::mount::mount_bind_recursive(&path, &path), what)?;
        }
    }
    Ok(Proc::Own)
}

/// Whose `/proc` a command has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proc {
    /// That of its own PID namespace.
    Own,
    /// That of the container in which lbx runs.
    OfContainer,
}

/// Makes every mount that a path leads to read-only, save for a `/proc` of its own.
fn make_all_read_only(proc: Proc) -> SetupResult<()> {
    for (id, path) in mount_points()? {
        let is_own_proc = proc == Proc::Own && path.as_os_str() == "/proc";
        if !is_own_proc && leads_to(&path, id)? {
            make_read_only(&path)?;
        }
    }
    Ok(())
}

/// Whether a path leads to that mount, rather than to one on top of it or to nothing.
fn leads_to(path: &Path, id: u64) -> SetupResult<bool> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    match rustix::fs::statx(CWD, path, flags, StatxFlags::MNT_ID) {
        Ok(found) => Ok(found.stx_mnt_id == id),
        // What cannot be reached now cannot be reached by the command either.
        Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR | Errno::NOTCONN) => Ok(false),
        Err(errno) => Err(format!("cannot look at the mount {}: {errno}", path.display())),
    }
}

/// Makes the mount at a path read-only, keeping its other restrictions.
fn make_read_only(path: &Path) -> SetupResult<()> {
    let what = format!("cannot make {} read-only", path.display());
    let flags = restrictions(path).map_err(|errno| format!("{what}: {errno}"))?;
    let flags = flags | OWN | MountFlags::RDONLY | MountFlags::BIND;
    doing(rustix::mount::mount_remount(path, flags, c""), what)
}

/// The restrictions of the mount at a path, which a sandbox may not lift.
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

/// An empty file system at a path.
fn mount_tmpfs(path: &Path, mode: u32) -> SetupResult<()> {
    let options = CString::new(format!("mode={mode:o}")).unwrap_or_default();
    let options: &CStr = &options;
    let mounted = rustix::mount::mount("tmpfs", path, "tmpfs", OWN, options);
    doing(mounted, format_args!("cannot mount an empty {}", path.display()))
}

/// Folders for temporary files, shared or empty, and empty ones in the place of those of the system's services.
#[expect(clippy::disallowed_methods, reason = "folders of the system, by fixed names")]
fn mount_temporary(shared: &[(&str, OwnedFd)]) -> SetupResult<()> {
    let is_folder = |path: &&&str| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    for path in TEMPORARY.iter().filter(is_folder) {
        match shared.iter().find(|(place, _)| place == path) {
            Some((_, tree)) => attach(tree, Path::new(path))?,
            None => mount_tmpfs(Path::new(path), SHARED_MODE)?,
        }
    }
    for path in RUNTIME.iter().filter(is_folder) {
        mount_tmpfs(Path::new(path), FOLDER_MODE)?;
    }
    Ok(())
}

/// A `/dev` with the devices that every program expects.
#[expect(clippy::disallowed_methods, reason = "the empty /dev that it has just mounted")]
fn make_devices(devices: Vec<(&str, OwnedFd)>) -> SetupResult<()> {
    let dev = Path::new("/dev");
    mount_tmpfs(dev, FOLDER_MODE)?;
    for (name, device) in devices {
        attach(&device, &dev.join(name))?;
    }
    for (name, target) in DEVICE_LINKS {
        doing(std::os::unix::fs::symlink(target, dev.join(name)), format_args!("cannot make /dev/{name}"))?;
    }
    for name in ["pts", "shm"] {
        doing(fs::create_dir(dev.join(name)), format_args!("cannot make /dev/{name}"))?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = c"newinstance,ptmxmode=0666,mode=620";
    let terminals = rustix::mount::mount("devpts", dev.join("pts"), "devpts", flags, options);
    doing(terminals, "cannot mount /dev/pts")?;
    mount_tmpfs(&dev.join("shm"), SHARED_MODE)?;
    make_read_only(dev)
}

/// Makes a path appear empty.
#[expect(
    clippy::disallowed_methods,
    reason = "a canonical path in a file system of its own, in which no command runs yet"
)]
fn hide(hidden: &Hidden) -> SetupResult<()> {
    let path = Path::new(&hidden.path);
    match fs::symlink_metadata(path) {
        // Something above it is hidden, or it is gone.
        Err(_) => Ok(()),
        Ok(_) if hidden.is_folder => {
            mount_tmpfs(path, FOLDER_MODE)?;
            make_read_only(path)
        }
        Ok(_) => {
            let what = format!("cannot hide {}", path.display());
            doing(rustix::mount::mount_bind("/dev/null", path), &what)?;
            make_read_only(path)
        }
    }
}

/// Opens a path below the root, through no link; `None` where it is not there any more.
fn open_below(root: &OwnedFd, path: &OsStr) -> SetupResult<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(root, path, flags, Mode::empty(), within) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(format!("cannot open {}: {errno}", path.display())),
    }
}

/// The path by which this process reaches what it has opened.
fn path_of(opened: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// Mounts a path below the root onto itself, a link too, so that nobody can move or remove it; `None` where it
/// is gone.
fn bind_onto_itself(root: &OwnedFd, path: &OsStr) -> SetupResult<Option<OwnedFd>> {
    let Some(found) = open_below(root, path)? else { return Ok(None) };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    let what = format!("cannot protect {}", path.display());
    let tree = doing(rustix::mount::open_tree(&found, "", flags), &what)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    doing(rustix::mount::move_mount(&tree, "", &found, "", flags), &what)?;
    Ok(Some(tree))
}

/// Puts an empty folder in the place of one of lbx's own, with copies of what git may track of it.
fn veil(root: &OwnedFd, path: &OsString) -> SetupResult<()> {
    let Some(found) = open_below(root, path)? else { return Ok(()) };
    let shown = STATE_SHOWN.map(|name| (name, small_file(&found, name)));
    mount_tmpfs(&path_of(&found), FOLDER_MODE)?;
    // Opened anew: what was opened before is what lies below.
    let Some(veil) = open_below(root, path)? else {
        return Err(format!("{} was moved away", path.display()));
    };
    for (name, bytes) in shown {
        if let Some(bytes) = bytes {
            let copied = create_at(veil.as_fd(), OsStr::new(name), COPY_MODE).map_err(Into::into);
            let copied = copied.and_then(|file| write_all(&file, &bytes));
            doing(copied, format_args!("cannot copy {name}"))?;
        }
    }
    make_read_only(&path_of(&veil))
}

/// The bytes of a small regular file in an opened folder.
fn small_file(folder: &OwnedFd, name: &str) -> Option<Vec<u8>> {
    read_at(folder.as_fd(), OsStr::new(name), STATE_FILE_BYTES_MAX).ok().flatten()
}
