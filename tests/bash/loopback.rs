//! One loopback device per session: the server of a job answers the session's commands, and nobody else.

use std::net::TcpStream;

use serde_json::{Value, json};

use crate::common::Workspace;
use crate::confined::guarded;
use crate::support::has_backend;

/// Port of the servers: it is free for them, whatever runs on the machine.
const PORT: u16 = 8123;

/// Calls `bash` in a session under namespaces; returns the data of the answer.
fn call(ws: &Workspace, session: &str, network: &str, request: &Value) -> Value {
    let mut request = request.clone();
    request["session"] = json!(session);
    let network = format!("bash.network={network}");
    let arguments = ["bash", "--set", "bash.backend=namespaces", "--set", &network, "--json", "-"];
    ws.lbx_stdin(&arguments, request.to_string()).success()["data"].clone()
}

/// Starts a job that serves files, and waits until it does; returns its name.
fn serve(ws: &Workspace, session: &str, network: &str, port: u16) -> String {
    let command = format!("python3 -u -m http.server {port} --bind 127.0.0.1 2>&1");
    let job = call(ws, session, network, &json!({ "command": command, "background": true }));
    let job = job["job"].as_str().unwrap().to_owned();
    for _ in 0..400 {
        let state = call(ws, session, network, &json!({ "job": job }));
        if state["output"].as_str().unwrap().contains("Serving HTTP") {
            return job;
        }
        assert_eq!(state["state"], "running", "{state:#}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the server did not start");
}

/// Returns the response that a command of a session gets from a server at a port.
fn fetch(ws: &Workspace, session: &str, network: &str, port: u16, more: &Value) -> Value {
    let command = format!(
        "python3 -c 'import urllib.request as u; print(u.build_opener(u.ProxyHandler({{}})).open(\"http://127.0.0.1:{port}/a.txt\", timeout=5).read())'"
    );
    let mut request = json!({ "command": command });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call(ws, session, network, &request)["stdout"].clone()
}

#[test]
fn job_server_is_reachable_only_from_its_session() {
    if !has_backend("namespaces") {
        return;
    }
    for network in ["deny", "*.example.org"] {
        let ws = guarded();
        let job = serve(&ws, "one", network, PORT);
        for more in [json!({}), json!({ "direct": true }), json!({ "transaction": true })] {
            assert_eq!(fetch(&ws, "one", network, PORT, &more), "b'one\\n'\n", "{network}: {more}");
        }
        // Another session does not reach it, nor one with another network, nor the host.
        assert_eq!(fetch(&ws, "two", network, PORT, &json!({})), "", "{network}");
        let other = if network == "deny" { "example.net" } else { "deny" };
        assert_eq!(fetch(&ws, "one", other, PORT, &json!({})), "", "{network}");
        assert!(TcpStream::connect(("127.0.0.1", PORT)).is_err());
        // A second job reaches the first, and both servers are reachable.
        let second = serve(&ws, "one", network, PORT + 1);
        assert_eq!(fetch(&ws, "one", network, PORT, &json!({})), "b'one\\n'\n", "{network}");
        call(&ws, "one", network, &json!({ "job": job, "stop": true }));
        assert_eq!(fetch(&ws, "one", network, PORT, &json!({})), "", "{network}");
        assert_eq!(fetch(&ws, "one", network, PORT + 1, &json!({})), "b'one\\n'\n", "{network}");
        call(&ws, "one", network, &json!({ "job": second, "stop": true }));
        assert_eq!(fetch(&ws, "one", network, PORT + 1, &json!({})), "", "{network}");
    }
}

#[test]
fn command_next_to_a_job_is_sandboxed() {
    if !has_backend("namespaces") {
        return;
    }
    let ws = guarded();
    let job = serve(&ws, "one", "deny", PORT);
    for command in [
        "echo x > ../new",
        "cat ~/.ssh/id_ed25519",
        "echo x > .git/x",
        "echo x > /dev/tcp/192.0.2.1/80",
        "pgrep -f http.server",
        "kill -9 -1; pgrep -f http.server",
        "mount -t tmpfs x sub",
        "unshare -Urm true",
    ] {
        let answer = call(&ws, "one", "deny", &json!({ "command": command }));
        assert_ne!(answer["exit_code"], 0, "{command}: {answer:#}");
        assert!(!answer.to_string().contains("SECRET"), "{command}: {answer:#}");
    }
    assert_eq!(fetch(&ws, "one", "deny", PORT, &json!({})), "b'one\\n'\n");
    call(&ws, "one", "deny", &json!({ "job": job, "stop": true }));
}
