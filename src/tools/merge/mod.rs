//! `merge`: brings the changes of a fork into the workspace.

mod apply;
mod check;
pub mod trees;

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{ChangeOptions, ListEnd, PLACES_LISTED};
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::kept_for_forks::keep_changes_of_others;
use crate::engine::sandbox::fork::{ForkFolder, Forks};
use crate::engine::sandbox::fork_base::ForkMerge;
use crate::engine::store::sandboxes;
use crate::engine::store::state::State;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::escaped;
use crate::text::escaped::plural;
use crate::text::patch::FileAction;
use crate::text::tree_merge::{self, ConflictKind, Path, Plan};

pub use apply::set_base;
use check::{CheckResult, CheckedFork, ConflictDescriber, Overlap, refused};
use trees::ForkTrees;

/// Merge the changes of a fork into the workspace
///
/// Brings what changed in the fork since it began, or since its last merge, into the workspace as it is now: as one change,
/// which undo takes back, or not at all.
///
/// Lines, modes, symlinks, deletions and renames on both sides merge as in git, and what git would not merge is an error
/// that names both sides. The fork lives on. check changes nothing, also while agents still work: without a name, it shows
/// all forks and where they overlap. Files that git ignores stay in the fork, unless paths names them.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Name of the fork; all forks with check
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Show what would merge and where forks overlap, without changing anything
    #[arg(long)]
    pub check: bool,
    /// Merge only these files and folders
    #[arg(long, value_name = "PATH", num_args = 1..)]
    #[serde(default)]
    pub paths: Vec<PathBuf>,
    /// Maximum bytes of the list in the response; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
    /// Options of the change.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ChangeOptions,
}

/// Effect of a merge.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("type" = "object"))]
pub enum Response {
    /// A merge.
    Merged(MergeResult),
    /// A check.
    Checked(CheckResult),
}

/// A merge.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MergeResult {
    /// Name of the fork
    pub fork: String,
    /// Files that the fork changed
    pub files: Vec<MergedPath>,
    /// Completeness of the list.
    #[serde(flatten)]
    pub end: ListEnd,
    /// Ignored files of the fork that were left out
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored: Option<IgnoredFiles>,
    /// Number of files that the fork changed and that `paths` left out
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<usize>,
}

/// File that a fork changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MergedPath {
    /// Path in the workspace
    pub path: String,
    /// Effect on the workspace
    pub action: FileAction,
    /// Earlier path, if it was renamed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// SHA-256 of the result
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    /// True if it has changes of both sides
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub merged: bool,
}

/// Returns the word of a text for an action.
const fn word_of(action: FileAction) -> &'static str {
    match action {
        FileAction::Create => "create",
        FileAction::Modify => "modify",
        FileAction::Delete => "delete",
        FileAction::Rename => "rename",
        FileAction::AlreadyApplied => "already applied",
    }
}

/// Ignored files that are not merged.
#[derive(Debug, Serialize, JsonSchema)]
pub struct IgnoredFiles {
    /// Number of files
    pub files: usize,
    /// Outermost ignored files and folders, the first 20
    pub folders: Vec<String>,
}

impl IgnoredFiles {
    /// Returns the ignored files of a fork, if it has any.
    fn of(workspace: &Workspace, trees: &ForkTrees<'_>) -> Option<Self> {
        let folders =
            trees.ignored.keys().take(PLACES_LISTED).map(|folder| workspace.display(folder)).collect();
        (!trees.ignored.is_empty()).then(|| Self { files: trees.ignored.values().sum(), folders })
    }
}

/// Paths of a request; all files, if there are none.
pub struct PathSelection(Vec<WorkspacePath>);

impl PathSelection {
    /// Returns the selected actions of a plan.
    fn actions<'p>(&self, plan: &'p Plan) -> Vec<&'p tree_merge::Action> {
        plan.actions.iter().filter(|action| self.has(action.paths.all().into_iter())).collect()
    }

    /// Returns the selected conflicts of a plan.
    fn conflicts<'p>(&self, plan: &'p Plan) -> Vec<&'p tree_merge::Conflict> {
        let is_below = |path: &&Path| {
            let path = trees::path_of(path);
            path.is_some_and(|path| self.0.iter().any(|chosen| chosen.is_within(&path)))
        };
        let is_selected = |conflict: &&tree_merge::Conflict| {
            let paths = conflict.paths.all();
            let is_folder = conflict.kind == ConflictKind::FileAndFolder;
            (is_folder && paths.iter().any(is_below)) || self.has(paths.into_iter())
        };
        plan.conflicts.iter().filter(is_selected).collect()
    }
}

/// `merge` tool.
pub struct Merge;

impl Tool for Merge {
    const NAME: &'static str = "merge";
    const LISTED: &'static str = "name check paths";
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Request;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let name = request.name.as_deref().map(sandboxes::slug).transpose()?;
        if request.check {
            return checked(engine, name.as_deref(), &request).map(Response::Checked);
        }
        let name = name.ok_or_else(|| {
            Error::invalid("field `name` is missing: name the fork to merge")
                .suggest("`fork` with `list` shows the forks; `check` needs no name.")
                .detail("field", "name")
        })?;
        merged(engine, &name, &request).map(Response::Merged)
    }

    fn is_lookup(request: &Request) -> bool {
        request.check
    }

    fn text(response: &Response, text: &mut Text) {
        match response {
            Response::Merged(merged) => {
                merged.files.iter().for_each(|file| text.change(&line_of(file)));
                merged.end.note(merged.files.len(), text);
                if merged.files.is_empty() {
                    text.note(format!("the fork {} has nothing to merge", merged.fork));
                }
                note_ignored(&merged.fork, merged.ignored.as_ref(), text);
                if let Some(left) = merged.left {
                    text.note(format!("{} left in the fork {}", plural(left, "other file"), merged.fork));
                }
            }
            Response::Checked(checked) => {
                checked.forks.iter().for_each(|fork| show_fork(fork, text));
                checked.overlaps.iter().for_each(|overlap| show_overlap(overlap, text));
                if let Some(total) = checked.overlaps_total {
                    text.note(format!("{} of {total} overlaps are listed", checked.overlaps.len()));
                }
            }
        }
    }
}

/// Returns a file as a line of text.
fn line_of(file: &MergedPath) -> String {
    let from = file.from.as_ref().map(|from| format!("{} -> ", escaped::name(from))).unwrap_or_default();
    let merged = if file.merged { " (both sides changed it)" } else { "" };
    format!("{}: {from}{}{merged}", word_of(file.action), escaped::name(&file.path))
}

/// Adds a note about ignored files.
fn note_ignored(fork: &str, ignored: Option<&IgnoredFiles>, text: &mut Text) {
    if let Some(ignored) = ignored {
        text.note(format!(
            "left in the fork {fork}, since git ignores them: {} in {}",
            plural(ignored.files, "file"),
            ignored.folders.join(", ")
        ));
    }
}

/// Shows a fork that was checked.
fn show_fork(fork: &CheckedFork, text: &mut Text) {
    let state = if fork.mergeable { "merges" } else { "does not merge" };
    let files = plural(fork.count, "file");
    text.line(&format!("{}: {state}, {files}", fork.name));
    for file in &fork.files {
        text.line(&format!("  {}", line_of(file)));
    }
    for conflict in &fork.conflicts {
        text.line(&format!("  conflict: {} ({})", escaped::name(&conflict.path), conflict.kind));
    }
    if let Some(reason) = &fork.reason {
        text.line(&format!("  {}", escaped::line(reason)));
    }
    note_ignored(&fork.name, fork.ignored.as_ref(), text);
}

/// Shows a file that several forks changed.
fn show_overlap(overlap: &Overlap, text: &mut Text) {
    let side = |side: &check::OverlapSide| {
        let lines: Vec<String> = side.lines.iter().map(|[first, last]| format!("{first}-{last}")).collect();
        if lines.is_empty() { side.name.clone() } else { format!("{} {}", side.name, lines.join(",")) }
    };
    let sides: Vec<String> = overlap.forks.iter().map(side).collect();
    let conflict = if overlap.conflict { " (conflict)" } else { "" };
    text.line(&format!("overlap: {}: {}{conflict}", escaped::name(&overlap.path), sides.join("; ")));
}

/// Returns the paths of a request.
fn selection(engine: &Engine, request: &Request) -> Result<PathSelection, Error> {
    let resolve = |path: &PathBuf| Ok(engine.workspace.resolve_entry(path)?.path().clone());
    request.paths.iter().map(resolve).collect::<Result<_, Error>>().map(PathSelection)
}

/// Returns the error for a workspace without forks.
pub fn no_forks() -> Error {
    Error::new(ErrorKind::SandboxNotFound, "this workspace has no forks")
        .suggest("`fork` with a name makes one.")
}

/// Checks one fork, or all.
fn checked(engine: &mut Engine, name: Option<&str>, request: &Request) -> Result<CheckResult, Error> {
    engine.finish_dead_calls();
    let named = selection(engine, request)?;
    let Some(state) = State::find(&engine.workspace)? else { return Err(no_forks()) };
    let forks = match name {
        Some(name) => vec![ForkFolder::open(&engine.workspace, &state, name)?],
        None => ForkFolder::list(&engine.workspace, &state)?,
    };
    for fork in &forks {
        let _ = keep_changes_of_others(engine, &fork.record.name);
    }
    if !forks.is_empty() {
        let _lock = Forks::lock(&engine.workspace, &state)?;
        for fork in &forks {
            fork.refresh(&engine.workspace)?;
            set_base(&state, fork)?;
        }
    }
    check::check(engine, &forks, &named, request.max_bytes)
}

/// Merges a fork.
fn merged(engine: &mut Engine, name: &str, request: &Request) -> Result<MergeResult, Error> {
    let named = selection(engine, request)?;
    let Some(state) = State::find(&engine.workspace)? else { return Err(no_forks()) };
    // If it fails, the newest snapshot before the fork has what others replaced, or it is unknown.
    let _ = keep_changes_of_others(engine, name);
    let dry_run = request.options.dry_run;
    // No other call merges or drops the fork meanwhile.
    let _lock = Forks::lock(&engine.workspace, &state)?;
    let fork = ForkFolder::open(&engine.workspace, &state, name)?;
    let (named_by, is_durable) = (named.0.clone(), engine.policy().is_durable());
    let mut change = engine.begin(Merge::NAME, &[], dry_run)?;
    fork.refresh(change.workspace())?;
    // A killed merge is complete by now.
    set_base(&state, &fork)?;
    let trees = ForkTrees::read(change.engine_ref(), &fork, &named_by)?;
    let plan = trees.plan()?;
    let conflicts = named.conflicts(&plan);
    if !conflicts.is_empty() {
        let engine = change.engine_ref();
        let conflicts = ConflictDescriber::new(engine, &trees).describe(&conflicts);
        return Err(refused(engine, name, conflicts, request.max_bytes));
    }
    let actions = named.actions(&plan);
    if actions.is_empty() && !named.0.is_empty() {
        let path = request.paths.first().map(|path| path.display().to_string()).unwrap_or_default();
        let error =
            Error::new(ErrorKind::NotFound, format!("the fork {name} changed nothing at {path}")).at(path);
        return Err(error.suggest("`check` shows the files that the fork changed."));
    }
    let mut files = apply::apply(&mut change, &trees, &actions)?;
    let ignored = IgnoredFiles::of(change.workspace(), &trees);
    let bytes_max = change.file_bytes_max();
    if !trees.special.is_empty() {
        let names: Vec<String> =
            trees.special.iter().take(PLACES_LISTED).map(|path| change.workspace().display(path)).collect();
        change.engine().warn(format!("not merged, since they are no files: {}", names.join(", ")));
    }
    let count = actions.iter().filter(|action| !apply::is_done(&trees, action)).count();
    let (session, seq, id) =
        (change.engine().session().to_string(), change.change_number()?, change.id().to_owned());
    if !dry_run && !actions.is_empty() {
        let merges = apply::closed_merges(&state, &fork)?;
        // Without a step, nothing can be taken back.
        let merge = ForkMerge { session, seq, id, paths: BTreeSet::new(), is_open: count > 0 };
        let versions = apply::versions_for_base(&trees, apply::merged_paths(&actions), bytes_max);
        fork.note_merge((merges, merge), versions, is_durable)?;
    }
    change.commit(format!("merge {name}: {}", plural(count, "file")), request.options.why.clone())?;
    let end = ListEnd::of(engine, request.max_bytes, &mut files);
    let left = plan.actions.len() + plan.conflicts.len() - actions.len();
    Ok(MergeResult { fork: name.to_owned(), files, end, ignored, left: (left > 0).then_some(left) })
}
