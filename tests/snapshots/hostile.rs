//! A malicious repository runs nothing, leads nowhere and blocks nothing, whichever tool reads it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{LBX, Workspace, can_trace, state};

/// Content of a file outside, which must stay there.
const SECRET: &str = "root:TOP-SECRET:0:0";

/// Creates a repository in which every program that git might run leaves a mark at `sprung`.
fn trapped() -> Workspace {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.bin", "b\n"), ("d/c.txt", "c\n")]);
    let (trap, sprung) = (ws.outside.join("trap.sh"), ws.outside.join("sprung"));
    fs::write(&trap, format!("#!/bin/sh\ntouch '{}'\ncat\n", sprung.display())).unwrap();
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
    let trap = trap.to_str().unwrap();
    for key in [
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "core.editor",
        "core.askPass",
        "core.gitProxy",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "merge.evil.driver",
        "gpg.program",
        "credential.helper",
        "uploadpack.packObjectsHook",
        "sequence.editor",
        "gc.recentObjectsHook",
        "core.alternateRefsCommand",
        "trailer.evil.cmd",
        "alias.status",
    ] {
        ws.git(&["config", key, trap]);
    }
    ws.git(&["config", "commit.gpgSign", "true"]);
    fs::create_dir_all(ws.path(".git/hooks")).unwrap();
    for hook in [
        "pre-commit",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "pre-auto-gc",
        "post-checkout",
    ] {
        fs::copy(trap, ws.path(".git/hooks").join(hook)).unwrap();
    }
    fs::create_dir_all(ws.path(".git/info")).unwrap();
    fs::write(ws.path(".git/info/attributes"), "*.bin filter=evil diff=evil merge=evil\n").unwrap();
    ws
}

/// Returns variables that redirect git elsewhere in the same repository.
fn environment(ws: &Workspace) -> Vec<(&'static str, String)> {
    let elsewhere = ws.outside.join("elsewhere").display().to_string();
    let trap = ws.outside.join("trap.sh").display().to_string();
    let mut variables = vec![("GIT_WORK_TREE", "/".to_owned()), ("GIT_CONFIG_COUNT", "1".to_owned())];
    variables
        .extend([("GIT_CONFIG_KEY_0", "core.fsmonitor".to_owned()), ("GIT_CONFIG_VALUE_0", trap.clone())]);
    for name in ["GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE"] {
        variables.push((name, elsewhere.clone()));
    }
    for name in [
        "GIT_EXTERNAL_DIFF",
        "GIT_SSH_COMMAND",
        "GIT_EDITOR",
        "GIT_PAGER",
        "GIT_ASKPASS",
        "GIT_PROXY_COMMAND",
    ] {
        variables.push((name, trap.clone()));
    }
    variables
}

/// A call of every tool that runs no command itself.
const CALLS: [&[&str]; 30] = [
    &["read", "a.txt"],
    &["read", "b.bin"],
    &["edit", "a.txt", "--old-string", "one", "--new-string", "two"],
    &["write", "new.bin", "--content", "new\n"],
    &["write", "n/new.txt", "--content", "new\n"],
    &["append", "a.txt", "--content", "three\n"],
    &["prepend", "a.txt", "--content", "zero\n"],
    &["insert", "a.txt", "--line", "1", "--content", "and\n"],
    &["patch", "--patch", "--- /dev/null\n+++ b/p.txt\n@@ -0,0 +1 @@\n+p\n"],
    &["apply_patch", "*** Begin Patch\n*** Add File: q.txt\n+q\n*** End Patch\n"],
    &["grep", "one"],
    &["glob", "**/*"],
    &["ls", "-R"],
    &["move", "p.txt", "r.txt"],
    &["delete", "r.txt"],
    &["restore", "r.txt"],
    &["undo"],
    &["redo"],
    &["log"],
    &["log", "a.txt"],
    &["diff"],
    &["diff", "--from", "HEAD"],
    &["diff", "--from", "HEAD", "--stat"],
    &["snapshot", "all"],
    &["session", "status"],
    &["audit", "--verify"],
    &["trash"],
    &["gc"],
    &["schema"],
    &["doctor"],
];

/// Returns the programs that a call runs, by a trace.
fn traced(ws: &Workspace, call: &[&str]) -> Vec<String> {
    let trace = ws.outside.join("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=execve,execveat", "-o"]).arg(&trace).arg(LBX).args(call);
    ws.surround(&mut command);
    command.envs(environment(ws)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap();
    let calls = fs::read_to_string(trace).unwrap();
    calls.lines().filter(|line| line.contains("exec")).map(str::to_owned).collect()
}

#[test]
fn tools_never_start_programs() {
    if !can_trace() {
        return;
    }
    let ws = trapped();
    ws.write("b.bin", "other\n");
    for call in CALLS {
        let programs = traced(&ws, call);
        assert_eq!(programs.len(), 1, "{call:?} runs itself and nothing else: {programs:?}");
    }
    assert!(!ws.outside.join("sprung").exists() && !ws.outside.join("elsewhere").exists());
    let touched = ws.git(&["log", "--format=", "--name-only", "lbx-snapshots", "^HEAD"]);
    assert!(touched.contains("n/new.txt") && touched.contains("q.txt"), "{touched}");
    assert!(!touched.contains(".bin"), "what a filter would have to convert stays out: {touched}");
    ws.git(&["-c", "core.fsmonitor=false", "fsck", "--strict"]);
}

#[test]
fn programs_configured_in_a_repository_never_run() {
    let ws = trapped();
    ws.write("b.bin", "other\n");
    ws.write("new.bin", "new\n");
    let call = |arguments: &[&str]| {
        environment(&ws)
            .into_iter()
            .fold(ws.call(arguments), |call, (name, value)| call.env(name, value))
            .run()
    };
    call(&["append", "a.txt", "--content", "two\n"]).warned("not in the baseline");
    call(&["snapshot"]).success();
    call(&["log"]).ok();
    call(&["diff", "--from", "HEAD"]).ok();
    assert!(!ws.outside.join("sprung").exists() && !ws.outside.join("elsewhere").exists());
    assert_eq!(ws.git(&["cat-file", "-t", "lbx-snapshots"]).trim(), "commit");
}

/// Makes a FIFO.
fn fifo(path: &Path) {
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Makes calls that read the repository; none may hang, fail or show the secret.
fn calls_must_succeed(ws: &Workspace, of: &str) {
    let append = ws.lbx(&["append", "a.txt", "--content", "more\n"]).success();
    let mut answers = vec![append.to_string()];
    for call in [
        &["snapshot"][..],
        &["log"],
        &["diff"],
        &["diff", "--from", "HEAD"],
        &["undo"],
        &["ls"],
        &["grep", "one"],
    ] {
        let answer = ws.lbx(call);
        answers.push(answer.envelope().to_string());
    }
    let told = answers.iter().find(|answer| answer.contains("SECRET"));
    assert!(told.is_none(), "{of}: {told:?}");
}

/// Checks that no object holds the secret; git itself would wait for a FIFO.
fn must_contain_no_secret(ws: &Workspace, of: &str) {
    for folder in [".git", state("repo.git").as_str()] {
        let mut command =
            ws.git_command(&["--git-dir", folder, "cat-file", "--batch-all-objects", "--batch"]);
        let listed = command.output().unwrap();
        assert!(!String::from_utf8_lossy(&listed.stdout).contains("SECRET"), "{of}: {folder}");
    }
}

#[test]
fn fifo_in_place_of_a_git_file_does_not_block() {
    for file in [
        "HEAD",
        "config",
        "config.worktree",
        "packed-refs",
        "index",
        "shallow",
        "info/exclude",
        "info/attributes",
        "objects/info/alternates",
        "refs/heads/main",
        "refs/heads/lbx-snapshots",
    ] {
        let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
        ws.write("b.txt", "uncommitted\n");
        fs::create_dir_all(ws.path(".git/info")).unwrap();
        fs::create_dir_all(ws.path(".git/objects/info")).unwrap();
        fifo(&ws.path(".git").join(file));
        calls_must_succeed(&ws, file);
    }
}

#[test]
fn git_setting_that_names_a_fifo_does_not_block() {
    for setting in ["core.excludesFile", "core.attributesFile", "include.path", "includeIf.gitdir:**.path"] {
        for target in ["fifo", "nested"] {
            let ws = Workspace::with(&[("a.txt", "one\n")]);
            let path = ws.outside.join("fifo");
            fifo(&path);
            fs::write(ws.outside.join("nested"), format!("[include]\npath = {}\n", path.display())).unwrap();
            let key = setting.replace("gitdir:**", &format!("gitdir:{}/", ws.root.display()));
            let target = ws.outside.join(if setting.starts_with("include") { target } else { "fifo" });
            ws.git(&["config", &key, target.to_str().unwrap()]);
            ws.write("new.txt", "new\n");
            calls_must_succeed(&ws, setting);
        }
    }
}

#[test]
fn symlinks_in_place_of_git_files_leak_nothing() {
    for file in [
        "HEAD",
        "config",
        "packed-refs",
        "index",
        "shallow",
        "info/exclude",
        "objects/info/alternates",
        "refs/heads/main",
        "refs/heads/lbx-snapshots",
    ] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        let secret = ws.outside.join("passwd");
        fs::write(&secret, format!("{SECRET}\n")).unwrap();
        let path = ws.path(".git").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        symlink(&secret, &path).unwrap();
        calls_must_succeed(&ws, file);
        must_contain_no_secret(&ws, file);
    }
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    fs::write(ws.outside.join("passwd"), format!("{SECRET}\n")).unwrap();
    ws.git(&["config", "include.path", "../../passwd"]);
    calls_must_succeed(&ws, "include.path");
    must_contain_no_secret(&ws, "include.path");
    // Links of the work tree are stored as links, and files behind a linked folder are not stored.
    let ws = Workspace::with(&[("a.txt", "one\n"), ("d/c.txt", "c\n")]);
    fs::write(ws.outside.join("passwd"), format!("{SECRET}\n")).unwrap();
    fs::remove_dir_all(ws.path("d")).unwrap();
    symlink(&ws.outside, ws.path("d")).unwrap();
    symlink(ws.outside.join("passwd"), ws.path("c.txt")).unwrap();
    calls_must_succeed(&ws, "links");
    must_contain_no_secret(&ws, "links");
    assert_eq!(ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]), "a.txt\nc.txt\nd");
}

#[test]
fn ignore_rules_apply_with_the_private_repository() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    fs::write(ws.outside.join("rules"), "*.outer\n").unwrap();
    ws.git(&["config", "core.excludesFile", ws.outside.join("rules").to_str().unwrap()]);
    ws.git(&["config", "core.autocrlf", "input"]);
    fs::create_dir_all(ws.path(".git/info")).unwrap();
    fs::write(ws.path(".git/info/exclude"), "*.key\n").unwrap();
    ws.git(&["config", "core.repositoryFormatVersion", "1"]);
    ws.git(&["config", "extensions.tomorrow", "true"]);
    for (name, text) in [("x.key", "SECRET\r\n"), ("x.outer", "SECRET\r\n"), ("x.txt", "public\r\n")] {
        ws.write(name, text);
    }
    let answer = ws.lbx(&["snapshot"]).success();
    let warned = |it: &Value| it.as_str().is_some_and(|text| text.contains("tomorrow"));
    assert!(answer["warnings"].as_array().unwrap().iter().any(warned), "{answer}");
    let git = |arguments: &[&str]| {
        ws.git(&[&[format!("--git-dir={}", state("repo.git")).as_str()], arguments].concat())
    };
    assert_eq!(git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]), "a.txt\nx.txt");
    assert_eq!(git(&["cat-file", "-s", "lbx-snapshots:x.txt"]), "7");
}

#[test]
fn symbolic_snapshot_branch_is_not_followed() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.git(&["symbolic-ref", "refs/heads/lbx-snapshots", "refs/heads/main"]);
    let main = ws.git(&["rev-parse", "main"]);
    ws.lbx_stdin(&["write", "b.txt"], "b\n").warned("is a symbolic reference");
    ws.holds("b.txt", "b\n");
    let logged = ws.lbx(&["log"]).ok();
    assert_eq!(logged["snapshots"][0]["paths"][0], "b.txt", "{logged}");
    ws.write("c.txt", "c\n");
    ws.lbx(&["snapshot"]).warned("is a symbolic reference");
    assert_eq!(ws.git(&["rev-parse", "main"]), main);
}

#[test]
fn commit_with_an_impossible_number_is_no_change_to_go_back_to() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    for name in ["one", "two", "three"] {
        ws.lbx(&["write", name, "--content", name]).ok();
    }
    let message = "write: x\n\nLbx-Session: default\nLbx-Tool: write\nLbx-Seq: 18446744073709551615\n";
    let commit = ws.git(&["commit-tree", "lbx-snapshots^{tree}", "-p", "lbx-snapshots", "-m", message]);
    ws.git(&["update-ref", "refs/heads/lbx-snapshots", commit.trim()]);
    ws.lbx(&["write", "four", "--content", "four"]).success();
    let before = ws.tree();
    let answer = ws.lbx(&["rewind", commit.trim(), "--yes"]).envelope();
    assert_eq!(answer["ok"], false, "{answer:#}");
    assert_eq!(ws.tree(), before);
}
