//! Server features other than tools, and requests of the server to its client.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, Workspace};

/// Completes the handshake as a client with these capabilities.
pub fn greet_with(client: &mut Client, capabilities: &Value) {
    let info = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info });
    client.ask("initialize", &hello);
    client.tell("notifications/initialized", &json!({}));
}

/// Answers a request of the server.
#[track_caller]
pub fn respond(client: &mut Client, method: &str, result: &Value) -> Value {
    let asked = client.wait_for(|message| message["method"] == method);
    client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }).to_string());
    asked
}

/// Creates a workspace with an edit, and its server.
fn edited() -> (Workspace, Client) {
    let workspace = Workspace::with(&[("a.txt", "one\n"), ("dir/b c.txt", "b\n"), ("dir/bin", "\0\u{1}")]);
    let mut client = workspace.serve(&[]);
    client.ok("read", &json!({ "path": "a.txt" }));
    client.ok("edit", &json!({ "path": "a.txt", "old_string": "one", "new_string": "two" }));
    (workspace, client)
}

#[test]
fn resources_are_listed_and_read() {
    let (workspace, mut client) = edited();
    let listed = client.ask("resources/list", &json!({}))["result"]["resources"].clone();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
    assert_eq!(names, ["lbx://session", "lbx://log"]);
    let templates = client.ask("resources/templates/list", &json!({}))["result"]["resourceTemplates"].clone();
    assert_eq!(templates[0]["uriTemplate"], "lbx://file/{path}");
    assert_eq!(templates[1]["uriTemplate"], "lbx://snapshot/{id}/{path}");
    let mut read = |uri: &str| client.ask("resources/read", &json!({ "uri": uri }));
    let log = read("lbx://log")["result"]["contents"][0]["text"].as_str().unwrap().to_owned();
    let log: Value = serde_json::from_str(&log).unwrap();
    let id = log["snapshots"][0]["id"].as_str().unwrap();
    let session = read("lbx://session")["result"]["contents"][0]["text"].as_str().unwrap().to_owned();
    assert!(session.contains("a.txt"), "{session}");
    for uri in ["lbx://file/dir/b%20c.txt", "lbx://file/dir%2Fb%20c.txt"] {
        assert_eq!(read(uri)["result"]["contents"][0]["text"], "b\n", "{uri}");
    }
    let absolute = format!("file://{}", workspace.path("a.txt").display());
    assert_eq!(read(&absolute)["result"]["contents"][0]["text"], "two\n");
    assert_eq!(read("lbx://file/dir/bin")["result"]["contents"][0]["blob"], "AAE=");
    assert_eq!(read(&format!("lbx://snapshot/{id}/a.txt"))["result"]["contents"][0]["text"], "two\n");
    assert_eq!(read(&format!("lbx://snapshot/{id}~1/a.txt"))["result"]["contents"][0]["text"], "one\n");
    for uri in [
        "lbx://file/none",
        "lbx://nothing",
        &format!("lbx://snapshot/{id}/none"),
        "lbx://snapshot/0000/a.txt",
    ] {
        assert_eq!(read(uri)["error"]["code"], -32002, "{uri}");
    }
    assert_eq!(read("file:///etc/passwd")["error"]["data"]["kind"], "outside_workspace");
}

#[test]
fn resource_that_is_not_text_is_a_blob_of_its_bytes() {
    let workspace = Workspace::with(&[("bom.txt", "\u{feff}one\n")]);
    let mut client = workspace.serve(&[]);
    for (path, bytes, base64) in [
        ("latin-1.txt", &b"caf\xe9\n"[..], Some("Y2Fm6Qo=")),
        ("odd.txt", b"\xff\xfea\0b", Some("//5hAGI=")),
        ("utf-32.txt", b"\xff\xfe\0\0a\0\0\0", Some("//4AAGEAAAA=")),
        ("utf-16.txt", b"\xff\xfea\0\n\0", None),
    ] {
        std::fs::write(workspace.path(path), bytes).unwrap();
        let uri = format!("lbx://file/{path}");
        let read = client.ask("resources/read", &json!({ "uri": uri }))["result"]["contents"][0].clone();
        assert_eq!(read["blob"].as_str(), base64, "{read}");
        assert_eq!(read["text"].as_str(), if base64.is_none() { Some("a\n") } else { None }, "{read}");
    }
    let bom = client.ask("resources/read", &json!({ "uri": "lbx://file/bom.txt" }));
    assert_eq!(bom["result"]["contents"][0]["text"], "one\n");
    // No sign belongs to an escape.
    std::fs::write(workspace.path("b %+5x.txt"), "odd\n").unwrap();
    let odd = client.ask("resources/read", &json!({ "uri": "lbx://file/b %+5x.txt" }));
    assert_eq!(odd["result"]["contents"][0]["text"], "odd\n", "{odd:#}");
}

#[test]
fn completion_offers_paths_and_snapshots() {
    let (_workspace, mut client) = edited();
    let mut complete = |template: &str, name: &str, value: &str| {
        let params = json!({ "ref": { "type": "ref/resource", "uri": template }, "argument": { "name": name, "value": value } });
        client.ask("completion/complete", &params)["result"]["completion"].clone()
    };
    let file = "lbx://file/{path}";
    assert_eq!(complete(file, "path", "")["values"], json!(["a.txt", "dir/"]));
    assert_eq!(complete(file, "path", "dir/b")["values"], json!(["dir/b c.txt", "dir/bin"]));
    assert_eq!(complete(file, "path", "none/")["values"], json!([]));
    let ids = complete("lbx://snapshot/{id}/{path}", "id", "")["values"].clone();
    assert!(ids.as_array().unwrap().len() >= 2, "{ids}");
}

#[test]
fn prompts_contain_the_changes_and_the_session_state() {
    let (_workspace, mut client) = edited();
    let listed = client.ask("prompts/list", &json!({}))["result"]["prompts"].clone();
    assert_eq!((&listed[0]["name"], &listed[1]["name"]), (&json!("review"), &json!("resume")));
    let mut text = |name: &str| {
        let prompt = client.ask("prompts/get", &json!({ "name": name }));
        prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap_or_default().to_owned()
    };
    assert!(text("review").contains("-one\n+two\n"));
    assert!(text("resume").contains("a.txt"));
    assert_eq!(client.ask("prompts/get", &json!({ "name": "none" }))["error"]["code"], -32602);
}

#[test]
fn review_prompt_names_the_lines_that_it_leaves_out() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    let long: String = (0..3000).map(|line| format!("line {line} of many\n")).collect();
    client.ok("write", &json!({ "path": "fence.md", "content": "````rust\n````\n" }));
    client.ok("write", &json!({ "path": "long.txt", "content": long }));
    let prompt = client.ask("prompts/get", &json!({ "name": "review" }));
    let text = prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    let (_, fenced) = text.split_once("\n`````diff\n").unwrap();
    let (diff, note) = fenced.split_once("\n`````\n").unwrap();
    let shown = diff.lines().count();
    let said = format!("only the first {shown} lines of the diff are here: the tool `diff` shows the rest");
    assert!(note.contains(&said), "{note}");
    let rest = client.ok("diff", &json!({ "offset": shown }));
    let (_, last) = diff.rsplit_once("+line ").unwrap();
    let next: usize = last.split(' ').next().unwrap().parse::<usize>().unwrap() + 1;
    assert!(rest["diff"].as_str().unwrap().starts_with(&format!("+line {next} ")), "{rest}");
}

#[test]
fn prompt_argument_that_does_not_fit_is_an_error() {
    let (_workspace, mut client) = edited();
    for (name, arguments, says) in [
        ("review", json!({ "from": 7 }), "`arguments`, a JSON object of texts"),
        ("review", json!({ "form": "x" }), "the prompt review has no argument \"form\""),
        ("resume", json!({ "from": "x" }), "the prompt resume has no argument \"from\""),
        ("review", json!({ "from": "none" }), "none"),
    ] {
        let error =
            client.ask("prompts/get", &json!({ "name": name, "arguments": arguments }))["error"].clone();
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
        assert!(error["data"].get("uri").is_none(), "{error}");
    }
    let log = client.ok("log", &json!({}));
    let from = json!({ "from": log["snapshots"][0]["id"] });
    let whole = client.ask("prompts/get", &json!({ "name": "review", "arguments": from }));
    assert!(whole.get("result").is_some(), "{whole}");
}

#[test]
fn client_root_is_the_default_workspace() {
    let (started, root) = (Workspace::with(&[("a.txt", "here\n")]), Workspace::with(&[("a.txt", "there\n")]));
    let other = Workspace::with(&[("a.txt", "elsewhere\n")]);
    let roots = |workspace: &Workspace| {
        let folder = workspace.path("");
        json!({ "roots": [{ "uri": "http://nowhere" }, { "uri": format!("file://{}", folder.display()) }] })
    };
    let mut client = started.start(&[]);
    greet_with(&mut client, &json!({ "roots": { "listChanged": true } }));
    let id = client.begin_call("read", &json!({ "path": "a.txt" }));
    respond(&mut client, "roots/list", &roots(&root));
    assert_eq!(client.answer_to(id)["result"]["structuredContent"]["content"], "there\n");
    client.tell("notifications/roots/list_changed", &json!({}));
    let id = client.begin_call("read", &json!({ "path": "a.txt" }));
    respond(&mut client, "roots/list", &roots(&other));
    assert_eq!(client.answer_to(id)["result"]["structuredContent"]["content"], "elsewhere\n");
    // A workspace given on the command line stays.
    let named = started.path("").display().to_string();
    let mut client = started.start(&["--workspace", &named]);
    greet_with(&mut client, &json!({ "roots": {} }));
    assert_eq!(client.call("read", &json!({ "path": "a.txt" }))["structuredContent"]["content"], "here\n");
}

#[test]
fn unusable_client_root_is_a_warning() {
    let workspace = Workspace::with(&[("a.txt", "here\n")]);
    let warnings = |answer: &Value| answer["result"]["structuredContent"]["warnings"].clone();
    let read = |client: &mut Client| client.begin_call("read", &json!({ "path": "a.txt" }));
    for root in ["http://nowhere", "file:///none/such"] {
        let mut client = workspace.start(&[]);
        greet_with(&mut client, &json!({ "roots": { "listChanged": true } }));
        let id = read(&mut client);
        respond(&mut client, "roots/list", &json!({ "roots": [{ "uri": root }] }));
        let answer = client.answer_to(id);
        assert_eq!(answer["result"]["structuredContent"]["content"], "here\n");
        let told = warnings(&answer)[0].as_str().unwrap().to_owned();
        let own = workspace.path("").canonicalize().unwrap().display().to_string();
        assert!(
            told.starts_with(&format!("the client's root {root} is not a folder on this machine")),
            "{told}"
        );
        assert!(told.contains(&own), "{told}");
        // One request is enough, until the client has other roots.
        let id = read(&mut client);
        assert_eq!(warnings(&client.answer_to(id)), Value::Null);
        client.tell("notifications/roots/list_changed", &json!({}));
        let id = client.begin_call("read", &json!({ "path": "none" }));
        respond(&mut client, "roots/list", &json!({ "roots": [{ "uri": root }] }));
        let refused = client.answer_to(id)["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(refused.contains("not a folder on this machine"), "{refused}");
    }
}

#[test]
fn failed_roots_request_is_a_warning() {
    let workspace = Workspace::with(&[("a.txt", "here\n")]);
    let mut client = workspace.start(&["--dialect", "claude"]);
    greet_with(&mut client, &json!({ "roots": {} }));
    let path = workspace.path("a.txt").display().to_string();
    let id = client.begin_call("Read", &json!({ "file_path": path }));
    let asked = client.wait_for(|message| message["method"] == "roots/list");
    let error = json!({ "code": -32603, "message": "no roots today" });
    client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error }).to_string());
    let answer = client.answer_to(id)["result"]["content"].clone();
    let told = answer.as_array().unwrap().last().unwrap()["text"].as_str().unwrap().to_owned();
    assert!(
        told.contains("the client did not name its roots (") && told.contains("no roots today"),
        "{told}"
    );
    // A client without roots gets no warning.
    let mut client = workspace.start(&[]);
    greet_with(&mut client, &json!({ "roots": {} }));
    let id = client.begin_call("read", &json!({ "path": "a.txt" }));
    respond(&mut client, "roots/list", &json!({ "roots": [] }));
    assert_eq!(client.answer_to(id)["result"]["structuredContent"]["warnings"], Value::Null);
}

#[test]
fn calls_are_logged_after_the_client_sets_a_level() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.serve(&[]);
    client.ok("read", &json!({ "path": "a.txt" }));
    client.ask("logging/setLevel", &json!({ "level": "warning" }));
    client.ok("read", &json!({ "path": "a.txt" }));
    client.refused("read", &json!({ "path": "none" }), "not_found");
    let told = client.wait_for(|message| message["method"] == "notifications/message");
    assert_eq!(told["params"]["level"], "warning");
    assert_eq!(told["params"]["data"], json!({ "tool": "read", "ok": false }));
    client.ask("logging/setLevel", &json!({ "level": "debug" }));
    client.ok("ls", &json!({}));
    let told = client.wait_for(|message| message["params"]["data"]["ok"] == true);
    assert_eq!(told["params"]["level"], "debug");
}

#[test]
fn declined_change_is_not_applied() {
    let workspace = Workspace::with(&[("a.txt", "one\n")]);
    let mut client = workspace.start(&["--confirm"]);
    greet_with(&mut client, &json!({ "elicitation": {} }));
    client.call("read", &json!({ "path": "a.txt" }));
    let edit = json!({ "path": "a.txt", "old_string": "one", "new_string": "two" });
    for (action, text, is_error) in
        [("decline", "one\n", true), ("cancel", "one\n", true), ("accept", "two\n", false)]
    {
        let id = client.begin_call("edit", &edit);
        let asked = respond(&mut client, "elicitation/create", &json!({ "action": action }));
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(message.contains("-one") && message.contains("+two"), "{message}");
        let result = client.answer_to(id)["result"].clone();
        assert_eq!(result["isError"] == true, is_error, "{result}");
        if is_error {
            assert!(result["content"][0]["text"].as_str().unwrap().contains("command_denied"), "{result}");
        }
        workspace.holds("a.txt", text);
    }
    // A call that would fail anyway fails without a question, and a dry run needs none.
    client.refused("edit", &json!({ "path": "a.txt", "old_string": "none", "new_string": "x" }), "no_match");
    client.call("write", &json!({ "path": "b.txt", "content": "b\n", "dry_run": true }));
    let id = client.begin_call("bash", &json!({ "command": "echo x > made" }));
    let asked = respond(&mut client, "elicitation/create", &json!({ "action": "decline" }));
    assert!(asked["params"]["message"].as_str().unwrap().contains("echo x > made"));
    assert_eq!(client.answer_to(id)["result"]["isError"], true);
    assert!(!workspace.path("made").exists());
}

#[test]
fn confirm_denies_changes_if_the_client_cannot_ask() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&["--confirm"]);
    client.refused("write", &json!({ "path": "a.txt", "content": "a\n" }), "command_denied");
    assert!(!workspace.path("a.txt").exists());
    let mut client = workspace.serve(&["--confirm", "--dialect", "claude"]);
    let refused = client.call("Write", &json!({ "file_path": "a.txt", "content": "a\n" }));
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(!workspace.path("a.txt").exists());
}

#[test]
fn progress_messages_contain_lines_of_the_command() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    let arguments = json!({ "command": "for i in 1 2 3; do echo line $i; sleep 0.4; done" });
    let params = json!({ "name": "bash", "arguments": arguments, "_meta": { "progressToken": 7 } });
    let id = client.begin("tools/call", &params);
    let told = client.next();
    assert_eq!(told["method"], "notifications/progress", "{told}");
    assert!(told["params"]["message"].as_str().unwrap().starts_with("line "), "{told}");
    assert_eq!(client.answer_to(id)["result"]["isError"], false);
}

#[test]
fn cancelled_mcp_command_leaves_no_process() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    // No other run of this test sleeps so long.
    let sleep = format!("sleep 97.{}", std::process::id());
    let command = format!("echo begun > begun; {sleep}; echo late > late");
    let id = client.begin_call("bash", &json!({ "command": command, "direct": true }));
    while !workspace.path("begun").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    client.tell("notifications/cancelled", &json!({ "requestId": id }));
    let asleep = || {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
        lines.any(|line| line.starts_with(sleep.replace(' ', "\0").as_bytes()))
    };
    let mut tries = 0;
    while asleep() && tries < 500 {
        std::thread::sleep(Duration::from_millis(20));
        tries += 1;
    }
    assert!(!asleep());
    client.ok("ls", &json!({}));
    assert!(!workspace.path("late").exists());
}

#[test]
fn cancelled_search_stops_reading() {
    let workspace = Workspace::with(&[]);
    // They have no match, and reading them takes minutes.
    let large = workspace.path("large");
    std::fs::write(&large, "a line of no use\n".repeat(4 << 20)).unwrap();
    for number in 0..8000 {
        std::fs::hard_link(&large, workspace.path(&format!("large-{number}"))).unwrap();
    }
    let mut client = workspace.serve(&[]);
    let stat = format!("/proc/{}/stat", client.process.id());
    let ticks = || -> u64 {
        let stat = std::fs::read_to_string(&stat).unwrap();
        let fields = stat.rsplit(')').next().unwrap().split_whitespace();
        fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    };
    let before = ticks();
    let id = client.begin_call("grep", &json!({ "pattern": "ne+dle" }));
    while ticks() < before + 20 {
        std::thread::sleep(Duration::from_millis(20));
    }
    client.tell("notifications/cancelled", &json!({ "requestId": id }));
    let mut last = ticks();
    for _ in 0..60 {
        std::thread::sleep(Duration::from_millis(500));
        let now = ticks();
        if now == last {
            client.ok("ls", &json!({ "limit": 1 }));
            return;
        }
        last = now;
    }
    panic!("the search goes on after its cancellation");
}

#[test]
fn signal_ends_the_server_and_its_commands() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let workspace = Workspace::with(&[]);
        let mut client = workspace.serve(&[]);
        client.begin_call(
            "bash",
            &json!({ "command": "echo begun > begun; sleep 60; echo late > late", "direct": true }),
        );
        while !workspace.path("begun").exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let process = rustix::process::Pid::from_child(&client.process);
        rustix::process::kill_process(process, signal).unwrap();
        assert_eq!(client.ends_within(Duration::from_secs(20)).code(), Some(0), "{signal:?}");
        assert!(!workspace.path("late").exists());
    }
}

#[test]
fn snapshot_records_the_client_name() {
    let workspace = Workspace::with(&[]);
    let named = |name: &str, path: &str| {
        let mut client = workspace.start(&[]);
        let info = json!({ "name": name, "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        client.ask("initialize", &hello);
        client.tell("notifications/initialized", &json!({}));
        client.ok("write", &json!({ "path": path, "content": "x\n", "session": "s" }));
        let log = workspace.lbx("", &["log", "--limit", "1"]).output().unwrap();
        let log: Value = serde_json::from_slice(&log.stdout).unwrap();
        log["data"]["snapshots"][0]["harness"].clone()
    };
    assert_eq!(named("my-harness/2.0", "a.txt"), "my-harness/2.0");
    // Characters that would end the author's name, or reverse the direction of a line, are removed from a name.
    assert_eq!(named("  Evil\n(x) <a@b>\u{202e} ", "b.txt"), "Evil x a@b");
    assert_eq!(named(&"n".repeat(500), "c.txt"), "n".repeat(60));
    assert_eq!(named("", "d.txt"), Value::Null);
}
