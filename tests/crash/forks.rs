//! Forks that are killed as they are created or dropped.

use crate::common::Workspace;
use crate::common::skip::{can_trace, skipped};
use crate::inject::{Point, each, kill_at, points, sample};
use crate::killed::CHANGING;

/// Points tried of each call, unless all are.
const POINTS: usize = 40;

#[test]
fn killed_fork_is_whole_or_gone() {
    if !can_trace() {
        return;
    }
    let first = Workspace::with(&[("a.txt", "a\n"), ("d/b.txt", "b\n")]);
    if first.lbx(&["fork", "probe"]).status() != 0 {
        return skipped("no fork is possible here");
    }
    first.lbx(&["fork", "drop", "probe"]).ok();
    let create: &[&str] = &["fork", "one"];
    let names = [CHANGING, &["mknodat", "fsync", "fsetxattr", "openat"]].concat();
    let tries = sample(points(&first.copy(), &names, create), POINTS);
    let wrong = each(&tries, |point| created(&first.copy(), point, create).map_err(|why| told(point, &why)));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let with_fork = || {
        let ws = first.copy();
        ws.lbx(&["fork", "one"]).ok();
        ws.lbx(&["--sandbox", "one", "write", "mine.txt", "--content", "mine"]).ok();
        ws
    };
    let drop: &[&str] = &["fork", "drop", "one"];
    let tries = sample(points(&with_fork(), &names, drop), POINTS);
    let wrong = each(&tries, |point| dropped(&with_fork(), point, drop).map_err(|why| told(point, &why)));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Names a point in a message.
fn told(point: &Point, why: &str) -> String {
    format!("killed at {} {}: {why}", point.call, point.number)
}

/// Kills the creation of a fork, and checks what is left.
fn created(ws: &Workspace, point: &Point, call: &[&str]) -> Result<(), String> {
    let before = ws.tree();
    kill_at(ws, point, call);
    let listed = ws.lbx(&["fork", "list"]).envelope();
    let is_there = listed["data"]["forks"].as_array().is_some_and(|forks| forks.len() == 1);
    if !is_there {
        ws.lbx(call).ok();
    }
    let read = ws.lbx(&["--sandbox", "one", "read", "d/b.txt"]).envelope();
    if read["data"]["content"] != "b\n" {
        return Err(format!("the fork does not work: {listed} {read}"));
    }
    must_be_clean(ws, 1)?;
    if ws.tree() == before { Ok(()) } else { Err("the workspace changed".to_owned()) }
}

/// Kills a drop, and checks what is left.
fn dropped(ws: &Workspace, point: &Point, call: &[&str]) -> Result<(), String> {
    let before = ws.tree();
    kill_at(ws, point, call);
    let listed = ws.lbx(&["fork", "list"]).envelope();
    match listed["data"]["forks"].as_array().map(Vec::len) {
        Some(0) => {
            // The name may be left; the next fork takes it.
            ws.lbx(&["fork", "one"]).ok();
        }
        Some(1) => {
            let read = ws.lbx(&["--sandbox", "one", "read", "mine.txt"]).envelope();
            if read["data"]["content"] != "mine" {
                return Err(format!("the fork lost its files: {read}"));
            }
        }
        _ => return Err(format!("{listed}")),
    }
    ws.lbx(call).ok();
    must_be_clean(ws, 0)?;
    if ws.tree() == before { Ok(()) } else { Err("the workspace changed".to_owned()) }
}

/// Checks that there are so many forks, and no halves of others, after one more was created and dropped.
fn must_be_clean(ws: &Workspace, forks: usize) -> Result<(), String> {
    ws.lbx(&["fork", "other"]).ok();
    ws.lbx(&["fork", "drop", "other"]).ok();
    let own = ws.path(&crate::common::state("forks"));
    let kept = ws.outside.join("home/.local/state/lbx/forks");
    let count = |folder: &std::path::Path| folder.read_dir().map_or(0, Iterator::count);
    // One of the names is the lock.
    match (count(&own), count(&kept)) {
        (names, folders) if names == forks + 1 && folders == forks => Ok(()),
        found => Err(format!("{found:?} instead of {forks} forks")),
    }
}
