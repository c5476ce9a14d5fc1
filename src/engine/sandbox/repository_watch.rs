//! A watch for repositories that appear while a job runs.
//!
//! The mounts of a sandbox are those of its start: a job of an hour could write into a repository that the
//! developer clones meanwhile. The kernel offers no rule "no `.git` below here" to an ordinary user, so this
//! watch narrows the gap instead of closing it: inotify reports the new name, and the job is killed. A job
//! that waits for that moment still has a few milliseconds.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;

use crate::control::Control;
use crate::engine::store::state::STATE_FOLDER;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::repository::{PARTS, is_repository};
use crate::engine::workspace::survey::names_of;
use crate::engine::workspace::{Workspace, fs, protect};

/// Folders that are watched at most; the kernel's own bound may be lower.
const FOLDERS_MAX: usize = 200_000;
/// Bytes of events taken at once.
const EVENTS_BYTES: usize = 64 * 1024;
/// Milliseconds between two looks at whether the job has ended.
const LOOK_INTERVAL_MS: i64 = 50;

/// A watch over all folders of a workspace; dropped, it ends.
#[derive(Debug)]
pub struct RepositoryWatch {
    /// Ends the thread.
    end: Control,
    /// Receives the folder in which a repository appeared.
    found: Receiver<WorkspacePath>,
    /// True if there are more folders than can be watched.
    is_partial: bool,
}

impl RepositoryWatch {
    /// Watches a workspace in which only the marks `known` are there; cancels `kill` when another appears.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn begin(
        workspace: &Workspace,
        known: impl Iterator<Item = WorkspacePath>,
        kill: Control,
    ) -> Result<Self, Errno> {
        let inotify = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let root = workspace.root_fd().try_clone_to_owned().map_err(|_| Errno::MFILE)?;
        let folders = HashMap::new();
        let mut watcher =
            Watcher { inotify, root, known: known.collect(), folders, found: None, is_partial: false };
        watcher.enter(WorkspacePath::root());
        let is_partial = watcher.is_partial;
        let (end, (sender, found)) = (Control::default(), channel());
        let ended = end.clone();
        thread::spawn(move || {
            while watcher.found.is_none() && !ended.is_cancelled() {
                watcher.wait();
                watcher.read();
            }
            if let Some(folder) = watcher.found {
                // Nobody may wait for it any more.
                let _ = sender.send(folder);
                kill.cancel();
            }
        });
        Ok(Self { end, found, is_partial })
    }

    /// The folder in which a repository appeared.
    #[must_use]
    pub fn found(&self) -> Option<WorkspacePath> {
        self.found.try_recv().ok()
    }

    /// True if there are more folders than can be watched.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        self.is_partial
    }
}

impl Drop for RepositoryWatch {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// State of the thread that watches.
struct Watcher {
    /// Reports new names.
    inotify: OwnedFd,
    /// The workspace root.
    root: OwnedFd,
    /// Marks that were there when the job started.
    known: HashSet<WorkspacePath>,
    /// Watched folders.
    folders: HashMap<i32, WorkspacePath>,
    /// The folder in which a repository appeared.
    found: Option<WorkspacePath>,
    /// True if there are more folders than can be watched.
    is_partial: bool,
}

impl Watcher {
    /// Watches a folder and all below it, and looks for marks there.
    fn enter(&mut self, folder: WorkspacePath) {
        let mut folders = vec![folder];
        while let Some(path) = folders.pop() {
            let Ok(opened) = fs::open_beneath(self.root.as_fd(), &path, fs::FOLDER) else { continue };
            // First the watch, then the names: what comes in between is found twice.
            if self.folders.len() < FOLDERS_MAX {
                let at = format!("/proc/self/fd/{}", opened.as_raw_fd());
                let wanted = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
                match add_watch(&self.inotify, &at, wanted) {
                    Ok(watch) => {
                        self.folders.insert(watch, path.clone());
                    }
                    Err(_) => self.is_partial = true,
                }
            } else {
                self.is_partial = true;
            }
            if is_repository(opened.as_fd()) && !path.is_root() {
                if !self.known.contains(&path) {
                    self.found = Some(path);
                    return;
                }
                continue;
            }
            let Ok(listing) = names_of(opened.as_fd()) else { continue };
            for entry in listing.iter() {
                let inner = path.join(OsStr::from_bytes(entry.name));
                if protect::is_protected(entry.name) {
                    if is_git(entry.name) && !self.known.contains(&inner) {
                        self.found = Some(path);
                        return;
                    }
                } else if entry.is_folder() {
                    folders.push(inner);
                }
            }
        }
    }

    /// Waits for an event, or a little.
    fn wait(&self) {
        let mut fds = [PollFd::new(&self.inotify, PollFlags::IN)];
        let time = Timespec { tv_sec: 0, tv_nsec: LOOK_INTERVAL_MS * 1_000_000 };
        // An interrupted wait is a short one.
        let _ = poll(&mut fds, Some(&time));
    }

    /// Takes in the events that are there.
    fn read(&mut self) {
        let mut room = vec![MaybeUninit::<u8>::uninit(); EVENTS_BYTES];
        let mut events = Vec::new();
        let mut reader = Reader::new(self.inotify.as_fd(), &mut room);
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| name.to_bytes().to_vec());
            events.push((event.wd(), event.events(), name));
        }
        for (watch, kind, name) in events {
            if kind.contains(ReadFlags::QUEUE_OVERFLOW) {
                self.enter(WorkspacePath::root());
            }
            let Some(folder) = self.folders.get(&watch).cloned() else { continue };
            if kind.contains(ReadFlags::IGNORED) {
                self.folders.remove(&watch);
                continue;
            }
            let Some(name) = name else { continue };
            if is_git(&name) || (is_part(&name) && self.is_new_repository(&folder)) {
                self.found.get_or_insert(folder);
            } else if kind.contains(ReadFlags::ISDIR) && !protect::is_protected(&name) {
                self.enter(folder.join(OsStr::from_bytes(&name)));
            }
        }
    }

    /// True if git takes a folder for a repository since the job started.
    fn is_new_repository(&self, folder: &WorkspacePath) -> bool {
        let opened = fs::open_beneath(self.root.as_fd(), folder, fs::FOLDER);
        !self.known.contains(folder) && opened.is_ok_and(|opened| is_repository(opened.as_fd()))
    }
}

/// True for a name by which git finds a repository.
fn is_git(name: &[u8]) -> bool {
    protect::is_protected(name) && !name.eq_ignore_ascii_case(STATE_FOLDER.as_bytes())
}

/// True for a name that is part of a repository.
fn is_part(name: &[u8]) -> bool {
    PARTS.iter().any(|part| name.eq_ignore_ascii_case(part.as_bytes()))
}
