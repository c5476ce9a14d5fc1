//! Finds and starts programs from `PATH`: the only place that does.
//!
//! A program gets its stdin, stdout and stderr and nothing else: a caller may have left descriptors open that
//! hold its locks, pipes and folders. Clippy forbids every other way (`clippy.toml`).

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::Once;

use rustix::fs::CWD;

use super::fs;

/// File in which the kernel describes this process.
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
///
/// Each start calls this. An earlier call makes the first start faster.
pub fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if is_ignored() {
            // If it cannot be set, nothing is worse than before.
            let _ = signal_hook::flag::register(signal_hook::consts::SIGCHLD, std::sync::Arc::default());
        }
    });
    close_fds::set_fds_cloexec_threadsafe(FIRST_CLOSED, &[]);
}

/// Returns true if this process ignores the end of its children.
fn is_ignored() -> bool {
    let status = fs::read_or_empty(CWD, STATUS.as_ref(), STATUS_BYTES_MAX);
    let status = String::from_utf8_lossy(&status);
    let mask = status.lines().find_map(|line| line.strip_prefix(IGNORED));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal_hook::consts::SIGCHLD - 1)) != 0
}

/// Returns the canonical path of a program from `PATH`. `writable` are folders that commands can write to.
///
/// # Errors
/// Returns the reason why the first program of that name was refused, or that it was not found.
#[expect(clippy::disallowed_methods, reason = "programs of PATH, by the path that is started")]
pub fn find(name: &str, writable: &[&Path]) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let mut refused = None;
    for program in folders.filter_map(|folder| std::fs::canonicalize(folder.join(name)).ok()) {
        match obstacle(&program, writable) {
            None => return Ok(program),
            Some(why) => refused = refused.or(Some(format!("{} {why}", program.display()))),
        }
    }
    Err(refused.unwrap_or_else(|| format!("{name} is not installed")))
}

/// Returns why a program is not started: others could have written it.
#[expect(clippy::disallowed_methods, reason = "owners and modes on the way to a program")]
fn obstacle(program: &Path, writable: &[&Path]) -> Option<&'static str> {
    /// Permission of the group and of others to write.
    const WRITABLE: u32 = 0o022;
    /// Only owners remove and rename what a folder holds.
    const STICKY: u32 = 0o1000;
    let is_runnable = |found: &std::fs::Metadata| found.is_file() && found.permissions().mode() & 0o111 != 0;
    if !std::fs::metadata(program).is_ok_and(|found| is_runnable(&found)) {
        return Some("is not a program");
    }
    if writable.iter().any(|folder| program.starts_with(folder)) {
        return Some("lies in a folder that commands can write");
    }
    let own = rustix::process::geteuid().as_raw();
    let found = |path: &Path| std::fs::metadata(path).ok().filter(|found| [0, own].contains(&found.uid()));
    let is_closed = |path: &Path| found(path).is_some_and(|found| found.permissions().mode() & WRITABLE == 0);
    // In a sticky folder, such as /tmp, others cannot replace what belongs to this account.
    let is_sticky = |path: &Path| found(path).is_some_and(|found| found.permissions().mode() & STICKY != 0);
    let mut places = program.ancestors();
    let is_safe =
        places.by_ref().take(2).all(is_closed) && places.all(|path| is_closed(path) || is_sticky(path));
    if !is_safe {
        return Some("lies in a folder that others can write");
    }
    let is_workspace = |folder: &Path| [".git", ".lbx"].iter().any(|mark| folder.join(mark).exists());
    program.ancestors().skip(1).any(is_workspace).then_some("lies in a workspace")
}
