//! `init`, as people call it.

use serde_json::{Value, json};

use crate::common::{LBX, PATH_FIXED, Workspace};

/// Clients with their configuration file in a workspace.
const CLIENTS: [(&str, &str); 12] = [
    ("claude-code", ".mcp.json"),
    ("codex", ".codex/config.toml"),
    ("gemini", ".gemini/settings.json"),
    ("opencode", "opencode.json"),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".vscode/mcp.json"),
    ("zed", ".zed/settings.json"),
    ("copilot-cli", ".github/mcp.json"),
    ("qwen-code", ".qwen/settings.json"),
    ("pi", ".pi/mcp.json"),
    ("antigravity", ".agents/mcp_config.json"),
    ("kiro", ".kiro/settings/mcp.json"),
];

/// Files of a client, including those that `--exclusive` writes.
const FILES: [(&str, &[&str]); 12] = [
    ("claude-code", &[".mcp.json", ".claude/settings.json"]),
    ("codex", &[".codex/config.toml", ".codex/hooks.json"]),
    ("gemini", &[".gemini/settings.json"]),
    ("opencode", &["opencode.json", ".opencode/plugins/lbx.js"]),
    ("cursor", &[".cursor/mcp.json", ".cursor/hooks.json"]),
    ("vscode", &[".vscode/mcp.json", ".github/hooks/lbx.json", ".github/agents/lbx.agent.md"]),
    ("zed", &[".zed/settings.json"]),
    ("copilot-cli", &[".github/mcp.json", ".github/copilot/settings.json", ".github/agents/lbx.agent.md"]),
    ("qwen-code", &[".qwen/settings.json"]),
    ("pi", &[".pi/mcp.json", ".pi/extensions/lbx.js"]),
    ("antigravity", &[".agents/mcp_config.json"]),
    ("kiro", &[".kiro/settings/mcp.json", ".kiro/agents/lbx.md"]),
];

#[test]
fn exclusive_init_is_idempotent_and_removed_without_a_trace() {
    for (client, files) in FILES {
        let ws = Workspace::with(&[("a.txt", "a\n")]);
        ws.lbx(&["init", "--client", client, "--exclusive", "--dry-run"]).ok();
        assert!(files.iter().all(|file| !ws.path(file).exists()), "{client}");
        ws.lbx(&["init", "--client", client, "--exclusive"]).ok();
        for file in files {
            let text = std::fs::read_to_string(ws.path(file)).unwrap();
            assert!(text.contains("lbx"), "{client} {file}: {text}");
            if file.ends_with("json") {
                serde_json::from_str::<Value>(&text).unwrap();
            }
        }
        let again = ws.lbx(&["init", "--client", client, "--exclusive"]).ok();
        assert_eq!(again["files"], serde_json::json!([]), "{client}");
        ws.lbx(&["init", "--client", client, "--remove"]).ok();
        let left: Vec<_> = files.iter().filter(|file| ws.path(file).exists()).collect();
        assert!(left.is_empty(), "{client}: {left:?}");
    }
}

#[test]
fn exclusive_init_disables_the_tools_of_each_client() {
    let ws = Workspace::with(&[]);
    let file = |path: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(ws.path(path)).unwrap()).unwrap()
    };
    ws.lbx(&["init", "--client", "claude-code", "--exclusive"]).ok();
    let denied = &file(".claude/settings.json")["permissions"]["deny"];
    assert!(denied.as_array().unwrap().contains(&"Edit".into()), "{denied}");
    ws.lbx(&["init", "--client", "gemini", "--exclusive"]).ok();
    let excluded = &file(".gemini/settings.json")["tools"]["exclude"];
    assert!(excluded.as_array().unwrap().contains(&"replace".into()), "{excluded}");
    ws.lbx(&["init", "--client", "opencode", "--exclusive"]).ok();
    assert_eq!(file("opencode.json")["permission"]["edit"], "deny");
    ws.write(".codex/config.toml", "[features]\nweb = true\n");
    ws.lbx(&["init", "--client", "codex", "--exclusive"]).ok();
    let codex = std::fs::read_to_string(ws.path(".codex/config.toml")).unwrap();
    assert!(
        codex.starts_with("[features]\nshell_tool = false # Written by lbx init\nweb = true\n"),
        "{codex}"
    );
    for (client, path, list) in [
        ("qwen-code", ".qwen/settings.json", "/permissions/deny"),
        ("pi", ".pi/settings.json", "/defaultTools"),
    ] {
        ws.lbx(&["init", "--client", client, "--exclusive"]).ok();
        let off = file(path).pointer(list).unwrap().to_string();
        assert!(off.contains("edit") && off.contains("write"), "{client}: {off}");
        ws.lbx(&["init", "--client", client, "--remove"]).ok();
        assert!(!ws.path(path).exists(), "{client}");
    }
    for client in ["codex", "cursor", "vscode", "zed", "goose", "copilot-cli", "antigravity", "kiro", "cline"]
    {
        let told = ws.lbx(&["init", "--client", client, "--exclusive"]).ok();
        assert!(told["text"].as_str().is_some_and(|text| !text.is_empty()), "{client}: {told}");
    }
}

#[test]
fn opencode_plugin_has_one_default_export_for_both_releases() {
    let ws = Workspace::with(&[]);
    let file = ".opencode/plugins/lbx.js";
    ws.write(file, "// Written by lbx init; an earlier form\nexport const Lbx = async () => ({})\n");
    ws.lbx(&["init", "--client", "opencode"]).ok();
    let plugin = std::fs::read_to_string(ws.path(file)).unwrap();
    let parts = ["export default {", "id: \"lbx\"", "server: async", "setup: async"];
    assert!(parts.iter().all(|part| plugin.contains(part)), "{plugin}");
    assert!(!plugin.contains("export const"), "{plugin}");
}

#[test]
fn init_keeps_permissions_and_agents_of_the_user() {
    let claude = "{\n  \"permissions\": { \"deny\": [\"Bash\"] }\n}\n";
    let opencode = "{ \"permission\": { \"edit\": \"ask\" } }\n";
    let agent = "---\nname: mine\n---\n";
    let ws = Workspace::with(&[
        (".claude/settings.json", claude),
        ("opencode.json", opencode),
        (".github/agents/lbx.agent.md", agent),
    ]);
    ws.lbx(&["init", "--client", "claude-code"]).ok();
    ws.lbx(&["init", "--client", "claude-code", "--remove"]).ok();
    ws.holds(".claude/settings.json", claude);
    ws.lbx(&["init", "--client", "opencode", "--exclusive"]).error("invalid_request");
    ws.holds("opencode.json", opencode);
    ws.lbx(&["init", "--client", "vscode", "--exclusive"]).error("invalid_request");
    ws.holds(".github/agents/lbx.agent.md", agent);
    assert!(!ws.path(".vscode/mcp.json").exists());
    ws.lbx(&["init", "--client", "vscode"]).ok();
    ws.lbx(&["init", "--client", "vscode", "--remove"]).ok();
    ws.holds(".github/agents/lbx.agent.md", agent);
}

#[test]
fn init_changes_nothing_if_a_config_file_is_unusable() {
    let deep = "[".repeat(100_000);
    for (client, files) in FILES {
        for file in files.iter().filter(|file| file.ends_with("json") || file.ends_with("toml")) {
            // `[1]` is a table header in TOML.
            let list = if file.ends_with("toml") { "[1" } else { "[1]" };
            for text in [list, "\u{0}\u{1}", "{ \"a\": ", &deep, "a = \n= {", "\u{feff}\u{feff}x"] {
                let ws = Workspace::with(&[(file, text)]);
                let error = ws.lbx(&["init", "--client", client, "--exclusive"]).envelope()["error"].take();
                assert_eq!(error["path"], **file, "{client} {file}: {error}");
                ws.holds(file, text);
                let others = files.iter().filter(|other| other != &file && ws.path(other).exists());
                assert_eq!(others.count(), 0, "{client} {file}");
            }
            let ws = Workspace::with(&[]);
            let outside = tempfile::tempdir().unwrap();
            let target = outside.path().join("theirs");
            std::fs::write(&target, "{}\n").unwrap();
            std::fs::create_dir_all(ws.path(file).parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(&target, ws.path(file)).unwrap();
            ws.lbx(&["init", "--client", client, "--exclusive"]).error("outside_workspace");
            assert_eq!(std::fs::read_to_string(&target).unwrap(), "{}\n");
        }
    }
}

#[test]
fn init_is_idempotent_and_removed_without_a_trace() {
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
        let top = ws.path(file.split('/').next().unwrap());
        assert!(!top.exists(), "{client}: {} is left", top.display());
        assert_eq!(
            ws.lbx(&["init", "--client", client, "--remove"]).ok()["files"].as_array().unwrap().len(),
            0
        );
    }
}

#[test]
fn init_keeps_other_content_byte_for_byte() {
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
fn inline_table_above_the_entry_is_named() {
    let ws = Workspace::with(&[]);
    let text = "mcp_servers = {x = {command = \"y\"}}\n";
    ws.write(".codex/config.toml", text);
    let error = ws.lbx(&["init", "--client", "codex"]).error("invalid_request");
    let wanted = "`mcp_servers` is already set in another form than [mcp_servers.lbx]";
    assert!(error["message"].as_str().unwrap().contains(wanted), "{error:#}");
    ws.holds(".codex/config.toml", text);
}

#[test]
fn init_leaves_another_server_with_its_name_alone() {
    for (client, file, text) in [
        ("claude-code", ".mcp.json", "{\"mcpServers\":{\"lbx\":{\"command\":\"mine\"}}}\n"),
        ("opencode", "opencode.json", "{\"mcp\":{\"lbx\":{\"type\":\"remote\",\"url\":\"http://x\"}}}\n"),
        (
            "codex",
            ".codex/config.toml",
            "[mcp_servers.lbx]\ncommand = \"mine\" # why\n\n[mcp_servers.lbx.env]\nA = \"b\"\n",
        ),
    ] {
        let ws = Workspace::with(&[(file, text)]);
        let error = ws.lbx(&["init", "--client", client]).error("invalid_request");
        assert!(error["message"].to_string().contains("another server with the name `lbx`"), "{error}");
        ws.holds(file, text);
        ws.lbx(&["init", "--client", client, "--remove"]).ok();
        ws.holds(file, text);
    }
}

#[test]
fn init_adds_hooks_to_existing_ones() {
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
fn init_names_manual_steps_only_on_setup() {
    let ws = Workspace::with(&[]);
    for (client, step) in [
        ("codex", "Trust this folder"),
        ("copilot-cli", "trust the folder"),
        ("qwen-code", "`qwen mcp approve lbx`"),
        ("pi", "trust the project"),
        ("antigravity", "Trust this folder"),
        ("kiro", "Trust this folder"),
    ] {
        let told = ws.lbx(&["init", "--client", client]).ok()["text"].take();
        assert!(told.as_str().is_some_and(|text| text.contains(step)), "{client}: {told}");
        assert_eq!(ws.lbx(&["init", "--client", client, "--remove"]).ok()["text"], Value::Null, "{client}");
    }
}

#[test]
fn init_never_changes_an_unparseable_config() {
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
    let cline = ws.lbx(&["init", "--client", "cline"]).ok()["text"].as_str().unwrap().to_owned();
    assert!(cline.contains(&format!("\"cwd\":\"{}\"", ws.root.display())), "{cline}");
    assert_eq!(ws.lbx(&["init"]).ok()["clients"].as_array().unwrap().len(), 14);
}

#[test]
fn init_dry_run_shows_a_line_diff() {
    let ws = Workspace::with(&[]);
    let text = ws.lbx(&["init", "--client", "claude-code", "--dry-run", "--text"]).stdout_text();
    assert!(text.lines().any(|line| line == "+  \"mcpServers\": {"), "{text}");
}

#[test]
fn gemini_hooks_are_silent_and_run_before_compression() {
    let ws = Workspace::with(&[]);
    ws.lbx(&["init", "--client", "gemini"]).ok();
    let text = std::fs::read_to_string(ws.path(".gemini/settings.json")).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    for event in ["SessionStart", "PreCompress"] {
        let hooks = value["hooks"][event].as_array().unwrap();
        assert_eq!(hooks.len(), 1, "{text}");
        assert!(hooks[0].get("matcher").is_none(), "{text}");
        let command = hooks[0]["hooks"][0]["command"].as_str().unwrap();
        assert_eq!(command, "lbx session compact --session gemini@parent >/dev/null");
    }
    assert_eq!(ws.lbx(&["init", "--client", "gemini"]).ok()["files"], serde_json::json!([]));
    ws.lbx(&["init", "--client", "gemini", "--remove"]).ok();
    assert!(!ws.path(".gemini/settings.json").exists());
}

/// Configurations of users, as editors and people write them.
const OF_USERS: [(&str, &str, &str); 18] = [
    ("codex", ".codex/config.toml", "[features]\nshell_tool = false\n"),
    ("codex", ".codex/config.toml", "[features] # mine\r\n\r\n[features.x]\r\na = 1\r\n"),
    ("codex", ".codex/config.toml", "a = 1\n\n\n"),
    ("codex", ".codex/config.toml", "a = 1"),
    ("codex", ".codex/config.toml", "a = 1\r\nb = \"x\"\r\n"),
    ("codex", ".codex/config.toml", ""),
    ("claude-code", ".mcp.json", "{}"),
    ("claude-code", ".mcp.json", ""),
    ("claude-code", ".mcp.json", "{\r\n  \"mcpServers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n"),
    ("claude-code", ".mcp.json", "{\"mcpServers\":{},\"mcpServers\":{}}\n"),
    ("claude-code", ".mcp.json", "\u{feff}{\"a\": 1 /* one */}\n"),
    ("claude-code", ".claude/settings.json", "{\"permissions\":{\"deny\":[\"Read\",\"Bash(rm:*)\"]}}\n"),
    ("claude-code", ".claude/settings.json", "{\"permissions\":{\"deny\":[]}}\n"),
    ("claude-code", ".claude/settings.json", DENIED),
    ("gemini", ".gemini/settings.json", "{ \"tools\": { \"exclude\": [\"replace\"], }, }"),
    ("cursor", ".cursor/hooks.json", "{\"version\":1}\n"),
    ("opencode", "opencode.json", "{\"permission\":{\"bash\":\"deny\"}}\n"),
    ("opencode", "opencode.json", "{\"permission\":{}}\n"),
];
/// A Claude Code configuration in which the user denies everything that `--exclusive` denies.
const DENIED: &str = "{\"permissions\":{\"deny\":[\"Read\",\"Edit\",\"Write\",\"NotebookEdit\",\"Glob\",\"Grep\",\"Bash\"]}}\n";

#[test]
fn init_remove_restores_the_bytes_of_the_user() {
    for (client, file, text) in OF_USERS {
        let ws = Workspace::with(&[(file, text)]);
        // Nothing is removed that was never added.
        assert_eq!(ws.lbx(&["init", "--client", client, "--remove"]).ok()["files"], serde_json::json!([]));
        ws.holds(file, text);
        ws.lbx(&["init", "--client", client]).ok();
        ws.lbx(&["init", "--client", client, "--exclusive", "--session", "other"]).ok();
        ws.lbx(&["init", "--client", client, "--remove"]).ok();
        ws.holds(file, text);
        ws.lbx(&["init", "--client", client, "--remove"]).ok();
        ws.holds(file, text);
        ws.lbx(&["undo"]).ok();
        assert!(std::fs::read_to_string(ws.path(file)).unwrap().contains("lbx"), "{client} {file}");
    }
}

#[test]
fn init_remove_keeps_later_edits_and_earlier_denials() {
    let ws = Workspace::with(&[
        (".claude/settings.json", "{\n  \"permissions\": { \"deny\": [\"Read\", \"Bash(rm:*)\"] }\n}\n"),
        (".codex/config.toml", "a = 1\r\n"),
    ]);
    ws.lbx(&["init", "--client", "claude-code", "--exclusive"]).ok();
    let text = std::fs::read_to_string(ws.path(".claude/settings.json")).unwrap();
    ws.write(".claude/settings.json", text.replacen('{', "{\n  \"model\": \"m\",", 1));
    ws.lbx(&["init", "--client", "claude-code", "--remove"]).ok();
    ws.holds(
        ".claude/settings.json",
        "{\n  \"model\": \"m\",\n  \"permissions\": { \"deny\": [\"Read\", \"Bash(rm:*)\"] }\n}\n",
    );
    ws.lbx(&["init", "--client", "codex"]).ok();
    let text = std::fs::read_to_string(ws.path(".codex/config.toml")).unwrap();
    assert!(!text.replace("\r\n", "").contains('\n'), "{text:?}");
    ws.write(".codex/config.toml", format!("{text}\r\n# of z\r\n[z]\r\n"));
    ws.lbx(&["init", "--client", "codex", "--remove"]).ok();
    ws.holds(".codex/config.toml", "a = 1\r\n\r\n# of z\r\n[z]\r\n");
}

#[test]
fn init_remove_reports_entries_of_unknown_origin() {
    let ws = Workspace::with(&[]);
    ws.lbx(&["init", "--client", "claude-code", "--exclusive"]).ok();
    // As in a clone: the files without the history.
    std::fs::remove_dir_all(ws.path(".lbx")).unwrap();
    let answer = ws.lbx(&["init", "--client", "claude-code", "--remove"]).ok();
    let told = answer["text"].as_str().unwrap();
    assert!(told.contains("Read") && told.contains("permissions.deny"), "{told}");
    let text = std::fs::read_to_string(ws.path(".claude/settings.json")).unwrap();
    assert!(text.contains("\"Read\"") && !text.contains("lbx"), "{text}");
    assert!(!ws.path(".mcp.json").exists());
}

#[test]
fn init_gives_claude_code_server_trust_and_permission() {
    let ws = Workspace::with(&[]);
    let data = ws.call(&["init", "--client", "claude-code"]).env("PATH", ws.without_program()).run().ok();
    assert!(data["server"].as_str().unwrap().contains("put lbx on PATH"), "{data:#}");
    let read = |file: &str| -> Value { serde_json::from_slice(&ws.read_bytes(file)).unwrap() };
    let server = &read(".mcp.json")["mcpServers"]["lbx"];
    assert_eq!((&server["command"], &server["alwaysLoad"]), (&json!("lbx"), &json!(true)));
    assert_eq!(server["args"], json!(["mcp", "--results", "text", "--session", "claude-code@parent"]));
    let own = read(".claude/settings.local.json");
    assert_eq!(own["enabledMcpjsonServers"], json!(["lbx"]));
    assert_eq!(own["permissions"]["allow"], json!(["mcp__lbx"]));
    ws.lbx(&["init", "--client", "claude-code", "--remove"]).ok();
    assert!(!ws.path(".claude/settings.local.json").exists() && !ws.path(".mcp.json").exists());
    // Permissions that the user gave before stay.
    let before = "{\"permissions\": {\"allow\": [\"mcp__lbx\"]}}\n";
    ws.write(".claude/settings.local.json", before);
    ws.lbx(&["init", "--client", "claude-code"]).ok();
    ws.lbx(&["init", "--client", "claude-code", "--remove"]).ok();
    ws.holds(".claude/settings.local.json", before);
}

#[test]
fn init_configures_only_a_server_that_starts() {
    let ws = Workspace::with(&[]);
    let path = format!("{}:{PATH_FIXED}", ws.with_program().display());
    let exclusive = ["init", "--client", "claude-code", "--exclusive", "--dialect", "claude", "--confirm"];
    let data = ws.call(&exclusive).env("PATH", &path).run().ok();
    assert!(data["server"].as_str().unwrap().contains("starts and lists"), "{data:#}");
    let server = |ws: &Workspace| -> Value {
        let file: Value = serde_json::from_slice(&ws.read_bytes(".mcp.json")).unwrap();
        file["mcpServers"]["lbx"].clone()
    };
    assert_eq!(server(&ws)["command"], "lbx");
    let arguments = server(&ws)["args"].to_string();
    assert!(arguments.contains("\"--dialect\",\"claude\"") && arguments.contains("--confirm"), "{arguments}");
    // If the client would not find it, the entry has its path.
    ws.call(&exclusive).env("PATH", ws.without_program()).run().ok();
    assert_eq!(server(&ws)["command"], LBX);
    // A binary in a workspace is not used instead of the user's either.
    ws.write("bin/lbx", "#!/bin/sh\ntouch taken\n");
    ws.chmod("bin/lbx", 0o755);
    let own = format!("{}:{}", ws.path("bin").display(), ws.without_program().display());
    let data = ws.call(&["init", "--client", "zed"]).env("PATH", own).run().ok();
    assert!(data["server"].as_str().unwrap().contains("put lbx on PATH"), "{data:#}");
    assert!(!ws.path("taken").exists());
    // A server that does not start is not configured.
    let before = ws.read_bytes(".mcp.json");
    for wrong in [&["--tools", "nope"][..], &["--dialect", "nope"], &["--results", "yaml"]] {
        ws.lbx(&[&["init", "--client", "claude-code"], wrong].concat()).error("invalid_request");
        assert_eq!(ws.read_bytes(".mcp.json"), before);
    }
}

/// The files of the plugin, from its folder.
const PLUGIN: [&str; 5] = [
    ".claude-plugin/plugin.json",
    ".claude-plugin/marketplace.json",
    "skills/lbx/SKILL.md",
    ".codex-plugin/plugin.json",
    ".agents/plugins/marketplace.json",
];

#[test]
fn init_plugin_serves_claude_code_and_codex_from_one_folder() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let write = ["init", "--plugin", "tools/plugin", "--results", "json", "--tools", "core"];
    let tried = ws.call(&write).arguments(&["--dry-run"]).run().ok();
    assert_eq!(tried["files"].as_array().unwrap().len(), PLUGIN.len(), "{tried}");
    assert!(!ws.path("tools").exists());
    let told = ws.lbx(&write).ok()["text"].take();
    for step in ["claude plugin marketplace add /", "codex plugin add lbx@lbx"] {
        assert!(told.as_str().unwrap().contains(step), "{told}");
    }
    let file = |path: &str| -> Value {
        serde_json::from_slice(&ws.read_bytes(&format!("tools/plugin/{path}"))).unwrap()
    };
    let (claude, codex) = (file(PLUGIN[0]), file(PLUGIN[3]));
    for (manifest, client) in [(&claude, "claude-code"), (&codex, "codex")] {
        assert_eq!(
            (&manifest["name"], &manifest["version"]),
            (&json!("lbx"), &json!(env!("CARGO_PKG_VERSION")))
        );
        let server = &manifest["mcpServers"]["lbx"];
        let session = format!("{client}@parent");
        assert_eq!(
            server["args"],
            json!(["mcp", "--results", "json", "--session", session, "--tools", "core"])
        );
        assert!(manifest["hooks"].to_string().contains(&format!("lbx session compact --session {session}")));
    }
    assert_eq!(claude["mcpServers"]["lbx"]["alwaysLoad"], true);
    // Its own file of an earlier version is written again, and nobody else's.
    ws.write("tools/plugin/skills/lbx/SKILL.md", "# Written by lbx init, earlier\n");
    assert_eq!(ws.lbx(&write).ok()["files"].as_array().unwrap().len(), 1);
    assert_eq!(ws.lbx(&write).ok()["files"], json!([]));
    ws.lbx(&["init", "--plugin", "tools/plugin", "--remove"]).ok();
    assert!(!ws.path("tools/plugin").exists());
    ws.lbx(&write).ok();
    ws.write("tools/plugin/skills/own/SKILL.md", "mine\n");
    ws.lbx(&["init", "--plugin", "tools/plugin", "--remove"]).ok();
    assert_eq!(std::fs::read_dir(ws.path("tools/plugin")).unwrap().count(), 1);
    ws.holds("tools/plugin/skills/own/SKILL.md", "mine\n");
    ws.write("tools/plugin/.codex-plugin/plugin.json", "{}\n");
    ws.lbx(&write).error("invalid_request");
    ws.lbx(&["init", "--plugin", "../outside"]).error("outside_workspace");
    for other in [json!({ "client": "codex" }), json!({ "exclusive": true })] {
        let mut request = json!({ "plugin": "p" });
        request.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        ws.json("init", &request).error("invalid_request");
    }
}

#[test]
fn skill_holds_the_agents_page_in_1500_tokens() {
    let ws = Workspace::with(&[]);
    ws.lbx(&["init", "--plugin", "plugin"]).ok();
    let skill = String::from_utf8(ws.read_bytes("plugin/skills/lbx/SKILL.md")).unwrap();
    let page = ws.lbx(&["help", "agents"]).stdout_text();
    let (head, rest) = skill.split_once("# lbx: ").unwrap();
    assert_eq!(format!("# lbx: {rest}"), page);
    assert!(head.starts_with("---\n") && head.contains("\nname: lbx\ndescription: "), "{head}");
    // A token of such a text has three bytes or more.
    assert!(skill.len() <= 4500, "{}", skill.len());
}

#[test]
fn init_keeps_the_users_hooks_in_a_group_of_its_own() {
    let mine = r#"{"type":"command","command":"./mine.sh"}"#;
    let old = format!(
        r#"{{"hooks":{{"SessionStart":[{{"hooks":[{mine},{{"type":"command","command":"lbx session compact --session x"}}]}}]}}}}"#
    );
    let (guard, remove) =
        (["init", "claude-code", "--guard", "--no-server"], ["init", "claude-code", "--remove"]);
    let file = ".claude/settings.json";
    let ws = Workspace::with(&[(file, &old)]);
    ws.lbx(&guard).ok();
    let with = String::from_utf8(ws.read_bytes(file)).unwrap();
    assert!(with.contains(&format!("[{{\"hooks\":[{mine}]}}, ")) && !with.contains("lbx session"), "{with}");
    // A command of the user's that only speaks of lbx's is the user's.
    let audit = r#"{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"./audit.sh 'before lbx hook runs'"}]}]}}"#;
    let ws = Workspace::with(&[(file, audit)]);
    ws.lbx(&guard).ok();
    let with: Value = serde_json::from_slice(&ws.read_bytes(file)).unwrap();
    assert!(with["hooks"]["PreToolUse"][1].to_string().contains("lbx hook claude-code"), "{with}");
    ws.lbx(&remove).ok();
    ws.holds(file, audit);
    // Hooks that the user adds to each group of lbx's stay alone in it.
    let ws = Workspace::with(&[]);
    ws.lbx(&guard).ok();
    let with = String::from_utf8(ws.read_bytes(file)).unwrap();
    let groups = with.matches("\"hooks\": [\n").count();
    assert!(groups > 5, "{with}");
    ws.write(file, with.replace("\"hooks\": [\n", &format!("\"hooks\": [ {mine},\n")));
    ws.lbx(&remove).ok();
    let left = String::from_utf8(ws.read_bytes(file)).unwrap();
    assert_eq!((left.matches(mine).count(), left.matches("lbx").count()), (groups, 0), "{left}");
    serde_json::from_str::<Value>(&left).unwrap();
    // A comment of the user's keeps its list and its file.
    let ws = Workspace::with(&[]);
    ws.lbx(&guard).ok();
    ws.write(file, with.replacen("\"hooks\": {\n", "\"hooks\": { // mine\n", 1));
    ws.lbx(&remove).ok();
    ws.holds(file, "{\n  \"hooks\": { // mine\n  }\n}\n");
}

/// Entries of users for a server of lbx, each with a part that `init` keeps.
const OWN_SERVERS: [(&str, &str, &str, &str); 4] = [
    (
        "claude-code",
        ".mcp.json",
        "{\"mcpServers\":{\"lbx\":{\"command\":\"lbx\",\"args\":[\"mcp\"],\"env\":{\"A\":\"1\"}}}}\n",
        "{\"A\":\"1\"}",
    ),
    (
        "cursor",
        ".cursor/mcp.json",
        "{\n  \"mcpServers\": {\n    \"lbx\": { \"env\": {}, \"command\": \"lbx\", \"args\": [ \"mcp\" ] }, // mine\n  }\n}\n",
        "\"env\": {}",
    ),
    (
        "opencode",
        "opencode.json",
        "{\"mcp\":{\"lbx\":{\"enabled\":false,\"command\":[\"lbx\",\"mcp\"]}}}\n",
        "false",
    ),
    (
        "codex",
        ".codex/config.toml",
        "[mcp_servers.lbx]\ncommand = 'lbx' # mine\nargs = ['mcp']\n\n[mcp_servers.lbx.env]\nA = '1'\n",
        "[mcp_servers.lbx.env]\nA = '1'\n",
    ),
];

#[test]
fn init_keeps_the_other_members_of_an_existing_server() {
    for (client, file, text, kept) in OWN_SERVERS {
        let ws = Workspace::with(&[(file, text)]);
        let remove = ["init", "--client", client, "--remove"];
        for _ in 0..2 {
            ws.lbx(&["init", "--client", client]).ok();
            let with = String::from_utf8(ws.read_bytes(file)).unwrap();
            assert!(with.contains("--session") && with.contains(kept), "{client}: {with}");
            assert_eq!(ws.lbx(&["init", "--client", client]).ok()["files"], json!([]), "{client}");
            let told = ws.lbx(&remove).ok()["text"].to_string();
            assert!(told.contains("was there before init"), "{client}: {told}");
            ws.holds(file, text);
            assert_eq!(ws.lbx(&remove).ok()["files"], json!([]), "{client}");
            ws.holds(file, text);
        }
        // Another change of the file since then stays.
        ws.lbx(&["init", "--client", client]).ok();
        let with = String::from_utf8(ws.read_bytes(file)).unwrap();
        ws.write(file, format!("{with}\n"));
        ws.lbx(&remove).ok();
        ws.holds(file, format!("{text}\n"));
    }
    // An entry of lbx's own goes, with what the user added to it.
    let ws = Workspace::with(&[]);
    ws.lbx(&["init", "claude-code"]).ok();
    let with = String::from_utf8(ws.read_bytes(".mcp.json")).unwrap();
    ws.write(".mcp.json", with.replace("\"command\"", "\"env\": {}, \"command\""));
    ws.lbx(&["init", "claude-code", "--tools", "core"]).ok();
    assert!(String::from_utf8(ws.read_bytes(".mcp.json")).unwrap().contains("\"env\": {}"));
    ws.lbx(&["init", "claude-code", "--remove"]).ok();
    assert!(!ws.path(".mcp.json").exists());
}

/// Returns the configuration of Codex.
fn codex_toml(ws: &Workspace) -> String {
    String::from_utf8(ws.read_bytes(".codex/config.toml")).unwrap()
}

/// Removes what `init` added, as in a clone, which has no history.
fn remove_without_history(ws: &Workspace) {
    std::fs::remove_dir_all(ws.path(".lbx")).unwrap();
    ws.lbx(&["init", "--client", "codex", "--remove"]).ok();
}

#[test]
fn toml_table_is_set_once_and_removed_without_a_trace() {
    for text in [
        "# mine\nmodel = \"x\"\n",
        "[a]\nb = 1\n\n[c]\nd = [\n  1,\n]\n",
        "a = \"\"\"\n[mcp_servers.lbx]\nold\n\"\"\"\n",
        "a = '''\n[mcp_servers.lbx]\n''''\nb = [\n  [\"mcp_servers.lbx\"], # [mcp_servers.lbx]\n]\n",
        "# [mcp_servers.lbx]\n[mcp_servers.lbxx]\nc = \"\\\"[\"\n",
        "[[mcp_servers_others]]\na = 1\n[[mcp_servers_others]]\na = 2\n",
        "\u{feff}a = 1\n",
        "a = 1\n\n\n",
        "a = 1\r\n[b]\r\nc = 2\r\n",
    ] {
        let ws = Workspace::with(&[(".codex/config.toml", text)]);
        ws.lbx(&["init", "--client", "codex"]).ok();
        let with = codex_toml(&ws);
        assert!(with.starts_with(text) && with.contains("\n[mcp_servers.lbx]"), "{with}");
        assert!(!text.contains('\r') || !with.replace("\r\n", "").contains('\n'), "{with:?}");
        assert_eq!(ws.lbx(&["init", "--client", "codex"]).ok()["files"], json!([]));
        remove_without_history(&ws);
        ws.holds(".codex/config.toml", text);
    }
}

#[test]
fn toml_table_of_an_earlier_version_keeps_its_other_keys() {
    let env = "\n[mcp_servers.lbx.env]\nA = \"1\"\n\n[z]\ny = 1\n";
    for old in ["command = 'old' # mine\nargs = [\"mcp\"]\nx = 1\n", "args = [\n 'mcp'\n]\ncommand = 'old'\n"]
    {
        let old = format!("[mcp_servers.lbx]\n{old}{env}");
        let ws = Workspace::with(&[(".codex/config.toml", old.as_str())]);
        ws.lbx(&["init", "--client", "codex"]).ok();
        let with = codex_toml(&ws);
        assert!(with.ends_with(env) && with.contains("\"--session\"") && !with.contains("old"), "{with}");
        assert_eq!(with.contains("# mine"), old.contains("# mine"), "{with}");
        // After a later edit, the two values alone are restored.
        ws.write(".codex/config.toml", format!("{with}# later\n"));
        ws.lbx(&["init", "--client", "codex", "--remove"]).ok();
        ws.holds(".codex/config.toml", format!("{old}# later\n"));
        ws.write(".codex/config.toml", &with);
        remove_without_history(&ws);
        ws.holds(".codex/config.toml", "[z]\ny = 1\n");
    }
    // In any spelling of its name, with the comments of the next table.
    let server = "command = \"lbx\"\nargs = [\"mcp\"]\n";
    let ws = Workspace::with(&[]);
    ws.lbx(&["init", "--client", "codex"]).ok();
    let spelled = "[\"mcp_servers\".lbx] # mine\n";
    let rest = "\n# of z\n[z]\ny = 1\n\n[ mcp_servers . lbx . env ]\nB = \"2\"\n";
    ws.write(".codex/config.toml", format!("{spelled}{server}{rest}"));
    remove_without_history(&ws);
    ws.holds(".codex/config.toml", "# of z\n[z]\ny = 1\n");
}

#[test]
fn toml_line_is_set_once_and_removed_without_a_trace() {
    let exclusive = ["init", "--client", "codex", "--exclusive"];
    let is_bare =
        |text: &str| text.replace(['\r', '\n'], "").replace("[features]", "").replace(" # mine", "");
    for text in [
        "a = 1",
        "[features]\nb = true\n",
        "[features] # mine\n\n[z]\r\ny = 1\r\n",
        "[features.x]\nb = 1\n",
        "a = 1\n\n[features]",
        "x = \"\"\"\n[features]\nshell_tool = true\n\"\"\"\n",
    ] {
        let ws = Workspace::with(&[(".codex/config.toml", text)]);
        ws.lbx(&exclusive).ok();
        let with = codex_toml(&ws);
        assert_eq!(with.matches("shell_tool = false # Written by lbx init").count(), 1, "{with}");
        assert_eq!(ws.lbx(&exclusive).ok()["files"], json!([]));
        remove_without_history(&ws);
        assert_eq!(is_bare(&codex_toml(&ws)), is_bare(text));
    }
    let own = "[features]\nshell_tool = false\n";
    let ws = Workspace::with(&[(".codex/config.toml", own)]);
    ws.lbx(&exclusive).ok();
    assert!(codex_toml(&ws).starts_with(own));
    for other in
        ["[features]\nshell_tool = true\n", "features = { a = true }\n", "[[features]]\na = 1\n", "= 1"]
    {
        let ws = Workspace::with(&[(".codex/config.toml", other)]);
        ws.lbx(&exclusive).error("invalid_request");
        ws.holds(".codex/config.toml", other);
    }
}
