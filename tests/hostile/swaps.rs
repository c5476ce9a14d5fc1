//! Paths that another program swaps for links while calls run.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::common::Workspace;
use crate::common_ground::{must_change_nothing_outside, precious};

/// Fewest swaps of a run.
const SWAPS_MIN: u32 = 50_000;
/// Fewest and most rounds of a run.
const ROUNDS: (u32, u32) = (4, 200);

/// Calls on the swapped paths; their outcome depends on the moment.
const CALLS: [&[&str]; 14] = [
    &["read", "d/within/file", "f"],
    &["append", "d/within/file", "--content", "more\n"],
    &["append", "f", "--content", "more\n"],
    &["write", "d/within/new", "--content", "new\n"],
    &["edit", "d/within/file", "--old-string", "mine", "--new-string", "ours"],
    &["grep", "--no-ignore", "SECR.T", "d"],
    &["ls", "-R", "d"],
    &["mkdir", "d/within/e/f"],
    &["move", "d/within/new", "d/newer"],
    &["move", "f", "d/within/f"],
    &["delete", "-r", "d/within"],
    &["undo"],
    &["restore", "d/within"],
    &["undo", "--steps", "3"],
];

/// Makes all calls while a folder and a file of the workspace change places with links to outside; returns the number
/// of swaps.
fn swaps_of_a_round() -> u32 {
    let ws = Workspace::with(&[("d/within/file", "mine\n"), ("f", "mine\n")]);
    ws.link(precious(&ws), "folder-link");
    ws.link(precious(&ws).join("file"), "file-link");
    ws.lbx(&["append", "f", "--content", "first\n"]).ok();
    let is_over = AtomicBool::new(false);
    let swaps = AtomicU32::new(0);
    let swap = |one: &str, other: &str| {
        // A call may just have moved or deleted it.
        if renameat_with(CWD, ws.path(one), CWD, ws.path(other), RenameFlags::EXCHANGE).is_ok() {
            swaps.fetch_add(1, Ordering::Relaxed);
        }
    };
    must_change_nothing_outside(&ws, "calls on swapped paths", || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    swap("d", "folder-link");
                    swap("f", "file-link");
                }
            });
            let answers = CALLS.map(|call| (call, ws.call(call).run()));
            is_over.store(true, Ordering::Relaxed);
            for (call, answer) in answers {
                let answer = answer.envelope().to_string();
                assert!(!answer.contains("SECRET"), "{call:?}: {answer}");
            }
        });
    });
    swaps.into_inner()
}

#[test]
fn paths_swapped_for_links_lead_no_call_outside() {
    let (fewest, most) = ROUNDS;
    let mut swaps = 0;
    for round in 0..most {
        if round >= fewest && swaps >= SWAPS_MIN {
            break;
        }
        swaps += swaps_of_a_round();
    }
    println!("{swaps} swaps");
    assert!(swaps >= SWAPS_MIN, "only {swaps} swaps");
}
