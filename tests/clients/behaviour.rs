//! Errors, progress, cancellation, concurrent calls and large messages, as the official SDKs see them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::common::Workspace;
use crate::driver::{SDKS, Session, call, drive, text};
use crate::installed::Clients;

/// Size of a large argument and of a large result, in bytes.
const LARGE: usize = 10 << 20;
/// Largest message that lbx sends, in bytes.
const MESSAGE_BYTES_MAX: usize = 4_000_000;

#[test]
fn every_sdk_receives_structured_errors() {
    let Some(clients) = Clients::found() else { return };
    let refusals = [
        ("edit", json!({ "path": "a.txt", "old_string": "a", "new_string": "b" }), "not_read"),
        ("read", json!({ "path": "none.txt" }), "not_found"),
        ("read", json!({ "path": "../x" }), "outside_workspace"),
        ("read", json!({ "path": "a.txt", "lines": 3 }), "invalid_request"),
        ("grep", json!({ "pattern": "(" }), "invalid_request"),
        ("write", json!({ "path": ".git/config", "content": "x" }), "protected_path"),
    ];
    for (sdk, _) in SDKS {
        let ws = Workspace::with(&[("a.txt", "a\n")]);
        let list = json!({ "do": "list" });
        let steps = refusals.iter().map(|(tool, arguments, _)| call(tool, arguments));
        let steps = std::iter::once(list).chain(steps).chain([call("reed", &json!({}))]).collect();
        let answers = drive(&clients, sdk, &[Session::of(&ws, &[], steps)]).remove(0);
        for ((tool, _, kind), answer) in refusals.iter().zip(&answers[1..]) {
            assert_eq!(answer["is_error"], true, "{sdk:?} {tool}: {answer}");
            let error: Value = serde_json::from_str(text(answer)).unwrap();
            assert_eq!(error["kind"], *kind, "{sdk:?}");
            assert!(error["suggested_action"].is_string(), "{sdk:?}: {error}");
        }
        let unknown = answers.last().unwrap();
        assert_eq!(unknown["protocol_error"], -32602, "{sdk:?}: {unknown}");
    }
}

#[test]
fn every_sdk_receives_progress_of_a_command() {
    let Some(clients) = Clients::found() else { return };
    for (sdk, _) in SDKS {
        let ws = Workspace::with(&[]);
        let command = json!({ "command": "for i in 1 2 3 4; do echo line $i; sleep 0.4; done" });
        let step = json!({ "do": "call", "tool": "bash", "arguments": command, "progress": true });
        let answer = drive(&clients, sdk, &[Session::of(&ws, &[], vec![step])]).remove(0).remove(0);
        let told = answer["progress"].as_array().unwrap();
        assert!(!told.is_empty(), "{sdk:?}: {answer}");
        assert!(told[0]["message"].as_str().unwrap().starts_with("line "), "{sdk:?}: {answer}");
        assert_eq!(answer["structured"]["stdout"], "line 1\nline 2\nline 3\nline 4\n", "{sdk:?}");
    }
}

/// Returns true if a process with that command line runs.
fn runs(command: &str) -> bool {
    let line: Vec<u8> = command.split(' ').collect::<Vec<_>>().join("\0").into_bytes();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.any(|found| found.starts_with(&line))
}

#[test]
fn call_cancelled_by_an_sdk_leaves_no_process() {
    let Some(clients) = Clients::found() else { return };
    for (number, (sdk, _)) in SDKS.into_iter().enumerate() {
        let ws = Workspace::with(&[("a.txt", "a\n")]);
        let sleep = format!("sleep 98.{}{number}", std::process::id());
        // Direct: a layer would hide `begun` until the command has ended.
        let script = format!("echo begun > begun; {sleep}; echo late > late");
        let command = json!({ "command": script, "direct": true });
        let (once, read) = (ws.path("begun"), call("read", &json!({ "path": "a.txt" })));
        let cancel = json!({ "do": "cancel", "tool": "bash", "arguments": command, "once": once });
        // The connection stays open: the cancellation ends the command, not the end of the connection.
        let nobody = call("bash", &json!({ "command": "true" }));
        let answers = drive(&clients, sdk, &[Session::of(&ws, &[], vec![cancel, nobody, read])]).remove(0);
        assert_eq!(answers[0]["cancelled"], true, "{sdk:?}: {}", answers[0]);
        assert_eq!(answers[1]["structured"]["exit_code"], 0, "{sdk:?}: {}", answers[1]);
        assert_eq!(answers[2]["structured"]["content"], "a\n", "{sdk:?}: {}", answers[2]);
        let mut tries = 0;
        while runs(&sleep) && tries < 500 {
            std::thread::sleep(Duration::from_millis(20));
            tries += 1;
        }
        assert!(!runs(&sleep), "{sdk:?}");
        assert!(!ws.path("late").exists(), "{sdk:?}");
    }
}

#[test]
fn fifty_concurrent_calls_each_get_their_own_response() {
    let Some(clients) = Clients::found() else { return };
    for (sdk, _) in SDKS {
        let ws = Workspace::with(&[("log.txt", "")]);
        let calls: Vec<Value> = (0..50)
            .map(|number| {
                ws.write(&format!("{number}.txt"), format!("{number}\n"));
                match number % 5 {
                    0 => call("append", &json!({ "path": "log.txt", "content": format!("{number}\n") })),
                    1 => call("bash", &json!({ "command": format!("echo {number}") })),
                    2 => call(
                        "grep",
                        &json!({ "pattern": format!("^{number}$"), "path": format!("{number}.txt") }),
                    ),
                    3 => call("read", &json!({ "path": "none.txt" })),
                    _ => call("read", &json!({ "path": format!("{number}.txt") })),
                }
            })
            .collect();
        let step = json!({ "do": "together", "calls": calls });
        let answers = drive(&clients, sdk, &[Session::of(&ws, &[], vec![step])]).remove(0).remove(0);
        for (number, answer) in answers["answers"].as_array().unwrap().iter().enumerate() {
            let data = &answer["structured"];
            match number % 5 {
                0 => assert_eq!(data["path"], "log.txt", "{sdk:?}: {answer}"),
                1 => assert_eq!(data["stdout"], format!("{number}\n"), "{sdk:?}: {answer}"),
                2 => assert_eq!(data["matches"][0]["text"], number.to_string(), "{sdk:?}: {answer}"),
                3 => assert_eq!(answer["is_error"], true, "{sdk:?}: {answer}"),
                _ => assert_eq!(data["content"], format!("{number}\n"), "{sdk:?}: {answer}"),
            }
        }
        let log = String::from_utf8(ws.read_bytes("log.txt")).unwrap();
        let mut lines: Vec<usize> = log.lines().map(|line| line.parse().unwrap()).collect();
        lines.sort_unstable();
        assert_eq!(lines, (0..50).step_by(5).collect::<Vec<_>>(), "{sdk:?}");
    }
}

#[test]
fn large_content_fits_into_messages_that_every_sdk_accepts() {
    let Some(clients) = Clients::found() else { return };
    let content = "0123456789abcde\n".repeat(LARGE / 16);
    for (sdk, _) in SDKS {
        let ws = Workspace::with(&[]);
        let steps = vec![
            call("write", &json!({ "path": "large.txt", "content": content })),
            call("read", &json!({ "path": "large.txt", "limit": 0, "max_bytes": 0 })),
            call("bash", &json!({ "command": "cat large.txt", "max_bytes": 0 })),
            call("grep", &json!({ "pattern": "abc", "limit": 0, "max_bytes": 0 })),
        ];
        let answers = drive(&clients, sdk, &[Session::of(&ws, &[], steps)]).remove(0);
        assert_eq!(answers[0]["structured"]["size"], content.len(), "{sdk:?}: {}", answers[0]);
        ws.holds("large.txt", &content);
        for answer in &answers[1..] {
            assert_eq!(answer["is_error"], false, "{sdk:?}: {}", text(answer));
            assert_eq!(answer["structured"]["truncated"], true, "{sdk:?}");
            let bytes = answer["content"].to_string().len() + answer["structured"].to_string().len();
            assert!(bytes < MESSAGE_BYTES_MAX, "{sdk:?}: {bytes}");
        }
        let next = answers[1]["structured"]["next_offset"].as_u64().unwrap();
        assert!(next > 50_000, "{sdk:?}: {next}");
    }
}
