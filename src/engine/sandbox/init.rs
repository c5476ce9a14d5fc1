//! The first process of a sandbox: it gives the sandbox its form, starts the command, takes in every
//! process that loses its parent, and ends with all of them.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal;
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, WaitStatus};

use super::landlock::{self, Temporary};
use super::outside::{self, Network};
use super::plan::{Ended, Link, Order, Report, SandboxPlan};
use super::setup::{SetupResult, doing};
use super::{environment, mounts, privileges};
use crate::engine::workspace::programs;

/// Time that processes which the command left behind have after TERM.
const LEFT_BEHIND_GRACE: Duration = Duration::from_millis(200);
/// Time between two rounds of KILL.
const KILL_NAP: Duration = Duration::from_millis(5);
/// Time after which processes that do not end are left to the kernel.
const KILL_TIME_MAX: Duration = Duration::from_secs(2);
/// Time between two counts of the processes, where the kernel does not bound them itself.
const COUNT_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes in one of the units in which the kernel counts memory here.
const MEMORY_UNIT: u64 = 1024;

/// What the process is, beside the first of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In namespaces that are still to be given their form.
    Namespaces,
    /// In namespaces to which someone else gave their form.
    Prepared,
    /// In no namespaces of its own; the command restricts itself before it starts.
    Landlock,
    /// In no namespaces of its own.
    Unconfined,
}

impl Kind {
    /// Returns true if it is the first process of a PID namespace, which ends with it.
    fn has_namespace(self) -> bool {
        match self {
            Self::Namespaces | Self::Prepared => true,
            Self::Landlock | Self::Unconfined => false,
        }
    }
}

/// Runs as the first process of a sandbox; its stdin is the link to the call.
///
/// # Errors
/// Where the link is none; else errors are told over it.
pub fn run(kind: Kind) -> SetupResult<()> {
    let mut link = link_on_stdin()?;
    if kind.has_namespace() {
        let dies_with_parent = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        doing(dies_with_parent, "cannot tie itself to the call")?;
    }
    doing(link.send(&Report::Ready, None), "cannot reach the call")?;
    let order = doing(link.receive(), "cannot reach the call")?;
    let Some(Order::Run(plan)) = order else { return Ok(()) };
    match start(kind, &plan, &mut link) {
        Ok(mut family) => family.keep(&mut link, &plan),
        Err(reason) => doing(link.send(&Report::Failed(reason), None), "cannot reach the call"),
    }
}

/// The link to the call, which is this process's stdin.
///
/// # Errors
/// Where stdin is not a socket.
pub fn link_on_stdin() -> SetupResult<Link> {
    let stdin = doing(std::io::stdin().as_fd().try_clone_to_owned(), "there is no link to the call")?;
    doing(rustix::net::sockopt::socket_type(&stdin), "there is no link to the call")?;
    Ok(Link::new(UnixStream::from(stdin)))
}

/// Confines this process and starts the command.
fn start(kind: Kind, plan: &SandboxPlan, link: &mut Link) -> SetupResult<Family> {
    // The kernel counts processes by user and namespace, and never those of root.
    let is_bounded = kind.has_namespace() && !rustix::process::geteuid().is_root();
    if kind == Kind::Namespaces {
        if !plan.reach.network.is_shared() {
            outside::bring_loopback_up();
        }
        mounts::confine(&plan.reach)?;
        privileges::drop_capabilities()?;
    }
    if !kind.has_namespace() {
        // A new session, unless it leads one already: the user's terminal is not the command's.
        let _ = rustix::process::setsid();
        let adopts = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        doing(adopts, "cannot take in processes that lose their parent")?;
    }
    privileges::limit(&plan.limits, kind.has_namespace())?;
    privileges::seal()?;
    if kind.has_namespace() {
        privileges::filter(true, plan.reach.network.is_shared())?;
    }
    let proxy = match &plan.reach.network {
        Network::Hosts(_) if kind.has_namespace() => Some(offer_proxy(link)?),
        _ => None,
    };
    let (ended, teller) = doing(UnixStream::pair(), "cannot make a pipe")?;
    doing(ended.set_nonblocking(true), "cannot make a pipe")?;
    let told = signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, teller);
    doing(told, "cannot watch its processes")?;
    let temporary = (kind == Kind::Landlock).then(Temporary::new).transpose()?;
    let main = start_command(plan, temporary.as_ref(), proxy, link)?;
    doing(link.send(&Report::Started, None), "cannot reach the call")?;
    let counted_max = usize::try_from(plan.limits.processes).ok().filter(|most| *most > 0 && !is_bounded);
    Ok(Family {
        kind,
        main,
        ended,
        result: None,
        left_running: 0,
        counted_max,
        had_too_many: false,
        _temporary: temporary,
    })
}

/// Hands the call a socket at which the command finds the proxy; returns its port on the loopback device.
fn offer_proxy(link: &mut Link) -> SetupResult<u16> {
    let what = "cannot offer a proxy";
    let listener = doing(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)), what)?;
    let port = doing(listener.local_addr(), what)?.port();
    doing(link.send(&Report::Proxy, Some(listener.as_fd())), what)?;
    Ok(port)
}

/// Starts the command; answers its process.
fn start_command(
    plan: &SandboxPlan,
    temporary: Option<&Temporary>,
    proxy: Option<u16>,
    link: &mut Link,
) -> SetupResult<u32> {
    let stdin = link.take_received().map_or_else(Stdio::null, Stdio::from);
    let mut command = match temporary {
        Some(temporary) => landlock::restricted(plan, temporary)?,
        None => program(plan)?,
    };
    command.envs(proxy.into_iter().flat_map(|port| environment::of_proxy(port, &plan.environment)));
    let spawned = programs::spawn(command.current_dir(&plan.workdir).stdin(stdin).process_group(0));
    // Not waited for by its handle: whoever ends is taken in by `Family`.
    Ok(doing(spawned, "cannot start the command")?.id())
}

/// The program of a plan.
fn program(plan: &SandboxPlan) -> SetupResult<Command> {
    let (program, arguments) = plan.program.split_first().ok_or("there is no program to run")?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
    Ok(command)
}

/// The command and all that came of it.
struct Family {
    /// What this process is.
    kind: Kind,
    /// The command's own process.
    main: u32,
    /// Becomes readable whenever a process has ended.
    ended: UnixStream,
    /// How the command ended, once it has.
    result: Option<WaitStatus>,
    /// Processes that still ran then.
    left_running: u32,
    /// Processes that there may be at once, where this process has to count them.
    counted_max: Option<usize>,
    /// True if there were more.
    had_too_many: bool,
    /// The folder for their temporary files, where that is not one of a file system of their own.
    _temporary: Option<Temporary>,
}

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nobody wants it.
    Running,
    /// All were told to end, and have time until then.
    Ending(Instant),
    /// All are being killed, until then.
    Killing(Instant),
}

impl Family {
    /// Waits until all have ended, and tells how the command did.
    fn keep(&mut self, link: &mut Link, plan: &SandboxPlan) -> SetupResult<()> {
        let mut phase = Phase::Running;
        while self.take_in() {
            phase = self.advance(phase);
            if matches!(phase, Phase::Killing(until) if Instant::now() > until) {
                break;
            }
            self.wait(link.fd(), timeout_of(phase).or(self.counted_max.map(|_| COUNT_INTERVAL)));
            match link.try_receive::<Order>() {
                Ok(Some(Order::End)) if phase == Phase::Running => {
                    self.signal_all(Signal::TERM);
                    phase = Phase::Ending(Instant::now() + plan.grace());
                }
                Ok(Some(Order::Kill)) if !matches!(phase, Phase::Killing(_)) => {
                    self.signal_all(Signal::KILL);
                    phase = phase_of_killing(phase);
                }
                Ok(None) if !link.is_closed() => {}
                Ok(Some(_)) => {}
                // Nobody is there any more who could want anything.
                Ok(None) | Err(_) => phase = phase_of_killing(phase),
            }
        }
        doing(link.send(&Report::Ended(self.report()), None), "cannot reach the call")
    }

    /// What the time and the command's end make of a phase.
    fn advance(&mut self, phase: Phase) -> Phase {
        match phase {
            Phase::Running if self.has_too_many() => {
                self.had_too_many = true;
                self.signal_all(Signal::KILL);
                phase_of_killing(phase)
            }
            Phase::Running if self.result.is_some() => {
                self.left_running = u32::try_from(Self::others().len()).unwrap_or(u32::MAX);
                self.signal_all(Signal::TERM);
                Phase::Ending(Instant::now() + LEFT_BEHIND_GRACE)
            }
            Phase::Ending(until) if Instant::now() >= until => {
                self.signal_all(Signal::KILL);
                phase_of_killing(phase)
            }
            Phase::Killing(_) => {
                self.signal_all(Signal::KILL);
                phase
            }
            Phase::Running | Phase::Ending(_) => phase,
        }
    }

    /// Returns true if there are more processes than there may be.
    fn has_too_many(&self) -> bool {
        self.counted_max.is_some_and(|most| Self::others().len() > most)
    }

    /// Takes in every process that has ended; whether any is left.
    fn take_in(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if u32::try_from(pid.as_raw_nonzero().get()) == Ok(self.main) {
                        self.result = Some(status);
                    }
                }
                Ok(None) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Waits until a process has ended, the call says something, or the time is over.
    fn wait(&mut self, link: BorrowedFd<'_>, timeout: Option<Duration>) {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds =
            [PollFd::from_borrowed_fd(link, PollFlags::IN), PollFd::new(&self.ended, PollFlags::IN)];
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
        let mut told = [0; 64];
        while self.ended.read(&mut told).is_ok_and(|bytes| bytes == told.len()) {}
    }

    /// Sends a signal to every process.
    fn signal_all(&self, signal: Signal) {
        // That someone has gone meanwhile is what is wanted.
        if self.kind.has_namespace() && std::process::id() == 1 {
            let signal = if signal == Signal::KILL { signal::SIGKILL } else { signal::SIGTERM };
            let _ = signal::kill(Pid::from_raw(-1), signal);
            return;
        }
        for pid in Self::others() {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
    }

    /// The processes that came of the command and still run.
    #[expect(clippy::disallowed_methods, reason = "/proc")]
    fn others() -> Vec<i32> {
        let Some(own) = own_number() else { return Vec::new() };
        let parents: HashMap<i32, i32> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .filter_map(|pid| Some((pid, parent_of(pid)?)))
            .collect();
        let descends = |pid: i32| {
            let mut at = pid;
            // A chain of parents is at most as long as there are processes.
            for _ in 0..=parents.len() {
                match parents.get(&at) {
                    Some(parent) if *parent == own => return true,
                    Some(parent) => at = *parent,
                    None => return false,
                }
            }
            false
        };
        parents.keys().copied().filter(|pid| *pid != own && descends(*pid)).collect()
    }

    /// How the command ended, and what all used.
    fn report(&self) -> Ended {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
        let milliseconds = |time: nix::sys::time::TimeVal| {
            let whole = u64::try_from(time.tv_sec()).unwrap_or_default() * 1000;
            whole + u64::try_from(time.tv_usec()).unwrap_or_default() / 1000
        };
        let cpu_ms = usage.map_or(0, |usage| milliseconds(usage.user_time() + usage.system_time()));
        let peak = usage.map_or(0, |usage| u64::try_from(usage.max_rss()).unwrap_or_default());
        Ended {
            exit_code: self.result.and_then(WaitStatus::exit_status),
            signal: self.result.and_then(WaitStatus::terminating_signal),
            left_running: self.left_running,
            had_too_many: self.had_too_many,
            cpu_ms,
            peak_memory_bytes: peak.saturating_mul(MEMORY_UNIT),
        }
    }
}

/// This process's number in the `/proc` that it sees, which may be that of another PID namespace.
#[expect(clippy::disallowed_methods, reason = "/proc")]
fn own_number() -> Option<i32> {
    fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()
}

/// The phase in which all are killed; it goes on from where it began.
fn phase_of_killing(phase: Phase) -> Phase {
    match phase {
        Phase::Killing(_) => phase,
        Phase::Running | Phase::Ending(_) => Phase::Killing(Instant::now() + KILL_TIME_MAX),
    }
}

/// How long a phase may be waited in.
fn timeout_of(phase: Phase) -> Option<Duration> {
    match phase {
        Phase::Running => None,
        Phase::Ending(until) => Some(until.saturating_duration_since(Instant::now())),
        Phase::Killing(_) => Some(KILL_NAP),
    }
}

/// The parent of a process that runs.
#[expect(clippy::disallowed_methods, reason = "/proc")]
fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, and ends at the last parenthesis.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    fields.next()?.parse().ok().filter(|_| !state.starts_with('Z'))
}
