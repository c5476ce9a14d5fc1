//! Commands as transactions: applied as one change, discarded, or refused as a whole.

use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Call, Workspace, can_trace, skipped, state};
use crate::support::{all_backends, backends, first_backend, has_backend, with};

/// A command, and the actions of others while it runs.
pub type Step<'a> = (&'a str, &'a dyn Fn(&Workspace));

/// Returns true if transactions are available here.
pub fn has_overlays() -> bool {
    if !has_backend("namespaces") {
        return false;
    }
    let ws = Workspace::with(&[]);
    let answer = with(&ws, "namespaces", &json!({ "command": "true", "dry_run": true })).envelope();
    if answer["ok"] != true {
        skipped(&answer["error"]["message"]);
    }
    answer["ok"] == true
}

/// Returns a request for a transaction.
fn transaction(command: &str) -> Value {
    json!({ "command": command, "transaction": true })
}

/// Creates a workspace with ignored files.
fn workspace() -> Workspace {
    let ws = Workspace::with(&[
        ("a.txt", "one\n"),
        ("b.txt", "b\n"),
        ("src/x.rs", "x\n"),
        ("src/deep/y.rs", "y\n"),
        (".gitignore", "*.log\nbuild/\n"),
    ]);
    ws.write("old.log", "log\n");
    ws.write("build/out", "built\n");
    ws
}

#[test]
fn transaction_is_one_change_and_undo_reverts_all_of_it() {
    if !has_overlays() {
        return;
    }
    let ws = workspace();
    ws.link("a.txt", "link");
    ws.chmod("b.txt", 0o640);
    std::fs::create_dir(ws.path("empty")).unwrap();
    let before = ws.tree();
    let command = "
        echo two >> a.txt; sed -i s/b/B/ b.txt; rm old.log; echo new > new.log; rm -rf src/deep build
        mkdir src/deep && echo z > src/deep/z.rs; ln -sfn b.txt link; chmod 750 src; rmdir empty; mkdir -m 700 -p n/m
        mkfifo pipe; ln a.txt hard; echo x > sub && rm sub && mkdir sub && echo s > sub/s; touch -d 2001-02-03 src/x.rs
        python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")' || mkfifo sock";
    let answer = with(&ws, "auto", &transaction(command)).success();
    assert_eq!(answer["data"]["exit_code"], 0, "{answer:#}");
    let paths: Vec<&str> =
        answer["data"]["changed"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    let wanted = [
        "a.txt",
        "b.txt",
        "empty",
        "hard",
        "link",
        "n/m",
        "pipe",
        "sock",
        "src",
        "src/deep/y.rs",
        "src/deep/z.rs",
        "sub/s",
        "new.log",
        "old.log",
        "build/",
    ];
    assert_eq!(paths, wanted, "{answer:#}");
    ws.holds("a.txt", "one\ntwo\n");
    ws.holds("hard", "one\ntwo\n");
    ws.holds("src/deep/z.rs", "z\n");
    assert_eq!((ws.mode("src"), ws.mode("n/m"), ws.mode("b.txt")), (0o750, 0o700, 0o640));
    assert!(!ws.path("old.log").exists() && !ws.path("build").exists() && !ws.path("empty").exists());
    let after = ws.tree();
    let log = ws.snapshots();
    assert!(log[0].starts_with("bash: echo two >> a.txt"), "{log:?}");
    let audited = ws.lbx(&["audit", "--limit", "1"]).ok();
    assert_eq!(audited["records"][0]["tool"], "bash", "{audited:#}");

    let undone = ws.lbx(&["undo"]).success();
    assert_eq!(undone["data"]["undone"][0]["tool"], "bash", "{undone:#}");
    assert_eq!(ws.tree(), before);
    ws.lbx(&["redo"]).success();
    assert_eq!(ws.tree(), after);
    ws.lbx(&["undo"]).success();
    assert_eq!(ws.tree(), before);
    assert_eq!(std::fs::read_dir(ws.path(&crate::common::state("layers"))).unwrap().count(), 0);
}

#[test]
fn transaction_warns_about_attributes_that_it_does_not_apply() {
    if !has_overlays() {
        return;
    }
    let ws = workspace();
    let set = "python3 -c 'import os, sys; os.setxattr(sys.argv[1], \"user.note\", b\"kept\")'";
    let answer = with(&ws, "namespaces", &transaction(&format!("{set} a.txt"))).success();
    assert_eq!(answer["data"]["changed"], json!([]), "{answer:#}");
    let told = |names: &str| {
        format!(
            "owner and extended attributes of existing files and folders stay as they were: {names}. Run the command with `direct` to change them"
        )
    };
    assert_eq!(answer["warnings"], json!([told("a.txt")]), "{answer:#}");
    // Attributes of folders are kept too; a folder with another change keeps them as well.
    let answer =
        with(&ws, "namespaces", &transaction(&format!("{set} src; {set} build; echo x > build/out")));
    assert_eq!(answer.success()["warnings"][0], told("build, src"));
    ws.lbx(&["undo"]).success();
    // Nothing was changed, so there is nothing to undo.
    ws.lbx(&["undo"]).error("not_found");
    // A new file has its attributes, also after undo and redo.
    with(&ws, "namespaces", &transaction(&format!("echo new > n.txt; {set} n.txt"))).success();
    let has_note = || {
        let shown = Command::new("getfattr").args(["-d", "n.txt"]).current_dir(&ws.root).output();
        shown.is_ok_and(|shown| String::from_utf8_lossy(&shown.stdout).contains("kept"))
    };
    if has_note() {
        ws.lbx(&["undo"]).success();
        ws.lbx(&["redo"]).success();
        assert!(has_note());
    }
}

#[test]
fn bash_dry_run_lists_changes_and_applies_none() {
    if !has_overlays() {
        return;
    }
    let ws = workspace();
    let request =
        json!({ "command": "rm -rf src; echo x > old.log; cat src/x.rs || echo gone", "dry_run": true });
    let answer = ws.unchanged(|| with(&ws, "auto", &request).success());
    assert_eq!(
        (&answer["dry_run"], &answer["data"]["discarded"]),
        (&json!(true), &json!(true)),
        "{answer:#}"
    );
    assert_eq!(answer["data"]["stdout"], "gone\n");
    let changed = answer["data"]["changed"].as_array().unwrap();
    let listed: Vec<(&str, &str)> =
        changed.iter().map(|it| (it["path"].as_str().unwrap(), it["action"].as_str().unwrap())).collect();
    let wanted = [("src/deep/y.rs", "delete"), ("src/x.rs", "delete"), ("old.log", "modify")];
    assert_eq!(listed, wanted, "{answer:#}");
    assert_eq!(ws.snapshots(), Vec::<String>::new());
    ws.lbx(&["undo"]).error("not_found");
}

#[test]
fn changed_paths_of_a_transaction_are_sorted() {
    if !has_overlays() {
        return;
    }
    let ws = workspace();
    let command =
        "rm -r src && echo now a file > src && rm a.txt && mkdir a.txt && echo now a folder > a.txt/f";
    let answer = with(&ws, "auto", &transaction(command)).success();
    let changed = answer["data"]["changed"].as_array().unwrap();
    let listed: Vec<(&str, &str)> =
        changed.iter().map(|it| (it["path"].as_str().unwrap(), it["action"].as_str().unwrap())).collect();
    let wanted = [
        ("a.txt", "modify"),
        ("a.txt/f", "create"),
        ("src", "modify"),
        ("src/deep/y.rs", "delete"),
        ("src/x.rs", "delete"),
    ];
    assert_eq!(listed, wanted, "{answer:#}");
}

#[test]
fn on_failure_discard_rolls_back_a_failed_command() {
    if !has_overlays() {
        return;
    }
    let ws = workspace();
    let request = json!({ "command": "rm -rf *; exit 3", "on_failure": "discard" });
    let answer = ws.unchanged(|| with(&ws, "auto", &request).success());
    assert_eq!((&answer["data"]["discarded"], &answer["data"]["exit_code"]), (&json!(true), &json!(3)));
    assert!(answer["snapshot"].is_null() && answer.get("dry_run").is_none(), "{answer:#}");
    let request =
        json!({ "command": "echo x > a.txt; sleep 60", "on_failure": "discard", "timeout_ms": 300 });
    let answer = ws.unchanged(|| with(&ws, "auto", &request).success());
    assert_eq!((&answer["data"]["discarded"], &answer["data"]["timed_out"]), (&json!(true), &json!(true)));
    let request = json!({ "command": "echo x > a.txt", "on_failure": "discard" });
    assert!(with(&ws, "auto", &request).success()["data"].get("discarded").is_none());
    ws.holds("a.txt", "x\n");
    let request = json!({ "command": "echo y > a.txt; exit 1", "on_failure": "keep" });
    with(&ws, "auto", &request).success();
    ws.holds("a.txt", "y\n");
}

#[test]
fn concurrent_change_makes_the_transaction_stale() {
    if !has_overlays() {
        return;
    }
    let cases: &[Step<'_>] = &[
        ("echo mine >> a.txt; rm b.txt", &|ws| ws.write("a.txt", "theirs\n")),
        ("echo mine >> b.txt; rm -rf src", &|ws| ws.write("src/deep/new.rs", "theirs\n")),
        ("echo mine >> b.txt; rm a.txt", &|ws| ws.write("a.txt", "theirs\n")),
        ("echo mine > new.txt; rm a.txt", &|ws| ws.write("new.txt", "theirs\n")),
        ("echo mine >> a.txt", &|ws| std::fs::remove_file(ws.path("a.txt")).unwrap()),
        // Saved by a rename, so that it is no copy.
        ("sed -i s/one/mine/ a.txt", &|ws| std::fs::remove_file(ws.path("a.txt")).unwrap()),
        ("sed -i s/one/mine/ a.txt", &|ws| std::fs::rename(ws.path("a.txt"), ws.path("c.txt")).unwrap()),
        // A folder above the file, of which nothing is left below the layer.
        ("echo mine >> src/x.rs", &|ws| std::fs::remove_dir_all(ws.path("src")).unwrap()),
        ("echo mine >> src/x.rs", &|ws| std::fs::rename(ws.path("src"), ws.path("lib")).unwrap()),
        ("rm src/x.rs", &|ws| std::fs::rename(ws.path("src"), ws.path("lib")).unwrap()),
        ("echo mine > src/deep/new.txt", &|ws| std::fs::rename(ws.path("src"), ws.path("lib")).unwrap()),
    ];
    for (command, others) in cases {
        let ws = workspace();
        // The command and the test meet in a folder that the user's policy makes writable.
        let meeting = ws.outside.join("meeting");
        std::fs::create_dir(&meeting).unwrap();
        let setting = format!("bash.writable={}", meeting.display());
        let command_and_wait = format!(
            "{command}; echo ran; touch {0}/started; while [ ! -e {0}/go ]; do sleep 0.02; done",
            meeting.display()
        );
        let call = ws.call(&["bash", "--set", &setting, "--transaction", &command_and_wait]).spawn();
        while !meeting.join("started").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        others(&ws);
        std::fs::write(meeting.join("go"), "").unwrap();
        let before = ws.tree();
        let ran = call.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(answer["error"]["kind"], "stale_file", "{command}: {answer:#}");
        assert_eq!(answer["error"]["details"]["stdout"], "ran\n", "{command}: {answer:#}");
        assert_eq!(ws.tree(), before, "{command}");
    }
}

#[test]
fn rename_by_a_command_is_no_change_by_others() {
    if !has_overlays() {
        return;
    }
    // Without git, and while others make another file in the folder to which the file moves.
    let plain = Workspace::with(&[("a.txt", "one\n")]);
    std::fs::remove_dir_all(plain.path(".git")).unwrap();
    for (ws, command) in
        [(plain, "mv a.txt new.txt".to_owned()), (workspace(), "sleep 0.5; mv a.txt new.txt".to_owned())]
    {
        let call = ws.call(&["bash", "--transaction", &command]).spawn();
        if ws.path(".git").exists() {
            std::thread::sleep(std::time::Duration::from_millis(250));
            ws.write("other.txt", "theirs\n");
        }
        let ran = call.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(answer["data"].get("conflicts"), None, "{command}: {answer:#}");
        assert_eq!((ws.path("a.txt").exists(), ws.path("new.txt").exists()), (false, true), "{answer:#}");
    }
    // The old name has another file, folder or link then.
    for again in [
        "sed -i.bak s/one/two/ a.txt",
        "mv a.txt a.txt.bak; mkdir a.txt",
        "mv a.txt a.txt.bak; ln -s b a.txt",
    ] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        std::fs::remove_dir_all(ws.path(".git")).unwrap();
        ws.lbx(&["bash", "--transaction", again]).ok();
        ws.holds("a.txt.bak", "one\n");
    }
}

/// As a clean build does.
#[test]
fn folder_that_is_removed_and_made_again_has_none_of_its_old_files() {
    if !has_overlays() {
        return;
    }
    for way in ["--transaction", "--dry-run", "--direct"] {
        let ws = Workspace::with(&[
            ("dist/js/old.js", "old\n"),
            ("dist/js/deep/er/old.js", "old\n"),
            ("dist/css/a.css", "a\n"),
            ("out/js/old.js", "old\n"),
            (".gitignore", "out/\n"),
        ]);
        let before = ws.tree();
        let command = "rm -rf dist out; mkdir -p dist/js/deep/er out/js; echo new > dist/js/new.js; echo > out/js/new.js";
        let data = ws.lbx(&["bash", way, command]).ok();
        let changed: Vec<String> = data["changed"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| {
                format!("{} {}", change["action"].as_str().unwrap(), change["path"].as_str().unwrap())
            })
            .collect();
        for gone in ["dist/js/old.js", "dist/js/deep/er/old.js", "dist/css/a.css"] {
            assert!(changed.contains(&format!("delete {gone}")), "{way}: {changed:?}");
        }
        if way == "--dry-run" {
            assert_eq!(ws.tree(), before);
            continue;
        }
        for gone in ["dist/js/old.js", "dist/js/deep/er/old.js", "dist/css", "out/js/old.js"] {
            assert!(!ws.path(gone).exists(), "{way}: {gone}");
        }
        assert_eq!(ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]), ".gitignore\ndist/js/new.js");
        ws.lbx(&["undo"]).ok();
        assert_eq!(ws.tree(), before, "{way}");
    }
}

#[test]
fn protected_paths_stay_protected_in_a_transaction() {
    if !has_overlays() {
        return;
    }
    let ws = workspace();
    ws.write("keep/secret", "kept\n");
    ws.git(&["init", "-q", "src/inner"]);
    for command in [
        "echo x > .git/config",
        "rm -rf .git",
        "git update-ref refs/heads/x HEAD",
        "echo x > .lbx/lock",
        "rm -rf src/inner/.git",
        "mv .git g",
    ] {
        let request = json!({ "command": command, "transaction": true });
        let answer = with(&ws, "auto", &request).success();
        assert_ne!(answer["data"]["exit_code"], 0, "{command}: {answer:#}");
        assert_eq!(answer["data"]["changed"], json!([]), "{command}: {answer:#}");
    }
    let setting = "protect=keep";
    ws.lbx(&["bash", "--set", setting, "--transaction", "echo x > keep/secret; echo y > a.txt"]).ok();
    ws.holds("keep/secret", "kept\n");
    ws.holds("a.txt", "y\n");
    // Turning a folder into a repository is refused as for any tool, with the whole transaction.
    let request = transaction("git init -q new; echo z > a.txt");
    with(&ws, "auto", &request).error("protected_path");
    ws.holds("a.txt", "y\n");
}

#[test]
fn transaction_reuses_the_cached_repository_search() {
    if !has_overlays() || !can_trace() {
        return;
    }
    let ws = workspace();
    for folder in 0..40 {
        ws.write(&format!("deep/folder-{folder}/x.txt"), "x\n");
    }
    ws.git(&["init", "-q", "deep/inner"]);
    ws.lbx(&["bash", "--transaction", "echo 1 > a.txt"]).ok();
    let trace = tempfile::NamedTempFile::new().unwrap();
    let tracing = ["-f", "-e", "trace=openat,openat2,getdents64", "-o", trace.path().to_str().unwrap()];
    let answer = Call::under("strace", &tracing, &ws.root, &ws.outside.join("home"))
        .arguments(&["bash", "--transaction", "echo 2 > a.txt; echo 3 > deep/inner/.git/x"])
        .run()
        .success();
    assert!(answer["data"]["stderr"].as_str().unwrap().contains("Read-only"), "{answer:#}");
    ws.holds("a.txt", "2\n");
    let calls = std::fs::read_to_string(trace.path()).unwrap();
    assert!(calls.contains("deep/inner"), "what was found before is looked at again");
    assert!(!calls.contains("folder-"), "{}", calls.lines().find(|line| line.contains("folder-")).unwrap());
}

#[test]
fn transaction_never_changes_a_repository_missing_in_the_cache() {
    if !has_overlays() {
        return;
    }
    let ws = workspace();
    for command in [
        "echo x > sub/inner/.git/config; echo z > a.txt",
        "rm -rf sub/inner/.git",
        "rm -rf sub; echo z > a.txt",
        "mv sub/inner sub/other",
        "chmod 700 sub/inner/.git",
        "cd sub/inner; echo 1 > f; git add f; git -c user.name=a -c user.email=a commit -qm 1",
        "echo x > bare/config",
        "rm -rf bare",
        "mv bare other",
        "mkdir -p new/.lbx; echo x > new/.lbx/lock",
    ] {
        for form in ["transaction", "dry_run"] {
            // The result of this search is cached.
            ws.lbx(&["bash", "--direct", "true"]).ok();
            ws.git(&["init", "-q", "sub/inner"]);
            ws.git(&["init", "-q", "--bare", "bare"]);
            ws.chmod("sub/inner/.git", 0o755);
            let before = ws.tree();
            let request = json!({ "command": command, (form): true });
            let error = with(&ws, "auto", &request).error("protected_path");
            assert_eq!(error["details"]["exit_code"], 0, "{form} of {command}: {error:#}");
            assert!(ws.tree() == before, "{form} of {command}");
            // The next command searches again, and makes what it finds read-only.
            if !command.starts_with("mv") && !command.contains("new/.lbx") {
                let request = json!({ "command": command, "dry_run": true });
                let answer = with(&ws, "auto", &request).success();
                assert_ne!(answer["data"]["stderr"], "", "{form} of {command}: {answer:#}");
            }
            std::fs::remove_dir_all(ws.path("sub")).unwrap();
            std::fs::remove_dir_all(ws.path("bare")).unwrap();
        }
    }
}

#[test]
fn transaction_hides_lbx_state_missing_in_the_cache() {
    if !has_overlays() {
        return;
    }
    let ws = workspace();
    ws.lbx(&["bash", "--transaction", "true"]).ok();
    std::fs::create_dir_all(ws.path("sub/inner")).unwrap();
    ws.lbx(&["--workspace", "sub/inner", "write", "f", "--content", "x"]).ok();
    assert!(std::fs::read_dir(ws.path("sub/inner/.lbx")).unwrap().count() > 1);
    let data = ws.lbx(&["bash", "--transaction", "cat sub/inner/f; ls -A sub/inner/.lbx"]).ok();
    assert_eq!(data["stdout"], "x.gitignore\n", "{data:#}");
}

#[test]
fn transaction_without_overlay_support_is_an_error() {
    let ws = workspace();
    let request = json!({ "command": "echo x > a.txt", "transaction": true });
    for backend in ["none", "bubblewrap"] {
        let error = with(&ws, backend, &request).error("invalid_request");
        assert!(error["message"].as_str().unwrap().contains("does not support transactions"), "{error:#}");
        ws.holds("a.txt", "one\n");
    }
}

#[test]
fn transaction_applies_large_files_and_deep_trees() {
    if !has_overlays() {
        return;
    }
    let ws = workspace();
    ws.write("big.bin", vec![7_u8; 5 << 20]);
    let before = ws.tree();
    let command = "
        head -c 6000000 /dev/zero > zero.bin; head -c 20000000 /dev/urandom > build/large
        mkdir -p tree/a; for i in $(seq 1200); do echo $i > tree/a/$i; done; echo t > tree/top; chmod 711 tree/a
        mv big.bin build/big.bin; d=deep; for i in $(seq 60); do d=$d/d; done; mkdir -p $d; echo f > $d/f; rm -rf src";
    let answer = with(&ws, "auto", &transaction(command)).success();
    assert_eq!(answer["data"]["exit_code"], 0, "{answer:#}");
    let after = ws.tree();
    assert_eq!(ws.mode("tree/a"), 0o711);
    assert_eq!(std::fs::read_dir(ws.path("tree/a")).unwrap().count(), 1200);
    let attributes = std::process::Command::new("getfattr")
        .args(["-d", "-R", "-m", "user.overlay"])
        .arg(ws.path(""))
        .output();
    if let Ok(output) = attributes {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!text.contains("tree") && !text.contains("zero.bin"), "{text}");
    }
    ws.lbx(&["undo"]).success();
    assert!(ws.tree() == before);
    ws.lbx(&["redo"]).success();
    assert!(ws.tree() == after);
}

#[test]
fn next_call_reports_the_layer_of_a_killed_call() {
    if !has_overlays() {
        return;
    }
    let ws = workspace();
    let layers = ws.path(&crate::common::state("layers"));
    let mut call = ws.call(&["bash", "--transaction", "mkdir -m 0 closed; echo x > a.txt; sleep 60"]).spawn();
    while std::fs::read_dir(&layers).map_or(0, Iterator::count) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    call.kill().unwrap();
    call.wait().unwrap();
    ws.holds("a.txt", "one\n");
    // Also a command that changes nothing.
    let next = ws.copy().lbx(&["bash", "true"]).success()["warnings"].to_string();
    assert!(next.contains("are kept in "), "{next}");
    let warned = ws.lbx(&["read", "b.txt"]).success()["warnings"].to_string();
    let names = std::fs::read_dir(&layers).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let name = names.find(|name| !name.contains(".lock")).unwrap();
    let advice =
        "`bash` with `layer` shows them, with `apply` too it applies them, with `drop` it deletes them";
    assert!(warned.contains(&format!("are kept in {name}. {advice}")), "{warned}");
    for field in ["apply", "drop"] {
        let error = ws.lbx(&["bash", &format!("--{field}")]).error("invalid_request");
        let message = format!("`{field}` needs `layer`: the layer that is meant (kept: {name})");
        assert_eq!(error["message"], message);
        let action = "`list` shows the layers that are kept. On the command line: `lbx bash --list`.";
        assert_eq!(error["suggested_action"], action);
    }
    assert!(ws.lbx(&["read", "b.txt"]).success()["warnings"].is_null(), "once");
    let listed = ws.lbx(&["bash", "--list"]).ok();
    assert_eq!(listed["layers"][0]["layer"], name, "{listed:#}");
    // A list does not read layers, and does not report their files.
    assert!(listed["layers"][0].get("changed").is_none(), "{listed:#}");
    let shown = ws.lbx(&["bash", "--layer", &name]).ok();
    assert!(shown["diff"].as_str().unwrap().contains("-one\n+x\n"), "{shown:#}");
    let applied = ws.lbx(&["bash", "--layer", &name, "--apply"]).ok();
    assert_eq!(applied["applied"], true, "{applied:#}");
    ws.holds("a.txt", "x\n");
    assert!(ws.path("closed").exists());
    assert_eq!(std::fs::read_dir(&layers).unwrap().count(), 0);
    ws.lbx(&["bash", "--layer", &name]).error("not_found");
    ws.lbx(&["undo"]).success();
    ws.holds("a.txt", "one\n");
}

#[test]
fn unprivileged_undo_restores_files_made_read_only() {
    if !has_overlays() {
        return;
    }
    let ws = workspace();
    ws.chmod("b.txt", 0o400);
    let command = "echo two >> a.txt; chmod 444 a.txt; rm -f b.txt; echo ro > ro; chmod 444 ro; mkdir -m 0 closed; ln -s a.txt l";
    let Some(call) = ws.call_unprivileged(&["bash", "--transaction", command]) else { return };
    // The test, which may run as root, reads the tree: the folder is closed for the user only.
    let before = ws.tree();
    call.run().success();
    let after = ws.tree();
    assert!(before != after);
    let call = |arguments: &[&str]| ws.call_unprivileged(arguments).unwrap().run().success();
    call(&["undo"]);
    assert_eq!(ws.tree(), before);
    call(&["redo"]);
    assert_eq!(ws.tree(), after);
}

/// Scripts that change files in folders that forbid it before or after.
const OPENS_AND_CLOSES: [&str; 8] = [
    "chmod 755 ro; echo two >> ro/a.txt; echo new > ro/new",
    "chmod 755 ro; echo two >> ro/a.txt; rm ro/b.txt; chmod 500 ro",
    "mkdir -p made/deep; echo one > made/deep/a.txt; chmod 555 made/deep made",
    "chmod -R 755 ro; rm -rf ro/deep; chmod 555 ro",
    "chmod 755 ro; echo two > ro/a.txt; touch ro/c.txt; chmod 555 ro",
    "chmod -R 755 ro; rm -rf ro",
    "chmod 755 ro ro/deep; rm -rf ro/deep",
    "chmod -R 755 ro; mv ro made; chmod 555 made/deep made",
];

/// Scripts that close folders so that nobody can list them any more.
const HIDES: [&str; 4] = [
    "echo two >> d/a.txt; touch d/new; chmod 000 d",
    "echo two >> d/a.txt; chmod 300 d",
    "echo two >> d/e/b.txt; chmod 000 d/e d",
    "mkdir -p d/made/deep; touch d/made/deep/a.txt; chmod 000 d/made/deep d/made d",
];

#[test]
fn unprivileged_transaction_in_read_only_directories_is_undoable() {
    if has_overlays() {
        undone_and_redone(&["bash", "--transaction"]);
    }
}

#[test]
fn unprivileged_command_in_read_only_directories_is_undoable() {
    if !backends().is_empty() {
        undone_and_redone(&["bash"]);
    }
}

/// Changes files in read-only folders with each script, undoes and redoes it.
fn undone_and_redone(bash: &[&str]) {
    for command in OPENS_AND_CLOSES {
        let ws = workspace();
        for file in ["ro/a.txt", "ro/b.txt", "ro/deep/c.txt"] {
            ws.write(file, "one\n");
        }
        ws.chmod("ro/deep", 0o555);
        ws.chmod("ro", 0o555);
        let Some(call) = ws.call_unprivileged(&[bash, &[command]].concat()) else { return };
        let before = ws.tree();
        // All of the command is applied, and nothing is blamed on others.
        call.run().ok();
        let after = ws.tree();
        assert!(before != after, "{command}");
        let call = |arguments: &[&str]| ws.call_unprivileged(arguments).unwrap().run().success();
        call(&["undo"]);
        assert_eq!(ws.tree(), before, "{command}");
        call(&["redo"]);
        assert_eq!(ws.tree(), after, "{command}");
        // Lets the user who runs this remove it.
        for folder in ["ro", "ro/deep", "made", "made/deep"].iter().filter(|folder| ws.path(folder).exists())
        {
            ws.chmod(folder, 0o755);
        }
    }
}

#[test]
fn undo_accepts_a_directory_made_writable_by_others() {
    if first_backend().is_none() {
        return;
    }
    for command in ["echo two >> ro/a.txt", "chmod 755 ro; rm ro/b.txt; chmod 555 ro", "chmod 500 ro"] {
        let ws = workspace();
        for file in ["ro/a.txt", "ro/b.txt"] {
            ws.write(file, "one\n");
        }
        let before = ws.tree();
        ws.chmod("ro", 0o555);
        let Some(call) = ws.call_unprivileged(&["bash", command]) else { return };
        call.run().success();
        ws.chmod("ro", 0o755);
        ws.call_unprivileged(&["undo"]).unwrap().run().success();
        assert_eq!(ws.tree(), before, "{command}");
    }
}

#[test]
fn undo_of_an_unreadable_directory_needs_permission() {
    if !has_overlays() {
        return;
    }
    for command in HIDES {
        let ws = workspace();
        ws.write("d/a.txt", "one\n");
        ws.write("d/e/b.txt", "one\n");
        let before = ws.tree();
        let Some(call) = ws.call_unprivileged(&["bash", "--transaction", command]) else { return };
        call.run().ok();
        let after = ws.tree();
        // The user has to make it readable before undo works.
        let undo = || ws.call_unprivileged(&["undo"]).unwrap().run();
        undo().error("permission_denied");
        assert_eq!(ws.tree(), after, "{command}");
        for folder in ["d", "d/e", "d/made", "d/made/deep"].iter().filter(|it| ws.path(it).exists()) {
            ws.chmod(folder, 0o755);
        }
        undo().success();
        assert_eq!(ws.tree(), before, "{command}");
    }
}

#[test]
fn transaction_cannot_change_files_in_an_unreadable_directory() {
    if !has_overlays() {
        return;
    }
    for mode in [0, 0o300, 0o600] {
        let ws = workspace();
        ws.write("d/a.txt", "one\n");
        ws.chmod("d", mode);
        let before = ws.tree();
        let transaction =
            |command: &str| ws.call_unprivileged(&["bash", "--transaction", command]).map(Call::run);
        for change in ["echo two >> d/a.txt", "rm d/a.txt", "echo new > d/new"] {
            let Some(answer) = transaction(&format!("chmod 755 d; {change}")) else { return };
            answer.error("permission_denied");
            assert_eq!(ws.tree(), before, "{change}");
        }
        let changed = transaction("chmod 755 d").unwrap().success()["data"]["changed"].clone();
        assert_eq!(changed, json!([{ "path": "d", "action": "modify" }]));
        ws.call_unprivileged(&["undo"]).unwrap().run().success();
        assert_eq!(ws.tree(), before);
        ws.chmod("d", 0o755);
    }
}

#[test]
fn touching_a_read_only_directory_is_not_a_change() {
    if !has_overlays() {
        return;
    }
    let ws = workspace();
    ws.write("ro/a.txt", "one\n");
    ws.chmod("ro", 0o555);
    let touch = ["bash", "--transaction", "chmod 755 ro; touch ro; chmod 555 ro"];
    let Some(call) = ws.call_unprivileged(&touch) else { return };
    assert_eq!(call.run().ok()["changed"], json!([]));
    ws.lbx(&["undo"]).error("not_found");
    ws.chmod("ro", 0o755);
}

#[test]
fn undo_removes_a_new_read_only_directory() {
    let ws = workspace();
    let command = OPENS_AND_CLOSES[2];
    let before = ws.tree();
    let Some(call) = ws.call_unprivileged(&["bash", command]) else { return };
    call.run().success();
    ws.call_unprivileged(&["undo"]).unwrap().run().success();
    assert_eq!(ws.tree(), before);
}

#[test]
fn background_cannot_be_combined_with_transaction() {
    let ws = workspace();
    ws.unchanged(|| {
        for field in
            [json!({ "transaction": true }), json!({ "dry_run": true }), json!({ "on_failure": "discard" })]
        {
            let mut request = json!({ "command": "date > a.txt", "background": true });
            request.as_object_mut().unwrap().extend(field.as_object().unwrap().clone());
            let error = ws.json("bash", &request).error("invalid_request");
            assert_eq!(error["details"]["field"], "background", "{error}");
        }
    });
}

#[test]
fn transaction_selects_a_backend_with_overlay_support() {
    if !has_overlays() {
        return;
    }
    for backend in all_backends() {
        let ws = workspace();
        let request = transaction("echo two >> a.txt; echo ran");
        if *backend == "namespaces" {
            assert_eq!(with(&ws, backend, &request).success()["data"]["sandbox"], "namespaces");
            continue;
        }
        // If the policy names a backend that cannot, nothing runs.
        ws.unchanged(|| {
            for more in ["transaction", "dry_run"] {
                let error = with(&ws, backend, &json!({ "command": "echo x > a.txt", more: true }));
                let error = error.error("invalid_request");
                let message = error["message"].as_str().unwrap();
                assert!(
                    message.contains(backend) && message.contains("does not support transactions"),
                    "{error:#}"
                );
            }
        });
    }
    // Otherwise a backend that can is used, whichever comes first for other commands.
    let ws = workspace();
    let answer = with(&ws, "auto", &transaction("echo two >> a.txt")).success();
    assert_eq!(answer["data"]["sandbox"], "namespaces", "{answer:#}");
}

/// No command has left it, so there is nothing to repeat in each later call.
#[test]
fn folder_in_the_place_of_a_mark_is_put_aside_once() {
    for mark in ["x.direct", "y.layer"] {
        let ws = workspace();
        ws.lbx(&["append", "a.txt", "--content", "more\n"]).success();
        ws.write(&state(&format!("journal/open/{mark}/inner")), "kept\n");
        let next = ws.lbx(&["append", "a.txt", "--content", "more\n"]).success();
        assert!(next["warnings"].to_string().contains(&format!("journal/stuck/{mark}")), "{next:#}");
        let next = ws.lbx(&["append", "a.txt", "--content", "more\n"]).success();
        assert!(next["warnings"].is_null(), "{next:#}");
        ws.holds(&state(&format!("journal/stuck/{mark}/inner")), "kept\n");
    }
}
