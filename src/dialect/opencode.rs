//! `opencode`: `read`, `write`, `edit`, `apply_patch`, `grep`, `glob` and `list`, with the names of `OpenCode`.
//!
//! lbx is stricter: an empty `oldString` creates a file and never overwrites one, and old text must match exactly.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{
    LbxClient, absolute_paths, by_file, count_of, display, drop_past_end_warning, flag, list, match_text,
    number, numbered, text, tree, without_cr,
};
use super::shell;
use super::tool::{Dialect, ToolOutput, tool};
use crate::error::{Error, ErrorKind};
use crate::search::globs;
use crate::text::escaped;
use crate::tools::{edit, glob, grep, write};

/// Dialect `opencode`.
pub const OPENCODE: Dialect = Dialect {
    name: "opencode",
    is_model_family: true,
    tools: &[
        tool!(
            "read", Reads, read, reads_files: true,
            fields: &[("path", "filePath"), ("start_line", "offset")]
        ),
        tool!("write", Writes, write, fields: &[("path", "filePath")]),
        tool!(
            "edit", Writes, edit,
            fields: &[
                ("path", "filePath"), ("old_string", "oldString"), ("new_string", "newString"),
                ("replace_all", "replaceAll"),
            ]
        ),
        tool!("apply_patch", Writes, apply_patch, fields: &[("input", "patchText")]),
        tool!("grep", Reads, grep),
        tool!("glob", Reads, glob),
        tool!("list", Reads, list_tree),
        shell::OPENCODE_BASH,
    ],
    names: &[
        ("read", "read"),
        ("write", "write"),
        ("edit", "edit"),
        ("glob", "glob"),
        ("grep", "grep"),
        ("ls", "list"),
        ("bash", "bash"),
    ],
    error_texts: &[
        (ErrorKind::NoMatch, "Could not find oldString in the file. It must match exactly. {message}"),
        (
            ErrorKind::AmbiguousMatch,
            "Found multiple matches for oldString. Provide more surrounding context to make the match unique.",
        ),
        (ErrorKind::NotFound, "File not found: {filePath}\n\n{message}"),
        (ErrorKind::BinaryFile, "Cannot read binary file: {filePath}"),
        (
            ErrorKind::StaleFile,
            "File {filePath} has been modified since it was last read. Please read the file again before modifying it.",
        ),
        (
            ErrorKind::NotRead,
            "You must read file {filePath} before overwriting it. Use the read tool first. {advice}",
        ),
    ],
    error_frame: "{}",
    differences: &[
        "A file must have been read in this session, and be unchanged since, before it is edited or overwritten.",
        "An empty oldString creates a file and never overwrites one; old text is matched exactly.",
        "Commands are confined to the workspace, and run to their end: none runs in the background.",
    ],
};

/// Largest number of paths and matches that `grep`, `glob` and `list` return.
const LIMIT: u64 = 100;

/// Reads a file or lists a directory. Each line of the result begins with its number and a colon.
#[derive(Debug, Deserialize, JsonSchema)]
struct ReadRequest {
    /// The absolute path of the file to read
    #[serde(rename = "filePath")]
    file_path: String,
    /// The line number to start reading from, from 1
    offset: Option<u64>,
    /// The number of lines to read
    limit: Option<u64>,
}

/// Runs `read`.
fn read(lbx: &mut LbxClient<'_>, request: ReadRequest) -> Result<ToolOutput, Error> {
    let path = &request.file_path;
    let start = request.offset.unwrap_or(1).max(1);
    if lbx.is_folder(path)? {
        return read_folder(lbx, path, start, request.limit);
    }
    let asked = json!({ "path": path, "start_line": start, "limit": request.limit });
    let data = match lbx.text_or_images(path, asked)? {
        Ok(data) => data,
        Err(images) => {
            let text = "Image read successfully".to_owned();
            return Ok(ToolOutput { text, images, ..ToolOutput::default() });
        }
    };
    drop_past_end_warning(lbx, &data);
    let bytes_max = lbx.max_bytes()?;
    let (mut content, shown) =
        numbered(lbx, &data, bytes_max, |number, line| format!("{number}: {}", without_cr(line)));
    let (last, total) = (shown.last, shown.total);
    content.extend(shown.clipped().map(|note| format!("\n\n({note})")));
    let end = if last < total {
        format!("\n\n(Showing lines {start}-{last} of {total}. Use offset={} to continue.)", last + 1)
    } else {
        format!("\n\n(End of file - total {})", count_of(total, "line", "lines"))
    };
    content.push_str(&end);
    Ok(framed(path, "file", "content", &content))
}

/// Lists a directory, starting at an entry.
fn read_folder(
    lbx: &mut LbxClient<'_>,
    path: &str,
    start: u64,
    limit: Option<u64>,
) -> Result<ToolOutput, Error> {
    let asked = json!({
        "path": path, "hidden": true, "no_ignore": true, "offset": start - 1, "limit": limit
    });
    let data = lbx.list_folder(asked)?;
    let names = list(&data, "entries").iter().map(|entry| {
        let slash = if text(entry, "type") == "dir" { "/" } else { "" };
        format!("{}{slash}", escaped::name(text(entry, "path").rsplit('/').next().unwrap_or_default()))
    });
    let mut entries = names.collect::<Vec<_>>();
    if flag(&data, "truncated") {
        let (shown, total) = (entries.len() as u64, number(&data, "total"));
        let next = start + shown;
        entries.push(format!("\n(Showing {shown} of {total} entries. Use offset={next} to continue.)"));
    }
    Ok(framed(path, "directory", "entries", &entries.join("\n")))
}

/// Returns the result in XML-like tags.
fn framed(path: &str, kind: &str, tag: &str, content: &str) -> ToolOutput {
    format!("<path>{path}</path>\n<type>{kind}</type>\n<{tag}>\n{content}\n</{tag}>").into()
}

/// Writes a file. An existing file must be read first.
#[derive(Debug, Deserialize, JsonSchema)]
struct WriteRequest {
    /// The content to write
    content: String,
    /// The absolute path of the file to write
    #[serde(rename = "filePath")]
    file_path: String,
}

/// Runs `write`.
fn write(lbx: &mut LbxClient<'_>, request: WriteRequest) -> Result<ToolOutput, Error> {
    lbx.call::<write::Write>(json!({ "path": request.file_path, "content": request.content }))?;
    Ok("Wrote file successfully.".into())
}

/// Replaces exact text in a file, which must be read first.
#[derive(Debug, Deserialize, JsonSchema)]
struct EditRequest {
    /// The absolute path of the file to modify
    #[serde(rename = "filePath")]
    file_path: String,
    /// The text to replace
    #[serde(rename = "oldString")]
    old_string: String,
    /// The replacement; must differ from oldString
    #[serde(rename = "newString")]
    new_string: String,
    /// Replace all occurrences of oldString
    #[serde(rename = "replaceAll")]
    replace_all: Option<bool>,
}

/// Runs `edit`.
fn edit(lbx: &mut LbxClient<'_>, request: EditRequest) -> Result<ToolOutput, Error> {
    let EditRequest { file_path: path, old_string, new_string, replace_all } = request;
    if old_string.is_empty() {
        lbx.call::<write::Write>(json!({ "path": path, "content": new_string, "create_only": true }))?;
    } else {
        let asked = json!({
            "path": path, "old_string": old_string, "new_string": new_string, "replace_all": replace_all
        });
        lbx.call::<edit::Edit>(asked)?;
    }
    Ok("Edit applied successfully.".into())
}

/// Edits files with a patch in the `*** Begin Patch` format, whole or not at all.
#[derive(Debug, Deserialize, JsonSchema)]
struct ApplyPatchRequest {
    /// The whole patch
    #[serde(rename = "patchText")]
    patch_text: String,
}

/// Runs `apply_patch`.
fn apply_patch(lbx: &mut LbxClient<'_>, request: ApplyPatchRequest) -> Result<ToolOutput, Error> {
    shell::apply_patch(lbx, &request.patch_text, None)
}

/// Searches file contents with a regular expression, the newest files first.
#[derive(Debug, Deserialize, JsonSchema)]
struct GrepRequest {
    /// The regular expression to search for
    pattern: String,
    /// The directory to search in
    path: Option<String>,
    /// Glob of the files to search, such as "*.js"
    include: Option<String>,
}

/// Runs `grep`.
fn grep(lbx: &mut LbxClient<'_>, request: GrepRequest) -> Result<ToolOutput, Error> {
    let asked = json!({
        "pattern": request.pattern, "path": request.path, "include": request.include.as_deref().map(globs::split), "sort": "mtime",
        "hidden": true, "limit": LIMIT
    });
    let data = lbx.call::<grep::Grep>(asked)?;
    let matches = list(&data, "matches");
    if matches.is_empty() {
        return Ok("No files found".into());
    }
    let mut said = format!("Found {}", count_of(matches.len() as u64, "match", "matches"));
    let line = |found: &Value| format!("\n  Line {}: {}", number(found, "line"), match_text(found));
    let file = |matches: &[Value]| {
        let lines: String = matches.iter().map(line).collect();
        format!("{}:{lines}", matches.first().map(display).unwrap_or_default())
    };
    said.extend(["\n", &by_file(matches).map(file).collect::<Vec<_>>().join("\n\n")]);
    if flag(&data, "truncated") {
        said += "\n\n(Results are truncated. Consider using a more specific path or pattern.)";
    }
    Ok(said.into())
}

/// Finds files by a glob pattern, the newest first.
#[derive(Debug, Deserialize, JsonSchema)]
struct GlobRequest {
    /// The glob pattern to match
    pattern: String,
    /// The directory to search in
    path: Option<String>,
}

/// Runs `glob`.
fn glob(lbx: &mut LbxClient<'_>, request: GlobRequest) -> Result<ToolOutput, Error> {
    let asked = json!({
        "pattern": request.pattern, "path": request.path, "sort": "mtime", "hidden": true, "limit": LIMIT
    });
    let data = lbx.call::<glob::Glob>(asked)?;
    let mut lines = absolute_paths(lbx, &data)?;
    if lines.is_empty() {
        return Ok("No files found".into());
    }
    if flag(&data, "truncated") {
        lines.push("\n(Results are truncated. Consider using a more specific path or pattern.)".to_owned());
    }
    Ok(lines.join("\n").into())
}

/// Lists files and directories as a tree.
#[derive(Debug, Deserialize, JsonSchema)]
struct ListRequest {
    /// The absolute path of the directory to list
    path: Option<String>,
    /// Glob patterns to ignore
    ignore: Option<Vec<String>>,
}

/// Runs `list`.
fn list_tree(lbx: &mut LbxClient<'_>, request: ListRequest) -> Result<ToolOutput, Error> {
    let path = request.path.as_deref().unwrap_or(".");
    tree(lbx, path, request.ignore.as_deref(), LIMIT, "").map(ToolOutput::from)
}
