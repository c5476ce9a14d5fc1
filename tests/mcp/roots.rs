//! Roots of the client: each call works in the folder that was right when it was sent.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, Workspace};
use crate::offered::{greet_with, respond};

/// Starts a server for a client with roots.
fn serve(ws: &Workspace) -> Client {
    let mut client = ws.start(&[]);
    greet_with(&mut client, &json!({ "roots": { "listChanged": true } }));
    client
}

/// Returns the list of roots with this workspace.
fn root(ws: &Workspace) -> Value {
    json!({ "roots": [{ "uri": format!("file://{}", ws.path("").display()) }] })
}

/// Begins a call that writes a new file.
fn write(client: &mut Client, name: &str) -> i64 {
    client.begin_call("write", &json!({ "path": name, "content": "x\n" }))
}

/// Returns the message of a result that is an error.
fn error_of(answer: &Value) -> String {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn call_that_ends_before_the_client_names_its_roots_is_not_made() {
    let (own, named) = (Workspace::with(&[]), Workspace::with(&[]));
    let mut client = serve(&own);
    let id = write(&mut client, "a.txt");
    let asked = client.wait_for(|message| message["method"] == "roots/list");
    client.tell("notifications/cancelled", &json!({ "requestId": id }));
    client.is_silent_for(Duration::from_millis(300));
    // The question stays open, and its answer serves the next call.
    let id = write(&mut client, "b.txt");
    client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": root(&named) }).to_string());
    client.answer_to(id);
    named.holds("b.txt", "x\n");
    // Nor is one that the end of stdin cuts off.
    let mut client = serve(&own);
    let id = write(&mut client, "a.txt");
    client.wait_for(|message| message["method"] == "roots/list");
    client.hang_up();
    assert!(error_of(&client.answer_to(id)).contains("the call was cancelled"));
    assert!(client.ends_within(Duration::from_secs(20)).success());
    assert!(!own.path("a.txt").exists() && !named.path("a.txt").exists());
}

#[test]
fn roots_and_pings_are_read_while_any_number_of_calls_wait() {
    let (own, named) = (Workspace::with(&[]), Workspace::with(&[]));
    let mut client = serve(&own);
    let ids: Vec<i64> = (0..200).map(|number| write(&mut client, &format!("n{number}.txt"))).collect();
    client.ask("ping", &json!({}));
    client.tell("notifications/cancelled", &json!({ "requestId": ids[199] }));
    respond(&mut client, "roots/list", &root(&named));
    for id in &ids[..199] {
        assert_ne!(client.answer_to(*id)["result"]["isError"], true);
    }
    assert!(named.path("n198.txt").exists() && !named.path("n199.txt").exists());
    assert!(!own.path("n0.txt").exists());
}

#[test]
fn calls_beyond_the_bound_of_the_queue_are_refused() {
    let ws = Workspace::with(&[]);
    let mut client = serve(&ws);
    let content = "x".repeat(8 << 20);
    let ids: Vec<i64> = (0..12)
        .map(|number| {
            client.begin_call("write", &json!({ "path": format!("n{number}.txt"), "content": content }))
        })
        .collect();
    let refused = client.answer_to(ids[11]);
    let told = refused["error"]["message"].as_str().unwrap();
    assert!(told.contains("too many calls wait for earlier ones; this one was not made"), "{refused}");
    respond(&mut client, "roots/list", &root(&ws));
    assert_ne!(client.answer_to(ids[0])["result"]["isError"], true);
    assert_ne!(client.answer_to(ids[6])["result"]["isError"], true);
    assert!(ws.path("n6.txt").exists() && !ws.path("n11.txt").exists());
}

#[test]
fn roots_named_too_late_count_for_the_next_call() {
    let (own, named) = (Workspace::with(&[("a.txt", "own\n")]), Workspace::with(&[("a.txt", "named\n")]));
    let mut client = serve(&own);
    let read = json!({ "path": "a.txt" });
    let first = client.call("read", &read)["structuredContent"].clone();
    assert_eq!(first["content"], "own\n");
    let told = first["warnings"][0].as_str().unwrap();
    assert!(told.contains("the client did not name its roots within 5 s"), "{told}");
    respond(&mut client, "roots/list", &root(&named));
    client.ask("ping", &json!({}));
    let next = client.call("read", &read)["structuredContent"].clone();
    assert_eq!((&next["content"], &next["warnings"]), (&json!("named\n"), &Value::Null));
}

#[test]
fn call_sent_before_the_roots_changed_works_in_the_old_root() {
    let (own, old, new) = (Workspace::with(&[]), Workspace::with(&[]), Workspace::with(&[]));
    let mut client = serve(&own);
    let id = write(&mut client, "first.txt");
    respond(&mut client, "roots/list", &root(&old));
    client.answer_to(id);
    // The second call waits in the queue for the first one.
    let lock = old.lock();
    let ids = [write(&mut client, "a.txt"), write(&mut client, "b.txt")];
    client.tell("notifications/roots/list_changed", &json!({}));
    let last = write(&mut client, "c.txt");
    client.ask("ping", &json!({}));
    drop(lock);
    for id in ids {
        assert_ne!(client.answer_to(id)["result"]["isError"], true);
    }
    respond(&mut client, "roots/list", &root(&new));
    client.answer_to(last);
    assert!(old.path("a.txt").exists() && old.path("b.txt").exists());
    assert!(new.path("c.txt").exists() && !new.path("b.txt").exists());
}

#[test]
fn end_of_the_connection_ends_its_jobs_in_every_root() {
    let (own, old, new) = (Workspace::with(&[]), Workspace::with(&[]), Workspace::with(&[]));
    let mut client = serve(&own);
    let mark = format!("jobs-of-{}", old.path("").display());
    let is_running = || {
        let has_mark = |environment: Vec<u8>| String::from_utf8_lossy(&environment).contains(&mark);
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes.filter_map(|process| std::fs::read(process.path().join("environ")).ok()).any(has_mark)
    };
    let job =
        json!({ "command": "touch begun; sleep 1000", "background": true, "env": { "LBX_MARK": mark } });
    let id = client.begin_call("bash", &job);
    respond(&mut client, "roots/list", &root(&old));
    assert_ne!(client.answer_to(id)["result"]["isError"], true);
    let begun = old.path("begun");
    for _ in 0..1000 {
        if begun.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(is_running());
    client.tell("notifications/roots/list_changed", &json!({}));
    let id = write(&mut client, "a.txt");
    respond(&mut client, "roots/list", &root(&new));
    client.answer_to(id);
    client.hang_up();
    assert!(client.ends_within(Duration::from_secs(20)).success());
    assert!(!is_running());
}

#[test]
fn root_is_decoded_and_roots_elsewhere_are_passed_over() {
    let (own, named) = (Workspace::with(&[]), Workspace::with(&[]));
    let folder = named.path("a b/100%+5x").join(OsStr::from_bytes(b"\xff"));
    std::fs::create_dir_all(&folder).unwrap();
    let mut client = serve(&own);
    let id = write(&mut client, "a.txt");
    let root = named.path("").display().to_string();
    let decoded = format!("FILE://localhost{}/a%20b/100%+5x/%FF", root.trim_end_matches('/'));
    let roots = ["http://a", "file://host/tmp", &decoded].map(|uri| json!({ "uri": uri }));
    respond(&mut client, "roots/list", &json!({ "roots": roots }));
    let answer = client.answer_to(id);
    assert!(folder.join("a.txt").exists(), "{answer}");
}
