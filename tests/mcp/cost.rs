//! What a small edit costs the system, in a server that runs.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::client::{Client, Workspace};

/// System calls of one edit.
const CALLS_MAX: usize = 350;
/// Calls by which the server's threads wait for each other or get memory: how many there are is chance. A
/// build with debug assertions asks `fcntl` of each file that it closes.
const CHANCE: &str = "trace=!fcntl,futex,epoll_wait,madvise,mprotect,mmap,munmap,brk,sched_yield";

#[test]
fn a_small_edit_in_a_server_takes_few_system_calls() {
    let works =
        Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    if !works.is_ok_and(|status| status.success()) {
        eprintln!("skipped: strace is missing, or may not trace here");
        return;
    }
    let (few, many) = (calls_of(2), calls_of(6));
    let each = many.saturating_sub(few) / 4;
    eprintln!("{each} system calls an edit");
    assert!((50..=CALLS_MAX).contains(&each), "{each} system calls an edit");
}

/// The system calls of a server that makes so many edits.
fn calls_of(edits: usize) -> usize {
    let ws = Workspace::with(&[("d/a.txt", "v0\n"), ("d/b.txt", "b\n")]);
    let log = tempfile::NamedTempFile::new().unwrap();
    let lbx = ws.lbx("", &["mcp"]);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", CHANCE, "-o"]).arg(log.path());
    command.arg(lbx.get_program()).args(lbx.get_args());
    command.current_dir(ws.path(""));
    for (name, value) in lbx.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut client = Client::of(command).greeted();
    client.ok("read", &json!({"path": "d/a.txt"}));
    for number in 0..edits {
        let (old, new) = (format!("v{number}"), format!("v{}", number + 1));
        client.ok("edit", &json!({"path": "d/a.txt", "old_string": old, "new_string": new}));
    }
    client.hang_up();
    client.process.wait().unwrap();
    count(log.path())
}

/// How many system calls begin in a log of strace.
fn count(log: &Path) -> usize {
    let text = std::fs::read_to_string(log).unwrap();
    text.lines().filter(|line| line.contains('(') && !line.contains("resumed")).count()
}
