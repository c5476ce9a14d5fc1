//! Forks as copies, in folders with paths of their own.

use std::process::Command;

use serde_json::json;

use crate::common::Call;
use crate::created::{forked, within};

#[test]
fn copy_is_a_workspace_with_a_path_of_its_own() {
    let Some(ws) = forked(&[]) else { return };
    ws.link("src/a.txt", "link");
    ws.chmod("src/b.txt", 0o755);
    let before = ws.tree();
    let made = ws.lbx(&["fork", "one", "--at", "../copy", "--why", "try it"]).ok();
    let copy = ws.outside.join("copy");
    assert_eq!(made["forks"][0]["at"], copy.to_str().unwrap());
    let run = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(&copy).env("HOME", ws.outside.join("home"));
        String::from_utf8(shell.output().unwrap().stdout).unwrap()
    };
    assert_eq!(
        run("cat .env src/a.txt link target/out"),
        "TOKEN=1\none\ntwo\nthree\nuncommitted\none\ntwo\nthree\nuncommitted\nbuilt\n"
    );
    assert_eq!(
        run("stat -c %a src/b.txt; git status --short; git log --format=%s"),
        "755\n M src/a.txt\n M src/b.txt\n?? link\nfirst\n"
    );
    // A native program commits in it; the workspace has none of it.
    run(
        "git config user.name n; git config user.email n@example.org; echo x > native.txt; git add -A; git commit -qm native",
    );
    within(&ws, "one", &["edit", "src/b.txt", "--old-string", "b", "--new-string", "c"]).error("not_read");
    within(&ws, "one", &["read", "src/b.txt"]).ok();
    within(&ws, "one", &["edit", "src/b.txt", "--old-string", "b", "--new-string", "c"]).ok();
    within(&ws, "one", &["bash", "rm docs/c.md"]).ok();
    assert_eq!(ws.tree(), before);
    assert_eq!(ws.git(&["log", "--format=%s"]).trim(), "first");
    assert_eq!(ws.lbx(&["fork", "log", "one"]).ok()["log"]["snapshots"][0]["tool"], "bash");
    let listed = ws.lbx(&["fork"]).ok()["forks"][0].clone();
    // Native.txt, b.txt, and the name of c.md.
    assert_eq!(json!([listed["name"], listed["files"], listed["why"]]), json!(["one", 3, "try it"]));
    ws.lbx(&["fork", "drop", "one"]).ok();
    assert!(!copy.exists());
    assert_eq!(ws.tree(), before);
}

#[test]
fn folder_of_a_copy_is_checked() {
    let Some(ws) = forked(&[]) else { return };
    let error = ws.lbx(&["fork", "one", "--at", "inside"]).error("invalid_request");
    assert!(error["message"].as_str().unwrap().contains("must be outside the workspace"), "{error}");
    std::fs::create_dir(ws.outside.join("full")).unwrap();
    std::fs::write(ws.outside.join("full/theirs"), "x").unwrap();
    let error = ws.lbx(&["fork", "one", "--at", "../full"]).error("already_exists");
    assert!(
        error["suggested_action"].as_str().unwrap().contains("a folder that does not exist yet"),
        "{error}"
    );
    assert_eq!(std::fs::read(ws.outside.join("full/theirs")).unwrap(), b"x");
    ws.lbx(&["fork", "one", "--at", "../none/copy"]).error("not_found");
    // The files of the workspace would become the policy of the user, or settings of other programs.
    ws.lbx(&["fork", "one", "--at", "../home/.config"]).error("protected_path");
    let error = ws.lbx(&["fork", "one", "--at", "../home/.config/lbx"]).error("protected_path");
    assert!(error["message"].as_str().unwrap().contains("is a place of the user's own lbx files"), "{error}");
    let config = ws.outside.join("home/.config/lbx/config.toml");
    let loosen = std::fs::read(&config).unwrap();
    std::fs::write(&config, "").unwrap();
    for at in ["../home/.config/autostart", "../home/bin", "../.hidden", "/usr/local/bin/copy"] {
        let error = ws.lbx(&["fork", "one", "--at", at]).error("outside_workspace");
        assert!(
            error["message"].as_str().unwrap().contains("other programs would use a copy there"),
            "{error}"
        );
    }
    // In the home folder, a copy is named after its workspace.
    let after = format!("../{}.copy", ws.root.file_name().unwrap().to_str().unwrap());
    let at_home = |at: &str| Call::new(&ws.root, &ws.outside).arguments(&["fork", "one", "--at", at]).run();
    at_home("../bin").error("outside_workspace");
    at_home(&after).ok();
    ws.lbx(&["fork", "drop", "one"]).ok();
    ws.lbx(&["fork", "one", "--at", "../copy"]).ok();
    ws.lbx(&["fork", "drop", "one"]).ok();
    std::fs::write(&config, loosen).unwrap();
    let page = ws.outside.join("home/.config/lbx/page.html");
    ws.lbx(&["write", "new.txt", "--content", "new\n"]).ok();
    ws.lbx(&["review", "--html", page.to_str().unwrap()]).error("protected_path");
    assert!(!page.exists());
    ws.lbx(&["fork", "one", "--at", "../copy"]).ok();
    // What is no longer the copy is not deleted.
    std::fs::rename(ws.outside.join("copy"), ws.outside.join("moved")).unwrap();
    std::fs::create_dir(ws.outside.join("copy")).unwrap();
    std::fs::write(ws.outside.join("copy/theirs"), "x").unwrap();
    ws.lbx(&["fork", "list"]).warned("is gone");
    ws.lbx(&["fork", "drop", "one"]).ok();
    assert_eq!(std::fs::read(ws.outside.join("copy/theirs")).unwrap(), b"x");
    assert!(ws.outside.join("moved/src").exists());
}

#[test]
fn program_runs_in_a_copy() {
    let Some(ws) = forked(&[]) else { return };
    ws.lbx(&["fork", "one", "--at", "../copy"]).ok();
    let home = ws.outside.join("home");
    let program = ["fork", "exec", "one", "--", "sh", "-c", "pwd; exit 3"];
    let ran = Call::new(&ws.root, &home).arguments(&program).spawn().wait_with_output().unwrap();
    assert_eq!(ran.status.code(), Some(3));
    assert_eq!(String::from_utf8(ran.stdout).unwrap().trim(), ws.outside.join("copy").to_str().unwrap());
}
