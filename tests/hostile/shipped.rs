//! Contents of `.lbx/` in a clone or an archive.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::common::{STATE_ID, Workspace, state};
use crate::common_ground::{SPARSE_BYTES, Trap, must_change_nothing_outside, names_in};

/// Id of the account that prepared the workspace.
const THEIRS: &str = "00112233445566778899aabbccddeeff";

/// Creates a workspace with the state of another account: history, trash, backups, a session that has read everything,
/// an open entry, and the same in the places of older versions.
fn shipped() -> Workspace {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("build.sh", "evil\n"), ("gone.txt", "gone\n")]);
    let theirs = |arguments: &[&str]| ws.call(arguments).env("LBX_STATE_ID", THEIRS).run();
    theirs(&["read", "a.txt"]).ok();
    theirs(&["write", "a.txt", "--content", "changed\n"]).ok();
    theirs(&["append", "a.txt", "--content", "more\n"]).ok();
    theirs(&["delete", "gone.txt"]).ok();
    theirs(&["undo"]).ok();
    theirs(&["delete", "gone.txt"]).ok();
    let entry = json!({
        "version": 1, "id": "change-000000000000-1-0", "session": "../../x", "tool": "delete", "seq": 1,
        "time": 1, "subject": "x", "folders": [],
        "files": [{"path": ".git/HEAD", "before": null, "after": null, "staged": null}],
        "moves": [{"from": "build.sh", "to": ".git/hooks/pre-commit"}],
    });
    let open = format!(".lbx/{THEIRS}/journal/open/change-000000000000-1-0.lbx");
    ws.write(&open, entry.to_string());
    let copied =
        Command::new("cp").args(["-a", ".", ".."]).current_dir(ws.path(".lbx").join(THEIRS)).status();
    assert!(copied.unwrap().success());
    ws
}

/// Returns everything in `.lbx/` outside the account's own state.
fn theirs(ws: &Workspace) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![ws.path(".lbx")];
    while let Some(folder) = folders.pop() {
        for name in names_in(&folder) {
            let path = folder.join(&name);
            if path.is_dir() && name != STATE_ID {
                folders.push(path);
            } else if path.is_file() && name != "lock" {
                found.push((path.display().to_string(), fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn state_shipped_with_a_workspace_is_ignored() {
    let ws = shipped();
    let head = fs::read(ws.path(".git/HEAD")).unwrap();
    let before = theirs(&ws);
    assert!(before.len() > 20, "{}", before.len());
    must_change_nothing_outside(&ws, "all tools", || {
        ws.lbx(&["undo"]).error("not_found");
        ws.lbx(&["redo"]).error("not_found");
        ws.lbx(&["restore", "gone.txt"]).error("not_found");
        assert_eq!(ws.lbx(&["trash"]).ok()["total"], 0);
        let records = ws.lbx(&["audit"]).ok()["records"].take();
        assert!(records.as_array().unwrap().iter().all(|record| record["outcome"] != "ok"), "{records}");
        // Their session has read it; this one has not.
        ws.lbx(&["write", "a.txt", "--content", "x"]).error("not_read");
        ws.lbx(&["append", "a.txt", "--content", "innocent\n"]).ok();
        ws.lbx(&["undo"]).ok();
        ws.lbx(&["trash", "purge"]).ok();
        ws.lbx(&["gc", "--keep-days", "0"]).ok();
        ws.lbx(&["snapshot"]).ok();
    });
    ws.holds("a.txt", "changed\nmore\n");
    assert_eq!(fs::read(ws.path(".git/HEAD")).unwrap(), head);
    assert!(!ws.path(".git/hooks/pre-commit").exists());
    assert_eq!(theirs(&ws), before);
}

#[test]
fn symlinks_in_place_of_state_directories_are_not_followed() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    for name in ["scan", "trash", "backups", "journal", "sessions", "audit", "staging", "repo.git", THEIRS] {
        Trap::LinkToFolder.set(&ws, &format!(".lbx/{name}"));
    }
    must_change_nothing_outside(&ws, "links", || {
        ws.lbx(&["append", "a.txt", "--content", "b\n"]).ok();
        ws.lbx(&["snapshot"]).ok();
        ws.lbx(&["delete", "a.txt"]).ok();
        ws.lbx(&["trash", "purge"]).ok();
        ws.lbx(&["gc", "--keep-days", "0"]).ok();
    });
}

#[test]
fn hostile_lock_file_is_moved_aside() {
    for trap in Trap::ALL {
        let ws = Workspace::with(&[("a.txt", "a\n")]);
        trap.set(&ws, ".lbx/lock");
        let what = format!("{trap:?}");
        must_change_nothing_outside(&ws, &what, || {
            ws.lbx(&["append", "a.txt", "--content", "b\n"]).ok();
            ws.lbx(&["undo"]).ok();
        });
        let stat = fs::symlink_metadata(ws.path(".lbx/lock")).unwrap();
        assert!(stat.is_file(), "{what}");
        let aside =
            names_in(&ws.path(".lbx")).into_iter().filter(|name| name.starts_with("lock.aside-")).count();
        match trap {
            // The content of a file is never read, and stays.
            Trap::Sparse => assert_eq!((stat.len(), aside), (SPARSE_BYTES, 0)),
            Trap::Garbage => {
                assert_eq!(aside, 0);
                assert!(ws.read_bytes(".lbx/lock").starts_with(b"\xff"));
            }
            Trap::Empty => assert_eq!(aside, 0),
            _ => assert_eq!(aside, 1, "{what}"),
        }
    }
}

#[test]
fn hostile_queue_file_holds_up_no_call() {
    for trap in Trap::ALL {
        let ws = Workspace::with(&[("a.txt", "")]);
        ws.lbx(&["append", "a.txt", "--content", "x\n"]).ok();
        trap.set(&ws, &state("queue"));
        must_change_nothing_outside(&ws, &format!("{trap:?}"), || {
            let append = |number: u32| {
                let session = number.to_string();
                ws.call(&["append", "a.txt", "--content", "x\n", "--session", &session]).spawn()
            };
            let calls: Vec<_> = (0..6).map(append).collect();
            for call in calls {
                assert!(call.wait_with_output().unwrap().status.success(), "{trap:?}");
            }
        });
        ws.holds("a.txt", "x\n".repeat(7));
    }
}

#[test]
fn concurrent_calls_with_a_hostile_lock_lose_no_update() {
    let ws = Workspace::with(&[("a.txt", "")]);
    Trap::LinkToFile.set(&ws, ".lbx/lock");
    must_change_nothing_outside(&ws, "many calls", || {
        let calls: Vec<_> = (0..12)
            .map(|number| {
                let session = number.to_string();
                ws.call(&["append", "a.txt", "--content", "x\n", "--session", &session]).spawn()
            })
            .collect();
        for call in calls {
            assert!(call.wait_with_output().unwrap().status.success());
        }
    });
    ws.holds("a.txt", "x\n".repeat(12));
    assert_eq!(ws.snapshots().len(), 12);
}

#[test]
fn read_only_lock_file_can_be_locked() {
    let ws = Workspace::bare(&[("a.txt", "a\n")]);
    ws.lbx(&["append", "a.txt", "--content", "b\n"]).ok();
    ws.chmod(".lbx/lock", 0o444);
    let Some(append) = ws.call_unprivileged(&["append", "a.txt", "--content", "c\n"]) else { return };
    append.run().ok();
    ws.holds("a.txt", "a\nb\nc\n");
}

#[test]
fn shipped_gitignore_in_the_state_is_replaced() {
    let ours = b"# lbx keeps its own state here.\n*\n!/config.toml\n";
    let shipped = |ws: &Workspace| ws.write(".lbx/.gitignore", "!*\n!**/*\n");
    let traps = Trap::ALL.map(|trap| move |ws: &Workspace| trap.set(ws, ".lbx/.gitignore"));
    let all: Vec<&dyn Fn(&Workspace)> =
        std::iter::once(&shipped as &dyn Fn(&Workspace)).chain(traps.iter().map(|trap| trap as _)).collect();
    for (number, set) in all.into_iter().enumerate() {
        let ws = Workspace::with(&[("a.txt", "a\n"), (".gitignore", "*.key\n"), ("x.key", "SECRET\n")]);
        set(&ws);
        must_change_nothing_outside(&ws, &number.to_string(), || {
            ws.lbx(&["append", "x.key", "--content", "SECRET2\n"]).warned("git ignores it");
        });
        assert_eq!(ws.read_bytes(".lbx/.gitignore"), ours, "{number}");
        let listed = ws.git(&["status", "--porcelain", "-uall", ".lbx"]);
        assert_eq!(listed, "", "{number}");
    }
}
