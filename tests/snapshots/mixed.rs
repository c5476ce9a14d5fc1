//! Many mixed calls leave the developer's repository unchanged.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::common::Workspace;

/// Default number of calls; `LBX_ALL` in the environment runs all.
const CALLS: usize = 120;
/// Number of calls in a full run.
const CALLS_ALL: usize = 500;

/// Number of calls that one process makes.
const CALLS_A_BATCH: usize = 50;

/// Returns git's view of the developer's own data, and the bytes of the files behind it.
fn developers_own(ws: &Workspace) -> BTreeMap<String, Vec<u8>> {
    let mut own = BTreeMap::new();
    for name in [
        "HEAD",
        "index",
        "config",
        "ORIG_HEAD",
        "packed-refs",
        "logs/HEAD",
        "logs/refs/heads/main",
        "logs/refs/stash",
    ] {
        own.insert(name.to_owned(), fs::read(ws.path(".git").join(name)).unwrap_or_default());
    }
    for arguments in [
        &["for-each-ref", "--exclude=refs/heads/lbx-snapshots"][..],
        &["stash", "list"],
        &["diff", "--cached"],
        &["reflog", "show", "HEAD"],
        &["config", "--list", "--local"],
        &["ls-files", "--stage", "--debug"],
    ] {
        own.insert(arguments.join(" "), ws.git(arguments).into_bytes());
    }
    own
}

/// Returns the `number`th call. Together they use every tool that changes files, and some that only read.
fn call(number: usize) -> (&'static str, Value) {
    let file = format!("work/d{}/f{}.txt", number % 3, number / 12);
    let text = format!("{number}\n");
    match number % 12 {
        0 => ("write", json!({ "path": file, "content": format!("one\n{text}") })),
        1 => ("append", json!({ "path": format!("work/log{}.txt", number % 5), "content": text })),
        2 => ("prepend", json!({ "path": format!("work/log{}.txt", number % 5), "content": text })),
        3 => ("write", json!({ "path": format!("work/e{number}.txt"), "content": "old\n" })),
        4 => (
            "edit",
            json!({ "path": format!("work/e{}.txt", number - 1), "old_string": "old", "new_string": text }),
        ),
        5 => (
            "insert",
            json!({ "path": format!("work/e{}.txt", number - 2), "line": 0, "content": "first\n" }),
        ),
        6 => (
            "move",
            json!({ "from": format!("work/e{}.txt", number - 3), "to": format!("work/m{number}.txt") }),
        ),
        7 => ("undo", json!({})),
        8 => ("redo", json!({})),
        9 => ("delete", json!({ "path": format!("work/m{}.txt", number - 3) })),
        10 => ("diff", json!({})),
        _ => ("snapshot", json!({})),
    }
}

#[test]
fn snapshots_leave_branches_index_and_stash_unchanged() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n"), (".gitignore", "*.o\n")]);
    ws.write("b.txt", "stashed\n");
    ws.git(&["stash", "push", "-q"]);
    ws.git(&["branch", "other"]);
    ws.git(&["pack-refs", "--all"]);
    ws.write("staged.txt", "staged\n");
    ws.git(&["add", "staged.txt"]);
    ws.write("a.txt", "uncommitted\n");
    ws.write("x.o", "ignored\n");
    ws.git(&["status", "--porcelain"]);
    let (before, status) = (developers_own(&ws), ws.git(&["status", "--porcelain", "--", ":!work"]));
    let calls = if std::env::var_os("LBX_ALL").is_some() { CALLS_ALL } else { CALLS };
    for from in (0..calls).step_by(CALLS_A_BATCH) {
        let numbers = from..calls.min(from + CALLS_A_BATCH);
        let lines: String = numbers
            .clone()
            .map(|number| {
                let (tool, request) = call(number);
                json!({ "tool": tool, "request": request }).to_string() + "\n"
            })
            .collect();
        let output = ws.lbx_stdin(&["batch"], lines).stdout_text();
        let failed: Vec<&str> = output.lines().filter(|line| !line.starts_with(r#"{"ok":true"#)).collect();
        assert_eq!(failed, Vec::<&str>::new());
        assert_eq!(output.lines().count(), numbers.len());
    }
    let after = developers_own(&ws); // before git status, which may write the index
    for (name, was) in before {
        assert!(after[&name] == was, "{name}");
    }
    assert_eq!(ws.git(&["status", "--porcelain", "--", ":!work"]), status);
    assert!(ws.snapshots().len() > calls / 2);
    assert_eq!(ws.git(&["fsck", "--strict", "--no-dangling"]), "");
    assert_eq!(ws.git(&["rev-parse", "lbx-snapshots^{tree}"]), ws.tree_id());
}
