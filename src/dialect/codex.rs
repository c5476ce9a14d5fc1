//! `codex`: `apply_patch`, and the older `read_file`, `list_dir`, `grep_files`, `view_image`.
//!
//! lbx is stricter: a patch applies whole or not at all, never overwrites a file by `Add` or `Move to`, and fails if
//! old lines match more than once.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::client::{
    LbxClient, ShownReadLines, drop_past_end_warning, flag, last_asked, list, numbered, shown_lines,
    shown_path, text, texts, without_cr,
};
use super::shell;
use super::tool::{Dialect, ToolOutput, tool};
use crate::error::{Error, ErrorKind};
use crate::search::globs;
use crate::tools::{grep, read};

/// Dialect `codex`.
pub const CODEX: Dialect = Dialect {
    name: "codex",
    is_model_family: true,
    tools: &[
        tool!("apply_patch", Writes, apply_patch),
        tool!(
            "read_file", Reads, read_file, reads_files: true,
            fields: &[("path", "file_path"), ("start_line", "offset"), ("around_line", "anchor_line")]
        ),
        tool!("list_dir", Reads, list_dir, fields: &[("path", "dir_path")]),
        tool!("grep_files", Reads, grep_files),
        tool!("view_image", Reads, view_image),
        shell::SHELL,
        shell::SHELL_COMMAND,
        shell::EXEC_COMMAND,
    ],
    names: &[
        ("read", "read_file"),
        ("write", "apply_patch"),
        ("edit", "apply_patch"),
        ("grep", "grep_files"),
        ("ls", "list_dir"),
        ("bash", "shell_command"),
    ],
    error_texts: &[],
    error_frame: "{}",
    differences: &[
        "A patch applies whole or not at all, never overwrites a file by Add or Move to, and refuses old lines that occur more than once.",
        "Commands are confined to the workspace, and run to their end: exec_command has no sessions, and there is no write_stdin.",
    ],
};

/// Largest number of files that `grep_files` returns, whatever the request.
const GREP_LIMIT_MAX: u64 = 2000;

/// Edits files with a patch in the `*** Begin Patch` format.
///
/// The patch applies whole or not at all. Paths are relative to the workspace.
#[derive(Debug, Deserialize, JsonSchema)]
struct ApplyPatchRequest {
    /// The whole patch, from `*** Begin Patch` to `*** End Patch`
    input: String,
}

/// Runs `apply_patch`.
fn apply_patch(lbx: &mut LbxClient<'_>, request: ApplyPatchRequest) -> Result<ToolOutput, Error> {
    shell::apply_patch(lbx, &request.input, None)
}

/// Way in which `read_file` selects lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ReadMode {
    /// Lines in a row
    #[default]
    Slice,
    /// The block around a line, by indentation
    Indentation,
}

/// Block to read.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(extend("x-ignored" = ["max_levels", "include_siblings", "include_header"]))]
struct Indentation {
    /// A line of the block, from 1
    #[schemars(extend("x-not-zero" = true))]
    anchor_line: Option<u64>,
    /// Maximum lines to show
    #[schemars(extend("x-not-zero" = true))]
    max_lines: Option<u64>,
}

/// Reads a local file with line numbers, from 1.
#[derive(Debug, Deserialize, JsonSchema)]
struct ReadFileRequest {
    /// The absolute path of the file
    file_path: String,
    /// The line number to start reading from, from 1
    #[schemars(extend("x-not-zero" = true))]
    offset: Option<u64>,
    /// Maximum lines to return
    #[schemars(extend("x-not-zero" = true))]
    limit: Option<u64>,
    /// "slice" for lines in a row, "indentation" for the block around a line
    mode: Option<ReadMode>,
    /// The block, for "indentation"
    indentation: Option<Indentation>,
}

/// Runs `read_file`.
fn read_file(lbx: &mut LbxClient<'_>, request: ReadFileRequest) -> Result<ToolOutput, Error> {
    let offset = request.offset.unwrap_or(1);
    let block = request.indentation.unwrap_or_default();
    let mode = request.mode.unwrap_or_default();
    let asked = match mode {
        ReadMode::Slice => json!({
            "path": request.file_path, "start_line": offset, "limit": request.limit
        }),
        ReadMode::Indentation => json!({
            "path": request.file_path, "around_line": block.anchor_line.unwrap_or(offset),
            "limit": block.max_lines.or(request.limit)
        }),
    };
    let data = lbx.call::<read::Read>(asked)?;
    if text(&data, "content").is_empty() && offset > 1 {
        drop_past_end_warning(lbx, &data);
        return Err(Error::invalid("offset exceeds file length").detail("field", "offset"));
    }
    let whole = ShownReadLines::of(&data);
    lbx.shows_only(whole.first, whole.last);
    let bytes_max = lbx.max_bytes()?;
    let (mut said, shown) =
        numbered(lbx, &data, bytes_max, |number, line| format!("L{number}: {}", without_cr(line)));
    let asked_last = match mode {
        ReadMode::Slice => last_asked(offset, request.limit),
        // A block has its own end.
        ReadMode::Indentation => Some(whole.last),
    };
    said.extend(
        shown.missing_lines_text(asked_last, "Use offset and limit").map(|note| format!("\n[{note}]")),
    );
    Ok(said.into())
}

/// Lists a local directory, with types; entries are numbered from 1.
#[derive(Debug, Deserialize, JsonSchema)]
struct ListDirRequest {
    /// The absolute path of the directory
    dir_path: String,
    /// The entry to start from, from 1
    #[schemars(extend("x-not-zero" = true))]
    offset: Option<u64>,
    /// Maximum entries to return
    #[schemars(extend("x-not-zero" = true))]
    limit: Option<u64>,
    /// Levels to list
    #[schemars(extend("x-not-zero" = true))]
    depth: Option<u64>,
}

/// Runs `list_dir`.
fn list_dir(lbx: &mut LbxClient<'_>, request: ListDirRequest) -> Result<ToolOutput, Error> {
    let asked = json!({
        "path": request.dir_path, "depth": request.depth.unwrap_or(2), "hidden": true, "no_ignore": true,
        "offset": request.offset.unwrap_or(1).saturating_sub(1), "limit": request.limit.unwrap_or(25)
    });
    let data = lbx.list_folder(asked)?;
    let (root, base) = (lbx.absolute(&request.dir_path)?, lbx.base()?);
    let mut lines = vec![format!("Absolute path: {}", shown_path(&root))];
    for entry in list(&data, "entries") {
        let path = base.join(text(entry, "path"));
        let below = path.strip_prefix(&root).unwrap_or(&path);
        let name = shown_path(Path::new(below.file_name().unwrap_or_default()));
        let mark = match text(entry, "type") {
            "dir" => "/",
            "symlink" => "@",
            _ => "",
        };
        let depth = below.components().count().saturating_sub(1);
        lines.push(format!("{}{name}{mark}", "  ".repeat(depth)));
    }
    if flag(&data, "truncated") {
        lines.push(format!("More than {} entries found", list(&data, "entries").len()));
    }
    Ok(lines.join("\n").into())
}

/// Finds files whose contents match a pattern, the newest first.
#[derive(Debug, Deserialize, JsonSchema)]
struct GrepFilesRequest {
    /// The regular expression to search for
    pattern: String,
    /// Glob of the files to search, such as "*.rs"
    include: Option<String>,
    /// Directory or file to search; the current directory if omitted
    path: Option<String>,
    /// Maximum paths to return
    limit: Option<u64>,
}

/// Runs `grep_files`.
fn grep_files(lbx: &mut LbxClient<'_>, request: GrepFilesRequest) -> Result<ToolOutput, Error> {
    let limit = request.limit.unwrap_or(100).clamp(1, GREP_LIMIT_MAX);
    let asked = json!({
        "pattern": request.pattern, "include": request.include.as_deref().map(globs::split), "path": request.path,
        "output_mode": "files", "sort": "mtime", "limit": limit
    });
    let data = lbx.call::<grep::Grep>(asked)?;
    let files = texts(&data, "files");
    if files.is_empty() {
        return Ok("No matches found.".into());
    }
    let mut said = shown_lines(&data, "files");
    if flag(&data, "truncated") {
        said.extend([format!("\n[More than {} files match]", files.len())]);
    }
    Ok(said.into())
}

/// Shows a local image.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("x-ignored" = ["detail"]))]
struct ViewImageRequest {
    /// The path of the image
    path: String,
}

/// Runs `view_image`.
fn view_image(lbx: &mut LbxClient<'_>, request: ViewImageRequest) -> Result<ToolOutput, Error> {
    let images = lbx.image(&request.path)?;
    if images.is_empty() {
        return Err(Error::new(ErrorKind::InvalidRequest, format!("{} is not an image", request.path))
            .at(request.path));
    }
    Ok(ToolOutput { text: "attached local image path".to_owned(), images, ..ToolOutput::default() })
}
