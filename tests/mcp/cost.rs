//! Cost of a small edit in a running server.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::client::{Client, Workspace};
use crate::kept::OLD_AFTER;
use crate::skip::can_trace;

/// Largest number of system calls of one edit.
const CALLS_MAX: usize = 310;
/// Filter without the calls by which the server's threads wait for each other or get memory: their number varies. A
/// build with debug assertions calls `fcntl` for each file that it closes.
const CHANCE: &str = "trace=!fcntl,futex,epoll_wait,madvise,mprotect,mmap,munmap,brk,sched_yield";

#[test]
fn small_edit_in_a_server_makes_few_system_calls() {
    let Some(each) = per_call(edit, |_| true) else { return };
    assert!((50..=CALLS_MAX).contains(&each), "{each} system calls an edit");
}

#[test]
fn server_does_not_reread_cached_state() {
    let read = |client: &mut Client, _| {
        client.ok("read", &json!({"path": "d/a.txt"}));
    };
    let is_known = |line: &str| {
        let is_read = line.contains(" open");
        is_read && [".json\"", "config.toml\""].iter().any(|name| line.contains(name))
    };
    let Some(each) = per_call(read, is_known) else { return };
    assert_eq!(each, 0);
}

#[test]
fn server_does_not_reread_a_cached_repository() {
    // The branch and its commit are not among it: they have just changed, and are read to be sure.
    let known = [".git/config\"", "\"config\"", "\"HEAD\"", "\"main\"", "info/exclude\""];
    let is_known = |line: &str| {
        let is_opened = line.contains(" open") && line.contains("O_RDONLY") && !line.contains("O_PATH");
        is_opened && known.iter().any(|name| line.contains(name))
    };
    let Some(each) = per_call_in(with_old_repository, edit, is_known) else { return };
    assert_eq!(each, 0);
}

/// Creates a workspace with a repository that has not changed recently.
fn with_old_repository() -> Workspace {
    let ws = plain();
    let git = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
    for arguments in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
        let run = Command::new("git").args(git).args(arguments).current_dir(ws.path("")).status();
        assert!(run.unwrap().success());
    }
    std::thread::sleep(OLD_AFTER);
    ws
}

/// Creates a workspace without a repository, in memory where possible: on a disk, the number of syncs depends on what
/// other programs write.
fn plain() -> Workspace {
    let files = [("d/a.txt", "v0\n"), ("d/b.txt", "b\n")];
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { Workspace::within(memory, &files) } else { Workspace::with(&files) }
}

/// Makes the edit of that number.
fn edit(client: &mut Client, number: usize) {
    let (old, new) = (format!("v{number}"), format!("v{}", number + 1));
    client.ok("edit", &json!({"path": "d/a.txt", "old_string": old, "new_string": new}));
}

/// Returns the system calls per call of a server that `counted` accepts; `None` if strace cannot be used.
fn per_call(call: impl Fn(&mut Client, usize), counted: impl Fn(&str) -> bool) -> Option<usize> {
    per_call_in(plain, call, counted)
}

/// Returns the same count in a workspace that `workspace` creates.
fn per_call_in(
    workspace: impl Fn() -> Workspace,
    call: impl Fn(&mut Client, usize),
    counted: impl Fn(&str) -> bool,
) -> Option<usize> {
    if !can_trace() {
        return None;
    }
    let count = |calls: usize| {
        let log = log_of(&workspace(), calls, &call);
        log.lines().filter(|line| line.contains('(') && !line.contains("resumed") && counted(line)).count()
    };
    Some(count(6).saturating_sub(count(2)) / 4)
}

/// Returns the system calls of a server that gets `calls` calls, one per line.
fn log_of(ws: &Workspace, calls: usize, call: impl Fn(&mut Client, usize)) -> String {
    let log = tempfile::NamedTempFile::new().unwrap();
    let lbx = ws.lbx("", &["mcp"]);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-s", "64", "-e", CHANCE, "-o"]).arg(log.path());
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
    (0..calls).for_each(|number| call(&mut client, number));
    client.hang_up();
    client.process.wait().unwrap();
    std::fs::read_to_string(log.path()).unwrap()
}
