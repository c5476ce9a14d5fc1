//! Paths that belong to git whatever their name, and sets of changes that are refused as a whole.

use std::fs;

use serde_json::json;

use crate::common::Workspace;

/// A valid `HEAD`.
const HEAD: &str = "ref: refs/heads/main\n";

/// Checks that each call is refused as `protected_path` and leaves everything as it is.
#[track_caller]
fn refused(ws: &Workspace, calls: &[&[&str]]) {
    for call in calls {
        ws.unchanged(|| ws.lbx(call).error("protected_path"));
    }
}

/// Returns a patch that creates files with one line each.
fn creates(files: &[(&str, &str)]) -> String {
    let create = |(path, line): &(&str, &str)| format!("*** Add File: {path}\n+{line}\n");
    format!("*** Begin Patch\n{}*** End Patch\n", files.iter().map(create).collect::<String>())
}

/// Returns a patch that creates a symlink.
fn links(path: &str, target: &str) -> String {
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 120000\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file\n"
    )
}

#[test]
fn git_directory_of_any_name_is_protected() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("proj/b.txt", "b\n")]);
    ws.git(&["clone", "-q", "--bare", ".", "proj/vault"]);
    fs::create_dir(ws.path("elsewhere")).unwrap();
    ws.git(&["init", "-q", "--separate-git-dir", "elsewhere/store", "lib"]);
    for folder in ["proj/vault", "elsewhere/store"] {
        let (hook, config, head) =
            (format!("{folder}/hooks/pre-commit"), format!("{folder}/config"), format!("{folder}/HEAD"));
        let parent = folder.split('/').next().unwrap();
        ws.lbx(&["read", &config]).ok();
        refused(
            &ws,
            &[
                &["write", &hook, "--content", "#!/bin/sh\n"],
                &["append", &config, "--content", "[core]\n"],
                &["prepend", &config, "--content", "[core]\n"],
                &["insert", &config, "0", "--content", "[core]\n"],
                &["edit", &config, "--old-string", "core", "--new-string", "x"],
                &["patch", "--patch", &creates(&[(hook.as_str(), "x")])],
                &["delete", &head],
                &["delete", "-r", folder],
                &["delete", "-r", parent],
                &["delete", "-r", &format!("{folder}/refs")],
                &["move", &head, "head"],
                &["move", "a.txt", &hook],
                &["move", folder, "other"],
                &["move", parent, "other"],
                &["write", &hook, "--content", "x", "--dry-run"],
            ],
        );
    }
    assert!(ws.snapshots().is_empty());
    // Similar files are allowed, and so are files next to a repository.
    ws.write("plain/HEAD", "the head of the river\n");
    ws.write("plain/objects/x", "x\n");
    ws.write("plain/refs/x", "x\n");
    ws.lbx(&["write", "plain/hooks/x", "--content", "x\n"]).ok();
    ws.lbx(&["write", "proj/c.txt", "--content", "x\n"]).ok();
    ws.lbx(&["delete", "-r", "plain"]).ok();
}

#[test]
fn undo_and_restore_write_nothing_into_a_new_git_directory() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.lbx(&["write", "x/hooks/y", "--content", "one\n"]).ok();
    ws.lbx(&["delete", "x/hooks/y"]).ok();
    ws.git(&["init", "-q", "--bare", "x"]);
    refused(&ws, &[&["undo"], &["restore", "x/hooks/y"], &["restore", "x/hooks/y", "--to", "x/hooks/z"]]);
    ws.lbx(&["restore", "x/hooks/y", "--to", "y"]).ok();
}

#[test]
fn worktree_inside_its_bare_repository_is_writable() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    ws.git(&["clone", "-q", "--bare", ".", "../proj"]);
    ws.git(&["--git-dir", "../proj", "worktree", "add", "-q", "../proj/main"]);
    let call = |folder: &str, words: &[&str]| ws.call(words).in_folder(&ws.outside.join(folder)).run();
    call("proj/main", &["write", "b.txt", "--content", "b\n"]).ok();
    call("proj", &["write", "hooks/x", "--content", "b\n"]).error("protected_path");
    // From above, one is a work tree and the other a repository.
    let within = |words: &[&str]| {
        let root = ws.outside.display().to_string();
        ws.call(words).arguments(&["--workspace", &root]).in_folder(&ws.outside).run()
    };
    let _ = within(&["write", "proj/main/c.txt", "--content", "c\n"]).success();
    within(&["write", "proj/hooks/x", "--content", "c\n"]).error("protected_path");
}

#[test]
fn change_that_would_form_a_git_directory_is_rejected() {
    let ws = Workspace::with(&[("src/k", "k\n"), ("head.txt", HEAD), ("x/objects/k", "k\n")]);
    // Whichever part is created last.
    ws.write("one/refs/k", "k\n");
    ws.write("one/objects/k", "k\n");
    ws.write("two/HEAD", HEAD);
    ws.write("two/objects/k", "k\n");
    ws.write("three/HEAD", "0123456789012345678901234567890123456789\n");
    ws.write("four/HEAD", "not yet\n");
    ws.write("four/objects/k", "k\n");
    ws.write("four/refs/k", "k\n");
    ws.lbx(&["read", "four/HEAD"]).ok();
    let whole = creates(&[
        ("n/HEAD", "ref: refs/heads/main"),
        ("n/objects/k", "k"),
        ("n/refs/k", "k"),
        ("n/config", "[core]"),
    ]);
    let upper = creates(&[("n/head", "ref: refs/heads/main"), ("n/Objects/k", "k"), ("n/REFS/k", "k")]);
    let link = links("one/HEAD", "refs/heads/main");
    refused(
        &ws,
        &[
            &["write", "one/HEAD", "--content", HEAD],
            &["write", "one/HEAD", "--content", HEAD, "--dry-run"],
            &["move", "head.txt", "one/HEAD"],
            &["patch", "--patch", &link],
            &["write", "two/refs/heads/main", "--content", "x"],
            &["append", "two/refs", "--content", "x"],
            &["move", "src", "two/refs"],
            &["write", "three/commondir", "--content", "../.git\n"],
            &["edit", "four/HEAD", "--old-string", "not yet", "--new-string", "ref: refs/heads/x"],
            &["patch", "--patch", &whole],
            &["patch", "--patch", &upper],
        ],
    );
    assert!(ws.snapshots().is_empty());
    // One part alone is an ordinary file.
    ws.lbx(&["write", "five/HEAD", "--content", HEAD]).ok();
    ws.lbx(&["write", "five/objects/k", "--content", "k\n"]).ok();
    // Neither undo nor restore completes it.
    ws.lbx(&["delete", "five/HEAD"]).ok();
    ws.lbx(&["write", "five/refs/k", "--content", "k\n"]).ok();
    refused(&ws, &[&["undo", "--path", "five/HEAD"], &["restore", "five/HEAD"]]);
    ws.lbx(&["restore", "five/HEAD", "--to", "five/head.txt"]).ok();
}

#[test]
fn workspace_inside_git_or_lbx_state_is_rejected() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("sub/b.txt", "b\n")]);
    ws.lbx(&["append", "a.txt", "--content", "x\n"]).ok();
    ws.git(&["init", "-q", "--bare", "vault"]);
    for root in [".git", ".git/hooks", ".lbx", "vault", "vault/hooks", "sub/../.git/refs"] {
        let error = ws.lbx(&["write", "x", "--content", "x", "--workspace", root]).error("protected_path");
        assert!(error["message"].as_str().unwrap().contains("cannot be the workspace"), "{error}");
        ws.call(&["ls"]).env("LBX_WORKSPACE", root).run().error("protected_path");
        assert!(!ws.path(root).join("x").exists());
    }
    ws.git(&["init", "-q", "--bare", "../bare"]);
    for folder in ["bare", "bare/hooks"] {
        ws.call(&["ls"]).in_folder(&ws.outside.join(folder)).run().error("protected_path");
    }
    // From within, the root is the folder of the files.
    ws.call(&["read", "../../a.txt"]).in_folder(&ws.path(".git/hooks")).run().ok();
    ws.lbx(&["ls", "--workspace", "sub"]).ok();
}

#[test]
fn symlink_gives_no_access_to_a_protected_path() {
    let ws = Workspace::with(&[("open/prod.toml", "mine\n"), ("real/prod.toml", "theirs\n")]);
    ws.link("open", "link");
    ws.write("holder/conf-to-be", "x\n");
    ws.link("../open", "holder/conf");
    ws.write(".lbx/config.toml", "protect = [\"conf/prod.toml\", \"deep/conf/*\", \"linked/prod.toml\"]\n");
    ws.link("real", "linked");
    ws.lbx(&["read", "linked/prod.toml"]).ok();
    let both = format!("{}{}", links("conf", "open"), links("other", "open"));
    refused(
        &ws,
        &[
            &["patch", "--patch", &links("conf", "open")],
            &["patch", "--patch", &links("CONF", "open")],
            &["patch", "--patch", &both],
            &["patch", "--patch", &links("deep", "holder")],
            &["move", "link", "conf"],
            &["move", "link", "conf", "--dry-run"],
            &["move", "holder", "deep"],
            &["write", "linked/prod.toml", "--content", "mine\n"],
            &["edit", "linked/prod.toml", "--old-string", "theirs", "--new-string", "mine"],
            &["delete", "linked/prod.toml"],
        ],
    );
    ws.lbx(&["delete", "link"]).ok();
    refused(&ws, &[&["restore", "link", "--to", "conf"]]);
    ws.lbx(&["restore", "link"]).ok();
    ws.lbx(&["move", "link", "free"]).ok();
    ws.lbx(&["patch", "--patch", &links("also-free", "open")]).ok();
}

#[test]
fn git_path_with_backslashes_is_protected() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    for path in [r".git\config", r"sub\.GIT\hooks\x", r".lbx\config.toml", r"sub/x\.git", r".git\"] {
        refused(&ws, &[&["write", path, "--content", "x"], &["move", "a.txt", path]]);
    }
    ws.lbx(&["write", r"a\b.txt", "--content", "x"]).ok();
}

#[test]
fn symlink_with_trailing_slash_is_neither_deleted_nor_moved() {
    let ws = Workspace::with(&[("real/a.txt", "a\n")]);
    ws.link("real", "link");
    for path in ["link/", "link/.", "link//", "./link/"] {
        for call in [&["delete", path][..], &["delete", "-r", path], &["move", path, "x"]] {
            let error = ws.unchanged(|| ws.lbx(call).error("invalid_request"));
            assert!(error["message"].as_str().unwrap().contains("symlink"), "{error}");
            assert_eq!(error["path"], "link");
        }
    }
    ws.lbx(&["move", "real/", "folder"]).ok();
    ws.lbx(&["delete", "link"]).ok();
    ws.holds("folder/a.txt", "a\n");
}

#[test]
fn every_tool_rejects_an_overlong_path() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let (deep, long) = (format!("{}x", "x/".repeat(2500)), format!("sub/{}", "y".repeat(256)));
    let out = format!("/tmp/{}", "../tmp/".repeat(3000));
    for path in [&deep, &long, &out] {
        ws.unchanged(|| {
            for (tool, request) in [
                ("read", json!({"path": path})),
                ("write", json!({"path": path, "content": "x"})),
                ("append", json!({"path": path, "content": "x"})),
                ("edit", json!({"path": path, "old_string": "a", "new_string": "b"})),
                ("patch", json!({"patch": creates(&[(path, "x")])})),
                ("section", json!({"path": path, "header": "a", "content": "b"})),
                ("delete", json!({"path": path})),
                ("restore", json!({"path": path})),
                ("move", json!({"from": "a.txt", "to": path})),
                ("move", json!({"from": path, "to": "b.txt"})),
                ("undo", json!({"path": path})),
                ("grep", json!({"pattern": "x", "path": path})),
                ("ls", json!({"path": path})),
            ] {
                ws.json(tool, &request).error("invalid_request");
            }
        });
    }
    // A deep path that the system accepts is moved, deleted, restored and undone.
    let deepest = format!("{}x", "x/".repeat(200));
    ws.json("move", &json!({"from": "a.txt", "to": deepest})).ok();
    ws.lbx(&["delete", "-r", "x"]).ok();
    ws.lbx(&["restore", "x"]).ok();
    ws.lbx(&["undo", "--steps", "3"]).ok();
    ws.holds("a.txt", "a\n");
}
