//! Many concurrent processes, some of which are killed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Workspace, kill};
use crate::inject::is_thorough;
use crate::judge::{must_be_tidy, must_equal_tip};

/// Number of concurrent processes, and of edits by each.
const EDITS: (usize, usize) = (64, 200);
/// Processes and edits in a quick run.
const EDITS_QUICK: (usize, usize) = (16, 5);

#[test]
fn concurrent_edits_of_distinct_lines_all_apply_once() {
    let (processes, edits) = if is_thorough() { EDITS } else { EDITS_QUICK };
    let begun = Instant::now();
    let slowest = std::sync::Mutex::new(Duration::ZERO);
    let name = |process: usize, edit: usize| format!("line {process}.{edit}.");
    // Lines of two processes are separated by another line: a change of the adjacent line would conflict.
    let text = |done: &str| -> String {
        let block =
            |process| (0..edits).map(|edit| format!("{}{done}\n", name(process, edit))).collect::<String>();
        (0..processes).map(|process| block(process) + "--\n").collect()
    };
    let ws = Workspace::with(&[("many.txt", &text(""))]);
    std::thread::scope(|scope| {
        for process in 0..processes {
            let (ws, slowest) = (&ws, &slowest);
            scope.spawn(move || {
                let session = format!("s{process}");
                let _ = ws.lbx(&["read", "many.txt", "--session", &session]).success();
                for edit in 0..edits {
                    let old = name(process, edit);
                    let new = format!("{old} done");
                    let call = [
                        "edit",
                        "many.txt",
                        "--old-string",
                        &old,
                        "--new-string",
                        &new,
                        "--session",
                        &session,
                        "--rebase",
                    ];
                    let called = Instant::now();
                    // Every process gets its turn: no call is refused, however many wait.
                    let _ = ws.lbx(&call).success();
                    let mut slowest = slowest.lock().unwrap();
                    *slowest = called.elapsed().max(*slowest);
                }
            });
        }
    });
    let took = (begun.elapsed(), slowest.into_inner().unwrap());
    eprintln!("{processes} processes, {edits} edits each: {:?}; the slowest call {:?}", took.0, took.1);
    ws.holds("many.txt", text(" done"));
    assert_eq!(ws.snapshots().len(), processes * edits, "one snapshot a change");
    must_equal_tip(&ws).unwrap();
    must_be_tidy(&ws).unwrap();
}

#[test]
fn randomly_killed_calls_lose_no_acknowledged_change() {
    let rounds = if is_thorough() { 20 } else { 6 };
    let ws = Workspace::with(&[("log.txt", "start\n"), ("d/moved", "m\n")]);
    let said = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for process in 0..8_u64 {
            let (ws, said) = (&ws, &said);
            scope.spawn(move || {
                for round in 0..rounds {
                    let line = format!("p{process} r{round}");
                    let (session, text) = (format!("s{process}"), format!("{line}\n"));
                    let own = format!("own{process}/{round}");
                    let call: Vec<&str> = match process % 4 {
                        3 => vec!["write", &own, "--content", &text, "--session", &session],
                        _ => vec!["append", "log.txt", "--content", &text, "--session", &session],
                    };
                    let child = ws.call(&call).spawn();
                    let id = child.id();
                    if (process + round) % 2 == 0 {
                        std::thread::sleep(Duration::from_micros((process * 7919 + round * 5701) % 60_000));
                        kill(id);
                    }
                    let output = child.wait_with_output().unwrap();
                    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
                    if answer["ok"] == true {
                        said.lock().unwrap().push((process % 4 == 3, own, line, answer["snapshot"].clone()));
                    }
                }
            });
        }
    });
    let _ = ws.lbx(&["append", "log.txt", "--content", "end\n", "--session", "last"]).success();
    let log = String::from_utf8(ws.read_bytes("log.txt")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    let unique: BTreeSet<&&str> = lines.iter().collect();
    assert_eq!(unique.len(), lines.len(), "a line stands twice: {log}");
    let said = said.into_inner().unwrap();
    assert!(!said.is_empty());
    let mut ids = BTreeSet::new();
    for (is_own, own, line, id) in &said {
        if *is_own {
            ws.holds(own, format!("{line}\n"));
        } else {
            assert!(lines.contains(&line.as_str()), "{line} is lost");
        }
        let id = id.as_str().unwrap_or_else(|| panic!("{line}: no snapshot"));
        assert!(ids.insert(id.to_owned()), "{line}: its snapshot is another's");
        ws.git(&["merge-base", "--is-ancestor", id, "lbx-snapshots"]);
    }
    // One snapshot for each applied change, acknowledged or not.
    let written =
        ws.tree().keys().filter(|path| path.starts_with("own3") || path.starts_with("own7")).count();
    let folders = ["own3", "own7"].iter().filter(|folder| ws.path(folder).is_dir()).count();
    assert_eq!(ws.snapshots().len(), lines.len() - 1 + written - folders);
    must_equal_tip(&ws).unwrap();
    must_be_tidy(&ws).unwrap();
}
