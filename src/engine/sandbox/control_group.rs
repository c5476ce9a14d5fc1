//! A control group (version 2, see cgroups(7)) that bounds the memory of all processes of a command together.
//!
//! To put a process into a group takes the kernel some ten milliseconds, since it waits until no other process is on
//! its way into one. Most commands end sooner, so the call makes the group only for a command that has run for a while,
//! and then moves its processes there. No command fills the memory of the machine before that.
//!
//! A folder of a control group belongs to a call as long as the call locks it. The next call that makes a group removes
//! folders that nobody locks.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::engine::store::lock::{is_unique_with, unique_name};
use crate::engine::workspace::fs;
use crate::limits::{CONTROL_GROUP_FILE_BYTES_MAX, FOLDER_TRIES_MAX, KILL_PASSES_MAX, REMOVAL_TRIES_MAX};
use crate::platform::process::descendants;

/// Folders at which the groups are mounted: alone, or next to those of version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// File that names the group of this process.
const OWN: &str = "/proc/self/cgroup";
/// Prefix of its line for version 2.
const OWN_PREFIX: &str = "0::";
/// Kind of resource that a group bounds.
const MEMORY: &str = "memory";
/// Prefix of a group's name.
const PREFIX: &str = "lbx";
/// Time between two tries.
const NAP: Duration = Duration::from_millis(2);
/// Mode of the folder of a group.
const MODE: u32 = 0o755;

/// A group for the processes of one command; removed on drop.
#[derive(Debug)]
pub struct ControlGroup {
    /// Folder of the group above it.
    above: OwnedFd,
    /// Its name there.
    name: String,
    /// Its folder, which is locked.
    folder: OwnedFd,
}

impl ControlGroup {
    /// Makes a group of at most `bytes` of memory, and moves the descendants of a process there.
    ///
    /// # Errors
    /// Returns the reason why the system has no such group for this account.
    pub fn around(process: u32, bytes: u64) -> Result<Self, String> {
        let group = Self::make(bytes)?;
        let process = i32::try_from(process).unwrap_or_default();
        let mut moved: Vec<i32> = Vec::new();
        for _ in 0..KILL_PASSES_MAX {
            let new: Vec<i32> =
                descendants(Some(process)).into_iter().filter(|process| !moved.contains(process)).collect();
            if new.is_empty() {
                break;
            }
            // One that has ended meanwhile need not be moved.
            for process in &new {
                let _ = group.write("cgroup.procs", &process.to_string());
            }
            moved.extend(new);
        }
        Ok(group)
    }

    /// Makes a group of at most `bytes` of memory.
    ///
    /// # Errors
    /// Returns the reason why the system has no such group for this account.
    pub fn make(bytes: u64) -> Result<Self, String> {
        let mut reason = "no control group bounds memory here".to_owned();
        for above in groups_above().into_iter().filter(|above| has_memory(above.as_fd())) {
            remove_left(above.as_fd());
            let made = Self::make_in(above).and_then(|group| {
                group.write("memory.max", &bytes.to_string())?;
                // Not every kernel counts memory on disk.
                let _ = group.write("memory.swap.max", "0");
                Ok(group)
            });
            match made {
                Ok(group) => return Ok(group),
                Err(errno) => reason = format!("no control group can be made here ({errno})"),
            }
        }
        Err(reason)
    }

    /// Makes a group in another one, and locks it.
    fn make_in(above: OwnedFd) -> Result<Self, Errno> {
        for _ in 0..FOLDER_TRIES_MAX {
            let name = unique_name(PREFIX);
            rustix::fs::mkdirat(&above, &name, Mode::from_raw_mode(MODE))?;
            let folder = match fs::open_at(above.as_fd(), OsStr::new(&name), fs::FOLDER) {
                Err(Errno::NOENT) => continue,
                opened => opened?,
            };
            rustix::io::retry_on_intr(|| rustix::fs::flock(&folder, FlockOperation::LockExclusive))?;
            // Before the lock, another call may have taken it for that of a dead one.
            if fs::stat_at(above.as_fd(), OsStr::new(&name)).is_ok() {
                return Ok(Self { above, name, folder });
            }
        }
        Err(Errno::AGAIN)
    }

    /// Returns true if the kernel ended a process of the group for want of memory.
    pub fn was_full(&self) -> bool {
        let events = read(self.folder.as_fd(), "memory.events");
        let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.parse::<u64>().ok()).is_some_and(|count| count > 0)
    }

    /// Writes a word into a file of the group.
    fn write(&self, file: &str, word: &str) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.folder, file, flags, Mode::empty())?);
        rustix::io::write(&file, word.as_bytes()).map(drop)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        for _ in 0..REMOVAL_TRIES_MAX {
            match fs::unlink_at(&self.above, &self.name, AtFlags::REMOVEDIR) {
                Err(Errno::BUSY) => std::thread::sleep(NAP),
                // A later call removes what is left.
                _ => return,
            }
        }
    }
}

/// Returns the folders of this process's group and of the groups above it, innermost first.
fn groups_above() -> Vec<OwnedFd> {
    let own = read(CWD, OWN);
    let Some(path) = own.lines().find_map(|line| line.strip_prefix(OWN_PREFIX)) else { return Vec::new() };
    let path = Path::new(path.trim_start_matches('/'));
    // A group outside of those that this process sees.
    if path.components().any(|part| part == Component::ParentDir) {
        return Vec::new();
    }
    let mount = MOUNTS.iter().find(|mount| {
        let place = PathBuf::from(mount).join("cgroup.controllers");
        rustix::fs::stat(&place).is_ok()
    });
    let Some(mount) = mount.map(Path::new) else { return Vec::new() };
    let opened = |path: &Path| fs::open_at(CWD, mount.join(path).as_os_str(), fs::FOLDER).ok();
    path.ancestors().filter_map(opened).collect()
}

/// Returns true if the groups in a group bound memory.
fn has_memory(group: BorrowedFd<'_>) -> bool {
    read(group, "cgroup.subtree_control").split_whitespace().any(|kind| kind == MEMORY)
}

/// Removes the groups of calls that were killed.
fn remove_left(above: BorrowedFd<'_>) {
    let Ok(listed) = fs::open_at(above, OsStr::new("."), fs::FOLDER) else { return };
    for name in fs::names_in(&listed).unwrap_or_default() {
        let is_own = name.to_str().is_some_and(|name| is_unique_with(PREFIX, name));
        let opened = is_own.then(|| fs::open_at(above, &name, fs::FOLDER).ok());
        let Some(folder) = opened.flatten() else { continue };
        if rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // It has processes if the call was killed a moment ago.
            let _ = fs::unlink_at(above, &name, AtFlags::REMOVEDIR);
        }
    }
}

/// Returns the text of a file of the kernel; empty if it cannot be read.
fn read(folder: BorrowedFd<'_>, file: &str) -> String {
    let bytes = fs::read_or_empty(folder, OsStr::new(file), CONTROL_GROUP_FILE_BYTES_MAX);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_of_lbx_are_removed() {
        assert!(is_unique_with(PREFIX, &unique_name(PREFIX)));
        for name in ["lbx", "lbx-", "lbx-1-2-3", "lbxd-0123456789ab-1-2", "user.slice"] {
            assert!(!is_unique_with(PREFIX, name), "{name}");
        }
    }

    #[test]
    fn new_group_is_not_removed_as_that_of_a_dead_call() {
        let above = tempfile::tempdir().unwrap();
        let open = || fs::open_at(CWD, above.path().as_os_str(), fs::FOLDER).unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    remove_left(open().as_fd());
                }
            });
            let stays = |group: ControlGroup| above.path().join(&group.name).exists();
            let gone = (0..5_000).filter(|_| !ControlGroup::make_in(open()).is_ok_and(stays)).count();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(gone, 0);
        });
    }
}
