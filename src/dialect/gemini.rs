//! `gemini`: `read_file`, `write_file`, `replace` and others, with the names of Gemini CLI.
//!
//! lbx is stricter: a file must be read before it is overwritten or edited, line endings are kept, and old text is
//! never corrected by similarity.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{
    LbxClient, ShownReadLines, absolute_paths, by_file, count_of, display, drop_past_end_warning,
    first_replacement, flag, globs, list, match_lines, number, shown_lines, snippet, text, texts,
};
use super::shell;
use super::tool::{Dialect, ToolOutput, tool};
use crate::error::{Error, ErrorKind};
use crate::limits::MANY_FILES_MAX;
use crate::search::globs;
use crate::text::escaped;
use crate::tools::{edit, glob, grep, read, write};

/// Dialect `gemini`.
pub const GEMINI: Dialect = Dialect {
    name: "gemini",
    is_model_family: true,
    tools: &[
        tool!("read_file", Reads, read_file, reads_files: true, fields: &[("path", "file_path")]),
        tool!("read_many_files", Reads, read_many_files, reads_files: true, fields: &[("paths", "include")]),
        tool!("write_file", Writes, write_file, fields: &[("path", "file_path")]),
        tool!(
            "replace", Writes, replace,
            fields: &[("path", "file_path"), ("replace_all", "allow_multiple"), ("why", "instruction")]
        ),
        tool!(
            "grep_search", Reads, grep_search,
            fields: &[
                ("path", "dir_path"), ("include", "include_pattern"), ("exclude_lines", "exclude_pattern"),
                ("literal", "fixed_strings"), ("max_count", "max_matches_per_file"),
                ("limit", "total_max_matches"),
            ]
        ),
        tool!("search_file_content", Reads, grep_search),
        tool!("glob", Reads, glob, fields: &[("path", "dir_path")]),
        tool!("list_directory", Reads, list_directory, fields: &[("path", "dir_path")]),
        shell::RUN_SHELL_COMMAND,
    ],
    names: &[
        ("read", "read_file"),
        ("write", "write_file"),
        ("edit", "replace"),
        ("glob", "glob"),
        ("grep", "grep_search"),
        ("ls", "list_directory"),
        ("bash", "run_shell_command"),
    ],
    error_texts: &[
        (ErrorKind::NoMatch, "Failed to edit, 0 occurrences found for old_string in {file_path}. {message}"),
        (
            ErrorKind::AmbiguousMatch,
            "Failed to edit, Expected 1 occurrence but found {count} for old_string in file: {file_path}. If you intended to replace multiple occurrences, set 'allow_multiple' to true.",
        ),
        (ErrorKind::NotFound, "File not found: {message}"),
        (ErrorKind::BinaryFile, "Cannot display content of binary file: {file_path}"),
    ],
    error_frame: "{}",
    differences: &[
        "A file must have been read in this session, and be unchanged since, before it is edited or overwritten.",
        "Line endings stay as they are, and old text is never corrected by similarity.",
        "Commands are confined to the workspace. One in the background names the file with its output.",
    ],
};

/// Default number of matches that `grep_search` returns.
const MATCHES_MAX: u64 = 100;
/// Smallest number of bytes to show of each of these files.
const FILE_BYTES_MIN: usize = 1024;
/// Divisor of the content size to estimate the bytes that escapes add to a native response.
const ESCAPES_PART: usize = 4;
/// Bytes of the heading of each file besides its path.
const HEADING_BYTES: usize = 16;

/// Reads a file. A long file is cut, and the result says where to continue.
#[derive(Debug, Deserialize, JsonSchema)]
struct ReadFileRequest {
    /// The path of the file to read
    #[schemars(extend("x-aliases" = ["absolute_path"]))]
    file_path: String,
    /// The first line to read, from 1
    start_line: Option<u64>,
    /// The last line to read
    end_line: Option<u64>,
    /// The first line to read, from 0; older models use this
    #[schemars(extend("x-hidden" = true))]
    offset: Option<u64>,
    /// Lines to read
    #[schemars(extend("x-hidden" = true))]
    limit: Option<u64>,
}

/// Runs `read_file`.
fn read_file(lbx: &mut LbxClient<'_>, request: ReadFileRequest) -> Result<ToolOutput, Error> {
    let start = request.start_line.or(request.offset.map(|offset| offset.saturating_add(1)));
    let asked = json!({
        "path": request.file_path, "start_line": start, "end_line": request.end_line, "limit": request.limit
    });
    let data = match lbx.text_or_images(&request.file_path, asked)? {
        Ok(data) => data,
        Err(images) => return Ok(ToolOutput { images, ..ToolOutput::default() }),
    };
    drop_past_end_warning(lbx, &data);
    let (content, shown) = (text(&data, "content"), ShownReadLines::of(&data));
    if shown.last < shown.first && shown.total > 0 {
        let ShownReadLines { first, total, .. } = shown;
        return Ok(format!("The file has {total} lines: there is nothing from line {first} on.").into());
    }
    Ok(part_shown(&shown).map_or_else(
        || content.into(),
        |header| format!("{header}\n\n--- FILE CONTENT (truncated) ---\n{content}").into(),
    ))
}

/// Returns the note before a part of a file; `None` for a whole file.
fn part_shown(shown: &ShownReadLines) -> Option<String> {
    let ShownReadLines { first, last, total, .. } = *shown;
    let clipped = shown.clipped();
    if first <= 1 && last >= total && clipped.is_none() {
        return None;
    }
    let lines = format!("lines {first}-{last}");
    let clipped = clipped.map(|clipped| format!(" {clipped}")).unwrap_or_default();
    let more = if last < total {
        let next = last + 1;
        format!(
            "\nAction: To read more of the file, use 'start_line' and 'end_line', for example start_line: {next}."
        )
    } else {
        String::new()
    };
    Some(format!(
        "IMPORTANT: The file content has been truncated.\nStatus: Showing {lines} of {total} total \
         lines.{clipped}{more}"
    ))
}

/// Ignore files to respect.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(extend("x-ignored" = ["respect_gemini_ignore"]))]
struct Filtering {
    /// Skip files in .gitignore
    respect_git_ignore: Option<bool>,
}

/// Reads several files by path or glob, and shows each under its path.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("x-ignored" = ["recursive", "useDefaultExcludes"]))]
struct ReadManyRequest {
    /// Paths or globs to read
    #[schemars(extend("x-aliases" = ["paths"]))]
    include: Vec<String>,
    /// Globs to skip
    exclude: Option<Vec<String>>,
    /// Ignore files to respect
    file_filtering_options: Option<Filtering>,
}

/// Runs `read_many_files`.
fn read_many_files(lbx: &mut LbxClient<'_>, request: ReadManyRequest) -> Result<ToolOutput, Error> {
    let filtering = request.file_filtering_options.unwrap_or_default();
    let no_ignore = filtering.respect_git_ignore == Some(false);
    let excluded = globs(request.exclude.as_deref().unwrap_or_default())?;
    let mut paths: Vec<String> = Vec::new();
    for pattern in &request.include {
        // Without a slash, the original tool means the directory itself, and lbx means any depth.
        let pattern = if pattern.contains('/') { pattern.clone() } else { format!("./{pattern}") };
        let asked = json!({ "pattern": pattern, "no_ignore": no_ignore, "limit": 0, "max_bytes": 0 });
        let found = lbx.call::<glob::Glob>(asked)?;
        paths.extend(texts(&found, "paths").into_iter().map(str::to_owned));
    }
    paths.retain(|path| !excluded.is_match(path));
    paths.sort();
    paths.dedup();
    if paths.is_empty() {
        return Ok("No files matching the criteria were found or all were skipped.".into());
    }
    let (tried, max_bytes) = with_room(lbx, &paths)?;
    let data = lbx.call::<read::Read>(json!({ "paths": tried, "max_bytes": max_bytes }))?;
    let files = list(&data, "files");
    let mut blocks: Vec<String> = files.iter().map(block).collect();
    blocks.extend(not_read(paths.get(files.len()..).unwrap_or_default()));
    blocks.push("--- End of content ---".to_owned());
    Ok(blocks.join("\n\n").into())
}

/// Returns the first matching files that fit in a response, and a size limit for the native response that leaves room
/// for their content. At least some lines of each file are shown, and all of a small one; so fewer files may fit.
fn with_room<'p>(lbx: &LbxClient<'_>, paths: &'p [String]) -> Result<(&'p [String], usize), Error> {
    let bytes_max = lbx.max_bytes()?;
    let (mut count, mut shown_bytes, mut headings, mut said) = (0, 0, 0, 0);
    for path in paths.iter().take(MANY_FILES_MAX) {
        // The call itself reports files that cannot be read.
        let size = lbx.size_of(path).ok().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        let heading = path.len() + HEADING_BYTES;
        let content = size.min(FILE_BYTES_MIN);
        // The escapes of the native response count as well.
        shown_bytes += heading + content + content / ESCAPES_PART;
        if count > 0 && shown_bytes > bytes_max {
            break;
        }
        // A native response says more about each file than this one, and excludes the first file from its limit.
        said += if count > 0 { read::said_of_each(Path::new(path)) } else { 0 };
        headings += heading;
        count += 1;
    }
    Ok((paths.get(..count).unwrap_or(paths), bytes_max.saturating_sub(headings) + said))
}

/// Returns the note about matching files for which there was no room.
fn not_read(paths: &[String]) -> Option<String> {
    let files = count_of(paths.len() as u64, "matching file was", "matching files were");
    let first = escaped::name(paths.first()?);
    Some(format!("[WARNING: {files} not read, from {first} on. Name fewer files in one call.]"))
}

/// Returns the text for one of several files.
fn block(file: &Value) -> String {
    let path = display(file);
    if let Some(error) = file.get("error") {
        return format!("--- {path} ---\n\nError: {}", text(error, "message"));
    }
    let lines = ShownReadLines::of(file);
    let cut = lines.stop_early(None).then(|| {
        let (last, total) = (lines.last, lines.total);
        format!("This file was cut after line {last} of {total}. Use read_file with start_line.")
    });
    let notes: Vec<String> = cut.into_iter().chain(lines.clipped()).collect();
    let warning = if notes.is_empty() { String::new() } else { format!("\n[WARNING: {}]", notes.join(" ")) };
    format!("--- {path} ---\n\n{}{warning}", text(file, "content"))
}

/// Writes a file. An existing file must be read first.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("x-ignored" = ["modified_by_user", "ai_proposed_content"]))]
struct WriteFileRequest {
    /// The path of the file to write
    file_path: String,
    /// The content to write
    content: String,
}

/// Runs `write_file`.
fn write_file(lbx: &mut LbxClient<'_>, request: WriteFileRequest) -> Result<ToolOutput, Error> {
    let path = &request.file_path;
    let asked = json!({ "path": path, "content": request.content, "line_ending": "keep" });
    let data = lbx.call::<write::Write>(asked)?;
    Ok(if flag(&data, "created") {
        format!("Successfully created and wrote to new file: {path}.").into()
    } else {
        format!("Successfully overwrote file: {path}.").into()
    })
}

/// Replaces text in a file. By default exactly one occurrence of `old_string`; read the file first.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("x-ignored" = ["modified_by_user", "ai_proposed_content", "ai_proposed_string"]))]
struct ReplaceRequest {
    /// The path of the file to modify
    file_path: String,
    /// Purpose of the change
    instruction: Option<String>,
    /// The exact text to replace, with at least three lines of context
    old_string: String,
    /// The exact replacement
    new_string: String,
    /// Replace all occurrences
    allow_multiple: Option<bool>,
    /// Number of occurrences to replace; older versions use this
    #[schemars(extend("x-hidden" = true))]
    expected_replacements: Option<u64>,
}

/// Runs `replace`.
fn replace(lbx: &mut LbxClient<'_>, request: ReplaceRequest) -> Result<ToolOutput, Error> {
    let path = &request.file_path;
    if request.old_string.is_empty() {
        let asked = json!({
            "path": path, "content": request.new_string, "create_only": true, "why": request.instruction
        });
        lbx.call::<write::Write>(asked)?;
        return Ok(format!("Created new file: {path} with provided content.").into());
    }
    let asked = json!({
        "path": path, "old_string": request.old_string, "new_string": request.new_string,
        "replace_all": request.allow_multiple, "expected_replacements": request.expected_replacements,
        "why": request.instruction
    });
    let data = lbx.call::<edit::Edit>(asked)?;
    let made = count_of(number(&data, "count"), "replacement", "replacements");
    let shown = snippet(lbx, path, first_replacement(&data));
    Ok(format!("Successfully modified file: {path} ({made}).\nHere is the updated code:\n{shown}").into())
}

/// Searches file contents with a regular expression.
#[derive(Debug, Deserialize, JsonSchema)]
struct GrepSearchRequest {
    /// The regular expression to search for
    pattern: String,
    /// The directory to search in
    #[schemars(extend("x-aliases" = ["path"]))]
    dir_path: Option<String>,
    /// Glob of the files to search
    #[schemars(extend("x-aliases" = ["include"]))]
    include_pattern: Option<String>,
    /// Regular expression: lines that match it too are left out
    exclude_pattern: Option<String>,
    /// Return only file paths
    names_only: Option<bool>,
    /// Match case
    case_sensitive: Option<bool>,
    /// Treat the pattern as a literal string
    fixed_strings: Option<bool>,
    /// Lines to show around each match
    context: Option<u64>,
    /// Lines to show after each match
    after: Option<u64>,
    /// Lines to show before each match
    before: Option<u64>,
    /// Search ignored files too
    no_ignore: Option<bool>,
    /// Maximum matches per file
    max_matches_per_file: Option<u64>,
    /// Maximum matches
    total_max_matches: Option<u64>,
}

/// Runs `grep_search`.
fn grep_search(lbx: &mut LbxClient<'_>, request: GrepSearchRequest) -> Result<ToolOutput, Error> {
    let names_only = request.names_only == Some(true);
    let asked = json!({
        "pattern": request.pattern, "path": request.dir_path, "include": request.include_pattern.as_deref().map(globs::split),
        "exclude_lines": request.exclude_pattern, "ignore_case": request.case_sensitive != Some(true),
        "literal": request.fixed_strings, "context": request.context, "after": request.after,
        "before": request.before, "no_ignore": request.no_ignore, "max_count": request.max_matches_per_file,
        "limit": request.total_max_matches.unwrap_or(MATCHES_MAX),
        "output_mode": if names_only { "files" } else { "content" }
    });
    let data = lbx.call::<grep::Grep>(asked)?;
    let place = request.dir_path.as_deref().unwrap_or(".");
    let about = format!("for pattern \"{}\" in path \"{place}\"", request.pattern);
    let cut = if flag(&data, "truncated") { " (results limited)" } else { "" };
    if names_only {
        let found = count_of(texts(&data, "files").len() as u64, "file", "files");
        let files = shown_lines(&data, "files");
        return Ok(format!("Found {found} with matches {about}{cut}:\n{files}").into());
    }
    let matches = list(&data, "matches");
    if matches.is_empty() {
        return Ok(format!("No matches found {about}.").into());
    }
    let found = count_of(matches.len() as u64, "match", "matches");
    Ok(format!("Found {found} {about}{cut}:\n---\n{}---", grouped(matches)).into())
}

/// Returns matches with their context, grouped by file.
fn grouped(matches: &[Value]) -> String {
    let line = |(number, is_match, text): (u64, bool, String)| {
        format!("L{number}{} {text}\n", if is_match { ':' } else { '-' })
    };
    let file = |matches: &[Value]| {
        let lines: String = matches.iter().flat_map(match_lines).map(line).collect();
        format!("File: {}\n{lines}", matches.first().map(display).unwrap_or_default())
    };
    by_file(matches).map(file).collect::<Vec<_>>().join("---\n")
}

/// Finds files by a glob pattern, the newest first.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("x-ignored" = ["respect_gemini_ignore"]))]
struct GlobRequest {
    /// The glob pattern to match
    pattern: String,
    /// The directory to search in
    #[schemars(extend("x-aliases" = ["path"]))]
    dir_path: Option<String>,
    /// Match case
    case_sensitive: Option<bool>,
    /// Skip files in .gitignore
    respect_git_ignore: Option<bool>,
}

/// Runs `glob`.
fn glob(lbx: &mut LbxClient<'_>, request: GlobRequest) -> Result<ToolOutput, Error> {
    let asked = json!({
        "pattern": request.pattern, "path": request.dir_path, "sort": "mtime",
        "ignore_case": request.case_sensitive != Some(true),
        "no_ignore": request.respect_git_ignore == Some(false)
    });
    let data = lbx.call::<glob::Glob>(asked)?;
    let lines = absolute_paths(lbx, &data)?;
    let place = request.dir_path.as_deref().unwrap_or(".");
    if lines.is_empty() {
        return Ok(format!("No files found matching pattern \"{}\" within {place}", request.pattern).into());
    }
    let found = number(&data, "total");
    let cut = if flag(&data, "truncated") {
        format!("\n(These are the first {} of them. Use a more specific pattern or dir_path.)", lines.len())
    } else {
        String::new()
    };
    Ok(format!(
        "Found {found} file(s) matching \"{}\" within {place}, sorted by modification time (newest first):\n{}{cut}",
        request.pattern,
        lines.join("\n")
    )
    .into())
}

/// Lists the files and directories directly within a directory.
#[derive(Debug, Deserialize, JsonSchema)]
struct ListDirectoryRequest {
    /// The directory to list
    #[schemars(extend("x-aliases" = ["path"]))]
    dir_path: String,
    /// Globs to skip
    ignore: Option<Vec<String>>,
    /// Ignore files to respect
    file_filtering_options: Option<Filtering>,
}

/// Runs `list_directory`.
fn list_directory(lbx: &mut LbxClient<'_>, request: ListDirectoryRequest) -> Result<ToolOutput, Error> {
    let filtering = request.file_filtering_options.unwrap_or_default();
    let left_out = globs(request.ignore.as_deref().unwrap_or_default())?;
    let asked = json!({
        "path": request.dir_path, "long": true, "hidden": true, "limit": 0,
        "no_ignore": filtering.respect_git_ignore == Some(false)
    });
    let data = lbx.list_folder(asked)?;
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for entry in list(&data, "entries") {
        let name = text(entry, "path").rsplit('/').next().unwrap_or_default();
        if left_out.is_match(name) {
            continue;
        }
        match text(entry, "type") {
            "dir" => folders.push(format!("[DIR] {}", escaped::name(name))),
            _ => files.push(format!("{} ({} bytes)", escaped::name(name), number(entry, "size"))),
        }
    }
    if folders.is_empty() && files.is_empty() {
        return Ok(format!("Directory {} is empty.", request.dir_path).into());
    }
    folders.extend(files);
    let mut said = format!("Directory listing for {}:\n{}", request.dir_path, folders.join("\n"));
    if let Some(ignored) = data.get("ignored") {
        said.extend([format!("\n\n({} ignored)", number(ignored, "entries"))]);
    }
    if flag(&data, "truncated") {
        said.extend([format!("\n\n(cut: {} entries in all)", number(&data, "total"))]);
    }
    Ok(said.into())
}
