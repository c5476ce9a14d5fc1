//! Changes of a command: in the answer, in the snapshots, and in the session's read records.

use std::fs;

use serde_json::{Value, json};

use crate::common::{Workspace, is_root, sha256, skipped};
use crate::support::{backends, direct as bash, first_backend, with};

/// Returns the subjects of the snapshots, newest first.
fn subjects(ws: &Workspace) -> Vec<String> {
    let log = ws.git(&["log", "--first-parent", "--format=%s", "lbx-snapshots", "^HEAD"]);
    log.lines().map(str::to_owned).collect()
}

#[test]
fn snapshot_message_contains_the_whole_command() {
    let ws = Workspace::with(&[]);
    let long = format!("touch e; : {}", "x".repeat(200));
    let (cut, whole) = (format!("bash: {} ...", &long[..100]), format!("{long}\n"));
    for (command, why, subject, body) in [
        ("touch a", None, "bash: touch a", "Lbx-"),
        ("touch b", Some("to build"), "bash: touch b", "to build\n\nLbx-"),
        ("touch c\ntouch d", Some("why"), "bash: touch c ...", "why\n\ntouch c\ntouch d\n\nLbx-"),
        (&long, None, &cut, &whole),
    ] {
        ws.json("bash", &json!({ "command": command, "why": why })).ok();
        let message = ws.git(&["log", "-1", "--format=%B", "lbx-snapshots"]);
        assert!(message.starts_with(&format!("{subject}\n\n{body}")), "{message}");
    }
}

#[test]
fn command_changes_are_listed_and_snapshotted() {
    for backend in backends() {
        let ws = Workspace::with(&[
            ("a.txt", "one\n"),
            ("b.txt", "b\n"),
            ("gone.txt", "x\n"),
            (".gitignore", "*.log\n"),
        ]);
        let command = "echo two >> a.txt; rm gone.txt; mkdir -p n && echo new > n/new.txt; chmod +x b.txt; echo x > build.log";
        let answer = bash(&ws, backend, command).success();
        let changed = json!([
            { "path": "a.txt", "action": "modify", "sha256": sha256(b"one\ntwo\n") },
            { "path": "b.txt", "action": "modify", "sha256": sha256(b"b\n") },
            { "path": "gone.txt", "action": "delete" },
            { "path": "n/new.txt", "action": "create", "sha256": sha256(b"new\n") },
            { "path": "build.log", "action": "create", "sha256": sha256(b"x\n") },
        ]);
        assert_eq!(answer["data"]["changed"], changed, "{backend}: {answer:#}");
        let id = answer["snapshot"].as_str().unwrap();
        assert_eq!(ws.git(&["rev-parse", "lbx-snapshots"]).trim(), id);
        let trailers = ws.git(&["log", "-1", "--format=%B", id]);
        assert!(trailers.starts_with(&format!("bash: {}", &command[..60])), "{trailers}");
        assert!(
            trailers.contains("Lbx-Tool: bash") && trailers.contains("Lbx-Session: default"),
            "{trailers}"
        );
        let files = ws.git(&["diff", "--name-only", &format!("{id}~"), id]);
        assert_eq!(files.trim(), "a.txt\nb.txt\ngone.txt\nn/new.txt", "{backend}");
        // Nothing changed: no snapshot.
        let before = subjects(&ws);
        assert!(bash(&ws, backend, "cat a.txt").success()["snapshot"].is_null());
        assert_eq!(subjects(&ws), before, "{backend}");
        let audited = ws.lbx(&["audit", "--limit", "1"]).ok();
        let record = &audited["records"][0];
        assert_eq!((&record["tool"], &record["snapshot"]), (&json!("bash"), &json!(id)), "{audited:#}");
    }
}

#[test]
fn changes_by_others_are_separate_snapshots() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n"), ("c.txt", "c\n")]);
    ws.write("b.txt", "before the session\n");
    bash(&ws, "auto", "echo two >> a.txt").success();
    assert_eq!(subjects(&ws), ["bash: echo two >> a.txt", "baseline"]);
    ws.lbx(&["read", "c.txt"]).ok();
    ws.lbx(&["append", "c.txt", "--content", "more\n"]).success();
    ws.write("b.txt", "by someone else\n");
    let answer = bash(&ws, "auto", "echo three >> a.txt").success();
    assert_eq!(answer["data"]["changed"].as_array().unwrap().len(), 1);
    assert_eq!(subjects(&ws)[..2], ["bash: echo three >> a.txt", "external: b.txt"]);
    // A call of another session during the command stays with that session.
    let call =
        ws.call(&["bash", "--direct", "echo four >> a.txt; touch started; sleep 1; rm started"]).spawn();
    while !ws.path("started").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let other = ["write", "d.txt", "--content", "other\n", "--session", "other"];
    ws.lbx(&other).success();
    let ran = call.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let paths: Vec<&str> =
        answer["data"]["changed"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    let theirs = ws.git(&[
        "log",
        "-1",
        "--format=%(trailers:key=Lbx-Session,valueonly)",
        "lbx-snapshots",
        "--",
        "d.txt",
    ]);
    assert_eq!((paths, theirs.trim()), (vec!["a.txt"], "other"), "{answer:#}");
}

#[test]
fn stale_lists_read_files_that_a_command_changed() {
    let ws =
        Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n"), ("c.txt", "c\n"), (".gitignore", "*.log\n")]);
    ws.write("x.log", "log\n");
    for path in ["a.txt", "b.txt", "c.txt", "x.log"] {
        ws.lbx(&["read", path]).ok();
    }
    let command = "echo two >> a.txt; touch b.txt; rm c.txt; echo more >> x.log";
    let answer = bash(&ws, "auto", command).success();
    assert_eq!(answer["data"]["stale"], json!(["a.txt", "c.txt", "x.log"]), "{answer:#}");
    let edit = ["edit", "a.txt", "--old-string", "one", "--new-string", "1"];
    ws.lbx(&edit).error("stale_file");
}

#[test]
fn failed_and_timed_out_commands_are_snapshotted() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let failed = bash(&ws, "auto", "echo two >> a.txt; exit 1").success();
    assert!(failed["snapshot"].is_string() && failed["data"]["exit_code"] == 1);
    let request = json!({ "command": "echo three >> a.txt; sleep 60", "timeout_ms": 300, "why": "to see" });
    let ended = with(&ws, "auto", &request).success();
    assert_eq!(ended["data"]["changed"][0]["path"], "a.txt", "{ended:#}");
    assert!(ws.git(&["log", "-1", "--format=%b", "lbx-snapshots"]).starts_with("to see\n"));
}

#[test]
fn commands_run_without_snapshots_unless_required() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let answer = ws
        .lbx(&["bash", "--direct", "--set", "snapshot.enabled=false", "echo two >> a.txt"])
        .warned("nothing records what this command changes");
    assert!(answer["changed"].is_null(), "{answer:#}");
    ws.holds("a.txt", "one\ntwo\n");
    let required =
        ["bash", "--direct", "--set", "snapshot.enabled=false", "--require-snapshot", "echo three >> a.txt"];
    ws.lbx(&required).error("command_denied");
    ws.holds("a.txt", "one\ntwo\n");
}

#[test]
fn session_owns_the_changes_of_its_commands() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    let session = ["--session", "s"];
    let call = |args: &[&str]| ws.lbx(&[args, &session[..]].concat());
    call(&["read", "a.txt"]).ok();
    call(&["write", "a.txt", "--content", "1\n"]).ok();
    call(&["bash", "echo by the command >> b.txt; echo 2 >> a.txt"]).success();
    let diff = call(&["diff"]).ok();
    let text = diff["diff"].as_str().unwrap();
    assert_eq!((&diff["session"], &diff["files"]), (&json!("s"), &json!(2)), "{diff:#}");
    assert!(text.contains("-one\n+1\n+2\n") && text.contains("+by the command"), "{text}");
    let status = call(&["session"]).ok();
    assert_eq!(status["changes"], 2, "{status:#}");
    let log = call(&["log", "--limit", "1"]).ok();
    assert_eq!(
        (&log["snapshots"][0]["tool"], &log["snapshots"][0]["session"]),
        (&json!("bash"), &json!("s"))
    );
    // A command is undone like an edit, and a file that changed since stays.
    call(&["undo"]).ok();
    ws.holds("a.txt", "1\n");
    ws.holds("b.txt", "b\n");
    call(&["redo"]).ok();
    ws.write("b.txt", "theirs\n");
    call(&["undo"]).error("stale_file");
    // After its end the session has no changes.
    call(&["session", "end"]).ok();
    assert_eq!(call(&["session"]).ok()["changes"], 0);
    assert_eq!(call(&["diff"]).ok()["files"], 0);
    call(&["bash", "echo 3 >> a.txt"]).success();
    assert_eq!(call(&["diff"]).ok()["files"], 1);
}

#[test]
fn undo_reverts_a_command_and_warns_about_hard_links() {
    for backend in backends() {
        let ws = Workspace::with(&[
            ("a.txt", "one\n"),
            ("b.txt", "b\n"),
            ("crlf.txt", "1\r\n2\r\n"),
            ("src/x.rs", "x\n"),
            ("src/deep/y.rs", "y\n"),
            (".gitattributes", "crlf.txt text\n"),
            (".gitignore", "*.log\nbuild/\n"),
        ]);
        ws.write("old.log", "log\n");
        ws.write("gone.log", "gone\n");
        ws.link("a.txt", "link");
        ws.chmod("b.txt", 0o640);
        std::fs::create_dir(ws.path("empty")).unwrap();
        let before = ws.tree();
        let command = "
            echo two >> a.txt; sed -i s/b/B/ b.txt; chmod 600 b.txt; rm gone.log; echo more >> old.log; sed -i s/1/3/ crlf.txt
            rm -rf src/deep; mkdir src/deep && echo z > src/deep/z.rs; ln -sfn b.txt link; chmod 750 src; rmdir empty
            mkdir -m 700 -p n/m; mkfifo pipe; ln a.txt hard; mkdir -p build/x/y; echo o > build/x/o; echo x > sub
            rm sub; mkdir sub; echo s > sub/s; mv src/x.rs src/w.rs";
        let answer = bash(&ws, backend, command).success();
        assert_eq!(answer["data"]["exit_code"], 0, "{answer:#}");
        let changed = answer["data"]["changed"].as_array().unwrap();
        let paths: Vec<&str> = changed.iter().map(|it| it["path"].as_str().unwrap()).collect();
        let wanted = [
            "a.txt",
            "b.txt",
            "crlf.txt",
            "empty",
            "hard",
            "link",
            "n/m",
            "pipe",
            "src",
            "src/deep/y.rs",
            "src/deep/z.rs",
            "src/w.rs",
            "src/x.rs",
            "sub/s",
            // Ignored by git.
            "gone.log",
            "old.log",
            "build/",
        ];
        assert_eq!(paths, wanted, "{backend}: {answer:#}");
        let after = ws.tree();
        let undone = ws.lbx(&["undo"]).warned("a.txt has 2 hard links");
        assert_eq!(undone["undone"][0]["tool"], "bash");
        assert_eq!(ws.tree(), before, "{backend}");
        ws.lbx(&["redo"]).success();
        assert_eq!(ws.tree(), after, "{backend}");
    }
}

#[test]
fn files_excluded_from_snapshots_are_listed_and_undoable() {
    for backend in backends() {
        let ws = Workspace::with(&[
            ("a.txt", "one\n"),
            (".gitattributes", "*.bin filter=x\n"),
            (".gitignore", "*.log\n"),
        ]);
        ws.git(&["config", "filter.x.clean", "cat"]);
        for (path, content) in
            [("f.bin", "old\n"), (".env", "KEY=1\n"), ("gone.pem", "p\n"), ("x.log", "1\n")]
        {
            ws.write(path, content);
        }
        let large = std::fs::File::create(ws.path("large")).unwrap();
        large.set_len(600 << 20).unwrap();
        let command = "echo new > f.bin; echo KEY=2 > .env; rm gone.pem large; echo 2 > x.log; echo q > new.key; truncate -s 700M huge";
        let answer = bash(&ws, backend, command).success();
        let changed: Vec<(&str, &str)> = answer["data"]["changed"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| (it["path"].as_str().unwrap(), it["action"].as_str().unwrap()))
            .collect();
        let wanted = [
            (".env", "modify"),
            ("f.bin", "modify"),
            ("gone.pem", "delete"),
            ("huge", "create"),
            ("large", "delete"),
            ("new.key", "create"),
            ("x.log", "modify"),
        ];
        assert_eq!(changed, wanted, "{backend}: {answer:#}");
        let warnings = answer["warnings"].to_string();
        for named in [
            "not in the snapshot: .env (its name looks like a secret)",
            "f.bin (the filter program `x`",
            "huge (its ",
        ] {
            assert!(warnings.contains(named), "{warnings}");
        }
        let undone = ws.lbx(&["undo"]).success();
        assert!(undone["warnings"].to_string().contains("because no copy exists: large"), "{undone:#}");
        for (path, content) in
            [("f.bin", "old\n"), (".env", "KEY=1\n"), ("gone.pem", "p\n"), ("x.log", "1\n")]
        {
            assert_eq!(std::fs::read(ws.path(path)).unwrap(), content.as_bytes(), "{backend}: {path}");
        }
        assert!(!ws.path("new.key").exists() && !ws.path("huge").exists(), "{backend}");
        // Undo reports the deleted file that it cannot restore, and keeps the earlier change.
        ws.lbx(&["write", "mine", "--content", "x"]).success();
        std::fs::File::create(ws.path("large")).unwrap().set_len(600 << 20).unwrap();
        bash(&ws, backend, "rm large").success();
        let undone = ws.lbx(&["undo"]).success();
        assert_eq!(undone["data"]["undone"][0]["path"], "large", "{undone:#}");
        assert!(ws.path("mine").exists(), "{backend}");
    }
}

#[test]
fn change_in_a_nested_repository_is_a_warning() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.write("inner/x", "1\n");
    let init = "git init -q . && git add x && git -c user.name=n -c user.email=e commit -qm 1";
    let run = std::process::Command::new("sh").args(["-c", init]).current_dir(ws.path("inner")).status();
    assert!(run.unwrap().success());
    let told = "the command changed files in inner, a repository of its own: they are not recorded, and undo does not take them back";
    for is_tracked in [false, true] {
        if is_tracked {
            ws.git(&["add", "inner"]);
            ws.git(&["commit", "-qm", "with a submodule"]);
        }
        let answer = bash(&ws, "auto", "echo more >> inner/x").success();
        assert_eq!(answer["warnings"], json!([told]), "{answer:#}");
        assert!(bash(&ws, "auto", "cat inner/x; echo z >> a.txt").success()["warnings"].is_null());
    }
}

#[test]
fn running_command_is_not_in_the_baseline_of_another_session() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n"), ("c.txt", "c\n")]);
    let command = "echo two >> a.txt; echo x > new.txt; touch started; while [ ! -e go ]; do sleep 0.02; done; rm started go; echo more >> c.txt";
    let call = ws.call(&["bash", "--direct", command]).spawn();
    while !ws.path("started").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let other = |args: &[&str]| ws.lbx(&[args, &["--session", "other"]].concat());
    other(&["read", "c.txt"]).ok();
    other(&["edit", "c.txt", "--old-string", "c", "--new-string", "theirs"]).success();
    other(&["write", "d.txt", "--content", "d\n"]).success();
    ws.write("go", "");
    let ran = call.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let changed = answer["data"]["changed"].as_array().unwrap();
    let paths: Vec<&str> = changed.iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["a.txt", "c.txt", "new.txt"], "{answer:#}");
    let own = ws.lbx(&["diff", "--session", "default"]).ok();
    let text = own["diff"].as_str().unwrap();
    assert!(text.contains("+two") && text.contains("new.txt") && text.contains("+more"), "{text}");
    assert!(!text.contains("+theirs") && !text.contains("d.txt"), "{text}");
    let theirs = other(&["diff"]).ok();
    let text = theirs["diff"].as_str().unwrap();
    assert!(text.contains("+theirs") && text.contains("d.txt") && !text.contains("+two"), "{text}");
    ws.lbx(&["undo"]).success();
    ws.holds("a.txt", "one\n");
    ws.holds("c.txt", "theirs\n");
    ws.holds("d.txt", "d\n");
    assert!(!ws.path("new.txt").exists());
    assert_eq!(ws.lbx(&["undo"]).error("not_found")["kind"], "not_found");
}

#[test]
fn command_reports_changes_recorded_for_another_command() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let wait = |name: &str| format!("while [ ! -e {name} ]; do sleep 0.02; done");
    let long = format!("touch long; {}; echo x > of-long; {}; rm go", wait("short"), wait("go"));
    let short = format!("touch short; {}; echo y > of-short", wait("of-long"));
    let call = ws.call(&["bash", "--direct", &long]).spawn();
    while !ws.path("long").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // The short command ends while the long one runs, and nobody can tell who wrote the changes in between.
    let given = ws
        .lbx(&["bash", "--direct", &short])
        .warned("some of these changes may be its own: of-long, of-short, short. Undo takes them back");
    assert_eq!(paths(&given), ["of-long", "of-short", "short"], "{given:#}");
    ws.write("go", "");
    let ran = call.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(paths(&answer["data"]), ["long"], "{answer:#}");
    let told = answer["warnings"][0].as_str().unwrap();
    assert!(
        told.starts_with("recorded as the changes of another command that ran at the same time: of-long, "),
        "{told}"
    );
}

/// Returns the paths that the response lists as changed.
fn paths(data: &Value) -> Vec<&str> {
    data["changed"].as_array().unwrap().iter().map(|changed| changed["path"].as_str().unwrap()).collect()
}

#[test]
fn undo_restores_a_directory_replaced_by_a_special_file() {
    for backend in backends() {
        for special in ["mkfifo d", "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"d\")'"] {
            let ws = Workspace::with(&[("a.txt", "one\n"), ("d/f", "f\n")]);
            std::fs::create_dir_all(ws.path("d/empty/inner")).unwrap();
            let before = ws.tree();
            bash(&ws, backend, &format!("rm -rf d; {special}")).success();
            let after = ws.tree();
            ws.lbx(&["undo"]).success();
            assert_eq!(ws.tree(), before, "{backend}: {special}");
            ws.lbx(&["redo"]).success();
            assert_eq!(ws.tree(), after, "{backend}: {special}");
            ws.lbx(&["undo"]).success();
            assert_eq!(ws.tree(), before, "{backend}: {special}");
        }
    }
}

#[test]
fn undo_restores_removed_fifos_and_sockets() {
    let socket =
        |path: &str| format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"{path}\")'");
    for backend in backends() {
        let ws = Workspace::with(&[("a.txt", "one\n"), ("d/kept", "k\n")]);
        // Other FIFOs are hidden from a command, so that it cannot remove them.
        let policy = ws.outside.join("home/.config/lbx/config.toml");
        fs::create_dir_all(policy.parent().unwrap()).unwrap();
        fs::write(policy, format!("bash.readable = ['{}']\n", ws.root.display())).unwrap();
        let made = format!(
            "mkfifo -m 640 pipe; mkdir -p d e/f; {}; chmod 755 d/s; mkfifo e/f/p; mkfifo other",
            socket("d/s")
        );
        bash(&ws, backend, &made).success();
        let before = ws.tree();
        for command in [
            "rm pipe d/s",
            "rm -rf d e",
            "rm pipe; echo x > pipe",
            "rm pipe; mkdir pipe; echo x > pipe/x",
            "rm -rf e; mkfifo e",
            "rm pipe; mkdir -p pipe/one/two; echo x > pipe/one/two/x; chmod 700 pipe/one",
            "mv pipe d/pipe; mv other pipe",
            "chmod 600 pipe",
            "rm pipe; mkfifo -m 640 pipe; rm d/s; mkfifo d/s",
            "ln pipe pipe2; rm pipe",
        ] {
            let answer = bash(&ws, backend, command).success();
            assert_eq!(answer["data"]["exit_code"], 0, "{command}: {answer:#}");
            assert_ne!(answer["data"]["changed"], serde_json::json!([]), "{command}: {answer:#}");
            let after = ws.tree();
            for _ in 0..2 {
                let undone = ws.lbx(&["undo"]).success();
                assert!(undone["warnings"].is_null(), "{command}: {undone:#}");
                assert_eq!(ws.tree(), before, "{backend}: {command}");
                ws.lbx(&["redo"]).success();
                assert_eq!(ws.tree(), after, "{backend}: {command}");
            }
            ws.lbx(&["undo"]).success();
        }
        // Writing into a FIFO does not change it.
        let answer = bash(&ws, backend, "cat pipe > /dev/null & echo 1 > pipe; wait").ok();
        assert_eq!(answer["changed"], serde_json::json!([]), "{answer:#}");
        // The trash shows the removed FIFO.
        bash(&ws, backend, "rm pipe").success();
        let trash = ws.lbx(&["trash"]).ok();
        assert_eq!(trash["entries"][0]["path"], "pipe", "{trash:#}");
        ws.lbx(&["restore", "pipe"]).success();
        assert_eq!(ws.tree(), before, "{backend}");
    }
}

/// Checks that a command has this warning only; if the system refused it, that it has none, and reports that.
#[track_caller]
fn has_warned(answer: &Value, backend: &str, told: &str) -> bool {
    let may = answer["data"]["exit_code"] == 0;
    if may {
        assert_eq!(answer["warnings"], json!([told]), "{backend}: {answer:#}");
    } else {
        let said = answer["data"]["stderr"].as_str().unwrap();
        assert!(
            said.contains("not permitted")
                || said.contains("not supported")
                || said.contains("Invalid argument"),
            "{answer:#}"
        );
        assert!(answer["warnings"].is_null(), "{backend}: {answer:#}");
        skipped(format!("{backend}: {}", said.trim_end()));
    }
    may
}

#[test]
fn changed_owners_and_attributes_are_a_warning() {
    for backend in backends() {
        let ws =
            Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n"), ("d/x.txt", "x\n"), ("c.txt", "c\n")]);
        let set =
            "python3 -c 'import os, sys; [os.setxattr(it, \"user.note\", b\"1\") for it in sys.argv[1:]]'";
        let answer = bash(&ws, backend, &format!("{set} b.txt d && touch c.txt")).success();
        let told = "extended attributes may have changed, which undo does not take back: b.txt, d";
        assert_eq!(answer["data"]["changed"], json!([]), "{backend}: {answer:#}");
        has_warned(&answer, backend, told);
        // A sandbox whose accounts are not those of the machine may not give files away.
        let answer = bash(&ws, backend, "chown 1:1 a.txt && chown 1 d && echo two >> a.txt").success();
        let told = "owner or group changed, which undo does not take back: a.txt, d";
        if has_warned(&answer, backend, told) {
            assert_eq!(answer["data"]["changed"][0]["path"], "a.txt", "{backend}: {answer:#}");
        }
        // Changes by others are not attributed to the command.
        assert!(bash(&ws, backend, "cat a.txt b.txt").success()["warnings"].is_null(), "{backend}");
    }
}

/// A file that can no longer be read was not deleted.
#[test]
fn unreadable_files_are_not_reported_as_deleted() {
    let Some(backend) = first_backend() else { return };
    let setting = format!("bash.backend={backend}");
    for mode in ["000", "300", "600"] {
        let ws = Workspace::with(&[("d/a.txt", "one\n"), ("d/e/b.txt", "b\n"), ("c.txt", "c\n")]);
        let before = ws.tree();
        let command = format!("echo new > n; chmod {mode} d");
        let Some(call) = ws.call_unprivileged(&["bash", "--direct", "--set", &setting, &command]) else {
            return;
        };
        let warning = "cannot be read since the command: d. What it changed there is not recorded, and undo does not take it back";
        let data = call.run().warned(warning);
        let modify = json!({ "path": "d", "action": "modify" });
        let create = json!({ "path": "n", "action": "create", "sha256": sha256(b"new\n") });
        assert_eq!(data["changed"], json!([modify, create]), "{mode}");
        ws.call_unprivileged(&["undo"]).unwrap().run().success();
        assert_eq!(ws.tree(), before, "{mode}");
    }
}

/// A folder that was already unreadable before the command is not reported.
#[test]
fn unreadable_directory_of_another_user_is_not_reported() {
    let Some(backend) = first_backend() else { return };
    if !is_root() {
        return;
    }
    let setting = format!("bash.backend={backend}");
    let ws = Workspace::with(&[("d/a.txt", "one\n")]);
    ws.chmod("d", 0o700);
    std::os::unix::fs::chown(ws.path("d"), Some(65534), Some(65534)).unwrap();
    for command in ["true", "echo new > n"] {
        let Some(call) = ws.call_unprivileged(&["bash", "--direct", "--set", &setting, command]) else {
            return;
        };
        let warnings = call.run().success()["warnings"].to_string();
        assert!(!warnings.contains("cannot be read since") && !warnings.contains("off limits"), "{warnings}");
    }
}

#[test]
fn changed_name_that_is_not_utf8_is_a_warning() {
    let told = "a path is not valid UTF-8: its other bytes are shown as U+FFFD";
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let command = "printf x >> $'\\xff\\xfe'; echo two >> a.txt";
    ws.lbx(&["bash", command]).warned(told);
    ws.lbx(&["bash", "--direct", command]).warned(told);
    ws.lbx(&["log"]).warned(told);
    ws.lbx(&["undo"]).warned(told);
}
