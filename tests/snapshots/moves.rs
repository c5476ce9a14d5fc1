//! Files that a session moves, and folders: `diff`, `session`, `review` and `squash` have one account of them.

use std::fs;

use serde_json::json;

use crate::common::{Answer, Workspace};
use crate::developer::workspace;

/// Call of lbx, `!` for a commit of everything, or another command of the developer.
type Step = &'static str;

/// Returns a workspace with `f`, `k` and `d`, after these steps.
fn after(steps: &[Step]) -> Workspace {
    let ws = workspace(&[("f", "f\ng\n"), ("k", "k\n"), ("d/a", "a\n"), ("d/b", "b\n")]);
    take(&ws, steps);
    ws
}

/// Takes these steps.
fn take(ws: &Workspace, steps: &[Step]) {
    for step in steps {
        let words: Vec<&str> = step.split(' ').collect();
        match words.as_slice() {
            ["!"] => {
                ws.git(&["add", "-A"]);
                ws.git(&["commit", "-qm", "by hand"]);
            }
            ["git", arguments @ ..] => drop(ws.git(arguments)),
            ["rm", path] => fs::remove_file(ws.path(path)).unwrap(),
            ["append", path, text] => {
                ws.lbx(&["append", path, "--content", &format!("{text}\n"), "--session", "s"]).ok();
            }
            ["bash", ..] => drop(ws.lbx(&["bash", &step[5..], "--session", "s"]).ok()),
            words => drop(ws.lbx(&[words, &["--session", "s"]].concat()).ok()),
        }
    }
}

/// Squashes the session onto `feature`.
fn squash(ws: &Workspace, arguments: &[&str]) -> Answer {
    ws.lbx(&[&["squash", "-m", "Do it", "--session", "s", "--onto", "feature"], arguments].concat())
}

/// Returns git's status of the files that `feature` changes.
fn on_feature(ws: &Workspace) -> String {
    ws.git(&["diff", "-M", "--name-status", "main", "feature"]).replace('\t', " ")
}

/// Returns the number of files that each account has as changed.
fn counts(ws: &Workspace) -> [u64; 3] {
    let call = |arguments: &[&str]| ws.lbx(&[arguments, &["--session", "s"]].concat()).ok();
    let status = call(&["session", "status"]);
    let session = status["changed"].as_array().map_or(0, Vec::len);
    let diff = call(&["diff"])["files"].as_u64().unwrap();
    [diff, call(&["review"])["totals"]["files"].as_u64().unwrap(), session as u64]
}

#[test]
fn every_account_has_what_became_of_a_file_that_was_moved_back() {
    let cases: &[(&[Step], &str)] = &[
        (&["move f g", "move g f"], ""),
        (&["move f g", "undo", "redo", "undo"], ""),
        (&["append f x", "move f g", "undo", "redo", "undo --steps 2"], ""),
        (&["move f g", "move g f", "delete f"], "D f"),
        (&["append f x", "move f g", "undo", "delete f"], "D f"),
        (&["move f g", "move g f", "delete f", "undo"], ""),
        (&["move f g", "move g f", "move f h"], "R100 f h"),
        (&["move f g", "undo", "move f h", "move h i"], "R100 f i"),
    ];
    for (steps, wanted) in cases {
        let ws = after(steps);
        let count = u64::from(!wanted.is_empty());
        assert_eq!(counts(&ws), [count; 3], "{steps:?}");
        for arguments in [&[][..], &["--keep-history"]] {
            let answer = squash(&ws, arguments);
            if wanted.is_empty() {
                answer.error("not_found");
                continue;
            }
            answer.ok();
            assert_eq!(on_feature(&ws), *wanted, "{steps:?} {arguments:?}");
            ws.git(&["branch", "-qD", "feature"]);
        }
    }
}

#[test]
fn squash_adds_to_the_developers_commit_what_came_after_it() {
    let cases: &[(&[Step], &str)] = &[
        (&["move f g", "!", "append g x", "delete g"], "D g"),
        (&["move f g", "append g x", "!", "delete g"], "D g"),
        (&["move f g", "!", "delete g"], "D g"),
        (&["move f g", "move g h", "!", "undo"], "R100 h g"),
        (&["move f g", "move g h", "!", "undo --steps 2"], "R100 h f"),
        (&["move f g", "!", "move g h", "delete h"], "D g"),
        (&["move f g", "!", "move g f", "delete f", "undo"], "R100 g f"),
        // The developer's commit has the deletion only.
        (&["move f g", "git commit -qam x"], "A g"),
        (&["append f x", "!", "move f g", "git commit -qam x", "append g y"], "A g"),
        (&["move f g", "git commit -qam x", "undo"], "A f"),
        // It has another file of the session at the path.
        (&["move d/a g", "move f d/a", "git commit -qam x", "undo"], "R100 d/a f\nA g"),
        (
            &["move d/b g", "move f d/b", "git commit -qam x", "undo", "append k x", "move g d/b"],
            "M d/b\nA f\nM k",
        ),
    ];
    for (steps, wanted) in cases {
        for arguments in [&[][..], &["--keep-history"]] {
            let ws = after(steps);
            squash(&ws, arguments).ok();
            assert_eq!(on_feature(&ws), *wanted, "{steps:?} {arguments:?}");
            squash(&ws, arguments).error("not_found");
            // The branch has the files as they are on disk.
            ws.git(&["add", "-A"]);
            assert_eq!(ws.git(&["diff", "--cached", "--name-only", "feature"]), "", "{steps:?}");
        }
    }
}

#[test]
fn squash_does_not_bring_back_a_moved_file_that_the_branch_deleted() {
    let ws = after(&["move f g"]);
    squash(&ws, &[]).ok();
    ws.git(&["worktree", "add", "-q", "../feature", "feature"]);
    ws.git(&["-C", "../feature", "rm", "-q", "g"]);
    ws.git(&["-C", "../feature", "commit", "-qm", "by hand"]);
    ws.git(&["worktree", "remove", "../feature"]);
    take(&ws, &["append g x"]);
    let error = squash(&ws, &[]).error("patch_conflict");
    assert!(error["message"].as_str().unwrap().contains("g: the branch does not have it"), "{error}");
}

#[test]
fn squash_takes_back_a_mode_that_came_before_a_move() {
    let steps = ["bash chmod +x d/a", "!", "move d/a d/g", "!", "undo --steps 2"];
    let ws = after(&steps);
    assert_eq!(counts(&ws), [0; 3]);
    squash(&ws, &[]).ok();
    assert_eq!(on_feature(&ws), "R100 d/g d/a");
    assert!(ws.git(&["ls-tree", "feature", "d/a"]).starts_with("100644 "));
}

#[test]
fn squash_goes_on_after_a_file_became_a_folder() {
    let ws = after(&["bash rm f; mkdir f; echo 1 > f/in"]);
    squash(&ws, &[]).ok();
    take(&ws, &["append k x"]);
    squash(&ws, &[]).ok();
    assert_eq!(on_feature(&ws), "D f\nA f/in\nM k");
}

#[test]
fn deletion_by_the_developer_in_a_folder_is_not_the_sessions() {
    let cases: &[(Step, &str)] = &[
        ("move d e", "R100 d/b e/b"),
        ("delete d --recursive", "D d/b"),
        ("bash rm -r d", "D d/b"),
        ("bash mv d e", "R100 d/b e/b"),
    ];
    for (step, wanted) in cases {
        let ws = after(&["append k x", "rm d/a", step]);
        let status =
            |rev: &str| ws.git(&["diff", "-M", "--name-status", &format!("{rev}^"), rev]).replace('\t', " ");
        assert_eq!(status("lbx-snapshots"), *wanted, "{step}");
        if !step.contains("mv") {
            assert_eq!(ws.snapshots()[..2], [ws.snapshots()[0].clone(), "external: d/a".to_owned()]);
        }
        let diff = ws.lbx(&["diff", "--session", "s"]).ok();
        assert_eq!(diff["files"], json!(2), "{step}: {diff}");
        squash(&ws, &[]).ok();
        assert_eq!(on_feature(&ws), format!("{wanted}\nM k"), "{step}");
    }
}

#[test]
fn deletion_by_the_session_in_a_folder_that_it_moves_is_its_own() {
    for step in ["bash rm d/a; mv d e", "bash rm d/a; rm -r d", "bash mv d/a x; mv d e; rm x"] {
        let ws = after(&["append k x", step]);
        assert!(!ws.snapshots().iter().any(|subject| subject.starts_with("external")), "{step}");
        squash(&ws, &[]).ok();
        assert!(on_feature(&ws).contains("D d/a"), "{step}: {}", on_feature(&ws));
    }
}

#[test]
fn review_counts_no_file_that_others_reverted_before_its_undo() {
    let ws = after(&["append f x", "git checkout -q f", "undo"]);
    assert_eq!(counts(&ws), [0; 3]);
    let totals = ws.lbx(&["review", "--session", "s"]).ok()["totals"].clone();
    assert_eq!((&totals["insertions"], &totals["deletions"]), (&json!(0), &json!(0)), "{totals}");
}

#[test]
fn review_counts_no_empty_folder_that_moved() {
    let ws = after(&["delete -r d", "move k d/b", "move d/b k", "move d e", "move k h"]);
    let files = |tool: &str| ws.lbx(&[tool, "--session", "s"]).ok();
    assert_eq!((&files("review")["totals"]["files"], &files("diff")["files"]), (&json!(3), &json!(3)));
}

#[test]
fn history_has_both_halves_of_a_move_or_none() {
    let cases: &[(&[Step], &str)] = &[
        (&["move f d/f", "undo", "delete d/a"], "D d/a"),
        (&["move f h", "undo", "move f h"], "R100 f h"),
        (&["move d/b g", "undo", "append k x", "move k h"], "M k R100 k h"),
        (&["move d e", "move e/b h", "move e d"], "R100 d/b e/b R100 e/b h"),
    ];
    for (steps, wanted) in cases {
        let ws = after(steps);
        squash(&ws, &["--keep-history"]).ok();
        let log = ["log", "--reverse", "--no-merges", "--format=", "-M", "--name-status", "main..feature"];
        let history = ws.git(&log).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(history, *wanted, "{steps:?}");
    }
}
