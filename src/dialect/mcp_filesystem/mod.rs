//! `mcp-filesystem`: the tools of the npm reference server `@modelcontextprotocol/server-filesystem`.
//!
//! Their texts are in `texts`.

mod texts;

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::tool::{Dialect, tool};
use crate::dialect::client::{LbxClient, list, must_have_edits, number, relative_globs, shown_path, text};
use crate::dialect::tool::{Media, ToolOutput, refused};
use crate::error::{Error, ErrorKind};
use crate::text::lines;
use crate::tools::{edit, ls, mkdir, r#move, read, write};
use texts::{
    DirectoryEntry, Node, PathRequest, collation_key, edit_diff, file_facts, file_uri, first_lines,
    last_lines, mime_of, must_have_parent, no_entry, reference_error, size_text, text_output,
};

/// Dialect `mcp-filesystem`.
pub const FILESYSTEM: Dialect = Dialect {
    name: "mcp-filesystem",
    is_model_family: false,
    tools: &[
        tool!("read_file", Reads, read_text, reads_files: true),
        tool!("read_text_file", Reads, read_text, reads_files: true),
        tool!(
            "read_media_file", Reads, read_media_file, reads_files: true,
            about: Some("Reads an image, an audio file or any other binary file, base64-encoded.")
        ),
        tool!("read_multiple_files", Reads, read_multiple_files, reads_files: true),
        tool!(
            "write_file", Writes, write_file,
            fields: &[("max_bytes", "read_text_file"), ("binary", "read_media_file")]
        ),
        tool!(
            "edit_file", Writes, edit_file,
            fields: &[("old_string", "oldText"), ("new_string", "newText"), ("dry_run", "dryRun")]
        ),
        tool!(
            "create_directory", Adds, create_directory,
            about: Some("Creates a directory, and those on the way to it. One that exists is left alone.")
        ),
        tool!(
            "list_directory", Reads, list_directory,
            about: Some("Lists a directory, with [FILE] or [DIR] before each name.")
        ),
        tool!("list_directory_with_sizes", Reads, list_directory_with_sizes),
        tool!("directory_tree", Reads, directory_tree),
        tool!("move_file", Writes, move_file, fields: &[("from", "source"), ("to", "destination")]),
        tool!("search_files", Reads, search_files),
        tool!(
            "get_file_info", Reads, get_file_info,
            about: Some("Tells size, times, type and permissions of a file or directory.")
        ),
        tool!("list_allowed_directories", Reads, list_allowed_directories),
    ],
    names: &[
        ("read", "read_text_file"),
        ("write", "write_file"),
        ("edit", "edit_file"),
        ("glob", "search_files"),
        ("ls", "list_directory"),
        ("move", "move_file"),
        ("mkdir", "create_directory"),
    ],
    error_texts: &[(
        ErrorKind::AmbiguousMatch,
        "oldText appears {count} times in {path}, at lines {lines}. Include more surrounding text to make it unique.",
    )],
    error_frame: "{}",
    differences: &[
        "write_file refuses to overwrite, and edit_file to edit, a file that this session has not read, or that has changed since.",
        "edit_file refuses an oldText that occurs more than once (the reference server replaces the first), is empty, or equals newText, and an empty list of edits.",
        "Line endings stay as they are (the reference server makes them LF).",
        "Where oldText matches apart from white space alone, newText gets the indentation of the lines that it replaces.",
        "Binary files are read by read_media_file alone.",
        "What lies in .git and .lbx is not listed, searched or written.",
        "The one allowed directory is the workspace; lists are sorted by path.",
        "Parameters that are unknown, missing or of the wrong type are refused in lbx's words; so is an empty path.",
        "A path that begins with ~ or a drive letter is a name like any other.",
        "Globs have no extended patterns such as !(a), and none begins with ! or #; one that cannot be read is an error.",
    ],
};

/// Returns the whole text of a file.
fn read_whole_text(lbx: &mut LbxClient<'_>, path: &str) -> Result<String, Error> {
    let data = lbx.call::<read::Read>(json!({ "path": path, "limit": 0, "max_bytes": 0 }));
    data.map(|data| text(&data, "content").to_owned())
        .map_err(|error| reference_error(lbx, path, "open", error))
}

/// Reads a text file, all of it or its first or last lines.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadTextRequest {
    /// The file to read
    path: String,
    /// If provided, returns only the first N lines of the file
    head: Option<u64>,
    /// If provided, returns only the last N lines of the file
    tail: Option<u64>,
}

/// Reads the requested text of a file.
pub fn read_text(lbx: &mut LbxClient<'_>, request: ReadTextRequest) -> Result<ToolOutput, Error> {
    let path = &request.path;
    let (head, tail) = (request.head.filter(|lines| *lines > 0), request.tail.filter(|lines| *lines > 0));
    let asked = match (head, tail) {
        (Some(_), Some(_)) => {
            let words = "Cannot specify both head and tail parameters simultaneously";
            return Err(refused(ErrorKind::InvalidRequest, path, words.to_owned()));
        }
        (None, None) => return read_whole_text(lbx, path).map(text_output),
        (Some(lines), None) => json!({ "path": path, "offset": 0, "limit": lines, "max_bytes": 0 }),
        (None, Some(lines)) => {
            let lines = i64::try_from(lines).unwrap_or(i64::MAX);
            json!({ "path": path, "offset": -lines, "limit": 0, "max_bytes": 0 })
        }
    };
    let data = lbx.call::<read::Read>(asked).map_err(|error| reference_error(lbx, path, "open", error))?;
    let content = text(&data, "content");
    let Some(lines) = tail else { return Ok(text_output(first_lines(content))) };
    let last = last_lines(content, lines);
    // The family counts the end of the file after a final line ending as a line.
    let left_out = lines::count(content.as_bytes()) - lines::count(last.as_bytes());
    lbx.shows_only(number(&data, "start_line") + left_out, u64::MAX);
    Ok(text_output(last))
}

/// Runs `read_media_file`.
pub fn read_media_file(
    lbx: &mut LbxClient<'_>,
    PathRequest { path }: PathRequest,
) -> Result<ToolOutput, Error> {
    let base64 = lbx.base64_of(&path).map_err(|error| reference_error(lbx, &path, "open", error))?;
    let uri = file_uri(&lbx.absolute(&path)?);
    let media = Media { mime: mime_of(&path, &base64)?.to_owned(), base64, uri };
    let structured = Some(json!({ "content": [media.as_block()] }));
    Ok(ToolOutput { media: vec![media], structured, ..ToolOutput::default() })
}

/// Reads several files; one that cannot be read does not stop the others.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadMultipleRequest {
    /// The files to read
    paths: Vec<String>,
}

/// Runs `read_multiple_files`.
pub fn read_multiple_files(
    lbx: &mut LbxClient<'_>,
    request: ReadMultipleRequest,
) -> Result<ToolOutput, Error> {
    if request.paths.is_empty() {
        return Err(Error::invalid("paths must name at least one file").detail("field", "paths"));
    }
    let one = |lbx: &mut LbxClient<'_>, path: &String| match read_whole_text(lbx, path) {
        Ok(content) => format!("{path}:\n{content}\n"),
        Err(error) => format!("{path}: Error - {}", error.message()),
    };
    let files: Vec<String> = request.paths.iter().map(|path| one(lbx, path)).collect();
    Ok(text_output(files.join("\n---\n")))
}

/// Returns the entries of a directory, with a flag for directories.
fn entries(lbx: &mut LbxClient<'_>, path: &str, is_deep: bool) -> Result<Vec<DirectoryEntry>, Error> {
    match lbx.is_folder(path) {
        Ok(true) => {}
        Ok(false) if lbx.exists(path)? => {
            let absolute = lbx.absolute(path)?;
            let words = format!("ENOTDIR: not a directory, scandir '{}'", absolute.display());
            return Err(refused(ErrorKind::NotADirectory, path, words));
        }
        Ok(false) => return Err(no_entry(lbx, path, "scandir")),
        Err(error) => return Err(reference_error(lbx, path, "scandir", error)),
    }
    let asked = json!({ "path": path, "recursive": is_deep, "hidden": true, "no_ignore": true, "limit": 0, "max_bytes": 0 });
    let data = lbx.call::<ls::Ls>(asked).map_err(|error| reference_error(lbx, path, "scandir", error))?;
    let (base, top) = (lbx.base()?, lbx.real(path)?);
    let below = |entry: &Value| {
        let full = base.join(text(entry, "path"));
        let below = full.strip_prefix(&top).unwrap_or(&full).to_owned();
        DirectoryEntry { below, is_folder: text(entry, "type") == "dir" }
    };
    Ok(list(&data, "entries").iter().map(below).collect())
}

/// Runs `list_directory`.
pub fn list_directory(lbx: &mut LbxClient<'_>, request: PathRequest) -> Result<ToolOutput, Error> {
    let entries = entries(lbx, &request.path, false)?;
    let lines: Vec<String> =
        entries.iter().map(|entry| format!("{} {}", entry.label(), entry.display())).collect();
    Ok(text_output(lines.join("\n")))
}

/// Sort order of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SortBy {
    /// By name
    #[default]
    Name,
    /// By size, the largest first
    Size,
}

/// Lists a directory with sizes and totals.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListWithSizesRequest {
    /// The directory to list
    path: String,
    /// Sort entries by name or size
    #[serde(default)]
    sort_by: SortBy,
}

/// Runs `list_directory_with_sizes`.
pub fn list_directory_with_sizes(
    lbx: &mut LbxClient<'_>,
    request: ListWithSizesRequest,
) -> Result<ToolOutput, Error> {
    let top = lbx.absolute(&request.path)?;
    let entries = entries(lbx, &request.path, false)?;
    let size =
        |entry: &DirectoryEntry| lbx.size_of(&top.join(&entry.below).display().to_string()).unwrap_or(0);
    let mut sized: Vec<(DirectoryEntry, u64)> = entries
        .into_iter()
        .map(|entry| {
            let bytes = size(&entry);
            (entry, bytes)
        })
        .collect();
    match request.sort_by {
        SortBy::Name => sized.sort_by_cached_key(|(entry, _)| collation_key(&entry.display())),
        SortBy::Size => sized.sort_by_key(|(_, bytes)| Reverse(*bytes)),
    }
    let line = |(entry, bytes): &(DirectoryEntry, u64)| {
        let size = if entry.is_folder { String::new() } else { format!("{:>10}", size_text(*bytes)) };
        format!("{} {:<30} {size}", entry.label(), entry.display())
    };
    let mut lines: Vec<String> = sized.iter().map(line).collect();
    let files = sized.iter().filter(|(entry, _)| !entry.is_folder);
    let (count, bytes) = files.fold((0, 0), |(count, sum), (_, bytes)| (count + 1, sum + bytes));
    lines.push(String::new());
    lines.push(format!("Total: {count} files, {} directories", sized.len() - count));
    lines.push(format!("Combined size: {}", size_text(bytes)));
    Ok(text_output(lines.join("\n")))
}

/// Shows a directory and its content as JSON.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeRequest {
    /// The directory to show
    path: String,
    /// Names or globs to skip
    #[serde(default)]
    exclude_patterns: Vec<String>,
}

/// Runs `directory_tree`.
pub fn directory_tree(lbx: &mut LbxClient<'_>, request: TreeRequest) -> Result<ToolOutput, Error> {
    let forms = request.exclude_patterns.iter().flat_map(|pattern| {
        let anywhere = !pattern.contains('*');
        let further = [format!("**/{pattern}"), format!("**/{pattern}/**")];
        std::iter::once(pattern.clone()).chain(further.into_iter().filter(move |_| anywhere))
    });
    let excluded = relative_globs(forms)?;
    let mut top = Node::folder("");
    // A folder comes before its entries, so the entries of a skipped folder are skipped too.
    for entry in entries(lbx, &request.path, true)? {
        if !excluded.is_match(&entry.below) {
            top.insert(&entry);
        }
    }
    Ok(text_output(top.children_as_json()?))
}

/// Finds files and directories by a glob that their path below the directory must match.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchRequest {
    /// The directory to search
    path: String,
    /// The glob, such as **/*.rs
    pattern: String,
    /// Globs to skip
    #[serde(default)]
    exclude_patterns: Vec<String>,
}

/// Runs `search_files`.
pub fn search_files(lbx: &mut LbxClient<'_>, request: SearchRequest) -> Result<ToolOutput, Error> {
    let wanted = relative_globs([request.pattern.clone()])?;
    let excluded = relative_globs(request.exclude_patterns)?;
    let entries = entries(lbx, &request.path, true)?;
    let top = lbx.real(&request.path)?;
    let mut left_out: Vec<PathBuf> = Vec::new();
    let mut found: Vec<String> = Vec::new();
    for entry in entries {
        let is_within = |folder: &PathBuf| entry.below.starts_with(folder);
        if left_out.last().is_some_and(is_within) {
            continue;
        }
        if excluded.is_match(&entry.below) {
            left_out.push(entry.below);
        } else if wanted.is_match(&entry.below) {
            found.push(shown_path(&top.join(&entry.below)));
        }
    }
    Ok(text_output(if found.is_empty() { "No matches found".to_owned() } else { found.join("\n") }))
}

/// Runs `get_file_info`.
pub fn get_file_info(lbx: &mut LbxClient<'_>, request: PathRequest) -> Result<ToolOutput, Error> {
    let facts =
        lbx.facts(&request.path).map_err(|error| reference_error(lbx, &request.path, "stat", error))?;
    Ok(text_output(file_facts(&facts)))
}

/// Lists the directories that these tools may use.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AllowedRequest {}

/// Runs `list_allowed_directories`.
pub fn list_allowed_directories(
    lbx: &mut LbxClient<'_>,
    _request: AllowedRequest,
) -> Result<ToolOutput, Error> {
    let root: &Path = &lbx.root()?;
    Ok(text_output(format!("Allowed directories:\n{}", root.display())))
}

/// Creates a file, or replaces the content of one that was read.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WriteRequest {
    /// The file to write
    path: String,
    /// The whole new content
    content: String,
}

/// Runs `write_file`.
pub fn write_file(
    lbx: &mut LbxClient<'_>,
    WriteRequest { path, content }: WriteRequest,
) -> Result<ToolOutput, Error> {
    must_have_parent(lbx, &path, "open")?;
    let asked = json!({ "path": path, "content": content });
    lbx.call::<write::Write>(asked).map_err(|error| reference_error(lbx, &path, "open", error))?;
    Ok(text_output(format!("Successfully wrote to {path}")))
}

/// One edit of several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditOperation {
    /// Text to search for - must match exactly
    old_text: String,
    /// Text to replace with
    new_text: String,
}

/// Replaces texts in a file that was read, in order, all or none. Returns a diff.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditRequest {
    /// The file to edit
    path: String,
    /// The edits
    edits: Vec<EditOperation>,
    /// Preview changes using git-style diff format
    dry_run: bool,
}

/// Runs `edit_file`.
pub fn edit_file(
    lbx: &mut LbxClient<'_>,
    EditRequest { path, edits, dry_run }: EditRequest,
) -> Result<ToolOutput, Error> {
    must_have_edits(&edits)?;
    let shown = lbx.absolute(&path)?.display().to_string();
    let before = lbx.read_unmarked(&path).map_err(|error| reference_error(lbx, &path, "open", error))?;
    let items: Vec<Value> = edits
        .iter()
        .map(|edit| json!({ "old_string": edit.old_text, "new_string": edit.new_text, "match": "flexible" }))
        .collect();
    let asked = json!({ "path": path, "edits": items, "dry_run": dry_run, "diff": true, "max_bytes": 0 });
    let data = lbx.call::<edit::Edit>(asked).map_err(|error| match error.kind() {
        ErrorKind::NoMatch => {
            let at = error.details().get("edit").and_then(Value::as_u64).unwrap_or(1).saturating_sub(1);
            let edit = usize::try_from(at).ok().and_then(|at| edits.get(at));
            let old = edit.map_or("", |edit| edit.old_text.as_str());
            refused(ErrorKind::NoMatch, &path, format!("Could not find exact match for edit:\n{old}"))
        }
        _ => reference_error(lbx, &path, "open", error),
    })?;
    Ok(text_output(edit_diff(&shown, &before, text(&data, "diff"))))
}

/// Runs `create_directory`.
pub fn create_directory(
    lbx: &mut LbxClient<'_>,
    PathRequest { path }: PathRequest,
) -> Result<ToolOutput, Error> {
    lbx.call::<mkdir::Mkdir>(json!({ "path": path })).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            let absolute = lbx.absolute(&path).unwrap_or_default();
            let words = format!("EEXIST: file already exists, mkdir '{}'", absolute.display());
            refused(ErrorKind::AlreadyExists, &path, words)
        }
        _ => reference_error(lbx, &path, "mkdir", error),
    })?;
    Ok(text_output(format!("Successfully created directory {path}")))
}

/// Moves or renames a file or directory; never overwrites.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MoveRequest {
    /// The file or directory to move
    source: String,
    /// The new path
    destination: String,
}

/// Runs `move_file`.
pub fn move_file(lbx: &mut LbxClient<'_>, request: MoveRequest) -> Result<ToolOutput, Error> {
    let MoveRequest { source, destination } = request;
    let target = lbx.absolute(&destination)?.display().to_string();
    if lbx.exists(&source).is_ok_and(|exists| exists) && lbx.exists(&target).is_ok_and(|exists| exists) {
        let words = format!("Destination already exists: {target}");
        return Err(refused(ErrorKind::AlreadyExists, &destination, words));
    }
    let missing = |lbx: &LbxClient<'_>| {
        let from = lbx.absolute(&source).unwrap_or_default();
        let words = format!("ENOENT: no such file or directory, rename '{}' -> '{target}'", from.display());
        refused(ErrorKind::NotFound, &source, words)
    };
    let into_itself =
        |lbx: &LbxClient<'_>| lbx.absolute(&source).is_ok_and(|from| Path::new(&target).starts_with(from));
    must_have_parent(lbx, &destination, "rename").map_err(|_| missing(lbx))?;
    lbx.call::<r#move::Move>(json!({ "from": source, "to": target })).map_err(|error| {
        match error.kind() {
            ErrorKind::NotFound => missing(lbx),
            ErrorKind::AlreadyExists => {
                let words = format!("Destination already exists: {target}");
                refused(ErrorKind::AlreadyExists, &destination, words)
            }
            ErrorKind::OutsideWorkspace => {
                let is_source = lbx.exists(&source).is_err();
                reference_error(lbx, if is_source { &source } else { &destination }, "rename", error)
            }
            _ if into_itself(lbx) => {
                let from = lbx.absolute(&source).unwrap_or_default();
                let words = format!("EINVAL: invalid argument, rename '{}' -> '{target}'", from.display());
                refused(error.kind(), &destination, words)
            }
            _ => error,
        }
    })?;
    Ok(text_output(format!("Successfully moved {source} to {destination}")))
}
