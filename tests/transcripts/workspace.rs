//! The workspace: its root, its contents, and the paths that no tool writes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use serde_json::json;

use crate::common::{Workspace, make_fifo};

/// Returns every changing call, on a path.
fn mutations(path: &str) -> Vec<Vec<String>> {
    let calls: [&[&str]; 5] = [
        &["write", path, "--content", "evil"],
        &["append", path, "--content", "evil"],
        &["prepend", path, "--content", "evil"],
        &["insert", path, "0", "--content", "evil"],
        &["edit", path, "--old-string", "a", "--new-string", "evil"],
    ];
    calls.iter().map(|call| call.iter().map(|&word| word.to_owned()).collect()).collect()
}

#[test]
fn root_is_the_nearest_parent_with_git_or_lbx() {
    let ws = Workspace::with(&[("top.txt", "top\n"), ("a/b/c.txt", "c\n"), ("sub/x.txt", "x\n")]);
    let deep = ws.path("a/b");
    let read = |path: &str| ws.call(&["read", path]).in_folder(&deep).run();
    assert_eq!(read("c.txt").ok()["path"], "c.txt");
    let up = read("../../top.txt").ok();
    assert_eq!((&up["path"], &up["content"]), (&json!("../../top.txt"), &json!("top\n")));
    read("../../../outside").error("outside_workspace");
    // A folder with .lbx is a root of its own.
    fs::create_dir(ws.path("sub/.lbx")).unwrap();
    ws.call(&["read", "../top.txt"]).in_folder(&ws.path("sub")).run().error("outside_workspace");
    assert!(ws.path("sub/.lbx").exists());
}

#[test]
fn response_paths_are_relative_to_the_current_folder() {
    let ws = Workspace::with(&[("a/one.txt", "one\n")]);
    let here = ws.path("a");
    ws.call(&["read", "one.txt"]).in_folder(&here).run().ok();
    let call = ["edit", "one.txt", "--old-string", "one", "--new-string", "1"];
    assert_eq!(ws.call(&call).in_folder(&here).run().ok()["path"], "one.txt");
    let data = ws.call(&["write", "../b/two.txt", "--content", "2"]).in_folder(&here).run().ok();
    assert_eq!(data["path"], "../b/two.txt");
    assert_eq!(ws.snapshots(), ["write: b/two.txt", "edit: a/one.txt"]);
}

#[test]
fn paths_from_outside_are_relative_to_the_root() {
    let ws = Workspace::with(&[("a/one.txt", "one\n")]);
    let data = ws
        .call(&["read", "a/one.txt", "--workspace"])
        .arguments(&[&ws.root])
        .in_folder(&ws.outside)
        .run()
        .ok();
    assert_eq!(data["path"], "a/one.txt");
    ws.lbx(&["read", "x", "--workspace", "/nowhere/at/all"]).error("not_found");
    ws.lbx(&["read", "x", "--workspace", "a/one.txt"]).error("not_a_directory");
}

#[test]
fn current_folder_is_the_root_without_git_or_lbx() {
    let ws = Workspace::bare(&[("a.txt", "a\n"), ("sub/b.txt", "b\n")]);
    ws.call(&["read", "../a.txt"]).in_folder(&ws.path("sub")).run().error("outside_workspace");
    ws.call(&["read", "b.txt"]).in_folder(&ws.path("sub")).run().ok();
}

#[test]
fn absolute_path_inside_the_workspace_is_accepted() {
    let ws = Workspace::with(&[("a/one.txt", "one\n")]);
    let path = ws.path("a/one.txt");
    let data = ws.call(&["read"]).arguments(&[&path]).run().ok();
    assert_eq!(data["path"], "a/one.txt");
    ws.lbx(&["edit", "a/one.txt", "--old-string", "one", "--new-string", "1"]).ok();
}

#[test]
fn nothing_outside_is_read_or_written() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("sub/b.txt", "a\n")]);
    fs::write(ws.outside.join("secret"), "a\n").unwrap();
    fs::create_dir(ws.outside.join("ws-evil")).unwrap();
    fs::write(ws.outside.join("ws-evil/secret"), "a\n").unwrap();
    let outside = ws.outside.display();
    ws.link("../secret", "link");
    ws.link(format!("{outside}/secret"), "absolute-link");
    ws.link("..", "up");
    ws.link(format!("{outside}/ws-evil"), "evil");
    ws.link("link", "chain");
    ws.link("../dangling", "dangling");
    ws.link("/proc/self/root", "magic");
    ws.link("/proc/self/cwd/../secret", "magic-cwd");
    let sibling = format!("{outside}/ws-evil/secret");
    let prefixed = format!("{outside}/ws/../secret");
    for path in [
        "../secret",
        "sub/../../secret",
        "./.././secret",
        "../ws-evil/secret",
        "../ws/../secret",
        "/etc/passwd",
        "/",
        "..",
        &sibling,
        &prefixed,
        "link",
        "absolute-link",
        "up/secret",
        "up",
        "evil/secret",
        "evil/new",
        "chain",
        "dangling",
        "magic/etc/passwd",
        "magic-cwd",
        "none/../../secret",
        "../does-not-exist",
    ] {
        ws.lbx(&["read", path]).error("outside_workspace");
        for call in mutations(path) {
            let call: Vec<&str> = call.iter().map(String::as_str).collect();
            ws.lbx(&call).error("outside_workspace");
        }
    }
    assert_eq!(fs::read_to_string(ws.outside.join("secret")).unwrap(), "a\n");
    assert_eq!(fs::read_dir(ws.outside.join("ws-evil")).unwrap().count(), 1);
    assert!(!ws.outside.join("dangling").exists());
    assert!(ws.snapshots().is_empty());
}

#[test]
fn path_that_leaves_and_reenters_the_workspace_is_inside() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("sub/b.txt", "b\n")]);
    for path in
        ["../ws/a.txt", "sub/../a.txt", "./a.txt", ".//a.txt", "none/../a.txt", "sub/./../../ws/a.txt"]
    {
        assert_eq!(ws.lbx(&["read", path]).ok()["content"], "a\n", "{path}");
    }
    std::os::unix::fs::symlink(&ws.root, ws.outside.join("alias")).unwrap();
    let aliased = format!("{}/alias/a.txt", ws.outside.display());
    ws.lbx(&["read", &aliased]).ok();
    ws.call(&["read", "a.txt"]).in_folder(&ws.outside.join("alias")).run().ok();
}

#[test]
fn symlinks_inside_are_followed_and_kept() {
    let ws = Workspace::with(&[("real/a.txt", "a\n")]);
    ws.link("real/a.txt", "link");
    ws.link(ws.path("real"), "absolute");
    ws.link("link", "chain");
    ws.link("sub/new.txt", "to-new");
    for (path, old, new) in
        [("link", "a", "b"), ("chain", "b", "c"), ("absolute/a.txt", "c", "d"), ("real/a.txt", "d", "e")]
    {
        // Read records use the canonical path: one read is enough for all names.
        if path == "link" {
            ws.lbx(&["read", path]).ok();
        }
        let data = ws.lbx(&["edit", path, "--old-string", old, "--new-string", new]).ok();
        assert_eq!(data["path"], path);
    }
    ws.holds("real/a.txt", "e\n");
    for link in ["link", "chain", "absolute"] {
        assert!(fs::symlink_metadata(ws.path(link)).unwrap().is_symlink(), "{link}");
    }
    assert_eq!(ws.snapshots()[0], "edit: real/a.txt");
    ws.lbx(&["write", "to-new", "--content", "n"]).ok();
    ws.holds("sub/new.txt", "n");
}

#[test]
fn symlink_loop_is_an_error() {
    let ws = Workspace::with(&[]);
    ws.link("b", "a");
    ws.link("a", "b");
    ws.link("self/x", "self");
    for path in ["a", "a/x", "self"] {
        ws.lbx(&["read", path]).error("invalid_request");
        ws.lbx(&["write", path, "--content", "x"]).error("invalid_request");
    }
}

#[test]
fn git_and_lbx_state_is_never_written() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("deep/x.txt", "a\n")]);
    fs::create_dir_all(ws.path("vendor/lib/.git/hooks")).unwrap();
    fs::write(ws.path("vendor/lib/.git/config"), "a\n").unwrap();
    ws.link(".git", "innocent");
    ws.link(".git/config", "config");
    ws.link("../.git/hooks", "deep/hooks");
    ws.lbx(&["read", ".git/config"]).ok();
    let before = fs::read(ws.path(".git/config")).unwrap();
    let absolute = ws.path(".git/config").display().to_string();
    for path in [
        ".git/config",
        ".git/hooks/pre-commit",
        ".GIT/config",
        ".Git/hooks/x",
        ".lbx/config.toml",
        ".LBX/sessions/default.lbx",
        ".lbx",
        ".git",
        "a/b/.git/config",
        "vendor/lib/.git/config",
        "vendor/lib/.gIt/new",
        "vendor/.git",
        "innocent/config",
        "config",
        "deep/hooks/post-checkout",
        "deep/../.git/config",
        ".git/../.git/config",
        "git~1/config",
        ".git ./config",
        &absolute,
    ] {
        for call in mutations(path) {
            let call: Vec<&str> = call.iter().map(String::as_str).collect();
            let answer = ws.lbx(&call);
            answer.error("protected_path");
        }
    }
    assert_eq!(fs::read(ws.path(".git/config")).unwrap(), before);
    assert!(!ws.path("a").exists());
    // Similar names are allowed.
    for path in [".gitignore", ".github/x.yml", "git", ".lbxrc", "x.git/config"] {
        ws.lbx(&["write", path, "--content", "x\n"]).ok();
    }
}

#[test]
fn every_spelling_of_git_is_protected() {
    let ws = Workspace::with(&[]);
    let write = |name: &str| ws.lbx(&["write", &format!("a/{name}/config"), "--content", "x\n"]);
    for name in [
        ".git",
        ".GIT",
        ".Git",
        "git~1",
        "GIT~1",
        ".git.",
        ".git ",
        ".git . .",
        ".git::$INDEX_ALLOCATION",
        ".g\u{200c}it",
        "\u{feff}.git",
        ".lbx",
        ".LBX",
        "lbx~1",
        r".git\config",
        r"a\.GIT\hooks",
        r"sub\.lbx",
        r"\.git",
    ] {
        write(name).error("protected_path");
    }
    for name in
        [".gitignore", "git", ".github", "a.git", ".lbxrc", ".", "git~2x", "", "lbx", ".gitmodules", r"a\b"]
    {
        write(name).success();
    }
}

#[test]
fn repository_has_a_valid_head_and_objects_with_refs_or_a_commondir() {
    let id = "0123456789abcdefABCDEF0123456789abcdef01";
    let main = "ref: refs/heads/main\n";
    for (head, others, is_one) in [
        (main, &["objects", "refs"][..], true),
        (main, &["commondir"], true),
        (main, &["objects"], false),
        (main, &["refs"], false),
        (main, &[], false),
        ("ref:refs/x", &["commondir"], true),
        ("ref: \t refs/", &["commondir"], true),
        (id, &["commondir"], true),
        (&format!("{id}\n"), &["commondir"], true),
        (&format!("{id} and more"), &["commondir"], true),
        ("ref: heads/main", &["commondir"], false),
        ("", &["commondir"], false),
        ("refs/heads/main", &["commondir"], false),
        (&id[1..], &["commondir"], false),
        ("the head of the river\n", &["commondir"], false),
    ] {
        let ws = Workspace::with(&[]);
        ws.write("d/HEAD", head);
        others.iter().for_each(|name| fs::create_dir(ws.path("d").join(name)).unwrap());
        let answer = ws.lbx(&["write", "d/new", "--content", "x\n"]);
        if is_one { drop(answer.error("protected_path")) } else { drop(answer.ok()) }
    }
    for (target, is_one) in [("refs/heads/main", true), ("../HEAD", false)] {
        let ws = Workspace::with(&[("d/commondir", "x\n")]);
        ws.link(target, "d/HEAD");
        let answer = ws.lbx(&["write", "d/new", "--content", "x\n"]);
        if is_one { drop(answer.error("protected_path")) } else { drop(answer.ok()) }
    }
}

#[test]
fn state_folder_is_protected_before_it_exists() {
    let ws = Workspace::bare(&[]);
    for path in [".git/config", ".lbx/state", ".git", ".lbx"] {
        ws.lbx(&["write", path, "--content", "x"]).error("protected_path");
    }
    assert!(!ws.path(".git").exists());
}

#[test]
fn file_in_place_of_the_state_folder_is_reported() {
    let ws = Workspace::bare(&[(".lbx", "a file\n"), ("a.txt", "a\n")]);
    let read = ws.lbx(&["read", "a.txt"]).warned("cannot record the read");
    assert_eq!(read["content"], "a\n");
    ws.lbx(&["write", "b.txt", "--content", "b"]).error("not_a_directory");
    fs::remove_file(ws.path(".lbx")).unwrap();
    std::os::unix::fs::symlink(&ws.outside, ws.path(".lbx")).unwrap();
    ws.lbx(&["write", "b.txt", "--content", "b"]).error("not_a_directory");
    assert!(!ws.outside.join("sessions").exists());
}

#[test]
fn devices_fifos_and_sockets_never_block() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    make_fifo(&ws.path("fifo"));
    let _socket = UnixListener::bind(ws.path("socket")).unwrap();
    ws.link("fifo", "to-fifo");
    for path in ["fifo", "socket", "to-fifo"] {
        let error = ws.lbx(&["read", path]).error("not_a_regular_file");
        assert_eq!(error["path"], path);
        for call in mutations(path) {
            let call: Vec<&str> = call.iter().map(String::as_str).collect();
            ws.lbx(&call).error("not_a_regular_file");
        }
    }
    ws.link("/dev/zero", "zero");
    ws.lbx(&["read", "zero"]).error("outside_workspace");
    let data = ws.call(&["read", "null", "--workspace", "/dev"]).run().error("not_a_regular_file");
    assert_eq!(data["path"], "null");
}

#[test]
fn folders_and_files_are_distinguished() {
    let ws = Workspace::with(&[("sub/a.txt", "a\n")]);
    for path in ["sub", "sub/", ".", "sub/.", "sub/../sub"] {
        ws.lbx(&["read", path]).error("is_a_directory");
    }
    for path in ["sub/a.txt/", "sub/a.txt/.", "sub/a.txt/./", "sub/a.txt/x", "sub/a.txt/../a.txt"] {
        ws.lbx(&["read", path]).error("not_a_directory");
        ws.lbx(&["delete", path]).error("not_a_directory");
        ws.lbx(&["grep", "a", path]).error("not_a_directory");
    }
    ws.holds("sub/a.txt", "a\n");
}

#[test]
fn path_with_trailing_slash_never_names_a_file() {
    let ws = Workspace::with(&[("sub/a.txt", "a\n"), ("b.txt", "b\n")]);
    ws.lbx(&["delete", "b.txt"]).ok();
    ws.unchanged(|| {
        for path in ["none/", "none/.", "none/./", "none//", "sub/none/."] {
            ws.lbx(&["read", path]).error("not_found");
            for tool in ["write", "append", "prepend"] {
                ws.lbx(&[tool, path, "--content", "x"]).error("not_found");
            }
            ws.lbx(&["move", "sub/a.txt", path]).error("not_found");
            ws.lbx(&["restore", "b.txt", "--to", path]).error("not_found");
            let patch = format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+new\n");
            ws.lbx_stdin(&["patch"], &patch).error("not_found");
        }
    });
    // Calls about folders accept such a name, whether the folder exists or not.
    ws.lbx(&["mkdir", "new/"]).ok();
    ws.lbx(&["mkdir", "new/deep/."]).ok();
    ws.lbx(&["move", "sub", "moved/"]).ok();
    ws.holds("moved/a.txt", "a\n");
    ws.lbx(&["delete", "moved/", "--recursive"]).ok();
    ws.lbx(&["log", "moved/"]).ok();
    ws.lbx(&["audit", "moved/"]).ok();
    ws.lbx(&["restore", "moved/", "--to", "back/"]).ok();
    ws.holds("back/a.txt", "a\n");
    ws.lbx(&["undo", "--path", "back/"]).ok();
    assert!(!ws.path("back").exists());
}

#[test]
fn file_name_may_contain_any_bytes() {
    let ws = Workspace::with(&[]);
    let names: [&[u8]; 6] =
        [b"caf\xe9.txt", b"new\nline", b"tab\t\"quote'", b" lead and trail ", b"*?[x]", b"\xff"];
    for name in names {
        let name = OsStr::from_bytes(name);
        let call = |words: &[&str]| {
            let mut call: Vec<OsString> = vec![words[0].into(), name.to_owned()];
            call.extend(words[1..].iter().map(OsString::from));
            ws.call(&call).run().success()
        };
        call(&["write", "--content", "one\n"]);
        let read = call(&["read"]);
        assert_eq!(read["data"]["content"], "one\n", "{}", name.display());
        let lossy = name.to_str().is_none();
        assert_eq!(read["warnings"].to_string().contains("not UTF-8"), lossy, "{}", name.display());
        call(&["edit", "--old-string", "one", "--new-string", "two"]);
        assert_eq!(fs::read(ws.root.join(name)).unwrap(), b"two\n");
    }
    assert_eq!(ws.snapshots().len(), 12);
    ws.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn composed_and_decomposed_names_are_two_files() {
    let ws = Workspace::with(&[]);
    ws.lbx(&["write", "caf\u{e9}", "--content", "composed"]).ok();
    ws.lbx(&["write", "cafe\u{301}", "--content", "decomposed"]).ok();
    ws.holds("caf\u{e9}", "composed");
    ws.holds("cafe\u{301}", "decomposed");
}

#[test]
fn unreadable_root_is_permission_denied() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let root = ws.root.display().to_string();
    ws.chmod("", 0o600);
    for arguments in [["read", "a.txt", "--workspace", &root], ["mkdir", "new", "--workspace", &root]] {
        if let Some(call) = ws.call_unprivileged(&arguments) {
            let error = call.in_folder(&ws.outside).run().error("permission_denied");
            assert!(error["message"].as_str().unwrap().contains("cannot look into"), "{error}");
        }
    }
    ws.chmod("", 0o755);
}

#[test]
fn unreadable_folder_is_permission_denied() {
    let ws = Workspace::with(&[("d/a.txt", "one\n"), ("b.txt", "b\n")]);
    for mode in [0, 0o444] {
        ws.chmod("d", mode);
        for arguments in [&["move", "d", "e"][..], &["delete", "d", "--recursive"]] {
            let Some(call) = ws.call_unprivileged(arguments) else { continue };
            let error = call.run().error("permission_denied");
            assert_eq!(error["message"], "cannot look at d: Permission denied");
        }
    }
    ws.chmod("d", 0o755);
}

#[test]
fn home_and_system_folders_are_no_implicit_workspace() {
    let ws = Workspace::bare(&[("notes.txt", "note\n")]);
    let home = |arguments: &[&str]| ws.call(arguments).env("HOME", &ws.root).run();
    for arguments in [
        &["ls"][..],
        &["read", "notes.txt"],
        &["grep", "note"],
        &["write", "x.txt", "--content", "x"],
        &["bash", "true"],
    ] {
        let error = home(arguments).error("invalid_request");
        assert!(error["message"].as_str().unwrap().ends_with("is a home folder"), "{error}");
        assert!(error["suggested_action"].as_str().unwrap().contains("--workspace DIR"), "{error}");
        for folder in ["/etc", "/usr/lib", "/var/lib"] {
            let system = ws.call(arguments).in_folder(Path::new(folder)).run().error("invalid_request");
            assert!(system["message"].as_str().unwrap().ends_with("is a folder of the system"), "{system}");
        }
    }
    assert!(!ws.path(".lbx").exists() && !ws.path("x.txt").exists());
    // A home folder that is named explicitly, or that is a repository, is accepted.
    home(&["--workspace", ws.root.to_str().unwrap(), "ls"]).ok();
    ws.git(&["init", "-q"]);
    home(&["ls"]).ok();
    // Tools that need no project still answer.
    ws.call(&["schema", "read"]).env("HOME", &ws.root).in_folder(std::path::Path::new("/")).run().ok();
}

#[test]
fn home_folder_as_workspace_is_no_place_to_set_up_a_client() {
    let ws = Workspace::with(&[("notes.txt", "note\n")]);
    let home = |arguments: &[&str]| {
        ws.call(arguments).env("HOME", &ws.root).env("LBX_STATE_ID", "").env("XDG_STATE_HOME", "").run()
    };
    for client in ["claude-code", "codex", "cursor"] {
        let error = ws.unchanged(|| home(&["init", "--client", client]).error("invalid_request"));
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains(&format!("is your home folder: there {client} takes its settings")),
            "{error}"
        );
        assert!(error["suggested_action"].as_str().unwrap().contains("--workspace DIR"), "{error}");
    }
    // Entries of an earlier release can still be removed.
    home(&["init", "--client", "claude-code", "--remove"]).envelope();
    // No secret is kept where the tools could read it, and doctor says so.
    home(&["append", "notes.txt", "--content", "more\n"]).success();
    let findings = home(&["doctor"]).ok()["findings"].clone();
    let state = findings.as_array().unwrap().iter().find(|found| found["check"] == "state").unwrap();
    let message = state["message"].as_str().unwrap();
    assert!(
        message
            .ends_with("(id derived from machine and user: the workspace contains the folder for secrets)"),
        "{state}"
    );
    assert!(
        state["remedy"].as_str().unwrap().contains("Set XDG_STATE_HOME to a folder outside the workspace")
    );
}

#[test]
fn move_to_a_folder_with_trailing_slash_goes_into_it() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("d/b.txt", "two\n"), ("e/c.txt", "three\n")]);
    ws.lbx(&["move", "a.txt", "d"]).error("already_exists");
    assert_eq!(ws.lbx(&["move", "a.txt", "d/"]).ok()["to"], "d/a.txt");
    assert_eq!(ws.lbx(&["move", "d", "e/"]).ok()["to"], "e/d");
    ws.holds("e/d/a.txt", "one\n");
    ws.lbx(&["move", "e", "e/"]).error("invalid_request");
    ws.lbx(&["undo", "--steps", "2"]).ok();
    ws.holds("a.txt", "one\n");
}
