//! What a way to confine a command is, and the processes by which it starts.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use super::plan::Reach;

/// The first word of the arguments with which lbx starts itself. Users do not call it.
pub const INTERNAL: &str = "__sandbox";
/// The program that a call starts again: itself, even where its file has been replaced meanwhile.
pub const SELF: &str = "/proc/self/exe";
/// The name of the backend that confines nothing.
pub const NONE: &str = "none";
/// The name of the backend that makes namespaces itself.
pub const NAMESPACES: &str = "namespaces";
/// The name of the backend that confines less than others.
pub const LANDLOCK: &str = "landlock";

/// A way to confine a command.
pub trait Backend: Sync {
    /// Its name in answers and in the policy.
    fn name(&self) -> &'static str;

    /// What it promises, in a sentence.
    fn about(&self) -> &'static str;

    /// Returns true if it can put a layer over the workspace.
    fn takes_layers(&self) -> bool {
        false
    }

    /// What it does not keep from a command though others do.
    fn gaps(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the process that makes the sandbox if it can start before the plan is known. The call gives it its
    /// user ids, unless it enters the network of a peer.
    fn early_command(&self, _network: bool, _peer: Option<u32>) -> Option<Command> {
        None
    }

    /// The process that makes the sandbox, without its descriptors.
    ///
    /// # Errors
    /// Why there can be none.
    fn command(&self, reach: &Reach) -> Result<Command, String>;
}

/// A process that runs a part of a sandbox.
pub fn part(program: impl AsRef<OsStr>, part: &str) -> Command {
    let mut command = Command::new(program);
    command.args([INTERNAL, part]).env_clear();
    command
}

/// The same process, with one end of the socket as its stdin.
#[must_use]
pub fn with_link(mut command: Command, link: OwnedFd) -> Command {
    command.stdin(Stdio::from(link)).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
