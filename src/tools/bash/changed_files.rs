//! Files that a command changed, as responses list them: for commands on a layer and direct ones alike.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::workspace::Workspace;
use crate::engine::workspace::path::WorkspacePath;
use crate::search::page::json_bytes;
use crate::sha256::Sha256;
use crate::text::answer_size::{AnswerRoom, TextSize};

/// Effect of a command on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The file is new.
    Create,
    /// The file is different.
    Modify,
    /// The file was deleted.
    Delete,
}

/// A file that changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Changed {
    /// Its path
    pub path: String,
    /// Effect on it
    pub action: Action,
    /// SHA-256 of its new bytes, if it is a regular file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    /// Number of files that changed in an ignored folder
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<usize>,
    /// Number of its files that undo cannot restore
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<usize>,
}

/// A file whose new version was not applied.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Conflict {
    /// Its path
    pub path: String,
    /// Reason
    pub reason: String,
}

/// A layer that was kept after its command.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names on the wire")]
pub struct Layer {
    /// Its name
    pub layer: String,
    /// The command, cut if it is long
    pub command: String,
    /// Session that ran it
    pub session: String,
    /// True if the layer was deleted
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
    /// True if the layer was applied
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
    /// Files that it changes, or that were changed; absent in a list, which does not read layers
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<Changed>>,
    /// Number of changed files, if not all are listed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_total: Option<usize>,
    /// Files that were not applied
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// Unified diff from the current files to those of the layer
    #[serde(skip_serializing_if = "String::is_empty")]
    pub diff: String,
}

/// Number of paths that a warning names.
const NAMED: usize = 5;
/// Largest number of files that a response lists.
const LISTED_MAX: usize = 200;

/// A file that a command changed.
#[derive(Debug, Clone)]
pub struct FileChange {
    /// Its path.
    pub path: WorkspacePath,
    /// Effect on it.
    pub action: Action,
    /// SHA-256 of its new bytes, if it is a regular file.
    pub sha256: Option<Sha256>,
    /// The outermost ignored folder that holds it; its own path if only the file is ignored.
    pub ignored: Option<WorkspacePath>,
    /// True if an undo cannot restore it.
    pub is_lost: bool,
}

/// The changes of a command, on a layer or direct.
#[derive(Default)]
pub struct CommandDiff {
    /// Changed files, cut at the limit; `None` if unknown.
    pub list: Option<Vec<Changed>>,
    /// Number of changed files.
    pub total: Option<usize>,
    /// True if the changes were dropped.
    pub is_discarded: bool,
    /// Files that were not applied.
    pub conflicts: Vec<Conflict>,
    /// Layer that keeps them.
    pub layer: Option<String>,
    /// Reason why the command changed the files themselves.
    pub direct: Option<String>,
}

impl CommandDiff {
    /// Returns an empty list.
    pub fn none() -> Self {
        Self { list: Some(Vec::new()), total: Some(0), ..Self::default() }
    }

    /// Lists changes in the order of their paths; an ignored folder is one entry, after the others.
    pub fn of(workspace: &Workspace, changes: Vec<FileChange>) -> Self {
        // Example: target/ is ignored, a.log too.
        //
        //   src/a.rs          modify            src/a.rs  modify
        //   target/x/1.o      create     =>     a.log     create
        //   target/x/2.o      modify            target/   modify, 2 files
        //   a.log             create
        let (mut list, mut files, mut folders) = (Vec::new(), Vec::new(), BTreeMap::new());
        for change in changes {
            match &change.ignored {
                None => list.push(entry(workspace, &change)),
                Some(folder) if *folder == change.path => files.push(entry(workspace, &change)),
                Some(folder) => {
                    add(folders.entry(folder.clone()).or_insert(FolderSum::new(change.action)), &change);
                }
            }
        }
        list.append(&mut files);
        list.extend(folders.into_iter().map(|(folder, sum)| sum.entry(workspace, &folder)));
        let total = list.len();
        list.truncate(LISTED_MAX);
        Self { list: Some(list), total: Some(total), ..Self::default() }
    }

    /// Cuts the list to the entries that fit, at least one.
    pub fn shorten(&mut self, room: AnswerRoom) {
        let mut size = TextSize::default();
        let mut has_room = |changed: &Changed| {
            let is_first = size == TextSize::default();
            size = size.and(TextSize::plain(usize::try_from(json_bytes(changed)).unwrap_or(usize::MAX)));
            is_first || room.holds(size)
        };
        if let Some(list) = &mut self.list {
            let fitting = list.iter().take_while(|changed| has_room(changed)).count();
            list.truncate(fitting);
        }
    }

    /// Returns the number of entries.
    pub fn listed(&self) -> usize {
        self.list.as_ref().map_or(0, Vec::len)
    }
}

/// The changes in one ignored folder.
struct FolderSum {
    /// The one action of all files, or `Modify`.
    action: Action,
    /// Number of files.
    files: usize,
    /// Number of files that an undo cannot restore.
    lost: usize,
}

impl FolderSum {
    /// Starts with the action of the first file.
    const fn new(action: Action) -> Self {
        Self { action, files: 0, lost: 0 }
    }

    /// Returns the entry of the folder.
    fn entry(self, workspace: &Workspace, folder: &WorkspacePath) -> Changed {
        let lost = Some(self.lost).filter(|lost| *lost > 0);
        let path = format!("{}/", workspace.shown(folder));
        Changed { path, action: self.action, sha256: None, files: Some(self.files), lost }
    }
}

/// Adds a file to the sum of its folder.
fn add(sum: &mut FolderSum, change: &FileChange) {
    if sum.action != change.action {
        sum.action = Action::Modify;
    }
    sum.files += 1;
    sum.lost += usize::from(change.is_lost);
}

/// Returns the entry of a file.
fn entry(workspace: &Workspace, change: &FileChange) -> Changed {
    let (action, sha256) = (change.action, change.sha256);
    let lost = change.is_lost.then_some(1);
    Changed { path: workspace.shown(&change.path), action, sha256, files: None, lost }
}

/// Returns the first few of these paths as text; `None` for an empty list.
pub fn named(workspace: &Workspace, paths: &[WorkspacePath]) -> Option<String> {
    let names: Vec<String> = paths.iter().take(NAMED).map(|path| workspace.shown(path)).collect();
    let more = paths.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| format!("{}{more}", names.join(", ")))
}
