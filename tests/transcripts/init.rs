//! `init`, as people call it.

use serde_json::Value;

use crate::common::Workspace;

/// The clients, with the file that each has in a workspace.
const CLIENTS: [(&str, &str); 7] = [
    ("claude-code", ".mcp.json"),
    ("codex", ".codex/config.toml"),
    ("gemini", ".gemini/settings.json"),
    ("opencode", "opencode.json"),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".vscode/mcp.json"),
    ("zed", ".zed/settings.json"),
];

#[test]
fn each_client_is_set_up_once_and_undone_without_a_trace() {
    for (client, file) in CLIENTS {
        let ws = Workspace::with(&[("a.txt", "a\n")]);
        let tried = ws.lbx(&["init", "--client", client, "--dry-run"]).ok();
        assert!(tried["files"][0]["diff"].as_str().unwrap().contains('+'), "{client}: {tried}");
        assert!(!ws.path(file).exists(), "{client}");
        ws.lbx(&["init", "--client", client]).ok();
        let text = std::fs::read_to_string(ws.path(file)).unwrap();
        assert!(text.contains("lbx") && text.contains("mcp"), "{client}: {text}");
        if file.ends_with("json") {
            serde_json::from_str::<Value>(&text).unwrap();
        }
        assert_eq!(
            ws.lbx(&["init", "--client", client]).ok()["files"].as_array().unwrap().len(),
            0,
            "{client}"
        );
        ws.lbx(&["init", "--client", client, "--remove"]).ok();
        assert!(
            !ws.path(file).exists(),
            "{client}: {}",
            std::fs::read_to_string(ws.path(file)).unwrap_or_default()
        );
        assert_eq!(
            ws.lbx(&["init", "--client", client, "--remove"]).ok()["files"].as_array().unwrap().len(),
            0
        );
    }
}

#[test]
fn what_else_a_file_holds_stays_byte_for_byte() {
    let json =
        "{\n  // mine\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }, // stays\n  },\n}\n";
    let toml = "# mine\nmodel = \"o\"\n\n[mcp_servers.other]\ncommand = \"x\"\n";
    let ws = Workspace::with(&[(".cursor/mcp.json", json), (".codex/config.toml", toml)]);
    for (client, file, before) in
        [("cursor", ".cursor/mcp.json", json), ("codex", ".codex/config.toml", toml)]
    {
        ws.lbx(&["init", "--client", client]).ok();
        let text = std::fs::read_to_string(ws.path(file)).unwrap();
        for line in before.lines().filter(|line| line.contains("mine") || line.contains("\"x\"")) {
            assert!(text.contains(line), "{text}");
        }
        ws.lbx(&["init", "--client", client, "--remove"]).ok();
        ws.holds(file, before);
    }
}

#[test]
fn hooks_are_added_beside_those_that_are_there() {
    let settings = "{\n  \"hooks\": {\n    \"SessionStart\": [\n      { \"hooks\": [] }\n    ]\n  }\n}\n";
    let ws = Workspace::with(&[(".claude/settings.json", settings)]);
    ws.lbx(&["init", "--client", "claude-code"]).ok();
    let text = std::fs::read_to_string(ws.path(".claude/settings.json")).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let hooks = value["hooks"]["SessionStart"].as_array().unwrap();
    assert_eq!(hooks.len(), 2);
    assert!(hooks[1]["hooks"][0]["command"].as_str().unwrap().starts_with("lbx session compact"));
    ws.lbx(&["undo"]).ok();
    ws.holds(".claude/settings.json", settings);
    assert!(!ws.path(".mcp.json").exists());
}

#[test]
fn a_file_that_cannot_be_understood_is_not_changed() {
    for (client, file, text) in [
        ("claude-code", ".mcp.json", "{ \"mcpServers\": [ }"),
        ("zed", ".zed/settings.json", "{ \"context_servers\": 1 }"),
        ("codex", ".codex/config.toml", "a = = 1\n"),
        ("codex", ".codex/config.toml", "mcp_servers = { lbx = { command = \"x\" } }\n"),
    ] {
        let ws = Workspace::with(&[(file, text)]);
        ws.lbx(&["init", "--client", client]).error("invalid_request");
        ws.holds(file, text);
    }
    let ws = Workspace::with(&[]);
    ws.lbx(&["init", "--client", "nobody"]).error("invalid_request");
    assert!(ws.lbx(&["init", "--client", "goose"]).ok()["text"].as_str().unwrap().contains("cmd: lbx"));
    assert_eq!(ws.lbx(&["init"]).ok()["clients"].as_array().unwrap().len(), 8);
}

#[test]
fn the_diff_of_a_configuration_is_shown_line_by_line() {
    let ws = Workspace::with(&[]);
    let text = ws.lbx(&["init", "--client", "claude-code", "--dry-run", "--text"]).stdout_text();
    assert!(text.lines().any(|line| line == "+  \"mcpServers\": {"), "{text}");
}

#[test]
fn geminis_hooks_print_nothing_and_are_called_before_it_compresses() {
    let ws = Workspace::with(&[]);
    ws.lbx(&["init", "--client", "gemini"]).ok();
    let text = std::fs::read_to_string(ws.path(".gemini/settings.json")).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    for event in ["SessionStart", "PreCompress"] {
        let hooks = value["hooks"][event].as_array().unwrap();
        assert_eq!(hooks.len(), 1, "{text}");
        assert!(hooks[0].get("matcher").is_none(), "{text}");
        let command = hooks[0]["hooks"][0]["command"].as_str().unwrap();
        assert_eq!(command, "lbx session compact --session gemini >/dev/null");
    }
    assert_eq!(ws.lbx(&["init", "--client", "gemini"]).ok()["files"], serde_json::json!([]));
    ws.lbx(&["init", "--client", "gemini", "--remove"]).ok();
    assert!(!ws.path(".gemini/settings.json").exists());
}
