//! A call with one failing system call.

use serde_json::Value;

use crate::common::Workspace;
use crate::common::skip::can_trace;
use crate::inject::{Point, each, fail_at, points, sample};
use crate::judge::Sides;
use crate::scenarios::{self, Scenario};

/// Points tried for each errno in each scenario, unless all are.
const POINTS: usize = 3;
/// Errors, and the system calls that may return them.
const FAULTS: &[(&str, &[&str])] = &[
    (
        "EIO",
        &[
            "openat2",
            "openat",
            "write",
            "pwrite64",
            "renameat",
            "renameat2",
            "rename",
            "unlinkat",
            "mkdirat",
            "mkdir",
            "fsync",
            "fchmod",
            "flock",
            "read",
        ],
    ),
    (
        "ENOSPC",
        &["openat", "write", "pwrite64", "renameat", "renameat2", "rename", "mkdirat", "mkdir", "fsync"],
    ),
    (
        "EACCES",
        &["openat", "openat2", "renameat", "renameat2", "rename", "unlinkat", "mkdirat", "mkdir", "fchmod"],
    ),
    ("EMFILE", &["openat", "openat2", "dup", "fcntl"]),
    (
        "EINTR",
        &[
            "openat",
            "openat2",
            "write",
            "pwrite64",
            "read",
            "pread64",
            "fsync",
            "flock",
            "renameat",
            "renameat2",
            "unlinkat",
            "mkdirat",
            "fchmod",
        ],
    ),
];
#[test]
fn response_is_true_after_any_os_error() {
    if !can_trace() {
        return;
    }
    let mut judged: Vec<(Scenario, Sides)> = Vec::new();
    for scenario in scenarios::all() {
        let sides = Sides::of(&scenario.before, &scenario.arguments());
        judged.push((scenario, sides));
    }
    let mut tries: Vec<(&Scenario, &Sides, &str, Point)> = Vec::new();
    for (scenario, sides) in &judged {
        for (errno, calls) in FAULTS {
            let all = points(&scenario.before.copy(), calls, &scenario.arguments());
            let chosen = sample(all, POINTS);
            tries.extend(chosen.into_iter().map(|point| (scenario, sides, *errno, point)));
        }
    }
    eprintln!("{} faults in {} changes", tries.len(), judged.len());
    let wrong = each(&tries, |(scenario, sides, errno, point)| {
        check(scenario, sides, errno, point).map_err(|what| {
            format!("{} with {errno} from {} {}: {what}", scenario.name, point.call, point.number)
        })
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), tries.len(), wrong.join("\n"));
}

#[test]
fn undo_never_takes_an_unreadable_path_for_missing() {
    if !can_trace() {
        return;
    }
    let scenario = scenarios::all().into_iter().find(|scenario| scenario.name == "undo a patch");
    let Some(scenario) = scenario else { return };
    let sides = Sides::of(&scenario.before, &scenario.arguments());
    let first: Vec<Point> = points(&scenario.before.copy(), &["openat2"], &scenario.arguments());
    let first: Vec<Point> = first.into_iter().filter(|point| point.number <= 30).collect();
    let wrong = each(&first, |point| {
        check(&scenario, &sides, "EMFILE", point).map_err(|what| format!("openat2 {}: {what}", point.number))
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn trash_that_cannot_be_read_now_is_neither_empty_nor_damaged() {
    if !can_trace() {
        return;
    }
    let base = Workspace::with(&[(".gitignore", "*.ig\n")]);
    base.write("x.ig", "x\n");
    base.lbx(&["delete", "x.ig"]).success();
    let call = ["restore", "x.ig"];
    let wrong = each(&points(&base.copy(), &["openat"], &call), |point| {
        let output = fail_at(&base.copy(), point, "EMFILE", &call);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_wrong = ["not_found", "damaged", "is empty"].iter().any(|word| said.contains(word));
        if is_wrong { Err(format!("openat {}: {said}", point.number)) } else { Ok(()) }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rename_that_a_mount_refuses_is_done_another_way() {
    if !can_trace() {
        return;
    }
    for scenario in scenarios::all() {
        let sides = Sides::of(&scenario.before, &scenario.arguments());
        let all = points(&scenario.before.copy(), &["renameat2"], &scenario.arguments());
        let wrong = each(&all, |point| {
            let ws = scenario.before.copy();
            let output = fail_at(&ws, point, "EXDEV", &scenario.arguments());
            // The mix moves folders while it changes files in them: of such a change no copy is made.
            let is_left = scenario.name == "undo a mix" && ws.tree() == sides.before;
            let is_done = is_left || (output.status.success() && ws.tree() == sides.after);
            let said = || format!("{}: {}", point.number, String::from_utf8_lossy(&output.stdout));
            if is_done { Ok(()) } else { Err(said()) }
        });
        assert!(wrong.is_empty(), "{}: {}", scenario.name, wrong.join("\n"));
    }
}

/// Makes a call with a fault, and checks its answer and the files that it leaves.
fn check(scenario: &Scenario, sides: &Sides, errno: &str, point: &Point) -> Result<(), String> {
    let ws = scenario.before.copy();
    let output = fail_at(&ws, point, errno, &scenario.arguments());
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(127) || err.contains("error while loading shared libraries") {
        // The program was not even loaded.
        return if ws.tree() == sides.before { Ok(()) } else { Err("changed without a call".to_owned()) };
    }
    if err.contains("panicked") {
        return Err(format!("panicked: {err}"));
    }
    sides.must_be_whole(&ws)?;
    let now = ws.tree();
    if out.is_empty() && point.call == "write" {
        // Only writing the answer itself failed.
        if output.status.success() {
            return Err("no answer, and yet success".to_owned());
        }
    } else {
        let answer: Value =
            serde_json::from_str(&out).map_err(|error| format!("{error} in {out:?} ({err})"))?;
        let is_applied = answer["ok"] == true || answer["error"]["applied"] == true;
        if answer["error"]["kind"] == "internal" {
            return Err(format!("{answer}"));
        }
        if errno == "EINTR" && answer["ok"] != true {
            return Err(format!("EINTR is not retried: {answer}"));
        }
        if answer["ok"] == true && now != sides.after {
            return Err(format!("ok, and yet not done: {answer}"));
        }
        if !is_applied && now != sides.before {
            return Err(format!("refused, and yet changed: {answer}"));
        }
    }
    // Without the fault the next call works. Only the snapshot may be missing, if the answer said so.
    let tellings = ["no snapshot", "not in the snapshot", "private repository"];
    let is_told = tellings.iter().any(|telling| out.contains(telling));
    if errno == "EINTR" && is_told {
        return Err(format!("EINTR costs the snapshot: {out}"));
    }
    match sides.must_be_settled(&ws) {
        Err(what)
            if is_told && (what.contains("snapshots instead of") || what.contains("newest snapshot")) =>
        {
            Ok(())
        }
        outcome => outcome.map(|_| ()),
    }
}
