//! Runs the same transcripts over MCP, and checks the answer of `tools/list`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::common::{LBX, PATH_FIXED, Workspace};
use crate::steps::{FILES, Says, check, request};
use crate::transcripts::transcripts;
use crate::zero_filled::zero_filled;

/// A server and the pipes to it.
struct Client {
    /// Server process.
    process: Child,
    /// Stdin of the server.
    stdin: ChildStdin,
    /// Stdout of the server.
    stdout: BufReader<ChildStdout>,
}

impl Client {
    /// Starts a server of that dialect and completes the handshake.
    fn serve(ws: &Workspace, dialect: &str) -> Self {
        let mut command = Command::new(LBX);
        command
            .args(["mcp", "--dialect", dialect])
            .current_dir(&ws.root)
            .env_clear()
            .env("LBX_STATE_ID", crate::common::STATE_ID);
        command.env("PATH", PATH_FIXED).env("HOME", ws.outside.join("home"));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut client = Self { process, stdin, stdout: BufReader::new(stdout) };
        let info = json!({ "name": "test", "version": "1" });
        client.ask(
            "initialize",
            &json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info }),
        );
        writeln!(client.stdin, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).unwrap();
        client
    }

    /// Returns the result of a request.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        writeln!(self.stdin, "{request}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].take()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn dialect_responses_over_mcp_match_the_recorded_transcripts() {
    for (name, steps) in transcripts() {
        let ws = Workspace::with(FILES);
        let mut client = Client::serve(&ws, name);
        for step in steps {
            let arguments = request(&ws, &step.request);
            let result = client.ask("tools/call", &json!({ "name": step.tool, "arguments": arguments }));
            let said = result["content"][0]["text"].as_str().unwrap_or_default();
            check(&ws, &step, result["isError"] == true, said);
        }
    }
}

#[test]
fn dialects_treat_empty_optional_fields_as_missing() {
    let mut wrong = Vec::new();
    for (name, steps) in transcripts() {
        let (ws, plain) = (Workspace::with(FILES), Workspace::with(FILES));
        let (mut client, mut without) = (Client::serve(&ws, name), Client::serve(&plain, name));
        let tools = client.ask("tools/list", &json!({}))["tools"].take();
        for step in steps {
            let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == step.tool).unwrap();
            let filled = zero_filled(&step.request, &tool["inputSchema"]);
            let call = |client: &mut Client, ws: &Workspace, arguments: &Value| {
                let params = json!({ "name": step.tool, "arguments": request(ws, arguments) });
                let said = client.ask("tools/call", &params);
                let text = said["content"][0]["text"].as_str().unwrap_or_default();
                (said["isError"] == true, text.replace(&ws.root.display().to_string(), "$ROOT"))
            };
            let (one, other) = (call(&mut client, &ws, &filled), call(&mut without, &plain, &step.request));
            let is_same = one.0 == other.0 && (one.1 == other.1 || !matches!(step.says, Says::Just(_)));
            if !is_same {
                wrong.push(format!("{name} {} {filled}\n  {one:?}\n  {other:?}", step.tool));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn dialect_tool_list_over_mcp_has_described_fields() {
    let ws = Workspace::with(FILES);
    for (name, steps) in transcripts() {
        let list = Client::serve(&ws, name).ask("tools/list", &json!({}));
        let tools = list["tools"].as_array().unwrap();
        for step in steps {
            let tool = tools.iter().find(|tool| tool["name"] == step.tool);
            let tool = tool.unwrap_or_else(|| panic!("{name} has no {}", step.tool));
            assert!(!tool["description"].as_str().unwrap().is_empty(), "{tool}");
            let properties = tool["inputSchema"]["properties"].as_object().unwrap();
            for field in step.request.as_object().unwrap().keys() {
                assert!(properties.contains_key(field), "{name} {}: {field} in {properties:?}", step.tool);
            }
            assert!(properties.values().all(|field| field["description"].is_string()), "{tool}");
        }
    }
}

#[test]
fn media_file_is_returned_with_its_own_bytes() {
    let ws = Workspace::with(&[]);
    let mut client = Client::serve(&ws, "mcp-filesystem");
    for (bytes, base64) in [
        (&b"\x01\xfe\x80a"[..], "Af6AYQ=="),
        (b"\xff\xfea\0b", "//5hAGI="),
        (b"\xff\xfea\0\n\0", "//5hAAoA"),
        (b"\xff\xfe\0\0a\0\0\0", "//4AAGEAAAA="),
        (b"caf\xe9\n", "Y2Fm6Qo="),
        (b"\xef\xbb\xbfhi\r\n", "77u/aGkNCg=="),
        (b"", ""),
    ] {
        ws.write("media", bytes);
        let params = json!({ "name": "read_media_file", "arguments": { "path": "media" } });
        let content = client.ask("tools/call", &params)["content"].take();
        assert_eq!(content[0]["resource"]["blob"], base64, "{content}");
        assert_eq!(content.as_array().unwrap().len(), 1, "{content}");
    }
    ws.write("a b/ü#%[x]~.txt", b"text");
    let params = json!({ "name": "read_media_file", "arguments": { "path": "a b/ü#%[x]~.txt" } });
    let resource = client.ask("tools/call", &params)["content"][0]["resource"].take();
    assert!(resource["uri"].as_str().unwrap().ends_with("/a%20b/%C3%BC%23%25[x]~.txt"), "{resource}");
}

#[test]
fn image_is_returned_as_an_image_block() {
    let ws = Workspace::with(FILES);
    // Signature and header of a PNG with one pixel.
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
    ws.write("dot.png", png);
    ws.write("odd.bin", b"\0\x01\x02\xff\0");
    for (name, tool, request) in [
        ("claude", "Read", json!({ "file_path": "dot.png" })),
        ("gemini", "read_file", json!({ "file_path": "dot.png" })),
        ("opencode", "read", json!({ "filePath": "dot.png" })),
        ("codex", "view_image", json!({ "path": "dot.png" })),
        ("q", "fs_read", json!({ "operations": [{ "mode": "Image", "image_paths": ["dot.png"] }] })),
    ] {
        let ask = |request: &Value| {
            Client::serve(&ws, name).ask("tools/call", &json!({ "name": tool, "arguments": request }))
        };
        let shown = ask(&request);
        let blocks = shown["content"].as_array().unwrap();
        assert!(blocks.iter().any(|block| block["mimeType"] == "image/png"), "{name}: {shown}");
        let said = ws.lbx(&["--dialect", name, tool, "--json", &request.to_string()]).stdout_text();
        assert!(said.contains("[image/png image, shown over MCP only]"), "{name}: {said}");
    }
    let odd = json!({ "name": "Read", "arguments": { "file_path": "odd.bin" } });
    let refused = Client::serve(&ws, "claude").ask("tools/call", &odd);
    assert_eq!(refused["isError"], true, "{refused}");
}

#[test]
fn oversized_dialect_response_is_an_error() {
    let ws = Workspace::with(&[("large.txt", &"\"\n".repeat(1_500_000))]);
    let mut client = Client::serve(&ws, "mcp-filesystem");
    let call = json!({ "name": "read_text_file", "arguments": { "path": "large.txt" } });
    let result = client.ask("tools/call", &call);
    let said = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(result["isError"], true);
    assert!(said.starts_with("the answer takes ") && said.ends_with(". Ask for less at once."), "{said}");
}

#[test]
fn what_a_dialect_does_not_show_does_not_count_as_read() {
    let ws = Workspace::with(FILES);
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
    ws.write("odd.bin", b"\0\x01\x02\xff\0");
    ws.write("huge.png", [&png[..], &vec![7; 4_000_000]].concat());
    ws.write("large.txt", "\"\n".repeat(1_500_000));
    ws.write("four.txt", "1\n2\n3\n4\n");
    ws.write("memories/a.txt", "one\ntwo\n");
    let bin = ws.path("odd.bin");
    let q_image = json!({ "operations": [{ "mode": "Image", "image_paths": ["four.txt"] }] });
    let q_two = json!({ "operations": [
        { "mode": "Line", "path": "four.txt" }, { "mode": "Line", "path": "none.txt" }
    ] });
    let block = json!({
        "file_path": "four.txt", "mode": "indentation", "indentation": { "anchor_line": 1, "max_lines": 1 }
    });
    let deletion = json!({ "input": "*** Begin Patch\n*** Delete File: four.txt\n*** End Patch\n" });
    let create = |path: &str| json!({ "command": "create", "path": path, "file_text": "x" });
    for (dialect, (tool, request), (change, changed)) in [
        (
            "claude",
            ("Read", json!({ "file_path": bin })),
            ("Write", json!({ "file_path": bin, "content": "x" })),
        ),
        (
            "claude",
            ("Read", json!({ "file_path": ws.path("huge.png") })),
            ("Write", json!({ "file_path": ws.path("huge.png"), "content": "x" })),
        ),
        (
            "opencode",
            ("read", json!({ "filePath": bin })),
            ("write", json!({ "filePath": bin, "content": "x" })),
        ),
        (
            "gemini",
            ("read_file", json!({ "file_path": bin })),
            ("write_file", json!({ "file_path": bin, "content": "x" })),
        ),
        ("q", ("fs_read", q_image), ("fs_write", create("four.txt"))),
        ("q", ("fs_read", q_two), ("fs_write", create("four.txt"))),
        ("codex", ("view_image", json!({ "path": "four.txt" })), ("apply_patch", deletion.clone())),
        ("codex", ("read_file", block), ("apply_patch", deletion)),
        (
            "mcp-filesystem",
            ("read_text_file", json!({ "path": "four.txt", "tail": 4 })),
            ("write_file", json!({ "path": "four.txt", "content": "x" })),
        ),
        (
            "mcp-filesystem",
            ("read_text_file", json!({ "path": "large.txt" })),
            ("write_file", json!({ "path": "large.txt", "content": "x" })),
        ),
        (
            "anthropic-memory",
            (
                "memory",
                json!({ "command": "insert", "path": "/memories/a.txt", "insert_line": 9, "insert_text": "x" }),
            ),
            (
                "memory",
                json!({ "command": "str_replace", "path": "/memories/a.txt", "old_str": "two", "new_str": "x" }),
            ),
        ),
        (
            "anthropic-memory",
            ("memory", json!({ "command": "view", "path": "/memories" })),
            (
                "memory",
                json!({ "command": "insert", "path": "/memories/a.txt", "insert_line": 1, "insert_text": "x" }),
            ),
        ),
    ] {
        let before = ws.tree();
        let mut client = Client::serve(&ws, dialect);
        let read = client.ask("tools/call", &json!({ "name": tool, "arguments": request }));
        let refused = client.ask("tools/call", &json!({ "name": change, "arguments": changed }));
        assert_eq!(refused["isError"], true, "{dialect} {tool} {read:.200} {change}: {refused:.300}");
        assert_eq!(ws.tree(), before, "{dialect} {tool} {change}");
    }
    // Nor does an image that the command line does not show.
    ws.write("dot.png", png);
    ws.lbx(&["--dialect", "claude", "Read", "--file_path", ws.path("dot.png").to_str().unwrap()])
        .stdout_text();
    ws.lbx(&["write", "dot.png", "--content", "x"]).error("not_read");
}

#[test]
fn dialect_errors_name_the_file_that_the_request_does_not() {
    let ws = Workspace::with(FILES);
    let patch =
        "*** Begin Patch\n*** Update File: src/main.rs\n@@\n-    two();\n+    three();\n*** End Patch\n";
    for (dialect, tool, request, named) in [
        ("opencode", "apply_patch", json!({ "patchText": patch }), "src/main.rs"),
        ("opencode", "grep", json!({ "pattern": "x", "path": "none" }), "none"),
    ] {
        let call = json!({ "name": tool, "arguments": request });
        let said = Client::serve(&ws, dialect).ask("tools/call", &call)["content"][0]["text"].to_string();
        assert!(said.contains(named), "{tool}: {said}");
    }
    // A link that leads outside does not spoil the list of the memory.
    ws.write("memories/a.txt", "one\n");
    ws.link("/etc", "memories/outside");
    let view = json!({ "name": "memory", "arguments": { "command": "view", "path": "/memories" } });
    let said = Client::serve(&ws, "anthropic-memory").ask("tools/call", &view);
    let text = said["content"][0]["text"].as_str().unwrap();
    assert!(said["isError"] != true && text.contains("/memories/a.txt"), "{text}");
}
