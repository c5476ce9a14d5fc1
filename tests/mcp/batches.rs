//! JSON-RPC batches, which revision 2025-03-26 requires servers to accept.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, Workspace};

/// Starts a server and negotiates a revision.
fn serve(ws: &Workspace, revision: &str) -> Client {
    let mut client = ws.start(&[]);
    client.greet(revision);
    client
}

/// Returns a request.
fn request(id: impl Into<Value>, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

/// Returns a call of a tool.
fn call(id: impl Into<Value>, tool: &str, arguments: &Value) -> Value {
    request(id, "tools/call", &json!({ "name": tool, "arguments": arguments }))
}

/// Returns the answers to a batch, by id as text.
#[track_caller]
fn answers(client: &mut Client, batch: &Value) -> Vec<Value> {
    client.send(batch.to_string());
    let answer = client.next();
    let mut answers = answer.as_array().unwrap_or_else(|| panic!("no list: {answer}")).clone();
    answers.sort_by_key(|answer| answer["id"].to_string());
    answers
}

#[test]
fn batch_response_lists_one_response_for_each_request() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for revision in ["2025-03-26", "2024-11-05"] {
        ws.write("a.txt", "one\n");
        let mut client = serve(&ws, revision);
        let edit = json!({ "path": "a.txt", "old_string": "one", "new_string": "two" });
        let batch = json!([
            call("a", "read", &json!({ "path": "a.txt" })),
            call("b", "edit", &edit),
            request("c", "ping", &json!({})),
            { "jsonrpc": "2.0", "method": "notifications/nothing" },
            7,
            { "jsonrpc": "2.0", "id": "d", "method": "no/method" },
            request("c", "ping", &json!({})),
        ]);
        let answers = answers(&mut client, &batch);
        let codes: Vec<(&Value, &Value)> =
            answers.iter().map(|answer| (&answer["id"], &answer["error"]["code"])).collect();
        let none = Value::Null;
        let mut expected = vec![
            (json!("a"), json!(null)),
            (json!("b"), json!(null)),
            (json!("c"), json!(-32600)),
            (json!("c"), json!(null)),
            (json!("d"), json!(-32601)),
            (none, json!(-32600)),
        ];
        let mut found: Vec<(Value, Value)> =
            codes.into_iter().map(|(id, code)| (id.clone(), code.clone())).collect();
        for list in [&mut expected, &mut found] {
            list.sort_by_key(|(id, code)| format!("{id} {code}"));
        }
        assert_eq!(found, expected, "{answers:?}");
        // The edit came after the read in the list, so it was made.
        ws.holds("a.txt", "two\n");
        client.ok("read", &json!({ "path": "a.txt" }));
    }
}

#[test]
fn notifications_and_cancelled_calls_of_a_batch_get_no_response() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.write_endless("endless");
    let mut client = serve(&ws, "2025-03-26");
    client.send(json!([{ "jsonrpc": "2.0", "method": "notifications/nothing" }]).to_string());
    let endless = json!({ "path": "endless", "binary": "base64" });
    let cancel = |id: &str| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    // A request that its own batch cancels.
    client.send(json!([call("x", "read", &endless), cancel("x")]).to_string());
    client.is_silent_for(Duration::from_millis(200));
    // A request that is cancelled after the rest of its batch was answered.
    client.send(json!([call("y", "read", &endless), request("z", "ping", &json!({}))]).to_string());
    client.is_silent_for(Duration::from_millis(200));
    client.send(cancel("y").to_string());
    let answer = client.next();
    assert_eq!(answer, json!([{ "jsonrpc": "2.0", "id": "z", "result": {} }]));
    client.ok("read", &json!({ "path": "a.txt" }));
}

#[test]
fn empty_oversized_and_unsupported_batches_are_errors() {
    let ws = Workspace::with(&[]);
    let ping = |id: usize| request(id, "ping", &json!({}));
    let of = |count: usize| Value::Array((1000..1000 + count).map(ping).collect());
    for (revision, batch, why) in [
        ("2025-03-26", json!([]), "object"),
        ("2025-03-26", of(101), "at most 100"),
        ("2025-06-18", of(1), "no batches"),
        ("2025-11-25", of(2), "no batches"),
    ] {
        let mut client = serve(&ws, revision);
        client.send(batch.to_string());
        let answer = client.next();
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(why), "{answer}");
        assert_eq!(client.ask("ping", &json!({}))["result"], json!({}));
    }
    let mut client = serve(&ws, "2025-03-26");
    assert_eq!(answers(&mut client, &of(100)).len(), 100);
}
