//! Streams and variables that a caller hands down as it likes.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _, pipe};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;

use crate::common::Workspace;

/// Prepares a call of the binary.
fn lbx(ws: &Workspace, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lbx"));
    ws.surround(&mut command);
    command.args(arguments).current_dir(&ws.root);
    command
}

/// Makes a pipe end non-blocking, as some event loops leave them.
fn set_nonblocking(end: &impl std::os::fd::AsFd) {
    let flags = rustix::fs::fcntl_getfl(end).unwrap();
    rustix::fs::fcntl_setfl(end, flags | OFlags::NONBLOCK).unwrap();
}

#[test]
fn response_that_nobody_receives_does_not_count_as_read() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\n")]);
    let calls: [&[&str]; 6] = [
        &["read", "a.txt"],
        &["read", "a.txt", "--text"],
        &["grep", "o", "--mark"],
        &["--dialect", "claude", "Read", "a.txt"],
        &["edit", "a.txt", "--old-string", "three", "--new-string", "3"],
        &["batch"],
    ];
    let refused = || drop(ws.lbx(&["write", "a.txt", "--content", "x\n"]).error("not_read"));
    for call in calls {
        for is_full in [true, false] {
            let stdout: Stdio = if is_full {
                std::fs::File::options().write(true).open("/dev/full").unwrap().into()
            } else {
                // Its reader is gone.
                pipe().unwrap().1.into()
            };
            let (requests, mut stdin) = pipe().unwrap();
            stdin.write_all(b"{\"tool\":\"read\",\"request\":{\"path\":\"a.txt\"}}\n").unwrap();
            drop(stdin);
            let mut command = lbx(&ws, call);
            let status = command.stdin(requests).stdout(stdout).stderr(Stdio::null()).status().unwrap();
            assert!(!is_full || !status.success(), "{call:?}");
            refused();
        }
    }
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "x\n"]).ok();
}

#[test]
fn too_long_line_of_a_batch_is_refused_as_a_whole() {
    let ws = Workspace::with(&[]);
    let mut child = ws.call(&["batch"]).stdin_never_closes().spawn();
    let mut stdin = child.stdin.take().unwrap();
    let piece = vec![b'x'; 1 << 20];
    (0..256).for_each(|_| stdin.write_all(&piece).unwrap());
    // What follows the first 256 MiB is part of the line.
    stdin.write_all(b"x{\"tool\":\"write\",\"request\":{\"path\":\"a\",\"content\":\"a\"}}\n{\"tool\":\"ls\",\"id\":2}\n").unwrap();
    drop(stdin);
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(
        lines[0].contains("invalid_request") && lines[0].contains("has at most 268435456 bytes"),
        "{said}"
    );
    assert!(lines[1].contains("\"id\":2"), "{said}");
    assert!(!ws.path("a").exists());
}

#[test]
fn streams_may_be_non_blocking() {
    let ws = Workspace::with(&[]);
    let (read, write) = pipe().unwrap();
    set_nonblocking(&write);
    let mut child = lbx(&ws, &["schema"]).stdout(write).spawn().unwrap();
    // The pipe is full before anything is read.
    thread::sleep(Duration::from_millis(300));
    let (mut read, mut said) = (read, String::new());
    read.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    serde_json::from_str::<serde_json::Value>(&said).unwrap();

    let (read, write) = pipe().unwrap();
    set_nonblocking(&read);
    let mut child = lbx(&ws, &["write", "a.txt"]).stdin(read).stdout(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_millis(300));
    let mut write = write;
    write.write_all(b"late\n").unwrap();
    drop(write);
    assert!(child.wait().unwrap().success());
    ws.holds("a.txt", "late\n");
}

#[test]
fn variables_that_are_not_utf8_are_refused() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let odd = OsStr::from_bytes(b"\xff");
    for name in ["LBX_SANDBOX", "LBX_SESSION", "LBX_DIALECT", "CLAUDE_CODE_SESSION_ID"] {
        let error = ws.unchanged(|| {
            ws.call(&["append", "a.txt", "--content", "x"]).env(name, odd).run().error("invalid_request")
        });
        assert!(error["message"].as_str().unwrap().contains(name), "{error}");
    }
}
