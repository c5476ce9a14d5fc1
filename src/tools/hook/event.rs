//! An event of a client in one form, whatever the client calls its fields, and the response in the form of the client.

use std::collections::HashSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::client::{HookClient, Moment, ReplyForm, ToolKind};
use crate::error::Error;
use crate::request::{whole_characters, without_bom};
use crate::sha256::Sha256;
use crate::text::checked::str_or_empty;
use crate::text::escaped;

/// Digits of a hash that stand for an id of the client in the name of a session or note.
const ID_DIGITS: usize = 8;
/// Names of the field with the event.
const EVENT: &[&str] = &["hook_event_name", "hookEventName", "hookName", "event"];
/// Names of the field with the conversation.
const CONVERSATION: &[&str] = &["conversation_id", "conversationId", "session_id", "sessionId", "sessionID"];
/// Names of the field with the turn.
const TURN: &[&str] = &["prompt_id", "promptId", "turn_id", "turnId", "generation_id"];
/// Names of the field with the subagent.
const AGENT: &[&str] = &["agent_id", "agentId"];
/// Names of the field with the call of a tool.
const CALL: &[&str] = &["tool_use_id", "toolUseId", "tool_call_id", "toolCallId", "callID", "call_id"];
/// Names of the field with the tool.
const TOOL: &[&str] = &["tool_name", "toolName", "tool"];
/// Names of the field with the arguments of the tool.
const INPUT: &[&str] = &["tool_input", "toolInput", "tool_args", "toolArgs", "args", "input"];
/// Names of the field with the result of the tool.
const OUTPUT: &[&str] =
    &["tool_response", "toolResponse", "tool_result", "toolResult", "tool_output", "output"];
/// Names of the field of a result with the text that the model sees.
const SHOWN: &[&str] = &["llmContent", "textResultForLlm", "text"];
/// Names of the field with the client's current folder.
const FOLDER: &[&str] = &["cwd"];
/// Names of the field with the prompt.
const PROMPT: &[&str] = &["prompt", "user_prompt", "userPrompt", "initialPrompt"];
/// Names of the field with the name of a worktree.
const WORKTREE_NAME: &[&str] = &["name"];
/// Names of the field with the path of a worktree.
const WORKTREE_PATH: &[&str] = &["worktree_path"];
/// Names of an argument with a path.
const PATHS: &[&str] =
    &["file_path", "filePath", "absolute_path", "path", "notebook_path", "TargetFile", "AbsolutePath", "uri"];
/// Names of an argument with a patch in the form of `apply_patch`.
const PATCHES: &[&str] = &["patchText", "patch", "input", "command"];
/// Names of an argument with several files or edits.
const LISTS: &[&str] = &["edits", "files", "replacements"];
/// Names of an argument with the whole text of a file.
const CONTENTS: &[&str] = &["content", "file_text", "CodeContent"];
/// Names of an argument with the text to replace.
const OLD_TEXTS: &[&str] = &["old_string", "oldString", "old_str", "oldText", "TargetContent"];
/// Names of an argument with the text in its place.
const NEW_TEXTS: &[&str] = &["new_string", "newString", "new_str", "newText", "ReplacementContent"];
/// Names of an argument that replaces each match.
const ALL_MATCHES: &[&str] = &["replace_all", "replaceAll", "AllowMultiple"];
/// Names of an argument with a command.
const COMMANDS: &[&str] = &["command", "CommandLine"];
/// Names of an argument that lets a command go on after its call, and of a result that says so.
const BACKGROUND: &[&str] =
    &["run_in_background", "is_background", "isBackground", "background", "backgroundTaskId"];
/// Beginnings of the lines of a patch that name a file, each with true if the patch has all of its bytes.
const PATCHED: [(&str, bool); 4] = [
    ("*** Update File: ", false),
    ("*** Add File: ", true),
    ("*** Delete File: ", false),
    ("*** Move to: ", true),
];

/// An event.
#[derive(Debug)]
pub struct Event {
    /// Its name in the client.
    pub name: String,
    /// Meaning of the event; `None` for one that lbx does nothing for.
    pub moment: Option<Moment>,
    /// The client's name for the conversation.
    pub conversation: Option<String>,
    /// The client's name for the turn.
    pub turn: Option<String>,
    /// The client's name for the subagent.
    pub agent: Option<String>,
    /// The client's name for the call.
    call: Option<String>,
    /// Tool of the call.
    pub tool: String,
    /// Kind of the tool.
    pub kind: ToolKind,
    /// Arguments of the call.
    pub input: Value,
    /// Result of the call.
    pub output: Value,
    /// Prompt of the turn.
    pub prompt: Option<String>,
    /// Folder from which the client's relative paths count.
    folder: PathBuf,
}

impl Event {
    /// Reads the event of a client; `named` is its name, if the client does not say it.
    ///
    /// # Errors
    /// Fails with `invalid_request` if the text is no JSON object, or names no event.
    pub fn parse(client: &HookClient, named: Option<&str>, text: &str) -> Result<Self, Error> {
        let json = without_bom(text.as_bytes());
        // JavaScript writes half of a character as an escape that is no character.
        let parsed = serde_json::from_slice(json)
            .or_else(|_| serde_json::from_str(&whole_characters(&String::from_utf8_lossy(json))));
        let mut fields: Value = parsed
            .map_err(|error| Error::invalid(format!("the event of {} is not JSON: {error}", client.name)))?;
        let name = named.map(str::to_owned).or_else(|| word(&fields, EVENT));
        let name = name.filter(|_| fields.is_object()).ok_or_else(|| {
            Error::invalid(format!("the event of {} has no name", client.name))
                .suggest("Give the event's JSON object on stdin, or name the event: `lbx hook CLIENT EVENT`.")
        })?;
        let moment = client.moment(&name);
        let has_error = |output: &Value| {
            found(output, &["error"]).is_some()
                || output.get("resultType").is_some_and(|result| result != "success")
        };
        // Only Cursor encodes its result: to others, such a text is that of a file.
        let encoded = fields.get("tool_output").map(decoded);
        let has_failed = found(&fields, OUTPUT).into_iter().chain(&encoded).any(has_error);
        let moment = if has_failed && moment == Some(Moment::After) { Some(Moment::Failed) } else { moment };
        // Antigravity has the tool and its arguments in an object of their own.
        let inner = fields.get_mut("toolCall").map(Value::take);
        if let (Some(Value::Object(mut call)), Some(fields)) = (inner, fields.as_object_mut()) {
            for (name, inner) in [("tool", "name"), ("args", "args")] {
                fields.insert(name.to_owned(), call.remove(inner).unwrap_or_default());
            }
        }
        let tool = word(&fields, TOOL).unwrap_or_default();
        // Some clients give the arguments as a text, and some events have them among their own fields.
        let input = found(&fields, INPUT).map_or_else(|| fields.clone(), decoded);
        Ok(Self {
            moment,
            conversation: word(&fields, CONVERSATION),
            turn: word(&fields, TURN),
            agent: word(&fields, AGENT),
            call: word(&fields, CALL),
            kind: client.kind(&tool, &input),
            tool: if tool.is_empty() { name.clone() } else { tool },
            input,
            output: found(&fields, OUTPUT).map_or(Value::Null, decoded),
            prompt: word(&fields, PROMPT),
            folder: word(&fields, FOLDER)
                .map(PathBuf::from)
                .filter(|folder| folder.is_absolute())
                .or_else(|| std::env::current_dir().ok())
                .unwrap_or_default(),
            name,
        })
    }

    /// Returns the paths that the call names, each once, with true if it replaces the whole file.
    pub fn paths(&self) -> Vec<(PathBuf, bool)> {
        let mut paths: Vec<(PathBuf, bool)> = Vec::new();
        let mut known = HashSet::new();
        let is_whole = self.kind == ToolKind::Write;
        let named = PATHS.iter().filter_map(|name| self.input.get(name)?.as_str().map(str::to_owned));
        let several =
            self.items().filter_map(|item| item.as_str().map(str::to_owned).or_else(|| word(item, PATHS)));
        let patches = PATCHES.iter().filter_map(|name| self.input.get(name)?.as_str());
        let patches = patches.chain(self.input.as_str()).filter(|_| self.kind == ToolKind::Patch);
        let patched = patches.flat_map(str::lines).filter_map(|line| {
            let named =
                |(start, is_whole): &(&str, bool)| Some((line.strip_prefix(start)?.trim(), *is_whole));
            PATCHED.iter().find_map(named).map(|(path, is_whole)| (path.to_owned(), is_whole))
        });
        for (path, is_whole) in named.chain(several).map(|path| (path, is_whole)).chain(patched) {
            let is_named = !path.is_empty();
            let path = self.folder.join(escaped::file_path(&path).unwrap_or_else(|| path.into()));
            if is_named && known.insert(path.clone()) {
                paths.push((path, is_whole));
            }
        }
        paths
    }

    /// Returns the files or edits that the call lists.
    fn items(&self) -> impl Iterator<Item = &Value> {
        LISTS.iter().filter_map(|name| self.input.get(name)?.as_array()).flatten()
    }

    /// Returns the text that the call makes of its only file, without CR; `None` if its arguments do not say so.
    pub fn outcome(&self, old: &str) -> Option<String> {
        let text = |of: &Value, names: &[&str]| {
            let found = names.iter().find_map(|name| of.get(name)?.as_str());
            found.map(|text| text.replace('\r', ""))
        };
        match self.kind {
            ToolKind::Write => return text(&self.input, CONTENTS),
            ToolKind::Edit => {}
            _ => return None,
        }
        let edits: Vec<&Value> = self.items().collect();
        let edits = if edits.is_empty() { vec![&self.input] } else { edits };
        edits.into_iter().try_fold(old.replace('\r', ""), |now, edit| {
            let (old, new) = (text(edit, OLD_TEXTS)?, text(edit, NEW_TEXTS)?);
            let is_all = ALL_MATCHES.iter().any(|name| edit.get(name).is_some_and(|all| *all == true));
            if old.is_empty() {
                return now.is_empty().then_some(new);
            }
            let matches = now.matches(&old).take(if is_all { usize::MAX } else { 1 }).count();
            let fits = now.len().saturating_add(matches.saturating_mul(new.len())) <= OUTCOME_BYTES_MAX;
            (fits && matches > 0).then(|| now.replacen(&old, &new, matches))
        })
    }

    /// Returns the command of a shell.
    pub fn command(&self) -> Option<&str> {
        COMMANDS.iter().find_map(|name| self.input.get(name)?.as_str())
    }

    /// Returns true if the command goes on after the call.
    pub fn is_background(&self) -> bool {
        let is_set = |value: &Value| *value == true || value.is_string();
        let sides = [&self.input, &self.output];
        sides.iter().any(|side| BACKGROUND.iter().any(|name| side.get(name).is_some_and(is_set)))
    }

    /// Returns the name of the argument with the command.
    pub fn command_field(&self) -> &'static str {
        COMMANDS.iter().find(|name| self.input.get(name).is_some()).copied().unwrap_or("command")
    }

    /// Returns the time limit of the command, if the call names one in milliseconds.
    pub fn timeout_ms(&self) -> Option<u64> {
        self.input.get("timeout")?.as_u64().filter(|ms| *ms >= 1000)
    }

    /// Returns the text that the model sees as the result, if the event has it.
    pub fn shown_text(&self) -> Option<String> {
        text_of(&self.output).filter(|text| !text.is_empty())
    }

    /// Returns the reason why a context is new, if the client says it.
    pub fn source(&self) -> Option<&str> {
        self.input.get("source")?.as_str()
    }

    /// Returns the name of the worktree that is wanted, if the event is about one.
    pub fn worktree_name(&self) -> Option<String> {
        word(&self.input, WORKTREE_NAME)
    }

    /// Returns the path of the worktree that is not wanted any more.
    pub fn worktree_path(&self) -> Option<PathBuf> {
        word(&self.input, WORKTREE_PATH).map(|path| self.folder.join(path))
    }

    /// Returns a name for the call that is the same before and after it.
    pub fn call(&self) -> String {
        let named = self.call.clone();
        let key = named.unwrap_or_else(|| format!("{}\n{}\n{}", self.tool, self.input, self.conversation()));
        short(&key)
    }

    /// Returns the client's name for the conversation, or nothing.
    pub fn conversation(&self) -> &str {
        self.conversation.as_deref().unwrap_or_default()
    }
}

/// Returns digits that stand for an id of any form.
pub fn short(id: &str) -> String {
    let digits = Sha256::of(id.as_bytes()).to_hex();
    str_or_empty(&digits, ..ID_DIGITS).to_owned()
}

/// Returns the first of some fields that is there.
fn found<'v>(fields: &'v Value, names: &[&str]) -> Option<&'v Value> {
    names.iter().find_map(|name| fields.get(name).filter(|value| !value.is_null()))
}

/// Returns the first of some fields, as a word; a number becomes one.
fn word(fields: &Value, names: &[&str]) -> Option<String> {
    match found(fields, names)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns a value that may be JSON within a text.
fn decoded(value: &Value) -> Value {
    let inner = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    inner.filter(Value::is_object).unwrap_or_else(|| value.clone())
}

/// Returns the text of a result, which may be in parts.
fn text_of(output: &Value) -> Option<String> {
    match output {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(parts.iter().filter_map(text_of).collect()),
        _ => SHOWN.iter().find_map(|name| text_of(output.get(name)?)),
    }
}

/// Largest text that is worked out from an edit, in bytes: a short text may be replaced by a long one many times.
const OUTCOME_BYTES_MAX: usize = 64 << 20;

/// Answer of a hook to an event.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Silent,
    /// The call must not be made; the reason.
    Deny(String),
    /// A text for the model.
    Context(String),
    /// A line for the user.
    Line(String),
    /// The call is made with this command.
    Command(String),
}

impl ReplyForm {
    /// Returns the response with a verdict; `None` if there is nothing to say.
    pub fn reply(self, event: &Event, verdict: &Verdict) -> Option<Value> {
        match self {
            Self::Nested => nested(event, verdict, false),
            Self::NestedAllowed => nested(event, verdict, true),
            Self::Decision => decision(event, verdict),
            Self::Explicit => Some(explicit(event, verdict)),
            Self::Permission => permission(event, verdict),
            Self::Flat => flat(event, verdict),
            Self::Plain => plain(verdict),
        }
    }
}

/// Returns a response in a field with the event's name. A changed call is allowed only if it must be: else the client
/// asks its user about it as about any other.
fn nested(event: &Event, verdict: &Verdict, allows: bool) -> Option<Value> {
    let mut fields = match verdict {
        Verdict::Silent => return None,
        Verdict::Line(line) => return Some(json!({ "systemMessage": line })),
        Verdict::Deny(reason) => json!({ "permissionDecision": "deny", "permissionDecisionReason": reason }),
        Verdict::Context(text) => json!({ "additionalContext": text }),
        Verdict::Command(command) if allows => {
            json!({ "permissionDecision": "allow", "updatedInput": with_command(event, command) })
        }
        Verdict::Command(command) => json!({ "updatedInput": with_command(event, command) }),
    };
    if let Some(fields) = fields.as_object_mut() {
        fields.insert("hookEventName".to_owned(), event.name.as_str().into());
    }
    Some(json!({ "hookSpecificOutput": fields }))
}

/// Returns a response with a decision, if there is one to make.
fn decision(event: &Event, verdict: &Verdict) -> Option<Value> {
    Some(match verdict {
        Verdict::Silent => return None,
        Verdict::Line(line) => json!({ "systemMessage": line }),
        Verdict::Deny(reason) => json!({ "decision": "deny", "reason": reason }),
        Verdict::Context(text) => json!({ "hookSpecificOutput": { "additionalContext": text } }),
        Verdict::Command(command) => {
            json!({ "hookSpecificOutput": { "tool_input": with_command(event, command) } })
        }
    })
}

/// Returns a response with a decision for every call.
fn explicit(event: &Event, verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Deny(reason) => json!({ "decision": "deny", "reason": reason }),
        Verdict::Command(command) => {
            json!({ "decision": "allow", "overwrite": { event.command_field(): command } })
        }
        _ if event.moment == Some(Moment::Before) => json!({ "decision": "allow" }),
        _ => json!({}),
    }
}

/// Returns a response with a permission. A line for the user has no place: the last event takes a message for the
/// model alone, which would begin another turn.
fn permission(event: &Event, verdict: &Verdict) -> Option<Value> {
    Some(match verdict {
        Verdict::Silent | Verdict::Line(_) => return None,
        Verdict::Deny(reason) => {
            json!({ "permission": "deny", "user_message": reason, "agent_message": reason })
        }
        Verdict::Context(text) if event.moment == Some(Moment::Before) => {
            json!({ "permission": "allow", "agent_message": text })
        }
        Verdict::Context(text) => json!({ "additional_context": text }),
        Verdict::Command(command) => {
            json!({ "permission": "allow", "updated_input": with_command(event, command) })
        }
    })
}

/// Returns a response whose fields have no frame. A line for the user has no place.
fn flat(event: &Event, verdict: &Verdict) -> Option<Value> {
    Some(match verdict {
        Verdict::Silent | Verdict::Line(_) => return None,
        Verdict::Deny(reason) => json!({ "permissionDecision": "deny", "permissionDecisionReason": reason }),
        Verdict::Context(text) => json!({ "additionalContext": text }),
        Verdict::Command(command) => json!({ "modifiedArgs": with_command(event, command) }),
    })
}

/// Returns a response for a plugin that lbx wrote.
fn plain(verdict: &Verdict) -> Option<Value> {
    Some(match verdict {
        Verdict::Silent => return None,
        Verdict::Line(line) => json!({ "line": line }),
        Verdict::Deny(reason) => json!({ "deny": reason }),
        Verdict::Context(text) => json!({ "context": text }),
        Verdict::Command(command) => json!({ "command": command }),
    })
}

/// Returns the arguments of a call with another command.
fn with_command(event: &Event, command: &str) -> Value {
    let mut input = event.input.clone();
    if let Some(fields) = input.as_object_mut() {
        fields.insert(event.command_field().to_owned(), command.into());
    }
    input
}
