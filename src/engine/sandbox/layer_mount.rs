//! Mounts a layer: an overlayfs over a folder, in the user namespace of the sandbox.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::backend::{SetupResult, with_context};
use super::plan::Layer;
use crate::engine::store::sandboxes::ForkPlace;

/// Mounts of a namespace: id and mount point of each.
pub(super) type MountPoints = Vec<(u64, PathBuf)>;

/// Mounts `layer` over the folder `root`, which must hold none of the `points`; the mount is still detached.
///
/// # Errors
/// Returns the reason.
pub(super) fn mount(root: &Path, layer: &Layer, points: &MountPoints) -> SetupResult<OwnedFd> {
    if let Some(inner) = inner_mount(root, points) {
        return Err(format!("{} is a mount point, which a layer does not cover", inner.display()));
    }
    mount_over(root, layer)
}

/// Mounts `layer` over the folder `root`, even if it holds other mounts; the mount is still detached.
///
/// # Errors
/// Returns the reason.
pub(super) fn mount_over(root: &Path, layer: &Layer) -> SetupResult<OwnedFd> {
    let folders = OverlayFolders {
        lower: vec![open_place(root)?],
        upper: open_place(Path::new(&layer.upper))?,
        work: open_place(Path::new(&layer.work))?,
    };
    // The layer is read right after the command and never mounted again, so it need not reach the disk. Linux before
    // 5.10 does not know the option.
    let mut mounted = Err(String::new());
    for flags in [&["userxattr", "volatile"][..], &["userxattr"]] {
        mounted = mounted.or_else(|_| create(&folders, "overlay", flags));
    }
    mounted
}

/// Mounts a fork over its workspace; the mount is still detached.
///
/// # Errors
/// Returns the reason.
pub(super) fn mount_fork(place: &ForkPlace) -> SetupResult<OwnedFd> {
    let root = Path::new(&place.root);
    if let Some(inner) = inner_mount(root, &mount_points()?) {
        return Err(format!("{} is a mount point, which a fork does not cover", inner.display()));
    }
    let folders = OverlayFolders {
        lower: vec![open_place(Path::new(&place.lower))?, open_place(root)?],
        upper: open_place(Path::new(&place.upper))?,
        work: open_place(Path::new(&place.work))?,
    };
    create(&folders, &place.label, &["userxattr"])
}

/// Names that overlayfs makes without permissions in its own folder, outermost first. They outlive the mount, and `rm -rf` of
/// the workspace would fail over them.
const CLOSED: [&str; 4] = ["work", "work/incompat", "work/incompat/volatile", "work/incompat/volatile/dirty"];

/// The folders of an overlayfs.
struct OverlayFolders {
    /// Folders to read, topmost first.
    lower: Vec<OwnedFd>,
    /// Folder that takes the changes.
    upper: OwnedFd,
    /// Folder that overlayfs uses for itself.
    work: OwnedFd,
}

/// Returns a mount point below a folder, if there is one.
pub(super) fn inner_mount<'p>(root: &Path, points: &'p MountPoints) -> Option<&'p Path> {
    let mut points = points.iter().map(|(_, point)| point.as_path());
    points.find(|point| *point != root && point.starts_with(root))
}

/// Returns the mounts of this namespace.
#[expect(clippy::disallowed_methods, reason = "/proc")]
pub(super) fn mount_points() -> SetupResult<MountPoints> {
    let mounts = with_context(std::fs::read("/proc/self/mountinfo"), "cannot list the mounts")?;
    let parsed = mounts.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(|line| {
        let mut fields = line.split(|&byte| byte == b' ');
        let id = fields.next().and_then(|id| std::str::from_utf8(id).ok()?.parse::<u64>().ok());
        let (id, point) = id.zip(fields.nth(3))?;
        Some((id, PathBuf::from(OsStr::from_bytes(&unescaped(point)))))
    });
    parsed.collect::<Option<_>>().ok_or_else(|| "the list of mounts has an unknown form".to_owned())
}

/// Decodes the escapes of a path in the list of mounts.
pub(super) fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let escape = tail
            .get(..3)
            .filter(|_| byte == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        path.push(escape.unwrap_or(byte));
        rest = if escape.is_some() { tail.get(3..).unwrap_or_default() } else { tail };
    }
    path
}

/// Opens a folder, so that its path for the kernel has no characters that options reserve.
fn open_place(folder: &Path) -> SetupResult<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty());
    with_context(opened, format_args!("cannot open {}", folder.display()))
}

/// Creates the file system of these folders; the list of mounts shows `source`.
fn create(folders: &OverlayFolders, source: &str, flags: &[&str]) -> SetupResult<OwnedFd> {
    let what = "overlayfs cannot be mounted in a user namespace here";
    let context = with_context(rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC), what)?;
    with_context(rustix::mount::fsconfig_set_string(&context, "source", source), what)?;
    let path = |folder: &OwnedFd| format!("/proc/self/fd/{}", folder.as_raw_fd());
    let lower = folders.lower.iter().map(path).collect::<Vec<_>>().join(":");
    for (key, path) in
        [("lowerdir", lower), ("upperdir", path(&folders.upper)), ("workdir", path(&folders.work))]
    {
        with_context(
            rustix::mount::fsconfig_set_string(&context, key, OsStr::from_bytes(path.as_bytes())),
            what,
        )?;
    }
    for flag in flags {
        with_context(rustix::mount::fsconfig_set_flag(&context, *flag), what)?;
    }
    with_context(rustix::mount::fsconfig_create(&context), what)?;
    for closed in CLOSED {
        // Best effort: only what removes or copies the workspace needs it.
        let _ = rustix::fs::chmodat(&folders.work, closed, Mode::RWXU, AtFlags::empty());
    }
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    with_context(rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes), what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_table_escapes_are_decoded() {
        for (field, path) in [
            ("/a\\040b", "/a b"),
            ("/x\\134y", "/x\\y"),
            ("/a\\0", "/a\\0"),
            ("/\\011\\012", "/\t\n"),
            ("", ""),
        ] {
            assert_eq!(unescaped(field.as_bytes()), path.as_bytes(), "{field}");
        }
    }
}
