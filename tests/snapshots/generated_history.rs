//! Blame, partial undo and squash on a generated history, checked by git itself.
//!
//! `LBX_HISTORY_CHANGES` sets the number of changes, and `LBX_HISTORY_SEED` the seed.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::common::Workspace;
use crate::common::random::Random;

/// Default number of changes.
const CHANGES: u64 = 40;

/// Returns a number that the environment may set.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Returns the files, by their names in lbx and git.
fn files(ws: &Workspace) -> Vec<String> {
    let mut files: Vec<String> = ws
        .tree()
        .into_iter()
        .filter(|(_, (kind, ..))| *kind == 'f')
        .map(|(path, _)| path.to_str().unwrap().to_owned())
        .collect();
    files.sort();
    files
}

/// Makes mixed changes by two sessions and the developer; all written lines are different.
fn make(ws: &Workspace, random: &mut Random, changes: u64) {
    for number in 0..changes {
        let session = ["one", "other"][random.below(2)];
        let all = files(ws);
        let path = all[random.below(all.len())].clone();
        let text = String::from_utf8(ws.read_bytes(&path)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let at = random.below(lines.len());
        let fresh = format!("unique {number} of {session}");
        match random.below(12) {
            0..=5 if !lines.is_empty() => {
                ws.lbx(&["read", &path, "--session", session]).success();
                let request = json!({"path": path, "old_string": format!("{}\n", lines[at]), "new_string": format!("{fresh}\n"), "session": session});
                ws.json("edit", &request).success();
            }
            6 => {
                ws.json("insert", &json!({"path": path, "line": at, "content": format!("{fresh}\n"), "session": session})).envelope();
                ws.lbx(&["read", &path, "--session", session]).success();
                ws.json("append", &json!({"path": path, "content": format!("end {number} of {session}\n"), "session": session})).success();
            }
            7 => drop(ws.json("write", &json!({"path": format!("new/{number}.txt"), "content": format!("{fresh}\nsecond {number} of {session}\n"), "session": session})).success()),
            8 => drop(ws.json("move", &json!({"from": path, "to": format!("moved/{number}.txt"), "session": session})).success()),
            9 if all.len() > 6 => drop(ws.json("delete", &json!({"path": path, "session": session})).success()),
            10 => drop(ws.lbx(&["undo", "--session", session, "--merge"]).envelope()),
            _ => {
                let mut lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
                lines.insert(at, format!("by hand {number}"));
                ws.write(&path, lines.join("\n") + "\n");
                ws.lbx(&["snapshot"]).success();
            }
        }
    }
}

/// Returns the snapshot that first added a line which occurs once, by git's own search.
fn found_by_git(ws: &Workspace, line: &str) -> Option<String> {
    let log = ws.git(&[
        "log",
        "--first-parent",
        "--format=%H",
        &format!("-S{line}\n"),
        "lbx-snapshots",
        "--not",
        "main",
    ]);
    log.lines().last().map(str::to_owned)
}

#[test]
fn blame_undo_and_squash_agree_with_git() {
    let seed = number("LBX_HISTORY_SEED", 0x9e37_79b9_7f4a_7c15);
    let changes = number("LBX_HISTORY_CHANGES", CHANGES);
    let mut random = Random::new(seed);
    let ten = |name: &str| -> String { (0..12).map(|line| format!("{name} line {line}\n")).collect() };
    let (a, b, c, d) = (ten("a"), ten("b"), ten("c"), ten("d"));
    let ws = Workspace::with(&[("a.txt", &a), ("b.txt", &b), ("sub/c.txt", &c), ("sub/d.txt", &d)]);
    ws.git(&["config", "user.name", "Dev"]);
    ws.git(&["config", "user.email", "dev@example.org"]);
    make(&ws, &mut random, changes);
    ws.lbx(&["snapshot"]).success();
    check_blame(&ws);
    check_squash(&ws);
    check_undo(&ws, &mut random, changes.div_ceil(4));
}

/// Checks that each line of an agent is attributed to the snapshot that `git log -S` finds.
fn check_blame(ws: &Workspace) {
    let (mut agents, mut developers) = (0, 0);
    for path in files(ws) {
        let text = String::from_utf8(ws.read_bytes(&path)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let data = ws.lbx(&["blame", &path, "--max-bytes", "0"]).ok();
        for range in data["ranges"].as_array().unwrap() {
            let (first, last) = (range["start_line"].as_u64().unwrap(), range["end_line"].as_u64().unwrap());
            for number in first..=last {
                let line = lines[usize::try_from(number).unwrap() - 1];
                let found = found_by_git(ws, line);
                // A reverted text came back with the snapshot of the undo.
                let came_once = ws.git(&[
                    "log",
                    "--first-parent",
                    "--format=%H",
                    &format!("-S{line}\n"),
                    "lbx-snapshots",
                    "--not",
                    "main",
                    "--",
                    ".",
                ]);
                if came_once.lines().count() > 1 {
                    continue;
                }
                assert_eq!(range["snapshot"].as_str().map(str::to_owned), found, "{path}:{number}: {line}");
                match range["by"].as_str().unwrap() {
                    "developer" => developers += 1,
                    _ => agents += 1,
                }
            }
        }
    }
    assert!(agents > 0 && developers > 0, "{agents} {developers}");
}

/// Checks that a squash of both sessions in turn equals the `git merge-file` of their diffs, if their lines do not
/// overlap.
fn check_squash(ws: &Workspace) {
    for session in ["one", "other"] {
        let branch = format!("squash-{session}");
        let answer = ws.lbx(&["squash", "-m", "All", "--session", session, "--onto", &branch]).envelope();
        if answer["ok"] == false {
            let kind = answer["error"]["kind"].as_str().unwrap();
            assert!(["patch_conflict", "not_found"].contains(&kind), "{answer}");
            continue;
        }
        // The commit has exactly the diff of the session.
        let diff = ws.call(&["diff", "-t", "--binary", "--max-bytes", "0", "--session", session]).run();
        ws.git(&["worktree", "add", "-q", "--detach", "../applied", "main"]);
        let patch = ws.outside.join("session.patch");
        fs::write(&patch, diff.stdout()).unwrap();
        let applied = ws
            .git_command(&["-C", "../applied", "apply", "--index", "--3way", patch.to_str().unwrap()])
            .output()
            .unwrap();
        if applied.status.success() {
            let tree = ws.git(&["-C", "../applied", "write-tree"]);
            assert_eq!(tree, ws.git(&["rev-parse", &format!("{branch}^{{tree}}")]), "{session}");
        }
        ws.git(&["worktree", "remove", "--force", "../applied"]);
        ws.git(&["fsck", "--strict"]);
    }
}

/// Returns the bytes of a file in a snapshot; `None` if the snapshot does not have it.
fn blob(ws: &Workspace, commit: &str, path: &str) -> Option<Vec<u8>> {
    let output = ws.git_command(&["cat-file", "blob", &format!("{commit}:{path}")]).output().unwrap();
    output.status.success().then_some(output.stdout)
}

/// Checks that undoing a change by number gives the result of `git merge-file`, or fails if that finds a conflict.
fn check_undo(ws: &Workspace, random: &mut Random, tries: u64) {
    let data = ws.lbx(&["log", "--limit", "0", "--max-bytes", "0"]).ok();
    let edits: Vec<&Value> =
        data["snapshots"].as_array().unwrap().iter().filter(|entry| entry["tool"] == "edit").collect();
    let mut outcomes: BTreeMap<&str, u32> = BTreeMap::new();
    for _ in 0..tries {
        let entry = edits[random.below(edits.len())];
        let (id, path) = (entry["id"].as_str().unwrap(), entry["paths"][0].as_str().unwrap());
        let session = entry["session"].as_str().unwrap();
        let seq = ws.git(&["log", "-1", "--format=%(trailers:key=Lbx-Seq,valueonly)", id]);
        if !ws.path(path).is_file() {
            continue;
        }
        let (now, base, back) =
            (ws.read_bytes(path), blob(ws, id, path).unwrap(), blob(ws, &format!("{id}~1"), path).unwrap());
        for (name, bytes) in [("now", &now), ("base", &base), ("back", &back)] {
            fs::write(ws.outside.join(name), bytes).unwrap();
        }
        let merged = ws.git_command(&["merge-file", "-p", "../now", "../base", "../back"]).output().unwrap();
        let answer = ws.lbx(&["undo", "--seq", seq.trim(), "--session", session, "--path", path]).envelope();
        let outcome = if answer["ok"] == true {
            assert!(merged.status.success(), "lbx merged what git does not: {path} {seq}");
            ws.holds(path, &merged.stdout);
            "taken back"
        } else if answer["error"]["kind"] == "not_found" {
            assert!(!merged.status.success() || merged.stdout == now, "{answer}");
            "nothing left"
        } else {
            assert_eq!(answer["error"]["kind"], "stale_file", "{answer}");
            ws.holds(path, &now);
            "refused"
        };
        *outcomes.entry(outcome).or_default() += 1;
    }
    assert!(outcomes.contains_key("taken back"), "{outcomes:?}");
}
