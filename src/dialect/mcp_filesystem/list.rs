//! The tools that list, search and describe what there is.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::texts::{Listed, Node, collated, file_facts, size_text};
use super::worded::{PathRequest, no_entry, said, worded};
use crate::dialect::foreign::{Foreign, Said, refused};
use crate::dialect::native::Native;
use crate::dialect::render::{list, relative_globs, shown_path, text};
use crate::error::{Error, ErrorKind};
use crate::tools::{Effect, ls};

/// What a directory holds: names, and whether each is a directory.
fn entries(lbx: &mut Native<'_>, path: &str, is_deep: bool) -> Result<Vec<Listed>, Error> {
    match lbx.is_folder(path) {
        Ok(true) => {}
        Ok(false) if lbx.exists(path)? => {
            let absolute = lbx.absolute(path)?;
            let words = format!("ENOTDIR: not a directory, scandir '{}'", absolute.display());
            return Err(refused(ErrorKind::NotADirectory, path, words));
        }
        Ok(false) => return Err(no_entry(lbx, path, "scandir")),
        Err(error) => return Err(worded(lbx, path, "scandir", error)),
    }
    let asked = json!({ "path": path, "recursive": is_deep, "hidden": true, "no_ignore": true, "limit": 0, "max_bytes": 0 });
    let data = lbx.call::<ls::Ls>(asked).map_err(|error| worded(lbx, path, "scandir", error))?;
    let (base, top) = (lbx.base()?, lbx.real(path)?);
    let below = |entry: &Value| {
        let full = base.join(text(entry, "path"));
        let below = full.strip_prefix(&top).unwrap_or(&full).to_owned();
        Listed { below, is_folder: text(entry, "type") == "dir" }
    };
    Ok(list(&data, "entries").iter().map(below).collect())
}

/// `list_directory`.
pub struct ListDirectory;

impl Foreign for ListDirectory {
    const NAME: &'static str = "list_directory";
    const EFFECT: Effect = Effect::Reads;
    const ABOUT: Option<&'static str> = Some("Lists a directory, with [FILE] or [DIR] before each name.");
    type Request = PathRequest;

    fn run(lbx: &mut Native<'_>, request: PathRequest) -> Result<Said, Error> {
        let entries = entries(lbx, &request.path, false)?;
        let lines: Vec<String> =
            entries.iter().map(|entry| format!("{} {}", entry.label(), entry.shown())).collect();
        Ok(said(lines.join("\n")))
    }
}

/// What the entries of a list are sorted by.
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
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ListWithSizesRequest {
    /// The directory to list
    path: String,
    /// Sort entries by name or size
    #[serde(default)]
    sort_by: SortBy,
}

/// `list_directory_with_sizes`.
pub struct ListDirectoryWithSizes;

impl Foreign for ListDirectoryWithSizes {
    const NAME: &'static str = "list_directory_with_sizes";
    const EFFECT: Effect = Effect::Reads;
    type Request = ListWithSizesRequest;

    fn run(lbx: &mut Native<'_>, request: ListWithSizesRequest) -> Result<Said, Error> {
        let top = lbx.absolute(&request.path)?;
        let entries = entries(lbx, &request.path, false)?;
        let size = |entry: &Listed| lbx.size_of(&top.join(&entry.below).display().to_string()).unwrap_or(0);
        let mut sized: Vec<(Listed, u64)> = entries
            .into_iter()
            .map(|entry| {
                let bytes = size(&entry);
                (entry, bytes)
            })
            .collect();
        match request.sort_by {
            SortBy::Name => sized.sort_by_cached_key(|(entry, _)| collated(&entry.shown())),
            SortBy::Size => sized.sort_by_key(|(_, bytes)| Reverse(*bytes)),
        }
        let line = |(entry, bytes): &(Listed, u64)| {
            let size = if entry.is_folder { String::new() } else { format!("{:>10}", size_text(*bytes)) };
            format!("{} {:<30} {size}", entry.label(), entry.shown())
        };
        let mut lines: Vec<String> = sized.iter().map(line).collect();
        let files = sized.iter().filter(|(entry, _)| !entry.is_folder);
        let (count, bytes) = files.fold((0, 0), |(count, sum), (_, bytes)| (count + 1, sum + bytes));
        lines.push(String::new());
        lines.push(format!("Total: {count} files, {} directories", sized.len() - count));
        lines.push(format!("Combined size: {}", size_text(bytes)));
        Ok(said(lines.join("\n")))
    }
}

/// Shows a directory and all below it as JSON.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TreeRequest {
    /// The directory to show
    path: String,
    /// Names or globs to leave out
    #[serde(default)]
    exclude_patterns: Vec<String>,
}

/// `directory_tree`.
pub struct DirectoryTree;

impl Foreign for DirectoryTree {
    const NAME: &'static str = "directory_tree";
    const EFFECT: Effect = Effect::Reads;
    type Request = TreeRequest;

    fn run(lbx: &mut Native<'_>, request: TreeRequest) -> Result<Said, Error> {
        let forms = request.exclude_patterns.iter().flat_map(|pattern| {
            let anywhere = !pattern.contains('*');
            let further = [format!("**/{pattern}"), format!("**/{pattern}/**")];
            std::iter::once(pattern.clone()).chain(further.into_iter().filter(move |_| anywhere))
        });
        let excluded = relative_globs(forms)?;
        let mut top = Node::folder("");
        // A folder comes before what it holds, so that what lies in one left out is left out, too.
        for entry in entries(lbx, &request.path, true)? {
            if !excluded.is_match(&entry.below) {
                top.insert(&entry);
            }
        }
        Ok(said(top.children_as_json()?))
    }
}

/// Finds files and directories by a glob that their path below the directory must match.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SearchRequest {
    /// The directory to search
    path: String,
    /// The glob, such as **/*.rs
    pattern: String,
    /// Globs to leave out
    #[serde(default)]
    exclude_patterns: Vec<String>,
}

/// `search_files`.
pub struct SearchFiles;

impl Foreign for SearchFiles {
    const NAME: &'static str = "search_files";
    const EFFECT: Effect = Effect::Reads;
    type Request = SearchRequest;

    fn run(lbx: &mut Native<'_>, request: SearchRequest) -> Result<Said, Error> {
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
        Ok(said(if found.is_empty() { "No matches found".to_owned() } else { found.join("\n") }))
    }
}

/// `get_file_info`.
pub struct GetFileInfo;

impl Foreign for GetFileInfo {
    const NAME: &'static str = "get_file_info";
    const EFFECT: Effect = Effect::Reads;
    const ABOUT: Option<&'static str> =
        Some("Tells size, times, type and permissions of a file or directory.");
    type Request = PathRequest;

    fn run(lbx: &mut Native<'_>, request: PathRequest) -> Result<Said, Error> {
        let facts = lbx.facts(&request.path).map_err(|error| worded(lbx, &request.path, "stat", error))?;
        Ok(said(file_facts(&facts)))
    }
}

/// Lists the directories that these tools may use.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowedRequest {}

/// `list_allowed_directories`.
pub struct ListAllowedDirectories;

impl Foreign for ListAllowedDirectories {
    const NAME: &'static str = "list_allowed_directories";
    const EFFECT: Effect = Effect::Reads;
    type Request = AllowedRequest;

    fn run(lbx: &mut Native<'_>, _request: AllowedRequest) -> Result<Said, Error> {
        let root: &Path = &lbx.root()?;
        Ok(said(format!("Allowed directories:\n{}", root.display())))
    }
}
