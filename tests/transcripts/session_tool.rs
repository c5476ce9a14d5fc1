//! Reads and changes of a session, for a caller that no longer remembers them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use crate::common::{Workspace, make_fifo, state};

/// Returns lines with the numbers 1 to `last`.
fn numbered(last: u32) -> String {
    (1..=last).map(|number| format!("{number}\n")).collect()
}

/// Returns the status of the caller's session.
#[track_caller]
fn status(ws: &Workspace) -> Value {
    let mut data = ws.lbx(&["session"]).ok();
    data.as_object_mut().unwrap().remove("session");
    data
}

#[test]
fn session_status_lists_fresh_stale_and_gone_files() {
    let ws =
        Workspace::with(&[("a.txt", "a\n"), ("b.txt", &numbered(50)), ("c.txt", "c\n"), ("d.txt", "d\n")]);
    assert_eq!(status(&ws), json!({"changes": 0}));
    assert!(!ws.path(".lbx").exists());
    for path in ["a.txt", "c.txt", "d.txt"] {
        ws.lbx(&["read", path]).ok();
    }
    ws.lbx(&["read", "b.txt", "--start-line", "3", "--end-line", "9"]).ok();
    ws.lbx(&["read", "b.txt", "--start-line", "20", "--end-line", "20"]).ok();
    ws.write("c.txt", "C\n");
    fs::remove_file(ws.path("d.txt")).unwrap();
    let wanted =
        json!({"changes": 0, "fresh": ["a.txt", "b.txt:3-9,20"], "stale": ["c.txt"], "gone": ["d.txt"]});
    assert_eq!(status(&ws), wanted);
    // Another session has read nothing.
    assert_eq!(
        ws.lbx(&["session", "status", "--session", "other"]).ok(),
        json!({"session": "other", "changes": 0})
    );
    // A file with its old content is fresh again.
    ws.write("c.txt", "c\n");
    assert_eq!(status(&ws)["fresh"], json!(["a.txt", "b.txt:3-9,20", "c.txt"]));
    // Another type of file in its place does not count as read.
    fs::remove_file(ws.path("a.txt")).unwrap();
    make_fifo(&ws.path("a.txt"));
    assert_eq!(status(&ws)["stale"], json!(["a.txt"]));
    // Paths are relative to the caller's folder.
    fs::create_dir(ws.path("sub")).unwrap();
    let below = ws.call(&["session"]).in_folder(&ws.path("sub")).run().ok();
    assert_eq!(below["gone"], json!(["../d.txt"]));
}

#[test]
fn session_status_shows_the_net_effect_of_changes() {
    let ws = Workspace::with(&[
        ("a.txt", &numbered(9)),
        ("b.txt", "b\n"),
        ("c.txt", "1\n2\n"),
        ("d.txt", "d\n"),
        ("e/f.txt", "f\n"),
        ("g.txt", "g\n"),
    ]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "3\n", "--new-string", "three\ndrei\n"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "9\n", "--new-string", ""]).ok();
    // After an undo it shows nothing.
    ws.lbx(&["append", "b.txt", "--content", "x\n"]).ok();
    ws.lbx(&["undo"]).ok();
    ws.lbx(&["delete", "c.txt"]).ok();
    ws.lbx(&["move", "d.txt", "moved.txt"]).ok();
    ws.lbx(&["append", "moved.txt", "--content", "more\n"]).ok();
    ws.lbx(&["delete", "e", "--recursive"]).ok();
    ws.lbx(&["write", "new.txt", "--content", "1\n2\n"]).ok();
    ws.lbx(&["write", "gone.txt", "--content", "x"]).ok();
    ws.lbx(&["delete", "gone.txt"]).ok();
    ws.lbx(&["append", "g.txt", "--content", "never read\n"]).ok();
    let found = status(&ws);
    assert_eq!(found["fresh"], json!(["a.txt +2 -2", "new.txt +2 new"]), "{found}");
    assert_eq!(
        found["changed"],
        json!(["c.txt -2 deleted", "e deleted", "g.txt +1 -0", "moved.txt +1 was d.txt"]),
        "{found}"
    );
    ws.lbx(&["undo", "--steps", "20"]).ok();
    let found = status(&ws);
    assert_eq!(found.get("changed"), None, "{found}");
    assert_eq!(found["fresh"], json!(["a.txt"]), "{found}");
    // Without git, and for ignored files, it works in the same way.
    let ws = Workspace::bare(&[("a.txt", "a\n")]);
    ws.lbx(&["append", "a.txt", "--content", "b\n"]).success();
    assert_eq!(status(&ws)["changed"], json!(["a.txt +1 -0"]));
}

#[test]
fn session_status_omits_what_cancels_out() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["append a x", "append a y"], &["a +2 -0"]),
        (&["append a x", "undo"], &[]),
        (&["write n 2"], &["n +1 new"]),
        (&["write n 2", "undo"], &[]),
        (&["write n 2", "delete n"], &[]),
        (&["bash rm a"], &["a -1 deleted"]),
        (&["bash rm a", "write a 3"], &["a +1 -1"]),
        (&["move a b"], &["b was a"]),
        (&["move a b", "move b a"], &[]),
        (&["move a b", "move b c"], &["c was a"]),
        (&["move a b", "append b x"], &["b +1 was a"]),
        (&["append a x", "move a b"], &["b +1 was a"]),
        (&["write n 1", "move n m"], &["m +1 new"]),
        (&["delete a"], &["a -1 deleted"]),
        (&["delete a", "restore a"], &[]),
        (&["write n 1", "delete n"], &[]),
        (&["write n 1", "delete n", "restore n --to m"], &["m +1 new"]),
        (&["append a x", "delete a"], &["a -1 deleted"]),
        (&["delete a", "write a 3"], &["a +1 -1"]),
        (&["delete a", "session end", "restore a"], &["a +1 new"]),
        (&["append d/a x", "move d e"], &["e was d", "e/a +1 -0"]),
        (&["move d e", "move e/a f"], &["e was d", "f was d/a"]),
        (&["move d e", "move e/a f", "move e d"], &["f was d/a"]),
        (&["move a b", "write a 1"], &["a +1 new", "b was a"]),
        (&["move a b", "append b x", "bash rm b", "write a 1"], &["a"]),
        (&["move a b", "append b x", "bash rm b", "write a 3"], &["a +1 -1"]),
        (&["move a b", "bash rm b"], &["a -1 deleted"]),
        (&["move a t", "move k a", "move t k"], &["a was k", "k was a"]),
        // An undo, or redo, of several moves is one change, with a temporary name.
        (&["move a t", "move k a", "move t k", "undo --steps 3"], &[]),
        (&["move a t", "move k a", "move t k", "undo --steps 3", "redo --steps 3"], &["a was k", "k was a"]),
    ];
    for (steps, wanted) in cases {
        let ws = Workspace::bare(&[("a", "1\n"), ("k", "5\n"), ("d/a", "1\n"), ("d/b", "4\n")]);
        for step in *steps {
            let words: Vec<&str> = step.split(' ').collect();
            match words.as_slice() {
                [tool @ ("append" | "write"), path, text] => {
                    ws.lbx(&[tool, path, "--content", &format!("{text}\n")]).success();
                }
                ["bash", ..] => drop(ws.lbx(&["bash", &step[5..]]).success()),
                words => drop(ws.lbx(words).success()),
            }
        }
        let found = status(&ws);
        let lists = ["fresh", "changed"].map(|list| found[list].as_array().cloned().unwrap_or_default());
        let mut shown: Vec<String> =
            lists.iter().flatten().map(|entry| entry.as_str().unwrap().to_owned()).collect();
        shown.retain(|entry| wanted.contains(&entry.as_str()) || entry.contains(' '));
        shown.sort();
        assert_eq!(shown, *wanted, "{steps:?} {found}");
    }
}

#[test]
fn long_session_status_groups_paths_by_folder() {
    // Only a long one does.
    let long = ["l", "m", "n", "o"].map(|letter| letter.repeat(240)).join("/");
    let cases: &[(&[&str], &str)] = &[
        (&["a.rs", "b.rs:1,3-4"], "L/{a.rs, b.rs:1,3-4}"),
        (&["x/y/a.rs"], "L/x/y/a.rs"),
        (&["x/y/a.rs", "x/y/b.rs", "z.rs"], "L/{x/y/{a.rs, b.rs}, z.rs}"),
        (&["x/a.rs", "x/b.rs", "y/a"], "L/{x/{a.rs, b.rs}, y/a}"),
        (&["a,b", "c"], "L/a,b L/c"),
        (&["c", "{a}"], "L/c L/{a}"),
    ];
    for (paths, wanted) in cases {
        let ws = Workspace::bare(&[]);
        for path in *paths {
            let (name, lines) = path.split_once(':').unwrap_or((path, ""));
            let file = format!("{long}/{name}");
            ws.write(&file, numbered(9));
            let ranges = if lines.is_empty() { vec!["1-9"] } else { lines.split(',').collect() };
            for range in ranges {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                ws.lbx(&["read", &file, "--start-line", first, "--end-line", last]).ok();
            }
        }
        let shown = |found: &Value| {
            let entries = found["fresh"].as_array().unwrap().iter().map(|entry| entry.as_str().unwrap());
            entries.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&status(&ws)), wanted.replace('L', &long), "{paths:?}");
        let sub = ws.path("sub");
        fs::create_dir(&sub).unwrap();
        let below = shown(&ws.call(&["session"]).in_folder(&sub).run().ok());
        assert_eq!(below, wanted.replace('L', &format!("../{long}")), "{paths:?}");
    }
}

#[test]
fn session_status_counts_errors_and_lists_the_last() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let edit = ["edit", "a.txt", "--old-string", "x", "--new-string", "y"];
    ws.lbx(&edit).error("not_read");
    ws.lbx(&["read", "a.txt"]).ok();
    for _ in 0..3 {
        ws.lbx(&edit).error("no_match");
    }
    ws.call(&edit).arguments(&["--session", "other"]).run().error("not_read");
    ws.lbx(&["write", "../out", "--content", "x"]).error("outside_workspace");
    let found = status(&ws);
    assert_eq!(
        found["refused"],
        json!({"count": 5, "last": ["write ../out: outside_workspace", "edit a.txt: no_match"]})
    );
}

/// Creates a workspace in which lines of each file were read and one was changed.
fn workspace_with_reads_and_edits(names: &[String]) -> Workspace {
    let lines = numbered(60);
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), lines.as_str())).collect();
    let ws = Workspace::with(&files);
    for name in names {
        ws.lbx(&["read", name, "--start-line", "3", "--end-line", "40"]).ok();
        ws.lbx(&["edit", name, "--old-string", "7\n8\n", "--new-string", "seven\n8\n"]).ok();
    }
    ws
}

#[test]
fn session_status_of_twenty_files_is_below_a_kilobyte() {
    let names: Vec<String> =
        (1..=20).map(|number| format!("src/module_{number:02}/file_{number:02}.rs")).collect();
    let ws = workspace_with_reads_and_edits(&names);
    for name in names.iter().take(3) {
        ws.lbx(&["edit", name, "--old-string", "none", "--new-string", "x"]).error("no_match");
    }
    let json = ws.lbx(&["session"]).stdout_text();
    assert!(json.len() < 1000, "{}: {json}", json.len());
    assert!(json.contains("src/module_20/file_20.rs:3-40 +1 -1"), "{json}");
    let text = ws.lbx(&["session", "-t"]).stdout_text();
    assert!(text.len() < 1100 && text.lines().count() == 23, "{}: {text}", text.len());
}

#[test]
fn session_status_of_twenty_long_paths_is_below_a_kilobyte() {
    let folder = "packages/application/src/main/java/com/example/organisation/department";
    let names: Vec<String> = (1..=20)
        .map(|number| format!("{folder}/service{}/CustomerService{number}.java", number % 3))
        .collect();
    let ws = workspace_with_reads_and_edits(&names);
    ws.write(&names[0], "x\n");
    let json = ws.lbx(&["session"]).stdout_text();
    assert!(json.len() < 1000, "{}: {json}", json.len());
    // Each folder is named once, and each file with its notes.
    let within = format!(
        "{folder}/{{service0/{{CustomerService12.java:3-40 +1 -1, CustomerService15.java:3-40 +1 -1, "
    );
    assert!(json.contains(&within), "{json}");
    assert!(
        json.contains(&format!("\"stale\":[\"{folder}/service1/CustomerService1.java +1 -1\"]")),
        "{json}"
    );
    // As text each has a line of its own.
    let text = ws.lbx(&["session", "-t"]).stdout_text();
    assert!(names.iter().all(|name| text.contains(name.as_str())), "{text}");
}

#[test]
fn long_session_status_continues_at_next_offset() {
    let names: Vec<String> = (0..40).map(|number| format!("file_{number:02}.txt")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x\n")).collect();
    let ws = Workspace::with(&files);
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    ws.call(&["read"]).arguments(&["--json", &json!({"paths": all}).to_string()]).run().ok();
    let (mut seen, mut offset) = (Vec::new(), 0);
    loop {
        let data = ws.json("session", &json!({"max_bytes": 200, "offset": offset})).ok();
        let fresh = data["fresh"].as_array().unwrap().clone();
        assert!(!fresh.is_empty() && fresh.len() < 20, "{data}");
        seen.extend(fresh.into_iter().map(|name| name.as_str().unwrap().to_owned()));
        match data["next_offset"].as_u64() {
            Some(next) => {
                assert_eq!(data["truncated"], true);
                offset = next;
            }
            None => break,
        }
    }
    assert_eq!(seen, names);
    assert_eq!(ws.lbx(&["session", "status", "file_07.txt"]).ok()["fresh"], json!(["file_07.txt"]));
    ws.lbx(&["session", "status", "none.txt"]).warned("nothing of that was read or changed");
    let brief = ws.lbx(&["session", "brief", "--max-bytes", "100"]).ok();
    assert!(brief["brief"].as_str().unwrap().contains("more paths are not shown"), "{brief}");
}

#[test]
fn session_compact_requires_files_to_be_read_again() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n")]);
    let write = ["write", "a.txt", "--content", "A\n"];
    for path in ["a.txt", "b.txt"] {
        ws.lbx(&["read", path]).ok();
    }
    assert_eq!(ws.lbx(&["session", "compact", "--dry-run"]).ok()["forgotten"], 2);
    assert_eq!(status(&ws)["fresh"], json!(["a.txt", "b.txt"]));
    assert_eq!(ws.lbx(&["session", "compact"]).ok()["forgotten"], 2);
    assert_eq!(status(&ws), json!({"changes": 0, "compacted": ["a.txt", "b.txt"]}));
    ws.lbx(&write).error("not_read");
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&write).ok();
    let found = status(&ws);
    assert_eq!((&found["fresh"], &found["compacted"]), (&json!(["a.txt +1 -1"]), &json!(["b.txt"])));
    // A second one remembers the first.
    ws.lbx(&["session", "compact"]).ok();
    assert_eq!(status(&ws)["compacted"], json!(["a.txt +1 -1", "b.txt"]));
    ws.lbx(&["undo"]).ok();
}

#[test]
fn session_forget_makes_files_unread() {
    let ws =
        Workspace::with(&[("a.txt", "a\n"), ("d/b.txt", "b\n"), ("d/e/c.txt", "c\n"), ("da.txt", "x\n")]);
    for path in ["a.txt", "d/b.txt", "d/e/c.txt", "da.txt"] {
        ws.lbx(&["read", path]).ok();
    }
    assert_eq!(ws.lbx(&["session", "forget", "d", "a.txt", "--dry-run"]).ok()["forgotten"], 3);
    assert_eq!(ws.lbx(&["session", "forget", "d", "a.txt"]).ok()["forgotten"], 3);
    assert_eq!(status(&ws), json!({"changes": 0, "fresh": ["da.txt"]}));
    ws.lbx(&["write", "a.txt", "--content", "x"]).error("not_read");
    ws.lbx(&["session", "forget", "a.txt"]).warned("nothing of that was read");
    // A deleted file can be forgotten too.
    fs::remove_file(ws.path("da.txt")).unwrap();
    assert_eq!(status(&ws)["gone"], json!(["da.txt"]));
    assert_eq!(ws.json("session", &json!({"action": "forget", "paths": "da.txt"})).ok()["forgotten"], 1);
    assert_eq!(status(&ws).get("gone"), None);
    ws.lbx(&["session", "forget"]).error("invalid_request");
    ws.lbx(&["session", "compact", "a.txt"]).error("invalid_request");
    ws.lbx(&["session", "forget", "../x"]).error("outside_workspace");
    ws.lbx(&["session", "forgt", "a.txt"]).error("invalid_request");
}

#[test]
fn session_list_puts_the_last_used_first() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    assert_eq!(ws.lbx(&["session", "list"]).ok()["sessions"], json!([]));
    ws.lbx(&["read", "a.txt", "--session", "old"]).ok();
    let touched = std::process::Command::new("touch")
        .args(["-d", "2 days ago"])
        .arg(ws.path(&state("sessions/old.lbx")))
        .status();
    assert!(touched.unwrap().success());
    ws.lbx(&["write", "b.txt", "--content", "b", "--session", "new"]).ok();
    ws.write(&state("sessions/broken.lbx"), "{");
    let listed = ws.lbx(&["session", "list", "--session", "old"]).ok();
    let sessions = listed["sessions"].as_array().unwrap();
    let of = |name: &str| sessions.iter().find(|session| session["session"] == name).unwrap();
    assert_eq!((sessions.len(), &sessions[2]["session"]), (3, &json!("old")), "{listed}");
    assert_eq!(
        (&of("old")["read"], &of("old")["changes"], &of("old")["current"]),
        (&json!(1), &json!(0), &json!(true))
    );
    assert_eq!((&of("new")["read"], &of("new")["changes"]), (&json!(1), &json!(1)));
    assert!(of("new")["time"].as_str().unwrap().ends_with('Z'));
    assert_eq!(of("broken").get("read"), None);
    // Reading the states of others does not change them.
    assert_eq!(ws.read_bytes(&state("sessions/broken.lbx")), b"{");
    let page = ws.json("session", &json!({"action": "list", "max_bytes": 1})).ok();
    assert_eq!((page["sessions"].as_array().unwrap().len(), &page["next_offset"]), (1, &json!(1)));
}

#[test]
fn session_end_clears_reads_but_keeps_undo() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "A\n"]).ok();
    ws.lbx(&["session", "end", "--dry-run"]).ok();
    assert_eq!(status(&ws)["changes"], 1);
    assert_eq!(ws.lbx(&["session", "end"]).ok()["forgotten"], 1);
    assert_eq!(status(&ws), json!({"changes": 0}));
    assert_eq!(ws.lbx(&["session", "list"]).ok()["sessions"], json!([]));
    ws.lbx(&["write", "a.txt", "--content", "x"]).error("not_read");
    // The numbers continue, so that no change takes the place of another, and undo reaches back.
    ws.lbx(&["read", "b.txt"]).ok();
    ws.lbx(&["write", "b.txt", "--content", "B\n"]).ok();
    let found = status(&ws);
    assert_eq!((&found["changes"], &found["fresh"]), (&json!(1), &json!(["b.txt +1 -1"])));
    assert_eq!(ws.lbx(&["session", "list"]).ok()["sessions"][0]["changes"], 1);
    assert_eq!(ws.lbx(&["undo", "--steps", "2"]).ok()["undone"].as_array().unwrap().len(), 2);
    ws.holds("a.txt", "a\n");
}

#[test]
fn session_brief_describes_reads_changes_and_errors() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", &numbered(30)), ("c.txt", "c\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["read", "b.txt", "--limit", "5"]).ok();
    ws.lbx(&["read", "c.txt"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "A\n"]).ok();
    ws.write("a.txt", "someone else\n");
    ws.write("c.txt", "C\n");
    ws.lbx(&["write", "c.txt", "--content", "x"]).error("stale_file");
    let text = ws.lbx(&["session", "brief", "-t"]).stdout_text();
    for part in [
        "Resuming lbx session default, in /",
        "It made one change, at ",
        "\n- a.txt +1 -1 (changed by someone else since: read again)\n",
        "\nRead, and unchanged since (lines, where not all were shown):\n- b.txt:1-5\n",
        "\nRead, and changed by someone else since; read again before any change:\n- c.txt\n",
        "\nRefused calls (1), the last ones:\n- write c.txt: stale_file\n",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert_eq!(ws.lbx(&["session", "brief"]).ok()["brief"], text);
    let nothing = ws.lbx(&["session", "brief", "--session", "fresh"]).ok();
    assert!(nothing["brief"].as_str().unwrap().contains("It has not changed anything."), "{nothing}");
}

#[test]
fn session_status_handles_odd_names_and_damaged_state() {
    let ws = Workspace::bare(&[]);
    fs::write(ws.root.join(OsStr::from_bytes(b"a\xff.txt")), "a\n").unwrap();
    ws.write("with: colon.txt", "a\n");
    ws.lbx(&["grep", "a", "--mark"]).success();
    let data = ws.lbx(&["session"]).warned("a name is not UTF-8 and is shown lossily");
    assert_eq!(data["fresh"], json!(["a\u{fffd}.txt", "with: colon.txt"]));
    // A damaged state is ignored, with a warning.
    ws.write(&state("sessions/default.lbx"), "{");
    let data = ws.lbx(&["session"]).warned("damaged");
    assert_eq!(data, json!({"session": "default", "changes": 0}));
    ws.write(&state("sessions/default.lbx"), "{\"version\":99}");
    let error = ws.lbx(&["session"]).error("io_error");
    let file = state("sessions/default.lbx");
    assert!(error["message"].as_str().unwrap().starts_with(&file), "{error}");
    ws.lbx(&["session", "list"]).ok();
}

#[test]
fn session_reads_no_stdin_and_needs_no_write_access() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.call(&["session"]).stdin_never_closes().run().ok();
    // The folders are read-only, but root may still write.
    for path in [state("sessions").as_str(), ".lbx", "."] {
        ws.chmod(path, 0o555);
    }
    let data = ws.lbx(&["session"]).ok();
    ws.lbx(&["session", "brief"]).ok();
    ws.lbx(&["session", "list"]).ok();
    for path in [".", ".lbx", state("sessions").as_str()] {
        ws.chmod(path, 0o755);
    }
    assert_eq!(data["fresh"], json!(["a.txt"]));
}

#[test]
fn example_hook_compacts_and_briefs_the_harness_session() {
    use std::io::Write;
    use std::process::{Command, Stdio};

    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.lbx(&["read", "a.txt", "--session", "5f0e-1"]).ok();
    ws.lbx(&["read", "a.txt"]).ok();
    let programs = ws.outside.join("bin");
    fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lbx"), programs.join("lbx")).unwrap();
    let hook = |input: &str| {
        let path = format!("{}:{}", programs.display(), crate::common::PATH_FIXED);
        let mut shell = Command::new("sh")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/examples/compact-hook.sh"))
            .current_dir(&ws.root)
            .env_clear()
            .env("LBX_STATE_ID", crate::common::STATE_ID)
            .env("PATH", path)
            .env("HOME", ws.outside.join("home"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        shell.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = shell.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let input = json!({"session_id": "5f0e-1", "hook_event_name": "SessionStart", "source": "compact", "cwd": ws.root});
    let said = hook(&input.to_string());
    assert!(said.starts_with("Resuming lbx session 5f0e-1, in "), "{said}");
    assert!(
        said.contains("\nRead before the context was compacted; read again before any change:\n- a.txt\n"),
        "{said}"
    );
    ws.lbx(&["write", "a.txt", "--content", "x", "--session", "5f0e-1"]).error("not_read");
    // The others keep their read records, until a harness without a session of its own asks.
    assert_eq!(status(&ws)["fresh"], json!(["a.txt"]));
    hook("{}");
    assert_eq!(status(&ws)["compacted"], json!(["a.txt"]));
}

#[test]
fn session_brief_stays_within_max_bytes() {
    let names: Vec<String> = (0..200).map(|number| format!("a-file-with-number-{number:03}.txt")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "one\n")).collect();
    let ws = Workspace::with(&files);
    for part in names.chunks(50) {
        ws.lbx(&[vec!["read"], part.iter().map(String::as_str).collect()].concat()).ok();
    }
    let (mut offset, mut seen) = (0, 0);
    while seen < names.len() {
        let call = ["session", "brief", "--max-bytes", "2000", "--offset", &offset.to_string()];
        let data = ws.lbx(&call).ok();
        let text = data["brief"].as_str().unwrap();
        assert!(text.len() <= 2000, "{}", text.len());
        seen += text.lines().filter(|line| line.starts_with("- a-file")).count();
        let Some(next) = data["next_offset"].as_u64() else { break };
        assert!(next > offset);
        offset = next;
    }
    assert_eq!(seen, names.len(), "the parts together name every file once");
    // The paragraph and one path are always included.
    let data = ws.lbx(&["session", "brief", "--max-bytes", "1"]).ok();
    assert_eq!(data["next_offset"], 1);
}
