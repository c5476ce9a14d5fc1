//! Both ways of opening a connection.

use serde_json::{Value, json};

use crate::client::Workspace;

/// Adds the fields to parameters that the stateless revision requires in each request.
fn stateless(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[test]
fn handshake_selects_the_client_revision_or_the_newest() {
    let workspace = Workspace::with(&[]);
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        assert_eq!(workspace.start(&[]).greet(version)["protocolVersion"], version);
    }
    for version in ["2026-07-28", "2031-01-01"] {
        assert_eq!(workspace.start(&[]).greet(version)["protocolVersion"], "2025-11-25");
    }
}

#[test]
fn stateless_revision_needs_no_handshake() {
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
    // The process still has one session.
    let written = client.ask("tools/call", &call("write", json!({ "path": "a.txt", "content": "b\n" })));
    assert_ne!(written["result"]["isError"], true, "{written}");
    workspace.holds("a.txt", "b\n");
    let bare = client.ask("tools/list", &json!({}));
    assert_eq!(bare["error"]["code"], -32602, "{bare}");
}

#[test]
fn stateless_revision_accepts_notifications() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.start(&[]);
    client.tell("notifications/initialized", &json!({}));
    client.ask("tools/list", &stateless(json!({})));
    client.tell("notifications/cancelled", &json!({ "requestId": 99 }));
    let read =
        client.ask("tools/call", &stateless(json!({ "name": "read", "arguments": { "path": "a.txt" } })));
    assert_eq!(read["result"]["structuredContent"]["content"], "a\n");
}

/// Returns a call of the stateless revision by a client that can ask a person.
fn asking(name: &str, arguments: &Value, said: Option<(Value, &str)>) -> Value {
    let mut params = stateless(json!({ "name": name, "arguments": arguments }));
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": { "form": {} } });
    if let Some((state, action)) = said {
        params["requestState"] = state;
        params["inputResponses"] = json!({ "consent": { "action": action } });
    }
    params
}

#[test]
fn stateless_revision_asks_for_consent_in_the_response() {
    let workspace = Workspace::with(&[("a.txt", "one\n")]);
    let mut client = workspace.start(&["--confirm"]);
    let mut call = |arguments: &Value, said: Option<(Value, &'static str)>| {
        let answer = client.ask("tools/call", &asking("edit", arguments, said));
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    };
    let edit = json!({ "path": "a.txt", "old_string": "one", "new_string": "two", "expected_sha256": null });
    // A call that would fail anyway needs no question.
    assert_eq!(call(&edit, None)["isError"], true);
    let sha256 = "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806";
    let edit =
        json!({ "path": "a.txt", "old_string": "one", "new_string": "two", "expected_sha256": sha256 });
    let asked = call(&edit, None);
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["consent"];
    assert_eq!(question["method"], "elicitation/create");
    assert!(question["params"]["message"].as_str().unwrap().contains("+two"), "{question}");
    workspace.holds("a.txt", "one\n");
    let refused = call(&edit, Some((asked["requestState"].clone(), "decline")));
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("command_denied"), "{refused}");
    // Consent to one change does not cover another, and consent made up by the client does not count.
    let other = json!({ "path": "a.txt", "old_string": "one", "new_string": "2", "expected_sha256": sha256 });
    for (arguments, state) in [(&other, asked["requestState"].clone()), (&edit, json!("made up"))] {
        assert_eq!(call(arguments, Some((state, "accept")))["resultType"], "input_required");
    }
    workspace.holds("a.txt", "one\n");
    let done = call(&edit, Some((asked["requestState"].clone(), "accept")));
    assert_ne!(done["isError"], true, "{done}");
    workspace.holds("a.txt", "two\n");
}

#[test]
fn stateless_responses_have_a_ttl_and_cache_scope() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.start(&[]);
    let discovered = client.ask("server/discover", &stateless(json!({})))["result"].clone();
    let listed = client.ask("tools/list", &stateless(json!({})))["result"].clone();
    for answer in [&discovered, &listed] {
        assert_eq!(answer["resultType"], "complete", "{answer}");
        assert!(answer["ttlMs"].is_u64() && answer["cacheScope"].is_string(), "{answer}");
    }
    let read = stateless(json!({ "name": "read", "arguments": { "path": "a.txt" } }));
    assert_eq!(client.ask("tools/call", &read)["result"]["resultType"], "complete");
    let mut unknown = stateless(json!({}));
    unknown["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    assert_eq!(client.ask("tools/list", &unknown)["error"]["code"], -32022);
    assert_eq!(client.ask("ping", &stateless(json!({})))["error"]["code"], -32601);
}
