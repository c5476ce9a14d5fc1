//! One `/tmp` per session: the next command finds the files of the last one, and other sessions do not.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::common::{Workspace, state};
use crate::server::Server;
use crate::support::backends;

/// Returns the output of a command of a session.
fn of(ws: &Workspace, backend: &str, session: &str, command: &str) -> Value {
    let setting = format!("bash.backend={backend}");
    let request = json!({ "command": command, "session": session, "direct": backend != "namespaces" });
    let answer = ws.lbx_stdin(&["bash", "--set", &setting, "--json", "-"], request.to_string()).success();
    answer["data"]["stdout"].clone()
}

/// Returns the sessions that have a `/tmp`.
fn sessions(ws: &Workspace) -> Vec<String> {
    let found = fs::read_dir(ws.path(&state("tmp"))).unwrap();
    let mut names: Vec<String> =
        found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn tmp_files_persist_within_a_session() {
    let confining = backends().into_iter().chain(["landlock"]);
    let ws = Workspace::with(&[]);
    for backend in confining.filter(|name| crate::support::all_backends().contains(name)) {
        let place = if backend == "landlock" { "$TMPDIR" } else { "/tmp" };
        of(
            &ws,
            backend,
            "one",
            &format!("echo hello > {place}/note-{backend}; chmod 600 {place}/note-{backend}"),
        );
        assert_eq!(of(&ws, backend, "one", &format!("cat {place}/note-{backend}")), "hello\n", "{backend}");
        // Another session has its own.
        assert_eq!(of(&ws, backend, "two", &format!("cat {place}/note-{backend} || true")), "", "{backend}");
    }
    // A command on a layer has the same `/tmp`, and so does a job.
    let request =
        json!({ "command": "echo $(cat /tmp/note-namespaces); echo new > /tmp/more", "session": "one" });
    assert_eq!(ws.json("bash", &request).ok()["stdout"], "hello\n");
    let job = json!({ "command": "cat /tmp/more /var/tmp/more", "session": "one", "background": true });
    let job = ws.json("bash", &job).ok()["job"].clone();
    let look = json!({ "job": job, "timeout_ms": 20_000, "session": "one" });
    assert_eq!(ws.json("bash", &look).ok()["output"], "new\nnew\n");
    // Nothing in it is reported as a change.
    assert_eq!(ws.json("bash", &json!({ "command": "touch /tmp/x" })).ok()["changed"], json!([]));
}

#[test]
fn session_end_removes_its_tmp() {
    let ws = Workspace::with(&[]);
    of(&ws, "namespaces", "one", "mkdir -p /tmp/a/b && touch /tmp/a/b/c && chmod 0 /tmp/a");
    of(&ws, "namespaces", "two", "touch /tmp/kept");
    assert_eq!(sessions(&ws), ["one", "two"]);
    ws.lbx(&["session", "end", "--session", "one"]).success();
    assert_eq!(sessions(&ws), ["two"]);
    assert_eq!(of(&ws, "namespaces", "one", "ls -d /tmp/a || true"), "");
}

#[test]
fn closing_the_mcp_connection_removes_its_tmp() {
    let ws = Workspace::with(&[]);
    let mut server = Server::start(ws.call(&["mcp"]));
    server.ok("bash", &json!({ "command": "echo hello > /tmp/note" }));
    assert_eq!(server.ok("bash", &json!({ "command": "cat /tmp/note" }))["stdout"], "hello\n");
    assert_eq!(sessions(&ws).len(), 1);
    server.close();
    assert!(sessions(&ws).is_empty(), "{:?}", sessions(&ws));
}

#[test]
fn unused_tmp_expires_after_a_day() {
    let ws = Workspace::with(&[]);
    let mut running = ws
        .call(&[
            "bash",
            "--direct",
            "--session",
            "busy",
            "touch started; while [ ! -e go ]; do sleep 0.02; done; ls /tmp",
        ])
        .spawn();
    of(&ws, "namespaces", "old", "touch /tmp/x");
    of(&ws, "namespaces", "new", "touch /tmp/x");
    while !ws.path("started").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let long_ago = SystemTime::now() - Duration::from_secs(86_500);
    for session in ["old", "busy"] {
        let folder = ws.path(&state(&format!("tmp/{session}")));
        fs::File::open(folder).unwrap().set_modified(long_ago).unwrap();
    }
    of(&ws, "namespaces", "third", "true");
    assert_eq!(sessions(&ws), ["busy", "new", "third"]);
    ws.write("go", "");
    assert!(running.wait().unwrap().success());
}

#[test]
fn command_without_lbx_state_has_an_empty_tmp() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let Some(call) = ws.call_unprivileged(&["bash", "touch /tmp/x && ls /tmp/x"]) else { return };
    ws.chmod(".", 0o555);
    let answer = call.run().success();
    ws.chmod(".", 0o755);
    assert_eq!(answer["data"]["stdout"], "/tmp/x\n", "{answer:#}");
}
