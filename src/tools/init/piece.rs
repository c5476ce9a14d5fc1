//! The pieces that `init` puts into a file, and how it removes them.
//!
//! As far as the history has the earlier calls of `init`, `--remove` restores the old bytes, and removes nothing that the
//! user already had.

use serde_json::{Value, json};

use super::hooks::{Guard, HOOK_SIGN, PLUGIN_SIGN, Recipient, is_guarded};
use super::toml_table::{self, MarkedLine};
use crate::engine::change::{Change, LockedFile};
use crate::engine::journal::{self, FileEntry, Version};
use crate::error::Error;
use crate::sha256::Sha256;
use crate::text::jsonc::{self, JsonFault};
use crate::tools::Tool as _;

/// A piece with its file.
pub struct FilePiece {
    /// File in the workspace.
    pub file: &'static str,
    /// Piece that belongs into it.
    pub piece: Piece,
}

impl FilePiece {
    /// Returns true if it only serves a server: its entry, its trust and its permission.
    pub const fn is_for_server(&self) -> bool {
        self.piece.is_server() || matches!(self.piece, Piece::Items { .. })
    }
}

/// A piece that belongs into a file.
pub enum Piece {
    /// The server, in a JSON object, perhaps with comments.
    Server {
        /// Names that lead to it.
        path: &'static [&'static str],
        /// Entry, from the arguments of `lbx`.
        entry: fn(&[String]) -> Value,
    },
    /// The server, as a TOML table.
    Table {
        /// Name of the table.
        name: &'static str,
    },
    /// A line of a TOML table.
    Line(MarkedLine),
    /// A hook.
    Hook(CompactHook),
    /// The hooks that guard the client's own tools, or those about worktrees.
    Guard(Guard),
    /// A number that the file must have together with the other pieces.
    Frame {
        /// Its name.
        name: &'static str,
        /// Number.
        number: u64,
    },
    /// Texts in a list. They have no mark of lbx: only those are removed that an earlier call is known to have added.
    Items {
        /// Names that lead to the list.
        path: &'static [&'static str],
        /// Texts.
        items: &'static [&'static str],
    },
    /// Texts in an object, each under its name; removed as [`Self::Items`] are.
    Settings {
        /// Names that lead to the object.
        path: &'static [&'static str],
        /// Names with their texts.
        settings: &'static [(&'static str, &'static str)],
    },
    /// A whole file, which belongs to lbx.
    Whole {
        /// Function that makes the text, which says that lbx wrote it.
        text: fn(Recipient<'_>) -> String,
    },
}

/// A hook, called after the context was compacted.
pub struct CompactHook {
    /// Names that lead to the list of hooks.
    pub path: &'static [&'static str],
    /// Form in the client's file.
    pub form: HookForm,
}

/// Form of a hook in a client's file.
#[derive(Clone, Copy)]
pub enum HookForm {
    /// In a group with a pattern; the model sees the output of the hook.
    Shown {
        /// Pattern of events.
        matcher: &'static str,
    },
    /// In a group.
    Nested,
    /// With its type.
    Flat,
    /// Only the command.
    Bare,
}

/// Hook of Claude Code and Codex at the start of a context.
pub const AT_START: HookForm = HookForm::Shown { matcher: "startup|clear|compact" };

/// Members of an entry that start a server: `init` sets no other ones that are there.
const STARTS: [&str; 2] = ["command", "args"];
/// Command of lbx that starts a server.
const COMMAND: &str = "mcp";
/// Text that marks a file as lbx's own.
pub const OWN_SIGN: &str = "Written by lbx init";

/// Returns the entry of Claude Code: without `alwaysLoad`, a model that searches for tools does not find these.
pub fn loaded(arguments: &[String]) -> Value {
    json!({ "command": "lbx", "args": arguments, "alwaysLoad": true })
}

/// Returns the entry that most clients expect.
pub fn plain(arguments: &[String]) -> Value {
    json!({ "command": "lbx", "args": arguments })
}

/// Returns an entry that starts another program instead of `lbx`.
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

impl CompactHook {
    /// Returns the hook: it marks everything read as unread, and tells the new context, if the client can, what the
    /// session did.
    pub fn item(&self, client: &str) -> Value {
        let session = format!("{client}@parent");
        let command = format!("lbx session compact --session {session} >/dev/null");
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
    /// Returns true if it has a mark by which lbx finds it.
    pub const fn is_marked(&self) -> bool {
        match self {
            Self::Server { .. }
            | Self::Table { .. }
            | Self::Line(_)
            | Self::Hook(_)
            | Self::Guard(_)
            | Self::Whole { .. } => true,
            Self::Frame { .. } | Self::Items { .. } | Self::Settings { .. } => false,
        }
    }

    /// Returns true for the server.
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
            Self::Table { name } => toml_table::strings(text, name, &STARTS),
            _ => None,
        }
    }

    /// Returns the text of the file before `init` changed a server in it that was already there, with lbx's name and
    /// arguments.
    fn before<'e>(&self, earlier: &'e EarlierChanges) -> Option<&'e str> {
        let mut server = None;
        let mut text = None;
        for put in &earlier.puts {
            let before = self.server_in(&put.before);
            // Without a change of the server since the last call, it is still the one of that call.
            if before.is_none() || before != server {
                text = before.map(|_| put.before.as_str());
            }
            server = self.server_in(&put.after);
        }
        text
    }

    /// Returns true if a text has another server under lbx's name.
    fn is_of_another(&self, text: &str) -> bool {
        let is_there = match self {
            Self::Server { path, .. } => jsonc::get(text, path).is_ok_and(|found| found.is_some()),
            Self::Table { .. } => self.server_in(text).is_some(),
            _ => false,
        };
        let words = || self.server_in(text).unwrap_or_default();
        is_there && words().get(1).is_none_or(|word| word != COMMAND)
    }

    /// Returns the text with this piece.
    ///
    /// # Errors
    /// Returns the reason why it cannot be added.
    pub fn put(&self, text: &str, whom: Recipient<'_>) -> Result<String, JsonFault> {
        match self {
            Self::Server { .. } | Self::Table { .. } if self.is_of_another(text) => Err(JsonFault(
                "it has another server with the name `lbx`: give that one another name".to_owned(),
            )),
            Self::Server { path, entry } => {
                let entry = started_by(whom.program, entry(whom.arguments));
                if self.server_in(text).is_none() {
                    return jsonc::set(text, path, &entry);
                }
                // Other members are the user's, such as an environment. New ones come first, before a value of several
                // lines moves them to lines of their own.
                let mut members: Vec<_> = entry.as_object().into_iter().flatten().collect();
                members.sort_by_key(|(key, _)| STARTS.contains(&key.as_str()));
                members.into_iter().try_fold(text.to_owned(), |text, (key, value)| {
                    let path = [path, &[key.as_str()][..]].concat();
                    let is_set = STARTS.contains(&key.as_str()) || jsonc::get(&text, &path)?.is_none();
                    if is_set { jsonc::set(&text, &path, value) } else { Ok(text) }
                })
            }
            Self::Table { name } => {
                let values = [("command", whom.program.into()), ("args", whom.arguments.to_vec().into())];
                toml_table::set(text, name, &values)
            }
            Self::Line(line) => line.set(text, OWN_SIGN),
            // The hooks of a guard do this as well.
            Self::Hook(_) if is_guarded(text) => Ok(text.to_owned()),
            Self::Hook(hook) => jsonc::add_item(text, hook.path, HOOK_SIGN, &hook.item(whom.client)),
            Self::Guard(guard) => guard.put(text, whom),
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
                        Some(_) => Err(JsonFault(format!(
                            "`{}` is set to something else than {value:?} already",
                            path.join(".")
                        ))),
                    }
                })
            }
            Self::Whole { text: own } if text.is_empty() || text.contains(OWN_SIGN) => {
                Ok(own(Recipient { guard: whom.guard || text.contains(PLUGIN_SIGN), ..whom }))
            }
            Self::Whole { .. } => Err(JsonFault("the file exists and is not one that lbx wrote".to_owned())),
        }
    }

    /// Returns the text without this piece; a piece without lbx's mark stays unless an earlier call added it.
    ///
    /// # Errors
    /// Returns the reason why it cannot be removed.
    pub fn remove(
        &self,
        text: &str,
        whom: Recipient<'_>,
        earlier: &EarlierChanges,
    ) -> Result<String, JsonFault> {
        match self {
            Self::Server { .. } | Self::Table { .. } if self.is_of_another(text) => Ok(text.to_owned()),
            Self::Server { path, entry } => {
                let Some(before) = self.before(earlier) else { return jsonc::remove(text, path) };
                let entry = entry(whom.arguments);
                entry.as_object().into_iter().flatten().try_fold(text.to_owned(), |text, (key, value)| {
                    let path = [path, &[key.as_str()][..]].concat();
                    let is_ours = STARTS.contains(&key.as_str())
                        || (jsonc::get(before, &path)?.is_none()
                            && jsonc::get(&text, &path)?.as_ref() == Some(value));
                    if is_ours { jsonc::restore(&text, &path, before) } else { Ok(text) }
                })
            }
            Self::Table { name } => match self.before(earlier) {
                Some(before) => toml_table::restore(text, name, &STARTS, before),
                None => toml_table::remove(text, name),
            },
            Self::Line(line) => line.remove(text, OWN_SIGN),
            Self::Hook(hook) => jsonc::remove_items(text, hook.path, HOOK_SIGN),
            Self::Guard(guard) => guard.remove_hooks(text, whom),
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

    /// Returns the unmarked content of this piece, for a reader, if a text has all of it.
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

/// Returns true if a list holds a text.
fn lists(text: &str, path: &[&str], item: &str) -> bool {
    let list = jsonc::get(text, path).ok().flatten();
    list.as_ref().and_then(Value::as_array).is_some_and(|list| list.iter().any(|it| it == item))
}

/// Returns true if a value is a given text.
fn says(text: &str, path: &[&str], value: &str) -> bool {
    jsonc::get(text, path).is_ok_and(|found| found.is_some_and(|found| found == value))
}

/// Returns an item of a list as JSON writes it, to find it again.
fn quoted(item: &str) -> String {
    format!("\"{item}\"")
}

/// Text of a file before and after one call of `init`; empty if there was no file.
pub struct InitChange {
    /// Text before.
    pub before: String,
    /// Text after.
    pub after: String,
}

/// State of a file before `init` was called.
pub enum InitialFile {
    /// The file did not exist.
    Missing,
    /// Bytes of the file.
    Bytes(Vec<u8>),
}

/// Changes of earlier calls to one file.
#[derive(Default)]
pub struct EarlierChanges {
    /// State before them, if nobody else has changed the file since.
    pub original: Option<InitialFile>,
    /// Calls; empty if the history has none.
    pub puts: Vec<InitChange>,
}

impl EarlierChanges {
    /// Reads the history of a file that is set up now; `is_set_up` tests a text.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn of(
        change: &Change<'_>,
        current: &LockedFile,
        is_set_up: impl Fn(&str) -> bool,
    ) -> Result<Self, Error> {
        let entries = entries(change, current)?;
        let text = |version: Option<&Version>| match version {
            None => Some(String::new()),
            Some(version) => {
                let bytes = change.bytes_seen(current.place().path(), version.sha256)?;
                String::from_utf8(bytes).ok()
            }
        };
        let mut earlier = Self::default();
        for entry in &entries {
            if let (Some(before), Some(after)) = (text(entry.before.as_ref()), text(entry.after.as_ref()))
                && is_set_up(&after)
            {
                earlier.puts.push(InitChange { before, after });
            }
        }
        // Goes back from the current bytes to the first ones that are not set up.
        let mut sha256 = current.sha256();
        let mut visited = vec![sha256];
        while let Some(call) = call_that_left(&entries, sha256, &visited) {
            let Some(version) = &call.before else {
                earlier.original = Some(InitialFile::Missing);
                break;
            };
            let Some(text) = text(Some(version)) else { break };
            if !is_set_up(&text) {
                earlier.original = Some(InitialFile::Bytes(text.into_bytes()));
                break;
            }
            sha256 = version.sha256;
            visited.push(sha256);
        }
        Ok(earlier)
    }

    /// Returns true if an earlier call added the piece that the closure finds in a text.
    pub fn added(&self, stands: impl Fn(&str) -> bool) -> bool {
        self.puts.iter().any(|put| !stands(&put.before) && stands(&put.after))
    }

    /// Returns true if the file existed before `init` first changed it, as far as known.
    pub fn existed_before(&self) -> bool {
        self.puts.first().is_some_and(|put| !put.before.is_empty())
    }
}

/// Returns the changes of `init` to a file, oldest first.
fn entries(change: &Change<'_>, current: &LockedFile) -> Result<Vec<FileEntry>, Error> {
    let Some(state) = change.state() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for session in journal::sessions(state)? {
        for seq in journal::history(state, &session)? {
            change.engine_ref().control.check()?;
            let entry = journal::history_entry(state, &session, seq)?;
            let Some(entry) = entry.filter(|entry| entry.tool == super::Init::NAME) else { continue };
            let files = entry.files.into_iter().filter(|file| file.path == *current.place().path());
            found.extend(files.map(|file| (entry.time, file)));
        }
    }
    found.sort_by_key(|(time, _)| *time);
    Ok(found.into_iter().map(|(_, file)| file).collect())
}

/// Returns the newest call that wrote the bytes `after`, changed the file, and was not visited yet.
fn call_that_left<'e>(entries: &'e [FileEntry], after: Sha256, visited: &[Sha256]) -> Option<&'e FileEntry> {
    entries.iter().rev().find(|entry| {
        entry.after.as_ref().is_some_and(|version| version.sha256 == after)
            && entry.before.as_ref().is_none_or(|version| !visited.contains(&version.sha256))
    })
}
