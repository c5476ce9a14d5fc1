//! Names with terminal control sequences.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use crate::common::Workspace;

/// A name with an escape sequence, a newline and a C1 control, and its displayed form.
const NAME: &str = "a\u{1b}[31mb\nc\u{9b}d.txt";
const SHOWN: &str = r#""a\033[31mb\nc\302\233d.txt""#;

/// Checks that a text holds no terminal control sequence.
#[track_caller]
fn harmless(text: &str) {
    let odd = text.chars().find(|character| character.is_control() && !matches!(character, '\n' | '\t'));
    assert_eq!(odd, None, "{text:?}");
    assert!(!text.contains("b\nc"), "{text:?}");
}

#[test]
fn text_output_escapes_control_characters_in_names() {
    let ws = Workspace::with(&[(NAME, "one\n"), ("other.txt", "two\n")]);
    let text = |call: &[&str]| {
        let answer = ws.call(call).arguments(&["--text"]).run();
        let (out, err) = (answer.stdout_text(), answer.stderr());
        harmless(&out);
        harmless(&err);
        out + &err
    };
    for call in [
        &["ls"][..],
        &["glob", "*"],
        &["grep", "one"],
        &["grep", "one", "--output-mode", "files"],
        &["grep", "one", "--output-mode", "count"],
        &["read", "--paths", NAME, "--paths", "other.txt"],
        &["edit", NAME, "--old-string", "one", "--new-string", "1", "--diff"],
        &["write", NAME, "--content", "three\n", "--diff"],
        &["append", NAME, "--content", "more\n"],
        &["session"],
        &["session", "brief"],
        &["diff"],
        &["diff", "--stat"],
        &["log"],
        &["audit"],
        &["delete", NAME],
        &["trash"],
        &["restore", NAME],
        &["undo"],
        &["redo"],
        &["move", NAME, "x\u{1b}y"],
        &["move", "x\u{1b}y", NAME],
    ] {
        let shown = text(call);
        // A subject has spaces in their place, and a record is JSON.
        assert!(shown.contains(r"\033") || ["log", "audit"].contains(&call[0]), "{call:?}: {shown}");
    }
    assert!(text(&["ls"]).contains(SHOWN));
    // Errors and warnings show names too.
    for call in [
        &["read", "no\u{1b}such"][..],
        &["edit", NAME, "--old-string", "\u{1b}zz", "--new-string", "1"],
        &["delete", "-r", "no\u{1b}such\n"],
        &["write", "../\u{1b}out", "--content", "x"],
        &["read", "x", "--session", "a\u{1b}b"],
        &["read", "x", "--workspace", "no\u{1b}where"],
        &["grep", "one", "no\u{1b}such"],
    ] {
        text(call);
    }
    // If NUL ends a name, and in JSON, the name is unchanged.
    assert!(ws.lbx(&["glob", "*", "-t", "-0"]).stdout_text().contains(&format!("{NAME}\0")));
    assert_eq!(ws.lbx(&["glob", "a*"]).ok()["paths"][0], NAME);
    // File content is shown unchanged.
    fs::write(ws.path("raw"), "\u{1b}[31mred\n").unwrap();
    assert_eq!(ws.lbx(&["read", "raw", "-t"]).stdout_text(), "\u{1b}[31mred\n");
    assert!(ws.lbx(&["grep", "red", "raw", "--text"]).stdout_text().contains("\u{1b}[31mred"));
}

#[test]
fn list_whose_entries_end_in_nul_has_the_bytes_of_each_name() {
    let ws = Workspace::bare(&[]);
    let name = OsStr::from_bytes(b"sub/caf\xe9\xff.txt");
    fs::create_dir(ws.path("sub")).unwrap();
    fs::write(ws.root.join(name), "needle\n").unwrap();
    let listed: [&[&str]; 4] = [
        &["glob", "**/*.txt", "-t", "-0"],
        &["glob", "**/*.txt", "--sort", "mtime", "-t", "-0"],
        &["grep", "needle", "--output-mode", "files", "--text", "--null"],
        &["ls", "-R", "--limit", "2", "-t", "-0"],
    ];
    for call in listed {
        let stdout = ws.lbx(call).stdout().to_vec();
        let names: Vec<&[u8]> = stdout.split(|&byte| byte == 0).collect();
        assert!(names.contains(&name.as_bytes()), "{call:?}: {names:?}");
    }
    // JSON and lines have text.
    ws.lbx(&["glob", "**/*.txt"]).warned("a path is not valid UTF-8");
    assert!(ws.lbx(&["glob", "**/*.txt", "-t"]).stdout_text().contains("caf\u{fffd}\u{fffd}.txt"));
}

#[test]
fn read_opens_the_only_name_that_looks_the_same() {
    let ws = Workspace::with(&[
        ("caf\u{e9}.txt", "1\n"),
        ("na\u{200b}me.txt", "2\n"),
        ("two.txt", "3\n"),
        ("tw\u{200b}o.txt", "4\n"),
    ]);
    assert_eq!(ws.lbx(&["read", "cafe\u{301}.txt"]).ok()["path"], "caf\u{e9}.txt");
    assert_eq!(ws.lbx(&["read", "name.txt"]).ok()["content"], "2\n");
    ws.lbx(&["read", "t\u{200b}wo.txt"]).error("not_found");
    // A change names the file itself.
    ws.lbx(&["delete", "name.txt"]).error("not_found");
}
