//! Warnings without a theme of their own: the call succeeds, and reports a problem.

use std::fs;

use crate::common::{Workspace, is_installed, state};

#[test]
fn config_warns_about_unusable_state() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let data = ws.call(&["config", "gate"]).env("LBX_STATE_ID", "zz").run();
    data.warned("the state cannot be used: LBX_STATE_ID");
    let bare = Workspace::bare(&[(".lbx", "no folder\n")]);
    bare.lbx(&["config", "gate"]).warned("the state cannot be used: .lbx is not a folder");
}

#[test]
fn warn_gate_reports_unread_and_changed_files() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("long.txt", "1\n2\n3\n")]);
    let write = |path: &str, text: &str| ws.lbx(&["write", path, "--content", text, "--set", "gate=warn"]);
    write("a.txt", "two\n")
        .warned("a.txt was not read in this session; the policy lets you overwrite it anyway");
    ws.lbx(&["read", "long.txt", "--limit", "1"]).ok();
    write("long.txt", "4\n").warned("long.txt was not completely read in this session; the policy lets you");
    ws.write("a.txt", "three\n");
    write("a.txt", "four\n").warned("a.txt has changed since it was read; the policy lets you overwrite it");
    ws.holds("a.txt", "four\n");
}

#[test]
fn change_warns_about_lost_encoding_endings_and_links() {
    let ws =
        Workspace::with(&[("crlf.txt", "one\r\ntwo\r\n"), ("a.md", "# A\n\n[x]\n\n# B\n\n[x]: http://e\n")]);
    ws.write("wide.txt", b"\xff\xfea\0\n\0");
    let write = |path: &str| {
        ws.lbx(&["read", path]).ok();
        ws.lbx(&["write", path, "--content", "one\ntwo\n"])
    };
    write("crlf.txt")
        .warned("crlf.txt had CRLF line endings and now has LF. With \"keep\", `line_ending` keeps them.");
    write("wide.txt").warned("wide.txt was utf-16le and is UTF-8 now");
    ws.write("latin.txt", b"caf\xe9\n");
    ws.lbx(&["read", "latin.txt"])
        .warned("latin.txt is not UTF-8: invalid bytes are shown as \u{fffd} and are kept as they are");
    ws.lbx(&["write", "latin.txt", "--content", "cafe"]).warned("latin.txt was not UTF-8 and is UTF-8 now");
    ws.lbx(&["section", "a.md", "--header", "# B", "--content", "text"])
        .warned("the replaced text defined link references that a.md still uses: [x]");
    ws.write("marked.txt", "\u{feff}one\n");
    write("marked.txt").warned("marked.txt no longer begins with a byte-order mark");
    std::fs::hard_link(ws.path("crlf.txt"), ws.path("second name")).unwrap();
    ws.lbx(&["append", "crlf.txt", "--content", "three\n"])
        .warned("crlf.txt has 2 hard links: it was replaced, and its other names keep the old bytes");
    ws.holds("second name", "one\ntwo\n");
}

#[test]
fn section_warns_about_headers_in_its_content() {
    let ws = Workspace::with(&[("a.md", "# A\n\nold\n\n## B\n\nb\n")]);
    ws.lbx(&["read", "a.md"]).ok();
    ws.lbx(&["section", "a.md", "--header", "## B", "--content", "## B\n\nnew"])
        .warned("content began with the header ## B, which exists already and was left out");
    ws.lbx(&["section", "a.md", "--header", "## B", "--content", "new\n\n# C\n"]).warned(
        "content has the header # C, which ends the section ## B: what follows it is a section of its own",
    );
}

#[test]
fn bash_warns_about_output_that_is_not_utf8() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let data = ws
        .lbx(&["bash", "--set", "bash.backend=none", "printf 'caf\\351'"])
        .warned("the output is not UTF-8; bytes that are not are shown as U+FFFD");
    assert_eq!(data["stdout"], "caf\u{fffd}");
}

#[test]
fn gc_warns_about_a_backup_that_it_cannot_remove() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    // A folder is not a backup, and not a file to remove.
    let folder = ws.path(&state("backups/00/.tmp-1"));
    fs::create_dir_all(&folder).unwrap();
    ws.lbx(&["gc", "--keep-days", "0"]).warned("1 file could not be removed, .tmp-1 among them");
}

#[test]
fn gc_warns_if_the_history_cannot_be_packed() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    fs::create_dir_all(ws.path(&state("journal/done/default/.packed"))).unwrap();
    let data =
        ws.lbx(&["gc"]).warned("the history was not packed: cannot pack the history in .lbx: File exists");
    assert!(data["packed_changes"].is_null(), "{data}");
    ws.lbx(&["undo"]).ok();
    ws.holds("a.txt", "one\n");
}

#[test]
fn bash_warns_if_the_whole_output_cannot_be_kept() {
    let ws = Workspace::bare(&[("a.txt", "one\n")]);
    let home = ws.outside.join("home");
    let limited = ["--fsize=262144", "sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""];
    if !is_installed("prlimit") {
        return;
    }
    let call = crate::common::Call::under("prlimit", &limited, &ws.root, &home);
    let data = call
        .arguments(&["bash", "--set", "bash.backend=none", "seq 100000"])
        .run()
        .warned("the whole output was not kept: File too large");
    // Head and tail are still there, and no file is named.
    let shown = data["stdout"].as_str().unwrap();
    assert!(shown.starts_with("1\n2\n") && shown.ends_with("\n100000\n"), "{shown}");
    assert_eq!(data["truncated"], true);
    assert!(data["output_file"].is_null(), "{data}");
}

#[test]
fn gc_warns_if_the_snapshots_cannot_be_packed() {
    let ws = Workspace::bare(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let packs = ws.path(&state("repo.git/objects/pack"));
    let _ = fs::remove_dir_all(&packs);
    fs::write(&packs, "no folder\n").unwrap();
    ws.lbx(&["gc"]).warned("the snapshots were not packed: ");
    fs::remove_file(&packs).unwrap();
    ws.lbx(&["gc"]).ok();
    ws.lbx(&["undo"]).ok();
    ws.holds("a.txt", "one\n");
}

#[test]
fn checked_out_snapshot_branch_prevents_the_baseline() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.git(&["checkout", "-q", "-f", "lbx-snapshots"]);
    let append = ["append", "a.txt", "--content", "three\n", "--session", "other"];
    let answer = ws.lbx(&append).success();
    let warnings = answer["warnings"].to_string();
    for part in [
        "no baseline: the branch `lbx-snapshots` is checked out",
        "what was uncommitted before this session may appear among its changes",
        "no snapshot: the branch `lbx-snapshots` is checked out",
    ] {
        assert!(warnings.contains(part), "{part}: {answer:#}");
    }
    ws.holds("a.txt", "one\ntwo\nthree\n");
}

#[test]
fn bash_warns_about_a_new_protected_file() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let command = ["bash", "--set", "protect=kept*", "--set", "bash.backend=none", "echo x > kept.txt"];
    let data = ws.lbx(&command).warned("the policy protects what is new now: kept.txt. No tool changes");
    assert_eq!(data["exit_code"], 0, "{data}");
    ws.lbx(&["edit", "kept.txt", "--old-string", "x", "--new-string", "y", "--set", "protect=kept*"])
        .error("protected_path");
}

#[test]
fn text_that_ends_in_the_tag_of_a_tool_call_is_warned_about() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let text = "two\n</invoke>\n";
    ws.lbx(&["append", "a.txt", "--content", text])
        .warned("a.txt ends in </invoke>, which closes a tool call");
    // It is there already.
    ws.lbx(&["append", "a.txt", "--content", text]).ok();
}
