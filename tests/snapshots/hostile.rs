//! A repository that means harm runs nothing, whichever tool looks at it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::common::Workspace;

#[test]
fn no_program_of_the_repository_runs() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.bin", "b\n")]);
    let (trap, sprung) = (ws.outside.join("trap.sh"), ws.outside.join("sprung"));
    fs::write(&trap, format!("#!/bin/sh\ntouch '{}'\ncat\n", sprung.display())).unwrap();
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
    let trap = trap.to_str().unwrap();
    for key in [
        "filter.evil.clean",
        "filter.evil.process",
        "core.fsmonitor",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "core.pager",
    ] {
        ws.git(&["config", key, trap]);
    }
    fs::create_dir_all(ws.path(".git/hooks")).unwrap();
    for hook in ["reference-transaction", "post-commit", "post-index-change"] {
        fs::copy(trap, ws.path(".git/hooks").join(hook)).unwrap();
    }
    fs::create_dir_all(ws.path(".git/info")).unwrap();
    fs::write(ws.path(".git/info/attributes"), "*.bin filter=evil diff=evil\n").unwrap();
    ws.write("b.bin", "other\n");
    ws.write("new.bin", "new\n");
    let elsewhere = ws.outside.join("elsewhere");
    let call = |arguments: &[&str]| {
        let call = ws.call(arguments).env("GIT_DIR", &elsewhere).env("GIT_EXTERNAL_DIFF", trap);
        call.env("GIT_WORK_TREE", "/").env("GIT_INDEX_FILE", &elsewhere).run()
    };
    call(&["append", "a.txt", "--content", "two\n"]).warned("not in the baseline");
    call(&["snapshot"]).success();
    call(&["log"]).ok();
    call(&["diff", "--from", "HEAD"]).ok();
    assert!(!sprung.exists() && !elsewhere.exists());
    assert_eq!(ws.git(&["cat-file", "-t", "lbx-snapshots"]).trim(), "commit");
}

#[test]
fn a_branch_that_points_elsewhere_is_refused_and_nothing_moves() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.git(&["symbolic-ref", "refs/heads/lbx-snapshots", "refs/heads/main"]);
    let main = ws.git(&["rev-parse", "main"]);
    ws.lbx_stdin(&["write", "b.txt"], "b\n").warned("is a symbolic reference");
    ws.holds("b.txt", "b\n");
    ws.lbx(&["log"]).error("io_error");
    ws.lbx(&["diff"]).error("io_error");
    ws.lbx(&["snapshot"]).error("snapshot_failed");
    assert_eq!(ws.git(&["rev-parse", "main"]), main);
}
