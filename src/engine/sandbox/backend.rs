//! Backends: ways to confine a command, the processes by which they start, and the results of their steps.

use std::ffi::OsStr;
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use super::plan::Access;

/// First argument with which lbx starts itself. Users do not call it.
pub const INTERNAL: &str = "__sandbox";
/// Name of the backend that confines nothing.
pub const NONE: &str = "none";
/// Name of the backend that makes namespaces itself.
pub const NAMESPACES: &str = "namespaces";
/// Name of the backend that confines less than others.
pub const LANDLOCK: &str = "landlock";

/// A way to confine a command.
#[derive(Debug)]
pub struct Backend {
    /// Its name in responses and in the policy.
    pub name: &'static str,
    /// A sentence about its protection.
    pub about: &'static str,
    /// Gaps that other backends close.
    pub gaps: &'static [&'static str],
    /// Process that makes the sandbox.
    pub start: StartProcess,
}

/// The process that makes a sandbox, without its descriptors.
#[derive(Debug, Clone, Copy)]
pub enum StartProcess {
    /// lbx makes the namespaces, and can put a layer over the workspace. The process starts before its plan is known.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "no other system has layers"))]
    Early,
    /// The process depends on the access of the command; the error is the reason if there can be none.
    Planned(fn(&Access) -> Result<Command, String>),
}

impl Backend {
    /// Returns true if it can put a layer over the workspace.
    pub const fn takes_layers(&self) -> bool {
        matches!(self.start, StartProcess::Early)
    }
}

/// Returns a process that runs a part of a sandbox.
pub fn part(program: impl AsRef<OsStr>, part: &str) -> Command {
    let mut command = Command::new(program);
    command.args([INTERNAL, part]).env_clear();
    command
}

/// Returns the process with one end of the socket as its stdin.
pub fn with_link(mut command: Command, link: OwnedFd) -> Command {
    command.stdin(Stdio::from(link)).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Result of a step; the error is text for the response.
pub type SetupResult<T> = Result<T, String>;

/// Adds the name of the failed step to an error.
pub fn with_context<T, E: Display>(result: Result<T, E>, what: impl Display) -> SetupResult<T> {
    result.map_err(|error| format!("{what}: {error}"))
}
