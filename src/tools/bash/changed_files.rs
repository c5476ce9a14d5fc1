//! Files that a command changed, as responses list them: for commands on a layer and direct ones alike.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::Engine;
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
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct CommandDiff {
    /// Files that changed; an ignored folder is one entry. Absent if that is not known
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<Changed>>,
    /// Files that were not applied; layer keeps the command's versions
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// Layer with the command's versions of the conflicts, for the field layer
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// Reason why the command changed the files themselves instead of a layer
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct: Option<String>,
    /// Number of changed files, if not all are listed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_total: Option<usize>,
    /// True if these changes were discarded: by `dry_run`, or because the command failed under `on_failure: discard`
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub discarded: bool,
}

impl CommandDiff {
    /// Returns an empty list.
    pub fn none() -> Self {
        Self { changed: Some(Vec::new()), ..Self::default() }
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
        for FileChange { path, action, sha256, ignored, is_lost } in changes {
            let lost = is_lost.then_some(1);
            let shown = workspace.shown(ignored.as_ref().unwrap_or(&path));
            match ignored {
                Some(folder) if folder != path => {
                    let new = || Changed {
                        path: format!("{shown}/"),
                        action,
                        sha256: None,
                        files: None,
                        lost: None,
                    };
                    let sum: &mut Changed = folders.entry(folder).or_insert_with(new);
                    if sum.action != action {
                        sum.action = Action::Modify;
                    }
                    *sum.files.get_or_insert_default() += 1;
                    sum.lost = sum.lost.map_or(lost, |sum| Some(sum + usize::from(is_lost)));
                }
                ignored => {
                    let list = if ignored.is_some() { &mut files } else { &mut list };
                    list.push(Changed { path: shown, action, sha256, files: None, lost });
                }
            }
        }
        list.append(&mut files);
        list.extend(folders.into_values());
        let total = list.len();
        list.truncate(LISTED_MAX);
        Self { changed: Some(list), changed_total: Some(total), ..Self::default() }
    }

    /// Cuts the list to the entries that fit, at least one.
    pub fn shorten(&mut self, room: AnswerRoom) {
        let mut size = TextSize::default();
        let mut has_room = |changed: &Changed| {
            let is_first = size == TextSize::default();
            size = size.and(TextSize::plain(usize::try_from(json_bytes(changed)).unwrap_or(usize::MAX)));
            is_first || room.holds(size)
        };
        if let Some(list) = &mut self.changed {
            list.truncate(list.iter().take_while(|changed| has_room(changed)).count());
        }
        let listed = self.changed.as_ref().map_or(0, Vec::len);
        self.changed_total = self.changed_total.filter(|total| *total > listed);
    }
}

/// Warns of these paths, of which the first few are named; no warning for an empty list.
pub fn warn_of(engine: &mut Engine, paths: &[WorkspacePath], warning: impl FnOnce(&str) -> String) {
    let names: Vec<String> = paths.iter().take(NAMED).map(|path| engine.workspace.shown(path)).collect();
    let more = paths.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    engine.warn_if((!names.is_empty()).then(|| warning(&format!("{}{more}", names.join(", ")))));
}
