//! The backends that work here, and calls under them.

use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::common::{Answer, Workspace, skipped};

/// Backends that confine.
const CONFINING: [&str; 2] = ["namespaces", "bubblewrap"];

/// Returns the backends that confine without a gap and work here; without any, reports that the test is skipped.
pub fn backends() -> Vec<&'static str> {
    let works: Vec<&str> = all_backends().iter().copied().filter(|name| CONFINING.contains(name)).collect();
    if works.is_empty() {
        skipped("no backend confines commands here");
    }
    works
}

/// Returns the first backend that confines without a gap; else reports that the test is skipped.
pub fn first_backend() -> Option<&'static str> {
    backends().first().copied()
}

/// Returns true if a backend works here; else reports that the test is skipped.
pub fn has_backend(name: &str) -> bool {
    let works = all_backends().contains(&name);
    if !works {
        skipped(format!("the backend {name} does not work here"));
    }
    works
}

/// Returns all backends that work here, including `none`.
pub fn all_backends() -> &'static [&'static str] {
    static WORKING: OnceLock<Vec<&'static str>> = OnceLock::new();
    WORKING.get_or_init(|| {
        let ws = Workspace::with(&[]);
        let all = ws.lbx(&["bash", "--backends"]).ok();
        let works = |name: &&str| {
            let found = all["backends"].as_array().unwrap().iter().find(|it| it["name"] == **name).unwrap();
            if found["works"] != true {
                skipped(format!("{name}: {}", found["reason"]));
            }
            found["works"] == true
        };
        CONFINING.into_iter().chain(["landlock", "none"]).filter(works).collect()
    })
}

/// Runs a command under a backend.
pub fn bash(ws: &Workspace, backend: &str, command: &str) -> Answer {
    with(ws, backend, &json!({ "command": command }))
}

/// Runs a command that changes the files themselves.
pub fn direct(ws: &Workspace, backend: &str, command: &str) -> Answer {
    with(ws, backend, &json!({ "command": command, "direct": true }))
}

/// Sends a request under a backend.
pub fn with(ws: &Workspace, backend: &str, request: &Value) -> Answer {
    let setting = format!("bash.backend={backend}");
    ws.lbx_stdin(&["bash", "--set", &setting, "--json", "-"], request.to_string())
}

/// Returns the data of a command that changes nothing.
pub fn output(ws: &Workspace, backend: &str, command: &str) -> Value {
    let answer = bash(ws, backend, command).ok();
    assert_eq!(answer["sandbox"], backend);
    answer
}
