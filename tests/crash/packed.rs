//! `gc` packs the history: no kill and no error of the disk loses a version.

use crate::common::Workspace;
use crate::common::skip::can_trace;
use crate::inject::{each, fail_at, is_thorough, kill_at, points, sample};
use crate::judge::{Tree, difference};

/// System calls that change what is on disk.
const CHANGING: &[&str] = &["write", "pwrite64", "fsync", "renameat", "unlinkat"];
/// Most points in a short run.
const POINTS: usize = 25;
/// The call.
const GC: &[&str] = &["gc", "--keep-days", "300"];

/// Changes a long and a short file, some before a first `gc`; returns the trees from the first to the last.
fn changed() -> (Workspace, Vec<Tree>) {
    let lines: String = (0..1500).map(|line| format!("line {line}\n")).collect();
    let ws = Workspace::with(&[("long.txt", &lines), ("short.txt", "one\n")]);
    let mut trees = vec![ws.tree()];
    for number in 0..12 {
        let name = ["long.txt", "short.txt"][number % 2];
        let _ = ws.lbx(&["append", name, "--content", &format!("{number}\n")]).success();
        trees.push(ws.tree());
        if number == 7 {
            let _ = ws.lbx(GC).success();
        }
    }
    (ws, trees)
}

/// Takes all changes back one by one.
fn must_be_whole(ws: &Workspace, trees: &[Tree]) -> Result<(), String> {
    for tree in trees.iter().rev().skip(1) {
        let answer = ws.lbx(&["undo"]).envelope();
        if answer["ok"] != true || ws.tree() != *tree {
            return Err(format!("{answer}: {}", difference(&ws.tree(), tree)));
        }
    }
    let answer = ws.lbx(&["doctor"]).envelope();
    if answer["data"]["healthy"] == true { Ok(()) } else { Err(answer.to_string()) }
}

#[test]
fn killed_or_failed_gc_loses_no_version() {
    if !can_trace() {
        return;
    }
    let (before, trees) = changed();
    let all = points(&before.copy(), CHANGING, GC);
    assert!(all.len() > 15, "{}", all.len());
    let chosen = if is_thorough() { all } else { sample(all, POINTS) };
    let wrong = each(&chosen, |point| {
        let ws = before.copy();
        kill_at(&ws, point, GC);
        let packed_later = ws.copy();
        must_be_whole(&ws, &trees).map_err(|why| format!("{point:?}: {why}"))?;
        let _ = packed_later.lbx(GC).success();
        must_be_whole(&packed_later, &trees).map_err(|why| format!("{point:?}, gc: {why}"))?;
        let ws = before.copy();
        fail_at(&ws, point, "ENOSPC", GC);
        must_be_whole(&ws, &trees).map_err(|why| format!("{point:?}, ENOSPC: {why}"))
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
