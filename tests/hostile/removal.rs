//! Permanent removal: only of deleted files, never through a link or into a mount.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::common::{Workspace, change_state_file, skipped, state};
use crate::common_ground::{must_change_nothing_outside, names_in, precious};

/// Returns the trash id of a deletion.
fn trash_id(data: &Value) -> String {
    data["trash_id"].as_str().unwrap().to_owned()
}

#[test]
fn trash_purge_counts_the_removed_files() {
    let ws = Workspace::with(&[("d/a", "1"), ("d/e/b", "22"), ("f", "333")]);
    ws.link("a", "d/link");
    ws.lbx(&["delete", "-r", "d"]).ok();
    ws.lbx(&["delete", "f"]).ok();
    // The description may claim anything.
    for id in names_in(&ws.path(&state("trash"))) {
        let path = state(&format!("trash/{id}/entry.lbx"));
        change_state_file(&ws.path(&path), |entry| {
            (entry["files"], entry["bytes"]) = (u64::MAX.into(), u64::MAX.into());
        });
    }
    ws.lbx(&["trash"]).ok();
    let data = ws.lbx(&["trash", "purge"]).ok();
    assert_eq!((&data["total"], &data["files"], &data["bytes"]), (&2.into(), &4.into(), &6.into()));
    assert_eq!(names_in(&ws.path(&state("trash"))), Vec::<String>::new());
}

#[test]
fn trash_replaced_by_a_symlink_is_not_followed() {
    let ws = Workspace::with(&[("d/a", "1")]);
    let id = trash_id(&ws.lbx(&["delete", "-r", "d"]).ok());
    let (trash, real) = (ws.path(&state("trash")), ws.outside.join("real"));
    // The folder outside holds exactly the contents of the trash.
    fs::rename(&trash, &real).unwrap();
    symlink(&real, &trash).unwrap();
    must_change_nothing_outside(&ws, "purge", || {
        let _ = ws.lbx(&["trash", "purge"]).envelope();
        let _ = ws.lbx(&["trash", "purge", "--trash-id", &id]).envelope();
        let _ = ws.lbx(&["gc", "--keep-days", "0"]).envelope();
        let _ = ws.lbx(&["restore", "d"]).envelope();
    });
    // The entry itself is a link.
    fs::remove_file(&trash).unwrap();
    fs::create_dir(&trash).unwrap();
    symlink(real.join(&id), trash.join(&id)).unwrap();
    must_change_nothing_outside(&ws, "purge of a link", || {
        let _ = ws.lbx(&["trash", "purge"]).envelope();
        let _ = ws.lbx(&["trash", "purge", "--trash-id", &id]).envelope();
        let _ = ws.lbx(&["gc", "--keep-days", "0"]).envelope();
        let _ = ws.lbx(&["restore", "d"]).envelope();
    });
    // A file in the entry is a link.
    let _ = fs::remove_file(trash.join(&id));
    fs::create_dir(trash.join(&id)).unwrap();
    fs::copy(real.join(&id).join("entry.lbx"), trash.join(&id).join("entry.lbx")).unwrap();
    symlink(precious(&ws), trash.join(&id).join("content")).unwrap();
    must_change_nothing_outside(&ws, "purge of a content that is a link", || {
        let data = ws.lbx(&["trash", "purge"]).ok();
        assert_eq!(data["files"], 1);
    });
}

#[test]
fn trash_swapped_for_a_symlink_during_purge_is_not_followed() {
    let ws = Workspace::with(&[]);
    let trash = ws.path(&state("trash"));
    let (aside, bait) = (ws.outside.join("aside"), ws.outside.join("bait"));
    for round in 0..4 {
        for file in 0..200 {
            ws.write(&format!("d/{}/{file}", file % 20), "x");
        }
        let id = trash_id(&ws.lbx(&["delete", "-r", "d"]).ok());
        let _ = fs::remove_dir_all(&bait);
        let copied = Command::new("cp").arg("-a").arg(&trash).arg(&bait).status().unwrap();
        assert!(copied.success());
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = fs::rename(&trash, &aside);
                    let _ = symlink(&bait, &trash);
                    let _ = fs::remove_file(&trash);
                    let _ = fs::rename(&aside, &trash);
                }
            });
            let _ = ws.lbx(&["trash", "purge", "--trash-id", &id]).envelope();
            over.store(true, Ordering::Relaxed);
        });
        let left = Command::new("find").arg(&bait).args(["-type", "f", "-name", "[0-9]*"]).output().unwrap();
        assert_eq!(left.stdout.split(|byte| *byte == b'\n').count() - 1, 200, "round {round}");
        let _ = ws.lbx(&["trash", "purge"]).envelope();
    }
}

/// A mount that is removed with its test.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn trash_purge_keeps_files_on_a_mount() {
    let ws = Workspace::with(&[("d/a", "1"), ("d/m/below", "2"), ("d/z/y", "3")]);
    let id = trash_id(&ws.lbx(&["delete", "-r", "d"]).ok());
    let precious = precious(&ws);
    let content = ws.path(&state(&format!("trash/{id}/content")));
    let mounted = Command::new("mount").arg("--bind").arg(&precious).arg(content.join("m")).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        skipped("nothing can be mounted here");
        return;
    }
    let at = ws.path(&state(&format!("trash/.purged-{id}/content/m")));
    let mount = Mounted(at.clone());
    must_change_nothing_outside(&ws, "purge", || {
        let data = ws.lbx(&["trash", "purge"]).warned("mounted");
        assert_eq!(data["files"], 2);
    });
    assert!(at.join("file").exists() && precious.join("within/file").exists());
    // The entry is no longer the deleted one.
    assert_eq!(ws.lbx(&["trash"]).ok()["total"], 0);
    ws.lbx(&["restore", "d"]).error("not_found");
    drop(mount);
    let data = ws.lbx(&["trash", "purge"]).ok();
    assert_eq!(data["files"], 1);
    assert_eq!(names_in(&ws.path(&state("trash"))), Vec::<String>::new());
}

#[test]
fn gc_keeps_backups_that_redo_needs() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("gone.txt", "gone\n")]);
    ws.lbx(&["append", "a.txt", "--content", "b\n"]).ok();
    ws.lbx(&["delete", "gone.txt"]).ok();
    ws.lbx(&["append", "a.txt", "--content", "c\n"]).ok();
    age(&ws, 10);
    ws.lbx(&["undo", "--steps", "3"]).ok();
    ws.lbx(&["gc", "--keep-days", "5"]).ok();
    ws.lbx(&["redo"]).ok();
    ws.holds("a.txt", "a\nb\n");
    ws.lbx(&["gc", "--keep-days", "5"]).ok();
    ws.lbx(&["redo", "--steps", "2"]).ok();
    ws.holds("a.txt", "a\nb\nc\n");
    assert!(!ws.path("gone.txt").exists());
    ws.lbx(&["gc", "--keep-days", "5"]).ok();
    ws.lbx(&["undo", "--steps", "3"]).ok();
    ws.holds("a.txt", "a\n");
    ws.holds("gone.txt", "gone\n");
    // Without a bound all of it is removed, from the packed history too.
    assert!(ws.lbx(&["gc", "--keep-days", "0"]).ok()["by_kind"]["history"]["files"].as_u64().unwrap() >= 6);
    ws.lbx(&["redo"]).error("not_found");
}

/// Sets the times of the whole state back by `days`.
fn age(ws: &Workspace, days: u64) {
    let mut folders = vec![ws.path(&state(""))];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.display().to_string();
            if path.is_dir() && !name.ends_with("/content") {
                folders.push(path.clone());
            }
            let is_json = path.extension().is_some_and(|extension| extension == "lbx");
            if is_json && (name.contains("/journal/done/") || name.ends_with("/entry.lbx")) {
                change_state_file(&path, |entry| {
                    entry["time"] = (entry["time"].as_u64().unwrap() - days * 24 * 60 * 60).into();
                });
            }
            let touched =
                Command::new("touch").args(["-hd", &format!("{days} days ago")]).arg(&path).status();
            assert!(touched.unwrap().success());
        }
    }
}
