//! Backends: ways to confine a command, and the processes by which they start.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use super::plan::Reach;

/// First argument with which lbx starts itself. Users do not call it.
pub const INTERNAL: &str = "__sandbox";
/// Program that a call starts again: lbx itself, even if its file has been replaced.
pub const SELF: &str = "/proc/self/exe";
/// Name of the backend that confines nothing.
pub const NONE: &str = "none";
/// Name of the backend that makes namespaces itself.
pub const NAMESPACES: &str = "namespaces";
/// Name of the backend that confines less than others.
pub const LANDLOCK: &str = "landlock";

/// A way to confine a command.
pub trait Backend: Sync {
    /// Returns its name in responses and in the policy.
    fn name(&self) -> &'static str;

    /// Returns a sentence about its protection.
    fn about(&self) -> &'static str;

    /// Returns true if it can put a layer over the workspace.
    fn takes_layers(&self) -> bool {
        false
    }

    /// Returns the gaps that other backends close.
    fn gaps(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the process that makes the sandbox if it can start before the plan is known. The call gives it its user
    /// ids, unless it enters the network of a peer.
    fn early_command(&self, _network: bool, _peer: Option<u32>) -> Option<Command> {
        None
    }

    /// Returns the process that makes the sandbox, without its descriptors.
    ///
    /// # Errors
    /// Returns the reason if there can be no process.
    fn command(&self, reach: &Reach) -> Result<Command, String>;
}

/// Returns a process that runs a part of a sandbox.
pub fn part(program: impl AsRef<OsStr>, part: &str) -> Command {
    let mut command = Command::new(program);
    command.args([INTERNAL, part]).env_clear();
    command
}

/// Returns the process with one end of the socket as its stdin.
#[must_use]
pub fn with_link(mut command: Command, link: OwnedFd) -> Command {
    command.stdin(Stdio::from(link)).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
