//! A call that is killed as it enters any system call that changes or opens something.

use crate::inject::{Point, can_inject, each, kill_at, points, sample};
use crate::judge::{Sides, difference};
use crate::scenarios::{self, Scenario};

/// Points tried in each scenario, unless all are.
const POINTS: usize = 18;
/// System calls after or before which the disk, a lock or the process's view of it is another.
const CALLS: &[&str] = &[
    "openat",
    "openat2",
    "write",
    "pwrite64",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "rmdir",
    "mkdir",
    "mkdirat",
    "fsync",
    "fdatasync",
    "syncfs",
    "fchmod",
    "chmod",
    "fchown",
    "flock",
    "ftruncate",
    "fsetxattr",
    "copy_file_range",
    "exit_group",
];
/// The calls that change names and bytes: at these a kill matters most, so all of them are tried.
const CHANGING: &[&str] =
    &["rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "rmdir", "mkdirat"];

#[test]
fn a_call_killed_at_any_system_call_leaves_all_old_or_all_new() {
    if !can_inject() {
        return;
    }
    let scenarios = scenarios::all();
    let judged: Vec<(Scenario, Sides)> = scenarios
        .into_iter()
        .map(|scenario| {
            let sides = Sides::of(&scenario.before, &scenario.arguments());
            (scenario, sides)
        })
        .collect();
    let mut tries: Vec<(&Scenario, &Sides, Point)> = Vec::new();
    for (scenario, sides) in &judged {
        let all = points(&scenario.before.copy(), CALLS, &scenario.arguments());
        let (changing, others): (Vec<Point>, Vec<Point>) =
            all.into_iter().partition(|point| CHANGING.contains(&point.call.as_str()));
        let chosen = sample(changing, POINTS).into_iter().chain(sample(others, POINTS));
        tries.extend(chosen.map(|point| (scenario, sides, point)));
    }
    eprintln!("{} points in {} changes", tries.len(), judged.len());
    let wrong = each(&tries, |(scenario, sides, point)| {
        check(scenario, sides, point)
            .map_err(|what| format!("{} killed at {} {}: {what}", scenario.name, point.call, point.number))
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), tries.len(), wrong.join("\n"));
}

/// Kills a call, and judges what it leaves.
fn check(scenario: &Scenario, sides: &Sides, point: &Point) -> Result<(), String> {
    let ws = scenario.before.copy();
    let output = kill_at(&ws, point, &scenario.arguments());
    let was_acknowledged = output.stdout.starts_with(b"{\"ok\":true");
    sides.must_be_whole(&ws)?;
    let is_done = sides.must_be_settled(&ws)?;
    if was_acknowledged && !is_done {
        return Err("an acknowledged change is gone".to_owned());
    }
    if is_done {
        // No backup is lost: what was done can be taken back.
        let envelope = ws.lbx(&[scenario.back]).envelope();
        if envelope["ok"] != true {
            return Err(format!("{} answers {envelope}", scenario.back));
        }
        let mut now = ws.tree();
        let mut before = sides.before.clone();
        for tree in [&mut now, &mut before] {
            tree.remove(std::path::Path::new("other.txt"));
        }
        if now != before {
            return Err(format!("after {}: {}", scenario.back, difference(&before, &now)));
        }
    }
    Ok(())
}
