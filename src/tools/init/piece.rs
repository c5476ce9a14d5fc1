//! What `init` puts into a file, and how it takes it out again.

use serde_json::{Value, json};

use super::earlier::Earlier;
use super::toml_table::{self, Line};
use crate::text::jsonc::{self, Fault};

/// A piece with its file.
pub struct Part {
    /// The file in the workspace.
    pub file: &'static str,
    /// What belongs into it.
    pub piece: Piece,
}

/// What belongs into a file.
pub enum Piece {
    /// The server, in an object of JSON, perhaps with comments.
    Server {
        /// The names that lead to it.
        path: &'static [&'static str],
        /// The entry, from the arguments of `lbx`.
        entry: fn(&[String]) -> Value,
    },
    /// The server, as a table of TOML.
    Table {
        /// The table.
        name: &'static str,
    },
    /// A line of a TOML table.
    Line(Line),
    /// A hook.
    Hook(Hook),
    /// A number that the file must have beside what else is put into it.
    Frame {
        /// Its name.
        name: &'static str,
        /// The number.
        number: u64,
    },
    /// Texts in a list. They have no mark of lbx's: only those go that an earlier call is known to have added.
    Items {
        /// The names that lead to the list.
        path: &'static [&'static str],
        /// The texts.
        items: &'static [&'static str],
    },
    /// Texts in an object, each under its name; they go as [`Self::Items`] do.
    Settings {
        /// The names that lead to the object.
        path: &'static [&'static str],
        /// The names with their texts.
        settings: &'static [(&'static str, &'static str)],
    },
    /// All of a file, which is lbx's own.
    Whole {
        /// Makes the text; it says that lbx wrote it.
        text: fn(For<'_>) -> String,
    },
}

/// A hook, called when the context of a model begins anew.
pub struct Hook {
    /// The names that lead to the list of hooks.
    pub path: &'static [&'static str],
    /// How the client writes it.
    pub form: HookForm,
}

/// How a client writes a hook.
#[derive(Clone, Copy)]
pub enum HookForm {
    /// In a group that a pattern guards; what the hook prints is shown to the model.
    Shown {
        /// When the hook is called.
        matcher: &'static str,
    },
    /// In a group.
    Nested,
    /// With its kind.
    Flat,
    /// The command alone.
    Bare,
}

/// What Claude Code and Codex call at the beginning of a context.
pub const AT_START: HookForm = HookForm::Shown { matcher: "startup|clear|compact" };

/// What a hook of lbx's calls, by which it is found again.
const HOOK_SIGN: &str = "lbx session compact";
/// What a file of lbx's own says in it.
pub const OWN_SIGN: &str = "Written by lbx init";

/// For whom a piece is made.
#[derive(Clone, Copy)]
pub struct For<'a> {
    /// The client's name, with which its sessions begin.
    pub client: &'static str,
    /// The program that the client starts: `lbx`, or its path.
    pub program: &'a str,
    /// Its arguments.
    pub arguments: &'a [String],
}

/// Returns the entry of Claude Code: without `alwaysLoad` a model that searches for its tools meets none of these.
pub fn loaded(arguments: &[String]) -> Value {
    json!({ "command": "lbx", "args": arguments, "alwaysLoad": true })
}

/// The entry that most clients want.
pub fn plain(arguments: &[String]) -> Value {
    json!({ "command": "lbx", "args": arguments })
}

/// An entry that starts another program in place of `lbx`.
pub fn started_by(program: &str, mut entry: Value) -> Value {
    let command = entry.get_mut("command");
    let word = match command {
        Some(Value::Array(words)) => words.first_mut(),
        command => command,
    };
    if let Some(word) = word {
        *word = program.into();
    }
    entry
}

impl Hook {
    /// The hook: what was read counts as unread from then on, and a context that can be shown it is told what
    /// was done.
    pub fn item(&self, client: &str) -> Value {
        let session = format!("{client}@parent");
        let command = format!("{HOOK_SIGN} --session {session} >/dev/null");
        let called = |command: &str| json!({ "type": "command", "command": command });
        match self.form {
            HookForm::Shown { matcher } => {
                let command = format!("{command}; lbx session brief --text --session {session}");
                json!({ "matcher": matcher, "hooks": [called(&command)] })
            }
            HookForm::Nested => json!({ "hooks": [called(&command)] }),
            HookForm::Flat => called(&command),
            HookForm::Bare => json!({ "command": command }),
        }
    }
}

impl Piece {
    /// Whether it is known as lbx's wherever it stands.
    pub const fn is_marked(&self) -> bool {
        match self {
            Self::Server { .. } | Self::Table { .. } | Self::Line(_) | Self::Hook(_) | Self::Whole { .. } => {
                true
            }
            Self::Frame { .. } | Self::Items { .. } | Self::Settings { .. } => false,
        }
    }

    /// True for the server.
    pub const fn is_server(&self) -> bool {
        matches!(self, Self::Server { .. } | Self::Table { .. })
    }

    /// Returns the program and the arguments of the server in a text.
    pub fn server_in(&self, text: &str) -> Option<Vec<String>> {
        let words = |value: &Value| match value {
            Value::String(word) => Some(vec![word.clone()]),
            Value::Array(words) => words.iter().map(|word| word.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        match self {
            Self::Server { path, .. } => {
                let entry = jsonc::get(text, path).ok().flatten()?;
                let mut command = words(entry.get("command")?)?;
                command.extend(entry.get("args").and_then(words).unwrap_or_default());
                Some(command)
            }
            Self::Table { name } => toml_table::strings(text, name, &["command", "args"]),
            _ => None,
        }
    }

    /// The text with this piece.
    ///
    /// # Errors
    /// Why it cannot be put in.
    pub fn put(&self, text: &str, whom: For<'_>) -> Result<String, Fault> {
        match self {
            Self::Server { path, entry } => {
                jsonc::set(text, path, &started_by(whom.program, entry(whom.arguments)))
            }
            Self::Table { name } => {
                let (program, arguments) = (Value::from(whom.program), Value::from(whom.arguments.to_vec()));
                toml_table::set(text, name, &format!("command = {program}\nargs = {arguments}\n"))
            }
            Self::Line(line) => line.set(text, OWN_SIGN),
            Self::Hook(hook) => jsonc::add_item(text, hook.path, HOOK_SIGN, &hook.item(whom.client)),
            Self::Frame { name, number } => match jsonc::get(text, &[name])? {
                Some(_) => Ok(text.to_owned()),
                None => jsonc::set(text, &[name], &(*number).into()),
            },
            Self::Items { path, items } => items.iter().try_fold(text.to_owned(), |text, item| {
                jsonc::add_item(&text, path, &quoted(item), &Value::from(*item))
            }),
            Self::Settings { path, settings } => {
                settings.iter().try_fold(text.to_owned(), |text, (name, value)| {
                    let path = [path, &[*name][..]].concat();
                    match jsonc::get(&text, &path)? {
                        None => jsonc::set(&text, &path, &Value::from(*value)),
                        Some(known) if known == *value => Ok(text),
                        Some(_) => Err(Fault(format!(
                            "`{}` is set to something else than {value:?} already",
                            path.join(".")
                        ))),
                    }
                })
            }
            Self::Whole { text: own } if text.is_empty() || text.contains(OWN_SIGN) => Ok(own(whom)),
            Self::Whole { .. } => Err(Fault("the file exists and is not one that lbx wrote".to_owned())),
        }
    }

    /// The text without this piece; what has no mark of lbx's stays unless an earlier call added it.
    ///
    /// # Errors
    /// Why it cannot be taken out.
    pub fn take_out(&self, text: &str, earlier: &Earlier) -> Result<String, Fault> {
        match self {
            Self::Server { path, .. } => jsonc::remove(text, path),
            Self::Table { name } => toml_table::remove(text, name),
            Self::Line(line) => line.remove(text, OWN_SIGN),
            Self::Hook(hook) => jsonc::remove_items(text, hook.path, HOOK_SIGN),
            Self::Frame { name, number } => {
                let is_ours = jsonc::get(text, &[name])? == Some((*number).into());
                let without = jsonc::remove(text, &[name])?;
                Ok(if is_ours && jsonc::is_empty(&without) { without } else { text.to_owned() })
            }
            Self::Items { path, items } => {
                let added = items.iter().filter(|item| earlier.added(|text| lists(text, path, item)));
                added
                    .rev()
                    .try_fold(text.to_owned(), |text, item| jsonc::remove_items(&text, path, &quoted(item)))
            }
            Self::Settings { path, settings } => {
                let full = |name: &'static str| [path, &[name][..]].concat();
                let added = settings.iter().filter(|(name, value)| {
                    let path = full(name);
                    earlier.added(|text| says(text, &path, value)) && says(text, &path, value)
                });
                added.rev().try_fold(text.to_owned(), |text, (name, _)| jsonc::remove(&text, &full(name)))
            }
            Self::Whole { .. } if text.contains(OWN_SIGN) => Ok(String::new()),
            Self::Whole { .. } => Ok(text.to_owned()),
        }
    }

    /// What of this piece has no mark of lbx's and stands in a text, all of it, in words.
    pub fn unmarked_in(&self, text: &str) -> Option<String> {
        match self {
            Self::Items { path, items } if items.iter().all(|item| lists(text, path, item)) => {
                Some(format!("{} in `{}`", items.join(", "), path.join(".")))
            }
            Self::Settings { path, settings } => {
                let all =
                    settings.iter().all(|(name, value)| says(text, &[path, &[*name][..]].concat(), value));
                let names: Vec<&str> = settings.iter().map(|(name, _)| *name).collect();
                all.then(|| format!("{} in `{}`", names.join(", "), path.join(".")))
            }
            _ => None,
        }
    }
}

/// Whether a list holds a text.
fn lists(text: &str, path: &[&str], item: &str) -> bool {
    let list = jsonc::get(text, path).ok().flatten();
    list.as_ref().and_then(Value::as_array).is_some_and(|list| list.iter().any(|it| it == item))
}

/// Whether a value is a text.
fn says(text: &str, path: &[&str], value: &str) -> bool {
    jsonc::get(text, path).is_ok_and(|found| found.is_some_and(|found| found == value))
}

/// An item of a list as JSON has it, by which it is found again.
fn quoted(item: &str) -> String {
    format!("\"{item}\"")
}
