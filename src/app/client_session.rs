//! `NAME@parent`: the session of the client process that started this one.
//!
//! A client starts the server and its hooks as processes of its own, so both find the same session, and another
//! window of the client has another.

use std::fs;

use crate::sha256::Sha256;

/// How a name ends that stands for a client's process.
const MARK: &str = "@parent";
/// Programs that start others and are no client.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox"];
/// Hexadecimal digits that tell one process from another.
const DIGITS: usize = 8;
/// Processes between a client and what it starts.
const DEPTH_MAX: usize = 16;

/// A process that runs.
struct Process {
    /// Its id.
    id: u32,
    /// The name of its program.
    name: String,
    /// Its parent's id.
    parent: u32,
    /// When it started, in clock ticks since the boot: ids are used again.
    start: String,
}

impl Process {
    /// The process with that id.
    #[expect(clippy::disallowed_methods, reason = "/proc")]
    fn of(id: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name may hold anything, and ends at the last parenthesis (proc_pid_stat(5)).
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let parent = fields.nth(1)?.parse().ok()?;
        Some(Self { id, name: name.to_owned(), parent, start: fields.nth(17)?.to_owned() })
    }
}

/// The session that a text names: `NAME@parent` is NAME with digits that stand for the client's process.
#[must_use]
pub fn resolved(session: String) -> String {
    match session.strip_suffix(MARK) {
        Some(name) if !name.is_empty() => format!("{name}-{}", digits(&client())),
        _ => session,
    }
}

/// Returns true if a text names the session of a client process.
#[must_use]
pub fn is_of_client(session: &str) -> bool {
    session.ends_with(MARK)
}

/// The nearest process above this one that is no shell; the parent where all are.
fn client() -> (u32, String) {
    let parent = std::os::unix::process::parent_id();
    let above = std::iter::successors(Process::of(parent), |process| Process::of(process.parent));
    let mut programs = above.take(DEPTH_MAX).filter(|process| !SHELLS.contains(&process.name.as_str()));
    programs.next().map_or_else(
        || (parent, Process::of(parent).map(|process| process.start).unwrap_or_default()),
        |process| (process.id, process.start),
    )
}

/// Digits that stand for a process, of all boots of this machine.
#[expect(clippy::disallowed_methods, reason = "/proc")]
fn digits((id, start): &(u32, String)) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut digits = Sha256::of(format!("{boot}{id} {start}").as_bytes()).to_hex();
    digits.truncate(DIGITS);
    digits
}
