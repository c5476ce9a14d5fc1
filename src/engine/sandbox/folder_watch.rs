//! A watch over the folders of a workspace while a command changes the files themselves: the survey after it reads only
//! folders in which something happened.
//!
//! inotify reports to a folder what happens to its names, and to the files that are opened by them. It reports nothing
//! to the other folders in which a file has names:
//!
//! ```text
//! ln a/file b/link; echo more >> b/link; rm b/link      a/file is another file now, and a/ heard nothing
//! ```
//!
//! So the watch counts only if no file can have got another name: each name that was created still exists, or was
//! moved, and belongs to a new file. Folders whose files had several names before are always read. A backend must give
//! the workspace a mount of its own, so that no name can be outside.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Mutex, PoisonError};

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;

use super::layer_mount::{inner_mount, mount_points};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::DOT_GIT;
use crate::engine::workspace::survey::Survey;
use crate::engine::workspace::{Workspace, fs};

/// Bytes of events per read.
const EVENTS_BYTES: usize = 64 * 1024;

/// Events that change what a survey finds.
const EVENTS: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::MOVE);

/// Watches an opened folder; returns the number of the watch.
///
/// # Errors
/// Returns the OS error: an account may have only so many watches.
fn watch(inotify: &OwnedFd, folder: BorrowedFd<'_>, events: WatchFlags) -> Result<i32, Errno> {
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    add_watch(inotify, &path, events | WatchFlags::ONLYDIR)
}

/// A watch over folders; ends on drop.
#[derive(Debug)]
pub struct FolderWatch {
    /// Source of the events.
    inotify: OwnedFd,
    /// Watched folders; `None` if one cannot be watched.
    folders: Mutex<Option<HashMap<i32, WorkspacePath>>>,
}

/// Name in a watched folder.
type NameIn = (i32, Vec<u8>);

impl FolderWatch {
    /// Begins a watch over no folder; returns `None` if the account has too many, or something is mounted in the
    /// workspace: of a file that is a mount point, only the folder elsewhere hears.
    pub fn begin(workspace: &Workspace) -> Option<Self> {
        if inner_mount(workspace.root(), &mount_points().ok()?).is_some() {
            return None;
        }
        let inotify = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        Some(Self { inotify, folders: Mutex::new(Some(HashMap::new())) })
    }

    /// Watches one more folder. Call it before the folder is read.
    pub fn add(&self, folder: BorrowedFd<'_>, path: &WorkspacePath) {
        let watched = watch(&self.inotify, folder, EVENTS);
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *folders, watched) {
            (Some(known), Ok(number)) => drop(known.insert(number, path.clone())),
            _ => *folders = None,
        }
    }

    /// Returns the folders that must be read again, now that the command has ended; `None` if all must be. `before` is
    /// the survey of the watched folders.
    pub fn changed(self, workspace: &Workspace, before: &Survey) -> Option<Vec<WorkspacePath>> {
        let folders = self.folders.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        let mut events = Events::default();
        let mut room = vec![MaybeUninit::<u8>::uninit(); EVENTS_BYTES];
        let mut reader = Reader::new(self.inotify.as_fd(), &mut room);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_bytes().to_vec()).unwrap_or_default();
                    let folder = folders.get(&event.wd());
                    if name == DOT_GIT.as_bytes() && folder.is_some_and(WorkspacePath::is_root) {
                        // lbx makes an empty one for the time of a command, which cannot write there.
                        events.folders.insert(event.wd());
                        continue;
                    }
                    events.take_event((event.wd(), name), event.events(), event.cookie())?;
                }
                Err(Errno::WOULDBLOCK) => break,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        let inodes: HashSet<u64> =
            if events.created.is_empty() { HashSet::new() } else { before.inodes().collect() };
        let is_new = |(folder, name): &NameIn| {
            let path = folders.get(folder)?.join(OsStr::from_bytes(name));
            let stat = fs::stat_beneath(workspace.root_fd(), &path).ok()?;
            Some(!inodes.contains(&stat.st_ino))
        };
        if !events.created.iter().all(|created| is_new(created) == Some(true)) {
            return None;
        }
        let changed = events.folders.iter().filter_map(|folder| folders.get(folder)).chain(before.linked());
        Some(changed.cloned().collect::<BTreeSet<_>>().into_iter().collect())
    }
}

/// Events of a command.
#[derive(Debug, Default)]
struct Events {
    /// Folders in which something happened.
    folders: BTreeSet<i32>,
    /// Names that were created, where they are now.
    created: HashSet<NameIn>,
    /// Names on the way to another folder, by the number of the move; true if they were created before.
    moving: HashMap<u32, bool>,
}

impl Events {
    /// Takes one event; returns `None` if not all changes can be known.
    fn take_event(&mut self, name: NameIn, event: ReadFlags, cookie: u32) -> Option<()> {
        if event.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT) {
            return None;
        }
        self.folders.insert(name.0);
        let is_new = event.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        if is_new && event.contains(ReadFlags::ISDIR) {
            // Nobody watches what happens in it.
            return None;
        }
        if event.contains(ReadFlags::MOVED_FROM) {
            self.moving.insert(cookie, self.created.remove(&name));
            return Some(());
        }
        // A name that is deleted or replaced may have belonged to an old file.
        let is_unknown = self.created.contains(&name) && (is_new || event.contains(ReadFlags::DELETE));
        let is_created = if event.contains(ReadFlags::MOVED_TO) {
            self.moving.remove(&cookie)?
        } else {
            event.contains(ReadFlags::CREATE)
        };
        if is_created {
            self.created.insert(name);
        }
        (!is_unknown).then_some(())
    }
}
