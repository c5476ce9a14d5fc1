//! The backend that needs no other program: user, mount, PID, network, IPC and UTS namespaces.
//!
//! It takes two processes. The first parts from the system's namespaces, is given its user ids by
//! the call, and starts the second, which is the first of the new PID namespace: `init`.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use nix::sched::{CloneFlags, setns, unshare};
use rustix::process::Signal;

use super::backend::{Backend, NAMESPACES, SELF, part};
use super::plan::{Order, Reach, Report};
use super::setup::{SetupResult, doing};
use super::{init, privileges};
use crate::engine::workspace::children;

/// The word that lets the command share the machine's network.
const NETWORK: &str = "LBX_SANDBOX_NETWORK";

/// The word that names a process whose network the command shares, with its user namespace.
const PEER: &str = "LBX_SANDBOX_PEER";

/// The backend.
pub struct Namespaces;

impl Backend for Namespaces {
    fn name(&self) -> &'static str {
        NAMESPACES
    }

    fn about(&self) -> &'static str {
        "Linux namespaces, made by lbx itself: outside the workspace only programs and toolchains, read-only; no other processes, no network"
    }

    fn takes_layers(&self) -> bool {
        true
    }

    fn early_command(&self, network: bool, peer: Option<u32>) -> Option<Command> {
        let mut command = part(SELF, "namespaces");
        command.envs(peer.map(|peer| (PEER, peer.to_string())));
        if network {
            command.env(NETWORK, "1");
        }
        Some(command)
    }

    fn command(&self, reach: &Reach) -> Result<Command, String> {
        self.early_command(reach.network.is_shared(), reach.peer)
            .ok_or_else(|| "it has no process".to_owned())
    }
}

/// Runs as the first of the two processes.
///
/// # Errors
/// Where there is no link; else errors are told over it.
pub(super) fn run() -> SetupResult<()> {
    let mut link = init::link_on_stdin()?;
    // A session of its own: the user's terminal is not the command's.
    let _ = rustix::process::setsid();
    let made = join_peer().and_then(|is_joined| {
        part_from_system(is_joined)?;
        if is_joined {
            doing(link.send(&Report::Joined, None), "cannot reach the call")?;
            return run_second();
        }
        doing(link.send(&Report::Unshared, None), "cannot reach the call")?;
        match doing(link.receive(), "cannot reach the call")? {
            Some(Order::Mapped) => run_second(),
            _ => Ok(()),
        }
    });
    made.or_else(|reason| doing(link.send(&Report::Failed(reason), None), "cannot reach the call"))
}

/// Enters the network of a peer, by way of its user namespace, which owns it. False if no peer is named or it is gone.
#[expect(clippy::disallowed_methods, reason = "/proc")]
fn join_peer() -> SetupResult<bool> {
    let Ok(peer) = std::env::var(PEER) else { return Ok(false) };
    let opened = ["user", "net"].map(|name| fs::File::open(format!("/proc/{peer}/ns/{name}")));
    let [Ok(user), Ok(net)] = opened else { return Ok(false) };
    let joined = setns(user, CloneFlags::CLONE_NEWUSER).and_then(|()| setns(net, CloneFlags::CLONE_NEWNET));
    doing(joined, "cannot enter the network of a job").map(|()| true)
}

/// Gets namespaces of its own, and dies with the call from then on.
fn part_from_system(is_joined: bool) -> SetupResult<()> {
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
    doing(unshare(flags), "the system does not let a user namespace be made")?;
    // Afterwards: new credentials would undo it.
    let dies_with_call = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    doing(dies_with_call, "cannot tie itself to the call")
}

/// Starts the second process, and waits until the sandbox has ended.
fn run_second() -> SetupResult<()> {
    privileges::hand_down()?;
    let second = children::status(&mut part(SELF, "init"));
    let status = doing(second, "cannot start the first process of the sandbox")?;
    match status.signal() {
        Some(signal) => Err(format!("the first process of the sandbox was ended by signal {signal}")),
        None => Ok(()),
    }
}

/// Gives the namespace of a process its user and group ids: all of this process's own where it may
/// give those, else its own user and group alone.
///
/// # Errors
/// What the system says.
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
    let map = |name: &str, id: u32| fs::write(format!("{folder}/{name}"), format!("{id} {id} 1\n"));
    let mapped = fs::read_to_string(format!("{folder}/uid_map")).is_ok_and(|map| !map.is_empty());
    let denied = fs::write(format!("{folder}/setgroups"), "deny");
    doing(denied, "cannot give up supplementary groups")?;
    if !mapped {
        doing(map("uid_map", uid), "cannot map the user")?;
    }
    doing(map("gid_map", gid), "cannot map the group")
}

/// A map of ids in which each id of `own` is itself.
fn identity(own: &str) -> String {
    let line = |line: &str| {
        let mut fields = line.split_whitespace();
        let (first, count) = (fields.next()?, fields.nth(1)?);
        Some(format!("{first} {first} {count}\n"))
    };
    own.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::identity;

    #[test]
    fn every_id_stays_what_it_is() {
        assert_eq!(identity("         0          0 4294967295\n"), "0 0 4294967295\n");
        assert_eq!(identity("0 1000 1\n1 100000 65536\n"), "0 0 1\n1 1 65536\n");
    }
}
