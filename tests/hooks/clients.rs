//! The events of each client, in the form of its documentation, and the responses that it understands.

use serde_json::{Value, json};

use crate::common::Workspace;
use crate::player::{PATIENCE, write};

/// Events of one client around a call of a file tool that is denied, one that is not, and a command.
struct Fixture {
    /// Client.
    client: &'static str,
    /// Prompt: name for the command line, and the event.
    prompt: (Option<&'static str>, Value),
    /// Event before a change of `a.txt`, which is unread.
    before: (Option<&'static str>, Value),
    /// Event before the tool makes `new.txt`, and after it.
    made: [(Option<&'static str>, Value); 2],
    /// End of the turn.
    stop: (Option<&'static str>, Value),
    /// Pointer to the reason in the response to `before`.
    reason: &'static str,
    /// Field of the line in the response to `stop`; empty if the client shows none.
    line: &'static str,
}

/// Adds fields to an event.
#[expect(clippy::needless_pass_by_value, reason = "every caller makes them")]
fn with(base: &Value, more: Value) -> Value {
    let mut event = base.clone();
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

/// Returns the fixtures for a workspace.
fn fixtures(ws: &Workspace) -> Vec<Fixture> {
    let root = ws.root.display().to_string();
    let (a, new) = (format!("{root}/a.txt"), format!("{root}/new.txt"));
    let claude = json!({ "session_id": "c1", "prompt_id": "p1", "cwd": root, "transcript_path": "/t" });
    let codex = json!({ "session_id": "c1", "turn_id": "t1", "cwd": root, "model": "m", "permission_mode": "default" });
    let gemini = json!({ "session_id": "c1", "cwd": root, "timestamp": "2026-11-26T11:00:00.000Z" });
    let anti = json!({ "conversationId": "c1", "workspacePaths": [root], "modelName": "m" });
    let cursor = json!({ "conversation_id": "c1", "generation_id": "g1", "workspace_roots": [root] });
    let copilot = json!({ "sessionId": "c1", "timestamp": 1_790_000_000_000_u64, "cwd": root });
    let vscode = json!({ "sessionId": "c1", "cwd": root, "timestamp": "2026-11-26T11:00:00.000Z" });
    let plugin = json!({ "session_id": "c1", "turn_id": "t1" });
    let named = |base: &Value, field: &str, event: &str, more: Value| {
        (None, with(&with(base, json!({ field: event })), more))
    };
    let add = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch";
    let over = "*** Begin Patch\n*** Add File: a.txt\n+all\n*** End Patch";
    let hook = "hook_event_name";
    let claude_call = |event: &str, tool: &str, input: Value| {
        named(&claude, hook, event, json!({ "tool_name": tool, "tool_use_id": "u1", "tool_input": input }))
    };
    let codex_call = |event: &str, patch: &str| {
        let input = json!({ "command": patch });
        named(
            &codex,
            hook,
            event,
            json!({ "tool_name": "apply_patch", "tool_use_id": "u1", "tool_input": input }),
        )
    };
    let gemini_call = |event: &str, tool: &str, input: Value| {
        named(&gemini, hook, event, json!({ "tool_name": tool, "tool_input": input }))
    };
    let anti_call = |event: &'static str, tool: &str, file: &str| {
        let call = json!({ "name": tool, "args": { "TargetFile": file } });
        (Some(event), with(&anti, json!({ "stepIdx": 4, "toolCall": call })))
    };
    let cursor_call = |event: &str, file: &str| {
        let more = json!({ "tool_name": "Write", "tool_use_id": "u1", "tool_input": { "file_path": file } });
        named(&cursor, hook, event, more)
    };
    let copilot_call = |event: &'static str, tool: &str, file: &str| {
        let arguments = json!({ "path": file }).to_string();
        (Some(event), with(&copilot, json!({ "toolName": tool, "toolArgs": arguments })))
    };
    let vscode_call = |event: &str, file: &str| {
        let more =
            json!({ "tool_name": "editFiles", "tool_use_id": "u1", "tool_input": { "files": [file] } });
        named(&vscode, "hookEventName", event, more)
    };
    let plugin_call = |event: &str, tool: &str, file: &str| {
        named(&plugin, "event", event, json!({ "tool": tool, "call_id": "u1", "args": { "filePath": file } }))
    };
    let deny = "/hookSpecificOutput/permissionDecisionReason";
    vec![
        Fixture {
            client: "claude-code",
            prompt: named(&claude, hook, "UserPromptSubmit", json!({ "prompt": "go" })),
            before: claude_call("PreToolUse", "Edit", json!({ "file_path": a, "old_string": "one" })),
            made: ["PreToolUse", "PostToolUse"]
                .map(|event| claude_call(event, "Write", json!({ "file_path": new }))),
            stop: named(&claude, hook, "Stop", json!({ "stop_hook_active": false })),
            reason: deny,
            line: "systemMessage",
        },
        Fixture {
            client: "codex",
            prompt: named(&codex, hook, "UserPromptSubmit", json!({ "prompt": "go" })),
            before: codex_call("PreToolUse", over),
            made: ["PreToolUse", "PostToolUse"].map(|event| codex_call(event, add)),
            stop: named(&codex, hook, "Stop", json!({ "stop_hook_active": false })),
            reason: deny,
            line: "systemMessage",
        },
        Fixture {
            client: "gemini",
            prompt: named(&gemini, hook, "BeforeAgent", json!({ "prompt": "go" })),
            before: gemini_call("BeforeTool", "replace", json!({ "file_path": a })),
            made: ["BeforeTool", "AfterTool"]
                .map(|event| gemini_call(event, "write_file", json!({ "file_path": new }))),
            stop: named(&gemini, hook, "AfterAgent", json!({ "prompt": "go" })),
            reason: "/reason",
            line: "systemMessage",
        },
        Fixture {
            client: "antigravity",
            prompt: (Some("SessionStart"), anti.clone()),
            before: anti_call("PreToolUse", "replace_file_content", &a),
            made: ["PreToolUse", "PostToolUse"].map(|event| anti_call(event, "write_to_file", &new)),
            stop: (Some("Stop"), anti.clone()),
            reason: "/reason",
            line: "",
        },
        Fixture {
            client: "cursor",
            prompt: named(&cursor, hook, "beforeSubmitPrompt", json!({ "prompt": "go" })),
            before: cursor_call("preToolUse", &a),
            made: ["preToolUse", "postToolUse"].map(|event| cursor_call(event, &new)),
            stop: named(&cursor, hook, "stop", json!({ "status": "completed" })),
            reason: "/agent_message",
            line: "",
        },
        Fixture {
            client: "copilot-cli",
            prompt: (Some("userPromptSubmitted"), with(&copilot, json!({ "prompt": "go" }))),
            before: copilot_call("preToolUse", "edit", &a),
            made: ["preToolUse", "postToolUse"].map(|event| copilot_call(event, "create", &new)),
            stop: (Some("agentStop"), copilot.clone()),
            reason: "/permissionDecisionReason",
            line: "",
        },
        Fixture {
            client: "vscode",
            prompt: named(&vscode, "hookEventName", "UserPromptSubmit", json!({ "prompt": "go" })),
            before: vscode_call("PreToolUse", "a.txt"),
            made: ["PreToolUse", "PostToolUse"].map(|event| vscode_call(event, "new.txt")),
            stop: named(&vscode, "hookEventName", "Stop", json!({})),
            reason: deny,
            line: "systemMessage",
        },
        Fixture {
            client: "qwen-code",
            prompt: named(&claude, hook, "UserPromptSubmit", json!({ "prompt": "go" })),
            before: claude_call("PreToolUse", "edit", json!({ "file_path": a })),
            made: ["PreToolUse", "PostToolUse"]
                .map(|event| claude_call(event, "write_file", json!({ "file_path": new }))),
            stop: named(&claude, hook, "Stop", json!({})),
            reason: deny,
            line: "systemMessage",
        },
        Fixture {
            client: "opencode",
            prompt: named(&plugin, "event", "prompt", json!({})),
            before: plugin_call("before", "edit", &a),
            made: ["before", "after"].map(|event| plugin_call(event, "write", &new)),
            stop: named(&plugin, "event", "stop", json!({})),
            reason: "/deny",
            line: "line",
        },
        Fixture {
            client: "pi",
            prompt: named(&plugin, "event", "prompt", json!({})),
            before: plugin_call("before", "edit", &a),
            made: ["before", "after"].map(|event| plugin_call(event, "write", &new)),
            stop: named(&plugin, "event", "stop", json!({})),
            reason: "/deny",
            line: "line",
        },
    ]
}

/// Sends an event; returns the response, or null.
fn send(ws: &Workspace, client: &str, (name, event): &(Option<&str>, Value)) -> Value {
    let words: Vec<&str> = ["hook", client].into_iter().chain(*name).chain(PATIENCE).collect();
    // Some clients begin with a byte order mark.
    let mark = if client == "cursor" { "\u{feff}" } else { "" };
    let answer = ws.lbx_stdin(&words, format!("{mark}{event}"));
    assert_eq!(answer.status(), 0, "{client}: {}", answer.stderr());
    serde_json::from_slice(answer.stdout()).unwrap_or_default()
}

#[test]
fn events_of_every_client_are_gated_and_recorded() {
    for at in 0..10 {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        let Fixture { client, prompt, before, made, stop, reason, line } = fixtures(&ws).swap_remove(at);
        send(&ws, client, &prompt);
        let said = send(&ws, client, &before);
        let why = said.pointer(reason).and_then(Value::as_str).unwrap_or_else(|| panic!("{client}: {said}"));
        assert!(why.contains("a.txt: Read it first"), "{client}: {said}");
        let said = send(&ws, client, &made[0]);
        let expected = if client == "antigravity" { json!({ "decision": "allow" }) } else { Value::Null };
        assert_eq!(said, expected, "{client}");
        write(&ws.path("new.txt"), "new\n");
        send(&ws, client, &made[1]);
        let said = send(&ws, client, &stop);
        if !line.is_empty() {
            let line = said[line].as_str().unwrap_or_else(|| panic!("{client}: {said}"));
            assert!(
                line.starts_with("1 file, +1 -0; undo: lbx undo --turn 1 --session "),
                "{client}: {said}"
            );
        }
        let log = ws.lbx(&["log"]).ok();
        let session = log["snapshots"][0]["session"].as_str().unwrap_or_else(|| panic!("{client}: {log:#}"));
        assert!(session.starts_with(&format!("{client}-")), "{client}: {log:#}");
        ws.lbx(&["undo", "--turn", "--session", session]).ok();
        assert!(!ws.path("new.txt").exists(), "{client}");
    }
}

#[test]
fn unknown_events_and_tools_of_a_client_are_let_through() {
    let ws = Workspace::with(&[]);
    for event in [
        json!({ "hook_event_name": "Notification", "session_id": "c" }),
        json!({ "hook_event_name": "PreToolUse", "session_id": "c", "tool_name": "WebSearch", "tool_input": {} }),
        json!({ "hook_event_name": "PreToolUse", "session_id": "c", "tool_name": "mcp__lbx__edit", "tool_input": {} }),
        json!({ "hook_event_name": "PreToolUse", "session_id": "c", "tool_name": "Edit", "tool_input": 7 }),
        json!({ "hook_event_name": "PreToolUse", "tool_name": ["Edit"], "tool_input": null }),
    ] {
        assert_eq!(send(&ws, "claude-code", &(None, event)), Value::Null);
    }
    ws.lbx_stdin(&["hook", "nobody"], "{}").stderr().find("unknown client").unwrap();
}

#[test]
fn event_before_a_compaction_drops_the_reads_and_says_nothing() {
    for (client, event) in [
        ("claude-code", "PreCompact"),
        ("codex", "PreCompact"),
        ("gemini", "PreCompress"),
        ("cursor", "preCompact"),
        ("vscode", "PreCompact"),
        ("copilot-cli", "preCompact"),
        ("qwen-code", "PreCompact"),
    ] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        let session = ["--session", "s"];
        ws.lbx(&[&["read", "a.txt"][..], &session].concat()).ok();
        ws.lbx(&[&["write", "new.txt", "--content", "new\n"][..], &session].concat()).ok();
        let words = ["hook", client, event, "--session", "s"];
        let said = ws.lbx_stdin(&words, json!({ "session_id": "c", "trigger": "auto" }).to_string());
        assert_eq!((said.status(), said.stdout_text()), (0, String::new()), "{client}");
        let edit = ["edit", "a.txt", "--old-string", "one", "--new-string", "1"];
        ws.lbx(&[&edit[..], &session].concat()).error("not_read");
    }
    let ws = Workspace::with(&[]);
    ws.lbx(&["write", "new.txt", "--content", "new\n", "--session", "s"]).ok();
    let event = json!({ "hook_event_name": "SessionStart", "session_id": "c", "source": "compact" });
    let said = ws.lbx_stdin(&["hook", "claude-code", "--session", "s"], event.to_string()).stdout_text();
    let said: Value = serde_json::from_str(&said).unwrap();
    let brief = said["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(brief.contains("new.txt"), "{said}");
}

#[test]
fn tools_that_edit_in_several_places_are_gated() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let a = ws.path("a.txt");
    let edit = json!({ "filePath": a, "oldString": "one", "newString": "two" });
    for (client, tool, input, reason) in [
        (
            "vscode",
            "multi_replace_string_in_file",
            json!({ "replacements": [edit] }),
            "/hookSpecificOutput/permissionDecisionReason",
        ),
        ("vscode", "edit_notebook_file", edit, "/hookSpecificOutput/permissionDecisionReason"),
        (
            "vscode",
            "editFiles",
            json!({ "files": [format!("file://{}", a.display()).replace("a.txt", "%61.txt")] }),
            "/hookSpecificOutput/permissionDecisionReason",
        ),
        ("antigravity", "multi_replace_file_content", json!({ "TargetFile": a }), "/reason"),
    ] {
        let call = json!({ "name": tool, "args": input });
        let event = if client == "antigravity" {
            json!({ "conversationId": "c", "toolCall": call })
        } else {
            json!({ "session_id": "c", "tool_name": tool, "tool_use_id": "1", "tool_input": input })
        };
        let said = send(&ws, client, &(Some("PreToolUse"), event));
        let why = said.pointer(reason).and_then(Value::as_str).unwrap_or_else(|| panic!("{tool}: {said}"));
        assert!(why.contains("a.txt: Read it first"), "{tool}: {said}");
    }
    // VS Code sends the events of all tools.
    ws.lbx(&["init", "antigravity", "--guard", "--no-server"]).ok();
    let hooks = String::from_utf8(ws.read_bytes(".agents/hooks.json")).unwrap();
    assert!(hooks.contains("multi_replace_file_content"), "{hooks}");
}

#[test]
fn read_counts_for_the_lines_that_it_showed() {
    let numbered = |from: usize, to: usize| -> String {
        (from..=to).map(|number| format!("{number:05}| line {number}\n")).collect()
    };
    let small: String = (1..=300).map(|number| format!("line {number}\n")).collect();
    let wide: String = (1..=1500).map(|number| format!("{number:05} {}\n", "x".repeat(100))).collect();
    let long = format!("a\n{}\nb\n", "x".repeat(3000));
    let head = "<file>\n".to_owned() + &numbered(1, 5) + "(File has more lines)\n</file>";
    let cut = "IMPORTANT: The file content has been truncated.\n\nline 1\nline 2\n";
    let all = numbered(1, 300);
    // Of each read: client, arguments, result, file, and the lines that are not shown.
    let cases = [
        ("antigravity", json!({ "StartLine": 1, "EndLine": 5 }), Value::Null, &small, "6-300"),
        ("antigravity", json!({}), Value::Null, &wide, "479-1500"),
        ("copilot-cli", json!({ "view_range": [3, 300] }), Value::Null, &small, "1-2"),
        ("copilot-cli", json!({}), json!({ "textResultForLlm": "1. line 1\n2. line 2" }), &small, "3-300"),
        ("opencode", json!({}), Value::Null, &wide, "479-1500"),
        ("opencode", json!({}), Value::Null, &long, "2"),
        ("opencode", json!({}), json!(head), &small, "6-300"),
        ("opencode", json!({}), json!(all), &small, ""),
        ("pi", json!({}), json!([{ "type": "text", "text": "line 1\nline 2\n" }]), &small, "3-300"),
        ("gemini", json!({}), json!({ "llmContent": cut }), &small, "3-300"),
        ("gemini", json!({}), json!({ "llmContent": small }), &small, ""),
    ];
    for (client, args, output, text, missing) in cases {
        let ws = Workspace::with(&[("a.txt", text)]);
        let path = ws.path("a.txt");
        let (read, write, field) = match client {
            "antigravity" => ("view_file", "write_to_file", "TargetFile"),
            "copilot-cli" => ("view", "create", "path"),
            "gemini" => ("read_file", "write_file", "file_path"),
            _ => ("read", "write", "filePath"),
        };
        let event = |tool: &str, args: Value, output: &Value| {
            let args = with(&args, json!({ field: path }));
            if client == "antigravity" {
                return json!({ "conversationId": "c", "toolCall": { "name": tool, "args": args } });
            }
            json!({ "session_id": "c", "tool": tool, "call_id": tool, "args": args, "output": output })
        };
        let names = match client {
            "antigravity" => ["PostToolUse", "PreToolUse"],
            "copilot-cli" => ["postToolUse", "preToolUse"],
            "gemini" => ["AfterTool", "BeforeTool"],
            _ => ["after", "before"],
        };
        send(&ws, client, &(Some(names[0]), event(read, args.clone(), &output)));
        let said = send(&ws, client, &(Some(names[1]), event(write, json!({}), &Value::Null))).to_string();
        let is_denied = said.contains("not shown");
        assert_eq!(is_denied, !missing.is_empty(), "{client} {args}: {said}");
        assert!(said.contains(missing), "{client} {args}: {missing} is not in {said}");
    }
}

#[test]
fn read_that_failed_or_showed_no_lines_counts_for_none() {
    let text: String = (1..=5).map(|number| format!("line {number}\n")).collect();
    let denied =
        json!({ "resultType": "denied", "textResultForLlm": "The user denied this tool call\nline 1" });
    let cases = [
        ("copilot-cli", json!({ "resultType": "failure" })),
        ("copilot-cli", denied),
        ("gemini", json!({ "llmContent": "File too large" })),
        ("qwen-code", json!({ "llmContent": "no permission" })),
        ("opencode", json!("Error: rejected")),
        ("pi", json!([{ "type": "text", "text": "Error: rejected" }])),
        ("claude-code", json!("error: no")),
        ("claude-code", json!({ "type": "file_unchanged", "file": {} })),
        ("cursor", json!("{\"error\": \"rejected\"}")),
    ];
    for (client, output) in cases {
        let ws = Workspace::with(&[("a.txt", &text)]);
        let (tool, name) = match client {
            "copilot-cli" => ("view", "postToolUse"),
            "gemini" => ("read_file", "AfterTool"),
            "qwen-code" => ("read_file", "PostToolUse"),
            "claude-code" => ("Read", "PostToolUse"),
            "cursor" => ("Read", "postToolUse"),
            _ => ("read", "after"),
        };
        let event =
            json!({ "tool_name": tool, "tool_input": { "path": ws.path("a.txt") }, "tool_output": output });
        let words = ["hook", client, name, "--session", "s"];
        ws.lbx_stdin(&words, event.to_string()).stdout();
        let edit = ["edit", "a.txt", "--old-string", "line 1", "--new-string", "x", "--session", "s"];
        ws.lbx(&edit).error("not_read");
    }
    // The cells of a notebook are known, but not its lines.
    let ws = Workspace::with(&[("a.ipynb", "{\n \"cells\": []\n}\n")]);
    let event = json!({ "tool_name": "Read", "tool_input": { "file_path": ws.path("a.ipynb") },
        "tool_response": { "type": "notebook", "file": { "cells": [] } } });
    ws.lbx_stdin(&["hook", "claude-code", "PostToolUse", "--session", "s"], event.to_string()).stdout();
    ws.lbx(&[
        "edit",
        "a.ipynb",
        "--old-string",
        "cells",
        "--new-string",
        "cell",
        "--session",
        "s",
        "--dry-run",
    ])
    .ok();
    ws.lbx(&["write", "a.ipynb", "--content", "{}", "--session", "s"]).error("not_read");
}

#[test]
fn tool_that_shows_and_changes_files_is_judged_by_its_command() {
    let ws = Workspace::with(&[("a.txt", "one\ntwo\n")]);
    let call = |command: &str, more: Value| {
        let args = with(&json!({ "command": command, "path": ws.path("a.txt") }), more);
        json!({ "sessionId": "c", "toolName": "str_replace_editor", "toolArgs": args.to_string(),
            "toolResult": { "resultType": "success", "textResultForLlm": "1. one\n" } })
    };
    let before =
        |command: &str| send(&ws, "copilot-cli", &(Some("preToolUse"), call(command, json!({})))).to_string();
    assert!(before("str_replace").contains("Read it first"));
    assert_eq!(before("view"), "null");
    send(&ws, "copilot-cli", &(Some("postToolUse"), call("view", json!({}))));
    assert_eq!(before("str_replace"), "null");
    assert!(before("create").contains("line 2 was not shown"), "{}", before("create"));
}
