//! The first process of a sandbox: sets up the sandbox, starts the command, adopts every process that loses its parent,
//! and ends with all of them.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal;
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, WaitOptions, WaitStatus, getrlimit, setrlimit};

use super::backend::{SetupResult, with_context};
use super::landlock;
#[cfg(target_os = "linux")]
use super::mounts;
use super::outside::{self, Network};
use super::plan::{CommandEnd, GRACE, Limits, Order, Report, ReportChannel, SandboxPlan};
use super::{environment, privileges};
use crate::engine::store::lock::TemporaryFolder;
use crate::engine::workspace::programs;
#[cfg(target_os = "linux")]
use crate::platform::other_cpu::OtherCpus;
use crate::platform::process;

/// Time that leftover processes have after TERM.
const LEFT_BEHIND_GRACE: Duration = Duration::from_millis(200);
/// Time between two rounds of KILL.
const KILL_NAP: Duration = Duration::from_millis(5);
/// Time after which processes that do not end are left to the kernel.
const KILL_TIME_MAX: Duration = Duration::from_secs(2);
/// Time between two counts of the processes, if the kernel does not limit their number.
const COUNT_INTERVAL: Duration = Duration::from_millis(100);

/// Kind of sandbox that the process is the first of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxKind {
    /// New namespaces, which this process sets up.
    Namespaces,
    /// Namespaces that another program has set up.
    Prepared,
    /// No own namespaces; the command restricts itself before it starts.
    Landlock,
    /// Confined by the system from outside; no own namespaces.
    Seatbelt,
    /// No own namespaces, no restrictions.
    Unconfined,
}

impl SandboxKind {
    /// Returns true if it is the first process of a PID namespace, which ends with it.
    fn has_namespace(self) -> bool {
        matches!(self, Self::Namespaces | Self::Prepared)
    }
}

/// Runs as the first process of a sandbox; its stdin is the link to the call.
///
/// # Errors
/// Fails if the link is invalid; other errors are sent over the link.
pub fn run(kind: SandboxKind) -> SetupResult<()> {
    let mut link = link_on_stdin()?;
    if kind.has_namespace() {
        tie_to_parent()?;
    }
    let order = with_context(link.receive(), "cannot reach the call")?;
    let Some(Order::Run(plan)) = order else { return Ok(()) };
    let stdin = link.received.take();
    let restricted = restrict(kind, &plan);
    serve(kind, &plan, (stdin, restricted), &mut link)
}

/// Runs as the first process of new namespaces, after a fork: `first` is the link to the process that mounts.
///
/// # Errors
/// As [`run`].
#[cfg(target_os = "linux")]
pub(super) fn run_second(
    mut first: ReportChannel,
    others: OtherCpus,
    mut call: ReportChannel,
) -> SetupResult<()> {
    let unreachable = "cannot reach the process that mounts";
    tie_to_parent()?;
    let bound = mounts::process_bound();
    let sent = match mounts::new_proc() {
        Ok(proc) => first.send(&Report::Ready, proc.as_ref().map(AsFd::as_fd)),
        Err(reason) => first.send(&Report::Failed(reason), None),
    };
    with_context(sent, unreachable)?;
    let Some(Order::Run(plan)) = with_context(first.receive(), unreachable)? else { return Ok(()) };
    // Both have to work now. The command may run anywhere.
    let elsewhere = others.move_to_other_cpu();
    let stdin = first.received.take();
    mounts::bound_processes(bound, plan.limits.processes);
    let restricted = restrict(SandboxKind::Namespaces, &plan);
    drop(elsewhere);
    let Some(Order::Mounted) = with_context(first.receive(), unreachable)? else { return Ok(()) };
    drop(first);
    serve(SandboxKind::Namespaces, &plan, (stdin, restricted), &mut call)
}

/// Has this process end with its parent.
fn tie_to_parent() -> SetupResult<()> {
    with_context(process::die_with_parent(Signal::KILL), "cannot tie itself to the call")
}

/// Starts the command, and stays until all processes have ended.
fn serve(
    kind: SandboxKind,
    plan: &SandboxPlan,
    (stdin, restricted): (Option<OwnedFd>, SetupResult<UnixStream>),
    link: &mut ReportChannel,
) -> SetupResult<()> {
    match restricted.and_then(|ended| start(kind, plan, (stdin, ended), link)) {
        Ok(mut family) => family.keep(link),
        Err(reason) => with_context(link.send(&Report::Failed(reason), None), "cannot reach the call"),
    }
}

/// Returns the link to the call, which is this process's stdin.
///
/// # Errors
/// Fails if stdin is not a socket.
pub fn link_on_stdin() -> SetupResult<ReportChannel> {
    let stdin = with_context(std::io::stdin().as_fd().try_clone_to_owned(), "there is no link to the call")?;
    with_context(rustix::net::sockopt::socket_type(&stdin), "there is no link to the call")?;
    Ok(ReportChannel::new(UnixStream::from(stdin)))
}

/// Gives up what the command may not have; returns a socket that becomes readable when a process has ended.
fn restrict(kind: SandboxKind, plan: &SandboxPlan) -> SetupResult<UnixStream> {
    if kind == SandboxKind::Namespaces {
        if !plan.reach.network.is_shared() {
            outside::bring_loopback_up();
        }
        privileges::drop_capabilities()?;
    }
    if !kind.has_namespace() {
        // A new session, unless it has one: keeps the user's terminal from the command.
        let _ = rustix::process::setsid();
        let adopts = process::adopt_orphans();
        with_context(adopts, "cannot take in processes that lose their parent")?;
    }
    limit(&plan.limits, kind.has_namespace())?;
    privileges::seal()?;
    if kind.has_namespace() {
        privileges::filter(true, plan.reach.network.is_shared())?;
    }
    let (ended, teller) = with_context(UnixStream::pair(), "cannot make a pipe")?;
    with_context(ended.set_nonblocking(true), "cannot make a pipe")?;
    let told = signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, teller);
    with_context(told, "cannot watch its processes")?;
    programs::prepare();
    Ok(ended)
}

/// Limits the resources of each process; keeps a limit that is lower already. Processes are counted only in a user
/// namespace of the sandbox, where no others count.
fn limit(limits: &Limits, counts_processes: bool) -> SetupResult<()> {
    let above_zero = |limit: u64| Some(limit).filter(|limit| *limit > 0);
    let limits = [
        (Resource::Core, Some(0)),
        (Resource::Data, above_zero(limits.memory_bytes)),
        (Resource::Fsize, above_zero(limits.file_bytes)),
        (Resource::Nproc, above_zero(limits.processes).filter(|_| counts_processes)),
    ];
    for (resource, limit) in limits {
        let Some(limit) = limit else { continue };
        let most = getrlimit(resource).maximum.map_or(limit, |most| most.min(limit));
        let lowered = Rlimit { current: Some(most), maximum: Some(most) };
        with_context(setrlimit(resource, lowered), format_args!("cannot limit {resource:?}"))?;
    }
    Ok(())
}

/// Starts the command.
fn start(
    kind: SandboxKind,
    plan: &SandboxPlan,
    (stdin, ended): (Option<OwnedFd>, UnixStream),
    link: &mut ReportChannel,
) -> SetupResult<ProcessTree> {
    let proxy = match &plan.reach.network {
        Network::Hosts(_) if kind.has_namespace() => Some(offer_proxy(link)?),
        _ => None,
    };
    let temporary = (kind == SandboxKind::Landlock).then(TemporaryFolder::new).transpose();
    let temporary = with_context(temporary, "cannot make a folder for temporary files")?;
    let main = start_command(kind, plan, (temporary.as_ref(), proxy), stdin)?;
    with_context(link.send(&Report::Started, None), "cannot reach the call")?;
    // The kernel counts processes by user and namespace, but never those of root.
    let is_bounded = kind.has_namespace() && !rustix::process::geteuid().is_root();
    let counted_max = usize::try_from(plan.limits.processes).ok().filter(|most| *most > 0 && !is_bounded);
    Ok(ProcessTree {
        main,
        ended,
        result: None,
        left_running: 0,
        counted_max,
        next_count: Instant::now() + COUNT_INTERVAL,
        had_too_many: false,
        _temporary: temporary,
    })
}

/// Sends the call a listening socket for the proxy; returns its port on the loopback device.
fn offer_proxy(link: &mut ReportChannel) -> SetupResult<u16> {
    let what = "cannot offer a proxy";
    let listener = with_context(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)), what)?;
    let port = with_context(listener.local_addr(), what)?.port();
    with_context(link.send(&Report::Proxy, Some(listener.as_fd())), what)?;
    Ok(port)
}

/// Starts the command; returns its process.
fn start_command(
    kind: SandboxKind,
    plan: &SandboxPlan,
    (temporary, proxy): (Option<&TemporaryFolder>, Option<u16>),
    stdin: Option<OwnedFd>,
) -> SetupResult<u32> {
    let stdin = stdin.map_or_else(Stdio::null, Stdio::from);
    let mut command = match temporary {
        Some(temporary) => landlock::restricted(plan, temporary)?,
        None => plan.command()?,
    };
    // Seatbelt leaves `/tmp` where it is, and closed.
    let folder = plan.reach.temporary.as_ref().filter(|_| kind == SandboxKind::Seatbelt);
    command.envs(folder.map(|folder| (environment::TEMPORARY, folder)));
    command.envs(proxy.into_iter().flat_map(|port| environment::of_proxy(port, &plan.environment)));
    let what = "cannot start the command";
    // If the command named the folder itself, it would be started by a fork, which copies this process.
    with_context(rustix::process::chdir(&plan.workdir), what)?;
    let spawned = programs::spawn(command.stdin(stdin).process_group(0));
    // The handle is not waited for: `Family` reaps every process.
    Ok(with_context(spawned, what)?.id())
}

/// The command and all its descendants.
struct ProcessTree {
    /// Process of the command.
    main: u32,
    /// Becomes readable when a process has ended.
    ended: UnixStream,
    /// Exit status of the command, once it has ended.
    result: Option<WaitStatus>,
    /// Number of processes that still ran then.
    left_running: u32,
    /// Largest number of processes, if this process has to count them.
    counted_max: Option<usize>,
    /// Time of the next count.
    next_count: Instant,
    /// True if there were more processes.
    had_too_many: bool,
    /// Folder for their temporary files, if it is not in a file system of its own.
    _temporary: Option<TemporaryFolder>,
}

/// Progress of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndPhase {
    /// The command runs.
    Running,
    /// All processes got TERM, and have time until the given moment.
    Ending(Instant),
    /// All processes get KILL, until the given moment.
    Killing(Instant),
}

impl EndPhase {
    /// Returns the phase in which all processes are killed; keeps its start if it has begun.
    fn killing(self) -> Self {
        match self {
            Self::Killing(_) => self,
            Self::Running | Self::Ending(_) => Self::Killing(Instant::now() + KILL_TIME_MAX),
        }
    }
}

impl ProcessTree {
    /// Waits until all processes have ended, and reports how the command ended.
    fn keep(&mut self, link: &mut ReportChannel) -> SetupResult<()> {
        let mut phase = EndPhase::Running;
        while self.take_in() {
            phase = self.advance(phase);
            if matches!(phase, EndPhase::Killing(until) if Instant::now() > until) {
                break;
            }
            self.wait(link.fd(), phase);
            match link.try_receive::<Order>() {
                Ok(Some(Order::End)) if phase == EndPhase::Running => {
                    Self::signal_all(Signal::TERM);
                    phase = EndPhase::Ending(Instant::now() + GRACE);
                }
                Ok(Some(Order::Kill)) => phase = phase.killing(),
                Ok(None) if !link.is_closed => {}
                Ok(Some(_)) => {}
                // The call is gone: nobody waits for the command.
                Ok(None) | Err(_) => phase = phase.killing(),
            }
        }
        with_context(link.send(&Report::Ended(self.report()), None), "cannot reach the call")
    }

    /// Moves a phase on as time passes and the command ends.
    fn advance(&mut self, phase: EndPhase) -> EndPhase {
        match phase {
            EndPhase::Running if self.has_too_many() => {
                self.had_too_many = true;
                self.advance(phase.killing())
            }
            EndPhase::Running if self.result.is_some() => {
                self.left_running = u32::try_from(process::descendants(None).len()).unwrap_or(u32::MAX);
                Self::signal_all(Signal::TERM);
                EndPhase::Ending(Instant::now() + LEFT_BEHIND_GRACE)
            }
            EndPhase::Ending(until) if Instant::now() >= until => self.advance(phase.killing()),
            EndPhase::Killing(_) => {
                Self::signal_all(Signal::KILL);
                phase
            }
            EndPhase::Running | EndPhase::Ending(_) => phase,
        }
    }

    /// Returns true if it is time for a count, and there are too many processes.
    fn has_too_many(&mut self) -> bool {
        let now = Instant::now();
        let Some(most) = self.counted_max.filter(|_| now >= self.next_count) else { return false };
        self.next_count = now + COUNT_INTERVAL;
        process::descendants(None).len() > most
    }

    /// Reaps every process that has ended; returns true if any is left.
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

    /// Waits until a process has ended, the call sends a message, or the phase has to move on.
    fn wait(&mut self, link: BorrowedFd<'_>, phase: EndPhase) {
        let timeout = match phase {
            EndPhase::Running => {
                self.counted_max.map(|_| self.next_count.saturating_duration_since(Instant::now()))
            }
            EndPhase::Ending(until) => Some(until.saturating_duration_since(Instant::now())),
            EndPhase::Killing(_) => Some(KILL_NAP),
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds =
            [PollFd::from_borrowed_fd(link, PollFlags::IN), PollFd::new(&self.ended, PollFlags::IN)];
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
        let mut told = [0; 64];
        while self.ended.read(&mut told).is_ok_and(|bytes| bytes == told.len()) {}
    }

    /// Sends a signal to every process.
    fn signal_all(signal: Signal) {
        // It is no error if a process has already ended.
        if std::process::id() == 1 {
            let signal = if signal == Signal::KILL { signal::SIGKILL } else { signal::SIGTERM };
            let _ = signal::kill(Pid::from_raw(-1), signal);
            return;
        }
        for pid in process::descendants(None) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
    }

    /// Returns how the command ended, and the resources that all processes used.
    fn report(&self) -> CommandEnd {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
        let milliseconds = |time: nix::sys::time::TimeVal| {
            let whole = u64::try_from(time.tv_sec()).unwrap_or_default() * 1000;
            whole + u64::try_from(time.tv_usec()).unwrap_or_default() / 1000
        };
        let cpu_ms = usage.map_or(0, |usage| milliseconds(usage.user_time() + usage.system_time()));
        let peak = usage.map_or(0, |usage| u64::try_from(usage.max_rss()).unwrap_or_default());
        CommandEnd {
            exit_code: self.result.and_then(WaitStatus::exit_status),
            signal: self.result.and_then(WaitStatus::terminating_signal),
            left_running: self.left_running,
            had_too_many: self.had_too_many,
            cpu_ms,
            peak_memory_bytes: peak.saturating_mul(process::MEMORY_UNIT),
        }
    }
}
