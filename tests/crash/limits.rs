//! System limits that a change runs into: sizes, permissions, disk space.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{PATH_FIXED, Workspace, is_installed, is_root, skipped};
use crate::inject::{LBX, each, sample, total};
use crate::judge::Sides;
use crate::scenarios;

/// Makes an lbx call at the end of another command line, such as one of `prlimit`.
fn behind(ws: &Workspace, words: &[&str], call: &[&str]) -> std::process::Output {
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .arg(LBX)
        .args(call)
        .current_dir(&ws.root)
        .env_clear()
        .env("LBX_STATE_ID", crate::common::STATE_ID)
        .stdin(Stdio::null());
    command.env("PATH", PATH_FIXED).env("HOME", ws.outside.join("home")).env("GIT_CONFIG_NOSYSTEM", "1");
    command.output().unwrap()
}

/// Checks that the answer of a call under a limit is true, and that the files are whole.
fn check_under_limit(
    sides: &Sides,
    ws: &Workspace,
    words: &[&str],
    call: &[&str],
    may_die: bool,
) -> Result<(), String> {
    let output = behind(ws, words, call);
    sides.must_be_whole(ws)?;
    let out = String::from_utf8_lossy(&output.stdout);
    if !(may_die && output.status.code().is_none()) {
        let answer: Value = serde_json::from_str(&out).map_err(|error| format!("{error} in {out:?}"))?;
        let is_done = ws.tree() == sides.after;
        if answer["ok"] != is_done && answer["error"]["applied"] != is_done {
            return Err(answer.to_string());
        }
    }
    let is_told = out.contains("no snapshot") || out.contains("private repository");
    match sides.must_be_settled(ws) {
        Err(what) if is_told && what.contains("snapshot") => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}

#[test]
fn file_size_limit_leaves_no_torn_file() {
    if !is_installed("prlimit") {
        return;
    }
    let ws = Workspace::with(&[("a.txt", &"old line\n".repeat(8000)), ("other.txt", "other\n")]);
    let _ = ws.lbx(&["read", "a.txt", "--max-bytes", "0", "--limit", "0"]).success();
    let text = "new line\n".repeat(8000);
    let call = ["write", "a.txt", "--content", &text];
    let sides = Sides::of(&ws, &call);
    let sizes = (0..40).map(|step| step * 2000).chain([50, 100, 200, 400, 800]).collect();
    let tries: Vec<(usize, bool)> =
        sample(sizes, 12).into_iter().flat_map(|size| [(size, true), (size, false)]).collect();
    let wrong = each(&tries, |(size, is_deadly)| {
        let limit = format!("--fsize={size}");
        // The signal of the limit ends a program, unless its caller ignores it.
        let trap = if *is_deadly { "exec \"$@\"" } else { "trap '' XFSZ; exec \"$@\"" };
        let words = ["prlimit", &limit, "sh", "-c", trap, "sh"];
        check_under_limit(&sides, &ws.copy(), &words, &call, *is_deadly)
            .map_err(|what| format!("{size} bytes, deadly {is_deadly}: {what}"))
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn file_descriptor_limit_leaves_no_torn_file() {
    if !is_installed("prlimit") {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "old\n"), ("other.txt", "other\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let call = ["write", "a.txt", "--content", "new\n"];
    let sides = Sides::of(&ws, &call);
    let limits: Vec<u32> = (3..24).collect();
    let wrong = each(&limits, |limit| {
        let option = format!("--nofile={limit}");
        // The dynamic loader, if any, needs a descriptor of its own.
        check_under_limit(&sides, &ws.copy(), &["prlimit", &option], &call, false)
            .or_else(|what| if *limit == 3 && what.contains("EOF") { Ok(()) } else { Err(what) })
            .map_err(|what| format!("{limit} descriptors: {what}"))
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unwritable_folder_is_permission_denied() {
    if !is_root() || !is_installed("setpriv") {
        return;
    }
    let ws = Workspace::with(&[("d/a.txt", "old\n"), ("other.txt", "o\n")]);
    let everything = Command::new("chmod").args(["-R", "a+rwX"]).arg(&ws.outside).status().unwrap();
    assert!(everything.success());
    ws.chmod("d", 0o555);
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let git_allows = |call: &[&str]| behind(&ws, &nobody, call);
    if !git_allows(&["read", "d/a.txt"]).status.success() {
        skipped("another user may not run the binary here");
        return;
    }
    let before = ws.tree();
    for call in [
        &["write", "d/new.txt", "--content", "x"][..],
        &["delete", "d/a.txt"],
        &["move", "d/a.txt", "b.txt"],
        &["move", "other.txt", "d/other.txt"],
    ] {
        let output = git_allows(call);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["error"]["kind"], "permission_denied", "{call:?}: {answer}");
        assert_eq!(ws.tree(), before, "{call:?}");
    }
    // An existing file is written in place.
    for call in
        [&["write", "d/a.txt", "--content", "x\n"][..], &["append", "d/a.txt", "--content", "y\n"], &["undo"]]
    {
        let answer: Value = serde_json::from_slice(&git_allows(call).stdout).unwrap();
        assert_eq!(
            (&answer["ok"], &answer["warnings"]),
            (&Value::Bool(true), &Value::Null),
            "{call:?}: {answer}"
        );
    }
    // A workspace that cannot be written can still be read.
    ws.chmod("", 0o555);
    let _ = Command::new("chmod").args(["-R", "a-w"]).arg(ws.path(".lbx")).status();
    let output = git_allows(&["read", "other.txt"]);
    ws.chmod("", 0o755);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["data"]["content"], "o\n", "{answer}");
}

/// A small file system in memory, unmounted when the test ends.
struct Small(PathBuf);

impl Small {
    /// Mounts one at `folder`; returns `None`, with a message, if mounting is not allowed.
    fn at(folder: PathBuf, options: &str) -> Option<Self> {
        std::fs::create_dir(&folder).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(&folder).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        skipped("no file system may be mounted here");
        None
    }

    /// Changes its limits.
    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn full_disk_is_no_space_and_changes_nothing() {
    let outer = Workspace::bare(&[]);
    let Some(small) = Small::at(outer.root.join("small"), "size=4m") else { return };
    let call = |arguments: &[&str]| {
        let output = outer.call(arguments).in_folder(&small.0).run();
        output.envelope()
    };
    let git = outer.git_command(&["init", "-q", "small"]).output().unwrap();
    assert!(git.status.success());
    std::fs::write(small.0.join("a.txt"), "old\n".repeat(10_000)).unwrap();
    assert_eq!(call(&["read", "a.txt", "--max-bytes", "0", "--limit", "0"])["ok"], true);
    let text = "new\n".repeat(25_000);
    let mut refused = 0;
    for spare_kib in [0, 40, 80, 120, 160, 200, 300] {
        small.remount("size=4m");
        let used = Command::new("du").args(["-s", "--block-size=1024"]).arg(&small.0).output().unwrap();
        let used: u64 =
            String::from_utf8_lossy(&used.stdout).split_whitespace().next().unwrap().parse().unwrap();
        let before = std::fs::read(small.0.join("a.txt")).unwrap();
        small.remount(&format!("size={}k", used + spare_kib));
        let new = format!("{spare_kib}\n{text}");
        let answer = call(&["write", "a.txt", "--content", &new]);
        let now = std::fs::read(small.0.join("a.txt")).unwrap();
        if answer["ok"] == true {
            assert_eq!(now, new.as_bytes(), "{spare_kib}: {answer}");
        } else {
            refused += 1;
            let kind = answer["error"]["kind"].as_str().unwrap();
            assert!(kind == "no_space", "{spare_kib}: {answer}");
            assert!(now == before, "{spare_kib}: changed, and yet {answer}");
        }
    }
    assert!(refused > 0, "the disk was never full");
    small.remount("size=64m");
    let answer = call(&["append", "b.txt", "--content", "works\n"]);
    assert_eq!(answer["ok"], true, "{answer}");
    assert!(
        outer.git_command(&["-C", "small", "fsck", "--strict", "--no-dangling"]).status().unwrap().success()
    );
}

#[test]
fn squash_on_a_full_disk_is_no_space_and_moves_no_branch() {
    let outer = Workspace::bare(&[]);
    let Some(small) = Small::at(outer.root.join("small"), "size=4m") else { return };
    let call = |arguments: &[&str]| outer.call(arguments).in_folder(&small.0).run().envelope();
    let git = |arguments: &[&str]| outer.git(&[&["-C", "small"], arguments].concat());
    git(&["init", "-q", "-b", "main"]);
    git(&["config", "user.name", "Dev"]);
    git(&["config", "user.email", "dev@example.com"]);
    git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    let text: String = (0..3000).map(|line| format!("{line}\n")).collect();
    assert_eq!(call(&["write", "a.txt", "--content", &text])["ok"], true);
    let mut kinds = std::collections::BTreeSet::new();
    for spare_kib in (0..40).step_by(4) {
        let used = Command::new("du").args(["-s", "--block-size=1024"]).arg(&small.0).output().unwrap();
        let used: u64 =
            String::from_utf8_lossy(&used.stdout).split_whitespace().next().unwrap().parse().unwrap();
        small.remount(&format!("size={}k", used + spare_kib));
        let name = format!("to-{spare_kib}");
        let answer = call(&["squash", "--onto", &name, "--message", "all"]);
        small.remount("size=4m");
        let is_made = !git(&["branch", "--list", &name]).is_empty();
        assert_eq!(is_made, answer["ok"] == true, "{spare_kib}: {answer}");
        kinds.insert(answer["error"]["kind"].as_str().unwrap_or("ok").to_owned());
    }
    assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>(), ["no_space", "ok"]);
    git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn disk_without_inodes_is_no_space_and_changes_nothing() {
    let outer = Workspace::bare(&[]);
    let Some(small) = Small::at(outer.root.join("small"), "size=16m,nr_inodes=4096") else { return };
    let call = |arguments: &[&str]| outer.call(arguments).in_folder(&small.0).run().envelope();
    assert!(outer.git_command(&["init", "-q", "small"]).output().unwrap().status.success());
    std::fs::write(small.0.join("a.txt"), "old\n").unwrap();
    assert_eq!(call(&["append", "a.txt", "--content", "one\n"])["ok"], true);
    let mut refused = 0;
    for spare in 0..24 {
        small.remount("nr_inodes=4096");
        let used = Command::new("df").args(["--output=iused"]).arg(&small.0).output().unwrap();
        let used: u64 = String::from_utf8_lossy(&used.stdout).lines().last().unwrap().trim().parse().unwrap();
        let before = std::fs::read(small.0.join("a.txt")).unwrap();
        small.remount(&format!("nr_inodes={}", used + spare));
        let line = format!("{spare}\n");
        let answer = call(&["append", "a.txt", "--content", &line]);
        let now = std::fs::read(small.0.join("a.txt")).unwrap();
        let after = [before.as_slice(), line.as_bytes()].concat();
        if answer["ok"] == true {
            assert!(now == after, "{spare}: {answer}");
        } else {
            refused += 1;
            assert_eq!(answer["error"]["kind"], "no_space", "{spare}: {answer}");
            assert!(now == before, "{spare}: changed, and yet {answer}");
        }
    }
    assert!(refused > 0, "there were always inodes");
    small.remount("nr_inodes=4096");
    let answer = call(&["append", "b.txt", "--content", "works\n"]);
    assert_eq!(answer["ok"], true, "{answer}");
    assert!(
        outer.git_command(&["-C", "small", "fsck", "--strict", "--no-dangling"]).status().unwrap().success()
    );
}

#[test]
fn every_change_makes_2_to_40_syncs() {
    if !crate::common::skip::can_trace() {
        return;
    }
    for scenario in scenarios::all() {
        let ws = scenario.before.copy();
        let syncs = total(&ws, &["fsync", "fdatasync", "syncfs", "sync"], &scenario.arguments());
        eprintln!("{}: {syncs} syncs", scenario.name);
        assert!(syncs >= 2, "{}: what is not synced is not durable", scenario.name);
        assert!(syncs <= 40, "{}: {syncs} syncs", scenario.name);
    }
}

#[test]
fn small_change_makes_few_system_calls() {
    /// Largest number of system calls of a change; a build with debug assertions calls `fcntl` for each file that it
    /// closes.
    const CALLS_MAX: usize = 370;
    /// Largest number of syncs of a change in memory, where other programs do not count.
    const SYNCS_MAX: usize = 5;
    if cfg!(feature = "portable") {
        return skipped("the portable platform opens each folder of a path");
    }
    let memory = Path::new("/dev/shm");
    if !crate::common::skip::can_trace() {
        return;
    }
    if !memory.is_dir() {
        skipped("no /dev/shm");
        return;
    }
    let ws = Workspace::within(memory, &[("d/a.txt", "a\n"), ("b.txt", "b\n")]);
    // The first change of a session reads all files, and the first deletion creates the trash.
    ws.lbx(&["delete", "b.txt"]).ok();
    ws.lbx(&["undo"]).ok();
    ws.lbx(&["read", "d/a.txt"]).ok();
    // As in a repository in use. Otherwise the number of these calls depends on the time, which is part of a commit id.
    for number in 0..=u8::MAX {
        std::fs::create_dir_all(ws.path(&format!(".git/objects/{number:02x}"))).unwrap();
    }
    let changes: [&[&str]; 6] = [
        &["edit", "d/a.txt", "--old-string", "a", "--new-string", "b"],
        &["append", "d/a.txt", "--content", "c\n"],
        &["write", "d/a.txt", "--content", "d\n"],
        &["undo"],
        &["delete", "d/a.txt"],
        &["undo"],
    ];
    for change in changes {
        let copy = ws.copy_within(memory);
        let calls = total(&copy, &["!fcntl"], change);
        let syncs = total(&ws, &["fsync", "fdatasync", "syncfs", "sync"], change);
        eprintln!("{change:?}: {calls} system calls, {syncs} syncs");
        assert!(calls <= CALLS_MAX, "{change:?}: {calls} system calls");
        assert!(syncs <= SYNCS_MAX, "{change:?}: {syncs} syncs");
    }
}

#[test]
fn durable_false_makes_no_syncs() {
    if !crate::common::skip::can_trace() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.lbx(&["append", "a.txt", "--content", "b\n"]).ok();
    let change = ["append", "a.txt", "--content", "c\n"];
    let fast = [&change[..], &["--set", "durable=false"]].concat();
    let syncs = ["fsync", "fdatasync", "syncfs", "sync"];
    assert_eq!(total(&ws, &syncs, &fast), 0);
    assert!(total(&ws, &syncs, &change) > 0);
    ws.holds("a.txt", "a\nb\nc\nc\n");
    ws.lbx(&["undo", "--steps", "2"]).ok();
    ws.holds("a.txt", "a\nb\n");
    // The policy of a clone does not decide that.
    ws.write(".lbx/config.toml", "durable = false\n");
    let error = ws.lbx(&["append", "a.txt", "--content", "d\n"]).error("invalid_request");
    assert!(error["message"].as_str().unwrap().contains("durable"), "{error:#}");
}

#[test]
fn undo_reads_no_more_in_a_long_history() {
    if !crate::common::skip::can_trace() {
        return;
    }
    let after = |changes: usize| {
        let ws = Workspace::with(&[("a.txt", "a\n")]);
        for number in 0..changes {
            ws.lbx(&["append", "a.txt", "--content", &format!("{number}\n")]).ok();
        }
        total(&ws, &["read"], &["undo"])
    };
    let (short, long) = (after(3), after(30));
    assert!(long <= short + 5, "{long} reads after 30 changes, {short} after 3");
}

#[test]
fn small_change_syncs_in_two_waves() {
    /// Changes whose snapshot need not wait for the change.
    const SMALL: [&str; 7] = [
        "write a new file",
        "write over a file",
        "edit",
        "append",
        "delete a file",
        "undo a patch",
        "undo a deletion",
    ];
    if !crate::common::skip::can_trace() {
        return;
    }
    let kind = Command::new("stat").args(["-f", "-c", "%T"]).arg(std::env::temp_dir()).output().unwrap();
    // ext4 does with a log alone, of which `stat` tells nothing.
    let keeps_order = ["xfs", "tmpfs"].contains(&String::from_utf8_lossy(&kind.stdout).trim());
    let scenarios = scenarios::all();
    for scenario in scenarios.iter().filter(|scenario| SMALL.contains(&scenario.name)) {
        let ws = scenario.before.copy();
        let names = ["fsync", "fdatasync", "syncfs", "sync", "rename", "renameat", "renameat2", "clone3"];
        let calls = crate::inject::calls(&ws, &names, &scenario.arguments());
        let is_sync = |call: &&String| call.contains("sync");
        // A rename in between splits the syncs into waves.
        let waves = calls.chunk_by(|one, other| is_sync(&one) == is_sync(&other));
        let waves = waves.filter(|wave| wave.first().is_some_and(|call| is_sync(&call))).count();
        let syncs = calls.iter().filter(is_sync).count();
        eprintln!("{}: {syncs} syncs in {waves} waves", scenario.name);
        // Where names keep no order, those of the snapshot's objects come first.
        assert!(waves == 2 || (waves == 3 && !keeps_order), "{}: {calls:?}", scenario.name);
        assert!(!calls.contains(&"clone3".to_owned()), "{}: {calls:?}", scenario.name);
    }
}
