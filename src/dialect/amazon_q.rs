//! `q`: `fs_read` and `fs_write`, with the names of Amazon Q.
//!
//! lbx is stricter: `create` does not overwrite a file that was not read, and `str_replace` and `insert` need a file
//! that has not changed since the read. No newline is added at the end of a file.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{LbxClient, ShownReadLines, display, flag, list, match_lines, number, text};
use super::shell;
use super::tool::{Dialect, ToolOutput, required, tool};
use crate::error::{Error, ErrorKind};
use crate::tools::{Image, append, edit, grep, insert, read, write};

/// Dialect `q`.
pub const Q: Dialect = Dialect {
    name: "q",
    is_model_family: true,
    tools: &[
        tool!("fs_read", Reads, fs_read, reads_files: true),
        tool!(
            "fs_write", Writes, fs_write,
            fields: &[
                ("old_string", "old_str"), ("new_string", "new_str"), ("line", "insert_line"),
                ("why", "summary"),
            ]
        ),
        shell::EXECUTE_BASH,
    ],
    names: &[
        ("read", "fs_read"),
        ("ls", "fs_read"),
        ("grep", "fs_read"),
        ("write", "fs_write"),
        ("edit", "fs_write"),
        ("insert", "fs_write"),
        ("append", "fs_write"),
        ("bash", "execute_bash"),
    ],
    error_texts: &[
        (ErrorKind::NoMatch, "no occurrences of \"{old_str}\" were found. {message}"),
        (ErrorKind::AmbiguousMatch, "{count} occurrences of old_str were found when only 1 is expected"),
    ],
    error_frame: "{}",
    differences: &[
        "create does not overwrite a file that was not read; str_replace and insert need a file that is as it was read.",
        "No newline is added at the end of a file.",
        "Commands are confined to the workspace, and run to their end: none runs in the background.",
    ],
};

/// Kind of a read operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
enum Mode {
    /// Lines of a file
    Line,
    /// The contents of a directory
    Directory,
    /// Lines that hold a text
    Search,
    /// Images
    Image,
}

/// One read operation.
#[derive(Debug, Deserialize, JsonSchema)]
struct Operation {
    /// How to read
    mode: Mode,
    /// The file or directory
    path: Option<String>,
    /// The first line, from 1; negative counts from the end
    start_line: Option<i64>,
    /// The last line; -1 is the end of the file
    end_line: Option<i64>,
    /// The text to find; letter case is ignored
    pattern: Option<String>,
    /// Lines to show around each match
    context_lines: Option<u64>,
    /// Levels below the directory to list
    depth: Option<u64>,
    /// The images
    image_paths: Option<Vec<String>>,
}

/// Reads files, lists directories, searches for a text, or shows images; several at once.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("x-ignored" = ["summary"]))]
struct FsReadRequest {
    /// Operations
    operations: Vec<Operation>,
}

/// Runs `fs_read`.
fn fs_read(lbx: &mut LbxClient<'_>, request: FsReadRequest) -> Result<ToolOutput, Error> {
    if request.operations.is_empty() {
        return Err(Error::invalid("At least one operation must be provided").detail("field", "operations"));
    }
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    let bytes_max = lbx.max_bytes()?;
    let mut left = bytes_max;
    for (operation, rest) in request.operations.iter().zip((1..=request.operations.len()).rev()) {
        // One response has them all; 0 is no bound.
        let share = if bytes_max == 0 { 0 } else { (left / rest).max(1) };
        let text = read(lbx, operation, share, &mut images)?;
        left = left.saturating_sub(text.len());
        texts.push(text);
    }
    Ok(ToolOutput { text: texts.join("\n\n"), images, ..ToolOutput::default() })
}

/// Runs one operation; returns its text, with a payload of at most `bytes_max`.
fn read(
    lbx: &mut LbxClient<'_>,
    operation: &Operation,
    bytes_max: usize,
    images: &mut Vec<Image>,
) -> Result<String, Error> {
    if operation.mode == Mode::Image {
        let paths = operation.image_paths.as_ref().filter(|paths| !paths.is_empty());
        for path in required(paths, "image_paths", "image_paths")? {
            images.extend(images_in(lbx, path)?);
        }
        return Ok(String::new());
    }
    let path = required(operation.path.as_deref(), "path", "path")?;
    match operation.mode {
        Mode::Line => {
            // Without a last line, a first one past the end gets a warning.
            let (start, end) =
                (operation.start_line.unwrap_or(1), operation.end_line.filter(|end| *end != -1));
            let asked = json!({ "path": path, "start_line": start, "end_line": end, "max_bytes": bytes_max });
            let data = lbx.call::<read::Read>(asked)?;
            let lines = ShownReadLines::of(&data);
            let mut content = text(&data, "content").to_owned();
            if lines.stop_early(end.map(|end| lines.line(end))) {
                let (last, total, next) = (lines.last, lines.total, lines.last + 1);
                content.extend([format!(
                    "\n[Lines up to {last} of {total} are shown; go on with start_line {next}]"
                )]);
            }
            content.extend(lines.clipped().map(|note| format!("\n[{note}]")));
            Ok(content)
        }
        Mode::Directory => {
            let depth = operation.depth.unwrap_or(0) + 1;
            let asked = json!({
                "path": path, "depth": depth, "long": true, "hidden": true, "max_bytes": bytes_max
            });
            let data = lbx.list_folder(asked)?;
            let mut entries: Vec<String> = list(&data, "entries").iter().map(entry).collect();
            if flag(&data, "truncated") {
                let (shown, total) = (entries.len(), number(&data, "total"));
                entries.push(format!(
                    "[These are the first {shown} of {total} entries; list a directory inside to see the rest]"
                ));
            }
            Ok(entries.join("\n"))
        }
        Mode::Search | Mode::Image => {
            let pattern = required(operation.pattern.as_deref(), "pattern", "pattern")?;
            let asked = json!({
                "path": path, "pattern": pattern, "literal": true, "ignore_case": true,
                "context": operation.context_lines.unwrap_or(2), "max_bytes": bytes_max
            });
            let data = lbx.call::<grep::Grep>(asked)?;
            let found: Vec<Value> = list(&data, "matches").iter().map(found).collect();
            let mut said =
                serde_json::to_string(&found).map_err(|error| Error::internal(error.to_string()))?;
            if flag(&data, "truncated") {
                let shown = found.len();
                said.extend([format!(
                    "\n[These are the first {shown} matches; name a directory or file inside]"
                )]);
            }
            Ok(said)
        }
    }
}

/// Returns the image in a file.
fn images_in(lbx: &mut LbxClient<'_>, path: &str) -> Result<Vec<Image>, Error> {
    let found = lbx.image(path)?;
    if found.is_empty() {
        return Err(Error::invalid(format!("{path} is not an image")).at(path));
    }
    Ok(found)
}

/// Returns one entry of a directory.
fn entry(entry: &Value) -> String {
    let letter = match text(entry, "type") {
        "dir" => 'd',
        "symlink" => 'l',
        _ => '-',
    };
    format!("{letter}{} {} {}", text(entry, "mode"), number(entry, "size"), display(entry))
}

/// Returns one match with its context.
fn found(found: &Value) -> Value {
    let lines: Vec<String> = match_lines(found).map(|(_, _, text)| text).collect();
    json!({ "line_number": number(found, "line"), "context": lines.join("\n") })
}

/// Operation of `fs_write`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Command {
    /// Create or overwrite a file
    Create,
    /// Replace text that occurs exactly once
    StrReplace,
    /// Insert text after a line
    Insert,
    /// Add text at the end
    Append,
}

/// Creates and edits files. Read an existing file first.
#[derive(Debug, Deserialize, JsonSchema)]
struct FsWriteRequest {
    /// Operation
    command: Command,
    /// The file
    path: String,
    /// The content of the file to create
    file_text: Option<String>,
    /// The text to replace
    old_str: Option<String>,
    /// The replacement, or the text to insert or append
    new_str: Option<String>,
    /// The line after which to insert; 0 for the start of the file
    insert_line: Option<u64>,
    /// Purpose of the change
    summary: Option<String>,
}

/// Runs `fs_write`.
fn fs_write(lbx: &mut LbxClient<'_>, request: FsWriteRequest) -> Result<ToolOutput, Error> {
    let FsWriteRequest { command, path, file_text, old_str, new_str, insert_line, summary } = request;
    match command {
        Command::Create => {
            let content = required(file_text.or(new_str), "file_text", "file_text")?;
            lbx.call::<write::Write>(json!({ "path": path, "content": content, "why": summary }))?;
        }
        Command::StrReplace => {
            let old = required(old_str, "old_str", "old_str")?;
            let new = new_str.unwrap_or_default();
            let asked = json!({ "path": path, "old_string": old, "new_string": new, "why": summary });
            lbx.call::<edit::Edit>(asked)?;
        }
        Command::Insert => {
            let content = required(new_str, "new_str", "new_str")?;
            let newline = if content.ends_with('\n') { "" } else { "\n" };
            let line = required(insert_line, "insert_line", "insert_line")?;
            let content = format!("{content}{newline}");
            let asked = json!({ "path": path, "line": line, "content": content, "why": summary });
            lbx.call::<insert::Insert>(asked)?;
        }
        Command::Append => {
            let content = required(new_str, "new_str", "new_str")?;
            let asked = json!({ "path": path, "content": content, "on_new_line": true, "why": summary });
            lbx.call::<append::Append>(asked)?;
        }
    }
    Ok(format!("The file {path} was written.").into())
}
