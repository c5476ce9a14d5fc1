//! Resources, prompts, and completion of their arguments.
//!
//! All of them use native calls, so that the gate, the policy and the session are those of the tools.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::message::{INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RESULT_BYTES_MAX, RpcError};
use crate::dialect::client::LbxClient;
use crate::error::{Error, ErrorKind};
use crate::limits::RESOURCE_BYTES_MAX;
use crate::request::quoted;
use crate::text::content::Encoding;
use crate::text::escaped::{file_path, percent_decoded};
use crate::tools::{diff, log, ls, read, session};

/// Resource with the files that this session has read and changed.
const SESSION: &str = "lbx://session";
/// Resource with the snapshots.
const LOG: &str = "lbx://log";
/// Prefix of a path in the workspace.
const FILE: &str = "lbx://file/";
/// Prefix of a snapshot and a path in it.
const SNAPSHOT: &str = "lbx://snapshot/";
/// MIME type of a text.
const TEXT: &str = "text/plain";

/// Returns the resources without arguments.
pub fn resources() -> Value {
    json!([
        { "uri": SESSION, "name": "session", "mimeType": "application/json",
          "description": "What this session has read, changed and refused" },
        { "uri": LOG, "name": "log", "mimeType": "application/json",
          "description": "The newest snapshots: one for each change" }
    ])
}

/// Returns the resources with arguments.
pub fn templates() -> Value {
    json!([
        { "uriTemplate": format!("{FILE}{{path}}"), "name": "file",
          "description": "A file of the workspace; file:///… names it, too" },
        { "uriTemplate": format!("{SNAPSHOT}{{id}}/{{path}}"), "name": "snapshot",
          "description": "A file as it was in a snapshot" }
    ])
}

/// Returns the prompts.
pub fn prompts() -> Value {
    let from = json!({
        "name": "from", "required": false,
        "description": "Snapshot or commit to compare with; this session's changes without it"
    });
    json!([
        { "name": "review", "description": "Review what this session changed", "arguments": [from] },
        { "name": "resume", "description": "Continue where this session stopped, in a fresh context" }
    ])
}

/// Reads a resource.
///
/// # Errors
/// Fails if the resource does not exist, or cannot be read.
pub fn read(lbx: &mut LbxClient<'_>, name: &str) -> Result<Value, RpcError> {
    let json = |data: Value| text(name, data.to_string(), "application/json");
    match name {
        SESSION => lbx.call::<session::Session>(json!({ "action": "status" })).map(json),
        LOG => lbx.call::<log::Log>(json!({})).map(json),
        _ => match (name.strip_prefix(SNAPSHOT), name.strip_prefix(FILE), file_path(name)) {
            (Some(rest), ..) => in_snapshot(lbx, name, rest),
            (_, Some(path), _) => file(lbx, name, &percent_decoded(path)),
            (.., Some(path)) => file(lbx, name, &path.display().to_string()),
            _ => Err(Error::new(ErrorKind::NotFound, format!("there is no resource {name}"))),
        },
    }
    .map_err(|error| refused(name, &error))
}

/// Reads a file of the workspace.
fn file(lbx: &mut LbxClient<'_>, name: &str, path: &str) -> Result<Value, Error> {
    let read = lbx.call::<read::Read>(json!({ "path": path, "limit": 0, "max_bytes": RESOURCE_BYTES_MAX }));
    match read {
        Ok(data) if data.get("truncated") == Some(&Value::Bool(true)) => return Err(too_large(name)),
        Ok(data) if data.get("encoding") != Some(&json!(Encoding::Bytes)) => {
            let content = data.get("content").and_then(Value::as_str).unwrap_or_default();
            return Ok(text(name, content, TEXT));
        }
        Err(error) if !matches!(error.kind(), ErrorKind::BinaryFile | ErrorKind::UnsupportedEncoding) => {
            return Err(error);
        }
        // As text it would be shown with losses.
        _ => {}
    }
    let base64 = lbx.base64_of(path)?;
    if base64.len() > RESULT_BYTES_MAX { Err(too_large(name)) } else { Ok(blob(name, &base64)) }
}

/// Reads a file in a snapshot: `rest` is its id and the path.
fn in_snapshot(lbx: &mut LbxClient<'_>, name: &str, rest: &str) -> Result<Value, Error> {
    let missing = || Error::new(ErrorKind::NotFound, format!("there is no resource {name}"));
    let (id, path) = rest.split_once('/').ok_or_else(missing)?;
    let (id, path) = (percent_decoded(id), percent_decoded(path));
    let bytes = lbx.file_in_snapshot(&id, Path::new(&path))?;
    if bytes.len() > RESOURCE_BYTES_MAX {
        return Err(too_large(name));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(content) => text(name, content, TEXT),
        Err(bytes) => blob(name, &STANDARD.encode(bytes.as_bytes())),
    })
}

/// Returns a content that is text.
fn text(name: &str, content: impl Into<String>, mime: &str) -> Value {
    json!({ "uri": name, "mimeType": mime, "text": content.into() })
}

/// Returns a content that is not text, in base64.
fn blob(name: &str, base64: &str) -> Value {
    json!({ "uri": name, "mimeType": "application/octet-stream", "blob": base64 })
}

/// Returns the error for a content that does not fit a message.
fn too_large(name: &str) -> Error {
    Error::new(ErrorKind::TooLarge, format!("{name} is too large for a message; read it in parts with read"))
}

/// Returns an error in the protocol's form.
fn refused(name: &str, error: &Error) -> RpcError {
    let code = match error.kind() {
        ErrorKind::NotFound => RESOURCE_NOT_FOUND,
        ErrorKind::Internal => INTERNAL_ERROR,
        _ => INVALID_PARAMS,
    };
    RpcError::new(code, error.message())
        .with_data(json!({ "uri": quoted(name), "kind": error.kind().name() }))
}

/// Returns the text of a prompt.
///
/// # Errors
/// Fails if the prompt does not exist, does not have one of the arguments, or cannot be made with their values.
pub fn prompt(
    lbx: &mut LbxClient<'_>,
    name: &str,
    arguments: &BTreeMap<String, String>,
) -> Result<Value, RpcError> {
    let prompt = CompletionReference::Prompt { name: name.to_owned() };
    let unknown = arguments.keys().find(|argument| !takes(&prompt, argument));
    let text = match (name, unknown) {
        ("review" | "resume", Some(argument)) => {
            let message = format!("the prompt {name} has no argument {:?}", quoted(argument));
            return Err(RpcError::new(INVALID_PARAMS, message));
        }
        ("review", None) => review(lbx, json!(arguments)),
        ("resume", None) => lbx.call::<session::Session>(json!({ "action": "brief" })).map(|data| {
            let brief = data.get("brief").and_then(Value::as_str).unwrap_or_default();
            format!("Continue this work. This is what the session has done so far:\n\n{brief}")
        }),
        _ => return Err(RpcError::new(INVALID_PARAMS, format!("there is no prompt {:?}", quoted(name)))),
    };
    let text = text.map_err(|error| {
        let code = if error.kind() == ErrorKind::Internal { INTERNAL_ERROR } else { INVALID_PARAMS };
        RpcError::new(code, error.message()).with_data(json!({ "kind": error.kind().name() }))
    })?;
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    Ok(json!({ "messages": [message] }))
}

/// Returns the text of the prompt to review the changes that the tool `diff` shows for `asked`.
fn review(lbx: &mut LbxClient<'_>, asked: Value) -> Result<String, Error> {
    let data = lbx.call::<diff::Diff>(asked)?;
    let diff = data.get("diff").and_then(Value::as_str).unwrap_or_default();
    // A fence ends at the first line with as many backticks, which the diff may have.
    let mut fence = "```".to_owned();
    while diff.contains(&fence) {
        fence.push('`');
    }
    let mut said = format!(
        "Review these changes: look for errors, for what is missing, and for what was not asked for. Name file and line \
         of each finding.\n\n{fence}diff\n{diff}{fence}"
    );
    let rest = data.get("next_offset").map(|next| {
        format!("only the first {next} lines of the diff are here: the tool `diff` shows the rest, from `offset` {next} on")
    });
    let notes = std::mem::take(&mut lbx.outcome.warnings).into_iter().chain(rest);
    said.extend(notes.map(|note| format!("\n\nNote: {note}.")));
    Ok(said)
}

/// A prompt or a resource whose argument is completed.
#[derive(Deserialize)]
#[serde(tag = "type")]
pub enum CompletionReference {
    /// Prompt.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// Its name.
        name: String,
    },
    /// Resource.
    #[serde(rename = "ref/resource")]
    Resource {
        /// Its template.
        uri: String,
    },
}

/// Returns true if there is such a prompt or resource, with such an argument.
pub fn takes(reference: &CompletionReference, argument: &str) -> bool {
    let (known, field, wanted) = match reference {
        CompletionReference::Prompt { name } => (prompts(), "name", name),
        CompletionReference::Resource { uri } => (templates(), "uriTemplate", uri),
    };
    let known = known.as_array().into_iter().flatten().find(|known| known.get(field) == Some(&json!(wanted)));
    let arguments = known.and_then(|prompt| prompt.get("arguments")?.as_array()).into_iter().flatten();
    let in_template = field == "uriTemplate" && wanted.contains(&format!("{{{argument}}}"));
    known.is_some()
        && (in_template || arguments.into_iter().any(|known| known.get("name") == Some(&json!(argument))))
}

/// Returns the values of a resource's argument that begin with `begun`.
pub fn completions(lbx: &mut LbxClient<'_>, argument: &str, begun: &str) -> Value {
    /// Largest number of values in a response, by the protocol.
    const VALUES_MAX: usize = 100;
    let mut values = match argument {
        "path" => paths(lbx, begun),
        "id" | "from" => snapshots(lbx, begun),
        _ => Vec::new(),
    };
    let total = values.len();
    values.truncate(VALUES_MAX);
    json!({ "values": values, "total": total, "hasMore": total > VALUES_MAX })
}

/// Returns the workspace paths with a prefix; folders end in a slash.
fn paths(lbx: &mut LbxClient<'_>, begun: &str) -> Vec<String> {
    let (folder, name) = begun.rsplit_once('/').map_or((".", begun), |(folder, name)| (folder, name));
    let asked = json!({ "path": folder, "hidden": name.starts_with('.'), "limit": 0, "max_bytes": 0 });
    let Ok(data) = lbx.call::<ls::Ls>(asked) else { return Vec::new() };
    let entries = data.get("entries").and_then(Value::as_array).cloned().unwrap_or_default();
    let path = |entry: &Value| {
        let slash = if entry.get("type").is_some_and(|kind| kind == "dir") { "/" } else { "" };
        entry.get("path").and_then(Value::as_str).map(|path| format!("{path}{slash}"))
    };
    entries.iter().filter_map(path).filter(|path| path.starts_with(begun)).collect()
}

/// Returns the ids of snapshots with a prefix, newest first.
fn snapshots(lbx: &mut LbxClient<'_>, begun: &str) -> Vec<String> {
    let Ok(data) = lbx.call::<log::Log>(json!({ "limit": 1000, "max_bytes": 0 })) else { return Vec::new() };
    let list = data.get("snapshots").and_then(Value::as_array).cloned().unwrap_or_default();
    let ids = list.iter().filter_map(|snapshot| snapshot.get("id")?.as_str().map(str::to_owned));
    ids.filter(|id| id.starts_with(begun)).collect()
}
