//! Every change is a separate commit, and the developer's repository stays unchanged.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};

use serde_json::{Value, json};

use crate::common::{Workspace, skipped};

/// Returns everything that must not change: HEAD, the index, the configuration, the branches and their reflogs.
fn repository(ws: &Workspace) -> Vec<(String, Option<Vec<u8>>)> {
    let mut files = vec![("refs".to_owned(), Some(refs(ws).into_bytes()))];
    for name in ["HEAD", "index", "config", "logs/HEAD", "logs/refs/heads/main", "ORIG_HEAD", "packed-refs"] {
        files.push((name.to_owned(), fs::read(ws.path(".git").join(name)).ok()));
    }
    files
}

/// Returns all refs except those of the snapshots.
fn refs(ws: &Workspace) -> String {
    let all = ws.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
    all.lines().filter(|line| !line.contains("lbx-snapshots")).collect()
}

/// Returns the newest snapshot in a git log format.
fn newest(ws: &Workspace, format: &str) -> String {
    ws.git(&["log", "-1", &format!("--format={format}"), "lbx-snapshots"])
}

#[test]
fn each_change_is_one_commit_with_trailers() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("sub/b.txt", "b\n")]);
    let head = ws.git(&["rev-parse", "HEAD"]);
    let calls: &[(&[&str], &str, &str)] = &[
        (&["append", "a.txt", "--content", "two\n"], "append", "append: a.txt"),
        (&["write", "c/d.txt", "--content", "d\n"], "write", "write: c/d.txt"),
        (&["move", "sub", "dir"], "move", "move: sub -> dir"),
        (&["delete", "c/d.txt"], "delete", "delete: c/d.txt"),
        (&["undo"], "undo", "undo: c/d.txt"),
    ];
    for (at, (call, tool, subject)) in calls.iter().enumerate() {
        let envelope = ws.lbx(call).success();
        assert_eq!(envelope["snapshot"], ws.git(&["rev-parse", "lbx-snapshots"]), "{call:?}");
        assert_eq!(newest(&ws, "%s"), *subject);
        let trailers = newest(&ws, "%(trailers)");
        for trailer in ["Lbx-Session: default", &format!("Lbx-Tool: {tool}"), &format!("Lbx-Seq: {}", at + 1)]
        {
            assert!(trailers.contains(trailer), "{call:?}: {trailers}");
        }
        assert_eq!(ws.snapshots().len(), at + 1, "{call:?}");
    }
    assert_eq!(ws.git(&["rev-parse", "lbx-snapshots~5"]), head, "the first snapshot's parent is HEAD");
    assert_eq!(ws.git(&["rev-parse", "lbx-snapshots^{tree}"]), ws.tree_id());
    ws.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn why_and_its_aliases_become_the_commit_body() {
    for name in ["why", "description", "instruction", "summary", "explanation"] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        let mut request = json!({"path": "a.txt", "content": "two\n"});
        request[name] = json!("The list was incomplete.\n\nLbx-Session: forged");
        ws.json("append", &request).ok();
        let body = newest(&ws, "%b");
        assert!(body.starts_with("The list was incomplete.\n"), "{name}: {body}");
        assert_eq!(newest(&ws, "%(trailers:key=Lbx-Session,valueonly)"), "default");
        let entry = &ws.lbx(&["log"]).ok()["snapshots"][0];
        assert_eq!(entry["why"], "The list was incomplete.\n\nLbx-Session: forged");
        assert_eq!((&entry["session"], &entry["seq"]), (&json!("default"), &json!(1)));
    }
    // A long subject is cut.
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.write("a.txt", "two\n");
    ws.lbx(&["snapshot", "--message", &"x".repeat(1000)]).ok();
    assert_eq!(newest(&ws, "%s").trim().chars().count(), 200);
}

#[test]
fn changes_by_other_programs_get_their_own_commit() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.write("a.txt", "one\ntwo\nsomeone's\n");
    ws.lbx(&["append", "a.txt", "--content", "three\n"]).ok();
    let subjects = ws.snapshots();
    assert_eq!(subjects.len(), 3, "{subjects:?}");
    assert!(subjects[1].starts_with("external: "), "{subjects:?}");
    assert_eq!(ws.git(&["show", "lbx-snapshots~1:a.txt"]), "one\ntwo\nsomeone's");
    let diff = ws.git(&["diff", "lbx-snapshots~1", "lbx-snapshots"]);
    assert!(diff.contains("+three") && !diff.contains("+someone's"), "{diff}");
}

#[test]
fn uncommitted_changes_become_the_session_baseline() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    ws.write("b.txt", "mine\n");
    ws.write("new.txt", "new\n");
    let index = fs::read(ws.path(".git/index")).unwrap();
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    assert_eq!(ws.snapshots(), ["append: a.txt", "baseline"]);
    assert_eq!(ws.git(&["show", "--format=", "--name-only", "lbx-snapshots~1"]), "b.txt\nnew.txt");
    assert_eq!(ws.git(&["show", "--format=", "--name-only", "lbx-snapshots"]), "a.txt");
    let diff = ws.lbx(&["diff", "--text"]).stdout_text();
    assert!(diff.contains("+two") && !diff.contains("mine"), "{diff}");
    assert_eq!(fs::read(ws.path(".git/index")).unwrap(), index);
    // Without uncommitted changes, it is HEAD.
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    assert_eq!(ws.snapshots(), ["append: a.txt"]);
}

#[test]
fn ignored_file_never_enters_a_commit() {
    let ws = Workspace::with(&[(".gitignore", "*.env\nsecret/\n"), ("a.txt", "one\n")]);
    ws.write("old.env", "KEY=old\n");
    for (path, content) in [("x.env", "KEY=1\n"), ("secret/key", "k\n")] {
        ws.lbx(&["write", path, "--content", content]).success();
    }
    ws.lbx(&["append", "old.env", "--content", "KEY=2\n"]).success();
    ws.lbx(&["move", "x.env", "secret/x"]).success();
    ws.lbx(&["delete", "old.env"]).success();
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).success();
    ws.lbx(&["snapshot"]).success();
    let all = ws.git(&["log", "--all", "--format=", "--name-only"]);
    let mut names: Vec<&str> = all.lines().collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, [".gitignore", "a.txt"]);
    // Not even as an object that no commit names.
    let objects = ws.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"]);
    for object in objects.lines().filter_map(|line| line.strip_suffix(" blob")) {
        let content = ws.git(&["cat-file", "-p", object]);
        assert!(!content.contains("KEY="), "{content}");
    }
}

#[test]
fn newly_ignored_file_leaves_the_snapshots() {
    for touch in [
        &["append", "c.ini", "--content", "pw=2\n"][..],
        &["bash", "echo pw=2 >> c.ini"],
        &["bash", "--direct", "echo pw=2 >> c.ini"],
        &["bash", "true > other"],
        &["snapshot"],
    ] {
        let ws = Workspace::with(&[("a.txt", "a\n"), ("kept.ini", "k\n")]);
        ws.lbx(&["write", "c.ini", "--content", "host=1\n"]).success();
        assert!(ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]).contains("c.ini"));
        // HEAD has kept.ini: tracked files stay, ignored or not.
        ws.write(".gitignore", "*.ini\n");
        ws.lbx(touch).success();
        ws.lbx(&["snapshot"]).success();
        let names = ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]);
        assert!(!names.lines().any(|name| name == "c.ini"), "{touch:?}: {names}");
        assert!(names.lines().any(|name| name == "kept.ini"), "{touch:?}: {names}");
        assert!(!ws.git(&["log", "-p", "lbx-snapshots"]).contains("pw=2"), "{touch:?}");
        if touch[0] != "snapshot" && touch.last() != Some(&"true > other") {
            ws.lbx(&["undo"]).success();
            ws.holds("c.ini", "host=1\n");
        }
        // Files in the index are tracked.
        ws.git(&["add", "-f", "c.ini"]);
        ws.lbx(&["append", "c.ini", "--content", "more\n"]).success();
        assert!(ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]).contains("c.ini"), "{touch:?}");
    }
}

#[test]
fn renamed_or_copied_secret_enters_no_commit() {
    let ws = Workspace::with(&[("a.txt", "a\n"), (".gitignore", "*.local\n")]);
    ws.lbx(&["write", ".env", "--content", "PW=SECRET1\n"]).success();
    let warned = ws.lbx(&["move", ".env", "env.txt"]).success()["warnings"].to_string();
    assert!(warned.contains("env.txt (it has the bytes of a file that stays out)"), "{warned}");
    ws.lbx(&["append", "env.txt", "--content", "PW2=SECRET2\n"]).success();
    ws.lbx(&["bash", "cp env.txt copy; mkdir q; mv env.txt q/moved"]).success();
    ws.lbx(&["bash", "--direct", "cp copy direct"]).success();
    // One that the developer wrote: in the root, or read by the session.
    ws.write(".env.test", "PW=SECRET3\n");
    ws.lbx(&["bash", "cp .env.test plain"]).success();
    ws.write("deep/x.local", "PW=SECRET4\n");
    ws.lbx(&["read", "deep/x.local"]).success();
    ws.lbx(&["write", "deep/y.txt", "--content", "PW=SECRET4\n"]).success();
    // A folder with one.
    ws.lbx(&["write", "conf/.env", "--content", "PW=SECRET5\n"]).success();
    ws.lbx(&["move", "conf", "pub"]).success();
    ws.lbx(&["move", "pub/.env", "pub/env"]).success();
    // One that git ignores, and that a direct command moves, or copies and changes.
    ws.write("one.local", "PW=SECRET6\n");
    ws.write("two.local", "PW=SECRET7\n");
    ws.write("sub/three.local", "PW=SECRET8\n");
    let command = "mv one.local one; cp two.local two; echo x >> two.local; mv sub/three.local three";
    ws.lbx(&["bash", "--direct", command]).success();
    ws.lbx(&["append", "a.txt", "--content", "b\n"]).success();
    ws.lbx(&["snapshot"]).success();
    assert!(!ws.git(&["log", "-p", "lbx-snapshots"]).contains("SECRET"));
    // Content that the repository already has is not a secret, under any name.
    ws.lbx(&["bash", "cp a.txt b.local; mv a.txt b.txt"]).success();
    let names = ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]);
    assert!(names.lines().any(|name| name == "b.txt"), "{names}");
    // Undo can restore all of it.
    ws.lbx(&["undo", "q/moved"]).success();
    ws.holds("env.txt", "PW=SECRET1\nPW2=SECRET2\n");
}

#[test]
fn untracked_file_with_a_secret_name_enters_no_commit() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("known.pem", "KEY=public\n")]);
    ws.write(".lbx/config.toml", "snapshot.exclude = ['private/', '*.dump']\n");
    ws.write(".env.local", "KEY=old\n");
    let written = ws.lbx(&["write", "conf/.env", "--content", "KEY=1\n"]).success();
    assert_eq!(
        written["warnings"],
        json!([
            "not in the baseline of this session: .env.local (its name looks like a secret)",
            "not in the snapshot: conf/.env (its name looks like a secret)"
        ])
    );
    let written = ws.lbx(&["write", "private/deep/x", "--content", "KEY=2\n"]).success();
    let why = "not in the snapshot: private/deep/x (the policy's snapshot.exclude names it)";
    assert_eq!(written["warnings"], json!([why]));
    for path in ["Server.KEY", "sub/id_rsa", "x.dump", ".envrc", "A/B.PEM", "Id_Ed25519", ".netrc"] {
        ws.lbx(&["write", path, "--content", "KEY=3\n"]).success();
    }
    // These are no secrets.
    let plain = ["a.env", "env", "id_rsa.pub", "key", "keys/x", "monkey", "pem.rs", "sub/.env/x"];
    for path in plain {
        ws.lbx(&["write", path, "--content", &format!("{path}\n")]).ok();
    }
    ws.lbx(&["append", ".env.local", "--content", "KEY=4\n"]).success();
    ws.lbx(&["bash", "echo KEY=5 > b.pem; echo two >> a.txt; mv x.dump y.txt.dump"]).success();
    ws.lbx(&["move", "conf", "moved"]).success();
    ws.lbx(&["snapshot"]).success();
    // A file that was committed once is no longer a secret.
    ws.lbx(&["append", "known.pem", "--content", "more\n"]).success();
    let all = ws.git(&["log", "--all", "--format=", "--name-only"]);
    let names: std::collections::BTreeSet<&str> = all.lines().collect();
    let wanted = [".lbx/config.toml", "a.txt", "known.pem"].into_iter().chain(plain).collect();
    assert_eq!(names, wanted);
    let objects = ws.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"]);
    for object in objects.lines().filter_map(|line| line.strip_suffix(" blob")) {
        let content = ws.git(&["cat-file", "-p", object]);
        assert!(!content.contains("KEY=") || content.contains("KEY=public"), "{content}");
    }
    // All of it can still be undone.
    let steps = ws.lbx(&["session", "status"]).ok()["changes"].as_u64().unwrap_or(20).to_string();
    ws.lbx(&["undo", "--steps", &steps]).success();
    assert_eq!(fs::read(ws.path(".env.local")).unwrap(), b"KEY=old\n");
    assert!(!ws.path("conf").exists() && !ws.path("moved").exists() && !ws.path("b.pem").exists());
}

#[test]
fn head_index_and_configuration_stay_untouched() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n"), ("sub/c.txt", "c\n")]);
    ws.write("b.txt", "staged\n");
    ws.git(&["add", "b.txt"]);
    ws.write("b.txt", "and not staged\n");
    ws.write("sub/c.txt", "stashed\n");
    ws.git(&["stash", "push", "-q", "sub/c.txt"]);
    let before = repository(&ws);
    let staged = ws.git(&["diff", "--cached"]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.lbx(&["move", "sub/c.txt", "d.txt"]).ok();
    ws.lbx(&["append", "b.txt", "--content", "more\n"]).ok();
    ws.lbx(&["snapshot", "all of it"]).ok();
    ws.lbx(&["undo"]).ok();
    for call in [&["log"][..], &["diff"], &["ls"], &["grep", "one"], &["audit"]] {
        ws.lbx(call).ok();
    }
    assert_eq!(repository(&ws), before);
    assert_eq!(ws.git(&["diff", "--cached"]), staged);
    assert_eq!(ws.git(&["stash", "list"]).lines().count(), 1);
    ws.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn call_without_changes_creates_no_commit() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for call in [
        &["write", "a.txt", "--content", "one\n"][..],
        &["append", "a.txt", "--content", "x", "--dry-run"],
        &["snapshot"],
        &["read", "a.txt"],
    ] {
        assert_eq!(ws.lbx(call).success()["snapshot"], Value::Null, "{call:?}");
    }
    assert!(ws.snapshots().is_empty());
}

#[test]
fn log_lists_changes_in_json_and_text() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\nthree\n"]).ok();
    ws.lbx(&["append", "b.txt", "--content", "bb\n", "--session", "bob"]).ok();
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "1"]).ok();
    let all = ws.lbx(&["log"]).ok();
    let entries = all["snapshots"].as_array().unwrap();
    assert_eq!(entries.len(), 3);
    let edit = &entries[0];
    assert_eq!(
        (&edit["tool"], &edit["paths"], &edit["session"]),
        (&json!("edit"), &json!(["a.txt"]), &json!("default"))
    );
    assert_eq!((&edit["files"], &edit["insertions"], &edit["deletions"]), (&json!(1), &json!(1), &json!(1)));
    assert_eq!(edit["id"], ws.git(&["rev-parse", "lbx-snapshots"]));
    assert_eq!(entries[2]["insertions"], 2);
    let count = |call: &[&str]| ws.lbx(call).ok()["snapshots"].as_array().unwrap().len();
    assert_eq!(count(&["log", "a.txt"]), 2);
    assert_eq!(count(&["log", "--session", "bob"]), 1);
    assert_eq!(count(&["log", "--limit", "1"]), 1);
    assert_eq!(count(&["log", "--since", "1h"]), 3);
    assert_eq!(count(&["log", "--since", "lbx-snapshots~1"]), 1);
    let text = ws.lbx(&["log", "--text"]);
    assert_eq!(text.stdout_text().lines().count(), 3);
    assert!(text.stdout_text().contains("edit: a.txt (+1 -1)"), "{}", text.stdout_text());
}

#[test]
fn diff_shows_session_changes_in_json_and_text() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    let none = ws.lbx(&["diff"]).ok();
    assert_eq!(none["files"], 0);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.lbx(&["append", "b.txt", "--content", "bb\n", "--session", "bob"]).ok();
    let own = ws.lbx(&["diff"]).ok();
    assert_eq!((&own["files"], &own["session"]), (&json!(1), &json!("default")));
    let text = ws.lbx(&["diff", "--text"]).stdout_text();
    assert_eq!(own["diff"], text);
    assert!(text.starts_with("diff --git a/a.txt b/a.txt\n") && text.ends_with("+two\n"), "{text}");
    let whole = ws.lbx(&["diff", "--from", "HEAD", "--to", "lbx-snapshots"]).ok();
    assert_eq!(whole["files"], 2);
    assert_eq!(
        whole["diff"].as_str().unwrap().trim_end(),
        ws.git(&["diff", "--no-color", "--abbrev=10", "HEAD", "lbx-snapshots"]),
    );
    assert_eq!(ws.lbx(&["diff", "b.txt", "--from", "HEAD"]).ok()["files"], 1);
    ws.lbx(&["diff", "--from", "ffffffffff"]).error("not_found");
    let status = ws.lbx(&["diff", "--exit-status"]);
    assert_eq!((status.status(), status.envelope()["ok"].clone()), (1, json!(true)));
    assert_eq!(ws.lbx(&["diff", "--exit-status", "--session", "nobody", "b.txt"]).status(), 0);
}

#[test]
fn snapshot_includes_every_uncommitted_change() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("gone.txt", "g\n"), ("sub/run.sh", "x\n")]);
    ws.write("a.txt", "uno\n");
    ws.write("new/file.txt", "new\n");
    ws.link("a.txt", "link");
    fs::remove_file(ws.path("gone.txt")).unwrap();
    ws.chmod("sub/run.sh", 0o755);
    let data = ws.lbx(&["snapshot", "before the release\nAll of it."]).ok();
    assert_eq!(data["files"], 5);
    assert_eq!(
        (newest(&ws, "%s"), newest(&ws, "%b").lines().next()),
        ("external: before the release".to_owned(), Some("All of it."))
    );
    assert_eq!(ws.git(&["rev-parse", "lbx-snapshots^{tree}"]), ws.tree_id());
    assert_eq!(
        ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]),
        "a.txt\nlink\nnew/file.txt\nsub/run.sh"
    );
}

#[test]
fn workspace_without_git_uses_a_private_repository() {
    let ws = Workspace::bare(&[("a.txt", "one\n")]);
    let envelope = ws.lbx(&["append", "a.txt", "--content", "two\n"]).success();
    assert!(envelope["snapshot"].is_string(), "{envelope:#}");
    assert!(!ws.path(".git").exists());
    let log = ws.lbx(&["log"]).ok();
    assert_eq!(log["snapshots"][0]["tool"], "append");
    assert!(ws.lbx(&["diff", "--text"]).stdout_text().contains("+two"));
    let again = ws.lbx(&["write", "b.txt", "--content", "b", "--require-snapshot"]).success();
    assert!(again["snapshot"].is_string(), "{again:#}");
}

#[test]
fn failed_snapshot_is_a_warning_unless_required() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.git(&["checkout", "-q", "-b", "lbx-snapshots"]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).warned("snapshot");
    ws.holds("a.txt", "one\ntwo\n");
    let call = ["append", "a.txt", "--content", "three\n", "--require-snapshot"];
    let error = ws.lbx(&call).error("snapshot_failed");
    // The answer and the file must agree.
    let text = String::from_utf8(ws.read_bytes("a.txt")).unwrap();
    assert_eq!(error["applied"] == json!(true), text.ends_with("three\n"), "{error:#}\n{text}");
    assert_eq!(ws.git(&["log", "--format=%s"]), "first");
    ws.git(&["checkout", "-q", "main"]);
    assert!(
        ws.lbx(&["append", "a.txt", "--content", "four\n", "--require-snapshot"]).success()["snapshot"]
            .is_string()
    );
}

#[test]
fn snapshots_run_no_filter_or_hook_of_the_repository() {
    let ws = Workspace::with(&[("a.txt", "one\n"), (".gitattributes", "*.txt filter=evil diff=evil\n")]);
    let witness = ws.outside.join("ran");
    let evil = format!("touch {}; cat", witness.display());
    for key in
        ["filter.evil.clean", "filter.evil.smudge", "diff.external", "diff.evil.textconv", "core.fsmonitor"]
    {
        ws.git(&["config", key, &evil]);
    }
    for hook in ["pre-commit", "post-commit", "reference-transaction", "post-index-change"] {
        ws.write(&format!(".git/hooks/{hook}"), format!("#!/bin/sh\n{evil}\n"));
        ws.chmod(&format!(".git/hooks/{hook}"), 0o755);
    }
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).success();
    ws.write("b.txt", "b\n");
    ws.lbx(&["snapshot"]).success();
    ws.lbx(&["diff"]).success();
    ws.lbx(&["log"]).success();
    assert!(!witness.exists());
}

#[test]
fn required_snapshot_counts_for_commands_and_undo() {
    let ws = Workspace::with(&[("a.txt", "a\n"), (".gitignore", "ignored*\n")]);
    ws.lbx(&["bash", "echo 1 > ignored1", "--require-snapshot"]).error("snapshot_failed");
    ws.lbx(&["append", "ignored2", "--content", "2"]).warned("git ignores it");
    for tool in ["undo", "redo"] {
        ws.lbx(&[tool, "--require-snapshot"]).error("snapshot_failed");
    }
    ws.lbx(&["bash", "echo 3 > b.txt", "--require-snapshot"]).ok();
    // There is nothing that git could have.
    ws.lbx(&["mkdir", "d", "--require-snapshot"]).ok();
    ws.lbx(&["bash", "true", "--require-snapshot"]).ok();
}

#[test]
fn rules_in_a_folder_that_another_account_closed_are_none_as_for_git() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root makes folders of other accounts");
    }
    for setting in ["", "core.excludesFile", "core.attributesFile"] {
        let ws = Workspace::with(&[("a.txt", "a\n")]);
        let closed = ws.outside.join("closed");
        fs::create_dir(&closed).unwrap();
        chown(&closed, Some(65534), None).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        if !setting.is_empty() {
            ws.git(&["config", setting, closed.join("rules").to_str().unwrap()]);
        }
        for words in
            [["append", "a.txt", "--content", "b\n"], ["bash", "--direct", "--command", "echo b > b.txt"]]
        {
            let Some(mut call) = ws.call_unprivileged(&words[..]) else { return };
            if setting.is_empty() {
                call = call.env("HOME", &closed);
            }
            let envelope = call.run().success();
            assert!(envelope["snapshot"].is_string(), "{setting}: {envelope}");
        }
    }
}

#[test]
fn rules_of_the_users_own_that_are_closed_for_now_stop_the_snapshot() {
    for closed in [".config/git", ".config", ""] {
        let ws = Workspace::with(&[("a.txt", "a\n")]);
        ws.write("secret.txt", "key\n");
        ws.write("new.txt", "new\n");
        let home = ws.outside.join("own");
        fs::create_dir_all(home.join(".config/git")).unwrap();
        fs::write(home.join(".config/git/ignore"), "secret.txt\n").unwrap();
        let folder = home.join(closed);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o000)).unwrap();
        let called = ws.call_unprivileged(&["snapshot"]).map(|call| call.env("HOME", &home).run());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        let Some(answer) = called else { return };
        let error = answer.error("snapshot_failed");
        assert!(error["message"].as_str().unwrap().contains("cannot be read"), "{closed}: {error}");
        ws.call_unprivileged(&["snapshot"]).unwrap().env("HOME", &home).run().success();
        let names = ws.git(&["ls-tree", "--name-only", "lbx-snapshots"]);
        assert!(names.contains("new.txt") && !names.contains("secret.txt"), "{closed}: {names}");
    }
}
