//! Starts threads on another processor than the thread that makes them, and at once.
//!
//! A kernel that packs its work onto few processors, as those of small virtual machines do, leaves a new thread on the
//! processor where it was made, though another one is idle. There it waits until its parent blocks or has used up its
//! time slice: often as long as the parent's work takes.

use std::io;
use std::thread::{self, JoinHandle, Scope, ScopedJoinHandle};

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Starts a thread with its own `work`.
///
/// # Errors
/// Returns the OS error.
pub fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    let thread = thread::Builder::new().spawn(elsewhere(work));
    // The new thread moves away in this moment.
    thread::yield_now();
    thread
}

/// Starts a thread with `work` that borrows from the caller.
///
/// # Errors
/// Returns the OS error.
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    let thread = thread::Builder::new().spawn_scoped(scope, elsewhere(work));
    thread::yield_now();
    thread
}

/// Returns `work` for a new thread, which first moves to a processor that the calling thread is not on. After that the
/// kernel may move it again.
#[cfg(target_os = "linux")]
fn elsewhere<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let sets = sched_getaffinity(None).ok().zip(here()).map(|(all, here)| {
        let mut others = all;
        others.unset(here);
        (all, others)
    });
    move || {
        // A hint: if it fails, or there is no other processor, the work is done here.
        if let Some((all, others)) = sets
            && sched_setaffinity(None, &others).is_ok()
        {
            let _ = sched_setaffinity(None, &all);
        }
        work()
    }
}

/// Returns the processor of the calling thread.
#[cfg(target_os = "linux")]
fn here() -> Option<usize> {
    Some(sched_getcpu()).filter(|here| *here < CpuSet::MAX_CPU)
}

/// Returns `work`: other systems place new threads themselves.
#[cfg(not(target_os = "linux"))]
fn elsewhere<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    work
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn moved_thread_may_still_run_on_all_cpus() {
        let all = sched_getaffinity(None).unwrap();
        let after = spawn(|| sched_getaffinity(None).unwrap()).unwrap().join().unwrap();
        assert!(after == all && sched_getaffinity(None).unwrap() == all);
    }
}
