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
    /// Its hooks, if it has any.
    pub hooks: &'static [Hook],
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

/// A hook, called when the context of a model begins anew.
pub struct Hook {
    /// The file.
    pub file: &'static str,
    /// The names that lead to the list.
    pub path: &'static [&'static str],
    /// When the hook is called; always without it.
    pub matcher: Option<&'static str>,
    /// Whether the client shows the model what the hook prints.
    pub is_shown: bool,
}

/// What a hook of lbx's calls, by which it is found again.
pub const HOOK_SIGN: &str = "lbx session compact";

impl Hook {
    /// The hook: what was read counts as unread from then on, and the new context is told what was done.
    #[must_use]
    pub fn item(&self, session: &str) -> Value {
        let mut command = format!("{HOOK_SIGN} --session {session} >/dev/null");
        if self.is_shown {
            command.extend([format!("; lbx session brief --text --session {session}")]);
        }
        let mut item = json!({ "hooks": [{ "type": "command", "command": command }] });
        if let (Some(matcher), Some(item)) = (self.matcher, item.as_object_mut()) {
            item.insert("matcher".to_owned(), matcher.into());
        }
        item
    }
}

/// Gemini's hook at an event. It matches one word exactly, or everything, and only JSON may be printed.
const fn of_gemini(path: &'static [&'static str]) -> Hook {
    Hook { file: ".gemini/settings.json", path, matcher: None, is_shown: false }
}

/// Every client.
pub const CLIENTS: &[Client] = &[
    Client {
        name: "claude-code",
        file: Some(".mcp.json"),
        format: Format::Json { path: &["mcpServers", "lbx"], entry: plain },
        hooks: &[Hook {
            file: ".claude/settings.json",
            path: &["hooks", "SessionStart"],
            matcher: Some("startup|clear|compact"),
            is_shown: true,
        }],
    },
    Client {
        name: "codex",
        file: Some(".codex/config.toml"),
        format: Format::Toml { table: "mcp_servers.lbx" },
        hooks: &[Hook {
            file: ".codex/hooks.json",
            path: &["hooks", "SessionStart"],
            matcher: Some("startup|clear|compact"),
            is_shown: true,
        }],
    },
    Client {
        name: "gemini",
        file: Some(".gemini/settings.json"),
        format: Format::Json { path: &["mcpServers", "lbx"], entry: plain },
        hooks: &[of_gemini(&["hooks", "SessionStart"]), of_gemini(&["hooks", "PreCompress"])],
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
        hooks: &[],
    },
    Client {
        name: "cursor",
        file: Some(".cursor/mcp.json"),
        format: Format::Json { path: &["mcpServers", "lbx"], entry: plain },
        hooks: &[],
    },
    Client {
        name: "vscode",
        file: Some(".vscode/mcp.json"),
        format: Format::Json {
            path: &["servers", "lbx"],
            entry: |arguments| json!({ "type": "stdio", "command": "lbx", "args": arguments }),
        },
        hooks: &[],
    },
    Client {
        name: "zed",
        file: Some(".zed/settings.json"),
        format: Format::Json {
            path: &["context_servers", "lbx"],
            entry: |arguments| json!({ "source": "custom", "command": "lbx", "args": arguments, "env": {} }),
        },
        hooks: &[],
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
        hooks: &[],
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
