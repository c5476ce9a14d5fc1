//! Git lock files that a killed call leaves: the next call recognizes them as lbx's.

use std::path::{Path, PathBuf};

use crate::common::skip::can_trace;
use crate::common::{Workspace, state};
use crate::inject::{each, fail_at, is_thorough, kill_at, points, sample};
use crate::killed::CHANGING;

/// Points at which a call is killed, unless all are tried.
const POINTS: usize = 24;

/// Creates a workspace in which a session has changed two files.
fn changed() -> Workspace {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    ws.git(&["config", "user.name", "Dev"]);
    ws.git(&["config", "user.email", "dev@example.org"]);
    ws.lbx(&["append", "a.txt", "--content", "two\n", "--session", "s"]).ok();
    ws.lbx(&["write", "c.txt", "--content", "c\n", "--session", "s"]).ok();
    ws
}

/// Returns the git lock files below a folder.
fn locks(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(locks(&path));
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            found.push(path);
        }
    }
    found
}

/// Returns true if git's index equals HEAD.
fn index_is_at_head(ws: &Workspace) -> bool {
    ws.git_command(&["diff", "--cached", "--quiet"]).status().unwrap().success()
}

#[test]
fn locks_of_a_killed_squash_are_removed() {
    if !can_trace() {
        return;
    }
    let before = changed();
    for onto in [&["--onto", "feature"][..], &["--checked-out"]] {
        let squash = [&["squash", "-m", "Do it", "--session", "s"], onto].concat();
        let squash = squash.as_slice();
        let all = points(&before.copy(), CHANGING, squash);
        let chosen = if is_thorough() { all } else { sample(all, POINTS) };
        let head = before.git(&["rev-parse", "HEAD"]);
        let left = std::sync::atomic::AtomicUsize::new(0);
        let half_way = std::sync::atomic::AtomicUsize::new(0);
        let wrong = each(&chosen, |point| {
            let ws = before.copy();
            kill_at(&ws, point, squash);
            let stays = locks(&ws.path(".git"));
            left.fetch_add(stays.len(), std::sync::atomic::Ordering::Relaxed);
            let is_half_way = ws.git(&["rev-parse", "HEAD"]) != head && !index_is_at_head(&ws);
            half_way.fetch_add(is_half_way.into(), std::sync::atomic::Ordering::Relaxed);
            // A call that only reads removes them as well.
            let reading = ws.copy();
            reading.lbx(&["ls"]).success();
            let after_read = locks(&reading.path(".git"));
            // Without the mark, as after a power failure, doctor finds them.
            let _ = std::fs::remove_file(ws.path(&state("journal/open/git-locks")));
            let found = ws.lbx(&["doctor"]).envelope().to_string();
            let remedy = "lbx doctor --fix removes what nobody holds any more.";
            assert!(stays.is_empty() || found.contains(remedy), "{point:?}: {found}");
            let fixing = ws.copy();
            let said = fixing.lbx(&["doctor", "--fix"]).envelope().to_string();
            assert!(stays.is_empty() || said.contains("They are removed now."), "{point:?}: {said}");
            let after_fix = locks(&fixing.path(".git"));
            let again = reading.lbx(squash).envelope();
            let is_done = again["ok"] == true || again["error"]["kind"] == "not_found";
            let after_call = locks(&reading.path(".git"));
            let is_whole = reading.git_command(&["fsck", "--strict"]).output().unwrap().status.success();
            let follows = [&fixing, &reading].into_iter().all(index_is_at_head);
            let is_free = [&after_read, &after_fix, &after_call].into_iter().all(Vec::is_empty);
            if is_done && is_whole && follows && is_free {
                return Ok(());
            }
            Err(format!(
                "{onto:?} {point:?}: index at HEAD {follows}, {stays:?}, read {after_read:?}, fixed {after_fix:?}, then {after_call:?}: {again}"
            ))
        });
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(left.into_inner() > 0, "{onto:?}: no kill left a lock");
        let is_checked_out = onto == ["--checked-out"];
        assert_eq!(half_way.into_inner() > 0, is_checked_out, "{onto:?}: kills between branch and index");
    }
}

#[test]
fn squash_response_is_true_if_sync_fails() {
    if !can_trace() {
        return;
    }
    let before = changed();
    let head = before.git(&["rev-parse", "HEAD"]);
    let squash = ["squash", "-m", "Do it", "--session", "s", "--checked-out"];
    for point in points(&before.copy(), &["fsync"], &squash) {
        let ws = before.copy();
        let answer = String::from_utf8(fail_at(&ws, &point, "EIO", &squash).stdout).unwrap();
        let has_moved = ws.git(&["rev-parse", "HEAD"]) != head;
        assert_eq!(answer.starts_with("{\"ok\":true"), has_moved, "{point:?}: {answer}");
        assert!(index_is_at_head(&ws), "{point:?}: {answer}");
    }
}

#[test]
fn doctor_fix_keeps_a_lock_of_git() {
    let ws = changed();
    let lock = ws.path(".git/refs/heads/feature.lock");
    std::fs::write(&lock, ws.git(&["rev-parse", "HEAD"]) + "\n").unwrap();
    let squash = ["squash", "-m", "Do it", "--session", "s", "--onto", "feature"];
    let error = ws.lbx(&squash).envelope()["error"]["message"].to_string();
    assert!(error.contains("if no git runs, delete that file"), "{error}");
    ws.lbx(&["doctor", "--fix"]).ok();
    assert!(lock.exists());
}
