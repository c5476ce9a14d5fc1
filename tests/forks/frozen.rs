//! A fork keeps the files that it began with, whatever lbx changes in the workspace later.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::common::Workspace;
use crate::common::random::Random;
use crate::created::{forked, shell, within};

/// Returns path, mode and content of everything in a fork.
fn listing(ws: &Workspace, name: &str) -> String {
    let script = "find . -path ./.git -prune -o -path ./.lbx -prune -o -printf '%y %m %p %l\\n' | sort; \
                  find . -path ./.git -prune -o -path ./.lbx -prune -o -type f -print | sort | xargs -r -d '\\n' sha256sum";
    shell(ws, name, script)
}

#[test]
fn fork_does_not_see_what_lbx_changes_later() {
    let Some(ws) = forked(&["one"]) else { return };
    ws.chmod("src/b.txt", 0o755);
    ws.lbx(&["fork", "two"]).ok();
    let first = listing(&ws, "two");
    let calls: [&[&str]; 14] = [
        &["read", "src/a.txt"],
        &["edit", "src/a.txt", "--old-string", "two", "--new-string", "2"],
        &["write", "src/new/deep.txt", "--content", "x"],
        &["append", "docs/c.md", "--content", "more\n"],
        &["move", "src", "lib"],
        &["mkdir", "src"],
        &["write", "src/a.txt", "--content", "another"],
        &["delete", "docs", "--recursive"],
        &["write", "docs", "--content", "a file now"],
        &["bash", "rm -r target; mkdir target; echo other > target/out; echo T=2 > .env; ln -s lib link"],
        &[
            "bash",
            "--direct",
            "echo direct > lib/b.txt; mkdir -p made/by; echo x > made/by/it; rm .gitignore",
        ],
        &["undo"],
        &["undo", "--steps", "3"],
        &["redo"],
    ];
    for call in calls {
        ws.lbx(call).envelope();
        assert_eq!(listing(&ws, "two"), first, "after {call:?}");
    }
    // The other fork began before the mode changed, which lbx did not see.
    assert_eq!(shell(&ws, "one", "cat src/a.txt"), "one\ntwo\nthree\nuncommitted\n");
}

#[test]
fn fork_of_a_small_workspace_does_not_see_what_others_change_later() {
    let Some(ws) = forked(&[]) else { return };
    ws.write(".gitattributes", "*.crlf text eol=crlf\n");
    ws.write("src/dos.crlf", "one\r\ntwo\r\n");
    ws.chmod("src/b.txt", 0o755);
    ws.write("src/untracked.txt", "not tracked\n");
    ws.link("a.txt", "src/link");
    ws.lbx(&["fork", "one"]).ok();
    let first = listing(&ws, "one");
    ws.write("src/a.txt", "by an editor\n");
    ws.write("src/dos.crlf", "changed\r\n");
    ws.write("src/by_hand.txt", "new\n");
    std::fs::remove_file(ws.path("src/b.txt")).unwrap();
    std::fs::remove_file(ws.path("src/untracked.txt")).unwrap();
    std::fs::remove_file(ws.path("src/link")).unwrap();
    ws.link("b.txt", "src/link");
    std::fs::remove_dir_all(ws.path("docs")).unwrap();
    ws.write("docs", "a file now\n");
    assert_eq!(listing(&ws, "one"), first);
    let read = within(&ws, "one", &["read", "src/a.txt"]).ok();
    assert_eq!(read["content"], "one\ntwo\nthree\nuncommitted\n");
    // What was ignored then is still there, though git no longer ignores it.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    ws.lbx(&["fork", "two"]).ok();
    ws.write(".gitignore", ".env\n");
    assert_eq!(shell(&ws, "two", "cat target/out .gitignore"), "built\n.env\ntarget/\n");
    // They are changes of others in the workspace, and nobody's in the fork.
    assert_eq!(ws.lbx(&["log"]).ok()["snapshots"][0]["tool"], "external");
    ws.lbx(&["merge", "one"]).ok();
    ws.holds("src/a.txt", "by an editor\n");
}

#[test]
fn fork_before_the_first_snapshot_does_not_see_what_others_change_later() {
    let Some(ws) = forked(&[]) else { return };
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-qm", "everything"]);
    ws.git(&["pack-refs", "--all"]);
    ws.lbx(&["fork", "one"]).ok();
    assert_eq!(ws.git(&["branch", "--list", "lbx-snapshots"]), "", "nothing was uncommitted");
    let first = listing(&ws, "one");
    ws.write("src/a.txt", "by an editor\n");
    ws.write("src/by_hand.txt", "new\n");
    assert_eq!(listing(&ws, "one"), first);
    ws.lbx(&["fork", "drop", "one"]).ok();
    // Nor what the developer commits: there is no snapshot of that.
    let Some(ws) = forked(&[]) else { return };
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-qm", "everything"]);
    ws.lbx(&["fork", "one"]).ok();
    let first = listing(&ws, "one");
    ws.write("src/a.txt", "by an editor\n");
    ws.git(&["rm", "-q", "src/b.txt"]);
    ws.git(&["commit", "-qam", "more"]);
    assert_eq!(listing(&ws, "one"), first);
}

#[test]
fn file_and_folder_that_take_each_other_s_place_later_stay_in_the_fork() {
    for direct in [false, true] {
        let Some(ws) = forked(&[]) else { return };
        ws.lbx(&["snapshot"]).ok();
        ws.lbx(&["fork", "one"]).ok();
        let first = listing(&ws, "one");
        let script = "rm -r docs; echo z > docs; rm src/a.txt; mkdir src/a.txt; echo z > src/a.txt/in";
        if direct {
            ws.lbx(&["bash", "--direct", script]).ok();
        } else {
            let done = std::process::Command::new("sh").args(["-c", script]).current_dir(&ws.root).status();
            assert!(done.unwrap().success());
        }
        assert_eq!(listing(&ws, "one"), first, "direct: {direct}");
    }
}

#[test]
fn fork_has_a_file_in_place_of_a_tracked_folder() {
    let Some(ws) = forked(&[]) else { return };
    for link in [false, true] {
        std::fs::remove_dir_all(ws.path("docs")).or_else(|_| std::fs::remove_file(ws.path("docs"))).unwrap();
        if link {
            ws.link("src", "docs");
        } else {
            ws.write("docs", "a file\n");
        }
        let name = format!("link-{link}");
        ws.lbx(&["fork", &name]).ok();
        let seen = shell(&ws, &name, "cat docs/b.txt 2>/dev/null || cat docs");
        assert_eq!(seen, if link { "b\n" } else { "a file\n" });
    }
}

#[test]
fn fork_that_cannot_keep_a_file_is_named() {
    let Some(ws) = forked(&["one"]) else { return };
    let forks = ws.outside.join("home/.local/state/lbx/forks");
    let lower = forks.read_dir().unwrap().next().unwrap().unwrap().path().join("lower");
    std::fs::set_permissions(&lower, std::fs::Permissions::from_mode(0o500)).unwrap();
    let call = |words: &[&str]| Some(ws.call_unprivileged(words)?.run());
    let Some(changed) = call(&["write", "new/x.txt", "--content", "x"]) else { return };
    changed.warned("the fork one may see a part of this change");
    ws.holds("new/x.txt", "x");
}

#[test]
fn changes_of_a_client_s_own_tools_do_not_reach_a_fork() {
    let Some(ws) = forked(&["one"]) else { return };
    let first = listing(&ws, "one");
    let event = |name: &str, tool: &str| {
        json!({
            "session_id": "s", "cwd": ws.root, "hook_event_name": name, "tool_name": tool, "tool_use_id": "t1",
            "tool_input": { "file_path": ws.path("src/b.txt"), "old_string": "b", "new_string": "c" }
        })
    };
    ws.lbx(&["init", "claude-code", "--guard", "--no-server"]).envelope();
    let send = |event: serde_json::Value| {
        assert_eq!(ws.lbx_stdin(&["hook", "claude-code"], event.to_string()).status(), 0);
    };
    let seen = listing(&ws, "one");
    assert_eq!(seen, first, "init changes only what lbx keeps");
    send(event("PreToolUse", "Read"));
    send(event("PostToolUse", "Read"));
    send(event("PreToolUse", "Edit"));
    ws.write("src/b.txt", "c\n");
    send(event("PostToolUse", "Edit"));
    assert_eq!(ws.lbx(&["log"]).ok()["snapshots"][0]["tool"], "Edit");
    assert_eq!(listing(&ws, "one"), first);
}

#[test]
fn random_changes_of_the_workspace_never_reach_its_forks() {
    let seed = std::env::var("LBX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = Random::new(seed);
    for round in 0..4 {
        let Some(ws) = forked(&[]) else { return };
        let mut listings: BTreeMap<String, String> = BTreeMap::new();
        for step in 0..30 {
            if step % 10 == 0 {
                let name = format!("f{step}");
                ws.lbx(&["fork", &name]).ok();
                listings.insert(name.clone(), listing(&ws, &name));
            }
            let call = change(&mut random);
            let words: Vec<&str> = call.iter().map(String::as_str).collect();
            ws.lbx(&words).envelope();
            if step % 5 == 4 {
                for (name, first) in &listings {
                    assert_eq!(
                        &listing(&ws, name),
                        first,
                        "seed {seed}, round {round}, step {step}: {call:?}"
                    );
                }
            }
        }
        // What a fork changes stays in it.
        let before = ws.tree();
        for _ in 0..5 {
            let call = change(&mut random);
            let words: Vec<&str> = call.iter().map(String::as_str).collect();
            within(&ws, "f0", &words).envelope();
        }
        assert_eq!(ws.tree(), before);
    }
}

/// Returns a random change.
fn change(random: &mut Random) -> Vec<String> {
    let path = |random: &mut Random| {
        let folder = ["", "src/", "docs/", "d/", "d/e/", "target/"][random.below(6)];
        format!("{folder}{}", ["a.txt", "b.txt", "c.md", "d", "e", "out"][random.below(6)])
    };
    match random.below(9) {
        0 | 1 => vec![
            "write".to_owned(),
            path(random),
            "--create-only".to_owned(),
            "--content".to_owned(),
            format!("{}\n", random.below(1000)),
        ],
        2 => vec!["append".to_owned(), path(random), "--content".to_owned(), "more\n".to_owned()],
        3 => vec!["delete".to_owned(), path(random), "--recursive".to_owned()],
        4 => vec!["move".to_owned(), path(random), path(random)],
        5 => vec!["undo".to_owned()],
        6 => vec!["redo".to_owned()],
        7 => vec![
            "bash".to_owned(),
            format!("mkdir -p d/e; cp -r {} {}; rm -rf {}", path(random), path(random), path(random)),
        ],
        _ => vec![
            "bash".to_owned(),
            "--direct".to_owned(),
            format!("mkdir -p d; echo {} > {}; rm -rf {}", random.below(100), path(random), path(random)),
        ],
    }
}
