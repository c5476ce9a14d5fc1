//! Both ways of opening a connection.

use serde_json::{Value, json};

use crate::client::Workspace;

/// Parameters with what the stateless revision wants in each request.
fn stateless(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[test]
fn a_handshake_settles_on_the_clients_revision_or_the_newest_that_has_one() {
    let workspace = Workspace::with(&[]);
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        assert_eq!(workspace.start(&[]).greet(version)["protocolVersion"], version);
    }
    for version in ["2026-07-28", "2031-01-01"] {
        assert_eq!(workspace.start(&[]).greet(version)["protocolVersion"], "2025-11-25");
    }
}

#[test]
fn the_stateless_revision_needs_no_handshake() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.start(&[]);
    let discovered = client.ask("server/discover", &stateless(json!({})));
    let versions = discovered["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{discovered}");
    let listed = client.ask("tools/list", &stateless(json!({})));
    assert!(!listed["result"]["tools"].as_array().unwrap().is_empty());
    let call = |name: &str, arguments: Value| stateless(json!({ "name": name, "arguments": arguments }));
    let read = client.ask("tools/call", &call("read", json!({ "path": "a.txt" })));
    assert_eq!(read["result"]["structuredContent"]["content"], "a\n", "{read}");
    // The process has one session all the same.
    let written = client.ask("tools/call", &call("write", json!({ "path": "a.txt", "content": "b\n" })));
    assert_ne!(written["result"]["isError"], true, "{written}");
    workspace.holds("a.txt", "b\n");
    let bare = client.ask("tools/list", &json!({}));
    assert_eq!(bare["error"]["code"], -32602, "{bare}");
}

#[test]
fn a_notification_during_the_stateless_revision_is_heard() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.start(&[]);
    client.tell("notifications/initialized", &json!({}));
    client.ask("tools/list", &stateless(json!({})));
    client.tell("notifications/cancelled", &json!({ "requestId": 99 }));
    let read =
        client.ask("tools/call", &stateless(json!({ "name": "read", "arguments": { "path": "a.txt" } })));
    assert_eq!(read["result"]["structuredContent"]["content"], "a\n");
}
