//! Steps that the next call can no longer complete for a change whose call was killed: it warns, and the change remains
//! applied.

use crate::common::Workspace;
use crate::common::skip::can_trace;
use crate::inject::{kill_at, points};
use crate::killed::CHANGING;

/// Obstacle for the next call, and its warning.
type Case = (&'static str, fn(&Workspace), &'static str);

#[test]
fn unfinished_step_of_a_killed_change_is_a_warning() {
    if !can_trace() {
        return;
    }
    let cases: [Case; 2] = [
        (
            "a session of a newer release",
            |ws| std::fs::write(ws.state_file("default.lbx"), "{\"version\":99}").unwrap(),
            "session default could not note an earlier change: ",
        ),
        (
            "the branch of the snapshots is checked out",
            |ws| drop(ws.git(&["symbolic-ref", "HEAD", "refs/heads/lbx-snapshots"])),
            "no snapshot of an earlier change (write: a.txt): ",
        ),
    ];
    let before = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    before.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    before.lbx(&["read", "a.txt"]).ok();
    let write = ["write", "a.txt", "--content", "new\n"];
    for (name, hinder, warning) in cases {
        let mut told = 0;
        for point in points(&before.copy(), CHANGING, &write) {
            let ws = before.copy();
            kill_at(&ws, &point, &write);
            hinder(&ws);
            let next = ws.lbx(&["append", "b.txt", "--content", "more\n", "--session", "other"]);
            let answer = next.success();
            let is_told = answer["warnings"].to_string().contains(warning);
            // A warning is about an applied change.
            if is_told {
                ws.holds("a.txt", "new\n");
            }
            told += usize::from(is_told);
        }
        assert!(told > 0, "{name}: no call warned of it");
    }
}

#[test]
fn number_of_a_killed_direct_command_is_given_once() {
    if !can_trace() {
        return;
    }
    let before = Workspace::with(&[("a.txt", "one\n")]);
    before.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let command = ["bash", "--direct", "echo three >> a.txt"];
    let mut recorded = 0;
    for point in points(&before.copy(), &["renameat2", "linkat", "openat2"], &command) {
        let ws = before.copy();
        kill_at(&ws, &point, &command);
        let of_commands = |ws: &Workspace| {
            ws.lbx(&["log"]).success()["data"]["snapshots"].to_string().matches("\"bash\"").count()
        };
        if of_commands(&ws) == 0 || std::fs::read(ws.path("a.txt")).unwrap() == b"one\ntwo\n" {
            continue;
        }
        recorded += 1;
        ws.lbx(&["write", "new.txt", "--content", "new\n"]).success();
        let log = ws.lbx(&["log"]).ok();
        let numbers: Vec<u64> =
            log["snapshots"].as_array().unwrap().iter().filter_map(|it| it["seq"].as_u64()).collect();
        assert!(numbers.is_sorted_by(|one, next| one > next), "{point:?}: {numbers:?}");
    }
    assert!(recorded > 0, "no kill came after the snapshot");
}

#[test]
fn killed_edit_beside_a_job_loses_no_change_of_either() {
    if !can_trace() {
        return;
    }
    let files: Vec<String> = (0..200).map(|number| format!("f{number}.txt")).collect();
    let all: Vec<(&str, &str)> = files.iter().map(|name| (name.as_str(), "one\ntwo\n")).collect();
    let ws = Workspace::with(&all);
    ws.lbx(&["bash", "--background", "sed -i s/one/ONE/ f*; touch begun; sleep 1000"]).success();
    while !ws.path("begun").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut left = files.iter();
    let calls = [CHANGING, &["fsync", "syncfs", "write"]].concat();
    let edit = |name| ["edit", name, "--old-string", "two", "--new-string", "TWO"];
    let first = left.next().unwrap();
    ws.lbx(&["read", first]).success();
    for (point, name) in points(&ws, &calls, &edit(first)).iter().zip(left) {
        ws.lbx(&["read", name]).success();
        kill_at(&ws, point, &edit(name));
    }
    ws.lbx(&["bash", "--job", "j1", "--stop"]).success();
    for name in &files {
        let text = String::from_utf8(ws.read_bytes(name)).unwrap();
        assert!(["ONE\ntwo\n", "ONE\nTWO\n"].contains(&text.as_str()), "{name}: {text}");
    }
    let log = ws.git(&["log", "--format=%s", "lbx-snapshots", "--not", "HEAD"]);
    assert!(!log.contains("external") && log.contains(" (so far)"), "{log}");
    ws.lbx(&["undo", "--steps", "1000"]).success();
    assert_eq!(ws.git(&["status", "--short", "f*"]), "");
}

#[test]
fn snapshot_that_kills_each_call_is_given_up() {
    if !can_trace() {
        return;
    }
    let before = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    before.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    before.lbx(&["read", "a.txt"]).ok();
    let write = ["write", "a.txt", "--content", "new\n"];
    let killed = points(&before.copy(), CHANGING, &write).into_iter().find_map(|point| {
        let ws = before.copy();
        kill_at(&ws, &point, &write);
        (ws.read_bytes("a.txt") == b"new\n").then_some(ws)
    });
    let ws = killed.expect("a call that is killed after its change");
    let append = ["append", "b.txt", "--content", "more\n"];
    // As a limit of memory would: while the snapshot is written.
    for _ in 0..3 {
        let syncs = points(&ws.copy(), &["fsync", "syncfs"], &append);
        // The first makes the steps durable.
        assert_eq!(kill_at(&ws, syncs.get(1).unwrap(), &append).status.code(), None);
        ws.holds("b.txt", "b\n");
    }
    ws.lbx(&append)
        .warned("no snapshot of an earlier change (write: a.txt): the calls that made it were killed");
    ws.holds("a.txt", "new\n");
    ws.holds("b.txt", "b\nmore\n");
    ws.lbx(&["append", "b.txt", "--content", "yet more\n"]).ok();
}
