//! `ls`: lists the content of folders.

use std::path::PathBuf;

use rustix::fs::Stat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{search_control, warn_of_search};
use super::glob::unfinished_error;
use super::{Effect, Text, Tool};
use crate::control::Control;
use crate::engine::Engine;
use crate::engine::policy::settings::Key;
use crate::engine::workspace::path::ShownPath;
use crate::engine::workspace::{Workspace, fs};
use crate::error::Error;
use crate::search::dir_sizes::{self, EntryCounts, FolderSum, SizeOrder, TreeTotals, largest_of};
use crate::search::entry::{EntryType, WalkEntry, WalkRoot};
use crate::search::globs::{StartTypes, one_or_many, roots};
use crate::search::page::{Page, PageWindow};
use crate::search::rules::{ALL_KINDS, EntrySelection, LEAVES};
use crate::search::walk::Walk;
use crate::text::escaped::plural;

/// Largest number of files counted in ignored folders for one folder: about a millisecond.
const COUNTED_FLAT_MAX: u64 = 2_000;
/// Largest number of files counted in ignored folders for a tree: about a tenth of a second.
const COUNTED_DEEP_MAX: u64 = 50_000;

/// List the contents of folders
///
/// `ignored` counts entries that are not shown because git ignores them.
///
/// Hidden files are skipped too. Entries are ordered by path. If `truncated` is true, continue at `next_offset`.
#[derive(Debug, Default, clap::Args, Deserialize, JsonSchema)]
// `-h` is needed as a flag of `ls -lah`.
#[command(disable_help_flag = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the request")]
pub struct Request {
    /// Folders or files to list; the current folder by default
    #[serde(default)]
    #[schemars(schema_with = "one_or_many", extend("x-aliases" = ["paths", "dir_path", "directory", "target_directory"]))]
    pub path: Vec<PathBuf>,
    /// List folders recursively
    #[arg(long, short = 'R')]
    pub recursive: bool,
    /// Maximum depth: 1 lists the folder itself only
    #[arg(long, value_name = "LEVELS")]
    #[schemars(range(min = 1), extend("x-aliases" = ["max_depth"]))]
    pub depth: Option<usize>,
    /// Order of the entries: path, mtime with the newest first, or size with the largest first
    #[arg(long, value_name = "ORDER")]
    pub sort: Option<EntryOrder>,
    /// Show size, mode and time of each entry
    #[arg(long, short = 'l')]
    pub long: bool,
    /// Show how many files each folder holds at any depth, and their total size
    #[arg(long)]
    pub sums: bool,
    /// Include hidden files
    #[arg(long, short = 'a', short_alias = 'A', alias = "all", overrides_with = "hidden")]
    #[schemars(extend("x-aliases" = ["all", "show_hidden"]))]
    pub hidden: bool,
    /// Include files that git ignores
    #[arg(long)]
    pub no_ignore: bool,
    /// Maximum number of entries, 1000 by default; 0 for all
    #[arg(long, value_name = "NUMBER")]
    #[schemars(extend("x-aliases" = ["head_limit", "max_results"]))]
    pub limit: Option<u64>,
    /// Entries to skip
    #[arg(long, value_name = "NUMBER")]
    pub offset: Option<u64>,
    /// Maximum bytes of payload, 24576 by default; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<u64>,
    /// Time limit in milliseconds, 30000 by default; 0 for no limit
    #[arg(long, value_name = "MS")]
    #[schemars(extend("x-aliases" = ["timeout"]))]
    pub timeout_ms: Option<u64>,
    /// Accepted without effect: there is one entry per line
    #[arg(short = '1', short_aliases = ['F', 'p', 'h', 'G'], hide = true, overrides_with = "one_a_line")]
    #[serde(skip)]
    pub one_a_line: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    #[serde(skip)]
    pub help: Option<bool>,
}

/// Order of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum EntryOrder {
    /// By path, component by component
    Path,
    /// By time of change, newest first
    Mtime,
    /// By size, largest first
    Size,
}

/// Listing of folders.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Response {
    /// Entries, in the requested order
    pub entries: Vec<ListedEntry>,
    /// Total number of entries
    pub total: u64,
    /// True if there are more entries
    pub truncated: bool,
    /// `offset` at which to continue
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// Folders with the most entries, if the list was cut
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub largest: Vec<FolderSum>,
    /// Entries hidden by ignore rules, if any
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored: Option<IgnoredEntries>,
}

/// One entry of a folder.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ListedEntry {
    /// Path, usable in the next request
    pub path: ShownPath,
    /// Type
    #[serde(rename = "type")]
    pub kind: EntryType,
    /// Size in bytes
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Permission bits, in octal
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Time of the last change, in UTC
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtime: Option<String>,
    /// With `sums`, files below a folder, at any depth
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// With `sums`, bytes of these files
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Target of a symlink, as written in it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// Entries hidden by ignore rules.
#[derive(Debug, Serialize, JsonSchema)]
pub struct IgnoredEntries {
    /// Files and folders, without those in ignored folders
    pub entries: u64,
    /// Ignored folders with most files
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<FolderSum>,
}

/// `ls` tool.
#[derive(Debug)]
pub struct Ls;

impl Tool for Ls {
    const NAME: &'static str = "ls";
    const LISTED: &'static str = "path recursive depth long hidden no_ignore limit";
    const CORE: bool = true;
    const EFFECT: Effect = Effect::Reads;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let roots = roots(&engine.workspace, &request.path, StartTypes::Anything)?;
        let control = search_control(engine, request.timeout_ms);
        let depth = request.depth.or((!request.recursive).then_some(1));
        let selection = EntrySelection {
            hidden: request.hidden,
            no_ignore: request.no_ignore,
            tracked: true,
            depth,
            ..EntrySelection::of(ALL_KINDS)
        };
        let workspace = &engine.workspace;
        let below = request.sums.then(|| {
            let files = EntrySelection { depth: None, kinds: &[EntryType::File], ..selection.clone() };
            let mut walk = Walk::new(workspace, roots.clone(), files, control.clone());
            (TreeTotals::of(&mut walk), walk.notes)
        });
        let (below, deeper) = below.unzip();
        let mut walk = Walk::new(workspace, roots, selection, control.clone());
        walk.ignored_folders = Some(Vec::new());
        let mut page = Page::new(PageWindow::of(
            engine.policy(),
            request.offset,
            (request.limit, Key::LsLimit),
            request.max_bytes,
        ));
        let mut sums = EntryCounts::default();
        let made = |found: &WalkEntry| entry(workspace, found, request.long, below.as_ref());
        let order = match request.sort {
            None | Some(EntryOrder::Path) => None,
            Some(EntryOrder::Mtime) => Some(SizeOrder::Newest),
            Some(EntryOrder::Size) => Some(SizeOrder::Largest),
        };
        if let Some(order) = order {
            for (_, entry) in dir_sizes::first_in_order(&mut walk, order, made)? {
                page.offer(|| entry.clone());
            }
        } else {
            for found in walk.by_ref() {
                page.offer(|| made(&found));
                if depth != Some(1) {
                    sums.add(&found);
                }
            }
        }
        if control.should_stop() {
            return Err(unfinished_error(page.budget.offered()));
        }
        let counted_max = if depth == Some(1) { COUNTED_FLAT_MAX } else { COUNTED_DEEP_MAX };
        let ignored = ignored(&walk, workspace, &control, counted_max);
        // A walk of all below meets the same folders, and more.
        let notes = deeper.unwrap_or_else(|| std::mem::take(&mut walk.notes));
        let (total, next_offset) = (page.budget.offered(), page.budget.next_offset());
        let entries = page.into_entries();
        let largest = if next_offset.is_some() { sums.largest(workspace) } else { Vec::new() };
        let is_lossy = entries.iter().any(|entry| entry.path.is_lossy());
        warn_of_search(engine, notes, is_lossy);
        Ok(Response { entries, total, truncated: next_offset.is_some(), next_offset, largest, ignored })
    }

    fn text(response: &Response, text: &mut Text) {
        for entry in &response.entries {
            if let (Some(mode), Some(size), Some(mtime)) = (&entry.mode, entry.size, &entry.mtime) {
                text.out.extend_from_slice(format!("{mode} {size:>10} {mtime} ").as_bytes());
            }
            text.path(&entry.path);
            if entry.kind == EntryType::Dir {
                text.out.push(b'/');
            }
            if let (Some(files), Some(bytes)) = (entry.files, entry.bytes) {
                text.out.extend_from_slice(
                    format!("\t{}, {}", plural(files, "file"), plural(bytes, "byte")).as_bytes(),
                );
            }
            text.out.push(text.separator);
        }
        if let Some(next) = response.next_offset {
            let go_on = text.option("offset", next);
            text.note(format!("{} in all, more follow: {go_on}", plural(response.total, "entry")));
        }
        if !response.largest.is_empty() {
            let folders: Vec<String> = response.largest.iter().map(|sum| folder_text(sum, "entry")).collect();
            text.note(format!("list one of the folders that hold most: {}", folders.join(", ")));
        }
        if let Some(ignored) = &response.ignored {
            let show = text.switch("no_ignore");
            let entries = plural(ignored.entries, "entry");
            text.note(format!("{entries} hidden by ignore rules ({show} shows them)"));
            ignored
                .folders
                .iter()
                .for_each(|sum| text.note(format!("{} hidden in it", folder_text(sum, "file"))));
        }
    }
}

/// Returns a folder with its number of entries, as text.
fn folder_text(sum: &FolderSum, what: &str) -> String {
    let FolderSum { path, entries, at_least } = sum;
    let most = if *at_least { "at least " } else { "" };
    format!("{path}: {most}{}", plural(*entries, what))
}

/// Returns one entry of the response.
fn entry(workspace: &Workspace, found: &WalkEntry, long: bool, below: Option<&TreeTotals>) -> ListedEntry {
    let stat: Option<Stat> = if long { found.stat().ok() } else { None };
    let path = found.path();
    let target = if found.kind == EntryType::Symlink { found.target() } else { None };
    let held = below.filter(|_| found.kind == EntryType::Dir).map(|below| below.at(path.as_path()));
    ListedEntry {
        path: workspace.list_path(&path),
        kind: found.kind,
        size: stat.as_ref().map(fs::size_of),
        mode: stat.as_ref().map(|stat| fs::mode_text(fs::mode_of(stat))),
        mtime: stat
            .and_then(|stat| jiff::Timestamp::from_second(stat.st_mtime).ok())
            .map(|time| time.to_string()),
        files: held.map(|held| held.files),
        bytes: held.map(|held| held.bytes),
        target: target.map(|target| target.to_string_lossy().into_owned()),
    }
}

/// Returns the entries that the ignore rules hid from `walk`, if any; counts at most `counted_max` files.
fn ignored(
    walk: &Walk<'_>,
    workspace: &Workspace,
    control: &Control,
    counted_max: u64,
) -> Option<IgnoredEntries> {
    let entries = walk.left_out.ignored;
    if entries == 0 {
        return None;
    }
    let mut left = counted_max;
    let mut folders = Vec::new();
    for found in walk.ignored_folders.iter().flatten() {
        let path = found.path();
        let shown = workspace.display(&path);
        let selection = EntrySelection { hidden: true, no_ignore: true, ..EntrySelection::of(LEAVES) };
        let inside =
            Walk::new(workspace, vec![WalkRoot { path, is_folder: true }], selection, control.clone());
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let count = inside.take(most).count() as u64;
        left -= count;
        folders.push(FolderSum { path: shown, entries: count, at_least: left == 0 });
        if left == 0 {
            break;
        }
    }
    Some(IgnoredEntries { entries, folders: largest_of(folders) })
}
