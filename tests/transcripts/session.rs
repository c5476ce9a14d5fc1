//! Sessions: which files were read, and by which session.

use std::fs;

use serde_json::{Value, json};

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

/// Returns a workspace with so many files, all of them read, one call after another.
fn with_reads(count: usize) -> Workspace {
    let ws = Workspace::with(&[]);
    for at in 0..count {
        let name = format!("{}/{at}.txt", at % 3);
        ws.write(&name, "one\ntwo\n");
        ws.lbx(&["read", &name]).ok();
    }
    ws
}

/// Returns an edit of one of these files.
fn edit_of(at: usize) -> [String; 6] {
    let path = format!("{}/{at}.txt", at % 3);
    ["edit", &path, "--old-string", "one", "--new-string", "1"].map(str::to_owned)
}

#[test]
fn many_read_records_count_whichever_call_made_them() {
    let ws = with_reads(90);
    let file = ws.path(&state("sessions/default.lbx"));
    let newest = || {
        let text = fs::read_to_string(&file).unwrap();
        serde_json::from_str::<Value>(text.lines().next_back().unwrap()).unwrap()
    };
    // A call holds some of them, and looks the others up.
    assert!(newest()["marks"].as_array().unwrap().len() <= 24, "{}", newest());
    assert_eq!(newest()["version"], 2);
    assert_eq!(ws.lbx(&["session", "list"]).ok()["sessions"][0]["read"], 90);
    for at in [0, 1, 44, 89] {
        ws.lbx(&edit_of(at).each_ref().map(String::as_str)).ok();
    }
    assert_eq!(ws.lbx(&["session", "list"]).ok()["sessions"][0]["read"], 90);
    // A deleted or moved file takes its record along.
    ws.lbx(&["delete", "0/3.txt"]).ok();
    ws.lbx(&["move", "1", "moved"]).ok();
    assert_eq!(ws.lbx(&["session", "list"]).ok()["sessions"][0]["read"], 89);
    ws.lbx(&["edit", "moved/4.txt", "--old-string", "two", "--new-string", "2"]).ok();
    ws.write("0/3.txt", "one\ntwo\n");
    ws.lbx(&edit_of(3).each_ref().map(String::as_str)).error("not_read");
    // What is forgotten is nowhere in the file.
    ws.lbx(&["session", "forget", "moved"]).ok();
    assert!(!fs::read_to_string(&file).unwrap().contains("moved"));
    ws.lbx(&["edit", "moved/4.txt", "--old-string", "2", "--new-string", "two"]).error("not_read");
    ws.lbx(&edit_of(5).each_ref().map(String::as_str)).ok();
    ws.lbx(&["session", "compact"]).ok();
    assert_eq!(newest()["version"], 1);
    ws.lbx(&edit_of(6).each_ref().map(String::as_str)).error("not_read");
    assert!(ws.lbx(&["session"]).ok()["compacted"].as_array().unwrap().len() > 1);
}

#[test]
fn session_with_many_reads_is_whole_at_every_length_of_its_file() {
    let ws = with_reads(50);
    let file = ws.path(&state("sessions/default.lbx"));
    let held = |bytes: &[u8]| {
        let line = bytes.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap();
        serde_json::from_slice::<Value>(line).unwrap()["marks"].as_array().unwrap().len()
    };
    // A call that moves what the state held into the tree.
    let (mut at, mut before, mut after) = (50_usize, fs::read(&file).unwrap(), Vec::new());
    while !after.starts_with(&before) || held(&after) > 0 {
        if !after.is_empty() {
            before = after;
        }
        ws.write(&format!("{}/{at}.txt", at % 3), "one\n");
        ws.lbx(&["read", &format!("{}/{at}.txt", at % 3)]).ok();
        (at, after) = (at + 1, fs::read(&file).unwrap());
    }
    for length in (before.len()..after.len()).step_by(397).chain([after.len() - 1]) {
        fs::write(&file, &after[..length]).unwrap();
        // Nothing that was read before is lost, or counts as damaged.
        let listed = ws.lbx(&["session", "list"]).ok();
        let read = listed["sessions"][0]["read"].as_u64().unwrap();
        assert_eq!(read, if length < after.len() - 1 { at as u64 - 1 } else { at as u64 }, "{length}");
        ws.write("new.txt", "one\n");
        ws.lbx(&["read", "new.txt"]).ok();
        let listed = ws.lbx(&["session", "list"]).ok();
        assert_eq!(listed["sessions"][0]["read"], read + 1, "{length}: {listed}");
    }
}

#[test]
fn damaged_read_records_are_named_and_never_believed() {
    let ws = with_reads(90);
    let file = ws.path(&state("sessions/default.lbx"));
    let text = fs::read_to_string(&file).unwrap();
    let newest = text.trim_end().rfind('\n').unwrap();
    // The digest of another text in a record that the newest state does not hold itself.
    let (blocks, state_line) = text.split_at(newest + 1);
    assert!(!state_line.contains("1/1.txt"), "{state_line}");
    let digest = ws.lbx(&["read", "1/1.txt"]).ok()["sha256"].as_str().unwrap().to_owned();
    let forged = "0".repeat(digest.len());
    fs::write(&file, blocks.replace(&digest, &forged) + state_line).unwrap();
    ws.lbx(&edit_of(1).each_ref().map(String::as_str)).error("not_read");
    let said = ws.lbx(&["read", "1/1.txt"]).warned("the session's state file was damaged");
    assert_eq!(said["content"], "one\ntwo\n");
    assert!(ws.state_file("damaged").exists());
    ws.lbx(&edit_of(1).each_ref().map(String::as_str)).ok();
    ws.lbx(&edit_of(2).each_ref().map(String::as_str)).error("not_read");
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
        let data = read.run().warned("cannot record the read");
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
