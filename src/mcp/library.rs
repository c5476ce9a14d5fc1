//! Resources, prompts, and completion of their arguments.
//!
//! All of them use native calls, so that the gate, the policy and the session are those of the tools.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::ErrorData;
use rmcp::model::{
    CompletionInfo, GetPromptResult, Prompt, PromptArgument, PromptMessage, Reference, Resource,
    ResourceContents, ResourceTemplate, Role,
};
use serde_json::{Value, json};

use super::answer::RESULT_BYTES_MAX;
use super::uri::{self, FILE, SNAPSHOT};
use crate::dialect::client::LbxClient;
use crate::error::{Error, ErrorKind};
use crate::request::quoted;
use crate::tools::{diff, log, ls, read, session};

/// Resource with the files that this session has read and changed.
const SESSION: &str = "lbx://session";
/// Resource with the snapshots.
const LOG: &str = "lbx://log";
/// Largest file, in bytes: twice that, escaped, still fits a message.
const FILE_BYTES_MAX: usize = 1_700_000;

/// Returns the resources without arguments.
#[must_use]
pub fn resources() -> Vec<Resource> {
    vec![
        Resource::new(SESSION, "session")
            .with_description("What this session has read, changed and refused")
            .with_mime_type("application/json"),
        Resource::new(LOG, "log")
            .with_description("The newest snapshots: one for each change")
            .with_mime_type("application/json"),
    ]
}

/// Returns the resources with arguments.
#[must_use]
pub fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{FILE}{{path}}"), "file")
            .with_description("A file of the workspace; file:///… names it, too"),
        ResourceTemplate::new(format!("{SNAPSHOT}{{id}}/{{path}}"), "snapshot")
            .with_description("A file as it was in a snapshot"),
    ]
}

/// Returns the prompts.
#[must_use]
pub fn prompts() -> Vec<Prompt> {
    let from = PromptArgument::new("from")
        .with_description("Snapshot or commit to compare with; this session's changes without it")
        .with_required(false);
    vec![
        Prompt::new("review", Some("Review what this session changed"), Some(vec![from])),
        Prompt::new("resume", Some("Continue where this session stopped, in a fresh context"), None),
    ]
}

/// Reads a resource.
///
/// # Errors
/// Fails if the resource does not exist, or cannot be read.
pub fn read(lbx: &mut LbxClient<'_>, name: &str) -> Result<ResourceContents, ErrorData> {
    let json =
        |data: Value| ResourceContents::text(data.to_string(), name).with_mime_type("application/json");
    match name {
        SESSION => lbx.call::<session::Session>(json!({ "action": "status" })).map(json),
        LOG => lbx.call::<log::Log>(json!({})).map(json),
        _ => match (name.strip_prefix(SNAPSHOT), name.strip_prefix(FILE), uri::file_path(name)) {
            (Some(rest), ..) => in_snapshot(lbx, name, rest),
            (_, Some(path), _) => file(lbx, name, &uri::decoded(path)),
            (.., Some(path)) => file(lbx, name, &path.display().to_string()),
            _ => Err(Error::new(ErrorKind::NotFound, format!("there is no resource {name}"))),
        },
    }
    .map_err(|error| refused(name, &error))
}

/// Reads a file of the workspace.
fn file(lbx: &mut LbxClient<'_>, name: &str, path: &str) -> Result<ResourceContents, Error> {
    let read = lbx.call::<read::Read>(json!({ "path": path, "limit": 0, "max_bytes": FILE_BYTES_MAX }));
    match read {
        Ok(data) if data.get("truncated") == Some(&Value::Bool(true)) => Err(too_large(name)),
        Ok(data) => {
            let content = data.get("content").and_then(Value::as_str).unwrap_or_default();
            Ok(ResourceContents::text(content, name))
        }
        Err(error) if error.kind() == ErrorKind::BinaryFile => {
            let base64 = lbx.base64_of(path)?;
            if base64.len() > RESULT_BYTES_MAX {
                return Err(too_large(name));
            }
            Ok(ResourceContents::blob(base64, name).with_mime_type("application/octet-stream"))
        }
        Err(error) => Err(error),
    }
}

/// Reads a file in a snapshot: `rest` is its id and the path.
fn in_snapshot(lbx: &mut LbxClient<'_>, name: &str, rest: &str) -> Result<ResourceContents, Error> {
    let missing = || Error::new(ErrorKind::NotFound, format!("there is no resource {name}"));
    let (id, path) = rest.split_once('/').ok_or_else(missing)?;
    let (id, path) = (uri::decoded(id), uri::decoded(path));
    let bytes = lbx.file_in_snapshot(&id, Path::new(&path))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(too_large(name));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, name),
        Err(bytes) => ResourceContents::blob(STANDARD.encode(bytes.as_bytes()), name)
            .with_mime_type("application/octet-stream"),
    })
}

/// Returns the error for a content that does not fit a message.
fn too_large(name: &str) -> Error {
    Error::new(ErrorKind::TooLarge, format!("{name} is too large for a message; read it in parts with read"))
}

/// Returns an error in the protocol's form.
fn refused(name: &str, error: &Error) -> ErrorData {
    let data = Some(json!({ "uri": quoted(name), "kind": error.kind().name() }));
    match error.kind() {
        ErrorKind::NotFound => ErrorData::resource_not_found(error.message().to_owned(), data),
        ErrorKind::Internal => ErrorData::internal_error(error.message().to_owned(), data),
        _ => ErrorData::invalid_params(error.message().to_owned(), data),
    }
}

/// Returns the text of a prompt.
///
/// # Errors
/// Fails if the prompt does not exist.
pub fn prompt(lbx: &mut LbxClient<'_>, name: &str, from: Option<&str>) -> Result<GetPromptResult, ErrorData> {
    let text = match name {
        "review" => {
            let asked = from.map_or_else(|| json!({}), |from| json!({ "from": from }));
            let data = lbx.call::<diff::Diff>(asked).map_err(|error| refused(name, &error))?;
            let diff = data.get("diff").and_then(Value::as_str).unwrap_or_default();
            format!(
                "Review these changes: look for errors, for what is missing, and for what was not asked for. Name file \
                 and line of each finding.\n\n```diff\n{diff}```"
            )
        }
        "resume" => {
            let data = lbx
                .call::<session::Session>(json!({ "action": "brief" }))
                .map_err(|error| refused(name, &error))?;
            let brief = data.get("brief").and_then(Value::as_str).unwrap_or_default();
            format!("Continue this work. This is what the session has done so far:\n\n{brief}")
        }
        _ => return Err(ErrorData::invalid_params(format!("there is no prompt {:?}", quoted(name)), None)),
    };
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
}

/// Returns true if there is such a prompt or resource, with such an argument.
#[must_use]
pub fn takes(reference: &Reference, argument: &str) -> bool {
    let (prompt, uri) = (reference.as_prompt_name(), reference.as_resource_uri());
    let of_prompt = |prompt: &Prompt| prompt.arguments.iter().flatten().any(|known| known.name == argument);
    let in_template = format!("{{{argument}}}");
    prompts().iter().any(|known| prompt == Some(known.name.as_str()) && of_prompt(known))
        || templates().iter().any(|known| {
            uri == Some(known.uri_template.as_str()) && known.uri_template.contains(&in_template)
        })
}

/// Returns the values of a resource's argument that begin with `begun`.
#[must_use]
pub fn completions(lbx: &mut LbxClient<'_>, argument: &str, begun: &str) -> CompletionInfo {
    let mut values = match argument {
        "path" => paths(lbx, begun),
        "id" | "from" => snapshots(lbx, begun),
        _ => Vec::new(),
    };
    let total = values.len();
    values.truncate(CompletionInfo::MAX_VALUES);
    let mut info = CompletionInfo::new(values).unwrap_or_default();
    info.total = u32::try_from(total).ok();
    info.has_more = Some(total > CompletionInfo::MAX_VALUES);
    info
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
