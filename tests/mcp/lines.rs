//! Input lines that are not messages.

use serde_json::json;

use crate::client::Workspace;

#[test]
fn invalid_json_gets_a_parse_error() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    let deep = "[".repeat(100_000);
    for line in [&b"hello"[..], b"{\"jsonrpc\":\"2.0\",", b"\xff\xfe", b"{} {}", deep.as_bytes()] {
        client.send(line);
        let answer = client.next();
        assert_eq!(answer["error"]["code"], -32700, "{answer}");
        assert!(answer.get("id").is_none());
    }
    assert!(!client.tools().is_empty());
}

#[test]
fn request_that_no_parser_takes_gets_a_response_with_its_id() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    let call = |content: &str| {
        let arguments = format!(r#"{{"path":"a.txt","content":{content}}}"#);
        let params = format!(r#"{{"name":"write","arguments":{arguments}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#)
    };
    // A model reads the error of a call.
    client.send(call(r#""\ud83d""#));
    let result = client.answer_to(7)["result"].clone();
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("half of a character") && text.contains("Write whole characters"), "{text}");
    for content in ["1e400".to_owned(), "[".repeat(200) + &"]".repeat(200)] {
        client.send(call(&content));
        assert_eq!(client.answer_to(7)["error"]["code"], -32700, "{content:.20}");
    }
    assert!(!workspace.path("a.txt").exists());
}

#[test]
fn json_without_a_valid_message_gets_an_invalid_request_error() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    for line in [
        "[]",
        "7",
        "{}",
        r#"{"jsonrpc":"1.0","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","method":"ping","id":null}"#,
        r#"{"jsonrpc":"2.0","method":"ping","id":{}}"#,
        r#"{"jsonrpc":"2.0","method":"ping","id":1.5}"#,
        r#"[{"jsonrpc":"2.0","method":"ping","id":1}]"#,
    ] {
        client.send(line);
        let answer = client.next();
        assert_eq!(answer["error"]["code"], -32600, "{line}: {answer}");
    }
}

#[test]
fn integral_float_is_an_id_and_a_rejection_without_id_gets_no_response() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    client.send(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"cannot parse"}}"#);
    client.send(r#"{"jsonrpc":"2.0","id":1e3,"method":"ping"}"#);
    assert_eq!(client.next(), json!({ "jsonrpc": "2.0", "id": 1000, "result": {} }));
}

#[test]
fn error_response_repeats_the_request_id() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    for line in [
        r#"{"jsonrpc":"2.0","id":"x"}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":7}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/list","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{"cursor":"a","cursor":"b"}}"#,
    ] {
        client.send(line);
        let answer = client.next();
        assert_eq!(
            (&answer["error"]["code"], &answer["id"]),
            (&json!(-32600), &json!("x")),
            "{line}: {answer}"
        );
    }
}

#[test]
fn empty_lines_and_carriage_returns_are_skipped() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    client.send("\r\n\n  ");
    client.send("{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"method\":\"ping\"}\r");
    assert_eq!(client.next()["id"], "r");
}

#[test]
fn oversized_line_is_an_error_and_the_next_is_read() {
    let workspace = Workspace::with(&[]);
    let mut client = workspace.serve(&[]);
    let long = "x".repeat(65 << 20);
    for (line, id) in [
        (long.clone(), json!(null)),
        (
            format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{long}"}}}}"#),
            json!(7),
        ),
        (
            format!(r#"{{"params":{{"id":1,"x":"{long}"}},"jsonrpc":"2.0","method":"ping","id":"last"}}"#),
            json!("last"),
        ),
    ] {
        client.send(line);
        let answer = client.next();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &id), "{answer}");
    }
    assert!(!client.tools().is_empty());
}

#[test]
fn eight_megabyte_line_is_read() {
    let workspace = Workspace::with(&[]);
    let content = "0123456789abcde\n".repeat(500_000);
    workspace.serve(&[]).ok("write", &json!({ "path": "long.txt", "content": content }));
    workspace.holds("long.txt", &content);
}

#[test]
fn garbage_before_the_handshake_gets_an_error() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let mut client = workspace.start(&[]);
    client.tell("notifications/initialized", &json!({}));
    client.tell("notifications/cancelled", &json!({ "requestId": 1 }));
    client.send(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    client.send("garbage");
    assert_eq!(client.next()["error"]["code"], -32700);
    assert_eq!(client.ask("ping", &json!({}))["result"], json!({}));
    assert_eq!(client.ask("tools/list", &json!({}))["error"]["code"], -32602);
    client.greet("2025-06-18");
    client.ok("read", &json!({ "path": "a.txt" }));
}

#[test]
fn ten_megabytes_of_json_escapes_are_accepted() {
    let workspace = Workspace::with(&[]);
    let content = "\u{1}".repeat(10_000_000);
    let mut client = workspace.serve(&[]);
    client.ok("write", &json!({ "path": "long.txt", "content": content }));
    assert_eq!(std::fs::metadata(workspace.path("long.txt")).unwrap().len(), 10_000_000);
}
