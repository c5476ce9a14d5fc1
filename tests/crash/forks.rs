//! Forks that are killed as they are created, merged or dropped.

use serde_json::Value;

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

#[test]
fn killed_merge_is_whole_or_not_made() {
    if !can_trace() {
        return;
    }
    if cfg!(feature = "portable") {
        return skipped("a fork needs a sync of the file system, which is not portable");
    }
    let lines: String = (1..=20).map(|line| format!("{line}\n")).collect();
    let first = Workspace::with(&[("a.txt", &lines), ("d/b.txt", "b\nb\nb\n"), ("d/c.txt", "c\n")]);
    if first.lbx(&["fork", "probe"]).status() != 0 {
        return skipped("no fork is possible here");
    }
    first.lbx(&["fork", "drop", "probe"]).ok();
    let with_fork = || {
        let ws = first.copy();
        ws.lbx(&["fork", "one"]).ok();
        let script = "sed -i s/^2$/two/ a.txt; mv d/b.txt b.txt; rm d/c.txt; mkdir n; echo n > n/n.txt";
        ws.lbx(&["--sandbox", "one", "bash", script]).ok();
        ws.lbx(&["bash", "sed -i s/^18$/eighteen/ a.txt"]).ok();
        ws
    };
    let merge: &[&str] = &["merge", "one"];
    let whole = with_fork();
    let before = whole.tree();
    whole.lbx(merge).ok();
    let after = whole.tree();
    let names = [CHANGING, &["mknodat", "fsync", "syncfs", "fsetxattr"]].concat();
    let tries = sample(points(&with_fork(), &names, merge), POINTS);
    let judge = |point: &Point| {
        let ws = with_fork();
        kill_at(&ws, point, merge);
        ws.lbx(&["ls"]).envelope();
        let tree = ws.tree();
        if tree != before && tree != after {
            return Err(format!("half of the merge is there: {tree:?}"));
        }
        ws.lbx(merge).ok();
        if ws.tree() != after {
            return Err("a second merge made something else".to_owned());
        }
        // Whichever call made it, an undo takes it back, and then it is merged again.
        ws.lbx(&["undo"]).ok();
        let is_back = ws.tree() == before;
        ws.lbx(merge).ok();
        if !is_back || ws.tree() != after {
            return Err(format!("a merge that was taken back ({is_back}) is not merged again"));
        }
        // Both go on, and no line is lost.
        ws.lbx(&["--sandbox", "one", "bash", "sed -i s/^5$/five/ a.txt; echo more >> b.txt"]).ok();
        ws.lbx(&["bash", "sed -i s/^10$/ten/ a.txt"]).ok();
        ws.lbx(merge).ok();
        let text = String::from_utf8(ws.read_bytes("a.txt")).unwrap();
        let is_whole =
            ["two", "five", "ten", "eighteen"].iter().all(|line| text.contains(&format!("{line}\n")));
        if is_whole && ws.read_bytes("b.txt") == b"b\nb\nb\nmore\n" { Ok(()) } else { Err(text) }
    };
    let wrong = each(&tries, |point| judge(point).map_err(|why| told(point, &why)));
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
    // Either of these may be the next call: each works, or says that the other will.
    let read = || ws.lbx(&["--sandbox", "one", "read", "d/b.txt"]).envelope();
    let is_read = point.number.is_multiple_of(2) && read()["data"]["content"] == "b\n";
    let again = if is_read { Value::Null } else { ws.lbx(call).envelope() };
    if again["ok"] == false && again["error"]["kind"] != "already_exists" {
        return Err(format!("no fork can be made: {again}"));
    }
    let (read, listed) = (read(), ws.lbx(&["fork", "list"]).envelope());
    if read["data"]["content"] != "b\n" || listed["data"]["forks"].as_array().map(Vec::len) != Some(1) {
        return Err(format!("the fork does not work: {again} {read} {listed}"));
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
