//! Starts threads and processes on another processor than the thread that makes them.
//!
//! A kernel that packs its work onto few processors, as those of small virtual machines do, may leave a new thread for
//! some ten milliseconds on the processor where it was made, though another one is idle: as long as the thread's work
//! takes.

use rustix::process::Pid;
#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Processors on which a new thread may start.
#[derive(Debug, Clone, Copy, Default)]
pub struct OtherCpu {
    /// All processors that it may run on, and those of them that the parent thread is not on.
    #[cfg(target_os = "linux")]
    sets: Option<(CpuSet, CpuSet)>,
}

#[cfg(target_os = "linux")]
impl OtherCpu {
    /// Selects the processors that the calling thread is not on; all if there is no other.
    pub fn from_here() -> Self {
        let sets = sched_getaffinity(None).ok().and_then(|all| {
            let mut others = all;
            let here = sched_getcpu();
            if here < CpuSet::MAX_CPU {
                others.unset(here);
            }
            (others.count() > 0).then_some((all, others))
        });
        Self { sets }
    }

    /// Moves the calling thread, which is new, to one of them, and runs `start` there to start a process; `id` returns
    /// its id. After that the kernel may move both again.
    pub fn start_process<T>(self, start: impl FnOnce() -> T, id: impl FnOnce(&T) -> Option<Pid>) -> T {
        // A hint, as below.
        let is_apart = self.sets.filter(|(_, others)| sched_setaffinity(None, others).is_ok());
        let started = start();
        if let Some((all, _)) = is_apart {
            let _ = sched_setaffinity(None, &all);
            let _ = id(&started).map(|id| sched_setaffinity(Some(id), &all));
        }
        started
    }

    /// Moves the calling thread, which is new, to one of them. After that the kernel may move it again.
    pub fn go(self) {
        if let Some((all, others)) = self.sets {
            // A hint: if it fails, the work is done here.
            if sched_setaffinity(None, &others).is_ok() {
                let _ = sched_setaffinity(None, &all);
            }
        }
    }
}

/// Other systems place new threads themselves.
#[cfg(not(target_os = "linux"))]
impl OtherCpu {
    /// Returns no choice.
    pub fn from_here() -> Self {
        Self::default()
    }

    /// Runs `start` where it is called.
    pub fn start_process<T>(self, start: impl FnOnce() -> T, _: impl FnOnce(&T) -> Option<Pid>) -> T {
        start()
    }

    /// Stays where it is called.
    pub fn go(self) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn moved_thread_may_still_run_on_all_cpus() {
        let all = sched_getaffinity(None).unwrap();
        let apart = OtherCpu::from_here();
        let (before, after) = std::thread::spawn(move || {
            let before = sched_getaffinity(None).unwrap();
            apart.go();
            (before, sched_getaffinity(None).unwrap())
        })
        .join()
        .unwrap();
        assert!(before == all && after == all);
        if let Some((_, others)) = apart.sets {
            assert!(others.count() == all.count() - 1 || others == all);
        }
    }
}
