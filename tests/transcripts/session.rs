//! Sessions: which files were read, and by which session.

use std::fs;

use serde_json::json;

use crate::common::{Workspace, state};

const EDIT: [&str; 6] = ["edit", "a.txt", "--old-string", "one", "--new-string", "two"];

#[test]
fn reads_of_one_session_do_not_count_for_another() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt", "--session", "alice"]).ok();
    ws.lbx(&EDIT).error("not_read");
    ws.call(&EDIT).arguments(&["--session", "bob"]).run().error("not_read");
    ws.call(&EDIT).arguments(&["--session", "alice"]).run().ok();
    // Bob read before Alice's change, so he must read again.
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt", "--session", "alice"]).ok();
    ws.lbx(&["read", "a.txt", "--session", "bob"]).ok();
    ws.call(&EDIT).arguments(&["--session", "alice"]).run().ok();
    ws.lbx(&["write", "a.txt", "--content", "bob", "--session", "bob"]).error("stale_file");
    let trailers = ws.git(&["log", "-1", "--format=%(trailers)", "lbx-snapshots"]);
    for trailer in ["Lbx-Session: alice", "Lbx-Tool: edit", "Lbx-Seq: 1"] {
        assert!(trailers.contains(trailer), "{trailers}");
    }
}

#[test]
fn session_id_is_validated() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let long = "x".repeat(101);
    for id in ["../x", "a/b", ".hidden", "a b", "ä", "", "a\nb", &long, "-x;rm", "a\u{0}b"] {
        if id.contains('\0') {
            ws.json("read", &json!({"path": "a.txt", "session": id})).error("invalid_request");
        } else {
            let flag = format!("--session={id}");
            let answer = ws.lbx(&["read", "a.txt", &flag]);
            answer.error("invalid_request");
        }
    }
    let longest = "x".repeat(100);
    for id in ["a", "A.b_c-9", "0", &longest] {
        ws.lbx(&["read", "a.txt", "--session", id]).ok();
    }
    assert!(!ws.outside.join("x").exists());
}

#[test]
fn read_refreshes_a_stale_read_record() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.write("a.txt", "one!\n");
    ws.lbx(&EDIT).error("stale_file");
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&EDIT).ok();
    ws.holds("a.txt", "two!\n");
}

#[test]
fn file_changed_back_to_its_read_content_can_be_edited() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.write("a.txt", "other\n");
    ws.write("a.txt", "one\n");
    ws.lbx(&EDIT).ok();
}

#[test]
fn file_replaced_after_the_read_is_stale() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "one more\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    fs::rename(ws.path("b.txt"), ws.path("a.txt")).unwrap();
    ws.lbx(&EDIT).error("stale_file");
    fs::remove_file(ws.path("a.txt")).unwrap();
    ws.lbx(&EDIT).error("not_found");
}

#[test]
fn damaged_session_file_is_moved_aside() {
    for damage in ["{", "no json", "[]", r#"{"version":1,"marks":7}"#, r#"{"marks":[]}"#] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        ws.lbx(&["read", "a.txt"]).ok();
        let state = ws.path(&state("sessions/default.lbx"));
        fs::write(&state, damage).unwrap();
        ws.unchanged(|| ws.lbx(&EDIT).error("not_read"));
        assert!(ws.state_file("damaged").exists(), "{damage:?}");
        ws.lbx(&["read", "a.txt"]).ok();
        ws.lbx(&EDIT).ok();
    }
}

#[test]
fn emptied_session_file_counts_as_nothing_read() {
    for emptied in ["", "\u{0}\u{0}"] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        ws.lbx(&["read", "a.txt"]).ok();
        fs::write(ws.path(&state("sessions/default.lbx")), emptied).unwrap();
        ws.unchanged(|| ws.lbx(&EDIT).error("not_read"));
        ws.lbx(&["read", "a.txt"]).ok();
        ws.lbx(&EDIT).ok();
    }
}

#[test]
fn last_complete_line_of_a_session_file_counts() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
    let file = ws.path(&state("sessions/default.lbx"));
    ws.lbx(&["read", "a.txt"]).ok();
    let read_one = fs::read(&file).unwrap();
    ws.lbx(&["read", "b.txt"]).ok();
    let read_both = fs::read(&file).unwrap();
    assert!(read_both.starts_with(&read_one));
    // A killed call left half a line: only the file that it had read must be read again.
    fs::write(&file, &read_both[..read_both.len() - 2]).unwrap();
    ws.unchanged(|| ws.lbx(&["write", "b.txt", "--content", "x"]).error("not_read"));
    ws.lbx(&EDIT).ok();
    let lines = fs::read_to_string(&file).unwrap();
    assert_eq!(lines.lines().count(), 3, "{lines}");
    ws.lbx(&["read", "b.txt"]).ok();

    // No line holds the data that the session forgets.
    ws.lbx(&["session", "end"]).ok();
    let ended = fs::read_to_string(&file).unwrap();
    assert_eq!(ended.lines().count(), 1, "{ended}");
    assert!(!ended.contains("a.txt"), "{ended}");
}

#[test]
fn session_file_stays_small() {
    let ws = Workspace::with(&[]);
    let names: Vec<String> = (0..60).map(|at| format!("{at}-{}", "x".repeat(200))).collect();
    for name in &names {
        ws.write(name, "one\n");
        ws.lbx(&["read", name]).ok();
        assert!(fs::metadata(ws.path(&state("sessions/default.lbx"))).unwrap().len() < 32 << 10);
    }
    // Nothing was forgotten.
    for name in [&names[0], &names[59]] {
        ws.lbx(&["edit", name, "--old-string", "one", "--new-string", "two"]).ok();
    }
}

#[test]
fn hard_linked_session_file_is_never_appended_to() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let file = ws.path(&state("sessions/default.lbx"));
    ws.lbx(&["read", "a.txt"]).ok();
    let before = fs::read(&file).unwrap();
    fs::hard_link(&file, ws.path("other-name")).unwrap();
    ws.lbx(&EDIT).ok();
    assert_eq!(ws.read_bytes("other-name"), before);
}

#[test]
fn damaged_session_file_is_a_warning() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    fs::write(ws.path(&state("sessions/default.lbx")), "{").unwrap();
    ws.lbx(&["read", "a.txt"]).warned("damaged");
    ws.lbx(&EDIT).ok();
}

#[test]
fn symlink_as_session_file_is_treated_as_damaged() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let state = ws.path(&state("sessions/default.lbx"));
    fs::remove_file(&state).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &state).unwrap();
    ws.lbx(&["read", "a.txt"]).warned("damaged");
    ws.lbx(&EDIT).ok();
}

#[test]
fn session_file_of_a_newer_version_is_an_error() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let state = ws.path(&state("sessions/default.lbx"));
    let newer = r#"{"version":99,"marks":"in another form"}"#;
    fs::write(&state, newer).unwrap();
    ws.unchanged(|| {
        let error = ws.lbx(&EDIT).error("io_error");
        assert!(error["message"].as_str().unwrap().contains("newer"), "{error}");
    });
    assert_eq!(fs::read_to_string(&state).unwrap(), newer);
    // Reading needs no session.
    assert_eq!(ws.lbx(&["read", "a.txt"]).warned("newer")["content"], "one\n");
    // Another session is not affected.
    ws.lbx(&["read", "a.txt", "--session", "other"]).ok();
}

#[test]
fn git_status_hides_the_lbx_state() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&EDIT).ok();
    assert_eq!(ws.git(&["status", "--porcelain"]), " M a.txt");
    let tracked = ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]);
    assert_eq!(tracked, "a.txt");
}

#[test]
fn read_works_in_an_unwritable_workspace() {
    let ws = Workspace::bare(&[("a.txt", "one\n")]);
    ws.chmod(".", 0o555);
    let calls = [&["read", "a.txt"][..], &["write", "b.txt", "--content", "b"]];
    if let [Some(read), Some(write)] = calls.map(|call| ws.call_unprivileged(call)) {
        let data = read.run().warned("could not be noted");
        assert_eq!(data["content"], "one\n");
        write.run().error("permission_denied");
    }
    ws.chmod(".", 0o755);
}

#[test]
fn each_session_has_its_own_state_file() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for session in 0..20 {
        ws.lbx(&["read", "a.txt", "--session", &format!("s{session}")]).ok();
    }
    let files = fs::read_dir(ws.path(&state("sessions"))).unwrap();
    let states =
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|kind| kind == "lbx"));
    assert_eq!(states.count(), 20);
}
