//! `diff` prints what git would, and git can apply it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Stdio;

use serde_json::json;

use crate::common::Workspace;

/// Applies a diff to a checkout of `from`, and returns the resulting tree.
fn applied(ws: &Workspace, from: &str, diff: &[u8]) -> String {
    let index = ws.outside.join("index");
    let git = |arguments: &[&str], stdin: &[u8]| {
        let mut command = ws.git_command(arguments);
        command.env("GIT_INDEX_FILE", &index).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(diff));
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["read-tree", from], b"");
    git(&["apply", "--cached", "--whitespace=nowarn"], diff);
    git(&["write-tree"], b"").trim().to_owned()
}

/// Returns a text of `count` different lines.
fn lines(count: usize) -> String {
    let lines: Vec<String> = (0..count).map(|line| format!("line {line}\n")).collect();
    lines.concat()
}

fn tree(ws: &Workspace, commit: &str) -> String {
    ws.git(&["rev-parse", &format!("{commit}^{{tree}}")]).trim().to_owned()
}

#[test]
fn git_applies_the_diff_of_every_change() {
    let long = lines(200);
    let ws = Workspace::with(&[
        ("long.txt", &long),
        ("gone.txt", "gone\n"),
        ("run.sh", "x\n"),
        ("renamed from.txt", &long.replace("line", "other")),
        ("exactly.txt", &long.replace("line", "exact")),
        ("kind", "now a link\n"),
        ("no newline", "a\nb"),
        ("crlf.txt", "a\r\nb\r\n"),
    ]);
    ws.write(
        "long.txt",
        long.replace("line 5\n", "LINE 5\n").replace("line 150\n", "").replace("line 199\n", "end"),
    );
    fs::remove_file(ws.path("gone.txt")).unwrap();
    fs::set_permissions(ws.path("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(ws.path("renamed from.txt"), ws.path("renamed to.txt")).unwrap();
    ws.write("renamed to.txt", long.replace("line", "other") + "and more\n");
    fs::rename(ws.path("exactly.txt"), ws.path("exact \"quoted\".txt")).unwrap();
    fs::remove_file(ws.path("kind")).unwrap();
    symlink("long.txt", ws.path("kind")).unwrap();
    ws.write("no newline", "a\nb\n");
    ws.write("crlf.txt", "a\r\nB\r\n\r\nc\rd\r\n");
    ws.write("new/empty", "");
    ws.write("ünïcode.txt", "neu\n");
    ws.lbx(&["snapshot"]).ok();
    let diff = ws.lbx(&["diff", "-t", "--from", "HEAD"]);
    let text = diff.stdout_text();
    assert_eq!(applied(&ws, "HEAD", diff.stdout()), tree(&ws, "lbx-snapshots"));
    for part in [
        "rename from renamed from.txt\nrename to renamed to.txt\n",
        "similarity index 100%\nrename from exactly.txt\nrename to \"exact \\\"quoted\\\".txt\"\n",
        "old mode 100644\nnew mode 100755\n",
        "deleted file mode 100644\nindex",
        "new file mode 120000\n",
        "\\ No newline at end of file\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let back = ws.lbx(&["diff", "-t", "--from", "lbx-snapshots", "--to", "HEAD"]);
    assert_eq!(applied(&ws, "lbx-snapshots", back.stdout()), tree(&ws, "HEAD"));
}

#[test]
fn git_applies_binary_diffs() {
    let bytes = |size: usize, step: usize| -> Vec<u8> {
        (0..size).map(|at| u8::try_from(at * step % 256).unwrap()).collect()
    };
    let ws = Workspace::with(&[("a.txt", "one\n"), ("gone.bin", "x\0y\n"), ("new to.bin", "t\n")]);
    ws.write("big.bin", bytes(70_000, 7));
    ws.write("empty.bin", "\0");
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-q", "-m", "binaries"]);
    ws.write("a.txt", "two\n");
    ws.write("big.bin", bytes(70_001, 13));
    ws.write("empty.bin", "");
    ws.write("new to.bin", bytes(300, 3));
    ws.write("made.bin", [0, 255, 10]);
    fs::remove_file(ws.path("gone.bin")).unwrap();
    ws.lbx(&["snapshot"]).ok();
    for (from, to) in [("HEAD", "lbx-snapshots"), ("lbx-snapshots", "HEAD")] {
        let diff = ws.lbx(&["diff", "-t", "--binary", "--max-bytes", "0", "--from", from, "--to", to]);
        assert_eq!(applied(&ws, from, diff.stdout()), tree(&ws, to));
    }
    ws.lbx(&["read", "a.txt"]).ok();
    let back =
        ws.lbx(&["diff", "--binary", "--max-bytes", "0", "--from", "lbx-snapshots", "--to", "HEAD"]).ok();
    let files = ["big.bin", "empty.bin", "new to.bin", "made.bin"].map(|name| {
        let sha256 = ws.lbx(&["read", name, "--binary", "base64", "--max-bytes", "0"]).ok()["sha256"].clone();
        (name.to_owned(), sha256)
    });
    let request =
        json!({ "patch": back["diff"], "expected_sha256_by_path": serde_json::Map::from_iter(files) });
    ws.json("patch", &request).ok();
    assert_eq!(ws.git(&["status", "--porcelain"]), "");
}

#[test]
fn patch_applies_the_diff_in_reverse() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\n"), ("b.txt", "b\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "two", "--new-string", "2"]).ok();
    ws.lbx_stdin(&["write", "n.txt"], "new\n").ok();
    let diff = ws.lbx(&["diff"]).ok()["diff"].as_str().unwrap().to_owned();
    ws.json("patch", &json!({ "patch": diff, "reverse": true })).ok();
    ws.holds("a.txt", "one\ntwo\n");
    assert!(!ws.path("n.txt").exists());
}

#[test]
fn diff_without_arguments_shows_the_session() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    ws.write("b.txt", "uncommitted\n");
    ws.call(&["--session", "me", "append", "a.txt", "--content", "two\n"]).run().ok();
    ws.call(&["--session", "you", "append", "b.txt", "--content", "yours\n"]).run().ok();
    ws.call(&["--session", "me", "append", "a.txt", "--content", "three\n"]).run().ok();
    let mine = ws.lbx(&["--session", "me", "diff"]).ok();
    assert_eq!((&mine["session"], &mine["files"]), (&json!("me"), &json!(1)));
    assert!(mine["diff"].as_str().unwrap().ends_with("@@ -1 +1,3 @@\n one\n+two\n+three\n"), "{mine}");
    let nobody = ws.lbx(&["--session", "nobody", "diff"]).ok();
    assert_eq!(
        (&nobody["session"], &nobody["files"], &nobody["diff"]),
        (&json!("nobody"), &json!(0), &json!(""))
    );
    let another = ws.lbx(&["diff"]).ok();
    assert!(another["session"].is_null());
    assert!(
        another["diff"].as_str().unwrap().ends_with("@@ -1,2 +1,3 @@\n one\n two\n+three\n"),
        "{another}"
    );
    let stat = ws.lbx(&["diff", "--from", "HEAD", "--stat"]).ok();
    assert_eq!(
        stat["stat"][1],
        json!({ "path": "b.txt", "action": "modify", "insertions": 2, "deletions": 1 })
    );
}

#[test]
fn diff_can_select_one_call_and_one_path() {
    let ws = Workspace::with(&[("d/a.txt", "one\n")]);
    let first = ws.lbx_stdin(&["write", "d/b.txt"], "b\n").success()["snapshot"].as_str().unwrap().to_owned();
    ws.lbx_stdin(&["write", "c.txt"], "c\n").ok();
    let of = ws.lbx(&["diff", "--of", &first[..8]]).ok();
    assert_eq!((&of["to"], &of["files"]), (&json!(first), &json!(1)));
    assert_eq!(ws.lbx(&["diff", "d", "--from", "HEAD"]).ok()["files"], 1);
    ws.lbx(&["diff", "d/b", "--from", "HEAD"]).error("not_found");
    ws.lbx(&["diff", "--of", "HEAD", "--to", "HEAD"]).error("invalid_request");
    let error = ws.lbx(&["diff", "--of", "0123456"]).error("not_found");
    assert!(error["suggested_action"].as_str().unwrap().contains("write: c.txt"), "{error}");
}

#[test]
fn long_diff_continues_at_the_next_offset() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let text = lines(500);
    ws.lbx_stdin(&["write", "b.txt"], &text).ok();
    ws.lbx_stdin(&["write", "c.txt"], &text).ok();
    let whole = ws.lbx(&["diff", "--max-bytes", "0"]).ok()["diff"].as_str().unwrap().to_owned();
    let (mut joined, mut offset) = (String::new(), 0);
    loop {
        let part = ws.lbx(&["diff", "--max-bytes", "3000", "--offset", &offset.to_string()]).ok();
        let text = part["diff"].as_str().unwrap();
        assert!(text.len() <= 3000 && text.ends_with('\n'));
        joined.push_str(text);
        match part["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(joined, whole);
}

#[test]
fn diff_reports_binary_files_and_keeps_invalid_utf8() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.write("x.bin", [0_u8, 1, 2]);
    ws.write("latin.txt", b"caf\xe9\n");
    ws.lbx(&["snapshot"]).ok();
    let answer = ws
        .lbx(&["diff", "--from", "HEAD"])
        .warned("the diff is not all UTF-8 and is shown lossily here; the text form has its own bytes");
    assert!(answer["diff"].as_str().unwrap().contains("Binary files /dev/null and b/x.bin differ\n"));
    let raw = ws.lbx(&["diff", "-t", "latin.txt", "--from", "HEAD"]);
    assert!(raw.stdout().ends_with(b"+caf\xe9\n"));
}

#[test]
fn diff_exit_status_reports_differences() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx_stdin(&["write", "b.txt"], "b\n").ok();
    assert_eq!(ws.lbx(&["diff", "--exit-status"]).status(), 1);
    assert_eq!(ws.lbx(&["diff", "--exit-status", "--from", "HEAD", "--to", "HEAD"]).status(), 0);
    assert_eq!(ws.lbx(&["diff"]).status(), 0);
}

#[test]
fn diff_accepts_two_revisions_and_several_paths_as_git_does() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "one\n"), ("c.txt", "one\n")]);
    let append = |path: &str| {
        ws.lbx(&["append", path, "--content", "two\n"]).success()["snapshot"].as_str().unwrap().to_owned()
    };
    let (first, second) = (append("a.txt"), append("b.txt"));
    append("c.txt");
    let files = |words: &[&str]| {
        let call = [&["diff"][..], words, &["--stat"]].concat();
        let stat = ws.lbx(&call).ok()["stat"].clone();
        let paths = stat.as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap().to_owned());
        paths.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(files(&["HEAD", &second]), "a.txt b.txt");
    assert_eq!(files(&[&first, &second]), "b.txt");
    assert_eq!(files(&["HEAD", &second, "a.txt"]), "a.txt");
    assert_eq!(files(&["HEAD..lbx-snapshots", "c.txt", "b.txt"]), "b.txt c.txt");
    assert_eq!(files(&[&second, "b.txt"]), "b.txt");
    assert_eq!(files(&["a.txt", "c.txt"]), "a.txt c.txt");
    let request = json!({"path": "a.txt", "paths": ["b.txt"], "stat": true});
    assert_eq!(ws.json("diff", &request).ok()["files"], 2);
    ws.lbx(&["diff", &first, &second, "HEAD"]).error("invalid_request");
    ws.lbx(&["diff", "HEAD..lbx-snapshots", &second]).error("invalid_request");
    ws.lbx(&["diff", "a.txt", "nosuch"]).error("not_found");
}

#[test]
fn what_a_clone_was_made_without_is_named_with_the_command_that_fetches_it() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.write("a.txt", "two\n");
    ws.git(&["commit", "-qam", "second"]);
    let error = ws.lbx(&["diff", "HEAD~1...HEAD"]).error("invalid_request");
    assert_eq!(error["suggested_action"], "Put what `git merge-base HEAD~1 HEAD` prints before two dots.");
    ws.lbx(&["append", "a.txt", "--content", "three\n"]).ok();
    let told = |id: &str, fetches: &str| {
        fs::remove_file(ws.path(".git/objects").join(&id[..2]).join(&id[2..])).unwrap();
        let error = ws.lbx(&["diff", "HEAD~1"]).error("not_found");
        let action = format!("This clone was made without it: `{fetches}` fetches it, then repeat the call.");
        assert_eq!(error["suggested_action"], action);
    };
    let blob = ws.git(&["rev-parse", "HEAD~1:a.txt"]);
    let commit = ws.git(&["rev-parse", "HEAD~1"]);
    ws.git(&["config", "core.repositoryFormatVersion", "1"]);
    ws.git(&["config", "extensions.partialClone", "origin"]);
    told(&blob, &format!("git cat-file -p {blob}"));
    ws.git(&["config", "--unset", "extensions.partialClone"]);
    ws.write(".git/shallow", ws.git(&["rev-parse", "HEAD"]) + "\n");
    told(&commit, "git fetch --unshallow");
}
