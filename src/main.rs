//! The `lbx` binary: hands what the shell gave it to the front end and exits with its status.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(lbx::cli::main(std::env::args_os().collect(), lbx::mcp::run))
}
