//! A queue of folders that several threads look at, and that grows while they do.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
