//! `codex`: `apply_patch`, and the older `read_file`, `list_dir`, `grep_files`, `view_image`.
//!
//! Where lbx is stricter: a patch applies whole or not at all, never overwrites a file by `Add` or
//! `Move to`, and refuses old lines that occur more than once.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::client::{
    LinesShown, Native, flag, last_asked, list, native_request, numbered, says_past_end, shown_lines,
    shown_path, text, texts,
};
use super::shell::{ExecCommand, Shell, ShellCommand, apply_patch};
use super::tool::{Dialect, Foreign, Pair, Said, foreign};
use crate::error::{Error, ErrorKind};
use crate::search::globs;
use crate::tools::{Effect, grep, ls, read};

/// The dialect.
pub const CODEX: Dialect = Dialect {
    name: "codex",
    is_model_family: true,
    tools: &[
        foreign::<ApplyPatch>(),
        foreign::<ReadFile>(),
        foreign::<ListDir>(),
        foreign::<GrepFiles>(),
        foreign::<ViewImage>(),
        foreign::<Shell>(),
        foreign::<ShellCommand>(),
        foreign::<ExecCommand>(),
    ],
    names: &[
        ("read", "read_file"),
        ("write", "apply_patch"),
        ("edit", "apply_patch"),
        ("grep", "grep_files"),
        ("ls", "list_dir"),
        ("bash", "shell_command"),
    ],
    error_text: |failure| failure.words(),
    differences: &[
        "A patch applies whole or not at all, never overwrites a file by Add or Move to, and refuses old lines that occur more than once.",
        "Commands are confined to the workspace, and run to their end: exec_command has no sessions, and there is no write_stdin.",
    ],
};

/// Files that `grep_files` answers at most, whatever is asked.
const GREP_LIMIT_MAX: u64 = 2000;

/// Edits files by a patch in the `*** Begin Patch` format.
///
/// The patch applies whole or not at all. Paths are relative to the workspace.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ApplyPatchRequest {
    /// The whole patch, from `*** Begin Patch` to `*** End Patch`
    input: String,
}

/// `apply_patch`.
struct ApplyPatch;

impl Foreign for ApplyPatch {
    const NAME: &'static str = "apply_patch";
    const EFFECT: Effect = Effect::Writes;
    type Request = ApplyPatchRequest;

    fn run(lbx: &mut Native<'_>, request: ApplyPatchRequest) -> Result<Said, Error> {
        apply_patch(lbx, &request.input, None)
    }
}

/// How `read_file` chooses lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ReadMode {
    /// Lines in a row
    #[default]
    Slice,
    /// The block around a line, by indentation
    Indentation,
}

/// The block to read.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-ignored" = ["max_levels", "include_siblings", "include_header"]))]
struct Indentation {
    /// The line whose block to show, from 1
    #[schemars(extend("x-not-zero" = true))]
    anchor_line: Option<u64>,
    /// Lines to show at most
    #[schemars(extend("x-not-zero" = true))]
    max_lines: Option<u64>,
}

/// Reads a local file with line numbers, from 1.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFileRequest {
    /// The absolute path of the file
    file_path: String,
    /// The line number to start reading from, from 1
    #[schemars(extend("x-not-zero" = true))]
    offset: Option<u64>,
    /// Lines to return at most
    #[schemars(extend("x-not-zero" = true))]
    limit: Option<u64>,
    /// "slice" for lines in a row, "indentation" for the block around a line
    mode: Option<ReadMode>,
    /// The block, for "indentation"
    indentation: Option<Indentation>,
}

/// `read_file`.
struct ReadFile;

impl Foreign for ReadFile {
    const NAME: &'static str = "read_file";
    const EFFECT: Effect = Effect::Reads;
    const READS_FILES: bool = true;
    const FIELDS: &'static [Pair] =
        &[("path", "file_path"), ("start_line", "offset"), ("around_line", "anchor_line")];
    type Request = ReadFileRequest;

    fn run(lbx: &mut Native<'_>, request: ReadFileRequest) -> Result<Said, Error> {
        let offset = request.offset.unwrap_or(1);
        let block = request.indentation.unwrap_or_default();
        let mode = request.mode.unwrap_or_default();
        let asked = match mode {
            ReadMode::Slice => native_request! {
                "path": request.file_path, "start_line": offset, "limit": request.limit
            },
            ReadMode::Indentation => native_request! {
                "path": request.file_path, "around_line": block.anchor_line.unwrap_or(offset)
            },
        };
        let data = lbx.call::<read::Read>(asked)?;
        if text(&data, "content").is_empty() && offset > 1 {
            says_past_end(lbx, &data);
            return Err(Error::invalid("offset exceeds file length").detail("field", "offset"));
        }
        let said = numbered(&data, |number, line| format!("L{number}: {line}"));
        let most = block.max_lines.and_then(|lines| usize::try_from(lines).ok()).unwrap_or(usize::MAX);
        let mut said = said.lines().take(most).collect::<Vec<_>>().join("\n");
        let shown = LinesShown::of(&data);
        let asked_last = match mode {
            ReadMode::Slice => last_asked(offset, request.limit),
            // A block ends where it ends.
            ReadMode::Indentation => Some(shown.last),
        };
        said.extend(shown.left_out(asked_last, "Use offset and limit").map(|note| format!("\n[{note}]")));
        Ok(said.into())
    }
}

/// Lists a local directory, with types, from 1.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListDirRequest {
    /// The absolute path of the directory
    dir_path: String,
    /// The entry to start from, from 1
    offset: Option<u64>,
    /// Entries to return at most
    limit: Option<u64>,
    /// Levels to list
    depth: Option<u64>,
}

/// `list_dir`.
struct ListDir;

impl Foreign for ListDir {
    const NAME: &'static str = "list_dir";
    const EFFECT: Effect = Effect::Reads;
    const FIELDS: &'static [Pair] = &[("path", "dir_path")];
    type Request = ListDirRequest;

    fn run(lbx: &mut Native<'_>, request: ListDirRequest) -> Result<Said, Error> {
        let asked = json!({
            "path": request.dir_path, "depth": request.depth.unwrap_or(2), "hidden": true, "no_ignore": true,
            "offset": request.offset.unwrap_or(1).saturating_sub(1), "limit": request.limit.unwrap_or(25)
        });
        let data = lbx.call::<ls::Ls>(asked)?;
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
}

/// Finds files whose contents match a pattern, the newest first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GrepFilesRequest {
    /// The regular expression to search for
    pattern: String,
    /// Glob that limits which files are searched, such as "*.rs"
    include: Option<String>,
    /// Directory or file to search; the current directory if omitted
    path: Option<String>,
    /// Paths to return at most
    limit: Option<u64>,
}

/// `grep_files`.
struct GrepFiles;

impl Foreign for GrepFiles {
    const NAME: &'static str = "grep_files";
    const EFFECT: Effect = Effect::Reads;
    type Request = GrepFilesRequest;

    fn run(lbx: &mut Native<'_>, request: GrepFilesRequest) -> Result<Said, Error> {
        let limit = request.limit.unwrap_or(100).clamp(1, GREP_LIMIT_MAX);
        let asked = native_request! {
            "pattern": request.pattern, "include": request.include.as_deref().map(globs::split), "path": request.path,
            "output_mode": "files", "sort": "mtime", "limit": limit
        };
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
}

/// Shows a local image.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-ignored" = ["detail"]))]
struct ViewImageRequest {
    /// The path of the image
    path: String,
}

/// `view_image`.
struct ViewImage;

impl Foreign for ViewImage {
    const NAME: &'static str = "view_image";
    const EFFECT: Effect = Effect::Reads;
    type Request = ViewImageRequest;

    fn run(lbx: &mut Native<'_>, request: ViewImageRequest) -> Result<Said, Error> {
        let images = lbx.image(&request.path)?;
        if images.is_empty() {
            return Err(Error::new(ErrorKind::InvalidRequest, format!("{} is not an image", request.path))
                .at(request.path));
        }
        Ok(Said { text: "attached local image path".to_owned(), images, ..Said::default() })
    }
}
