//! Steps that the next call can no longer complete for a change whose call was killed: it warns, and the change remains
//! applied.

use crate::common::Workspace;
use crate::common::skip::can_trace;
use crate::inject::{kill_at, points};
use crate::killed::CHANGING;

/// Obstacle for the next call, and its warning.
type Case = (&'static str, fn(&Workspace), &'static str);

#[test]
fn unfinished_step_of_a_killed_change_is_a_warning() {
    if !can_trace() {
        return;
    }
    let cases: [Case; 2] = [
        (
            "a session of a newer release",
            |ws| std::fs::write(ws.state_file("default.lbx"), "{\"version\":99}").unwrap(),
            "session default could not note an earlier change: ",
        ),
        (
            "the branch of the snapshots is checked out",
            |ws| drop(ws.git(&["symbolic-ref", "HEAD", "refs/heads/lbx-snapshots"])),
            "no snapshot of an earlier change (write: a.txt): ",
        ),
    ];
    let before = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    before.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    before.lbx(&["read", "a.txt"]).ok();
    let write = ["write", "a.txt", "--content", "new\n"];
    for (name, hinder, warning) in cases {
        let mut told = 0;
        for point in points(&before.copy(), CHANGING, &write) {
            let ws = before.copy();
            kill_at(&ws, &point, &write);
            hinder(&ws);
            let next = ws.lbx(&["append", "b.txt", "--content", "more\n", "--session", "other"]);
            let answer = next.success();
            let is_told = answer["warnings"].to_string().contains(warning);
            // A warning is about an applied change.
            if is_told {
                ws.holds("a.txt", "new\n");
            }
            told += usize::from(is_told);
        }
        assert!(told > 0, "{name}: no call warned of it");
    }
}
