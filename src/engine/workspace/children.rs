//! The one door by which lbx starts programs.
//!
//! A program gets its stdin, stdout and stderr and nothing else: a caller may have left descriptors open that
//! hold its locks, pipes and folders. Clippy forbids every other way (`clippy.toml`).

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Output};
use std::sync::Once;

use rustix::fs::CWD;

use super::fs;

/// What the system tells of this process.
const STATUS: &str = "/proc/self/status";
/// Most bytes that are read of it.
const STATUS_BYTES_MAX: u64 = 64 << 10;
/// The line with the signals that are ignored, as a mask in hex.
const IGNORED: &str = "SigIgn:";
/// The first descriptor that no program gets.
const FIRST_CLOSED: i32 = 3;

/// Starts a program.
///
/// # Errors
/// Returns the OS error.
#[expect(clippy::disallowed_methods, reason = "the door")]
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    prepare();
    command.spawn()
}

/// Runs a program to its end, with the stdin, stdout and stderr of this process unless the command names others.
///
/// # Errors
/// Returns the OS error.
#[expect(clippy::disallowed_methods, reason = "the door")]
pub fn status(command: &mut Command) -> io::Result<ExitStatus> {
    prepare();
    command.status()
}

/// Runs a program to its end and returns its output.
///
/// # Errors
/// Returns the OS error.
#[expect(clippy::disallowed_methods, reason = "the door")]
pub fn output(command: &mut Command) -> io::Result<Output> {
    prepare();
    command.output()
}

/// Becomes a program; returns only if that fails.
#[expect(clippy::disallowed_methods, reason = "the door")]
pub fn exec(command: &mut Command) -> io::Error {
    prepare();
    command.exec()
}

/// Closes all other descriptors to the program that starts next, and makes its end known to this process.
///
/// A caller that ignores `SIGCHLD` hands that down, and the system then forgets each process as it ends: its
/// status is lost, and whoever waits for one waits for all. A handler, even an empty one, ends that, and no
/// program that is started inherits it.
fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if is_ignored() {
            // Where it cannot be set, nothing is worse than before.
            let _ = signal_hook::flag::register(signal_hook::consts::SIGCHLD, std::sync::Arc::default());
        }
    });
    close_fds::set_fds_cloexec_threadsafe(FIRST_CLOSED, &[]);
}

/// Whether this process ignores the end of its children.
fn is_ignored() -> bool {
    let status = fs::read_at(CWD, STATUS.as_ref(), STATUS_BYTES_MAX).ok().flatten().unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let mask = status.lines().find_map(|line| line.strip_prefix(IGNORED));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal_hook::consts::SIGCHLD - 1)) != 0
}
