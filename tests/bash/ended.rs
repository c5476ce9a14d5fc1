//! No process of a command outlives it, however it ends.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::{Call, Workspace, kill};
use crate::support::{all_backends, backends, bash, with};

/// A command that leaves processes in every way: in the background, in a session of their own, with a dead parent,
/// ignoring TERM.
pub const FORKS: &str = "
trap '' TERM
sleep 1000 &
setsid sleep 1000 &
(setsid bash -c 'trap \"\" TERM HUP INT; sleep 1000 & sleep 1000' &)
nohup sleep 1000 > /dev/null 2>&1 &
for i in 1 2 3 4 5; do (sleep 1000 & sleep 1000 &) ; done
";

/// Returns the processes with this mark in their environment.
pub fn marked(mark: &str) -> Vec<String> {
    let needle = format!("LBX_MARK={mark}");
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let marked = entries.filter(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == needle.as_bytes())
    });
    marked.map(|entry| fs::read_to_string(entry.path().join("stat")).unwrap_or_default()).collect()
}

/// Waits until no process has the mark: the kernel may take a moment to end them.
pub fn wait_until_no_process_is_left(mark: &str, why: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !marked(mark).is_empty() {
        assert!(Instant::now() < deadline, "{why}: {:?}", marked(mark));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a mark that no other test uses.
pub fn mark(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

#[test]
fn background_processes_of_a_command_are_killed() {
    for backend in all_backends() {
        let ws = Workspace::with(&[]);
        let mark = mark(&format!("left-{backend}"));
        let request = json!({ "command": format!("{FORKS}\necho done"), "env": { "LBX_MARK": mark } });
        let answer = with(&ws, backend, &request).success()["data"].clone();
        assert!(marked(&mark).is_empty(), "{backend}: {:?}", marked(&mark));
        assert_eq!((&answer["stdout"], &answer["exit_code"]), (&json!("done\n"), &json!(0)), "{answer:#}");
        assert!(answer["left_running"].as_u64() > Some(5), "{backend}: {answer:#}");
    }
}

#[test]
fn timeout_kills_every_process() {
    for backend in all_backends() {
        let ws = Workspace::with(&[]);
        let mark = mark(&format!("time-{backend}"));
        let command = format!("{FORKS}\necho before; sleep 1000");
        let request = json!({ "command": command, "timeout_ms": 300, "env": { "LBX_MARK": mark } });
        let answer = with(&ws, backend, &request).success()["data"].clone();
        assert!(marked(&mark).is_empty(), "{backend}: {:?}", marked(&mark));
        assert_eq!(
            (&answer["timed_out"], &answer["stdout"]),
            (&json!(true), &json!("before\n")),
            "{answer:#}"
        );
    }
    // A process that handles TERM has time to clean up.
    let ws = Workspace::with(&[]);
    let command = "trap 'echo tidied; exit 0' TERM; sleep 1000 & wait";
    let answer = with(&ws, "auto", &json!({ "command": command, "timeout_ms": 300 })).ok();
    assert_eq!((&answer["stdout"], &answer["exit_code"]), (&json!("tidied\n"), &json!(124)));
}

/// Starts a command that forks, and waits until it reports that it did.
fn forking(ws: &Workspace, backend: &str, mark: &str) -> Child {
    let started = format!("started-{mark}");
    let request = json!({
        "command": format!("{FORKS}\ntouch {started}; sleep 1000"),
        "env": { "LBX_MARK": mark },
        "direct": true,
    });
    let setting = format!("bash.backend={backend}");
    let call = ws.call(&["bash", "--set", &setting, "--json", &request.to_string()]).spawn();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !ws.path(&started).exists() {
        assert!(Instant::now() < deadline, "{backend}: the command did not start");
        std::thread::sleep(Duration::from_millis(2));
    }
    call
}

#[test]
fn killing_a_call_kills_all_its_processes() {
    for backend in all_backends() {
        let ws = Workspace::with(&[]);
        // LBX_TEST_RUNS=200 measures it.
        let runs = std::env::var("LBX_TEST_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(10);
        for run in 0..runs {
            let mark = mark(&format!("killed-{backend}-{run}"));
            let mut call = forking(&ws, backend, &mark);
            kill(call.id());
            call.wait().unwrap();
            wait_until_no_process_is_left(&mark, &format!("{backend}, run {run}"));
        }
        // The next call works.
        bash(&ws, backend, "true").success();
    }
}

#[test]
fn cancelled_mcp_call_kills_its_command() {
    for backend in backends() {
        let ws = Workspace::with(&[]);
        let mark = mark(&format!("cancelled-{backend}"));
        let mut server =
            ws.call(&["mcp", "--set", &format!("bash.backend={backend}")]).stdin_never_closes().spawn();
        let mut to = server.stdin.take().unwrap();
        let mut from = BufReader::new(server.stdout.take().unwrap()).lines();
        let mut send = |message: serde_json::Value| writeln!(to, "{message}").unwrap();
        let initialize = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        send(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize }));
        from.next().unwrap().unwrap();
        send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        let arguments = json!({
            "command": format!("{FORKS}\ntouch started; sleep 1000"),
            "env": { "LBX_MARK": mark },
            "direct": true,
        });
        send(
            json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "bash", "arguments": arguments } }),
        );
        while !ws.path("started").exists() {
            std::thread::sleep(Duration::from_millis(2));
        }
        // Another call is answered in the meantime.
        let other = json!({ "name": "bash", "arguments": { "command": "echo meanwhile" } });
        send(json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": other }));
        let answer = from.next().unwrap().unwrap();
        assert!(answer.contains("meanwhile"), "{backend}: {answer}");
        send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } }));
        wait_until_no_process_is_left(&mark, backend);
        drop(to);
        server.wait().unwrap();
    }
}

#[test]
fn commands_cannot_open_the_terminal() {
    let ws = Workspace::with(&[]);
    let answer = bash(&ws, "auto", "echo x > /dev/tty; ps -o sid= -p $$ | tr -d ' '").success();
    assert!(answer["data"]["stderr"].as_str().unwrap().contains("/dev/tty"), "{answer:#}");
}

#[test]
fn caller_that_ignores_sigchld_gets_a_response() {
    for backend in all_backends() {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        let (ignoring, setting) = (["--ignore-signal=CHLD"], format!("bash.backend={backend}"));
        let call = Call::under("env", &ignoring, &ws.root, &ws.outside.join("home"));
        let words = ["bash", "echo two >> a.txt; exit 3", "--set", &setting];
        let answer = call.arguments(&words).run().success();
        assert_eq!(answer["data"]["exit_code"], 3, "{backend}: {answer:#}");
        assert_eq!(answer["data"]["changed"][0]["path"], "a.txt", "{backend}: {answer:#}");
    }
}
