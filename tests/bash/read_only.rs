//! A workspace that lbx cannot write: commands that only read still run.

use std::process::Command;

use crate::common::{Call, Workspace, skipped};
use crate::support::{all_backends, backends};

/// Reads, and tries to write.
const COMMAND: &str = "cat a.txt; echo x > new.txt; echo y > a.txt; echo z > \"${TMPDIR:-/tmp}/t\" && cat \"${TMPDIR:-/tmp}/t\"";
/// Makes the current folder read-only in a mount namespace, and continues with the arguments.
const READ_ONLY: &str = "mount --bind . . && mount -o remount,bind,ro . && cd \"$PWD\" && exec \"$@\"";

/// Returns true if user namespaces with mounts are available.
fn can_mount() -> bool {
    let done = Command::new("unshare").args(["-rm", "mount", "--bind", "/tmp", "/tmp"]).output();
    let can = done.is_ok_and(|done| done.status.success());
    if !can {
        skipped("no user namespace with mounts here");
    }
    can
}

/// Prepares a call in a workspace that is mounted read-only.
fn call(ws: &Workspace) -> Call {
    let under = ["-rm", "sh", "-c", READ_ONLY, "sh"];
    Call::under("unshare", &under, &ws.root, &ws.outside.join("home"))
}

#[test]
fn reading_command_runs_on_a_read_only_file_system() {
    if !can_mount() {
        return;
    }
    let confining: Vec<&str> = all_backends().iter().copied().filter(|name| *name != "none").collect();
    for backend in confining {
        for has_state in [false, true] {
            let ws = Workspace::with(&[("a.txt", "one\n")]);
            if has_state {
                ws.lbx(&["read", "a.txt"]).ok();
            }
            let setting = format!("bash.backend={backend}");
            let run = |more: &[&str]| {
                let arguments = [&["bash", "--set", &setting], more].concat();
                call(&ws).arguments(&arguments).run()
            };
            let answer = run(&[COMMAND]).success();
            assert_eq!(answer["data"]["stdout"], "one\nz\n", "{backend}: {answer:#}");
            assert_eq!(answer["data"]["changed"].as_array().map(Vec::len), Some(0), "{backend}: {answer:#}");
            let warnings = answer["warnings"].to_string();
            assert!(warnings.contains("without write access to the workspace"), "{backend}: {answer:#}");
            ws.holds("a.txt", "one\n");
            assert!(!ws.path("new.txt").exists(), "{backend}");
            // A command that would have to be recorded is refused.
            run(&["--transaction", "true"]).error("permission_denied");
            run(&["--background", "true"]).error("permission_denied");
        }
    }
}

#[test]
fn commands_can_read_a_read_only_directory() {
    for backend in backends() {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        ws.chmod(".", 0o555);
        let setting = format!("bash.backend={backend}");
        let called = ws.call_unprivileged(&["bash", "--set", &setting, COMMAND]).map(Call::run);
        ws.chmod(".", 0o755);
        let Some(answer) = called else { return };
        let answer = answer.success();
        assert_eq!(answer["data"]["stdout"], "one\nz\n", "{backend}: {answer:#}");
        ws.holds("a.txt", "one\n");
    }
}

#[test]
fn unconfined_command_is_denied_in_a_read_only_workspace() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.chmod(".", 0o555);
    let arguments = ["bash", "--set", "bash.backend=none", "echo two > a.txt"];
    let called = ws.call_unprivileged(&arguments).map(Call::run);
    ws.chmod(".", 0o755);
    let Some(answer) = called else { return };
    let error = answer.error("command_denied");
    assert!(error["message"].as_str().unwrap().contains("cannot keep a command from writing"), "{error:#}");
    ws.holds("a.txt", "one\n");
}
