//! The account's own state after tampering: it is still parsed as hostile input.

use std::fs;

use serde_json::{Value, json};

use crate::common::{Workspace, sha256, state};
use crate::common_ground::{SPARSE_BYTES, Trap, must_change_nothing_outside};

/// Returns the path of the backup of some bytes.
fn backup_of(bytes: &[u8]) -> String {
    let name = sha256(bytes);
    state(&format!("backups/{}/{}", &name[..2], &name[2..]))
}

#[test]
fn tampered_backup_file_is_rejected() {
    // Git ignores it, so no snapshot has the old bytes. They are also too large for the journal.
    let old = "old\n".repeat(5000);
    let ws = Workspace::with(&[("a.txt", &old), (".gitignore", "*\n")]);
    let _ = ws.lbx(&["append", "a.txt", "--content", "new\n"]).success();
    let backup = backup_of(old.as_bytes());
    ws.holds(&backup, &old);
    // Bytes of the right size.
    ws.write(&backup, "bad\n".repeat(5000));
    ws.unchanged(|| assert_eq!(ws.lbx(&["undo"]).envelope()["ok"], false));
    for trap in Trap::ALL {
        trap.set(&ws, &backup);
        must_change_nothing_outside(&ws, &format!("{trap:?}"), || {
            ws.unchanged(|| assert_eq!(ws.lbx(&["undo"]).envelope()["ok"], false, "{trap:?}"));
        });
    }
    fs::remove_dir_all(ws.path(&backup)).or_else(|_| fs::remove_file(ws.path(&backup))).unwrap();
    ws.write(&backup, &old);
    let _ = ws.lbx(&["undo"]).success();
    ws.holds("a.txt", &old);
}

#[test]
fn tampered_backup_bundle_is_rejected() {
    let names: Vec<String> = (0..70).map(|number| format!("f{number}")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "old\n")).collect();
    let ws = Workspace::with(&[files, vec![(".gitignore", "*\n")]].concat());
    let _ = ws.lbx(&["read", "--json", &serde_json::json!({"paths": names}).to_string()]).success();
    let edit = serde_json::json!({"paths": names, "old_string": "old", "new_string": "new"});
    let _ = ws.lbx(&["edit", "--json", &edit.to_string()]).success();
    let folder = state("backups/bundles");
    let bundle = fs::read_dir(ws.path(&folder)).unwrap().next().unwrap().unwrap().file_name();
    let bundle = format!("{folder}/{}", bundle.to_str().unwrap());
    let whole = fs::read(ws.path(&bundle)).unwrap();
    for damaged in [&whole[..whole.len() - 4], &whole[..20], b""] {
        ws.write(&bundle, damaged);
        ws.unchanged(|| assert_eq!(ws.lbx(&["undo"]).envelope()["ok"], false));
        ws.write(&bundle, [damaged, b"odd\n"].concat());
        ws.unchanged(|| assert_eq!(ws.lbx(&["undo"]).envelope()["ok"], false));
    }
    for trap in Trap::ALL {
        trap.set(&ws, &bundle);
        must_change_nothing_outside(&ws, &format!("{trap:?}"), || {
            ws.unchanged(|| assert_eq!(ws.lbx(&["undo"]).envelope()["ok"], false, "{trap:?}"));
        });
    }
    fs::remove_dir_all(ws.path(&bundle)).or_else(|_| fs::remove_file(ws.path(&bundle))).unwrap();
    ws.write(&bundle, &whole);
    let _ = ws.lbx(&["undo"]).success();
    ws.holds("f69", "old\n");
}

#[test]
fn tampered_inline_backup_is_rejected() {
    let ws = Workspace::with(&[("a.txt", "old\n"), (".gitignore", "*\n")]);
    let _ = ws.lbx(&["append", "a.txt", "--content", "new\n"]).success();
    // An unsynced backup after a power failure.
    ws.write(&backup_of(b"old\n"), "");
    let entry = state("journal/done/default/00000001.lbx");
    let text = fs::read_to_string(ws.path(&entry)).unwrap();
    for tampered in [text.replace("b2xkCg==", "YmFkCg=="), text.replace("b2xkCg==", "?")] {
        assert_ne!(tampered, text);
        ws.write(&entry, &tampered);
        ws.unchanged(|| assert_eq!(ws.lbx(&["undo"]).envelope()["ok"], false));
    }
    ws.write(&entry, &text);
    let _ = ws.lbx(&["undo"]).success();
    ws.holds("a.txt", "old\n");
}

#[test]
fn next_change_rewrites_a_tampered_backup() {
    let old = "old\n".repeat(5000);
    for trap in [None].into_iter().chain(Trap::ALL.map(Some)) {
        let ws = Workspace::with(&[("a.txt", &old)]);
        ws.lbx(&["append", "a.txt", "--content", "new\n"]).ok();
        ws.lbx(&["undo"]).ok();
        let backup = backup_of(old.as_bytes());
        match trap {
            None => ws.write(&backup, "bad\n"),
            Some(trap) => trap.set(&ws, &backup),
        }
        must_change_nothing_outside(&ws, &format!("{trap:?}"), || {
            ws.lbx(&["append", "a.txt", "--content", "other\n"]).ok();
            ws.holds(&backup, &old);
            ws.lbx(&["undo"]).ok();
        });
        ws.holds("a.txt", &old);
    }
}

#[test]
fn invalid_sequence_number_overwrites_no_history() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    for text in ["b\n", "c\n"] {
        ws.lbx(&["append", "a.txt", "--content", text]).ok();
    }
    let file = state("sessions/default.lbx");
    let history = ws.path(&state("journal/done/default"));
    let count = || fs::read_dir(&history).unwrap().count();
    for (seq, warns) in [(u64::MAX, true), (u64::MAX - 1, true), (1, false), (0, false)] {
        let states = String::from_utf8(ws.read_bytes(&file)).unwrap();
        let mut session: Value = serde_json::from_str(states.lines().next_back().unwrap()).unwrap();
        session["seq"] = json!(seq);
        ws.write(&file, session.to_string());
        let before = count();
        let answer = ws.lbx(&["append", "a.txt", "--content", "d\n"]).success();
        assert_eq!(answer.get("warnings").is_some(), warns, "{seq}: {answer}");
        assert_eq!(count(), before + 1, "{seq}");
    }
    // A history that claims such a number is rejected too.
    fs::copy(history.join("00000001.lbx"), history.join(format!("{}.json", u64::MAX))).unwrap();
    fs::write(ws.path(&file), "{}").unwrap();
    let _ = ws.lbx(&["append", "a.txt", "--content", "e\n"]).success();
    ws.lbx(&["undo"]).ok();
    ws.holds("a.txt", format!("a\nb\nc\n{}", "d\n".repeat(4)));
}

#[test]
fn change_numbers_that_no_session_reaches_are_never_given() {
    /// First number that no change has.
    const SEQ_MAX: u64 = 1 << 48;
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    for text in ["b\n", "c\n"] {
        ws.lbx(&["append", "a.txt", "--content", text]).ok();
    }
    ws.lbx(&["gc"]).ok();
    // The key of the newest packed change, and the checksum of the rows.
    let packed = state("journal/done/default/packed");
    let mut bytes = ws.read_bytes(&packed);
    bytes[16 + 48 + 24..16 + 48 + 32].copy_from_slice(&SEQ_MAX.to_be_bytes());
    let sum = crc32fast::hash(&bytes[16..16 + 2 * 48]);
    bytes[12..16].copy_from_slice(&sum.to_be_bytes());
    ws.write(&packed, &bytes);
    ws.lbx(&["append", "a.txt", "--content", "d\n"]).ok();
    assert!(ws.path(&state("journal/done/default/00000003.lbx")).exists());
    // The last number has no next one.
    let file = state("sessions/default.lbx");
    let states = String::from_utf8(ws.read_bytes(&file)).unwrap();
    let mut session: Value = serde_json::from_str(states.lines().next_back().unwrap()).unwrap();
    session["seq"] = json!(SEQ_MAX - 1);
    ws.write(&file, session.to_string());
    let error = ws.unchanged(|| ws.lbx(&["append", "a.txt", "--content", "e\n"]).error("io_error"));
    assert!(
        error["message"].as_str().unwrap().contains("gives session default the change number"),
        "{error}"
    );
    assert!(error["suggested_action"].as_str().unwrap().contains("Use another session, and tell the user"));
    ws.lbx(&["append", "a.txt", "--content", "e\n", "--session", "other"]).ok();
}

/// Returns every file and folder of a state, from the workspace root.
fn everything_in(ws: &Workspace) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![ws.path(&state(""))]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("content") && !path.ends_with("repo.git") {
                folders.push(path.clone());
            }
            found.push(path.strip_prefix(&ws.root).unwrap().to_str().unwrap().to_owned());
        }
    }
    found.sort();
    found
}

/// Creates a workspace with data in every part of its state.
fn used_workspace() -> Workspace {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n"), ("d/e.txt", "e\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "a", "--new-string", "A"]).ok();
    ws.lbx(&["delete", "b.txt"]).ok();
    ws.lbx(&["move", "d", "f"]).ok();
    ws.lbx(&["snapshot"]).ok();
    ws.lbx(&["undo"]).ok();
    ws
}

/// Tools that read the state.
const CALLS: &[&[&str]] = &[
    &["read", "a.txt"],
    &["session"],
    &["session", "list"],
    &["audit", "--verify"],
    &["trash"],
    &["log"],
    &["diff"],
    &["redo"],
    &["undo"],
    &["restore", "b.txt"],
    &["gc"],
    &["trash", "purge"],
    &["snapshot"],
];

#[test]
fn hostile_state_files_cause_no_leak_and_no_hang() {
    let model = used_workspace();
    let all = everything_in(&model);
    assert!(all.len() > 20, "{all:?}");
    // One trap per path, so that the traps are spread over all of them, including folders.
    for (number, path) in all.iter().enumerate() {
        let trap = Trap::ALL[number % Trap::ALL.len()];
        let what = format!("{trap:?} at {path}");
        let ws = model.copy();
        trap.set(&ws, path);
        must_change_nothing_outside(&ws, &what, || {
            for call in CALLS {
                let answer = ws.lbx(call).envelope();
                let kind = answer["error"]["kind"].as_str().unwrap_or_default();
                assert!(!["internal", "timeout"].contains(&kind), "{what}: {call:?}: {answer}");
                assert!(!answer.to_string().contains("SECRET"), "{what}: {call:?}: {answer}");
            }
        });
    }
}

#[test]
fn terabyte_state_file_is_not_read() {
    let model = used_workspace();
    let files: Vec<String> =
        everything_in(&model).into_iter().filter(|path| model.path(path).is_file()).collect();
    for path in files {
        let ws = model.copy();
        Trap::Sparse.set(&ws, &path);
        for call in [&["append", "a.txt", "--content", "x\n"][..], &["session"], &["audit"], &["undo"]] {
            let answer = ws.lbx(call).envelope();
            let is_internal = answer["error"]["kind"] == "internal";
            assert!(!is_internal, "{path}: {call:?}: {answer}");
        }
        let is_sparse = fs::metadata(ws.path(&path)).is_ok_and(|stat| stat.len() == SPARSE_BYTES);
        assert!(!is_sparse || !path.contains("/sessions/default.lbx"), "{path}");
    }
}

#[test]
fn state_file_with_another_name_is_copied_before_it_is_written() {
    let ws = used_workspace();
    ws.lbx(&["append", "a.txt", "--content", "more\n"]).ok();
    for name in ["audit/head", "audit/current.jsonl", "calls/current"] {
        let (file, theirs) = (ws.state_file(name), ws.outside.join("theirs"));
        let _ = fs::remove_file(&theirs);
        fs::hard_link(&file, &theirs).unwrap();
        let before = fs::read(&theirs).unwrap();
        for _ in 0..2 {
            ws.lbx(&["append", "a.txt", "--content", "more\n"]).ok();
        }
        assert_eq!(fs::read(&theirs).unwrap(), before, "{name}");
        assert_ne!(fs::read(&file).unwrap(), before, "{name}");
    }
    ws.lbx(&["audit", "--verify"]).ok();
}
