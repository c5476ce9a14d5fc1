//! Settings: the policy files, the environment and flags.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::common::{Answer, Workspace, make_fifo};

const WRITE: [&str; 4] = ["write", "a.txt", "--content", "new\n"];

/// Creates a workspace with one file, and a policy in its own policy file.
fn with_policy(policy: &str) -> Workspace {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.write(".lbx/config.toml", policy);
    ws
}

/// Writes the user's own policy file.
fn user_policy(ws: &Workspace, policy: &str) {
    ws.user_policy(policy);
}

/// Returns a setting as `config` shows it.
#[track_caller]
fn setting(answer: &Answer, key: &str) -> Value {
    let data = answer.success()["data"].clone();
    let found = data["settings"].as_array().unwrap().iter().find(|setting| setting["key"] == key).cloned();
    found.unwrap_or_else(|| panic!("no {key} in {data:#}"))
}

#[test]
fn gate_policy_is_strict_warn_or_off() {
    for (policy, unread, stale) in [
        ("", Err("not_read"), Err("stale_file")),
        ("gate = \"strict\"", Err("not_read"), Err("stale_file")),
        ("gate = \"warn\"", Ok(Some("was not read")), Ok(Some("has changed since it was read"))),
        ("gate = \"off\"", Ok(None), Ok(None)),
    ] {
        let judge = |answer: Answer, wanted: Result<Option<&str>, &str>| match wanted {
            Err(kind) => drop(answer.error(kind)),
            Ok(Some(part)) => drop(answer.warned(part)),
            Ok(None) => drop(answer.ok()),
        };
        for call in [
            &WRITE[..],
            &["edit", "a.txt", "--old-string", "one", "--new-string", "two"],
            &["insert", "a.txt", "1", "--content", "x\n"],
            &["patch", "--patch", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"],
        ] {
            let ws = with_policy(policy);
            judge(ws.lbx(call), unread);
            let ws = with_policy(policy);
            ws.lbx(&["read", "a.txt"]).ok();
            ws.write("a.txt", "one\n\n");
            judge(ws.lbx(call), stale);
        }
        // A proof in the request is checked under any policy.
        let ws = with_policy(policy);
        let sha256 = "0".repeat(64);
        for call in [&WRITE[..], &["edit", "a.txt", "--old-string", "one", "--new-string", "two"]] {
            ws.call(call).arguments(&["--expected-sha256", &sha256]).run().error("stale_file");
        }
        let by_path = json!({"patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n",
            "expected_sha256_by_path": {"a.txt": sha256}});
        ws.json("patch", &by_path).error("stale_file");
        ws.holds("a.txt", "one\n");
    }
}

#[test]
fn edit_with_gate_off_leaves_the_file_unread() {
    let ws = with_policy("gate = \"off\"");
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "two"]).ok();
    ws.write(".lbx/config.toml", "");
    // The rest of the file was never read.
    ws.lbx(&["edit", "a.txt", "--old-string", "two", "--new-string", "three"]).error("not_read");
    // A file that the session wrote as a whole counts as read.
    ws.write(".lbx/config.toml", "gate = \"off\"");
    ws.lbx(&WRITE).ok();
    ws.write(".lbx/config.toml", "");
    ws.lbx(&["edit", "a.txt", "--old-string", "new", "--new-string", "three"]).ok();
}

#[test]
fn patch_gate_context_accepts_context_without_a_read() {
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n";
    let envelope = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch\n";
    for (policy, patches, applies) in
        [("", false, true), ("patch_gate = 'marks'", false, false), ("patch_gate = 'context'", true, true)]
    {
        let ws = with_policy(policy);
        let answer = ws.lbx(&["patch", "--patch", patch]);
        if patches {
            drop(answer.ok());
        } else {
            drop(answer.error("not_read"));
        }
        let ws = with_policy(policy);
        let answer = ws.call(&["apply_patch", envelope]).env("LBX_OUTPUT", "json").run();
        if applies { drop(answer.ok()) } else { drop(answer.error("not_read")) }
    }
    // Lines that occur twice prove nothing.
    let ws = with_policy("patch_gate = 'context'");
    ws.write("a.txt", "one\nx\none\n");
    ws.lbx(&["patch", "--patch", "--- a/a.txt\n+++ b/a.txt\n@@ -2,0 +3 @@\n+two\n"]).error("not_read");
}

#[test]
fn no_tool_writes_a_protected_path() {
    let policy = "protect = ['*.key', '/dist', 'conf/*.toml', '.vscode/']";
    let ws = with_policy(policy);
    for path in [
        "x.key",
        "X.KEY",
        "deep/er/x.key",
        "dist",
        "dist/a/b",
        "conf/a.toml",
        ".vscode/tasks.json",
        "y.key/z",
    ] {
        let error = ws.lbx(&["write", path, "--content", "x"]).error("protected_path");
        assert!(error["message"].as_str().unwrap().contains(".lbx/config.toml:1"), "{error}");
    }
    for path in ["key", "sub/dist", "conf/deep/a.toml", "a.keys", "sub/conf/a.toml"] {
        ws.lbx(&["write", path, "--content", "x"]).ok();
    }
    ws.write("src/x.key", "secret");
    ws.write("src/a.rs", "x");
    ws.link("x.key", "src/plain");
    ws.unchanged(|| {
        for call in [
            &["append", "src/x.key", "--content", "x"][..],
            &["append", "src/plain", "--content", "x"],
            &["delete", "src/x.key"],
            &["delete", "src", "--recursive"],
            &["move", "src", "other"],
            &["move", "src/a.rs", "src/b.key"],
            &["move", "src/x.key", "src/y.txt"],
            &["move", "a.txt", "dist"],
            &["patch", "--patch", "--- /dev/null\n+++ b/n.key\n@@ -0,0 +1 @@\n+x\n"],
            &["patch", "--patch", "diff --git a/a.txt b/a.key\nrename from a.txt\nrename to a.key\n"],
        ] {
            ws.lbx(call).error("protected_path");
            ws.call(call).arguments(&["--dry-run"]).run().error("protected_path");
        }
    });
    ws.lbx(&["read", "src/x.key"]).ok();
}

#[test]
fn protected_symlink_protects_its_target_and_every_link_between() {
    let ws =
        with_policy("protect = ['.mcp.json', '/deploy', 'set/*.toml', '*.pem', 'made.json', 'plain.txt']");
    ws.write("conf/mcp.json", "{}\n");
    ws.link("conf", "dir");
    ws.link("dir/mcp.json", ".mcp.json");
    ws.write("stage/run.sh", "run\n");
    ws.link("stage", "deploy");
    ws.write("settings/a.toml", "a = 1\n");
    ws.link("settings", "set");
    ws.write("keys/real", "key\n");
    ws.write("keys/other", "key\n");
    ws.link("../../keys/real", "deep/er/x.pem");
    ws.git(&["add", "-A"]);
    ws.link("later/made", "made.json");
    ws.write("plain.txt", "plain\n");
    fs::hard_link(ws.path("plain.txt"), ws.path("twin.txt")).unwrap();
    for path in ["conf/mcp.json", "stage/run.sh", "settings/a.toml", "twin.txt"] {
        ws.lbx(&["read", path]).ok();
    }
    let patch = "--- a/stage/run.sh\n+++ b/stage/run.sh\n@@ -1 +1 @@\n-run\n+evil\n";
    let link = "diff --git a/later b/later\nnew file mode 120000\n--- /dev/null\n+++ b/later\n@@ -0,0 +1 @@\n+conf\n\\ No newline at end of file\n";
    ws.unchanged(|| {
        for call in [
            &["write", "conf/mcp.json", "--content", "x"][..],
            &["edit", "conf/mcp.json", "--old-string", "{", "--new-string", "["],
            &["append", "CONF/MCP.json", "--content", "x"],
            &["append", "dir/mcp.json", "--content", "x"],
            &["move", "conf/mcp.json", "x"],
            &["delete", "conf/mcp.json"],
            &["delete", "dir"],
            &["move", "dir", "x"],
            &["move", "conf", "x"],
            &["delete", "conf", "--recursive"],
            &["patch", "--patch", patch],
            &["write", "stage/new", "--content", "x"],
            &["delete", "stage", "--recursive"],
            &["append", "settings/a.toml", "--content", "x"],
            &["write", "settings/new.toml", "--content", "x"],
            &["delete", "set"],
            &["append", "keys/real", "--content", "x"],
            &["move", "keys", "x"],
            &["write", "later/made", "--content", "x"],
            &["patch", "--patch", link],
            &["append", "twin.txt", "--content", "x"],
            &["delete", "twin.txt"],
        ] {
            ws.lbx(call).error("protected_path");
            ws.call(call).arguments(&["--dry-run"]).run().error("protected_path");
        }
    });
    let error = ws.lbx(&["append", "conf/mcp.json", "--content", "x"]).error("protected_path");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("conf/mcp.json is protected: .mcp.json leads here"), "{message}");
    for path in ["conf/other", "settings/a.txt", "keys/more"] {
        let _ = ws.lbx(&["write", path, "--content", "x"]).success();
    }
    let _ = ws.lbx(&["append", "keys/other", "--content", "x"]).success();
}

#[test]
fn protected_symlink_to_the_root_leaves_the_root_writable() {
    let ws = with_policy("protect = ['/current']");
    ws.link(".", "current");
    ws.lbx(&["write", "b.txt", "--content", "x"]).ok();
    ws.lbx(&["delete", "current"]).error("protected_path");
    ws.lbx(&["write", "current/c.txt", "--content", "x"]).error("protected_path");
}

#[test]
fn undo_through_a_protected_symlink_is_rejected() {
    let ws = with_policy("");
    ws.write("conf/mcp.json", "{}\n");
    ws.lbx(&["read", "conf/mcp.json"]).ok();
    ws.lbx(&["append", "conf/mcp.json", "--content", "x"]).ok();
    ws.link("conf/mcp.json", ".mcp.json");
    ws.write(".lbx/config.toml", "protect = ['.mcp.json']");
    ws.lbx(&["undo"]).error("protected_path");
}

#[test]
fn undo_and_restore_reject_newly_protected_paths() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n"), ("c/d.txt", "d\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["delete", "b.txt"]).ok();
    ws.lbx(&["delete", "c", "--recursive"]).ok();
    ws.lbx(&WRITE).ok();
    ws.write(".lbx/config.toml", "protect = ['*.txt']");
    ws.unchanged(|| {
        ws.lbx(&["undo"]).error("protected_path");
        ws.lbx(&["undo", "--steps", "3"]).error("protected_path");
        ws.lbx(&["restore", "--path", "b.txt"]).error("protected_path");
        ws.lbx(&["restore", "--path", "c"]).error("protected_path");
    });
    ws.write(".lbx/config.toml", "");
    ws.lbx(&["undo", "--steps", "3"]).ok();
    ws.holds("b.txt", "b\n");
}

#[test]
fn protect_lists_of_all_sources_are_combined() {
    let ws = with_policy("protect = ['w.txt']");
    user_policy(&ws, "# mine\nprotect = ['u.txt']");
    let write = |path: &str, list: &str| {
        let call = ["write", path, "--content", "x", "--set", list];
        ws.call(&call).env("LBX_PROTECT", "e.txt").run()
    };
    for list in ["protect=f.txt:g.txt", r#"protect=["f.txt", "g.txt"]"#] {
        for path in ["u.txt", "w.txt", "e.txt", "f.txt", "g.txt"] {
            write(path, list).error("protected_path");
        }
    }
    write("x.txt", "protect=f.txt").ok();
    ws.write(".lbx/config.toml", "protect = []");
    let error = ws.lbx(&["write", "u.txt", "--content", "x"]).error("protected_path");
    assert!(error["message"].as_str().unwrap().contains("/home/.config/lbx/config.toml:2"), "{error}");
}

#[test]
fn user_policy_inside_the_workspace_is_protected() {
    let ws = Workspace::with(&[("dotfiles/lbx/config.toml", "gate = \"strict\"\n"), ("a.txt", "one\n")]);
    fs::create_dir_all(ws.path(".config")).unwrap();
    let call = |arguments: &[&str]| ws.call(arguments).env("HOME", &ws.root).run();
    call(&["write", ".config/lbx/config.toml", "--content", "gate = 'off'"]).error("protected_path");
    // A home folder as a workspace has no baseline, which is a warning.
    call(&["write", ".config/lbx/other.toml", "--content", "x"]).success();
    fs::remove_dir_all(ws.path(".config/lbx")).unwrap();
    symlink("../dotfiles/lbx", ws.path(".config/lbx")).unwrap();
    for path in [".config/lbx/config.toml", "dotfiles/lbx/config.toml"] {
        call(&["append", path, "--content", "gate = 'off'"]).error("protected_path");
    }
    call(&["delete", "dotfiles", "--recursive"]).error("protected_path");
    call(&["move", "dotfiles/lbx", "elsewhere"]).error("protected_path");
    // The names of sandboxes and the id of the state are protected too.
    for name in ["sandboxes.json", "id"] {
        let path = format!(".local/state/lbx/{name}");
        call(&["write", &path, "--content", "x"]).error("protected_path");
        call(&["write", ".local/state/lbx/other", "--content", "x"]).success();
        call(&["delete", ".local/state/lbx/other"]).success();
    }
    // With another home folder it is an ordinary file.
    ws.lbx(&["append", "dotfiles/lbx/config.toml", "--content", "#"]).ok();
}

#[test]
fn policy_can_protect_files_with_several_hard_links() {
    let ws = with_policy("hard_links = \"refuse\"");
    fs::hard_link(ws.path("a.txt"), ws.path("b.txt")).unwrap();
    ws.lbx(&["read", "a.txt"]).ok();
    ws.unchanged(|| {
        for call in [
            &WRITE[..],
            &["append", "a.txt", "--content", "x"],
            &["write", "a.txt", "--content", "x", "--dry-run"],
        ] {
            let error = ws.lbx(call).error("protected_path");
            assert!(
                error["message"].as_str().unwrap().contains("hard_links = \"refuse\", .lbx/config.toml:1"),
                "{error}"
            );
        }
    });
    // A new name changes no bytes.
    ws.lbx(&["move", "b.txt", "c.txt"]).ok();
    fs::remove_file(ws.path("c.txt")).unwrap();
    ws.lbx(&WRITE).ok();
    ws.write(".lbx/config.toml", "");
    fs::hard_link(ws.path("a.txt"), ws.path("d.txt")).unwrap();
    ws.lbx(&["append", "a.txt", "--content", "x"]).warned("hard links");
}

#[test]
fn policy_limits_are_the_defaults_of_requests() {
    let many: String = (0..50).map(|number| format!("line {number}\n")).collect();
    let ws = Workspace::with(&[("a.txt", &many), ("b.txt", "line\n"), ("c.txt", "line\n")]);
    ws.write(
        ".lbx/config.toml",
        "limits = { read = 3, grep = 2, glob = 1, ls = 1, max_columns = 4, log = 1, audit = 1 }",
    );
    assert_eq!(ws.lbx(&["read", "a.txt"]).ok()["end_line"], 3);
    assert_eq!(ws.lbx(&["read", "a.txt", "--limit", "0"]).ok()["end_line"], 50);
    let grep = ws.lbx(&["grep", "line"]).ok();
    assert_eq!(grep["matches"].as_array().unwrap().len(), 2);
    assert!(grep["matches"][0]["text"].as_str().unwrap().len() < 12, "{grep}");
    assert_eq!(ws.lbx(&["grep", "line", "--limit", "5"]).ok()["matches"].as_array().unwrap().len(), 5);
    assert_eq!(ws.lbx(&["glob", "*.txt"]).ok()["paths"], json!(["a.txt"]));
    assert_eq!(ws.lbx(&["ls"]).ok()["entries"].as_array().unwrap().len(), 1);
    for name in ["x", "y"] {
        ws.lbx(&["write", name, "--content", "x"]).ok();
    }
    assert_eq!(ws.lbx(&["log"]).ok()["snapshots"].as_array().unwrap().len(), 1);
    assert_eq!(ws.lbx(&["audit"]).ok()["records"].as_array().unwrap().len(), 1);
    ws.write(".lbx/config.toml", "[limits]\nmax_bytes = 1024\nfile_bytes = 100\n");
    ws.write("long.txt", "x".repeat(60).repeat(60) + "\n");
    let read = ws.lbx(&["read", "long.txt"]).ok();
    assert_eq!(read["content"].as_str().unwrap().len(), 1024);
    ws.lbx(&["append", "long.txt", "--content", "x"]).error("too_large");
    ws.write(".lbx/config.toml", "[limits]\nmax_bytes = 1024\n");
    let diff =
        ws.json("write", &json!({"path": "new.txt", "content": "y\n".repeat(2000), "diff": true})).ok();
    assert!(diff["diff"].as_str().unwrap().len() < 1500, "{diff}");
}

#[test]
fn lock_seconds_bounds_the_wait_for_the_lock() {
    let ws = with_policy("limits.lock_seconds = 1");
    ws.lbx(&["write", "b.txt", "--content", "b"]).ok();
    let lock = fs::File::open(ws.path(".lbx/lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let error = ws.lbx(&["write", "c.txt", "--content", "c"]).error("lock_timeout");
    assert!(error["message"].as_str().unwrap().contains("for 1 s"), "{error}");
}

#[test]
fn fifo_at_the_path_of_the_lock_delays_no_call_for_longer() {
    let ws = with_policy("limits.lock_seconds = 1");
    ws.lbx(&["write", "b.txt", "--content", "b"]).ok();
    // A change that takes its steps holds this lock.
    let steps = fs::File::open(ws.path(".lbx")).unwrap();
    rustix::fs::flock(&steps, rustix::fs::FlockOperation::LockExclusive).unwrap();
    fs::remove_file(ws.path(".lbx/lock")).unwrap();
    make_fifo(&ws.path(".lbx/lock"));
    ws.lbx(&["write", "c.txt", "--content", "c"]).error("lock_timeout");
    drop(steps);
    ws.lbx(&["write", "c.txt", "--content", "c"]).ok();
    assert!(fs::metadata(ws.path(".lbx/lock")).unwrap().is_file());
}

#[test]
fn user_can_turn_snapshots_off() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    user_policy(&ws, "[snapshot]\nenabled = false\n");
    let envelope = ws.lbx(&["write", "b.txt", "--content", "b"]).success();
    assert_eq!(envelope.get("snapshot"), None);
    assert_eq!(ws.snapshots(), Vec::<String>::new());
    let error = ws.lbx(&["snapshot"]).error("command_denied");
    assert!(error["message"].as_str().unwrap().contains("config.toml:2"), "{error}");
    let error = ws.lbx(&["write", "c.txt", "--content", "c", "--require-snapshot"]).error("snapshot_failed");
    assert_eq!(error["applied"], true);
    assert_eq!(ws.lbx(&["log"]).ok()["snapshots"], json!([]));
    // Undo does not need it.
    ws.lbx(&["undo", "--steps", "2"]).ok();
    assert!(!ws.path("b.txt").exists());
    // A workspace can enable snapshots.
    ws.write(".lbx/config.toml", "snapshot.enabled = true");
    assert!(ws.lbx(&["write", "d.txt", "--content", "d"]).success()["snapshot"].is_string());
}

#[test]
fn snapshots_go_to_the_configured_branch() {
    let ws = with_policy("snapshot.branch = \"lbx/team\"");
    ws.lbx(&["write", "b.txt", "--content", "b"]).ok();
    assert_eq!(ws.snapshots(), Vec::<String>::new());
    let log = ws.git(&["log", "--format=%s", "lbx/team", "--not", "HEAD"]);
    assert!(log.starts_with("write: b.txt"), "{log}");
    assert_eq!(ws.lbx(&["log", "--limit", "1"]).ok()["snapshots"][0]["paths"], json!(["b.txt"]));
    // With the user's permission, any free name is valid.
    ws.write(".lbx/config.toml", "");
    user_policy(&ws, "snapshot.branch = 'agents'");
    ws.lbx(&["write", "c.txt", "--content", "c"]).ok();
    ws.git(&["rev-parse", "agents"]);
}

#[test]
fn branch_with_other_commits_is_never_moved() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.git(&["branch", "release"]);
    ws.git(&["branch", "lbx-release"]);
    let before = ws.git(&["rev-parse", "release", "lbx-release", "main"]);
    user_policy(&ws, "snapshot.branch = 'release'");
    ws.lbx(&["write", "b.txt", "--content", "b"]).warned("`release` holds commits that are not snapshots");
    ws.write(".lbx/config.toml", "snapshot.branch = 'lbx-release'");
    ws.lbx(&["write", "b.txt", "--content", "bb"])
        .warned("`lbx-release` holds commits that are not snapshots");
    ws.lbx(&["snapshot"]).error("snapshot_failed");
    user_policy(&ws, "snapshot.branch = 'main'");
    ws.write(".lbx/config.toml", "");
    ws.lbx(&["write", "b.txt", "--content", "b"]).warned("`main` is checked out");
    assert_eq!(ws.git(&["rev-parse", "release", "lbx-release", "main"]), before);
}

#[test]
fn policy_limits_the_size_and_number_of_snapshot_files() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    user_policy(&ws, "[snapshot]\nfile_bytes = 10\nscan_files = 2\n");
    ws.lbx(&["write", "large.txt", "--content", "0123456789x"])
        .warned("more than the 10 that a snapshot takes");
    ws.lbx(&["write", "small.txt", "--content", "0123456789"]).ok();
    assert!(!ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]).contains("large.txt"));
    for name in ["x", "y", "z"] {
        ws.write(name, "x");
    }
    let error = ws.lbx(&["snapshot"]).error("snapshot_failed");
    assert!(error["message"].as_str().unwrap().contains('2'), "{error}");
}

#[test]
fn snapshot_require_applies_to_every_call() {
    let ws = with_policy("[snapshot]\nrequire = true\n");
    ws.git(&["checkout", "-q", "-b", "lbx-snapshots"]);
    let error = ws.lbx(&["write", "b.txt", "--content", "b"]).error("snapshot_failed");
    assert_eq!(error["applied"], true);
    ws.json("write", &json!({"path": "c.txt", "content": "c", "require_snapshot": false}))
        .error("snapshot_failed");
}

#[test]
fn later_policy_source_overrides_earlier_ones() {
    let ws = Workspace::with(&[]);
    user_policy(&ws, "");
    let config = |set: &[&str], environment: Option<&str>| {
        let call = ws.call(&["config"]).arguments(set);
        let call = match environment {
            Some(gate) => call.env("LBX_GATE", gate),
            None => call,
        };
        setting(&call.run(), "gate")
    };
    assert_eq!(config(&[], None), json!({"key": "gate", "value": "strict", "from": "default"}));
    user_policy(&ws, "\n\ngate = 'off'\n");
    let file = ws.outside.join("home/.config/lbx/config.toml");
    assert_eq!(
        config(&[], None),
        json!({"key": "gate", "value": "off", "from": "user", "file": file, "line": 3})
    );
    ws.write(".lbx/config.toml", "# ours\ngate = 'warn'\n");
    assert_eq!(
        config(&[], None),
        json!({"key": "gate", "value": "warn", "from": "workspace", "file": ".lbx/config.toml", "line": 2})
    );
    assert_eq!(
        config(&[], Some("strict")),
        json!({"key": "gate", "value": "strict", "from": "environment", "variable": "LBX_GATE"})
    );
    assert_eq!(
        config(&["--set", "gate=strict"], Some("strict")),
        json!({"key": "gate", "value": "strict", "from": "flag"})
    );
    // The environment names the configuration folder, if the path is absolute.
    let other = ws.outside.join("xdg");
    fs::create_dir_all(other.join("lbx")).unwrap();
    fs::write(other.join("lbx/config.toml"), "match = 'flexible'").unwrap();
    let found = setting(&ws.call(&["config"]).env("XDG_CONFIG_HOME", &other).run(), "match");
    assert_eq!((&found["value"], &found["from"]), (&json!("flexible"), &json!("user")));
    let found = setting(&ws.call(&["config"]).env("XDG_CONFIG_HOME", "xdg").run(), "match");
    assert_eq!(found["from"], "default");
}

#[test]
fn every_setting_can_be_set_from_every_source() {
    let ws = Workspace::with(&[]);
    let all = ws.lbx(&["config", "--explain"]).ok();
    for known in all["settings"].as_array().unwrap() {
        let key = known["key"].as_str().unwrap();
        if key == "loosen" {
            continue;
        }
        // A value other than the default, which a workspace may set too.
        let value = match key {
            "gate" | "guard.gate" => json!("warn"),
            "guard.bash" => json!("off"),
            "guard.on_failure" => json!("closed"),
            "patch_gate" => json!("context"),
            "match" => json!("flexible"),
            "hard_links" => json!("refuse"),
            "snapshot.git_dirs" => json!(["/x"]),
            "snapshot.branch" => json!("lbx-other"),
            "durable" | "snapshot.enabled" | "snapshot.require" | "guard.titles" => json!(true),
            "gc.keep_bytes" => json!(0),
            "bash.backend" => json!("namespaces"),
            "bash.network" => json!(["example.org"]),
            "protect" | "write.in_place" | "snapshot.exclude" | "bash.writable" | "bash.readable"
            | "bash.hidden" | "bash.env" => json!(["x"]),
            "bash.caches" => json!(["npm"]),
            _ => json!(known["default"].as_u64().unwrap() + 1),
        };
        let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let plain = value.as_array().map_or(plain, |list| list[0].as_str().unwrap().to_owned());
        // For the network, no value is stricter than the default.
        let by_workspace = if key == "bash.network" { json!("deny") } else { value.clone() };
        let holds = |value: &Value, from: &str, answer: Answer| {
            let found = setting(&answer, key);
            assert_eq!((&found["value"], found["from"].as_str().unwrap()), (value, from), "{key}");
        };
        let is = |from: &str, answer: Answer| holds(&value, from, answer);
        user_policy(&ws, &format!("{key} = {value}\n"));
        is("user", ws.lbx(&["config", key]));
        user_policy(&ws, &format!("loosen = [\"{key}\"]\n"));
        ws.write(".lbx/config.toml", format!("{key} = {by_workspace}\n"));
        if known["workspace"] != "never" {
            holds(&by_workspace, "workspace", ws.lbx(&["config", key]));
        }
        ws.write(".lbx/config.toml", "");
        let variable = known["environment"].as_str().unwrap();
        is("environment", ws.call(&["config", key]).env(variable, &plain).run());
        is("flag", ws.lbx(&["config", key, "--set", &format!("{key}={plain}")]));
    }
}

#[test]
fn file_in_the_workspace_is_not_the_users_policy() {
    let ws = Workspace::with(&[
        ("a.txt", "one\n"),
        ("conf/lbx/config.toml", "gate = 'off'\nbash.network = 'allow'\n"),
    ]);
    ws.write("conf/.config/lbx/config.toml", "gate = 'off'\n");
    let edit = ["edit", "a.txt", "--old-string", "one", "--new-string", "1"];
    for variable in ["XDG_CONFIG_HOME", "HOME"] {
        let error = ws.call(&edit).env(variable, ws.path("conf")).run().error("not_read");
        assert_eq!(error["path"], "a.txt", "{variable}");
        let read = ws.call(&["ls"]).env(variable, ws.path("conf")).run();
        read.warned("does not count as the user's policy");
    }
    ws.holds("a.txt", "one\n");
}

#[test]
fn workspace_policy_loosens_only_gate_matching_and_limits() {
    for (line, loosens) in [
        ("gate = 'off'", true),
        ("patch_gate = 'context'", true),
        ("match = 'flexible'", true),
        ("limits.read = 0", true),
        ("limits.max_bytes = 1000000", true),
        ("limits.file_bytes = 1073741824", true),
        ("limits.file_bytes = 4294967296", false),
        ("limits.search_ms = 600000", true),
        ("limits.search_ms = 0", false),
        ("limits.lock_seconds = 3600", false),
        ("snapshot.file_bytes = 1073741824", false),
        ("snapshot.scan_seconds = 3600", false),
        ("snapshot.scan_files = 10000000", false),
        ("snapshot.scan_bytes = 68719476736", false),
        ("snapshot.enabled = false", false),
        ("snapshot.branch = 'main'", false),
        ("snapshot.branch = 'agents'", false),
        ("snapshot.file_bytes = 1", false),
        ("snapshot.git_dirs = ['/x']", false),
        ("guard.titles = true", false),
        ("snapshot.scan_seconds = 1", false),
        ("snapshot.scan_files = 1", false),
        ("snapshot.scan_bytes = 1", false),
        ("gc.keep_days = 1", false),
        ("gc.keep_bytes = 1", false),
        ("bash.timeout_ms = 1000000", true),
        ("bash.memory_bytes = 0", false),
        ("bash.network = 'allow'", false),
        ("bash.network = 'allow'", false),
        ("bash.network = ['example.org']", false),
        ("bash.backend = 'none'", false),
        ("bash.backend = 'namespaces'", false),
        ("bash.writable = ['/etc']", false),
        ("bash.env = ['TOKEN']", false),
        ("bash.readable = ['/etc']", false),
    ] {
        let ws = with_policy(&format!("# by the workspace\n{line}\n"));
        let answer = ws.lbx(&["ls"]);
        if loosens {
            answer.ok();
        } else {
            let error = answer.error("invalid_request");
            assert_eq!((&error["details"]["line"], &error["path"]), (&json!(2), &json!(".lbx/config.toml")));
            assert!(error["message"].as_str().unwrap().contains("a workspace's file may"), "{error}");
        }
        // The user may set the same.
        let ws = Workspace::with(&[]);
        user_policy(&ws, line);
        ws.lbx(&["ls"]).ok();
    }
    for (key, loose) in [("guard.gate", "off"), ("guard.bash", "off"), ("guard.on_failure", "open")] {
        let strict = match key {
            "guard.gate" => "deny",
            "guard.bash" => "wrap",
            _ => "closed",
        };
        let ws = with_policy(&format!("{key} = '{loose}'\n"));
        assert_eq!(setting(&ws.lbx(&["config"]), key)["value"], loose);
        user_policy(&ws, &format!("{key} = '{strict}'\n"));
        let found = setting(&ws.lbx(&["config"]), key);
        assert_eq!((&found["value"], &found["from"]), (&json!(strict), &json!("user")), "{key}");
        assert_eq!(found["overruled"]["value"], loose, "{key}");
    }
    // Stricter settings of the user override those of the workspace.
    let ws = with_policy("hard_links = 'replace'\ngc.keep_days = 40\n");
    user_policy(&ws, "hard_links = 'refuse'\ngc.keep_days = 50\n");
    let found = setting(&ws.lbx(&["config"]), "hard_links");
    assert_eq!((&found["value"], &found["from"]), (&json!("refuse"), &json!("user")));
    assert_eq!(
        found["overruled"],
        json!({"value": "replace", "from": "workspace", "file": ".lbx/config.toml", "line": 1})
    );
    assert_eq!(setting(&ws.lbx(&["config"]), "gc.keep_days")["value"], 50);
}

#[test]
fn flags_and_variables_loosen_only_what_the_user_allows() {
    let ws = with_policy("gate = 'off'\npatch_gate = 'context'\n");
    user_policy(&ws, "gate = 'strict'\npatch_gate = 'marks'\n");
    // A clone cannot loosen the user's gate.
    ws.lbx(&WRITE).error("not_read");
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch\n";
    ws.call(&["apply_patch", patch]).env("LBX_OUTPUT", "json").run().error("not_read");
    let found = setting(&ws.lbx(&["config"]), "gate");
    assert_eq!((&found["value"], found.get("may_loosen")), (&json!("strict"), None));
    assert_eq!(found["overruled"]["value"], "off");
    for (name, value) in [
        ("gate", "off"),
        ("gate", "warn"),
        ("patch_gate", "context"),
        ("bash.backend", "none"),
        ("bash.network", "allow"),
        ("bash.writable", "/srv"),
        ("gc.keep_days", "0"),
    ] {
        let error =
            ws.call(&WRITE).arguments(&["--set", &format!("{name}={value}")]).run().error("invalid_request");
        let said = format!("loosen = [\"{name}\"]");
        assert!(error["message"].as_str().unwrap().contains(&said), "{error}");
        // A variable may come from anywhere: it is ignored, and the answer says so.
        let variable = format!("LBX_{}", name.to_uppercase().replace('.', "_"));
        let answer = ws.call(&["ls"]).env(&variable, value).run();
        answer.warned(&format!("{variable} does not count: `{name}` is "));
    }
    let error = ws.lbx(&["gc", "--keep-days", "0"]).error("invalid_request");
    assert_eq!(error["suggested_action"], "Leave `keep_days` out, and the setting counts.");
    ws.lbx(&["gc", "--keep-days", "40"]).ok();
    ws.holds("a.txt", "one\n");
    // Stricter values are always allowed.
    for setting in ["bash.backend=namespaces", "gate=strict", "gc.keep_days=50", "bash.network=deny"] {
        ws.lbx(&["ls", "--set", setting]).ok();
    }
    user_policy(&ws, "loosen = ['gate']");
    assert_eq!(setting(&ws.lbx(&["config"]), "gate")["may_loosen"], true);
    ws.call(&WRITE).arguments(&["--set", "gate=off"]).run().success();
    // No other setting allows loosening.
    ws.lbx(&["ls", "--set", "loosen=gate"]).error("invalid_request");
    ws.call(&["ls"])
        .env("LBX_LOOSEN", "gate")
        .run()
        .warned("LBX_LOOSEN does not count: `loosen`: only the user's");
    ws.write(".lbx/config.toml", "loosen = ['gate']\n");
    ws.lbx(&["ls"]).error("invalid_request");
    ws.write(".lbx/config.toml", "gate = 'strict'\n");
    user_policy(&ws, "loosen = ['gaet']");
    let error = ws.lbx(&["ls"]).error("invalid_request");
    assert!(error["message"].as_str().unwrap().contains("did you mean `gate`?"), "{error}");
}

/// Value that is looser than the default, or than that of [`STRICT`], for each setting; and true if only the user's own file
/// can let a flag set it.
const LOOSER: [(&str, &str, bool); 51] = [
    ("gate", "off", true),
    ("patch_gate", "context", true),
    ("match", "flexible", false),
    ("hard_links", "replace", true),
    ("durable", "false", true),
    // These lists restrict: a flag can only add to them.
    ("protect", "x", false),
    ("loosen", "gate", true),
    ("write.in_place", "x", false),
    ("guard.gate", "off", true),
    ("guard.bash", "off", true),
    ("guard.files", "1", true),
    ("guard.on_failure", "open", true),
    ("guard.timeout_ms", "50", true),
    ("guard.titles", "true", false),
    ("limits.max_bytes", "1024", false),
    ("limits.read", "0", false),
    ("limits.grep", "0", false),
    ("limits.glob", "0", false),
    ("limits.ls", "0", false),
    ("limits.log", "0", false),
    ("limits.audit", "0", false),
    ("limits.max_columns", "0", false),
    ("limits.search_ms", "0", false),
    ("limits.file_bytes", "1", false),
    ("limits.lock_seconds", "1", false),
    ("snapshot.enabled", "false", true),
    ("snapshot.branch", "agents", true),
    ("snapshot.require", "false", true),
    ("snapshot.file_bytes", "1", true),
    ("snapshot.exclude", "x", false),
    ("snapshot.git_dirs", "/x", true),
    ("snapshot.scan_seconds", "1", true),
    ("snapshot.scan_files", "1", true),
    ("snapshot.scan_bytes", "1", true),
    ("gc.keep_days", "1", true),
    ("gc.keep_bytes", "1", true),
    ("bash.backend", "none", true),
    ("bash.network", "allow", true),
    ("bash.writable", "/x", true),
    ("bash.readable", "/x", true),
    ("bash.caches", "npm", true),
    ("bash.hidden", "/x", false),
    ("bash.env", "TOKEN", true),
    ("bash.timeout_ms", "86400000", false),
    ("bash.job_ms", "86400000", false),
    ("bash.memory_bytes", "0", false),
    ("bash.processes", "0", false),
    ("bash.file_bytes", "0", false),
    ("bash.ignored_file_bytes", "0", false),
    ("bash.ignored_bytes", "0", false),
    ("bash.output_bytes", "17179869184", false),
];

/// Policy of a user who is stricter than the defaults, where these are the loosest values.
const STRICT: &str =
    "hard_links = 'refuse'\nguard.on_failure = 'closed'\nsnapshot.require = true\nbash.caches = ['none']\n";

#[test]
fn every_setting_says_whether_flags_and_variables_loosen_it() {
    let ws = Workspace::with(&[]);
    let config = ws.lbx(&["config"]).ok();
    let keys = config["settings"].as_array().unwrap().iter().map(|setting| setting["key"].as_str().unwrap());
    assert_eq!(keys.collect::<Vec<_>>(), LOOSER.map(|(key, ..)| key));
    user_policy(&ws, STRICT);
    for (key, value, is_guarded) in LOOSER {
        let flag = ws.lbx(&["ls", "--set", &format!("{key}={value}")]);
        let variable = format!("LBX_{}", key.to_uppercase().replace('.', "_"));
        let by_variable = ws.call(&["ls"]).env(&variable, value).run();
        if is_guarded {
            let error = flag.error("invalid_request");
            assert!(
                error["message"].as_str().unwrap().contains("only the user's own policy file"),
                "{error}"
            );
            by_variable.warned(&format!("{variable} does not count: `{key}`"));
        } else {
            flag.ok();
            assert_eq!(by_variable.envelope().get("warnings"), None, "{key}");
        }
    }
}

#[test]
fn only_the_user_policy_allows_paths_outside_the_workspace() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let other = Workspace::with(&[("b.txt", "two\n")]);
    std::fs::write(ws.outside.join("secret"), "secret\n").unwrap();
    ws.link("../secret", "link");
    let (root, secret) = (other.root.to_str().unwrap(), format!("@{}/secret", ws.outside.display()));
    let through = format!("@/dev/fd/../../..{}/secret", ws.outside.display());
    let in_file = |name: &str, text: &str| {
        std::fs::write(ws.outside.join(name), text).unwrap();
        ws.outside.join(name).to_str().unwrap().to_owned()
    };
    let request = format!("@{}", in_file("request.json", r#"{"path":"a.txt"}"#));
    let patch = in_file("a.patch", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n");
    let acts: [(&str, &[&str], &str); 10] = [
        ("workspace", &["read", "b.txt", "--workspace", root], "outside_workspace"),
        (
            "workspace",
            &["read", "--json", &json!({"path": "b.txt", "workspace": root}).to_string()],
            "outside_workspace",
        ),
        ("workspace", &["sandbox", "create", "other", "--root", root], "outside_workspace"),
        ("content", &["write", "new.txt", "--content", &secret], "outside_workspace"),
        ("content", &["write", "new.txt", "--content", "@link"], "outside_workspace"),
        ("content", &["write", "new.txt", "--content", &through], "outside_workspace"),
        ("content", &["insert", "a.txt", "0", "--content", "@../secret"], "outside_workspace"),
        ("content", &["read", "--json", &request], "outside_workspace"),
        ("content", &["patch", &patch], "outside_workspace"),
        ("exec", &["sandbox", "create", "far", "--exec", "/bin/false"], "command_denied"),
    ];
    // A folder that lbx has not used has no effect.
    ws.user_policy("");
    ws.lbx(&["read", "b.txt", "--workspace", root]).ok();
    ws.lbx(&["read", "a.txt"]).ok();
    for (name, act, kind) in acts {
        ws.user_policy("loosen = ['gate']");
        let error = ws.unchanged(|| ws.lbx(act).error(kind));
        let said = format!("loosen = [\"{name}\"]");
        assert!(error["suggested_action"].as_str().unwrap().contains(&said), "{act:?}: {error}");
        // The workspace's own file does not help.
        ws.write(".lbx/config.toml", format!("loosen = ['{name}']\n"));
        assert_eq!(ws.lbx(act).envelope()["ok"], false, "{act:?}");
        std::fs::remove_file(ws.path(".lbx/config.toml")).unwrap();
        ws.user_policy(&format!("loosen = ['{name}']"));
        let answer = ws.lbx(act).envelope();
        assert!(answer["ok"] == true || answer["error"]["kind"] != kind, "{act:?}: {answer}");
    }
    ws.user_policy("");
    let family = ["--dialect", "claude", "Read", "--pretty", "--json", &request];
    ws.lbx(&family).error("outside_workspace");
    ws.call(&["ls"]).env("LBX_WORKSPACE", root).run().error("outside_workspace");
    ws.write("sub/c.txt", "three\n");
    ws.lbx(&["read", "c.txt", "--workspace", "sub"]).ok();
    ws.lbx_stdin(&["write", "in.txt", "--content", "@/dev/stdin"], "in\n").ok();
    ws.holds("in.txt", "in\n");
}

#[test]
fn trash_purge_respects_keep_days_of_the_user() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
    let id = ws.lbx(&["delete", "a.txt"]).ok()["trash_id"].as_str().unwrap().to_owned();
    ws.user_policy("gc.keep_days = 7");
    ws.lbx(&["trash", "purge", "--trash-id", &id]).error("permission_denied");
    assert_eq!(ws.lbx(&["trash", "purge"]).warned("kept 1 entry: younger than gc.keep_days")["total"], 0);
    ws.user_policy("gc.keep_days = 7\nloosen = ['gc.keep_days']");
    assert_eq!(ws.lbx(&["trash", "purge", "--trash-id", &id]).ok()["total"], 1);
    ws.user_policy("gc.keep_days = 0");
    ws.lbx(&["delete", "b.txt"]).ok();
    assert_eq!(ws.lbx(&["trash", "purge"]).ok()["total"], 1);
}

#[test]
fn protected_paths_of_a_parent_workspace_apply_to_nested_ones() {
    let ws =
        with_policy("gate = 'off'\nprotect = ['sub/keys/', '*.pem', 'sub/inner/conf/prod.toml', 'all']\n");
    ws.write("sub/inner/.lbx/config.toml", "protect = ['own.txt']\n");
    ws.write("sub/inner/open/prod.toml", "x\n");
    ws.write("sub/inner/b.txt", "b\n");
    ws.write("all/a.txt", "a\n");
    ws.link("open", "sub/inner/link");
    let call = |root: &str, arguments: &[&str]| ws.call(arguments).arguments(&["--workspace", root]).run();
    for (root, path) in [
        ("sub", "keys/k"),
        ("sub", "x.pem"),
        ("sub/inner", "deep/x.pem"),
        ("sub/inner", "own.txt"),
        ("sub/inner", "conf/prod.toml"),
        ("all", "a.txt"),
        ("all", "new"),
    ] {
        let error = call(root, &["write", path, "--content", "x"]).error("protected_path");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(".lbx/config.toml:"), "{message}");
    }
    call("sub/inner", &["move", "link", "conf"]).error("protected_path");
    // No other setting of an outer policy applies.
    call("sub/inner", &["write", "b.txt", "--content", "x"]).error("not_read");
    let answer = call("sub/inner", &["config", "protect"]);
    let outer = ws.path(".lbx/config.toml").display().to_string();
    let shown = answer.success()["data"].clone();
    assert!(shown["settings"][0]["parts"].to_string().contains(&outer), "{shown}");
    assert!(shown["files"].to_string().contains(&outer), "{shown}");
    // An unreadable outer policy is an error, because its protected paths are unknown.
    ws.write(".lbx/config.toml", "protect = [\n");
    let error = call("sub/inner", &["ls"]).error("invalid_request");
    assert!(error["message"].as_str().unwrap().contains(&outer), "{error}");
    fs::remove_file(ws.path(".lbx/config.toml")).unwrap();
    make_fifo(&ws.path(".lbx/config.toml"));
    call("sub/inner", &["ls"]).error("invalid_request");
}

#[test]
fn change_without_a_read_is_marked_in_snapshot_and_audit() {
    for gate in ["warn", "off"] {
        for way in ["policy", "flag", "variable", "edit"] {
            let ws = Workspace::with(&[("a.txt", "one\n")]);
            if way == "policy" {
                ws.write(".lbx/config.toml", format!("gate = '{gate}'"));
            }
            let edit = ["edit", "a.txt", "--old-string", "one", "--new-string", "two"];
            let call = ws.call(if way == "edit" { &edit[..] } else { &WRITE });
            let call = match way {
                "policy" => call,
                "flag" => call.arguments(&["--set", &format!("gate={gate}")]),
                _ => call.env("LBX_GATE", gate),
            };
            let _ = call.run().success();
            let trailers = ws.git(&["log", "-1", "--format=%(trailers:key=Lbx-Gate)", "lbx-snapshots"]);
            assert_eq!(trailers.trim(), format!("Lbx-Gate: {gate}"), "{way}");
            assert_eq!(ws.lbx(&["log"]).ok()["snapshots"][0]["gate"], gate, "{way}");
            assert!(ws.lbx(&["log", "-t"]).stdout_text().contains(&format!("[gate {gate}]")), "{way}");
            assert_eq!(ws.lbx(&["audit"]).ok()["records"][0]["gate"], gate, "{way}");
        }
    }
    // A change with proof gives no warning, under any policy.
    let ws = with_policy("gate = 'off'");
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&WRITE).ok();
    ws.lbx(&["append", "a.txt", "--content", "more\n"]).ok();
    assert!(!ws.git(&["log", "--format=%B", "lbx-snapshots"]).contains("Lbx-Gate"));
    assert!(ws.lbx(&["audit"]).ok()["records"].as_array().unwrap().iter().all(|it| it["gate"].is_null()));
}

#[test]
fn policy_file_error_stops_every_tool_and_names_the_line() {
    let ws = with_policy("gate = \"warn\"\n\n[limits]\nraed = 3\n");
    for call in [&["read", "a.txt"][..], &["ls"], &WRITE, &["undo"], &["config"], &["grep", "one"]] {
        let error = ws.lbx(call).error("invalid_request");
        let message = error["message"].as_str().unwrap();
        assert_eq!(
            message,
            "the policy file .lbx/config.toml:4:1: unknown key `limits.raed`, did you mean `limits.read`?"
        );
        assert_eq!(error["path"], ".lbx/config.toml");
        assert_eq!(
            error["details"],
            json!({"file": ".lbx/config.toml", "line": 4, "column": 1, "key": "limits.raed"})
        );
        assert!(
            error["suggested_action"].as_str().unwrap().contains("line 4 of .lbx/config.toml"),
            "{error}"
        );
    }
    ws.holds("a.txt", "one\n");
    ws.lbx(&["schema", "read"]).ok();
    // The user's own file likewise, by its full path.
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    user_policy(&ws, "gate = 'of'\n");
    let error = ws.lbx(&["read", "a.txt"]).error("invalid_request");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("home/.config/lbx/config.toml:1:8: `gate`: expected"), "{message}");
    assert!(message.ends_with("did you mean \"off\"?"), "{message}");
}

#[test]
fn invalid_policy_variable_or_flag_is_named() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for (name, value) in [
        ("LBX_GATE", "loose"),
        ("LBX_LIMITS_READ", "many"),
        ("LBX_LIMITS_MAX_BYTES", "3"),
        ("LBX_SNAPSHOT_ENABLED", "maybe"),
        ("LBX_SNAPSHOT_BRANCH", "a..b"),
        ("LBX_PROTECT", "a["),
        ("LBX_GC_KEEP_DAYS", "-1"),
    ] {
        let error = ws.call(&["read", "a.txt"]).env(name, value).run().error("invalid_request");
        assert!(error["message"].as_str().unwrap().contains(name), "{error}");
        assert_eq!(error["details"]["variable"], name);
        ws.call(&["read", "a.txt"]).env(name, "").run().ok();
    }
    for flag in ["gate", "gate=loose", "gaet=off", "=", "", "limits=3", "snapshot.branch=HEAD"] {
        let error = ws.lbx(&["read", "a.txt", "--set", flag]).error("invalid_request");
        assert!(error["message"].as_str().unwrap().starts_with("--set: "), "{error}");
    }
    ws.lbx(&["--set", "gate=off", "write", "a.txt", "--content", "x", "--set", "limits.log=3"]).ok();
    // A request has no such field: callers cannot change settings.
    ws.json("write", &json!({"path": "a.txt", "content": "y", "set": ["gate=off"]})).error("invalid_request");
    ws.json("write", &json!({"path": "a.txt", "content": "y", "gate": "off"})).error("invalid_request");
    // `config` reports a variable that sets nothing.
    let answer = ws.call(&["config"]).env("LBX_GAET", "off").env("LBX_SESSION", "x").run();
    answer.warned("LBX_GAET sets nothing; did you mean LBX_GATE?");
}

#[test]
fn every_variable_in_the_man_page_is_known() {
    let manual = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/man/lbx.1")).unwrap();
    let names = manual.lines().filter_map(|line| line.strip_prefix("\\fB")?.strip_suffix("\\fR"));
    let names: Vec<&str> = names.filter(|name| name.starts_with("LBX_")).collect();
    assert!(names.contains(&"LBX_PAGER") && names.len() > 5, "{names:?}");
    let ws = Workspace::with(&[]);
    for name in names {
        // The effect of that value does not matter here.
        let answer = ws.call(&["config"]).env(name, "x").run();
        let said = answer.stdout_text() + &answer.stderr();
        assert!(!said.contains("sets nothing"), "{name}: {said}");
    }
}

#[test]
fn unusable_policy_file_is_an_error_and_never_blocks() {
    let say = |ws: &Workspace, part: &str, kind: &str| {
        let error = ws.lbx(&["read", "a.txt"]).error(kind);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("config.toml") && message.contains(part), "{message}");
    };
    for of_user in [false, true] {
        let place = |ws: &Workspace| {
            let folder = if of_user { ws.outside.join("home/.config/lbx") } else { ws.path(".lbx") };
            fs::create_dir_all(&folder).unwrap();
            let file = folder.join("config.toml");
            let _ = fs::remove_file(&file);
            file
        };
        let ws = || Workspace::with(&[("a.txt", "one\n"), ("other.toml", "gate = 'off'\n")]);
        let one = ws();
        make_fifo(&place(&one));
        say(&one, "no regular file", "invalid_request");
        let one = ws();
        fs::create_dir(place(&one)).unwrap();
        say(&one, "it is a folder", "invalid_request");
        let one = ws();
        symlink(one.path("other.toml"), place(&one)).unwrap();
        if of_user {
            // As tools that manage dotfiles do.
            assert_eq!(setting(&one.lbx(&["config"]), "gate")["value"], "off");
        } else {
            say(&one, "it is a symlink", "invalid_request");
        }
        let one = ws();
        fs::write(place(&one), "# x\n".repeat(100_000)).unwrap();
        say(&one, "400000 bytes, more than 262144", "invalid_request");
        let one = ws();
        fs::File::create(place(&one)).unwrap().set_len(1 << 40).unwrap();
        say(&one, "1099511627776 bytes, more than 262144", "invalid_request");
        let one = ws();
        fs::write(place(&one), b"# \xe4\n").unwrap();
        say(&one, ":1:3: the file is not UTF-8", "invalid_request");
        let one = ws();
        fs::write(place(&one), "gate = 'off'\ngate = 'strict'\n").unwrap();
        say(&one, ":2:1: no TOML: duplicate key", "invalid_request");
    }
    // A link in place of the whole folder is not a state either, and calls that need one report it.
    let ws = Workspace::with(&[("a.txt", "one\n"), ("other/config.toml", "gate = 'off'\n")]);
    ws.link("other", ".lbx");
    ws.lbx(&["read", "a.txt"]).success();
    ws.lbx(&WRITE).error("not_a_directory");
}

#[test]
fn policy_file_is_protected_and_visible_to_git() {
    let ws = with_policy("gate = \"off\"\n");
    for path in [".lbx/config.toml", ".LBX/config.toml", "sub/../.lbx/config.toml"] {
        ws.lbx(&["write", path, "--content", "x"]).error("protected_path");
    }
    ws.lbx(&["read", ".lbx/config.toml"]).ok();
    ws.lbx(&WRITE).ok();
    assert_eq!(ws.git(&["status", "--short", "-uall", ".lbx"]), "?? .lbx/config.toml");
}

#[test]
fn config_text_is_a_valid_policy_file() {
    let ws = with_policy("gate = \"warn\"\n");
    user_policy(&ws, "");
    let text = ws.call(&["config", "gate", "limits.read", "gc", "-t"]).run();
    let lines = text.stdout_text();
    assert_eq!(
        lines,
        "gate = \"warn\"  # .lbx/config.toml:1\nlimits.read = 2000  # default\ngc.keep_days = 30  # default\ngc.keep_bytes = 0  # default\n"
    );
    // Its output is a valid policy.
    let all = ws.lbx(&["config", "-t"]).stdout_text();
    user_policy(&ws, &all);
    ws.lbx(&["config"]).ok();
    let example = ws.lbx(&["config", "--example", "-t"]).stdout_text();
    user_policy(&ws, &example);
    let shown = ws.lbx(&["config"]).ok();
    assert!(
        shown["settings"].as_array().unwrap().iter().all(|setting| setting["from"] != "default"),
        "{shown}"
    );
    ws.lbx(&["config", "gat"]).error("invalid_request");
    assert!(ws.lbx(&["config", "--explain"]).ok()["settings"][0]["about"].is_string());
}

#[test]
fn gc_follows_keep_days_of_the_policy() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&WRITE).ok();
    let removed = |arguments: &[&str]| {
        ws.call(&["gc", "--dry-run"]).arguments(arguments).run().ok()["removed"]["files"].as_u64().unwrap()
    };
    assert_eq!(removed(&[]), 0);
    user_policy(&ws, "gc.keep_days = 0");
    assert!(removed(&[]) > 0);
    assert_eq!(removed(&["--keep-days", "30"]), 0);
    // The size limit never removes anything of the last day.
    user_policy(&ws, "gc.keep_bytes = 1");
    assert_eq!(removed(&[]), 0);
}

#[test]
fn policy_example_equals_the_defaults() {
    let ws = Workspace::with(&[]);
    let before = ws.lbx(&["config"]).ok();
    ws.write(".lbx/config.toml", ws.lbx(&["config", "--example", "-t"]).stdout_text());
    let after = ws.lbx(&["config"]).ok();
    let values = |data: &Value| -> Vec<Value> {
        data["settings"].as_array().unwrap().iter().map(|setting| setting["value"].clone()).collect()
    };
    assert_eq!(values(&before), values(&after));
}

#[test]
fn snapshot_includes_the_shared_policy_file() {
    let ws = with_policy("gate = \"warn\"\n");
    ws.lbx(&["snapshot"]).success();
    assert_eq!(ws.git(&["show", "lbx-snapshots:.lbx/config.toml"]), "gate = \"warn\"");
    let names = ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots", ".lbx"]);
    assert_eq!(names, ".lbx/config.toml");
    assert_eq!(
        ws.git(&["ls-tree", "-r", "lbx-snapshots"]).lines().count(),
        ws.git(&["ls-files", "-co", "--exclude-standard"]).lines().count()
    );
}

#[test]
fn batch_applies_set_flags_to_every_call() {
    let ws = with_policy("");
    let requests = [
        json!({"tool": "write", "request": {"path": "a.txt", "content": "x"}}),
        json!({"tool": "config", "request": {"keys": ["gate"]}}),
    ];
    let lines: String = requests.iter().map(|request| format!("{request}\n")).collect();
    let answers = ws.lbx_stdin(&["batch", "--set", "gate=warn"], lines).lines();
    assert!(answers[0]["warnings"][0].as_str().unwrap().contains("gate = \"warn\", --set"), "{}", answers[0]);
    assert_eq!(answers[1]["data"]["settings"][0]["from"], "flag");
}

#[test]
fn linked_worktree_has_its_own_configured_branch() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let other = ws.outside.join("linked");
    ws.git(&["worktree", "add", "-q", other.to_str().unwrap()]);
    user_policy(&ws, "snapshot.branch = 'agents'");
    ws.call(&["write", "b.txt", "--content", "b"]).in_folder(&other).run().ok();
    let log = ws.git(&["log", "--format=%s", "agents-linked", "--not", "HEAD"]);
    assert!(log.starts_with("write: b.txt"), "{log}");
}

/// Returns the place and message of the fault in a policy file of the workspace, without the name of the file.
fn fault_in(text: impl AsRef<[u8]>) -> String {
    let ws = Workspace::with(&[]);
    ws.write(".lbx/config.toml", text);
    let error = ws.lbx(&["ls"]).error("invalid_request");
    let message = error["message"].as_str().unwrap();
    message.strip_prefix("the policy file .lbx/config.toml:").unwrap_or(message).to_owned()
}

#[test]
fn policy_errors_have_a_position_and_the_expected_value() {
    for (text, wanted) in [
        ("gaet = \"off\"", "1:1 unknown key `gaet`, did you mean `gate`?"),
        ("\n\n  max_bytes = 1", "3:3 unknown key `max_bytes`, did you mean `limits.max_bytes`?"),
        ("[limits]\nraed = 1", "2:1 unknown key `limits.raed`, did you mean `limits.read`?"),
        ("[snapshot]\ngate = 'off'", "2:1 unknown key `snapshot.gate`, did you mean `gate`?"),
        ("[limts]\nread = 1", "1:2 unknown key `limts`, did you mean `limits`?"),
        ("[other]\nx = 1", "1:2 unknown key `other`, `lbx config` lists the keys"),
        ("limits = 7", "1:1 `limits` is a table: write [limits] and its keys below it"),
        (
            "gate = \"of\"",
            "1:8 `gate`: expected \"strict\" or \"warn\" or \"off\", got \"of\", did you mean \"off\"?",
        ),
        ("gate = true", "1:8 `gate`: expected \"strict\" or \"warn\" or \"off\", got true"),
        ("protect = 'x'", "1:11 `protect`: expected a list of globs, got 'x'"),
        ("protect = [\n 'x',\n 7]", "3:2 `protect`: expected a list of globs, got 7"),
        (
            "protect = ['a', '!b']",
            "1:17 `protect`: \"!b\": exceptions are not supported (write \\! for a name that begins with !)",
        ),
        ("protect = ['']", "1:12 `protect`: the glob \"\" is empty"),
        ("snapshot.exclude = ['']", "1:21 `snapshot.exclude`: the glob \"\" is empty"),
        (
            "protect = ['../x']",
            "1:12 `protect`: \"../x\": a path counts from the root, without `.`, `..` or `//`",
        ),
        ("protect = ['a[']", "1:12 `protect`: the glob \"a[\": unclosed character class; missing ']'"),
        (
            "[limits]\nmax_bytes = -1",
            "2:13 `limits.max_bytes`: expected a number of bytes from 1024 to 1000000, got -1",
        ),
        (
            "[limits]\nmax_bytes = 99999999999999999999",
            "2:13 `limits.max_bytes`: expected a number of bytes from 1024 to 1000000, got 99999999999999999999",
        ),
        (
            "[limits]\nread = 1.5",
            "2:8 `limits.read`: expected a number of lines from 0 to 100000000 (0: all), got 1.5",
        ),
        ("[snapshot]\nenabled = 'no'", "2:11 `snapshot.enabled`: expected true or false, got 'no'"),
    ] {
        assert_eq!(fault_in(text), wanted.replacen(' ', ": ", 1));
    }
    for (text, begins) in [
        ("gate = \"strict\"\ngate = \"off\"\n", "2:1 no TOML: duplicate key"),
        ("gate = strict\n", "1:8 no TOML: "),
        ("\n[limits\nread = 1\n", "2:8 no TOML: "),
        ("gate", "1:5 no TOML: "),
    ] {
        let fault = fault_in(text);
        assert!(fault.starts_with(&begins.replacen(' ', ": ", 1)), "{fault}");
    }
    assert_eq!(fault_in(b"# \xff\n"), "1:3: the file is not UTF-8");
}

#[test]
fn policy_files_have_the_forms_of_toml() {
    let ws = Workspace::with(&[]);
    let value = |key: &str| setting(&ws.lbx(&["config"]), key)["value"].clone();
    for (text, key, wanted) in [
        ("# ours\n[gc]\n  keep_days=0x40\n", "gc.keep_days", json!(64)),
        ("[limits]\nread = 1_000\n", "limits.read", json!(1000)),
        ("limits.read = 5\n", "limits.read", json!(5)),
        ("limits = { read = 5 }", "limits.read", json!(5)),
        ("", "gate", json!("strict")),
        ("\u{feff}gate = 'off'\r\n", "gate", json!("off")),
    ] {
        ws.write(".lbx/config.toml", text);
        assert_eq!(value(key), wanted, "{text:?}");
    }
}

#[test]
fn invalid_snapshot_branch_names_are_rejected() {
    let ws = Workspace::with(&[]);
    ws.user_policy("loosen = ['snapshot.branch']");
    let long = "x".repeat(201);
    for bad in [
        "",
        "HEAD",
        "head",
        "-x",
        "a..b",
        "a b",
        "a~1",
        "a^",
        "a:b",
        "x.lock",
        "a//b",
        "/a",
        "a/",
        ".a",
        "a/.b",
        "@",
        "a@{1}",
        "a\\b",
        "refs/heads/x",
        "a\nb",
        "ä",
        "a?",
        "a*",
        "a[",
        "$(x)",
        "a;b",
        "..",
        "a.",
        &long,
    ] {
        ws.lbx(&["ls", "--set", &format!("snapshot.branch={bad}")]).error("invalid_request");
    }
    for good in ["lbx-snapshots", "agents/lbx", "x", "a.b_c-9"] {
        ws.lbx(&["ls", "--set", &format!("snapshot.branch={good}")]).ok();
    }
}

#[test]
fn workspace_policy_is_in_force_unless_the_user_is_stricter() {
    for (key, user, workspace, wanted) in [
        ("gate", "", "'off'", json!("off")),
        ("gate", "'warn'", "'strict'", json!("strict")),
        ("patch_gate", "", "'context'", json!("context")),
        ("patch_gate", "'marks'", "'context'", json!("marks")),
        ("match", "", "'flexible'", json!("flexible")),
        ("limits.read", "10", "0", json!(0)),
        ("hard_links", "", "'refuse'", json!("refuse")),
        ("hard_links", "'refuse'", "'replace'", json!("refuse")),
        ("snapshot.enabled", "false", "true", json!(true)),
        ("snapshot.require", "", "true", json!(true)),
        ("snapshot.require", "true", "false", json!(true)),
        ("snapshot.file_bytes", "", "268435456", json!(268_435_456)),
        ("limits.search_ms", "0", "1000", json!(1000)),
        ("gc.keep_days", "90", "60", json!(90)),
        ("gc.keep_days", "1", "60", json!(60)),
        ("gc.keep_bytes", "5", "0", json!(0)),
        ("bash.network", "'allow'", "'deny'", json!("deny")),
        ("snapshot.branch", "", "'lbx/team'", json!("lbx/team")),
    ] {
        let ws = with_policy(&format!("{key} = {workspace}\n"));
        user_policy(&ws, &if user.is_empty() { String::new() } else { format!("{key} = {user}\n") });
        let found = setting(&ws.lbx(&["config"]), key);
        assert_eq!(found["value"], wanted, "{key} {user} {workspace}: {found}");
        assert_eq!(found.get("overruled").is_some(), found["from"] == "user", "{key}: {found}");
    }
}

#[test]
fn flags_and_variables_loosen_no_value_of_the_user() {
    for (key, user, other, is_taken) in [
        ("gate", "'warn'", "off", false),
        ("gate", "'warn'", "warn", true),
        ("gate", "'warn'", "strict", true),
        ("gc.keep_days", "40", "39", false),
        ("gc.keep_days", "40", "41", true),
        ("bash.backend", "'auto'", "namespaces", true),
        ("bash.backend", "'auto'", "landlock", false),
        ("bash.network", "['a.example']", "deny", true),
        ("bash.network", "['a.example', 'b.example']", "b.example", true),
        ("bash.network", "['a.example', 'b.example']", "a.example,c.example", false),
        ("bash.network", "['a.example', 'b.example']", "allow", false),
        ("bash.network", "['a.example', 'b.example']", "[]", true),
        ("bash.writable", "['/a']", "/a", true),
        ("bash.writable", "['/a']", "/b", false),
        ("bash.caches", "[]", "npm", true),
        ("bash.caches", "['none']", "npm", false),
        ("snapshot.branch", "'agents'", "agents", true),
        ("snapshot.branch", "'agents'", "lbx/agents", true),
    ] {
        let ws = Workspace::with(&[]);
        user_policy(&ws, &format!("{key} = {user}\n"));
        let set = format!("{key}={other}");
        let answer = ws.lbx(&["ls", "--set", &set]).envelope();
        assert_eq!(answer["ok"], is_taken, "{set}: {answer}");
        user_policy(&ws, &format!("{key} = {user}\nloosen = ['{key}']\n"));
        ws.lbx(&["ls", "--set", &set]).ok();
    }
}

#[test]
fn lists_of_all_sources_are_merged_except_that_of_hosts() {
    let ws = with_policy("protect = ['b']\n");
    user_policy(&ws, "protect = ['a']\nbash.network = ['a.example']\nloosen = ['bash.network']\n");
    let answer = ws.lbx(&["config", "--set", "protect=c", "--set", "bash.network=b.example"]);
    let found = setting(&answer, "protect");
    assert_eq!((&found["value"], found["parts"].as_array().unwrap().len()), (&json!(["a", "b", "c"]), 3));
    let found = setting(&answer, "bash.network");
    assert_eq!((&found["value"], &found["from"]), (&json!(["b.example"]), &json!("flag")));
}

#[test]
fn config_shows_values_as_valid_toml() {
    let ws = Workspace::with(&[]);
    let odd = "protect = ['it''s', \"a\\\\!b \\\"x\\\"\", \"\\u0001\"]\n".replace("''s", "s");
    user_policy(&ws, &odd);
    let value = setting(&ws.lbx(&["config"]), "protect")["value"].clone();
    let shown = ws.lbx(&["config", "protect", "--text"]).stdout_text();
    user_policy(&ws, &shown);
    assert_eq!(setting(&ws.lbx(&["config"]), "protect")["value"], value, "{shown}");
}
