//! `anthropic-memory`: the memory tool that Claude models are trained on. `/memories` is the workspace
//! root.
//!
//! The differences of [`MEMORY`] list the points where lbx is stricter than the tool of the Anthropic SDK.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::client::{
    LbxClient, cat_n, display, first_replacement, list, not_shown, number, numbered, terminator, text,
};
use super::tool::{Dialect, ToolOutput, refused, required, tool};
use crate::error::{Error, ErrorKind};
use crate::tools::{delete, edit, insert, r#move, read, write};

/// Dialect `anthropic-memory`.
pub const MEMORY: Dialect = Dialect {
    name: "anthropic-memory",
    is_model_family: true,
    tools: &[tool!(
        "memory", Writes, memory,
        fields: &[
            ("old_string", "old_str"), ("new_string", "new_str"), ("line", "insert_line"),
            ("from", "old_path"), ("to", "new_path"),
        ]
    )],
    names: &[
        ("read", "view"),
        ("ls", "view"),
        ("edit", "str_replace"),
        ("insert", "insert"),
        ("delete", "delete"),
        ("move", "rename"),
    ],
    error_texts: &[
        (
            ErrorKind::NoMatch,
            "No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}.",
        ),
        (
            ErrorKind::AmbiguousMatch,
            "No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: {lines}. Please ensure it is unique",
        ),
        (ErrorKind::NotFound, "The path {path} does not exist. Please provide a valid path."),
        (ErrorKind::AlreadyExists, "File {path} already exists"),
        (ErrorKind::IsADirectory, "The path {path} is not a file."),
        (ErrorKind::OutsideWorkspace, "Path {path} would escape /memories directory"),
        (
            ErrorKind::NotRead,
            "The file {path} must be viewed before it is changed. View it, then repeat the command.",
        ),
        (
            ErrorKind::StaleFile,
            "The file {path} must be viewed before it is changed. View it, then repeat the command.",
        ),
    ],
    error_frame: "{}",
    differences: &[
        "/memories is the workspace: --workspace DIR puts it into any folder.",
        "str_replace and insert need a file that was viewed and has not changed since.",
        "What delete removes can be restored.",
        "Text that is inserted gets the line endings of the file.",
        "A long view ends where the response is full: view_range shows the rest.",
        "A view that begins past the end of the file says so in a warning.",
        "A path must be /memories or below it, and one that ends in / is shown without it.",
    ],
};

/// Prefix of all paths of this tool.
const ROOT: &str = "/memories";
/// Levels of a directory that `view` lists.
const VIEW_DEPTH: u64 = 2;
/// Lines to show before and after a change.
const SNIPPET_CONTEXT: u64 = 2;

/// Operation on the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Command {
    /// Show a file, or list a directory
    View,
    /// Create a file
    Create,
    /// Replace text that occurs exactly once
    StrReplace,
    /// Insert text after a line
    Insert,
    /// Delete a file or directory
    Delete,
    /// Rename or move a file or directory
    Rename,
}

/// Views and changes the memory: files and directories below /memories.
#[derive(Debug, Deserialize, JsonSchema)]
struct MemoryRequest {
    /// Operation
    command: Command,
    /// The file or directory, beginning with /memories
    path: Option<String>,
    /// First and last line to view; -1 as the last is the end of the file
    view_range: Option<Vec<i64>>,
    /// The content of the file to create
    file_text: Option<String>,
    /// The text to replace
    old_str: Option<String>,
    /// The replacement
    new_str: Option<String>,
    /// The line after which to insert; 0 for the start of the file
    insert_line: Option<i64>,
    /// The text to insert
    insert_text: Option<String>,
    /// The path to rename
    old_path: Option<String>,
    /// The new path
    new_path: Option<String>,
}

/// Returns a parameter that the command needs.
fn wanted<'v>(value: Option<&'v String>, name: &str) -> Result<&'v str, Error> {
    required(value.map(String::as_str), name, &format!("Parameter `{name}`"))
}

/// Runs `memory`.
fn memory(lbx: &mut LbxClient<'_>, request: MemoryRequest) -> Result<ToolOutput, Error> {
    lbx.root_name = Some(ROOT);
    let path = || wanted(request.path.as_ref(), "path");
    match request.command {
        Command::View => view(lbx, path()?, request.view_range.as_deref()),
        Command::Create => create(lbx, path()?, wanted(request.file_text.as_ref(), "file_text")?),
        Command::StrReplace => {
            let (path, old) = (path()?, wanted(request.old_str.as_ref(), "old_str")?);
            replace(lbx, path, old, request.new_str.as_deref().unwrap_or_default())
        }
        Command::Insert => {
            let line = request.insert_line.unwrap_or(0);
            insert(lbx, path()?, line, wanted(request.insert_text.as_ref(), "insert_text")?)
        }
        Command::Delete => delete(lbx, path()?),
        Command::Rename => {
            let old = wanted(request.old_path.as_ref(), "old_path")?;
            rename(lbx, old, wanted(request.new_path.as_ref(), "new_path")?)
        }
    }
}

/// Fails unless a path is absolute and begins with the name of the root.
fn must_be_below_root(path: &str) -> Result<(), Error> {
    let rest = path.strip_prefix(ROOT).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    rest.map(drop).ok_or_else(|| invalid(path, format!("Path must start with {ROOT}, got: {path}")))
}

/// Returns an error with this tool's own text.
fn invalid(path: &str, words: impl Into<String>) -> Error {
    refused(ErrorKind::InvalidRequest, path, words)
}

/// Shows a file or a directory.
fn view(lbx: &mut LbxClient<'_>, path: &str, range: Option<&[i64]>) -> Result<ToolOutput, Error> {
    must_be_below_root(path)?;
    if lbx.is_folder(path)? {
        return directory(lbx, path);
    }
    let (first, last) = match range {
        Some(&[first, last]) => (first.max(1).unsigned_abs(), u64::try_from(last).ok()),
        _ => (1, None),
    };
    let lines = lines(lbx, path, first, last)?;
    Ok(format!("Here's the content of {path} with line numbers:\n{lines}").into())
}

/// Returns lines of a file with their numbers. The text after the last newline counts as a line, as in the original
/// tool; so each file has at least one line.
fn lines(lbx: &mut LbxClient<'_>, path: &str, first: u64, last: Option<u64>) -> Result<String, Error> {
    let count = last.map(|last| (last + 1).saturating_sub(first));
    if count == Some(0) {
        // No lines are requested, but the file must exist.
        return lbx.facts(path).map(|_| String::new());
    }
    let asked = json!({ "path": path, "offset": first - 1, "limit": count.unwrap_or(0) });
    let data = lbx.call::<read::Read>(asked)?;
    let bytes_max = lbx.max_bytes()?;
    let (mut said, shown) = numbered(lbx, &data, bytes_max, cat_n);
    let content = text(&data, "content");
    let ends_with_newline = content.is_empty() || content.ends_with(terminator(&data));
    let is_last_wanted = last.is_none_or(|last| last > shown.total) && first <= shown.total + 1;
    if ends_with_newline && is_last_wanted && shown.last >= shown.total {
        said.extend((!content.is_empty()).then_some("\n"));
        said.push_str(&cat_n(shown.total + 1, ""));
    }
    said.extend(shown.missing_lines_text(last, "Use view_range").map(|note| format!("\n[{note}]")));
    Ok(said)
}

/// Lists a directory two levels deep, with sizes.
fn directory(lbx: &mut LbxClient<'_>, path: &str) -> Result<ToolOutput, Error> {
    let asked = json!({ "path": path, "depth": VIEW_DEPTH, "no_ignore": true, "limit": 0, "max_bytes": 0 });
    let data = lbx.list_folder(asked)?;
    let path = path.trim_end_matches('/');
    let mut lines = vec![
        format!("Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"),
        format!("{}\t{path}", size_text(lbx.size_of(path)?)),
    ];
    for entry in list(&data, "entries") {
        let full = text(entry, "path");
        let slash = if text(entry, "type") == "dir" { "/" } else { "" };
        // A link may lead outside, or nowhere.
        let size = size_text(lbx.size_of(full).unwrap_or_default());
        lines.push(format!("{size}\t{}{slash}", display(entry)));
    }
    Ok(lines.join("\n").into())
}

/// Returns a size as `du -h` writes it.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
fn size_text(bytes: u64) -> String {
    let units = ["B", "K", "M", "G"];
    let step = bytes.checked_ilog2().map_or(0, |bits| bits / 10).min(3);
    let unit = usize::try_from(step).ok().and_then(|step| units.get(step)).unwrap_or(&"B");
    let whole = 1_u64 << (10 * step);
    if bytes.is_multiple_of(whole) {
        format!("{}{unit}", bytes / whole)
    } else {
        format!("{:.1}{unit}", bytes as f64 / whole as f64)
    }
}

/// Writes a new file.
fn create(lbx: &mut LbxClient<'_>, path: &str, content: &str) -> Result<ToolOutput, Error> {
    must_be_below_root(path)?;
    // `write` accepts a file with equal bytes; this tool rejects any existing path.
    if lbx.exists(path)? {
        return Err(Error::new(ErrorKind::AlreadyExists, format!("File {path} already exists")).at(path));
    }
    lbx.call::<write::Write>(json!({ "path": path, "content": content, "create_only": true }))?;
    Ok(format!("File created successfully at: {path}").into())
}

/// Replaces a text, and shows the change.
fn replace(lbx: &mut LbxClient<'_>, path: &str, old: &str, new: &str) -> Result<ToolOutput, Error> {
    must_be_below_root(path)?;
    let data = lbx.call::<edit::Edit>(json!({ "path": path, "old_string": old, "new_string": new }))?;
    if text(&data, "match") == "already_applied" {
        // In this family, a missing text is an error, whoever replaced it.
        return Err(Error::new(ErrorKind::NoMatch, format!("{old:?} was replaced already")).at(path));
    }
    let (line, _) = first_replacement(&data);
    let start = line.saturating_sub(SNIPPET_CONTEXT).max(1);
    let lines = lines(lbx, path, start, Some(line + SNIPPET_CONTEXT));
    let lines = lines.unwrap_or_else(|error| not_shown(&error));
    Ok(format!("The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{lines}")
        .into())
}

/// Inserts text after a line, as whole lines.
fn insert(lbx: &mut LbxClient<'_>, path: &str, line: i64, content: &str) -> Result<ToolOutput, Error> {
    must_be_below_root(path)?;
    let shown = lbx.call_unshown::<read::Read>(json!({ "path": path, "limit": 1 }))?;
    let total = number(&shown, "total_lines");
    let Some(line) = u64::try_from(line).ok().filter(|line| *line <= total) else {
        return Err(invalid(
            path,
            format!("Invalid `insert_line` parameter: {line}. It should be within the range [0, {total}]."),
        ));
    };
    let content = format!("{}\n", content.trim_end_matches('\n'));
    lbx.call::<insert::Insert>(json!({ "path": path, "line": line, "content": content }))?;
    Ok(format!("The file {path} has been edited.").into())
}

/// Moves a file or directory to the trash.
fn delete(lbx: &mut LbxClient<'_>, path: &str) -> Result<ToolOutput, Error> {
    must_be_below_root(path)?;
    if path.trim_end_matches('/') == ROOT {
        return Err(invalid(path, format!("Cannot delete the {ROOT} directory itself")));
    }
    let deleted = lbx.call::<delete::Delete>(json!({ "path": path, "recursive": true }))?;
    if deleted.get("already_applied").is_some() {
        // In this family, a missing path is an error, whoever deleted it.
        return Err(refused(ErrorKind::NotFound, path, format!("The path {path} does not exist")));
    }
    Ok(format!("Successfully deleted {path}").into())
}

/// Renames a file or directory.
fn rename(lbx: &mut LbxClient<'_>, old: &str, new: &str) -> Result<ToolOutput, Error> {
    if old.trim_end_matches('/') == ROOT {
        return Err(invalid(old, format!("Cannot rename the {ROOT} directory itself")));
    }
    must_be_below_root(old)?;
    must_be_below_root(new)?;
    lbx.call::<r#move::Move>(json!({ "from": old, "to": new })).map_err(|error| match error.kind() {
        ErrorKind::OutsideWorkspace => {
            let path = if lbx.exists(old).is_err() { old } else { new };
            refused(ErrorKind::OutsideWorkspace, path, format!("Path {path} would escape {ROOT} directory"))
        }
        ErrorKind::NotFound => refused(error.kind(), old, format!("The path {old} does not exist")),
        ErrorKind::AlreadyExists => {
            refused(error.kind(), new, format!("The destination {new} already exists"))
        }
        _ => error,
    })?;
    Ok(format!("Successfully renamed {old} to {new}").into())
}
