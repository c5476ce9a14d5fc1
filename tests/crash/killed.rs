//! A call that is killed as it enters any system call that changes or opens something.

use serde_json::json;

use crate::common::skip::can_trace;
use crate::common::{Workspace, state};
use crate::inject::{Point, each, kill_at, points, sample};
use crate::judge::{Sides, difference, files_below, must_be_tidy};
use crate::scenarios::{self, Scenario};

/// Points tried in each scenario, unless all are.
const POINTS: usize = 14;
/// System calls that change the disk, a lock, or the process's view of it.
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
    "fchmodat",
    "fchown",
    "flock",
    "ftruncate",
    "fsetxattr",
    "copy_file_range",
    "exit_group",
];
/// System calls that change names and bytes: a kill matters most at these, so all of them are tried.
pub const CHANGING: &[&str] =
    &["rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "rmdir", "mkdirat"];

/// Changes whose recovery is killed too.
const TWICE: &[&str] = &["patch", "undo a patch", "delete a folder", "write over a file", "undo a mix"];

#[test]
fn killed_call_leaves_all_old_or_all_new() {
    if !can_trace() {
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

#[test]
fn killed_change_of_many_files_is_all_or_nothing() {
    if !can_trace() {
        return;
    }
    let scenario = scenarios::many_files_scenario();
    let sides = Sides::of(&scenario.before, &scenario.arguments());
    let all = points(&scenario.before.copy(), CALLS, &scenario.arguments());
    let last = |call: &str| all.iter().filter(|point| point.call == call).map(|point| point.number).max();
    // All files are handled alike: only the calls before and after the first ones differ.
    let is_telling = |point: &&Point| {
        let from_end = last(&point.call).unwrap_or(0) - point.number;
        point.number <= 2
            || point.number.is_multiple_of(37)
            || (CHANGING.contains(&point.call.as_str()) && from_end < 9)
    };
    let tries: Vec<&Point> = all.iter().filter(is_telling).collect();
    eprintln!("{} of {} points", tries.len(), all.len());
    let wrong = each(&tries, |point| {
        check(&scenario, &sides, point)
            .map_err(|what| format!("{} killed at {} {}: {what}", scenario.name, point.call, point.number))
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), tries.len(), wrong.join("\n"));
}

#[test]
fn killed_recovery_is_completed_by_the_next_call() {
    if !can_trace() {
        return;
    }
    // It recovers, and is then refused.
    let next = ["append", "other.txt", "--content", "x", "--expected-sha256", &"0".repeat(64)];
    let mut judged = Vec::new();
    for scenario in scenarios::all().into_iter().filter(|scenario| TWICE.contains(&scenario.name)) {
        let sides = Sides::of(&scenario.before, &scenario.arguments());
        let half_way = half_way(&scenario);
        judged.push((scenario, sides, half_way));
    }
    let mut tries = Vec::new();
    for (scenario, sides, half_way) in &judged {
        let all = points(&half_way.copy(), CALLS, &next);
        tries.extend(sample(all, POINTS).into_iter().map(|point| (scenario, sides, half_way, point)));
    }
    eprintln!("{} points in {} recoveries", tries.len(), judged.len());
    let wrong = each(&tries, |(scenario, sides, half_way, point)| {
        let ws = half_way.copy();
        kill_at(&ws, point, &next);
        let judge = || {
            sides.must_be_whole(&ws)?;
            sides.must_be_settled(&ws)
        };
        judge().map(|_| ()).map_err(|what| {
            format!("recovery of {} killed at {} {}: {what}", scenario.name, point.call, point.number)
        })
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), tries.len(), wrong.join("\n"));
}

/// Returns a workspace in which a change was killed half-way.
fn half_way(scenario: &Scenario) -> Workspace {
    let all = points(&scenario.before.copy(), CHANGING, &scenario.arguments());
    let mut open = Vec::new();
    for point in all {
        let ws = scenario.before.copy();
        kill_at(&ws, &point, &scenario.arguments());
        if has_open_entry(&ws) {
            open.push(ws);
        }
    }
    assert!(!open.is_empty(), "{}: no kill leaves an open entry", scenario.name);
    open.swap_remove(open.len() / 3)
}

/// Returns true if the journal has a change that is not finished.
fn has_open_entry(ws: &Workspace) -> bool {
    let entries = std::fs::read_dir(ws.path(&state("journal/open")));
    entries.is_ok_and(|entries| {
        entries.flatten().any(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
    })
}

/// As after a rollback that a disk error interrupted: the description is no longer in the trash, and the folder can
/// still be moved there.
#[test]
fn killed_deletion_without_its_description_is_rolled_back() {
    if !can_trace() {
        return;
    }
    let unchanged = Workspace::with(&[("d/a.txt", "a\n"), ("d/e/b.txt", "b\n"), ("other.txt", "other\n")]);
    let before = unchanged.tree();
    // The change renames the description first. The portable platform uses the same call for the files of the state.
    let call = if cfg!(feature = "portable") { "renameat" } else { "renameat2" };
    let killed = (1..40).find_map(|number| {
        let ws = unchanged.copy();
        kill_at(&ws, &Point { call: call.to_owned(), number }, &["delete", "d", "--recursive"]);
        has_open_entry(&ws).then_some(ws)
    });
    let ws = killed.unwrap();
    let waiting = files_below(&ws.path(&state("staging")));
    let [description] = waiting.as_slice() else { panic!("one file waits, and not {waiting:?}") };
    std::fs::remove_file(description).unwrap();
    let data = ws.lbx(&["append", "other.txt", "--content", "more\n"]).ok();
    assert_eq!(data["size"], 11);
    let mut now = ws.tree();
    for (path, entry) in before {
        let is_as_it_was = now.remove(&path).is_some_and(|now| now == entry);
        assert!(is_as_it_was || path.ends_with("other.txt"), "{}", path.display());
    }
    assert!(now.is_empty(), "{now:?}");
    must_be_tidy(&ws).unwrap();
}

/// Kills a call, and checks what it leaves.
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
        // No backup is lost: the change can be undone.
        let envelope = ws.lbx(scenario.back).envelope();
        if envelope["ok"] != true {
            return Err(format!("{:?} answers {envelope}", scenario.back));
        }
        let mut now = ws.tree();
        let mut before = sides.before.clone();
        for tree in [&mut now, &mut before] {
            tree.remove(std::path::Path::new("other.txt"));
        }
        if now != before {
            return Err(format!("after {:?}: {}", scenario.back, difference(&before, &now)));
        }
    }
    Ok(())
}

#[test]
fn killed_hook_leaves_the_change_to_the_next_event() {
    if !can_trace() {
        return;
    }
    for (tool, input) in [
        ("Bash", json!({ "command": "echo two > a.txt" })),
        // Nobody knows what it makes of the file.
        ("NotebookEdit", json!({ "file_path": "a.txt" })),
    ] {
        let event = |name: &str| {
            json!({ "hook_event_name": name, "session_id": "c", "tool_name": tool, "tool_use_id": "1",
                "tool_input": input })
            .to_string()
        };
        let call =
            |event: &str| ["hook", "claude-code", "--session", "s", "--event", event].map(str::to_owned);
        let before = Workspace::with(&[("a.txt", "one\n")]);
        before.lbx(&["read", "a.txt", "--session", "s"]).ok();
        let begin = call(&event("PreToolUse"));
        assert_eq!(before.lbx(&begin.each_ref().map(String::as_str)).status(), 0);
        before.write("a.txt", "two\n");
        let end = call(&event("PostToolUse"));
        let end = end.each_ref().map(String::as_str);
        // Until it has read the note, the hook has not begun.
        let is_marked = |ws: &Workspace| {
            let folder = ws.path(&state("client-calls"));
            let notes = std::fs::read_dir(folder).unwrap().map(|note| note.unwrap().path());
            notes
                .filter(|note| note.extension().is_some_and(|it| it == "json"))
                .all(|note| std::fs::read_to_string(note).unwrap().contains("\"has_ended\":true"))
        };
        let all = points(&before.copy(), CHANGING, &end);
        let wrong = each(&all, |point| {
            let ws = before.copy();
            kill_at(&ws, point, &end);
            if !is_marked(&ws) {
                return Ok(());
            }
            let prompt = json!({ "hook_event_name": "UserPromptSubmit", "session_id": "c" }).to_string();
            let prompt = call(&prompt);
            assert_eq!(ws.lbx(&prompt.each_ref().map(String::as_str)).status(), 0);
            ws.lbx(&["undo", "--session", "s"]).success();
            let text = std::fs::read_to_string(ws.path("a.txt")).unwrap();
            if text == "one\n" { Ok(()) } else { Err(format!("{tool} {point:?}: {text}")) }
        });
        assert!(all.len() > 5 && wrong.is_empty(), "{wrong:#?}");
    }
}
