//! A fork is created, used by every tool, listed and dropped.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{Call, PATH_FIXED, Workspace, is_root, skipped};

/// Returns a workspace with committed, uncommitted and ignored files; `None` if no fork is possible here.
pub fn forked(names: &[&str]) -> Option<Workspace> {
    let ws = Workspace::with(&[
        ("src/a.txt", "one\ntwo\nthree\n"),
        ("src/b.txt", "b\n"),
        ("docs/c.md", "# c\n"),
        (".gitignore", ".env\ntarget/\n"),
    ]);
    ws.write(".env", "TOKEN=1\n");
    ws.write("target/out", "built\n");
    ws.write("src/a.txt", "one\ntwo\nthree\nuncommitted\n");
    for name in names {
        let forked = ws.lbx(&["fork", name]);
        if forked.status() != 0 {
            skipped(forked.error("invalid_request")["message"].as_str().unwrap());
            return None;
        }
    }
    Some(ws)
}

/// Returns a call in a fork.
pub fn within(ws: &Workspace, name: &str, arguments: &[&str]) -> crate::common::Answer {
    ws.lbx(&[&["--sandbox", name], arguments].concat())
}

/// Returns what a shell prints in a fork.
pub fn shell(ws: &Workspace, name: &str, script: &str) -> String {
    let output =
        ws.call(&["fork", "exec", name, "--", "sh", "-c", script]).spawn().wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn fork_has_files_history_and_undo_of_its_own() {
    let Some(ws) = forked(&["one"]) else { return };
    let before = ws.tree();
    assert_eq!(within(&ws, "one", &["read", ".env"]).ok()["content"], "TOKEN=1\n");
    let read = within(&ws, "one", &["read", "src/a.txt"]).ok();
    assert_eq!(read["content"], "one\ntwo\nthree\nuncommitted\n");
    within(&ws, "one", &["edit", "src/a.txt", "--old-string", "two", "--new-string", "2"]).ok();
    within(&ws, "one", &["move", "src", "lib"]).ok();
    within(&ws, "one", &["delete", "docs", "--recursive"]).ok();
    within(&ws, "one", &["bash", "echo new > lib/new.txt; rm .env"]).ok();
    assert_eq!(ws.tree(), before, "the workspace changed");
    assert_eq!(
        shell(&ws, "one", "cat lib/a.txt; ls -A"),
        "one\n2\nthree\nuncommitted\n.git\n.gitignore\n.lbx\nlib\ntarget\n"
    );
    let log = within(&ws, "one", &["log"]).ok();
    assert_eq!(log["snapshots"][0]["session"], "one", "{log}");
    assert_eq!(ws.lbx(&["fork", "log", "one"]).ok()["log"]["snapshots"][0], log["snapshots"][0]);
    within(&ws, "one", &["undo", "--steps", "4"]).ok();
    assert_eq!(
        shell(&ws, "one", "cat .env src/a.txt docs/c.md"),
        "TOKEN=1\none\ntwo\nthree\nuncommitted\n# c\n"
    );
    // The workspace has no history of it, and its own session has read nothing.
    ws.lbx(&["edit", "src/a.txt", "--old-string", "two", "--new-string", "2"]).error("not_read");
    let own = ws.lbx(&["log"]).ok();
    let is_of_others = |snapshot: &Value| snapshot["tool"] == "external";
    assert!(own["snapshots"].as_array().unwrap().iter().all(is_of_others), "{own}");
}

#[test]
fn forks_are_listed_and_dropped_with_their_changes() {
    let Some(ws) = forked(&["one", "My Fork!"]) else { return };
    let before = ws.tree();
    within(&ws, "my-fork", &["write", "x.txt", "--content", "12345"]).ok();
    let forks = ws.lbx(&["fork", "list"]).ok()["forks"].clone();
    let facts = |at: usize| json!([forks[at]["name"], forks[at]["files"], forks[at]["bytes"]]);
    assert_eq!(facts(0), json!(["my-fork", 1, 5]), "{forks}");
    assert_eq!(facts(1), json!(["one", 0, 0]), "{forks}");
    assert_eq!(ws.lbx(&["sandbox", "list"]).ok()["sandboxes"][0]["fork"], true);
    ws.lbx(&["fork", "drop", "my-fork"]).ok();
    within(&ws, "my-fork", &["ls"]).error("sandbox_not_found");
    ws.lbx(&["fork", "drop", "one"]).ok();
    assert_eq!(ws.lbx(&["fork"]).ok()["forks"], json!([]));
    assert_eq!(ws.tree(), before);
    let kept = ws.outside.join("home/.local/state/lbx/forks");
    assert_eq!(kept.read_dir().unwrap().count(), 0, "a dropped fork left files behind");
}

#[test]
fn fork_that_lost_its_name_gets_it_back() {
    let Some(ws) = forked(&["one"]) else { return };
    let forget = || std::fs::remove_file(ws.outside.join("home/.local/state/lbx/sandboxes.json")).unwrap();
    forget();
    ws.lbx(&["fork", "list"]).warned("the fork one had no name as a sandbox");
    within(&ws, "one", &["ls"]).ok();
    forget();
    within(&ws, "two", &["ls"]).error("sandbox_not_found");
    within(&ws, "one", &["ls"]).ok();
    forget();
    ws.lbx(&["fork", "one"]).error("already_exists");
    assert_eq!(ws.lbx(&["sandbox", "list"]).ok()["sandboxes"][0]["name"], "one");
}

#[test]
fn fork_moves_with_its_workspace() {
    let Some(ws) = forked(&["one"]) else { return };
    within(&ws, "one", &["append", "src/b.txt", "--content", "forked\n"]).ok();
    let moved = ws.outside.join("moved");
    std::fs::rename(&ws.root, &moved).unwrap();
    let call = |arguments: &[&str]| ws.call(arguments).in_folder(&moved).run();
    let error = call(&["--sandbox", "one", "read", "src/b.txt"]).error("sandbox_not_found");
    assert!(error["suggested_action"].as_str().unwrap().contains("`lbx fork list`"), "{error}");
    call(&["fork", "list"]).warned("the fork one has moved with its workspace");
    assert_eq!(call(&["--sandbox", "one", "read", "src/b.txt"]).ok()["content"], "b\nforked\n");
    call(&["merge", "one"]).ok();
    std::fs::rename(&moved, &ws.root).unwrap();
    ws.holds("src/b.txt", "b\nforked\n");
}

#[test]
fn name_that_another_sandbox_took_stays_its_own() {
    let Some(ws) = forked(&["one"]) else { return };
    std::fs::remove_file(ws.outside.join("home/.local/state/lbx/sandboxes.json")).unwrap();
    ws.lbx(&["sandbox", "create", "one", "--root", "src"]).ok();
    ws.lbx(&["fork", "list"]).warned("the name of the fork one is another sandbox's");
    ws.lbx(&["fork", "drop", "one"]).ok();
    assert_eq!(ws.lbx(&["sandbox", "list"]).ok()["sandboxes"][0]["name"], "one");
    ws.lbx(&["fork", "two", "--from", "HEAD", "--at", "../two"]).error("invalid_request");
}

#[test]
fn names_of_forks_are_checked() {
    let Some(ws) = forked(&["one"]) else { return };
    ws.lbx(&["fork", "one"]).error("already_exists");
    ws.lbx(&["fork", "One"]).error("already_exists");
    ws.lbx(&["fork", "drop", "two"]).error("sandbox_not_found");
    ws.lbx(&["fork", "log", "two"]).error("sandbox_not_found");
    ws.lbx(&["fork", "exec", "two", "--", "true"]).error("sandbox_not_found");
    ws.lbx(&["fork", "drop"]).error("invalid_request");
    ws.lbx(&["fork", "rename", "one"]).error("invalid_request");
    let error = ws.lbx(&["fork", "exec", "one"]).error("invalid_request");
    assert!(error["message"].as_str().unwrap().starts_with("no program is named: lbx fork exec"), "{error}");
    ws.json("fork", &json!({ "action": "exec", "name": "one", "command": ["true"] }))
        .error("invalid_request");
    let error = ws.lbx(&["sandbox", "remove", "one"]).error("invalid_request");
    let action = error["suggested_action"].as_str().unwrap();
    assert!(action.contains("deletes the fork with all its changes"), "{error}");
    let error = ws.lbx(&["sandbox", "create", "one", "--root", "."]).error("already_exists");
    let action = error["suggested_action"].as_str().unwrap();
    assert_eq!(action, "Choose another name: this one is a fork's.");
}

#[test]
fn fork_of_a_part_of_a_repository_is_refused() {
    let ws = Workspace::with(&[("part/a.txt", "a\n")]);
    std::fs::create_dir(ws.path("part/.lbx")).unwrap();
    let part = ws.path("part");
    let call = || Call::new(&part, &ws.outside.join("home"));
    let error = call().arguments(&["fork", "one"]).run().error("invalid_request");
    assert!(error["message"].as_str().unwrap().contains("is a part of the repository"), "{error}");
    ws.git(&["worktree", "add", "-q", "../other"]);
    let other = ws.outside.join("other");
    let call = Call::new(&other, &ws.outside.join("home")).arguments(&["fork", "one"]).run();
    let error = call.error("invalid_request");
    assert!(error["message"].as_str().unwrap().contains(".git is a file"), "{error}");
}

#[test]
fn fork_that_cannot_be_entered_says_why() {
    if !is_root() {
        return;
    }
    let Some(ws) = forked(&["one"]) else { return };
    std::fs::create_dir(ws.path("inner")).unwrap();
    let mount = |words: &[&str]| Command::new("mount").args(words).arg(ws.path("inner")).status().unwrap();
    if !mount(&["-t", "tmpfs", "none"]).success() {
        return skipped("no file system can be mounted here");
    }
    let error = ws.lbx(&["fork", "two"]).error("invalid_request");
    let called = ws.call(&["--sandbox", "one", "ls"]).spawn().wait_with_output().unwrap();
    assert!(Command::new("umount").arg(ws.path("inner")).status().unwrap().success());
    assert!(
        error["message"].as_str().unwrap().contains("is a mount point, which a fork does not cover"),
        "{error}"
    );
    let (stdout, stderr) =
        (String::from_utf8(called.stdout).unwrap(), String::from_utf8(called.stderr).unwrap());
    assert!(
        stdout.contains("the fork one cannot be entered") && stdout.contains("A copy needs no mount"),
        "{stdout}"
    );
    assert!(stderr.contains("is a mount point, which a fork does not cover"), "{stderr}");
}

#[test]
fn fork_of_a_deleted_workspace_is_gone() {
    let Some(ws) = forked(&["one"]) else { return };
    std::fs::remove_dir_all(ws.path(".lbx")).unwrap();
    let error = within(&ws, "one", &["ls"]).error("sandbox_not_found");
    assert!(error["message"].as_str().unwrap().contains("the fork one is gone"), "{error}");
    ws.lbx(&["fork", "one"]).ok();
    std::fs::remove_dir_all(ws.path(".lbx")).unwrap();
    ws.lbx(&["sandbox", "remove", "one"]).ok();
}

#[test]
fn fork_can_begin_with_a_snapshot() {
    let Some(ws) = forked(&[]) else { return };
    let first = ws.lbx(&["write", "src/new.txt", "--content", "new\n"]).envelope();
    let first = first["snapshot"].as_str().unwrap();
    ws.lbx(&["delete", "docs", "--recursive"]).ok();
    ws.write("src/b.txt", "changed by hand\n");
    let forked = ws.lbx(&["fork", "old", "--from", first]).ok();
    assert_eq!(forked["forks"][0]["from"], first);
    assert_eq!(shell(&ws, "old", "cat src/b.txt src/new.txt docs/c.md .env"), "b\nnew\n# c\nTOKEN=1\n");
    assert_eq!(ws.lbx(&["fork"]).ok()["forks"][0]["files"], 0);
    ws.lbx(&["fork", "none", "--from", "no-such-snapshot"]).error("not_found");
    assert_eq!(ws.lbx(&["fork"]).ok()["forks"].as_array().unwrap().len(), 1);
}

#[test]
fn served_fork_is_the_workspace_of_its_client() {
    let Some(ws) = forked(&["one"]) else { return };
    let request = |id: u64, method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
    };
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let call = json!({ "name": "write", "arguments": { "path": "served.txt", "content": "x" } });
    let sent = [request(1, "initialize", hello), request(2, "tools/call", call)].join("\n") + "\n";
    let served = ws.lbx_stdin(&["--sandbox", "one", "mcp"], sent);
    let answer = served.lines().into_iter().find(|line| line["id"] == 2).unwrap();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(!ws.path("served.txt").exists());
    assert_eq!(shell(&ws, "one", "cat served.txt"), "x");
}

#[test]
fn ordinary_users_can_fork() {
    let Some(forked) = forked(&["root"]) else { return };
    drop(forked);
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    if !is_root() {
        return;
    }
    let owned = Command::new("chown").args(["-R", "65534:65534"]).arg(&ws.outside).status().unwrap();
    assert!(owned.success());
    let ids = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"];
    uses_a_fork(&|words| Call::under("setpriv", &ids, &ws.root, &ws.outside.join("home")).arguments(words));
    assert_eq!(ws.lbx(&["read", "a.txt"]).ok()["content"], "a\n");
    // Root without its power over other users' files.
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    if ws.call_unprivileged(&["ls"]).is_some() {
        uses_a_fork(&|words| ws.call_unprivileged(words).unwrap());
    }
}

#[test]
fn fork_that_could_never_be_entered_is_not_made() {
    let Some(forked) = forked(&["root"]) else { return };
    drop(forked);
    if !is_root() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let own = |who: &str, of: &std::path::Path| {
        assert!(Command::new("chown").args(["-R", who]).arg(of).status().unwrap().success());
    };
    own("65534:65534", &ws.outside);
    own("65534:100", &ws.root);
    ws.chmod(".", 0o2755);
    let ids = ["--reuid", "65534", "--regid", "65534", "--groups", "65534,100", "--"];
    let call = |words: &[&str]| {
        Call::under("setpriv", &ids, &ws.root, &ws.outside.join("home")).arguments(words).run()
    };
    let error = call(&["fork", "one"]).error("invalid_request");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("no fork is possible here: "), "{error}");
    assert!(message.ends_with("give a folder for a copy, with `at`"), "{error}");
    assert_eq!(call(&["fork", "list"]).ok()["forks"], json!([]));
    call(&["fork", "one", "--at", "../home/copy"]).ok();
}

/// Creates a fork, works in it, and drops it.
fn uses_a_fork(call: &dyn Fn(&[&str]) -> Call) {
    call(&["fork", "one"]).run().ok();
    call(&["--sandbox", "one", "write", "b.txt", "--content", "b"]).run().ok();
    call(&["--sandbox", "one", "bash", "cat a.txt b.txt > c.txt"]).run().ok();
    assert_eq!(call(&["--sandbox", "one", "read", "c.txt"]).run().ok()["content"], "a\nb");
    call(&["read", "c.txt"]).run().error("not_found");
    call(&["fork", "drop", "one"]).run().ok();
}

#[test]
fn fork_can_be_copied_and_removed_by_its_owner() {
    let Some(ws) = forked(&["one"]) else { return };
    within(&ws, "one", &["write", "b.txt", "--content", "b"]).ok();
    within(&ws, "one", &["bash", "cat b.txt > c.txt"]).ok();
    assert_eq!(ws.closed(), "");
}

#[test]
fn fork_in_use_is_not_dropped() {
    let Some(ws) = forked(&["one"]) else { return };
    let program = ["fork", "exec", "one", "--", "sh", "-c", "echo started; read line"];
    let mut running = ws.call(&program).stdin_never_closes().spawn();
    let mut stdout = std::io::BufReader::new(running.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut String::new()).unwrap();
    let error = ws.lbx(&["fork", "drop", "one"]).error("lock_timeout");
    assert!(error["message"].as_str().unwrap().contains("still runs in the fork one"), "{error}");
    assert_eq!(ws.lbx(&["fork"]).ok()["forks"][0]["process"], running.id());
    running.kill().unwrap();
    running.wait().unwrap();
    ws.lbx(&["fork", "drop", "one"]).ok();
}

#[test]
fn build_in_a_fork_reuses_the_output_of_the_workspace() {
    let ws = Workspace::with(&[
        ("Cargo.toml", "[package]\nname = \"built\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("src/lib.rs", "pub fn one() -> u8 { 1 }\n"),
        (".gitignore", "target/\nCargo.lock\n"),
    ]);
    let mut built = Command::new("cargo");
    let (home, cargo) = (std::env::var("HOME").unwrap_or_default(), cargo_home());
    built.env_clear().env("HOME", &home).env("CARGO_HOME", &cargo).env("PATH", PATH_FIXED);
    built.args(["build", "--offline"]).current_dir(&ws.root).stderr(Stdio::null());
    if !built.status().is_ok_and(|status| status.success()) {
        return skipped("cargo is missing, or builds nothing here");
    }
    if ws.lbx(&["fork", "one"]).status() != 0 {
        return skipped("no fork is possible here");
    }
    let script = format!("HOME={home} cargo build --offline -v 2>&1");
    let again = ws.call(&["fork", "exec", "one", "--", "sh", "-c", &script]).env("CARGO_HOME", cargo);
    let again = String::from_utf8(again.spawn().wait_with_output().unwrap().stdout).unwrap();
    assert!(again.contains("Fresh built"), "{again}");
}

/// Returns the home folder of cargo.
fn cargo_home() -> String {
    std::env::var("CARGO_HOME")
        .unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").unwrap_or_default()))
}
