//! Lists one opened folder into one block of memory, and queues folders for several threads.

use std::cmp::Ordering;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::{Errno, retry_on_intr};

use crate::platform;

/// Names in a folder, without `.` and `..`.
#[derive(Debug, Default)]
pub struct Listing {
    /// All names, concatenated.
    names: Vec<u8>,
    /// Ranges of the names, with types.
    entries: Vec<(Range<usize>, FileType)>,
}

/// One name in a folder.
#[derive(Debug, Clone, Copy)]
pub struct ListedName<'l> {
    /// Name.
    pub name: &'l [u8],
    /// Type; unknown if the file system does not report it.
    pub kind: FileType,
}

impl ListedName<'_> {
    /// Returns true if it is a folder.
    pub fn is_folder(&self) -> bool {
        self.kind == FileType::Directory
    }
}

impl Listing {
    /// Reads `folder` with the buffer `room` of [`crate::platform::ROOM_BYTES`]; calls `should_stop` between system calls.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn read(
        folder: BorrowedFd<'_>,
        room: &mut [MaybeUninit<u8>],
        should_stop: impl Fn() -> bool,
    ) -> Result<Self, Errno> {
        let mut listing = Self::default();
        platform::list(folder, room, &should_stop, &mut |name, kind| listing.add(folder, name, kind))?;
        Ok(listing)
    }

    /// Returns a listing of known names and types.
    pub fn of<'n>(entries: impl Iterator<Item = (&'n [u8], FileType)>) -> Self {
        let mut listing = Self::default();
        entries.for_each(|(name, kind)| listing.push(name, kind));
        listing
    }

    /// Adds a name, unless the file was deleted meanwhile.
    fn add(&mut self, folder: BorrowedFd<'_>, name: &[u8], kind: FileType) {
        if name == b"." || name == b".." {
            return;
        }
        let kind = match kind {
            FileType::Unknown => match retry_on_intr(|| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => return,
                Err(_) => FileType::Unknown,
            },
            known => known,
        };
        self.push(name, kind);
    }

    /// Adds one entry.
    fn push(&mut self, name: &[u8], kind: FileType) {
        let start = self.names.len();
        self.names.extend_from_slice(name);
        self.entries.push((start..self.names.len(), kind));
    }

    /// Sorts the names.
    pub fn sort_by(&mut self, order: impl Fn(ListedName<'_>, ListedName<'_>) -> Ordering) {
        let names = &self.names;
        self.entries.sort_unstable_by(|one, other| order(with_name(names, one), with_name(names, other)));
    }

    /// Removes a name; returns true if it was there.
    pub fn forget(&mut self, name: &[u8]) -> bool {
        let at = self.iter().position(|entry| entry.name == name);
        at.map(|at| self.entries.swap_remove(at)).is_some()
    }

    /// Returns the entry at `index`; `None` after the last.
    pub fn get(&self, index: usize) -> Option<ListedName<'_>> {
        self.entries.get(index).map(|entry| with_name(&self.names, entry))
    }

    /// Returns all entries in order.
    pub fn iter(&self) -> impl Iterator<Item = ListedName<'_>> {
        self.entries.iter().map(|entry| with_name(&self.names, entry))
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Returns an entry with its name.
fn with_name<'l>(names: &'l [u8], (name, kind): &(Range<usize>, FileType)) -> ListedName<'l> {
    ListedName { name: names.get(name.clone()).unwrap_or_default(), kind: *kind }
}

/// Queue of items, shared by all threads that process them.
#[derive(Debug)]
pub struct WorkQueue<T> {
    /// Items, and the number of threads that may still add some.
    waiting: Mutex<QueueState<T>>,
    /// Wakes threads when there is more to do, and at the end.
    more: Condvar,
}

/// State behind the lock of a [`WorkQueue`].
#[derive(Debug)]
struct QueueState<T> {
    /// Items, newest last, so that a walk goes down before it goes on.
    items: Vec<T>,
    /// Threads at work.
    busy: usize,
}

impl<T> WorkQueue<T> {
    /// Returns a queue with these items.
    pub const fn new(items: Vec<T>) -> Self {
        Self { waiting: Mutex::new(QueueState { items, busy: 0 }), more: Condvar::new() }
    }

    /// Takes the lock, even if a thread died with it.
    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next item and counts the thread as busy; waits while others may add some. `None` when all is done.
    pub fn next(&self) -> Option<T> {
        let mut waiting = self.lock();
        loop {
            if let Some(item) = waiting.items.pop() {
                waiting.busy += 1;
                return Some(item);
            }
            if waiting.busy == 0 {
                self.more.notify_all();
                return None;
            }
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds the items that a busy thread found, and counts its own item as done.
    pub fn finish_item(&self, mut found: Vec<T>) {
        let mut waiting = self.lock();
        waiting.busy = waiting.busy.saturating_sub(1);
        let wake = found.len() > 1 || waiting.busy == 0;
        waiting.items.append(&mut found);
        drop(waiting);
        if wake {
            self.more.notify_all();
        }
    }

    /// Drops the queued items.
    pub fn clear_queue(&self) {
        self.lock().items.clear();
    }
}
