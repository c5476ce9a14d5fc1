//! `claude`: the tools of Claude Code, such as `Read`, `Edit`, `Grep` and `Bash`.
//!
//! lbx is stricter: it detects a change by others by the bytes of the file, not by its time; an `Edit` with an empty
//! `old_string` creates a file and never overwrites one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::client::{
    LbxClient, absolute_paths, count_of, display, drop_past_end_warning, flag, last_asked, list, match_lines,
    must_have_edits, number, numbered, shown_lines, text, texts, tree, without_cr,
};
use super::notebook::{self, read_notebook};
use super::shell;
use super::tool::{Dialect, ToolOutput, tool};
use crate::error::{Error, ErrorKind};
use crate::search::globs;
use crate::tools::{edit, glob, grep, write};

/// Dialect `claude`.
pub const CLAUDE: Dialect = Dialect {
    name: "claude",
    is_model_family: true,
    tools: &[
        tool!(
            "Read", Reads, read, reads_files: true,
            fields: &[("path", "file_path"), ("start_line", "offset")]
        ),
        tool!("Write", Writes, write, fields: &[("path", "file_path"), ("max_bytes", "allow_large")]),
        tool!("Edit", Writes, edit, fields: &[("path", "file_path")]),
        tool!("MultiEdit", Writes, multi_edit, fields: &[("path", "file_path")]),
        notebook::NOTEBOOK_EDIT,
        tool!("Glob", Reads, glob),
        tool!(
            "Grep", Reads, grep,
            fields: &[
                ("include", "glob"), ("ignore_case", "-i"), ("before", "-B"), ("after", "-A"),
                ("context", "-C"), ("only_matching", "-o"), ("limit", "head_limit"),
            ]
        ),
        tool!("LS", Reads, ls),
        shell::BASH,
        shell::BASH_OUTPUT,
        shell::KILL_SHELL,
    ],
    names: &[
        ("read", "Read"),
        ("write", "Write"),
        ("edit", "Edit"),
        ("glob", "Glob"),
        ("grep", "Grep"),
        ("ls", "LS"),
        ("bash", "Bash"),
    ],
    error_texts: &[
        (ErrorKind::NotRead, "File has not been read yet. Read it first before writing to it. {advice}"),
        (
            ErrorKind::StaleFile,
            "File has been modified since read, either by the user or by a linter. Read it again before attempting to write it.",
        ),
        (ErrorKind::NoMatch, "String to replace not found in file.\nString: {old_string}\n{message}"),
        (
            ErrorKind::AmbiguousMatch,
            "Found {count} matches of the string to replace, but replace_all is false. To replace all occurrences, set replace_all to true. To replace only one occurrence, please provide more context to uniquely identify the instance.\nString: {old_string}",
        ),
        (ErrorKind::NotFound, "File does not exist. {advice}"),
        (ErrorKind::BinaryFile, "This tool cannot read binary files, images excepted. {advice}"),
    ],
    error_frame: "<tool_use_error>{}</tool_use_error>",
    differences: &[
        "Whether a file has changed since it was read is decided by its bytes, not by its time.",
        "Edit with an empty old_string creates a file and never overwrites one.",
        "Read does not show PDF files, and shows only the start of a notebook's outputs.",
        "NotebookEdit changes only cells whose source was shown, and leaves every byte of the others as it is.",
        "Commands are confined to the workspace.",
        "BashOutput shows the last 24 kB of the output so far, and not only what is new.",
    ],
};

/// Largest number of paths that `Glob` returns.
const GLOB_LIMIT: u64 = 100;
/// Default limit of lines, files or counts that `Grep` returns.
const GREP_LIMIT: u64 = 250;
/// Largest number of entries that `LS` returns.
const LS_LIMIT: u64 = 1000;

/// Reads a file from the local filesystem.
///
/// Reads up to 2000 lines from the start of the file; give offset and limit for another part. Each line
/// of the result begins with its number and a tab. A file must be read before it is edited or
/// overwritten.
#[derive(Debug, Deserialize, JsonSchema)]
struct ReadRequest {
    /// The absolute path of the file to read
    file_path: String,
    /// The line number to start reading from, from 1
    offset: Option<u64>,
    /// The number of lines to read
    limit: Option<u64>,
    /// Show the whole range, however large, including long lines
    allow_large: bool,
    /// Page range of a PDF file; PDF files are not supported
    #[schemars(extend("x-hidden" = true))]
    pages: Option<String>,
}

/// Runs `Read`.
fn read(lbx: &mut LbxClient<'_>, request: ReadRequest) -> Result<ToolOutput, Error> {
    // Models send an empty string for no value.
    if request.pages.is_some_and(|pages| !pages.trim().is_empty()) {
        return Err(Error::invalid("field `pages`: PDF files are not supported").detail("field", "pages"));
    }
    if request.offset.is_none()
        && request.limit.is_none()
        && let Some(said) = read_notebook(lbx, &request.file_path)?
    {
        return Ok(said);
    }
    let start = request.offset.unwrap_or(1).max(1);
    let asked = json!({
        "path": request.file_path, "start_line": start, "limit": request.limit,
        "max_bytes": request.allow_large.then_some(0)
    });
    let data = match lbx.text_or_images(&request.file_path, asked)? {
        Ok(data) => data,
        Err(images) => return Ok(ToolOutput { images, ..ToolOutput::default() }),
    };
    let total = number(&data, "total_lines");
    if text(&data, "content").is_empty() {
        drop_past_end_warning(lbx, &data);
        let warning = if total == 0 {
            "Warning: the file exists but the contents are empty.".to_owned()
        } else {
            format!(
                "Warning: the file exists but is shorter than the provided offset ({start}). The file has {total} lines."
            )
        };
        return Ok(format!("<system-reminder>{warning}</system-reminder>").into());
    }
    let bytes_max = if request.allow_large { 0 } else { lbx.max_bytes()? };
    let (mut said, shown) =
        numbered(lbx, &data, bytes_max, |number, line| format!("{number}\t{}", without_cr(line)));
    let asked = last_asked(start, request.limit);
    let whole = shown.clipped().map(|_| " Set allow_large to see long lines whole.").unwrap_or_default();
    let left_out = shown.missing_lines_text(asked, "Use offset and limit").map(|note| note + whole);
    said.extend(left_out.map(|note| format!("\n<system-reminder>{note}</system-reminder>")));
    Ok(said.into())
}

/// Writes a file to the local filesystem.
///
/// Overwrites the file at the path if there is one. An existing file must be read first.
#[derive(Debug, Deserialize, JsonSchema)]
struct WriteRequest {
    /// The absolute path of the file to write
    file_path: String,
    /// The content to write to the file
    content: String,
}

/// Runs `Write`.
fn write(lbx: &mut LbxClient<'_>, request: WriteRequest) -> Result<ToolOutput, Error> {
    let path = &request.file_path;
    let data = lbx.call::<write::Write>(json!({ "path": path, "content": request.content }))?;
    Ok(written(path, flag(&data, "created")))
}

/// Returns the text for a file that was written.
fn written(path: &str, created: bool) -> ToolOutput {
    if created {
        format!("File created successfully at: {path}").into()
    } else {
        format!("The file {path} has been updated successfully.").into()
    }
}

/// Performs exact string replacements in files.
///
/// Read the file first. The edit fails if `old_string` is not unique in the file: give more context, or
/// use `replace_all`. Keep the exact indentation as it appears after the line number and tab.
#[derive(Debug, Deserialize, JsonSchema)]
struct EditRequest {
    /// The absolute path of the file to modify
    file_path: String,
    /// The text to replace
    old_string: String,
    /// The text to replace it with; must differ from `old_string`
    new_string: String,
    /// Replace all occurrences of `old_string`
    replace_all: bool,
}

/// Runs `Edit`.
fn edit(lbx: &mut LbxClient<'_>, request: EditRequest) -> Result<ToolOutput, Error> {
    let EditRequest { file_path: path, old_string, new_string, replace_all } = request;
    if old_string.is_empty() {
        let created = json!({ "path": path, "content": new_string, "create_only": true });
        lbx.call::<write::Write>(created)?;
        return Ok(written(&path, true));
    }
    let asked = json!({
        "path": path, "old_string": old_string, "new_string": new_string, "replace_all": replace_all
    });
    lbx.call::<edit::Edit>(asked)?;
    Ok(if replace_all {
        format!("The file {path} has been updated. All occurrences were successfully replaced.").into()
    } else {
        written(&path, false)
    })
}

/// Makes several edits to one file, all or none. Each edit applies to the result of the previous one.
#[derive(Debug, Deserialize, JsonSchema)]
struct MultiEditRequest {
    /// The absolute path of the file to modify
    file_path: String,
    /// The edits, in order
    edits: Vec<MultiEditItem>,
}

/// One edit of several.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct MultiEditItem {
    /// The text to replace
    old_string: String,
    /// The text to replace it with
    new_string: String,
    /// Replace all occurrences of `old_string`
    replace_all: bool,
}

/// Runs `MultiEdit`.
fn multi_edit(lbx: &mut LbxClient<'_>, request: MultiEditRequest) -> Result<ToolOutput, Error> {
    must_have_edits(&request.edits)?;
    lbx.call::<edit::Edit>(json!({ "path": request.file_path, "edits": request.edits }))?;
    let made = count_of(request.edits.len() as u64, "edit", "edits");
    let lines: Vec<String> = request
        .edits
        .iter()
        .zip(1..)
        .map(|(edit, number)| {
            format!("{number}. Replaced \"{}\" with \"{}\"", edit.old_string, edit.new_string)
        })
        .collect();
    Ok(format!("Applied {made} to {}:\n{}", request.file_path, lines.join("\n")).into())
}

/// Finds files by name with a glob pattern such as "**/*.js", the newest first.
#[derive(Debug, Deserialize, JsonSchema)]
struct GlobRequest {
    /// The glob pattern to match files against
    pattern: String,
    /// The directory to search in; the current one if omitted
    path: Option<String>,
}

/// Runs `Glob`.
fn glob(lbx: &mut LbxClient<'_>, request: GlobRequest) -> Result<ToolOutput, Error> {
    let asked = json!({
        "pattern": request.pattern, "path": request.path, "sort": "mtime", "hidden": true,
        "no_ignore": true, "limit": GLOB_LIMIT
    });
    let data = lbx.call::<glob::Glob>(asked)?;
    let mut lines = absolute_paths(lbx, &data)?;
    if lines.is_empty() {
        return Ok("No files found".into());
    }
    if flag(&data, "truncated") {
        lines.push("(Results are truncated. Consider using a more specific path or pattern.)".to_owned());
    }
    Ok(lines.join("\n").into())
}

/// Output of `Grep`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum GrepMode {
    /// Matching lines
    Content,
    /// Paths of files with matches
    #[default]
    FilesWithMatches,
    /// Matches in each file
    Count,
}

/// Searches file contents with a regular expression, in ripgrep's syntax.
#[derive(Debug, Deserialize, JsonSchema)]
struct GrepRequest {
    /// The regular expression to search for
    pattern: String,
    /// File or directory to search in; the current directory if omitted
    path: Option<String>,
    /// Glob pattern to filter files, such as "*.js"
    glob: Option<String>,
    /// "content" shows matching lines, "`files_with_matches`" file paths, "count" match counts
    output_mode: Option<GrepMode>,
    /// Lines to show before each match
    #[serde(rename = "-B")]
    before: Option<u64>,
    /// Lines to show after each match
    #[serde(rename = "-A")]
    after: Option<u64>,
    /// Lines to show before and after each match
    #[serde(rename = "-C")]
    #[schemars(extend("x-aliases" = ["context"]))]
    context: Option<u64>,
    /// Show line numbers
    #[serde(rename = "-n")]
    line_numbers: Option<bool>,
    /// Ignore case
    #[serde(rename = "-i")]
    ignore_case: Option<bool>,
    /// Show only the matching part of each line
    #[serde(rename = "-o")]
    only_matching: Option<bool>,
    /// File type to search, such as js, py, rust
    r#type: Option<String>,
    /// Lines, files or counts to show; 0 for all
    head_limit: Option<u64>,
    /// Lines, files or counts to skip
    offset: Option<u64>,
    /// Let patterns span lines
    multiline: Option<bool>,
}

/// Runs `Grep`.
fn grep(lbx: &mut LbxClient<'_>, request: GrepRequest) -> Result<ToolOutput, Error> {
    let mode = request.output_mode.unwrap_or_default();
    let (native, sort) = match mode {
        GrepMode::Content => ("content", "path"),
        GrepMode::FilesWithMatches => ("files", "mtime"),
        GrepMode::Count => ("count_matches", "path"),
    };
    let limit = request.head_limit.unwrap_or(GREP_LIMIT);
    let asked = json!({
        "pattern": request.pattern, "path": request.path, "include": request.glob.as_deref().map(globs::split), "type": request.r#type,
        "ignore_case": request.ignore_case, "multiline": request.multiline, "before": request.before,
        "after": request.after, "context": request.context, "only_matching": request.only_matching,
        "output_mode": native, "sort": sort, "hidden": true, "limit": limit, "offset": request.offset
    });
    let data = lbx.call::<grep::Grep>(asked)?;
    let mut said = match mode {
        GrepMode::Content => content(&data, request.line_numbers.unwrap_or(true)),
        GrepMode::FilesWithMatches => files(&data),
        GrepMode::Count => counts(&data),
    };
    if flag(&data, "truncated") {
        // The response may be full before the limit.
        let limit =
            ["matches", "files", "counts"].map(|field| list(&data, field).len()).iter().sum::<usize>();
        let offset = request.offset.map(|offset| format!(", offset: {offset}")).unwrap_or_default();
        said.extend([format!("\n\n[Showing results with pagination = limit: {limit}{offset}]")]);
    }
    Ok(said.into())
}

/// Returns matching lines with their context, as ripgrep prints them.
fn content(data: &Value, with_numbers: bool) -> String {
    let mut lines = Vec::new();
    for found in list(data, "matches") {
        let path = display(found);
        lines.extend(match_lines(found).map(|(number, is_match, text)| {
            let mark = if is_match { ':' } else { '-' };
            let number = if with_numbers { format!("{number}{mark}") } else { String::new() };
            format!("{path}{mark}{number}{text}")
        }));
    }
    if lines.is_empty() { "No matches found".to_owned() } else { lines.join("\n") }
}

/// Returns paths of files with matches.
fn files(data: &Value) -> String {
    let files = texts(data, "files");
    if files.is_empty() {
        return "No files found".to_owned();
    }
    format!("Found {}\n{}", count_of(files.len() as u64, "file", "files"), shown_lines(data, "files"))
}

/// Returns the number of matches in each file, and the total.
fn counts(data: &Value) -> String {
    let counts = list(data, "counts");
    if counts.is_empty() {
        return "No matches found".to_owned();
    }
    let total: u64 = counts.iter().map(|count| number(count, "count")).sum();
    let lines: Vec<String> =
        counts.iter().map(|count| format!("{}:{}", display(count), number(count, "count"))).collect();
    let occurrences = count_of(total, "total occurrence", "total occurrences");
    let files = count_of(counts.len() as u64, "file", "files");
    format!("{}\n\nFound {occurrences} across {files}.", lines.join("\n"))
}

/// Lists files and directories in a directory.
#[derive(Debug, Deserialize, JsonSchema)]
struct LsRequest {
    /// The absolute path of the directory to list
    path: String,
    /// Glob patterns to ignore
    ignore: Option<Vec<String>>,
}

/// Runs `LS`.
fn ls(lbx: &mut LbxClient<'_>, request: LsRequest) -> Result<ToolOutput, Error> {
    tree(lbx, &request.path, request.ignore.as_deref(), LS_LIMIT, "- ").map(ToolOutput::from)
}
