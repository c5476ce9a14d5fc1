//! The `lbx` binary: passes its arguments to the front end and exits with its status.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::too_many_lines))]

#[cfg(target_os = "linux")]
use std::process::ExitCode;

#[cfg(not(target_os = "linux"))]
compile_error!(
    "lbx runs on Linux only: its guarantees rest on calls that only this kernel has (openat2, renameat2, namespaces). \
     On macOS and Windows run it in a Linux container, a virtual machine or WSL 2, with the workspace on its own disk."
);

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    ExitCode::from(lbx::cli::main(std::env::args_os().collect(), lbx::mcp::run))
}

#[cfg(not(target_os = "linux"))]
fn main() {}
