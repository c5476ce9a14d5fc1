//! Checks what would merge, and where forks overlap; describes conflicts with both sides and their sessions.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::trees::{ForkTrees, path_of};
use super::{IgnoredFiles, Merge, MergedPath, PathSelection, apply};
use crate::engine::Engine;
use crate::engine::journal::ChangeNumbers;
use crate::engine::journal::{self, JournalEntry};
use crate::engine::sandbox::fork::ForkFolder;
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind, text};
use crate::search::page::json_bytes;
use crate::sha256::Sha256;
use crate::text::escaped::plural;
use crate::text::lines::LineSpan;
use crate::text::merge::{EqualChanges, changed_lines, merge};
use crate::text::tree_merge::{self, Action, ConflictKind, Path, Plan, Side};
use crate::tools::Tool as _;
use crate::tools::common::{ListEnd, fitting};
use crate::tools::undo::touches;

/// Largest file whose lines are compared between forks, in bytes.
const OVERLAP_BYTES_MAX: u64 = 1 << 20;

/// Result of a check.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CheckResult {
    /// Forks, by name
    pub forks: Vec<CheckedFork>,
    /// Files that several forks changed
    pub overlaps: Vec<Overlap>,
    /// Number of these files, if the list was cut
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlaps_total: Option<usize>,
}

/// A fork that was checked.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CheckedFork {
    /// Name
    pub name: String,
    /// True if it would merge now
    pub mergeable: bool,
    /// Files that it would change here
    pub files: Vec<MergedPath>,
    /// Number of files that it changed, with conflicts
    pub count: usize,
    /// Conflicts
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// Other reason why it would not merge
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Ignored files that it would leave out
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored: Option<IgnoredFiles>,
}

/// A file that several forks changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Overlap {
    /// Path
    pub path: String,
    /// Forks that changed it
    pub forks: Vec<OverlapSide>,
    /// True if two of them would conflict
    pub conflict: bool,
}

/// A fork that changed a file as well.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OverlapSide {
    /// Name
    pub name: String,
    /// First and last lines that it changed, if it is a text; none if it removed the file
    pub lines: Vec<[usize; 2]>,
}

/// A fork with its trees and plan.
struct PlannedFork<'f> {
    /// The trees.
    trees: ForkTrees<'f>,
    /// The plan.
    plan: Plan,
}

/// Checks forks against the workspace and each other; changes nothing.
///
/// # Errors
/// Fails with `timeout` if the call was cancelled, or returns the OS error.
pub fn check(
    engine: &mut Engine,
    forks: &[ForkFolder],
    named: &PathSelection,
    bytes_max: Option<usize>,
) -> Result<CheckResult, Error> {
    // Each list of the response gets the same room.
    let bytes_max = engine.bytes_max(bytes_max).div_ceil(2 * forks.len() + 1);
    let mut planned = Vec::new();
    for fork in forks {
        let trees = ForkTrees::read(engine, fork, &named.0)?;
        let plan = trees.plan()?;
        planned.push(PlannedFork { trees, plan });
    }
    let mut checked = Vec::new();
    for planned in &planned {
        let mut fork = one(engine, planned, named)?;
        fork.files = cut(bytes_max, fork.files);
        fork.conflicts = cut(bytes_max, fork.conflicts);
        checked.push(fork);
    }
    let overlaps = overlaps(engine, &planned, named)?;
    let total = overlaps.len();
    let overlaps = cut(bytes_max, overlaps);
    let overlaps_total = (overlaps.len() < total).then_some(total);
    Ok(CheckResult { forks: checked, overlaps, overlaps_total })
}

/// Returns the first entries that fit into `bytes_max`.
fn cut<T: Serialize>(bytes_max: usize, list: Vec<T>) -> Vec<T> {
    fitting(bytes_max, list.into_iter(), |entry| usize::try_from(json_bytes(entry)).unwrap_or(usize::MAX))
}

/// Checks one fork.
fn one(engine: &mut Engine, planned: &PlannedFork<'_>, named: &PathSelection) -> Result<CheckedFork, Error> {
    let PlannedFork { trees, plan } = planned;
    let conflicts = named.conflicts(plan);
    let conflicts = ConflictDescriber::new(engine, trees).describe(&conflicts);
    let actions = named.actions(plan);
    let mut change = engine.begin(Merge::NAME, &[], true)?;
    let applied = apply::apply(&mut change, trees, &actions);
    let (files, reason) = match applied {
        Ok(files) => (files, None),
        Err(error) => {
            let files =
                actions.iter().map(|action| apply::action_for_response(&change, trees, action)).collect();
            (files, Some(error.message().to_owned()))
        }
    };
    Ok(CheckedFork {
        name: trees.fork.record.name.clone(),
        mergeable: conflicts.is_empty() && reason.is_none(),
        count: files.len() + conflicts.len(),
        files,
        conflicts,
        reason,
        ignored: IgnoredFiles::of(change.workspace(), trees),
    })
}

/// Returns the paths of a fork's changes, each with its path in the fork.
fn changed_paths(planned: &PlannedFork<'_>, named: &PathSelection) -> BTreeMap<Path, Option<Path>> {
    let of_action = |action: &&Action| action.paths.clone();
    let actions = named.actions(&planned.plan);
    let conflicts = named.conflicts(&planned.plan);
    let paths = actions.iter().map(of_action).chain(conflicts.iter().map(|conflict| conflict.paths.clone()));
    let mut changed = BTreeMap::new();
    for paths in paths {
        for path in [&paths.base, &paths.theirs].into_iter().flatten() {
            changed.insert(path.clone(), paths.theirs.clone());
        }
    }
    changed
}

/// Finds the files that several forks changed.
fn overlaps(
    engine: &Engine,
    planned: &[PlannedFork<'_>],
    named: &PathSelection,
) -> Result<Vec<Overlap>, Error> {
    let changed: Vec<_> = planned.iter().map(|planned| changed_paths(planned, named)).collect();
    let all: BTreeSet<&Path> = changed.iter().flat_map(BTreeMap::keys).collect();
    let mut found = Vec::new();
    for path in all {
        engine.control.check()?;
        let mut sides = Vec::new();
        for (planned, changed) in planned.iter().zip(&changed) {
            if let Some(theirs) = changed.get(path) {
                sides.push((planned, ForkText::read(planned, path, theirs.as_ref())?));
            }
        }
        if sides.len() < 2 {
            continue;
        }
        let texts: Vec<&ForkText> = sides.iter().map(|(_, text)| text).collect();
        let pairs =
            texts.iter().enumerate().flat_map(|(at, one)| texts.iter().skip(at + 1).map(move |it| (one, it)));
        let conflict = pairs.into_iter().any(|(one, other)| one.conflicts_with(other));
        let forks = sides.iter().map(|(planned, text)| OverlapSide {
            name: planned.trees.fork.record.name.clone(),
            lines: text.lines.iter().map(shown_lines).collect(),
        });
        let path = path_of(path).unwrap_or_else(WorkspacePath::root);
        found.push(Overlap { path: engine.workspace.display(&path), forks: forks.collect(), conflict });
    }
    Ok(found)
}

/// A file in a fork, to be compared with that of another fork.
struct ForkText {
    /// Bytes that the fork began with; empty if there were none.
    base: Vec<u8>,
    /// Bytes in the fork; `None` if it has none, or too many.
    theirs: Option<Vec<u8>>,
    /// Path in the fork.
    path: Option<Path>,
    /// True if the fork renamed it.
    is_renamed: bool,
    /// Lines that it changed.
    lines: Vec<Range<usize>>,
}

impl ForkText {
    /// Reads a file that a fork has at `theirs`.
    fn read(planned: &PlannedFork<'_>, path: &Path, theirs: Option<&Path>) -> Result<Self, Error> {
        let read = |side, path: &Path| planned.trees.bytes(side, path, OVERLAP_BYTES_MAX);
        let base = read(Side::Base, path)?.unwrap_or_default();
        let bytes = theirs.map(|path| read(Side::Theirs, path)).transpose()?.flatten();
        let is_text = |bytes: &Vec<u8>| !bytes.contains(&0);
        let lines = bytes.as_ref().filter(|bytes| is_text(bytes) && is_text(&base));
        let lines = lines.map(|bytes| changed_lines(&base, bytes)).unwrap_or_default();
        let is_renamed = theirs.is_some_and(|theirs| theirs != path);
        Ok(Self { base, theirs: bytes, path: theirs.cloned(), is_renamed, lines })
    }

    /// Returns true if the changes of both do not merge.
    fn conflicts_with(&self, other: &Self) -> bool {
        if self.path == other.path
            && self.theirs == other.theirs
            && self.theirs.is_some() == self.path.is_some()
        {
            return false;
        }
        if self.is_renamed && other.is_renamed && self.path != other.path {
            return true;
        }
        let (Some(one), Some(two)) = (&self.theirs, &other.theirs) else { return true };
        let is_text = |bytes: &Vec<u8>| !bytes.contains(&0);
        let are_texts = [&self.base, one, two].into_iter().all(is_text);
        !are_texts || merge(&self.base, one, two, EqualChanges::Once).is_err()
    }
}

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
pub struct ConflictDescriber<'a> {
    /// The engine.
    engine: &'a Engine,
    /// The trees.
    trees: &'a ForkTrees<'a>,
    /// Changes of the workspace since the fork began, newest first; read on first use.
    changes: OnceCell<Vec<JournalEntry>>,
}

impl<'a> ConflictDescriber<'a> {
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
            path: path.as_ref().map(|path| self.display(path)),
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
        let session = Some(self.trees.fork.record.name.clone());
        let theirs = ConflictSide { session, ..side(Side::Theirs, &paths.theirs, 1) };
        let path = paths.ours.as_ref().or(paths.theirs.as_ref()).or(paths.base.as_ref());
        Conflict {
            path: path.map(|path| self.display(path)).unwrap_or_default(),
            kind: conflict.kind,
            ours,
            theirs,
            target: conflict.target.as_ref().map(|path| self.display(path)),
        }
    }

    /// Returns a path for display.
    fn display(&self, path: &[u8]) -> String {
        path_of(path).map(|path| self.engine.workspace.display(&path)).unwrap_or_default()
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
            let numbers = ChangeNumbers::of(&state, &session)?;
            let mut next = numbers.newest()?;
            while let Some(seq) = next {
                let entry = journal::history_entry(&state, &session, seq)?;
                if entry.as_ref().is_some_and(|entry| entry.time < self.trees.fork.record.created) {
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
            "In the fork (`sandbox` {}), set these files to what the workspace has, and merge; then make its change of them again, and merge. `paths` merges the rest.",
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
