//! Calls in a container that end with the call outside.
//!
//! An engine's `exec` leaves the process inside running when whoever asked for it is gone: all that then
//! reaches the inside is the end of its stdin. A tied call is watched over by a process that waits for
//! that, and ends the call. Only a call that takes nothing from stdin can be tied.

use std::ffi::OsString;
use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::engine::workspace::children;

/// The first word of the arguments of a tied call; the call's own follow.
pub const WORD: &str = "__tied";
/// This program.
const SELF: &str = "/proc/self/exe";
/// Exit status where the call could not be started, or was ended.
const FAILED: u8 = 125;

/// Watches over a tied call where the arguments say so; answers its exit status. `None` for the
/// arguments of a user.
#[must_use]
pub fn run_internal(arguments: &[OsString]) -> Option<u8> {
    let [own, word, call @ ..] = arguments else { return None };
    if word != WORD {
        return None;
    }
    // Not every place has a /proc; it was called by its whole path.
    let status = watched(Command::new(SELF).args(call)).or_else(|_| watched(Command::new(own).args(call)));
    Some(status.unwrap_or(FAILED))
}

/// Runs a call until it ends, or until nothing more can come on stdin.
fn watched(call: &mut Command) -> io::Result<u8> {
    /// Set once the call has ended: its number may be another's then.
    static HAS_ENDED: AtomicBool = AtomicBool::new(false);
    let mut child = children::spawn(call.stdin(Stdio::null()))?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    std::thread::spawn(move || {
        // However it ends, nobody is there any more.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        if let Some(pid) = pid.filter(|_| !HAS_ENDED.load(Ordering::SeqCst)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    let status = child.wait()?;
    HAS_ENDED.store(true, Ordering::SeqCst);
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}
