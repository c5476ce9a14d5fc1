//! `glob`: paths that match a pattern.

use std::path::PathBuf;

use ignore::overrides::Override;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{search_control, warn_of_search};
use super::grep::FileOrder;
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::policy::settings::Key;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::path::{ShownPath, WorkspacePath};
use crate::error::{Error, ErrorKind};
use crate::search::dir_sizes::{self, SizeOrder};
use crate::search::entry::EntryType;
use crate::search::globs::{self, PathGlob, StartTypes, one_or_many, roots};
use crate::search::page::{Page, PageWindow};
use crate::search::results::EmptySearch;
use crate::search::rules::{EntrySelection, LEAVES};
use crate::search::walk::Walk;
use crate::text::escaped::plural;

/// Find files by name
///
/// `*` and `?` match within one component, `**` across, `{a,b}` and `[a-z]` are choices. A pattern without a slash
/// matches at any depth.
///
/// Skips files that git ignores, and hidden files unless the pattern names their dot. If `truncated` is true, continue
/// at `next_offset`.
#[derive(Debug, Default, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Glob for paths, relative to `path`
    #[schemars(extend("x-aliases" = ["glob", "glob_pattern", "query", "file_pattern"]))]
    pub pattern: String,
    /// Folders to search; the current folder by default
    #[serde(default)]
    #[schemars(schema_with = "one_or_many", extend("x-aliases" = ["paths", "dir_path", "directory", "target_directory"]))]
    pub path: Vec<PathBuf>,
    /// Exclude paths that match one of these globs
    #[arg(long, value_name = "GLOB")]
    #[serde(default)]
    #[schemars(schema_with = "one_or_many", extend("x-aliases" = ["exclude_pattern", "exclude_patterns", "ignore"]))]
    pub exclude: Vec<String>,
    /// Order; mtime shows the newest first
    #[arg(long, value_name = "ORDER")]
    pub sort: Option<FileOrder>,
    /// Types to find; files and symlinks by default
    #[arg(long, value_name = "TYPE")]
    pub r#type: Option<FoundType>,
    /// Ignore case
    #[arg(long, short = 'i')]
    #[schemars(extend("x-aliases" = ["-i", "case_insensitive"]))]
    pub ignore_case: bool,
    /// Include hidden files
    #[arg(long)]
    pub hidden: bool,
    /// Include files that git ignores
    #[arg(long)]
    pub no_ignore: bool,
    /// Maximum number of paths, 1000 by default; 0 for all
    #[arg(long, value_name = "NUMBER")]
    #[schemars(extend("x-aliases" = ["head_limit", "max_results"]))]
    pub limit: Option<u64>,
    /// Paths to skip
    #[arg(long, value_name = "NUMBER")]
    pub offset: Option<u64>,
    /// Maximum bytes of payload, 24576 by default; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<u64>,
    /// Time limit in milliseconds, 30000 by default; 0 for no limit
    #[arg(long, value_name = "MS")]
    #[schemars(extend("x-aliases" = ["timeout"]))]
    pub timeout_ms: Option<u64>,
}

/// Type of entry to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum FoundType {
    /// Regular files
    File,
    /// Folders
    Dir,
    /// Symlinks, whatever their target
    Symlink,
}

/// Result of the search.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Paths, usable in the next request
    pub paths: Vec<ShownPath>,
    /// Total number of matches
    pub total: u64,
    /// True if there are more matches
    pub truncated: bool,
    /// `offset` at which to continue
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// `glob` tool.
#[derive(Debug)]
pub struct Glob;

impl Tool for Glob {
    const NAME: &'static str = "glob";
    const LISTED: &'static str = "pattern path type sort hidden no_ignore limit";
    const CORE: bool = true;
    const EFFECT: Effect = Effect::Reads;
    const STDIN: Stdin = Stdin::Request;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let selection = request.selection(engine)?;
        let roots = roots(&engine.workspace, &request.path, StartTypes::Folders)?;
        let control = search_control(engine, request.timeout_ms);
        let workspace = &engine.workspace;
        let mut walk = Walk::new(workspace, roots.clone(), selection.clone(), control.clone());
        let mut page = Page::new(PageWindow::of(
            engine.policy(),
            request.offset,
            (request.limit, Key::GlobLimit),
            request.max_bytes,
        ));
        let shown = |path: &WorkspacePath| workspace.list_path(path);
        if request.sort == Some(FileOrder::Mtime) {
            for (path, ()) in dir_sizes::first_in_order(&mut walk, SizeOrder::Newest, |_| ())? {
                page.offer(|| shown(&path));
            }
        } else {
            for found in walk.by_ref() {
                page.offer(|| shown(&found.path()));
            }
        }
        if control.should_stop() {
            return Err(unfinished_error(page.budget.offered()));
        }
        let (left_out, mut notes) = (std::mem::take(&mut walk.left_out), std::mem::take(&mut walk.notes));
        let (total, next_offset) = (page.budget.offered(), page.budget.next_offset());
        let paths = page.into_entries();
        if total == 0 {
            let empty = EmptySearch { workspace, roots, selection, control, left_out };
            notes.extend(empty.advice(|found| found.count() as u64));
            let selection = EntrySelection { overrides: Override::empty(), ..empty.selection.clone() };
            let is_excluded =
                !request.exclude.is_empty() && EmptySearch { selection, ..empty }.walk().next().is_some();
            notes.extend(
                is_excluded
                    .then(|| format!("exclude {} leaves no file that matches", request.exclude.join(", "))),
            );
            notes.extend(request.r#type.is_none().then(|| folders(workspace, &walk.folders)).flatten());
        }
        let is_lossy = paths.iter().any(ShownPath::is_lossy);
        warn_of_search(engine, notes, is_lossy);
        Ok(Response { paths, total, truncated: next_offset.is_some(), next_offset })
    }

    fn text(response: &Response, text: &mut Text) {
        for path in &response.paths {
            text.path(path);
            text.out.push(text.separator);
        }
        if let Some(next) = response.next_offset {
            let go_on = text.option("offset", next);
            text.note(format!("{} in all, more follow: {go_on}", plural(response.total, "path")));
        }
    }

    fn status(response: &Response) -> u8 {
        u8::from(response.total == 0)
    }
}

impl Request {
    /// Returns the selection of entries.
    fn selection(&self, engine: &Engine) -> Result<EntrySelection, Error> {
        let kinds = match self.r#type {
            None => LEAVES,
            Some(FoundType::File) => &[EntryType::File],
            Some(FoundType::Dir) => &[EntryType::Dir],
            Some(FoundType::Symlink) => &[EntryType::Symlink],
        };
        let root = engine.workspace.root().display().to_string();
        // A model that uses only absolute paths puts the root before its pattern.
        let pattern = match self.pattern.strip_prefix(&root).filter(|rest| rest.starts_with('/')) {
            Some(rest) if self.path.is_empty() && engine.workspace.base().is_root() => &format!(".{rest}"),
            _ => &self.pattern,
        };
        let begins = self.path.first().and_then(|path| engine.workspace.resolve(path).ok());
        let folder = begins.map_or_else(|| engine.workspace.base().clone(), |place| place.path().clone());
        let exclude = globs::all_with_names(&engine.workspace, &self.exclude);
        Ok(EntrySelection {
            hidden: self.hidden,
            no_ignore: self.no_ignore,
            tracked: true,
            overrides: globs::overrides(engine.workspace.base(), &[], &exclude)?,
            glob: Some(PathGlob::new(
                &globs::with_names(&engine.workspace, &folder, pattern),
                self.ignore_case,
            )?),
            ..EntrySelection::of(kinds)
        })
    }
}

/// Returns a note about folders with this name, if the search skipped folders and found nothing.
fn folders(workspace: &Workspace, found: &[WorkspacePath]) -> Option<String> {
    let named: Vec<String> = found.iter().map(|path| workspace.display(path)).collect();
    (!named.is_empty())
        .then(|| format!("no file matches, but a folder does ({}); type dir finds folders", named.join(", ")))
}

/// Returns the error for a walk that did not finish.
pub fn unfinished_error(found: u64) -> Error {
    Error::new(
        ErrorKind::Timeout,
        format!("the search ran out of time with {} found", plural(found, "entry")),
    )
    .suggest("Narrow the path or the pattern. To give it more time, raise `timeout_ms`.")
    .detail("found", found)
}
