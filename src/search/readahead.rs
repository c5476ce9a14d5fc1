//! Readahead: a second thread reads folders before the walk reaches them.
//!
//! The walk names the folders below the one that it has entered; the thread reads them in the order of the walk. The
//! walk itself reads folders that the thread has not begun by then.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::io::Errno;

use crate::control::Control;
use crate::engine::workspace::fs;
use crate::engine::workspace::listing::Listing;
use crate::engine::workspace::path::WorkspacePath;
use crate::platform::ROOM_BYTES;
use crate::platform::other_cpu;
use crate::search::entry;
use crate::search::entry::WalkFolder;

/// Folders that the walk enters before a thread is started: for fewer, starting one costs more.
const ENTERED_MIN: usize = 48;
/// Most folders that are read ahead, each with an open descriptor.
const READY_MAX: usize = 64;

/// Queued folders that wake a sleeping thread.
const WAKE_MIN: usize = 8;

/// An open folder with its listing.
pub type Opened = (OwnedFd, Listing);

/// Reads folders ahead for one walk.
pub struct ReadAhead {
    /// State shared by the walk and the thread.
    shared: Arc<Shared>,
    /// Cancellation and deadline.
    control: Control,
    /// Folders that the walk has entered so far.
    entered: usize,
    /// Thread, once it has been started.
    thread: Option<JoinHandle<()>>,
}

/// State shared by the walk and the thread.
#[derive(Default)]
struct Shared {
    /// Folders to read, and folders read.
    state: Mutex<State>,
    /// Signalled when that changes.
    changed: Condvar,
}

/// Folders to read, and folders read.
#[derive(Default)]
struct State {
    /// Folders to read, with their parents.
    wanted: BTreeMap<WorkspacePath, Arc<WalkFolder>>,
    /// Folder that is being read.
    reading: Option<WorkspacePath>,
    /// Folders that were read.
    ready: BTreeMap<WorkspacePath, Result<Opened, Errno>>,
    /// True if the walk waits for the folder that is being read.
    awaited: bool,
    /// True if the thread has nothing to do.
    idle: bool,
    /// True if the walk has ended.
    over: bool,
}

impl ReadAhead {
    /// Returns an empty queue without a thread.
    pub fn new(control: Control) -> Self {
        Self { shared: Arc::default(), control, entered: 0, thread: None }
    }

    /// Notes that the walk has entered `parent`, and queues its subfolders `names`.
    pub fn enter(&mut self, parent: &Arc<WalkFolder>, names: impl Iterator<Item = WorkspacePath>) {
        self.entered += 1;
        if self.entered < ENTERED_MIN {
            return;
        }
        let mut state = self.shared.lock();
        state.wanted.extend(names.map(|path| (path, Arc::clone(parent))));
        self.shared.wake(&state);
        drop(state);
        if self.thread.is_none()
            && std::thread::available_parallelism().is_ok_and(|threads| threads.get() > 1)
        {
            let (shared, control) = (Arc::clone(&self.shared), self.control.clone());
            // Without a thread the walk reads everything itself.
            self.thread = other_cpu::spawn(move || shared.read_all(&control)).ok();
        }
    }

    /// Returns the folder at `path`, if it has been read; drops those before it.
    pub fn take(&mut self, path: &WorkspacePath) -> Option<Result<Opened, Errno>> {
        self.thread.as_ref()?;
        let mut state = self.shared.lock();
        while state.reading.as_ref() == Some(path) {
            state.awaited = true;
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.awaited = false;
        while state.wanted.first_key_value().is_some_and(|(first, _)| first <= path) {
            state.wanted.pop_first();
        }
        while state.ready.first_key_value().is_some_and(|(first, _)| first < path) {
            state.ready.pop_first();
        }
        let read = state.ready.remove(path);
        self.shared.wake(&state);
        read
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has read nothing more; nothing else depends on it.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Reads queued folders until the walk ends.
    fn read_all(&self, control: &Control) {
        let mut buffer = Vec::with_capacity(ROOM_BYTES);
        while let Some((path, parent)) = self.next() {
            let _done = Done(self);
            let read = match path.name() {
                Some(name) => fs::open_at(parent.as_fd(), name, fs::FOLDER).and_then(|fd| {
                    let listing = entry::read_listing(fd.as_fd(), buffer.spare_capacity_mut(), control)?;
                    Ok((fd, listing))
                }),
                None => continue,
            };
            self.lock().ready.insert(path, read);
        }
    }

    /// Waits for the next folder to read; `None` if the walk has ended.
    fn next(&self) -> Option<(WorkspacePath, Arc<WalkFolder>)> {
        let mut state = self.lock();
        while !state.over && (state.wanted.is_empty() || state.ready.len() >= READY_MAX) {
            state.idle = true;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.idle = false;
        if state.over {
            return None;
        }
        let (path, parent) = state.wanted.pop_first()?;
        state.reading = Some(path.clone());
        Some((path, parent))
    }

    /// Wakes the thread, if it sleeps and has enough to do: waking it for each folder would cost more than it saves.
    fn wake(&self, state: &State) {
        if state.idle && state.wanted.len() >= WAKE_MIN && state.ready.len() < READY_MAX {
            self.changed.notify_all();
        }
    }

    /// Locks, even after a panic in another holder: the maps are valid at each step.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks the end of reading a folder, even after a panic.
struct Done<'s>(&'s Shared);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.reading = None;
        if state.awaited {
            self.0.changed.notify_all();
        }
    }
}
