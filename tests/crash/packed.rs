//! The history is packed: no kill and no error of the disk loses a version.

use std::fs;
use std::process::Command;

use crate::common::skip::can_trace;
use crate::common::{Workspace, state};
use crate::inject::{each, fail_at, is_thorough, kill_at, points, sample};
use crate::judge::{Tree, difference};

/// System calls that change what is on disk.
const CHANGING: &[&str] = &["write", "pwrite64", "fsync", "renameat", "unlinkat"];
/// Most points in a short run.
const POINTS: usize = 16;
/// The call.
const GC: &[&str] = &["gc", "--keep-days", "300"];

/// Changes a long and a short file so many times, some before a first `gc`; returns the trees from the first to the last.
fn changed(changes: usize, gc_after: Option<usize>) -> (Workspace, Vec<Tree>) {
    let lines: String = (0..1500).map(|line| format!("line {line}\n")).collect();
    let ws = Workspace::with(&[("long.txt", &lines), ("short.txt", "one\n")]);
    let mut trees = vec![ws.tree()];
    for number in 0..changes {
        let name = ["long.txt", "short.txt"][number % 2];
        let _ = ws.lbx(&["append", name, "--content", &format!("{number}\n")]).success();
        trees.push(ws.tree());
        if Some(number) == gc_after {
            let _ = ws.lbx(GC).success();
        }
    }
    (ws, trees)
}

/// Takes all changes back, three at a time.
fn must_be_whole(ws: &Workspace, trees: &[Tree]) -> Result<(), String> {
    for tree in trees.iter().rev().skip(3).step_by(3) {
        let answer = ws.lbx(&["undo", "--steps", "3"]).envelope();
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
    let (before, trees) = changed(12, Some(7));
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

/// The 19th change of the session `default` packs those of yesterday.
#[test]
fn killed_or_failed_change_that_packs_loses_no_version() {
    if !can_trace() {
        return;
    }
    let (before, trees) = changed(18, None);
    for file in fs::read_dir(before.path(&state("journal/done/default"))).unwrap() {
        let touch = Command::new("touch").args(["-d", "2 days ago"]).arg(file.unwrap().path()).status();
        assert!(touch.unwrap().success());
    }
    let append = &["append", "short.txt", "--content", "last\n"];
    let after = before.copy();
    let all = points(&after, CHANGING, append);
    assert!(after.path(&state("journal/done/default/packed")).exists());
    let chosen = if is_thorough() { all } else { sample(all, POINTS) };
    let must_be_whole = |ws: &Workspace| {
        // A read completes a killed change, or takes it back.
        ws.lbx(&["read", "short.txt"]).ok();
        let is_made = ws.tree() == after.tree();
        let trees: Vec<Tree> = trees.iter().cloned().chain(is_made.then(|| after.tree())).collect();
        if ws.tree() == *trees.last().unwrap() {
            must_be_whole(ws, &trees)
        } else {
            Err("another tree".into())
        }
    };
    let wrong = each(&chosen, |point| {
        let ws = before.copy();
        kill_at(&ws, point, append);
        let packed_later = ws.copy();
        must_be_whole(&ws).map_err(|why| format!("{point:?}: {why}"))?;
        let _ = packed_later.lbx(GC).success();
        must_be_whole(&packed_later).map_err(|why| format!("{point:?}, gc: {why}"))?;
        let ws = before.copy();
        fail_at(&ws, point, "ENOSPC", append);
        must_be_whole(&ws).map_err(|why| format!("{point:?}, ENOSPC: {why}"))
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn number_of_a_packed_change_is_not_given_again() {
    let (ws, _) = changed(18, None);
    let done = ws.path(&state("journal/done/default"));
    for file in fs::read_dir(&done).unwrap() {
        let touch = Command::new("touch").args(["-d", "2 days ago"]).arg(file.unwrap().path()).status();
        assert!(touch.unwrap().success());
    }
    let files = || {
        fs::read_dir(&done)
            .unwrap()
            .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().ends_with(".lbx"))
    };
    for _ in 0..200 {
        ws.lbx(&["append", "other.txt", "--content", "x\n", "--session", "other"]).ok();
        if files().count() == 0 {
            break;
        }
    }
    assert_eq!(files().count(), 0);
    // As after a power failure, or by hand.
    ws.write(&state("sessions/default.lbx"), "garbage");
    ws.lbx(&["write", "new.txt", "--content", "new\n"]).success();
    let undone = ws.lbx(&["undo"]).ok();
    assert_eq!(undone["undone"][0]["seq"], 19, "{undone:#}");
    assert!(!ws.path("new.txt").exists());
    // Damaged, the packed changes are named.
    ws.write(&state("journal/done/default/packed"), "garbage");
    let error = ws.lbx(&["undo"]).error("not_found");
    assert!(error["message"].as_str().unwrap().contains("skipped #18, whose record"), "{error:#}");
}
