//! The folder that Claude Code and Codex install as a plugin: a manifest and a list of plugins for each, and one
//! skill for both.

use serde_json::{Value, json};

use super::hooks::For;
use super::piece::{AT_START, Hook, OWN_SIGN, Part, Piece, loaded, plain, started_by};

/// A client's part of the folder.
pub struct Plugin {
    /// Its files, relative to the folder.
    pub parts: &'static [Part],
    /// Text that says how to install it; `DIR` means the folder.
    pub install: &'static str,
}

/// Part for Claude Code. Server and hook are in the manifest, since both clients read `.mcp.json` and
/// `hooks/hooks.json`, and each needs a different one.
pub const CLAUDE_CODE: Plugin = Plugin {
    parts: &[
        whole(".claude-plugin/plugin.json", |whom| {
            text(&manifest(whom, loaded(whom.arguments), json!({ "SessionStart": [hook(whom)] })))
        }),
        whole(".claude-plugin/marketplace.json", |_| {
            let plugin = json!({ "name": NAME, "source": "./", "description": description() });
            let owner = json!({ "name": NAME });
            text(&json!({ "name": NAME, "owner": owner, "description": description(), "plugins": [plugin] }))
        }),
        SKILL,
    ],
    install: "Claude Code: `claude plugin marketplace add DIR`, then `claude plugin install lbx@lbx`; for one session `claude --plugin-dir DIR`.\n",
};

/// Part for Codex.
pub const CODEX: Plugin = Plugin {
    parts: &[
        whole(".codex-plugin/plugin.json", |whom| {
            let hooks = json!({ "hooks": { "SessionStart": [hook(whom)] } });
            let mut manifest = manifest(whom, plain(whom.arguments), hooks);
            if let Some(fields) = manifest.as_object_mut() {
                fields.insert("skills".to_owned(), "./skills/".into());
            }
            text(&manifest)
        }),
        whole(".agents/plugins/marketplace.json", |_| {
            let policy = json!({ "installation": "AVAILABLE", "authentication": "ON_INSTALL" });
            let source = json!({ "source": "local", "path": "./" });
            let plugin = json!({ "name": NAME, "source": source, "policy": policy, "category": "Coding" });
            let interface = json!({ "displayName": format!("lbx. {OWN_SIGN}") });
            text(&json!({ "name": NAME, "interface": interface, "plugins": [plugin] }))
        }),
        SKILL,
    ],
    install: "Codex: `codex plugin marketplace add DIR`, then `codex plugin add lbx@lbx`, and trust its hook when Codex asks.\n",
};

/// Name of the plugin, its list and its server.
const NAME: &str = "lbx";

/// Skill that teaches the tools with the text of `lbx help agents`.
const SKILL: Part = whole("skills/lbx/SKILL.md", |_| format!("{SKILL_HEAD}{AGENTS}"));

/// Text of `lbx help agents`.
const AGENTS: &str = include_str!("../../cli/agents.md");

/// First part of the skill: when to use it, and how the commands that follow are called as tools.
const SKILL_HEAD: &str = "\
---
# Written by lbx init; `lbx init --plugin DIR --remove` removes it.
name: lbx
description: How to read, search, edit, create, move, delete and undo files, and run commands, with the tools of the MCP server lbx. Use before the first change of a file, and when a call of lbx is refused.
---
Each command below is a tool of the MCP server `lbx` with the same name, and each flag is a field: call `read` with
`{\"path\": \"src/a.rs\", \"start_line\": 40}` for `lbx read src/a.rs --start-line 40`. What a command reads from
stdin is a field too: `content` of `write`, `append` and `insert`, `patch` of `patch`, and `old_string` with
`new_string`, or `start_line` and `end_line` with `new_string`, of `edit`. Call the tools; use the commands in a
shell where the server is not running. A file that only the client's own tools have read is unread for lbx.

";

/// Returns a part that is a whole file.
const fn whole(file: &'static str, text: fn(For<'_>) -> String) -> Part {
    Part { file, piece: Piece::Whole { text } }
}

/// Returns the description of the plugin, with its author.
fn description() -> String {
    format!("File tools with undo, and confined commands. {OWN_SIGN}")
}

/// Returns the hook at the beginning of a context.
fn hook(whom: For<'_>) -> Value {
    Hook { path: &[], form: AT_START }.item(whom.client)
}

/// Returns a manifest with the fields that both clients read.
fn manifest(whom: For<'_>, server: Value, hooks: Value) -> Value {
    let mut manifest = json!({
        "name": NAME,
        "version": env!("CARGO_PKG_VERSION"),
        "description": description(),
        "author": { "name": NAME },
        "license": env!("CARGO_PKG_LICENSE"),
        "mcpServers": { NAME: started_by(whom.program, server) },
    });
    if let Some(fields) = manifest.as_object_mut() {
        fields.insert("hooks".to_owned(), hooks);
    }
    manifest
}

/// Returns a value as a JSON file.
fn text(value: &Value) -> String {
    format!("{value:#}\n")
}
