//! The clients that `init` knows: which file says what, one entry each.

use serde_json::{Value, json};

/// A client.
pub struct Client {
    /// The value of `--client`.
    pub name: &'static str,
    /// The file in the workspace with its servers; `None` where it has none in a workspace.
    pub file: Option<&'static str>,
    /// How that file is written.
    pub format: Format,
    /// Where its hooks are, if it has any.
    pub hooks: Option<Hooks>,
}

/// How a file is written, and where the server is named in it.
pub enum Format {
    /// JSON, perhaps with comments; the names that lead to the server.
    Json {
        /// The names on the way.
        path: &'static [&'static str],
        /// The entry, from the arguments of `lbx`.
        entry: fn(&[String]) -> Value,
    },
    /// TOML, with the table of the server.
    Toml {
        /// The table.
        table: &'static str,
    },
    /// Shown and never written: the file is the user's, and not the workspace's.
    Shown {
        /// The file and what belongs into it, from the arguments of `lbx`.
        text: fn(&[String]) -> String,
    },
}

/// Where a client has hooks.
pub struct Hooks {
    /// The file.
    pub file: &'static str,
    /// The names that lead to the list.
    pub path: &'static [&'static str],
    /// When the hook is called.
    pub matcher: &'static str,
}

/// What a hook of lbx's calls, by which it is found again.
pub const HOOK_SIGN: &str = "lbx session compact";

impl Hooks {
    /// The hook: what was read counts as unread from then on, and the new context is told what was done.
    #[must_use]
    pub fn item(&self, session: &str) -> Value {
        let command = format!(
            "{HOOK_SIGN} --session {session} >/dev/null; lbx session brief --text --session {session}"
        );
        json!({ "matcher": self.matcher, "hooks": [{ "type": "command", "command": command }] })
    }
}

/// Every client.
pub const CLIENTS: &[Client] = &[
    Client {
        name: "claude-code",
        file: Some(".mcp.json"),
        format: Format::Json { path: &["mcpServers", "lbx"], entry: plain },
        hooks: Some(Hooks {
            file: ".claude/settings.json",
            path: &["hooks", "SessionStart"],
            matcher: "startup|clear|compact",
        }),
    },
    Client {
        name: "codex",
        file: Some(".codex/config.toml"),
        format: Format::Toml { table: "mcp_servers.lbx" },
        hooks: Some(Hooks {
            file: ".codex/hooks.json",
            path: &["hooks", "SessionStart"],
            matcher: "startup|clear|compact",
        }),
    },
    Client {
        name: "gemini",
        file: Some(".gemini/settings.json"),
        format: Format::Json { path: &["mcpServers", "lbx"], entry: plain },
        hooks: Some(Hooks {
            file: ".gemini/settings.json",
            path: &["hooks", "SessionStart"],
            matcher: "startup|clear|compress",
        }),
    },
    Client {
        name: "opencode",
        file: Some("opencode.json"),
        format: Format::Json {
            path: &["mcp", "lbx"],
            entry: |arguments| {
                let command: Vec<&str> =
                    std::iter::once("lbx").chain(arguments.iter().map(String::as_str)).collect();
                json!({ "type": "local", "command": command, "enabled": true })
            },
        },
        hooks: None,
    },
    Client {
        name: "cursor",
        file: Some(".cursor/mcp.json"),
        format: Format::Json { path: &["mcpServers", "lbx"], entry: plain },
        hooks: None,
    },
    Client {
        name: "vscode",
        file: Some(".vscode/mcp.json"),
        format: Format::Json {
            path: &["servers", "lbx"],
            entry: |arguments| json!({ "type": "stdio", "command": "lbx", "args": arguments }),
        },
        hooks: None,
    },
    Client {
        name: "zed",
        file: Some(".zed/settings.json"),
        format: Format::Json {
            path: &["context_servers", "lbx"],
            entry: |arguments| json!({ "source": "custom", "command": "lbx", "args": arguments, "env": {} }),
        },
        hooks: None,
    },
    Client {
        name: "goose",
        file: None,
        format: Format::Shown {
            text: |arguments| {
                format!(
                    "# ~/.config/goose/config.yaml\nextensions:\n  lbx:\n    name: lbx\n    type: stdio\n    cmd: lbx\n    args: {}\n    enabled: true\n    timeout: 300\n",
                    Value::from(arguments.to_vec())
                )
            },
        },
        hooks: None,
    },
];

/// The entry that most clients want.
fn plain(arguments: &[String]) -> Value {
    json!({ "command": "lbx", "args": arguments })
}

/// The client of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.name == name)
}
