//! The way into a fork: a mount namespace of its own, in which the fork covers the workspace.
//!
//! The process itself enters, and then becomes the program. It is not confined: it can reach what its user can, except
//! for the files below the fork.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sched::{CloneFlags, setns, unshare};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::mount::{MountPropagationFlags, MoveMountFlags};
use rustix::thread::CapabilitySet;

use super::backend::{SetupResult, with_context};
use super::{layer_mount, mounts, namespaces, privileges};
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
        let lock = enter(&place)?;
        if place.is_for_program {
            protect(Path::new(&place.root))?;
            privileges::drop_for_program()?;
        }
        Ok(lock)
    });
    let reason = match (entered, program.split_first()) {
        (Ok(_lock), Some((first, rest))) => {
            let error = programs::exec(Command::new(first).args(rest));
            format!("{}: {error}", Path::new(first).display())
        }
        (Ok(_), None) => "no program is named".to_owned(),
        (Err(reason), _) => reason,
    };
    let _ = writeln!(std::io::stderr(), "lbx: the fork cannot be entered: {reason}");
    Some(FAILED)
}

/// Puts this process, which has one thread, into a fork: into the mounts of a process that is in it, or into new ones.
/// Two mounts of one fork would spoil each other, so calls take turns here: until the process has become its program, and
/// others find it, it holds the lock that is returned.
fn enter(place: &ForkPlace) -> SetupResult<OwnedFd> {
    let folder = std::env::current_dir().ok();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let work = with_context(rustix::fs::open(&place.work, flags, Mode::empty()), "cannot open the fork")?;
    let locked = rustix::io::retry_on_intr(|| rustix::fs::flock(&work, FlockOperation::LockExclusive));
    with_context(locked, "cannot lock the fork")?;
    if !is_inside(place, "self") && !join(place)? {
        mount(place)?;
    }
    // The folder under the mount is that of the workspace.
    let inside = folder.unwrap_or_else(|| PathBuf::from(&place.root));
    with_context(rustix::process::chdir(&inside), "cannot enter the fork").map(|()| work)
}

/// Puts this process into new mounts, with the fork over the workspace.
fn mount(place: &ForkPlace) -> SetupResult<()> {
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
        // It has left the user namespace of its ids.
        namespaces::map_own_ids("/proc/self", (uid, gid), false)?;
    }
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    with_context(rustix::mount::mount_change("/", private), "cannot part the mounts")?;
    let layer = layer_mount::mount_fork(place)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    with_context(
        rustix::mount::move_mount(&layer, "", CWD, Path::new(&place.root), flags),
        "cannot put the fork over the workspace",
    )
}

/// Puts this process into the mounts of another that is in the fork; returns false if nobody is in it.
#[expect(clippy::disallowed_methods, reason = "/proc")]
fn join(place: &ForkPlace) -> SetupResult<bool> {
    let processes = with_context(std::fs::read_dir("/proc"), "cannot list the processes")?;
    let names = processes.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    for process in names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
        if !is_inside(place, &process) {
            continue;
        }
        let namespace = |name: &str| File::open(format!("/proc/{process}/ns/{name}"));
        // It may just have ended.
        let (Ok(user), Ok(mounts)) = (namespace("user"), namespace("mnt")) else { continue };
        let id = |name: &str| std::fs::read_link(name).ok();
        if id("/proc/self/ns/user") != id(&format!("/proc/{process}/ns/user")) {
            with_context(setns(user, CloneFlags::CLONE_NEWUSER), "cannot join a process in the fork")?;
        }
        with_context(setns(mounts, CloneFlags::CLONE_NEWNS), "cannot join a process in the fork")?;
        return Ok(true);
    }
    Ok(false)
}

/// Returns true if a process sees the fork over the workspace, and around it the system as this one does: not the empty
/// root of a confined command.
#[expect(clippy::disallowed_methods, reason = "/proc")]
fn is_inside(place: &ForkPlace, process: &str) -> bool {
    let mount_at = |mounts: &[u8], point: &str, source: &str| {
        mounts.split(|&byte| byte == b'\n').find_map(|line| {
            let line = std::str::from_utf8(line).ok()?;
            let fields: Vec<&str> = line.split(' ').collect();
            let is_it = layer_mount::unescaped(fields.get(4)?.as_bytes()) == point.as_bytes()
                && (source.is_empty() || fields.contains(&source));
            is_it.then(|| fields.get(2).map(|device| (*device).to_owned())).flatten()
        })
    };
    let read = |process: &str| std::fs::read(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    let theirs = read(process);
    mount_at(&theirs, &place.root, &place.label).is_some()
        && mount_at(&theirs, "/", "") == mount_at(&read("self"), "/", "")
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
