//! Warnings of a call that succeeds although one system call fails.

use std::collections::BTreeSet;

use crate::common::skip::can_trace;
use crate::common::{Workspace, state};
use crate::inject::{each, fail_at, points};

/// A workspace, the call made there, the system calls of which one fails, the errno, and the warning that it causes.
type Case = (fn() -> Workspace, &'static [&'static str], &'static [&'static str], &'static str, &'static str);

/// A call that changes a file.
const APPEND: &[&str] = &["prepend", "a.txt", "--content", "two\n"];
/// A call that changes another file.
const APPEND_B: &[&str] = &["prepend", "b.txt", "--content", "two\n"];
/// A call that commits for the developer.
const SQUASH: &[&str] = &["squash", "-m", "Do it", "--checked-out"];
/// System calls that rename a file.
const RENAMING: &[&str] = &["renameat", "renameat2", "rename"];

/// Creates a workspace with one change.
fn changed() -> Workspace {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    ws.lbx(APPEND).ok();
    ws
}

/// Creates a workspace with an unreadable journal entry.
fn with_damaged_entry() -> Workspace {
    let ws = changed();
    ws.write(&state("journal/open/0000-1-x"), "no entry\n");
    ws
}

/// Creates a workspace with a file of another account.
fn with_foreign_file() -> Workspace {
    let ws = changed();
    let is_root = rustix::process::geteuid().is_root();
    let owner = is_root.then_some(65534);
    std::os::unix::fs::chown(ws.path("a.txt"), owner, owner).unwrap();
    ws
}

/// Creates a workspace with a committer name.
fn with_developer() -> Workspace {
    let ws = changed();
    ws.git(&["config", "user.name", "Dev"]);
    ws.git(&["config", "user.email", "dev@example.org"]);
    ws
}

/// Creates a workspace with a command to redo that closes a folder, if commands can be confined here.
fn with_closed_folder() -> Workspace {
    let ws = changed();
    ws.write("d/c.txt", "c\n");
    if ws.lbx(&["bash", "chmod 555 d"]).envelope()["ok"] == true {
        ws.lbx(&["undo"]).ok();
    }
    ws
}

/// Returns true if the file system keeps extended attributes.
fn has_attributes(ws: &Workspace) -> bool {
    let file = std::fs::File::open(ws.path("a.txt")).unwrap();
    rustix::fs::flistxattr(&file, &mut [0; 100][..]).is_ok_and(|length| length > 0)
}

/// Creates a workspace with a file that has an extended attribute, if the file system keeps them.
fn with_attribute() -> Workspace {
    let ws = changed();
    let file = std::fs::File::open(ws.path("a.txt")).unwrap();
    let _ = rustix::fs::fsetxattr(&file, "user.note", b"kept", rustix::fs::XattrFlags::empty());
    ws
}

/// Returns the warnings of a call for each fault, one at a time.
fn warnings((before, call, faulty, errno, _): &Case) -> BTreeSet<String> {
    let before = before();
    let told = std::sync::Mutex::new(BTreeSet::new());
    let wrong = each(&points(&before.copy(), faulty, call), |point| {
        let output = fail_at(&before.copy(), point, errno, call);
        // Errors are checked elsewhere.
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let warnings = answer["warnings"].as_array().into_iter().flatten();
        told.lock().unwrap().extend(warnings.filter_map(|warning| Some(warning.as_str()?.to_owned())));
        Ok(())
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    told.into_inner().unwrap()
}

#[test]
fn failing_system_call_is_reported_as_a_warning() {
    if !can_trace() {
        return;
    }
    let mut cases: Vec<Case> = vec![
        (
            changed,
            APPEND,
            RENAMING,
            "EACCES",
            "the change was applied, but its journal entry could not be closed: ",
        ),
        (
            changed,
            APPEND,
            &[
                "write",
                "pwrite64",
                "flock",
                "ftruncate",
                "openat",
                "openat2",
                "link",
                "linkat",
                "unlinkat",
                "fsync",
            ],
            "EACCES",
            "the change was made, but the session could not record it, so read the file again",
        ),
        (changed, APPEND, &["write", "pwrite64"], "EIO", "the audit log could not be written: "),
        (with_damaged_entry, APPEND_B, RENAMING, "EACCES", "and it could not be put aside: "),
        (
            with_damaged_entry,
            &["read", "b.txt"],
            RENAMING,
            "EIO",
            "an earlier call was killed or failed half-way and is not settled: ",
        ),
        (with_developer, SQUASH, &["fsync"], "EIO", "a power failure may take the commit: "),
    ];
    if has_attributes(&with_attribute()) {
        let warning = "extended attributes could not be kept: user.note";
        cases.push((with_attribute, APPEND, &["fsetxattr"], "ENOSPC", warning));
    }
    if with_closed_folder().lbx(&["redo", "--dry-run"]).envelope()["ok"] == true {
        let warning = "the change was applied, but the permissions of a folder could not be set: ";
        cases.push((with_closed_folder, &["redo"], &["fchmodat"], "EPERM", warning));
    }
    if rustix::process::geteuid().is_root() {
        cases.push((
            with_foreign_file,
            APPEND,
            &["fchown"],
            "EPERM",
            "the file's owner (65534) could not be kept",
        ));
    }
    let mut missing = Vec::new();
    for case in cases {
        let (told, expected) = (warnings(&case), case.4);
        if !told.iter().any(|warning| warning.contains(expected)) {
            missing.push(format!("{:?}: no {expected:?} in {told:#?}", case.2));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
