//! Concurrent calls, cancelled calls, and calls cut short by the end of the server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, STATE_ID, Workspace};

/// Returns a read that takes minutes.
fn endless() -> Value {
    json!({ "path": "endless.bin", "if_sha256": "0".repeat(64) })
}

/// Creates a workspace with a file for it.
fn with_endless() -> Workspace {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    workspace.write_endless("endless.bin");
    workspace
}

/// Returns the CPU time that a process has used, in kernel ticks.
fn ticks(client: &Client) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", client.process.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn read_returns_while_a_long_call_runs() {
    let workspace = with_endless();
    let mut client = workspace.serve(&[]);
    client.begin_call("read", &endless());
    for _ in 0..20 {
        assert_eq!(client.call("read", &json!({ "path": "a.txt" }))["structuredContent"]["content"], "a\n");
    }
}

#[test]
fn progress_increases_and_needs_a_progress_token() {
    let workspace = with_endless();
    let mut client = workspace.serve(&[]);
    let silent = client.begin_call("read", &endless());
    let params = json!({ "name": "read", "arguments": endless(), "_meta": { "progressToken": "p" } });
    let id = client.begin("tools/call", &params);
    let mut before = 0.0;
    for _ in 0..3 {
        let told = client.next();
        assert_eq!(told["method"], "notifications/progress", "{told}");
        assert_eq!(told["params"]["progressToken"], "p");
        assert_eq!(told["params"]["total"], 137_438_953_472.0);
        let now = told["params"]["progress"].as_f64().unwrap();
        assert!(now > before, "{told}");
        before = now;
    }
    for id in [silent, id] {
        client.tell("notifications/cancelled", &json!({ "requestId": id }));
    }
}

#[test]
fn hundred_concurrent_calls_all_get_responses() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.serve(&[]);
    let ids: Vec<i64> = (0..100).map(|_| client.begin_call("read", &json!({ "path": "a.txt" }))).collect();
    for id in ids {
        assert_eq!(client.answer_to(id)["result"]["structuredContent"]["content"], "a\n");
    }
}

#[test]
fn concurrent_appends_are_all_applied() {
    let workspace = Workspace::with(&[("log.txt", "")]);
    let mut client = workspace.serve(&[]);
    let lines: Vec<String> = (10..30).map(|number| format!("line {number}\n")).collect();
    let calls: Vec<i64> = lines
        .iter()
        .map(|line| client.begin_call("append", &json!({ "path": "log.txt", "content": line })))
        .collect();
    for id in calls {
        let answer = client.answer_to(id);
        assert_ne!(answer["result"]["isError"], true, "{answer}");
    }
    let log = std::fs::read_to_string(workspace.path("log.txt")).unwrap();
    let mut found: Vec<&str> = log.split_inclusive('\n').collect();
    found.sort_unstable();
    assert_eq!(found, lines);
}

#[test]
fn cancelled_call_stops_and_gets_no_response() {
    let workspace = with_endless();
    let mut client = workspace.serve(&[]);
    let id = client.begin_call("read", &endless());
    client.call("read", &json!({ "path": "a.txt" }));
    client.tell("notifications/cancelled", &json!({ "requestId": id, "reason": "enough" }));
    client.is_silent_for(Duration::from_millis(500));
    let before = ticks(&client);
    client.is_silent_for(Duration::from_millis(500));
    assert!(ticks(&client) - before <= 2, "it is still at work");
    client.call("read", &json!({ "path": "a.txt" }));
}

#[test]
fn cancelled_read_does_not_count_as_read() {
    let workspace = Workspace::with(&[("a.txt", &"a line of text\n".repeat(50_000))]);
    let mut client = workspace.serve(&[]);
    for delay in 0..20 {
        let read = json!({ "path": "a.txt", "max_bytes": 0, "limit": 0 });
        let id = client.begin_call("read", &read);
        std::thread::sleep(Duration::from_millis(delay * 4));
        client.tell("notifications/cancelled", &json!({ "requestId": id }));
        let edit =
            json!({ "path": "a.txt", "start_line": 7, "end_line": 7, "new_string": "x", "dry_run": true });
        let edited = client.call("edit", &edit)["isError"] == false;
        let is_answered = client.pending.drain(..).any(|message| message["id"] == id);
        assert_eq!(edited, is_answered, "cancelled after {} ms", delay * 4);
        client.call("session", &json!({ "action": "forget", "paths": ["a.txt"] }));
    }
}

#[test]
fn read_that_the_client_did_not_take_does_not_count_as_read() {
    let workspace = Workspace::with(&[("a.txt", &"a line of text\n".repeat(20_000))]);
    let mut process = workspace.lbx("", &["mcp", "--session", "s"]);
    let mut process = process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let read = json!({ "name": "read", "arguments": { "path": "a.txt", "max_bytes": 0, "limit": 0 } });
    for (id, method, params) in [(1, "initialize", hello), (2, "tools/call", read)] {
        writeln!(stdin, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .unwrap();
    }
    // The response has begun, and the pipe has no room for the rest of it.
    let mut start = [0; 4096];
    stdout.read_exact(&mut start).unwrap();
    drop((stdin, stdout));
    process.wait().unwrap();
    let write = ["write", "a.txt", "--content", "x\n", "--session", "s"];
    let answer = workspace.lbx("", &write).output().unwrap();
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(answer["error"]["kind"], "not_read", "{answer}");
}

#[test]
fn end_of_stdin_cancels_running_calls_and_exits_with_0() {
    let workspace = with_endless();
    let mut client = workspace.serve(&[]);
    let id = client.begin_call("read", &endless());
    client.call("read", &json!({ "path": "a.txt" }));
    client.hang_up();
    let answer = client.answer_to(id);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(client.ends_within(Duration::from_secs(20)).code(), Some(0));
}

#[test]
fn change_that_is_cancelled_while_it_waits_for_the_lock_is_not_made() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.serve(&[]);
    client.ok("append", &json!({ "path": "log.txt", "content": "1\n" }));
    let lock = workspace.lock();
    let id = client.begin_call("delete", &json!({ "path": "a.txt" }));
    client.is_silent_for(Duration::from_millis(300));
    client.tell("notifications/cancelled", &json!({ "requestId": id }));
    client.is_silent_for(Duration::from_millis(300));
    drop(lock);
    client.ok("append", &json!({ "path": "log.txt", "content": "2\n" }));
    workspace.holds("a.txt", "a\n");
    workspace.holds("log.txt", "1\n2\n");
}

#[test]
fn end_of_stdin_drops_calls_that_have_not_begun() {
    let workspace = with_endless();
    let mut client = workspace.serve(&[]);
    let ids: Vec<i64> = (0..20).map(|_| client.begin_call("read", &endless())).collect();
    client.hang_up();
    assert_eq!(client.answer_to(ids[0])["result"]["isError"], true);
    assert_eq!(client.ends_within(Duration::from_secs(20)).code(), Some(0));
}

#[test]
fn server_without_a_handshake_exits_with_0() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.start(&[]);
    client.hang_up();
    assert_eq!(client.ends_within(Duration::from_secs(20)).code(), Some(0));
}

#[test]
fn piped_requests_all_get_responses() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut process =
        workspace.lbx("", &["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "read", "arguments": { "path": "a.txt" } } }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": { "name": "append", "arguments": { "path": "a.txt", "content": "b\n" } } }),
    ];
    let script = lines.map(|line| line.to_string()).join("\n");
    process.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 3);
    workspace.holds("a.txt", "a\nb\n");
}

#[test]
fn closed_stdout_ends_the_server_quietly() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut process = workspace
        .lbx("", &["mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stdout.take());
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let mut stdin = process.stdin.take().unwrap();
    writeln!(stdin, "{ping}").unwrap();
    // Stdin stays open: the closed stdout ends the process.
    let output = process.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn server_that_cannot_start_writes_nothing_to_stdout() {
    let workspace = Workspace::with(&[]);
    let cases: [(&[&str], &str); 5] = [
        (&["--dialect", "none"], "unknown dialect"),
        (&["--results", "xml"], "invalid value 'xml'"),
        (&["more"], "unexpected argument 'more'"),
        (&["--tools", "none"], "none"),
        (&["--session", "../x"], "session"),
    ];
    for (flags, reason) in cases {
        let output = workspace.lbx("", &["mcp"]).args(flags).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.stdout.is_empty() && said.contains(reason), "{flags:?}: {said}");
        assert!(said.starts_with("lbx: invalid_request: "), "{flags:?}: {said}");
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    }
}

/// Starts a window of a client: a process that starts the server and, after it ended, its hook.
fn window(workspace: &Workspace, hook_writes: &str) -> Client {
    let mut command = workspace.lbx("", &[]);
    let server = command.get_program().to_owned().into_string().unwrap();
    let script = format!(
        "{server} mcp --session w@parent; {server} session compact -t --session w@parent >{hook_writes}"
    );
    command = Command::new("timeout");
    command.args(["120", "sh", "-c", &script]).current_dir(workspace.path("")).env("LBX_STATE_ID", STATE_ID);
    Client::of(command).greeted()
}

#[test]
fn each_client_window_has_a_session_that_its_hooks_find() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let (mut one, mut other) = (window(&workspace, "one.hook"), window(&workspace, "other.hook"));
    let edit = json!({ "path": "a.txt", "old_string": "a", "new_string": "b" });
    one.ok("read", &json!({ "path": "a.txt" }));
    other.refused("edit", &edit, "not_read");
    one.ok("edit", &edit);
    let refused = other.refused("undo", &json!({}), "not_found");
    assert!(!refused.to_string().contains("--session") && !refused.to_string().contains("Did you mean"));
    let name = |client: &mut Client| client.ok("session", &json!({}))["session"].as_str().unwrap().to_owned();
    let names = [name(&mut one), name(&mut other)];
    assert_ne!(names[0], names[1]);
    for ((mut client, hook), name) in [(one, "one.hook"), (other, "other.hook")].into_iter().zip(&names) {
        client.hang_up();
        assert!(client.ends_within(Duration::from_secs(20)).success());
        let unread = if hook == "one.hook" { "1 file" } else { "0 files" };
        workspace.holds(hook, &format!("session {name}: compact, {unread} unread now\n"));
        assert!(name.starts_with("w-") && name.len() == 10, "{name}");
    }
    // A restarted client brings its session back by name.
    let mut resumed = workspace.lbx("", &["mcp", "--session", "w@parent"]);
    resumed.env("LBX_SESSION", &names[0]);
    let mut resumed = Client::of(resumed).greeted();
    resumed.ok("undo", &json!({}));
    workspace.holds("a.txt", "a\n");
}

#[test]
fn thousand_concurrent_requests_all_get_responses() {
    let workspace = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "")]);
    let mut client = workspace.serve(&[]);
    let ids: Vec<i64> = (0..1000)
        .map(|number| match number % 4 {
            0 => client.begin_call("append", &json!({ "path": "b.txt", "content": format!("{number}\n") })),
            1 => client.begin_call("grep", &json!({ "pattern": "a" })),
            2 => client.begin_call("ls", &json!({})),
            _ => client.begin_call("read", &json!({ "path": "a.txt" })),
        })
        .collect();
    for id in ids {
        let answer = client.answer_to(id);
        assert!(answer["result"]["isError"] != true, "{answer}");
    }
    assert_eq!(std::fs::read_to_string(workspace.path("b.txt")).unwrap().lines().count(), 250);
    client.hang_up();
    assert_eq!(client.ends_within(Duration::from_secs(20)).code(), Some(0));
}

#[test]
fn client_that_never_reads_leaves_no_process_lock_or_file() {
    for signal in [None, Some("TERM"), Some("INT")] {
        let workspace = Workspace::with(&[("a.txt", &"a line of text\n".repeat(3000)), ("b.txt", "")]);
        let mut process =
            workspace.lbx("", &["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let mut script =
            format!("{}\n", json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello }));
        for id in 1..500 {
            let call = match id % 2 {
                1 => json!({ "name": "append", "arguments": { "path": "b.txt", "content": "b\n" } }),
                _ => json!({ "name": "read", "arguments": { "path": "a.txt", "max_bytes": 0, "limit": 0 } }),
            };
            let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call });
            script.extend([call.to_string(), "\n".to_owned()]);
        }
        let mut stdin = process.stdin.take().unwrap();
        // The end of stdin follows the requests, which the server does not finish reading.
        let writing = std::thread::spawn(move || {
            let written = stdin.write_all(script.as_bytes());
            // A signal ends the server while its stdin is open.
            if signal.is_some() { written.map(|()| Some(stdin)) } else { written.map(|()| None) }
        });
        // Once the pipe to the client is full, no more appends are made.
        let mut appended = 0;
        loop {
            std::thread::sleep(Duration::from_millis(300));
            let now = std::fs::metadata(workspace.path("b.txt")).unwrap().len();
            if now > 0 && now == appended {
                break;
            }
            appended = now;
        }
        if let Some(signal) = signal {
            let id = process.id().to_string();
            assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        }
        let ended = std::time::Instant::now();
        let status = loop {
            if let Some(status) = process.try_wait().unwrap() {
                break status;
            }
            assert!(ended.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(50));
        };
        assert_eq!(status.code(), Some(0), "{signal:?}");
        drop(writing.join().unwrap());
        let staged = workspace.path(".lbx").join(STATE_ID).join("staging");
        let left = std::fs::read_dir(staged).map_or(0, std::iter::Iterator::count);
        assert_eq!(left, 0, "{signal:?}");
        let next = workspace.lbx("", &["append", "b.txt", "--content", "last\n"]).output().unwrap();
        assert!(next.status.success(), "{signal:?}");
    }
}

#[test]
fn client_that_never_reads_does_not_fill_memory() {
    /// Largest peak memory of the server, in kB: a few times the size of the messages that it holds.
    const MEMORY_MAX: u64 = 256 << 10;
    let workspace = Workspace::with(&[]);
    let mut process =
        workspace.lbx("", &["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let written = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = written.clone();
    std::thread::spawn(move || {
        let pings = format!("{}\n", json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).repeat(1000);
        while stdin.write_all(pings.as_bytes()).is_ok() {
            count.fetch_add(pings.len(), std::sync::atomic::Ordering::Relaxed);
        }
    });
    let mut before = 0;
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = written.load(std::sync::atomic::Ordering::Relaxed);
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let most: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(most < MEMORY_MAX, "{most} kB for {now} bytes of requests");
        if now > 0 && now == before {
            break;
        }
        before = now;
    }
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn server_works_over_sockets() {
    let workspace = Workspace::with(&[]);
    let (here, there) = UnixStream::pair().unwrap();
    let stdout = OwnedFd::from(there.try_clone().unwrap());
    let mut process = workspace.lbx("", &["mcp"]).stdin(OwnedFd::from(there)).stdout(stdout).spawn().unwrap();
    let mut answers = BufReader::new(here.try_clone().unwrap()).lines();
    for id in 1..4 {
        let ping = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
        writeln!(&here, "{ping}").unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["id"], id);
    }
    here.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(0));
}
