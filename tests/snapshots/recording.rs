//! One change is one commit, and nothing else of the repository moves.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::json;

use crate::common::Workspace;

/// Returns the parts of the git folder that belong to the developer.
fn developers_own(ws: &Workspace) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![ws.path(".git")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(ws.path(".git")).unwrap().to_string_lossy().into_owned();
            if name == "objects" || name.ends_with("refs/heads/lbx-snapshots") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn each_tool_call_is_one_snapshot_commit() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("d/b.txt", "b\n")]);
    ws.write("staged.txt", "staged\n");
    ws.git(&["add", "staged.txt"]);
    let before = developers_own(&ws);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "two", "--why", "it was time"]).ok();
    ws.lbx_stdin(&["write", "n/new.txt"], "new\n").ok();
    ws.lbx(&["append", "d/b.txt", "--content", "more\n"]).ok();
    assert_eq!(ws.snapshots(), ["append: d/b.txt", "write: n/new.txt", "edit: a.txt", "baseline"]);
    for (commit, files) in [("~2", "a.txt"), ("~1", "n/new.txt"), ("", "d/b.txt"), ("~3", "staged.txt")] {
        let range = [format!("lbx-snapshots{commit}^"), format!("lbx-snapshots{commit}")];
        assert_eq!(ws.git(&["diff", "--name-only", &range[0], &range[1]]).trim(), files);
    }
    let message = ws.git(&["log", "-1", "--format=%b", "lbx-snapshots~2"]);
    assert!(message.starts_with("it was time\n\nLbx-Session: "), "{message}");
    assert!(developers_own(&ws) == before);
    ws.git(&["fsck", "--strict"]);
}

#[test]
fn hard_linked_branch_file_is_never_overwritten() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let heads = ws.path(".git/refs/heads");
    let tip = || ws.git(&["rev-parse", "lbx-snapshots"]);
    let append = || ws.lbx(&["append", "a.txt", "--content", "more\n"]).ok();
    append();
    append();
    // As in a copy of the repository made of hard links.
    let copy = ws.path("copy");
    fs::hard_link(heads.join("lbx-snapshots"), &copy).unwrap();
    let then = tip();
    for _ in 0..4 {
        append();
        let objects = fs::read_dir(ws.path(".git/objects")).unwrap();
        let waiting =
            objects.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("tmp_"));
        assert!(waiting.count() <= 1);
    }
    assert_eq!(fs::read_to_string(&copy).unwrap().trim_end(), then);
    assert_ne!(tip(), then);
    // After a power failure the spare file may be the branch itself: the branch still moves.
    let spare = ws.path(".git/objects/tmp_lbx_ref_spare");
    fs::remove_file(&spare).unwrap();
    fs::hard_link(heads.join("lbx-snapshots"), &spare).unwrap();
    let before = tip();
    append();
    assert_eq!(ws.git(&["rev-parse", "lbx-snapshots~1"]), before);
    // Nothing else in its place is reused.
    for planted in 0..4 {
        let _ = fs::remove_file(&spare);
        match planted {
            0 => fs::write(&spare, "short").unwrap(),
            1 => std::os::unix::fs::symlink(ws.path("a.txt"), &spare).unwrap(),
            2 => {
                fs::write(&spare, format!("{}\n", "0".repeat(40))).unwrap();
                fs::set_permissions(&spare, fs::Permissions::from_mode(0o666)).unwrap();
            }
            _ => fs::create_dir(&spare).unwrap(),
        }
        let before = tip();
        append();
        assert_eq!(ws.git(&["rev-parse", "lbx-snapshots~1"]), before, "{planted}");
        let mode = fs::metadata(heads.join("lbx-snapshots")).unwrap().permissions().mode();
        assert_eq!(mode & 0o002, 0, "{planted}: nobody else may write to the branch");
    }
    assert_eq!(ws.git(&["fsck"]), "");
}

#[test]
fn failed_or_empty_change_makes_no_snapshot() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx_stdin(&["write", "a.txt"], "two\n").error("not_read");
    ws.lbx_stdin(&["write", "a.txt"], "one\n").ok();
    ws.lbx_stdin(&["write", "b.txt", "--dry-run"], "two\n").ok();
    assert_eq!(ws.snapshots(), Vec::<String>::new());
}

#[test]
fn ignored_files_are_in_no_snapshot() {
    let ws = Workspace::with(&[(".gitignore", "*.env\n"), ("a.txt", "one\n")]);
    ws.write("dirty.txt", "x\n");
    ws.write("key.env", "SECRET=one\n");
    ws.lbx_stdin(&["write", "other.env"], "SECRET=two\n").warned("other.env (git ignores it)");
    ws.lbx_stdin(&["write", "b.txt"], "b\n").ok();
    ws.write("c.txt", "c\n");
    ws.lbx(&["snapshot", "all"]).ok();
    let listed = ws.git(&["log", "--format=", "--name-only", "lbx-snapshots"]);
    assert!(listed.contains("dirty.txt") && !listed.contains(".env"), "{listed}");
    let blobs = ws.git(&["cat-file", "--batch-check=%(objecttype) %(objectname)", "--batch-all-objects"]);
    for id in blobs.lines().filter_map(|line| line.strip_prefix("blob ")) {
        assert!(!ws.git(&["cat-file", "blob", id]).contains("SECRET"));
    }
}

#[test]
fn moved_head_is_an_external_parent() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "one\n")]);
    ws.lbx_stdin(&["write", "mine.txt"], "1\n").ok();
    ws.write("b.txt", "developer\n");
    ws.git(&["commit", "-q", "-am", "mine"]);
    ws.lbx_stdin(&["write", "more.txt"], "2\n").ok();
    let subjects = ws.snapshots();
    assert_eq!(subjects[0], "write: more.txt");
    assert!(subjects[1].starts_with("external: HEAD moved to "), "{subjects:?}");
    assert_eq!(ws.git(&["diff", "--name-only", "lbx-snapshots^", "lbx-snapshots"]).trim(), "more.txt");
    assert_eq!(ws.git(&["rev-parse", "lbx-snapshots^^2"]), ws.git(&["rev-parse", "HEAD"]));
}

#[test]
fn changes_by_others_are_external_in_the_next_scan() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "one\n")]);
    ws.lbx_stdin(&["write", "mine.txt"], "1\n").ok();
    ws.write("mine.txt", "someone\n");
    ws.lbx(&["read", "mine.txt"]).ok();
    ws.lbx(&["edit", "mine.txt", "--old-string", "someone", "--new-string", "me"]).ok();
    assert_eq!(ws.snapshots()[..2], ["edit: mine.txt", "external: mine.txt"]);
    ws.write("b.txt", "someone\n");
    ws.call(&["--session", "second", "append", "a.txt", "--content", "two\n"]).run().ok();
    assert_eq!(ws.snapshots()[..2], ["append: a.txt", "baseline"]);
    assert_eq!(ws.git(&["diff", "--name-only", "lbx-snapshots~2", "lbx-snapshots~1"]).trim(), "b.txt");
}

#[test]
fn attributes_of_each_folder_apply_to_its_files_alone() {
    let ws = Workspace::with(&[("f", "x\r\n")]);
    for (path, bytes) in [
        ("b/.gitattributes", "* eol=lf\n"),
        ("b/g", "x\r\n"),
        ("c/.gitattributes", "* crlf\n"),
        ("c/h", "x\r\n"),
        ("d/i", "x\r\n"),
    ] {
        ws.write(path, bytes);
    }
    ws.lbx(&["snapshot"]).ok();
    ws.git(&["add", "-A"]);
    let tree = ws.git(&["write-tree"]);
    assert_eq!(ws.git(&["diff", "--name-only", &tree, "lbx-snapshots", "--", "b", "c", "d", "f"]), "");
    ws.lbx(&["append", "b/g", "--content", "y\n"]).success();
    assert_eq!(ws.git_command(&["show", "lbx-snapshots:b/g"]).output().unwrap().stdout, b"x\ny\n");
}

#[test]
fn missed_snapshots_are_made_by_the_next_change() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\nthree\n"), ("b.txt", "b\n")]);
    let call = |session: &str, args: &[&str]| ws.lbx(&[args, &["--session", session]].concat());
    call("s", &["write", "first.txt", "--content", "1\n"]).ok();
    ws.git(&["symbolic-ref", "HEAD", "refs/heads/lbx-snapshots"]);
    for (session, old, new) in [("s", "one", "ONE"), ("t", "three", "THREE"), ("s", "ONE", "1")] {
        call(session, &["read", "a.txt"]).ok();
        let warned = call(session, &["edit", "a.txt", "--old-string", old, "--new-string", new]).success();
        assert!(warned["snapshot"].is_null(), "{warned}");
    }
    call("t", &["append", "b.txt", "--content", "t\n"]).success();
    call("t", &["move", "b.txt", "c.txt"]).success();
    call("s", &["delete", "first.txt"]).success();
    ws.git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
    call("u", &["write", "last.txt", "--content", "last\n"]).ok();
    let log = ws.git(&[
        "log",
        "--format=%s|%(trailers:key=Lbx-Session,valueonly,separator=)",
        "main..lbx-snapshots",
    ]);
    let wanted = [
        "write: last.txt|u",
        "delete: first.txt|s",
        "move: b.txt -> c.txt|t",
        "append: b.txt|t",
        "edit: a.txt|s",
        "edit: a.txt|t",
        "edit: a.txt|s",
        "write: first.txt|s",
    ];
    assert_eq!(log.lines().collect::<Vec<_>>(), wanted);
    let diff = |session: &str| call(session, &["diff"]).ok()["diff"].as_str().unwrap().to_owned();
    assert!(diff("s").ends_with("@@ -1,3 +1,3 @@\n-one\n+1\n two\n THREE\n"), "{}", diff("s"));
    assert!(diff("t").contains("-three\n+THREE\n") && !diff("t").contains("-one"), "{}", diff("t"));
    ws.git(&["fsck", "--strict"]);

    // Once the branch has moved on without them, they would take the newer bytes back.
    ws.git(&["symbolic-ref", "HEAD", "refs/heads/lbx-snapshots"]);
    call("s", &["append", "a.txt", "--content", "four\n"]).success();
    ws.git(&["commit", "-qam", "by hand"]);
    ws.git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
    call("s", &["append", "a.txt", "--content", "five\n"]).ok();
    assert_eq!(ws.git(&["show", "lbx-snapshots:a.txt"]), "1\ntwo\nTHREE\nfour\nfive");
}

#[test]
fn directory_without_git_has_log_diff_and_snapshots() {
    let ws = Workspace::bare(&[("a.txt", "one\n")]);
    assert_eq!(ws.lbx(&["log"]).ok(), json!({ "snapshots": [], "truncated": false }));
    assert_eq!(ws.lbx(&["diff"]).ok(), json!({ "files": 0, "truncated": false }));
    assert!(!ws.path(".lbx").exists());
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "two"]).ok();
    let log = ws.lbx(&["log"]).ok();
    let tools: Vec<_> = log["snapshots"].as_array().unwrap().iter().map(|it| it["tool"].clone()).collect();
    assert_eq!(tools, ["edit", "baseline"]);
    let diff = ws.lbx(&["diff"]).ok()["diff"].as_str().unwrap().to_owned();
    assert!(diff.ends_with("@@ -1 +1 @@\n-one\n+two\n"), "{diff}");
    ws.write("b.txt", "b\n");
    assert_eq!(ws.lbx(&["snapshot"]).ok()["files"], 1);
    assert_eq!(ws.lbx(&["snapshot"]).ok(), json!({ "files": 0, "insertions": 0, "deletions": 0 }));
}

#[test]
fn snapshots_contain_large_files_completely() {
    let lines = |last: &str| (0..200_000).map(|line| format!("line {line}\n")).collect::<String>() + last;
    let ws = Workspace::with(&[("big.txt", lines("one\n").as_str())]);
    ws.lbx(&["read", "big.txt", "--start-line", "-1"]).ok();
    ws.lbx(&["edit", "big.txt", "--old-string", "\none\n", "--new-string", "\ntwo\n"]).ok();
    // Another program's change of a large file is a separate commit, and is also complete.
    ws.write("big.txt", lines("three\n"));
    ws.lbx(&["append", "big.txt", "--content", "four\n"]).ok();
    let at = |commit: &str| ws.git(&["show", &format!("{commit}:big.txt")]) + "\n";
    assert_eq!(at("lbx-snapshots"), lines("three\nfour\n"));
    assert_eq!(at("lbx-snapshots~1"), lines("three\n"));
    assert_eq!(at("lbx-snapshots~2"), lines("two\n"));
    ws.git(&["fsck", "--strict", "--full"]);
}

/// They are computed while the disk works, from the files as they are; a conversion still comes first.
#[test]
fn large_file_is_stored_as_by_git() {
    let text = |eol: &str| (0..100_000).map(|line| format!("line {line}{eol}")).collect::<String>();
    let ws = Workspace::with(&[(".gitattributes", "crlf.txt text eol=crlf\n"), ("plain.txt", &text("\n"))]);
    ws.write("crlf.txt", text("\r\n"));
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-q", "-m", "large"]);
    for path in ["plain.txt", "crlf.txt"] {
        ws.lbx(&["read", path, "--limit", "10"]).ok();
        ws.lbx(&["edit", path, "--old-string", "line 7\n", "--new-string", "LINE 7\n"]).ok();
    }
    ws.holds("crlf.txt", text("\r\n").replacen("line 7\r", "LINE 7\r", 1));
    assert_eq!(ws.snapshots().len(), 2, "nothing was taken for someone else's: {:?}", ws.snapshots());
    assert_eq!(ws.git(&["rev-parse", "lbx-snapshots^{tree}"]), ws.tree_id());
}

/// Its bytes are in separate pages, and are read, joined, hashed and compressed in threads.
#[test]
fn edits_of_a_huge_file_are_snapshotted_and_undoable() {
    let original: String = (0..400_000).map(|line| format!("line {line} of many\n")).collect();
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.write("big.txt", &original);
    ws.lbx(&["read", "big.txt", "--limit", "1"]).ok();
    let mut text = original.clone();
    let is_whole = |text: &str| {
        ws.holds("big.txt", text);
        assert_eq!(ws.git(&["rev-parse", "lbx-snapshots:big.txt"]), ws.git(&["hash-object", "big.txt"]));
    };
    for (old, new) in [
        ("line 0 of many", "the first line"),
        ("line 200000 of many\n", "line 200000\nand one after it\n"),
        ("line 399998 of many\nline 399999 of many\n", ""),
        ("line 300000 of many", "line 300000 of MANY"),
    ] {
        ws.lbx(&["edit", "big.txt", "--old-string", old, "--new-string", new]).ok();
        text = text.replacen(old, new, 1);
        is_whole(&text);
    }
    ws.lbx(&["edit", "big.txt", "--old-string", " of many\n", "--new-string", "\n", "--replace-all"]).ok();
    is_whole(&text.replace(" of many\n", "\n"));
    assert_eq!(ws.snapshots().len(), 6, "five edits and the baseline: {:?}", ws.snapshots());
    assert_eq!(ws.git(&["show", "lbx-snapshots~5:big.txt"]) + "\n", original);
    ws.lbx(&["undo", "--steps", "5"]).ok();
    is_whole(&original);
    // One byte changed by another program, with the same size.
    ws.write("big.txt", original.replacen("line 7 ", "line 8 ", 1));
    ws.lbx(&["append", "big.txt", "--content", "end\n"]).ok();
    assert!(ws.git(&["show", "lbx-snapshots~1:big.txt"]).contains("\nline 8 of many\nline 8 of many\n"));
    ws.git(&["fsck", "--strict", "--full"]);
}

/// A scan that cannot read a folder reports no change, whatever git's index has of it.
#[test]
fn unreadable_files_stay_unchanged_in_the_snapshot() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("d/b.txt", "b\n"), ("d/e/c.txt", "c\n")]);
    for path in ["a.txt", "d/b.txt", "d/e/c.txt"] {
        ws.lbx(&["append", path, "--content", "more\n"]).ok();
    }
    let tree = ws.git(&["rev-parse", "lbx-snapshots^{tree}"]);
    // Folders that can be listed, but whose files cannot be read.
    let closings = [
        ("d/e", 0, 0o755),
        ("d", 0, 0o755),
        ("d/b.txt", 0, 0o644),
        ("d/e", 0o600, 0o755),
        ("d", 0o444, 0o755),
        ("a.txt", 0, 0o644),
    ];
    for (closed, shut, mode) in closings {
        let Some(snapshot) = ws.call_unprivileged(&["snapshot"]) else { return };
        ws.chmod(closed, shut);
        let data = snapshot.run().ok();
        ws.chmod(closed, mode);
        assert_eq!(
            data["left_out"],
            json!([{"path": closed, "reason": "it cannot be read: permission denied"}]),
            "{data}"
        );
        assert_eq!(data["files"], 0, "{closed}: {data}");
        assert_eq!(ws.git(&["rev-parse", "lbx-snapshots^{tree}"]), tree, "{closed}");
    }
}

/// `chmod -R 644` makes folders whose names can be read, but not their rules nor their files.
#[test]
fn untracked_folder_without_the_search_bit_is_left_out_alone() {
    let ws = Workspace::with(&[(".gitignore", "*.o\n")]);
    ws.lbx(&["write", "assets/known.txt", "--content", "known\n"]).ok();
    ws.write("assets/in/i.txt", "i\n");
    ws.write("assets/i.txt", "i\n");
    let Some(snapshot) = ws.call_unprivileged(&["snapshot"]) else { return };
    let direct = ws.call_unprivileged(&["bash", "--direct", "echo two > two.txt"]).unwrap();
    let write = ws.call_unprivileged(&["write", "one.txt", "--content", "1\n", "--session", "new"]).unwrap();
    ws.chmod("assets", 0o644);
    let written = write.run().success();
    let direct = direct.run().success();
    ws.write("other.txt", "other\n");
    let snapshot = snapshot.run().ok();
    ws.chmod("assets", 0o755);
    let closed = "assets (it cannot be read: permission denied)";
    assert!(written["warnings"].to_string().contains(closed), "{written:#}");
    assert_eq!(direct["data"]["changed"][0]["path"], "two.txt", "{direct:#}");
    assert_eq!(
        snapshot["left_out"],
        json!([{"path": "assets", "reason": "it cannot be read: permission denied"}]),
        "{snapshot}"
    );
    let recorded = ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]);
    let all = [".gitignore", "assets/known.txt", "one.txt", "other.txt", "two.txt"];
    assert_eq!(recorded.lines().collect::<Vec<_>>(), all);
    ws.lbx(&["undo"]).ok();
    assert!(!ws.path("two.txt").exists() && ws.path("assets/known.txt").exists());
}

/// Returns the subject and the session of each snapshot, newest first.
fn recorded(ws: &Workspace) -> String {
    let format = "--format=%s|%(trailers:key=Lbx-Session,valueonly,separator=)";
    ws.git(&["log", format, "main..lbx-snapshots"])
}

#[test]
fn pruned_snapshots_are_made_again_by_the_next_call() {
    let calls: [&[&str]; 4] = [
        &["append", "a.txt", "--content", "u\n", "--session", "u"],
        &["squash", "-m", "Do it", "--session", "s"],
        &["snapshot"],
        &["doctor", "--fix"],
    ];
    for call in calls {
        let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
        ws.git(&["config", "user.name", "Dev"]);
        ws.git(&["config", "user.email", "dev@example.org"]);
        let append = |session: &str, path: &str| {
            ws.lbx(&["append", path, "--content", &format!("{session}\n"), "--session", session]).ok();
        };
        append("s", "a.txt");
        let whole = ws.git(&["rev-parse", "lbx-snapshots"]);
        append("t", "b.txt");
        append("s", "a.txt");
        append("s", "a.txt");
        // As a prune leaves it that read the references before.
        let files = [".git/logs/refs/heads/lbx-snapshots", ".git/refs/heads/lbx-snapshots"];
        let kept = files.map(|file| fs::read(ws.path(file)).unwrap());
        ws.git(&["update-ref", "refs/heads/lbx-snapshots", &whole]);
        ws.write(files[0], "");
        ws.git(&["prune", "--expire=now"]);
        files.iter().zip(kept).for_each(|(file, bytes)| ws.write(file, bytes));
        ws.lbx(call).warned("the newest snapshots were gone");
        let log = recorded(&ws);
        let lost = "append: a.txt|s\nappend: a.txt|s\nappend: b.txt|t\nappend: a.txt|s";
        assert!(log.ends_with(lost), "{call:?}: {log}");
        assert_eq!(
            ws.git(&["show", "lbx-snapshots:a.txt"]) + "\n",
            fs::read_to_string(ws.path("a.txt")).unwrap(),
            "{call:?}"
        );
        assert_eq!(ws.git(&["fsck", "--no-dangling"]).trim(), "", "{call:?}");
        ws.git(&["gc", "-q"]);
    }
}

#[test]
fn changes_in_the_private_repository_are_recorded_again_in_their_own() {
    let append = |ws: &Workspace, path: &str, session: &str| {
        ws.lbx(&["append", path, "--content", &format!("{session}\n"), "--session", session])
    };
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    ws.git(&["config", "user.name", "Dev"]);
    ws.git(&["config", "user.email", "dev@example.org"]);
    append(&ws, "a.txt", "s").ok();
    let config = fs::read(ws.path(".git/config")).unwrap();
    ws.write(".git/config", "[broken");
    append(&ws, "a.txt", "t").warned("snapshots go to the private repository");
    append(&ws, "b.txt", "s").warned("snapshots go to the private repository");
    ws.write(".git/config", config);
    ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--onto", "mine"]).ok();
    assert_eq!(recorded(&ws), "append: b.txt|s\nappend: a.txt|t\nappend: a.txt|s");
    assert_eq!(ws.git(&["show", "mine:a.txt", "mine:b.txt"]), "one\ns\nb\ns");
    ws.lbx(&["snapshot"]).ok();
    assert_eq!(recorded(&ws), "append: b.txt|s\nappend: a.txt|t\nappend: a.txt|s");

    let ws = Workspace::bare(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    ws.git(&["init", "-q", "-b", "main", "--separate-git-dir", "../own.git"]);
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-q", "-m", "first"]);
    append(&ws, "a.txt", "s").warned("set snapshot.git_dirs");
    ws.git(&["commit", "-qam", "by hand"]);
    let allowed = format!("snapshot.git_dirs={}", ws.outside.join("own.git").display());
    ws.lbx(&["append", "b.txt", "--content", "s\n", "--session", "s", "--set", &allowed]).ok();
    assert_eq!(recorded(&ws), "append: b.txt|s\nappend: a.txt|s\nexternal: a.txt|");
}

#[test]
fn snapshot_that_gc_would_take_is_made_later() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n", "--session", "s"]).ok();
    let mut gc = collector(&ws, "--prune=now", "sleep 100");
    ws.lbx(&["append", "a.txt", "--content", "three\n", "--session", "s"])
        .warned("removes new objects; the next change after it");
    ws.lbx(&["squash", "-m", "Do it", "--session", "s"]).error("invalid_request");
    gc.kill().unwrap();
    gc.wait().unwrap();
    ws.lbx(&["append", "a.txt", "--content", "t\n", "--session", "t"]).ok();
    assert_eq!(recorded(&ws), "append: a.txt|t\nappend: a.txt|s\nappend: a.txt|s");
    assert_eq!(ws.git(&["show", "lbx-snapshots^:a.txt"]), "one\ntwo\nthree");
}

/// Starts a process that looks like a `git gc` with this word, and runs a script.
fn collector(ws: &Workspace, word: &str, script: &str) -> std::process::Child {
    let mut command = std::process::Command::new("sh");
    let child = command.args(["-c", script, "gc", word]).current_dir(&ws.root).spawn().unwrap();
    ws.write(".git/gc.pid", format!("{} host", child.id()));
    child
}

#[test]
fn snapshot_waits_for_git_gc_with_prune_now() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    for (word, call) in [
        ("--prune=now", &["append", "a.txt", "--content", "more\n"][..]),
        ("--prune=all", &["undo"]),
        ("--prune=now", &["snapshot"]),
    ] {
        ws.write("external.txt", word);
        let mut gc = collector(&ws, word, "sleep 0.5; rm -f .git/gc.pid");
        ws.lbx(call).ok();
        assert!(!ws.path(".git/gc.pid").exists(), "{call:?} did not wait for {word}");
        gc.wait().unwrap();
    }
    // A pid file of a process that has ended is not waited for, nor is one without a valid pid.
    let mut ended = std::process::Command::new("true").arg("--prune=now").spawn().unwrap();
    ended.wait().unwrap();
    for text in [format!("{} host", ended.id()), "x".repeat(9000), "no number".to_owned()] {
        ws.write(".git/gc.pid", text);
        ws.lbx(&["append", "a.txt", "--content", "more\n"]).ok();
    }
    assert_eq!(ws.git(&["fsck", "--no-dangling"]).trim(), "");
}

#[test]
fn objects_of_every_length_are_valid_for_git() {
    /// Bytes of a large file that are compressed independently of the others.
    const PIECE: usize = 60 << 10;
    let ws = Workspace::with(&[("k", "k\n")]);
    let lengths = [0, 1, 300, 4070, 4071, 4072, 4073, 4074, 4075, 4080, 9000];
    let large = [1 << 20, (1 << 20) + 1, 18 * PIECE - 1, 18 * PIECE, 18 * PIECE + 1];
    for (level, seed) in [("1", 1_u64), ("6", 2)] {
        ws.git(&["config", "core.looseCompression", level]);
        // Repetitive and incompressible bytes.
        let mut state = seed;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        };
        let noise: Vec<u8> = std::iter::repeat_with(&mut random).take(18 * PIECE + 1).collect();
        let lines: Vec<u8> =
            (0..99_999).flat_map(|line| format!("line {line} {seed}\n").into_bytes()).collect();
        let mut files = Vec::new();
        for length in lengths.into_iter().chain(large) {
            for (name, source) in [("noise", &noise), ("lines", &lines)] {
                let path = format!("{name}-{length}");
                ws.write(&path, &source[..length]);
                files.push((path, source[..length].to_vec()));
            }
        }
        ws.lbx(&["snapshot"]).ok();
        for (path, bytes) in files {
            let name = format!("lbx-snapshots:{path}");
            assert!(ws.git_command(&["cat-file", "blob", &name]).output().unwrap().stdout == bytes, "{path}");
            let id = ws.git(&["rev-parse", &name]);
            let (fan_out, rest) = id.trim().split_at(2);
            let size = fs::metadata(ws.path(&format!(".git/objects/{fan_out}/{rest}"))).unwrap().len();
            // A small object is stored as it is: it takes one block of the disk either way.
            let whole = format!("blob {}\0", bytes.len()).len() + bytes.len() + 11;
            let is_stored = level == "1" && whole <= 4096;
            assert!(!is_stored || size == whole as u64, "{path}: {size}");
        }
        ws.git(&["fsck", "--strict", "--no-dangling"]);
    }
}

#[test]
fn snapshot_has_only_the_policy_of_an_lbx_folder() {
    let ws = Workspace::with(&[("k", "k\n")]);
    let entering = [".lbx/config.toml", "a/b", "sub/.lbx/config.toml", "x.lbx/config.toml"];
    let others = [
        ".LBX/config.toml",
        "sub/.lbx/state.json",
        "sub/.lbx/xconfig.toml",
        "sub/.lbx/trash/.lbx/config.toml",
        "two/.lbx/config.toml/x",
        "three/.lbx",
    ];
    for path in entering.iter().chain(&others) {
        ws.write(path, format!("# {path}\n"));
    }
    ws.lbx(&["snapshot"]).success();
    let names = ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]);
    let mut names: Vec<&str> = names.lines().collect();
    names.retain(|name| *name != "k");
    assert_eq!(names, entering);
}

#[test]
fn worktrees_never_share_a_snapshot_branch() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let (long, other_long) = ("x".repeat(255), format!("{}y", "x".repeat(254)));
    let names: [&[u8]; 18] = [
        b"x y",
        b"x-y",
        b"x%20y",
        b"x%2520y",
        b"x~y",
        b"x^y",
        b"x:y",
        b"x..y",
        b"x.y",
        b"x%2E%2Ey",
        b".x",
        b"x.lock",
        b"x%2Elock",
        b"x@{y",
        "\u{e9}".as_bytes(),
        b"\xe9",
        long.as_bytes(),
        other_long.as_bytes(),
    ];
    for (at, name) in names.iter().enumerate() {
        let folder = ws.outside.join(format!("w{at}"));
        ws.git(&["worktree", "add", "-q", "--detach", folder.to_str().unwrap()]);
        // Git itself gives them plainer names.
        let own = ws.path(".git/worktrees").join(OsStr::from_bytes(name));
        fs::rename(ws.path(&format!(".git/worktrees/w{at}")), &own).unwrap();
        fs::write(folder.join(".git"), [b"gitdir: ", own.as_os_str().as_bytes(), b"\n"].concat()).unwrap();
        ws.call(&["append", "a.txt", "--content", "b\n"]).in_folder(&folder).run().ok();
    }
    let branches = ws.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads/lbx-snapshots-*"]);
    let branches: Vec<&str> = branches.lines().collect();
    assert_eq!(branches.len(), names.len(), "{branches:?}");
    assert!(branches.contains(&"lbx-snapshots-x-y") && branches.contains(&"lbx-snapshots-x%20y"));
    assert!(branches.iter().all(|branch| branch.len() < 180), "{branches:?}");
}
