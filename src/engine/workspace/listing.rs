//! Lists one opened folder into one piece of memory, and queues folders for several threads.

use std::cmp::Ordering;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::{Errno, retry_on_intr};

/// Bytes of directory entries taken from the system at once.
pub const ROOM_BYTES: usize = 32 * 1024;

/// The names in a folder, `.` and `..` aside.
#[derive(Debug, Default)]
pub struct Listing {
    /// All names, one after the other.
    names: Vec<u8>,
    /// Ranges of the names, with types.
    entries: Vec<(Range<usize>, FileType)>,
}

/// One name in a folder.
#[derive(Debug, Clone, Copy)]
pub struct ListedName<'l> {
    /// The name.
    pub name: &'l [u8],
    /// Its type; unknown if the system does not tell.
    pub kind: FileType,
}

impl ListedName<'_> {
    /// Returns true if it is a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.kind == FileType::Directory
    }
}

impl Listing {
    /// Reads `folder` by way of `room`, of [`ROOM_BYTES`]; `should_stop` is asked between the system's
    /// calls.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn read(
        folder: BorrowedFd<'_>,
        room: &mut [MaybeUninit<u8>],
        should_stop: impl Fn() -> bool,
    ) -> Result<Self, Errno> {
        let mut listing = Self::default();
        let mut entries = rustix::fs::RawDir::new(folder, room);
        while let Some(entry) = entries.next() {
            match entry {
                Ok(entry) => listing.add(folder, entry.file_name().to_bytes(), entry.file_type()),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            }
            if entries.is_buffer_empty() && should_stop() {
                break;
            }
        }
        Ok(listing)
    }

    /// One of names and types that are known already.
    pub fn of<'n>(entries: impl Iterator<Item = (&'n [u8], FileType)>) -> Self {
        let mut listing = Self::default();
        entries.for_each(|(name, kind)| listing.push(name, kind));
        listing
    }

    /// Takes one name, unless nothing is there any more.
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

    /// Puts the names in an order.
    pub fn sort_by(&mut self, order: impl Fn(ListedName<'_>, ListedName<'_>) -> Ordering) {
        let names = &self.names;
        self.entries.sort_unstable_by(|one, other| order(listed(names, one), listed(names, other)));
    }

    /// Forgets a name; whether it was there.
    pub fn forget(&mut self, name: &[u8]) -> bool {
        let at = self.iter().position(|entry| entry.name == name);
        at.map(|at| self.entries.swap_remove(at)).is_some()
    }

    /// The entry at `index`; `None` behind the last.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<ListedName<'_>> {
        self.entries.get(index).map(|entry| listed(&self.names, entry))
    }

    /// All entries, in their order.
    pub fn iter(&self) -> impl Iterator<Item = ListedName<'_>> {
        self.entries.iter().map(|entry| listed(&self.names, entry))
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// An entry with its name.
fn listed<'l>(names: &'l [u8], (name, kind): &(Range<usize>, FileType)) -> ListedName<'l> {
    ListedName { name: names.get(name.clone()).unwrap_or_default(), kind: *kind }
}

/// Items that wait, shared by all threads that work on them.
#[derive(Debug)]
pub struct WorkQueue<T> {
    /// Items, and how many threads may still add to them.
    waiting: Mutex<Waiting<T>>,
    /// Wakes threads when there is more to do, and at the end.
    more: Condvar,
}

/// State that the lock of a [`WorkQueue`] guards.
#[derive(Debug)]
struct Waiting<T> {
    /// The newest last, so that a walk goes down before it goes on.
    items: Vec<T>,
    /// Threads at work.
    busy: usize,
}

impl<T> WorkQueue<T> {
    /// A queue that holds one item.
    #[must_use]
    pub const fn new(items: Vec<T>) -> Self {
        Self { waiting: Mutex::new(Waiting { items, busy: 0 }), more: Condvar::new() }
    }

    /// Takes the lock, even if a thread died with it.
    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next item and counts the thread as busy; waits while others may add some. `None` when
    /// all is done.
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

    /// Adds what a busy thread found to do, and counts the thread as done with its own item.
    pub fn done(&self, mut found: Vec<T>) {
        let mut waiting = self.lock();
        waiting.busy = waiting.busy.saturating_sub(1);
        let wake = found.len() > 1 || waiting.busy == 0;
        waiting.items.append(&mut found);
        drop(waiting);
        if wake {
            self.more.notify_all();
        }
    }

    /// Drops the items that wait.
    pub fn give_up(&self) {
        self.lock().items.clear();
    }
}
