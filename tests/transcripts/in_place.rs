//! Changes that write into the existing file: for programs that hold it open, watch it or mount it.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;

use crate::common::Workspace;

/// Returns the inode of a file.
fn inode(ws: &Workspace, path: &str) -> u64 {
    fs::metadata(ws.path(path)).unwrap().ino()
}

#[test]
fn append_keeps_the_inode_of_an_open_file() {
    let ws = Workspace::with(&[("app.log", "one\n")]);
    let mut program = OpenOptions::new().append(true).open(ws.path("app.log")).unwrap();
    let before = inode(&ws, "app.log");
    ws.lbx(&["append", "app.log", "--content", "mark\n"]).ok();
    program.write_all(b"two\n").unwrap();
    ws.holds("app.log", "one\nmark\ntwo\n");
    assert_eq!(inode(&ws, "app.log"), before);
    // The line of the other program stays.
    ws.unchanged(|| ws.lbx(&["undo"]).error("stale_file"));
}

#[test]
fn undo_and_redo_of_append_work_in_place() {
    let ws = Workspace::with(&[("app.log", "one\n")]);
    let mut program = OpenOptions::new().append(true).open(ws.path("app.log")).unwrap();
    ws.lbx(&["append", "app.log", "--content", "mark\n"]).ok();
    ws.lbx(&["undo"]).ok();
    ws.holds("app.log", "one\n");
    ws.lbx(&["redo"]).ok();
    ws.lbx(&["undo"]).ok();
    program.write_all(b"two\n").unwrap();
    ws.holds("app.log", "one\ntwo\n");
}

#[test]
fn write_in_place_policy_keeps_the_inode() {
    let config = ".lbx/config.toml";
    let ws = Workspace::with(&[
        ("a.conf", "a\nb\n"),
        ("b.txt", "a\n"),
        (config, "write.in_place = [\"*.conf\"]\n"),
    ]);
    let (conf, other) = (inode(&ws, "a.conf"), inode(&ws, "b.txt"));
    fs::hard_link(ws.path("a.conf"), ws.path("link")).unwrap();
    for path in ["a.conf", "b.txt"] {
        ws.lbx(&["read", path]).ok();
        ws.lbx(&["edit", path, "--old-string", "a", "--new-string", "longer"]).ok();
    }
    assert_eq!(inode(&ws, "a.conf"), conf);
    assert_ne!(inode(&ws, "b.txt"), other);
    ws.holds("link", "longer\nb\n");
    ws.lbx(&["write", "a.conf", "--content", "x\n"]).ok();
    ws.holds("link", "x\n");
    ws.lbx(&["undo", "--steps", "2", "--path", "a.conf"]).ok();
    ws.holds("link", "a\nb\n");
    assert_eq!(inode(&ws, "a.conf"), conf);
}

#[test]
fn script_or_executable_is_never_written_in_place() {
    let config = ".lbx/config.toml";
    let files =
        [("run.sh", "#!/bin/sh\necho a\n"), ("plain", "a\n"), (config, "write.in_place = [\"**\"]\n")];
    let ws = Workspace::with(&files);
    ws.chmod("plain", 0o755);
    for path in ["run.sh", "plain"] {
        let before = inode(&ws, path);
        ws.lbx(&["append", path, "--content", "echo b\n"]).ok();
        assert_ne!(inode(&ws, path), before, "{path}");
    }
}

#[test]
fn file_in_an_unwritable_folder_is_written_in_place() {
    let ws = Workspace::with(&[("d/a.txt", "a\n")]);
    let lbx = |arguments: &[&str]| Some(ws.call_unprivileged(arguments)?.run());
    if lbx(&["read", "d/a.txt"]).is_none() {
        return;
    }
    ws.chmod("d", 0o555);
    ws.chmod("d/a.txt", 0o666);
    lbx(&["edit", "d/a.txt", "--old-string", "a", "--new-string", "b"]).unwrap().ok();
    ws.holds("d/a.txt", "b\n");
    lbx(&["undo"]).unwrap().ok();
    ws.holds("d/a.txt", "a\n");
}
