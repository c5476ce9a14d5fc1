//! A session that is squashed again, and one that is committed on the checked-out branch.

use std::fs;

use serde_json::{Value, json};

use crate::common::Workspace;
use crate::developer::{TEN, edit, workspace};

/// Squashes the session onto `feature`.
fn squash(ws: &Workspace) -> crate::common::Answer {
    ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--onto", "feature"])
}

/// Returns a file on `feature`, with its last line ending.
fn on_feature(ws: &Workspace, path: &str) -> String {
    String::from_utf8(ws.git_command(&["show", &format!("feature:{path}")]).output().unwrap().stdout).unwrap()
}

/// Commits as the developer on `feature`, which is not checked out.
fn commit_on_feature(ws: &Workspace, path: &str, text: &str) {
    ws.git(&["worktree", "add", "-q", "../feature", "feature"]);
    fs::write(ws.outside.join("feature").join(path), text).unwrap();
    ws.git(&["-C", "../feature", "commit", "-qam", "by hand"]);
    ws.git(&["worktree", "remove", "../feature"]);
}

#[test]
fn second_squash_commits_later_changes() {
    let ws = workspace(&[("a.txt", TEN), ("b.txt", "b\n")]);
    ws.write("a.txt", TEN.replace("nine", "draft"));
    edit(&ws, "s", "a.txt", "two", "TWO");
    ws.lbx(&["write", "new.txt", "--content", "1\n2\n3\n", "--session", "s"]).ok();
    squash(&ws).ok();
    // The same lines again, in an existing file and in one that the session created.
    edit(&ws, "s", "a.txt", "TWO", "2");
    edit(&ws, "s", "new.txt", "2", "two");
    let data = squash(&ws).ok();
    assert_eq!((&data["created"], &data["files"]), (&json!(false), &json!(2)));
    assert_eq!(on_feature(&ws, "a.txt"), TEN.replace("two", "2"));
    assert_eq!(on_feature(&ws, "new.txt"), "1\ntwo\n3\n");
    // After commits of the developer in the same files, and on the same line.
    commit_on_feature(&ws, "new.txt", "1\ntwo\n3\n4\n5\nby hand\n");
    commit_on_feature(&ws, "a.txt", &TEN.replace("two", "two by hand"));
    edit(&ws, "s", "a.txt", "seven", "SEVEN");
    edit(&ws, "s", "new.txt", "1\n", "one\n");
    squash(&ws).ok();
    assert_eq!(on_feature(&ws, "a.txt"), TEN.replace("two", "two by hand").replace("seven", "SEVEN"));
    assert_eq!(on_feature(&ws, "new.txt"), "one\ntwo\n3\n4\n5\nby hand\n");
    // If both changed the same line since, the conflict is shown and nothing moves.
    let tip = ws.git(&["rev-parse", "feature"]);
    edit(&ws, "s", "a.txt", "2\n", "zwei\n");
    let error = squash(&ws).error("patch_conflict");
    let shown = error["details"]["conflicts"][0]["conflicts"].as_str().unwrap();
    assert!(shown.contains("two by hand\n") && shown.contains("\nzwei\n"), "{shown}");
    assert_eq!(ws.git(&["rev-parse", "feature"]), tip);
    ws.git(&["fsck", "--strict"]);
}

#[test]
fn new_file_is_squashed_without_the_lines_of_others() {
    let ws = workspace(&[("a.txt", TEN)]);
    let stat = |ws: &Workspace| ws.lbx(&["diff", "--session", "s", "--stat"]).ok()["stat"][0].clone();
    ws.lbx(&["write", "new.txt", "--content", "1\n2\n3\n", "--session", "s"]).ok();
    ws.write("new.txt", "1\n2\n3\nby hand\n");
    edit(&ws, "s", "new.txt", "1\n", "one\n");
    assert_eq!(stat(&ws), json!({ "path": "new.txt", "action": "create", "insertions": 3, "deletions": 0 }));
    assert_eq!(ws.lbx(&["session", "--session", "s"]).ok()["fresh"][0], "new.txt +3 new");
    squash(&ws).ok();
    assert_eq!(on_feature(&ws, "new.txt"), "one\n2\n3\n");
    // Later changes come on top, also under another name.
    edit(&ws, "s", "new.txt", "2\n", "two\n");
    ws.lbx(&["move", "new.txt", "moved.txt", "--session", "s"]).ok();
    squash(&ws).ok();
    assert_eq!(ws.git(&["diff", "--name-only", "main", "feature"]), "moved.txt");
    assert_eq!(on_feature(&ws, "moved.txt"), "one\ntwo\n3\n");
    ws.lbx(&["move", "moved.txt", "new.txt", "--session", "s"]).ok();
    squash(&ws).ok();
    assert_eq!(on_feature(&ws, "new.txt"), "one\ntwo\n3\n");
    ws.holds("new.txt", "one\ntwo\n3\nby hand\n");
    // The developer commits the file with all lines, and the session changes it again.
    commit_on_feature(&ws, "new.txt", "one\ntwo\n3\nby hand\n");
    edit(&ws, "s", "new.txt", "3\n", "three\n");
    squash(&ws).ok();
    assert_eq!(on_feature(&ws, "new.txt"), "one\ntwo\nthree\nby hand\n");
    ws.git(&["fsck", "--strict"]);
}

#[test]
fn moved_new_file_is_squashed_without_the_lines_of_others() {
    let ws = workspace(&[("a.txt", TEN)]);
    ws.lbx(&["write", "new.txt", "--content", "1\n2\n", "--session", "s"]).ok();
    ws.write("new.txt", "1\n2\nby hand\n");
    ws.lbx(&["move", "new.txt", "moved.txt", "--session", "s"]).ok();
    let diff = ws.lbx(&["diff", "--session", "s"]).ok()["diff"].as_str().unwrap().to_owned();
    assert!(diff.contains("b/moved.txt") && diff.ends_with("@@ -0,0 +1,2 @@\n+1\n+2\n"), "{diff}");
    squash(&ws).ok();
    assert_eq!(ws.git(&["diff", "--name-only", "main", "feature"]), "moved.txt");
    assert_eq!(on_feature(&ws, "moved.txt"), "1\n2\n");
    edit(&ws, "s", "moved.txt", "2\n", "two\n");
    squash(&ws).ok();
    assert_eq!(on_feature(&ws, "moved.txt"), "1\ntwo\n");
    ws.git(&["fsck", "--strict"]);
}

#[test]
fn file_that_another_session_took_away_does_not_come_back() {
    let ws = workspace(&[("a.txt", TEN), ("b.txt", "b\n")]);
    ws.lbx(&["delete", "a.txt", "--session", "s"]).ok();
    ws.lbx(&["undo", "--session", "s"]).ok();
    edit(&ws, "s", "a.txt", "two", "TWO");
    // Also within the second of the undo: the times of commits have whole ones.
    ws.lbx(&["move", "a.txt", "c.txt", "--session", "other"]).ok();
    ws.lbx(&["squash", "-m", "Move it", "--session", "other", "--onto", "feature"]).ok();
    // The branch lacks the file, but not since the session had deleted it.
    let error = squash(&ws).error("patch_conflict");
    assert!(error["message"].as_str().unwrap().contains("a.txt: the branch does not have it"), "{error}");
    assert_eq!(ws.git(&["ls-tree", "--name-only", "feature"]), "b.txt\nc.txt");
}

#[test]
fn file_comes_back_if_the_branch_has_its_deletion_in_a_rewritten_commit() {
    let ws = workspace(&[("a.txt", TEN), ("b.txt", "b\n")]);
    ws.lbx(&["delete", "a.txt", "--session", "s"]).ok();
    squash(&ws).ok();
    assert_eq!(ws.git(&["ls-tree", "--name-only", "feature"]), "b.txt");
    ws.lbx(&["undo", "--session", "s"]).ok();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    ws.git(&["checkout", "-q", "feature"]);
    ws.git(&["commit", "-q", "--amend", "-m", "Delete it"]);
    ws.git(&["checkout", "-q", "main"]);
    squash(&ws).ok();
    assert_eq!(on_feature(&ws, "a.txt"), TEN);
}

#[test]
fn moved_file_is_squashed_from_its_last_path_on_the_branch() {
    let ws = workspace(&[("a.txt", TEN), ("b.txt", "b\n")]);
    ws.write("a.txt", format!("{TEN}by hand\n"));
    ws.lbx(&["move", "a.txt", "first.txt", "--session", "s"]).ok();
    edit(&ws, "s", "first.txt", "two", "TWO");
    let diff = ws.lbx(&["diff", "--session", "s"]).ok()["diff"].as_str().unwrap().to_owned();
    assert!(diff.contains("rename from a.txt\nrename to first.txt\n"), "{diff}");
    assert!(!diff.contains("+by hand"), "{diff}");
    squash(&ws).ok();
    let names = || ws.git(&["ls-tree", "--name-only", "feature"]).replace('\n', " ");
    assert_eq!(names(), "b.txt first.txt");
    assert_eq!(on_feature(&ws, "first.txt"), TEN.replace("two", "TWO"));
    // It moves on, comes back, and is committed again.
    ws.lbx(&["move", "first.txt", "second.txt", "--session", "s"]).ok();
    squash(&ws).ok();
    assert_eq!(names(), "b.txt second.txt");
    ws.lbx(&["move", "second.txt", "a.txt", "--session", "s"]).ok();
    squash(&ws).ok();
    assert_eq!(names(), "a.txt b.txt");
    assert_eq!(on_feature(&ws, "a.txt"), TEN.replace("two", "TWO"));
    // Each change as a commit, on a branch that has none of them.
    ws.git(&["branch", "-f", "feature", "main"]);
    ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--onto", "feature", "--keep-history"]).ok();
    assert_eq!(on_feature(&ws, "a.txt"), TEN.replace("two", "TWO"));
    assert_eq!(ws.git(&["log", "--format=%s", "-1", "feature^2"]), "move: second.txt -> a.txt");
    // A file that was never committed is not the session's.
    ws.write("own.txt", "by hand\n");
    ws.lbx(&["move", "own.txt", "moved.txt", "--session", "s"]).ok();
    let error = squash(&ws).error("patch_conflict");
    assert!(error["message"].as_str().unwrap().contains("moved.txt: the branch does not have it"), "{error}");
    ws.git(&["fsck", "--strict"]);
}

#[test]
fn line_of_others_inside_a_new_block_is_not_the_sessions() {
    let ws = workspace(&[("a.txt", TEN)]);
    edit(&ws, "s", "a.txt", "two\n", "two\nfirst\nlast\n");
    edit(&ws, "t", "a.txt", "first\n", "first\ntheirs\n");
    edit(&ws, "s", "a.txt", "nine", "NINE");
    let diff = ws.lbx(&["diff", "--session", "s"]).ok()["diff"].as_str().unwrap().to_owned();
    assert!(diff.contains(" two\n+first\n theirs\n+last\n three\n"), "{diff}");
    let status = ws.lbx(&["session", "status", "--session", "s"]).ok();
    assert!(status.to_string().contains("a.txt +3 -1"), "{status}");
}

#[test]
fn squash_after_an_undo_takes_no_lines_of_others() {
    let ws = workspace(&[("a.txt", TEN)]);
    edit(&ws, "s", "a.txt", "two", "TWO");
    ws.lbx(&["undo", "--session", "s"]).ok();
    edit(&ws, "t", "a.txt", "five", "FIVE");
    edit(&ws, "s", "a.txt", "nine", "NINE");
    squash(&ws).ok();
    assert_eq!(on_feature(&ws, "a.txt"), TEN.replace("nine", "NINE"));
    // Nor does a second one.
    edit(&ws, "t", "a.txt", "seven", "SEVEN");
    edit(&ws, "s", "a.txt", "one\n", "ONE\n");
    squash(&ws).ok();
    assert_eq!(on_feature(&ws, "a.txt"), TEN.replace("nine", "NINE").replace("one\n", "ONE\n"));
}

#[test]
fn lines_that_others_took_and_put_back_are_the_sessions_again() {
    for (path, before) in [("a.txt", TEN), ("new.txt", "")] {
        let ws = workspace(&[("a.txt", TEN)]);
        let own = TEN.replace("two", "TWO");
        let _ = ws.lbx(&["read", path, "--session", "s"]).envelope();
        ws.lbx(&["write", path, "--content", &own, "--session", "s"]).ok();
        edit(&ws, "t", path, "TWO", "zwei");
        ws.lbx(&["append", path, "--content", "more\n", "--session", "s"]).ok();
        ws.lbx(&["undo", "--merge", "--session", "t"]).ok();
        ws.holds(path, format!("{own}more\n"));
        assert_eq!(ws.lbx(&["diff", "--session", "t"]).ok()["diff"], "");
        let diff = ws.lbx(&["diff", "--session", "s", "--stat"]).ok();
        let insertions = if before.is_empty() { 11 } else { 2 };
        assert_eq!(diff["stat"][0]["insertions"], insertions, "{diff}");
        squash(&ws).ok();
        assert_eq!(on_feature(&ws, path), format!("{own}more\n"));
        ws.lbx(&["append", path, "--content", "last\n", "--session", "s"]).ok();
        squash(&ws).ok();
        assert_eq!(on_feature(&ws, path), format!("{own}more\nlast\n"));
    }
}

#[test]
fn squash_commits_nothing_that_git_ignores_by_now() {
    let ws = workspace(&[("a.txt", TEN)]);
    let write = |path: &str, text: &str| ws.lbx(&["write", path, "--content", text, "--session", "s"]).ok();
    write("token.txt", "secret\n");
    write("out.log", "gone\n");
    write(".gitignore", "*.log\ntoken.txt\n");
    let alone = ["squash", "-m", "m", "--session", "s", "--onto", "other", "token.txt"];
    let error = ws.lbx(&alone).error("not_found");
    let message = "git ignores these files by now, so they are not committed: token.txt";
    assert_eq!(error["message"], message);
    assert_eq!(error["suggested_action"], "`git add --force` makes git track a file that it ignores.");
    // The session's own deletion is its own, though git ignores the file by then.
    ws.lbx(&["delete", "out.log", "--session", "s"]).ok();
    assert_eq!(ws.git(&["log", "-1", "--format=%s", "lbx-snapshots"]), "delete: out.log");
    let diff = ws.lbx(&["diff", "--session", "s"]).ok();
    assert!(!diff["diff"].as_str().unwrap().contains("out.log"), "{diff}");
    squash(&ws).warned(message);
    assert_eq!(ws.git(&["diff", "--name-only", "main", "feature"]), ".gitignore");
    // Where the rules have become too many to be read, half of a move would be committed.
    ws.lbx(&["move", "a.txt", "b.txt", "--session", "s"]).ok();
    let rules = fs::read_to_string(ws.path(".gitignore")).unwrap();
    ws.write(".gitignore", (0..30_000).map(|number| format!("{number}\n")).collect::<String>());
    let error = squash(&ws).error("invalid_request")["message"].to_string();
    let said =
        "nothing tells if git ignores `b.txt` by now: `.gitignore` is not a regular file, or has too many";
    assert!(error.contains(said), "{error}");
    ws.write(".gitignore", rules);
    ws.git(&["add", "--force", "token.txt"]);
    squash(&ws).ok();
    assert_eq!(on_feature(&ws, "token.txt"), "secret\n");
}

#[test]
fn commit_of_a_part_of_the_changes_leaves_the_others_to_their_sessions() {
    let ws = workspace(&[("a.txt", TEN), ("gone.txt", TEN)]);
    edit(&ws, "s", "a.txt", "two", "TWO");
    edit(&ws, "s", "gone.txt", "two", "TWO");
    edit(&ws, "t", "a.txt", "nine", "NINE");
    ws.lbx(&["delete", "gone.txt", "--session", "t"]).ok();
    ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--checked-out"]).ok();
    ws.lbx(&["write", "other.txt", "--content", "x\n", "--session", "u"]).ok();
    // The snapshots have the files as they are on disk, and each line its session.
    assert_eq!(
        ws.git(&["show", "lbx-snapshots:a.txt"]),
        TEN.replace("two", "TWO").replace("nine", "NINE").trim_end()
    );
    assert_eq!(ws.git(&["ls-tree", "--name-only", "lbx-snapshots", "gone.txt"]), "");
    edit(&ws, "u", "a.txt", "ten", "TEN");
    let blame = ws.lbx(&["blame", "a.txt"]).ok();
    let of = |line: u64| {
        let ranges = blame["ranges"].as_array().unwrap().iter();
        let mut ranges = ranges.filter(|range| range["start_line"].as_u64() <= Some(line));
        ranges.rfind(|range| range["end_line"].as_u64() >= Some(line)).unwrap()["session"].clone()
    };
    assert_eq!((of(9), of(10)), (json!("t"), json!("u")), "{blame}");
    // A hard reset changes the files, and so the snapshots.
    ws.git(&["reset", "-q", "--hard", "HEAD~1"]);
    ws.lbx(&["write", "other.txt", "--content", "y\n", "--session", "u"]).ok();
    assert_eq!(ws.git(&["show", "lbx-snapshots:a.txt"]), TEN.trim_end());
}

#[test]
fn second_squash_reverts_undone_changes() {
    let ws = workspace(&[("a.txt", TEN), ("b.txt", "b\n")]);
    edit(&ws, "s", "a.txt", "two", "TWO");
    edit(&ws, "s", "a.txt", "seven", "SEVEN");
    ws.lbx(&["write", "new.txt", "--content", "new\n", "--session", "s"]).ok();
    ws.lbx(&["delete", "b.txt", "--session", "s"]).ok();
    squash(&ws).ok();
    ws.lbx(&["undo", "--seq", "1", "--session", "s"]).ok();
    squash(&ws).ok();
    assert_eq!(on_feature(&ws, "a.txt"), TEN.replace("seven", "SEVEN"));
    commit_on_feature(&ws, "a.txt", &TEN.replace("seven", "SEVEN").replace("ten", "by hand"));
    // After undoing everything, only the developer's commits remain.
    let first = ws.git(&["rev-list", "--first-parent", "lbx-snapshots", "--not", "main"]);
    let first = first.lines().last().unwrap().to_owned();
    ws.lbx(&["rewind", &format!("{first}~1"), "--session", "s", "--yes"]).ok();
    squash(&ws).ok();
    assert_eq!(ws.git(&["diff", "--name-only", "main", "feature"]), "a.txt");
    assert_eq!(on_feature(&ws, "a.txt"), TEN.replace("ten", "by hand"));
    squash(&ws).error("not_found");
    // A new branch has none of it, so there is nothing to commit on it.
    let error = ws.lbx(&["squash", "-m", "m", "--session", "s", "--onto", "other"]).error("not_found");
    assert_eq!(error["message"], "HEAD already has everything that session s changed");
}

#[test]
fn moved_file_that_was_deleted_and_came_back_has_no_lines_of_others() {
    let ws = workspace(&[("f", TEN)]);
    ws.lbx(&["move", "f", "g", "--session", "s"]).ok();
    edit(&ws, "other", "g", "two", "TWO");
    ws.lbx(&["delete", "g", "--session", "s"]).ok();
    ws.lbx(&["undo", "--session", "s"]).ok();
    let diff = ws.lbx(&["diff", "--session", "s"]).ok();
    assert!(diff["diff"].as_str().unwrap().contains("similarity index 100%"), "{diff:#}");
    squash(&ws).ok();
    assert_eq!(on_feature(&ws, "g"), TEN);
    assert_eq!(ws.git(&["ls-tree", "--name-only", "feature"]), "g");
}

#[test]
fn file_and_folder_that_took_each_other_s_place_are_squashed() {
    for checked_out in [false, true] {
        let ws = workspace(&[("f", "1\n"), ("d/a", "a\n"), ("d/b", "b\n")]);
        let script = "rm f; mkdir f; echo z > f/in; rm -r d; ln -s f d";
        ws.lbx(&["bash", script, "--session", "s"]).ok();
        let to: &[&str] = if checked_out { &["--checked-out"] } else { &["--onto", "feature"] };
        ws.lbx(&[&["squash", "-m", "Do it", "--session", "s"], to].concat()).ok();
        let branch = if checked_out { "HEAD" } else { "feature" };
        assert_eq!(ws.git(&["ls-tree", "-r", "--name-only", branch]), "d\nf/in");
        assert_eq!(ws.git(&["fsck", "--strict"]), "");
        if checked_out {
            assert_eq!(ws.git(&["status", "--porcelain"]), "");
        }
    }
}

#[test]
fn undone_change_is_in_no_account_even_if_others_reverted_it_first() {
    type Case = (&'static [&'static [&'static str]], &'static [&'static str], &'static str, bool);
    let restore: &[&str] = &["checkout", "-q", "--", "f"];
    let cases: [Case; 5] = [
        (&[&["bash", "rm f"]], restore, "1", false),
        (&[&["append", "f", "--content", "x\n"]], restore, "1", false),
        (&[&["write", "n", "--content", "x\n"]], &["clean", "-qf", "n"], "1", false),
        // Of one of them there is a snapshot, of the other none.
        (&[&["append", "f", "--content", "x\n"], &["append", "g", "--content", "x\n"]], restore, "2", false),
        (&[&["append", "f", "--content", "x\n"]], restore, "1", true),
    ];
    for (changes, reverts, steps, is_recorded) in cases {
        let ws = workspace(&[("f", "1\n2\n"), ("g", "1\n")]);
        let before = ws.tree();
        let call = |arguments: &[&str]| ws.lbx(&[arguments, &["--session", "s"]].concat());
        let files = || call(&["diff"]).ok()["files"].clone();
        changes.iter().for_each(|change| drop(call(change).ok()));
        ws.git(reverts);
        if is_recorded {
            ws.lbx(&["snapshot"]).ok();
        }
        call(&["undo", "--steps", steps]).ok();
        assert_eq!(ws.tree(), before, "{changes:?}");
        assert_eq!(files(), 0, "{changes:?}");
        assert!(call(&["session", "status"]).ok()["changed"].is_null(), "{changes:?}");
        squash(&ws).error("not_found");
        call(&["squash", "--onto", "feature", "-m", "all", "--keep-history"]).error("not_found");
        if reverts == restore {
            // The last of them is made again.
            call(&["redo"]).ok();
        } else {
            // A file that others removed stays away.
            call(&["redo"]).warned("makes nothing again");
            continue;
        }
        assert_eq!(files(), 1, "{changes:?}");
        squash(&ws).ok();
        call(&["undo"]).ok();
        assert_eq!(files(), 0, "{changes:?}");
    }
}

#[test]
fn second_squash_with_history_adds_only_new_changes() {
    let ws = workspace(&[("a.txt", TEN)]);
    let squash =
        || ws.lbx(&["squash", "-m", "All", "--session", "s", "--onto", "feature", "--keep-history"]).ok();
    edit(&ws, "s", "a.txt", "two", "TWO");
    edit(&ws, "s", "a.txt", "TWO", "2");
    squash();
    edit(&ws, "s", "a.txt", "2\n", "zwei\n");
    edit(&ws, "s", "a.txt", "six", "sechs");
    assert_eq!(squash()["commits"].as_array().unwrap().len(), 3);
    assert_eq!(ws.git(&["log", "--first-parent", "--format=%s", "main..feature"]), "All\nAll");
    assert_eq!(on_feature(&ws, "a.txt"), TEN.replace("two", "zwei").replace("six", "sechs"));
}

/// Returns git's view of HEAD's branch, the index, and the files.
fn state(ws: &Workspace) -> (String, String, Value) {
    let tree = format!("{:?}", ws.tree());
    (ws.git(&["rev-parse", "HEAD"]), ws.git(&["status", "--porcelain"]), json!(tree))
}

#[test]
fn squash_checked_out_commits_on_the_current_branch() {
    let ws = workspace(&[("a.txt", TEN), ("b.txt", "b\n"), ("c.txt", "c\n"), ("mine.txt", "1\n")]);
    ws.write("a.txt", TEN.replace("nine", "draft"));
    ws.write("mine.txt", "2\n");
    ws.write("staged.txt", "s\n");
    ws.git(&["add", "mine.txt", "staged.txt"]);
    edit(&ws, "s", "a.txt", "two", "TWO");
    ws.lbx(&["write", "new/d.txt", "--content", "d\n", "--session", "s"]).ok();
    ws.lbx(&["delete", "b.txt", "--session", "s"]).ok();
    ws.lbx(&["move", "c.txt", "c.d/c.txt", "--session", "s"]).ok();
    let (head, _, files) = state(&ws);
    let error =
        ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--onto", "main"]).error("invalid_request");
    assert!(error["suggested_action"].as_str().unwrap().contains("checked_out"), "{error}");
    ws.lbx(&["squash", "-m", "m", "--session", "s", "--onto", "x", "--checked-out"]).error("invalid_request");
    ws.lbx(&["squash", "-m", "m", "--session", "s", "--checked-out", "--dry-run"]).ok();
    let data = ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--checked-out"]).ok();
    assert_eq!((&data["branch"], &data["checked_out"]), (&json!("main"), &json!(true)));
    assert_eq!(ws.git(&["rev-parse", "HEAD~1"]), head);
    // Staged changes stay staged, the draft stays a draft, and nothing else differs.
    let after = state(&ws);
    assert_eq!(after.1, " M a.txt\nM  mine.txt\nA  staged.txt");
    assert_eq!(after.2, files);
    assert_eq!(
        ws.git(&["diff", "--no-renames", "--name-only", "HEAD~1", "HEAD"]),
        "a.txt\nb.txt\nc.d/c.txt\nc.txt\nnew/d.txt"
    );
    assert_eq!(ws.git(&["diff", "--stat", "--numstat", "--", "a.txt"]).split('\t').next(), Some("1"));
    assert!(ws.git(&["reflog", "-1", "HEAD"]).contains("commit: Do it"));
    ws.git(&["fsck", "--strict"]);
    ws.git(&["commit", "-qm", "mine"]);
    assert_eq!(ws.git(&["diff", "--name-only", "HEAD~1", "HEAD"]), "mine.txt\nstaged.txt");
    // Again, with the later changes.
    edit(&ws, "s", "new/d.txt", "d", "D");
    ws.git(&["update-index", "--assume-unchanged", "new/d.txt"]);
    ws.lbx(&["squash", "-m", "More", "--session", "s", "--checked-out"]).ok();
    // The user's flag of an entry stays.
    assert_eq!(ws.git(&["ls-files", "-v", "new/d.txt"]), "h new/d.txt");
    assert_eq!(ws.git(&["show", "--name-only", "--format=%s"]), "More\n\nnew/d.txt");
}

#[test]
fn squash_checked_out_rejects_conflicting_index_states() {
    let ws = workspace(&[("a.txt", TEN), ("b.txt", "b\n")]);
    edit(&ws, "s", "a.txt", "two", "TWO");
    ws.lbx(&["write", "new.txt", "--content", "n\n", "--session", "s"]).ok();
    let squash = || ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--checked-out"]);
    let refused_as = |kind: &str, why: &str| {
        let before = state(&ws);
        let error = squash().error(kind);
        assert!(error["message"].as_str().unwrap().contains(why), "{error}");
        assert_eq!(state(&ws), before);
        assert!(!ws.path(".git/index.lock").exists() || why.contains("locked"));
        error
    };
    let refused = |why: &str| _ = refused_as("invalid_request", why);
    // Staged with another content than the session's is an obstacle; staged with the same content is not.
    let made = ws.read_bytes("a.txt");
    ws.write("a.txt", TEN.replace("four", "staged"));
    ws.git(&["add", "a.txt"]);
    ws.write("a.txt", made);
    let error = refused_as("invalid_request", "staged changes in a.txt");
    let advice =
        "Leave out `checked_out` to commit on another branch. For this one, commit or stash what is staged";
    assert!(error["suggested_action"].as_str().unwrap().starts_with(advice), "{error:#}");
    ws.git(&["reset", "-q"]);
    ws.git(&["update-index", "--split-index"]);
    let error = refused_as("invalid_request", "a split one");
    assert!(error["suggested_action"].as_str().unwrap().ends_with(
        "join a split index by `git update-index --no-split-index`, and fill a sparse one by `git sparse-checkout reapply --no-sparse-index`."
    ));
    ws.git(&["update-index", "--no-split-index"]);
    ws.write(".git/index.lock", "");
    let error = refused_as("lock_timeout", "index is locked");
    assert_eq!(
        error["suggested_action"],
        "Wait until the other git ends, or remove that file if none runs; then repeat the call."
    );
    fs::remove_file(ws.path(".git/index.lock")).unwrap();
    for name in ["MERGE_HEAD", "CHERRY_PICK_HEAD"] {
        ws.write(&format!(".git/{name}"), "x\n");
        refused("in the middle of");
        fs::remove_file(ws.path(".git").join(name)).unwrap();
    }
    ws.git(&["switch", "-q", "--detach"]);
    refused("detached");
    ws.git(&["switch", "-q", "main"]);
    ws.git(&["add", "a.txt"]);
    squash().ok();
    assert_eq!(ws.git(&["status", "--porcelain"]), "");
    // The first commit of a repository.
    ws.git(&["switch", "-q", "--orphan", "fresh"]);
    ws.write("z.txt", "z\n");
    ws.lbx(&["write", "y.txt", "--content", "y\n", "--session", "t"]).ok();
    ws.lbx(&["squash", "-m", "First", "--session", "t", "--checked-out"]).ok();
    assert_eq!(ws.git(&["log", "--format=%s", "fresh"]), "First");
    assert_eq!(ws.git(&["ls-files"]), "y.txt");
}

#[test]
fn branch_since_the_session_began_is_known_by_commits_and_not_by_times() {
    // The developer amends the commit that made the file.
    let ws = workspace(&[("k.txt", "k\n")]);
    ws.write("a.txt", TEN);
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-qm", "add"]);
    ws.lbx(&["move", "a.txt", "b.txt", "--session", "s"]).ok();
    ws.git(&["commit", "-qa", "--amend", "--allow-empty", "-m", "amended"]);
    squash(&ws).ok();
    assert_eq!(on_feature(&ws, "b.txt"), TEN);

    // A clock goes back.
    let ws = workspace(&[("a.txt", TEN)]);
    edit(&ws, "s", "a.txt", "five", "5");
    for (old, new) in [("two", "2"), ("nine", "9")] {
        let text = fs::read_to_string(ws.path("a.txt")).unwrap();
        ws.write("a.txt", text.replace(old, new));
        let mut commit = ws.git_command(&["commit", "-qam", "by hand"]);
        let date = "2001-01-01T00:00:00Z";
        assert!(
            commit.env("GIT_COMMITTER_DATE", date).env("GIT_AUTHOR_DATE", date).status().unwrap().success()
        );
    }
    edit(&ws, "s", "a.txt", "5", "V");
    squash(&ws).ok();
    let wanted = TEN.replace("five", "V").replace("two", "2").replace("nine", "9");
    assert_eq!(on_feature(&ws, "a.txt"), wanted);

    // A shallow clone lacks the parents of what was fetched.
    let ws = workspace(&[("a.txt", TEN)]);
    edit(&ws, "s", "a.txt", "five", "5");
    let tree = ws.git(&["rev-parse", "HEAD^{tree}"]);
    let parent = "1".repeat(tree.len());
    let by = "Dev <dev@example.org> 4102444800 +0000";
    let commit = format!("tree {tree}\nparent {parent}\nauthor {by}\ncommitter {by}\n\nfetched\n");
    fs::write(ws.outside.join("commit"), commit).unwrap();
    let id = ws.git(&["hash-object", "-t", "commit", "-w", "../commit"]);
    ws.write(".git/shallow", format!("{id}\n"));
    ws.git(&["reset", "-q", "--soft", &id]);
    ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--onto", "feature", "--keep-history"]).ok();
    assert_eq!(on_feature(&ws, "a.txt"), TEN.replace("five", "5"));
}

#[test]
fn link_that_git_checks_out_as_a_file_stays_a_link() {
    let ws = workspace(&[("a.txt", TEN)]);
    std::os::unix::fs::symlink("a.txt", ws.path("link")).unwrap();
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-qm", "link"]);
    ws.git(&["config", "core.symlinks", "false"]);
    fs::remove_file(ws.path("link")).unwrap();
    ws.git(&["checkout", "link"]);
    edit(&ws, "s", "link", "a.txt", "b.txt");
    ws.lbx(&["snapshot"]).ok();
    squash(&ws).ok();
    for branch in ["lbx-snapshots", "feature"] {
        let entry = ws.git(&["ls-tree", branch, "link"]);
        assert!(entry.starts_with("120000 blob "), "{branch}: {entry}");
    }
    assert_eq!(on_feature(&ws, "link"), "b.txt");
}

#[test]
fn second_squash_with_history_has_no_conflict_with_the_first() {
    let ws = workspace(&[("a.txt", TEN)]);
    edit(&ws, "s", "a.txt", "four", "4");
    edit(&ws, "t", "a.txt", "nine", "NINE");
    edit(&ws, "s", "a.txt", "two", "two\na");
    edit(&ws, "s", "a.txt", "a\n", "a\nb\n");
    let squash =
        || ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--onto", "feature", "--keep-history"]);
    squash().ok();
    squash().error("not_found");
    edit(&ws, "s", "a.txt", "seven", "7");
    squash().ok();
    let wanted = TEN.replace("four", "4").replace("two", "two\na\nb").replace("seven", "7");
    assert_eq!(on_feature(&ws, "a.txt"), wanted);
}
