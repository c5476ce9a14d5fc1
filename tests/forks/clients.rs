//! Forks for clients: worktrees of Claude Code by its hooks, and tools over MCP.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Answer, Call, Workspace};
use crate::created::{forked, within};

/// Sends an event about a worktree, as Claude Code does.
fn worktree(ws: &Workspace, event: &str, field: &str, value: &str) -> Answer {
    let event = json!({
        "session_id": "5e1f", "transcript_path": "/t.jsonl", "cwd": ws.root, "hook_event_name": event, field: value
    });
    ws.lbx_stdin(&["hook", "claude-code", "--session", "claude-code-1"], event.to_string())
}

/// Creates a worktree, and returns its path: the whole output.
fn created(ws: &Workspace, name: &str) -> PathBuf {
    let answer = worktree(ws, "WorktreeCreate", "name", name);
    assert_eq!(answer.status(), 0, "{}", answer.stderr());
    let said = answer.stdout_text();
    let path = PathBuf::from(said.trim_end());
    assert_eq!(said, format!("{}\n", path.display()));
    assert!(path.is_dir(), "{said}");
    path
}

/// Removes a worktree.
fn removed(ws: &Workspace, path: &Path) -> Answer {
    worktree(ws, "WorktreeRemove", "worktree_path", path.to_str().unwrap())
}

/// Runs git in a folder.
fn git(folder: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=n", "-c", "user.email=n@example.org"]).args(arguments).current_dir(folder);
    assert!(git.status().unwrap().success());
}

/// Returns the names of the forks.
fn names(ws: &Workspace) -> Vec<String> {
    let forks = ws.lbx(&["fork", "list"]).ok()["forks"].clone();
    forks.as_array().unwrap().iter().map(|fork| fork["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn worktree_of_a_client_is_a_fork_next_to_the_workspace() {
    let Some(ws) = forked(&[]) else { return };
    let before = ws.tree();
    let path = created(&ws, "Fix Login");
    let name = format!("{}.fix-login", ws.root.file_name().unwrap().to_str().unwrap());
    assert_eq!(path, ws.root.parent().unwrap().join(name));
    assert_eq!(std::fs::read_to_string(path.join(".env")).unwrap(), "TOKEN=1\n");
    let fork = ws.lbx(&["fork"]).ok()["forks"][0].clone();
    assert_eq!(fork["name"], "fix-login");
    assert_eq!(fork["why"], "worktree fix-login of the session claude-code-1");
    // A second worktree of that name, and a folder that is in the way.
    std::fs::create_dir(path.with_extension("fix-login-2")).unwrap();
    assert_eq!(created(&ws, "fix-login"), path.with_extension("fix-login-3"));
    assert_eq!(names(&ws), ["fix-login", "fix-login-3"]);
    // Nothing was changed in it, but for files that git ignores.
    std::fs::write(path.join("target/more"), "x").unwrap();
    assert_eq!(removed(&ws, &path).status(), 0);
    assert!(!path.exists());
    assert_eq!(names(&ws), ["fix-login-3"]);
    assert_eq!(ws.tree(), before);
}

#[test]
fn worktree_that_holds_work_is_kept() {
    let Some(ws) = forked(&[]) else { return };
    let path = created(&ws, "task");
    std::fs::write(path.join("src/new.txt"), "work\n").unwrap();
    let refused = removed(&ws, &path);
    assert_eq!(refused.status(), 1);
    assert_eq!(refused.stdout_text(), "");
    let said = refused.stderr();
    assert!(said.contains("it has changes of 1 file that no merge brought"), "{said}");
    assert!(said.contains("`lbx merge task` brings its changes into the workspace"), "{said}");
    assert!(path.join("src/new.txt").exists());
    // What was merged is no longer only there, until the merge is undone.
    ws.lbx(&["merge", "task"]).ok();
    ws.lbx(&["undo"]).ok();
    assert_eq!(removed(&ws, &path).status(), 1);
    ws.lbx(&["merge", "task"]).ok();
    git(&path, &["add", "-A"]);
    git(&path, &["commit", "-qm", "its own"]);
    let said = removed(&ws, &path).stderr();
    assert!(said.contains("it has commits of its own at refs/heads/main"), "{said}");
    git(&path, &["reset", "-q", "--soft", "HEAD~1"]);
    // The hook may run in the worktree, and a worktree may have some of its own.
    let hook = |event: &str, field: &str, value: &str| {
        let event = json!({ "session_id": "5e1f", "cwd": path, "hook_event_name": event, field: value });
        let home = ws.outside.join("home");
        let words = ["hook", "claude-code"];
        let call = Call::under("sh", &["-c", "\"$@\"; exit $?", "sh"], &path, &home).arguments(&words);
        call.stdin(event.to_string()).run()
    };
    let path_text = path.to_str().unwrap();
    let inner = hook("WorktreeCreate", "name", "inner").stdout_text();
    let said = hook("WorktreeRemove", "worktree_path", path_text).stderr();
    assert!(said.contains("it has forks of its own: inner"), "{said}");
    assert_eq!(hook("WorktreeRemove", "worktree_path", inner.trim_end()).status(), 0);
    assert_eq!(hook("WorktreeRemove", "worktree_path", path_text).status(), 0);
    assert!(!path.exists());
    ws.holds("src/new.txt", "work\n");
    let said = removed(&ws, &path).stderr();
    assert!(said.contains("is no fork of this workspace"), "{said}");
    assert_eq!(worktree(&ws, "WorktreeRemove", "other", "x").status(), 1);
}

#[test]
fn init_forks_adds_and_removes_the_hooks_for_worktrees() {
    let Some(ws) = forked(&[]) else { return };
    let mine =
        "{\n  // mine\n  \"hooks\": { \"WorktreeCreate\": [ { \"hooks\": [] } ] },\n  \"model\": \"x\"\n}\n";
    ws.write(".claude/settings.json", mine);
    let lists = |event: &str| {
        let text = String::from_utf8(ws.read_bytes(".claude/settings.json")).unwrap();
        let text = text.replace("// mine", "");
        let settings: Value = serde_json::from_str(&text).unwrap();
        settings["hooks"][event]
            .to_string()
            .matches("lbx hook claude-code --session claude-code@parent")
            .count()
    };
    let init = |more: &[&str]| ws.lbx(&[&["init", "claude-code"], more].concat()).ok();
    init(&["--forks", "--dry-run"]);
    ws.holds(".claude/settings.json", mine);
    init(&["--forks"]);
    assert_eq!([lists("WorktreeCreate"), lists("WorktreeRemove"), lists("PreToolUse")], [1, 1, 0]);
    let text = ws.read_bytes(".claude/settings.json");
    assert!(
        String::from_utf8_lossy(&text).contains("lbx session compact"),
        "the hook of compactions is there too"
    );
    let server: Value = serde_json::from_slice(&ws.read_bytes(".mcp.json")).unwrap();
    assert!(!server.to_string().contains("--forks"), "{server}");
    assert_eq!(init(&["--forks"])["files"], json!([]));
    // Hooks that guard are another matter.
    assert_eq!(ws.lbx(&["doctor", "--text"]).stdout_text().matches("has the hooks").count(), 0);
    init(&["--forks", "--guard"]);
    assert_eq!([lists("WorktreeCreate"), lists("WorktreeRemove"), lists("PreToolUse")], [1, 1, 1]);
    assert_eq!(init(&["--guard"])["files"], json!([]));
    init(&["--remove"]);
    ws.holds(".claude/settings.json", mine);
    // A client without such hooks gets the tools.
    ws.lbx(&["init", "gemini", "--forks"]).ok();
    let server: Value = serde_json::from_slice(&ws.read_bytes(".gemini/settings.json")).unwrap();
    let arguments = server["mcpServers"]["lbx"]["args"].as_array().unwrap();
    assert!(arguments.contains(&json!("--forks")), "{server}");
    assert_eq!(ws.lbx(&["init", "gemini", "--forks"]).ok()["files"], json!([]));
}

/// Returns the results of calls to a server of the workspace.
fn served(ws: &Workspace, options: &[&str], calls: &[(&str, Value)]) -> Vec<Value> {
    let request = |id: usize, method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
    };
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let mut sent = vec![request(0, "initialize", hello), request(1, "tools/list", json!({}))];
    for (id, (name, arguments)) in calls.iter().enumerate() {
        sent.push(request(id + 2, "tools/call", json!({ "name": name, "arguments": arguments })));
    }
    let root = ws.root.to_str().unwrap();
    let answer = ws.lbx_stdin(&[&["--workspace", root, "mcp"], options].concat(), sent.join("\n") + "\n");
    let lines = answer.lines();
    let of = |id: usize| lines.iter().find(|line| line["id"] == id).unwrap()["result"].clone();
    (0..calls.len() + 2).map(of).collect()
}

#[test]
fn server_offers_forks_only_if_asked() {
    let Some(ws) = forked(&["one"]) else { return };
    let has = |results: &[Value], tool: &str| {
        results[1]["tools"].as_array().unwrap().iter().any(|listed| listed["name"] == tool)
    };
    let in_one = json!({ "path": "x.txt", "content": "1", "sandbox": "one" });
    let calls = [("fork", json!({ "action": "list" })), ("write", in_one)];
    let plain = served(&ws, &[], &calls);
    assert!(!has(&plain, "fork") && !has(&plain, "merge"));
    assert!(plain[2].to_string().contains("unknown tool") || plain[2].is_null(), "{}", plain[2]);
    assert!(plain[3].to_string().contains("and not the sandbox one"), "{}", plain[3]);
    assert!(!plain[0]["instructions"].as_str().unwrap().contains("fork"));
    let with = served(&ws, &["--forks", "--tools", "read,write"], &calls);
    assert!(has(&with, "fork") && has(&with, "merge") && has(&with, "read") && !has(&with, "edit"));
    assert!(with[0]["instructions"].as_str().unwrap().contains("name it as `sandbox`"));
    assert_eq!(with[2]["structuredContent"]["forks"][0]["name"], "one", "{}", with[2]);
    assert_eq!(with[3]["isError"], false, "{}", with[3]);
    assert!(!ws.path("x.txt").exists());
    assert_eq!(within(&ws, "one", &["read", "x.txt"]).ok()["content"], "1");
}

#[test]
fn orchestrator_creates_uses_merges_and_drops_a_fork() {
    let Some(ws) = forked(&[]) else { return };
    let other = Workspace::with(&[("a.txt", "a\n")]);
    let home = ws.outside.join("home");
    let made = crate::common::Call::new(&other.root, &home).arguments(&["fork", "foreign"]).run();
    made.ok();
    let calls = [
        ("fork", json!({ "name": "agent", "why": "try" })),
        ("write", json!({ "path": "a.txt", "content": "1", "sandbox": "agent" })),
        ("write", json!({ "path": "b.txt", "content": "1", "sandbox": "foreign" })),
        ("fork", json!({ "name": "copy", "at": "../copy" })),
        ("fork", json!({ "action": "diff", "name": "agent" })),
        ("merge", json!({ "name": "agent" })),
        ("fork", json!({ "action": "drop", "name": "agent" })),
        // Each spelling of a field is this field.
        ("fork", json!({ "name": "copy", "a_t": "../copy" })),
        ("fork", json!({ "name": "copy", "AT": null, "a_t": "../copy" })),
    ];
    let results = served(&ws, &["--forks"], &calls);
    let is_error: Vec<&Value> = results[2..].iter().map(|result| &result["isError"]).collect();
    assert_eq!(
        json!(is_error),
        json!([false, false, true, true, false, false, false, true, true]),
        "{results:?}"
    );
    assert!(results[4].to_string().contains("and not the sandbox foreign"), "{}", results[4]);
    assert!(results[5].to_string().contains("makes no copies of the workspace"), "{}", results[5]);
    assert!(!ws.outside.join("copy").exists());
    assert!(
        results[6]["structuredContent"]["diff"]["diff"].as_str().unwrap().contains("+1"),
        "{}",
        results[6]
    );
    ws.holds("a.txt", "1");
    assert!(names(&ws).is_empty());
}

#[test]
fn tools_of_a_model_family_never_take_a_fork_for_the_workspace() {
    let Some(ws) = forked(&["one"]) else { return };
    let write = json!({ "file_path": ws.path("x.txt"), "content": "1", "sandbox": "one" });
    let results = served(&ws, &["--forks", "--dialect", "claude"], &[("Write", write)]);
    assert!(results[2].to_string().contains("is a fork: this call cannot be made in it"), "{}", results[2]);
    assert!(!ws.path("x.txt").exists());
}
