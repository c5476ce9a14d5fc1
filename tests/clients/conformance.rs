//! The official conformance suite for servers. It speaks HTTP, so a bridge connects it to lbx. It uses the names of
//! tools, resources and prompts of its own reference server; the bridge replaces them with lbx's.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};

use crate::common::{LBX, PATH_FIXED, Workspace};
use crate::installed::{Clients, script};

/// Scenarios that lbx does not support, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("tools-call-mixed-content", "no tool answers text, an image and a resource at once"),
    ("tools-call-with-logging", "lbx logs one message for each call; the scenario wants three"),
    ("tools-call-sampling", "lbx never asks the client's model anything"),
    ("json-schema-2020-12", "the scenario wants a tool with a certain schema"),
    ("elicitation-sep1034-defaults", "lbx asks for consent alone; its form has no fields"),
    ("elicitation-sep1330-enums", "lbx asks for consent alone; its form has no fields"),
    ("resources-subscribe", "lbx does not declare subscriptions"),
    ("resources-unsubscribe", "lbx does not declare subscriptions"),
    ("prompts-get-with-args", "the scenario wants a prompt that quotes two arguments"),
    ("prompts-get-embedded-resource", "no prompt embeds a resource"),
    ("prompts-get-with-image", "no prompt embeds an image"),
    ("dns-rebinding-protection", "a matter of HTTP: lbx speaks over pipes"),
];

/// A server behind the bridge, with replacements for the names of the suite, and the scenarios that only this server
/// can pass. The first server runs the whole suite.
struct Served {
    /// Arguments of `lbx mcp`.
    options: &'static [&'static str],
    /// Replacements for the names of the suite.
    names: Value,
    /// Scenarios to run; empty for all.
    scenarios: &'static [&'static str],
}

/// Returns the servers to run the suite against.
fn servers(ws: &Workspace) -> Vec<Served> {
    let file = |name: &str| format!("file://{}", ws.path(name).display());
    let tool = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let own = json!({
        "tools": {
            "test_simple_text": tool("read", json!({ "path": "123.txt" })),
            "test_image_content": tool("read", json!({ "path": "dot.png", "binary": "base64" })),
            "test_error_handling": tool("read", json!({ "path": "none.txt" })),
            "test_tool_with_progress":
                tool("bash", json!({ "command": "for i in 1 2 3 4 5; do echo $i; sleep 0.3; done" })),
        },
        "resources": {
            "test://static-text": file("123.txt"),
            "test://static-binary": file("dot.png"),
            "test://template/123/data": "lbx://file/123.txt",
        },
        "prompts": { "test_simple_prompt": { "name": "resume" } },
    });
    let asking = json!({ "tools": {
        "test_elicitation": tool("write", json!({ "path": "asked.txt", "content": "asked\n" })),
    } });
    let media = json!({ "tools": {
        "test_audio_content": tool("read_media_file", json!({ "path": "a.wav" })),
        "test_embedded_resource": tool("read_media_file", json!({ "path": "123.txt" })),
    } });
    vec![
        Served { options: &[], names: own, scenarios: &[] },
        Served { options: &["--confirm"], names: asking, scenarios: &["tools-call-elicitation"] },
        Served {
            options: &["--dialect", "mcp-filesystem"],
            names: media,
            scenarios: &["tools-call-audio", "tools-call-embedded-resource"],
        },
    ]
}

/// The bridge. It ends with its stdin or when it is dropped.
struct Bridge {
    /// Bridge process.
    process: Child,
    /// Stdin of the bridge, kept open.
    _stdin: ChildStdin,
    /// Port on which it listens.
    port: String,
}

impl Bridge {
    /// Starts the bridge in front of a server.
    fn start(clients: &Clients, ws: &Workspace, served: &Served) -> Self {
        let mut command = clients.node();
        command.arg(script("bridge.mjs")).arg(served.names.to_string()).args([LBX, "mcp"]);
        command
            .args(served.options)
            .current_dir(&ws.root)
            .env_clear()
            .env("LBX_STATE_ID", crate::common::STATE_ID);
        command.env("PATH", PATH_FIXED).env("HOME", ws.outside.join("home"));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { _stdin: process.stdin.take().unwrap(), process, port: port.trim().to_owned() }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the command that runs the suite against a bridge.
fn suite(clients: &Clients, bridge: &Bridge, results: &Path) -> Command {
    let mut command = clients.node();
    let url = format!("http://127.0.0.1:{}/mcp", bridge.port);
    command
        .arg(clients.package("conformance/dist/index.js"))
        .args(["server", "--url", &url, "-o"])
        .arg(results);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Returns the checks of each scenario that ran.
fn checks(results: &Path) -> Vec<(String, Vec<Value>)> {
    let folders = std::fs::read_dir(results).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<(String, Vec<Value>)> = folders
        .map(|folder| {
            let name = folder.file_name().unwrap().to_str().unwrap();
            let name = &name["server-".len()..name.len() - "-2026-11-23T01-15-41-834Z".len()];
            let checks = std::fs::read_to_string(folder.join("checks.json")).unwrap();
            (name.to_owned(), serde_json::from_str(&checks).unwrap())
        })
        .collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

#[test]
fn conformance_suite_passes_except_for_listed_scenarios() {
    let Some(clients) = Clients::found() else { return };
    let ws = Workspace::with(&[("123.txt", "template 123\n"), ("a.wav", "RIFF....WAVEfmt ")]);
    ws.write("dot.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89");
    let others: Vec<&str> = servers(&ws).iter().flat_map(|served| served.scenarios).copied().collect();
    let mut passed = Vec::new();
    for (number, served) in servers(&ws).iter().enumerate() {
        let bridge = Bridge::start(&clients, &ws, served);
        let results = ws.outside.join(format!("results-{number}"));
        if served.scenarios.is_empty() {
            suite(&clients, &bridge, &results).args(["--suite", "all"]).status().unwrap();
        }
        for scenario in served.scenarios {
            suite(&clients, &bridge, &results).args(["--scenario", scenario]).status().unwrap();
        }
        for (scenario, checks) in checks(&results) {
            let failed = checks.iter().find(|check| check["status"] == "FAILURE");
            let is_exception = EXCEPTIONS.iter().any(|(name, _)| *name == scenario);
            if is_exception || served.scenarios.is_empty() && others.contains(&scenario.as_str()) {
                // A scenario that passes must be removed from the exceptions.
                assert!(failed.is_some(), "{scenario} passes");
            } else {
                assert!(failed.is_none(), "{scenario}: {}", failed.unwrap());
                passed.push(scenario);
            }
        }
    }
    assert_eq!(passed.len() + EXCEPTIONS.len(), 32, "passed: {passed:?}");
    ws.holds("asked.txt", "asked\n");
}
