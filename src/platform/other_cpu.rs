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
    let thread = thread::Builder::new().spawn(work_on_other_cpu(work));
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
    let thread = thread::Builder::new().spawn_scoped(scope, work_on_other_cpu(work));
    thread::yield_now();
    thread
}

/// Returns `work` for a new thread, which first moves. After that the kernel may move it again.
fn work_on_other_cpu<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let others = OtherCpus::find();
    move || {
        drop(others.move_to_other_cpu());
        work()
    }
}

/// Processors that the calling thread is not on, for a new thread or process.
#[derive(Debug)]
pub struct OtherCpus {
    /// All processors that it may run on, and the others of them.
    #[cfg(target_os = "linux")]
    sets: Option<Box<(CpuSet, CpuSet)>>,
}

impl OtherCpus {
    /// Selects the processors that the calling thread is not on.
    #[cfg(target_os = "linux")]
    pub fn find() -> Self {
        let here = Some(sched_getcpu()).filter(|here| *here < CpuSet::MAX_CPU);
        let sets = sched_getaffinity(None).ok().zip(here).map(|(all, here)| {
            let mut others = all;
            others.unset(here);
            Box::new((all, others))
        });
        Self { sets }
    }

    /// Returns no choice: other systems place new threads themselves.
    #[cfg(not(target_os = "linux"))]
    pub fn find() -> Self {
        Self {}
    }

    /// Moves the calling thread, which is new, to one of them; it stays there until the result is dropped.
    pub fn move_to_other_cpu(self) -> MovedThread {
        // A hint: if it fails, or there is no other processor, the work is done here.
        #[cfg(target_os = "linux")]
        let _ = self.sets.as_ref().map(|sets| sched_setaffinity(None, &sets.1));
        MovedThread(self)
    }
}

/// Keeps a thread where it was moved; then it may run on all its processors again.
#[derive(Debug)]
pub struct MovedThread(OtherCpus);

#[cfg(target_os = "linux")]
impl Drop for MovedThread {
    fn drop(&mut self) {
        let _ = self.0.sets.as_ref().map(|sets| sched_setaffinity(None, &sets.0));
    }
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
