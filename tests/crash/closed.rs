//! Changes in folders that forbid them before or after, by a user whom file modes restrict.

use std::process::Output;

use crate::common::skip::can_trace;
use crate::common::{Answer, Call, Workspace, skipped};
use crate::inject::{Point, each, is_thorough, sample};
use crate::judge::{Tree, difference, must_be_tidy};

/// Points tried in each change, unless all are.
const POINTS: usize = 10;
/// System calls at which a call is killed or fails.
const CALLS: &[&str] =
    &["fchmodat", "fchmod", "mkdirat", "renameat", "renameat2", "unlinkat", "fsync", "exit_group"];
/// Options that make root such a user.
const WITHOUT_POWER: &[&str] = &["--bounding-set", "-dac_override,-dac_read_search", "--"];
/// Opens and closes folders, changes files in them, creates and removes some.
const OPENS_AND_CLOSES: &str = "chmod -R u+w ro; echo two >> ro/a.txt; rm ro/b.txt ro/deep/c.txt; \
    rmdir ro/deep; chmod 555 ro; mkdir -p made/deep; echo one > made/deep/f.txt; chmod 555 made/deep made; \
    echo two >> shut/d.txt; chmod 555 shut";

/// A change, and the workspace in which it is made.
struct Case {
    /// Name, for messages.
    name: &'static str,
    /// Workspace before the change.
    before: Workspace,
    /// Arguments of the change.
    call: Vec<&'static str>,
}

/// Prepares a call by the user, with its one thread under strace with those options.
fn traced(ws: &Workspace, strace: &[&str], call: &[&str]) -> Call {
    let tracing = [&["strace", "-qq"][..], strace].concat();
    let (program, arguments) = if rustix::process::geteuid().is_root() {
        ("setpriv", [WITHOUT_POWER, &tracing].concat())
    } else {
        ("strace", tracing.get(1..).unwrap_or_default().to_vec())
    };
    Call::under(program, &arguments, &ws.root, &ws.outside.join("home")).arguments(call)
}

/// Makes a call by the user, without a fault.
fn plain(ws: &Workspace, call: &[&str]) -> Answer {
    ws.call_unprivileged(call).unwrap().run()
}

/// Makes a call with a fault at one of its system calls.
fn run_with_fault(ws: &Workspace, point: &Point, fault: &str, call: &[&str]) -> Output {
    let trace = format!("trace={}", point.call);
    let inject = format!("inject={}:{fault}:when={}", point.call, point.number);
    let child = traced(ws, &["-o", "/dev/null", "-e", &trace, "-e", &inject], call).spawn();
    child.wait_with_output().unwrap()
}

/// Returns the system calls of a change at which a fault is injected.
fn points(case: &Case) -> Vec<Point> {
    let ws = case.before.copy();
    let log = ws.outside.join("strace.log");
    let trace = format!("trace={}", CALLS.join(","));
    traced(&ws, &["-o", log.to_str().unwrap(), "-e", &trace], &case.call).run().success();
    let text = std::fs::read_to_string(&log).unwrap();
    let mut points: Vec<Point> = Vec::new();
    for line in text.lines() {
        let Some((call, _)) = line.split_once('(') else { continue };
        let number = 1 + points.iter().filter(|point| point.call == call).count();
        points.push(Point { call: call.to_owned(), number: u32::try_from(number).unwrap() });
    }
    points
}

/// Returns a transaction that opens and closes folders, its undo and redo, and one that leaves a folder unreadable;
/// empty if transactions are not available.
fn cases() -> Vec<Case> {
    let ws = Workspace::with(&[("other.txt", "other\n"), ("shut/d.txt", "one\n")]);
    for file in ["ro/a.txt", "ro/b.txt", "ro/deep/c.txt"] {
        ws.write(file, "one\n");
    }
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-q", "-m", "second"]);
    ws.chmod("ro", 0o555);
    let Some(first) = ws.call_unprivileged(&["append", "other.txt", "--content", "first\n"]) else {
        return Vec::new();
    };
    first.run().success();
    let done = ws.copy();
    let transaction = vec!["bash", "--transaction", OPENS_AND_CLOSES];
    let response = plain(&done, &transaction).envelope();
    if response["ok"] != true {
        skipped(&response["error"]["message"]);
        return Vec::new();
    }
    let undone = done.copy();
    plain(&undone, &["undo"]).success();
    let removed = ws.copy();
    let removes = vec!["bash", "--transaction", "chmod -R u+w ro; rm -rf ro; echo two > other.txt; echo > z"];
    plain(&removed, &removes).success();
    let deletes = vec!["delete", "ro", "--recursive"];
    let deleted = ws.copy();
    plain(&deleted, &deletes).success();
    let hides = "echo two >> shut/d.txt; echo new > shut/e.txt; chmod 0 shut";
    vec![
        Case { name: "transaction", before: ws.copy(), call: transaction },
        Case { name: "undo", before: done, call: vec!["undo"] },
        Case { name: "redo", before: undone, call: vec!["redo"] },
        Case { name: "delete", before: ws.copy(), call: deletes },
        Case { name: "restore", before: deleted, call: vec!["restore", "ro"] },
        Case { name: "removal", before: ws.copy(), call: removes },
        Case { name: "undo of a removal", before: removed, call: vec!["undo"] },
        Case { name: "hiding transaction", before: ws, call: vec!["bash", "--transaction", hides] },
    ]
}

/// Returns the tree without the file to which the next call appends.
fn tree(ws: &Workspace) -> Tree {
    let mut tree = ws.tree();
    tree.remove(std::path::Path::new("other.txt"));
    tree
}

/// Checks that the next call finds all old or all new files, and all new ones if the call reported success.
fn judge(ws: &Workspace, before: &Tree, after: &Tree, output: &Output) -> Result<(), String> {
    let next = plain(ws, &["append", "other.txt", "--content", "next\n"]).envelope();
    // A killed command keeps its layer, which the next call names.
    let warnings: Vec<&str> =
        next["warnings"].as_array().into_iter().flatten().filter_map(|told| told.as_str()).collect();
    let layers = warnings.iter().filter_map(|told| told.split_once("are kept in ")?.1.split_once(". "));
    let layers: Vec<&str> = layers.map(|(name, _)| name).collect();
    if next["ok"] != true || layers.len() != warnings.len() {
        return Err(format!("the next call answers {next}"));
    }
    for layer in layers {
        plain(ws, &["bash", "--layer", layer, "--drop"]).success();
    }
    let now = tree(ws);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let was_told = answer["ok"] == true;
    let was_refused = answer["ok"] == false && answer["error"]["applied"] != true;
    if now != *after && (was_told || now != *before) {
        return Err(format!("not done: {}", difference(after, &now)));
    }
    if was_refused && now != *before {
        return Err(format!("done though refused: {}", difference(before, &now)));
    }
    must_be_tidy(ws)
}

#[test]
fn killed_change_in_read_only_folders_is_all_or_nothing() {
    if !can_trace() {
        return;
    }
    let (next, mut wrong) = (["read", "other.txt"], Vec::new());
    for case in cases() {
        let copy = case.before.copy();
        plain(&copy, &case.call).success();
        let (before, after) = (tree(&case.before), tree(&copy));
        let tries = sample(points(&case), POINTS);
        eprintln!("{} points in {}", tries.len(), case.name);
        wrong.extend(each(&tries, |point| {
            let ws = case.before.copy();
            let output = run_with_fault(&ws, point, "signal=SIGKILL", &case.call);
            // The recovery may be killed as well.
            for number in (1..=12).filter(|_| is_thorough()) {
                let ws = ws.copy();
                let twice = Point { call: "fchmodat".to_owned(), number };
                run_with_fault(&ws, &twice, "signal=SIGKILL", &next);
                judge(&ws, &before, &after, &output).map_err(|what| {
                    format!("{} killed at {point:?}, then at {twice:?}: {what}", case.name)
                })?;
            }
            judge(&ws, &before, &after, &output)
                .map_err(|what| format!("{} killed at {point:?}: {what}", case.name))
        }));
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn failed_change_in_read_only_folders_is_rolled_back() {
    if !can_trace() {
        return;
    }
    let mut wrong = Vec::new();
    for case in cases() {
        let copy = case.before.copy();
        plain(&copy, &case.call).success();
        let (before, after) = (tree(&case.before), tree(&copy));
        let tries = sample(points(&case), POINTS);
        wrong.extend(each(&tries, |point| {
            let ws = case.before.copy();
            let output = run_with_fault(&ws, point, "error=EIO", &case.call);
            let unset = b"the permissions of a folder could not be set";
            if output.stdout.windows(unset.len()).any(|text| text == unset) {
                return Ok(());
            }
            judge(&ws, &before, &after, &output)
                .map_err(|what| format!("{} hindered at {point:?}: {what}", case.name))
        }));
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn closed_folder_moves_to_the_trash_and_back_and_to_another_parent() {
    let ws = Workspace::with(&[("d/x", "x\n")]);
    for file in ["ro/a.txt", "ro/deep/c.txt"] {
        ws.write(file, "one\n");
    }
    ws.chmod("ro/deep", 0o500);
    ws.chmod("ro", 0o555);
    let before = ws.tree();
    let call = |words: &[&str]| Some(ws.call_unprivileged(words)?.run().ok());
    for change in [&["delete", "ro", "--recursive"][..], &["move", "ro", "d/ro"]] {
        if call(change).is_none() {
            return;
        }
        let after = ws.tree();
        assert!(!ws.path("ro").exists(), "{change:?}");
        call(&["undo"]);
        assert_eq!(ws.tree(), before, "{change:?}");
        call(&["redo"]);
        assert_eq!(ws.tree(), after, "{change:?}");
        if change[0] == "delete" {
            call(&["restore", "ro"])
        } else {
            call(&["move", "d/ro", "ro"])
        };
        assert_eq!(ws.tree(), before, "{change:?}");
    }
    for folder in ["ro", "ro/deep"] {
        ws.chmod(folder, 0o755);
    }
}

#[test]
fn refused_step_of_a_command_is_not_blamed_on_others() {
    if !can_trace() {
        return;
    }
    let Some(case) = cases().into_iter().next() else { return };
    let call = vec!["bash", "chmod u+w ro; rm ro/b.txt; echo two > shut/d.txt; chmod 500 shut"];
    let case = Case { call, ..case };
    let renames: Vec<Point> = points(&case).into_iter().filter(|it| it.call.starts_with("rename")).collect();
    let mut refusals = 0;
    for point in renames {
        let ws = case.before.copy();
        let output = run_with_fault(&ws, &point, "error=EACCES", &case.call);
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        refusals += usize::from(answer["data"]["conflicts"][0]["path"].is_string());
        let told = answer["warnings"].to_string();
        assert!(!told.contains("others changed folders while"), "{point:?}: {answer:#}");
    }
    assert!(refusals > 0);
}
