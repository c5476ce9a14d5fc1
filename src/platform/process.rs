//! Processes: this program's own file, the others that run, and what ties them together.

use std::collections::HashMap;
use std::process::Child;

use rustix::process::{Rlimit, Signal};

#[cfg(target_os = "linux")]
use of_proc as native;
#[cfg(not(target_os = "linux"))]
use of_ps as native;

/// A running process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub id: u32,
    /// Name of its program, which the system may cut.
    pub name: String,
    /// Id of its parent.
    pub parent: u32,
    /// Its start, in the words of the system: ids are reused.
    pub start: String,
}

impl Process {
    /// Returns the process with this id.
    pub fn of(id: u32) -> Option<Self> {
        native::find(id)
    }
}

/// Most processes between this one and the first.
const CALLERS_MAX: usize = 100;

/// Returns the ids of the processes that called this one, the nearest first.
pub fn callers() -> Vec<u32> {
    let parent = Process::of(std::os::unix::process::parent_id());
    let above = std::iter::successors(parent, |process| Process::of(process.parent));
    above.take(CALLERS_MAX).map(|process| process.id).collect()
}

/// Returns the path by which this program starts itself again.
#[cfg(target_os = "linux")]
pub const fn program_path() -> &'static str {
    // It leads to this very program, even if its file has been replaced.
    "/proc/self/exe"
}

/// Returns the path by which this program starts itself again; empty, which starts nothing, if the system hides it.
#[cfg(not(target_os = "linux"))]
pub fn program_path() -> &'static str {
    static PATH: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    PATH.get_or_init(|| {
        let path = std::env::current_exe().ok().and_then(|path| path.into_os_string().into_string().ok());
        path.unwrap_or_default()
    })
}

/// Returns the running descendants of a process, by default of this one; without those that the system no longer counts
/// as such.
pub fn descendants(of: Option<i32>) -> Vec<i32> {
    let Some((own, parents)) = native::parents() else { return Vec::new() };
    let top = of.unwrap_or(own);
    let descends = |pid: i32| {
        let mut at = pid;
        // A chain of parents is at most as long as the number of processes.
        for _ in 0..=parents.len() {
            match parents.get(&at) {
                Some(parent) if *parent == top => return true,
                Some(parent) => at = *parent,
                None => return false,
            }
        }
        false
    };
    parents.keys().copied().filter(|pid| *pid != top && descends(*pid)).collect()
}

/// Has this process adopt every descendant that loses its parent; returns false if the system has no such call.
///
/// # Errors
/// Returns the OS error.
pub fn adopt_orphans() -> rustix::io::Result<bool> {
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map(|()| true)
    }
    #[cfg(not(target_os = "linux"))]
    {
        Ok(false)
    }
}

/// Has this process end by a signal when its parent thread does; other systems have no such call.
///
/// # Errors
/// Returns the OS error.
pub fn die_with_parent(signal: Signal) -> rustix::io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_parent_process_death_signal(Some(signal))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = signal;
        Ok(())
    }
}

/// Sets the limit of open files of a program that was just started; on other systems it keeps that of this process.
pub fn limit_open_files(program: &Child, limit: Rlimit) {
    #[cfg(target_os = "linux")]
    {
        let id = rustix::process::Pid::from_child(program);
        // A program that has ended needs none.
        let _ = rustix::process::prlimit(Some(id), rustix::process::Resource::Nofile, limit);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (program, limit);
}

/// Returns a descriptor that becomes readable when a child ends; `None` if the system has none.
pub fn end_of(child: &Child) -> Option<std::os::fd::OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        // Kernels before 5.3 have no such descriptor.
        pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = child;
        None
    }
}

/// Bytes of memory in the unit of `ru_maxrss` (getrusage(2)).
pub const MEMORY_UNIT: u64 = if cfg!(target_vendor = "apple") { 1 } else { 1024 };

/// Linux: `/proc`.
#[cfg(target_os = "linux")]
mod of_proc {
    use super::{HashMap, Process};
    use std::fs;

    /// Returns the process with this id.
    #[expect(clippy::disallowed_methods, reason = "/proc")]
    pub fn find(id: u32) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name may contain any character; it ends at the last parenthesis (proc_pid_stat(5)).
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let parent = fields.nth(1)?.parse().ok()?;
        Some(Process { id, name: name.to_owned(), parent, start: fields.nth(17)?.to_owned() })
    }

    /// Returns the id of this process and the parents of all, in the `/proc` that it sees, which may belong to another
    /// PID namespace.
    #[expect(clippy::disallowed_methods, reason = "/proc")]
    pub fn parents() -> Option<(i32, HashMap<i32, i32>)> {
        let own = fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()?;
        let names = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        Some((own, ids.filter_map(|id| Some((id, parent_of(id)?))).collect()))
    }

    /// Returns the parent of a running process.
    #[expect(clippy::disallowed_methods, reason = "/proc")]
    fn parent_of(id: i32) -> Option<i32> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?;
        fields.next()?.parse().ok().filter(|_| !state.starts_with('Z'))
    }
}

/// Other systems: the list of `ps`, as POSIX has it and with the start that all have.
#[cfg(any(not(target_os = "linux"), test))]
mod of_ps {
    use super::{HashMap, Process};
    use std::process::{Command, Stdio};

    /// The program of the system, never one of `PATH`.
    const PROGRAM: &str = "/bin/ps";

    /// Runs `ps` with these arguments; empty if it fails.
    #[expect(
        clippy::disallowed_methods,
        reason = "a program of the system, with no descriptor of this process"
    )]
    fn listed(arguments: &[&str]) -> String {
        close_fds::set_fds_cloexec_threadsafe(3, &[]);
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env_clear().env("LC_ALL", "C").stdin(Stdio::null()).stderr(Stdio::null());
        command
            .output()
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .unwrap_or_default()
    }

    /// Returns the process with this id.
    pub fn find(id: u32) -> Option<Process> {
        let text = listed(&["-o", "ppid=,lstart=,comm=", "-p", &id.to_string()]);
        let mut words = text.split_whitespace();
        let parent = words.next()?.parse().ok()?;
        // `Thu Nov 26 15:03:47 2026`
        let start: Vec<&str> = words.by_ref().take(5).collect();
        let program = words.collect::<Vec<_>>().join(" ");
        let name = program.rsplit('/').next().unwrap_or_default().to_owned();
        Some(Process { id, name, parent, start: start.join(" ") })
    }

    /// Returns the id of this process and the parents of all.
    pub fn parents() -> Option<(i32, HashMap<i32, i32>)> {
        let own = i32::try_from(std::process::id()).ok()?;
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let (id, parent) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            words.next().filter(|state| !state.starts_with('Z')).map(|_| (id, parent))
        };
        Some((own, listed(&["-A", "-o", "pid=,ppid=,stat="]).lines().filter_map(line).collect()))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn ps_and_proc_agree_on_this_process() {
        let own = std::process::id();
        let Some(by_ps) = of_ps::find(own) else { return crate::skip::skipped("no ps") };
        let by_proc = of_proc::find(own).unwrap();
        assert_eq!((by_ps.parent, by_ps.id), (by_proc.parent, by_proc.id));
        assert!(by_ps.name.starts_with(&by_proc.name) && by_ps.start.split(' ').count() == 5, "{by_ps:?}");
        let (id, parents) = of_ps::parents().unwrap();
        assert_eq!(parents.get(&id).copied(), i32::try_from(by_proc.parent).ok());
    }
}
