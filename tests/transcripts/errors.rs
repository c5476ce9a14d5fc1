//! Every kind of error: a way to cause it, and proof that following its advice helps.

use std::io::Read as _;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::common::{EXIT_STATUS, Workspace, exit_status, kill, make_fifo, sha256, skipped};

#[test]
fn error_kinds_have_their_documented_names_and_exit_status() {
    use lbx::error::ErrorKind;
    assert_eq!(ErrorKind::ALL.len(), EXIT_STATUS.len());
    for kind in ErrorKind::ALL {
        assert_eq!(i32::from(kind.exit_code()), exit_status(kind.name()), "{kind}");
        assert!(kind.suggested_action().ends_with('.'), "{kind}");
    }
}

/// Returns the words of the command in a suggestion, such as `lbx read a.txt --start-line 2`.
fn command_in(suggestion: &str) -> Vec<String> {
    let command = suggestion.split("(lbx ").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
    command.split(' ').map(str::to_owned).collect()
}

#[test]
fn not_read_is_fixed_by_the_suggested_read() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\nthree\n")]);
    for call in [
        &["edit", "a.txt", "--old-string", "two", "--new-string", "2"][..],
        &["insert", "a.txt", "1", "--content", "x"],
        &["write", "a.txt", "--content", "all\n"],
    ] {
        let session = format!("--session={}", call[0]);
        let error = ws.call(call).arguments(&[&session]).run().error("not_read");
        let read = command_in(error["suggested_action"].as_str().unwrap());
        ws.call(&read).arguments(&[&session]).run().ok();
        ws.call(call).arguments(&[&session]).run().success();
    }
}

#[test]
fn stale_file_is_fixed_by_reading_again() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.write("a.txt", "uno\n");
    let error = ws.lbx(&["write", "a.txt", "--content", "x\n"]).error("stale_file");
    assert_eq!(
        error["suggested_action"],
        "Re-read the file to obtain the current `sha256` and re-apply your edit."
    );
    let sha = ws.lbx(&["read", "a.txt"]).ok()["sha256"].as_str().unwrap().to_owned();
    ws.lbx(&["write", "a.txt", "--content", "x\n", "--expected-sha256", &sha]).ok();
}

#[test]
fn no_match_is_fixed_by_the_nearest_lines() {
    let ws = Workspace::with(&[("a.txt", "fn a() {\n\treturn 1;\n}\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let edit = |old: &str| json!({"path": "a.txt", "old_string": old, "new_string": "\treturn 2;"});
    let error = ws.json("edit", &edit("    return 1;")).error("no_match");
    let near = &error["details"]["nearest"];
    let (first, last) = (near["start_line"].to_string(), near["end_line"].to_string());
    let data = ws.lbx(&["read", "a.txt", "--start-line", &first, "--end-line", &last]).ok();
    ws.json("edit", &edit(data["content"].as_str().unwrap().trim_end())).ok();
    ws.holds("a.txt", "fn a() {\n\treturn 2;\n}\n");
}

#[test]
fn edit_of_an_empty_file_is_told_to_write() {
    let ws = Workspace::with(&[("a.txt", "")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let error = ws.lbx(&["edit", "a.txt", "--old-string", "x", "--new-string", "y"]).error("no_match");
    assert_eq!(error["suggested_action"], "a.txt is empty: `write` puts text there.");
    ws.lbx(&["write", "a.txt", "--content", "y"]).ok();
    ws.holds("a.txt", "y");
}

#[test]
fn ambiguous_match_is_fixed_by_either_suggestion() {
    let text = "a\nx\nb\nx\n";
    for cure in [json!({"replace_all": true}), json!({"old_string": "b\nx", "new_string": "b\ny"})] {
        let ws = Workspace::with(&[("a.txt", text)]);
        ws.lbx(&["read", "a.txt"]).ok();
        let mut request = json!({"path": "a.txt", "old_string": "x", "new_string": "y"});
        let error = ws.json("edit", &request).error("ambiguous_match");
        assert!(error["suggested_action"].as_str().unwrap().contains("replace_all"), "{error}");
        for (field, value) in cure.as_object().unwrap() {
            request[field] = value.clone();
        }
        ws.json("edit", &request).ok();
    }
}

#[test]
fn not_found_is_fixed_by_the_suggested_path() {
    let ws = Workspace::with(&[("src/parser.rs", "x\n")]);
    let error = ws.lbx(&["read", "src/praser.rs"]).error("not_found");
    let near = error["details"]["near"][0].as_str().unwrap();
    ws.lbx(&["read", near]).ok();
}

#[test]
fn not_found_after_a_move_suggests_the_new_path() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("d/c.txt", "c\n"), ("gone.txt", "gone\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["move", "a.txt", "b.txt"]).ok();
    ws.lbx(&["move", "d", "e"]).ok();
    ws.lbx(&["move", "b.txt", "new/b.txt"]).ok();
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n";
    let calls: [&[&str]; 8] = [
        &["read", "a.txt"],
        &["edit", "a.txt", "--old-string", "one", "--new-string", "two"],
        &["insert", "a.txt", "--line", "1", "--content", "two\n"],
        &["move", "a.txt", "other.txt"],
        &["delete", "a.txt"],
        &["grep", "one", "a.txt"],
        &["ls", "a.txt"],
        &["patch", "--patch", patch],
    ];
    for call in calls {
        let error = ws.lbx(call).error("not_found");
        let message = error["message"].as_str().unwrap();
        assert!(message.ends_with("; this session moved a.txt to new/b.txt in change #1"), "{error:#}");
        assert_eq!(error["suggested_action"], "Did you mean new/b.txt?");
        assert_eq!(error["details"]["moved_to"], "new/b.txt");
    }
    let edit = ["edit", "new/b.txt", "--old-string", "one", "--new-string", "two"];
    ws.lbx(&edit).ok();
    let below = ws.lbx(&["read", "d/c.txt"]).error("not_found");
    assert_eq!(below["details"]["moved_to"], "e/c.txt");
    // Each of several files has its own error.
    let some = ws.lbx(&["read", "a.txt", "d/c.txt", "new/b.txt"]).ok();
    assert_eq!(some["files"][1]["error"]["details"]["moved_to"], "e/c.txt", "{some:#}");
    let none = ws.lbx(&["read", "a.txt", "d/c.txt"]).error("not_found");
    assert_eq!(none["message"].as_str().unwrap().matches("this session moved").count(), 1, "{none:#}");
    assert_eq!(none["suggested_action"], "Did you mean new/b.txt?");
}

/// The walk for files of the same name is short; the index of git knows the rest of a large tree.
#[test]
fn missing_path_names_a_tracked_file_behind_thousands_of_others() {
    let ws = Workspace::with(&[("b.txt", "b\n")]);
    for folder in ["a", "z"] {
        for number in 0..2_100 {
            ws.write(&format!("{folder}/{number}"), "");
        }
    }
    ws.write("z/deep/Lost.rs", "found\n");
    ws.write("a/gone/lost.rs", "gone\n");
    ws.git(&["add", "-A"]);
    ws.write("a/new", "new\n");
    std::fs::remove_file(ws.path("a/gone/lost.rs")).unwrap();
    // An entry that is only announced makes it version 3.
    for announced in [&["status"][..], &["add", "-N", "a/new"]] {
        ws.git(announced);
        let error = ws.lbx(&["read", "lost.rs"]).error("not_found");
        assert_eq!(error["details"]["near"], serde_json::json!(["z/deep/Lost.rs"]), "{error:#}");
    }
    // Version 4 has no whole paths: the walk may find it.
    ws.git(&["update-index", "--index-version", "4"]);
    let error = ws.lbx(&["read", "lost.rs"]).error("not_found");
    assert_ne!(error["details"]["near"][0], "a/gone/lost.rs", "{error:#}");
}

#[test]
fn not_found_omits_moves_that_are_not_the_cause() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("c.txt", "c\n"), ("d.txt", "d\n"), ("e.txt", "e\n")]);
    let untold = |call: &[&str]| {
        let error = ws.lbx(call).error("not_found");
        assert_eq!(error["details"].get("moved_to"), None, "{error:#}");
    };
    ws.lbx(&["move", "a.txt", "b.txt"]).ok();
    untold(&["read", "a.txt", "--session", "other"]);
    // The deleted file is not the one that was moved.
    ws.lbx(&["write", "a.txt", "--content", "new\n"]).ok();
    ws.lbx(&["delete", "a.txt"]).ok();
    untold(&["read", "a.txt"]);
    // The destination no longer exists.
    ws.lbx(&["move", "c.txt", "moved.txt"]).ok();
    std::fs::remove_file(ws.path("moved.txt")).unwrap();
    untold(&["read", "c.txt"]);
    // An undo moves too: the file is back, and the new name is gone.
    ws.lbx(&["move", "d.txt", "f.txt"]).ok();
    ws.lbx(&["undo"]).ok();
    assert_eq!(ws.lbx(&["read", "f.txt"]).error("not_found")["details"]["moved_to"], "d.txt");
    // A patch can also move, and so can a command.
    ws.lbx(&["read", "e.txt"]).ok();
    let patch = "diff --git a/e.txt b/g.txt\nrename from e.txt\nrename to g.txt\n";
    ws.lbx(&["patch", "--patch", patch]).ok();
    ws.lbx(&["bash", "--set", "bash.backend=none", "mv g.txt h.txt; echo new > i.txt"]).ok();
    let error = ws.lbx(&["read", "e.txt"]).error("not_found");
    assert_eq!(error["details"]["moved_to"], "h.txt", "{error:#}");
}

#[test]
fn symlink_loop_error_suggests_another_path() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    for (target, link) in [("there", "back"), ("back", "there")] {
        std::os::unix::fs::symlink(target, ws.path(link)).unwrap();
    }
    for path in ["back", "there/a.txt"] {
        let error = ws.lbx(&["read", path]).error("invalid_request");
        let action = error["suggested_action"].as_str().unwrap();
        assert!(action.starts_with("Name a path without that symlink: it leads back to itself"), "{action}");
    }
    let listed = ws.lbx(&["ls"]).ok();
    assert_eq!(listed["entries"][1], json!({"path": "back", "type": "symlink", "target": "there"}));
}

#[test]
fn binary_file_is_fixed_by_base64() {
    let ws = Workspace::with(&[]);
    ws.write("a.bin", b"\0\x01\x02");
    let error = ws.lbx(&["read", "a.bin"]).error("binary_file");
    assert!(error["suggested_action"].as_str().unwrap().contains("base64"));
    assert_eq!(ws.lbx(&["read", "a.bin", "--binary", "base64"]).ok()["base64"], "AAEC");
}

#[test]
fn each_path_problem_has_its_own_error_kind() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("sub/x", "")]);
    make_fifo(&ws.path("fifo"));
    let cases: &[(&[&str], &str)] = &[
        (&["read", "sub"], "is_a_directory"),
        (&["read", "a.txt/x"], "not_a_directory"),
        (&["read", "fifo"], "not_a_regular_file"),
        (&["read", "../x"], "outside_workspace"),
        (&["write", ".git/x", "--content", ""], "protected_path"),
        (&["write", "a.txt", "--content", "", "--create-only"], "already_exists"),
        (&["read", "a.txt", "--sandbox", "x"], "sandbox_not_found"),
        (&["read", "a.txt", "--limit", "x"], "invalid_request"),
    ];
    ws.unchanged(|| {
        for (call, kind) in cases {
            ws.lbx(call).error(kind);
        }
    });
}

/// Holds the lock of a workspace in another process until that is killed.
fn hold_lock(ws: &Workspace) -> std::process::Child {
    let mut command = Command::new("flock");
    command.arg(ws.path(".lbx/lock")).args(["sh", "-c", "echo held; exec sleep 100"]);
    let mut holder = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 5];
    holder.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    holder
}

#[test]
fn overlong_path_is_rejected_without_waiting_for_the_lock() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let mut holder = hold_lock(&ws);
    for long in ["n".repeat(256), "d/".repeat(2048)] {
        let create = format!("--- /dev/null\n+++ b/{long}\n@@ -0,0 +1 @@\n+x\n");
        let codex = format!("*** Begin Patch\n*** Add File: {long}\n+x\n*** End Patch\n");
        let rename = format!(
            "diff --git a/a.txt b/{long}\nsimilarity index 100%\nrename from a.txt\nrename to {long}\n"
        );
        for call in [
            &["write", &long, "--content", "x"][..],
            &["edit", &long, "--old-string", "a", "--new-string", "b"],
            &["edit", "a.txt", "--paths", &long, "--old-string", "a", "--new-string", "b"],
            &["append", &long, "--content", "x"],
            &["prepend", &long, "--content", "x"],
            &["insert", &long, "1", "--content", "x"],
            &["section", &long, "A", "--content", "x"],
            &["delete", &long],
            &["delete", "a.txt", &long],
            &["move", &long, "b"],
            &["move", "a.txt", &long],
            &["restore", &long],
            &["restore", "a.txt", "--to", &long],
            &["undo", &long],
            &["patch", "--patch", &create],
            &["patch", "--patch", &codex],
            &["patch", "--patch", &rename],
            &["patch", "--patch", &rename, "--reverse"],
            &["patch", "--patch", "@@ -1 +1 @@\n-one\n+two\n", "--path", &long],
        ] {
            let error = ws.lbx(call).error("invalid_request");
            assert!(error["message"].as_str().unwrap().contains("bytes long"), "{call:?}: {error}");
        }
        for (call, field) in [
            (&["move", &long, "b"][..], "from"),
            (&["move", "a.txt", &long], "to"),
            (&["restore", "a.txt", "--to", &long], "to"),
            (&["patch", "--patch", &create], "patch"),
            (&["write", &long, "--content", "x"], "path"),
        ] {
            let error = ws.lbx(call).error("invalid_request");
            assert_eq!(error["details"]["field"], field, "{call:?}: {error}");
            assert!(error["message"].as_str().unwrap().contains(field), "{call:?}: {error}");
        }
    }
    kill(holder.id());
    holder.wait().unwrap();
    ws.holds("a.txt", "one\ntwo\n");
}

#[test]
fn file_locks_of_other_programs_block_no_call() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("d/b.txt", "two\n")]);
    let lock = |path: &str| {
        let file = std::fs::File::open(ws.path(path)).unwrap();
        fs2::FileExt::lock_exclusive(&file).unwrap();
        file
    };
    let held = ["", "d", "a.txt", "d/b.txt"].map(lock);
    ws.lbx(&["read", "a.txt", "d/b.txt"]).ok();
    for call in [
        &["edit", "a.txt", "--old-string", "one", "--new-string", "1"][..],
        &["append", "d/b.txt", "--content", "3\n"],
        &["write", "d/new.txt", "--content", "new\n"],
        &["move", "d/b.txt", "c.txt"],
        &["delete", "a.txt"],
        &["undo", "--steps", "5"],
    ] {
        ws.lbx(call).ok();
    }
    ws.holds("a.txt", "one\n");
    drop(held);
}

#[test]
fn workspace_lock_that_is_never_released_times_out() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let mut holder = hold_lock(&ws);
    let error = ws.unchanged(|| ws.lbx(&["append", "a.txt", "--content", "x\n"]).error("lock_timeout"));
    assert!(error["suggested_action"].as_str().unwrap().contains("again"), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("the lock of the workspace"), "{error}");
    // Other systems have no table of locks.
    if cfg!(target_os = "linux") {
        assert!(message.starts_with(&format!("process {} (", holder.id())), "{error}");
    }
    // Reading needs no lock of the workspace.
    ws.lbx(&["read", "a.txt"]).ok();
    kill(holder.id());
    holder.wait().unwrap();
}

#[test]
fn response_omits_empty_fields() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let ok = ws.lbx(&["read", "a.txt"]).envelope();
    assert_eq!(ok.as_object().unwrap().keys().collect::<Vec<_>>(), ["data", "ok", "tool"]);
    let refused = ws.lbx(&["read", "a.txt", "--session", "/"]).envelope();
    assert_eq!(refused.as_object().unwrap().keys().collect::<Vec<_>>(), ["error", "ok", "tool"]);
    assert_eq!(refused["error"]["applied"], Value::Null);
}

#[test]
fn response_is_the_same_for_every_spelling_of_a_path() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for path in ["a.txt", "./a.txt", "sub/../a.txt"] {
        assert_eq!(ws.lbx(&["read", path]).ok()["sha256"], sha256(b"one\n"));
    }
}

#[test]
fn patch_invalid_is_fixed_at_the_reported_line() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let wrong = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+2\n*** Fin\n";
    let error = ws.unchanged(|| ws.lbx_stdin(&["patch"], wrong).error("patch_invalid"));
    let at = usize::try_from(error["details"]["line"].as_u64().unwrap()).unwrap();
    let mut lines: Vec<&str> = wrong.lines().collect();
    lines[at - 1] = "*** End Patch";
    ws.lbx_stdin(&["patch"], lines.join("\n")).ok();
    ws.holds("a.txt", "one\n2\n");
}

#[test]
fn patch_conflict_is_fixed_by_the_found_text() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\nthree\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-deux\n+2\n three\n";
    let error = ws.unchanged(|| ws.lbx_stdin(&["patch"], patch).error("patch_conflict"));
    let nearest = &error["details"]["refused"][0]["hunks"][0]["nearest"];
    let text = |field: &str| nearest[field].as_str().unwrap().trim_end().to_owned();
    ws.lbx_stdin(&["patch"], patch.replace(&text("expected"), &text("found"))).ok();
    ws.holds("a.txt", "one\n2\nthree\n");
}

#[test]
fn timeout_is_fixed_by_a_narrower_path() {
    let ws = Workspace::with(&[("sub/a.txt", "needle\n")]);
    let line = "abcdefghijklmnopqrstuvwxyz 0123456789 ".repeat(4) + "\n";
    for number in 0..8 {
        ws.write(&format!("big/{number}.txt"), line.repeat(25_000));
    }
    let request = json!({"pattern": "[a-z ]+[0-9 ]+(z|needle) *[0-9]{12,40}$", "timeout_ms": 1});
    let error = ws.json("grep", &request).error("timeout");
    assert!(error["suggested_action"].as_str().unwrap().contains("path"), "{error}");
    assert!(error["details"]["files_searched"].is_u64(), "{error}");
    let narrower = json!({"pattern": "needle", "path": "sub", "timeout_ms": 60_000});
    assert_eq!(ws.json("grep", &narrower).ok()["matched"], 1);
}

/// Runs a shell script at the root, with the binary as `$1` and more arguments after it; returns `None` if the system
/// does not allow it.
pub fn script(ws: &Workspace, words: &[&str], script: &str, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["sh", "-c", script, "sh", env!("CARGO_BIN_EXE_lbx")]).args(arguments);
    ws.surround(&mut command);
    command.stdin(Stdio::null()).output().ok()
}

#[test]
fn full_disk_is_no_space_and_leaves_the_old_file() {
    let ws = Workspace::bare(&[]);
    let request = json!({"path": "a.txt", "content": "x".repeat(1 << 20)}).to_string();
    let at_file = ws.outside.join("request.json");
    std::fs::write(&at_file, request).unwrap();
    let at_file = format!("@{}", at_file.display());
    // A mount that only this call sees, and that ends with it.
    let on_a_small_disk = "mount -t tmpfs -o size=512k tmpfs \"$PWD\" || exit 99\ncd \"$PWD\"\n\
        \"$1\" write a.txt --content one > /dev/null || exit 98\n\"$1\" read a.txt > /dev/null\n\
        \"$1\" write --json \"$2\"\necho $?\ncat a.txt";
    let Some(output) = script(&ws, &["unshare", "-rm"], on_a_small_disk, &[&at_file]) else {
        skipped("unshare is missing");
        return;
    };
    if matches!(output.status.code(), Some(1 | 99)) {
        skipped("no mount is allowed here");
        return;
    }
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines.len(), lines[1], lines[2]), (3, "15", "one"), "{said}");
    let answer: Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!((&answer["ok"], &answer["error"]["kind"]), (&json!(false), &json!("no_space")), "{answer:#}");
    assert_eq!(answer["error"]["details"]["errno"], "ENOSPC");
}

#[test]
fn file_size_limit_is_reported_as_efbig() {
    let ws = Workspace::bare(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let request = json!({"path": "a.txt", "content": "x".repeat(1 << 20)}).to_string();
    std::fs::write(ws.outside.join("request.json"), request).unwrap();
    let at_file = format!("@{}", ws.outside.join("request.json").display());
    let limited = "trap '' XFSZ\nexec \"$1\" write --json \"$2\"";
    let call = || script(&ws, &["prlimit", "--fsize=262144"], limited, &[&at_file]);
    let Some(output) = ws.unchanged(call) else {
        skipped("prlimit is missing");
        return;
    };
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["error"]["kind"], "io_error", "{answer:#}");
    assert_eq!(answer["error"]["details"]["errno"], "EFBIG", "{answer:#}");
    let path = answer["error"]["path"].as_str().unwrap();
    assert!(!path.starts_with(".lbx/"), "the caller's own file is named: {answer:#}");
    assert!(answer["error"]["suggested_action"].as_str().unwrap().contains("ulimit -f"), "{answer:#}");
    assert_eq!(output.status.code(), Some(exit_status("io_error")));
}

#[test]
fn open_file_limit_is_reported_as_emfile() {
    let ws = Workspace::with(&[("a.txt", "0\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let mut last = "0\n".to_owned();
    for limit in 6..40 {
        let limited = "exec \"$1\" write a.txt --content \"$2\"";
        let new = limit.to_string();
        let Some(output) = script(&ws, &["prlimit", &format!("--nofile={limit}")], limited, &[&new]) else {
            skipped("prlimit is missing");
            return;
        };
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let error = &answer["error"];
        if answer["ok"] == false {
            assert_eq!(error["details"]["errno"], "EMFILE", "{limit}: {answer:#}");
            let action = error["suggested_action"].as_str().unwrap();
            let expected = if error["applied"] == true { "the next call" } else { "ulimit -n" };
            assert!(action.contains(expected), "{limit}: {answer:#}");
        }
        // A change that could be neither made nor rolled back is completed by the next call that can.
        if answer["ok"] == true || error["applied"] == true {
            ws.lbx(&["read", "a.txt"]).ok();
            last = new;
        }
        ws.holds("a.txt", &last);
        let said = answer["warnings"].to_string();
        assert!(!said.contains(" is not "), "the limit is told as a fault of the repository: {said}");
    }
    assert_eq!(last, "39", "39 open files are enough for a change");
    let state = std::fs::read_dir(ws.path(".lbx")).unwrap().map(|entry| entry.unwrap().path());
    assert!(state.map(|folder| folder.join("repo.git")).all(|private| !private.exists()));
}

#[test]
fn unknown_tool_error_lists_the_tools_of_the_dialect() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let error = ws.lbx(&["--dialect", "claude", "Reed", "a.txt"]).error("invalid_request");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("unknown tool `Reed` (there are: Read, "), "{message}");
    assert!(message.contains(", append, "), "{message}");
    assert!(error["suggested_action"].as_str().unwrap().starts_with("Did you mean `Read`?"), "{error:#}");
    // A dialect that does not exist is reported first.
    let error = ws.lbx(&["--dialect", "nosuch", "nosuch"]).error("invalid_request");
    assert!(error["message"].as_str().unwrap().starts_with("unknown dialect \"nosuch\""), "{error:#}");
}

#[test]
fn diff_given_as_a_path_suggests_stdin_or_patch_flag() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n";
    let error = ws.lbx(&["patch", diff]).error("invalid_request");
    let advice = error["suggested_action"].as_str().unwrap();
    assert!(advice.starts_with("Give the text on stdin or in --patch."), "{error:#}");
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["patch", "--patch", diff]).ok();
    assert_eq!(ws.read_bytes("a.txt"), b"b\n");
}

#[test]
fn file_as_a_parent_is_not_a_directory() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let error = ws.lbx(&["write", "a.txt/b", "--content", "x"]).error("not_a_directory");
    assert_eq!(error["message"], "a parent of a.txt/b is not a directory");
}

#[test]
fn small_mistakes_get_a_specific_suggestion() {
    let ws = Workspace::with(&[("a.txt", "alpha\nbeta\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let advice = |call: &[&str], kind: &str| {
        let error = ws.lbx(call).error(kind);
        let text = |field: &str| error[field].as_str().unwrap().to_owned();
        format!("{} => {}", text("message"), text("suggested_action"))
    };
    let long = "x".repeat(300);
    for (call, kind, wanted, unwanted) in [
        (&["move", "a.txt", long.as_str()][..], "invalid_request", "Choose a shorter name.", "schema"),
        (&["log", "-5"], "invalid_request", "Did you mean --limit 5?", "Leave it out"),
        (&["audit", "--limit", "x"], "invalid_request", "expected a whole number", "digit found"),
        (&["read", "--json", "{path}"], "invalid_request", "is not valid JSON", "no JSON"),
        (
            &["edit", "a.txt", "--old-string", "BETA\n", "--new-string", "x\n"],
            "no_match",
            "It occurs at line 2 in different letter case.",
            "Nothing in",
        ),
    ] {
        let said = advice(call, kind);
        assert!(said.contains(wanted) && !said.contains(unwanted), "{call:?}: {said}");
    }
}

#[test]
fn error_lists_accepted_names_once() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let cases: [(&[&str], &str); 6] = [
        (&["zzz"], "apply_patch"),
        (&["edit", "--zzz", "x"], "--expected-sha256"),
        (&["edit", "--json", r#"{"zzz":1}"#], "expected_sha256"),
        (&["edit", "--json", r#"{"path":"a.txt","edits":[{"zzz":1}]}"#], "replace_all"),
        (&["ls", "--json", r#"{"sort":"zzz"}"#], "mtime"),
        (&["--dialect", "claude", "zzz"], "NotebookEdit"),
    ];
    for (arguments, name) in cases {
        let answer = ws.lbx(arguments);
        assert_eq!(answer.envelope()["error"]["kind"], "invalid_request");
        assert_eq!(answer.stdout_text().matches(name).count(), 1, "{arguments:?}: {}", answer.stdout_text());
    }
}

#[test]
fn unknown_word_suggests_the_tool_that_does_it() {
    let ws = Workspace::with(&[("version.txt", "1\n"), ("sub/deep.txt", "x\n")]);
    let advice = |call: &[&str], kind: &str| {
        let error = ws.lbx(call).error(kind);
        (
            error["message"].as_str().unwrap().to_owned(),
            error["suggested_action"].as_str().unwrap().to_owned(),
        )
    };
    assert!(advice(&["status"], "invalid_request").1.starts_with("`session` shows"));
    assert!(advice(&["version"], "invalid_request").1.starts_with("`lbx --version` prints it"));
    assert!(advice(&["revert"], "invalid_request").1.starts_with("`undo` takes changes back"));
    // An equal extension alone does not make two files similar.
    let (message, action) = advice(&["read", "missing.txt"], "not_found");
    assert_eq!(message, "no such file: missing.txt");
    assert!(!action.contains("Did you mean"), "{action}");
    assert_eq!(advice(&["read", "versoin.txt"], "not_found").1, "Did you mean version.txt?");
    ws.lbx(&["append", "version.txt", "--content", "2\n"]).ok();
    for tool in ["diff", "log"] {
        assert_eq!(
            advice(&[tool, "nothing"], "not_found").0,
            "no such file: nothing, nor a snapshot of that name"
        );
    }
    let (_, action) = advice(&["edit", "version.txt"], "invalid_request");
    assert!(action.contains("old_string and new_string") && action.contains("<<<<<<< SEARCH"), "{action}");
    assert_eq!(advice(&["restore", "nothing"], "not_found").0, "nothing is not in the trash");
    let named = advice(&["--sandbox", "nothing", "read", "a"], "sandbox_not_found").1;
    assert!(named.ends_with("`lbx sandbox list` shows them."), "{named}");
    let clients = ws.lbx(&["init", "--text"]);
    assert!(clients.stderr().contains("--client"), "{}", clients.stderr());
}
