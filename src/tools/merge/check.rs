//! Checks what would merge, and where forks overlap.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::conflicts::{Conflict, Describer, shown_lines};
use super::trees::{ForkTrees, path_of};
use super::{Ignored, Merge, MergedPath, Selection, apply};
use crate::engine::Engine;
use crate::engine::sandbox::fork::ForkFolder;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;
use crate::search::page::json_bytes;
use crate::text::merge::{Alike, changed_lines, merge};
use crate::text::tree_merge::{Action, Path, Plan, Side};
use crate::tools::Tool as _;
use crate::tools::common::fitting;

/// Largest file whose lines are compared between forks, in bytes.
const OVERLAP_BYTES_MAX: u64 = 1 << 20;

/// Result of a check.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Checked {
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
    pub ignored: Option<Ignored>,
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
struct Planned<'f> {
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
    named: &Selection,
    bytes_max: Option<usize>,
) -> Result<Checked, Error> {
    // Each list of the response gets the same room.
    let bytes_max = engine.bytes_max(bytes_max).div_ceil(2 * forks.len() + 1);
    let mut planned = Vec::new();
    for fork in forks {
        let trees = ForkTrees::read(engine, fork, &named.0)?;
        let plan = trees.plan()?;
        planned.push(Planned { trees, plan });
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
    Ok(Checked { forks: checked, overlaps, overlaps_total })
}

/// Returns the first entries that fit into `bytes_max`.
fn cut<T: Serialize>(bytes_max: usize, list: Vec<T>) -> Vec<T> {
    fitting(bytes_max, list.into_iter(), |entry| usize::try_from(json_bytes(entry)).unwrap_or(usize::MAX))
}

/// Checks one fork.
fn one(engine: &mut Engine, planned: &Planned<'_>, named: &Selection) -> Result<CheckedFork, Error> {
    let Planned { trees, plan } = planned;
    let conflicts = named.conflicts(plan);
    let conflicts = Describer::new(engine, trees).describe(&conflicts);
    let actions = named.actions(plan);
    let mut change = engine.begin(Merge::NAME, &[], true)?;
    let applied = apply::apply(&mut change, trees, &actions);
    let (files, reason) = match applied {
        Ok(files) => (files, None),
        Err(error) => {
            let files = actions.iter().map(|action| apply::listed(&change, trees, action)).collect();
            (files, Some(error.message().to_owned()))
        }
    };
    Ok(CheckedFork {
        name: trees.fork_name().to_owned(),
        mergeable: conflicts.is_empty() && reason.is_none(),
        count: files.len() + conflicts.len(),
        files,
        conflicts,
        reason,
        ignored: Ignored::of(change.workspace(), trees),
    })
}

/// Returns the paths of a fork's changes, each with its path in the fork.
fn changed_paths(planned: &Planned<'_>, named: &Selection) -> BTreeMap<Path, Option<Path>> {
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
fn overlaps(engine: &Engine, planned: &[Planned<'_>], named: &Selection) -> Result<Vec<Overlap>, Error> {
    let changed: Vec<_> = planned.iter().map(|planned| changed_paths(planned, named)).collect();
    let all: BTreeSet<&Path> = changed.iter().flat_map(BTreeMap::keys).collect();
    let mut found = Vec::new();
    for path in all {
        engine.control.check()?;
        let mut sides = Vec::new();
        for (planned, changed) in planned.iter().zip(&changed) {
            if let Some(theirs) = changed.get(path) {
                sides.push((planned, Text::read(planned, path, theirs.as_ref())?));
            }
        }
        if sides.len() < 2 {
            continue;
        }
        let texts: Vec<&Text> = sides.iter().map(|(_, text)| text).collect();
        let pairs =
            texts.iter().enumerate().flat_map(|(at, one)| texts.iter().skip(at + 1).map(move |it| (one, it)));
        let conflict = pairs.into_iter().any(|(one, other)| one.conflicts_with(other));
        let forks = sides.iter().map(|(planned, text)| OverlapSide {
            name: planned.trees.fork_name().to_owned(),
            lines: text.lines.iter().map(shown_lines).collect(),
        });
        let path = path_of(path).unwrap_or_else(WorkspacePath::root);
        found.push(Overlap { path: engine.workspace.shown(&path), forks: forks.collect(), conflict });
    }
    Ok(found)
}

/// A file in a fork, to be compared with that of another fork.
struct Text {
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

impl Text {
    /// Reads a file that a fork has at `theirs`.
    fn read(planned: &Planned<'_>, path: &Path, theirs: Option<&Path>) -> Result<Self, Error> {
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
        !are_texts || merge(&self.base, one, two, Alike::Once).is_err()
    }
}
