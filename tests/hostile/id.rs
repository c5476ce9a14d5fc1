//! The id of this account's state, which nobody else knows.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::common::{Call, STATE_ID, Workspace, make_fifo, skipped};
use crate::common_ground::names_in;

/// Variable with the id; an empty one counts as unset.
const VARIABLE: &str = "LBX_STATE_ID";

/// Creates a workspace whose user has no id yet.
fn without_id(files: &[(&str, &str)]) -> Workspace {
    let ws = Workspace::bare(files);
    fs::remove_dir_all(ws.outside.join("home/.local")).unwrap();
    ws
}

/// Prepares a call without an id in the environment.
fn call(ws: &Workspace, arguments: &[&str]) -> Call {
    ws.call(arguments).env(VARIABLE, "")
}

/// Returns the state that `config` shows.
#[track_caller]
fn shown(call: Call) -> Value {
    call.run().ok()["state"].take()
}

/// Returns the user's id file.
fn id_file(ws: &Workspace) -> PathBuf {
    ws.outside.join("home/.local/state/lbx/id")
}

/// Returns the states in a workspace.
fn states(ws: &Workspace) -> Vec<String> {
    names_in(&ws.path(".lbx")).into_iter().filter(|name| name.len() == 32).collect()
}

#[test]
fn state_id_is_created_at_first_change_with_private_mode() {
    let ws = without_id(&[("a.txt", "a\n")]);
    // Calls that only read create nothing.
    for look in [&["ls"][..], &["glob", "*"], &["grep", "a"], &["log"], &["session"], &["trash"], &["config"]]
    {
        let _ = call(&ws, look).run().success();
    }
    assert!(!ws.outside.join("home/.local").exists() && !ws.path(".lbx").exists());
    let file = id_file(&ws).display().to_string();
    assert_eq!(shown(call(&ws, &["config"])), json!({"from": "user", "file": file}));
    call(&ws, &["append", "a.txt", "--content", "b\n"]).run().ok();
    let secret = fs::read_to_string(id_file(&ws)).unwrap();
    let id = &states(&ws)[0];
    assert!(states(&ws).len() == 1 && *id != secret.trim(), "the folder's name tells nothing of the secret");
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(id_file(&ws)), 0o600);
    assert_eq!(mode(ws.outside.join("home/.local/state/lbx")), 0o700);
    assert_eq!(mode(ws.path(".lbx").join(id)), 0o700);
    assert_eq!(names_in(&ws.outside.join("home/.local/state/lbx")), ["id"]);
    let folder = format!(".lbx/{id}");
    assert_eq!(shown(call(&ws, &["config"])), json!({"from": "user", "file": file, "folder": folder}));
    call(&ws, &["undo"]).run().ok();
    ws.holds("a.txt", "a\n");
}

#[test]
fn concurrent_first_calls_share_one_state_id() {
    let ws = without_id(&[("a.txt", "")]);
    let calls: Vec<_> = (0..12)
        .map(|number| {
            let session = number.to_string();
            call(&ws, &["append", "a.txt", "--content", "x\n", "--session", &session]).spawn()
        })
        .collect();
    for call in calls {
        let output = call.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert_eq!(states(&ws).len(), 1);
    ws.holds("a.txt", "x\n".repeat(12));
    assert_eq!(names_in(&ws.outside.join("home/.local/state/lbx")), ["id"]);
}

#[test]
fn environment_variable_selects_the_state_id() {
    let ws = without_id(&[("a.txt", "a\n")]);
    let id = "00112233445566778899aabbccddeeff";
    ws.call(&["append", "a.txt", "--content", "b\n"]).env(VARIABLE, id).run().ok();
    assert_eq!(states(&ws), [id]);
    assert!(!id_file(&ws).exists());
    let folder = format!(".lbx/{id}");
    assert_eq!(
        shown(ws.call(&["config"]).env(VARIABLE, id)),
        json!({"from": "environment", "folder": folder})
    );
    for bad in ["x", "../../../../../../../../../../etc", &id.to_uppercase(), &format!("{id}0")] {
        let error = ws.call(&["undo"]).env(VARIABLE, bad).run().error("invalid_request");
        assert!(error["message"].as_str().unwrap().contains(VARIABLE), "{error}");
    }
    ws.holds("a.txt", "a\nb\n");
}

#[test]
fn state_id_is_derived_only_if_the_home_is_missing() {
    let nowhere = |ws: &Workspace| ws.outside.join("nowhere").into_os_string();
    let ws = without_id(&[("a.txt", "a\n")]);
    let derived = shown(call(&ws, &["config"]).env("HOME", nowhere(&ws)));
    assert_eq!(derived["from"], "derived");
    call(&ws, &["append", "a.txt", "--content", "b\n"]).env("HOME", nowhere(&ws)).run().ok();
    assert!(!ws.outside.join("nowhere").exists());
    assert_eq!(shown(call(&ws, &["config"]).env("HOME", nowhere(&ws))), derived);
    // The home folder exists again: others can know a derived id, so it no longer counts.
    assert_eq!(shown(call(&ws, &["config"]))["from"], "user");
    call(&ws, &["undo"]).run().error("not_found");
    assert_eq!(shown(call(&ws, &["config"]).env("HOME", nowhere(&ws))), derived);
    call(&ws, &["undo"]).env("HOME", nowhere(&ws)).run().ok();
    ws.holds("a.txt", "a\n");
    call(&ws, &["append", "a.txt", "--content", "b\n"]).run().ok();
    assert!(id_file(&ws).exists());
    assert_eq!(states(&ws).len(), 2);
}

#[test]
fn state_copied_from_another_workspace_is_ignored() {
    let ws = without_id(&[("a.txt", "a\n")]);
    call(&ws, &["read", "a.txt"]).run().ok();
    call(&ws, &["append", "a.txt", "--content", "b\n"]).run().ok();
    // A clone that brings the state, including its name.
    let other = ws.outside.join("clone");
    fs::create_dir(&other).unwrap();
    let copied = std::process::Command::new("cp").arg("-a").arg(ws.path(".lbx")).arg(&other).status();
    assert!(copied.unwrap().success());
    fs::write(other.join("a.txt"), "a\nb\n").unwrap();
    let there = |arguments: &[&str]| {
        Call::new(&other, &ws.outside.join("home")).env(VARIABLE, "").arguments(arguments)
    };
    there(&["undo"]).run().error("not_found");
    there(&["write", "a.txt", "--content", "x"]).run().error("not_read");
    assert_eq!(fs::read_to_string(other.join("a.txt")).unwrap(), "a\nb\n");
    // A moved workspace keeps its state.
    let moved = ws.outside.join("moved");
    fs::rename(&ws.root, &moved).unwrap();
    Call::new(&moved, &ws.outside.join("home")).env(VARIABLE, "").arguments(&["undo"]).run().ok();
    assert_eq!(fs::read_to_string(moved.join("a.txt")).unwrap(), "a\n");
    fs::rename(&moved, &ws.root).unwrap();
}

#[test]
fn read_only_home_gives_a_derived_state_id() {
    let ws = without_id(&[("a.txt", "a\n")]);
    fs::set_permissions(ws.outside.join("home"), fs::Permissions::from_mode(0o555)).unwrap();
    let Some(append) = ws.call_unprivileged(&["append", "a.txt", "--content", "b\n"]) else { return };
    append.env(VARIABLE, "").run().ok();
    let config = ws.call_unprivileged(&["config"]).unwrap().env(VARIABLE, "");
    assert_eq!(shown(config)["from"], "derived");
    fs::set_permissions(ws.outside.join("home"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn state_id_inside_the_workspace_is_ignored() {
    let ws = without_id(&[("a.txt", "a\n"), ("sub/b.txt", "b\n")]);
    let id = "00112233445566778899aabbccddeeff";
    ws.write(".local/state/lbx/id", format!("{id}\n"));
    ws.write("state/lbx/id", format!("{id}\n"));
    symlink(ws.path("state"), ws.outside.join("state")).unwrap();
    fs::create_dir_all(ws.path(".lbx").join(id)).unwrap();
    let homes = [("HOME", ws.root.clone()), ("XDG_STATE_HOME", ws.outside.join("state"))];
    for (variable, folder) in homes {
        let config = call(&ws, &["config"]).env(variable, folder);
        assert_eq!(shown(config)["from"], "derived", "{variable}");
    }
    // It is not created there either.
    fs::remove_dir_all(ws.path(".local")).unwrap();
    call(&ws, &["append", "a.txt", "--content", "b\n"]).env("HOME", &ws.root).run().warned("home folder");
    assert!(!ws.path(".local").exists());
}

#[test]
fn invalid_id_file_is_an_error_and_is_kept() {
    let ws = Workspace::bare(&[("a.txt", "a\n")]);
    let file = id_file(&ws);
    let shown = file.display().to_string();
    let set: [(&str, &dyn Fn()); 5] = [
        ("garbage", &|| fs::write(&file, "../../../../../../../../../../x\n").unwrap()),
        ("empty", &|| fs::write(&file, "").unwrap()),
        ("a FIFO", &|| make_fifo(&file)),
        ("a link", &|| symlink("/dev/zero", &file).unwrap()),
        ("a folder", &|| fs::create_dir(&file).unwrap()),
    ];
    for (what, set) in set {
        let _ = fs::remove_file(&file);
        set();
        let error = call(&ws, &["append", "a.txt", "--content", "b\n"]).run().error("io_error");
        assert_eq!(error["path"], shown.as_str(), "{what}");
        call(&ws, &["config"]).run().warned(&shown);
        let read = call(&ws, &["read", "a.txt"]).run().warned("cannot record the read");
        assert_eq!(read["content"], "a\n", "{what}");
    }
    fs::remove_dir(&file).unwrap();
    call(&ws, &["append", "a.txt", "--content", "b\n"]).run().ok();
    assert_ne!(states(&ws), [STATE_ID]);
}

#[test]
fn state_owned_by_another_user_is_rejected() {
    let ws = without_id(&[("a.txt", "a\n")]);
    call(&ws, &["append", "a.txt", "--content", "b\n"]).run().ok();
    let id = states(&ws).remove(0);
    let folder = format!(".lbx/{id}");
    if std::os::unix::fs::chown(ws.path(&folder), Some(1234), None).is_err() {
        skipped("only root may give a folder away");
        return;
    }
    for arguments in [&["append", "a.txt", "--content", "c\n"][..], &["undo"], &["session"]] {
        let error = call(&ws, arguments).run().error("permission_denied");
        assert_eq!(error["path"], json!(folder));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("belongs to the account 1234"), "{message}");
    }
    ws.holds("a.txt", "a\nb\n");
    // Accounts that share a state say so.
    call(&ws, &["append", "a.txt", "--content", "c\n"]).env(VARIABLE, &id).run().ok();
    ws.holds("a.txt", "a\nb\nc\n");
    // If the id file also belongs to that account, root works for it.
    std::os::unix::fs::chown(id_file(&ws), Some(1234), None).unwrap();
    call(&ws, &["undo"]).run().ok();
    ws.holds("a.txt", "a\nb\n");
}
