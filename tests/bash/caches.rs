//! Toolchain caches: files that commands write in them belong to the session.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Workspace, skipped, state};
use crate::confined::guarded;
use crate::support::{backends, has_backend};

/// Creates a workspace whose user has caches of cargo and pip, and no others.
fn with_caches() -> Workspace {
    let ws = guarded();
    let home = ws.outside.join("home");
    for folder in [".cargo/bin", ".cargo/registry", ".cache/pip"] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    for file in [".cargo/bin/tool", ".cargo/registry/crate", ".cargo/credentials.toml", ".cache/pip/wheel"] {
        fs::write(home.join(file), "the user's\n").unwrap();
    }
    fs::write(home.join(".cache/browser"), "SECRET\n").unwrap();
    ws
}

/// Runs a command of a session with more fields of the request; returns the data of the answer.
fn run(ws: &Workspace, settings: &[&str], session: &str, command: &str, more: &Value) -> Value {
    let mut request = json!({ "command": command, "session": session });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let arguments: Vec<&str> = ["bash", "--json", "-"].into_iter().chain(settings).collect();
    ws.lbx_stdin(&arguments, request.to_string()).success()["data"].clone()
}

/// Returns everything in a home folder, with the bytes of files.
fn everything(home: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![home.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap_or_default();
            found.push((path.strip_prefix(home).unwrap().display().to_string(), bytes));
            folders.extend(path.is_dir().then_some(path));
        }
    }
    found.sort();
    found
}

#[test]
fn cache_writes_are_private_to_the_session() {
    if !has_backend("namespaces") {
        return;
    }
    for more in [json!({}), json!({ "direct": true })] {
        let ws = with_caches();
        let home = ws.outside.join("home");
        run(&ws, &[], "one", "true", &more);
        let before = everything(&home);
        let write = "cat ~/.cargo/registry/crate ~/.cache/pip/wheel; for f in ~/.cargo/registry/new ~/.cache/pip/new ~/.cargo/.package-cache ~/.cache/new ~/.npm/new ~/go/new; do echo new > $f || exit; done; rm ~/.cargo/registry/crate";
        let answer = run(&ws, &["bash.backend=namespaces"], "one", write, &more);
        assert_eq!(
            (&answer["stdout"], &answer["exit_code"]),
            (&json!("the user's\nthe user's\n"), &json!(0))
        );
        assert_eq!(answer["changed"], json!([]), "{answer:#}");
        // The next command of the session finds it; other sessions do not.
        let read = "cat ~/.cargo/registry/new ~/.cache/new ~/.npm/new; ls ~/.cargo/registry";
        let own = run(&ws, &["bash.backend=namespaces"], "one", read, &more);
        assert_eq!(own["stdout"], "new\nnew\nnew\nnew\n", "{own:#}");
        let other =
            run(&ws, &["bash.backend=namespaces"], "two", "ls ~/.cargo/registry ~/.cache/pip ~/.npm", &more);
        let listed = other["stdout"].as_str().unwrap();
        assert!(listed.contains("crate") && listed.contains("wheel") && !listed.contains("new"), "{other:#}");
        assert_eq!(everything(&home), before);
        // Programs stay as they are, secrets are hidden, and folders that are not toolchain caches are missing.
        for command in [
            "echo x > ~/.cargo/bin/tool",
            "echo x > ~/.cargo/bin/new",
            "grep user ~/.cargo/credentials.toml",
            "cat ~/.cache/browser",
            "echo x > ~/new",
        ] {
            let answer = run(&ws, &["bash.backend=namespaces"], "one", command, &more);
            assert_ne!(answer["exit_code"], 0, "{command}: {answer:#}");
        }
        ws.lbx(&["session", "end", "--session", "one"]).success();
        assert!(!ws.path(&state("tmp/one")).exists());
    }
}

#[test]
fn account_without_power_keeps_its_cache_and_gets_no_closed_folder() {
    if !has_backend("namespaces") {
        return;
    }
    let ws = with_caches();
    for command in [
        "echo new > ~/.cargo/registry/new; mkdir -p /tmp/a/b; touch /tmp/a/b/c; chmod 0 /tmp/a",
        "cat ~/.cargo/registry/new",
        "rm ~/.cargo/registry/new",
    ] {
        let arguments = ["bash", "--session", "one", "--set", "bash.backend=namespaces", command];
        let Some(call) = ws.call_unprivileged(&arguments) else { return };
        assert_eq!(call.run().success()["data"]["exit_code"], 0, "{command}");
    }
    // Apart from the command's own one, `rm -rf` of the workspace would fail in it.
    let closed = ws.closed();
    assert!(closed.ends_with("/tmp/one/files/a\n") && closed.lines().count() == 1, "{closed}");
    ws.call_unprivileged(&["session", "end", "--session", "one"]).unwrap().run().success();
    assert_eq!(std::fs::read_dir(ws.path(&state("tmp"))).unwrap().count(), 0);
}

#[test]
fn networked_commands_without_overlay_get_empty_caches() {
    if !has_backend("bubblewrap") {
        return;
    }
    let ws = with_caches();
    let home = ws.outside.join("home");
    run(&ws, &["bash.backend=bubblewrap"], "one", "true", &json!({}));
    let before = everything(&home);
    let write = "cat ~/.cargo/registry/crate; echo new > ~/.cargo/registry/new";
    let offline = run(&ws, &["bash.backend=bubblewrap"], "one", write, &json!({}));
    assert_eq!(
        (&offline["stdout"], &offline["exit_code"]),
        (&json!("the user's\n"), &json!(1)),
        "{offline:#}"
    );
    let settings = ["bash.backend=bubblewrap", "bash.network=example.org"];
    let write = "ls ~/.cargo/registry; echo new > ~/.cargo/registry/new && cat ~/.cargo/bin/tool";
    let answer = run(&ws, &settings, "one", write, &json!({}));
    assert_eq!(answer["stdout"], "the user's\n", "{answer:#}");
    let again = run(&ws, &settings, "one", "cat ~/.cargo/registry/new", &json!({}));
    assert_eq!(again["stdout"], "new\n", "{again:#}");
    assert_eq!(everything(&home), before);
}

#[test]
fn cache_may_be_a_symlink() {
    for backend in backends() {
        let ws = guarded();
        let (home, other) = (ws.outside.join("home"), ws.outside.join("disk"));
        for folder in ["npm", "cargo/registry", "cache"] {
            fs::create_dir_all(other.join(folder)).unwrap();
        }
        fs::write(other.join("cargo/registry/crate"), "the user's\n").unwrap();
        fs::write(other.join("cache/browser"), "SECRET\n").unwrap();
        for (link, target) in [(".npm", "npm"), (".cargo", "cargo"), (".cache", "cache")] {
            std::os::unix::fs::symlink(other.join(target), home.join(link)).unwrap();
        }
        let settings = [&*format!("bash.backend={backend}"), "bash.network=example.org"];
        let command = "echo new > ~/.npm/new && echo new > ~/.cargo/registry/new && echo new > ~/.cache/new; ls ~/.cache";
        let answer = run(&ws, &settings, "one", command, &json!({}));
        assert_eq!((&answer["stdout"], &answer["exit_code"]), (&json!("new\n"), &json!(0)), "{answer:#}");
        assert!(!other.join("npm/new").exists() && !other.join("cache/new").exists(), "{backend}");
    }
}

#[test]
fn concurrent_commands_never_share_a_writable_cache() {
    if !has_backend("namespaces") {
        return;
    }
    let ws = with_caches();
    let command = "echo job > ~/.cargo/registry/new; touch started; while [ ! -e go ]; do sleep 0.02; done; cat ~/.cargo/registry/new";
    let request = json!({ "command": command, "background": true, "session": "one" });
    let setting = "bash.backend=namespaces";
    let job =
        ws.lbx_stdin(&["bash", "--set", setting, "--json", "-"], request.to_string()).ok()["job"].clone();
    while !ws.path("started").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let write = "ls ~/.cargo/registry; echo other > ~/.cargo/registry/new; cat ~/.cargo/registry/new";
    let answer = run(&ws, &[setting], "one", write, &json!({}));
    assert_eq!(answer["stdout"], "crate\nother\n", "{answer:#}");
    ws.write("go", "");
    let look = json!({ "job": job, "timeout_ms": 20_000, "session": "one" });
    assert_eq!(ws.json("bash", &look).ok()["output"], "job\n");
    // The session continues with the files that the job wrote.
    let read = run(&ws, &[setting], "one", "cat ~/.cargo/registry/new", &json!({}));
    assert_eq!(read["stdout"], "job\n", "{read:#}");
}

#[test]
fn bash_caches_setting_selects_the_caches() {
    if !has_backend("namespaces") {
        return;
    }
    let ws = with_caches();
    let write = "for f in ~/.cargo/registry/new ~/.cache/pip/new ~/.npm/new; do echo new > $f && echo $f; done 2>/dev/null | sed 's/.*home.//'; true";
    for (caches, written) in [
        ("none", ""),
        ("cargo", ".cargo/registry/new\n"),
        ("cargo:npm", ".cargo/registry/new\n.npm/new\n"),
        ("pip", ".cache/pip/new\n"),
    ] {
        let settings = ["bash.backend=namespaces", &format!("bash.caches={caches}")];
        let answer = run(&ws, &settings, "one", write, &json!({}));
        assert_eq!(answer["stdout"], written, "{caches}: {answer:#}");
    }
    let error = ws.lbx(&["bash", "--set", "bash.caches=cargos", "true"]).error("invalid_request");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("\"cargos\" is no cache; expected none or some of bun, cargo,"), "{error:#}");
}

#[test]
fn go_test_runs_with_default_settings() {
    if !has_backend("namespaces") {
        return;
    }
    let ws = guarded();
    ws.write("go.mod", "module demo\n\ngo 1.18\n");
    ws.write("demo_test.go", "package demo\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif 1+1 != 2 {\n\t\tt.Fail()\n\t}\n}\n");
    let answer =
        run(&ws, &["bash.backend=namespaces"], "one", "go test ./...", &json!({ "timeout_ms": 300_000 }));
    if answer["exit_code"] == 127 {
        skipped("go is not installed");
        return;
    }
    assert!(answer["stdout"].as_str().unwrap().starts_with("ok  \tdemo\t"), "{answer:#}");
    assert_eq!((&answer["exit_code"], &answer["changed"]), (&json!(0), &json!([])), "{answer:#}");
}
