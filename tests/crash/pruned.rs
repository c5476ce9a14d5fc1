//! A concurrent `git prune --expire=now`: it removes objects that no ref reaches yet.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::common::Workspace;
use crate::common::skip::can_trace;
use crate::inject::traced;

#[test]
fn snapshot_is_rebuilt_if_git_prunes_its_objects() {
    if !can_trace() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    // The first such call takes git's lock, the second moves the branch: by then the objects have their names.
    let delay = "inject=renameat2:delay_enter=500000:when=2";
    let lock = ws.path(".git/refs/heads/lbx-snapshots.lock");
    let strace = ["-o", "/dev/null", "-e", "trace=renameat2", "-e", delay].map(Into::into);
    let output = thread::scope(|scope| {
        let running = scope.spawn(|| traced(&ws, &strace, &["append", "a.txt", "--content", "three\n"]));
        while !lock.exists() && !running.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        ws.git(&["prune", "--expire=now"]);
        running.join().unwrap()
    });
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(answer["snapshot"].as_str().unwrap(), ws.git(&["rev-parse", "lbx-snapshots"]), "{answer}");
    assert_eq!(ws.git(&["show", "lbx-snapshots:a.txt"]), "one\ntwo\nthree");
    assert_eq!(ws.git(&["fsck", "--no-dangling", "--no-progress"]), "");
    assert_eq!(answer["warnings"], Value::Null, "{answer}");
}
