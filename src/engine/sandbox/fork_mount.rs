//! The way into a fork: a mount namespace of its own, in which the fork covers the workspace.
//!
//! The process itself enters, and then becomes the program. It is not confined: it can reach what its user can, except
//! for the files below the fork.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use rustix::fs::CWD;
use rustix::mount::{MountPropagationFlags, MoveMountFlags};
use rustix::thread::CapabilitySet;

use super::backend::{SetupResult, with_context};
use super::{layer_mount, mounts, privileges};
use crate::engine::store::sandboxes::{ENTER_FORK, ForkPlace};
use crate::engine::workspace::programs;

/// Files and folders of git's own state that a program in a fork must not change, below `.git`. Its objects and other
/// references are the fork's own.
const READ_ONLY: [&str; 4] = ["HEAD", "config", "hooks", "packed-refs"];

/// Exit status if the program could not be started.
const FAILED: u8 = 125;

/// Enters a fork and becomes the program that follows the words of [`ForkPlace::words`] in the arguments; prints the reason
/// if that fails, and returns the exit status. `None` for other arguments.
pub fn run_internal(arguments: &[OsString]) -> Option<u8> {
    let (place, program) = match arguments {
        [_, word, place, program @ ..] if word == ENTER_FORK => (place, program),
        _ => return None,
    };
    let place = serde_json::from_slice::<ForkPlace>(place.as_bytes()).map_err(|error| error.to_string());
    let entered = place.and_then(|place| {
        enter(&place)?;
        if place.is_for_program {
            protect(Path::new(&place.root))?;
            privileges::drop_for_program()?;
        }
        Ok(())
    });
    let reason = match (entered, program.split_first()) {
        (Ok(()), Some((first, rest))) => {
            let error = programs::exec(Command::new(first).args(rest));
            format!("{}: {error}", Path::new(first).display())
        }
        (Ok(()), None) => "no program is named".to_owned(),
        (Err(reason), _) => reason,
    };
    let _ = writeln!(std::io::stderr(), "lbx: the fork cannot be entered: {reason}");
    Some(FAILED)
}

/// Puts this process, which has one thread, into a fork.
fn enter(place: &ForkPlace) -> SetupResult<()> {
    let root = Path::new(&place.root);
    let folder = std::env::current_dir().ok();
    let new = CloneFlags::CLONE_NEWNS;
    // Root with all its power needs no user namespace, in which files of other users would be nobody's.
    let power = CapabilitySet::SYS_ADMIN | CapabilitySet::DAC_OVERRIDE;
    let is_mighty = rustix::thread::capabilities(None).is_ok_and(|ours| ours.effective.contains(power));
    if !is_mighty || unshare(new).is_err() {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        with_context(
            unshare(new | CloneFlags::CLONE_NEWUSER),
            "the system does not let a user namespace be made",
        )?;
        map_ids(uid, gid)?;
    }
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    with_context(rustix::mount::mount_change("/", private), "cannot part the mounts")?;
    let layer = layer_mount::mount_fork(place)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    with_context(
        rustix::mount::move_mount(&layer, "", CWD, root, flags),
        "cannot put the fork over the workspace",
    )?;
    // The folder under the mount is that of the workspace.
    let inside = folder.filter(|folder| folder.starts_with(root)).unwrap_or_else(|| PathBuf::from("."));
    with_context(rustix::process::chdir(&inside), "cannot enter the fork")
}

/// Gives this process, which has left the user namespace of its ids, the same ids in its own.
#[expect(clippy::disallowed_methods, reason = "/proc")]
fn map_ids(uid: u32, gid: u32) -> SetupResult<()> {
    let write = |name: &str, text: String| {
        with_context(std::fs::write(format!("/proc/self/{name}"), text), format_args!("cannot write {name}"))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{uid} {uid} 1\n"))?;
    write("gid_map", format!("{gid} {gid} 1\n"))
}

/// Makes git's history in a fork read-only.
fn protect(root: &Path) -> SetupResult<()> {
    let git = root.join(".git");
    let branch = head_reference(&git);
    for path in READ_ONLY.iter().map(PathBuf::from).chain(branch).map(|path| git.join(path)) {
        if rustix::fs::lstat(&path).is_ok() {
            with_context(rustix::mount::mount_bind(&path, &path), "cannot protect git's history")?;
            mounts::make_read_only(&path)?;
        }
    }
    Ok(())
}

/// Returns the file of the branch that HEAD names.
#[expect(clippy::disallowed_methods, reason = "a file of git in the fork, read as the program would")]
fn head_reference(git: &Path) -> Option<PathBuf> {
    let head = std::fs::read_to_string(git.join("HEAD")).ok()?;
    let name = head.strip_prefix("ref: ")?.trim_end();
    (name.starts_with("refs/") && !name.split('/').any(|part| part == "..")).then(|| PathBuf::from(name))
}
