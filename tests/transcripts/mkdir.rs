//! `mkdir`, as callers see it.

use crate::common::Workspace;

#[test]
fn undo_removes_a_folder_created_by_mkdir() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let made = ws.lbx(&["mkdir", "x/y/z"]).ok();
    assert_eq!(made["created"], true);
    assert!(ws.path("x/y/z").is_dir());
    assert_eq!(ws.lbx(&["mkdir", "x/y"]).ok()["created"], false);
    let undone = ws.lbx(&["undo"]).ok();
    assert_eq!(undone["undone"][0]["tool"], "mkdir");
    assert!(!ws.path("x").exists());
    ws.lbx(&["redo"]).ok();
    assert!(ws.path("x/y/z").is_dir());
}

#[test]
fn undo_of_mkdir_keeps_a_folder_with_files() {
    let ws = Workspace::with(&[]);
    ws.lbx(&["mkdir", "x"]).ok();
    ws.write("x/kept.txt", "kept\n");
    ws.lbx(&["undo"]).warned("the folder x stays: it is not empty");
    ws.holds("x/kept.txt", "kept\n");
}

#[test]
fn mkdir_rejects_existing_outside_and_protected_paths() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.lbx(&["mkdir", "a.txt"]).error("already_exists");
    ws.lbx(&["mkdir", "../outside"]).error("outside_workspace");
    ws.lbx(&["mkdir", ".git/hooks"]).error("protected_path");
    let tried = ws.lbx(&["mkdir", "x", "--dry-run"]).ok();
    assert_eq!(tried["created"], true);
    assert!(!ws.path("x").exists());
}
