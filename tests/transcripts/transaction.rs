//! A change is applied completely or not at all, and touches nothing else.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::common::{Call, Workspace, is_root, kill, skipped};

/// Returns the files below `.lbx` whose loss or growth would show a leftover.
fn left_behind(ws: &Workspace) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![ws.root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&ws.root).unwrap().display().to_string();
            if path.is_dir() && !path.is_symlink() {
                if name != ".git" {
                    folders.push(path);
                }
            } else if name.contains("tmp") || name.contains("staging/") || name.contains("/new-") {
                found.push(name);
            }
        }
    }
    found
}

#[test]
fn permission_bits_and_attributes_survive_every_change() {
    let ws = Workspace::with(&[("run.sh", "#!/bin/sh\necho one\n")]);
    ws.chmod("run.sh", 0o751);
    let path = ws.path("run.sh");
    let set = Command::new("setfattr").args(["-n", "user.note", "-v", "kept"]).arg(&path).status();
    let has_attributes = set.is_ok_and(|status| status.success());
    ws.lbx(&["read", "run.sh"]).ok();
    ws.lbx(&["edit", "run.sh", "--old-string", "one", "--new-string", "two"]).ok();
    ws.lbx(&["append", "run.sh", "--content", "exit\n"]).ok();
    ws.lbx(&["write", "run.sh", "--content", "#!/bin/sh\n"]).ok();
    assert_eq!(ws.mode("run.sh"), 0o751);
    if has_attributes {
        let shown =
            Command::new("getfattr").args(["-n", "user.note", "--only-values"]).arg(&path).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&shown.stdout), "kept");
    }
    assert!(ws.git(&["ls-tree", "lbx-snapshots", "run.sh"]).starts_with("100755"));
}

#[test]
fn edit_of_a_read_only_file_is_permission_denied() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.chmod("a.txt", 0o444);
    ws.lbx(&["read", "a.txt"]).ok();
    let edit = ["edit", "a.txt", "--old-string", "one", "--new-string", "two"];
    let Some(call) = ws.call_unprivileged(&edit) else { return };
    ws.unchanged(|| call.run().error("permission_denied"));
}

#[test]
fn patch_removes_or_renames_a_read_only_file_and_does_not_change_its_bytes() {
    let delete = "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n";
    let rename = "diff --git a/a.txt b/b.txt\nsimilarity index 100%\nrename from a.txt\nrename to b.txt\n";
    let hunk = "@@ -1 +1 @@\n-one\n+two\n";
    let both = format!("{}--- a/a.txt\n+++ b/b.txt\n{hunk}", rename.replace("100", "50"));
    let modify = format!("--- a/a.txt\n+++ b/a.txt\n{hunk}");
    for (patch, is_allowed) in [(delete, true), (rename, true), (&both, false), (&modify, false)] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        ws.chmod("a.txt", 0o444);
        let before = ws.tree();
        ws.lbx(&["read", "a.txt"]).ok();
        let Some(call) = ws.call_unprivileged(&["patch"]) else { return };
        let answer = call.stdin(patch).run();
        if is_allowed {
            answer.ok();
            assert!(!ws.path("a.txt").exists(), "{patch}");
            ws.call_unprivileged(&["undo"]).unwrap().run().ok();
        } else {
            answer.error("permission_denied");
        }
        assert_eq!(ws.tree(), before, "{patch}");
    }
}

#[test]
fn edit_leaves_other_hard_links_with_the_old_bytes() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    fs::hard_link(ws.path("a.txt"), ws.path("b.txt")).unwrap();
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "two"]).warned("hard links");
    ws.holds("a.txt", "two\n");
    ws.holds("b.txt", "one\n");
}

#[test]
fn head_index_stash_and_branches_stay_byte_for_byte() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    ws.write("b.txt", "stashed\n");
    ws.git(&["stash", "-q"]);
    ws.write("staged.txt", "staged\n");
    ws.git(&["add", "staged.txt"]);
    ws.write("untracked.txt", "untracked\n");
    let state = || {
        let mut state: Vec<(String, Vec<u8>)> = Vec::new();
        for file in
            ["HEAD", "index", "config", "logs/HEAD", "logs/refs/heads/main", "refs/heads/main", "refs/stash"]
        {
            state.push((file.to_owned(), fs::read(ws.path(".git").join(file)).unwrap()));
        }
        state
    };
    let before = state();
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "two"]).ok();
    ws.lbx(&["write", "c.txt", "--content", "c"]).ok();
    assert_eq!(state(), before);
    assert_eq!(
        ws.git(&["status", "--porcelain"]),
        "A  staged.txt\n M a.txt\n?? c.txt\n?? untracked.txt"
            .replace("A  staged.txt\n M a.txt", " M a.txt\nA  staged.txt")
    );
    ws.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn each_change_has_one_snapshot_and_errors_have_none() {
    let ws = Workspace::with(&[("a.txt", "1\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    for number in 1..=5 {
        let (old, new) = (number.to_string(), (number + 1).to_string());
        ws.lbx(&["edit", "a.txt", "--old-string", &old, "--new-string", &new]).ok();
        ws.lbx(&["edit", "a.txt", "--old-string", "nothing like it", "--new-string", "x"]).error("no_match");
    }
    assert_eq!(ws.snapshots(), ["edit: a.txt"; 5]);
    let texts: Vec<String> =
        (0..5).map(|back| ws.git(&["show", &format!("lbx-snapshots~{back}:a.txt")])).collect();
    assert_eq!(texts, ["6", "5", "4", "3", "2"]);
    assert_eq!(ws.git(&["rev-parse", "lbx-snapshots~5"]), ws.git(&["rev-parse", "HEAD"]));
}

#[test]
fn ignored_files_stay_out_of_the_snapshots() {
    let ws = Workspace::with(&[(".gitignore", "*.key\n")]);
    let envelope = ws.lbx(&["write", "secret.key", "--content", "s"]).success();
    assert!(envelope["snapshot"].is_null(), "{envelope}");
    ws.holds("secret.key", "s");
    assert!(ws.snapshots().is_empty());
}

#[test]
fn hundred_concurrent_appends_lose_no_line() {
    let ws = Workspace::with(&[("log.txt", "")]);
    let text = |number: usize| format!("line {number}\n");
    let calls: Vec<_> = (0..100)
        .map(|number| {
            let session = format!("s{}", number % 7);
            ws.call(&["append", "log.txt", "--content", &text(number), "--session", &session]).spawn()
        })
        .collect();
    for call in calls {
        let output = call.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let mut lines: Vec<String> = String::from_utf8(ws.read_bytes("log.txt"))
        .unwrap()
        .lines()
        .map(|line| format!("{line}\n"))
        .collect();
    lines.sort();
    let mut wanted: Vec<String> = (0..100).map(text).collect();
    wanted.sort();
    assert_eq!(lines, wanted);
    assert_eq!(ws.snapshots(), vec!["append: log.txt"; 100]);
    ws.git(&["fsck", "--strict", "--no-dangling"]);
    assert_eq!(left_behind(&ws), [""; 0]);
}

#[test]
fn two_concurrent_edits_lose_no_update() {
    let ws = Workspace::with(&[("a.txt", "0\n")]);
    // Both have read the same bytes, on which each edit is based.
    for session in ["a", "b"] {
        ws.lbx(&["read", "a.txt", "--session", session]).ok();
    }
    let edit = |session: &str| {
        let call = ["edit", "a.txt", "--old-string", "0", "--new-string", session, "--session", session];
        ws.call(&call).spawn()
    };
    let (one, other) = (edit("a"), edit("b"));
    let statuses: Vec<i32> = [one, other]
        .into_iter()
        .map(|call| call.wait_with_output().unwrap().status.code().unwrap())
        .collect();
    let mut sorted = statuses.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 6], "one lands, the other hears stale_file");
    ws.holds("a.txt", if statuses[0] == 0 { "a\n" } else { "b\n" });
}

#[test]
fn killed_write_leaves_old_or_new_bytes() {
    let old = "old line\n".repeat(20_000);
    let new = "new line\n".repeat(20_000);
    let ws = Workspace::with(&[("a.txt", &old), ("b.txt", "b\n")]);
    // Delays in steps, from before the first system call to after the last, in an order that does not grow with them.
    for round in 0..40_u64 {
        let delay = Duration::from_micros((round * 7919) % 12_000);
        let text = if round % 2 == 0 { &new } else { &old };
        let _ = ws.lbx(&["read", "a.txt", "--max-bytes", "0", "--limit", "0"]).success();
        let mut call = ws.call(&["write", "a.txt"]).stdin(text).spawn();
        std::thread::sleep(delay);
        kill(call.id());
        call.wait().unwrap();
        let found = String::from_utf8(ws.read_bytes("a.txt")).unwrap();
        assert!(found == old || found == new, "round {round}: {} bytes", found.len());
        // The next call of any session works, and finishes open changes.
        let data =
            ws.lbx(&["append", "b.txt", "--content", "b\n", "--session", "next"]).success()["data"].clone();
        assert_eq!(data["lines_added"], 1, "round {round}");
        let settled = String::from_utf8(ws.read_bytes("a.txt")).unwrap();
        assert!(settled == old || settled == new, "round {round}");
    }
    ws.holds("b.txt", "b\n".repeat(41));
    ws.git(&["fsck", "--strict", "--no-dangling"]);
    let _ = ws.lbx(&["read", "a.txt"]).success();
    ws.lbx(&["write", "a.txt", "--content", "end\n"]).success();
    assert_eq!(ws.git(&["show", "lbx-snapshots:a.txt"]), "end");
    assert_eq!(left_behind(&ws), [""; 0]);
}

#[test]
fn rejected_write_leaves_no_folder_or_file() {
    let ws = Workspace::with(&[("file", "x")]);
    ws.unchanged(|| {
        ws.lbx(&["write", "a/b/c", "--content", "x", "--expected-sha256", &"0".repeat(64)])
            .error("stale_file");
        ws.lbx(&["write", "file/b/c", "--content", "x"]).error("not_a_directory");
        ws.json("write", &json!({"path": "a/b/c", "content": "x", "mode": "99"})).error("invalid_request");
    });
    assert_eq!(left_behind(&ws), [""; 0]);
}

#[test]
fn write_through_a_symlink_keeps_the_symlink() {
    let ws = Workspace::with(&[("real.txt", "one\n")]);
    ws.link("real.txt", "link.txt");
    ws.lbx(&["read", "link.txt"]).ok();
    ws.lbx(&["write", "link.txt", "--content", "two\n"]).ok();
    assert_eq!(fs::read_link(ws.path("link.txt")).unwrap(), Path::new("real.txt"));
    ws.holds("real.txt", "two\n");
}

#[test]
fn append_keeps_the_file_owner() {
    if !is_root() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    std::os::unix::fs::chown(ws.path("a.txt"), Some(12_345), Some(23_456)).unwrap();
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let stat = fs::metadata(ws.path("a.txt")).unwrap();
    assert_eq!((stat.uid(), stat.gid()), (12_345, 23_456));
    ws.lbx(&["read", "a.txt"]).ok();
    // Without the power to give files away: what is lost is named.
    let without = ["--bounding-set", "-chown", "--"];
    for (owner, group, lost) in [(0, 23_456, "group (23456)"), (12_345, 0, "owner (12345)")] {
        std::os::unix::fs::chown(ws.path("a.txt"), Some(owner), Some(group)).unwrap();
        let call = Call::under("setpriv", &without, &ws.root, &ws.outside.join("home"));
        let edit = ["edit", "a.txt", "--old-string", "one", "--new-string", "one, two"];
        call.arguments(&edit).run().warned(&format!("the file's {lost} could not be kept"));
        fs::write(ws.path("a.txt"), "one\n").unwrap();
        ws.lbx(&["read", "a.txt"]).ok();
    }
    // No message names a place below .lbx.
    ws.chmod("a.txt", 0o200);
    let Some(call) = ws.call_unprivileged(&["delete", "a.txt"]) else { return };
    call.run().warned("the moved files are not in the snapshot: cannot read a.txt: Permission denied");
    ws.write("p/f", "f\n");
    ws.lbx(&["delete", "p/f"]).ok();
    ws.write("p/other", "o\n");
    ws.chmod("p", 0o500);
    let error = ws.call_unprivileged(&["restore", "p/f"]).unwrap().run().error("permission_denied");
    assert_eq!(error["message"], "cannot move p/f: Permission denied");
    assert!(error["suggested_action"].as_str().unwrap().contains("let yourself in (chmod u+rwx)"), "{error}");
}

#[test]
fn failed_required_snapshot_is_an_error_with_applied_true() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.git(&["checkout", "-q", "-b", "lbx-snapshots"]);
    let error =
        ws.lbx(&["append", "a.txt", "--content", "two\n", "--require-snapshot"]).error("snapshot_failed");
    assert_eq!(error["applied"], true);
    ws.holds("a.txt", "one\ntwo\n");
    ws.lbx(&["append", "a.txt", "--content", "three\n"]).warned("no snapshot");
    ws.holds("a.txt", "one\ntwo\nthree\n");
}

/// Returns everything about a file that `stat` and `getfattr` show, except times and inode.
fn identity(ws: &Workspace, path: &str) -> String {
    let stat = fs::metadata(ws.path(path)).unwrap();
    let attributes = Command::new("getfattr").args(["-d", "-m", "-", path]).current_dir(&ws.root).output();
    let attributes = attributes.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    format!("{:o} {}:{} {}", stat.mode(), stat.uid(), stat.gid(), attributes.unwrap_or_default())
}

/// Runs a program, which may be missing; returns true if it succeeded.
fn command_succeeds(program: &str, arguments: &[&str], path: &Path) -> bool {
    Command::new(program).args(arguments).arg(path).output().is_ok_and(|output| output.status.success())
}

#[test]
fn undo_of_a_patch_deletion_restores_owner_and_attributes() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
    command_succeeds("setfattr", &["-n", "user.note", "-v", "kept \u{1}"], &ws.path("a.txt"));
    command_succeeds("setfacl", &["-m", "u:12345:rw"], &ws.path("a.txt"));
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(ws.path("a.txt"), Some(12_345), Some(23_456)).unwrap();
        command_succeeds("setcap", &["cap_net_raw+ep"], &ws.path("a.txt"));
    }
    ws.chmod("b.txt", 0o4751);
    let before = ["a.txt", "b.txt"].map(|path| identity(&ws, path));
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["read", "b.txt"]).ok();
    let patch = "*** Begin Patch\n*** Delete File: a.txt\n*** Delete File: b.txt\n*** End Patch\n";
    ws.json("patch", &json!({"patch": patch})).ok();
    assert!(!ws.path("a.txt").exists());
    ws.lbx(&["undo"]).ok();
    assert_eq!(["a.txt", "b.txt"].map(|path| identity(&ws, path)), before);
    ws.lbx(&["append", "a.txt", "--content", "more\n"]).ok();
    ws.lbx(&["append", "b.txt", "--content", "more\n"]).ok();
    assert_eq!(["a.txt", "b.txt"].map(|path| identity(&ws, path)), before);
}

#[test]
fn new_file_inherits_the_default_acl_of_its_folder() {
    let ws = Workspace::with(&[("d/a.txt", "one\n")]);
    if !command_succeeds("setfacl", &["-d", "-m", "u:12345:rw"], &ws.path("d")) {
        skipped("no access control lists here");
        return;
    }
    fs::write(ws.path("d/as-the-system-makes-it.txt"), "new\n").unwrap();
    ws.lbx(&["write", "d/new.txt", "--content", "new\n"]).ok();
    let attributes = |path| identity(&ws, path).lines().skip(1).collect::<Vec<_>>().join("\n");
    assert!(attributes("d/new.txt").contains("posix_acl_access"));
    assert_eq!(attributes("d/new.txt"), attributes("d/as-the-system-makes-it.txt"));
}

#[test]
fn immutable_file_fails_the_whole_change() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
    if !command_succeeds("chattr", &["+i"], &ws.path("b.txt")) {
        skipped("no immutable files here (it takes root, chattr and a file system with them)");
        return;
    }
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["read", "b.txt"]).ok();
    let both = json!({"paths": ["a.txt", "b.txt"], "old_string": "o", "new_string": "0"});
    let before = ws.tree();
    let errors = [
        ws.json("edit", &both).envelope(),
        ws.lbx(&["append", "b.txt", "--content", "x\n"]).envelope(),
        ws.lbx(&["delete", "b.txt"]).envelope(),
        ws.lbx(&["move", "b.txt", "c.txt"]).envelope(),
    ];
    let after = ws.tree();
    assert!(command_succeeds("chattr", &["-i"], &ws.path("b.txt")));
    assert_eq!(after, before);
    for error in errors {
        assert_eq!(error["error"]["kind"], "permission_denied", "{error}");
    }
    ws.json("edit", &both).ok();
    ws.holds("b.txt", "tw0\n");
    assert_eq!(left_behind(&ws), Vec::<String>::new());
}

#[test]
fn edit_of_unshown_lines_does_not_mark_them_read() {
    let text: String = (1..=40).map(|line| format!("line {line} is secret\n")).collect();
    let ws = Workspace::with(&[("a.txt", &text)]);
    let marked = |ws: &Workspace| ws.lbx(&["session", "status"]).ok().to_string();
    ws.lbx(&["read", "a.txt", "--start-line", "10", "--end-line", "12"]).ok();
    let edits = json!([
        {"old_string": "line 11 is", "new_string": "line 11 was"},
        {"old_string": "line 12 is secret\n", "new_string": "line 12\nand more\n"},
    ]);
    ws.json("edit", &json!({"path": "a.txt", "edits": edits})).ok();
    assert!(marked(&ws).contains("10-13"), "{}", marked(&ws));
    ws.json(
        "edit",
        &json!({"path": "a.txt", "old_string": "is secret", "new_string": "is known", "replace_all": true}),
    )
    .ok();
    assert!(marked(&ws).contains("10-13"), "{}", marked(&ws));
    let error = ws.lbx(&["write", "a.txt", "--content", "all new\n"]).error("not_read");
    assert_eq!(error["details"]["unseen_lines"], json!([[1, 9], [14, 41]]));
}
