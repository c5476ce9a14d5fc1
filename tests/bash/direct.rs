//! Commands that change the files themselves.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Answer, Workspace, is_root, sha256, skipped};
use crate::support::{backends, with};

/// Runs a direct command under a backend.
fn direct(ws: &Workspace, backend: &str, command: &str) -> Answer {
    with(ws, backend, &json!({ "command": command, "direct": true }))
}

/// Returns the paths that a command changed.
fn changed(answer: &Value) -> Vec<&str> {
    answer["data"]["changed"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect()
}

/// Returns the warnings of an answer.
fn warnings(answer: &Value) -> String {
    answer["warnings"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| it.as_str().unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Shell that makes a repository in the working directory, without git.
const MAKE: &str = "mkdir objects refs; echo 'ref: refs/heads/main' > HEAD; printf '[core]\\n\\tfsmonitor = touch RAN\\n' > config";

/// Returns true if git treats a folder as a repository.
fn is_repository(folder: &Path) -> bool {
    let run = std::process::Command::new("git")
        .args(["rev-parse", "--git-dir"])
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap())
        .current_dir(folder)
        .output();
    run.unwrap().status.success()
}

#[test]
fn new_repository_is_disabled_and_reported() {
    for backend in backends() {
        let ws = Workspace::with(&[("a.txt", "one\n"), (".gitignore", "build/\n"), ("src/x", "x\n")]);
        let command = format!(
            "mkdir -p build/x/.git build/link new; (cd build/x/.git; {MAKE}); ln -s ../x build/link/.git; (cd src; {MAKE}); git init -q new; echo two > a.txt; mkdir -p empty/.git file/.git.lbx-held; echo gitdir: ../src > file/.git"
        );
        let answer = direct(&ws, backend, &command).success();
        let told = warnings(&answer);
        for sentence in [
            "the command made a repository in build/x; it is now build/x/.git.lbx-held, where git does not use it",
            "in build/link; it is now build/link/.git.lbx-held, where",
            "in src; it is now src/HEAD.lbx-held, where",
            "in new; it is now new/.git.lbx-held, where",
            "in file; it is now file/.git.lbx-held-2, where",
        ] {
            assert!(told.contains(sentence), "{backend}: {told}");
        }
        for folder in ["build/x", "build/link", "build/x/.git.lbx-held", "src", "new", "new/.git.lbx-held"] {
            assert!(!is_repository(&ws.path(folder)), "{backend}: {folder}");
        }
        assert!(ws.path("empty/.git").exists(), "{backend}: git ignores an empty folder");
        let paths = changed(&answer);
        assert!(paths.contains(&"new/.git.lbx-held") && paths.contains(&"a.txt"), "{answer:#}");
        // The next command runs, and undo takes all of it back.
        assert!(warnings(&direct(&ws, backend, "true").success()).is_empty());
        ws.lbx(&["undo"]).success();
        ws.holds("a.txt", "one\n");
        assert!(!ws.path("new").exists() && !ws.path("src/HEAD.lbx-held").exists(), "{backend}");
        assert!(!ws.path("build/x/.git.lbx-held").exists(), "{backend}");
    }
}

#[test]
fn repository_created_in_the_root_is_disabled() {
    for backend in backends() {
        let ws = Workspace::bare(&[("a.txt", "one\n")]);
        let answer = direct(&ws, backend, MAKE).success();
        let told = warnings(&answer);
        let sentence = "made a repository in the workspace root; it is now HEAD.lbx-held, where git";
        assert!(told.contains(sentence), "{backend}: {told}");
        assert!(!is_repository(&ws.root), "{backend}");
        assert_eq!(direct(&ws, backend, "cat HEAD.lbx-held").ok()["stdout"], "ref: refs/heads/main\n");
    }
}

#[test]
fn replaced_repository_is_disabled() {
    for backend in backends() {
        let ws = Workspace::with(&[("a.txt", "one\n"), (".gitignore", "build/\nsub/\n"), ("build/x", "")]);
        ws.write("sub/file", "x\n");
        ws.git(&["init", "-q", "sub"]);
        let answer =
            direct(&ws, backend, &format!("mv sub build/o && mkdir -p sub/.git && cd sub/.git && {MAKE}"));
        let answer = answer.envelope();
        if ws.path("build/o").exists() {
            let told = warnings(&answer);
            assert!(told.contains("in sub; it is now sub/.git.lbx-held"), "{backend}: {told}");
            assert!(told.contains("in build/o; it is now build/o/.git.lbx-held"), "{backend}: {told}");
        }
        assert!(!ws.path("sub/RAN").exists());
        let run = std::process::Command::new("git").arg("status").current_dir(ws.path("sub")).output();
        assert!(run.unwrap().status.success());
        assert!(!ws.path("sub/RAN").exists() && !ws.path("RAN").exists(), "{backend}");
    }
}

#[test]
fn lbx_state_created_by_a_command_is_disabled() {
    for backend in backends() {
        let ws = Workspace::with(&[("sub/a.txt", "one\n")]);
        let answer = direct(&ws, backend, "mkdir -p sub/.lbx/state; echo x > sub/.lbx/config.toml").success();
        let told = warnings(&answer);
        let sentence =
            "the command made a state of lbx in sub; it is now sub/.lbx.lbx-held, where lbx does not use it";
        assert!(told.contains(sentence), "{backend}: {told}");
        assert!(!ws.path("sub/.lbx").exists() && ws.path("sub/.lbx.lbx-held/state").exists(), "{backend}");
        ws.lbx(&["undo"]).success();
        assert!(!ws.path("sub/.lbx.lbx-held").exists(), "{backend}");
    }
}

#[test]
fn external_change_of_git_config_is_a_warning() {
    for (folder, shown) in [(".", "the workspace root"), ("old", "old")] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        ws.git(&["init", "-q", "old"]);
        let call =
            ws.call(&["bash", "--direct", "touch started; while [ ! -e go ]; do sleep 0.02; done"]).spawn();
        while !ws.path("started").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        if folder == "." {
            ws.git(&["config", "branch.main.remote", "origin"]);
        } else {
            ws.write("old/.git/hooks/post-checkout", "x");
        }
        ws.git(&["commit", "-q", "--allow-empty", "-m", "theirs"]);
        ws.write("go", "");
        let answer: Value = serde_json::from_slice(&call.wait_with_output().unwrap().stdout).unwrap();
        let sentence =
            format!("the configuration or hooks of the repository in {shown} changed while the command ran");
        assert!(warnings(&answer).contains(&sentence), "{answer:#}");
        assert!(ws.path(folder).join(".git/HEAD").exists());
    }
}

#[test]
fn failed_repository_search_blocks_direct_commands() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["bash", "--direct", "true"]).success();
    // With one descriptor too few, the search fails and nothing runs. The number needed depends on the descriptors that
    // the caller left open and on the processors.
    let mut said = String::new();
    for descriptors in 8..64 {
        let limited = format!("ulimit -n {descriptors}; exec \"$0\" bash --direct 'touch ran'");
        let run = std::process::Command::new("sh")
            .args(["-c", &limited, env!("CARGO_BIN_EXE_lbx")])
            .env("HOME", ws.outside.join("home"))
            .current_dir(&ws.root)
            .output()
            .unwrap();
        if ws.path("ran").exists() {
            break;
        }
        assert!(!run.status.success(), "{descriptors}: {said}");
        said.push_str(&String::from_utf8_lossy(&run.stdout));
    }
    assert!(ws.path("ran").exists(), "{said}");
    assert!(said.contains("the search for repositories failed in .: "), "{said}");
}

#[test]
fn change_with_the_same_size_and_mtime_is_recorded() {
    for backend in backends() {
        let ws = Workspace::with(&[("f", "public\n"), ("g", "same\n"), (".gitignore", "*.env\n")]);
        ws.write("x.env", "KEY=1\n");
        std::thread::sleep(std::time::Duration::from_millis(50));
        let command = "for f in f g x.env; do touch -r $f /tmp/old; cp $f /tmp/was; [ $f = f ] && printf SECRET | dd of=f conv=notrunc status=none; [ $f = x.env ] && printf KEY=2 | dd of=$f conv=notrunc status=none; [ $f = g ] && { cat /tmp/was > g; }; touch -r /tmp/old $f; done";
        let answer = direct(&ws, backend, command).success();
        let paths = changed(&answer);
        assert!(paths.contains(&"f") && !paths.contains(&"g"), "{backend}: {answer:#}");
        assert!(ws.git(&["show", "lbx-snapshots:f"]).starts_with("SECRET"), "{backend}");
        ws.lbx(&["undo"]).success();
        ws.holds("f", "public\n");
        ws.holds("g", "same\n");
    }
}

#[test]
fn repository_in_an_unreadable_directory_is_disabled() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let Some(call) = ws.call_unprivileged(&["bash", "--direct", "git init -q d/e; chmod 0 d"]) else {
        return;
    };
    let answer = call.run().success();
    assert_eq!(ws.mode("d"), 0);
    std::fs::set_permissions(ws.path("d"), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(warnings(&answer).contains("in d/e; it is now d/e/.git.lbx-held, where"), "{answer:#}");
    assert!(!is_repository(&ws.path("d/e")) && ws.path("d/e/.git.lbx-held").exists());
}

#[test]
fn undo_restores_small_ignored_files() {
    for backend in backends() {
        let ws =
            Workspace::with(&[("a.txt", "one\n"), (".gitignore", ".env\ndist/\nnode_modules/\n*.big\n")]);
        ws.write(".env", "KEY=1\n");
        ws.write("dist/out.js", "1\n");
        ws.write("huge.big", vec![b'x'; 6 << 20]);
        for number in 0..1001 {
            ws.write(&format!("node_modules/m/{number}"), "x");
        }
        ws.lbx(&["write", "b.txt", "--content", "mine\n"]).success();
        // An empty folder in an ignored folder is not a change.
        let answer = direct(&ws, backend, "mkdir -p dist/tmp node_modules/new");
        assert_eq!(answer.ok()["changed"], json!([]), "{backend}");
        let command = "rm .env; echo 2 > dist/out.js; echo n > dist/tmp/new; echo y > node_modules/m/7; echo 2 >> huge.big; touch a.txt";
        let answer = direct(&ws, backend, command).success();
        assert_eq!(changed(&answer), [".env", "dist/"], "{backend}: {answer:#}");
        let told = warnings(&answer);
        assert!(
            told.contains("does not take back what the command did to them: huge.big, node_modules/m/7"),
            "{told}"
        );
        ws.lbx(&["undo"]).success();
        ws.holds(".env", "KEY=1\n");
        ws.holds("dist/out.js", "1\n");
        assert!(!ws.path("dist/tmp/new").exists(), "{backend}");
        // A new file is taken back whatever its size.
        let answer = direct(&ws, backend, "head -c 7000000 /dev/zero | tee new.big > dist/new");
        assert_eq!(changed(&answer.success()), ["new.big", "dist/"], "{backend}");
        ws.lbx(&["undo"]).success();
        assert!(!ws.path("new.big").exists() && !ws.path("dist/new").exists(), "{backend}");
        ws.lbx(&["redo"]).success();
        assert_eq!(std::fs::metadata(ws.path("dist/new")).unwrap().len(), 7_000_000, "{backend}");
        ws.lbx(&["undo"]).success();
        // Undo reverts the write, not an empty folder.
        ws.lbx(&["undo"]).success();
        assert!(!ws.path("b.txt").exists(), "{backend}");
        let snapshots = ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]);
        assert!(!snapshots.contains(".env") && !snapshots.contains("dist"), "{backend}: {snapshots}");
    }
}

#[test]
fn redo_replaces_an_empty_ignored_directory_with_a_file() {
    for backend in backends() {
        let ws = Workspace::with(&[("d2/y", "y\n"), (".gitignore", "d2/\n")]);
        let first = ws.tree();
        direct(&ws, backend, "rm d2/y").success();
        let answer = direct(&ws, backend, "rm -r d2; echo file > d2").success();
        let sha256 = sha256(b"file\n");
        let listed = json!([{ "path": "d2", "action": "modify", "sha256": sha256 }]);
        assert_eq!(answer["data"]["changed"], listed, "{backend}: {answer:#}");
        ws.lbx(&["undo"]).success();
        assert!(ws.path("d2").is_dir(), "{backend}: undo of the second command");
        ws.lbx(&["undo"]).success();
        assert_eq!(ws.tree(), first, "{backend}: undo of both");
        ws.lbx(&["redo", "--steps", "2"]).success();
        ws.holds("d2", "file\n");
        direct(&ws, backend, "rm d2; mkdir d2").success();
        ws.lbx(&["undo"]).success();
        ws.holds("d2", "file\n");
        ws.lbx(&["undo", "--steps", "2"]).success();
        assert_eq!(ws.tree(), first, "{backend}: undo of all");
        ws.lbx(&["redo", "--steps", "3"]).success();
        assert!(ws.path("d2").is_dir(), "{backend}: redo of all");
    }
}

#[test]
fn empty_ignored_directories_give_way_to_undo_and_redo() {
    for backend in backends() {
        for is_direct in [true, false] {
            let told = format!("{backend}, direct: {is_direct}");
            let ws = Workspace::with(&[("d2/y", "y\n"), (".gitignore", "d2/\nin\n"), ("in", "one\n")]);
            let run = |command: &str| {
                with(&ws, backend, &json!({ "command": command, "direct": is_direct })).success()
            };
            // A file that git tracks, and one that it does not, in an ignored directory.
            ws.write("d2/z", "z\n");
            let first = ws.tree();
            run("rm d2/y d2/z");
            let none = run("mkdir -p d2/y d2/z/sub/d2");
            assert_eq!(none["data"]["changed"], json!([]), "{told}");
            ws.lbx(&["undo"]).success();
            assert_eq!(ws.tree(), first, "{told}");
            ws.lbx(&["redo"]).success();
            assert!(!ws.path("d2/y").exists() && !ws.path("d2/z").exists(), "{told}");
            ws.lbx(&["undo"]).success();
            assert_eq!(ws.tree(), first, "{told}");
            // A file that redo creates.
            run("echo new > d2/new");
            ws.lbx(&["undo"]).success();
            run("mkdir d2/new");
            ws.lbx(&["redo"]).success();
            ws.holds("d2/new", "new\n");
            ws.lbx(&["undo"]).success();
            // A move, undone by its number.
            ws.lbx(&["move", "d2/y", "moved"]).success();
            run("mkdir d2/y");
            let newest = &ws.lbx(&["log", "--limit", "1"]).ok()["snapshots"][0]["seq"];
            ws.lbx(&["undo", "--seq", &newest.to_string()]).success();
            assert_eq!(ws.tree(), first, "{told}");
            // A directory that no change made, replaced by a file: several changes at once.
            run("rm d2/z");
            run("mkdir d2/z");
            run("rmdir d2/z; echo other > d2/z");
            ws.lbx(&["undo", "--steps", "2"]).success();
            assert_eq!(ws.tree(), first, "{told}");
            ws.lbx(&["redo", "--steps", "2"]).success();
            ws.holds("d2/z", "other\n");
        }
    }
}

#[test]
fn empty_ignored_directories_are_undone_with_other_changes() {
    for backend in backends() {
        for is_direct in [true, false] {
            let ws = Workspace::with(&[(".gitignore", "out/\n"), ("out/x", "x\n")]);
            std::fs::create_dir_all(ws.path("out/old/inner")).unwrap();
            let before = ws.tree();
            let command = "mkdir -p out/new/inner; rmdir -p out/old/inner; echo > a.txt";
            let request = json!({ "command": command, "direct": is_direct });
            let answer = with(&ws, backend, &request).success();
            let folders = json!({ "path": "out/", "action": "modify", "files": 2 });
            assert_eq!(answer["data"]["changed"][1], folders, "{backend}: {answer:#}");
            let after = ws.tree();
            ws.lbx(&["undo"]).success();
            assert_eq!(ws.tree(), before, "{backend}, direct: {is_direct}");
            ws.lbx(&["redo"]).success();
            assert_eq!(ws.tree(), after, "{backend}, direct: {is_direct}");
        }
    }
}

#[test]
fn undo_removes_special_files_in_new_ignored_directories() {
    for backend in backends() {
        let ws = Workspace::with(&[("a.txt", "a\n"), (".gitignore", "d2/\n"), ("d2/y", "y\n")]);
        let before = ws.tree();
        direct(&ws, backend, "mkdir -p d2/m/n && mkfifo d2/m/n/pipe && mkfifo pipe").success();
        ws.lbx(&["undo"]).success();
        assert_eq!(ws.tree(), before, "{backend}");
        let bind = "import socket; socket.socket(socket.AF_UNIX).bind('socket')";
        direct(&ws, backend, &format!("python3 -c \"{bind}\"")).success();
        let before = ws.tree();
        direct(&ws, backend, "mkdir d2/m && mv socket d2/m/").success();
        ws.lbx(&["undo"]).success();
        assert_eq!(ws.tree(), before, "{backend}");
        ws.lbx(&["redo"]).success();
        assert!(!ws.path("socket").exists() && ws.path("d2/m/socket").exists(), "{backend}");
    }
}

#[test]
fn directories_with_files_or_outside_the_ignored_ones_stop_an_undo() {
    for backend in backends() {
        let ws = Workspace::with(&[("a.txt", "a\n"), (".gitignore", "d2/\n"), ("d2/y", "y\n")]);
        direct(&ws, backend, "rm a.txt d2/y").success();
        // Others made them.
        ws.write("d2/y/sub/file", "theirs\n");
        let refused = ws.lbx(&["undo"]).error("stale_file");
        assert_eq!(refused["path"], "d2/y", "{backend}");
        std::fs::remove_dir_all(ws.path("d2/y")).unwrap();
        std::fs::create_dir(ws.path("a.txt")).unwrap();
        let refused = ws.lbx(&["undo"]).error("stale_file");
        assert_eq!(refused["path"], "a.txt", "{backend}");
        assert!(ws.path("a.txt").is_dir() && !ws.path("d2/y").exists(), "{backend}");
    }
}

#[test]
fn concurrent_direct_sessions_own_exactly_their_files() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("shared.txt", "s\n")]);
    let names: Vec<String> = (0..6).map(|number| format!("s{number}")).collect();
    let calls: Vec<_> = names
        .iter()
        .map(|name| {
            let command = format!("mkdir {name}; for i in $(seq 20); do echo {name} > {name}/$i; done");
            (name, ws.call(&["bash", "--direct", "--session", name, &command]).spawn())
        })
        .collect();
    for (name, call) in calls {
        let answer: Value = serde_json::from_slice(&call.wait_with_output().unwrap().stdout).unwrap();
        let paths = changed(&answer);
        assert_eq!(paths.len(), 20, "{name}: {answer:#}");
        assert!(paths.iter().all(|path| path.starts_with(&format!("{name}/"))), "{name}: {answer:#}");
        assert!(answer["warnings"].is_null() && answer["snapshot"].is_string(), "{answer:#}");
        let diff = ws.lbx(&["diff", "--session", name]).ok();
        let text = diff["diff"].as_str().unwrap();
        assert_eq!(text.matches("+++ ").count(), 20, "{name}: {text}");
    }
    ws.lbx(&["undo", "--session", "s2"]).success();
    assert!(!ws.path("s2").exists());
    for name in names.iter().filter(|name| *name != "s2") {
        assert_eq!(std::fs::read_dir(ws.path(name)).unwrap().count(), 20, "{name}");
    }
}

#[test]
fn files_of_a_running_job_belong_to_it() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("c.txt", "c\n")]);
    let command = "echo two >> a.txt; echo j > of-job; touch started; while [ ! -e go ]; do sleep 0.02; done; rm started go; echo end >> of-job";
    let started = ws.lbx(&["bash", "--background", command]).ok();
    let job = started["job"].as_str().unwrap().to_owned();
    while !ws.path("started").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // What the running job has changed is recorded as its own when others look.
    let other = |args: &[&str]| ws.lbx(&[args, &["--session", "other"]].concat());
    let answer = other(&["bash", "--direct", "echo d > of-other; echo three >> a.txt"]).success();
    assert_eq!(changed(&answer), ["a.txt", "of-other"], "{answer:#}");
    let told = warnings(&answer);
    assert!(
        told.contains(
            "another command ran at the same time, and some of these changes may be its own: a.txt, of-other"
        ),
        "{told}"
    );
    ws.write("of-job", "j\nk\n");
    other(&["snapshot"]).ok();
    let log = ws.git(&["log", "--format=%s", "lbx-snapshots"]);
    assert_eq!(log.matches(" (so far)").count(), 2, "{log}");
    assert!(!log.contains("external"), "{log}");
    other(&["undo"]).success();
    ws.holds("a.txt", "one\ntwo\n");
    assert!(ws.path("of-job").exists() && !ws.path("of-other").exists());
    ws.write("go", "");
    let ended = ws.lbx(&["bash", "--job", &job, "--timeout-ms", "20000"]).success();
    assert_eq!(changed(&ended), ["a.txt", "of-job"], "{ended:#}");
    ws.lbx(&["undo"]).success();
    ws.holds("a.txt", "one\n");
    assert!(!ws.path("of-job").exists());
}

/// Starts a job whose steps run one by one: the n-th once a file `go-n` comes, and before it makes `done-n`.
fn job_in_steps(ws: &Workspace, steps: &[&str]) -> String {
    ws.write(".gitignore", "go-*\ndone-*\n");
    let step = |(number, step): (usize, &&str)| {
        format!("while [ ! -e go-{number} ]; do sleep 0.01; done; {step}; touch done-{number}")
    };
    let steps: Vec<String> = steps.iter().enumerate().map(step).collect();
    let started = ws.lbx(&["bash", "--background", &steps.join("; ")]).ok();
    started["job"].as_str().unwrap().to_owned()
}

/// Lets a job take its next step.
fn step(ws: &Workspace, number: usize) {
    ws.write(&format!("go-{number}"), "");
    while !ws.path(&format!("done-{number}")).exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn direct_command_beside_a_job_owns_its_own_lines_alone() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\nthree\n"), ("b.txt", "b\n")]);
    let job = job_in_steps(&ws, &["sed -i s/one/ONE/ a.txt; rm b.txt", "true"]);
    step(&ws, 0);
    ws.lbx(&["bash", "--direct", "--session", "other", "sed -i s/three/THREE/ a.txt"]).success();
    step(&ws, 1);
    ws.lbx(&["bash", "--job", &job, "--timeout-ms", "20000"]).success();
    let diff = |session| {
        let diff = ws.lbx(&["diff", "-t", "--session", session]);
        let diff = String::from_utf8_lossy(diff.stdout()).into_owned();
        diff.lines()
            .filter(|line| line.starts_with(['+', '-']) && !line[1..].starts_with(['+', '-']))
            .fold(String::new(), |all, line| all + line + " ")
    };
    assert_eq!(diff("default"), "-one +ONE -b ");
    assert_eq!(diff("other"), "-three +THREE ");
    ws.lbx(&["undo", "--session", "other"]).success();
    ws.lbx(&["undo"]).success();
    ws.holds("a.txt", "one\ntwo\nthree\n");
    ws.holds("b.txt", "b\n");
}

#[test]
fn job_owns_what_it_does_to_files_that_others_made_and_moved() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n"), ("c.txt", "c\n")]);
    let job = job_in_steps(
        &ws,
        &[
            "echo made > made.txt; rm c.txt",
            "echo more >> moved.txt; rm made.txt new.txt; echo again > b.txt",
        ],
    );
    step(&ws, 0);
    let other = |call: &[&str]| ws.lbx(&[call, &["--session", "other"]].concat()).success();
    other(&["move", "a.txt", "moved.txt"]);
    other(&["delete", "b.txt"]);
    other(&["write", "new.txt", "--content", "new\n"]);
    other(&["read", "made.txt"]);
    other(&["append", "made.txt", "--content", "more\n"]);
    // It goes to the place of a file that the job has removed.
    other(&["move", "made.txt", "c.txt"]);
    other(&["move", "c.txt", "made.txt"]);
    step(&ws, 1);
    ws.lbx(&["bash", "--job", &job, "--timeout-ms", "20000"]).success();
    let log = ws.git(&["log", "--format=%s", "lbx-snapshots"]);
    assert!(!log.contains("external"), "{log}");
    let files = ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]);
    assert_eq!(files, ".gitignore\nb.txt\nmoved.txt");
    ws.lbx(&["undo"]).success();
    ws.holds("moved.txt", "a\n");
    ws.holds("made.txt", "made\nmore\n");
    ws.holds("new.txt", "new\n");
    assert!(!ws.path("b.txt").exists());
    for _ in 0..6 {
        other(&["undo"]);
    }
    ws.lbx(&["undo"]).success();
    for (path, text) in [("a.txt", "a\n"), ("b.txt", "b\n"), ("c.txt", "c\n")] {
        ws.holds(path, text);
    }
    assert!(!ws.path("made.txt").exists());
}

#[test]
fn part_of_a_job_in_a_folder_is_recorded_before_the_folder_moves() {
    let ws = Workspace::with(&[("d/a.txt", "a\n"), ("d/b.txt", "b\n")]);
    let job = job_in_steps(&ws, &["echo more >> d/a.txt; rm d/b.txt; echo c > d/c.txt", "true"]);
    step(&ws, 0);
    ws.lbx(&["move", "d", "e", "--session", "other"]).success();
    step(&ws, 1);
    ws.lbx(&["bash", "--job", &job, "--timeout-ms", "20000"]).success();
    let log = ws.git(&["log", "--reverse", "--format=%s", "lbx-snapshots", "--not", "HEAD"]);
    let lines: Vec<&str> = log.lines().filter(|line| *line != "baseline").collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[0].ends_with(" (so far)") && lines[1] == "move: d -> e", "{log}");
    ws.lbx(&["undo", "--session", "other"]).success();
    ws.lbx(&["undo"]).success();
    ws.holds("d/a.txt", "a\n");
    ws.holds("d/b.txt", "b\n");
    assert!(!ws.path("d/c.txt").exists() && !ws.path("e").exists());
}

#[test]
fn undo_passes_an_ignored_file_that_others_wrote_after_a_job() {
    let ws = Workspace::with(&[(".gitignore", "go-*\n"), ("a.txt", "a\n"), ("go-log", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "b\n"]).ok();
    let job = job_in_steps(&ws, &["echo two >> go-log", "true"]);
    step(&ws, 0);
    ws.lbx(&["read", "go-log"]).ok();
    ws.lbx(&["append", "go-log", "--content", "three\n"]).success();
    step(&ws, 1);
    let ended = ws.lbx(&["bash", "--job", &job, "--timeout-ms", "20000"]).success();
    let changed = ended["data"]["changed"].to_string();
    assert!(changed.contains(r#"{"action":"modify","lost":1,"path":"go-log"}"#), "{changed}");
    ws.lbx(&["undo"]).warned("not restored, because no copy exists: go-log");
    ws.holds("go-log", "one\ntwo\nthree\n");
    ws.lbx(&["undo", "--steps", "2"]).success();
    ws.holds("go-log", "one\ntwo\n");
    ws.holds("a.txt", "a\n");
}

#[test]
fn job_stops_when_a_repository_appears() {
    for (folder, has_git) in [("y", true), (".", false)] {
        let ws = if has_git {
            Workspace::with(&[("a.txt", "one\n")])
        } else {
            Workspace::bare(&[("a.txt", "one\n")])
        };
        let attack = format!(
            "trap '' TERM; touch started; for i in $(seq 400); do [ -e {folder}/.git/config ] && echo evil >> {folder}/.git/late; sleep 0.05; done"
        );
        let started = ws.lbx(&["bash", "--background", &attack]).ok();
        let job = started["job"].as_str().unwrap().to_owned();
        while !ws.path("started").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        std::fs::create_dir_all(ws.path(folder)).unwrap();
        // At the root, lbx's own empty folder is replaced.
        let _ = std::fs::remove_dir(ws.path(folder).join(".git"));
        let made =
            std::process::Command::new("git").args(["init", "-q"]).current_dir(ws.path(folder)).status();
        // It fails if the repository is moved away before it is complete.
        assert!(made.is_ok());
        let ended = ws.lbx(&["bash", "--job", &job, "--timeout-ms", "60000"]).success();
        assert_eq!(ended["data"]["stopped"], true, "{ended:#}");
        let told = warnings(&ended);
        assert!(told.contains("stopped because a repository appeared in "), "{ended:#}");
        assert!(told.contains(".git.lbx-held, where git does not use it"), "{ended:#}");
    }
}

#[test]
fn job_without_a_new_repository_keeps_running() {
    let ws = Workspace::bare(&[("a.txt", "one\n"), ("src/objects/x", "x\n")]);
    let command = "mkdir -p new/deep/.github src/refs; touch new/deep/.gitignore HEAD; sleep 0.3; echo done";
    let started = ws.lbx(&["bash", "--background", command]).ok();
    let job = started["job"].as_str().unwrap().to_owned();
    let other = ws.lbx(&["bash", "--direct", "touch of-other"]).success();
    assert!(changed(&other).contains(&"of-other"), "{other:#}");
    let ended = ws.lbx(&["bash", "--job", &job, "--timeout-ms", "60000"]).success();
    assert_eq!(ended["data"]["exit_code"], 0, "{ended:#}");
}

#[test]
fn repository_of_a_killed_command_is_disabled_by_the_next() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let command = "git init -q new; touch started; sleep 1000";
    let call = ws.call(&["bash", "--direct", command]).spawn();
    while !ws.path("started").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    crate::common::kill(call.id());
    call.wait_with_output().unwrap();
    assert!(is_repository(&ws.path("new")));
    let answer = direct(&ws, "auto", "true").success();
    let told = warnings(&answer);
    assert!(told.contains("the command made a repository in new; it is now new/.git.lbx-held"), "{told}");
    assert!(!is_repository(&ws.path("new")));
    assert!(warnings(&direct(&ws, "auto", "true").success()).is_empty());
}

#[test]
fn commands_cannot_move_parents_of_a_repository() {
    for backend in backends() {
        let ws = Workspace::with(&[("a.txt", "one\n"), ("deep/er/sub/x", "x\n"), (".gitignore", "build/\n")]);
        ws.git(&["init", "-q", "deep/er/sub"]);
        let config = ws.read_bytes("deep/er/sub/.git/config");
        for folder in ["deep", "deep/er", "deep/er/sub"] {
            let command =
                format!("mkdir -p build && python3 -c 'import os; os.rename(\"{folder}\", \"build/o\")'");
            let answer = direct(&ws, backend, &command).success();
            assert_ne!(answer["data"]["exit_code"], 0, "{backend}: {folder}: {answer:#}");
            assert!(answer["data"]["stderr"].as_str().unwrap().contains("OSError"), "{backend}: {answer:#}");
            assert_eq!(ws.read_bytes("deep/er/sub/.git/config"), config, "{backend}: {folder}");
        }
        let answer = direct(&ws, backend, "echo y > deep/er/sub/y; mv deep/er/sub/x deep/x").success();
        assert_eq!(answer["data"]["exit_code"], 0, "{backend}: {answer:#}");
        assert!(ws.path("deep/er/sub/y").exists() && ws.path("deep/x").exists(), "{backend}");
    }
}

#[test]
fn symlinked_repository_is_protected_with_its_symlinks() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("x/keep", "")]);
    std::fs::rename(ws.path(".git"), ws.path("x/real")).unwrap();
    ws.link(Path::new("x"), "way");
    ws.link(Path::new("way/real"), ".git");
    let config = ws.read_bytes("x/real/config");
    for command in [
        "rm .git; cp -r x/real .git",
        "mv .git elsewhere",
        "ln -sfn /tmp .git",
        "rm way; cp -r x way",
        "mv way elsewhere",
        "mv x elsewhere",
        "mv x/real elsewhere",
        "echo evil >> .git/config",
        "echo evil >> x/real/config",
    ] {
        for backend in backends() {
            let answer = direct(&ws, backend, command);
            if backend == "bubblewrap" {
                assert!(answer.error("command_denied").to_string().contains("a link"));
                continue;
            }
            assert_ne!(answer.success()["data"]["exit_code"], 0, "{backend}: {command}");
            assert_eq!(ws.read_bytes("x/real/config"), config, "{backend}: {command}");
            for (link, target) in [(".git", "way/real"), ("way", "x")] {
                assert_eq!(std::fs::read_link(ws.path(link)).unwrap(), Path::new(target), "{command}");
            }
        }
    }
    if backends().contains(&"namespaces") {
        let answer = direct(&ws, "namespaces", "git status --short && echo two > a.txt").success();
        assert_eq!(answer["data"]["exit_code"], 0, "{answer:#}");
        ws.holds("a.txt", "two\n");
    }
}

#[test]
fn protected_symlink_and_its_target_are_read_only() {
    let ws = Workspace::with(&[("conf/mcp.json", "{}\n"), ("a.txt", "one\n")]);
    ws.link(Path::new("conf/mcp.json"), ".mcp.json");
    ws.write(".lbx/config.toml", "protect = ['.mcp.json']\n");
    for command in [
        "rm .mcp.json; echo evil > .mcp.json",
        "echo evil > .mcp.json",
        "echo evil > conf/mcp.json",
        "rm conf/mcp.json",
        "mv conf/mcp.json x",
        "mv conf x",
    ] {
        for backend in backends() {
            let answer = direct(&ws, backend, command);
            if backend == "bubblewrap" {
                answer.error("command_denied");
                continue;
            }
            assert_ne!(answer.success()["data"]["exit_code"], 0, "{backend}: {command}");
        }
        ws.holds("conf/mcp.json", "{}\n");
        assert_eq!(std::fs::read_link(ws.path(".mcp.json")).unwrap(), Path::new("conf/mcp.json"));
    }
}

#[test]
fn change_by_another_name_of_a_file_is_recorded() {
    for (before, command, wanted) in [
        ("true", "ln a/x b/l; echo more >> b/l; rm b/l", &["a/x"][..]),
        ("true", "mkdir n; ln a/x n/l; echo more >> n/l; rm -r n", &["a/x"]),
        ("true", "ln a/x b/l; mv b/l b/m; echo more >> b/m; mv b/m b/y", &["a/x", "b/y"]),
        ("ln -f a/x b/y", "echo more >> b/y", &["a/x", "b/y"]),
        ("true", "ln -s ../a/x b/l; echo more >> b/l; rm b/l", &["a/x"]),
    ] {
        let ws = Workspace::with(&[("a/x", "x\n"), ("b/y", "y\n"), ("c/d/z", "z\n")]);
        ws.lbx(&["bash", "--direct", before]).success();
        let answer = direct(&ws, "auto", command).success();
        assert_eq!(changed(&answer), wanted, "{command}: {answer:#}");
        ws.lbx(&["undo"]).success();
        ws.holds("a/x", "x\n");
    }
}

#[test]
fn changes_in_watched_folders_are_recorded() {
    let grow = "import mmap; f = open(\"c/d/z\", \"r+b\"); m = mmap.mmap(f.fileno(), 0); m[0:1] = b\"Z\"";
    let mapped = format!("python3 -c '{grow}'");
    for (command, wanted) in [
        ("sed -i s/x/X/ a/x", &["a/x"][..]),
        ("mv c e", &["c/d/z", "e/d/z"]),
        ("mv a t; mv b a; mv t b", &["a/x", "a/y", "b/x", "b/y"]),
        ("rm -r c; mkdir c c/d; echo new > c/d/new", &["c/d/new", "c/d/z"]),
        ("touch -d 2001-01-01 a/x; truncate -s 0 b/y", &["b/y"]),
        ("chmod 600 a/x; chmod 700 c/d", &["a/x"]),
        ("echo 1 > a/1; mv a/1 b/2; echo 3 >> b/2", &["b/2"]),
        ("ln -s x a/l; mkfifo a/f", &["a/f", "a/l"]),
        ("rm c/d/z; rmdir c/d", &["c/d/z"]),
        (mapped.as_str(), &["c/d/z"]),
    ] {
        let ws = Workspace::with(&[("a/x", "x\n"), ("b/y", "y\n"), ("c/d/z", "z\n")]);
        let before = ws.tree();
        let answer = direct(&ws, "auto", command).success();
        let paths = changed(&answer);
        assert!(wanted.iter().all(|path| paths.contains(path)), "{command}: {answer:#}");
        ws.lbx(&["undo"]).success();
        assert_eq!(ws.tree(), before, "{command}");
    }
}

#[test]
fn next_call_tells_of_a_killed_direct_command() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let call = ["bash", "--direct", "echo three >> a.txt; sleep 60", "--session", "killed"];
    let mut command = ws.call(&call).spawn();
    while !std::fs::read_to_string(ws.path("a.txt")).unwrap().contains("three") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // As long as it runs, nobody hears of it.
    ws.lbx(&["read", "a.txt"]).ok();
    command.kill().unwrap();
    command.wait().unwrap();
    let next = ws.lbx(&["write", "new.txt", "--content", "new\n"]).success();
    for told in [
        "lbx was killed while a direct command of session killed ran; undo does not take back what it changed",
        "leave out. `snapshot` records what is on disk now; then `diff` with `from` shows what has changed since",
    ] {
        assert!(warnings(&next).contains(told), "{next:#}");
    }
    // The advice, followed.
    let told = warnings(&next);
    let (_, tip) = told.split_once("in the snapshot ").unwrap();
    ws.lbx(&["snapshot"]).ok();
    let diff = ws.lbx(&["diff", "--from", tip.split(',').next().unwrap()]).ok();
    assert!(diff["diff"].as_str().unwrap().contains("+three"), "{diff:#}");
    ws.lbx(&["append", "new.txt", "--content", "more\n"]).ok();
}

#[test]
fn undo_gives_what_a_direct_command_removed_back_to_its_owner() {
    if !is_root() {
        return skipped("needs root");
    }
    let ws = Workspace::with(&[("tool", "one\n"), ("d/f", "two\n")]);
    let owner = |path: &str| {
        let stat = std::fs::metadata(ws.path(path)).unwrap();
        (stat.uid(), stat.gid(), stat.mode() & 0o7777)
    };
    for path in ["tool", "d", "d/f"] {
        std::os::unix::fs::chown(ws.path(path), Some(1000), Some(1001)).unwrap();
    }
    std::fs::set_permissions(ws.path("tool"), PermissionsExt::from_mode(0o4755)).unwrap();
    direct(&ws, "auto", "rm tool; rm -r d").success();
    ws.lbx(&["undo"]).ok();
    assert_eq!(owner("tool"), (1000, 1001, 0o4755));
    assert_eq!(owner("d"), (1000, 1001, 0o755));
    assert_eq!(owner("d/f"), (1000, 1001, 0o644));
}
