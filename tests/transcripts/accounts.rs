//! Accounts of a session's changes: caches, of which nobody sees whether they are there.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::common::{Workspace, state};

/// Damages a file with these bytes.
type Harm<'a> = &'a dyn Fn(&PathBuf, &[u8]);

/// Changes after which a session has accounts.
const CHANGES: usize = 160;

/// Returns a workspace in which one session has made so many changes, some of them undone, and others changed a file
/// in between.
fn changed() -> Workspace {
    let ws = Workspace::with(&[
        ("a.txt", "one\n"),
        ("b/b.txt", "two\n"),
        ("c.txt", "three\n"),
        ("read.txt", "x\n"),
    ]);
    ws.git(&["config", "user.name", "n"]);
    ws.git(&["config", "user.email", "n@example.org"]);
    for at in 0..CHANGES {
        let path = ["a.txt", "b/b.txt", "new.txt"][at % 3];
        ws.lbx(&["append", path, "--content", &format!("{at}\n")]).ok();
        match at {
            9 => drop(ws.lbx(&["prepend", "new.txt", "--content", "top\n"]).ok()),
            20 => drop(ws.lbx(&["move", "c.txt", "moved.txt"]).ok()),
            30 | 60 => drop(ws.lbx(&["undo"]).ok()),
            40 => drop(ws.lbx(&["prepend", "a.txt", "--content", "theirs\n", "--session", "other"]).ok()),
            50 => ws.write("b/b.txt", "from outside\n"),
            _ => {}
        }
    }
    ws.lbx(&["read", "read.txt"]).ok();
    ws
}

/// Returns what a developer sees of the session, without times of the calls.
fn views(ws: &Workspace) -> Vec<Value> {
    let session = ws.lbx(&["session", "status", "--session", "default"]).ok();
    let calls: [&[&str]; 5] = [
        &["review", "--session", "default"],
        &["review", "--session", "default", "--offset", "100"],
        &["diff", "--session", "default"],
        &["diff", "--by-session"],
        &["squash", "-m", "all", "--dry-run", "--session", "default", "new.txt", "a.txt"],
    ];
    std::iter::once(session).chain(calls.iter().map(|call| ws.lbx(call).ok())).collect()
}

/// Returns the accounts of the workspace.
fn accounts(ws: &Workspace) -> Vec<PathBuf> {
    let folder = ws.path(&state("accounts"));
    let names = fs::read_dir(folder).map(|names| names.map(|name| name.unwrap().path()).collect());
    let mut names: Vec<PathBuf> = names.unwrap_or_default();
    names.sort();
    names
}

#[test]
fn accounts_change_nothing_that_a_developer_sees() {
    let ws = changed();
    let made = accounts(&ws);
    assert_eq!(made.len(), 3, "{made:?}");
    let with = views(&ws);
    let kept: Vec<Vec<u8>> = made.iter().map(|path| fs::read(path).unwrap()).collect();
    // They are removed, cut, changed in one byte, or another's.
    let remove = |path: &PathBuf, _: &[u8]| fs::remove_file(path).unwrap();
    let cut = |path: &PathBuf, bytes: &[u8]| fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    let flip = |path: &PathBuf, bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let at = bytes.len() / 3;
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    let empty = |path: &PathBuf, _: &[u8]| fs::write(path, "{}\n").unwrap();
    let harms: [Harm<'_>; 4] = [&remove, &cut, &flip, &empty];
    for (number, harm) in harms.into_iter().enumerate() {
        for (path, bytes) in made.iter().zip(&kept) {
            harm(path, bytes);
        }
        assert_eq!(views(&ws), with, "harm {number}");
        for (path, bytes) in made.iter().zip(&kept) {
            fs::write(path, bytes).unwrap();
        }
    }
    // A call that was killed after its change left them as they were.
    for at in 0..3 {
        ws.lbx(&["append", "a.txt", "--content", &format!("later {at}\n")]).ok();
    }
    let behind = views(&ws);
    assert_ne!(behind, with);
    accounts(&ws).iter().for_each(|path| fs::remove_file(path).unwrap());
    assert_eq!(views(&ws), behind);
}

#[test]
fn account_of_another_history_does_not_count() {
    let ws = changed();
    let kept: Vec<(PathBuf, Vec<u8>)> =
        accounts(&ws).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    assert!(!kept.is_empty());
    // The records are gone, and so is what they came to.
    ws.lbx(&["gc", "--keep-days", "0"]).ok();
    assert!(accounts(&ws).is_empty());
    let without = views(&ws);
    kept.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    assert_eq!(views(&ws), without);
    // A branch that begins again, and a session that ends.
    ws.git(&["branch", "-D", "lbx-snapshots"]);
    ws.lbx(&["append", "a.txt", "--content", "again\n"]).ok();
    let diff = ws.lbx(&["diff", "--session", "default"]).ok();
    assert_eq!(diff["files"], 1, "{diff}");
    ws.lbx(&["session", "end"]).ok();
    assert_eq!(ws.lbx(&["session"]).ok()["changes"], 0);
    ws.lbx(&["append", "b/b.txt", "--content", "after\n"]).ok();
    let diff = ws.lbx(&["diff", "--session", "default"]).ok();
    assert_eq!(
        (&diff["files"], ws.lbx(&["session"]).ok()["changes"].as_u64()),
        (&1.into(), Some(1)),
        "{diff}"
    );
}

#[test]
fn turn_that_many_changes_followed_is_undone_alone() {
    let ws = changed();
    let before = String::from_utf8(ws.read_bytes("new.txt")).unwrap();
    assert!(before.starts_with("top\n2\n5\n8\n"), "{before}");
    let undone = ws.lbx(&["undo", "--turn", "11"]).ok();
    assert_eq!((&undone["undone"][0]["seq"], &undone["undone"][0]["tool"]), (&11.into(), &"prepend".into()));
    ws.holds("new.txt", before.strip_prefix("top\n").unwrap());
    ws.lbx(&["undo", "--turn", "11"]).error("not_found");
    ws.lbx(&["redo", "--turn", "11"]).ok();
    ws.holds("new.txt", before);
}

#[test]
fn change_that_many_others_followed_is_undone_alone() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\nthree\n"), ("b.txt", "b\n"), ("c.txt", "c\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "two", "--new-string", "2"]).ok();
    ws.lbx(&["append", "c.txt", "--content", "undone later\n"]).ok();
    ws.lbx(&["undo"]).ok();
    // A move that is undone and done again, and one that stays undone.
    for to in ["d/moved.txt", "other.txt"] {
        ws.lbx(&["move", "a.txt", to]).ok();
        ws.lbx(&["undo"]).ok();
    }
    ws.lbx(&["move", "a.txt", "d/moved.txt"]).ok();
    for at in 0..CHANGES {
        let path = ["b.txt", "d/moved.txt"][at % 2];
        ws.lbx(&["append", path, "--content", &format!("{at}\n")]).ok();
    }
    let before = String::from_utf8(ws.read_bytes("d/moved.txt")).unwrap();
    assert!(before.starts_with("one\n2\nthree\n1\n3\n"), "{before}");
    let undone = ws.lbx(&["undo", "--seq", "1"]).ok();
    assert_eq!(undone["undone"][0]["path"], "d/moved.txt", "{undone}");
    ws.holds("d/moved.txt", before.replacen('2', "two", 1));
    // Of a change that was undone, nothing is left.
    ws.lbx(&["undo", "--seq", "2"]).error("not_found");
    ws.lbx(&["undo", "--seq", "1"]).error("not_found");
    ws.lbx(&["undo"]).ok();
    ws.holds("d/moved.txt", before);
}

#[test]
fn review_shows_no_path_of_the_trash() {
    let ws = Workspace::with(&[("a.txt", "one\n"), (".gitignore", "*.ig\n"), ("u.ig", "u\n")]);
    ws.lbx(&["delete", "u.ig"]).success();
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let data = ws.lbx(&["review"]).ok();
    assert!(!data.to_string().contains(".lbx"), "{data}");
    assert_eq!(data["changes"][0]["files"][0]["path"], "u.ig", "{data}");
    assert_eq!(data["changes"][0]["files"][0]["action"], "delete", "{data}");
}

#[test]
fn review_counts_changes_without_a_snapshot() {
    let ws = Workspace::with(&[(".gitignore", "out/\n"), ("a.txt", "a\n")]);
    let call = |session: &str, args: &[&str]| ws.lbx(&[args, &["--session", session]].concat());
    let totals = |session: &str| call(session, &["review"]).ok()["totals"].clone();
    let of =
        |totals: &Value| ["changes", "files", "insertions", "deletions"].map(|name| totals[name].clone());
    // Nothing but an ignored file.
    call("s", &["write", "out/log.txt", "--content", "1\n2\n3\n"]).success();
    assert_eq!(of(&totals("s")), [1, 1, 3, 0].map(Value::from));
    call("s", &["append", "a.txt", "--content", "b\n"]).ok();
    call("s", &["edit", "out/log.txt", "--old-string", "2\n", "--new-string", "two\n"]).success();
    assert_eq!(of(&totals("s")), [3, 2, 4, 0].map(Value::from));
    call("s", &["undo"]).success();
    call("s", &["delete", "out/log.txt"]).success();
    assert_eq!(of(&totals("s")), [5, 1, 1, 0].map(Value::from));
    // A session without any snapshot.
    for args in [&["write", "b.txt", "--content", "b\n"], &["append", "a.txt", "--content", "c\n"]] {
        call("off", &[&args[..], &["--set", "snapshot.enabled=false"]].concat()).ok();
    }
    let review = call("off", &["review"]).ok();
    assert_eq!(of(&review["totals"]), [2, 2, 2, 0].map(Value::from));
    assert!(review["changes"][1]["files"][0]["diff"].as_str().unwrap().ends_with("+c\n"), "{review}");
}

#[test]
fn review_without_a_repository_or_snapshots_shows_the_journal() {
    let ws = Workspace::bare(&[]);
    let settings = ["--set", "snapshot.enabled=false"];
    ws.lbx(&[&["write", "a.txt", "--content", "a\n"][..], &settings].concat()).ok();
    let review = ws.lbx(&[&["review"][..], &settings].concat()).ok();
    assert_eq!((&review["session"], &review["totals"]["files"]), (&json!("default"), &json!(1)));
    ws.lbx(&["review", "--session", "other"]).error("not_found");
}
