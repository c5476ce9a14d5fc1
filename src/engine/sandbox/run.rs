//! The call's side of a command in a sandbox: starts it, reads its messages, ends it.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, PipeReader, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::backend::{Backend, StartProcess, with_link};
use super::capture::{Capture, Stream};
use super::control_group::ControlGroup;
use super::namespaces;
use super::outside::Network;
use super::plan::{CommandEnd, GRACE, Order, Report, ReportChannel, SandboxPlan, read_now};
use super::proxy::Proxy;
use super::proxy::hosts::Hosts;
use crate::control::{Control, cancelled};
use crate::engine::workspace::{fs, programs};
use crate::error::{Error, ErrorKind};
use crate::limits::SANDBOX_END_TIME_MAX;
use crate::platform::{other_cpu, process};

/// Longest time between two checks if the call was cancelled.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Time after which the processes of a command move into a control group.
const GROUP_AFTER: Duration = Duration::from_millis(50);
/// Time in which a sandbox must be ready.
const START_TIME_MAX: Duration = Duration::from_secs(10);
/// Time in which output must end after its last writer has ended.
const DRAIN_TIME_MAX: Duration = Duration::from_millis(500);
/// Time between two checks of a process that is about to end.
const NAP: Duration = Duration::from_millis(2);
/// Bytes per read.
const PIECE_BYTES: usize = 64 * 1024;
/// Bytes of a backend's error that are kept.
const REASON_BYTES_MAX: usize = 500;

/// Limits on the run of a command.
#[derive(Debug, Clone)]
pub struct RunBounds {
    /// Its time limit.
    pub time: Duration,
    /// Control that cancels the call.
    pub control: Control,
    /// Control that ends the command; its result is still wanted.
    pub stop: Control,
    /// Control that kills the command at once.
    pub kill: Control,
}

impl RunBounds {
    /// Returns the bounds of a command that does nothing.
    pub fn probe() -> Self {
        let (control, stop, kill) = (Control::default(), Control::default(), Control::default());
        Self { time: START_TIME_MAX, control, stop, kill }
    }
}

/// A command that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRun {
    /// Result of the command.
    pub ended: CommandEnd,
    /// True if the time limit ended it.
    pub timed_out: bool,
    /// True if it was ended on request.
    pub stopped: bool,
    /// True if the system ended a process because all together filled their memory.
    pub was_memory_full: bool,
    /// Time that it ran.
    pub duration: Duration,
    /// Hosts that it asked for and the list does not name, each with its port.
    pub denied_hosts: Vec<String>,
}

/// Reason why a command did not run, or not to its end.
#[derive(Debug)]
pub enum RunFailure {
    /// The backend does not work here; the command has not run.
    Backend(String),
    /// The call was cancelled, or an OS call failed.
    Call(Error),
}

impl From<Error> for RunFailure {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

/// The sandbox that [`Early::begin`] starts.
static BEGUN: Mutex<Option<EarlySandbox>> = Mutex::new(None);

/// A sandbox that starts in its own thread while the call still prepares the plan: both take about as long.
pub struct EarlySandbox {
    /// True if it shares the network of the host.
    network: bool,
    /// Process of a job whose network it shares.
    pub peer: Option<u32>,
    /// Channel for the sandbox, once it has its user ids.
    started: Receiver<Result<StartingSandbox, RunFailure>>,
}

impl EarlySandbox {
    /// Starts the sandbox that most commands need, before the call knows what its command needs. Ends with this process.
    pub fn begin() {
        if let Ok(mut begun) = BEGUN.lock() {
            *begun = Self::start(false, None);
        }
    }

    /// Returns the sandbox of a backend with layers: the one that has begun, if it is right, or a new one. Returns `None`
    /// if there is no thread. The sandbox ends on drop.
    pub fn take_sandbox(network: bool, peer: Option<u32>) -> Option<Self> {
        let begun = BEGUN.lock().ok().and_then(|mut begun| begun.take());
        begun.filter(|early| early.is_for(network, peer)).or_else(|| Self::start(network, peer))
    }

    /// Returns true if it has that network.
    fn is_for(&self, network: bool, peer: Option<u32>) -> bool {
        (self.network, self.peer) == (network, peer)
    }

    /// Starts a sandbox.
    fn start(network: bool, peer: Option<u32>) -> Option<Self> {
        let command = namespaces::early_command(network, peer);
        let (sender, started) = mpsc::channel();
        let start = move || {
            let (alive, is_alive) = mpsc::channel();
            let running = StartingSandbox::start(command, true).map(|mut running| {
                running.child.parent = Some(alive);
                running
            });
            // If nobody receives it, it ends here.
            let _ = sender.send(running);
            // The kernel kills the process when this thread ends.
            let _ = is_alive.recv();
        };
        other_cpu::spawn(start).ok()?;
        Some(Self { network, peer, started })
    }
}

/// Runs a command with a backend; `stdin` is its input. Calls `started` with the process of the sandbox once the command
/// runs.
///
/// When this returns, every process of the command has ended. The OS still removes the sandbox; dropping [`Departing`]
/// waits for that.
///
/// # Errors
/// See [`Failure`]. No process is left in any case.
pub fn run(
    backend: &Backend,
    plan: &SandboxPlan,
    stdin: Option<&[u8]>,
    bounds: &RunBounds,
    (early, output, started): (Option<EarlySandbox>, &mut Capture<'_>, &mut dyn FnMut(u32)),
) -> Result<(CommandRun, EndingProcess), RunFailure> {
    let (network, peer) = (plan.reach.network.is_shared(), plan.reach.peer);
    let early = early.filter(|early| backend.takes_layers() && early.is_for(network, peer));
    let mut running = match (early, backend.start) {
        (Some(early), _) => {
            let ended_early = |_| Err(RunFailure::Backend("its thread ended early".to_owned()));
            early.started.recv().unwrap_or_else(ended_early)?
        }
        (None, StartProcess::Early) => {
            StartingSandbox::start(namespaces::early_command(network, peer), true)?
        }
        (None, StartProcess::Planned(command)) => {
            StartingSandbox::start(command(&plan.reach).map_err(RunFailure::Backend)?, false)?
        }
    };
    running.stdin = stdin.map(feed).transpose().map_err(not_started)?;
    let ended = running.follow(plan, bounds, (output, started))?;
    running.drain(output);
    Ok((ended, std::mem::take(&mut running.child)))
}

/// Returns the failure of a sandbox that the OS does not start.
fn not_started(source: io::Error) -> RunFailure {
    RunFailure::Call(Error::io("start", "a sandbox", source))
}

/// A sandbox that is ready or starts.
struct StartingSandbox {
    /// Process that makes it.
    child: EndingProcess,
    /// Link to its first process; closing it ends the sandbox.
    link: Option<ReportChannel>,
    /// Proxy to a list of hosts.
    proxy: Option<Proxy>,
    /// Stdout and stderr, each until its end.
    outputs: [Option<File>; 2],
    /// Input of the command, until the sandbox has it.
    stdin: Option<PipeReader>,
    /// Start of the process.
    begun: Instant,
    /// Start of the command.
    started: Option<Instant>,
    /// Result of the command.
    ended: Option<CommandEnd>,
    /// True if it has a control group, or cannot have one.
    has_tried_group: bool,
    /// Buffer for one read; empty until the command runs.
    piece: Vec<u8>,
}

/// The process of a sandbox that is about to end. Drop waits for its end, and kills it if that takes too long.
#[derive(Debug, Default)]
pub struct EndingProcess {
    /// Process.
    child: Option<Child>,
    /// Sender that keeps the thread alive that started it.
    parent: Option<Sender<Infallible>>,
    /// Group that bounds the memory of its descendants; removed after its end.
    group: Option<ControlGroup>,
}

impl Drop for EndingProcess {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        if !ends_within(child, SANDBOX_END_TIME_MAX) {
            let _ = child.kill();
        }
        let _ = child.wait();
    }
}

impl StartingSandbox {
    /// Starts the process that makes the sandbox, and gives it its user ids if it `asks_for_ids`.
    fn start(command: Command, asks_for_ids: bool) -> Result<Self, RunFailure> {
        let (ours, theirs) = UnixStream::pair().map_err(not_started)?;
        let mut child = programs::spawn(&mut with_link(command, theirs.into())).map_err(not_started)?;
        // This process starts the command itself, once it has the plan.
        fs::lower_for(&child);
        let stdout = child.stdout.take().map(OwnedFd::from);
        let outputs = [stdout, child.stderr.take().map(OwnedFd::from)].map(|output| output.map(File::from));
        let never_block = |output| rustix::io::ioctl_fionbio(output, true);
        outputs.iter().flatten().try_for_each(never_block).map_err(|errno| not_started(errno.into()))?;
        let process = child.id();
        let mut running = Self {
            child: EndingProcess { child: Some(child), parent: None, group: None },
            link: None,
            proxy: None,
            outputs,
            stdin: None,
            begun: Instant::now(),
            started: None,
            ended: None,
            has_tried_group: false,
            piece: Vec::new(),
        };
        ours.set_write_timeout(Some(START_TIME_MAX)).map_err(not_started)?;
        if asks_for_ids {
            ours.set_read_timeout(Some(START_TIME_MAX)).map_err(not_started)?;
            running.link = Some(greet(ReportChannel::new(ours), process).map_err(RunFailure::Backend)?);
        } else {
            running.link = Some(ReportChannel::new(ours));
        }
        Ok(running)
    }

    /// Follows the command to its end.
    fn follow(
        &mut self,
        plan: &SandboxPlan,
        bounds: &RunBounds,
        (output, started): (&mut Capture<'_>, &mut dyn FnMut(u32)),
    ) -> Result<CommandRun, RunFailure> {
        let mut ending = None;
        self.send(plan);
        loop {
            self.wait(self.time_to_check(ending, bounds))?;
            let had_started = self.started.is_some();
            let is_over = self.listen(plan)?;
            if self.started.is_some() && !had_started {
                started(self.child.child.as_ref().map_or(0, Child::id));
            }
            if self.started.is_some() {
                self.take_output(output);
            }
            if is_over {
                return self.outcome(ending.map(|(cause, _)| cause), bounds);
            }
            ending = self.check_time(ending, bounds)?;
            self.bound_memory(plan.limits.memory_bytes);
        }
    }

    /// Bounds the memory of all processes of a command together, once it has run for a while.
    fn bound_memory(&mut self, bytes: u64) {
        let is_due = self.started.is_some_and(|started| started.elapsed() >= GROUP_AFTER);
        if bytes == 0 || self.has_tried_group || !is_due {
            return;
        }
        self.has_tried_group = true;
        let process = self.child.child.as_ref().map_or(0, Child::id);
        // Without a group, the bound on each process remains.
        self.child.group = ControlGroup::around(process, bytes).ok();
    }

    /// Sends the plan at once: it waits in the socket until the sandbox reads it.
    fn send(&mut self, plan: &SandboxPlan) {
        let reader = self.stdin.take();
        let order = Order::Run(Box::new(plan.clone()));
        // A sandbox that has failed reads nothing, and its link tells the reason.
        let _ = self.link.as_mut().map(|link| link.send(&order, reader.as_ref().map(AsFd::as_fd)));
    }

    /// Returns the time until the next check.
    fn time_to_check(&self, ending: Option<CommandDeadline>, bounds: &RunBounds) -> Duration {
        let left = match (ending, self.started) {
            (Some((_, until)), _) => until.saturating_duration_since(Instant::now()),
            (None, Some(started)) => bounds.time.saturating_sub(started.elapsed()),
            (None, None) => LOOK_INTERVAL,
        };
        // A moment more, so that the time has passed then.
        left.min(LOOK_INTERVAL) + Duration::from_micros(100)
    }

    /// Waits until there is something to do, at most `time`.
    fn wait(&self, time: Duration) -> Result<(), RunFailure> {
        let outputs = self.outputs.iter().flatten().filter(|_| self.started.is_some());
        let sources = self.link.iter().map(ReportChannel::fd).chain(outputs.map(AsFd::as_fd));
        let mut fds: Vec<_> = sources.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = Timespec::try_from(time).ok();
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::io("wait for", "the command", errno).into()),
        }
    }

    /// Handles the messages of the sandbox; returns true if it has ended.
    fn listen(&mut self, plan: &SandboxPlan) -> Result<bool, RunFailure> {
        let system = |source: io::Error| RunFailure::Call(Error::io("talk to", "the sandbox", source));
        while let Some(link) = &mut self.link {
            let Some(report) = link.try_receive::<Report>().map_err(system)? else {
                return if link.is_closed { self.closed().map(|()| true) } else { Ok(false) };
            };
            match report {
                // Only the first report asks for user ids.
                Report::Unshared | Report::Joined | Report::Ready => {}
                Report::Proxy => {
                    if let (Network::Hosts(hosts), Some(listener)) =
                        (&plan.reach.network, link.received.take())
                    {
                        self.proxy = Some(Proxy::start(listener, Hosts::new(hosts)).map_err(not_started)?);
                    }
                }
                Report::Started => self.started = Some(Instant::now()),
                Report::Failed(reason) => return Err(RunFailure::Backend(reason)),
                // No writer is left.
                Report::Ended(ended) => {
                    self.ended = Some(ended);
                    return Ok(true);
                }
            }
        }
        Ok(true)
    }

    /// Handles the end of the link: the sandbox is gone.
    fn closed(&mut self) -> Result<(), RunFailure> {
        if self.started.is_none() {
            return Err(RunFailure::Backend(self.last_words()));
        }
        if self.ended.is_none() {
            let message = "the sandbox was ended from outside before its command was; the system may have run out of memory";
            return Err(Error::new(ErrorKind::IoError, message).into());
        }
        Ok(())
    }

    /// Returns the error of a backend that failed before the command started.
    fn last_words(&mut self) -> String {
        let mut words = Vec::new();
        let mut piece = [0; REASON_BYTES_MAX];
        let deadline = Instant::now() + DRAIN_TIME_MAX;
        while let [_, Some(stderr)] = &mut self.outputs {
            match read_now(stderr, &mut piece) {
                Ok(Some(bytes)) if bytes > 0 && words.len() < REASON_BYTES_MAX => {
                    words.extend_from_slice(piece.get(..bytes).unwrap_or_default());
                }
                Ok(None) if Instant::now() < deadline => std::thread::sleep(NAP),
                _ => break,
            }
        }
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        if words.is_empty() { "its first process ended without a word".to_owned() } else { words }
    }

    /// Reads a piece of each output that has arrived; returns true if there was one.
    fn take_output(&mut self, output: &mut Capture<'_>) -> bool {
        let mut has_some = false;
        self.piece.resize(PIECE_BYTES, 0);
        for (source, stream) in self.outputs.iter_mut().zip([Stream::Stdout, Stream::Stderr]) {
            let Some(from) = source else { continue };
            match read_now(from, &mut self.piece) {
                Ok(Some(0)) | Err(_) => *source = None,
                Ok(Some(bytes)) => {
                    has_some = true;
                    output.add_output(stream, self.piece.get(..bytes).unwrap_or_default());
                }
                Ok(None) => {}
            }
        }
        has_some
    }

    /// Reads the rest of the output after its last writer has ended.
    fn drain(&mut self, output: &mut Capture<'_>) {
        self.link = None;
        while self.take_output(output) {}
    }

    /// Ends a command that has run for too long, or that was cancelled or stopped; returns the end that it is in.
    fn check_time(
        &mut self,
        ending: Option<CommandDeadline>,
        bounds: &RunBounds,
    ) -> Result<Option<CommandDeadline>, RunFailure> {
        let now = Instant::now();
        let is_killed = bounds.kill.should_stop();
        let cause = if bounds.control.should_stop() {
            Some(EndCause::Cancelled)
        } else if is_killed || bounds.stop.should_stop() {
            Some(EndCause::Stopped)
        } else {
            let is_over = self.started.is_some_and(|started| now.duration_since(started) >= bounds.time);
            is_over.then_some(EndCause::Time)
        };
        match (ending, cause) {
            (None, Some(_)) if self.started.is_none() => {
                Err(bounds.control.check().err().unwrap_or_else(cancelled).into())
            }
            (None, None) if self.started.is_none() && now.duration_since(self.begun) > START_TIME_MAX => {
                let seconds = START_TIME_MAX.as_secs();
                Err(RunFailure::Backend(format!("it did not start within {seconds} s")))
            }
            (None, Some(cause)) => {
                // If the sandbox is gone already, the next check of the link shows that.
                let order = if is_killed { Order::Kill } else { Order::End };
                let _ = self.link.as_mut().map(|link| link.send(&order, None));
                Ok(Some((cause, now + GRACE + SANDBOX_END_TIME_MAX)))
            }
            (Some((_, until)), _) if now >= until => {
                Err(Error::new(ErrorKind::IoError, "the command could not be ended").into())
            }
            _ => Ok(ending),
        }
    }

    /// Returns the result of the command, which was ended for a `cause`.
    fn outcome(&self, cause: Option<EndCause>, bounds: &RunBounds) -> Result<CommandRun, RunFailure> {
        if cause == Some(EndCause::Cancelled) {
            return Err(bounds.control.check().err().unwrap_or_else(cancelled).into());
        }
        Ok(CommandRun {
            ended: self.ended.unwrap_or_default(),
            timed_out: cause == Some(EndCause::Time),
            stopped: cause == Some(EndCause::Stopped),
            was_memory_full: self.child.group.as_ref().is_some_and(ControlGroup::was_full),
            duration: self.started.map_or(Duration::ZERO, |started| started.elapsed()),
            denied_hosts: self.proxy.as_ref().map(Proxy::denied).unwrap_or_default(),
        })
    }
}

impl Drop for StartingSandbox {
    /// Closes the link, which ends the sandbox: its first process ends all others.
    fn drop(&mut self) {
        self.link = None;
    }
}

/// Gives a process its user ids when it asks for them. If the process has ended, the link is closed.
fn greet(mut link: ReportChannel, process: u32) -> Result<ReportChannel, String> {
    let unreachable = |error: io::Error| format!("its first process cannot be reached: {error}");
    match link.receive().map_err(unreachable)? {
        Some(Report::Unshared) => {
            namespaces::map_ids(process)?;
            link.send(&Order::Mapped, None).map_err(unreachable)?;
        }
        Some(Report::Failed(reason)) => return Err(reason),
        Some(_) | None => {}
    }
    Ok(link)
}

/// Waits for the end of a process; returns false if it takes longer than `time`.
fn ends_within(child: &mut Child, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    let descriptor = process::end_of(child);
    while let Ok(None) = child.try_wait() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        match (&descriptor, Timespec::try_from(left)) {
            (Some(descriptor), Ok(left)) => {
                let mut ended = [PollFd::new(descriptor, PollFlags::IN)];
                let _ = rustix::event::poll(&mut ended, Some(&left));
            }
            _ => std::thread::sleep(NAP),
        }
    }
    true
}

/// Reason why a command is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndCause {
    /// The time limit has passed.
    Time,
    /// The call was cancelled.
    Cancelled,
    /// Another call stopped it.
    Stopped,
}

/// The end of a command: its reason, and the time at which it must have ended.
type CommandDeadline = (EndCause, Instant);

/// Returns a pipe with the input of a command. A thread writes it; a command that reads no more ends the thread.
fn feed(bytes: &[u8]) -> io::Result<PipeReader> {
    let (reader, mut writer) = io::pipe()?;
    let bytes = bytes.to_vec();
    std::thread::Builder::new().spawn(move || writer.write_all(&bytes))?;
    Ok(reader)
}
