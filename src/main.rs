//! The `lbx` binary: passes its arguments to the front end and exits with its status.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::too_many_lines))]

#[cfg(unix)]
use std::process::ExitCode;

#[cfg(not(unix))]
compile_error!(
    "lbx needs a Unix system: Linux or macOS. On Windows run it in WSL 2: `wsl --install` there, then install lbx in it, \
     and keep the workspace on the disk of WSL, not below /mnt."
);

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

#[cfg(unix)]
fn main() -> ExitCode {
    ExitCode::from(lbx::cli::main(std::env::args_os().collect(), lbx::mcp::run))
}

#[cfg(not(unix))]
fn main() {}
