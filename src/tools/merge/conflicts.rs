//! The conflicts of a merge, with both sides and the sessions that they came from.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::trees::{ForkTrees, path_of};
use crate::engine::Engine;
use crate::engine::journal::numbers::Numbers;
use crate::engine::journal::{self, JournalEntry};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind, text};
use crate::sha256::Sha256;
use crate::text::lines::LineSpan;
use crate::text::plural::plural;
use crate::text::tree_merge::{self, ConflictKind, Path, Side};
use crate::tools::common::ListEnd;
use crate::tools::undo::touches;

/// Most conflicts that a message names.
const NAMED: usize = 3;

/// Conflict of a merge.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[expect(clippy::doc_markdown, reason = "the manual page shows the names as they are")]
pub struct Conflict {
    /// Path in the workspace; in the fork, if the workspace has none
    pub path: String,
    /// both_changed, both_added, changed_and_deleted, renamed_and_deleted, both_renamed, same_path, type_changed,
    /// file_and_folder, folder_moved (one side moved the folder of a new file) or base_unknown (another program changed
    /// the file)
    pub kind: ConflictKind,
    /// File in the workspace
    pub ours: ConflictSide,
    /// File in the fork
    pub theirs: ConflictSide,
    /// Path that the file would get, since its folder was moved
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// One side of a conflict.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct ConflictSide {
    /// Path; absent if there is no file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// SHA-256 of its bytes
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    /// First and last lines that conflict, if it is a text
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<[usize; 2]>,
    /// Session that changed it last
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Number of that change
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// True if no session of this workspace changed it since the fork began
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
}

/// Returns first and last line of a range; of an empty one, the line before it.
pub fn shown_lines(range: &Range<usize>) -> [usize; 2] {
    [(range.start + usize::from(!range.is_empty())).max(1), range.end.max(1)]
}

/// Describes the conflicts of a fork.
pub struct Describer<'a> {
    /// The engine.
    engine: &'a Engine,
    /// The trees.
    trees: &'a ForkTrees<'a>,
    /// Changes of the workspace since the fork began, newest first; read on first use.
    changes: OnceCell<Vec<JournalEntry>>,
}

impl<'a> Describer<'a> {
    /// Describes conflicts of these trees.
    pub const fn new(engine: &'a Engine, trees: &'a ForkTrees<'a>) -> Self {
        Self { engine, trees, changes: OnceCell::new() }
    }

    /// Returns conflicts for a response.
    pub fn describe(&self, conflicts: &[&tree_merge::Conflict]) -> Vec<Conflict> {
        conflicts.iter().map(|conflict| self.one(conflict)).collect()
    }

    /// Returns one conflict for a response.
    fn one(&self, conflict: &tree_merge::Conflict) -> Conflict {
        let paths = &conflict.paths;
        let lines =
            |side: usize| conflict.lines.iter().filter_map(|both| both.get(side)).map(shown_lines).collect();
        let side = |side, path: &Option<Path>, number| ConflictSide {
            path: path.as_ref().map(|path| self.shown(path)),
            sha256: self.trees.version(side, path.as_ref()).map(|version| version.sha256),
            lines: lines(number),
            ..ConflictSide::default()
        };
        let changed = [&paths.ours, &paths.base, &paths.theirs].into_iter().flatten();
        let change = changed.filter_map(|path| path_of(path)).find_map(|path| self.newest_change(&path));
        let ours = ConflictSide {
            session: change.map(|change| change.session.clone()),
            seq: change.map(|change| change.seq),
            external: change.is_none(),
            ..side(Side::Ours, &paths.ours, 0)
        };
        // A fork's session has its name.
        let session = Some(self.trees.fork_name().to_owned());
        let theirs = ConflictSide { session, ..side(Side::Theirs, &paths.theirs, 1) };
        let path = paths.ours.as_ref().or(paths.theirs.as_ref()).or(paths.base.as_ref());
        Conflict {
            path: path.map(|path| self.shown(path)).unwrap_or_default(),
            kind: conflict.kind,
            ours,
            theirs,
            target: conflict.target.as_ref().map(|path| self.shown(path)),
        }
    }

    /// Returns a path for display.
    fn shown(&self, path: &[u8]) -> String {
        path_of(path).map(|path| self.engine.workspace.shown(&path)).unwrap_or_default()
    }

    /// Returns the newest change of a path since the fork began.
    fn newest_change(&self, path: &WorkspacePath) -> Option<&JournalEntry> {
        let changes = self.changes.get_or_init(|| self.read_changes().unwrap_or_default());
        changes.iter().find(|entry| touches(entry, path))
    }

    /// Reads the changes of the workspace since the fork began, newest first.
    fn read_changes(&self) -> Result<Vec<JournalEntry>, Error> {
        let Some(state) = State::find(&self.engine.workspace)? else { return Ok(Vec::new()) };
        let mut changes = Vec::new();
        for session in journal::sessions(&state)? {
            let numbers = Numbers::of(&state, &session)?;
            let mut next = numbers.newest()?;
            while let Some(seq) = next {
                let entry = journal::done_entry(&state, &session, seq)?;
                if entry.as_ref().is_some_and(|entry| entry.time < self.trees.fork_created()) {
                    break;
                }
                changes.extend(entry);
                next = numbers.before(seq)?;
            }
        }
        changes.sort_by_key(|entry| Reverse((entry.time, entry.seq)));
        Ok(changes)
    }
}

/// Returns the error of a merge with conflicts.
pub fn refused(engine: &Engine, fork: &str, mut conflicts: Vec<Conflict>, bytes_max: Option<usize>) -> Error {
    let total = conflicts.len();
    let first = conflicts.first().map(|conflict| conflict.path.clone()).unwrap_or_default();
    let named: Vec<String> = conflicts.iter().take(NAMED).map(short).collect();
    let more = if total > NAMED { format!(" and {} more", total - NAMED) } else { String::new() };
    let message = format!(
        "the fork {fork} does not merge: {} ({}{more}); nothing was changed",
        plural(total, "conflict"),
        named.join("; ")
    );
    let end = ListEnd::of(engine, bytes_max, &mut conflicts);
    let error = Error::new(ErrorKind::StaleFile, message)
        .at(first)
        .suggest(text!(
            "Change these files in the fork (`sandbox` {}) so that they fit, then merge again. `paths` merges the rest.",
            fork
        ))
        .detail("conflicts", serde_json::to_value(&conflicts).unwrap_or_default());
    if end.truncated { error.detail("total", total) } else { error }
}

/// Returns a conflict in a few words.
fn short(conflict: &Conflict) -> String {
    let theirs = conflict.theirs.path.iter().filter(|path| **path != conflict.path);
    let renamed: String = theirs.map(|path| format!(", in the fork {path}")).collect();
    let lines = conflict.ours.lines.first();
    let lines =
        lines.map(|&[first, last]| format!(", {}", LineSpan { first: first as u64, last: last as u64 }));
    let lines = lines.unwrap_or_default();
    format!("{}: {}{renamed}{lines}", conflict.path, conflict.kind)
}
