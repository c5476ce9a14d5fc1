//! A `git gc --prune=now` that runs: it takes objects that no reference names yet, those of a snapshot in
//! the making too, and leaves a branch whose commits are missing.
//!
//! git warns of this and leaves it to the user. A call waits for its end before it makes a snapshot. Any
//! other `git gc` keeps what is younger than two weeks, and is not waited for.

use std::ffi::OsStr;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::CWD;

use super::repo::Repo;
use crate::engine::workspace::fs;

/// The file in which a `git gc` names its process and its machine.
const GC_NAME: &str = "gc.pid";
/// Longest content of it that is read, in bytes.
const GC_BYTES_MAX: u64 = 512;
/// Longest command line that is read, in bytes.
const COMMAND_BYTES_MAX: u64 = 4096;
/// Longest wait: the others in the queue for the workspace's lock wait too.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long until the next look.
const NAP: Duration = Duration::from_millis(5);

/// Waits until no `git gc` takes objects as young as those of a snapshot.
pub fn wait_for_its_end(repo: &Repo) {
    let asked = Instant::now();
    while takes_young_objects(repo) && asked.elapsed() < PATIENCE {
        thread::sleep(NAP);
    }
}

/// Whether a running `git gc` takes even the youngest objects.
fn takes_young_objects(repo: &Repo) -> bool {
    let Ok(Some(named)) = repo.common().read_once(GC_NAME, GC_BYTES_MAX) else { return false };
    let number = named.split(|&byte| byte == b' ').next().and_then(|word| std::str::from_utf8(word).ok());
    // What no longer runs, or runs on another machine, has no such process here.
    let Some(process) = number.and_then(|word| word.parse::<u32>().ok()) else { return false };
    let command = fs::read_at(CWD, OsStr::new(&format!("/proc/{process}/cmdline")), COMMAND_BYTES_MAX);
    let Ok(Some(command)) = command else { return false };
    command.split(|&byte| byte == 0).any(|word| matches!(word, b"--prune=now" | b"--prune=all"))
}
