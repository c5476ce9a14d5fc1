//! The clients that `init` knows: their files and the content of these, one entry each; and the folder that Claude Code
//! and Codex install as a plugin, with a manifest and a list of plugins for each, and one skill for both.

use std::path::Path;

use serde_json::{Value, json};

use super::hooks::{self, Guard, GuardForm, Recipient};
use super::piece::{AT_START, CompactHook, FilePiece, HookForm, OWN_SIGN, Piece, loaded, plain, started_by};
use super::toml_table::MarkedLine;

/// A client.
pub struct Client {
    /// Value of `--client`.
    pub name: &'static str,
    /// Parts of its files in the workspace.
    pub parts: &'static [FilePiece],
    /// Parts that switch off its own file and shell tools, if a file in the workspace can.
    pub exclusive: &'static [FilePiece],
    /// Text for a file outside the workspace, from the arguments of `lbx` and the workspace: lbx shows it and never
    /// writes it.
    pub shown: Option<fn(&[String], &Path) -> String>,
    /// Text that says how to switch off its own tools, if no file in the workspace can.
    pub shown_exclusive: Option<&'static str>,
    /// Step that only a person can do.
    pub by_hand: Option<&'static str>,
    /// Its part of the plugin folder.
    pub plugin: Option<Plugin>,
    /// Part that guards its own tools, if it has hooks for them; `None` if a plugin that lbx wrote does.
    pub guard: Option<FilePiece>,
    /// Part that makes its worktrees forks; without it, its server serves forks as tools.
    pub forks: Option<FilePiece>,
}

/// Client without parts, the base of all others.
const CLIENT: Client = Client {
    name: "",
    parts: &[],
    exclusive: &[],
    shown: None,
    shown_exclusive: None,
    by_hand: None,
    plugin: None,
    guard: None,
    forks: None,
};

/// Returns a server in a JSON object.
const fn server(
    file: &'static str,
    path: &'static [&'static str],
    entry: fn(&[String]) -> Value,
) -> FilePiece {
    FilePiece { file, piece: Piece::Server { path, entry } }
}

/// Returns a hook, called after the context was compacted.
const fn hook(file: &'static str, path: &'static [&'static str], form: HookForm) -> FilePiece {
    FilePiece { file, piece: Piece::Hook(CompactHook { path, form }) }
}

/// Returns the hooks that guard a client's own tools.
const fn guard(
    file: &'static str,
    root: &'static [&'static str],
    form: GuardForm,
    by_conversation: bool,
) -> FilePiece {
    FilePiece { file, piece: Piece::Guard(Guard { root, form, by_conversation, worktrees: false }) }
}

/// All clients.
pub const CLIENTS: &[Client] = &[
    Client {
        name: "claude-code",
        parts: &[
            server(".mcp.json", &["mcpServers", "lbx"], loaded),
            hook(".claude/settings.json", &["hooks", "SessionStart"], AT_START),
            // Trust and permission belong to the person: this file is not shared.
            FilePiece {
                file: ".claude/settings.local.json",
                piece: Piece::Items { path: &["enabledMcpjsonServers"], items: &["lbx"] },
            },
            FilePiece {
                file: ".claude/settings.local.json",
                piece: Piece::Items { path: &["permissions", "allow"], items: &["mcp__lbx"] },
            },
        ],
        exclusive: &[FilePiece {
            file: ".claude/settings.json",
            piece: Piece::Items {
                path: &["permissions", "deny"],
                items: &["Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep", "Bash"],
            },
        }],
        plugin: Some(CLAUDE_CODE),
        guard: Some(guard(".claude/settings.json", &["hooks"], GuardForm::Grouped, false)),
        forks: Some(FilePiece {
            file: ".claude/settings.json",
            piece: Piece::Guard(Guard {
                root: &["hooks"],
                form: GuardForm::Grouped,
                by_conversation: false,
                worktrees: true,
            }),
        }),
        ..CLIENT
    },
    Client {
        name: "codex",
        parts: &[
            FilePiece { file: ".codex/config.toml", piece: Piece::Table { name: "mcp_servers.lbx" } },
            hook(".codex/hooks.json", &["hooks", "SessionStart"], AT_START),
        ],
        exclusive: &[FilePiece {
            file: ".codex/config.toml",
            piece: Piece::Line(MarkedLine { table: "features", key: "shell_tool", value: "false" }),
        }],
        shown_exclusive: Some(
            "Codex has no setting that switches apply_patch off. Tell the model in AGENTS.md to use the tools of lbx.\n",
        ),
        by_hand: Some("Trust this folder in Codex: it reads .codex of trusted folders alone.\n"),
        plugin: Some(CODEX),
        guard: Some(guard(".codex/hooks.json", &["hooks"], GuardForm::Grouped, false)),
        ..CLIENT
    },
    Client {
        name: "gemini",
        parts: &[
            server(".gemini/settings.json", &["mcpServers", "lbx"], plain),
            // Gemini CLI matches one exact word, or everything, and hooks may only print JSON.
            hook(".gemini/settings.json", &["hooks", "SessionStart"], HookForm::Nested),
            hook(".gemini/settings.json", &["hooks", "PreCompress"], HookForm::Nested),
        ],
        exclusive: &[FilePiece {
            file: ".gemini/settings.json",
            piece: Piece::Items {
                path: &["tools", "exclude"],
                items: &[
                    "read_file",
                    "read_many_files",
                    "write_file",
                    "replace",
                    "list_directory",
                    "glob",
                    "search_file_content",
                    "grep_search",
                    "run_shell_command",
                ],
            },
        }],
        guard: Some(guard(".gemini/settings.json", &["hooks"], GuardForm::GroupedMilliseconds, false)),
        ..CLIENT
    },
    Client {
        name: "opencode",
        parts: &[
            server("opencode.json", &["mcp", "lbx"], |arguments| {
                let command: Vec<&str> =
                    std::iter::once("lbx").chain(arguments.iter().map(String::as_str)).collect();
                json!({ "type": "local", "command": command, "enabled": true })
            }),
            FilePiece { file: ".opencode/plugins/lbx.js", piece: Piece::Whole { text: hooks::opencode } },
        ],
        exclusive: &[FilePiece {
            file: "opencode.json",
            piece: Piece::Settings {
                path: &["permission"],
                settings: &[
                    ("read", "deny"),
                    ("edit", "deny"),
                    ("glob", "deny"),
                    ("grep", "deny"),
                    ("list", "deny"),
                    ("bash", "deny"),
                ],
            },
        }],
        ..CLIENT
    },
    Client {
        name: "cursor",
        parts: &[
            server(".cursor/mcp.json", &["mcpServers", "lbx"], plain),
            FilePiece { file: ".cursor/hooks.json", piece: Piece::Frame { name: "version", number: 1 } },
            hook(".cursor/hooks.json", &["hooks", "preCompact"], HookForm::Bare),
        ],
        shown_exclusive: Some(
            "Cursor has no setting that switches its own tools off. Tell the model in a rule (.cursor/rules) to use the tools of lbx.",
        ),
        guard: Some(guard(".cursor/hooks.json", &["hooks"], GuardForm::Bare, true)),
        ..CLIENT
    },
    Client {
        name: "vscode",
        parts: &[
            server(
                ".vscode/mcp.json",
                &["servers", "lbx"],
                |arguments| json!({ "type": "stdio", "command": "lbx", "args": arguments }),
            ),
            hook(".github/hooks/lbx.json", &["hooks", "SessionStart"], HookForm::Flat),
            hook(".github/hooks/lbx.json", &["hooks", "PreCompact"], HookForm::Flat),
        ],
        exclusive: &[FilePiece {
            file: ".github/agents/lbx.agent.md",
            piece: Piece::Whole { text: |_| GITHUB_AGENT.to_owned() },
        }],
        shown_exclusive: Some("Choose the agent lbx in the chat: it has the tools of lbx alone."),
        guard: Some(guard(".github/hooks/lbx.json", &["hooks"], GuardForm::Flat, true)),
        ..CLIENT
    },
    Client {
        name: "zed",
        parts: &[server(
            ".zed/settings.json",
            &["context_servers", "lbx"],
            |arguments| json!({ "source": "custom", "command": "lbx", "args": arguments, "env": {} }),
        )],
        shown_exclusive: Some(ZED_PROFILE),
        ..CLIENT
    },
    Client {
        name: "goose",
        shown: Some(|arguments, _| {
            format!(
                "# ~/.config/goose/config.yaml\nextensions:\n  lbx:\n    name: lbx\n    type: stdio\n    cmd: lbx\n    args: {}\n    enabled: true\n    env_keys: []\n    envs: {{}}\n    timeout: 300\n",
                Value::from(arguments.to_vec())
            )
        }),
        shown_exclusive: Some(
            "  developer:\n    name: developer\n    type: builtin\n    bundled: true\n    enabled: false\n    timeout: 300\n",
        ),
        ..CLIENT
    },
    Client {
        name: "copilot-cli",
        parts: &[
            // Claude Code reads `.mcp.json` too, and prefers it if both files name the server.
            server(".github/mcp.json", &["mcpServers", "lbx"], plain),
            // VS Code also reads `.github/hooks`.
            hook(".github/copilot/settings.json", &["hooks", "SessionStart"], HookForm::Flat),
            hook(".github/copilot/settings.json", &["hooks", "PreCompact"], HookForm::Flat),
        ],
        exclusive: &[FilePiece {
            file: ".github/agents/lbx.agent.md",
            piece: Piece::Whole { text: |_| GITHUB_AGENT.to_owned() },
        }],
        shown_exclusive: Some(
            "Start `copilot --agent lbx`: of file and shell tools it has those of lbx alone.\n",
        ),
        by_hand: Some(
            "Start `copilot` here and trust the folder: it starts servers of trusted folders alone.\n",
        ),
        guard: Some(guard(".github/copilot/settings.json", &["hooks"], GuardForm::Shell, true)),
        ..CLIENT
    },
    Client {
        name: "qwen-code",
        parts: &[
            server(
                ".qwen/settings.json",
                &["mcpServers", "lbx"],
                // Without it, the model has to search for the tools before it can call one.
                |arguments| json!({ "command": "lbx", "args": arguments, "alwaysLoadTools": true }),
            ),
            hook(".qwen/settings.json", &["hooks", "SessionStart"], HookForm::Nested),
            hook(".qwen/settings.json", &["hooks", "PreCompact"], HookForm::Nested),
        ],
        exclusive: &[FilePiece {
            file: ".qwen/settings.json",
            piece: Piece::Items {
                path: &["permissions", "deny"],
                items: &[
                    "read_file",
                    "write_file",
                    "edit",
                    "notebook_edit",
                    "list_directory",
                    "glob",
                    "grep_search",
                    "run_shell_command",
                ],
            },
        }],
        by_hand: Some(
            "Approve the server with `qwen mcp approve lbx`, again after each change of its entry.\n",
        ),
        guard: Some(guard(".qwen/settings.json", &["hooks"], GuardForm::Grouped, false)),
        ..CLIENT
    },
    Client {
        name: "pi",
        parts: &[
            server(
                ".pi/mcp.json",
                &["mcpServers", "lbx"],
                // The model only sees direct tools, and by default a call ends after 60 silent seconds.
                |arguments| json!({ "command": "lbx", "args": arguments, "exposure": "direct", "timeout": 300 }),
            ),
            FilePiece { file: ".pi/extensions/lbx.js", piece: Piece::Whole { text: hooks::pi } },
        ],
        exclusive: &[FilePiece {
            file: ".pi/settings.json",
            piece: Piece::Items {
                path: &["defaultTools"],
                items: &["-read", "-bash", "-edit", "-write", "-grep", "-find", "-ls"],
            },
        }],
        by_hand: Some("Start `pi` here and trust the project: it reads .pi of trusted projects alone.\n"),
        ..CLIENT
    },
    Client {
        name: "antigravity",
        parts: &[server(".agents/mcp_config.json", &["mcpServers", "lbx"], plain)],
        shown_exclusive: Some(
            "No file of the workspace is known to switch Antigravity's own tools off. Tell the model in AGENTS.md to use the tools of lbx.\n",
        ),
        by_hand: Some("Trust this folder when Antigravity asks, and allow the tools of lbx.\n"),
        guard: Some(guard(".agents/hooks.json", &["lbx"], GuardForm::GroupedTools, true)),
        ..CLIENT
    },
    Client {
        name: "kiro",
        parts: &[server(".kiro/settings/mcp.json", &["mcpServers", "lbx"], plain)],
        exclusive: &[FilePiece {
            file: ".kiro/agents/lbx.md",
            piece: Piece::Whole { text: |_| KIRO_AGENT.to_owned() },
        }],
        shown_exclusive: Some("Choose the agent lbx in Kiro: it has the tools of your MCP servers alone.\n"),
        by_hand: Some("Trust this folder when Kiro asks, and allow the tools of lbx.\n"),
        ..CLIENT
    },
    Client {
        name: "cline",
        // One process serves all folders, and starts the servers in the first one.
        shown: Some(|arguments, root| {
            format!(
                "// ~/.cline/data/settings/cline_mcp_settings.json; it serves this folder, wherever Cline is started\n\"mcpServers\": {{\n  \"lbx\": {}\n}}\n",
                json!({ "command": "lbx", "args": arguments, "cwd": root })
            )
        }),
        shown_exclusive: Some(CLINE_TOOLS),
        ..CLIENT
    },
];

/// Custom agent for VS Code and Copilot CLI, which cannot switch off their own tools by a setting.
const GITHUB_AGENT: &str = "\
---
# Written by lbx init for VS Code and Copilot CLI; --remove removes it.
name: lbx
description: Reads, edits and runs commands with the tools of lbx alone
tools: ['lbx/*']
---
Use the tools of the MCP server lbx for every file and command.
";

/// Custom agent for Kiro, whose permissions are not in a file of the workspace.
const KIRO_AGENT: &str = "\
---
# Written by lbx init; `lbx init --client kiro --remove` removes it.
description: Reads, edits and runs commands with the tools of MCP servers alone
tools: [\"@mcp\"]
---
Use the tools of the MCP server lbx for every file and command.
";

/// List of Cline's own tools for a person to switch off.
const CLINE_TOOLS: &str = r#"
// ~/.cline/data/settings/global-settings.json, for every folder
"disabledTools": ["read_files", "search_codebase", "run_commands", "editor", "apply_patch"]
"#;

/// Profile of Zed's agent, which a project's settings cannot hold.
const ZED_PROFILE: &str = r#"// ~/.config/zed/settings.json
"agent": {
  "default_profile": "lbx",
  "profiles": {
    "lbx": {
      "name": "lbx",
      "tools": { "diagnostics": true, "fetch": true, "thinking": true, "web_search": true },
      "enable_all_context_servers": true
    }
  }
}
"#;

/// Returns a client by name.
pub fn find(name: &str) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.name == name)
}

/// A client's part of the folder.
pub struct Plugin {
    /// Its files, relative to the folder.
    pub parts: &'static [FilePiece],
    /// Text that says how to install it; `DIR` means the folder.
    pub install: &'static str,
}

/// Part for Claude Code. Server and hook are in the manifest, since both clients read `.mcp.json` and
/// `hooks/hooks.json`, and each needs a different one.
pub const CLAUDE_CODE: Plugin = Plugin {
    parts: &[
        whole_file(".claude-plugin/plugin.json", |whom| {
            text(&manifest(whom, loaded(whom.arguments), json!({ "SessionStart": [start_hook(whom)] })))
        }),
        whole_file(".claude-plugin/marketplace.json", |_| {
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
        whole_file(".codex-plugin/plugin.json", |whom| {
            let hooks = json!({ "hooks": { "SessionStart": [start_hook(whom)] } });
            let mut manifest = manifest(whom, plain(whom.arguments), hooks);
            if let Some(fields) = manifest.as_object_mut() {
                fields.insert("skills".to_owned(), "./skills/".into());
            }
            text(&manifest)
        }),
        whole_file(".agents/plugins/marketplace.json", |_| {
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
const SKILL: FilePiece = whole_file("skills/lbx/SKILL.md", |_| format!("{SKILL_HEAD}{AGENTS}"));

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
const fn whole_file(file: &'static str, text: fn(Recipient<'_>) -> String) -> FilePiece {
    FilePiece { file, piece: Piece::Whole { text } }
}

/// Returns the description of the plugin, with its author.
fn description() -> String {
    format!("File tools with undo, and confined commands. {OWN_SIGN}")
}

/// Returns the hook at the beginning of a context.
fn start_hook(whom: Recipient<'_>) -> Value {
    CompactHook { path: &[], form: AT_START }.item(whom.client)
}

/// Returns a manifest with the fields that both clients read.
fn manifest(whom: Recipient<'_>, server: Value, hooks: Value) -> Value {
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
