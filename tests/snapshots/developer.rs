//! Commands of the developer about a session: blame, squash, review.

use std::fs;

use serde_json::{Value, json};

use crate::common::Workspace;

/// Ten lines, all different.
pub const TEN: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n";

/// Creates a workspace in which git knows the developer's name.
pub fn workspace(files: &[(&str, &str)]) -> Workspace {
    let ws = Workspace::with(files);
    ws.git(&["config", "user.name", "Dev Eloper"]);
    ws.git(&["config", "user.email", "dev@example.org"]);
    ws
}

/// Edits a file in a session that has read it.
pub fn edit(ws: &Workspace, session: &str, path: &str, old: &str, new: &str) {
    ws.lbx(&["read", path, "--session", session]).ok();
    let request = json!({"path": path, "old_string": old, "new_string": new, "session": session, "why": format!("{old} to {new}")});
    assert_eq!(ws.json("edit", &request).success()["ok"], true);
}

/// Returns the author of each line of a file: the session, or `developer`.
fn owners(ws: &Workspace, path: &str) -> Vec<String> {
    let data = ws.lbx(&["blame", path]).ok();
    let mut owners = Vec::new();
    for range in data["ranges"].as_array().unwrap() {
        let who = range["session"].as_str().unwrap_or("developer").to_owned();
        let seq = range["seq"].as_u64().map_or_else(String::new, |seq| format!(" {seq}"));
        for _ in range["start_line"].as_u64().unwrap()..=range["end_line"].as_u64().unwrap() {
            owners.push(format!("{who}{seq}"));
        }
    }
    owners
}

#[test]
fn files_outside_a_sparse_checkout_are_not_deleted() {
    for index in ["--no-sparse-index", "--sparse-index"] {
        let ws = workspace(&[("in/a.txt", "a\n"), ("out/c.txt", "c\n"), ("out/d.txt", "d\n")]);
        ws.git(&["sparse-checkout", "set", "--cone", index, "in"]);
        assert!(!ws.path("out").exists());
        let changed = |to: &str| ws.git(&["diff", "--name-status", "HEAD", to]);
        ws.lbx(&["write", "out/c.txt", "--content", "new\n"]).ok();
        assert_eq!(ws.snapshots(), ["write: out/c.txt"], "{index}");
        assert_eq!(changed("lbx-snapshots"), "M\tout/c.txt", "{index}");
        ws.lbx(&["squash", "-m", "One file", "--onto", "work"]).ok();
        assert_eq!(changed("work"), "M\tout/c.txt", "{index}");
        // After the file is gone again, it is as in HEAD, for git and here.
        ws.lbx(&["undo"]).ok();
        assert!(!ws.path("out").exists());
        assert_eq!(changed("lbx-snapshots"), "", "{index}");
        ws.lbx(&["redo"]).ok();
        assert_eq!(changed("lbx-snapshots"), "M\tout/c.txt", "{index}");
    }
}

#[test]
fn blame_counts_the_lines_of_a_utf16_file_as_read_does() {
    let ws = workspace(&[]);
    // U+010A and U+0A0A have the byte of a line feed.
    let text = "\u{feff}one\n\u{10a}\u{a0a}\nthree\nfour\n";
    std::fs::write(ws.path("u.txt"), text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>())
        .unwrap();
    ws.lbx(&["read", "u.txt", "--session", "one"]).ok();
    edit(&ws, "one", "u.txt", "three", "THREE");
    assert_eq!(owners(&ws, "u.txt"), ["developer", "developer", "one 1", "developer"]);
}

#[test]
fn blame_attributes_each_line_to_its_call() {
    let ws = workspace(&[("a.txt", TEN)]);
    assert_eq!(owners(&ws, "a.txt"), ["developer"; 10]);
    edit(&ws, "one", "a.txt", "two", "TWO");
    ws.write("a.txt", TEN.replace("two", "TWO").replace("five", "by hand"));
    edit(&ws, "other", "a.txt", "seven\n", "seven\nand a half\n");
    ws.lbx(&["move", "a.txt", "sub/b.txt", "--session", "one"]).ok();
    edit(&ws, "one", "sub/b.txt", "ten", "TEN");
    ws.write("sub/b.txt", String::from_utf8(ws.read_bytes("sub/b.txt")).unwrap() + "not recorded\n");
    let d = "developer";
    let wanted = [d, "one 1", d, d, d, d, d, "other 1", d, d, "one 3", d];
    assert_eq!(owners(&ws, "sub/b.txt"), wanted);
    let data = ws.lbx(&["blame", "sub/b.txt", "--start-line", "8", "--end-line", "8"]).ok();
    let range = &data["ranges"][0];
    assert_eq!(
        (&range["tool"], &range["from"], &range["why"]),
        (&json!("edit"), &json!("a.txt"), &json!("seven\n to seven\nand a half\n".trim()))
    );
    let id = range["snapshot"].as_str().unwrap();
    let found = ws.git(&["log", "--format=%H", "-S", "and a half", "lbx-snapshots", "--", "a.txt"]);
    assert_eq!(found.lines().last(), Some(id));
    let by_hand = ws.lbx(&["blame", "sub/b.txt", "--start-line", "5", "--end-line", "5"]).ok();
    assert_eq!(
        (&by_hand["ranges"][0]["by"], &by_hand["ranges"][0]["tool"]),
        (&json!("developer"), &Value::Null)
    );
    let text = ws.call(&["blame", "-t", "sub/b.txt"]).run().stdout_text();
    assert!(text.lines().nth(7).unwrap().contains("other edit #1"), "{text}");
    ws.lbx(&["blame", "none.txt"]).error("not_found");
    ws.lbx(&["blame", "sub/b.txt", "--start-line", "40"]).error("invalid_request");
    ws.write("bin", b"a\0b");
    ws.lbx(&["blame", "bin"]).error("binary_file");
}

#[test]
fn text_form_of_blame_is_bounded_and_names_its_next_line() {
    let lines: String = (1..=20_000).map(|line| format!("line {line}\n")).collect();
    let ws = workspace(&[("long.txt", &lines)]);
    ws.lbx(&["append", "long.txt", "--content", "the end\n"]).ok();
    assert_eq!(ws.lbx(&["blame", "long.txt"]).ok()["ranges"].as_array().unwrap().len(), 2);
    let (mut start, mut shown) = (1, 0);
    for _ in 0..1000 {
        let from = start.to_string();
        let run = ws.call(&["blame", "--text", "long.txt", "--start-line", &from]).run();
        assert!(run.stdout_text().len() < 40_000, "{} bytes", run.stdout_text().len());
        shown += run.stdout_text().lines().count();
        let note = run.stderr();
        let Some((_, next)) = note.split_once("more lines: --start-line ") else { break };
        start = next.trim().parse().unwrap();
        assert_eq!(shown, start - 1, "{note}");
    }
    assert_eq!(shown, 20_001);
    let all = ws.call(&["blame", "--text", "long.txt", "--max-bytes", "0"]).run().stdout_text();
    assert_eq!(all.lines().count(), 20_001);
}

#[test]
fn squash_turns_a_session_into_one_commit() {
    let ws = workspace(&[("a.txt", TEN), ("b.txt", "b\n"), ("c.txt", "c\n")]);
    // Uncommitted before the session, in a file that it changes, and in one that it does not.
    ws.write("a.txt", TEN.replace("nine", "draft"));
    ws.write("c.txt", "draft\n");
    edit(&ws, "s", "a.txt", "two", "TWO");
    edit(&ws, "s", "a.txt", "TWO", "2");
    ws.write("a.txt", TEN.replace("nine", "draft").replace("two", "2").replace("four", "by hand"));
    ws.lbx(&["write", "new/d.txt", "--content", "d\n", "--session", "s"]).ok();
    ws.lbx(&["delete", "b.txt", "--session", "s"]).ok();
    let before = (ws.git(&["status", "--porcelain=v2", "--branch"]), ws.git(&["stash", "list"]), ws.tree());
    let shown = ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--onto", "feature", "--dry-run"]).ok();
    assert_eq!((&shown["files"], &shown["commits"]), (&json!(3), &json!([])));
    assert!(!ws.git_command(&["rev-parse", "-q", "--verify", "feature"]).status().unwrap().success());
    let data = ws
        .lbx(&[
            "squash",
            "-m",
            "Do it\n\nAs asked.",
            "--session",
            "s",
            "--onto",
            "feature",
            "--co-author",
            "An Agent <agent@example.org>",
        ])
        .ok();
    assert_eq!(
        (&data["branch"], &data["created"], &data["files"]),
        (&json!("feature"), &json!(true), &json!(3))
    );
    assert_eq!(
        ws.git(&["log", "-1", "--format=%an <%ae> %cn%n%B", "feature"]).trim_end(),
        "Dev Eloper <dev@example.org> Dev Eloper\nDo it\n\nAs asked.\n\nCo-authored-by: An Agent <agent@example.org>"
    );
    assert_eq!(ws.git(&["rev-parse", "feature~1"]), ws.git(&["rev-parse", "HEAD"]));
    // It contains neither the draft nor the manual changes.
    assert_eq!(ws.git(&["show", "feature:a.txt"]) + "\n", TEN.replace("two", "2"));
    assert_eq!(ws.git(&["ls-tree", "-r", "--name-only", "feature"]), "a.txt\nc.txt\nnew/d.txt");
    let after = (ws.git(&["status", "--porcelain=v2", "--branch"]), ws.git(&["stash", "list"]), ws.tree());
    assert_eq!(before, after);
    ws.git(&["fsck", "--strict"]);
    // Committed changes are not committed again; new ones are.
    ws.lbx(&["squash", "-m", "Again", "--session", "s", "--onto", "feature"]).error("not_found");
    ws.lbx(&["squash", "-m", "One", "--session", "s", "--onto", "other", "a.txt", "new"]).ok();
    assert_eq!(ws.git(&["diff", "--name-only", "HEAD", "other"]), "a.txt\nnew/d.txt");
    ws.lbx(&["squash", "-m", "Rest", "--session", "s", "--onto", "other"]).ok();
    assert_eq!(ws.git(&["rev-parse", "other^{tree}"]), ws.git(&["rev-parse", "feature^{tree}"]));
}

#[test]
fn squash_can_commit_per_file_or_keep_history() {
    let ws = workspace(&[("a.txt", TEN), ("b.txt", "b\n")]);
    edit(&ws, "s", "a.txt", "two", "TWO");
    edit(&ws, "s", "b.txt", "b", "B");
    edit(&ws, "s", "a.txt", "nine", "NINE");
    ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--per-file", "--onto", "files"]).ok();
    assert_eq!(ws.git(&["log", "--format=%s", "HEAD..files"]), "b.txt: Do it\na.txt: Do it");
    ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--keep-history", "--onto", "history"]).ok();
    assert_eq!(ws.git(&["log", "--first-parent", "--format=%s", "HEAD..history"]), "Do it");
    assert_eq!(ws.git(&["log", "--format=%s", "HEAD..history^2"]), "edit: a.txt\nedit: b.txt\nedit: a.txt");
    assert_eq!(ws.git(&["log", "-1", "--format=%b", "history^2"]), "nine to NINE");
    let tree = |name: &str| ws.git(&["rev-parse", &format!("{name}^{{tree}}")]);
    assert_eq!((tree("files"), tree("history")), (tree("lbx-snapshots"), tree("lbx-snapshots")));
    let request = json!({"message": "m", "per_file": true, "keep_history": true, "session": "s"});
    ws.json("squash", &request).error("invalid_request");
    // Without a name the branch is named after the session; without a session, the sessions are listed.
    let data = ws.lbx(&["squash", "-m", "Do it", "--session", "s"]).ok();
    assert_eq!(data["branch"], "lbx/s");
    let error = ws.lbx(&["squash", "-m", "Do it"]).error("not_found");
    assert_eq!(error["details"]["sessions"], json!(["s"]));
}

#[test]
fn squash_per_file_has_the_files_of_a_plain_one() {
    let rows = [
        // A file moves away, and another one to its place.
        "mv a.txt z.txt; mv b.txt a.txt",
        "mv a.txt z.txt; mv b.txt a.txt; mv d/c.txt b.txt; echo more >> a.txt",
        // A link or a file is in the place of a folder, also of one whose files moved.
        "rm -r d; ln -s nowhere d",
        "mv d/c.txt e; mv d/b.txt a.txt; rmdir d; echo file > d",
        "mv d/c.txt c; rm -r d; mv c d",
        // A folder is in the place of a file.
        "mv a.txt z.txt; mkdir a.txt; echo new > a.txt/b; mv b.txt a.txt/c",
    ];
    for command in rows {
        let ws = workspace(&[("a.txt", TEN), ("b.txt", "b\n"), ("d/b.txt", "d\n"), ("d/c.txt", "c\nc\n")]);
        for part in command.split("; ") {
            ws.lbx(&["bash", part, "--session", "s"]).ok();
        }
        ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--per-file", "--onto", "files"]).ok();
        ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--onto", "plain"]).ok();
        assert_eq!(ws.git(&["diff", "--stat", "plain", "files"]), "", "{command}");
        assert_eq!(ws.git(&["diff", "--stat", "lbx-snapshots", "files"]), "", "{command}");
        ws.git(&["fsck", "--strict"]);
    }
    let ws = workspace(&[("n\n\nSigned-off-by: Boss <boss@example.org>", "")]);
    ws.lbx(&["bash", "for name in n*; do echo 1 > \"$name\"; done", "--session", "s"]).ok();
    ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--per-file"]).ok();
    assert_eq!(ws.git(&["log", "-1", "--format=%(trailers)", "lbx/s"]), "");
}

#[test]
fn squash_rejects_conflicts_and_invalid_branches() {
    let ws = workspace(&[("a.txt", TEN)]);
    edit(&ws, "s", "a.txt", "two", "TWO");
    ws.git(&["branch", "feature"]);
    ws.git(&["worktree", "add", "-q", "../feature", "feature"]);
    let elsewhere = ws.outside.join("feature/a.txt");
    fs::write(&elsewhere, TEN.replace("two", "zwei")).unwrap();
    ws.git(&["-C", "../feature", "commit", "-qam", "zwei"]);
    let squash = |branch: &str| ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--onto", branch]);
    let error = squash("feature").error("invalid_request");
    assert!(error["message"].as_str().unwrap().contains("checked out"), "{error}");
    ws.git(&["worktree", "remove", "../feature"]);
    let error = squash("feature").error("patch_conflict");
    assert_eq!(error["details"]["conflicts"][0]["path"], "a.txt");
    assert_eq!(
        error["details"]["conflicts"][0]["conflicts"],
        "line 2:\n<<<<<<< the branch\nzwei\n||||||| before the session\ntwo\n=======\nTWO\n>>>>>>> the session\n"
    );
    for branch in ["main", "HEAD", "@", "lbx-snapshots", "a..b", "feature/below", "-f", ""] {
        squash(branch).error("invalid_request");
    }
    for (name, what) in [("MERGE_HEAD", "a merge"), ("rebase-merge/head-name", "a rebase")] {
        ws.write(&format!(".git/{name}"), "x\n");
        let error = squash("new").error("invalid_request");
        assert!(error["message"].as_str().unwrap().contains(what), "{error}");
        let path = ws.path(".git").join(name.split('/').next().unwrap());
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
    ws.git(&["config", "--unset", "user.name"]);
    squash("new").error("invalid_request");
    assert_eq!(ws.git(&["branch", "--list", "new"]), "");
    // The environment names the developer as it does for git, before the configuration.
    let named = ws
        .call(&["squash", "-m", "Do it", "--session", "s", "--onto", "new", "--dry-run"])
        .env("GIT_AUTHOR_NAME", "Of the <Environment>\n")
        .env("GIT_AUTHOR_EMAIL", "env@example.org");
    assert_eq!(named.run().ok()["author"], "Of the Environment <env@example.org>");
    // As for git, that names no committer.
    ws.git(&["config", "user.name", "Configured"]);
    let named = ws.call(&["squash", "-m", "Do it", "--session", "s", "--onto", "named"]);
    named.env("GIT_AUTHOR_NAME", "Of Env").run().ok();
    assert_eq!(ws.git(&["log", "-1", "--format=%an, %cn", "named"]), "Of Env, Configured");
    let error = ws.lbx(&["squash", "-m", "Do it", "--session", "s", "a.tx"]).error("not_found");
    assert_eq!(error["message"], "no such file: a.tx");
    assert!(error["suggested_action"].as_str().unwrap().contains("a.txt"), "{error}");
    let again = ws.lbx(&["squash", "-m", "Do it", "--session", "s", "--onto", "named", "a.txt"]);
    let message = "named already has everything that session s changed in a.txt";
    assert_eq!(again.error("not_found")["message"], message);
    let bare = Workspace::bare(&[]);
    bare.lbx(&["write", "a.txt", "--content", "a\n"]).ok();
    let error = bare.lbx(&["squash", "-m", "Do it"]).error("not_found");
    assert_eq!(
        error["suggested_action"],
        "Take a patch: `lbx diff -t --binary --max-bytes 0` shows the changes as a patch. A repository made now has only the changes after it."
    );
}

#[test]
fn review_lists_changes_errors_and_undo_commands() {
    let ws = workspace(&[("a.txt", TEN), ("b.txt", "b\n"), (".gitignore", "*.log\n")]);
    ws.lbx(&["read", "b.txt", "--session", "s"]).ok();
    edit(&ws, "s", "a.txt", "two", "TWO");
    ws.write("a.txt", TEN.replace("two", "TWO").replace("five", "by hand"));
    ws.lbx(&["write", "b.txt", "--content", "x", "--session", "other"]).error("not_read");
    ws.lbx(&["edit", "none.txt", "--old-string", "a", "--new-string", "b", "--session", "s"])
        .error("not_found");
    ws.lbx(&["write", "out.log", "--content", "log\n", "--session", "s"]).success();
    edit(&ws, "s", "a.txt", "nine", "NINE");
    edit(&ws, "other", "b.txt", "b", "B");
    ws.lbx(&["undo", "--seq", "1", "--hunk", "1", "--session", "s"]).ok();
    ws.lbx(&["write", "my notes.md", "--content", "x\n", "--session", "s"]).ok();
    ws.lbx(&["undo", "--session", "s"]).ok();
    let data = ws.lbx(&["review", "--session", "s", "--max-bytes", "0"]).ok();
    let told: Vec<(&str, &str, u64)> = data["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| {
            (
                change["by"].as_str().unwrap(),
                change["tool"].as_str().unwrap(),
                change["seq"].as_u64().unwrap_or(0),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("session", "edit", 1),
            ("session", "write", 2),
            ("developer", "external", 0),
            ("session", "edit", 3),
            ("session", "undo", 4),
            ("session", "write", 5),
            ("session", "undo", 6),
        ]
    );
    let first = &data["changes"][0];
    assert_eq!((&first["undone_in_part_by"], &first["why"]), (&json!([4]), &json!("two to TWO")));
    assert_eq!(data["changes"][5]["undone_by"], 6);
    // An undone change cannot be undone again, but its undo can.
    assert_eq!(
        (&data["changes"][5]["undo"], &data["changes"][5]["files"][0]["undo"]),
        (&json!(null), &json!(null))
    );
    assert_eq!(data["changes"][6]["files"][0]["undo"], "lbx undo --session s --seq 6 --path 'my notes.md'");
    let file = &first["files"][0];
    assert_eq!(
        (&file["path"], &file["insertions"], &file["by_hunk"]),
        (&json!("a.txt"), &json!(1), &json!(true))
    );
    assert!(
        file["diff"].as_str().unwrap().ends_with("@@ -1,5 +1,5 @@\n one\n-two\n+TWO\n three\n four\n five\n"),
        "{file}"
    );
    assert_eq!(data["changes"][1]["files"][0]["path"], "out.log");
    assert_eq!(data["refused"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&data["refused"][0]["kind"], &data["refused"][0]["path"]),
        (&json!("not_found"), &json!("none.txt"))
    );
    assert_eq!(data["read"], json!(["b.txt"]));
    let totals = &data["totals"];
    assert_eq!(
        (&totals["changes"], &totals["undone"], &totals["developer"], &totals["files"]),
        (&json!(6), &json!(1), &json!(1), &json!(2))
    );
    // Each command that it names works as described.
    let undo = data["changes"][3]["undo"].as_str().unwrap();
    ws.lbx(&undo.split(' ').skip(1).collect::<Vec<_>>()).ok();
    assert!(!String::from_utf8(ws.read_bytes("a.txt")).unwrap().contains("NINE"));
    // A part of the story says where to continue, and a long diff is cut.
    let part = ws.lbx(&["review", "--session", "s", "--max-bytes", "600"]).ok();
    assert_eq!((&part["truncated"], part["next_offset"].as_u64().unwrap() < 7), (&json!(true), true));
    let text = ws.call(&["review", "-t", "--session", "s", "--stat"]).run().stdout_text();
    assert!(text.contains("[undone in part by #4]") && text.contains("read, not changed"), "{text}");
    // Without a name it shows the session with the latest change.
    assert_eq!(ws.lbx(&["review"]).ok()["session"], "s");
    ws.lbx(&["review", "--session", "nobody"]).error("not_found");
}

#[test]
fn review_page_is_escaped_and_overwrites_only_itself() {
    let hostile = "</script><script>alert(1)</script><!-- &amp; \u{202e}\u{2028}";
    let ws = workspace(&[("a.txt", TEN)]);
    edit(&ws, "s", "a.txt", "two", hostile);
    let write = ["write", "<img src=x onerror=alert(1)>.txt", "--content", hostile, "--session", "s"];
    ws.lbx(&write).warned("a character that nobody types");
    let page = ws.outside.join("review.html");
    let path = page.to_str().unwrap();
    let data = ws.lbx(&["review", "--session", "s", "--html", path]).ok();
    assert_eq!(data["html"], path);
    let text = fs::read_to_string(&page).unwrap();
    assert_eq!(text.matches("<script").count(), 2, "{text}");
    assert!(!text.contains("<img") && !text.contains("http:") && !text.contains("https:"));
    assert!(text.contains("default-src 'none'") && !text.contains("{{"));
    // Its data is whole, and no element can begin or end in it.
    let (_, rest) = text.split_once("<script id=\"data\" type=\"application/json\">").unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    assert!(!json.contains(['<', '>', '&', '\u{2028}']), "{json}");
    assert!(
        serde_json::from_str::<serde_json::Value>(json).unwrap().to_string().contains("</script><script>")
    );
    // It overwrites its own page, and no other file.
    ws.lbx(&["review", "--session", "s", "--html", path]).ok();
    assert_eq!(fs::read_to_string(&page).unwrap(), text);
    ws.lbx(&["review", "--session", "s", "--html", "a.txt"]).error("already_exists");
    ws.link(ws.path("a.txt"), "link.html");
    ws.lbx(&["review", "--session", "s", "--html", "link.html"]).error("already_exists");
    ws.lbx(&["review", "--session", "s", "--html", ".git/review.html"]).error("protected_path");
    ws.lbx(&["review", "--session", "s", "--html", "no/such/folder.html"]).error("not_found");
}
