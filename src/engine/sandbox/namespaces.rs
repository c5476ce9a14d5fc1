//! Backends with namespaces.
//!
//! `namespaces` needs no other program: it makes user, mount, PID, network, IPC and UTS namespaces in two processes.
//! The first leaves the host's namespaces, gets its user ids from the call, and forks the second, which is the first
//! of the new PID namespace: `init`. While that one gets ready, the first mounts the file system of both.
//!
//! ```text
//! call                first process         second process (init)
//! start ----------->  unshare
//! map user ids <----  Unshared
//! Mapped              fork -------------->  make a /proc
//! Run ------------->  Run --------------->  give up privileges
//!                     mount <-------------  Ready, with that /proc
//!                     Mounted ----------->  start the command, talk with the call
//! ```
//!
//! `bubblewrap` leaves the namespaces to `bwrap`, which systems that restrict user namespaces often allow.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use fork::Fork;
use nix::sched::{CloneFlags, setns, unshare};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use super::backend::{INTERNAL, SetupResult, part, with_context};
use super::caches::CacheView;
use super::mounts::{RUNTIME, STATE_SHOWN, TEMPORARY, TEMPORARY_BYTES};
use super::outside::{Network, VisibleDisk};
use super::plan::{Access, HiddenPath, Order, Report, ReportChannel};
use super::{init, mounts};
use crate::engine::workspace::programs;
use crate::platform::other_cpu::OtherCpus;
use crate::platform::process::program_path;

/// Variable that lets the command share the host's network.
const NETWORK: &str = "LBX_SANDBOX_NETWORK";

/// Variable that names a process whose network and user namespace the command shares.
const PEER: &str = "LBX_SANDBOX_PEER";

/// Returns the first process, which can start before the plan is known: it shares the network of the host or of `peer`.
/// The call gives it its user ids, unless it enters the network of a peer.
pub fn early_command(network: bool, peer: Option<u32>) -> Command {
    let mut command = part(program_path(), "namespaces");
    command.envs(peer.map(|peer| (PEER, peer.to_string())));
    if network {
        command.env(NETWORK, "1");
    }
    command
}

/// Runs as the first of the two processes, and after the fork as either.
///
/// # Errors
/// Fails if there is no link; other errors are sent over the link.
pub(super) fn run() -> SetupResult<()> {
    let mut link = init::link_on_stdin()?;
    // A new session keeps the user's terminal from the command.
    let _ = rustix::process::setsid();
    let made = match enter_namespaces_and_fork(&mut link) {
        Ok(ForkSide::Second(first, others)) => return init::run_second(first, others, link),
        Ok(ForkSide::First(second)) => second.run(&mut link),
        Err(reason) => Err(reason),
    };
    made.or_else(|reason| with_context(link.send(&Report::Failed(reason), None), "cannot reach the call"))
}

/// This process after the fork.
enum ForkSide {
    /// It is the first process.
    First(SecondProcess),
    /// It is the second one, with its link to the first, and the processors that the first is not on.
    Second(ReportChannel, OtherCpus),
}

/// Enters new namespaces, tells the call so, and forks. The second process gets ready while the call sets the user ids.
fn enter_namespaces_and_fork(call: &mut ReportChannel) -> SetupResult<ForkSide> {
    let what = "cannot start the first process of the sandbox";
    let is_joined = join_peer()?;
    enter_namespaces(is_joined)?;
    let report = if is_joined { Report::Joined } else { Report::Unshared };
    with_context(call.send(&report, None), "cannot reach the call")?;
    // A new root becomes that of the second process as well, and its working directory if it was the old root.
    with_context(rustix::process::chdir("/"), what)?;
    let (ours, theirs) = with_context(UnixStream::pair(), what)?;
    let others = OtherCpus::find();
    // This process has one thread, so that nothing is left half-done in its copy.
    match with_context(fork::fork(), what)? {
        Fork::Child => Ok(ForkSide::Second(ReportChannel::new(theirs), others)),
        Fork::Parent(id) => {
            let id = Pid::from_raw(id).ok_or_else(|| what.to_owned())?;
            Ok(ForkSide::First(SecondProcess { id, link: ReportChannel::new(ours), is_mapped: is_joined }))
        }
    }
}

/// Enters the network of a peer, through the user namespace that owns it; returns false if no peer is named or it has
/// ended.
#[expect(clippy::disallowed_methods, reason = "/proc")]
fn join_peer() -> SetupResult<bool> {
    let Ok(peer) = std::env::var(PEER) else { return Ok(false) };
    let opened = ["user", "net"].map(|name| fs::File::open(format!("/proc/{peer}/ns/{name}")));
    let [Ok(user), Ok(net)] = opened else { return Ok(false) };
    let joined = setns(user, CloneFlags::CLONE_NEWUSER).and_then(|()| setns(net, CloneFlags::CLONE_NEWNET));
    with_context(joined, "cannot enter the network of a job").map(|()| true)
}

/// Enters new namespaces; from then on, this process dies with the call.
fn enter_namespaces(is_joined: bool) -> SetupResult<()> {
    let mut flags = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    if !is_joined {
        flags |= CloneFlags::CLONE_NEWUSER;
    }
    if !is_joined && std::env::var_os(NETWORK).is_none() {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    with_context(unshare(flags), "the system does not let a user namespace be made")?;
    // Set this last: new credentials would reset it.
    let dies_with_call = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    with_context(dies_with_call, "cannot tie itself to the call")
}

/// The second process.
struct SecondProcess {
    /// Its id.
    id: Pid,
    /// Link to it. At the end of this link, a process without a file system ends.
    link: ReportChannel,
    /// True if both processes have their user ids.
    is_mapped: bool,
}

impl SecondProcess {
    /// Mounts its file system, hands the call over to it, and waits until the sandbox has ended.
    fn run(mut self, call: &mut ReportChannel) -> SetupResult<()> {
        let mounted = self.mount(call);
        drop(self.link);
        let ended = rustix::io::retry_on_intr(|| waitpid(Some(self.id), WaitOptions::empty()));
        let ended = with_context(ended, "cannot wait for the first process of the sandbox")?;
        mounted?;
        match ended.and_then(|(_, status)| status.terminating_signal()) {
            Some(signal) => Err(format!("the first process of the sandbox was ended by signal {signal}")),
            None => Ok(()),
        }
    }

    /// Mounts its file system, and hands the call over to it.
    fn mount(&mut self, call: &mut ReportChannel) -> SetupResult<()> {
        let what = "cannot reach the first process of the sandbox";
        if !self.is_mapped {
            let Some(Order::Mapped) = with_context(call.receive(), "cannot reach the call")? else {
                return Ok(());
            };
        }
        let Some(order) = with_context(call.receive_line(), "cannot reach the call")? else { return Ok(()) };
        let stdin = call.received.take();
        with_context(self.link.send_line(&order, stdin.as_ref().map(AsFd::as_fd)), what)?;
        let order = with_context(serde_json::from_slice(&order), "the plan cannot be read")?;
        let Order::Run(plan) = order else { return Ok(()) };
        let mut take_proc = || match with_context(self.link.receive(), what)? {
            Some(Report::Ready) => Ok(self.link.received.take()),
            Some(Report::Failed(reason)) => Err(reason),
            _ => Err("the first process of the sandbox ended early".to_owned()),
        };
        mounts::confine(&plan.reach, &mut take_proc)?;
        with_context(self.link.send(&Order::Mounted, None), what)
    }
}

/// Gives the user namespace of a process its user and group ids: all ids of this process if it may pass them on, else
/// its own user and group alone.
///
/// # Errors
/// Returns the OS error.
#[expect(clippy::disallowed_methods, reason = "/proc")]
pub(super) fn map_ids(process: u32) -> SetupResult<()> {
    let folder = format!("/proc/{process}");
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let map_all = || {
        let all = |name: &str| -> std::io::Result<()> {
            let own = fs::read_to_string(format!("/proc/self/{name}"))?;
            fs::write(format!("{folder}/{name}"), identity(&own))
        };
        all("uid_map").and_then(|()| all("gid_map"))
    };
    if uid == 0 && map_all().is_ok() {
        return Ok(());
    }
    let has_uid = fs::read_to_string(format!("{folder}/uid_map")).is_ok_and(|map| !map.is_empty());
    map_own_ids(&folder, (uid, gid), has_uid)
}

/// Gives the user namespace of a process, by its folder of `/proc`, one user id, unless it has that, and one group id.
///
/// # Errors
/// Returns the OS error.
#[expect(clippy::disallowed_methods, reason = "/proc")]
pub(super) fn map_own_ids(folder: &str, (uid, gid): (u32, u32), has_uid: bool) -> SetupResult<()> {
    let map = |name: &str, id: u32| fs::write(format!("{folder}/{name}"), format!("{id} {id} 1\n"));
    let denied = fs::write(format!("{folder}/setgroups"), "deny");
    with_context(denied, "cannot give up supplementary groups")?;
    if !has_uid {
        with_context(map("uid_map", uid), "cannot map the user")?;
    }
    with_context(map("gid_map", gid), "cannot map the group")
}

/// Returns a map of ids that maps each id of `own` to itself.
fn identity(own: &str) -> String {
    let line = |line: &str| {
        let mut fields = line.split_whitespace();
        let (first, count) = (fields.next()?, fields.nth(1)?);
        Some(format!("{first} {first} {count}\n"))
    };
    own.lines().filter_map(line).collect()
}

/// Program of the backend.
const PROGRAM: &str = "bwrap";
/// Path of lbx itself in the sandbox.
const OWN_PLACE: &str = "/run/lbx";
/// Capabilities that root keeps, as with the other backend.
const KEPT_BY_ROOT: [&str; 6] =
    ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_SETGID", "CAP_SETUID"];
/// Parts of `/proc` that show or change the whole machine, and that only root could write.
const PROC_READ_ONLY: [&str; 3] = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq"];

/// Returns the process of `bwrap`.
///
/// # Errors
/// Returns the reason if it is missing, or cannot protect a path.
pub fn bubblewrap(reach: &Access) -> Result<Command, String> {
    let writable: Vec<&Path> = std::iter::once(&reach.root).chain(&reach.writable).map(Path::new).collect();
    let program = programs::find(PROGRAM, &writable)?;
    #[expect(clippy::disallowed_methods, reason = "this program, by its link in /proc")]
    let own =
        fs::canonicalize(program_path()).map_err(|error| format!("lbx does not find itself: {error}"))?;
    let root = Path::new(&reach.root);
    let is_link = |path: &&OsString| rustix::fs::readlink(root.join(path), Vec::new()).is_ok();
    if let Some(link) = reach.protected.iter().find(is_link) {
        return Err(format!("bwrap cannot protect {}, which is a link", link.display()));
    }
    let mut command = Command::new(program);
    command.args(arguments(reach, &own)?).env_clear();
    Ok(command)
}

/// Returns its arguments, in the order of its mounts.
#[expect(clippy::disallowed_methods, reason = "folders of the system, by fixed names")]
fn arguments(reach: &Access, own: &Path) -> Result<Vec<OsString>, String> {
    let mut list = Arguments(Vec::new());
    list.words(&["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--as-pid-1"]);
    list.words(&["--die-with-parent", "--new-session"]);
    if rustix::process::geteuid().is_root() {
        list.words(&["--cap-drop", "ALL"]);
        KEPT_BY_ROOT.iter().for_each(|capability| list.words(&["--cap-add", capability]));
    } else {
        list.words(&["--unshare-user"]);
    }
    if !reach.network.is_shared() {
        list.words(&["--unshare-net"]);
    }
    list.words(&["--proc", "/proc", "--dev", "/dev"]);
    let in_proc = PROC_READ_ONLY.iter().filter(|path| Path::new(path).exists());
    in_proc.for_each(|path| list.bind("--ro-bind", path));
    list.memory("/dev/shm");
    list.words(&["--remount-ro", "/dev"]);
    list.temporary(reach);
    list.add_visible_paths(&reach.outside);
    reach.caches.iter().for_each(|view| list.cache(view, &reach.network));
    list.0.extend(["--ro-bind".into(), own.into(), OWN_PLACE.into()]);
    let (above, others): (Vec<&HiddenPath>, Vec<&HiddenPath>) =
        reach.hidden.iter().partition(|hidden| reach.is_above_own(Path::new(&hidden.path)));
    above.iter().for_each(|hidden| list.paths("--tmpfs", &[&hidden.path]));
    for folder in reach.visible_folders() {
        list.bind(if reach.is_read_only(&folder) { "--ro-bind" } else { "--bind" }, &folder);
    }
    reach.pinned.iter().for_each(|path| list.bind("--bind", path));
    reach.settled.iter().for_each(|path| list.bind("--ro-bind", path));
    others.into_iter().for_each(|hidden| list.hide(hidden));
    reach.channels()?.into_iter().for_each(|path| list.hide(&HiddenPath { path, is_folder: false }));
    let above = reach.below_root(reach.folders_above_protected()?);
    above.for_each(|path| list.bind("--bind-try", path));
    reach.below_root(&reach.protected).for_each(|path| list.bind("--ro-bind-try", path));
    for path in reach.below_root(&reach.states) {
        list.paths("--tmpfs", &[&path]);
        STATE_SHOWN.iter().for_each(|name| list.bind("--ro-bind-try", path.join(name)));
        list.paths("--remount-ro", &[&path]);
    }
    reach.outside.links.iter().for_each(|(link, target)| list.paths("--symlink", &[target, link]));
    list.words(&["--remount-ro", "/", "--chdir", "/", "--", OWN_PLACE, INTERNAL, "prepared"]);
    Ok(list.0)
}

/// A growing list of arguments.
struct Arguments(Vec<OsString>);

impl Arguments {
    /// Adds words.
    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    /// Adds an option with its paths.
    fn paths<P: AsRef<OsStr>>(&mut self, option: &str, paths: &[P]) {
        self.0.push(option.into());
        self.0.extend(paths.iter().map(|path| path.as_ref().to_owned()));
    }

    /// Adds an option that mounts a path onto itself.
    fn bind(&mut self, option: &str, path: impl AsRef<OsStr>) {
        self.paths(option, &[&path, &path]);
    }

    /// Adds the visible paths outside.
    fn add_visible_paths(&mut self, outside: &VisibleDisk) {
        // A folder that bwrap creates as a mount point is closed to other users.
        let shown = outside.shown.iter().map(Path::new);
        let mut folders: BTreeSet<&Path> = shown.filter_map(Path::parent).collect();
        folders.extend(outside.home.iter().map(Path::new).chain([Path::new(RUNTIME)]));
        folders.extend(outside.links.iter().filter_map(|(link, _)| Path::new(link).parent()));
        folders.iter().for_each(|folder| self.paths("--dir", &[folder]));
        outside.shown.iter().for_each(|path| self.bind("--ro-bind-try", path));
    }

    /// Adds the folders that replace a cache.
    #[expect(clippy::disallowed_methods, reason = "folders of the session, in lbx's own state")]
    fn cache(&mut self, view: &CacheView, network: &Network) {
        for (plain, place) in view.plain(network) {
            // A command also runs without its cache.
            if fs::create_dir_all(&plain).is_ok() {
                self.paths("--bind", &[plain, place]);
            }
        }
    }

    /// Adds the folders for temporary files.
    fn temporary(&mut self, reach: &Access) {
        for path in TEMPORARY {
            match &reach.temporary {
                Some(folder) => self.paths("--bind", &[folder.as_os_str(), OsStr::new(path)]),
                None => self.memory(path),
            }
        }
    }

    /// Adds a folder for temporary files in memory.
    fn memory(&mut self, path: &str) {
        self.words(&["--perms", "1777", "--size", &TEMPORARY_BYTES.to_string(), "--tmpfs", path]);
    }

    /// Adds options that make a path appear empty.
    fn hide(&mut self, hidden: &HiddenPath) {
        if hidden.is_folder {
            self.paths("--tmpfs", &[&hidden.path]);
            self.paths("--remount-ro", &[&hidden.path]);
        } else {
            self.0.extend(["--ro-bind".into(), "/dev/null".into(), hidden.path.clone()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::identity;

    #[test]
    fn user_namespace_maps_every_id_to_itself() {
        assert_eq!(identity("         0          0 4294967295\n"), "0 0 4294967295\n");
        assert_eq!(identity("0 1000 1\n1 100000 65536\n"), "0 0 1\n1 1 65536\n");
    }
}
